"""
Generates the codec's fast pass: one reader and one writer for each value class.

Each class has a *plan*, made from its attrs fields and their annotations: what
fits each field, what is made of it, and what is written. The plan becomes
straight-line code, which is checked into `conversation_state.codec._readers`
and `_writers`; a test holds both to what this script prints. A rule that no
annotation states is in `RULES`.

    python -m tools.generate_codec && ruff format conversation_state/codec
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import attrs

from conversation_state import messages, parts, tools
from conversation_state._persistent import EMPTY_MAP
from conversation_state.messages import Common

# Without importing the codec, which needs what is made here.
CODEC = Path(__file__).parent.parent / "conversation_state" / "codec"


class Kind(NamedTuple):
    """
    What an annotation says.

    Attributes:
        unless: The condition under which a raw value is in doubt, or "".

        made: The value that is made of the raw one.

        written: The raw value that is written for a value.
    """

    unless: str = ""
    made: str = "{0}"
    written: str = "{0}"


_IS_TEXT = "{0}.__class__ is not str"

KINDS = {
    "str": Kind(_IS_TEXT),
    "int": Kind("{0}.__class__ is not int or not -1 < {0} <= MAX"),
    "bool": Kind("{0}.__class__ is not bool"),
    # Only a float is finite beyond doubt; the slow pass also accepts integers.
    "float": Kind("{0}.__class__ is not float or {0} - {0} != 0"),
    "bytes": Kind(_IS_TEXT, "a2b_base64({0}, strict_mode=True)", "format_base64({0})"),
    "Mapping[str, Any]": Kind(made="freeze_object({0})"),
    "Usage": Kind(made="read_usage({0})", written="write_usage({0})"),
    "ResponseMeta": Kind(
        made="read_response_meta({0})", written="write_response_meta({0})"
    ),
    **{
        f"tuple[{cls}, ...]": Kind(
            "{0}.__class__ is not list",
            f"tuple([read_{name}(each) for each in {{0}}])",
            f"[write_{name}(each) for each in {{0}}]",
        )
        for cls, name in (("LogProb", "log_prob"), ("ToolCall", "tool_call"))
    },
}

# What a constructor checks beyond the types of fields: when a value is in doubt.
RULES: dict[type, tuple[str, ...]] = {
    parts.UnknownPart: ('source == ""',),
    messages.ToolMessage: ('tool_call_id == ""',),
    messages.UnknownMessage: ('source == ""',),
}

# The same of what holds values of its own class: looked at before these are read, so
# that nothing is read deeper than one level.
GUARDS: dict[type, str] = {
    messages.LogProb: (
        'given.get("top").__class__ is list'
        ' and any(each.__class__ is not dict or "top" in each for each in given["top"])'
    ),
}

# Optional fields that most values have.
USUAL = {"arguments", "finish_reason", "id", "model", "tool_name", "usage"}

PARTS: list[type[parts.Part]] = [*parts.KINDS.values(), parts.UnknownPart]
# Their bytes take longer than their constructors, so that those do the rest.
MEDIA = [part for part in PARTS if issubclass(part, parts.MediaPart)]
MESSAGES: list[type[messages.Message]] = [
    messages.SystemMessage,
    messages.UserMessage,
    messages.AssistantMessage,
    messages.ToolMessage,
    messages.UnknownMessage,
]
OTHERS = [tools.ToolCall, messages.LogProb, messages.ResponseMeta]


class Field(NamedTuple):
    """
    A field of a plan.

    Attributes:
        name: Its name, in the class and in JSON.

        kind: What fits, and what is made and written.

        default: The source of its default; "" if it has none.

        is_optional: Whether its value may be None.
    """

    name: str
    kind: Kind
    default: str
    is_optional: bool

    def is_there(self, value: str) -> str:
        """The condition that *value* is not the default, which is never written."""
        if self.default in ("None", "EMPTY_MAP"):
            return f"{value} is not {self.default}"

        return value if self.default == "False" else f"{value} != {self.default}"

    def read(self) -> Iterator[str]:
        """The lines that bind the raw value, and make the value of it."""
        name, kind = self.name, self.kind
        if not self.default:
            yield f'{name} = given["{name}"]'
        elif self.default == "None":
            yield f'{name} = given.get("{name}")'
        else:
            yield f'{name} = given.get("{name}", {self.default})'

        start = ""
        if self.default:
            # `left` minus a condition would take three times as long.
            yield f"if {self.is_there(name)}:"
            yield "    left -= 1"
            start = "    "

        if kind.made == "{0}":
            return

        if kind.unless:
            yield f"{start}if {kind.unless.format(name)}:"
            yield f"{start}    raise Doubt"

        yield f"{start}{name} = {kind.made.format(name)}"

    @property
    def doubt(self) -> str:
        """
        The condition under which the raw value is in doubt, if it is taken as it is.
        """
        if self.kind.made != "{0}":
            return ""

        doubt = self.kind.unless.format(self.name)
        return f"({self.name} is not None and ({doubt}))" if self.is_optional else doubt

    def write(self) -> Iterator[str]:
        """The lines that write a value that is not the default."""
        there = f"({self.name} := value.{self.name})"
        if self.default in ("EMPTY_MAP", '""', "()", "False"):
            yield f"if {there[1:-1]}:"
        else:
            yield f"if {self.is_there(there)}:"

        yield f'    raw["{self.name}"] = {self.kind.written.format(self.name)}'


class Plan(NamedTuple):
    """
    How the values of one class are read and written.

    Attributes:
        cls: The class.

        tag: Name and value of the field that tells the class, or ().

        fields: Its fields, in the order in which they are written.
    """

    cls: type
    tag: tuple[str, ...]
    fields: tuple[Field, ...]

    @property
    def name(self) -> str:
        """The name of the class, as it stands in those of functions."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.cls.__name__).lower()

    @property
    def draft(self) -> str:
        """The name of the class of drafts."""
        return f"_new_{self.name}"

    @property
    def attributes(self) -> list[str]:
        """The names of the attributes of an instance."""
        return [field.name for field in attrs.fields(self.cls)]

    @property
    def keys(self) -> str:
        """The name of the set of its keys."""
        return f"_{self.name.upper()}_KEYS"


def make_plan(cls: type) -> Plan:
    """The plan of *cls*, from its attrs fields."""
    tag: tuple[str, ...] = ()
    if issubclass(cls, parts.Part):
        tag = ("type", cls.kind)
    elif issubclass(cls, messages.Message):
        tag = ("role", cls.role)

    own = [field for field in attrs.fields(cls) if field.name not in _APART]
    if issubclass(cls, parts.Part):
        own.sort(key=lambda field: field.name in ("index", "metadata"))
        own[-2:] = reversed(own[-2:])  # the index first

    if cls is parts.UnknownPart or cls is messages.UnknownMessage:
        own.sort(key=lambda field: field.name != "source")

    return Plan(cls, tag, tuple(map(_make_field, own)))


def make_plans() -> list[Plan]:
    """The plans of all classes that have a reader and a writer of their own."""
    classes = [*OTHERS, *PARTS, *MESSAGES]
    return [make_plan(cls) for cls in classes if cls not in MEDIA]


# What every class with it reads and writes in its own way.
_APART = {"unknown", "_common", "content"}


def _make_field(field: attrs.Attribute[object]) -> Field:
    annotation = str(field.type).removeprefix("builtins.")
    kind = KINDS[annotation.removesuffix(" | None")]
    if field.name == "raw":  # a provider's, which may have signed it
        kind = Kind(made="freeze_object({0}, JsonMap)")

    default = repr(field.default).replace("'", '"')
    if field.default is attrs.NOTHING:
        default = _MESSAGE_DEFAULTS.get(field.name, "")
    elif field.default is EMPTY_MAP:
        default = "EMPTY_MAP"

    return Field(field.name, kind, default, annotation.endswith("| None"))


# Messages write their own `__init__`, of which attrs knows no defaults.
_MESSAGE_DEFAULTS = {
    "tool_calls": "()",
    "response": "None",
    "tool_name": '""',
    "is_error": "False",
    "source": '""',
}


# Readers


def reader(plan: Plan) -> str:
    """
    The source of the reader of one class.

    What most values have is read first; the rest only if something is left.
    """
    cls, names = plan.cls.__name__, plan.attributes
    has_common = "_common" in names
    usual = [each for each in plan.fields if not each.default or each.name in USUAL]
    rest = [each for each in plan.fields if each not in usual]
    taken = [field for field in usual if not field.default]
    count = bool(plan.tag) + len(taken) + ("content" in names)
    body = [] if plan.tag else ["if given.__class__ is not dict:", "    raise Doubt"]
    if plan.cls in GUARDS:
        body += [f"if {GUARDS[plan.cls]}:", "    raise Doubt"]

    body += [f"left = len(given) - {count}" if count else "left = len(given)"]
    body += _read_fields(usual)
    if "content" in names:
        body += _read_content(plan)

    unread = {field.name: field.default for field in rest}
    has_notes = {"index", "metadata", "unknown"} <= {*names}
    inside = _read_fields(
        [each for each in rest if not (has_notes and each.name in _NOTES)]
    )
    if has_common:
        unread["common"] = "PLAIN"
        read = f"read_common(given, left, {plan.keys}, seen)"
        inside += [f"common = {read}{' if left else PLAIN' * bool(rest)}"]
    elif has_notes:
        unread["unknown"] = "EMPTY_MAP"
        read = f"read_notes(given, left, {plan.keys})"
        inside += [f"index, metadata, unknown = {read}"]
    elif "unknown" in names:
        unread["unknown"] = "EMPTY_MAP"
        read = f"read_unknown(given, left, {plan.keys})"
        inside += [f"unknown = {read}{' if left else EMPTY_MAP' * bool(rest)}"]
    else:
        inside += ["if left:", "    raise Doubt"]

    for default in dict.fromkeys(unread.values()):
        same = [name for name, value in unread.items() if value == default]
        # A checker takes () for the type of what is only the empty tuple.
        typed = ": Any" if default == "()" else ""
        body += [f"{' = '.join(same)}{typed} = {default}"]

    body += ["if left:", *[f"    {line}" for line in inside]]
    for rule in RULES.get(plan.cls, ()):
        body += [f"if {rule}:", "    raise Doubt"]

    body += [f"value = {plan.draft}()"]
    body += [f"value.{name} = {name.strip('_')}" for name in names]
    body += _format_return(cls)

    parameters = "given: Raw, seen: Seen" if has_common else "given: Raw"
    lines = "\n".join([f"    {line}" for line in body])
    return f"def read_{plan.name}({parameters}) -> {cls}:\n{lines}\n"


# What parts and calls have besides, which is read by one function.
_NOTES = {"index", "metadata"}


def _read_fields(fields: list[Field]) -> list[str]:
    body = [line for field in fields for line in field.read()]
    doubts = " or ".join([field.doubt for field in fields if field.doubt])
    return [*body, f"if {doubts}:", "    raise Doubt"] if doubts else body


def _format_return(cls: str) -> list[str]:
    """Returns the draft as what it is a draft of."""
    return [f"value.__class__ = {cls}", "return value"]


def _read_content(plan: Plan) -> list[str]:
    """Binds the content: a text, or the parts, never both."""
    held = {"system": "_SYSTEM_PARTS", "assistant": "PARTS"}
    parts_read = f'read_parts(given["parts"], {held.get(plan.tag[1], "_USER_PARTS")})'
    body = [
        'content = given.get("content")',
        "if content.__class__ is not str:",
        "    if content is not None:",
        "        raise Doubt",
    ]
    if plan.cls is not messages.AssistantMessage:
        return [*body, f"    content = {parts_read}"]

    return [
        *body,
        '    if "parts" in given:',
        f"        content = {parts_read}",
        "    else:",
        '        content = ""',
        "        left += 1",
    ]


def keys(plans: list[Plan]) -> Iterator[str]:
    """The known keys of each class that keeps unknown ones."""
    yield f"_KEYS = frozenset({{{', '.join(map(_quote_name, _COMMON))}}})"
    for plan in plans:
        names = {*plan.tag[:1], *[field.name for field in plan.fields]}
        own = ", ".join(map(_quote_name, sorted(names - {*_COMMON})))
        if "_common" in plan.attributes:
            yield f"{plan.keys} = _KEYS | {{{own}}}" if own else f"{plan.keys} = _KEYS"
        elif "unknown" in plan.attributes:
            own = ", ".join(map(_quote_name, sorted(names)))
            yield f"{plan.keys} = frozenset({{{own}}})"


# What no message can have as an unknown field.
_COMMON = ("role", "parts", "content", *Common._fields[:-1])


def _quote_name(name: str) -> str:
    return f'"{name}"'


# Writers


def writer(plan: Plan) -> str:
    """The source of the writer of one class."""
    cls, names = plan.cls.__name__, plan.attributes
    optional = [field for field in plan.fields if field.default]
    start = [f'"{plan.tag[0]}": "{plan.tag[1]}"'] if plan.tag else []
    start += [
        f'"{field.name}": {field.kind.written.format(f"value.{field.name}")}'
        for field in plan.fields
        if not field.default
    ]
    body = [*AS_IT_IS.get(plan.cls, ())]
    if "content" in names:
        body += _write_content(*start)
    else:
        body += [f"raw: Object = {{{', '.join(start)}}}"]

    if cls in ("UnknownPart", "UnknownMessage"):  # the source stands before raw
        body[-1:] = [f"raw: Object = {{{start[0]}}}", *optional.pop(0).write()]
        body += ['raw["raw"] = value.raw']

    for field in optional:
        body += field.write()

    if "unknown" in names:
        # Its keys never overwrite known fields: the constructors check that.
        body += ["if value.unknown:", "    raw.update(value.unknown)"]

    if "_common" in names:
        body += [
            "if value._common is not PLAIN:",
            "    write_common(raw, value._common)",
        ]

    lines = "\n".join([f"    {line}" for line in [*body, "return raw"]])
    return f"def write_{plan.name}(value: {cls}) -> Object:\n{lines}\n"


def _write_content(tag: str, *required: str) -> list[str]:
    rest = "".join(f", {each}" for each in required)
    many = "[PARTS[part.__class__](part) for part in content]"
    if "assistant" in tag:  # which may have none
        return [
            f"raw: Object = {{{tag}}}",
            "content = value.content",
            "if content.__class__ is not str:",
            f'    raw["parts"] = {many}',
            "elif content:",
            '    raw["content"] = content',
        ]

    return [
        "raw: Object",
        "content = value.content",
        "if content.__class__ is str:",
        f'    raw = {{{tag}, "content": content{rest}}}',
        "else:",
        f'    raw = {{{tag}, "parts": {many}{rest}}}',
    ]


# An unknown value with nothing of ours beside it is written as it came.
AS_IT_IS = {
    parts.UnknownPart: (
        'if (is_as_it_came(value, "type") and value.index is None',
        "        and not (value.metadata or value.unknown)):",
        "    return {**value.raw}",
    ),
    messages.UnknownMessage: (
        'if is_as_it_came(value, "role") and value._common == PLAIN:',
        "    return {**value.raw}",
    ),
}


# Modules


_HEAD = '''"""
{}

Generated by ``python -m tools.generate_codec``: change the plan there.
"""

# Fields have the names they have, and a draft may have any field.
# ruff: noqa: A001
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

'''

# What the modules may import, in the order in which it is imported.
_NAMES = {
    "binascii": ["a2b_base64"],
    "functools": ["partial"],
    "typing": ["Any", "Final"],
    "conversation_state._persistent": ["EMPTY_MAP", "make_draft"],
    "conversation_state._persistent.frozen": ["JsonMap"],
    "conversation_state.codec._fast": [
        *("MAX", "Doubt", "Object", "Raw", "Seen", "freeze_object", "is_as_it_came"),
        *("read_common", "read_media_part", "read_new_part"),
        *("read_notes", "read_parts", "read_unknown", "refuse"),
        *("read_usage", "write_common", "write_media_part", "write_usage"),
    ],
    "conversation_state.codec._format": ["format_base64"],
    "conversation_state.messages": [
        "PLAIN",
        *(cls.__name__ for cls in (*MESSAGES, messages.LogProb, messages.ResponseMeta)),
    ],
    "conversation_state.parts": [cls.__name__ for cls in PARTS],
    "conversation_state.tools": ["ToolCall"],
}


_LINE = "\n"


def make_module(what: str, *body: str) -> str:
    """The source of a module, with the imports that its *body* needs."""
    source = "\n\n".join(body)
    imports = []
    for module, names in _NAMES.items():
        used = [name for name in names if re.search(rf"\b{name}\b", source)]
        used.sort(key=lambda name: (not name.isupper(), name))
        if used:
            imports.append(f"from {module} import {', '.join(used)}")

    return f"{_HEAD.format(what)}{_LINE.join(imports)}\n\n{source}\n"


def readers_module() -> str:
    """The source of the module of readers."""
    plans = make_plans()
    for_any = {
        cls.kind: f"partial(read_media_part, {cls.__name__})"
        if cls in MEDIA
        else f"read_{make_plan(cls).name}"
        for cls in PARTS
    }
    held = messages.UserMessage._holds
    refused = "".join([f', "{kind}": refuse' for kind in for_any if kind not in held])
    by_role = {cls.role: f"read_{make_plan(cls).name}" for cls in MESSAGES}
    return make_module(
        "The readers of the fast pass: raw values as values, or `Doubt`.",
        "\n".join(
            f"{plan.draft}: Final = make_draft({plan.cls.__name__})" for plan in plans
        ),
        "\n".join(keys(plans)),
        *map(reader, plans),
        _make_table("PARTS", {**for_any, "*": "read_new_part"}),
        f"_USER_PARTS = {{**PARTS{refused}}}",
        _make_table("_SYSTEM_PARTS", {"text": for_any["text"], "*": "refuse"}),
        _make_table("MESSAGES", by_role),
    )


def _make_table(name: str, entries: Mapping[str, str]) -> str:
    items = [f'"{key}": {value},' for key, value in entries.items()]
    return f"{name}: dict[str, Any] = {{{' '.join(items)}}}"


def writers_module() -> str:
    """The source of the module of writers."""
    of_parts = {
        cls.__name__: "media_part" if cls in MEDIA else make_plan(cls).name
        for cls in PARTS
    }
    of_messages = {cls.__name__: make_plan(cls).name for cls in MESSAGES}
    tables = [
        f"{table}: dict[type, Any] = {{{', '.join(entries)}}}"
        for table, entries in (
            ("PARTS", [f"{cls}: write_{name}" for cls, name in of_parts.items()]),
            ("MESSAGES", [f"{cls}: write_{name}" for cls, name in of_messages.items()]),
        )
    ]
    return make_module(
        "The writers of the fast pass: values as raw values for orjson.",
        *map(writer, make_plans()),
        *tables,
    )


def generate() -> dict[Path, str]:
    """The source of each generated module, not formatted, by its path."""
    return {
        CODEC / "_readers.py": readers_module(),
        CODEC / "_writers.py": writers_module(),
    }


if __name__ == "__main__":
    for path, source in generate().items():
        path.write_text(source, encoding="utf-8")
