"""
Agents in few lines, honest ones and ones with a fault, for the contract of agents.

Each talks to a provider over HTTP with the standard library, and keeps its threads in
memory: as lists of the messages that it sends, or as states.
"""

import asyncio
import contextlib
import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from conversation_state import (
    Aggregator,
    AssistantMessage,
    ResponseMeta,
    TokenBudget,
    concat,
    trim,
)
from conversation_state.adapters import (
    anthropic,
    events,
    gemini,
    openai_chat,
    openai_responses,
)
from conversation_state.tool_calls import call as run_call
from conversation_state.tools import ToolInfo

__all__ = [
    "PROVIDERS",
    "TOOLS",
    "ListAgent",
    "LoopAgent",
    "StoppableAgent",
    "StoppableLoop",
]

TOOLS = [
    ToolInfo(
        "search",
        parameters={
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
        },
    ),
    ToolInfo("clock"),
]
MAX_ROUNDS = 10
NOT_RUN = "It was stopped before it ran."


class ProviderError(Exception):
    """The provider failed, or the connection did."""

    def __init__(self, message, status=0):
        super().__init__(message)
        self.status = status


@contextlib.contextmanager
def open_response(base_url, body, path="/chat/completions"):
    """The response to a request, as it comes."""
    url = urlsplit(base_url)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    try:
        connection.request(
            "POST",
            f"{url.path}{path}",
            json.dumps(body),
            {"Content-Type": "application/json"},
        )
        response = connection.getresponse()
        if response.status != 200:
            raise ProviderError(response.read().decode()[:300], response.status)

        yield response
    except (http.client.HTTPException, OSError) as error:
        raise ProviderError(repr(error)) from error
    finally:
        connection.close()


def post(base_url, body):
    """The whole response to a request."""
    with open_response(base_url, body) as response:
        return response.read()


class ListAgent:
    """
    An honest agent: it retries twice, answers every call, ends after ten rounds, and
    takes no part of an answer for all of it.
    """

    def __init__(self):
        self.threads = {}
        self.tokens = {}

    def __call__(self, base_url, prompt, thread):
        messages = self.threads.setdefault(thread, [])
        self.close(messages)
        messages.append({"role": "user", "content": prompt})
        for _ in range(MAX_ROUNDS):
            answer = self.ask(base_url, thread, messages)
            messages.append(answer)
            if not answer.get("tool_calls"):
                return self.reply(answer, thread)

            self.run_tools(messages, answer["tool_calls"])

        answer = {"role": "assistant", "content": "I give up."}
        messages.append(answer)
        return self.reply(answer, thread)

    def reply(self, answer, thread):
        text = answer.get("content") or answer.get("refusal") or ""
        return {"text": text, "usage": self.tokens.get(thread, 0)}

    def close(self, messages):
        """Answer the calls that a stop or an error left open."""
        answered = {each.get("tool_call_id") for each in messages}
        for at in range(len(messages) - 1, -1, -1):
            for call in messages[at].get("tool_calls", ()):
                if call["id"] not in answered:
                    messages.insert(at + 1, tool_message(call, NOT_RUN))

    def run_tools(self, messages, calls):
        messages += [tool_message(call, self.run_tool(call)) for call in calls]

    def run_tool(self, call):
        name = call["function"]["name"]
        if name not in {"search", "clock"}:
            return f"There is no tool {name}."

        try:
            json.loads(call["function"]["arguments"] or "{}")
        except ValueError:
            return "The arguments are no JSON."

        return f"{name} of {call['id']}"

    def ask(self, base_url, thread, messages):
        for _ in range(2):
            try:
                return self.ask_once(base_url, thread, messages)
            except ProviderError as error:
                if error.status == 400:
                    raise

        return self.ask_once(base_url, thread, messages)

    def ask_once(self, base_url, thread, messages):
        body = json.loads(post(base_url, {"model": "m", "messages": messages}))
        return self.take(body, thread)

    def take(self, body, thread):
        self.bill(body, thread)
        answer = body["choices"][0]["message"]
        # A message of nothing is refused, and so is a refusal without a content.
        text = answer.get("content") or answer.get("refusal")
        kept = {"content": text} if text else {}
        if answer.get("tool_calls"):
            kept["tool_calls"] = answer["tool_calls"]
        elif not text:
            kept = {"content": "(no answer)"}

        return {"role": "assistant", **kept}

    def bill(self, body, thread):
        known = self.tokens.get(thread, 0)
        self.tokens[thread] = known + body["usage"]["total_tokens"]


def tool_message(call, text):
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


class StreamingAgent(ListAgent):
    """The same, with streams."""

    def ask_once(self, base_url, thread, messages):
        asked = {"model": "m", "messages": messages, "stream": True}
        asked["stream_options"] = {"include_usage": True}
        return self.collect(events(post(base_url, asked).splitlines()), thread)

    def collect(self, stream, thread):
        answer = {"content": "", "refusal": ""}
        calls, reason, usage = {}, None, None  # type: ignore[var-annotated]
        for event in stream:
            usage = event.get("usage") or usage
            for choice in event["choices"]:
                delta = choice["delta"]
                answer["content"] += delta.get("content") or ""
                answer["refusal"] += delta.get("refusal") or ""
                reason = choice.get("finish_reason") or reason
                for piece in delta.get("tool_calls", ()):
                    call = calls.setdefault(
                        piece["index"],
                        {"type": "function", "function": {"name": "", "arguments": ""}},
                    )
                    call["id"] = piece.get("id") or call.get("id")
                    for key in ("name", "arguments"):
                        text = piece.get("function", {}).get(key) or ""
                        call["function"][key] += text

        self.check_end(reason)
        answer["tool_calls"] = list(calls.values())  # type: ignore[assignment]
        body = {"choices": [{"message": answer}], "usage": usage or {"total_tokens": 0}}
        return self.take(body, thread)

    def check_end(self, reason):
        if reason is None:
            raise ProviderError("the stream broke off")


class StoppableAgent(ListAgent):
    """The same as an async function, which may be cancelled anywhere."""

    async def __call__(self, base_url, prompt, thread):
        messages = self.threads.setdefault(thread, [])
        self.close(messages)
        messages.append({"role": "user", "content": prompt})
        for _ in range(MAX_ROUNDS):
            answer = await asyncio.to_thread(self.ask, base_url, thread, [*messages])
            await self.take_round(messages, answer)
            if not answer.get("tool_calls"):
                return self.reply(answer, thread)

        return {"text": "I give up.", "usage": self.tokens.get(thread, 0)}

    async def take_round(self, messages, answer):
        at = len(messages)
        results = []
        for call in answer.get("tool_calls", ()):
            await asyncio.sleep(0)
            results.append(tool_message(call, self.run_tool(call)))

        # In one step: nobody sees a call without its results.
        messages[at:at] = [answer, *results]


def search(query: str = "") -> str:
    """Searches."""
    return f"3 results for {query}"


def clock() -> str:
    """Tells the time."""
    return "12:30"


# The adapter of each wire, the path of a request, and what else is in it.
PROVIDERS: dict[str, Any] = {
    "openai_chat": (openai_chat, "/chat/completions", {"model": "m"}),
    "openai_responses": (openai_responses, "/responses", {"model": "m"}),
    "anthropic": (anthropic, "/v1/messages", {"model": "m", "max_tokens": 100}),
    "gemini": (gemini, "/models/m:generateContent", {}),
}


class LoopAgent:
    """
    The loop of the documentation, on any wire: of an answer that breaks off, what had
    come is kept as an interrupted one.
    """

    def __init__(self, wire, *, is_streamed):
        self.adapter, self.path, self.options = PROVIDERS[wire]
        self.is_streamed = is_streamed
        if is_streamed and wire == "gemini":
            self.path = "/models/m:streamGenerateContent?alt=sse"
        elif is_streamed:
            self.options = self.options | {"stream": True}

        if is_streamed and wire == "openai_chat":
            self.options["stream_options"] = {"include_usage": True}

        self.threads = {}

    def __call__(self, base_url, prompt, thread):
        self.add_prompt(prompt, thread)
        for _ in range(MAX_ROUNDS):
            if not self.needs_answer(thread):
                break

            pieces: list[AssistantMessage] = []
            try:
                pieces.extend(self.ask(base_url, thread))
            except ProviderError:
                if not pieces:
                    raise

                pieces.append(INTERRUPTED)

            self.add_answer(pieces, thread)

        return self.threads[thread]

    def add_prompt(self, prompt, thread):
        chat = self.threads.get(thread, Aggregator.new())
        self.threads[thread] = chat.add_user_prompt(prompt)

    def needs_answer(self, thread):
        """Answer the calls; whether the model is to be asked then."""
        for each in self.threads[thread].pending_calls:
            result = run_call({"search": search, "clock": clock}, each)
            self.threads[thread] = self.threads[thread].add_tool_response(result)

        return self.threads[thread][-1].role != "assistant"

    def ask(self, base_url, thread):
        """The pieces of an answer, or all of it."""
        view = trim(self.threads[thread], TokenBudget(context_window=100_000))
        request = self.adapter.dump(view.messages).payload
        request |= self.adapter.dump_tools(TOOLS).payload | self.options
        for _ in range(2):
            try:
                yield from self.ask_once(base_url, request)
            except ProviderError as error:
                if error.status not in (429, 500):
                    raise
            else:
                return

        yield from self.ask_once(base_url, request)

    def ask_once(self, base_url, request):
        with open_response(base_url, request, self.path) as response:
            if self.is_streamed:
                yield from self.adapter.load_chunks(events(response))
            else:
                yield from self.adapter.load(json.loads(response.read()))

    def add_answer(self, pieces, thread):
        self.threads[thread] = self.threads[thread].add_response(concat(pieces))


INTERRUPTED = AssistantMessage(response=ResponseMeta("interrupted"))


class StoppableLoop(LoopAgent):
    """The same as an async function: what had come before a stop is kept, too."""

    async def __call__(self, base_url, prompt, thread):
        self.add_prompt(prompt, thread)
        for _ in range(MAX_ROUNDS):
            if not self.needs_answer(thread):
                break

            pieces = []
            try:
                for piece in self.ask(base_url, thread):
                    await asyncio.sleep(0)
                    pieces.append(piece)
            except (asyncio.CancelledError, ProviderError) as error:
                if pieces:
                    self.add_answer([*pieces, INTERRUPTED], thread)

                if not pieces or isinstance(error, asyncio.CancelledError):
                    raise
            else:
                self.add_answer(pieces, thread)

        return self.threads[thread]
