"""What OpenAI's Responses API, and hosts that speak its wire, ask of a request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from conversation_state.testing.provider._reading import (
    NAME,
    Faults,
    Finding,
    article,
    empty,
    error_of_arguments,
    has_odd_characters,
    has_word_json,
    longer_than,
    noted,
    objects_of,
    wrong,
)
from conversation_state.testing.provider._rules import (
    EMPTY_STRING,
    LONG_ARRAY,
    LONG_STRING,
    MISSING,
    ODD_STRING,
    ODD_URL,
    REFERENCE,
    WRONG_TYPE,
    WRONG_VALUE,
    ProviderRule,
    make_rule,
)

Item = Mapping[str, Any]

_ROLES = ("assistant", "system", "developer", "user")
_MESSAGE_KEYS = frozenset({"type", "role", "content", "id", "status", "phase"})
# Keys of other wires' messages.
_FOREIGN_KEYS = frozenset((
    "tool_calls", "tool_call_id", "function_call", "name", "reasoning_content",
    "refusal", "audio", "cache_control",
))  # fmt: skip
_CALLS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "tool_search_call": "tool_search_output",
}
_OUTPUTS = frozenset(_CALLS.values())
_ADDRESSES = ("data:", "http://", "https://")
_PREFIX = {
    "custom_tool_call": ("ctc",),
    "function_call": ("fc",),
    "reasoning": ("rs",),
    "message": ("msg",),
}
_FOREIGN_ITEMS = frozenset((
    "text", "tool_use", "tool_result", "thinking", "tool_call", "functionCall",
    "input_text", "output_text", "image_url",
))  # fmt: skip
_INPUT_PARTS = ("input_text", "input_image", "input_file")
_OUTPUT_PARTS = ("output_text", "refusal")
# Kinds of part that are known to be of another wire or role; first a user's.
_OF_OTHERS = _FOREIGN_ITEMS - {*_INPUT_PARTS, *_OUTPUT_PARTS}
_FOREIGN_PARTS = (_OF_OTHERS | {*_OUTPUT_PARTS}, _OF_OTHERS | {*_INPUT_PARTS})
_REQUIRED = {
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id",),
}
_IMAGES = ("image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp")


class ResponsesRequest:
    """A request of the Responses API, read once for all checks."""

    def __init__(self, body: Mapping[str, Any], memory: Any, *, whole: bool) -> None:
        self.body = body
        self.memory = memory
        self.faults = Faults()  # what is not of the form
        # Kind and item of each item of the input; a message without a type is a
        # ``message``.
        self.items: list[tuple[str, Item]] = []
        # Path, role of the message, and part, of each part of a message.
        self.parts: list[tuple[str, str, Mapping[str, Any]]] = []
        # The ``call_id`` of each call of a local shell, by its own id.
        self._shells: dict[str, Any] = {}
        # What went before is on the server, so calls and results can be there.
        self.continues = bool(
            body.get("previous_response_id") or body.get("conversation")
        )
        for at, tool in objects_of(body.get("tools")):
            if tool.get("type") == "function":
                self._read_string(f"tools[{at}].name", tool, "name")

        if whole and not isinstance(body.get("model"), str) and not body.get("prompt"):
            self.faults.note("missing", "model")

        items = body.get("input")
        if isinstance(items, str):
            return

        if items is None:
            if not (self.continues or body.get("prompt")):
                self.faults.note("input_missing", "input")
        elif not isinstance(items, list | tuple):
            self.faults.note_type(
                "input", "one of a string or array of input items", items
            )
        elif not items and not self.continues:
            self.faults.note("input_missing", "input")
        else:
            for at, item in enumerate(items):
                self._read_item(f"input[{at}]", item)

    def _read_item(self, path: str, item: Any) -> None:
        if not isinstance(item, Mapping):
            self.faults.note_type(path, "an object", item)
            return

        kind = item.get("type") or ("message" if "role" in item else None)
        if not isinstance(kind, str):
            self.faults.note("missing", f"{path}.type")
            return

        item = self._name_call(kind, item)
        self.items.append((kind, item))
        if kind in _FOREIGN_ITEMS:
            self.faults.note("foreign_item", path, found=kind)

        for key in _REQUIRED.get(kind, ()):
            self._read_string(f"{path}.{key}", item, key)

        if kind == "message":
            self._read_message(path, item)
        elif kind == "function_call_output":
            self._read_content(f"{path}.output", "user", item, "output")
        elif kind == "reasoning" and "summary" not in item:
            self.faults.note("missing", f"{path}.summary")

        for key in ("id", "call_id"):
            if item.get(key) is not None:
                self._read_string(f"{path}.{key}", item, key)

    def _name_call(self, kind: str, item: Item) -> Item:
        """*item*; a local shell's output with the ``call_id`` of the call it names."""
        id_ = item.get("id")
        if kind == "local_shell_call":
            self._shells[str(id_)] = item.get("call_id")

        if kind != "local_shell_call_output" or item.get("call_id") is not None:
            return item

        others = {key: value for key, value in item.items() if key != "id"}
        return {**others, "call_id": self._shells.get(str(id_), id_)}

    def _read_string(self, path: str, item: Item, key: str) -> None:
        if key not in item:
            self.faults.note("missing", path)
        elif not isinstance(item[key], str):
            self.faults.note_type(path, "a string", item[key])

    def _read_content(self, path: str, role: str, item: Item, key: str) -> None:
        content = item.get(key)
        if isinstance(content, list | tuple):
            self._read_parts(path, role, content)
        elif key not in item:
            self.faults.note("missing", path)
        elif not isinstance(content, str):
            self.faults.note_type(path, "one of an array of objects or string", content)

    def _read_message(self, path: str, item: Item) -> None:
        role = item.get("role")
        if role is None:
            self.faults.note("missing", f"{path}.role")
            return

        if not isinstance(role, str) or role not in _ROLES:
            self.faults.note(
                "value", f"{path}.role", found=role, wanted=article(_ROLES)
            )
            return

        for key in item:
            if key not in _MESSAGE_KEYS and key in _FOREIGN_KEYS:
                self.faults.note("unknown", f"{path}.{key}")

        self._read_content(f"{path}.content", role, item, "content")

    def _read_parts(self, path: str, role: str, content: Any) -> None:
        for at, part in enumerate(content):
            where = f"{path}[{at}]"
            if not isinstance(part, Mapping):
                self.faults.note_type(where, "an object", part)
                continue

            kind = part.get("type")
            allowed = _OUTPUT_PARTS if role == "assistant" else _INPUT_PARTS
            if not isinstance(kind, str):
                self.faults.note("missing", f"{where}.type")
            elif kind in _FOREIGN_PARTS[role == "assistant"]:
                self.faults.note("value", where, found=kind, wanted=article(allowed))
            elif kind in ("input_text", "output_text") and not isinstance(
                part.get("text"), str
            ):
                self.faults.note("missing", f"{where}.text")

            self.parts.append((where, role, part))


# Parameters of Chat Completions, and where each is here.
_MOVED = {
    "messages": "input",
    "response_format": "text.format",
    "max_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
}


def find_moved_parameters(request: ResponsesRequest) -> Iterator[Finding]:
    """Parameters of Chat Completions that have another name here."""
    for name, now in _MOVED.items():
        if request.body.get(name) is not None:
            yield name, {"path": name, "now": now}


def find_json_not_named(request: ResponsesRequest) -> Iterator[Finding]:
    """An answer in JSON, of which no message says a word."""
    text = request.body.get("text")
    form = text.get("format") if isinstance(text, Mapping) else None
    if (
        isinstance(form, Mapping)
        and form.get("type") == "json_object"
        and not request.continues
        and not has_word_json(
            [request.body.get("input"), request.body.get("instructions")]
        )
    ):
        yield "input", {}


def find_unanswered_calls(request: ResponsesRequest) -> Iterator[Finding]:
    """
    Calls without an output after them; also those of the response that is continued.
    """
    waiting: dict[tuple[str, str], int] = {}
    previous = request.body.get("previous_response_id")
    if request.memory is not None and isinstance(previous, str):
        for id_ in request.memory.calls_of.get(previous, ()):
            waiting["function_call_output", id_] = 0

    for at, (kind, item) in enumerate(request.items):
        if kind in _CALLS:
            waiting[_CALLS[kind], item.get("call_id", "")] = at
        elif kind in _OUTPUTS:
            waiting.pop((kind, item.get("call_id", "")), None)

    for (_, id_), at in waiting.items():
        yield f"input[{at}]", {"id": id_}


def find_missing_approvals(request: ResponsesRequest) -> Iterator[Finding]:
    """Requests for an approval without an answer after them."""
    waiting: dict[Any, int] = {}
    for at, (kind, item) in enumerate(request.items):
        if kind == "mcp_approval_request":
            waiting[item.get("id")] = at
        elif kind == "mcp_approval_response":
            waiting.pop(item.get("approval_request_id"), None)

    for id_, at in waiting.items():
        yield f"input[{at}]", {"id": id_}


def find_unknown_previous(request: ResponsesRequest) -> Iterator[Finding]:
    """A response to continue that is not stored."""
    previous = request.body.get("previous_response_id")
    known = request.memory and request.memory.calls_of
    if known is not None and isinstance(previous, str) and previous not in known:
        yield "previous_response_id", {"id": previous}


def find_outputs_without_calls(request: ResponsesRequest) -> Iterator[Finding]:
    """Outputs without a call before them, in the input or on the server."""
    if request.continues:
        return

    called: set[tuple[str, str]] = set()
    for at, (kind, item) in enumerate(request.items):
        if kind in _CALLS:
            called.add((_CALLS[kind], item.get("call_id", "")))
        elif kind in _OUTPUTS and (kind, item.get("call_id", "")) not in called:
            yield f"input[{at}]", {"id": item.get("call_id", "")}


def find_late_outputs(request: ResponsesRequest) -> Iterator[Finding]:
    """Calls whose outputs do not directly follow them and the calls beside them."""
    at, items = 0, request.items
    while at < len(items):
        if items[at][0] not in _CALLS:
            at += 1
            continue

        begin = at
        while at < len(items) and items[at][0] in _CALLS:
            at += 1

        answered = set()
        end = at
        while end < len(items) and items[end][0] in _OUTPUTS:
            answered.add(items[end][1].get("call_id"))
            end += 1

        for call_at in range(begin, at):
            id_ = items[call_at][1].get("call_id")
            if id_ not in answered:
                yield f"input[{call_at}]", {"id": id_}


def find_call_ids_twice(request: ResponsesRequest) -> Iterator[Finding]:
    """Ids that two calls have."""
    seen: set[str] = set()
    for at, (kind, item) in enumerate(request.items):
        if kind in _CALLS:
            id_ = item.get("call_id", "")
            if id_ in seen:
                yield f"input[{at}].call_id", {"at": at, "id": id_}

            seen.add(id_)


def find_second_outputs(request: ResponsesRequest) -> Iterator[Finding]:
    """Second outputs of one call."""
    answered: set[tuple[str, str]] = set()
    for at, (kind, item) in enumerate(request.items):
        key = (kind, item.get("call_id", ""))
        if kind in _CALLS:
            answered.discard((_CALLS[kind], key[1]))
        elif kind in _OUTPUTS:
            if key in answered:
                yield f"input[{at}].call_id", {"at": at, "id": key[1]}

            answered.add(key)


def find_items_twice(request: ResponsesRequest) -> Iterator[Finding]:
    """Items of one id."""
    seen: set[str] = set()
    for at, (_, item) in enumerate(request.items):
        id_ = item.get("id")
        if isinstance(id_, str):
            if id_ in seen:
                yield f"input[{at}].id", {"id": id_}

            seen.add(id_)


def find_reasoning_without_item(request: ResponsesRequest) -> Iterator[Finding]:
    """Reasoning, with its id, that no item of the model follows."""
    for at, (kind, item) in enumerate(request.items):
        if kind != "reasoning" or not item.get("id"):
            continue

        after = at + 1
        while after < len(request.items) and request.items[after][0] == "reasoning":
            after += 1

        if after == len(request.items):
            follows = False
        else:
            next_kind, next_item = request.items[after]
            follows = (
                next_item.get("role") == "assistant"
                if next_kind == "message"
                else next_kind not in _OUTPUTS
            )

        if not follows:
            yield f"input[{at}]", {"id": item.get("id", "")}


def find_items_without_reasoning(request: ResponsesRequest) -> Iterator[Finding]:
    """Items that this provider gave after reasoning, by their ids, without it."""
    if request.memory is None or request.continues:
        return

    sent: set[str] = set()
    for at, (kind, item) in enumerate(request.items):
        id_ = item.get("id")
        if not isinstance(id_, str):
            continue

        sent.add(id_)
        needed = request.memory.reasoning_of.get(id_)
        if needed is not None and needed not in sent:
            yield f"input[{at}]", {"id": id_, "kind": kind, "reasoning": needed}


def find_reasoning_not_stored(request: ResponsesRequest) -> Iterator[Finding]:
    """
    Reasoning without its encrypted content where nothing is stored.

    A provider that remembers what it answered knows which is stored. Without memory,
    a request that says ``store: false`` is taken to be one of many.
    """
    for at, (kind, item) in enumerate(request.items):
        if kind not in ("reasoning", "item_reference"):
            continue

        id_ = item.get("id")
        if item.get("encrypted_content") or not isinstance(id_, str):
            continue

        if request.memory is not None:
            stored = id_ in request.memory.stored
        else:
            stored = request.body.get("store", True) is not False

        if not stored:
            yield f"input[{at}]", {"id": id_}


def find_items_not_stored(request: ResponsesRequest) -> Iterator[Finding]:
    """Items of this provider, by their ids, that it was asked not to store."""
    if request.memory is None:
        return

    for at, (kind, item) in enumerate(request.items):
        id_ = item.get("id")
        if kind != "reasoning" and id_ in request.memory.unstored:
            yield f"input[{at}]", {"id": id_}


def find_changed_encryption(request: ResponsesRequest) -> Iterator[Finding]:
    """Encrypted content that this provider did not give, once it has given some."""
    if request.memory is None or not request.memory.encrypted:
        return

    for at, (kind, item) in enumerate(request.items):
        content = item.get("encrypted_content") if kind == "reasoning" else None
        if content and content not in request.memory.encrypted:
            yield f"input[{at}].encrypted_content", {"content": content[:8]}


def find_odd_item_ids(request: ResponsesRequest) -> Iterator[Finding]:
    """Ids of items that begin otherwise than their kind does."""
    for at, (kind, item) in enumerate(request.items):
        id_ = item.get("id")
        prefixes = _PREFIX.get(kind)
        if isinstance(id_, str) and prefixes and not id_.startswith(prefixes):
            path = f"input[{at}].id"
            yield path, {"path": path, "id": id_, "prefix": prefixes[0]}


def _iterate_ids(request: ResponsesRequest) -> Iterator[tuple[str, str]]:
    for at, (_, item) in enumerate(request.items):
        for key in ("id", "call_id"):
            id_ = item.get(key)
            if isinstance(id_, str):
                yield f"input[{at}].{key}", id_


def find_odd_characters_in_ids(request: ResponsesRequest) -> Iterator[Finding]:
    """Ids of items with other than letters, digits, underscores and dashes."""
    for at, (_, item) in enumerate(request.items):
        id_ = item.get("id")
        if isinstance(id_, str) and id_ and not NAME.match(id_):
            path = f"input[{at}].id"
            yield path, {"path": path, "id": id_}


def _iterate_names(request: ResponsesRequest) -> Iterator[tuple[str, str]]:
    for at, (kind, item) in enumerate(request.items):
        if kind == "function_call":
            yield f"input[{at}].name", item["name"]

    for at, tool in objects_of(request.body.get("tools")):
        if tool.get("type") == "function":
            yield f"tools[{at}].name", str(tool.get("name"))


def find_broken_arguments(request: ResponsesRequest) -> Iterator[Finding]:
    """Arguments that are no JSON object; none are taken."""
    for at, (kind, item) in enumerate(request.items):
        given = item.get("arguments") if kind == "function_call" else None
        if isinstance(given, str) and given and (error := error_of_arguments(given)):
            yield f"input[{at}].arguments", {"error": error}


def find_reasoning_content(request: ResponsesRequest) -> Iterator[Finding]:
    """Reasoning with its text in the open, as other servers give it."""
    for at, (kind, item) in enumerate(request.items):
        if kind == "reasoning" and item.get("content"):
            path = f"input[{at}].content"
            yield path, {"path": path, "limit": 0, "length": len(item["content"])}


def find_reasoning_for_others(request: ResponsesRequest) -> Iterator[Finding]:
    """Reasoning for a model that does not reason."""
    model = str(request.body.get("model", ""))
    if not _NO_REASONER.match(model):
        return

    for at, (kind, _) in enumerate(request.items):
        if kind == "reasoning":
            yield f"input[{at}]", {}


_NO_REASONER = re.compile("(ft:)?(chatgpt-4|gpt-[34])")


def find_answers_of_no_type(request: ResponsesRequest) -> Iterator[Finding]:
    """Answers of parts without the id, status or annotations of an item."""
    for at, (kind, item) in enumerate(request.items):
        content = item.get("content")
        if (
            kind != "message"
            or item.get("role") != "assistant"
            or not isinstance(content, list | tuple)
        ):
            continue

        for key in ("id", "status", "type"):
            if key not in item:
                yield f"input[{at}].{key}", {"at": at, "key": key}

        for part_at, part in enumerate(content):
            if part.get("type") == "output_text" and "annotations" not in part:
                where = f"content[{part_at}].annotations"
                yield f"input[{at}].{where}", {"at": at, "key": where}


def _iterate_images(request: ResponsesRequest) -> Iterator[tuple[str, str]]:
    for path, _, part in request.parts:
        url = part.get("image_url")
        if part.get("type") == "input_image" and isinstance(url, str):
            yield f"{path}.image_url", url


def _is_odd_image(url: str) -> bool:
    kind = url[5:].partition(";")[0].partition(",")[0].lower()
    return url.startswith("data:") and kind not in _IMAGES


def find_files_without_name(request: ResponsesRequest) -> Iterator[Finding]:
    """Files by value that have no name."""
    for path, _, part in request.parts:
        is_file = part.get("type") == "input_file" and part.get("file_data")
        if is_file and not part.get("filename"):
            yield path, {"path": path}


_ISSUES = "https://github.com/"
_REFERENCE = "https://platform.openai.com/docs/api-reference/responses/create"


_rule = partial(make_rule, "openai_responses")

RESPONSES_RULES: tuple[ProviderRule, ...] = (
    # The form.
    _rule("missing", noted("missing"), MISSING, _REFERENCE),
    _rule(
        "input_missing",
        noted("input_missing"),
        'One of "input" or "previous_response_id" or \'prompt\' or '
        "'conversation_id' must be provided.",
        _REFERENCE,
        param="input",
        code="missing_required_parameter",
    ),
    _rule("type", noted("type"), WRONG_TYPE, _REFERENCE),
    _rule("value", noted("value"), WRONG_VALUE, _REFERENCE),
    _rule(
        "unknown_key",
        noted("unknown"),
        "Unknown parameter: '{path}'.",
        _REFERENCE,
        param="{path}",
        code="unknown_parameter",
    ),
    _rule(
        "foreign_item",
        noted("foreign_item"),
        "Invalid value: '{found}'. Supported values are: 'message', 'reasoning', "
        "'function_call', and 'function_call_output'.",
        _REFERENCE,
        param="{path}",
        code="invalid_value",
    ),
    _rule(
        "moved_parameter",
        find_moved_parameters,
        "Unsupported parameter: '{path}'. In the Responses API, this parameter has "
        "moved to '{now}'. Try again with the new parameter. See the API documentation "
        "for more information: "
        "https://platform.openai.com/docs/api-reference/responses/create.",
        _ISSUES + "madox2/vim-ai/issues/162",
        param="{path}",
        code="unsupported_parameter",
    ),
    _rule(
        "json_not_named",
        find_json_not_named,
        "Response input messages must contain the word 'json' in some form to use "
        "'text.format' of type 'json_object'.",
        "https://platform.openai.com/docs/guides/structured-outputs#json-mode",
        taken_by=("vllm",),
        param="input",
    ),
    # Calls and outputs.
    _rule(
        "call_without_result",
        find_unanswered_calls,
        "No tool output found for function call {id}.",
        _ISSUES + "openai/openai-agents-python/issues/673",
        param="input",
    ),
    _rule(
        "approval_missing",
        find_missing_approvals,
        "The following MCP approval requests do not have an approval: {id}",
        "https://platform.openai.com/docs/guides/tools-connectors-mcp",
        param="input",
    ),
    _rule(
        "result_without_call",
        find_outputs_without_calls,
        "No tool call found for function call output with call_id {id}.",
        _ISSUES + "james-6-23/codex2api/issues/414",
        param="input",
    ),
    _rule(
        "result_late",
        find_late_outputs,
        "No tool output found for tool call {id}",
        _ISSUES + "deepseek-ai/awesome-deepseek-integration/issues/740",
        by=("deepseek", REFERENCE),
        param="input",
    ),
    _rule(
        "second_result",
        find_second_outputs,
        "Duplicate function call output for call_id {id}.",
        _REFERENCE,
        by=(REFERENCE,),
        param="input",
    ),
    _rule(
        "id_twice",
        find_call_ids_twice,
        "Duplicate function call with call_id {id}.",
        _REFERENCE,
        by=(REFERENCE,),
        param="input",
    ),
    # Items.
    _rule(
        "previous_not_found",
        find_unknown_previous,
        "Previous response with id '{id}' not found.",
        _ISSUES + "smg-project/smg/pull/916",
        param="previous_response_id",
        code="previous_response_not_found",
    ),
    _rule(
        "item_twice",
        find_items_twice,
        "Duplicate item found with id {id}. Remove duplicate items from your input "
        "and try again.",
        _ISSUES + "vercel/ai/issues/7883",
        param="input",
    ),
    _rule(
        "reasoning_without_item",
        find_reasoning_without_item,
        "Item '{id}' of type 'reasoning' was provided without its required following "
        "item.",
        _ISSUES + "continuedev/continue/issues/8933",
        param="input",
    ),
    _rule(
        "item_without_reasoning",
        find_items_without_reasoning,
        "Item '{id}' of type '{kind}' was provided without its required 'reasoning' "
        "item: '{reasoning}'.",
        _ISSUES + "cline/cline/issues/12242",
        param="input",
    ),
    _rule(
        "reasoning_not_stored",
        find_reasoning_not_stored,
        "Item with id '{id}' not found. Items are not persisted when `store` is set "
        "to false. Try again with `store` set to true, or remove this item from your "
        "input.",
        _ISSUES + "vercel/ai/issues/7543",
        param="input",
        status=404,
    ),
    _rule(
        "item_not_stored",
        find_items_not_stored,
        "Item with id '{id}' not found. Items are not persisted when `store` is set "
        "to false. Try again with `store` set to true, or remove this item from your "
        "input.",
        _ISSUES + "langchain-ai/langchain/pull/38372",
        param="input",
        status=404,
    ),
    _rule(
        "encryption",
        find_changed_encryption,
        "The encrypted content {content}... could not be verified. Reason: Encrypted "
        "content could not be decrypted or parsed.",
        _ISSUES + "edison7009/EchoBird/issues/255",
        code="invalid_encrypted_content",
    ),
    _rule(
        "reasoning_content",
        find_reasoning_content,
        LONG_ARRAY,
        _ISSUES + "musistudio/claude-code-router/issues/1783",
    ),
    _rule(
        "reasoning_for_others",
        find_reasoning_for_others,
        "Reasoning input items can only be provided to a reasoning or computer use "
        "model. Remove reasoning items from your input and try again.",
        _ISSUES + "openai/openai-agents-python/issues/569",
        param="input",
    ),
    _rule(
        "arguments_broken",
        find_broken_arguments,
        "{error}",
        _ISSUES + "vllm-project/vllm/issues/55495",
        by=("vllm",),
        type="BadRequestError",
    ),
    _rule(
        "answer_of_no_type",
        find_answers_of_no_type,
        "[{{'type': 'missing', 'loc': ('body', 'input', {at}, '{key}'), 'msg': 'Field "
        "required'}}]",
        _ISSUES + "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark/issues/138",
        by=("vllm", REFERENCE),
        type="BadRequestError",
    ),
    # Ids and names.
    _rule(
        "item_id_prefix",
        find_odd_item_ids,
        "Invalid '{path}': '{id}'. Expected an ID that begins with '{prefix}'.",
        _ISSUES + "Wei-Shaw/sub2api/issues/3981",
        param="{path}",
        code="invalid_value",
    ),
    _rule(
        "item_id_characters",
        find_odd_characters_in_ids,
        "Invalid '{path}': '{id}'. Expected an ID that contains letters, numbers, "
        "underscores, or dashes, but this value contained additional characters.",
        _ISSUES + "ranxianglei/billion-context/issues/1052",
        param="{path}",
        code="invalid_value",
    ),
    _rule(
        "id_too_long",
        longer_than(64, _iterate_ids),
        LONG_STRING,
        _ISSUES + "AnswerDotAI/fastllm/issues/45",
    ),
    _rule("id_empty", empty(_iterate_ids), EMPTY_STRING, _REFERENCE),
    _rule(
        "name_characters", has_odd_characters(_iterate_names), ODD_STRING, _REFERENCE
    ),
    _rule("name_too_long", longer_than(64, _iterate_names), LONG_STRING, _REFERENCE),
    _rule("name_empty", empty(_iterate_names), EMPTY_STRING, _REFERENCE),
    # Images.
    _rule(
        "image_format",
        wrong(_iterate_images, _is_odd_image),
        "The image data you provided does not represent a valid image. Please check "
        "your input and try again with one of the supported image formats: "
        "['image/jpeg', 'image/png', 'image/gif', 'image/webp'].",
        _REFERENCE,
        param="input",
        code="invalid_value",
    ),
    _rule(
        "file_without_name",
        find_files_without_name,
        MISSING,
        _ISSUES + "laravel/ai/issues/321",
    ),
    _rule(
        "image_url",
        wrong(_iterate_images, lambda url: not url.startswith(_ADDRESSES)),
        ODD_URL,
        _REFERENCE,
    ),
)
