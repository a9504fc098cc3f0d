"""
Trimming: what the model gets to see.

A `TrimContext` is a view over the messages of a state: it says which of them
are kept and why the others are not, and never touches what was said. What
lives here: the view, the steps that narrow it, and when a provider would
refuse it. What does not: how many tokens a message fills (`counting`).

How `fit` can be quick: while messages are weighed, a `_Survey` notes where a
valid run to the end may start, and how many tokens come before. Surveys are
folds, so the log remembers them with every block (`Log.fold`), and fitting
the next state looks at what is new and bisects the rest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import index, itemgetter
from typing import Any, NamedTuple, TypeAlias

import attrs

from conversation_state._persistent import Log, PMap, View, pmap
from conversation_state.aggregator import Aggregator, Entry, Messages
from conversation_state.counting import (
    TokenBudget,
    TokenCounter,
    by_characters,
    count,
)
from conversation_state.errors import BudgetExceededError, InvalidTranscriptError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
)

__all__ = [
    "Dropped",
    "Element",
    "Flaw",
    "Step",
    "TrimContext",
    "fit",
    "trim",
]


class Element(NamedTuple):
    """
    A message in a view.

    Attributes:
        seq: Its position in the conversation; the same in every view.

        message: The message.

        tokens: How many tokens it fills, by the view's counter.

        role: Its role.
    """

    seq: int
    message: Message
    tokens: int
    role: str


class Dropped(NamedTuple):
    """
    A message that a view does not show.

    Attributes:
        seq: Its position in the conversation.

        reason: Why: ``over budget``, ``not valid`` (it could only be shown
            together with something a provider refuses), ``removed``.
    """

    seq: int
    reason: str


class Flaw(NamedTuple):
    """
    Why a provider would refuse a view.

    Attributes:
        kind: ``orphaned result``, ``repeated result``, ``dangling call`` or
            ``repeated call id``.

        seqs: The positions of the messages concerned.

        what: What is wrong and what to do.
    """

    kind: str
    seqs: tuple[int, ...]
    what: str

    def __str__(self) -> str:
        return self.what


class _Group(NamedTuple):
    """
    The assistant's message whose calls the next messages answer.
    """

    seq: int
    called: frozenset[str]
    pending: frozenset[str]


_NOBODY = _Group(-1, frozenset(), frozenset())


def _pair(group: _Group, seq: int, message: Message) -> tuple[_Group, tuple[Flaw, ...]]:
    """
    The group after *message*, and what is wrong with it.

    Results belong directly behind the message that made the calls: OpenAI and
    Anthropic refuse anything between the two.
    """
    if isinstance(message, ToolMessage):
        return _answer(group, seq, message.tool_call_id)

    flaws: tuple[Flaw, ...] = ()
    if group.pending:
        ids = ", ".join(sorted(map(repr, group.pending)))
        what = (
            f"messages[{group.seq}] calls {ids}, and messages[{seq}] follows before "
            "the answer; put the answer between them, or drop the call"
        )
        flaws = (Flaw("dangling call", (group.seq, seq), what),)

    if not isinstance(message, AssistantMessage) or not message.tool_calls:
        return _NOBODY, flaws

    called = frozenset([call.id for call in message.tool_calls])
    if len(called) < len(message.tool_calls):
        what = (
            f"messages[{seq}] makes two calls with one id, so their answers can't be "
            "told apart; give every call its own"
        )
        flaws = (*flaws, Flaw("repeated call id", (seq,), what))

    return _Group(seq, called, called), flaws


def _answer(group: _Group, seq: int, call_id: str) -> tuple[_Group, tuple[Flaw, ...]]:
    if call_id in group.pending:
        return group._replace(pending=group.pending - {call_id}), ()

    if call_id in group.called:
        what = (
            f"messages[{seq}] answers call {call_id!r} of messages[{group.seq}] again; "
            "drop one of the answers"
        )
        return group, (Flaw("repeated result", (group.seq, seq), what),)

    what = (
        f"messages[{seq}] answers call {call_id!r}, which the assistant's message "
        "before it did not make; drop it, or keep the call directly before it"
    )
    return group, (Flaw("orphaned result", (seq,), what),)


class _Cut(NamedTuple):
    """
    A place where a valid run to the end may start.
    """

    tokens: int  # all that comes before, the first sort key
    seq: int


_NO_CUTS: Log[_Cut] = Log()
_tokens_of = itemgetter(0)
_make = tuple.__new__


class _Survey(NamedTuple):
    """
    What a run of messages, read from its beginning, allows.
    """

    size: int = 0
    tokens: int = 0
    # The leading system messages: how many, the position behind them, tokens.
    lead_size: int = 0
    lead: int = 0
    lead_tokens: int = 0
    group: _Group = _NOBODY
    flaw: Flaw | None = None  # the last one
    cuts: Log[_Cut] = _NO_CUTS
    user_cuts: Log[_Cut] = _NO_CUTS

    def with_message(self, seq: int, message: Message, tokens: int) -> _Survey:
        size, before, lead_size, lead, lead_tokens, group, last, cuts, users = self
        role = message.role
        may_start = role != "tool"
        if not may_start or group.pending or role == "assistant":
            group, flaws = _pair(group, seq, message)
            if flaws:
                # No run that starts before this message can be valid; one that
                # starts with it can, unless it is itself what is wrong.
                last, cuts, users = flaws[-1], _NO_CUTS, _NO_CUTS
                may_start = may_start and last.seqs[0] != seq
        else:
            group = _NOBODY

        if may_start:
            cut = _make(_Cut, (before, seq))
            cuts = cuts.append(cut)
            if role == "user":
                users = users.append(cut)

            elif role == "system" and lead_size == size:
                lead_size, lead, lead_tokens = size + 1, seq + 1, before + tokens

        after = before + tokens
        return _make(
            _Survey,
            (size + 1, after, lead_size, lead, lead_tokens, group, last, cuts, users),
        )


_START = _Survey()
_NONE: PMap[int, str] = pmap()
_OVER_BUDGET, _NOT_VALID, _REMOVED = "over budget", "not valid", "removed"


class _Range(NamedTuple):
    """
    Positions that are dropped together.
    """

    start: int
    stop: int
    reason: str


class _Shown(View[Any]):
    """
    The kept or dropped messages of a view, each made into what was asked for.

    Iterating costs what is there, an index O(log n) while nothing was removed
    one by one, else O(n).
    """

    __slots__ = ("_context", "_kept", "_make", "_spans")

    def __init__(
        self, context: TrimContext, make: Callable[[int], Any], *, kept: bool
    ) -> None:
        self._context = context
        self._make = make
        self._kept = kept
        self._spans = context._spans(kept=kept)

    def __len__(self) -> int:
        context = self._context
        size = len(context)
        return size if self._kept else len(context._entries) - size

    def __iter__(self) -> Iterator[Any]:
        return map(self._make, self._seqs())

    def _seqs(self) -> Iterator[int]:
        seqs = chain.from_iterable(self._spans)
        removed = self._context._removed
        if not removed:
            return seqs

        if self._kept:
            return (seq for seq in seqs if seq not in removed)

        return iter(sorted({*seqs, *removed}))

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(self)[at]

        wanted = index(at)
        size = len(self)
        position = wanted + size if wanted < 0 else wanted
        if not 0 <= position < size:
            msg = f"position {wanted} of a view of {size}"
            raise IndexError(msg)

        if self._context._removed:
            return self._make(next(islice(self._seqs(), position, None)))

        for span in self._spans:
            if position < len(span):
                return self._make(span[position])

            position -= len(span)

        raise AssertionError  # the spans add up to the size

    def __repr__(self) -> str:
        return repr(tuple(self))


@attrs.frozen(repr=False)
class TrimContext:
    """
    A budgeted view over the messages of a state.

    A value: `remove` and every step give the next view and leave this one as
    it was. The state it views is never touched, and a message keeps its
    position in it (`Element.seq`) in every view.

    Made by `TrimContext.of`.

    Attributes:
        budget: What the view should fit into; None if there is no limit.

        counter: What weighs the messages.

        total_tokens: What is kept, in tokens. Kept up to date, not re-summed.
    """

    _entries: Log[Entry]
    budget: TokenBudget | None
    counter: TokenCounter
    total_tokens: int
    # Positions that went together: disjoint, in order.
    _ranges: tuple[_Range, ...]
    # Positions that went one by one, and why; a range may cover them, too.
    _removed: PMap[int, str]
    _size: int

    @classmethod
    def of(
        cls,
        said: Aggregator | Iterable[Message],
        budget: TokenBudget | None = None,
        *,
        counter: TokenCounter = by_characters,
    ) -> TrimContext:
        """
        All that was said, as a view.

        Costs the messages that *counter* has not weighed yet; O(n) the first
        time a list of messages is given.

        Args:
            said: A state, or messages.

            budget: What the view should fit into; None for no limit.

            counter: What weighs the messages.

        Raises:
            TypeError:
                If *said* holds something else than messages, or *budget* is
                no `TokenBudget`.

            ValueError:
                If *counter* gives something else than a count.
        """
        if budget is not None and not isinstance(budget, TokenBudget):
            msg = (
                f"budget is {budget!r}; expected a TokenBudget, "
                "TokenBudget(context_window=8_000) say"
            )
            raise TypeError(msg)

        entries = _entries(said)
        survey = _surveyed(entries, counter)
        return cls(entries, budget, counter, survey.tokens, (), _NONE, survey.size)

    @property
    def original(self) -> TrimContext:
        """
        The view before anything was dropped. O(1).
        """
        return TrimContext.of(
            Messages(self._entries), self.budget, counter=self.counter
        )

    @property
    def messages(self) -> Sequence[Message]:
        """
        What the model gets to see, in order; an immutable view, O(1) to get.
        """
        entries = self._entries
        return _Shown(self, lambda seq: entries[seq].message, kept=True)

    @property
    def elements(self) -> Sequence[Element]:
        """
        The same with position, tokens and role.
        """
        return _Shown(self, self._element, kept=True)

    @property
    def dropped(self) -> Sequence[Dropped]:
        """
        What the model does not get to see, in order, and why.
        """
        return _Shown(self, self._drop, kept=False)

    def _element(self, seq: int) -> Element:
        message = self._entries[seq].message
        return Element(seq, message, count(message, self.counter), message.role)

    def _drop(self, seq: int) -> Dropped:
        for span in self._ranges:
            if span.start <= seq < span.stop and seq not in self._removed:
                return Dropped(seq, span.reason)

        return Dropped(seq, self._removed[seq])

    def _spans(self, *, kept: bool) -> list[range]:
        """
        The positions in no range, or in one.
        """
        if kept:
            return list(_gaps(self._ranges, 0, len(self._entries)))

        return [range(span.start, span.stop) for span in self._ranges]

    def remove(self, seqs: int | Iterable[int]) -> TrimContext:
        """
        This view without the messages at *seqs*; itself if it shows none.

        Positions it does not show, or that do not exist, change nothing.
        O(log n) for each.

        Raises:
            TypeError:
                If *seqs* holds something else than integers.
        """
        if not isinstance(seqs, Iterable):
            seqs = (seqs,)

        gone = {seq for seq in map(index, seqs) if self._shows(seq)}
        if not gone:
            return self

        tokens = self.total_tokens
        for seq in gone:
            tokens -= count(self._entries[seq].message, self.counter)

        removed = self._removed.update(dict.fromkeys(gone, _REMOVED))
        return self._next(tokens, self._ranges, removed, self._size - len(gone))

    def _shows(self, seq: int) -> bool:
        return (
            0 <= seq < len(self._entries)
            and seq not in self._removed
            and not any(span.start <= seq < span.stop for span in self._ranges)
        )

    def problems(self) -> tuple[Flaw, ...]:
        """
        Why a provider would refuse this view; ``()`` for a valid one.

        Every result follows the message that made the call, with nothing but
        other results between, once; and every call that is followed by
        something else has a result. Calls at the very end may be unanswered:
        the agent is about to run them. O(messages kept).
        """
        group = _NOBODY
        found: list[Flaw] = []
        for seq in _Shown(self, int, kept=True):
            group, flaws = _pair(group, seq, self._entries[seq].message)
            found.extend(flaws)

        return tuple(found)

    def __len__(self) -> int:
        """
        How many messages are kept.
        """
        return self._size

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __repr__(self) -> str:
        limit = "no limit"
        if self.budget is not None:
            limit = f"a limit of {self.budget.effective_input_limit:,}"

        return (
            f"<TrimContext: {self._size} of {len(self._entries)} messages, "
            f"{self.total_tokens:,} tokens, {limit}>"
        )

    def _survey(self) -> _Survey:
        if self._size == len(self._entries):
            return _surveyed(self._entries, self.counter)

        survey = _START
        for seq, message, tokens, _role in self.elements:
            survey = survey.with_message(seq, message, tokens)

        return survey

    def _without(self, spans: Iterable[_Range], tokens: int) -> TrimContext:
        """
        This view without what it shows in *spans*, *tokens* in all.
        """
        ranges, size = list(self._ranges), self._size
        for start, stop, reason in spans:
            for gap in _gaps(self._ranges, start, stop):
                ranges.append(_Range(gap.start, gap.stop, reason))
                size -= len(gap) - sum(seq in gap for seq in self._removed)

        if size == self._size:
            return self

        tokens = self.total_tokens - tokens
        return self._next(tokens, tuple(sorted(ranges)), self._removed, size)

    def _next(
        self,
        tokens: int,
        ranges: tuple[_Range, ...],
        removed: PMap[int, str],
        size: int,
    ) -> TrimContext:
        return TrimContext(
            self._entries, self.budget, self.counter, tokens, ranges, removed, size
        )


def _gaps(ranges: Iterable[_Range], start: int, stop: int) -> Iterator[range]:
    """
    What *ranges*, disjoint and in order, leave of the positions up to *stop*.
    """
    for span in ranges:
        if start < min(span.start, stop):
            yield range(start, min(span.start, stop))

        start = max(start, span.stop)

    if start < stop:
        yield range(start, stop)


def _entries(said: Aggregator | Iterable[Message]) -> Log[Entry]:
    if isinstance(said, (Aggregator, Messages)):
        return said.entries

    entries: list[Entry] = []
    for message in said:
        if not isinstance(message, Message):
            msg = (
                f"a view shows messages, got a {type(message).__name__}: "
                f"{message!r:.80}"
            )
            raise TypeError(msg)

        entries.append(Entry("", message))

    return Log(entries)


def _surveyed(entries: Log[Entry], counter: TokenCounter) -> _Survey:
    def step(survey: _Survey, entry: Entry) -> _Survey:
        message = entry[1]
        return survey.with_message(survey[0], message, count(message, counter))

    return entries.fold(step, _START, key=counter)


Step: TypeAlias = Callable[[TrimContext], TrimContext]


@attrs.frozen
class _Fit:
    keep_system: bool
    start_on_user: bool

    def __call__(self, context: TrimContext) -> TrimContext:
        survey = context._survey()
        if not survey.size:
            return context

        lead, lead_tokens, choices = 0, 0, survey.cuts
        if self.keep_system:
            lead, lead_tokens = survey.lead, survey.lead_tokens

        if self.start_on_user and not (lead and survey.lead_size == survey.size):
            choices = survey.user_cuts

        if not choices:
            raise InvalidTranscriptError(_why_not(survey))

        limit = survey.tokens
        if context.budget is not None:
            limit = context.budget.effective_input_limit

        # Before a run that starts at a cut, this much must be left out.
        most = lead_tokens + survey.tokens - limit
        at = 0
        if most > lead_tokens:
            at = bisect_left(choices, most, key=_tokens_of)
            if at == len(choices):
                least = max(choices[-1].tokens, lead_tokens)
                needed = lead_tokens + survey.tokens - least
                raise BudgetExceededError(needed, limit)

        first, cut = choices[0].seq, choices[at]
        if cut.seq <= lead:
            return context

        spans = (
            _Range(lead, first, _NOT_VALID),
            _Range(max(lead, first), cut.seq, _OVER_BUDGET),
        )
        return context._without(spans, cut.tokens - lead_tokens)


def _why_not(survey: _Survey) -> tuple[str, ...]:
    if not survey.cuts and survey.flaw is not None:
        return (survey.flaw.what,)

    return ("there is no user's message that a valid view could start on",)


def fit(*, keep_system: bool = True, start_on_user: bool = False) -> Step:
    """
    A step that keeps the longest run of newest messages that fits.

    What it gives is never over the budget and never refused by a provider
    (`TrimContext.problems`); it holds the newest message, with the calls that
    message answers; and it keeps the order. O(log n) once the messages are
    weighed, whatever part of them fits.

    Args:
        keep_system: Keep the leading system messages, whatever else goes.

        start_on_user: Start the run on a user's message, as some providers
            want it.

    Raises:
        BudgetExceededError:
            By the step, if even the smallest such view is over the budget.

        InvalidTranscriptError:
            By the step, if no such view is valid: the newest message is the
            result of a call that is not directly before it, say.
    """
    return _Fit(keep_system, start_on_user)


def trim(
    said: Aggregator | Iterable[Message],
    budget: TokenBudget | None,
    *steps: Step,
    counter: TokenCounter = by_characters,
) -> TrimContext:
    """
    A view of what was said that went through *steps*, one after the other.

    Args:
        said: A state, or messages.

        budget: What the view should fit into; None for no limit.

        *steps: Functions from one view to the next; `fit` alone if there are
            none.

        counter: What weighs the messages.

    Raises:
        BudgetExceededError, InvalidTranscriptError:
            As `fit` says.

        TypeError:
            If a step gives something else than a view.

    >>> talk = Aggregator.new().add_user_prompt("Hello there, my friend!")
    >>> talk = talk.add_assistant_message("Hi.").add_user_prompt("Bye.")
    >>> view = trim(talk, TokenBudget(context_window=3), fit())
    >>> [message.text for message in view.messages], view.total_tokens
    (['Hi.', 'Bye.'], 2)
    >>> view.dropped
    (Dropped(seq=0, reason='over budget'),)
    """
    context = TrimContext.of(said, budget, counter=counter)
    for step in steps or (fit(),):
        given: Any = step(context)
        if not isinstance(given, TrimContext):
            msg = (
                f"the step {step!r} gave {given!r:.80}; a step takes a TrimContext "
                "and gives the next one"
            )
            raise TypeError(msg)

        context = given

    return context
