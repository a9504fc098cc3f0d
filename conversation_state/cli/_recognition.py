"""
Recognises the format of a JSON value by its keys, its roles and the types of its
blocks; and describes a value of an unknown format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from conversation_state._wording import shorten_text
from conversation_state.cli._values import WRAPPERS

Body: TypeAlias = Mapping[str, Any]
SESSIONS = ("claude_code", "codex", "gemini_cli", "opencode", "pi", "sts")


# What is in a list of messages


class _Facts(NamedTuple):
    # Of the objects of a list: all keys, roles and types, and all types of blocks.
    keys: frozenset[str]
    roles: frozenset[str]
    types: frozenset[str]
    blocks: frozenset[str]
    parts: frozenset[str]
    texts: tuple[str, ...]  # that may have tags in them


def _collect_facts(items: Sequence[Any]) -> _Facts:
    keys: set[str] = set()
    roles: set[str] = set()
    types: set[str] = set()
    blocks: set[str] = set()
    parts: set[str] = set()
    texts: list[str] = []
    for item in items:
        keys.update(item)
        calls = item.get("tool_calls")
        if isinstance(calls, str):
            keys.add("tool_calls+text")
        elif isinstance(calls, list) and any(map(_has_arguments, calls)):
            keys.add("tool_calls+object")  # Ollama's

        if not isinstance(item.get("extra", {}), (dict, type(None))):
            keys.discard("extra")

        for key, words in (("role", roles), ("from", roles), ("type", types)):
            if isinstance(word := item.get(key), str):
                words.add(word)

        for key, words in (("content", blocks), ("parts", parts)):
            listed = item.get(key)
            found = map(_describe_block, listed if isinstance(listed, list) else ())
            # What a tool returns may be a list of anything.
            is_result = item.get("role") in ("function", "tool")
            words.update(word for word in found if not (is_result and word[:1] == "+"))

        texts += [t for t in (item.get("content"),) if isinstance(t, str) and "<" in t]

    return _Facts(
        frozenset(keys),
        frozenset(roles),
        frozenset(types),
        frozenset(blocks),
        frozenset(parts),
        tuple(texts),
    )


def _has_arguments(call: Any) -> bool:
    return isinstance(call, dict) and isinstance(
        _get_object(call, "function").get("arguments"), dict
    )


def _describe_block(block: Any) -> str:
    if not isinstance(block, dict):
        return "text" if isinstance(block, str) else "?"

    kind = block.get("type")
    if isinstance(kind, str):
        if kind == "thinking" and not isinstance(block.get("thinking"), str):
            return "thinking+list"  # Mistral's

        # Others have a block of this type, too, without this key.
        for key, of_key in _TELLING_KEYS.get(kind, ()):
            if isinstance(block.get(key), of_key):
                return f"{kind}+{key}"

        return kind

    # Tables of data sets have each key, null where a block has not that one.
    return f"+{next((key for key in block if block[key] is not None), '')}"


_TELLING_KEYS: Mapping[str, tuple[tuple[str, type], ...]] = {
    "document": (("source", dict),),
    "file": (("data", str),),
    "image": (("source", dict), ("image", str)),
    "reasoning": (("text", str),),
    "text": (("text", dict),),
}
# Blocks that only one format has, beside those that several have.
_ANTHROPIC_BLOCKS = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "image+source"}
    | {"document+source", "server_tool_use", "web_search_tool_result", "mcp_tool_use"}
    | {"mcp_tool_result", "web_fetch_tool_result", "code_execution_tool_result"}
    | {"container_upload", "compaction", "search_result", "tool_reference"}
    | {"tool_search_tool_result", "bash_code_execution_tool_result"}
    | {"text_editor_code_execution_tool_result", "advisor_tool_result"}
)
_CHAT_BLOCKS = frozenset({"image_url", "input_audio", "file", "video_url"})
_RESPONSES_BLOCKS = frozenset(
    {"input_text", "input_image", "input_file", "output_text", "summary_text"}
)
_RESPONSES_ITEMS = frozenset(
    {"function_call", "function_call_output", "reasoning", "custom_tool_call"}
    | {"custom_tool_call_output", "item_reference", "web_search_call"}
    | {"file_search_call", "computer_call", "computer_call_output"}
    | {"code_interpreter_call", "image_generation_call", "mcp_call", "mcp_list_tools"}
    | {"mcp_approval_request", "mcp_approval_response", "local_shell_call"}
    | {"local_shell_call_output", "compaction"}
)
_SDK_BLOCKS = frozenset({"tool-call", "tool-result", "tool-invocation"})
_MODEL_BLOCKS = frozenset(
    {"tool-call", "tool-result", "file+data", "image+image", "reasoning+text"}
)
_CONVERSE_BLOCKS = frozenset(
    {"+audio", "+cachePoint", "+citationsContent", "+document", "+guardContent"}
    | {"+image", "+reasoningContent", "+searchResult", "+text", "+toolResult"}
    | {"+toolUse", "+video"}
)
_BUBO_TYPES = frozenset(
    {"user", "instructions", "assistant", "tool_call", "tool_response", "retry"}
)
_LANGCHAIN_TYPES = frozenset(
    {"human", "ai", "system", "tool", "function", "chat", "remove", "constructor"}
    | {"AIMessageChunk", "HumanMessageChunk", "SystemMessageChunk", "ToolMessageChunk"}
)
_LANGCHAIN_KEYS = frozenset(
    {"additional_kwargs", "data", "kwargs", "response_metadata"}
)
_EINO_KEYS = frozenset(
    {"response_meta", "user_input_multi_content", "assistant_output_multi_content"}
    | {"extra", "multi_content", "tool_name", "user_output_multi_content"}
)
_CHAT_ROLES = frozenset(
    {"assistant", "developer", "function", "system", "tool", "user"}
)
_SHARED_KEYS = frozenset({"from", "value", "tool_calls+text"})
_TAGS = ("<tool_call>", "<tool_response>")


def recognize_items(items: Sequence[Any]) -> str:
    """The format of a list of messages; "" if it is unknown."""
    found = [each for each in items if isinstance(each, dict)]
    facts = _collect_facts(found)
    return next((name for name, test in _ITEM_TESTS if test(facts)), "")


def _is_langchain(facts: _Facts) -> bool:
    return facts.types <= _LANGCHAIN_TYPES and bool(
        facts.types and facts.keys & _LANGCHAIN_KEYS
    )


def _has_anthropic(facts: _Facts) -> bool:
    is_chat = "tool_calls" in facts.keys or facts.roles & {"tool", "function"}
    return bool(facts.blocks & _ANTHROPIC_BLOCKS) and not (
        is_chat and facts.blocks & _ANTHROPIC_BLOCKS <= {"thinking"}
    )


def _has_responses(facts: _Facts) -> bool:
    return bool(facts.types & _RESPONSES_ITEMS or facts.blocks & _RESPONSES_BLOCKS)


def _is_shared(facts: _Facts) -> bool:
    if facts.keys & _SHARED_KEYS:
        return True

    has_text = facts.keys & {"content", "text", "tool_calls"}
    if not (facts.roles and has_text):
        return False

    return (
        not facts.roles <= _CHAT_ROLES
        or "content" not in facts.keys
        or any(tag in text for text in facts.texts for tag in _TAGS)
    )


# Tried in this order; those with the fewest common keys first.
_ITEM_TESTS: tuple[tuple[str, Callable[[_Facts], bool]], ...] = (
    ("gemini_stream", lambda f: "candidates" in f.keys),
    ("ollama", lambda f: {"done", "message"} <= f.keys),
    ("langchain", _is_langchain),
    ("pydantic_ai", lambda f: {"kind", "parts"} <= f.keys and "role" not in f.keys),
    ("assistant_ui", lambda f: {"parentId", "message"} <= f.keys),
    ("assistant_ui", lambda f: {"parent_id", "content", "format"} <= f.keys),
    ("librechat", lambda f: {"messageId", "parentMessageId"} <= f.keys),
    (
        "ai_sdk",
        lambda f: (
            bool(f.parts)
            and "model" not in f.roles  # Gemini's
            and not any(p[:1] == "+" for p in f.parts)
        ),
    ),
    (
        "ai_sdk",
        lambda f: bool(f.keys & {"experimental_attachments", "toolInvocations"}),
    ),
    ("gemini", lambda f: "parts" in f.keys and "content" not in f.keys),
    ("openai_responses", _has_responses),
    (
        "bubo",
        lambda f: (
            not f.keys & {"message", "model_id", "role"}
            and ("tool_calls" not in f.keys or "tool_call" in f.types)
            and f.types <= _BUBO_TYPES
            and bool(f.types)
        ),
    ),
    (
        "ag_ui",
        lambda f: (
            bool(f.keys & {"toolCalls", "toolCallId"})
            or bool(f.roles & {"activity", "reasoning"})
        ),
    ),
    (
        "openai_assistants",
        lambda f: "text+text" in f.blocks or {"object", "thread_id"} <= f.keys,
    ),
    (
        "ai_sdk_model",
        # Roo Code has thoughts of this type among Anthropic's blocks.
        lambda f: bool(f.blocks & _MODEL_BLOCKS) and not _has_anthropic(f),
    ),
    (
        "bedrock_converse",
        lambda f: bool(f.blocks & _CONVERSE_BLOCKS) and "tool_calls" not in f.keys,
    ),
    ("anthropic", _has_anthropic),
    (
        "eino",
        lambda f: (
            bool(f.keys & _EINO_KEYS and f.roles)
            and f.roles <= _CHAT_ROLES
            and "tool_calls+object" not in f.keys
        ),
    ),
    ("sharegpt", _is_shared),
    (
        "openai_chat",
        lambda f: (
            bool(f.roles)
            and f.roles <= _CHAT_ROLES
            and not any(each[:1] == "+" for each in f.blocks)
        ),
    ),
)


# What is in a record


def _get_list(record: Body, key: str) -> list[Any]:
    value = record.get(key)
    return value if isinstance(value, list) else []


def _get_object(record: Body, key: str) -> Body:
    value = record.get(key)
    return value if isinstance(value, dict) else {}


# Where a record has its messages.
MESSAGE_KEYS = ("messages", "conversations", "conversation", "items")
_OTHER_KEYS = ("chat", "dialog", "dialogue", "thread", "trajectory", "transcript")


def find_message_key(record: Body) -> str:
    """Where *record* has a list of messages; "" if nowhere."""
    found = (key for key in (*MESSAGE_KEYS, *_OTHER_KEYS) if _get_list(record, key))
    return next((key for key in found if recognize_items(record[key])), "")


_IDS = (
    *("id", "uuid", "custom_id", "conversation_id", "conversationId", "session_id"),
    "conversation_hash",
    *("sessionId", "thread_id", "threadId", "key", "recordId"),
)


def find_id(record: Body) -> str:
    """The name that *record* has, or ""."""
    for key in _IDS:
        given = record.get(key)
        if isinstance(given, str) and given:
            return given

        if type(given) is int:  # True is an int to Python, and no name
            return str(given)

    return ""


def _recognize_messages(record: Body) -> str:
    return recognize_items(_get_list(record, find_message_key(record)))


def _is_responses(record: Body) -> bool:
    if record.get("object") == "response":
        return True

    # Others have an `input`, too; the API's is a text only where a model is named.
    given = record.get("input")
    if isinstance(given, str):
        is_asked = "model" in record and not _is_embedding(record)
        return is_asked and not record.keys() & {"output", "instruction"}

    items = given if isinstance(given, list) else _get_list(record, "output")
    return recognize_items(items) in {"openai_responses", "openai_chat"}


def _is_embedding(record: Body) -> bool:
    """Whether *record* asks for an embedding, a moderation or speech, or has some."""
    model, data = record.get("model"), _get_list(record, "data")
    if data and isinstance(data[0], dict) and data[0].get("object") == "embedding":
        return True

    is_named = isinstance(model, str) and any(word in model for word in _OTHER_MODELS)
    is_other = is_named and not record.keys() & _KEYS_OF_ANSWERS
    return "input" in record and (
        is_other or bool(record.keys() & _OTHER_KEYS_OF_INPUT)
    )


_OTHER_MODELS = ("embed", "moderation", "tts-")
_OTHER_KEYS_OF_INPUT = frozenset({"dimensions", "encoding_format", "voice"})
# Of requests to models of any name.
_KEYS_OF_ANSWERS = frozenset(
    {"conversation", "instructions", "max_output_tokens", "previous_response_id"}
    | {"reasoning", "stream", "temperature", "text", "tool_choice", "tools", "top_p"}
)


def _is_item_list(record: Body) -> bool:
    items = _get_list(record, "data")
    is_list = record.get("object") == "list"
    return is_list and recognize_items(items) == "openai_responses"


def _is_anthropic(record: Body) -> bool:
    if record.get("type") == "message":
        is_answer = record.keys() & {"model", "stop_reason", "usage"}
        return bool(is_answer and _get_list(record, "content"))

    messages = _get_list(record, "messages")
    if recognize_items(messages) == "anthropic":
        return True

    # One whose blocks are all texts.
    model = record.get("model")
    is_named = isinstance(model, str) and "claude" in model and "max_tokens" in record
    return recognize_items(messages) == "openai_chat" and (
        is_named or isinstance(record.get("system"), list)
    )


def _is_gemini(record: Body) -> bool:
    if _get_list(record, "candidates") or "promptFeedback" in record:
        return True

    return recognize_items(_get_list(record, "contents")) == "gemini"


def _is_converse(record: Body) -> bool:
    answer = _get_object(record, "output").get("message")
    listed = [answer] if isinstance(answer, dict) else _get_list(record, "messages")
    return recognize_items(listed) == "bedrock_converse"


def _has_answers(record: Body) -> bool:
    return any(
        isinstance(each, dict) and isinstance(each.get("message"), dict)
        for each in _get_list(record, "choices")
    )


def _is_open_webui(record: Body) -> bool:
    chat = _get_object(record, "chat")
    # Old ones have a list alone.
    has_tree = _get_object(chat, "history").get("messages")
    return "history" in chat and bool(has_tree or not _get_list(chat, "messages"))


def _is_opencode(record: Body) -> bool:
    # Messages of version 2 have their times, and are refused by name.
    return "info" in record and any(
        isinstance(each, dict)
        and ({"info", "parts"} <= each.keys() or {"time", "type"} <= each.keys())
        for each in _get_list(record, "messages")
    )


def _is_instruction(record: Body) -> bool:
    asked = record.keys() & {"instruction", "query"}
    return bool(asked and record.keys() & {"output", "answers"})


def _is_preference(record: Body) -> bool:
    return any(keys <= record.keys() for keys in _PREFERENCES)


_PREFERENCES = ({"chosen", "rejected"}, {"preferred_output", "non_preferred_output"})

Test: TypeAlias = Callable[[Body], bool]
# What an API takes and gives, in the order in which it is tried.
_API_TESTS: tuple[tuple[str, Test], ...] = (
    ("openai_chat", _has_answers),
    ("gemini", _is_gemini),
    ("anthropic", _is_anthropic),
    ("bedrock_converse", _is_converse),
    ("ollama", lambda r: "done" in r and bool(_get_object(r, "message"))),
    ("openai_responses", _is_responses),
    ("openai_chat", lambda r: _recognize_messages(r) == "openai_chat"),
)
# What has requests and responses in it, of one API

_LOG_IDS = ("custom_id", "recordId")
_REQUESTS = (
    *("request", "request_body", "requestBody", "params", "modelInput", "body"),
    "input",
)
RESPONSES = (
    *("response", "response_body", "responseBody", "result", "modelOutput", "output"),
)


class _Log(NamedTuple):
    request: Body  # {} without a request
    response: Body  # the same
    paths: tuple[str, str]
    error: Any
    keys: frozenset[str]  # of the record, that these are from


def split_log(record: Body) -> _Log:
    """The request and the response in *record*, out of what a batch has around them."""
    request: Body = {}
    response: Body = {}
    paths = ["$", "$"]
    keys: set[str] = set()
    for key in _REQUESTS:
        if request := _parse_inner(record.get(key)):
            keys.add(key)
            request, paths[0] = _unwrap_body(request, key)
            break

    error = record.get("error")
    for key in RESPONSES:
        if response := _parse_inner(record.get(key)):
            keys.add(key)
            response, paths[1] = _unwrap_body(response, key)
            break

    if response.get("type") in ("canceled", "errored", "expired"):
        error = error or response.get("error") or response["type"]

    for key in ("body", "message", "error"):
        # OpenAI's batches have a status and a body, Anthropic's a type and a message.
        if response.keys() & {"status_code", "type"} and (
            inner := _parse_inner(response.get(key))
        ):
            if "role" in response:
                break

            response = inner if key != "error" else {"error": inner}
            paths[1] += f".{key}"
            break

    if not request and response and _recognize_messages(record):
        request = record
        keys |= {"messages"}

    return _Log(request, response, (paths[0], paths[1]), error, frozenset(keys))


def _unwrap_body(found: Body, key: str) -> tuple[Body, str]:
    # Bedrock's logs of invocations have an input and an output, with a body each.
    body = _parse_inner(found.get(f"{key}BodyJson"))
    return (body, f"$.{key}.{key}BodyJson") if body else (found, f"$.{key}")


def _parse_inner(value: Any) -> Body:
    if isinstance(value, str) and value[:1] == "{":
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}

    return value if isinstance(value, dict) else {}


def _is_log(record: Body) -> bool:
    if any(key in record for key in _LOG_IDS):
        return True

    log = split_log(record)
    if not log.request and recognize_items(_get_list(record, "input")):
        return False  # a request, with its answer beside the input

    return any(recognize_api(each) for each in (log.request, log.response)) and (
        log.request is not record or bool(recognize_api(log.response))
    )


def recognize_api(body: Body) -> str:
    return next((name for name, test in _API_TESTS if test(body)), "")


# All others; a log has requests and responses in it.
_RECORD_TESTS: tuple[tuple[str, Test], ...] = (
    ("json", lambda r: r.get("format") == "conversation_state"),
    (
        "chatgpt",
        lambda r: isinstance(r.get("mapping"), dict) and "inserted_at" not in r,
    ),
    ("open_webui", _is_open_webui),
    ("claude_ai", lambda r: isinstance(r.get("chat_messages"), list)),
    (
        "librechat",
        lambda r: (
            "conversationId" in r and bool({"messages", "messagesTree"} & r.keys())
        ),
    ),
    ("opencode", _is_opencode),
    ("openai_responses", _is_item_list),
    ("gemini_cli", lambda r: {"sessionId", "startTime", "messages"} <= r.keys()),
    ("preferences", _is_preference),
    ("log", _is_log),
    ("ag_ui", lambda r: {"threadId", "messages"} <= r.keys()),
    *_API_TESTS,
    (
        "sharegpt",
        lambda r: "prompt" in r and bool({"completion", "response"} & r.keys()),
    ),
    ("instructions", _is_instruction),
)


def recognize(value: Any) -> str:
    """
    The format of *value*, an object or a list of messages; "" if it is in none.

    >>> recognize({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]})
    'gemini'
    >>> recognize([{"type": "tool_use"}])
    ''
    """
    if isinstance(value, list):
        return recognize_items(value)

    if not isinstance(value, dict):
        return ""

    found = (name for name, test in _RECORD_TESTS if test(value))
    return next(found, "") or _recognize_messages(value)


def find_list(value: Any, path: str, levels: int = 3) -> tuple[str, list[Any], str]:
    """
    The conversations that an object has under a key, or as its values by name, with
    the path of the list and the keys beside it; empty if it has no list.
    """
    if not isinstance(value, dict) or not levels or recognize(value):
        return path, [], ""

    values = [each for each in value.values() if not _is_empty(each)]
    is_named = len(value) > 1 and bool(values) and all(map(recognize, values))
    if is_named and not _find_lookalike(value):
        named = [
            {"id": key, **(each if isinstance(each, dict) else {"messages": each})}
            for key, each in value.items()
        ]
        return path, named, ""

    for key in WRAPPERS:
        listed, where = value.get(key), f"{path}.{key}"
        if isinstance(listed, dict):
            where, listed, _ = find_list(listed, where, levels - 1)

        if isinstance(listed, list) and any(map(recognize, listed)):
            return where, listed, ", ".join(each for each in value if each != key)

    return path, [], ""


def _is_empty(value: Any) -> bool:
    """Whether *value* is a conversation without messages."""
    return isinstance(value, dict) and any(value.get(k) == [] for k in MESSAGE_KEYS)


def find_rows(value: Any, path: str) -> tuple[list[Any], str, str]:
    """
    The messages of *value*, a list or an object without a name that has one, with their
    path and the keys beside them; [] if it has none.
    """
    if isinstance(value, list):
        return (value if recognize_items(value) else []), path, ""

    if not isinstance(value, dict) or find_id(value):
        return [], path, ""

    key = find_message_key(value)
    beside = ", ".join(each for each in value if each != key)
    return _get_list(value, key), f"{path}.{key}", beside


def unwrap(value: Any, path: str, levels: int = 3) -> tuple[str, Any, str]:
    """
    The conversation, or what `find_list` finds some in, that an object has under one of
    its keys, beside plain values: with its path, and the keys of those. Else *value*.
    """
    if not isinstance(value, dict) or recognize(value) or _find_lookalike(value):
        return path, value, ""

    inside = [key for key in value if isinstance(value[key], (dict, list))]
    if "values" in inside and {"next", "thread_id"} & value.keys():
        # A thread, or a state of one, as LangGraph's server has it.
        inside = ["values"]
        value = {"id" if key == "thread_id" else key: value[key] for key in value}

    if len(inside) != 1 or not levels:
        return path, value, ""

    where, found, beside = unwrap(value[inside[0]], f"{path}.{inside[0]}", levels - 1)
    if not (recognize(found) or find_list(found, where)[1]):
        return path, value, ""

    keys = [key for key in value if key not in {*inside, "id"}]
    if "id" in value and isinstance(found, dict):
        found = {"id": value["id"], **found}
    elif "id" in value:
        keys.append("id")

    return where, found, ", ".join([*keys, *([beside] if beside else [])])


def is_item(value: Any) -> bool:
    """Whether *value* is one message, so that its conversation has others beside it."""
    if not isinstance(value, dict):
        return False

    return is_piece(value) if recognize(value) else bool(recognize_items([value]))


def is_piece(value: Body) -> bool:
    """Whether *value* is one of the responses of a stream, not the last."""
    if value.get("done") is False and _get_object(value, "message"):
        return True  # Ollama's; the others are Gemini's

    answers = [
        each for each in _get_list(value, "candidates") if isinstance(each, dict)
    ]
    is_open = not any("finishReason" in each for each in answers)
    return bool(answers) and is_open and "contents" not in value


# Sessions of coding agents

_CLAUDE_TYPES = frozenset(
    {"ai-title", "custom-title", "file-history-snapshot", "file-history-delta"}
    | {"last-prompt", "pr-link", "queue-operation", "summary"}
)
_CODEX_TYPES = frozenset(
    {"compacted", "event_msg", "response_item", "session_meta", "turn_context"}
    | {"world_state"}
)


# What a log of requests has beside their ids, times and instructions, too.
_REQUEST_KEYS = frozenset(
    {"completion", "input", "messages", "model", "output", "prompt", "request"}
    | {"response", "type"}
)


def recognize_session(line: Any) -> str:
    """The format of the session that *line* is one of; "" if of none."""
    if not isinstance(line, dict):
        return ""

    # Those of two agents are a document, or were once.
    whole = recognize(line)
    if whole:
        return whole if whole in SESSIONS else ""

    keys = line.keys()
    kind = line["type"] if isinstance(line.get("type"), str) else ""
    is_gemini = {"sessionId", "projectHash"} <= keys or keys & {"$set", "$rewindTo"}
    is_header = kind == "session" and keys & {"harness", "version"}
    is_message = kind == "message" and isinstance(line.get("message"), dict)
    is_old = {"id", "timestamp"} <= keys and not keys & _REQUEST_KEYS
    name = ""
    if kind in _CODEX_TYPES and "payload" in keys:
        name = "codex"
    elif is_old and keys & {"git", "instructions"}:
        name = "codex"  # rollouts of 2025 begin so
    elif {"uuid", "parentUuid"} <= keys or (
        kind in _CLAUDE_TYPES and keys & {"leafUuid", "messageId", "sessionId"}
    ):
        name = "claude_code"
    elif is_header or is_message:
        name = "pi" if keys & {"version", "parentId"} else "sts"
    elif is_gemini and "messages" not in keys:
        name = "gemini_cli"

    return name


def may_begin_session(line: Any) -> bool:
    """
    Whether *line* may be one of a session though nothing says of which: agents add
    types of lines with each version.
    """
    return (
        isinstance(line, dict)
        and isinstance(line.get("type"), str)
        and not recognize(line)
        and not is_item(line)
    )


# What is no conversation, and what is another format's

_OWNERS: tuple[tuple[str, frozenset[str], str], ...] = (
    ("anthropic", _ANTHROPIC_BLOCKS - _RESPONSES_ITEMS - {"thinking"}, "Anthropic's"),
    ("openai_chat", _CHAT_BLOCKS - {"file"}, "OpenAI's chat"),
    ("openai_responses", _RESPONSES_BLOCKS, "OpenAI's Responses"),
    ("ai_sdk_model", _SDK_BLOCKS, "the AI SDK"),
    # It has thoughts as Responses does, and types in place of roles.
    (
        "grok",
        frozenset({"assistant", "system", "user"}),
        "Grok Build, which isn't read",
    ),
)


# Of the formats that other programs write blocks of their own in.
_KNOWN = {
    "anthropic": frozenset([each.partition("+")[0] for each in _ANTHROPIC_BLOCKS]),
    "openai_chat": _CHAT_BLOCKS | {"text", "refusal"},
}


def find_owner(kind: str, name: str) -> str:
    for owner, blocks, words in _OWNERS:
        if kind in blocks:
            return "" if owner == name else words

    return ""


def is_known(kind: str, name: str) -> bool:
    """Whether *name*, a format of messages, may have blocks of the type *kind*."""
    return name not in _KNOWN or kind in _KNOWN[name]


def describe_input(value: Any) -> str:
    """What *value* looks like, for a refusal."""
    if isinstance(value, dict):
        for key in WRAPPERS:
            listed = value.get(key)
            if isinstance(listed, list) and listed and isinstance(listed[0], dict):
                return (
                    f"an object with {key}, first of all {_describe_object(listed[0])}"
                )

        return _describe_object(value)

    if not isinstance(value, list):
        return f"{_JSON_KINDS.get(type(value), 'a number')}, not a conversation"

    if not value:
        return "an empty list"

    if all(isinstance(each, dict) for each in value):
        return f"a list that begins with {_describe_object(value[0])}"

    return "a list of other values than messages"


def _describe_object(value: Body) -> str:
    words = _find_lookalike(value)
    keys = ", ".join(sorted(value)[:_MAX_KEYS])
    if words or not keys:
        return words or "an empty object"

    for key in MESSAGE_KEYS:
        first = next(iter(_get_list(value, key)), None)
        if isinstance(first, dict):
            return f"an object with {key}, first of all {_describe_object(first)}"

    return f"an object with the keys {shorten_text(keys, 120)}"


def _find_lookalike(value: Body) -> str:
    return next((words for words, test in _LOOKALIKES if test(value)), "")


_MAX_KEYS = 8
_JSON_KINDS = {str: "a text", bool: "a truth value", type(None): "null"}


_EVENTS = (
    *("message_", "content_block_", "response.", "TEXT_MESSAGE_", "RUN_"),
    *("TOOL_CALL_", "STEP_", "STATE_"),
)


def _is_event(record: Body) -> bool:
    kind = record.get("type")
    is_named = isinstance(kind, str) and kind.startswith(_EVENTS)
    return (
        is_named
        or record.get("object") == "chat.completion.chunk"
        or any(
            isinstance(each, dict) and "delta" in each
            for each in _get_list(record, "choices")
        )
    )


_CODEX_OUTPUT = ("item.", "thread.", "turn.")


def _is_codex_output(record: Body) -> bool:
    kind = record.get("type")
    return isinstance(kind, str) and kind.startswith(_CODEX_OUTPUT)


# What people take for conversations, in words that name it.
_LOOKALIKES: tuple[tuple[str, Test], ...] = (
    ("a conversation without messages", _is_empty),
    ("an event of a streamed response; concat the chunks of load_chunks", _is_event),
    (
        "output of `claude -p`; import its session, of ~/.claude/projects",
        lambda r: (
            {"session_id", "type"} <= r.keys()
            and bool({"parent_tool_use_id", "subtype"} & r.keys())
        ),
    ),
    (
        "output of `codex exec`; import its session, of $CODEX_HOME/sessions",
        _is_codex_output,
    ),
    (
        "what Cline shows; import the api_conversation_history.json beside it",
        lambda r: {"ts", "type"} <= r.keys() and bool({"ask", "say"} & r.keys()),
    ),
    (
        "DeepSeek's export, which is not read",
        lambda r: {"inserted_at", "mapping"} <= r.keys(),
    ),
    ("a request for something else than an answer, or its result", _is_embedding),
    ("an error of a provider, not an answer", lambda r: bool(_get_object(r, "error"))),
    ("a completion without messages", lambda r: "choices" in r),
    (
        "a request of Cohere's, which is not read",
        lambda r: "chat_history" in r and "message" in r,
    ),
    (
        "a channel of people, of whom none is a model",
        lambda r: (
            "messages" in r and ("guild" in r or {"name", "type", "id"} <= r.keys())
        ),
    ),
    ("a message of Slack, with no model in it", lambda r: {"ts", "user"} <= r.keys()),
    (
        "data of an account, not a conversation",
        lambda r: bool({"email_address", "email", "phone_number"} & r.keys()),
    ),
    (
        "a list of shared conversations, without their messages",
        lambda r: {"conversation_id", "is_anonymous"} <= r.keys(),
    ),
    (
        "a message of SillyTavern, which is not read",
        lambda r: {"is_user", "mes"} <= r.keys(),
    ),
    (
        "an activity of Google Takeout, without its answer",
        lambda r: {"header", "title", "products"} <= r.keys(),
    ),
    ("a notebook", lambda r: {"cells", "nbformat"} <= r.keys()),
    ("spans of OpenTelemetry", lambda r: "resourceSpans" in r),
    (
        "a run of LangSmith's",
        lambda r: "run_type" in r or {"inputs", "outputs"} <= r.keys(),
    ),
    (
        "a trajectory in ATIF, which is not read",
        lambda r: {"agent", "steps"} <= r.keys(),
    ),
    (
        "a conversation in one text",
        lambda r: any(
            isinstance(r.get(key), str) for key in ("chat", "text", "dialog")
        ),
    ),
    (
        "a dialogue of speakers, of whom none is known as a user or model",
        lambda r: any(
            isinstance(each, dict) and "speaker" in each
            for key in ("dialog", "dialogue", "turns", "utterances")
            for each in _get_list(r, key)
        ),
    ),
)
