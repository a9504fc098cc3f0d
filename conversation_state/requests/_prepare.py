"""
One pass that makes any list of messages right as a request.

Lists with nothing wrong are found by one scan (`_is_right`), and stay as they are. All
others are taken apart: results are matched with their calls, and what is sent is put
together again from what stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, groupby
from operator import is_
from typing import Any, NamedTuple

import attrs

from conversation_state._persistent import EMPTY_MAP, final
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import TextPart
from conversation_state.requests._rules import MARK, Rules, came_as_is
from conversation_state.tools import ToolCall

NO_RESULT = (
    "There is no result: this call was not answered before the conversation went on."
)
FIRST_PROMPT = "(The conversation begins here.)"


@final
class Change(NamedTuple):
    """
    Something that a request has otherwise than the messages it is made of.

    Attributes:
        path: The path of the message, part or call: ``messages[3].tool_calls[0]``.

        what: The field, or the role of a message that was left out or added.

        why: A sentence for people.
    """

    path: str
    what: str
    why: str


@final
class Prepared(NamedTuple):
    """
    Messages that are right as a request.

    Attributes:
        messages: The messages, in the order in which they are sent. Those that need
            no change are the same objects.

        paths: For each of them, the path of the message it came from; of a message
            that was made, that of the one it was made for.

        changes: What differs from the messages that were given, in their order.
    """

    messages: Sequence[Message]
    paths: Sequence[str]
    changes: tuple[Change, ...] = ()


def is_made(message: Message) -> bool:
    """
    Whether *message* was made up by this library: an error that stands for a result
    that does not exist, or a first prompt.
    """
    if message.metadata is EMPTY_MAP:
        return False

    mark: Any = message.metadata.get(MARK)
    return hasattr(mark, "get") and mark.get("synthetic") is True


def make_result(call: ToolCall) -> ToolMessage:
    """
    An error for *call*, which has no result although the conversation went on.
    """
    return ToolMessage(
        NO_RESULT,
        tool_call_id=call.id,
        tool_name=call.name,
        is_error=True,
        metadata={MARK: {"synthetic": True}},
    )


def make_first_prompt() -> UserMessage:
    """
    A user's message that goes before a conversation in which no user speaks first.
    """
    return UserMessage(FIRST_PROMPT, metadata={MARK: {"synthetic": True}})


def prepare(
    messages: Sequence[Message], rules: Rules, *, seeds: Sequence[str] | None = None
) -> Prepared:
    """
    *messages* as *rules* ask of a request.

    Results move up to directly behind their calls; a call without a result that
    something else follows is answered by an error that says so, and calls at the very
    end wait; results without a call, and second ones, are left out; ids are unique;
    ids and names have the form that is asked, the same at the call and its result;
    empty messages are left out; and a made message of a user goes before an assistant
    that speaks first, where that is refused. All of it is listed.

    Doing it again changes nothing. O(messages); where nothing is wrong, one look at
    each.

    Args:
        messages: Any messages.

        rules: The rules of a format or a host.

        seeds: For each message, what a changed id of one of its calls ends in, such as
            a digest of its entry's identity. Without: ordinals.
    """
    if _is_right(messages, rules):
        return Prepared(messages, [f"messages[{at}]" for at in range(len(messages))])

    return _Preparation(messages, rules, seeds).prepared()


def _is_right(  # noqa: C901, PLR0911, PLR0912 - each message passes here in each dump
    messages: Sequence[Message], rules: Rules
) -> bool:
    """
    Whether nothing is to be changed. May say no where nothing is.
    """
    ids: set[str] = set()
    waiting: set[str] = set()
    is_id = rules.call_ids.pattern.match
    is_name = rules.call_names.pattern.match
    senders, takes_empty = rules.sender_names, rules.takes_empty
    is_first = rules.starts_with_user
    # Annotations would be evaluated nowhere; `Any` saves a cast for each kind.
    message: Any
    for message in messages:
        kind = message.__class__
        if kind is ToolMessage:
            call_id = message.tool_call_id
            if call_id not in waiting:
                return False

            waiting.remove(call_id)
            if message.tool_name and not is_name(message.tool_name):
                return False

            continue

        if waiting:
            return False

        if is_first and kind is not SystemMessage:
            is_first = False
            if kind is AssistantMessage:
                return False

        if kind is UnknownMessage:
            continue

        if kind is AssistantMessage and message.tool_calls:
            for call in message.tool_calls:
                call_id = call.id
                if call_id in ids or not (is_id(call_id) and is_name(call.name)):
                    return False

                ids.add(call_id)
                waiting.add(call_id)
        elif not takes_empty:
            content = message.content
            if content.__class__ is not str:
                if _is_empty(message, rules):
                    return False
            elif not content or content.isspace():
                return False

        if senders is not None and message.name and not senders.is_valid(message.name):
            return False

    return True


def _is_empty(message: Message, rules: Rules) -> bool:
    """
    Whether nothing of *message* can be sent: it has no calls and no text, media or
    other parts.
    """
    if message.tool_calls or isinstance(message, (ToolMessage, UnknownMessage)):
        return False

    for part in message.parts:
        if not isinstance(part, TextPart):
            return False

        text = part.text if rules.takes_blank else part.text.strip()
        # What a format noted on an empty text is sent with it, a signature for one.
        if text or part.metadata is not EMPTY_MAP:
            return False

    return True


@attrs.define(eq=False)
class _Call:
    """
    One call, the id it is sent with, and the position of the result it gets.
    """

    at: int  # which message makes it
    call: ToolCall
    id: str = ""
    result_at: int | None = None


class _Preparation:
    """
    One list while it is made right. Never leaves `prepare`.
    """

    def __init__(
        self, messages: Sequence[Message], rules: Rules, seeds: Sequence[str] | None
    ) -> None:
        self.messages: list[Any] = list(messages)
        self.rules = rules
        self.seeds = seeds
        # With the position of the message that was changed, because they are found in
        # another order than that of the messages.
        self.changes: list[tuple[int, Change]] = []
        self.calls: dict[int, list[_Call]] = {}
        self.calls_by_id: dict[str, list[_Call]] = {}
        self.last_other = max(
            [
                at
                for at, message in enumerate(self.messages)
                if not isinstance(message, ToolMessage)
            ],
            default=-1,
        )

    def change(self, at: int, what: str, why: str, *, inside: str = "") -> None:
        self.changes.append((at, Change(f"messages[{at}]{inside}", what, why)))

    def prepared(self) -> Prepared:
        self._match_results()
        self._choose_ids()
        rows = self._with_first_prompt(
            [row for at in range(len(self.messages)) for row in self._rows_of(at)]
        )
        # Sorting is stable: changes of one message stay in their order.
        self.changes.sort(key=lambda each: each[0])
        return Prepared(
            [message for _, message in rows],
            [f"messages[{at}]" for at, _ in rows],
            tuple([change for _, change in self.changes]),
        )

    def _match_results(self) -> None:
        """
        Find the result of each call, and list results that have none.
        """
        results: dict[str, list[int]] = {}
        for at, message in enumerate(self.messages):
            if isinstance(message, ToolMessage):
                results.setdefault(message.tool_call_id, []).append(at)
                continue

            # Results that nothing parts are matched together.
            self._match_run(results)
            results.clear()
            if message.tool_calls:
                calls = [_Call(at, call) for call in message.tool_calls]
                self.calls[at] = calls
                for call in calls:
                    self.calls_by_id.setdefault(call.call.id, []).append(call)

        self._match_run(results)

    def _match_run(self, results: dict[str, list[int]]) -> None:
        for call_id, places in results.items():
            calls = self.calls_by_id.get(call_id, [])
            matched = _choose_open(calls, len(places))
            for at, call in zip(places, matched, strict=False):
                call.result_at = at

            for at in places[len(matched) :]:
                self._match_second(at, calls)

    def _match_second(self, at: int, calls: list[_Call]) -> None:
        """
        List the result at position *at*, all of whose *calls* are answered, unless it
        takes the place of one that was made up.
        """
        if not calls:
            why = "no call before it has this id; a result must follow its call"
            self.change(at, "tool", why)
            return

        if not is_made(self.messages[at]):
            for call in reversed(calls):
                before: Any = call.result_at
                if is_made(self.messages[before]):
                    call.result_at = at
                    why = "was made up; the result that came later is sent"
                    self.change(before, "tool", why)
                    return

        why = "is a second result of its call; the first one is sent"
        self.change(at, "tool", why)

    def _choose_ids(self) -> None:
        """
        Give each call the id it is sent with: its own if it is valid and the first.
        """
        every = [call for calls in self.calls.values() for call in calls]
        reserved = {each.call.id for each in every}
        taken: set[str] = set()
        uses: dict[str, int] = {}
        for each in every:
            own = each.call.id
            uses[own] = uses.get(own, 0) + 1
            each.id = next(
                name
                for name in self._find_names(each, uses[own])
                if name not in taken and (name == own or name not in reserved)
            )
            taken.add(each.id)

    def _find_names(self, each: _Call, use: int) -> Iterator[str]:
        """
        Ids for *each*, a call with the *use*-th use of its id: the best first.
        """
        rule, own = self.rules.call_ids, each.call.id
        seed = "" if self.seeds is None else self.seeds[each.at]
        if own and came_as_is(self.rules, each.call.metadata, "id"):
            yield own
        elif own or not seed:
            yield rule.fix(own)

        if seed:
            yield rule.fix(own, seed)

        for number in count(max(use, 2)):
            yield rule.fix(own, f"{seed}-{number}" if seed else str(number))

    def _rows_of(self, at: int) -> list[tuple[int, Message]]:
        """
        What is sent of the message at position *at*, each with its position: the
        message, and the results of its calls.
        """
        message = self.messages[at]
        if isinstance(message, ToolMessage):
            return []  # is sent behind its call

        if at in self.calls:
            return [(at, self._with_valid_calls(at)), *self._results_of(at)]

        if self._is_dropped(at):
            return []

        return [(at, self._with_valid_name(at, message))]

    def _is_dropped(self, at: int) -> bool:
        message = self.messages[at]
        if self.rules.takes_empty or not _is_empty(message, self.rules):
            return False

        if came_as_is(self.rules, message.metadata, "content"):
            return False

        self.change(at, "content", "is empty and would be refused; it is left out")
        return True

    def _with_valid_calls(self, at: int) -> Message:
        message = self._with_valid_name(at, self.messages[at])
        calls = [
            self._with_valid_call(each, f".tool_calls[{place}]")
            for place, each in enumerate(self.calls[at])
        ]
        same = all(map(is_, calls, message.tool_calls))
        return message if same else message.replace(tool_calls=calls)

    def _with_valid_call(self, each: _Call, inside: str) -> ToolCall:
        call = each.call
        changes: dict[str, Any] = {}
        if each.id != call.id:
            why = f"is sent as {each.id}; {_describe_ids(self.rules)}"
            self.change(each.at, "id", why, inside=inside)
            changes["id"] = each.id
            changes["metadata"] = _rename_made(call.metadata, call.id, each.id)

        name = call.name
        if not came_as_is(self.rules, call.metadata, "name"):
            name = self._fix_name(each.at, "name", name, inside)

        if name != call.name:
            changes["name"] = name

        return attrs.evolve(call, **changes) if changes else call

    def _fix_name(self, at: int, what: str, name: str, inside: str = "") -> str:
        rule = self.rules.call_names
        fixed = rule.fix(name)
        if fixed != name:
            why = f"is sent as {fixed}; a tool's name is {rule}"
            self.change(at, what, why, inside=inside)

        return fixed

    def _results_of(self, at: int) -> list[tuple[int, Message]]:
        """
        The results of the calls of the message at position *at*, in the order in which
        they came; errors for those that have none, unless they wait.
        """
        calls = self.calls[at]
        answered = [each for each in calls if each.result_at is not None]
        answered.sort(key=lambda each: each.result_at or 0)
        rows: list[tuple[int, Message]] = []
        for each in answered:
            place: Any = each.result_at
            if any(
                not isinstance(message, ToolMessage)
                for message in self.messages[at + 1 : place]
            ):
                why = "results must follow their calls directly; this message was moved"
                self.change(place, "position", why)

            rows.append((place, self._with_valid_result(place, each)))

        if at < self.last_other:
            for number, each in enumerate(calls):
                if each.result_at is None:
                    why = "has no result although the conversation went on; an error "
                    why += "that says so is sent"
                    inside = f".tool_calls[{number}]"
                    self.change(at, "result", why, inside=inside)
                    call = attrs.evolve(each.call, id=each.id)
                    name = self.rules.call_names.fix(call.name) if call.name else ""
                    rows.append((at, make_result(attrs.evolve(call, name=name))))

        return rows

    def _with_valid_result(self, at: int, each: _Call) -> Message:
        message: ToolMessage = self.messages[at]
        own = message.tool_call_id
        changes: dict[str, Any] = {}
        if own != each.id:
            why = f"is sent as {each.id}, the id of its call"
            self.change(at, "tool_call_id", why)
            changes["tool_call_id"] = each.id
            changes["metadata"] = _rename_made(message.metadata, own, each.id)

        name = message.tool_name
        if name and not came_as_is(self.rules, message.metadata, "tool_name"):
            name = self._fix_name(at, "tool_name", name)

        if name != message.tool_name:
            changes["tool_name"] = name

        return message.replace(**changes) if changes else message

    def _with_valid_name(self, at: int, message: Message) -> Message:
        rule = self.rules.sender_names
        if rule is None or not message.name or isinstance(message, UnknownMessage):
            return message

        fixed = rule.fix(message.name)
        if fixed == message.name or came_as_is(self.rules, message.metadata, "sender"):
            return message

        self.change(at, "name", f"is sent as {fixed}; a sender's name is {rule}")
        return message.replace(name=fixed)

    def _with_first_prompt(
        self, rows: list[tuple[int, Message]]
    ) -> list[tuple[int, Message]]:
        if not self.rules.starts_with_user:
            return rows

        for place, (at, message) in enumerate(rows):
            if isinstance(message, SystemMessage):
                continue

            if (
                not isinstance(message, AssistantMessage)
                or came_as_is(self.rules, message.metadata, "first")
                # A list of answers alone is a piece of a conversation, no request.
                or not any(isinstance(each, _ASKS) for _, each in rows)
            ):
                break

            why = "a user must speak first; a made-up message goes before this one"
            self.change(at, "user", why)
            return [*rows[:place], (at, make_first_prompt()), *rows[place:]]

        return rows


_ASKS = (UserMessage, ToolMessage)


def _choose_open(calls: list[_Call], number: int) -> list[_Call]:
    """
    Those of *calls*, all of one id, that *number* results in a run answer, in order.

    The newest messages that make them, as far as there are results: what came directly
    behind a call is its own result, not that of an older call that was stopped.
    """
    by_message = [
        list(group)
        for _, group in groupby(
            [each for each in calls if each.result_at is None], key=lambda each: each.at
        )
    ]
    chosen: list[_Call] = []
    for group in reversed(by_message):
        if len(chosen) < number:
            chosen = group[: number - len(chosen)] + chosen

    return chosen


def _describe_ids(rules: Rules) -> str:
    return f"ids of calls are unique in a request, and {rules.call_ids}"


def _rename_made(metadata: Mapping[str, Any], old: str, new: str) -> Mapping[str, Any]:
    """
    *metadata* in which notes that the id *old* was made up name the *new* one.
    """
    kept = metadata.get(MARK)
    if not isinstance(kept, Mapping):
        return metadata

    renamed = {
        name: {**notes, "made_id": new}
        for name, notes in kept.items()
        if isinstance(notes, Mapping) and notes.get("made_id") == old
    }
    return {**metadata, MARK: {**kept, **renamed}} if renamed else metadata
