"""
The metadata of a response.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from conversation_state.adapters._openai import is_odd, read_logprob
from conversation_state.adapters._reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
    take_text,
)
from conversation_state.adapters.openai_chat._usage import find_usage, read_usage
from conversation_state.messages import LogProb, ResponseMeta

__all__ = ["ChoiceInfo", "read_logprobs", "read_response"]

_RESPONSE = frozenset({"choices", "model", "usage"})
_CHOICE = frozenset({"finish_reason", "logprobs", "message"})


class ChoiceInfo(NamedTuple):
    """
    A message of a response, and its metadata.
    """

    raw: Any
    path: str
    prefix: str
    meta: ResponseMeta
    notes: dict[str, Any]


def read_response(read: DocumentReader, payload: Mapping[str, Any]) -> list[ChoiceInfo]:
    """
    The choices of *payload*, and their metadata.
    """
    choices: Sequence[Any] = payload["choices"]
    if not choices:
        read.problem("$.choices", "is empty; expected at least one choice")

    usage, left = None, dict[str, Any]()
    block, where = find_usage(payload)
    if block is not None:
        usage, left = read_usage(read, block, where)

    place = ObjectReader(read, payload, "$")
    model = place.optional("model")
    notes = read.rest(payload, _RESPONSE, "$")
    if left:
        notes["usage"] = left

    response_id = take_text(notes, "id")
    prefix = response_id or "response"
    found: list[ChoiceInfo] = []
    for at, choice in enumerate(choices):
        path = f"$.choices[{at}]"
        if not is_map(choice):
            read.wrong(path, choice, "an object")
        elif "delta" in choice and "message" not in choice:
            read.problem(path, "is a piece of a stream; expected a whole message")
        else:
            here = ObjectReader(read, choice, path)
            reason = here.optional("finish_reason")
            kept = read.rest(choice, _CHOICE, path)
            # Its index is its position, nearly always.
            if kept.get("index") == at:
                del kept["index"]

            logprobs = read_logprobs(here, kept)
            meta = ResponseMeta(
                reason, None if at else usage, logprobs, model, response_id
            )
            found.append(
                ChoiceInfo(
                    choice.get("message"),
                    f"{path}.message",
                    f"{prefix}_{at}" if at else prefix,
                    meta,
                    _without_empty({"response": notes, "choice": kept}),
                )
            )

    return found


def _without_empty(notes: dict[str, Any]) -> dict[str, Any]:
    return {name: note for name, note in notes.items() if note}


def read_logprobs(
    choice: ObjectReader, kept: dict[str, Any]
) -> tuple[LogProb, ...] | None:
    """
    How likely the tokens of the content were; what else there is goes into
    *kept*.
    """
    place = choice.inside("logprobs")
    if place is None:
        return None

    read, given = place.reading, place.raw
    content = given.get("content")
    known: frozenset[str] = frozenset({"content"})
    if not is_list(content):
        if content is not None:
            place.wrong("content", "a list or null")
    elif any(map(is_odd, content)):
        known = frozenset()

    left = read.rest(given, known, place.path)
    if any(value is not None for value in left.values()):
        kept["logprobs"] = left

    if not is_list(content):
        return None

    return tuple(
        [
            read_logprob(read, one, f"{place.path}.content[{i}]")
            for i, one in enumerate(content)
        ]
    )
