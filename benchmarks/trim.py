"""
Fitting a conversation into a budget, beside LangChain's `trim_messages`.

A state whose messages have been counted is fitted in 20 µs, whether it has a
hundred messages or a million, and whatever part of it fits. Without steps it
is repaired, too, which costs at most 1.3 times as much where there is nothing
to repair among the messages that are kept. The first view of a state counts
what it keeps, however long the state is. Every step alone takes at most 40 µs
on a state that was trimmed one message ago; what trimming and listing leave
behind in a kept state is at most 300 bytes.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import partial
from time import process_time
from typing import Any

from benchmarks.measure import Row, bytes_kept, seconds, seconds_each
from conversation_state import (
    Aggregator,
    AssistantMessage,
    Message,
    SystemMessage,
    TokenBudget,
    ToolCall,
    ToolMessage,
    UserMessage,
    fit,
    trim,
)
from conversation_state.trimming import (
    Step,
    TrimContext,
    clear_tool_results,
    keep_first_and_last,
    keep_last,
    repair,
    shorten_tool_results,
)

_TIMES = 50

MESSAGES = (
    UserMessage("When does the next train to Bern leave, and is it on time?"),
    AssistantMessage(tool_calls=[ToolCall("a", "trains", '{"to": "Bern"}')]),
    ToolMessage('{"departs": "12:30", "delay": 0}' * 4, tool_call_id="a"),
    AssistantMessage("It leaves at 12:30, and it is on time."),
)


def _make_langchain(state: Aggregator, limit: int) -> Any:
    from langchain_core.messages import (
        AIMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
        trim_messages,
    )
    from langchain_core.messages.utils import count_tokens_approximately

    theirs: list[Any] = []
    for message in state:
        text = message.text
        if message.role == "system":
            theirs.append(SystemMessage(text))
        elif message.role == "user":
            theirs.append(HumanMessage(text))
        elif message.role == "tool":
            theirs.append(ToolMessage(text, tool_call_id="a"))
        else:
            made = [{"id": "a", "name": "trains", "args": {"to": "Bern"}}]
            calls = made if message.tool_calls else []
            theirs.append(AIMessage(text, tool_calls=calls))

    return lambda: trim_messages(
        theirs,
        max_tokens=limit,
        token_counter=count_tokens_approximately,
        strategy="last",
        include_system=True,
    )


def _trim_turn(state: Aggregator, budget: TokenBudget, step: Step) -> None:
    trim(state.add(MESSAGES[0]), budget, step)


def _default_turn(state: Aggregator, budget: TokenBudget) -> None:
    trim(state.add(MESSAGES[0]), budget)


def _measure_other_steps(state: Aggregator, n: int) -> Iterator[Row]:
    """The other steps, each alone on the whole state."""
    whole = TrimContext.of(state)
    for claim, step in (
        ("keep_last(20)", keep_last(20)),
        ("keep_first_and_last(5, 20)", keep_first_and_last(5, 20)),
        ("keep_last(20), clear_tool_results(3)", _last_and_clear),
    ):
        took = seconds_each(partial(step, whole)) * 1e6
        yield Row(claim, n, took, unit="µs")

    later = TrimContext.of(state.add(MESSAGES[0])).remove(n // 2)
    took = seconds_each(partial(whole.shared_prefix, later)) * 1e6
    yield Row("shared_prefix of two views", n, took, unit="µs")
    yield from _next_state(state, n)


def _next_state(state: Aggregator, n: int) -> Iterator[Row]:
    """Steps on a state of which the one before, a message ago, was trimmed."""
    stopped = state.add(MESSAGES[1])
    view = trim(state, None)
    budget = TokenBudget(context_window=view.total_tokens // 2)
    for claim, of, steps in (
        ("repair()", state, [repair()]),
        ("repair(), of a damaged state", stopped, [repair()]),
        ("shorten_tool_results(20)", state, [shorten_tool_results(20)]),
        ("clear_tool_results()", state, [clear_tool_results()]),
        ("clear_tool_results(), fit()", state, [clear_tool_results(), fit()]),
    ):
        before = of.add(MESSAGES[0])
        trim(before, budget, *steps)
        states = iter([before.add(MESSAGES[0]) for _ in range(_TIMES)])
        took = process_time()
        for later in states:
            trim(later, budget, *steps)

        took = (process_time() - took) / _TIMES
        yield Row(f"add, then {claim}", n, took * 1e6, unit="µs")


def _kept_states(n: int, steps: tuple[Step, ...] | None) -> list[Aggregator]:
    """A state for each of *n* messages, trimmed by *steps* and listed."""
    state, kept = Aggregator.new(), []
    budget = TokenBudget(context_window=500)
    for at in range(n):
        state = state.add(UserMessage(f"question {at}"))
        kept.append(state)
        if steps is not None:
            assert list(trim(state, budget, *steps))[-1] is list(state)[-1]

    return kept


def _last_and_clear(context: TrimContext) -> TrimContext:
    return clear_tool_results()(keep_last(20)(context))


def _make_turns(n: int) -> list[Message]:
    """*n* messages, each turn with a call that has an id of its own."""
    made: list[Message] = [SystemMessage("Be brief.")]
    for turn in range(n // len(MESSAGES)):
        call = ToolCall(f"a{turn}", "trains", '{"to": "Bern"}')
        question, _, result, answer = MESSAGES
        asked = AssistantMessage(tool_calls=[call])
        made += [question, asked, result.replace(tool_call_id=call.id), answer]

    return made


def _measure_first(n: int) -> Iterator[Row]:
    """
    The first view of a state of *n* messages that were never counted, in which about 20
    and about 300 fit; and that of a task far back: one prompt, and calls and results
    since.
    """
    for claim, limit, is_task in (
        ("first view, 20 messages fit", 260, False),
        ("first view, 300 messages fit", 4_700, False),
        ("first view, the task is first", 260, True),
    ):
        messages = _make_turns(n)
        if is_task:
            later = [each for each in messages[2:] if not isinstance(each, UserMessage)]
            messages[2:] = later

        state = Aggregator.new(messages=messages)
        gc.collect()  # what building the state left is no cost of the view
        started = process_time()
        view = trim(state, TokenBudget(context_window=limit))
        took = process_time() - started
        assert () == view.problems()
        assert view.total_tokens <= limit
        yield Row(claim, len(messages), took * 1e6, unit="µs")
        del state, view  # or that would be timed with the next one


def _measure_stopped(messages: list[Message]) -> Iterator[Row]:
    """A turn long after a call was stopped, once all of it was read."""
    stopped = [*messages[:1], MESSAGES[0], MESSAGES[1], *messages[1:]]
    state, budget = Aggregator.new(messages=stopped), TokenBudget(context_window=260)
    trim(state, None)
    trim(state, budget)
    took = seconds_each(partial(_default_turn, state, budget)) * 1e6
    yield Row("add, then trim, a call was stopped", len(stopped), took, unit="µs")


def _measure_results(n: int) -> Iterator[Row]:
    """First views of *n* results of one message, for each of them."""
    calls = [ToolCall(f"call-{i}", "search", "{}") for i in range(n)]
    results = [ToolMessage("At 9.", tool_call_id=f"call-{i}") for i in range(n)]
    messages = [UserMessage("When?"), AssistantMessage(tool_calls=calls), *results]
    messages.append(UserMessage("And back?"))
    for part, window in ("all fit", 10**9), ("none fits", 100):
        budget = TokenBudget(context_window=window)
        states = [Aggregator.new(messages=messages) for _ in range(5)]
        took = min(_time_first(state, budget) for state in states) * 1e6 / n
        yield Row(f"first trim of results of one message, {part}", n, took, unit="µs")


def _time_first(state: Aggregator, budget: TokenBudget) -> float:
    started = process_time()
    trim(state, budget)
    return process_time() - started


def rows() -> Iterator[Row]:
    """The same state, and the next state of a conversation, at several budgets."""
    step = fit()
    for n in (1_000, 100_000, 1_000_000):
        yield from _measure_first(n)

    for n in (1_000, 10_000):
        yield from _measure_stopped(_make_turns(n))

    for n in (100, 10_000):
        yield from _measure_results(n)

    for n in (100, 10_000, 1_000_000):
        state = Aggregator.new(messages=_make_turns(n))
        view = trim(state, None)
        newest = sum(element.tokens for element in view.elements[-20:])
        limits = {
            "20 messages fit": newest + view.elements[0].tokens,
            "half of it fits": view.total_tokens // 2,
            "99% of it fits": view.total_tokens * 99 // 100,
        }
        for part, limit in limits.items():
            budget = TokenBudget(context_window=limit)
            view = trim(state, budget, step)
            assert view.total_tokens <= limit
            assert () == view.problems()
            claim = f"trim, {part}"
            took = seconds_each(partial(trim, state, budget, step)) * 1e6
            if n <= 10_000:
                peer = seconds(_make_langchain(state, limit), least=2, for_s=0.1) * 1e6
                yield Row(claim, n, took, "trim_messages", peer, "µs")
            else:
                yield Row(claim, n, took, unit="µs")

            turn = seconds_each(partial(_trim_turn, state, budget, step)) * 1e6
            yield Row("add, then trim", n, turn, unit="µs")

            slack = fit(slack=limit // 4)
            trim(state, budget, slack)
            took = seconds_each(partial(trim, state, budget, slack)) * 1e6
            yield Row(f"the same with slack, {part}", n, took, unit="µs")
            repaired = seconds_each(partial(_default_turn, state, budget)) * 1e6
            yield Row("add, then trim without steps", n, repaired, "fit()", turn, "µs")
            took = seconds_each(partial(_trim_turn, state, budget, slack)) * 1e6
            yield Row("add, then trim with slack", n, took, unit="µs")

        yield from _measure_other_steps(state, n)

    alone = bytes_kept(partial(_kept_states, 10_000, None)) / 10_000
    for claim, steps in (
        ("left in a kept state by trim and list", ()),
        ("left by clear_tool_results(), fit()", (clear_tool_results(), fit())),
    ):
        kept = bytes_kept(partial(_kept_states, 10_000, steps)) / 10_000
        yield Row(claim, 10_000, kept - alone, unit="bytes")
