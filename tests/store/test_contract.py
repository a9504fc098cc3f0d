"""
The contract of stores: an honest backend keeps it, and no fault does.
"""

import inspect
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test

from conversation_state.store import Store
from conversation_state.testing.stores import StoreContract
from tests.store.file_backend import FAULTS, FileBackend


class TestHonest(StoreContract):
    """
    A small backend with a file, written as a stranger would.
    """

    def backend(self, folder):
        return FileBackend(folder)


def promises():
    """
    The tests of the contract that need no more than a store or a folder, each
    with one set of its parameters at a time.
    """
    for name, test in inspect.getmembers(StoreContract, inspect.isfunction):
        if not name.startswith("test_") or is_hypothesis_test(test):
            continue

        asked = {*inspect.signature(test).parameters} - {"self"}
        sets: list[dict[str, Any]] = [{}]
        for mark in getattr(test, "pytestmark", ()):
            names = mark.args[0]
            names = names.split(",") if isinstance(names, str) else names
            for values in mark.args[1]:
                given = values if len(names) > 1 else (values,)
                sets.append(dict(zip(names, given, strict=True)))

        for each in sets[-7:]:
            fixtures = asked - {*each}
            if fixtures <= {"store", "reopen", "tmp_path"}:
                yield test, fixtures, each


def breaks(kind: type[FileBackend], folder: Path) -> list[str]:
    """
    Which promises a backend does not keep.
    """
    subject = type("Subject", (StoreContract,), {"backend": lambda _, at: kind(at)})()
    broken = []
    for number, (test, asked, given) in enumerate(promises()):
        place = folder / str(number)
        place.mkdir()
        opened: list[Store] = []

        def reopen(store, place=place, opened=opened):
            if store is not None:
                store.close()

            opened.append(Store(subject.backend(place)))
            return opened[-1]

        fixtures: dict[str, Any] = {"reopen": reopen, "tmp_path": place}
        if "store" in asked:
            fixtures["store"] = reopen(None)

        try:
            test(subject, **{name: fixtures[name] for name in asked}, **given)
        except (Exception, pytest.fail.Exception):  # noqa: BLE001 - in whatever way
            broken.append(test.__name__)
            break
        finally:
            for store in opened:
                store.close()

    return broken


class TestFaults:
    def test_honest(self, tmp_path):
        """
        What is run here of the contract is kept by the honest backend.
        """
        assert [] == breaks(FileBackend, tmp_path)

    @pytest.mark.parametrize("fault", FAULTS)
    def test_caught(self, fault, tmp_path):
        """
        A backend with one fault breaks the contract.
        """
        assert breaks(FAULTS[fault], tmp_path)
