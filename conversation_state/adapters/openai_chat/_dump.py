"""From messages to Chat Completions, and tools as its requests have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from conversation_state._persistent import thaw
from conversation_state.adapters.engine.export import (
    MARKER,
    NOTHING_LEFT,
    OPENAI,
    Export,
    Lost,
    PayloadWriter,
    merge_kept_keys,
    says_nothing,
    write_openai_request,
    write_tools,
)
from conversation_state.adapters.engine.notes import list_of, map_of, notes_of
from conversation_state.adapters.engine.reading import is_map
from conversation_state.adapters.openai_chat._blocks import (
    REASONING_KEYS,
    ROLES,
    SOURCE,
    is_empty_call,
    write_part,
)
from conversation_state.adapters.openai_chat._hosts import fit_to_host, is_checked
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.parts import (
    AudioPart,
    ImagePart,
    Part,
    ReasoningPart,
    RefusalPart,
)
from conversation_state.requests import OPENAI_CHAT, Rules, wants_signatures
from conversation_state.tools import ToolCall, ToolChoice, ToolInfo

# Keys of an assistant message that has no calls and nothing next to its content.
_BARE = frozenset({"content", "name", "role"})


def dump(messages: Iterable[Message], rules: Rules | None = None) -> Export:
    """
    *messages* as a request has them: ``{"messages": [...]}``.

    Lost are reasoning, except in the dialect it came in; media where the format takes
    none; and `ToolMessage.is_error`.

    Raises:
        InvalidMessageError: If one of them is not a message.
    """
    writer = PayloadWriter(SOURCE)
    raws: list[dict[str, Any]] = []
    top: list[tuple[str, dict[str, Any]]] = []
    marked: list[tuple[str, dict[str, Any]]] = []
    # The tools of calls that were written without their ids.
    legacy: dict[str, str] = {}
    ready = writer.prepare(messages, rules, OPENAI_CHAT, _find_lost)
    for message, path in ready.pairs():
        if isinstance(message, UnknownMessage):
            writer.notes_on(message, path)
            raw = writer.unknown(message.raw, message.source, path)
            raws += [] if raw is None else [raw]
        else:
            one: Any = message
            raw = _write_message(writer, one, path)
            if "function_call" in raw and one.tool_calls:
                _note_legacy_call(legacy, one, raw)
            elif legacy and legacy.keys() & {raw.get("tool_call_id")}:
                # The call has no id in the format before ``tool_calls``, so the result
                # has a name instead. One that was loaded without an id stays so where
                # no provider refuses it.
                name = legacy[raw.pop("tool_call_id")]
                notes = notes_of(one.metadata, SOURCE)
                if writer.is_request or "made_id" not in notes:
                    raw |= {"role": "function", "name": one.tool_name or name}
                else:
                    merge_kept_keys(map_of(notes, "keys"), raw)

            raws.append(raw)
            found = [(path, block) for block in _find_marked(raw)]
            if found:
                is_top = one.role == "system" and not marked
                (top if is_top else marked).extend(found)

    if top or marked:
        writer.fit_markers(top, marked)

    return writer.export({"messages": raws})


def _find_marked(raw: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The blocks of *raw*, a message, that have a cache marker; itself, too."""
    content = raw.get("content")
    if isinstance(content, list):
        yield from (each for each in content if each.get(MARKER))

    if raw.get(MARKER):
        yield raw


def _note_legacy_call(
    legacy: dict[str, str], message: AssistantMessage, raw: Mapping[str, Any]
) -> None:
    for call in message.tool_calls:
        if map_of(notes_of(call.metadata, SOURCE), "key") and call.type != "custom":
            legacy[call.id] = raw["function_call"]["name"]
            return


# What an answer may have in place of content. Thinking is not enough: DeepSeek for one
# refuses an answer without content and calls.
_IN_PLACE = frozenset({"audio", "function_call", "refusal", "tool_calls"})
# Where an image that the model made is enough: at home, and where the key is known.
_WITH_IMAGES = ("", "openrouter")


def _find_lost(rules: Rules, message: Message, path: str) -> Sequence[Lost] | None:
    """All that is lost of *message* if nothing is left to send."""
    writer = PayloadWriter(SOURCE, rules)
    if isinstance(message, UnknownMessage):
        writer.notes_on(message, path)
        raw = writer.unknown(message.raw, message.source, path)
        return None if raw is not None else writer.lost

    raw = _write_message(writer, message, path)
    in_place = _IN_PLACE.union(["images"] if rules.host in _WITH_IMAGES else ())
    is_sent = raw.get("content") or any(raw.get(key) for key in in_place)
    return None if is_sent else [*writer.lost, Lost(path, "content", NOTHING_LEFT)]


def _choose_role(
    writer: PayloadWriter, message: Message, notes: Mapping[str, Any]
) -> str:
    """The role that *message* was loaded with, where the host of the request has it."""
    role: Any = notes.get("role")
    rules = writer.rules or OPENAI_CHAT
    is_known = isinstance(role, str) and ROLES.get(role) == message.role
    if not is_known or is_checked(writer):
        return message.role

    return role if role != "developer" or rules.takes_developer else message.role


def _write_message(writer: PayloadWriter, message: Any, path: str) -> dict[str, Any]:
    notes = writer.notes_on(message, path)
    role = _choose_role(writer, message, notes) if notes else message.role
    raw: dict[str, Any] = {"role": role, "content": None}  # in this order
    if isinstance(message, ToolMessage):
        raw |= _write_result(writer, message, path, notes, role)
    elif message.name:
        raw["name"] = message.name

    content = message.content
    if not isinstance(content, str):
        content = _write_parts(writer, message, path, raw)

    if isinstance(message, AssistantMessage):
        for at, call in enumerate(message.tool_calls):
            _put_call(writer, call, f"{path}.tool_calls[{at}]", raw)

        _put_empty_calls(writer, notes, raw)

    raw["content"] = content
    if not content and content != []:
        _write_empty_content(raw, notes, role)

    if notes or not content:
        raw = merge_kept_keys(map_of(notes, "keys"), raw)
        _write_empty_values(writer, raw)

    if role == "assistant" and writer.rules is not None:
        _write_empty_reasoning(writer.rules, raw)

    is_refusal = "refusal" in raw and raw["refusal"] and not raw.get("content")
    if is_refusal and not raw.keys() & _WITH_NULL:
        _write_refusal_as_content(writer, message, raw)

    fit_to_host(writer, raw, path)
    _join_texts(writer, message, path, raw)
    return raw


def _join_texts(
    writer: PayloadWriter, message: Message, path: str, raw: dict[str, Any]
) -> None:
    """
    Write the content of *raw* as one text, where it is a list of texts and the rules
    want that: servers refuse a list, or show it to the model as nothing.

    Source:
        ``messages[9]: invalid type: sequence, expected a string``.
    """
    blocks, rules = raw.get("content"), writer.rules
    if not isinstance(blocks, list) or rules is None:
        return

    keys = {key for block in blocks for key in block} - {"text", "type"}
    if (
        message.role not in rules.text_roles
        or (keys and "user" not in rules.text_roles)  # a cache marker, for one
        or any(block.get("type") != "text" for block in blocks)
        or writer.is_as_loaded(message.metadata, "texts")
    ):
        return

    raw["content"] = "\n".join(block["text"] for block in blocks)
    if len(blocks) > 1:
        writer.lose(path, "text", "a content of texts is one text; each is a line")

    why = "content that is one text has no such key"
    writer.lose_each(path, dict.fromkeys(sorted(keys), True), why)


def _write_empty_values(writer: PayloadWriter, raw: dict[str, Any]) -> None:
    """
    Write what was loaded empty so that every host takes it, if this is a request; none
    needs it as it was.

    Source:
        ``Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum
        length 1``, ``Invalid type for 'messages[1].tool_calls': expected an array of
        objects, but got null instead.`` and ``Invalid value for 'content': expected a
        string, got null.`` Mistral's client sends the first, and what OpenAI's own
        dumps with ``model_dump()`` the second. ``Each message must have at least one
        content element``, of xAI, is about an empty list beside calls, too.
    """
    if not writer.is_request:
        return

    for key in ("function_call", "tool_calls"):
        value = raw.get(key, True)
        if not value or (is_map(value) and is_empty_call(value)):
            del raw[key]

    is_needed = raw.keys().isdisjoint(_WITH_NULL) and not raw.get("refusal")
    if raw.get("content") == [] or (is_needed and raw.get("content") is None):
        raw["content"] = "" if is_needed else None


def _write_empty_reasoning(rules: Rules, raw: dict[str, Any]) -> None:
    """Write the reasoning of an answer that has none, if *rules* want some."""
    if rules.empty_reasoning is not None and not raw.get("reasoning_content"):
        # Other servers have another key for it.
        known = raw.get("reasoning")
        is_known = known and isinstance(known, str)
        raw["reasoning_content"] = known if is_known else rules.empty_reasoning


def _write_refusal_as_content(
    writer: PayloadWriter, message: Message, raw: dict[str, Any]
) -> None:
    """
    Put the refusal in *raw*, which has no content, into the content.

    Source:
        ``Invalid value for 'content': expected a string, got null.`` In responses it is
        null next to a refusal, too.
    """
    if not writer.is_as_loaded(message.metadata, "content"):
        raw["content"] = [{"type": "refusal", "refusal": raw.pop("refusal")}]


def _write_empty_content(
    raw: dict[str, Any], notes: Mapping[str, Any], role: str
) -> None:
    if "content" in list_of(notes, "without"):
        del raw["content"]
    elif role == "assistant" and not raw.keys() <= _BARE:
        # The provider itself sends null as the content next to calls.
        raw["content"] = None


_WITH_NULL = frozenset({"audio", "function_call", "tool_calls"})


def _write_result(
    writer: PayloadWriter,
    message: ToolMessage,
    path: str,
    notes: Mapping[str, Any],
    role: str,
) -> dict[str, str]:
    if message.name:
        why = "in a tool message the name is the tool's, not the sender's"
        writer.lose(path, "name", why)

    writer.lose_error_flag(message, path)
    name = {"name": message.tool_name} if message.tool_name else {}
    # A result in the format before ``tool_calls`` has no id, and one without a call
    # gets none.
    is_made = message.tool_call_id == notes.get("made_id") and not is_checked(writer)
    if is_made and (role == "function" or notes.get("alone") is True):
        return name

    return {"tool_call_id": message.tool_call_id, **name}


def _write_parts(
    writer: PayloadWriter,
    message: Any,
    path: str,
    raw: dict[str, Any],
) -> str | list[dict[str, Any]]:
    """
    The content of a message of parts; parts that stand next to it are put into *raw*.
    """
    parts: tuple[Part, ...] = message.content
    is_answer = isinstance(message, AssistantMessage)
    inside: list[tuple[Part, str]] = []
    for at, part in enumerate(parts):
        here = f"{path}.parts[{at}]"
        if not is_answer or not _put_beside(writer, part, here, raw, late=bool(inside)):
            inside.append((part, here))

    last = inside[-1][0] if inside and is_answer else None
    if isinstance(last, RefusalPart) and last.text:
        about = notes_of(last.metadata, SOURCE)
        # A refusal is written next to the content if it is alone, as is usual, or if it
        # was loaded from there. One that was loaded as the only block of a list has the
        # note "block", so it is a block again.
        if map_of(about, "key") or (len(inside) == 1 and not about):
            writer.notes(*inside.pop())
            raw["refusal"] = last.text

    blocks = [
        block
        for part, here in inside
        if (block := write_part(writer, part, here, message.role)) is not None
    ]
    if is_answer and len(blocks) == 1 < len(parts):
        # The other parts are next to the content, so this text is the content itself
        # and not a list.
        (block,) = blocks
        return block["text"] if block.keys() == {"type", "text"} else blocks

    return blocks or ""


def _put_beside(
    writer: PayloadWriter, part: Part, path: str, raw: dict[str, Any], *, late: bool
) -> bool:
    """Put *part* into *raw*, next to the content, if it stood there."""
    notes = notes_of(part.metadata, SOURCE)
    under = map_of(notes, "key")
    if isinstance(part, ReasoningPart) and part.text:
        keys = [key for key in REASONING_KEYS if under.get(key) is True]
        if keys and (late or not raw.keys().isdisjoint(keys)):
            why = "reasoning is one text before the content; this part was moved"
            writer.lose(path, "reasoning", why)

        # CPython extends a text in place if a single name refers to it. Otherwise each
        # of thousands of parts would copy the text of those before it.
        for key in keys:
            text, raw[key] = raw.get(key, ""), ""
            text += part.text
            raw[key] = text
    elif isinstance(part, ImagePart) and under.get("images") is True:
        block = write_part(writer, part, path, "assistant")
        if block is not None:
            raw.setdefault("images", []).append(block)

        return True
    else:
        # Audio that the provider made is sent by its id, because the provider stores
        # the data.
        name = map_of(notes, "keys").get("id")
        keys = ["audio"] if under and isinstance(name, str) else []
        if not isinstance(part, AudioPart) or "audio" in raw:
            keys = []

        raw |= {key: {"id": name} for key in keys}

    if keys:
        writer.notes(part, path)

    return bool(keys)


def _put_empty_calls(
    writer: PayloadWriter, notes: Mapping[str, Any], raw: dict[str, Any]
) -> None:
    """Put the empty objects that were loaded among the calls into *raw* again."""
    for item in () if writer.is_request else list_of(notes, "empty_calls"):
        match item:
            case [int(at), Mapping() as call]:
                raw.setdefault("tool_calls", []).insert(at, thaw(call))


def _put_call(
    writer: PayloadWriter, call: ToolCall, path: str, raw: dict[str, Any]
) -> None:
    notes = writer.notes(call, path)
    keys = map_of(notes, "keys")
    # Where the host checks keys, it is not asked in the format before ``tool_calls``.
    legacy = bool(map_of(notes, "key")) and not is_checked(writer)
    custom = call.type == "custom"
    without = list_of(notes, "without")
    key = "input" if custom else "arguments"
    given = writer.arguments(call)
    body: dict[str, Any] = {"name": call.name, key: given}
    if not given and key in without:
        del body[key]

    # The key "function_call" holds one call; a second one is sent in "tool_calls".
    if legacy and not custom and "function_call" not in raw:
        raw["function_call"] = merge_kept_keys(keys, body)
        return

    one: dict[str, Any] = {}
    if call.id:
        one["id"] = call.id

    one["type"] = call.type
    # A call of another type has all its fields among the noted keys, and no body.
    if call.name or call.arguments or call.type in {"custom", "function"}:
        one["custom" if custom else "function"] = body

    one = merge_kept_keys(keys, one)
    if writer.is_request:
        # "Unknown parameter: 'messages[2].tool_calls[0].index'": responses of other
        # servers have it. Source: https://github.com/labring/FastGPT/issues/1253.
        one.pop("index", None)

    # "Corrupted thought signature". Source: https://github.com/NousResearch/
    # hermes-agent/pull/111559.
    has_more = "extra_content" in one
    if has_more and writer.is_request and says_nothing(one["extra_content"]):
        del one["extra_content"]

    model = writer.rules.model if writer.rules and "tool_calls" not in raw else ""
    if model and wants_signatures(model):
        one.setdefault("extra_content", {"google": {"thought_signature": _SKIPPED}})

    raw.setdefault("tool_calls", []).append(one)


# What Google has for calls that no Gemini made.
_SKIPPED = "skip_thought_signature_validator"


def dump_tools(
    tools: Iterable[ToolInfo], *, choice: ToolChoice | None = None
) -> Export:
    """
    *tools* and *choice* as the keys ``tools`` and ``tool_choice`` of a request.

    Args:
        tools: What the model may call.
        choice: Whether it may, must or must not call one; None: the provider's
            default, it may.

    Raises:
        InvalidToolError: If *tools* or *choice* are something else.

    Source:
        OpenAI's reference: names are 1 to 64 letters, digits, ``_`` and ``-``; a
        function without ``parameters`` takes none.

    >>> tool = ToolInfo("clock", "Tells the time.")
    >>> dump_tools([tool], choice=ToolChoice.FORCED).payload["tool_choice"]
    'required'
    """
    return write_tools(tools, choice, OPENAI, _write_chat_tool, write_openai_request)


def _write_chat_tool(tool: ToolInfo, schema: dict[str, Any] | None) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description

    if schema is not None:
        function["parameters"] = schema

    return {"type": "function", "function": function}
