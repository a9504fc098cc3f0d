"""
What only an assistant's message has: the content and the metadata of a response, and
LangChain's ``usage_metadata``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product
from json import JSONDecoder, JSONEncoder, dumps, loads
from typing import Any

import attrs

from conversation_state.adapters.engine.export import PayloadWriter
from conversation_state.adapters.engine.notes import has_own, map_of, with_notes
from conversation_state.adapters.engine.reading import DocumentReader, mended
from conversation_state.adapters.engine.usage import as_count, as_kept, is_count
from conversation_state.adapters.engine.wire import make_unique_object, parse_finite
from conversation_state.adapters.langchain._blocks import (
    extra_keys,
    mended_text,
    merge_keys,
    read_block,
    thaw_notes,
)
from conversation_state.adapters.langchain._values import (
    ASIDES,
    CALL_BLOCKS,
    MODELS,
    REASONS,
    SOURCE,
    CallBlock,
    keep_notes,
    text_or_empty,
)
from conversation_state.errors import InvalidUsageError
from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.parts import Part, ReasoningPart, RefusalPart, TextPart
from conversation_state.tools import ToolCall
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage

# What a call that LangChain could not parse has besides the keys of others.
_INVALID: Mapping[str, Any] = {"type": "invalid_tool_call", "error": None}
# Made once, because `dumps` and `loads` with options make a new encoder or decoder for
# each text.
_encoded = JSONEncoder(ensure_ascii=False).encode
# It has no `parse_constant`, because arguments in LangChain may be NaN.
_decode_unchanged = JSONDecoder(
    object_pairs_hook=make_unique_object, parse_float=parse_finite
).decode


class MessageCalls:
    """
    The calls of one message while it is read. Never leaves the function that
    reads it.

    Blocks are matched with calls before these are made, because a block may have
    the original text of the arguments.
    """

    def __init__(self, reader: DocumentReader, path: str) -> None:
        self._reader = reader
        self._path = path
        self._raws: list[dict[str, Any]] = []
        self._invalid: list[Any] = []
        # The calls that no block has repeated yet, by their ids: calls of one message
        # may share one, or have none.
        self._open: dict[str, list[int]] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._texts: dict[int, str] = {}
        self.is_between = False

    def add(self, calls: Any) -> None:
        for raw in calls:
            if not isinstance(raw, dict) or not isinstance(raw.get("args"), dict):
                at = f"{self._path}.tool_calls[{len(self._raws)}]"
                self._reader.problem(at, "expected a call with a dict of args")
                return

            self._add_open(raw, len(self._raws))
            self._raws.append(raw)

    def add_invalid(self, calls: Any) -> None:
        """
        Add the calls that LangChain could not parse, behind all others. They are calls
        of ours, too: the model made them, and its next request has to contain them.
        """
        for at, raw in enumerate(calls, len(self._raws)):
            self._invalid.append(raw)
            if isinstance(raw, dict):
                self._add_open(raw, at)

    def _add_open(self, raw: Mapping[str, Any], at: int) -> None:
        if isinstance(raw.get("id"), str):
            self._open.setdefault(raw["id"], []).append(at)

    def take_block(self, block: Any, place: int) -> bool:
        """
        Whether *block*, at *place* in the content, only repeats one of the
        calls. If so, it is kept for that call.
        """
        if not self._open or not isinstance(block, dict):
            return False

        kind = block.get("type")
        if kind == "tool_use" and block.get("partial_json"):
            kind = "tool_use_pieces"

        shape = CALL_BLOCKS.get(kind) if isinstance(kind, str) else None
        if shape is None or not isinstance(block.get(shape.id), str):
            return False

        among = self._open.get(block[shape.id], [])
        for is_exact, at in product((True, False), tuple(among)):
            found = self._compare_block(block, shape, at, is_exact=is_exact)
            if found is not None:
                among.remove(at)
                self._blocks[at] = {"block": kind, "at": place, **found}
                return True

        return False

    # The notes that restore a block from the call *at* a place; None if it is not the
    # block of this call. Keeps the text of the arguments, which only the block has.
    def _compare_block(
        self, block: Mapping[str, Any], shape: CallBlock, at: int, *, is_exact: bool
    ) -> dict[str, Any] | None:
        is_valid = at < len(self._raws)
        raw = self._raws[at] if is_valid else self._invalid[at - len(self._raws)]
        text = block.get(shape.arguments) if shape.is_text else None
        if "name" not in raw or isinstance(text, str) is not shape.is_text:
            return None

        if is_valid:
            is_same = text is None or _parse_arguments(text) == raw["args"]
        else:
            is_same = text is not None and text == raw.get("args")

        # In a stream LangChain makes valid arguments of a text that is not.
        if not is_same and (is_exact or text is None):
            return None

        rest = extra_keys(block, _call_block(shape, raw, text))
        if rest is None:
            return None

        notes: dict[str, Any] = {"keys": rest} if rest else {}
        if not is_valid or text is None:
            return notes if is_same else {**notes, "text": text}

        is_object = isinstance(_parse_arguments(text), dict)
        if is_same or not is_object:
            self._texts[at] = text

        if is_same:
            return notes

        # What LangChain made of it is noted, and the call has what the model wrote.
        return {**notes, "text": text} if is_object else {**notes, "args": raw["args"]}

    def make_calls(self) -> list[ToolCall]:
        """The calls, then those that LangChain could not parse."""
        made = [self._make_call(at, raw) for at, raw in enumerate(self._raws)]
        for at, raw in enumerate(self._invalid):
            path = f"{self._path}.invalid_tool_calls[{at}]"
            if not isinstance(raw, dict):
                self._reader.wrong(path, raw, "a dict")
                continue

            arguments = text_or_empty(raw.get("args"))
            is_valid = isinstance(_parse_arguments(arguments), dict)
            base = {"type": "tool_call"} if is_valid else _INVALID
            block = self._blocks.get(len(self._raws) + at)
            call = self._build_call(raw, arguments, base, path, block)
            made.append(self._with_index(call, block))

        return made

    def _make_call(self, at: int, raw: dict[str, Any]) -> ToolCall:
        path = f"{self._path}.tool_calls[{at}]"
        arguments = self._texts.get(at)
        if arguments is None:
            arguments = _dump_arguments(self._reader, raw["args"], path)

        block = self._blocks.get(at)
        call = self._build_call(raw, arguments, {"type": "tool_call"}, path, block)
        return self._with_index(call, block)

    def _with_index(self, call: ToolCall, block: dict[str, Any] | None) -> ToolCall:
        # A call without an index is behind all parts. Only a call that has parts
        # behind it needs an index.
        if block is None or not self.is_between:
            return call

        return attrs.evolve(call, index=block["at"])

    # The call for *raw*, which `write_call` would write with the values of *base*.
    def _build_call(
        self,
        raw: dict[str, Any],
        arguments: str,
        base: Mapping[str, Any],
        path: str,
        block: dict[str, Any] | None = None,
    ) -> ToolCall:
        call_id, name = text_or_empty(raw.get("id")), text_or_empty(raw.get("name"))
        notes: dict[str, Any] = {} if block is None else {"block": block}
        # The arguments are in the call, unless they are neither valid nor a text.
        given = {**raw}
        if isinstance(raw.get("args"), (dict, str)):
            del given["args"]

        plain = {"id": call_id, "name": name, **base}
        if given != plain:
            rest = extra_keys(given, plain)
            is_whole = rest is None or "args" in rest
            notes |= {"raw": given} if is_whole else {"keys": rest}

        texts = (
            mended_text(self._reader, call_id, f"{path}.id"),
            mended_text(self._reader, name, f"{path}.name"),
            mended_text(self._reader, arguments, f"{path}.args"),
        )
        if not notes:
            return ToolCall(*texts)

        return keep_notes(partial(ToolCall, *texts), self._reader, notes, path)


# The arguments in *text*; None if it is not JSON, has a key twice, or a number that
# would be infinite.
def _parse_arguments(text: str) -> Any:
    try:
        return _decode_unchanged(text or "{}")
    except (ValueError, RecursionError):
        return None


# *args* as JSON text. Lone surrogates are escaped.
def _dump_arguments(reader: DocumentReader, args: dict[str, Any], path: str) -> str:
    try:
        text = _encoded(args)
        # JSON changes keys that are numbers to texts. NaN is not equal to itself
        # either, but is valid.
        if loads(text) != args and not _has_text_keys(args):
            reader.problem(f"{path}.args", "has a key that is not text, as in JSON")

        # A lone surrogate is kept as an escape, because a store can't write it as a
        # character.
        return text if mended(text) is text else dumps(args)
    except (TypeError, ValueError, RecursionError) as error:
        reader.problem(f"{path}.args", f"can't be kept as JSON: {error}")
        return ""


def _has_text_keys(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _has_text_keys(value[key]) for key in value)

    return not isinstance(value, (list, tuple)) or all(map(_has_text_keys, value))


def _call_block(
    shape: CallBlock, raw: Mapping[str, Any], text: str | None
) -> dict[str, Any]:
    block = {
        "type": shape.type,
        shape.id: raw["id"],
        "name": raw["name"],
        shape.arguments: raw["args"] if text is None else text,
    }
    return {**block, "input": {}} if shape.is_begun else block


def write_call(
    writer: PayloadWriter, call: ToolCall, path: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """
    *call* as LangChain's, and the notes on it. Its type is ``invalid_tool_call``,
    which keeps the text, if the arguments are not a JSON object, have a key twice or
    hold a number too large for Python.
    """
    notes = thaw_notes(writer.notes(call, path))
    if call.type != "function":
        writer.lose(path, "type", "calls of functions only in LangChain")

    if has_own(call.metadata):
        writer.lose(path, "metadata", "not supported on a call")

    args = _parse_arguments(call.arguments)
    if not isinstance(args, dict):
        args = map_of(notes, "block").get("args", args)

    kept = notes.get("raw")
    # The kept call is used only if it still has the id and the name of the call, which
    # a user may have changed.
    if isinstance(kept, dict) and (call.id, call.name) == (
        text_or_empty(kept.get("id")),
        text_or_empty(kept.get("name")),
    ):
        if kept.get("type") == _INVALID["type"]:
            text = call.arguments or kept.get("args", "")
            return {**kept, "args": text}, notes

        if isinstance(args, dict):
            return {**kept, "args": args}, notes

    raw: dict[str, Any] = {"name": call.name, "args": args, "id": call.id}
    if isinstance(args, dict):
        raw["type"] = "tool_call"
    else:
        raw |= {"args": call.arguments, **_INVALID}

    return merge_keys(raw, map_of(notes, "keys")), notes


def dump_call_block(
    call: ToolCall, raw: dict[str, Any], notes: Mapping[str, Any]
) -> tuple[int, dict[str, Any]] | None:
    """The block that repeats *call*, *raw*, and its position, or None."""
    noted = notes.get("block")
    if not isinstance(noted, dict):
        return None

    shape, at = CALL_BLOCKS.get(str(noted.get("block"))), noted.get("at")
    if shape is None or not isinstance(at, int):
        return None

    if raw.get("type") == _INVALID["type"] and not shape.is_text:
        return None

    # The arguments are parsed again, so that the block and the call share no dict that
    # a caller may change.
    fresh = {**raw, "args": _parse_arguments(call.arguments)}
    text = noted.get("text", call.arguments) if shape.is_text else None
    block = _call_block(shape, fresh, text)
    return at, merge_keys(block, map_of(noted, "keys"))


_WRITTEN = "cache_write_tokens"
_NOTHING: Mapping[str, Any] = {}

# Tokens written to Anthropic's cache, by their lifetime there. If LangChain has these
# counts, its sum is 0.
_LIFETIMES = {
    "ephemeral_1h_input_tokens": "cache_write_1h_tokens",
    "ephemeral_5m_input_tokens": "cache_write_5m_tokens",
}
# LangChain puts the service tier in front of the names of OpenAI's details, because
# tiers have different prices.
_TIERS = ("", "flex_", "priority_")
_NO_RESPONSE = ResponseMeta()


def load_response(
    reader: DocumentReader,
    raw: dict[str, Any],
    path: str,
    notes: dict[str, Any],
    fields: dict[str, Any],
) -> str | list[Part]:
    """
    The content of an assistant's message. Puts its calls and the metadata of the
    response into *fields*.
    """
    details: dict[str, Any] = raw.get("response_metadata", {})
    calls = MessageCalls(reader, path)
    if raw.get("tool_calls"):
        calls.add(raw["tool_calls"])

    if raw.get("invalid_tool_calls"):
        calls.add_invalid(raw["invalid_tool_calls"])

    # The blocks are read before the calls are made, because some have the original text
    # of the arguments.
    content: Any = raw["content"]
    if isinstance(content, str):
        content = mended_text(reader, content, f"{path}.content")
    else:
        provider = text_or_empty(details.get("model_provider"))
        content = _load_content(reader, content, calls, path, provider)
        if not content:
            notes["empty"] = True

    made = calls.make_calls()
    if made:
        fields["tool_calls"] = made

    response = _load_meta(raw, details, notes)
    if response is not None:
        fields["response"] = response

    return _with_asides(reader, raw, content, path, notes)


def _load_content(
    reader: DocumentReader,
    content: list[Any],
    calls: MessageCalls,
    path: str,
    provider: str,
) -> list[Part]:
    parts: list[Any] = []
    places: list[int] = []
    is_after = False
    for at, block in enumerate(content):
        if calls.take_block(block, at):
            is_after = True
            continue

        where = f"{path}.content[{at}]"
        part = read_block(reader, block, where, "assistant", provider)
        if part is not None:
            parts.append(part)
            places.append(at)
            calls.is_between = is_after

    if calls.is_between:
        return [
            attrs.evolve(part, index=at) for part, at in zip(parts, places, strict=True)
        ]

    return parts


# *content* with the texts of ``additional_kwargs``: reasoning before, a refusal after.
def _with_asides(
    reader: DocumentReader,
    raw: dict[str, Any],
    content: str | list[Part],
    path: str,
    notes: dict[str, Any],
) -> str | list[Part]:
    beside = raw["additional_kwargs"]
    asides = {
        key: mended_text(reader, beside[key], f"{path}.additional_kwargs.{key}")
        for key in ASIDES
        if beside and isinstance(beside.get(key), str) and beside[key]
    }
    if not asides:
        return content

    notes["additional_kwargs"] = {
        key: value for key, value in beside.items() if key not in asides
    }
    if not notes["additional_kwargs"]:
        del notes["additional_kwargs"]

    parts: list[Part] = []
    if not isinstance(content, str):
        parts = content
    else:
        notes["text"] = True
        if content:
            parts = [TextPart(content)]

    if "reasoning_content" in asides:
        metadata = with_notes(SOURCE, {"shape": "reasoning_content", "aside": True})
        parts = [ReasoningPart(asides["reasoning_content"], metadata=metadata), *parts]

    if "refusal" in asides:
        aside = with_notes(SOURCE, {"aside": True})
        parts = [*parts, RefusalPart(asides["refusal"], metadata=aside)]

    return parts


def _load_meta(
    raw: dict[str, Any], details: dict[str, Any], notes: dict[str, Any]
) -> ResponseMeta | None:
    """The response's metadata, or None. Removes from *notes* what it has."""
    reason = model = own_id = ""
    if details:
        rest = dict(details)
        reason = _take_text(rest, REASONS, "reason", notes)
        model = _take_text(rest, MODELS, "model", notes)
        own_id = _take_text(rest, ("id",), "response_id", notes)
        notes.pop("response_metadata")
        if rest:
            notes["response_metadata"] = rest

    usage = None
    counts = raw.get("usage_metadata")
    if counts is not None:
        usage = _read_usage(counts)
        if usage is None or _write_usage(usage) != counts:
            notes["usage"] = as_kept(counts)

    if usage is None and not reason and not model and not own_id:
        return None

    # An integration without an id in the response's metadata sets the message's id
    # to that of the response, or of the run.
    message_id = text_or_empty(raw["id"])
    if own_id and own_id == message_id:
        notes["id_of_response"] = True

    response_id = own_id or (message_id if mended(message_id) is message_id else "")
    return ResponseMeta(reason, usage, None, model, response_id)


def _take_text(
    rest: dict[str, Any], keys: tuple[str, ...], note: str, notes: dict[str, Any]
) -> str:
    """
    The text under the first of *keys* that has one, which is removed from
    *rest*; a note names the key, if it is not the first of all.
    """
    for key in keys:
        text = rest.get(key)
        # A text with a lone surrogate is not taken, because the notes keep it
        # unchanged.
        if isinstance(text, str) and text and mended(text) is text:
            del rest[key]
            if key != keys[0]:
                notes[note] = key

            return text

    return ""


def put_response(
    writer: PayloadWriter,
    message: AssistantMessage,
    path: str,
    notes: Mapping[str, Any],
    fields: dict[str, Any],
) -> None:
    response = message.response or _NO_RESPONSE
    metadata = notes.get("response_metadata", {})

    where = f"{path}.response"
    newer = dict.fromkeys(sorted(response.unknown), True)
    beside = {"logprobs": response.logprobs is not None, **newer}
    writer.lose_each(where, beside, "not supported by LangChain")
    if response.finish_reason:
        metadata[str(notes.get("reason", REASONS[0]))] = response.finish_reason

    if response.model:
        metadata[str(notes.get("model", MODELS[0]))] = response.model

    # Most integrations use the response's id as that of the message, which already
    # has it. The note says that the metadata had it, too.
    if response.id and (response.id != notes.get("id") or "id_of_response" in notes):
        metadata["id"] = response.id

    if metadata:
        fields["response_metadata"] = metadata

    # The noted counts are used only if they still are the usage of the response,
    # which a caller may have replaced.
    usage, kept = response.usage, notes.get("usage")
    if kept is not None and _read_usage(kept) == usage:
        fields["usage_metadata"] = kept
    elif usage is not None:
        kept = fields["usage_metadata"] = _write_usage(usage)

    if usage is not None:
        _lose_usage(writer, usage, kept, f"{where}.usage")


def _read_usage(raw: Any) -> Usage | None:
    """
    The usage in *raw*; None if it is not a count of tokens.

    Source:
        ``_create_usage_metadata`` of LangChain's packages for Anthropic and OpenAI.
    """
    if not isinstance(raw, Mapping):
        return None

    within = raw.get("input_token_details") or _NOTHING
    made = raw.get("output_token_details") or _NOTHING
    try:
        return Usage(
            _count_or_value(raw["input_tokens"]),
            _count_or_value(raw["output_tokens"]),
            _count_or_value(raw["total_tokens"]),
            PromptTokensDetails(
                audio_tokens=_count_or_value(within.get("audio") or 0),
                cached_tokens=_find_of_any_tier(within, "cache_read"),
            ),
            CompletionTokensDetails(
                accepted_prediction_tokens=_count_or_value(
                    made.get("accepted_prediction") or 0
                ),
                audio_tokens=_count_or_value(made.get("audio") or 0),
                reasoning_tokens=_find_of_any_tier(made, "reasoning"),
                rejected_prediction_tokens=_count_or_value(
                    made.get("rejected_prediction") or 0
                ),
            ),
            _read_cache_writes(within),
        )
    except (AttributeError, InvalidUsageError, KeyError):
        # The counts of a streamed message may be invalid. The caller keeps them
        # unchanged in a note.
        return None


def _find_of_any_tier(details: Mapping[str, Any], name: str) -> Any:
    counts = [details.get(f"{tier}{name}") for tier in _TIERS]
    return _count_or_value(next(filter(None, counts), 0))


def _count_or_value(value: Any) -> Any:
    count = as_count(value)
    return value if count is None else count


def _read_cache_writes(within: Mapping[str, Any]) -> dict[str, Any]:
    """
    The tokens written to the cache, as counts of `Usage.extra`; with those of each
    lifetime if they add up to the total.
    """
    written = _count_or_value(within.get("cache_creation") or 0)
    parts = {
        ours: within[theirs]
        for theirs, ours in _LIFETIMES.items()
        if is_count(within.get(theirs))
    }
    total = sum(parts.values())
    # `written` is compared with a list and not a set, because an invalid count may not
    # be hashable.
    return {_WRITTEN: total, **parts} if written in [0, total] else {_WRITTEN: written}


# *usage* as LangChain's, without zeros.
def _write_usage(usage: Usage) -> dict[str, Any]:
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    within = {
        "audio": prompt.audio_tokens,
        "cache_creation": usage.extra.get(_WRITTEN, 0),
        "cache_read": prompt.cached_tokens,
    }
    made = {
        "accepted_prediction": completion.accepted_prediction_tokens,
        "audio": completion.audio_tokens,
        "reasoning": completion.reasoning_tokens,
        "rejected_prediction": completion.rejected_prediction_tokens,
    }
    raw: dict[str, Any] = {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }
    for key, counts in (
        ("input_token_details", within),
        ("output_token_details", made),
    ):
        used = {name: count for name, count in counts.items() if count}
        if used:
            raw[key] = used

    return raw


# List the counts of *usage*, at *path*, that are not in *raw*, LangChain's.
def _lose_usage(writer: PayloadWriter, usage: Usage, raw: Any, path: str) -> None:
    kept = _read_usage(raw) if usage.extra else None
    for name in sorted(usage.extra):
        if kept is None or name not in kept.extra:
            writer.lose(path, name, "is no count that LangChain keeps")
