"""The state, and what can be kept of one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

import attrs

from conversation_state._identity import new_uuid_number, number_of_uuid
from conversation_state._persistent import Log, check_text, final
from conversation_state._wording import (
    format_count,
    shorten_repr,
)
from conversation_state.aggregator._entries import (
    EMPTY_LEDGER,
    EMPTY_LOG,
    NOTHING,
    Entry,
    Ledger,
    LedgerEntry,
    Messages,
    Union,
    describe_mismatch,
)
from conversation_state.aggregator._growing import GrowingState
from conversation_state.aggregator._value import StateOrigin, Turn
from conversation_state.messages import Message
from conversation_state.pickling import Maker
from conversation_state.usage import Usage

if TYPE_CHECKING:
    from uuid import UUID


_make = tuple.__new__
_new = object.__new__


@final
class Aggregator(GrowingState):
    """
    The state of a conversation: its entries and the ledger of what they cost.

    A value: every verb gives a new state and leaves this one as it was. Equal
    by id, fork point, ledger, and content *and* identity of entries; hashable;
    picklable.

    Costs, up to a million messages: `add` one to three microseconds and 300
    bytes for each state that is kept, `fork` and `checkpoint` less; `join`
    grows with what both sides added since they diverged.

    Made by `Aggregator.new`.

    >>> chat = Aggregator.new().add_user_prompt("Hi!")
    >>> one = chat.fork().add_assistant_message("Hello.")
    >>> two = chat.fork().add_assistant_message("Good day.")
    >>> both = chat.join(one, two)
    >>> [message.text for message in both]
    ['Hi!', 'Hello.', 'Good day.']
    >>> both.join(one) is both
    True
    >>> len(chat)
    1
    """

    __slots__ = ()

    def __init__(self) -> None:
        raise TypeError("make states with Aggregator.new(), state.fork() or decode")

    @classmethod
    def new(
        cls, messages: Iterable[Message] = (), *, id: UUID | None = None
    ) -> Aggregator:
        """
        A state without a past.

        Args:
            messages: The messages it starts with.

            id: The state's id; a new UUID of version 7 if it is None.

        Raises:
            InvalidMessageError:
                If *messages* holds something else.

            TypeError:
                If *id* is not a UUID.
        """
        number = new_uuid_number() if id is None else number_of_uuid(id)
        origin = StateOrigin(number, None, number, 0, 0, NOTHING)
        empty = _make_state(origin, EMPTY_LEDGER, EMPTY_LOG)
        return empty._extend(messages, "Aggregator.new")

    @classmethod
    def rebuild(
        cls,
        *,
        id: UUID,
        parent_id: UUID | None,
        root_id: UUID | None,
        init_len: int,
        init_ledger_len: int,
        entries: Sequence[Entry],
        ledger: Sequence[LedgerEntry],
    ) -> Aggregator:
        """
        A state made of all its fields, for decoders and loaders.

        O(log n) if *entries* and *ledger* are logs, which other states may share, and
        O(the ledger entries since a state of that ledger was made here before). Checks
        neither that they hold entries, nor that each identity is there once.

        Raises:
            ValueError:
                If a fork point lies outside of what there is.

            InvalidUsageError:
                If the ledger adds up to more than 2**63 - 1 tokens.
        """
        log, ledger_log = EMPTY_LOG.extend(entries), EMPTY_LEDGER.entries.extend(ledger)
        for name, at, most in (
            ("init_len", init_len, len(log)),
            ("init_ledger_len", init_ledger_len, len(ledger_log)),
        ):
            if not 0 <= at <= most:
                shown = shorten_repr(at)
                raise ValueError(
                    f"{name} is {shown}; expected 0 to {most}, the entries there are"
                )

        inherited = NOTHING
        if init_ledger_len:
            inherited = Ledger.of(ledger_log.take(init_ledger_len)).total

        parent = None if parent_id is None else parent_id.int
        # Some formats, such as Bubo's, name a parent but no root.
        first = id.int if parent is None else parent
        root = first if root_id is None else root_id.int
        origin = StateOrigin(id.int, parent, root, init_len, init_ledger_len, inherited)
        return _make_state(origin, Ledger.of(ledger_log), log)

    def fork(self, *, at: int | None = None) -> Aggregator:
        """
        A new state with the same past, which it inherits.

        Args:
            at: Fork from the first *at* messages instead of all of them. The
                whole ledger is inherited all the same.

        Raises:
            IndexError:
                If *at* is outside 0 to ``len(self)``.
        """
        log = self._log
        if at is not None:
            self._check_position("fork at", index(at))
            log = log.take(index(at))

        ledger, origin = self._ledger, self._origin
        # The total is kept, because an earlier ledger can be looked up in the log, but
        # its total could only be added up again.
        inherited = len(log), len(ledger.entries), ledger.total
        fork = _make(
            StateOrigin, (new_uuid_number(), origin.number, origin.root, *inherited)
        )
        return _make_state(fork, ledger, log)

    def rollback(self, to: Aggregator | Checkpoint | str | int) -> Aggregator:
        """
        An earlier state, with everything that was recorded in the ledger since.

        Going back does not bring the money back: the result has the messages
        of *to*, and the ledger entries of both. This state stays as it was, so
        what is left behind can still be reached from it.

        Args:
            to: A state or a checkpoint, whose id and fork point the result
                has; or a place in this state, whose id and fork point stay:
                the identity of the last entry to keep, or the number of
                messages to keep.

        Returns:
            *to* itself if it has the whole ledger already.

        Cost: O(log n) and what both recorded since they parted; O(n) for the
        identity of an entry.

        Raises:
            IndexError:
                If *to* is a number outside 0 to ``len(self)``.

            LookupError:
                If no entry of this state has the identity *to*, as for a label:
                keep the checkpoint, or ask the store.

            ValueError:
                If *to* is a state that has nothing in common with this one.

            TypeError:
                If *to* is something else.

        >>> start = Aggregator.new().add_user_prompt("Book it.")
        >>> wrong = start.add_assistant_message("Booked twice.").add_usage(Usage(1500))
        >>> again = wrong.rollback(start)
        >>> len(again), again.total_usage.total_tokens
        (1, 1500)
        """
        if isinstance(to, Checkpoint):
            to = to.state

        if isinstance(to, Aggregator):
            if not self.is_related_to(to):
                raise ValueError(
                    f"can't roll back from {self!r} to {to!r}: they have no entry in "
                    "common; a state can go back to one that it grew from, or that "
                    "grew from the same state"
                )

            # The joined state has no messages, because the rollback discards those
            # after *to*.
            return to.join(_make_state(self._origin, self._ledger, EMPTY_LOG))

        if isinstance(to, str):
            return self._with_first(self._position_after(to))

        if not isinstance(to, SupportsIndex):
            expected = "a state, a Checkpoint, an entry's id or a number of messages"
            raise TypeError(describe_mismatch("rollback", expected, to))

        self._check_position("roll back to", index(to))
        return self._with_first(index(to))

    def before(self, entry_id: str) -> Aggregator:
        """
        This state without the entry *entry_id* and all after it.

        The whole ledger stays, as in `rollback`. Regenerating an answer,
        editing a prompt and trying again start here. O(n) to find the entry.

        Raises:
            LookupError:
                If no entry of this state has that identity.
        """
        return self._with_first(self._position_after(entry_id) - 1)

    def _check_position(self, verb: str, position: int) -> None:
        if not 0 <= position <= len(self._log):
            messages = format_count(len(self._log), "message")
            raise IndexError(
                f"can't {verb} {shorten_repr(position)}: this state has {messages}"
            )

    def _position_after(self, entry_id: str) -> int:
        left = len(self._log)
        for entry in reversed(self._log):
            if entry.id == entry_id:
                return left

            left -= 1

        shown = shorten_repr(entry_id)
        raise LookupError(
            f"no entry of this state has the identity {shown}; state.entries lists "
            "them. If it is a label: a state does not know its checkpoints; keep one, "
            f"kept = state.checkpoint({shown}), for state.rollback(kept), or ask the "
            f"store that saved it, state.rollback(store.load(name, at={shown}))"
        )

    def _with_first(self, count: int) -> Aggregator:
        if count == len(self._log):
            return self

        origin = self._origin
        if count < origin.init_len:
            # Back before its fork, it inherits only the entries that are left.
            origin = origin._replace(init_len=count)

        return _make_state(origin, self._ledger, self._log.take(count))

    def join(self, *others: Aggregator | Turn) -> Aggregator:
        """
        The ordered union of this state and *others*, by identity.

        All of this state in its order, then what the next one has and this one
        lacks, in that one's order, and so on; the ledger likewise. Id and fork
        point are this state's. What is already there is not added again, so
        joining one state twice, or over several branches, changes nothing; if
        nothing is new, this state itself is returned. Where two sides hold
        different entries under one identity, that of this state is kept.

        Cost: what both sides added since they diverged; O(n) with a state or
        turn that was decoded or unpickled.

        Raises:
            TypeError:
                If something else is given.

            InvalidUsageError:
                If the total gets over 2**63 - 1.
        """
        log, ledger_log = Union(self._log), Union(self._ledger.entries)
        for other in others:
            if isinstance(other, Aggregator):
                log.add(other._log)
                ledger_log.add(other._ledger.entries)
            elif isinstance(other, Turn):
                log.add_new(other.entries, other.base_log())
                ledger_log.add_new(other.ledger, other.base_ledger())
            else:
                expected = "Aggregators and Turns (a Checkpoint has merge_into)"
                raise TypeError(describe_mismatch("join", expected, other))

        ledger = self._ledger
        if ledger_log.log is not ledger.entries:
            # A union begins with the log it was made for, so all that is new is behind
            # this state's own entries, whose total is known.
            new = [entry.usage for entry in ledger_log.log.iterate(len(ledger.entries))]
            ledger = Ledger(ledger_log.log, sum(new, ledger.total))

        if log.log is self._log and ledger is self._ledger:
            return self

        return _make_state(self._origin, ledger, log.log)

    def checkpoint(self, label: str = "") -> Checkpoint:
        """
        This state, kept under a *label*.

        Raises:
            TypeError:
                If *label* is not text.
        """
        return Checkpoint(self, label)

    def __reduce__(self) -> tuple[Any, ...]:
        return _STATE, (self._origin, self._ledger, self._log)


def _make_state(origin: StateOrigin, ledger: Ledger, log: Log[Entry]) -> Aggregator:
    state = _new(Aggregator)
    state._origin = origin
    state._ledger = ledger
    state._log = log
    return state


_STATE = Maker("aggregator.Aggregator", _make_state)


def join(first: Aggregator, *others: Aggregator | Turn) -> Aggregator:
    """The ordered union of states: ``first.join(*others)``."""
    if not isinstance(first, Aggregator):  # a list of states, most likely
        raise TypeError(describe_mismatch("join", "Aggregators", first))

    return first.join(*others)


@final
@attrs.frozen
class Checkpoint:
    """
    A state with a label, to go back to.

    Attributes:
        state: The state.

        label: Its label; not unique.

    >>> chat = Aggregator.new().add_user_prompt("Book it.")
    >>> saved = chat.checkpoint("before booking")
    >>> gone_wrong = chat.add_assistant_message("Done. Twice.")
    >>> saved.restore() == chat
    True
    >>> len(gone_wrong.rollback(saved))
    1
    """

    state: Aggregator
    label: str = ""

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.state, Aggregator):
            raise TypeError(
                describe_mismatch("a Checkpoint", "an Aggregator", self.state)
            )

        label = check_text(self.label, "label", TypeError)
        if label is not self.label:
            object.__setattr__(self, "label", label)

    @property
    def id(self) -> UUID:
        """The id of the state."""
        return self.state.id

    @property
    def messages(self) -> Messages:
        """Its messages."""
        return self.state.messages

    @property
    def usage(self) -> Usage:
        """The usage recorded since the fork."""
        return self.state.usage

    def restore(self) -> Aggregator:
        """
        The state, as it was, with the ledger it had then. O(1).

        Use ``state.rollback(checkpoint)`` to keep what was recorded since.
        """
        return self.state

    def merge_into(self, target: Aggregator) -> Aggregator:
        """
        *target* with what the state had added since its fork, exactly once.

        The same as ``target.join(checkpoint.state.turn)``, whether or not
        *target* knows the past it was added to.
        """
        if not isinstance(target, Aggregator):
            raise TypeError(describe_mismatch("merge_into", "an Aggregator", target))

        return target.join(self.state.turn)


def ledger_union(*states: Aggregator | Turn | Checkpoint) -> Log[LedgerEntry]:
    """
    The ledger entries of all *states*, each identity once, in order.

    For branches that were not joined: the tips of a timeline, say. Costs what
    the states recorded since they parted. Where two hold different usages
    under one identity, that of the first state stands, as in `join`.

    Raises:
        TypeError:
            If something else is given.
    """
    union = Union(EMPTY_LEDGER.entries)
    for state in states:
        given = state.state if isinstance(state, Checkpoint) else state
        if not isinstance(given, (Aggregator, Turn)):
            expected = "Aggregators, Turns or Checkpoints"
            raise TypeError(describe_mismatch("ledger_union", expected, given))

        union.add(given.ledger)

    return union.log


def total_usage(*states: Aggregator | Turn | Checkpoint) -> Usage:
    """
    What all *states* cost together: the sum over their `ledger_union`.

    O(ledger entries).

    Raises:
        TypeError:
            If something else is given.

        InvalidUsageError:
            If the total is over 2**63 - 1.

    >>> start = Aggregator.new().add_usage(Usage(100))
    >>> first, second = start.add_usage(Usage(5)), start.add_usage(Usage(7))
    >>> total_usage(first, second).total_tokens
    112
    """
    return sum([entry.usage for entry in ledger_union(*states)], NOTHING)
