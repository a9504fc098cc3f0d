"""
A small honest backend: rows in memory, and a journal of what changed in a file.

What a stranger's backend may look like, to begin one of your own from.
"""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conversation_state.store.backend import TABLES
from conversation_state.store.backends.memory import MemoryBackend

__all__ = ["FileBackend"]


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
    def writing(self) -> Iterator[Any]:
        with super().writing() as block:
            recorder = Recorder(block)
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
