"""Promises about rows: what the verbs of a backend do, one table at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise, product
from threading import Thread
from typing import Any

import pytest

from conversation_state.store import Store
from conversation_state.store.backend import TABLES, Backend, ConflictError, Writing
from conversation_state.store.backends.memory import MemoryBackend
from tests.store.promises.case import (
    Reopen,
    StoreCase,
    read_rows,
)


def make_row(table: str, **values: Any) -> tuple[Any, ...]:
    """A row with some *values*, and with 0 and empty texts elsewhere."""
    empty = {"integer": 0, "text": "", "bytes": b""}
    columns = (TABLES[table].key, *TABLES[table].columns)
    return tuple([values.get(each.name, empty[each.type]) for each in columns])


def sample_row(table: str, at: int) -> tuple[Any, ...]:
    values = {
        "integer": 2**40 + at,
        "text": f"text {at} é\U0001f600",
        "bytes": b"\x00bytes %d\x00\xff" % at,
    }
    columns = (TABLES[table].key, *TABLES[table].columns)
    return tuple(
        [None if each.is_null and at == 1 else values[each.type] for each in columns]
    )


def _in_each_table(
    change: Callable[[Writing, str, list[Any]], object],
) -> Callable[[Backend], None]:
    """
    A function that calls *change* for each table, with the keys of the sample rows.
    """

    def change_all(backend: Backend) -> None:
        for name in TABLES:
            keys = sorted([sample_row(name, at)[0] for at in range(3)])
            with backend.writing() as rows:
                change(rows, name, keys)

    return change_all


_add = _in_each_table(
    lambda rows, name, _: rows.add(name, [sample_row(name, at) for at in range(3)])
)


@_in_each_table
def _set_columns(rows: Writing, name: str, keys: list[Any]) -> None:
    columns = [each.name for each in TABLES[name].columns]
    rows.set(name, keys[0], **dict(zip(columns, sample_row(name, 2)[1:], strict=True)))


_remove = _in_each_table(lambda rows, name, keys: rows.remove(name, *keys[:2]))


def _raise_in_block(backend: Backend) -> None:
    with suppress(InterruptedError), backend.writing() as rows:
        rows.remove("branches", None, None)
        rows.add("branches", [(7, 0, 0)])
        raise InterruptedError


def _scrub_and_vacuum(backend: Backend) -> None:
    _remove(backend)
    backend.scrub()
    backend.vacuum()
    backend.scrub()


CHANGES: dict[str, Callable[[Backend], None]] = {
    "add": lambda _backend: None,
    "set": _set_columns,
    "remove": _remove,
    "remove_each": _in_each_table(
        lambda rows, name, keys: rows.remove_each(name, [*pairwise(keys)])
    ),
    "remove all": _in_each_table(lambda rows, name, _: rows.remove(name, None, None)),
    "a block that raises": _raise_in_block,
    "scrub and vacuum": _scrub_and_vacuum,
}


class RowPromises(StoreCase):
    """Blocks, ranges and numbers follow the protocol."""

    @pytest.mark.parametrize("change", CHANGES)
    def test_rows_are_kept(self, reopen: Reopen, change: str) -> None:
        """
        Every row of every table is as it should be after each kind of change, and after
        reopening.
        """
        # Rows that were not changed would be kept, too: the same changes of a backend
        # that this library tests say what there should be.
        store, expected = reopen(None), MemoryBackend()
        for backend in (store._cache.backend, expected):
            _add(backend)
            CHANGES[change](backend)

        before = read_rows(store._cache.backend)
        after = read_rows(reopen(store)._cache.backend)

        assert read_rows(expected) == before
        assert before == after

    def test_numbers_are_kept(self, reopen: Reopen) -> None:
        """
        A number is never given twice: not after its row was removed, and not after the
        store was opened again.
        """
        store, seen = reopen(None), [0]
        with store._cache.backend.writing() as rows:
            rows.add("starts", [(b"stays", 1)])

        # A backend that takes the largest number there is forgets it with the row, and
        # one that counts in memory forgets it when it is closed.
        for maintain in (None, "scrub", "vacuum", None):
            backend = store._cache.backend
            with backend.writing() as rows:
                seen += [rows.new_number(), rows.new_number()]
                rows.add("branches", [(seen[-1], 0, 0)])

            with backend.writing() as rows:
                rows.remove("branches", None, None)

            if maintain is not None:
                getattr(backend, maintain)()

            store = reopen(store)

        assert sorted(set(seen)) == seen

    def test_block_is_all_or_nothing(self, store: Store) -> None:
        """A block that raises has changed nothing."""
        backend = store._cache.backend
        with backend.writing() as block:
            block.add("branches", [(1, 0, 0), (2, 1, 5), (3, 1, 7)])

        def change() -> None:
            with backend.writing() as rows:
                rows.add("branches", [(4, 0, 0)])
                rows.set("branches", 2, start=9)
                assert 1 == rows.remove("branches", 3, 4)
                keys = rows.scan("branches", None, None, columns=("branch",))
                assert [(1,), (2,), (4,)] == keys
                raise InterruptedError

        with pytest.raises(InterruptedError):
            change()

        with backend.reading() as rows:
            there = rows.scan("branches", None, None)

        assert [(1, 0, 0), (2, 1, 5), (3, 1, 7)] == there

    def test_conflicts(self, store: Store) -> None:
        """Rows are added on condition, and a conflict undoes the whole block."""
        backend = store._cache.backend
        with backend.writing() as rows:
            rows.add("starts", [(b"a", 1)])

        def add(*added: tuple[bytes, int], **conditions: Any) -> None:
            with backend.writing() as rows:
                rows.add("starts", [(b"x", 1)])
                rows.add("starts", added, **conditions)

        # The block has added a row before its conflict: that has to go, too.
        a, b, c = [("starts", key) for key in (b"a", b"b", b"c")]
        for conditions in (
            {"if_exists": [b]},
            {"if_absent": [a]},
            {"if_exists": [a, b]},
            {"if_exists": [a], "if_absent": [c, a]},
        ):
            with pytest.raises(ConflictError):
                add((b"y", 2), **conditions)

        with pytest.raises(ConflictError):
            add((b"y", 2), (b"a", 2))

        with backend.writing() as rows:
            rows.add("starts", [(b"c", 3)], if_exists=[("starts", b"a")])
            assert [(b"a", 1), (b"c", 3)] == rows.scan("starts", None, None)

    def test_ranges(self, store: Store) -> None:
        """
        Ranges include their lower end and exclude their upper end, for integers, texts
        and bytes in any order.
        """
        backend = store._cache.backend
        # In the order of UTF-16, which some databases and languages sort by, U+1F600
        # comes before U+FFFF; and some are equal for databases that trim, fold or
        # compose texts.
        names = ["b", "a", "é", "e\u0301", "Z", "z", "a ", "\U0001f600", "\uffff"]
        with backend.writing() as rows:
            rows.add("branches", [(i, 0, i % 2) for i in (1 << 62, 2, 5, 3)])
            rows.add("names", [make_row("names", name=name) for name in names])
            rows.add("starts", [(b"\xff", 1), (b"", 2), (b"a\0", 3), (b"a", 4)])

        with backend.reading() as rows:
            keys = ("branch",)
            assert [(2,), (3,)] == rows.scan("branches", 2, 5, columns=keys)
            assert [(1 << 62,), (5,)] == rows.scan(
                "branches", 3, None, columns=keys, limit=2, backwards=True
            )
            assert [(2,)] == rows.scan("branches", None, 5, columns=keys, limit=1)
            found = [row[0] for row in rows.scan("names", None, None)]
            assert sorted(names) == found
            assert [b"", b"a", b"a\0", b"\xff"] == [
                key for key, _ in rows.scan("starts", None, None)
            ]
            assert [3, 5] == rows.find("branches", "start", [1])
            assert [2, 3, 5, 1 << 62] == rows.find("branches", "start", [1, 0, 1])
            assert [5] == rows.find("branches", "start", [7, 1], 4)
            assert [] == rows.find("branches", "start", [])
            assert (5, 1) == rows.get("branches", 5, ("branch", "start"))
            assert rows.get("branches", 4) is None

        with backend.writing() as rows:
            assert 1 == rows.remove("starts", None, b"a")
            assert 2 == rows.remove("starts", b"a\0", None)
            assert [(b"a", 4)] == rows.scan("starts", None, None)

    def test_columns(self, store: Store) -> None:
        """
        Columns are returned in the order in which they are asked for, those without a
        value as None.
        """
        backend = store._cache.backend
        with backend.writing() as rows:
            rows.add("origins", [(7, b"id", None, b"root", 1, 2)])

        columns = ("root", "parent", "origin")
        expected = (b"root", None, 7)
        with backend.reading() as rows:
            assert expected == rows.get("origins", 7, columns)
            assert (None,) == rows.get("origins", 7, ("parent",))
            assert [expected] == rows.scan("origins", None, None, columns=columns)
            found = rows.scan_each("origins", [(7, 8)], columns=columns)
            assert [[expected]] == found

    def test_heads(self, store: Store) -> None:
        """
        Names come with their newest revision and the origin of that, a page at a time;
        what is not there is None.
        """
        backend = store._cache.backend
        names = [make_row("names", name=each, number=i) for i, each in enumerate("abc")]
        revisions = [
            make_row("revisions", revision=(number << 32) + at, origin=origin)
            for number, at, origin in ((0, 1, 7), (0, 2, 7), (1, 1, 6))
        ]
        origin = (7, b"id", None, b"root", 1, 2)
        with backend.writing() as rows:
            rows.add("names", names)
            rows.add("revisions", revisions)
            rows.add("origins", [origin])

        # None, and not left out: a store has to notice that rows are missing.
        none = [None] * len(revisions[0]), [None] * len(origin)
        first, second, third = expected = [
            (*names[0], *revisions[1], *origin),
            (*names[1], *revisions[2], *none[1]),
            (*names[2], *none[0], *none[1]),
        ]
        with backend.reading() as rows:
            assert [first] == rows.scan_heads("", None, 1)
            assert expected == rows.scan_heads("", None, 9)
            assert [second] == rows.scan_heads("aa", "c", 9)
            assert [third] == rows.scan_heads("c", None, 9)

    def test_head(self, store: Store) -> None:
        """
        One name comes with its newest revision, the origin of that, where its logs
        begin and what they end with, and the last change; what is not there is None.
        """
        backend = store._cache.backend
        names = [make_row("names", name=each, number=i) for i, each in enumerate("abc")]
        logs = {"branch": 3, "length": 7, "ledger_branch": 4, "ledger_length": 2}
        revisions = [
            make_row("revisions", revision=1, origin=7),
            make_row("revisions", revision=2, origin=7, **logs),
            make_row("revisions", revision=(1 << 32) + 1, origin=6),
        ]
        origin = (7, b"id", None, b"root", 1, 2)
        with backend.writing() as rows:
            rows.add("names", names)
            rows.add("revisions", revisions)
            rows.add("origins", [origin])
            rows.add("branches", [(3, 2, 5), (4, 0, 0)])
            for table, last in ("entries", (3 << 32) + 6), ("ledger", (4 << 32) + 1):
                ends = [make_row(table, place=last + at) for at in (-1, 1)]
                end = make_row(table, place=last, digest=table.encode())
                rows.add(table, [*ends, end])

        none = [None] * len(revisions[0]), [None] * len(origin), [None] * 6
        whole = (*names[0], *revisions[1], *origin, 2, 5, 0, 0, b"entries", b"ledger")
        with backend.reading() as rows:
            assert (*whole, None) == rows.get_head("a")
            assert (*names[1], *revisions[2], *none[1], *none[2], None) == (
                rows.get_head("b")
            )
            assert (*names[2], *none[0], *none[1], *none[2], None) == rows.get_head("c")
            assert rows.get_head("aa") is None
            assert rows.get_head("") is None

        with backend.writing() as rows:
            rows.add("changes", [make_row("changes", number=at) for at in (1, 2)])

        with backend.reading() as rows:
            assert (*whole, 2) == rows.get_head("a")

    def test_reads_one_moment(self, store: Store) -> None:
        """
        A block that reads sees the rows of one moment, also while others write; they
        may have to wait for its end.
        """
        backend = store._cache.backend

        def add(branch: int) -> None:
            with backend.writing() as rows:
                rows.add("branches", [(branch, 0, 0)])

        add(1)
        other = Thread(target=add, args=(2,))
        with backend.reading() as rows:
            before = rows.scan("branches", None, None)
            other.start()
            # By now the other thread has written, or it waits until this block ends.
            other.join(0.1)

            assert [(1, 0, 0)] == before == rows.scan("branches", None, None)
            assert rows.get("branches", 2) is None

        other.join(30)
        with backend.reading() as rows:
            assert [(1, 0, 0), (2, 0, 0)] == rows.scan("branches", None, None)

    def test_writes_as_if_alone(self, store: Store) -> None:
        """
        Of two blocks that change what they have read, one waits for the other, or is
        refused with a conflict: neither change is lost.
        """
        backend = store._cache.backend
        with backend.writing() as rows:
            rows.add("branches", [(1, 0, 0)])

        conflicts: list[ConflictError] = []

        def count(meanwhile: Callable[[], object]) -> None:
            try:
                with backend.writing() as rows:
                    row = rows.get("branches", 1)
                    assert row is not None
                    meanwhile()
                    rows.set("branches", 1, start=row[2] + 1)
            except ConflictError as error:
                conflicts.append(error)

        other = Thread(target=count, args=(bool,))

        def start_other() -> None:
            other.start()
            # By now the other thread has written, or it waits until this block ends.
            other.join(0.1)

        count(start_other)
        other.join(30)
        with backend.reading() as reading:
            assert (1, 0, 2 - len(conflicts)) == reading.get("branches", 1)

        assert 2 > len(conflicts)

    def test_many_ranges(self, store: Store) -> None:
        """
        Many ranges are returned and removed, each as if it were alone; no ranges
        are not rows.
        """
        backend = store._cache.backend
        with backend.writing() as rows:
            rows.add("branches", [(i, 0, i % 2) for i in range(1, 2_001)])
            rows.add("starts", [(b"a", 1), (b"a\0", 2), (b"b", 3)])

        ranges = [(i, i + 3) for i in range(1, 2_001, 2)]
        with backend.reading() as rows:
            # Some databases return a page of a thousand rows, or take no more
            # parameters.
            assert 2_000 == len(rows.scan("branches", None, None))
            found = rows.scan_each("branches", ranges, columns=("branch",), limit=2)
            assert [[(i,), (i + 1,)] for i in range(1, 2_001, 2)] == found
            assert [] == rows.scan_each("branches", [])
            assert [[], [(b"a", 1)]] == rows.scan_each(
                "starts", [(b"c", b"d"), (b"a", b"a\0")]
            )

        with backend.writing() as rows:
            assert 0 == rows.remove_each("branches", [])
            assert 1_500 == rows.remove_each(
                "branches", [(i, i + 1) for i in range(1, 2_001) if i % 4]
            )
            assert 1 == rows.remove_each("starts", [(b"a\0", b"b"), (b"x", b"y")])

        with backend.reading() as rows:
            keys = rows.scan("branches", None, None, columns=("branch",))
            assert [(i,) for i in range(4, 2_001, 4)] == keys

    def test_all_tables(self, store: Store) -> None:
        """
        Every table takes all values that its columns allow, including the largest and
        the empty ones.
        """
        # Spaces at either end and decomposed letters are what some databases remove,
        # and an empty text what some take for NULL.
        largest: dict[str, Any] = {
            "integer": 2**63 - 1,
            "text": " \U0001f600'\"%?e\u0301 ",
            "bytes": b"\0\xff\0 ",
        }
        least: dict[str, Any] = {"integer": 0, "text": "", "bytes": b""}
        backend = store._cache.backend
        for table, values in product(TABLES.values(), (largest, least)):
            row = tuple([values[column.type] for column in (table.key, *table.columns)])
            nulls = tuple(
                None if column.is_null else value
                for column, value in zip(table.columns, row[1:], strict=True)
            )
            with backend.writing() as rows:
                rows.add(table.name, [row])
                assert row == rows.get(table.name, row[0])
                changed = {c.name: v for c, v in zip(table.columns, nulls, strict=True)}
                rows.set(table.name, row[0], **changed)
                assert (row[0], *nulls) == rows.get(table.name, row[0])
                rows.remove(table.name, None, None)

    def test_large_values(self, store: Store) -> None:
        """
        Values are kept whole: of two megabytes, in a text as long as any message; and
        keys that differ only in their last character are two.
        """
        backend = store._cache.backend
        large = bytes(range(256)) * 2**13
        names = ["\U0001f600" * 499 + last for last in "ab"]
        labels = [name.encode() for name in names]
        change = (1, b"id", b"", "\u00e9" * 100_000, 0, b"seal")
        with backend.writing() as rows:
            rows.add("entries", [(1, b"id", large, None, b"digest", 0)])
            rows.add("blobs", [(b"digest", len(large), large)])
            rows.add("records", [(b"key", large, 0, 0, b"", b"seal")])
            rows.add("changes", [change])
            for at, (name, label) in enumerate(zip(names, labels, strict=True), 1):
                rows.add("names", [make_row("names", name=name)])
                rows.add("labels", [(label, 1)])
                found = rows.scan("names", None, None, columns=("name",))
                assert [(each,) for each in names[:at]] == found
                found = rows.scan("labels", None, None, columns=("label",))
                assert [(each,) for each in labels[:at]] == found

        with backend.reading() as rows:
            assert (large,) == rows.get("entries", 1, ("body",))
            assert (large,) == rows.get("blobs", b"digest", ("data",))
            assert (large,) == rows.get("records", b"key", ("value",))
            assert change == rows.get("changes", 1)
