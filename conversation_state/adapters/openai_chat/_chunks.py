"""
From a stream of Chat Completions to chunks.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any

from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters._reading import Place, Reading, is_list, is_map, mended
from conversation_state.adapters._streaming import (
    Cut,
    News,
    Shell,
    achunks_of,
    chunks_of,
)
from conversation_state.adapters.openai_chat._blocks import read_content
from conversation_state.adapters.openai_chat._called import Calls
from conversation_state.adapters.openai_chat._response import read_logprobs
from conversation_state.adapters.openai_chat._usage import find_usage, read_usage
from conversation_state.adapters.openai_chat._words import REASONING_KEYS, SOURCE
from conversation_state.errors import ProviderStreamError
from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.parts import (
    AudioPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from conversation_state.usage import Usage

__all__ = ["aload_chunks", "load_chunks"]

# `obfuscation` is padding against those who measure the length of messages.
_RESPONSE = frozenset({"choices", "error", "model", "obfuscation", "object", "usage"})
_CHOICE = frozenset({"delta", "finish_reason", "index", "logprobs", "usage"})
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
_AUDIO = frozenset({"data", "transcript"})
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

    Calls are numbered as they come, whatever index the provider gives them;
    one that has no id gets one made up.

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
            all that is wrong with it; likewise.

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
        if choice.__class__ is not int or choice < 0:
            msg = f"choice is {choice!r}; expected the number of an answer, from 0 on"
            raise ValueError(msg)

        self._choice = choice
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
        self._calls = Calls(self._news)
        self._sound = _Sound(self._news)

    def quick(self, event: Any) -> AssistantMessage | None:
        """
        The chunk of an event that differs from the one before in its delta
        only, and brings one piece.
        """
        # What is not as expected is read slowly, and told there.
        try:
            if self._around_event.is_around(event):
                (choice,) = event["choices"]
                if self._around_delta.is_around(choice):
                    return self._quick(choice["delta"])
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
            pass

        return None

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

        read.finish()
        self._around_event.remember(event)
        yield from chunks
        if event.get("error"):
            raise ProviderStreamError(_said(event["error"]), event)

    def _read_response(self, event: Place) -> None:
        """
        What is told of the response as a whole.
        """
        block, where = find_usage(event.raw)
        if block is not None:
            usage, left = read_usage(event.reading, block, f"{event.path}{where[1:]}")
            # Providers correct themselves, also downwards.
            self._usage = usage or self._usage
            if left:
                self._of_response["usage"] = left

        if event.raw.get("model") is not None:
            self._model = event.text("model") or self._model

        self._news.add(self._of_response, event, _RESPONSE, "response")

    def _read_choice(self, choice: Place) -> list[AssistantMessage]:
        raw = choice.raw
        if raw.get("finish_reason") is not None:
            self._finish_reason = choice.text("finish_reason") or self._finish_reason

        response = None
        if raw.get("logprobs") is not None:
            logprobs = read_logprobs(choice, self._of_choice)
            if logprobs:
                response = ResponseMeta(logprobs=logprobs)

        self._news.add(self._of_choice, choice, _CHOICE, "choice")
        if raw.get("logprobs") is None:
            self._around_delta.remember(raw)
        else:
            self._around_delta.forget()

        delta = raw.get("delta")
        if is_map(delta):
            place = Place(choice.reading, delta, f"{choice.path}.delta")
            return self._read_delta(place, response)

        if "message" in raw:
            what = "is of a whole response, not of a stream; load takes it"
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
        return told if isinstance(told, str) and told else "response"

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
        if rest.get("content"):
            parts.append(TextPart(rest["content"]))

        if rest.get("refusal"):
            parts.append(RefusalPart(rest["refusal"]))

        notes: dict[str, Any] = {
            name: told
            for name, told in (
                ("response", self._of_response),
                ("choice", self._of_choice),
                (self._sound.place, self._sound.rest()),
            )
            if told
        }
        metadata: Any = {SOURCE: notes} if notes else EMPTY_MAP
        reason = self._finish_reason or ("interrupted" if broken else "")
        yield AssistantMessage(
            parts or "",
            tool_calls=self._calls.rest(),
            response=ResponseMeta(reason, self._usage, None, self._model),
            metadata=metadata,
        )


class _Sound:
    """
    Audio that is made while it is sent.
    """

    def __init__(self, news: News) -> None:
        self._news = news
        self._said = Cut()
        self._encoded = ""
        self._keys: dict[str, Any] = {}
        # Where to note what is told of audio that is no part.
        self.place = "keys"

    def read(self, delta: Place) -> list[Part]:
        """
        The audio that *delta* brings, with what else was told of it.
        """
        raw = delta.raw.get("audio")
        if raw is None:
            return []

        if not is_map(raw):
            delta.wrong("audio", "an object or null")
            return []

        place = Place(delta.reading, raw, f"{delta.path}.audio")
        self._keys.update(self._news.of(place, _AUDIO, "audio"))
        if raw.get("transcript") is not None:
            text = self._said.next(place.text("transcript"))
            self._keys["transcript"] = self._keys.get("transcript", "") + text

        octets = b""
        if raw.get("data") is not None:
            octets = self._decoded(place)

        if not octets:
            return []

        notes: dict[str, Any] = {"under": {"audio": True}}
        if self._keys:
            notes["keys"] = self._keys
            self._keys = {}

        self.place = "audio"
        metadata: Any = {SOURCE: notes}
        return [AudioPart(data=octets, metadata=metadata)]

    def _decoded(self, place: Place) -> bytes:
        # Four characters are whole bytes, and pieces may be cut elsewhere.
        text = self._encoded + place.text("data")
        whole = len(text) // 4 * 4
        self._encoded = text[whole:]
        try:
            return base64.b64decode(text[:whole], validate=True)
        except ValueError:
            place.wrong("data", "a text in base64")
            return b""

    def rest(self) -> dict[str, Any]:
        """
        What was told after the last piece of audio, or without any.
        """
        return {"audio": self._keys} if self._keys else {}


def _under(keys: dict[str, bool]) -> Any:
    return {SOURCE: {"under": keys}} if keys else EMPTY_MAP


def _said(error: object) -> str:
    """
    Why the provider failed, in its own words.
    """
    said = error.get("message") if is_map(error) else error
    return mended(said) if isinstance(said, str) and said else "it did not say why"
