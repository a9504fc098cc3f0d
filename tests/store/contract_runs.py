"""The contract of stores without pytest, for backends that have to break it."""

import inspect
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.store.promises.contract import StoreContract


def run_promises(make, *, without=()):
    """
    The name and the error of each promise of `StoreContract` but *without*, one after
    the other; None is the error of one that holds. *make* takes a folder.
    """

    class Subject(StoreContract):
        def backend(self, folder):
            return make(folder)

    # The tests of rows first, which the others rest on.
    tests = {
        name.removeprefix("test_").replace("_", " "): test
        for cls in reversed(StoreContract.__mro__)
        for name, test in vars(cls).items()
        if name.startswith("test_")
    }
    assert set(without) <= set(tests)
    for name, test in tests.items():
        if name not in without:
            yield name, _run(Subject(), test)


def _run(subject, test):
    try:
        for given in _list_arguments(test):
            with _open_fixtures(subject, test, given) as fixtures:
                test(subject, **fixtures)
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - any is a broken promise
        return error

    return None


def _list_arguments(test):
    """What pytest's marks give *test*, each time it runs."""
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            name, values = mark.args
            return [{name: each} for each in values]

    return [{}]


@contextmanager
def _open_fixtures(subject, test, given):
    """The fixtures that *test* asks for, in a new folder, as pytest opens them."""
    with ExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory())
        found: dict[str, Any] = {"self": subject, "tmp_path": Path(folder), **given}

        def find(name):
            if name not in found:
                # pytest refuses a direct call of a fixture, which wraps the function.
                make: Any = inspect.unwrap(getattr(StoreContract, name))
                needed = [find(each) for each in inspect.signature(make).parameters]
                made = make(*needed)
                if inspect.isgenerator(made):
                    made = opened.enter_context(contextmanager(lambda: made)())

                found[name] = made

            return found[name]

        names = [*inspect.signature(test).parameters][1:]
        yield {name: find(name) for name in names}
