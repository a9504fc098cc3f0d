"""
What all formats share when a session is written: its nodes, the records they came from,
and what gets lost on the way.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

import attrs

from conversation_state._persistent import thaw
from conversation_state._wording import format_count
from conversation_state.adapters import anthropic
from conversation_state.adapters.engine.export import Lost, whose
from conversation_state.adapters.engine.notes import notes_of, signer_of
from conversation_state.adapters.engine.reading import is_map
from conversation_state.adapters.engine.wire import data_url, write_iso
from conversation_state.adapters.sessions._session import (
    COMPACTION,
    SOURCE,
    LoadedSession,
    read_lines,
    unfold,
)
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.parts import MediaPart, Part, ReasoningPart
from conversation_state.tools import ToolCall
from conversation_state.tree import Node
from conversation_state.usage import Usage

_NAMESPACE = uuid.UUID("5f6f2c0e-8d0b-5a52-a5a9-3a8f5a1f9a77")
_STEP = timedelta(milliseconds=1)
# Where a line without a number stands: behind all that have one.
LAST_PLACE = float("inf")
NO_RESULT = "No result: the call was not run, or its result was not kept."


@attrs.define(eq=False)
class SessionRecord:
    """
    The messages of one record: one, or those that a record of the format became.

    Attributes:
        nodes: Their nodes, one behind the other.
        paths: Where they stand in ``tree.nodes``.
        time: When it was said; the time before it, where that is unknown.
    """

    nodes: list[Node]
    paths: list[str]
    time: datetime

    @property
    def id(self) -> str:
        """The id of its first node."""
        return self.nodes[0].id

    @property
    def parent(self) -> str | None:
        """The id of the node before it."""
        return self.nodes[0].parent

    @property
    def messages(self) -> list[Message]:
        """What it says."""
        return [node.message for node in self.nodes]

    @property
    def notes(self) -> Mapping[str, Any]:
        """The notes of a session on its first message."""
        return notes_of(self.nodes[0].message.metadata, SOURCE)

    def pairs(self) -> Iterator[tuple[Message, str]]:
        """Each message, and its path."""
        return zip(self.messages, self.paths, strict=True)

    @property
    def iso(self) -> str:
        """Its time, as all agents write it."""
        return write_iso(self.time)

    @property
    def millis(self) -> int:
        """Its time in milliseconds since 1970."""
        return int(self.time.timestamp() * 1000)


class SessionWriter:
    """One session while it is written."""

    def __init__(self, loaded: LoadedSession, kind: str, cwd: str, title: str) -> None:
        self.loaded, self.kind = loaded, kind
        self.cwd, self.title = cwd or loaded.cwd, title or loaded.title
        self.lost: list[Lost] = []
        # What is written of its own format again is written as it was.
        self.is_same = loaded.format == kind
        self.live = self._find_live()
        self.records = self._group_records()
        # How many records have keys of another format.
        self.foreign: Counter[str] = Counter()
        # The calls so far, and those that have a result.
        self.calls: dict[str, ToolCall] = {}
        self.answered = {
            message.tool_call_id
            for record in self.records
            for message in record.messages
            if isinstance(message, ToolMessage)
        }

    def lose(self, path: str, what: str, why: str) -> None:
        """List something as lost."""
        self.lost.append(Lost(path, what, why))

    def _find_live(self) -> set[str]:
        tree = self.loaded.tree
        above = {node.id: node.parent for node in tree.nodes}
        live: set[str] = set()
        here = tree.head
        while here is not None:
            live.add(here)
            here = above[here]

        return live

    def _group_records(self) -> list[SessionRecord]:
        records: list[SessionRecord] = []
        owners: dict[str, SessionRecord] = {}
        time = self.loaded.created_at or datetime(1970, 1, 1, tzinfo=UTC)
        for number, node in enumerate(self.loaded.tree.nodes):
            path = f"nodes[{number}]"
            notes = notes_of(node.message.metadata, SOURCE)
            above = owners.get(node.parent) if node.parent is not None else None
            is_more = notes.get("more") is True and notes.get("format") == self.kind
            if above is not None and is_more and above.nodes[-1].id == node.parent:
                above.nodes.append(node)
                above.paths.append(path)
                owners[node.id] = above
                continue

            time = node.message.timestamp or time + _STEP
            record = SessionRecord([node], [path], time)
            records.append(record)
            owners[node.id] = record

        return records

    def is_live(self, record: SessionRecord) -> bool:
        """Whether *record* is on the way to the head."""
        return record.id in self.live

    def list_live(self) -> list[SessionRecord]:
        """The records of the live branch; the others are lost."""
        for record in self.records:
            if not self.is_live(record):
                for path in record.paths:
                    self.lose(path, "branch", f"{self.kind} has the live branch only")

        return [record for record in self.records if self.is_live(record)]

    def map_below(self) -> dict[str | None, list[SessionRecord]]:
        """The records behind each, by the id of that; None for first ones."""
        below: dict[str | None, list[SessionRecord]] = {}
        ends = {node.id: each for each in self.records for node in each.nodes}
        for record in self.records:
            above = ends[record.parent].id if record.parent is not None else None
            below.setdefault(above, []).append(record)

        return below

    def order_live_last(self) -> list[SessionRecord]:
        """
        The records, parents first, the live branch last; what stands behind the head
        is lost, for formats in which the last line is the live one.
        """
        below = self.map_below()
        order: list[SessionRecord] = []
        todo = sorted(below.get(None, ()), key=self.is_live)[::-1]
        while todo:
            record = todo.pop()
            order.append(record)
            children = sorted(below.get(record.id, ()), key=self.is_live)
            if self.is_live(record) and not any(map(self.is_live, children)):
                self.lose_below(children, below, "stands behind what is shown")
                children = []

            # The live one last.
            todo += reversed(children)

        return order

    def lose_below(
        self,
        records: Iterable[SessionRecord],
        below: Mapping[str | None, list[SessionRecord]],
        why: str,
    ) -> None:
        """List *records*, and what is *below* them, as lost."""
        todo = [*records]
        for record in todo:
            todo += below.get(record.id, ())
            for path in record.paths:
                self.lose(path, "branch", why)

    def kept(self, record: SessionRecord) -> Mapping[str, Any]:
        """The notes on *record*, if it is of this format."""
        notes = record.notes
        return notes if notes.get("format") == self.kind else {}

    def kept_raw(
        self, record: SessionRecord, load: Callable[[Any], Sequence[Message]]
    ) -> dict[str, Any] | None:
        """The record as read, if its messages, read by *load*, say the same still."""
        kept = self.kept(record).get("raw")
        if kept is None:
            return None

        raw: dict[str, Any] = unfold(thaw(kept), record.messages)
        again = [*load(raw)]
        same = [describe(each) for each in again] == [
            describe(each) for each in record.messages
        ]
        return raw if same else None

    def kept_lines(self) -> list[tuple[int, Any]]:
        """The lines that are no message, each with its number."""
        if not self.is_same:
            return []

        lines: Sequence[Any] = self.loaded.notes.get("lines", ())
        return [
            (each["at"], thaw(each["line"] if "line" in each else each["text"]))
            for each in lines
        ]

    def place(self, line: Mapping[str, Any]) -> float:
        """Where *line* stands: in its own format where it stood, else behind all."""
        at: float = line.get("at", LAST_PLACE) if self.is_same else LAST_PLACE
        return at

    def lose_session(self) -> None:
        """List what other formats do not have of the session."""
        if self.is_same:
            return

        notes, source = self.loaded.notes, self.loaded.format
        kinds: dict[str, int] = {}
        for each in notes.get("lines", ()):
            raw = each.get("line", {})
            kind = str(raw.get("type", "line")) if is_map(raw) else "line"
            kinds[kind] = kinds.get(kind, 0) + 1

        for kind, count in kinds.items():
            lines = format_count(count, "line")
            self.lose("notes.lines", kind, f"{lines} specific to {source}")

        if "document" in notes:
            self.lose("notes.document", "info", whose(source))

        if COMPACTION in notes:
            self.lose(f"notes.{COMPACTION}", "summary", "nothing was said behind it")

        self.lose_labels()

    def lose_labels(self) -> None:
        """List labels as lost."""
        for id, label in sorted(self.loaded.labels.items()):
            self.lose(f"labels.{id}", label, f"{self.kind} has no labels")

    def lose_agents(self) -> None:
        """List sub-agents as lost."""
        for at, agent in enumerate(self.loaded.agents):
            self.lose(f"agents[{at}]", agent.name, "sub-agents have files of their own")

    def lose_bill(self, written: Iterable[SessionRecord]) -> None:
        """List the usage that none of the *written* messages reports as lost."""
        reported = _count_reported(written)
        if self.is_same:
            # What no message reports, other lines do.
            reported += Counter(
                (entry.model, *_count_tokens(entry.usage))
                for entry in self.loaded.tree.present.ledger
            )
            reported -= _count_reported(self.records)

        for at, entry in enumerate(self.loaded.tree.present.ledger):
            counts = (entry.model, *_count_tokens(entry.usage))
            if reported[counts]:
                reported[counts] -= 1
            else:
                self.lose(f"ledger[{at}]", entry.id, "no message reports this usage")

    def lose_keys(self, record: SessionRecord) -> None:
        """Note that a record of another format has keys besides its message."""
        source = str(record.notes.get("format", ""))
        if source not in {"", self.kind}:
            self.foreign[source] += 1

    def lose_foreign(self) -> None:
        """List the keys of records of other formats as lost, once for each format."""
        for source, count in self.foreign.items():
            records = format_count(count, "record")
            why = f"what {records} have besides messages is specific to {source}"
            self.lose("nodes", "keys", why)

    def add_calls(self, message: Message, path: str) -> list[str]:
        """
        Take the calls of *message*. Those that have no result anywhere, and are not
        the last that was said, are returned: they need one.
        """
        self.calls.update({call.id: call for call in message.tool_calls})
        if path == f"nodes[{len(self.loaded.tree) - 1}]":
            return []

        missing = [c.id for c in message.tool_calls if c.id not in self.answered]
        for call_id in missing:
            self.lose(path, call_id, "the call has no result; an error stands for it")

        return missing

    def make_id(self, *what: object) -> str:
        """A UUID that follows from the session and *what*."""
        name = self.loaded.name or str(self.loaded.tree.present.root_id)
        said = "\n".join(map(str, (self.kind, name, *what)))
        return str(uuid.uuid5(_NAMESPACE, said))

    @property
    def session_id(self) -> str:
        """The session's id as a UUID: its own, or one that follows from it."""
        try:
            return str(uuid.UUID(self.loaded.name))
        except ValueError:
            return self.make_id("session")


def in_order(lines: Iterable[tuple[float, Any]]) -> list[Any]:
    """What is written in *lines*, by their places."""
    return [raw for _, raw in sorted(lines, key=itemgetter(0))]


def make_hex(text: str, length: int) -> str:
    """The first *length* hexadecimal digits of a digest of *text*."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def usage_of(message: Message) -> Usage | None:
    """The usage that a message reports; None if it is nothing."""
    meta = message.response if isinstance(message, AssistantMessage) else None
    usage = None if meta is None else meta.usage
    return usage if usage is not None and usage.total_tokens else None


def _count_reported(records: Iterable[SessionRecord]) -> Counter[tuple[Any, ...]]:
    return Counter(
        (model_of(message), *_count_tokens(usage))
        for record in records
        for message in record.messages
        if (usage := usage_of(message)) is not None
    )


def _count_tokens(usage: Usage) -> tuple[int, int]:
    return usage.prompt_tokens, usage.completion_tokens


def model_of(message: Message) -> str:
    """The model that a message is of; "" if unknown."""
    meta = message.response if isinstance(message, AssistantMessage) else None
    return "" if meta is None else meta.model


def split_usage(usage: Usage) -> tuple[int, int, int, int, int]:
    """
    The tokens of *usage* as agents count them: of the prompt what was neither read
    from the cache nor written to it, the answer, both of the cache, and the thoughts.
    """
    before, after = usage.prompt_tokens_details, usage.completion_tokens_details
    read = before.cached_tokens
    written = usage.extra.get("cache_write_tokens", 0)
    thought = after.reasoning_tokens
    fresh = max(usage.prompt_tokens - read - written, 0)
    return fresh, usage.completion_tokens, read, written, thought


def in_place(message: AssistantMessage) -> list[Part | ToolCall]:
    """The parts and calls of an answer, in their order."""
    pieces: list[Part | ToolCall] = [*message.parts, *message.tool_calls]
    if any(piece.index is None for piece in pieces):
        return pieces

    return sorted(pieces, key=lambda piece: piece.index or 0)


def describe(message: Message) -> tuple[Any, ...]:
    """What *message* says, without where it stands and what is noted on it."""
    if isinstance(message, UnknownMessage):
        return "unknown", json.dumps(thaw(message.raw), sort_keys=True)

    parts = [
        (part.kind, part.url, part.data, part.media_type)
        if isinstance(part, MediaPart)
        else (part.kind, getattr(part, "text", ""), getattr(part, "signature", ""))
        for part in message.parts
    ]
    calls = [(call.id, call.name, call.arguments) for call in message.tool_calls]
    about = ()
    if isinstance(message, ToolMessage):
        about = (message.tool_call_id, message.is_error)  # type: ignore[assignment]

    return message.role, parts, calls, about


def keep_signature(writer: SessionWriter, part: ReasoningPart, path: str) -> str:
    """The signature of a thought; "", and lost, if another provider signed it."""
    signer = signer_of(part.metadata, anthropic.FORMAT.name)
    if part.signature and signer:
        writer.lose(path, "signature", f"was signed by {signer}")
        return ""

    return part.signature


def join_texts(parts: Iterable[Part]) -> str:
    """The texts of *parts*, one after the other."""
    return "\n".join(filter(None, (getattr(part, "text", "") for part in parts)))


# Who makes a model, by the beginning of its name: the provider, and its API.
_MAKERS = {
    "claude": ("anthropic", "anthropic-messages"),
    "gemini": ("google", "google-generative-ai"),
    "gpt": ("openai", "openai-responses"),
    "o1": ("openai", "openai-responses"),
    "o3": ("openai", "openai-responses"),
    "o4": ("openai", "openai-responses"),
}


def find_maker(model: str) -> tuple[str, str]:
    """The provider of *model*, and its API."""
    found = (pair for name, pair in _MAKERS.items() if model.startswith(name))
    return next(found, ("unknown", "unknown"))


def reload_messages(module: Any, payload: Any) -> Sequence[Message]:
    """The messages of a written record when *module* reads it again."""
    try:
        tree = module.load(read_lines(payload), {}).tree
    except DecodeError:
        return ()

    return tuple(tree.shown.messages)


def write_media(writer: SessionWriter, part: MediaPart, path: str) -> str:
    """The URL of *part*; "", and lost, if it has no media type."""
    if part.url is not None:
        return part.url

    if not part.media_type:
        writer.lose(path, part.kind, "has no media type")
        return ""

    return data_url(part.data or b"", part.media_type)


def lose_part(writer: SessionWriter, part: Part, path: str) -> None:
    """List *part* as lost, because the format has no field for it."""
    writer.lose(path, part.kind, f"{writer.kind} has no place for it")


def is_redacted(part: ReasoningPart) -> bool:
    """Whether the signature of a thought is all that Anthropic gave of it."""
    return notes_of(part.metadata, anthropic.FORMAT.name).get("redacted") is True
