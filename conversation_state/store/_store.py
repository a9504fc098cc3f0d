"""
The store: its verbs, and their twins for event loops.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Self, TypeVar, overload

from conversation_state._waiting import require_anyio
from conversation_state.aggregator import Aggregator
from conversation_state.errors import NotSavedError, StaleHeadError
from conversation_state.store._arguments import At
from conversation_state.store._values import Collected, Damage, Head, Receipt, Window
from conversation_state.store._verbs import UPDATE_ATTEMPTS, Verbs, make_update_error

__all__ = ["Store"]

T = TypeVar("T")


async def _in_thread(function: Callable[[], T]) -> T:
    """
    What *function* gives in a worker thread. Once begun it ends, also where
    the task that waits for it is cancelled.
    """
    anyio = require_anyio("a store in async code")
    result: T = await anyio.to_thread.run_sync(function)
    return result


class Store(Verbs):
    """
    States outside memory: each under a name, every one it ever was restorable.

    Made by `open_store`. Safe in many threads and many processes. The twins
    with an *a* do the same in worker threads, under asyncio and trio (extra
    `anyio`), and never keep the event loop waiting.

    The newest states of the last names used are kept in memory, by default of
    a hundred names: what was saved or loaded here is not read again.

    >>> from conversation_state.store import open_store
    >>> store = open_store("memory:")
    >>> talk = Aggregator.new().add_user_prompt("Hi!")
    >>> store.save("greeting", talk).revision
    1
    >>> _ = store.save("greeting", talk.add_assistant_message("Hello."))
    >>> store.load("greeting", at=1) == talk
    True
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    async def asave(
        self,
        name: str,
        state: Aggregator,
        *,
        expecting: Head | int | None = None,
        label: str = "",
    ) -> Head:
        """
        The async twin of `save`.
        """
        return await _in_thread(
            partial(self.save, name, state, expecting=expecting, label=label)
        )

    async def asave_all(
        self,
        states: Mapping[str, Aggregator],
        *,
        expecting: Mapping[str, Head | int] = MappingProxyType({}),
    ) -> dict[str, Head]:
        """
        The async twin of `save_all`.
        """
        return await _in_thread(partial(self.save_all, states, expecting=expecting))

    @overload
    async def aload(
        self, name: str, *, at: int | str | Head | None = None, last: None = None
    ) -> Aggregator: ...
    @overload
    async def aload(
        self, name: str, *, at: int | str | Head | None = None, last: int
    ) -> Window: ...
    async def aload(
        self, name: str, *, at: At = None, last: int | None = None
    ) -> Aggregator | Window:
        """
        The async twin of `load`.
        """
        if last is None:
            return await _in_thread(lambda: self.load(name, at=at))

        return await _in_thread(lambda: self.load(name, at=at, last=last))

    async def aupdate(
        self,
        name: str,
        function: Callable[[Aggregator], Awaitable[Aggregator]],
        *,
        start: Aggregator | None = None,
    ) -> Aggregator:
        """
        The async twin of `update`: *function* is async, too, and runs here.
        """
        for _ in range(UPDATE_ATTEMPTS):
            expecting: Head | int
            try:
                newest = await _in_thread(partial(self._load_newest, name))
                expecting, state = newest.head, newest.state
            except NotSavedError:
                if start is None:
                    raise

                expecting, state = 0, start

            made = await function(state)
            try:
                await self.asave(name, made, expecting=expecting)
            except StaleHeadError:
                continue

            return made

        raise make_update_error(self.url, name)

    async def alatest(self, name: str, *, at: At = None) -> Head:
        """
        The async twin of `latest`.
        """
        return await _in_thread(partial(self.latest, name, at=at))

    async def anames(self, *, prefix: str = "") -> tuple[str, ...]:
        """
        The async twin of `names`.
        """
        return await _in_thread(partial(self.names, prefix=prefix))

    async def ahistory(
        self, name: str, *, before: int | None = None, limit: int | None = None
    ) -> tuple[Head, ...]:
        """
        The async twin of `history`.
        """
        return await _in_thread(partial(self.history, name, before=before, limit=limit))

    async def alabel(self, name: str, label: str, *, at: At = None) -> Head:
        """
        The async twin of `label`.
        """
        return await _in_thread(partial(self.label, name, label, at=at))

    async def aunlabel(self, name: str, label: str) -> Head:
        """
        The async twin of `unlabel`.
        """
        return await _in_thread(partial(self.unlabel, name, label))

    async def arollback(
        self,
        name: str,
        to: int | str | Head,
        *,
        expecting: Head | int | None = None,
    ) -> Head:
        """
        The async twin of `rollback`.
        """
        return await _in_thread(partial(self.rollback, name, to, expecting=expecting))

    async def afork(self, name: str, new_name: str, *, at: At = None) -> Head:
        """
        The async twin of `fork`.
        """
        return await _in_thread(partial(self.fork, name, new_name, at=at))

    async def adelete(self, name: str, *, expecting: Head | int | None = None) -> None:
        """
        The async twin of `delete`.
        """
        await _in_thread(partial(self.delete, name, expecting=expecting))

    async def acollect_garbage(self, *, vacuum: bool = False) -> Collected:
        """
        The async twin of `collect_garbage`.
        """
        return await _in_thread(partial(self.collect_garbage, vacuum=vacuum))

    async def aerase(self, entry_id: str, *, reason: str) -> Receipt:
        """
        The async twin of `erase`.
        """
        return await _in_thread(partial(self.erase, entry_id, reason=reason))

    async def averify(self) -> tuple[Damage, ...]:
        """
        The async twin of `verify`.
        """
        return await _in_thread(self.verify)

    async def aclose(self) -> None:
        """
        The async twin of `close`.
        """
        await _in_thread(self.close)
