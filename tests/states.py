"""States that no verb makes: with other entries, or another ledger, under one id."""

from typing import Any

from conversation_state.aggregator import Aggregator

__all__ = ["rebuild_state"]

FIELDS = ("id", "parent_id", "root_id", "init_len", "init_ledger_len")


def rebuild_state(state: Aggregator, **fields: Any) -> Aggregator:
    """*state* with other *fields*, as `Aggregator.rebuild` takes them."""
    known = {name: getattr(state, name) for name in FIELDS}
    logs = {"entries": list(state.entries), "ledger": list(state.ledger)}
    return Aggregator.rebuild(**{**known, **logs, **fields})
