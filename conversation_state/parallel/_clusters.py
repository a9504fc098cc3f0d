"""
Clusters as executors: the state goes to a worker once, however many branches it has.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, finalize

from conversation_state._wording import describe_type
from conversation_state.errors import MissingExtraError
from conversation_state.parallel._branches import (
    ForkedStep,
    Past,
    load_past,
    run_branch,
)

T = TypeVar("T")


class RayExecutor(Executor):
    """
    An executor for `fan_out` that runs each branch as a task of Ray (extra ``ray``).

    The state is put into Ray's object store once for all branches of a fan-out, and is
    read from there once by each worker process. A branch carries its step and a
    reference, and what it added comes back.

    Ray runs a step whose worker died again, on another one, as often as *max_retries*
    says: give usage a key. Where time is up, a task that has not begun never begins,
    and one that runs is interrupted.

    Args:
        options: Those of Ray's tasks, as for ``ray.remote``: ``num_cpus``,
            ``resources``, ``max_retries``, ``runtime_env`` and so on.

    Raises:
        MissingExtraError: If Ray is not installed.

    Source:
        Ray 2.60. A program calls ``ray.init`` itself; where it did not, Ray starts on
        this machine with the first step.
    """

    def __init__(self, **options: Any) -> None:
        try:
            # An extra, which is not installed beside the type checkers.
            import ray  # noqa: PLC0415 # pyright: ignore[reportMissingImports]
        except ImportError as error:
            wanted = "RayExecutor"
            raise MissingExtraError(wanted, "ray") from error

        self._ray: Any = ray
        # Made once, because Ray sends each remote function to all workers.
        task = self._ray.remote(_call_function)
        self._task = task.options(**options) if options else task
        # What is in Ray's store, for as long as the fan-out is there.
        self._shared: WeakKeyDictionary[Past, Any] = WeakKeyDictionary()

    def submit(
        self, function: Callable[..., T], /, *args: Any, **kwargs: Any
    ) -> Future[T]:
        """The future of *function* with these arguments, as a task of Ray."""
        if function is run_branch:
            (branch,) = args
            # A reference by itself is fetched before the task begins.
            function, args = _run_shared, self._take_apart(branch)

        reference = self._task.remote(function, *args, **kwargs)
        future: Future[T] = reference.future()
        future.add_done_callback(partial(self._cancel_task, reference))
        return future

    def _take_apart(self, branch: ForkedStep) -> tuple[Any, ...]:
        past = branch.past
        if past not in self._shared:
            pickled = pickle.dumps(past.state, pickle.HIGHEST_PROTOCOL)
            self._shared[past] = self._ray.put(pickled)

        return self._shared[past], past.key, branch.number, branch.step

    def _cancel_task(self, reference: Any, future: Future[Any]) -> None:
        if future.cancelled():
            self._ray.cancel(reference)


def _call_function(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    return function(*args, **kwargs)


def _run_shared(pickled: bytes, key: str, number: int, step: Callable[..., Any]) -> Any:
    return run_branch(ForkedStep(number, step, _recall_past(key, lambda: pickled)))


# In a worker: the state of the last fan-out, which most of its tasks are of.
_newest_past: list[Past] = []


def _recall_past(key: str, read: Callable[[], bytes]) -> Past:
    past = next((each for each in _newest_past if each.key == key), None)
    if past is None:
        past = load_past(read(), key)
        _newest_past[:] = [past]

    return past


class DaskExecutor(Executor):
    """
    An executor for `fan_out` that runs each branch as a task of Dask (extra ``dask``).

    The state is given to Dask's scheduler once for all branches of a fan-out, as a
    published dataset, and each worker process reads it from there once. A branch
    carries its step and a name, and what it added comes back. Dask's own
    ``client.get_executor()`` sends the state with each branch.

    Dask runs a step whose worker died again, on another one: give usage a key. A step
    whose result has arrived is not run again, as it would be by Dask's own executor.

    Args:
        client: A ``distributed.Client``, which stays open.
        options: Those of ``client.submit``: ``retries``, ``resources``, ``workers`` and
            so on.

    Raises:
        TypeError: If *client* is something else, or asynchronous.

    Source:
        distributed 2026.8. The state is no task, and not scattered: Dask would run all
        branches where it is, and lose it with the worker that has it.
    """

    def __init__(self, client: Any, **options: Any) -> None:
        if not callable(getattr(client, "publish_dataset", None)):
            raise TypeError(
                f"client: expected a distributed.Client, got {describe_type(client)}"
            )

        if client.asynchronous:
            raise TypeError(
                "client: expected one that waits, got one with asynchronous=True; "
                "afan_out takes executors of the others, too"
            )

        self._client = client
        self._options = options
        # The names of datasets that are there for as long as the fan-out is.
        self._shared: WeakKeyDictionary[Past, str] = WeakKeyDictionary()

    def submit(
        self, function: Callable[..., T], /, *args: Any, **kwargs: Any
    ) -> Future[T]:
        """The future of *function* with these arguments, as a task of Dask."""
        if function is run_branch:
            (branch,) = args
            function, args = _run_published, self._take_apart(branch)

        kwargs = {"pure": False, **self._options, **kwargs}
        task = self._client.submit(function, *args, **kwargs)
        future: Future[T] = Future()
        future.add_done_callback(partial(_cancel_task, task))
        self._client.loop.add_callback(_settle_future, self._client, task, future)
        return future

    def _take_apart(self, branch: ForkedStep) -> tuple[Any, ...]:
        past = branch.past
        if past not in self._shared:
            name = f"conversation_state/{past.key}"
            pickled = pickle.dumps(past.state, pickle.HIGHEST_PROTOCOL)
            self._client.publish_dataset(pickled, name=name)
            self._shared[past] = name
            finalize(past, _unpublish_state, self._client, name).atexit = False

        return self._shared[past], past.key, branch.number, branch.step


def _cancel_task(task: Any, future: Future[Any]) -> None:
    if future.cancelled():
        task.cancel()


async def _settle_future(client: Any, task: Any, future: Future[Any]) -> None:
    try:
        result = await client.gather(task, asynchronous=True)
    except BaseException as error:  # noqa: BLE001 - of the function, whatever it is
        if task.cancelled():
            future.cancel()

        if future.set_running_or_notify_cancel():
            future.set_exception(error)
    else:
        if future.set_running_or_notify_cancel():
            future.set_result(result)
    finally:
        # Else Dask would run it again where the worker dies that has its result.
        task.release()


def _unpublish_state(client: Any, name: str) -> None:
    # Not waited for: the collector may call this in any thread, in the client's, too.
    with suppress(Exception):  # of a client that is closed
        client.loop.add_callback(client.unpublish_dataset, name, asynchronous=True)


def _run_published(name: str, key: str, number: int, step: Callable[..., Any]) -> Any:
    from distributed import get_client  # noqa: PLC0415 - an extra

    client: Any = get_client()
    past = _recall_past(key, lambda: client.get_dataset(name))
    return run_branch(ForkedStep(number, step, past))
