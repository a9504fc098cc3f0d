"""
Requests: what providers ask of a list of messages as a whole.

::

    rules = requests.rules("anthropic", host="bedrock")
    ready = prepare(messages, rules)
    ready.messages, ready.changes

A message keeps its own laws when it is made; a request has more: each call has its
result directly behind it, ids are unique, a user speaks first, nothing is empty. The
rules of a format are a value (`Rules`), and one pass (`prepare`) makes any list of
messages right by them. Every ``dump`` runs it before it writes, and views know the same
rules.

What lives here: the rules, with their sources, and the pass over messages. What does
not: how an adapter writes a message, and what only its wire has (items, blocks,
markers).
"""

from conversation_state.requests._prepare import (
    MADE_ANSWER,
    MADE_PROMPT,
    NO_RESULT,
    Prepared,
    RequestChange,
    find_parted,
    has_stopped_calls,
    is_made,
    is_silent,
    make_prompt,
    make_result,
    prepare,
)
from conversation_state.requests._rules import (
    ANTHROPIC,
    AS_IS,
    AS_LOADED,
    EVERYWHERE,
    GEMINI,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    Rules,
    came_as_is,
    home_rules,
    refuses_late_system,
    rules,
    takes_thinking,
    wants_signatures,
)
from conversation_state.requests._single import (
    INVALID_JSON,
    find_form_flaws,
    is_empty,
    is_thinking_only,
    is_well_formed,
)
from conversation_state.requests._sources import SOURCES, Rule
from conversation_state.requests._text import TextRule

__all__ = [
    "ANTHROPIC",
    "AS_IS",
    "AS_LOADED",
    "EVERYWHERE",
    "GEMINI",
    "INVALID_JSON",
    "MADE_ANSWER",
    "MADE_PROMPT",
    "NO_RESULT",
    "OPENAI_CHAT",
    "OPENAI_RESPONSES",
    "SOURCES",
    "Prepared",
    "RequestChange",
    "Rule",
    "Rules",
    "TextRule",
    "came_as_is",
    "find_form_flaws",
    "find_parted",
    "has_stopped_calls",
    "home_rules",
    "is_empty",
    "is_made",
    "is_silent",
    "is_thinking_only",
    "is_well_formed",
    "make_prompt",
    "make_result",
    "prepare",
    "refuses_late_system",
    "rules",
    "takes_thinking",
    "wants_signatures",
]
