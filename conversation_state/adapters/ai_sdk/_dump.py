"""Messages as a list of ``UIMessage``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import add
from typing import Any, Literal, NamedTuple

from conversation_state._persistent import thaw
from conversation_state.adapters.ai_sdk._load import (
    CUT,
    DENIED,
    NOTED,
    SOURCE,
    WHOLE,
    WILDCARDS,
    UiLoader,
    find_kind,
    format_json,
    is_tool,
    parse_json,
    read_reason,
    write_partial,
)
from conversation_state.adapters.engine.export import (
    Export,
    PayloadWriter,
    in_order,
    merge_kept_keys,
    whose,
)
from conversation_state.adapters.engine.notes import list_of, map_of, notes_of
from conversation_state.adapters.engine.reading import ObjectReader
from conversation_state.adapters.engine.ui import (
    find_siblings,
    list_entries,
    was_cut,
    wrap_own,
    write_usage,
)
from conversation_state.adapters.engine.wire import data_url, make_call_id
from conversation_state.aggregator import Aggregator, Entry
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
    sniff_media_type,
)
from conversation_state.tools import ToolCall
from conversation_state.tree import MessageTree, ui_id_of

# What version 6 of the SDK refuses.
_OLD = 6
_NEWER = frozenset({"custom", "reasoning-file", "steering-message"})


def dump(
    messages: Aggregator | MessageTree | Iterable[Entry | Message],
    *,
    siblings: bool = False,
    version: Literal[6, 7] = 7,
) -> Export:
    """
    *messages* as a list of ``UIMessage``. O(n).

    Args:
        messages: A state, a tree (what it shows), entries or messages.
        siblings: Each message has, in its ``metadata.conversation_state``, the ids of
            its ``entries``; and, if *messages* are a tree in which it has siblings, the
            ids of all of them as ``siblings``, and its place among these as ``at``.
        version: Of the package ``ai`` that reads it. What version 6 refuses is lost.

    Raises:
        InvalidMessageError: If one of *messages* is not a message.
        ValueError: If *version* is something else.
    """
    check_version(version)
    tree = messages if isinstance(messages, MessageTree) else None
    entries = list_entries(messages)
    writer = UiWriter(version)
    # Whatever is no message is refused here.
    paths = [path for _, path in writer.each([each.message for each in entries])]
    items: list[dict[str, Any]] = []
    for turn in group_turns(entries, tree, version):
        item = writer.write(turn, paths[turn.start :])
        if item is not None:
            if siblings:
                wrapped = wrap_own(_describe_place(turn, tree))
                merge_kept_keys({"metadata": wrapped}, item)

            items.append(item)

    return writer.export(items)  # type: ignore[arg-type]  # a list here


def check_version(version: object) -> None:
    """Raise a ValueError if the SDK has no such *version*."""
    if version not in (6, 7):
        raise ValueError(f"version is {version!r:.40}; expected 6 or 7")


class UiTurn(NamedTuple):
    """
    Entries that interfaces see as one message.

    Attributes:
        id: The id of that message.
        role: Its role.
        start: How many entries stand before it.
        entries: Its entries.
    """

    id: str
    role: str
    start: int
    entries: list[Entry]


def group_turns(
    entries: Iterable[Entry], tree: MessageTree | None = None, version: int = 7
) -> list[UiTurn]:
    """
    The turns of *entries*: a message of a user or the system, or a run of answers and
    results. A run ends before an answer that has siblings in *tree*, or was loaded as
    the beginning of another message. A message of an unknown role, which no interface
    is shown, is of the turn before it.
    """
    turns: list[UiTurn] = []
    for at, entry in enumerate(entries):
        message = entry.message
        role = message.role
        if isinstance(message, UnknownMessage) and turns:
            turns[-1].entries.append(entry)
            continue

        if isinstance(message, (AssistantMessage, ToolMessage)):
            role = "assistant"

        before = turns[-1] if turns and turns[-1].role == "assistant" else None
        is_more = before is not None and (
            not _begins_turn(entry, tree)
            if role == "assistant"
            else version != _OLD and _is_steering(message)
        )
        if before is not None and is_more:
            before.entries.append(entry)
        else:
            turns.append(UiTurn(ui_id_of(entry), role, at, [entry]))

    return turns


def _begins_turn(entry: Entry, tree: MessageTree | None) -> bool:
    notes = notes_of(entry.message.metadata, SOURCE)
    return isinstance(entry.message, AssistantMessage) and (
        notes.get("begins") is True or bool(find_siblings(tree, entry)[1])
    )


def _is_steering(message: Message) -> bool:
    notes = notes_of(message.metadata, SOURCE)
    return isinstance(message, UserMessage) and notes.get("steering") is True


def _describe_place(turn: UiTurn, tree: MessageTree | None) -> dict[str, Any]:
    own: dict[str, Any] = {"entries": [each.id for each in turn.entries]}
    at, ids = find_siblings(tree, turn.entries[0])
    return {**own, "at": at, "siblings": [*ids]} if ids else own


class UiWriter(PayloadWriter):
    """One list of messages while it is written."""

    def __init__(self, version: int = 7) -> None:
        super().__init__(SOURCE)
        self.version = version
        self._thoughts = 0  # of the response so far

    def write(self, turn: UiTurn, paths: list[str]) -> dict[str, Any] | None:
        """The message that *turn* is, whose entries are at *paths*; None if unknown."""
        shown: list[tuple[Entry, str]] = []
        for entry, path in zip(turn.entries, paths, strict=False):
            if isinstance(entry.message, UnknownMessage):
                self._lose_message(entry.message, path)
            else:
                shown.append((entry, path))

        if not shown:
            return None

        turn = turn._replace(entries=[entry for entry, _ in shown])
        paths = [path for _, path in shown]
        first = turn.entries[0].message
        notes = notes_of(first.metadata, SOURCE)
        ui_id = turn.id
        if notes.get("id") == "" and ui_id.startswith("message_"):
            ui_id = ""

        item: dict[str, Any] = {"id": ui_id, "role": turn.role}
        if turn.role == "assistant":
            item["parts"] = self._write_run(turn, paths)
        else:
            self.notes_on(first, paths[0])
            item["parts"] = self._write_parts(first, paths[0])
            for at, raw in _read_others(notes):
                item["parts"].insert(at, raw)

        # Of a stream the last message has what came at its end.
        every = [notes_of(each.message.metadata, SOURCE) for each in turn.entries]
        usage = _find_usage(turn) or _last_of(every, "usage")
        if usage:
            item["metadata"] = wrap_own({"usage": usage})

        # What came last stands, as in a client.
        for entry, each in zip(reversed(turn.entries), reversed(every), strict=True):
            # Those of a result, and of a message that steers, are of its part.
            if entry.message.role == turn.role:
                merge_kept_keys(map_of(each, "keys"), item)

        return item

    def _lose_message(self, message: UnknownMessage, path: str) -> None:
        self.notes_on(message, path)
        is_ours = message.source == SOURCE
        why = "has no role of a UIMessage" if is_ours else whose(message.source)
        self.lose(path, str(message.raw.get("role") or "unknown"), why)

    def _write_parts(self, message: Message, path: str) -> list[dict[str, Any]]:
        """The parts of *message*, of a user or the system; one at least."""
        parts = [
            self.write_part(part, f"{path}.parts[{at}]", message.role)
            for at, part in enumerate(message.parts)
        ]
        found = [part for part in parts if part is not None]
        found = found or [{"type": "text", "text": "", "state": "done"}]
        self._add_sender(message, path, found)
        return found

    def _add_sender(
        self, message: Message, path: str, parts: list[dict[str, Any]]
    ) -> None:
        if not message.name:
            return

        for part in parts:
            key = find_metadata_key(part)
            if key:
                merge_kept_keys({key: wrap_own({"sender": message.name})}, part)
                return

        self.lose(path, "name", "has no part that could say the name of the sender")

    def write_part(self, part: Any, path: str, role: str) -> dict[str, Any] | None:
        """*part* of a message of *role*; None, and listed as lost, if it has none."""
        notes = self.notes(part, path)
        if isinstance(part, UnknownPart):
            return self._write_unknown(part, path, role)

        own: dict[str, Any] = {}
        if isinstance(part, MediaPart):
            block = _write_media(part, own)
        else:
            block = {"type": "text", "text": part.text, "state": "done"}
            if isinstance(part, RefusalPart):
                own["refusal"] = True
            elif isinstance(part, ReasoningPart):
                block |= {"type": "reasoning", "id": f"r{self._thoughts}"}
                self._thoughts += 1
                is_kept = not part.signature or notes.get("signed") is True
                own = {} if is_kept else {"signature": part.signature}

            for key in ("id", "state"):
                if key in list_of(notes, "without"):
                    block.pop(key, None)
                elif key in block and key in notes:
                    block[key] = thaw(notes[key])

        if own:
            block["providerMetadata"] = wrap_own(own)

        return merge_kept_keys(map_of(notes, "keys"), block)

    def _write_unknown(
        self, part: UnknownPart, path: str, role: str
    ) -> dict[str, Any] | None:
        raw: dict[str, Any] | None = self.unknown(part.raw, part.source, path)
        if raw is None:
            return None

        kind = raw.get("type")
        if self.version == _OLD and kind in _NEWER:
            self.lose(path, str(kind), "version 6 of the package refuses it")
            return None

        # The user may have made it.
        loader = UiLoader()
        is_known = role == "assistant" and (
            is_tool(kind) or kind in ("step-start", "steering-message")
        )
        read = loader.read_part(ObjectReader(loader, raw, "$"), role)
        if not is_known and not loader.problems and isinstance(read, UnknownPart):
            return raw

        self.lose(path, "unknown", "is a part that is known, or none at all")
        return None

    def _write_run(self, turn: UiTurn, paths: list[str]) -> list[dict[str, Any]]:
        """The parts of a run of answers and results."""
        found: list[dict[str, Any]] = []
        # The latest part of each call, and whether it has a result.
        calls: dict[str, tuple[dict[str, Any], ToolCall]] = {}
        # The results by the identity of their part, and where each message begins.
        results: dict[int, int] = {}
        steps: list[tuple[int, int]] = []
        # How many results of each call are still to come.
        said = [entry.message for entry in turn.entries]
        ahead = Counter(
            each.tool_call_id for each in said if isinstance(each, ToolMessage)
        )
        for at, message in enumerate(said):
            path = paths[at]
            if isinstance(message, ToolMessage):
                ahead[message.tool_call_id] -= 1
                self.notes_on(message, path)
                part, call = calls.pop(message.tool_call_id, (None, None))
                if part is None:
                    part = {"type": "dynamic-tool", "toolName": message.tool_name}
                    part |= {"toolCallId": message.tool_call_id, "input": {}}
                    part["callProviderMetadata"] = wrap_own({"alone": True})
                    found.append(part)

                self.write_result(message, path, part, call)
                results[id(part)] = at
            elif isinstance(message, AssistantMessage):
                steps.append((len(found), at))
                given = ahead if was_cut(message) else None
                found += self._write_answer(message, path, turn.id, calls, given)
            else:
                steps.append((len(found), at))
                found.append(self._write_steering(message, path))

        self._write_places(found, results, steps)
        return found

    def _write_places(
        self,
        found: list[dict[str, Any]],
        results: dict[int, int],
        steps: list[tuple[int, int]],
    ) -> None:
        # The order in which `load` reads them: of each step the answer, and then the
        # results of its parts.
        order: list[int] = []
        starts = dict(steps)
        waiting: list[int] = []
        for number, part in enumerate(found):
            if number in starts:
                order += [*waiting, starts[number]]
                waiting = []

            if id(part) in results:
                waiting.append(results[id(part)])

        order += waiting
        if order == sorted(order):
            return

        for part in found:
            if id(part) in results:
                own = wrap_own({"at": results[id(part)]})
                merge_kept_keys({"resultProviderMetadata": own}, part)

    def _write_steering(self, message: Message, path: str) -> dict[str, Any]:
        notes = self.notes_on(message, path)
        named = ui_id_of(Entry("", message))
        parts = self._write_parts(message, path)
        item = {"type": "steering-message", "id": named, "parts": parts}
        return merge_kept_keys(map_of(notes, "keys"), item)

    def _write_answer(
        self,
        message: AssistantMessage,
        path: str,
        ui_id: str,
        calls: dict[str, tuple[dict[str, Any], ToolCall]],
        results: Counter[str] | None,
    ) -> list[dict[str, Any]]:
        # The calls without one of *results* were cut off, unless these are None.
        notes = self.notes_on(message, path)
        found: list[dict[str, Any]] = []
        self._thoughts = number = 0
        for where, value in in_order(message.parts, message.tool_calls, path):
            if isinstance(value, ToolCall):
                call_id = value.id or make_call_id(ui_id, number)
                state = WHOLE if results is None or results[call_id] else CUT
                part = self.write_call(value, where, ui_id, number, state)
                number += 1
                calls[call_id] = part, value
                found.append(part)
            else:
                written = self.write_part(value, where, "assistant")
                found += [] if written is None else [written]

        if not found and notes.get("empty") is not True:
            found = [{"type": "text", "text": "", "state": "done"}]

        self._add_sender(message, path, found)
        if "step-start" in list_of(notes, "without") and (
            found or self.version != _OLD
        ):
            return found

        return [{"type": "step-start"}, *found]

    def write_call(
        self, call: ToolCall, path: str, ui_id: str, number: int, state: str = WHOLE
    ) -> dict[str, Any]:
        """The part of *call*, which has no result yet, in *state* if none is noted."""
        notes = self.notes(call, path)
        state = str(notes["state"]) if notes.get("state") in NOTED else state
        is_static = notes.get("static") is True
        part: dict[str, Any] = {"type": "dynamic-tool", "toolName": call.name}
        if is_static:
            part = {"type": f"tool-{call.name}"}

        part["toolCallId"] = call.id or make_call_id(ui_id, number)
        part["state"] = state
        keys, own = map_of(notes, "keys"), find_own(call)
        without = list_of(notes, "without")
        if state == CUT and "rawInput" not in without:
            partial = map_of(notes, "partial")
            is_same = partial.get("rawInput", "") == call.arguments
            part |= (
                thaw(partial) if partial and is_same else write_partial(call.arguments)
            )
            own.pop("text", None)
        else:
            part["input"] = write_input(call)
            if "input" in without and part["input"] in ({}, keys.get("rawInput")):
                del part["input"]
                own = {}

        if own:
            part["callProviderMetadata"] = wrap_own(own)

        merge_kept_keys({key: keys[key] for key in keys if key != "approval"}, part)
        _set_approval(part, keys.get("approval"))
        return part

    def write_result(
        self,
        message: ToolMessage,
        path: str,
        part: dict[str, Any],
        call: ToolCall | None,
    ) -> None:
        """Write the result *message* into the *part* of its *call*, if it has one."""
        notes = notes_of(message.metadata, SOURCE)
        own: dict[str, Any] = {}
        if call and message.tool_name != call.name:
            own["tool_name"] = message.tool_name

        if message.name:
            own["sender"] = message.name

        part.pop("approval", None)
        kept = notes_of(call.metadata, SOURCE) if call else notes
        approval = notes.get("approval", map_of(kept, "keys").get("approval"))
        for key in ("inputEncoding", "rawInput"):
            if not message.is_error:
                part.pop(key, None)

        written = self._write_content(message, path)
        parts = [part for _, part in written]
        # A text and nothing else, of what can be said here.
        plain = [each for each, _ in written] in ([], [TextPart(message.text)])
        if not message.is_error:
            part["state"] = "output-available"
            part["output"] = parts
            own |= {} if plain else {"parts": True}
            if plain:
                part["output"], more = _write_output(message.text, notes)
                own |= more
        elif (
            notes.get("state") == "output-denied"
            and plain
            and message.text == (read_reason(approval) or DENIED)
        ):
            part["state"] = "output-denied"
        else:
            part |= {"state": "output-error", "errorText": message.text}
            own |= {} if plain else {"parts": parts}

        if "output" in list_of(notes, "without") and part.get("output") == "":
            del part["output"]

        if own:
            part["resultProviderMetadata"] = wrap_own(own)

        merge_kept_keys(map_of(notes, "keys"), part)
        _set_approval(part, approval)

    def _write_content(
        self, message: ToolMessage, path: str
    ) -> list[tuple[Part, dict[str, Any]]]:
        """The parts of *message* that can be written, each with what it becomes."""
        return [
            (part, written)
            for at, part in enumerate(message.parts)
            if (written := self.write_part(part, f"{path}.parts[{at}]", message.role))
            is not None
        ]


def _find_usage(turn: UiTurn) -> dict[str, int]:
    usages = [
        response.usage
        for each in turn.entries
        if (response := getattr(each.message, "response", None)) and response.usage
    ]
    return write_usage(reduce(add, usages)) if usages else {}


def _last_of(notes: list[Mapping[str, Any]], key: str) -> Any:
    return next(
        (thaw(found) for each in reversed(notes) if (found := each.get(key))), {}
    )


def find_metadata_key(part: Mapping[str, Any]) -> str:
    """Where a client keeps notes of ours on *part*; "" if nowhere."""
    if is_tool(part["type"]):
        return "callProviderMetadata"

    return "providerMetadata" if part["type"] in _NOTED else ""


_NOTED = ("file", "reasoning", "text")


def find_own(call: ToolCall) -> dict[str, Any]:
    """What is kept of *call* beside its part."""
    own = {} if call.type == "function" else {"type": call.type}
    text = _find_input(call)
    if format_json(write_input(call)) != text:
        own["text"] = text

    return own


def write_input(call: ToolCall) -> Any:
    """The arguments of *call*: a JSON value, or their text if they are not JSON."""
    text = _find_input(call)
    return parse_json(text) if text else {}


def _find_input(call: ToolCall) -> str:
    match list_of(notes_of(call.metadata, SOURCE), "input"):
        case [call.arguments, str(text)]:
            return text
        case _:
            return call.arguments


def _write_output(text: str, notes: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The output that *text* is, and what is kept beside it."""
    value = parse_json(text)
    wanted = notes.get("output")
    if wanted == "text" or not (wanted == "json" or isinstance(value, (dict, list))):
        value = text

    return value, {} if format_json(value) == text else {"text": text}


def _set_approval(part: dict[str, Any], approval: Any) -> None:
    """Add *approval* to *part*, if the state of that has one such."""
    if not isinstance(approval, Mapping):
        return

    approved, state = approval.get("approved"), part["state"]
    if (
        (state == "approval-requested" and approved is None)
        or (state == "approval-responded" and isinstance(approved, bool))
        or (state in ("output-available", "output-error") and approved is True)
        or (state == "output-denied" and approved is False)
    ):
        part["approval"] = thaw(approval)


def _write_media(part: MediaPart, own: dict[str, Any]) -> dict[str, Any]:
    media_type = part.media_type
    if part.data is not None:
        media_type = media_type or sniff_media_type(part.data)

    if not media_type:
        media_type = WILDCARDS[part.kind]
        own["untyped"] = True

    if find_kind(media_type) != part.kind:
        own["kind"] = part.kind

    url = part.url if part.data is None else data_url(part.data, media_type)
    block = {"type": "file", "mediaType": media_type, "url": url}
    if isinstance(part, FilePart) and part.name:
        block["filename"] = part.name

    if isinstance(part, ImagePart) and part.detail:
        own["detail"] = part.detail

    return block


def _read_others(notes: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    for each in list_of(notes, "others"):
        match each:
            case (int(at), Mapping() as raw):
                yield at, thaw(raw)
            case _:
                pass
