"""
Backends: what keeps the rows of a store, in memory, in a file or on a server.

What lives here: modules for each, from a URL to one of them, the SQL that they have in
common, and what keeps threads and forked processes apart. What does not: the protocol
that they keep, and the tables (`conversation_state.store.backend`).
"""

from conversation_state.store.backends._blocks import (
    OneAtATime,
    check_process,
    renew_in_children,
)
from conversation_state.store.backends._urls import open_backend

__all__ = ["OneAtATime", "check_process", "open_backend", "renew_in_children"]
