"""
The formats that `import` and `replay` read: which one a JSON value is in, and the
conversation that it holds.

What tells a format is what is in a value: keys, roles, and types of blocks. The table
of formats, and what data sets and logs have around a conversation are here; what a
message says is in `conversation_state.adapters`.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from conversation_state._persistent import EMPTY_MAP
from conversation_state._wording import shorten_text
from conversation_state.adapters import transcripts
from conversation_state.adapters.engine.notes import formats_of, list_of, notes_of
from conversation_state.aggregator import Aggregator
from conversation_state.chunks import concat
from conversation_state.cli._values import WRAPPERS
from conversation_state.codec import from_data
from conversation_state.errors import ConversationStateError, DecodeError, Problem
from conversation_state.messages import AssistantMessage, Message, UnknownMessage
from conversation_state.parts import TextPart, UnknownPart
from conversation_state.tree import MessageTree

Body: TypeAlias = Mapping[str, Any]


class FoundConversation(NamedTuple):
    """What one value holds."""

    messages: tuple[Message, ...]
    id: str = ""  # in the file; "" if it has none
    tree: MessageTree | None = None  # if the format has branches
    state: Aggregator | None = None  # if it is one of this library's
    notes: Body = EMPTY_MAP  # what it has besides messages
    mended: tuple[str, ...] = ()  # what was wrong, and could be read all the same
    is_tree: bool = False  # the format can have branches


def fail(what: str, path: str = "$") -> DecodeError:
    return DecodeError((Problem(path, what),))


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
        if isinstance(item.get("tool_calls"), str):
            keys.add("tool_calls+text")

        for key, words in (("role", roles), ("from", roles), ("type", types)):
            if isinstance(word := item.get(key), str):
                words.add(word)

        for key, words in (("content", blocks), ("parts", parts)):
            listed = item.get(key)
            for block in listed if isinstance(listed, list) else ():
                words.add(_describe_block(block))

        texts += [t for t in (item.get("content"),) if isinstance(t, str) and "<" in t]

    return _Facts(
        frozenset(keys),
        frozenset(roles),
        frozenset(types),
        frozenset(blocks),
        frozenset(parts),
        tuple(texts),
    )


def _describe_block(block: Any) -> str:
    if not isinstance(block, dict):
        return "text" if isinstance(block, str) else "?"

    kind = block.get("type")
    if isinstance(kind, str):
        if kind in {"image", "document"} and isinstance(block.get("source"), dict):
            return f"{kind}+source"

        if kind == "thinking" and not isinstance(block.get("thinking"), str):
            return "thinking+list"  # Mistral's

        return kind

    return f"+{next(iter(block), '')}"


# Blocks that only one format has, beside those that several have.
_ANTHROPIC_BLOCKS = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "image+source"}
    | {"document+source", "server_tool_use", "web_search_tool_result", "mcp_tool_use"}
    | {"mcp_tool_result", "web_fetch_tool_result", "code_execution_tool_result"}
    | {"container_upload", "compaction"}
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


def _recognize_items(items: Sequence[Any]) -> str:
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
    ("langchain", _is_langchain),
    ("pydantic_ai", lambda f: {"kind", "parts"} <= f.keys and "role" not in f.keys),
    ("assistant_ui", lambda f: {"parentId", "message"} <= f.keys),
    ("assistant_ui", lambda f: {"parent_id", "content", "format"} <= f.keys),
    ("librechat", lambda f: {"messageId", "parentMessageId"} <= f.keys),
    ("ai_sdk", lambda f: bool(f.parts) and not any(p[:1] == "+" for p in f.parts)),
    ("ai_sdk", lambda f: "toolInvocations" in f.keys),
    ("gemini", lambda f: "parts" in f.keys and "content" not in f.keys),
    ("openai_responses", _has_responses),
    (
        "bubo",
        lambda f: "role" not in f.keys and f.types <= _BUBO_TYPES and bool(f.types),
    ),
    (
        "ag_ui",
        lambda f: (
            bool(f.keys & {"toolCalls", "toolCallId"})
            or bool(f.roles & {"activity", "reasoning"})
        ),
    ),
    ("anthropic", _has_anthropic),
    ("eino", lambda f: bool(f.keys & _EINO_KEYS) and f.roles <= _CHAT_ROLES),
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


def _listed(record: Body, key: str) -> list[Any]:
    value = record.get(key)
    return value if isinstance(value, list) else []


def _inner(record: Body, key: str) -> Body:
    value = record.get(key)
    return value if isinstance(value, dict) else {}


# Where a record has its messages.
_MESSAGE_KEYS = ("messages", "conversations", "conversation", "items")


def _recognize_messages(record: Body) -> str:
    found = (_recognize_items(_listed(record, key)) for key in _MESSAGE_KEYS)
    return next((name for name in found if name), "")


def _is_responses(record: Body) -> bool:
    if record.get("object") == "response":
        return True

    # Others have an `input`, too; the API's is a text only where a model is named.
    given = record.get("input")
    if isinstance(given, str):
        return "model" in record and not record.keys() & {"output", "instruction"}

    items = given if isinstance(given, list) else _listed(record, "output")
    return _recognize_items(items) in {"openai_responses", "openai_chat"}


def _is_anthropic(record: Body) -> bool:
    if record.get("type") == "message":
        is_answer = record.keys() & {"model", "stop_reason", "usage"}
        return bool(is_answer and _listed(record, "content"))

    messages = _listed(record, "messages")
    if _recognize_items(messages) == "anthropic":
        return True

    # One whose blocks are all texts.
    model = record.get("model")
    is_named = isinstance(model, str) and "claude" in model and "max_tokens" in record
    return _recognize_items(messages) == "openai_chat" and (
        is_named or isinstance(record.get("system"), list)
    )


def _is_gemini(record: Body) -> bool:
    if _listed(record, "candidates") or "promptFeedback" in record:
        return True

    return _recognize_items(_listed(record, "contents")) == "gemini"


def _has_answers(record: Body) -> bool:
    return any(
        isinstance(each, dict) and isinstance(each.get("message"), dict)
        for each in _listed(record, "choices")
    )


def _is_opencode(record: Body) -> bool:
    return "info" in record and any(
        isinstance(each, dict) and {"info", "parts"} <= each.keys()
        for each in _listed(record, "messages")
    )


def _is_instruction(record: Body) -> bool:
    asked = record.keys() & {"instruction", "query"}
    return bool(asked and record.keys() & {"output", "answers"})


def _is_preference(record: Body) -> bool:
    return any(keys <= record.keys() for keys in _PREFERENCES)


_PREFERENCES = ({"chosen", "rejected"}, {"preferred_output", "non_preferred_output"})

_LIBRECHAT_LISTS = frozenset({"messages", "messagesTree"})

Test: TypeAlias = Callable[[Body], bool]
# What an API takes and gives, in the order in which it is tried.
_API_TESTS: tuple[tuple[str, Test], ...] = (
    ("openai_chat", _has_answers),
    ("gemini", _is_gemini),
    ("anthropic", _is_anthropic),
    ("ollama", lambda r: "done" in r and bool(_inner(r, "message"))),
    ("openai_responses", _is_responses),
    ("openai_chat", lambda r: _recognize_messages(r) == "openai_chat"),
)
# All others; a log has requests and responses in it.
_RECORD_TESTS: tuple[tuple[str, Test], ...] = (
    ("json", lambda r: r.get("format") == "conversation_state"),
    ("chatgpt", lambda r: isinstance(r.get("mapping"), dict)),
    ("open_webui", lambda r: "history" in _inner(r, "chat")),
    ("claude_ai", lambda r: isinstance(r.get("chat_messages"), list)),
    (
        "librechat",
        lambda r: (
            "conversationId" in r and bool({"messages", "messagesTree"} & r.keys())
        ),
    ),
    ("opencode", _is_opencode),
    ("gemini_cli", lambda r: {"sessionId", "startTime", "messages"} <= r.keys()),
    ("preferences", _is_preference),
    ("log", lambda record: _is_log(record)),  # noqa: PLW0108 - it is below
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
        return _recognize_items(value)

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

    values = [*value.values()]
    if len(values) > 1 and all(isinstance(each, dict) for each in values):
        named = [{"id": key, **each} for key, each in value.items()]
        if all(map(recognize, values)):
            return path, named, ""

    for key in WRAPPERS:
        listed, where = value.get(key), f"{path}.{key}"
        if isinstance(listed, dict):
            where, listed, _ = find_list(listed, where, levels - 1)

        if isinstance(listed, list) and any(map(recognize, listed)):
            return where, listed, ", ".join(each for each in value if each != key)

    return path, [], ""


def is_item(value: Any) -> bool:
    """Whether *value* is one message, so that its conversation has others beside it."""
    if not isinstance(value, dict):
        return False

    return is_piece(value) if recognize(value) else bool(_recognize_items([value]))


def is_piece(value: Body) -> bool:
    """Whether *value* is one of the responses that Gemini streams, not the last."""
    answers = [each for each in _listed(value, "candidates") if isinstance(each, dict)]
    return bool(answers) and not any("finishReason" in each for each in answers)


# What has requests and responses in it

_LOG_IDS = ("custom_id", "recordId")
_REQUESTS = ("request", "request_body", "requestBody", "params", "modelInput", "body")
_RESPONSES = ("response", "response_body", "responseBody", "result", "modelOutput")


class _Log(NamedTuple):
    request: Body  # {} without a request
    response: Body  # the same
    paths: tuple[str, str]
    error: Any
    keys: frozenset[str]  # of the record, that these are from


def _split_log(record: Body) -> _Log:
    """The request and the response in *record*, out of what a batch has around them."""
    request: Body = {}
    response: Body = {}
    paths = ["$", "$"]
    keys: set[str] = set()
    for key in _REQUESTS:
        if request := _parse_inner(record.get(key)):
            keys.add(key)
            paths[0] = f"$.{key}"
            break

    error = record.get("error")
    for key in _RESPONSES:
        if response := _parse_inner(record.get(key)):
            keys.add(key)
            paths[1] = f"$.{key}"
            break

    if response.get("type") in {"canceled", "errored", "expired"}:
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

    log = _split_log(record)
    return any(_recognize_api(each) for each in (log.request, log.response)) and (
        log.request is not record or bool(_recognize_api(log.response))
    )


def _recognize_api(body: Body) -> str:
    return next((name for name, test in _API_TESTS if test(body)), "")


def _load_log(record: Any) -> FoundConversation:
    log = _split_log(record)
    error = log.error or log.response.get("error")
    if error:
        raise fail(
            f"an error of the provider instead of an answer: {_describe_error(error)}"
        )

    history: tuple[Message, ...] = ()
    answers: tuple[Message, ...] = ()
    for body, path in ((log.request, log.paths[0]), (log.response, log.paths[1])):
        if not body:
            continue

        name = _recognize_api(body)
        if not name:
            raise fail(
                f"{_describe(body)}; expected a request or response of an API", path
            )

        try:
            found = _LOADERS[name](body)
        except DecodeError as why:
            raise _move(why, path) from None

        if body is log.response:
            answers = found.messages
        else:
            history = found.messages

    if not history and not answers:
        raise fail(f"{_describe(record)}; expected a request or response of an API")

    rest = {key: record[key] for key in record if key not in log.keys}
    if log.request is not record:
        known = _READ_KEYS.get(_recognize_api(log.request), frozenset())
        rest |= {key: log.request[key] for key in log.request if key not in known}

    return _converse(history, answers, id=_find_id(record), notes=rest)


def _describe_error(error: Any) -> str:
    if isinstance(error, dict):
        found = [error.get(key) for key in ("type", "code", "message")]
        inner = error.get("error")
        words = [str(each) for each in found if isinstance(each, (str, int))]
        if isinstance(inner, dict):
            words.append(_describe_error(inner))

        return shorten_text(": ".join(words), 200) if words else "unknown"

    return shorten_text(str(error), 200)


def _move(error: DecodeError, path: str) -> DecodeError:
    """*error* with its paths below *path*."""
    return DecodeError(
        tuple([Problem(f"{path}{one.path[1:]}", one.what) for one in error.problems])
    )


def _converse(
    history: tuple[Message, ...], answers: tuple[Message, ...], **fields: Any
) -> FoundConversation:
    """A conversation; several answers are branches, and the first one is shown."""
    if len(answers) < 2:  # noqa: PLR2004 - one is no choice
        return FoundConversation(history + answers, **fields)

    return _branch(history, [(each,) for each in answers], **fields)


def _branch(
    history: tuple[Message, ...], branches: Iterable[Sequence[Message]], **fields: Any
) -> FoundConversation:
    start = Aggregator.new(history)
    states = [start.fork().extend(each).record_responses() for each in branches]
    tree = MessageTree.of(*states)
    first = states[0].entries[-1].id
    tree = tree.switch(first) if first in tree else tree
    return FoundConversation(tuple(tree.present), tree=tree, **fields)


# Loading

# The keys of an object that its adapter reads, or that name it.
_READ_KEYS: Mapping[str, frozenset[str]] = {
    "ag_ui": frozenset({"messages"}),
    "ai_sdk": frozenset({"messages"}),
    "anthropic": frozenset({"messages", "system"}),
    "bubo": frozenset({"messages"}),
    "eino": frozenset({"messages"}),
    "gemini": frozenset({"contents", "systemInstruction", "system_instruction"}),
    "langchain": frozenset({"messages"}),
    "openai_chat": frozenset({"messages", "system"}),
    "openai_responses": frozenset({"input", "instructions"}),
    "pydantic_ai": frozenset({"messages"}),
}
_IDS = (
    *("id", "uuid", "custom_id", "conversation_id", "conversationId", "session_id"),
    "conversation_hash",
    *("sessionId", "thread_id", "threadId", "key", "recordId"),
)


def _find_id(record: Body) -> str:
    for key in _IDS:
        given = record.get(key)
        if isinstance(given, str) and given:
            return given

        if type(given) is int:  # True is an int to Python, and no name
            return str(given)

    return ""


def _import_adapter(name: str) -> Any:
    try:
        return importlib.import_module(f"conversation_state.adapters.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"conversation_state.adapters.{name}":
            raise

        raise fail(f"{FORMATS[name]}, which this version can't read") from None


def _by_adapter(name: str) -> Callable[[Any], FoundConversation]:
    def load(value: Any) -> FoundConversation:
        adapter = _import_adapter(name)
        if isinstance(value, list) or not any(
            key in value for key in ("messages", "contents", "input")
        ):
            # A response is kept as a whole by its adapter.
            id = _find_id(value) if isinstance(value, dict) else ""
            found = tuple(_load_listed(adapter, name, value))
            is_choice = name in {"openai_chat", "gemini"} and isinstance(value, dict)
            return (
                _converse((), found, id=id)
                if is_choice
                else FoundConversation(found, id)
            )

        payload, beside = value, value.get("system")
        system: tuple[Message, ...] = ()
        if name in {"langchain", "pydantic_ai"}:
            payload = value["messages"]
        elif name == "openai_chat" and beside:
            # Datasets have a system message beside the list.
            system = transcripts.load({"system": beside, "messages": []})

        known = _READ_KEYS[name] | {"id"}
        notes = {key: value[key] for key in value if key not in known}
        messages = (*system, *_load_listed(adapter, name, payload))
        return FoundConversation(messages, _find_id(value), notes=notes)

    return load


def _load_listed(adapter: Any, name: str, payload: Any) -> tuple[Message, ...]:
    try:
        found: tuple[Message, ...] = adapter.load(payload)
    except DecodeError:
        if name != "openai_chat" or "choices" in payload:
            raise

        # Data sets have objects as results of tools, and more that OpenAI has not. If
        # it is neither, the problems are those of the format that most files have.
        with suppress(DecodeError):
            return transcripts.load(payload)

        raise

    return found


def _load_own(value: Any) -> FoundConversation:
    state = from_data(value, expect=Aggregator)
    # The id of a state is an identity, not a name.
    return FoundConversation(tuple(state), state=state)


def _load_shared(value: Any) -> FoundConversation:
    if isinstance(value, list):
        return FoundConversation(transcripts.load(value))

    (found,) = transcripts.line_results([json.dumps(value)])
    if isinstance(found, transcripts.Broken):
        raise found.error

    name = found.name or _find_id(value)
    notes = {key: value[key] for key in found.keys if key != "id"}
    return FoundConversation(found.messages, name, notes=notes)


def _load_instruction(value: Any) -> FoundConversation:
    """Alpaca's records and their kin: an instruction, its input, and an output."""
    turns: list[Any] = []
    if value.get("system"):
        turns.append({"role": "system", "content": value["system"]})

    for pair in value.get("history") or ():
        if not isinstance(pair, list) or len(pair) != 2:  # noqa: PLR2004 - a pair
            raise fail("expected a list of pairs", "$.history")

        turns += [
            {"role": role, "content": text}
            for role, text in zip(("user", "assistant"), pair, strict=True)
        ]

    asked = value.get("instruction", value.get("query"))
    if value.get("input"):
        asked = f"{asked}\n{value['input']}" if asked else value["input"]

    turns.append({"role": "user", "content": asked})
    if "answers" in value:
        turns.append({"role": "function_call", "content": value["answers"]})
    else:
        turns.append({"role": "assistant", "content": value["output"]})

    known = {
        "answers",
        "history",
        "id",
        "input",
        "instruction",
        "output",
        "query",
        "system",
    }
    notes = {key: value[key] for key in value if key not in known}
    return FoundConversation(transcripts.load(turns), _find_id(value), notes=notes)


def _load_preference(value: Any) -> FoundConversation:
    """Two answers to one prompt; the one that was chosen is shown."""
    good, bad = next(
        keys
        for keys in (
            ("chosen", "rejected"),
            ("preferred_output", "non_preferred_output"),
        )
        if keys[0] in value
    )
    known = {good, bad, "id"}
    asked: Any = []
    for key in ("prompt", "input", *_MESSAGE_KEYS, "question"):
        if key in value:
            known.add(key)
            asked = value[key]
            break

    notes = {key: value[key] for key in value if key not in known}
    if isinstance(asked, dict):
        notes |= {key: asked[key] for key in asked if key != "messages"}
        asked = asked.get("messages")

    prompt = _load_side(asked, "user")
    sides = [_load_side(value[key], "assistant") for key in (good, bad)]
    if sides[0] and all(side[: len(prompt)] == prompt for side in sides):
        # Each side has the prompt once more.
        sides = [side[len(prompt) :] for side in sides]

    common = 0
    shortest = min(map(len, sides))
    while common < shortest and sides[0][common] == sides[1][common]:
        common += 1

    history = prompt + sides[0][:common]
    return _branch(
        history, [side[common:] for side in sides], id=_find_id(value), notes=notes
    )


def _load_side(value: Any, role: str) -> tuple[Message, ...]:
    if isinstance(value, str):
        turns = _split_turns(value)
        return transcripts.load(turns or [{"role": role, "content": value}])

    listed = value if isinstance(value, list) else [value]
    name = _recognize_items(listed)
    if not listed or not name:
        return transcripts.load(listed)

    return tuple(_LOADERS[name](listed).messages)


def _split_turns(text: str) -> list[Any]:
    r"""
    The turns of a text with a speaker before each, as in Anthropic's preferences.

    >>> _split_turns("\n\nHuman: hi\n\nAssistant: yo")[1]
    {'role': 'Assistant', 'content': 'yo'}
    """
    pieces = _SPEAKER.split(text)
    if pieces[0].strip() or len(pieces) < 3:  # noqa: PLR2004 - a speaker, and a text
        return []

    return [
        {"role": role, "content": said.strip()}
        for role, said in zip(pieces[1::2], pieces[2::2], strict=True)
    ]


_SPEAKER = re.compile(r"(?:^|\n\n)(Human|Assistant): ?")


def _load_ollama(value: Any) -> FoundConversation:
    counts = {"prompt_tokens": "prompt_eval_count", "completion_tokens": "eval_count"}
    usage = {name: value[key] for name, key in counts.items() if key in value}
    choice = {"message": value["message"], "finish_reason": value.get("done_reason")}
    response: dict[str, Any] = {"choices": [choice], "model": value.get("model")}
    if len(usage) == len(counts):
        response["usage"] = {**usage, "total_tokens": sum(usage.values())}

    known = {"message", "model", "done", "done_reason", *counts.values()}
    notes = {key: value[key] for key in value if key not in known}
    found = _import_adapter("openai_chat").load(response)
    return FoundConversation(tuple(found), notes=notes)


def _load_pieces(value: Any) -> FoundConversation:
    pieces = value if isinstance(value, list) else [value]
    return FoundConversation((concat(_import_adapter("gemini").load_chunks(pieces)),))


def _as_tree(name: str) -> Callable[[Any], FoundConversation]:
    def load(value: Any) -> FoundConversation:
        trees = _import_adapter("message_trees")
        if name == "librechat" and isinstance(value, list):
            ids = list(dict.fromkeys([each.get("conversationId") for each in value]))
            if len(ids) > 1:
                raise fail(
                    f"messages of {len(ids)} conversations in one list; expected those "
                    "of one: write a list, or a line, for each conversationId"
                )

            value = {"conversationId": ids[0], "messages": value}

        (found,) = trees.load_trees(
            value, format=None if name == "assistant_ui" else name
        )
        if isinstance(found, DecodeError):
            raise found

        notes = {
            key: found.notes[key] for key in found.notes if key not in _SAID_ELSEWHERE
        }
        if found.title:
            notes["title"] = found.title

        return FoundConversation(
            tuple(found.tree.present),
            found.name,
            tree=found.tree if len(found.tree.states) > 1 else None,
            notes=notes,
            mended=found.problems,
            is_tree=True,
        )

    return load


# What the tree and the name say already.
_SAID_ELSEWHERE = frozenset(
    {"chat", "conversation_id", "conversation_state", "conversationId", "current_node"}
    | {"headId", "id", "uuid"}
)

# What each format is, for `import --help`, and how it is loaded.
FORMATS: Mapping[str, str] = {
    "json": "states of this library, as `export` writes them",
    "openai_chat": "OpenAI's chat: requests, responses, messages",
    "openai_responses": "OpenAI's Responses: the same, and items",
    "anthropic": "Anthropic's Messages: requests, responses, messages",
    "gemini": "Gemini: requests, responses, contents",
    "gemini_stream": "Gemini: the responses of one stream, as a list",
    "ollama": "Ollama's responses",
    "log": "requests with responses: batches, and logs of gateways",
    "sharegpt": "ShareGPT and its kin, prompts with completions",
    "instructions": "instructions with outputs, as Alpaca's",
    "preferences": "chosen and rejected answers, which become branches",
    "chatgpt": "ChatGPT's export",
    "claude_ai": "Claude.ai's export",
    "open_webui": "Open WebUI's export",
    "librechat": "LibreChat's export",
    "assistant_ui": "assistant-ui's repositories and rows",
    "ai_sdk": "messages of the AI SDK",
    "ag_ui": "AG-UI's messages",
    "langchain": "LangChain's messages, dumped (extra langchain)",
    "pydantic_ai": "Pydantic AI's messages, dumped",
    "bubo": "bubo's messages",
    "eino": "eino's messages",
    "claude_code": "sessions of Claude Code",
    "codex": "sessions of Codex",
    "gemini_cli": "sessions of the Gemini CLI",
    "opencode": "sessions of OpenCode",
    "pi": "sessions of Pi",
    "sts": "sessions in the Session Trace Simple format",
}
_TREES = ("assistant_ui", "chatgpt", "claude_ai", "librechat", "open_webui")
SESSIONS = ("claude_code", "codex", "gemini_cli", "opencode", "pi", "sts")
_LOADERS: Mapping[str, Callable[[Any], FoundConversation]] = {
    **{name: _by_adapter(name) for name in _READ_KEYS},
    **{name: _as_tree(name) for name in _TREES},
    "gemini_stream": _load_pieces,
    "instructions": _load_instruction,
    "json": _load_own,
    "log": _load_log,
    "ollama": _load_ollama,
    "preferences": _load_preference,
    "sharegpt": _load_shared,
}


def load(value: Any, format: str = "") -> FoundConversation:  # noqa: A002 - as elsewhere
    """
    The conversation in *value*: an object that holds one, or a list of messages.

    Args:
        value: JSON.

        format: One of `FORMATS`; by default it is recognised.

    Raises:
        DecodeError:
            If it is in none, or in that format invalid, empty, or with content of
            another.
    """
    name = format or recognize(value)
    if name not in _LOADERS:
        # What is not a list where there should be one has a path.
        for each in _MESSAGE_KEYS if isinstance(value, dict) else ():
            if not isinstance(value.get(each, []), (list, type(None))):
                transcripts.load({each: value[each]})

        raise fail(f"{_describe(value)}; {_EXPECTED}")

    key = ""
    if isinstance(value, dict) and name in _READ_KEYS and "messages" not in value:
        # Some records have the same list under another key.
        found = [each for each in _MESSAGE_KEYS if isinstance(value.get(each), list)]
        key = found[0] if found else ""
        value = {("messages" if each == key else each): value[each] for each in value}

    try:
        conversation = _LOADERS[name](value)
    except DecodeError as error:
        raise _rename(error, key) if key else error from None
    except ConversationStateError as error:
        raise fail(str(error)) from None
    except RecursionError:
        raise fail("it is nested too deep") from None

    return _check(conversation, name)


_EXPECTED = (
    "expected a format that `import --help` lists; to force one give --format NAME, or "
    "convert it to OpenAI's messages"
)


def _rename(error: DecodeError, key: str) -> DecodeError:
    return DecodeError(
        tuple(
            [
                Problem(one.path.replace("$.messages", f"$.{key}", 1), one.what)
                for one in error.problems
            ]
        )
    )


# Sessions of coding agents

_CLAUDE_TYPES = frozenset(
    {"ai-title", "custom-title", "file-history-snapshot", "file-history-delta"}
    | {"last-prompt", "pr-link", "queue-operation", "summary"}
)
_CODEX_TYPES = frozenset(
    {"compacted", "event_msg", "response_item", "session_meta", "turn_context"}
    | {"world_state"}
)


def recognize_session(line: Any) -> str:
    """The format of the session that *line* is one of; "" if of none."""
    if not isinstance(line, dict):
        return ""

    # Those of two agents are a document, or were once.
    whole = recognize(line)
    if whole:
        return whole if whole in SESSIONS else ""

    kind, keys = line.get("type"), line.keys()
    is_gemini = {"sessionId", "projectHash"} <= keys or keys & {"$set", "$rewindTo"}
    is_header = kind == "session" and keys & {"harness", "version"}
    is_message = kind == "message" and isinstance(line.get("message"), dict)
    name = ""
    if kind in _CODEX_TYPES and "payload" in keys:
        name = "codex"
    elif {"uuid", "parentUuid"} <= keys or (
        kind in _CLAUDE_TYPES and keys & {"leafUuid", "messageId", "sessionId"}
    ):
        name = "claude_code"
    elif is_header or is_message:
        name = "pi" if keys & {"version", "parentId"} else "sts"
    elif is_gemini and "messages" not in keys:
        name = "gemini_cli"

    return name


def load_session(
    lines: Sequence[Any],
    path: Path | None,
    format: str = "",  # noqa: A002 - as elsewhere
) -> list[FoundConversation]:
    """
    The session that *lines* are, and its sub-agents: those in the folder beside the
    file at *path*, too, if there is one.

    Raises:
        DecodeError:
            If it can't be read.
    """
    sessions = _import_adapter("sessions")
    name = format or sessions.recognize(lines)
    name = name or next(filter(None, map(recognize_session, lines)), "")
    try:
        if path is not None and (path.with_suffix("") / "subagents").is_dir():
            found = sessions.read_session(path, format=name)
        else:
            found = sessions.load_session(lines, format=name)
    except ConversationStateError as error:
        raise error if isinstance(error, DecodeError) else fail(str(error)) from None

    return [
        _as_conversation(found),
        *[
            _as_conversation(each, f"{found.name}/{each.name}", part_of=found.name)
            for each in found.agents
        ],
    ]


def _as_conversation(session: Any, name: str = "", **links: str) -> FoundConversation:
    notes: dict[str, Any] = {"format": session.format, **links}
    notes |= {"title": session.title, "version": session.version}
    if session.called_by:
        notes["called_by"] = session.called_by

    return FoundConversation(
        tuple(session.tree.present),
        name or session.name,
        tree=session.tree,
        notes=notes,
        mended=session.problems,
    )


# What is no conversation


def _check(found: FoundConversation, name: str) -> FoundConversation:
    """*found*, if something in it can be read, and nothing is another format's."""
    if not found.messages and not found.tree:
        raise fail("a conversation without messages")

    mended = list(found.mended)
    for title, message in _iterate_titled(found):
        for place, part in enumerate(message.parts):
            if isinstance(part, UnknownPart) and part.source == name:
                kind = part.raw.get("type")
                owner = _find_owner(str(kind), name)
                if owner:
                    raise fail(
                        f"has a block of the type {kind} of {owner}; expected those of "
                        f"{FORMATS[name]}",
                        f"{title}, part {place + 1}",
                    )

        if message.metadata:
            mended += [
                f"{title}: half of a surrogate pair became U+FFFD in {path}"
                for each in formats_of(message.metadata)
                for path in list_of(notes_of(message.metadata, each), "mended")
            ]

    nodes = () if found.tree is None else found.tree.nodes
    messages = chain(found.messages, (node.message for node in nodes))
    if found.state is None and not any(map(_is_readable, messages)):
        raise fail("nothing in it can be read: no text, no call and no medium")

    return found._replace(mended=tuple(mended))


def _iterate_titled(found: FoundConversation) -> Iterator[tuple[str, Message]]:
    """The messages that are shown, then those of other branches; each with a title."""
    for number, message in enumerate(found.messages, 1):
        yield f"message {number}", message

    if found.tree is not None:
        shown = {entry.id for entry in found.tree.present.entries}
        for node in found.tree.nodes:
            if node.entry.id not in shown:
                yield f"message {node.id} of another branch", node.message


def _is_readable(message: Message) -> bool:
    if isinstance(message, UnknownMessage):
        return False

    calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
    return bool(calls) or any(
        part.text.strip()
        if isinstance(part, TextPart)
        else not isinstance(part, UnknownPart)
        for part in message.parts
    )


_OWNERS: tuple[tuple[str, frozenset[str], str], ...] = (
    ("anthropic", _ANTHROPIC_BLOCKS - {"thinking"}, "Anthropic's"),
    ("openai_chat", _CHAT_BLOCKS - {"file"}, "OpenAI's chat"),
    ("openai_responses", _RESPONSES_BLOCKS, "OpenAI's Responses"),
    ("ai_sdk", _SDK_BLOCKS, "the AI SDK"),
)


def _find_owner(kind: str, name: str) -> str:
    for owner, blocks, words in _OWNERS:
        if kind in blocks:
            return "" if owner == name else words

    return ""


def _describe(value: Any) -> str:
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
    words = next((words for words, test in _LOOKALIKES if test(value)), "")
    keys = ", ".join(sorted(value)[:_MAX_KEYS])
    if words or not keys:
        return words or "an empty object"

    return f"an object with the keys {shorten_text(keys, 120)}"


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
            for each in _listed(record, "choices")
        )
    )


def _is_converse(record: Body) -> bool:
    found = _listed(record, "messages") or [_inner(record, "output").get("message")]
    return any(
        isinstance(each, dict)
        and any(_describe_block(b)[:1] == "+" for b in _listed(each, "content"))
        for each in found
    )


# What people take for conversations, in words that name it.
_LOOKALIKES: tuple[tuple[str, Test], ...] = (
    (
        "a conversation without messages",
        lambda r: any(r.get(k) == [] for k in _MESSAGE_KEYS),
    ),
    ("an event of a streamed response; concat the chunks of load_chunks", _is_event),
    ("an error of a provider, not an answer", lambda r: bool(_inner(r, "error"))),
    ("a request or response of Bedrock's Converse, which is not read", _is_converse),
    (
        "a message of OpenAI's Assistants, which are not read",
        lambda r: r.get("object") == "thread.message",
    ),
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
            for each in _listed(r, key)
        ),
    ),
)
