"""
The contract of stores, as one call.

What a backend has to promise is in `testing.stores`, as tests for pytest; here they are
run without it, each with the fixtures that it asks for.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from conversation_state._wording import shorten_repr
from conversation_state.store import Store
from conversation_state.store.backend import Backend
from conversation_state.testing.contracts._contract import check_names, read_promise
from conversation_state.testing.contracts._results import (
    BROKEN,
    DECLARED,
    HOLDS,
    NOT_RUN,
    LawResult,
    find_line,
    raise_broken,
)
from conversation_state.testing.stores import StoreContract


class _Subject(StoreContract):
    def __init__(self, make: Callable[..., Any], *, is_kept: bool) -> None:
        self._make = make
        self.is_kept = is_kept

    def backend(self, folder: Path) -> Backend:
        takes_folder = bool(inspect.signature(self._make).parameters)
        made = self._make(folder) if takes_folder else self._make()
        # A store gives its backend; anything else is the backend.
        return made._core.backend if isinstance(made, Store) else made


def _list_promises() -> Iterator[tuple[str, Callable[..., object]]]:
    """The tests of the contract: those of rows first, which the others rest on."""
    for cls in reversed(StoreContract.__mro__):
        for name, test in vars(cls).items():
            if name.startswith("test_") and callable(test):
                yield name.removeprefix("test_").replace("_", " "), test


def _list_arguments(test: Callable[..., object]) -> list[dict[str, Any]]:
    """What pytest's marks give *test*, each time it runs."""
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            name, values = mark.args
            return [{name: each} for each in values]

    return [{}]


@contextmanager
def _open_fixtures(
    subject: _Subject, test: Callable[..., object], given: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """The fixtures that *test* asks for, in a new folder, as pytest opens them."""
    with ExitStack() as opened:
        # Windows refuses to delete files that a broken backend has left open.
        folder = opened.enter_context(
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        )
        found: dict[str, Any] = {"self": subject, "tmp_path": Path(folder), **given}

        def find(name: str) -> Any:
            if name not in found:
                # pytest refuses a direct call of a fixture, which wraps the function.
                make: Any = inspect.unwrap(getattr(StoreContract, name))
                needed = [find(each) for each in inspect.signature(make).parameters]
                if inspect.isgeneratorfunction(make):
                    found[name] = opened.enter_context(contextmanager(make)(*needed))
                else:
                    found[name] = make(*needed)

            return found[name]

        names = [*inspect.signature(test).parameters][1:]
        yield {name: find(name) for name in names}


def _run_promise(
    subject: _Subject, name: str, test: Callable[..., object]
) -> LawResult:
    number = 0
    promise = read_promise(test)
    for given in _list_arguments(test):
        number += 1
        try:
            with _open_fixtures(subject, test, given) as fixtures:
                test(subject, **fixtures)
        except (Exception, SystemExit, pytest.fail.Exception) as error:  # noqa: BLE001
            # Any error that a test raises means that its promise is broken.
            code = "\n".join(f"{each} = {value!r}" for each, value in given.items())
            line = find_line(error.__traceback__)
            return LawResult(name, promise, BROKEN, number, error, code, line)

    return LawResult(name, promise, HOLDS, number)


def _make_one(subject: _Subject, tmp_path: Path) -> None:
    """A backend, or a store over one, is made."""
    made: Any = subject.backend(tmp_path)
    methods = [getattr(made, name, None) for name in ("reading", "writing", "close")]
    assert all(map(callable, methods)), f"expected a backend, got {shorten_repr(made)}"
    made.close()


def run_promises(
    make: Callable[..., Any],
    *,
    is_kept: bool | None = None,
    without: Collection[str] = (),
) -> Iterator[LawResult]:
    """
    What comes of each promise of `StoreContract`, one after the other.

    Takes what `check_backend` takes. The number of examples is how often the promise
    was tried with different arguments.
    """
    if not callable(make):
        raise TypeError(
            f"make: expected a function that makes a backend, got {shorten_repr(make)}"
        )

    promises = list(_list_promises())
    check_names("without", without, [name for name, _ in promises])
    takes_folder = bool(inspect.signature(make).parameters)
    subject = _Subject(make, is_kept=takes_folder if is_kept is None else is_kept)
    first = _run_promise(subject, "is made", _make_one)
    if first.is_broken:
        yield first

    for name, test in promises:
        if first.is_broken:
            yield LawResult(name, read_promise(test), NOT_RUN)
        elif name in without:
            yield LawResult(name, read_promise(test), DECLARED)
        else:
            yield _run_promise(subject, name, test)


def check_backend(
    make: Callable[..., Any],
    *,
    is_kept: bool | None = None,
    without: Collection[str] = (),
) -> None:
    """
    Hold a backend of stores to all promises of `StoreContract`: what was saved is
    there, whatever fails, whatever others write, and after it was opened again.

    Takes about ten seconds for a backend in memory. For a report of each promise by
    pytest, subclass `StoreContract` instead.

    Args:
        make: Takes a folder, a `Path`, and returns a backend that keeps its rows there,
            or an open `Store` over it; called again for the same folder, one that has
            the rows of the first. A function without arguments returns a new backend,
            which is empty.

        is_kept: Whether rows are still there after it was closed; by default, whether
            *make* takes a folder.

        without: The promises that do not hold and need not.

    Raises:
        BrokenLawsError:
            If it breaks a promise.
    """
    results = tuple(run_promises(make, is_kept=is_kept, without=without))
    raise_broken(make, "backends", results)
