"""The view: which messages are kept, and why the others are not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import index
from typing import TypeAlias

import attrs

from conversation_state._drawing import draw_fragment
from conversation_state._persistent import Log, check_iterable, check_list, final
from conversation_state._wording import add_missing_names, format_count, shorten_repr
from conversation_state.aggregator import Aggregator, Entry, Messages
from conversation_state.counting import TokenBudget, TokenCounter, by_characters, count
from conversation_state.messages import Message, ResponseMeta
from conversation_state.requests import EVERYWHERE, Rules
from conversation_state.trimming._elements import (
    REMOVED,
    Dropped,
    EarlierSummary,
    Element,
    StepFailure,
    check_message,
    read_mark,
)
from conversation_state.trimming._selection import Selection
from conversation_state.trimming._sequences import (
    DroppedView,
    SharedPrefix,
    ShownView,
    find_shared_prefix,
)
from conversation_state.trimming._validity import Flaw, find_flaws


@final
@attrs.frozen(repr=False)
class TrimContext:
    """
    A budgeted view over the messages of a state.

    A value: `remove`, `replace` and every step give the next view and leave
    this one as it was. The state it views is never touched, and a message
    keeps its position in it (`Element.seq`) in every view.

    Made by `TrimContext.of`.

    Attributes:
        budget: What the view should fit into; None if there is no limit.
        failures: What steps could not do, and why; ``()`` if nothing: a summary
            that was not made (`compact`), and each invalid place that messages
            were dropped for (`repair`, `fit`).
        summary_responses: What summarisers reported while this view was made,
            those whose summary was refused included: the `ResponseMeta` of each
            message they returned that has a usage, with a new id if it has none.
            Their usage is in no ledger; `record_summaries` puts it there.
    """

    budget: TokenBudget | None
    _selection: Selection
    failures: tuple[StepFailure, ...] = ()
    summary_responses: tuple[ResponseMeta, ...] = ()
    # The newest first.
    _earlier_summaries: tuple[EarlierSummary, ...] = attrs.field(
        default=(), eq=False, alias="earlier_summaries"
    )

    @classmethod
    def of(
        cls,
        conversation: Aggregator | Iterable[Message],
        budget: TokenBudget | None = None,
        *,
        counter: TokenCounter = by_characters,
        rules: Rules = EVERYWHERE,
        previous: TrimContext | Iterable[Message] | None = None,
    ) -> TrimContext:
        """
        A view that shows the whole *conversation*.

        O(1) for a state: its messages are counted where that is asked for. O(n) the
        first time a list of messages is given.

        Args:
            conversation: A state, or messages.
            budget: What the view should fit into; None for no limit.
            counter: What counts the tokens of the messages.
            rules: What requests are asked for: `requests.EVERYWHERE` is right for all
                providers, ``adapters.anthropic.RULES`` for one.
            previous: The view of the turn before, or its `summaries`: what
                `rolling_summary` goes on from. Nothing else reads it. A view
                remembers the summaries of the eight views before it.

        Raises:
            TypeError: If *conversation* or *previous* holds something else than
                messages, *budget* isn't a `TokenBudget`, or *rules* aren't `Rules`.
            ValueError: If *counter* returns something else than a count.
        """
        if not isinstance(rules, Rules):
            raise TypeError(
                "rules: expected the rules of a format, such as "
                f"adapters.anthropic.RULES, got {shorten_repr(rules)}"
            )

        if budget is not None and not isinstance(budget, TokenBudget):
            raise TypeError(
                f"budget: expected a TokenBudget, such as "
                f"TokenBudget(context_window=8_000), got {shorten_repr(budget)}"
            )

        if isinstance(conversation, (Aggregator, Messages)):
            entries = conversation.entries
        else:
            check_list(conversation, "conversation", "a state or Messages")
            # These entries have no identity: the same message in another list could be
            # a different one, so summaries of lists are not found again by their marks.
            entries = Log([Entry("", check_message(one)) for one in conversation])

        selection = Selection(
            entries, counter, rules, None, len(entries), is_whole=True
        )
        if previous is None:
            return cls(budget, selection)

        summaries = _find_earlier_summaries(previous)
        return cls(budget, selection, earlier_summaries=summaries)

    @property
    def counter(self) -> TokenCounter:
        """What counts the tokens of the messages."""
        return self._selection.counter

    @property
    def rules(self) -> Rules:
        """What requests are asked for, which `problems`, `repair` and `fit` know."""
        return self._selection.rules

    @property
    def total_tokens(self) -> int:
        """
        How many tokens the kept messages fill. O(1); where nothing was left out yet,
        the messages that are not counted yet.
        """
        return self._selection.tokens

    @property
    def original(self) -> TrimContext:
        """The view before anything was dropped. O(1)."""
        entries = Messages(self._selection.entries)
        return TrimContext.of(
            entries, self.budget, counter=self.counter, rules=self.rules
        )

    @property
    def messages(self) -> Sequence[Message]:
        """
        The messages that the model gets, in order; an immutable view, O(1) to get.
        Pickled as the tuple of these messages.
        """
        return ShownView(self._selection, lambda _seq, message: message)

    @property
    def elements(self) -> Sequence[Element]:
        """The same with position, tokens and role."""
        counter = self.counter
        return ShownView(
            self._selection,
            lambda seq, message: Element(
                seq, message, count(message, counter), message.role
            ),
        )

    @property
    def dropped(self) -> Sequence[Dropped]:
        """
        The messages that the model does not get, in order, and why.

        A message that is replaced, a shortened result for example, is not
        dropped. What a summary stands for is dropped, ``compacted``.
        """
        return DroppedView(self._selection)

    @property
    def summaries(self) -> tuple[Message, ...]:
        """
        The summaries in this view, in order, and those it had before they
        were dropped again; then the ones of earlier views that none of these
        replaces, which a later view may show again.

        Each has in its metadata what it stands for (see `compact`), so they
        can be stored, and given to the next turn as *previous*.
        """
        own = self._own_summaries()
        covered = {seq for one in own for span in one.stands_for for seq in span}
        kept = [
            summary
            for summary in self._earlier_summaries
            for seqs in [find_positions(summary, self._selection.entries)]
            if not (seqs and covered.issuperset(seqs))
        ]
        return tuple([summary.message for summary in [*own, *kept]])

    def _own_summaries(self) -> list[EarlierSummary]:
        entries, changes = self._selection.entries, self._selection.changes
        return [
            EarlierSummary(edit.summary, entries, edit.stands_for)
            for _seq, edit in sorted(changes.items())
            if edit.stands_for
        ]

    def remove(self, seqs: int | Iterable[int]) -> TrimContext:
        """
        This view without the messages at *seqs*; itself if it shows none.

        Positions it does not show, or that do not exist, change nothing.
        O(log n) for each.

        Raises:
            TypeError: If *seqs* holds something else than integers.
        """
        if not isinstance(seqs, Iterable):
            seqs = (seqs,)

        return self._with_selection(self._selection.remove(seqs, REMOVED))

    def replace(self, seq: int, message: Message) -> TrimContext:
        """
        This view with *message* at the position *seq* instead of what it shows
        there; itself if that is equal. O(log n).

        For steps of your own that change a message. The position stays; the
        original message is in the state, and in `original`.

        Raises:
            ValueError: If the view shows nothing at *seq*.
            TypeError: If *message* isn't a message.
        """
        check_message(message)
        located = self._selection.locate(index(seq))
        if located is None:
            raise ValueError(
                f"seq={shorten_repr(seq)}: the view shows nothing at this position; "
                "expected the seq of one of its elements"
            )

        # The replacement of a summary stands for what the summary stands for.
        return self._with_selection(self._selection.replace(*located, message))

    def _with_selection(self, selection: Selection) -> TrimContext:
        if selection is self._selection:
            return self

        return TrimContext(
            self.budget,
            selection,
            self.failures,
            self.summary_responses,
            self._earlier_summaries,
        )

    def _with_failures(self, *failures: StepFailure) -> TrimContext:
        if not failures:
            return self

        return attrs.evolve(self, failures=(*self.failures, *failures))

    def problems(self) -> tuple[Flaw, ...]:
        """
        Why a provider would refuse this view; ``()`` for a valid one.

        Every result follows the message that made the call, with nothing but
        other results between, once; and every call that is followed by
        something else has a result. Calls at the end may be unanswered:
        the agent is about to run them. Ids of calls are unique in the whole view; ids
        and names have the form that `rules` ask, nothing is empty or thinking that
        leads to nothing, and a user speaks first. O(messages kept).
        """
        return tuple(find_flaws(self._selection.pairs(), self.rules))

    def shared_prefix(self, other: TrimContext) -> SharedPrefix:
        """
        What both views show at their start: what a provider that cached one
        of them need not process again for the other.

        O(log n) where both show the same entries; message by message where
        they show equal ones.
        """
        if not isinstance(other, TrimContext):
            raise TypeError(f"other: expected a TrimContext, got {shorten_repr(other)}")

        return find_shared_prefix(self._selection, other._selection)

    def __len__(self) -> int:
        """How many messages are kept."""
        return self._selection.size

    # A view that shows nothing is truthy, so that `previous or ...` takes it.
    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def _repr_html_(self) -> str:
        return draw_fragment(self)

    def __repr__(self) -> str:
        limit = "no limit"
        if self.budget is not None:
            limit = f"a limit of {self.budget.effective_input_limit:,}"

        failed = len(self.failures)
        failures = f", {format_count(failed, 'failure')}" if failed else ""
        messages = format_count(len(self._selection.entries), "message")
        tokens = format_count(self.total_tokens, "token")
        return (
            f"<TrimContext: {len(self):,} of {messages}, {tokens}, {limit}{failures}>"
        )


add_missing_names(
    TrimContext,
    "a view has",
    {
        **dict.fromkeys(
            ("add", "append", "insert", "extend"),
            "a view shows nothing new: trim(state.add(message), budget) shows a "
            "message that is not saved",
        ),
        **dict.fromkeys(("tokens", "token_count", "count"), "total_tokens"),
        **dict.fromkeys(("drop", "without", "keep"), "remove"),
        "entries": "elements",
    },
)

_REMEMBERED = 8  # summaries of earlier views; the oldest are forgotten first


def _find_earlier_summaries(
    previous: TrimContext | Iterable[Message],
) -> tuple[EarlierSummary, ...]:
    if isinstance(previous, TrimContext):
        candidates = [*previous._own_summaries(), *previous._earlier_summaries]
    else:
        check_iterable(previous, "previous", "a TrimContext or its summaries")
        candidates = [EarlierSummary(check_message(message)) for message in previous]

    found: list[EarlierSummary] = []
    for summary in candidates:
        is_new = not any(summary.message is other.message for other in found)
        if is_new and read_mark(summary.message).get("rolling"):
            found.append(summary)

    return tuple(found[:_REMEMBERED])


def find_positions(summary: EarlierSummary, entries: Log[Entry]) -> frozenset[int]:
    """
    The positions in *entries* that *summary* stands for; none if these entries
    are not at the same positions.
    """
    if summary.entries is not None:
        # The state may have grown since the summary, or may be a fork from an earlier
        # entry.
        same = entries.common_prefix(summary.entries)
        holds = summary.stands_for[-1].stop <= same
        return frozenset(chain.from_iterable(summary.stands_for if holds else ()))

    mark = read_mark(summary.message)
    try:
        spans = [range(start, stop) for start, stop in mark["seqs"]]
        ids = tuple(mark["compacted"])
    except (KeyError, TypeError, ValueError):
        return _NOWHERE

    # Metadata that another program wrote may hold anything.
    if not all(0 <= span.start < span.stop <= len(entries) for span in spans):
        return _NOWHERE

    seqs = list(islice(chain.from_iterable(spans), len(ids)))
    here = tuple([entries[seq].id for seq in seqs])
    return frozenset(seqs) if ids == here else _NOWHERE


_NOWHERE: frozenset[int] = frozenset()


Step: TypeAlias = Callable[[TrimContext], TrimContext]
AsyncStep: TypeAlias = Callable[[TrimContext], TrimContext | Awaitable[TrimContext]]
