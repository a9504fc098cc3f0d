"""The strict provider, with the script of one conversation after the other."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from conversation_state.testing.provider import (
    ErrorReply,
    Gate,
    Hangup,
    Memory,
    ReceivedRequest,
    Refusal,
    Reply,
    StrictProvider,
)
from peers.refused.scripts import FaultKind, ScriptedAnswer, ScriptedFault
from peers.refused.wires import write_answer

# A client of a driver takes an answer with this status for one that never came, so that
# time-outs take no time.
TIME_OUT_STATUS = 599
# Not asked for: DeepSeek wants its reasoning back, which clients send to models of its
# name.
WITHOUT = ("reasoning_forgotten",)
# Not asked where the server itself gives long ids: it takes them back.
_OF_OTHERS, _LONG = "id_too_long", 40
_BEFORE_HELD = 2  # events of a stream that stops in the middle

_FAULTS: Mapping[FaultKind, Any] = {
    FaultKind.CLOSED: Hangup(),
    FaultKind.TIME_OUT: ErrorReply(TIME_OUT_STATUS),
    FaultKind.LIMITED: ErrorReply(429, retry_after=1),
    FaultKind.BROKEN: ErrorReply(500),
}


class ScriptedServer:
    """Serves one conversation after the other."""

    def __init__(self) -> None:
        self.provider = StrictProvider(default=self._reply, without=WITHOUT)
        self._replies: deque[ScriptedAnswer | ScriptedFault] = deque()
        self._hold_at = self._count = 0
        self._gate = Gate()
        self._chosen = threading.Event()  # whether the answer to hold was asked for
        self._released = threading.Event()

    @property
    def url(self) -> str:
        """What a client takes as its base URL."""
        return self.provider.url("openai_chat")

    @property
    def requests(self) -> list[Mapping[str, Any]]:
        """The requests of this conversation."""
        return [request.body for request in self.provider.requests]

    @property
    def refusals(self) -> list[tuple[Refusal, ...]]:
        """Why requests of this conversation were refused, for each that was."""
        every = [request.refusals for request in self.provider.requests]
        return [refusals for refusals in every if refusals]

    def begin(self, level: str, without: Iterable[str] = ()) -> None:
        """Serve another conversation."""
        self.provider.level = level
        self.provider.without = (*WITHOUT, *without)
        self.provider.memory = Memory()
        self.provider.requests.clear()
        self._count = 0

    def expect(
        self, replies: Iterable[ScriptedAnswer | ScriptedFault], *, hold_at: int = 0
    ) -> None:
        """
        Answer the next requests with *replies*, then with texts. The reply of number
        *hold_at*, counted from 1, stops in the middle, until `release`.
        """
        self._replies = deque(replies)
        self._hold_at = hold_at
        self._gate = Gate()
        self._chosen.clear()
        self._released.clear()
        for reply in self._replies:
            answer = reply.answer if isinstance(reply, ScriptedFault) else reply
            if any(len(call.id or "") > _LONG for call in answer.calls):
                self.provider.without = (*self.provider.without, _OF_OTHERS)

    def wait_held(self, timeout: float) -> None:
        """Wait until an answer stops in the middle."""
        gate = self._gate
        if self._chosen.wait(timeout) and self.provider.requests[-1].is_stream:
            while not (self._released.is_set() or gate.wait_sent(_BEFORE_HELD, 0.02)):
                pass

    def release(self) -> None:
        """Let go of what waits: it goes on, and breaks."""
        self._released.set()
        self._chosen.set()
        self._gate.open()

    def _reply(self, request: ReceivedRequest) -> Any:
        self._count += 1
        self._hold_at -= 1
        more = ScriptedAnswer(text="It leaves at noon.", id=f"more-{self._count}")
        reply = self._replies.popleft() if self._replies else more
        part = 1.0
        if isinstance(reply, ScriptedFault):
            if reply.kind in _FAULTS:
                return _FAULTS[reply.kind]

            answer, part = reply.answer, reply.part
        else:
            answer = reply

        response = write_answer(request.wire, answer, request.body, self._count)
        cut_at = int(len(json.dumps(response)) * part)
        if self._hold_at == 0:
            self._chosen.set()
            if not request.is_stream:
                return Reply(response, gate=self._gate, cut_at=cut_at // 2)

            self._gate.release(_BEFORE_HELD)
            return Reply(response, gate=self._gate, break_after=_BEFORE_HELD + 1)

        return response if part >= 1 else Reply(response, cut_at=cut_at)


@contextmanager
def serve() -> Iterator[ScriptedServer]:
    """A running server."""
    server = ScriptedServer()
    with server.provider:
        yield server
