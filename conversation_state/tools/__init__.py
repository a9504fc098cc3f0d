"""
Tools that a model may call, and the calls it made.

What lives here: the description of a tool for a model (`ToolInfo`), which can be
made from a function, and a call as the model wrote it (`ToolCall`). What does not:
running a call (`tool_calls`), and the form that a provider expects (`adapters`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from conversation_state._lazy import open_later
from conversation_state._persistent import EMPTY_MAP, check_text, final, freeze_notes
from conversation_state._wording import add_missing_names, shorten_repr
from conversation_state.errors import InvalidMessageError

if TYPE_CHECKING:
    from conversation_state.tools._infos import (
        MAX_PARAMETER_LEVELS,
        Parameter,
        ToolChoice,
        ToolInfo,
        is_schema,
        parameters_schema,
        read_arguments,
    )

__all__ = [
    "MAX_PARAMETER_LEVELS",
    "Parameter",
    "ToolCall",
    "ToolChoice",
    "ToolInfo",
    "is_schema",
    "parameters_schema",
    "read_arguments",
]


# Every state needs calls; few programs that keep states describe tools.
_INFOS = f"{__name__}._infos"
__getattr__, __dir__ = open_later(
    __name__, {name: _INFOS for name in __all__ if name != "ToolCall"}
)


@final
@attrs.frozen
class ToolCall:
    """
    One call of a tool, as the model wrote it.

    Attributes:
        id: What the result refers to. "" if the provider gave none.
        name: The tool's name.
        arguments: The JSON *text* the model wrote, byte for byte, valid or not.
        index: The call's position in a streamed response, counted among parts
            and tool calls; None if it was not streamed.
        type: The kind of call; ``function`` for all but a provider's own tools.
        metadata: JSON values, frozen deeply.
        unknown: Fields that a newer version wrote with the known ones; kept,
            and written back. None has the name of a known one.

    Raises:
        InvalidMessageError: If a value is not what its field holds, or text holds half
            of a surrogate pair.

    >>> ToolCall("call_1", "search", '{"q": "trains"}').name
    'search'
    """

    id: str
    name: str
    arguments: str = ""
    index: int | None = attrs.field(default=None, kw_only=True)
    type: str = attrs.field(default="function", kw_only=True)
    metadata: Mapping[str, Any] = attrs.field(default=EMPTY_MAP, kw_only=True)
    unknown: Mapping[str, Any] = attrs.field(default=EMPTY_MAP, kw_only=True)

    def __attrs_post_init__(self) -> None:
        # A quick check of the common case: calls are checked with each message.
        for value in (self.id, self.name, self.arguments, self.type):
            if value.__class__ is not str or not value.isascii():
                self._check_texts()  # few of them, and there are four a call
                break

        if self.metadata is not EMPTY_MAP or self.unknown is not EMPTY_MAP:
            own = [field.name for field in attrs.fields(ToolCall)]
            freeze_notes(self, own, InvalidMessageError)

        at = self.index
        if at is not None and (at.__class__ is not int or not -1 < at < 2**63):
            raise InvalidMessageError(
                f"is {shorten_repr(at)}; expected a position in the response, from 0 "
                "on, or None",
                "ToolCall",
                "index",
            )

    def _check_texts(self) -> None:
        for field in ("id", "name", "arguments", "type"):
            given = getattr(self, field)
            if field == "arguments" and isinstance(given, (Mapping, list, tuple)):
                raise InvalidMessageError(
                    f"is {shorten_repr(given)}; expected the JSON text that the model "
                    "wrote: ToolCall(id, name, json.dumps(arguments))",
                    "ToolCall",
                    "arguments",
                )

            text = check_text(given, f"ToolCall.{field}", InvalidMessageError)
            object.__setattr__(self, field, text)


add_missing_names(
    ToolCall,
    "a ToolCall has",
    {
        **dict.fromkeys(("args", "input", "parameters"), "arguments"),
        "function": "its name and arguments are call.name and call.arguments",
    },
)
