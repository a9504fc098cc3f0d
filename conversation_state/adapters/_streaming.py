"""
Reading streams of events.

What lives here: what all adapters share when they load chunks: how a stream
ends, and text that is cut in the middle of a character. What does not: what
any provider means by an event.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from operator import itemgetter
from typing import Any, Protocol

from conversation_state.adapters._reading import ObjectReader, is_list, is_map, mended
from conversation_state.messages import AssistantMessage

__all__ = [
    "ALONE",
    "ChangeFilter",
    "EventReader",
    "EventTemplate",
    "IndexedLists",
    "SurrogateBuffer",
    "achunks_of",
    "add_to",
    "checked_choice",
    "chunks_of",
]


class EventReader(Protocol):
    """
    **Protocol:** one stream while it is read.
    """

    def quick(self, event: Any) -> AssistantMessage | None:
        """
        The chunk that *event* brings if it is one of the usual ones, which
        bring nothing but the next piece; else None, and `read` reads it.
        """
        ...

    def read(self, event: Any) -> Iterable[AssistantMessage]:
        """
        The chunks that *event*, the next one, brings.
        """
        ...

    def end(self, *, broken: bool) -> Iterable[AssistantMessage]:
        """
        The last chunks; *broken* says whether the stream was interrupted.
        """
        ...


# How OpenAI and its dialects end a stream; no JSON, but not all parsers know.
_DONE = "[DONE]"
_NOTHING = object()

# What is wrong with an event that an SDK derives from another one, alone.
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
    quick, read = streaming.quick, streaming.read
    try:
        for event in events:
            if isinstance(event, str) and event == _DONE:
                ended = True
                break

            chunk = quick(event)
            if chunk is not None:
                yield chunk
            else:
                yield from read(event)
    except Exception as error:  # noqa: BLE001 - it is raised below
        failure = error

    yield from streaming.end(broken=not ended)
    if failure is not None:
        raise failure


async def achunks_of(
    streaming: EventReader, events: AsyncIterable[Any]
) -> AsyncIterator[AssistantMessage]:
    """
    The same, of events that are waited for.
    """
    failure: Exception | None = None
    ended = False
    try:
        async for event in events:
            if isinstance(event, str) and event == _DONE:
                ended = True
                break

            quick = streaming.quick(event)
            if quick is not None:
                yield quick
            else:
                for chunk in streaming.read(event):
                    yield chunk
    except Exception as error:  # noqa: BLE001 - it is raised below
        failure = error

    for chunk in streaming.end(broken=not ended):
        yield chunk

    if failure is not None:
        raise failure


def checked_choice(choice: int) -> int:
    """
    *choice*, the number of one of several answers.

    Raises:
        ValueError:
            If it is invalid.
    """
    if choice.__class__ is not int or choice < 0:
        msg = f"choice is {choice!r}; expected the index of a response, 0 or higher"
        raise ValueError(msg)

    return choice


class SurrogateBuffer:
    """
    A text that comes in pieces, which may be cut in the middle of a pair of
    surrogates: the first half is held back until the second one comes.

    Attributes:
        is_harmed: Whether half of a pair was alone, and is U+FFFD now.
    """

    __slots__ = ("_held", "is_harmed")

    def __init__(self) -> None:
        self._held = ""
        self.is_harmed = False

    def next(self, piece: str) -> str:
        """
        *piece* as valid Unicode, but for what has to wait.
        """
        if not self._held and piece.isascii():
            return piece

        text = self._held + piece
        self._held = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        return self._repair_text(text[:-1] if self._held else text)

    def _repair_text(self, text: str) -> str:
        whole = mended(text)
        if whole.count("\ufffd") > text.count("\ufffd"):
            self.is_harmed = True

        return whole

    def whole(self, piece: str) -> str:
        """
        *piece* if it is valid as it is, and nothing waits for it; else "",
        and `next` takes it.
        """
        if self._held:
            return ""

        if not piece.isascii():
            try:
                piece.encode()
            except UnicodeEncodeError:
                return ""

        return piece

    def rest(self) -> str:
        """
        What still waits, as valid Unicode.
        """
        rest, self._held = self._repair_text(self._held), ""
        return rest


class EventTemplate:
    """
    The keys of an event around its piece, which are nearly always the same.

    Remembers one object that was read, and whether another one has the
    same, but for some keys.
    """

    __slots__ = ("_but", "_get", "_get_others", "_size", "_values")

    def __init__(self, *but: str) -> None:
        self._but = frozenset(but)
        self._size = -1
        self._get: Callable[[Any], Any] = bool
        self._get_others: Callable[[Any], Any] = bool
        self._values: Any = None

    def remember(self, raw: Mapping[str, Any]) -> None:
        """
        Remember *raw*, in which nothing was wrong.

        Not if there are objects in it: the next one may be the same object,
        and changed.
        """
        keys, others = raw.keys() - self._but, raw.keys() & self._but
        if any(is_map(raw[key]) or is_list(raw[key]) for key in keys):
            self.forget()
            return

        self._size = len(raw)
        self._get = itemgetter(*keys) if keys else bool
        self._get_others = itemgetter(*others) if others else bool
        self._values = self._get(raw)

    def forget(self) -> None:
        """
        Remember nothing: the next one has to be read.
        """
        self._size = -1

    def is_around(self, raw: Any) -> bool:
        """
        Whether *raw* is like the one remembered.

        Raises what asking it for keys raises, if it has others.
        """
        if len(raw) != self._size or self._get(raw) != self._values:
            return False

        # As many keys, and these: then there is no other one.
        self._get_others(raw)
        return True


class ChangeFilter:
    """
    Keys that our model has no field for: most of them are repeated
    with every event, and is new once. A list is more of a list, and always new.
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[Any, Any] = {}

    def of(
        self, place: ObjectReader, known: frozenset[str], kind: object
    ) -> dict[str, Any]:
        """
        All but the *known* keys of *place*, one of a *kind*, as far as they
        differ from their last values.
        """
        if place.raw.keys() <= known:
            return {}

        given = place.reading.rest(place.raw, known, place.path)
        news = {
            key: value
            for key, value in given.items()
            if value is not None and not self.is_none(key, value, kind)
        }
        for key, value in news.items():
            self._seen[kind, key] = value

        return news

    def is_none(self, key: str, value: object, kind: object) -> bool:
        """
        Whether *value* under *key*, of a *kind*, is its last value.
        """
        before = self._seen.get((kind, key), _NOTHING)
        return (
            before.__class__ is value.__class__
            and not isinstance(value, list)
            and bool(before == value)
        )

    def add(
        self,
        notes: dict[str, Any],
        place: ObjectReader,
        known: frozenset[str],
        kind: object,
    ) -> None:
        """
        Add the same to *notes*.
        """
        add_to(notes, self.of(place, known, kind))


class IndexedLists:
    """
    Lists whose items come in pieces, each with the index of the item it is of.

    Of what comes twice the last value stands, but for texts that come in
    pieces.
    """

    __slots__ = ("_at", "_lists", "_pieces")

    def __init__(self) -> None:
        self._lists: dict[str, list[Any]] = {}
        self._at: dict[tuple[str, int], dict[str, Any]] = {}
        self._pieces: list[tuple[dict[str, Any], str, list[str]]] = []

    def add(self, key: str, pieces: Sequence[Any], texts: frozenset[str]) -> None:
        """
        Add *pieces* of items of the list under *key*, plain JSON. What is under
        *texts* comes in pieces itself.
        """
        items = self._lists.setdefault(key, [])
        for piece in pieces:
            at: Any = piece.get("index") if is_map(piece) else None
            if at.__class__ is not int:
                items.append(piece)
            elif (key, at) in self._at:
                self._add_to_item(self._at[key, at], piece, texts)
            else:
                item = self._at[key, at] = {}
                items.append(item)
                self._add_to_item(item, piece, texts)

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
        The lists, as far as they came.
        """
        for item, key, pieces in self._pieces:
            item[key] = "".join(pieces)

        self._pieces = []
        return self._lists


def add_to(notes: dict[str, Any], news: Mapping[str, Any]) -> None:
    """
    Add *news* to *notes*: maps are merged and lists go on; of all else the last
    word stands.
    """
    for key, value in news.items():
        before = notes.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            before.update(value)
        elif isinstance(before, list) and isinstance(value, list):
            before.extend(value)
        else:
            notes[key] = value.copy() if isinstance(value, (dict, list)) else value
