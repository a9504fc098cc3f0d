"""What type checkers must infer, and what they must refuse. Checked, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict, assert_type
from uuid import UUID

import agents as agents_sdk
from claude_agent_sdk import ClaudeAgentOptions, SessionKey, SessionStoreEntry
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
    ag_ui,
    ai_sdk,
    message_trees,
    openai_chat,
    sessions,
)
from conversation_state.aggregator import Entry, LedgerEntry, Messages
from conversation_state.cells import Cell, Watch
from conversation_state.chunks import Accumulator, concat_rows
from conversation_state.codec import structure
from conversation_state.counting import TokenCounter
from conversation_state.diffing import Diff, Pair, diff
from conversation_state.errors import DecodeError
from conversation_state.hosts import agents, langchain, pydantic_ai
from conversation_state.hosts.claude_agent import ClaudeSessionStore
from conversation_state.hosts.dbos import StoreSteps
from conversation_state.hosts.langgraph import (
    ConversationStateSaver,
    StateChannel,
    add_to_state,
)
from conversation_state.hosts.pydantic_ai import StoreBackend
from conversation_state.hosts.temporal import run_step
from conversation_state.parallel import (
    Failure,
    FanOut,
    afan_out,
    fan_out,
    save_progress,
)
from conversation_state.parsing import parse
from conversation_state.rendering import render_transcript
from conversation_state.store import Head, StateRef, Store, Window, open_store
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
    check_counter,
    check_reducer,
    check_summariser,
    check_trimming_step,
)
from conversation_state.testing.contracts import format_code
from conversation_state.timeline import Moment, Moments, Timeline
from conversation_state.tool_calls import acall, call
from conversation_state.tools import ToolInfo
from conversation_state.tree import MessageTree
from conversation_state.trimming import Dropped, Element, Flaw, Trimmer, keep_last

# States

chat = Aggregator.new(messages=[UserMessage("hi")])
assert_type(chat, Aggregator)
assert_type(chat.add(UserMessage("hi")), Aggregator)
assert_type(chat.add_usage(None, key="k", model="m"), Aggregator)
assert_type(chat.pending_calls, tuple[ToolCall, ...])
assert_type(chat.add_response([UserMessage("hi")]), Aggregator)
assert_type(chat.add_user_prompt(["hi", TextPart("there")]), Aggregator)
assert_type(chat.fork(), Aggregator)
assert_type(chat.fork(at=3), Aggregator)
assert_type(chat.join(chat.fork(), chat.turn), Aggregator)
assert_type(join(chat, chat.fork()), Aggregator)
assert_type(chat.turn, Turn)
assert_type(chat.checkpoint("before"), Checkpoint)
assert_type(chat.checkpoint().restore(), Aggregator)
assert_type(chat.checkpoint().merge_into(chat), Aggregator)
assert_type(chat.id, UUID)
assert_type(chat.parent_id, UUID | None)
assert_type(chat.messages, Messages)
assert_type(chat.messages[0], Message)
assert_type(chat.messages[1:], Messages)
assert_type(chat[0], Message)
assert_type(list(chat), list[Message])
assert_type(chat.entries, Log[Entry])
assert_type(chat.entries[0].id, str)
assert_type(chat.ledger, Log[LedgerEntry])
assert_type(chat.usage, Usage)
assert_type(chat.usage + None, Usage)
assert_type(chat.usage | Usage(), Usage)
assert_type(sum([Usage(), Usage()], Usage()), Usage)

chat.usage = Usage()  # type: ignore[misc]
chat.messages = ()  # type: ignore[misc, assignment]
chat.add("hi")  # type: ignore[arg-type]
chat.add_user_prompt(AssistantMessage("hi"))  # type: ignore[arg-type]
chat.join(chat.checkpoint())  # type: ignore[arg-type]
chat.fork(3)  # type: ignore[call-arg]
chat.add_usage(Usage(), "key")  # type: ignore[call-arg]

# Messages

answer = AssistantMessage([TextPart("hi")], tool_calls=[ToolCall("1", "clock")])
assert_type(answer.text, str)
assert_type(answer.tool_calls, tuple[ToolCall, ...])
assert_type(answer.replace(name="ann"), AssistantMessage)
assert_type(Envelope.new().user("hi"), UserMessage)
assert_type(Envelope.new().tool_error("no", tool_call_id="1"), ToolMessage)
assert_type(Envelope.new().run_id, UUID)

TextPart("hi", metadata={"any": ["JSON"]})
ToolCall("1", "clock", metadata={"any": ["JSON"]})

answer.content = "other"  # type: ignore[misc]
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
view = trim(chat, TokenBudget(context_window=8_000), fit(), counter=counter)
assert_type(view, TrimContext)
assert_type(view.messages, Sequence[Message])
assert_type(view.elements, Sequence[Element])
assert_type(view.dropped, Sequence[Dropped])
assert_type(view.problems(), tuple[Flaw, ...])
assert_type(view.remove(3), TrimContext)


def no_pleasantries(context: TrimContext) -> TrimContext:
    """A step is any function from a view to a view."""
    short = [e.seq for e in context.elements if e.tokens == 1]
    return context.remove(short)


trim(chat, None, no_pleasantries)
trim([UserMessage("hi")], None)
trim(chat, 8_000)  # type: ignore[arg-type]
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

cell = Cell(chat)
assert_type(cell, Cell[Aggregator])
assert_type(cell.value, Aggregator)
assert_type(cell.swap(lambda state: state.fork()), Aggregator)
assert_type(cell.compare_and_set(chat, chat), bool)
assert_type(cell.watch(lambda old, new: (old.id, new.id)), Watch[Aggregator])
assert_type(cell.awatch(), AsyncIterator[Aggregator])
cell.swap(len)  # type: ignore[arg-type]
cell.value = chat  # type: ignore[misc]
cell.watch(print, on_error=lambda error: error.args)

# Branches


async def step(state: Aggregator) -> Aggregator:
    """A step of `afan_out` is async; one of `fan_out` is not."""
    return save_progress(state)


async def branches() -> None:
    """Which steps go with which executor."""
    assert_type(await afan_out(chat, [step]), FanOut)
    assert_type(await cell.aswap(step), Aggregator)
    await afan_out(chat, [save_progress], executor=ThreadPoolExecutor())
    await afan_out(chat, [save_progress])  # type: ignore[list-item]
    await afan_out(chat, [step], executor=ThreadPoolExecutor())  # type: ignore[list-item]


assert_type(fan_out(chat, [save_progress]), FanOut)
assert_type(fan_out(chat, [save_progress]).state, Aggregator)
assert_type(fan_out(chat, [save_progress]).failures, tuple[Failure, ...])
fan_out(chat, [step])  # type: ignore[list-item]
fan_out(chat, [save_progress], on_error="ignore")  # type: ignore[arg-type]
fan_out(chat, [save_progress], on_turn=chat.join, timeout_s=3)

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

timeline = Timeline.begin(chat, "asked", limit=5, filter=lambda old, new: old != new)
assert_type(timeline, Timeline[Aggregator])
assert_type(timeline.commit(chat, "again", group="typing"), Timeline[Aggregator])
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
timeline.commit(chat, group=5)  # type: ignore[arg-type]
timeline.redo(5.0)  # type: ignore[arg-type]
timeline.goto(5.0)  # type: ignore[arg-type]
timeline.moment.label = "other"  # type: ignore[misc]
# Comparing

found = diff(chat, chat.fork())
assert_type(found, Diff)
assert_type(found.only_a, tuple[Entry, ...])
assert_type(found.ledger.only_b, tuple[LedgerEntry, ...])
assert_type(found.same[0], Pair[Entry])
assert_type(found.same[0].b, Entry)
assert_type(found.ledger.changed, tuple[Pair[LedgerEntry], ...])
assert_type(found.reversed(), Diff)
assert_type(found.html(names=("draft", "retry"), limit=5), str)
diff(chat, chat.turn)  # type: ignore[arg-type]
diff(chat, chat.checkpoint())  # type: ignore[arg-type]
found.text(names=("draft",))  # type: ignore[arg-type]
found.common = 5  # type: ignore[misc]
# Stores

store = open_store("memory:")
assert_type(store, Store)
assert_type(store.save("chat", chat), Head)
assert_type(store.load("chat"), Aggregator)
assert_type(store.load("chat", at="label"), Aggregator)
assert_type(store.load("chat", at=store.latest("chat"), last=20), Window)
assert_type(store.load("chat", default=None), Aggregator | None)
assert_type(store.load("chat", at=1, default=chat), Aggregator)
assert_type(store.load("chat", last=20, default=None), Window | None)
assert_type("chat" in store, bool)
assert_type(store.update("chat", lambda state: state.add(hel)), Aggregator)
assert_type(store.history("chat"), tuple[Head, ...])
assert_type(store.latest("chat").labels, tuple[str, ...])
assert_type(store.rollback("chat", "label", expecting=2), Head)
store.rollback("chat")  # type: ignore[call-arg]
store.save("chat", chat, expecting="1")  # type: ignore[arg-type]
store.load("chat", at=1.5)  # type: ignore[call-overload]
store.load("chat", "label")  # type: ignore[call-overload]


async def asynchronously() -> None:
    assert_type(await store.aload("chat"), Aggregator)
    assert_type(await store.aload("chat", last=20), Window)
    assert_type(await store.aload("chat", at="label", last=20), Window)
    assert_type(await store.aload("chat", default=None), Aggregator | None)
    assert_type(await store.aload("chat", last=20, default=None), Window | None)
    assert_type(await store.asave("chat", chat, expecting=2), Head)
    assert_type(await store.aappend("chat", *chat.messages, key="k"), Head)
    assert_type(await store.aview("chat", None), TrimContext)
    assert_type(await store.anames(prefix="a"), tuple[str, ...])
    await store.asave("chat", chat, expecting="1")  # type: ignore[arg-type]
    await store.aload("chat", "label")  # type: ignore[call-overload]
    await store.arollback("chat")  # type: ignore[call-arg]


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
assert_type(add_to_state(chat, [hel, Usage(1, 2)]), Aggregator)
checkpointer: BaseCheckpointSaver[Any] = saver
ConversationStateSaver("sqlite:///chats.db")  # type: ignore[arg-type]
saver.name(1)  # type: ignore[arg-type]


class GraphState(TypedDict):
    chat: Annotated[Aggregator, StateChannel]


memory: Backend = MemoryBackend()
# LangChain

lc_messages: list[BaseMessage] = []
assert_type(langchain.load(lc_messages), tuple[Message, ...])
assert_type(langchain.dump(chat.messages).lost, tuple[Lost, ...])
assert_type(langchain.trimmed(lc_messages, Trimmer(None)), list[BaseMessage])
langchain.trimmed([hel], Trimmer(None))  # type: ignore[list-item]
# The OpenAI Agents SDK

session = agents.StoreSession(store, "alice", view=Trimmer(None, keep_last(5)))
sdk_session: agents_sdk.Session = session
assert_type(agents.StoreSession.from_url("memory:", "a"), agents.StoreSession)
assert_type(agents.load([{"role": "user", "content": "hi"}]), tuple[Message, ...])
assert_type(agents.dump(chat).lost, tuple[Lost, ...])
claude_sessions = ClaudeSessionStore.from_url("memory:")
claude_options = ClaudeAgentOptions(session_store=claude_sessions)
assert_type(claude_sessions, ClaudeSessionStore)
ClaudeSessionStore("memory:")  # type: ignore[arg-type]


async def in_claude_sessions(key: SessionKey) -> None:
    assert_type(await claude_sessions.load(key), list[SessionStoreEntry] | None)
    assert_type(await claude_sessions.message_tree(key), MessageTree)
    assert_type((await claude_sessions.session(key)).usage, Usage)


assert_type(run_step(store, StateRef.parse(""), lambda state: state), StateRef)
run_step(store, store.latest("alice"), lambda state: state)  # type: ignore[arg-type]
dbos_steps = StoreSteps.from_url("memory:")


@dbos_steps.step(retries_allowed=True)
def answered(state: Aggregator, text: str) -> Aggregator:
    return state.add_assistant_message(text)


@dbos_steps.step()
async def aanswered(state: Aggregator) -> Aggregator:
    return state


@dbos_steps.step()  # type: ignore[arg-type]
def unanswered(_: Aggregator) -> str:
    return ""


async def in_a_workflow(ref: str) -> None:
    assert_type(answered(ref, "Hello."), str)
    assert_type(await aanswered(answered(ref, text="Hello.")), str)
    answered(ref, 5)  # type: ignore[arg-type]


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
    await session.record(chat)  # type: ignore[arg-type]
    await session.fork("bob", 5)  # type: ignore[call-arg]


# Pydantic AI

backend = StoreBackend.from_url("memory:")
hosted: ConversationStore = backend
assert_type(backend, StoreBackend)
assert_type(backend.store, Store)
assert_type(pydantic_ai.load([]), tuple[Message, ...])
assert_type(pydantic_ai.dump(chat.messages), Export)
trimmed = pydantic_ai.history_processor(Trimmer(None))
assert_type(trimmed, Callable[[list[ModelMessage]], list[ModelMessage]])
pydantic_ai.history_processor(8_000)  # type: ignore[arg-type]
capability: AbstractCapability[None] = pydantic_ai.TrimmedRequests(Trimmer(None))


async def in_an_agent() -> None:
    assert_type(await backend.load_state("chat"), Aggregator)
    assert_type(await backend.load("chat"), Conversation | None)


async def tool_calls(state: Aggregator, function: Callable[[int], str]) -> None:
    """Every message has calls, and every call is answered by a message."""
    assert_type(state[-1].tool_calls, tuple[ToolCall, ...])
    for each in state[-1].tool_calls:
        assert_type(call(function, each), ToolMessage)
        assert_type(await acall(function, each), ToolMessage)
        call(each, function)  # type: ignore[arg-type]


def session_files(lines: list[str]) -> None:
    """A session is a tree with a bill, and is written in the formats there are."""
    session = sessions.load_session(lines)
    assert_type(session, sessions.LoadedSession)
    assert_type(session.usage, Usage)
    assert_type(sessions.dump_session(session.tree, "codex"), Export)
    sessions.dump_session(session, "gemini_cli")  # type: ignore[arg-type]


async def message_tree_files(store: Store, file: object) -> None:
    """A file of trees gives each, or what is wrong with it."""
    for each in message_trees.load_trees(file):
        assert_type(each, message_trees.LoadedTree | DecodeError)
        if not isinstance(each, DecodeError):
            assert_type(message_trees.dump_tree(each), Export)
            message_trees.dump_tree(each.tree, format="librechat")
            message_trees.dump_tree(each.tree, format="chatgpt")  # type: ignore[arg-type]
            assert_type(store.save_tree("chat", each.tree), Head)
            assert_type(await store.asave_tree("chat", each.tree), Head)


# Contracts


def returns_a_state(state: Aggregator) -> Aggregator:
    return state


check_reducer(returns_a_state, without=["keeps messages"])
check_reducer(lambda _state: 3)
check_counter(by_characters)
check_counter(returns_a_state)  # type: ignore[arg-type]
check_trimming_step(fit(), also=["fits the budget"])
check_trimming_step(fit)  # type: ignore[arg-type]
check_summariser(lambda messages: f"{len(messages)} messages", max_tokens=9)
check_adapter(openai_chat)
check_adapter(returns_a_state)  # type: ignore[arg-type]
assert_type(format_code(chat), str)


def check_ai_sdk(body: object, chunks: list[Message]) -> None:
    asked = ai_sdk.load_request(body)
    assert_type(ai_sdk.resume_from(MessageTree.of(Aggregator.new()), asked), Aggregator)
    assert_type(asked.approvals, dict[str, bool])
    events = ai_sdk.dump_chunks(chunks, message_id="m", version=6)
    assert_type(ai_sdk.write_event(next(events)), str)
    assert_type([*ai_sdk.load_chunks(events)], list[Message])
    ai_sdk.dump(chunks, version=5)  # type: ignore[arg-type]


def check_ag_ui(body: object, chunks: list[AssistantMessage]) -> None:
    asked = ag_ui.load_input(body)
    assert_type(asked.messages, tuple[Message, ...])
    events = ag_ui.dump_chunks(chunks, message_id="m")
    run = ag_ui.wrap_run(events, thread_id=asked.thread_id, run_id=asked.run_id)
    assert_type(next(run), dict[str, Any])
    ag_ui.dump_chunks(chunks)  # type: ignore[call-arg]
