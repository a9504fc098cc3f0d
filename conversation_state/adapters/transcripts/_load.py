"""
From one record to messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from conversation_state.adapters._extras import note_mended
from conversation_state.adapters._reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
)
from conversation_state.adapters._wire.calls import CallPairing
from conversation_state.adapters.transcripts._turns import SOURCE, WHO, TranscriptTurn
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    UserMessage,
)
from conversation_state.tools import ToolCall

__all__ = ["is_turn", "load", "message_keys"]

# Where a record has its turns.
_LISTS = ("conversations", "messages", "items", "conversation")
_PROMPT = "prompt"
_ANSWERS = ("completion", "response")
_NO_CONVERSATION = (
    "no conversation; expected a list of messages, or an object with such a list as "
    f"{', '.join(_LISTS)}, or with a prompt and a completion"
)


def load(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*: one record, a list of turns, or one turn.

    Half of a surrogate pair becomes U+FFFD, and a note has its path. A turn of
    calls whose text is no call is an `UnknownMessage`.

    Raises:
        DecodeError:
            If it is no transcript; with all that is wrong, each with its path.
    """
    read = TranscriptLoader()
    messages: list[Message] = []
    if is_list(payload):
        messages = read.turns(payload, "$")
    elif is_map(payload):
        messages = read.record(payload)
    else:
        read.problem("$", _NO_CONVERSATION)

    read.finish()
    return tuple(messages)


def is_turn(record: Mapping[Any, Any]) -> bool:
    """
    Whether *record* is a turn, and no conversation.
    """
    return any(key in record for key in WHO) and not any(
        is_list(record.get(key)) for key in _LISTS
    )


def _find_message_keys(record: Mapping[Any, Any]) -> tuple[str, ...]:
    """
    The keys under which *record* has its messages: that of a list, or two.
    """
    for key in _LISTS:
        if record.get(key) is not None:
            return (key,)

    answers = [key for key in _ANSWERS if key in record]
    return (_PROMPT, answers[0]) if answers and _PROMPT in record else ()


def message_keys(record: Mapping[Any, Any]) -> frozenset[str]:
    """
    The keys of *record* that messages are made of.
    """
    return frozenset({"system", *_find_message_keys(record)})


class TranscriptLoader(DocumentReader):
    """
    One record while it is read.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pairing = CallPairing()
        self.turns_so_far = 0

    def record(self, record: Mapping[str, Any]) -> list[Message]:
        """
        The messages of a record.
        """
        if is_turn(record):
            return self.turns([record], "$", alone=True)

        messages: list[Message] = []
        place = ObjectReader(self, record, "$")
        system = record.get("system")
        if system is not None and system != "":
            messages.append(self._load_text(place, "system", SystemMessage))

        keys = _find_message_keys(record)
        if not keys:
            self.problem("$", _NO_CONVERSATION)
        elif keys[0] == _PROMPT:
            messages += self._load_side(place, keys[0], UserMessage)
            messages += self._load_side(place, keys[1], AssistantMessage)
        elif is_list(record[keys[0]]):
            messages += self.turns(record[keys[0]], f"$.{keys[0]}")
        else:
            place.wrong(keys[0], "a list of messages")

        return messages

    def _load_side(
        self, place: ObjectReader, key: str, kind: Callable[..., Message]
    ) -> list[Message]:
        given = place.raw[key]
        if is_list(given):
            return self.turns(given, f"$.{key}")

        if isinstance(given, str):
            return [self._load_text(place, key, kind)]

        place.wrong(key, "a text, or a list of messages")
        return []

    def _load_text(
        self, place: ObjectReader, key: str, kind: Callable[..., Message]
    ) -> Message:
        harmed = len(self.mended)
        text = place.text(key)
        noted = ObjectReader(self, {}, place.path)
        note_mended(noted, harmed)
        return kind(text, metadata=noted.metadata(SOURCE))

    def turns(
        self, raws: Sequence[Any], path: str, *, alone: bool = False
    ) -> list[Message]:
        """
        The messages of a list; of one turn at *path* if it is *alone*.
        """
        messages: list[Message] = []
        calling: list[tuple[ObjectReader, list[ToolCall]]] = []
        for at, raw in enumerate(raws):
            here = path if alone else f"{path}[{at}]"
            turn = TranscriptTurn(self, self.pairing, raw, here, self.turns_so_far)
            self.turns_so_far += 1
            calls = turn.calls()
            if calls is not None:
                # Calls that follow one another are one message's.
                self.pairing.open_calls(calls, more=bool(calling))
                calling.append((turn.place, calls))
                continue

            messages += _make_caller(calling)
            calling = []
            message = turn.message()
            if message is not None:
                messages.append(message)

        return messages + _make_caller(calling)


def _make_caller(calling: list[tuple[ObjectReader, list[ToolCall]]]) -> list[Message]:
    """
    The message that makes the calls of the turns *calling*, if there are any.
    """
    if not calling:
        return []

    first = calling[0][0]
    if any(place.keys != first.keys for place, _ in calling):
        first.keys = {"turns": [place.keys for place, _ in calling]}

    mended = [where for place, _ in calling for where in place.notes.get("mended", ())]
    if mended:
        first.notes["mended"] = mended

    calls = [call for _, made in calling for call in made]
    metadata = first.metadata(SOURCE)
    return [AssistantMessage(tool_calls=calls, metadata=metadata)]
