"""What all formats share: the lines of a session, the tree they make, and its bill."""

from __future__ import annotations

import hashlib
import json
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from operator import itemgetter, methodcaller
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import attrs

from conversation_state._persistent import EMPTY_MAP, Log, final, freeze_map
from conversation_state._wording import describe_type, format_count, shorten_repr
from conversation_state.adapters import openai_responses
from conversation_state.adapters.anthropic.items import arguments_of
from conversation_state.adapters.engine.notes import (
    map_of,
    notes_of,
    with_notes,
    without_empty,
)
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    is_list,
    is_map,
    order_by_parents,
    text_of,
)
from conversation_state.adapters.engine.usage import as_count
from conversation_state.adapters.engine.wire import (
    decode_base64,
    encode_base64,
    read_time,
    split_data_url,
)
from conversation_state.aggregator import Aggregator, Entry, LedgerEntry, ledger_union
from conversation_state.codec import encode
from conversation_state.counting import TokenBudget
from conversation_state.errors import DecodeError, InvalidUsageError, Problem
from conversation_state.messages import (
    Message,
    UnknownMessage,
    UserMessage,
    read_caveat,
)
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    TextPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.tools import ToolCall
from conversation_state.tree import MessageTree
from conversation_state.trimming import Step, TrimContext, fit, repair, trim
from conversation_state.usage import Usage

# The name of the format: of its notes, and the source of its unknown messages.
SOURCE = "sessions"

Body: TypeAlias = Mapping[str, Any]
# The text of a file, its lines, or what `json.loads` made of them.
SessionInput: TypeAlias = str | bytes | Body | Iterable[str | bytes | Body]

_NAMESPACE = uuid.UUID("0f6a3c62-3c9e-5b0c-9d0e-6b1f7a52c1d4")
_MAX_LISTED = 100


@final
@attrs.frozen
class LoadedSession:
    """
    One session of a coding agent.

    Attributes:
        name: Its id in the file; of a sub-agent, the agent's; "" without one.
        title: Its title, the user's own before one that was generated; "" for none.
        tree: Its messages. What is shown is the live branch; the others were rewound.
            Its ledger has the usage of each response once, those of rewound ones too,
            under the provider's id of the response.
        format: The format it was read in.
        version: The version of the agent that wrote its last line; "" if unknown.
        cwd: The folder that the agent worked in; "" if unknown.
        created_at: The time of the first line that has one.
        updated_at: The time of the last line that has one.
        agents: The sub-agents, each a session of its own with its own bill.
        called_by: Of a sub-agent: the id of the call that started it; "" if unknown.
        labels: Labels that the user gave, by the ids of their nodes in the tree.
        notes: What the file has besides messages, by key. ``lines`` are the lines that
            are no message, verbatim, each with its number in the file, and ``is_read``
            if the bill, the tree or a field has what it says.
        problems: What was wrong or was mended, each with its line.
    """

    name: str
    title: str
    tree: MessageTree
    format: str
    version: str = ""
    cwd: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    agents: tuple[LoadedSession, ...] = ()
    called_by: str = ""
    labels: Mapping[str, str] = EMPTY_MAP
    notes: Mapping[str, Any] = EMPTY_MAP
    problems: tuple[str, ...] = ()

    @property
    def usage(self) -> Usage:
        """
        What the session cost, with its sub-agents and rewound branches: each response
        once, also one that two of them have. O(ledger entries).
        """
        states = [each.tree.present for each in (self, *self.agents)]
        return sum([entry.usage for entry in ledger_union(*states)], Usage())

    @property
    def model_messages(self) -> tuple[Message, ...]:
        """
        What the model gets to see: as `compacted` of the live branch, also where
        nothing was said since the compaction.
        """
        last = map_of(self.notes, COMPACTION)
        messages = tuple(self.tree.present.messages)
        if not last:
            return compacted(messages)

        return _select_sent(_stand_in(last, messages))


# The note with the compaction before a message, or at the end of a session.
COMPACTION = "compaction"
# The note on messages that no model gets.
UNSENT = "unsent"


def compacted(messages: Iterable[Message]) -> tuple[Message, ...]:
    """
    The messages that the model gets to see: the summary of the newest compaction, what
    was kept besides it, and what came since; all of them if nothing was compacted. Not
    those that the agent does not send, such as errors that it shows.

    For a view of a state that was loaded from a session, in which everything that was
    said before a compaction is still there.
    """
    listed = tuple(messages)
    for at in range(len(listed) - 1, -1, -1):
        last = map_of(notes_of(listed[at].metadata, SOURCE), COMPACTION)
        if last:
            return _select_sent(_stand_in(last, listed[:at]) + listed[at:])

    return _select_sent(listed)


def trim_sent(
    conversation: Aggregator, budget: TokenBudget, *steps: Step
) -> TrimContext:
    """
    As `trimming.trim`, without the messages that the agent does not send, such as
    errors that it shows. O(n).
    """
    unsent = [seq for seq, each in enumerate(conversation) if not _is_sent(each)]
    if unsent:
        remove = methodcaller("remove", unsent)
        steps = (remove, *(steps or (repair(), fit())))

    return trim(conversation, budget, *steps)


def without_unsent(conversation: Aggregator) -> Aggregator:
    """
    *conversation* without the messages that the agent does not send; itself if there
    are none. O(n).
    """
    entries = conversation.entries
    return conversation.without([id for id, each in entries if not _is_sent(each)])


def _is_sent(message: Message) -> bool:
    return not notes_of(message.metadata, SOURCE).get(UNSENT)


def _select_sent(messages: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(filter(_is_sent, messages))


def _stand_in(compaction: Body, before: Sequence[Message]) -> tuple[Message, ...]:
    # What a compaction leaves of what was *before* it.
    summary = compaction.get("summary")
    ids = [notes_of(each.metadata, "ui").get("id") or "" for each in before]
    first, end = compaction.get("first_kept"), compaction.get("first_replaced")
    stop = ids.index(end) if end and end in ids else None
    kept = before[ids.index(first) : stop] if first and first in ids else ()
    if history := compaction.get("history"):
        return (*openai_responses.load(history), *kept)

    head = (UserMessage(summary),) if isinstance(summary, str) and summary else ()
    return (*head, *kept) if stop is None else (*kept, *head)


class Line(NamedTuple):
    """
    One line of a file.

    Attributes:
        at: Its number, from 1 on.
        raw: Its JSON object; None if it has none.
        text: The line itself if it has none.
    """

    at: int
    raw: dict[str, Any] | None
    text: str = ""


@attrs.frozen
class SessionLines:
    """All lines of one session, and what was wrong with them."""

    lines: tuple[Line, ...]
    problems: tuple[str, ...]

    @property
    def objects(self) -> list[tuple[int, dict[str, Any]]]:
        """The lines that are JSON objects, each with its number."""
        return [(line.at, line.raw) for line in self.lines if line.raw is not None]


def read_lines(payload: SessionInput) -> SessionLines:
    """
    The lines of *payload*; a document that is no line has one.

    Raises:
        DecodeError: If *payload* is nothing that has lines.
    """
    problems: list[str] = []
    items: Iterable[Any]
    if isinstance(payload, (str, bytes)):
        items = _split_lines(_decode_text(payload, problems))
    elif is_map(payload):
        items = [payload]
    elif isinstance(payload, Iterable):
        items = list(payload)
        if items and all(isinstance(each, (str, bytes)) for each in items):
            texts = [_decode_text(each, problems) for each in items]
            ends = "" if all(each.endswith("\n") for each in texts[:-1]) else "\n"
            items = _split_lines(ends.join(texts))
    else:
        expected = "the lines of a session; read_session reads a file"
        what = f"is {describe_type(payload)}; expected {expected}"
        raise DecodeError((Problem("$", what),))

    lines = []
    for at, item in enumerate(items, 1):
        line = _read_line(item, at, problems)
        if line is not None:
            lines.append(line)

    return SessionLines(tuple(lines), tuple(problems))


def _decode_text(text: str | bytes, problems: list[str]) -> str:
    if isinstance(text, str):
        return text.removeprefix("\ufeff")

    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.append(f"is not UTF-8 ({error.reason}); U+FFFD stands there")
        return text.decode("utf-8-sig", "replace")


def _split_lines(text: str) -> list[Any]:
    lines = text.split("\n")
    first = next((line for line in lines if line.strip()), "")
    # A pretty-printed document begins with a line that is no JSON by itself.
    if len(lines) > 1 and _parse_json(first) is None:
        whole = _parse_json(text)
        if whole is not None:
            return [*whole] if is_list(whole) else [whole]

    if len(lines) == 1 and is_list(found := _parse_json(text)):
        return [*found]

    return lines


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _read_line(item: Any, at: int, problems: list[str]) -> Line | None:
    text = ""
    if isinstance(item, bytes):
        item = _decode_text(item, problems)

    if isinstance(item, str):
        text = item.strip()
        if not text:
            return None

        item = _parse_json(text)

    path = f"line {at}"
    if not is_map(item):
        text = text or shorten_repr(item)
        problems.append(f"{path}: is no JSON object; kept as it is")
        return Line(at, None, DocumentReader().json(text, path))

    reader = DocumentReader()
    raw = reader.json(item, path)
    if reader.count:
        first = reader.problems[0]
        problems.append(f"{first.path}: {first.what}; the line is kept as text")
        return Line(at, None, DocumentReader().json(text or repr(item), path))

    problems += [f"{where}: half of a surrogate pair" for where in reader.mended[:1]]
    return Line(at, raw)


def find_head(_: Body, raw: Body) -> str | None:
    """The id of the session whose header *raw* is, in Pi's and the Simple Format."""
    return text_of(raw, "id") if text_of(raw, "type") == "session" else None


def number_by_heads(
    raws: Iterable[Body], head: Callable[[Body, Body], str | None]
) -> list[int]:
    """
    Which session each of *raws* is of, by the lines that begin one.

    *head* gets the object before and the object; it gives the id of the session that
    begins there ("" if it has none), or None. What a head names is no session of its
    own: a fork has the head of its source, too.
    """
    numbers: list[int] = []
    heads: list[str] = [""]  # the text of each session's heads
    ids: dict[str, int] = {}
    number = 0
    before: Body = {}
    for raw in raws:
        id = head(before, raw)
        before = raw
        if id is not None:
            if heads[number] and not (id and id in heads[number]):
                number = ids.get(id, len(heads))
                heads += [""] * (number == len(heads))

            heads[number] += f"{json.dumps(raw)}\n"
            if id:
                ids.setdefault(id, number)

        numbers.append(number)

    return numbers


def map_in(raw: Body, key: str) -> Body:
    """The object that *raw* has under *key*; empty if it has none."""
    found = raw.get(key)
    return found if is_map(found) else {}


def list_in(raw: Body, key: str) -> Sequence[Any]:
    """The list that *raw* has under *key*; empty if it has none."""
    found = raw.get(key)
    return found if is_list(found) else ()


def find_ring(parents: Mapping[str, str | None]) -> list[str]:
    """The first of each ring that *parents* make, in their order. O(n)."""
    done: set[str] = set()
    found = []
    order = {id: at for at, id in enumerate(parents)}
    for start in parents:
        way: list[str] = []
        here: str | None = start
        seen: set[str] = set()
        while here is not None and here not in done and here not in seen:
            seen.add(here)
            way.append(here)
            here = parents.get(here)

        if here is not None and here in seen:
            ring = way[way.index(here) :]
            found.append(min(ring, key=order.__getitem__))

        done.update(seen)

    return found


class _Record(NamedTuple):
    # What has one id in a file: where it stands, what it stands behind, what it says,
    # when, and the notes on it.
    at: int
    parent: str | None
    messages: Sequence[Message]
    time: datetime | None
    notes: dict[str, Any]

    def name_messages(self, kind: str, id: str) -> list[Message]:
        # The messages as the tree has them: the first one with the id and the notes.
        named = []
        for at, message in enumerate(self.messages):
            notes = {"more": True} if at else self.notes
            metadata = with_notes(SOURCE, {"format": kind, **notes}, message.metadata)
            if not at:
                metadata = with_notes("ui", {"id": id}, metadata)

            changes: dict[str, Any] = {"metadata": metadata}
            if self.time is not None:
                changes["timestamp"] = self.time

            named.append(message.replace(**changes))

        return named


class SessionBuilder:
    """One session while its tree is made."""

    def __init__(self, kind: str, lines: SessionLines) -> None:
        self.format = kind
        self.lines = lines
        self.problems = list(lines.problems)
        self.name = self.title = self.version = self.cwd = ""
        self.notes: dict[str, Any] = {}
        # What the numbers of lines count.
        self.unit = "line"
        # By the ids of records.
        self.labels: dict[str, str] = {}
        self.agents: list[LoadedSession] = []
        self.called_by = ""
        self._records: dict[str, _Record] = {}
        self._bill: dict[str, tuple[int, LedgerEntry]] = {}
        self._unnamed: list[tuple[int, str, LedgerEntry]] = []
        # Lines that are part of a message, by number; and what is kept beside these.
        self._used: set[int] = set()
        # Lines that are none, and say what the session has elsewhere.
        self._read: set[int] = set()
        self._kept: list[dict[str, Any]] = []
        self._times: dict[str, datetime | None] = {}

    def problem(self, at: int, what: str) -> None:
        """Report what is wrong with a line, or was mended."""
        self.problems.append(f"{self.unit} {at}: {what}")

    def report_unread(self, at: int, raw: Body) -> None:
        """Report a line of an unknown type that has content."""
        bodies = raw, raw.get("message"), raw.get("payload")
        if any(is_map(each) and each.get("content") for each in bodies):
            kind = shorten_repr(raw.get("type"))
            self.problem(at, f"has content and is of type {kind}; kept as it is")

    def use(self, *lines: int) -> None:
        """Say that these lines are kept with messages."""
        self._used.update(lines)

    def unuse(self, at: int) -> None:
        """Say that a line is no longer kept with messages."""
        self._used.discard(at)

    def mark_read(self, *lines: int) -> None:
        """Say that the session has elsewhere what these lines say; they are kept."""
        self._read.update(lines)

    def keep(self, at: int, raw: Any, *, is_read: bool = False) -> None:
        """Keep what is inside of a line and no message, as it is."""
        mark = {"is_read": True} if is_read else {}
        self._kept.append({"at": at, "line": raw, **mark})

    def times(self, times: Any) -> None:
        """Read when the session was ``created`` and ``updated``."""
        if is_map(times):
            self._times = {key: read_time(times[key]) for key in times}

    def add(
        self,
        id: str,
        parent: str | None,
        messages: Sequence[Message],
        at: int,
        time: datetime | None,
        **notes: Any,
    ) -> None:
        """Add what *id* says, behind *parent*, with *notes* that are not empty."""
        kept = without_empty(notes)
        if "raw" in kept:
            kept["at"] = at

        self._records[id] = _Record(at, parent, messages, time, kept)

    def knows(self, id: str) -> bool:
        """Whether there is a record *id*."""
        return id in self._records

    def say(self, id: str, messages: Sequence[Message]) -> None:
        """Replace what the record *id* says."""
        self._records[id] = self._records[id]._replace(messages=messages)

    def bill(
        self,
        key: str,
        usage: Usage,
        model: str,
        time: datetime | None,
        at: int,
        *,
        caveat: str = "",
    ) -> None:
        """Record the usage of a response under its id, once."""
        self._bill.setdefault(key, (at, LedgerEntry(key, usage, model, time, caveat)))

    def bill_record(
        self, id: str, usage: Usage, model: str, time: datetime | None, at: int
    ) -> None:
        """The same for a response without an id: under the identity of its entry."""
        self._unnamed.append((at, id, LedgerEntry("", usage, model, time)))

    def is_counted(self, usage: Usage | None, at: int) -> TypeGuard[Usage]:
        """Whether *usage* counts anything; None can't be read, which is a problem."""
        if usage is None:
            self.problem(at, "its counts can't be read; they are not billed")

        return usage is not None and usage.total_tokens > 0

    def load_agents(self, files: Mapping[str, SessionLines], load: Any) -> None:
        """Load the sub-agents that are in files of their own, each with *load*."""
        for id, lines in files.items():
            try:
                self.agents.append(load(lines, {}))
            except DecodeError as error:
                self.problems.append(f"sub-agent {id}: {error.problems[0]}")
                kept = [{"at": each.at, "line": each.raw} for each in lines.lines]
                self.notes.setdefault("agents", {})[id] = kept

    def build(self, head: str | None) -> LoadedSession:
        """
        The session, with what *head* says last shown; by default the last record.

        Raises:
            DecodeError: If it has no messages, or none that can be read.
        """
        records = self._records
        messages = [each for record in records.values() for each in record.messages]
        if all(isinstance(each, UnknownMessage) for each in messages):
            seen = format_count(len(self.lines.lines), "line")
            can = " that can be read" if messages else ""
            what = f"this {self.format} session has no messages{can} ({seen})"
            whats = ["; ".join([what, *self.problems[:1]]), *self.problems[1:]]
            raise DecodeError(tuple([Problem("$", w) for w in whats[:_MAX_LISTED]]))

        parents = {id: each.parent for id, each in records.items()}
        places = {id: each.at for id, each in records.items()}
        order = self.order_by_parents(parents, places)
        for id in order:
            records[id] = records[id]._replace(parent=parents[id])

        try:
            tree = self._make_tree(order, head)
        except InvalidUsageError as error:
            raise DecodeError((Problem("$", str(error)),)) from None

        return self._make_session(tree)

    def parent_of(self, id: str | None) -> str | None:
        """The record before *id*."""
        return self._records[id].parent if id in self._records else None

    def order_by_parents(
        self, parents: dict[str, str | None], places: Mapping[str, int]
    ) -> list[str]:
        """
        All ids, parents before children, else by their lines in *places*. A ring is cut
        before the first of it, in *parents* too, which is a problem.
        """
        for id in find_ring(parents):
            self.problem(places[id], "is its own ancestor; it is a first message now")
            parents[id] = None

        return order_by_parents(parents, sorted(parents, key=places.__getitem__))

    def _make_tree(self, order: list[str], head: str | None) -> MessageTree:
        number = uuid.uuid5(_NAMESPACE, f"{self.format}:{self.name or order[0]}")
        logs: dict[str | None, Log[Entry]] = {None: Log()}
        inner = set()
        for id in order:
            record = self._records[id]
            parent = record.parent if record.parent in self._records else None
            inner.add(parent)
            named = record.name_messages(self.format, id)
            entries = [
                make_entry(f"{self.format}:{id}:{at}", message)
                for at, message in enumerate(named)
            ]
            logs[id] = logs[parent].extend(entries)

        billed = [*self._bill.values()]
        for at, id, unnamed in self._unnamed:
            first = len(logs[id]) - len(self._records[id].messages)
            answers = logs[id].iterate(first)
            said = next((e for e in answers if e.message.role == "assistant"), None)
            # An answer that could not be read was paid for, too.
            key = f"{self.format}:{id}" if said is None else said.id
            caveat = "" if said is None else read_caveat([said.message])
            billed.append((at, unnamed._replace(id=key, caveat=caveat)))

        billed.sort(key=itemgetter(0))
        ledger: Log[LedgerEntry] = Log([entry for _, entry in billed])

        def make_state(id: str, *, with_all: bool) -> Aggregator:
            count = bisect_right(billed, self._records[id].at, key=itemgetter(0))
            return Aggregator.rebuild(
                id=number,
                parent_id=None,
                root_id=None,
                init_len=0,
                init_ledger_len=0,
                entries=logs[id],
                ledger=ledger if with_all else ledger.take(count),
            )

        shown = head if head in self._records else order[-1]
        states = [
            make_state(id, with_all=False)
            for id in order
            if id not in inner and id != shown
        ]
        return MessageTree.of(*states, make_state(shown, with_all=True))

    def _make_session(self, tree: MessageTree) -> LoadedSession:
        times = [
            time
            for _, raw in self.lines.objects
            if (time := read_time(raw.get("timestamp"))) is not None
        ]
        kept = [
            {"at": each.at, "text": each.text}
            if each.raw is None
            else {"at": each.at, "line": each.raw}
            | ({"is_read": True} if each.at in self._read else {})
            for each in self.lines.lines
            if each.at not in self._used
        ]
        kept += self._kept
        notes = {**self.notes, "lines": kept} if kept else self.notes
        nodes = {
            tree.find(id): label
            for id, label in self.labels.items()
            if id in self._records and self._records[id].messages
        }
        more = len(self.problems) - _MAX_LISTED
        problems = self.problems[:_MAX_LISTED]
        problems += [f"and {format_count(more, 'more problem')}"] if more > 0 else []
        return LoadedSession(
            name=self.name,
            title=self.title,
            tree=tree,
            format=self.format,
            version=self.version,
            cwd=self.cwd,
            created_at=self._times.get("created") or min(times, default=None),
            updated_at=self._times.get("updated") or max(times, default=None),
            agents=tuple(self.agents),
            called_by=self.called_by,
            labels=freeze_map(nodes, "LoadedSession.labels"),
            notes=freeze_map(notes, "LoadedSession.notes"),
            problems=tuple(problems),
        )


def make_entry(place: str, message: Message) -> Entry:
    """An entry whose identity follows from where it stands and what it says."""
    said = encode(message)
    digest = hashlib.sha256(place.encode() + b"\n" + said).hexdigest()
    return Entry(digest[:32], message)


# What parts and calls are made of, which most formats have in their own words


def make_usage(
    prompt: Any, completion: Any, *, cached: Any, written: Any = 0, thought: Any = 0
) -> Usage | None:
    """
    The usage of a response: *prompt* with what was *cached* and *written* to the cache,
    *completion* with what was *thought*; None if a count can't be read.
    """
    given = {"input_tokens": prompt, "output_tokens": completion}
    found = [as_count(each) for each in (*given.values(), cached, written, thought)]
    if any(each is None for each in found):
        return None

    before: dict[str, Any] = {"cached_tokens": found[2]}
    if found[3]:
        before["cache_write_tokens"] = found[3]

    block = {**given, "input_tokens_details": before}
    block["output_tokens_details"] = {"reasoning_tokens": found[4]}
    try:
        usage: Usage | None = openai_responses.load_usage(block)
    except DecodeError:
        return None

    return usage


def make_media(data: Any, media_type: str, name: str = "", **keys: Any) -> Part | None:
    """The media of a URL, by its scheme, or of *data* in base64; else None."""
    if not isinstance(data, str) or not data:
        return None

    source: dict[str, Any] = {"url": data}
    if data.startswith("data:"):
        found = split_data_url(data)
        if found is None:
            return None

        source = {"data": found[0]}
        media_type = media_type or found[1]
    elif ":" not in data[:16]:
        source = {"data": decode_base64(data)}
        if not source["data"]:
            return None

    kind = _MEDIA.get(media_type.partition("/")[0], FilePart)
    if kind is FilePart and name:
        keys["name"] = name

    part: Part = kind(**source, media_type=media_type, **keys)
    return part


_MEDIA: Mapping[str, Any] = {"audio": AudioPart, "image": ImagePart, "video": VideoPart}


def make_call(id: Any, name: Any, given: Any, index: int | None = None) -> ToolCall:
    """A call with the arguments *given*, a text or an object."""
    text = given
    if not isinstance(given, str):
        text = arguments_of(given) if is_map(given) else json.dumps(given)

    call_id = id if isinstance(id, str) else ""
    return ToolCall(call_id, name if isinstance(name, str) else "", text, index=index)


def simplify(parts: Sequence[Part]) -> str | Sequence[Part]:
    """The content of *parts*: a text if they are one."""
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text

    return parts or ""


def load_blocks(
    content: Any,
    load_block: Callable[[Body, int | None], Part],
    index: int | None = None,
) -> list[Part]:
    """The parts of a text, of a block for *load_block*, or of a list of both."""
    if isinstance(content, str):
        return [TextPart(content, index=index)] if content else []

    if is_list(content):
        return [
            part for each in content for part in load_blocks(each, load_block, index)
        ]

    return [load_block(content, index)] if is_map(content) else []


def keep_unknown(raw: Body, index: int | None) -> UnknownPart:
    """A block that no part can hold, as it is."""
    return UnknownPart(raw, source=SOURCE, index=index)


# A record is kept as it was beside its messages, and what these say already is not kept
# twice: a long text is a reference to theirs.
_LONG = 48
_TEXT = "$text"


def fold(raw: Any, messages: Sequence[Message]) -> Any:
    """*raw* with references to the long texts of *messages*."""
    places: dict[str, int] = {}
    for at, text in enumerate(_list_texts(messages)):
        if len(text) >= _LONG:
            places.setdefault(text, at)

    return _fold_value(raw, places)


def _fold_value(value: Any, places: Mapping[str, int]) -> Any:
    if isinstance(value, str):
        return {_TEXT: places[value]} if value in places else value

    if is_map(value):
        folded = {key: _fold_value(each, places) for key, each in value.items()}
        # What looks like a reference itself is put into a list.
        return {_TEXT: [folded[_TEXT]]} if folded.keys() == {_TEXT} else folded

    return [_fold_value(each, places) for each in value] if is_list(value) else value


def unfold(kept: Any, messages: Sequence[Message]) -> Any:
    """What `fold` made of a record, with what *messages* say now."""
    return _unfold_value(kept, _list_texts(messages))


def _unfold_value(value: Any, texts: Sequence[str]) -> Any:
    if not is_map(value):
        is_several = is_list(value)
        return [_unfold_value(each, texts) for each in value] if is_several else value

    reference = value.get(_TEXT) if value.keys() == {_TEXT} else None
    if is_list(reference):
        return {_TEXT: _unfold_value(reference[0], texts)}

    # A message that was changed may have fewer texts.
    if isinstance(reference, int) and reference < len(texts):
        return texts[reference]

    return {key: _unfold_value(each, texts) for key, each in value.items()}


def _list_texts(messages: Sequence[Message]) -> list[str]:
    return [text for message in messages for text in texts_of(message)]


def texts_of(message: Message) -> list[str]:
    """All texts, media and arguments of *message*."""
    texts = []
    for part in message.parts:
        if isinstance(part, MediaPart):
            texts.append(part.url or encode_base64(part.data or b""))
            texts.append(f"data:{part.media_type};base64,{texts[-1]}")
        else:
            texts += [getattr(part, "text", ""), getattr(part, "signature", "")]

    for call in message.tool_calls:
        texts.append(call.arguments)
        with suppress(ValueError, RecursionError):
            texts += _list_leaves(json.loads(call.arguments))

    return texts


def _list_leaves(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]

    inside = value.values() if is_map(value) else value if is_list(value) else ()
    return [text for each in inside for text in _list_leaves(each)]
