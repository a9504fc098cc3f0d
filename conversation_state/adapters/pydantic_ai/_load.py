"""
From Pydantic AI's messages to ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from conversation_state.adapters._extras import note_mended, with_own
from conversation_state.adapters._reading import Place, Reading, is_list, is_map
from conversation_state.adapters.pydantic_ai._content import (
    keep,
    read_answer,
    read_content,
    read_own,
    text_of,
    whole,
)
from conversation_state.adapters.pydantic_ai._response import read_response
from conversation_state.adapters.pydantic_ai._words import (
    ERRORS,
    SOURCE,
    as_time,
    kind_of,
    messages_adapter,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)

__all__ = ["as_data", "load", "load_after"]

_REQUEST = frozenset({"instructions", "kind", "metadata", "parts", "run_id"})
_RESPONSE = frozenset(
    {
        *("finish_reason", "kind", "metadata", "model_name", "parts", "run_id"),
        *("timestamp", "usage"),
    }
)
_PART = frozenset({"content", "part_kind", "timestamp"})
_ANSWERS = frozenset({"retry-prompt", "tool-return"})
# What is said to the model in a user's place, though the user did not say it.
_ASIDE = frozenset({"compaction", "retry-feedback"})


def load(messages: Iterable[Any]) -> tuple[Message, ...]:
    """
    Our messages for Pydantic AI's: `ModelMessage` objects, or the list that
    ``ModelMessagesTypeAdapter`` makes of them, which needs no SDK.

    A `ModelRequest` is as many messages as it has parts; tool results come
    first in it, as they do when it is sent. Its instructions are a system
    message where they are not those of the request before, so that they are
    kept once and not with every request. Nothing is lost:
    what our model has no word for is kept as an unknown part or message, or in
    notes (see this package), and `dump` gives back what
    ``ModelMessagesTypeAdapter`` would. Half of a surrogate pair becomes
    U+FFFD, and a note says where.

    Raises:
        DecodeError:
            If something is no such message, or holds what can't be kept; with
            all that is wrong, each with its path.

        MissingExtraError:
            If objects are given and Pydantic AI is not installed.

    >>> (hi,) = load([{"kind": "request", "parts": [
    ...     {"part_kind": "user-prompt", "content": "Hi!"}]}])
    >>> hi.role, hi.text
    ('user', 'Hi!')
    """
    groups = load_after(as_data(messages), None)
    return tuple([message for group in groups for message in group])


def as_data(messages: Any) -> Sequence[Any]:
    """
    *messages* as plain JSON values, which they may be already.
    """
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(
        messages, Iterable
    ):
        read = Reading()
        read.wrong("$", messages, "a list of messages, result.all_messages() say")
        read.finish()

    data = list(messages)
    objects = [at for at, one in enumerate(data) if hasattr(one, "parts")]
    if objects:
        written = messages_adapter().dump_python(
            [data[at] for at in objects], mode="json"
        )
        for at, raw in zip(objects, written, strict=True):
            data[at] = raw

    return data


def load_after(data: Sequence[Any], instructions: str | None) -> list[list[Message]]:
    """
    The messages of each item of *data*, where the *instructions* of the
    request before were these.
    """
    read = Reading()
    groups: list[list[Message]] = []
    for at, raw in enumerate(data):
        path = f"$[{at}]"
        if not is_map(raw):
            read.wrong(path, raw, "an object")
            continue

        place = Place(read, raw, path)
        kind, parts = kind_of(raw, "kind"), raw.get("parts")
        if kind not in {"request", "response"}:
            place.wrong("kind", "request or response")
        elif not is_list(parts):
            place.wrong("parts", "a list")
        elif kind == "response":
            groups.append([_response(place, parts)])
        else:
            group = _request(place, parts, instructions)
            told = raw.get("instructions")
            instructions = told if isinstance(told, str) else instructions
            groups.append(group)

    read.finish()
    return groups


def _response(place: Place, parts: Sequence[Any]) -> Message:
    harmed = len(place.reading.mended)
    own, is_own = read_own(place)
    content, calls, meta = read_response(place, parts)
    time, is_told = as_time(place.raw.get("timestamp"))
    run, known = _run(place)
    spared = set() if is_told else {"timestamp"}
    keep(place, known - spared - (set() if is_own else {"metadata"}))
    note_mended(place, harmed)
    place.notes["response"] = place.keys
    if "texts" in place.notes:
        place.notes["response_texts"] = place.notes.pop("texts")

    place.keys = {}
    return AssistantMessage(
        content,
        tool_calls=calls,
        response=meta,
        run_id=run,
        timestamp=time,
        metadata=with_own(own, place, SOURCE),
    )


def _run(place: Place) -> tuple[UUID | None, frozenset[str]]:
    """
    The run of a message if it is told as we tell it, and which keys are then
    known.
    """
    known = _REQUEST if place.raw.get("kind") == "request" else _RESPONSE
    told = place.raw.get("run_id")
    if isinstance(told, str):
        try:
            run = UUID(told)
        except ValueError:
            pass
        else:
            if str(run) == told:
                return run, known

    return None, known - {"run_id"}


class _Made:
    """
    One message to be, while its request is read.
    """

    def __init__(
        self, place: Place, kind: type[Message], fields: dict[str, Any]
    ) -> None:
        self.place = place
        self.kind = kind
        self.fields = fields

    def message(self, run: UUID | None, own: Mapping[str, Any]) -> Message:
        """
        The message, when all there is to note is noted.
        """
        if self.kind is UnknownMessage:
            self.fields["source"] = SOURCE

        metadata = with_own(own, self.place, SOURCE)
        return self.kind(**self.fields, run_id=run, metadata=metadata)


def _request(
    place: Place, parts: Sequence[Any], instructions: str | None
) -> list[Message]:
    own, is_own = read_own(place)
    run, known = _run(place)
    if not is_own:
        known -= {"metadata"}

    made = _ordered(_parts(place, parts))
    harmed = len(place.reading.mended)
    told = place.raw.get("instructions")
    if isinstance(told, str) and told and told != instructions:
        # Nothing may stand between calls and their results.
        answers = sum(one.kind is ToolMessage for one in made)
        lead = Place(place.reading, {}, place.path)
        lead.notes["instructions"] = True
        fields = {"content": place.text("instructions")}
        made.insert(answers, _Made(lead, SystemMessage, fields))
    elif told is not None and told != instructions:
        known -= {"instructions"}

    if not made:
        empty = Place(place.reading, {}, place.path)
        empty.notes["empty"] = True
        made.append(_Made(empty, UnknownMessage, {"raw": {"kind": "request"}}))

    keep(place, known)
    note_mended(place, harmed)
    first, *others = [one.place.notes for one in made]
    for name in ("metadata", "mended"):
        if name in place.notes:
            first.setdefault(name, place.notes[name])

    if "texts" in place.notes:
        first["request_texts"] = place.notes["texts"]

    if told is not None and told == instructions:
        first["instructed"] = True

    first["request"] = place.keys
    for notes in others:
        notes["more"] = True

    return [one.message(run, own if one is made[0] else {}) for one in made]


def _parts(place: Place, parts: Sequence[Any]) -> list[_Made]:
    made = []
    for at, raw in enumerate(parts):
        path = f"{place.path}.parts[{at}]"
        if is_map(raw):
            part = Place(place.reading, raw, path)
            before = len(place.reading.mended)
            made.append(_part(part))
            note_mended(part, before)
        else:
            place.reading.wrong(path, raw, "an object")

    return made


def _ordered(made: list[_Made]) -> list[_Made]:
    """
    Tool results first, and notes of the order that was.
    """
    order = sorted(made, key=lambda one: one.kind is not ToolMessage)
    if order != made:
        for at, one in enumerate(made):
            one.place.notes["at"] = at

    return order


def _part(place: Place) -> _Made:
    """
    One part of a request.
    """
    raw = place.raw
    kind, content = kind_of(raw), raw.get("content")
    time, is_told = as_time(raw.get("timestamp"))
    fields: dict[str, Any] = {"timestamp": time} if time else {}
    known = _PART if is_told else _PART - {"timestamp"}
    if kind == "system-prompt" and isinstance(content, str):
        keep(place, known)
        return _Made(place, SystemMessage, {"content": place.text("content"), **fields})

    if kind == "user-prompt" and (isinstance(content, str) or is_list(content)):
        keep(place, known)
        said = read_content(place, content)
        return _Made(place, UserMessage, {"content": said, **fields})

    names = isinstance(raw.get("tool_name"), str)
    if kind in _ANSWERS and names and is_text(raw.get("tool_call_id")):
        return _answer(place, known, fields)

    if content is not None and (
        kind in _ASIDE or (kind == "retry-prompt" and not names)
    ):
        keep(place, known - {"part_kind"})
        said = text_of(place, "content")
        return _Made(place, UserMessage, {"content": said, **fields})

    if kind == "speech" and isinstance(raw.get("transcript"), str):
        keep(place, known - {"content", "part_kind"} | {"transcript"})
        return _Made(
            place, UserMessage, {"content": place.text("transcript"), **fields}
        )

    # Time, too, stays in it: it is written back as it is.
    raw, noted = whole(place)
    if noted:
        place.notes |= noted[SOURCE]

    return _Made(place, UnknownMessage, {"raw": raw})


def _answer(place: Place, known: frozenset[str], fields: dict[str, Any]) -> _Made:
    kind = place.raw["part_kind"]
    outcome = place.raw.get("outcome")
    keep(place, known | {"tool_call_id", "tool_name"})
    if kind != "tool-return":
        place.keys["part_kind"] = kind

    fields |= {
        "content": read_answer(place),
        "is_error": kind != "tool-return" or is_failure(outcome),
        "tool_call_id": place.text("tool_call_id"),
        "tool_name": place.text("tool_name"),
    }
    return _Made(place, ToolMessage, fields)


def is_failure(outcome: Any) -> bool:
    """
    Whether a call that came to that *outcome* failed.
    """
    return isinstance(outcome, str) and outcome in ERRORS


def is_text(value: Any) -> bool:
    """
    Whether *value* is a text that says something.
    """
    return isinstance(value, str) and bool(value)
