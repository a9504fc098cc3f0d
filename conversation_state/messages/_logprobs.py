"""The log probabilities of the tokens of a response."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from contextlib import suppress

import attrs

from conversation_state._persistent import check_text, final
from conversation_state._wording import shorten_repr
from conversation_state.errors import InvalidMessageError

_set = object.__setattr__

_INFINITY = float("inf")


def _check_finite(given: object) -> float:
    number = _INFINITY
    # A subclass may override its `__float__`.
    if isinstance(given, float):
        number = float.__float__(given)
    elif isinstance(given, int) and not isinstance(given, bool):
        with suppress(OverflowError):
            number = int.__float__(given)

    if -_INFINITY < number < _INFINITY:  # neither is NaN
        return number

    problem = f"is {shorten_repr(given)}; expected a finite number"
    raise InvalidMessageError(problem, "LogProb", "logprob")


def _make_tuple(given: Iterable[LogProb]) -> tuple[LogProb, ...]:
    # With `tuple` itself, mypy does not always resolve what it is a tuple of.
    try:
        return tuple(given)
    except TypeError:
        problem = f"is {shorten_repr(given)}; expected a list of LogProbs"
        raise InvalidMessageError(problem, "LogProb", "top") from None


@final
@attrs.frozen
class LogProb:
    """
    The log probability of a token.

    Attributes:
        token: The token's text.
        logprob: The natural logarithm of its probability.
        bytes: The token's bytes, if it is not a whole character.
        top: The most likely tokens in this position, each without *top*.

    Source:
        OpenAI, where -9999.0 means "very unlikely".
    """

    token: str
    logprob: float
    bytes: builtins.bytes | None = None
    top: tuple[LogProb, ...] = attrs.field(default=(), converter=_make_tuple)

    def __attrs_post_init__(self) -> None:
        token = check_text(self.token, "LogProb.token", InvalidMessageError)
        _set(self, "token", token)
        if (
            self.logprob.__class__ is not float
            or not -_INFINITY < self.logprob < _INFINITY
        ):
            _set(self, "logprob", _check_finite(self.logprob))

        if self.bytes is not None and type(self.bytes) is not builtins.bytes:
            problem = f"is {shorten_repr(self.bytes)}; expected bytes or None"
            raise InvalidMessageError(problem, "LogProb", "bytes")

        for at, other in enumerate(self.top):
            if not isinstance(other, LogProb) or other.top:
                raise InvalidMessageError(
                    f"LogProb.top[{at}] is {shorten_repr(other)}; expected a LogProb "
                    "without top"
                )
