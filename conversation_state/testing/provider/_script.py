"""
What a script of the strict provider holds: answers, and faults on request.

An answer is a text, one of our messages, raw JSON, a function, or one of the classes
here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from conversation_state._locks import RLock
from conversation_state.messages import AssistantMessage


class Gate:
    """
    Releases the events of a slow answer, one at a time, from the test.

    Attributes:
        sent: How many events were sent.
        cancelled: Set once the client has gone away.
    """

    def __init__(self) -> None:
        self.sent = 0
        self.cancelled = threading.Event()
        self._released = 0
        self._changed = threading.Condition(RLock())

    def release(self, count: int = 1) -> None:
        """Let *count* further events out."""
        with self._changed:
            self._released += count
            self._changed.notify_all()

    def open(self) -> None:
        """Let all further events out."""
        self.release(1_000_000_000)

    def wait_sent(self, count: int, timeout: float = 60.0) -> bool:
        """
        Wait until *count* events were sent; whether they were within *timeout* seconds.
        """
        with self._changed:
            return self._changed.wait_for(lambda: self.sent >= count, timeout)

    def _may_send(self, timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.sent < self._released, timeout)

    def _note_sent(self) -> None:
        with self._changed:
            self.sent += 1
            self._changed.notify_all()


@attrs.frozen
class Reply:
    """
    An answer that does not arrive as it should, or not at once.

    Attributes:
        answer: A text, an `AssistantMessage`, a response's JSON, or the events of a
            stream.
        cut_at: Only so many bytes of the body are sent, and the connection closes; None
            for all. The length that the head announces is that of all.
        break_after: Only so many events of a stream are sent, and the connection
            closes; None for all.
        delay: Seconds before each event of a stream, or before a whole answer.
        gate: What releases the events, instead of *delay*.
    """

    answer: str | AssistantMessage | Mapping[str, Any] | Sequence[Mapping[str, Any]]
    cut_at: int | None = attrs.field(default=None, kw_only=True)
    break_after: int | None = attrs.field(default=None, kw_only=True)
    delay: float = attrs.field(default=0.0, kw_only=True)
    gate: Gate | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class ErrorReply:
    """
    An error of the provider, in the wire's form: too many requests, say.

    Attributes:
        status: The status, such as 401, 429 or 500, which chooses the error's type,
            code and words.
        message: Other words.
        retry_after: Seconds that the header ``Retry-After`` says; None for no header.
    """

    status: int = attrs.field(validator=attrs.validators.instance_of(int))
    message: str = attrs.field(default="", kw_only=True)
    retry_after: float | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class Silence:
    """No answer at all, until the client gives up or *seconds* are over."""

    seconds: float = 600.0


@attrs.frozen
class Hangup:
    """The connection closes before a byte is sent."""


Answer = (
    str
    | AssistantMessage
    | Mapping[str, Any]
    | Sequence[Mapping[str, Any]]
    | Reply
    | ErrorReply
    | Silence
    | Hangup
    | Callable[[Any], Any]
)
