"""The store in PostgreSQL keeps every promise of a store."""

import inspect

import psycopg
import pytest
from hypothesis import settings

from conversation_state.store import Store
from conversation_state.store.backend import TABLES
from conversation_state.store.backends._postgres import PostgresBackend
from conversation_state.store.backends._postgres_server import Address
from tests.profiles import is_thorough
from tests.store import server as servers
from tests.store.machine import StoreMachine
from tests.store.promises.contract import StorePromises

pytestmark = pytest.mark.integration


class OnServer:
    """
    A schema for each folder; emptied and used again, for making one takes the
    server longer than most tests.
    """

    # Each call of the same statements fails in SQLite; here, in `make fuzz`.
    stride = 1 if is_thorough() else 2

    @pytest.fixture(autouse=True)
    def _clear_after(self):
        self._schemas = {}
        yield
        self._clear_schemas()

    def _clear_schemas(self):
        for schema in self._schemas.values():
            EMPTY.give_back(schema)

        self._schemas.clear()

    def url(self, folder):
        if folder not in self._schemas:
            self._schemas[folder] = EMPTY.take()

        return servers.server().url(self._schemas[folder])

    def backend(self, folder):
        return PostgresBackend(Address.of(self.url(folder)))


class Empty:
    """Schemas that nothing is saved in, some of which had been used before."""

    def __init__(self):
        self._made = 0
        self._free = []
        self._connection = None

    def take(self):
        if self._free:
            return self._free.pop()

        self._made += 1
        return f"empty_{self._made}"

    def give_back(self, schema):
        tables = [f"{schema}.{table}" for table in TABLES]
        clear = "; ".join([f"DELETE FROM {table}" for table in tables])
        connection = self._connect()
        connection.execute(f"{clear}; UPDATE {schema}.numbers SET last = 0")
        self._free.append(schema)

    def _connect(self):
        """A connection that stays: a new one reads the catalogue of all tables."""
        if self._connection is None:
            dsn = servers.server().dsn()
            self._connection = psycopg.connect(dsn, autocommit=True)

        return self._connection

    def close(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None


EMPTY = Empty()


@pytest.fixture(autouse=True, scope="module")
def _close_after():
    yield
    EMPTY.close()


class TestPostgres(OnServer, StorePromises):
    """What every store promises."""


class TestSeveralConnections(OnServer, StorePromises):
    """
    The same where each store has connections of its own, as processes have: what asks
    for another store.
    """

    def other(self, store, *, remembered=100):
        (folder,) = self._schemas
        return Store(self.backend(folder), remembered=remembered)


# All else would be the very tests of `TestPostgres`; and whether an append is a save,
# for any steps, is asked there, and of several files: here it would open a thousand
# connections.
TestSeveralConnections.test_is_a_save = None  # type: ignore[assignment]
for _name in dir(StorePromises):
    if _name.startswith("test_") and "self.other(" not in inspect.getsource(
        getattr(StorePromises, _name)
    ):
        setattr(TestSeveralConnections, _name, None)


class PostgresMachine(StoreMachine):
    def opened(self):
        self._schema = EMPTY.take()
        url = servers.server().url(self._schema)
        return [
            Store(PostgresBackend(Address.of(url)), remembered=remembered)
            for remembered in (100, 1, 0)
        ]

    def teardown(self):
        super().teardown()
        EMPTY.give_back(self._schema)


TestMachine = PostgresMachine.TestCase
TestMachine.settings = settings(
    stateful_step_count=30, max_examples=max(settings().max_examples // 5, 1)
)
