"""The revisions of names: labelled, annotated, gone back to, forked and deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversation_state._identity import new_uuid_number
from conversation_state._persistent import JsonMap, freeze_map
from conversation_state._waiting import async_twin
from conversation_state.errors import StaleHeadError
from conversation_state.store._load import load_at, load_newest, read_digests
from conversation_state.store._reading import ReadingVerbs
from conversation_state.store._save import save_within
from conversation_state.store._transaction import Transaction
from conversation_state.store._values import (
    NO_EXTRAS,
    At,
    Extras,
    Head,
    check_at,
    check_expecting,
    check_name,
    check_not_mirrored,
    check_notes,
    is_expected,
    label_key,
    now,
    pack_notes,
    unpack_notes,
)
from conversation_state.store._write_rows import (
    add_label,
    add_origin,
    drop_label,
    set_columns,
)
from conversation_state.store.schema import (
    SHIFT,
    Name,
    Origin,
    Revision,
    key_range,
    make_sealed,
    state_digest,
)


class RevisionVerbs(ReadingVerbs):
    """What `Store` does with the revisions that a name has."""

    def label(
        self,
        name: str,
        label: str,
        *,
        at: At = None,
        expecting: Head | int | None = None,
    ) -> Head:
        """
        Make *label* point to a revision: the head, or the one *at*.

        Any number of labels point to one revision, and none is lost by another
        one, nor by any save. A label points to one revision of a name: given
        again, it moves.

        Args:
            name: The name.

            label: The label.

            at: The revision; None for the head.

            expecting: The head that the name must still have, or the number of its
                revision, whichever revision is labelled. None takes any.

        Raises:
            NotSavedError:
                If there is no revision like that.

            StaleHeadError:
                If the head is another. Nothing was labelled.
        """
        check_at(check_name(name), at)
        check_name(label, "label")
        check_expecting(name, expecting)
        return self._core.write(label_revision, name, label, at, expecting)

    alabel = async_twin(label)

    def unlabel(self, name: str, label: str) -> Head:
        """
        Remove a label; the revision that it pointed to, which stays.

        Raises:
            NotSavedError:
                If there is no such label.
        """
        check_name(name)
        check_name(label, "label")

        def remove_label(transaction: Transaction) -> Head:
            there = transaction.get_name(name)
            revision = transaction.get_revision(there, label)
            key = label_key(there.number, label)
            transaction.tables.remove("labels", key, key + b"\0")
            left = drop_label(transaction.tables, revision, label)
            return transaction.make_head(there, left)

        return self._core.write(remove_label)

    aunlabel = async_twin(unlabel)

    def annotate(
        self,
        name: str,
        notes: Mapping[str, Any],
        *,
        at: At = None,
        expecting: Head | int | None = None,
    ) -> Mapping[str, Any]:
        """
        Note something on a name, or on the revision *at*; all notes that it has then.

        Notes are a small JSON map, at most 16 KiB: a title, a user, tags. Each key
        that is given is set, or removed if its value is None; others stay. Nothing
        of the conversation changes, and no save loses them: those on a name stay
        until it is deleted, those on a revision are `Head.notes`. A fork has none.

        Args:
            name: The name.

            notes: What is set, and what is removed.

            at: The revision; None for the name itself.

            expecting: The head that the name must still have, or the number of its
                revision, whatever is annotated. None takes any.

        Raises:
            NotSavedError:
                If nothing is saved under the name, or there is no such revision.

            StaleHeadError:
                If the head is another. Nothing was noted.

            ValueError:
                If *notes* is not a mapping of texts to JSON values, or if there would
                be too many.
        """
        check_at(check_name(name), at)
        changes = freeze_map(notes, "notes")
        check_expecting(name, expecting)

        def annotate_expected(transaction: Transaction) -> JsonMap:
            _check_newest(transaction, name, expecting)
            row = _find_annotated(transaction, name, at)
            before = unpack_notes(row.notes)
            # From here on errors are of what the caller gave.
            transaction.reports_damage = False
            left = {key: value for key, value in before.items() if key not in changes}
            merged = check_notes({**left, **changes})
            packed = pack_notes(merged)
            # As bytes, since 1, 1.0 and True are equal.
            if packed == row.notes:
                return merged

            if isinstance(row, Revision):
                set_columns(transaction.tables, row, notes=packed)
            else:
                new = make_sealed(Name, name, row.number, packed)
                transaction.tables.set("names", name, notes=packed, seal=new.seal)

            return merged

        return self._core.write(annotate_expected)

    aannotate = async_twin(annotate)

    def notes(self, name: str, *, at: At = None) -> Mapping[str, Any]:
        """
        The notes on a name, or on the revision *at*. One row is read.

        Raises:
            NotSavedError:
                If nothing is saved under the name, or there is no such revision.
        """
        check_at(check_name(name), at)
        with self._core.read() as transaction:
            return unpack_notes(_find_annotated(transaction, name, at).notes)

    anotes = async_twin(notes)

    def rollback(
        self, name: str, to: int | str | Head, *, expecting: Head | int | None = None
    ) -> Head:
        """
        Make an earlier state of a name its head again, with the whole bill.

        Going back does not bring the money back: what is saved has the messages,
        the id and the fork point of *to*, and the ledger entries of both, that
        state and the head. It is a new revision that grew from *to*, and what it
        takes the place of stays one: an abandoned branch, to which `rollback` goes
        back as well. Where the head is just that already, nothing is written.

        If another save comes first, it goes back from what that one saved.

        Args:
            name: The name.

            to: A revision's number, a label or a head of the name.

            expecting: The head that is to be gone back from, or the number of
                its revision. None goes back from any.

        Raises:
            NotSavedError:
                If there is no revision like that.

            StaleHeadError:
                If the head is not the one that is expected. Nothing was written.

            StoreError:
                If the store can't be written. Nothing was.
        """
        check_not_mirrored(self._core.url, name)
        if to is None:
            raise TypeError(
                "to is None; expected a revision's number, a label or a Head"
            )

        check_at(check_name(name), to)
        check_expecting(name, expecting)

        def go_back(transaction: Transaction) -> Head:
            newest = load_newest(transaction, name)
            if not is_expected(newest.head, expecting):
                raise StaleHeadError(self.url, name, expecting, newest.head)

            earlier = load_at(transaction, name, to, [newest])
            # Not `Aggregator.rollback` to that state: a name may have had another
            # conversation meanwhile, whose cost stays in the ledger, too.
            state = earlier.state.join(newest.state.rollback(0))
            extras = Extras(parent=earlier.head.revision)
            return save_within(transaction, name, state, newest.head, extras)

        return self._core.write(go_back)

    arollback = async_twin(rollback)

    def fork(
        self,
        name: str,
        new_name: str,
        *,
        at: At = None,
        expecting: Head | int | None = None,
    ) -> Head:
        """
        Save a fork of a state as *new_name*: a state with an id of its own and
        the same past. Three rows, however long that is.

        The past is that of the state: a fork *at* an earlier revision has the
        ledger of that revision, and usage recorded since is in the ledger of
        *name*. `conversation_state.total_usage` says what both cost together.

        Args:
            name: The name.

            new_name: The name of the fork.

            at: The revision that is forked; None for the head.

            expecting: The head that *name* must still have, or the number of its
                revision, whichever revision is forked. None takes any.

        Raises:
            NotSavedError:
                If there is no state like that.

            StaleHeadError:
                If *new_name* is there already, or the head of *name* is another;
                `StaleHeadError.name` says which. Nothing was written.
        """
        check_not_mirrored(self._core.url, new_name)
        check_at(check_name(name), at)
        check_name(new_name, "new_name")
        check_expecting(name, expecting)
        return self._core.write(fork_name, name, new_name, at, expecting)

    afork = async_twin(fork)

    def delete(self, name: str, *, expecting: Head | int | None = None) -> None:
        """
        Delete a name and all its revisions.

        Content that no other name shares stays in the file until `collect_garbage`.

        Args:
            name: The name.

            expecting: The head that is to be deleted, or the number of its
                revision. None deletes any.

        Raises:
            NotSavedError:
                If nothing is saved under it.

            StaleHeadError:
                If the head is another. Nothing was deleted.
        """
        check_name(name)
        check_expecting(name, expecting)
        self._core.write(delete_name, name, expecting)

    adelete = async_twin(delete)


def _check_newest(
    transaction: Transaction,
    text: str,
    expecting: Head | int | None,
    advice: str = "Look at the newest revision, then try again",
) -> None:
    """
    Check, in the transaction that changes something, that the head of a name is still
    the expected one.
    """
    if expecting is not None:
        transaction.get_name(text)
        transaction.find_head(text, expecting, advice)


def _find_annotated(transaction: Transaction, text: str, at: At) -> Name | Revision:
    name = transaction.get_name(text)
    return name if at is None else transaction.get_revision(name, at)


def fork_name(
    transaction: Transaction,
    text: str,
    new: str,
    at: At,
    expecting: Head | int | None = None,
) -> Head:
    _check_newest(transaction, text, expecting)
    tx = transaction.tables
    old = transaction.get_revision(transaction.get_name(text), at)
    existing = transaction.find_name(new)
    if existing is not None:
        newest = transaction.get_revision(existing, None)
        head = transaction.make_head(existing, newest)
        advice = "Give the fork another name, or delete that one first"
        raise StaleHeadError(transaction.url, new, 0, head, advice)

    parent = transaction.get_origin(old.origin)
    origin = Origin(
        new_uuid_number().to_bytes(16),
        parent.state,
        parent.root,
        old.length,
        old.ledger_length,
    )
    digests = read_digests(transaction, old, parent)
    name = make_sealed(Name, new, tx.new_number(), b"")
    revision = make_sealed(
        Revision,
        (name.number << SHIFT) + 1,
        0,
        old.branch,
        old.length,
        old.ledger_branch,
        old.ledger_length,
        add_origin(transaction, origin),
        now(),
        state_digest(*digests, origin.digest()),
        *NO_EXTRAS.columns(),
    )
    tx.add("names", [name])
    tx.add("revisions", [revision])
    return revision.head(new, origin.state_id)


def label_revision(
    transaction: Transaction,
    text: str,
    label: str,
    at: At,
    expecting: Head | int | None = None,
) -> Head:
    _check_newest(transaction, text, expecting)
    name = transaction.get_name(text)
    revision = transaction.get_revision(name, at)
    return add_label(transaction, name, revision, label)


def delete_name(
    transaction: Transaction, text: str, expecting: Head | int | None = None
) -> None:
    advice = "Look at the head, and pass it as expecting= to delete it"
    _check_newest(transaction, text, expecting, advice)
    tx = transaction.tables
    number = transaction.get_name(text).number
    # Rows of logs and origins stay: other names may need them, and `collect_garbage`
    # finds those that none does.
    tx.remove("names", text, f"{text}\x01")
    tx.remove("revisions", *key_range(number))
    tx.remove("labels", label_key(number, ""), label_key(number + 1, ""))
    tx.remove("timelines", number, number + 1)
    tx.remove("moments", *key_range(number))
    transaction.forget(text)
