"""What a stream brings in pieces besides texts: calls, audio, and lists of dialects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from conversation_state._canonical import load_exactly
from conversation_state.adapters.engine.notes import with_notes, without_empty
from conversation_state.adapters.engine.reading import (
    ObjectReader,
    is_list,
    is_map,
    mended,
)
from conversation_state.adapters.engine.streaming import (
    SurrogateBuffer,
    add_rest,
    add_to,
    call_chunks,
)
from conversation_state.adapters.engine.wire import (
    decode_base64,
    make_call_id,
    read_object_text,
)
from conversation_state.adapters.openai_chat._blocks import SOURCE
from conversation_state.errors import DecodeError
from conversation_state.messages import AssistantMessage
from conversation_state.parts import AudioPart
from conversation_state.tools import ToolCall

_AUDIO = frozenset({"data", "transcript"})
_CALL = frozenset({"custom", "function", "id", "index", "type"})
_FUNCTION = frozenset({"arguments", "name"})
_CUSTOM = frozenset({"input", "name"})
_LEAST = frozenset({"function", "index"})
_LEGACY = "function_call"
# No response has as many calls; behind the last one there has to be room for others.
_MAX_INDEX = 2**31


@attrs.define(eq=False)
class _ChatCall:
    index: int
    id: str
    made_id: str  # "" if the provider sent an id with the first piece
    name: str = ""
    is_begun: bool = False
    keys: dict[str, Any] = attrs.field(factory=dict)  # that the provider adds
    cut: SurrogateBuffer = attrs.field(factory=SurrogateBuffer)
    # The arguments so far, if the provider sent no id.
    pieces: list[str] = attrs.field(factory=list)

    def is_whole(self) -> bool:
        """
        Whether the arguments are a whole JSON value; only of a call without an id.
        """
        # A text that is cut elsewhere is not parsed.
        if not self.made_id or not (
            self.pieces and self.pieces[-1].endswith(("}", "]"))
        ):
            return False

        try:
            load_exactly("".join(self.pieces))
        except DecodeError:
            return False

        return True


class CallAssembler:
    """The calls of one stream while it is read, numbered as they are opened."""

    def __init__(self) -> None:
        self._opened: list[_ChatCall] = []
        self._at: dict[int | str, _ChatCall] = {}
        self._by_id: dict[str, _ChatCall] = {}
        # The indexes of calls, and the one behind the last.
        self._taken: set[int] = set()
        self._next = 0

    def read(self, delta: ObjectReader, prefix: str) -> list[ToolCall]:
        """The pieces that *delta* brings. Ids that are made up begin with *prefix*."""
        pieces = [
            self._read_call_piece(node, prefix)
            for node in delta.optional_objects("tool_calls", "a list or null")
        ]
        legacy = delta.raw.get(_LEGACY)
        if is_map(legacy):
            node = ObjectReader(delta.reading, legacy, f"{delta.path}.{_LEGACY}")
            pieces.append(self._read_legacy(node, prefix))
        elif legacy is not None:
            delta.wrong(_LEGACY, "an object or null")

        return pieces

    def expect_more(
        self, pieces: Any
    ) -> tuple[SurrogateBuffer, Callable[[str], AssistantMessage]] | None:
        """
        The buffer of further arguments, and a function that makes chunks of them, if
        *pieces* is a single one with arguments only; else None.
        """
        raw = pieces[0] if is_list(pieces) and len(pieces) == 1 else {}
        body = raw.get("function")
        if raw.keys() != _LEAST or not is_map(body) or body.keys() != {"arguments"}:
            return None

        call = self._at.get(raw["index"])
        if call is None:
            return None

        make, pieces = call_chunks(call.index), call.pieces
        # An id shows where the next call begins. Without ids the end of the arguments
        # shows it, so they are kept.
        if not call.made_id:
            return call.cut, make

        def make_and_keep(arguments: str) -> AssistantMessage:
            pieces.append(arguments)
            return make(arguments)

        return call.cut, make_and_keep

    def rest(self) -> list[ToolCall]:
        """
        The last pieces: what still waits for the second half of a character, and what
        the provider adds to calls.
        """
        pieces: list[ToolCall] = []
        for call in self._opened:
            rest = call.cut.rest()
            if rest or call.keys:
                metadata = with_notes(SOURCE, without_empty({"keys": call.keys}))
                piece = ToolCall("", "", rest, index=call.index, metadata=metadata)
                pieces.append(piece)

        return pieces

    def has_calls(self) -> bool:
        return bool(self._opened)

    def is_mended(self) -> bool:
        return any(call.cut.is_mended for call in self._opened)

    def _read_call_piece(self, node: ObjectReader, prefix: str) -> ToolCall:
        raw = node.raw
        at = raw.get("index")
        if at is not None and (at.__class__ is not int or not 0 <= at < _MAX_INDEX):
            node.wrong("index", "the index of a call, from 0 to 2**31 - 1, or null")
            at = None

        word, known = (
            ("custom", _CUSTOM) if "custom" in raw else ("function", _FUNCTION)
        )
        body = raw.get(word)
        name = arguments = ""
        inside = None
        if is_map(body):
            inside = ObjectReader(node.reading, body, f"{node.path}.{word}")
            name = _get_text(inside, "name")
            key = "input" if word == "custom" else "arguments"
            # Ollama and others send the whole object that OpenAI has as JSON text.
            is_object = is_map(body.get(key))
            reader = read_object_text if is_object else _get_piece
            arguments = reader(inside, key)
        elif body is not None:
            node.wrong(word, "an object or null")

        call_id = _get_text(node, "id")
        call = self._find_continued(at, call_id, name) or self._open_call(
            at, call_id, prefix
        )
        if at is not None:
            self._at[at] = call

        add_rest(call.keys, node, _CALL)
        if inside is not None:
            within: dict[str, Any] = {}
            add_rest(within, inside, known)
            add_to(call.keys, {word: within} if within else {})

        if call_id != call.id and call_id:
            call.keys["id"] = call_id

        return _make_piece(call, name, arguments, {}, kind=_get_text(node, "type"))

    def _read_legacy(self, body: ObjectReader, prefix: str) -> ToolCall:
        notes = {}
        call = self._at.get(_LEGACY)
        given_name = _get_text(body, "name")
        if call is None or (given_name and call.name and given_name != call.name):
            call = self._at[_LEGACY] = self._open_call(None, "", prefix)
            notes = {"under": {_LEGACY: True}}

        add_rest(call.keys, body, _FUNCTION)
        arguments = _get_piece(body, "arguments")
        return _make_piece(call, given_name, arguments, notes)

    def _find_continued(
        self, at: int | None, call_id: str, name: str
    ) -> _ChatCall | None:
        """The call that a piece continues; None if it starts a new one."""
        call = self._opened[-1] if self._opened else None
        if at is not None:
            call = self._at.get(at)
        elif call_id in self._by_id:
            call = self._by_id[call_id]

        # A call that began without an id may get one later.
        if call is None or (call_id and not call.made_id and call_id != call.id):
            return None

        # Some providers repeat the same name with every piece. A piece with another
        # name is a new call, even if it has no id.
        if name and call.name and name != call.name:
            return None

        # The arguments of a call are one object. A piece with a name behind its end
        # starts a new call.
        return None if name and call.is_whole() else call

    def _open_call(self, at: int | None, call_id: str, prefix: str) -> _ChatCall:
        # `concat` joins the chunks of a call by its index, so two calls must not have
        # the same one. Some servers number all calls 0.
        index = self._next if at is None or at in self._taken else at
        self._taken.add(index)
        self._next = max(self._next, index + 1)
        made_id = "" if call_id else make_call_id(prefix, len(self._opened))
        call = _ChatCall(index, call_id or made_id, made_id)
        self._opened.append(call)
        self._by_id.setdefault(call.id, call)
        return call


def _get_text(node: ObjectReader, key: str) -> str:
    return node.text(key) if _get_piece(node, key) else ""


def _get_piece(node: ObjectReader, key: str) -> str:
    value = node.raw.get(key)
    if value is None or isinstance(value, str):
        return value or ""

    node.wrong(key, "a text or null")
    return ""


def _make_piece(
    call: _ChatCall,
    name: str,
    arguments: str,
    notes: dict[str, Any],
    *,
    kind: str = "",
) -> ToolCall:
    opens, call.is_begun = not call.is_begun, True
    if call.made_id:
        call.pieces.append(arguments)
        if opens:
            notes = {"made_id": call.made_id, **notes}

    # Some providers repeat the name with every piece; only the first piece has it here.
    new = name if name != call.name else ""
    call.name = call.name or name
    metadata = with_notes(SOURCE, notes)
    return ToolCall(
        call.id if opens else "",
        new,
        call.cut.next(arguments),
        index=call.index,
        type=(opens and kind) or "function",
        metadata=metadata,
    )


class AudioAssembler:
    """The audio of one stream, which is a part at the end."""

    def __init__(self) -> None:
        self._keys: dict[str, Any] = {}
        # The pieces of the data, in base64, and of the transcript.
        self._data: list[str] = []
        self._transcript: list[str] = []

    def read(self, delta: ObjectReader) -> None:
        node = delta.inside("audio")
        if node is not None:
            add_rest(self._keys, node, _AUDIO)
            self._data.append(_get_piece(node, "data"))
            self._transcript.append(_get_piece(node, "transcript"))

    def finish(self) -> tuple[AudioPart | None, dict[str, Any]]:
        """
        The audio with its metadata, None if it can't be decoded; and then
        what there is instead.
        """
        transcript, encoded = mended("".join(self._transcript)), "".join(self._data)
        keys = {**self._keys, **without_empty({"transcript": transcript})}
        # Each piece may have been encoded by itself, with padding at its end. A single
        # character that is left of a piece is less than a byte.
        texts = [
            text[:-1] if len(text) % 4 == 1 else text
            for text in re.split("=+", "".join(encoded.split()))
        ]
        decoded = [decode_base64(text) for text in texts if text]
        if not decoded or not all(decoded):
            return None, {**keys, **without_empty({"data": encoded})}

        notes = {"under": {"audio": True}, "keys": keys}
        metadata = with_notes(SOURCE, without_empty(notes))
        return AudioPart(data=b"".join(decoded), metadata=metadata), {}


class _PartialText(list[str]):
    """A text that comes in pieces: appending each to a text would copy the text."""


class IndexedLists:
    """
    Lists whose items come in pieces, most with the index of the item they are of.

    If a key comes twice, its last value stands, unless it is a text that comes in
    pieces. A piece with another type or id belongs to another item, even if the
    index is the same (OpenRouter). Without an index (LiteLLM), a text continues
    until it is signed.
    """

    def __init__(self) -> None:
        self._lists: dict[str, list[Any]] = {}
        # The last item of each list with an index, and without one.
        self._last: dict[tuple[str, object], dict[str, Any]] = {}

    def add(self, key: str, pieces: Sequence[Any], texts: frozenset[str]) -> None:
        """
        Add *pieces* of items of the list under *key*, plain JSON. The values of the
        keys *texts* come in pieces themselves.
        """
        items = self._lists.setdefault(key, [])
        for piece in pieces:
            if not is_map(piece):
                items.append(piece)
                continue

            at: Any = piece.get("index")
            place = (key, at if at.__class__ is int else None)
            item = self._last.get(place)
            if item is None or not _is_more_of(item, piece, texts):
                item = self._last[place] = {}
                items.append(item)

            _add_to_item(item, piece, texts)

    def rest(self) -> dict[str, Any]:
        """The lists, as far as they were received."""
        return {
            key: [_join_texts(item) if is_map(item) else item for item in items]
            for key, items in self._lists.items()
        }


def _is_more_of(
    item: Mapping[str, Any], piece: Mapping[str, Any], texts: frozenset[str]
) -> bool:
    """
    Whether *piece* can belong to *item*: neither their ids nor their types differ. If
    they have no index, the item has one of the keys *texts* and no signature yet.
    """
    if piece.get("index").__class__ is not int and (
        texts.isdisjoint(item) or item.get("signature")
    ):
        return False

    return not any(
        None not in (item.get(key), piece.get(key)) and item[key] != piece[key]
        for key in ("id", "type")
    )


def _add_to_item(
    item: dict[str, Any], piece: Mapping[str, Any], texts: frozenset[str]
) -> None:
    is_end = piece.get("signature") and piece.get("index") is None
    for key, value in piece.items():
        before = item.get(key)
        if key not in texts or not isinstance(value, str):
            if value is not None or key not in item:
                item[key] = value
        elif not isinstance(before, _PartialText):
            item[key] = _PartialText([value])
        # LiteLLM may repeat the whole text in the last piece, with its signature.
        elif not is_end or "".join(before) != value:
            before.append(value)


def _join_texts(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: "".join(value) if isinstance(value, _PartialText) else value
        for key, value in item.items()
    }
