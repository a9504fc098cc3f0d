"""
What every adapter gives back, and where it keeps a provider's own words.

What our model has no word for is kept in the `metadata` of the message, part
or call it stood in, under the provider's name, as a map of *notes*:

keys
    Keys of the original whose values no field of ours holds: a provider's own
    ones, and known ones that say nothing (null, "", an empty list). Written
    back to this provider; what the value itself says by now goes first.

anything else
    How the original differed from what the adapter would write. Says nothing
    that another provider should hear. Each adapter documents its own.

What lives here: `Export` and `Lost`, and what all adapters share when they
write. What does not: what they share when they load (`_reading`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeGuard

import attrs

from conversation_state._persistent import EMPTY_MAP, thaw
from conversation_state.messages import Message
from conversation_state.parts import Part
from conversation_state.tools import ToolCall

__all__ = [
    "Export",
    "Lost",
    "Writing",
    "in_order",
    "list_of",
    "map_of",
    "notes_of",
    "signer_of",
    "written_over",
]

# Whose notes are told from a caller's own metadata: the adapters' names.
PROVIDERS = (
    "anthropic",
    "bubo",
    "eino",
    "gemini",
    "langchain",
    "openai_chat",
    "openai_responses",
    "pydantic_ai",
    "transcripts",
)


class Lost(NamedTuple):
    """
    Something that was said and that a provider's format can't say.

    Attributes:
        path: Where it is in what was given, as in ``messages[3].parts[1]``.

        what: The kind of part, or the name of the field or key.

        why: A sentence for people.
    """

    path: str
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}: {self.why}"


@attrs.frozen
class Export:
    """
    A conversation in a provider's own format.

    Attributes:
        payload: The part of the provider's request that carries the
            conversation: plain JSON values, the caller's to change. Of a host
            the list of its messages.

        lost: What it does not say, in the order it was said; () if it says
            everything.
    """

    payload: Any
    lost: tuple[Lost, ...] = ()


def notes_of(metadata: Mapping[str, Any], provider: str) -> Mapping[str, Any]:
    """
    What the adapter of *provider* noted in *metadata*; often nothing.
    """
    # Metadata is anybody's to write, so what is no map is no note of ours.
    return map_of(metadata, provider)


def _is_map(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _is_tuple(value: Any) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)


def map_of(notes: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """
    The map that *notes* have under *name*; an empty one if it is none.
    """
    # Most have none at all, and to look anything up in a PMap takes a while.
    found: Any = notes.get(name) if notes is not EMPTY_MAP else notes
    return found if _is_map(found) else EMPTY_MAP


def list_of(notes: Mapping[str, Any], name: str) -> tuple[Any, ...]:
    """
    The list that *notes* have under *name*; an empty one if it is none.
    """
    found: Any = notes.get(name) if notes is not EMPTY_MAP else ()
    return found if _is_tuple(found) else ()


def says_nothing(value: Any) -> bool:
    """
    Whether *value* is one of JSON's many ways to leave something out.
    """
    return value is None or (
        isinstance(value, (str, list, tuple, Mapping)) and not value
    )


def written_over(keys: Mapping[str, Any], raw: dict[str, Any]) -> dict[str, Any]:
    """
    *raw* with the *keys* that were kept beside it.

    What is said now goes before what was kept; only what says nothing yields.
    """
    if keys is EMPTY_MAP:
        return raw

    for key in sorted(keys):
        if key not in raw or says_nothing(raw[key]):
            raw[key] = thaw(keys[key])
        elif isinstance(raw[key], dict):
            written_over(map_of(keys, key), raw[key])

    return raw


def in_order(
    parts: tuple[Part, ...], calls: tuple[ToolCall, ...], path: str
) -> Iterator[tuple[str, Part | ToolCall]]:
    """
    *parts* and *calls* of the message at *path*, and where they are: both in
    their own order, and a call before the parts that came after it.
    """
    todo = [(call, f"{path}.tool_calls[{at}]") for at, call in enumerate(calls)]
    todo.reverse()
    for at, part in enumerate(parts):
        while todo and _is_before(todo[-1][0], part):
            call, here = todo.pop()
            yield here, call

        yield f"{path}.parts[{at}]", part

    for call, here in reversed(todo):
        yield here, call


def _is_before(call: ToolCall, part: Part) -> bool:
    return call.index is not None and part.index is not None and call.index < part.index


class Writing:
    """
    One payload while it is written. Never leaves the function that writes it.

    Attributes:
        provider: Whose notes are read; the others' are lost.

        lost: What could not be said so far.
    """

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self.lost: list[Lost] = []

    def lose(self, path: str, what: str, why: str) -> None:
        """
        List that *what*, at *path*, can't be said.
        """
        self.lost.append(Lost(path, what, why))

    def export(self, payload: dict[str, Any]) -> Export:
        """
        The *payload* that was written, and what is lost in the order it was
        said in.
        """
        return Export(payload, tuple(sorted(self.lost, key=_number)))

    def notes(self, value: Message | Part | ToolCall, path: str) -> Mapping[str, Any]:
        """
        The notes on *value*. What else stands beside its fields is lost:
        fields of a newer version, and words of other providers.
        """
        metadata, unknown = value.metadata, value.unknown
        if metadata is EMPTY_MAP and unknown is EMPTY_MAP:
            return EMPTY_MAP

        for name in sorted(unknown):
            self.lose(path, name, NEWER)

        # Most have one note, their own, and each question takes a while.
        alone = len(metadata) == 1 and self.provider in metadata
        for other in () if alone else PROVIDERS:
            if other != self.provider and other in metadata:
                keys = map_of(notes_of(metadata, other), "keys")
                for key in sorted(keys):
                    if not says_nothing(keys[key]):
                        self.lose(path, key, whose(other))

        return notes_of(metadata, self.provider)

    def notes_on(self, message: Message, path: str) -> Mapping[str, Any]:
        """
        The notes on *message*; what was mended in it is lost.
        """
        notes = self.notes(message, path)
        for where in list_of(notes, "mended"):
            why = "held half of a surrogate pair, in whose place U+FFFD is sent"
            self.lose(path, str(where), why)

        return notes

    def unknown(self, raw: Mapping[str, Any], source: str, path: str, key: str) -> Any:
        """
        *raw*, an unknown part or message, as it was said to its *source*; None
        if that is somebody else. *key* is where it says what it is.
        """
        if source == self.provider:
            return thaw(raw)

        what = raw.get(key)
        kind = what if isinstance(what, str) and what else "unknown"
        self.lose(path, kind, whose(source))
        return None


def _number(lost: Lost) -> int:
    return int(lost.path[len("messages[") : lost.path.index("]")])


def signer_of(metadata: Mapping[str, Any], provider: str) -> str:
    """
    Who signed what has this *metadata*, if that is not *provider*: "" if it is,
    or if nobody's notes say who; then it was made by hand, for whom it suits.
    """
    if provider in metadata:
        return ""

    return next((name for name in PROVIDERS if name in metadata), "")


NEWER = "a newer version of this library wrote it"


def whose(source: str) -> str:
    """
    Why what is *source*'s own can't be said to another.
    """
    return f"is {source}'s own, and nobody else's word" if source else NEWER
