"""
The replay: runs one conversation through every operation of a state.

The operations, the checks and the measurements are here; reading conversations
(`_input`) and formatting the results (`_display`) are not.
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
from conversation_state.requests import is_made
from conversation_state.trimming import INVALID, Dropped, TrimContext, trim
from conversation_state.usage import Usage

__all__ = ["Drop", "Replay", "bytes_per_state", "group_drops", "replay"]

# The message of the second branch, in place of the original ones.
_ALTERNATIVE_MESSAGE = AssistantMessage("Let me ask a colleague and come back to you.")

# The usage of each branch; different, so that no sum is right by chance.
_REPLAYED_USAGE, _ALTERNATIVE_USAGE = Usage(1_000, 100), Usage(20, 3)

# Reading every kept state in full is quadratic. Beyond this many entries only
# every second state is, or every third, and so on.
_MAX_ENTRIES_READ = 5_000_000

# The memory of one state is averaged over at most so many.
_MAX_STATES_MEASURED = 10_000


class Drop(NamedTuple):
    """
    Neighbouring messages that a view dropped, all for one reason.

    Attributes:
        first: The position of the first one, counted from 0.

        last: The position of the last one.

        reason: Why they were dropped.
    """

    first: int
    last: int
    reason: str


@attrs.frozen(kw_only=True)
class Replay:
    """
    The result of a replay.

    Attributes:
        messages: How many messages the conversation has.

        states: How many states were made and kept: the empty one, one after
            each message, those of both branches, and the join.

        states_read: How many of them were read in full in the end; all, unless
            the conversation has thousands of messages. Of the others only
            the length and the newest entry were checked.

        bytes_per_state: The memory of a state kept after each message; see the
            function of this name. None if there is no message.

        tokens: The estimated size of all messages.

        limit_tokens: What the budget leaves for messages.

        kept: How many messages the trimmed view shows; None without a view.

        dropped: How many it dropped; None without a view.

        drops: Which ones it dropped, and why.

        no_view: Why there is no view; "" if there is one.

        encoded_bytes: The size of the encoded join.

        seconds: The time for building, forking, joining, trimming, encoding and
            decoding; without the checks and measuring memory.

        broken: The checks that failed; empty if all passed.
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


class _KeptState(NamedTuple):
    state: Aggregator
    size: int


class _StateLine:
    def __init__(self, start: Aggregator, ids: Iterable[str] = ()) -> None:
        self.ids = [*ids]
        self.kept = [_KeptState(start, len(self.ids))]

    @property
    def newest(self) -> Aggregator:
        return self.kept[-1].state

    def add(self, message: Message) -> None:
        state = self.newest.add(message)
        self.ids.append(state.entries[-1].id)
        self.kept.append(_KeptState(state, len(self.ids)))

    def add_usage(self, usage: Usage) -> None:
        self.kept.append(_KeptState(self.newest.add_usage(usage), len(self.ids)))


class _ReplayStates(NamedTuple):
    trunk: _StateLine
    turn: Checkpoint  # after the last message of a user
    replayed: _StateLine
    alternative: _StateLine
    joined: _StateLine

    @property
    def states(self) -> int:
        lines = self.trunk, self.replayed, self.alternative, self.joined
        return sum(len(line.kept) for line in lines)


def replay(messages: Sequence[Message], budget: TokenBudget) -> Replay:
    """
    Run *messages* through every operation of a state, and check the results.

    The state is built message by message, rolled back to the last message of a
    user, and forked there: one branch adds the messages that followed, the
    other one a different message. Both are joined; the conversation is trimmed
    to *budget*; the join is encoded and decoded. Every state made on the way is
    kept, and at the end compared with what it contained when it was made.
    """
    # Before any state is made: what a state would change is not in them.
    digests = [_digest_message(message) for message in messages]

    began = perf_counter()
    made = _build_states(messages)
    final, joined = made.trunk.newest, made.joined.newest
    tokens = TrimContext.of(final).total_tokens
    view, no_view = None, ""
    try:
        view = trim(final, budget)
    except (BudgetExceededError, InvalidTranscriptError) as error:
        no_view = str(error)

    data, read_back, unreadable = b"", None, ""
    try:
        data = encode(joined)
        read_back = decode(data)
    except ConversationStateError as error:
        unreadable = str(error)

    seconds = perf_counter() - began

    broken = [*_broken_by_join(made)]
    if view is not None:
        broken += _broken_by_view(view, messages, budget)

    if unreadable:
        broken.append(f"the state can't be encoded and decoded: {unreadable}")
    elif read_back != joined:
        broken.append("the decoded state differs from the encoded one")

    states_read, changed = _check_kept_states(made, digests)
    if changed:
        broken.append(f"{changed:,} kept states have changed")

    return Replay(
        messages=len(messages),
        states=made.states,
        states_read=states_read,
        bytes_per_state=bytes_per_state(messages),
        tokens=tokens,
        limit_tokens=budget.effective_input_limit,
        kept=None if view is None else len(view.messages),
        dropped=None if view is None else len(view.dropped),
        drops=() if view is None else group_drops(view.dropped),
        no_view=no_view,
        encoded_bytes=len(data),
        seconds=seconds,
        broken=tuple(broken),
    )


def bytes_per_state(messages: Sequence[Message]) -> float | None:
    """
    The memory for keeping the state after each of *messages*, in bytes each.

    Measured, not estimated: the states are built once more while `tracemalloc`
    counts what they allocate: entries with their identities, log and state, but
    not the messages, which exist already, nor the list that keeps the states,
    nor what states cache when they are read. The first 10,000 messages are
    measured. None if there are no messages.
    """
    measured = messages[:_MAX_STATES_MEASURED]
    if not measured:
        return None

    state = Aggregator.new()
    kept = [state] * len(measured)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for at, message in enumerate(measured):
            kept[at] = state = state.add(message)

        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    return (after - before) / len(kept)


def _build_states(messages: Sequence[Message]) -> _ReplayStates:
    trunk = _StateLine(Aggregator.new())
    for message in messages:
        trunk.add(message)

    at = _find_last_turn(messages)
    turn = trunk.kept[at].state.checkpoint("last user turn")
    back = turn.restore()
    replayed = _StateLine(back.fork(), trunk.ids[:at])
    for message in messages[at:]:
        replayed.add(message)

    replayed.add_usage(_REPLAYED_USAGE)
    alternative = _StateLine(back.fork(), trunk.ids[:at])
    alternative.add(_ALTERNATIVE_MESSAGE)
    alternative.add_usage(_ALTERNATIVE_USAGE)

    joined = back.join(replayed.newest, alternative.newest)
    ids = [*replayed.ids, *alternative.ids[at:]]
    return _ReplayStates(trunk, turn, replayed, alternative, _StateLine(joined, ids))


def _find_last_turn(messages: Sequence[Message]) -> int:
    """
    The number of messages up to the last one of a user; all but the last one if
    there is no message of a user.
    """
    for at in range(len(messages), 0, -1):
        if messages[at - 1].role == "user":
            return at

    return max(len(messages) - 1, 0)


def _broken_by_join(made: _ReplayStates) -> Iterator[str]:
    back = made.turn.restore()
    joined, replayed, alternative = (
        line.newest for line in (made.joined, made.replayed, made.alternative)
    )
    if [entry.id for entry in joined.entries] != made.joined.ids:
        yield "the join does not have all entries of both branches once and in order"

    if joined.total_usage != _REPLAYED_USAGE + _ALTERNATIVE_USAGE:
        yield "the usage of the join is not the sum of both branches"

    if any(joined.join(again) is not joined for again in (back, replayed, alternative)):
        yield "joining a branch again made a different state"

    if back.join(replayed.join(alternative)) != joined:
        yield "joining the branches first made a different state"


def _broken_by_view(
    view: TrimContext, messages: Sequence[Message], budget: TokenBudget
) -> Iterator[str]:
    # A made message stands at the position of another one, and a late result behind
    # its call.
    own = [one for one in view.elements if not is_made(one.message)]
    shown = [element.seq for element in own]
    order = [element.seq for element in own if element.role != "tool"]
    hidden = [dropped.seq for dropped in view.dropped]
    if view.total_tokens > budget.effective_input_limit:
        yield "the trimmed view is over the budget"

    if view.problems():
        yield f"the trimmed view is invalid: {view.problems()[0]}"

    if sorted([*shown, *hidden]) != [*range(len(messages))] or order != sorted(order):
        yield "the trimmed view does not account for every message, in order"

    # Ids and names that a provider refuses are others in the view.
    if any(messages[one.seq].text != one.message.text for one in own):
        yield "the trimmed view has a message that is not in the conversation"

    refused = [one.seq for one in view.dropped if one.reason.startswith(INVALID)]
    if messages and len(messages) - 1 not in (*shown, *refused):
        yield "the trimmed view lacks the newest message"


def _check_kept_states(made: _ReplayStates, digests: list[bytes]) -> tuple[int, int]:
    alternative = _digest_message(_ALTERNATIVE_MESSAGE)
    expected = (
        (made.trunk, digests),
        (made.replayed, digests),
        (made.alternative, [*digests[: len(made.turn.messages)], alternative]),
        (made.joined, [*digests, alternative]),
    )
    total = sum(size for line, _ in expected for _, size in line.kept)
    every = 1 + total // _MAX_ENTRIES_READ
    # By `id`, since all states are held: each digest is computed once for all of them.
    now: dict[int, bytes] = {}
    read = changed = 0
    # From the newest on, so that this one is always read in full.
    for line, contents in expected:
        for number, (state, size) in enumerate(reversed(line.kept)):
            start = max(size - 1, 0) if number % every else 0
            held = [*state.entries.iterate(start)]
            for _, message in held:
                if id(message) not in now:
                    now[id(message)] = _digest_message(message)

            read += not start
            changed += (
                len(state) != size
                or [entry.id for entry in held] != line.ids[start:size]
                or [now[id(entry.message)] for entry in held] != contents[start:size]
            )

    return read, changed


def _digest_message(message: Message) -> bytes:
    # Not of the encoded message: what the codec loses would not be noticed.
    return blake2b(repr(message).encode(), digest_size=16).digest()


def group_drops(dropped: Iterable[Dropped]) -> tuple[Drop, ...]:
    """Dropped messages, neighbours with the same reason as one."""
    drops: list[Drop] = []
    for seq, reason in dropped:
        if drops and drops[-1].last == seq - 1 and drops[-1].reason == reason:
            drops[-1] = drops[-1]._replace(last=seq)
        else:
            drops.append(Drop(seq, seq, reason))

    return tuple(drops)
