"""
Budgets: what is left of a model's window.
"""

from __future__ import annotations

from typing import Any

import attrs

from conversation_state.counting._registry import window_of

__all__ = ["TokenBudget"]


def _tokens(name: str, given: Any) -> int:
    if given.__class__ is not int or given < 0:
        msg = f"{name} is {given!r}; expected a number of tokens, 0 or more"
        raise ValueError(msg)

    return given


@attrs.frozen(kw_only=True, init=False)
class TokenBudget:
    """
    How many tokens of a model's window are left for history.

    Give the window, or a *model* whose window is looked up.

    Args:
        model: The model's name, a provider before it or not: ``gpt-4o``,
            ``openai:gpt-4o``. Looked up only if *context_window* is left out;
            that needs the extra ``prices``, and no network.

    Attributes:
        context_window: All the model can read and write at once, in tokens.

        max_output_tokens: What is kept free for its answer. 0 if nobody says:
            the registry knows windows only.

        overhead: What is sent beside the messages, tool schemas say (see
            `count_tools`).

    Raises:
        ValueError:
            If there is neither a window nor a model, if the model's window is
            not known, or if a number is negative or no integer.

        UnknownModelError:
            If the model is not known; names those written like it.

        MissingExtraError:
            If a model is looked up and the extra is not installed.

    >>> budget = TokenBudget(context_window=8_000, max_output_tokens=1_000)
    >>> budget.effective_input_limit, budget.available(6_500)
    (7000, 500)
    """

    context_window: int
    max_output_tokens: int
    overhead: int

    def __init__(
        self,
        *,
        context_window: int | None = None,
        model: str | None = None,
        max_output_tokens: int | None = None,
        overhead: int = 0,
    ) -> None:
        output = 0 if max_output_tokens is None else max_output_tokens
        _tokens("max_output_tokens", output)
        _tokens("overhead", overhead)
        if context_window is None:
            if model is None:
                msg = (
                    "a budget needs context_window, the model's window in tokens, or "
                    "model, its name"
                )
                raise ValueError(msg)

            context_window = window_of(model)

        _tokens("context_window", context_window)
        object.__setattr__(self, "context_window", context_window)
        object.__setattr__(self, "max_output_tokens", output)
        object.__setattr__(self, "overhead", overhead)

    @property
    def effective_input_limit(self) -> int:
        """
        What messages may fill, in tokens; 0 if the rest fills the window.
        """
        return max(self.context_window - self.max_output_tokens - self.overhead, 0)

    def available(self, used: int = 0) -> int:
        """
        What is left of that when *used* tokens are spent on something else.
        """
        return max(self.effective_input_limit - _tokens("used", used), 0)
