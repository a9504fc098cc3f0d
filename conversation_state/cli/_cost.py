"""
The command `cost`: the bill of a saved state, model by model.

Prices and what can't be priced come from `counting.cost`; printing them is here.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from conversation_state._wording import format_count
from conversation_state.cli._exit import print_line, print_table
from conversation_state.cli._options import (
    find_state,
    head_data,
    print_json,
    store_command,
)

if TYPE_CHECKING:
    # A command imports these when it runs, so that --help is quick.
    from decimal import Decimal

    from conversation_state.aggregator import Aggregator, LedgerEntry
    from conversation_state.counting import Cost
    from conversation_state.store import Store

__all__ = ["cost"]


class _ModelCost(NamedTuple):
    """
    The ledger entries of one model, and their cost.

    Attributes:
        model: The model; "" if none was recorded.

        ledger: Its ledger entries.

        cost: What they cost.
    """

    model: str
    ledger: list[LedgerEntry]
    cost: Cost

    @property
    def tokens(self) -> int:
        """
        All tokens of the entries.
        """
        return sum(entry.usage.total_tokens for entry in self.ledger)


class _Bill(NamedTuple):
    """
    What a state cost, and what is not known of it.

    Attributes:
        models: The cost of each model, in the ledger's order.

        total: The cost of the whole ledger, with what is not in it.

        numbers: The numbers of messages in the state, from 1, by entry id.

        answers: How many answers there are, if no usage of any is recorded; or 0.
    """

    models: list[_ModelCost]
    total: Cost
    numbers: dict[str, int]
    answers: int

    @property
    def is_complete(self) -> bool:
        """
        Whether the whole cost is known.
        """
        return not (self.total.unpriced or self.total.unbilled or self.answers)


@store_command()
@click.argument("name")
def cost(store: Store, *, name: str, as_json: bool) -> None:
    """
    Print what a conversation cost, by model.

    Prices each entry of the ledger of NAME at the prices of today, with what
    was inherited at a fork. What can't be priced is listed and makes the total
    "at least" or "unknown": usage without a known model or price, and responses
    whose usage is not in the ledger. Needs the extra "prices".
    """
    which = find_state(store, name)
    bill = _compute_bill(which.load(store))
    if as_json:
        print_json({**head_data(which.head), **_bill_data(bill)})
        return

    if bill.models:
        rows = [
            (
                f"{len(each.ledger):,}",
                f"{each.tokens:,}",
                _format_amount(each.cost.amount, is_complete=not each.cost.unpriced),
                each.model or "(no model recorded)",
            )
            for each in bill.models
        ]
        print_table(("ENTRIES", "TOKENS", "COST", "MODEL"), rows)

    total = _format_amount(bill.total.amount, is_complete=bill.is_complete)
    click.echo(f"Total: {total}")
    for line in _describe_unknown(bill):
        print_line(line)


def _compute_bill(state: Aggregator) -> _Bill:
    from conversation_state.counting import cost as price_ledger

    now = datetime.now(UTC)
    ledgers: dict[str, list[LedgerEntry]] = {}
    for entry in state.ledger:
        ledgers.setdefault(entry.model, []).append(entry)

    models = [
        _ModelCost(model, ledger, price_ledger(_Ledger(ledger), when=now))
        for model, ledger in ledgers.items()
    ]
    total = price_ledger(state, when=now)
    is_recorded = state.total_usage.total_tokens or total.unpriced or total.unbilled
    return _Bill(
        models,
        total,
        {entry.id: number for number, entry in enumerate(state.entries, 1)},
        0
        if is_recorded
        else sum(message.role == "assistant" for message in state.messages),
    )


class _Ledger(NamedTuple):
    """
    Some of the entries of a ledger, for `counting.cost`.
    """

    ledger: list[LedgerEntry]


def _format_amount(amount: Decimal, *, is_complete: bool) -> str:
    from conversation_state.counting import Cost

    known = str(Cost(amount))
    if is_complete:
        return known

    return f"at least {known}" if amount else "unknown"


def _describe_unknown(bill: _Bill) -> Iterator[str]:
    """
    What the total does not contain, a line for each reason and response.
    """
    reasons: dict[str, list[int]] = {}
    for entry, why in bill.total.unpriced:
        reasons.setdefault(why, []).append(entry.usage.total_tokens)

    for why, tokens in reasons.items():
        entries = format_count(len(tokens), "ledger entry", "ledger entries")
        yield f"Not priced: {entries} ({format_count(sum(tokens), 'token')}): {why}"

    for data in _unbilled_data(bill):
        model = f" of {data['model']}" if data["model"] else ""
        yield (
            f"Not in the ledger: message {data['number']}, "
            f"{format_count(data['tokens'], 'token')}{model}"
        )

    if bill.answers:
        answers = format_count(bill.answers, "answer")
        yield f"Not recorded: the usage of {answers} of a model"


def _unbilled_data(bill: _Bill) -> list[dict[str, Any]]:
    data = []
    for entry in bill.total.unbilled:
        response = entry.message.response  # type: ignore[attr-defined] # has usage
        data.append(
            {
                "number": bill.numbers[entry.id],
                "entry_id": entry.id,
                "model": response.model,
                "tokens": response.usage.total_tokens,
            }
        )

    return data


def _bill_data(bill: _Bill) -> dict[str, Any]:
    return {
        "amount_usd": _amount_data(bill.total.amount, is_known=bill.is_complete),
        "complete": bill.is_complete,
        "models": [
            {
                "model": each.model,
                "entries": len(each.ledger),
                "tokens": each.tokens,
                "amount_usd": _amount_data(
                    each.cost.amount, is_known=not each.cost.unpriced
                ),
                "complete": not each.cost.unpriced,
            }
            for each in bill.models
        ],
        "unpriced": [
            {
                "ledger_id": entry.id,
                "model": entry.model,
                "tokens": entry.usage.total_tokens,
                "why": why,
            }
            for entry, why in bill.total.unpriced
        ],
        "unbilled": _unbilled_data(bill),
        "unrecorded_answers": bill.answers,
    }


def _amount_data(amount: Decimal, *, is_known: bool) -> str | None:
    """
    All digits of *amount*; None where nothing is known, which is not zero.
    """
    return f"{amount:f}" if amount or is_known else None
