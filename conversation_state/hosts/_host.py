"""
What the hosts share: their store, calls in worker threads, a model's view of a
conversation, and states whose entries were replaced.

A host is another library's place for conversations (a checkpointer, a message
history, a session) with a store of ours behind it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import copy_context
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any, ParamSpec, Self, TypeVar

import attrs

from conversation_state._lazy import open_later
from conversation_state._persistent import Log
from conversation_state._waiting import load_anyio
from conversation_state._wording import describe_type, describe_value
from conversation_state.aggregator import Aggregator, Entry, ledger_union
from conversation_state.errors import MissingExtraError
from conversation_state.messages import Message
from conversation_state.store import StateRef, Store, open_store
from conversation_state.trimming import TrimContext, Trimmer, repair

P = ParamSpec("P")
T = TypeVar("T")

_UNSAFE = re.compile("[%/\0-\x1f\x7f\ud800-\udfff]")
_MAX_QUOTED = 120
_DIGEST_SIZE = 16


# Cached, because each turn saves under the names of its thread.
@lru_cache(maxsize=256)
def quote_name(text: str) -> str:
    """
    Any *text* as a part of a name in the store, at most 120 characters, without a
    slash; different texts are different parts.
    """
    quoted = _UNSAFE.sub(
        lambda found: "".join([f"%{byte:02X}" for byte in encode_text(found[0])]), text
    )
    if len(quoted) <= _MAX_QUOTED:
        return quoted

    digest = blake2b(encode_text(text), digest_size=_DIGEST_SIZE).hexdigest()
    return f"{quoted[: _MAX_QUOTED - len(digest) - 1]}~{digest}"


def parse_ref(ref: StateRef | str) -> StateRef:
    """*ref*, or the reference that its text is of; what else it is, a store refuses."""
    return StateRef.parse(ref) if isinstance(ref, str) else ref


def encode_text(text: str) -> bytes:
    """*text* as UTF-8, lone surrogates too; `decode_text` undoes it."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


async def run_in_thread(
    function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """
    What *function* returns, from a worker thread of asyncio.

    The call is waited for even if the task is cancelled, so that its writes are done
    when the task ends. A cancel scope of anyio cancels at the next `await` then, so
    the result is not lost.
    """
    # The context is copied, as by `asyncio.to_thread`, so that a tracer's span
    # reaches the thread.
    call: Any = partial(copy_context().run, _call_function, function, *args, **kwargs)
    future: asyncio.Future[T]
    future = asyncio.get_running_loop().run_in_executor(None, call)
    cancelled: BaseException | None = None
    # Without the shield a cancelled scope of anyio would cancel this task again in each
    # round of the event loop, until the call ends.
    try:
        with load_anyio().CancelScope(shield=True):
            while not future.done():
                try:
                    await asyncio.wait([future])
                except asyncio.CancelledError as error:
                    cancelled = error

        if cancelled is not None:
            raise cancelled from future.exception()

        return future.result()
    finally:
        # Both hold an error whose traceback holds this frame. Without the deletion
        # they would be a reference cycle.
        del future, cancelled


def _call_function(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return function(*args, **kwargs)
    except StopIteration as error:
        # A future refuses a StopIteration; before Python 3.12.2 it then never ends.
        raise RuntimeError("StopIteration was raised in a worker thread") from error


def import_lazily(
    package: str, modules: Mapping[str, str], *, extra: str, needs: Collection[str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """
    ``__getattr__`` and ``__dir__`` for a *package*: the names of *modules* are imported
    when they are first used, since they are subclasses of the host's classes. If one
    of the packages that the host *needs* is missing, a name raises a
    `MissingExtraError` with the *extra* that brings it.
    """
    homes = {name: f"{package}.{module}" for name, module in modules.items()}
    get_attribute, list_names = open_later(package, homes)

    def get(name: str) -> Any:
        try:
            return get_attribute(name)
        except ModuleNotFoundError as error:
            if str(error.name).partition(".")[0] not in needs:
                raise

            raise MissingExtraError(f"{package}.{name}", extra) from error

    return get, list_names


class StoreHost:
    """Base of the hosts: has an open store, and closes it if it opened it."""

    _owns_store = False

    def _set_store(self, store: Store) -> None:
        if not isinstance(store, Store):
            raise TypeError(
                f"store: expected an open Store, got {describe_type(store)}; "
                f"{type(self).__name__}.from_url opens one"
            )

        self._host_store = store

    @classmethod
    def from_url(
        cls, url: str, *args: Any, remembered: int = 100, **options: Any
    ) -> Self:
        """
        A host that opens the store at *url*, and closes it with itself: *url* and
        *remembered* are those of `open_store`, other arguments those of the class.

        Raises:
            StoreError: If the store can't be opened.
        """
        store = open_store(url, remembered=remembered)
        try:
            host = cls(store, *args, **options)  # type: ignore[call-arg]  # a subclass
        # BaseException, because an interrupt has to close the connection, too: no host
        # owns it yet.
        except BaseException:
            store.close()
            raise

        host._owns_store = True
        return host

    @property
    def store(self) -> Store:
        """The store that holds the conversations."""
        return self._host_store

    def close(self) -> None:
        """Close the store, if it was opened by `from_url`. Idempotent."""
        if self._owns_store:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    # `close` writes to the disk, which would block the event loop.
    async def __aexit__(self, *_error: object) -> None:
        await run_in_thread(self.close)


def check_trimmer(trimmer: object, parameter: str) -> Trimmer:
    """
    *trimmer*, the value of a *parameter*, if it is a `Trimmer`.

    Raises:
        TypeError: If it is not.
    """
    if not isinstance(trimmer, Trimmer):
        raise TypeError(
            f"{parameter}: expected a Trimmer, got {describe_value(trimmer)}; make "
            "one with Trimmer(TokenBudget(context_window=8_000))"
        )

    return trimmer


def answer_all_calls(trimmer: Trimmer) -> Trimmer:
    """
    *trimmer* for a conversation to which something else than a result is added next:
    it first answers each call without a result by an error, also at the end, where a
    stopped run left it.
    """
    return Trimmer(
        trimmer.budget, repair(at_end=True), *trimmer.steps, counter=trimmer.counter
    )


@attrs.define(eq=False)
class RollingTrimmer:
    """
    A trimmer that is given its previous view with each call, so that a summary
    is reused by the next request instead of made and billed again.

    Thread-safe: the last view is a single reference. A previous view of another
    conversation does no harm, because its summaries match nothing here.
    """

    trimmer: Trimmer
    last: TrimContext | None = attrs.field(default=None, init=False)
    _previous: TrimContext | tuple[Message, ...] | None = attrs.field(
        default=None, init=False
    )

    def __call__(self, messages: Aggregator | Iterable[Message], /) -> TrimContext:
        try:
            view = self.trimmer(messages, previous=self._previous)
        except BaseException as error:
            self._remember_summaries(error)
            raise

        self.last = self._previous = view
        return view

    # As a call of the trimmer, for steps that have to be awaited.
    async def acall(self, messages: Aggregator | Iterable[Message], /) -> TrimContext:
        try:
            view = await self.trimmer.acall(messages, previous=self._previous)
        except BaseException as error:
            self._remember_summaries(error)
            raise

        self.last = self._previous = view
        return view

    def _remember_summaries(self, error: BaseException) -> None:
        # The error has the summaries of the steps before the one that failed. They
        # are billed already, so the next call reuses them.
        summaries: Any = getattr(error, "summaries", ())
        if summaries:
            self._previous = tuple(summaries)


# *state* with these *entries*, and the ledger it has.
def replace_entries(state: Aggregator, entries: Log[Entry]) -> Aggregator:
    if entries is state.entries:
        return state

    return _rebuild_state(state, entries, state.ledger)


def keep_ledger(state: Aggregator, before: Aggregator | None) -> Aggregator:
    """
    *state*, whose ledger also has all entries of the state *before*: going back
    in a conversation does not undo its cost.
    """
    ledger = state.ledger if before is None else ledger_union(state, before)
    if len(ledger) == len(state.ledger):
        return state

    return _rebuild_state(state, state.entries, ledger)


def _rebuild_state(state: Aggregator, entries: Log[Entry], ledger: Any) -> Aggregator:
    return Aggregator.rebuild(
        id=state.id,
        parent_id=state.parent_id,
        root_id=state.root_id,
        # A host may have removed entries that were there when the state was forked.
        init_len=min(state.init_len, len(entries)),
        init_ledger_len=state.init_ledger_len,
        entries=entries,
        ledger=ledger,
    )


def bill_entries(state: Aggregator, entries: Log[Entry]) -> Aggregator:
    """
    *state* with these *entries*, and the usage of the responses that are new
    among them in its ledger.
    """
    since = entries.common_prefix(state.entries)
    return replace_entries(state, entries).record_responses(since=since)
