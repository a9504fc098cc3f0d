"""From messages to Responses, item by item, and tools as its requests have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import attrs

from conversation_state._persistent import EMPTY_MAP, check_list
from conversation_state.adapters.engine.export import (
    NOTHING_LEFT,
    OPENAI,
    Export,
    Lost,
    PayloadWriter,
    in_order,
    merge_kept_keys,
    write_openai_request,
    write_tools,
)
from conversation_state.adapters.engine.notes import (
    list_of,
    map_of,
    notes_of,
    signer_of,
)
from conversation_state.adapters.openai_responses._blocks import (
    CALLERS,
    OWN_RESULTS,
    RESULTS,
    SOURCE,
    find_unpaired,
    is_unfinished,
    pair_keys,
    write_block,
)
from conversation_state.chunks import concat
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.parts import (
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.requests import OPENAI_RESPONSES, Rules, takes_thinking
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
            isinstance(one, UnknownPart) and "list" in notes
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


def _write_blocks(writer: PayloadWriter, pieces: _Pieces) -> list[dict[str, Any]]:
    path, last = pieces[-1]
    notes = notes_of(last.metadata, SOURCE)
    # What was not loaded as an item has no id and no status, without which the
    # provider's types take texts only.
    is_made = "item" not in notes and notes.get("plain") is not True
    if (is_made and writer.is_request) or _has_input(writer, pieces, notes):
        return _write_texts(writer, pieces)

    blocks = [write_block(writer, part, where, "assistant") for where, part in pieces]
    written = [block for block in blocks if block is not None]
    if not written:
        return []

    content: Any = written
    plain = notes.get("plain") is True
    if plain and len(written) == 1 and written[0].keys() == {"text", "type"}:
        content = written[0]["text"]

    raw = {"role": "assistant", "content": content}
    raw = merge_kept_keys(map_of(notes, "item"), raw)
    if not isinstance(writer, RequestWriter):
        return [raw]

    has_id = "id" in raw
    writer.check_item(raw, path)
    # The provider's types take blocks of output only with an id.
    if has_id and "id" not in raw and isinstance(content, list):
        return _write_texts(writer, pieces)

    if "id" in raw and writer.is_request:
        # Which a stream that broke off had not said yet.
        for block in written:
            if block.get("type") == "output_text":
                block.setdefault("annotations", [])

    return [raw]


def _has_input(
    writer: PayloadWriter, pieces: _Pieces, notes: Mapping[str, Any]
) -> bool:
    """Whether an answer without an id has a user's blocks, which the host refuses."""
    is_picky = writer.rules is not None and not writer.rules.takes_foreign_items
    if not is_picky or "id" in map_of(notes, "item"):
        return False

    return any(
        str(part.raw.get("type")).startswith("input_")
        if isinstance(part, UnknownPart)
        else notes_of(part.metadata, SOURCE).get("block") == "input_text"
        for _, part in pieces
    )


def _write_texts(writer: PayloadWriter, pieces: _Pieces) -> list[dict[str, Any]]:
    """
    *pieces* of an answer as items of one text each.

    Source:
        The types of OpenAI's SDK: an assistant's message without an id has a text, or
        blocks of input, as its content; vLLM refuses others.
    """
    items: list[dict[str, Any]] = []
    for path, part in pieces:
        if isinstance(part, (RefusalPart, TextPart)) and part.text:
            writer.notes(part, path)
            if isinstance(part, RefusalPart):
                why = "only an answer of this provider has refusals; it is sent as text"
                writer.lose(path, "refusal", why)

            items.append({"role": "assistant", "content": part.text})
        elif isinstance(part, TextPart):
            writer.lose(path, "text", "is empty")
        elif write_block(writer, part, path, "assistant") is not None:
            why = "only an answer of this provider has this kind of part"
            writer.lose(path, part.kind, why)

    return items


def _write_thoughts(writer: PayloadWriter, pieces: _Pieces) -> list[dict[str, Any]]:
    about = notes_of(pieces[-1][1].metadata, SOURCE)
    raw: dict[str, Any] = {"type": "reasoning", "summary": []}
    signature = ""
    for path, part in pieces:
        notes = writer.notes(part, path)
        if isinstance(part, ReasoningPart):
            own = "" if signer_of(part.metadata, SOURCE) else part.signature
            signature = own or signature
            block = _write_thought(part, notes)
        else:
            block = writer.unknown(part.raw, part.source, path)

        if block is not None:
            where = "content" if notes.get("list") == "content" else "summary"
            raw.setdefault(where, []).append(block)

    # "Invalid 'input[1].content': array too long. Expected an array with maximum length
    # 0"; "The encrypted content could not be verified".
    why = writer.find_why_untaken(raw) if isinstance(writer, RequestWriter) else ""
    if why:
        _lose_thought(writer, pieces, why)
        return []

    if signature:
        raw["encrypted_content"] = signature
    elif "item" not in about:
        _lose_thought(writer, pieces, "needs an id or a signature of this provider")
        return []
    elif isinstance(writer, RequestWriter) and writer.is_unstored:
        # "Item with id 'rs_...' not found. Items are not persisted when `store` is set
        # to false."
        _lose_thought(writer, pieces, "was not stored, and has no signature")
        return []

    if not raw["summary"] and "summary" in list_of(about, "without"):
        del raw["summary"]

    raw = merge_kept_keys(map_of(about, "item"), raw)
    if writer.rules is not None and writer.rules.is_request:
        # "Unknown parameter: 'input[3].status'": responses only have it. Source:
        # https://github.com/1jehuang/jcode/issues/1028.
        raw.pop("status", None)

    return _check_unique_id(writer, raw, pieces[-1][0])


def _check_unique_id(
    writer: PayloadWriter, raw: dict[str, Any], path: str
) -> list[dict[str, Any]]:
    if "id" not in raw or not isinstance(writer, RequestWriter):
        return [raw]

    checked = writer.check_item(raw, path)
    return [] if checked is None else [checked]


def _lose_thought(writer: PayloadWriter, pieces: _Pieces, why: str) -> None:
    for path, _ in pieces:
        writer.lose(path, "reasoning", f"reasoning {why}")


def _as_ended(call: ToolCall) -> ToolCall:
    """
    *call* with the arguments that the end of its stream had: they are right, where they
    differ from the pieces that were given.
    """
    notes = notes_of(call.metadata, SOURCE)
    done: Any = notes.get("done")
    is_done = isinstance(done, str) and notes.get("given") == call.arguments
    return attrs.evolve(call, arguments=done) if is_done else call


def _with_ended_calls(message: Any) -> Any:
    calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
    if all(call.metadata is EMPTY_MAP for call in calls):
        return message

    ended = [*map(_as_ended, calls)]
    return message if ended == [*calls] else message.replace(tool_calls=ended)


def _write_call(writer: PayloadWriter, pieces: _Pieces) -> list[dict[str, Any]]:
    ((path, call),) = pieces
    notes = writer.notes(call, path)
    custom = call.type == "custom"
    if call.type not in {"custom", "function"}:
        why = "unknown type of call; it is sent as a function call"
        writer.lose(path, "type", why)

    raw = {"type": "custom_tool_call" if custom else "function_call"}
    raw["call_id"] = call.id
    raw["name"] = call.name
    raw["input" if custom else "arguments"] = writer.arguments(_as_ended(call))
    return _check_unique_id(writer, merge_kept_keys(map_of(notes, "keys"), raw), path)


def _write_unknown(writer: PayloadWriter, pieces: _Pieces) -> list[dict[str, Any]]:
    ((path, part),) = pieces
    writer.notes(part, path)
    if isinstance(writer, RequestWriter) and writer.is_left_out(part.raw, path):
        return []

    raw = writer.unknown(part.raw, part.source, path)
    return [] if raw is None else _check_unique_id(writer, raw, path)


_ITEM_WRITERS = {
    "call": _write_call,
    "message": _write_blocks,
    "reasoning": _write_thoughts,
    "unknown": _write_unknown,
}


def _write_thought(
    part: ReasoningPart, notes: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The block of *part*; None if it has no text, and was loaded from no block."""
    noted: Any = notes.get("block")
    is_noted = isinstance(noted, str)
    if not part.text and not is_noted:
        return None

    raw = {"type": noted if is_noted else "summary_text", "text": part.text}
    return merge_kept_keys(map_of(notes, "keys"), raw)


def dump(messages: Iterable[Message], rules: Rules | None = None) -> Export:
    """
    *messages* as a request has them: ``{"instructions": ..., "input": [...]}``.

    A system message in front that is a text is the ``instructions``, which
    are left out without one; all others are items. Lost are thoughts that this provider
    has not signed, thoughts that nothing follows (it refuses both), and
    `ToolMessage.is_error`.

    Raises:
        InvalidMessageError: If one of them is not a message.
    """
    writer = RequestWriter()
    check_list(messages, "messages", "a list of Messages")
    # Before it is decided whether arguments are such as a host takes.
    ended = [*map(_with_ended_calls, messages)]
    ready = writer.prepare(ended, rules, OPENAI_RESPONSES, _find_lost)
    payload: dict[str, Any] = {}
    pairs = [*ready.pairs()]
    first = pairs[0][0] if pairs else None
    if isinstance(first, SystemMessage) and _is_instructions(first):
        writer.notes_without_name(*pairs.pop(0))
        payload["instructions"] = first.content

    payload["input"] = _write_pairs(writer, pairs)
    return writer.export(payload)


def write_view(messages: Iterable[Message]) -> list[Any]:
    """The items of *messages* that are right as a request, as `dump` has them."""
    pairs = [(message, f"messages[{at}]") for at, message in enumerate(messages)]
    return _write_pairs(RequestWriter(OPENAI_RESPONSES), pairs)


def _write_pairs(
    writer: RequestWriter, pairs: list[tuple[Message, str]]
) -> list[dict[str, Any]]:
    """The items of messages, each with its path."""
    if writer.is_request:
        own = [*_find_own_items(pairs)]
        writer.unpaired = find_unpaired(own)
        writer.unpaired |= {path for path, raw in own if is_unfinished(raw)}
        pairs = [
            (message, path)
            for message, path in pairs
            if not (
                isinstance(message, UnknownMessage)
                and writer.is_left_out(message.raw, path)
            )
        ]
        pairs = _move_results(writer, pairs)

    items: list[dict[str, Any]] = []
    calls: dict[str, ToolCall] = {}
    for at, (message, path) in enumerate(pairs):
        followed = at + 1 < len(pairs) and _is_more(pairs[at + 1][0])
        items += write_items(writer, message, path, calls, followed=followed)

    return items


def _move_results(
    writer: PayloadWriter, pairs: list[tuple[Message, str]]
) -> list[tuple[Message, str]]:
    """
    *pairs*, in which late results that are kept as they are stand behind the message of
    their call, as those of functions do.
    """
    if not any(isinstance(message, UnknownMessage) for message, _ in pairs):
        return pairs

    # Each message with the results behind it; and where the calls are.
    rows: list[list[tuple[Message, str]]] = []
    called: dict[tuple[str, str], int] = {}
    for message, path in pairs:
        keys = [
            key
            for _, raw in _find_own_items([(message, path)])
            for key in pair_keys(raw)
        ]
        kind = message.raw.get("type") if isinstance(message, UnknownMessage) else None
        is_result = isinstance(message, ToolMessage) or kind in OWN_RESULTS.values()
        if rows and is_result:
            last = len(rows) - 1
            at = called.get(keys[0], last) if keys else last
            if at != last:
                writer.lose(path, "position", _MOVED)

            rows[at].append((message, path))
        else:
            called.update(dict.fromkeys(keys, len(rows)))
            rows.append([(message, path)])

    return [pair for row in rows for pair in row]


_MOVED = "results must follow their calls directly; this message was moved"


def _find_own_items(
    pairs: Iterable[tuple[Message, str]],
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Items that are kept as they are, but those that came without the other half."""
    for message, path in pairs:
        found: list[tuple[str, Any]] = [(path, message)]
        if isinstance(message, AssistantMessage):
            found = [*in_order(message.parts, (), path)]

        for where, one in found:
            is_own = getattr(one, "source", "") == SOURCE
            if is_own and notes_of(one.metadata, SOURCE).get("alone") is not True:
                yield where, one.raw


class RequestWriter(PayloadWriter):
    """What a request has so far, in which no item may be twice."""

    def __init__(self, rules: Rules | None = None) -> None:
        super().__init__(SOURCE, rules)
        self._ids: set[str] = set()
        self._needs: Mapping[str, Any] = EMPTY_MAP
        self.is_unstored = False
        self._is_foreign = False
        # Where calls without a result are, and results without a call.
        self.unpaired: set[str] = set()
        # The `pair_keys` of calls that can't be sent.
        self._refused: set[tuple[str, str]] = set()

    def is_left_out(self, raw: Mapping[str, Any], path: str) -> bool:
        """
        Whether the item *raw* at *path* lacks its other half, and is listed as lost.

        Source:
            ``No tool output found for function call c``; ``No tool call found for
            function call output with call_id c``.
        """
        is_result = str(raw.get("type")) in CALLERS
        is_refused = is_result and not self._refused.isdisjoint(pair_keys(raw))
        if path not in self.unpaired and not is_refused:
            return False

        half = "the call it is of" if is_result else "its result"
        self.lose(path, raw["type"], f"is refused without {half}")
        return True

    def start_answer(self, notes: Mapping[str, Any], model: str = "") -> None:
        """Begin the items of an answer of *model* with these *notes*."""
        self._needs = EMPTY_MAP if notes is EMPTY_MAP else map_of(notes, "needs")
        self.is_unstored = notes is not EMPTY_MAP and notes.get("unstored") is True
        self._is_foreign = not takes_thinking(self.rules or OPENAI_RESPONSES, model)

    def find_why_untaken(self, raw: Mapping[str, Any]) -> str:
        """
        Why *raw*, a reasoning item, can't be sent; "" if it can. A provider takes only
        its own: those have no content, but are encrypted.
        """
        if self.rules is not None and not takes_thinking(self.rules, ""):
            return "is refused by a model that does not reason"

        if self._is_picky and (raw.get("content") or self._is_foreign):
            return "was not made by this provider"

        return ""

    @property
    def _is_picky(self) -> bool:
        return self.rules is not None and not self.rules.takes_foreign_items

    def check_item(self, raw: dict[str, Any], path: str) -> dict[str, Any] | None:
        """
        *raw*, an item of the model's output, as this request can have it: without its
        id if another item has it, if it was not stored, or if the reasoning that it
        needs is missing. None if it can't be sent without.

        Source:
            ``Duplicate item found with id msg_...``; ``Item with id 'msg_...' not
            found. Items are not persisted when `store` is set to false``; ``Item
            'fc_...' of type 'function_call' was provided without its required
            'reasoning' item``; ``Invalid 'input[1].id': 'chatcmpl-...'. Expected an ID
            that begins with 'msg'``.
        """
        name, kind = raw.get("id"), raw.get("type")
        if not isinstance(name, str) or not self.is_request:
            return raw

        # It may be the id of its call.
        if kind == "local_shell_call_output":
            return raw

        # Of the Agents SDK, for items of other formats: it means none.
        if name == _NO_ID and not self._is_picky:
            return raw

        why, keys = self._find_why_without(name, kind), pair_keys(raw)
        if not why:
            self._refused.difference_update(keys)
            return raw

        if kind not in _SENT_WITHOUT_ID:
            self.lose(path, str(kind), f"{name} {why}")
            # Its result goes with it.
            self._refused.update(keys)
            self.unpaired |= {path} if keys else set()
            return None

        self.lose(path, "id", f"{name} {why}; it is sent without")
        del raw["id"]
        return raw

    def _find_why_without(self, name: str, kind: Any) -> str:
        """Why an item of this *kind* can't be sent with the id *name*; "" if it can."""
        prefix = _PREFIXES.get(kind or "message", "")
        if self._is_picky and not (
            name.startswith(prefix) and OPENAI_RESPONSES.call_ids.is_valid(name)
        ):
            return "is no id of an item of this provider"

        needed, is_taken = self._needs.get(name), name in self._ids
        self._ids.add(name)
        if is_taken:
            return "is the id of an item before it"

        if self.is_unstored and kind != "reasoning":
            return "is the id of an item that was not stored"

        if isinstance(needed, str) and needed not in self._ids:
            return f"is the id of an item that needs the reasoning {needed}"

        return ""

    def forget_item(self, raw: Mapping[str, Any]) -> None:
        if isinstance(raw.get("id"), str):
            self._ids.discard(raw["id"])


_NO_ID = "__fake_id__"
_PREFIXES = {
    "custom_tool_call": "ctc",
    "function_call": "fc",
    "message": "msg",
    "reasoning": "rs",
}


# Items whose content can be sent without their id: a message, which may have no type,
# and those whose id is optional in the types of OpenAI's SDK.
_SENT_WITHOUT_ID = (
    None, "additional_tools", "apply_patch_call", "apply_patch_call_output",
    "compaction", "compaction_trigger", "computer_call_output", "configuration_update",
    "custom_tool_call", "custom_tool_call_output", "function_call",
    "function_call_output", "mcp_approval_response", "message", "shell_call",
    "shell_call_output", "tool_search_call", "tool_search_output",
)  # fmt: skip


def _find_lost(rules: Rules, message: Message, path: str) -> Sequence[Lost] | None:
    """All that is lost of *message* if nothing is left to send."""
    writer = PayloadWriter(SOURCE, rules)
    items = write_items(writer, message, path, {}, followed=True)
    if any(item.get("content", True) for item in items):
        return None

    if not isinstance(message, UnknownMessage):
        writer.lose(path, "content", NOTHING_LEFT)

    return writer.lost


def write_items(
    writer: PayloadWriter,
    message: Message,
    path: str,
    calls: dict[str, ToolCall],
    *,
    followed: bool,
) -> list[dict[str, Any]]:
    """
    The items of one *message*, none if all of it is lost.

    Args:
        writer: Lists what is lost.
        message: The message.
        path: Where it is.
        calls: The calls before it, by their ids; its own calls are added.
        followed: Whether more output of the model follows the message. If not, a
            thought at its end is lost.
    """
    if isinstance(message, AssistantMessage):
        if message.tool_calls:
            calls.update({call.id: call for call in message.tool_calls})

        return _write_answer_items(writer, message, path, followed=followed)

    if isinstance(message, ToolMessage):
        return [_write_result_item(writer, message, path, calls)]

    if isinstance(message, UnknownMessage):
        writer.notes_without_name(message, path)
        if (
            isinstance(writer, RequestWriter)
            and message.source == SOURCE
            and writer.is_left_out(message.raw, path)
        ):
            return []

        raw = writer.unknown(message.raw, message.source, path)
        return [] if raw is None else _check_unique_id(writer, raw, path)

    raw = _write_message_item(writer, message, path)
    if "id" in raw and isinstance(writer, RequestWriter):
        writer.start_answer(EMPTY_MAP)

    return _check_unique_id(writer, raw, path)


def _is_more(after: Message) -> bool:
    """Whether *after* is output of the model that may follow a thought."""
    if isinstance(after, UnknownMessage):
        is_output = (
            "role" not in after.raw and str(after.raw.get("type")) not in CALLERS
        )
        return after.source == SOURCE and is_output

    return isinstance(after, AssistantMessage)


def _is_instructions(message: SystemMessage) -> bool:
    notes = notes_of(message.metadata, SOURCE)
    return isinstance(message.content, str) and "role" not in notes


def _write_message_item(
    writer: PayloadWriter, message: Any, path: str
) -> dict[str, Any]:
    notes = writer.notes_without_name(message, path)
    role = message.role
    if role == "system" and notes.get("role") == "developer":
        role = "developer"

    raw = {"role": role, "content": _write_content(writer, message, path)}
    return raw if notes is EMPTY_MAP else merge_kept_keys(map_of(notes, "keys"), raw)


def _write_content(
    writer: PayloadWriter, message: Any, path: str
) -> str | list[dict[str, Any]]:
    content: Any = message.content
    if isinstance(content, str):
        return content

    blocks = [
        write_block(writer, part, f"{path}.parts[{at}]", message.role)
        for at, part in enumerate(content)
    ]
    return [block for block in blocks if block is not None] or ""


def _write_result_item(
    writer: PayloadWriter,
    message: ToolMessage,
    path: str,
    calls: Mapping[str, ToolCall],
) -> dict[str, Any]:
    notes = writer.notes_without_name(message, path)
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
        writer.lose_tool_name(message, path, call.name if call else "")

    writer.lose_error_flag(message, path)
    raw["output"] = _write_content(writer, message, path)
    return merge_kept_keys(map_of(notes, "keys"), raw)


def _write_answer_items(
    writer: PayloadWriter, message: AssistantMessage, path: str, *, followed: bool
) -> list[dict[str, Any]]:
    notes = writer.notes_without_name(message, path)
    if isinstance(writer, RequestWriter):
        response = message.response
        writer.start_answer(notes, response.model if response else "")

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

    # The items at the end that are thoughts which no output follows yet.
    thoughts: list[_Pieces] = []
    for kind, pieces in _group_pieces(_order_pieces(writer, message, parts, path)):
        written = _ITEM_WRITERS[kind](writer, pieces)
        items += written
        if written:
            thoughts = [*thoughts, pieces] if kind == "reasoning" else []
        elif isinstance(writer, RequestWriter) and pieces[0][0] in writer.unpaired:
            # They led to what is left out.
            _remove_thoughts(writer, items, thoughts)
            thoughts = []

    if not followed:
        _remove_thoughts(writer, items, thoughts)

    # Where no provider refuses it, the order of roles stays.
    empty: dict[str, Any] = {"role": "assistant", "content": ""}
    return items if items or writer.is_request else [empty]


def _remove_thoughts(
    writer: PayloadWriter, items: list[dict[str, Any]], thoughts: list[_Pieces]
) -> None:
    """Remove the *thoughts* at the end of *items*."""
    for pieces in thoughts:
        item = items.pop()
        if isinstance(writer, RequestWriter):
            writer.forget_item(item)

        _lose_thought(writer, pieces, "must be followed by the output it led to")


def _is_own(pieces: _Pieces) -> bool:
    """Whether one of *pieces* is, or is of, an item of this provider."""
    return any(
        notes_of(one.metadata, SOURCE) or getattr(one, "source", "") == SOURCE
        for _, one in pieces
    )


def _order_pieces(
    writer: PayloadWriter, message: AssistantMessage, parts: tuple[Part, ...], path: str
) -> _Pieces:
    both: _Pieces = [*in_order(parts, message.tool_calls, path)]
    # A part that a user added has no index to sort by, so nothing is sorted then.
    if all(one.index is not None for _, one in both):
        # A part and a call may have the same index, if they were not loaded from this
        # format; then the part comes first.
        both.sort(key=lambda each: (each[1].index, isinstance(each[1], ToolCall)))
        if len({one.index for _, one in both}) < len(both):
            both = _join_pieces(both)

    if isinstance(writer, RequestWriter) and writer.is_request and not _is_own(both):
        # A text behind a call would part it from its result.
        both.sort(key=lambda each: isinstance(each[1], ToolCall))

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
        InvalidToolError: If *tools* or *choice* are something else.

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
