"""
The comparison of two states.
"""

from __future__ import annotations

from itertools import islice

import attrs

from conversation_state.aggregator import Aggregator, Checkpoint, Entry, LedgerEntry
from conversation_state.diffing._html import as_html
from conversation_state.diffing._markdown import as_markdown
from conversation_state.diffing._parting import Pair, Parting
from conversation_state.diffing._saying import same_pairs
from conversation_state.diffing._text import as_text
from conversation_state.usage import Usage

__all__ = ["Diff", "diff"]

# As many as a unified diff shows before the first change.
_CONTEXT = 3


@attrs.frozen(repr=False)
class Diff:
    """
    What two states, *a* and *b*, have in common, and what each has alone.

    A value that knows neither state: small, picklable, equal by content. False
    if entries and ledgers are the same; then the states may still differ in
    their id or fork point, as a fork that has said nothing yet does from its
    parent.

    ``str()`` is for a terminal, `markdown` for a page, `html` for a notebook,
    where it is shown by itself.

    Made by `diff`.

    Attributes:
        entries: Where what was said parts, and what each side has since.

        ledger: The same for what was spent.

        context: The last entries that both have before that, at most three.

        identical: Whether the states are equal: the same in everything, id and
            fork point included.

        related: Whether they have any past in common, as
            `Aggregator.is_related_to` says.

        same: Of what only one side has, pairs that say the same: a retry that
            gave the same answer, a prompt that was typed twice. The same role
            and name say the same text and other parts and make the same calls;
            ids, times, metadata and thoughts may differ. In *a*'s order, and
            each in one pair at most.
    """

    entries: Parting[Entry]
    ledger: Parting[LedgerEntry]
    context: tuple[Entry, ...]
    identical: bool
    related: bool
    same: tuple[Pair[Entry], ...] = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        pairs = same_pairs(self.entries.only_a, self.entries.only_b)
        object.__setattr__(self, "same", pairs)

    @property
    def common(self) -> int:
        """
        How many leading entries both have.
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
    def both(self) -> tuple[Pair[Entry], ...]:
        """
        The entries that both have after they parted, in *a*'s order: what a
        join brought.
        """
        return self.entries.both

    @property
    def changed(self) -> tuple[Pair[Entry], ...]:
        """
        Those of them whose message is another in *b*: one was erased, say.
        """
        return self.entries.changed

    @property
    def reordered(self) -> bool:
        """
        Whether *b* has what both have in another order.
        """
        return self.entries.reordered

    @property
    def ledger_a(self) -> tuple[LedgerEntry, ...]:
        """
        The ledger entries that only *a* has.
        """
        return self.ledger.only_a

    @property
    def ledger_b(self) -> tuple[LedgerEntry, ...]:
        """
        The ledger entries that only *b* has: what ``a.join(b)`` adds.
        """
        return self.ledger.only_b

    @property
    def ledger_changed(self) -> tuple[Pair[LedgerEntry], ...]:
        """
        What was paid under one key with different usages, or for different
        models. In a join the receiver's stands, so it is in neither usage.
        """
        return self.ledger.changed

    @property
    def usage_a(self) -> Usage:
        """
        What only *a* spent. O(ledger entries).
        """
        return sum([entry.usage for entry in self.ledger_a], Usage())

    @property
    def usage_b(self) -> Usage:
        """
        What only *b* spent: what ``a.join(b)`` adds to the bill.
        """
        return sum([entry.usage for entry in self.ledger_b], Usage())

    def reversed(self) -> Diff:
        """
        The same seen from the other side: ``diff(b, a)``.
        """
        return Diff(
            self.entries.reversed(),
            self.ledger.reversed(),
            self.context,
            self.identical,
            self.related,
        )

    def text(self, *, names: tuple[str, str] = ("a", "b"), limit: int = 40) -> str:
        """
        The difference for a terminal, in the manner of a unified diff.

        Lines begin with a sign: ``-`` only *a*, ``+`` only *b*, ``=`` both say
        the same (shown as *a* has it), a space: both have the entry, ``!``
        they have different messages under its identity (*a*'s first). Every
        part of a message has one line, shortened around the first difference
        to what stands beside it. Nobody can speak for somebody else in it.

        Args:
            names: What the sides are called.

            limit: The most messages that are shown of each side; how many more
                there are is said.

        Raises:
            TypeError:
                If *names* is something else than two texts.

            ValueError:
                If *limit* is no positive number.
        """
        return as_text(self, *_asked(names, limit))

    def markdown(self, *, names: tuple[str, str] = ("a", "b"), limit: int = 40) -> str:
        """
        The difference as Markdown: a heading for each message, what is said
        quoted, arguments and results as code; of long texts the beginning.

        As in `render_transcript`, what is said can do nothing outside of its
        quote. What is said on both sides is there once, as *a* has it.

        Args and errors are those of `text`.
        """
        return as_markdown(self, *_asked(names, limit))

    def html(self, *, names: tuple[str, str] = ("a", "b"), limit: int = 100) -> str:
        """
        The difference as a fragment of HTML: *a* on the left, *b* on the right.

        Needs nothing else: styles are inline, readable on light and on dark,
        and there are no scripts, links or images. Whatever was said is text.
        What was said in common is folded, and so are long texts; where two
        messages beside each other differ a little, the words are marked.

        Args and errors are those of `text`.
        """
        return as_html(self, *_asked(names, limit))

    def __bool__(self) -> bool:
        return bool(self.entries) or bool(self.ledger)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        # And no `_repr_markdown_`: notebooks take "$" in Markdown for the start
        # of a formula, whoever wrote it, and HTML can tell them not to.
        return self.html()

    def __repr__(self) -> str:
        return (
            f"<Diff: {self.common:,} messages in common, {len(self.only_a):,} only "
            f"in a, {len(self.only_b):,} only in b>"
        )


def _asked(names: tuple[str, str], limit: int) -> tuple[str, str, int]:
    match names:
        case (str(a), str(b)):
            pass
        case _:
            msg = f"names is {names!r:.80}; expected two texts, one for each side"
            raise TypeError(msg)

    if limit.__class__ is not int or limit < 1:
        msg = f"limit is {limit!r:.80}; expected a positive number of messages"
        raise ValueError(msg)

    return a, b, limit


def diff(a: Aggregator, b: Aggregator) -> Diff:
    """
    What *a* and *b* have in common, and what each has alone.

    Costs what both have since they parted, however much they remember; O(n)
    where one of them was decoded or unpickled, for they share no structure.

    Raises:
        TypeError:
            If one of them is no `Aggregator`.

    >>> talk = Aggregator.new().add_user_prompt("When does it leave?")
    >>> draft = talk.fork().add_assistant_message("At 12:30.")
    >>> retry = talk.fork().add_assistant_message("At 12:45, from platform 4.")
    >>> print(diff(draft, retry))
    --- a, 2 messages
    +++ b, 2 messages
    1 message in common, the last: user: When does it leave?
    - assistant: At 12:30.
    + assistant: At 12:45, from platform 4.
    >>> diff(draft, draft.join(retry)).only_b == diff(draft, retry).only_b
    True
    """
    for name, given in (("a", a), ("b", b)):
        if not isinstance(given, Aggregator):
            raise TypeError(_no_state(name, given))

    entries: Parting[Entry] = Parting.of(a.entries, b.entries)
    ledger: Parting[LedgerEntry] = Parting.of(a.ledger, b.ledger)
    common = entries.common
    start = max(0, common - _CONTEXT)
    context = tuple(islice(a.entries.iterate(start), common - start))
    identical = a is b or not (entries or ledger or _who(a) != _who(b))
    # Whoever has a common entry has it before the pasts part, or after.
    related = a.root_id == b.root_id or common > 0 or bool(entries.both)
    return Diff(entries, ledger, context, identical, related)


def _who(state: Aggregator) -> tuple[object, ...]:
    """
    What makes a state beside what was said and spent.
    """
    return (
        state.id,
        state.parent_id,
        state.root_id,
        state.init_len,
        state.init_ledger_len,
    )


def _no_state(name: str, given: object) -> str:
    told = f"diff compares two Aggregators; {name} is a {type(given).__name__}"
    if isinstance(given, Checkpoint):
        return f"{told}: compare its state, {name}.state"

    if hasattr(given, "entries") or hasattr(given, "messages"):
        return f"{told}, which is only a part of one: compare the state it is of"

    return f"{told}: {given!r:.80}"
