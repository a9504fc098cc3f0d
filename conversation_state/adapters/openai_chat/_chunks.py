"""
From a stream of Chat Completions to chunks.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any

from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters._reading import Place, Reading, is_list, is_map, mended
from conversation_state.adapters._streaming import (
    Cut,
    News,
    Shell,
    achunks_of,
    add_to,
    checked_choice,
    chunks_of,
)
from conversation_state.adapters.openai_chat._blocks import read_content
from conversation_state.adapters.openai_chat._called import Calls
from conversation_state.adapters.openai_chat._response import read_logprobs
from conversation_state.adapters.openai_chat._sound import Sound
from conversation_state.adapters.openai_chat._usage import find_usage, read_usage
from conversation_state.adapters.openai_chat._words import REASONING_KEYS, SOURCE
from conversation_state.errors import ProviderStreamError
from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.parts import (
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from conversation_state.usage import Usage

__all__ = ["aload_chunks", "load_chunks"]

# `obfuscation` is padding against those who measure the length of messages.
_RESPONSE = frozenset({"choices", "error", "model", "obfuscation", "object", "usage"})
_CHOICE = frozenset({"delta", "error", "finish_reason", "index", "logprobs", "usage"})
# Groq says with every piece in which `channel` it is, and refuses messages that
# say so.
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
_TEXTS = ("content", "refusal", *REASONING_KEYS)


def load_chunks(
    events: Iterable[Any], *, choice: int = 0
) -> Iterator[AssistantMessage]:
    """
    The chunks that the *events* of a stream bring, as they come; `concat` them.

    Together they say what `load` says of the whole response, but for what is
    only noise: nulls, the padding called ``obfuscation``. Lazy: an event is
    read when its chunk is asked for.

    The last chunk has what was told of the response as a whole: the reason to
    finish, the latest usage, the model, and notes. A stream that breaks off
    ends with ``interrupted``, also if *events* raise, or if this function
    does.

    Calls keep the index the provider gives them, or get the next one where
    that is taken or missing; one that has no id gets one made up. *events* are
    not closed.

    Args:
        events: The data of the server-sent events, as plain JSON values. The
            ``[DONE]`` at the end may be left out.

        choice: Which of several answers to read (``n``), from 0 on.

    Raises:
        ProviderStreamError:
            If an event says that the provider failed, after all before it
            was given.

        DecodeError:
            If an event is not what the format or a dialect of it has, with
            all that is wrong with it, after what could be read was given.

    Source:
        OpenAI sends usage in an event of its own, Groq and DeepSeek with the
        last one, Groq twice. Some servers number all calls 0; some send calls
        whole and without ids.

    >>> from conversation_state.chunks import concat
    >>> deltas = [{"content": "Hel"}, {"content": "lo"}]
    >>> concat(load_chunks({"choices": [{"delta": delta}]} for delta in deltas)).text
    'Hello'
    """
    return chunks_of(_Stream(choice), events)


def aload_chunks(
    events: AsyncIterable[Any], *, choice: int = 0
) -> AsyncIterator[AssistantMessage]:
    """
    What `load_chunks` gives, of events that are waited for.
    """
    return achunks_of(_Stream(choice), events)


class _Stream:
    """
    One stream while it is read.
    """

    def __init__(self, choice: int) -> None:
        self._choice = checked_choice(choice)
        self._count = 0
        self._finish_reason = ""
        self._model = ""
        self._usage: Usage | None = None
        self._news = News()
        self._of_response: dict[str, Any] = {}
        self._of_choice: dict[str, Any] = {}
        self._around_event = Shell("choices", "obfuscation")
        self._around_delta = Shell("delta")
        self._texts = {key: Cut() for key in _TEXTS}
        self._has_text = False
        self._thinking: dict[str, bool] = {}
        self._error: Any = None
        self._calls = Calls(self._news)
        self._sound = Sound(self._news)

    def quick(self, event: Any) -> AssistantMessage | None:
        """
        The chunk of an event that differs from the one before in its delta
        only, and brings one piece.
        """
        # What is not as expected is read slowly, and told there.
        chunk = None
        try:
            if self._around_event.is_around(event):
                (choice,) = event["choices"]
                if self._around_delta.is_around(choice):
                    chunk = self._quick(choice["delta"])
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
            pass

        if chunk is not None:
            self._count += 1

        return chunk

    def _only(self, delta: Any) -> tuple[str, Any]:
        """
        The one thing that is new in *delta*; "" if there is not just one.
        """
        found, piece = "", None
        for key, value in delta.items():
            if (
                value is None
                or key == "channel"
                or (key not in _DELTA and self._news.is_none(key, value, "delta"))
            ):
                continue

            if found:
                return "", None

            found, piece = key, value

        return found, piece

    def _quick(self, delta: Any) -> AssistantMessage | None:
        found, piece = self._only(delta)
        if found == "tool_calls":
            call = self._calls.quick(piece)
            return AssistantMessage(tool_calls=(call,)) if call else None

        if piece.__class__ is not str:
            return None

        if found == "content":
            text = self._texts["content"].whole(piece)
            if text:
                self._has_text = True
                self._thinking = {}
                return AssistantMessage(text)

        elif found in self._thinking and len(self._thinking) == 1:
            text = self._texts[found].whole(piece)
            if text:
                return AssistantMessage((ReasoningPart(text),))

        return None

    def read(self, event: Any) -> Iterator[AssistantMessage]:
        """
        The chunks that *event* brings.
        """
        read = Reading()
        path = f"$[{self._count}]"
        self._count += 1
        if not is_map(event):
            read.wrong(path, event, "an event of a stream, as a plain JSON object")
            read.finish()

        self._read_response(Place(read, event, path))
        chunks: list[AssistantMessage] = []
        choices = event.get("choices")
        if is_list(choices):
            for at, choice in enumerate(choices):
                here = f"{path}.choices[{at}]"
                if not is_map(choice):
                    read.wrong(here, choice, "an object")
                elif (choice.get("index") or 0) == self._choice:
                    chunks += self._read_choice(Place(read, choice, here))
        elif choices is not None:
            read.wrong(f"{path}.choices", choices, "a list of choices")

        # What could be read is given, whatever else is wrong.
        yield from chunks
        read.finish()
        self._around_event.remember(event)
        error = event.get("error") or self._error
        if error or event.get("object") == "error":
            raise ProviderStreamError(_said(error or event), event)

    def _read_response(self, event: Place) -> None:
        """
        What is told of the response as a whole.
        """
        block, where = find_usage(event.raw)
        # Only the first answer has the usage of all, as in a whole response.
        if block and not self._choice:
            usage, left = read_usage(event.reading, block, f"{event.path}{where[1:]}")
            # Providers correct themselves, also downwards.
            self._usage = usage or self._usage
            add_to(self._of_response, {"usage": left} if left else {})

        if event.raw.get("model") is not None:
            self._model = event.text("model") or self._model

        self._news.add(self._of_response, event, _RESPONSE, "response")

    def _read_choice(self, choice: Place) -> list[AssistantMessage]:
        raw = choice.raw
        if raw.get("finish_reason") is not None:
            self._finish_reason = choice.text("finish_reason") or self._finish_reason

        self._error = raw.get("error")
        response = None
        if raw.get("logprobs") is not None:
            kept: dict[str, Any] = {}
            logprobs = read_logprobs(choice, kept)
            for left in kept.values():
                add_to(self._of_choice.setdefault("logprobs", {}), left)

            if logprobs:
                response = ResponseMeta(logprobs=logprobs)

        self._news.add(self._of_choice, choice, _CHOICE, "choice")
        self._around_delta.remember(raw)

        delta = raw.get("delta")
        if is_map(delta):
            place = Place(choice.reading, delta, f"{choice.path}.delta")
            return self._read_delta(place, response)

        if "message" in raw:
            what = "is of a whole response, not of a stream; load takes it"
            choice.reading.problem(choice.path, what)
        elif "text" in raw:
            what = "is of the older completions, which have no messages"
            choice.reading.problem(choice.path, what)
        elif delta is not None:
            choice.wrong("delta", "an object or null")

        return [] if response is None else [AssistantMessage(response=response)]

    def _read_delta(
        self, delta: Place, response: ResponseMeta | None
    ) -> list[AssistantMessage]:
        raw = delta.raw
        if raw.get("role") and raw["role"] != "assistant":
            delta.wrong("role", "assistant")

        before = self._thoughts(delta)
        content: Any = raw.get("content")
        if content is None or isinstance(content, str):
            content = self._text(delta, "content")
        else:
            content = read_content(delta, "assistant")

        self._has_text = self._has_text or bool(content)
        after = [*self._sound.read(delta), *self._refused(delta)]
        if content or after:
            self._thinking = {}

        if before or after:
            if isinstance(content, str):
                content = [TextPart(content)] if content else []

            content = [*before, *content, *after]

        calls = self._calls.read(delta, self._prefix())
        fields: dict[str, Any] = {}
        keys = self._news.of(delta, _DELTA, "delta")
        if keys:
            fields["metadata"] = {SOURCE: {"keys": keys}}

        if not (content or calls or fields or response):
            return []

        chunk = AssistantMessage(content, tool_calls=calls, response=response, **fields)
        return [chunk]

    def _prefix(self) -> str:
        told = self._of_response.get("id")
        prefix = told if isinstance(told, str) and told else "response"
        return f"{prefix}_{self._choice}" if self._choice else prefix

    def _text(self, delta: Place, key: str) -> str:
        """
        The text under *key*, as far as no half of a character waits.
        """
        piece = delta.raw.get(key)
        if piece is None:
            return ""

        if not isinstance(piece, str):
            delta.wrong(key, "a text or null")
            return ""

        return self._texts[key].next(piece)

    def _thoughts(self, delta: Place) -> list[Part]:
        thoughts: dict[str, dict[str, bool]] = {}
        for key in REASONING_KEYS:
            text = self._text(delta, key)
            if text:
                # Some servers say the same under both keys.
                thoughts.setdefault(text, {})[key] = True

        # Where they stood is noted once, with the first piece.
        parts: list[Part] = []
        for text, keys in thoughts.items():
            about = EMPTY_MAP if keys == self._thinking else _under(keys)
            parts.append(ReasoningPart(text, metadata=about))
            self._thinking = keys

        return parts

    def _refused(self, delta: Place) -> list[Part]:
        refusal = self._text(delta, "refusal")
        if not refusal:
            return []

        keys = {"refusal": True} if self._has_text else {}
        return [RefusalPart(refusal, metadata=_under(keys))]

    def end(self, *, broken: bool) -> Iterator[AssistantMessage]:
        """
        What is told at the end, and what waited for the rest of a character.
        """
        rest = {key: cut.rest() for key, cut in self._texts.items()}
        parts: list[Part] = [
            ReasoningPart(rest[key], metadata=_under({key: True}))
            for key in REASONING_KEYS
            if rest.get(key)
        ]
        parts += self._sound.last()
        if rest.get("refusal"):
            parts.append(RefusalPart(rest["refusal"]))

        content = rest["content"]
        if parts and content:
            parts.append(TextPart(content))

        harmed = [key for key, cut in self._texts.items() if cut.is_harmed]
        notes: dict[str, Any] = {
            name: told
            for name, told in (
                ("response", self._of_response),
                ("choice", self._of_choice),
                (self._sound.place, self._sound.rest()),
                ("mended", harmed),
            )
            if told
        }
        metadata: Any = {SOURCE: notes} if notes else EMPTY_MAP
        reason = self._finish_reason or ("interrupted" if broken else "")
        yield AssistantMessage(
            parts or content,
            tool_calls=self._calls.rest(),
            response=ResponseMeta(reason, self._usage, None, self._model),
            metadata=metadata,
        )


def _under(keys: dict[str, bool]) -> Any:
    return {SOURCE: {"under": keys}} if keys else EMPTY_MAP


def _said(error: object) -> str:
    """
    Why the provider failed, in its own words.
    """
    said = error.get("message") if is_map(error) else error
    return mended(said) if isinstance(said, str) and said else "it did not say why"
