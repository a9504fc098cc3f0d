"""
What a conversation cost, as a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from conversation_state._wording import format_count
from conversation_state.aggregator import Aggregator
from conversation_state.counting import Cost, cost
from conversation_state.errors import MissingExtraError
from conversation_state.pages._markup import Child, Markup, Words, element
from conversation_state.usage import Usage

__all__ = ["BillRow", "draw_bill", "draw_bill_table", "draw_cost"]


# Further models share one row.
_MAX_ROWS = 50


class BillRow(NamedTuple):
    """
    One row of a bill.

    Attributes:
        title: What the row is of: a model; plain text is escaped.

        usage: Its tokens.

        price: Its price; "" if prices are not installed.
    """

    title: Child
    usage: Usage
    price: Child


def draw_cost(found: Cost, words: Words) -> Markup:
    """
    A cost, with a row for each model.
    """
    rows = [
        BillRow(_draw_model(model, words), each.usage, _draw_price(each, words))
        for model, each in found.by_model.items()
    ]
    total = BillRow("Total", found.usage, _draw_price(found, words))
    return draw_bill_table("Model", rows, total)


def draw_bill(state: Aggregator, words: Words) -> Markup:
    """
    The cost of *state* by model; its tokens alone where the extra ``prices`` is
    missing.
    """
    try:
        return draw_cost(cost(state), words)
    except MissingExtraError:
        usages: dict[str, Usage] = {}
        for entry in state.ledger:
            usages[entry.model] = usages.get(entry.model, Usage()) + entry.usage

        rows = [
            BillRow(_draw_model(model, words), usage, "")
            for model, usage in usages.items()
        ]
        return draw_bill_table("Model", rows, BillRow("Total", state.total_usage, ""))


def _draw_model(model: str, words: Words) -> Child:
    return words.line(model) if model else "no model recorded"


def _draw_price(found: Cost, words: Words) -> Child:
    # Why something has no price names its model.
    return words.line(str(found), 300) if found.unpriced else str(found)


def draw_bill_table(what: str, rows: Sequence[BillRow], total: BillRow) -> Markup:
    """
    *rows* under the heading *what*, with *total* below.
    """
    if len(rows) > _MAX_ROWS:
        others = rows[_MAX_ROWS - 1 :]
        usage = sum([row.usage for row in others], Usage())
        title = format_count(len(others), "other")
        rows = [*rows[: _MAX_ROWS - 1], BillRow(title, usage, "")]

    is_priced = any(row.price for row in [*rows, total])
    heads = [what, "Input", "Output", "Tokens", *(["Cost"] if is_priced else [])]
    table = element(
        "table",
        {"class": "cs-bill"},
        element(
            "thead", None, element("tr", None, [_draw_heading(each) for each in heads])
        ),
        element("tbody", None, [_draw_row(row, "td", is_priced) for row in rows]),
        element("tfoot", None, _draw_row(total, "th", is_priced)),
    )
    return element("div", {"class": "cs-table", "tabindex": 0}, table)


def _draw_heading(text: str) -> Markup:
    return element("th", {"scope": "col"}, text)


def _draw_row(row: BillRow, tag: str, is_priced: bool) -> Markup:  # noqa: FBT001
    usage = row.usage
    figures = (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)
    return element(
        "tr",
        None,
        element("th", {"scope": "row"}, row.title),
        [element(tag, None, f"{each:,}") for each in figures],
        element(tag, None, row.price) if is_priced else None,
    )
