"""
A store in PostgreSQL, through psycopg.

What lives here: where a server is (`_address`), the tables in it (`_tables`),
what its errors mean (`_errors`), blocks (`_block`), and the connections they are
lent (`_backend`). What does not: statements (`_sql`).
"""

from conversation_state.store.backends.postgres._address import Address
from conversation_state.store.backends.postgres._backend import PostgresBackend

__all__ = ["Address", "PostgresBackend"]
