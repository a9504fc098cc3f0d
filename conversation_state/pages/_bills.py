"""
What conversations cost: which branch of a tree recorded which usage, and tables by
model, and by branch and model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from conversation_state._wording import format_count, format_dollars
from conversation_state.aggregator import Aggregator, Entry, LedgerEntry
from conversation_state.counting import Cost, CostLine, cost
from conversation_state.errors import MissingExtraError
from conversation_state.pages._graphs import History
from conversation_state.pages._markup import (
    Child,
    Markup,
    Words,
    draw_head,
    element,
    join_markup,
)
from conversation_state.pages._messages import round_dollars
from conversation_state.pages._trees import draw_labels
from conversation_state.tree import MessageTree

# Further branches, and further models of one branch, share one row.
_MAX_BRANCHES = 50
_MAX_MODELS = 50
_MAX_MODELS_OF_BRANCH = 10

# The number of a revision or a moment, or the identity of a message; None for what is
# before the first message.
_Key: TypeAlias = "int | str | None"
# The key of what is in several branches.
_SHARED = -1


class BranchBill(NamedTuple):
    """What one branch cost, or what several have in common."""

    title: str  # never from a conversation
    labels: tuple[str, ...]  # of its newest state
    is_present: bool  # whether the present state is in it
    cost: Cost


class BranchBills(NamedTuple):
    """What the branches of a tree cost."""

    # What several branches have in common, if that is anything; then each branch, the
    # present one first, then the newest.
    parts: tuple[BranchBill, ...]
    total: Cost  # of all of them together
    has_prices: bool  # whether amounts were asked for

    @property
    def has_usage(self) -> bool:
        return bool(self.total.lines or self.total.unbilled)


def compute_bills(
    value: History | MessageTree, *, max_priced: int | None = None
) -> BranchBills:
    """
    What each branch of *value* cost: each usage once, at the branch of the first
    state that has it, or as shared if several branches grew from that state.

    So what was rolled back stays with the branch that was abandoned, although the
    ledger of the present one has it, too. The parts add up to the cost of the union
    of all states. O(states + what is new in each).

    Of more than *max_priced* ledger entries the tokens are given alone; a price takes
    a tenth of a millisecond.
    """
    parents: dict[_Key, _Key]
    labels: dict[_Key, tuple[str, ...]] = {}
    present: _Key
    if isinstance(value, History):
        parents = {each.number: each.parent for each in value.states}
        titles = {key: f"Branch to {value.noun} {key}" for key in parents}
        labels = {each.number: each.labels for each in value.states}
        present = value.present
    else:
        parents = {node.id: node.parent for node in value.nodes}
        titles = {
            key: f"Branch to message {number}" for number, key in enumerate(parents, 1)
        }
        present = value.head

    ledger, entries, origins = _collect_usage(_list_states(value))
    total, has_prices = _price_union(ledger, entries, max_priced)
    tips = _find_tips(parents)
    lines: dict[_Key, list[CostLine]] = {}
    for line in total.lines:
        lines.setdefault(tips[origins[line.entry.id, True]], []).append(line)

    unbilled: dict[_Key, list[Any]] = {}
    for entry in total.unbilled:
        unbilled.setdefault(tips[origins[entry.id, False]], []).append(entry)

    here = tips.get(present)
    keys = [key for key in reversed([*titles]) if tips[key] == key]
    # What was billed before the first message of a tree that has none.
    keys += [None] if not keys else []
    keys.sort(key=lambda key: key != here)
    if _SHARED in lines or _SHARED in unbilled:
        keys.insert(0, _SHARED)

    parts = [
        BranchBill(
            titles.get(key, "In several branches"),
            labels.get(key, ()),
            key == here,
            Cost(tuple(lines.get(key, ())), tuple(unbilled.get(key, ()))),
        )
        for key in keys
    ]
    return BranchBills(tuple(parts), total, has_prices)


def _find_tips(parents: Mapping[_Key, _Key]) -> dict[_Key, _Key]:
    """
    For each state, the tip of the branch that it is in, or `_SHARED`; under None
    that of what is before the first ones. Parents come before their children.
    """
    # From the newest on: when a state's turn comes, all its children have marked it.
    tips: dict[_Key, _Key] = {}
    for key in reversed([*parents]):
        tip = tips.setdefault(key, key)
        parent = parents[key] if parents[key] in parents else None
        tips[parent] = _SHARED if parent in tips else tip

    tips.setdefault(None, None)
    return tips


def _list_states(
    value: History | MessageTree,
) -> Iterator[tuple[_Key, Aggregator, Aggregator | None]]:
    """
    Each state under its key in the tree, with one before it that shares most of it.
    """
    if isinstance(value, History):
        known: dict[int | None, Aggregator] = {}
        for each in value.states:
            if isinstance(each.state, Aggregator):
                known[each.number] = each.state
                yield each.number, each.state, known.get(each.parent)

        return

    past = None
    for state in value.states:
        yield state.entries[-1].id if len(state) else None, state, past
        past = state


def _collect_usage(
    states: Iterable[tuple[_Key, Aggregator, Aggregator | None]],
) -> tuple[list[LedgerEntry], list[Entry], dict[tuple[str, bool], _Key]]:
    """
    What all *states* have, each identity once: ledger entries (of two with one
    identity the first, as in a join), and the messages. For each identity, and
    whether it is of the ledger, the key of the first state that has it.
    """
    ledger: list[LedgerEntry] = []
    entries: list[Entry] = []
    origins: dict[tuple[str, bool], _Key] = {}
    for key, state, past in states:
        # What the past has is known already; a state alone is read from its start.
        start = 0 if past is None else state.ledger.common_prefix(past.ledger)
        for line in state.ledger.iterate(start):
            if (line.id, True) not in origins:
                origins[line.id, True] = key
                ledger.append(line)

        start = 0 if past is None else state.entries.common_prefix(past.entries)
        for entry in state.entries.iterate(start):
            if (entry.id, False) not in origins:
                origins[entry.id, False] = key
                entries.append(entry)

    return ledger, entries, origins


class _Union(NamedTuple):
    """What `cost` takes."""

    ledger: Sequence[LedgerEntry]
    entries: Sequence[Entry]


def _price_union(
    ledger: Sequence[LedgerEntry], entries: Sequence[Entry], max_priced: int | None
) -> tuple[Cost, bool]:
    """The cost, and whether it has prices; of long ledgers only the tokens."""
    unbilled: tuple[Any, ...] = ()
    partial: set[str] = set()
    if max_priced is None or len(ledger) <= max_priced:
        try:
            return cost(_Union(ledger, entries)), True
        except MissingExtraError:
            # Without models there is nothing to price, and the same is unbilled.
            nameless = [entry._replace(model="") for entry in ledger]
            found = cost(_Union(nameless, entries))
            unbilled = found.unbilled
            partial = {line.entry.id for line in found.partial}

    lines = [CostLine(entry, None, is_partial=entry.id in partial) for entry in ledger]
    return Cost(tuple(lines), unbilled), False


# Tables


def draw_cost(found: Cost, words: Words, *, has_prices: bool = True) -> Markup:
    """A row for each model; tokens alone if it has no prices."""
    rows = _draw_models(found, words, _MAX_MODELS, has_prices=has_prices)
    body = element("tbody", None, rows)
    return _draw_table("Model", [body], found, words, has_prices=has_prices)


def draw_bill(state: Aggregator, words: Words) -> Markup:
    """The cost of *state* by model; without the extra ``prices`` its tokens alone."""
    found, has_prices = _price_union(state.ledger, state.entries, None)
    return draw_cost(found, words, has_prices=has_prices)


def draw_branch_bills(bills: BranchBills, words: Words) -> Markup:
    """
    What each branch cost, by model, with what several branches have in common once;
    of a single branch the cost by model.
    """
    has_prices = bills.has_prices
    if len(bills.parts) == 1:
        return draw_cost(bills.total, words, has_prices=has_prices)

    parts = list(bills.parts[:_MAX_BRANCHES])
    others = bills.parts[_MAX_BRANCHES:]
    if others:
        rest = Cost(
            tuple([line for each in others for line in each.cost.lines]),
            tuple([entry for each in others for entry in each.cost.unbilled]),
        )
        title = format_count(len(others), "other branch", "other branches")
        parts.append(BranchBill(title, (), is_present=False, cost=rest))

    groups = []
    for part in parts:
        heading: Child = [
            part.title,
            draw_labels(part.labels, words),
            element("em", None, "you are here") if part.is_present else None,
        ]
        head = _draw_row(heading, part.cost, has_prices=has_prices, scope="rowgroup")
        rows = _draw_models(
            part.cost, words, _MAX_MODELS_OF_BRANCH, has_prices=has_prices
        )
        groups.append(element("tbody", {"class": "cs-branch"}, head, rows))

    return _draw_table(
        "Branch and model", groups, bills.total, words, has_prices=has_prices
    )


def _draw_models(
    found: Cost, words: Words, most: int, *, has_prices: bool
) -> list[Markup]:
    models = list(found.by_model.items())
    rows = [
        _draw_row(
            words.line(model) if model else "no model recorded",
            each,
            has_prices=has_prices,
        )
        for model, each in models[:most]
    ]
    if len(models) > most:
        rest = Cost(tuple([line for _, each in models[most:] for line in each.lines]))
        title = format_count(len(models) - most, "other model")
        rows.append(_draw_row(title, rest, has_prices=has_prices))

    return rows


def _draw_table(
    what: str, groups: Sequence[Markup], total: Cost, words: Words, *, has_prices: bool
) -> Markup:
    """
    *groups* under the heading *what*, with the total below, and why it isn't known.
    """
    heads = [what, "Input", "Output", "Tokens", *(["Cost"] if has_prices else [])]
    foot = _draw_row("Total", total, has_prices=has_prices, tag="th")
    table = element(
        "table",
        {"class": "cs-bill"},
        draw_head(heads),
        groups,
        element("tfoot", None, foot),
    )
    pieces = [element("div", {"class": "cs-table", "tabindex": 0}, table)]
    if has_prices and not total.complete:
        # Why something has no price names its model.
        why = words.line(str(total), 500) if total.unpriced else str(total)
        heading = "Cost " if why.startswith("unknown") else "Cost: "
        pieces.append(element("p", {"class": "cs-rest"}, heading, why, "."))
    elif total.unbilled or total.partial:
        partial = [line._replace(amount=Decimal(0)) for line in total.partial]
        left_out = str(Cost(tuple(partial), total.unbilled)).removeprefix("unknown: ")
        pieces.append(
            element("p", {"class": "cs-rest"}, "Not counted: ", left_out, ".")
        )

    return join_markup(pieces)


def _draw_row(
    title: Child, found: Cost, *, has_prices: bool, tag: str = "td", scope: str = "row"
) -> Markup:
    # Ten times as fast as adding usages, and a notebook waits for it.
    prompt = completion = tokens = 0
    for line in found.lines:
        usage = line.entry.usage
        prompt += usage.prompt_tokens
        completion += usage.completion_tokens
        tokens += usage.total_tokens

    counts = [f"{each:,}" for each in (prompt, completion, tokens)]
    if found.unbilled and not found.lines:
        counts = ["–"] * 3  # nothing is recorded, which is not zero

    return element(
        "tr",
        None,
        element("th", {"scope": scope}, title),
        [element(tag, None, each) for each in counts],
        _draw_amount(found, tag) if has_prices else None,
    )


def _draw_amount(found: Cost, tag: str) -> Markup:
    # In a few words; why something is not known is below the table.
    exact = format_dollars(found.total)
    if found.complete:
        return element(tag, {"title": exact}, round_dollars(found.total))

    if not found.total:
        return element(tag, None, "unknown")

    return element(tag, {"title": exact}, f"at least {round_dollars(found.total)}")
