"""
Compacting: one message that stands for many.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable, iscoroutinefunction
from operator import index
from typing import Any, NamedTuple, TypeAlias

import attrs

from conversation_state._identity import new_entry_id
from conversation_state._wording import shorten_repr
from conversation_state.errors import CompactionError, InvalidMessageError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    UserMessage,
)
from conversation_state.trimming._elements import StepFailure, add_mark, read_mark
from conversation_state.trimming._properties import group_boundaries
from conversation_state.trimming._selection import Selection
from conversation_state.trimming._validity import NO_OPEN_CALLS, check_pairing
from conversation_state.trimming._view import AsyncStep, Step, TrimContext
from conversation_state.usage import Usage

__all__ = [
    "AsyncSummarise",
    "Summarise",
    "SummaryPlan",
    "acompact",
    "check_sync",
    "close_coroutine",
    "compact",
    "find_group_boundaries",
    "read_mark_replaced",
    "read_replaced",
    "summarise_async",
    "summarise_sync",
]

_MAX_POSITIONS = 4  # listed in an error

Summarise: TypeAlias = Callable[[tuple[Message, ...]], str | Message]
AsyncSummarise: TypeAlias = Callable[
    [tuple[Message, ...]], Awaitable[str | Message] | str | Message
]


class SummaryPlan(NamedTuple):
    """
    Which messages of a view a summary will replace.

    Attributes:
        step: The step that made this plan.

        context: The view, which stays if there is no summary.

        seqs: The positions, in order; none if the view needs no summary.

        mark: What the metadata of the summary has besides what it replaces.
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
        at = self.context._selection.messages_at
        return tuple([message for seq in self.seqs for message in at(seq)])

    def failed(self, error: Exception) -> TrimContext:
        return self.context._with_failures(StepFailure(self.step, error))

    def done(self, summary: object) -> TrimContext:
        """
        The view with *summary*, or with a failure if it can't be one.
        """
        context = self.context
        response = summary.response if isinstance(summary, AssistantMessage) else None
        # The usage is recorded before the summary is checked, because a refused summary
        # has cost tokens, too.
        if response is not None and response.usage not in {None, Usage()}:
            # The key is the response's id, so that a failed turn that is recorded again
            # counts once.
            if not response.id:
                response = attrs.evolve(response, id=new_entry_id())

            responses = (*context.summary_responses, response)
            context = attrs.evolve(context, summary_responses=responses)

        return self._replace(context=context)._put_summary(summary)

    def _put_summary(self, summary: object) -> TrimContext:
        problem = _summary_problem(summary)
        if problem:
            return self.failed(CompactionError(problem, self.seqs))

        message: Any = summary
        if isinstance(summary, str):
            try:
                message = UserMessage(summary)
            except InvalidMessageError as error:
                return self.failed(error)

        selection = self.context._selection
        spans = selection.stands_for(self.seqs)
        ids = [selection.entries[seq].id for span in spans for seq in span]
        mark = {
            "compacted": [entry_id for entry_id in ids if entry_id],
            "seqs": [[span.start, span.stop] for span in spans],
            **self.mark,
        }
        replaced = read_replaced(selection, self.seqs)
        if replaced:
            mark["replaced"] = sorted(replaced)

        marked = add_mark(message, mark)
        return self.context._with_selection(
            selection.summarise(self.seqs, marked, spans)
        )


def read_mark_replaced(message: Message) -> frozenset[int]:
    """
    The positions whose message was replaced in what the summary *message* was
    made of.
    """
    try:
        return frozenset(read_mark(message).get("replaced", ()))
    except TypeError:
        # Metadata belongs to the user and may hold any value under this key.
        return frozenset()


def read_replaced(selection: Selection, seqs: Iterable[int]) -> set[int]:
    """
    The positions among *seqs* whose message a caller's step replaced, and
    those that were replaced in what summaries there were made of.
    """
    found: set[int] = set()
    for seq in seqs:
        edit = selection.changes.get(seq)
        if edit is None:
            continue

        if edit.stands_for:
            found |= read_mark_replaced(edit.messages[0])
        elif not all(map(read_mark, edit.messages[-1:])):
            found.add(seq)

    return found


def _summary_problem(summary: object) -> str:
    """
    Why *summary* can't stand for messages; "" if it can.
    """
    if isinstance(summary, str):
        return (
            ""
            if summary.strip()
            else f"summarise gave a blank text, {shorten_repr(summary)}"
        )

    if isinstance(summary, (UserMessage, AssistantMessage, SystemMessage)):
        if isinstance(summary, AssistantMessage) and summary.tool_calls:
            return (
                "summarise gave a message that calls tools, and a summary has no "
                "results for them"
            )

        blank = not summary.text.strip() and len(summary.parts) == sum(
            part.kind == "text" for part in summary.parts
        )
        return "summarise gave an empty message" if blank else ""

    return (
        f"summarise gave {shorten_repr(summary)}; expected a text, or a message of a "
        "user, the assistant or the system"
    )


def find_group_boundaries(selection: Selection) -> dict[int, bool]:
    """
    Every position shown, and -1 for the end: whether a group of calls and
    results may end before it.

    It may not at the end if calls there have no results yet.
    """
    pairs = list(selection.pairs())
    safe = {*group_boundaries([message for _, message in pairs])}
    found: dict[int, bool] = {}
    open_calls = NO_OPEN_CALLS
    for at, (seq, message) in enumerate(pairs):
        found.setdefault(seq, at in safe)
        open_calls, _ = check_pairing(open_calls, seq, message)

    found[-1] = not open_calls.pending
    return found


def summarise_sync(step: str, summarise: Any, plan: SummaryPlan) -> TrimContext:
    """
    The view that *plan* gives with what *summarise* returns.
    """
    if not plan.seqs:
        return plan.context

    try:
        summary = summarise(plan.messages)
    except Exception as error:  # noqa: BLE001 - any of summarise: in the view's failures
        return plan.failed(error)

    if isawaitable(summary):
        close_coroutine(summary)
        raise TypeError(_explain_async(step, summarise))

    return plan.done(summary)


async def summarise_async(summarise: Any, plan: SummaryPlan) -> TrimContext:
    """
    The same where *summarise* may be async.
    """
    if not plan.seqs:
        return plan.context

    try:
        summary = summarise(plan.messages)
        if isawaitable(summary):
            summary = await summary
    except Exception as error:  # noqa: BLE001 - any of summarise: in the view's failures
        return plan.failed(error)

    return plan.done(summary)


def check_sync(step: str, summarise: Any) -> None:
    _check_function(step, summarise)
    call = getattr(summarise, "__call__", None)  # noqa: B004 - an object's own, for async ones
    if iscoroutinefunction(summarise) or iscoroutinefunction(call):
        raise TypeError(_explain_async(step, summarise))


def _check_function(step: str, summarise: Any) -> None:
    if not callable(summarise):
        msg = (
            f"summarise of {step}: expected a function from messages to a text, got "
            f"{shorten_repr(summarise)}"
        )
        raise TypeError(msg)


def _explain_async(step: str, summarise: Any) -> str:
    return (
        f"summarise of {step}: expected a synchronous function, got "
        f"{shorten_repr(summarise)}, "
        f"which has to be awaited; use a{step}, with atrim or Trimmer.acall"
    )


def close_coroutine(awaitable: Any) -> None:
    # A coroutine that is never awaited warns when it is collected.
    if hasattr(awaitable, "close"):
        awaitable.close()


def _check_positions(step: str, seqs: Iterable[int]) -> range | frozenset[int]:
    if isinstance(seqs, range):
        return seqs

    if isinstance(seqs, (str, bytes)) or not isinstance(seqs, Iterable):
        msg = (
            f"seqs of {step}: expected positions such as range(2, 9), got "
            f"{shorten_repr(seqs)}"
        )
        raise TypeError(msg)

    return frozenset(map(index, seqs))


@attrs.frozen
class _Compact:
    seqs: range | frozenset[int]
    summarise: Summarise

    def __call__(self, context: TrimContext) -> TrimContext:
        plan = _plan_summary(self, self.seqs, context)
        return summarise_sync("compact", self.summarise, plan)


@attrs.frozen
class _ACompact:
    seqs: range | frozenset[int]
    summarise: AsyncSummarise

    async def __call__(self, context: TrimContext) -> TrimContext:
        plan = _plan_summary(self, self.seqs, context)
        return await summarise_async(self.summarise, plan)


def _plan_summary(
    step: object, wanted: range | frozenset[int], context: TrimContext
) -> SummaryPlan:
    boundaries = find_group_boundaries(context._selection)
    shown = list(boundaries)[:-1]
    seqs = tuple([seq for seq in shown if seq in wanted])
    plan = SummaryPlan(step, context, seqs, {})
    if not seqs:
        return plan

    between = shown[shown.index(seqs[0]) : shown.index(seqs[-1])]
    missing = [seq for seq in between if seq not in wanted]
    if missing:
        first = [f"messages[{seq}]" for seq in missing[:_MAX_POSITIONS]]
        more = ["…"] * (len(missing) > _MAX_POSITIONS)
        listed = ", ".join([*first, *more])
        problem = f"the view shows {listed} between them, which would be lost"
        raise CompactionError(problem, seqs)

    after = shown.index(seqs[-1]) + 1
    stop = shown[after] if after < len(shown) else -1
    for name, place in (("start", seqs[0]), ("stop", stop)):
        if not boundaries[place]:
            safe = [seq for seq in shown if boundaries[seq]]
            if boundaries[-1]:
                safe.append(shown[-1] + 1)

            if name == "start":
                safe = [seq for seq in safe if seq <= seqs[-1]]
            else:
                safe = [seq for seq in safe if seq > seqs[0]]

            raise CompactionError(_split_group_problem(name, place, safe), seqs)

    return plan


def _split_group_problem(name: str, place: int, safe: list[int]) -> str:
    if place < 0:
        return "the calls at the end have no results yet; stop before them"

    nearest = sorted(safe, key=lambda seq: abs(seq - place))[:_MAX_POSITIONS]
    choices = " or ".join(map(str, sorted(nearest)))
    advice = f"; {name} at {choices}, for example" if choices else ""
    return (
        f"messages[{place}] is among the results of calls, which would be separated "
        f"from them{advice}"
    )


def compact(seqs: Iterable[int], summarise: Summarise) -> Step:
    """
    A step that puts one message in the place of those at *seqs*.

    The message stands at the first of their positions and has in its metadata
    what it stands for: under ``"conversation_state"``,
    ``"compacted"`` lists the identities of the entries (none for messages
    that are in no state), ``"seqs"`` their positions as pairs of start and
    stop. They are listed as dropped, ``compacted``. A compaction that covers
    a summary stands for what that stood for.

    If *summarise* raises, or returns nothing, the view shows what it showed,
    and its `TrimContext.failures` have the error. The usage of a summary is not
    in the ledger: where *summarise* returns the model's own response, an
    `AssistantMessage` whose `ResponseMeta.usage` is known,
    `TrimContext.summary_responses` has it, and `record_summaries` records it.

    If a later step raises, the error has the attributes ``summaries`` and
    ``summary_responses`` of the view until then, so that no recorded usage is
    lost: give ``error.summaries`` to the next turn as *previous*.

    Costs O(messages kept).

    Args:
        seqs: Positions; those the view does not show are left alone. It must
            show nothing else between the first and the last.

        summarise: Gets the messages as the view shows them, and returns a text,
            which becomes a user's message, or a message of a user, the
            assistant or the system.

    Raises:
        TypeError:
            If *seqs* aren't positions, or *summarise* isn't a function, or one
            that has to be awaited (`acompact`).

        CompactionError:
            By the step, if calls would be separated from their results, or
            something that the view shows between the messages would be lost.

    >>> from conversation_state.trimming import trim
    >>> greeting = [UserMessage("Hi."), AssistantMessage("Hello."), UserMessage("Bye.")]
    >>> view = trim(greeting, None, compact(range(2), lambda messages: "They greet."))
    >>> [message.text for message in view], view.dropped[0]
    (['They greet.', 'Bye.'], Dropped(seq=0, reason='compacted'))
    """
    check_sync("compact", summarise)
    return _Compact(_check_positions("compact", seqs), summarise)


def acompact(seqs: Iterable[int], summarise: AsyncSummarise) -> AsyncStep:
    """
    The same for an async *summarise*; a step for `atrim`.
    """
    _check_function("acompact", summarise)
    return _ACompact(_check_positions("acompact", seqs), summarise)
