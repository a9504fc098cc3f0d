"""Budgets: the tokens of a model's window that are left for messages."""

from __future__ import annotations

from typing import Any

import attrs

from conversation_state._persistent import final
from conversation_state._wording import shorten_repr
from conversation_state.counting._prices import window_of


def check_tokens(name: str, value: Any) -> int:
    # By its class: True is an int, too.
    if value.__class__ is not int or value < 0:
        raise ValueError(
            f"{name} is {shorten_repr(value)}; expected a number of tokens, 0 or more"
        )

    return value


@final
@attrs.frozen(kw_only=True, init=False)
class TokenBudget:
    """
    The tokens of a model's window that are left for messages.

    Takes the window, or a *model* whose window is looked up.

    Args:
        model: The model's name, with or without a provider: ``gpt-4o``,
            ``openai:gpt-4o``. Looked up only without *context_window*; needs the
            extra ``prices``, and no network.

    Attributes:
        context_window: The window: the tokens of input and output together.
        max_output_tokens: The tokens reserved for the response. 0 by default:
            the registry has windows only.
        overhead: The tokens sent with the messages, such as tool schemas (see
            `count_tools`).

    Raises:
        ValueError: If there is neither a window nor a model, if the model's window is
            not known, if a number is negative or no integer, or if *max_output_tokens*
            and *overhead* leave nothing of the window.
        UnknownModelError: If the model is unknown; has similar names.
        MissingExtraError: If a model is looked up and the extra is not installed.

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
        check_tokens("max_output_tokens", output)
        check_tokens("overhead", overhead)
        if context_window is None:
            if model is None:
                raise ValueError(
                    "a budget needs context_window, the model's window in tokens, or "
                    "model, its name"
                )

            context_window = window_of(model)

        check_tokens("context_window", context_window)
        reserved = output + overhead
        # A window of 0 by itself is a budget that nothing fits into: `fit` reports it.
        if reserved and reserved >= context_window:
            raise ValueError(
                f"max_output_tokens={output:,} and overhead={overhead:,} leave nothing "
                f"for messages of context_window={context_window:,}; reduce them, or "
                "use a larger window"
            )

        # A frozen class of attrs refuses assignments in a constructor of its own, too.
        object.__setattr__(self, "context_window", context_window)
        object.__setattr__(self, "max_output_tokens", output)
        object.__setattr__(self, "overhead", overhead)

    @property
    def effective_input_limit(self) -> int:
        """The tokens that are left for messages."""
        return self.context_window - self.max_output_tokens - self.overhead

    def available(self, used: int = 0) -> int:
        """The same without *used* tokens; at least 0."""
        return max(self.effective_input_limit - check_tokens("used", used), 0)
