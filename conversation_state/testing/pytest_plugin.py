"""
At home in pytest: fixtures, and Hypothesis' statistics of checks.

pytest loads this module in every session where the package is installed, so it imports
nothing that is not used: a fixture imports what it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conversation_state.messages import AssistantMessage, Message
    from conversation_state.store import Store
    from conversation_state.testing.provider import StrictProvider

__all__ = ["ScriptedModel"]


@pytest.fixture
def conversation_store(tmp_path: Path) -> Iterator[Store]:
    """An empty store in a file of the test's own folder, closed at its end."""
    # Here and below, not above: most tests use none of them.
    from conversation_state.store import open_store  # noqa: PLC0415

    with open_store(tmp_path / "conversations.db") as store:
        yield store


@pytest.fixture
def strict_provider() -> Iterator[StrictProvider]:
    """
    A provider on 127.0.0.1 that refuses what providers refuse; answers are added with
    ``strict_provider.add(…)``, and ``strict_provider.default = …`` is the other one.
    """
    from conversation_state.testing.provider import (  # noqa: PLC0415
        StrictProvider,
    )

    with StrictProvider() as provider:
        yield provider


class ScriptedModel:
    """
    A model that returns what a script says: a function from messages to an answer.

    Attributes:
        requests: What it was called with, in order.
    """

    def __init__(self, *answers: str | AssistantMessage) -> None:
        self.requests: list[tuple[Message, ...]] = []
        self._answers: list[str | AssistantMessage] = list(answers)

    def add(self, *answers: str | AssistantMessage) -> None:
        """Put *answers* at the end of what it says."""
        self._answers.extend(answers)

    def __call__(self, messages: Iterable[Message]) -> AssistantMessage:
        """
        The next answer.

        Raises:
            LookupError: It has no more.
        """
        from conversation_state.messages import AssistantMessage  # noqa: PLC0415

        self.requests.append(tuple(messages))
        if not self._answers:
            raise LookupError(
                f"the model has no answer to request {len(self.requests)}; add(…) one"
            )

        answer = self._answers.pop(0)
        return AssistantMessage(answer) if isinstance(answer, str) else answer


@pytest.fixture
def scripted_model() -> ScriptedModel:
    """
    A model without a network: ``scripted_model.add("Hello.")``, then call it with
    messages.
    """
    return ScriptedModel()


# Around Hypothesis' own hook, which keeps the statistics of its own tests.
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_call(item: Any) -> Generator[None, Any, None]:
    """
    Keep Hypothesis' statistics of the checks in a test, for
    ``--hypothesis-show-statistics``.
    """
    if not item.config.getoption("--hypothesis-show-statistics", None):
        yield
        return

    from hypothesis.statistics import (  # noqa: PLC0415
        collector,
        describe_statistics,
    )

    from conversation_state.testing._current import name_checked  # noqa: PLC0415

    texts: list[str] = []

    def note(statistics: Any) -> None:
        if name_checked():
            named: Any = {**statistics, "nodeid": f"{item.nodeid}: {name_checked()}"}
            texts.append(describe_statistics(named))

    collect: Callable[[Any], Any] = collector.with_value
    with collect(note):  # pyright: ignore[reportArgumentType]
        yield

    if texts:
        item.hypothesis_statistics = "\n\n".join(texts)
