"""
Reading streams of events.

What lives here: what all adapters share when they load chunks: how a stream
ends, and text that is cut in the middle of a character. What does not: what
any provider means by an event, and the quick path (`_stream_pieces`).
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, Protocol, TypeGuard

from conversation_state._wording import shorten_repr
from conversation_state.adapters._reading import DocumentReader, ObjectReader, is_map
from conversation_state.adapters._stream_pieces import PieceTemplate
from conversation_state.messages import AssistantMessage

__all__ = [
    "ALONE",
    "ChangeFilter",
    "EventReader",
    "IndexedLists",
    "achunks_of",
    "add_to",
    "check_event",
    "checked_choice",
    "chunks_of",
]


class EventReader(Protocol):
    """
    **Protocol:** one stream while it is read.

    Attributes:
        template: The event that is expected next.
    """

    template: PieceTemplate

    def read(self, event: Any, path: str) -> Iterable[AssistantMessage]:
        """
        The chunks that *event*, at *path* in the stream, brings.
        """
        ...

    def end(self, *, broken: bool) -> Iterable[AssistantMessage]:
        """
        The last chunks; *broken* says whether the stream was interrupted.
        """
        ...


# OpenAI and its dialects end a stream with this text. It is not JSON, and some parsers
# of server-sent events pass it on as an event.
_DONE = "[DONE]"
_NOTHING = object()

# The problem with an event that an SDK derives from another one, which is missing.
ALONE = (
    "is derived from another event, which is missing; expected all events of the stream"
)


def chunks_of(
    streaming: EventReader, events: Iterable[Any]
) -> Iterator[AssistantMessage]:
    """
    The chunks of *events*, as they come.

    Whatever goes wrong, in the source as in an event, is raised after the
    chunks before it, and after a last one marked as interrupted.
    """
    failure: Exception | None = None
    ended = False
    take, read = streaming.template.take, streaming.read
    # Only `Exception` is caught: an interrupt and GeneratorExit pass at once, because
    # a generator that is being closed may not yield.
    try:
        for number, event in enumerate(events):
            chunk = take(event)
            if chunk is not None:
                yield chunk
            elif isinstance(event, str) and event == _DONE:
                ended = True
                break
            else:
                yield from read(event, f"$[{number}]")
    except Exception as error:  # noqa: BLE001 - any of the source's: raised below
        failure = error

    yield from streaming.end(broken=not ended)
    if failure is not None:
        raise failure


async def achunks_of(
    streaming: EventReader, events: AsyncIterable[Any]
) -> AsyncIterator[AssistantMessage]:
    """
    As `chunks_of`, for events that are awaited.
    """
    failure: Exception | None = None
    ended = False
    take, number = streaming.template.take, -1
    try:
        async for event in events:
            number += 1
            quick = take(event)
            if quick is not None:
                yield quick
            elif isinstance(event, str) and event == _DONE:
                ended = True
                break
            else:
                for chunk in streaming.read(event, f"$[{number}]"):
                    yield chunk
    except Exception as error:  # noqa: BLE001 - any of the source's: raised below
        failure = error

    for chunk in streaming.end(broken=not ended):
        yield chunk

    if failure is not None:
        raise failure


def check_event(read: DocumentReader, event: Any, path: str) -> None:
    """
    Raises:
        DecodeError:
            If *event* is not an object.
    """
    if not is_map(event):
        read.wrong(path, event, "an event of a stream, as a plain JSON object")
        read.finish()


def checked_choice(choice: int) -> int:
    """
    *choice*, the number of one of several answers.

    Raises:
        ValueError:
            If it is invalid.
    """
    if choice.__class__ is not int or choice < 0:
        msg = (
            f"choice is {shorten_repr(choice)}; expected the index of a response, 0 or "
            "higher"
        )
        raise ValueError(msg)

    return choice


class ChangeFilter:
    """
    Filters the keys that our model has no field for. Most of them are repeated with
    every event, and are new only once. A list continues the one in the event before,
    so it is always new.
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[Any, Any] = {}

    def of(
        self, node: ObjectReader, known: frozenset[str], kind: object
    ) -> dict[str, Any]:
        """
        All but the *known* keys of *node*, one of a *kind*, as far as they
        differ from their last values.
        """
        if node.raw.keys() <= known:
            return {}

        given = node.reading.rest(node.raw, known, node.path)
        news = {
            key: value
            for key, value in given.items()
            if value is not None and not self.is_unchanged(key, value, kind)
        }
        for key, value in news.items():
            self._seen[kind, key] = value

        return news

    def is_unchanged(self, key: str, value: object, kind: object) -> bool:
        """
        Whether *value* is the last value under *key* of a *kind*, so that it is not
        a change.
        """
        before = self._seen.get((kind, key), _NOTHING)
        # The classes are compared, too: 1, 1.0 and True are equal in Python but not
        # in JSON.
        return (
            before.__class__ is value.__class__
            and not isinstance(value, list)
            and bool(before == value)
        )

    def add(
        self,
        notes: dict[str, Any],
        node: ObjectReader,
        known: frozenset[str],
        kind: object,
    ) -> None:
        add_to(notes, self.of(node, known, kind))


class IndexedLists:
    """
    Lists whose items come in pieces, most with the index of the item they are of.

    If a key comes twice, its last value stands, unless it is a text that comes in
    pieces. A piece with another type or id belongs to another item, even if the
    index is the same (OpenRouter). Without an index (LiteLLM), a text continues
    until it is signed.
    """

    __slots__ = ("_at", "_lists", "_pieces")

    def __init__(self) -> None:
        self._lists: dict[str, list[Any]] = {}
        self._at: dict[tuple[str, int], dict[str, Any]] = {}
        # `rest` joins the pieces: appending each to a text would copy the text.
        self._pieces: list[tuple[dict[str, Any], str, list[str]]] = []

    def add(self, key: str, pieces: Sequence[Any], texts: frozenset[str]) -> None:
        """
        Add *pieces* of items of the list under *key*, plain JSON. The values of the
        keys *texts* come in pieces themselves.
        """
        items = self._lists.setdefault(key, [])
        for piece in pieces:
            if not is_map(piece):
                items.append(piece)
                continue

            at: Any = piece.get("index")
            has_index = at.__class__ is int
            item = (
                self._at.get((key, at)) if has_index else _find_unsigned(items, texts)
            )
            if not _is_more_of(item, piece):
                item = {}
                items.append(item)

            if has_index:
                self._at[key, at] = item
            elif piece.get("signature"):
                # Some providers repeat the whole text in the last piece, with its
                # signature.
                self._forget_repeated(item, piece, texts)

            self._add_to_item(item, piece, texts)

    def _forget_repeated(
        self, item: dict[str, Any], piece: Mapping[str, Any], texts: frozenset[str]
    ) -> None:
        for key in texts & item.keys() & piece.keys():
            if isinstance(item[key], list) and "".join(item[key]) == piece[key]:
                item[key].clear()

    def _add_to_item(
        self, item: dict[str, Any], piece: Mapping[str, Any], texts: frozenset[str]
    ) -> None:
        for key, value in piece.items():
            if key in texts and isinstance(value, str):
                if not isinstance(item.get(key), list):
                    item[key] = []
                    self._pieces.append((item, key, item[key]))

                item[key].append(value)
            elif value is not None or key not in item:
                item[key] = value

    def rest(self) -> dict[str, Any]:
        """
        The lists, as far as they were received.
        """
        for item, key, pieces in self._pieces:
            item[key] = "".join(pieces)

        self._pieces = []
        return self._lists


def _find_unsigned(
    items: Sequence[Any], texts: frozenset[str]
) -> dict[str, Any] | None:
    """
    The last of *items*, if it has one of the keys *texts* and no signature yet.
    """
    last = items[-1] if items else None
    if not isinstance(last, dict) or texts.isdisjoint(last) or last.get("signature"):
        return None

    return last


def _is_more_of(
    item: dict[str, Any] | None, piece: Mapping[str, Any]
) -> TypeGuard[dict[str, Any]]:
    """
    Whether *piece* can belong to *item*: neither their ids nor their types differ.
    """
    return item is not None and not any(
        None not in (item.get(key), piece.get(key)) and item[key] != piece[key]
        for key in ("id", "type")
    )


def add_to(notes: dict[str, Any], news: Mapping[str, Any]) -> None:
    """
    Add *news* to *notes*: maps are merged, lists are extended, and other values are
    replaced.
    """
    for key, value in news.items():
        before = notes.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            before.update(value)
        elif isinstance(before, list) and isinstance(value, list):
            before.extend(value)
        else:
            # Later news are added to this copy. *value* has to stay as it is, because
            # `ChangeFilter` compares the next one with it.
            notes[key] = value.copy() if isinstance(value, (dict, list)) else value
