"""
From a stream of Responses to chunks.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from conversation_state.adapters._notes import with_notes, without_empty
from conversation_state.adapters._reading import (
    DocumentReader,
    ObjectReader,
    describe_failure,
    is_map,
    mended,
)
from conversation_state.adapters._responses._blocks import ADDRESS, NOISE, SOURCE
from conversation_state.adapters._responses._response import ResponseInfo, read_response
from conversation_state.adapters._responses._stream_deltas import DeltaReader
from conversation_state.adapters._responses._stream_order import OutputOrder
from conversation_state.adapters._streaming import (
    PieceTemplate,
    achunks_of,
    add_to,
    check_event,
    chunks_of,
)
from conversation_state.errors import ProviderStreamError
from conversation_state.messages import AssistantMessage, ResponseMeta

__all__ = ["aload_chunks", "load_chunks"]


def load_chunks(events: Iterable[Any]) -> Iterator[AssistantMessage]:
    """
    The chunks that the *events* of a stream bring, as they come; `concat` them.

    Together they hold what `load` returns for the whole response. Lazy: an event is
    read when its chunk is asked for.

    Text, thoughts, refusals and the arguments of calls are given as they come;
    items of other kinds when they are done. A message is given completely before
    anything behind it. Content that an item's end repeats is given once. Content
    that only an item's end has is given then, and so is content that only the
    whole response at the end of the stream has.

    The end of a thought, with its signature, may come after pieces of the output
    that follows it (OpenRouter). Then it is a part of its own without text, with
    the *index* of the thought; ``concat(chunks, regroup_by_index=True)`` joins
    both. `dump` sends one item either way.

    The last chunk has the metadata of the response: the reason to finish, the
    usage, the model, and notes. A stream without an end (``completed``,
    ``incomplete``, ``failed``) ends with ``interrupted``, also if *events*
    raise, or if this function does. *events* are not closed.

    Args:
        events: The data of the server-sent events, as plain JSON values, or the
            events of the SDK's ``client.responses.stream()``, each with
            ``.to_dict(mode="json")``: data that it derives is not read again.

    Raises:
        ProviderStreamError:
            If an event reports that the provider failed, after all chunks before
            it.

        DecodeError:
            If an event is invalid in the format, with every problem in it, after
            all chunks that could be read.

    Source:
        The signature of a thought differs between the beginning and the end of
        its item; the one at the end has to be kept. If several lists of tools are
        requested together, some of these items have no end, and are in the whole
        response only. Some servers give an item another id in each event.

    >>> from conversation_state.chunks import concat
    >>> kind = "response.output_text.delta"
    >>> events = [{"type": kind, "delta": piece} for piece in ("Hel", "lo")]
    >>> concat(load_chunks(events)).text
    'Hello'
    """
    return chunks_of(ResponsesStream(), events)


def aload_chunks(events: AsyncIterable[Any]) -> AsyncIterator[AssistantMessage]:
    """
    The async twin of `load_chunks`, for events that are awaited.
    """
    return achunks_of(ResponsesStream(), events)


_ENDS = frozenset({"cancelled", "completed", "failed", "incomplete"})

# The keys of events that are read; and with them the keys under which the last events
# of an item repeat its content.
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
    # OpenAI's SDK (`client.responses.stream`) adds all pieces so far under this key.
    "snapshot",
}
_WHOLE = _KNOWN | {"arguments", "input", "name", "parsed", "refusal", "text"}


class ResponsesStream:
    def __init__(self) -> None:
        self.template = PieceTemplate()
        self._output = OutputOrder()
        self._info = ResponseInfo("", None, "", "", {})
        self._reason = ""
        self._events: dict[str, dict[str, Any]] = {}
        self._deltas: dict[str, list[str]] = {}
        self._pieces = DeltaReader(self._output, self.template)

    def read(self, event: Any, path: str) -> Iterator[AssistantMessage]:
        read = self._output.places.reading = DocumentReader()
        self.template.forget()
        check_event(read, event, path)
        # The chunks that could be read come before the error.
        yield from self._read_event(ObjectReader(read, event, path))
        read.finish()
        error = _error_in(event)
        if error is not None:
            raise ProviderStreamError(describe_failure(error), event)

    def _read_event(self, event: ObjectReader) -> list[AssistantMessage]:
        kind = event.raw.get("type")
        if not isinstance(kind, str):
            if not event.raw.get("error"):
                event.wrong("type", "the type of an event")

            return []

        handle = self._pieces.find_handler(kind)
        if handle is None and is_map(event.raw.get("response")):
            handle = partial(self._read_response_event, verb=kind.rpartition(".")[2])

        if handle is None:
            self._keep_event(event, kind)
            return []

        self._keep_rest(event, kind, _WHOLE if kind.endswith(".done") else _KNOWN)
        return handle(event)

    def _keep_event(self, event: ObjectReader, kind: str) -> None:
        """
        Keep an event of an unknown type, unless it is empty.
        """
        if event.raw.keys() <= ADDRESS or kind == "error":
            return

        item = self._output.find(event)
        whole = item is not None and not item.is_piecemeal
        if item is not None and whole and kind.startswith(f"response.{item.type}"):
            item.keep_event(kind, event)
            return

        # Pieces of an unknown type are probably those of one text, so they are joined.
        piece = event.raw.get("delta")
        if isinstance(piece, str):
            self._deltas.setdefault(kind, []).append(piece)
            self._keep_rest(event, kind, NOISE | {"delta"})
        else:
            self._keep_rest(event, kind, NOISE)

    def _keep_rest(self, event: ObjectReader, kind: str, known: frozenset[str]) -> None:
        if not event.raw.keys() <= known:
            info = event.reading.rest(event.raw, known, event.path)
            add_to(self._events.setdefault(mended(kind), {}), info)

    def _read_response_event(
        self, event: ObjectReader, verb: str
    ) -> list[AssistantMessage]:
        raw = event.raw["response"]
        node = ObjectReader(event.reading, raw, f"{event.path}.response")
        problems = event.reading.count
        info = read_response(node)
        # If something is invalid, such as a count, the metadata of an earlier event
        # stays.
        if event.reading.count == problems:
            self._info = info

        name = raw.get("id")
        if isinstance(name, str) and name:
            self._output.places.prefix = mended(name)

        status = raw.get("status")
        if verb not in _ENDS and not (isinstance(status, str) and status in _ENDS):
            return []

        self._reason = self._info.finish_reason or verb
        return self._output.complete(node)

    def end(self, *, broken: bool) -> Iterator[AssistantMessage]:
        """
        The last chunks: metadata, and items that were not done.
        """
        places = self._output.places
        places.reading = DocumentReader()
        yield from self._output.end()
        for kind, pieces in self._deltas.items():
            info = self._events.setdefault(mended(kind), {})
            info["delta"] = mended("".join(pieces))

        _, usage, model, response_id, about = self._info
        notes = {
            "response": about,
            "events": self._events,
            "mended": list(places.mended),
            "silent": not self._output,
        }
        metadata = with_notes(SOURCE, without_empty(notes))
        reason = self._reason or ("interrupted" if broken else "")
        meta = ResponseMeta(reason, usage, None, model, response_id)
        yield AssistantMessage(response=meta, metadata=metadata)


def _error_in(event: Mapping[str, Any]) -> Any:
    kind, error = event.get("type"), event.get("error")
    if kind == "error":
        return error or event

    # An error that a proxy sends has no type.
    if not isinstance(kind, str):
        return error or None

    response = event.get("response")
    if kind == "response.failed":
        return (is_map(response) and response.get("error")) or event

    return None
