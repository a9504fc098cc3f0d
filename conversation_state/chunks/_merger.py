"""
Merges the chunks of one message, sorted by what they are pieces of; first the many
that are alike, all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conversation_state._persistent import EMPTY_MAP
from conversation_state.chunks._consistency import (
    Facts,
    check_call,
    check_consistent,
    find_open_call,
)
from conversation_state.chunks._merge_values import (
    UsageMode,
    continues_part,
    merge_calls,
    merge_maps,
    merge_parts,
    merge_responses,
)
from conversation_state.errors import ConcatError
from conversation_state.messages import (
    COMMON,
    PLAIN,
    AssistantMessage,
    Common,
    Message,
    ResponseMeta,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.parts import Part, ReasoningPart, RefusalPart, TextPart
from conversation_state.tools import ToolCall

# How many chunks a fast path gets at once, and how many where it did not apply.
_BATCH, _SMALL_BATCH = 1024, 32
# These last chunks are read one by one: they often hold facts about the whole response,
# and would keep the chunks before them off the fast path.
_LAST = 3


class ChunkMerger:
    """
    The chunks of one message that were read so far.

    Mutable; never leaves the function that makes it.
    """

    def __init__(self, mode: UsageMode, *, regroup: bool) -> None:
        self._mode: UsageMode = mode
        self._regroup = regroup
        self._facts: Facts = {}
        self._first: Message | None = None
        self._count = 0
        # Content given as `str` that no part has followed yet.
        self._texts: list[str] = []
        self._in_parts = False
        self._groups: list[list[Part]] = []
        self._spots: dict[tuple[str, int], list[Part]] = {}
        self._whole_calls: list[ToolCall] = []
        self._calls: list[list[ToolCall]] = []
        self._commons: list[Common] = []
        self._responses: list[ResponseMeta] = []
        self._is_error = False

    def read(self, chunks: Sequence[Message]) -> None:
        """
        Read *chunks*, the next ones.

        Raises:
            ConcatError: If one of them is not of this message.
        """
        # The first chunk is read by itself, because the fast paths compare further
        # chunks with it.
        start = 0
        if self._first is None and chunks:
            self._read_chunk(chunks[0])
            start = 1

        if isinstance(self._first, AssistantMessage):
            end = max(start, len(chunks) - _LAST)
            for at in range(start, end, _BATCH):
                self._read_batch(chunks[at : min(at + _BATCH, end)])

            for chunk in chunks[end:]:
                self._read_chunk(chunk)
        else:
            for at in range(start, len(chunks)):
                self._read_chunk(chunks[at])

    def _read_batch(self, chunks: Sequence[Message]) -> None:
        if self._read_uniform(chunks):
            self._count += len(chunks)
        elif len(chunks) > _SMALL_BATCH:
            for at in range(0, len(chunks), _SMALL_BATCH):
                self._read_batch(chunks[at : at + _SMALL_BATCH])
        else:
            for chunk in chunks:
                self._read_chunk(chunk)

    def _read_uniform(self, chunks: Sequence[Any]) -> bool:
        """
        Read *chunks* if all are as nearly all are: nothing but more text, more
        of the part before, or more arguments of an open call.
        """
        first = chunks[0]
        if first.__class__ is not AssistantMessage:
            return False

        if first.tool_calls:
            at = first.tool_calls[0].index
            open_call = find_open_call(self._facts, first.tool_calls[0])
            arguments = None if open_call is None else join_arguments(chunks, at)
            if open_call is None or arguments is None:
                return False

            self._calls[open_call].append(ToolCall("", "", arguments, index=at))
        elif isinstance(first.content, str):
            text = join_texts(chunks)
            if text is None:
                return False

            self._texts.append(text)
        else:
            before = self._groups[-1][0] if self._groups else None
            part = None if before is None else join_parts(chunks, before)
            if part is None:
                return False

            self._add_part(part)

        return True

    def _read_chunk(self, chunk: Message) -> None:
        number = self._count
        if not isinstance(chunk, Message):
            raise ConcatError("chunk", None, chunk, number)

        if self._first is None:
            self._first = chunk

        # Without common fields, an answer states only its role, as the first one did.
        plain = chunk.__class__ is AssistantMessage and chunk._common is PLAIN
        if not plain or chunk.__class__ is not self._first.__class__ or not number:
            check_consistent(self._facts, chunk, number)
            if chunk._common is not PLAIN:
                self._commons.append(chunk._common)

        self._count += 1
        if isinstance(chunk, AssistantMessage):
            if chunk.tool_calls:
                self._add_calls(chunk.tool_calls, number)

            if chunk.response is not None:
                self._responses.append(chunk.response)
        elif isinstance(chunk, ToolMessage):
            self._is_error = self._is_error or chunk.is_error

        if not isinstance(chunk, UnknownMessage):
            self._add_content(chunk)

    def _add_content(self, chunk: Message) -> None:
        content: Any = chunk.content  # type: ignore[attr-defined]  # all others have it
        if content.__class__ is str:
            self._texts.append(content)
        else:
            self._in_parts = True
            for part in content:
                self._add_part(part)

    def _add_part(self, part: Part) -> None:
        self._close_text()  # first, since it came before this part
        groups = self._groups
        if self._regroup and part.index is not None:
            spot = (part.kind, part.index)
            group = self._spots.get(spot)
            if group is None or not continues_part(part, group[0]):
                group = self._spots[spot] = []
                groups.append(group)

            group.append(part)
        elif groups and continues_part(part, groups[-1][0]):
            groups[-1].append(part)
        else:
            groups.append([part])

    def _close_text(self) -> None:
        if self._texts:
            text = "".join(self._texts)
            self._texts.clear()
            if text:
                self._add_part(TextPart(text))

    def _add_calls(self, calls: Sequence[ToolCall], number: int) -> None:
        for call in calls:
            if call.index is None:
                self._whole_calls.append(call)
                continue

            at = find_open_call(self._facts, call)
            if at is None:
                at = check_call(self._facts, call, number)

            if at == len(self._calls):
                self._calls.append([call])
            else:
                self._calls[at].append(call)

    def message(self) -> Message:
        """
        The message that all chunks make.

        Raises:
            ConcatError: If no chunk was added.
        """
        first = self._first
        if first is None:
            raise ConcatError

        content = self._merge_content()
        # The law ``concat([m]) is m``: but its own pieces, if it has any, are joined.
        if self._count == 1 and not self._is_in_pieces():
            return first

        fields = self._merge_common()
        if isinstance(first, UnknownMessage):
            return UnknownMessage(
                first.raw, source=self._facts.get("source", ""), **fields
            )

        if isinstance(first, AssistantMessage):
            fields["tool_calls"] = self._merge_tool_calls()
            fields["response"] = merge_responses(self._responses, self._mode)
        elif isinstance(first, ToolMessage):
            fields["tool_call_id"] = first.tool_call_id
            fields["tool_name"] = self._facts.get("tool_name", "")
            fields["is_error"] = self._is_error

        kind: Any = type(first)
        return kind(content, **fields)  # type: ignore[no-any-return]

    def _is_in_pieces(self) -> bool:
        return any(len(parts) > 1 for parts in self._groups) or any(
            len(calls) > 1 for calls in self._calls
        )

    def _merge_content(self) -> str | tuple[Part, ...]:
        if not self._in_parts:
            return "".join(self._texts)

        self._close_text()
        return tuple([merge_parts(group) for group in self._groups])

    def _merge_tool_calls(self) -> tuple[ToolCall, ...]:
        calls = [merge_calls(pieces) for pieces in self._calls]
        calls.sort(key=lambda call: call.index or 0)  # stable
        return (*self._whole_calls, *calls)

    def _merge_common(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self._commons:
            for field in ("name", "run_id", "turn_id"):
                if field in self._facts:
                    fields[field] = self._facts[field]

            times = [each.timestamp for each in self._commons]
            fields["timestamp"] = next((time for time in times if time), None)
            fields["metadata"] = merge_maps(each.metadata for each in self._commons)
            fields["unknown"] = merge_maps(each.unknown for each in self._commons)

        return fields


# Fast paths. Nearly all chunks of a response hold one more piece of the same text or
# the same arguments and nothing else. Each function joins such chunks, or returns None
# if one of them is anything else; it checks only what it must, because the checks are
# nearly all the time that `concat` takes.

# Only an assistant message has all of these attributes, only texts can be joined,
# and only one part or call is taken: any other chunk raises one of these.
_NOT_AN_ANSWER = (AttributeError, TypeError, ValueError)

_TEXT_PARTS = (TextPart, ReasoningPart, RefusalPart)


def join_texts(chunks: Sequence[Any]) -> str | None:
    """The text of *chunks* if they hold nothing but text of an assistant."""
    # Pieces that fit are collected, and counted at the end: a comprehension without a
    # way out takes less time than a loop with one.
    try:
        texts = [
            chunk.content
            for chunk in chunks
            if chunk._common is PLAIN
            and chunk.response is None
            and not chunk.tool_calls
        ]
        return "".join(texts) if len(texts) == len(chunks) else None
    except _NOT_AN_ANSWER:
        return None


def join_response(chunks: Sequence[Any]) -> AssistantMessage | None:
    """
    The message of *chunks*, two or more, if they hold nothing but text of an
    assistant, and the last one perhaps what is known of the whole response.
    """
    first, before, last = chunks[0], chunks[-2], chunks[-1]
    # Three chunks show parts and calls at once, before all chunks are looked at.
    if not (
        first.__class__ is before.__class__ is last.__class__ is AssistantMessage
        and first.content.__class__ is before.content.__class__ is str
        and last.content.__class__ is str
        and not (before.tool_calls or last.tool_calls)
    ):
        return None

    text = join_texts(chunks[:-1])
    if text is None:
        return None

    common: dict[str, Any] = {}
    if last._common is not PLAIN:
        fields = zip(COMMON, last._common, PLAIN, strict=True)
        common = {name: value for name, value, plain in fields if value is not plain}

    return AssistantMessage(text + last.content, response=last.response, **common)


def join_arguments(chunks: Sequence[Any], index: int | None) -> str | None:
    """The arguments in *chunks* if they only continue the call at *index*."""
    try:
        pieces = [
            call.arguments
            for chunk in chunks
            if not chunk.content
            and chunk.content.__class__ is str
            and chunk._common is PLAIN
            and chunk.response is None
            for (call,) in [chunk.tool_calls]  # compiled to an assignment, no loop
            if call.index == index
            and not call.id
            and not call.name
            and call.metadata is EMPTY_MAP
            and call.unknown is EMPTY_MAP
        ]
        return "".join(pieces) if len(pieces) == len(chunks) else None
    except _NOT_AN_ANSWER:
        return None


def join_parts(chunks: Sequence[Any], before: Part) -> Part | None:
    """The part in *chunks* if they hold only more of *before*, a part of text."""
    kind: Any = before.__class__
    index, signed = before.index, kind is ReasoningPart
    if kind not in _TEXT_PARTS:
        return None

    try:
        texts = [
            part.text
            for chunk in chunks
            if chunk._common is PLAIN
            and chunk.response is None
            and not chunk.tool_calls
            and chunk.content.__class__ is tuple
            for (part,) in [chunk.content]
            if part.__class__ is kind
            and part.index == index
            and part.metadata is EMPTY_MAP
            and part.unknown is EMPTY_MAP
            and not (signed and part.signature)
        ]
        merged: Part = kind("".join(texts), index=index)
        return merged if len(texts) == len(chunks) else None
    except _NOT_AN_ANSWER:
        return None
