"""
From messages to Responses, item by item, and tools as its requests have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias

from conversation_state._persistent import EMPTY_MAP, check_iterable
from conversation_state.adapters._export import (
    Export,
    PayloadWriter,
    in_order,
    merge_kept_keys,
)
from conversation_state.adapters._notes import list_of, map_of, notes_of, signer_of
from conversation_state.adapters._responses._blocks import RESULTS, SOURCE, write_block
from conversation_state.adapters._tools import OPENAI, write_openai_request, write_tools
from conversation_state.chunks import concat
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.parts import Part, ReasoningPart, UnknownPart
from conversation_state.tools import ToolCall, ToolChoice, ToolInfo

# The parts, or the call, of one item, each with its path.
_Pieces: TypeAlias = list[tuple[str, Any]]


def _group_pieces(both: _Pieces) -> list[tuple[str, _Pieces]]:
    """
    *both*, parts and calls in their order, by the items that they are of: each with
    its type, "unknown" for a part that is a whole item.
    """
    groups: list[tuple[str, _Pieces]] = []
    # The type of the last item, as long as more may come of it; and whether a note says
    # that more comes.
    open_kind, goes_on = "", False
    for path, one in both:
        notes = notes_of(one.metadata, SOURCE)
        # A part that is joined of two blocks may have both notes: then it is the last.
        ends, more = "item" in notes, notes.get("more") is True
        kind = "message"
        if isinstance(one, ToolCall):
            kind, ends = "call", True
        elif isinstance(one, ReasoningPart) or (
            # A thought may hold blocks other than text, which are unknown parts.
            isinstance(one, UnknownPart) and "under" in notes
        ):
            kind, ends = "reasoning", ends or not more
        elif isinstance(one, UnknownPart) and not (ends or more):
            kind, ends = "unknown", True

        # A block that was loaded from an item starts a new message, unless the block
        # before has a note that there is more. Blocks of other providers continue the
        # open message.
        ends = ends or notes.get("plain") is True
        if kind != open_kind or ((ends or more) and not goes_on):
            groups.append((kind, []))

        groups[-1][1].append((path, one))
        open_kind, goes_on = "" if ends else kind, more

    return groups


def _write_blocks(write: PayloadWriter, pieces: _Pieces) -> dict[str, Any] | None:
    blocks = [write_block(write, part, path, "assistant") for path, part in pieces]
    written = [block for block in blocks if block is not None]
    if not written:
        return None

    notes = notes_of(pieces[-1][1].metadata, SOURCE)
    content: Any = written
    plain = notes.get("plain") is True
    if plain and len(written) == 1 and written[0].keys() == {"text", "type"}:
        content = written[0]["text"]

    raw = {"role": "assistant", "content": content}
    return merge_kept_keys(map_of(notes, "item"), raw)


def _write_thoughts(write: PayloadWriter, pieces: _Pieces) -> dict[str, Any] | None:
    about = notes_of(pieces[-1][1].metadata, SOURCE)
    raw: dict[str, Any] = {"type": "reasoning", "summary": []}
    signature = ""
    for path, part in pieces:
        notes = write.notes(part, path)
        if isinstance(part, ReasoningPart):
            own = "" if signer_of(part.metadata, SOURCE) else part.signature
            signature = own or signature
            block = _write_thought(part, notes)
        else:
            block = write.unknown(part.raw, part.source, path, "type")

        if block is not None:
            where = "content" if notes.get("under") == "content" else "summary"
            raw.setdefault(where, []).append(block)

    if signature:
        raw["encrypted_content"] = signature
    elif "item" not in about:
        _lose_thought(write, pieces, "needs an id or a signature of this provider")
        return None

    if not raw["summary"] and "summary" in list_of(about, "without"):
        del raw["summary"]

    return merge_kept_keys(map_of(about, "item"), raw)


def _lose_thought(write: PayloadWriter, pieces: _Pieces, why: str) -> None:
    for path, _ in pieces:
        write.lose(path, "reasoning", f"reasoning {why}")


def _write_call(write: PayloadWriter, pieces: _Pieces) -> dict[str, Any]:
    ((path, call),) = pieces
    notes = write.notes(call, path)
    custom = call.type == "custom"
    if call.type not in {"custom", "function"}:
        why = "unknown type of call; it is sent as a function call"
        write.lose(path, "type", why)

    raw = {"type": "custom_tool_call" if custom else "function_call"}
    raw["call_id"] = call.id
    raw["name"] = call.name
    # The end of a stream is right, where it differs from the pieces that were given.
    done: Any = notes.get("done")
    is_done = isinstance(done, str) and notes.get("given") == call.arguments
    raw["input" if custom else "arguments"] = done if is_done else call.arguments
    return merge_kept_keys(map_of(notes, "keys"), raw)


def _write_unknown(write: PayloadWriter, pieces: _Pieces) -> dict[str, Any] | None:
    ((path, part),) = pieces
    write.notes(part, path)
    return write.unknown(part.raw, part.source, path, "type")  # type: ignore[no-any-return]


_ITEM_WRITERS = {
    "call": _write_call,
    "message": _write_blocks,
    "reasoning": _write_thoughts,
    "unknown": _write_unknown,
}


def _write_thought(
    part: ReasoningPart, notes: Mapping[str, Any]
) -> dict[str, Any] | None:
    """
    The block of *part*; None if it has no text, and was loaded from no block.
    """
    noted: Any = notes.get("block")
    is_noted = isinstance(noted, str)
    if not part.text and not is_noted:
        return None

    raw = {"type": noted if is_noted else "summary_text", "text": part.text}
    return merge_kept_keys(map_of(notes, "keys"), raw)


def dump(messages: Iterable[Message]) -> Export:
    """
    *messages* as a request has them: ``{"instructions": ..., "input": [...]}``.

    A system message in front that is a text is the ``instructions``, which
    are left out without one; all others are items. Lost are thoughts that this provider
    has not signed, thoughts that nothing follows (it refuses both), and
    `ToolMessage.is_error`.

    Raises:
        InvalidMessageError:
            If one of them is not a message.
    """
    write = PayloadWriter(SOURCE)
    check_iterable(messages, "messages", "a list of Messages")
    listed = list(messages)
    payload: dict[str, Any] = {}
    items: list[dict[str, Any]] = []
    calls: dict[str, ToolCall] = {}
    for at, (message, path) in enumerate(write.each(listed)):
        if not at and isinstance(message, SystemMessage) and _is_instructions(message):
            write.notes_without_name(message, path)
            payload["instructions"] = message.content
        else:
            followed = _is_more(listed, at + 1)
            items += write_items(write, message, path, calls, followed=followed)

    payload["input"] = items
    return write.export(payload)


def write_items(
    write: PayloadWriter,
    message: Message,
    path: str,
    calls: dict[str, ToolCall],
    *,
    followed: bool,
) -> list[dict[str, Any]]:
    """
    The items of one *message*, none if all of it is lost.

    Args:
        write: Lists what is lost.

        message: The message.

        path: Where it is.

        calls: The calls before it, by their ids; its own calls are added.

        followed: Whether more output of the model follows the message. If not, a
            thought at its end is lost.
    """
    if isinstance(message, AssistantMessage):
        if message.tool_calls:
            calls.update({call.id: call for call in message.tool_calls})

        return _write_answer_items(write, message, path, followed=followed)

    if isinstance(message, ToolMessage):
        return [_write_result_item(write, message, path, calls)]

    if isinstance(message, UnknownMessage):
        write.notes_without_name(message, path)
        raw = write.unknown(message.raw, message.source, path, "type")
        return [] if raw is None else [raw]

    return [_write_message_item(write, message, path)]


def _is_more(listed: Sequence[Message], at: int) -> bool:
    """
    Whether the message at position *at* is output of the model that may follow a
    thought.
    """
    after = listed[at] if at < len(listed) else None
    if isinstance(after, UnknownMessage):
        return after.source == SOURCE and "role" not in after.raw

    return isinstance(after, AssistantMessage)


def _is_instructions(message: SystemMessage) -> bool:
    notes = notes_of(message.metadata, SOURCE)
    return isinstance(message.content, str) and "role" not in notes


def _write_message_item(
    write: PayloadWriter, message: Any, path: str
) -> dict[str, Any]:
    notes = write.notes_without_name(message, path)
    role = message.role
    if role == "system" and notes.get("role") == "developer":
        role = "developer"

    raw = {"role": role, "content": _write_content(write, message, path)}
    return raw if notes is EMPTY_MAP else merge_kept_keys(map_of(notes, "keys"), raw)


def _write_content(
    write: PayloadWriter, message: Any, path: str
) -> str | list[dict[str, Any]]:
    content: Any = message.content
    if isinstance(content, str):
        return content

    blocks = [
        write_block(write, part, f"{path}.parts[{at}]", message.role)
        for at, part in enumerate(content)
    ]
    # A message that loses all its parts is still sent, so that the order of roles
    # stays.
    return [block for block in blocks if block is not None] or ""


def _write_result_item(
    write: PayloadWriter, message: ToolMessage, path: str, calls: Mapping[str, ToolCall]
) -> dict[str, Any]:
    notes = write.notes_without_name(message, path)
    call = calls.get(message.tool_call_id)
    noted = notes.get("custom")
    custom = call is not None and call.type == "custom"
    custom = noted if isinstance(noted, bool) else custom
    raw: dict[str, Any] = {
        "type": RESULTS["custom" if custom else "function"],
        "call_id": message.tool_call_id,
    }
    if notes.get("named") is True and message.tool_name:
        raw["name"] = message.tool_name
    else:
        write.lose_tool_name(message, path, call.name if call else "")

    write.lose_error_flag(message, path)
    raw["output"] = _write_content(write, message, path)
    return merge_kept_keys(map_of(notes, "keys"), raw)


def _write_answer_items(
    write: PayloadWriter, message: AssistantMessage, path: str, *, followed: bool
) -> list[dict[str, Any]]:
    notes = write.notes_without_name(message, path)
    content = message.content
    if notes.get("silent") is True and not (content or message.tool_calls):
        return []

    # Most answers are one text.
    if isinstance(content, str) and not message.tool_calls:
        return [{"role": "assistant", "content": content}]

    items: list[dict[str, Any]] = []
    parts: tuple[Part, ...] = ()
    if not isinstance(content, str):
        parts = content
    elif content:
        items.append({"role": "assistant", "content": content})

    # The thoughts at the end that no output follows yet.
    thoughts: list[_Pieces] = []
    for kind, pieces in _group_pieces(_order_pieces(message, parts, path)):
        raw = _ITEM_WRITERS[kind](write, pieces)
        if raw is not None:
            items.append(raw)
            thoughts = [*thoughts, pieces] if kind == "reasoning" else []

    if not followed:
        for pieces in thoughts:
            items.pop()
            _lose_thought(write, pieces, "must be followed by the output it led to")

    # If everything is lost, an empty message is sent, so that the order of roles stays.
    return items or [{"role": "assistant", "content": ""}]


def _order_pieces(
    message: AssistantMessage, parts: tuple[Part, ...], path: str
) -> _Pieces:
    both: _Pieces = [*in_order(parts, message.tool_calls, path)]
    # A part that a user added has no index to sort by, so nothing is sorted then.
    if all(one.index is not None for _, one in both):
        # A part and a call may have the same index, if they were not loaded from this
        # format; then the part comes first.
        both.sort(key=lambda each: (each[1].index, isinstance(each[1], ToolCall)))
        if len({one.index for _, one in both}) < len(both):
            return _join_pieces(both)

    return both


def _join_pieces(both: _Pieces) -> _Pieces:
    """
    *both*, sorted by index, in which the parts of one index are one: pieces of an item
    of a stream that came after those of others.
    """
    joined: _Pieces = []
    for kind, run in groupby(both, key=lambda each: (each[1].__class__, each[1].index)):
        pieces = list(run)
        if len(pieces) > 1 and kind[0] is not ToolCall:
            whole = concat([AssistantMessage([part for _, part in pieces])]).parts
            pieces = [(pieces[0][0], whole[0])] if len(whole) == 1 else pieces

        joined += pieces

    return joined


def dump_tools(
    tools: Iterable[ToolInfo], *, choice: ToolChoice | None = None
) -> Export:
    """
    *tools* and *choice* as the keys ``tools`` and ``tool_choice`` of a request.

    Raises:
        InvalidToolError:
            If *tools* or *choice* are something else.

    Source:
        OpenAI's reference: ``parameters`` and ``strict`` are always there. Schemas
        are sent as they are, so they are not strict: strict ones may use a part of
        JSON Schema only, and have no parameters that may be left out. At the top of
        one ``anyOf``, ``enum`` and the like are refused.

    >>> tool = ToolInfo("clock", "Tells the time.")
    >>> dump_tools([tool]).payload["tools"][0]["strict"]
    False
    """
    return write_tools(
        tools, choice, OPENAI, _write_responses_tool, write_openai_request
    )


def _write_responses_tool(
    tool: ToolInfo, schema: dict[str, Any] | None
) -> dict[str, Any]:
    written = {
        "type": "function",
        "name": tool.name,
        "parameters": tool.json_schema() if schema is None else schema,
        "strict": False,
    }
    if tool.description:
        written["description"] = tool.description

    return written
