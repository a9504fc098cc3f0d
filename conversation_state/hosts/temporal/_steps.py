"""Steps of pipelines as activities: what a function adds is saved once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from temporalio import activity

from conversation_state.aggregator import Aggregator
from conversation_state.store import StateRef, Store


def run_step(
    store: Store,
    name: str,
    function: Callable[[Aggregator], Aggregator],
    *,
    since: StateRef | None = None,
) -> StateRef:
    """
    Save what *function* adds to a state under *name*, once for each activity, and
    return a reference to the state that was saved.

    Called in an activity. The step is one of `Store.step`, whose label is made of the
    ids of the workflow's run and of the activity: an attempt that follows one that
    saved does not call *function*, and returns the same reference. If *function* fails,
    the usage that it gave to `save_progress` is saved. What others saved under *name*
    meanwhile is kept.

    Args:
        store: Where the state is, open.

        name: What to save under. A new name is begun.

        function: From a state to what it has grown into, as for `fan_out`.

        since: The state that *function* gets; None for the newest one of *name*.

    Raises:
        NotSavedError:
            If *since* is of a name that was deleted, or *name* was deleted meanwhile.

        InvalidUsageError:
            If a key was recorded with two usages; all else is saved.
    """
    label = _make_label()

    def grow(newest: Aggregator) -> Aggregator:
        start = newest if since is None else store.resolve(since)
        return _join(newest, function(start))

    store.step(name, label, grow)
    return store.ref(store.latest(name, at=label))


async def arun_step(
    store: Store,
    name: str,
    function: Callable[[Aggregator], Awaitable[Aggregator]],
    *,
    since: StateRef | None = None,
) -> StateRef:
    """As `run_step`, with an async *function*, in an async activity."""
    label = _make_label()

    async def grow(newest: Aggregator) -> Aggregator:
        start = newest if since is None else await store.aresolve(since)
        return _join(newest, await function(start))

    await store.astep(name, label, grow)
    return await store.aref(await store.alatest(name, at=label))


def _make_label() -> str:
    info = activity.info()
    # An activity that no workflow started has a run of its own.
    run_id = info.workflow_run_id or info.activity_run_id
    return f"temporal/{run_id}/{info.activity_id}"


def _join(newest: Aggregator, made: Aggregator) -> Aggregator:
    # What is no state is refused by the store, and the first state of a name is kept
    # as it is, with its id.
    is_first = not newest.entries and not newest.ledger
    if is_first or not isinstance(made, Aggregator):
        return made

    return newest.join(made)
