"""
What a provider told about a response.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import isfinite, nan
from typing import Any

import attrs

from conversation_state._persistent import (
    EMPTY_MAP,
    check_text,
    check_unknown,
    final,
)
from conversation_state.errors import InvalidMessageError
from conversation_state.messages._base import freeze_unknown
from conversation_state.usage import Usage

__all__ = ["LogProb", "ResponseMeta"]

_set = object.__setattr__


def _as_tuple(items: Iterable[LogProb]) -> tuple[LogProb, ...]:
    return tuple(items)


def _check_finite(given: object) -> float:
    number = nan
    # Whatever a subclass of them says of itself.
    if isinstance(given, float):
        number = float.__float__(given)
    elif isinstance(given, int) and not isinstance(given, bool):
        with suppress(OverflowError):
            number = int.__float__(given)

    if isfinite(number):
        return number

    problem = f"is {given!r}; expected a finite number"
    raise InvalidMessageError(problem, "LogProb", "logprob")


@final
@attrs.frozen
class LogProb:
    """
    How likely a token was.

    Attributes:
        token: The token's text.

        logprob: The natural logarithm of its probability.

        bytes: The token's bytes, where it is no whole character.

        top: The likeliest tokens at this place, themselves without *top*.

    Source:
        OpenAI's; -9999.0 means "very unlikely" there.
    """

    token: str
    logprob: float
    bytes: builtins.bytes | None = None
    top: tuple[LogProb, ...] = attrs.field(default=(), converter=_as_tuple)

    def __attrs_post_init__(self) -> None:
        token = check_text(self.token, "LogProb.token", InvalidMessageError)
        _set(self, "token", token)
        if self.logprob.__class__ is not float or not isfinite(self.logprob):
            _set(self, "logprob", _check_finite(self.logprob))

        if self.bytes is not None and type(self.bytes) is not builtins.bytes:
            problem = f"is {self.bytes!r}; expected bytes or None"
            raise InvalidMessageError(problem, "LogProb", "bytes")

        for at, other in enumerate(self.top):
            if not isinstance(other, LogProb) or other.top:
                msg = f"LogProb.top[{at}] is {other!r}; expected a LogProb without top"
                raise InvalidMessageError(msg)


@final
@attrs.frozen
class ResponseMeta:
    """
    What a provider told about a response.

    Attributes:
        finish_reason: Why it ended, in the provider's own word;
            ``interrupted`` (ours) if it was cut off. "" if nobody said.

        usage: What it cost, or None.

        logprobs: How likely its tokens were, or None.

        model: Which model answered.

        id: The provider's id of the response, under which its usage is
            recorded in a ledger; "" if there is none.

        unknown: Fields that a newer version wrote beside the known ones; kept,
            and written back. None has the name of a known one.
    """

    finish_reason: str = ""
    usage: Usage | None = None
    logprobs: tuple[LogProb, ...] | None = None
    model: str = ""
    id: str = ""
    unknown: Mapping[str, Any] = attrs.field(default=EMPTY_MAP, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for field in ("finish_reason", "model", "id"):
            what = f"ResponseMeta.{field}"
            text = check_text(getattr(self, field), what, InvalidMessageError)
            _set(self, field, text)

        if self.usage is not None and not isinstance(self.usage, Usage):
            problem = f"is {self.usage!r}; expected a Usage or None"
            raise InvalidMessageError(problem, "ResponseMeta", "usage")

        if self.logprobs is not None:
            logprobs = tuple(self.logprobs)
            for at, one in enumerate(logprobs):
                if not isinstance(one, LogProb):
                    msg = f"ResponseMeta.logprobs[{at}] is {one!r}; expected a LogProb"
                    raise InvalidMessageError(msg)

            _set(self, "logprobs", logprobs)

        if self.unknown is not EMPTY_MAP:
            _set(self, "unknown", freeze_unknown("ResponseMeta", self.unknown))
            own = ("finish_reason", "usage", "logprobs", "model", "id")
            check_unknown("ResponseMeta", own, self.unknown, InvalidMessageError)
