"""
A research pipeline that may be killed at any moment: run again, it goes on where it
was, and in the end the bill is exact.

    python examples/research_pipeline.py research.db "How do we get to Bern?"

A plan, an answer to each of its questions, and a report. Each request is a step of
the store: what was answered and saved is not asked again. A request that was sent
when the process was killed is sent again under the same idempotency key, so the
provider answers it as before, and bills it once.

The model is a script, so nothing is sent anywhere, unless OPENAI_BASE_URL names a
server that speaks the protocol of Chat Completions.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any, TypeAlias

from conversation_state import Aggregator, TokenBudget, open_store, trim
from conversation_state.adapters import openai_chat
from conversation_state.store import Store

# What answers a request under its idempotency key: the provider's response.
Complete: TypeAlias = Callable[[str, dict[str, Any]], dict[str, Any]]

MODEL = os.environ.get("OPENAI_MODEL", "model-of-the-example")
_ARGUMENTS = 3  # the script, a store and a question
BUDGET = TokenBudget(context_window=8_000, max_output_tokens=1_000)


def ask(complete: Complete, key: str, prompt: str, state: Aggregator) -> Aggregator:
    """The state with a question, its answer and what that cost."""
    state = state.add_user_prompt(prompt)
    request = openai_chat.dump(trim(state, BUDGET).messages)
    response = complete(key, {"model": MODEL, **request.payload})
    return state.add_response(openai_chat.load(response))


def research(store: Store, question: str, complete: Complete) -> Aggregator:
    """The conversation that ends with the report; each request of it is billed once."""
    name = f"research: {question}"

    def step(label: str, prompt: str) -> Aggregator:
        key = sha256(f"{name}/{label}".encode()).hexdigest()
        return store.step(name, label, partial(ask, complete, key, prompt))

    plan = step("plan", f"What has to be found out? One question a line. {question}")
    for number, line in enumerate(plan[-1].text.splitlines(), 1):
        step(f"answer {number}", line)

    return step("report", "Write the report.")


def complete_over_http(key: str, body: dict[str, Any]) -> dict[str, Any]:
    """What a provider responds."""
    request = urllib.request.Request(  # noqa: S310 - the caller's own address
        f"{os.environ['OPENAI_BASE_URL']}/chat/completions",
        json.dumps(body).encode(),
        {
            "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}",
            "Content-Type": "application/json",
            "Idempotency-Key": key,
        },
    )
    with urllib.request.urlopen(request) as response:  # noqa: S310 - the same
        answer: dict[str, Any] = json.load(response)

    return answer


def scripted(key: str, body: dict[str, Any]) -> dict[str, Any]:
    """What the script responds: two questions first, then a sentence each."""
    asked = body["messages"][-1]["content"]
    text = f"On this we know: {asked}"
    if "One question a line" in asked:
        text = "Which trains are there?\nWhat do they cost?"

    return {
        "id": f"response to {key[:8]}",
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": len(str(body["messages"])) // 4,
            "completion_tokens": len(text) // 4,
        },
    }


def main(path: str, question: str) -> None:
    """Run the pipeline, or what is left of it, and print the report and the bill."""
    complete = complete_over_http if "OPENAI_BASE_URL" in os.environ else scripted
    with open_store(path) as store:
        state = research(store, question, complete)
        tokens = state.total_usage.total_tokens
        bill = f"billed: {len(state.ledger)} responses, {tokens} tokens"
        sys.stdout.write(f"{state[-1].text}\n\n{bill}\n")


if __name__ == "__main__":
    if len(sys.argv) != _ARGUMENTS:
        sys.exit("usage: python examples/research_pipeline.py STORE QUESTION")

    main(*sys.argv[1:])
