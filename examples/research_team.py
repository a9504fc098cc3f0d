"""
A team of agents as functions from a state to a state: a planner, researchers
who work at once, a writer, and a critic whose "no" takes the conversation back.

    python examples/research_team.py

The model is a script, so nothing is sent anywhere; put a provider's in place of
`scripted` and the rest stays as it is. Every call is trimmed to a small window
first, one tool fails on the way, and in the end the bill is the sum of
everything that was asked, the rejected draft and the failed branch included.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TypeAlias

from conversation_state import (
    Aggregator,
    AssistantMessage,
    Message,
    ResponseMeta,
    SystemMessage,
    TokenBudget,
    ToolCall,
    ToolMessage,
    TrimContext,
    Usage,
    UserMessage,
    by_characters,
    fan_out,
    fit,
    repair,
    save_progress,
    trim,
)
from conversation_state.trimming import clear_tool_results

Stage: TypeAlias = Callable[[Aggregator], Aggregator]
Model: TypeAlias = Callable[[Sequence[Message]], AssistantMessage]

QUESTION = "How do two of us get from Basel to Bern on Saturday, and where do we stay?"
BUDGET = TokenBudget(context_window=240, max_output_tokens=60)
MAX_CALLS, MAX_DRAFTS = 6, 3


# The tools: one answers at great length, one is not always there.


def timetable(to: str) -> str:
    """All trains of a day."""
    trains = [
        f"{hour:02}:{minute} to {to}"
        for hour in range(5, 24)
        for minute in ("04", "34")
    ]
    return "\n".join(trains)


def rooms(city: str) -> str:
    """Where to stay, and what it costs."""
    return f"In {city}: Goldener Adler, 180 a night; Kreuz, 145 a night."


def forecast(city: str) -> str:
    """What the weather is going to be; the service is down."""
    raise ConnectionError(f"no forecast for {city}: the service is down")


TOOLS: dict[str, Callable[..., str]] = {
    "timetable": timetable,
    "rooms": rooms,
    "forecast": forecast,
}


def used(call: ToolCall) -> ToolMessage:
    """What a tool answers."""
    answer = TOOLS[call.name](**json.loads(call.arguments))
    return ToolMessage(answer, tool_call_id=call.id, tool_name=call.name)


# The model: what it says follows from what it sees, as with any other.


def scripted(seen: Sequence[Message]) -> AssistantMessage:
    """What a model would answer, with the usage a provider would report."""
    task = next(m.text for m in reversed(seen) if isinstance(m, UserMessage))
    results = [m for m in seen if isinstance(m, ToolMessage)]
    calls: list[ToolCall] = []
    text = ""
    if task.startswith("Plan"):
        text = "trains, rooms, weather"
    elif task.startswith("Research"):
        topic = task.split()[1].rstrip(".")
        name, arguments = {
            "trains": ("timetable", {"to": "Bern"}),
            "rooms": ("rooms", {"city": "Bern"}),
            "weather": ("forecast", {"city": "Bern"}),
        }[topic]
        if results and results[-1].tool_name == name:
            facts = results[-1].text.splitlines()
            text = (
                f"On {topic}: {facts[-1]}"
                if len(facts) == 1
                else (
                    f"On {topic}: every half hour, {facts[0]} first, {facts[-1]} last."
                )
            )
        else:
            calls = [ToolCall(f"call {topic}", name, json.dumps(arguments))]
    elif task.startswith("Write"):
        room = "Kreuz, 145 a night" if "price" in task else "Kreuz"
        text = f"Take the train, every half hour from 05:04. Stay at the {room}."
    elif task.startswith("Review"):
        draft = next(m.text for m in reversed(seen) if isinstance(m, AssistantMessage))
        text = "Good." if "145" in draft else "No: the price of the room is missing."

    asked = sum(map(by_characters, seen))
    answer = AssistantMessage(text, tool_calls=calls)
    usage = Usage(asked, by_characters(answer))
    return answer.replace(response=ResponseMeta("stop", usage, model="scripted"))


# The stages: each takes a state and gives the next one.


def seen_by_model(state: Aggregator) -> TrimContext:
    """
    What is shown to the model: never more than it has room for, and never a
    call without an answer, which is what a researcher who failed leaves behind.
    """
    return trim(state, BUDGET, repair(), clear_tool_results(keep=1), fit())


def asked(model: Model, state: Aggregator) -> Aggregator:
    """A state with the model's next answer, and what it cost."""
    answer = model(seen_by_model(state).messages)
    usage = answer.response.usage if answer.response else None
    # If anything fails from here on, no usage is lost.
    return save_progress(state.add(answer).add_usage(usage, model="scripted"))


def plan(model: Model, state: Aggregator) -> Aggregator:
    """A state with the topics to look into."""
    return asked(model, state.add_user_prompt("Plan: which topics do we need?"))


def research(model: Model, topic: str, state: Aggregator) -> Aggregator:
    """
    One researcher: asks the model, uses the tools it asks for, until it knows.

    Raises:
        OSError:
            If a tool does.
    """
    state = state.add_user_prompt(f"Research {topic}. Use your tools.")
    for _ in range(MAX_CALLS):
        state = asked(model, state)
        if not state.pending_calls:
            return state

        for call in state.pending_calls:
            state = save_progress(state.add_tool_response(used(call)))

    raise RuntimeError(f"{topic}: no answer after {MAX_CALLS} calls")


def research_all(model: Model, state: Aggregator) -> Aggregator:
    """
    All researchers at once, a fork each; joined in the order of the topics.

    One who fails takes nothing from the others: their messages and usage
    until then are kept, and the others read of it.
    """
    topics = [topic.strip() for topic in state[-1].text.split(",")]
    team = fan_out(
        state, [partial(research, model, topic) for topic in topics], on_error="keep"
    )
    joined = team.state
    for failure in team.failures:
        missing = f"Nothing on {topics[failure.step]}: {failure.error}."
        joined = joined.add_user_prompt(missing)

    return joined


def write(model: Model, wish: str, state: Aggregator) -> Aggregator:
    """A state with a draft."""
    return asked(model, state.add_user_prompt(f"Write the answer. {wish}".strip()))


def review(model: Model, state: Aggregator) -> Aggregator:
    """A state with what the critic thinks of it."""
    return asked(model, state.add_user_prompt("Review that. Say good, or no and why."))


def write_until_good(model: Model, state: Aggregator) -> Aggregator:
    """
    A state with a draft the critic likes.

    A draft that was rejected is rolled back: its messages are gone from the
    chat, its cost stays in the ledger, and the next one reads why.
    """
    before = state.checkpoint("before the draft")
    wish = ""
    for _ in range(MAX_DRAFTS):
        tried = review(model, write(model, wish, state))
        verdict = tried[-1].text
        if verdict.startswith("Good"):
            return tried

        wish = f"Mind this: {verdict}"
        state = tried.rollback(before)

    raise RuntimeError(f"no draft was good enough; the last verdict: {verdict}")


def run(model: Model, question: str = QUESTION) -> Aggregator:
    """The whole pipeline, on a fork: a question in, a state with the answer out."""
    start = Aggregator.new(messages=[SystemMessage("You plan trips. Be brief.")])
    stages: list[Stage] = [
        partial(plan, model),
        partial(research_all, model),
        partial(write_until_good, model),
    ]
    asked_for = start.add_user_prompt(question)
    return asked_for.join(
        reduce(lambda state, stage: stage(state), stages, asked_for.fork())
    )


def line(message: Message) -> str:
    """A message in one line: its calls, or the beginning of its text."""
    text = message.text.partition("\n")[0]
    if isinstance(message, AssistantMessage) and message.tool_calls:
        text = ", ".join(
            f"{call.name}({call.arguments})" for call in message.tool_calls
        )

    return f"{message.role:>9}: {text}"


def main() -> None:
    """Run it, and show all messages, what the model saw last, and the bill."""
    state = run(scripted)
    view = seen_by_model(state)
    whole = view.original.total_tokens
    paid = state.total_usage
    limit = BUDGET.effective_input_limit
    tokens = f"{paid.prompt_tokens} tokens in, {paid.completion_tokens} out"
    lines = [
        *map(line, state),
        "",
        f"in all: {len(state)} messages, {whole} tokens",
        f"seen last: {view.total_tokens} tokens of at most {limit}",
        f"billed: {len(state.ledger)} calls, {tokens}, what failed included",
    ]
    sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
