"""
A small honest backend: rows in memory, and a journal of what changed in a file.

What the contract of stores is held against: every promise is kept by it, and
each way to break one (`FAULTS`) is caught.
"""

import copy
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conversation_state.store.backend import TABLES, ConflictError
from conversation_state.store.backends.memory import MemoryBackend
from conversation_state.store.schema import Revision, sealed

__all__ = ["FAULTS", "FileBackend"]


class Recorder:
    """A block that notes what it changes, to be written when it has ended."""

    def __init__(self, block: Any) -> None:
        self._block = block
        self.changes: list[tuple[Any, ...]] = []

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._block, verb)

    def add(self, table, rows, **conditions):
        # As a column of a database that has room for the longest name, and no more.
        keys = [row[0] for row in rows if isinstance(row[0], str)]
        assert max(map(len, keys), default=0) <= 500
        self._block.add(table, rows, **conditions)
        self.changes.append(("add", table, list(rows)))

    def set(self, table, key, **values):
        self._block.set(table, key, **values)
        self.changes.append(("set", table, key, values))

    def remove(self, table, low, high):
        self.changes.append(("remove", table, low, high))
        return self._block.remove(table, low, high)

    def remove_each(self, table, ranges):
        self.changes += [("remove", table, *ends) for ends in ranges]
        return self._block.remove_each(table, ranges)

    def new_number(self):
        number = self._block.new_number()
        self.changes.append(("number", number))
        return number


class FileBackend(MemoryBackend):
    """Tables in memory, a journal of their changes in a folder."""

    recorder = Recorder

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.url = f"file:{folder}"
        self.path = Path(folder) / "journal"
        if self.path.exists():
            with self.path.open("rb") as journal:
                self.read(journal)

    def read(self, journal):
        """Do what a journal says was done."""
        while True:
            try:
                changes = pickle.load(journal)
            except EOFError:
                return

            with super().writing() as block:
                for verb, *given in changes:
                    self.replay(block, verb, given)

    def replay(self, block, verb, given):
        """Do one change of a journal."""
        if verb == "number":
            self._number = max(self._number, *given)
        elif verb == "set":
            table, key, values = given
            block.set(table, key, **values)
        else:
            getattr(block, verb)(*given)

    @contextmanager
    def writing(self) -> Iterator[Any]:  # type: ignore[override]  # by a generator
        recorder = None
        with super().writing() as block:
            recorder = self.recorder(block)
            yield recorder

        self.write(recorder.changes)

    def write(self, changes, mode="ab"):
        """Write changes to the journal, at once."""
        if changes:
            with self.path.open(mode) as journal:
                pickle.dump(list(changes), journal)

    def scrub(self):
        self.rewrite()

    def vacuum(self):
        self.rewrite()

    def rewrite(self):
        """Write what there is, and nothing that was."""
        with self.reading() as block:
            rows = {name: block.scan(name, None, None) for name in TABLES}

        changes = [("add", name, there) for name, there in rows.items() if there]
        self.write([*changes, ("number", self._number)], mode="wb")


# Faults, each a class that differs from the honest one in a line or two.

Fault = type[FileBackend]
FAULTS: dict[str, Fault] = {}


def fault(what: str) -> Callable[[Fault], Fault]:
    """Name a fault."""

    def add(kind: Fault) -> Fault:
        FAULTS[what] = kind
        return kind

    return add


def without(*verbs: str) -> type[Recorder]:
    """A recorder that forgets to note some changes."""

    class Forgetful(Recorder):
        def __init__(self, block: Any) -> None:
            super().__init__(block)
            self.changes = Kept()

    class Kept(list[Any]):
        def append(self, change):
            if change[0] not in verbs and change[1] not in verbs:
                super().append(change)

        def __iadd__(self, changes):  # type: ignore[misc]  # no list but itself
            for change in changes:
                self.append(change)

            return self

    return Forgetful


def forgetting(*what: str) -> Fault:
    """A backend that does not write some changes, or those of some tables."""
    return type("Forgetting", (FileBackend,), {"recorder": without(*what)})


FAULTS["forgets numbers"] = forgetting("number")
FAULTS["forgets deletions"] = forgetting("remove")
FAULTS["forgets changes of rows"] = forgetting("set")
FAULTS["forgets new rows"] = forgetting("add")
for _table in (
    *("blobs", "changes", "labels", "moments", "origins", "records", "timelines"),
    "uses",
):
    FAULTS[f"forgets the table {_table}"] = forgetting(_table)


@fault("does not scrub")
class NoScrub(FileBackend):
    def scrub(self):
        pass


@fault("does not vacuum")
class NoVacuum(FileBackend):
    def vacuum(self):
        pass


@fault("a vacuum forgets numbers")
class VacuumForgetsNumbers(FileBackend):
    def write(self, changes, mode="ab"):
        super().write([c for c in changes if mode == "ab" or c[0] != "number"], mode)


@fault("a scrub leaves a copy")
class ScrubLeavesACopy(FileBackend):
    def scrub(self):
        self.path.with_name("old").write_bytes(self.path.read_bytes())
        super().scrub()


def keeping(what: str) -> Fault:
    """A backend with a log of what was set in a table, which is never compacted."""

    class Keeping(FileBackend):
        def write(self, changes, mode="ab"):
            super().write(changes, mode)
            kept = [each for each in changes if each[:2] == ("set", what)]
            with self.path.with_name("log").open("ab") as log:
                pickle.dump(kept, log)

    return Keeping


FAULTS["keeps what was set of names"] = keeping("names")
FAULTS["keeps what was set of revisions"] = keeping("revisions")


@fault("writes blocks that raised")
class WritesFailedBlocks(FileBackend):
    @contextmanager
    def writing(self) -> Iterator[Any]:  # type: ignore[override]  # as above
        recorder = None
        try:
            with MemoryBackend.writing(self) as block:
                recorder = self.recorder(block)
                yield recorder
        finally:
            self.write([] if recorder is None else recorder.changes)


@fault("loses the last block")
class LosesTheLast(FileBackend):
    waiting: list[Any] = []  # noqa: RUF012 - a fault

    def write(self, changes, mode="ab"):
        if mode == "wb":
            self.waiting = []
            super().write(changes, mode)
        else:
            late, self.waiting = self.waiting, changes
            super().write(late, mode)


@fault("writes only one of several blocks")
class WritesNotAll(FileBackend):
    written = 0

    def write(self, changes, mode="ab"):
        self.written += 1
        if mode == "wb" or self.written % 3:
            super().write(changes, mode)


@fault("gives numbers of removed rows again")
class NumbersOfRows(FileBackend):
    def new_number(self):
        rows = self.tables["branches"].rows
        return max(rows, default=0) + 1


def wrong(what: str, **verbs: Callable[..., Any]) -> None:
    """Name a fault of blocks."""
    recorder = type("Wrong", (Recorder,), verbs)

    @contextmanager
    def reading(self):
        with MemoryBackend.reading(self) as block:
            yield recorder(block)

    faulty = {"recorder": recorder, "reading": reading}
    FAULTS[what] = type("Faulty", (FileBackend,), faulty)


def _add_unconditionally(self, table, rows, **_conditions):
    Recorder.add(self, table, rows)


def _add_over(self, table, rows, **conditions):
    for row in rows:
        self._block.remove(table, row[0], _next_key(row[0]))

    Recorder.add(self, table, rows, **conditions)


def _next_key(key):
    if isinstance(key, int):
        return key + 1

    return key + ("\0" if isinstance(key, str) else b"\0")


def _scan_to_the_end(self, table, low, high, **options):
    if high is not None:
        high = _next_key(high)

    return self._block.scan(table, low, high, **options)


def _scan_forwards(self, table, low, high, *, backwards=False, **options):
    assert backwards is not None
    return self._block.scan(table, low, high, **options)


def _find_first(self, table, column, value):
    return self._block.find(table, column, value)[:1]


def _remove_each_first(self, table, ranges):
    return Recorder.remove_each(self, table, list(ranges)[:1])


def _add_without_parent(self, table, rows, **conditions):
    if table == "revisions":
        rows = [sealed(Revision._make(row)._replace(parent=0)) for row in rows]

    Recorder.add(self, table, rows, **conditions)


def _set_no_notes(self, table, key, **values):
    if "notes" not in values:
        Recorder.set(self, table, key, **values)


wrong("forgets notes", set=_set_no_notes)


def _first_revisions(self, low, high, limit):
    rows = []
    for name in self.scan("names", low, high, limit=limit):
        revision = self._block.get("revisions", (name[1] << 32) + 1)
        origin = self._block.get("origins", Revision._make(revision).origin)
        rows.append((*name, *revision, *origin))

    return rows


wrong("heads are first revisions", scan_heads=_first_revisions)
wrong("forgets what revisions grew from", add=_add_without_parent)
wrong("adds without conditions", add=_add_unconditionally)
wrong("adds over what is there", add=_add_over)
wrong("scans past the end", scan=_scan_to_the_end)
wrong("scans forwards only", scan=_scan_forwards)
wrong("finds one row", find=_find_first)
wrong("removes the first range only", remove_each=_remove_each_first)


def _get_in_order(self, table, key, columns=None):
    if columns is not None:
        columns = tuple(sorted(columns, key=TABLES[table].column_names.index))

    return self._block.get(table, key, columns)


def _add_converted(kind, convert, start=1, end=None):
    def add(self, table, rows, **conditions):
        columns = range(len(TABLES[table].columns) + 1)[start:end]
        changed = [
            tuple(
                [
                    convert(each) if at in columns and isinstance(each, kind) else each
                    for at, each in enumerate(row)
                ]
            )
            for row in rows
        ]
        Recorder.add(self, table, changed, **conditions)

    return add


wrong("gets columns in the table's order", get=_get_in_order)
wrong("trims texts", add=_add_converted(str, str.rstrip))
wrong("cuts keys off", add=_add_converted(str, lambda text: text[:255], 0, 1))
wrong("cuts bytes off", add=_add_converted(bytes, lambda data: data[:65_535]))


@fault("takes no turns")
class TakesNoTurns(FileBackend):
    """Each block has a copy of the tables, and puts it in their place."""

    def _copy_rows(self):
        block = MemoryBackend()
        with MemoryBackend.reading(self):
            block.tables = copy.deepcopy(self.tables)

        return block

    @contextmanager
    def reading(self) -> Iterator[Any]:  # type: ignore[override]  # as above
        with self._copy_rows().reading() as block:
            yield block

    @contextmanager
    def writing(self) -> Iterator[Any]:  # type: ignore[override]  # as above
        made = self._copy_rows()
        made.new_number = self.new_number
        with made.writing() as block:
            recorder = self.recorder(block)
            yield recorder

        with MemoryBackend.reading(self):
            self.tables = made.tables

        self.write(recorder.changes)


@fault("refuses both")
class RefusesBoth(TakesNoTurns):
    """Of blocks that write at one time, none has an effect."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.began = self.open = 0

    @contextmanager
    def writing(self) -> Iterator[Any]:  # type: ignore[override]  # as above
        self.began += 1
        self.open += 1
        number, is_alone = self.began, self.open == 1
        try:
            with super().writing() as block:
                yield block
                if not is_alone or number != self.began:
                    raise ConflictError("another block wrote at this time")
        finally:
            self.open -= 1
