"""The envelope: the fields that the messages of one turn share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

import attrs

from conversation_state._identity import new_uuid_number
from conversation_state._persistent import EMPTY_MAP, final
from conversation_state.messages._base import Common, CommonFields, Message, common_of
from conversation_state.messages._kinds import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.messages._response import ResponseMeta
from conversation_state.parts import Part
from conversation_state.tools import ToolCall

_set = object.__setattr__

M = TypeVar("M", bound="Message")


def format_exception(error: BaseException) -> str:
    """
    The class and the message of *error*. Half surrogate pairs become U+FFFD, so
    that any message can contain the text.
    """
    # An error's `__str__` is a tool's code, and may itself raise.
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - any of them: the class is enough
        text = type(error).__name__

    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@final
@attrs.frozen
class Envelope:
    """
    The fields that the messages of one turn share; makes messages with them.

    Attributes:
        name: The participant.
        run_id: The run, a UUID.
        turn_id: The turn, a UUID.
        timestamp: The time, aware.
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
            InvalidMessageError: If a value is not what its field holds.
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
        return self._common.name

    @property
    def run_id(self) -> UUID:
        return self._common.run_id  # type: ignore[return-value]  # `new` sees to it

    @property
    def turn_id(self) -> UUID:
        return self._common.turn_id  # type: ignore[return-value]  # `new` sees to it

    @property
    def timestamp(self) -> datetime:
        return self._common.timestamp  # type: ignore[return-value]  # `new` sees to it

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self._common.metadata

    def system(self, content: str | Iterable[Part]) -> SystemMessage:
        """A `SystemMessage` in this envelope."""
        return self._fill_in(SystemMessage(content))

    def user(self, content: str | Iterable[Part]) -> UserMessage:
        """A `UserMessage` in this envelope."""
        return self._fill_in(UserMessage(content))

    def assistant(
        self,
        content: str | Iterable[Part] = "",
        *,
        tool_calls: Iterable[ToolCall] = (),
        response: ResponseMeta | None = None,
    ) -> AssistantMessage:
        """An `AssistantMessage` in this envelope."""
        return self._fill_in(
            AssistantMessage(content, tool_calls=tool_calls, response=response)
        )

    def tool_call(self, *calls: ToolCall) -> AssistantMessage:
        """An `AssistantMessage` that only calls tools."""
        return self.assistant(tool_calls=calls)

    def tool_response(
        self, content: str | Iterable[Part], *, tool_call_id: str, tool_name: str = ""
    ) -> ToolMessage:
        """A `ToolMessage` in this envelope."""
        return self._fill_in(
            ToolMessage(content, tool_call_id=tool_call_id, tool_name=tool_name)
        )

    def tool_error(
        self, error: str | BaseException, *, tool_call_id: str, tool_name: str = ""
    ) -> ToolMessage:
        """
        A `ToolMessage` with the error of a tool; an exception is formatted by
        `format_exception`.
        """
        if isinstance(error, BaseException):
            error = format_exception(error)

        return self._fill_in(
            ToolMessage(
                error, tool_call_id=tool_call_id, tool_name=tool_name, is_error=True
            )
        )

    def _fill_in(self, message: M) -> M:
        # Safe to mutate: the caller has just made it, and holds the only reference.
        _set(message, "_common", self._common)
        return message
