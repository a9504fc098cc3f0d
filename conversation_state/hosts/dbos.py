"""
DBOS: steps of durable workflows that pass references to states (extra ``dbos``).

::

    steps = StoreSteps(store)

    @steps.step()
    def answer(state):
        return state.add_response(...)

    @DBOS.workflow()
    def pipeline(ref):
        return answer(answer(ref))

DBOS writes what each step returns into its database, where a conversation of a hundred
thousand tokens would be written a hundred times; a reference has 80 characters.

Source:
    ``DBOS.step`` of dbos 3.4: what a step returned is written after the step, so one
    that was killed between the two is run again. As its own datasources do, the store
    keeps what a step made, and that it was done, in one transaction.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, overload

from conversation_state._wording import describe_value
from conversation_state.aggregator import Aggregator
from conversation_state.errors import MissingExtraError
from conversation_state.hosts._host import StoreHost, parse_ref, quote_name
from conversation_state.store import StateRef, Store

__all__ = ["StoreSteps"]

P = ParamSpec("P")


class _Decorator(Protocol):
    # A coroutine function is matched first, since its result would pass for any.
    @overload
    def __call__(
        self, function: Callable[Concatenate[Aggregator, P], Awaitable[Aggregator]], /
    ) -> Callable[Concatenate[str | StateRef, P], Awaitable[str]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Aggregator, P], Aggregator], /
    ) -> Callable[Concatenate[str | StateRef, P], str]: ...


class StoreSteps(StoreHost):
    """
    Makes steps of DBOS workflows of functions from state to state, with a store that
    has the states.

    A step takes a reference, or its text, and returns the text of the next one, all
    that DBOS writes. What the function made is saved in one transaction with its usage
    and a label, ``dbos/WORKFLOW/STEP``: the identity of the workflow, and the number of
    the step in it. So a step that DBOS runs again, after a kill at any moment, saves
    and bills nothing twice. A request is made again only if the kill came before its
    answer was saved: at most once a kill.

    The function gets the state of the reference. If another save came since, as where
    steps run at once, what it made is joined to that: each turn is in the newest state
    once. A function that fails has the usage that it gave to
    `conversation_state.save_progress` in the ledger.

    The store may be in the database that DBOS uses, or anywhere else; see
    `Store.step_ref`. ``memory:`` is gone with the process, and so is what a workflow
    would resume.

    Args:
        store: An open store; `from_url` opens one.
        keep: How long the references are kept, from the step on: longer than the
            longest workflow lasts, with its pauses. See `Store.ref`.

    Raises:
        TypeError: If *store* is not an open store.
    """

    def __init__(self, store: Store, *, keep: timedelta = timedelta(days=30)) -> None:
        self._set_store(store)
        self._keep = keep

    def step(self, **options: Any) -> _Decorator:
        """
        Decorate a function, or an async one, as a step: its first argument is the
        state, others are what the caller gives after the reference.

        It is called in a workflow. Called elsewhere, it would have no key under which
        it is done once, and raises a RuntimeError: also in another step, which has one
        number for all that it does.

        Args:
            **options: Those of ``DBOS.step``, such as *retries_allowed*. An attempt
                that failed is billed for what it gave to `save_progress`.

        Raises:
            MissingExtraError: If DBOS is not installed.
        """
        dbos = _import_dbos()

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            if not callable(function):
                raise TypeError(
                    f"step: expected a function, got {describe_value(function)}; "
                    "write @steps.step(), with parentheses"
                )

            if inspect.iscoroutinefunction(function):
                return self._make_async_step(dbos, function, options)

            return self._make_step(dbos, function, options)

        return decorate

    def _make_step(
        self, dbos: Any, function: Callable[..., Any], options: dict[str, Any]
    ) -> Callable[..., Any]:
        @wraps(function)
        def save(ref: Any, *args: Any, **kwargs: Any) -> str:
            return str(
                self.store.step_ref(
                    parse_ref(ref),
                    _make_label(dbos),
                    lambda state: function(state, *args, **kwargs),
                    keep=self._keep,
                )
            )

        run = dbos.step(**options)(save)

        @wraps(run)
        def step(*args: Any, **kwargs: Any) -> Any:
            _check_in_workflow(dbos, function)
            return run(*args, **kwargs)

        return step

    def _make_async_step(
        self, dbos: Any, function: Callable[..., Any], options: dict[str, Any]
    ) -> Callable[..., Any]:
        @wraps(function)
        async def save(ref: Any, *args: Any, **kwargs: Any) -> str:
            return str(
                await self.store.astep_ref(
                    parse_ref(ref),
                    _make_label(dbos),
                    lambda state: function(state, *args, **kwargs),
                    keep=self._keep,
                )
            )

        run = dbos.step(**options)(save)

        @wraps(run)
        async def step(*args: Any, **kwargs: Any) -> Any:
            _check_in_workflow(dbos, function)
            return await run(*args, **kwargs)

        return step


def _import_dbos() -> Any:
    try:
        from dbos import DBOS  # noqa: PLC0415 - imported without it
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "dbos":
            raise

        raise MissingExtraError(f"{__name__}.StoreSteps", "dbos") from error

    return DBOS


def _make_label(dbos: Any) -> str:
    return f"dbos/{quote_name(dbos.workflow_id)}/{dbos.step_id}"


def _check_in_workflow(dbos: Any, function: Callable[..., Any]) -> None:
    if dbos.workflow_id is None or dbos.step_id is not None:
        where = "outside of a workflow" if dbos.step_id is None else "in another step"
        raise RuntimeError(
            f"{function.__qualname__} is a step of DBOS and was called {where}; call "
            "it in the workflow itself, which gives it the number by which it is done "
            "once"
        )
