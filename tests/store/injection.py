"""A failure at each statement of each step of a store's life."""

import sqlite3
import tempfile
from collections import Counter
from pathlib import Path

from conversation_state import Aggregator, ImagePart, UserMessage
from conversation_state.errors import StoreError, UnknownOutcomeError
from conversation_state.store import Store, open_store
from conversation_state.store.backend import TABLES
from conversation_state.store.backends._sqlite import (
    SqliteBackend,
    SqliteOptions,
)
from tests.store.wire import Wire

__all__ = ["PLAIN", "in_a_file", "on_a_wire"]

PLAIN = "&sslmode=disable&gssencmode=disable"
_CHAT = Aggregator.new().add_user_prompt("When is the next train?")
_LONGER = _CHAT.extend([UserMessage("x")] * 3)
_OTHER = _LONGER.fork(at=2).extend([UserMessage("y")] * 50)
_SHOWN = _OTHER.add(UserMessage([ImagePart(data=bytes(range(256)) * 40)]))
_MORE = _SHOWN.add_user_prompt("more")

STEPS = (
    lambda store: store.save("chat", _LONGER),
    lambda store: store.save("chat", _LONGER.add_user_prompt("more")),
    lambda store: store.save("other", _OTHER, label="kept"),
    lambda store: store.save("other", _SHOWN),
    lambda store: store.fork("chat", "third"),
    lambda store: store.label("chat", "here"),
    lambda store: store.erase(_LONGER.entries[1].id, reason="asked"),
    lambda store: store.save("other", _MORE),
    lambda store: store.delete("other"),
    lambda store: store.collect_garbage(),
)


def seen(store):
    """All that users see of a store, but for ids and times."""
    return {
        name: [
            (head.labels, [str(message) for message in store.load(name, at=head)])
            for head in store.history(name)
        ]
        for name in store.names()
    }


def rows_of(store):
    """All rows of all tables."""
    with store._cache.backend.reading() as rows:
        return {table: rows.scan(table, None, None) for table in TABLES}


def each_step(store, direct, arm, found):
    """
    Take each step, failing at its first statement, its second, ... until none
    is left; and count what came of it.
    """
    for step in STEPS:
        at, before, is_done = 0, seen(direct), False
        rows = rows_of(direct)
        while not is_done:
            is_armed, outcome = arm(at), "saves"
            try:
                step(store)
            except UnknownOutcomeError:
                outcome = "unknown"
            except StoreError:
                outcome = "failures"

            found[outcome] += 1
            # Where all rows are as they were there is nothing else to be seen.
            is_changed = False
            if rows_of(direct) != rows:
                is_changed = seen(direct) != before
                found["damaged"] += len(direct.verify())

            if outcome == "saves":
                is_done = True
                is_collecting = "garbage" in str(step.__code__.co_names)
                found["lost"] += not is_changed and not is_collecting
            elif outcome == "unknown":
                is_done = is_changed
            else:
                # Also where files are scrubbed after it: what was done is not a
                # failure.
                found["lost"] += is_changed

            # Where nothing failed although it should have, there was no such
            # statement.
            is_done = is_done or not is_armed()
            at += 1


def on_a_wire(server, url):
    """
    The connection is cut, before the server gets a statement or after it executed it.
    """
    found = Counter(processes=1)
    for is_after in (False, True):
        here = url.replace("?schema=", f"?schema=cut_{int(is_after)}_")
        with Wire(server.port) as wire, open_store(here) as direct:
            there = here.replace(f":{server.port}/", f":{wire.port}/") + PLAIN

            def arm(at, wire=wire, is_after=is_after):
                wire.cut(at, is_after=is_after)
                return lambda: wire.is_cut

            with open_store(there) as store:
                each_step(store, direct, arm, found)
                wire.mend()

    return found


class _Failing:
    """A connection whose statement number *left* fails, before it is done."""

    def __init__(self, connection, state):
        self._connection, self._state = connection, state

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def _count_down(self):
        self._state["left"] -= 1
        if self._state["left"] == -1:
            raise sqlite3.OperationalError("disk I/O error")

    def execute(self, *given):
        self._count_down()
        return self._connection.execute(*given)

    def executemany(self, *given):
        self._count_down()
        return self._connection.executemany(*given)


class _FailingBackend(SqliteBackend):
    def __init__(self, path, state):
        self._state = state
        super().__init__(path, SqliteOptions())

    def _open_connection(self):
        return _Failing(super()._open_connection(), self._state)


def in_a_file():
    """SQLite itself fails, before a statement is done."""
    found, state = Counter(processes=1), {"left": -1}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chats.db"

        def arm(at):
            state["left"] = at
            return lambda: state["left"] < 0

        with (
            open_store(f"sqlite:///{path}") as direct,
            Store(_FailingBackend(str(path), state)) as store,
        ):
            each_step(store, direct, arm, found)
            state["left"] = -1

    return found
