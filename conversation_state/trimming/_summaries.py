"""
Summaries: one message that stands for many, chosen (`compact`) or growing with the
conversation (`rolling_summary`), so that no message is summarised twice.
"""

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
from conversation_state.trimming._elements import (
    MOVED,
    OVER_BUDGET,
    OVER_COUNT,
    StepFailure,
    add_mark,
    check_integer,
    is_marked,
    join_ranges,
    read_mark,
)
from conversation_state.trimming._selection import Selection
from conversation_state.trimming._validity import (
    NO_OPEN_CALLS,
    check_pairing,
    group_boundaries,
)
from conversation_state.trimming._view import (
    AsyncStep,
    Step,
    TrimContext,
    find_positions,
)
from conversation_state.usage import Usage

_MAX_POSITIONS = 4  # listed in an error

Summarise: TypeAlias = Callable[[tuple[Message, ...]], str | Message]
AsyncSummarise: TypeAlias = Callable[
    [tuple[Message, ...]], Awaitable[str | Message] | str | Message
]


@attrs.frozen
class _SummaryStep:
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
        """The view to summarise, and the positions in it; none if none is needed."""
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
            return context._with_failures(StepFailure(self, error))

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
            return context._with_failures(StepFailure(self, error))

        return self._put_summary(context, seqs, summary)

    def _async_error(self) -> TypeError:
        return TypeError(
            f"summarise of {self.name}: expected a synchronous function, got "
            f"{shorten_repr(self.summarise)}, "
            f"which has to be awaited; use a{self.name}, with atrim or Trimmer.acall"
        )

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
            failure = StepFailure(self, CompactionError(problem, seqs))
            return context._with_failures(failure)

        message: Any = summary
        if isinstance(summary, str):
            try:
                message = UserMessage(summary)
            except InvalidMessageError as error:
                return context._with_failures(StepFailure(self, error))

        selection = context._selection
        spans = selection.stands_for(seqs)
        ids = [selection.entries[seq].id for span in spans for seq in span]
        mark = {
            "compacted": [entry_id for entry_id in ids if entry_id],
            "seqs": [[span.start, span.stop] for span in spans],
            **self.mark,
        }
        replaced = _read_replaced(selection, seqs)
        if replaced:
            mark["replaced"] = sorted(replaced)

        marked = add_mark(message, mark)
        return context._with_selection(selection.summarise(seqs, marked, spans))


def _list_messages(context: TrimContext, seqs: tuple[int, ...]) -> tuple[Message, ...]:
    at = context._selection.messages_at
    return tuple([message for seq in seqs for message in at(seq)])


def _read_mark_replaced(message: Message) -> frozenset[int]:
    """The positions of replaced messages that the summary *message* is made of."""
    try:
        return frozenset(read_mark(message).get("replaced", ()))
    except TypeError:
        # Metadata belongs to the user and may hold any value under this key.
        return frozenset()


def _read_replaced(selection: Selection, seqs: Iterable[int]) -> set[int]:
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
            found |= _read_mark_replaced(edit.summary)
        elif not all(map(is_marked, edit.messages)):
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


def _find_group_boundaries(selection: Selection) -> dict[int, bool]:
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
class _Compact(_SummaryStep):
    seqs: range | frozenset[int]

    name = "compact"

    def plan(self, context: TrimContext) -> tuple[TrimContext, tuple[int, ...]]:
        boundaries = _find_group_boundaries(context._selection)
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
        TypeError: If *seqs* aren't positions, or *summarise* isn't a function, or one
            that has to be awaited (`acompact`).
        CompactionError: By the step, if calls would be separated from their results, or
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


@final
@attrs.frozen
class _Rolling(_SummaryStep):
    limit_tokens: int
    keep_last: int

    name = "rolling_summary"
    mark: ClassVar[Mapping[str, Any]] = {"rolling": True}

    def plan(self, context: TrimContext) -> tuple[TrimContext, tuple[int, ...]]:
        if context.total_tokens <= self.limit_tokens:
            return context, ()

        selection = context._selection
        lead = (selection.whole or selection.survey()).lead
        shown, end = _split_newest(selection, self.keep_last)
        stop = shown[end] if end < len(shown) else len(selection.entries)
        # An earlier summary costs nothing to show again, and may save enough by itself.
        context = _put_earlier_summary(context, lead, stop)
        if context.total_tokens <= self.limit_tokens:
            return context, ()

        selection = context._selection
        shown, end = _split_newest(selection, self.keep_last)
        # The system messages at the start are instructions, not history.
        seqs = {seq for seq in shown[:end] if seq >= lead}
        # A position that shows several messages is summarised whole or not at all.
        seqs -= {*shown[end:]}
        # If only summaries are left to summarise (or nothing is), another one would
        # lose content and save little in each turn.
        edits = [selection.changes.get(seq) for seq in seqs]
        if all(
            edit and edit.stands_for and read_mark(edit.summary).get("rolling")
            for edit in edits
        ):
            return context, ()

        return context, tuple(sorted(seqs))


def _split_newest(selection: Selection, keep_last: int) -> tuple[list[int], int]:
    """The positions shown, and how many of them are older than those to keep."""
    boundaries = _find_group_boundaries(selection)
    shown = [seq for seq, _ in selection.pairs()]
    end = max(len(shown) - keep_last, 0)
    # A group that is kept in part is kept whole.
    while end and not boundaries[shown[end] if end < len(shown) else -1]:
        end -= 1

    return shown, end


def _put_earlier_summary(context: TrimContext, lead: int, stop: int) -> TrimContext:
    """
    *context* with the summary of an earlier view that holds here and reaches
    farthest, but not to the position *stop*.
    """
    selection = context._selection
    found = [
        (seqs, summary.message)
        for summary in context._earlier_summaries
        for seqs in [find_positions(summary, selection.entries)]
        if seqs and max(seqs) < stop
    ]
    for seqs, message in sorted(found, key=lambda one: max(one[0]), reverse=True):
        shown = list(selection.seqs(lead, max(seqs) + 1))
        if shown and _can_stand_for(selection, message, seqs, shown):
            spans = join_ranges(range(seq, seq + 1) for seq in sorted(seqs))
            return context._with_selection(selection.summarise(shown, message, spans))

    return context


def _can_stand_for(
    selection: Selection, summary: Message, seqs: frozenset[int], shown: list[int]
) -> bool:
    """
    Whether *summary*, of the messages at *seqs*, can stand for those *shown*:
    it covers them, and reveals nothing that this view removed or replaced.
    """
    here = {seq for span in selection.stands_for(shown) for seq in span}
    if not seqs.issuperset(here):
        return False

    if any(selection.drop_reason(seq) not in _FOR_SIZE for seq in seqs - here):
        return False

    return _read_mark_replaced(summary).issuperset(_read_replaced(selection, shown))


# Messages that were dropped for their size may be summarised; removed and invalid ones
# must not come back in a summary.
_FOR_SIZE = {OVER_BUDGET, OVER_COUNT, MOVED}


def rolling_summary(limit_tokens: int, keep_last: int, summarise: Summarise) -> Step:
    """
    A step that summarises what is old once a view is over *limit_tokens*.

    One message stands for all but the leading system messages and the newest
    *keep_last*, or a few more where a group of calls and results would be
    split. Given the view of the turn before (``trim(..., previous=view)``),
    it continues from its summary: while that is enough, *summarise* is not
    called; then it gets that summary and what came since, and nothing twice.
    A summary is taken over only where the same entries are at the same
    positions, in later states and in forks that share all it stands for; where
    it does not reach into the newest *keep_last*; and where nothing it stands
    for was removed from this view, or replaced by a step of your own that did
    not replace it then. A turn that needs no summary, after an undo for
    example, remembers it for the next one.

    What the summary is like, and what happens without one, is as in
    `compact`; after a failure the summary of the turn before still stands. The
    view may be over *limit_tokens*; a `fit` behind this step holds the budget.
    A `SystemMessage` from *summarise* stands with the leading system messages,
    and `fit` keeps it with them.

    Costs O(messages in the view).

    Args:
        limit_tokens: How large a view may become before it is summarised.
        keep_last: How many of the newest messages stay as they are.
        summarise: As in `compact`.

    Raises:
        ValueError: If a number is negative or no integer.
        TypeError: If *summarise* isn't a function, or one that has to be awaited
            (`arolling_summary`).
    """
    return _make_rolling(limit_tokens, keep_last, summarise, is_async=False)


def arolling_summary(
    limit_tokens: int, keep_last: int, summarise: AsyncSummarise
) -> AsyncStep:
    """The same for an async *summarise*; a step for `atrim`."""
    return _make_rolling(limit_tokens, keep_last, summarise, is_async=True)


def _make_rolling(
    limit_tokens: int, keep_last: int, summarise: Any, *, is_async: bool
) -> _Rolling:
    name = "arolling_summary" if is_async else "rolling_summary"
    limit = check_integer(name, "limit_tokens", limit_tokens)
    number = check_integer(name, "keep_last", keep_last)
    return _Rolling(summarise, is_async, limit, number)
