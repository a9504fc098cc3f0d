"""
What a stream brings in pieces besides texts: calls, audio, and lists of dialects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

import attrs

from conversation_state.adapters._notes import with_notes, without_empty
from conversation_state.adapters._reading import ObjectReader, is_list, is_map
from conversation_state.adapters._streaming import (
    SurrogateBuffer,
    add_rest,
    add_to,
    call_chunks,
)
from conversation_state.adapters._wire import decode_base64
from conversation_state.adapters.openai_chat._blocks import SOURCE
from conversation_state.messages import AssistantMessage
from conversation_state.parts import AudioPart, Part
from conversation_state.tools import ToolCall

_AUDIO = frozenset({"data", "transcript"})
_CALL = frozenset({"custom", "function", "id", "index", "type"})
_FUNCTION = frozenset({"arguments", "name"})
_CUSTOM = frozenset({"input", "name"})
_LEAST = frozenset({"function", "index"})
_LEGACY = "function_call"
_ARGUMENTS = "function.arguments"
# No response has as many calls; behind the last one there has to be room for others.
_MAX_INDEX = 2**31


class _BracketDepth:
    """
    How deep a JSON text is nested so far. *is_whole* says whether it is an object, or
    a list, that has been closed.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._in_text = False
        self._is_escaped = False
        self.is_whole = False

    def read(self, piece: str) -> None:
        for character in piece:
            if self._is_escaped:
                self._is_escaped = False
            elif character == '"':
                self._in_text = not self._in_text
            elif self._in_text:
                self._is_escaped = character == "\\"
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                self.is_whole = not self._depth


@attrs.define(eq=False)
class _ChatCall:
    index: int
    id: str
    made_id: str  # "" if the provider sent an id with the first piece
    late_id: str = ""
    name: str = ""
    is_custom: bool = False
    is_begun: bool = False
    keys: dict[str, Any] = attrs.field(factory=dict)  # that the provider adds
    arguments: SurrogateBuffer = attrs.field(factory=SurrogateBuffer)
    brackets: _BracketDepth = attrs.field(factory=_BracketDepth)

    def has_id(self, call_id: str) -> bool:
        """
        Whether this can be the call with *call_id*: a call that began without an id
        may get one later, once.
        """
        if self.made_id and not self.late_id:
            return True

        return call_id in {self.id, self.late_id}


class CallAssembler:
    """
    The calls of one stream while it is read, numbered as they are opened.
    """

    def __init__(self) -> None:
        self._opened: list[_ChatCall] = []
        self._at: dict[int | str, _ChatCall] = {}
        self._by_id: dict[str, _ChatCall] = {}
        self._taken: set[int] = set()
        self._next = 0

    def read(self, delta: ObjectReader, prefix: str) -> list[ToolCall]:
        """
        The pieces that *delta* brings. Ids that are made up begin with *prefix*.
        """
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

        make = call_chunks(call.index)
        # An id shows where the next call begins. Without ids the end of the arguments
        # shows it, so the brackets in them have to be counted.
        if not call.made_id:
            return call.arguments, make

        brackets = call.brackets

        def make_and_count(arguments: str) -> AssistantMessage:
            brackets.read(arguments)
            return make(arguments)

        return call.arguments, make_and_count

    def rest(self) -> list[ToolCall]:
        """
        The last pieces: what still waits for the second half of a character, and what
        the provider adds to calls.
        """
        pieces: list[ToolCall] = []
        for call in self._opened:
            rest = call.arguments.rest()
            if rest or call.keys:
                metadata = with_notes(SOURCE, without_empty({"keys": call.keys}))
                piece = ToolCall("", "", rest, index=call.index, metadata=metadata)
                pieces.append(piece)

        return pieces

    def mended(self) -> list[str]:
        """
        The paths of arguments in which half of a character was alone.
        """
        by_index = sorted(self._opened, key=lambda call: call.index)
        return [
            f"tool_calls[{at}].{'custom.input' if call.is_custom else _ARGUMENTS}"
            for at, call in enumerate(by_index)
            if call.arguments.is_mended
        ]

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
            arguments = _get_piece(inside, "input" if word == "custom" else "arguments")
        elif body is not None:
            node.wrong(word, "an object or null")

        call_id = _get_text(node, "id")
        call = self._find_continued(at, call_id, name) or self._open_call(
            at, call_id, prefix
        )
        if at is not None:
            self._at[at] = call

        call.is_custom = word == "custom"
        add_rest(call.keys, node, _CALL)
        if inside is not None:
            within: dict[str, Any] = {}
            add_rest(within, inside, known)
            add_to(call.keys, {word: within} if within else {})

        if call.made_id and call_id and not call.late_id:
            call.late_id = call.keys["id"] = call_id
            self._by_id.setdefault(call_id, call)

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
        """
        The call that a piece continues; None if it starts a new one.
        """
        call = self._opened[-1] if self._opened else None
        if at is not None:
            call = self._at.get(at)
        elif call_id in self._by_id:
            call = self._by_id[call_id]

        if call is None or (call_id and not call.has_id(call_id)):
            return None

        # Some providers repeat the same name with every piece. A piece with another
        # name is a new call, even if it has no id.
        if name and call.name and name != call.name:
            return None

        # The arguments of a call are one object. A piece with a name behind its end
        # starts a new call.
        again = name and call.made_id and call.brackets.is_whole
        return None if again else call

    def _open_call(self, at: int | None, call_id: str, prefix: str) -> _ChatCall:
        # `concat` joins the chunks of a call by its index, so two calls must not have
        # the same one. Some servers number all calls 0.
        index = at
        if index is None or index in self._taken:
            index = self._next

        self._next = max(self._next, index + 1)
        self._taken.add(index)
        made_id = "" if call_id else f"{prefix}_call_{len(self._opened)}"
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
        call.brackets.read(arguments)
        if opens:
            notes = {"made_id": call.made_id, **notes}

    # Some providers repeat the name with every piece; only the first piece has it here.
    new = name if name != call.name else ""
    call.name = call.name or name
    metadata = with_notes(SOURCE, notes)
    return ToolCall(
        call.id if opens else "",
        new,
        call.arguments.next(arguments),
        index=call.index,
        type=(opens and kind) or "function",
        metadata=metadata,
    )


class AudioAssembler:
    def __init__(self) -> None:
        self._repair = SurrogateBuffer()
        self._encoded = ""
        self._keys: dict[str, Any] = {}
        self._last: dict[str, Any] = {}
        self._transcript: list[str] = []
        # The note that takes what `rest` returns: "keys" as long as no data came, then
        # "audio".
        self.place = "keys"

    def read(self, delta: ObjectReader) -> list[Part]:
        """
        The audio that *delta* brings, with its metadata.
        """
        raw = delta.raw.get("audio")
        if raw is None:
            return []

        if not is_map(raw):
            delta.wrong("audio", "an object or null")
            return []

        node = ObjectReader(delta.reading, raw, f"{delta.path}.audio")
        rest: dict[str, Any] = {}
        add_rest(rest, node, _AUDIO)
        # Most keys come with every piece, and are new only once.
        add_to(self._keys, {k: rest[k] for k in rest if self._last.get(k) != rest[k]})
        self._last |= rest
        if raw.get("transcript") is not None:
            piece = raw["transcript"]
            if isinstance(piece, str):
                self._transcript.append(self._repair.next(piece))
            else:
                node.wrong("transcript", "a text or null")

        octets = self._decode_data(node) if raw.get("data") is not None else b""
        return [self._make_part(octets)] if octets else []

    def _make_part(self, octets: bytes) -> AudioPart:
        self.place = "audio"
        notes = {"under": {"audio": True}, "keys": self._take_keys()}
        metadata = with_notes(SOURCE, without_empty(notes))
        return AudioPart(data=octets, metadata=metadata)

    def _take_keys(self) -> dict[str, Any]:
        keys, transcript = self._keys, "".join(self._transcript)
        self._keys, self._transcript = {}, []
        return {**keys, "transcript": transcript} if transcript else keys

    def _decode_data(self, node: ObjectReader) -> bytes:
        # A piece may be cut anywhere. Groups of four characters are whole bytes, and so
        # is a text up to its padding; other characters wait for the next piece.
        given = node.raw["data"]
        if not isinstance(given, str):
            node.wrong("data", "a text in base64")
            return b""

        text = self._encoded + "".join(given.split())
        *ended, last = re.split("=+", text)
        whole = len(last) // 4 * 4
        self._encoded = last[whole:]
        pieces = [piece for piece in (*ended, last[:whole]) if piece]
        decoded = [decode_base64(piece) for piece in pieces]
        if not all(decoded):
            node.wrong("data", "a text in base64")
            return b""

        return b"".join(decoded)

    def last(self) -> list[Part]:
        """
        The audio at the end, whose padding is missing.
        """
        encoded, self._encoded = self._encoded, ""
        self._transcript.append(self._repair.rest())
        octets = decode_base64(encoded)
        # A single character is less than a byte, so it is kept as text.
        if encoded and not octets:
            self._keys["data"] = encoded

        return [self._make_part(octets)] if octets else []

    def rest(self) -> dict[str, Any]:
        """
        Metadata after the last piece of audio, or without any.
        """
        keys = self._take_keys()
        return {"audio": keys} if keys else {}


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
        self._at: dict[tuple[str, int], dict[str, Any]] = {}
        # `rest` joins the pieces: appending each to a text would copy the text.
        self._pieces: list[tuple[dict[str, Any], str, list[str]]] = []

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
            has_index = at.__class__ is int
            item = (
                self._at.get((key, at)) if has_index else _find_unsigned(items, texts)
            )
            if not _is_more_of(item, piece):
                item = {}
                items.append(item)

            if has_index:
                self._at[key, at] = item
            elif piece.get("signature"):
                # Some providers repeat the whole text in the last piece, with its
                # signature.
                for name in texts & item.keys() & piece.keys():
                    if (
                        isinstance(item[name], list)
                        and "".join(item[name]) == piece[name]
                    ):
                        item[name].clear()

            self._add_to_item(item, piece, texts)

    def _add_to_item(
        self, item: dict[str, Any], piece: Mapping[str, Any], texts: frozenset[str]
    ) -> None:
        for key, value in piece.items():
            if key in texts and isinstance(value, str):
                if not isinstance(item.get(key), list):
                    item[key] = []
                    self._pieces.append((item, key, item[key]))

                item[key].append(value)
            elif value is not None or key not in item:
                item[key] = value

    def rest(self) -> dict[str, Any]:
        """
        The lists, as far as they were received.
        """
        for item, key, pieces in self._pieces:
            item[key] = "".join(pieces)

        self._pieces = []
        return self._lists


def _find_unsigned(
    items: Sequence[Any], texts: frozenset[str]
) -> dict[str, Any] | None:
    """
    The last of *items*, if it has one of the keys *texts* and no signature yet.
    """
    last = items[-1] if items else None
    if not isinstance(last, dict) or texts.isdisjoint(last) or last.get("signature"):
        return None

    return last


def _is_more_of(
    item: dict[str, Any] | None, piece: Mapping[str, Any]
) -> TypeGuard[dict[str, Any]]:
    """
    Whether *piece* can belong to *item*: neither their ids nor their types differ.
    """
    return item is not None and not any(
        None not in (item.get(key), piece.get(key)) and item[key] != piece[key]
        for key in ("id", "type")
    )
