"""How a state grows: messages at its end, and usage in its ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import index
from typing import TYPE_CHECKING, Self

from conversation_state._identity import new_entry_id
from conversation_state._persistent import check_iterable, check_text, check_time
from conversation_state._wording import shorten_repr
from conversation_state.aggregator._entries import (
    Entry,
    LedgerEntry,
    current_time,
    find_in_index,
)
from conversation_state.aggregator._value import StateValue
from conversation_state.errors import InvalidMessageError, InvalidUsageError
from conversation_state.messages import (
    Answer,
    AssistantMessage,
    Message,
    ToolMessage,
    UserMessage,
    group_answers,
    read_response,
)
from conversation_state.parts import Part, TextPart
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

if TYPE_CHECKING:
    from datetime import datetime


_make = tuple.__new__
_new = object.__new__


class GrowingState(StateValue):
    """A state that messages and usages can be added to; each gives the next state."""

    __slots__ = ()

    def add(self, message: Message) -> Self:
        """
        This state with *message* at its end.

        Raises:
            InvalidMessageError:
                If *message* is not a `Message`.
        """
        if not isinstance(message, Message):
            raise _mismatch_error("add", "a Message", message)

        # This is `_with_contents` and `Entry(…)` inlined, which saves a fifth of the
        # time of each message.
        state = _new(self.__class__)
        state._origin = self._origin
        state._ledger = self._ledger
        state._log = self._log.append(_make(Entry, (new_entry_id(), message)))
        return state

    def add_user_prompt(
        self, prompt: str | Part | Iterable[str | Part] | UserMessage
    ) -> Self:
        """
        This state with a user's *prompt* at its end.

        Args:
            prompt: A text, a part, several of both, or a `UserMessage`.

        Raises:
            InvalidMessageError:
                If *prompt* is something else, or has a part that a user's message
                can't contain.

        >>> from conversation_state import Aggregator
        >>> from conversation_state.parts import ImagePart
        >>> image = ImagePart(url="https://example.com/map.png")
        >>> state = Aggregator.new().add_user_prompt(["Where is this?", image])
        >>> [part.kind for part in state[-1].parts]
        ['text', 'image']
        """
        if not isinstance(prompt, UserMessage):
            expected = "a str or a UserMessage"
            prompt = UserMessage(_make_content("add_user_prompt", expected, prompt))

        return self.add(prompt)

    def add_assistant_message(
        self, message: str | Part | Iterable[str | Part] | AssistantMessage
    ) -> Self:
        """
        This state with an assistant's *message* at its end.

        Args:
            message: A text, a part, several of both, or an `AssistantMessage`.

        Raises:
            InvalidMessageError:
                If *message* is something else, or has a part that an assistant's
                message can't contain.
        """
        if not isinstance(message, AssistantMessage):
            expected = "a str or an AssistantMessage"
            content = _make_content("add_assistant_message", expected, message)
            message = AssistantMessage(content)

        return self.add(message)

    def add_tool_call(
        self, *calls: ToolCall | Iterable[ToolCall] | AssistantMessage
    ) -> Self:
        """
        This state with one assistant's message that makes *calls* at its end.

        Args:
            *calls: Calls, or one `AssistantMessage` that has some.

        Raises:
            InvalidMessageError:
                If there is no call, or something else is given.
        """
        message = calls[0] if len(calls) == 1 else None
        if not isinstance(message, AssistantMessage):
            made: list[ToolCall] = []
            for each in calls:
                several = each if isinstance(each, (list, tuple)) else (each,)
                for call in several:
                    if not isinstance(call, ToolCall):
                        expected = "ToolCalls, or one AssistantMessage that has some"
                        raise _mismatch_error("add_tool_call", expected, call)

                    made.append(call)

            message = AssistantMessage(tool_calls=made)

        if not message.tool_calls:
            raise InvalidMessageError(
                "add_tool_call got no calls; use add_assistant_message for a message "
                "without any"
            )

        return self.add(message)

    def add_tool_response(self, message: ToolMessage) -> Self:
        """
        This state with a tool's result at its end.

        Also a result whose call is not in this state, or has one already, as other
        programs keep them: `problems` of a view names them.

        Raises:
            InvalidMessageError:
                If *message* is not a `ToolMessage`.
        """
        if not isinstance(message, ToolMessage):
            raise _mismatch_error("add_tool_response", "a ToolMessage", message)

        return self.add(message)

    def add_response(
        self, *messages: Message | Iterable[Message], key: str | None = None
    ) -> Self:
        """
        This state with a provider's response at its end, and in its ledger.

        Appends *messages*, and records the usage that an `AssistantMessage`
        reports (``message.response.usage``) under the id and the content of its
        response (`response_key`), so that adding one response again bills nothing
        again; see `record_responses`. Without a usage, it is ``extend(messages)``.

        Args:
            *messages: The response, usually one `AssistantMessage`: what an
                adapter's ``load`` returns, with or without the star.

            key: The ledger identity to use instead of the response's own. Only
                this key stands for the usage then: `record_responses` would record
                it again.

        Raises:
            InvalidMessageError:
                If one of them is not a `Message`.

            InvalidUsageError:
                If *key* is in the ledger with another usage or model, *key* is
                given and there are several usages, or the total gets over
                2**63 - 1.

        >>> from conversation_state import Aggregator, ResponseMeta
        >>> meta = ResponseMeta(id="chatcmpl-1", usage=Usage(8, 2), model="gpt-5")
        >>> state = Aggregator.new().add_response(AssistantMessage("Hi", response=meta))
        >>> state.add_response(state[-1]).total_usage.total_tokens
        10
        """
        grown = self.extend(_flatten(messages))
        if key is None:
            # Earlier responses may have been recorded under keys of the caller's own,
            # and would be billed again.
            return grown._record_answers(len(self._log), are_new=True)

        added = grown._log.iterate(len(self._log))
        reported = [
            answer for answer in group_answers(added) if answer.usage is not None
        ]
        if len(reported) > 1:
            raise InvalidUsageError(
                f"key={shorten_repr(key)} can identify one usage, and these messages "
                f"report {len(reported)}; add them one by one"
            )

        for answer in reported:
            at, model = answer.time, answer.model
            grown = grown.add_usage(answer.usage, key=key, model=model, at=at)

        return grown

    def record_responses(self, *, since: int = 0) -> Self:
        """
        This state with the usage of its responses in its ledger, each once.

        A response is recorded under its `response_key`: the id its provider gave it
        and what it says, or the identity of its entry where it has no id. So two
        answers to which a server gave one id are two entries, and one response that
        was added twice, or on two branches, is one. Several messages of one response
        (one id, one number of prompt tokens, nothing but results between) are taken
        together before, with the larger of their counts. Where the ledger has
        another usage under the key, the response is recorded with its usage in its
        key: one id with one content and two usages is two entries.

        What is recorded so already, or with an equal usage under the response's id
        alone, is not recorded again, so this is idempotent; what was recorded under
        another key, or by `add_usage` without one, is not known to be of a response.
        The time of an entry is its message's timestamp, or now.

        O(messages from *since* on).

        Args:
            since: The position of the first message to look at.

        Raises:
            ValueError:
                If *since* is negative.

            InvalidUsageError:
                If the total gets over 2**63 - 1.
        """
        since = index(since)
        if since < 0:
            raise ValueError(
                f"since is {shorten_repr(since)}; expected the position of a message, "
                "from 0 on"
            )

        return self._record_answers(since, are_new=False)

    def _record_answers(self, since: int, *, are_new: bool) -> Self:
        # *are_new*: the messages came just now, and none is an edited copy of one that
        # was recorded before.
        recorded = self._ledger.by_id()
        new: dict[str, LedgerEntry] = {}
        for answer in group_answers(self._log.iterate(since)):
            usage = answer.usage
            if usage is None:
                continue

            # The model is not compared: what `add_usage` recorded under the response's
            # id is this response, whatever model the caller named.
            key = answer.key
            known = {
                each: found.usage
                for each in (key, *answer.other_keys())
                if (found := new.get(each) or find_in_index(recorded, each)) is not None
            }
            if known:
                if answer.is_recorded_by(known.values()):
                    continue

                # Another response of the same id says the same, for other tokens.
                key = answer.second_key if key in known else key
                if key in new or find_in_index(recorded, key) is not None:
                    continue

            if not are_new and self._is_edited(answer):
                continue

            at = answer.time or current_time()
            new[key] = LedgerEntry(key, usage, answer.model, at)

        if not new:
            return self

        ledger = self._ledger.with_entries(tuple(new.values()))
        return self._with_contents(ledger=ledger, log=self._log)

    def _is_edited(self, answer: Answer) -> bool:
        """
        Whether the ledger has the usage of *answer* under the id of its response, and
        for something that no message says any more: its text was edited since.
        """
        same = [
            entry.id
            for entry in self._ledger.of_response(answer.response_id)
            if entry.usage == answer.usage
        ]
        if not same:
            return False

        others = group_answers(
            entry
            for entry in self._log
            if (meta := read_response(entry.message)) is None
            or meta.id == answer.response_id
        )
        standing = {key for other in others for key in (other.key, *other.other_keys())}
        return any(key not in standing for key in same)

    def extend(self, messages: Iterable[Message]) -> Self:
        """
        This state with *messages* at its end; itself if *messages* is empty.
        O(k).

        Raises:
            InvalidMessageError:
                If one of them is not a `Message`; none is added then.
        """
        return self._extend(messages, "extend")

    def _extend(self, messages: Iterable[Message], verb: str) -> Self:
        if isinstance(messages, (str, Mapping)):
            raise _mismatch_error(verb, "a list of Messages", messages)

        check_iterable(messages, "messages", "a list of Messages")
        entries = []
        for message in messages:
            if not isinstance(message, Message):
                raise _mismatch_error(verb, "Messages", message)

            entries.append(_make(Entry, (new_entry_id(), message)))

        if not entries:
            return self

        return self._with_contents(log=self._log.extend(entries))

    def add_usage(
        self,
        usage: Usage | None,
        *,
        key: str | None = None,
        model: str = "",
        at: datetime | None = None,
    ) -> Self:
        """
        This state with *usage* in its ledger.

        Args:
            usage: The usage to record; None, which providers send too, adds nothing.

            key: An identity of your own, a request's id say. The same key is
                recorded once, however often it is added, here and after any join.

            model: The model that was used.

            at: When it was used, as an aware `datetime`; now if it is None. The
                same key at another time is the same usage: the time that is in
                the ledger stays.

        Raises:
            InvalidUsageError:
                If *usage* is something else, the ledger has *key* with another
                usage or model, *at* has no time zone, or the total gets over
                2**63 - 1.
        """
        if usage is None:
            return self

        if not isinstance(usage, Usage):
            raise InvalidUsageError(
                f"add_usage takes a Usage or None, got {shorten_repr(usage)}; "
                "state.add_response(openai_chat.load(response)) records what a "
                "response reports"
            )

        model = check_text(model, "model", InvalidUsageError)
        time = check_time(at, _refuse_time) if at is not None else current_time()
        if key is None:
            key = new_entry_id()
        elif not (key := check_text(key, "key", InvalidUsageError)):
            # "" is the id of all responses whose provider gave them none: as a key, it
            # would make one usage of them.
            raise InvalidUsageError(
                "key is empty; leave it out if this usage has no identity"
            )
        elif (recorded := self._ledger.find(key)) is not None:
            if recorded.usage == usage and recorded.model == model:
                return self

            raise InvalidUsageError(
                f"conflicting usage for key {shorten_repr(key)}: the ledger has "
                f"{recorded.usage} for model {shorten_repr(recorded.model)}, got "
                f"{usage} for model {shorten_repr(model)}; use another key"
            )

        entry = LedgerEntry(key, usage, model, time)
        ledger = self._ledger.with_entries((entry,))
        return self._with_contents(ledger=ledger, log=self._log)


def _make_content(verb: str, expected: str, given: object) -> str | tuple[Part, ...]:
    if isinstance(given, str):
        return given

    if isinstance(given, Part):
        return (given,)

    if not isinstance(given, Iterable) or isinstance(given, (bytes, Mapping)):
        raise _mismatch_error(verb, expected, given)

    parts = []
    for each in given:
        part = TextPart(each) if isinstance(each, str) else each
        if not isinstance(part, Part):
            # An object of an SDK is iterable, too, and what it holds says less.
            is_list = isinstance(given, (list, tuple))
            raise _mismatch_error(verb, expected, each if is_list else given)

        parts.append(part)

    return tuple(parts)


def _flatten(given: Iterable[object]) -> Iterator[Message]:
    # The messages among arguments that are each a message or several.
    for each in given:
        if isinstance(each, Message):
            yield each
            continue

        if isinstance(each, (str, bytes, Mapping)) or not isinstance(each, Iterable):
            raise _mismatch_error("add_response", _LOADED, each)

        for message in each:
            if not isinstance(message, Message):
                raise _mismatch_error("add_response", _LOADED, each)

            yield message


_LOADED = "what an adapter's load returns"
# The call to write, with the messages as {}.
_LINES = {
    "Aggregator.new": "Aggregator.new({})",
    "add": "state.extend({})",
    "add_user_prompt": "state.extend({})",
    "add_assistant_message": "state.add_response({})",
    "add_tool_response": "state.extend({})",
    "add_tool_call": "state.add_response({})",
}


def _mismatch_error(verb: str, expected: str, given: object) -> InvalidMessageError:
    from conversation_state.aggregator._advice import (  # noqa: PLC0415 - for errors only
        describe_wrong,
    )

    line = _LINES.get(verb, f"state.{verb}({{}})")
    return InvalidMessageError(describe_wrong(verb, expected, given, line))


def _refuse_time(problem: str) -> InvalidUsageError:
    return InvalidUsageError(f"at {problem}")
