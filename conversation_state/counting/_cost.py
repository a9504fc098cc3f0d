"""
Cost: a ledger priced entry by entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal, localcontext
from typing import NamedTuple, Protocol

import attrs

from conversation_state._lazy import draw_fragment
from conversation_state._persistent import final
from conversation_state._wording import (
    describe_value,
    format_count,
    format_dollars,
    shorten_repr,
)
from conversation_state.counting._prices import (
    EXACT,
    REGISTRY,
    FoundModel,
    check_moment,
    find_model,
    price_of,
)
from conversation_state.errors import UnknownModelError, UnpricedError
from conversation_state.messages import Message
from conversation_state.usage import Usage

_MAX_REASONS = 3
# Similar names are looked for once for each model, and for so many models at most: it
# takes up to 40 ms, and a ledger from elsewhere may have thousands of names.
_MAX_SUGGESTED = 20
_NOTHING = Usage()


class UsageEntry(Protocol):
    """
    **Protocol:** one entry of a ledger.

    Attributes:
        id: Its identity.

        usage: The recorded usage.

        model: The model; "" if it is unknown.

        at: When the tokens were used; None if it is unknown.
    """

    @property
    def id(self) -> str: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def model(self) -> str: ...
    @property
    def at(self) -> datetime | None: ...


class HasLedger(Protocol):
    """
    **Protocol:** an object with a ledger: a state or its turn.

    Attributes:
        ledger: Its entries, in order.
    """

    @property
    def ledger(self) -> Iterable[UsageEntry]: ...


# A protocol, because `Entry` is of the same layer, which is not imported.
class WithMessage(Protocol):
    """
    **Protocol:** one entry of a conversation: its identity and its message.
    """

    @property
    def id(self) -> str: ...
    @property
    def message(self) -> Message: ...


@final
class CostLine(NamedTuple):
    """
    What one ledger entry cost.

    Attributes:
        entry: The ledger entry.

        amount: US dollars, exact; None if it can't be priced.

        why: Why it can't, a sentence; "" if it can.
    """

    entry: UsageEntry
    amount: Decimal | None
    why: str = ""

    @property
    def model(self) -> str:
        """
        The model; "" if it is unknown.
        """
        return self.entry.model

    @property
    def usage(self) -> Usage:
        """
        The tokens.
        """
        return self.entry.usage

    @property
    def at(self) -> datetime | None:
        """
        When they were used; None if it is unknown.
        """
        return self.entry.at


@final
@attrs.frozen
class Cost:
    """
    The known cost of a ledger.

    Attributes:
        lines: The cost of each ledger entry, in the ledger's order.

        unbilled: The entries of the conversation with a response whose usage
            is in no ledger entry, in order; the first of several messages of
            one response. `Aggregator.record_responses` records them.

        total: The sum of the amounts that are known, in US dollars; exact.
    """

    lines: tuple[CostLine, ...] = ()
    unbilled: tuple[WithMessage, ...] = ()
    total: Decimal = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        total = Decimal(0)
        # The program's own context may round after a few digits.
        with localcontext(EXACT):
            for line in self.lines:
                if line.amount is not None:
                    total += line.amount

        object.__setattr__(self, "total", total)

    @property
    def unpriced(self) -> tuple[CostLine, ...]:
        """
        The lines that can't be priced, with the reason: what `total` lacks.
        """
        return tuple([line for line in self.lines if line.amount is None])

    @property
    def by_model(self) -> dict[str, Cost]:
        """
        The cost of the entries of each model, in the order of the first ones.

        Under "" are the entries without a model. `unbilled` is in none.
        """
        lines: dict[str, list[CostLine]] = {}
        for line in self.lines:
            lines.setdefault(line.model, []).append(line)

        return {model: Cost(tuple(each)) for model, each in lines.items()}

    @property
    def usage(self) -> Usage:
        """
        The tokens of all lines.
        """
        return sum([line.usage for line in self.lines], _NOTHING)

    def __str__(self) -> str:
        parts = []
        if self.unpriced:
            parts.append(self._describe_unpriced())

        if self.unbilled:
            responses = format_count(len(self.unbilled), "response")
            total = sum([_usage_of(entry).total_tokens for entry in self.unbilled])
            tokens = format_count(total, "token")
            parts.append(f"{responses} ({tokens}) not in the ledger")

        if self.total or not parts:
            parts.insert(0, format_dollars(self.total))
        else:
            parts[0] = f"unknown: {parts[0]}"

        return " and ".join(parts)

    def _repr_html_(self) -> str:
        return draw_fragment(self)

    def _describe_unpriced(self) -> str:
        unpriced = self.unpriced
        entries = format_count(len(unpriced), "entry", "entries")
        reasons = [*dict.fromkeys([line.why for line in unpriced])]
        left_out = len(reasons) - _MAX_REASONS
        more = [format_count(left_out, "more reason")] if left_out > 0 else []
        why = "; ".join([*reasons[:_MAX_REASONS], *more])
        return f"{entries} without a price: {why}"


def cost(state: HasLedger, *, when: datetime | None = None) -> Cost:
    """
    The cost of *state* in US dollars, the sum over its ledger.

    Each entry has the price of the time at which its tokens were used
    (`LedgerEntry.at`), as far as the registry has dates (see `price`); if that
    is unknown, the price of now.

    Inherited entries are included; ``cost(state.turn)`` is without them. Amounts are
    added exactly, so the cost of a join is that of its distinct entries. Entries
    that can't be priced are listed and never taken as zero: without a model, with
    an unknown model, and usage without a price (see `price`).

    Messages with a response whose usage is in no ledger entry are listed, too
    (`Cost.unbilled`). A response is in the ledger if there is an entry under
    its id, or under the identity of its own entry; or an entry that belongs to
    no response, with an equal usage, as ``add_usage(usage)`` without a key
    makes. O(messages + ledger entries).

    Args:
        state: Anything with a `ledger`: an `Aggregator`, a `Turn`.

        when: An aware `datetime`, whose prices are used for all entries, whatever
            their time.

    Raises:
        MissingExtraError:
            If an entry names a model and the extra ``prices`` is not
            installed.

        ValueError:
            If *when* has no time zone.
    """
    now = check_moment(when)
    models: dict[str, FoundModel | str] = {}
    lines = []
    for entry in _read_ledger(state):
        at = now if when is not None else entry.at or now
        lines.append(_price_entry(entry, models, at))

    return Cost(tuple(lines), _find_unbilled(state))


def _usage_of(entry: WithMessage) -> Usage:
    response = getattr(entry.message, "response", None)
    usage = None if response is None else response.usage
    return _NOTHING if usage is None else usage


def _find_unbilled(state: HasLedger) -> tuple[WithMessage, ...]:
    """
    The entries of *state*, if it has any, whose response is in no ledger entry.
    """
    # Each different usage by the id of the response or, without one, of its entry:
    # some servers use one id for all responses.
    responses: dict[str, dict[Usage, WithMessage]] = {}
    keys: set[str] = set()
    entry: WithMessage
    for entry in getattr(state, "entries", ()):
        usage = _usage_of(entry)
        if usage != _NOTHING:
            key = entry.message.response.id or entry.id  # type: ignore[attr-defined]
            responses.setdefault(key, {}).setdefault(usage, entry)
            keys |= {key, entry.id}

    if not responses:
        return ()

    recorded = {entry.id: entry.usage for entry in state.ledger}
    # Recorded under keys of the program's own: each accounts for one response that
    # used as many tokens.
    without_response = Counter(
        [usage for key, usage in recorded.items() if key not in keys]
    )
    unbilled = []
    for key, usages in responses.items():
        if len(usages) == 1 and key in recorded:
            continue

        for usage, entry in usages.items():
            if usage in {recorded.get(key), recorded.get(entry.id)}:
                continue

            if without_response[usage]:
                without_response[usage] -= 1
            else:
                unbilled.append(entry)

    return tuple(unbilled)


def _read_ledger(state: HasLedger) -> Iterable[UsageEntry]:
    try:
        return state.ledger
    except AttributeError:
        raise TypeError(
            "state: expected an object with a ledger, such as an Aggregator, got "
            f"{describe_value(state)}"
        ) from None


def _price_entry(
    entry: UsageEntry, models: dict[str, FoundModel | str], when: datetime
) -> CostLine:
    """
    The line of *entry*; *models* has each model that was asked for, or why it is
    unknown.
    """
    model = entry.model
    if not model:
        return CostLine(entry, None, str(UnpricedError(model, "its model is unknown")))

    found = models.get(model)
    if found is None:
        suggest = len(models) < _MAX_SUGGESTED
        try:
            found = find_model(model, "cost", suggest=suggest)
        except UnknownModelError as error:
            bare = f"{REGISTRY} knows no model {shorten_repr(model)}"
            found = str(error) if suggest else bare

        models[model] = found

    if isinstance(found, str):
        return CostLine(entry, None, found)

    try:
        return CostLine(entry, price_of(entry.usage, model, found, when))
    except UnpricedError as error:
        return CostLine(entry, None, str(error))
