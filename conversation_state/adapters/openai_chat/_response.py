"""
What a response tells beside its message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from conversation_state.adapters._reading import Place, Reading, is_list, is_map
from conversation_state.adapters.openai_chat._usage import find_usage, read_usage
from conversation_state.messages import LogProb, ResponseMeta

__all__ = ["Told", "read_logprobs", "read_response"]

_RESPONSE = frozenset({"choices", "model", "usage"})
_CHOICE = frozenset({"finish_reason", "logprobs", "message"})
_LEAST_LOGPROB = frozenset({"bytes", "logprob", "token"})
_LOGPROB = _LEAST_LOGPROB | {"top_logprobs"}
_NOTHING = LogProb("", 0.0)


class Told(NamedTuple):
    """
    A message of a response, and what is told about it.
    """

    raw: Any
    path: str
    prefix: str
    meta: ResponseMeta
    notes: dict[str, Any]


def read_response(read: Reading, payload: Mapping[str, Any]) -> list[Told]:
    """
    What *payload*, whose choices are a list, tells.
    """
    choices: Sequence[Any] = payload["choices"]
    if not choices:
        read.problem("$.choices", "is empty; expected at least one choice")

    usage, left = None, dict[str, Any]()
    block, where = find_usage(payload)
    if block is not None:
        usage, left = read_usage(read, block, where)

    place = Place(read, payload, "$")
    model = place.optional("model")
    notes = read.rest(payload, _RESPONSE, "$")
    if left:
        notes["usage"] = left

    name = notes.get("id")
    prefix = name if isinstance(name, str) and name else "response"
    told: list[Told] = []
    for at, choice in enumerate(choices):
        path = f"$.choices[{at}]"
        if not is_map(choice):
            read.wrong(path, choice, "an object")
        elif "delta" in choice and "message" not in choice:
            read.problem(path, "is a piece of a stream; expected a whole message")
        else:
            here = Place(read, choice, path)
            reason = here.optional("finish_reason")
            kept = read.rest(choice, _CHOICE, path)
            # Where it stands is what its index says, nearly always.
            if kept.get("index") == at:
                del kept["index"]

            logprobs = read_logprobs(here, kept)
            meta = ResponseMeta(reason, None if at else usage, logprobs, model)
            told.append(
                Told(
                    choice.get("message"),
                    f"{path}.message",
                    f"{prefix}_{at}" if at else prefix,
                    meta,
                    {"response": notes, **({"choice": kept} if kept else {})},
                )
            )

    return told


def read_logprobs(choice: Place, kept: dict[str, Any]) -> tuple[LogProb, ...] | None:
    """
    How likely the tokens of the content were; what else is told goes into
    *kept*.
    """
    given = choice.raw.get("logprobs")
    if given is None:
        return None

    if not is_map(given):
        choice.wrong("logprobs", "an object or null")
        return None

    read = choice.reading
    place = Place(read, given, f"{choice.path}.logprobs")
    content = given.get("content")
    known: frozenset[str] = frozenset({"content"})
    if not is_list(content):
        if content is not None:
            place.wrong("content", "a list or null")
    elif any(map(_is_odd, content)):
        known = frozenset()

    left = read.rest(given, known, place.path)
    if any(value is not None for value in left.values()):
        kept["logprobs"] = left

    if not is_list(content):
        return None

    return tuple(
        [
            _logprob(read, one, f"{place.path}.content[{i}]")
            for i, one in enumerate(content)
        ]
    )


def _is_odd(raw: Any) -> bool:
    """
    Whether there is more in *raw* than a `LogProb` holds.
    """
    if not is_map(raw) or raw.keys() <= _LEAST_LOGPROB:
        return False

    if not raw.keys() <= _LOGPROB:
        return True

    likeliest = raw["top_logprobs"]
    return is_list(likeliest) and any(
        is_map(one) and not one.keys() <= _LEAST_LOGPROB for one in likeliest
    )


def _logprob(read: Reading, raw: Any, path: str, *, top: bool = True) -> LogProb:
    if not is_map(raw):
        read.wrong(path, raw, "an object")
        return _NOTHING

    place = Place(read, raw, path)
    token = place.text("token")
    chance = _number(raw.get("logprob"))
    if chance is None:
        place.wrong("logprob", "a finite number")
        return _NOTHING

    spelt, octets = raw.get("bytes"), None
    if is_list(spelt) and all(_is_octet(octet) for octet in spelt):
        octets = bytes(spelt)
    elif spelt is not None:
        place.wrong("bytes", "a list of integers from 0 to 255, or null")

    likeliest = raw.get("top_logprobs") if top else None
    if likeliest is not None and not is_list(likeliest):
        place.wrong("top_logprobs", "a list")
        likeliest = None

    others = [
        _logprob(read, other, f"{path}.top_logprobs[{at}]", top=False)
        for at, other in enumerate(likeliest or ())
    ]
    return LogProb(token, chance, octets, tuple(others))


def _is_octet(value: Any) -> bool:
    return value.__class__ is int and value in range(256)


def _number(value: Any) -> float | None:
    # Integers may be too large for a float, which isfinite would make of them.
    if value.__class__ is int and abs(value) < 2**64:
        return float(value)

    return value if isinstance(value, float) and isfinite(value) else None
