"""
The verbs of a store that only read, and how it is opened and closed.

What lives here: which names and revisions there are. What does not: how a state is
read (`_load`, `_timelines`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self, TypeVar, overload

from conversation_state._persistent import check_text
from conversation_state._waiting import async_twin
from conversation_state._wording import describe_value
from conversation_state.aggregator import Aggregator
from conversation_state.errors import StoreError
from conversation_state.store import _load
from conversation_state.store._timelines import load_timeline
from conversation_state.store._transaction import Core, Transaction
from conversation_state.store._values import (
    At,
    Damage,
    Head,
    NamedHead,
    Window,
    check_at,
    check_count,
    check_name,
    unpack_notes,
)
from conversation_state.store._verify import verify
from conversation_state.store.backend import Backend, Row
from conversation_state.store.schema import (
    SHIFT,
    Name,
    Revision,
    key_range,
)
from conversation_state.timeline import Timeline
from conversation_state.tree import MessageTree

# All that one name can have, and a number that servers take.
_MAX_ROWS = 1 << SHIFT

# None is a default that may be asked for.
_NO_DEFAULT: Any = object()

D = TypeVar("D")


class ReadingVerbs:
    """What `Store` reads."""

    def __init__(self, backend: Backend, *, remembered: int = 100) -> None:
        if not hasattr(backend, "writing"):
            raise TypeError(
                f"Store takes a backend, got {describe_value(backend)}; open_store "
                "takes a URL, such as sqlite:///chats.db"
            )

        self._core = Core(backend, remembered)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Store {self.url}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"a store can't be pickled; open {self.url} where it is needed")

    @property
    def url(self) -> str:
        """The URL of the store, without any password."""
        return self._core.url

    def close(self) -> None:
        """Close files and connections. Idempotent."""
        self._core.forget()
        self._core.backend.close()

    aclose = async_twin(close)

    @overload
    def load(
        self, name: str, *, at: int | str | Head | None = None, last: None = None
    ) -> Aggregator: ...
    @overload
    def load(
        self, name: str, *, at: int | str | Head | None = None, last: int
    ) -> Window: ...
    @overload
    def load(
        self,
        name: str,
        *,
        at: int | str | Head | None = None,
        last: None = None,
        default: D,
    ) -> Aggregator | D: ...
    @overload
    def load(
        self, name: str, *, at: int | str | Head | None = None, last: int, default: D
    ) -> Window | D: ...
    def load(
        self,
        name: str,
        *,
        at: At = None,
        last: int | None = None,
        default: Any = _NO_DEFAULT,
    ) -> Any:
        """
        The state that was saved, equal to what it was then.

        Reads what is not in memory: one row if this store saved or loaded the
        head itself, what is new if others went on from there.

        Args:
            name: What it was saved under.

            at: Which of its states: a revision's number, a label, of which the
                newest counts, or a head. None is the head.

            last: Load only so many messages from the end, as a `Window`.

            default: What is returned if nothing is saved under the name; any
                value, also None. A name without the revision or label *at* is
                an error all the same. One row more is read.

        Raises:
            NotSavedError:
                If there is no such name or revision.
        """
        check_at(check_name(name), at)
        if last is not None:
            check_count(last, "last", "how many messages to load")

        with self._core.read() as transaction:
            if default is not _NO_DEFAULT and transaction.find_name(name) is None:
                return default

            if last is None:
                return _load.load_at(transaction, name, at).state

            return _load.load_window(transaction, name, at, last)

    aload = async_twin(load)

    def _load_each(self, name: str, heads: Iterable[Head]) -> dict[int, Aggregator]:
        # For pages: the states of revisions, the newest first, by their numbers.
        with self._core.read() as transaction:
            there = transaction.get_name(name)
            revisions = [transaction.get_revision(there, head) for head in heads]
            numbered = [(each.number, each.parent, each) for each in revisions]
            found = _load.read_states(transaction, there, numbered)
            return {number: each.state for number, each in found.items()}

    def load_timeline(self, name: str) -> Timeline[Aggregator]:
        """
        The timeline that was saved, equal to what it was: its moments with their
        labels and groups, the present one, where `redo` goes, and its limit.

        What other verbs saved under the name since is in it, committed on the
        moments that it grew from. So a name that was never saved as a timeline has
        its history as one.

        Raises:
            NotSavedError:
                If nothing is saved under the name.
        """
        check_name(name)
        with self._core.read() as transaction:
            return load_timeline(transaction, name)

    aload_timeline = async_twin(load_timeline)

    def message_tree(self, name: str) -> MessageTree:
        """
        All messages that a name ever had, those of abandoned branches too, with the
        head's last one shown: siblings for ``‹ 2/3 ›``, and `MessageTree.path`, to
        go on from any of them.

        Reads one state for each branch of the history, and what they have in
        common once.

        Raises:
            NotSavedError:
                If nothing is saved under the name.
        """
        check_name(name)
        with self._core.read() as transaction:
            return _load.load_message_tree(transaction, name)

    amessage_tree = async_twin(message_tree)

    def latest(self, name: str, *, at: At = None) -> Head:
        """
        Which state a name stands at now, or stood *at*. One row is read.

        Raises:
            NotSavedError:
                If there is no such name or revision.
        """
        check_at(check_name(name), at)
        with self._core.read() as transaction:
            return _load.latest(transaction, name, at)

    alatest = async_twin(latest)

    def __contains__(self, name: str) -> bool:
        """Whether anything is saved under *name*. One row is read."""
        check_name(name)
        with self._core.read() as transaction:
            return transaction.find_name(name) is not None

    def names(self, *, prefix: str = "") -> tuple[str, ...]:
        """
        All names something is saved under, those that begin with *prefix*, in
        the order of their code points. O(that).
        """
        check_text(prefix, "prefix")
        with self._core.read() as transaction:
            return tuple(_load.list_names(transaction, prefix))

    anames = async_twin(names)

    def heads(
        self, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> tuple[NamedHead, ...]:
        """
        Names with their heads and their notes, in the order of the names' code
        points: a page of a list of conversations. One query, which costs what it
        gives, however many names there are.

        Args:
            prefix: Only names that begin with it.

            after: Only names that come after this one: for the next page, the last
                name of the one before.

            limit: At most so many.

        Raises:
            ValueError:
                If one of them is not text, or *limit* is not a number from 0 on.

        >>> from conversation_state.store import open_store
        >>> store = open_store("memory:")
        >>> for name in ("ann/1", "ann/2", "bob/1"):
        ...     _ = store.save(name, Aggregator.new())
        >>> [each.name for each in store.heads(prefix="ann/", after="ann/1")]
        ['ann/2']
        """
        check_text(prefix, "prefix")
        check_text(after, "after")
        check_count(limit, "limit", "how many names to list")
        # No name holds U+0000, and a server refuses it: so this comes next.
        after = after.partition("\0")[0]
        low = max(prefix, f"{after}\x01") if after else prefix
        high = _find_text_after(prefix)
        # No backend has to know what a range is that ends before it begins.
        if "\0" in prefix or (high is not None and low >= high):
            return ()

        with self._core.read() as transaction:
            rows = transaction.tables.scan_heads(low, high, min(limit, _MAX_ROWS))
            return tuple([_read_named_head(transaction, row) for row in rows])

    aheads = async_twin(heads)

    def history(
        self, name: str, *, before: int | None = None, limit: int | None = None
    ) -> tuple[Head, ...]:
        """
        Every state that was saved under a name, the newest first.

        It is a tree: `Head.parent` says which revision each one grew from. What was
        gone back from is a branch of its own, which `rollback` restores.

        Args:
            name: The name.

            before: Only those before this revision.

            limit: Only so many.

        Raises:
            NotSavedError:
                If nothing is saved under the name.
        """
        check_name(name)
        if before is not None:
            check_count(before, "before", "a revision's number")

        if limit is not None:
            check_count(limit, "limit", "how many revisions to list")

        with self._core.read() as transaction:
            number = transaction.get_name(name).number
            low, high = key_range(number)
            if before is not None:
                high = min(high, low + before)

            most = None if limit is None else min(limit, _MAX_ROWS)
            scan = transaction.tables.scan
            rows = scan("revisions", low, high, limit=most, backwards=True)
            revisions = list(map(transaction.check_revision, rows))
            ids = {
                each: transaction.get_origin(each).state_id
                for each in {revision.origin for revision in revisions}
            }
            return tuple([each.head(name, ids[each.origin]) for each in revisions])

    ahistory = async_twin(history)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """
        Copy the store, as it is at one moment, to a new file at *path*.

        Others read and write meanwhile. The file appears there when it is whole, for
        its user alone, and is a store like any other; `restore` puts it back.
        O(the file).

        Args:
            path: Where nothing is yet.

        Raises:
            StoreError:
                If something is there, or it can't be written; or the store is no
                file. A server has tools of its own, which the error names.
        """
        backup: Callable[[Path], None] | None
        backup = getattr(self._core.backend, "backup", None)
        if backup is None:
            raise StoreError(
                self.url, "only a store in a file can be copied to another"
            )

        backup(Path(path).absolute())

    abackup = async_twin(backup)

    def verify(self) -> tuple[Damage, ...]:
        """
        Everything that differs from what was saved; () if nothing does.

        Computes every digest again. O(rows of the store).
        """
        return verify(self._core)

    averify = async_twin(verify)


def _read_named_head(transaction: Transaction, row: Row) -> NamedHead:
    # A row of `Reading.scan_heads`.
    of_name, of_revision = len(Name._fields), len(Revision._fields)
    name, rest = transaction.check_name(row[:of_name]), row[of_name:]
    if rest[0] is None:
        raise transaction.damage_error(f"{name.name!r} has no revisions")

    revision = transaction.check_revision(rest[:of_revision])
    origin = transaction.check_origin(revision.origin, rest[of_revision:])
    head = revision.head(name.name, origin.state_id)
    return NamedHead(head, unpack_notes(name.notes))


def _find_text_after(prefix: str) -> str | None:
    """
    The least text that comes after all that begin with *prefix*; None if there is
    none.
    """
    stem = prefix.rstrip(chr(sys.maxunicode))
    if not stem:
        return None

    # Halves of surrogate pairs, from U+D800 on, are in no text.
    last = ord(stem[-1]) + 1
    return stem[:-1] + chr(0xE000 if last == 0xD800 else last)  # noqa: PLR2004 - as above
