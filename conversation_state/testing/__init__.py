"""
For tests: strategies, laws, state machines, and contracts for your own code.

What lives here: `register`, which Hypothesis calls, and by name the checks of
`contracts`, each of which holds a function or a class to its laws. What does not: the
strategies (`strategies`), what they are held against (`laws`), a machine that
compares states with plain lists (`machines`), and what stores promise
(`stores`). ``python -m conversation_state.testing`` prints a table of what was checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conversation_state._lazy import open_later

if TYPE_CHECKING:
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
