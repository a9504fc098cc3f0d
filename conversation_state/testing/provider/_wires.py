"""The wires over HTTP: their paths, and how events and errors are written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from conversation_state.testing.provider._script import ErrorReply

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


# Of each status: the error's type, OpenAI's code, and the words. A status that a
# reference does not name has what comes last for its class, and HTTP's phrase; where
# HTTP has none, the type.
# Source: https://developers.openai.com/docs/guides/error-codes; for the JSON, issues at
# GitHub: 401 as in popjane/free_chatgpt_api#3, 403 as in home-assistant/core#120072,
# 429 as in feder-cr/invisible_playwright_mcp#249, 500 as in
# ai-genie/chatgpt-vscode#100, 502 as in stanfordnlp/dspy#203
_OPENAI_ERRORS: Mapping[int, tuple[str, str | int | None, str]] = {
    400: (
        "invalid_request_error",
        None,
        "We could not parse the JSON body of your request.",
    ),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: (
        "request_forbidden",
        "unsupported_country_region_territory",
        "Country, region, or territory not supported",
    ),
    404: (
        "invalid_request_error",
        "model_not_found",
        "The model does not exist or you do not have access to it.",
    ),
    409: (
        "invalid_request_error",
        None,
        "The resource was updated by another request.",
    ),
    422: (
        "invalid_request_error",
        None,
        "Unable to process the request despite the format being correct.",
    ),
    429: (
        "requests",
        "rate_limit_exceeded",
        "Rate limit reached for requests. Please try again in 20s.",
    ),
    500: (
        "server_error",
        None,
        "The server had an error while processing your request. Sorry about that!",
    ),
    502: ("cf_bad_gateway", 502, "Bad gateway."),
    503: (
        "service_unavailable_error",
        "server_is_overloaded",
        "The engine is currently overloaded, please try again later.",
    ),
    4: ("invalid_request_error", None, ""),
    5: ("server_error", None, ""),
}
# Source: https://docs.claude.com/en/api/errors, which says that other 4xx are
# invalid_request_error
_ANTHROPIC_ERRORS: Mapping[int, tuple[str, str]] = {
    400: ("invalid_request_error", "The request body is not valid JSON."),
    401: ("authentication_error", "invalid x-api-key"),
    403: (
        "permission_error",
        "Your API key does not have permission to use the specified resource.",
    ),
    404: ("not_found_error", "The requested resource was not found."),
    409: ("conflict_error", ""),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "Your account has hit a rate limit."),
    500: ("api_error", "Internal server error"),
    504: ("timeout_error", ""),
    529: ("overloaded_error", "Overloaded"),
    4: ("invalid_request_error", ""),
    5: ("api_error", ""),
}
# Source: https://ai.google.dev/gemini-api/docs/troubleshooting, and the HTTP mapping in
# https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto; for the
# words, issues at GitHub: 401 and 503 as in musistudio/claude-code-router#1011, 500 as
# in PublicAffairs/openai-gemini#15
_GEMINI_ERRORS: Mapping[int, tuple[str, str]] = {
    400: ("INVALID_ARGUMENT", "Request contains an invalid argument."),
    401: ("UNAUTHENTICATED", "Request had invalid authentication credentials."),
    403: ("PERMISSION_DENIED", "The caller does not have permission"),
    404: ("NOT_FOUND", "Requested entity was not found."),
    409: ("ABORTED", "The operation was aborted."),
    429: ("RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    500: ("INTERNAL", "An internal error has occurred. Please retry."),
    503: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
    504: ("DEADLINE_EXCEEDED", "Deadline expired before operation could complete."),
    4: ("INVALID_ARGUMENT", ""),
    5: ("UNAVAILABLE", ""),
}


def write_error(wire: str | None, failure: ErrorReply) -> dict[str, Any]:
    """
    The JSON of a failure, in the wire's form; in OpenAI's for a path that is of none.
    """
    status = failure.status
    others = 4 if status < HTTPStatus.INTERNAL_SERVER_ERROR else 5
    if wire == "anthropic":
        kind, words = _ANTHROPIC_ERRORS.get(status) or _ANTHROPIC_ERRORS[others]
        message = failure.message or words or _name_status(status, kind)
        error: dict[str, Any] = {"type": kind, "message": message}
        return {"type": "error", "error": error, "request_id": "req_strict"}

    if wire == "gemini":
        kind, words = _GEMINI_ERRORS.get(status) or _GEMINI_ERRORS[others]
        message = failure.message or words or _name_status(status, kind)
        return {"error": {"code": status, "message": message, "status": kind}}

    kind, code, words = _OPENAI_ERRORS.get(status) or _OPENAI_ERRORS[others]
    message = failure.message or words or _name_status(status, kind)
    error = {"message": message, "type": kind, "param": None}
    error["code"] = None if wire is None else code
    return {"error": error}


def _name_status(status: int, kind: str) -> str:
    known = status in HTTPStatus.__members__.values()
    return HTTPStatus(status).phrase if known else kind
