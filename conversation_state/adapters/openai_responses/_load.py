"""From Responses and their items to messages; a response's metadata and usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters.engine.notes import with_notes
from conversation_state.adapters.engine.openai import COMPLETION_DETAILS, PROMPT_DETAILS
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    as_sent,
    is_list,
    is_map,
    mended,
    take_text,
)
from conversation_state.adapters.engine.usage import (
    Counted,
    find_usage_block,
    read_billed,
    read_counts,
    read_paid_text,
    usage_in,
)
from conversation_state.adapters.engine.wire import (
    MessageLoader,
    make_call_id,
    make_call_prefix,
    read_object_text,
)
from conversation_state.adapters.openai_responses._blocks import (
    CALLERS,
    CALLS,
    RESULTS,
    SOURCE,
    find_unpaired,
    read_block,
    read_content,
)
from conversation_state.messages import (
    AssistantMessage,
    LogProb,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import Part, ReasoningPart, TextPart, UnknownPart
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

PartOrCall: TypeAlias = Part | ToolCall

# The keys of the lists with an item's blocks, in the order of the blocks.
LISTS = {"message": ("content",), "reasoning": ("summary", "content")}

_MESSAGE = frozenset({"content", "role"})
_REASONING = frozenset({"content", "encrypted_content", "summary", "type"})
_THOUGHT = frozenset({"text", "type"})


class ItemIds:
    """
    The ids of the items of one answer while it is read.

    Attributes:
        needs: Of each item that came behind a thought, the id of that thought.
    """

    def __init__(self) -> None:
        self.needs: dict[str, str] = {}
        self._thought = ""

    def add(self, raw: Mapping[str, Any]) -> None:
        name = raw.get("id")
        if not isinstance(name, str) or not name:
            return

        if raw.get("type") == "reasoning":
            self._thought = mended(name)
        elif self._thought:
            self.needs[mended(name)] = self._thought


def note_unstored(response: Mapping[str, Any]) -> dict[str, Any]:
    """The note that the items of *response* were not stored, if it says so."""
    return {"unstored": True} if response.get("store") is False else {}


class ItemBlock(NamedTuple):
    """One block of an item, and the list it stands in."""

    where: str
    number: int
    raw: Mapping[str, Any]
    path: str


def read_item(
    item: ObjectReader, index: int, made_id: str, logprobs: list[LogProb] | None = None
) -> list[PartOrCall]:
    """
    The parts and calls of *item*, numbered from *index* on.

    Args:
        item: The item; a message may lack its type.
        index: The place of its first part or call among those of the response.
        made_id: The id of a call without one.
        logprobs: The list that takes the log probabilities of a response; None in a
            history.
    """
    kind = item.raw.get("type")
    if kind in CALLS:
        return [read_call(item, index, made_id)]

    if kind == "message" or (kind is None and "role" in item.raw):
        content = item.raw.get("content")
        if isinstance(content, str):
            return [_read_plain_message(item, index)]

        if not is_list(content):
            item.wrong("content", "a text or a list of parts")
            return []

        return _read_blocks(item, "message", index, logprobs)

    if kind == "reasoning" and _is_readable(item.raw):
        return _read_blocks(item, "reasoning", index, logprobs)

    return [item.as_unknown(SOURCE, index)]


def _is_readable(raw: Mapping[str, Any]) -> bool:
    """Whether the thought *raw* has a text, or no blocks at all."""
    blocks: list[Any] = []
    for where in LISTS["reasoning"]:
        listed = raw.get(where)
        if is_list(listed):
            blocks += listed
        elif listed is not None:
            return False

    signature = raw.get("encrypted_content")
    if not (signature is None or isinstance(signature, str)):
        return False

    # The signature is kept in a part of text, so it would be lost if there were only
    # blocks of other types.
    return all(map(is_map, blocks)) and (
        not blocks or any(map(_is_reasoning_text, blocks))
    )


def find_signed(blocks: Sequence[ItemBlock]) -> int:
    """
    The position of the block that gets the signature of its thought: the last text.
    """
    texts = [at for at, block in enumerate(blocks) if _is_reasoning_text(block.raw)]
    return max(texts, default=0)


def _is_reasoning_text(raw: Mapping[str, Any]) -> bool:
    return isinstance(raw.get("text"), str) and isinstance(raw.get("type"), str)


def _read_plain_message(item: ObjectReader, index: int) -> Part:
    text = item.text("content")
    item.keep(_MESSAGE)
    notes: dict[str, Any] = {"plain": True}
    if item.keys:
        notes["item"] = item.keys

    return TextPart(text, index=index, metadata=with_notes(SOURCE, notes))


def note_item(item: ObjectReader, kind: str) -> tuple[dict[str, Any], str]:
    """The notes on *item* of a *kind*, and its signature."""
    if kind == "message":
        item.keep(_MESSAGE)
        return {"item": item.keys}, ""

    item.keep(_REASONING)
    # An empty content has no part that would restore it, so null or [] is noted.
    if "content" in item.raw and not item.raw["content"]:
        item.keys["content"] = item.raw["content"]

    notes: dict[str, Any] = {"item": item.keys}
    if item.raw.get("summary") is None:
        if "summary" in item.raw:
            item.keys["summary"] = None
        else:
            notes["without"] = ["summary"]

    return notes, item.optional("encrypted_content")


def blocks_of(item: ObjectReader, kind: str) -> list[ItemBlock]:
    blocks: list[ItemBlock] = []
    for where in LISTS[kind]:
        listed = item.raw.get(where)
        if listed is None:
            continue

        if not is_list(listed):
            item.wrong(where, "a list of parts")
            continue

        for number, raw in enumerate(listed):
            path = f"{item.path}.{where}[{number}]"
            if is_map(raw):
                blocks.append(ItemBlock(where, number, raw, path))
            else:
                item.reading.wrong(path, raw, "an object")

    return blocks


def _read_blocks(
    item: ObjectReader, kind: str, index: int, logprobs: list[LogProb] | None
) -> list[PartOrCall]:
    blocks = blocks_of(item, kind)
    notes, signature = note_item(item, kind)
    if not blocks:
        metadata = with_notes(SOURCE, notes)
        if kind == "reasoning":
            return [ReasoningPart("", signature, index=index, metadata=metadata)]

        # A message without blocks is sent with an empty one.
        return [TextPart("", index=index, metadata=metadata)]

    signed = find_signed(blocks)
    parts: list[PartOrCall] = []
    for at, block in enumerate(blocks):
        last = at == len(blocks) - 1
        parts.append(
            read_item_block(
                ObjectReader(item.reading, block.raw, block.path),
                block.where if kind == "reasoning" else "",
                notes if last else {"more": True},
                index=index + at,
                signature=signature if at == signed else "",
                logprobs=logprobs,
            )
        )

    return parts


def read_item_block(
    block: ObjectReader,
    where: str,
    notes: dict[str, Any],
    *,
    index: int,
    signature: str,
    logprobs: list[LogProb] | None,
) -> Part:
    """
    The part that *block* is, with *notes* on its item. *where* is the list of a
    thought that it is in, "" for a message.
    """
    block.notes.update(notes)
    if not where:
        part = read_block(block, "assistant", index, logprobs)
        if isinstance(part, UnknownPart) and not notes:
            # Without a note on its item, `dump` would write this part as an item.
            metadata = with_notes(SOURCE, {"item": {}})
            return UnknownPart(part.raw, source=SOURCE, index=index, metadata=metadata)

        return part

    if not _is_reasoning_text(block.raw):
        block.notes["list"] = where
        return block.as_unknown(SOURCE, index)

    kind, text = block.text("type"), block.text("text")
    # Without these notes `dump` writes a block of type "summary_text" in the summary,
    # and none for an empty text.
    if where == "content" or not text or kind != "summary_text":
        block.notes["list"] = where
        block.notes["block"] = kind

    block.keep(_THOUGHT)
    return ReasoningPart(text, signature, index=index, metadata=block.metadata(SOURCE))


def read_call(item: ObjectReader, index: int, made_id: str) -> ToolCall:
    kind = item.raw["type"]
    key = CALLS[kind]
    name = item.text_of_call("name")
    # Some servers send the object that OpenAI has as JSON text.
    is_object = is_map(item.raw.get(key))
    arguments = read_object_text(item, key) if is_object else item.text_of_call(key)
    # A missing id, null and "" are the same: `dump` sends the one made here.
    call_id = item.nullable("call_id")
    if not call_id:
        call_id = item.notes["made_id"] = made_id

    item.keep(frozenset({"call_id", "name", "type", key}))
    return ToolCall(
        call_id,
        name,
        arguments,
        index=index,
        type="custom" if kind == "custom_tool_call" else "function",
        metadata=item.metadata(SOURCE),
    )


_ROLES = {"developer": "system", "system": "system", "user": "user"}
_SPOKEN = frozenset({"content", "role"})
_RESULT = frozenset({"call_id", "name", "output", "type"})
# The metadata of the part of a message whose content is a text and not a list.
_PLAIN_NOTES = TextPart("", metadata=with_notes(SOURCE, {"plain": True})).metadata


def load(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*: a request, its list of items, or a response.

    Of a request only ``instructions`` and ``input`` are read. The response of a
    compaction gives the messages that were kept before it, too.

    Consecutive output of the model is one message: all output of a response; in a
    history the items up to the next one that the caller made. A message item
    behind another one begins another message, unless the first one was only a
    commentary (``phase``).

    Raises:
        DecodeError: If a value is invalid in the format.
    """
    expected = "a request, a list of items, or a response"
    return ItemLoader().load(payload, expected)


def load_items(
    items: Sequence[Any], calls: Mapping[str, ToolCall]
) -> tuple[Message, ...]:
    """
    The messages of *items* that come after others.

    Args:
        items: The items. The first one does not continue an answer of the model that
            came before.
        calls: The calls made before, by their ids, for the names of tools in results.

    Raises:
        DecodeError: As for `load`.
    """
    loader = ItemLoader(calls)
    loader.history(items, "$")
    loader.finish()
    return tuple(loader.messages)


class ItemLoader(MessageLoader):
    """
    One payload while it is read.

    Attributes:
        messages: Those that are read.
    """

    source = SOURCE

    def __init__(self, calls: Mapping[str, ToolCall] = EMPTY_MAP) -> None:
        super().__init__()
        self.messages: list[Message] = []
        self._answer: list[PartOrCall] | None = None
        # The phase of the last item, "" if it had none; None if it was no
        # message.
        self._phase: str | None = None
        self._ids = ItemIds()
        # The number of mended texts before the message that is being read.
        self._since = 0
        self._calls = dict(calls)
        self._alone: set[str] = set()

    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        node = ObjectReader(self, payload, "$")
        if "input" in payload and "output" not in payload:
            self._load_request(node)
        elif "input" not in payload and is_list(payload.get("output")):
            self._load_response(node)
        else:
            self.refuse_document(payload, "input", "output", "items")

        return self.messages

    def _load_request(self, node: ObjectReader) -> None:
        if node.raw.get("instructions") is not None:
            text = node.text("instructions")
            self._add_message(SystemMessage, text)

        given = node.raw["input"]
        if isinstance(given, str):
            self._add_message(UserMessage, node.text("input"))
        elif is_list(given):
            self.history(given, "$.input")
        else:
            node.wrong("input", "a text or a list of items")

    def history(self, raws: Sequence[Any], path: str) -> list[Message]:
        if self.is_continued:
            # What the provider has stored may have the other half.
            self._alone = find_unpaired(
                [(f"{path}[{at}]", raw) for at, raw in enumerate(raws) if is_map(raw)]
            )

        for at, raw in enumerate(raws):
            if not is_map(raw):
                self.wrong(f"{path}[{at}]", raw, "an object")
            else:
                self._load_item(ObjectReader(self, raw, f"{path}[{at}]"), f"item_{at}")

        self._finish_answer()
        return self.messages

    def _get_item_type(self, item: ObjectReader) -> str:
        # In a request, messages and item references may have no type.
        kind = item.raw.get("type")
        if kind is None and "role" in item.raw:
            return "message"

        if kind is None and "id" in item.raw:
            return "item_reference"

        if not isinstance(kind, str) or not kind:
            item.wrong("type", "the type of an item")
            return ""

        return kind

    def _load_item(self, item: ObjectReader, prefix: str) -> None:
        kind = self._get_item_type(item)
        if not kind:
            return

        if kind == "message":
            role = item.raw.get("role")
            if not isinstance(role, str):
                item.wrong("role", ", ".join(["assistant", *_ROLES]))
            elif role == "assistant":
                self._add_answer_item(item, f"{prefix}_call")
            else:
                self._load_message(item, role)
        elif kind in CALLERS:
            self._load_result(item, kind)
        elif kind == "item_reference" and (
            self._answer is None or self._phase == "final_answer"
        ):
            # The item that it refers to is not in the payload. Outside of an answer the
            # author of the item is unknown.
            self._load_unknown(item)
        else:
            self._add_answer_item(item, f"{prefix}_call")

    def _add_answer_item(
        self, item: ObjectReader, made_id: str, logprobs: list[LogProb] | None = None
    ) -> None:
        """Add the output in *item*; in a history it may begin a response."""
        kind = item.raw.get("type")
        is_message = kind == "message" or (kind is None and "role" in item.raw)
        # All output of a response, which has *logprobs*, is one message, whatever its
        # phases are.
        if logprobs is None and (
            self._phase == "final_answer"
            or (is_message and self._phase not in {None, "commentary"})
        ):
            self._finish_answer()

        if self._answer is None:
            self._answer = []
            self._since = len(self.mended)

        if item.path in self._alone:
            item.notes["alone"] = True

        self._ids.add(item.raw)
        self._answer += read_item(item, len(self._answer), made_id, logprobs)
        phase = item.raw.get("phase")
        self._phase = None
        if is_message:
            self._phase = phase if isinstance(phase, str) else ""

    def _finish_answer(self, meta: ResponseMeta | None = None, **notes: Any) -> None:
        if self._answer is None:
            return

        given, self._answer, self._phase = self._answer, None, None
        needs, self._ids = self._ids.needs, ItemIds()
        if needs:
            notes["needs"] = needs

        calls = [one for one in given if isinstance(one, ToolCall)]
        parts = [one for one in given if not isinstance(one, ToolCall)]
        self._calls.update({call.id: call for call in calls})
        node = ObjectReader(self, {}, "")
        node.notes.update(notes)
        if not given:
            node.notes["silent"] = True

        content = _content_of(parts, alone=len(given) == 1)
        fields: dict[str, Any] = {"tool_calls": calls, "response": meta}
        self._add_message(AssistantMessage, content, node, fields)

    def _add_message(
        self,
        kind: Any,
        content: Any,
        node: ObjectReader | None = None,
        fields: Mapping[str, Any] = EMPTY_MAP,
    ) -> None:
        """Add a message of a *kind*, unless there was a problem."""
        node = node or ObjectReader(self, {}, "")
        mended = self.mended[self._since :]
        self._since = len(self.mended)
        if mended:
            node.notes["mended"] = [
                path.removeprefix("$").removeprefix(".")
                for path in dict.fromkeys(mended)
            ]

        # After the first problem nothing is returned, and the rest is only checked.
        if not self.count:
            metadata = node.metadata(SOURCE)
            self.messages.append(kind(content, metadata=metadata, **fields))

    def _load_message(self, item: ObjectReader, role: str) -> None:
        self._finish_answer()
        if role not in _ROLES:
            self._load_unknown(item)
            return

        content = read_content(item, "content", role)
        item.keep(_SPOKEN)
        if _ROLES[role] == "user":
            self._add_message(UserMessage, content, item)
        elif isinstance(content, str) or all(isinstance(p, TextPart) for p in content):
            item.notes["role"] = role
            self._add_message(SystemMessage, content, item)
        else:
            self._load_unknown(item)

    def _load_unknown(self, item: ObjectReader) -> None:
        self._finish_answer()
        raw = self.json(item.raw, item.path)
        node = ObjectReader(self, {}, "")
        if item.path in self._alone:
            node.notes["alone"] = True

        self._add_message(UnknownMessage, raw, node, {"source": SOURCE})

    def _load_result(self, item: ObjectReader, kind: str) -> None:
        """Load a result of a caller's tool; an `UnknownMessage` if unknown."""
        self._finish_answer()
        call_id = item.raw.get("call_id")
        if kind not in RESULTS.values() or not isinstance(call_id, str) or not call_id:
            self._load_unknown(item)
            return

        content = read_content(item, "output", "tool")
        answered, name = item.text("call_id"), item.if_text("name")
        call = self._calls.get(answered)
        fields = {
            "tool_call_id": answered,
            "tool_name": name or (call.name if call else ""),
        }
        if name:
            item.notes["named"] = True

        item.keep(_RESULT)
        custom = kind == RESULTS["custom"]
        if custom or (call and call.type == "custom"):
            item.notes["custom"] = custom

        self._add_message(ToolMessage, content, item, fields)

    def _load_response(self, node: ObjectReader) -> None:
        logprobs: list[LogProb] = []
        info = read_response(node)
        prefix = make_call_prefix(info.id)
        for item in node.objects("output"):
            item.raw = as_sent(item.raw)
            # A compaction returns messages of other roles, too.
            kind, role = self._get_item_type(item), item.raw.get("role")
            if kind == "message" and isinstance(role, str) and role in _ROLES:
                self._load_message(item, role)
            elif kind:
                # A call without an id gets the number that it has in a stream, so that
                # both ways make up the same id.
                number = len(self._answer or ())
                made_id = make_call_id(prefix, number)
                self._add_answer_item(item, made_id, logprobs)

        # A response without output is a message, too: it has usage, which is billed.
        if self._answer is None:
            self._answer = []

        unstored = note_unstored(node.raw)
        reason, usage, model, response_id, notes = info
        meta = ResponseMeta(reason, usage, tuple(logprobs) or None, model, response_id)
        about = {"response": notes} if notes else {}
        self._finish_answer(meta, **about, **unstored)


def _content_of(parts: list[Part], *, alone: bool) -> str | list[Part]:
    """The content of *parts*: a text if `dump` would write the same for it."""
    if not parts:
        return ""

    first = parts[0]
    if (
        len(parts) == 1
        and isinstance(first, TextPart)
        and first.index == 0
        and (first.text or alone)
        and first.metadata == _PLAIN_NOTES
    ):
        return first.text

    return list(parts)


# Keys that repeat the request. They are not kept, because each answer would contain the
# instructions and tools again.
_ECHO = frozenset({
    "background", "frequency_penalty", "instructions", "max_output_tokens",
    "max_tool_calls", "metadata", "parallel_tool_calls", "presence_penalty", "prompt",
    "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning",
    "safety_identifier", "store", "temperature", "text", "tool_choice", "tools",
    "top_logprobs", "top_p", "truncation", "user",
})  # fmt: skip
# The SDK adds all text as `output_text`.
_KNOWN = _ECHO | {"model", "output", "output_text", "usage"}


class ResponseInfo(NamedTuple):
    finish_reason: str
    usage: Usage | None
    model: str
    id: str
    notes: dict[str, Any]


def read_response(node: ObjectReader) -> ResponseInfo:
    """The metadata of the response *node*. Null counts as missing."""
    raw, node.reading.is_answer = node.raw, True
    usage, left = None, dict[str, Any]()
    if raw.get("usage") is not None:
        usage, left = read_billed(
            node.reading, raw["usage"], f"{node.path}.usage", read_responses_counts
        )

    info = node.reading.rest(raw, _KNOWN, node.path)
    model = read_paid_text(node, "model", info)
    notes = {key: value for key, value in info.items() if value is not None}
    if notes.get("object") == "response":
        del notes["object"]

    status = read_paid_text(node, "status", notes)
    details = raw.get("incomplete_details")
    why = details.get("reason") if is_map(details) else None
    reason = status
    # The reason in the details says more than "incomplete": the tokens ran out, or a
    # filter stopped the response.
    if status == "incomplete" and why and isinstance(why, str):
        reason = notes["incomplete_details"]["reason"]
    elif isinstance(raw.get("status"), str):
        del notes["status"]

    if left:
        notes["usage"] = left

    return ResponseInfo(reason, usage, model, take_text(notes, "id"), notes)


_COUNTS = ("input_tokens", "output_tokens", "total_tokens")
_DETAILS = {
    "input_tokens_details": PROMPT_DETAILS,
    "output_tokens_details": COMPLETION_DETAILS,
}


def load_usage(payload: Any) -> Usage | None:
    """
    The usage in *payload*: a response, an event of a stream or a usage block.

    Integers that have no field are in `Usage.extra`, those of a breakdown with
    ``prompt_`` or ``completion_`` before their name, except ``cache_write_tokens``.
    Values that are not counts of tokens are left out.

    Raises:
        DecodeError: If a count is invalid.

    Source:
        ``input_tokens`` include cache reads and cache writes, ``output_tokens``
        include the reasoning: in all recorded responses the total is the sum of
        input and output, whatever the details are. The usage of tools
        (``tool_usage``) is next to the usage, and not added to it.

    >>> load_usage({"input_tokens": 9, "output_tokens": 2}).total_tokens
    11
    """
    return usage_in(payload, _find_usage, read_responses_counts)


def _find_usage(payload: Mapping[str, Any]) -> tuple[Any, str]:
    holders = {"$.response": payload.get("response"), "$": payload}
    return find_usage_block(holders, _COUNTS)


def read_responses_counts(
    reader: DocumentReader, block: Mapping[Any, Any], path: str
) -> Counted:
    counts, details, extra, left = read_counts(reader, block, _COUNTS, _DETAILS, path)
    prompt, completion = counts.get("input_tokens", 0), counts.get("output_tokens", 0)
    return (prompt, completion, counts.get("total_tokens")), details, extra, left
