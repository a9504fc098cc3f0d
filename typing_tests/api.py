"""
What type checkers must infer, and what they must refuse. Checked, never run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict, assert_type
from uuid import UUID

import agents as agents_sdk
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationStore
from pydantic_ai.messages import ModelMessage

from conversation_state import (
    Aggregator,
    AssistantMessage,
    Checkpoint,
    Envelope,
    ImagePart,
    Message,
    TextPart,
    TokenBudget,
    ToolCall,
    ToolMessage,
    TrimContext,
    Turn,
    Usage,
    UserMessage,
    by_characters,
    concat,
    fit,
    join,
    trim,
)
from conversation_state._persistent import Log
from conversation_state.adapters import (
    Export,
    Lost,
    agents,
    langchain,
    openai_chat,
    pydantic_ai,
)
from conversation_state.adapters.langgraph import (
    ConversationStateSaver,
    StateChannel,
    add_to_state,
)
from conversation_state.adapters.pydantic_ai import StoreBackend
from conversation_state.aggregator import Entry, LedgerEntry, Messages
from conversation_state.cells import Cell, Watch
from conversation_state.chunks import Accumulator, concat_rows
from conversation_state.codec import structure
from conversation_state.counting import TokenCounter
from conversation_state.diffing import Diff, Pair, diff
from conversation_state.parallel import (
    Failure,
    FanOut,
    afan_out,
    fan_out,
    save_progress,
)
from conversation_state.parsing import parse
from conversation_state.rendering import render_transcript
from conversation_state.store import Head, Store, Window, open_store
from conversation_state.store.backend import Backend
from conversation_state.store.backends.memory import MemoryBackend
from conversation_state.streams import (
    SKIP,
    Failed,
    Ok,
    Sender,
    SourceEnd,
    Stream,
    collect,
    pipe,
)
from conversation_state.testing import (
    check_adapter,
    check_backend,
    check_counter,
    check_reducer,
    check_session,
    check_summariser,
    check_trimming_step,
)
from conversation_state.testing.contracts import format_code
from conversation_state.timeline import Moment, Moments, Timeline
from conversation_state.tools import ToolInfo, acall, call
from conversation_state.trimming import Dropped, Element, Flaw, Trimmer, keep_last

# States

talk = Aggregator.new(messages=[UserMessage("hi")])
assert_type(talk, Aggregator)
assert_type(talk.add(UserMessage("hi")), Aggregator)
assert_type(talk.add_usage(None, key="k", model="m"), Aggregator)
assert_type(talk.fork(), Aggregator)
assert_type(talk.fork(at=3), Aggregator)
assert_type(talk.join(talk.fork(), talk.turn), Aggregator)
assert_type(join(talk, talk.fork()), Aggregator)
assert_type(talk.turn, Turn)
assert_type(talk.checkpoint("before"), Checkpoint)
assert_type(talk.checkpoint().restore(), Aggregator)
assert_type(talk.checkpoint().merge_into(talk), Aggregator)
assert_type(talk.id, UUID)
assert_type(talk.parent_id, UUID | None)
assert_type(talk.messages, Messages)
assert_type(talk.messages[0], Message)
assert_type(talk.messages[1:], Messages)
assert_type(talk[0], Message)
assert_type(list(talk), list[Message])
assert_type(talk.entries, Log[Entry])
assert_type(talk.entries[0].id, str)
assert_type(talk.ledger, Log[LedgerEntry])
assert_type(talk.usage, Usage)
assert_type(talk.usage + None, Usage)
assert_type(talk.usage | Usage(), Usage)
assert_type(sum([Usage(), Usage()], Usage()), Usage)

talk.usage = Usage()  # type: ignore[misc]
talk.messages = ()  # type: ignore[misc, assignment]
talk.add("hi")  # type: ignore[arg-type]
talk.add_user_prompt(AssistantMessage("hi"))  # type: ignore[arg-type]
talk.join(talk.checkpoint())  # type: ignore[arg-type]
talk.fork(3)  # type: ignore[call-arg]
talk.add_usage(Usage(), "key")  # type: ignore[call-arg]

# Messages

said = AssistantMessage([TextPart("hi")], tool_calls=[ToolCall("1", "clock")])
assert_type(said.text, str)
assert_type(said.tool_calls, tuple[ToolCall, ...])
assert_type(said.replace(name="ann"), AssistantMessage)
assert_type(Envelope.new().user("hi"), UserMessage)
assert_type(Envelope.new().tool_error("no", tool_call_id="1"), ToolMessage)
assert_type(Envelope.new().run_id, UUID)

TextPart("hi", metadata={"any": ["JSON"]})
ToolCall("1", "clock", metadata={"any": ["JSON"]})

said.content = "other"  # type: ignore[misc]
UserMessage("hi", nmae="ann")  # type: ignore[call-arg]
ToolMessage("12:30")  # type: ignore[call-arg]
ImagePart(url=3)  # type: ignore[arg-type]
Usage(prompt_tokens="3")  # type: ignore[arg-type]


class MyMessage(UserMessage):  # type: ignore[misc]
    pass


class MyUsage(Usage):  # type: ignore[misc]
    pass


class MyState(Aggregator):  # type: ignore[misc]
    pass


# Views

counter: TokenCounter = by_characters  # nobody has to subclass anything
view = trim(talk, TokenBudget(context_window=8_000), fit(), counter=counter)
assert_type(view, TrimContext)
assert_type(view.messages, Sequence[Message])
assert_type(view.elements, Sequence[Element])
assert_type(view.dropped, Sequence[Dropped])
assert_type(view.problems(), tuple[Flaw, ...])
assert_type(view.remove(3), TrimContext)


def no_pleasantries(context: TrimContext) -> TrimContext:
    """
    A step is any function from a view to a view.
    """
    short = [e.seq for e in context.elements if e.tokens == 1]
    return context.remove(short)


trim(talk, None, no_pleasantries)
trim([UserMessage("hi")], None)
trim(talk, 8_000)  # type: ignore[arg-type]
view.total_tokens = 3  # type: ignore[misc]

# Chunks

hel, lo = AssistantMessage("Hel"), AssistantMessage("lo")
assert_type(concat([hel, lo]), AssistantMessage)
pieces: list[Message] = [hel]
assert_type(concat(pieces, usage="delta"), Message)
assert_type(concat_rows([[hel, None]]), tuple[AssistantMessage | None, ...])
assert_type(Accumulator().add(hel), Accumulator)
assert_type(Accumulator().add(hel).message, Message)
concat(hel)  # type: ignore[arg-type]
concat([hel], usage="sum")  # type: ignore[arg-type]

# Streams

numbers = Stream.of([1])
assert_type(numbers, Stream[int])
assert_type(next(iter(numbers)), int)
assert_type(numbers.convert(lambda n: n or SKIP), Stream[int])
assert_type(numbers.convert(str, on_error=lambda e: e), Stream[str | Exception])
assert_type(numbers.results(), Stream[Ok[int] | Failed | SourceEnd])
sender, piped = pipe(3, of=int)
assert_type(sender, Sender[int])
assert_type(piped, Stream[int])
assert_type(collect(Stream.of([hel])), Message)
sender.send("")  # type: ignore[arg-type]
collect(numbers)  # type: ignore[arg-type]

# Cells

cell = Cell(talk)
assert_type(cell, Cell[Aggregator])
assert_type(cell.value, Aggregator)
assert_type(cell.swap(lambda state: state.fork()), Aggregator)
assert_type(cell.compare_and_set(talk, talk), bool)
assert_type(cell.watch(lambda old, new: (old.id, new.id)), Watch[Aggregator])
assert_type(cell.awatch(), AsyncIterator[Aggregator])
cell.swap(len)  # type: ignore[arg-type]
cell.value = talk  # type: ignore[misc]
cell.watch(print, on_error=lambda error: error.args)

# Branches


async def step(state: Aggregator) -> Aggregator:
    """
    A step of `afan_out` is async; one of `fan_out` is not.
    """
    return save_progress(state)


async def branches() -> None:
    """
    Which steps go with which executor.
    """
    assert_type(await afan_out(talk, [step]), FanOut)
    assert_type(await cell.aswap(step), Aggregator)
    await afan_out(talk, [save_progress], executor=ThreadPoolExecutor())
    await afan_out(talk, [save_progress])  # type: ignore[list-item]
    await afan_out(talk, [step], executor=ThreadPoolExecutor())  # type: ignore[list-item]


assert_type(fan_out(talk, [save_progress]), FanOut)
assert_type(fan_out(talk, [save_progress]).state, Aggregator)
assert_type(fan_out(talk, [save_progress]).failures, tuple[Failure, ...])
fan_out(talk, [step])  # type: ignore[list-item]
fan_out(talk, [save_progress], on_error="ignore")  # type: ignore[arg-type]
fan_out(talk, [save_progress], on_turn=talk.join, timeout_s=3)

# Tools

assert_type(ToolInfo.from_function(print), ToolInfo)
assert_type(ToolInfo("clock").name, str)

# Parsing and rendering


@dataclass
class Point:
    x: int
    y: int


assert_type(parse(hel, Point), Point)
assert_type(parse(hel, list[Point], path="points"), list[Point])
maybe: int | None = parse(hel, int | None, source="tool_call", call=-1)
assert_type(structure({}, Point), Point)
parse("{}", Point)  # type: ignore[call-overload]
parse(hel, Point, source="foo")  # type: ignore[call-overload]
parse(hel, Point, call=1.5)  # type: ignore[call-overload]
assert_type(render_transcript([hel], format="markdown"), str)
render_transcript([hel], format="html")  # type: ignore[arg-type]

# Timelines

timeline = Timeline.begin(talk, "asked", limit=5, filter=lambda old, new: old != new)
assert_type(timeline, Timeline[Aggregator])
assert_type(timeline.commit(talk, "again", group="typing"), Timeline[Aggregator])
assert_type(timeline.undo().redo().redo("again"), Timeline[Aggregator])
assert_type(timeline.goto(0).goto(timeline.moment), Timeline[Aggregator])
assert_type(timeline.present, Aggregator)
assert_type(timeline.moment, Moment[Aggregator])
assert_type(timeline.moments, Moments[Aggregator])
assert_type(timeline.moments[0].state, Aggregator)
assert_type(timeline.moments[1:], Moments[Aggregator])
assert_type(timeline.tips, tuple[Moment[Aggregator], ...])
assert_type(timeline.children(0), tuple[Moment[Aggregator], ...])
assert_type(timeline.limit, int | None)

timeline.commit("no state")  # type: ignore[arg-type]
timeline.commit(talk, group=5)  # type: ignore[arg-type]
timeline.redo(5.0)  # type: ignore[arg-type]
timeline.goto(5.0)  # type: ignore[arg-type]
timeline.moment.label = "other"  # type: ignore[misc]
# Comparing

found = diff(talk, talk.fork())
assert_type(found, Diff)
assert_type(found.only_a, tuple[Entry, ...])
assert_type(found.ledger.only_b, tuple[LedgerEntry, ...])
assert_type(found.same[0], Pair[Entry])
assert_type(found.same[0].b, Entry)
assert_type(found.ledger.changed, tuple[Pair[LedgerEntry], ...])
assert_type(found.reversed(), Diff)
assert_type(found.html(names=("draft", "retry"), limit=5), str)
diff(talk, talk.turn)  # type: ignore[arg-type]
diff(talk, talk.checkpoint())  # type: ignore[arg-type]
found.text(names=("draft",))  # type: ignore[arg-type]
found.common = 5  # type: ignore[misc]
# Stores

store = open_store("memory:")
assert_type(store, Store)
assert_type(store.save("talk", talk), Head)
assert_type(store.load("talk"), Aggregator)
assert_type(store.load("talk", at="label"), Aggregator)
assert_type(store.load("talk", at=store.latest("talk"), last=20), Window)
assert_type(store.load("talk", default=None), Aggregator | None)
assert_type(store.load("talk", at=1, default=talk), Aggregator)
assert_type(store.load("talk", last=20, default=None), Window | None)
assert_type("talk" in store, bool)
assert_type(store.update("talk", lambda state: state.add(hel)), Aggregator)
assert_type(store.history("talk"), tuple[Head, ...])
assert_type(store.latest("talk").labels, tuple[str, ...])
assert_type(store.rollback("talk", "label", expecting=2), Head)
store.rollback("talk")  # type: ignore[call-arg]
store.save("talk", talk, expecting="1")  # type: ignore[arg-type]
store.load("talk", at=1.5)  # type: ignore[call-overload]
store.load("talk", "label")  # type: ignore[call-overload]


async def asynchronously() -> None:
    assert_type(await store.aload("talk"), Aggregator)
    assert_type(await store.aload("talk", last=20), Window)
    assert_type(await store.aload("talk", at="label", last=20), Window)
    assert_type(await store.aload("talk", default=None), Aggregator | None)
    assert_type(await store.aload("talk", last=20, default=None), Window | None)
    assert_type(await store.asave("talk", talk, expecting=2), Head)
    assert_type(await store.anames(prefix="a"), tuple[str, ...])
    await store.asave("talk", talk, expecting="1")  # type: ignore[arg-type]
    await store.aload("talk", "label")  # type: ignore[call-overload]
    await store.arollback("talk")  # type: ignore[call-arg]


class OneTable:
    def reading(self) -> int:
        return 0


Store(OneTable())  # type: ignore[arg-type]
# LangGraph's threads

saver = ConversationStateSaver(store, allow_siblings=True)
assert_type(ConversationStateSaver.from_url("memory:"), ConversationStateSaver)
assert_type(saver.name("1", "messages", checkpoint_ns="a"), str)
assert_type(
    saver.get_tuple({"configurable": {"thread_id": "1"}}), CheckpointTuple | None
)
assert_type(add_to_state(talk, [hel, Usage(1, 2)]), Aggregator)
checkpointer: BaseCheckpointSaver[Any] = saver
ConversationStateSaver("sqlite:///talks.db")  # type: ignore[arg-type]
saver.name(1)  # type: ignore[arg-type]


class GraphState(TypedDict):
    talk: Annotated[Aggregator, StateChannel]


memory: Backend = MemoryBackend()
# LangChain

history = langchain.StoreChatMessageHistory(store, "talk")
assert_type(history.messages, list[BaseMessage])
assert_type(history.state, Aggregator)
assert_type(history.fork("again", at=2), langchain.StoreChatMessageHistory)
assert_type(history.trimmed(Trimmer(None)), list[BaseMessage])
assert_type(langchain.load(history.messages), tuple[Message, ...])
assert_type(langchain.dump(talk.messages).lost, tuple[Lost, ...])
assert_type(langchain.trimmed([], Trimmer(None)), list[BaseMessage])
histories: BaseChatMessageHistory = history
history.add_messages([hel])  # type: ignore[list-item]
history.fork("again", "at")  # type: ignore[call-arg, arg-type]
langchain.StoreChatMessageHistory("sqlite:///talks.db", "talk")  # type: ignore[arg-type]
# The OpenAI Agents SDK

session = agents.StoreSession(store, "alice", view=Trimmer(None, keep_last(5)))
sdk_session: agents_sdk.Session = session
assert_type(agents.StoreSession.from_url("memory:", "a"), agents.StoreSession)
assert_type(agents.load([{"role": "user", "content": "hi"}]), tuple[Message, ...])
assert_type(agents.dump(talk).lost, tuple[Lost, ...])
agents.StoreSession("memory:", "alice")  # type: ignore[arg-type]
agents.StoreSession(store, "alice", 5)  # type: ignore[call-arg, arg-type]


async def in_sessions(result: agents_sdk.RunResult) -> None:
    assert_type(await session.get_items(), list[agents_sdk.TResponseInputItem])
    assert_type(await session.pop_item(), agents_sdk.TResponseInputItem | None)
    assert_type(await session.state(at="label"), Aggregator)
    assert_type(await session.rollback("label"), Aggregator)
    assert_type(await session.fork("bob", before_turn=-1), agents.StoreSession)
    assert_type(await session.history(), tuple[Head, ...])
    assert_type(await session.record(result, model="gpt-5"), Usage)
    await session.record(talk)  # type: ignore[arg-type]
    await session.fork("bob", 5)  # type: ignore[call-arg]


# Pydantic AI

backend = StoreBackend.from_url("memory:")
hosted: ConversationStore = backend
assert_type(backend, StoreBackend)
assert_type(backend.store, Store)
assert_type(pydantic_ai.load([]), tuple[Message, ...])
assert_type(pydantic_ai.dump(talk.messages), Export)
trimmed = pydantic_ai.history_processor(Trimmer(None))
assert_type(trimmed, Callable[[list[ModelMessage]], list[ModelMessage]])
pydantic_ai.history_processor(8_000)  # type: ignore[arg-type]
capability: AbstractCapability[None] = pydantic_ai.TrimmedRequests(Trimmer(None))


async def in_an_agent() -> None:
    assert_type(await backend.load_state("talk"), Aggregator)
    assert_type(await backend.load("talk"), Conversation | None)


async def tool_calls(state: Aggregator, function: Callable[[int], str]) -> None:
    """
    Every message has calls, and every call is answered by a message.
    """
    assert_type(state[-1].tool_calls, tuple[ToolCall, ...])
    for each in state[-1].tool_calls:
        assert_type(call(function, each), ToolMessage)
        assert_type(await acall(function, each), ToolMessage)
        call(each, function)  # type: ignore[arg-type]


# Contracts


def returns_a_state(state: Aggregator) -> Aggregator:
    return state


check_reducer(returns_a_state, without=["keeps messages"])
check_reducer(lambda _state: 3)  # type: ignore[arg-type, return-value]
check_counter(by_characters)
check_counter(returns_a_state)  # type: ignore[arg-type]
check_trimming_step(fit(), also=["fits the budget"])
check_trimming_step(fit)  # type: ignore[arg-type]
check_summariser(lambda messages: f"{len(messages)} messages", max_tokens=9)
check_adapter(openai_chat)
check_adapter(returns_a_state)  # type: ignore[arg-type]
check_session(lambda name: agents.StoreSession(store, name))
check_session(returns_a_state)  # type: ignore[arg-type]
check_backend(MemoryBackend, is_kept=False)
assert_type(format_code(talk), str)
