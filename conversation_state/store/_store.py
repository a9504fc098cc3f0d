"""
The store: its verbs, and their twins for event loops.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, Self, TypeVar, overload

from conversation_state._persistent import check_text, freeze_map
from conversation_state._waiting import async_twin, run_in_anyio_thread
from conversation_state.aggregator import Aggregator
from conversation_state.errors import NotSavedError, StaleHeadError, StoreError
from conversation_state.store import (
    _load,
    _load_timelines,
    _maintenance,
    _revisions,
    _save,
    _timelines,
    _verify,
)
from conversation_state.store._append import Extras
from conversation_state.store._steps import PipelineStep
from conversation_state.store._transaction import Core
from conversation_state.store._values import (
    At,
    Collected,
    Damage,
    Head,
    NamedHead,
    Receipt,
    Window,
    check_at,
    check_count,
    check_expecting,
    check_name,
    check_not_mirrored,
    check_notes,
)
from conversation_state.store.backend import Backend
from conversation_state.store.schema import pack_notes
from conversation_state.timeline import Timeline
from conversation_state.tree import MessageTree

__all__ = ["Store"]

# How often an update is begun: where sixteen processes write one name all the
# time, one of them in 10**28 gives up.
UPDATE_ATTEMPTS = 1000

_NONE: Mapping[str, Head | int] = MappingProxyType({})

# None is a default that may be asked for.
_NO_DEFAULT: Any = object()

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
    >>> talk = Aggregator.new().add_user_prompt("Hi!")
    >>> store.save("greeting", talk).revision
    1
    >>> _ = store.save("greeting", talk.add_assistant_message("Hello."))
    >>> store.load("greeting", at=1) == talk
    True
    """

    def __init__(self, backend: Backend, *, remembered: int = 100) -> None:
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

    @property
    def url(self) -> str:
        """
        The URL of the store, without any password.
        """
        return self._core.url

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
        state before it had, and one of 70 bytes for the revision. The very
        state that is the head writes nothing. Atomic: killed at any moment,
        the store has the state or the one before it.

        Args:
            name: 1 to 500 characters.

            state: The state.

            expecting: The head that is to be replaced, or the number of its
                revision; 0 if the name is to be new. None takes any head of
                which *state* holds everything, in its order. A head that is
                replaced is replaced with its ledger: to go back to an earlier
                state there is `rollback`, which keeps it.

            label: A label that is to point to this revision; see `label`.

            notes: Notes on this revision, such as the commit of the code that made
                it. Where *state* is the head already they are merged with those on
                that one; see `annotate`.

        Raises:
            StaleHeadError:
                If the head is another. Nothing was written.

            MirroredNameError:
                If the name is of a host that would not read it: a thread of
                LangGraph's. Nothing was written.

            StoreError:
                If the store can't be written. Nothing was.
        """
        check_not_mirrored(self.url, name)
        extras = Extras(label)
        if notes is not None:
            given = freeze_map(notes, "notes")
            removed = [key for key, value in given.items() if value is None]
            packed = pack_notes(check_notes(given))
            extras = Extras(label, notes=packed, removed=tuple(removed))

        return _save.save(self._core, name, state, expecting, extras)

    asave = async_twin(save)

    def save_all(
        self,
        states: Mapping[str, Aggregator],
        *,
        expecting: Mapping[str, Head | int] = _NONE,
    ) -> dict[str, Head]:
        """
        Make each of *states* the head of its name, or none of them; the heads.

        Atomic as one `save` is: for what belongs together under several names.

        Args:
            states: The states, by name.

            expecting: The heads that are to be replaced, as `save` takes them,
                of some names or all.

        Raises:
            StaleHeadError:
                If a head is another. Nothing was written.

            StoreError:
                If the store can't be written. Nothing was.
        """
        for name in states:
            check_not_mirrored(self.url, name)

        return _save.save_all(self._core, states, expecting)

    asave_all = async_twin(save_all)

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
                If there is none like that.
        """
        check_at(check_name(name), at)
        if last is not None:
            check_count(last, "last", "how many messages to load")

        with self._core.read() as transaction:
            if default is not _NO_DEFAULT and transaction.find_name(name) is None:
                return default

            if last is None:
                return _load.load(transaction, name, at)

            return _load.load_window(transaction, name, at, last)

    aload = async_twin(load)

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
        holds the whole conversation so far. Any error of its own, with the newest
        state, ends the update.

        Args:
            name: What the state is saved under.

            function: Makes the next state.

            start: What it is given if nothing is saved yet.

        Raises:
            NotSavedError:
                If nothing is saved under the name, and *start* is None.

            StoreError:
                If other saves came first a thousand times, or saves of the
                function itself.
        """
        made: Aggregator | None
        remembered = self._core.recall(check_name(name), self._core.changes)
        for _ in range(UPDATE_ATTEMPTS):
            if remembered is None:
                expecting, state = self._read_for_update(name, start)
                made = function(state)
            else:
                # Not read again: if another save came first, this one is refused.
                expecting, made = remembered.head, None
                with suppress(Exception):  # it may come of what is outdated
                    made = function(remembered.state)

                remembered = None
                if made is None:
                    continue

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
        """
        The async twin of `update`: *function* is async, too, and runs here.
        """
        check_name(name)
        for _ in range(UPDATE_ATTEMPTS):
            read = partial(self._read_for_update, name, start)
            expecting, state = await run_in_anyio_thread(read)
            made = await function(state)
            with suppress(StaleHeadError):
                await self.asave(name, made, expecting=expecting)
                return made

        raise self._make_update_error(name)

    def step(
        self, name: str, label: str, function: Callable[[Aggregator], Aggregator]
    ) -> Aggregator:
        """
        The state under *label*; if there is none, what *function* makes of the
        newest state, saved under it.

        So a program that was killed is run again as it is: each step that was
        saved is not done, nor billed, again. Only its state is read.

        If another save comes first, what *function* made is joined to it, and not
        made again. If that was the same step, its state counts; the ledger has
        the usage of both.

        If *function* fails, nothing is under the label, and what it gave to
        `conversation_state.save_progress` until then is in the ledger. What it
        spends beside that before the process is killed is in no ledger: let a step
        be one request.

        An interrupt (Ctrl-C) after *function* has returned is raised when what it
        made is saved. One that comes with its last instruction is an interrupt of
        *function*.

        Args:
            name: What the states are saved under. Nothing needs to be there.

            label: The step, one of each name; see `label`. `unlabel` lets it be
                done again.

            function: Makes the next state of the newest one, or of an empty one.
                What it leaves out of the ledger stays there.

        Raises:
            TypeError:
                If *function* returns something else.

            MirroredNameError:
                If the name is of a host that would not read it.

            NotSavedError:
                If the name was deleted while *function* ran: nothing is saved, and
                a note has its usage. If *function* fails, too, its error is
                raised, and has that note.

            StoreError:
                If the store can't be written, and the step has to be done again.
        """
        return self._make_step(name, label).run(function)

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
        return await step.arun(function, run_in_anyio_thread)

    def _make_step(self, name: str, label: str) -> PipelineStep:
        check_not_mirrored(self.url, check_name(name))
        return PipelineStep(self._core, name, check_name(label, "label"))

    def _make_update_error(self, name: str) -> StoreError:
        times = f"{UPDATE_ATTEMPTS:,} conflicting saves"
        advice = "check that the function itself saves nothing under this name"
        what = f"gave up on updating {name!r} after {times}; retry, and {advice}"
        return StoreError(self.url, what)

    def _read_for_update(
        self, name: str, start: Aggregator | None
    ) -> tuple[Head | int, Aggregator]:
        """
        What an update expects to replace, and the state it begins with.
        """
        try:
            with self._core.read() as transaction:
                newest = _load.load_newest(transaction, name)
        except NotSavedError:
            if start is None:
                raise

            return 0, start

        return newest.head, newest.state

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
        more after an `undo`. Atomic, as `save` is. States of moments that the
        timeline forgot, or amended, stay revisions. A *filter* is not kept.

        Args:
            name: 1 to 500 characters.

            timeline: A timeline of states.

            expecting: The head that is to be replaced, or the number of its revision;
                0 if the name is to be new. None takes any head, if the timeline has
                every moment that is saved, as it was: committed on, and not amended,
                nor with another label.

        Raises:
            StaleHeadError:
                If the head is another. Nothing was written.

            TypeError:
                If a state is no Aggregator.

            ValueError:
                If the limit is 2⁶³ or more.

            StoreError:
                If the store can't be written. Nothing was.
        """
        check_not_mirrored(self.url, name)
        check_name(name)
        if not isinstance(timeline, Timeline):
            msg = f"timeline: expected a Timeline, got a {type(timeline).__name__}"
            raise TypeError(msg)

        if expecting is not None:
            check_expecting(name, expecting)

        return _timelines.save_timeline(self._core, name, timeline, expecting)

    asave_timeline = async_twin(save_timeline)

    def _load_each(self, name: str, heads: Iterable[Head]) -> dict[int, Aggregator]:
        """
        The states of revisions, the newest first, by their numbers.
        """
        with self._core.read() as transaction:
            return _load.load_each(transaction, name, heads)

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
            return _load_timelines.load_timeline(transaction, name)

    aload_timeline = async_twin(load_timeline)

    def latest(self, name: str, *, at: At = None) -> Head:
        """
        Which state a name stands at now, or stood *at*. One row is read.

        Raises:
            NotSavedError:
                If there is none like that.
        """
        check_at(check_name(name), at)
        with self._core.read() as transaction:
            return _load.latest(transaction, name, at)

    alatest = async_twin(latest)

    def __contains__(self, name: str) -> bool:
        """
        Whether anything is saved under *name*. One row is read.
        """
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
                If one of them is no text, or *limit* is no number from 0 on.

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
        with self._core.read() as transaction:
            return _load.list_heads(transaction, prefix, after, limit)

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
            return _load.history(transaction, name, before, limit)

    ahistory = async_twin(history)

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

    def label(self, name: str, label: str, *, at: At = None) -> Head:
        """
        Make *label* point to a revision: the head, or the one *at*.

        Any number of labels point to one revision, and none is lost by another
        one, nor by any save. A label points to one revision of a name: given
        again, it moves.

        Raises:
            NotSavedError:
                If there is no revision like that.
        """
        check_at(check_name(name), at)
        check_name(label, "label")
        return self._core.write(
            lambda transaction: _revisions.label(transaction, name, label, at)
        )

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
        return self._core.write(
            lambda transaction: _revisions.unlabel(transaction, name, label)
        )

    aunlabel = async_twin(unlabel)

    def annotate(
        self, name: str, notes: Mapping[str, Any], *, at: At = None
    ) -> Mapping[str, Any]:
        """
        Note something on a name, or on the revision *at*; all notes that it has then.

        Notes are a small JSON map, at most 16 KiB: a title, a user, tags. Each key
        that is given is set, or removed if its value is None; others stay. Nothing
        of the conversation changes, and no save loses them: those on a name stay
        until it is deleted, those on a revision are `Head.notes`. A fork has none.

        Raises:
            NotSavedError:
                If nothing is saved under the name, or there is no such revision.

            ValueError:
                If *notes* are no mapping of texts to JSON values, or if there would
                be too many.
        """
        check_at(check_name(name), at)
        changes = freeze_map(notes, "notes")
        return self._core.write(
            lambda transaction: _revisions.annotate(transaction, name, changes, at),
            reports_damage=False,
        )

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
            return _revisions.read_notes(transaction, name, at)

    anotes = async_twin(notes)

    def rollback(
        self,
        name: str,
        to: int | str | Head,
        *,
        expecting: Head | int | None = None,
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
        check_not_mirrored(self.url, name)
        if to is None:
            msg = "to is None; expected a revision's number, a label or a Head"
            raise TypeError(msg)

        check_at(check_name(name), to)
        if expecting is not None:
            check_expecting(name, expecting)

        return _revisions.rollback(self._core, name, to, expecting)

    arollback = async_twin(rollback)

    def fork(self, name: str, new_name: str, *, at: At = None) -> Head:
        """
        Save a fork of a state as *new_name*: a state with an id of its own and
        the same past. Three rows, however long that is.

        The past is that of the state: a fork *at* an earlier revision has the
        ledger of that revision, and what was spent since is in the ledger of
        *name*. `conversation_state.total_usage` says what both cost together.

        Raises:
            NotSavedError:
                If there is no state like that.

            StaleHeadError:
                If *new_name* is there already.
        """
        check_not_mirrored(self.url, new_name)
        check_at(check_name(name), at)
        check_name(new_name, "new_name")
        return self._core.write(
            lambda transaction: _revisions.fork(transaction, name, new_name, at)
        )

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
        if expecting is not None:
            check_expecting(name, expecting)

        self._core.write(
            lambda transaction: _revisions.delete(transaction, name, expecting)
        )

    adelete = async_twin(delete)

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
            StoreError:
                If something that is needed is damaged, and nothing was removed;
                or if others block *vacuum*, which can be tried again: the
                garbage was removed.
        """
        return _maintenance.collect_garbage(self._core, vacuum=vacuum)

    acollect_garbage = async_twin(collect_garbage)

    def erase(self, entry_id: str, *, reason: str) -> Receipt:
        """
        Replace what an entry says by a tombstone, in every state that has it.

        The tombstone has the entry's role, its run, turn and time, the ids of
        calls and results, *reason*, and the digest of what was there: digests
        of all states stay what they are. What was erased is not written again,
        from whatever state still has it. O(rows of the store): every message
        is looked at. Once more does nothing, and gives the same receipt. Of an
        entry that came in as a tombstone, the receipt has the reason that it
        brought, and no rows.

        Whatever comes after it is done is no error: `Receipt.remains` says why a
        copy may remain in a file for a while.

        Raises:
            NotSavedError:
                If no saved state ever had the entry.
        """
        check_name(reason, "reason")
        return _maintenance.erase(self._core, entry_id, reason)

    aerase = async_twin(erase)

    def verify(self) -> tuple[Damage, ...]:
        """
        Everything that differs from what was saved; () if nothing does.

        Computes every digest again. O(rows of the store).
        """
        return _verify.verify(self._core)

    averify = async_twin(verify)

    def close(self) -> None:
        """
        Close files and connections. Idempotent.
        """
        self._core.forget()
        self._core.backend.close()

    aclose = async_twin(close)

    def __reduce__(self) -> Any:
        msg = f"a store can't be pickled; open {self.url} where it is needed"
        raise TypeError(msg)
