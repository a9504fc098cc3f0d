"""
A store in PostgreSQL, through psycopg.

What lives here: where a server is and what its errors mean (`_server`), blocks
(`_block`), and the tables and the connections that blocks acquire (`_backend`). What
does not: statements (`_sql`).
"""

from conversation_state.store.backends.postgres._backend import PostgresBackend
from conversation_state.store.backends.postgres._server import Address

__all__ = ["Address", "PostgresBackend"]
