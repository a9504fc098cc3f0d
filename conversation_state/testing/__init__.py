"""
For tests: strategies, laws, state machines, and contracts for your own code.

What lives here: `register`, which Hypothesis calls, and by name the checks of
`contracts`, each of which holds a function or a class to its laws, and the strategies
of whole conversations. What does not: the strategies of single values (`strategies`),
the table of shapes (`shapes`), what is held against them (`laws`), a machine that
compares states with plain lists (`machines`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conversation_state._lazy import open_later
from conversation_state.errors import MissingExtraError

if TYPE_CHECKING:
    from conversation_state.testing.contracts import (
        BrokenLawsError,
        check_adapter,
        check_agent,
        check_chat,
        check_counter,
        check_reducer,
        check_stream,
        check_summariser,
        check_trimming_step,
        replay_agent,
    )
    from conversation_state.testing.shapes import SHAPES, ConversationShape
    from conversation_state.testing.strategies import (
        conversations,
        diamonds,
        event_streams,
        model_answers,
        provider_payloads,
        states,
    )

__all__ = [
    "SHAPES",
    "BrokenLawsError",
    "ConversationShape",
    "check_adapter",
    "check_agent",
    "check_chat",
    "check_counter",
    "check_reducer",
    "check_stream",
    "check_summariser",
    "check_trimming_step",
    "conversations",
    "diamonds",
    "event_streams",
    "model_answers",
    "provider_payloads",
    "register",
    "replay_agent",
    "states",
]

_STRATEGIES = (
    "conversations", "diamonds", "event_streams", "model_answers", "provider_payloads",
    "states",
)  # fmt: skip

# Later, for Hypothesis imports this module while it is imported itself.
_HOMES = {
    "BrokenLawsError": "conversation_state.testing.contracts",
    "SHAPES": "conversation_state.testing.shapes",
    "ConversationShape": "conversation_state.testing.shapes",
    **dict.fromkeys(_STRATEGIES, "conversation_state.testing.strategies"),
    **dict.fromkeys(
        [name for name in __all__ if name.startswith(("check_", "replay_"))],
        "conversation_state.testing.contracts",
    ),
}
_get_attribute, __dir__ = open_later(__name__, _HOMES)
_NEEDED = {"hypothesis", "pytest"}


def __getattr__(name: str) -> Any:
    try:
        return _get_attribute(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise

        raise MissingExtraError(f"{__name__}.{name}", "testing") from error


def register() -> None:
    """
    Tell Hypothesis how to make values of this library.

    Called by Hypothesis itself, through its entry point, at the end of its own
    import. From then on ``st.from_type(Aggregator)``, ``st.builds`` and
    annotations of test functions know every class that one of `strategies` makes.
    """
    # Not above: it needs Hypothesis, which loads this module while it is imported. If
    # that is because the strategies asked for it, they register at their own end.
    import conversation_state.testing.strategies  # noqa: F401, PLC0415
