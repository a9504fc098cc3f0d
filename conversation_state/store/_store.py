"""
The store: its verbs that save, collect and erase, and their twins for event loops.

What does not live here: the verbs of revisions (`_revisions`), and those that only
read (`_reading`).
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from conversation_state._persistent import freeze_map
from conversation_state._waiting import async_twin, run_in_anyio_thread
from conversation_state._wording import describe_type, describe_value, shorten_repr
from conversation_state.aggregator import Aggregator
from conversation_state.errors import NotSavedError, StaleHeadError, StoreError
from conversation_state.store._load import load_newest
from conversation_state.store._maintenance import collect_garbage, erase
from conversation_state.store._revisions import RevisionVerbs
from conversation_state.store._save import save, save_all
from conversation_state.store._steps import PipelineStep
from conversation_state.store._timelines import save_timeline
from conversation_state.store._values import (
    Collected,
    Extras,
    Head,
    Receipt,
    check_expecting,
    check_function,
    check_made,
    check_name,
    check_not_mirrored,
    check_notes,
    is_expected,
    pack_notes,
)
from conversation_state.store.backends import open_backend, restore_file
from conversation_state.timeline import Timeline

# The maximum number of attempts of an update: with sixteen processes that write one
# name all the time, one update in 10**28 gives up.
UPDATE_ATTEMPTS = 1000

_NONE: Mapping[str, Head | int] = MappingProxyType({})


class Store(RevisionVerbs):
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
            StaleHeadError:
                If the head is another. Nothing was written.

            MirroredNameError:
                If the name is of a host that would not read it: a thread of
                LangGraph's. Nothing was written.

            StoreError:
                If the store can't be written. Nothing was.
        """
        check_not_mirrored(self._core.url, name)
        extras = Extras(label)
        if notes is not None:
            given = freeze_map(notes, "notes")
            removed = [key for key, value in given.items() if value is None]
            packed = pack_notes(check_notes(given))
            extras = extras._replace(notes=packed, removed=tuple(removed))

        return save(self._core, name, state, expecting, extras)

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
        if not isinstance(states, Mapping):
            raise TypeError(
                f"states: expected states by name, got {describe_value(states)}"
            )

        for name in states:
            check_not_mirrored(self._core.url, name)

        return save_all(self._core, states, expecting)

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
                If a state is not an Aggregator.

            ValueError:
                If the limit is 2⁶³ or more.

            StoreError:
                If the store can't be written. Nothing was.
        """
        check_not_mirrored(self._core.url, name)
        check_name(name)
        if not isinstance(timeline, Timeline):
            raise TypeError(
                f"timeline: expected a Timeline, got {describe_type(timeline)}"
            )

        check_expecting(name, expecting)
        return save_timeline(self._core, name, timeline, expecting)

    asave_timeline = async_twin(save_timeline)

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
            NotSavedError:
                If nothing is saved under the name, and *start* is None.

            StoreError:
                If other saves came first a thousand times, or saves of the
                function itself.
        """
        check_function(function)
        remembered = self._core.recall(check_name(name), self._core.changes)
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
            check_made(made, is_async=False)
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
            check_made(answer, is_async=True)
            made = await answer
            check_made(made, is_async=False)
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

        An interrupt (Ctrl-C) while what *function* made is saved is raised when that
        is saved. One that comes at the moment when *function* returns, some 50
        microseconds, loses what it made: the next run makes that request, and pays
        for it, again.

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

            InvalidUsageError:
                If *function* recorded two usages under one key, or another one
                under a key of the ledger, which keeps the first. All else that it
                made is saved, under the label.

            StoreError:
                If the store can't be written, and the step has to be done again.
        """
        check_function(function)
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
        return collect_garbage(self._core, vacuum=vacuum)

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
            NotSavedError:
                If no saved state ever had the entry.
        """
        check_name(reason, "reason")
        return erase(self._core, entry_id, reason)

    aerase = async_twin(erase)

    def _make_step(self, name: str, label: str) -> PipelineStep:
        check_not_mirrored(self._core.url, check_name(name))
        return PipelineStep(self._core, name, check_name(label, "label"))

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
            with self._core.read() as transaction:
                newest = load_newest(transaction, name)
        except NotSavedError as error:
            if start is None:
                error.add_note(
                    "to begin the name: update(name, function, start=Aggregator.new())"
                )
                raise

            return 0, start

        return newest.head, newest.state


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
        StoreError:
            If something is at *path* and *replace* is false; if it is open in this
            process or another one; or if *backup* is damaged, or no store. Nothing
            was changed then.
    """
    try:
        return restore_file(backup, path, replace=replace)
    except OSError as error:
        raise StoreError(shorten_repr(str(path)), str(error)[:200]) from error


def open_store(url: str | os.PathLike[str], *, remembered: int = 100) -> Store:
    """
    The store at *url*; made if it is not there yet.

    - ``chats.db``, or any other text that does not begin as a URL, is the path of a
      file; so is a `pathlib.Path`.
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
      `docs/postgres.md`) and whatever libpq knows. The password may be left to
      the places where libpq looks for it.

    Args:
        url: Where it is.

        remembered: The newest states of how many names stay in memory.

    Raises:
        StoreError:
            If it can't be opened, or *url* is not one of these.

        MissingExtraError:
            If it needs a package that is not installed.
    """
    if isinstance(remembered, bool) or not isinstance(remembered, int):
        raise TypeError(
            "remembered: expected a number of names, at least 0, got "
            f"{shorten_repr(remembered)}"
        )

    return Store(open_backend(url), remembered=remembered)
