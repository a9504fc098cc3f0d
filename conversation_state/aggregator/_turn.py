"""
What a state added since its fork, to be shipped and joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from conversation_state._identity import make_uuid, number_of_uuid
from conversation_state._persistent import Log, final
from conversation_state._wording import format_count
from conversation_state.aggregator._checks import (
    check_entries,
    check_identities,
    check_ledger,
)
from conversation_state.aggregator._entries import NOTHING, Entry, LedgerEntry, Messages
from conversation_state.messages import Message
from conversation_state.pickling import Maker
from conversation_state.usage import Usage

if TYPE_CHECKING:
    from uuid import UUID

__all__ = ["Turn"]


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
        A turn made of all its fields, for decoders. O(n).

        Raises:
            ValueError:
                If an identity occurs twice or is not text.

            TypeError, InvalidMessageError, InvalidUsageError:
                If *entries* or *ledger* holds something else, or the ledger adds up
                to too much, as for `Aggregator.rebuild`.
        """
        check_entries(entries)
        check_ledger(ledger)
        parent = None if parent_id is None else number_of_uuid(parent_id)
        turn = cls(number_of_uuid(id), parent, Log(entries), Log(ledger))
        # Computed to raise here, because a total that is too large would otherwise be
        # found only when the turn is joined.
        _ = turn.usage
        check_identities("entries", entries)
        check_identities("ledger", ledger)
        return turn

    @property
    def id(self) -> UUID:
        """
        The id of the state it was added to.
        """
        return make_uuid(self._number)

    @property
    def parent_id(self) -> UUID | None:
        """
        The id of the state that this state was forked from; None for a root.
        """
        return None if self._parent is None else make_uuid(self._parent)

    @property
    def messages(self) -> Messages:
        """
        The messages added since the fork, in order.
        """
        return Messages(self.entries)

    @property
    def usage(self) -> Usage:
        """
        The usage recorded since the fork. O(ledger entries).
        """
        return sum([entry.usage for entry in self.ledger], NOTHING)

    def base_log(self) -> Log[Entry] | None:
        """
        The entries that the turn was added to; none of its own is among them. None
        if they are unknown, as in a decoded turn.
        """
        state = self._state
        return None if state is None else state.entries.take(state.init_len)

    def base_ledger(self) -> Log[LedgerEntry] | None:
        """
        The ledger entries that the turn was added to, likewise.
        """
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
