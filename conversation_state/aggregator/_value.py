"""
What a state is: its identity, what it holds, and when two states are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self, SupportsIndex, overload

from conversation_state._identity import make_uuid
from conversation_state._lazy import draw_fragment
from conversation_state._persistent import Log, final
from conversation_state._wording import (
    escape_line,
    format_count,
    shorten_repr,
    shorten_text,
)
from conversation_state.aggregator._checks import describe_mismatch
from conversation_state.aggregator._entries import (
    Entry,
    Ledger,
    LedgerEntry,
    Messages,
    id_of,
    message_of,
)
from conversation_state.aggregator._turn import Turn
from conversation_state.messages import Message
from conversation_state.usage import Usage

if TYPE_CHECKING:
    from uuid import UUID

__all__ = ["StateOrigin", "StateValue"]

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


class StateValue:
    """
    The entries and the ledger of a state, and how they are read.
    """

    __slots__ = ("__weakref__", "_ledger", "_log", "_origin")

    _origin: StateOrigin
    _ledger: Ledger
    _log: Log[Entry]

    def _with_contents(self, *, ledger: Ledger | None = None, log: Log[Entry]) -> Self:
        """
        The same state with another log or ledger.
        """
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

    def is_related_to(self, other: StateValue) -> bool:
        """
        Whether the two have any past in common.

        True if both were forked, over any number of generations, from one
        root, or hold a common entry. O(1) in the first case, else O(n).
        """
        if not isinstance(other, StateValue):
            msg = describe_mismatch("is_related_to", "an Aggregator", other)
            raise TypeError(msg)

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

        return self.equals(other) if isinstance(other, type(self)) else NotImplemented

    def equals(self, other: Self, *, near: Sequence[tuple[Self, Self]] = ()) -> bool:
        """
        Whether *other* is equal, where the two states of each pair in *near*
        are known to be.

        For comparing many states of one conversation: what this state shares
        with the first of a pair, and *other* with the second, is not compared
        again.
        """
        if self is other:
            return True

        if not isinstance(other, StateValue):
            expected = "an Aggregator or a Turn"
            raise TypeError(describe_mismatch("equals", expected, other))

        return (
            self._origin == other._origin
            and self._ledger.entries.equals(
                other._ledger.entries,
                near=[(a._ledger.entries, b._ledger.entries) for a, b in near],
            )
            and self._log.equals(other._log, near=[(a._log, b._log) for a, b in near])
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
        """
        What *show* makes of the messages, or, if they are many, of the first and
        last of them, and between those how many there are. O(log n).
        """
        left_out = len(self) - _FIRST - _LAST
        # A single message takes no more room than the line that would stand for it.
        if left_out <= 1:
            return [show(message) for message in self]

        return [
            *[show(message) for message in self[:_FIRST]],
            f"… {format_count(left_out, 'message')}",
            *[show(message) for message in self[-_LAST:]],
        ]

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: Any) -> Self:
        # A state never changes, so a deep copy can be the state itself.
        return self


def _format_line(message: Message) -> str:
    words = " ".join(str(message).split())
    # The text is cut before it is escaped, because an escape is up to ten characters;
    # the one character too many is what `shorten_text` sees.
    return shorten_text(escape_line(words[: _MAX_LINE + 1]), _MAX_LINE)
