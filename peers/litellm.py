"""LiteLLM: `trim_messages`, merging of chunks, budgets, and conversion to Anthropic."""

import os

from peers.laws import Examples, Peer

# It would try to download a list of prices otherwise.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

EXAMPLES = Examples(Peer("LiteLLM", "litellm", "peers.md"))


@EXAMPLES.broken("a view has no call without its result, no result without its call")
def trimming_orphans_results() -> None:
    """
    `trim_messages` takes the messages that fit: here a result without its call, and
    with less room a call without its result. Providers refuse both.
    """
    from litellm.utils import trim_messages

    function = {"name": "departures", "arguments": "{}"}
    asked = {"id": "1", "type": "function", "function": function}
    calls = {"role": "assistant", "content": "", "tool_calls": [asked]}
    result = {"role": "tool", "tool_call_id": "1", "content": "12:30"}
    answer = {"role": "assistant", "content": "At 12:30."}
    turn = [calls, result, answer]
    assert trim_messages(turn, "gpt-4o", max_tokens=22) == [result, answer]
    assert trim_messages(turn, "gpt-4o", max_tokens=18) == [calls, answer]


@EXAMPLES.broken("usage recorded twice counts once")
def responses_are_billed_again() -> None:
    """
    `BudgetManager` adds the cost of one response, with one id, as often as it is
    reported.
    """
    from litellm import BudgetManager, ModelResponse, Usage

    answer = ModelResponse(id="1", model="gpt-4o", usage=Usage(1_000, 10, 1_010))
    manager = BudgetManager("demo")
    manager.save_data = lambda: None  # it would write a file
    manager.create_budget(total_budget=1.0, user="ann")
    manager.update_cost(user="ann", completion_obj=answer)
    once = manager.get_current_cost("ann")
    manager.update_cost(user="ann", completion_obj=answer)
    assert manager.get_current_cost("ann") == 2 * once > 0


@EXAMPLES.broken("what a format can't represent is listed")
def names_vanish() -> None:
    """On the way to Anthropic a participant's name vanishes, and nothing lists it."""
    from litellm.litellm_core_utils.prompt_templates import factory

    message = {"role": "user", "name": "ann", "content": "When is the train?"}
    sent = factory.anthropic_messages_pt([message], "claude-sonnet-4-5", "anthropic")
    text = {"type": "text", "text": "When is the train?"}
    assert sent == [{"role": "user", "content": [text]}]


@EXAMPLES.kept("running totals are not added")
def running_totals_are_understood() -> None:
    """`stream_chunk_builder` takes the last of running totals."""
    from litellm import ModelResponseStream, Usage, stream_chunk_builder

    delta = {"role": "assistant", "content": "…"}
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    totals = [Usage(1_000, n, 1_000 + n) for n in (1, 40)]
    chunks = [ModelResponseStream(choices=[choice], usage=usage) for usage in totals]
    assert stream_chunk_builder(chunks).usage.total_tokens == 1_040


@EXAMPLES.kept("arguments do not change")
def trimming_changes_no_message() -> None:
    """`trim_messages` cuts copies of messages, and not the caller's own."""
    import copy

    from litellm.utils import trim_messages

    messages = [{"role": "user", "content": "When is the train? " * 9}]
    before = copy.deepcopy(messages)
    assert trim_messages(messages, model="gpt-4o", max_tokens=20) != before
    assert messages == before


@EXAMPLES.kept("a view stays within the budget")
def trimming_stays_within() -> None:
    """The view's tokens are not more than the budget, by LiteLLM's own count."""
    from litellm import token_counter
    from litellm.utils import trim_messages

    texts = ["When is the train? " * n for n in (9, 1, 5)]
    messages = [{"role": "user", "content": text} for text in texts]
    for budget in range(15, 100, 5):
        view = trim_messages(messages, model="gpt-4o", max_tokens=budget)
        assert token_counter(model="gpt-4o", messages=view) <= budget
