"""
The recipes of README and docs, as they stand on the page, against drawn scripts of
models and users: no request of theirs is refused, and no tool runs that was stopped.

The judge is `conversation_state.testing.provider`, which knows nothing of this
library's adapters or views.
"""

import ast
import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from conversation_state import (
    Aggregator,
    AssistantMessage,
    ConversationStateError,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolCall,
    Usage,
    open_store,
    trim,
)
from conversation_state.adapters import openai_chat
from conversation_state.parts import ReasoningPart, TextPart
from conversation_state.stored_chat import StoredChat
from conversation_state.streams import Stream
from conversation_state.testing.provider import judge
from tests.adapters.helpers import PROVIDERS
from tests.profiles import is_thorough

ROOT = Path(__file__).parent.parent
SCRIPTS = 500 if is_thorough() else 50
LEVEL = "api"
# What servers send besides: ids that repeat or are too long, thoughts alone, no text.
IS_WILD = False


class KilledError(BaseException):
    """The process ends."""


def take_code(page: str, *markers: str) -> CodeType:
    """
    The code blocks of *page* that have a marker, in their order, without what they
    assert or wait for, which belongs to the example on the page.
    """
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    found = [block for block in blocks if any(each in block for each in markers)]
    assert len(markers) == len(found), f"{page} has changed"
    tree = ast.parse("\n".join(found))
    tree.body = [
        each
        for each in tree.body
        if not isinstance(each, ast.Assert)
        and not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Await))
    ]
    return compile(tree, page, "exec")


def run_code(code: CodeType, **given: Any) -> dict[str, Any]:
    """What *code* defines, where there is what is *given*."""
    exec(code, given)
    return given


class Script:
    """
    What a model answers and a user does, drawn; with what must not happen.

    Attributes:
        refused: The refusals of requests so far.

        ran: The arguments of the calls that were run.

        stopped: Those of calls after which the user wrote, or that were cut off.
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.refused: list[str] = []
        self.ran: list[str] = []
        self.stopped: set[str] = set()
        self.count = 0

    def judge(self, wire: str, request: dict[str, Any]) -> None:
        refusals = judge(wire, request, level=LEVEL)
        self.refused += [f"{wire}: {each}" for each in refusals]

    def judge_view(self, state: Aggregator) -> None:
        messages = trim(state, None).messages
        for wire, adapter in PROVIDERS.items():
            self.judge(wire, adapter.dump(messages).payload)

    def happens(self, chance: float) -> bool:
        return self.draw.random() < chance

    def die(self, chance: float) -> None:
        if self.happens(chance):
            raise KilledError

    def run_tool(self, city: str) -> str:
        """The tool of the pages, which fails now and then."""
        if city in self.stopped:  # no assertion: `call` makes results of errors
            self.refused.append(f"the stopped call of {city} ran")

        self.ran.append(city)
        if self.draw.random() < 0.1:
            raise ConnectionError("no timetable")

        return self.draw.choice(["", f"{city} 12:30"])

    def answer(self) -> AssistantMessage:
        """The next answer: words, calls, thoughts alone, or one that is cut off."""
        self.count += 1
        kind = self.draw.choice(["words", "calls", "calls", "calls", "thoughts", "cut"])
        if kind == "thoughts" and not IS_WILD:
            kind = "words"
        meta = ResponseMeta(
            "interrupted" if kind == "cut" else "stop",
            None if kind == "cut" else Usage(10 * self.count, 5),
            id=self.draw.choice(["", "0", f"resp_{self.count}"]),
        )
        content: list[Any] = []
        if kind == "thoughts" or self.draw.random() < 0.2:
            content.append(ReasoningPart("Hm.", signature="c2ln"))
        if kind == "words" or self.draw.random() < 0.3:
            content.append(
                TextPart(
                    self.draw.choice(["At noon.", "", " "] if IS_WILD else ["At noon."])
                )
            )

        calls = []
        if kind in {"calls", "cut"}:
            for number in range(self.draw.choice([1, 1, 2, 3])):
                city = f"{self.count}-{number}"
                call_id = self.draw.choice(
                    [
                        f"call_{city}",
                        f"call_{number}",
                        "functions.trains:0",
                        f"call_{'x' * 60}_{number}",
                    ][: None if IS_WILD else 1]
                )
                calls.append(ToolCall(call_id, "trains", f'{{"city": "{city}"}}'))

        message = AssistantMessage(content, tool_calls=calls, response=meta)
        if kind == "cut":
            self.note_stopped(message)

        return message

    def note_stopped(self, *messages: Any) -> None:
        """Note that the calls of *messages* are not to run from now on."""
        for message in messages:
            for call in message.tool_calls:
                city = json.loads(call.arguments)["city"]
                if city not in self.ran:
                    self.stopped.add(city)


def run_agent_turns(seed: int, wire: str, page: dict[str, Any]) -> list[str]:
    """The refusals in a conversation of some turns."""
    script, adapter = Script(seed), PROVIDERS[wire]

    def trains(city: str) -> str:
        """Trains that leave soon."""
        return script.run_tool(city)

    def ask(request: dict[str, Any]) -> list[AssistantMessage]:
        script.judge(wire, request)
        if script.happens(0.15):
            raise ConnectionError("the provider is down")

        return [script.answer()]

    page["trains"] = trains
    state = Aggregator.new().add_user_prompt("When is the next train?")
    for _ in range(6):
        try:
            done = page["run_turn"](state, adapter, ask)
        except ConnectionError:
            continue  # the state is as it was before the turn

        if script.happens(0.3):  # another tab, which saw no answer
            script.note_stopped(*state)
            done = done.join(state.fork().add_user_prompt("And to Geneva?"))

        state = done.add_user_prompt("And back?")
        script.note_stopped(*state)

    return script.refused


@pytest.mark.parametrize("wire", PROVIDERS)
def test_agent_turns(wire):
    """
    The loop of docs/agent-turns.md: with stops, errors, tries again, prompts from
    two tabs, and forks that are joined.
    """
    page = run_code(take_code("docs/agent-turns.md", "def run_turn"))
    refused = {seed: run_agent_turns(seed, wire, page) for seed in range(SCRIPTS)}

    assert {} == {seed: found for seed, found in refused.items() if found}


def run_resumed(seed: int, page: dict[str, Any]) -> list[str]:
    """The refusals in a conversation whose process dies now and then."""
    script, store = Script(seed), open_store("memory:")

    def write(text: str) -> None:
        script.note_stopped(*store.load("chat"))
        store.update("chat", lambda state: state.add_user_prompt(text))

    def disturb(text: str) -> None:
        if script.happens(0.15):
            write(text)
        script.die(0.15)

    def trains(city: str) -> str:
        """Trains that leave soon."""
        result = script.run_tool(city)
        disturb("How long will it take?")
        return result

    def ask(_request: object) -> AssistantMessage:
        script.judge_view(store.load("chat"))
        disturb("Hurry!")
        return script.answer()

    page |= {"store": store, "trains": trains}
    start = Aggregator.new([SystemMessage("You find trains.")])
    store.save("chat", start.add_user_prompt("When is the next train?"))
    for _ in range(8):
        try:
            page["run_saved_turn"]("chat", openai_chat, ask)
        except KilledError:
            if script.happens(0.3):
                write("STOP")
        else:
            write("And back?")

    store.close()
    return script.refused


def test_resume():
    """
    The saved turn of docs/agent-turns.md: killed anywhere and resumed, while the user
    writes, and after the user has pressed stop.
    """
    markers = "def run_turn", "def run_saved_turn"
    page = run_code(take_code("docs/agent-turns.md", *markers))
    refused = {seed: run_resumed(seed, page) for seed in range(SCRIPTS)}

    assert {} == {seed: found for seed, found in refused.items() if found}


def chat_events(draw: random.Random, number: int) -> list[dict[str, Any]]:
    """The events of a streamed answer, which may have no text and no usage."""
    id = draw.choice(["0", f"r{number}"])
    texts = draw.choice([[], [""], ["At ", "noon."], [" "]])
    events: list[dict[str, Any]] = [
        {"id": id, "choices": [{"index": 0, "delta": {"content": text}}]}
        for text in texts
    ]
    if draw.random() < 0.7:
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9 + number, "completion_tokens": 1}
        events += [
            {"id": id, "choices": [end]},
            {"id": id, "choices": [], "usage": usage},
        ]
    elif draw.random() < 0.5:
        events.append({"error": {"message": "overloaded"}})

    return events


def test_chat():
    """
    The chat of docs/chat.md: streamed answers that break off, fail or are stopped,
    undone prompts and edited ones.
    """
    refused = {seed: run_chat(seed) for seed in range(SCRIPTS)}

    assert {} == {seed: found for seed, found in refused.items() if found}


def run_chat(seed: int) -> list[str]:
    script = Script(seed)
    with open_store("memory:") as store:
        chat = StoredChat(store, "ann", start=Aggregator.new([SystemMessage("Hi")]))
        for number in range(6):
            prompt, events = f"Where to, {number}?", chat_events(script.draw, number)

            def model(asked: Aggregator, events: Any = events) -> Iterator[Message]:
                script.judge_view(asked)
                return openai_chat.load_chunks(events)

            if script.happens(0.3) and len(chat.timeline.present) > 1:
                answer = chat.edit(chat.timeline.present.entries[1].id, prompt, model)
            else:
                answer = chat.answer(prompt, model)

            if script.happens(0.2):
                chat.stop()

            with suppress(ConversationStateError):
                answer.result()

            if script.happens(0.2):
                chat.undo()

    return script.refused


def test_chat_with_tools():
    """
    The chat with tools of docs/chat.md: calls of every kind, tools that fail, a stop
    before any of its pieces, and questions while it answers.
    """
    code = take_code("docs/chat.md", "async def agent(asked)")
    seeds = range(SCRIPTS // 3)
    refused = {seed: asyncio.run(arun_chat(seed, code)) for seed in seeds}

    assert {} == {seed: found for seed, found in refused.items() if found}


async def arun_chat(seed: int, code: CodeType) -> list[str]:
    script = Script(seed)

    async def model(asked: Aggregator) -> AsyncIterator[Message]:
        script.judge_view(asked)
        yield script.answer()

    page = run_code(code, options={}, openai_chat=openai_chat, model=model)
    page["trains"] = script.run_tool
    with open_store("memory:") as store:
        chat = StoredChat(store, "ann")
        for number in range(6):
            prompt = f"Where to, {number}?"
            answer = await chat.aanswer(prompt, page["agent"])
            script.note_stopped(*find_before(prompt, chat.timeline.present))
            if script.happens(0.3):
                pieces = script.draw.randrange(4)
                async for _ in answer:
                    if not pieces:
                        break

                    pieces -= 1

                await chat.astop()
                script.note_stopped(*chat.timeline.present)
            elif script.happens(0.8):
                state = await answer.aresult()
                if state[-1].role != "assistant":
                    script.refused.append(f"{prompt} has no answer")

    return script.refused


def find_before(prompt: str, state: Aggregator) -> Iterator[Message]:
    """The messages of *state* before a user's *prompt*."""
    return takewhile(lambda message: message.text != prompt, state)


def test_streams():
    """The answer of docs/streams.md with its stop button, pressed anywhere."""
    page = run_code(take_code("docs/streams.md", "def answer(state, events, show)"))
    refused = {seed: run_streams(seed, page) for seed in range(SCRIPTS)}

    assert {} == {seed: found for seed, found in refused.items() if found}


def run_streams(seed: int, page: dict[str, Any]) -> list[str]:
    script, state = Script(seed), Aggregator.new()
    for number in range(5):
        state = state.add_user_prompt(f"When, {number}?")
        script.judge_view(state)
        state = stop_after(
            script.draw.choice([0, 1, 2, 5, 9]), page["answer"], state, number
        )

    return script.refused


def stop_after(presses: int, answer: Any, state: Aggregator, number: int) -> Any:
    """The answer whose stop button is pressed after so many chunks; 0 never."""
    events, shown = Stream.of(_anthropic_events(number)), []

    def show(received: object) -> None:
        shown.append(received)
        if len(shown) == presses:
            events.abort()

    return answer(state, events, show)


def _anthropic_events(number: int) -> list[dict[str, Any]]:
    begin = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    call = {
        "type": "tool_use",
        "id": f"toolu_{number}",
        "name": "trains",
        "input": {},
    }
    piece = {"type": "input_json_delta", "partial_json": '{"city": '}
    return [
        {"type": "message_start", "message": begin},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "It leaves"},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": call},
        {"type": "content_block_delta", "index": 1, "delta": piece},
        {"type": "content_block_stop", "index": 1},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]
