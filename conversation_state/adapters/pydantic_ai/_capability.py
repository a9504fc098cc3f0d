"""
A capability that trims requests, and leaves the history as it is.

Here and in `_backend` the SDK's classes are bases: these two modules need the
SDK when they are imported, and are imported on first use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability

from conversation_state._waiting import require_anyio
from conversation_state.adapters._host import RollingTrimmer
from conversation_state.adapters.pydantic_ai._processor import (
    Trims,
    history_processor,
    make_rolling,
)
from conversation_state.trimming import TrimContext

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.tools import RunContext

__all__ = ["TrimmedRequests"]


@dataclass
class TrimmedRequests(AbstractCapability[Any]):
    """
    A capability that sends the model a trimmer's view of the history.

    Give it to an agent as ``capabilities=[TrimmedRequests(trimmer)]``. Unlike
    with a history processor, the run's own history stays whole:
    ``all_messages()`` has everything, and the next request is trimmed from all
    of it. Otherwise it works as `history_processor` does.

    Attributes:
        trimmer: A `Trimmer`, or any function from messages to a view.

    Source:
        Pydantic AI calls ``prepare_model_request`` where requests are fitted
        into a model's window, and does not persist its changes.
    """

    trimmer: Trims

    def __post_init__(self) -> None:
        self._trims = make_rolling(self.trimmer)
        self._process = history_processor(self._trims)

    @property
    def last_view(self) -> TrimContext | None:
        """
        The last view that was sent, of any run, with what it `dropped`, the
        `failures` of its steps, and the `summary_responses` that are in no
        ledger yet; None before the first, or for a function.
        """
        return self._trims.last if isinstance(self._trims, RollingTrimmer) else None

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """
        The request with the messages of the view.
        """
        del ctx
        messages = list(request_context.messages)
        anyio = require_anyio("a trimmer in async code")
        # The trimmer runs in a thread, because counting tokens would block the event
        # loop.
        kept = await anyio.to_thread.run_sync(self._process, messages)
        request_context.messages = kept
        return request_context

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """
        None: a specification file can't contain a trimmer.
        """
        return None
