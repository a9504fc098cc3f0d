"""
An agent whose tools take the conversation back when a check fails.

    python examples/careful_agent.py

Any tool may raise `RollBack`. Then the conversation is what it was before the attempt,
with a note that says why; what the tools did since is undone; and the bill is that of
all attempts, because going back does not bring the money back. The model is a script,
so nothing is sent anywhere: put a provider's in place of `scripted`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

from conversation_state import (
    Aggregator,
    AssistantMessage,
    Message,
    MessageTree,
    ResponseMeta,
    SystemMessage,
    TokenBudget,
    ToolCall,
    ToolMessage,
    Usage,
    trim,
)
from conversation_state.tool_calls import call

Model: TypeAlias = Callable[[Sequence[Message]], AssistantMessage]

BUDGET = TokenBudget(context_window=4_000, max_output_tokens=500)
MAX_ATTEMPTS = 3
RULES = "Book what the user asks for with `book`, then call `check`."


class RollBack(BaseException):
    """
    Raised by a tool to take the attempt back; `call` lets it through, as it lets
    interrupts through, where it would make a message for the model of an error.
    """


class Desk:
    """What the tools change, outside of the conversation."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.booked: list[tuple[str, int]] = []

    def book(self, what: str, price: int) -> str:
        """Book something at a price."""
        self.booked.append((what, price))
        return f"Booked {what} for {price}."

    def check(self) -> str:
        """Whether all bookings together are within the limit."""
        total = sum(price for _, price in self.booked)
        if total > self.limit:
            names = " and ".join(what for what, _ in self.booked)
            reason = f"{names} cost {total}, and the limit is {self.limit}"
            raise RollBack(reason)

        return f"{total} of {self.limit}: within the limit."


def run(model: Model, desk: Desk, task: str) -> tuple[Aggregator, list[Aggregator]]:
    """
    The conversation in which the task is done, and the attempts that were taken back.
    """
    state = Aggregator.new([SystemMessage(RULES)]).add_user_prompt(task)
    abandoned: list[Aggregator] = []
    while len(abandoned) < MAX_ATTEMPTS:
        before, booked = state.checkpoint("before the attempt"), len(desk.booked)
        try:
            while state.pending_calls or state[-1].role in ("user", "tool"):
                for each in state.pending_calls:
                    state = state.add_tool_response(use_tool(desk, each))

                state = state.add_response(model(trim(state, BUDGET).messages))
        except RollBack as reason:
            abandoned.append(state)
            del desk.booked[booked:]
            note = f"That was taken back: {reason}. Find something cheaper."
            state = state.rollback(before).add_user_prompt(note)
        else:
            return state, abandoned

    raise RuntimeError(f"gave up after {MAX_ATTEMPTS} attempts; {state[-1].text}")


def use_tool(desk: Desk, made: ToolCall) -> ToolMessage:
    """The result of a call; an error for the model if there is no such tool."""
    tools: dict[str, Callable[..., str]] = {"book": desk.book, "check": desk.check}
    if made.name in tools:
        return call(tools[made.name], made)

    return ToolMessage(
        f"no tool {made.name!r}",
        tool_call_id=made.id,
        tool_name=made.name,
        is_error=True,
    )


def scripted(messages: Sequence[Message]) -> AssistantMessage:
    """A model that books the good hotel first, and the other one when asked to."""
    newest = messages[-1]
    meta = ResponseMeta(usage=Usage(100, 10), model="script")
    if newest.role == "user":
        hotel, price = (
            ("the Ritz", 380) if "taken" not in newest.text else ("a room", 90)
        )
        booking = f'{{"what": "{hotel}", "price": {price}}}'
        calls = [ToolCall("c1", "book", booking), ToolCall("c2", "check", "{}")]
        return AssistantMessage(tool_calls=calls, response=meta)

    return AssistantMessage(f"Done: {newest.text}", response=meta)


if __name__ == "__main__":
    end, attempts = run(scripted, Desk(limit=200), "A hotel in Bern, please.")
    for node in MessageTree.of(*attempts, end):
        words = node.message.text or "calls tools"
        sys.stdout.write(f"{node.message.role:>10}  {words}\n")

    tokens = end.total_usage.total_tokens
    sys.stdout.write(f"{len(attempts)} taken back; {tokens} tokens in all\n")
