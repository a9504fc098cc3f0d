"""Metadata: the caller's keys, and the one that is reserved for notes."""

import ast
import copy
import importlib
import importlib.util
import inspect
import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conversation_state import adapters
from conversation_state.adapters.engine.notes import (
    FORMATS,
    RESERVED,
    find_format,
    has_own,
    own_of,
)
from conversation_state.messages import (
    AssistantMessage,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.testing.strategies import json_values, metadata
from conversation_state.tools import ToolCall

# Formats of a framework's objects, and those for one direction only.
FRAMEWORKS = {"langchain", "pydantic_ai"}
ONE_WAY = {"ag_ui", "ai_sdk", "message_trees", "otel", "sessions", "transcripts"}

EVERY: dict[str, Any] = {
    name: importlib.import_module(f"conversation_state.adapters.{name}")
    for name in adapters.PROVIDERS
}
# Formats that have a place for metadata; the others have none.
WITH_PLACE = {name: EVERY[name] for name in ("bubo", "eino")}
PROVIDERS = {name: EVERY[name] for name in EVERY if name not in WITH_PLACE}
PNG = b"\x89PNG"
DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def callables_in(files):
    """What the modules of *files* define, and their classes, by name."""
    found: dict[str, list[Any]] = {}
    for file in files:
        name = f"conversation_state.adapters.engine.{file}"
        if importlib.util.find_spec(name) is None:
            name = f"tests.adapters.{file}"

        module: Any = importlib.import_module(name)
        classes = [each for each in vars(module).values() if isinstance(each, type)]
        for name, value in vars(module).items():
            found.setdefault(name, []).append(value)

        for name, value in [pair for each in classes for pair in vars(each).items()]:
            if callable(value):  # a method, of some object
                found.setdefault(name, []).append(partial(value, None))

    return found


def calls_in(text):
    """The calls in the code of *text*, Markdown, each with the name that is called."""
    for code in re.findall(r"`([^`]+)`", text):
        with suppress(SyntaxError):  # a name, or a piece of JSON
            body = ": pass" if code.startswith("for ") else ""
            for node in ast.walk(ast.parse(code + body)):
                if isinstance(node, ast.Call):
                    yield getattr(node.func, "attr", getattr(node.func, "id", "")), node


def takes(called, given, named):
    """Whether *called* takes these arguments."""
    try:
        inspect.signature(called).bind(*given, **named)
    except TypeError:
        return False

    return True


class TestLists:
    """The lists of formats."""

    def test_no_other_names(self):
        """A name that the package does not have is an error, and no list."""
        with pytest.raises(AttributeError, match="has no attribute 'PROVIDER'"):
            _ = adapters.PROVIDER

    def test_providers(self):
        """Each format says of itself whether it both dumps and loads plain JSON."""
        formats = {name: find_format(name) for name in FORMATS}

        assert [*FORMATS] == [each.name for each in formats.values()]
        assert FRAMEWORKS | ONE_WAY == {*FORMATS} - {*adapters.PROVIDERS}
        assert all({"dump", "load"} <= {*each.__all__} for each in EVERY.values())

    def test_documented(self):
        """The page about providers names each of them."""
        page = (DOCS / "providers.md").read_text(encoding="utf-8")

        assert [] == [name for name in adapters.PROVIDERS if f"`{name}`" not in page], (
            "docs/providers.md has to say what these formats are and what they keep"
        )

    def test_toolbox(self):
        """
        What the page about new adapters says to call is in the file that it says, and
        takes as many arguments as the example gives it.
        """
        page = (DOCS / "new-adapter.md").read_text(encoding="utf-8")
        row = r"^\| [^|]+ \| (`[\w`, ]+`) \| (`[\w.`, ]+`) \| (.*) \|$"
        rows = re.findall(row, page, re.MULTILINE)
        wrong = []
        for names, files, text in rows:
            there = callables_in(re.findall(r"(\w+)\.py", files))
            wrong += [name for name in re.findall(r"\w+", names) if name not in there]
            for name, call in calls_in(text):
                given = [None] * len(call.args)
                named = {str(each.arg): None for each in call.keywords}
                if name in there and not any(
                    takes(each, given, named) for each in there[name]
                ):
                    wrong.append(ast.unparse(call))

        assert len(rows) > 15
        assert [] == wrong

    def test_formats(self):
        """Only notes of these formats are kept apart from the caller's metadata."""
        sources = {
            name
            for path in Path(adapters.__path__[0]).rglob("*.py")
            for name in re.findall(r'^SOURCE = "(\w+)"', path.read_text(), re.MULTILINE)
        }

        assert sources == {*FORMATS} - {"otel"}


class TestNotes:
    """Whether there is anything else than notes, and what they keep."""

    @pytest.mark.parametrize(
        ("own", "metadata"),
        [
            (False, {}),
            (False, {RESERVED: {"anthropic": {"a": 1}}}),
            (True, {"a": 1}),
            (True, {RESERVED: {"anthropic": {"a": 1}}, "a": 1}),
            (True, {RESERVED: {"anthropic": {"a": 1}, "mark": 1}}),
            (True, {RESERVED: 5}),
        ],
    )
    def test_has_own(self, own, metadata):
        """The caller's keys and a view's marks are; the notes of formats are not."""
        assert own is has_own(UserMessage("", metadata=metadata).metadata)

    def test_keys_of_several(self):
        """What another format kept is listed, also beside notes of the one written."""
        notes = {
            "openai_chat": {"keys": {"b": 1}},
            "anthropic": {"keys": {"cache_control": 1}},
        }
        message = UserMessage("hi", metadata={RESERVED: notes})

        assert [("messages[0]", "cache_control")] == [
            (each.path, each.what) for each in EVERY["openai_chat"].dump([message]).lost
        ]


def conversation(given):
    """
    A message of each role, with parts of most kinds and a call, each with the
    metadata *given*.
    """
    given = copy.deepcopy(given)
    call = ToolCall("c1", "f", '{"a": 1}', index=2, metadata=given)
    answer = [
        ReasoningPart("Hm.", "c2ln", index=0, metadata=given),
        TextPart("Yes.", index=1, metadata=given),
    ]
    asked = [
        TextPart("a", metadata=given),
        ImagePart(data=PNG, media_type="image/png", metadata=given),
        FilePart(data=PNG, media_type="application/pdf", name="f", metadata=given),
        AudioPart(data=PNG, media_type="audio/wav", metadata=given),
        UnknownPart({"type": "x"}, source="openai_chat", metadata=given),
    ]
    meta = ResponseMeta(finish_reason="stop")
    return [
        SystemMessage([TextPart("s", metadata=given)], metadata=given),
        UserMessage(asked, metadata=given),
        AssistantMessage(answer, tool_calls=[call], response=meta, metadata=given),
        ToolMessage("r", tool_call_id="c1", tool_name="f", metadata=given),
        AssistantMessage([RefusalPart("No.", metadata=given)], metadata=given),
    ]


# The names of all notes that an adapter reads or writes, and of what may be in one.
NOTE_NAMES = st.sampled_from(
    sorted(
        name
        for path in Path(adapters.__path__[0]).rglob("*.py")
        for name in re.findall(
            r'\bnotes(?:\[|\.\w+\(|, )"(\w+)"', path.read_text(encoding="utf-8")
        )
    )
)
NOTES = st.dictionaries(
    NOTE_NAMES,
    json_values() | st.dictionaries(NOTE_NAMES, json_values(), max_size=2),
    max_size=3,
)


def forged_for(name):
    """
    What may stand under the reserved key, mostly as if the format *name* had
    noted it.
    """
    own = st.fixed_dictionaries({name: NOTES})
    others = st.dictionaries(
        st.sampled_from(FORMATS), NOTES | json_values(), max_size=2
    )
    return own | others | json_values()


class TestOwn:
    @pytest.mark.parametrize("name", PROVIDERS)
    def test_keys_named_like_formats(self, name):
        """
        A caller's own metadata reaches no provider, also where its keys are
        the names of formats.
        """
        about = {each: {"keys": {"tags": ["vip"]}, "id": 5} for each in FORMATS}
        adapter = PROVIDERS[name]

        assert adapter.dump(conversation({})) == adapter.dump(conversation(about))

    @pytest.mark.parametrize("name", WITH_PLACE)
    def test_place_for_metadata(self, name):
        """Where a format has a place for metadata, it comes back as it was."""
        about = {each: {"keys": {"tags": ["vip"]}, "id": 5} for each in FORMATS}
        adapter = WITH_PLACE[name]
        message = UserMessage("a", metadata=about)

        assert (message,) == adapter.load(adapter.dump([message]).payload)


class TestForged:
    @pytest.mark.parametrize("name", [*PROVIDERS, *WITH_PLACE])
    @settings(suppress_health_check=[HealthCheck.differing_executors])
    @given(data=st.data())
    def test_never_raises(self, name, data):
        """Whatever stands under the reserved key is written, or ignored."""
        forged = data.draw(forged_for(name))
        export = {**PROVIDERS, **WITH_PLACE}[name].dump(
            conversation({RESERVED: forged})
        )

        assert isinstance(export.payload, dict)
        assert all(isinstance(lost.path, str) for lost in export.lost)

    @pytest.mark.parametrize("name", PROVIDERS)
    def test_nothing_beside_the_messages(self, name):
        """No note adds a field to the request beside the conversation."""
        forged = {name: {"keys": {"model": "x", "tools": [], "messages": [1]}}}
        adapter = PROVIDERS[name]
        plain = adapter.dump(conversation({})).payload
        payload = adapter.dump(conversation({RESERVED: forged})).payload

        assert plain.keys() == payload.keys()


class TestOwnOf:
    @given(metadata(), NOTES)
    def test_without_notes(self, own, notes):
        """`own_of` gives what the caller put in, and `has_own` whether there is any."""
        both: Any = {**own, RESERVED: {"gemini": notes}}
        value = UserMessage("", metadata=both)
        own = {key: own[key] for key in own if key != RESERVED}

        assert own == own_of(value.metadata)
        assert bool(own) == has_own(value.metadata)
