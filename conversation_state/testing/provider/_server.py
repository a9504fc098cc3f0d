"""
The strict provider over HTTP.

`StrictProvider` judges, records and chooses answers; the handler below writes them. A
handler runs in a thread for each connection; what it shares is behind one lock.
"""

from __future__ import annotations

import json
import secrets
import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeGuard

import attrs

from conversation_state._locks import RLock
from conversation_state._persistent import check_list
from conversation_state.messages import AssistantMessage
from conversation_state.testing._wire_answers import (
    Numbers,
    cut_text,
    stream_answer,
    write_answer,
)
from conversation_state.testing.provider._calls import CallTools
from conversation_state.testing.provider._judge import WIRES, judge
from conversation_state.testing.provider._memory import Memory
from conversation_state.testing.provider._rules import STRICTEST, Level, Refusal
from conversation_state.testing.provider._script import (
    Answer,
    ErrorReply,
    Gate,
    Hangup,
    Reply,
    Silence,
)
from conversation_state.testing.provider._wires import (
    BASES,
    Route,
    find_route,
    write_error,
    write_event,
)

_POLL_S = 0.005  # what each end of a provider waits for, hundreds in a check


@attrs.define
class ReceivedRequest:
    """
    A request that a strict provider got.

    Attributes:
        wire: ``openai_chat``, ``openai_responses``, ``anthropic`` or ``gemini``.
        path: The path, with its query.
        body: The request's JSON. A model that the path names is in it, too.
        headers: The headers, their names in small letters.
        refusals: Why it was refused; () if it was accepted.
        is_stream: Whether it asked for a stream.
        is_cancelled: Whether the client went away before it had all of the answer.
    """

    wire: str
    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    refusals: tuple[Refusal, ...] = ()
    is_stream: bool = False
    is_cancelled: bool = False


class StrictProvider:
    """
    A provider on 127.0.0.1 that refuses what providers refuse.

    It speaks Chat Completions, Responses, Anthropic's Messages and Gemini's
    ``generateContent``, streamed and whole, so that any framework can be its client:
    its base URL is `url` of the wire, its key is anything. What a provider would accept
    is answered from the script, what it would not with that provider's own error; a
    refused request uses up no answer. It runs while its ``with`` block does.

    Args:
        script: Answers, in their order. Each is a text, an `AssistantMessage`
            (written in the wire's form, with its calls, reasoning, usage and id), a
            response's JSON, a list of the events of a stream, a function of the
            `ReceivedRequest` that returns one of these, `CallTools`, or a fault:
            `ErrorReply`, `Reply`, `Silence`, `Hangup`.
        level: Who judges, as in `judge`.
        without: Names of rules that are left out.
        default: The answer when the script is out.
        remembers: Whether rules about what it answered apply: signatures, stored
            items, reasoning that is wanted back.
        port: Where it listens; 0 for any port that is free.

    Attributes:
        default: The answer when the script is out, which may be set.
        requests: Every request so far.
        memory: What it has answered; None if it does not remember.

    >>> import json, urllib.request
    >>> with StrictProvider(["Hello."]) as provider:
    ...     body = {"model": "m", "messages": [{"role": "user", "content": "Hi."}]}
    ...     request = urllib.request.Request(
    ...         f"{provider.url('openai_chat')}/chat/completions",
    ...         json.dumps(body).encode(), {"Content-Type": "application/json"})
    ...     with urllib.request.urlopen(request) as response:
    ...         answer = json.load(response)
    >>> answer["choices"][0]["message"]["content"], provider.refusals
    ('Hello.', ())
    """

    def __init__(
        self,
        script: Iterable[Any] = (),  # answers: of a mixed list, only object is known
        *,
        level: Level = STRICTEST,
        without: Iterable[str] = (),
        default: Answer = "OK.",
        remembers: bool = True,
        port: int = 0,
    ) -> None:
        self.level = level if isinstance(level, str) else tuple(level)
        self.without = tuple(without)
        self.default = default
        self.port = port
        self.memory = Memory() if remembers else None
        self.requests: list[ReceivedRequest] = []
        check_list(script, "script", "a list of answers")
        self._script = list(script)
        # A conversation may go on with a second provider, which refuses an id twice.
        self._numbers = Numbers(secrets.token_hex(2))
        self._errors: list[Exception] = []
        self._lock = RLock()
        self._closing = threading.Event()
        self._http: _Server | None = None
        self._thread: threading.Thread | None = None
        # An unknown level or rule is an error here, and not in the first request.
        judge(WIRES[0], {}, level=self.level, without=self.without)

    def add(self, *answers: Answer) -> None:
        """Put *answers* at the end of the script."""
        with self._lock:
            self._script.extend(answers)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Why requests were refused, of all requests so far."""
        with self._lock:
            return tuple(
                refusal for request in self.requests for refusal in request.refusals
            )

    @property
    def base_url(self) -> str:
        """
        The server's address, without a slash at its end.

        Raises:
            RuntimeError: It does not run.
        """
        if self._http is None:
            raise RuntimeError(
                "the strict provider does not run; use it inside of its with block"
            )

        return f"http://127.0.0.1:{self._http.server_port}"

    def url(self, wire: str) -> str:
        """
        The base URL that the official client of *wire* wants.

        Raises:
            ValueError: An unknown wire.
        """
        if wire not in BASES:
            raise ValueError(
                f"unknown wire={wire!r}; expected one of {', '.join(WIRES)}"
            )

        return self.base_url + BASES[wire]

    def __enter__(self) -> Self:
        """
        Start to listen.

        Raises:
            OSError: Another program listens at this port.
        """
        self._closing.clear()
        self._http = _Server(self)
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(_POLL_S,), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """
        Stop, and close every connection.

        Raises:
            Exception: What a function of the script raised, or what is wrong with an
                answer of it; the client had status 500.
        """
        assert self._http is not None
        assert self._thread is not None
        self._closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.close_connections()
        self._http.server_close()
        self._http = self._thread = None
        if self._errors and kind is None:
            raise self._errors[0]

    def _read_request(
        self, route: Route, path: str, headers: dict[str, str], body: dict[str, Any]
    ) -> ReceivedRequest:
        """Judge and record a request."""
        if route.model is not None:
            body = {"model": route.model, **body}

        stream = body.get("stream") if route.is_stream is None else route.is_stream
        with self._lock:
            refusals = judge(
                route.wire,
                body,
                level=self.level,
                memory=self.memory,
                without=self.without,
                whole=True,
            )
            request = ReceivedRequest(
                route.wire, path, body, headers, refusals, is_stream=bool(stream)
            )
            self.requests.append(request)
            return request

    def _choose_answer(self, request: ReceivedRequest) -> Any:
        """The answer to a request that is accepted."""
        with self._lock:
            answer = self._script[0] if self._script else self.default
            # It goes on with the results of its calls.
            is_begun = isinstance(answer, CallTools) and answer.list_calls(request)
            if self._script and not is_begun:
                del self._script[0]

        return answer(request) if callable(answer) else answer

    def _write_response(self, request: ReceivedRequest, answer: Any) -> dict[str, Any]:
        """The whole response that says *answer*, which is remembered."""
        if isinstance(answer, str):
            answer = AssistantMessage(answer)

        if isinstance(answer, AssistantMessage):
            with self._lock:
                response = write_answer(
                    request.wire, answer, request.body, self._numbers
                )
        elif isinstance(answer, Mapping):
            response = dict(answer)
        else:
            raise TypeError(
                f"a script's answer is {answer!r}; expected a text, an "
                "AssistantMessage, a response's JSON, the events of a stream, a "
                "function, or a fault"
            )

        if self.memory is not None:
            store = request.body.get("store", True) is not False
            with self._lock:
                self.memory.remember(
                    request.wire, response, store=store, body=request.body
                )

        return response


class _Server(ThreadingHTTPServer):
    """The listening socket, and the connections that are open."""

    daemon_threads = False  # joined when the server closes
    request_queue_size = 128

    def __init__(self, provider: StrictProvider) -> None:
        self.provider = provider
        self._open: set[socket.socket] = set()
        self._open_lock = RLock()
        super().__init__(("127.0.0.1", provider.port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self._open.add(request)

        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)

        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error of the server."""

    def close_connections(self) -> None:
        """End every connection, so that the threads that wait for one end."""
        with self._open_lock:
            connections = list(self._open)

        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _are_events(answer: object) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    return isinstance(answer, Sequence) and all(isinstance(e, Mapping) for e in answer)


class _Gone(Exception):  # noqa: N818 - no error, but an end
    """The client is away, or the connection is to be closed."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are two packets; without it the second waits for a receipt.
    disable_nagle_algorithm = True
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Write nothing."""

    def do_GET(self) -> None:
        """Nothing is to be got here."""
        self._send_failure(None, ErrorReply(404, message=f"Not found: {self.path}"))

    def do_POST(self) -> None:
        """Answer a request of a wire."""
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        route = find_route(self.path.partition("?")[0].rstrip("/"))
        if route is None:
            self._send_failure(None, ErrorReply(404, message=f"Not found: {self.path}"))
            return

        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            body = None

        if not isinstance(body, dict):
            self._send_failure(route.wire, ErrorReply(400))
            return

        provider = self.server.provider
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = provider._read_request(route, self.path, headers, body)
        try:
            self._send_answer(request)
        except (_Gone, OSError):
            request.is_cancelled = True
            self.close_connection = True
        except Exception as error:  # noqa: BLE001 - raised where the block ends
            provider._errors.append(error)
            self._send_failure(request.wire, ErrorReply(500, message=repr(error)))

    def _send_answer(self, request: ReceivedRequest) -> None:
        if request.refusals:
            refusal = request.refusals[0]
            self._send_json(refusal.status, refusal.body)
            return

        answer = self.server.provider._choose_answer(request)
        if isinstance(answer, ErrorReply):
            self._send_failure(request.wire, answer)
        elif isinstance(answer, Silence):
            self._wait_until(answer.seconds)
            self.close_connection = True
        elif isinstance(answer, Hangup):
            self.close_connection = True
        else:
            reply = answer if isinstance(answer, Reply) else Reply(answer)
            self._send_reply(request, reply)

    def _send_reply(self, request: ReceivedRequest, reply: Reply) -> None:
        provider, answer = self.server.provider, reply.answer
        if _are_events(answer):
            events: Iterable[Mapping[str, Any]] = answer
        else:
            response = provider._write_response(request, answer)
            if not request.is_stream:
                self._wait_turn(reply, reply.gate)
                self._send_json(200, response, cut_at=reply.cut_at)
                if reply.gate is not None:
                    reply.gate._note_sent()

                return

            events = stream_answer(request.wire, response, request.body, cut_text)

        if request.wire == "gemini" and "alt=sse" not in request.path:
            self._send_json(200, list(events), cut_at=reply.cut_at)
        else:
            self._send_events(request.wire, events, reply)

    def _send_events(
        self, wire: str, events: Iterable[Mapping[str, Any]], reply: Reply
    ) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        left = reply.cut_at
        for at, lines in enumerate(_lines_of(wire, events)):
            if reply.break_after is not None and at >= reply.break_after:
                raise _Gone

            self._wait_turn(reply, reply.gate)
            if left is not None:
                self._send_chunk(lines[:left])
                left -= len(lines)
                if left <= 0:
                    raise _Gone
            else:
                self._send_chunk(lines)

            if reply.gate is not None:
                reply.gate._note_sent()

        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _send_chunk(self, content: bytes) -> None:
        if content:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))
            self.wfile.flush()

    def _wait_turn(self, reply: Reply, gate: Gate | None) -> None:
        """
        Wait for the gate or the delay of *reply*; `_Gone` if the client went away.
        """
        if gate is None:
            if reply.delay:
                self._wait_until(reply.delay)

            return

        while not gate._may_send(_POLL_S):
            if self._is_gone():
                gate.cancelled.set()
                raise _Gone

    def _wait_until(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.server.provider._closing.wait(min(left, _POLL_S))
            if self._is_gone():
                raise _Gone

    def _is_gone(self) -> bool:
        if self.server.provider._closing.is_set():
            return True

        try:
            readable, _, _ = select.select([self.connection], [], [], 0)
            if not readable:
                return False

            return not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def _send_failure(self, wire: str | None, failure: ErrorReply) -> None:
        headers = {}
        if failure.retry_after is not None:
            headers["Retry-After"] = f"{failure.retry_after:g}"

        self._send_json(failure.status, write_error(wire, failure), headers=headers)

    def _send_json(
        self,
        status: int,
        value: Any,
        *,
        headers: Mapping[str, str] | None = None,
        cut_at: int | None = None,
    ) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)

        self.end_headers()
        if cut_at is not None and cut_at < len(content):
            self.wfile.write(content[:cut_at])
            self.wfile.flush()
            raise _Gone

        self.wfile.write(content)
        self.wfile.flush()


def _lines_of(wire: str, events: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    for event in events:
        yield write_event(wire, event)

    if wire == "openai_chat":
        yield b"data: [DONE]\n\n"
