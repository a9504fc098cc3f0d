"""
Making tool results smaller; calls and results stay together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from conversation_state._persistent import check_text
from conversation_state.counting import TokenCounter, count
from conversation_state.messages import Message, ToolMessage
from conversation_state.parts import Part, TextPart
from conversation_state.trimming._elements import (
    Replacement,
    add_mark,
    check_integer,
    read_mark,
)
from conversation_state.trimming._view import Step, TrimContext

__all__ = ["clear_tool_results", "shorten_tool_results"]


def _replace_results(
    context: TrimContext, changed: Iterable[tuple[int, int, Message]]
) -> TrimContext:
    """
    *context* with other messages, each with its position and its place there.
    """
    selection = context._selection
    replaced: dict[int, list[Message]] = {}
    for seq, place, message in changed:
        shown = replaced.setdefault(seq, list(selection.messages_at(seq)))
        shown[place] = message

    replacements = {seq: Replacement(tuple(shown)) for seq, shown in replaced.items()}
    return context._with_selection(selection.replace(replacements))


def _list_results(context: TrimContext) -> list[tuple[int, int, ToolMessage]]:
    """
    The results shown: position, place among what is shown there, message.
    """
    return [
        (seq, place, message)
        for seq in context._selection.seqs()
        for place, message in enumerate(context._selection.messages_at(seq))
        if isinstance(message, ToolMessage)
    ]


@attrs.frozen
class _ShortenResults:
    limit_tokens: int
    marker: str

    def __call__(self, context: TrimContext) -> TrimContext:
        counter = context.counter
        return _replace_results(
            context,
            [
                (seq, place, self._shorten_text(result, counter))
                for seq, place, result in _list_results(context)
                # A message is rarely smaller than its text; then nothing is done.
                if count(result, counter) > self.limit_tokens
            ],
        )

    def _shorten_text(self, result: ToolMessage, counter: TokenCounter) -> ToolMessage:
        text = result.text
        shortened = read_mark(result).get("shortened_to")
        if shortened == 0 or self._count_text(text, counter) <= self.limit_tokens:
            return result

        # Bisection over how many characters to keep: *least* of them fit.
        least, most = 0, len(text)
        while most - least > 1:
            middle = (least + most) // 2
            start, stop = _middle_bounds(len(text), middle)
            tried = text[:start] + self._format_marker(stop - start) + text[stop:]
            if self._count_text(tried, counter) <= self.limit_tokens:
                least = middle
            else:
                most = middle

        start, stop = _middle_bounds(len(text), least)
        parts = _cut_parts(result.parts, start, stop, self._format_marker(stop - start))
        content: Any = parts
        if isinstance(result.content, str):
            content = "".join(
                [part.text for part in parts if isinstance(part, TextPart)]
            )

        return add_mark(result, {"shortened_to": least}, content=content)

    def _format_marker(self, removed: int) -> str:
        return self.marker.replace("{cut}", f"{removed:,}")

    @staticmethod
    def _count_text(text: str, counter: TokenCounter) -> int:
        return count(ToolMessage(text, tool_call_id="0"), counter)


def _middle_bounds(size: int, kept: int) -> tuple[int, int]:
    """
    Where the middle starts and stops that leaves *kept*, half at either end.
    """
    start = -(-kept // 2)
    return start, size - (kept - start)


def _cut_parts(parts: Iterable[Part], start: int, stop: int, note: str) -> list[Part]:
    """
    *parts* with *note* instead of their text from *start* to *stop*.
    """
    cut: list[Part] = []
    at = 0
    for part in parts:
        if not isinstance(part, TextPart):
            cut.append(part)
            continue

        end = at + len(part.text)
        text = part.text[: max(start - at, 0)]
        if at <= start < end:
            text += note

        text += part.text[max(stop - at, 0) :]
        at = end
        if text:
            cut.append(attrs.evolve(part, text=text))

    return cut


def shorten_tool_results(
    limit_tokens: int, *, marker: str = "\n[… {cut} characters cut …]\n"
) -> Step:
    """
    A step that cuts the middle out of long tool results.

    A result's text of more than *limit_tokens*, by the view's counter, keeps
    its beginning and its end, as much of both as has room, and a marker
    between them; if the marker alone has no room, it stands alone. Media stay
    and are not counted. A result cut so is not dropped: it keeps its position,
    its call id, name and metadata, and still answers its call.

    Costs a dozen counts of each long result, and O(messages kept).
    Doing it again changes nothing.

    Args:
        limit_tokens: How long a text may be.

        marker: What stands for the middle; ``{cut}`` in it becomes the number
            of characters that were cut.

    Raises:
        ValueError:
            If *limit_tokens* is negative or no integer, or *marker* isn't a text.
    """
    limit = check_integer("shorten_tool_results", "limit_tokens", limit_tokens)
    return _ShortenResults(limit, check_text(marker, "shorten_tool_results' marker"))


@attrs.frozen
class _ClearResults:
    keep: int
    marker: str

    def __call__(self, context: TrimContext) -> TrimContext:
        results = _list_results(context)
        changed = []
        for seq, place, result in results[: max(len(results) - self.keep, 0)]:
            cleared = add_mark(result, {"cleared": True}, content=self.marker)
            if count(cleared, context.counter) < count(result, context.counter):
                changed.append((seq, place, cleared))

        return _replace_results(context, changed)


def clear_tool_results(*, keep: int = 3, marker: str = "[cleared]") -> Step:
    """
    A step that empties all tool results but the newest *keep*.

    A marker stands for their content, media too, where it is smaller. They
    keep position, call id, name and metadata, and still answer their calls.
    Doing it again changes nothing. O(messages kept).

    Args:
        keep: How many of the newest stay as they are.

        marker: What stands for the content of the others.

    Raises:
        ValueError:
            If *keep* is negative or no integer, or *marker* isn't a text.
    """
    number = check_integer("clear_tool_results", "keep", keep)
    return _ClearResults(number, check_text(marker, "clear_tool_results' marker"))
