"""
One conversation as a service keeps it: asked, answered, undone, shown in tabs, saved.

A lock is held for each act and its save. Chunks need none and are not saved one by one:
each amends the moment of its answer in the cell. The model, which also runs the tools,
is the caller's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from inspect import iscoroutinefunction
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from conversation_state._identity import new_entry_id
from conversation_state._locks import RLock
from conversation_state._waiting import TaskEvent, async_twin
from conversation_state._wording import add_missing_names, describe_value, shorten_repr
from conversation_state.adapters.engine.ui import ask_prompt, find_prompt
from conversation_state.aggregator import Aggregator, Entry
from conversation_state.cells import Cell, Watch
from conversation_state.chunks import Accumulator
from conversation_state.errors import (
    InvalidMessageError,
    StaleHeadError,
    StreamClosedError,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import TextPart
from conversation_state.store import Head, Store
from conversation_state.streams import Stream, drain
from conversation_state.timeline import Timeline
from conversation_state.tree import MessageTree, name, ui_id_of

__all__ = ["ChatAnswer", "ChatUpdate", "StoredChat"]

State: TypeAlias = Aggregator
Answers: TypeAlias = "MappingProxyType[int, ChatAnswer]"
Chat: TypeAlias = "Timeline[Aggregator]"
Change: TypeAlias = "Callable[[ChatUpdate], Chat]"
Model: TypeAlias = Callable[[Aggregator], Iterable[Message] | AsyncIterable[Message]]

_MAX_ATTEMPTS = 100  # of an act, while other processes save at the same moment
_INTERRUPTED = AssistantMessage(response=ResponseMeta("interrupted"))
_STOPPED = StreamClosedError("the answer was stopped")


class ChatAnswer:
    """
    An answer that streams in, with readers or without; made by `StoredChat.answer`.

    *id* is that which interfaces know it by, *step* the number of its moment. Its
    *chunks* are what the model gives, a stream for any number of readers; reading the
    answer itself gives the same, from the start, and ends when it is saved.
    """

    def __init__(self, chat: StoredChat, id: str, chunks: Stream[Message]) -> None:
        moment = chat.timeline.moment
        self.step = moment.number
        self.chunks = chunks.convert(self._receive_chunk)
        self._show_chat = chat._show_chat
        self._asked = self._done = self._shown = moment.state
        self._received = Accumulator()
        self._result: Future[Aggregator] = Future()
        self.id = id or new_entry_id()  # with one it goes on, behind a client's results
        self._name = new_entry_id() if id else self.id

    def result(self) -> State:
        """The whole state, once saved. Raises what the model or the save raised."""
        return self._result.result()

    async def aresult(self) -> State:
        """Like `result`, for tasks."""
        ended = TaskEvent()
        self._result.add_done_callback(lambda _: ended.set())
        await ended.wait()
        return self._result.result()

    def __iter__(self) -> Iterator[Message]:
        yield from self.chunks
        self.result()

    async def __aiter__(self) -> AsyncIterator[Message]:
        async for chunk in self.chunks:
            yield chunk

        await self.aresult()

    def _receive_chunk(self, chunk: Message) -> Message:
        # Interfaces know each message by one id, while it streams in and later.
        if isinstance(chunk, ToolMessage):
            chunk = chunk if ui_id_of(Entry("", chunk)) else name(chunk, new_entry_id())
            self._shown = self._done = self._finish_answer().add(chunk)
        elif isinstance(chunk, AssistantMessage):
            if len(self._received) and _begins_response(chunk, self._received.message):
                self._finish_answer()

            chunk = chunk if len(self._received) else name(chunk, self._name)
            received = self._received.add(chunk)
            self._shown = self._done.add(name(received.message, self._name))
            self._received = received
        else:
            expected = "chunks of AssistantMessages and whole ToolMessages"
            raise TypeError(f"a model gives {expected}, got {shorten_repr(chunk)}")

        self._show_chat()
        return chunk

    def _finish_answer(self, *, is_cut: bool = False) -> State:
        # The state with the response that has come. Its usage is recorded only here,
        # since pieces of a response may have less of it.
        if len(self._received):
            meta = getattr(self._received.message, "response", None)
            if is_cut and not (meta and meta.finish_reason):
                self._received = self._received.add(_INTERRUPTED)

            message = name(self._received.message, self._name)
            self._shown = self._done = self._done.add_response(message)
            self._received, self._name = Accumulator(), new_entry_id()

        return self._done

    def _is_in(self, timeline: Chat) -> bool:
        # Another process may have replaced the chat that it was asked in.
        place = max(self.step - timeline.moments[0].number, 0)
        found = timeline.moments[place:][:1]
        return any(_begins_with(each.state, self._asked) for each in found)

    def _show_in(self, timeline: Chat, **note: Any) -> Chat:
        is_in = self._is_in(timeline)
        return timeline.amend(self.step, self._shown, **note) if is_in else timeline


class ChatUpdate(NamedTuple):
    """
    What a tab shows: a timeline, whose moments have an *error* in their notes if their
    answer failed; its tree; and the answers that stream in, by their steps. And what is
    new in it: *entries*, behind the message with the UI id *after*, as
    `MessageTree.news` has them.
    """

    timeline: Chat
    tree: MessageTree
    running: Answers
    after: str | None = None
    entries: tuple[Entry, ...] = ()

    def _make_update(self, shown: MessageTree | None) -> ChatUpdate:
        after, entries = self.tree.news(shown)
        return self._replace(after=after, entries=entries)


class StoredChat:
    """
    One conversation as a service keeps it, for several tabs and processes.

    A `Timeline` in a cell and the `MessageTree` that follows it, saved when something
    is asked, when it is answered, and after each undo, redo and switch. So a crash
    loses no question: `regenerate` answers it. If another process saved the chat, an
    act is done on what that saved. Messages are named by their UI ids, or by those of
    their entries. Thread-safe; the async twins save in worker threads. A program may go
    on with `timeline` and the store by itself. *name* is that of a timeline in *store*
    (`Store.save_timeline`), *start* the state of a new chat: a system message, say.
    """

    def __init__(self, store: Store, name: str, *, start: State | None = None) -> None:
        if not isinstance(store, Store):
            raise TypeError(
                f"store: expected a Store, got {describe_value(store)}; "
                "StoredChat(open_store(url), name) has one"
            )

        self.store, self.name = store, name
        self._start = Timeline.begin(start or Aggregator.new())
        self._lock = RLock()  # reentrant, since a question may have to end an answer
        self._head: Head | int = 0
        # Answers whose save failed, with their notes: the next save has them.
        self._unsaved: tuple[tuple[ChatAnswer, dict[str, str]], ...] = ()
        tree = MessageTree.of(self._start)
        self._cell = Cell(ChatUpdate(self._start, tree, MappingProxyType({})))
        self.refresh()

    @property
    def timeline(self) -> Chat:
        """All states, one of which is shown; with what has come of each answer."""
        return self._cell.value.timeline

    @property
    def tree(self) -> MessageTree:
        """All messages, with siblings and the whole bill."""
        return self._cell.value.tree

    @property
    def running(self) -> Answers:
        """The answers that stream in, by their steps."""
        return self._cell.value.running

    def answer(self, asked: Any, model: Model) -> ChatAnswer:
        """
        Ask *model*: the question is saved when this returns, and the answer begins. One
        that streams in where it is asked is stopped first.

        Args:
            asked: A text, a `UserMessage`, or a client's `adapters.ai_sdk.ChatRequest`
                or `adapters.ag_ui.RunInput`. A message with an id that the chat has
                (`tree.name`) is asked again, or edited.
            model: Called once, with the state to answer. Returns chunks and, between
                responses, whole `ToolMessage` objects: an async iterable, which a task
                of the running event loop reads, or another, which a thread reads. What
                that raises ends the answer.

        Raises LookupError if the place of a request is not in the chat, StaleHeadError
        or StoreError if it can't be saved (nothing was asked then), and TypeError or
        ValueError if *asked* or *model* is something else, or empty.
        """
        return self._ask_model(partial(_add_question, asked), model)

    aanswer = async_twin(answer)

    def edit(self, id: str, asked: str | UserMessage, model: Model) -> ChatAnswer:
        """
        Ask *model* something else in the place of a user's message, as its sibling.
        Raises what `answer` does; LookupError without such a message.
        """
        return self._ask_model(partial(_replace_question, id, asked), model)

    aedit = async_twin(edit)

    def regenerate(self, id: str, model: Model) -> ChatAnswer:
        """Ask *model* again what *id* answers, or asks. Raises what `edit` does."""
        return self._ask_model(
            lambda tree: tree.path(tree.question(tree.find(id))), model
        )

    aregenerate = async_twin(regenerate)

    def stop(self) -> None:
        """End all answers: what had come is saved, "interrupted", with its usage."""
        for answer in self.running.values():
            self._end_answer(answer, _STOPPED)

    astop = async_twin(stop)

    def undo(self, n: int = 1) -> Chat:
        """Go *n* steps back; what streams in goes on. StoreError if it isn't saved."""
        return self._commit_change(lambda chat: chat.timeline.undo(n))

    aundo = async_twin(undo)

    def redo(self) -> Chat:
        """Go a step further, as `Timeline.redo` does; StoreError as for `undo`."""
        return self._commit_change(lambda chat: chat.timeline.redo())

    aredo = async_twin(redo)

    def switch(self, id: str) -> Chat:
        """
        Show the way through a message, as `MessageTree.switch` does: no step, but its
        moment. Raises what `undo` does; LookupError without such a message.
        """
        return self._commit_change(
            lambda chat: chat.timeline.goto(chat.tree.switch(chat.tree.find(id)).moment)
        )

    aswitch = async_twin(switch)

    def refresh(self) -> Chat:
        """Show what another process has saved."""
        with self._lock:
            # The head first: if another one is saved meanwhile, the next save fails.
            is_there = self.name in self.store
            head = self.store.latest(self.name) if is_there else 0
            if head != self._head:
                self._show_chat(
                    self.store.load_timeline(self.name) if head else self._start
                )
                self._head = head

            return self.timeline

    arefresh = async_twin(refresh)

    def watch(self, callback: Callable[[ChatUpdate], object]) -> Watch[Any]:
        """Call *callback* with an update for each change, as `Cell.watch` does."""
        return self._cell.watch(lambda old, new: callback(new._make_update(old.tree)))

    async def awatch(self) -> AsyncIterator[ChatUpdate]:
        """What is shown, then what is new at changes; slow tabs skip those between."""
        shown = None
        async for chat in self._cell.awatch():
            yield chat._make_update(shown)
            shown = chat.tree

    def _ask_model(
        self, ask: Callable[[MessageTree], State], model: Model
    ) -> ChatAnswer:
        if not callable(model) or iscoroutinefunction(model):
            expected = "a function that returns chunks, an async generator say"
            raise TypeError(f"model is {shorten_repr(model)}; expected {expected}")

        with self._lock:
            for other in self._find_superseded(ask(self.tree)):
                self._end_answer(other, _STOPPED)

            # With a note it is a step of its own, also where nothing is added.
            self._commit_change(
                lambda chat: chat.timeline.commit(ask(chat.tree), note={})
            )
            tree, state = self.tree, self.timeline.present
            goes_on = len(state) and tree.head != tree.question(str(tree.head))
            id = str(tree.news(tree)[0]) if goes_on else ""
            try:
                chunks = Stream.of(_check_chunks(model(state)))
            except BaseException as error:
                note, step = _describe_error(error), self.timeline.moment.number
                self._commit_change(
                    lambda chat: chat.timeline.amend(step, state, note=note)
                )
                raise

            answer = ChatAnswer(self, id, chunks)
            self._show_chat(running={**self.running, answer.step: answer})
            drain(answer.chunks, partial(self._end_answer, answer))
            return answer

    def _find_superseded(self, asked: State) -> list[ChatAnswer]:
        """The answers that end where *asked* goes on, or from where it does."""
        present = self.timeline.moment.number
        return [
            other
            for other in self.running.values()
            if other.step == present
            or (other._shown is not other._asked and _begins_with(asked, other._shown))
        ]

    def _end_answer(self, answer: ChatAnswer, error: Exception | None) -> None:
        with self._lock:
            if self.running.get(answer.step) is not answer:
                return

            answer.chunks.abort()
            with suppress(StreamClosedError):  # who stops it is just receiving it
                deque(answer.chunks.results(), 0)

            failed = None if isinstance(error, StreamClosedError) else error
            running = {k: v for k, v in self.running.items() if v is not answer}

            def amend(chat: ChatUpdate) -> Chat:
                if not answer._is_in(chat.timeline):
                    raise LookupError("the chat was replaced while an answer came")

                return answer._show_in(chat.timeline, note=_describe_error(failed))

            try:
                answer._finish_answer(is_cut=error is not None)
                self._commit_change(amend, running)
            except Exception as raised:  # noqa: BLE001 - who waits for it gets it
                failed = failed or raised
                note = _describe_error(failed)
                self._unsaved = (*self._unsaved, (answer, note))
                self._show_chat(running=running)

        if failed is None:
            answer._result.set_result(answer._done)
        else:
            answer._result.set_exception(failed)

    def _commit_change(self, change: Change, running: Any = None) -> Chat:
        # Save what *change* makes of the chat, and show it.
        save = self.store.save_timeline
        with self._lock:
            for attempt in range(_MAX_ATTEMPTS):
                chat = self._cell.value
                timeline = change(chat)
                if timeline is chat.timeline and running is None:
                    break

                try:
                    self._head = save(self.name, timeline, expecting=self._head)
                except StaleHeadError:
                    if attempt == _MAX_ATTEMPTS - 1:
                        raise

                    self.refresh()
                else:
                    self._unsaved = ()
                    self._show_chat(timeline, running)
                    break

            return self.timeline

    def _show_chat(self, new: Chat | None = None, running: Any = None) -> None:
        # Show what is given, with what has come of each answer by then.
        def show(chat: ChatUpdate) -> ChatUpdate:
            answers = chat.running if running is None else MappingProxyType({**running})
            timeline = chat.timeline if new is None else new
            for answer, note in self._unsaved:
                timeline = answer._show_in(timeline, note=note)

            for answer in answers.values():
                timeline = answer._show_in(timeline)

            return ChatUpdate(timeline, chat.tree.follow(timeline), answers)

        self._cell.swap(show)


_SHOWN = "chat.timeline.present is the state that is shown"
add_missing_names(
    StoredChat,
    "a StoredChat has",
    {
        **dict.fromkeys(("ask", "send", "submit", "add_user_prompt"), "answer"),
        **dict.fromkeys(("messages", "state", "present", "history"), _SHOWN),
        **dict.fromkeys(("siblings", "pagers"), "chat.tree.pagers() has them"),
        **dict.fromkeys(("cancel", "abort"), "stop"),
        "save": "a chat saves itself with each act",
    },
)


def _check_chunks(made: Any) -> Any:
    if isinstance(made, (str, Message)):
        raise TypeError(
            f"model returned {shorten_repr(made)}; let it yield chunks: yield "
            "AssistantMessage(text)"
        )

    return made


def _add_question(asked: Any, tree: MessageTree) -> State:
    resume_from = getattr(asked, "resume_from", None)  # a client's
    if isinstance(asked, Mapping):
        load = "ag_ui.load_input" if "threadId" in asked else "ai_sdk.load_request"
        raise InvalidMessageError(
            f"asked is {shorten_repr(asked)}; expected a text, a UserMessage or a "
            f"request that was loaded: chat.answer({load}(body), model)"
        )

    state: State = resume_from(tree) if resume_from else _add_prompt(asked, tree)
    if len(state) and state[-1].role == "user" and state.entries[-1].id not in tree:
        is_all_text = all(isinstance(part, TextPart) for part in state[-1].parts)
        if is_all_text and not state[-1].text.strip():
            raise ValueError("asked is empty; expected a text with words")

    return state


def _add_prompt(asked: Any, tree: MessageTree) -> State:
    known = ask_prompt(asked, tree) if isinstance(asked, UserMessage) else None
    return tree.present.add_user_prompt(asked) if known is None else known


def _replace_question(id: str, asked: str | UserMessage, tree: MessageTree) -> State:
    node = tree.node(tree.find(id))
    if node.message.role != "user":
        raise ValueError(f"can't edit {id!r}: it is no message of a user's")

    if isinstance(asked, UserMessage) and find_prompt(asked, tree):  # by its old id
        asked = name(asked, new_entry_id())

    return _add_question(asked, MessageTree.of(tree.path(node.parent)))


def _describe_error(error: BaseException | None) -> dict[str, str]:
    text = str(error).encode(errors="replace").decode() or repr(error)
    return {} if error is None else {"error": text}


def _begins_response(chunk: AssistantMessage, received: Any) -> bool:
    """
    Whether *chunk* is of the response behind the one *received*: a model that paused,
    or reached its limit of tokens, goes on in one of its own, with its own usage.
    """
    if received.response is None or not received.response.finish_reason:
        return False

    old, new = received.response.id, chunk.response.id if chunk.response else ""
    return old != new if old and new else bool(chunk.content or chunk.tool_calls)


def _begins_with(state: Aggregator, start: Aggregator) -> bool:
    return state.entries.common_prefix(start.entries) == len(start)
