"""Chunks of a run's events."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

from conversation_state.adapters.ag_ui._load import SOURCE, AgUiLoader
from conversation_state.adapters.engine.notes import with_notes, without_empty
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    describe_failure,
)
from conversation_state.adapters.engine.streaming import (
    SurrogateBuffer,
    achunks_of,
    check_event,
    chunks_of,
)
from conversation_state.errors import ProviderStreamError
from conversation_state.messages import AssistantMessage, Message, ResponseMeta
from conversation_state.parts import ReasoningPart, TextPart
from conversation_state.tools import ToolCall
from conversation_state.tree import name as name_message


def load_chunks(events: Iterable[Any]) -> Iterator[Message]:
    """
    The chunks that the *events* of a response bring, as they come, for `concat`.

    Of a run with results these come as whole messages between the chunks; those of
    the responses around them are of one message each. A result that comes while
    something is open waits for its end, and so does a text while another one is open.
    Events of states, steps and activities, and texts of other roles, are no part of it;
    of a run that streams nothing, a snapshot has the messages.
    A response that breaks off while something is open ends with the reason
    ``interrupted``.

    Raises:
        ProviderStreamError: If the run failed (``RUN_ERROR``).
        DecodeError: If an event is not what the format has.

    >>> from conversation_state.chunks import concat
    >>> event = {"messageId": "m", "role": "assistant"}
    >>> run = [
    ...     {"type": f"TEXT_MESSAGE_{kind}", "delta": "Hi", **event}
    ...     for kind in ("START", "CONTENT", "END")
    ... ]
    >>> concat(load_chunks(run)).text
    'Hi'
    """
    return chunks_of(_RunReader(), events, own=SOURCE)  # type: ignore[arg-type]  # and results


def aload_chunks(events: AsyncIterable[Any]) -> AsyncIterator[Message]:
    """What `load_chunks` gives, of events that are waited for."""
    return achunks_of(_RunReader(), events, own=SOURCE)  # type: ignore[arg-type]  # and results


_OTHERS = ("developer", "system", "user")
_CHUNKED = {"REASONING_MESSAGE": "r", "TEXT_MESSAGE": "t", "TOOL_CALL": "c"}


class _RunReader:
    """A run's events while they are read."""

    def __init__(self) -> None:
        self._reader = DocumentReader()
        # The place of each text, thought and call, in the order in which they began.
        self._places: dict[tuple[str, str], int] = {}
        self._texts: dict[tuple[str, str], SurrogateBuffer] = {}
        self._open: set[tuple[str, str]] = set()
        self._results: list[Message] = []  # that came while something was open
        # Texts that wait for the end of another one, with their chunks.
        self._held: dict[tuple[str, str], list[Message]] = {}
        self._is_told = False  # whether anything came
        self._snapshot: ObjectReader | None = None  # the last one
        self._others: set[str] = set()  # texts of others, a user's say
        self._thoughts = 0  # without an id
        self._named: set[str] = set()  # messages that an answer is
        self._last: dict[str, str] = {}  # what a chunk without an id goes on with
        self._tools: dict[str, str] = {}
        self._is_mended = False
        self._message_id = ""

    def read(self, event: Any, path: str) -> Iterator[Message]:
        check_event(self._reader, event, path)
        node = ObjectReader(self._reader, event, path)
        kind = node.text("type")
        if kind == "RUN_ERROR":
            raise ProviderStreamError(describe_failure(event), event)

        if kind[:22] == "THINKING_TEXT_MESSAGE_":  # as versions before 1.0 have it
            self._thoughts += kind.endswith("START")
            event = {**event, "messageId": f"thought {self._thoughts}"}
            node = ObjectReader(self._reader, event, path)
            kind = kind.replace("THINKING_TEXT", "REASONING")

        family, _, step = kind.rpartition("_")
        made: list[Message] = []
        if kind == "TOOL_CALL_RESULT":
            made = self._read_result(node)
        elif kind == "REASONING_ENCRYPTED_VALUE":
            made = self._read_signature(node)
        elif family in _CHUNKED:
            made = self._read_piece(node, _CHUNKED[family], step)
        elif kind == "MESSAGES_SNAPSHOT":
            self._snapshot = node
        elif (
            kind == "RUN_FINISHED" and self._snapshot is not None and not self._is_told
        ):
            made = self._read_snapshot(self._snapshot)

        self._is_told = self._is_told or bool(made)

        # What could be read is given, whatever else is wrong.
        yield from made
        self._is_mended = self._is_mended or bool(self._reader.mended)
        self._reader.finish()

    def _read_piece(self, node: ObjectReader, kind: str, step: str) -> list[Message]:
        field = "toolCallId" if kind == "c" else "messageId"
        is_chunk = step == "CHUNK"
        given = node.nullable(field) if is_chunk else node.text(field)
        given = given or (self._last.get(kind, "") if is_chunk else "")
        if not given or self._reader.count:
            if not self._reader.count:
                node.wrong(field, "an id")

            return []

        spot = kind, given
        self._last[kind] = given
        made: list[Message] = []
        if self._is_of_others(node, spot):
            return made

        if spot not in self._places:
            if step in {"CONTENT", "ARGS", "END"}:
                node.wrong(field, "the id of what was started")
                return []

            made = self._begin_piece(node, spot)

        if step in {"CONTENT", "ARGS"} or (is_chunk and node.raw.get("delta")):
            delta = node.raw.get("delta")
            if isinstance(delta, str):
                made += self._make_chunks(spot, self._texts[spot].next(delta))
            else:
                node.wrong("delta", "a text")
        elif step == "END":
            return self._end_piece(spot)
        elif step == "START":
            self._open.add(spot)

        return self._hold_chunks(spot, made)

    def _is_of_others(self, node: ObjectReader, spot: tuple[str, str]) -> bool:
        if spot[0] == "t" and node.raw.get("role") in _OTHERS:
            self._others.add(spot[1])

        return spot[0] == "t" and spot[1] in self._others

    def _end_piece(self, spot: tuple[str, str]) -> list[Message]:
        self._open.discard(spot)
        rest = self._make_chunks(spot, self._texts[spot].rest())
        made = [*self._hold_chunks(spot, rest), *self._release_chunks()]
        if self._results and not self._open:
            made += self._end_response(is_broken=False)

        return made

    def _hold_chunks(self, spot: tuple[str, str], made: list[Message]) -> list[Message]:
        """*made*, or nothing if these chunks wait for an earlier text to end."""
        if spot not in self._held:
            return made

        self._held[spot] += made
        return []

    def _release_chunks(self) -> list[Message]:
        """The chunks that wait for no text any more."""
        made: list[Message] = []
        while self._held and not any(
            each[0] == "t" and each not in self._held for each in self._open
        ):
            made += self._held.pop(next(iter(self._held)))

        return made

    def _begin_piece(self, node: ObjectReader, spot: tuple[str, str]) -> list[Message]:
        kind, given = spot
        index = self._places[spot] = len(self._places)
        self._texts[spot] = SurrogateBuffer()
        if kind == "t":
            self._message_id = self._message_id or given
            if any(each[0] == "t" for each in self._open):
                self._held[spot] = []

            name = node.nullable("name")
            return [AssistantMessage("", name=name)] if name else []

        if kind == "r":
            return [AssistantMessage([ReasoningPart("", index=index)])]

        tool, parent = node.text("toolCallName"), node.nullable("parentMessageId")
        self._message_id = self._message_id or parent
        self._tools[given] = tool
        return [AssistantMessage(tool_calls=[ToolCall(given, tool, "", index=index)])]

    def _make_chunks(self, spot: tuple[str, str], piece: str) -> list[Message]:
        if not piece:
            return []

        index = self._places[spot]
        if spot[0] == "c":
            return [AssistantMessage(tool_calls=[ToolCall("", "", piece, index=index)])]

        kind = TextPart if spot[0] == "t" else ReasoningPart
        return [AssistantMessage([kind(piece, index=index)])]

    def _read_signature(self, node: ObjectReader) -> list[Message]:
        entity, value = node.text("entityId"), node.text("encryptedValue")
        index = self._places.get(("r", entity))
        if index is None or not value or self._reader.count:
            return []

        return [AssistantMessage([ReasoningPart("", value, index=index)])]

    def _read_result(self, node: ObjectReader) -> list[Message]:
        # The event is the message, but for the name of its id.
        raw: dict[str, Any] = {"id": node.raw.get("messageId"), "role": "tool"}
        known = ("content", "metadata", "toolCallId")
        raw |= {key: node.raw[key] for key in known if key in node.raw}
        loader = AgUiLoader()
        loader.know_tools(self._tools)
        found = loader.history([raw], "$")
        for problem in loader.problems:
            self._reader.problem(node.path, f"holds {problem}")

        self._results += found
        return [] if self._open else self._end_response(is_broken=False)

    def _read_snapshot(self, node: ObjectReader) -> list[Message]:
        """What stands behind the user's last message, where nothing was streamed."""
        loader = AgUiLoader()
        found = loader.document(node.raw)
        for problem in loader.problems:
            self._reader.problem(node.path, f"holds {problem}")

        asked = [at for at, each in enumerate(found) if each.role == "user"]
        behind = found[asked[-1] + 1 :] if asked else found
        return [each for each in behind if each.role in ("assistant", "tool")]

    def _end_response(self, *, is_broken: bool) -> list[Message]:
        """The last chunk of a response, and forget what it had."""
        results, self._results = self._results, []
        if not self._places and not is_broken:
            return results

        made: list[Message] = []
        for spot, text in self._texts.items():
            self._open.discard(spot)
            made += self._hold_chunks(spot, self._make_chunks(spot, text.rest()))

        made += self._release_chunks()
        self._is_mended |= any(text.is_mended for text in self._texts.values())
        notes = without_empty({"event": {"mended": True} if self._is_mended else {}})
        reason = "interrupted" if is_broken else ""
        response = ResponseMeta(reason) if reason else None
        metadata: Mapping[str, Any] = with_notes(SOURCE, notes)
        last = AssistantMessage((), response=response, metadata=metadata)
        if self._message_id not in {"", *self._named}:  # it may go on behind a result
            self._named.add(self._message_id)
            last = name_message(last, self._message_id)

        self._places.clear()
        self._texts.clear()
        self._open.clear()
        self._last.clear()
        self._message_id, self._is_mended = "", False
        return [*made, last, *results]

    def end(self, *, broken: bool) -> Iterator[Message]:
        """The last chunk."""
        yield from self._end_response(is_broken=broken and bool(self._open))
