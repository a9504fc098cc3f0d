"""
What the promises of stores are held against: a store, what opens it again, others over
the same rows, and a backend that reports every call before it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings

from conversation_state.aggregator import Aggregator
from conversation_state.messages import AssistantMessage, UserMessage
from conversation_state.store import Store
from conversation_state.store.backend import TABLES, Backend, Row
from conversation_state.usage import Usage

Reopen = Callable[[Store | None], Store]


class Call(NamedTuple):
    """
    One call of a backend.

    Attributes:
        verb: ``get``, ``add``, ...; ``commit`` before a block that writes ends
            and ``committed`` after it did.

        table: The table, or "".

        rows: How many rows were given.
    """

    verb: str
    table: str = ""
    rows: int = 0


class InjectedError(Exception):
    """A failure on purpose."""


class _RecordedBlock:
    def __init__(self, block: Any, on_call: Callable[[Call], None]) -> None:
        self._block = block
        self._on_call = on_call

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        call = getattr(self._block, verb)

        def recorded_call(*arguments: Any, **options: Any) -> Any:
            table = arguments[0] if arguments else ""
            rows = len(arguments[1]) if verb == "add" else 0
            self._on_call(Call(verb, table, rows))
            return call(*arguments, **options)

        return recorded_call


class RecordingBackend:
    """
    A backend that forwards to another, and reports every call before.

    Args:
        backend: The other backend.

        on_call: Called with each call; what it raises, the call raises.
    """

    def __init__(self, backend: Backend, on_call: Callable[[Call], None]) -> None:
        self.url = backend.url
        self.backend = backend
        self._on_call = on_call

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """A block that reads."""
        with self.backend.reading() as block:
            yield _RecordedBlock(block, self._on_call)

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """A block that writes."""
        with self.backend.writing() as block:
            yield _RecordedBlock(block, self._on_call)
            self._on_call(Call("commit"))

        self._on_call(Call("committed"))

    def scrub(self) -> None:
        """Forward to the other backend."""
        self._on_call(Call("scrub"))
        self.backend.scrub()

    def vacuum(self) -> None:
        """Forward to the other backend."""
        self._on_call(Call("vacuum"))
        self.backend.vacuum()

    def problems(self) -> list[str]:
        """The problems that the other backend finds."""
        self._on_call(Call("problems"))
        return self.backend.problems()

    def close(self) -> None:
        """Leave the other backend open, so that its rows can be checked."""


def failing(backend: Backend, at: int) -> RecordingBackend:
    """
    A backend whose call number *at*, counted from 0 on, fails, and all later
    ones, as if the program had been killed there.
    """
    return RecordingBackend(backend, partial(fail_at, [at]))


def fail_at(left: list[int], call: Call) -> None:
    # The count stays at 0: code that catches the first error must not succeed later.
    if not left[0]:
        raise InjectedError(call)

    left[0] -= 1


def read_rows(backend: Backend) -> dict[str, list[Row]]:
    """All rows of all tables."""
    with backend.reading() as rows:
        return {table: rows.scan(table, None, None) for table in TABLES}


# All examples share one store, and all backends one test; examples are independent of
# each other in both cases.
FOR_EXAMPLES = settings(
    deadline=None,  # a backend may be slow, and so may be making states
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.differing_executors,
        HealthCheck.too_slow,
    ],
)

CONVERSATION = Aggregator.new().add_user_prompt("When is the next train?")
# Beyond the 4,096 bytes from which a part is kept apart from its message.
LARGE = bytes(range(256)) * 40


def append_turns(state: Aggregator, count: int) -> list[Aggregator]:
    """The states after each of *count* more messages with a usage."""
    states = []
    for i in range(count):
        message = UserMessage(f"say {i}") if i % 2 else AssistantMessage(f"said {i}")
        state = state.add(message).add_usage(Usage(i, 1))
        states.append(state)

    return states


class StoreCase:
    """
    What a subclass says of its backend, and the fixtures for stores over it: how to
    make the backend (`backend`), and whether what it keeps is still there when it is
    opened again (`is_kept`). One that keeps its rows elsewhere than in files of its
    folder overrides `files`, and one whose backends see the rows of each other may
    override `other`, which gives further stores. One whose calls are slow may fail at
    every *stride*-th of them only.
    """

    is_kept = True
    stride = 1

    def backend(self, folder: Path) -> Backend:
        """The backend that keeps its data in *folder*, which is empty at first."""
        raise NotImplementedError(
            f"define {type(self).__name__}.backend(folder), which returns the backend"
        )

    def files(self, folder: Path) -> Iterable[bytes]:
        """
        Everything that the backend keeps, as bytes: all files of *folder*.

        To be overridden by a backend that keeps its rows somewhere else.
        """
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                yield path.read_bytes()

    def other(self, store: Store, *, remembered: int = 100) -> Store:
        """Another store over the same rows, as another process has one."""
        return Store(store._cache.backend, remembered=remembered)

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        """An empty store."""
        with Store(self.backend(tmp_path)) as store:
            yield store

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Iterator[Reopen]:
        """A function that closes a store and gives what another process opens."""
        opened: list[Store] = []

        def reopen(store: Store | None) -> Store:
            if store is not None and not self.is_kept:
                return store

            if store is not None:
                store.close()

            opened.append(Store(self.backend(tmp_path)))
            return opened[-1]

        yield reopen
        for store in opened:
            store.close()

    @pytest.fixture
    def calls(self) -> list[Call]:
        """The calls of the backend of `watched`."""
        return []

    @pytest.fixture
    def watched(self, store: Store, calls: list[Call]) -> Store:
        """The same store, with every call of its backend recorded."""
        return Store(RecordingBackend(store._cache.backend, calls.append))
