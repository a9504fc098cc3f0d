"""
A store in PostgreSQL, through psycopg.

What lives here: where a server is (`_address`), the tables in it (`_tables`),
what its errors mean (`_why`), blocks (`_block`), and the connections they are
lent (`_backend`). What does not: statements (`_sql`).
"""

from conversation_state.store._postgres._address import Address
from conversation_state.store._postgres._backend import PostgresBackend

__all__ = ["Address", "PostgresBackend"]
