"""What a client posts, and the state that a server answers it from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import attrs

from conversation_state._canonical import dump as dump_json
from conversation_state.adapters.ai_sdk._dump import UiTurn, UiWriter, group_turns
from conversation_state.adapters.ai_sdk._load import (
    DENIED,
    SOURCE,
    UiLoader,
    read_reason,
)
from conversation_state.adapters.engine.notes import (
    RESERVED,
    map_of,
    notes_of,
    with_notes,
)
from conversation_state.adapters.engine.reading import ObjectReader, is_list, is_map
from conversation_state.adapters.engine.ui import (
    check_tree,
    list_entries,
    read_words,
    was_cut,
)
from conversation_state.aggregator import Aggregator, Entry
from conversation_state.messages import Message, ToolMessage, UnknownMessage
from conversation_state.tools import ToolCall
from conversation_state.tree import MessageTree

_TRIGGERS = ("submit-message", "regenerate-message")
_BODY = frozenset({"id", "message", "messageId", "messages", "trigger"})


@attrs.frozen
class ChatRequest:
    """
    What ``useChat`` posts.

    Attributes:
        chat: The conversation.
        trigger: Whether a message is submitted, or an answer made again.
        message_id: The message that is edited, or whose answer is made again; None for
            the last one.
        messages: The messages that the client has. A server that keeps its own reads
            of these only what is new, see `resume_from`.
        ids: The ids of these, one for each ``UIMessage``.
        extra: What else the client's program sends.
    """

    chat: str
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: str | None = None
    messages: tuple[Message, ...] = ()
    ids: tuple[str, ...] = ()
    extra: Mapping[str, Any] = MappingProxyType({})

    def resume_from(self, tree: MessageTree) -> Aggregator:
        """What `resume_from` returns; `StoredChat.answer` takes such requests."""
        return resume_from(tree, self)

    @property
    def approvals(self) -> dict[str, bool]:
        """
        Whether the user approved calls of the last message, by their ids. Which of
        these wait for it, the server knows (`Aggregator.pending_calls`).
        """
        turns = group_turns(list_entries(self.messages))
        calls = _find_calls(turns[-1]) if turns else {}
        return {key: bool(_find_approval(call)) for key, call in calls.items()}


def load_request(body: Any) -> ChatRequest:
    """
    What a client posts: ``{id, messages, trigger?, messageId?, …}``, or, if its program
    sends the last message alone, ``{id, message, …}``.

    Raises:
        DecodeError: If something is invalid; with all that is, each with its path.

    >>> parts = [{"type": "text", "text": "Hi"}]
    >>> message = {"id": "u1", "role": "user", "parts": parts}
    >>> asked = load_request({"id": "c1", "messages": [message], "model": "small"})
    >>> asked.chat, asked.trigger, asked.ids, asked.extra
    ('c1', 'submit-message', ('u1',), {'model': 'small'})
    """
    loader = UiLoader()
    if not is_map(body):
        loader.wrong("$", body, "what useChat posts, an object")
        loader.finish()

    node = ObjectReader(loader, body, "$")
    chat, message_id = node.text("id"), node.nullable("messageId") or None
    trigger: Any = node.nullable("trigger") or _TRIGGERS[0]
    if trigger not in _TRIGGERS:
        node.wrong("trigger", " or ".join(_TRIGGERS))

    messages: list[Message] = []
    if is_list(body.get("messages")):
        messages = loader.history(body["messages"], "$.messages")
        last = body["messages"][-1:]
        path = f"$.messages[{len(body['messages']) - 1}].role"
    elif is_map(body.get("message")):
        last, path = [body["message"]], "$.message.role"
        messages = loader.read_item(body["message"], "$.message")
    else:
        node.wrong("messages", "a list of UIMessages")
        last, path = [{}], ""

    if trigger == _TRIGGERS[0]:
        if not last:
            loader.problem("$.messages", "is empty; expected what is submitted")
        elif is_map(last[0]) and last[0].get("role") == "system":
            loader.problem(path, "is 'system'; expected that of a user or assistant")

    extra = loader.rest(body, _BODY, "$")
    loader.finish()
    ids = tuple(loader.ids)
    return ChatRequest(chat, trigger, message_id, tuple(messages), ids, extra)


def resume_from(tree: MessageTree, request: ChatRequest) -> Aggregator:
    """
    The state to ask the model with.

    - A new message of the user stands behind the last message of the client that
      *tree* has, or behind what the tree shows if it has none of them.
    - A message that the tree has, with other words, is edited: the new one is its
      sibling, with an id of its own. With the same words it is asked again.
    - Of an assistant's message the outputs, and denied approvals, of calls that wait
      (`Aggregator.pending_calls`) are its results; also of one that a new message of
      the user stands behind. The same outputs again add nothing.
    - An answer is made again from what stands before it.

    The server's history wins: whatever else the client posts, the text of earlier
    messages too, is not read. O(n).

    Raises:
        LookupError: If *tree* lacks the message that is edited, answered again or has
            the outputs; or if it has other outputs of these calls, or an answer to
            them, since another tab posted its own first; or if the calls were cut off:
            an HTTP server answers 409, and the client loads the conversation.

    >>> tree = MessageTree.of(Aggregator.new().add_user_prompt("When?"))
    >>> parts = [{"type": "text", "text": "Well?"}]
    >>> message = {"id": "u2", "role": "user", "parts": parts}
    >>> state = resume_from(tree, load_request({"id": "c1", "messages": [message]}))
    >>> [message.text for message in state.messages]
    ['When?', 'Well?']
    """
    check_tree(tree)
    turns = group_turns(list_entries(request.messages))
    last = turns[-1] if turns else None
    if request.trigger == "regenerate-message":
        return _ask_again(tree, request, last)

    is_known = last is not None and not _is_unknown(last.entries[-1])
    if last is None or not is_known or last.role not in ("assistant", "user"):
        raise LookupError("there is no message of a user or assistant to go on from")

    if last.role == "assistant":
        return _add_results(tree, last)

    return _submit_message(tree, request, turns)


def _is_unknown(entry: Entry) -> bool:
    return isinstance(entry.message, UnknownMessage)


class _Found:
    """A turn that a tree has, and the tree with the way through it shown."""

    def __init__(self, tree: MessageTree, turn: UiTurn) -> None:
        self.tree = tree
        self.turn = turn

    def before(self) -> Aggregator:
        return self.tree.path(self.tree.node(self.turn.entries[0].id).parent)

    def through(self) -> Aggregator:
        return self.tree.path(self.turn.entries[-1].id)


def _find_message(tree: MessageTree, ui_id: str | None) -> _Found | None:
    try:
        node = tree.node(tree.find(ui_id or ""))
    except LookupError:
        return None

    return _find_turn(tree, node.id)


def _find_turn(tree: MessageTree, node_id: str) -> _Found:
    tree, entry = tree.switch(node_id), tree.node(node_id).entry
    turns = group_turns(tree.shown.entries, tree)
    found = (turn for turn in turns if any(one.id == entry.id for one in turn.entries))
    return _Found(tree, next(found))


def _make_lookup_error(ui_id: str | None) -> LookupError:
    return LookupError(
        f"this conversation has no message {ui_id!r:.80}; load it again, and then post"
    )


def _ask_again(
    tree: MessageTree, request: ChatRequest, last: UiTurn | None
) -> Aggregator:
    # The client has cut its list behind what is answered; unless it sends the answer.
    last_id = request.ids[-1] if request.ids else None
    found = None if last_id == request.message_id else _find_message(tree, last_id)
    if found is not None:
        return _find_words(found, last).through()

    found = _find_message(tree, request.message_id)
    if found is None:
        raise _make_lookup_error(request.message_id or last_id)

    if found.turn.role == "assistant":
        return found.before()

    return _find_words(found, last).through()


def _submit_message(
    tree: MessageTree, request: ChatRequest, turns: list[UiTurn]
) -> Aggregator:
    last = turns[-1]
    new = last.entries[0].message
    found = _find_message(tree, last.id)
    if found is not None and found.turn.role == "user":
        same = _find_words(found, last)
        if read_words(same.turn.entries[0].message) == read_words(new):
            return same.through()

        return found.before().add(_without_id(new))

    if found is not None:
        new = _without_id(new)

    if request.message_id is not None:
        edited = _find_message(tree, request.message_id)
        if edited is not None and edited.turn.role == "user":
            return edited.before().add(new)

        # The first message of a conversation can't be an edited one.
        if tree.head is not None:
            raise _make_lookup_error(request.message_id)

    return _find_place(tree, request, turns).add(new)


def _find_place(
    tree: MessageTree, request: ChatRequest, turns: list[UiTurn]
) -> Aggregator:
    for ui_id in reversed(request.ids[:-1]):
        known = _find_message(tree, ui_id)
        if known is not None:
            state, before = known.through(), turns[-2:-1]
            if before and before[0].id == ui_id and known.turn.role == "assistant":
                state = _add_open_results(state, before[0])

            return state

    return tree.present


def _find_words(found: _Found, last: UiTurn | None) -> _Found:
    # A client that edited a message still knows the new one by the id of the old one.
    # Which of the siblings it means, the words say.
    tree = found.tree
    if last is None or found.turn.role != "user" or last.role != "user":
        return found

    words = last.entries[0].message
    _, ids = tree.siblings(found.turn.entries[0].id)
    for sibling in (found.turn.entries[0].id, *reversed(ids)):
        if read_words(tree.node(sibling).message) == read_words(words):
            return _find_turn(tree, sibling)

    return found


def _without_id(message: Message) -> Message:
    kept = {k: v for k, v in map_of(message.metadata, RESERVED).items() if k != "ui"}
    metadata = {k: v for k, v in message.metadata.items() if k != RESERVED}
    return message.replace(metadata={**metadata, **({RESERVED: kept} if kept else {})})


def _add_results(tree: MessageTree, last: UiTurn) -> Aggregator:
    found = _find_message(tree, last.id)
    if found is None or found.turn.role != "assistant":
        raise _make_lookup_error(last.id)

    state = found.through()
    shown = [each.message for each in found.turn.entries if not _is_unknown(each)]
    waiting = {call.id for call in state.pending_calls}
    given = _find_given(last)
    if given and shown[-1].role == "assistant" and waiting.isdisjoint(given):
        if was_cut(shown[-1]):
            why = "the answer {} was cut off, and its calls wait for no results"
        else:  # of another tab, which gave the results first
            why = "the results of {} were answered already"

        raise LookupError(f"{why.format(f'{last.id!r:.80}')}; load it again")

    return _add_open_results(state, last)


def _find_given(turn: UiTurn) -> set[str]:
    """The calls of the last answer in *turn* with a result or a decision behind it."""
    results, given = _find_results(turn), set(_find_calls(turn))
    for entry in reversed(turn.entries):
        message = entry.message
        if not isinstance(message, ToolMessage):
            return given & {call.id for call in message.tool_calls}

        if results.get(message.tool_call_id) is message:
            given.add(message.tool_call_id)

    return given


def _add_open_results(state: Aggregator, turn: UiTurn) -> Aggregator:
    denials = {key: _make_denial(call) for key, call in _find_calls(turn).items()}
    results = {**denials, **_find_results(turn)}
    for call_id, known in _find_unanswered(state).items():
        if call_id in results and not _is_told(results[call_id], known):
            raise LookupError(
                f"the call {call_id!r:.80} has another result already; load it again"
            )

    for call in state.pending_calls:
        result = results.get(call.id)
        if result is not None:
            state = state.add(result.replace(tool_name=call.name, name=""))

    return state


def _find_unanswered(state: Aggregator) -> dict[str, list[ToolMessage]]:
    """The results that no answer stands behind, by the ids of their calls."""
    found: dict[str, list[ToolMessage]] = {}
    for message in reversed(state.messages):
        if isinstance(message, ToolMessage):
            found.setdefault(message.tool_call_id, []).append(message)
        elif not isinstance(message, UnknownMessage):
            break

    return found


def _is_told(result: ToolMessage | None, known: list[ToolMessage]) -> bool:
    """Whether *known* results say what *result* does; None is an approval."""
    outputs = [_write_output(each) for each in known]
    if result is None:
        return all(each["state"] != "output-denied" for each in outputs)

    # 1 equals True, and is other JSON.
    return dump_json(_write_output(result)) in map(dump_json, outputs)


def _write_output(message: ToolMessage) -> dict[str, Any]:
    """What a client has of *message*."""
    part: dict[str, Any] = {}
    UiWriter().write_result(message, "messages[0]", part, None)
    said = ("state", "output", "errorText")
    return {key: part[key] for key in said if key in part}


def _find_results(turn: UiTurn) -> dict[str, ToolMessage]:
    """The results of the latest call with each id in *turn*."""
    found: dict[str, ToolMessage] = {}
    for entry in turn.entries:
        message = entry.message
        for call in message.tool_calls:
            found.pop(call.id, None)

        if isinstance(message, ToolMessage):
            keys = map_of(notes_of(message.metadata, SOURCE), "keys")
            if keys.get("preliminary") is not True:
                found[message.tool_call_id] = message

    return found


def _find_calls(turn: UiTurn) -> dict[str, ToolCall]:
    """The latest calls in *turn* that the user approved or denied, by their ids."""
    calls = [call for each in turn.entries for call in each.message.tool_calls]
    latest = {call.id: call for call in calls}
    return {
        key: call for key, call in latest.items() if _find_approval(call) is not None
    }


def _find_approval(call: ToolCall) -> bool | None:
    notes = notes_of(call.metadata, SOURCE)
    approved = map_of(map_of(notes, "keys"), "approval").get("approved")
    is_given = notes.get("state") == "approval-responded"
    return approved if is_given and isinstance(approved, bool) else None


def _make_denial(call: ToolCall) -> ToolMessage | None:
    if _find_approval(call) is not False:
        return None

    given = map_of(map_of(notes_of(call.metadata, SOURCE), "keys"), "approval")
    approval = {key: given[key] for key in ("approved", "id", "reason") if key in given}
    notes = {"state": "output-denied", "approval": approval}
    return ToolMessage(
        read_reason(given) or DENIED,
        tool_call_id=call.id,
        is_error=True,
        metadata=with_notes(SOURCE, notes),
    )
