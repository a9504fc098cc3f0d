"""The metadata of a response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from conversation_state._persistent import (
    EMPTY_MAP,
    check_iterable,
    check_text,
    check_unknown,
    final,
)
from conversation_state._wording import shorten_repr
from conversation_state.errors import InvalidMessageError
from conversation_state.messages._base import freeze_unknown
from conversation_state.usage import Usage

if TYPE_CHECKING:
    from conversation_state.messages._logprobs import LogProb


_set = object.__setattr__


@final
@attrs.frozen
class ResponseMeta:
    """
    The metadata of a response, as the provider reported them.

    Attributes:
        finish_reason: Why it ended, as the provider calls it, or
            ``interrupted`` if it was cut off; "" if not given.
        usage: The tokens it used, or None.
        logprobs: The log probabilities of its tokens, or None.
        model: The model that answered; "" if not given.
        id: The provider's id of the response, under which its usage is
            recorded in a ledger, or "".
        unknown: Further fields, which a newer version wrote; kept, and written
            back. None has the name of a known field.
    """

    finish_reason: str = ""
    usage: Usage | None = None
    logprobs: tuple[LogProb, ...] | None = None
    model: str = ""
    id: str = ""
    unknown: Mapping[str, Any] = attrs.field(default=EMPTY_MAP, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for field in ("finish_reason", "model", "id"):
            text = getattr(self, field)
            # As with content: an ASCII text is valid, and is seen as such at once.
            if text.__class__ is not str or not text.isascii():
                what = f"ResponseMeta.{field}"
                _set(self, field, check_text(text, what, InvalidMessageError))

        if self.usage is not None and not isinstance(self.usage, Usage):
            problem = f"is {shorten_repr(self.usage)}; expected a Usage or None"
            raise InvalidMessageError(problem, "ResponseMeta", "usage")

        if self.logprobs is not None:
            # Imported late: few programs request them.
            from conversation_state.messages._logprobs import (  # noqa: PLC0415
                LogProb,
            )

            check_iterable(self.logprobs, "ResponseMeta.logprobs", "LogProbs")
            logprobs = tuple(self.logprobs)
            for at, one in enumerate(logprobs):
                if not isinstance(one, LogProb):
                    raise InvalidMessageError(
                        f"ResponseMeta.logprobs[{at}] is {shorten_repr(one)}; expected "
                        "a LogProb"
                    )

            _set(self, "logprobs", logprobs)

        # Compared by identity: the field's default, which nearly all responses have.
        if self.unknown is not EMPTY_MAP:
            _set(self, "unknown", freeze_unknown("ResponseMeta", self.unknown))
            own = ("finish_reason", "usage", "logprobs", "model", "id")
            check_unknown("ResponseMeta", own, self.unknown, InvalidMessageError)
