"""
From messages to Gemini's contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from conversation_state._persistent import thaw
from conversation_state.adapters._export import (
    Export,
    Writing,
    in_order,
    list_of,
    map_of,
    notes_of,
    written_over,
)
from conversation_state.adapters.gemini._calls import write_call, write_result
from conversation_state.adapters.gemini._parts import write_part
from conversation_state.adapters.gemini._words import SOURCE, spelt
from conversation_state.errors import InvalidMessageError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import Part
from conversation_state.tools import ToolCall

__all__ = ["dump"]

_SYSTEM = frozenset({"systemInstruction", "system_instruction"})


def dump(messages: Iterable[Message]) -> Export:
    """
    *messages* as a request has them: ``{"contents": [...]}``, and
    ``systemInstruction`` if there is a system message.

    What was loaded from this format is written as it was. Results that follow
    each other are one content, as the format has it. What the format can't say
    is in `Export.lost`: names of speakers, system messages after others (all
    are one instruction, said first), an answer with calls right after another
    one (both are one), arguments that are no JSON object, images by *detail*,
    several texts in a tool's result, what is another provider's own, what had
    to be mended. A refusal is said as text. Ours, and so neither
    sent nor lost, are timestamps, run and turn ids,
    `AssistantMessage.response`, positions (*index*), which only tell parts and
    calls in order, and the caller's own metadata.

    Raises:
        InvalidMessageError:
            If one of them is no message.

    Source:
        Google refuses contents without parts, where an empty text says as
        much; calls, unless a user's content or results are before them; and,
        since Gemini 3, calls that no thought was signed for. For calls that
        other models made it has a word in place of the signature, which is
        written to the first call of a message.
    """
    write = _Dumping()
    for at, message in enumerate(messages):
        path = f"messages[{at}]"
        match message:
            case AssistantMessage():
                write.assistant(message, path)
            case ToolMessage():
                write.tool(message, path)
            case UserMessage():
                write.user(message, path)
            case SystemMessage():
                write.instruct(message, path)
            case UnknownMessage():
                write.other(message, path)
            case _:
                msg = f"{path} is a {type(message).__name__}; expected a Message"
                raise InvalidMessageError(msg)

    return write.export(write.payload())


class _Asked(NamedTuple):
    """
    A call that was written.
    """

    name: str
    at: int
    is_named: bool


class _Result(NamedTuple):
    """
    A result that was written: the call it answers, and its part.
    """

    call: _Asked | None
    raw: dict[str, Any]


class _Dumping(Writing):
    """
    One payload while it is written.
    """

    def __init__(self) -> None:
        super().__init__(SOURCE)
        self._instruction: dict[str, Any] = {}
        self._contents: list[dict[str, Any]] = []
        self._last = ""
        # The answers in a row, each of which is a content so far.
        self._answers: list[str] = []
        self._asked: dict[str, _Asked] = {}
        # The results that follow each other, by where they are in their content.
        self._results: dict[int, _Result] = {}

    def payload(self) -> dict[str, Any]:
        """
        All that was written.
        """
        self._end_results()
        return {**self._instruction, "contents": self._contents}

    def _about(self, message: Message, path: str) -> Mapping[str, Any]:
        """
        The notes on *message*; what was mended in it is lost, and so is its
        name.
        """
        notes = self.notes_on(message, path)
        if message.name:
            self.lose(path, "name", "nobody has a name here but functions")

        return notes

    def instruct(self, message: SystemMessage, path: str) -> None:
        """
        Write what the model is told to be.
        """
        notes = self._about(message, path)
        parts = self._parts(message.content, path)
        if self._instruction:
            self.lose(path, "system", "is a part of the one instruction there is")
            self._instruct_more(parts)
            return

        if self._contents:
            self.lose(path, "system", "is said ahead of all else here")

        raw = {"role": thaw(notes["role"])} if "role" in notes else {}
        told: Any = _content(raw, parts, notes, map_of(notes, "keys"))
        if notes.get("plain") is True and told == {"parts": parts[:1]}:
            told = parts[0]["text"]

        self._instruction = {spelt(notes, "systemInstruction"): told}

    def _instruct_more(self, parts: list[dict[str, Any]]) -> None:
        (key,) = self._instruction
        told = self._instruction[key]
        if isinstance(told, str):
            told = {"parts": [{"text": told}]}

        before = told.get("parts") if isinstance(told, dict) else None
        if isinstance(before, list):
            parts = [*before, *parts]

        self._instruction[key] = {**told, "parts": parts}

    def user(self, message: UserMessage, path: str) -> None:
        """
        Write what a user said.
        """
        notes = self._about(message, path)
        parts = self._parts(message.content, path)
        self._ask(parts, notes, map_of(notes, "keys"), "user")

    def tool(self, message: ToolMessage, path: str) -> None:
        """
        Write what a function returned.
        """
        notes = self._about(message, path)
        call = self._asked.get(message.tool_call_id)
        name = message.tool_name
        if call and not name and "name" not in list_of(notes, "without"):
            name = call.name

        is_named = message.tool_call_id != notes.get("made_id")
        if is_named and (call is None or call.is_named):
            about = (message.tool_call_id, name)
        else:
            about = ("", name)

        raw = write_result(self, message, path, notes, about)
        follows = self._last == "tool" and notes.get("apart") is not True
        self._ask([raw], notes, map_of(notes, "content"), "tool", follows=follows)
        place = len(self._contents[-1]["parts"]) - 1
        self._results[place] = _Result(None if about[0] else call, raw)

    def _ask(
        self,
        parts: list[dict[str, Any]],
        notes: Mapping[str, Any],
        keys: Mapping[str, Any],
        kind: str,
        *,
        follows: bool = False,
    ) -> None:
        """
        Write *parts* of what is said to the model, in a content of their own
        or in the last one.
        """
        joined = notes.get("joined") is True and self._last in {"tool", "user"}
        last = self._contents[-1].get("parts") if self._contents else None
        if (follows or joined) and isinstance(last, list):
            last.extend(parts or [{"text": ""}])
        else:
            self._end_results()
            role: Any = notes.get("role", "user")
            asks = role is None or role in {"", "function", "user"}
            raw = {} if "role" in list_of(notes, "without") else {"role": role}
            if raw and not asks:
                raw = {"role": "user"}

            self._contents.append(_content(raw, parts, notes, keys))

        self._last = kind

    def _end_results(self) -> None:
        """
        Put results that say of no call what it is, but its name, in the order
        of the calls: that is how they are told apart.
        """
        slots: dict[str, list[tuple[int, _Result]]] = {}
        for place, result in self._results.items():
            if result.call is not None:
                slots.setdefault(result.call.name, []).append((place, result))

        for several in slots.values():
            ordered = sorted(several, key=_place_of_call)
            for (place, _), (_, result) in zip(several, ordered, strict=True):
                self._contents[-1]["parts"][place] = result.raw

        self._results.clear()

    def assistant(self, message: AssistantMessage, path: str) -> None:
        """
        Write what the model said, and what it called.
        """
        self._end_results()
        notes = self._about(message, path)
        parts: list[dict[str, Any]] = []
        content = message.content
        said: tuple[Part, ...] = () if isinstance(content, str) else content
        if isinstance(content, str) and content:
            parts.append({"text": content})

        is_first = True
        for here, one in in_order(said, message.tool_calls, path):
            if isinstance(one, ToolCall):
                parts.append(self._call(one, here, first=is_first))
                is_first = False
                continue

            block = write_part(self, one, here)
            if block is not None:
                parts.append(block)

        keys = map_of(notes, "keys")
        apart = keys or notes.get("apart") is True
        if self._last != "model" or apart:
            self._answers = []

        if message.tool_calls and self._answers:
            self._answers.append(path)
            self._join_answers(parts)
        else:
            raw = _content({"role": "model"}, parts, notes, keys)
            self._contents.append(raw)
            if "parts" in raw:
                self._answers.append(path)

        self._last = "model"

    def _join_answers(self, parts: list[dict[str, Any]]) -> None:
        """
        Make one content of all answers in a row, the last of which says *parts*:
        calls are refused unless somebody asked just before them.
        """
        first, *others = self._answers
        for path in others:
            self.lose(path, "assistant", "is one with the answer before it here")

        start = len(self._contents) - len(others)
        joined = self._contents[start:]
        for content in joined[1:]:
            joined[0]["parts"].extend(content["parts"])

        joined[0]["parts"].extend(parts)
        del self._contents[start + 1 :]
        self._answers = [first]

    def _call(self, call: ToolCall, path: str, *, first: bool) -> dict[str, Any]:
        made = notes_of(call.metadata, SOURCE).get("made_id")
        if call.id:
            asked = _Asked(call.name, len(self._asked), call.id != made)
            self._asked[call.id] = asked

        return write_call(self, call, path, first=first)

    def _parts(self, content: str | tuple[Part, ...], path: str) -> list[Any]:
        if isinstance(content, str):
            return [{"text": content}]

        parts = [
            write_part(self, part, f"{path}.parts[{at}]")
            for at, part in enumerate(content)
        ]
        return [part for part in parts if part is not None]

    def other(self, message: UnknownMessage, path: str) -> None:
        """
        Write what our model has no word for, if it was said to Gemini.
        """
        self._about(message, path)
        raw = self.unknown(message.raw, message.source, path, "role")
        if raw is None:
            return

        if not self._instruction and _is_instruction(raw):
            self._instruction = raw
            return

        self._end_results()
        self._contents.append(raw)
        self._last = "unknown"


def _is_instruction(raw: Mapping[str, Any]) -> bool:
    values = list(raw.values())
    return len(raw) == 1 and raw.keys() <= _SYSTEM and isinstance(values[0], dict)


def _place_of_call(found: tuple[int, _Result]) -> int:
    call = found[1].call
    return call.at if call else 0


def _content(
    raw: dict[str, Any],
    parts: list[dict[str, Any]],
    notes: Mapping[str, Any],
    keys: Mapping[str, Any],
) -> dict[str, Any]:
    """
    *raw*, a content, with its *parts*: none only if it had none.
    """
    if _says_something(parts) or not (
        "parts" in keys or "parts" in list_of(notes, "without")
    ):
        raw["parts"] = parts or [{"text": ""}]

    return written_over(keys, raw)


def _says_something(parts: list[dict[str, Any]]) -> bool:
    return bool(parts) and parts != [{"text": ""}]
