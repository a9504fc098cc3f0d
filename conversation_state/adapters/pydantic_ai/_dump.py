"""From our messages to Pydantic AI's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

from conversation_state.adapters.engine.export import Export, Lost, PayloadWriter
from conversation_state.adapters.engine.notes import map_of, own_of, write_extra
from conversation_state.adapters.pydantic_ai._notes import (
    ERRORS,
    SOURCE,
    UNKNOWN_TIME,
    messages_adapter,
    restore_keys,
    restore_value,
    take_notes,
    write_time,
)
from conversation_state.adapters.pydantic_ai._response import (
    dump_content,
    dump_response,
    dump_tool_result,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
)


def dump(messages: Iterable[Message]) -> Export:
    """
    A list of ``ModelMessage`` for *messages*, as ``message_history`` takes it.

    Messages that `load` made come back as ``ModelMessagesTypeAdapter`` would
    return them: in the same requests, with the same parts and fields. Other
    messages become one `ModelRequest` up to the next assistant's message. A
    part without a time gets one in 1970, since Pydantic AI requires a time.
    What was kept of other versions, or of invalid messages, and the installed
    Pydantic AI refuses is left out and listed.

    Raises:
        InvalidMessageError: If something is not one of our messages.
        MissingExtraError: If Pydantic AI is not installed.
    """
    groups = group_messages(messages)
    made, refused = _make_accepted(groups)
    return Export(made, groups.lost + refused)


def as_objects(data: list[Any]) -> list[Any]:
    # The data is validated as JSON text, because in Python objects Pydantic takes
    # base64 for the bytes themselves.
    text = json.dumps(data, ensure_ascii=False)
    made: list[Any] = messages_adapter().validate_json(text)
    return made


def _make_accepted(groups: MessageGroups) -> tuple[list[Any], tuple[Lost, ...]]:
    # The objects, without what Pydantic AI refuses of them; and that, as lost.
    with suppress(ValueError):  # pydantic's errors are of this class
        return as_objects(groups.data), ()

    made: list[Any] = []
    lost: list[Lost] = []
    for body, paths in zip(groups.data, groups.paths, strict=True):
        while body:
            try:
                made += as_objects([body])
                break
            except ValueError as error:
                errors: Any = error
                problems = [(each["loc"][1:], each["msg"]) for each in errors.errors()]
                lost += _take_out(body, problems, paths)

    return made, tuple(lost)


def _take_out(
    body: dict[str, Any], problems: Iterable[tuple[Any, str]], paths: list[str]
) -> list[Lost]:
    # Of each part what is innermost: a value may be of several types. In the order of
    # the parts, and taken out from the back, so that their places stay true.
    chosen: dict[tuple[Any, ...], tuple[Any, list[Any], str]] = {}
    for location, message in problems:
        way = _find_way(body, location)
        part = tuple(way[:2])
        if part not in chosen or len(location) > len(chosen[part][0]):
            chosen[part] = location, way, message

    lost: list[Lost] = []
    for _, way, message in reversed(chosen.values()):
        is_in_part = way[:1] == ["parts"] and len(way) > 1
        at: int = way[1] if is_in_part else -1
        what = ".".join(key for key in way if isinstance(key, str)) or "message"
        lost.append(Lost(paths[at], what, f"Pydantic AI refuses it: {message}"))
        if not way:
            body.clear()
            break

        owner: Any = body
        for key in way[:-1]:
            owner = owner[key]

        if way[-1] == "timestamp" and owner["timestamp"] != UNKNOWN_TIME:
            owner["timestamp"] = UNKNOWN_TIME
        else:
            del owner[way[-1]]
            if way[:-1] == ["parts"]:
                del paths[at]

    return lost[::-1]


def _find_way(body: dict[str, Any], location: Iterable[int | str]) -> list[Any]:
    # The keys and places of what stands at *location*, which has names of types in it,
    # too; or else of what lacks it.
    way: list[Any] = []
    value: Any = body
    for key in location:
        with suppress(LookupError, TypeError):
            value = value[key]
            way.append(key)

    return way


class MessageGroups(NamedTuple):
    """
    Our messages, grouped into Pydantic AI's: the position of the first message of each,
    each as plain JSON, and what is lost. Needs no SDK.
    """

    starts: list[int]
    data: list[Any]
    # Of each the paths of the messages that its parts are of, and last its first one's.
    paths: list[list[str]]
    # Whether a request has the instructions of an earlier one that is missing.
    lacks_instructions: bool
    lost: tuple[Lost, ...]


def group_messages(
    messages: Iterable[Message], instructions: str | None = None
) -> MessageGroups:
    writer = _HistoryWriter(instructions)
    writer.all(messages)
    return MessageGroups(
        writer.starts,
        writer.data,
        writer.paths,
        writer.lacks_instructions,
        tuple(writer.lost),
    )


class _HistoryWriter(PayloadWriter):
    def __init__(self, instructions: str | None = None) -> None:
        super().__init__(SOURCE)
        self.lacks_instructions = False
        self.data: list[Any] = []
        self.starts: list[int] = []
        self.paths: list[list[str]] = []
        self._instructions = instructions
        self._names: dict[str, str] = {}
        self._request: dict[str, Any] | None = None
        self._is_own = False
        self._run: UUID | None = None

    def all(self, messages: Iterable[Message]) -> None:
        for at, (message, path) in enumerate(self.each(messages)):
            self._add_message(message, path, at)

        self._close_request()

    def _add_message(self, message: Message, path: str, at: int) -> None:
        notes = self.notes_on(message, path)
        fields = {"name": bool(message.name), "turn_id": message.turn_id is not None}
        self.lose_each(path, fields, "not supported by Pydantic AI")
        if isinstance(message, AssistantMessage):
            self._close_request()
            self.starts.append(at)
            # Pydantic AI requires the name of the tool in a result. Messages of other
            # formats have it in the call only.
            self._names.update((call.id, call.name) for call in message.tool_calls)
            response = dump_response(self, message, notes, path)
            self.data.append(response)
            self.paths.append([path] * (len(response["parts"]) + 1))
            return

        if isinstance(message, UnknownMessage) and message.source != SOURCE:
            self.unknown(message.raw, message.source, path)
            return

        request = self._open_request(message, notes, at)
        own = own_of(message.metadata)
        if own and (request["parts"] or "metadata" in request):
            self.lose(path, "metadata", "supported on the first part of a request only")
        elif own or map_of(notes, "metadata"):
            request["metadata"] = write_extra(message.metadata, notes, "metadata")

        if "instructions" in notes and isinstance(message, SystemMessage):
            request["instructions"] = self._instructions = message.text
            return

        part = self._dump_request_part(message, notes, path)
        if part is not None:
            noted_at = notes.get("at")
            place = noted_at if isinstance(noted_at, int) else len(request["parts"])
            request["parts"].append((place, path, part))

    def _open_request(
        self, message: Message, notes: Mapping[str, Any], at: int
    ) -> dict[str, Any]:
        # Messages of one loaded request have the note "more" from the second one on.
        # Other messages are one request if they have the same run id.
        begins, goes_on = "request" in notes, "more" in notes
        is_one = goes_on == self._is_own and (goes_on or self._run == message.run_id)
        if self._request is not None and not begins and is_one:
            return self._request

        self._close_request()
        self.starts.append(at)
        self._request = {"kind": "request", "parts": []}
        self._is_own = begins or goes_on
        self._run = message.run_id
        if message.run_id is not None:
            self._request["run_id"] = str(message.run_id)

        restore_keys(self._request, notes, "request")
        # `restore_keys` replaces an empty list by a noted one, which must not be here.
        self._request["parts"] = []
        instructions = self._request.get("instructions")
        if instructions is not None:
            self._instructions = instructions
        elif "instructed" in notes and self._instructions is not None:
            self._request["instructions"] = self._instructions
        elif "instructed" in notes:
            why = "the system message that has them is missing"
            self.lacks_instructions = True
            self.lose(f"messages[{at}]", "instructions", why)

        return self._request

    def _close_request(self) -> None:
        request, self._request = self._request, None
        if request is not None:
            # The sort has to be stable: a part without a noted position has the number
            # of parts before it, which may also be the noted position of another one.
            placed = sorted(request["parts"], key=itemgetter(0))
            request["parts"] = [part for _, _, part in placed]
            self.data.append(request)
            first = f"messages[{self.starts[-1]}]"
            self.paths.append([*[path for _, path, _ in placed], first])

    def _dump_request_part(
        self, message: Message, notes: Mapping[str, Any], path: str
    ) -> dict[str, Any] | None:
        part: dict[str, Any]
        if isinstance(message, UnknownMessage):
            part = self.unknown(message.raw, message.source, path)
            return None if "empty" in notes else part

        keys = map_of(notes, "keys")
        if isinstance(message, SystemMessage):
            part = {"part_kind": "system-prompt", "content": message.text}
            self._lose_part_metadata(message, path)
        elif isinstance(message, ToolMessage):
            part = self._dump_result_part(message, notes, path)
        else:
            part = self._dump_user_part(message, notes, path)

        if message.timestamp is not None or "timestamp" not in keys:
            part["timestamp"] = write_time(self, message.timestamp, path)

        return restore_keys(part, notes)

    def _dump_result_part(
        self, message: ToolMessage, notes: Mapping[str, Any], path: str
    ) -> dict[str, Any]:
        keys = map_of(notes, "keys")
        name = message.tool_name or self._names.get(message.tool_call_id, "")
        part = {
            "part_kind": keys.get("part_kind", "tool-return"),
            "tool_name": name,
            "tool_call_id": message.tool_call_id,
            "content": dump_tool_result(self, message, notes, path),
        }
        had_failed = keys.get("outcome") in ERRORS
        if part["part_kind"] == "tool-return" and message.is_error != had_failed:
            part["outcome"] = "failed" if message.is_error else "success"

        return part

    def _dump_user_part(
        self, message: Message, notes: Mapping[str, Any], path: str
    ) -> dict[str, Any]:
        kind = map_of(notes, "keys").get("part_kind", "user-prompt")
        if kind == "speech":
            return {"part_kind": kind, "transcript": message.text}

        if kind == "user-prompt":
            return {"part_kind": kind, "content": dump_content(self, message, path)}

        return {"part_kind": kind, "content": restore_value(message.text, notes)}

    def _lose_part_metadata(self, message: Message, path: str) -> None:
        content = getattr(message, "content", "")
        if isinstance(content, str):
            return

        if len(content) != 1:
            why = "a system prompt is one text; the parts are joined"
            self.lose(path, "parts", why)

        for at, part in enumerate(content):
            take_notes(self, part, f"{path}.parts[{at}]")
