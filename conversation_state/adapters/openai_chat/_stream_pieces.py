"""What a stream brings in pieces besides texts: calls, audio, and lists of dialects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from conversation_state._canonical import load_exactly
from conversation_state.adapters.engine.notes import with_notes, without_empty
from conversation_state.adapters.engine.reading import (
    ObjectReader,
    is_map,
    mended,
)
from conversation_state.adapters.engine.streaming import (
    SurrogateBuffer,
    add_rest,
    add_to,
    make_arguments,
)
from conversation_state.adapters.engine.wire import (
    decode_base64,
    make_call_id,
    read_object_text,
)
from conversation_state.adapters.openai_chat._blocks import SOURCE
from conversation_state.errors import DecodeError
from conversation_state.parts import AudioPart
from conversation_state.tools import ToolCall

_AUDIO = frozenset({"data", "transcript"})
_CALL = frozenset({"custom", "function", "id", "index", "type"})
_FUNCTION = frozenset({"arguments", "name"})
_CUSTOM = frozenset({"input", "name"})
_LEGACY = "function_call"
# The keys of a delta that calls are under.
CALL_KEYS = frozenset({_LEGACY, "tool_calls"})
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


class _CallPiece(NamedTuple):
    """What a piece says of the call that it is of."""

    at: int | None  # the provider's index
    id: str
    name: str


def by_index(calls: CallAssembler, piece: _CallPiece) -> _ChatCall | None:
    """
    A piece with an index is of the call that came with it last.

    Source:
        OpenAI's reference; every piece of its streams has one.
    """
    return None if piece.at is None else calls.known.get(piece.at)


def by_id(calls: CallAssembler, piece: _CallPiece) -> _ChatCall | None:
    """
    A piece without an index is of the call whose id it repeats.

    Source:
        Servers that send an id with every piece, and no index.
    """
    return calls.known.get(piece.id) if piece.at is None else None


def by_order(calls: CallAssembler, piece: _CallPiece) -> _ChatCall | None:
    """
    A piece with neither is of the call before it.

    Source:
        Gemini's compatible API once sent calls without an index.
    """
    return calls.opened[-1] if piece.at is None and calls.opened else None


def another_id(call: _ChatCall, piece: _CallPiece) -> bool:
    """
    A piece with another id begins a call. One that began without may get it later.

    Source:
        Servers that number all calls 0.
    """
    return bool(piece.id) and not call.made_id and piece.id != call.id


def another_name(call: _ChatCall, piece: _CallPiece) -> bool:
    """
    A piece with another name begins a call, even without an id; the same name may be
    repeated with every piece.

    Source:
        Servers that send calls without ids, and those that repeat the name.
    """
    return bool(piece.name and call.name) and piece.name != call.name


def whole_json_ends(call: _ChatCall, piece: _CallPiece) -> bool:
    """
    A piece with a name behind whole arguments begins a call, if calls have no ids.

    Source:
        Servers that send two calls of one tool, whole and without ids.
    """
    # A text that is cut elsewhere is not parsed.
    if not (piece.name and call.made_id and call.pieces):
        return False

    if not call.pieces[-1].endswith(("}", "]")):
        return False

    try:
        load_exactly("".join(call.pieces))
    except DecodeError:
        return False

    return True


# Which call a piece continues: that of the first rule that finds one, unless one of the
# others says that the piece begins a new call.
CONTINUES = (by_index, by_id, by_order)
BEGINS = (another_id, another_name, whole_json_ends)


class CallAssembler:
    """The calls of one stream while it is read, numbered as they are opened."""

    def __init__(self, make_prefix: Callable[[], str]) -> None:
        self._make_prefix = make_prefix  # of ids that are made up
        self.opened: list[_ChatCall] = []
        # By the index or the id that the provider gave; and the one of the format
        # before ``tool_calls``.
        self.known: dict[int | str, _ChatCall] = {}
        self._legacy: _ChatCall | None = None
        # The indexes of calls, and the one behind the last.
        self._taken: set[int] = set()
        self._next = 0

    def read(self, delta: ObjectReader) -> list[ToolCall]:
        """The pieces that *delta* brings."""
        pieces = [
            self._read_call_piece(node)
            for node in delta.optional_objects("tool_calls", "a list or null")
        ]
        legacy = delta.raw.get(_LEGACY)
        if is_map(legacy):
            node = ObjectReader(delta.reading, legacy, f"{delta.path}.{_LEGACY}")
            pieces.append(self._read_legacy(node))
        elif legacy is not None:
            delta.wrong(_LEGACY, "an object or null")

        return pieces

    def rest(self) -> list[ToolCall]:
        """
        The last pieces: what still waits for the second half of a character, and what
        the provider adds to calls.
        """
        pieces: list[ToolCall] = []
        for call in self.opened:
            rest = call.cut.rest()
            if rest or call.keys:
                metadata = with_notes(SOURCE, without_empty({"keys": call.keys}))
                piece = ToolCall("", "", rest, index=call.index, metadata=metadata)
                pieces.append(piece)

        return pieces

    def is_mended(self) -> bool:
        return any(call.cut.is_mended for call in self.opened)

    def _read_call_piece(self, node: ObjectReader) -> ToolCall:
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
            name = _get_text(inside, "name") if "name" in body else ""
            key = "input" if word == "custom" else "arguments"
            # Ollama and others send the whole object that OpenAI has as JSON text.
            is_object = is_map(body.get(key))
            reader = read_object_text if is_object else _get_piece
            arguments = reader(inside, key)
        elif body is not None:
            node.wrong(word, "an object or null")

        piece = _CallPiece(at, _get_text(node, "id") if "id" in raw else "", name)
        call = self._find_continued(piece) or self._open_call(at, piece.id)
        if at is not None:
            self.known[at] = call

        if not raw.keys() <= _CALL:
            add_rest(call.keys, node, _CALL)

        if inside is not None and not inside.raw.keys() <= known:
            within: dict[str, Any] = {}
            add_rest(within, inside, known)
            add_to(call.keys, {word: within} if within else {})

        if piece.id and piece.id != call.id:
            call.keys["id"] = piece.id

        kind = _get_text(node, "type") if "type" in raw else ""
        return _make_piece(call, name, arguments, {}, kind=kind)

    def _read_legacy(self, body: ObjectReader) -> ToolCall:
        notes = {}
        call = self._legacy
        given_name = _get_text(body, "name")
        if call is None or another_name(call, _CallPiece(None, "", given_name)):
            call = self._legacy = self._open_call(None, "")
            notes = {"under": {_LEGACY: True}}

        add_rest(call.keys, body, _FUNCTION)
        arguments = _get_piece(body, "arguments")
        return _make_piece(call, given_name, arguments, notes)

    def _find_continued(self, piece: _CallPiece) -> _ChatCall | None:
        """The call that *piece* continues; None if it begins a new one."""
        for find in CONTINUES:
            call = find(self, piece)
            if call is not None:
                # Nearly all pieces are arguments alone, and begin nothing.
                begins = (piece.id or piece.name) and any(
                    begins_call(call, piece) for begins_call in BEGINS
                )
                return None if begins else call

        return None

    def _open_call(self, at: int | None, call_id: str) -> _ChatCall:
        # `concat` joins the chunks of a call by its index, so two calls must not have
        # the same one. Some servers number all calls 0.
        index = self._next if at is None or at in self._taken else at
        self._taken.add(index)
        self._next = max(self._next, index + 1)
        made_id = "" if call_id else make_call_id(self._make_prefix(), len(self.opened))
        call = _ChatCall(index, call_id or made_id, made_id)
        self.opened.append(call)
        self.known.setdefault(call.id, call)
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
    if not (opens or new):
        return make_arguments(call.index, call.cut.next(arguments))

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
