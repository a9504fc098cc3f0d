"""
References to saved states, and their leases.

A lease is a record: until when a reference is kept, and whether its name was deleted
since. The revision itself stays as long as its name, with everything it needs; so a
lease holds no rows, and is what makes an error say what became of the state.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from conversation_state.aggregator import Aggregator
from conversation_state.errors import NotSavedError
from conversation_state.store._load import read_state
from conversation_state.store._log import DamagedRow
from conversation_state.store._transaction import Transaction
from conversation_state.store._values import Head, StateRef, now, time_of
from conversation_state.store.schema import (
    SHIFT,
    Name,
    RecordRow,
    Revision,
    check_seal,
    key_range,
    sealed,
)

# Keys of records of hosts begin with a letter.
_PREFIX = b"\0lease"


class _Lease(NamedTuple):
    key: int  # that of the revision
    until: int  # when it ends, in seconds since 1970
    deleted_at: int  # when its name was deleted, in milliseconds; 0 if it was not
    digest: bytes  # that of the state, of 16 bytes
    # The name, which is not to be searched for by its number; "" once it was deleted,
    # since a name may say whose it was.
    name: str

    @classmethod
    def of(cls, row: RecordRow) -> _Lease:
        key, value = row.key[len(_PREFIX) :], check_seal(row).value
        until, deleted_at, digest = value[:8], value[8:16], value[16:32]
        return cls(
            int.from_bytes(key),
            int.from_bytes(until),
            int.from_bytes(deleted_at),
            digest,
            value[32:].decode(),
        )

    def row(self) -> RecordRow:
        times = self.until.to_bytes(8) + self.deleted_at.to_bytes(8)
        value = times + self.digest + self.name.encode()
        return sealed(RecordRow(_make_key(self.key), value, 0, 0, b""))

    @property
    def is_over(self) -> bool:
        return self.until * 1000 <= now()


def _make_key(revision: int) -> bytes:
    return _PREFIX + revision.to_bytes(8)


def _find_lease(transaction: Transaction, revision: int) -> _Lease | None:
    row = transaction.tables.get("records", _make_key(revision))
    return None if row is None else _Lease.of(RecordRow._make(row))


def find_ref(transaction: Transaction, head: Head) -> StateRef:
    """A reference, with the lease that there is."""
    revision = transaction.get_revision(transaction.get_name(head.name), head)
    lease = _find_lease(transaction, revision.revision)
    return _make_ref(revision, None if lease is None or lease.is_over else lease)


def make_ref(transaction: Transaction, head: Head, keep: timedelta) -> StateRef:
    """A reference with a lease for at least *keep*, in a transaction that writes."""
    revision = transaction.get_revision(transaction.get_name(head.name), head)
    found = _find_lease(transaction, revision.revision)
    # Rounded up, so that it lasts at least as long as was asked.
    until = -(-(now() + keep // timedelta(milliseconds=1)) // 1000)
    lease = _Lease(revision.revision, until, 0, revision.digest, head.name)
    if found is None:
        # Not for a name that is deleted at the same moment.
        there = (("revisions", revision.revision),)
        transaction.tables.add("records", [lease.row()], if_exists=there)
    elif found.until < until:
        _write_lease(transaction, lease)
    else:
        lease = found  # a longer lease is not shortened

    return _make_ref(revision, lease)


def _write_lease(transaction: Transaction, lease: _Lease) -> None:
    row = lease.row()
    transaction.tables.set("records", row.key, value=row.value, seal=row.seal)


def _make_ref(revision: Revision, lease: _Lease | None) -> StateRef:
    until = None if lease is None else datetime.fromtimestamp(lease.until, UTC)
    key, digest = revision.revision >> SHIFT, revision.digest.hex()
    return StateRef(key, revision.number, digest, until)


def load_ref(transaction: Transaction, ref: StateRef) -> Aggregator:
    transaction.catch_up()
    revision = _get_revision(transaction, ref)
    if transaction.trusts_memory:
        for remembered in transaction.cache.recall_all(transaction.changes):
            if remembered.revision == revision:
                return remembered.state

    # The text of the name is in another table, whose key it is, and nothing needs it.
    return read_state(transaction, Name(str(ref), ref.name_key), revision).state


def find_head(transaction: Transaction, ref: StateRef) -> Head:
    """The head that a reference was made of."""
    revision = _get_revision(transaction, ref)
    lease = _find_lease(transaction, revision.revision)
    if lease is not None:
        text = lease.name
    else:
        # Names are not indexed by their numbers: it looks at all of them.
        rows = transaction.iterate_rows("names", ("name", "number"))
        texts = [name for name, number in rows if number == ref.name_key]
        if not texts:
            raise DamagedRow(f"the name of {revision} is missing")

        text = texts[0]

    return transaction.make_head(transaction.get_name(text), revision)


def _get_revision(transaction: Transaction, ref: StateRef) -> Revision:
    key = ref.name_key << SHIFT | ref.revision
    row = transaction.tables.get("revisions", key)
    if row is None:
        why = _explain_missing(ref, _find_lease(transaction, key))
        raise NotSavedError(transaction.url, "state", str(ref), why=why)

    revision = check_seal(Revision._make(row))
    if revision.digest.hex() != ref.digest:
        why = (
            "another state has this number: the reference is of another store, or of "
            "this one before a backup was restored"
        )
        raise NotSavedError(transaction.url, "state", str(ref), why=why)

    return revision


def _explain_missing(ref: StateRef, lease: _Lease | None) -> str:
    if lease and lease.deleted_at and lease.digest.hex() == ref.digest:
        at = f"{time_of(lease.deleted_at):%Y-%m-%d %H:%M:%S} UTC"
        return f"its name was deleted on {at}, and a lease does not keep a deleted name"

    if ref.until is None:
        return "its name was deleted, or the reference is of another store"

    if ref.until <= time_of(now()):
        return (
            f"its name was deleted, or the reference is of another store; its lease "
            f"ended on {ref.until:%Y-%m-%d %H:%M:%S} UTC, so no more is known. Ask for "
            "the reference again before its lease ends to renew it"
        )

    return (
        "its lease has not ended and the name was not deleted, so the reference is of "
        "another store, or of this one before a backup was restored"
    )


def note_deletion(transaction: Transaction, number: int) -> None:
    """Note in the leases of a name, by its number, that it is deleted."""
    tables, (low, high) = transaction.tables, map(_make_key, key_range(number))
    for row in map(RecordRow._make, tables.scan("records", low, high)):
        try:
            lease = _Lease.of(row)._replace(deleted_at=now(), name="")
            _write_lease(transaction, lease)
        except DamagedRow:
            # What is damaged does not keep a name from being deleted.
            tables.remove("records", row.key, row.key + b"\0")


def find_ended_leases(transaction: Transaction) -> list[int]:
    """The keys of revisions whose lease has ended."""
    high = _PREFIX + b"\xff"
    rows = transaction.iterate_rows("records", low=_PREFIX, high=high)
    leases = map(_Lease.of, map(RecordRow._make, rows))
    return [lease.key for lease in leases if lease.is_over]


def remove_ended_leases(transaction: Transaction, revisions: Iterable[int]) -> None:
    """Remove the leases of *revisions* that were not renewed meanwhile."""
    for revision in revisions:
        lease = _find_lease(transaction, revision)
        if lease is not None and lease.is_over:
            key = _make_key(revision)
            transaction.tables.remove("records", key, key + b"\0")
