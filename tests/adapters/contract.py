"""
What every adapter of this library promises, whatever its provider's format looks like.

A test file of an adapter subclasses `FormatContract`, names its adapter, and
says what its format changes in a round trip (`normalise`) and how requests and
responses of its provider look (`documents`). What adapters of others promise is
`conversation_state.testing.contracts.AdapterContract`, which needs no payloads.
"""

import copy
import json
import re
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any, ClassVar

import attrs
import pytest
from hypothesis import HealthCheck, given, is_hypothesis_test, settings
from hypothesis import strategies as st

from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters import Export, Lost
from conversation_state.adapters.engine.notes import RESERVED, map_of
from conversation_state.errors import DecodeError, InvalidMessageError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import ReasoningPart, TextPart, UnknownPart
from conversation_state.testing.contracts._adapters import put_junk, swap_texts
from conversation_state.testing.strategies import json_values, messages
from conversation_state.tools import ToolCall
from tests.adapters.crossing import places
from tests.adapters.helpers import as_is
from tests.profiles import fewer


def as_json(value: Any) -> str:
    """*value* as JSON of which equal values have the same: 1 is not true there."""
    return json.dumps(value, sort_keys=True, allow_nan=False)


# Ids that are made up; and what those begin with that are unique in time, because the
# response has none.
_MADE = re.compile(r"_call(_\d+)?$|^message_\d+$")
_UNIQUE = re.compile(r"\b[0-9a-f]{24}-[0-9a-f]+_")


def without_unique_ids(text: str) -> str:
    """*text* with the same id in place of each one that is unique in time."""
    return _UNIQUE.sub("unique_", text)


def with_made_ids(document: Any, payload: Any) -> Any:
    """*document* with the ids of calls that it lacks, as *payload* has them."""
    if isinstance(document, list) and isinstance(payload, list):
        others = [*payload, *[None] * len(document)]
        return [
            with_made_ids(one, other)
            for one, other in zip(document, others, strict=False)
        ]

    if not (isinstance(document, dict) and isinstance(payload, dict)):
        return document

    filled = {key: with_made_ids(document[key], payload.get(key)) for key in document}
    for key in ("call_id", "id", "tool_call_id"):
        made = payload.get(key)
        if not document.get(key) and isinstance(made, str) and _MADE.search(made):
            filled[key] = made

    return filled


def bare(message: Message) -> Message:
    """
    *message* without what is sent to no provider: times, runs, positions, the
    response's metadata, and the caller's own metadata.
    """
    if isinstance(message, UnknownMessage):
        return UnknownMessage(message.raw, source=message.source)

    changes: dict[str, Any] = {
        "run_id": None,
        "turn_id": None,
        "timestamp": None,
        "metadata": EMPTY_MAP,
    }
    content = message.content  # type: ignore[attr-defined]
    if not isinstance(content, str):
        changes["content"] = [
            attrs.evolve(part, index=None, metadata=EMPTY_MAP) for part in content
        ]

    if isinstance(message, AssistantMessage):
        changes["response"] = None
        changes["tool_calls"] = [
            attrs.evolve(call, index=None, metadata=EMPTY_MAP)
            for call in message.tool_calls
        ]

    return message.replace(**changes)


def as_text(value: Any) -> str:
    """What a person sees of *value*, in which no surrogate may be left."""
    return str(value).encode().decode()


def refusal(read: Callable[[Any], Any], document: Any) -> DecodeError | None:
    """Why *read* refuses *document*; None if it does not."""
    try:
        read(document)
    except DecodeError as error:
        return error

    return None


def problem_paths(read: Callable[[Any], Any], document: Any) -> list[str]:
    """The paths of all that is wrong with *document*, which *read* refuses."""
    with pytest.raises(DecodeError) as caught:
        read(document)

    return [problem.path for problem in caught.value.problems]


def empty_all(value: Any) -> None:
    """Remove everything from *value* and from all that is in it."""
    if isinstance(value, dict | list):
        for each in list(value.values()) if isinstance(value, dict) else list(value):
            empty_all(each)

        value.clear()


# What JSON has and no field of ours: too large, too deep, halves of pairs,
# and what is not JSON at all.
JUNK = st.one_of(
    json_values(),
    st.sampled_from(
        [
            "\ud800",
            {"\udfff": "\ud83d"},
            10**400,
            -(2**64),
            float("nan"),
            float("inf"),
            b"bytes",
            {1: 2},
            (1, 2),
            object(),
            {"type": "text"},
            [[[]]],
        ]
    ),
    st.text(max_size=3),
    st.just(json.loads("[" * 200 + "]" * 200)),
    st.just(json.loads('{"a":' * 200 + "1" + "}" * 200)),
)


# The same content, in the ways in which our messages can have it.
PLAIN_MESSAGES = [
    made(content)
    for content in ("a", [TextPart("a")], [TextPart("a"), TextPart("b")], "", [])
    for made in (
        UserMessage,
        SystemMessage,
        AssistantMessage,
        partial(ToolMessage, tool_call_id="c1"),
        partial(AssistantMessage, tool_calls=[ToolCall("c1", "f", "{}")]),
    )
]
# The same twice, as a model may think or say it.
_THOUGHT, _SAID = ReasoningPart("a"), TextPart("a")
PLAIN_MESSAGES += [
    AssistantMessage([_THOUGHT, _THOUGHT]),
    AssistantMessage([_THOUGHT, _THOUGHT, _SAID]),
    AssistantMessage([_THOUGHT, ReasoningPart("a", "c2ln")]),
    AssistantMessage([_THOUGHT, _SAID, _THOUGHT]),
    AssistantMessage([_SAID, _SAID]),
]


# A key that no format has.
OTHER_KEY = "a key of another version"


def with_other_keys(value: Any) -> Any:
    """*value* with `OTHER_KEY` in each object."""
    if isinstance(value, list):
        return [with_other_keys(each) for each in value]

    if not isinstance(value, dict):
        return value

    return {OTHER_KEY: 1, **{key: with_other_keys(value[key]) for key in value}}


def add_halves(value: Any) -> Any:
    """*value* with half of a surrogate pair at the end of each text."""
    if isinstance(value, str):
        return f"{value}\ud800"

    if isinstance(value, list):
        return [add_halves(item) for item in value]

    if isinstance(value, dict):
        return {key: add_halves(item) for key, item in value.items()}

    return value


class FormatContract:
    """
    The promises. All that an adapter gives is plain JSON, and nothing is
    dropped in silence.
    """

    adapter: ClassVar[Any]
    documents: ClassVar[st.SearchStrategy[Any]]
    responses: ClassVar[st.SearchStrategy[Any]]
    # The notes whose keys are not sent, such as ``response``.
    unsent_notes: ClassVar[frozenset[str]] = frozenset()

    def normalise(self, message: Message) -> Message:
        """*message* as it comes back from this format's round trip."""
        return bare(message)

    @given(data=st.data())
    def test_dump_gives_plain_json(self, data):
        """
        Whatever the messages are, the payload is JSON, losses are texts, and
        it is the same each time.
        """
        history = data.draw(st.lists(messages(), max_size=4))

        export = as_is(self.adapter).dump(history)

        assert isinstance(export, Export)
        assert as_json(export.payload) == as_json(
            as_is(self.adapter).dump(history).payload
        )
        assert export == as_is(self.adapter).dump(iter(history))
        assert all(isinstance(lost, Lost) for lost in export.lost)
        assert all(lost.what and lost.why for lost in export.lost)
        assert as_text(export.lost)

    @given(data=st.data())
    def test_loses_nothing_in_silence(self, data):
        """
        What was dumped loads as it was, or the loss is listed, with the
        message it is in.
        """
        self.check_nothing_lost(data.draw(messages()))

    @pytest.mark.parametrize("message", PLAIN_MESSAGES)
    def test_loses_nothing_of_plain_messages(self, message):
        """
        The same of what nearly every format can represent in one way or another, but
        random messages rarely are.
        """
        self.check_nothing_lost(message)

    def check_nothing_lost(self, message: Message) -> None:
        """Check that *message* is dumped and loaded, or what it loses listed."""
        # A call without id gets one in a request.
        has_ids = all(call.id for call in message.tool_calls)
        adapter = as_is(self.adapter) if has_ids else self.adapter
        export = adapter.dump([message])

        assert all(lost.path.startswith("messages[0]") for lost in export.lost)
        if not export.lost:
            loaded = self.adapter.load(export.payload)
            assert [self.normalise(message)] == [self.normalise(one) for one in loaded]

    @given(data=st.data())
    def test_dump_undoes_load(self, data):
        """
        What was loaded is written as it was, key for key, but with the ids that were
        made up; changing the payload changes no message.
        """
        document = data.draw(self.documents)

        loaded = self.adapter.load(copy.deepcopy(document))
        export = as_is(self.adapter).dump(loaded)
        document = with_made_ids(document, export.payload)

        assert () == export.lost
        assert as_json(document) == as_json(export.payload)
        empty_all(export.payload)
        assert as_json(document) == as_json(as_is(self.adapter).dump(loaded).payload)

    @given(data=st.data())
    def test_load_changes_nothing(self, data):
        """A payload is only read, and gives the same messages each time."""
        document = data.draw(self.documents | self.responses)
        before = as_json(document)

        loaded = self.adapter.load(document)

        assert isinstance(loaded, tuple)
        again = self.adapter.load(copy.deepcopy(document))
        assert without_unique_ids(repr(loaded)) == without_unique_ids(repr(again))
        assert before == as_json(document)

    @given(data=st.data())
    def test_keys_are_listed_elsewhere(self, data):
        """Other formats find the keys that are kept, whatever note they are in."""
        document = with_other_keys(data.draw(self.documents))
        try:
            loaded = self.adapter.load(document)
        except DecodeError:
            return

        for path, value in places(loaded):
            kept = map_of(value.metadata, RESERVED)
            notes = map_of(kept, self.adapter.FORMAT.name)
            known = {*self.adapter.FORMAT.kept, *self.unsent_notes}
            found = {name for name in notes if OTHER_KEY in map_of(notes, name)}
            assert found <= known, (
                f"the keys of {path} are kept in the notes {found - known}, which "
                "other formats drop in silence: FORMAT has to name all notes with keys"
            )

    @given(data=st.data())
    def test_refuses_in_one_way(self, data):
        """
        Of a document with something wrong in it comes a conversation, which can be
        sent, even mended, or a `DecodeError` with paths, and nothing else.
        """
        document = copy.deepcopy(data.draw(self.documents | self.responses))
        path = data.draw(st.lists(st.integers(0, 9), max_size=7))
        self.check_refusal(put_junk(document, path, data.draw(JUNK)))

    @given(data=st.data())
    def test_refuses_in_one_way_what_is_valid_elsewhere(self, data):
        """The same if a text is another one that has this key, such as the role."""
        given = self.documents | self.responses
        documents = copy.deepcopy(data.draw(st.lists(given, min_size=1, max_size=3)))

        for document in documents:
            for wrong in islice(swap_texts(document, documents), 20):
                self.check_refusal(wrong)

    @given(data=st.data())
    def test_lists_what_was_mended(self, data):
        """
        The same if a text ends in half of a surrogate pair: what is sent of it is
        listed by its path.
        """
        document = copy.deepcopy(data.draw(self.documents | self.responses))

        for wrong in islice(swap_texts(document, [add_halves(document)]), 20):
            self.check_refusal(wrong)

    def check_refusal(self, wrong: Any) -> None:
        """Check that *wrong* is a conversation, or refused with paths."""
        for read in (self.adapter.load, self.adapter.load_usage):
            refused = refusal(read, wrong)
            assert refused is None or refused.problems
            assert all(
                one.path.startswith("$") and one.what and as_text(one)
                for one in (refused.problems if refused else ())
            )
            if refused is None and read is self.adapter.load:
                export = as_is(self.adapter).dump(read(wrong))
                assert as_json(export.payload).encode()
                assert all(lost.what and lost.why for lost in export.lost)

    @pytest.mark.parametrize("nothing", [None, 3, "text", True, b"", object()])
    def test_refuses_what_is_no_document(self, nothing):
        """What is neither an object nor a list is refused at once."""
        with pytest.raises(DecodeError, match=r"\$"):
            self.adapter.load(nothing)

    @pytest.mark.parametrize("wrong", ["hi", {"role": "user"}, None, TextPart("hi")])
    def test_dumps_only_messages(self, wrong):
        """What is not a message is refused, with its place."""
        with pytest.raises(InvalidMessageError, match=r"messages\[1\] is a "):
            as_is(self.adapter).dump([UserMessage("hi"), wrong])

    def test_counts_from_what_was_given(self):
        """A message that can't be sent is left out, and still counted."""
        unknown = UnknownMessage({"role": "critic"}, source="a format")

        export = as_is(self.adapter).dump([unknown, UserMessage("hi"), unknown])

        assert {"messages[0]", "messages[2]"} == {lost.path for lost in export.lost}
        assert "critic: is specific to a format" in str(export.lost[0])
        assert ["hi"] == [one.text for one in self.adapter.load(export.payload)]

    @pytest.mark.parametrize("role", [UserMessage, AssistantMessage])
    def test_parts_of_others(self, role):
        """An unknown part of another format is listed by its kind, and left out."""
        hologram = UnknownPart({"type": "hologram"}, source="a format")

        export = as_is(self.adapter).dump([role([TextPart("hi"), hologram])])

        lost = [(each.path, each.what) for each in export.lost]
        assert lost == [("messages[0].parts[1]", "hologram")]
        assert ["hi"] == [one.text for one in self.adapter.load(export.payload)]

    def test_as_if_it_were_not_there(self):
        """What stands around a message that can't be sent is written as without it."""
        unknown = UnknownMessage({"role": "critic"}, source="a format")
        call = AssistantMessage(tool_calls=[ToolCall("c1", "f", "{}")])
        result = ToolMessage("ok", tool_call_id="c1", tool_name="f")
        messages = [UserMessage("a"), UserMessage("b"), call, result, UserMessage("c")]
        for adapter in (self.adapter, as_is(self.adapter)):
            expected = adapter.dump(messages)
            for at in range(len(messages) + 1):
                export = adapter.dump([*messages[:at], unknown, *messages[at:]])

                assert as_json(export.payload) == as_json(expected.payload)
                assert f"messages[{at}]" in {lost.path for lost in export.lost}

    def test_no_messages_at_all(self):
        """An empty list is not a message."""
        export = as_is(self.adapter).dump([])

        assert () == export.lost
        assert () == self.adapter.load(export.payload)


# The same tests run for several adapters in one process. An example of one that
# is replayed for another is an example like any other.
_SWAPPED = {
    FormatContract.test_refuses_in_one_way_what_is_valid_elsewhere,
    FormatContract.test_lists_what_was_mended,
}
for _promise in vars(FormatContract).values():
    if is_hypothesis_test(_promise):
        # Of each of these documents, up to twenty texts are swapped.
        _settings = fewer() if _promise in _SWAPPED else settings()
        settings(_settings, suppress_health_check=[HealthCheck.differing_executors])(
            _promise
        )
