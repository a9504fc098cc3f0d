"""
What trimming asks of functions: of its steps with any view, and of a summariser, which
`compact` and `rolling_summary` call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from typing import Any, TypeAlias

from hypothesis import settings as Settings  # noqa: N812 - a class
from hypothesis.strategies import SearchStrategy

from conversation_state.counting import TokenCounter, by_characters
from conversation_state.errors import (
    BudgetExceededError,
    CompactionError,
    InvalidTranscriptError,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    UserMessage,
)
from conversation_state.requests import is_made
from conversation_state.testing._code import show_value
from conversation_state.testing._comparison import (
    assert_same,
    assert_same_on_copies,
    compare_messages,
    decoded_each,
    is_same,
    unpickled,
)
from conversation_state.testing.contracts._contract import (
    Contract,
    call,
    check_contract,
    law,
)
from conversation_state.testing.contracts._examples import ENDED_CONVERSATIONS, VIEWS
from conversation_state.testing.contracts._pairs import (
    assert_keeps_pairs,
    assert_replaces,
    find_problems,
    list_call_ids,
    problems_of,
)
from conversation_state.trimming import (
    AsyncStep,
    Element,
    Flaw,
    TrimContext,
    compact,
    trim,
)
from conversation_state.usage import Usage

# The errors with which a step may refuse a view.
_REFUSALS = (BudgetExceededError, CompactionError, InvalidTranscriptError)


class TrimmingStepContract(Contract):
    """
    The laws of a trimming step: a function from one view to the next. It may be async.

    Attributes:
        step: The step; a function as a static method.
        views: The views it takes, as a strategy; any by default: with and without a
            budget, valid and not, whole and with messages removed.
        fresh: Makes a step that has seen nothing yet, for one that remembers; None for
            one that remembers nothing.
    """

    kind, subject = "trimming steps", "step"
    expected = "a function from a view to a view"
    step: AsyncStep
    views: SearchStrategy[TrimContext] = VIEWS

    def _apply_step(self, view: TrimContext) -> TrimContext:
        """The view after the step; the view itself if it is refused."""
        try:
            result: TrimContext = call(self.step, view)
        except _REFUSALS:
            return view

        return result

    def _observe_result(self, view: TrimContext) -> dict[str, Any]:
        return _make_comparable(self._apply_step(view))

    @law(view="views")
    def test_takes_every_view(self, view: TrimContext) -> None:
        """
        Of every view comes a view, or one of the errors with which steps refuse one:
        BudgetExceededError, CompactionError, InvalidTranscriptError.
        """
        result: Any = self._apply_step(view)

        assert isinstance(result, TrimContext), (
            f"expected a view, got {show_value(result)}"
        )
        self._note_first(view, _make_comparable(result))

    @law(view="views")
    def test_shows_the_same_conversation(self, view: TrimContext) -> None:
        """
        The result is a view of the same conversation with the same budget and
        counter: made by the verbs of the view, not of a list of messages.
        """
        result = self._apply_step(view)
        before, after = view.original, result.original

        assert is_same(list(before.messages), list(after.messages)), (
            f"a view of {len(after)} messages, not of {len(before)}"
        )
        assert view.budget == result.budget, f"another budget: {result.budget}"
        assert view.counter == result.counter, f"another counter: {result.counter}"

    @law(view="views")
    def test_brings_nothing_back(self, view: TrimContext) -> None:
        """What an earlier step dropped stays dropped."""
        shown = {each.seq for each in view.elements}
        back = {each.seq for each in self._apply_step(view).elements} - shown

        assert not back, f"shown again: {sorted(back)}"

    @law(view="views")
    def test_keeps_views_valid(self, view: TrimContext) -> None:
        """
        A view that a provider accepts stays one: no result without its call, no call
        without its result.
        """
        if not view.problems():
            problems = problems_of(self._apply_step(view))
            assert not problems, f"{problems[0]}"

    @law(view="views")
    def test_keeps_pairs(self, view: TrimContext) -> None:
        """
        A call and its result stay together, also in views that are invalid for other
        reasons: both are shown, or neither.
        """
        assert_keeps_pairs(list(view), list(self._apply_step(view)))

    @law(view="views")
    def test_adds_no_problems(self, view: TrimContext) -> None:
        """What a provider would refuse in the result, it would refuse in the view."""
        known = {_name_problem(each) for each in view.problems()}
        for each in problems_of(self._apply_step(view)):
            assert _name_problem(each) in known, f"{each}"

    @law(view="views")
    def test_keeps_fields(self, view: TrimContext) -> None:
        """
        A message that is shown in the place of another one, and is no summary, has its
        role, its name, its metadata and its ids, and a failed result is marked so.
        """
        result = self._apply_step(view)
        shown = {each.seq: each.message for each in reversed(result.elements)}
        for each in view.elements:
            new = shown.get(each.seq, each.message)
            if is_made(new):
                continue

            if new is not each.message and not any(new is s for s in result.summaries):
                assert each.role == new.role, f"a message of the {each.role}: {new!r}"
                assert_replaces(each.message, new, keeps_ids=not view.problems())

    @law(view="views")
    def test_keeps_the_newest(self, view: TrimContext) -> None:
        """The newest message of a valid view is shown, and not without its text."""
        if view.problems():
            return

        result = self._apply_step(view)
        before = [each.seq for each in view.elements]
        after = [each.seq for each in result.elements]

        assert after[-1:] == before[-1:], f"shown are {after} of {before}"
        for old, new in zip(view.elements[-1:], result.elements[-1:], strict=True):
            _check_text(old, new)

    @law(view="views")
    def test_keeps_system_messages(self, view: TrimContext) -> None:
        """
        The system messages at the start of the view are shown, and not without their
        text; empty ones, which providers refuse, need not be.
        """
        after = {each.seq: each for each in self._apply_step(view).elements}
        for each in view.elements:
            if not isinstance(each.message, SystemMessage):
                break

            if each.message.text.strip():
                assert each.seq in after, f"messages[{each.seq}] is not shown"
                _check_text(each, after[each.seq])

    @law(view="views")
    def test_does_not_grow(self, view: TrimContext) -> None:
        """
        The result has no more tokens than the view; what mends an invalid view may add
        some.
        """
        result = self._apply_step(view)
        before, after = view.total_tokens, result.total_tokens
        if after > before:
            is_mended = len(result.problems()) < len(view.problems())
            assert is_mended, f"{before} tokens became {after}"

    @law(view="views")
    def test_is_pure(self, view: TrimContext) -> None:
        """The same view gives the same result again, also after other views."""
        self._assert_repeatable(self._observe_result, view)

    @law(view="views")
    def test_same_on_copies(self, view: TrimContext) -> None:
        """
        Equal messages are trimmed alike: those that were encoded and decoded, and
        those that were pickled.
        """
        messages = [each.message for each in view.original.elements]
        gone = [each.seq for each in view.dropped]

        def observe(copied: Iterable[Message]) -> Any:
            # Of a list: what is made of an entry may depend on its identity. A view
            # keeps its own elements, so the same messages are removed again.
            other = TrimContext.of(copied, view.budget, counter=view.counter)
            return self._observe_result(other.remove(gone))

        expected = observe(messages)
        for how, copy in (("decoded", decoded_each), ("unpickled", unpickled)):
            assert_same(expected, observe(copy(messages)), f"{{}}, {how}: {{}}")

    @law(needs="fresh", view="views")
    def test_same_as_a_fresh_one(self, view: TrimContext) -> None:
        """
        What it remembers changes nothing: one that has seen no other view gives the
        same.
        """
        self._assert_fresh(type(self)._observe_result, view)

    @law(view="views", is_extra=True)
    def test_fits_the_budget(self, view: TrimContext) -> None:
        """The result is within the budget, if there is one."""
        if view.budget is not None:
            try:
                after = call(self.step, view).total_tokens
            except _REFUSALS:
                return

            limit = view.budget.effective_input_limit
            assert after <= limit, f"{after} tokens, and the budget leaves {limit}"

    @law(view="views", is_extra=True)
    def test_is_idempotent(self, view: TrimContext) -> None:
        """The same step again changes nothing."""
        once = self._apply_step(view)
        twice = self._apply_step(once)

        assert_same(
            _make_comparable(once), _make_comparable(twice), "once {}, twice {}"
        )


def _check_text(before: Element, after: Element) -> None:
    """Raise an AssertionError if a message lost its text: a step may shorten it."""
    assert after.message.text or not before.message.text, (
        f"messages[{before.seq}] is shown without its text"
    )


def _name_problem(problem: Flaw) -> tuple[str, int]:
    """A problem by its kind and the message that it is about."""
    return problem.kind, problem.seqs[-1] if problem.seqs else -1


def _make_comparable(view: TrimContext) -> dict[str, Any]:
    shown = list(view.elements)
    return {
        "shown": [each.seq for each in shown],
        "messages": compare_messages([each.message for each in shown]),
        "dropped": [each.seq for each in view.dropped],
    }


def check_trimming_step(
    step: AsyncStep,
    *,
    without: Collection[str] = (),
    also: Collection[str] = (),
    fresh: Callable[[], AsyncStep] | None = None,
    views: SearchStrategy[TrimContext] | None = None,
    settings: Settings | None = None,
) -> None:
    """
    Hold a step of `trim` to the laws of `TrimmingStepContract`: views stay valid, calls
    and results stay together, the newest and the system's messages are shown, what was
    dropped stays dropped.

    Calls *step* about four thousand times: with each named shape of `testing.SHAPES`,
    and with drawn views.

    A model that *step* asks should be replaced by a function. One that removes what
    failed is checked ``without=["keeps the newest"]``, and further laws on request:
    ``also=["fits the budget", "is idempotent"]``. The options are the attributes of
    the class, and Hypothesis' settings.

    Raises:
        BrokenLawsError: If it breaks a law, with the smallest view that shows it as
            code.

    >>> from conversation_state.trimming import fit
    >>> check_trimming_step(fit(), also=["fits the budget", "is idempotent"])
    """
    __tracebackhide__ = True
    options = {"without": without, "also": also, "views": views, "fresh": fresh}
    check_contract(TrimmingStepContract, step, settings, **options)


Summariser: TypeAlias = Callable[
    [tuple[Message, ...]], Awaitable[str | Message] | str | Message
]


class SummariserContract(Contract):
    """
    The laws of a summariser: a function from messages to a text or a message that
    stands for them. It may be async.

    Attributes:
        summarise: The function, as a static method or a method.
        conversations: What it summarises, as a strategy: tuples of one message or
            more, whose calls have results.
        max_tokens: How many tokens a summary may have; None if there is no limit.
        counter: What counts them.
        fresh: Makes a summariser that has seen nothing yet, for one that remembers;
            None for one that remembers nothing.
    """

    kind, subject = "summarisers", "summarise"
    expected = "a function from messages to a text"
    summarise: Summariser
    conversations: SearchStrategy[tuple[Message, ...]] = ENDED_CONVERSATIONS
    max_tokens: int | None = None
    counter: TokenCounter = staticmethod(by_characters)

    def _make_message(self, messages: tuple[Message, ...]) -> Message:
        found: str | Message = call(self.summarise, messages)
        return UserMessage(found) if isinstance(found, str) else found

    def _observe_result(self, messages: tuple[Message, ...]) -> list[Message]:
        return compare_messages([self._make_message(messages)])

    @law(messages="conversations")
    def test_takes_every_conversation(self, messages: tuple[Message, ...]) -> None:
        """Of all messages comes a text or a message."""
        found: Any = call(self.summarise, messages)

        assert isinstance(found, (str, Message)), (
            f"expected a text or a message, got {show_value(found)}"
        )
        message = UserMessage(found) if isinstance(found, str) else found
        self._note_first(messages, compare_messages([message]))

    @law(messages="conversations")
    def test_stands_for_messages(self, messages: tuple[Message, ...]) -> None:
        """
        A view takes the summary in the place of the messages: it is not blank, makes
        no calls, and is not a result of a tool.
        """
        # Checked by the step that uses summaries, so that its rules exist only once. If
        # it refuses a summary, the view is unchanged and has a failure.
        step = compact(range(len(messages)), partial(call, self.summarise))
        view = trim(messages, None, step)

        assert not view.failures, f"{view.failures[0].error}"

    @law(messages="conversations")
    def test_summarises_summaries(self, messages: tuple[Message, ...]) -> None:
        """
        A summary is summarised with the messages that follow it, as turn after turn
        does.
        """
        first = self._make_message(messages)
        again: Any = call(self.summarise, (first, *messages))

        assert isinstance(again, (str, Message)), (
            f"of a summary comes {show_value(again)}"
        )

    @law(messages="conversations", others="conversations")
    def test_adds_no_problems(
        self, messages: tuple[Message, ...], others: tuple[Message, ...]
    ) -> None:
        """
        A conversation that a provider accepts stays one with the summary in the place
        of its start: no call and no result is left alone.
        """
        whole = [*messages, UserMessage("And then?"), *others]
        ids = [each for message in whole for each in list_call_ids(message)]
        # One id for two calls is no problem of a summary.
        if len(ids) == 2 * len({*ids}) and not find_problems(whole):
            shown = [self._make_message(messages), *whole[len(messages) :]]
            problems = find_problems(shown)
            assert not problems, f"{problems[0]}"
            assert_keeps_pairs(whole, shown)

    @law(messages="conversations")
    def test_is_deterministic(self, messages: tuple[Message, ...]) -> None:
        """
        The same messages have the same summary each time, also after other messages.
        """
        self._assert_repeatable(self._observe_result, messages)

    @law(messages="conversations")
    def test_same_on_copies(self, messages: tuple[Message, ...]) -> None:
        """
        Equal messages have the same summary: those that were encoded and decoded, and
        those that were pickled.
        """
        assert_same_on_copies(self._observe_result, messages, decode=decoded_each)

    @law(needs="fresh", messages="conversations")
    def test_same_as_a_fresh_one(self, messages: tuple[Message, ...]) -> None:
        """
        What it remembers changes nothing: one that has seen no other messages gives
        the same.
        """
        self._assert_fresh(type(self)._observe_result, messages)

    @law(needs="max_tokens", messages="conversations")
    def test_is_within_its_limit(self, messages: tuple[Message, ...]) -> None:
        """A summary of any length of conversation has at most *max_tokens*."""
        if self.max_tokens is not None:
            for number in (1, 50):
                tokens = self.counter(self._make_message(messages * number))
                assert tokens <= self.max_tokens, (
                    f"{tokens} tokens, expected at most {self.max_tokens}"
                )

    @law(messages="conversations", others="conversations")
    def test_gives_responses_ids(
        self, messages: tuple[Message, ...], others: tuple[Message, ...]
    ) -> None:
        """
        Two summaries with a usage have two response ids, or none: under one id, only
        the first one's usage is recorded.
        """
        if messages != others:
            first = _read_response_id(call(self.summarise, messages))
            second = _read_response_id(call(self.summarise, others))
            assert not first or first != second, f"both have the id {first!r}"


def _read_response_id(summary: str | Message) -> str:
    """The id of the response if it has a usage, else ""."""
    response = summary.response if isinstance(summary, AssistantMessage) else None
    # Without a usage nothing is recorded, and two responses may have one id.
    if response is None or response.usage in {None, Usage()}:
        return ""

    return response.id


def check_summariser(
    summarise: Summariser,
    *,
    without: Collection[str] = (),
    max_tokens: int | None = None,
    counter: TokenCounter = by_characters,
    fresh: Callable[[], Summariser] | None = None,
    conversations: SearchStrategy[tuple[Message, ...]] | None = None,
    settings: Settings | None = None,
) -> None:
    """
    Hold a function that summarises messages to the laws of `SummariserContract`:
    views take what it returns, and its usage can be recorded.

    Calls *summarise* about two thousand times, so give it a function in the place of
    its model.

    One that asks a model is checked ``without=["is deterministic", "same on copies"]``.
    The options are the attributes of the class, and Hypothesis' settings.

    Raises:
        BrokenLawsError: If it breaks a law, with the smallest conversation that shows
            it as code.

    >>> check_summariser(lambda messages: f"{len(messages)} messages", max_tokens=5)
    """
    __tracebackhide__ = True
    check_contract(
        SummariserContract,
        summarise,
        settings,
        without=without,
        max_tokens=max_tokens,
        counter=counter,
        fresh=fresh,
        conversations=conversations,
    )
