"""
Loading documents: what formats share whose messages stand in one list, each by
itself.

What does not live here: reading one JSON object (`_reading`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from conversation_state.adapters._reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
)
from conversation_state.adapters._wire.calls import CallPairing
from conversation_state.messages import Message, ResponseMeta
from conversation_state.tools import ToolCall

__all__ = ["MessageLoader", "ResponseChoice"]


class ResponseChoice(NamedTuple):
    """
    One of the answers in a response: its message, and the metadata.
    """

    raw: Any
    path: str
    prefix: str
    meta: ResponseMeta
    notes: dict[str, Any]


class MessageLoader(DocumentReader):
    """
    One payload while it is read: a format's loader derives from this and reads
    an object (`document`) and a message (`message`).

    Attributes:
        pairing: The calls that have no result yet.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pairing = CallPairing()

    def load(self, payload: Any, expected: str) -> tuple[Message, ...]:
        """
        The messages of *payload*, a list or an object.

        Raises:
            DecodeError:
                If it is not what was *expected*, or anything in it is wrong.
        """
        messages: list[Message] = []
        if is_list(payload):
            messages = self.history(payload, "$")
        elif is_map(payload):
            messages = self.document(payload)
        else:
            self.wrong("$", payload, expected)

        self.finish()
        return tuple(messages)

    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        """
        The messages of an object.
        """
        raise NotImplementedError

    def message(self, raw: Any, path: str, prefix: str) -> Message | None:
        """
        One message; None if there was a problem. Ids that are made up begin
        with *prefix*.
        """
        raise NotImplementedError

    def history(self, raws: Sequence[Any], path: str) -> list[Message]:
        """
        The messages of a list.
        """
        found = [
            self.message(raw, f"{path}[{at}]", f"message_{at}")
            for at, raw in enumerate(raws)
        ]
        return [message for message in found if message is not None]

    def read_calls(
        self,
        place: ObjectReader,
        prefix: str,
        read_call: Callable[[ObjectReader, str], ToolCall],
    ) -> list[ToolCall]:
        """
        The calls that the message at *place* has as ``tool_calls``, a list or
        null, each read from its object and the id it gets if it has none.
        """
        given = place.raw.get("tool_calls")
        if given is not None and not is_list(given):
            place.wrong("tool_calls", "a list or null")
            return []

        if not given:
            if "tool_calls" in place.raw:
                place.keys["tool_calls"] = given

            return []

        # What is not an object is refused, so each number in an id is right.
        calls = [
            read_call(call, f"{prefix}_call_{at}")
            for at, call in enumerate(place.objects("tool_calls"))
        ]
        # An answer without calls leaves those before it open.
        if calls:
            self.pairing.open_calls(calls)

        return calls

    def resolve_call(
        self, place: ObjectReader, given: str, name: str, prefix: str
    ) -> str:
        """
        The id of the call that the result at *place* answers: the *given* one.

        If that is missing: of the calls without a result, the first one of
        the tool *name*, or else the first one; which is noted.
        """
        call_id = self.pairing.resolve(given, name, prefix)
        if not given:
            place.notes["made_id"] = call_id

        return call_id
