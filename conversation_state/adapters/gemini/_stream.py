"""From a stream of Gemini's responses to chunks."""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any

import attrs

from conversation_state._canonical import dump as dump_json
from conversation_state.adapters.engine.export import is_empty_value
from conversation_state.adapters.engine.notes import notes_of, with_notes, without_empty
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    describe_failure,
    is_list,
    is_map,
    take_text,
)
from conversation_state.adapters.engine.streaming import (
    AnswerChoice,
    Repeats,
    SurrogateBuffer,
    achunks_of,
    check_event,
    chunks_of,
    make_chunk,
    make_part,
)
from conversation_state.adapters.engine.usage import (
    RunningCounts,
    as_kept,
    read_paid_text,
)
from conversation_state.adapters.engine.wire import make_call_prefix
from conversation_state.adapters.gemini._load import (
    LOGPROBS,
    RESPONSE,
    find_usage,
    read_block_reason,
    read_candidate,
    read_gemini_counts,
)
from conversation_state.adapters.gemini._parts import (
    SOURCE,
    GeminiObject,
    StreamedCalls,
    kind_of,
    read_part,
    simplify_content,
)
from conversation_state.errors import ProviderStreamError
from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.parts import AudioPart, Part, ReasoningPart, TextPart
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage


def load_chunks(
    events: Iterable[Any], *, choice: int = 0
) -> Iterator[AssistantMessage]:
    """
    The chunks that the *events* of a stream bring, as they come; `concat` them.

    Together they hold what `load` returns for the whole response, but for what is
    only noise: nulls, and what is empty. Pieces of a text, of a thought and of raw
    audio are joined; a part with a signature, or with any other key, is never joined
    with another one. The index of a part, or of a call, is its place among both.

    Args:
        events: The responses of ``streamGenerateContent``, as plain JSON
            values: the data of its server-sent events, or the items of its
            array.
        choice: Which of several answers to read (``candidateCount``), from 0
            on. Where none has the number 0, it is the first one, which comes at the
            end of the stream.

    Raises:
        ProviderStreamError: If an event reports that the provider failed.
        DecodeError: If an event is not what the format has.

    Source:
        Each event has the usage so far. A later one may have fewer tokens of the
        prompt, which is right then, or leave counts out, which stand. The signature of
        a text often comes with an empty text after it, and Google asks not to join the
        two.

    >>> from conversation_state.chunks import concat
    >>> def event(text):
    ...     return {"candidates": [{"content": {"parts": [{"text": text}]}}]}
    >>> concat(load_chunks([event("Hel"), event("lo")])).text
    'Hello'
    """
    return chunks_of(GeminiStream(choice), events, SOURCE, own=SOURCE)


def aload_chunks(
    events: AsyncIterable[Any], *, choice: int = 0
) -> AsyncIterator[AssistantMessage]:
    """The async twin of `load_chunks`."""
    return achunks_of(GeminiStream(choice), events, SOURCE, own=SOURCE)


_CONTENT = frozenset({"parts", "role"})
# What has neither a head nor an end, so that pieces of it can be joined.
_BARE_SOUND = ("audio/l16", "audio/pcm")
# The parts that come in pieces.
_TEXTS: dict[str, type[TextPart | ReasoningPart]] = {
    "text": TextPart,
    "thought": ReasoningPart,
}
# No sum of two counts below it is over 2**63 - 1.
_HUGE = 2**60
# What was cited, and what was read. The items of other lists are counted by
# others, and the last list is whole.
_LISTS = frozenset({"citationMetadata", "urlContextMetadata"})


class _KeptNotes:
    """Metadata that no field of ours holds, as far as it came."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._listed: set[tuple[str, str, bytes]] = set()

    def keep(self, fields: Mapping[str, Any]) -> None:
        """Keep *fields*: maps are merged, else the last value not empty stands."""
        for name, value in fields.items():
            before = self.values.get(name)
            if is_empty_value(value):
                continue

            if name in _LISTS and isinstance(value, dict):
                self._add_listed(name, value)
            elif isinstance(before, dict) and isinstance(value, dict):
                before.update(value)
            else:
                self.values[name] = value

    def _add_listed(self, name: str, fields: Mapping[str, Any]) -> None:
        """
        Keep what is new in the lists of *fields*: an event may have those of its
        own piece, or of all pieces so far.
        """
        kept = self.values.get(name)
        if not isinstance(kept, dict):
            kept = self.values[name] = {}

        for key, value in fields.items():
            listed = kept.get(key, []) if isinstance(value, list) else None
            if not isinstance(listed, list):
                kept[key] = value
                continue

            kept[key] = listed
            for item in value:
                known = (name, key, dump_json(item))
                if known not in self._listed:
                    self._listed.add(known)
                    listed.append(item)


class _LatestUsage:
    """
    The usage so far: every event has it.

    Of the prompt, which Google corrects also downwards, the last count stands; the
    others never go down.
    """

    def __init__(self) -> None:
        self._counts = RunningCounts(read_gemini_counts)
        # The block that was added, and the latest one of the same kind, which is added
        # when it is asked for, or when one of another kind comes.
        self._block: dict[str, Any] = {}
        self._latest: dict[str, Any] | None = None

    def takes(self, event: Mapping[str, Any]) -> bool:
        """Whether *event*'s usage has nothing new but counts, and can be left."""
        block: Any = event.get("usageMetadata")
        if block is None:
            return True

        before = self._latest or self._block
        if block.__class__ is not dict or block.keys() != before.keys():
            return False

        for key, value in block.items():
            if value.__class__ is not before[key].__class__:
                return False

            if value.__class__ is int:
                if not before[key] <= value < _HUGE:
                    return False
            elif value != before[key]:
                return False

        # A client may change the same object for the next event.
        self._latest = block.copy()
        return True

    def add(self, block: Any) -> None:
        """Add a usage block that `takes` does not take."""
        if self._latest is not None:
            self._counts.add(self._latest)

        self._counts.add(block)
        self._latest = None
        # A client may change the same object for the next event.
        self._block = as_kept(block) if block.__class__ is dict else {}

    def read(self) -> tuple[Usage | None, Any]:
        """The usage, None if it is unknown; and the values that are not counts."""
        if self._latest is not None:
            self._counts.add(self._latest)
            self._latest = None

        return self._counts.read()


class GeminiStream:
    def __init__(self, choice: int) -> None:
        self._choice = AnswerChoice(choice)
        self._reader = DocumentReader()
        self._reader.is_answer = True
        # What the events repeat, beside what is read of each.
        self._event = Repeats("candidates", "usageMetadata")
        self._candidate = Repeats("content")
        self._content = Repeats("parts")
        self._finish_reason = ""
        self._blocked = ""
        self._model = ""
        self._usage = _LatestUsage()
        self._of_response = _KeptNotes()
        self._of_candidate = _KeptNotes()
        self._of_content = _KeptNotes()
        # As keys of a dict each path is there once, in order.
        self._mended: dict[str, bool] = {}
        self._next = 0
        # Of ids that are made up, if the response has none.
        self._prefix = ""
        self._calls = StreamedCalls(self._take_index)
        # What is open: more of the same is joined with it.
        self._open = ""
        self._index: int | None = None
        self._cut = SurrogateBuffer()

    def read(self, event: Any, path: str) -> Iterator[AssistantMessage]:
        reader = self._reader
        if not (self._event.has(event) and self._usage.takes(event)):
            check_event(reader, event, path)
            event = self._read_response(GeminiObject(reader, event, path))

        candidates = event.get("candidates")
        if is_list(candidates):
            for at, candidate in enumerate(candidates):
                chunk = self._read_candidate(candidate, at, f"{path}.candidates[{at}]")
                if chunk is not None:
                    yield chunk
        elif candidates is not None:
            reader.wrong(f"{path}.candidates", candidates, "a list of candidates")

        # What could be read is given, whatever else is wrong.
        if reader.mended:
            self._note_mended()

        if reader.problems:
            reader.finish()

        if event.get("error"):
            raise ProviderStreamError(describe_failure(event["error"]), event)

    def _note_mended(self) -> None:
        # Paths in the event, whose own path has no dot.
        mended = [where.partition(".")[2] for where in self._reader.mended]
        self._mended |= dict.fromkeys(mended, True)
        self._reader.mended.clear()

    def _read_response(self, event: GeminiObject) -> Mapping[str, Any]:
        """Read what *event* has beside its candidates; it, with keys in camel case."""
        block, where = find_usage(event.raw)
        # Only the first answer has the usage of all, as in a whole response.
        usual = where == "$.usageMetadata" and self._usage.takes(event.raw)
        if block is not None and not (usual or self._choice.number):
            self._usage.add(block)

        rest = event.reading.rest(event.raw, RESPONSE, event.path)
        self._model = read_paid_text(event, "modelVersion", rest) or self._model
        self._blocked = read_block_reason(event) or self._blocked
        self._of_response.keep(rest)
        return event.raw

    def _read_candidate(self, raw: Any, at: int, path: str) -> AssistantMessage | None:
        response = None
        if not self._candidate.has(raw):
            if not is_map(raw):
                self._reader.wrong(path, raw, "an object")
                return None

            candidate = GeminiObject(self._reader, raw, path)
            raw = candidate.raw
            if not self._choice.takes(raw, at, path):
                self._candidate.forget()
                return None

            response = self._read_answer(candidate)

        return self._read_pieces(raw, path, response)

    def _read_pieces(
        self, raw: Mapping[str, Any], path: str, response: ResponseMeta | None
    ) -> AssistantMessage | None:
        """The chunk of the content of the candidate *raw*, if it has any."""
        parts: list[Part] = []
        calls: list[ToolCall] = []
        content = raw.get("content")
        if content is not None:
            listed = self._read_content(content, path)
            for number, part in enumerate(listed):
                if not self._read_text(part, parts):
                    where = f"{path}.content.parts[{number}]"
                    self._read_part(part, where, parts, calls)

        if not (parts or calls or response):
            return None

        given = simplify_content(parts)
        if isinstance(given, str) and not (calls or response):
            return make_chunk(given)

        return AssistantMessage(given, tool_calls=calls, response=response)

    def _read_content(self, raw: Any, path: str) -> Sequence[Any]:
        """The parts of the content *raw* of the candidate at *path*."""
        if not self._content.has(raw):
            holder = GeminiObject(self._reader, {"content": raw}, path)
            content = holder.body("content")
            raw = content.raw
            if raw.get("role") not in ("model", "", None):
                content.wrong("role", "model")

            kept = self._reader.rest(raw, _CONTENT, content.path)
            self._of_content.keep(kept)

        parts = raw.get("parts")
        if parts is None or is_list(parts):
            return parts or ()

        self._reader.wrong(f"{path}.content.parts", parts, "a list of parts")
        return ()

    def _read_answer(
        self, candidate: GeminiObject, *, is_held: bool = False
    ) -> ResponseMeta | None:
        """
        What *candidate* has beside its content; its log probabilities, if any. It
        *is_held* if it has another number than the one that is read.
        """
        reason, logprobs, kept = read_candidate(candidate)
        self._finish_reason = reason or self._finish_reason
        if LOGPROBS in kept:
            # Each event has its own tokens only.
            listed = self._of_candidate.values.setdefault(LOGPROBS, [])
            listed.append(kept.pop(LOGPROBS))

        if not is_held and kept.get("index").__class__ in (int, type(None)):
            kept.pop("index", None)

        self._of_candidate.keep(kept)
        return ResponseMeta(logprobs=logprobs) if logprobs else None

    def _read_text(self, raw: Any, parts: list[Part]) -> bool:
        """Whether the part *raw* is nothing but a text or a thought, and is read."""
        if not (raw.__class__ is dict and isinstance(raw.get("text"), str)):
            return False

        kind = "text"
        if len(raw) > 1:
            if not _is_plain(raw):
                return False

            kind = "thought" if raw.get("thought") is True else "text"

        self._add_text(kind, raw["text"], parts)
        return True

    def _read_part(
        self, raw: Any, path: str, parts: list[Part], calls: list[ToolCall]
    ) -> None:
        if not is_map(raw):
            self._reader.wrong(path, raw, "an object")
            return

        node = GeminiObject(self._reader, raw, path)
        kind = kind_of(node.raw)
        if kind == "text" and _is_plain(node.raw):
            if not self._read_text(dict(node.raw), parts):
                node.wrong("text", "a text")
        elif kind == "functionCall":
            self._close_open_part(parts)
            calls += self._calls.read(node, self._make_id_prefix())
        else:
            self._add_part(read_part(node, "assistant"), parts)

    def _make_id_prefix(self) -> str:
        # `load` makes up the same ids.
        response_id = self._of_response.values.get("responseId")
        if isinstance(response_id, str) and response_id:
            return make_call_prefix(response_id, self._choice.number)

        # One stream has one prefix.
        self._prefix = self._prefix or make_call_prefix("", self._choice.number)
        return self._prefix

    def _add_text(self, kind: str, text: str, parts: list[Part]) -> None:
        if not text:
            return

        if kind != self._open:
            self._close_open_part(parts)
            at = self._take_index()
            # A text that comes first needs no place, and is a text like others.
            self._open, self._index = kind, at if at or kind != "text" else None

        piece = self._cut.next(text)
        if piece:
            parts.append(make_part(_TEXTS[kind], self._index, piece))

    def _add_part(self, part: Part, parts: list[Part]) -> None:
        """Add a whole part, or a piece of raw audio."""
        about = notes_of(part.metadata, SOURCE)
        if isinstance(part, AudioPart) and part.data and "keys" not in about:
            sound = part.media_type.lower()
            if sound.startswith(_BARE_SOUND):
                if self._open != sound:
                    self._close_open_part(parts)
                    self._open, self._index = sound, self._take_index()

                # How one piece was encoded does not matter for the whole.
                piece = AudioPart(
                    data=part.data, media_type=part.media_type, index=self._index
                )
                parts.append(piece)
                return

        self._close_open_part(parts)
        made: Any = part
        parts.append(attrs.evolve(made, index=self._take_index()))

    def _take_index(self) -> int:
        self._next += 1
        return self._next - 1

    def _close_open_part(self, parts: list[Part]) -> None:
        rest = self._cut.rest()
        if rest:
            parts.append(_TEXTS[self._open](rest, index=self._index))

        if self._cut.is_mended:
            self._mended["text"] = True

        self._open, self._index, self._cut = "", None, SurrogateBuffer()

    def end(self, *, broken: bool) -> Iterator[AssistantMessage]:
        """
        The last chunk: metadata, and text that waited for the rest of a character; and
        before it, the answer that has another number, if none has the right one.
        """
        held = self._choice.take_held()
        for raw, _, path in held:
            candidate = GeminiObject(self._reader, raw, path)
            response_of_piece = self._read_answer(candidate, is_held=True)
            chunk = self._read_pieces(candidate.raw, path, response_of_piece)
            if chunk is not None:
                yield chunk

        self._note_mended()
        parts: list[Part] = []
        self._close_open_part(parts)
        # Problems of a call were reported when it came.
        calls = self._calls.end(self._make_id_prefix(), DocumentReader(), "$")
        response = dict(self._of_response.values)
        response_id = take_text(response, "responseId")
        usage, left = self._usage.read()
        if left:
            response["usage"] = left

        notes = {
            "response": response,
            "candidate": self._of_candidate.values,
            "keys": self._of_content.values,
            "mended": list(self._mended),
        }
        metadata = with_notes(SOURCE, without_empty(notes))
        reason = self._finish_reason or self._blocked
        reason = reason or ("interrupted" if broken else "")
        yield AssistantMessage(
            simplify_content(parts),
            tool_calls=calls,
            response=ResponseMeta(reason, usage, None, self._model, response_id),
            metadata=metadata,
        )
        if held and self._reader.problems:
            self._reader.finish()


def _is_plain(raw: Mapping[str, Any]) -> bool:
    """Whether a part is nothing but a text, perhaps marked as a thought."""
    return all(
        key == "text"
        or value is None
        or (key == "thought" and (value is True or value is False))
        for key, value in raw.items()
    )
