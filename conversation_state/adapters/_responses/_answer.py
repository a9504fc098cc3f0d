"""
The items of what a model said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversation_state.adapters._export import (
    Writing,
    list_of,
    map_of,
    notes_of,
    signer_of,
    written_over,
)
from conversation_state.adapters._responses._blocks import write_block
from conversation_state.adapters._responses._words import SOURCE
from conversation_state.parts import Part, ReasoningPart, UnknownPart
from conversation_state.tools import ToolCall

__all__ = ["Answer"]

# A text that says nothing.
_EMPTY = {"type": "output_text", "text": ""}


class Answer:
    """
    The items of one message while they are written. Never leaves the function
    that writes it.
    """

    def __init__(self, write: Writing) -> None:
        self._write = write
        self._items: list[dict[str, Any]] = []
        # How many of them, at the end, are thoughts that lead to nothing yet,
        # and the parts they are of.
        self._thoughts: list[list[str]] = []
        # The message that is open, and whether it goes on by its notes.
        self._blocks: list[dict[str, Any]] = []
        self._goes_on = False
        # The thought that is open.
        self._thinking: list[tuple[Part, str]] = []

    def add_plain(self, text: str) -> None:
        """
        Add a message that is a text and no list.
        """
        self._put({"role": "assistant", "content": text})

    def add(self, one: Part | ToolCall, path: str) -> None:
        """
        Add a part or a call.
        """
        if isinstance(one, ToolCall):
            self._close()
            self._put(self._call(one, path))
            return

        notes = notes_of(one.metadata, SOURCE)
        if isinstance(one, ReasoningPart) or _is_in_thought(one, notes):
            self._close_message()
            self._thinking.append((one, path))
            if notes.get("more") is not True:
                self._close_thought()

            return

        self._close_thought()
        if isinstance(one, UnknownPart) and not _is_in_message(notes):
            self._close_message()
            self._write.notes(one, path)
            raw = self._write.unknown(one.raw, one.source, path, "type")
            if raw is not None:
                self._put(raw)

            return

        self._add_block(one, path, notes)

    def items(self, *, followed: bool) -> list[dict[str, Any]]:
        """
        The items; *followed* says that more of what the model said follows.
        """
        self._close()
        if not followed:
            for paths in self._thoughts:
                self._items.pop()
                why = "has nothing after it, where this provider wants what it led to"
                for path in paths:
                    self._write.lose(path, "reasoning", why)

        return self._items

    def _put(self, item: dict[str, Any]) -> None:
        self._items.append(item)
        self._thoughts.clear()

    def _close(self) -> None:
        self._close_thought()
        self._close_message()

    def _add_block(self, part: Part, path: str, notes: Mapping[str, Any]) -> None:
        noted = _is_in_message(notes) or notes.get("plain") is True
        # What was said together goes on as one message, and so does what
        # somebody else said.
        if noted and not self._goes_on:
            self._close_message()

        block = write_block(self._write, part, path, "assistant")
        bare = notes.get("bare") is True and block == _EMPTY
        if block is not None and not bare:
            self._blocks.append(block)

        self._goes_on = notes.get("more") is True
        if "item" in notes or bare or notes.get("plain") is True:
            self._close_message(
                map_of(notes, "item"), bare=bare, plain=notes.get("plain") is True
            )

    def _close_message(
        self,
        keys: Mapping[str, Any] | None = None,
        *,
        bare: bool = False,
        plain: bool = False,
    ) -> None:
        blocks, self._blocks, self._goes_on = self._blocks, [], False
        if not blocks and not bare:
            return

        content: Any = blocks
        if plain and len(blocks) == 1 and blocks[0].keys() == _EMPTY.keys():
            content = blocks[0]["text"]

        raw = {"role": "assistant", "content": content}
        self._put(written_over(keys, raw) if keys else raw)

    def _close_thought(self) -> None:
        thinking, self._thinking = self._thinking, []
        if not thinking:
            return

        paths = [path for _, path in thinking]
        last = thinking[-1][0]
        about = notes_of(last.metadata, SOURCE)
        raw: dict[str, Any] = {"type": "reasoning", "summary": []}
        signature = ""
        for part, path in thinking:
            notes = self._write.notes(part, path)
            block: dict[str, Any] | None = None
            if isinstance(part, ReasoningPart):
                signature = _signature(part) or signature
                block = _thought(part, notes)
            elif isinstance(part, UnknownPart):
                block = self._write.unknown(part.raw, part.source, path, "type")

            if block is not None:
                where = "content" if notes.get("under") == "content" else "summary"
                raw.setdefault(where, []).append(block)

        if signature:
            raw["encrypted_content"] = signature
        elif "item" not in about:
            why = "is refused without an id or a signature of this provider's own"
            for path in paths:
                self._write.lose(path, "reasoning", why)

            return

        if not raw["summary"] and "summary" in list_of(about, "without"):
            del raw["summary"]

        keys = map_of(about, "item")
        self._items.append(written_over(keys, raw) if keys else raw)
        self._thoughts.append(paths)

    def _call(self, call: ToolCall, path: str) -> dict[str, Any]:
        notes = self._write.notes(call, path)
        custom = call.type == "custom"
        if call.type not in {"custom", "function"}:
            why = "is no kind of call here; it is sent as a function's"
            self._write.lose(path, "type", why)

        raw = {"type": "custom_tool_call" if custom else "function_call"}
        if call.id != notes.get("made_id"):
            raw["call_id"] = call.id

        raw["name"] = call.name
        raw["input" if custom else "arguments"] = call.arguments
        return written_over(map_of(notes, "keys"), raw)


def _is_in_message(notes: Mapping[str, Any]) -> bool:
    """
    Whether *notes* are on a part of a message.
    """
    return "item" in notes or notes.get("more") is True


def _is_in_thought(part: Part, notes: Mapping[str, Any]) -> bool:
    """
    Whether *part* is one of those in a thought that are no text.
    """
    return isinstance(part, UnknownPart) and "under" in notes


def _signature(part: ReasoningPart) -> str:
    """
    What *part* is signed with, if it was this provider, or nobody knows who.
    """
    return "" if signer_of(part.metadata, SOURCE) else part.signature


def _thought(part: ReasoningPart, notes: Mapping[str, Any]) -> dict[str, Any] | None:
    """
    The block that *part* is; None if it holds nothing, and stood in none.
    """
    noted = notes.get("block")
    kind = noted if isinstance(noted, str) else "summary_text"
    if not part.text and not isinstance(noted, str):
        return None

    return written_over(map_of(notes, "keys"), {"type": kind, "text": part.text})
