"""Descriptions of functions for a model."""

import contextlib
import dataclasses
import functools
import inspect
import json
import math
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
    Union,
)
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from conversation_state._persistent import thaw
from conversation_state.adapters import (
    anthropic,
    gemini,
    openai_chat,
    openai_responses,
)
from conversation_state.errors import DecodeError, InvalidToolError, MissingExtraError
from conversation_state.messages import UserMessage
from conversation_state.testing.provider import judge
from conversation_state.testing.strategies import json_values, texts
from conversation_state.tools import ToolInfo, read_arguments
from tests.processes import run_script


def refused(make: Callable[[], object]) -> str:
    """The message of the error that *make* raises."""
    with pytest.raises(InvalidToolError) as raised:
        make()

    return str(raised.value)


class Comfort(Enum):
    """How one sits."""

    SECOND = "second"
    FIRST = "first"


class Colour(StrEnum):
    RED = "r"
    GREEN = "g"


class Size(IntEnum):
    SMALL = 1
    LARGE = 9


class Unfit(Enum):
    POINT = (1, 2)


@attrs.frozen
class Place:
    """
    Somewhere on earth.

    Attributes:
        lat: Degrees north.
    """

    lat: float
    lon: float = 0.0
    tags: list[str] = attrs.field(factory=list)


@dataclasses.dataclass
class Leg:
    start: Place
    end: "Place | str"
    notes: list[str] = dataclasses.field(default_factory=list)


T = TypeVar("T")
Word = TypeVar("Word", bound=str)
Number = NewType("Number", int)


@dataclasses.dataclass
class Tree(Generic[T]):
    """A tree."""

    value: T
    branches: "list[Tree[T]]" = dataclasses.field(default_factory=list)


@attrs.frozen
class Husband:
    wife: "Wife | None" = None


@attrs.frozen
class Wife:
    husband: "Husband | None" = None


class Options(TypedDict, total=False):
    speed: Required[float]
    colour: Colour


class More(Options):
    deep: bool
    wide: NotRequired[bool]


class Range(NamedTuple):
    """From and to."""

    low: int
    high: int = 9


class Record(msgspec.Struct):
    number: int
    places: list[Place] = []


class Plain:
    def __init__(self, a: int) -> None:
        self.a = a


# From msgspec 0.23 on, a schema has the default of a field whose factory is `list`.
_VERSION = tuple(map(int, msgspec.__version__.split(".")[:2]))
OF_FACTORY: dict[str, Any] = {"default": []} if _VERSION >= (0, 23) else {}


def array(items: Any = None, **more: Any) -> dict[str, Any]:
    """The schema of an array of these items."""
    return {"type": "array", "items": {} if items is None else items, **more}


def closed(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    """The schema of an object of these properties and no others."""
    needed = {"required": list(required)} if required else {}
    schema = {"type": "object", "properties": properties, **needed}
    return {**schema, "additionalProperties": False, **more}


PLACE = closed(
    {
        "lat": {"type": "number"},
        "lon": {"type": "number", "default": 0.0},
        "tags": array({"type": "string"}, **OF_FACTORY),
    },
    "lat",
    description="Somewhere on earth.\n\nAttributes:\n    lat: Degrees north.",
)
COLOUR = {"type": "string", "enum": ["g", "r"]}
HIDDEN = object()
NULL = {"type": "null"}
STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}

# A type and its schema. What values that takes is a law, below.
KINDS: list[tuple[Any, Any]] = [
    (int, INTEGER),
    (float, NUMBER),
    (str, STRING),
    (bool, {"type": "boolean"}),
    (None, NULL),
    (Any, {}),
    (Number, INTEGER),
    (Word, STRING),
    (T, {}),
    (int | None, {"anyOf": [INTEGER, NULL]}),
    (Optional[str], {"anyOf": [STRING, NULL]}),  # noqa: UP045 - both
    (Literal["b", "a"], {"type": "string", "enum": ["a", "b"]}),
    (Literal[2, "a", None], {"enum": [None, 2, "a"]}),  # noqa: PYI061 - null among others
    (
        Comfort,
        {
            "type": "string",
            "enum": ["first", "second"],
            "description": "How one sits.",
        },
    ),
    (Colour, COLOUR),
    (Size, {"type": "integer", "enum": [1, 9]}),
    (list, array()),
    (list[int], array(INTEGER)),
    (Sequence[int], array(INTEGER)),
    (tuple[int, ...], array(INTEGER)),
    (
        tuple[int, str],
        array(prefixItems=[INTEGER, STRING], items=False, minItems=2, maxItems=2),
    ),
    (set[int], array(INTEGER, uniqueItems=True)),
    (AbstractSet[str], array(STRING, uniqueItems=True)),
    (dict, {"type": "object"}),
    (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
    (Mapping[str, Any], {"type": "object"}),
    (datetime, {"type": "string", "format": "date-time"}),
    (date, {"type": "string", "format": "date"}),
    (time, {"type": "string", "format": "time"}),
    (timedelta, {"type": "string", "format": "duration"}),
    (UUID, {"type": "string", "format": "uuid"}),
    (Decimal, {"type": "string", "format": "decimal"}),
    (bytes, {"type": "string", "contentEncoding": "base64"}),
    (Annotated[int, "how many"], {**INTEGER, "description": "how many"}),
    (
        dict[str, Annotated[int, "each"] | None],
        {
            "type": "object",
            "additionalProperties": {
                "anyOf": [{**INTEGER, "description": "each"}, NULL]
            },
        },
    ),
    (datetime | None, {"anyOf": [{"type": "string", "format": "date-time"}, NULL]}),
    (
        Annotated[int, msgspec.Meta(ge=1, le=9, description="how many")],
        {**INTEGER, "minimum": 1, "maximum": 9, "description": "how many"},
    ),
    (
        list[Annotated[str, msgspec.Meta(pattern="^a", max_length=2)]],
        array({**STRING, "pattern": "^a", "maxLength": 2}),
    ),
    (Place, PLACE),
    (
        Leg,
        closed(
            {
                "start": PLACE,
                "end": {"anyOf": [PLACE, STRING]},
                "notes": array(STRING, **OF_FACTORY),
            },
            "start",
            "end",
        ),
    ),
    (
        Range,
        array(
            description="From and to.",
            prefixItems=[INTEGER, {"type": "integer", "default": 9}],
            minItems=1,
            maxItems=2,
        ),
    ),
    (
        More,
        closed(
            {
                "colour": COLOUR,
                "deep": {"type": "boolean"},
                "speed": {"type": "number"},
                "wide": {"type": "boolean"},
            },
            "deep",
            "speed",
        ),
    ),
    (
        Record,
        closed({"number": INTEGER, "places": array(PLACE, default=[])}, "number"),
    ),
]


def of_kind(kind: Any) -> Any:
    """The schema of a function that takes an *x* of that kind."""

    def f(x): ...

    f.__annotations__["x"] = kind
    return thaw(ToolInfo.from_function(f).schema)


def takes(schema: Any, value: Any) -> bool:
    """Whether *schema*, which is one, takes *value*."""
    Draft202012Validator.check_schema(schema)
    valid: bool = Draft202012Validator(schema).is_valid(json.loads(json.dumps(value)))
    return valid


class TestKinds:
    """What types are in JSON."""

    @pytest.mark.parametrize(("kind", "schema"), KINDS, ids=[repr(k[0]) for k in KINDS])
    def test_schema(self, kind, schema):
        """Each has a schema of its own."""
        whole = of_kind(kind)

        assert {
            "type": "object",
            "properties": {"x": schema},
            "required": ["x"],
            "additionalProperties": False,
        } == whole
        # Of the same types, too: `True` is no `1` here.
        assert json.dumps(schema, sort_keys=True) == json.dumps(
            whole["properties"]["x"], sort_keys=True
        )
        Draft202012Validator.check_schema(whole)

    @pytest.mark.parametrize(
        "adapter", [anthropic, gemini, openai_chat, openai_responses]
    )
    def test_providers_take_all_of_them(self, adapter):
        """A tool with a parameter of each kind is in a request that is not refused."""

        def f(**_): ...

        f.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(
                    f"x{at}", inspect.Parameter.KEYWORD_ONLY, annotation=kind
                )
                for at, (kind, _) in enumerate([*KINDS, (Tree[int], None)])
            ]
        )
        tools = adapter.dump_tools([ToolInfo.from_function(f)])
        request = adapter.dump([UserMessage("Hi")]).payload | tools.payload

        assert () == tools.lost
        assert () == judge(adapter.__name__.rpartition(".")[2], request)

    @pytest.mark.parametrize(
        ("kind", "shown"),
        [
            (complex, "complex"),
            (Plain, "Plain"),
            (Unfit, "Unfit"),
            (list[Plain], "test_tools_functions.Plain]"),
            (Callable[[], int], "Callable[[], int]"),
            (str | datetime, "str | datetime.datetime"),
            (list[int] | list[str], "list[int] | list[str]"),
            (Place | Leg, "Place | "),
            (Annotated[str, msgspec.Meta(ge=1)], "Annotated[str"),
            (5, "5"),
        ],
    )
    def test_names_what_has_no_schema(self, kind, shown):
        """A type that JSON or msgspec can't represent is named, and what to do."""
        problem = refused(lambda: of_kind(kind))

        assert "f() is no tool: msgspec can't represent " in problem
        assert shown in problem
        assert "the type of x " in problem
        assert problem.endswith("or leave the parameter out: without=('x',)")

    @pytest.mark.parametrize(
        ("kind", "right", "wrong"),
        [
            (
                Tree[str],
                {"value": "a", "branches": [{"value": "b", "branches": []}]},
                {"value": "a", "branches": [{"value": 1}]},
            ),
            (
                Husband,
                {"wife": {"husband": {"wife": None}}},
                {"wife": {"husband": {"wife": 5}}},
            ),
            (Wife, {"husband": {"wife": None}}, {"husband": {"husband": None}}),
        ],
    )
    def test_recursive(self, kind, right, wrong):
        """What refers to itself is defined once and referred to."""
        schema = of_kind(kind)

        assert takes(schema, {"x": right})
        assert not takes(schema, {"x": wrong})
        assert 1 == len(schema["$defs"])

    def test_recursive_and_not(self):
        """
        Of the same name and different, each is defined; what does not refer to
        itself is written where it is used.
        """

        def f(a: Tree[int], b: Tree[str], c: Husband | None, d: Place): ...

        schema = thaw(ToolInfo.from_function(f).schema)

        assert {"Tree_int_", "Tree_str_", "Husband"} == schema["$defs"].keys()
        assert {"$ref": "#/$defs/Tree_int_"} == schema["properties"]["a"]
        assert {"$ref": "#/$defs/Tree_str_"} == schema["properties"]["b"]
        assert PLACE == schema["properties"]["d"]
        place = {"lat": 1}
        assert takes(
            schema, {"a": {"value": 1}, "b": {"value": "a"}, "c": None, "d": place}
        )
        assert not takes(
            schema, {"a": {"value": "a"}, "b": {"value": 1}, "c": None, "d": place}
        )

    def test_too_large(self):
        """A schema that doubles with every level is refused, in bounded time."""
        kind: Any = int
        for i in range(40):
            kind = attrs.make_class(
                f"C{i}", {"a": attrs.field(type=kind), "b": attrs.field(type=kind)}
            )

        assert "its schema has more than 5,000 parts" in refused(lambda: of_kind(kind))


# A docstring, what it describes, and each parameter.
DOCSTRINGS = [
    (
        """
        Books a train.

        The cheapest one.

        >>> f("Bern")
        ... # nothing
        5

        Args:
            x: Where to:
                a city.

            more: Colours.

        Raises:
            ValueError:
                If there is none.

        Source:
            The railway.
        """,
        "Books a train. The cheapest one.",
        {"x": "Where to: a city.", "more": "Colours."},
    ),
    (
        """
        Books a train.

        Parameters
        ----------
        x, y : float
            Coordinates.
        z : int, optional
        **more
            Colours.

        Returns
        -------
        str
            The booking.
        """,
        "Books a train.",
        {"x": "Coordinates.", "y": "Coordinates.", "more": "Colours."},
    ),
    (
        "Books.\n\n:param x: Where to.\n:param z: How many.",
        "Books.",
        {"x": "Where to.", "z": "How many."},
    ),
    (":   :returns: a\n:type x: int.", ": :returns: a :type x: int.", {}),
    (None, "", {}),
]


def wrapped(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


class Desk:
    """A desk."""

    def book(self, to: str) -> None:
        """Books."""

    @classmethod
    def cancel(cls, number: int) -> None:
        """Cancels."""

    @staticmethod
    def ask(question: str) -> None:
        """Asks."""

    @functools.lru_cache  # noqa: B019 - is never called
    def find(self, name: str) -> None:
        """Finds."""

    def __call__(self, question: str) -> None:
        """
        Answers.

        Args:
            question: In words.
        """


class Silent:
    """Says nothing."""

    def __call__(self, word: str) -> None: ...


def takes_many(a: Leg, b: set[Literal["x", "y"]], c: Tree[int] | None): ...


class TestFromFunction:
    @pytest.mark.parametrize(
        ("docstring", "description", "texts"), DOCSTRINGS, ids=map(str, range(5))
    )
    def test_docstrings(self, docstring, description, texts):
        """
        What a function does, and what each parameter means, whatever the style; not
        what is written for programmers. What has no style is the description.
        """

        def f(x, y, z=1, **more): ...

        f.__doc__ = docstring
        tool = ToolInfo.from_function(f)
        schema = thaw(tool.schema)
        found = {**schema["properties"], "more": schema["additionalProperties"]}

        assert description == " ".join(tool.description.split())
        assert texts == {
            name: " ".join(each["description"].split())
            for name, each in found.items()
            if each is not True and "description" in each
        }

    def test_decorated_elsewhere(self):
        """Hints are read where the function was written, and not its decorator."""
        elsewhere: dict[str, Any] = {"functools": functools}
        exec(inspect.getsource(wrapped), elsewhere)

        @elsewhere["wrapped"]
        def f(a: "Place"): ...

        assert {"a": PLACE} == thaw(ToolInfo.from_function(f).schema)["properties"]

    def test_silent(self):
        """
        A function without a docstring is described by its name, and an
        argument without a hint is any JSON value.
        """

        def f(z, a, b=2): ...

        tool = ToolInfo.from_function(f)

        assert ("f", "") == (tool.name, tool.description)
        assert {
            "type": "object",
            "properties": {"z": {}, "a": {}, "b": {"default": 2}},
            "required": ["a", "z"],
            "additionalProperties": False,
        } == thaw(tool.schema)
        assert ["z", "a", "b"] == [*thaw(tool.schema)["properties"]]

    def test_takes_nothing(self):
        """A function without parameters takes an empty object."""
        tool = ToolInfo.from_function(lambda: 5, name="five", description="Five.")

        assert ("five", "Five.") == (tool.name, tool.description)
        assert {
            "type": "object",
            "properties": {},
            "additionalProperties": False,
        } == thaw(tool.schema)

    def test_description_in_both(self):
        """What a parameter is for, then what its type is."""

        def f(comfort: Comfort = Comfort.FIRST, place: Annotated[int, "A."] = 0):
            """
            F.

            Args:
                comfort: Which class.
                place: A.
            """

        properties = thaw(ToolInfo.from_function(f).schema)["properties"]

        assert "Which class.\nHow one sits." == properties["comfort"]["description"]
        assert "A." == properties["place"]["description"]
        assert "first" == properties["comfort"]["default"]

    def test_description_of_others(self):
        """A description in Annotated may be of another library's making."""
        field = type("Field", (), {"description": "Where to."})()
        kind = Annotated[str, field]

        assert "Where to." == of_kind(kind)["properties"]["x"]["description"]

    def test_limits_of_others(self):
        """Limits of `annotated_types` and of a `pydantic.Field` are shown, and hold."""
        field = pydantic.Field(ge=1, le=5, description="How many.")
        word = pydantic.Field(pattern="^a", min_length=1, max_length=2)
        even = pydantic.Field(lt=9, multiple_of=2)

        def f(
            n: Annotated[int, field],
            m: Annotated[str, word],
            k: pydantic.PositiveInt,
            j: Annotated[int, even],
        ): ...

        assert {
            "n": {
                "type": "integer",
                "minimum": 1,
                "maximum": 5,
                "description": "How many.",
            },
            "m": {"type": "string", "pattern": "^a", "minLength": 1, "maxLength": 2},
            "k": {"type": "integer", "exclusiveMinimum": 0},
            "j": {"type": "integer", "exclusiveMaximum": 9, "multipleOf": 2},
        } == thaw(ToolInfo.from_function(f).parameters)["properties"]
        with pytest.raises(DecodeError, match="<= 5"):
            read_arguments(f, {"n": 6, "m": "a", "k": 1, "j": 2})

    def test_field_as_default(self):
        """A Field that stands where a default does would be the argument itself."""

        def f(n: int = pydantic.Field(3, description="How many.")): ...

        assert "write n: Annotated[..., Field(...)], and the value as" in refused(
            lambda: ToolInfo.from_function(f)
        )

    def test_limits_that_exclude_each_other(self):
        """Limits that make no type are reported with their parameter."""

        def f(n: Annotated[int, pydantic.Field(ge=1, gt=0)]): ...

        assert "the type of n (" in refused(lambda: ToolInfo.from_function(f))

    @pytest.mark.parametrize(
        ("default", "shown"),
        [
            (math.nan, HIDDEN),
            (object(), HIDDEN),
            (2**64, HIDDEN),
            (5, 5),
            (None, None),
            ((1, "a"), [1, "a"]),
            (Comfort.FIRST, "first"),
            (Size.LARGE, 9),
            (date(2031, 5, 6), "2031-05-06"),
        ],
        ids=map(str, range(9)),
    )
    def test_defaults(self, default, shown):
        """A default is shown as the JSON it is; it need not be given in any case."""

        def f(x=default): ...

        schema = thaw(ToolInfo.from_function(f).schema)

        expected = {} if shown is HIDDEN else {"default": shown}
        assert {"x": expected} == schema["properties"]
        assert "required" not in schema

    def test_default_its_type_does_not_take(self):
        """A default that a model could not give is not shown."""

        def f(x: int = None, y: int | None = None, z: Colour = "blue"): ...  # type: ignore[assignment] # noqa: RUF013

        properties = thaw(ToolInfo.from_function(f).schema)["properties"]

        assert INTEGER == properties["x"]
        assert {"anyOf": [INTEGER, NULL], "default": None} == properties["y"]
        assert COLOUR == properties["z"]

    @pytest.mark.parametrize(
        ("function", "name", "description", "takes"),
        [
            (Desk().book, "book", "Books.", "to"),
            (Desk.cancel, "cancel", "Cancels.", "number"),
            (Desk.ask, "ask", "Asks.", "question"),
            (Desk().find, "find", "Finds.", "name"),
            (Desk(), "Desk", "Answers.", "question"),
            (Silent(), "Silent", "Says nothing.", "word"),
            (wrapped(Desk().book), "book", "Books.", "to"),
            (functools.partial(Desk.book, Desk()), "book", "Books.", "to"),
        ],
        ids=map(str, range(8)),
    )
    def test_what_can_be_called(self, function, name, description, takes):
        """Methods, instances, partials and what decorators made of them."""
        tool = ToolInfo.from_function(function)
        properties = thaw(tool.schema)["properties"]

        assert (name, description) == (tool.name, tool.description)
        assert [takes] == list(properties)
        assert ("integer" if takes == "number" else "string") == (
            properties[takes]["type"]
        )

    def test_partial(self):
        """What is bound already is not a model's to give, by place or by name."""

        def f(a: int, b: int, c: int, d: int = 4): ...

        partial = functools.partial(functools.partial(f, 1), b=2)
        tool = ToolInfo.from_function(functools.partial(partial, d=5))

        assert "f" == tool.name
        assert {"c": INTEGER} == thaw(tool.schema)["properties"]

    def test_further_arguments(self):
        """Those of any name, if the function takes them."""

        def untyped(a: int, **more): ...
        def typed(a: int, **more: int | str): ...

        first, second = (
            thaw(ToolInfo.from_function(each).schema) for each in (untyped, typed)
        )

        assert takes(first, {"a": 1, "b": [1]})
        assert takes(second, {"a": 1, "b": "a"})
        assert not takes(second, {"a": 1, "b": [1]})
        assert True is first["additionalProperties"]

    def test_without(self):
        """Parameters of any type may be hidden: their types are not read."""

        def f(ctx: "Nobody", /, to: str, *rest: bytes, db: bytes): ...  # type: ignore[name-defined] # noqa: F821

        tool = ToolInfo.from_function(f, without=("ctx", "rest", "db"))

        assert {"to": STRING} == thaw(tool.schema)["properties"]
        assert ["to"] == thaw(tool.schema)["required"]

    @pytest.mark.parametrize(
        ("without", "message"),
        [
            (("b",), "can't leave 'b' out of f(), which has no such parameter; its"),
            ("a", "without is 'a'; expected names, like ('a',)"),
            (5, "without is 5; expected names, like ('ctx',)"),
        ],
    )
    def test_without_what_is_not_there(self, without, message):
        """Hidden can only be what is there."""

        def f(a): ...

        problem = refused(lambda: ToolInfo.from_function(f, without=without))

        assert problem.startswith(message)

    def test_can_not_be_called_by_name(self):
        """A model gives arguments by name."""

        def positional(a, /, b): ...
        def several(*numbers): ...

        assert (
            "positional() is no tool: a model gives arguments by name, and a is "
            "positional-only; remove the / after it, or leave the parameter out: "
            "without=('a',)"
        ) == refused(lambda: ToolInfo.from_function(positional))
        assert "*numbers has no names; take a list, numbers: list[...], or" in refused(
            lambda: ToolInfo.from_function(several)
        )

    @pytest.mark.parametrize(
        ("function", "message"),
        [
            (5, "expected a function, got 5; pass something that is called with"),
            (Place, "expected a function, got a class; pass something that is called"),
            (lambda x: x, "<lambda> is no valid tool name; pass name=..."),
            (
                Desk.book,
                "book() is no tool: a model gives arguments by name, and it is not",
            ),
            (min, "min() is no tool: its signature is unknown (no signature"),
        ],
    )
    def test_refuses(self, function, message):
        """What a model could not call."""
        assert refused(lambda: ToolInfo.from_function(function)).startswith(message)

    def test_unresolved(self):
        """An unknown hint is reported with what to do."""

        def f(a: "list[Nobody]"): ...  # type: ignore[name-defined] # noqa: F821
        def g(a: "1 / 0"): ...  # type: ignore[valid-type]

        assert (
            "f() is no tool: can't resolve the type of a (NameError: name 'Nobody' is "
            "not defined); define or import it in the module itself, "
        ) in refused(lambda: ToolInfo.from_function(f))
        assert "ZeroDivisionError" in refused(lambda: ToolInfo.from_function(g))

    def test_missing_extra(self, monkeypatch):
        """Without the extra the error names it."""
        name = "conversation_state.tools._functions"
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.delattr(name, raising=False)
        monkeypatch.setitem(sys.modules, "docstring_parser", None)

        with pytest.raises(MissingExtraError) as raised:
            ToolInfo.from_function(wrapped)
        with pytest.raises(MissingExtraError, match="reading the arguments of a call"):
            read_arguments(wrapped, {})

        assert ("ToolInfo.from_function", "tools") == raised.value.args

    def test_same_in_every_process(self):
        """Neither the seed of hashes nor the call makes a difference."""
        script = (
            "from tests.test_tools_functions import *\n"
            "print(json.dumps(thaw(ToolInfo.from_function(takes_many).schema)))"
        )
        here = ToolInfo.from_function(takes_many)

        assert here == ToolInfo.from_function(takes_many)
        assert (
            json.dumps(thaw(here.schema))
            == run_script(script, PYTHONHASHSEED="7").strip()
        )

    @pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
    def test_new_syntax(self):
        """Type aliases and type parameters of Python 3.12."""
        names: dict[str, Any] = {}
        exec(  # older Pythons could not even parse it
            "type Pair = tuple[int, int]\n"
            "def f[Y: str](a: Pair, c: Y, d: 'list[Y]'): ...",
            names,
        )
        schema = thaw(ToolInfo.from_function(names["f"]).schema)
        right = {"a": [1, 2], "c": "x", "d": ["x"]}

        assert takes(schema, right)
        for key, wrong in {"a": [1], "c": 1, "d": [1]}.items():
            assert not takes(schema, {**right, key: wrong})


# Types with values of theirs.

SCALARS: Any = st.sampled_from(
    [
        (int, st.integers(-(2**63), 2**63)),
        (str, texts(max_size=4)),
        (bool, st.booleans()),
        (None, st.none()),
        (float, st.floats(allow_nan=False, allow_infinity=False)),
        (Literal["a", 1], st.sampled_from(["a", 1])),
        (Size, st.sampled_from([each.value for each in Size])),
        (Range, st.lists(st.integers(), min_size=1, max_size=2)),
        (Options, st.fixed_dictionaries({"speed": st.integers()})),
        (Place, st.fixed_dictionaries({"lat": st.integers()})),
        (Any, json_values()),
        (More, st.just({"speed": 1, "deep": True})),
        (dict[Colour, Any], st.dictionaries(st.sampled_from("rg"), json_values())),
    ]
)


def of(generic: Any, *kinds: Any) -> Any:
    """*generic* of those kinds."""
    return generic[kinds if len(kinds) > 1 else kinds[0]]


def composed(inner):
    """Types that are made of others, with values."""
    pairs = st.tuples(inner, inner)
    return st.one_of(
        inner.map(lambda t: (of(list, t[0]), st.lists(t[1], max_size=3))),
        inner.map(
            lambda t: (of(dict, str, t[0]), st.dictionaries(texts(), t[1], max_size=3))
        ),
        inner.map(lambda t: (of(Union, t[0], None), st.none() | t[1])),
        inner.map(lambda t: (of(Tree, t[0]), st.fixed_dictionaries({"value": t[1]}))),
        inner.map(lambda t: (of(Annotated, t[0], "words"), t[1])),
        pairs.map(lambda p: (of(tuple, p[0][0], p[1][0]), st.tuples(p[0][1], p[1][1]))),
    )


KINDS_WITH_VALUES = st.recursive(SCALARS, composed, max_leaves=5)


@dataclasses.dataclass
class Broken:
    """A class that takes nothing."""

    size: int

    def __post_init__(self):
        raise KeyError("no room")


class TestReadArguments:
    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            ({}, "$.minute: required, but missing"),
            ({"minute": "x"}, "$.minute: expected `int`, got `str`"),
            (
                {"minute": 1, "hour": 2},
                "$.hour: unknown; f takes minute, stops, broken",
            ),
            ({"minute": 1, "a b": 2}, "$['a b']: unknown; f takes"),
            ({"minute": 1, "stops": [1, "x"]}, "$.stops[1]: expected `int`, got `str`"),
            ({"minute": 1, "broken": {"size": 1}}, "$.broken: KeyError: 'no room'"),
        ],
    )
    def test_problems(self, given, problem):
        """Each problem is reported with its path, so that a model can mend it."""

        def f(minute: int, *, stops: Sequence[int] = (), broken: Broken | None = None):
            pass

        with pytest.raises(DecodeError) as raised:
            read_arguments(f, given)

        assert problem in str(raised.value)

    def test_all_problems(self):
        """All are reported at once, whatever comes first."""

        def f(*, minute: int, stop: str): ...

        with pytest.raises(DecodeError) as raised:
            read_arguments(f, {"x": 1, "minute": "noon", "y": 2})

        assert ["$.stop", "$.x", "$.minute", "$.y"] == [
            problem.path for problem in raised.value.problems
        ]

    def test_others(self):
        """A function may take any further names, all of one type, or none."""

        def f(minute: int, **others: float): ...

        def nothing(): ...

        assert {"minute": 1, "a": 2.0} == read_arguments(f, {"minute": 1, "a": 2})
        with pytest.raises(DecodeError, match=r"\$.a: expected `float`, got `str`"):
            read_arguments(f, {"minute": 1, "a": "x"})
        with pytest.raises(DecodeError, match="unknown; nothing takes nothing"):
            read_arguments(nothing, {"a": 1})
        with pytest.raises(TypeError, match="given: expected a mapping, got"):
            read_arguments(f, [1])  # type: ignore[arg-type]


class TestLaws:
    """Whatever the function, its schema is one, and takes its arguments."""

    @given(
        st.dictionaries(
            st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True).filter(
                lambda name: name.isidentifier() and name != "self"
            ),
            st.tuples(KINDS_WITH_VALUES, st.booleans()),
            max_size=4,
        ),
        st.data(),
    )
    def test_any_signature(self, described, data):
        """
        All required arguments and some of the others are taken; without one
        that is required, or with one of another name, they are not.
        """
        import keyword  # noqa: PLC0415 - used here only

        described = {
            n: each for n, each in described.items() if not keyword.iskeyword(n)
        }

        def f(**_given): ...

        f.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    annotation=kind,
                    default=inspect.Parameter.empty if needed else None,
                )
                for name, ((kind, _), needed) in described.items()
            ]
        )
        tool = ToolInfo.from_function(f)
        schema = thaw(tool.schema)
        arguments = {
            name: data.draw(values)
            for name, ((_, values), needed) in described.items()
            if needed or data.draw(st.booleans())
        }

        assert takes(schema, arguments)
        assert not takes(schema, {**arguments, "UNKNOWN": 1})
        for name, (_, needed) in described.items():
            if needed:
                less = {n: each for n, each in arguments.items() if n != name}
                assert not takes(schema, less)

        assert tool == ToolInfo.from_function(f)
        assert tool == pickle.loads(pickle.dumps(tool))

    @given(KINDS_WITH_VALUES, st.data())
    def test_takes_what_a_call_reads(self, described, data):
        """A call reads the values of a type, and what it reads its schema takes."""
        kind, values = described

        def f(x): ...

        f.__annotations__["x"] = kind
        own = json.loads(json.dumps(data.draw(values)))
        assert ["x"] == list(read_arguments(f, {"x": own}))

        other = data.draw(json_values())
        with contextlib.suppress(DecodeError):
            read_arguments(f, {"x": other})
            assert takes(of_kind(kind), {"x": other})
