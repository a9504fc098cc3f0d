"""
The envelope: what the messages of one turn share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

import attrs

from conversation_state._identity import new_uuid_number
from conversation_state._persistent import (
    EMPTY_MAP,
    final,
)
from conversation_state.messages._base import (
    Common,
    CommonFields,
    Message,
    common_of,
)
from conversation_state.messages._kinds import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.messages._response import ResponseMeta
from conversation_state.parts import (
    Part,
)
from conversation_state.tools import ToolCall

__all__ = ["Envelope", "format_exception"]

_set = object.__setattr__

M = TypeVar("M", bound="Message")


def format_exception(error: BaseException) -> str:
    """
    The class of *error* and its message, as a text that any message can hold: half
    surrogate pairs are U+FFFD.
    """
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - a __str__ that raises is no reason to fail here
        text = type(error).__name__

    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@final
@attrs.frozen
class Envelope:
    """
    What the messages of one turn share; makes messages that have it.

    Attributes:
        name: The speaker.

        run_id: The run, a UUID.

        turn_id: The turn, a UUID.

        timestamp: When; aware.

        metadata: JSON values, frozen deeply.

    >>> turn = Envelope.new()
    >>> turn.user("hi").turn_id == turn.assistant("hello").turn_id
    True
    """

    _common: Common

    @classmethod
    def new(
        cls,
        *,
        name: str = "",
        run_id: UUID | None = None,
        turn_id: UUID | None = None,
        timestamp: datetime | None = None,
        metadata: Mapping[str, Any] = EMPTY_MAP,
    ) -> Envelope:
        """
        An envelope; missing ids are new UUIDs of version 7, a missing time is
        now in UTC.

        Raises:
            InvalidMessageError:
                If a value is not what its field holds.
        """
        fields: CommonFields = {
            "name": name,
            "run_id": UUID(int=new_uuid_number()) if run_id is None else run_id,
            "turn_id": UUID(int=new_uuid_number()) if turn_id is None else turn_id,
            "timestamp": datetime.now(UTC) if timestamp is None else timestamp,
            "metadata": metadata,
        }
        return cls(common_of("Envelope", fields))

    @property
    def name(self) -> str:
        """
        The speaker.
        """
        return self._common.name

    @property
    def run_id(self) -> UUID:
        """
        The run.
        """
        return self._common.run_id  # type: ignore[return-value]  # `new` sees to it

    @property
    def turn_id(self) -> UUID:
        """
        The turn.
        """
        return self._common.turn_id  # type: ignore[return-value]  # `new` sees to it

    @property
    def timestamp(self) -> datetime:
        """
        When.
        """
        return self._common.timestamp  # type: ignore[return-value]  # `new` sees to it

    @property
    def metadata(self) -> Mapping[str, Any]:
        """
        JSON values, frozen deeply.
        """
        return self._common.metadata

    def system(self, content: str | Iterable[Part]) -> SystemMessage:
        """
        A `SystemMessage` in this envelope.
        """
        return self._fill_in(SystemMessage(content))

    def user(self, content: str | Iterable[Part]) -> UserMessage:
        """
        A `UserMessage` in this envelope.
        """
        return self._fill_in(UserMessage(content))

    def assistant(
        self,
        content: str | Iterable[Part] = "",
        *,
        tool_calls: Iterable[ToolCall] = (),
        response: ResponseMeta | None = None,
    ) -> AssistantMessage:
        """
        An `AssistantMessage` in this envelope.
        """
        return self._fill_in(
            AssistantMessage(content, tool_calls=tool_calls, response=response)
        )

    def tool_call(self, *calls: ToolCall) -> AssistantMessage:
        """
        An `AssistantMessage` that only calls tools.
        """
        return self.assistant(tool_calls=calls)

    def tool_response(
        self, content: str | Iterable[Part], *, tool_call_id: str, tool_name: str = ""
    ) -> ToolMessage:
        """
        A `ToolMessage` in this envelope.
        """
        return self._fill_in(
            ToolMessage(content, tool_call_id=tool_call_id, tool_name=tool_name)
        )

    def tool_error(
        self, error: str | BaseException, *, tool_call_id: str, tool_name: str = ""
    ) -> ToolMessage:
        """
        A `ToolMessage` that tells how the tool failed.

        An exception becomes its class and what it says, half surrogate pairs
        in it U+FFFD: whatever a tool raises can be told to the model.
        """
        if isinstance(error, BaseException):
            error = format_exception(error)

        return self._fill_in(
            ToolMessage(
                error, tool_call_id=tool_call_id, tool_name=tool_name, is_error=True
            )
        )

    def _fill_in(self, message: M) -> M:
        # The message was made a line ago and nobody else has it yet.
        _set(message, "_common", self._common)
        return message
