"""Stores of every kind, for the adapters that keep conversations in one."""

from collections.abc import Callable, Iterator

import pytest

from conversation_state.store import Store, open_store
from tests.store import server as servers


class ObjectReader:
    """
    A place for a store, which may be opened, left and opened again.

    Attributes:
        url: Where it is.

        is_kept: Whether it is there when it was closed and is opened again. A
            store that is not is opened once.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_kept = url != "memory:"
        self._open: list[Store] = []

    def open(self) -> Store:
        """A store there, as another process would open it."""
        if self._open and not self.is_kept:
            return self._open[0]

        store = open_store(self.url)
        self._open.append(store)
        return store

    def leave(self) -> None:
        """Close what was opened here, if that does not end it."""
        if self.is_kept:
            self.close()

    def close(self) -> None:
        """Close all that was opened here."""
        while self._open:
            self._open.pop().close()


@pytest.fixture(
    params=[
        *("memory", "sqlite"),
        pytest.param("postgres", marks=pytest.mark.integration),
    ]
)
def place(request, tmp_path) -> Iterator[ObjectReader]:
    """A place for a store, of each kind."""
    if request.param != "postgres":
        urls = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/chats.db"}
        found = ObjectReader(urls[request.param])
        yield found
        found.close()
        return

    server, schema = servers.server(), servers.schema_of(tmp_path)
    found = ObjectReader(server.url(schema))
    yield found
    found.close()
    server.drop(schema)


@pytest.fixture
def store() -> Iterator[Store]:
    """A store in memory, whole at the end."""
    with open_store("memory:") as made:
        yield made
        assert () == made.verify()


@pytest.fixture
def stores(place: ObjectReader) -> tuple[Store, Callable[[], Store]]:
    """A store of each kind, and how to open it once more."""
    return place.open(), place.open
