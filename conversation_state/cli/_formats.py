"""
The formats that `import` and `replay` read, and the conversation that a JSON value in
one of them holds.

The table of formats, and what data sets and logs have around a conversation are here;
which format a value is in is in `_recognition`, and what a message says in
`conversation_state.adapters`.
"""

from __future__ import annotations

import importlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from conversation_state._persistent import EMPTY_MAP
from conversation_state._wording import format_count, shorten_text
from conversation_state.adapters import transcripts
from conversation_state.adapters.engine.notes import formats_of, list_of, notes_of
from conversation_state.adapters.engine.usage import as_count
from conversation_state.aggregator import Aggregator
from conversation_state.chunks import concat
from conversation_state.cli import _blocks
from conversation_state.cli._recognition import (
    MESSAGE_KEYS,
    RESPONSES,
    Body,
    describe_input,
    find_id,
    find_message_key,
    find_owner,
    is_known,
    recognize,
    recognize_api,
    recognize_items,
    recognize_session,
    split_log,
)
from conversation_state.cli._rows import (
    PARENT_KEYS,
    find_parents,
    list_branches,
    list_path,
)
from conversation_state.codec import from_data
from conversation_state.errors import ConversationStateError, DecodeError, Problem
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.parts import TextPart, UnknownPart
from conversation_state.tools import ToolCall
from conversation_state.tree import MessageTree


class FoundConversation(NamedTuple):
    """What one value holds."""

    messages: tuple[Message, ...]
    id: str = ""  # in the file; "" if it has none
    tree: MessageTree | None = None  # if the format has branches
    state: Aggregator | None = None  # if it is one of this library's
    notes: Body = EMPTY_MAP  # what it has besides messages
    mended: tuple[str, ...] = ()  # what was wrong, and could be read all the same
    is_tree: bool = False  # the format can have branches
    noticed: tuple[str, ...] = ()  # what is odd, and kept as it is


def fail(what: str, path: str = "$") -> DecodeError:
    return DecodeError((Problem(path, what),))


def _load_log(record: Any) -> FoundConversation:
    log = split_log(record)
    _check_answered(record, log.error or log.response.get("error"))
    history: tuple[Message, ...] = ()
    answers: tuple[Message, ...] = ()
    for body, path in ((log.request, log.paths[0]), (log.response, log.paths[1])):
        if not body:
            continue

        name = recognize_api(body) or recognize_items([body])
        if not name:
            raise fail(
                f"{describe_input(body)}; expected a request or response of an API",
                path,
            )

        try:
            found = _LOADERS[name](body if recognize_api(body) else [body])
        except DecodeError as why:
            raise _rename_paths(why, "$", path) from None

        if body is log.response:
            answers = found.messages
        else:
            history = found.messages

    said = [key for key in RESPONSES if isinstance(record.get(key), str)]
    if history and said and not log.response:
        answers = _load_answer(said[0], record[said[0]])
        log = log._replace(keys=log.keys | {said[0]})

    if not history and not answers:
        raise fail(
            f"{describe_input(record)}; expected a request or response of an API"
        )

    rest = {key: record[key] for key in record if key not in log.keys}
    if log.request is not record:
        known = _READ_KEYS.get(recognize_api(log.request), frozenset())
        rest |= {key: log.request[key] for key in log.request if key not in known}

    return _join_answers(history, answers, id=find_id(record), notes=rest)


def _check_answered(record: Any, error: Any) -> None:
    if error:
        raise fail(
            f"an error of the provider instead of an answer: {_describe_error(error)}"
        )

    url = record.get("url")
    if isinstance(url, str) and url.endswith(_OTHER_ENDPOINTS):
        raise fail(f"a request to {shorten_text(url, 80)}, which gives no answer")


_OTHER_ENDPOINTS = ("/embeddings", "/moderations", "/speech")


def _describe_error(error: Any) -> str:
    if isinstance(error, dict):
        keys = ("type", "code", "errorCode", "message", "errorMessage")
        found = [error.get(key) for key in keys]
        inner = error.get("error")
        words = [str(each) for each in found if isinstance(each, (str, int))]
        if isinstance(inner, dict):
            words.append(_describe_error(inner))

        return shorten_text(": ".join(words), 200) if words else "unknown"

    return shorten_text(str(error), 200)


def _join_answers(
    history: tuple[Message, ...], answers: tuple[Message, ...], **fields: Any
) -> FoundConversation:
    """A conversation; several answers are branches, and the first one is shown."""
    if len(answers) < 2:  # noqa: PLR2004 - one is no choice
        return FoundConversation(history + answers, **fields)

    return _make_branches(history, [(each,) for each in answers], **fields)


def _make_branches(
    history: tuple[Message, ...], branches: Iterable[Sequence[Message]], **fields: Any
) -> FoundConversation:
    start = Aggregator.new(history)
    states = [start.fork().extend(each).record_responses() for each in branches]
    tree = MessageTree.of(*states)
    shown = states[0].entries
    first = shown[-1].id if shown else ""
    tree = tree.switch(first) if first in tree else tree
    return FoundConversation(tuple(tree.present), tree=tree, **fields)


# Loading

# The keys of an object that its adapter reads, or that name it.
_READ_KEYS: Mapping[str, frozenset[str]] = {
    "ag_ui": frozenset({"messages"}),
    "ai_sdk": frozenset({"messages"}),
    "ai_sdk_model": frozenset({"messages", "system"}),
    "anthropic": frozenset({"messages", "system"}),
    "bedrock_converse": frozenset({"messages", "system"}),
    "bubo": frozenset({"messages"}),
    "eino": frozenset({"messages"}),
    "gemini": frozenset({"contents", "systemInstruction", "system_instruction"}),
    "langchain": frozenset({"messages"}),
    "openai_assistants": frozenset({"messages"}),
    "openai_chat": frozenset({"messages", "system"}),
    "openai_responses": frozenset({"input", "instructions"}),
    "pydantic_ai": frozenset({"messages"}),
}
# Where these have their list; all others have it under "messages".
_LIST_KEYS = {"gemini": "contents", "openai_responses": "input"}


def _import_adapter(name: str) -> Any:
    if name in _blocks.FORMATS:
        return _blocks.FORMATS[name]

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
            id = find_id(value) if isinstance(value, dict) else ""
            found = tuple(_load_listed(adapter, name, value))
            is_choice = name in {"openai_chat", "gemini"} and isinstance(value, dict)
            return (
                _join_answers((), found, id=id)
                if is_choice
                else FoundConversation(found, id)
            )

        payload, beside = value, value.get("system")
        system: tuple[Message, ...] = ()
        if name in {"langchain", "pydantic_ai"}:
            payload = value.get("messages", value)
        elif name == "openai_chat" and beside:
            # Datasets have a system message beside the list.
            system = transcripts.load({"system": beside, "messages": []})

        known = _READ_KEYS[name] | {"id"}
        notes = {key: value[key] for key in value if key not in known}
        messages = (*system, *_load_listed(adapter, name, payload))
        return FoundConversation(messages, find_id(value), notes=notes)

    return load


def _load_listed(adapter: Any, name: str, payload: Any) -> tuple[Message, ...]:
    if name == "ai_sdk":
        payload = _blocks.upgrade_ui_messages(payload)
    elif name == "openai_chat":
        payload = _name_results(payload)

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

    return tuple(_blocks.pair_functions(found)) if name == "langchain" else found


def _name_results(payload: Any) -> Any:
    """*payload* with the name of a result where others than Ollama have it."""
    if isinstance(payload, dict) and "messages" in payload:
        return {**payload, "messages": _name_results(payload["messages"])}

    if not isinstance(payload, list):
        return payload

    return [
        {("name" if key == "tool_name" else key): each[key] for key in each}
        if isinstance(each, dict) and "tool_name" in each and "name" not in each
        else each
        for each in payload
    ]


def _load_own(value: Any) -> FoundConversation:
    state = from_data(value, expect=Aggregator)
    # The id of a state is an identity, not a name.
    return FoundConversation(tuple(state), state=state)


def _load_shared(value: Any) -> FoundConversation:
    if isinstance(value, list):
        return FoundConversation(transcripts.load(value))

    asked = value.get("prompt")
    answer = {"role": "assistant", "content": value.get("completion")}
    if isinstance(asked, str) and (turns := _split_turns(asked)):
        value = {k: value[k] for k in value if k not in {"prompt", "completion"}}
        value["messages"] = [*turns, answer]

    (found,) = transcripts.line_results([json.dumps(value)])
    if isinstance(found, transcripts.Broken):
        raise found.error

    name = found.name or find_id(value)
    notes = {key: value[key] for key in found.keys if key != "id"}
    return FoundConversation(found.messages, name, notes=notes)


def _load_instruction(value: Any) -> FoundConversation:
    """Alpaca's records and their kin: an instruction, its input, and an output."""
    turns: list[Any] = []
    if value.get("system"):
        turns.append({"role": "system", "content": value["system"]})

    history = value.get("history") or []
    for pair in history if isinstance(history, list) else [history]:
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
        "answers", "history", "id", "input", "instruction", "output", "query", "system",
    }  # fmt: skip
    notes = {key: value[key] for key in value if key not in known}
    return FoundConversation(transcripts.load(turns), find_id(value), notes=notes)


def _load_preference(value: Any) -> FoundConversation:
    """Two answers to one prompt; the one that was chosen is shown."""
    good, bad = next(keys for keys in _SIDES if value.keys() >= {*keys})
    known = {good, bad, "id"}
    asked: Any = []
    for key in ("prompt", "input", *MESSAGE_KEYS, "question"):
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
    return _make_branches(
        history, [side[common:] for side in sides], id=find_id(value), notes=notes
    )


_SIDES = (("chosen", "rejected"), ("preferred_output", "non_preferred_output"))


def _load_side(value: Any, role: str) -> tuple[Message, ...]:
    if isinstance(value, str):
        turns = _split_turns(value)
        return transcripts.load(turns or [{"role": role, "content": value}])

    listed = value if isinstance(value, list) else [value]
    name = recognize_items(listed)
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

    turns = [
        {"role": role, "content": said.strip()}
        for role, said in zip(pieces[1::2], pieces[2::2], strict=True)
    ]
    # A prompt ends with whose turn it is.
    return turns if turns[-1]["content"] else turns[:-1]


_SPEAKER = re.compile(r"(?:^|\n\n)(Human|Assistant): ?")


def _load_ollama(value: Any) -> FoundConversation:
    """A response, those of one stream, or a request."""
    asked = value.get("messages") if isinstance(value, dict) else value
    if isinstance(asked, list) and recognize_items(asked) == "openai_chat":
        return _by_adapter("openai_chat")(value)

    pieces = value if isinstance(value, list) else [value]
    if not pieces:
        raise fail("an empty list; expected a response of Ollama, with a message")

    for at, each in enumerate(pieces):
        path = f"$[{at}]" if isinstance(value, list) else "$"
        if not isinstance(each, dict) or not isinstance(each.get("message"), dict):
            raise fail("expected a response of Ollama, with a message", path)

        for key in ("content", "thinking"):
            if not isinstance(each["message"].get(key), (str, type(None))):
                raise fail("expected a text", f"{path}.message.{key}")

    whole = {**pieces[-1], "message": _join_pieces([one["message"] for one in pieces])}
    counts = {"prompt_tokens": "prompt_eval_count", "completion_tokens": "eval_count"}
    found_counts = {name: as_count(whole.get(key)) for name, key in counts.items()}
    usage = {name: count for name, count in found_counts.items() if count is not None}
    choice = {"message": whole["message"], "finish_reason": whole.get("done_reason")}
    response: dict[str, Any] = {"choices": [choice], "model": whole.get("model")}
    if len(usage) == len(counts):
        response["usage"] = {**usage, "total_tokens": sum(usage.values())}

    known = {"message", "model", "done", "done_reason", *counts.values()}
    notes = {key: whole[key] for key in whole if key not in known}
    found = _import_adapter("openai_chat").load(response)
    return FoundConversation(tuple(found), notes=notes)


def _join_pieces(messages: Sequence[Body]) -> Body:
    joined = {**messages[0]}
    for each in messages[1:]:
        for key, value in each.items():
            before: Any = joined.get(key)
            is_more = key != "role" and type(before) is type(value)
            is_more = is_more and isinstance(value, (str, list))
            joined[key] = before + value if is_more else value

    if "thinking" in joined:
        joined["reasoning_content"] = joined.pop("thinking")

    return joined


def _load_responses(value: Any) -> FoundConversation:
    """Those of Responses, and the items of a conversation as the API lists them."""
    load = _by_adapter("openai_responses")
    data = value.get("data") if isinstance(value, dict) else None
    if not isinstance(data, list) or value.get("object") != "list":
        return load(value)

    try:
        found = load(data)
    except DecodeError as error:
        raise _rename_paths(error, "$", "$.data") from None

    noticed = []
    is_reversed = _is_newest_first(data)
    if is_reversed:
        found = load(data[::-1])
        noticed.append("its items are listed with the newest first; they are reversed")
    elif is_reversed is None and len(data) > 1:
        noticed.append(
            "nothing says whether its items are listed with the newest first, the "
            "API's default; they are kept in the order of the list"
        )

    if value.get("has_more"):
        noticed.append("it is a page of a list that has more")

    notes = {key: value[key] for key in value if key not in _LIST_KEYS_OF_API}
    return found._replace(notes=notes, noticed=tuple(noticed))


_LIST_KEYS_OF_API = frozenset({"data", "first_id", "has_more", "last_id", "object"})


def _is_newest_first(items: Sequence[Any]) -> bool | None:
    """Whether *items* end with the oldest; None if nothing in them says it."""
    places: dict[Any, int] = {}
    for at, item in enumerate(items):
        kind, call_id = item.get("type"), item.get("call_id")
        if isinstance(kind, str) and isinstance(call_id, str):
            other = places.setdefault(call_id, at)
            if other != at:
                return kind.endswith("_call")

    found = [item.get("created_at") for item in items]
    times = [each for each in found if isinstance(each, (int, float))]
    if times and times[0] != times[-1]:
        return times[0] > times[-1]

    # A model rarely greets a user who is the last, and the API's default is the newest
    # first.
    roles = [item["role"] for item in items if isinstance(item.get("role"), str)]
    first, last = (_ORDER.get(role, 2) for role in (roles[:1] + roles[-1:]) or ["", ""])
    return None if first == last else first > last


# What a conversation begins with comes first.
_ORDER = {"developer": 0, "system": 0, "user": 1}


def _load_pieces(value: Any) -> FoundConversation:
    pieces = value if isinstance(value, list) else [value]
    return FoundConversation((concat(_import_adapter("gemini").load_chunks(pieces)),))


def _as_tree(name: str) -> Callable[[Any], FoundConversation]:
    def load(value: Any) -> FoundConversation:
        trees = _import_adapter("message_trees")
        if name == "librechat" and isinstance(value, list):
            rows = [each for each in value if isinstance(each, dict)]
            id = next((each.get("conversationId") for each in rows), None)
            value = {"conversationId": id, "messages": value}

        format = None if name == "assistant_ui" else name  # noqa: A001 - as there
        loaded = [*trees.load_trees(value, format=format)]
        if len(loaded) != 1:
            raise fail(f"expected one conversation, found {len(loaded)}")

        (found,) = loaded
        if isinstance(found, DecodeError):
            raise found

        notes = {
            key: found.notes[key] for key in found.notes if key not in _SAID_ELSEWHERE
        }
        chat = found.notes.get("chat")
        if isinstance(chat, Mapping):
            # Open WebUI's, in which there is a system prompt, too.
            notes["chat"] = {k: chat[k] for k in chat if k not in _SAID_IN_CHAT}

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


_SAID_IN_CHAT = frozenset({"history", "id", "messages", "title"})
# What the tree and the name say already.
_SAID_ELSEWHERE = frozenset(
    {"chat", "conversation_id", "conversation_state", "conversationId", "current_node"}
    | {"headId", "id", "uuid"}
)

# What each format is, for `import --help`, and how it is loaded.
FORMATS: Mapping[str, str] = {
    "json": "states of this library, as `export` writes them",
    "openai_chat": "OpenAI's chat: requests, responses, messages",
    "openai_responses": "OpenAI's Responses: the same, items, and lists of these",
    "openai_assistants": "the messages of a thread of OpenAI's Assistants",
    "anthropic": "Anthropic's Messages: requests, responses, messages",
    "bedrock_converse": "Bedrock's Converse: requests, responses, messages",
    "gemini": "Gemini: requests, responses, contents",
    "gemini_stream": "Gemini: the responses of one stream, as a list",
    "ollama": "Ollama: requests, responses, also streamed, messages",
    "log": "requests with responses: batches, and logs of gateways",
    "sharegpt": "ShareGPT and its kin, prompts with completions",
    "instructions": "instructions with outputs, as Alpaca's",
    "preferences": "chosen and rejected answers, which become branches",
    "chatgpt": "ChatGPT's export",
    "claude_ai": "Claude.ai's export",
    "open_webui": "Open WebUI's export",
    "librechat": "LibreChat's export",
    "assistant_ui": "assistant-ui's repositories and rows",
    "ai_sdk": "the AI SDK's UIMessages",
    "ai_sdk_model": "the AI SDK's ModelMessages",
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
_LOADERS: Mapping[str, Callable[[Any], FoundConversation]] = {
    **{name: _by_adapter(name) for name in _READ_KEYS},
    **{name: _as_tree(name) for name in _TREES},
    "gemini_stream": _load_pieces,
    "instructions": _load_instruction,
    "json": _load_own,
    "log": _load_log,
    "ollama": _load_ollama,
    "openai_responses": _load_responses,
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
        DecodeError: If it is in none, or in that format invalid, empty, or with content
            of another.
    """
    name = format or recognize(value)
    if name not in _LOADERS:
        # What is not a list where there should be one has a path.
        for each in MESSAGE_KEYS if isinstance(value, dict) else ():
            if not isinstance(value.get(each, []), (list, type(None))):
                transcripts.load({each: value[each]})

        raise fail(f"{describe_input(value)}; {_EXPECTED}")

    if not _may_be(value, name):
        raise fail(
            f"{describe_input(value)}; --format {name} reads {FORMATS[name]}; give "
            f"another format, or none to have it recognised"
        )

    key, own_key = "", _LIST_KEYS.get(name, "messages")
    if isinstance(value, dict) and name in _READ_KEYS and own_key not in value:
        # Some records have the same list under another key.
        key = find_message_key(value)
        value = {(own_key if each == key else each): value[each] for each in value}

    try:
        conversation = _load_answered(value, name, own_key)
        conversation = _load_branches(conversation, value, name)
    except DecodeError as error:
        before = f"$.{own_key}"
        raise _rename_paths(error, before, f"$.{key}") if key else error from None
    except ConversationStateError as error:
        raise fail(str(error)) from None
    except RecursionError:
        raise fail("it is nested too deep") from None

    return _check_readable(conversation, name)


def _may_be(value: Any, name: str) -> bool:
    """Whether *value* has what a loader reads without asking; many ask themselves."""
    if name not in _RECORDS:
        return isinstance(value, (dict, list)) or name == "json"

    return isinstance(value, dict) and _RECORDS[name](value)


# The formats of which a conversation is one object, and what it must have.
_RECORDS: Mapping[str, Callable[[Body], bool]] = {
    "instructions": lambda record: not record.keys().isdisjoint({"answers", "output"}),
    "log": lambda _: True,
    "preferences": lambda record: any(record.keys() >= {*keys} for keys in _SIDES),
}


_EXPECTED = (
    "expected a format that `import --help` lists; to force one give --format NAME, or "
    "convert it to OpenAI's messages"
)


# What stands beside the messages that it answers, in logs and data sets.
_ANSWERS = ("choices", "candidates", "output", "response", "completion", "answer")


def _load_answered(value: Any, name: str, own_key: str) -> FoundConversation:
    """The conversation in *value*, with the answer that may stand beside its list."""
    is_record = isinstance(value, dict) and name in _READ_KEYS and own_key in value
    key = next((key for key in _ANSWERS if is_record and value.get(key)), "")
    if not key:
        return _LOADERS[name](value)

    found = _LOADERS[name]({each: value[each] for each in value if each != key})
    # What is answered already has another answer there, of a data set.
    is_open = not isinstance(next(iter(found.messages[-1:]), None), AssistantMessage)
    answers = _load_answer(key, value[key]) if is_open else ()
    if not answers:
        return found._replace(notes={**found.notes, key: value[key]})

    if isinstance(value[key], list) and recognize_items(value[key]):
        # Messages after each other, and no choices.
        return found._replace(messages=found.messages + answers)

    return _join_answers(found.messages, answers, id=found.id, notes=found.notes)


def _load_branches(
    found: FoundConversation, value: Any, name: str
) -> FoundConversation:
    """*found*, with branches if the rows of *value* name the one that each answers."""
    key = find_message_key(value) if isinstance(value, dict) else ""
    rows = value[key] if key else value
    is_plain = name in _READ_KEYS or name == "sharegpt"
    if not is_plain or not isinstance(rows, list) or found.tree is not None:
        return found

    parents, unlinked = find_parents(rows)
    if unlinked:
        others = len(unlinked) - 1
        more = f" (and {others:,} more)" if others else ""
        what = (
            f"message {unlinked[0] + 1}{more}: it names none of the others as the one "
            f"that it answers; all are kept in the order of the file, without branches"
        )
        return found._replace(noticed=(*found.noticed, what))

    # An answer beside them is to the last of them.
    if parents is None or (key and any(value.get(each) for each in _ANSWERS)):
        return found

    branches = list_branches(parents)
    if not branches:
        raise fail("each of some messages is an ancestor of itself")

    def load_rows(places: Sequence[int]) -> tuple[Message, ...]:
        picked = [rows[at] for at in places]
        try:
            return _LOADERS[name]({**value, key: picked} if key else picked).messages
        except DecodeError as error:
            raise _number_rows(error, places) from None

    states = _load_once(load_rows, parents, branches)
    states = states or _load_paths(load_rows, parents, branches)
    lost = [at for at, parent in enumerate(parents) if parent is None]
    mended = [
        f"message {at + 1}: the message that it answers is missing; it is a first one"
        for at in lost[1:]
        if any(rows[at].get(each) for each in PARENT_KEYS)
    ]
    tree = MessageTree.of(*states)
    return found._replace(
        messages=tuple(tree.present),
        tree=tree if len(states) > 1 else None,
        is_tree=True,
        mended=(*found.mended, *mended),
    )


_LoadRows: TypeAlias = Callable[[Sequence[int]], tuple[Message, ...]]


def _load_once(
    load_rows: _LoadRows,
    parents: Sequence[int | None],
    branches: Sequence[Sequence[int]],
) -> list[Aggregator]:
    """
    A state for each of *branches*, whose rows are loaded all at once; [] if what a row
    says depends on more than the rows above it in its branch.
    """
    order = [at for branch in branches for at in branch]
    try:
        # What stands beside the list, such as a system message, is in each.
        beside = load_rows([])
        messages = load_rows(order)[len(beside) :]
        counts = [len(load_rows([at])) - len(beside) for at in order]
    except DecodeError:
        return []

    if sum(counts) != len(messages):
        return []

    first = Aggregator.new(beside)
    states: list[Aggregator] = []
    ends: dict[int, tuple[Aggregator, int]] = {}  # of each row, where it was first
    ahead, numbers = iter(messages), iter(counts)
    for branch in branches:
        above = parents[branch[0]]
        start, common = first, len(beside)
        if above is not None:
            owner, common = ends[above]
            start = owner.fork(at=common)

        sizes = [*islice(numbers, len(branch))]
        said = [*islice(ahead, sum(sizes))]
        if above is not None and said and isinstance(said[0], ToolMessage):
            # Its call may be the one of another branch.
            return []

        state = start.extend(said).record_responses()
        for at, size in zip(branch, sizes, strict=True):
            common += size
            ends[at] = state, common

        states.append(state)

    return states


def _load_paths(
    load_rows: _LoadRows,
    parents: Sequence[int | None],
    branches: Sequence[Sequence[int]],
) -> list[Aggregator]:
    """The same, with each branch from its first message on."""
    first = Aggregator.new()
    states: list[Aggregator] = []
    owners: dict[int, Aggregator] = {}  # the first state with a row
    for branch in branches:
        path = list_path(parents, branch[-1])
        messages = load_rows(path)
        above = parents[branch[0]]
        common, start = 0, first
        if above is not None:
            common = len(load_rows(path[: -len(branch)]))
            start = owners[above].fork(at=common)

        states.append(start.extend(messages[common:]).record_responses())
        owners |= dict.fromkeys(branch, states[-1])

    return states


def _number_rows(error: DecodeError, places: Sequence[int]) -> DecodeError:
    """*error* of the rows at *places*, with the paths that they have among all."""
    return DecodeError(
        tuple(
            [
                Problem(
                    _ROW_NUMBER.sub(lambda m: f"{m[1]}{places[int(m[2])]}", path, 1),
                    what,
                )
                for path, what in ((each.path, each.what) for each in error.problems)
            ]
        )
    )


_ROW_NUMBER = re.compile(r"^(\$(?:\.\w+)?\[)(\d+)")


def _load_answer(key: str, value: Any) -> tuple[Message, ...]:
    """The answer under *key*: a text, a message, some, or a response; () if none is."""
    if isinstance(value, str):
        return (AssistantMessage(value),)

    if not isinstance(value, (dict, list)):
        return ()

    wrapped = {"candidates" if key == "candidates" else "choices": value}
    for body, inside in (
        (value, "$"),
        ([value], "$[0]"),
        (wrapped, f"$.{next(iter(wrapped))}"),
    ):
        name = recognize_items(body) if isinstance(body, list) else recognize_api(body)
        if name:
            try:
                return _LOADERS[name](body).messages
            except DecodeError as error:
                raise _rename_paths(error, inside, f"$.{key}") from None

    return ()


def _rename_paths(error: DecodeError, before: str, after: str) -> DecodeError:
    return DecodeError(
        tuple(
            [
                Problem(one.path.replace(before, after, 1), one.what)
                for one in error.problems
            ]
        )
    )


# Sessions of coding agents


def load_session(
    lines: Sequence[Any],
    path: Path | None,
    format: str = "",  # noqa: A002 - as elsewhere
) -> list[FoundConversation | DecodeError]:
    """
    The sessions that *lines* are, each before its sub-agents, or why it can't be
    read. Those of a single one are also in the folder beside the file at *path*.

    Raises:
        DecodeError: If it can't be read.
    """
    sessions = _import_adapter("sessions")
    name = format or sessions.recognize(lines)
    name = name or next(filter(None, map(recognize_session, lines)), "")
    try:
        loaded = [*sessions.load_sessions(lines, format=name)]
        beside = None if path is None else path.with_suffix("") / "subagents"
        if len(loaded) == 1 and beside is not None and beside.is_dir():
            loaded = [sessions.read_session(path, format=name)]
    except ConversationStateError as error:
        raise error if isinstance(error, DecodeError) else fail(str(error)) from None

    found: list[FoundConversation | DecodeError] = []
    for one in loaded:
        if isinstance(one, DecodeError):
            found.append(one)
            continue

        found.append(_as_conversation(one))
        found += [
            _as_conversation(each, f"{one.name}/{each.name}", part_of=one.name)
            for each in one.agents
        ]

    return found


def _as_conversation(session: Any, name: str = "", **links: str) -> FoundConversation:
    notes: dict[str, Any] = {"format": session.format, **links}
    notes |= {"title": session.title, "version": session.version, "cwd": session.cwd}
    notes |= {"labels": session.labels, "called_by": session.called_by}
    notes |= {key: session.notes[key] for key in session.notes if key not in _OF_FILE}
    mended = session.problems
    # The lines would be more than the notes of a name hold.
    if left_out := _count_lines(session.notes.get("lines", ())):
        notes[LEFT_OUT] = left_out
        kinds = ", ".join(f"{left_out[kind]:,} {kind}" for kind in left_out)
        mended = (*mended, f"lines of which nothing is used are left out: {kinds}")

    found = FoundConversation(
        tuple(session.tree.present),
        name or session.name,
        tree=session.tree,
        notes=notes,
        mended=mended,
    )
    # Of what other agents write in the shape of these.
    unknown = [
        (title, str(part.raw.get("type")))
        for title, message in _iterate_titled(found)
        for part in message.parts
        if isinstance(part, UnknownPart) and part.source == "sessions"
    ]
    return found._replace(noticed=_note_unknown(unknown))


# The note with what lines of a session were left out: how many of each type.
LEFT_OUT = "left_out"
_OF_FILE = frozenset({"file", "lines"})


def _count_lines(kept: Iterable[Body]) -> dict[str, int]:
    kinds: Counter[str] = Counter()
    for each in kept:
        if each.get("is_read"):
            continue

        raw = each.get("line")
        kind = raw.get("type") if isinstance(raw, Mapping) else None
        if isinstance(raw, Mapping) and isinstance(raw.get("payload"), Mapping):
            # Codex's lines are of the type of what they hold.
            kind = raw["payload"].get("type") or kind

        kinds[
            shorten_text(kind, 40) if isinstance(kind, str) else "without a type"
        ] += 1

    return {kind: kinds[kind] for kind in sorted(kinds)}


# What is no conversation


def _check_readable(found: FoundConversation, name: str) -> FoundConversation:
    """*found*, if something in it can be read, and nothing is another format's."""
    if not found.messages and not found.tree:
        raise fail("a conversation without messages")

    mended = list(found.mended)
    unknown: list[tuple[str, str]] = []
    for title, message in _iterate_titled(found):
        for place, part in enumerate(message.parts):
            if isinstance(part, UnknownPart) and part.source == name:
                kind = part.raw.get("type")
                owner = find_owner(str(kind), name)
                if owner:
                    raise fail(
                        f"has a block of the type {kind} of {owner}; expected those of "
                        f"{FORMATS[name]}",
                        f"{title}, part {place + 1}",
                    )

                if not is_known(str(kind), name):
                    unknown.append((title, str(kind)))

        if message.metadata:
            mended += [
                f"{title}: half of a surrogate pair became U+FFFD in {path}"
                for each in formats_of(message.metadata)
                for path in list_of(notes_of(message.metadata, each), "mended")
            ]

    unpaired = () if found.state else _find_unpaired(found.messages)
    nodes = () if found.tree is None else found.tree.nodes
    messages = chain(found.messages, (node.message for node in nodes))
    if found.state is None and not any(map(_is_readable, messages)):
        raise fail("nothing in it can be read: no text, no call and no medium")

    noticed = (*found.noticed, *unpaired, *_note_unknown(unknown))
    return found._replace(mended=tuple(mended), noticed=noticed)


def _note_unknown(found: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    # Of blocks: the titles of their messages, and their types.
    if not found:
        return ()

    title, kind = found[0]
    what = f"{format_count(len(found), 'block')} of types that are not known, kept as"
    kind = shorten_text(kind, 40)
    return (f"{what} they are; the first, of {kind}, is in {title}",)


def _find_unpaired(messages: Sequence[Message]) -> Iterator[str]:
    """The results without a call, or without an id where their calls have one."""
    calls: dict[str, ToolCall] = {}
    alone: list[int] = []
    unnamed: list[int] = []
    before: Message | None = None
    for number, message in enumerate(messages, 1):
        if isinstance(message, ToolMessage):
            call = calls.get(message.tool_call_id)
            if call is not None:
                is_unnamed = _has_made_id(message) and not _has_made_id(call)
                unnamed += [number] if is_unnamed else []
            elif (
                before and not before.tool_calls and (what := _describe_unread(before))
            ):
                yield (
                    f"message {number - 1}: {what}, and the result behind it has no "
                    "call"
                )
            else:
                alone.append(number)

        calls |= {call.id: call for call in message.tool_calls}
        before = message

    for numbers, what in (
        (alone, "without a call"),
        (unnamed, "without an id, taken as those of the calls in their order"),
    ):
        if numbers:
            count = format_count(len(numbers), "tool result")
            yield f"{count} {what}; the first is message {numbers[0]}"


def _has_made_id(one: ToolCall | ToolMessage) -> bool:
    return any(
        "made_id" in notes_of(one.metadata, each) for each in formats_of(one.metadata)
    )


def _describe_unread(message: Message) -> str:
    if isinstance(message, UnknownMessage):
        return "it can't be read and is kept as it is"

    text = message.text if isinstance(message, AssistantMessage) else ""
    tag = next((tag for tag in _CALL_TAGS if tag in text), "")
    return tag and f"no call can be read in its {tag}; it stays text"


_CALL_TAGS = ("<tool_call>", "<functioncall>")


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
