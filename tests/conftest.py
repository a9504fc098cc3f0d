"""
What all tests share: which of them run, interrupts that are errors, and which
recorded conversations there are.
"""

import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import recorded
from tests.profiles import is_thorough

# A failing assertion shows both sides there, too. Tests of hosts import it as well.
pytest.register_assert_rewrite("tests.store.promises")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Modules that tests share have no tests of their own."""
    name = collection_path.name
    return True if name.endswith(".py") and not name.startswith("test_") else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[Any], list[Any]]:
    """No examples are looked for in the docstrings of tests."""
    collectors = yield
    return [each for each in collectors if type(each) is pytest.Module]


def get_unasked(config: pytest.Config) -> list[str]:
    """The markers whose tests are left out unless ``-m`` names them."""
    return [
        kind for kind in ("slow", "integration") if kind not in config.option.markexpr
    ]


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """
    Leave out what is marked as slow or integration, but in `make fuzz` or where `-m`
    names it.

    Names have no addresses: the processes of one run must find the same tests.
    """
    moving = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if moving:
        raise pytest.UsageError(
            f"tests named by an address, which each process has another of: {moving}"
        )

    unasked = () if is_thorough() else get_unasked(config)
    left = {item: None for item in items if any(map(item.get_closest_marker, unasked))}
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=[*left])


@pytest.fixture(autouse=True, scope="session")
def interrupts() -> Iterator[None]:
    """
    SIGINT raises `KeyboardInterrupt`, as in a program: where tests run on
    several cores, their processes ignore it.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every async test runs in both kinds of loop."""
    kind: str = request.param
    return kind


@pytest.fixture(scope="session", params=["own", "large"])
def recordings(request: pytest.FixtureRequest) -> Path:
    """A folder of recorded conversations: our own few, and the large collection."""
    if request.param == "own":
        return recorded.OWN

    if not recorded.LARGE.is_dir():
        pytest.skip(
            f"no large collection of recordings at {recorded.LARGE} (the small one was "
            "read); CONVERSATION_STATE_DATA can say where it is"
        )

    return recorded.LARGE
