"""
A LangChain agent whose history is in a store: it forgets nothing, a second
thought is a fork, and the conversation leaves in another provider's words.

    python examples/langchain_history.py

The model is LangChain's own fake with a script, so nothing is sent anywhere;
put `ChatOpenAI` in its place and the rest stays as it is. Needs the extra
`langchain`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.tools import tool

from conversation_state import TokenBudget, Trimmer
from conversation_state.adapters import anthropic
from conversation_state.adapters.langchain import StoreChatMessageHistory

# What a model with a small window gets to see: never a result without its call.
VIEW = Trimmer(TokenBudget(context_window=40))


@tool
def departures(to: str) -> str:
    """When trains leave."""
    return {"Lyon": "08:10, 12:30", "Nice": "09:00"}.get(to, "none")


def make_answer(text: str, tokens: int, to: str = "") -> AIMessage:
    """An answer of the script, which calls the tool if there is somewhere *to* go."""
    calls: list[Any] = []
    if to:
        calls = [{"id": f"call_{to}", "name": "departures", "args": {"to": to}}]

    usage: Any = {
        "input_tokens": tokens,
        "output_tokens": 9,
        "total_tokens": tokens + 9,
    }
    return AIMessage(text, tool_calls=calls, usage_metadata=usage)


def ask(history: StoreChatMessageHistory, model: Any, question: str) -> BaseMessage:
    """The last answer of *model*. All messages are in *history*."""
    history.add_user_message(question)
    while True:
        answer: AIMessage = model.invoke(history.trimmed(VIEW))
        results: list[BaseMessage] = [
            departures.invoke(each) for each in answer.tool_calls
        ]
        history.add_messages([answer, *results])
        if not results:
            return answer


def called(message: Any) -> str:
    """The calls that *message* makes."""
    return ", ".join(f"departures({call['args']['to']})" for call in message.tool_calls)


def shown(history: StoreChatMessageHistory) -> Iterator[str]:
    """A line for each message, and one for what all of them cost."""
    yield f"{history.session_id}:"
    for message in history.messages:
        yield f"  {message.type:>6}  {message.text or called(message)}"

    yield f"  {history.state.total_usage.total_tokens:>6}  tokens"


def main() -> None:
    """Two questions, and another one instead of the second in a fork."""
    script = [
        make_answer("", 40, to="Lyon"),
        make_answer("At 08:10 and at 12:30.", 70),
        make_answer("Booked: 08:10, window, 49 euros.", 90),
        make_answer("", 90, to="Nice"),
        make_answer("There is one at 09:00.", 120),
    ]
    model = GenericFakeChatModel(messages=iter(script))
    with StoreChatMessageHistory.from_url("memory:", "to Lyon") as history:
        history.add_message(SystemMessage("You book trains."))
        ask(history, model, "When does a train leave for Lyon?")
        before = len(history.messages)
        ask(history, model, "Take the first one.")

        fork = history.fork("or to Nice", at=before)
        ask(fork, model, "And for Nice?")

        seen, leaving = fork.trimmed(VIEW), anthropic.dump(fork.state.messages)
        roles = [message["role"] for message in leaving.payload["messages"]]
        lines = [
            *shown(history),
            *shown(fork),
            f"The model saw {len(seen)} of {len(fork.messages)} messages.",
            f"In Anthropic's words: {', '.join(roles)}; {len(leaving.lost)} lost.",
        ]
        sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
