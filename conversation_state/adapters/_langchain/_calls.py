"""
Tool calls, with arguments that LangChain could parse or not, and the blocks of
content that repeat them.
"""

from __future__ import annotations

from collections.abc import Mapping
from json import JSONDecoder, JSONEncoder, dumps, loads
from typing import Any

import attrs

from conversation_state._wording import shorten_repr
from conversation_state.adapters._export import PayloadWriter
from conversation_state.adapters._langchain._blocks import (
    extra_keys,
    mended_text,
    merge_keys,
    thaw_notes,
)
from conversation_state.adapters._langchain._values import (
    CALL_BLOCKS,
    SOURCE,
    CallBlock,
    encode_value,
    text_or_empty,
)
from conversation_state.adapters._notes import has_own, map_of, with_notes
from conversation_state.adapters._reading import DocumentReader, mended
from conversation_state.adapters._wire import make_unique_object, parse_finite
from conversation_state.errors import InvalidMessageError
from conversation_state.tools import ToolCall

_VALID = frozenset({"args", "id", "name", "type"})
_MAX_DEPTH = 100
# Made once, because `dumps` and `loads` with options make a new encoder or decoder for
# each text.
_encoded = JSONEncoder(ensure_ascii=False).encode
# It has no `parse_constant`, because arguments in LangChain may be NaN.
_decode_unchanged = JSONDecoder(
    object_pairs_hook=make_unique_object, parse_float=parse_finite
).decode


class MessageCalls:
    """
    The calls of one message while it is read. Never leaves the function that
    reads it.

    Blocks are matched with calls before these are made, because a block may have
    the original text of the arguments.
    """

    def __init__(self, read: DocumentReader, path: str) -> None:
        self._read = read
        self._path = path
        self._raws: list[dict[str, Any]] = []
        self._open: dict[str, int] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._texts: dict[int, str] = {}
        self.is_between = False

    def add(self, calls: Any) -> None:
        for raw in calls:
            if not isinstance(raw, dict) or not isinstance(raw.get("args"), dict):
                at = f"{self._path}.tool_calls[{len(self._raws)}]"
                self._read.problem(at, "expected a call with a dict of args")
                return

            call_id = raw.get("id")
            if isinstance(call_id, str) and call_id:
                self._open.setdefault(call_id, len(self._raws))

            self._raws.append(raw)

    def take_block(self, block: Any, place: int) -> bool:
        """
        Whether *block*, at *place* in the content, only repeats one of the
        calls. If so, it is kept for that call.
        """
        if not self._open or not isinstance(block, dict):
            return False

        kind = block.get("type")
        if kind == "tool_use" and block.get("partial_json"):
            kind = "tool_use_pieces"

        shape = CALL_BLOCKS.get(kind) if isinstance(kind, str) else None
        at = self._open.get(text_or_empty(block.get(shape.id))) if shape else None
        if shape is None or at is None:
            return False

        text = None
        if shape.is_text:
            text = block.get(shape.arguments)
            args = self._raws[at]["args"]
            if not isinstance(text, str) or _parse_arguments(text) != args:
                return False

            self._texts[at] = text

        base = _call_block(shape, self._raws[at], text)
        rest = extra_keys(block, base)
        if rest is None:
            return False

        notes: dict[str, Any] = {"block": kind, "at": place}
        if rest:
            notes["keys"] = rest

        del self._open[block[shape.id]]
        self._blocks[at] = notes
        return True

    def make_calls(self) -> list[ToolCall]:
        return [self._make_call(at, raw) for at, raw in enumerate(self._raws)]

    def _make_call(self, at: int, raw: dict[str, Any]) -> ToolCall:
        path = f"{self._path}.tool_calls[{at}]"
        notes: dict[str, Any] = {}
        index = None
        if at in self._blocks:
            notes["block"] = self._blocks[at]
            # A call without an index is behind all parts. Only a call that has parts
            # behind it needs an index.
            index = notes["block"]["at"] if self.is_between else None

        if raw.keys() != _VALID or not isinstance(raw["id"], str):
            notes["keys"] = {
                key: value
                for key, value in raw.items()
                if key not in _VALID or value is None
            }
            if "type" not in raw:
                notes["without"] = ["type"]

        arguments = self._texts.get(at)
        if arguments is None:
            arguments = _dump_arguments(self._read, raw["args"], path)

        # The depth can't exceed the number of opening brackets, so most arguments
        # need no walk.
        if arguments.count("{") + arguments.count("[") > _MAX_DEPTH:
            _check_json(self._read, raw["args"], f"{path}.args")

        call = self._build_call(raw, arguments, notes, path)
        return call if index is None else attrs.evolve(call, index=index)

    def make_invalid_calls(self, calls: Any) -> list[ToolCall]:
        """
        The calls that LangChain could not parse. They are calls of ours, too: the
        model made them, and its next request has to contain them.
        """
        made = []
        for at, raw in enumerate(calls):
            path = f"{self._path}.invalid_tool_calls[{at}]"
            if not isinstance(raw, dict):
                self._read.wrong(path, raw, "a dict")
                continue

            texts = [text_or_empty(raw.get(key)) for key in ("id", "name", "args")]
            base = _invalid_call(*texts)
            differs = {key: raw[key] for key in raw if base.get(key, raw) != raw[key]}
            notes: dict[str, Any] = {"invalid": differs}
            if "error" not in raw or "type" not in raw:
                notes["without"] = sorted({"error", "type"} - raw.keys())

            made.append(self._build_call(raw, texts[-1], notes, path))

        return made

    def _build_call(
        self, raw: dict[str, Any], arguments: str, notes: dict[str, Any], path: str
    ) -> ToolCall:
        texts = (
            mended_text(self._read, text_or_empty(raw.get("id")), f"{path}.id"),
            mended_text(self._read, text_or_empty(raw.get("name")), f"{path}.name"),
            mended_text(self._read, arguments, f"{path}.args"),
        )
        if not notes:
            return ToolCall(*texts)

        metadata = with_notes(SOURCE, notes)
        try:
            return ToolCall(*texts, metadata=metadata)
        except InvalidMessageError:
            kept = encode_value(self._read, notes, path)
            metadata = with_notes(SOURCE, {**kept, "odd": True})
            return ToolCall(*texts, metadata=metadata)


def _parse_arguments(text: str) -> Any:
    try:
        return loads(text or "{}")
    except (ValueError, RecursionError):
        return None


def _parse_unchanged(text: str) -> Any:
    """
    As `_parse_arguments`, but also None for an object with a key twice, and for a
    number that would be infinite.
    """
    try:
        return _decode_unchanged(text or "{}")
    except (ValueError, RecursionError):
        return None


# *args* as JSON text. Lone surrogates are escaped.
def _dump_arguments(read: DocumentReader, args: dict[str, Any], path: str) -> str:
    try:
        text = _encoded(args)
        # JSON changes keys that are numbers to texts, which `_check_json` reports.
        # NaN is not equal to itself either, but is valid, so that is not an error here.
        if loads(text) != args:
            _check_json(read, args, f"{path}.args")

        # A lone surrogate is kept as an escape, because a store can't write it as a
        # character.
        return text if mended(text) is text else dumps(args)
    except (TypeError, ValueError, RecursionError) as error:
        read.problem(f"{path}.args", f"can't be kept as JSON: {error}")
        return ""


def _check_json(read: DocumentReader, value: Any, path: str, depth: int = 0) -> None:
    """
    Report keys in *value* that JSON would change, and nesting that is deeper than
    every Python parses.
    """
    inside: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                what = f"has the key {shorten_repr(key)}; keys of JSON are text"
                read.problem(path, what)

        inside = [(f"{path}.{key}", value[key]) for key in value]
    elif isinstance(value, (list, tuple)):
        inside = [(f"{path}[{at}]", item) for at, item in enumerate(value)]

    if inside and depth == _MAX_DEPTH:
        read.problem(path, f"is nested more than {_MAX_DEPTH} levels deep")
        return

    for where, item in inside:
        _check_json(read, item, where, depth + 1)


def _invalid_call(call_id: str, name: str, args: str) -> dict[str, Any]:
    return {
        "type": "invalid_tool_call",
        "id": call_id,
        "name": name,
        "args": args,
        "error": None,
    }


def _call_block(
    shape: CallBlock, raw: Mapping[str, Any], text: str | None
) -> dict[str, Any]:
    block = {
        "type": shape.type,
        shape.id: raw["id"],
        "name": raw["name"],
        shape.arguments: raw["args"] if text is None else text,
    }
    return {**block, "input": {}} if shape.is_begun else block


def write_call(
    write: PayloadWriter, call: ToolCall, path: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """
    *call* as LangChain's, and the notes on it. Its type is ``invalid_tool_call``,
    which keeps the text, if the arguments are not a JSON object, have a key twice or
    hold a number too large for Python.
    """
    notes = thaw_notes(write.notes(call, path))
    if call.type != "function":
        write.lose(path, "type", "calls of functions only in LangChain")

    if has_own(call.metadata):
        write.lose(path, "metadata", "not supported on a call")

    # LangChain itself has parsed the text of such a block, so a key that is there
    # twice must not make the call invalid.
    parse = _parse_arguments if "block" in notes else _parse_unchanged
    args = None if "invalid" in notes else parse(call.arguments)
    if not isinstance(args, dict):
        raw = _invalid_call(call.id, call.name, call.arguments)
        merge_keys(raw, map_of(notes, "invalid"))
    else:
        raw = {"name": call.name, "args": args, "id": call.id, "type": "tool_call"}
        merge_keys(raw, map_of(notes, "keys"))

    for key in notes.get("without", ()):
        raw.pop(key, None)

    return raw, notes


def dump_call_block(
    call: ToolCall, raw: dict[str, Any], notes: Mapping[str, Any]
) -> tuple[int, dict[str, Any]] | None:
    """
    The block that repeats *call*, which is *raw*, and its position in the
    content, or None.
    """
    noted = notes.get("block")
    if not isinstance(noted, dict) or raw.get("type") == "invalid_tool_call":
        return None

    shape, at = CALL_BLOCKS.get(str(noted.get("block"))), noted.get("at")
    if shape is None or not isinstance(at, int):
        return None

    # The arguments are parsed again, so that the block and the call share no dict that
    # a caller may change.
    fresh = {**raw, "args": _parse_arguments(call.arguments)}
    block = _call_block(shape, fresh, call.arguments if shape.is_text else None)
    return at, merge_keys(block, map_of(noted, "keys"))
