"""Judging a request by the rules of its wire."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from conversation_state.testing.provider._anthropic import (
    ANTHROPIC_RULES,
    AnthropicRequest,
)
from conversation_state.testing.provider._chat import CHAT_RULES, CompletionRequest
from conversation_state.testing.provider._gemini import GEMINI_RULES, GeminiRequest
from conversation_state.testing.provider._memory import Memory
from conversation_state.testing.provider._responses import (
    RESPONSES_RULES,
    ResponsesRequest,
)
from conversation_state.testing.provider._rules import (
    API,
    REFERENCE,
    STRICTEST,
    Level,
    ProviderRule,
    Refusal,
)

_WIRES: Mapping[str, tuple[Callable[..., Any], tuple[ProviderRule, ...]]] = {
    "openai_chat": (CompletionRequest, CHAT_RULES),
    "openai_responses": (ResponsesRequest, RESPONSES_RULES),
    "anthropic": (AnthropicRequest, ANTHROPIC_RULES),
    "gemini": (GeminiRequest, GEMINI_RULES),
}
WIRES = tuple(_WIRES)
RULES = tuple(rule for _, rules in _WIRES.values() for rule in rules)

_NAMED = {name for rule in RULES for name in (*rule.by, *rule.taken_by)}
HOSTS = tuple(sorted(_NAMED - {API, REFERENCE} | {"groq", "xai"}))


@functools.cache
def _rules_of(
    wire: str, levels: tuple[str, ...], without: tuple[str, ...]
) -> tuple[tuple[ProviderRule, ...], tuple[ProviderRule, ...]]:
    known = {API, REFERENCE, STRICTEST, *HOSTS}
    for level in levels:
        if level not in known:
            raise ValueError(
                f"unknown level={level!r}; expected {STRICTEST}, {API}, {REFERENCE}, "
                f"or a host: {', '.join(HOSTS)}"
            )

    names = {rule.name for rule in RULES}
    for name in without:
        if name not in names:
            raise ValueError(
                f"unknown rule in without: {name!r}; the names are in RULES, "
                "rule.name of each"
            )

    rules = tuple(
        rule
        for rule in _WIRES[wire][1]
        if rule.name not in without and any(map(rule.holds_at, levels))
    )
    form = tuple(rule for rule in rules if rule.check.__name__ == "find_noted")
    return form, rules


def judge(
    wire: str,
    request_body: Mapping[str, Any],
    *,
    level: Level = STRICTEST,
    memory: Memory | None = None,
    without: Iterable[str] = (),
    whole: bool = False,
) -> tuple[Refusal, ...]:
    """
    Why a provider refuses a request; () if it accepts.

    Pure, without a server: for laws that judge thousands of requests. A request whose
    form is wrong is judged by its form alone.

    Args:
        wire: ``openai_chat``, ``openai_responses``, ``anthropic`` or ``gemini``: what
            the adapters are called.
        request_body: The request's JSON, or the part of it that carries the
            conversation, which is what ``dump(…).payload`` is.
        level: Who judges. ``strictest``: all rules but those of a dialect; ``api``:
            the provider's own; ``reference``: that, and what only its reference asks
            for; the name of a host of `HOSTS`: what that host refuses; or several of
            these, which then all have to accept.
        memory: What the provider has answered so far. Without it, rules about
            signatures and stored items, which need it, accept.
        without: Names of rules that are left out.
        whole: Whether *request_body* is all of the request, so that ``model`` and the
            like are asked for.

    Raises:
        ValueError: An unknown wire, level or rule.

    >>> call = {"id": "call00001", "type": "function",
    ...         "function": {"name": "look", "arguments": "{}"}}
    >>> refusals = judge("openai_chat", {"messages": [
    ...     {"role": "user", "content": "What is there?"},
    ...     {"role": "assistant", "content": None, "tool_calls": [call]},
    ...     {"role": "user", "content": "Well?"},
    ... ]})
    >>> [(refusal.rule.name, refusal.status) for refusal in refusals]
    [('call_without_result', 400)]
    >>> judge("gemini", {"contents": [{"parts": [{"text": ""}]}]}, level="api")
    ()
    >>> print(*judge("gemini", {"contents": [{"parts": [{"text": ""}]}]}))
    empty_text @ contents[0].parts[0].text: Unable to submit request because it has ...
    """
    if wire not in _WIRES:
        raise ValueError(f"unknown wire={wire!r}; expected one of {', '.join(WIRES)}")

    levels = (level,) if isinstance(level, str) else tuple(level)
    form, rules = _rules_of(wire, levels, tuple(without))
    body = request_body if isinstance(request_body, Mapping) else {}
    request = _WIRES[wire][0](body, memory, whole=whole)
    if request.faults.are_unreadable:
        rules = form

    return tuple(refusal for rule in rules for refusal in rule.find(request))
