"""
What the writers of the four wires share: the pieces of an answer, and its tokens.

These are writers of *responses*, written from the providers' references. The adapters
of this library read them; nothing of theirs is used here.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from conversation_state.messages import AssistantMessage
from conversation_state.parts import ReasoningPart, RefusalPart, TextPart, UnknownPart
from conversation_state.usage import Usage

__all__ = [
    "AnswerCall",
    "AnswerPiece",
    "Numbers",
    "arguments_of",
    "pieces_of",
    "split_text",
    "tokens_of",
]


class AnswerCall(NamedTuple):
    """A call of an answer; *id* is "" where the message has none."""

    id: str
    name: str
    arguments: str


class AnswerPiece(NamedTuple):
    """A part or a call of an answer: what is not its kind is empty."""

    kind: str
    text: str = ""
    signature: str = ""
    call: AnswerCall = AnswerCall("", "", "")
    raw: Mapping[str, Any] = {}


class Numbers:
    """Ids that no two answers of a provider share."""

    def __init__(self) -> None:
        self._count = itertools.count(1)

    def id(self, prefix: str) -> str:
        """A new id that begins with *prefix*."""
        return f"{prefix}{next(self._count):06d}"

    def call_id(self) -> str:
        """A new id of a call, which every host takes: nine letters and digits."""
        return f"call{next(self._count):05d}"


def pieces_of(message: AssistantMessage) -> list[AnswerPiece]:
    """
    The parts and calls of *message*, in the order of their indices where they have any.
    """
    placed: list[tuple[tuple[int, int], AnswerPiece]] = []
    for at, part in enumerate(message.parts):
        match part:
            case TextPart():
                piece = AnswerPiece("text", part.text)
            case ReasoningPart():
                piece = AnswerPiece("reasoning", part.text, part.signature)
            case RefusalPart():
                piece = AnswerPiece("refusal", part.text)
            case UnknownPart():
                piece = AnswerPiece("raw", raw=_thaw(part.raw))
            case _:
                raise TypeError(
                    f"a script's answer has a part of kind {part.kind}; the strict "
                    "provider writes text, reasoning, refusals and unknown parts. Give "
                    "the response's JSON instead."
                )

        placed.append(((at if part.index is None else part.index, at), piece))

    begin = len(placed)
    for at, call in enumerate(message.tool_calls, begin):
        piece = AnswerPiece("call", call=AnswerCall(call.id, call.name, call.arguments))
        placed.append(((at if call.index is None else call.index, at), piece))

    placed.sort(key=lambda each: each[0])
    return [piece for _, piece in placed]


def _thaw(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _thaw(each) for key, each in value.items()}

    if isinstance(value, list | tuple):
        return [_thaw(each) for each in value]

    return value


def arguments_of(call: AnswerCall) -> dict[str, Any]:
    """
    The arguments of *call* as the object that two of the wires have them as.

    Raises:
        ValueError: They are no JSON object.
    """
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError:
        arguments = None

    if not isinstance(arguments, dict):
        raise ValueError(  # noqa: TRY004 - the text is of the right type
            f"the arguments of the call {call.name!r} are {call.arguments!r}, which is "
            "no JSON object; this wire can't say them. Script it for openai_chat."
        )

    return arguments


def split_text(text: str, size: int = 12) -> Iterator[str]:
    """*text* in pieces of at most *size* characters, as a stream has it."""
    for begin in range(0, len(text), size):
        yield text[begin : begin + size]


def tokens_of(message: AssistantMessage, body: Mapping[str, Any]) -> Usage:
    """The tokens that *message* says, or a fourth of the characters."""
    if message.response is not None and message.response.usage is not None:
        return message.response.usage

    answered = len(message.text) + sum(
        len(call.name) + len(call.arguments) for call in message.tool_calls
    )
    return Usage(len(json.dumps(body)) // 4, -(-answered // 4))
