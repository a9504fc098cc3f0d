"""
A travel desk on the OpenAI Agents SDK whose conversation is in a store.

    python examples/agents_session.py

Nothing is sent anywhere: the model is scripted. Needs the extra ``agents``.
"""

import asyncio
import json
import sys
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from conversation_state import diff, open_store
from conversation_state.adapters import anthropic
from conversation_state.hosts.agents import StoreSession

QUIET = RunConfig(tracing_disabled=True)


class Scripted(Model):
    """
    A model that looks up a train where it is asked for one, and says what it
    found.
    """

    async def get_response(self, *_: Any, **request: Any) -> ModelResponse:
        """One response to the items it is sent."""
        items = request["input"]
        output: ResponseOutputMessage | ResponseFunctionToolCall
        if items[-1].get("type") == "function_call_output":
            text = f"{items[-1]['output']} Shall I book it?"
            output = ResponseOutputMessage(
                id=f"msg_{len(items)}",
                type="message",
                role="assistant",
                status="completed",
                content=[
                    ResponseOutputText(type="output_text", text=text, annotations=[])
                ],
            )
        else:
            output = ResponseFunctionToolCall(
                type="function_call",
                call_id=f"call_{len(items)}",
                name="next_train",
                arguments=json.dumps({"to": items[-1]["content"].split()[-1][:-1]}),
            )

        usage = Usage(1, input_tokens=40 * len(items), output_tokens=20)
        return ModelResponse([output], usage, response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        """Nothing streams here."""
        raise NotImplementedError


@function_tool
def next_train(to: str) -> str:
    """When the next train leaves."""
    return f"To {to} at {'12:30' if to == 'Bern' else '12:04'}."


async def ask(desk: Agent[Any], session: StoreSession, question: str) -> str:
    """A run, billed in the session's ledger."""
    result = await Runner.run(desk, question, session=session, run_config=QUIET)
    usage = await session.record(result)
    answer = f"{result.final_output} ({usage.total_tokens} tokens so far)"
    return f"{session.session_id}: {question}\n    {answer}"


async def run() -> list[str]:
    """A conversation, another way on, the way back, and a way out."""
    desk = Agent("desk", "You find trains.", model=Scripted(), tools=[next_train])
    with open_store("memory:") as store:
        session = StoreSession(store, "alice")
        lines = [await ask(desk, session, "When is the next train to Bern?")]
        await session.label("before Basel")
        lines.append(await ask(desk, session, "And to Basel?"))

        # The last question again, in other words; the past is not copied.
        retry = await session.fork("alice, again", before_turn=-1)
        lines.append(await ask(desk, retry, "And to Zug?"))

        both = diff(await session.state(), await retry.state())
        lines += ["\nWhere the two part:", both.text(names=("alice", "again"))]

        state = await session.rollback("before Basel")
        lines.append("\nBack before Basel, in Anthropic's words:")
        lines += [
            f"  {turn['role']:10}{json.dumps(turn['content']):.60}"
            for turn in anthropic.dump(state).payload["messages"]
        ]
        return lines


if __name__ == "__main__":
    sys.stdout.write("\n".join([*asyncio.run(run()), ""]))
