"""
A provider over HTTP that answers from a script, and refuses what providers refuse.
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from conversation_state.testing.provider import Memory, Refusal, judge
from peers.refused.scripts import (
    FaultKind,
    ScriptedAnswer,
    ScriptedFault,
)
from peers.refused.wires import (
    stream_answer,
    write_answer,
)

# A client of a driver takes an answer with this header for one that never came, so that
# time-outs take no time.
TIME_OUT_HEADER = "x-scripted-time-out"

# Not asked for: DeepSeek wants its reasoning back, which clients send to models of its
# name.
WITHOUT = ("reasoning_forgotten",)
# Not asked of an id that the server itself gave: who makes long ones takes them back.
_OF_OTHERS = ("id_too_long",)

_WIRES = {
    "chat/completions": "openai_chat",
    "responses": "openai_responses",
    "messages": "anthropic",
}


class ServedConversation:
    """
    The provider's side of one conversation.

    Attributes:
        refusals: Why requests were refused, for each that was.

        held: Set when an answer stopped in the middle, until it is `released`.
    """

    def __init__(self, level: str, without: Iterable[str] = ()) -> None:
        self.level = level
        self._without = (*WITHOUT, *without)
        self.memory = Memory()
        self.refusals: list[tuple[Refusal, ...]] = []
        self.requests: list[Mapping[str, Any]] = []
        self.held = threading.Event()
        self.released = threading.Event()
        self.given_ids: set[str | None] = set()
        self._replies: deque[ScriptedAnswer | ScriptedFault] = deque()
        self._hold_at = 0
        self._count = 0

    def judge(self, wire: str, body: Mapping[str, Any]) -> tuple[Refusal, ...]:
        """Why the provider refuses the request *body*."""
        found = judge(
            *(wire, body), level=self.level, memory=self.memory, without=self._without
        )
        return tuple(
            refusal
            for refusal in found
            if refusal.rule.name not in _OF_OTHERS
            or _value_at(body, refusal.path) not in self.given_ids
        )

    def expect(
        self, replies: Iterable[ScriptedAnswer | ScriptedFault], *, hold_at: int = 0
    ) -> None:
        """
        Answer the next requests with *replies*, then with texts. The reply of number
        *hold_at*, counted from 1, stops in the middle.
        """
        self._replies = deque(replies)
        self._hold_at = hold_at
        self.held.clear()
        self.released.clear()

    def next_reply(self) -> tuple[ScriptedAnswer | ScriptedFault, int, bool]:
        """The next reply, its number, and whether it stops in the middle."""
        self._count += 1
        self._hold_at -= 1
        more = ScriptedAnswer(text="It leaves at noon.", id=f"more-{self._count}")
        reply = self._replies.popleft() if self._replies else more
        return reply, self._count, self._hold_at == 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A head and a body are two packets; without it each waits for the other's receipt.
    disable_nagle_algorithm = True
    server: ScriptedServer

    def do_POST(self) -> None:
        with suppress(ConnectionError):
            self._answer()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _answer(self) -> None:
        size = int(self.headers["content-length"])
        body = json.loads(self.rfile.read(size))
        wire = next(
            wire
            for end, wire in _WIRES.items()
            if self.path.partition("?")[0].endswith(end)
        )
        conversation = self.server.conversation
        conversation.requests.append(body)
        refusals = conversation.judge(wire, body)
        if refusals:
            conversation.refusals.append(refusals)
            self._send_json(refusals[0].status, refusals[0].body)
            return

        reply, number, is_held = conversation.next_reply()
        if isinstance(reply, ScriptedFault):
            if self._send_fault(wire, reply):
                return

            answer, part = reply.answer, reply.part
        else:
            answer, part = reply, 1.0
            whole = write_answer(wire, answer, body, number)
            conversation.memory.remember(wire, whole, store=body.get("store", True))

        conversation.given_ids |= {call.id for call in answer.calls}

        if is_held:
            part = 0.5

        self._send_answer(wire, answer, body, number, part)
        if is_held:
            conversation.held.set()
            conversation.released.wait(30)

        if part < 1:
            self._close()

    # Whether the fault is all that is sent.
    def _send_fault(self, wire: str, fault: ScriptedFault) -> bool:
        if fault.kind is FaultKind.CLOSED:
            self._close()
        elif fault.kind is FaultKind.TIME_OUT:
            self._send_json(200, {}, **{TIME_OUT_HEADER: "1"})
        elif fault.kind is FaultKind.LIMITED:
            self._send_json(429, _error(wire, "Rate limit"), **{"retry-after": "1"})
        elif fault.kind is FaultKind.BROKEN:
            self._send_json(500, _error(wire, "The server had an error"))
        else:
            return False

        return True

    def _send_answer(
        self,
        wire: str,
        answer: ScriptedAnswer,
        body: Mapping[str, Any],
        number: int,
        part: float,
    ) -> None:
        if not body.get("stream"):
            data = json.dumps(write_answer(wire, answer, body, number)).encode()
            self._send_head(200, "application/json", {"content-length": str(len(data))})
            self._write(data, part)
            return

        self._send_head(200, "text/event-stream", {"connection": "close"})
        self.close_connection = True
        events = stream_answer(wire, answer, body, number)
        self._write(b"".join(_event_bytes(*event) for event in events), part)

    def _write(self, data: bytes, part: float) -> None:
        self.wfile.write(data if part >= 1 else data[: int(len(data) * part)])
        self.wfile.flush()

    def _close(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(2)

    def _send_json(self, status: int, body: Any, **headers: str) -> None:
        data = json.dumps(body).encode()
        headers["content-length"] = str(len(data))
        self._send_head(status, "application/json", headers)
        self.wfile.write(data)

    def _send_head(self, status: int, kind: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        for name, value in headers.items():
            self.send_header(name, value)

        self.end_headers()


def _value_at(body: Any, path: str) -> Any:
    for key, index in re.findall(r"(\w+)|\[(\d+)\]", path):
        body = body[int(index)] if index else body[key]

    return body


def _event_bytes(name: str, data: Any) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode()


def _error(wire: str, message: str) -> dict[str, Any]:
    if wire == "anthropic":
        return {"type": "error", "error": {"type": "api_error", "message": message}}

    return {"error": {"message": message, "type": "server_error", "code": None}}


class ScriptedServer(ThreadingHTTPServer):
    """Serves one conversation after the other."""

    daemon_threads = True
    conversation: ServedConversation

    @property
    def url(self) -> str:
        """What a client takes as its base URL."""
        return f"http://127.0.0.1:{self.server_port}/v1"


@contextmanager
def serve() -> Iterator[ScriptedServer]:
    """A running server."""
    server = ScriptedServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
