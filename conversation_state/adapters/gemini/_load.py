"""From Gemini's contents to messages; the metadata of a response, and its usage."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from math import isfinite
from typing import Any, NamedTuple

import attrs

from conversation_state.adapters.engine.notes import notes_of, with_notes, without_empty
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
    mended,
    note_mended,
    take_text,
)
from conversation_state.adapters.engine.usage import (
    Counted,
    Details,
    Totals,
    as_count,
    as_kept,
    is_count,
    read_billed,
    read_paid_text,
    usage_in,
)
from conversation_state.adapters.engine.wire import (
    MessageLoader,
    make_call_id,
    make_call_prefix,
)
from conversation_state.adapters.gemini._parts import (
    SOURCE,
    GeminiObject,
    in_camel_case,
    kind_of,
    read_call,
    read_part,
    read_returned,
    simplify_content,
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
from conversation_state.parts import Part, TextPart
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

RESPONSE = frozenset({"candidates", "error", "modelVersion", "usageMetadata"})
LOGPROBS = "logprobsResult"
_CANDIDATE = frozenset({"content", "finishReason", LOGPROBS})
_NOTHING = LogProb("", 0.0)


class ResponseChoice(NamedTuple):
    """One of the answers in a response: its message, and the metadata."""

    raw: Any
    path: str
    prefix: str
    meta: ResponseMeta
    notes: dict[str, Any]


def is_response(payload: Mapping[str, Any]) -> bool:
    """Whether *payload* is a response: some have no candidates."""
    return "candidates" in payload or any(
        payload.get(key) is not None for key in ("promptFeedback", "usageMetadata")
    )


def read_response(node: GeminiObject) -> list[ResponseChoice]:
    reader, given = node.reading, node.raw.get("candidates")
    reader.is_answer = True
    if given is not None and not is_list(given):
        node.wrong("candidates", "a list of candidates")
        return []

    usage = None
    notes = reader.rest(node.raw, RESPONSE, "$")
    block, where = find_usage(node.raw)
    if block is not None:
        usage, left = read_billed(reader, block, where, read_gemini_counts)
        if left:
            notes["usage"] = left

    # Without candidates there is a message, too: a prompt that was blocked is billed.
    model = read_paid_text(node, "modelVersion", notes)
    response_id = take_text(notes, "responseId")
    if not given:
        meta = ResponseMeta(read_block_reason(node), usage, None, model, response_id)
        kept = without_empty({"response": notes})
        return [ResponseChoice({}, "$", response_id, meta, kept)]

    results: list[ResponseChoice] = []
    # What is not an object is refused, so each number is right.
    for at, candidate in enumerate(node.objects("candidates")):
        reason, logprobs, kept = read_candidate(candidate)
        # Its index is its position, nearly always.
        if kept.get("index") == at:
            del kept["index"]

        content = candidate.raw.get("content")
        results.append(
            ResponseChoice(
                {} if content is None else content,
                f"{candidate.path}.content",
                make_call_prefix(response_id, at),
                ResponseMeta(
                    reason, None if at else usage, logprobs, model, response_id
                ),
                without_empty({"response": notes, "candidate": kept}),
            )
        )

    return results


def read_candidate(
    candidate: GeminiObject,
) -> tuple[str, tuple[LogProb, ...] | None, dict[str, Any]]:
    """The reason to finish, the log probabilities, and what no field of ours holds."""
    kept = candidate.reading.rest(candidate.raw, _CANDIDATE, candidate.path)
    reason = read_paid_text(candidate, "finishReason", kept)
    return reason, _read_logprobs(candidate, kept), kept


def read_block_reason(response: GeminiObject) -> str:
    """Why the prompt was blocked, "" if it was not."""
    if not is_map(response.raw.get("promptFeedback")):
        return ""

    return response.child("promptFeedback").nullable("blockReason")


def _read_logprobs(
    candidate: GeminiObject, kept: dict[str, Any]
) -> tuple[LogProb, ...] | None:
    """How likely the tokens were; the original goes into *kept* if it has more."""
    given = candidate.raw.get(LOGPROBS)
    if given is None:
        return None

    # What can't be read does not hide an answer that was paid for.
    trial = DocumentReader()
    found = _read_tokens(GeminiObject(trial, candidate.raw, candidate.path))
    kept[LOGPROBS] = candidate.reading.json(as_kept(given), candidate.path)
    return None if trial.count else found


def _read_tokens(candidate: GeminiObject) -> tuple[LogProb, ...]:
    reader = candidate.reading
    node = candidate.body(LOGPROBS)
    chosen = _get_list(node, "chosenCandidates")
    results: list[LogProb] = []
    # More of the second list than of the first one is checked, too.
    for at, (one, top) in enumerate(
        zip_longest(chosen, _get_list(node, "topCandidates"))
    ):
        where = f"{node.path}.topCandidates[{at}]"
        likeliest: list[LogProb] = []
        if is_map(top):
            likeliest = [
                _read_logprob(reader, other, f"{where}.candidates[{number}]")
                for number, other in enumerate(
                    _get_list(GeminiObject(reader, top, where), "candidates")
                )
            ]
        elif top is not None:
            reader.wrong(where, top, "an object")

        if at < len(chosen):
            found = _read_logprob(reader, one, f"{node.path}.chosenCandidates[{at}]")
            results.append(LogProb(found.token, found.logprob, None, tuple(likeliest)))

    return tuple(results)


def _get_list(node: GeminiObject, name: str) -> Sequence[Any]:
    found = node.raw.get(name)
    if found is not None and not is_list(found):
        node.wrong(name, "a list or null")

    return found if is_list(found) else ()


def _read_logprob(reader: DocumentReader, raw: Any, path: str) -> LogProb:
    if not is_map(raw):
        reader.wrong(path, raw, "an object")
        return _NOTHING

    # There are as many as tokens, so both spellings are asked for here.
    node = ObjectReader(reader, raw, path)
    value: Any = raw.get("logProbability", raw.get("log_probability"))
    # What is 0, or empty, is left out by some of Google's servers.
    if value.__class__ is int and abs(value) < 2**63:
        value = float(value)

    if value is not None and not (isinstance(value, float) and isfinite(value)):
        node.wrong("logProbability", "a finite number")
        value = None

    return LogProb(node.nullable("token"), value or 0.0)


_CAPITAL = re.compile("[A-Z]")


def _snake_case(key: str) -> str:
    """
    *key* as the categories of `Usage.extra` are written.

    >>> _snake_case("promptTokenCount")
    'prompt_token_count'
    """
    return _CAPITAL.sub(lambda found: f"_{found[0].lower()}", key)


_CANDIDATES = ("candidates_token_count", "response_token_count")
_COUNTS = frozenset({
    *_CANDIDATES, "cached_content_token_count", "prompt_token_count",
    "thoughts_token_count", "tool_use_prompt_token_count", "total_token_count",
})  # fmt: skip

# The breakdowns by modality, and what the categories in them are called after.
_DETAILS = {
    "cache_tokens_details": "cached",
    "candidates_tokens_details": "completion",
    "prompt_tokens_details": "prompt",
    "response_tokens_details": "completion",
    "tool_use_prompt_tokens_details": "tool_use_prompt",
}
# The names of both in camel case, as nearly all responses have them.
_NAMES = {
    head + rest.title().replace("_", ""): f"{head}_{rest}"
    for head, _, rest in [name.partition("_") for name in (*_COUNTS, *_DETAILS)]
}


def load_usage(payload: Any) -> Usage | None:
    """
    What *payload*, a response, an event of a stream or a usage block, cost.

    The prompt is ``promptTokenCount``, of which ``cachedContentTokenCount`` is a part,
    and ``toolUsePromptTokenCount``: what Google's own tools found was read, too, and is
    also in `Usage.extra`, as ``tool_use_prompt_tokens``. The completion is
    ``candidatesTokenCount`` and ``thoughtsTokenCount``. Where the total says that one
    of these counts is in another already, it is not added.

    Tokens of audio have fields; those of other modalities are in `Usage.extra`,
    as ``prompt_image_tokens`` and the like. So are integers that have no field.

    Raises:
        DecodeError: If a count is invalid.

    Source:
        Google documents the total as the sum of prompt, candidates, tool use
        and thoughts, and in recorded traffic it is. Some of its models once
        had the thoughts in ``candidatesTokenCount``, which the total shows;
        its Live API says ``responseTokenCount``.

    >>> counts = {"promptTokenCount": 9, "candidatesTokenCount": 2}
    >>> load_usage({**counts, "thoughtsTokenCount": 5}).completion_tokens
    7
    """
    return usage_in(payload, find_usage, read_gemini_counts)


def find_usage(payload: Mapping[str, Any]) -> tuple[Any, str]:
    block = in_camel_case(payload).get("usageMetadata")
    if block is not None:
        return block, "$.usageMetadata"

    found = any(isinstance(key, str) and _snake_case(key) in _COUNTS for key in payload)
    return (payload if found else None), "$"


def read_gemini_counts(
    reader: DocumentReader, block: Mapping[Any, Any], path: str
) -> Counted:
    counts: dict[str, int] = {}
    extra: dict[str, int] = {}
    left: dict[str, Any] = {}
    for key, value in block.items():
        name = _NAMES.get(key, "")
        if not name and isinstance(key, str):
            name = _snake_case(mended(key))

        if name in _DETAILS:
            _add_details(reader, value, f"{path}.{key}", _DETAILS[name], extra)
        elif name in _COUNTS:
            known_count = as_count(value)
            if known_count is not None:
                counts[name] = known_count
            elif value is not None:
                reader.wrong(f"{path}.{key}", value, "an integer from 0 to 2**63 - 1")
        elif name and is_count(value):
            extra[name] = value
        else:
            left[key] = value

    return *_sum_counts(counts, extra), extra, left


def _add_details(
    reader: DocumentReader, value: Any, path: str, of: str, extra: dict[str, int]
) -> None:
    if not is_list(value):
        if value is not None:
            reader.wrong(path, value, "a list or null")

        return

    for at, one in enumerate(value):
        here = f"{path}[{at}]"
        if not is_map(one):
            reader.wrong(here, one, "an object")
            continue

        modality = one.get("modality")
        if not isinstance(modality, str):
            if modality is not None:
                reader.wrong(f"{here}.modality", modality, "a text")

            # What has no modality is text.
            modality = "text"

        count = one.get("tokenCount", one.get("token_count"))
        known_count = as_count(count)
        if known_count is not None:
            name = f"{of}_{mended(modality).lower()}_tokens"
            extra[name] = extra.get(name, 0) + known_count
        elif count is not None:
            reader.wrong(f"{here}.tokenCount", count, "an integer from 0 to 2**63 - 1")


def _sum_counts(
    counts: dict[str, int], extra: dict[str, int]
) -> tuple[Totals, Details]:
    """The totals and both details; what these take is no longer in *extra*."""
    prompt = counts.get("prompt_token_count", 0)
    tools = counts.get("tool_use_prompt_token_count", 0)
    written = max([counts.get(name, 0) for name in _CANDIDATES])
    thoughts = counts.get("thoughts_token_count", 0)
    total = counts.get("total_token_count")

    # What the total does not count again is in another count already. Without a total,
    # or if no way of counting gives it, all counts are taken to be apart.
    more = (tools, thoughts)
    if tools or thoughts:
        both = prompt + written
        ways = (more, (0, thoughts), (tools, 0), (0, 0))
        more = next((way for way in ways if total == both + way[0] + way[1]), more)
        prompt, written = prompt + more[0], written + more[1]

    if tools:
        extra["tool_use_prompt_tokens"] = tools

    audio_tokens = extra.pop("prompt_audio_tokens", 0)
    audio_tokens += extra.get("tool_use_prompt_audio_tokens", 0) if more[0] else 0
    details = (
        {
            "audio_tokens": audio_tokens,
            "cached_tokens": counts.get("cached_content_token_count", 0),
        },
        {
            "audio_tokens": extra.pop("completion_audio_tokens", 0),
            "reasoning_tokens": thoughts,
        },
    )
    return (prompt, written, total), details


_CONTENT = frozenset({"parts", "role"})
_RESULT = frozenset({"id", "name", "parts", "response"})
_EVENT = frozenset({"candidates", "error"})
# Keys of messages, items and events of other formats.
_OTHER = frozenset({"choices", "content", "delta", "type"})
_ASKING = (None, "", "function", "user")


def load(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*: a request, its list of contents, or a response.

    Of a request only ``systemInstruction`` and ``contents`` are read. What
    functions returned is a message for each; what else stands in the same
    content is another one. If several answers were asked for (``candidateCount``), a
    response gives one message for each, the first with the usage: these are
    alternatives, and no conversation. A prompt that was blocked gives an empty one,
    whose reason to finish is why. A call without an id gets one: of the
    response's id, or unique in time if it has none; in a request, of its place. So does
    its result: that of the first call of that name that has none.

    Raises:
        DecodeError: If something is not what the format has in its place.
    """
    expected = "a request, a list of contents, or a response"
    return GeminiLoader().load(payload, expected)


class GeminiLoader(MessageLoader):
    source = SOURCE

    def __init__(self) -> None:
        super().__init__()
        # How much of what was mended is noted with the messages before.
        self._noted = 0

    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        node = GeminiObject(self, payload, "$")
        if "contents" in payload and "candidates" not in payload:
            messages = self.system(node)
            if is_list(payload["contents"]):
                return messages + self.history(payload["contents"], "$.contents")

            node.wrong("contents", "a list of contents")
            return []

        is_answer = payload.get("error") is None and is_response(node.raw)
        if "contents" in payload or not is_answer:
            self.refuse_document(payload, "contents", "candidates", "contents")
            return []

        return [
            message
            for info in read_response(node)
            for message in self.content(info.raw, info.path, info.prefix, info)
        ]

    def system(self, payload: GeminiObject) -> list[Message]:
        key = "systemInstruction"
        instruction = payload.raw.get(key)
        if instruction is None:
            return []

        if isinstance(instruction, str):
            text = payload.text(key)
            return [SystemMessage(text, metadata=self._make_metadata(payload))]

        node, problems = payload.body(key), self.count
        if "role" in node.raw:
            # It has no effect; most send "user".
            node.notes["role"] = self.json(node.raw["role"], f"{node.path}.role")

        node.keep(_CONTENT)
        parts = [read_part(part, "system") for part in _list_parts(node)]
        _note_no_parts(node)
        if self.count > problems or not is_map(instruction):
            return []

        if not all(isinstance(part, TextPart) for part in parts):
            raw = {key: self.json(instruction, node.path)}
            return [self._make_unknown(raw, node.path)]

        content = simplify_content(parts)
        return [SystemMessage(content, metadata=self._make_metadata(node))]

    def history(self, raws: Sequence[Any], path: str) -> list[Message]:
        messages: list[Message] = []
        for at, raw in enumerate(raws):
            here = f"{path}[{at}]"
            if is_map(raw) and "parts" not in raw and _EVENT & raw.keys():
                what = "is a stream event; use load_chunks()"
                self.problem(here, what)
                continue

            # A content may be empty, and its words are never under these keys.
            if is_map(raw) and "parts" not in raw and _OTHER & raw.keys():
                is_message = "role" in raw and isinstance(raw.get("content"), str)
                advice = "; openai_chat.load(messages) reads it" if is_message else ""
                self.problem(here, f"has no parts{advice}")
                continue

            found = self.content(raw, here, f"content_{at}")
            # `dump` would write one content for both.
            if messages and found and _would_join(messages[-1], found[0]):
                notes = {**notes_of(found[0].metadata, SOURCE), "new_content": True}
                metadata = with_notes(SOURCE, notes, found[0].metadata)
                found[0] = found[0].replace(metadata=metadata)

            messages += found

        return messages

    def content(
        self, raw: Any, path: str, prefix: str, info: ResponseChoice | None = None
    ) -> list[Message]:
        """
        The messages of one content; none if there was a problem. Ids that are
        made up begin with *prefix*.
        """
        if not is_map(raw):
            self.wrong(path, raw, "an object")
            return []

        node = GeminiObject(self, raw, path)
        role = raw.get("role")
        if info and role not in ("model", "", None):
            node.wrong("role", "model")
            return []

        if not (role is None or isinstance(role, str)):
            node.wrong("role", "user, model or function")
            return []

        # What was mended in the metadata of a response is in its own notes.
        problems, self._noted = self.count, len(self.mended)
        messages: list[Message]
        if info or role == "model":
            messages = [self._load_answer(node, prefix, info)]
        elif role in _ASKING:
            messages = self._load_user_content(node, prefix)
        else:
            messages = [self._make_unknown(self.json(raw, path), path)]

        return messages if self.count == problems else []

    def _make_metadata(self, node: GeminiObject, within: str = "") -> Mapping[str, Any]:
        """
        The metadata of a message with what was noted on *node*, and what was mended
        since the message before it: paths relative to *within*, or to the node's.
        """
        if len(self.mended) > self._noted:
            note_mended(node, self._noted, within)
            self._noted = len(self.mended)

        return node.metadata(SOURCE)

    def _make_unknown(self, raw: Any, path: str) -> UnknownMessage:
        metadata = self._make_metadata(GeminiObject(self, {}, path))
        return UnknownMessage(raw, source=SOURCE, metadata=metadata)

    def _load_answer(
        self, node: GeminiObject, prefix: str, info: ResponseChoice | None
    ) -> AssistantMessage:
        node.keep(_CONTENT)
        parts: list[Any] = []
        calls: list[ToolCall] = []
        places: list[int] = []
        for at, inside in enumerate(_list_parts(node)):
            if kind_of(inside.raw) == "functionCall":
                is_named = is_map(body := inside.raw["functionCall"]) and body.get("id")
                made = "" if is_named else make_call_id(prefix, len(calls))
                calls.append(read_call(inside, made, first=not calls))
                places.append(at)
            else:
                parts.append(read_part(inside, "assistant"))

        # Unless the calls come last, parts and calls get their index.
        if places and places[0] < len(parts):
            others = sorted({*range(len(parts) + len(calls))} - {*places})
            parts, calls = [
                [attrs.evolve(one, index=at) for one, at in zip(each, its, strict=True)]
                for each, its in ((parts, others), (calls, places))
            ]

        for call in calls:
            is_made = "made_id" in notes_of(call.metadata, SOURCE)
            # Calls in several contents are all open until a result comes.
            if self.pairing.has_results:
                self.pairing.start_group()

            self.pairing.open_call(call.id, call.name, is_made_up=is_made)

        fields: dict[str, Any] = {}
        if info is None:
            _note_no_parts(node)
        else:
            node.notes.update(info.notes)
            fields["response"] = info.meta

        content = simplify_content(parts)
        # The text "" would be no part beside calls.
        if calls and content == "" and parts:
            content = parts

        metadata = self._make_metadata(node)
        return AssistantMessage(content, tool_calls=calls, metadata=metadata, **fields)

    def _load_user_content(self, node: GeminiObject, prefix: str) -> list[Message]:
        """Messages and results. The first one has the notes on the content."""
        node.keep(_CONTENT)
        messages: list[Message] = []
        parts: list[Part] = []
        for at, inside in enumerate(_list_parts(node)):
            if kind_of(inside.raw) != "functionResponse":
                parts.append(read_part(inside, "user"))
                continue

            if parts:
                messages.append(self._make_user_message(node, parts, messages))
                parts = []

            before = messages[-1] if messages else None
            made = f"{prefix}_result_{at}"
            messages.append(self._load_result(inside, node, made, before))

        if parts or not messages:
            _note_no_parts(node)
            messages.append(self._make_user_message(node, parts, messages))

        return messages

    def _make_user_message(
        self, node: GeminiObject, parts: list[Part], before: list[Message]
    ) -> Message:
        if before:
            node = GeminiObject(self, {}, node.path)
            node.notes["same_content"] = True

        content = simplify_content(parts)
        return UserMessage(content, metadata=self._make_metadata(node))

    def _load_result(
        self, part: GeminiObject, node: GeminiObject, made: str, before: Message | None
    ) -> Message:
        """
        The result in *part*, which stands behind the message *before* in the content
        *node*; *made* is its id if no call has it.
        """
        inside = part.body("functionResponse")
        name = inside.nullable("name")
        call_id = self._resolve_call_id(part, inside, made, name)
        content, is_error = read_returned(inside, part.notes)
        part.keep(frozenset({"functionResponse"}))
        part.keep_within("functionResponse", inside, _RESULT)
        if before is None and node.keys:
            part.notes["content"] = node.keys
        elif before is not None and not isinstance(before, ToolMessage):
            part.notes["same_content"] = True

        return ToolMessage(
            content,
            tool_call_id=call_id,
            tool_name=name,
            is_error=is_error,
            metadata=self._make_metadata(part, node.path),
        )

    def _resolve_call_id(
        self, part: GeminiObject, inside: GeminiObject, made: str, name: str
    ) -> str:
        """
        The id of the call that a result answers.

        Where the id is missing, or no call has it: of the calls without
        a result and without an id, the first one of that name; if it
        is missing, the first call of that name, or else the first.
        """
        given = inside.nullable("id")
        if given and self.pairing.close_call(given):
            return given

        # An id that no call has may be the caller's own, for a call without one.
        found = self.pairing.close_next(name, made_up_only=bool(given))
        if given:
            if not found:
                return given

            inside.keys["id"] = given

        part.notes["made_id"] = found or made
        return found or made


def _list_parts(node: GeminiObject) -> list[GeminiObject]:
    return list(node.optional_objects("parts", "a list of parts"))


def _note_no_parts(node: GeminiObject) -> None:
    """Keep that a content has no parts, which is refused where an empty text is not."""
    if not node.raw.get("parts"):
        node.keys["parts"] = []


def _would_join(before: Message, message: Message) -> bool:
    """Whether *message*, behind *before*, would be in one content with it."""
    if isinstance(before, AssistantMessage) and isinstance(message, AssistantMessage):
        return bool(message.tool_calls)

    return isinstance(before, ToolMessage) and isinstance(message, ToolMessage)
