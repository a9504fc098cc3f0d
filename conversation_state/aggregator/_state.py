"""The state, what it added since its fork, and what can be kept of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, Never, SupportsIndex, overload

import attrs

from conversation_state._drawing import draw_fragment
from conversation_state._identity import (
    make_uuid,
    new_entry_id,
    new_uuid_number,
    number_of_uuid,
)
from conversation_state._persistent import (
    Log,
    check_iterable,
    check_text,
    check_time,
    final,
)
from conversation_state._wording import (
    add_missing_names,
    describe_value,
    escape_line,
    format_count,
    refuse_assignments,
    refuse_operators,
    shorten_repr,
    shorten_text,
)
from conversation_state.aggregator._entries import (
    EMPTY_LEDGER,
    EMPTY_LOG,
    NOTHING,
    Entry,
    Ledger,
    LedgerEntry,
    Messages,
    Union,
    current_time,
    describe_mismatch,
    find_in_index,
    id_of,
    message_of,
)
from conversation_state.aggregator._names import NAMES, OPERATORS
from conversation_state.errors import InvalidMessageError, InvalidUsageError
from conversation_state.messages import (
    Answer,
    AssistantMessage,
    Message,
    ToolMessage,
    UserMessage,
    find_pending_calls,
    group_answers,
    read_response,
)
from conversation_state.parts import Part, TextPart
from conversation_state.pickling import Maker
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID


_make = tuple.__new__
_new = object.__new__

# `str` and `repr` of a long conversation show so many messages at each end, and so many
# characters of a long message.
_FIRST, _LAST = 3, 5
_MAX_LINE, _MAX_REPR = 79, 500


@final
class StateOrigin(NamedTuple):
    """
    The identity of a state, and where it was forked; it stays when the state grows.

    Numbers are those of UUIDs, which are made when they are asked for, because a
    UUID object takes a microsecond (`conversation_state._identity`).
    """

    number: int
    parent: int | None
    root: int
    init_len: int
    init_ledger_len: int
    inherited: Usage


@final
@attrs.frozen(repr=False)
class Turn:
    """
    What was added to a state since it was forked, without its past.

    Small enough to ship: pickled or encoded, it holds no more than what was
    added. ``state.join(turn)`` adds just that, and once.

    Attributes:
        entries: The entries, in order.
        ledger: The ledger entries, in order.
    """

    _number: int
    _parent: int | None
    entries: Log[Entry]
    ledger: Log[LedgerEntry]
    # The state of this turn, which shows the entries that can't be in the turn; it is
    # not pickled.
    _state: Any = attrs.field(default=None, eq=False)

    @classmethod
    def rebuild(
        cls,
        *,
        id: UUID,
        parent_id: UUID | None,
        entries: Sequence[Entry],
        ledger: Sequence[LedgerEntry],
    ) -> Turn:
        """
        A turn made of all its fields, for decoders. O(n). Checks neither that *entries*
        and *ledger* hold entries, nor that each identity is there once.

        Raises:
            InvalidUsageError: If the ledger adds up to more than 2**63 - 1 tokens.
        """
        parent = None if parent_id is None else parent_id.int
        turn = cls(id.int, parent, Log(entries), Log(ledger))
        # Computed to raise here, because a total that is too large would otherwise be
        # found only when the turn is joined.
        _ = turn.usage
        return turn

    @property
    def id(self) -> UUID:
        """The id of the state it was added to."""
        return make_uuid(self._number)

    @property
    def parent_id(self) -> UUID | None:
        """The id of the state that this state was forked from; None for a root."""
        return None if self._parent is None else make_uuid(self._parent)

    @property
    def messages(self) -> Messages:
        """The messages added since the fork, in order."""
        return Messages(self.entries)

    @property
    def usage(self) -> Usage:
        """The usage recorded since the fork. O(ledger entries)."""
        return sum([entry.usage for entry in self.ledger], NOTHING)

    def base_log(self) -> Log[Entry] | None:
        """
        The entries that the turn was added to; none of its own is among them. None
        if they are unknown, as in a decoded turn.
        """
        state = self._state
        return None if state is None else state.entries.take(state.init_len)

    def base_ledger(self) -> Log[LedgerEntry] | None:
        """The ledger entries that the turn was added to, likewise."""
        state = self._state
        return None if state is None else state.ledger.take(state.init_ledger_len)

    def __len__(self) -> int:
        return len(self.entries)

    def __bool__(self) -> bool:
        # A turn may have recorded usage and appended nothing.
        return True

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __repr__(self) -> str:
        return (
            f"<Turn of {self.id}: {format_count(len(self), 'message')}, "
            f"{format_count(self.usage.total_tokens, 'token')}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _TURN, (self._number, self._parent, self.entries, self.ledger)


_TURN = Maker("aggregator.Turn", Turn)


@final
class Aggregator:
    """
    The state of a conversation: its entries and the ledger of what they cost.

    A value: every verb gives a new state and leaves this one as it was. Equal
    by id, fork point, ledger, and content *and* identity of entries; hashable;
    picklable.

    Costs, up to a million messages: `add` one to three microseconds and 300
    bytes for each state that is kept, `fork` and `checkpoint` less; `join`
    grows with what both sides added since they diverged.

    Made by `Aggregator.new`.

    >>> chat = Aggregator.new().add_user_prompt("Hi!")
    >>> one = chat.fork().add_assistant_message("Hello.")
    >>> two = chat.fork().add_assistant_message("Good day.")
    >>> both = chat.join(one, two)
    >>> [message.text for message in both]
    ['Hi!', 'Hello.', 'Good day.']
    >>> both.join(one) is both
    True
    >>> len(chat)
    1
    """

    __slots__ = ("__weakref__", "_ledger", "_log", "_origin")

    _origin: StateOrigin
    _ledger: Ledger
    _log: Log[Entry]

    def __init__(self, *_: Never, **__: Never) -> None:
        raise TypeError("make states with Aggregator.new(), state.fork() or decode")

    @classmethod
    def new(
        cls, messages: Iterable[Message] = (), *, id: UUID | None = None
    ) -> Aggregator:
        """
        A state without a past.

        Args:
            messages: The messages it starts with.
            id: The state's id; a new UUID of version 7 if it is None.

        Raises:
            InvalidMessageError: If *messages* holds something else.
            TypeError: If *id* is not a UUID.
        """
        number = new_uuid_number() if id is None else number_of_uuid(id)
        origin = StateOrigin(number, None, number, 0, 0, NOTHING)
        empty = _make_state(origin, EMPTY_LEDGER, EMPTY_LOG)
        return empty._append_messages(messages, "Aggregator.new")

    @classmethod
    def rebuild(
        cls,
        *,
        id: UUID,
        parent_id: UUID | None,
        root_id: UUID | None,
        init_len: int,
        init_ledger_len: int,
        entries: Sequence[Entry],
        ledger: Sequence[LedgerEntry],
    ) -> Aggregator:
        """
        A state made of all its fields, for decoders and loaders.

        O(log n) if *entries* and *ledger* are logs, which other states may share, and
        O(the ledger entries since a state of that ledger was made here before). Checks
        neither that they hold entries, nor that each identity is there once.

        Raises:
            ValueError: If a fork point lies outside of what there is.
            InvalidUsageError: If the ledger adds up to more than 2**63 - 1 tokens.
        """
        log, ledger_log = EMPTY_LOG.extend(entries), EMPTY_LEDGER.entries.extend(ledger)
        for name, at, most in (
            ("init_len", init_len, len(log)),
            ("init_ledger_len", init_ledger_len, len(ledger_log)),
        ):
            if not 0 <= at <= most:
                shown = shorten_repr(at)
                raise ValueError(
                    f"{name} is {shown}; expected 0 to {most}, the entries there are"
                )

        inherited = NOTHING
        if init_ledger_len:
            inherited = Ledger.of(ledger_log.take(init_ledger_len)).total

        parent = None if parent_id is None else parent_id.int
        # Some formats, such as Bubo's, name a parent but no root.
        first = id.int if parent is None else parent
        root = first if root_id is None else root_id.int
        origin = StateOrigin(id.int, parent, root, init_len, init_ledger_len, inherited)
        return _make_state(origin, Ledger.of(ledger_log), log)

    @property
    def id(self) -> UUID:
        """
        The identity of this state; it stays when the state grows, and a fork has a
        new one.
        """
        return make_uuid(self._origin.number)

    @property
    def parent_id(self) -> UUID | None:
        """The id of the state this was forked from; None for a root."""
        parent = self._origin.parent
        return None if parent is None else make_uuid(parent)

    @property
    def root_id(self) -> UUID:
        """The id of the state that the first of its forks was taken from."""
        return make_uuid(self._origin.root)

    @property
    def init_len(self) -> int:
        """How many messages were inherited at the fork; 0 for a root."""
        return self._origin.init_len

    @property
    def init_ledger_len(self) -> int:
        """How many ledger entries were inherited at the fork; 0 for a root."""
        return self._origin.init_ledger_len

    @property
    def turn_len(self) -> int:
        """The number of messages added since the fork; all of them, for a root."""
        return len(self._log) - self._origin.init_len

    @property
    def messages(self) -> Messages:
        """The messages in order. O(1)."""
        return Messages(self._log)

    @property
    def entries(self) -> Log[Entry]:
        """The messages in order, with the identity of each append. O(1)."""
        return self._log

    @property
    def pending_calls(self) -> tuple[ToolCall, ...]:
        """
        The calls that wait to be run, in order: those of the newest answer that have
        no result yet.

        None if a user's message came after the answer, or if it was interrupted
        (`ResponseMeta.finish_reason`): a call that the user stopped is not run. A
        view answers it with an error. Looks at the messages from the end back to that
        answer.

        >>> from conversation_state import Aggregator, ToolCall
        >>> state = Aggregator.new().add_user_prompt("Book it.")
        >>> asked = state.add_tool_call(ToolCall("c1", "book", "{}"))
        >>> [call.id for call in asked.pending_calls]
        ['c1']
        >>> asked.add_user_prompt("Stop!").pending_calls
        ()
        """
        return find_pending_calls(reversed(self.messages))

    @property
    def ledger(self) -> Log[LedgerEntry]:
        """The recorded usages in order, those inherited at the fork included. O(1)."""
        return self._ledger.entries

    @property
    def usage(self) -> Usage:
        """The usage recorded since the fork; all of it, for a root. O(1)."""
        inherited = self._origin.inherited
        return self._ledger.total.minus(inherited)

    @property
    def total_usage(self) -> Usage:
        """The usage recorded, what was inherited at the fork included. O(1)."""
        return self._ledger.total

    @property
    def turn(self) -> Turn:
        """What was added since the fork. O(that)."""
        origin = self._origin
        return Turn(
            origin.number,
            origin.parent,
            self._log[origin.init_len :],
            self._ledger.entries[origin.init_ledger_len :],
            self,
        )

    def is_related_to(self, other: Aggregator) -> bool:
        """
        Whether the two have any past in common.

        True if both were forked, over any number of generations, from one
        root, or hold a common entry. O(1) in the first case, else O(n).
        """
        if not isinstance(other, Aggregator):
            raise TypeError(describe_mismatch("is_related_to", "an Aggregator", other))

        # A common root is enough without a common entry: both may be empty forks.
        if self._origin.root == other._origin.root:
            return True

        ours = set(map(id_of, self._log))
        return not ours.isdisjoint(map(id_of, other._log))

    # How a state grows

    def add(self, message: Message) -> Aggregator:
        """
        This state with *message* at its end.

        Raises:
            InvalidMessageError: If *message* is not a `Message`.
        """
        if not isinstance(message, Message):
            raise _mismatch_error("add", "a Message", message)

        # This is `_make_state` and `Entry(…)` inlined, which saves a fifth of the time
        # of each message.
        state = _new(Aggregator)
        state._origin = self._origin
        state._ledger = self._ledger
        state._log = self._log.append(_make(Entry, (new_entry_id(), message)))
        return state

    def add_user_prompt(
        self, prompt: str | Part | Iterable[str | Part] | UserMessage
    ) -> Aggregator:
        """
        This state with a user's *prompt* at its end.

        Args:
            prompt: A text, a part, several of both, or a `UserMessage`.

        Raises:
            InvalidMessageError: If *prompt* is something else, or has a part that a
                user's message can't contain.

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
    ) -> Aggregator:
        """
        This state with an assistant's *message* at its end.

        Args:
            message: A text, a part, several of both, or an `AssistantMessage`.

        Raises:
            InvalidMessageError: If *message* is something else, or has a part that an
                assistant's message can't contain.
        """
        if not isinstance(message, AssistantMessage):
            expected = "a str or an AssistantMessage"
            content = _make_content("add_assistant_message", expected, message)
            message = AssistantMessage(content)

        return self.add(message)

    def add_tool_call(
        self, *calls: ToolCall | Iterable[ToolCall] | AssistantMessage
    ) -> Aggregator:
        """
        This state with one assistant's message that makes *calls* at its end.

        Args:
            *calls: Calls, or one `AssistantMessage` that has some.

        Raises:
            InvalidMessageError: If there is no call, or something else is given.
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

    def add_tool_response(self, message: ToolMessage) -> Aggregator:
        """
        This state with a tool's result at its end.

        Also a result whose call is not in this state, or has one already, as other
        programs keep them: `problems` of a view names them.

        Raises:
            InvalidMessageError: If *message* is not a `ToolMessage`.
        """
        if not isinstance(message, ToolMessage):
            raise _mismatch_error("add_tool_response", "a ToolMessage", message)

        return self.add(message)

    def add_response(
        self, *messages: Message | Iterable[Message], key: str | None = None
    ) -> Aggregator:
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
            InvalidMessageError: If one of them is not a `Message`.
            InvalidUsageError: If *key* is in the ledger with another usage or model,
                *key* is given and there are several usages, or the total gets over
                2**63 - 1.

        >>> from conversation_state import Aggregator, ResponseMeta
        >>> meta = ResponseMeta(id="chatcmpl-1", usage=Usage(8, 2), model="gpt-5")
        >>> state = Aggregator.new().add_response(AssistantMessage("Hi", response=meta))
        >>> state.add_response(state[-1]).total_usage.total_tokens
        10
        """
        grown = self.extend(_list_messages(messages))
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
            grown = grown.add_usage(
                answer.usage,
                key=key,
                model=answer.model,
                at=answer.time,
                caveat=answer.caveat,
            )

        return grown

    def record_responses(self, *, since: int = 0) -> Aggregator:
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
            ValueError: If *since* is negative.
            InvalidUsageError: If the total gets over 2**63 - 1.
        """
        since = index(since)
        if since < 0:
            raise ValueError(
                f"since is {shorten_repr(since)}; expected the position of a message, "
                "from 0 on"
            )

        return self._record_answers(since, are_new=False)

    def _record_answers(self, since: int, *, are_new: bool) -> Aggregator:
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
            new[key] = LedgerEntry(key, usage, answer.model, at, answer.caveat)

        if not new:
            return self

        ledger = self._ledger.with_entries(tuple(new.values()))
        return _make_state(self._origin, ledger, self._log)

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

    def extend(self, messages: Iterable[Message]) -> Aggregator:
        """
        This state with *messages* at its end; itself if *messages* is empty.
        O(k).

        Raises:
            InvalidMessageError: If one of them is not a `Message`; none is added then.
        """
        return self._append_messages(messages, "extend")

    def _append_messages(self, messages: Iterable[Message], verb: str) -> Aggregator:
        if isinstance(messages, (str, Mapping, Message)):
            raise _mismatch_error(verb, "a list of Messages", messages)

        check_iterable(messages, "messages", "a list of Messages")
        entries = []
        for message in messages:
            if not isinstance(message, Message):
                raise _mismatch_error(verb, "Messages", message)

            entries.append(_make(Entry, (new_entry_id(), message)))

        if not entries:
            return self

        return _make_state(self._origin, self._ledger, self._log.extend(entries))

    def add_usage(
        self,
        usage: Usage | None,
        *,
        key: str | None = None,
        model: str = "",
        at: datetime | None = None,
        caveat: str = "",
    ) -> Aggregator:
        """
        This state with *usage* in its ledger.

        Args:
            usage: The usage to record; None, which providers send too, adds nothing.
            key: An identity of your own, a request's id say. The same key is
                recorded once, however often it is added, here and after any join.
            model: The model that was used.
            at: When it was used, as an aware `datetime`; now if it is None.
            caveat: Why *usage* does not say what it cost: see `LedgerEntry`. The
                same key with another time or caveat is the same usage: what is in
                the ledger stays.

        Raises:
            InvalidUsageError: If *usage* is something else, the ledger has *key* with
                another usage or model, *at* has no time zone, or the total gets over
                2**63 - 1.
        """
        if usage is None:
            return self

        if not isinstance(usage, Usage):
            raise InvalidUsageError(
                f"add_usage takes a Usage or None, got {shorten_repr(usage)}; "
                "Usage(prompt_tokens, completion_tokens) makes one, and "
                "state.add_response(openai_chat.load(response)) records what a "
                "response reports"
            )

        model = check_text(model, "model", InvalidUsageError)
        caveat = check_text(caveat, "caveat", InvalidUsageError)
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

        entry = LedgerEntry(key, usage, model, time, caveat)
        ledger = self._ledger.with_entries((entry,))
        return _make_state(self._origin, ledger, self._log)

    # A state and its past

    def fork(self, *, at: int | None = None) -> Aggregator:
        """
        A new state with the same past, which it inherits.

        Args:
            at: Fork from the first *at* messages instead of all of them. The
                whole ledger is inherited all the same.

        Raises:
            IndexError: If *at* is outside 0 to ``len(self)``.
        """
        log = self._log
        if at is not None:
            if isinstance(at, str | bool):
                raise TypeError(
                    f"at: expected a number of messages, got {shorten_repr(at)}; "
                    "state.before(entry_id).fork() begins before an entry"
                )

            self._check_position("fork at", index(at))
            log = log.take(index(at))

        ledger, origin = self._ledger, self._origin
        # The total is kept, because an earlier ledger can be looked up in the log, but
        # its total could only be added up again.
        inherited = len(log), len(ledger.entries), ledger.total
        fork = _make(
            StateOrigin, (new_uuid_number(), origin.number, origin.root, *inherited)
        )
        return _make_state(fork, ledger, log)

    def rollback(self, to: Aggregator | Checkpoint | str | int) -> Aggregator:
        """
        An earlier state, with everything that was recorded in the ledger since.

        Going back does not bring the money back: the result has the messages
        of *to*, and the ledger entries of both. This state stays as it was, so
        what is left behind can still be reached from it.

        Args:
            to: A state or a checkpoint, whose id and fork point the result
                has; or a place in this state, whose id and fork point stay:
                the identity of the last entry to keep, or the number of
                messages to keep.

        Returns:
            *to* itself if it has the whole ledger already.

        Cost: O(log n) and what both recorded since they parted; O(n) for the
        identity of an entry.

        Raises:
            IndexError: If *to* is a number outside 0 to ``len(self)``.
            LookupError: If no entry of this state has the identity *to*, as for a
                label: keep the checkpoint, or ask the store.
            ValueError: If *to* is a state that has nothing in common with this one.
            TypeError: If *to* is something else.

        >>> start = Aggregator.new().add_user_prompt("Book it.")
        >>> wrong = start.add_assistant_message("Booked twice.").add_usage(Usage(1500))
        >>> again = wrong.rollback(start)
        >>> len(again), again.total_usage.total_tokens
        (1, 1500)
        """
        if isinstance(to, Checkpoint):
            to = to.state

        if isinstance(to, Aggregator):
            if not self.is_related_to(to):
                raise ValueError(
                    f"can't roll back from {self!r} to {to!r}: they have no entry in "
                    "common; a state can go back to one that it grew from, or that "
                    "grew from the same state"
                )

            # The joined state has no messages, because the rollback discards those
            # after *to*.
            return to.join(_make_state(self._origin, self._ledger, EMPTY_LOG))

        if isinstance(to, str):
            shown = shorten_repr(to)
            advice = (
                ". If it is a label: a state does not know its checkpoints; keep one, "
                f"kept = state.checkpoint({shown}), for state.rollback(kept), or ask "
                f"the store that saved it, state.rollback(store.load(name, at={shown}))"
            )
            return self._with_first(self._position_after(to, advice))

        if isinstance(to, bool) or not isinstance(to, SupportsIndex):
            expected = "a state, a Checkpoint, an entry's id or a number of messages"
            raise TypeError(describe_mismatch("rollback", expected, to))

        self._check_position("roll back to", index(to))
        return self._with_first(index(to))

    def before(self, entry_id: str) -> Aggregator:
        """
        This state without the entry *entry_id* and all after it.

        The whole ledger stays, as in `rollback`. Regenerating an answer,
        editing a prompt and trying again start here. O(n) to find the entry.

        Raises:
            LookupError: If no entry of this state has that identity.
        """
        return self._with_first(self._position_after(entry_id) - 1)

    def replace_message(self, entry_id: str, message: Message) -> Aggregator:
        """
        This state with *message* in the place of the one of an entry: another branch,
        in which all that follows keeps its identity.

        The new message has an identity of its own. Calls stay with their results:
        results of calls that *message* no longer has go, and a result can be replaced
        by a result of the same call only. The whole ledger stays. Itself if *message*
        is what the entry has. O(n).

        A join with a state that has the old message brings that back, behind this
        one's messages.

        Raises:
            LookupError: If no entry of this state has that identity.
            InvalidMessageError: If *message* is not a `Message`, or would leave a call
                without its result.

        >>> state = Aggregator.new().add_user_prompt("Bern?")
        >>> answered = state.add_assistant_message("No.")
        >>> corrected = answered.replace_message(
        ...     state.entries[0].id, UserMessage("To Basel?")
        ... )
        >>> corrected.entries[1] is answered.entries[1]
        True
        """
        if not isinstance(message, Message):
            raise _mismatch_error("replace_message", "a Message", message)

        at = self._position_after(entry_id) - 1
        old = self._log[at].message
        if old == message:
            return self

        if isinstance(old, ToolMessage):
            if old.tool_call_id != getattr(message, "tool_call_id", None):
                raise InvalidMessageError(
                    "a result can be replaced by a result of the same call "
                    f"({shorten_repr(old.tool_call_id)}) only; replace the message "
                    "that makes the call, or leave both out: state.without([id])"
                )
        elif isinstance(message, ToolMessage):
            raise InvalidMessageError(
                "a result can't take the place of another message: no call would "
                "stand before it"
            )

        kept = {call.id for call in message.tool_calls}
        gone = self._find_results(at, lambda call_id: call_id not in kept)
        entry = _make(Entry, (new_entry_id(), message))
        after = [
            each
            for number, each in enumerate(self._log.iterate(at + 1), at + 1)
            if number not in gone
        ]
        return self._with_log(at, self._log.take(at).append(entry).extend(after))

    def without(self, entry_ids: Iterable[str]) -> Aggregator:
        """
        This state without some entries: another branch, in which all others keep
        their identity.

        Calls go with their results: where one of them is left out, the message that
        makes the calls and all results of it are. The whole ledger stays. Itself if
        *entry_ids* is empty. O(n).

        A join with a state that has one of these entries brings it back.

        Raises:
            LookupError: If no entry of this state has one of the identities.
            TypeError: If *entry_ids* is a single text.

        >>> state = Aggregator.new().add_user_prompt("Bern?").add_user_prompt("Basel?")
        >>> [message.text for message in state.without([state.entries[0].id])]
        ['Basel?']
        """
        if isinstance(entry_ids, str):
            raise TypeError(
                "without takes a list of identities; for one: state.without([id])"
            )

        check_iterable(entry_ids, "entry_ids", "a list of identities")

        places = {self._position_after(each) - 1 for each in entry_ids}
        if not places:
            return self

        for at in sorted(places):
            if isinstance(self._log[at].message, ToolMessage):
                places.add(self._find_call(at))

        for at in tuple(places):
            places |= self._find_results(at, lambda _: True)

        first = min(places)
        after = [
            each
            for number, each in enumerate(self._log.iterate(first), first)
            if number not in places
        ]
        return self._with_log(first, self._log.take(first).extend(after))

    def _find_call(self, at: int) -> int:
        # The position of the message with the call whose result is at *at*; *at* if
        # there is none.
        call_id = getattr(self._log[at].message, "tool_call_id", None)
        for before in range(at - 1, -1, -1):
            calls = self._log[before].message.tool_calls
            if any(call.id == call_id for call in calls):
                return before

        return at

    def _find_results(self, at: int, matches: Callable[[str], bool]) -> set[int]:
        # The positions of the results of those calls at *at* whose id *matches*, up to
        # where another message makes a call of that id.
        ids = {call.id for call in self._log[at].message.tool_calls}
        ids = {call_id for call_id in ids if matches(call_id)}
        found: set[int] = set()
        if not ids:
            return found

        for number, entry in enumerate(self._log.iterate(at + 1), at + 1):
            message = entry.message
            ids -= {call.id for call in message.tool_calls}
            if isinstance(message, ToolMessage) and message.tool_call_id in ids:
                found.add(number)

        return found

    def _with_log(self, changed: int, log: Log[Entry]) -> Aggregator:
        # *log* differs from position *changed* on: what was inherited ends there.
        origin = self._origin
        if changed < origin.init_len:
            origin = origin._replace(init_len=changed)

        return _make_state(origin, self._ledger, log)

    def _check_position(self, verb: str, position: int) -> None:
        if not 0 <= position <= len(self._log):
            messages = format_count(len(self._log), "message")
            raise IndexError(
                f"can't {verb} {shorten_repr(position)}: this state has {messages}"
            )

    def _position_after(self, entry_id: str, advice: str = "") -> int:
        left = len(self._log)
        for entry in reversed(self._log):
            if entry.id == entry_id:
                return left

            left -= 1

        problem = f"no entry of this state has the identity {shorten_repr(entry_id)}"
        if not isinstance(entry_id, str):
            problem = f"expected an entry's .id, got {describe_value(entry_id)}"

        raise LookupError(f"{problem}; state.entries lists them{advice}")

    def _with_first(self, count: int) -> Aggregator:
        if count == len(self._log):
            return self

        origin = self._origin
        if count < origin.init_len:
            # Back before its fork, it inherits only the entries that are left.
            origin = origin._replace(init_len=count)

        return _make_state(origin, self._ledger, self._log.take(count))

    def join(self, *others: Aggregator | Turn) -> Aggregator:
        """
        The ordered union of this state and *others*, by identity.

        All of this state in its order, then what the next one has and this one
        lacks, in that one's order, and so on; the ledger likewise. Id and fork
        point are this state's. What is already there is not added again, so
        joining one state twice, or over several branches, changes nothing; if
        nothing is new, this state itself is returned. Where two sides hold
        different entries under one identity, that of this state is kept.

        Cost: what both sides added since they diverged; O(n) the first time with a
        state or turn that was decoded or unpickled. Many forks cost what they added,
        joined in one call or one after another.

        Raises:
            TypeError: If something else is given.
            InvalidUsageError: If the total gets over 2**63 - 1.
        """
        log, ledger_log = Union(self._log), Union(self._ledger.entries)
        for other in others:
            if isinstance(other, Aggregator):
                log.add(other._log)
                ledger_log.add(other._ledger.entries)
            elif isinstance(other, Turn):
                log.add_new(other.entries, other.base_log())
                ledger_log.add_new(other.ledger, other.base_ledger())
            else:
                expected = "Aggregators and Turns (a Checkpoint has merge_into)"
                problem = describe_mismatch("join", expected, other)
                if isinstance(other, (list, tuple)):
                    problem += "; each by itself: state.join(*states)"

                raise TypeError(problem)

        entries, ledger_entries = log.finish(), ledger_log.finish()
        ledger = self._ledger
        if ledger_entries is not ledger.entries:
            # A union begins with the log it was made for, so all that is new is behind
            # this state's own entries, whose total is known.
            new = [entry.usage for entry in ledger_entries.iterate(len(ledger.entries))]
            ledger = Ledger(ledger_entries, sum(new, ledger.total))

        if entries is self._log and ledger is self._ledger:
            return self

        return _make_state(self._origin, ledger, entries)

    def checkpoint(self, label: str = "") -> Checkpoint:
        """
        This state, kept under a *label*.

        Raises:
            TypeError: If *label* is not text.
        """
        return Checkpoint(self, label)

    # A state as a value

    def __len__(self) -> int:
        return len(self._log)

    def __bool__(self) -> bool:
        # A state without messages has an id and a ledger: it is never "nothing".
        return True

    @overload
    def __getitem__(self, at: SupportsIndex) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> Messages: ...
    def __getitem__(self, at: Any) -> Message | Messages:
        return self.messages[at]  # type: ignore[no-any-return]  # *at* is either

    def __iter__(self) -> Iterator[Message]:
        return map(message_of, self._log)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True

        if not isinstance(other, type(self)):
            return NotImplemented

        return (
            self._origin == other._origin
            and self._ledger.entries == other._ledger.entries
            and self._log == other._log
        )

    def _equals_beyond(self, other: Aggregator, known: set[tuple[int, int]]) -> bool:
        """
        Whether *other* is equal, for comparing many states of one conversation with
        copies of them; *known* is what `Log.equals` has found so far.
        """
        return self is other or (
            self._origin == other._origin
            and self._ledger.entries.equals(other._ledger.entries, known)
            and self._log.equals(other._log, known)
        )

    def __hash__(self) -> int:
        # Equal states are equal in these; comparing the rest would be O(n).
        log, (entries, total) = self._log, self._ledger
        return hash(
            (
                self._origin.number,
                len(log),
                log[-1].id if log else None,
                len(entries),
                entries[-1].id if entries else None,
                total.total_tokens,
            )
        )

    def _repr_html_(self) -> str:
        return draw_fragment(self)

    def __repr__(self) -> str:
        # The repr shows the facts that a failing test needs, and is bounded, because
        # logs show it, too.
        facts = [format_count(len(self), "message")]
        if self.parent_id:
            facts.append(f"{self.init_len} inherited")

        if self.ledger:
            recorded = format_count(len(self.ledger), "ledger entry", "ledger entries")
            facts.append(f"{recorded} of {self.total_usage!r}")

        shown = self._map_ends(lambda message: shorten_repr(message, _MAX_REPR))
        return f"<Aggregator {self.id}: {', '.join(facts)}: [{', '.join(shown)}]>"

    def __str__(self) -> str:
        """
        The conversation, shortened: a line for each of its first and last messages.

        Characters that a terminal would interpret are escaped. All of it is
        `rendering.render_transcript`.
        """
        return "\n".join(self._map_ends(_format_line)) or "(no messages)"

    def _map_ends(self, show: Callable[[Message], str]) -> list[str]:
        # What *show* makes of the messages, or, if they are many, of the first and last
        # of them, and between those how many there are. O(log n).
        left_out = len(self) - _FIRST - _LAST
        # A single message takes no more room than the line that would stand for it.
        if left_out <= 1:
            return [show(message) for message in self]

        return [
            *[show(message) for message in self[:_FIRST]],
            f"… {format_count(left_out, 'message')}",
            *[show(message) for message in self[-_LAST:]],
        ]

    def __copy__(self) -> Aggregator:
        return self

    def __deepcopy__(self, _memo: Any) -> Aggregator:
        # A state never changes, so a deep copy can be the state itself.
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _STATE, (self._origin, self._ledger, self._log)


add_missing_names(Aggregator, "an Aggregator has", NAMES)
refuse_operators(Aggregator, OPERATORS)
refuse_assignments(Aggregator, f"a state never changes; {OPERATORS['__add__']}")


def _format_line(message: Message) -> str:
    words = " ".join(str(message).split())
    # The text is cut before it is escaped, because an escape is up to ten characters;
    # the one character too many is what `shorten_text` sees.
    return shorten_text(escape_line(words[: _MAX_LINE + 1]), _MAX_LINE)


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


def _list_messages(given: Iterable[object]) -> Iterator[Message]:
    # The messages among arguments that are each a message or several.
    for each in given:
        if isinstance(each, Message):
            yield each
            continue

        if isinstance(each, (str, bytes, Mapping)) or not isinstance(each, Iterable):
            raise _mismatch_error("add_response", _LOADED, each)

        listed = tuple(each)
        if not all(isinstance(one, Message) for one in listed):
            raise _mismatch_error("add_response", _LOADED, each)

        if _are_pieces(listed):
            raise InvalidMessageError(
                f"add_response takes the messages of a response, got {len(listed)} "
                "pieces of one; join them: state.add_response(concat(chunks))"
            )

        yield from listed


def _are_pieces(messages: tuple[Message, ...]) -> bool:
    # The chunks of a stream: only its end says how it ended. Of several whole
    # responses each does.
    metas = [one.response for one in messages if isinstance(one, AssistantMessage)]
    is_one_role = len(metas) == len(messages) > 1
    return is_one_role and metas[0] is None and metas[-1] is not None


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


def _make_state(origin: StateOrigin, ledger: Ledger, log: Log[Entry]) -> Aggregator:
    state = _new(Aggregator)
    state._origin = origin
    state._ledger = ledger
    state._log = log
    return state


_STATE = Maker("aggregator.Aggregator", _make_state)


def join(first: Aggregator, *others: Aggregator | Turn) -> Aggregator:
    """The ordered union of states: ``first.join(*others)``."""
    if not isinstance(first, Aggregator):  # a list of states, most likely
        raise TypeError(describe_mismatch("join", "Aggregators", first))

    return first.join(*others)


@final
@attrs.frozen
class Checkpoint:
    """
    A state with a label, to go back to.

    Attributes:
        state: The state.
        label: Its label; not unique.

    >>> chat = Aggregator.new().add_user_prompt("Book it.")
    >>> saved = chat.checkpoint("before booking")
    >>> gone_wrong = chat.add_assistant_message("Done. Twice.")
    >>> saved.restore() == chat
    True
    >>> len(gone_wrong.rollback(saved))
    1
    """

    state: Aggregator
    label: str = ""

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.state, Aggregator):
            raise TypeError(
                describe_mismatch("a Checkpoint", "an Aggregator", self.state)
            )

        label = check_text(self.label, "label", TypeError)
        if label is not self.label:
            object.__setattr__(self, "label", label)

    @property
    def id(self) -> UUID:
        """The id of the state."""
        return self.state.id

    @property
    def messages(self) -> Messages:
        """Its messages."""
        return self.state.messages

    @property
    def usage(self) -> Usage:
        """The usage recorded since the fork."""
        return self.state.usage

    def restore(self) -> Aggregator:
        """
        The state, as it was, with the ledger it had then. O(1).

        Use ``state.rollback(checkpoint)`` to keep what was recorded since.
        """
        return self.state

    def merge_into(self, target: Aggregator) -> Aggregator:
        """
        *target* with what the state had added since its fork, exactly once.

        The same as ``target.join(checkpoint.state.turn)``, whether or not
        *target* knows the past it was added to.
        """
        if not isinstance(target, Aggregator):
            raise TypeError(describe_mismatch("merge_into", "an Aggregator", target))

        return target.join(self.state.turn)


def ledger_union(*states: Aggregator | Turn | Checkpoint) -> Log[LedgerEntry]:
    """
    The ledger entries of all *states*, each identity once, in order.

    For branches that were not joined: the tips of a timeline, say. Costs what
    the states recorded since they parted. Where two hold different usages
    under one identity, that of the first state stands, as in `join`.

    Raises:
        TypeError: If something else is given.
    """
    union = Union(EMPTY_LEDGER.entries)
    for state in states:
        given = state.state if isinstance(state, Checkpoint) else state
        if not isinstance(given, (Aggregator, Turn)):
            expected = "Aggregators, Turns or Checkpoints"
            raise TypeError(describe_mismatch("ledger_union", expected, given))

        union.add(given.ledger)

    return union.log


def total_usage(*states: Aggregator | Turn | Checkpoint) -> Usage:
    """
    What all *states* cost together: the sum over their `ledger_union`.

    O(ledger entries).

    Raises:
        TypeError: If something else is given.
        InvalidUsageError: If the total is over 2**63 - 1.

    >>> start = Aggregator.new().add_usage(Usage(100))
    >>> first, second = start.add_usage(Usage(5)), start.add_usage(Usage(7))
    >>> total_usage(first, second).total_tokens
    112
    """
    return sum([entry.usage for entry in ledger_union(*states)], NOTHING)
