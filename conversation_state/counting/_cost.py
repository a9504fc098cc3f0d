"""Cost: a ledger priced entry by entry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal, localcontext
from typing import NamedTuple, Protocol

import attrs

from conversation_state._drawing import draw_fragment
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
from conversation_state.messages import (
    Answer,
    Message,
    digest_answer,
    digest_of_key,
    find_erasure,
    group_answers,
    id_of_key,
    is_interrupted,
    read_usage,
    split_caveat,
)
from conversation_state.usage import Usage

_MAX_REASONS = 3
# Similar names are looked for once for each model, and for so many models at most: it
# takes up to 40 ms, and a ledger from elsewhere may have thousands of names.
_MAX_SUGGESTED = 20
_NOTHING = Usage()
# Behind the id of an entry: the key of what its answer had not reported.
_REST = "#rest"
# The ends of keys that never account for an answer: the usage is the rest of one, or
# of one that a fallback model rejected.
_NO_ANSWER = (_REST, "#rejected")


class UsageEntry(Protocol):
    """
    **Protocol:** one entry of a ledger.

    Attributes:
        id: Its identity.
        usage: The recorded usage.
        model: The model; "" if it is unknown.
        at: When the tokens were used; None if it is unknown.

    An entry may have the `caveat` of a `LedgerEntry`, too.
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
    """**Protocol:** one entry of a conversation: its identity and its message."""

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
        is_partial: Whether an answer that was interrupted has reported this usage,
            and no more is recorded of it: it cost at least that.
    """

    entry: UsageEntry
    amount: Decimal | None
    why: str = ""
    is_partial: bool = False

    @property
    def model(self) -> str:
        """The model; "" if it is unknown."""
        return self.entry.model

    @property
    def usage(self) -> Usage:
        """The tokens."""
        return self.entry.usage

    @property
    def at(self) -> datetime | None:
        """When they were used; None if it is unknown."""
        return self.entry.at


@final
@attrs.frozen
class Cost:
    """
    The known cost of a ledger.

    Attributes:
        lines: The cost of each ledger entry, in the ledger's order.
        unbilled: The answers of the conversation whose usage is in no ledger
            entry, in order; the first of several messages of one response.
            `Aggregator.record_responses` records those that report their usage; of
            others, one that was stopped say, it is unknown what they cost.
        total: The sum of the amounts that are known, in US dollars; exact.
    """

    lines: tuple[CostLine, ...] = ()
    unbilled: tuple[WithMessage, ...] = ()
    total: Decimal = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        amounts = [line.amount for line in self.lines if line.amount is not None]
        # The program's own context may round after a few digits.
        with localcontext(EXACT):
            total = sum(amounts, Decimal(0))

        object.__setattr__(self, "total", total)

    @property
    def complete(self) -> bool:
        """
        Whether `total` is all that the conversation cost: every ledger entry has a
        price, and every answer is in the ledger, with all its usage.
        """
        return not (self.unpriced or self.unbilled or self.partial)

    @property
    def unpriced(self) -> tuple[CostLine, ...]:
        """The lines that can't be priced, with the reason: what `total` lacks."""
        return tuple([line for line in self.lines if line.amount is None])

    @property
    def partial(self) -> tuple[CostLine, ...]:
        """The lines of interrupted answers, which cost at least that."""
        return tuple([line for line in self.lines if line.is_partial])

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
        """The tokens of all lines."""
        return sum([line.usage for line in self.lines], _NOTHING)

    def __str__(self) -> str:
        parts = []
        if self.unpriced:
            parts.append(self._describe_unpriced())

        usages = [read_usage(entry.message) for entry in self.unbilled]
        reported = [usage.total_tokens for usage in usages if usage is not None]
        if reported:
            responses = format_count(len(reported), "response")
            tokens = format_count(sum(reported), "token")
            parts.append(f"{responses} ({tokens}) not in the ledger")

        if unknown := len(usages) - len(reported):
            parts.append(f"{format_count(unknown, 'answer')} of unknown usage")

        if self.partial:
            stopped = format_count(len(self.partial), "interrupted answer")
            parts.append(f"the unknown rest of {stopped}")

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
    an unknown model, usage without a price (see `price`), and usage of an answer
    that was served at another price, by its service tier say.

    What an answer reports that was interrupted is priced and marked
    (`CostLine.is_partial`), until the rest is recorded, be it zero, with the key
    ``f"{entry.id}#rest"``, where *entry* is that of the line, or the answer's own.
    The usage of an answer that reported none may have this key, too. More usage than
    was reported, recorded under a key of the answer, also counts as the rest, unless
    the line is under a key of the program's own. Of an answer that a rollback took
    out, only the key of its line is known.

    Answers whose usage is in no ledger entry are listed, too (`Cost.unbilled`), also
    those of which no usage came: a stream that was stopped, a server that reports
    none, a message that was imported or made by hand; but not those that Claude Code
    wrote itself, under the model ``<synthetic>``. An answer is in the ledger if
    there is an entry under its `response_key`, its response's id, or the identity of
    its own entry. An entry under a key of the program's own, as ``add_usage(usage)``
    makes, accounts for one answer: one that reports an equal usage, or one that
    reports none and was not stopped. O(messages + ledger entries).

    Args:
        state: Anything with a `ledger`: an `Aggregator`, a `Turn`.
        when: An aware `datetime`, whose prices are used for all entries, whatever
            their time.

    Raises:
        MissingExtraError: If an entry names a model and the extra ``prices`` is not
            installed.
        ValueError: If *when* has no time zone.
    """
    now = check_moment(when)
    models: dict[str, FoundModel | str] = {}
    lines = []
    found = _match_answers(state)
    for entry in _read_ledger(state):
        at = now if when is not None else entry.at or now
        line = _price_entry(entry, models, at, found.tiers.get(entry.id, ""))
        lines.append(line._replace(is_partial=entry.id in found.partial))

    return Cost(tuple(lines), tuple(found.unbilled))


class _Matches(NamedTuple):
    """What the answers of a conversation say of its ledger."""

    unbilled: list[WithMessage]  # the first of each answer that is in no ledger entry
    partial: set[str]  # the ledger entries of which an answer was interrupted
    tiers: dict[str, str]  # how an answer was served, by ledger entry


def _match_answers(state: HasLedger) -> _Matches:
    found = _Matches([], set(), {})
    recorded: dict[str, Usage] = {}
    noted: set[str] = set()  # those that are partial by their own caveat
    for entry in _read_ledger(state):
        recorded[entry.id] = entry.usage
        is_partial, tier = split_caveat(getattr(entry, "caveat", ""))
        if tier:
            found.tiers[entry.id] = tier
            # The rest may have its own, before or behind it.
            found.tiers.setdefault(f"{entry.id}{_REST}", tier)

        if is_partial:
            noted.add(entry.id)

    noted = {id for id in noted if f"{id}{_REST}" not in recorded}
    answers = _list_answers(state)
    matched = _find_recorded(answers, recorded)
    for each in answers:
        answer = each.answer
        is_partial, tier = split_caveat(answer.caveat)
        own = matched.get(answer.entries[0].id)
        if own is None:
            found.unbilled.append(answer.entries[0])
            continue

        partial: list[str] = []
        if is_partial:
            partial = _find_partial(each, {id: recorded[id] for id in own})

        rests = recorded.keys() & _make_rest_keys(answer, partial)
        if not rests:
            found.partial.update(partial)

        if rests or answer.usage is not None:
            noted -= own

        if tier:
            found.tiers.update(dict.fromkeys(own | rests, tier))

    found.partial.update(noted)
    return found


def _make_rest_keys(answer: Answer, partial: Iterable[str] = ()) -> set[str]:
    """The ledger ids of what *answer* did not report; *partial* has what it did."""
    ids = [*partial, *(entry.id for entry in answer.entries)]
    return {f"{id}{_REST}" for id in ids}


class _Listed(NamedTuple):
    """An answer, and what others have in common with it."""

    answer: Answer
    key: str
    reports: list[Usage | None]  # of all answers of its key
    answers_of_id: Counter[str]  # how many there are, by the provider's ids

    @property
    def is_alone(self) -> bool:
        """Whether no other answer has its response's id."""
        response_id = self.answer.response_id
        return not response_id or self.answers_of_id[response_id] == 1


def _list_answers(state: HasLedger) -> list[_Listed]:
    # One response that was added twice is one answer. Some servers use one id for all
    # responses, so that several usages may be of one key, and several keys of one id.
    answers: list[_Listed] = []
    usages_of_key: dict[str, list[Usage | None]] = {}
    answers_of_id: Counter[str] = Counter()
    for answer in group_answers(getattr(state, "entries", ())):
        if answer.is_synthetic:
            continue

        key = answer.key
        usages = usages_of_key.setdefault(key, [])
        # Compared and not hashed, which takes three times as long.
        if answer.usage not in usages:
            answers_of_id[answer.response_id] += 1
            usages.append(answer.usage)
            answers.append(_Listed(answer, key, usages, answers_of_id))

    return answers


def _find_recorded(
    answers: list[_Listed], recorded: dict[str, Usage]
) -> dict[str, set[str]]:
    """
    The ledger entries with the usage of each of *answers* that has any, by the
    identity of its first entry.
    """
    found: dict[str, set[str]] = {}
    rest = dict(recorded)
    missing = []
    for each in answers:
        answer, usage = each.answer, each.answer.usage
        keys = {each.key, *answer.other_keys()} & recorded.keys()
        if len(each.reports) > 1:
            keys |= {answer.second_key} & recorded.keys()

        for key in keys:
            rest.pop(key, None)

        # Under an id that other answers have, it may be the usage of those.
        shared = set() if each.is_alone else {answer.response_id}
        if usage is None:
            keys |= _make_rest_keys(answer) & recorded.keys()
            is_recorded = bool(keys - shared)
        else:
            is_recorded = answer.is_recorded_by([recorded[key] for key in keys])
            # Alone with its id it has that usage, though it reports another.
            is_recorded = is_recorded or (each.is_alone and bool(keys))

        if is_recorded:
            own = {key for key in keys if key not in shared or recorded[key] == usage}
            found[answer.entries[0].id] = own
        else:
            missing.append(answer)

    left = _UnclaimedUsage(rest)
    # Those that report a usage first, because they know which entry is theirs.
    for answer in sorted(missing, key=lambda answer: answer.usage is None):
        if claimed := left.claim(answer):
            found[answer.entries[0].id] = {claimed}

    return found


def _find_partial(listed: _Listed, recorded: dict[str, Usage]) -> list[str]:
    """
    The ledger entry with what an interrupted answer reported until then; none if
    *recorded*, which the ledger has of it (one entry at least), is more than that.
    """
    answer = listed.answer
    if answer.usage is None:
        return []

    own = [answer.usage, *(read_usage(entry.message) for entry in answer.entries)]
    reports = [*own, *listed.reports]
    reported = [key for key, usage in recorded.items() if usage in own]
    later = [usage for usage in recorded.values() if usage not in reports]
    least = 0 if reported else answer.usage.total_tokens
    if sum(usage.total_tokens for usage in later) > least:
        return []

    # Its messages may have been recorded one by one, each with the count until then.
    keys = reported or recorded
    return [max(keys, key=lambda key: recorded[key].total_tokens)]


class _UnclaimedUsage:
    """
    The entries of a ledger that have none of the keys of an answer: of responses that
    are not in the conversation, and those under keys of the program's own.
    """

    def __init__(self, usages: dict[str, Usage]) -> None:
        # By key, in order.
        self._of_responses: dict[str, dict[str, Usage]] = {}
        self._digests: dict[str, list[str]] = {}
        self._own: dict[str, Usage] = {}
        for key, usage in usages.items():
            if response_id := id_of_key(key):
                self._of_responses.setdefault(response_id, {})[key] = usage
                self._digests.setdefault(digest_of_key(key), []).append(key)
            elif usage != _NOTHING and not key.endswith(_NO_ANSWER):
                self._own[key] = usage

    def claim(self, answer: Answer) -> str:
        """
        The entry that is that of *answer*, or ""; the next answer can't have it.
        """
        usage, message = answer.usage, answer.entries[0].message
        if usage is not None:
            # The first are those of a response whose text was edited since.
            of_response = self._of_responses.get(answer.response_id, {})
            return _take_usage(of_response, usage) or _take_usage(self._own, usage)

        if find_erasure(message) is not None:
            # Nothing says which one it was.
            for usages in (*self._of_responses.values(), self._own):
                if usages:
                    return usages.popitem()[0]

            return ""

        if is_interrupted(message):
            return ""

        # Hosts keep messages apart from the facts about their responses.
        digest = "" if answer.response_id else digest_answer([message])
        if keys := self._digests.get(digest):
            return keys.pop()

        own = next(iter(self._own), "")
        self._own.pop(own, None)
        return own


def _take_usage(usages: dict[str, Usage], usage: Usage) -> str:
    """The key of *usage* in *usages*, which has it no longer; "" if it has none."""
    key = next((key for key, each in usages.items() if each == usage), "")
    usages.pop(key, None)
    return key


def _read_ledger(state: HasLedger) -> Iterable[UsageEntry]:
    try:
        return state.ledger
    except AttributeError:
        raise TypeError(
            "state: expected an object with a ledger, such as an Aggregator, got "
            f"{describe_value(state)}"
        ) from None


def _price_entry(
    entry: UsageEntry, models: dict[str, FoundModel | str], when: datetime, tier: str
) -> CostLine:
    """
    The line of *entry*; *models* has each model that was asked for, or why it is
    unknown. *tier* is how it was served, if not at the standard price.
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

    if tier:
        why = f"the standard price may not apply ({tier})"
        return CostLine(entry, None, str(UnpricedError(model, why)))

    try:
        return CostLine(entry, price_of(entry.usage, model, found, when))
    except UnpricedError as error:
        return CostLine(entry, None, str(error))
