"""
What a state is: its identity, what it holds, what it added since its fork, and when
two states are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self, SupportsIndex, overload

import attrs

from conversation_state._identity import make_uuid
from conversation_state._lazy import draw_fragment
from conversation_state._persistent import Log, final
from conversation_state._wording import (
    escape_line,
    format_count,
    shorten_repr,
    shorten_text,
)
from conversation_state.aggregator._entries import (
    NOTHING,
    Entry,
    Ledger,
    LedgerEntry,
    Messages,
    describe_mismatch,
    id_of,
    message_of,
)
from conversation_state.aggregator._names import NAMES, add_missing_names, list_names
from conversation_state.messages import Message, find_pending_calls
from conversation_state.pickling import Maker
from conversation_state.usage import Usage

if TYPE_CHECKING:
    from uuid import UUID

    from conversation_state.tools import ToolCall


_new = object.__new__

# `str` and `repr` of a long conversation show so many messages at each end, and so many
# characters of a long message.
_FIRST, _LAST = 3, 5
_MAX_LINE, _MAX_REPR = 79, 500


@final
class StateOrigin(NamedTuple):
    """
    The identity of a state, and where it was forked; it stays when the state grows.

    Numbers are those of UUIDs, which are made when they are asked for, because a
    UUID object takes a microsecond (`conversation_state._identity`).
    """

    number: int
    parent: int | None
    root: int
    init_len: int
    init_ledger_len: int
    inherited: Usage


@final
@attrs.frozen(repr=False)
class Turn:
    """
    What was added to a state since it was forked, without its past.

    Small enough to ship: pickled or encoded, it holds no more than what was
    added. ``state.join(turn)`` adds just that, and once.

    Attributes:
        entries: The entries, in order.

        ledger: The ledger entries, in order.
    """

    _number: int
    _parent: int | None
    entries: Log[Entry]
    ledger: Log[LedgerEntry]
    # The state of this turn, which shows the entries that can't be in the turn; it is
    # not pickled.
    _state: Any = attrs.field(default=None, eq=False)

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
        A turn made of all its fields, for decoders. O(n). Checks neither that *entries*
        and *ledger* hold entries, nor that each identity is there once.

        Raises:
            InvalidUsageError:
                If the ledger adds up to more than 2**63 - 1 tokens.
        """
        parent = None if parent_id is None else parent_id.int
        turn = cls(id.int, parent, Log(entries), Log(ledger))
        # Computed to raise here, because a total that is too large would otherwise be
        # found only when the turn is joined.
        _ = turn.usage
        return turn

    @property
    def id(self) -> UUID:
        """The id of the state it was added to."""
        return make_uuid(self._number)

    @property
    def parent_id(self) -> UUID | None:
        """The id of the state that this state was forked from; None for a root."""
        return None if self._parent is None else make_uuid(self._parent)

    @property
    def messages(self) -> Messages:
        """The messages added since the fork, in order."""
        return Messages(self.entries)

    @property
    def usage(self) -> Usage:
        """The usage recorded since the fork. O(ledger entries)."""
        return sum([entry.usage for entry in self.ledger], NOTHING)

    def base_log(self) -> Log[Entry] | None:
        """
        The entries that the turn was added to; none of its own is among them. None
        if they are unknown, as in a decoded turn.
        """
        state = self._state
        return None if state is None else state.entries.take(state.init_len)

    def base_ledger(self) -> Log[LedgerEntry] | None:
        """The ledger entries that the turn was added to, likewise."""
        state = self._state
        return None if state is None else state.ledger.take(state.init_ledger_len)

    def __len__(self) -> int:
        return len(self.entries)

    def __bool__(self) -> bool:
        # A turn may have recorded usage and appended nothing.
        return True

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __repr__(self) -> str:
        return (
            f"<Turn of {self.id}: {format_count(len(self), 'message')}, "
            f"{format_count(self.usage.total_tokens, 'token')}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _TURN, (self._number, self._parent, self.entries, self.ledger)


_TURN = Maker("aggregator.Turn", Turn)


class StateValue:
    """The entries and the ledger of a state, and how they are read."""

    __slots__ = ("__weakref__", "_ledger", "_log", "_origin")

    _origin: StateOrigin
    _ledger: Ledger
    _log: Log[Entry]

    def _with_contents(self, *, ledger: Ledger | None = None, log: Log[Entry]) -> Self:
        state = _new(self.__class__)
        state._origin = self._origin
        state._ledger = self._ledger if ledger is None else ledger
        state._log = log
        return state

    @property
    def id(self) -> UUID:
        """
        The identity of this state; it stays when the state grows, and a fork has a
        new one.
        """
        return make_uuid(self._origin.number)

    @property
    def parent_id(self) -> UUID | None:
        """The id of the state this was forked from; None for a root."""
        parent = self._origin.parent
        return None if parent is None else make_uuid(parent)

    @property
    def root_id(self) -> UUID:
        """The id of the state that the first of its forks was taken from."""
        return make_uuid(self._origin.root)

    @property
    def init_len(self) -> int:
        """How many messages were inherited at the fork; 0 for a root."""
        return self._origin.init_len

    @property
    def init_ledger_len(self) -> int:
        """How many ledger entries were inherited at the fork; 0 for a root."""
        return self._origin.init_ledger_len

    @property
    def turn_len(self) -> int:
        """The number of messages added since the fork; all of them, for a root."""
        return len(self._log) - self._origin.init_len

    @property
    def messages(self) -> Messages:
        """The messages in order. O(1)."""
        return Messages(self._log)

    @property
    def entries(self) -> Log[Entry]:
        """The messages in order, with the identity of each append. O(1)."""
        return self._log

    @property
    def pending_calls(self) -> tuple[ToolCall, ...]:
        """
        The calls that wait to be run, in order: those of the newest answer that have
        no result yet.

        None if a user's message came after the answer, or if it was interrupted
        (`ResponseMeta.finish_reason`): a call that the user stopped is not run. A
        view answers it with an error. Looks at the messages from the end back to that
        answer.

        >>> from conversation_state import Aggregator, ToolCall
        >>> state = Aggregator.new().add_user_prompt("Book it.")
        >>> asked = state.add_tool_call(ToolCall("c1", "book", "{}"))
        >>> [call.id for call in asked.pending_calls]
        ['c1']
        >>> asked.add_user_prompt("Stop!").pending_calls
        ()
        """
        return find_pending_calls(reversed(self.messages))

    @property
    def ledger(self) -> Log[LedgerEntry]:
        """The recorded usages in order, those inherited at the fork included. O(1)."""
        return self._ledger.entries

    @property
    def usage(self) -> Usage:
        """The usage recorded since the fork; all of it, for a root. O(1)."""
        inherited = self._origin.inherited
        return self._ledger.total.minus(inherited)

    @property
    def total_usage(self) -> Usage:
        """The usage recorded, what was inherited at the fork included. O(1)."""
        return self._ledger.total

    @property
    def turn(self) -> Turn:
        """What was added since the fork. O(that)."""
        origin = self._origin
        return Turn(
            origin.number,
            origin.parent,
            self._log[origin.init_len :],
            self._ledger.entries[origin.init_ledger_len :],
            self,
        )

    def is_related_to(self, other: StateValue) -> bool:
        """
        Whether the two have any past in common.

        True if both were forked, over any number of generations, from one
        root, or hold a common entry. O(1) in the first case, else O(n).
        """
        if not isinstance(other, StateValue):
            raise TypeError(describe_mismatch("is_related_to", "an Aggregator", other))

        # A common root is enough without a common entry: both may be empty forks.
        if self._origin.root == other._origin.root:
            return True

        ours = set(map(id_of, self._log))
        return not ours.isdisjoint(map(id_of, other._log))

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

        if not isinstance(other, type(self)):
            return NotImplemented

        return (
            self._origin == other._origin
            and self._ledger.entries == other._ledger.entries
            and self._log == other._log
        )

    def _equals_beyond(self, other: Self, known: set[tuple[int, int]]) -> bool:
        """
        Whether *other* is equal, for comparing many states of one conversation with
        copies of them; *known* is what `Log.equals` has found so far.
        """
        return self is other or (
            self._origin == other._origin
            and self._ledger.entries.equals(other._ledger.entries, known)
            and self._log.equals(other._log, known)
        )

    def __hash__(self) -> int:
        # Equal states are equal in these; comparing the rest would be O(n).
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

    def _repr_html_(self) -> str:
        return draw_fragment(self)

    def __repr__(self) -> str:
        # The repr shows the facts that a failing test needs, and is bounded, because
        # logs show it, too.
        facts = [format_count(len(self), "message")]
        if self.parent_id:
            facts.append(f"{self.init_len} inherited")

        if self.ledger:
            recorded = format_count(len(self.ledger), "ledger entry", "ledger entries")
            facts.append(f"{recorded} of {self.total_usage!r}")

        shown = self._map_ends(lambda message: shorten_repr(message, _MAX_REPR))
        return f"<Aggregator {self.id}: {', '.join(facts)}: [{', '.join(shown)}]>"

    def __str__(self) -> str:
        """
        The conversation, shortened: a line for each of its first and last messages.

        Characters that a terminal would interpret are escaped. All of it is
        `rendering.render_transcript`.
        """
        return "\n".join(self._map_ends(_format_line)) or "(no messages)"

    def _map_ends(self, show: Callable[[Message], str]) -> list[str]:
        # What *show* makes of the messages, or, if they are many, of the first and last
        # of them, and between those how many there are. O(log n).
        left_out = len(self) - _FIRST - _LAST
        # A single message takes no more room than the line that would stand for it.
        if left_out <= 1:
            return [show(message) for message in self]

        return [
            *[show(message) for message in self[:_FIRST]],
            f"… {format_count(left_out, 'message')}",
            *[show(message) for message in self[-_LAST:]],
        ]

    def __dir__(self) -> list[str]:
        return list_names(type(self), self)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: Any) -> Self:
        # A state never changes, so a deep copy can be the state itself.
        return self


add_missing_names(StateValue, "an Aggregator has", NAMES)


def _format_line(message: Message) -> str:
    words = " ".join(str(message).split())
    # The text is cut before it is escaped, because an escape is up to ten characters;
    # the one character too many is what `shorten_text` sees.
    return shorten_text(escape_line(words[: _MAX_LINE + 1]), _MAX_LINE)
