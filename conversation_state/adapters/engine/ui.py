"""
What formats of user interfaces share: entries of whatever is shown, the siblings of an
entry, notes of ours that a client keeps, the usage of models in a page's terms, and
an answer and its calls while their pieces stream out.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Protocol

import attrs

from conversation_state._identity import new_entry_id
from conversation_state._persistent import EMPTY_MAP, check_list
from conversation_state._wording import describe_value
from conversation_state.adapters.engine.notes import RESERVED
from conversation_state.adapters.engine.reading import ObjectReader, is_map
from conversation_state.adapters.engine.wire import make_call_id
from conversation_state.aggregator import Aggregator, Entry
from conversation_state.chunks import concat
from conversation_state.messages import AssistantMessage, Message, UserMessage
from conversation_state.tools import ToolCall
from conversation_state.tree import MessageTree, Node, name, ui_id_of
from conversation_state.usage import Usage

# Of what stands under our key of a metadata.
VERSION = 1
# The reason of an answer that was cut off.
INTERRUPTED = "interrupted"
# The largest integer that survives JSON in a browser.
_MAX_COUNT = 2**53 - 1


def list_entries(
    messages: Aggregator | MessageTree | Iterable[Entry | Message],
) -> list[Any]:
    """
    The entries of a state, of what a tree shows, or of entries and messages. A message
    alone has no identity, and is named by its place. What is no message is one of the
    entries all the same, for the writer to refuse.
    """
    shown = messages.present if isinstance(messages, MessageTree) else messages
    given: Any = shown.entries if isinstance(shown, Aggregator) else shown
    check_list(given, "messages", "a list of Messages")
    return [
        each if isinstance(each, Entry) else Entry(f"message_{at}", each)
        for at, each in enumerate(given)
    ]


def find_siblings(
    tree: MessageTree | None, entry: Entry
) -> tuple[int, tuple[str, ...]]:
    """
    The place of *entry* among its siblings in *tree*, and the ids by which interfaces
    know all of them; none if it is the only one.
    """
    if tree is None:
        return 0, ()

    ui_id = ui_id_of(entry)
    try:
        node = entry.id if entry.id in tree else tree.find(ui_id)
        at, ids = tree.siblings(node)
    except LookupError:
        return 0, ()

    if not ids[1:]:
        return 0, ()

    return at, tuple([ui_id_of(tree.node(each).entry) for each in ids])


def wrap_own(own: Mapping[str, Any]) -> dict[str, Any]:
    """*own*, notes of ours, as a client keeps them in a metadata; nothing if empty."""
    return {RESERVED: {"version": VERSION, **own}} if own else {}


def read_words(message: Message) -> tuple[str, list[Any]]:
    """What *message* says, whatever is noted with its parts."""
    parts: tuple[Any, ...] = message.parts
    return message.role, [attrs.evolve(each, index=None, metadata={}) for each in parts]


def check_tree(tree: object) -> None:
    """Check that a client's request is read with a tree, and not with a state."""
    if not isinstance(tree, MessageTree):
        raise TypeError(
            f"tree: expected a MessageTree, got {describe_value(tree)}; "
            "MessageTree.of(state) makes one"
        )


def find_prompt(message: Message, tree: MessageTree) -> Node | None:
    """The node of a user's *message* in *tree*, by the id that it was named with."""
    try:
        node = tree.node(tree.find(ui_id_of(Entry("", message))))
    except LookupError:
        return None

    return node if node.message.role == message.role == "user" else None


def ask_prompt(message: UserMessage, tree: MessageTree) -> Aggregator | None:
    """
    The state that ends with a user's *message* that *tree* has by its id, to be asked
    again; if it has other words, it is edited: a sibling with an id of its own. None if
    *tree* lacks it.
    """
    node = find_prompt(message, tree)
    if node is None:
        return None

    for sibling in (node.id, *tree.siblings(node.id)[1]):
        if read_words(tree.node(sibling).message) == read_words(message):
            return tree.path(sibling)

    return tree.path(node.parent).add(name(message, new_entry_id()))


def read_own(node: ObjectReader, key: str = "metadata") -> Mapping[str, Any]:
    """What `wrap_own` kept under *key* of *node*; the rest is kept as a key."""
    given = node.raw.get(key)
    own = given.get(RESERVED) if is_map(given) else None
    if is_map(given) and is_map(own) and own.get("version") == VERSION:
        given = {name: given[name] for name in given if name != RESERVED}
        if not given:
            return own
    else:
        own = {}

    if key in node.raw:
        node.keys[key] = node.reading.json(given, f"{node.path}.{key}")

    return own


def was_cut(message: Message) -> bool:
    """
    Whether *message* was cut off: its calls wait for no result, so no client may run
    them (`Aggregator.pending_calls`).
    """
    response = getattr(message, "response", None)
    return response is not None and is_cut_off(response.finish_reason, None)


def is_cut_off(reason: str, failure: Exception | None) -> bool:
    """
    Whether a response that ended with *reason*, "" if it gave none, before its chunks
    ended with *failure*, was cut off.
    """
    return reason == INTERRUPTED or (failure is not None and not reason)


def write_usage(usage: Usage) -> dict[str, int]:
    """The counts of *usage*; those that a browser can't represent are left out."""
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    parts = {
        "reasoningTokens": usage.completion_tokens_details.reasoning_tokens,
        "cachedInputTokens": usage.prompt_tokens_details.cached_tokens,
        "cacheWriteInputTokens": usage.extra.get("cache_write_tokens", 0),
    }
    counts = {
        "inputTokens": prompt,
        "outputTokens": completion,
        "totalTokens": prompt + completion,
    }
    counts |= {key: count for key, count in parts.items() if count}
    return {key: count for key, count in counts.items() if count <= _MAX_COUNT}


class EventWriter(Protocol):
    """
    **Protocol:** one answer while its events are written. `end` writes the last ones,
    and raises *failure*, which the chunks ended with, behind them.
    """

    def begin(self) -> Iterable[dict[str, Any]]:
        """The events before all chunks."""
        ...

    def read(self, chunk: Any, /) -> Iterable[dict[str, Any]]:
        """The events that *chunk* brings."""
        ...

    def end(self, failure: Exception | None) -> Iterable[dict[str, Any]]:
        """The last events."""
        ...


def events_of(
    writer: EventWriter, chunks: Iterable[Message]
) -> Iterator[dict[str, Any]]:
    """The events that *writer* makes of *chunks*, as they come."""
    failure: Exception | None = None
    # Only `Exception` is caught, as in `chunks_of`: a generator that is being closed
    # may not yield.
    try:
        yield from writer.begin()
        for chunk in chunks:
            yield from writer.read(chunk)
    except Exception as error:  # noqa: BLE001 - any of the source's: raised at the end
        failure = error

    yield from writer.end(failure)


async def aevents_of(
    writer: EventWriter, chunks: AsyncIterable[Message]
) -> AsyncIterator[dict[str, Any]]:
    """As `events_of`, for chunks that are awaited."""
    failure: Exception | None = None
    try:
        for event in writer.begin():
            yield event

        async for chunk in chunks:
            for event in writer.read(chunk):
                yield event
    except Exception as error:  # noqa: BLE001 - any of the source's: raised at the end
        failure = error

    for event in writer.end(failure):
        yield event


def merge_metadata(old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata of two pieces of one call or part, as `concat` has it."""
    if not old:
        return new

    return concat([AssistantMessage(metadata=each) for each in (old, new)]).metadata


class OutgoingCall:
    """A call while its pieces come; it begins when its id and name are known."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.id = self.name = self.arguments = self.sent_as = ""
        self.type = "function"
        self.metadata: Mapping[str, Any] = EMPTY_MAP
        self.is_whole = False  # and not in pieces


class OutgoingCalls:
    """The calls of a response, in the order in which they began."""

    def __init__(self) -> None:
        self.all: list[OutgoingCall] = []
        self._at: dict[int, OutgoingCall] = {}

    def read(self, piece: ToolCall) -> OutgoingCall:
        """The call that *piece* is of, with what this adds to it."""
        call = None if piece.index is None else self._at.get(piece.index)
        # As `concat` has it: another id at a place begins another call.
        if call is None or (piece.id and call.id and piece.id != call.id):
            call = OutgoingCall(len(self.all))
            self.all.append(call)
            if piece.index is None:
                call.is_whole = True
            else:
                self._at[piece.index] = call

        call.id, call.name = call.id or piece.id, call.name or piece.name
        call.arguments += piece.arguments
        if piece.type != "function":
            call.type = piece.type

        if piece.metadata:
            call.metadata = merge_metadata(call.metadata, piece.metadata)

        return call

    def name(self, call: OutgoingCall, message_id: str) -> str:
        """
        Give *call* the id that it is sent as: its own, unless it has none or another
        call has the same, at which a client's run would end.
        """
        used = {other.sent_as for other in self.all}
        made = make_call_id(message_id, call.number)
        call.sent_as = call.id if call.id and call.id not in used else made
        return call.sent_as
