"""The store: all its verbs, how it is opened, and how a file is put back."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar, overload

import attrs

from conversation_state._persistent import check_text, freeze_map
from conversation_state._waiting import async_twin, run_in_anyio_thread
from conversation_state._wording import (
    add_missing_names,
    describe_type,
    describe_value,
    shorten_repr,
)
from conversation_state.aggregator import Aggregator
from conversation_state.counting import TokenBudget, TokenCounter, by_characters
from conversation_state.errors import NotSavedError, StaleHeadError, StoreError
from conversation_state.messages import Message
from conversation_state.requests import EVERYWHERE, Rules
from conversation_state.store import _load
from conversation_state.store._append import Addition, append_within
from conversation_state.store._labels import list_moves, remove_label
from conversation_state.store._log import reading_rows
from conversation_state.store._maintenance import collect_garbage, erase
from conversation_state.store._references import find_head, find_ref, load_ref, make_ref
from conversation_state.store._revisions import (
    annotate,
    delete_name,
    find_annotated,
    fork_name,
    go_back,
    label_revision,
)
from conversation_state.store._save import (
    prepare_digests,
    save_all,
    save_at_once,
    save_tree,
    save_within,
)
from conversation_state.store._steps import PipelineStep
from conversation_state.store._timelines import load_timeline, save_timeline
from conversation_state.store._transaction import (
    CachedBackend,
    Transaction,
    read_newest,
)
from conversation_state.store._values import (
    MIRROR_PREFIXES,
    NO_FIELDS,
    At,
    Collected,
    Damage,
    Head,
    LabelMove,
    NamedHead,
    Receipt,
    RevisionFields,
    StateRef,
    Window,
    check_at,
    check_count,
    check_expecting,
    check_function,
    check_keep,
    check_made,
    check_name,
    check_not_mirrored,
    check_ref,
    check_state,
    is_expected,
    unpack_notes,
)
from conversation_state.store._verify import verify
from conversation_state.store._view import view_newest
from conversation_state.store.backend import Backend, Row
from conversation_state.store.backends import open_backend, restore_file
from conversation_state.store.schema import SHIFT, Revision, check_seal, key_range
from conversation_state.timeline import Timeline
from conversation_state.tree import MessageTree
from conversation_state.trimming import TrimContext
from conversation_state.usage import Usage

# The maximum number of attempts of an update: with sixteen processes that write one
# name all the time, one update in 10**28 gives up.
UPDATE_ATTEMPTS = 1000

# All that one name can have, and a number that servers take.
_MAX_ROWS = 1 << SHIFT
# The newest revisions that decide how a page shows a name.
_MAX_SHOWN = 1_000

# None is a default that may be asked for.
_NO_DEFAULT: Any = object()

_LEASE = timedelta(days=30)
_NONE: Mapping[str, Head | int] = MappingProxyType({})
_NO_NOTES: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

D = TypeVar("D")


class Store:
    """
    States outside memory: each under a name, every one it ever was restorable.

    Made by `open_store`. Safe in many threads and many processes. The twins
    with an *a* do the same in worker threads, under asyncio and trio (extra
    `anyio`), and never keep the event loop waiting.

    The newest states of the last names used are kept in memory, by default of
    a hundred names: what was saved or loaded here is not read again.

    >>> from conversation_state.store import open_store
    >>> store = open_store("memory:")
    >>> state = Aggregator.new().add_user_prompt("Hi!")
    >>> store.save("greeting", state).revision
    1
    >>> _ = store.save("greeting", state.add_assistant_message("Hello."))
    >>> store.load("greeting", at=1) == state
    True
    """

    def __init__(self, backend: Backend, *, remembered: int = 100) -> None:
        if not hasattr(backend, "writing"):
            raise TypeError(
                f"Store takes a backend, got {describe_value(backend)}; open_store "
                "takes a URL, such as sqlite:///chats.db"
            )

        self._cache = CachedBackend(backend, remembered)

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
        return self._cache.url

    def close(self) -> None:
        """Close files and connections. Idempotent."""
        self._cache.forget()
        self._cache.backend.close()

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
            NotSavedError: If there is no such name or revision.
        """
        check_at(check_name(name), at)
        if last is not None:
            check_count(last, "last", "how many messages to load")

        with self._cache.read() as transaction:
            if default is not _NO_DEFAULT and transaction.find_name(name) is None:
                return default

            if last is None:
                return _load.load_at(transaction, name, at).state

            return _load.load_window(transaction, name, at, last)

    aload = async_twin(load)

    def _load_each(self, name: str, heads: Iterable[Head]) -> dict[int, Aggregator]:
        # For pages: the states of revisions, the newest first, by their numbers.
        with self._cache.read() as transaction:
            there = transaction.get_name(name)
            revisions = [transaction.get_revision(there, head) for head in heads]
            numbered = [(each.number, each.parent, each) for each in revisions]
            found = _load.read_states(transaction, there, numbered)
            return {number: each.state for number, each in found.items()}

    def _is_timeline(self, name: str) -> bool:
        """Whether *name* is written as a timeline. One row is read."""
        with self._cache.read() as transaction:
            return bool(transaction.get_name(name).is_timeline)

    def _is_message_tree(self, name: str) -> bool:
        """
        Whether *name* is rather a tree of messages than one of revisions: a timeline,
        or a name with branches of one conversation that grew from no revision, as
        those do that were imported.
        """
        with self._cache.read() as transaction:
            there = transaction.get_name(name)
            return bool(there.is_timeline) or _load.has_branches(
                transaction, there, _MAX_SHOWN
            )

    def load_timeline(self, name: str) -> Timeline[Aggregator]:
        """
        The timeline that was saved, equal to what it was: its moments with their
        labels and groups, the present one, where `redo` goes, and its limit.

        A name that was not saved as a timeline has its history as one: each revision
        is a moment, committed on that of the revision that it grew from.

        Raises:
            NotSavedError: If nothing is saved under the name.
        """
        check_name(name)
        with self._cache.read() as transaction:
            return load_timeline(transaction, name)

    aload_timeline = async_twin(load_timeline)

    def message_tree(self, name: str) -> MessageTree:
        """
        All messages that a name ever had, those of abandoned branches too, with the
        head's last one shown: siblings for ``‹ 2/3 ›``, and `MessageTree.path`, to
        go on from any of them. Of a timeline, those of its moments: what was amended
        away is no sibling of what took its place.

        Reads one state for each branch of the history, and what they have in
        common once.

        Raises:
            NotSavedError: If nothing is saved under the name.
        """
        check_name(name)
        with self._cache.read() as transaction:
            transaction.catch_up()
            if transaction.get_name(name).is_timeline:
                return MessageTree.of(load_timeline(transaction, name))

            return _load.load_message_tree(transaction, name)

    amessage_tree = async_twin(message_tree)

    def latest(self, name: str, *, at: At = None) -> Head:
        """
        Which state a name stands at now, or stood *at*. One row is read.

        Raises:
            NotSavedError: If there is no such name or revision.
        """
        check_at(check_name(name), at)
        with self._cache.read() as transaction:
            return _load.latest(transaction, name, at)

    alatest = async_twin(latest)

    def ref(self, head: Head, *, keep: timedelta = _LEASE) -> StateRef:
        """
        A reference to a saved state, for a queue or a workflow engine to keep instead
        of the conversation. Three rows are read, and one is written.

        It has a lease, until `StateRef.until`: `collect_garbage` keeps the state until
        then, and after it for as long as the name is there. `erase` and `delete` win
        over a lease; while it lasts, `resolve` knows when the name was deleted. Asking
        again renews the lease, and never shortens it.

        Args:
            head: Which state, as `save`, `append`, `latest` or `history` gave it.
            keep: How long the lease lasts from now on, at least. 0 writes nothing: the
                reference has the lease that is there, or none.

        Raises:
            NotSavedError: If it is not there any more.
            ValueError: If *keep* is less than 0, or more than 36,500 days.
            StoreError: If the store can't be written, and *keep* is not 0.
        """
        if not isinstance(head, Head):
            raise TypeError(
                f"head: expected a Head, got {describe_type(head)}; save and latest "
                "give one"
            )

        if check_keep(keep):
            return self._cache.write(make_ref, head, keep)

        with self._cache.read() as transaction:
            return find_ref(transaction, head)

    aref = async_twin(ref)

    def resolve(self, ref: StateRef) -> Aggregator:
        """
        The state that a reference is of, which is what `load` gives for its head.

        Its digest is checked. Messages that were erased since are tombstones, as they
        are in every state. Costs what `load` does.

        Args:
            ref: The reference; `StateRef.parse` makes one of its text.

        Raises:
            NotSavedError: If this store does not have that state: its name was deleted,
                even if another conversation has the name now, or the reference is of
                another store. `NotSavedError.why` says which, as long as its lease
                lasts.
        """
        check_ref(ref)
        with self._cache.read() as transaction:
            return load_ref(transaction, ref)

    aresolve = async_twin(resolve)

    def __contains__(self, name: str) -> bool:
        """Whether anything is saved under *name*. One row is read."""
        check_name(name)
        with self._cache.read() as transaction:
            return transaction.find_name(name) is not None

    def names(self, *, prefix: str = "") -> tuple[str, ...]:
        """
        All names something is saved under, those that begin with *prefix*, in
        the order of their code points. O(that).
        """
        check_text(prefix, "prefix")
        with self._cache.read() as transaction:
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
            ValueError: If one of them is not text, or *limit* is not a number from 0
                on.

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

        with self._cache.read() as transaction, reading_rows():
            rows = transaction.tables.scan_heads(low, high, min(limit, _MAX_ROWS))
            return tuple([_read_named_head(row) for row in rows])

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
            NotSavedError: If nothing is saved under the name.
        """
        check_name(name)
        if before is not None:
            check_count(before, "before", "a revision's number")

        if limit is not None:
            check_count(limit, "limit", "how many revisions to list")

        with self._cache.read() as transaction:
            number = transaction.get_name(name).number
            low, high = key_range(number)
            if before is not None:
                high = min(high, low + before)

            most = None if limit is None else min(limit, _MAX_ROWS)
            scan = transaction.tables.scan
            rows = scan("revisions", low, high, limit=most, backwards=True)
            revisions = list(map(check_seal, map(Revision._make, rows)))
            ids = {
                each: transaction.get_origin(each).state_id
                for each in {revision.origin for revision in revisions}
            }
            return tuple([each.head(name, ids[each.origin]) for each in revisions])

    ahistory = async_twin(history)

    def label_moves(self, name: str, *, label: str = "") -> tuple[LabelMove, ...]:
        """
        Every move of a label of a name, or of all its labels, the newest first: from
        which revision to which, and when. O(moves of the name).

        Args:
            name: The name.
            label: Only the moves of this label, which need not be there any more.

        Raises:
            NotSavedError: If nothing is saved under the name.

        >>> from conversation_state.store import open_store
        >>> store = open_store("memory:")
        >>> _ = store.save("chat", Aggregator.new(), label="kept")
        >>> (move,) = store.label_moves("chat", label="kept")
        >>> (move.before, move.after)
        (None, 1)
        """
        check_name(name)
        check_text(label, "label")
        with self._cache.read() as transaction:
            return list_moves(transaction, transaction.get_name(name), label)

    alabel_moves = async_twin(label_moves)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """
        Copy the store, as it is at one moment, to a new file at *path*.

        Others read and write meanwhile. The file appears there when it is whole, for
        its user alone, and is a store like any other; `restore` puts it back.
        O(the file).

        Args:
            path: Where nothing is yet.

        Raises:
            StoreError: If something is there, or it can't be written; or the store is
                no file. A server has tools of its own, which the error names.
        """
        backup: Callable[[Path], None] | None
        backup = getattr(self._cache.backend, "backup", None)
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
        return verify(self._cache)

    averify = async_twin(verify)

    def save(
        self,
        name: str,
        state: Aggregator,
        *,
        expecting: Head | int | None = None,
        label: str = "",
        notes: Mapping[str, Any] | None = None,
    ) -> Head:
        """
        Make *state* the head of *name*; what was the head stays a revision.

        Writes what is new: a row for each message and ledger entry that no
        state before it had, and one of 70 bytes for the revision. Saving the
        head itself again writes nothing but a *label* and *notes*, which it is
        given. Atomic: killed at any moment, the store has the state or the one
        before it.

        Args:
            name: 1 to 500 characters.
            state: The state.
            expecting: The head that is to be replaced, or the number of its
                revision; 0 if the name is to be new. None takes any head of
                which *state* holds everything, in its order. A head that is
                replaced is replaced with its ledger: to go back to an earlier
                state there is `rollback`, which keeps it.
            label: A label for this revision; if another one has it, it moves here.
                See `label`.
            notes: Notes on this revision, such as the commit of the code that made
                it. Where *state* is the head already they are merged with those on
                that one; see `annotate`.

        Raises:
            StaleHeadError: If the head is another. Nothing was written.
            MirroredNameError: If the name is of a host that would not read it: a thread
                of LangGraph's. Nothing was written.
            StoreError: If the name is a timeline, which `save_timeline` writes, or the
                store can't be written. Nothing was.
        """
        cache, fields = self._cache, NO_FIELDS
        known = None
        if isinstance(name, str):
            known = cache.heads.get(name)
            if name.startswith(MIRROR_PREFIXES):
                check_not_mirrored(cache.url, name)

        # A name that is remembered was checked when it came there.
        if known is None or expecting is not None or not isinstance(state, Aggregator):
            check_state(name, state, expecting)

        if label != "" or notes is not None:
            fields = RevisionFields.of(label, notes)

        if known is not None:
            head = save_at_once(cache, known, state, expecting, fields)
            if head is not None:
                return head

        if known is None or known[1].state._origin is not state._origin:
            prepare_digests(cache, state)

        return cache.write(save_within, name, state, expecting, fields)

    asave = async_twin(save)

    def append(
        self,
        name: str,
        *messages: Message | Iterable[Message],
        usage: Usage | None = None,
        key: str | None = None,
        model: str = "",
        caveat: str = "",
        expecting: Head | int | None = None,
    ) -> Head:
        """
        Append *messages* to the head of *name* without loading it; the new head.

        What is written is what `load`, `Aggregator.add_response` and `save` would
        write: the same rows, digests and ledger. Atomic, as `save` is. The usage that
        the messages report is recorded as `Aggregator.add_response` does it, under
        *key* or the response's own identity, once.

        Where the ledger has *key* already, nothing is appended and the head is
        returned, whatever is expected: what is sent again after an error with the
        same *key* is there once. A key under which no usage is recorded is not known
        again; *expecting* makes such an append safe to repeat.

        O(what is appended), plus a lookup in an index for each response; the same for
        conversations of any length. In a store in memory a lookup is O(ledger).

        Args:
            name: The name.
            *messages: Messages; a response, as an adapter's ``load`` returns it, with
                or without the star.
            usage: Tokens to record instead of those that the messages report; see
                `Aggregator.add_usage`.
            key: The identity of the usage in the ledger, such as the id of the request.
            model: The model that *usage* is of.
            caveat: Why *usage* does not say what it cost: see `LedgerEntry`.
            expecting: The head to append to, or the number of its revision; 0 begins
                the name. None takes any head.

        Raises:
            NotSavedError: If nothing is saved under the name, and *expecting* is not 0.
            StaleHeadError: If the head is another. Nothing was written.
            InvalidMessageError, InvalidUsageError: As `Aggregator.add_response` and
                `Aggregator.add_usage` say; also if *model* or *caveat* is given without
                *usage*. Nothing was written.
            MirroredNameError: If the name is of a host that would not read it.
            StoreError: If the name is a timeline, or the store can't be written.
                Nothing was.

        >>> from conversation_state import AssistantMessage, UserMessage, open_store
        >>> store = open_store("memory:")
        >>> store.append("chat", UserMessage("Hi!"), expecting=0).length
        1
        >>> answer = AssistantMessage("Hello.")
        >>> store.append("chat", answer, usage=Usage(8, 2), key="req-1").length
        2
        >>> store.append("chat", answer, usage=Usage(8, 2), key="req-1").length
        2
        """
        check_not_mirrored(self._cache.url, check_name(name))
        check_expecting(name, expecting)
        addition = Addition.of(
            messages, usage=usage, key=key, model=model, caveat=caveat
        )
        return self._cache.write(append_within, name, addition, expecting)

    aappend = async_twin(append)

    def view(
        self,
        name: str,
        budget: TokenBudget | None,
        *,
        counter: TokenCounter = by_characters,
        rules: Rules = EVERYWHERE,
    ) -> TrimContext:
        """
        The view of the newest state that ``trim(store.load(name), budget)`` gives,
        without loading all of it.

        Loads the leading system messages and the newest messages, about as many as the
        view shows; where it depends on more, such as a call whose result is far away or
        a task that is, more is loaded, in the worst case all. Without a budget all is
        shown, and loaded.

        The view needs no connection. What it dropped is not in it: asking `original`
        for such a message is a `StoreError`.

        Args:
            name: The name.
            budget: What the view should fit into; None for no limit.
            counter: What counts the tokens of the messages.
            rules: What requests are asked for; see `trim`.

        Raises:
            NotSavedError: If nothing is saved under the name.
            BudgetExceededError, InvalidTranscriptError: As `trim` says.

        >>> from conversation_state import TokenBudget, UserMessage, open_store
        >>> store = open_store("memory:", remembered=0)
        >>> _ = store.append("chat", *[UserMessage("Hi!")] * 1000, expecting=0)
        >>> view = store.view("chat", TokenBudget(context_window=5))
        >>> len(view), len(view.dropped)
        (5, 995)
        """
        return view_newest(self._cache, check_name(name), budget, counter, rules)

    aview = async_twin(view)

    def save_all(
        self,
        states: Mapping[str, Aggregator | MessageTree],
        *,
        expecting: Mapping[str, Head | int] = _NONE,
        notes: Mapping[str, Mapping[str, Any]] = _NO_NOTES,
    ) -> dict[str, Head]:
        """
        Make each of *states* the head of its name, or none of them; the heads.

        Atomic as one `save` is: for what belongs together under several names, and for
        many new names, which one transaction saves several times as fast.

        Args:
            states: The states, by name; trees are saved as `save_tree` does.
            expecting: The heads that are to be replaced, as `save` takes them,
                of some names or all.
            notes: What is noted on names, as `annotate` does.

        Raises:
            StaleHeadError: If a head is another. Nothing was written.
            StoreError: If the store can't be written. Nothing was.
        """
        if not isinstance(states, Mapping):
            raise TypeError(
                f"states: expected states by name, got {describe_value(states)}"
            )

        for name in states:
            check_not_mirrored(self._cache.url, name)

        changes = {name: freeze_map(notes[name], "notes") for name in notes}

        def note(transaction: Transaction) -> None:
            for name, each in changes.items():
                annotate(transaction, name, each, None, None)

        return save_all(self._cache, states, expecting, note)

    asave_all = async_twin(save_all)

    def save_timeline(
        self,
        name: str,
        timeline: Timeline[Aggregator],
        *,
        expecting: Head | int | None = None,
    ) -> Head:
        """
        Save a timeline moment by moment, and make its present state the head.

        Writes what is new: a row and a revision for each moment that was committed or
        amended since, which grew from that of the moment before it; one revision
        more after an `undo`, and where only a label or a note is new. Atomic, as
        `save` is. States of moments that the timeline forgot, or amended, stay
        revisions. A *filter* is not kept.

        A name is written as a timeline or as a history, which its first save decides.
        Every other verb reads, labels, forks and deletes both alike.

        Args:
            name: 1 to 500 characters.
            timeline: A timeline of states.
            expecting: The head that is to be replaced, or the number of its revision;
                0 if the name is to be new. None takes any head, if the timeline has
                every moment that is saved, as it was: committed on, and not amended,
                nor with another label.

        Raises:
            StaleHeadError: If the head is another. Nothing was written.
            TypeError: If a state is not an Aggregator.
            ValueError: If the limit is 2⁶³ or more.
            StoreError: If the name is a history, which other verbs write, or the store
                can't be written. Nothing was.
        """
        check_not_mirrored(self._cache.url, name)
        check_name(name)
        if not isinstance(timeline, Timeline):
            raise TypeError(
                f"timeline: expected a Timeline, got {describe_type(timeline)}"
            )

        check_expecting(name, expecting)
        return save_timeline(self._cache, name, timeline, expecting)

    asave_timeline = async_twin(save_timeline)

    def save_tree(
        self, name: str, tree: MessageTree, *, expecting: Head | int | None = None
    ) -> Head:
        """
        Save all messages of a tree as the history of a name, and the way to its head,
        with the ledger of the whole tree, as the head.

        `message_tree` returns the same messages with the same head. Writes a revision
        for each branch that is new, in one transaction: all of them or none. A tree
        that grew is saved again; what it has not stays in the history.

        Args:
            name: 1 to 500 characters.
            tree: The tree.
            expecting: The head that is to be replaced, or the number of its revision;
                0 if the name is to be new. None takes any head that the tree has.

        Raises:
            StaleHeadError: If the head is another. Nothing was written.
            StoreError: If the name is a timeline, which `save_timeline` writes, or the
                store can't be written. Nothing was.
        """
        check_not_mirrored(self._cache.url, name)
        check_name(name)
        if not isinstance(tree, MessageTree):
            raise TypeError(f"tree: expected a MessageTree, got {describe_type(tree)}")

        check_expecting(name, expecting)
        return self._cache.write(save_tree, name, tree, expecting)

    asave_tree = async_twin(save_tree)

    def update(
        self,
        name: str,
        function: Callable[[Aggregator], Aggregator],
        *,
        start: Aggregator | None = None,
    ) -> Aggregator:
        """
        Save what *function* makes of the head; the state that was saved.

        If another save comes first, *function* is called again with the
        new head: it should do nothing but make a state, and its argument
        holds the whole conversation so far. Any error of its own ends the update,
        unless another save came before it.

        Args:
            name: What the state is saved under.
            function: Makes the next state.
            start: What it is given if nothing is saved yet.

        Raises:
            NotSavedError: If nothing is saved under the name, and *start* is None.
            StoreError: If other saves came first a thousand times, or saves of the
                function itself.
        """
        check_function(function)
        remembered = self._cache.recall(check_name(name))
        for _ in range(UPDATE_ATTEMPTS):
            expecting: Head | int
            if remembered is None:
                expecting, state = self._read_for_update(name, start)
            else:
                # The head is not read again: if another save came first, this one is
                # refused.
                expecting, state = remembered.head, remembered.state

            try:
                made = function(state)
            except Exception:
                if remembered is None or self._is_newest(remembered.head):
                    raise

                # The error may be due to an outdated state.
                remembered = None
                continue

            remembered = None
            check_made(made, "function", verb="update(name, function)", is_async=False)
            with suppress(StaleHeadError):
                self.save(name, made, expecting=expecting)
                return made

        raise self._make_update_error(name)

    async def aupdate(
        self,
        name: str,
        function: Callable[[Aggregator], Awaitable[Aggregator]],
        *,
        start: Aggregator | None = None,
    ) -> Aggregator:
        """The async twin of `update`: *function* is async, too, and runs here."""
        check_function(function)
        check_name(name)
        for _ in range(UPDATE_ATTEMPTS):
            read = partial(self._read_for_update, name, start)
            expecting, state = await run_in_anyio_thread(read)
            answer = function(state)
            check_made(answer, "function", verb="update(name, function)", is_async=True)
            made = await answer
            check_made(made, "function", verb="update(name, function)", is_async=False)
            with suppress(StaleHeadError):
                await self.asave(name, made, expecting=expecting)
                return made

        raise self._make_update_error(name)

    def step(
        self, name: str, label: str, function: Callable[[Aggregator], Aggregator]
    ) -> Aggregator:
        """
        The state under *label*; if nothing has it, what *function* makes of the
        newest state, saved under it.

        So a program that was killed is run again as it is: each step that was
        saved is not done, nor billed, again. Only its state is read.

        If another save comes first, what *function* made is joined to it, and not
        made again. If that was the same step, its state counts; the ledger has
        the usage of both.

        If *function* fails, nothing is under the label, and what it gave to
        `conversation_state.save_progress` until then is in the ledger. Other
        usage before the process is killed is in no ledger: let a step be one request.

        An interrupt (Ctrl-C) between the moment when *function* returns and the end of
        the save, some 100 microseconds, loses what it made: the next run makes that
        request, and pays for it, again.

        Args:
            name: What the states are saved under. Nothing needs to be there.
            label: The step, one of each name; see `label`. `unlabel` lets it be
                done again.
            function: Makes the next state of the newest one, or of an empty one.
                What it leaves out of the ledger stays there.

        Raises:
            TypeError: If *function* returns something else.
            MirroredNameError: If the name is of a host that would not read it.
            NotSavedError: If the name was deleted while *function* ran: nothing is
                saved, and a note has its usage. If *function* fails, too, its error is
                raised, and has that note.
            InvalidUsageError: If *function* recorded two usages under one key, or
                another one under a key of the ledger, which keeps the first. All else
                that it made is saved, under the label.
            StoreError: If the store can't be written, and the step has to be done
                again.
        """
        check_function(function)
        return self._make_step(name, label).run(function)[1]

    async def astep(
        self,
        name: str,
        label: str,
        function: Callable[[Aggregator], Awaitable[Aggregator]],
    ) -> Aggregator:
        """
        The async twin of `step`: *function* is async, too, and runs here.

        What a function that ended has made is saved also if the task is cancelled
        meanwhile, and so is what it gave to `conversation_state.save_progress`: the
        cancellation is raised after that. It needs no thread of anyio's default
        limiter.
        """
        step = self._make_step(name, label)
        return (await step.arun(function, run_in_anyio_thread))[1]

    def step_ref(
        self,
        ref: StateRef,
        label: str,
        function: Callable[[Aggregator], Aggregator],
        *,
        keep: timedelta = _LEASE,
    ) -> StateRef:
        """
        A reference to the state under *label*; if nothing has it, to what *function*
        makes of the state of *ref*, saved under it: `step` for a workflow engine, whose
        history has references only.

        The turn, its usage and the label are saved in one transaction, so a step that
        is run again, after a kill at any moment, saves and bills nothing twice. If
        another save came since *ref*, what *function* made is joined to it: steps that
        begin with one reference are all in the newest state, each once.

        Args:
            ref: The state to begin with.
            label: The step, one of each name: such as the identity of the workflow and
                the number of the step in it.
            function: Makes the next state.
            keep: How long the reference is kept; see `ref`.

        Raises:
            NotSavedError: If this store does not have the state of *ref*, or its name
                was deleted while *function* ran.
            TypeError, MirroredNameError, InvalidUsageError, StoreError: As `step` says.

        >>> from conversation_state.store import open_store
        >>> store = open_store("memory:")
        >>> state = Aggregator.new().add_user_prompt("Hi!")
        >>> ref = store.ref(store.save("chat", state))
        >>> def answer(state):
        ...     return state.add_assistant_message("Hello.")
        >>> answered = store.step_ref(ref, "run 1, step 1", answer)
        >>> [message.text for message in store.resolve(answered)]
        ['Hi!', 'Hello.']
        >>> store.step_ref(ref, "run 1, step 1", answer) == answered
        True
        """
        check_function(function)
        check_keep(keep)
        head, _ = self._make_step_from(ref, label).run(function)
        return self.ref(head, keep=keep)

    async def astep_ref(
        self,
        ref: StateRef,
        label: str,
        function: Callable[[Aggregator], Awaitable[Aggregator]],
        *,
        keep: timedelta = _LEASE,
    ) -> StateRef:
        """
        The async twin of `step_ref`: *function* is async, too, and runs here.

        Cancellation does to it what it does to `astep`.
        """
        check_function(function)
        check_keep(keep)
        step = await run_in_anyio_thread(partial(self._make_step_from, ref, label))
        head, _ = await step.arun(function, run_in_anyio_thread)
        return await self.aref(head, keep=keep)

    def collect_garbage(self, *, vacuum: bool = False) -> Collected:
        """
        Remove all rows that no revision of any name needs.

        O(revisions), during which no other save waits; then saves wait while the
        garbage is removed.

        Args:
            vacuum: Rewrite the file, so that it is as small as possible and has
                nothing that was removed or erased. Needs as much space again,
                and other saves wait.

        Raises:
            StoreError: If something that is needed is damaged, and nothing was removed;
                or if others block *vacuum*, which can be tried again: the garbage was
                removed.
        """
        return collect_garbage(self._cache, vacuum=vacuum)

    acollect_garbage = async_twin(collect_garbage)

    def erase(self, entry_id: str, *, reason: str) -> Receipt:
        """
        Replace the content of an entry by a tombstone, in every state that has it.

        The tombstone has the entry's role, its run, turn and time, the ids of
        calls and results, *reason*, and the digest of what was there: digests
        of all states stay what they are. What was erased is not written again,
        from whatever state still has it. O(rows of the store): every message
        is looked at. Once more does nothing, and gives the same receipt. Of an
        entry that came in as a tombstone, the receipt has the reason that it
        brought, and no rows.

        A failure after it is done is not an error: `Receipt.remains` says why a
        copy may remain in a file for a while.

        Raises:
            NotSavedError: If no saved state ever had the entry.
        """
        check_name(reason, "reason")
        return erase(self._cache, entry_id, reason)

    aerase = async_twin(erase)

    def _make_step(self, name: str, label: str) -> PipelineStep:
        check_not_mirrored(self._cache.url, check_name(name))
        return PipelineStep(self._cache, name, check_name(label, "label"))

    def _make_step_from(self, ref: StateRef, label: str) -> PipelineStep:
        check_ref(ref)
        with self._cache.read() as transaction:
            head = find_head(transaction, ref)

        return attrs.evolve(self._make_step(head.name, label), at=head)

    def _make_update_error(self, name: str) -> StoreError:
        times = f"{UPDATE_ATTEMPTS:,} conflicting saves"
        advice = "check that the function itself saves nothing under this name"
        what = f"gave up on updating {name!r} after {times}; retry, and {advice}"
        return StoreError(self.url, what)

    def _is_newest(self, head: Head) -> bool:
        try:
            return is_expected(self.latest(head.name), head)
        except NotSavedError:
            return False

    def _read_for_update(
        self, name: str, start: Aggregator | None
    ) -> tuple[Head | int, Aggregator]:
        # What an update expects to replace, and the state it begins with.
        try:
            with self._cache.read() as transaction:
                newest = _load.load_newest(transaction, name)
        except NotSavedError as error:
            if start is None:
                error.add_note(
                    "to begin the name: update(name, function, start=Aggregator.new())"
                )
                raise

            return 0, start

        return newest.head, newest.state

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
        again, it moves. O(the labels of that revision), which the head has.

        Args:
            name: The name.
            label: The label.
            at: The revision; None for the head.
            expecting: The head that the name must still have, or the number of its
                revision, whichever revision is labelled. None takes any.

        Raises:
            NotSavedError: If there is no revision like that.
            StaleHeadError: If the head is another. Nothing was labelled.
        """
        check_at(check_name(name), at)
        check_name(label, "label")
        check_expecting(name, expecting)
        return self._cache.write(label_revision, name, label, at, expecting)

    alabel = async_twin(label)

    def unlabel(self, name: str, label: str) -> Head:
        """
        Remove a label; the revision that it pointed to, which stays.

        Raises:
            NotSavedError: If there is no such label.
        """
        check_name(name)
        check_name(label, "label")

        def remove(transaction: Transaction) -> Head:
            return remove_label(transaction, transaction.get_name(name), label)

        return self._cache.write(remove)

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
            NotSavedError: If nothing is saved under the name, or there is no such
                revision.
            StaleHeadError: If the head is another. Nothing was noted.
            ValueError: If *notes* is not a mapping of texts to JSON values, or if there
                would be too many.
        """
        check_at(check_name(name), at)
        changes = freeze_map(notes, "notes")
        check_expecting(name, expecting)

        return self._cache.write(annotate, name, changes, at, expecting)

    aannotate = async_twin(annotate)

    def notes(self, name: str, *, at: At = None) -> Mapping[str, Any]:
        """
        The notes on a name, or on the revision *at*. One row is read.

        Raises:
            NotSavedError: If nothing is saved under the name, or there is no such
                revision.
        """
        check_at(check_name(name), at)
        with self._cache.read() as transaction:
            return unpack_notes(find_annotated(transaction, name, at).notes)

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
            NotSavedError: If there is no revision like that.
            StaleHeadError: If the head is not the one that is expected. Nothing was
                written.
            StoreError: If the store can't be written. Nothing was.
        """
        check_not_mirrored(self._cache.url, name)
        if to is None:
            raise TypeError(
                "to is None; expected a revision's number, a label or a Head"
            )

        check_at(check_name(name), to)
        check_expecting(name, expecting)

        return self._cache.write(go_back, name, to, expecting)

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
            NotSavedError: If there is no state like that.
            StaleHeadError: If *new_name* is there already, or the head of *name* is
                another; `StaleHeadError.name` says which. Nothing was written.
        """
        check_not_mirrored(self._cache.url, new_name)
        check_at(check_name(name), at)
        check_name(new_name, "new_name")
        check_expecting(name, expecting)
        return self._cache.write(fork_name, name, new_name, at, expecting)

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
            NotSavedError: If nothing is saved under it.
            StaleHeadError: If the head is another. Nothing was deleted.
        """
        check_name(name)
        check_expecting(name, expecting)
        self._cache.write(delete_name, name, expecting)

    adelete = async_twin(delete)


def _read_named_head(row: Row) -> NamedHead:
    newest = read_newest(row)
    return NamedHead(newest.head(), unpack_notes(newest.name.notes))


def _find_text_after(prefix: str) -> str | None:
    """The least text after all that begin with *prefix*; None if no text is."""
    stem = prefix.rstrip(chr(sys.maxunicode))
    if not stem:
        return None

    # Halves of surrogate pairs, from U+D800 on, are in no text.
    last = ord(stem[-1]) + 1
    return stem[:-1] + chr(0xE000 if last == 0xD800 else last)  # noqa: PLR2004 - as above


def restore(
    backup: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    replace: bool = False,
) -> Path | None:
    """
    Put a copy of a *backup*, or of any file of a store, at *path*.

    A log that stands beside *path* is never applied to it. *backup* stays as it is.

    Args:
        backup: The file that `Store.backup` made.
        path: The file to open afterwards.
        replace: What is at *path* is kept, with its log, under another name.

    Returns:
        Where that is; None if nothing was there.

    Raises:
        StoreError: If something is at *path* and *replace* is false; if it is open in
            this process or another one; or if *backup* is damaged, or no store. Nothing
            was changed then.
    """
    try:
        return restore_file(backup, path, replace=replace)
    except OSError as error:
        raise StoreError(shorten_repr(str(path)), str(error)[:200]) from error


_LISTED = "store.names() lists the names, and store.heads() what is under them"
_CHANGED = "store.update(name, function) loads, changes and saves"
add_missing_names(
    Store,
    "a Store has",
    {
        **dict.fromkeys(("get", "read", "open"), "store.load(name, default=None)"),
        **dict.fromkeys(("list", "keys", "items", "all", "list_names"), _LISTED),
        **dict.fromkeys(("put", "set", "write", "add", "create"), "save"),
        **dict.fromkeys(("modify", "transaction", "mutate"), _CHANGED),
        **dict.fromkeys(("remove", "drop", "pop"), "delete"),
        **dict.fromkeys(("versions", "revisions", "log"), "history"),
        **dict.fromkeys(("exists", "has", "contains"), "name in store says it"),
        **dict.fromkeys(("head", "newest"), "latest"),
        "commit": "a save is committed when it returns",
        **dict.fromkeys(("undo", "restore", "revert"), "rollback"),
    },
)


def open_store(url: str | os.PathLike[str], *, remembered: int = 100) -> Store:
    """
    The store at *url*; made if it is not there yet.

    - ``chats.db``, or any other text that does not begin as a URL, is the path of a
      file; so is a `pathlib.Path`. Text with options, such as ``chats.db?mode=ro``, is
      refused: only a URL has options.
    - ``memory:`` is new each time, and gone with the program.
    - ``sqlite:///chats.db`` is a file in the current folder, and
      ``sqlite:////srv/chats.db`` one by its full path; ``%`` and two digits
      stand for what URLs can't hold. After a ``?`` it takes *synchronous*
      (``normal`` or ``full``: see `docs/store.md`), *timeout_s* (how long to
      wait for other processes, 30 by default), *mode* (``ro`` only reads) and
      *access* (whose a new file is: ``private``, its user's alone, or ``shared``, as
      the umask says).
    - ``postgresql+psycopg://user:password@host/database`` is a schema in a
      PostgreSQL server (extra ``postgres``). After a ``?`` it takes *schema*,
      *pool_size*, *timeout_s*, *synchronous_commit*, *mode*, *prepared* (see
      `docs/store.md`) and whatever libpq knows. The password may be left to
      the places where libpq looks for it.

    Args:
        url: Where it is.
        remembered: The newest states of how many names stay in memory.

    Raises:
        StoreError: If it can't be opened, or *url* is not one of these.
        MissingExtraError: If it needs a package that is not installed.
    """
    if isinstance(remembered, bool) or not isinstance(remembered, int):
        raise TypeError(
            "remembered: expected a number of names, at least 0, got "
            f"{shorten_repr(remembered)}"
        )

    return Store(open_backend(url), remembered=remembered)
