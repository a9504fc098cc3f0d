"""
The command `cost`: the bill of a saved state, model by model.

Prices and what can't be priced come from `counting.cost`; printing them is here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from conversation_state._wording import format_count, format_dollars
from conversation_state.cli._exit import print_line, print_table
from conversation_state.cli._inspect import head_data
from conversation_state.cli._options import (
    SavedState,
    find_state,
    print_json,
    store_command,
)
from conversation_state.messages import read_response, read_usage

if TYPE_CHECKING:
    # A command imports these when it runs, so that --help is quick.
    from decimal import Decimal

    from conversation_state.aggregator import Aggregator
    from conversation_state.counting import Cost, CostLine
    from conversation_state.store import Store

_NO_MODEL = "(no model recorded)"


class _Bill(NamedTuple):
    cost: Cost  # the cost of the whole ledger, with what is not in it
    numbers: dict[str, int]  # of messages in the revision, from 1, by entry id


@store_command(has_pages=True)
@click.argument("name")
@click.option("--lines", is_flag=True, help="Print each ledger entry, with its time.")
def cost(store: Store, *, name: str, lines: bool, as_json: bool) -> None:
    """
    Print what a conversation cost, by model.

    Of NAME that is the cost of all its branches together, as on its page; of
    NAME@REVISION that of this revision, with what was inherited at a fork. Prices each
    entry of the ledger at the prices of its time, or of now if its time is unknown.
    What can't be priced is listed and makes the total "at least" or "unknown": usage
    without a known model or price, answers whose usage is not in the ledger, and the
    rest of those that were interrupted.
    Needs the extra "prices".
    """
    from conversation_state.counting import cost as price_ledger

    which = find_state(store, name)
    branches, whole = _load_branches(store, which)
    entries = which.load(store).entries
    bill = _Bill(
        price_ledger(whole), {entry.id: at for at, entry in enumerate(entries, 1)}
    )
    if as_json:
        data = {**head_data(which.head), "branches": branches, **_bill_data(bill)}
        print_json(data)
        return

    if bill.cost.lines and lines:
        heading = ("TIME", "TOKENS", "COST", "MODEL")
        rows = [
            (
                f"{line.at:%Y-%m-%d %H:%M}" if line.at else "(unknown)",
                f"{line.usage.total_tokens:,}",
                _format_line(line),
                line.model or _NO_MODEL,
            )
            for line in bill.cost.lines
        ]
        print_table(heading, rows)
    elif bill.cost.lines:
        heading = ("ENTRIES", "TOKENS", "COST", "MODEL")
        rows = [
            (
                f"{len(each.lines):,}",
                f"{each.usage.total_tokens:,}",
                _format_amount(each.total, is_complete=each.complete),
                model or _NO_MODEL,
            )
            for model, each in bill.cost.by_model.items()
        ]
        print_table(heading, rows)

    total = _format_amount(bill.cost.total, is_complete=bill.cost.complete)
    of_all = f" of {branches:,} branches" if branches > 1 else ""
    print_line(f"Total{of_all}: {total}")
    for line in _describe_unknown(bill):
        print_line(line)


def _load_branches(store: Store, which: SavedState) -> tuple[int, Aggregator]:
    """
    How many branches a name has, and what they have together; of a revision that was
    asked for, that revision.
    """
    if which.at is not None:
        return 1, which.load(store)

    heads = list(store.history(which.name))[::-1]
    grown = {head.parent for head in heads}
    tips = [head for head in heads if head.revision not in grown]
    # A revision has all of the one that it grew from, unless moments were committed.
    needed = heads if store._is_timeline(which.name) else tips
    first, *others = [store.load(head.name, at=head) for head in needed]
    return len(tips), first.join(*others)


def _format_line(line: CostLine) -> str:
    if line.amount is None:
        return "unknown"

    return _format_amount(line.amount, is_complete=not line.is_partial)


def _format_amount(amount: Decimal, *, is_complete: bool) -> str:
    known = format_dollars(amount)
    if is_complete:
        return known

    return f"at least {known}" if amount else "unknown"


def _describe_unknown(bill: _Bill) -> Iterator[str]:
    # A ledger may have thousands of entries of one unknown model.
    reasons: dict[str, list[int]] = {}
    for line in bill.cost.unpriced:
        reasons.setdefault(line.why, []).append(line.usage.total_tokens)

    for why, tokens in reasons.items():
        entries = format_count(len(tokens), "ledger entry", "ledger entries")
        yield f"Not priced: {entries} ({format_count(sum(tokens), 'token')}): {why}"

    for data in _unbilled_data(bill):
        model = f" of {data['model']}" if data["model"] else ""
        if data["tokens"] is not None:
            number = data["number"]
            where = f"message {number}" if number else "a message of another branch"
            yield (
                f"Not in the ledger: {where}, "
                f"{format_count(data['tokens'], 'token')}{model}"
            )

    if unknown := _count_unknown(bill):
        answers = format_count(unknown, "answer")
        yield f"Not recorded: the usage of {answers} of a model"

    if bill.cost.partial:
        stopped = format_count(len(bill.cost.partial), "interrupted answer")
        yield f"Not recorded: the rest of the usage of {stopped}"


def _count_unknown(bill: _Bill) -> int:
    return sum(read_usage(entry.message) is None for entry in bill.cost.unbilled)


def _unbilled_data(bill: _Bill) -> list[dict[str, Any]]:
    data = []
    for entry in bill.cost.unbilled:
        response, usage = read_response(entry.message), read_usage(entry.message)
        data.append(
            {
                # None in another branch, of which only `entry_id` is known.
                "number": bill.numbers.get(entry.id),
                "entry_id": entry.id,
                "model": response.model if response is not None else "",
                # None where the provider reported none, which is not zero.
                "tokens": None if usage is None else usage.total_tokens,
            }
        )

    return data


def _bill_data(bill: _Bill) -> dict[str, Any]:
    return {
        "amount_usd": _amount_data(bill.cost.total, is_known=bill.cost.complete),
        "complete": bill.cost.complete,
        "models": [
            {
                "model": model,
                "entries": len(each.lines),
                "tokens": each.usage.total_tokens,
                "amount_usd": _amount_data(each.total, is_known=each.complete),
                "complete": each.complete,
            }
            for model, each in bill.cost.by_model.items()
        ],
        "lines": [
            {
                "ledger_id": line.entry.id,
                "at": line.at and line.at.isoformat(),
                "model": line.model,
                "tokens": line.usage.total_tokens,
                "amount_usd": None if line.amount is None else f"{line.amount:f}",
                "why": line.why,
                "partial": line.is_partial,
            }
            for line in bill.cost.lines
        ],
        "unbilled": _unbilled_data(bill),
        "unrecorded_answers": _count_unknown(bill),
    }


def _amount_data(amount: Decimal, *, is_known: bool) -> str | None:
    """All digits of *amount*; None where nothing is known, which is not zero."""
    return f"{amount:f}" if amount or is_known else None
