"""
Hypothesis strategies: examples of every value this library has.

Each is a function with keyword-only options that gives a strategy, and says
how its examples shrink. Between them they make every value that can be
constructed, so what holds for their examples holds for what users bring:
text beyond the BMP, clocks of odd zones, parts from the future.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, get_args, get_origin, get_type_hints

from conversation_state.errors import MissingExtraError

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as error:
    raise MissingExtraError(__name__, "testing") from error

from hypothesis.strategies import SearchStrategy

from conversation_state.testing.shapes import Diamond
from conversation_state.testing.strategies._answers import (
    BROKEN_ANSWERS,
    event_streams,
    model_answers,
    provider_payloads,
)
from conversation_state.testing.strategies._life import conversations, diamonds, states
from conversation_state.testing.strategies._messages import (
    MEDIA,
    assistant_messages,
    envelopes,
    log_probs,
    media_parts,
    messages,
    parts,
    reasoning_parts,
    refusal_parts,
    response_metas,
    system_messages,
    text_parts,
    tool_calls,
    tool_messages,
    unknown_messages,
    unknown_parts,
    user_messages,
)
from conversation_state.testing.strategies._states import (
    aggregators,
    checkpoints,
    diffs,
    entries,
    heads,
    ledger_entries,
    message_trees,
    moments,
    receipts,
    relatives,
    timelines,
    turns,
    windows,
)
from conversation_state.testing.strategies._tools import (
    documents,
    parameters,
    placeholders,
    templates,
    tool_infos,
)
from conversation_state.testing.strategies._transcripts import (
    broken_transcripts,
    chunks,
    is_accepted,
    transcripts,
)
from conversation_state.testing.strategies._values import (
    completion_tokens_details,
    json_values,
    metadata,
    prompt_tokens_details,
    texts,
    timestamps,
    usages,
    uuids,
)

__all__ = [
    "BROKEN_ANSWERS",
    "Diamond",
    "aggregators",
    "assistant_messages",
    "broken_transcripts",
    "checkpoints",
    "chunks",
    "completion_tokens_details",
    "conversations",
    "diamonds",
    "diffs",
    "documents",
    "entries",
    "envelopes",
    "event_streams",
    "heads",
    "is_accepted",
    "json_values",
    "ledger_entries",
    "log_probs",
    "media_parts",
    "message_trees",
    "messages",
    "metadata",
    "model_answers",
    "moments",
    "parameters",
    "parts",
    "placeholders",
    "prompt_tokens_details",
    "provider_payloads",
    "reasoning_parts",
    "receipts",
    "refusal_parts",
    "relatives",
    "response_metas",
    "states",
    "system_messages",
    "templates",
    "text_parts",
    "texts",
    "timelines",
    "timestamps",
    "tool_calls",
    "tool_infos",
    "tool_messages",
    "transcripts",
    "turns",
    "unknown_messages",
    "unknown_parts",
    "usages",
    "user_messages",
    "uuids",
    "windows",
]


def _list_strategies() -> dict[type, Callable[[], SearchStrategy[Any]]]:
    """
    The function for each class of this library that one of them makes: a strategy
    is found by the type in its annotation.
    """
    found: dict[type, Callable[[], SearchStrategy[Any]]] = {}
    for make in map(globals().__getitem__, __all__):
        # Of a class that several of them make, the last one: states are like life.
        if make is model_answers or not inspect.isfunction(make):
            continue

        for made in get_args(get_type_hints(make)["return"]):
            cls = get_origin(made) or made
            # Of a text or a tuple there are others than those that are made here.
            if cls.__module__.partition(".")[0] == "conversation_state":
                found[cls] = make

    return found | {kind: partial(MEDIA.__getitem__, kind) for kind in MEDIA}


def _call_strategy(make: Callable[[], SearchStrategy[Any]], _cls: object) -> Any:
    return make()


STRATEGIES = _list_strategies()
for _cls, _make in STRATEGIES.items():
    # Made when it is first asked for: each is made of many others.
    st.register_type_strategy(_cls, partial(_call_strategy, _make))
