"""From Pydantic AI's messages to ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

from conversation_state.adapters.engine.notes import map_of
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
    note_mended,
    read_extra,
)
from conversation_state.adapters.pydantic_ai._notes import (
    ERRORS,
    SOURCE,
    keep_keys,
    kind_of,
    messages_adapter,
    read_text,
    read_time,
)
from conversation_state.adapters.pydantic_ai._response import (
    read_content,
    read_response,
    read_response_id,
    read_tool_result,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)

# The keys of a request, a response and a part whose values have fields of ours, besides
# those that have one only if they are valid.
_REQUEST = frozenset({"kind", "metadata", "parts"})
_RESPONSE = _REQUEST | {"finish_reason", "model_name", "usage"}
_PART = frozenset({"content", "part_kind"})
_ANSWERS = frozenset({"retry-prompt", "tool-return"})
# The kinds of parts that are sent to the model as user content, but that the user did
# not write.
_ASIDE = frozenset({"compaction", "retry-feedback"})


def load(messages: Iterable[Any]) -> tuple[Message, ...]:
    """
    Our messages for Pydantic AI's: `ModelMessage` objects, or the list that
    ``ModelMessagesTypeAdapter`` makes of them, which needs no SDK.

    A `ModelRequest` is as many messages as it has parts; tool results come
    first, as they do when it is sent. Its instructions are a system message if
    they differ from those of the request before, so that they are kept once
    and not with every request. Nothing is lost: content without an
    equivalent is kept as an unknown part or message, or in notes (see this
    package), and `dump` returns what ``ModelMessagesTypeAdapter`` would. A lone
    surrogate becomes U+FFFD, and a note lists its path.

    Raises:
        DecodeError: If something is not such a message, or can't be kept as JSON; with
            every problem and its path.
        MissingExtraError: If objects are given and Pydantic AI is not installed.

    >>> (hi,) = load([{"kind": "request", "parts": [
    ...     {"part_kind": "user-prompt", "content": "Hi!"}]}])
    >>> hi.role, hi.text
    ('user', 'Hi!')
    """
    groups = load_after(as_data(messages), None)
    return tuple([message for group in groups for message in group])


# *messages* as plain JSON values; those that are plain JSON are unchanged.
def as_data(messages: Any) -> Sequence[Any]:
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(
        messages, Iterable
    ):
        reader = DocumentReader()
        reader.wrong("$", messages, "a list of messages, such as result.all_messages()")
        reader.finish()

    data = list(messages)
    objects = [at for at, one in enumerate(data) if hasattr(one, "parts")]
    if objects:
        written = messages_adapter().dump_python(
            [data[at] for at in objects], mode="json"
        )
        for at, raw in zip(objects, written, strict=True):
            data[at] = raw

    return data


# The messages of each item of *data*, which follows a request with *instructions*.
def load_after(data: Sequence[Any], instructions: str | None) -> list[list[Message]]:
    reader = DocumentReader()
    groups: list[list[Message]] = []
    for at, raw in enumerate(data):
        path = f"$[{at}]"
        if not is_map(raw):
            reader.wrong(path, raw, "an object")
            continue

        kind = kind_of(raw, "kind")
        body = _upgrade_response(raw) if kind == "response" else raw
        node = ObjectReader(reader, body, path)
        if kind not in {"request", "response"}:
            node.wrong("kind", "request or response")
        elif not is_list(raw.get("parts")):
            node.wrong("parts", "a list")
        elif kind == "response":
            groups.append([_load_response_message(node)])
        else:
            group = _load_request(node, instructions)
            current = raw.get("instructions")
            instructions = current if isinstance(current, str) else instructions
            groups.append(group)

    reader.finish()
    return groups


# What releases before 1.0 had under other names, or in a wrapper.
_RENAMED = {"vendor_details": "provider_details", "vendor_id": "provider_response_id"}
_COUNTED = {"request_tokens": "input_tokens", "response_tokens": "output_tokens"}
_UNUSED = {"requests", "total_tokens"}
# In their details, as OpenAI and Anthropic call them.
_DETAILED = {
    "cached_tokens": "cache_read_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
}
_WRAPPERS = ({"args_dict"}, {"args_json"})


def _upgrade_response(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """
    A response as this release has it.

    Source:
        The aliases of ``ModelResponse`` and ``RequestUsage`` in pydantic-ai 2;
        ``ArgsDict`` and ``ArgsJson`` of 0.0.20.
    """
    if not raw.keys().isdisjoint(_RENAMED):
        raw = {_RENAMED.get(key, key): raw[key] for key in raw}

    usage, parts = raw.get("usage"), raw.get("parts")
    if is_map(usage) and not usage.keys().isdisjoint(_COUNTED):
        counts = {
            _COUNTED.get(key, key): usage[key]
            for key in usage
            if key not in _UNUSED and usage[key] is not None
        }
        details = map_of(usage, "details")
        found = {_DETAILED[key]: details[key] for key in _DETAILED if key in details}
        raw = {**raw, "usage": {**found, **counts}}

    if is_list(parts) and any(map(_is_wrapped, parts)):
        raw = {**raw, "parts": [*map(_unwrap_arguments, parts)]}

    return raw


def _is_wrapped(part: Any) -> bool:
    given = part.get("args") if is_map(part) else None
    return is_map(given) and given.keys() in _WRAPPERS


def _unwrap_arguments(part: Any) -> Any:
    if not _is_wrapped(part):
        return part

    (arguments,) = part["args"].values()
    return {**part, "args": arguments}


def _load_response_message(node: ObjectReader) -> Message:
    mended_before = len(node.reading.mended)
    own = read_extra(node, "metadata")
    content, calls, meta = read_response(node)
    time, time_key = read_time(node)
    run, run_key = _read_run_id(node)
    id_key = {"provider_response_id"} if read_response_id(node.raw) else set()
    keep_keys(node, _RESPONSE.union(time_key, run_key, id_key))
    note_mended(node, mended_before)
    node.notes["response"] = node.keys
    node.keys = {}
    return AssistantMessage(
        content,
        tool_calls=calls,
        response=meta,
        run_id=run,
        timestamp=time,
        metadata=node.metadata(SOURCE, own),
    )


def _read_run_id(node: ObjectReader) -> tuple[UUID | None, frozenset[str]]:
    """The run id if it is a canonical UUID; and the keys that need no note then."""
    run_id = node.raw.get("run_id")
    with suppress(AttributeError, TypeError, ValueError):
        run = UUID(run_id)
        if str(run) == run_id:
            return run, frozenset({"run_id"})

    return None, frozenset()


class _MessageDraft(NamedTuple):
    node: ObjectReader
    kind: Callable[..., Message]
    fields: dict[str, Any]

    def message(self, run: UUID | None, own: Mapping[str, Any]) -> Message:
        if self.kind is UnknownMessage:
            self.fields["source"] = SOURCE

        metadata = self.node.metadata(SOURCE, own)
        return self.kind(**self.fields, run_id=run, metadata=metadata)


def _load_request(node: ObjectReader, instructions: str | None) -> list[Message]:
    # The count is taken behind the parts, which note their own mended texts.
    made = _load_parts(node)
    mended_before = len(node.reading.mended)
    own = read_extra(node, "metadata")
    run, run_key = _read_run_id(node)
    known = _REQUEST | run_key
    current = node.raw.get("instructions")
    if isinstance(current, str) and current and current != instructions:
        # The instructions are inserted behind the results, which must directly follow
        # their calls.
        answers = sum(one.kind is ToolMessage for one in made)
        lead = ObjectReader(node.reading, {}, node.path)
        lead.notes["instructions"] = True
        fields = {"content": node.text("instructions")}
        made.insert(answers, _MessageDraft(lead, SystemMessage, fields))
        known |= {"instructions"}
    elif current == instructions:
        known |= {"instructions"}

    if not made:
        empty = ObjectReader(node.reading, {}, node.path)
        empty.notes["empty"] = True
        made.append(_MessageDraft(empty, UnknownMessage, {"raw": {"kind": "request"}}))

    keep_keys(node, known)
    note_mended(node, mended_before)
    first, *others = [one.node.notes for one in made]
    if "metadata" in node.notes:
        first["metadata"] = node.notes["metadata"]

    if "mended" in node.notes:
        first["mended"] = [*first.get("mended", ()), *node.notes["mended"]]

    if current is not None and current == instructions:
        first["instructed"] = True

    first["request"] = node.keys
    for notes in others:
        notes["more"] = True

    return [one.message(run, own if one is made[0] else {}) for one in made]


# The drafts with tool results first, and notes on another original order.
def _load_parts(node: ObjectReader) -> list[_MessageDraft]:
    made = []
    for part in node.objects("parts"):
        before = len(node.reading.mended)
        made.append(_load_request_part(part))
        note_mended(part, before)

    order = sorted(made, key=lambda one: one.kind is not ToolMessage)
    if order != made:
        for at, one in enumerate(made):
            one.node.notes["at"] = at

    return order


def _load_request_part(node: ObjectReader) -> _MessageDraft:
    raw = node.raw
    kind, content = kind_of(raw), raw.get("content")
    time, time_key = read_time(node)
    fields: dict[str, Any] = {"timestamp": time} if time else {}
    known = _PART | time_key
    if kind == "system-prompt" and isinstance(content, str):
        keep_keys(node, known)
        fields["content"] = node.text("content")
        return _MessageDraft(node, SystemMessage, fields)

    if kind == "user-prompt" and (isinstance(content, str) or is_list(content)):
        keep_keys(node, known)
        fields["content"] = read_content(node, content)
        return _MessageDraft(node, UserMessage, fields)

    names, call_id = isinstance(raw.get("tool_name"), str), raw.get("tool_call_id")
    if kind in _ANSWERS and names and isinstance(call_id, str) and call_id:
        return _load_tool_result(node, known, fields)

    if content is not None and (
        kind in _ASIDE or (kind == "retry-prompt" and not names)
    ):
        keep_keys(node, known - {"part_kind"})
        fields["content"] = read_text(node, "content")
        return _MessageDraft(node, UserMessage, fields)

    if kind == "speech" and isinstance(raw.get("transcript"), str):
        keep_keys(node, known - {"content", "part_kind"} | {"transcript"})
        fields["content"] = node.text("transcript")
        return _MessageDraft(node, UserMessage, fields)

    # The message has no time of its own: the time stays in the raw part, which is
    # written back unchanged.
    raw = node.reading.json(node.raw, node.path)
    return _MessageDraft(node, UnknownMessage, {"raw": raw})


def _load_tool_result(
    node: ObjectReader, known: frozenset[str], fields: dict[str, Any]
) -> _MessageDraft:
    kind = node.raw["part_kind"]
    outcome = node.raw.get("outcome")
    keep_keys(node, known | {"tool_call_id", "tool_name"})
    if kind != "tool-return":
        node.keys["part_kind"] = kind

    has_failed = isinstance(outcome, str) and outcome in ERRORS
    fields |= {
        "content": read_tool_result(node),
        "is_error": kind != "tool-return" or has_failed,
        "tool_call_id": node.text("tool_call_id"),
        "tool_name": node.text("tool_name"),
    }
    return _MessageDraft(node, ToolMessage, fields)
