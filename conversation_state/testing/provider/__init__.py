"""
A provider that refuses what providers refuse.

What lives here: `StrictProvider`, a server that speaks four wires and answers from a
script; `judge`, which says why a request is refused, as a pure function; and the
tables of rules (`RULES`), each with its source and with who refuses what breaks it. The
fixture for pytest, `strict_provider`, is in `testing.pytest_plugin`.

It is an independent judge: nothing here imports an adapter or another module that
knows what providers ask for, so that both are not wrong together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conversation_state._lazy import open_later

if TYPE_CHECKING:
    from conversation_state.testing.provider._calls import CallTools
    from conversation_state.testing.provider._judge import HOSTS, RULES, WIRES, judge
    from conversation_state.testing.provider._memory import Memory
    from conversation_state.testing.provider._rules import ProviderRule, Refusal
    from conversation_state.testing.provider._script import (
        ErrorReply,
        Gate,
        Hangup,
        Reply,
        Silence,
    )
    from conversation_state.testing.provider._server import (
        ReceivedRequest,
        StrictProvider,
    )

__all__ = [
    "HOSTS",
    "RULES",
    "WIRES",
    "CallTools",
    "ErrorReply",
    "Gate",
    "Hangup",
    "Memory",
    "ProviderRule",
    "ReceivedRequest",
    "Refusal",
    "Reply",
    "Silence",
    "StrictProvider",
    "judge",
]

_HOMES = {
    "_calls": ("CallTools",),
    "_judge": ("HOSTS", "RULES", "WIRES", "judge"),
    "_memory": ("Memory",),
    "_rules": ("Refusal", "ProviderRule"),
    "_script": ("ErrorReply", "Gate", "Hangup", "Reply", "Silence"),
    "_server": ("ReceivedRequest", "StrictProvider"),
}

__getattr__, __dir__ = open_later(
    __name__,
    {
        name: f"{__name__}.{module}"
        for module, names in _HOMES.items()
        for name in names
    },
)
