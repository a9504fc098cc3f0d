"""A message that is still being received."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from functools import reduce
from typing import Any

from conversation_state._persistent import ByContent, Log
from conversation_state._persistent.maps import PMap, pmap
from conversation_state._wording import format_count, shorten_repr
from conversation_state.chunks._consistency import (
    check_call,
    check_consistent,
    find_open_call,
)
from conversation_state.chunks._merge_values import UsageMode
from conversation_state.chunks._merger import ChunkMerger
from conversation_state.errors import ConcatError
from conversation_state.messages import PLAIN, AssistantMessage, Message
from conversation_state.pickling import Maker

_new = object.__new__
_NO_FACTS: PMap[Any, Any] = pmap()


def check_usage_mode(mode: object) -> UsageMode:
    """*mode*, if it is a valid one."""
    if mode in ("cumulative", "delta"):
        return mode

    raise ValueError(f"usage is {shorten_repr(mode)}; expected 'cumulative' or 'delta'")


class Accumulator(ByContent):
    """
    A message that is still being received: the chunks so far, as a value.

    Adding gives the next accumulator and leaves this one as it was, so every
    moment of a response stays readable: `message` is `concat` of the chunks
    added until then. Equal to one with equal chunks; picklable.

    Args:
        usage: ``cumulative`` or ``delta``, see `concat`.
        regroup_by_index: See `concat`.

    >>> hel = Accumulator().add(AssistantMessage("Hel"))
    >>> hel.add(AssistantMessage("lo")).message.text, hel.message.text
    ('Hello', 'Hel')
    """

    __slots__ = ("_base", "_chunks", "_facts", "_made", "_options")

    _chunks: Log[Message]
    # The message that was read last, and how many chunks it is made of.
    _base: tuple[Message | None, int]
    # What no later chunk may contradict.
    _facts: PMap[Any, Any]
    _made: Message | None
    _options: tuple[UsageMode, bool]

    def __init__(
        self, *, usage: UsageMode = "cumulative", regroup_by_index: bool = False
    ) -> None:
        self._options = (check_usage_mode(usage), bool(regroup_by_index))
        self._chunks = Log()
        self._base = (None, 0)
        self._facts = _NO_FACTS
        self._made = None

    def __len__(self) -> int:
        return len(self._chunks)

    def __bool__(self) -> bool:
        return True

    @property
    def chunks(self) -> Sequence[Message]:
        """All chunks, in the order they came; immutable."""
        return self._chunks

    def add(self, chunk: Message) -> Accumulator:
        """
        This accumulator and *chunk*. O(log n), n being the chunks so far.

        Raises:
            ConcatError: If *chunk* is of another message, see `concat`. This
                accumulator stays as it was, and takes other chunks.
        """
        after: Accumulator = _new(Accumulator)
        after._options = self._options
        after._facts = self._facts
        chunks = self._chunks
        # Most chunks state nothing new: text, or further arguments of open calls.
        if not (
            isinstance(chunk, AssistantMessage)
            and chunk._common is PLAIN
            and chunks._last.__class__ is AssistantMessage
            and (
                not chunk.tool_calls
                or all(
                    find_open_call(self._facts, call) is not None
                    for call in chunk.tool_calls
                )
            )
        ):
            after._facts = _record_facts(self._facts, chunk, len(chunks))

        after._chunks = chunks.append(chunk)
        made = self._made
        after._base = self._base if made is None else (made, len(chunks))
        after._made = None
        return after

    @property
    def message(self) -> Message:
        """
        What was received so far: `concat` of the chunks.

        O(1) when it is read again. Else linear in what the message holds, and
        in the chunks since the latest earlier accumulator whose message had
        been read before the next chunk was added.

        Raises:
            ConcatError: If there are no chunks.
            InvalidUsageError: If usages are added, and come to more than a count can
                be.
        """
        made = self._made
        if made is None:
            message, count = self._base
            mode, regroup = self._options
            pieces = ChunkMerger(mode, regroup=regroup)
            if message is not None:
                pieces.read([message])

            pieces.read(list(self._chunks.iterate(count)))
            made = self._made = pieces.message()
            # The base is no longer needed and would keep its message alive. *_made* is
            # set first, so that another thread that reads between the two merges more
            # than it has to, and not less.
            self._base = (None, 0)

        return made

    def _comparison_key(self) -> tuple[Any, ...]:
        return (self._options, self._chunks)

    def __repr__(self) -> str:
        return f"<Accumulator: {format_count(len(self._chunks), 'chunk')}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_ACCUMULATOR, (self._options, tuple(self._chunks)))


def _rebuild_accumulator(
    options: tuple[UsageMode, bool], chunks: tuple[Message, ...]
) -> Any:
    mode, regroup = options
    empty = Accumulator(usage=mode, regroup_by_index=regroup)
    return reduce(Accumulator.add, chunks, empty)


_ACCUMULATOR = Maker("chunks.Accumulator", _rebuild_accumulator)


def _record_facts(facts: PMap[Any, Any], chunk: Message, number: int) -> PMap[Any, Any]:
    if not isinstance(chunk, Message):
        raise ConcatError("chunk", None, chunk, number)

    # A chunk that is refused must leave the facts of this accumulator as they were.
    new: dict[Any, Any] = {}
    layered = ChainMap[Any, Any](new, facts)  # type: ignore[arg-type]  # never changed
    check_consistent(layered, chunk, number)
    for call in getattr(chunk, "tool_calls", ()):
        if call.index is not None:
            check_call(layered, call, number)

    return facts.update(new) if new else facts
