"""
The replay: runs conversations through every operation of a state, checks the results,
and reports them.
"""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from time import perf_counter

import attrs

from conversation_state._wording import (
    escape_line,
    format_count,
    number_messages,
    shorten_text,
)
from conversation_state.aggregator import Aggregator
from conversation_state.cli._input import InputConversation
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

__all__ = ["Replay", "describe_drops", "format_json", "format_report", "replay"]

# The message of the second branch, in place of the original ones.
_ALTERNATIVE_MESSAGE = AssistantMessage("Let me ask a colleague and come back to you.")

# The usage of each branch; different, so that no sum is right by chance.
_REPLAYED_USAGE, _ALTERNATIVE_USAGE = Usage(1_000, 100), Usage(20, 3)

# Reading every kept state in full is quadratic: beyond this many messages in all of
# them only every second state is read, or every third, and so on.
_MAX_READ = 5_000_000

# The memory of one state is averaged over at most so many.
_MAX_STATES_MEASURED = 10_000

# The longest name in the report, in characters; and the most views and problems below
# the table.
_MAX_NAME, _MAX_LISTED = 20, 5


@attrs.frozen(kw_only=True)
class Replay:
    """
    The result of a replay.

    Attributes:
        messages: How many messages the conversation has.
        states: How many states were made and kept.
        states_read: How many of them were compared in full in the end; all, unless
            the conversation has thousands of messages.
        bytes_per_state: The memory that keeping a state takes beyond its messages,
            measured by `tracemalloc`; None without messages.
        tokens: The estimated size of all messages.
        limit_tokens: What the budget leaves for messages.
        kept: How many messages the trimmed view shows; None without a view.
        dropped: What it dropped, and why.
        no_view: Why there is no view; "" if there is one.
        seconds: The time for all operations, without the checks.
        broken: The checks that failed; empty if all passed.
    """

    messages: int
    states: int
    states_read: int
    bytes_per_state: float | None
    tokens: int
    limit_tokens: int
    kept: int | None
    dropped: tuple[Dropped, ...]
    no_view: str
    seconds: float
    broken: tuple[str, ...]


def replay(messages: Sequence[Message], budget: TokenBudget) -> Replay:
    """
    Run *messages* through every operation of a state, and check the results.

    The state is built message by message, rolled back to the last message of a
    user, and forked there: one branch adds the messages that followed, the
    other one a different message. Both are joined; the conversation is trimmed
    to *budget*; the join is encoded and decoded. Every state made on the way is
    kept, and at the end compared with what it contained when it was made.
    """
    # What a message says before any state is made: the values themselves could change.
    words = [repr(message) for message in messages]
    began = perf_counter()
    state = Aggregator.new()
    kept = [(state, words[:0])]
    for at, message in enumerate(messages):
        state = state.add(message)
        kept.append((state, words[: at + 1]))

    turn = _find_last_turn(messages)
    back = kept[turn][0].checkpoint("last user turn").restore()
    replayed = back.fork().extend(messages[turn:]).add_usage(_REPLAYED_USAGE)
    alternative = back.fork().add(_ALTERNATIVE_MESSAGE).add_usage(_ALTERNATIVE_USAGE)
    joined = back.join(replayed, alternative)
    other = repr(_ALTERNATIVE_MESSAGE)
    kept += [
        (replayed, words),
        (alternative, [*words[:turn], other]),
        (joined, [*words, other]),
    ]

    tokens = TrimContext.of(state).total_tokens
    view, no_view = None, ""
    try:
        view = trim(state, budget)
    except (BudgetExceededError, InvalidTranscriptError) as error:
        no_view = number_messages(str(error))

    broken = []
    try:
        if decode(encode(joined)) != joined:
            broken.append("the decoded state differs from the encoded one")
    except ConversationStateError as error:
        broken.append(f"the state can't be encoded and decoded: {error}")

    seconds = perf_counter() - began
    broken += _check_join(back, replayed, alternative, joined)
    if view is not None:
        broken += _check_view(view, messages, budget)

    every = 1 + sum(len(expected) for _, expected in kept) // _MAX_READ
    # From the newest on, so that this one is always read.
    read = kept[::-1][::every]
    changed = [each for each, was in read if list(map(repr, each)) != [*was]]
    if changed:
        broken.append(f"{len(changed):,} kept states have changed")

    return Replay(
        messages=len(messages),
        states=len(kept),
        states_read=len(read),
        bytes_per_state=_measure_memory(messages[:_MAX_STATES_MEASURED]),
        tokens=tokens,
        limit_tokens=budget.effective_input_limit,
        kept=None if view is None else len(view.messages),
        dropped=() if view is None else tuple(view.dropped),
        no_view=no_view,
        seconds=seconds,
        broken=tuple(broken),
    )


def _find_last_turn(messages: Sequence[Message]) -> int:
    # The number of messages up to the last one of a user; else all but the last one.
    for at in range(len(messages), 0, -1):
        if messages[at - 1].role == "user":
            return at

    return max(len(messages) - 1, 0)


def _check_join(
    back: Aggregator, replayed: Aggregator, alternative: Aggregator, joined: Aggregator
) -> Iterator[str]:
    new = alternative.entries[len(back) :]
    if [*joined.entries] != [*replayed.entries, *new]:
        yield "the join does not have all entries of both branches once and in order"

    if joined.total_usage != _REPLAYED_USAGE + _ALTERNATIVE_USAGE:
        yield "the usage of the join is not the sum of both branches"

    if any(joined.join(again) is not joined for again in (back, replayed, alternative)):
        yield "joining a branch again made a different state"

    if back.join(replayed.join(alternative)) != joined:
        yield "joining the branches first made a different state"


def _check_view(
    view: TrimContext, messages: Sequence[Message], budget: TokenBudget
) -> Iterator[str]:
    # A made message stands at the position of another one.
    own = [each for each in view.elements if not is_made(each.message)]
    shown = [each.seq for each in own]
    hidden = [each.seq for each in view.dropped]
    if view.total_tokens > budget.effective_input_limit:
        yield "the trimmed view is over the budget"

    if view.problems():
        yield f"the trimmed view is invalid: {view.problems()[0]}"

    if sorted([*shown, *hidden]) != [*range(len(messages))]:
        yield "the trimmed view does not account for every message"

    refused = [each.seq for each in view.dropped if each.reason.startswith(INVALID)]
    if messages and len(messages) - 1 not in {*refused, *shown}:
        yield "the trimmed view lacks the newest message"

    # Ids and names that a provider refuses are others in the view.
    if any(messages[each.seq].text != each.message.text for each in own):
        yield "the trimmed view has a message that is not in the conversation"


def _measure_memory(messages: Sequence[Message]) -> float | None:
    if not messages:
        return None

    state = Aggregator.new()
    kept = [state] * len(messages)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for at, message in enumerate(messages):
            kept[at] = state = state.add(message)

        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    return (after - before) / len(kept)


# Reports


def describe_drops(dropped: Iterable[Dropped]) -> str:
    """Dropped messages by number from 1, neighbours with the same reason as one."""
    runs: list[tuple[int, int, str]] = []
    for seq, reason in dropped:
        if runs and runs[-1][1] == seq - 1 and runs[-1][2] == reason:
            runs[-1] = (runs[-1][0], seq, reason)
        else:
            runs.append((seq, seq, reason))

    return ", ".join(
        f"{first + 1:,}{f' to {last + 1:,}' if last > first else ''} "
        f"({number_messages(reason)})"
        for first, last, reason in runs
    )


def drop_data(drop: Dropped) -> dict[str, object]:
    """A dropped message as JSON, by its number from 1."""
    return {"number": drop.seq + 1, "reason": number_messages(drop.reason)}


def format_json(found: InputConversation, outcome: Replay) -> str:
    """The result of one conversation as a line of JSON."""
    return json.dumps(
        {
            "conversation": found.name,
            "file": found.file,
            "line": found.line,
            "ok": not outcome.broken,
            **attrs.asdict(outcome, recurse=False),
            "dropped": list(map(drop_data, outcome.dropped)),
        }
    )


def format_report(
    rows: Sequence[tuple[str, Replay]], files: Sequence[str]
) -> Iterator[str]:
    """The lines of the report on all *rows*: a name and its result each."""
    source = f"{len(files)} files" if len(files) > 1 else escape_line(files[0])
    yield from wrap(
        f"Replayed {format_count(len(rows), 'conversation')} from "
        f"{'standard input' if source == '-' else source}: built message by message "
        "with every state kept, rolled back to the last user turn, forked into two "
        f"branches and joined again, trimmed to {rows[0][1].limit_tokens:,} tokens, "
        "written to bytes and read back."
    )
    yield ""
    yield (
        f"{'Conversation':<{_MAX_NAME}} Messages  States  Bytes/state   Tokens"
        "    Kept  Dropped"
    )
    for name, outcome in rows:
        size, view = outcome.bytes_per_state, outcome.kept
        yield (
            f"{_shorten_name(name):<{_MAX_NAME}} {outcome.messages:>8,} "
            f"{outcome.states:>7,} {'-' if size is None else f'{size:,.0f}':>12} "
            f"{outcome.tokens:>8,} {'no view' if view is None else f'{view:,}':>7} "
            f"{'-' if view is None else f'{len(outcome.dropped):,}':>8}"
        )

    yield ""
    yield from _list_remarks(rows)


def _list_remarks(rows: Sequence[tuple[str, Replay]]) -> Iterator[str]:
    trimmed = [
        f"{_shorten_name(name)}: trimmed, without messages "
        f"{describe_drops(outcome.dropped)}"
        for name, outcome in rows
        if outcome.dropped
    ]
    problems = [
        f"{_shorten_name(name)}: {'BROKEN: ' if each in outcome.broken else ''}{each}"
        for name, outcome in rows
        for each in (*outcome.broken, outcome.no_view)
        if each
    ]
    for lines in (trimmed, problems):
        yield from map(escape_line, lines[:_MAX_LISTED])
        if len(lines) > _MAX_LISTED:
            yield f"... and {len(lines) - _MAX_LISTED:,} more; --json prints all"

    broken = sum(bool(outcome.broken) for _, outcome in rows)
    if broken:
        yield (
            f"{broken:,} of {format_count(len(rows), 'conversation')} failed a check. "
            "This is a bug of conversation-state; please report it."
        )
        return

    states = sum(outcome.states for _, outcome in rows)
    read = sum(outcome.states_read for _, outcome in rows)
    sampled = "" if read == states else f" ({read:,} of them read in full)"
    seconds = sum(outcome.seconds for _, outcome in rows)
    yield from wrap(
        f"Verified in {seconds:.2f} s: all {states:,} kept states{sampled} are "
        "unchanged, every join has the entries of both branches once, joining again "
        "returns the same object, every view fits and is valid, and bytes read back "
        "are equal."
    )


def _shorten_name(name: str) -> str:
    return shorten_text(escape_line(name), _MAX_NAME)
