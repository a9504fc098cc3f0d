"""
The comparison of two states: where two logs diverge, what each has since then, and
which messages have the same content.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

import attrs

from conversation_state._drawing import draw_difference
from conversation_state._persistent import Log, final
from conversation_state._wording import describe_value, format_count, shorten_repr
from conversation_state.aggregator import Aggregator, Checkpoint, Entry, LedgerEntry
from conversation_state.diffing._text import format_markdown, format_text
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
    find_erasure,
)
from conversation_state.parts import Part, ReasoningPart, TextPart
from conversation_state.usage import Usage

I = TypeVar("I", Entry, LedgerEntry)  # noqa: E741 - an item, of either kind

# How many common entries are shown, as before the first change of a unified diff.
_CONTEXT = 3


@final
class Pair(NamedTuple, Generic[I]):
    """
    Two entries that belong together, one from each side.

    Attributes:
        a: The one in *a*.
        b: The one in *b*.
    """

    a: I
    b: I


@final
@attrs.frozen
class Divergence(Generic[I]):
    """
    Where two logs of entries diverge, and what each has since then.

    Mirrored by `reversed`. What follows from the first three attributes is
    computed when the value is made, in O(their length).

    Attributes:
        common: How many leading entries both have.
        rest_a: The entries of *a* after these.
        rest_b: The entries of *b* after these.
        only_a: Those in *rest_a* whose identity *b* does not have.
        only_b: Those in *rest_b* whose identity *a* does not have.
        both: Those in *rest_a* and *rest_b*, in *a*'s order: what a join
            brought. The two of a pair differ where their content differs under
            one identity.
        reordered: Whether *b* has these in another order.
    """

    common: int
    rest_a: tuple[I, ...]
    rest_b: tuple[I, ...]
    only_a: tuple[I, ...] = attrs.field(init=False, eq=False, repr=False)
    only_b: tuple[I, ...] = attrs.field(init=False, eq=False, repr=False)
    both: tuple[Pair[I], ...] = attrs.field(init=False, eq=False, repr=False)
    reordered: bool = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        # Entries that a join added are on both sides, at different positions.
        only_a, only_b = self.rest_a, self.rest_b
        both: tuple[Pair[I], ...] = ()
        reordered = False
        if only_a and only_b:
            ours = {entry.id for entry in only_a}
            theirs = {entry.id: entry for entry in only_b}
            shared = [entry for entry in only_a if entry.id in theirs]
            if shared:
                both = tuple([Pair(entry, theirs[entry.id]) for entry in shared])
                in_b = [entry.id for entry in only_b if entry.id in ours]
                reordered = in_b != [entry.id for entry in shared]
                only_a = tuple([each for each in only_a if each.id not in theirs])
                only_b = tuple([each for each in only_b if each.id not in ours])

        object.__setattr__(self, "only_a", only_a)
        object.__setattr__(self, "only_b", only_b)
        object.__setattr__(self, "both", both)
        object.__setattr__(self, "reordered", reordered)

    @classmethod
    def of(cls, a: Log[I], b: Log[I]) -> Divergence[I]:
        """
        Where *a* and *b* diverge. O(log n) where they share structure, plus
        what both have since then.
        """
        common = a.common_prefix(b)
        return cls(common, tuple(a.iterate(common)), tuple(b.iterate(common)))

    @property
    def changed(self) -> tuple[Pair[I], ...]:
        """The pairs in *both* whose content differs under one identity."""
        return tuple([pair for pair in self.both if pair.a != pair.b])

    def reversed(self) -> Divergence[I]:
        """The same, seen from the other side."""
        return Divergence(self.common, self.rest_b, self.rest_a)

    def __bool__(self) -> bool:
        return bool(self.rest_a or self.rest_b)


# The fields of a part that are not content.
_IGNORED_FIELDS = {"index", "metadata", "signature", "unknown"}


def make_content_key(message: Message) -> object:
    """
    A key that is equal for messages with the same content.

    Includes role, name, text, the other parts except reasoning, and calls by type,
    name and arguments; for a tool's result also the tool's name and whether it
    failed. Excludes what differs between attempts: ids, times, metadata, the
    response, the reasoning (unless there is nothing else), and how a text is split
    into parts.
    """
    kind, name = type(message), message.name
    erasure = find_erasure(message)
    if erasure is not None:
        # Erased messages are compared by the digest of their content, because two of
        # them may differ.
        return kind, erasure.content

    content = getattr(message, "content", ())
    if not isinstance(content, str):
        content = _make_parts_key(content)

    if isinstance(message, AssistantMessage):
        calls = [(call.type, call.name, call.arguments) for call in message.tool_calls]
        if not content and not calls and message.reasoning:
            content = ("reasoning", message.reasoning)

        return kind, name, content, *calls

    if isinstance(message, ToolMessage):
        return kind, name, content, message.tool_name, message.is_error

    if isinstance(message, UnknownMessage):
        return kind, name, message.raw, message.source

    return kind, name, content


def _make_parts_key(parts: Iterable[Part]) -> object:
    pieces: list[Any] = []
    shown = [part for part in parts if not isinstance(part, ReasoningPart)]
    for is_text, run in groupby(shown, lambda part: isinstance(part, TextPart)):
        if is_text:
            text = "".join([part.text for part in run])  # type: ignore[attr-defined]
            pieces += [text] if text else []
        else:
            for part in run:
                names = [each.name for each in attrs.fields(type(part))]
                content = [getattr(part, x) for x in names if x not in _IGNORED_FIELDS]
                pieces.append((part.kind, *content))

    if not pieces:
        return ""

    return pieces[0] if len(pieces) == 1 else tuple(pieces)


def pair_equivalent(a: Iterable[Entry], b: Iterable[Entry]) -> tuple[Pair[Entry], ...]:
    """
    Entries of *a* and *b* with the same content, in *a*'s order.

    Each is in one pair at most: the first entry with some content in *a* with
    the first one in *b*, the second with the second. Linear.
    """
    theirs: defaultdict[object, deque[Entry]] = defaultdict(deque)
    for entry in b:
        theirs[make_content_key(entry.message)].append(entry)

    pairs = []
    # If only *a* has further entries, no key is made, because a key hashes a whole
    # message.
    for entry in a if theirs else ():
        unpaired = theirs.get(make_content_key(entry.message))
        if unpaired:
            pairs.append(Pair(entry, unpaired.popleft()))

    return tuple(pairs)


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
        """The number of leading entries that both have."""
        return self.entries.common

    @property
    def only_a(self) -> tuple[Entry, ...]:
        """The entries that only *a* has, in its order."""
        return self.entries.only_a

    @property
    def only_b(self) -> tuple[Entry, ...]:
        """The entries that only *b* has, in its order: what ``a.join(b)`` adds."""
        return self.entries.only_b

    @property
    def usage_a(self) -> Usage:
        """The usage that only *a* recorded. O(ledger entries)."""
        return sum([entry.usage for entry in self.ledger.only_a], Usage())

    @property
    def usage_b(self) -> Usage:
        """The usage that only *b* recorded: what ``a.join(b)`` adds to the ledger."""
        return sum([entry.usage for entry in self.ledger.only_b], Usage())

    def reversed(self) -> Diff:
        """The same from the other side: ``diff(b, a)``."""
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
            TypeError: If *names* is anything but two texts.
            ValueError: If *limit* is not a positive number.
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
        TypeError: If one of them is not an `Aggregator`.

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
