"""
Which call a piece of a streamed response belongs to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conversation_state.adapters._notes import with_notes
from conversation_state.adapters._reading import ObjectReader, is_list, is_map
from conversation_state.adapters._stream_pieces import SurrogateBuffer, call_chunks
from conversation_state.adapters._streaming import ChangeFilter
from conversation_state.adapters.openai_chat._blocks import SOURCE
from conversation_state.messages import AssistantMessage
from conversation_state.tools import ToolCall

__all__ = ["CallAssembler"]

_CALL = frozenset({"custom", "function", "id", "index", "type"})
_FUNCTION = frozenset({"arguments", "name"})
_CUSTOM = frozenset({"input", "name"})
_LEAST = frozenset({"function", "index"})
_LEGACY = "function_call"
_ARGUMENTS = "function.arguments"
_MAX_INDEX = 2**63 - 1


class _ChatCall:
    def __init__(self, index: int, call_id: str, made_id: str) -> None:
        self.index = index
        self.id = call_id or made_id
        self.made_id = "" if call_id else made_id
        self.late_id = ""
        self.name = ""
        self.is_custom = False
        self.pieces = 0
        self.arguments = SurrogateBuffer()
        self.brackets = _BracketDepth()

    def has_id(self, call_id: str) -> bool:
        """
        Whether this can be the call with *call_id*: a call that began without an id
        may get one later, once.
        """
        if self.made_id and not self.late_id:
            return True

        return call_id in {self.id, self.late_id}


class _BracketDepth:
    """
    How deep a JSON text is nested so far.

    Attributes:
        is_whole: Whether it is an object, or a list, that has been closed.
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


class CallAssembler:
    """
    The calls of one stream while it is read, numbered as they are opened.
    """

    def __init__(self, news: ChangeFilter) -> None:
        self._news = news
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
        The pieces that still wait for the second half of a character.
        """
        pieces = [
            ToolCall("", "", call.arguments.rest(), index=call.index)
            for call in self._opened
        ]
        return [piece for piece in pieces if piece.arguments]

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
        if at is not None and (at.__class__ is not int or not 0 <= at < 2**63):
            node.wrong("index", "the index of a call, 0 or higher, or null")
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
        keys = self._news.of(node, _CALL, call.index)
        if call.made_id and call_id and not call.late_id:
            call.late_id = keys["id"] = call_id
            self._by_id.setdefault(call_id, call)

        news = self._news.of(inside, known, (call.index, word)) if inside else {}
        if news:
            keys[word] = news

        return _make_piece(
            call, name, arguments, {}, keys, kind=_get_text(node, "type")
        )

    def _read_legacy(self, body: ObjectReader, prefix: str) -> ToolCall:
        notes = {}
        call = self._at.get(_LEGACY)
        given_name = _get_text(body, "name")
        if call is None or (given_name and call.name and given_name != call.name):
            call = self._at[_LEGACY] = self._open_call(None, "", prefix)
            notes = {"under": {_LEGACY: True}}

        keys = self._news.of(body, _FUNCTION, _LEGACY)
        arguments = _get_piece(body, "arguments")
        return _make_piece(call, given_name, arguments, notes, keys)

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
            while index in self._taken:
                index += 1

        # The next call is numbered behind all others, unless this is the largest index.
        self._next = max(self._next, index + 1) if index < _MAX_INDEX else self._next
        self._taken.add(index)
        call = _ChatCall(index, call_id, f"{prefix}_call_{len(self._opened)}")
        self._opened.append(call)
        self._by_id.setdefault(call.id, call)
        return call


def _get_text(node: ObjectReader, key: str) -> str:
    """
    The text under *key*, as valid Unicode; "" if missing.
    """
    return node.text(key) if _get_piece(node, key) else ""


def _get_piece(node: ObjectReader, key: str) -> str:
    """
    The text under *key*, as it is; "" if missing.
    """
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
    keys: dict[str, Any],
    *,
    kind: str = "",
) -> ToolCall:
    opens = not call.pieces
    call.pieces += 1
    if call.made_id:
        call.brackets.read(arguments)
        if opens:
            notes = {"made_id": call.made_id, **notes}

    # Some providers repeat the name with every piece; only the first piece has it here.
    new = name if name != call.name else ""
    call.name = call.name or name
    if keys:
        notes = {**notes, "keys": keys}

    metadata = with_notes(SOURCE, notes)
    return ToolCall(
        call.id if opens else "",
        new,
        call.arguments.next(arguments),
        index=call.index,
        type=(opens and kind) or "function",
        metadata=metadata,
    )
