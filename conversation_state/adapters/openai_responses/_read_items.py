"""
Reading output items: the parts and calls they are.

Most items are one part or one call. A message or a thought may hold several
blocks, each of which is a part: the last part has the notes on the item, the
others have a note that there is ``more`` of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from conversation_state.adapters.engine.notes import with_notes
from conversation_state.adapters.engine.reading import (
    ObjectReader,
    is_list,
    is_map,
    mended,
)
from conversation_state.adapters.engine.wire import read_object_text
from conversation_state.adapters.openai_responses._blocks import (
    CALLS,
    SOURCE,
    read_block,
)
from conversation_state.messages import LogProb
from conversation_state.parts import Part, ReasoningPart, TextPart, UnknownPart
from conversation_state.tools import ToolCall

PartOrCall: TypeAlias = Part | ToolCall

# The keys of the lists with an item's blocks, in the order of the blocks.
LISTS = {"message": ("content",), "reasoning": ("summary", "content")}

_MESSAGE = frozenset({"content", "role"})
_REASONING = frozenset({"content", "encrypted_content", "summary", "type"})
_THOUGHT = frozenset({"text", "type"})


class ItemIds:
    """
    The ids of the items of one answer while it is read.

    Attributes:
        needs: Of each item that came behind a thought, the id of that thought.
    """

    def __init__(self) -> None:
        self.needs: dict[str, str] = {}
        self._thought = ""

    def add(self, raw: Mapping[str, Any]) -> None:
        name = raw.get("id")
        if not isinstance(name, str) or not name:
            return

        if raw.get("type") == "reasoning":
            self._thought = mended(name)
        elif self._thought:
            self.needs[mended(name)] = self._thought


def note_unstored(response: Mapping[str, Any]) -> dict[str, Any]:
    """The note that the items of *response* were not stored, if it says so."""
    return {"unstored": True} if response.get("store") is False else {}


class ItemBlock(NamedTuple):
    """One block of an item, and the list it stands in."""

    where: str
    number: int
    raw: Mapping[str, Any]
    path: str


def read_item(
    item: ObjectReader, index: int, made_id: str, logprobs: list[LogProb] | None = None
) -> list[PartOrCall]:
    """
    The parts and calls of *item*, numbered from *index* on.

    Args:
        item: The item; a message may lack its type.

        index: The place of its first part or call among those of the response.

        made_id: The id of a call without one.

        logprobs: The list that takes the log probabilities of a response; None in a
            history.
    """
    kind = item.raw.get("type")
    if kind in CALLS:
        return [read_call(item, index, made_id)]

    if kind == "message" or (kind is None and "role" in item.raw):
        content = item.raw.get("content")
        if isinstance(content, str):
            return [_read_plain_message(item, index)]

        if not is_list(content):
            item.wrong("content", "a text or a list of parts")
            return []

        return _read_blocks(item, "message", index, logprobs)

    if kind == "reasoning" and _is_readable(item.raw):
        return _read_blocks(item, "reasoning", index, logprobs)

    return [item.as_unknown(SOURCE, index)]


def _is_readable(raw: Mapping[str, Any]) -> bool:
    """Whether the thought *raw* has a text, or no blocks at all."""
    blocks: list[Any] = []
    for where in LISTS["reasoning"]:
        listed = raw.get(where)
        if is_list(listed):
            blocks += listed
        elif listed is not None:
            return False

    signature = raw.get("encrypted_content")
    if not (signature is None or isinstance(signature, str)):
        return False

    # The signature is kept in a part of text, so it would be lost if there were only
    # blocks of other types.
    return all(map(is_map, blocks)) and (
        not blocks or any(map(_is_reasoning_text, blocks))
    )


def find_signed(blocks: Sequence[ItemBlock]) -> int:
    """
    The position of the block that gets the signature of its thought: the last text.
    """
    texts = [at for at, block in enumerate(blocks) if _is_reasoning_text(block.raw)]
    return max(texts, default=0)


def _is_reasoning_text(raw: Mapping[str, Any]) -> bool:
    return isinstance(raw.get("text"), str) and isinstance(raw.get("type"), str)


def _read_plain_message(item: ObjectReader, index: int) -> Part:
    text = item.text("content")
    item.keep(_MESSAGE)
    notes: dict[str, Any] = {"plain": True}
    if item.keys:
        notes["item"] = item.keys

    return TextPart(text, index=index, metadata=with_notes(SOURCE, notes))


def note_item(item: ObjectReader, kind: str) -> tuple[dict[str, Any], str]:
    """The notes on *item* of a *kind*, and its signature."""
    if kind == "message":
        item.keep(_MESSAGE)
        return {"item": item.keys}, ""

    item.keep(_REASONING)
    # An empty content has no part that would restore it, so null or [] is noted.
    if "content" in item.raw and not item.raw["content"]:
        item.keys["content"] = item.raw["content"]

    notes: dict[str, Any] = {"item": item.keys}
    if item.raw.get("summary") is None:
        if "summary" in item.raw:
            item.keys["summary"] = None
        else:
            notes["without"] = ["summary"]

    return notes, item.optional("encrypted_content")


def blocks_of(item: ObjectReader, kind: str) -> list[ItemBlock]:
    blocks: list[ItemBlock] = []
    for where in LISTS[kind]:
        listed = item.raw.get(where)
        if listed is None:
            continue

        if not is_list(listed):
            item.wrong(where, "a list of parts")
            continue

        for number, raw in enumerate(listed):
            path = f"{item.path}.{where}[{number}]"
            if is_map(raw):
                blocks.append(ItemBlock(where, number, raw, path))
            else:
                item.reading.wrong(path, raw, "an object")

    return blocks


def _read_blocks(
    item: ObjectReader, kind: str, index: int, logprobs: list[LogProb] | None
) -> list[PartOrCall]:
    blocks = blocks_of(item, kind)
    notes, signature = note_item(item, kind)
    if not blocks:
        metadata = with_notes(SOURCE, notes)
        if kind == "reasoning":
            return [ReasoningPart("", signature, index=index, metadata=metadata)]

        # A message without blocks is sent with an empty one.
        return [TextPart("", index=index, metadata=metadata)]

    signed = find_signed(blocks)
    parts: list[PartOrCall] = []
    for at, block in enumerate(blocks):
        last = at == len(blocks) - 1
        parts.append(
            read_item_block(
                ObjectReader(item.reading, block.raw, block.path),
                block.where if kind == "reasoning" else "",
                notes if last else {"more": True},
                index=index + at,
                signature=signature if at == signed else "",
                logprobs=logprobs,
            )
        )

    return parts


def read_item_block(
    block: ObjectReader,
    where: str,
    notes: dict[str, Any],
    *,
    index: int,
    signature: str = "",
    logprobs: list[LogProb] | None = None,
) -> Part:
    """
    The part that *block* is, with *notes* on its item. *where* is the list of a
    thought that it is in, "" for a message.
    """
    block.notes.update(notes)
    if not where:
        part = read_block(block, "assistant", index, logprobs)
        if isinstance(part, UnknownPart) and not notes:
            # Without a note on its item, `dump` would write this part as an item.
            metadata = with_notes(SOURCE, {"item": {}})
            return UnknownPart(part.raw, source=SOURCE, index=index, metadata=metadata)

        return part

    if not _is_reasoning_text(block.raw):
        block.notes["under"] = where
        return block.as_unknown(SOURCE, index)

    kind, text = block.text("type"), block.text("text")
    # Without these notes `dump` writes a block of type "summary_text" in the summary,
    # and none for an empty text.
    if where == "content" or not text or kind != "summary_text":
        block.notes["under"] = where
        block.notes["block"] = kind

    block.keep(_THOUGHT)
    return ReasoningPart(text, signature, index=index, metadata=block.metadata(SOURCE))


def read_call(item: ObjectReader, index: int, made_id: str) -> ToolCall:
    kind = item.raw["type"]
    key = CALLS[kind]
    name = item.text("name")
    # Some servers send the object that OpenAI has as JSON text.
    is_object = is_map(item.raw.get(key))
    arguments = read_object_text(item, key) if is_object else item.text(key)
    # A missing id, null and "" are the same: `dump` sends the one made here.
    call_id = item.nullable("call_id")
    if not call_id:
        call_id = item.notes["made_id"] = made_id

    item.keep(frozenset({"call_id", "name", "type", key}))
    return ToolCall(
        call_id,
        name,
        arguments,
        index=index,
        type="custom" if kind == "custom_tool_call" else "function",
        metadata=item.metadata(SOURCE),
    )
