"""The base of all messages, and the fields that all of them have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypedDict

import attrs

from conversation_state._persistent import (
    EMPTY_MAP,
    ByContent,
    check_text,
    check_time,
    check_unknown,
    final,
    freeze_map,
)
from conversation_state._wording import find_kind, format_media_size, shorten_repr
from conversation_state.errors import InvalidMessageError
from conversation_state.parts import (
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from conversation_state.tools import ToolCall


class CommonFields(TypedDict, total=False):
    name: str
    run_id: UUID | None
    turn_id: UUID | None
    timestamp: datetime | None
    metadata: Mapping[str, Any]
    unknown: Mapping[str, Any]


@final
class Common(NamedTuple):
    """
    The fields that all messages may have, in one object.

    Most messages have none of them and share `PLAIN`, and those of one
    envelope share theirs: a message is then two references instead of seven,
    and made in half the time.
    """

    name: str = ""
    run_id: UUID | None = None
    turn_id: UUID | None = None
    timestamp: datetime | None = None
    metadata: Mapping[str, Any] = EMPTY_MAP
    unknown: Mapping[str, Any] = EMPTY_MAP


PLAIN = Common()
COMMON = Common._fields
_new_tuple: Any = tuple.__new__
# What messages of others have, and what `attrs.evolve` passes.
_NOT_TAKEN = {
    "common": "message.replace(content=...) is a changed copy",
    "text": "its text is its content",
    "usage": "an AssistantMessage has it in response=ResponseMeta(usage=...)",
}


def common_of(owner: str, given: CommonFields) -> Common:
    # Only the given ones: most messages that have any of them have one or two.
    values: list[Any] = [*PLAIN]
    for name, value in given.items():
        known = _CHECKS.get(name)
        if known is None:
            others = f"besides its own fields it takes {', '.join(COMMON)}"
            advice = _NOT_TAKEN.get(name, others)
            raise TypeError(f"{owner} takes no {name!r}; {advice}")

        at, check = known
        values[at] = check(owner, value)

    common: Common = _new_tuple(Common, values)
    return PLAIN if common == PLAIN else common


def _check_name(owner: str, value: object) -> str:
    return check_text(value, f"{owner}.name", InvalidMessageError)


def _freeze_metadata(owner: str, value: object) -> Mapping[str, Any]:
    return freeze_map(value, f"{owner}.metadata", InvalidMessageError)


def freeze_unknown(owner: str, value: object) -> Mapping[str, Any]:
    what = f"{owner}.unknown"
    return freeze_map(value, what, InvalidMessageError, keep_order=True)


def _check_uuid(name: str, owner: str, value: object) -> UUID | None:
    if value is None:
        return None

    import uuid  # noqa: PLC0415 - imported already where there is one

    if not isinstance(value, uuid.UUID):
        problem = f"is {shorten_repr(value)}; expected a uuid.UUID or None"
        raise InvalidMessageError(problem, owner, name)

    # A plain one: a subclass of a caller's could not be written, nor compare alike.
    return value if value.__class__ is uuid.UUID else uuid.UUID(int=value.int)


def _check_timestamp(owner: str, value: object) -> datetime | None:
    return check_time(
        value, lambda problem: InvalidMessageError(problem, owner, "timestamp")
    )


# What checks each field, and its place.
_CHECKS: dict[str, tuple[int, Callable[[str, Any], Any]]] = {
    "name": (0, _check_name),
    "run_id": (1, partial(_check_uuid, "run_id")),
    "turn_id": (2, partial(_check_uuid, "turn_id")),
    "timestamp": (3, _check_timestamp),
    "metadata": (4, _freeze_metadata),
    "unknown": (5, freeze_unknown),
}


class _Countable:
    """
    A slot for the results of token counters, see `conversation_state.counting`.

    Not a field: it is not compared and not written, and is unset until a counter
    sets it.
    """

    __slots__ = ("_weights",)

    _weights: tuple[Any, ...]


# Messages write their own `__init__`: most have none of the common fields.
@attrs.frozen(init=False, repr=False, eq=False, match_args=False)
class Message(_Countable, ByContent):
    """
    The base of all messages. Has no instances of its own.

    Messages are values: frozen, hashable, picklable, equal by content. Metadata
    are compared as in Python: 1, 1.0 and True are equal.

    Attributes:
        role: The role: ``system``, ``user``, ``assistant``, ``tool``.
        name: Which of several participants with this role it is from; "" if not
            given.
        run_id: The run it belongs to, a UUID, or None.
        turn_id: The turn it belongs to, a UUID, or None.
        timestamp: When it was made: an aware `datetime`, or None. Its zone is
            kept as an offset.
        metadata: JSON values, frozen deeply.
        unknown: Further fields, which a newer version wrote; kept, and written
            back. None has the name of a known field.

    Raises:
        InvalidMessageError: If a value is not what its field holds: a part this role
            can't hold, a naive timestamp, half of a surrogate pair, ...
    """

    role: ClassVar[str] = ""
    _changed_copy: ClassVar[str] = "message.replace(...) is a changed copy"

    _common: Common

    def __init__(self, *_given: object, **_fields: object) -> None:
        raise TypeError(
            "Message is what all messages have in common; make a SystemMessage, "
            "UserMessage, AssistantMessage, ToolMessage or UnknownMessage"
        )

    # Properties, because messages of one envelope share one object with these fields.

    @property
    def name(self) -> str:
        return self._common.name

    @property
    def run_id(self) -> UUID | None:
        return self._common.run_id

    @property
    def turn_id(self) -> UUID | None:
        return self._common.turn_id

    @property
    def timestamp(self) -> datetime | None:
        return self._common.timestamp

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self._common.metadata

    @property
    def unknown(self) -> Mapping[str, Any]:
        return self._common.unknown

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts, a plain text as one."""
        return ()

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of an assistant's message; () for any other."""
        return ()

    @property
    def text(self) -> str:
        """All text parts, joined."""
        return "".join([part.text for part in self.parts if isinstance(part, TextPart)])

    @property
    def reasoning(self) -> str:
        """The text of all reasoning parts, joined."""
        return "".join(
            [part.text for part in self.parts if isinstance(part, ReasoningPart)]
        )

    @property
    def refusal(self) -> str:
        """The text of all refusals, joined."""
        return "".join(
            [part.text for part in self.parts if isinstance(part, RefusalPart)]
        )

    def replace(self, **changes: Any) -> Self:
        """
        A copy of this message with *changes*, by field name, as in
        ``UserMessage("hi").replace(name="ann")``.

        Raises:
            TypeError: If this kind of message has no such field.
        """
        # Made by the class and not copied: changes are checked as arguments are.
        fields = {name: getattr(self, name) for name in (*self._own_fields(), *COMMON)}
        return type(self)(**{**fields, **changes})

    def _check_common(self, given: CommonFields) -> Common:
        owner = type(self).__name__
        common = common_of(owner, given)
        # Here, as only the class knows which fields are its own. The codec writes those
        # that are unknown next to these, and two of one name can't both be written.
        if common.unknown:
            own = ("role", "parts", *self._own_fields(), *COMMON[:-1])
            check_unknown(owner, own, common.unknown, InvalidMessageError)

        return common

    @classmethod
    def _own_fields(cls) -> tuple[str, ...]:
        fields = attrs.fields(cls)
        return tuple([f.name for f in fields if f.name != "_common"])

    def _comparison_key(self) -> tuple[Any, ...]:
        return (*[getattr(self, name) for name in self._own_fields()], self._common)

    def __repr__(self) -> str:
        shown = [f"{name}={getattr(self, name)!r}" for name in self._own_fields()]
        for name in COMMON:
            value = getattr(self._common, name)
            if value != getattr(PLAIN, name):
                shown.append(f"{name}={value!r}")

        return f"{type(self).__name__}({', '.join(shown)})"

    def _str_head(self) -> str:
        return self._role_and_name(self.role)

    def _role_and_name(self, role: str) -> str:
        return f"{role} ({self.name})" if self.name else role

    def __str__(self) -> str:
        """
        Role and text, then everything else, a line each.

        Deterministic. Media are shown by their size, never by their bytes; an
        erased message by the reason.
        """
        # Circular: tombstones are messages.
        from conversation_state.messages._tombstones import (  # noqa: PLC0415
            find_erasure,
        )

        erasure = find_erasure(self)
        if erasure is not None:
            return f"{self._str_head()}: ({erasure})"

        lines = [
            f"{self._str_head()}: {self.text}" if self.text else f"{self._str_head()}:"
        ]
        lines += [
            f"  {_describe_part(part)}"
            for part in self.parts
            if not isinstance(part, TextPart)
        ]
        lines += self._str_tail()
        return "\n".join(lines)

    def _str_tail(self) -> list[str]:
        return []


def _describe_part(part: Part) -> str:
    if isinstance(part, MediaPart):
        name, size = getattr(part, "name", ""), format_media_size(part.data, part.url)
        return " ".join(filter(None, [f"[{part.kind}]", name, part.media_type, size]))

    if isinstance(part, UnknownPart):
        named = " ".join(filter(None, ["[unknown]", part.source, find_kind(part.raw)]))
        text = part.raw.get("text")
        return f"{named}: {text}" if isinstance(text, str) and text else named

    text = getattr(part, "text", "")
    return f"[{part.kind}] {text}" if text else f"[{part.kind}]"
