"""
One transaction of a store, given to every verb.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from difflib import get_close_matches
from types import TracebackType
from typing import Any, Self, TypeVar

from conversation_state.errors import NotSavedError, StoreError
from conversation_state.store._memory import Memory, RememberedHead, RememberedTimeline
from conversation_state.store._packing import label_key, split_labels
from conversation_state.store._read_rows import UNREADABLE, damage_error, read_revision
from conversation_state.store._values import At, Head
from conversation_state.store.backend import Backend, ConflictError, Reading, Row
from conversation_state.store.schema import SHIFT, Name, Origin, Revision, is_sealed

__all__ = ["Core", "Transaction"]

T = TypeVar("T")

# The maximum number of attempts of a transaction after conflicts.
ATTEMPTS = 100

# The number of names in which a similar one is looked for.
_SUGGESTIONS_FROM = 1000


class Core(Memory):
    """
    A backend, and what the store remembers of it. Thread-safe.

    Attributes:
        backend: Keeps the rows.
    """

    def __init__(self, backend: Backend, kept: int) -> None:
        super().__init__(kept)
        self.backend = backend
        self.url = backend.url

    def read(self) -> Transaction:
        """
        A transaction that reads, for a `with` statement.
        """
        return Transaction(self, self.backend.reading())

    def write(
        self,
        work: Callable[[Transaction], T],
        *,
        name: str | None = None,
        reports_damage: bool = True,
    ) -> T:
        """
        The result of *work*, whose changes all happen, or none if it raises.

        It is called again, in a new transaction, after a conflict.

        Args:
            work: Called with the transaction.

            name: The only name that *work* changes, if that is so: what is
                remembered of others outlasts a conflict.

            reports_damage: See `Transaction`.

        Raises:
            StoreError:
                If the store can't be written. Nothing was.
        """
        is_retry = False

        def attempt() -> T:
            nonlocal is_retry

            # The retry trusts no remembered rows, because these may have caused the
            # conflict: two names may continue one branch.
            transaction = Transaction(
                self,
                self.backend.writing(),
                trusts_memory=not is_retry,
                reports_damage=reports_damage,
            )
            is_retry = True
            with transaction:
                return work(transaction)

        return self.retry(attempt, name=name)

    def retry(self, attempt: Callable[[], T], *, name: str | None = None) -> T:
        """
        The result of *attempt*, which is called again after a `ConflictError`.

        Raises:
            StoreError:
                If each of a hundred attempts met a conflict.
        """
        for _ in range(ATTEMPTS):
            try:
                return attempt()
            except ConflictError:
                self.forget(name)

        what = f"gave up after {ATTEMPTS} conflicting writes"
        raise StoreError(self.url, f"{what}; retry, or reduce concurrent writers")


class DamageReporter:
    """
    A block in a transaction, of which errors of reading rows are a `StoreError`.

    Not made by `contextmanager`: it is entered for each record that is read.
    """

    __slots__ = ("_transaction",)

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception):
            self._transaction.raise_damage(error)


class Transaction:
    """
    One block of a backend, for every verb that takes part in it.

    What its verbs learn is remembered when it has ended without an error.

    Args:
        core: The backend, and what is remembered.

        block: The block, which the transaction enters and leaves.

        trusts_memory: Whether a save may build on what is remembered without
            reading it again.

        reports_damage: Whether errors of reading rows become a `StoreError` when
            they leave the transaction. False where a caller's code runs in it,
            whose own errors are not to be taken for damage.

    Attributes:
        tables: The rows.

        changes: How many changes to existing rows are known.
    """

    __slots__ = (
        "_block",
        "_is_caught_up",
        "_learned",
        "_reports_damage",
        "_timelines",
        "_trusts_memory",
        "changes",
        "core",
        "tables",
        "url",
    )

    # Writing, in a transaction that writes.
    tables: Any

    def __init__(
        self,
        core: Core,
        block: AbstractContextManager[Reading],
        *,
        trusts_memory: bool = True,
        reports_damage: bool = True,
    ) -> None:
        self.core = core
        self.url = core.url
        self.changes = core.changes
        self._block = block
        self._is_caught_up = False
        self._trusts_memory = trusts_memory
        self._reports_damage = reports_damage
        self._learned: dict[str, RememberedHead | None] = {}
        self._timelines: dict[str, RememberedTimeline] = {}

    def __enter__(self) -> Self:
        self.tables = self._block.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The block ends first: what was learned in a block that can't be committed must
        # not be remembered.
        self._block.__exit__(kind, error, trace)
        if error is not None:
            if self._reports_damage:
                self.raise_damage(error)

            return

        for name, head in self._learned.items():
            if head is None:
                self.core.forget(name)
            else:
                self.core.remember(head, self.changes)

        if self.changes == self.core.changes:
            for name, timeline in self._timelines.items():
                self.core.timelines.remember(name, timeline, self.changes)

    def report_damage(self) -> DamageReporter:
        """
        Raise errors of reading rows as a `StoreError`, in a `with` statement.
        """
        return DamageReporter(self)

    def raise_damage(self, error: BaseException) -> None:
        if isinstance(error, UNREADABLE) and not isinstance(error, StoreError):
            what = f"some rows are not what a store writes ({error})"
            raise damage_error(self.url, what) from error

    # What is remembered

    def catch_up(self) -> None:
        """
        Read which rows others changed, and forget what they were. Once: within a
        transaction, rows are as they were at one moment.
        """
        if not self._is_caught_up:
            self.changes = self.core.catch_up(self.tables)
            self._is_caught_up = True

    def recall(self, name: str) -> RememberedHead | None:
        """
        The head of *name* as it was seen last, here or before; None if it is not
        remembered, or not trusted.
        """
        # After a conflict: see `Core.write`.
        if not self._trusts_memory:
            return None

        if name in self._learned:
            return self._learned[name]

        return self.core.recall(name, self.changes)

    def recall_all(self) -> Iterable[RememberedHead]:
        """
        Every head that was remembered before.
        """
        return self.core.recall_all(self.changes)

    def remember(self, head: RememberedHead) -> None:
        """
        Remember a head from the end of the transaction on.
        """
        self._learned[head.name.name] = head

    def forget(self, name: str) -> None:
        """
        Forget a name.
        """
        self._learned[name] = None

    def recall_timeline(self, name: str) -> RememberedTimeline | None:
        """
        The timeline of *name* as it was seen last; None if rows changed since.
        """
        return self.core.timelines.recall(name, self.changes)

    def remember_timeline(self, name: str, found: RememberedTimeline) -> None:
        """
        Remember a timeline from the end of the transaction on.
        """
        self._timelines[name] = found

    # Names and revisions

    def find_name(self, name: str) -> Name | None:
        """
        A name and its number; None if nothing is saved under it.
        """
        row = self.tables.get("names", name)
        return None if row is None else self.check_name_row(row)

    def check_name_row(self, row: Row) -> Name:
        """
        A row of ``names``.

        Raises:
            StoreError:
                If it is not what was written.
        """
        found = Name._make(row)
        if not is_sealed(found):
            # A damaged number would lead to what another name has.
            what = f"the row of the name {found.name!r} is damaged"
            raise damage_error(self.url, what)

        return found

    def get_name(self, name: str) -> Name:
        """
        A name that must exist.

        Raises:
            NotSavedError:
                If nothing is saved under it.
        """
        found = self.find_name(name)
        if found is None:
            others = self.tables.scan(
                "names", None, None, columns=("name",), limit=_SUGGESTIONS_FROM
            )
            near = get_close_matches(name, [other for (other,) in others])
            raise NotSavedError(self.url, "name", name, tuple(near))

        return found

    def find_newest(self, number: int) -> Revision | None:
        """
        The newest revision of a name.
        """
        row = self.find_newest_row(number)
        return None if row is None else read_revision(row, self.url)

    def find_newest_row(self, number: int) -> Row | None:
        """
        The row of that revision, which may be damaged.
        """
        low, high = number << SHIFT, (number + 1) << SHIFT
        rows = self.tables.scan("revisions", low, high, limit=1, backwards=True)
        return rows[0] if rows else None

    def get_revision(self, name: Name, at: At) -> Revision:
        """
        One revision of a name.

        Raises:
            NotSavedError:
                If there is no such revision.
        """
        if at is None:
            newest = self.find_newest(name.number)
            if newest is None:
                raise damage_error(self.url, f"{name.name!r} has no revisions")

            return newest

        number = at.revision if isinstance(at, Head) else at
        if isinstance(number, str):
            found = self.tables.get("labels", label_key(name.number, number))
            key = None if found is None else found[1]
        else:
            # A larger number would make the key of another name's revision.
            key = name.number << SHIFT | number if 0 < number < 1 << SHIFT else None

        row = None if key is None else self.tables.get("revisions", key)
        if row is None:
            what = "label" if isinstance(number, str) else "revision"
            raise NotSavedError(self.url, what, number)

        revision = read_revision(row, self.url)
        # Rows of labels have no seal; the revision's seal covers its labels.
        if isinstance(number, str) and not (
            revision.revision >> SHIFT == name.number
            and number in split_labels(revision.labels)
        ):
            what = f"the label {number!r} points to a revision without it"
            raise damage_error(self.url, what)

        # The name may have been deleted since, and saved again.
        if isinstance(at, Head) and at.digest != revision.digest.hex():
            raise NotSavedError(self.url, "revision", str(at))

        return revision

    def get_origin(self, number: int) -> Origin:
        """
        An origin by its number.
        """
        return self.check_origin(number, self.tables.get("origins", number))

    def check_origin(self, number: int, row: Row | None) -> Origin:
        """
        The row of an origin.

        Raises:
            StoreError:
                If it is not there, or not what was written.
        """
        if row is None or row[0] is None:
            raise damage_error(self.url, f"the origin {number} is missing")

        try:
            return Origin.of_row(row)
        except UNREADABLE as error:
            raise damage_error(self.url, f"the origin {number} is damaged") from error

    def make_head(self, name: Name, revision: Revision) -> Head:
        """
        A revision, for users.
        """
        return revision.head(name.name, self.get_origin(revision.origin).state_id)
