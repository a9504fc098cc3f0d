"""
Cost: a ledger priced entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal, localcontext
from typing import NamedTuple, Protocol

import attrs

from conversation_state.counting._prices import EXACT, moment, price_of
from conversation_state.counting._registry import Found, find
from conversation_state.errors import UnknownModelError, UnpricedError
from conversation_state.usage import Usage

__all__ = ["Cost", "HasLedger", "Spent", "Unpriced", "cost"]


_SHOWN = 3


class Spent(Protocol):
    """
    **Protocol:** one entry of a ledger.
    """

    @property
    def id(self) -> str:
        """
        Its identity.
        """
        ...

    @property
    def usage(self) -> Usage:
        """
        What was spent.
        """
        ...

    @property
    def model(self) -> str:
        """
        The model it was spent on; "" if nobody said.
        """
        ...


class HasLedger(Protocol):
    """
    **Protocol:** what has a ledger: a state, the turn of one.
    """

    @property
    def ledger(self) -> Iterable[Spent]:
        """
        What was spent, in order.
        """
        ...


class Unpriced(NamedTuple):
    """
    Something that was spent, and why nobody knows what it cost.

    Attributes:
        entry: The ledger's entry.

        why: A sentence.
    """

    entry: Spent
    why: str


@attrs.frozen
class Cost:
    """
    What a ledger cost, as far as that is known.

    Attributes:
        amount: What is known, in US dollars; exact.

        unpriced: What is not in it, in the ledger's order.
    """

    amount: Decimal
    unpriced: tuple[Unpriced, ...] = ()

    def __str__(self) -> str:
        amount = _dollars(self.amount)
        if not self.unpriced:
            return amount

        number = len(self.unpriced)
        entries = "1 entry" if number == 1 else f"{number:,} entries"
        reasons = [*dict.fromkeys([each.why for each in self.unpriced])]
        more = [f"{len(reasons) - _SHOWN:,} more reasons"] * (len(reasons) > _SHOWN)
        why = "; ".join([*reasons[:_SHOWN], *more])
        return f"{amount} and {entries} without a price: {why}"


def _dollars(amount: Decimal) -> str:
    """
    All digits, and two at least behind the point.

    >>> _dollars(Decimal("12.50000")), _dollars(Decimal("0.0000375"))
    ('$12.50', '$0.0000375')
    """
    whole, _, part = f"{amount:,f}".partition(".")
    return f"${whole}.{part.rstrip('0').ljust(2, '0')}"


def cost(state: HasLedger, *, when: datetime | None = None) -> Cost:
    """
    What *state* cost in US dollars, entry by entry of its ledger.

    All it knows of is in it, what was inherited at a fork included:
    ``cost(state.turn)`` is what came since. Amounts add exactly, so the cost of
    a join is that of its distinct entries. What can't be priced is listed,
    never taken for nothing: entries whose model nobody said, those of a model
    that is not known, and usage without a price (see `price`).

    Args:
        state: Anything with a `ledger`: an `Aggregator`, a `Turn`.

        when: An aware `datetime`: prices are those of then. Now if it is None.

    Raises:
        MissingExtraError:
            If an entry names a model and the extra ``prices`` is not
            installed.

        ValueError:
            If *when* has no time zone.
    """
    at = moment(when)
    models: dict[str, Found | UnknownModelError] = {}
    amount = Decimal(0)
    unpriced = []
    with localcontext(EXACT):
        for entry in _ledger(state):
            try:
                amount += _price(entry, models, at)
            except (UnknownModelError, UnpricedError) as error:
                unpriced.append(Unpriced(entry, str(error)))

    return Cost(amount, tuple(unpriced))


def _ledger(state: HasLedger) -> Iterable[Spent]:
    try:
        return state.ledger
    except AttributeError:
        msg = (
            f"cost takes what has a ledger, an Aggregator say; got a "
            f"{type(state).__name__}: {state!r:.80}"
        )
        raise TypeError(msg) from None


def _price(
    entry: Spent, models: dict[str, Found | UnknownModelError], when: datetime
) -> Decimal:
    model = entry.model
    if not model:
        raise UnpricedError(model, "nobody said which model it was spent on")

    # A ledger has many entries and few models, and looking for near matches of
    # an unknown one takes long.
    found = models.get(model)
    if found is None:
        try:
            found = find(model, "cost")
        except UnknownModelError as error:
            found = error

        models[model] = found

    if isinstance(found, UnknownModelError):
        raise found

    return price_of(entry.usage, model, found, when)
