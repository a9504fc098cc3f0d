"""
Items to messages and back, and how a state's items grow and shrink.

A message is what `load` makes of all items, however many at a time they came:
what the model says goes on with the answer at the end, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from conversation_state._persistent import Log
from conversation_state.adapters._export import Export, Writing
from conversation_state.adapters._reading import Reading, is_list, is_map
from conversation_state.adapters._responses._dump import write_items
from conversation_state.adapters._responses._load import load_items
from conversation_state.adapters._responses._words import CALLERS, CALLS, SOURCE
from conversation_state.aggregator import Aggregator, Entry
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.tools import ToolCall

__all__ = [
    "dump",
    "extended",
    "items_of",
    "load",
    "newest",
    "shortened",
    "turn_at",
    "with_entries",
]

Item = dict[str, Any]


def dump(messages: Iterable[Message]) -> Export:
    """
    *messages* as a session gives them to the SDK: a list of items.

    As `openai_responses.dump`, but that nothing is an agent's instructions,
    and that thoughts stay which nothing follows: more may be said.

    Raises:
        InvalidMessageError:
            If one of them is no message.
    """
    write = Writing(SOURCE)
    calls: dict[str, ToolCall] = {}
    items: list[Item] = []
    for at, message in enumerate(messages):
        items += write_items(write, message, f"messages[{at}]", calls, followed=True)

    return Export(items, tuple(write.lost))


def load(items: Sequence[Any]) -> tuple[Message, ...]:
    """
    The messages of *items*, as the SDK has them: `dump` gives the same JSON
    values again, item for item, whatever they are.

    What the model said without anybody between is one message. An item that
    could not be written as it was is an `UnknownMessage`. Half of a surrogate
    pair becomes U+FFFD, and a note says where.

    Raises:
        DecodeError:
            If they are no list of JSON objects; with all that is wrong, each
            with its path.
    """
    return tuple(_read(items, {}))


def items_of(
    messages: Iterable[Message], calls: Mapping[str, ToolCall] | None = None
) -> list[Any]:
    """
    The items of *messages*; *calls* were made before, by their ids.
    """
    # Any: the SDK types an item as a union of all that there are.
    write, known, items = Writing(SOURCE), dict(calls or {}), list[Any]()
    for message in messages:
        items += write_items(write, message, "", known, followed=True)

    return items


def newest(messages: Sequence[Message], limit: int) -> list[Any] | None:
    """
    The newest *limit* items of a conversation that ends in *messages*; None if
    these don't tell.

    They don't if they are too few, or the call of a result is not among them,
    which alone tells what kind of result it is.
    """
    found: list[list[Any]] = []
    count = 0
    for at in range(len(messages) - 1, -1, -1):
        if count >= limit:
            break

        message = messages[at]
        calls = _calls_of(messages[:at], {_answered(message)})
        if isinstance(message, ToolMessage) and not calls:
            return None

        found.append(items_of((message,), calls))
        count += len(found[-1])

    items = [item for one in reversed(found) for item in one]
    return items[count - limit :] if count >= limit else None


def extended(state: Aggregator, items: Sequence[Any]) -> Aggregator:
    """
    *state* with *items* at its end; itself if there are none.

    Its last entry becomes a new one if the items go on with that answer.

    Raises:
        DecodeError:
            As `load` says.
    """
    if not is_list(items) or not items:
        return state.extend(_read(items, {}))

    last = state.messages[-1] if state else None
    if isinstance(last, AssistantMessage) and _is_said(items[0]):
        said = items_of((last,))
        # What is not of our making, or was changed, stays as it is.
        if _read(said, {}) == [last]:
            calls = _calls_before(state, items)
            first, *more = _read([*said, *items], calls)
            if first != last:
                return with_entries(state, state.entries[:-1]).extend([first, *more])

            return state.extend(more)

    return state.extend(_read(items, _calls_before(state, items)))


def shortened(state: Aggregator) -> tuple[Aggregator, Item | None]:
    """
    *state* without its last item, and the item; None if there is none.

    What can't be said in items is passed over, and stays.
    """
    messages = state.messages
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        before = _calls_of(messages[:at], {_answered(message)})
        items = items_of((message,), before)
        if items:
            break
    else:
        return state, None

    left = _read(items[:-1], {}) if isinstance(message, AssistantMessage) else []
    short = with_entries(state, state.entries[:at]).extend(left)
    return short.extend(messages[at + 1 :]), items[-1]


def with_entries(state: Aggregator, entries: Log[Entry]) -> Aggregator:
    """
    *state* with these *entries*; it has spent what it had spent.
    """
    if entries is state.entries:
        return state

    return Aggregator.rebuild_from_logs(
        id=state.id,
        parent_id=state.parent_id,
        root_id=state.root_id,
        init_len=min(state.init_len, len(entries)),
        init_ledger_len=state.init_ledger_len,
        entries=entries,
        ledger=state.ledger,
    )


def turn_at(state: Aggregator, before_turn: int | None) -> int:
    """
    How many messages of *state* come before that user's message.
    """
    if before_turn is None:
        return len(state)

    turns = [at for at, said in enumerate(state) if isinstance(said, UserMessage)]
    try:
        return turns[before_turn]
    except IndexError:
        msg = (
            f"before_turn is {before_turn}; {len(turns)} messages here are a user's, "
            f"counted from 0, or from the end as -1"
        )
        raise IndexError(msg) from None


def _read(items: Any, calls: Mapping[str, ToolCall]) -> list[Message]:
    kept = _kept(items)
    if messages := _exact(items, kept, calls):
        return messages

    # One of them is not what it seems: each by itself tells which.
    known = dict(calls)
    messages = []
    for run in _runs(items, kept):
        said = [items[at] for at in run]
        exact = _exact(said, [kept[at] for at in run], known)
        messages += exact or [_unread(kept[at]) for at in run]
        for message in exact:
            if isinstance(message, AssistantMessage):
                known.update({call.id: call for call in message.tool_calls})

    return messages


def _kept(items: Any) -> list[Item]:
    """
    What is kept of *items*: plain JSON, its texts mended.
    """
    read = Reading()
    kept: list[Item] = []
    if not is_list(items):
        read.wrong("$", items, "a list of items")
        items = ()

    for at, item in enumerate(items):
        if is_map(item):
            kept.append(read.json(item, f"$[{at}]"))
        else:
            read.wrong(f"$[{at}]", item, "an object")

    read.finish()
    return kept


def _exact(
    items: Sequence[Any], kept: list[Item], calls: Mapping[str, ToolCall]
) -> list[Message]:
    """
    The messages of *items*, if they give them again; else none.
    """
    # The id that is made up for a call tells its place in the whole list.
    if any(_kind(item) in CALLS and not item.get("call_id") for item in kept):
        return []

    try:
        messages = load_items(items, calls)
    except DecodeError:
        return []

    return list(messages) if items_of(messages, calls) == kept else []


def _runs(items: Sequence[Any], kept: list[Item]) -> Iterator[list[int]]:
    """
    The numbers of items that may be read together, and of those that not.
    """
    run: list[int] = []
    for at, item in enumerate(items):
        if _exact([item], [kept[at]], {}):
            run.append(at)
            continue

        if run:
            yield run

        yield [at]
        run = []

    if run:
        yield run


def _unread(item: Item) -> Message:
    return UnknownMessage(item, source=SOURCE)


def _is_said(item: object) -> bool:
    """
    Whether the model may say *item* in the middle of an answer.
    """
    if not is_map(item):
        return False

    if item.get("type") in (None, "message") and "role" in item:
        return bool(item["role"] == "assistant")

    return _kind(item) not in CALLERS


def _kind(item: Mapping[str, Any]) -> str:
    kind = item.get("type")
    return kind if isinstance(kind, str) else ""


def _answered(message: object) -> str:
    return message.tool_call_id if isinstance(message, ToolMessage) else ""


def _calls_before(state: Aggregator, items: Sequence[Any]) -> dict[str, ToolCall]:
    wanted = {
        item["call_id"]
        for item in items
        if is_map(item)
        and _kind(item) in CALLERS
        and isinstance(item.get("call_id"), str)
    }
    return _calls_of(state.messages, wanted)


def _calls_of(messages: Sequence[Message], wanted: set[str]) -> dict[str, ToolCall]:
    """
    The last call of each id that is *wanted*. Looks back no farther than to
    the first of them.
    """
    found: dict[str, ToolCall] = {}
    left = wanted - {""}
    for message in reversed(messages) if left else ():
        if isinstance(message, AssistantMessage):
            for call in reversed(message.tool_calls):
                if call.id in left:
                    found[call.id] = call
                    left.discard(call.id)

            if not left:
                break

    return found
