"""The session: the SDK's methods, and those that a store adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from conversation_state._wording import shorten_repr
from conversation_state.adapters.engine.reading import is_list
from conversation_state.adapters.openai_responses.items import write_view
from conversation_state.aggregator import Aggregator
from conversation_state.errors import MissingExtraError, NotSavedError, StaleHeadError
from conversation_state.hosts._host import (
    RollingTrimmer,
    StoreHost,
    answer_all_calls,
    check_trimmer,
    replace_entries,
    run_in_thread,
)
from conversation_state.hosts.agents._runs import (
    KeyedUsage,
    append_after,
    append_items,
    find_turn,
    items_of,
    load_apart,
    newest_items,
    pop_last_item,
    read_response_usage,
    read_usages,
)
from conversation_state.store import Head, Store, check_name
from conversation_state.store.records import is_remembered
from conversation_state.trimming import TrimContext, Trimmer
from conversation_state.usage import Usage

if TYPE_CHECKING:
    from agents import Agent, RunContextWrapper, RunHooks
    from agents.exceptions import RunErrorDetails
    from agents.items import ModelResponse, TResponseInputItem
    from agents.memory import SessionSettings
    from agents.result import RunResultBase


_FEW = 8  # messages that most items go on from


class StoreSession(StoreHost):
    """
    A session of the OpenAI Agents SDK whose conversation is in a store.

    Items that a run adds are the next state of the name *session_id*: messages
    that `Store.load` returns and every adapter dumps. The SDK gets back the items
    it added. Items that were popped, cleared or rolled back stay in the history.

    Safe in many tasks, threads and processes: concurrent additions are all kept.

    Args:
        store: An open store; see `from_url` for one of its own.
        session_id: The name of the conversation: 1 to 500 characters.
        view: Makes the view that a model gets in each run, starting from the previous
            one. A call without a result, which a stopped run left, is answered by an
            error there, also at the end. All items are stored, whatever the view.
        session_settings: The SDK's: ``limit`` is how many items a run reads.

    Raises:
        TypeError: If *session_settings* is a map with an unknown key.
        ValueError: If *session_id* is not a valid name, or both *view* and a limit are
            passed.
        MissingExtraError: If *session_settings* is a mapping, and the SDK is not
            installed.

    >>> import asyncio
    >>> async def converse(session):
    ...     await session.add_items([{"role": "user", "content": "Hi!"}])
    ...     return await session.get_items()
    >>> with StoreSession.from_url("memory:", "greeting") as session:
    ...     asyncio.run(converse(session))
    [{'role': 'user', 'content': 'Hi!'}]
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        store: Store,
        session_id: str,
        *,
        view: Trimmer | None = None,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
    ) -> None:
        self._set_store(store)
        self.session_id = check_name(session_id, "session_id")
        # The trimmer that was passed, which forks have, too.
        self._view_trimmer = view
        self._views: RollingTrimmer | None = None
        if view is not None:
            self._views = RollingTrimmer(answer_all_calls(check_trimmer(view, "view")))

        self.session_settings = _check_settings(session_settings)
        if view is not None and self._item_limit is not None:
            raise ValueError(
                "view and limit: expected one of them, got both; a Trimmer with "
                "keep_last(n) is a limit that keeps calls and results together"
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.session_id!r} in {self.store.url}>"

    @property
    def last_view(self) -> TrimContext | None:
        """
        The last view that was returned, with what it `dropped`, the `failures`
        of its steps, and the `summary_responses` that are in no ledger yet;
        None before the first, or without a *view*.
        """
        return None if self._views is None else self._views.last

    @property
    def _item_limit(self) -> int | None:
        return None if self.session_settings is None else self.session_settings.limit

    # The SDK's methods

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """
        The items that were added, or those of the *view*.

        Args:
            limit: Return the newest *limit* stored items, without a view. Reads
                these, not the whole conversation.

        Raises:
            BudgetExceededError, InvalidTranscriptError: As the view raises them.
        """
        if limit is None:
            limit = self._item_limit

        if limit is not None:
            if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
                raise ValueError(
                    "limit: expected 0 or more items or None, got "
                    f"{shorten_repr(limit)}"
                )

            return await run_in_thread(self._load_newest, limit)

        views = self._views
        if views is None:
            return await run_in_thread(self._load_items)

        state = await run_in_thread(self._load_state, views.trimmer)
        if state is None:
            return []

        return await run_in_thread(write_view, (await views.acall(state)).messages)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """
        Add *items*: all of them or, if there is an error, none.

        Raises:
            DecodeError: If one of them is not JSON; with every problem and its path.
        """
        # Only an empty list is skipped; None and other values are refused.
        if items or not is_list(items):
            await run_in_thread(self._add_items, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it, or None."""
        popped: list[Any] = []

        def shorten(state: Aggregator) -> Aggregator:
            # `Store.update` calls this function again if another process saved
            # meanwhile. The item of the last call is the one that is removed.
            short, item = pop_last_item(state)
            popped[:] = [item]
            return short

        await self._update_saved(shorten)
        return popped[0] if popped else None

    async def clear_session(self) -> None:
        """
        Remove all items. The history keeps them and all recorded usage;
        `Store.delete` deletes that, too.
        """
        await self._update_saved(
            lambda state: replace_entries(state, state.entries[:0])
        )

    # Methods that a store adds

    async def state(self, *, at: int | str | Head | None = None) -> Aggregator:
        """
        The conversation as a state, as it is now or was *at* a revision, a
        label or a head.

        Raises:
            NotSavedError: If there is no such state.
        """
        return await run_in_thread(self.store.load, self.session_id, at=at)

    async def history(self, *, limit: int | None = None) -> tuple[Head, ...]:
        """The revisions, newest first, at most *limit*; () if there are none."""
        try:
            return await run_in_thread(self.store.history, self.session_id, limit=limit)
        except NotSavedError:
            return ()

    async def label(self, label: str, *, at: int | str | Head | None = None) -> Head:
        """
        Let *label* point to the state as it is now, or was *at*. Other labels may point
        to the same state. A label that exists already moves.

        Raises:
            NotSavedError: If there is no such state.
        """
        return await run_in_thread(self.store.label, self.session_id, label, at=at)

    async def rollback(
        self, to: int | str | Head | None = None, *, before_turn: int | None = None
    ) -> Aggregator:
        """
        Go back to an earlier state, which is returned.

        Nothing is lost: later states are in the history, and the ledger keeps
        all recorded usage.

        Args:
            to: The number of a revision, a label or a head. None is now.
            before_turn: Go back to before a user's message of that state: 0 is
                the first one, -1 the last, to edit it and ask again.

        Raises:
            NotSavedError: If there is no such state.
            IndexError: If there is no such user's message.
        """
        if to is None and before_turn is None:
            raise TypeError(
                "rollback: expected a revision, a label, a head or before_turn"
            )

        def go_back(state: Aggregator) -> Aggregator:
            then = state if to is None else self.store.load(self.session_id, at=to)
            kept = then.entries.take(find_turn(then, before_turn))
            # `join` keeps the ledgers of both states, because a head may have been
            # replaced together with its ledger.
            return replace_entries(state.join(then.rollback(0)), kept)

        return await run_in_thread(self.store.update, self.session_id, go_back)

    async def fork(
        self,
        session_id: str,
        *,
        at: int | str | Head | None = None,
        before_turn: int | None = None,
    ) -> StoreSession:
        """
        A session with another id, which shares the past of this one.

        Args:
            session_id: Its id, which must be new to the store.
            at: Fork from a revision, a label or a head. None is now.
            before_turn: Fork from before a user's message of that state, as in
                `rollback`.

        Raises:
            NotSavedError: If there is no such state.
            IndexError: If there is no such user's message.
            StaleHeadError: If the store has *session_id* already.
        """
        forked = StoreSession(
            self.store,
            session_id,
            view=self._view_trimmer,
            session_settings=self.session_settings,
        )
        await run_in_thread(self._save_fork, session_id, at, before_turn)
        return forked

    async def record(
        self, result: RunResultBase | RunErrorDetails, *, model: str = ""
    ) -> Usage:
        """
        Record a run's usage in the ledger; returns the total usage of the session.

        Each response is recorded once, however often its run is recorded, here and
        in forks. It is recognised by the provider's id; a response without an id is
        recognised as long as the program holds it.

        Args:
            result: The result of a run; of a streamed run, when it is complete.
                For a failed run, the ``run_data`` of its error.
            model: The model that was used.

        Raises:
            InvalidUsageError: If a response was recorded with another usage or model.
        """
        return await self._record_usages(tuple(read_usages(result)), model)

    def hooks(self, *, model: str = "") -> RunHooks[Any]:
        """
        Hooks that record the usage of each response when it is there, also of a
        run that fails or is stopped: ``Runner.run(agent, "Hi!", session=session,
        hooks=session.hooks())``.

        `record` of the same run adds nothing.

        Args:
            model: The model that is used.

        Raises:
            MissingExtraError: If the SDK is not installed.
        """
        try:
            from agents import RunHooks  # noqa: PLC0415 - an extra
        except ImportError as error:
            what = "StoreSession.hooks"
            raise MissingExtraError(what, "agents") from error

        # The class is in a function, because its base is in the SDK, which is an extra.
        session = self

        class UsageHooks(RunHooks[Any]):
            async def on_llm_end(
                self,
                context: RunContextWrapper[Any],  # noqa: ARG002 - the SDK gives it
                agent: Agent[Any],  # noqa: ARG002
                response: ModelResponse,
            ) -> None:
                for each in read_response_usage(response):
                    await run_in_thread(session._append_usage, each, model)

        return UsageHooks()

    async def _record_usages(self, usages: Sequence[KeyedUsage], model: str) -> Usage:
        def add_usages(state: Aggregator) -> Aggregator:
            for key, usage in usages:
                state = state.add_usage(usage, key=key, model=model)

            return state

        state = await run_in_thread(
            self.store.update, self.session_id, add_usages, start=Aggregator.new()
        )
        return state.total_usage

    def _append_usage(self, each: KeyedUsage, model: str) -> None:
        key, usage = each
        try:
            self.store.append(self.session_id, usage=usage, key=key, model=model)
        except NotSavedError:
            self.store.update(
                self.session_id,
                lambda state: state.add_usage(usage, key=key, model=model),
                start=Aggregator.new(),
            )

    def _load_items(self) -> list[Any]:
        try:
            return items_of(self.store.load(self.session_id).messages)
        except NotSavedError:
            return []

    def _load_state(self, view: Trimmer) -> Aggregator | None:
        try:
            state = self.store.load(self.session_id)
        except NotSavedError:
            return None

        # The log remembers the token counts of messages. New ones are counted here, in
        # a worker thread, because the view is awaited on the event loop.
        TrimContext.of(state, view.budget, counter=view.counter)
        return state

    def _load_newest(self, limit: int) -> list[Any]:
        size = limit
        while True:
            try:
                window = self.store.load(self.session_id, last=size)
            except NotSavedError:
                return []

            items = newest_items(window.messages, limit)
            if items is not None:
                return items

            if not window.start:
                items = items_of(window.messages)
                return items[max(len(items) - limit, 0) :]

            size = 2 * size + 1

    def _add_items(self, items: Sequence[Any]) -> None:
        is_here = is_remembered(self.store, self.session_id)
        if is_here or not self._append_items(items):
            self.store.update(
                self.session_id,
                lambda state: append_items(state, items),
                start=Aggregator.new(),
            )

    def _append_items(self, items: Sequence[Any]) -> bool:
        """
        Add *items* behind the newest messages, without the others; whether that could
        be done. The call that a result answers may be far back, and an answer that goes
        on is another message.
        """
        expecting = None
        try:
            messages = load_apart(items)
            if messages is None:
                end = self.store.load(self.session_id, last=_FEW)
                messages = append_after(end.entries, items, is_whole=not end.start)
                expecting = end.head

            if messages is None:
                return False

            self.store.append(self.session_id, *messages, expecting=expecting)
        except (NotSavedError, StaleHeadError):
            return False

        return True

    async def _update_saved(self, function: Callable[[Aggregator], Aggregator]) -> None:
        try:
            await run_in_thread(self.store.update, self.session_id, function)
        except NotSavedError:
            # Nothing was added yet, so there is nothing to remove.
            return

    def _save_fork(
        self, session_id: str, at: int | str | Head | None, before_turn: int | None
    ) -> None:
        if before_turn is None:
            self.store.fork(self.session_id, session_id, at=at)
            return

        # `Store.fork` forks at a revision. A fork before a turn of a revision is a
        # state that no revision has, so it is saved.
        state = self.store.load(self.session_id, at=at)
        forked = state.fork(at=find_turn(state, before_turn))
        try:
            self.store.save(session_id, forked, expecting=0)
        except StaleHeadError as error:
            # As `Store.fork`: a fork is not joined to what is there, nor replaces it.
            advice = "Give the fork another name"
            advice += (
                "" if session_id == self.session_id else ", or delete that one first"
            )
            raise StaleHeadError(
                self.store.url, session_id, 0, error.actual, advice
            ) from None


def _check_settings(settings: Any) -> Any:
    if not isinstance(settings, Mapping):
        return settings

    try:
        from agents.memory import SessionSettings  # noqa: PLC0415 - an extra
    except ImportError as error:
        wanted = "session_settings"
        raise MissingExtraError(wanted, "agents") from error

    known = sorted(field.name for field in fields(SessionSettings))
    unknown = sorted(settings.keys() - {*known}, key=str)
    if unknown:
        raise TypeError(
            f"session_settings: unknown {', '.join(map(str, unknown))}; expected "
            f"{', '.join(known)}"
        )

    return SessionSettings(**settings)
