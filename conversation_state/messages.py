"""
Messages: who said what.

Everything *said* passes through here. What lives here: the five kinds of
message, what a provider told about a response, and the envelope that stamps
the messages of one turn. What does not: the parts they hold (`parts`), the
calls they make (`tools`), and the order they were said in (`aggregator`).
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timezone
from typing import Any, ClassVar, NamedTuple, Self, TypedDict, TypeVar, Unpack
from uuid import UUID

import attrs

from conversation_state._identity import new_uuid_number
from conversation_state._persistent import (
    EMPTY_MAP,
    PMap,
    check_text,
    freeze_map,
)
from conversation_state.errors import InvalidMessageError
from conversation_state.parts import (
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

__all__ = [
    "AssistantMessage",
    "Envelope",
    "LogProb",
    "Message",
    "ResponseMeta",
    "SystemMessage",
    "ToolMessage",
    "UnknownMessage",
    "UserMessage",
]


M = TypeVar("M", bound="Message")


class _CommonFields(TypedDict, total=False):
    name: str
    run_id: UUID | None
    turn_id: UUID | None
    timestamp: datetime | None
    metadata: Mapping[str, Any]
    unknown: Mapping[str, Any]


class _Common(NamedTuple):
    """
    What all messages may have, in one object.

    Most messages have none of it and share `_PLAIN`, and those of one
    envelope share theirs: a message is then two references instead of seven,
    and made in half the time.
    """

    name: str = ""
    run_id: UUID | None = None
    turn_id: UUID | None = None
    timestamp: datetime | None = None
    metadata: PMap[str, Any] = EMPTY_MAP
    unknown: PMap[str, Any] = EMPTY_MAP


_PLAIN = _Common()
_COMMON = _Common._fields


def _common(owner: str, given: _CommonFields) -> _Common:
    for key in given:
        if key not in _COMMON:
            msg = (
                f"{owner} takes no {key!r}; beside its own fields it takes "
                f"{', '.join(_COMMON)}"
            )
            raise TypeError(msg)

    common = _Common(
        check_text(given.get("name", ""), f"{owner}.name", InvalidMessageError),
        _uuid(owner, "run_id", given.get("run_id")),
        _uuid(owner, "turn_id", given.get("turn_id")),
        _aware(owner, given.get("timestamp")),
        _frozen(owner, "metadata", given.get("metadata", EMPTY_MAP)),
        _frozen(owner, "unknown", given.get("unknown", EMPTY_MAP)),
    )
    return _PLAIN if common == _PLAIN else common


def _frozen(owner: str, name: str, value: Mapping[str, Any]) -> PMap[str, Any]:
    if value is EMPTY_MAP:
        return EMPTY_MAP

    return freeze_map(value, f"{owner}.{name}", InvalidMessageError)


def _check_unknown(owner: str, own: Iterable[str], unknown: PMap[str, Any]) -> None:
    for name in sorted(set(own).intersection(unknown)):
        msg = f"{owner}.unknown has {name!r}, a field this version knows"
        raise InvalidMessageError(msg)


def _uuid(owner: str, name: str, value: object) -> UUID | None:
    if value is not None and not isinstance(value, UUID):
        msg = f"{owner}.{name} is {value!r}; expected a uuid.UUID or None"
        raise InvalidMessageError(msg)

    return value


def _aware(owner: str, value: object) -> datetime | None:
    if value is None:
        return None

    if not isinstance(value, datetime):
        msg = f"{owner}.timestamp is {value!r}; expected an aware datetime or None"
        raise InvalidMessageError(msg)

    offset = value.utcoffset()
    if offset is None:
        msg = (
            f"{owner}.timestamp is {value!r}, which has no time zone; "
            "datetime.now(timezone.utc) has one"
        )
        raise InvalidMessageError(msg)

    if type(value) is datetime and type(value.tzinfo) is timezone and not value.fold:
        return value

    # The offset is what is written, and zones by name compare in surprising
    # ways where clocks are set back; so the offset is what is kept.
    time = value.time().replace(fold=0)
    return datetime.combine(value.date(), time, timezone(offset))


# What is in none of the sets is in everybody's.
_MEDIA = frozenset({"text", "image", "audio", "video", "file", "unknown"})


def _content(
    owner: str, holds: frozenset[str], content: str | Iterable[Part]
) -> str | tuple[Part, ...]:
    if isinstance(content, str):
        return check_text(content, f"{owner}.content", InvalidMessageError)

    if not isinstance(content, Iterable) or isinstance(content, (bytes, Mapping)):
        msg = (
            f"{owner}.content is a {type(content).__name__}; expected a str or a "
            "sequence of parts"
        )
        raise InvalidMessageError(msg)

    parts = tuple(content)
    for at, part in enumerate(parts):
        kind = part.kind if isinstance(part, Part) else None
        if kind not in holds:
            msg = (
                f"{owner}.content[{at}] is a {type(part).__name__}; "
                f"{owner} holds parts of {', '.join(sorted(holds))}"
            )
            raise InvalidMessageError(msg)

    return parts


class _Weighable:
    """
    Room for what token counters found, see `conversation_state.counting`.

    Not a field: it says nothing about the message, is not compared and not
    written, and stays unset until somebody counts.
    """

    __slots__ = ("_weights",)

    _weights: tuple[tuple[Any, int], ...]


_set = object.__setattr__


# Messages write their own `__init__`, and one `__eq__` serves them all: what
# attrs would generate for each class costs more at import than all the rest.
@attrs.frozen(init=False, repr=False, eq=False, match_args=False)
class Message(_Weighable):
    """
    What all messages have. Not made by itself.

    Messages are values: frozen, hashable, picklable, equal by content.

    Attributes:
        role: Who speaks: ``system``, ``user``, ``assistant``, ``tool``.

        name: Which of several speakers of one role it is; "" if nobody said.

        run_id: The run this was said in, a UUID, or None.

        turn_id: The turn this was said in, a UUID, or None.

        timestamp: When this was said: an aware `datetime`, or None. Its zone
            is kept as an offset.

        metadata: JSON values, frozen deeply.

        unknown: Fields that a newer version wrote beside the known ones; kept,
            and written back. None has the name of a known one.

    Raises:
        InvalidMessageError:
            If a value is not what its field holds: a part this role can't
            hold, a naive timestamp, half of a surrogate pair, ...
    """

    role: ClassVar[str] = ""

    _common: _Common

    def __init__(self, *_given: object, **_fields: object) -> None:
        msg = (
            "Message is what all messages have in common; make a SystemMessage, "
            "UserMessage, AssistantMessage, ToolMessage or UnknownMessage"
        )
        raise TypeError(msg)

    @property
    def name(self) -> str:
        """
        Which of several speakers of one role it is.
        """
        return self._common.name

    @property
    def run_id(self) -> UUID | None:
        """
        The run this was said in.
        """
        return self._common.run_id

    @property
    def turn_id(self) -> UUID | None:
        """
        The turn this was said in.
        """
        return self._common.turn_id

    @property
    def timestamp(self) -> datetime | None:
        """
        When this was said.
        """
        return self._common.timestamp

    @property
    def metadata(self) -> PMap[str, Any]:
        """
        JSON values, frozen deeply.
        """
        return self._common.metadata

    @property
    def unknown(self) -> PMap[str, Any]:
        """
        Fields that a newer version wrote.
        """
        return self._common.unknown

    @property
    def parts(self) -> tuple[Part, ...]:
        """
        The content as parts, a plain text as one.
        """
        return ()

    @property
    def text(self) -> str:
        """
        All text parts, joined.
        """
        return "".join([part.text for part in self.parts if isinstance(part, TextPart)])

    @property
    def reasoning(self) -> str:
        """
        The text of all reasoning parts, joined.
        """
        return "".join(
            [part.text for part in self.parts if isinstance(part, ReasoningPart)]
        )

    @property
    def refusal(self) -> str:
        """
        The text of all refusals, joined.
        """
        return "".join(
            [part.text for part in self.parts if isinstance(part, RefusalPart)]
        )

    def replace(self, **changes: Any) -> Self:
        """
        The same message but for *changes*, by field name.

        >>> UserMessage("hi").replace(name="ann").name
        'ann'

        Raises:
            TypeError:
                If this kind of message has no such field.
        """
        fields = {name: getattr(self, name) for name in (*self._own(), *_COMMON)}
        return type(self)(**{**fields, **changes})

    def _checked(self, given: _CommonFields) -> _Common:
        owner = type(self).__name__
        common = _common(owner, given)
        if common.unknown:
            own = ("role", "parts", *self._own(), *_COMMON[:-1])
            _check_unknown(owner, own, common.unknown)

        return common

    @classmethod
    def _own(cls) -> tuple[str, ...]:
        fields = attrs.fields(cls)
        return tuple([f.name for f in fields if f.name != "_common"])

    def _key(self) -> tuple[Any, ...]:
        return (*[getattr(self, name) for name in self._own()], self._common)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True

        if type(other) is not type(self):
            return NotImplemented

        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.role, *self._key()))

    def __repr__(self) -> str:
        shown = [f"{name}={getattr(self, name)!r}" for name in self._own()]
        for name in _COMMON:
            value = getattr(self._common, name)
            if value != getattr(_PLAIN, name):
                shown.append(f"{name}={value!r}")

        return f"{type(self).__name__}({', '.join(shown)})"

    def _head(self) -> str:
        return f"{self.role} ({self.name})" if self.name else self.role

    def __str__(self) -> str:
        """
        Role and text, then what else there is, a line each.

        Deterministic; media are told by their size, never by their bytes.
        """
        lines = [f"{self._head()}: {self.text}" if self.text else f"{self._head()}:"]
        lines += [
            f"  {_shown(part)}" for part in self.parts if not isinstance(part, TextPart)
        ]
        lines += self._tail()
        return "\n".join(lines)

    def _tail(self) -> list[str]:
        return []


def _shown(part: Part) -> str:
    if isinstance(part, MediaPart):
        size = part.url if part.data is None else f"{len(part.data):,} bytes"
        name = getattr(part, "name", "")
        return " ".join(filter(None, [f"[{part.kind}]", name, part.media_type, size]))

    if isinstance(part, UnknownPart):
        kind = part.raw.get("type")
        named = kind if isinstance(kind, str) else ""
        return " ".join(filter(None, ["[unknown]", part.source, named]))

    text = getattr(part, "text", "")
    return f"[{part.kind}] {text}" if text else f"[{part.kind}]"


@attrs.frozen(init=False, repr=False, eq=False, match_args=False)
class _Spoken(Message):  # type: ignore[override]  # attrs' own init
    """
    A message with content.
    """

    _holds: ClassVar[frozenset[str]] = _MEDIA
    __match_args__: ClassVar[tuple[str, ...]] = ("content",)
    # For `copy.replace`. What attrs makes instead knows nothing of our
    # `__init__`, and it makes one for each class that has none of its own.
    __replace__ = Message.replace

    content: str | tuple[Part, ...]

    def _say(self, content: str | Iterable[Part], common: _CommonFields) -> None:
        name = type(self).__name__
        if type(content) is str and content.isascii():
            _set(self, "content", content)
        else:
            _set(self, "content", _content(name, self._holds, content))

        _set(self, "_common", self._checked(common) if common else _PLAIN)

    @property
    def parts(self) -> tuple[Part, ...]:
        """
        The content as parts, a plain text as one.
        """
        if not isinstance(self.content, str):
            return self.content

        return (TextPart(self.content),) if self.content else ()

    @property
    def text(self) -> str:
        """
        All text parts, joined.
        """
        if isinstance(self.content, str):
            return self.content

        return super().text


class SystemMessage(_Spoken):
    """
    What the model is told to be.

    Args:
        content: A text, or text parts.

        **common: *name*, *run_id*, *turn_id*, *timestamp*, *metadata*; see
            `Message`.

    >>> print(SystemMessage("Be brief."))
    system: Be brief.
    """

    __slots__ = ()

    role: ClassVar[str] = "system"
    _holds: ClassVar[frozenset[str]] = frozenset({"text"})

    def __init__(
        self, content: str | Iterable[Part], **common: Unpack[_CommonFields]
    ) -> None:
        self._say(content, common)


class UserMessage(_Spoken):
    """
    What a user says.

    Args:
        content: A text, or parts: text, images, audio, video, files, unknown.

        **common: *name*, *run_id*, *turn_id*, *timestamp*, *metadata*; see
            `Message`.

    >>> print(UserMessage("When is the next train?", name="ann"))
    user (ann): When is the next train?
    """

    __slots__ = ()

    role: ClassVar[str] = "user"

    def __init__(
        self, content: str | Iterable[Part], **common: Unpack[_CommonFields]
    ) -> None:
        self._say(content, common)


def _tuple(items: Iterable[LogProb]) -> tuple[LogProb, ...]:
    return tuple(items)


# NaN is not between the largest float and its negative, and neither is infinity.
_LARGEST = sys.float_info.max


@attrs.frozen
class LogProb:
    """
    How likely a token was.

    Attributes:
        token: The token's text.

        logprob: The natural logarithm of its probability.

        bytes: The token's bytes, where it is no whole character.

        top: The likeliest tokens at this place, themselves without *top*.

    Source:
        OpenAI's; -9999.0 means "very unlikely" there.
    """

    token: str
    logprob: float
    bytes: builtins.bytes | None = None
    top: tuple[LogProb, ...] = attrs.field(default=(), converter=_tuple)

    def __attrs_post_init__(self) -> None:
        token = check_text(self.token, "LogProb.token", InvalidMessageError)
        _set(self, "token", token)
        given: object = self.logprob
        number = isinstance(given, (int, float)) and not isinstance(given, bool)
        if not number or not -_LARGEST <= self.logprob <= _LARGEST:
            msg = f"LogProb.logprob is {given!r}; expected a finite number"
            raise InvalidMessageError(msg)

        _set(self, "logprob", float(self.logprob))

        if self.bytes is not None and type(self.bytes) is not builtins.bytes:
            msg = f"LogProb.bytes is {self.bytes!r}; expected bytes or None"
            raise InvalidMessageError(msg)

        for at, other in enumerate(self.top):
            if not isinstance(other, LogProb) or other.top:
                msg = f"LogProb.top[{at}] is {other!r}; expected a LogProb without top"
                raise InvalidMessageError(msg)


@attrs.frozen
class ResponseMeta:
    """
    What a provider told about a response.

    Attributes:
        finish_reason: Why it ended, in the provider's own word;
            ``interrupted`` (ours) if it was cut off. "" if nobody said.

        usage: What it cost, or None.

        logprobs: How likely its tokens were, or None.

        model: Which model answered.

        unknown: Fields that a newer version wrote beside the known ones; kept,
            and written back. None has the name of a known one.
    """

    finish_reason: str = ""
    usage: Usage | None = None
    logprobs: tuple[LogProb, ...] | None = None
    model: str = ""
    unknown: PMap[str, Any] = attrs.field(default=EMPTY_MAP, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for field in ("finish_reason", "model"):
            what = f"ResponseMeta.{field}"
            text = check_text(getattr(self, field), what, InvalidMessageError)
            _set(self, field, text)

        if self.usage is not None and not isinstance(self.usage, Usage):
            msg = f"ResponseMeta.usage is {self.usage!r}; expected a Usage or None"
            raise InvalidMessageError(msg)

        if self.logprobs is not None:
            logprobs = tuple(self.logprobs)
            for at, one in enumerate(logprobs):
                if not isinstance(one, LogProb):
                    msg = f"ResponseMeta.logprobs[{at}] is {one!r}; expected a LogProb"
                    raise InvalidMessageError(msg)

            _set(self, "logprobs", logprobs)

        if self.unknown is not EMPTY_MAP:
            _set(self, "unknown", _frozen("ResponseMeta", "unknown", self.unknown))
            own = ("finish_reason", "usage", "logprobs", "model")
            _check_unknown("ResponseMeta", own, self.unknown)


def _calls(given: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    calls = tuple(given) if isinstance(given, Iterable) else (given,)
    for at, call in enumerate(calls):
        if not isinstance(call, ToolCall):
            msg = f"AssistantMessage.tool_calls[{at}] is {call!r}; expected a ToolCall"
            raise InvalidMessageError(msg)

    return calls


@attrs.frozen(init=False, repr=False, eq=False, match_args=False)
class AssistantMessage(_Spoken):  # type: ignore[override]  # attrs' own init
    """
    What the model says, and which tools it calls.

    Args:
        content: A text, or parts of any kind.

        tool_calls: The calls, in the order the model made them.

        response: What the provider told about the response.

        **common: *name*, *run_id*, *turn_id*, *timestamp*, *metadata*; see
            `Message`.

    >>> print(AssistantMessage(tool_calls=[ToolCall("c1", "clock", "{}")]))
    assistant:
      calls clock({}) as c1
    """

    role: ClassVar[str] = "assistant"
    __replace__ = Message.replace
    _holds: ClassVar[frozenset[str]] = _MEDIA | {"reasoning", "refusal"}

    tool_calls: tuple[ToolCall, ...]
    response: ResponseMeta | None

    def __init__(
        self,
        content: str | Iterable[Part] = "",
        *,
        tool_calls: Iterable[ToolCall] = (),
        response: ResponseMeta | None = None,
        **common: Unpack[_CommonFields],
    ) -> None:
        self._say(content, common)
        calls = () if tool_calls == () else _calls(tool_calls)
        if response is not None and not isinstance(response, ResponseMeta):
            msg = (
                f"AssistantMessage.response is {response!r}; expected a "
                "ResponseMeta or None"
            )
            raise InvalidMessageError(msg)

        _set(self, "tool_calls", calls)
        _set(self, "response", response)

    def _tail(self) -> list[str]:
        lines = [
            f"  calls {call.name}({call.arguments}) as {call.id}"
            for call in self.tool_calls
        ]
        if self.response is not None and self.response.finish_reason:
            lines.append(f"  finish_reason: {self.response.finish_reason}")

        return lines


@attrs.frozen(init=False, repr=False, eq=False, match_args=False)
class ToolMessage(_Spoken):  # type: ignore[override]  # attrs' own init
    """
    What a tool answered.

    Args:
        content: A text, or parts: text, images, audio, video, files, unknown.

        tool_call_id: The id of the call it answers; not empty.

        tool_name: The tool's name; "" if nobody said.

        is_error: Whether the tool failed, and *content* tells how.

        **common: *name*, *run_id*, *turn_id*, *timestamp*, *metadata*; see
            `Message`.

    >>> print(ToolMessage("12:30", tool_call_id="c1", tool_name="clock"))
    tool clock, for c1: 12:30
    """

    role: ClassVar[str] = "tool"
    __replace__ = Message.replace

    tool_call_id: str
    tool_name: str
    is_error: bool

    def __init__(
        self,
        content: str | Iterable[Part],
        *,
        tool_call_id: str,
        tool_name: str = "",
        is_error: bool = False,
        **common: Unpack[_CommonFields],
    ) -> None:
        self._say(content, common)
        call_id = check_text(
            tool_call_id, "ToolMessage.tool_call_id", InvalidMessageError
        )
        if not call_id:
            msg = (
                "ToolMessage.tool_call_id is empty; a result must say which call it "
                "answers (ToolCall.id)"
            )
            raise InvalidMessageError(msg)

        if not isinstance(is_error, bool):
            msg = f"ToolMessage.is_error is {is_error!r}; expected True or False"
            raise InvalidMessageError(msg)

        name = check_text(tool_name, "ToolMessage.tool_name", InvalidMessageError)
        _set(self, "tool_call_id", call_id)
        _set(self, "tool_name", name)
        _set(self, "is_error", is_error)

    def _head(self) -> str:
        tool = f"tool {self.tool_name}" if self.tool_name else "tool"
        failed = " (failed)" if self.is_error else ""
        return f"{tool}, for {self.tool_call_id}{failed}"


_ROLES = {"system", "user", "assistant", "tool"}


@attrs.frozen(init=False, repr=False, eq=False, match_args=False)
class UnknownMessage(Message):  # type: ignore[override]  # attrs' own init
    """
    A message of a kind this version has no word for, verbatim.

    Args:
        raw: Their JSON object.

        source: Whose word it is, a provider's name. "" means a newer version
            of this library, and then *raw* is written back in its own place.

        **common: *name*, *run_id*, *turn_id*, *timestamp*, *metadata*; see
            `Message`.

    Raises:
        InvalidMessageError:
            If *source* is "" and *raw* is of a role this version knows.
    """

    role: ClassVar[str] = "unknown"
    __replace__ = Message.replace
    __match_args__: ClassVar[tuple[str, ...]] = ("raw",)

    raw: PMap[str, Any]
    source: str

    def __init__(
        self,
        raw: Mapping[str, Any],
        *,
        source: str = "",
        **common: Unpack[_CommonFields],
    ) -> None:
        _set(self, "raw", freeze_map(raw, "UnknownMessage.raw", InvalidMessageError))
        origin = check_text(source, "UnknownMessage.source", InvalidMessageError)
        _set(self, "source", origin)
        _set(self, "_common", self._checked(common) if common else _PLAIN)
        role = self.raw.get("role")
        if not origin and isinstance(role, str) and role in _ROLES:
            msg = (
                f"UnknownMessage.raw is of the known role {role!r}; make a "
                f"{role.title()}Message of it, or name the provider it is from as "
                "*source*"
            )
            raise InvalidMessageError(msg)

    def _head(self) -> str:
        role = self.raw.get("role", self.raw.get("type"))
        named = role if isinstance(role, str) else ""
        return " ".join(filter(None, ["unknown", self.source, named]))


@attrs.frozen
class Envelope:
    """
    What the messages of one turn share; makes messages that have it.

    Attributes:
        name: The speaker.

        run_id: The run, a UUID.

        turn_id: The turn, a UUID.

        timestamp: When; aware.

        metadata: JSON values, frozen deeply.

    >>> turn = Envelope.new()
    >>> turn.user("hi").turn_id == turn.assistant("hello").turn_id
    True
    """

    _common: _Common

    @classmethod
    def new(
        cls,
        *,
        name: str = "",
        run_id: UUID | None = None,
        turn_id: UUID | None = None,
        timestamp: datetime | None = None,
        metadata: Mapping[str, Any] = EMPTY_MAP,
    ) -> Envelope:
        """
        An envelope; missing ids are new UUIDs of version 7, a missing time is
        now in UTC.

        Raises:
            InvalidMessageError:
                If a value is not what its field holds.
        """
        fields: _CommonFields = {
            "name": name,
            "run_id": UUID(int=new_uuid_number()) if run_id is None else run_id,
            "turn_id": UUID(int=new_uuid_number()) if turn_id is None else turn_id,
            "timestamp": datetime.now(UTC) if timestamp is None else timestamp,
            "metadata": metadata,
        }
        return cls(_common("Envelope", fields))

    @property
    def name(self) -> str:
        """
        The speaker.
        """
        return self._common.name

    @property
    def run_id(self) -> UUID:
        """
        The run.
        """
        return self._common.run_id  # type: ignore[return-value]  # `new` sees to it

    @property
    def turn_id(self) -> UUID:
        """
        The turn.
        """
        return self._common.turn_id  # type: ignore[return-value]  # `new` sees to it

    @property
    def timestamp(self) -> datetime:
        """
        When.
        """
        return self._common.timestamp  # type: ignore[return-value]  # `new` sees to it

    @property
    def metadata(self) -> PMap[str, Any]:
        """
        JSON values, frozen deeply.
        """
        return self._common.metadata

    def system(self, content: str | Iterable[Part]) -> SystemMessage:
        """
        A `SystemMessage` in this envelope.
        """
        return self._stamp(SystemMessage(content))

    def user(self, content: str | Iterable[Part]) -> UserMessage:
        """
        A `UserMessage` in this envelope.
        """
        return self._stamp(UserMessage(content))

    def assistant(
        self,
        content: str | Iterable[Part] = "",
        *,
        tool_calls: Iterable[ToolCall] = (),
        response: ResponseMeta | None = None,
    ) -> AssistantMessage:
        """
        An `AssistantMessage` in this envelope.
        """
        return self._stamp(
            AssistantMessage(content, tool_calls=tool_calls, response=response)
        )

    def tool_call(self, *calls: ToolCall) -> AssistantMessage:
        """
        An `AssistantMessage` that only calls tools.
        """
        return self.assistant(tool_calls=calls)

    def tool_response(
        self, content: str | Iterable[Part], *, tool_call_id: str, tool_name: str = ""
    ) -> ToolMessage:
        """
        A `ToolMessage` in this envelope.
        """
        return self._stamp(
            ToolMessage(content, tool_call_id=tool_call_id, tool_name=tool_name)
        )

    def tool_error(
        self, error: str | BaseException, *, tool_call_id: str, tool_name: str = ""
    ) -> ToolMessage:
        """
        A `ToolMessage` that tells how the tool failed.

        An exception becomes its class and what it says, half surrogate pairs
        in it U+FFFD: whatever a tool raises can be told to the model.
        """
        if isinstance(error, BaseException):
            said = f"{type(error).__name__}: {error}"
            error = said.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

        return self._stamp(
            ToolMessage(
                error, tool_call_id=tool_call_id, tool_name=tool_name, is_error=True
            )
        )

    def _stamp(self, message: M) -> M:
        # The message was made a line ago and nobody else has it yet.
        _set(message, "_common", self._common)
        return message
