"""
The statements that all SQL backends have in common, made from the schema, and the
steps from one schema to the next.

Plain SQL of the kind every relational server takes: no row ids, no triggers,
keys are given by us. What servers write differently is a `Dialect`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple
from urllib.parse import parse_qsl

import attrs

from conversation_state._wording import shorten_repr
from conversation_state.errors import StoreError
from conversation_state.store._log import DamagedRow
from conversation_state.store.backend import Key, Row
from conversation_state.store.backends._blocks import SequentialBlock
from conversation_state.store.schema import SHIFT, TABLES, Column

# Of a pair: of a table and a key that a row depends on.
first, second = itemgetter(0), itemgetter(1)

# How many rows give numbers, the last number given, and the largest there are.
NUMBERS = (
    "SELECT (SELECT count(*) FROM numbers), (SELECT max(last) FROM numbers),"
    " (SELECT max(branch) FROM branches), (SELECT max(number) FROM names)"
)


# The key after the last one with that number is an integer of 63 bits.
MAX_NUMBER = (1 << 63 - SHIFT) - 2


def numbers_problem(rows: int, last: object, *there: object) -> list[str]:
    """
    What is wrong with the result of `NUMBERS`: no number may be given twice, and there
    must be more of them.
    """
    # A damaged file may hold anything.
    most = max([number for number in there if isinstance(number, int)], default=0)
    if rows == 1 and isinstance(last, int) and most <= last < MAX_NUMBER:
        return []

    what = f"the last number given is {shorten_repr(last, 40)}, but {most} is in use"
    return [f"{what}; set the column last of the table numbers to that"]


# Options of URLs by their names: a check of the value, and what it expects.
Options = Mapping[str, tuple[Callable[[str], Any], str]]

# SQLite takes milliseconds, in 32 bits.
_LONGEST_S = 86_400


def is_seconds(text: str) -> bool:
    try:
        return 0 <= float(text) <= _LONGEST_S
    except ValueError:
        return False


def parse_options(
    url: str, query: str, options: Options, others: Collection[str] = ()
) -> dict[str, str]:
    """
    What stands after the ? of a URL, of which errors cite the values that are checked
    and no others.
    """
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, strict_parsing=bool(query), errors="strict"
        )
    except ValueError:
        what = "the options can't be read; expected name=value, with & between two"
        raise StoreError(url, what) from None

    given = dict(pairs)
    if len(given) < len(pairs):
        raise StoreError(url, "an option is given twice; give each once")

    for name, value in given.items():
        if name in options:
            is_valid, expected = options[name]
            if not is_valid(value):
                what = f"invalid option {name}={value[:40]}; expected {expected}"
                raise StoreError(url, what)
        elif name not in others:
            known = ", ".join(options) + " and those of libpq" * bool(others)
            what = f"unknown option {name[:40]!r}; valid options are {known}"
            raise StoreError(url, what)

    return given


class Step(NamedTuple):
    """
    The change from one schema to the next: a function for each backend, which takes a
    connection in a transaction.
    """

    sqlite: Callable[[Any], None]
    postgres: Callable[[Any], None]


# The first step makes schema 2 of schema 1, and so on; they run in one transaction.
# They stay as they were released, so they use no row class: those change. A new file
# or server has the current tables, and runs none. A step that adds a column to a sealed
# table seals the rows again. In a file it also creates the table again, because the
# file holds the table's statement and `verify` compares it. `tests/store/older.py` has
# such a step.
STEPS: tuple[Step, ...] = ()


@attrs.frozen(eq=False)
class Dialect:
    """
    How SQL dialects differ, and their statements.

    Statements are made once for each dialect and table: to look one up takes a tenth of
    making it, and servers know a statement by its text.
    """

    mark: str  # stands for a parameter
    types: dict[str, str]  # the types of columns
    text_order: str = ""  # what makes texts ordered by their bytes
    # Follows tables whose key is not an integer, where that would else be kept twice.
    small: str = ""

    def create(self) -> list[str]:
        """Statements that make all tables."""
        made = []
        for table in TABLES.values():
            columns = [self._define_column(table.key) + " PRIMARY KEY"]
            columns += [self._define_column(column) for column in table.columns]
            small = self.small if table.key.type != "integer" else ""
            made.append(f"CREATE TABLE {table.name} ({', '.join(columns)}){small}")
            if table.indexed:
                index = f"({_index_start(table.indexed)}), {table.key.name}"
                name = f"{table.name}_{table.indexed}"
                made.append(f"CREATE INDEX {name} ON {table.name} ({index})")

        return made

    def _define_column(self, column: Column) -> str:
        order = self.text_order if column.type == "text" else ""
        null = "" if column.is_null else " NOT NULL"
        return f"{column.name} {self.types[column.type]}{order}{null}"

    @cache
    def get(self, table: str, columns: tuple[str, ...] | None) -> str:
        """One row. Takes the key."""
        key = TABLES[table].key.name
        shown = _list_columns(table, columns)
        return f"SELECT {shown} FROM {table} WHERE {key} = {self.mark}"

    @cache
    def scan(
        self,
        table: str,
        columns: tuple[str, ...] | None,
        shape: tuple[bool, bool, bool, bool],
    ) -> str:
        """
        A range. Takes *low*, *high* and *limit*, those of them that there are: *shape*
        says which, and whether it is read backwards.
        """
        is_low, is_high, is_limited, is_backwards = shape
        where = self._where_range(table, is_low=is_low, is_high=is_high)
        order = f" ORDER BY {TABLES[table].key.name}{' DESC' * is_backwards}"
        limit = f" LIMIT {self.mark}" * is_limited
        return (
            f"SELECT {_list_columns(table, columns)} FROM {table}{where}{order}{limit}"
        )

    @cache
    def scan_heads(self, is_high: bool) -> str:
        """
        Names from a key on, each with its newest revision and the origin of that.
        Takes *low*, *high* if there is one, and *limit*.
        """
        where = self._where_range("names", is_low=True, is_high=is_high)
        # Limited before anything is joined, so that it costs what it gives; ordered
        # again at the end, since a join may give its rows in any order.
        return (
            f"SELECT {_HEAD_COLUMNS} FROM"
            f" (SELECT * FROM names{where} ORDER BY name LIMIT {self.mark}) AS names"
            f"{_JOIN_NEWEST} ORDER BY names.name"
        )

    @cache
    def get_head(self) -> str:
        """
        What `scan_heads` gives of one name, which it takes, with where its logs begin
        and what they end with, and the number of the last change.
        """
        # Joined to the tables themselves: around `scan_heads`, it takes half as long
        # again until SQLite has a plan, which each store that is opened waits for.
        return (
            f"SELECT {_HEAD_COLUMNS}, start.parent, start.start,"
            " ledger_start.parent, ledger_start.start, entries.digest, ledger.digest,"
            " (SELECT number FROM changes ORDER BY number DESC LIMIT 1)"
            f" FROM names{_JOIN_NEWEST}"
            " LEFT JOIN branches AS start ON start.branch = revisions.branch"
            " LEFT JOIN branches AS ledger_start"
            " ON ledger_start.branch = revisions.ledger_branch"
            " LEFT JOIN entries ON entries.place ="
            f" (revisions.branch << {SHIFT}) + revisions.length - 1"
            " LEFT JOIN ledger ON ledger.place ="
            f" (revisions.ledger_branch << {SHIFT}) + revisions.ledger_length - 1"
            f" WHERE names.name = {self.mark}"
        )

    @cache
    def find(self, table: str, column: str, is_low: bool, is_high: bool) -> str:
        """
        Keys by the value of a column. Takes its beginning if it is indexed, the value,
        and *low* and *high*, those of them that there are.
        """
        key = TABLES[table].key.name
        where = [f"{column} = {self.mark}"]
        if column == TABLES[table].indexed:
            where.insert(0, f"{_index_start(column)} = {self.mark}")

        where += [f"{key} >= {self.mark}"] * is_low + [f"{key} < {self.mark}"] * is_high
        return f"SELECT {key} FROM {table} WHERE {' AND '.join(where)} ORDER BY {key}"

    @cache
    def add(self, table: str) -> str:
        """A row. Takes all of it."""
        marks = ", ".join([self.mark] * len(TABLES[table].column_names))
        return f"INSERT INTO {table} ({_list_columns(table)}) VALUES ({marks})"

    @cache
    def add_if(
        self, table: str, if_exists: tuple[str, ...], if_absent: tuple[str, ...]
    ) -> str:
        """
        A row if there are rows in the tables *if_exists* and none in *if_absent*;
        else its key is null, which no table takes. Takes the keys, then the
        row.
        """
        condition = self.check(if_exists, if_absent).removeprefix("SELECT ")
        marks = [f"CASE WHEN {condition} THEN {self.mark} END"]
        marks += [self.mark] * len(TABLES[table].columns)
        columns = _list_columns(table)
        return f"INSERT INTO {table} ({columns}) VALUES ({', '.join(marks)})"

    @cache
    def check(self, if_exists: tuple[str, ...], if_absent: tuple[str, ...]) -> str:
        """Whether rows are in all *if_exists*, none in *if_absent*. Takes keys."""
        # A statement of its own: as a condition of the insertion it takes SQLite
        # as long as all the rest of a save.
        conditions = []
        for others, exists in ((if_exists, "EXISTS"), (if_absent, "NOT EXISTS")):
            for other in others:
                key = TABLES[other].key.name
                conditions.append(
                    f"{exists} (SELECT 1 FROM {other} WHERE {key} = {self.mark})"
                )

        return f"SELECT {' AND '.join(conditions)}"

    def copy(self, table: str) -> str:
        """Many rows, which follow."""
        return f"COPY {table} ({_list_columns(table)}) FROM STDIN (FORMAT BINARY)"

    def types_of(self, table: str) -> list[str]:
        """The types of a table's columns."""
        known = TABLES[table]
        return [self.types[each.type] for each in (known.key, *known.columns)]

    def set(self, table: str, columns: tuple[str, ...]) -> str:
        """Changes columns. Takes their values, then the key."""
        changes = ", ".join([f"{column} = {self.mark}" for column in columns])
        key = TABLES[table].key.name
        return f"UPDATE {table} SET {changes} WHERE {key} = {self.mark}"

    def remove(self, table: str, low: Any, high: Any) -> str:
        """Removes a range. Takes *low* and *high*, those of them that there are."""
        is_low, is_high = low is not None, high is not None
        where = self._where_range(table, is_low=is_low, is_high=is_high)
        return f"DELETE FROM {table}{where}"

    def _where_range(self, table: str, *, is_low: bool, is_high: bool) -> str:
        key = TABLES[table].key.name
        ends = [f"{key} >= {self.mark}"] * is_low + [f"{key} < {self.mark}"] * is_high
        return f" WHERE {' AND '.join(ends)}" if ends else ""


# Of `scan_heads` and `get_head`: names, each with its newest revision and the origin of
# that.
_HEAD_COLUMNS = ", ".join(
    [
        f"{table}.{column}"
        for table in ("names", "revisions", "origins")
        for column in TABLES[table].column_names
    ]
)
_JOIN_NEWEST = (
    " LEFT JOIN revisions ON revisions.revision ="
    " (SELECT newest.revision FROM revisions AS newest"
    f" WHERE newest.revision >= names.number * {1 << SHIFT}"
    f" AND newest.revision < (names.number + 1) * {1 << SHIFT}"
    " ORDER BY newest.revision DESC LIMIT 1)"
    " LEFT JOIN origins ON origins.origin = revisions.origin"
)


# How many bytes of a value are in an index: PostgreSQL's takes no more than 2,704.
INDEXED_SIZE = 200


def _index_start(column: str) -> str:
    return f"substr({column}, 1, {INDEXED_SIZE})"


def _list_columns(table: str, columns: tuple[str, ...] | None = None) -> str:
    return ", ".join(columns or TABLES[table].column_names)


class SqlBlock(SequentialBlock):
    """
    What blocks of all SQL backends do alike: *run* gives the cursor of a statement with
    its parameters, and *run_each* that for each of several.
    """

    __slots__ = ()

    dialect: ClassVar[Dialect]
    run: Callable[..., Any]

    def run_each(self, sql: str, each: Sequence[Sequence[Any]]) -> Iterator[Any]:
        return (self.run(sql, parameters) for parameters in each)

    def get(
        self, table: str, key: Key, columns: tuple[str, ...] | None = None
    ) -> Row | None:
        row: Row | None = self.run(self.dialect.get(table, columns), (key,)).fetchone()
        return row

    def scan(
        self,
        table: str,
        low: Key | None,
        high: Key | None,
        *,
        columns: tuple[str, ...] | None = None,
        limit: int | None = None,
        backwards: bool = False,
    ) -> list[Row]:
        shape = low is not None, high is not None, limit is not None, backwards
        sql = self.dialect.scan(table, columns, shape)
        # All at once: a cursor in the middle would keep a connection open.
        rows: list[Row] = self.run(
            sql, [value for value in (low, high, limit) if value is not None]
        ).fetchall()
        return rows

    def scan_heads(self, low: str, high: str | None, limit: int) -> list[Row]:
        sql = self.dialect.scan_heads(high is not None)
        ends = (low, limit) if high is None else (low, high, limit)
        rows: list[Row] = self.run(sql, ends).fetchall()
        return rows

    def get_head(self, name: str) -> Row | None:
        row: Row | None = self.run(self.dialect.get_head(), (name,)).fetchone()
        return row

    def find(
        self,
        table: str,
        column: str,
        values: Collection[Any],
        low: Key | None = None,
        high: Key | None = None,
    ) -> list[Key]:
        sql = self.dialect.find(table, column, low is not None, high is not None)
        parameters = [[value] for value in values]
        if column == TABLES[table].indexed:
            parameters = [[value[:INDEXED_SIZE], value] for value in values]

        ends = [key for key in (low, high) if key is not None]
        parameters = [[*each, *ends] for each in parameters]
        found = {
            key for each in self.run_each(sql, parameters) for (key,) in each.fetchall()
        }
        return sorted(found)

    def remove(self, table: str, low: Key | None, high: Key | None) -> int:
        ends = [key for key in (low, high) if key is not None]
        count: int = self.run(self.dialect.remove(table, low, high), ends).rowcount
        return count

    def new_number(self) -> int:
        number: int
        sql = "UPDATE numbers SET last = last + 1 RETURNING last"
        (number,) = self.run(sql).fetchone()
        if not 0 < number <= MAX_NUMBER:
            raise DamagedRow(f"{shorten_repr(number, 40)} is no number of a branch")

        return number
