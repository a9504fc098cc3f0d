"""
From our messages to Pydantic AI's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

from conversation_state.adapters._export import (
    Export,
    Lost,
    Writing,
    map_of,
    written_over,
)
from conversation_state.adapters._extras import (
    lose_each,
    own_of,
    write_extra,
)
from conversation_state.adapters.pydantic_ai._answered import write_response
from conversation_state.adapters.pydantic_ai._spoken import (
    lose_metadata,
    restore,
    restored,
    write_answer,
    write_content,
)
from conversation_state.adapters.pydantic_ai._words import (
    ERRORS,
    SOURCE,
    messages_adapter,
    written_time,
)
from conversation_state.errors import InvalidMessageError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
)

__all__ = ["Groups", "as_objects", "dump", "dump_data", "grouped"]


def dump(messages: Iterable[Message]) -> Export:
    """
    The `ModelMessage`s for *messages*: a list, as ``message_history`` takes it.

    What `load` was given comes back as ``ModelMessagesTypeAdapter`` would give
    it back: in the same requests, with the same parts and fields. Other
    messages that no assistant's message parts become one `ModelRequest`. What
    was said at no known time is said to be of 1970, since parts need a time.

    Raises:
        InvalidMessageError:
            If something is no message of ours.

        MissingExtraError:
            If Pydantic AI is not installed.
    """
    data, lost = dump_data(messages)
    return Export(as_objects(data), lost)


def as_objects(data: list[Any]) -> list[Any]:
    """
    The `ModelMessage`s that *data*, plain JSON values, stand for.
    """
    # As text: else Pydantic takes base64 for the bytes themselves.
    text = json.dumps(data, ensure_ascii=False)
    made: list[Any] = messages_adapter().validate_json(text)
    return made


def dump_data(messages: Iterable[Message]) -> tuple[list[Any], tuple[Lost, ...]]:
    """
    The same as plain JSON values, and what is lost. Needs no SDK.
    """
    write = _Writing()
    write.all(messages)
    return write.data, tuple(write.lost)


class Groups(NamedTuple):
    """
    What messages are in Pydantic AI's.

    Attributes:
        starts: The position of the first message of each.

        data: Each as plain JSON.

        lacks: Whether a request has the instructions of one that is not there.
    """

    starts: list[int]
    data: list[Any]
    lacks: bool


def grouped(messages: Iterable[Message], instructions: str | None = None) -> Groups:
    """
    What `dump_data` writes, where the *instructions* before were these.
    """
    write = _Writing(instructions)
    write.all(messages)
    return Groups(write.starts, write.data, write.lacks)


class _Writing(Writing):
    """
    One history while it is written.
    """

    def __init__(self, instructions: str | None = None) -> None:
        super().__init__(SOURCE)
        self.lacks = False
        self.data: list[Any] = []
        self.starts: list[int] = []
        self._instructions = instructions
        self._names: dict[str, str] = {}
        self._open: dict[str, Any] | None = None
        self._is_own = False
        self._run: UUID | None = None
        self._parts: list[tuple[int, dict[str, Any]]] = []

    def all(self, messages: Iterable[Message]) -> None:
        """
        Write all of *messages*.
        """
        for at, message in enumerate(messages):
            self._message(message, at)

        self._close()

    def _message(self, message: Message, at: int) -> None:
        path = f"messages[{at}]"
        if not isinstance(message, Message):
            msg = f"{path} is a {type(message).__name__}; expected a Message"
            raise InvalidMessageError(msg)

        notes = self.notes_on(message, path)
        said = {"name": bool(message.name), "turn_id": message.turn_id is not None}
        lose_each(self, path, said, "Pydantic AI has no place for it")
        if isinstance(message, AssistantMessage):
            self._close()
            self.starts.append(at)
            self._names.update((call.id, call.name) for call in message.tool_calls)
            self.data.append(write_response(self, message, notes, path))
            return

        if isinstance(message, UnknownMessage) and message.source != SOURCE:
            self.unknown(message.raw, message.source, path, "role")
            return

        request = self._request(message, notes, at)
        own = own_of(message.metadata)
        if own and request["parts"]:
            self.lose(path, "metadata", "only the first part of a request has a place")
        elif own or map_of(notes, "metadata"):
            request["metadata"] = write_extra(message.metadata, notes, "metadata")

        if "instructions" in notes and isinstance(message, SystemMessage):
            request["instructions"] = self._instructions = message.text
            return

        part = self._part(message, notes, path)
        if part is not None:
            noted_at = notes.get("at")
            place = noted_at if isinstance(noted_at, int) else len(request["parts"])
            request["parts"].append((place, part))

    def _request(
        self, message: Message, notes: Mapping[str, Any], at: int
    ) -> dict[str, Any]:
        """
        The request that *message* is in: the one that is open, or a new one.
        """
        begins, goes_on = "request" in notes, "more" in notes
        is_one = goes_on == self._is_own and (goes_on or self._run == message.run_id)
        if self._open is not None and not begins and is_one:
            return self._open

        self._close()
        self.starts.append(at)
        self._open = {"kind": "request", "parts": []}
        self._is_own = begins or goes_on
        self._run = message.run_id
        if message.run_id is not None:
            self._open["run_id"] = str(message.run_id)

        written_over(map_of(notes, "request"), self._open)
        restore(self._open, notes, "request_texts")
        told = self._open.get("instructions")
        if told is not None:
            self._instructions = told
        elif "instructed" in notes and self._instructions is not None:
            self._open["instructions"] = self._instructions
        elif "instructed" in notes:
            why = "the system message that says them is not there"
            self.lacks = True
            self.lose(f"messages[{at}]", "instructions", why)

        return self._open

    def _close(self) -> None:
        """
        End the request that is open.
        """
        request, self._open = self._open, None
        if request is not None:
            # Stable, and most have no place of their own.
            request["parts"].sort(key=itemgetter(0))
            request["parts"] = [part for _, part in request["parts"]]
            self.data.append(request)

    def _part(
        self, message: Message, notes: Mapping[str, Any], path: str
    ) -> dict[str, Any] | None:
        """
        The part that *message* is; None if it is none, or can't be said.
        """
        if isinstance(message, UnknownMessage):
            return None if "empty" in notes else self._whole(message, notes, path)

        part: dict[str, Any]
        keys = map_of(notes, "keys")
        if isinstance(message, SystemMessage):
            part = {"part_kind": "system-prompt", "content": message.text}
            self._lose_inside(message, path)
        elif isinstance(message, ToolMessage):
            part = self._answer(message, notes, path)
        else:
            part = self._user(message, notes, path)

        if message.timestamp is not None or "timestamp" not in keys:
            part["timestamp"] = written_time(message.timestamp)

        written_over(keys, part)
        restore(part, notes, "texts")
        return part

    def _whole(
        self, message: UnknownMessage, notes: Mapping[str, Any], path: str
    ) -> dict[str, Any] | None:
        raw: dict[str, Any] | None = self.unknown(
            message.raw, message.source, path, "role"
        )
        text = notes.get("whole")
        if raw is not None and isinstance(text, str):
            raw = json.loads(text)

        return raw

    def _answer(
        self, message: ToolMessage, notes: Mapping[str, Any], path: str
    ) -> dict[str, Any]:
        keys = map_of(notes, "keys")
        name = message.tool_name or self._names.get(message.tool_call_id, "")
        part = {
            "part_kind": keys.get("part_kind", "tool-return"),
            "tool_name": name,
            "tool_call_id": message.tool_call_id,
            "content": write_answer(self, message, notes, path),
        }
        outcome = keys.get("outcome")
        if part["part_kind"] == "tool-return" and message.is_error != (
            outcome in ERRORS
        ):
            part["outcome"] = "failed" if message.is_error else "success"

        return part

    def _user(
        self, message: Message, notes: Mapping[str, Any], path: str
    ) -> dict[str, Any]:
        kind = map_of(notes, "keys").get("part_kind", "user-prompt")
        if kind == "speech":
            return {"part_kind": kind, "transcript": message.text}

        if kind == "user-prompt":
            return {"part_kind": kind, "content": write_content(self, message, path)}

        return {"part_kind": kind, "content": restored(message.text, notes)}

    def _lose_inside(self, message: Message, path: str) -> None:
        content = getattr(message, "content", "")
        if isinstance(content, str):
            return

        if len(content) != 1:
            self.lose(path, "parts", "a system prompt is one text, and they are joined")

        for at, part in enumerate(content):
            where = f"{path}.parts[{at}]"
            self.notes(part, where)
            lose_metadata(self, part, where)
