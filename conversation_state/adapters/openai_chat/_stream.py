"""From a stream of Chat Completions to chunks."""

from __future__ import annotations

import re
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any

from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters.engine.notes import with_notes, without_empty
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    describe_failure,
    is_list,
    is_map,
    take_text,
)
from conversation_state.adapters.engine.streaming import (
    ALONE,
    Repeats,
    SurrogateBuffer,
    achunks_of,
    add_rest,
    add_to,
    check_event,
    checked_choice,
    chunks_of,
    make_chunk,
    number_of_choice,
)
from conversation_state.adapters.engine.usage import RunningCounts, as_kept
from conversation_state.adapters.engine.wire import make_call_prefix
from conversation_state.adapters.openai_chat._blocks import (
    REASONING_KEYS,
    SOURCE,
    read_content,
)
from conversation_state.adapters.openai_chat._load import (
    find_usage,
    read_chat_counts,
    read_logprobs,
)
from conversation_state.adapters.openai_chat._stream_pieces import (
    CALL_KEYS,
    AudioAssembler,
    CallAssembler,
    IndexedLists,
)
from conversation_state.errors import ProviderStreamError
from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.parts import Part, ReasoningPart, RefusalPart, TextPart
from conversation_state.tools import ToolCall

# `obfuscation` is padding that hides the length of a piece.
_RESPONSE = frozenset({"choices", "error", "model", "obfuscation", "object", "usage"})
_CHOICE = frozenset({"delta", "error", "finish_reason", "index", "logprobs", "usage"})
# Lists whose items come in pieces, and the keys of texts in these that do, too: tools
# that Groq ran, and the reasoning of OpenRouter and of LiteLLM.
_INDEXED = {
    "executed_tools": frozenset[str](),
    "reasoning_details": frozenset({"summary", "text"}),
    "thinking_blocks": frozenset({"thinking"}),
}
# Groq sends the `channel` with every piece, and rejects messages that
# have it.
_DELTA = frozenset(
    {
        "audio",
        "channel",
        "content",
        "function_call",
        "refusal",
        "role",
        "tool_calls",
        *REASONING_KEYS,
    }
)
_BARE = frozenset({"channel", "content", "role"})
_CONTENT = _DELTA - CALL_KEYS - {"channel", "role"}

# The types of events of OpenAI's SDK (`client.chat.completions.stream`): one wraps a
# chunk and the answer so far, the others are derived from these.
_WRAPPER = "chunk"
_DERIVED = frozenset(
    {
        "content.delta",
        "content.done",
        "logprobs.content.delta",
        "logprobs.content.done",
        "logprobs.refusal.delta",
        "logprobs.refusal.done",
        "refusal.delta",
        "refusal.done",
        "tool_calls.function.arguments.delta",
        "tool_calls.function.arguments.done",
    }
)


def load_chunks(
    events: Iterable[Any], *, choice: int = 0
) -> Iterator[AssistantMessage]:
    """
    The chunks that the *events* of a stream bring, as they come; `concat` them.

    Together they hold what `load` returns for the whole response, except for nulls
    and the padding called ``obfuscation``; audio is a part at the end.

    A call keeps the provider's index, or gets the next one if that is taken or
    missing. A call without an id gets a made-up one.

    Args:
        events: The data of the server-sent events, as plain JSON values. The
            ``[DONE]`` at the end may be left out. Or the events of the SDK's
            ``client.chat.completions.stream()``, each with
            ``.to_dict(mode="json")``: those that it derives are not read again.

        choice: Which of several answers to read (``n``), from 0 on.

    Raises:
        ProviderStreamError:
            If an event reports that the provider failed, after all chunks before
            it.

        DecodeError:
            If an event is invalid in the format and its dialects, with every
            problem in it, after all chunks that could be read.

    Source:
        OpenAI sends usage in an event of its own, Groq and DeepSeek with the
        last one, Groq twice. Some servers number all calls 0; some send calls
        whole and without ids.

    >>> from conversation_state.chunks import concat
    >>> deltas = [{"content": "Hel"}, {"content": "lo"}]
    >>> concat(load_chunks({"choices": [{"delta": delta}]} for delta in deltas)).text
    'Hello'
    """
    return chunks_of(ChatStream(choice), events, SOURCE)


def aload_chunks(
    events: AsyncIterable[Any], *, choice: int = 0
) -> AsyncIterator[AssistantMessage]:
    """The async twin of `load_chunks`, for events that are awaited."""
    return achunks_of(ChatStream(choice), events, SOURCE)


class ChatStream:
    def __init__(self, choice: int) -> None:
        self._choice = checked_choice(choice)
        self._reader = DocumentReader()
        self._is_begun = False
        # What the events repeat, beside what is read of each.
        self._event = Repeats("choices", "obfuscation")
        self._answer = Repeats("delta")
        self._finish_reason = ""
        self._model = ""
        self._usage: RunningCounts | None = None
        # The notes: what has no field of ours, of the response, its choice and its
        # message.
        self._of_response: dict[str, Any] = {}
        self._of_choice: dict[str, Any] = {}
        self._keys: dict[str, Any] = {}
        # The texts that came, by key; and whether all pieces of each were empty.
        self._texts: dict[str, SurrogateBuffer] = {}
        self._is_empty: dict[str, bool] = {}
        self._has_text = False
        # The keys of the reasoning that the last chunk ended with, and more may follow.
        self._open_thought: dict[str, bool] = {}
        self._mended: dict[str, bool] = {}
        self._error: Any = None
        # What few streams have.
        self._calls: CallAssembler | None = None
        self._audio: AudioAssembler | None = None
        self._indexed: IndexedLists | None = None
        # Of ids that are made up, if the response has none.
        self._prefix = ""

    def read(self, event: Any, path: str) -> Iterator[AssistantMessage]:
        if not self._event.has(event):
            event, path = self._read_response(event, path)

        choices = event.get("choices")
        if choices.__class__ is not list:
            choices = self._check_choices(choices, path)

        for at, choice in enumerate(choices):
            response = None
            if not self._answer.has(choice):
                is_ours, response = self._read_answer(choice, at, path)
                if not is_ours:
                    self._answer.forget()
                    continue

            chunk = self._read_delta(choice, at, path, response)
            if chunk is not None:
                yield chunk

        # The chunks that could be read come before the error.
        if self._reader.mended:
            self._note_mended()

        if self._reader.problems:
            self._reader.finish()

        if self._error is not None:
            raise ProviderStreamError(describe_failure(self._error), event)

    def _check_choices(self, choices: Any, path: str) -> Sequence[Any]:
        if choices is None or is_list(choices):
            return choices or ()

        self._reader.wrong(f"{path}.choices", choices, "a list of choices")
        return ()

    def _note_mended(self) -> None:
        for where in self._reader.mended:
            _, delta, name = where.partition(".delta.")
            self._mended |= {re.split(r"\W", name)[0]: True} if delta else {}

        self._reader.mended.clear()

    def _read_response(self, event: Any, path: str) -> tuple[Mapping[str, Any], str]:
        """
        Read what *event* has beside its choices. The provider's event in it, if it is
        one of the SDK's, and its path; an empty one if the SDK derived it.
        """
        reader = self._reader
        check_event(reader, event, path)
        if "type" in event and "choices" not in event:
            kind = event["type"]
            if isinstance(kind, str) and kind in _DERIVED:
                if not self._is_begun:
                    reader.problem(path, ALONE)

                return {}, path

            if kind == _WRAPPER and is_map(event.get(_WRAPPER)):
                event, path = event[_WRAPPER], f"{path}.{_WRAPPER}"

        self._is_begun = True
        block, _ = find_usage(event)
        # The first answer has the usage of all answers, as in a whole response.
        if block is not None and not self._choice:
            self._usage = self._usage or RunningCounts(read_chat_counts)
            self._usage.add(block)

        node = ObjectReader(reader, event, path)
        if event.get("model") is not None:
            self._model = node.text("model") or self._model

        add_rest(self._of_response, node, _RESPONSE)
        if event.get("error") or event.get("object") == "error":
            self._error = event.get("error") or event

        return event, path

    def _read_answer(
        self, raw: Any, at: int, path: str
    ) -> tuple[bool, ResponseMeta | None]:
        """
        Read what the choice *raw*, number *at*, has beside its delta: whether it is the
        one that is read at all, and its log probabilities, if any.
        """
        path = f"{path}.choices[{at}]"
        if not is_map(raw):
            self._reader.wrong(path, raw, "an object")
            return False, None

        index = raw.get("index")
        if number_of_choice(index, at) != self._choice:
            return False, None

        choice = ObjectReader(self._reader, raw, path)
        if raw.get("finish_reason") is not None:
            self._finish_reason = choice.text("finish_reason") or self._finish_reason

        # OpenRouter reports under this key that the provider behind it failed.
        self._error = self._error or raw.get("error") or None
        logprobs = None
        if raw.get("logprobs") is not None:
            kept: dict[str, Any] = {}
            logprobs = read_logprobs(choice, kept)
            for left in kept.values():
                add_to(self._of_choice.setdefault("logprobs", {}), left)

        add_rest(self._of_choice, choice, _CHOICE)
        if index is not None and index.__class__ is not int:
            self._of_choice["index"] = as_kept(index)

        return True, ResponseMeta(logprobs=logprobs) if logprobs else None

    def _read_delta(
        self,
        choice: Mapping[str, Any],
        at: int,
        path: str,
        response: ResponseMeta | None,
    ) -> AssistantMessage | None:
        raw = choice.get("delta")
        if raw.__class__ is not dict:
            raw = self._check_delta(choice, f"{path}.choices[{at}]")

        content: Any = raw.get("content")
        calls: list[ToolCall] = []
        # Nearly all deltas are a text, perhaps with a role.
        if isinstance(content, str) and raw.keys() <= _BARE:
            content = self._add_piece("content", content)
            if content:
                self._has_text, self._open_thought = True, {}
        else:
            delta = ObjectReader(self._reader, raw, f"{path}.choices[{at}].delta")
            content, calls = self._read_more(delta)

        role = raw.get("role")
        if role and role != "assistant":
            where = f"{path}.choices[{at}].delta.role"
            self._reader.wrong(where, role, "assistant")

        if not (content or calls or response):
            return None

        if response is None and content.__class__ is str:
            return make_chunk(content, tuple(calls))

        return AssistantMessage(content, tool_calls=calls, response=response)

    def _check_delta(self, choice: Mapping[str, Any], path: str) -> Mapping[str, Any]:
        """The delta of *choice*; an empty one if it has none."""
        delta = choice.get("delta")
        if is_map(delta):
            return delta

        if "message" in choice:
            what = "is a whole response, not a stream event; use load()"
            self._reader.problem(path, what)
        elif "text" in choice:
            what = "is a legacy completion, which has no messages"
            self._reader.problem(path, what)
        elif delta is not None:
            self._reader.wrong(f"{path}.delta", delta, "an object or null")

        return {}

    def _read_more(self, delta: ObjectReader) -> tuple[Any, list[ToolCall]]:
        """The content and the calls of a *delta* that has more than a text."""
        keys = delta.raw.keys()
        content: Any = ""
        if not keys.isdisjoint(_CONTENT):
            content = self._read_content(delta)

        calls: list[ToolCall] = []
        if not keys.isdisjoint(CALL_KEYS):
            self._calls = self._calls or CallAssembler(self._make_id_prefix)
            calls = self._calls.read(delta)

        if not keys <= _DELTA:
            self._read_indexed(delta)
            add_rest(self._keys, delta, _DELTA.union(_INDEXED))

        return content, calls

    def _read_content(self, delta: ObjectReader) -> Any:
        before = self._read_reasoning(delta)
        content: Any = delta.raw.get("content")
        if content is None or isinstance(content, str):
            content = self._read_text(delta, "content")
        else:
            content = read_content(delta, "assistant")

        # `_read_refusal` notes the key of a refusal behind a text, as `load` does.
        self._has_text = self._has_text or bool(content)
        if delta.raw.get("audio") is not None:
            self._audio = self._audio or AudioAssembler()
            self._audio.read(delta)

        after = self._read_refusal(delta)
        if content or after:
            self._open_thought = {}

        if before or after:
            if isinstance(content, str):
                content = [TextPart(content)] if content else []

            content = [*before, *content, *after]

        return content

    def _read_indexed(self, delta: ObjectReader) -> None:
        self._indexed = self._indexed or IndexedLists()
        for key in _INDEXED.keys() & delta.raw.keys():
            given = delta.raw[key]
            pieces = delta.reading.json(given, f"{delta.path}.{key}")
            if given is not None:
                listed = pieces if is_list(given) else [pieces]
                self._indexed.add(key, listed or (), _INDEXED[key])

    def _make_id_prefix(self) -> str:
        response_id = self._of_response.get("id")
        if isinstance(response_id, str) and response_id:
            return make_call_prefix(response_id, self._choice)

        # One stream has one prefix.
        self._prefix = self._prefix or make_call_prefix("", self._choice)
        return self._prefix

    def _read_text(self, delta: ObjectReader, key: str) -> str:
        piece = delta.raw.get(key)
        if isinstance(piece, str):
            return self._add_piece(key, piece)

        if piece is not None:
            delta.wrong(key, "a text or null")

        return ""

    def _add_piece(self, key: str, piece: str) -> str:
        """What is new of the text *key*, which goes on with *piece*."""
        # What was empty from the beginning is sent back empty, as DeepSeek wants it.
        if not piece:
            self._is_empty.setdefault(key, True)
            return ""

        cut = self._texts.get(key)
        if cut is None:
            cut = self._texts[key] = SurrogateBuffer()

        self._is_empty[key] = False
        return cut.next(piece)

    def _read_reasoning(self, delta: ObjectReader) -> list[Part]:
        thoughts: dict[str, dict[str, bool]] = {}
        for key in REASONING_KEYS:
            text = self._read_text(delta, key) if key in delta.raw else ""
            if text:
                # Some servers send the same text under both keys.
                thoughts.setdefault(text, {})[key] = True

        parts: list[Part] = []
        for text, keys in thoughts.items():
            # The first piece has a note on the key, so those it is joined with need
            # none.
            note = {} if keys == self._open_thought else keys
            parts.append(ReasoningPart(text, metadata=_note_keys(note)))
            self._open_thought = keys

        return parts

    def _read_refusal(self, delta: ObjectReader) -> list[Part]:
        refusal = self._read_text(delta, "refusal")
        if not refusal:
            return []

        keys = {"refusal": True} if self._has_text else {}
        return [RefusalPart(refusal, metadata=_note_keys(keys))]

    def end(self, *, broken: bool) -> Iterator[AssistantMessage]:
        """
        The last chunk: metadata, and text that waited for the rest of a character.
        """
        rest = {key: cut.rest() for key, cut in self._texts.items() if cut.held}
        parts: list[Part] = [
            ReasoningPart(rest[key], metadata=_note_keys({key: True}))
            for key in REASONING_KEYS
            if key in rest
        ]
        if self._audio is not None:
            audio, instead = self._audio.finish()
            parts += [audio] if audio else []
            self._keys |= {"audio": instead} if instead else {}

        if "refusal" in rest:
            parts.append(RefusalPart(rest["refusal"]))

        content = rest.get("content", "")
        if parts and content:
            parts.append(TextPart(content))

        response = dict(self._of_response)
        response_id = take_text(response, "id")
        usage = None
        if self._usage is not None:
            usage, left = self._usage.read()
            response |= {"usage": left} if left else {}

        calls: list[ToolCall] = []
        texts = sorted(self._texts.items())
        self._mended |= {key: True for key, cut in texts if cut.is_mended}
        if self._calls is not None:
            calls = self._calls.rest()
            self._mended |= {"tool_calls": True} if self._calls.is_mended() else {}

        self._keys |= self._indexed.rest() if self._indexed else {}
        # The texts that came, and were empty, where `load` keeps them. An empty content
        # is usual unless something stands next to it.
        empty = [key for key in self._is_empty if self._is_empty[key]]
        has_more = bool(self._calls and self._calls.opened)
        has_more = has_more or len(empty) < len(self._is_empty)
        self._keys |= {key: "" for key in empty if key != "content" or has_more}
        notes: dict[str, Any] = {
            "response": response,
            "choice": self._of_choice,
            "keys": self._keys,
            "mended": list(self._mended),
        }
        metadata = with_notes(SOURCE, without_empty(notes))
        reason = self._finish_reason or ("interrupted" if broken else "")
        yield AssistantMessage(
            parts or content,
            tool_calls=calls,
            response=ResponseMeta(reason, usage, None, self._model, response_id),
            metadata=metadata,
        )


def _note_keys(keys: dict[str, bool]) -> Any:
    return with_notes(SOURCE, {"under": keys}) if keys else EMPTY_MAP
