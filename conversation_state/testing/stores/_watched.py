"""
A backend that tells of every call before it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from conversation_state.store.backend import Backend

__all__ = ["Call", "InjectedError", "Watched", "failing"]


class Call(NamedTuple):
    """
    One call of a backend's.

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
    """
    A failure on purpose.
    """


class _Block:
    """
    A block whose calls are told.
    """

    def __init__(self, block: Any, told: Callable[[Call], None]) -> None:
        self._block = block
        self._told = told

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        call = getattr(self._block, verb)

        def watched(*given: Any, **options: Any) -> Any:
            table = given[0] if given else ""
            rows = len(given[1]) if verb == "add" else 0
            self._told(Call(verb, table, rows))
            return call(*given, **options)

        return watched


class Watched:
    """
    A backend that does what another does, and tells of every call before.

    Args:
        backend: The other.

        told: Called with each call; what it raises, the call raises.
    """

    def __init__(self, backend: Backend, told: Callable[[Call], None]) -> None:
        self.url = backend.url
        self.backend = backend
        self._told = told

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """
        A block that reads.
        """
        with self.backend.reading() as block:
            yield _Block(block, self._told)

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """
        A block that writes.
        """
        with self.backend.writing() as block:
            yield _Block(block, self._told)
            self._told(Call("commit"))

        self._told(Call("committed"))

    def scrub(self) -> None:
        """
        As the other does.
        """
        self._told(Call("scrub"))
        self.backend.scrub()

    def vacuum(self) -> None:
        """
        As the other does.
        """
        self._told(Call("vacuum"))
        self.backend.vacuum()

    def problems(self) -> list[str]:
        """
        What the other finds.
        """
        self._told(Call("problems"))
        return self.backend.problems()

    def close(self) -> None:
        """
        The other stays open: somebody wants to see what came of it.
        """


def failing(backend: Backend, at: int) -> Watched:
    """
    A backend whose call number *at*, counted from 0 on, fails, and all later
    ones, as if the program had been killed there.
    """
    left = [at]

    def told(call: Call) -> None:
        if not left[0]:
            raise InjectedError(call)

        left[0] -= 1

    return Watched(backend, told)
