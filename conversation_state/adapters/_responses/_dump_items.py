"""
Writing the items of an assistant message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversation_state.adapters._export import PayloadWriter, merge_kept_keys
from conversation_state.adapters._notes import list_of, map_of, notes_of, signer_of
from conversation_state.adapters._responses._blocks import SOURCE, write_block
from conversation_state.parts import Part, ReasoningPart, UnknownPart
from conversation_state.tools import ToolCall

__all__ = ["ItemWriter"]

# An empty text.
_EMPTY = {"type": "output_text", "text": ""}


class ItemWriter:
    """
    The items of one message while they are written. Never leaves the function
    that writes it.
    """

    def __init__(self, write: PayloadWriter) -> None:
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
        Add a message that is a text and not a list.
        """
        self._add_item({"role": "assistant", "content": text})

    def add(self, one: Part | ToolCall, path: str) -> None:
        """
        Add a part or a call.
        """
        if isinstance(one, ToolCall):
            self._close_open_items()
            self._add_item(self._write_call_item(one, path))
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
                self._add_item(raw)

            return

        self._add_block(one, path, notes)

    def items(self, *, followed: bool) -> list[dict[str, Any]]:
        """
        The items; *followed* says whether more output of the model follows.
        """
        self._close_open_items()
        if not followed:
            for paths in self._thoughts:
                self._items.pop()
                why = "reasoning must be followed by the output it led to"
                for path in paths:
                    self._write.lose(path, "reasoning", why)

        return self._items

    def _add_item(self, item: dict[str, Any]) -> None:
        self._items.append(item)
        self._thoughts.clear()

    def _close_open_items(self) -> None:
        self._close_thought()
        self._close_message()

    def _add_block(self, part: Part, path: str, notes: Mapping[str, Any]) -> None:
        noted = _is_in_message(notes) or notes.get("plain") is True
        # Blocks of one item go on as one message, and so do blocks of
        # other providers.
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
        self._add_item(merge_kept_keys(keys, raw) if keys else raw)

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
                signature = _get_signature(part) or signature
                block = _write_thought(part, notes)
            elif isinstance(part, UnknownPart):
                block = self._write.unknown(part.raw, part.source, path, "type")

            if block is not None:
                where = "content" if notes.get("under") == "content" else "summary"
                raw.setdefault(where, []).append(block)

        if signature:
            raw["encrypted_content"] = signature
        elif "item" not in about:
            why = "reasoning needs an id or a signature of this provider"
            for path in paths:
                self._write.lose(path, "reasoning", why)

            return

        if not raw["summary"] and "summary" in list_of(about, "without"):
            del raw["summary"]

        keys = map_of(about, "item")
        self._items.append(merge_kept_keys(keys, raw) if keys else raw)
        self._thoughts.append(paths)

    def _write_call_item(self, call: ToolCall, path: str) -> dict[str, Any]:
        notes = self._write.notes(call, path)
        custom = call.type == "custom"
        if call.type not in {"custom", "function"}:
            why = "unknown type of call; it is sent as a function call"
            self._write.lose(path, "type", why)

        raw = {"type": "custom_tool_call" if custom else "function_call"}
        if call.id != notes.get("made_id"):
            raw["call_id"] = call.id

        raw["name"] = call.name
        raw["input" if custom else "arguments"] = call.arguments
        return merge_kept_keys(map_of(notes, "keys"), raw)


def _is_in_message(notes: Mapping[str, Any]) -> bool:
    """
    Whether *notes* are on a part of a message.
    """
    return "item" in notes or notes.get("more") is True


def _is_in_thought(part: Part, notes: Mapping[str, Any]) -> bool:
    """
    Whether *part* is one of those in a thought that are not text.
    """
    return isinstance(part, UnknownPart) and "under" in notes


def _get_signature(part: ReasoningPart) -> str:
    """
    The signature of *part*, unless another provider signed it.
    """
    return "" if signer_of(part.metadata, SOURCE) else part.signature


def _write_thought(
    part: ReasoningPart, notes: Mapping[str, Any]
) -> dict[str, Any] | None:
    """
    The block that *part* is; None if it holds nothing, and stood in none.
    """
    noted = notes.get("block")
    kind = noted if isinstance(noted, str) else "summary_text"
    if not part.text and not isinstance(noted, str):
        return None

    return merge_kept_keys(map_of(notes, "keys"), {"type": kind, "text": part.text})
