"""
The history: LangChain's verbs, and what a store adds to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage
from langchain_core.runnables.config import run_in_executor

from conversation_state.adapters._langchain import dump, load
from conversation_state.adapters.langchain._trimmed import checked_trimmer, shown
from conversation_state.aggregator import Aggregator
from conversation_state.errors import InvalidUsageError, NotSavedError
from conversation_state.messages import AssistantMessage, Message
from conversation_state.store import Store, open_store
from conversation_state.store._core import checked_name
from conversation_state.trimming import Trimmer

__all__ = ["StoreChatMessageHistory"]

SOURCE = "langchain"


class StoreChatMessageHistory(BaseChatMessageHistory):
    """
    A LangChain message history whose conversation is in a store.

    What is added is the next state of the name *session_id*: messages that
    `Store.load` gives and every adapter dumps, and what they cost. LangChain
    gets back what it gave, equal and of the same class. Adding writes what is
    new, however much there is.

    Safe in many threads and processes: two that add at once both do. The
    twins with an *a* are LangChain's own: they do the same in another thread.

    Args:
        store: An open store; see `from_url` for one of its own.

        session_id: What the conversation is saved under: 1 to 500 characters.

        view: What `messages` shows of it, chosen anew each time, for those who
            hand all messages to a model. All is stored, whatever is shown.

    Raises:
        ValueError:
            If *session_id* can't be a name.

        TypeError:
            If *store* is no open store, or *view* no `Trimmer`.

    >>> from langchain_core.messages import AIMessage, HumanMessage
    >>> with StoreChatMessageHistory.from_url("memory:", "greeting") as history:
    ...     history.add_messages([HumanMessage("Hi!"), AIMessage("Hello.")])
    ...     print(history)
    Human: Hi!
    AI: Hello.
    """

    session_id: str

    def __init__(
        self, store: Store, session_id: str, *, view: Trimmer | None = None
    ) -> None:
        super().__init__()
        if not isinstance(store, Store):
            msg = (
                f"store is a {type(store).__name__}; expected an open Store, or "
                "use StoreChatMessageHistory.from_url"
            )
            raise TypeError(msg)

        self.session_id = checked_name(session_id, "session_id")
        self._store = store
        self._view = None if view is None else checked_trimmer(view)
        self._owned = False

    @classmethod
    def from_url(
        cls, url: str, session_id: str, *, view: Trimmer | None = None
    ) -> Self:
        """
        A history in the store at *url*, which it closes when it is closed; see
        `open_store`.
        """
        store = open_store(url)
        try:
            history = cls(store, session_id, view=view)
        except BaseException:
            store.close()
            raise

        history._owned = True
        return history

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await run_in_executor(None, self.close)

    def __repr__(self) -> str:
        return f"<StoreChatMessageHistory {self.session_id!r} in {self._store.url}>"

    @property
    def store(self) -> Store:
        """
        The store it is in.
        """
        return self._store

    @property
    def state(self) -> Aggregator:
        """
        All that was said, and what it cost, as it is saved now; an empty state
        if nothing was said.

        Reads what is new since this store looked last.
        """
        try:
            return self._store.load(self.session_id)
        except NotSavedError:
            return Aggregator.new()

    async def astate(self) -> Aggregator:
        """
        The async twin of `state`.
        """
        return await run_in_executor(None, lambda: self.state)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # read-only
        """
        All that was said, or what the view shows of it. Fresh each time, and
        the caller's to change. O(that).

        What LangChain has no word for, if others have said it, is left out:
        ``dump(history.state.messages).lost`` tells what.
        """
        if self._view is not None:
            return self.trimmed(self._view)

        found: list[BaseMessage] = dump(self.state.messages).payload
        return found

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """
        Add *messages*, all of them or none, and what answers cost.

        An answer with an id costs what it says once, however often it is
        added.

        Raises:
            DecodeError:
                If one of them is of a class that is not LangChain's own, or
                holds what can't be kept, with its place. Nothing was added.

            StoreError:
                If the store can't be written.
        """
        ours = load(messages)
        if ours:
            self._store.update(
                self.session_id,
                lambda state: _extended(state, ours),
                start=Aggregator.new(),
            )

    def clear(self) -> None:
        """
        Let go of the conversation, and of all states it was in.

        Forks keep what they share. What nobody shares is in the file until
        `Store.collect_garbage`.
        """
        try:
            self._store.delete(self.session_id)
        except NotSavedError:
            return

    def fork(self, session_id: str, *, at: int | None = None) -> Self:
        """
        A history of its own that begins with the first *at* messages of this,
        or with all of them.

        Three rows are written, however many there are. Neither notices what
        the other adds.

        Raises:
            IndexError:
                If there are not so many messages.

            NotSavedError:
                If nothing was said yet.

            StaleHeadError:
                If *session_id* has a conversation already.
        """
        fork = type(self)(self._store, session_id, view=self._view)
        state = self._store.load(self.session_id).fork(at=at)
        self._store.save(session_id, state, expecting=0)
        return fork

    def trimmed(self, trimmer: Trimmer) -> list[BaseMessage]:
        """
        What *trimmer* shows of all that was said.

        Only what is shown is converted, and only what is new is counted.

        Raises:
            BudgetExceededError, InvalidTranscriptError:
                As the trimmer's steps say.
        """
        return shown(checked_trimmer(trimmer)(self.state))

    async def atrimmed(self, trimmer: Trimmer) -> list[BaseMessage]:
        """
        The async twin of `trimmed`, for trimmers whose steps are awaited, too.
        """
        state = await self.astate()
        view = await checked_trimmer(trimmer).acall(state)
        return await run_in_executor(None, shown, view)

    def close(self) -> None:
        """
        Close the store if it is this history's own. Idempotent.
        """
        if self._owned:
            self._store.close()


def _extended(state: Aggregator, messages: Sequence[Message]) -> Aggregator:
    """
    *state* with *messages*, and with what they cost.
    """
    before, grown = len(state), state.extend(messages)
    for at, message in enumerate(messages):
        if isinstance(message, AssistantMessage) and message.response is not None:
            notes: Any = message.metadata.get(SOURCE, {})
            key = notes.get("id") or grown.entries[before + at].id
            usage, model = message.response.usage, message.response.model
            try:
                grown = grown.add_usage(usage, key=key, model=model)
            except InvalidUsageError:
                # The same id with another usage is another response: a piece
                # of a stream, or one that was asked for again.
                grown = grown.add_usage(usage, model=model)

    return grown
