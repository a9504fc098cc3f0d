"""
What conversations cost, as tables: by model, and by branch and model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from conversation_state._wording import format_count, format_dollars
from conversation_state.aggregator import Aggregator
from conversation_state.counting import Cost, CostLine, cost
from conversation_state.errors import MissingExtraError
from conversation_state.pages._branches import BranchBill, BranchBills
from conversation_state.pages._markup import Child, Markup, Words, element, join_markup
from conversation_state.pages._trees import draw_labels

__all__ = ["draw_bill", "draw_branch_bills", "draw_cost"]


# Further branches, and further models of one branch, share one row.
_MAX_BRANCHES = 50
_MAX_MODELS = 50
_MAX_MODELS_OF_BRANCH = 10


class _BillRow(NamedTuple):
    title: Child  # what the row is of: a model; plain text is escaped
    figures: tuple[int, int, int]  # its tokens: of prompts, of completions, and all
    price: Child  # its price; "" if prices are not installed


class _BillGroup(NamedTuple):
    """
    Some rows of a bill, below what they add up to.
    """

    sum: _BillRow | None  # what they add up to; None if that is the total
    rows: tuple[_BillRow, ...]  # the rows; () if the sum says it all


def draw_cost(found: Cost, words: Words, *, has_prices: bool = True) -> Markup:
    rows = _list_models(found, words, _MAX_MODELS, has_prices=has_prices)
    total = _make_row("Total", found, has_prices=has_prices)
    why = _explain_unknown(found, words) if has_prices else None
    return join_markup([_draw_table("Model", [_BillGroup(None, rows)], total), why])


def draw_bill(state: Aggregator, words: Words) -> Markup:
    """
    The cost of *state* by model; its tokens alone where the extra ``prices`` is
    missing.
    """
    try:
        return draw_cost(cost(state), words)
    except MissingExtraError:
        lines = [CostLine(entry, None) for entry in state.ledger]
        return draw_cost(Cost(tuple(lines)), words, has_prices=False)


def draw_branch_bills(bills: BranchBills, words: Words) -> Markup:
    """
    What each branch cost, by model, with what several branches have in common once;
    of a single branch the cost by model.
    """
    if len(bills.parts) == 1:
        return draw_cost(bills.total, words, has_prices=bills.has_prices)

    groups = [_make_group(part, bills, words) for part in bills.parts[:_MAX_BRANCHES]]
    others = bills.parts[_MAX_BRANCHES:]
    if others:
        rest = Cost(
            tuple([line for each in others for line in each.cost.lines]),
            tuple([entry for each in others for entry in each.cost.unbilled]),
        )
        title = format_count(len(others), "other branch", "other branches")
        groups.append(
            _make_group(
                BranchBill(title, (), is_present=False, cost=rest), bills, words
            )
        )

    total = _make_row("Total", bills.total, has_prices=bills.has_prices)
    why = _explain_unknown(bills.total, words) if bills.has_prices else None
    return join_markup([_draw_table("Branch and model", groups, total), why])


def _explain_unknown(found: Cost, words: Words) -> Markup | None:
    if not (found.unpriced or found.unbilled):
        return None

    # Why something has no price names its model.
    why = words.line(str(found), 500) if found.unpriced else str(found)
    return element("p", {"class": "cs-rest"}, "Cost: ", why, ".")


def _make_group(part: BranchBill, bills: BranchBills, words: Words) -> _BillGroup:
    title: Child = [
        part.title,
        draw_labels(part.labels, words),
        element("em", None, "you are here") if part.is_present else None,
    ]
    has_prices = bills.has_prices
    return _BillGroup(
        _make_row(title, part.cost, has_prices=has_prices),
        _list_models(part.cost, words, _MAX_MODELS_OF_BRANCH, has_prices=has_prices),
    )


def _list_models(
    found: Cost, words: Words, most: int, *, has_prices: bool
) -> tuple[_BillRow, ...]:
    models = list(found.by_model.items())
    rows = [
        _make_row(
            words.line(model) if model else "no model recorded",
            each,
            has_prices=has_prices,
        )
        for model, each in models[:most]
    ]
    if len(models) > most:
        rest = Cost(tuple([line for _, each in models[most:] for line in each.lines]))
        title = format_count(len(models) - most, "other model")
        rows.append(_make_row(title, rest, has_prices=has_prices))

    return tuple(rows)


def _make_row(title: Child, found: Cost, *, has_prices: bool) -> _BillRow:
    price = _describe_amount(found) if has_prices else ""
    return _BillRow(title, _sum_tokens(found), price)


def _sum_tokens(found: Cost) -> tuple[int, int, int]:
    # Ten times as fast as adding usages, and a notebook waits for it.
    prompt = completion = total = 0
    for line in found.lines:
        usage = line.entry.usage
        prompt += usage.prompt_tokens
        completion += usage.completion_tokens
        total += usage.total_tokens

    return prompt, completion, total


def _describe_amount(found: Cost) -> str:
    """
    What is known of a cost, in a few words; why something is not known is below.
    """
    if not (found.unpriced or found.unbilled):
        return str(found)

    return f"at least {format_dollars(found.total)}" if found.total else "unknown"


def _draw_table(what: str, groups: Sequence[_BillGroup], total: _BillRow) -> Markup:
    is_priced = bool(total.price)
    heads = [what, "Input", "Output", "Tokens", *(["Cost"] if is_priced else [])]
    table = element(
        "table",
        {"class": "cs-bill"},
        element(
            "thead",
            None,
            element("tr", None, [element("th", {"scope": "col"}, x) for x in heads]),
        ),
        [_draw_group(each, is_priced=is_priced) for each in groups],
        element("tfoot", None, _draw_row(total, "th", is_priced=is_priced)),
    )
    return element("div", {"class": "cs-table", "tabindex": 0}, table)


def _draw_group(group: _BillGroup, *, is_priced: bool) -> Markup:
    rows = [_draw_row(row, "td", is_priced=is_priced) for row in group.rows]
    if group.sum is None:
        return element("tbody", None, rows)

    head = _draw_row(group.sum, "td", is_priced=is_priced, scope="rowgroup")
    return element("tbody", {"class": "cs-branch"}, head, rows)


def _draw_row(
    row: _BillRow, tag: str, *, is_priced: bool, scope: str = "row"
) -> Markup:
    return element(
        "tr",
        None,
        element("th", {"scope": scope}, row.title),
        [element(tag, None, f"{each:,}") for each in row.figures],
        element(tag, None, row.price) if is_priced else None,
    )
