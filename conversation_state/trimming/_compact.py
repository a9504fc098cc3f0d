"""
Compacting: one message that stands for many.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable, iscoroutinefunction
from operator import index
from typing import Any, NamedTuple, TypeAlias

import attrs

from conversation_state.errors import CompactionError, InvalidMessageError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    UserMessage,
)
from conversation_state.trimming._flaws import NOBODY, pair
from conversation_state.trimming._marks import marked
from conversation_state.trimming._properties import between_groups
from conversation_state.trimming._view import AsyncStep, Step, TrimContext

__all__ = [
    "AsyncSummarise",
    "Plan",
    "Summarise",
    "acompact",
    "asked",
    "awaited",
    "compact",
    "drop",
    "joints",
    "only_sync",
]

_FEW = 4  # so many positions are told in an error

Summarise: TypeAlias = Callable[[tuple[Message, ...]], str | Message]
AsyncSummarise: TypeAlias = Callable[
    [tuple[Message, ...]], Awaitable[str | Message] | str | Message
]


class Plan(NamedTuple):
    """
    What is to become one message.

    Attributes:
        step: Whose plan it is.

        context: The view, which stays if there is no summary.

        seqs: The positions, in order.

        mark: What the summary says about itself beside what it stands for.
    """

    step: object
    context: TrimContext
    seqs: tuple[int, ...]
    mark: dict[str, Any]

    @property
    def messages(self) -> tuple[Message, ...]:
        """
        What is shown there.
        """
        at = self.context._at
        return tuple([message for seq in self.seqs for message in at(seq)])

    def failed(self, error: Exception) -> TrimContext:
        return self.context._failing(self.step, error)

    def done(self, given: object) -> TrimContext:
        """
        The view with the summary *given*, or a failure if that is none.
        """
        what = _what_is_wrong(given)
        if what:
            return self.failed(CompactionError(what, self.seqs))

        message: Any = given
        if isinstance(given, str):
            try:
                message = UserMessage(given)
            except InvalidMessageError as error:
                return self.failed(error)

        context = self.context
        spans = context._stands_for(self.seqs)
        ids = [context._entries[seq].id for span in spans for seq in span]
        mark = {
            "compacted": [one for one in ids if one],
            "seqs": [[span.start, span.stop] for span in spans],
            **self.mark,
        }
        return context._summing_up(self.seqs, marked(message, mark), spans)


def _what_is_wrong(given: object) -> str:
    """
    Why *given* is no summary; "" if it is one.
    """
    if isinstance(given, str):
        return "" if given.strip() else f"summarise gave a blank text, {given!r:.80}"

    if isinstance(given, (UserMessage, AssistantMessage, SystemMessage)):
        if isinstance(given, AssistantMessage) and given.tool_calls:
            return "summarise gave a message that calls tools, which nobody answers"

        blank = not given.text.strip() and len(given.parts) == sum(
            part.kind == "text" for part in given.parts
        )
        return "summarise gave a message that says nothing" if blank else ""

    return (
        f"summarise gave {given!r:.80}; expected a text, or a message of a user, "
        "the assistant or the system"
    )


def joints(context: TrimContext) -> dict[int, bool]:
    """
    Every position shown, and -1 for the end: whether a group may end before it.

    The end is no joint if calls before it are about to be answered.
    """
    pairs = list(context._pairs())
    safe = {*between_groups([message for _, message in pairs])}
    found: dict[int, bool] = {}
    group = NOBODY
    for at, (seq, message) in enumerate(pairs):
        found.setdefault(seq, at in safe)
        group, _ = pair(group, seq, message)

    found[-1] = not group.pending
    return found


def asked(step: str, summarise: Any, plan: Plan) -> TrimContext:
    """
    The view *plan* comes to, if *summarise* answers at once.
    """
    try:
        given = summarise(plan.messages)
    except Exception as error:  # noqa: BLE001 - told, whatever it is
        return plan.failed(error)

    if isawaitable(given):
        drop(given)
        raise TypeError(_only_async(step, summarise))

    return plan.done(given)


async def awaited(summarise: Any, plan: Plan) -> TrimContext:
    """
    The same, if it may have to be waited for.
    """
    try:
        given = summarise(plan.messages)
        if isawaitable(given):
            given = await given
    except Exception as error:  # noqa: BLE001 - told, whatever it is
        return plan.failed(error)

    return plan.done(given)


def only_sync(step: str, summarise: Any) -> None:
    _only_function(step, summarise)
    call = getattr(summarise, "__call__", None)  # noqa: B004 - an object's own, for async ones
    if iscoroutinefunction(summarise) or iscoroutinefunction(call):
        raise TypeError(_only_async(step, summarise))


def _only_function(step: str, summarise: Any) -> None:
    if not callable(summarise):
        msg = f"{step} takes a function from messages to a text; got {summarise!r:.80}"
        raise TypeError(msg)


def _only_async(step: str, summarise: Any) -> str:
    return (
        f"{summarise!r} has to be awaited, and {step} can't; use a{step}, and atrim "
        "or Trimmer.acall instead of trim or a call"
    )


def drop(given: Any) -> None:
    # A coroutine that is not awaited would warn about it.
    if hasattr(given, "close"):
        given.close()


def _positions(step: str, seqs: Iterable[int]) -> range | frozenset[int]:
    if isinstance(seqs, range):
        return seqs

    if isinstance(seqs, (str, bytes)) or not isinstance(seqs, Iterable):
        msg = f"{step} takes positions, range(2, 9) say; got {seqs!r:.80}"
        raise TypeError(msg)

    return frozenset(map(index, seqs))


@attrs.frozen
class _Compact:
    seqs: range | frozenset[int]
    summarise: Summarise

    def __call__(self, context: TrimContext) -> TrimContext:
        plan = _plan(self, self.seqs, context)
        return context if plan is None else asked("compact", self.summarise, plan)


@attrs.frozen
class _ACompact:
    seqs: range | frozenset[int]
    summarise: AsyncSummarise

    async def __call__(self, context: TrimContext) -> TrimContext:
        plan = _plan(self, self.seqs, context)
        return context if plan is None else await awaited(self.summarise, plan)


def _plan(
    step: object, wanted: range | frozenset[int], context: TrimContext
) -> Plan | None:
    places = joints(context)
    shown = list(places)[:-1]
    seqs = tuple([seq for seq in shown if seq in wanted])
    if not seqs:
        return None

    between = [seq for seq in shown if seqs[0] <= seq <= seqs[-1]]
    missing = tuple(sorted(set(between).difference(seqs)))
    if missing:
        what = f"the view shows {_listed(missing)} between them, which would be lost"
        raise CompactionError(what, seqs)

    after = shown.index(seqs[-1]) + 1
    behind = shown[after] if after < len(shown) else -1
    for place, where in ((seqs[0], "start"), (behind, "stop")):
        if not places[place]:
            safe = [seq for seq in shown if places[seq]]
            if places[-1]:
                safe.append(shown[-1] + 1)

            raise CompactionError(_parted(where, place, seqs, safe), seqs)

    return Plan(step, context, seqs, {})


def _listed(seqs: tuple[int, ...]) -> str:
    few = [f"messages[{seq}]" for seq in seqs[:_FEW]]
    return ", ".join([*few, "…"] if len(seqs) > _FEW else few)


def _parted(where: str, place: int, seqs: tuple[int, ...], safe: list[int]) -> str:
    if place < 0:
        return "the calls at the end are about to be answered; end before them"

    if where == "start":
        safe = [seq for seq in safe if seq <= seqs[-1]]
    else:
        safe = [seq for seq in safe if seq > seqs[0]]

    near = sorted(sorted(safe, key=lambda seq: abs(seq - place))[:_FEW])
    instead = f"; {where} at {' or '.join(map(str, near))}, say" if near else ""
    return (
        f"messages[{place}] is among the answers to calls, which would be parted "
        f"from them{instead}"
    )


def compact(seqs: Iterable[int], summarise: Summarise) -> Step:
    """
    A step that puts one message in the place of those at *seqs*.

    The message stands at the first of their positions and says in its
    metadata what it stands for: under ``"conversation_state"``,
    ``"compacted"`` lists the identities of the entries (none for messages
    that are in no state), ``"seqs"`` their positions as pairs of start and
    stop. They are listed as dropped, ``compacted``. A compaction that covers
    a summary stands for what that stood for.

    If *summarise* raises, or gives nothing, the view shows what it showed,
    and its `TrimContext.failures` tell the error.

    Costs O(messages kept).

    Args:
        seqs: Positions; those the view does not show are left alone. It must
            show nothing else between the first and the last.

        summarise: Gets the messages as the view shows them, and gives a text,
            which becomes a user's message, or a message of a user, the
            assistant or the system.

    Raises:
        TypeError:
            If *seqs* are no positions, or *summarise* is no function, or one
            that has to be awaited (`acompact`).

        CompactionError:
            By the step, if calls would be parted from their results, or
            something that the view shows between the messages would be lost.

    >>> from conversation_state.trimming import trim
    >>> said = [UserMessage("Hi."), AssistantMessage("Hello."), UserMessage("Bye.")]
    >>> view = trim(said, None, compact(range(2), lambda said: "They greet."))
    >>> [message.text for message in view], view.dropped[0]
    (['They greet.', 'Bye.'], Dropped(seq=0, reason='compacted'))
    """
    only_sync("compact", summarise)
    return _Compact(_positions("compact", seqs), summarise)


def acompact(seqs: Iterable[int], summarise: AsyncSummarise) -> AsyncStep:
    """
    The same for a *summarise* that has to be awaited; a step for `atrim`.
    """
    _only_function("acompact", summarise)
    return _ACompact(_positions("acompact", seqs), summarise)
