"""Answers that call the tools that a request offers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from conversation_state.messages import AssistantMessage
from conversation_state.testing.provider._reading import objects_of
from conversation_state.testing.provider._script import Answer, Reply
from conversation_state.tools import ToolCall

if TYPE_CHECKING:
    from conversation_state.testing.provider._server import ReceivedRequest

# A name, and arguments as JSON in brackets.
_CALL = re.compile(r"\s*([^\s(){}]+?)\s*(?:\((.*)\)\s*)?", re.DOTALL)
# How deep a value of a schema is that contains itself.
_MAX_DEPTH = 8


class CallTools:
    """
    An answer of a script that calls the tools that a request offers.

    A question of a user gets one message with all *calls*, and what comes with their
    results gets the *answer*: every question where it is the default, one where it is
    in a script. Calls of tools that the request does not offer are left out; where it
    forbids calls, all are, and where it forbids several at once, all but the first.

    Args:
        calls: Each is ``NAME``, whose arguments are made from the tool's JSON Schema,
            or ``NAME({"city": "Paris"})``.
        answer: The text where nothing is called.
        delay: Seconds before each event of a stream, or before a whole answer.

    Raises:
        ValueError: A call is of another form.

    >>> from conversation_state.testing.provider import StrictProvider
    >>> provider = StrictProvider(default=CallTools('weather({"city": "Paris"})'))
    """

    def __init__(self, *calls: str, answer: str = "OK.", delay: float = 0.0) -> None:
        self._calls = [_parse_call(each) for each in calls]
        self._answer, self._delay = answer, delay

    def __call__(self, request: ReceivedRequest) -> Answer:
        """The answer to *request*."""
        calls = self.list_calls(request)
        answer = AssistantMessage(tool_calls=calls) if calls else self._answer
        return Reply(answer, delay=self._delay)

    def list_calls(self, request: ReceivedRequest) -> list[ToolCall]:
        """The calls that *request* gets; [] if it gets the text."""
        return list(self._make_calls(request)) if _is_question(request) else []

    def describe_missing(self, request: ReceivedRequest) -> str:
        """That a question does not offer tools that are to be called; "" if it does."""
        offered = _read_tools(request)
        names = dict.fromkeys(name for name, _ in self._calls if name not in offered)
        if not names or not _is_question(request):
            return ""

        listed = ", ".join(map(repr, offered)) or "no tools"
        return f"{', '.join(map(repr, names))}: the request offers {listed}"

    def _make_calls(self, request: ReceivedRequest) -> Iterator[ToolCall]:
        offered = _read_tools(request)
        calls = [(name, given) for name, given in self._calls if name in offered]
        for name, given in calls[: _read_limit(request)]:
            schema = offered[name]
            made = _make_value({"type": "object", **schema}, schema, name)
            yield ToolCall("", name, given or json.dumps(made))


def _parse_call(text: str) -> tuple[str, str]:
    """Name and arguments of a call; the arguments are "" where none are given."""
    found = _CALL.fullmatch(text) if isinstance(text, str) else None
    arguments = found and found[2]
    try:
        is_valid = not arguments or isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        is_valid = False

    if found is None or not is_valid:
        raise ValueError(
            f"invalid call {text!r}: expected NAME, or NAME({{...}}) with a JSON object"
        )

    return found[1], (arguments or "{}") if found[2] is not None else ""


# What a request has

# Where the conversation is, and what its parts are called.
_ENTRIES = {
    "openai_chat": "messages",
    "openai_responses": "input",
    "anthropic": "messages",
    "gemini": "contents",
}


def _is_question(request: ReceivedRequest) -> bool:
    """Whether the newest entry is a user's, and has no result of a tool."""
    entries = request.body.get(_ENTRIES[request.wire])
    if isinstance(entries, str):
        return True

    if isinstance(entries, Mapping):
        entries = [entries]

    usual = "user" if request.wire == "gemini" else ""
    for _, entry in reversed(list(objects_of(entries))):
        role = entry.get("role") or usual
        if role in ("system", "developer"):
            continue

        parts = entry.get("content") or entry.get("parts")
        return role == "user" and not any(
            part.get("type") == "tool_result" or _get(part, "functionResponse")
            for _, part in objects_of(parts)
        )

    return False


def _read_tools(request: ReceivedRequest) -> dict[str, Any]:
    """The schema of each function that a request offers, by name."""
    tools = request.body.get("tools")
    found: dict[str, Any] = {}
    for _, tool in objects_of([tools] if isinstance(tools, Mapping) else tools):
        if request.wire == "gemini":
            functions = [each for _, each in objects_of(_get(tool, _DECLARED))]
        elif request.wire == "anthropic":
            functions = [tool] if "input_schema" in tool else []
        else:
            # In Chat Completions a key has the function, in Responses the tool is it.
            functions = [tool.get("function", tool)] * (tool.get("type") == "function")

        for function in functions:
            schemas = (_get(function, key) for key in _SCHEMAS)
            given = (each for each in schemas if each is not None)
            found[function.get("name", "")] = next(given, {})

    return found


_DECLARED = "functionDeclarations"
_SCHEMAS = ("parameters", "input_schema", "parametersJsonSchema")


def _read_limit(request: ReceivedRequest) -> int | None:
    """How many calls a request takes in one answer; None for any number."""
    body = request.body
    choice = body.get("tool_choice")
    if request.wire == "gemini":
        config = _get(_get(body, "toolConfig") or {}, "functionCallingConfig") or {}
        choice = str(config.get("mode", "")).lower()

    options: Mapping[str, Any] = choice if isinstance(choice, Mapping) else {}
    if "none" in (choice, options.get("type")):
        return 0

    is_single = options.get("disable_parallel_tool_use") is True
    return 1 if is_single or body.get("parallel_tool_calls") is False else None


def _get(value: Mapping[str, Any], key: str) -> Any:
    """What *value* has under *key*, or under it in snake case, which Gemini takes."""
    return value.get(key, value.get(re.sub(r"(?=[A-Z])", "_", key).lower()))


# Arguments that a schema takes

_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "uuid": "01234567-89ab-4def-8123-456789abcdef",
}


def _make_value(  # noqa: PLR0911 - one for each type
    schema: Any, root: Any, name: str, depth: int = 0
) -> Any:
    """A value that *schema*, that of *name* within *root*, takes."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return None if depth > _MAX_DEPTH else name

    schema = _resolve_schema(schema, root)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]

    for key in ("enum", "examples"):
        if schema.get(key):
            return schema[key][0]

    kind = _read_type(schema)
    if kind == "object":
        properties = schema.get("properties") or {}
        return {
            key: _make_value(properties.get(key), root, key, depth + 1)
            for key in schema.get("required") or ()
        }

    if kind == "array":
        count = max(schema.get("minItems", 0), int(depth < _MAX_DEPTH))
        item = schema.get("items")
        return [_make_value(item, root, name, depth + 1) for _ in range(count)]

    if kind in ("integer", "number"):
        least = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
        return max(least, min(1, schema.get("maximum", 1)))

    if kind in ("boolean", "null"):
        return True if kind == "boolean" else None

    text = _FORMATS.get(schema.get("format", ""), name)
    return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]


def _resolve_schema(schema: Mapping[str, Any], root: Any) -> Mapping[str, Any]:
    """*schema* with what it refers to; of alternatives, the first that is not null."""
    for _ in range(_MAX_DEPTH):
        rest = dict(schema)
        if "$ref" in rest:
            found = root
            for key in str(rest.pop("$ref")).lstrip("#/").split("/"):
                found = found.get(key, {}) if isinstance(found, Mapping) else {}

            others = [found]
        elif "allOf" in rest:
            others = [each for _, each in objects_of(rest.pop("allOf"))]
        elif "anyOf" in rest or "oneOf" in rest:
            either = rest.pop("anyOf", None) or rest.pop("oneOf", None)
            others = [each for _, each in objects_of(either)]
            others = sorted(others, key=lambda each: each.get("type") == "null")[:1]
        else:
            break

        schema = {key: each[key] for each in [*others, rest] for key in each}

    return schema


def _read_type(schema: Mapping[str, Any]) -> str:
    """The type of *schema* in small letters; Gemini's own are in capitals."""
    types = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(types, list):
        types = next((each for each in types if each != "null"), "null")

    return str(types).lower()
