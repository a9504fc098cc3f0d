"""The wires over HTTP: their paths, and how events and errors are written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from conversation_state.testing.provider._script import ErrorReply

__all__ = ["BASES", "Route", "find_route", "write_error", "write_event"]


# What the official client of a wire gets, after the server's address.
BASES = {"openai_chat": "/v1", "openai_responses": "/v1", "anthropic": "", "gemini": ""}


class Route(NamedTuple):
    """What a path asks for; *model* and *is_stream* where the path says them."""

    wire: str
    model: str | None = None
    is_stream: bool | None = None


_GEMINI = re.compile(r"/models/([^/:]+):(generateContent|streamGenerateContent)\Z")
_CLAUDE_ON_VERTEX = re.compile(r"/models/([^/:]+):(rawPredict|streamRawPredict)\Z")


def find_route(path: str) -> Route | None:
    """What *path*, without a query, asks for; None for nothing here."""
    if path.endswith("/chat/completions"):
        return Route("openai_chat")

    if path.endswith("/responses"):
        return Route("openai_responses")

    if path.endswith("/messages"):
        return Route("anthropic")

    if found := _GEMINI.search(path):
        return Route("gemini", found[1], found[2] == "streamGenerateContent")

    if found := _CLAUDE_ON_VERTEX.search(path):
        return Route("anthropic", found[1], found[2] == "streamRawPredict")

    return None


def write_event(wire: str, event: Mapping[str, Any]) -> bytes:
    """An event of a stream as its lines."""
    lines = f"data: {json.dumps(event)}\n\n"
    if wire in ("anthropic", "openai_responses"):
        lines = f"event: {event['type']}\n{lines}"

    return lines.encode()


# Of each status: the error's type at OpenAI, at Anthropic, and Google's status.
_KINDS = {
    400: ("invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"),
    401: ("invalid_request_error", "authentication_error", "UNAUTHENTICATED"),
    404: ("invalid_request_error", "not_found_error", "NOT_FOUND"),
    413: ("invalid_request_error", "request_too_large", "INVALID_ARGUMENT"),
    429: ("rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED"),
    503: ("server_error", "overloaded_error", "UNAVAILABLE"),
    529: ("server_error", "overloaded_error", "UNAVAILABLE"),
}
_USUAL = {
    429: "Rate limit reached for requests. Please try again later.",
    503: "The model is overloaded. Please try again later.",
    529: "Overloaded",
}


def write_error(wire: str | None, failure: ErrorReply) -> dict[str, Any]:
    """The JSON of a failure, in the wire's form."""
    usual = ("server_error", "api_error", "INTERNAL")
    openai, anthropic, google = _KINDS.get(failure.status, usual)
    message = failure.message or _USUAL.get(
        failure.status, "The server had an error while processing your request."
    )
    if wire == "anthropic":
        error: dict[str, Any] = {"type": anthropic, "message": message}
        return {"type": "error", "error": error, "request_id": "req_strict"}

    if wire == "gemini":
        error = {"code": failure.status, "message": message, "status": google}
        return {"error": error}

    error = {"message": message, "type": openai, "param": None, "code": None}
    return {"error": error}
