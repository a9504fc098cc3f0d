"""The kinds of message, one for each role."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Unpack

import attrs

from conversation_state._persistent import check_text, final, freeze_map
from conversation_state._wording import (
    add_missing_names,
    advise_load,
    describe_type,
    shorten_repr,
    with_article,
)
from conversation_state.errors import InvalidMessageError
from conversation_state.messages._base import PLAIN, CommonFields, Message
from conversation_state.messages._response import ResponseMeta
from conversation_state.parts import Part, TextPart
from conversation_state.tools import ToolCall

_set = object.__setattr__


# The kinds of part that every role but system can contain.
_MEDIA = frozenset({"text", "image", "audio", "video", "file", "unknown"})


def _check_content(
    owner: str, holds: frozenset[str], content: str | Iterable[Part]
) -> str | tuple[Part, ...]:
    if isinstance(content, str):
        return check_text(content, f"{owner}.content", InvalidMessageError)

    # `isinstance` of an abstract class takes as long as all the rest here. Bytes and
    # maps are iterable, too: their first item would be named, and not they.
    if content.__class__ is not tuple and (
        not isinstance(content, Iterable) or isinstance(content, (bytes, Mapping))
    ):
        problem = f"is {describe_type(content)}; expected a str or a sequence of parts"
        problem += _advise_content(owner, content)
        raise InvalidMessageError(problem, owner, "content")

    parts = tuple(content)
    for at, part in enumerate(parts):
        kind = part.kind if isinstance(part, Part) else None
        if kind not in holds:
            raise InvalidMessageError(
                f"{owner}.content[{at}] is {describe_type(part)}; "
                f"{owner} holds parts of {', '.join(sorted(holds))}"
                f"{_advise_content(owner, part)}"
            )

    return parts


def _advise_content(owner: str, given: object) -> str:
    # The result of a tool is often JSON; a message or a part of a format is, too.
    is_load = isinstance(given, Mapping) and given.keys() & {"role", "type"}
    is_json = isinstance(given, (Mapping, list, int, float)) or given is None
    if owner == "ToolMessage" and is_json and not is_load:
        return "; json.dumps(result) makes text of it"

    if isinstance(given, str):
        return "; TextPart(text) makes a part of it"

    return advise_load(given)


@attrs.frozen(init=False, repr=False, eq=False, match_args=False)
class _ContentMessage(Message):  # type: ignore[override]  # attrs' own init
    _holds: ClassVar[frozenset[str]] = _MEDIA
    __match_args__: ClassVar[tuple[str, ...]] = ("content",)
    # For `copy.replace`. The one that attrs generates, for each class that has
    # none of its own, ignores our `__init__`.
    __replace__ = Message.replace

    content: str | tuple[Part, ...]

    def _set_content(self, content: str | Iterable[Part], common: CommonFields) -> None:
        # An ASCII text holds no half of a surrogate pair, and Python knows without
        # looking at it. A subclass of str is replaced by its text.
        if type(content) is not str or not content.isascii():
            content = _check_content(type(self).__name__, self._holds, content)

        _set(self, "content", content)

        _set(self, "_common", self._check_common(common) if common else PLAIN)

    @property
    def parts(self) -> tuple[Part, ...]:
        if not isinstance(self.content, str):
            return self.content

        return (TextPart(self.content),) if self.content else ()

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content

        return super().text


@final
class SystemMessage(_ContentMessage):
    """
    Instructions for the model.

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
        self, content: str | Iterable[Part], **common: Unpack[CommonFields]
    ) -> None:
        self._set_content(content, common)


@final
class UserMessage(_ContentMessage):
    """
    A message of a user.

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
        self, content: str | Iterable[Part], **common: Unpack[CommonFields]
    ) -> None:
        self._set_content(content, common)


def _check_calls(given: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    # The abstract class last, because asking it is slow.
    calls = tuple(given) if isinstance(given, (tuple, list, Iterable)) else (given,)
    for at, call in enumerate(calls):
        if not isinstance(call, ToolCall):
            raise InvalidMessageError(
                f"AssistantMessage.tool_calls[{at}] is {shorten_repr(call)}; expected "
                "a ToolCall"
            )

    return calls


@final
@attrs.frozen(init=False, repr=False, eq=False, match_args=False)
class AssistantMessage(_ContentMessage):  # type: ignore[override]  # attrs' own init
    """
    A response of a model, with its tool calls.

    Args:
        content: A text, or parts of any kind.
        tool_calls: The calls, in the order the model made them.
        response: Metadata of the response.
        **common: *name*, *run_id*, *turn_id*, *timestamp*, *metadata*; see
            `Message`.

    >>> print(AssistantMessage(tool_calls=[ToolCall("c1", "clock", "{}")]))
    assistant:
      calls clock({}) as c1
    """

    role: ClassVar[str] = "assistant"
    __replace__ = Message.replace
    _holds: ClassVar[frozenset[str]] = _MEDIA | {"reasoning", "refusal"}

    tool_calls: tuple[ToolCall, ...]  # pyright: ignore[reportIncompatibleMethodOverride]
    response: ResponseMeta | None

    def __init__(
        self,
        content: str | Iterable[Part] = "",
        *,
        tool_calls: Iterable[ToolCall] = (),
        response: ResponseMeta | None = None,
        **common: Unpack[CommonFields],
    ) -> None:
        self._set_content(content, common)
        calls = () if tool_calls == () else _check_calls(tool_calls)
        if response is not None and not isinstance(response, ResponseMeta):
            problem = f"is {shorten_repr(response)}; expected a ResponseMeta or None"
            raise InvalidMessageError(problem, "AssistantMessage", "response")

        _set(self, "tool_calls", calls)
        _set(self, "response", response)

    def _str_tail(self) -> list[str]:
        lines = [
            f"  calls {call.name}({call.arguments})" + f" as {call.id}" * bool(call.id)
            for call in self.tool_calls
        ]
        if self.response is not None and self.response.finish_reason:
            lines.append(f"  finish reason: {self.response.finish_reason}")

        return lines


@final
@attrs.frozen(init=False, repr=False, eq=False, match_args=False)
class ToolMessage(_ContentMessage):  # type: ignore[override]  # attrs' own init
    """
    The result of a tool call.

    Args:
        content: A text, or parts: text, images, audio, video, files, unknown.
        tool_call_id: The id of the call it answers; not empty.
        tool_name: The tool's name; "" if not given.
        is_error: Whether the tool failed, and *content* is the error.
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
        **common: Unpack[CommonFields],
    ) -> None:
        self._set_content(content, common)
        call_id = check_text(
            tool_call_id, "ToolMessage.tool_call_id", InvalidMessageError
        )
        if not call_id:
            problem = "is empty; a result must say which call it answers (ToolCall.id)"
            raise InvalidMessageError(problem, "ToolMessage", "tool_call_id")

        # 1 equals True, and is other JSON: equal messages would have unequal digests.
        if not isinstance(is_error, bool):
            problem = f"is {shorten_repr(is_error)}; expected True or False"
            raise InvalidMessageError(problem, "ToolMessage", "is_error")

        name = check_text(tool_name, "ToolMessage.tool_name", InvalidMessageError)
        _set(self, "tool_call_id", call_id)
        _set(self, "tool_name", name)
        _set(self, "is_error", is_error)

    def _str_head(self) -> str:
        tool = f"tool {self.tool_name}" if self.tool_name else "tool"
        failed = " (failed)" if self.is_error else ""
        return f"{self._role_and_name(tool)}, for {self.tool_call_id}{failed}"


_ROLES = {"system", "user", "assistant", "tool"}


@final
@attrs.frozen(init=False, repr=False, eq=False, match_args=False)
class UnknownMessage(Message):  # type: ignore[override]  # attrs' own init
    """
    A message of a kind that is unknown to this version, verbatim.

    Args:
        raw: The JSON object.
        source: The provider that defines this kind. "" is a newer version of
            this library; the codec then writes *raw* as it is.
        **common: *name*, *run_id*, *turn_id*, *timestamp*, *metadata*; see
            `Message`.

    Raises:
        InvalidMessageError: If *source* is "" and *raw* is of a role this version
            knows.
    """

    role: ClassVar[str] = "unknown"
    __replace__ = Message.replace
    __match_args__: ClassVar[tuple[str, ...]] = ("raw",)

    raw: Mapping[str, Any]
    source: str

    def __init__(
        self,
        raw: Mapping[str, Any],
        *,
        source: str = "",
        **common: Unpack[CommonFields],
    ) -> None:
        what = "UnknownMessage.raw"
        # In the order of its keys, because it is sent back, and models read the order.
        frozen = freeze_map(raw, what, InvalidMessageError, keep_order=True)
        _set(self, "raw", frozen)
        origin = check_text(source, "UnknownMessage.source", InvalidMessageError)
        _set(self, "source", origin)
        _set(self, "_common", self._check_common(common) if common else PLAIN)
        # The codec would write it as such a message, and load it as another value.
        role = self.raw.get("role")
        if not origin and isinstance(role, str) and role in _ROLES:
            known = with_article(f"{role.title()}Message")
            problem = (
                f"is of the known role {shorten_repr(role)}; make {known} of it, or "
                "name the provider it is from as *source*"
            )
            raise InvalidMessageError(problem, "UnknownMessage", "raw")

    def _str_head(self) -> str:
        role = self.raw.get("role", self.raw.get("type"))
        named = role if isinstance(role, str) else ""
        return self._role_and_name(
            " ".join(filter(None, [self.role, self.source, named]))
        )


# No further kinds: the codec could not write them.
final(Message)
final(_ContentMessage)
add_missing_names(
    Message,
    "a message has",
    {"id": "the entries of a state have one: state.entries[-1].id", "type": "role"},
)
add_missing_names(
    AssistantMessage,
    "a message has",
    {
        name: f"message.response.{name}, where a model reported it"
        for name in ("finish_reason", "model", "usage")
    },
)
