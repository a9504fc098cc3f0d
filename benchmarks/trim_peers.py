"""
Views of the recorded conversations at every budget from 1 to their size:
how many are refused by a provider, empty, or over the budget.

Ours beside LangChain's `trim_messages` and, where it is installed, LiteLLM's.
Each is judged by its own count of tokens, and all by one reading of what
providers refuse. Where ours gives no view, it raises an error that names the
smallest budget with one: these are counted apart.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from benchmarks.measure import Row
from benchmarks.recordings import payloads
from conversation_state import Aggregator, TokenBudget, fit
from conversation_state.adapters import openai_chat
from conversation_state.errors import BudgetExceededError
from conversation_state.trimming import TrimContext

# LangChain and LiteLLM take milliseconds for a view; every so many-th budget
# of theirs is enough for a share.
EVERY = 40


def is_refused(roles: Sequence[tuple[str, list[str], str]]) -> bool:
    """
    Whether results do not follow the message that calls, each once, or calls
    are followed by something else: (role, ids of its calls, id it answers).
    """
    pending: set[str] = set()
    for role, calls, answered in roles:
        if role == "tool":
            if answered not in pending:
                return True

            pending.remove(answered)
        elif pending:
            return True
        else:
            pending = set(calls)

    return False


def _judge_result(
    size: int, tokens: int, limit: int, roles: Sequence[tuple[str, list[str], str]]
) -> str:
    if not size or all(role == "system" for role, _, _ in roles):
        return "empty"

    if is_refused(roles):
        return "invalid"

    return "over budget" if tokens > limit else "good"


def ours(payload: list[dict[str, Any]]) -> Iterator[str]:
    """How each view of ours does, at every budget."""
    state = Aggregator.new(messages=openai_chat.load(payload))
    whole = TrimContext.of(state)
    messages = [
        (one.role, [c.id for c in getattr(one, "tool_calls", ())], _get_call_id(one))
        for one in whole
    ]
    for limit in range(1, whole.total_tokens + 1):
        context = TrimContext.of(state, TokenBudget(context_window=limit))
        try:
            view = fit()(context)
        except BudgetExceededError:
            yield "raised"
            continue

        elements = view.elements
        tokens = sum([one.tokens for one in elements])
        assert tokens == view.total_tokens
        roles = [messages[one.seq] for one in elements]
        yield _judge_result(len(roles), tokens, limit, roles)


def _get_call_id(message: Any) -> str:
    return getattr(message, "tool_call_id", "")


def langchain(payload: list[dict[str, Any]], **options: Any) -> Iterator[str]:
    """The same for `trim_messages`."""
    from langchain_core.messages import convert_to_messages, trim_messages
    from langchain_core.messages.utils import count_tokens_approximately

    messages = convert_to_messages(payload)
    whole = count_tokens_approximately(messages)
    for limit in range(1, whole + 1, EVERY):
        try:
            view = trim_messages(
                messages,
                max_tokens=limit,
                token_counter=count_tokens_approximately,
                **options,
            )
        except ValueError:
            yield "raised"
            continue

        roles = [
            (
                {"ai": "assistant", "human": "user"}.get(one.type, one.type),
                [call["id"] for call in getattr(one, "tool_calls", ())],
                _get_call_id(one),
            )
            for one in view
        ]
        yield _judge_result(len(view), count_tokens_approximately(view), limit, roles)


def litellm(payload: list[dict[str, Any]]) -> Iterator[str]:
    """The same for LiteLLM's, whose limit is *max_tokens* when asked so."""
    import copy
    import importlib
    import logging
    import os

    # It asks the network for prices otherwise, and logs what it stumbles over.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)

    # By name: it is installed only for this comparison.
    lite: Any = importlib.import_module("litellm")
    trim_messages = importlib.import_module("litellm.utils").trim_messages
    token_counter = lite.token_counter

    whole = token_counter(model="gpt-4o", messages=payload)
    for limit in range(1, whole + 1, EVERY * 10):
        # It writes into what it is given.
        messages: Any = copy.deepcopy(payload)
        try:
            view = trim_messages(
                messages, model="gpt-4o", max_tokens=limit, trim_ratio=1
            )
        except Exception:  # noqa: BLE001 - any of the peer's: counted
            yield "raised"
            continue

        roles = [
            (
                one["role"],
                [call["id"] for call in one.get("tool_calls") or ()],
                one.get("tool_call_id", ""),
            )
            for one in view
        ]
        tokens = token_counter(model="gpt-4o", messages=view) if view else 0
        yield _judge_result(len(view), tokens, limit, roles)


KINDS = ("invalid", "empty", "over budget", "raised", "good")


def rows() -> Iterator[Row]:
    """Counts of each kind, of so many views."""
    conversations = payloads()
    recommended = {
        "strategy": "last",
        "start_on": "human",
        "include_system": True,
        "allow_partial": False,
    }
    judges: list[tuple[str, Callable[[list[dict[str, Any]]], Iterator[str]], int]] = [
        ("ours, fit()", ours, len(conversations)),
        ("LangChain, default", langchain, len(conversations)),
        (
            "LangChain, recommended",
            lambda payload: langchain(payload, **recommended),
            len(conversations),
        ),
        ("LiteLLM", litellm, 10),
    ]
    for name, judge, most in judges if conversations else ():
        found: Counter[str] = Counter()
        try:
            for payload in islice(conversations, most):
                found.update(judge(payload))
        except ModuleNotFoundError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue

        for kind in KINDS:
            yield Row(f"{name}: {kind}", found.total(), found[kind], unit="views")
