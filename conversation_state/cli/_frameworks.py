"""
Reads conversations out of the SQLite files in which frameworks keep them.

Source:
    ``SQLiteSession`` and ``AdvancedSQLiteSession`` of openai-agents 0.24;
    ``SQLChatMessageHistory`` of langchain-community 0.4.2.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from conversation_state._persistent import Log
from conversation_state._wording import shorten_repr, shorten_text
from conversation_state.aggregator import LedgerEntry
from conversation_state.cli._blocks import pair_functions
from conversation_state.cli._framework_trees import (
    MAX_REASON,
    BranchBuilder,
    FileMessage,
    FrameworkConversation,
    RowError,
    list_tables,
    load_langchain,
    make_entries,
)
from conversation_state.cli._input import (
    STANDARD_INPUT,
    InputConversation,
    UnreadableInput,
)
from conversation_state.cli._langgraph import read_langgraph
from conversation_state.cli._sources import describe_file_error
from conversation_state.errors import DecodeError, InvalidUsageError
from conversation_state.hosts import agents
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage

_SQLITE = b"SQLite format 3\0"
_MAX_TABLES = 5
# Tables of a store of this library.
_OWN_TABLES = frozenset({"label_moves", "labels", "names", "revisions"})


def read_files(
    source: str, files: Sequence[str], *, advance: Callable[[int], object]
) -> Iterator[InputConversation | UnreadableInput]:
    """
    All conversations of *files* that the framework *source* wrote, one of `SOURCES`,
    each as a tree with the branches that the file has; what can't be read in between.

    Args:
        source: One of `SOURCES`.
        files: Paths.
        advance: Called with the size of each file that was read.
    """
    for file in files:
        size = 0
        try:
            if file == STANDARD_INPUT:
                yield UnreadableInput(file, 0, "expected a file, which SQLite can open")
                continue

            with _open_database(file) as (db, size):
                kind = SOURCES[source]
                tables = kind.find(db)
                if tables:
                    for found in kind.read(db, tables):
                        yield from found.to_inputs(file)
                else:
                    yield UnreadableInput(file, 0, _describe_tables(db, source))
        except OSError as error:
            yield UnreadableInput(file, 0, describe_file_error(file, error))
        except (RowError, sqlite3.Error) as error:
            yield UnreadableInput(file, 0, shorten_text(str(error), MAX_REASON))
        except UnicodeDecodeError:
            # SQLite quotes what it finds where its schema should be.
            yield UnreadableInput(
                file, 0, "a damaged SQLite file: its schema is no text"
            )

        advance(size)


@contextmanager
def _open_database(file: str) -> Iterator[tuple[sqlite3.Connection, int]]:
    path = Path(file)
    with path.open("rb") as stream:
        head = stream.read(20)

    if not head.startswith(_SQLITE):
        raise RowError("not a SQLite file, in which this framework keeps its data")

    # In WAL mode SQLite makes files beside this one even to read it, unless its URL is
    # immutable; while another program writes, there is a log beside it.
    has_log = path.with_name(f"{path.name}-wal").exists()
    is_wal = head[18:20] == b"\2\2"
    mode = "mode=ro&immutable=1" if is_wal and not has_log else "mode=ro"
    url = f"{path.resolve().as_uri()}?{mode}"
    with closing(sqlite3.connect(url, uri=True, isolation_level=None)) as db:
        db.text_factory = lambda data: data.decode("utf-8", "replace")
        # No function that the schema names is called, and all is read at one moment.
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("BEGIN")
        yield db, path.stat().st_size


# Tables


def _quote_name(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _find_tables(columns: Iterable[str]) -> Callable[[sqlite3.Connection], list[str]]:
    # Frameworks let their users name the tables, so they are known by their columns.
    wanted = set(columns)

    def find(db: sqlite3.Connection) -> list[str]:
        return [name for name, has in list_tables(db).items() if wanted <= has]

    return find


def _describe_tables(db: sqlite3.Connection, source: str) -> str:
    other = [name for name, each in SOURCES.items() if each.find(db)]
    if other:
        return f"no file of {source}, but of {other[0]}: give --from {other[0]}"

    names = [*list_tables(db)]
    if {*names} >= _OWN_TABLES:
        return f"no file of {source}, but a store of this library: read it with --store"

    more = len(names) - _MAX_TABLES
    listed = ", ".join([shorten_repr(name) for name in names[:_MAX_TABLES]])
    has = f"{listed} and {more} more" if more > 0 else listed or "no tables"
    return f"no file of {source}; expected {SOURCES[source].expected}, found {has}"


# LangChain


def _read_langchain(
    db: sqlite3.Connection, tables: Sequence[str]
) -> Iterator[FrameworkConversation]:
    """``SQLChatMessageHistory``: a row for each message."""
    for table in tables:
        rows = db.execute(
            f"SELECT CAST(session_id AS TEXT), id, message FROM {_quote_name(table)} "  # noqa: S608 - quoted
            "ORDER BY 1, id"
        )
        for session, group in groupby(rows, key=lambda row: row[0] or ""):
            name = session if len(tables) == 1 else f"{table}/{session}"
            messages, problems = [], []
            for _, number, text in group:
                try:
                    row = _parse_object(text)
                    data = row.get("data")
                    fields = data if isinstance(data, dict) else {}
                    fields = {"type": row.get("type"), **fields}
                    messages.append(load_langchain("", fields))
                except (RowError, DecodeError) as error:
                    problems.append(f"row {number} is left out: {error}")

            branches = BranchBuilder(f"langchain:{name}")
            said = pair_functions([each.message for each in messages])
            messages = [
                FileMessage.of(message, each.id, removes=each.removes)
                for message, each in zip(said, messages, strict=True)
            ]
            branches.add(Log(make_entries(messages)))
            yield FrameworkConversation(name, branches.build(), problems)


def _parse_object(text: object) -> dict[str, Any]:
    try:
        found = json.loads(text)  # type: ignore[arg-type]  # a TypeError else
    except (TypeError, ValueError, RecursionError) as error:
        raise RowError(f"it is not JSON ({error})") from None

    if not isinstance(found, dict):
        raise RowError(f"expected a JSON object, got {shorten_repr(found)}")

    return found


# The Agents SDK


class _AgentRow(NamedTuple):
    branch: str
    id: int
    text: str


def _read_agents(
    db: sqlite3.Connection, tables: Sequence[str]
) -> Iterator[FrameworkConversation]:
    """
    ``SQLiteSession``: a row for each item; ``AdvancedSQLiteSession`` says of which
    branches it is, and what each turn cost.
    """
    columns = list_tables(db)
    branch_columns = {"message_id", "branch_id", "sequence_number", "session_id"}
    has_branches = branch_columns <= columns.get("message_structure", set())
    has_usage = {"user_turn_number", "input_tokens"} <= columns.get("turn_usage", set())
    for table in tables:
        branch, place, join = "''", "m.id", ""
        if has_branches:
            branch, place = "CAST(s.branch_id AS TEXT)", "s.sequence_number"
            join = (
                "LEFT JOIN message_structure s "
                "ON s.message_id = m.id AND s.session_id = m.session_id"
            )

        rows = db.execute(
            f"SELECT CAST(m.session_id AS TEXT), {branch}, m.id, m.message_data "  # noqa: S608 - quoted
            f"FROM {_quote_name(table)} m {join} ORDER BY 1, {place}, m.id"
        )
        for session, group in groupby(rows, key=lambda row: row[0] or ""):
            name = session if len(tables) == 1 else f"{table}/{session}"
            found = [_AgentRow(branch or "", id, text) for _, branch, id, text in group]
            branches = BranchBuilder(f"openai-agents:{name}")
            problems = _add_items(branches, found)
            if has_usage:
                problems += _add_turns(db, branches, session)

            yield FrameworkConversation(name, branches.build(), problems)


def _add_items(branches: BranchBuilder, rows: Iterable[_AgentRow]) -> list[str]:
    problems: dict[int, str] = {}
    items: dict[str, list[Any]] = {}
    for row in rows:
        # A branch that was written to later comes later, so that the last is shown.
        listed = items.pop(row.branch, [])
        items[row.branch] = listed
        try:
            listed.append(_parse_item(row.text))
        except RowError as error:
            problems[row.id] = f"row {row.id} is left out: {error}"

    for listed in items.values():
        messages = [FileMessage.of(message) for message in agents.load(listed)]
        branches.add(Log(make_entries(messages)))

    return [*problems.values()]


def _parse_item(text: str) -> dict[str, Any]:
    item = _parse_object(text)
    if item.get("__enc__") == 1:
        raise RowError("it is encrypted, by an EncryptedSession")

    return item


def _add_turns(
    db: sqlite3.Connection, branches: BranchBuilder, session: str
) -> list[str]:
    problems = []
    rows = db.execute(
        "SELECT branch_id, user_turn_number, input_tokens, output_tokens, "
        "total_tokens, input_tokens_details, output_tokens_details FROM turn_usage "
        "WHERE CAST(session_id AS TEXT) = ? ORDER BY id",
        (session,),
    )
    for branch, turn, prompt, completion, total, read, written in rows:
        try:
            details = [_parse_object(each) if each else {} for each in (read, written)]
            usage = Usage(
                prompt or 0,
                completion or 0,
                total or None,
                prompt_tokens_details=PromptTokensDetails(
                    cached_tokens=details[0].get("cached_tokens") or 0
                ),
                completion_tokens_details=CompletionTokensDetails(
                    reasoning_tokens=details[1].get("reasoning_tokens") or 0
                ),
            )
        except (RowError, InvalidUsageError) as error:
            problems.append(f"the usage of turn {turn} is left out: {error}")
            continue

        key = f"{branches.name}:{branch}:{turn}"
        branches.bill(LedgerEntry(key, usage, "", None))

    return problems


class _Framework(NamedTuple):
    # Which tables of a file are the framework's, what they are called, and the
    # conversations in them.
    find: Callable[[sqlite3.Connection], list[str]]
    expected: str
    read: Callable[[sqlite3.Connection, Sequence[str]], Iterator[FrameworkConversation]]


SOURCES: Mapping[str, _Framework] = {
    "langchain": _Framework(
        _find_tables({"id", "session_id", "message"}),
        "the table message_store of SQLChatMessageHistory",
        _read_langchain,
    ),
    "langgraph": _Framework(
        _find_tables({"thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint"}),
        "the table checkpoints of SqliteSaver, since langgraph 0.2",
        read_langgraph,
    ),
    "openai-agents": _Framework(
        _find_tables({"id", "session_id", "message_data"}),
        "the table agent_messages of SQLiteSession",
        _read_agents,
    ),
}
