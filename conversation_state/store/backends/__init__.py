"""
Backends: what keeps the rows of a store, in memory, in a file or on a server.

What lives here: a package or module for each, the SQL that they have in common,
and what keeps threads and forked processes apart. What does not: the protocol
that they keep, and the tables (`conversation_state.store.backend`).
"""
