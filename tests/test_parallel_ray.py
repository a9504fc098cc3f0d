"""Branches as tasks of Ray: two workers on this machine."""

import builtins
import sys
import warnings
from functools import partial
from typing import Any

import pytest

from conversation_state import Aggregator
from conversation_state.errors import BranchError, MissingExtraError
from conversation_state.parallel import RayExecutor
from tests import branches
from tests.branches import add_text
from tests.executor_contract import CHAT, ExecutorContract, fan_out, texts
from tests.test_parallel import time_is_up  # noqa: F401 - a fixture

pytestmark = pytest.mark.integration

ray: Any = pytest.importorskip("ray", reason="needs Ray (extra ray)")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Two workers that this machine alone can reach."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Ray puts one of its own in its place.
        patch.setattr(builtins, "print", print)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=100_000_000,
            _node_ip_address="127.0.0.1",
        )
        yield
        ray.shutdown()


@pytest.fixture
def executor():
    """An executor there."""
    return RayExecutor()


class TestRay(ExecutorContract):
    """`fan_out` on Ray."""

    def test_a_worker_dies_once(self, executor, tmp_path):
        """Ray runs a step whose worker died again, on another one."""
        died = str(tmp_path / "died")
        steps = [partial(branches.die_once, died), partial(add_text, "b")]
        done = fan_out(CHAT, steps, executor=executor)

        assert ["Go!", "again", "b"] == texts(done.state)

    def test_a_step_that_kills_its_workers(self):
        """A step that kills every worker fails with an error that says so."""
        steps = [branches.die, partial(add_text, "b")]
        done = fan_out(
            CHAT, steps, executor=RayExecutor(max_retries=0), on_error="keep"
        )
        (failure,) = done.failures

        assert isinstance(failure.error, BranchError)
        assert "WorkerCrashedError" in str(failure.error)
        assert ["Go!", "b"] == texts(done.state)

    def test_time_is_up(self, executor, time_is_up, tmp_path):  # noqa: F811 - the fixture
        """At the end of the time what is not done has failed, and the rest is there."""
        go = tmp_path / "go"
        waits = partial(branches.add_text_after, str(go), "a")
        done = fan_out(
            CHAT,
            [waits, partial(add_text, "b")],
            executor=executor,
            on_error="keep",
            on_turn=lambda _: time_is_up.set(),
            timeout_s=6,
        )
        go.touch()

        assert [TimeoutError] == [type(failure.error) for failure in done.failures]
        assert ["Go!", "b"] == texts(done.state)

    def test_steps_that_only_ray_can_send(self, executor):
        """Functions made on the spot can be steps here."""
        word = "on the spot"
        steps = [lambda state: state.add_user_prompt(word)]

        assert ["Go!", word] == texts(fan_out(CHAT, steps, executor=executor).state)

    def test_the_state_is_sent_once(self, monkeypatch, tmp_path):
        """
        A thousand branches of a state of ten thousand messages send the state once,
        and each at most five kilobytes, one of their workers killed.
        """
        chat = Aggregator.new()
        for number in range(10_000):
            chat = chat.add_user_prompt(f"{number}: {'word ' * 40}")

        put, dumps = ray.put, ray.cloudpickle.dumps
        shared: list[int] = []
        sent: list[int] = []

        def put_once(value: Any) -> Any:
            shared.append(len(value))
            return put(value)

        class Measuring(RayExecutor):
            def _take_apart(self, branch: Any) -> Any:
                _, *rest = found = super()._take_apart(branch)
                sent.append(len(dumps(rest)))
                return found

        monkeypatch.setattr(ray, "put", put_once)
        dies = partial(branches.die_once, str(tmp_path / "died"))
        steps = [partial(add_text, str(number)) for number in range(999)]
        done = fan_out(chat, [*steps, dies], executor=Measuring())

        assert [*map(str, range(999)), "again"] == texts(done.state)[10_000:]
        assert 1 == len(shared)
        assert 1_000 == len(sent)
        assert max(sent) <= 5_000

    def test_other_functions(self, executor):
        """It is an executor for any function."""
        assert 5 == executor.submit(max, 3, 5).result(timeout=60)
        with pytest.raises(ZeroDivisionError):
            executor.submit(divmod, 1, 0).result(timeout=60)


def test_without_ray(monkeypatch):
    """Without Ray it says which extra brings it."""
    monkeypatch.setitem(sys.modules, "ray", None)

    with pytest.raises(MissingExtraError, match=r"conversation-state\[ray\]"):
        RayExecutor()
