"""Branches on a Dask cluster: two processes on this machine."""

import asyncio
import gc
import logging
import os
import time
import warnings
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conversation_state import Aggregator, UserMessage
from conversation_state.errors import BranchError, FanOutError
from conversation_state.parallel import DaskExecutor, afan_out, save_progress
from tests import branches
from tests.branches import add_text
from tests.executor_contract import CHAT, ExecutorContract, fan_out, texts
from tests.later import Later
from tests.test_parallel import time_is_up  # noqa: F401 - a fixture

pytestmark = pytest.mark.integration

distributed: Any = Later.or_skip("distributed", "needs Dask (extra dask)")
dask: Any = Later("dask")


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
    """An executor there."""
    return DaskExecutor(client)


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

    def test_what_has_arrived_is_not_run_again(self, client, executor, tmp_path):
        """A step whose result has arrived is not run again if its worker dies later."""
        go, runs = str(tmp_path / "go"), tmp_path / "runs"

        def runs_once(state):
            with runs.open("a") as file:
                file.write(".")

            return add_text("b", state)

        def dies_later(state):
            branches.add_text_after(go, "", state)
            return branches.die_once(str(tmp_path / "died"), state)

        def note_turn(_):
            turns.append(1)
            if len(turns) == 6:
                _wait_until(lambda: client.run_on_scheduler(_count_wanted) == 1)
                Path(go).touch()

        turns = []
        steps = [*[runs_once] * 6, dies_later]
        done = fan_out(CHAT, steps, executor=executor, on_turn=note_turn)
        _both_are_back(client)

        assert ["Go!", *"bbbbbb", "again"] == texts(done.state)
        assert "." * 6 == runs.read_text()

    def test_a_step_that_kills_its_workers(self, client):
        """
        A step that kills every worker it is run on fails, with an error that says so;
        others come back.
        """
        executor = DaskExecutor(client, retries=0)
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

    def test_the_state_is_sent_once(self, client, executor, monkeypatch, tmp_path):
        """
        A hundred branches of a state of two thousand messages send the state once, and
        each at most five kilobytes; a step whose worker died is run again, on another
        one; then the state is not there any more.
        """
        messages = [UserMessage(f"{number}: {'word ' * 40}") for number in range(2_000)]
        chat = Aggregator.new(messages=messages)
        dies = partial(branches.die_once, str(tmp_path / "died"))
        steps = [*[partial(add_text, str(number)) for number in range(99)], dies]
        published = {}

        def publish_once(value, name):
            published[name] = len(value)
            return publish(value, name=name)

        publish = client.publish_dataset
        monkeypatch.setattr(client, "publish_dataset", publish_once)
        sent = client.scheduler_comm.byte_count
        done = fan_out(chat, steps, executor=executor)
        sent = client.scheduler_comm.byte_count - sent
        _both_are_back(client)
        _wait_until(lambda: published.keys().isdisjoint(client.list_datasets()))

        assert [*map(str, range(99)), "again"] == texts(done.state)[2_000:]
        assert 1 == len(published)
        assert sent <= 100 * 5_000
        assert published.keys().isdisjoint(client.list_datasets())

    def test_their_own_executor(self, client):
        """Dask's own executor will do; it sends the state with each branch."""
        steps = [partial(add_text, "a"), partial(add_text, "b")]
        done = fan_out(CHAT, steps, executor=client.get_executor())

        assert ["Go!", "a", "b"] == texts(done.state)

    def test_other_functions(self, executor):
        """It is an executor for any function, and calls it each time."""
        random = [executor.submit(os.urandom, 8) for _ in range(2)]

        assert 5 == executor.submit(max, 3, 5).result(timeout=60)
        assert 2 == len({future.result(timeout=60) for future in random})
        with pytest.raises(ZeroDivisionError):
            executor.submit(divmod, 1, 0).result(timeout=60)

    def test_cancelled(self, client, executor, tmp_path):
        """What is cancelled before it begins never begins."""
        go, ran = str(tmp_path / "go"), tmp_path / "ran"
        # Each worker has one thread, and something to do before what comes then.
        waits = [
            DaskExecutor(client, workers=[address]).submit(
                branches.add_text_after, go, "late", CHAT
            )
            for address in client.scheduler_info()["workers"]
        ]
        futures = [executor.submit(Path.touch, ran) for _ in range(3)]
        _wait_until(lambda: _is_settled(client, 5))

        assert all(map(Future.cancel, futures))
        _wait_until(lambda: _is_settled(client, 2))
        Path(go).touch()
        assert [2, 2] == [len(future.result(timeout=60)) for future in waits]
        assert 5 == executor.submit(max, 3, 5).result(timeout=60)
        assert not ran.exists()
        assert all(map(Future.cancelled, futures))
        # Whoever waits for them learns of it.
        assert {*futures} == wait(futures, timeout=60).done

    def test_options(self, client):
        """Options are those of Dask's tasks: which worker, for one."""
        for address in client.scheduler_info()["workers"]:
            executor = DaskExecutor(client, workers=[address])
            futures = [
                executor.submit(lambda: distributed.get_worker().address)
                for _ in range(4)
            ]

            assert {address} == {future.result(timeout=60) for future in futures}

    def test_what_is_no_client(self, client):
        """An executor is made of a client, and of nothing else."""
        for other in (client.get_executor(), "tcp://scheduler:8786"):
            with pytest.raises(TypeError, match=r"expected a distributed\.Client, got"):
                DaskExecutor(other)

    def test_in_an_event_loop(self, client):
        """`afan_out` takes it, of a client that is not asynchronous itself."""

        async def run():
            steps = [partial(add_text, "a"), partial(add_text, "b")]
            done = await afan_out(CHAT, steps, executor=DaskExecutor(client))
            assert ["Go!", "a", "b"] == texts(done.state)
            address = client.scheduler.address
            async with distributed.Client(address, asynchronous=True) as other:
                with pytest.raises(TypeError, match="got one with asynchronous=True"):
                    DaskExecutor(other)

        asyncio.run(run())


def _allow_failures(number, dask_scheduler):
    before = dask_scheduler.allowed_failures
    dask_scheduler.allowed_failures = number
    return before


def _count_wanted(dask_scheduler):
    return sum(1 for task in dask_scheduler.tasks.values() if task.who_wants)


def _is_settled(client, count):
    """Whether the workers have what the scheduler gave them of so many tasks."""
    if client.run_on_scheduler(_count_wanted) != count:
        return False
    given = client.run_on_scheduler(_count_processing)
    return given == sum(client.run(_count_accepted).values())


def _count_processing(dask_scheduler):
    return sum(len(worker.processing) for worker in dask_scheduler.workers.values())


def _count_accepted(dask_worker):
    accepted = {"ready", "executing", "waiting", "constrained"}
    return sum(1 for task in dask_worker.state.tasks.values() if task.state in accepted)


def _both_are_back(client):
    _wait_until(lambda: len(client.scheduler_info()["workers"]) == 2)
    client.wait_for_workers(2, timeout=240)


def _wait_until(is_so):
    end = time.monotonic() + 60
    while not is_so() and time.monotonic() < end:
        time.sleep(0.05)
