"""
For tests: strategies, laws, state machines, and contracts for your own code.

What lives here: `register`, which Hypothesis calls, and by name the checks of
`contracts`, each of which holds a function or a class to its laws. What does not: the
strategies (`strategies`), what they are held against (`laws`), a machine that
compares states with plain lists (`machines`), and what stores promise
(`stores`). ``python -m conversation_state.testing`` prints a table of what was checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from conversation_state._lazy import open_later
from conversation_state.aggregator import (
    Aggregator,
    Checkpoint,
    Entry,
    LedgerEntry,
    Turn,
)
from conversation_state.diffing import Diff
from conversation_state.documents import Document
from conversation_state.messages import (
    AssistantMessage,
    Envelope,
    LogProb,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.store import Collected, Damage, Head, Receipt, Window
from conversation_state.templates import Placeholder, Template
from conversation_state.timeline import Moment, Timeline
from conversation_state.tools import Parameter, ToolCall, ToolInfo
from conversation_state.tree import MessageTree
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from conversation_state.testing.contracts import (
        BrokenLawsError,
        check_adapter,
        check_backend,
        check_counter,
        check_reducer,
        check_session,
        check_summariser,
        check_trimming_step,
    )

__all__ = [
    "BrokenLawsError",
    "check_adapter",
    "check_backend",
    "check_counter",
    "check_reducer",
    "check_session",
    "check_summariser",
    "check_trimming_step",
    "register",
]

# Later, for Hypothesis imports this module while it is imported itself.
__getattr__, __dir__ = open_later(
    __name__,
    dict.fromkeys(
        [name for name in __all__ if name != "register"],
        "conversation_state.testing.contracts",
    ),
)

# Which strategy makes which class; named, for they are made when first asked.
STRATEGIES: dict[type, str] = {
    Aggregator: "aggregators",
    AssistantMessage: "assistant_messages",
    AudioPart: "audio_parts",
    Checkpoint: "checkpoints",
    Collected: "collected",
    CompletionTokensDetails: "completion_tokens_details",
    Diff: "diffs",
    Damage: "damages",
    Document: "documents",
    Entry: "entries",
    Envelope: "envelopes",
    FilePart: "file_parts",
    Head: "heads",
    ImagePart: "image_parts",
    LedgerEntry: "ledger_entries",
    LogProb: "log_probs",
    MediaPart: "media_parts",
    Message: "messages",
    MessageTree: "message_trees",
    Moment: "moments",
    Parameter: "parameters",
    Part: "parts",
    Placeholder: "placeholders",
    PromptTokensDetails: "prompt_tokens_details",
    ReasoningPart: "reasoning_parts",
    Receipt: "receipts",
    RefusalPart: "refusal_parts",
    ResponseMeta: "response_metas",
    SystemMessage: "system_messages",
    Template: "templates",
    TextPart: "text_parts",
    Timeline: "timelines",
    ToolCall: "tool_calls",
    ToolInfo: "tool_infos",
    ToolMessage: "tool_messages",
    Turn: "turns",
    UnknownMessage: "unknown_messages",
    UnknownPart: "unknown_parts",
    Usage: "usages",
    UserMessage: "user_messages",
    VideoPart: "video_parts",
    Window: "windows",
}


def register() -> None:
    """
    Tell Hypothesis how to make values of this library.

    Called by Hypothesis itself, through its entry point, at the end of its own
    import. From then on ``st.from_type(Aggregator)``, ``st.builds`` and
    annotations of test functions know every class of `STRATEGIES`.
    """
    # Not above: Hypothesis loads this module while it is imported, which may
    # be because this package's strategies asked for it.
    from hypothesis import strategies as st  # noqa: PLC0415

    from conversation_state.testing import strategies  # noqa: PLC0415

    def made_by(name: str) -> Callable[[object], SearchStrategy[Any]]:
        return lambda _: getattr(strategies, name)()

    for cls, name in STRATEGIES.items():
        st.register_type_strategy(cls, made_by(name))
