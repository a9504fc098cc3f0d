"""
Running a view through steps: once, or with the same ones every turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from inspect import isawaitable
from typing import Any

import attrs

from conversation_state.aggregator import Aggregator
from conversation_state.counting import TokenBudget, TokenCounter, by_characters
from conversation_state.messages import Message
from conversation_state.trimming._compact import acompact, compact, drop
from conversation_state.trimming._fit import fit
from conversation_state.trimming._keep import keep_first_and_last, keep_last
from conversation_state.trimming._repair import repair
from conversation_state.trimming._rolling import arolling_summary, rolling_summary
from conversation_state.trimming._tool_results import (
    clear_tool_results,
    shorten_tool_results,
)
from conversation_state.trimming._view import AsyncStep, Step, TrimContext

__all__ = ["Trimmer", "atrim", "trim"]


_set = object.__setattr__
# Easily given without their parentheses.
_MAKERS: tuple[object, ...] = (
    acompact,
    arolling_summary,
    clear_tool_results,
    compact,
    fit,
    keep_first_and_last,
    keep_last,
    repair,
    rolling_summary,
    shorten_tool_results,
)


def _checked(steps: tuple[Any, ...]) -> tuple[Any, ...]:
    for step in steps:
        if not callable(step):
            msg = f"a step is a function from one view to the next; got {step!r:.80}"
            raise TypeError(msg)

        if step in _MAKERS:
            name = step.__name__
            msg = f"{name} makes a step and is none; {name}(...) is one"
            raise TypeError(msg)

    return steps or (fit(),)


def _given(step: object, given: Any) -> TrimContext:
    if isinstance(given, TrimContext):
        return given

    if isawaitable(given):
        drop(given)

        msg = (
            f"the step {step!r} has to be awaited; use atrim, or Trimmer.acall, "
            "which take both kinds of steps"
        )
        raise TypeError(msg)

    msg = (
        f"the step {step!r} gave {given!r:.80}; a step takes a TrimContext "
        "and gives the next one"
    )
    raise TypeError(msg)


def trim(
    said: Aggregator | Iterable[Message],
    budget: TokenBudget | None,
    *steps: Step,
    counter: TokenCounter = by_characters,
    previous: TrimContext | Iterable[Message] | None = None,
) -> TrimContext:
    """
    A view of what was said that went through *steps*, one after the other.

    A step is any function that takes a `TrimContext` and gives one.

    Args:
        said: A state, or messages.

        budget: What the view should fit into; None for no limit.

        *steps: Functions from one view to the next; `fit` alone if there are
            none.

        counter: What weighs the messages.

        previous: The view of the turn before, or its summaries, for steps that
            go on from there (`rolling_summary`).

    Raises:
        BudgetExceededError, InvalidTranscriptError:
            As `fit` says.

        TypeError:
            If a step gives something else than a view, or has to be awaited
            (`atrim`).

    >>> talk = Aggregator.new().add_user_prompt("Hello there, my friend!")
    >>> talk = talk.add_assistant_message("Hi.").add_user_prompt("Bye.")
    >>> view = trim(talk, TokenBudget(context_window=3), fit())
    >>> [message.text for message in view.messages], view.total_tokens
    (['Hi.', 'Bye.'], 2)
    >>> view.dropped
    (Dropped(seq=0, reason='over budget'),)
    """
    context = TrimContext.of(said, budget, counter=counter, previous=previous)
    for step in _checked(steps):
        context = _given(step, step(context))

    return context


async def atrim(
    said: Aggregator | Iterable[Message],
    budget: TokenBudget | None,
    *steps: AsyncStep,
    counter: TokenCounter = by_characters,
    previous: TrimContext | Iterable[Message] | None = None,
) -> TrimContext:
    """
    The same, where steps may have to be awaited; some, all or none.
    """
    context = TrimContext.of(said, budget, counter=counter, previous=previous)
    for step in _checked(steps):
        given: Any = step(context)
        if isawaitable(given):
            given = await given

        context = _given(step, given)

    return context


@attrs.frozen(init=False)
class Trimmer:
    """
    A budget and steps, for the views of every turn.

    A value: two of the same are equal, and one of picklable steps pickles.

    Attributes:
        budget: What the views should fit into; None for no limit.

        steps: Functions from one view to the next; `fit` alone if none are
            given.

        counter: What weighs the messages.

    Raises:
        TypeError:
            If *budget* is no `TokenBudget`, or a step no function.

    >>> trimmer = Trimmer(TokenBudget(context_window=3), fit(start_on_user=True))
    >>> talk = Aggregator.new().add_user_prompt("Hello there, my friend!")
    >>> [message.text for message in trimmer(talk.add_user_prompt("Bye."))]
    ['Bye.']
    """

    budget: TokenBudget | None
    steps: tuple[AsyncStep, ...]
    counter: TokenCounter

    def __init__(
        self,
        budget: TokenBudget | None,
        *steps: AsyncStep,
        counter: TokenCounter = by_characters,
    ) -> None:
        TrimContext.of((), budget)  # says what is wrong with the budget
        _set(self, "budget", budget)
        _set(self, "steps", _checked(steps))
        _set(self, "counter", counter)

    def __call__(
        self,
        said: Aggregator | Iterable[Message],
        *,
        previous: TrimContext | Iterable[Message] | None = None,
    ) -> TrimContext:
        """
        The view of *said*; see `trim`.
        """
        steps: Any = self.steps
        return trim(said, self.budget, *steps, counter=self.counter, previous=previous)

    async def acall(
        self,
        said: Aggregator | Iterable[Message],
        *,
        previous: TrimContext | Iterable[Message] | None = None,
    ) -> TrimContext:
        """
        The same, where steps may have to be awaited; see `atrim`.
        """
        return await atrim(
            said, self.budget, *self.steps, counter=self.counter, previous=previous
        )
