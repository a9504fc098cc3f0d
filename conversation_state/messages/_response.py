"""
What a provider told about a response.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable
from typing import Any

import attrs

from conversation_state._persistent import (
    EMPTY_MAP,
    PMap,
    check_text,
    check_unknown,
    given_map,
)
from conversation_state.errors import InvalidMessageError
from conversation_state.messages._base import frozen_map
from conversation_state.usage import Usage

__all__ = ["LogProb", "ResponseMeta"]

_set = object.__setattr__


def _tuple(items: Iterable[LogProb]) -> tuple[LogProb, ...]:
    return tuple(items)


# NaN is not between the largest float and its negative, and neither is infinity.
_LARGEST = sys.float_info.max


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
    top: tuple[LogProb, ...] = attrs.field(default=(), converter=_tuple)

    def __attrs_post_init__(self) -> None:
        token = check_text(self.token, "LogProb.token", InvalidMessageError)
        _set(self, "token", token)
        given: object = self.logprob
        number = isinstance(given, (int, float)) and not isinstance(given, bool)
        if not number or not -_LARGEST <= self.logprob <= _LARGEST:
            msg = f"LogProb.logprob is {given!r}; expected a finite number"
            raise InvalidMessageError(msg)

        _set(self, "logprob", float(self.logprob))

        if self.bytes is not None and type(self.bytes) is not builtins.bytes:
            msg = f"LogProb.bytes is {self.bytes!r}; expected bytes or None"
            raise InvalidMessageError(msg)

        for at, other in enumerate(self.top):
            if not isinstance(other, LogProb) or other.top:
                msg = f"LogProb.top[{at}] is {other!r}; expected a LogProb without top"
                raise InvalidMessageError(msg)


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

        unknown: Fields that a newer version wrote beside the known ones; kept,
            and written back. None has the name of a known one.
    """

    finish_reason: str = ""
    usage: Usage | None = None
    logprobs: tuple[LogProb, ...] | None = None
    model: str = ""
    unknown: PMap[str, Any] = attrs.field(
        default=EMPTY_MAP, kw_only=True, converter=given_map
    )

    def __attrs_post_init__(self) -> None:
        for field in ("finish_reason", "model"):
            what = f"ResponseMeta.{field}"
            text = check_text(getattr(self, field), what, InvalidMessageError)
            _set(self, field, text)

        if self.usage is not None and not isinstance(self.usage, Usage):
            msg = f"ResponseMeta.usage is {self.usage!r}; expected a Usage or None"
            raise InvalidMessageError(msg)

        if self.logprobs is not None:
            logprobs = tuple(self.logprobs)
            for at, one in enumerate(logprobs):
                if not isinstance(one, LogProb):
                    msg = f"ResponseMeta.logprobs[{at}] is {one!r}; expected a LogProb"
                    raise InvalidMessageError(msg)

            _set(self, "logprobs", logprobs)

        if self.unknown is not EMPTY_MAP:
            _set(self, "unknown", frozen_map("ResponseMeta", "unknown", self.unknown))
            own = ("finish_reason", "usage", "logprobs", "model")
            check_unknown("ResponseMeta", own, self.unknown, InvalidMessageError)
