"""
A capability that trims what is sent, and leaves the history alone.

Only here, and in `_backend`, are classes of the SDK bases: these modules need
it when they are imported, and are imported when they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability

from conversation_state._waiting import the_anyio
from conversation_state.adapters.pydantic_ai._processor import Trims, history_processor

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.tools import RunContext

__all__ = ["TrimmedRequests"]


@dataclass
class TrimmedRequests(AbstractCapability[Any]):
    """
    A capability that shows the model what a trimmer keeps of the history.

    Give it to an agent as ``capabilities=[TrimmedRequests(trimmer)]``. Unlike
    with a history processor, the run's own history stays whole:
    ``all_messages()`` has everything, and what is said next is trimmed from
    all of it. Otherwise it does what `history_processor` says.

    Attributes:
        trimmer: A `Trimmer`, or any function from messages to a view.

    Source:
        Pydantic AI calls ``prepare_model_request`` where requests are fitted
        into a model's window, and does not persist what that changes.
    """

    trimmer: Trims

    def __post_init__(self) -> None:
        self._process = history_processor(self.trimmer)

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """
        The request with the messages that are kept.
        """
        del ctx
        messages = list(request_context.messages)
        anyio = the_anyio("a trimmer in async code")
        kept = await anyio.to_thread.run_sync(self._process, messages)
        request_context.messages = kept
        return request_context

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """
        None: a trimmer can't be told in a file of specifications.
        """
        return None
