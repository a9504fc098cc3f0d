"""
The content of a conversation, whatever format it came from, and what each provider asks
of a request: for tests that carry conversations from one format to another.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from conversation_state.adapters import Lost
from conversation_state.adapters.engine.wire import parse_data_url
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.parts import (
    MediaPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.tools import ToolCall

# What `lost` calls content that arrives, but elsewhere.
MOVED = {"assistant", "position", "system"}


class Carried(NamedTuple):
    """
    One piece of content.

    Attributes:
        path: Where: of a message, a part or a call.

        kind: What it is.

        about: Its fields, by the names that `lost` has for them.
    """

    path: str
    kind: str
    about: dict[str, Any]


def places(messages: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Everything in *messages* that has metadata, and where it is."""
    for at, message in enumerate(messages):
        path = f"messages[{at}]"
        yield path, message
        content = getattr(message, "content", "")
        for number, part in enumerate(() if isinstance(content, str) else content):
            yield f"{path}.parts[{number}]", part

        for number, call in enumerate(getattr(message, "tool_calls", ())):
            yield f"{path}.tool_calls[{number}]", call


def writes_values(adapter: Any) -> bool:
    """
    Whether calls have their arguments as values in the format of *adapter*; in others
    they have a text.
    """
    call = ToolCall("c1", "f", '{"marked": 1}')
    payload = adapter.dump([AssistantMessage(tool_calls=[call])]).payload
    return '{"marked": 1}' in json.dumps(payload)  # a text has its quotes escaped


def meaning(arguments: str) -> Any:
    """What *arguments* are where they are a value: all spellings of it are one."""
    with suppress(ValueError, RecursionError):
        value = json.loads(arguments or "{}")
        if isinstance(value, dict):
            return json.dumps(value, sort_keys=True)

    return arguments


def _describe_part(part: Any, path: str, role: str) -> Carried:
    about: dict[str, Any] = {"role": role}
    if isinstance(part, (TextPart, RefusalPart)):
        about["text"] = part.text
    elif isinstance(part, ReasoningPart):
        about |= {"text": part.text, "signature": part.signature}
    elif isinstance(part, UnknownPart):
        about["raw"] = part.raw
    elif isinstance(part, MediaPart):
        # A url that is its own content is that content.
        held = parse_data_url(part.url or "")
        about["url"] = None if held else part.url
        about["data"] = held[0] if held else part.data
        about["media_type"] = part.media_type or (held[1] if held else "")
        for name in ("detail", "name"):
            about[name] = getattr(part, name, "")

    # An empty field is nothing to keep.
    kept = {name: each for name, each in about.items() if each not in ("", None)}
    return Carried(path, part.kind, kept)


def carried_in(messages: Iterable[Message], *, valued: bool) -> list[Carried]:
    """
    The content of *messages*, but for empty texts; with *valued* arguments are
    values, and not texts.
    """
    found: list[Carried] = []
    names: dict[str, str] = {}
    for at, message in enumerate(messages):
        path = f"messages[{at}]"
        if isinstance(message, UnknownMessage):
            found.append(Carried(path, "unknown", {"raw": message.raw}))
            continue

        if message.name:
            found.append(Carried(path, "name", {"name": message.name}))

        parts = message.parts
        if isinstance(message, ToolMessage):
            # Its texts are one text: where one of them ends is not recorded.
            result = {
                "id": message.tool_call_id,
                "tool_name": message.tool_name or names.get(message.tool_call_id),
                "is_error": message.is_error,
                "text": message.text,
            }
            kept = {name: each for name, each in result.items() if each}
            found.append(Carried(path, "result", kept))

        for number, part in enumerate(parts):
            one = _describe_part(part, f"{path}.parts[{number}]", message.role)
            is_told = isinstance(part, TextPart) and isinstance(message, ToolMessage)
            if not is_told and one.about.keys() != {"role"}:
                found.append(one)

        for number, call in enumerate(getattr(message, "tool_calls", ())):
            names[call.id] = call.name
            arguments = meaning(call.arguments) if valued else call.arguments
            about = {"id": call.id, "name": call.name, "arguments": arguments}
            about["type"] = call.type
            found.append(Carried(f"{path}.tool_calls[{number}]", "call", about))

    return found


class Kept(NamedTuple):
    """
    What has to arrive of one piece of content.

    Attributes:
        carried: The piece, without what of it is lost.

        is_free: Whether it may be missing, or be there in another form.

        is_moved: Whether it may stand elsewhere.
    """

    carried: Carried
    is_free: bool
    is_moved: bool


# How `lost` calls the whole of a thing.
WHOLE = {"content", "message", "parts", "unknown"}


def kept_of(carried: Iterable[Carried], lost: Iterable[Lost]) -> list[Kept]:
    """What has to arrive of what was *carried* where that is *lost*."""
    listed: dict[str, set[str]] = {}
    beside: dict[str, set[str]] = {}
    for each in lost:
        # A key that only its provider knows is not content.
        own = each.why.startswith("is specific to") and each.what != "signature"
        # A content that is not a list is one text.
        path = each.path.replace(".content", ".parts[0]")
        (beside if own else listed).setdefault(path, set()).add(each.what)

    found: list[Kept] = []
    for one in carried:
        whats = listed.get(one.path, set())
        message = listed.get(one.path.partition(".")[0], set())
        kind = one.kind
        is_free = bool(whats & (WHOLE | {kind}) - {"name"})
        is_free |= kind == "unknown" and one.path in {*listed, *beside}
        is_free |= kind == "name" and "name" in whats
        is_free |= kind == "text" and "parts" in message
        about = {key: entry for key, entry in one.about.items() if key not in whats}
        is_free |= about.keys() == {"role"}
        found.append(
            Kept(Carried(one.path, kind, about), is_free, bool(message & MOVED))
        )

    return found


def missing(kept: Sequence[Kept], arrived: Iterable[Carried]) -> tuple[list[Any], ...]:
    """
    What of *kept* did not arrive, or not in its order; and what *arrived* without being
    in *kept*.
    """
    left = list(arrived)
    lacking: list[Kept] = []
    at = 0
    # What may stand elsewhere takes what the others leave.
    for one in sorted(kept, key=lambda one: one.is_moved):
        start = 0 if one.is_moved else at
        places = () if one.is_free else range(start, len(left))
        place = next((n for n in places if _is_in(one.carried, left[n])), None)
        if place is not None:
            del left[place]
            at = place
        elif not one.is_free:
            lacking.append(one)

    # Of one message with a name, two may have been made.
    free = [one.carried for one in kept if one.is_free or one.carried.kind == "name"]
    others = [one for one in left if not any(_is_part_of(one, each) for each in free)]
    return lacking, others


def _is_in(one: Carried, other: Carried) -> bool:
    return one.kind == other.kind and all(
        key in other.about and other.about[key] == value
        for key, value in one.about.items()
    )


def _is_part_of(one: Carried, whole: Carried) -> bool:
    """Whether *one* may be what *whole*, which has no place there, became."""
    values = [str(value) for key, value in one.about.items() if key != "role"]
    return any(
        str(value) in each or each in str(value)
        for key, value in whole.about.items()
        for each in values
        if key != "role"
    )
