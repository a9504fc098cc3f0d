"""
The session: the SDK's verbs, and what a store adds to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from conversation_state.adapters.agents._items import (
    extended,
    items_of,
    newest,
    shortened,
    turn_at,
    with_entries,
)
from conversation_state.adapters.agents._spent import spent_in
from conversation_state.adapters.agents._threads import in_thread
from conversation_state.aggregator import Aggregator
from conversation_state.errors import MissingExtraError, NotSavedError
from conversation_state.store import Head, Store, open_store
from conversation_state.store._core import checked_name
from conversation_state.trimming import TrimContext, Trimmer
from conversation_state.usage import Usage

if TYPE_CHECKING:
    from agents.exceptions import RunErrorDetails
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings
    from agents.result import RunResultBase

__all__ = ["StoreSession"]


class StoreSession:
    """
    A session of the OpenAI Agents SDK whose conversation is in a store.

    What a run adds is the next state of the name *session_id*: messages that
    `Store.load` gives and every adapter dumps. The SDK gets back the items it
    gave. What was popped, cleared or rolled back stays in the history.

    Safe in many tasks, threads and processes: two that add at once both do.

    Args:
        store: An open store; see `from_url` for one of its own.

        session_id: What the conversation is saved under: 1 to 500 characters.

        view: What a model gets to see of it, chosen anew for each run. All is
            stored, whatever is shown.

        session_settings: The SDK's: ``limit`` is how many items a run reads.

    Raises:
        ValueError:
            If *session_id* can't be a name, or both *view* and a limit are
            given.

        MissingExtraError:
            If *session_settings* is a mapping, and the SDK is not installed.

    >>> import asyncio
    >>> async def talk(session):
    ...     await session.add_items([{"role": "user", "content": "Hi!"}])
    ...     return await session.get_items()
    >>> with StoreSession.from_url("memory:", "greeting") as session:
    ...     asyncio.run(talk(session))
    [{'role': 'user', 'content': 'Hi!'}]
    """

    session_id: str
    session_settings: SessionSettings | None

    def __init__(
        self,
        store: Store,
        session_id: str,
        *,
        view: Trimmer | None = None,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(store, Store):
            msg = (
                f"store is a {type(store).__name__}; expected an open Store, or "
                "use StoreSession.from_url"
            )
            raise TypeError(msg)

        if not (view is None or isinstance(view, Trimmer)):
            msg = f"view is {view!r:.80}; expected a Trimmer or None"
            raise TypeError(msg)

        self.session_id = checked_name(session_id, "session_id")
        self.session_settings = _settings(session_settings)
        if view is not None and self._limit is not None:
            msg = (
                "a session has a view or a limit, not both: a Trimmer with "
                "keep_last(n) is a limit that cuts nothing in two"
            )
            raise ValueError(msg)

        self._store = store
        self._view = view
        self._owned = False

    @classmethod
    def from_url(
        cls,
        url: str,
        session_id: str,
        *,
        view: Trimmer | None = None,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
    ) -> Self:
        """
        A session in the store at *url*, which it closes when it is closed; see
        `open_store`.
        """
        store = open_store(url)
        try:
            session = cls(
                store, session_id, view=view, session_settings=session_settings
            )
        except BaseException:
            store.close()
            raise

        session._owned = True
        return session

    @property
    def _limit(self) -> int | None:
        return None if self.session_settings is None else self.session_settings.limit

    @property
    def store(self) -> Store:
        """
        Where the conversation is.
        """
        return self._store

    # What the SDK asks for

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """
        What was added, item for item; or what the *view* shows of it.

        Args:
            limit: Only the newest so many items of what is stored, whatever
                the view. Reads these, not the whole conversation.

        Raises:
            BudgetExceededError, InvalidTranscriptError:
                If there is no such view.
        """
        if limit is None:
            limit = self._limit

        if limit is not None:
            if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
                msg = f"limit is {limit!r}; expected 0 or more items, or None"
                raise ValueError(msg)

            return await in_thread(partial(self._newest, limit))

        view = self._view
        state = await in_thread(partial(self._load, view))
        if state is None:
            return []

        messages = (
            state.messages if view is None else (await view.acall(state)).messages
        )
        return await in_thread(partial(items_of, messages))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """
        Add *items*: all of them or, if there is an error, none.

        Raises:
            DecodeError:
                If one of them can't be kept as JSON; with all that is wrong,
                each with its path.
        """
        if items != []:
            await self._update(lambda state: extended(state, items))

    async def pop_item(self) -> TResponseInputItem | None:
        """
        Take away the newest item, which is given; None if there is none.
        """
        popped: list[Any] = []

        def shorten(state: Aggregator) -> Aggregator:
            short, item = shortened(state)
            popped[:] = [item]
            return short

        await self._update_saved(shorten)
        return popped[0] if popped else None

    async def clear_session(self) -> None:
        """
        Take away all items. What they were, and what was spent, stays in the
        history; `Store.delete` lets go of that, too.
        """
        await self._update_saved(lambda state: with_entries(state, state.entries[:0]))

    # What a store adds

    async def state(self, *, at: int | str | Head | None = None) -> Aggregator:
        """
        The conversation as a state, as it is now or was *at* a revision, a
        label or a head.

        Raises:
            NotSavedError:
                If there is none like that.
        """
        load = partial(self._store.load, self.session_id, at=at)
        return await in_thread(load)

    async def history(self, *, limit: int | None = None) -> tuple[Head, ...]:
        """
        Every state the session ever had, the newest first, or only so many;
        () if nothing was added yet.
        """
        try:
            history = partial(self._store.history, self.session_id, limit=limit)
            return await in_thread(history)
        except NotSavedError:
            return ()

    async def checkpoint(
        self, label: str, *, at: int | str | Head | None = None
    ) -> Head:
        """
        Call the state as it is now, or was *at*, by a *label*.

        Raises:
            NotSavedError:
                If there is none like that.
        """
        checkpoint = self._store.checkpoint
        return await in_thread(partial(checkpoint, self.session_id, label, at=at))

    async def rollback(
        self,
        to: int | str | Head | None = None,
        *,
        before_turn: int | None = None,
    ) -> Aggregator:
        """
        Go back to what was said at another time; the state that is.

        Nothing is lost: what it goes back from is in the history, and what was
        spent stays spent.

        Args:
            to: The number of a revision, a label or a head. None is now.

            before_turn: And there to what came before a user's message: 0 is
                the first one, -1 the last, to edit it and ask again.

        Raises:
            NotSavedError:
                If there is none like that.

            IndexError:
                If there are not so many messages of users.
        """
        if to is None and before_turn is None:
            msg = "rollback needs a revision, a label or a head, or before_turn"
            raise TypeError(msg)

        def go_back(state: Aggregator) -> Aggregator:
            then = state if to is None else self._store.load(self.session_id, at=to)
            return with_entries(state, then.entries.take(turn_at(then, before_turn)))

        update = self._store.update
        return await in_thread(partial(update, self.session_id, go_back))

    async def fork(
        self,
        session_id: str,
        *,
        at: int | str | Head | None = None,
        before_turn: int | None = None,
    ) -> StoreSession:
        """
        A session of another id with the same past, which is not copied.

        Args:
            session_id: Its id, which is new to the store.

            at: Fork from a revision, a label or a head. None is now.

            before_turn: And there from what came before a user's message, as
                in `rollback`.

        Raises:
            NotSavedError:
                If there is no state like that.

            IndexError:
                If there are not so many messages of users.

            StaleHeadError:
                If the store has that id already.
        """
        forked = StoreSession(
            self._store,
            session_id,
            view=self._view,
            session_settings=self.session_settings,
        )
        await in_thread(partial(self._fork, session_id, at, before_turn))
        return forked

    async def record(
        self, result: RunResultBase | RunErrorDetails, *, model: str = ""
    ) -> Usage:
        """
        Enter what a run spent into the ledger; what the whole session spent.

        Each response is entered once, however often its run is recorded, here
        and in forks: by the provider's id. Where there is none, as long as the
        program holds the response.

        Args:
            result: What a run gave; if it streams, when it is done. Of one that
                failed the ``run_data`` of its error.

            model: What it was spent on.

        Raises:
            InvalidUsageError:
                If a response was entered with another usage or model.
        """
        spent = tuple(spent_in(result))

        def enter(state: Aggregator) -> Aggregator:
            for key, usage in spent:
                state = state.add_usage(usage, key=key, model=model)

            return state

        return (await self._update(enter)).total_usage

    def close(self) -> None:
        """
        Close the store, if it was opened by `from_url`. Idempotent.
        """
        if self._owned:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await in_thread(self.close)

    def __repr__(self) -> str:
        return f"<StoreSession {self.session_id!r} in {self._store.url}>"

    def _load(self, view: Trimmer | None) -> Aggregator | None:
        try:
            state = self._store.load(self.session_id)
        except NotSavedError:
            return None

        if view is not None:
            # Weighs what is new, which the log remembers, in this thread; the
            # view itself may have to be awaited.
            TrimContext.of(state, view.budget, counter=view.counter)

        return state

    def _newest(self, limit: int) -> list[Any]:
        size = limit
        while True:
            try:
                window = self._store.load(self.session_id, last=size)
            except NotSavedError:
                return []

            items = newest(window.messages, limit)
            if items is not None:
                return items

            if not window.start:
                items = items_of(window.messages)
                return items[max(len(items) - limit, 0) :]

            size = 2 * size + 1

    async def _update(self, function: Callable[[Aggregator], Aggregator]) -> Aggregator:
        start = Aggregator.new()
        update = self._store.update
        return await in_thread(partial(update, self.session_id, function, start=start))

    async def _update_saved(self, function: Callable[[Aggregator], Aggregator]) -> None:
        try:
            await in_thread(partial(self._store.update, self.session_id, function))
        except NotSavedError:
            # Nothing was added yet, so there is nothing to take away.
            return

    def _fork(
        self, session_id: str, at: int | str | Head | None, before_turn: int | None
    ) -> None:
        if before_turn is None:
            self._store.fork(self.session_id, session_id, at=at)
            return

        state = self._store.load(self.session_id, at=at)
        forked = state.fork(at=turn_at(state, before_turn))
        self._store.save(session_id, forked, expecting=0)


def _settings(given: Any) -> Any:
    if not isinstance(given, Mapping):
        return given

    try:
        from agents.memory import SessionSettings  # noqa: PLC0415 - an extra
    except ImportError as error:
        wanted = "session_settings"
        raise MissingExtraError(wanted, "agents") from error

    return SessionSettings(**given)
