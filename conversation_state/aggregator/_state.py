"""
The state, and what can be kept of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, overload

import attrs

from conversation_state._identity import (
    make_uuid,
    new_entry_id,
    new_uuid_number,
    number_of_uuid,
)
from conversation_state._persistent import Log, check_text, final
from conversation_state._wording import format_count
from conversation_state.aggregator._checks import (
    check_entries,
    check_fork_point,
    check_ledger,
    check_length,
    describe_mismatch,
)
from conversation_state.aggregator._entries import (
    EMPTY_LEDGER,
    EMPTY_LOG,
    NOTHING,
    Entry,
    Ledger,
    LedgerEntry,
    Messages,
    id_of,
    message_of,
    reported_response,
)
from conversation_state.aggregator._turn import Turn
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

if TYPE_CHECKING:
    from uuid import UUID

__all__ = ["Aggregator", "Checkpoint", "join"]

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


@final
class Aggregator:
    """
    The state of a conversation: its entries and the ledger of what they cost.

    A value: every verb gives a new state and leaves this one as it was. Equal
    by id, fork point, ledger, and content *and* identity of entries; hashable;
    picklable.

    Costs, up to a million messages: `add` one to three microseconds and 300
    bytes for each state that is kept, `fork` and `checkpoint` less; `join`
    grows with what both sides added since they diverged.

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
                If *id* is no UUID.
        """
        number = new_uuid_number() if id is None else number_of_uuid(id)
        origin = _Origin(number, None, number, 0, 0, NOTHING)
        return _make_state(origin, EMPTY_LEDGER, EMPTY_LOG).extend(messages)

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

            TypeError:
                If *entries* holds something else than `Entry`, or *ledger*
                than `LedgerEntry`.

            InvalidMessageError:
                If the message of an entry is no `Message`.

            InvalidUsageError:
                If the usage of a ledger entry is no `Usage`, or the ledger adds
                up to more than 2**63 - 1 tokens.
        """
        check_entries(entries)
        check_ledger(ledger)
        check_fork_point(init_len, len(entries), init_ledger_len, len(ledger))
        for name, items in (("entries", entries), ("ledger", ledger)):
            ids = set(map(id_of, items))
            if len(ids) != len(items):
                msg = f"{name} holds an identity more than once"
                raise ValueError(msg)

            if not {*map(type, ids)} <= {str}:
                msg = f"{name} holds an identity that is no text"
                raise ValueError(msg)

        inherited = EMPTY_LEDGER.with_entries(ledger[:init_ledger_len])
        spent = inherited.with_entries(ledger[init_ledger_len:])
        origin = _make_origin(id, parent_id, root_id, init_len, inherited)
        return _make_state(origin, spent, EMPTY_LOG.extend(entries))

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
        check_fork_point(init_len, len(entries), init_ledger_len, len(ledger))
        inherited = Ledger.of(ledger.take(init_ledger_len))
        origin = _make_origin(id, parent_id, root_id, init_len, inherited)
        return _make_state(origin, Ledger.of(ledger), entries)

    @property
    def id(self) -> UUID:
        """
        Who this state is: the same for all it grows into, a new one for forks.
        """
        return make_uuid(self._origin.number)

    @property
    def parent_id(self) -> UUID | None:
        """
        The id of the state this was forked from; None for a root.
        """
        parent = self._origin.parent
        return None if parent is None else make_uuid(parent)

    @property
    def root_id(self) -> UUID:
        """
        The id of the state that the first of its forks was taken from.
        """
        return make_uuid(self._origin.root)

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
        The number of messages added since the fork; all of them, for a root.
        """
        return len(self._log) - self._origin.init_len

    @property
    def messages(self) -> Messages:
        """
        The messages in order. O(1).
        """
        return Messages(self._log)

    @property
    def entries(self) -> Log[Entry]:
        """
        The messages in order, with the identity of each append. O(1).
        """
        return self._log

    @property
    def ledger(self) -> Log[LedgerEntry]:
        """
        The recorded usages in order, those inherited at the fork included. O(1).
        """
        return self._ledger.entries

    @property
    def usage(self) -> Usage:
        """
        The usage recorded since the fork; all of it, for a root. O(1).
        """
        inherited = self._origin.inherited
        return self._ledger.total.minus(inherited)

    @property
    def total_usage(self) -> Usage:
        """
        The usage recorded, what was inherited at the fork included. O(1).
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
            raise InvalidMessageError(describe_mismatch("add", "a Message", message))

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
            expected = "a str or a UserMessage"
            raise InvalidMessageError(
                describe_mismatch("add_user_prompt", expected, prompt)
            )

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
            expected = "a str or an AssistantMessage"
            raise InvalidMessageError(
                describe_mismatch("add_assistant_message", expected, message)
            )

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
                    expected = "ToolCalls, or one AssistantMessage that has some"
                    raise InvalidMessageError(
                        describe_mismatch("add_tool_call", expected, call)
                    )

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
            expected = "a ToolMessage"
            raise InvalidMessageError(
                describe_mismatch("add_tool_response", expected, message)
            )

        return self.add(message)

    def add_response(self, *messages: Message, key: str | None = None) -> Aggregator:
        """
        This state with a provider's response at its end, and in its ledger.

        Appends *messages*, and records the usage that an `AssistantMessage`
        reports (``message.response.usage``) under the id of its response, so
        that adding one response again bills nothing again; see
        `record_responses`. Without a usage, it is ``extend(messages)``.

        Args:
            *messages: The response, usually one `AssistantMessage`, as an
                adapter's ``load`` gives it.

            key: The ledger identity to use instead of the response's id.

        Raises:
            InvalidMessageError:
                If one of them is no `Message`.

            InvalidUsageError:
                If *key* is in the ledger with another usage or model, *key* is
                given and there are several usages, or the total gets over
                2**63 - 1.

        >>> from conversation_state import ResponseMeta
        >>> meta = ResponseMeta(id="chatcmpl-1", usage=Usage(8, 2), model="gpt-5")
        >>> state = Aggregator.new().add_response(AssistantMessage("Hi", response=meta))
        >>> state.total_usage.total_tokens, state.ledger[0].id
        (10, 'chatcmpl-1')
        """
        grown = self.extend(messages)
        if key is None:
            return grown.record_responses(since=len(self._log))

        reported = [
            meta
            for entry in grown._log.iterate(len(self._log))
            if (meta := reported_response(entry)) is not None
        ]
        if len(reported) > 1:
            msg = (
                f"key={key!r} can identify one usage, and these messages report "
                f"{len(reported)}; add them one by one"
            )
            raise InvalidUsageError(msg)

        for meta in reported:
            grown = grown.add_usage(meta.usage, key=key, model=meta.model)

        return grown

    def record_responses(self, *, since: int = 0) -> Aggregator:
        """
        This state with the usage of its responses in its ledger, each once.

        A response is recorded under the id its provider gave it, or under the
        identity of its entry where it has none, or where the ledger has
        another usage under that id (some servers give every response one id).
        What is recorded already is not recorded again, so this is idempotent.

        O(messages from *since* on).

        Args:
            since: The position of the first message to look at.

        Raises:
            InvalidUsageError:
                If the total gets over 2**63 - 1.
        """
        ledger = self._ledger
        for entry in self._log.iterate(since):
            meta = reported_response(entry)
            if meta is None or meta.usage is None:
                continue

            for key in (meta.id, entry.id):
                known = ledger.find(key) if key else None
                if known is not None and known.usage == meta.usage:
                    break

                if key and known is None:
                    new = LedgerEntry(key, meta.usage, meta.model)
                    ledger = ledger.with_entries((new,))
                    break

        if ledger is self._ledger:
            return self

        return _make_state(self._origin, ledger, self._log)

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
                expected = "Messages"
                raise InvalidMessageError(
                    describe_mismatch("extend", expected, message)
                )

            entries.append(_make(Entry, (new_entry_id(), message)))

        if not entries:
            return self

        return _make_state(self._origin, self._ledger, self._log.extend(entries))

    def add_usage(
        self, usage: Usage | None, *, key: str | None = None, model: str = ""
    ) -> Aggregator:
        """
        This state with *usage* in its ledger.

        Args:
            usage: The usage to record; None, which providers send too, adds nothing.

            key: An identity of your own, a request's id say. The same key is
                recorded once, however often it is added, here and after any join.

            model: The model that was used.

        Raises:
            InvalidUsageError:
                If *usage* is something else, the ledger has *key* with another
                usage or model, or the total gets over 2**63 - 1.
        """
        if usage is None:
            return self

        if not isinstance(usage, Usage):
            msg = f"add_usage takes a Usage or None, got {usage!r}"
            raise InvalidUsageError(msg)

        model = check_text(model, "model", InvalidUsageError)
        if key is None:
            key = new_entry_id()
        elif not (key := check_text(key, "key", InvalidUsageError)):
            msg = "key is empty; leave it out if this usage has no identity"
            raise InvalidUsageError(msg)
        elif (recorded := self._ledger.find(key)) is not None:
            if recorded.usage == usage and recorded.model == model:
                return self

            msg = (
                f"conflicting usage for key {key!r}: the ledger has {recorded.usage} "
                f"for model {recorded.model!r}, got {usage} for model {model!r}; use "
                "another key"
            )
            raise InvalidUsageError(msg)

        entry = LedgerEntry(key, usage, model)
        return _make_state(self._origin, self._ledger.with_entries((entry,)), self._log)

    def fork(self, *, at: int | None = None) -> Aggregator:
        """
        A new state with the same past, which it calls inherited.

        Args:
            at: Fork from the first *at* messages instead of all of them. The
                whole ledger is inherited all the same.

        Raises:
            IndexError:
                If *at* is outside 0 to ``len(self)``.
        """
        log = self._log
        if at is not None:
            at = index(at)
            if not 0 <= at <= len(log):
                messages = format_count(len(log), "message")
                msg = f"can't fork at {at}: this state has {messages}"
                raise IndexError(msg)

            log = log.take(at)

        ledger, origin = self._ledger, self._origin
        inherited = len(log), len(ledger.entries), ledger.total
        fork = _make(
            _Origin, (new_uuid_number(), origin.number, origin.root, *inherited)
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
                If no entry of this state has the identity *to*.

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
                msg = (
                    f"can't roll back from {self!r} to {to!r}: they have no entry in "
                    "common; a state can go back to one that it grew from, or that "
                    "grew from the same state"
                )
                raise ValueError(msg)

            return to.join(_make_state(self._origin, self._ledger, EMPTY_LOG))

        kept = self._position_after(to) if isinstance(to, str) else check_length(to)
        if not 0 <= kept <= len(self._log):
            messages = format_count(len(self._log), "message")
            msg = f"can't roll back to {kept}: this state has {messages}"
            raise IndexError(msg)

        return self._with_first(kept)

    def before(self, entry_id: str) -> Aggregator:
        """
        This state without the entry *entry_id* and all after it.

        The whole ledger stays, as in `rollback`. Regenerating an answer,
        editing a prompt and trying again start here.

        O(n) to find the entry.

        Raises:
            LookupError:
                If no entry of this state has that identity.
        """
        return self._with_first(self._position_after(entry_id) - 1)

    def _position_after(self, entry_id: str) -> int:
        left = len(self._log)
        for entry in reversed(self._log):
            if entry.id == entry_id:
                return left

            left -= 1

        msg = (
            f"no entry of this state has the identity {entry_id!r}; state.entries "
            "lists them"
        )
        raise LookupError(msg)

    def _with_first(self, count: int) -> Aggregator:
        if count == len(self._log):
            return self

        origin = self._origin
        if count < origin.init_len:
            # Back before its fork, it has inherited no more than is left.
            origin = origin._replace(init_len=count)

        return _make_state(origin, self._ledger, self._log.take(count))

    def join(self, *others: Aggregator | Turn) -> Aggregator:
        """
        The ordered union of this state and *others*, by identity.

        All of this state in its order, then what the next one has and this one
        lacks, in that one's order, and so on; the ledger likewise. Id and fork
        point are this state's. What is already there is not added again, so
        joining twice, or meeting over several branches, changes nothing; if
        nothing is new, this state itself is returned. Where two sides hold
        different things under one identity, this state's stands.

        Cost: what both sides added since they diverged; O(n) with a state or
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
                log.add_new(other.entries, other.base_log())
                spent.add_new(other.ledger, other.base_ledger())
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

        return _make_state(self._origin, ledger, log.log)

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

    def __bool__(self) -> bool:
        # A state without messages has an id and a ledger: it is never "nothing".
        return True

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

        return self.equals(other) if isinstance(other, Aggregator) else NotImplemented

    def equals(
        self, other: Aggregator, *, near: Sequence[tuple[Aggregator, Aggregator]] = ()
    ) -> bool:
        """
        Whether *other* is equal, where the two states of each pair in *near*
        are known to be.

        For comparing many states of one conversation: what this state shares
        with the first of a pair, and *other* with the second, is not compared
        again.
        """
        if self is other:
            return True

        return (
            self._origin == other._origin
            and self._ledger.entries.equals(
                other._ledger.entries,
                near=[(a._ledger.entries, b._ledger.entries) for a, b in near],
            )
            and self._log.equals(other._log, near=[(a._log, b._log) for a, b in near])
        )

    def __hash__(self) -> int:
        # Equal states agree in these; the rest would cost O(n).
        log, (entries, total) = self._log, self._ledger
        return hash(
            (
                self._origin.number,
                len(log),
                log[-1].id if log else None,
                len(entries),
                entries[-1].id if entries else None,
                total.total_tokens,
            )
        )

    def __repr__(self) -> str:
        inherited = f", {self.init_len} inherited" if self.parent_id else ""
        return (
            f"<Aggregator {self.id}: {format_count(len(self), 'message')}{inherited}, "
            f"{format_count(self.total_usage.total_tokens, 'token')} spent>"
        )

    def __copy__(self) -> Aggregator:
        return self

    def __deepcopy__(self, _memo: Any) -> Aggregator:
        # Nothing below can change, so there is nothing a copy would be for.
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_state, (self._origin, self._ledger, self._log)


def _make_state(origin: _Origin, ledger: Ledger, log: Log[Entry]) -> Aggregator:
    state = _new(Aggregator)
    state._origin = origin
    state._ledger = ledger
    state._log = log
    return state


def _make_origin(
    id: UUID,
    parent_id: UUID | None,
    root_id: UUID | None,
    init_len: int,
    inherited: Ledger,
) -> _Origin:
    number = number_of_uuid(id)
    parent = None if parent_id is None else number_of_uuid(parent_id)
    first = number if parent is None else parent
    root = first if root_id is None else number_of_uuid(root_id)
    forked = init_len, len(inherited.entries), inherited.total
    return _Origin(number, parent, root, *forked)


def join(first: Aggregator, *others: Aggregator | Turn) -> Aggregator:
    """
    The ordered union of states: ``first.join(*others)``.
    """
    return first.join(*others)


@final
@attrs.frozen
class Checkpoint:
    """
    A state that is kept, under a label.

    Attributes:
        state: The state.

        label: Its label; not unique.

    >>> talk = Aggregator.new().add_user_prompt("Book it.")
    >>> kept = talk.checkpoint("before booking")
    >>> gone_wrong = talk.add_assistant_message("Done. Twice.")
    >>> kept.restore() == talk
    True
    >>> len(gone_wrong.rollback(kept))
    1
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
        Its messages.
        """
        return self.state.messages

    @property
    def usage(self) -> Usage:
        """
        The usage recorded since the fork.
        """
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
        return target.join(self.state.turn)
