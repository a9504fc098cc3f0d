"""What OpenAI's Chat Completions, and hosts that speak its wire, ask of a request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from conversation_state.testing.provider._reading import (
    Check,
    Faults,
    Finding,
    article,
    empty,
    error_of_arguments,
    find_inner_schemas,
    has_odd_characters,
    has_word_json,
    longer_than,
    noted,
    objects_of,
    wrong,
    wrong_request,
)
from conversation_state.testing.provider._rules import (
    EMPTY_ARRAY,
    EMPTY_STRING,
    LONG_ARRAY,
    LONG_STRING,
    MISSING,
    ODD_STRING,
    ODD_URL,
    REFERENCE,
    WRONG_TYPE,
    WRONG_VALUE,
    ErrorWords,
    ProviderRule,
    make_rule,
)

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_SPEAKER = re.compile(r"[^\s<|\\/>]+\Z")
_NINE = re.compile(r"[a-zA-Z0-9]{9}\Z")
_IMAGES = ("image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp")

# Kinds of part by role. What a newer model takes is unknown, so only kinds that are
# known to be of another wire, or of another role, are refused.
_FOREIGN_PARTS = frozenset((
    "input_text", "output_text", "input_image", "input_file", "tool_use",
    "tool_result", "redacted_thinking", "image", "document", "functionCall",
    "function_call",
))  # fmt: skip
_ADDRESSES = ("data:", "http://", "https://", "gs://")
_MOST = 128
# Those that think.
_NEW_MODEL = re.compile(r"(?:o\d|gpt-5)(?:[-.](?!chat)|\Z)")


class CompletionRequest:
    """A Chat Completions request, read once for all checks."""

    def __init__(self, body: Mapping[str, Any], memory: Any, *, whole: bool) -> None:
        self.body = body
        self.memory = memory
        self.faults = Faults()  # what is not of the form
        self.messages: list[Mapping[str, Any]] = []  # the messages, each with its place
        # Place of the message, of the call, the call's id and its function's name.
        self.calls: list[tuple[int, int, str, str]] = []
        self.texts: list[tuple[str, int, str, str]] = []  # path and text of every text
        self.images: list[tuple[str, str]] = []
        self.keys: list[tuple[str, str]] = []
        if whole and not isinstance(body.get("model"), str):
            self.faults.note("missing", "model")

        messages = body.get("messages")
        if messages is None:
            self.faults.note("missing", "messages")
        elif not isinstance(messages, list | tuple):
            self.faults.note_type("messages", "an array of objects", messages)
        elif not messages:
            self.faults.note("empty_array", "messages")
        else:
            for at, message in enumerate(messages):
                self._read_message(at, message)

        for at, tool in objects_of(body.get("tools")):
            if tool.get("type") is None:
                self.faults.note("missing", f"tools[{at}].type")
            elif tool["type"] == "function" and not isinstance(
                tool.get("function"), Mapping
            ):
                self.faults.note("missing", f"tools[{at}].function")

    def _read_message(self, at: int, message: Any) -> None:
        path = f"messages[{at}]"
        if not isinstance(message, Mapping):
            self.faults.note_type(path, "an object", message)
            return

        self.messages.append(message)
        role = message.get("role")
        if role is None:
            self.faults.note("missing", f"{path}.role")
        elif role not in _ROLES:
            self.faults.note(
                "value", f"{path}.role", found=role, wanted=article(_ROLES)
            )
        else:
            self._read_content(at, role, message)
            if role == "assistant" and message.get("tool_calls") is not None:
                self._read_calls(path, at, message["tool_calls"])
            elif role == "tool":
                self._read_string(f"{path}.tool_call_id", message, "tool_call_id")

    def _read_string(self, path: str, holder: Mapping[str, Any], key: str) -> str:
        value = holder.get(key)
        if isinstance(value, str):
            return value

        if key in holder:
            self.faults.note_type(path, "a string", value)
        else:
            self.faults.note("missing", path)

        return ""

    def _read_content(self, at: int, role: str, message: Mapping[str, Any]) -> None:
        path = f"messages[{at}].content"
        content = message.get("content")
        if isinstance(content, str):
            self.texts.append((path, at, role, content))
        elif isinstance(content, list | tuple):
            if not content and role != "assistant":
                self.faults.note("empty_array", path)

            for part_at, part in enumerate(content):
                self._read_part(f"{path}[{part_at}]", at, role, part)
        elif content is None:
            if role in {"assistant", "function"}:
                return

            if "content" in message:
                self.faults.note("null_content", path, at=at)
            else:
                self.faults.note("missing", path)
        else:
            self.faults.note_type(path, "one of a string or array of objects", content)

    def _read_part(self, path: str, at: int, role: str, part: Any) -> None:
        if not isinstance(part, Mapping):
            self.faults.note_type(path, "an object", part)
            return

        kind = part.get("type")
        if kind == "text":
            text = self._read_string(f"{path}.text", part, "text")
            self.texts.append((f"{path}.text", at, role, text))
        elif kind is None:
            self.faults.note("missing", f"{path}.type")
        elif kind == "image_url":
            image = part.get("image_url")
            if not isinstance(image, Mapping):
                self.faults.note_type(f"{path}.image_url", "an object", image)
            elif isinstance(url := image.get("url"), str):
                self.images.append((f"{path}.image_url.url", url))
            else:
                self.faults.note("missing", f"{path}.image_url.url")

        self.keys.append((path, str(kind)))

    def _read_calls(self, path: str, at: int, calls: Any) -> None:
        if not isinstance(calls, list | tuple):
            self.faults.note_type(f"{path}.tool_calls", "an array of objects", calls)
            return

        if not calls:
            self.faults.note("calls_empty", f"{path}.tool_calls")

        for call_at, call in enumerate(calls):
            where = f"{path}.tool_calls[{call_at}]"
            if not isinstance(call, Mapping):
                self.faults.note_type(where, "an object", call)
                continue

            id_ = self._read_string(f"{where}.id", call, "id")
            kind = call.get("type")
            if kind is None:
                self.faults.note("missing", f"{where}.type")
                kind = "function"

            function = call.get("custom" if kind == "custom" else "function")
            if not isinstance(function, Mapping):
                self.faults.note("missing", f"{where}.function")
                continue

            name = self._read_string(f"{where}.function.name", function, "name")
            if kind == "function":
                self._read_string(f"{where}.function.arguments", function, "arguments")

            self.calls.append((at, call_at, id_, name))


_kinds, _images = attrgetter("keys"), attrgetter("images")


def media_of(*roles: str) -> Check:
    """A check for images, sound and files in messages of these *roles*."""

    def find_media(request: CompletionRequest) -> Iterator[Finding]:
        for path, kind in request.keys:
            at = int(path[9 : path.index("]")])
            role = request.messages[at]["role"]
            if kind in ("image_url", "input_audio", "file") and role in roles:
                yield path, {"at": at, "role": role}

    return find_media


def wrong_key(
    role: str, key: str, is_wrong: Callable[[Mapping[str, Any]], object]
) -> Check:
    """A check for messages of this *role* that are wrong, which their *key* says."""

    def find_wrong(request: CompletionRequest) -> Iterator[Finding]:
        for at, message in enumerate(request.messages):
            if message["role"] == role and is_wrong(message):
                yield f"messages[{at}].{key}", {"at": at}

    return find_wrong


def _iterate_tools(request: CompletionRequest) -> Iterator[tuple[str, Sequence[Any]]]:
    tools = request.body.get("tools")
    yield "tools", tools if isinstance(tools, list | tuple) else ()


def _lists_of_calls(request: CompletionRequest) -> Iterator[tuple[str, Sequence[Any]]]:
    for at, message in enumerate(request.messages):
        yield f"messages[{at}].tool_calls", message.get("tool_calls") or ()


def find_empty_lists(request: CompletionRequest) -> Iterator[Finding]:
    """Contents that are a list of nothing, beside calls, too."""
    for at, message in enumerate(request.messages):
        if message.get("content") in ([], ()):
            yield f"messages[{at}].content", {}


def find_json_not_named(request: CompletionRequest) -> Iterator[Finding]:
    """An answer in JSON, of which no message says a word."""
    form = request.body.get("response_format")
    if isinstance(form, Mapping) and form.get("type") == "json_object":
        contents = [message.get("content") for message in request.messages]
        if not has_word_json(contents):
            yield "messages", {}


def _list_parameters(
    request: CompletionRequest,
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for at, tool in objects_of(request.body.get("tools")):
        function = tool.get("function")
        if isinstance(function, Mapping):
            parameters = function.get("parameters")
            if isinstance(parameters, Mapping) and parameters:
                name = str(function.get("name"))
                yield f"tools[{at}].function.parameters", name, parameters


def find_odd_parameters(request: CompletionRequest) -> Iterator[Finding]:
    """Parameters of a function that are not those of an object."""
    for path, name, parameters in _list_parameters(request):
        kind = parameters.get("type")
        if kind != "object":
            yield path, {"path": path, "name": name, "kind": kind}


def find_arrays_without_items(request: CompletionRequest) -> Iterator[Finding]:
    """Arrays in the parameters of a function that do not say of what."""
    for path, name, parameters in _list_parameters(request):
        for keys, schema in find_inner_schemas(parameters):
            if schema.get("type") == "array" and "items" not in schema:
                yield path, {"path": path, "name": name, "keys": keys}


# Beside a refusal the content may be empty, but not null; beside sound it may be null.
_BESIDE_NULL = ("tool_calls", "function_call", "audio")
_BESIDE_EMPTY = ("tool_calls", "function_call", "refusal")


def _is_null(answer: Mapping[str, Any]) -> bool:
    return answer.get("content") is None and not any(map(answer.get, _BESIDE_NULL))


def _is_empty(answer: Mapping[str, Any]) -> bool:
    content = answer.get("content")
    return not (content is None or content or any(map(answer.get, _BESIDE_EMPTY)))


def find_unanswered_calls(request: CompletionRequest) -> Iterator[Finding]:
    """Calls whose results are not in the messages directly after them."""
    waiting: dict[str, None] = {}
    called_at = 0
    for at, message in enumerate([*request.messages, {"role": ""}]):
        if message["role"] == "tool":
            waiting.pop(message["tool_call_id"], None)
            continue

        if waiting:
            values = {"ids": ", ".join(waiting), "at": at}
            yield f"messages[{called_at}].tool_calls", values

        calls: Any = message.get("tool_calls") or ()
        waiting = dict.fromkeys(call["id"] for call in calls if "id" in call)
        called_at = at


def _iterate_results(
    request: CompletionRequest,
) -> Iterator[tuple[int, str, set[str] | None]]:
    """Place and id of each result, and the ids of the calls before it, if any came."""
    open_ids: set[str] | None = None
    for at, message in enumerate(request.messages):
        if message["role"] == "tool":
            yield at, message["tool_call_id"], open_ids
        else:
            calls = message.get("tool_calls")
            open_ids = {call["id"] for call in calls} if calls else None


def find_results_without_calls(request: CompletionRequest) -> Iterator[Finding]:
    """Results that no message with calls comes before."""
    for at, _, open_ids in _iterate_results(request):
        if open_ids is None:
            yield f"messages[{at}]", {"at": at}


def find_results_of_unknown_calls(request: CompletionRequest) -> Iterator[Finding]:
    """Results after calls, none of which has their id."""
    for at, id_, open_ids in _iterate_results(request):
        if open_ids is not None and id_ not in open_ids:
            yield f"messages[{at}].tool_call_id", {"at": at, "id": id_}


def find_second_results(request: CompletionRequest) -> Iterator[Finding]:
    """Second results of one call."""
    answered: dict[str, int] = {}
    for at, message in enumerate(request.messages):
        if message["role"] != "tool":
            answered = {}
            continue

        id_ = message["tool_call_id"]
        first = answered.setdefault(id_, at)
        if first != at:
            values = {"at": at, "first": first, "id": id_}
            yield f"messages[{at}].tool_call_id", values


def find_ids_twice_in_message(request: CompletionRequest) -> Iterator[Finding]:
    """Ids that two calls of one message have."""
    seen: set[tuple[int, str]] = set()
    for at, call_at, id_, _ in request.calls:
        if (at, id_) in seen:
            yield f"messages[{at}].tool_calls[{call_at}].id", {"at": at, "id": id_}

        seen.add((at, id_))


def find_ids_twice_in_request(request: CompletionRequest) -> Iterator[Finding]:
    """Ids that calls of two messages have."""
    first: dict[str, int] = {}
    for at, call_at, id_, _ in request.calls:
        if first.setdefault(id_, at) != at:
            yield f"messages[{at}].tool_calls[{call_at}].id", {"at": at, "id": id_}


def _iterate_ids(request: CompletionRequest) -> Iterator[tuple[str, str]]:
    for at, call_at, id_, _ in request.calls:
        yield f"messages[{at}].tool_calls[{call_at}].id", id_

    for at, message in enumerate(request.messages):
        if message["role"] == "tool":
            yield f"messages[{at}].tool_call_id", message["tool_call_id"]


def _iterate_names(request: CompletionRequest) -> Iterator[tuple[str, str]]:
    for at, call_at, _, name in request.calls:
        yield f"messages[{at}].tool_calls[{call_at}].function.name", name

    for at, tool in objects_of(request.body.get("tools")):
        if isinstance(tool.get("function"), Mapping):
            yield f"tools[{at}].function.name", str(tool["function"].get("name"))


def find_broken_arguments(request: CompletionRequest) -> Iterator[Finding]:
    """Arguments that are no JSON object; none are taken."""
    for at, call_at, _, _ in request.calls:
        function = request.messages[at]["tool_calls"][call_at].get("function", {})
        given = function.get("arguments")
        if isinstance(given, str) and given and (error := error_of_arguments(given)):
            path = f"messages[{at}].tool_calls[{call_at}].function.arguments"
            yield path, {"error": error}


def _iterate_speakers(request: CompletionRequest) -> Iterator[tuple[str, str]]:
    for at, message in enumerate(request.messages):
        name = message.get("name")
        if isinstance(name, str):
            yield f"messages[{at}].name", name


def find_assistant_last(request: CompletionRequest) -> Iterator[Finding]:
    """An answer at the end, where it is not marked as the answer's beginning."""
    last = request.messages[-1]
    if last["role"] == "assistant" and not last.get("prefix"):
        yield f"messages[{len(request.messages) - 1}]", {"role": "assistant"}


_MISTRAL_ORDER = {
    "system": {"user", "assistant", "system"},
    "user": {"assistant", "system", "user"},
    "assistant": {"assistant", "user", "tool"},
    "tool": {"assistant", "tool", "user"},
}


def find_roles_out_of_order(request: CompletionRequest) -> Iterator[Finding]:
    """Roles that can't follow each other: a system message after an answer, say."""
    previous = ""
    for at, message in enumerate(request.messages):
        role = message["role"]
        if role not in _MISTRAL_ORDER.get(previous, {role}):
            yield f"messages[{at}]", {"role": role, "previous": previous}

        previous = role


def find_user_after_tool(request: CompletionRequest) -> Iterator[Finding]:
    """A user's message directly after a result."""
    previous = ""
    for at, message in enumerate(request.messages):
        if message["role"] == "user" and previous == "tool":
            yield f"messages[{at}]", {"role": "user", "previous": "tool"}

        previous = message["role"]


def find_roles_that_do_not_alternate(request: CompletionRequest) -> Iterator[Finding]:
    """Two messages of users, or two answers, next to each other; an answer first."""
    speaker = "assistant"
    for at, message in enumerate(request.messages):
        role = message["role"]
        if role in ("system", "developer"):
            continue

        side = "assistant" if role == "assistant" else "user"
        if side == speaker and not (role == "tool" and at):
            yield f"messages[{at}]", {}

        speaker = side


def find_late_systems(request: CompletionRequest) -> Iterator[Finding]:
    """System messages behind another message."""
    is_late = False
    for at, message in enumerate(request.messages):
        if message["role"] not in ("system", "developer"):
            is_late = True
        elif is_late:
            yield f"messages[{at}]", {}


_OF_EACH = frozenset({"content", "role", "tool_calls"})
_CALL = {"function", "id", "index", "type"}


def _find_other_keys(
    request: CompletionRequest, known: frozenset[str]
) -> Iterator[Finding]:
    for at, message in enumerate(request.messages):
        role = message.get("role")
        of_result = {"name", "tool_call_id"} if role == "tool" else frozenset[str]()
        for key in sorted(message.keys() - known - of_result):
            yield f"messages[{at}].{key}", {"at": at, "role": role, "key": key}

        for field in ("content", "tool_calls"):
            for number, each in objects_of(message.get(field)):
                path = f"messages[{at}].{field}[{number}]"
                keys = {"type", str(each.get("type"))} if field == "content" else _CALL
                for key in sorted(each.keys() - keys):
                    yield f"{path}.{key}", {"at": at, "role": role, "key": key}


def _is_odd_image(url: str) -> bool:
    kind = url[5:].partition(";")[0].partition(",")[0]
    is_image = url.startswith("data:") and kind.startswith("image/")
    return is_image and kind.lower() not in _IMAGES


def find_files_without_name(request: CompletionRequest) -> Iterator[Finding]:
    """Files by value that have no name."""
    for at, message in enumerate(request.messages):
        content = message.get("content")
        for part_at, part in objects_of(content if message["role"] == "user" else ()):
            file: Any = part.get("file")
            is_file = part.get("type") == "file" and isinstance(file, Mapping)
            if is_file and file.get("file_data") and not file.get("filename"):
                path = f"messages[{at}].content[{part_at}].file.file_id"
                yield path, {"path": path}


def find_odd_files(request: CompletionRequest) -> Iterator[Finding]:
    """Files by value that are no PDFs."""
    for at, message in enumerate(request.messages):
        for part_at, part in objects_of(message.get("content")):
            file: Any = part.get("file")
            given = file.get("file_data") if isinstance(file, Mapping) else None
            kind = str(given).partition(";")[0].removeprefix("data:")
            if given and "/" in kind and kind != "application/pdf":
                path = f"messages[{at}].content[{part_at}].file.file_data"
                yield path, {"path": path, "kind": kind}


def find_missing_reasoning(request: CompletionRequest) -> Iterator[Finding]:
    """Answers with calls without their reasoning, where the model thinks."""
    body = request.body
    thinking = body.get("thinking")
    asked = isinstance(thinking, Mapping) and thinking.get("type") == "enabled"
    model = str(body.get("model", ""))
    if not (asked or "reasoner" in model or "deepseek-v4" in model):
        return

    if isinstance(thinking, Mapping) and thinking.get("type") == "disabled":
        return

    for at, message in enumerate(request.messages):
        if message.get("tool_calls") and message.get("reasoning_content") is None:
            path = f"messages[{at}].reasoning_content"
            yield path, {"at": at}


def find_empty_reasoning(request: CompletionRequest) -> Iterator[Finding]:
    """Calls with missing or empty reasoning, for a Kimi that thinks."""
    model, thinking = str(request.body.get("model", "")), request.body.get("thinking")
    is_off = isinstance(thinking, Mapping) and thinking.get("type") == "disabled"
    if is_off or not _KIMI.search(model):
        return

    for at, message in enumerate(request.messages):
        if message.get("tool_calls") and not message.get("reasoning_content"):
            yield f"messages[{at}].reasoning_content", {"at": at}


_KIMI = re.compile(r"kimi-(k2\.|k3|k2-thinking)")


def find_forgotten_reasoning(request: CompletionRequest) -> Iterator[Finding]:
    """
    Answers with calls that this provider gave with ``reasoning_content``, without it.
    """
    if request.memory is None:
        return

    for at, _, id_, _ in request.calls:
        message = request.messages[at]
        if (
            id_ in request.memory.reasoned_calls
            and message.get("reasoning_content") is None
        ):
            yield f"messages[{at}].reasoning_content", {"at": at}


_ISSUES = "https://github.com/"
_OPENAI = "https://platform.openai.com/docs/api-reference/chat/create"
_MISTRAL = (
    "https://github.com/mistralai/mistral-common (protocol/instruct/validator.py)"
)


_rule = partial(make_rule, "openai_chat")
_OTHER_PART = ErrorWords(
    "Invalid value: '{found}'. Supported values are: 'text', 'image_url', "
    "'input_audio', 'refusal', 'audio', and 'file'.",
    "invalid_value",
)
_OTHER_ROLE = (
    "Invalid 'messages[{at}]'. Image URLs are only allowed for messages with role "
    "'user', but this message with role '{role}' contains an image URL."
)
_NULL_CONTENT = "Invalid value for 'content': expected a string, got null."

CHAT_RULES: tuple[ProviderRule, ...] = (
    # The form.
    _rule("missing", noted("missing"), MISSING, _OPENAI),
    _rule("type", noted("type"), WRONG_TYPE, _OPENAI),
    _rule("value", noted("value"), WRONG_VALUE, _OPENAI),
    _rule("empty_array", noted("empty_array"), EMPTY_ARRAY, _OPENAI),
    _rule(
        "calls_empty",
        noted("calls_empty"),
        EMPTY_ARRAY,
        _ISSUES + "home-assistant/core/pull/118577",
        taken_by=("mistral",),
    ),
    _rule(
        "null_content",
        noted("null_content"),
        _NULL_CONTENT,
        _ISSUES + "docker/docker-agent/issues/63",
        param="messages.[{at}].content",
    ),
    _rule(
        "foreign_part", wrong(_kinds, _FOREIGN_PARTS.__contains__), _OTHER_PART, _OPENAI
    ),
    _rule(
        "thinking_part",
        wrong(_kinds, {"thinking", "reference"}.__contains__),
        _OTHER_PART,
        _OPENAI,
        taken_by=("mistral",),
    ),
    _rule(
        "part_of_other_role",
        media_of("system", "developer", "assistant"),
        _OTHER_ROLE,
        _ISSUES + "openai/openai-node/issues/1030",
        param="messages[{at}]",
        code="invalid_value",
    ),
    _rule(
        "part_of_tool",
        media_of("tool"),
        _OTHER_ROLE,
        _ISSUES + "dreadnode/rigging/issues/41",
        by=("azure", "deepseek", REFERENCE),  # newer models of OpenAI take it
        param="messages[{at}]",
        code="invalid_value",
    ),
    _rule(
        "list_in_result",
        wrong_key(
            "tool",
            "content",
            lambda message: not isinstance(message.get("content"), str),
        ),
        "Failed to deserialize the JSON body into the target type: messages[{at}]: "
        "invalid type: sequence, expected a string",
        _ISSUES + "tailcallhq/forgecode/issues/2008",
        by=("deepseek", "groq"),
        dialect=True,
    ),
    _rule(
        "empty_list",
        find_empty_lists,
        "Invalid request content: Each message must have at least one content element.",
        _ISSUES + "AstrBotDevs/AstrBot/issues/6447",
        by=("xai",),
    ),
    _rule(
        "too_many_calls",
        longer_than(_MOST, _lists_of_calls),
        LONG_ARRAY,
        _ISSUES + "github/copilot-cli/issues/669",
    ),
    _rule(
        "too_many_tools",
        longer_than(_MOST, _iterate_tools),
        LONG_ARRAY,
        _ISSUES + "0x4m4/hexstrike-ai/issues/29",
    ),
    _rule(
        "tools_empty",
        wrong_request("tools", lambda request: request.body.get("tools") in ([], ())),
        EMPTY_ARRAY,
        _ISSUES + "JetBrains/koog/issues/786",
    ),
    _rule(
        "choice_without_tools",
        wrong_request(
            "tool_choice",
            lambda request: (
                request.body.get("tool_choice") not in (None, "none")
                and not request.body.get("tools")
            ),
        ),
        "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' "
        "are specified.",
        _ISSUES + "writer/writer-framework/pull/1013",
        param="tool_choice",
    ),
    _rule(
        "schema_type",
        find_odd_parameters,
        "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: "
        '"object"\', got \'type: "{kind}"\'.',
        _ISSUES + "browserbase/stagehand/issues/1159",
        param="{path}",
        code="invalid_function_parameters",
    ),
    _rule(
        "schema_items",
        find_arrays_without_items,
        "Invalid schema for function '{name}': In context={keys}, array schema missing "
        "items.",
        _ISSUES + "sigoden/aichat/pull/1049",
        taken_by=("mistral", "vllm"),
        param="{path}",
        code="invalid_function_parameters",
    ),
    # Parameters beside the conversation.
    _rule(
        "options_without_stream",
        wrong_request(
            "stream_options",
            lambda request: (
                request.body.get("stream_options") is not None
                and not request.body.get("stream")
            ),
        ),
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        _ISSUES + "BerriAI/litellm/issues/5803",
        param="stream_options",
    ),
    _rule(
        "old_limit",
        wrong_request(
            "max_tokens",
            lambda request: (
                request.body.get("max_tokens") is not None
                and _NEW_MODEL.match(str(request.body.get("model")))
            ),
        ),
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead.",
        _ISSUES + "griptape-ai/ComfyUI-Griptape/issues/312",
        taken_by=("openrouter",),
        param="max_tokens",
        code="unsupported_parameter",
    ),
    _rule(
        "json_not_named",
        find_json_not_named,
        "'messages' must contain the word 'json' in some form, to use "
        "'response_format' of type 'json_object'.",
        "https://platform.openai.com/docs/guides/structured-outputs#json-mode",
        taken_by=("mistral", "vllm"),
        param="messages",
    ),
    # Empty content.
    _rule(
        "answer_of_nothing",
        wrong_key("assistant", "content", _is_null),
        _NULL_CONTENT,
        _ISSUES + "vercel/ai/pull/13744",
        param="messages.[{at}].content",
    ),
    _rule(
        "answer_without_content",
        wrong_key("assistant", "content", _is_empty),
        "Assistant message must have either content or tool_calls, but not none.",
        _OPENAI,
        by=("mistral",),
        type="invalid_request_assistant_message",
        code="3240",
    ),
    # Calls and results.
    _rule(
        "call_without_result",
        find_unanswered_calls,
        "An assistant message with 'tool_calls' must be followed by tool messages "
        "responding to each 'tool_call_id'. The following tool_call_ids did not have "
        "response messages: {ids}",
        _ISSUES + "router-for-me/CLIProxyAPI/issues/2798",
        param="messages.[{at}].role",
    ),
    _rule(
        "result_without_call",
        find_results_without_calls,
        "Invalid parameter: messages with role 'tool' must be a response to a "
        "preceeding message with 'tool_calls'.",
        _ISSUES + "smarter-sh/smarter/issues/264",
        param="messages.[{at}].role",
    ),
    _rule(
        "result_of_unknown_call",
        find_results_of_unknown_calls,
        "Invalid parameter: 'tool_call_id' of '{id}' not found in 'tool_calls' of "
        "previous message.",
        _OPENAI,
        param="messages.[{at}].tool_call_id",
    ),
    _rule(
        "second_result",
        find_second_results,
        "Invalid parameter: Duplicate value for 'tool_call_id' of '{id}', in "
        "messages[{first}] and messages[{at}].",
        _ISSUES + "agno-agi/agno/issues/5116",
        param="messages.[{at}].tool_call_id",
    ),
    _rule(
        "id_twice_in_message",
        find_ids_twice_in_message,
        "invalid params, duplicate tool_call id: {id} (2013)",
        _ISSUES + "VicBilibily/GCMP/pull/120",
        by=("minimax", REFERENCE),
    ),
    _rule(
        "id_twice_in_request",
        find_ids_twice_in_request,
        "messages.{at}.content.0: `tool_use` ids must be unique",
        _ISSUES + "BerriAI/litellm/issues/23510",
        by=("openrouter", REFERENCE),
    ),
    # Ids and names.
    _rule("id_empty", empty(_iterate_ids), EMPTY_STRING, _OPENAI),
    _rule(
        "id_too_long",
        longer_than(40, _iterate_ids),
        LONG_STRING,
        _ISSUES + "BerriAI/litellm/issues/17343",
        by=("azure", "copilot", "openrouter"),
    ),
    _rule(
        "id_not_nine",
        wrong(_iterate_ids, lambda id_: not _NINE.match(id_)),
        "Tool call id was {found} but must be a-z, A-Z, 0-9, with a length of 9.",
        _ISSUES + "nearai/ironclaw/issues/1241",
        by=("mistral",),
        type="invalid_function_call",
        code="3280",
        dialect=True,
    ),
    _rule(
        "name_characters",
        has_odd_characters(_iterate_names),
        ODD_STRING,
        _ISSUES + "mcp-use/mcp-use/issues/90",
    ),
    _rule("name_too_long", longer_than(64, _iterate_names), LONG_STRING, _OPENAI),
    _rule(
        "name_empty",
        empty(_iterate_names),
        EMPTY_STRING,
        _ISSUES + "continuedev/continue/issues/11645",
    ),
    _rule(
        "arguments_broken",
        find_broken_arguments,
        "{error}",
        _ISSUES + "vllm-project/vllm/issues/47761",
        by=("vllm",),
        type="BadRequestError",
    ),
    _rule(
        "speaker_characters",
        wrong(
            _iterate_speakers,
            lambda name: not _SPEAKER.match(name),
            pattern="^[^\\s<|\\\\/>]+$",
        ),
        ODD_STRING,
        _OPENAI,
    ),
    _rule("speaker_too_long", longer_than(64, _iterate_speakers), LONG_STRING, _OPENAI),
    # Who speaks.
    _rule(
        "assistant_last",
        find_assistant_last,
        "Expected last role User or Tool (or Assistant with prefix True) for serving "
        "but got {role}",
        _ISSUES + "0xPlaygrounds/rig/pull/1130",
        by=("mistral",),
        type="invalid_request_message_order",
        code="3230",
    ),
    _rule(
        "role_order",
        find_roles_out_of_order,
        "Unexpected role '{role}' after role '{previous}'",
        _MISTRAL,
        by=("mistral",),
        type="invalid_request_message_order",
        code="3230",
    ),
    _rule(
        "user_after_tool",
        find_user_after_tool,
        "Unexpected role '{role}' after role '{previous}'",
        _ISSUES + "NousResearch/hermes-agent/issues/20154",
        by=("mistral", "nvidia"),
        dialect=True,
        type="invalid_request_message_order",
        code="3230",
    ),
    _rule(
        "alternation",
        find_roles_that_do_not_alternate,
        "After the optional system message, conversation roles must alternate user "
        "and assistant roles",
        _ISSUES + "charmbracelet/crush/issues/279",
        by=("vllm", "perplexity"),
        dialect=True,
    ),
    _rule(
        "developer",
        wrong_key("developer", "role", bool),
        "Failed to deserialize the JSON body into the target type: messages[{at}]."
        "role: unknown variant `developer`, expected one of `system`, `user`, "
        "`assistant`, `tool`",
        _ISSUES + "earendil-works/pi/issues/1048",
        by=("deepseek",),
        dialect=True,
    ),
    _rule(
        "answer_last",
        wrong(
            lambda request: [(f"messages[{len(request.messages) - 1}]", request)],
            lambda request: request.messages[-1]["role"] == "assistant",
        ),
        "the last message must have the user or tool role",
        _ISSUES + "pipecat-ai/pipecat/pull/4009",
        by=("perplexity",),
        dialect=True,
        type="invalid_message",
    ),
    _rule(
        "late_system",
        find_late_systems,
        "only the initial message can have the system role",
        _ISSUES + "pipecat-ai/pipecat/pull/4009",
        by=("perplexity",),
        dialect=True,
        type="invalid_message",
    ),
    _rule(
        "unsupported_property",
        lambda request: _find_other_keys(request, _OF_EACH | {"name", "reasoning"}),
        "'messages.{at}' : for 'role:{role}' the following must be satisfied"
        "[('messages.{at}' : property '{key}' is unsupported)]",
        _ISSUES + "janhq/jan/issues/8136",
        by=("cerebras", "groq"),
        dialect=True,
    ),
    _rule(
        "extra_forbidden",
        lambda request: _find_other_keys(request, _OF_EACH | {"prefix"}),
        "body.messages.{at}.{role}.{key}: Extra inputs are not permitted",
        _ISSUES + "charmbracelet/crush/issues/1590",
        by=("mistral",),
        dialect=True,
        type="extra_forbidden",
    ),
    # Images.
    _rule(
        "image_format",
        wrong(_images, _is_odd_image),
        "You uploaded an unsupported image. Please make sure your image is valid and "
        "has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].",
        _OPENAI,
        taken_by=("vllm",),
        code="invalid_image_format",
    ),
    _rule(
        "file_format",
        find_odd_files,
        "Invalid file data: '{path}'. Expected a base64-encoded data URL with an "
        "application/pdf MIME type (e.g. 'data:application/pdf;base64,"
        "SGVsbG8sIFdvcmxkIQ=='), but got unsupported MIME type '{kind}'.",
        _ISSUES + "vercel/ai/issues/7266",
        taken_by=("openrouter", "vllm"),
        param="{path}",
        code="invalid_value",
    ),
    _rule(
        "file_without_name",
        find_files_without_name,
        MISSING,
        _ISSUES + "openai/openai-agents-python/pull/1513",
    ),
    _rule(
        "image_without_type",
        wrong(
            _images, lambda url: url[:5] == "data:" and url[5:11].lower() != "image/"
        ),
        "Invalid MIME type. Only image types are supported.",
        _OPENAI,
        code="invalid_image_format",
    ),
    _rule(
        "image_url",
        wrong(_images, lambda url: not url.startswith(_ADDRESSES)),
        ODD_URL,
        _OPENAI,
    ),
    # Reasoning.
    _rule(
        "reasoning_missing",
        find_missing_reasoning,
        "Missing `reasoning_content` field in the assistant message at message index "
        "{at}. For more information, please refer to "
        "https://api-docs.deepseek.com/guides/thinking_mode#tool-calls",
        _ISSUES + "abhigyanpatwari/GitNexus/issues/43",
        by=("deepseek",),
    ),
    _rule(
        "reasoning_empty",
        find_empty_reasoning,
        "thinking is enabled but reasoning_content is missing in assistant tool call "
        "message at index {at}",
        _ISSUES + "earendil-works/pi/issues/4179",
    ),
    _rule(
        "reasoning_forgotten",
        find_forgotten_reasoning,
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        _ISSUES + "earendil-works/pi/issues/3636",
        by=("deepseek",),
    ),
)
