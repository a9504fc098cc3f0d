"""
One pass that makes any list of messages right as a request.

Lists with nothing wrong are found by one scan (`_is_right`), and stay as they are. All
others are taken apart: results are matched with their calls, and what is sent is put
together again from what stays.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import count, groupby
from operator import is_
from typing import Any, NamedTuple, TypeAlias

import attrs

from conversation_state._persistent import EMPTY_MAP, final
from conversation_state.messages import (
    PLAIN,
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
    identify_call,
)
from conversation_state.parts import Part, TextPart
from conversation_state.requests._rules import MARK, Rules, came_as_is
from conversation_state.requests._single import (
    INVALID_JSON,
    has_no_content,
    has_valid_arguments,
    is_thinking_only,
)
from conversation_state.tools import ToolCall

# A tool that was stopped, or crashed, may have done its work.
NO_RESULT = (
    "There is no result: the conversation went on before this call was answered. "
    "Whether it was carried out is unknown."
)
MADE_PROMPT = "(no message)"
MADE_ANSWER = "(no answer)"
_MADE = {MARK: {"synthetic": True}}


@final
class RequestChange(NamedTuple):
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
    changes: tuple[RequestChange, ...] = ()

    def pairs(self) -> Iterator[tuple[Message, str]]:
        """Each of the messages, and its path."""
        return zip(self.messages, self.paths, strict=True)


# What a format can't represent of the message at a path, if nothing of it is left.
LostFinder: TypeAlias = Callable[[Message, str], Sequence[Any] | None]


def is_made(message: Message) -> bool:
    """
    Whether *message* was made up by this library: an error that stands for a result
    that does not exist, or a prompt where a request needs one.
    """
    if message.metadata is EMPTY_MAP:
        return False

    mark: Any = message.metadata.get(MARK)
    return hasattr(mark, "get") and mark.get("synthetic") is True


def make_result(call: ToolCall) -> ToolMessage:
    """An error for *call*, which has no result although the conversation went on."""
    return ToolMessage(
        NO_RESULT,
        tool_call_id=call.id,
        tool_name=call.name,
        is_error=True,
        metadata={MARK: {"synthetic": True}},
    )


def make_prompt() -> UserMessage:
    """
    A user's message that stands where a request needs one and there is none: before
    an assistant that speaks first, for one.
    """
    return UserMessage(MADE_PROMPT, metadata={MARK: {"synthetic": True}})


def prepare(
    messages: Sequence[Message],
    rules: Rules,
    *,
    seeds: Sequence[str] | None = None,
    find_lost: LostFinder | None = None,
) -> Prepared:
    """
    *messages* as *rules* ask of a request.

    Results move up to directly behind their calls; a call without a result that
    something else follows is answered by an error that says so, and calls at the very
    end wait; results without a call, second ones, and calls that are there twice are
    left out; ids are unique;
    ids and names have the form that is asked, the same at the call and its result;
    arguments are a JSON object;
    empty messages are left out, and so is thinking that nothing follows; and a made
    message of a user goes before an assistant that speaks first, where that is refused,
    and behind one that speaks last because of what was left out or moved; where two
    messages may not be neighbours, a made one goes between them. All of it is listed.

    Doing it again changes nothing. O(messages); where nothing is wrong, one look at
    each.

    Args:
        messages: Any messages.
        rules: The rules of a format or a host.
        seeds: For each message, what a changed id of one of its calls ends in, such as
            a digest of its entry's identity. Without: ordinals.
        find_lost: What a format can't represent of a message: a function of the message
            and its path that returns all of it if nothing is left to send, else None.
    """
    if not rules.is_request or _is_right(messages, rules, find_lost):
        return Prepared(messages, _make_paths(len(messages)))

    return _Preparation(messages, rules, seeds, find_lost).prepared()


_SHARED_PATHS = 1_024


@cache
def _make_shared_paths() -> list[str]:
    return [f"messages[{at}]" for at in range(_SHARED_PATHS)]


def _make_paths(size: int) -> list[str]:
    # The paths of the first messages are made once: they are a third of this pass.
    paths = _make_shared_paths()[:size]
    paths += [f"messages[{at}]" for at in range(_SHARED_PATHS, size)]
    return paths


def _is_right(  # noqa: C901, PLR0911, PLR0912, PLR0915 - in each dump
    messages: Sequence[Message], rules: Rules, find_lost: LostFinder | None
) -> bool:
    """Whether nothing is to be changed. May say no where nothing is."""
    ids: set[str] = set()
    waiting: set[str] = set()
    is_id = rules.call_ids.pattern.match
    is_name = rules.call_names.pattern.match
    senders = rules.sender_names
    # Names that were found valid: a conversation has few tools and many calls.
    names: set[str] = set()
    is_first = rules.starts_with_user
    parted = find_parted(rules)
    # The kinds of message behind which a system message may not stand.
    late = _LATE[rules.late_system]
    before: Any = None
    # `Any` saves a cast for each kind. The most frequent kinds are asked for first.
    message: Any
    for message in messages:
        kind = message.__class__
        if kind is ToolMessage:
            before = kind
            call_id = message.tool_call_id
            if call_id not in waiting:
                return False

            waiting.remove(call_id)
            name = message.tool_name
            if name and name not in names:
                if not is_name(name):
                    return False

                names.add(name)

            continue

        if kind is SystemMessage:
            if before in late:
                return False
        elif parted and (before, kind) in parted:
            return False
        elif kind is not UnknownMessage or not is_silent(message, rules):
            before = kind

        if waiting:
            return False

        if kind is AssistantMessage:
            if is_first:
                return False

            calls = message.tool_calls
        elif kind is UnknownMessage:
            if find_lost is not None and message.source != rules.format:
                return False

            is_first = is_first and is_silent(message, rules)
            continue
        else:
            is_first = is_first and kind is SystemMessage
            calls = ()

        if calls:
            for call in calls:
                call_id = call.id
                # Those of one answer wait; what came twice in a request goes twice.
                if call_id in ids and (
                    call_id in waiting
                    or not rules.format
                    or not came_as_is(rules, call.metadata, "again")
                ):
                    return False

                if not is_id(call_id):
                    return False

                name = call.name
                if name not in names:
                    if not is_name(name):
                        return False

                    names.add(name)

                if not has_valid_arguments(call, rules):
                    return False

                ids.add(call_id)
                waiting.add(call_id)
        else:
            content = message.content
            if content.__class__ is not str:
                if not _has_text(content) and (
                    has_no_content(message, rules)
                    or is_thinking_only(message)
                    or (find_lost is not None and find_lost(message, "") is not None)
                ):
                    return False
            elif not content or content.isspace():
                return False

        if senders is not None and message._common is not PLAIN:
            name = message.name
            if name and not senders.is_valid(name):
                return False

    if waiting:
        return not has_stopped_calls(messages)

    if before is not AssistantMessage:
        return True

    return not (rules.ends_with_user or _ends_with_system(messages, rules))


def _ends_with_system(messages: Sequence[Message], rules: Rules) -> bool:
    """
    Whether the newest message is the system's, and is sent elsewhere: behind an answer
    it asks for another one, which the request would not. An empty one is not sent.
    """
    stays = rules.late_system == "anywhere" and rules.format in _IN_PLACE
    newest = messages[-1]
    return (
        isinstance(newest, SystemMessage)
        and not stays
        and not has_no_content(newest, rules)
        and not came_as_is(rules, newest.metadata, "position")
    )


# Formats that have system messages where they stand; "" is for the formats to decide.
_IN_PLACE = ("", "openai_chat", "openai_responses")


def has_stopped_calls(messages: Sequence[Message]) -> bool:
    """
    Whether *messages* end in results of an answer that was interrupted: no one runs
    the calls of it that have none.
    """
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if not isinstance(message, ToolMessage):
            return at < len(messages) - 1 and _is_interrupted(message)

    return False


def _is_interrupted(message: Message) -> bool:
    response = getattr(message, "response", None)
    return response is not None and response.finish_reason == "interrupted"


def is_silent(message: Message, rules: Rules) -> bool:
    """
    Whether *message* is no turn of a request: the system's, or one of an unknown role
    that is not of the format of *rules* and so is not sent.
    """
    if isinstance(message, UnknownMessage):
        return not message.source or message.source != rules.format

    return isinstance(message, SystemMessage)


def find_parted(rules: Rules) -> frozenset[tuple[Any, Any]]:
    """The kinds of messages that may not be neighbours, the earlier one first."""
    if rules.alternates:
        return _TURNS

    return _ANSWERED if rules.answers_results else frozenset()


_ANSWERED: frozenset[tuple[Any, Any]] = frozenset({(ToolMessage, UserMessage)})
_TURNS = _ANSWERED | {(UserMessage, UserMessage), (AssistantMessage, AssistantMessage)}
_LATE: dict[str, frozenset[Any]] = {
    "anywhere": frozenset(),
    "after_user": frozenset({AssistantMessage, ToolMessage, UnknownMessage}),
    "top": frozenset({AssistantMessage, ToolMessage, UnknownMessage, UserMessage}),
}


def _has_text(parts: tuple[Part, ...]) -> bool:
    for part in parts:
        if part.__class__ is TextPart:
            text: str = part.text  # pyright: ignore[reportAttributeAccessIssue]
            if text and not text.isspace():
                return True

    return False


@attrs.define(eq=False)
class _Call:
    """One call, the id it is sent with, and the position of the result it gets."""

    at: int  # which message makes it
    place: int  # which of its calls it is
    call: ToolCall
    id: str = ""
    result_at: int | None = None


class _Preparation:
    """One list while it is made right. Never leaves `prepare`."""

    def __init__(
        self,
        messages: Sequence[Message],
        rules: Rules,
        seeds: Sequence[str] | None,
        find_lost: LostFinder | None,
    ) -> None:
        self.messages: list[Any] = list(messages)
        self.rules = rules
        self.seeds = seeds
        self.find_lost = find_lost
        # With the position of the message that was changed, because they are found in
        # another order than that of the messages.
        self.changes: list[tuple[int, RequestChange]] = []
        self.calls: dict[int, list[_Call]] = {}
        self.calls_by_id: dict[str, list[_Call]] = {}
        # Results that were loaded without their calls, which the provider stores.
        self.orphans: set[int] = set()
        self.are_stopped = has_stopped_calls(self.messages)
        # The positions of all but results.
        self.others = [
            at
            for at, message in enumerate(self.messages)
            if not isinstance(message, ToolMessage)
        ]

    def change(self, at: int, what: str, why: str, *, inside: str = "") -> None:
        self.changes.append((at, RequestChange(f"messages[{at}]{inside}", what, why)))

    def prepared(self) -> Prepared:
        self._match_results()
        self._drop_repeated()
        self._choose_ids()
        stays = self._find_left_out()
        rows = [row for at in stays for row in self._rows_of(at)]
        rows = self._with_system_placed(self._with_last_prompt(rows))
        rows = self._with_first_prompt(rows)
        if parted := find_parted(self.rules):
            rows = list(self._with_neighbours_parted(rows, parted))

        # Sorting is stable: changes of one message stay in their order.
        self.changes.sort(key=lambda each: each[0])
        return Prepared(
            [message for _, message in rows],
            [f"messages[{at}]" for at, _ in rows],
            tuple([change for _, change in self.changes]),
        )

    def _match_results(self) -> None:
        """Find the result of each call, and list results that have none."""
        results: dict[str, list[int]] = {}
        for at, message in enumerate(self.messages):
            if isinstance(message, ToolMessage):
                results.setdefault(message.tool_call_id, []).append(at)
                continue

            # Results that nothing parts are matched together.
            self._match_run(results)
            results.clear()
            if message.tool_calls:
                calls = [_Call(at, *each) for each in enumerate(message.tool_calls)]
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
        List the result at position *at*, all of whose *calls* are answered, or the
        one that it takes the place of: the newest says what became of a call, unless
        it says that it failed, and an older one does not.

        Source:
            https://github.com/google/adk-python/issues/2215: "in progress", then the
            result of a long-running tool;
            https://github.com/CopilotKit/CopilotKit/issues/6201: what the user chose,
            then what came of it;
            https://github.com/QwenLM/qwen-code/issues/9573: a placeholder behind a
            result.
        """
        is_format = bool(self.rules.format)  # another provider does not have the call
        metadata = self.messages[at].metadata
        if is_format and not calls and came_as_is(self.rules, metadata, "orphan"):
            self.orphans.add(at)
            return

        if not calls:
            why = "no call before it has this id; a result must follow its call"
            self.change(at, "tool", why)
            return

        call = next(
            (each for each in reversed(calls) if is_made(self._result_of(each))),
            calls[-1],
        )
        old, new = self._result_of(call), self.messages[at]
        if new.content == old.content or new.is_error > old.is_error:
            self.change(at, "tool", "is a second result of its call; one is sent")
        else:
            why = "is no longer the result of its call; a later one is sent"
            self.change(call.result_at or 0, "tool", why)
            call.result_at = at

    def _result_of(self, call: _Call) -> Any:
        return self.messages[call.result_at or 0]

    def _drop_repeated(self) -> None:
        """Leave out calls that are there twice, and their results."""
        repeated = [calls for calls in self.calls_by_id.values() if len(calls) > 1]
        first: dict[Any, _Call] = {}
        for each in (call for calls in repeated for call in calls):
            identity = identify_call(each.call)
            is_again = identity is not None and identity in first
            if is_again and self._take_result(first[identity], each):
                self.calls[each.at].remove(each)
                why = "is there twice; the first one is sent"
                inside = f".tool_calls[{each.place}]"
                self.change(each.at, "call", why, inside=inside)
            else:
                first.setdefault(identity, each)

        for at in [at for at, calls in self.calls.items() if not calls]:
            del self.calls[at]
            self.messages[at] = self.messages[at].replace(tool_calls=())

    def _take_result(self, first: _Call, each: _Call) -> bool:
        """
        Whether *each*, which is *first* again, has no other result than it, or *first*
        has none: then it gets that of *each*.
        """
        metadata = each.call.metadata
        if self.rules.format and came_as_is(self.rules, metadata, "again"):
            return False

        if first.result_at is None:
            first.result_at = each.result_at
        elif each.result_at is not None:
            result, other = (
                self.messages[first.result_at],
                self.messages[each.result_at],
            )
            if result.content != other.content:
                return False

            why = "is the result of a call that is there twice; the first one is sent"
            self.change(each.result_at, "tool", why)

        return True

    def _choose_ids(self) -> None:
        """
        Give each call the id it is sent with: its own if it is valid and the first.
        """
        rules = self.rules
        every = [call for calls in self.calls.values() for call in calls]
        reserved = {each.call.id for each in every}
        taken: set[str] = set()
        uses: dict[Any, int] = {}
        last_use: dict[str, int] = {}
        for each in every:
            own = each.call.id
            # With a seed, an id depends on its message alone, not on what is before it.
            use = own if self.seeds is None else (each.at, own)
            uses[use] = uses.get(use, 0) + 1
            is_of_one_answer = last_use.get(own) == each.at
            last_use[own] = each.at
            # What a provider took twice in one request may be twice in it, but not in
            # one answer: both results would be of the same call.
            is_again = rules.format and came_as_is(rules, each.call.metadata, "again")
            if own and is_again and not is_of_one_answer:
                each.id = own
                continue

            each.id = next(
                name
                for name in self._find_names(each, uses[use])
                if name not in taken and (name == own or name not in reserved)
            )
            taken.add(each.id)

    def _find_names(self, each: _Call, use: int) -> Iterator[str]:
        """Ids for *each*, a call with the *use*-th use of its id: the best first."""
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

    def _find_left_out(self) -> list[int]:
        """The positions of the messages that are sent; of the others, list why."""
        stays: list[int] = []
        is_followed = False  # by something that thinking may have led to
        for at in range(len(self.messages) - 1, -1, -1):
            message = self.messages[at]
            if isinstance(message, ToolMessage):
                is_followed = False
            elif at in self.calls:
                is_followed = True
            elif self._is_left_out(at, is_followed=is_followed):
                continue
            else:
                is_followed = isinstance(message, (AssistantMessage, UnknownMessage))

            stays.append(at)

        stays.reverse()
        return stays

    def _is_left_out(self, at: int, *, is_followed: bool) -> bool:
        message = self.messages[at]
        is_unknown = isinstance(message, UnknownMessage)
        if not is_unknown and came_as_is(self.rules, message.metadata, "content"):
            return False

        if not is_unknown and has_no_content(message, self.rules):
            if self.rules.takes_empty:
                return False

            self.change(at, "content", "is empty and would be refused; it is left out")
            return True

        # Where turns alternate, two answers are parted.
        is_followed = is_followed and not self.rules.alternates
        if is_thinking_only(message) and not (
            is_followed or self.rules.takes_thinking_only
        ):
            why = "thinking must be followed by the output it led to; it is left out"
            self.change(at, "reasoning", why)
            return True

        if self.find_lost is None or (not is_unknown and _has_text(message.parts)):
            return False

        lost = self.find_lost(message, f"messages[{at}]")
        self.changes += [(at, each) for each in lost or ()]
        return lost is not None

    def _rows_of(self, at: int) -> list[tuple[int, Message]]:
        """
        What is sent of the message at position *at*, each with its position: the
        message, and the results of its calls.
        """
        message = self.messages[at]
        if isinstance(message, ToolMessage):
            # All others are sent behind their calls.
            return [(at, message)] if at in self.orphans else []

        if at in self.calls:
            return [(at, self._with_valid_calls(at)), *self._results_of(at)]

        return [(at, self._with_valid_name(at, message))]

    def _with_valid_calls(self, at: int) -> Message:
        message = self._with_valid_name(at, self.messages[at])
        calls = [
            self._with_valid_call(each, f".tool_calls[{each.place}]")
            for each in self.calls[at]
        ]
        same = len(calls) == len(message.tool_calls)
        same = same and all(map(is_, calls, message.tool_calls))
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

        if not has_valid_arguments(call, self.rules):
            why = "are no JSON object, which some servers refuse; are sent within one"
            self.change(each.at, "arguments", why, inside=inside)
            within = {INVALID_JSON: call.arguments}
            changes["arguments"] = json.dumps(within, ensure_ascii=False)

        return attrs.evolve(call, **changes) if changes else call

    def _choose_name(self, name: str) -> str:
        rule = self.rules.call_names
        # What servers of gpt-oss leave behind a name is no part of it.
        return name if rule.is_valid(name) else rule.fix(name.partition("<|")[0])

    def _fix_name(self, at: int, what: str, name: str, inside: str = "") -> str:
        fixed = self._choose_name(name)
        if fixed != name:
            why = f"is sent as {fixed}; a tool's name is {self.rules.call_names}"
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
            after = bisect_right(self.others, at)
            if after < len(self.others) and self.others[after] < place:
                why = "results must follow their calls directly; this message was moved"
                self.change(place, "position", why)

            rows.append((place, self._with_valid_result(place, each)))

        if at < self.others[-1] or self.are_stopped:
            for each in calls:
                if each.result_at is None:
                    why = "has no result although the conversation went on; an error "
                    why += "that says so is sent"
                    inside = f".tool_calls[{each.place}]"
                    self.change(at, "result", why, inside=inside)
                    call = attrs.evolve(each.call, id=each.id)
                    name = self._choose_name(call.name) if call.name else ""
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

    def _with_system_placed(
        self, rows: list[tuple[int, Message]]
    ) -> list[tuple[int, Message]]:
        """
        *rows* with system messages where they may stand: behind the next message of a
        user if the rules take that, else behind those in front of all others.
        """
        late = _LATE[self.rules.late_system]
        placed: list[tuple[int, Message]] = []
        held: list[tuple[int, Message]] = []
        lead = 0  # how many system messages are in front
        before: type[Message] | None = None
        for at, message in rows:
            if not isinstance(message, SystemMessage):
                before = message.__class__
                if isinstance(message, AssistantMessage):
                    placed[lead:lead] = held
                    lead += len(held)
                    held = []

                placed.append((at, message))
                if isinstance(message, UserMessage) and UserMessage not in late:
                    placed += held
                    held = []
            elif before is None:
                placed.append((at, message))
                lead += 1
            elif before not in late or came_as_is(
                self.rules, message.metadata, "position"
            ):
                placed.append((at, message))
            else:
                why = "a system message may not stand here; this one was moved"
                self.change(at, "position", why)
                held.append((at, message))

        placed[lead:lead] = held
        return placed

    def _with_neighbours_parted(
        self, rows: list[tuple[int, Message]], parted: frozenset[tuple[Any, Any]]
    ) -> Iterator[tuple[int, Message]]:
        """*rows* with a made message between neighbours of kinds that are *parted*."""
        before: Any = None
        for at, message in rows:
            kind = message.__class__
            if (before, kind) in parted:
                if kind is UserMessage:
                    what = "results" if before is ToolMessage else "a user's message"
                    why = (
                        f"an answer must follow {what}; a made-up one goes before this"
                    )
                    self.change(at, "assistant", why)
                    yield at, AssistantMessage(MADE_ANSWER, metadata=_MADE)
                else:
                    why = "a user must speak between two answers; a made-up message "
                    self.change(at, "user", f"{why}goes before this one")
                    yield at, make_prompt()

            yield at, message
            before = before if is_silent(message, self.rules) else kind

    def _is_piece(self) -> bool:
        """Answers alone are a piece of a conversation, and no request."""
        return not any(isinstance(message, _ASKS) for message in self.messages)

    def _with_last_prompt(
        self, rows: list[tuple[int, Message]]
    ) -> list[tuple[int, Message]]:
        """*rows* with a made message of a user where one has to speak at the end."""
        if self._is_piece():
            return rows

        spoken = self._find_spoken(rows)
        if not spoken:
            at = len(self.messages) - 1
            why = "no message is left but the system's; a made-up one is sent"
            self.change(at, "user", why)
            return [*rows, (at, make_prompt())]

        at, last = rows[spoken[-1]]
        asked = next(
            message
            for message in reversed(self.messages)
            if not is_silent(message, self.rules)
        )
        is_answer = isinstance(last, AssistantMessage) and not last.tool_calls
        if is_answer and (
            (self.rules.ends_with_user and not _is_continued(last))
            or isinstance(asked, _ASKS)
            or _ends_with_system(self.messages, self.rules)
        ):
            why = "the request would end with this answer; a made-up message follows"
            self.change(at, "user", why)
            # Behind what thinking may have led to.
            place = spoken[-1] + 1
            while place < len(rows) and isinstance(rows[place][1], UnknownMessage):
                place += 1

            rows.insert(place, (rows[place - 1][0], make_prompt()))

        return rows

    def _with_first_prompt(
        self, rows: list[tuple[int, Message]]
    ) -> list[tuple[int, Message]]:
        """*rows* with a made message of a user where one has to speak first."""
        spoken = self._find_spoken(rows)
        if self._is_piece() or not spoken:
            return rows

        at, first = rows[spoken[0]]
        if (
            self.rules.starts_with_user
            and isinstance(first, AssistantMessage)
            and not came_as_is(self.rules, first.metadata, "first")
        ):
            why = "a user must speak first; a made-up message goes before this one"
            self.change(at, "user", why)
            rows.insert(spoken[0], (at, make_prompt()))

        return rows

    def _find_spoken(self, rows: list[tuple[int, Message]]) -> list[int]:
        """The places of the *rows* that are turns."""
        return [
            place
            for place, (_, message) in enumerate(rows)
            if not is_silent(message, self.rules)
        ]


_ASKS = (UserMessage, ToolMessage)


def _is_continued(answer: Message) -> bool:
    """
    Whether a provider continues *answer* where others refuse one at the end: Claude
    after a pause of its own tools, Mistral and DeepSeek a ``prefix``.
    """
    response = getattr(answer, "response", None)
    if response is not None and response.finish_reason == "pause_turn":
        return True

    kept: Any = answer.metadata.get(MARK)
    notes = kept.get("openai_chat") if isinstance(kept, Mapping) else None
    keys = notes.get("keys") if isinstance(notes, Mapping) else None
    return isinstance(keys, Mapping) and keys.get("prefix") is True


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
    """*metadata* in which notes that the id *old* was made up name the *new* one."""
    kept = metadata.get(MARK)
    if not isinstance(kept, Mapping):
        return metadata

    renamed = {
        name: {**notes, "made_id": new}
        for name, notes in kept.items()
        if isinstance(notes, Mapping) and notes.get("made_id") == old
    }
    return {**metadata, MARK: {**kept, **renamed}} if renamed else metadata
