"""
Calls of tools: those LangChain could read, those it could not, and the blocks
among the content that say them once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from json import JSONEncoder, dumps, loads
from typing import Any

import attrs

from conversation_state.adapters._export import PROVIDERS, Writing
from conversation_state.adapters._langchain._blocks import beyond, over, thawed
from conversation_state.adapters._langchain._json import keep
from conversation_state.adapters._langchain._words import (
    CALL_BLOCKS,
    SOURCE,
    CallBlock,
)
from conversation_state.adapters._reading import Reading, mended
from conversation_state.errors import InvalidMessageError
from conversation_state.tools import ToolCall

__all__ = ["Calls", "block_of", "write_call"]

_VALID = frozenset({"args", "id", "name", "type"})
_NOTHING: dict[str, Any] = {}
_MOST_LEVELS = 100
# `dumps` makes one for each text, if it is told anything.
_encoded = JSONEncoder(ensure_ascii=False).encode


class Calls:
    """
    The calls of one message while it is read. Never leaves the function that
    reads it.

    Each is found by the block that says it, if there is one, before it is
    made: a block may have the very text that the model wrote.
    """

    def __init__(self, read: Reading, path: str) -> None:
        self._read = read
        self._path = path
        self._raws: list[dict[str, Any]] = []
        self._open: dict[str, int] = {}
        self._blocks: dict[int, tuple[str, dict[str, Any]]] = {}
        self._texts: dict[int, str] = {}
        self.is_between = False

    def add(self, given: Any) -> None:
        """
        The calls that LangChain could read.
        """
        for raw in given:
            if not isinstance(raw, dict) or not isinstance(raw.get("args"), dict):
                at = f"{self._path}.tool_calls[{len(self._raws)}]"
                self._read.problem(at, "is no call with a dict of args")
                return

            call_id = raw.get("id")
            if isinstance(call_id, str) and call_id:
                self._open.setdefault(call_id, len(self._raws))

            self._raws.append(raw)

    def takes(self, block: Any, place: int) -> bool:
        """
        Whether *block*, at this *place* of the content, is one of the calls,
        and nothing else. Then it is remembered.
        """
        if not self._open or not isinstance(block, dict):
            return False

        kind = block.get("type")
        if kind == "tool_use" and block.get("partial_json"):
            kind = "tool_use_pieces"

        shape = CALL_BLOCKS.get(kind) if isinstance(kind, str) else None
        at = self._open.get(_str(block.get(shape.id))) if shape else None
        if shape is None or at is None:
            return False

        text = None
        if shape.is_text:
            text = block.get(shape.arguments)
            if not isinstance(text, str) or _parsed(text) != self._raws[at]["args"]:
                return False

            self._texts[at] = text

        base = _written_block(shape, self._raws[at], text)
        rest = beyond(block, base)
        if rest is None:
            return False

        notes: dict[str, Any] = {"block": kind, "at": place}
        if rest:
            notes["keys"] = rest

        del self._open[block[shape.id]]
        self._blocks[at] = (str(kind), notes)
        return True

    def made(self) -> list[ToolCall]:
        """
        The calls.
        """
        return [self._made(at, raw) for at, raw in enumerate(self._raws)]

    def _made(self, at: int, raw: dict[str, Any]) -> ToolCall:
        path = f"{self._path}.tool_calls[{at}]"
        notes: dict[str, Any] = {}
        index = None
        if at in self._blocks:
            notes["block"] = self._blocks[at][1]
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
            arguments = _written(self._read, raw["args"], path)

        if arguments.count("{") + arguments.count("[") > _MOST_LEVELS:
            _check(self._read, raw["args"], f"{path}.args")

        call = self._call(raw, arguments, notes, path)
        return call if index is None else attrs.evolve(call, index=index)

    def invalid(self, given: Any) -> list[ToolCall]:
        """
        The calls that LangChain could not read: the model made them all the
        same, and gets them back.
        """
        calls = []
        for at, raw in enumerate(given):
            path = f"{self._path}.invalid_tool_calls[{at}]"
            if not isinstance(raw, dict):
                self._read.wrong(path, raw, "a dict")
                continue

            base = _written_invalid(
                _str(raw.get("id")), _str(raw.get("name")), _str(raw.get("args"))
            )
            differs = {key: raw[key] for key in raw if base.get(key, raw) != raw[key]}
            notes = {"invalid": differs}
            if "error" not in raw or "type" not in raw:
                notes["without"] = sorted({"error", "type"} - raw.keys())  # type: ignore[assignment]  # of notes

            calls.append(self._call(raw, _str(raw.get("args")), notes, path))

        return calls

    def _call(
        self, raw: dict[str, Any], arguments: str, notes: dict[str, Any], path: str
    ) -> ToolCall:
        texts = []
        said = {"id": _str(raw.get("id")), "name": _str(raw.get("name"))}
        for key, text in {**said, "args": arguments}.items():
            valid = mended(text)
            if valid is not text:
                self._read.mended.append(f"{path}.{key}")

            texts.append(valid)

        if not notes:
            return ToolCall(*texts)

        metadata: Any = {SOURCE: notes}
        try:
            return ToolCall(*texts, metadata=metadata)
        except InvalidMessageError:
            kept = keep(self._read, notes, path)
            metadata = {} if self._read.count else {SOURCE: {**kept, "odd": True}}
            return ToolCall(*texts, metadata=metadata)


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _parsed(text: str) -> Any:
    try:
        return loads(text or "{}")
    except (ValueError, RecursionError):
        return None


def _written(read: Reading, args: dict[str, Any], path: str) -> str:
    """
    *args* as the text that a model might have written. Halves of surrogate
    pairs stay what they are, in JSON's own words.
    """
    try:
        text = _encoded(args)
        if loads(text) != args:
            _check(read, args, f"{path}.args")

        return text if mended(text) is text else dumps(args)
    except (TypeError, ValueError, RecursionError) as error:
        read.problem(f"{path}.args", f"can't be kept as JSON: {error}")
        return ""


def _check(read: Reading, value: Any, path: str, depth: int = 0) -> None:
    """
    Note which keys in *value* would come back as others, and what is nested
    deeper than every Python reads.
    """
    inside: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                read.problem(path, f"has the key {key!r}; keys of JSON are text")

        inside = [(f"{path}.{key}", value[key]) for key in value]
    elif isinstance(value, (list, tuple)):
        inside = [(f"{path}[{at}]", item) for at, item in enumerate(value)]

    if inside and depth == _MOST_LEVELS:
        read.problem(path, f"is nested more than {_MOST_LEVELS} levels deep")
        return

    for where, item in inside:
        _check(read, item, where, depth + 1)


def _written_invalid(call_id: str, name: str, args: str) -> dict[str, Any]:
    return {
        "type": "invalid_tool_call",
        "id": call_id,
        "name": name,
        "args": args,
        "error": None,
    }


def _written_block(
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
    write: Writing, call: ToolCall, path: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """
    *call* as LangChain has it, and the notes on it. Its type tells whether
    LangChain could read it.
    """
    notes = thawed(write.notes(call, path))
    if call.type != "function":
        write.lose(path, "type", "all calls are of functions there")

    if any(name not in PROVIDERS for name in call.metadata):
        write.lose(path, "metadata", "a call has no place for it")

    args = None if "invalid" in notes else _parsed(call.arguments)
    if not isinstance(args, dict):
        raw = _written_invalid(call.id, call.name, call.arguments)
        differs = notes.get("invalid")
        over(raw, differs if isinstance(differs, dict) else _NOTHING)
    else:
        raw = {"name": call.name, "args": args, "id": call.id, "type": "tool_call"}
        keys = notes.get("keys")
        over(raw, keys if isinstance(keys, dict) else _NOTHING)

    for key in notes.get("without", ()):
        raw.pop(key, None)

    return raw, notes


def block_of(
    call: ToolCall, raw: dict[str, Any], notes: Mapping[str, Any]
) -> tuple[int, dict[str, Any]] | None:
    """
    The block that says *call*, which is *raw*, once more, and its place among
    the content; None if there is none.
    """
    noted = notes.get("block")
    if not isinstance(noted, dict) or raw.get("type") == "invalid_tool_call":
        return None

    shape, at = CALL_BLOCKS.get(str(noted.get("block"))), noted.get("at")
    if shape is None or not isinstance(at, int):
        return None

    # Not the same dict twice: what changes one is not to change the other.
    fresh = {**raw, "args": _parsed(call.arguments)}
    block = _written_block(shape, fresh, call.arguments if shape.is_text else None)
    keys = noted.get("keys")
    return at, over(block, keys if isinstance(keys, dict) else _NOTHING)
