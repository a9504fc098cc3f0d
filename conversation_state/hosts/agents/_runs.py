"""
What a run adds: its items, as messages and back, appended to a state or removed from
it; and its usage, as entries of a ledger.

The messages are those that `load` makes of all items, in however many steps they
are added: items of the model continue the answer at the end, if there is one.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from conversation_state._identity import new_entry_id
from conversation_state._persistent import Log
from conversation_state._wording import describe_type, format_count
from conversation_state.adapters.engine.export import Export, PayloadWriter
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    is_list,
    is_map,
    mended,
)
from conversation_state.adapters.engine.usage import read_billed
from conversation_state.adapters.openai_responses.items import (
    CALLERS,
    CALLS,
    SOURCE,
    load_items,
    read_responses_counts,
    write_items,
)
from conversation_state.aggregator import Aggregator, Entry, response_key
from conversation_state.errors import DecodeError
from conversation_state.hosts._host import replace_entries
from conversation_state.messages import (
    PLAIN,
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

Item = dict[str, Any]

# The id that the SDK sets where a provider sends none.
_NO_ID = "__fake_id__"

_DETAILS = {
    "input_tokens_details": ("cached_tokens", "cache_write_tokens"),
    "output_tokens_details": ("reasoning_tokens",),
}

# The keys of responses without any id, by their id(). A key is removed with its
# response, because another one may get the same id() then.
_keys: dict[int, tuple[weakref.ref[Any], str]] = {}


def dump(messages: Iterable[Message]) -> Export:
    """
    *messages* as a session returns them to the SDK: a list of items.

    As `openai_responses.dump`, except that no message is an agent's
    instructions, and that reasoning at the end is kept: more may follow.

    Raises:
        InvalidMessageError: If one of them is not a message.
    """
    writer = PayloadWriter(SOURCE)
    calls: dict[str, ToolCall] = {}
    items = [
        item
        for message, path in writer.each(messages)
        for item in write_items(writer, message, path, calls, followed=True)
    ]
    return Export(items, tuple(writer.lost))


def load(items: Sequence[Any]) -> tuple[Message, ...]:
    """
    The messages of *items*, as the SDK has them: `dump` restores the same JSON
    values, item for item.

    Consecutive items of the model are one message. An item that would not be
    restored is an `UnknownMessage`. A lone surrogate becomes U+FFFD, and a note
    lists its path.

    Raises:
        DecodeError: If they are not a list of JSON objects; with every problem and its
            path.
    """
    return tuple(_load_items(items, {}))


def _is_text_alone(message: Any) -> bool:
    kind = message.__class__
    is_said = kind is UserMessage or (
        kind is AssistantMessage and not message.tool_calls
    )
    return is_said and message._common is PLAIN and message.content.__class__ is str


# The items of *messages*; *calls* are earlier ones, by their ids.
def items_of(
    messages: Iterable[Message], calls: Mapping[str, ToolCall] | None = None
) -> list[Any]:
    # The items are typed as Any, because the SDK types an item as a union of all kinds.
    writer, known = PayloadWriter(SOURCE), dict(calls or {})
    items: list[Any] = []
    message: Any
    for message in messages:
        # Most are a text and nothing else, which takes a third of the time.
        if _is_text_alone(message):
            items.append({"role": message.role, "content": message.content})
        else:
            items += write_items(writer, message, "", known, followed=True)

    return items


def newest_items(messages: Sequence[Message], limit: int) -> list[Any] | None:
    """
    The newest *limit* items of a conversation that ends in *messages*; None if
    these are too few.

    They are also too few if the call of a result is not among them: the kind of
    the result depends on it.
    """
    found: list[list[Any]] = []
    count = 0
    for at in range(len(messages) - 1, -1, -1):
        if count >= limit:
            break

        message = messages[at]
        calls = _calls_of(messages[:at], {_answered_call(message)})
        if isinstance(message, ToolMessage) and not calls:
            return None

        found.append(items_of((message,), calls))
        count += len(found[-1])

    items = [item for one in reversed(found) for item in one]
    return items[count - limit :] if count >= limit else None


def append_items(state: Aggregator, items: Sequence[Any]) -> Aggregator:
    """
    *state* with *items* at its end; itself if *items* is empty.

    The last entry is replaced if the items continue its answer.

    Raises:
        DecodeError: As `load` raises it.
    """
    # `_load_items` refuses a value that is not a list, with an error about it.
    if not is_list(items) or not items:
        return state.extend(_load_items(items, {}))

    last = state.messages[-1] if len(state) else None
    if isinstance(last, AssistantMessage) and _continues_answer(items[0]):
        old = items_of((last,))
        # An answer that can't be restored from its items stays as it is, and *items*
        # become messages behind it.
        if _load_items(old, {}) == [last]:
            calls = _calls_before(state, items)
            first, *more = _load_items([*old, *items], calls)
            # If the answer is still equal, its entry is kept, because forks share it.
            if first != last:
                return replace_entries(state, state.entries[:-1]).extend([first, *more])

            return state.extend(more)

    return state.extend(_load_items(items, _calls_before(state, items)))


def append_after(
    newest: Log[Entry], items: Sequence[Any], *, is_whole: bool
) -> list[Message] | None:
    """
    The messages that `append_items` adds to a conversation with these *newest* entries,
    which *is_whole* says are all; None if more are needed for that, or if it also
    replaces the last one.

    Raises:
        DecodeError: As `load` raises it.
    """
    end = replace_entries(Aggregator.new(), newest)
    if not is_whole:
        wanted = _find_answered(items) if is_list(items) else set()
        if len(_calls_of(end.messages, wanted)) < len(wanted):
            return None

    grown = append_items(end, items)
    is_longer = grown.entries.common_prefix(newest) == len(newest)
    return list(grown.messages[len(newest) :]) if is_longer else None


def load_apart(items: Sequence[Any]) -> list[Message] | None:
    """
    The messages that `append_items` adds to any conversation, of one item at least;
    None if that depends on its end.

    Raises:
        DecodeError: As `load` raises it.
    """
    if not is_list(items) or _continues_answer(items[0]):
        return None

    return None if _find_answered(items) else _load_items(items, {})


def pop_last_item(state: Aggregator) -> tuple[Aggregator, Item | None]:
    """
    *state* without its last item, and the item, or None.

    Messages without items are skipped, and stay.
    """
    messages = state.messages
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        before = _calls_of(messages[:at], {_answered_call(message)})
        items = items_of((message,), before)
        if items:
            break
    else:
        return state, None

    # A message of another role is a single item, so nothing is left of it.
    left = _load_items(items[:-1], {}) if isinstance(message, AssistantMessage) else []
    short = replace_entries(state, state.entries[:at]).extend(left)
    return short.extend(messages[at + 1 :]), items[-1]


# The number of messages of *state* before the user's message *before_turn*.
def find_turn(state: Aggregator, before_turn: int | None) -> int:
    if before_turn is None:
        return len(state)

    turns = [at for at, message in enumerate(state) if isinstance(message, UserMessage)]
    try:
        return turns[before_turn]
    except IndexError:
        raise IndexError(
            f"before_turn: {before_turn} is out of range; there are "
            f"{format_count(len(turns), 'message')} of the user, counted from 0, or "
            "from the end as -1"
        ) from None


def _load_items(items: Any, calls: Mapping[str, ToolCall]) -> list[Message]:
    if is_list(items) and all(map(_is_plain_text, items)):
        # Most runs begin with such items; this takes a fifth of the time.
        return [_PLAIN[item["role"]](item["content"]) for item in items]

    kept = _check_items(items)
    if messages := _load_exact(items, kept, calls):
        return messages

    # At least one item is not restored. Each is loaded alone to find out which.
    known = dict(calls)
    messages = []
    for run in _find_runs(items, kept):
        exact = _load_exact([items[at] for at in run], [kept[at] for at in run], known)
        messages += exact or [UnknownMessage(kept[at], source=SOURCE) for at in run]
        for message in exact:
            if isinstance(message, AssistantMessage):
                known.update({call.id: call for call in message.tool_calls})

    return messages


# The messages of items that are a role and a text.
_PLAIN: dict[str, type[UserMessage | AssistantMessage]] = {
    "assistant": AssistantMessage,
    "user": UserMessage,
}
_PLAIN_KEYS = {"content", "role"}


def _is_plain_text(item: object) -> bool:
    if type(item) is not dict or item.keys() != _PLAIN_KEYS:
        return False

    role, content = item["role"], item["content"]
    return (
        (type(role), type(content)) == (str, str)
        and role in _PLAIN
        and mended(content) is content
    )


def _check_items(items: Any) -> list[Item]:
    reader = DocumentReader()
    kept: list[Item] = []
    if not is_list(items):
        reader.wrong("$", items, "a list of items")
        items = ()

    for at, item in enumerate(items):
        if is_map(item):
            kept.append(reader.json(item, f"$[{at}]"))
        else:
            reader.wrong(f"$[{at}]", item, "an object")

    reader.finish()
    return kept


# The messages of *items* if these are restored from them; else none.
def _load_exact(
    items: Sequence[Any], kept: list[Item], calls: Mapping[str, ToolCall]
) -> list[Message]:
    # A call without an id gets one that depends on its position in the list, so it
    # would differ if the items were added in other steps.
    if any(_type_of(item) in CALLS and not item.get("call_id") for item in kept):
        return []

    try:
        messages = load_items(items, calls)
    except DecodeError:
        return []

    return list(messages) if items_of(messages, calls) == kept else []


def _find_runs(items: Sequence[Any], kept: list[Item]) -> Iterator[list[int]]:
    """The positions of items loaded together, and of single ones not restored."""
    run: list[int] = []
    for at, item in enumerate(items):
        if _load_exact([item], [kept[at]], {}):
            run.append(at)
            continue

        if run:
            yield run

        yield [at]
        run = []

    if run:
        yield run


# Whether *item* may be in the middle of an answer of the model.
def _continues_answer(item: object) -> bool:
    if not is_map(item):
        return False

    if item.get("type") in (None, "message") and "role" in item:
        return bool(item["role"] == "assistant")

    return _type_of(item) not in CALLERS


def _type_of(item: Mapping[str, Any]) -> str:
    kind = item.get("type")
    return kind if isinstance(kind, str) else ""


def _answered_call(message: object) -> str:
    return message.tool_call_id if isinstance(message, ToolMessage) else ""


def _calls_before(state: Aggregator, items: Sequence[Any]) -> dict[str, ToolCall]:
    return _calls_of(state.messages, _find_answered(items))


def _find_answered(items: Sequence[Any]) -> set[str]:
    """The ids of the calls that *items* answer, but for those made in them before."""
    made = {""}
    wanted = set()
    for item in items:
        call_id = item.get("call_id") if is_map(item) else None
        if isinstance(call_id, str) and call_id not in made:
            if _type_of(item) in CALLERS:
                wanted.add(call_id)
            elif _type_of(item) in CALLS:
                made.add(call_id)

    return wanted


def _calls_of(messages: Sequence[Message], wanted: set[str]) -> dict[str, ToolCall]:
    """The last call of each id *wanted*. Looks back no farther than to the first."""
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


class KeyedUsage(NamedTuple):
    key: str
    usage: Usage


def read_usages(result: Any) -> Iterator[KeyedUsage]:
    """
    The usage of each response of *result* that has one.

    Raises:
        TypeError: If *result* is not the result of a run.
        DecodeError: If a count is not a number of tokens.
    """
    responses = getattr(result, "raw_responses", None)
    if not isinstance(responses, list):
        raise TypeError(
            "result: expected the result of Runner.run or Runner.run_streamed, got "
            f"{describe_type(result)}"
        )

    for response in responses:
        yield from read_response_usage(response)


def read_response_usage(response: Any) -> Iterator[KeyedUsage]:
    """
    The usage of one response, if it has one.

    Raises:
        DecodeError: If a count is not a number of tokens.
    """
    usage = _read_run_usage(response.usage)
    if usage is not None:
        yield KeyedUsage(_make_key(response), usage)


def _read_run_usage(usage: Any) -> Usage | None:
    """
    The SDK's *usage* as ours; None if all counts are zero.

    Source:
        The SDK counts as the Responses API does: cache reads and writes are
        input, reasoning is output. Missing counts are zeros there.
    """
    counts = {
        name: getattr(usage, name)
        for name in ("input_tokens", "output_tokens", "total_tokens")
    }
    if not any(counts.values()):
        return None

    for name, kinds in _DETAILS.items():
        details = getattr(usage, name, None)
        counts[name] = {kind: getattr(details, kind, None) or 0 for kind in kinds}

    if not counts["total_tokens"]:
        del counts["total_tokens"]

    # A count that can't be read makes the usage unknown, and stops no run.
    return read_billed(DocumentReader(), counts, "$", read_responses_counts)[0]


# The messages of *response*; none if its items are not such as a session keeps.
def _read_output(response: Any) -> list[Message]:
    try:
        return _load_items(response.to_input_items(), {})
    except (AttributeError, DecodeError):
        return []


def _make_key(response: Any) -> str:
    for own_id in (response.response_id, getattr(response, "request_id", None)):
        if isinstance(own_id, str) and own_id and own_id != _NO_ID:
            key = response_key(*_read_output(response), id=own_id)
            if key is not None:
                return key

    place = id(response)
    if place not in _keys:
        gone = weakref.ref(response, lambda _: _keys.pop(place, None))
        # If two threads record one response, the key of the first one stays.
        _keys.setdefault(place, (gone, new_entry_id()))

    return _keys[place][1]
