"""
The comparison of two states.
"""

from __future__ import annotations

from itertools import islice
from operator import attrgetter

import attrs

from conversation_state._lazy import draw_difference
from conversation_state._persistent import final
from conversation_state._wording import describe_value, format_count, shorten_repr
from conversation_state.aggregator import Aggregator, Checkpoint, Entry, LedgerEntry
from conversation_state.diffing._divergence import Divergence, Pair, pair_equivalent
from conversation_state.diffing._text import format_markdown, format_text
from conversation_state.usage import Usage

# How many common entries are shown, as before the first change of a unified diff.
_CONTEXT = 3


@final
@attrs.frozen(repr=False)
class Diff:
    """
    What two states, *a* and *b*, have in common, and what only one of them has.

    A value without a reference to either state: small, picklable, equal by
    content. False if entries and ledgers are the same; the states may still
    differ in their id or fork point, as a new fork does from its parent.

    ``str()`` is for a terminal, `markdown` for a page, `html` for notebooks, which
    display it by themselves.

    Made by `diff`.

    Attributes:
        entries: Where the messages diverge, and what each side has since then.

        ledger: The same for the ledgers.

        context: The last entries before that, which both have; at most three.

        identical: Whether the states are equal in everything, id and fork point
            included.

        related: Whether they have any past in common, as
            `Aggregator.is_related_to` decides.

        same: Of the entries that only one side has, pairs with the same
            content: a retry that gave the same answer, a prompt that was typed
            twice. Role, name, text, other parts and calls are the same; ids,
            times, metadata and reasoning may differ. In *a*'s order, each entry
            in one pair at most.
    """

    entries: Divergence[Entry]
    ledger: Divergence[LedgerEntry]
    context: tuple[Entry, ...]
    identical: bool
    related: bool
    same: tuple[Pair[Entry], ...] = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        pairs = pair_equivalent(self.entries.only_a, self.entries.only_b)
        object.__setattr__(self, "same", pairs)

    @property
    def common(self) -> int:
        """
        The number of leading entries that both have.
        """
        return self.entries.common

    @property
    def only_a(self) -> tuple[Entry, ...]:
        """
        The entries that only *a* has, in its order.
        """
        return self.entries.only_a

    @property
    def only_b(self) -> tuple[Entry, ...]:
        """
        The entries that only *b* has, in its order: what ``a.join(b)`` adds.
        """
        return self.entries.only_b

    @property
    def usage_a(self) -> Usage:
        """
        The usage that only *a* recorded. O(ledger entries).
        """
        return sum([entry.usage for entry in self.ledger.only_a], Usage())

    @property
    def usage_b(self) -> Usage:
        """
        The usage that only *b* recorded: what ``a.join(b)`` adds to the ledger.
        """
        return sum([entry.usage for entry in self.ledger.only_b], Usage())

    def reversed(self) -> Diff:
        """
        The same from the other side: ``diff(b, a)``.
        """
        return attrs.evolve(
            self, entries=self.entries.reversed(), ledger=self.ledger.reversed()
        )

    def text(self, *, names: tuple[str, str] = ("a", "b"), limit: int = 40) -> str:
        """
        The difference for a terminal, like a unified diff.

        Lines begin with a sign: ``-`` only *a* has the entry, ``+`` only *b*,
        ``=`` both have the same content in entries of their own (shown as in
        *a*), a space: both have the entry, ``!``: both have the entry, with
        different messages (first *a*'s). Each part of a message has one line,
        shortened around its first difference from the other side. Content can't
        imitate a sign or a heading.

        Args:
            names: Names of the two sides.

            limit: The most messages that are shown of each side; the number of
                the others is given.

        Raises:
            TypeError:
                If *names* is anything but two texts.

            ValueError:
                If *limit* is not a positive number.
        """
        return format_text(self, *_check_options(names, limit))

    def markdown(self, *, names: tuple[str, str] = ("a", "b"), limit: int = 40) -> str:
        """
        The difference as Markdown: a heading for each message, text quoted,
        arguments and results as code; of long texts the beginning, or what is
        around the first difference.

        As in `render_transcript`, content can't break out of its quote. What
        both sides have is shown once, as in *a*.

        Args and errors are those of `text`.
        """
        return format_markdown(self, *_check_options(names, limit))

    def html(self, *, names: tuple[str, str] = ("a", "b"), limit: int = 100) -> str:
        """
        The difference as a fragment of HTML: *a* on the left, *b* on the right.

        Self-contained: with its own styles, readable on light and on dark; no
        scripts, links or images. All content is escaped. What both have in
        common is folded, and so are long texts, of which at most 10,000
        characters are included, around the first difference; where two
        neighbouring messages differ a little, the words are marked.

        Args and errors are those of `text`.
        """
        a, b, limit = _check_options(names, limit)
        return draw_difference(self, (a, b), limit)

    def __bool__(self) -> bool:
        return bool(self.entries) or bool(self.ledger)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        # There is no `_repr_markdown_`: in Markdown notebooks take any "$" for
        # the start of a formula, and HTML has a class against that.
        return self.html()

    def __repr__(self) -> str:
        return (
            f"<Diff: {format_count(self.common, 'message')} in common, "
            f"{len(self.only_a):,} only in a, {len(self.only_b):,} only in b>"
        )


def _check_options(names: tuple[str, str], limit: int) -> tuple[str, str, int]:
    match names:
        case (str(a), str(b)):
            pass
        case _:
            raise TypeError(
                f"names is {shorten_repr(names)}; expected two texts, one for each side"
            )

    if limit.__class__ is not int or limit < 1:
        raise ValueError(
            f"limit is {shorten_repr(limit)}; expected a positive number of messages"
        )

    return a, b, limit


# What states are compared by, besides entries and ledger.
_lineage = attrgetter("id", "parent_id", "root_id", "init_len", "init_ledger_len")


def diff(a: Aggregator, b: Aggregator) -> Diff:
    """
    What *a* and *b* have in common, and what only one of them has.

    Costs what both have since they diverged, however long they are; O(n) where
    one of them was decoded or unpickled, because it shares no structure.

    Raises:
        TypeError:
            If one of them is not an `Aggregator`.

    >>> state = Aggregator.new().add_user_prompt("When does it leave?")
    >>> draft = state.fork().add_assistant_message("At 12:30.")
    >>> retry = state.fork().add_assistant_message("At 12:45, from platform 4.")
    >>> print(diff(draft, retry))
    --- a, 2 messages
    +++ b, 2 messages
    1 message in common, the last: user: When does it leave?
    - assistant: At 12:30.
    + assistant: At 12:45, from platform 4.
    >>> diff(draft, draft.join(retry)).only_b == diff(draft, retry).only_b
    True
    """
    for name, value in (("a", a), ("b", b)):
        if not isinstance(value, Aggregator):
            hint = f": pass {name}.state" if isinstance(value, Checkpoint) else ""
            raise TypeError(
                f"{name} is {describe_value(value)}; expected an Aggregator{hint}"
            )

    entries: Divergence[Entry] = Divergence.of(a.entries, b.entries)
    ledger: Divergence[LedgerEntry] = Divergence.of(a.ledger, b.ledger)
    common = entries.common
    start = max(0, common - _CONTEXT)
    # *is* is used here, because == would compare all entries once more.
    return Diff(
        entries=entries,
        ledger=ledger,
        context=tuple(islice(a.entries.iterate(start), common - start)),
        identical=a is b or not (entries or ledger or _lineage(a) != _lineage(b)),
        # A common entry is before the point of divergence, or after it.
        related=a.root_id == b.root_id or common > 0 or bool(entries.both),
    )
