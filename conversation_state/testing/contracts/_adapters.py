"""What an adapter promises, whatever its format looks like."""

from __future__ import annotations

import base64
import copy
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol

import attrs
from hypothesis import settings as Settings  # noqa: N812 - a class
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from conversation_state._wording import shorten_repr
from conversation_state.errors import DecodeError
from conversation_state.messages import Message, ToolMessage
from conversation_state.parts import TextPart
from conversation_state.testing._code import format_code, show_value
from conversation_state.testing._comparison import (
    assert_same,
    assert_same_on_copies,
    decoded_each,
)
from conversation_state.testing.contracts._contract import Contract, check_contract, law
from conversation_state.testing.contracts._coverage import (
    NamedExample,
    cover,
    cover_values,
)
from conversation_state.testing.contracts._examples import CONVERSATIONS
from conversation_state.testing.contracts._losses import (
    assert_keeps_order,
    assert_loses_only,
    read_losses,
)
from conversation_state.testing.strategies import json_values


class Adapter(Protocol):
    """
    **Protocol:** a module or an object that converts messages to a format and back.
    """

    def dump(self, messages: Iterable[Message], /) -> Any:
        """
        The messages in the format: an object with the attributes *payload*, plain
        JSON values, and *lost*, what the payload does not hold.
        """
        ...

    def load(self, payload: Any, /) -> tuple[Message, ...]:
        """The messages of a payload."""
        ...


# Values that `load` should refuse: large numbers, surrogates, values that are not JSON,
# and JSON of the wrong shape.
_JUNK_VALUES: list[Any] = [
    *({"type": "text"}, {}, [], None, True, 3, "text"),
    *("\ud800", -(2**64), 10**400, float("nan"), b"bytes"),
    *({None: {}}, (None,), [[[]]]),
]
_JUNK: SearchStrategy[Any] = cover_values(_JUNK_VALUES, json_values())
# At each level, and at the top.
_USUAL_PATHS = [[0] * level for level in range(7)] + [
    [0, 1, 1],
    [0, 1, 2],
    [0, 0, 1, 0],
]
PATHS: SearchStrategy[list[int]] = cover(
    st.lists(st.integers(0, 9), max_size=6),
    lambda: list(map(NamedExample.of, _USUAL_PATHS)),
)
_MAX_SWAPS = 50
_DATA_URL = re.compile(r"data:([^,]*);base64,([^,]+)")
_PATH = re.compile(r"messages\[(\d+)\]")


def strip_message(message: Message) -> Message:
    """
    *message* without what no provider gets: times, runs, positions in a stream, what
    the response reported, names of tools in results, and metadata. A text is a part
    unless it is empty, arguments that are equal as JSON are equal, no arguments are an
    empty object, and bytes are equal to a ``data:`` URL of them.
    """
    changes: dict[str, Any] = {"run_id": None, "turn_id": None, "timestamp": None}
    changes |= {"metadata": {}, "unknown": {}}
    if hasattr(message, "content"):
        # Formats that have only URLs return bytes as a data: URL.
        parts = [_read_data_url(_strip_details(part)) for part in message.parts]
        changes["content"] = [part for part in parts if part != TextPart("")]

    if hasattr(message, "response"):
        changes["response"] = None
        changes["tool_calls"] = [
            attrs.evolve(
                _strip_details(call), arguments=_normalise_json(call.arguments)
            )
            for call in message.tool_calls
        ]

    # Some formats have the name, others only the id of the call.
    if isinstance(message, ToolMessage):
        changes["tool_name"] = ""

    return message.replace(**changes)


def _strip_details(value: Any) -> Any:
    return attrs.evolve(value, index=None, metadata={}, unknown={})


def _read_data_url(part: Any) -> Any:
    """*part* with the bytes that its URL contains."""
    found = _DATA_URL.fullmatch(getattr(part, "url", None) or "")
    if found is None:
        return part

    try:
        data = base64.b64decode(found[2], validate=True)
    except ValueError:
        return part

    media_type = part.media_type or found[1]
    return attrs.evolve(part, url=None, data=data, media_type=media_type)


def _normalise_json(text: str) -> str:
    try:
        # Formats with objects have no empty text: a call without arguments has {}.
        return json.dumps(json.loads(text or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        return text


class AdapterContract(Contract):
    """
    The laws of an adapter.

    Attributes:
        adapter: The adapter: a module, or an object.
        conversations: The messages it dumps, as a strategy; any by default.
        normalise: Takes a message and returns it without what the format can't
            represent and does not list as lost; by default what no provider gets:
            times, runs and metadata.
    """

    kind, subject = "adapters", "adapter"
    adapter: Adapter
    conversations: SearchStrategy[tuple[Message, ...]] = CONVERSATIONS
    normalise: Callable[[Message], Message] = staticmethod(strip_message)

    def _observe_result(self, messages: Iterable[Message]) -> tuple[str, list[Any]]:
        """The payload as JSON, and what was lost."""
        export = self.adapter.dump(list(messages))
        return _format_json(export.payload), list(export.lost)

    @law(messages="conversations")
    def test_dumps_every_conversation(self, messages: tuple[Message, ...]) -> None:
        """
        All messages become plain JSON values, in a result that has a *payload* and
        what was *lost*.
        """
        export = self.adapter.dump(list(messages))

        assert hasattr(export, "payload"), f"no payload in {shorten_repr(export)}"
        assert hasattr(export, "lost"), f"no lost in {shorten_repr(export)}"
        self._note_first(messages, (_format_json(export.payload), list(export.lost)))

    @law(messages="conversations")
    def test_loads_what_it_dumps(self, messages: tuple[Message, ...]) -> None:
        """Every payload is loaded, as a tuple of messages; an empty one as none."""
        loaded: Any = self.adapter.load(self.adapter.dump(list(messages)).payload)

        assert isinstance(loaded, tuple), (
            f"expected a tuple, got {shorten_repr(loaded)}"
        )
        for each in loaded:
            assert isinstance(each, Message), (
                f"expected messages, got {shorten_repr(each)}"
            )

        assert messages or not loaded, f"of no messages came {shorten_repr(loaded)}"

    @law(messages="conversations")
    def test_loses_nothing_in_silence(self, messages: tuple[Message, ...]) -> None:
        """
        Each message that is dumped is loaded as it was, but for what the export lists
        as lost: a loss excuses what it names, and nothing else. A call without an id
        may get one.
        """
        # One at a time: formats merge neighbours of one role.
        for message in filter(_has_types, messages):
            export = self.adapter.dump([message])
            expected = self.normalise(message)
            loaded = [
                self.normalise(_remove_new_ids(one, message))
                for one in self.adapter.load(export.payload)
            ]
            if export.lost:
                [losses] = read_losses(export.lost, [message])
                assert_loses_only(message, loaded, losses, self.normalise)
            else:
                assert_same([expected], loaded)

    @law(messages="conversations")
    def test_keeps_order(self, messages: tuple[Message, ...]) -> None:
        """
        The texts, other parts, calls and results of a conversation are loaded in their
        order, but for what is listed as lost; messages of one role may be merged.
        """
        export = self.adapter.dump(list(messages))
        if not _has_ids(messages) or not all(map(_has_types, messages)):
            return

        before = [self.normalise(each) for each in messages]
        after = [self.normalise(each) for each in self.adapter.load(export.payload)]
        if export.lost:
            losses = read_losses(export.lost, messages)
            assert_keeps_order(messages, after, losses, self.normalise)
            return

        for expected, loaded in zip(
            _read_order(before), _read_order(after), strict=True
        ):
            assert_same(expected, loaded)

    @law(messages="conversations")
    def test_says_where_it_loses(self, messages: tuple[Message, ...]) -> None:
        """
        Each loss has a reason and a path that begins with the message: ``messages[3]``.
        """
        for lost in self.adapter.dump(list(messages)).lost:
            found = _PATH.match(str(lost.path))
            assert found, f"expected a path such as messages[0], got {lost.path!r}"
            assert int(found[1]) < len(messages), f"no message at {lost.path}"
            assert lost.why, f"no reason for {lost}"

    @law(messages="conversations")
    def test_is_pure(self, messages: tuple[Message, ...]) -> None:
        """
        The same messages give the same payload and losses again, also from an iterator
        and after other messages, and stay in their list; and loading a payload leaves
        it as it was, and gives the same messages again.
        """
        given = list(messages)
        self.adapter.dump(given)
        assert list(messages) == given, (
            f"dump changed the list of {len(messages)} messages to {len(given)}"
        )
        self._assert_repeatable(self._observe_result, messages)
        # A dump that goes through its messages twice finds an iterator empty.
        payload = self.adapter.dump(iter(messages)).payload
        before, _ = self._observe_result(messages)
        assert_same(before, _format_json(payload), "{}, and of an iterator {}")

        first = [self.normalise(each) for each in self.adapter.load(payload)]
        assert_same(before, _format_json(payload), "load changed {} into {}")
        second = [self.normalise(each) for each in self.adapter.load(payload)]
        assert_same(first, second, "first {}, then {}")

    @law(messages="conversations")
    def test_same_on_copies(self, messages: tuple[Message, ...]) -> None:
        """
        Equal messages have the same payload: those that were encoded and decoded, and
        those that were pickled.
        """
        assert_same_on_copies(self._observe_result, messages, decode=decoded_each)

    @law(messages="conversations")
    def test_dump_undoes_load(self, messages: tuple[Message, ...]) -> None:
        """
        A payload that was loaded is dumped as it was; calls without an id may get one.
        """
        payload = self.adapter.dump(list(messages)).payload
        if not _has_ids(messages):
            payload = self.adapter.dump(self.adapter.load(payload)).payload

        before = _format_json(payload)
        again = self.adapter.dump(self.adapter.load(payload)).payload

        assert_same(before, _format_json(again))

    @law(messages="conversations", path=PATHS, junk=_JUNK)
    def test_refuses_in_one_way(
        self, messages: tuple[Message, ...], path: list[int], junk: Any
    ) -> None:
        """
        Of a payload with something wrong in it come messages, or a `DecodeError`, and
        no other error.
        """
        # Copies: a dump may return parts of its constants or of messages, which the
        # junk would change for all later examples.
        payload = copy.deepcopy(self.adapter.dump(list(messages)).payload)
        for swapped in islice(swap_texts(payload), _MAX_SWAPS):
            self._check_load(swapped)

        self._check_load(put_junk(payload, path, copy.deepcopy(junk)))

    def _check_load(self, payload: Any) -> None:
        # Formatted before the call, which may change the payload.
        text = format_code(payload)
        try:
            self.adapter.load(payload)
        except DecodeError:
            return
        except Exception as error:
            error.add_note(f"for the payload {text:.1000}")
            raise

    @law(nothing=st.sampled_from([None, 3, "text", True, b""]))
    def test_refuses_other_values(self, nothing: Any) -> None:
        """What is neither an object nor a list is refused with a `DecodeError`."""
        try:
            loaded = self.adapter.load(nothing)
        except DecodeError:
            return

        raise AssertionError(
            f"expected a DecodeError for {nothing!r}, got {shorten_repr(loaded)}"
        )


def _remove_new_ids(loaded: Message, dumped: Message) -> Message:
    """
    *loaded* without the ids of calls that have none in the message that was *dumped*.
    """
    pairs = [*zip(loaded.tool_calls, dumped.tool_calls, strict=False)]
    if all(before.id for _, before in pairs) or len(pairs) < len(loaded.tool_calls):
        return loaded

    calls = [now if old.id else attrs.evolve(now, id="") for now, old in pairs]
    return loaded.replace(tool_calls=calls)


def _has_ids(messages: Iterable[Message]) -> bool:
    """Whether all calls have ids: many formats make up those that are missing."""
    return all(call.id for each in messages for call in each.tool_calls)


def _has_types(message: Message) -> bool:
    """
    Whether all media that are bytes have a type: formats that need one may find it out.
    """
    return all(
        getattr(part, "media_type", "given") or not getattr(part, "data", None)
        for part in getattr(message, "parts", ())
    )


def _read_order(messages: Iterable[Message]) -> tuple[Any, ...]:
    """All texts, the other parts, the calls, and which calls have results."""
    every = [strip_message(each) for each in messages]
    return (
        # Joined, because two messages that were merged may have one text.
        "".join([each.text for each in every]),
        [part for each in every for part in each.parts if part.kind != "text"],
        [
            (call.id, call.name, call.arguments)
            for each in every
            for call in each.tool_calls
        ],
        [each.tool_call_id for each in every if isinstance(each, ToolMessage)],
    )


def put_junk(document: Any, path: list[int], junk: Any) -> Any:
    """
    *document* with *junk* somewhere in it; *path* says where, a number for each level.
    """
    if not path or not isinstance(document, (dict, list)) or not document:
        return junk

    step, *rest = path
    keys = list(document) if isinstance(document, dict) else range(len(document))
    key: Any = keys[step % len(keys)]
    document[key] = put_junk(document[key], rest, junk)
    return document


def swap_texts(document: Any, others: Iterable[Any] = ()) -> Iterator[Any]:
    """
    *document* with one text replaced, by each other one that it or one of *others* has
    under the same key, such as another role: what is valid, but not there.

    It is the same object each time, and as it was at the end. Keys with few texts come
    first, because these are words of the format, and not content.
    """
    texts: dict[str, dict[str, None]] = {}
    for one in (document, *others):
        for holder, key, name in _find_texts(one):
            texts.setdefault(name, {})[holder[key]] = None

    places = sorted(_find_texts(document), key=lambda place: len(texts[place[2]]))
    for holder, key, name in places:
        before = holder[key]
        for text in texts[name]:
            if text != before:
                holder[key] = text
                yield document

        holder[key] = before


def _find_texts(value: Any, name: str = "") -> Iterator[tuple[Any, Any, str]]:
    """
    Where texts are in *value*: what holds it, under which key or number, and the key
    of an object that leads there.
    """
    is_object = isinstance(value, dict)
    keys: Any = value if is_object else range(len(value))
    for key in keys:
        inner: Any = key if is_object else name
        if isinstance(value[key], str):
            yield value, key, inner
        elif isinstance(value[key], (dict, list)):
            yield from _find_texts(value[key], inner)


def _format_json(value: Any) -> str:
    """*value* as JSON; 1 and true are two values there."""
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(
            f"expected plain JSON values, got {show_value(value)} ({error})"
        ) from None


def check_adapter(
    adapter: Adapter,
    *,
    without: Collection[str] = (),
    conversations: SearchStrategy[tuple[Message, ...]] | None = None,
    normalise: Callable[[Message], Message] = strip_message,
    settings: Settings | None = None,
) -> None:
    """
    Hold an adapter to the laws of `AdapterContract`: it loses nothing in silence, and
    refuses what it can't read with a `DecodeError`.

    Calls *adapter* about five thousand times.

    The options are the attributes of the class, and Hypothesis' settings.

    Raises:
        BrokenLawsError: If it breaks a law, with the smallest conversation that shows
            it as code.
    """
    __tracebackhide__ = True
    for name in ("dump", "load"):
        if not callable(getattr(adapter, name, None)):
            raise TypeError(
                "adapter: expected a module or an object with dump and load, got "
                f"{shorten_repr(adapter)}, without {name}"
            )

    options = {"conversations": conversations, "normalise": normalise}
    check_contract(AdapterContract, adapter, settings, without=without, **options)
