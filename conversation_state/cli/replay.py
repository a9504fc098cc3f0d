"""
The replay: one conversation led through all that a state can do.

What lives here: what is done, what is checked, and what is measured. What
does not: where conversations come from (`_reading`), and how the outcome is
shown (`_showing`).
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from time import perf_counter
from typing import NamedTuple

import attrs

from conversation_state.aggregator import Aggregator, Checkpoint
from conversation_state.codec import decode, encode
from conversation_state.counting import TokenBudget
from conversation_state.errors import (
    BudgetExceededError,
    ConversationStateError,
    InvalidTranscriptError,
)
from conversation_state.messages import AssistantMessage, Message
from conversation_state.trimming import Dropped, TrimContext, fit, trim
from conversation_state.usage import Usage

__all__ = ["Drop", "Replay", "bytes_per_state", "drops_of", "replay"]

# What the second branch says in place of what was said.
_INSTEAD = AssistantMessage("Let me ask a colleague and come back to you.")

# What each branch spends; different, so that no sum is right by chance.
_SPENT_RETOLD, _SPENT_INSTEAD = Usage(1_000, 100), Usage(20, 3)

# Reading every kept state in full is quadratic. Beyond this many entries only
# every other state is, or every third, and so on.
_READ_AT_MOST = 5_000_000

# Over how many states the memory of one is averaged, at most.
_WEIGHED_AT_MOST = 10_000


class Drop(NamedTuple):
    """
    Neighbouring messages that a view does not show, all for one reason.

    Attributes:
        first: The position of the first one, counted from 0.

        last: The position of the last one.

        reason: Why.
    """

    first: int
    last: int
    reason: str


@attrs.frozen(kw_only=True)
class Replay:
    """
    What came of a replay.

    Attributes:
        messages: How many messages the conversation has.

        states: How many states were made and kept: the empty one, one after
            each message, those of both branches, and the join.

        states_read: How many of them were read in full in the end; all, unless
            the conversation has thousands of messages. Of the others, length
            and newest entry were.

        bytes_per_state: What a state kept after each message takes; see the
            function of this name. None if there is no message.

        tokens: What all messages fill, estimated.

        limit_tokens: What the budget leaves for them.

        kept: How many messages the trimmed view shows; None without a view.

        dropped: How many it does not show; None without a view.

        drops: Which ones it does not show, and why.

        no_view: Why there is no view; "" if there is one.

        encoded_bytes: The size of the join when written.

        seconds: What building, forking, joining, trimming, writing and reading
            back took; not the checks, nor measuring memory.

        broken: Promises that were not kept; none if all is well.
    """

    messages: int
    states: int
    states_read: int
    bytes_per_state: float | None
    tokens: int
    limit_tokens: int
    kept: int | None
    dropped: int | None
    drops: tuple[Drop, ...]
    no_view: str
    encoded_bytes: int
    seconds: float
    broken: tuple[str, ...]


class _Kept(NamedTuple):
    """
    A state, and how many of the identities of its line it should hold.
    """

    state: Aggregator
    size: int


class _Line:
    """
    States that grew one from another, and what was true when they did.
    """

    def __init__(self, start: Aggregator, ids: Iterable[str] = ()) -> None:
        self.ids = [*ids]
        self.kept = [_Kept(start, len(self.ids))]

    @property
    def newest(self) -> Aggregator:
        return self.kept[-1].state

    def say(self, message: Message) -> None:
        state = self.newest.add(message)
        self.ids.append(state.entries[-1].id)
        self.kept.append(_Kept(state, len(self.ids)))

    def spend(self, usage: Usage) -> None:
        self.kept.append(_Kept(self.newest.add_usage(usage), len(self.ids)))


class _Life(NamedTuple):
    """
    All that a conversation went through.
    """

    trunk: _Line
    turn: Checkpoint  # after the last message of a user
    retold: _Line
    instead: _Line
    joined: _Line

    @property
    def states(self) -> int:
        """
        How many states there were.
        """
        lines = self.trunk, self.retold, self.instead, self.joined
        return sum(len(line.kept) for line in lines)


def replay(messages: Sequence[Message], budget: TokenBudget) -> Replay:
    """
    *messages*, led through the life of a state, and whether it kept its word.

    The state is built message by message, rolled back to the last thing a user
    said, and forked there: one branch tells again what followed, the other one
    says something else. Both are joined; the conversation is trimmed to
    *budget*; the join is written and read back. Every state made on the way is
    kept, and in the end compared with what it held when it was made.
    """
    digests = [_digest(message) for message in messages]

    began = perf_counter()
    life = _live(messages)
    final, joined = life.trunk.newest, life.joined.newest
    tokens = TrimContext.of(final).total_tokens
    view, no_view = None, ""
    try:
        view = trim(final, budget, fit())
    except (BudgetExceededError, InvalidTranscriptError) as error:
        no_view = str(error)

    data, read_back, unreadable = b"", None, ""
    try:
        data = encode(joined)
        read_back = decode(data)
    except ConversationStateError as error:
        unreadable = str(error)

    seconds = perf_counter() - began

    broken = [*_broken_by_join(life)]
    if view is not None:
        broken += _broken_by_view(view, messages, budget)

    if unreadable:
        broken.append(f"the state can't be written and read back: {unreadable}")
    elif read_back != joined:
        broken.append("what was read back is not what was written")

    states_read, changed = _reread(life, digests)
    if changed:
        broken.append(f"{changed:,} kept states do not hold what they held")

    return Replay(
        messages=len(messages),
        states=life.states,
        states_read=states_read,
        bytes_per_state=bytes_per_state(messages),
        tokens=tokens,
        limit_tokens=budget.effective_input_limit,
        kept=None if view is None else len(view.messages),
        dropped=None if view is None else len(view.dropped),
        drops=() if view is None else drops_of(view.dropped),
        no_view=no_view,
        encoded_bytes=len(data),
        seconds=seconds,
        broken=tuple(broken),
    )


def bytes_per_state(messages: Sequence[Message]) -> float | None:
    """
    What keeping the state after each of *messages* takes, in bytes each.

    Measured, not estimated: the states are built once more while `tracemalloc`
    counts what they allocate. Counted is all they hold but the messages, which
    are there already: entries with their identities, log and state. The list
    that keeps them is not, nor what states remember once they were read. The
    first 10,000 messages stand for the others. None if there are none.
    """
    weighed = messages[:_WEIGHED_AT_MOST]
    if not weighed:
        return None

    state = Aggregator.new()
    kept = [state] * len(weighed)
    # Somebody may be tracing the whole program, PYTHONTRACEMALLOC say.
    is_ours = not tracemalloc.is_tracing()
    if is_ours:
        tracemalloc.start()

    try:
        before, _ = tracemalloc.get_traced_memory()
        for at, message in enumerate(weighed):
            kept[at] = state = state.add(message)

        after, _ = tracemalloc.get_traced_memory()
    finally:
        if is_ours:
            tracemalloc.stop()

    return (after - before) / len(kept)


def _live(messages: Sequence[Message]) -> _Life:
    trunk = _Line(Aggregator.new())
    for message in messages:
        trunk.say(message)

    at = _turn(messages)
    turn = trunk.kept[at].state.checkpoint("last user turn")
    back = turn.restore()
    retold = _Line(back.fork(), trunk.ids[:at])
    for message in messages[at:]:
        retold.say(message)

    retold.spend(_SPENT_RETOLD)
    instead = _Line(back.fork(), trunk.ids[:at])
    instead.say(_INSTEAD)
    instead.spend(_SPENT_INSTEAD)

    joined = back.join(retold.newest, instead.newest)
    ids = [*retold.ids, *instead.ids[at:]]
    return _Life(trunk, turn, retold, instead, _Line(joined, ids))


def _turn(messages: Sequence[Message]) -> int:
    """
    How many messages there are up to the last of a user; all but the last one
    if no user said anything.
    """
    for at in range(len(messages), 0, -1):
        if messages[at - 1].role == "user":
            return at

    return max(len(messages) - 1, 0)


def _broken_by_join(life: _Life) -> Iterator[str]:
    back = life.turn.restore()
    joined, retold, instead = (
        line.newest for line in (life.joined, life.retold, life.instead)
    )
    if [entry.id for entry in joined.entries] != life.joined.ids:
        yield "the join does not hold all of both branches, once and in order"

    if joined.total_usage != _SPENT_RETOLD + _SPENT_INSTEAD:
        yield "the join does not cost what both branches cost"

    if any(joined.join(again) is not joined for again in (back, retold, instead)):
        yield "joining a branch again made another state"

    if back.join(retold.join(instead)) != joined:
        yield "joining the branches first gave something else"


def _broken_by_view(
    view: TrimContext, messages: Sequence[Message], budget: TokenBudget
) -> Iterator[str]:
    shown = [element.seq for element in view.elements]
    hidden = [dropped.seq for dropped in view.dropped]
    if view.total_tokens > budget.effective_input_limit:
        yield "the trimmed view is over the budget"

    if view.problems():
        yield f"a provider would refuse the trimmed view: {view.problems()[0]}"

    if sorted([*shown, *hidden]) != [*range(len(messages))] or shown != sorted(shown):
        yield "the trimmed view does not account for every message, in order"

    if any(messages[at] is not said for at, said, *_ in view.elements):
        yield "the trimmed view shows what was not said"

    if messages and shown[-1:] != [len(messages) - 1]:
        yield "the trimmed view lacks the newest message"


def _reread(life: _Life, digests: list[bytes]) -> tuple[int, int]:
    """
    How many kept states were read in full, and how many of all have changed.
    """
    instead = _digest(_INSTEAD)
    expected = (
        (life.trunk, digests),
        (life.retold, digests),
        (life.instead, [*digests[: len(life.turn.messages)], instead]),
        (life.joined, [*digests, instead]),
    )
    total = sum(size for line, _ in expected for _, size in line.kept)
    every = 1 + total // _READ_AT_MOST
    now: dict[int, bytes] = {}  # what a message says, asked once for all states
    read = changed = 0
    for line, contents in expected:
        for number, (state, size) in enumerate(reversed(line.kept)):
            start = max(size - 1, 0) if number % every else 0
            held = [*state.entries.iterate(start)]
            for _, message in held:
                if id(message) not in now:
                    now[id(message)] = _digest(message)

            read += not start
            changed += (
                len(state) != size
                or [entry.id for entry in held] != line.ids[start:size]
                or [now[id(entry.message)] for entry in held] != contents[start:size]
            )

    return read, changed


def _digest(message: Message) -> bytes:
    # Not the codec's bytes: what the codec forgets would not be missed.
    return blake2b(repr(message).encode(), digest_size=16).digest()


def drops_of(dropped: Iterable[Dropped]) -> tuple[Drop, ...]:
    """
    What a view does not show, neighbours together.
    """
    drops: list[Drop] = []
    for seq, reason in dropped:
        if drops and drops[-1].last == seq - 1 and drops[-1].reason == reason:
            drops[-1] = drops[-1]._replace(last=seq)
        else:
            drops.append(Drop(seq, seq, reason))

    return tuple(drops)
