"""
From a stream of Responses to chunks.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters._reading import (
    Place,
    Reading,
    is_map,
    mended,
)
from conversation_state.adapters._responses._output import Output
from conversation_state.adapters._responses._pieces import Pieces
from conversation_state.adapters._responses._response import (
    Told,
    failure_of,
    read_response,
)
from conversation_state.adapters._responses._words import (
    ADDRESS,
    NOISE,
    SOURCE,
)
from conversation_state.adapters._streaming import (
    achunks_of,
    add_to,
    chunks_of,
)
from conversation_state.errors import ProviderStreamError
from conversation_state.messages import AssistantMessage, ResponseMeta

__all__ = ["aload_chunks", "load_chunks"]


def load_chunks(events: Iterable[Any]) -> Iterator[AssistantMessage]:
    """
    The chunks that the *events* of a stream bring, as they come; `concat` them.

    Together they say what `load` says of the whole response. Lazy: an event is
    read when its chunk is asked for.

    Text, thoughts, refusals and the arguments of calls are given as they come;
    items of other kinds when they are done. A message or a thought is given to
    its end before anything behind it. What an item's end says again is given
    once; what only the end says is given then, and so is what only the whole
    response at the end of the stream says.

    The last chunk has what was told of the response: the reason to finish, the
    usage, the model, and notes. A stream without an end (``completed``,
    ``incomplete``, ``failed``) ends with ``interrupted``, also if *events*
    raise, or if this function does. *events* are not closed.

    Args:
        events: The data of the server-sent events, as plain JSON values.

    Raises:
        ProviderStreamError:
            If an event says that the provider failed, after all before it
            was given.

        DecodeError:
            If an event is not what the format has, with all that is wrong
            with it, after what could be read was given.

    Source:
        What a thought is signed with differs between the beginning and the
        end of its item; the end's is the one to keep. Of lists of tools that
        were asked for together, some are never done, and stand only in the
        whole response. Some servers give an item another id in each event.

    >>> from conversation_state.chunks import concat
    >>> kind = "response.output_text.delta"
    >>> events = [{"type": kind, "delta": piece} for piece in ("Hel", "lo")]
    >>> concat(load_chunks(events)).text
    'Hello'
    """
    return chunks_of(_Stream(), events)


def aload_chunks(events: AsyncIterable[Any]) -> AsyncIterator[AssistantMessage]:
    """
    What `load_chunks` gives, of events that are waited for.
    """
    return achunks_of(_Stream(), events)


_ENDS = frozenset({"cancelled", "completed", "failed", "incomplete"})

# What events say in words of ours, and those at the end again.
_KNOWN = ADDRESS | {
    "annotation",
    "annotation_index",
    "content_index",
    "delta",
    "item",
    "logprobs",
    "part",
    "response",
    "summary_index",
}
_WHOLE = _KNOWN | {"arguments", "input", "name", "refusal", "text"}


class _Stream:
    """
    One stream while it is read.
    """

    def __init__(self) -> None:
        self._count = 0
        self._output = Output()
        self._told = Told("", None, "", {})
        self._reason = ""
        self._events: dict[str, dict[str, Any]] = {}
        self._deltas: dict[str, list[str]] = {}
        self._pieces = Pieces(self._output)

    def quick(self, event: Any) -> AssistantMessage | None:
        """
        The chunk of an event that brings one more piece and says nothing else.
        """
        chunk = self._pieces.quick(event)
        if chunk is not None:
            self._count += 1

        return chunk

    def read(self, event: Any) -> Iterator[AssistantMessage]:
        """
        The chunks that *event* brings.
        """
        read = self._output.places.reading = Reading()
        path = f"$[{self._count}]"
        self._count += 1
        self._pieces.forget()
        if not is_map(event):
            read.wrong(path, event, "an event of a stream, as a plain JSON object")
            read.finish()

        # What could be read is given, whatever else is wrong.
        yield from self._read(Place(read, event, path))
        read.finish()
        error = _error_in(event)
        if error is not None:
            said = mended(failure_of(error)) or "it did not say why"
            raise ProviderStreamError(said, event)

    def _read(self, event: Place) -> list[AssistantMessage]:
        kind = event.raw.get("type")
        if not isinstance(kind, str):
            if not event.raw.get("error"):
                event.wrong("type", "the type of an event")

            return []

        tell = self._pieces.teller(kind)
        if tell is None and is_map(event.raw.get("response")):
            tell = partial(self._tell_response, verb=kind.rpartition(".")[2])

        if tell is None:
            self._keep_event(event, kind)
            return []

        self._keep(event, kind, _WHOLE if kind.endswith(".done") else _KNOWN)
        return tell(event)

    # What else is told

    def _keep_event(self, event: Place, kind: str) -> None:
        """
        Keep an event that there is no word of ours for, if it says anything.
        """
        if event.raw.keys() <= ADDRESS or kind == "error":
            return

        item = self._output.find(event)
        whole = item is not None and not item.is_piecemeal
        if item is not None and whole and kind.startswith(f"response.{item.type}"):
            item.tell(kind, event)
            return

        piece = event.raw.get("delta")
        if isinstance(piece, str):
            self._deltas.setdefault(kind, []).append(piece)
            self._keep(event, kind, NOISE | {"delta"})
        else:
            self._keep(event, kind, NOISE)

    def _keep(self, event: Place, kind: str, known: frozenset[str]) -> None:
        if not event.raw.keys() <= known:
            told = event.reading.rest(event.raw, known, event.path)
            add_to(self._events.setdefault(mended(kind), {}), told)

    def _tell_response(self, event: Place, verb: str) -> list[AssistantMessage]:
        raw = event.raw["response"]
        place = Place(event.reading, raw, f"{event.path}.response")
        problems = event.reading.count
        told = read_response(place)
        if event.reading.count == problems:
            self._told = told

        name = raw.get("id")
        if isinstance(name, str) and name:
            self._output.places.prefix = mended(name)

        status = raw.get("status")
        if verb not in _ENDS and not (isinstance(status, str) and status in _ENDS):
            return []

        self._reason = self._told.finish_reason or verb
        return self._output.complete(place)

    def end(self, *, broken: bool) -> Iterator[AssistantMessage]:
        """
        What is told at the end, and what was not done before.
        """
        places = self._output.places
        places.reading = Reading()
        yield from self._output.end()
        for kind, pieces in self._deltas.items():
            told = self._events.setdefault(mended(kind), {})
            told["delta"] = mended("".join(pieces))

        notes: dict[str, Any] = {
            name: noted
            for name, noted in (
                ("response", self._told.notes),
                ("events", self._events),
                ("mended", list(places.mended)),
                ("silent", not self._output),
            )
            if noted
        }
        metadata: Any = {SOURCE: notes} if notes else EMPTY_MAP
        reason = self._reason or ("interrupted" if broken else "")
        meta = ResponseMeta(reason, self._told.usage, None, self._told.model)
        yield AssistantMessage(response=meta, metadata=metadata)


def _error_in(event: Mapping[str, Any]) -> Any:
    """
    What *event* says of the provider's failure; None if it says nothing.
    """
    kind, error = event.get("type"), event.get("error")
    if kind == "error":
        return error or event

    if not isinstance(kind, str):
        return error or None

    response = event.get("response")
    if kind == "response.failed":
        return (is_map(response) and response.get("error")) or event

    return None
