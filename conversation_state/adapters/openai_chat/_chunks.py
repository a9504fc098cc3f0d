"""From a stream of Chat Completions to chunks."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
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
    PieceTemplate,
    SurrogateBuffer,
    achunks_of,
    add_rest,
    add_to,
    check_event,
    checked_choice,
    chunks_of,
    make_text_chunk,
    number_of_choice,
    part_chunks,
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
    AudioAssembler,
    CallAssembler,
    IndexedLists,
)
from conversation_state.errors import ProviderStreamError
from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.parts import Part, ReasoningPart, RefusalPart, TextPart

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
        *_INDEXED,
    }
)
_TEXTS = ("content", "refusal", *REASONING_KEYS)

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
        self.template = PieceTemplate()
        self._choice = checked_choice(choice)
        self._is_begun = False
        self._is_wrapped = False
        self._finish_reason = ""
        self._model = ""
        self._usage = RunningCounts(read_chat_counts)
        # The notes: what has no field of ours, of the response, its choice and its
        # message.
        self._of_response: dict[str, Any] = {}
        self._of_choice: dict[str, Any] = {}
        self._keys: dict[str, Any] = {}
        self._texts = {key: SurrogateBuffer() for key in _TEXTS}
        self._has_text = False
        # Of the texts that came, whether all of their pieces were empty.
        self._is_empty: dict[str, bool] = {}
        self._mended: dict[str, bool] = {}
        self._error: Any = None
        self._calls = CallAssembler()
        self._audio = AudioAssembler()
        self._indexed = IndexedLists()
        # Of ids that are made up, if the response has none.
        self._prefix = ""

    def _expect_more(self, event: Mapping[str, Any]) -> None:
        """
        Expect events like *event*, which was read, if it brought one piece and
        nothing else.
        """
        # The SDK's snapshot differs in each event, and is not read.
        path: list[tuple[str, ...]] = [("choices", "obfuscation"), ("delta",)]
        given = event
        if self._is_wrapped:
            given = event[_WRAPPER]
            path.insert(0, (_WRAPPER, "snapshot"))

        choices = given.get("choices")
        if not is_list(choices) or len(choices) != 1:
            return

        (choice,) = choices
        delta = choice.get("delta")
        if (
            not is_map(delta)
            or number_of_choice(choice.get("index"), 0) != self._choice
        ):
            return

        brought = {
            key: value
            for key, value in delta.items()
            if value not in (None, "") and key not in ("channel", "role")
        }
        if len(brought) != 1:
            return

        ((found, piece),) = brought.items()
        path.append((found,))
        if found == "tool_calls":
            expected = self._calls.expect_more(piece)
            if expected is not None:
                path += [("function",), ("arguments",)]
                self.template.remember(event, path, *expected)
        elif found == "content":
            cut = self._texts["content"]
            self.template.remember(event, path, cut, make_text_chunk)
        # The piece of reasoning that was read has a note on its key, so later ones need
        # none.
        elif found in REASONING_KEYS:
            make = part_chunks(ReasoningPart, None)
            self.template.remember(event, path, self._texts[found], make)

    def read(self, event: Any, path: str) -> Iterator[AssistantMessage]:
        reader = DocumentReader()
        check_event(reader, event, path)
        given = event
        self._is_wrapped = False
        if "type" in event and "choices" not in event:
            kind = event["type"]
            if isinstance(kind, str) and kind in _DERIVED:
                if not self._is_begun:
                    reader.problem(path, ALONE)
                    reader.finish()

                return

            if kind == _WRAPPER and is_map(event.get(_WRAPPER)):
                self._is_wrapped = True
                given, path = event[_WRAPPER], f"{path}.{_WRAPPER}"

        self.template.forget()
        yield from self._read_event(reader, given, path)
        self._expect_more(event)

    def _read_event(
        self, reader: DocumentReader, event: Mapping[str, Any], path: str
    ) -> Iterator[AssistantMessage]:
        self._is_begun = True
        node = ObjectReader(reader, event, path)
        self._read_response(node)
        chunks: list[AssistantMessage] = []
        listed = node.optional_objects("choices", "a list of choices")
        for at, choice in enumerate(listed):
            if number_of_choice(choice.raw.get("index"), at) == self._choice:
                chunks += self._read_choice(choice)

        for where in reader.mended:
            _, delta, name = where.partition(".delta.")
            self._mended |= {re.split(r"\W", name)[0]: True} if delta else {}

        # The chunks that could be read come before the error.
        yield from chunks
        reader.finish()
        error = event.get("error") or self._error
        if error or event.get("object") == "error":
            raise ProviderStreamError(describe_failure(error or event), event)

    def _read_response(self, event: ObjectReader) -> None:
        block, _ = find_usage(event.raw)
        # The first answer has the usage of all answers, as in a whole response.
        if block is not None and not self._choice:
            self._usage.add(block)

        if event.raw.get("model") is not None:
            self._model = event.text("model") or self._model

        add_rest(self._of_response, event, _RESPONSE)

    def _read_choice(self, choice: ObjectReader) -> list[AssistantMessage]:
        raw = choice.raw
        if raw.get("finish_reason") is not None:
            self._finish_reason = choice.text("finish_reason") or self._finish_reason

        # OpenRouter reports under this key that the provider behind it failed.
        self._error = raw.get("error")
        response = None
        if raw.get("logprobs") is not None:
            kept: dict[str, Any] = {}
            logprobs = read_logprobs(choice, kept)
            for left in kept.values():
                add_to(self._of_choice.setdefault("logprobs", {}), left)

            if logprobs:
                response = ResponseMeta(logprobs=logprobs)

        add_rest(self._of_choice, choice, _CHOICE)
        index = raw.get("index")
        if index is not None and index.__class__ is not int:
            self._of_choice["index"] = as_kept(index)

        delta = raw.get("delta")
        if is_map(delta):
            node = ObjectReader(choice.reading, delta, f"{choice.path}.delta")
            return self._read_delta(node, response)

        if "message" in raw:
            what = "is a whole response, not a stream event; use load()"
            choice.reading.problem(choice.path, what)
        elif "text" in raw:
            what = "is a legacy completion, which has no messages"
            choice.reading.problem(choice.path, what)
        elif delta is not None:
            choice.wrong("delta", "an object or null")

        return [] if response is None else [AssistantMessage(response=response)]

    def _read_delta(
        self, delta: ObjectReader, response: ResponseMeta | None
    ) -> list[AssistantMessage]:
        raw = delta.raw
        if raw.get("role") and raw["role"] != "assistant":
            delta.wrong("role", "assistant")

        before = self._read_reasoning(delta)
        content: Any = raw.get("content")
        if content is None or isinstance(content, str):
            content = self._read_text(delta, "content")
        else:
            content = read_content(delta, "assistant")

        # `_read_refusal` notes the key of a refusal behind a text, as `load` does.
        self._has_text = self._has_text or bool(content)
        self._audio.read(delta)
        after = self._read_refusal(delta)
        if before or after:
            if isinstance(content, str):
                content = [TextPart(content)] if content else []

            content = [*before, *content, *after]

        calls = self._calls.read(delta, self._make_id_prefix())
        self._read_indexed(delta)
        add_rest(self._keys, delta, _DELTA)
        if not (content or calls or response):
            return []

        return [AssistantMessage(content, tool_calls=calls, response=response)]

    def _read_indexed(self, delta: ObjectReader) -> None:
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
        if piece is None:
            return ""

        if not isinstance(piece, str):
            delta.wrong(key, "a text or null")
            return ""

        # What was empty from the beginning is sent back empty, as DeepSeek wants it.
        self._is_empty[key] = not piece and self._is_empty.get(key, True)
        return self._texts[key].next(piece)

    def _read_reasoning(self, delta: ObjectReader) -> list[Part]:
        thoughts: dict[str, dict[str, bool]] = {}
        for key in REASONING_KEYS:
            text = self._read_text(delta, key)
            if text:
                # Some servers send the same text under both keys.
                thoughts.setdefault(text, {})[key] = True

        return [
            ReasoningPart(text, metadata=_note_keys(keys))
            for text, keys in thoughts.items()
        ]

    def _read_refusal(self, delta: ObjectReader) -> list[Part]:
        refusal = self._read_text(delta, "refusal")
        if not refusal:
            return []

        keys = {"refusal": True} if self._has_text else {}
        return [RefusalPart(refusal, metadata=_note_keys(keys))]

    def _list_empty(self) -> dict[str, str]:
        """
        The texts that came, and were empty, where `load` keeps them. An empty content
        is usual unless something stands next to it.
        """
        empty = [key for key in self._is_empty if self._is_empty[key]]
        has_more = self._calls.has_calls() or len(empty) < len(self._is_empty)
        return {key: "" for key in empty if key != "content" or has_more}

    def end(self, *, broken: bool) -> Iterator[AssistantMessage]:
        """
        The last chunk: metadata, and text that waited for the rest of a character.
        """
        rest = {key: cut.rest() for key, cut in self._texts.items()}
        parts: list[Part] = [
            ReasoningPart(rest[key], metadata=_note_keys({key: True}))
            for key in REASONING_KEYS
            if rest.get(key)
        ]
        audio, instead = self._audio.finish()
        parts += [audio] if audio else []
        if rest.get("refusal"):
            parts.append(RefusalPart(rest["refusal"]))

        content = rest["content"]
        if parts and content:
            parts.append(TextPart(content))

        response = dict(self._of_response)
        response_id = take_text(response, "id")
        usage, left = self._usage.read()
        if left:
            response["usage"] = left

        calls = self._calls.rest()
        self._mended |= {key: True for key, cut in self._texts.items() if cut.is_mended}
        self._mended |= {"tool_calls": True} if self._calls.is_mended() else {}
        self._keys |= self._indexed.rest()
        self._keys |= {"audio": instead} if instead else {}
        self._keys |= self._list_empty()
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
