"""
The chunks of a streamed response, joined into one message.

What lives here: `concat`, which makes one message of the chunks of a streamed
response; `concat_rows`, the same column by column; and `Accumulator`, which
takes chunks one at a time. What does not: where chunks come from (`adapters`
load them), and waiting for them (`streams`).

A chunk is an ordinary message that holds a piece. How pieces are merged:

content
    Pieces of text, of reasoning, of a refusal and of audio data are joined
    where they are adjacent and have the same *index*. Of signatures the last
    one stands. Audio that names another media type than the piece before it
    is another part; so is everything with a url, and all other media.

tool calls
    Pieces with one *index* are one call, until one comes with another id:
    some providers number all their calls 0. A piece without an id belongs to
    the call opened last at its index, whatever its type is. Calls without
    an index are whole. These come first, the others follow by index.

response
    Of reasons to finish and of models the last one stands, log-probabilities
    are appended, and usage is the largest of each count or the sum.

metadata
    Texts are joined, lists appended, maps joined key by key, of numbers the
    last one stands. Where kinds differ, null gives way to all others, a number
    to a text, a text to a list, a list to a map.

the rest
    The first timestamp stands; a tool result is an error if one piece is. Roles,
    names, ids and the types of calls must agree, and media of one kind can't come
    in several chunks of a tool result: each is a `ConcatError`.

Source:
    The rules are those of eino, and also keep what eino loses: the metadata of
    texts and of later pieces of a call, a url that follows data, calls that share
    an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from conversation_state._persistent import check_list
from conversation_state._wording import shorten_repr
from conversation_state.chunks._accumulator import Accumulator, check_usage_mode
from conversation_state.chunks._merge_values import UsageMode
from conversation_state.chunks._merger import ChunkMerger, join_response
from conversation_state.errors import ConcatError
from conversation_state.messages import Message

__all__ = ["Accumulator", "concat", "concat_rows"]

M = TypeVar("M", bound=Message)

# Setting up a merger takes ten microseconds, which is worth avoiding for so few.
_SHORT = 1000


def concat(
    chunks: Iterable[M],
    *,
    usage: UsageMode = "cumulative",
    regroup_by_index: bool = False,
) -> M:
    """
    The message that *chunks* are the pieces of.

    Linear in their number and their text, however it is cut. A message that
    is not in pieces is its own concatenation; concatenating is associative.

    Args:
        chunks: Messages, in the order they came.
        usage: Whether usages are running totals (``cumulative``: the largest
            of each count stands) or what each piece cost (``delta``: they are
            added).
        regroup_by_index: Whether parts with one *index* are joined also where
            others came between them.

    Raises:
        ConcatError: If there are no chunks, or they are of different messages: with the
            field, both values and the number of the first chunk that disagrees.
        InvalidUsageError: If usages are added, and come to more than a count can be.
        TypeError: If *chunks* is a message.
        ValueError: If *usage* is neither.

    >>> from conversation_state.messages import AssistantMessage
    >>> concat([AssistantMessage("Hel"), AssistantMessage("lo")]).text
    'Hello'
    """
    if isinstance(chunks, Message):
        raise TypeError(
            "concat takes chunks, [message] if there is one; got "
            f"{shorten_repr(chunks)}"
        )

    check_list(chunks, "chunks", "a list of Messages")
    mode = check_usage_mode(usage)
    given: Any = chunks if isinstance(chunks, (list, tuple)) else list(chunks)
    if 1 < len(given) < _SHORT:
        message = join_response(given)
        if message is not None:
            return message  # type: ignore[return-value]  # all chunks are of this class

    pieces = ChunkMerger(mode, regroup=regroup_by_index)
    pieces.read(given)
    return pieces.message()  # type: ignore[return-value]  # of the chunks' kind


def concat_rows(
    rows: Iterable[Sequence[M | None]], *, usage: UsageMode = "cumulative"
) -> tuple[M | None, ...]:
    """
    One message for each column of *rows*: several streams, read in step.

    None in a row is not a chunk; a column of nothing else is None. No rows have
    no columns.

    Raises:
        ConcatError: If rows differ in length, or the chunks of a column are of
            different messages; *chunk* is then the number of the row.
    """
    check_list(rows, "rows", "a list of rows")
    check_usage_mode(usage)
    table: list[tuple[M | None, ...]] = []
    for row in rows:
        check_list(row, f"rows[{len(table)}]", "a row of chunks")
        table.append(tuple(row))

    for number, row in enumerate(table):
        if len(row) != len(table[0]):
            raise ConcatError("the length of a row", len(table[0]), len(row), number)

    columns: list[M | None] = []
    for at, column in enumerate(zip(*table, strict=True)):
        chunks = {n: chunk for n, chunk in enumerate(column) if chunk is not None}
        try:
            columns.append(concat(chunks.values(), usage=usage) if chunks else None)
        except ConcatError as error:
            row_number = None if error.chunk is None else list(chunks)[error.chunk]
            field = f"{error.field} in column {at}"
            raise ConcatError(field, error.ours, error.theirs, row_number) from None

    return tuple(columns)
