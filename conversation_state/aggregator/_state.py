"""
The state, and what can be kept or shipped of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import index
from typing import Any, NamedTuple, SupportsIndex, overload
from uuid import UUID

import attrs

from conversation_state._identity import new_entry_id, new_uuid_number
from conversation_state._persistent import Log, check_text
from conversation_state.aggregator._entries import (
    NOTHING,
    UNSAID,
    UNSPENT,
    Entry,
    Ledger,
    LedgerEntry,
    Messages,
    id_of,
    message_of,
)
from conversation_state.aggregator._union import Union
from conversation_state.errors import InvalidMessageError, InvalidUsageError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UserMessage,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

__all__ = ["Aggregator", "Checkpoint", "Turn", "join"]

_make = tuple.__new__
_new = object.__new__


class _Origin(NamedTuple):
    """
    Who a state is, and where it was forked; the same for all it grows into.

    Numbers are UUIDs to be: see `conversation_state._identity`.
    """

    number: int
    parent: int | None
    root: int
    init_len: int
    init_ledger_len: int
    inherited: Usage


class Aggregator:
    """
    The state of a conversation: its entries and the ledger of what they cost.

    A value: every verb gives a new state and leaves this one as it was. Equal
    by id, fork point, ledger, and content *and* identity of entries; hashable;
    picklable.

    Costs, up to a million messages: `add` one to three microseconds and 300
    bytes for each state that is kept, `fork` and `checkpoint` less; `join`
    grows with what both sides said since they parted.

    Made by `Aggregator.new`.

    >>> talk = Aggregator.new().add_user_prompt("Hi!")
    >>> one = talk.fork().add_assistant_message("Hello.")
    >>> two = talk.fork().add_assistant_message("Good day.")
    >>> both = talk.join(one, two)
    >>> [message.text for message in both]
    ['Hi!', 'Hello.', 'Good day.']
    >>> both.join(one) is both
    True
    >>> len(talk)
    1
    """

    __slots__ = ("__weakref__", "_ledger", "_log", "_origin")

    _origin: _Origin
    _ledger: Ledger
    _log: Log[Entry]

    def __init__(self) -> None:
        msg = "make states with Aggregator.new(), state.fork() or decode(data)"
        raise TypeError(msg)

    @classmethod
    def new(
        cls, *, id: UUID | None = None, messages: Iterable[Message] = ()
    ) -> Aggregator:
        """
        A state without a past.

        Args:
            id: The state's id; a new UUID of version 7 if it is None.

            messages: What has been said already.

        Raises:
            InvalidMessageError:
                If *messages* holds something else.

            TypeError:
                If *id* is no UUID.
        """
        number = new_uuid_number() if id is None else _number(id)
        origin = _Origin(number, None, number, 0, 0, NOTHING)
        return _state(origin, UNSPENT, UNSAID).extend(messages)

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
        A state from all that makes it one; what decoding and loading end in.

        O(n).

        Raises:
            ValueError:
                If a fork point lies outside of what there is, or an identity
                occurs twice or is no text.

            InvalidUsageError:
                If the ledger adds up to more than 2**63 - 1 tokens.
        """
        _check_fork(init_len, len(entries), init_ledger_len, len(ledger))
        for name, items in (("entries", entries), ("ledger", ledger)):
            ids = set(map(id_of, items))
            if len(ids) != len(items):
                msg = f"{name} holds an identity more than once"
                raise ValueError(msg)

            if not {*map(type, ids)} <= {str}:
                msg = f"{name} holds an identity that is no text"
                raise ValueError(msg)

        inherited = UNSPENT.with_entries(ledger[:init_ledger_len])
        spent = inherited.with_entries(ledger[init_ledger_len:])
        origin = _origin(id, parent_id, root_id, init_len, inherited)
        return _state(origin, spent, UNSAID.extend(entries))

    @classmethod
    def rebuild_from_logs(
        cls,
        *,
        id: UUID,
        parent_id: UUID | None,
        root_id: UUID | None,
        init_len: int,
        init_ledger_len: int,
        entries: Log[Entry],
        ledger: Log[LedgerEntry],
    ) -> Aggregator:
        """
        The same over logs that other states share, and go on sharing.

        O(log n), and O(what was spent since a state of that ledger was made
        here before). Trusts that no identity is there twice.

        Raises:
            ValueError:
                If a fork point lies outside of what there is.

            InvalidUsageError:
                If the ledger adds up to more than 2**63 - 1 tokens.
        """
        _check_fork(init_len, len(entries), init_ledger_len, len(ledger))
        inherited = Ledger.of(ledger.take(init_ledger_len))
        origin = _origin(id, parent_id, root_id, init_len, inherited)
        return _state(origin, Ledger.of(ledger), entries)

    @property
    def id(self) -> UUID:
        """
        Who this state is: the same for all it grows into, a new one for forks.
        """
        return UUID(int=self._origin.number)

    @property
    def parent_id(self) -> UUID | None:
        """
        The id of the state this was forked from; None for a root.
        """
        parent = self._origin.parent
        return None if parent is None else UUID(int=parent)

    @property
    def root_id(self) -> UUID:
        """
        The id of the state that the first of its forks was taken from.
        """
        return UUID(int=self._origin.root)

    @property
    def init_len(self) -> int:
        """
        How many messages were inherited at the fork; 0 for a root.
        """
        return self._origin.init_len

    @property
    def init_ledger_len(self) -> int:
        """
        How many ledger entries were inherited at the fork; 0 for a root.
        """
        return self._origin.init_ledger_len

    @property
    def turn_len(self) -> int:
        """
        How many messages came since the fork; all of them, for a root.
        """
        return len(self._log) - self._origin.init_len

    @property
    def messages(self) -> Messages:
        """
        What was said, in order. O(1).
        """
        return Messages(self._log)

    @property
    def entries(self) -> Log[Entry]:
        """
        What was said, in order, with the identity of each append. O(1).
        """
        return self._log

    @property
    def ledger(self) -> Log[LedgerEntry]:
        """
        What was spent, in order; what was inherited at the fork included. O(1).
        """
        return self._ledger.entries

    @property
    def usage(self) -> Usage:
        """
        What was spent since the fork; all of it, for a root. O(1).
        """
        inherited = self._origin.inherited
        return self._ledger.total.minus(inherited)

    @property
    def total_usage(self) -> Usage:
        """
        What was spent, what was inherited at the fork included. O(1).
        """
        return self._ledger.total

    @property
    def turn(self) -> Turn:
        """
        What was added since the fork. O(that).
        """
        origin = self._origin
        return Turn(
            origin.number,
            origin.parent,
            self._log[origin.init_len :],
            self._ledger.entries[origin.init_ledger_len :],
            self,
        )

    def add(self, message: Message) -> Aggregator:
        """
        This state with *message* at its end.

        Raises:
            InvalidMessageError:
                If *message* is no `Message`.
        """
        if not isinstance(message, Message):
            raise InvalidMessageError(_not_a("add", "a Message", message))

        state = _new(Aggregator)
        state._origin = self._origin
        state._ledger = self._ledger
        state._log = self._log.append(_make(Entry, (new_entry_id(), message)))
        return state

    def add_user_prompt(self, prompt: str | UserMessage) -> Aggregator:
        """
        This state with a user's *prompt* at its end.

        Raises:
            InvalidMessageError:
                If *prompt* is neither a text nor a `UserMessage`.
        """
        if isinstance(prompt, str):
            prompt = UserMessage(prompt)

        if not isinstance(prompt, UserMessage):
            asked = "a str or a UserMessage"
            raise InvalidMessageError(_not_a("add_user_prompt", asked, prompt))

        return self.add(prompt)

    def add_assistant_message(self, message: str | AssistantMessage) -> Aggregator:
        """
        This state with an assistant's *message* at its end.

        Raises:
            InvalidMessageError:
                If *message* is neither a text nor an `AssistantMessage`.
        """
        if isinstance(message, str):
            message = AssistantMessage(message)

        if not isinstance(message, AssistantMessage):
            asked = "a str or an AssistantMessage"
            raise InvalidMessageError(_not_a("add_assistant_message", asked, message))

        return self.add(message)

    def add_tool_call(self, *calls: ToolCall | AssistantMessage) -> Aggregator:
        """
        This state with one assistant's message that makes *calls* at its end.

        Args:
            *calls: Calls, or one `AssistantMessage` that has some.

        Raises:
            InvalidMessageError:
                If there is no call, or something else is given.
        """
        message = calls[0] if len(calls) == 1 else None
        if not isinstance(message, AssistantMessage):
            for call in calls:
                if not isinstance(call, ToolCall):
                    asked = "ToolCalls, or one AssistantMessage that has some"
                    raise InvalidMessageError(_not_a("add_tool_call", asked, call))

            message = AssistantMessage(tool_calls=calls)  # type: ignore[arg-type]

        if not message.tool_calls:
            msg = (
                "add_tool_call got no calls; use add_assistant_message for a message "
                "without any"
            )
            raise InvalidMessageError(msg)

        return self.add(message)

    def add_tool_response(self, message: ToolMessage) -> Aggregator:
        """
        This state with a tool's result at its end.

        Raises:
            InvalidMessageError:
                If *message* is no `ToolMessage`.
        """
        if not isinstance(message, ToolMessage):
            asked = "a ToolMessage"
            raise InvalidMessageError(_not_a("add_tool_response", asked, message))

        return self.add(message)

    def extend(self, messages: Iterable[Message]) -> Aggregator:
        """
        This state with *messages* at its end; itself if there are none. O(k).

        Raises:
            InvalidMessageError:
                If one of them is no `Message`; none is added then.
        """
        entries = []
        for message in messages:
            if not isinstance(message, Message):
                asked = "Messages"
                raise InvalidMessageError(_not_a("extend", asked, message))

            entries.append(_make(Entry, (new_entry_id(), message)))

        if not entries:
            return self

        return _state(self._origin, self._ledger, self._log.extend(entries))

    def add_usage(
        self, usage: Usage | None, *, key: str | None = None, model: str = ""
    ) -> Aggregator:
        """
        This state with *usage* in its ledger.

        Args:
            usage: What was spent; None, which providers send too, adds nothing.

            key: An identity of your own, a request's id say. The same key is
                paid once, however often it is added, here and after any join.

            model: The model it was spent on.

        Raises:
            InvalidUsageError:
                If *usage* is something else, *key* was paid with another usage
                or for another model, or the total gets over 2**63 - 1.
        """
        if usage is None:
            return self

        if not isinstance(usage, Usage):
            msg = f"add_usage takes a Usage or None, got {usage!r}"
            raise InvalidUsageError(msg)

        check_text(model, "model", InvalidUsageError)
        if key is None:
            key = new_entry_id()
        elif not check_text(key, "key", InvalidUsageError):
            msg = "key is empty; leave it out if this usage has no identity"
            raise InvalidUsageError(msg)
        elif (paid := self._ledger.find(key)) is not None:
            if paid.usage == usage and paid.model == model:
                return self

            msg = (
                f"{key!r} was paid with {paid.usage} for model {paid.model!r} and "
                f"can't be paid with {usage} for model {model!r}; use another key"
            )
            raise InvalidUsageError(msg)

        entry = LedgerEntry(key, usage, model)
        return _state(self._origin, self._ledger.with_entries((entry,)), self._log)

    def fork(self, *, at: int | None = None) -> Aggregator:
        """
        A new state with the same past, which it calls inherited.

        Args:
            at: Fork from the first *at* messages instead of all of them. The
                whole ledger is inherited all the same: what was spent is spent.

        Raises:
            IndexError:
                If *at* is outside 0 to ``len(self)``.
        """
        log = self._log
        if at is not None:
            at = index(at)
            if not 0 <= at <= len(log):
                msg = f"can't fork at {at}: this state has {len(log)} messages"
                raise IndexError(msg)

            log = log.take(at)

        ledger, origin = self._ledger, self._origin
        inherited = len(log), len(ledger.entries), ledger.total
        fork = _make(
            _Origin, (new_uuid_number(), origin.number, origin.root, *inherited)
        )
        return _state(fork, ledger, log)

    def join(self, *others: Aggregator | Turn) -> Aggregator:
        """
        The ordered union of this state and *others*, by identity.

        All of this state in its order, then what the next one has and this one
        lacks, in that one's order, and so on; the ledger likewise. Id and fork
        point are this state's. What is already there is not added again, so
        joining twice, or meeting over several branches, changes nothing; if
        nothing is new, this state itself is returned. Where two sides hold
        different things under one identity, this state's stands.

        Costs what both sides said since they parted, and O(n) with a state or
        turn that was decoded or unpickled.

        Raises:
            TypeError:
                If something else is given.

            InvalidUsageError:
                If the total gets over 2**63 - 1.
        """
        log, spent = Union(self._log), Union(self._ledger.entries)
        for other in others:
            if isinstance(other, Aggregator):
                log.add(other._log)
                spent.add(other._ledger.entries)
            elif isinstance(other, Turn):
                log.add_new(other.entries, other._base_log())
                spent.add_new(other.ledger, other._base_ledger())
            else:
                msg = (
                    "join takes Aggregators and Turns, got a "
                    f"{type(other).__name__}; a Checkpoint has merge_into"
                )
                raise TypeError(msg)

        ledger = self._ledger
        if spent.log is not ledger.entries:
            new = [entry.usage for entry in spent.log.iterate(len(ledger.entries))]
            ledger = Ledger(spent.log, sum(new, ledger.total))

        if log.log is self._log and ledger is self._ledger:
            return self

        return _state(self._origin, ledger, log.log)

    def is_related_to(self, other: Aggregator) -> bool:
        """
        Whether the two have any past in common.

        True if both were forked, over any number of generations, from one
        root, or hold a common entry. O(1) in the first case, else O(n).
        """
        if self._origin.root == other._origin.root:
            return True

        ours = set(map(id_of, self._log))
        return not ours.isdisjoint(map(id_of, other._log))

    def checkpoint(self, label: str = "") -> Checkpoint:
        """
        This state, kept under a *label*.

        Raises:
            TypeError:
                If *label* is no text.
        """
        return Checkpoint(self, label)

    def __len__(self) -> int:
        return len(self._log)

    @overload
    def __getitem__(self, at: SupportsIndex) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> Messages: ...
    def __getitem__(self, at: Any) -> Message | Messages:
        return self.messages[at]  # type: ignore[no-any-return]  # *at* is either

    def __iter__(self) -> Iterator[Message]:
        return map(message_of, self._log)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True

        if not isinstance(other, Aggregator):
            return NotImplemented

        return (
            self._origin == other._origin
            and self._ledger.entries == other._ledger.entries
            and self._log == other._log
        )

    def __hash__(self) -> int:
        # Equal states agree in these; the rest would cost O(n).
        log = self._log
        return hash((self._origin.number, len(log), log[-1].id if log else None))

    def __repr__(self) -> str:
        inherited = f", {self.init_len} inherited" if self.parent_id else ""
        return (
            f"<Aggregator {self.id}: {len(self)} messages{inherited}, "
            f"{self.total_usage.total_tokens:,} tokens spent>"
        )

    def __copy__(self) -> Aggregator:
        return self

    def __deepcopy__(self, _memo: Any) -> Aggregator:
        # Nothing below can change, so there is nothing a copy would be for.
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _state, (self._origin, self._ledger, self._log)


def _state(origin: _Origin, ledger: Ledger, log: Log[Entry]) -> Aggregator:
    state = _new(Aggregator)
    state._origin = origin
    state._ledger = ledger
    state._log = log
    return state


def _check_fork(init_len: int, said: int, init_ledger_len: int, spent: int) -> None:
    for name, at, there in (
        ("init_len", init_len, said),
        ("init_ledger_len", init_ledger_len, spent),
    ):
        if not 0 <= at <= there:
            msg = f"{name} is {at}; there are {there} to fork from"
            raise ValueError(msg)


def _origin(
    id: UUID,
    parent_id: UUID | None,
    root_id: UUID | None,
    init_len: int,
    inherited: Ledger,
) -> _Origin:
    number = _number(id)
    parent = None if parent_id is None else _number(parent_id)
    first = number if parent is None else parent
    root = first if root_id is None else _number(root_id)
    forked = init_len, len(inherited.entries), inherited.total
    return _Origin(number, parent, root, *forked)


def _number(id: object) -> int:
    if not isinstance(id, UUID):
        msg = f"id is {id!r}; expected a uuid.UUID or None"
        raise TypeError(msg)

    return id.int


def _not_a(verb: str, asked: str, given: object) -> str:
    return f"{verb} takes {asked}, got a {type(given).__name__}: {given!r:.80}"


def join(first: Aggregator, *others: Aggregator | Turn) -> Aggregator:
    """
    The ordered union of states: ``first.join(*others)``.
    """
    return first.join(*others)


@attrs.frozen(repr=False)
class Turn:
    """
    What was added to a state since it was forked, without its past.

    Small enough to ship: pickled and encoded it holds no more than what was
    added. ``state.join(turn)`` brings just that, and once.

    Attributes:
        entries: The entries, in order.

        ledger: The ledger entries, in order.
    """

    _number: int
    _parent: int | None
    entries: Log[Entry]
    ledger: Log[LedgerEntry]
    # The state it is of, which tells what can't be in it; not shipped.
    _state: Aggregator | None = attrs.field(default=None, eq=False)

    @classmethod
    def rebuild(
        cls,
        *,
        id: UUID,
        parent_id: UUID | None,
        entries: Sequence[Entry],
        ledger: Sequence[LedgerEntry],
    ) -> Turn:
        """
        A turn from all that makes it one; what decoding ends in.
        """
        parent = None if parent_id is None else _number(parent_id)
        return cls(_number(id), parent, Log(entries), Log(ledger))

    @property
    def id(self) -> UUID:
        """
        The id of the state it was added to.
        """
        return UUID(int=self._number)

    @property
    def parent_id(self) -> UUID | None:
        """
        The id of the state that one was forked from; None for a root.
        """
        return None if self._parent is None else UUID(int=self._parent)

    @property
    def messages(self) -> Messages:
        """
        What was said, in order.
        """
        return Messages(self.entries)

    @property
    def usage(self) -> Usage:
        """
        What was spent. O(ledger entries).
        """
        return sum([entry.usage for entry in self.ledger], NOTHING)

    def _base_log(self) -> Log[Entry] | None:
        state = self._state
        return None if state is None else state.entries.take(state.init_len)

    def _base_ledger(self) -> Log[LedgerEntry] | None:
        state = self._state
        return None if state is None else state.ledger.take(state.init_ledger_len)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __repr__(self) -> str:
        return (
            f"<Turn of {self.id}: {len(self)} messages, "
            f"{self.usage.total_tokens:,} tokens spent>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Turn, (self._number, self._parent, self.entries, self.ledger)


@attrs.frozen
class Checkpoint:
    """
    A state that somebody kept, under a label.

    Attributes:
        state: The state.

        label: What it is kept as; not unique.

    >>> talk = Aggregator.new().add_user_prompt("Book it.")
    >>> kept = talk.checkpoint("before booking")
    >>> gone_wrong = talk.add_assistant_message("Done. Twice.")
    >>> kept.restore() == talk
    True
    """

    state: Aggregator
    label: str = ""

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.state, Aggregator):
            msg = f"a Checkpoint keeps an Aggregator, got a {type(self.state).__name__}"
            raise TypeError(msg)

        label = check_text(self.label, "label", TypeError)
        if label is not self.label:
            object.__setattr__(self, "label", label)

    @property
    def id(self) -> UUID:
        """
        The id of the state.
        """
        return self.state.id

    @property
    def messages(self) -> Messages:
        """
        What had been said.
        """
        return self.state.messages

    @property
    def usage(self) -> Usage:
        """
        What had been spent since the fork.
        """
        return self.state.usage

    def restore(self) -> Aggregator:
        """
        The state, as it was. O(1).
        """
        return self.state

    def merge_into(self, target: Aggregator) -> Aggregator:
        """
        *target* with what the state had added since its fork, exactly once.

        The same as ``target.join(checkpoint.state.turn)``, whether or not
        *target* knows the past it was added to.
        """
        return target.join(self.state.turn)
