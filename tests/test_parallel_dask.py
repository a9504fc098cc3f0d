"""Branches on a Dask cluster: two processes on this machine."""

import gc
import logging
import os
import time
import warnings
from functools import partial
from typing import Any

import pytest

from conversation_state.errors import BranchError, FanOutError
from conversation_state.parallel import save_progress
from tests import branches
from tests.branches import add_text
from tests.executor_contract import CHAT, ExecutorContract, fan_out, texts
from tests.test_parallel import time_is_up  # noqa: F401 - a fixture

distributed = pytest.importorskip("distributed", reason="needs Dask (extra dask)")
dask: Any = pytest.importorskip("dask", reason="needs Dask (extra dask)")


@pytest.fixture(scope="module")
def client():
    """A client of a cluster of two workers, reachable from this machine only."""
    with warnings.catch_warnings():
        # That a busy machine's disk is slow, for one.
        warnings.filterwarnings("ignore", category=UserWarning, module=r"distributed\.")
        # Connections that Dask tried before the workers listened are left to the
        # collector: here, where they were made, and not in the first test.
        warnings.filterwarnings("ignore", "unclosed", ResourceWarning)
        # A worker whose process died begins again in its nanny, which a cluster
        # closes where that takes longer: fifteen seconds, by default.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
        cluster = distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        )
        client = distributed.Client(cluster, timeout=60)
        client.wait_for_workers(2, timeout=240)
        client.run(os.getpid)  # now there are connections to both
        gc.collect()

    yield client
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed", ResourceWarning)
        client.close(timeout=30)
        cluster.close(timeout=30)
        gc.collect()


@pytest.fixture
def executor(client):
    """The executor of it."""
    return client.get_executor()


class TestDask(ExecutorContract):
    """`fan_out` on a cluster."""

    def test_equal_steps_are_run_each(self, executor):
        """Equal steps, and equal fan-outs, are not taken for one."""
        step = partial(add_text, "a")
        once = fan_out(CHAT, [step, step], executor=executor).state
        again = fan_out(CHAT, [step, step], executor=executor).state

        assert ["Go!", "a", "a"] == texts(once)
        assert ["Go!", "a", "a", "a", "a"] == texts(once.join(again))

    def test_the_error_pickles_as_dask_does_it(self):
        """
        Where Dask was imported last, all errors are pickled its own way, which
        keeps this one whole as well.
        """
        support = pytest.importorskip(
            "tblib.pickling_support", reason="comes with Dask"
        )
        with pytest.raises(FanOutError) as caught:
            fan_out(CHAT, [branches.refused])
        caught.value.add_note("noted")
        make, arguments, *_ = support.pickle_exception(caught.value)
        copy = make(*arguments)

        assert type(copy) is FanOutError
        assert str(caught.value) == str(copy)
        assert ["noted"] == copy.__notes__
        assert ["Go!", "half of it"] == texts(copy.state)
        assert caught.value.failures == copy.failures

    def test_steps_that_only_dask_can_send(self, executor):
        """Functions made on the spot can be steps here."""

        def step(state):
            return save_progress(state.add_user_prompt(word))

        word = "on the spot"

        assert ["Go!", word] == texts(fan_out(CHAT, [step], executor=executor).state)

    def test_time_is_up(self, executor, time_is_up, tmp_path):  # noqa: F811 - the fixture
        """
        At the end of the time what is not done has failed, and the rest is
        there.
        """
        go = tmp_path / "go"
        done = fan_out(
            CHAT,
            [partial(branches.add_text_after, str(go), "a"), partial(add_text, "b")],
            executor=executor,
            on_error="keep",
            on_turn=lambda _: time_is_up.set(),
            timeout_s=6,
        )
        go.touch()

        assert [TimeoutError] == [type(failure.error) for failure in done.failures]
        assert ["Go!", "b"] == texts(done.state)

    def test_a_worker_dies_once(self, client, executor, tmp_path):
        """Dask runs a step whose worker died again, on another one."""
        done = fan_out(
            CHAT,
            [
                partial(branches.die_once, str(tmp_path / "died")),
                partial(add_text, "b"),
            ],
            executor=executor,
        )
        _both_are_back(client)

        assert ["Go!", "again", "b"] == texts(done.state)

    def test_a_step_that_kills_its_workers(self, client):
        """
        A step that kills every worker it is run on fails, with an error that says so;
        others come back.
        """
        executor = client.get_executor(retries=0)
        before = client.run_on_scheduler(_allow_failures, 0)
        try:
            done = fan_out(
                CHAT,
                [branches.die, partial(add_text, "b")],
                executor=executor,
                on_error="keep",
            )
        finally:
            client.run_on_scheduler(_allow_failures, before)
            _both_are_back(client)

        failures = {failure.step: failure for failure in done.failures}
        assert isinstance(failures[0].error, BranchError)
        assert "KilledWorker" in str(failures[0].error)
        assert 0 == len(failures[0].turn)
        assert 1 in failures or ["Go!", "b"] == texts(done.state)


def _allow_failures(number, dask_scheduler):
    before = dask_scheduler.allowed_failures
    dask_scheduler.allowed_failures = number
    return before


def _both_are_back(client):
    end = time.monotonic() + 60
    while len(client.scheduler_info()["workers"]) < 2 and time.monotonic() < end:
        time.sleep(0.05)

    client.wait_for_workers(2, timeout=240)
