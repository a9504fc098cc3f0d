"""Compacting: one message that stands for many."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import isawaitable, iscoroutinefunction
from operator import index
from typing import Any, ClassVar, TypeAlias

import attrs

from conversation_state._identity import new_entry_id
from conversation_state._persistent import check_iterable, final
from conversation_state._wording import shorten_repr
from conversation_state.errors import CompactionError, InvalidMessageError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    UserMessage,
)
from conversation_state.trimming._elements import StepFailure, add_mark, read_mark
from conversation_state.trimming._selection import Selection
from conversation_state.trimming._validity import (
    NO_OPEN_CALLS,
    check_pairing,
    group_boundaries,
)
from conversation_state.trimming._view import AsyncStep, Step, TrimContext
from conversation_state.usage import Usage

_MAX_POSITIONS = 4  # listed in an error

Summarise: TypeAlias = Callable[[tuple[Message, ...]], str | Message]
AsyncSummarise: TypeAlias = Callable[
    [tuple[Message, ...]], Awaitable[str | Message] | str | Message
]


@attrs.frozen
class SummaryStep:
    """A step that puts what *summarise* makes of some messages in their place."""

    summarise: Any
    is_async: bool

    name: ClassVar[str]  # of the function that makes it, for errors
    # What the metadata of the summary has besides what it replaces.
    mark: ClassVar[Mapping[str, Any]] = {}

    def __attrs_post_init__(self) -> None:
        if not callable(self.summarise):
            name = f"a{self.name}" if self.is_async else self.name
            raise TypeError(
                f"summarise of {name}: expected a function from messages to "
                f"a text, got {shorten_repr(self.summarise)}"
            )

        if not self.is_async and iscoroutinefunction(self.summarise):
            raise self._async_error()

    def plan(self, context: TrimContext) -> tuple[TrimContext, tuple[int, ...]]:
        """
        The view to summarise, and the positions in it, in order; none if it needs no
        summary.
        """
        # Each kind of summary has its own.
        raise NotImplementedError

    def __call__(self, context: TrimContext) -> Any:
        if self.is_async:
            return self._call_async(context)

        context, seqs = self.plan(context)
        if not seqs:
            return context

        try:
            summary = self.summarise(_list_messages(context, seqs))
        except Exception as error:  # noqa: BLE001 - any of summarise: in the view's failures
            return self._record_failure(context, error)

        if isawaitable(summary):
            close_coroutine(summary)
            raise self._async_error()

        return self._put_summary(context, seqs, summary)

    async def _call_async(self, context: TrimContext) -> TrimContext:
        context, seqs = self.plan(context)
        if not seqs:
            return context

        try:
            summary = self.summarise(_list_messages(context, seqs))
            if isawaitable(summary):
                summary = await summary
        except Exception as error:  # noqa: BLE001 - any of summarise: in the view's failures
            return self._record_failure(context, error)

        return self._put_summary(context, seqs, summary)

    def _async_error(self) -> TypeError:
        return TypeError(
            f"summarise of {self.name}: expected a synchronous function, got "
            f"{shorten_repr(self.summarise)}, "
            f"which has to be awaited; use a{self.name}, with atrim or Trimmer.acall"
        )

    def _record_failure(self, context: TrimContext, error: Exception) -> TrimContext:
        return context._with_failures(StepFailure(self, error))

    def _put_summary(
        self, context: TrimContext, seqs: tuple[int, ...], summary: object
    ) -> TrimContext:
        """The view with *summary*, or with a failure if it can't be one."""
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

        problem = _summary_problem(summary)
        if problem:
            return self._record_failure(context, CompactionError(problem, seqs))

        message: Any = summary
        if isinstance(summary, str):
            try:
                message = UserMessage(summary)
            except InvalidMessageError as error:
                return self._record_failure(context, error)

        selection = context._selection
        spans = selection.stands_for(seqs)
        ids = [selection.entries[seq].id for span in spans for seq in span]
        mark = {
            "compacted": [entry_id for entry_id in ids if entry_id],
            "seqs": [[span.start, span.stop] for span in spans],
            **self.mark,
        }
        replaced = read_replaced(selection, seqs)
        if replaced:
            mark["replaced"] = sorted(replaced)

        marked = add_mark(message, mark)
        return context._with_selection(selection.summarise(seqs, marked, spans))


def _list_messages(context: TrimContext, seqs: tuple[int, ...]) -> tuple[Message, ...]:
    at = context._selection.messages_at
    return tuple([message for seq in seqs for message in at(seq)])


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


def close_coroutine(awaitable: Any) -> None:
    # A coroutine that is never awaited warns when it is collected.
    if hasattr(awaitable, "close"):
        awaitable.close()


@final
@attrs.frozen
class _Compact(SummaryStep):
    seqs: range | frozenset[int]

    name = "compact"

    def plan(self, context: TrimContext) -> tuple[TrimContext, tuple[int, ...]]:
        boundaries = find_group_boundaries(context._selection)
        shown = list(boundaries)[:-1]
        seqs = tuple([seq for seq in shown if seq in self.seqs])
        if not seqs:
            return context, ()

        between = shown[shown.index(seqs[0]) : shown.index(seqs[-1])]
        missing = [seq for seq in between if seq not in self.seqs]
        if missing:
            first = [f"messages[{seq}]" for seq in missing[:_MAX_POSITIONS]]
            more = ["…"] * (len(missing) > _MAX_POSITIONS)
            listed = ", ".join([*first, *more])
            problem = f"the view shows {listed} between them, which would be lost"
            raise CompactionError(problem, seqs)

        after = shown.index(seqs[-1]) + 1
        stop = shown[after] if after < len(shown) else -1
        safe = [seq for seq in shown if boundaries[seq]]
        if boundaries[-1]:
            safe.append(shown[-1] + 1)

        if not boundaries[seqs[0]]:
            starts = [seq for seq in safe if seq <= seqs[-1]]
            problem = _split_group_problem("start", seqs[0], starts)
        elif not boundaries[stop]:
            stops = [seq for seq in safe if seq > seqs[0]]
            problem = _split_group_problem("stop", stop, stops)
        else:
            return context, seqs

        raise CompactionError(problem, seqs)


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
    return _make_compact(seqs, summarise, is_async=False)


def acompact(seqs: Iterable[int], summarise: AsyncSummarise) -> AsyncStep:
    """The same for an async *summarise*; a step for `atrim`."""
    return _make_compact(seqs, summarise, is_async=True)


def _make_compact(seqs: Iterable[int], summarise: Any, *, is_async: bool) -> _Compact:
    check_iterable(seqs, "seqs", "positions such as range(2, 9)")
    chosen = seqs if isinstance(seqs, range) else frozenset(map(index, seqs))
    return _Compact(summarise, is_async, chosen)
