"""The history: LangChain's methods, and those that a store adds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage

from conversation_state.adapters._host import (
    SessionHost,
    check_trimmer,
    run_in_thread,
    save_fork,
)
from conversation_state.adapters._langchain import dump, load
from conversation_state.aggregator import Aggregator
from conversation_state.errors import NotSavedError
from conversation_state.messages import Message
from conversation_state.store import Store
from conversation_state.trimming import Trimmer


class StoreChatMessageHistory(SessionHost, BaseChatMessageHistory):
    """
    A LangChain message history whose conversation is in a store.

    Added messages are the next state of the name *session_id*: messages that
    `Store.load` returns and every adapter dumps, and their usage. LangChain gets
    back equal messages of the same class. Adding writes the new messages,
    however long the conversation is.

    Safe in many threads and processes: concurrent additions are all kept. The
    async twins are LangChain's own, which run the same methods in another thread.

    Args:
        store: An open store; see `from_url` for one of its own.

        session_id: The name of the conversation: 1 to 500 characters.

        view: Makes the view that `messages` returns, for programs that send all
            messages to a model. Each view starts from the previous one, and answers a
            call without a result by an error, also at the end, because a new message
            follows. All messages are stored, whatever the view.

    Raises:
        ValueError:
            If *session_id* is not a valid name.

        TypeError:
            If *store* is not an open store, or *view* not a `Trimmer`.

    >>> from langchain_core.messages import AIMessage, HumanMessage
    >>> with StoreChatMessageHistory.from_url("memory:", "greeting") as history:
    ...     history.add_messages([HumanMessage("Hi!"), AIMessage("Hello.")])
    ...     print(history)
    Human: Hi!
    AI: Hello.
    """

    def __init__(
        self, store: Store, session_id: str, *, view: Trimmer | None = None
    ) -> None:
        super().__init__(store, session_id, view)

    @property
    def state(self) -> Aggregator:
        """
        The conversation with its usage, as it is saved now; an empty state if
        nothing was added.

        Reads the messages that this store has not read yet.
        """
        try:
            return self.store.load(self.session_id)
        except NotSavedError:
            return Aggregator.new()

    async def astate(self) -> Aggregator:
        """The async twin of `state`."""
        return await run_in_thread(lambda: self.state)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # read-only
        """
        All messages, or those of the view, as new objects. O(messages).

        Content of other formats that LangChain does not support is left out:
        ``dump(history.state.messages).lost`` lists it.
        """
        if self._views is not None:
            return _dump_messages(self._views(self.state).messages)

        return _dump_messages(self.state.messages)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """
        Add *messages*, all of them or none, and the usage of answers.

        The usage of an answer with an id is recorded once, however often the
        answer is added.

        Raises:
            DecodeError:
                If one of them is of a class that is not LangChain's own, or
                can't be kept as JSON, with its path. Nothing is added.

            StoreError:
                If the store can't be written.
        """
        # Loaded before the update, which repeats its function if others save meanwhile.
        ours = load(messages)
        if ours:
            self.store.update(
                self.session_id,
                lambda state: state.add_response(*ours),
                start=Aggregator.new(),
            )

    def clear(self) -> None:
        """
        Delete the conversation, with all its revisions.

        Forks keep the messages they share. Messages that are not shared are in
        the file until `Store.collect_garbage`.
        """
        try:
            self.store.delete(self.session_id)
        except NotSavedError:
            return

    def fork(self, session_id: str, *, at: int | None = None) -> Self:
        """
        A history with another id that begins with the first *at* messages of
        this one, or with all of them.

        Writes three rows, however many messages there are. Messages that are added
        later to one history are not in the other.

        Raises:
            IndexError:
                If there are fewer than *at* messages.

            NotSavedError:
                If nothing was added yet.

            StaleHeadError:
                If *session_id* has a conversation already.
        """
        # Made before anything is saved, because it refuses an id that is not a valid
        # name.
        fork = type(self)(self.store, session_id, view=self._view_trimmer)
        state = self.store.load(self.session_id).fork(at=at)
        save_fork(self.store, session_id, state)
        return fork

    def trimmed(self, trimmer: Trimmer) -> list[BaseMessage]:
        """
        The *trimmer*'s view of the conversation.

        Converts the messages of the view only, and counts new ones only.

        Raises:
            BudgetExceededError, InvalidTranscriptError:
                As the trimmer's steps raise them.
        """
        return _dump_messages(check_trimmer(trimmer, "trimmer")(self.state).messages)

    async def atrimmed(self, trimmer: Trimmer) -> list[BaseMessage]:
        """
        The async twin of `trimmed`, also for trimmers with steps that have to
        be awaited.
        """
        state = await self.astate()
        view = await check_trimmer(trimmer, "trimmer").acall(state)
        return await run_in_thread(_dump_messages, view.messages)


def _dump_messages(messages: Iterable[Message]) -> list[BaseMessage]:
    payload: list[BaseMessage] = dump(messages).payload
    return payload
