"""
A travel desk with Pydantic AI, whose conversations are states in a store.

    python examples/pydantic_ai_agent.py [sqlite:///chats.db]

The model is scripted, so it needs neither a key nor a network. Another one in
its place changes nothing else.
"""

import asyncio
import sys

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from conversation_state import TokenBudget, Trimmer, fit
from conversation_state.adapters import openai_chat
from conversation_state.hosts.pydantic_ai import StoreBackend, TrimmedRequests


def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """The responses of the scripted model: a call for each question, then an answer."""
    newest = messages[-1].parts[-1]
    if isinstance(newest, ToolReturnPart):
        return ModelResponse(parts=[TextPart(f"There is one {newest.content}.")])

    town = str(getattr(newest, "content", "")).rstrip("?").split()[-1]
    return ModelResponse(parts=[ToolCallPart("next_train", {"to": town})])


def print_line(line: str) -> None:
    """Show a line."""
    sys.stdout.write(f"{line}\n")


async def main(url: str) -> None:
    """Chat, fork, go back, and leave."""
    # What is sent is trimmed; what is kept is whole.
    trimmer = Trimmer(TokenBudget(context_window=60), fit(slack=20))
    agent = Agent(
        FunctionModel(answer),
        instructions="Answer like a travel desk.",
        capabilities=[TrimmedRequests(trimmer)],
    )

    @agent.tool_plain
    def next_train(to: str) -> str:
        """When the next train goes."""
        return f"to {to} at noon"

    async with StoreBackend.from_url(url) as backend:

        async def ask(prompt: str, key: str) -> Conversation:
            """One turn: loaded, run, saved."""
            chat = await backend.load(key) or Conversation(conversation_id=key)
            result = await agent.run(prompt, conversation=chat)
            await backend.save(result)
            print_line(f"  {prompt}  {result.output}")
            return result.conversation

        print_line("A conversation:")
        for town in ("Oslo", "Rome", "Bern"):
            chat = await ask(f"When is a train to {town}?", "desk")

        print_line("A fork, which shares the past:")
        fork = await backend.fork("desk", at=4, new_conversation_id="desk, again")
        await ask("When is a train to Wien?", fork.conversation_id)

        print_line("Back to before Bern, and on:")
        await backend.branch("desk", at=8, expected_revision=chat.revision)
        await ask("When is a train to Paris?", "desk")

        for key in ("desk", "desk, again"):
            state = await backend.load_state(key)
            saves = backend.store.latest(key).revision
            tokens = state.total_usage.total_tokens
            print_line(f"{key}: {len(state)} messages, {saves} saves, {tokens} tokens")

        before = await backend.load_state("desk", at=3)
        print_line(f"Save 3 is still there: {before[-1].text}")

        export = openai_chat.dump(state.messages)
        roles = ", ".join(message["role"] for message in export.payload["messages"])
        print_line(f"For another provider: {roles}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:] or ["memory:"]))
