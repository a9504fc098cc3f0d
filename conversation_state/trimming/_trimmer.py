"""Running a view through steps: once, or with the same ones every turn."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from inspect import isawaitable
from types import FunctionType
from typing import Any, ClassVar

import attrs

from conversation_state._persistent import final
from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator
from conversation_state.counting import TokenBudget, TokenCounter, by_characters
from conversation_state.messages import AssistantMessage, Message
from conversation_state.requests import EVERYWHERE, Rules
from conversation_state.trimming._fit import Fit, fit, fit_from_end
from conversation_state.trimming._repair import Repair, repair
from conversation_state.trimming._summaries import close_coroutine
from conversation_state.trimming._view import AsyncStep, Step, TrimContext

_set = object.__setattr__
_HERE = f"{__package__}."
# Without `repair`, a call without a result would drop all that is before it.
_DEFAULT_STEPS: tuple[Step, ...] = (repair(), fit())


def _check_steps(steps: tuple[Any, ...]) -> tuple[Any, ...]:
    for step in steps:
        if not callable(step):
            raise TypeError(
                f"steps: expected functions from view to view, got {shorten_repr(step)}"
            )

        module = getattr(step, "__module__", None) or ""
        if isinstance(step, FunctionType) and module.startswith(_HERE):
            name = step.__name__
            raise TypeError(f"steps: {name} makes a step; call it, as in {name}()")

    return steps


def _wrong_result(step: object, result: Any) -> TypeError:
    if isawaitable(result):
        close_coroutine(result)
        return TypeError(
            f"the step {_name_step(step)} has to be awaited; use atrim, or "
            "Trimmer.acall, which take both kinds of steps"
        )

    return TypeError(
        f"the step {_name_step(step)}: expected a TrimContext in return, got "
        f"{shorten_repr(result)}"
    )


def _name_step(step: object) -> str:
    """
    The repr of *step*; of a function that has a long one, its name, because what is
    cut off would be the end of its qualified name, which distinguishes it from others.
    """
    shown = shorten_repr(step)
    name = getattr(step, "__qualname__", None)
    if not isinstance(name, str) or name in shown:
        return shown

    return name


def _run_first(
    context: TrimContext, steps: tuple[Any, ...]
) -> tuple[TrimContext, tuple[Any, ...]]:
    """
    *context* after the first two of *steps* if these are ``repair(), fit()``, which can
    be found from the end of a conversation together; and the steps that are left.
    """
    first, second = (*steps[:2], None, None)[:2]
    if (
        isinstance(first, Repair)
        and not first.at_end
        and isinstance(second, Fit)
        and context._selection.is_whole
    ):
        found = fit_from_end(context, second, repairs=True)
        return found or second.fit_shown(first(context)), steps[2:]

    return context, steps


def _attach_summaries(error: Any, context: TrimContext) -> None:
    """Put the summaries of *context* on *error*, if that can be changed."""
    with suppress(Exception):
        if context.summaries:
            error.summaries = context.summaries

        if context.summary_responses:
            error.summary_responses = context.summary_responses


def trim(
    conversation: Aggregator | Iterable[Message],
    budget: TokenBudget | None,
    *steps: Step,
    counter: TokenCounter = by_characters,
    rules: Rules = EVERYWHERE,
    previous: TrimContext | Iterable[Message] | None = None,
) -> TrimContext:
    """
    A view of *conversation* after *steps*, which run one after the other.

    A step is any function that takes a `TrimContext` and returns one. Without
    steps, the view is repaired and fitted into the budget: a call without a
    result, because a user stopped it for example, hides no other messages. That
    counts, the first time, only what the view keeps.

    Args:
        conversation: A state, or messages.
        budget: What the view should fit into; None for no limit.
        *steps: Functions from one view to the next; ``repair(), fit()`` if
            no step is given.
        counter: What counts the tokens of the messages.
        rules: What requests are asked for. The default is right for all providers;
            ``adapters.gemini.RULES`` for one.
        previous: The view of the turn before, or its summaries, for steps that
            continue from there (`rolling_summary`).

    Raises:
        BudgetExceededError, InvalidTranscriptError: As `fit` says.
        TypeError: If a step returns something else than a view, or has to be awaited
            (`atrim`).

    Whatever a step raises has the attributes ``summaries`` and
    ``summary_responses`` of the view before it, if there are any: a summary
    that has cost tokens is not lost where a later step fails.

    >>> state = Aggregator.new().add_user_prompt("Hello there, my friend!")
    >>> state = state.add_assistant_message("Hi.").add_user_prompt("Bye.")
    >>> view = trim(state, TokenBudget(context_window=3), fit())
    >>> [message.text for message in view.messages], view.total_tokens
    (['Bye.'], 1)
    >>> view.dropped
    (Dropped(seq=0, reason='over budget'), Dropped(seq=1, reason='over budget'))
    """
    context = TrimContext.of(
        conversation, budget, counter=counter, rules=rules, previous=previous
    )
    context, left = _run_first(context, _check_steps(steps) or _DEFAULT_STEPS)
    for step in left:
        try:
            result = step(context)
            if not isinstance(result, TrimContext):
                raise _wrong_result(step, result)  # noqa: TRY301 - has the summaries, too

            context = result
        except BaseException as error:
            _attach_summaries(error, context)
            raise

    return context


async def atrim(
    conversation: Aggregator | Iterable[Message],
    budget: TokenBudget | None,
    *steps: AsyncStep,
    counter: TokenCounter = by_characters,
    rules: Rules = EVERYWHERE,
    previous: TrimContext | Iterable[Message] | None = None,
) -> TrimContext:
    """The same, where steps may have to be awaited; some, all or none."""
    context = TrimContext.of(
        conversation, budget, counter=counter, rules=rules, previous=previous
    )
    context, left = _run_first(context, _check_steps(steps) or _DEFAULT_STEPS)
    for step in left:
        try:
            result: Any = step(context)
            if isawaitable(result):
                result = await result

            if not isinstance(result, TrimContext):
                raise _wrong_result(step, result)  # noqa: TRY301 - has the summaries, too

            context = result
        except BaseException as error:
            _attach_summaries(error, context)
            raise

    return context


def record_summaries(
    state: Aggregator, view: TrimContext | BaseException
) -> Aggregator:
    """
    *state* with the usage of the summaries made for *view* in its ledger, each once.

    Under keys of their responses, as `Aggregator.add_response` records answers, so
    doing it again changes nothing.

    Args:
        state: The state of the turn that made the view.
        view: The view, or what was raised where a later step failed: it has the
            ``summary_responses``, too.

    Raises:
        TypeError: If *view* has none.
        InvalidUsageError: If the total gets over 2**63 - 1.
    """
    responses = getattr(view, "summary_responses", None)
    if responses is None and not isinstance(view, BaseException):
        raise TypeError(
            "record_summaries takes a view or the error of one, got "
            f"{shorten_repr(view)}"
        )

    if not responses:
        return state

    grown = state
    for response in responses:
        # As answers are, so that no other answer of the same id can have its usage.
        grown = grown.add_response(AssistantMessage(response=response))

    return grown.rollback(state)


@final
@attrs.frozen(init=False)
class Trimmer:
    """
    A budget and steps, for the views of every turn.

    A value: two of the same are equal, and one of picklable steps pickles.

    Attributes:
        budget: What the views should fit into; None for no limit.
        steps: Functions from one view to the next; ``repair(), fit()`` if none
            are given.
        counter: What counts the tokens of the messages.
        rules: What requests are asked for; see `trim`.

    Raises:
        TypeError: If *budget* isn't a `TokenBudget`, *rules* aren't `Rules`, or a step
            isn't a function.

    >>> trimmer = Trimmer(TokenBudget(context_window=3))
    >>> state = Aggregator.new().add_user_prompt("Hello there, my friend!")
    >>> [message.text for message in trimmer(state.add_user_prompt("Bye."))]
    ['Bye.']
    """

    _changed_copy: ClassVar[str] = "Trimmer(budget, *steps) makes another one"

    budget: TokenBudget | None
    steps: tuple[AsyncStep, ...]
    counter: TokenCounter
    rules: Rules

    def __init__(
        self,
        budget: TokenBudget | None,
        *steps: AsyncStep,
        counter: TokenCounter = by_characters,
        rules: Rules = EVERYWHERE,
    ) -> None:
        TrimContext.of((), budget, rules=rules)  # checks both
        _set(self, "budget", budget)
        _set(self, "steps", _check_steps(steps) or _DEFAULT_STEPS)
        _set(self, "counter", counter)
        _set(self, "rules", rules)

    def __call__(
        self,
        conversation: Aggregator | Iterable[Message],
        *,
        previous: TrimContext | Iterable[Message] | None = None,
    ) -> TrimContext:
        """The view of *conversation*; see `trim`."""
        steps: Any = self.steps
        return trim(
            conversation,
            self.budget,
            *steps,
            counter=self.counter,
            rules=self.rules,
            previous=previous,
        )

    async def acall(
        self,
        conversation: Aggregator | Iterable[Message],
        *,
        previous: TrimContext | Iterable[Message] | None = None,
    ) -> TrimContext:
        """The same, where steps may have to be awaited; see `atrim`."""
        return await atrim(
            conversation,
            self.budget,
            *self.steps,
            counter=self.counter,
            rules=self.rules,
            previous=previous,
        )
