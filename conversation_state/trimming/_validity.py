"""
Why a provider would refuse a run of messages: flaws, and the properties that they lack;
and the survey: where a valid run may start, found while tokens are counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from conversation_state._persistent import Log, final
from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Entry
from conversation_state.counting import TokenCounter, count
from conversation_state.errors import DroppedHistoryError
from conversation_state.messages import (
    PLAIN,
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.requests import (
    EVERYWHERE,
    Rules,
    came_as_is,
    find_form_flaws,
    find_parted,
    is_empty,
    is_made,
    is_silent,
    is_thinking_only,
    is_well_formed,
)
from conversation_state.trimming._elements import INVALID, StepFailure

DANGLING = "dangling call"


@final
class Flaw(NamedTuple):
    """
    Why a provider would refuse a view.

    Attributes:
        kind: ``orphaned result``, ``repeated result``, ``dangling call``,
            ``repeated call id``, ``invalid call id``, ``invalid name``, ``empty
            message``, ``thinking alone``, ``repeated turn`` or ``start``.
        seqs: The positions of the messages concerned.
        what: What is wrong and what to do.
        reason: The same in few words, as `Dropped.reason` says it where
            messages are dropped because of it; "" if none are.
    """

    kind: str
    seqs: tuple[int, ...]
    what: str
    reason: str = ""

    def __str__(self) -> str:
        return self.what


def dropped_failure(
    step: object, flaw: Flaw, count: int, advice: str = ""
) -> StepFailure:
    """That *step* had to leave out *count* messages because of *flaw*."""
    problem = f"{flaw.reason.removeprefix(f'{INVALID}: ')}{advice}"
    return StepFailure(step, DroppedHistoryError((problem,), flaw.seqs, count))


# The ids of the calls of a run, in a few sets, the largest first: adding an id copies
# what is small, and asking for one asks each of them.
IdSets: TypeAlias = "tuple[frozenset[str], ...]"
_MERGED = 4  # sets of about one size that become one


def _with_ids(sets: IdSets, ids: frozenset[str]) -> IdSets:
    sets = (*sets, ids)
    while len(sets) >= _MERGED and len(sets[-_MERGED]) <= _MERGED * len(sets[-1]):
        sets = (*sets[:-_MERGED], frozenset().union(*sets[-_MERGED:]))

    return sets


class ManyPending(Collection[str]):
    """
    The pending calls of a message that made many: without one more, few are copied.
    """

    __slots__ = ("_called", "_count", "_gone")

    def __init__(self, called: frozenset[str], gone: IdSets, count: int) -> None:
        self._called = called
        self._gone = gone
        self._count = count

    def __contains__(self, id: object) -> bool:
        return id in self._called and not any(id in ids for ids in self._gone)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return iter(self._called.difference(*self._gone))

    def without(self, id: str) -> ManyPending:
        gone = _with_ids(self._gone, frozenset((id,)))
        return ManyPending(self._called, gone, self._count - 1)


Pending: TypeAlias = "frozenset[str] | ManyPending"
_FEW = 64  # so many are copied


def _without_call(pending: Pending, id: str) -> Pending:
    if len(pending) <= _FEW:
        return frozenset(pending) - {id}

    if isinstance(pending, frozenset):
        pending = ManyPending(pending, (), len(pending))

    return pending.without(id)


class OpenCalls(NamedTuple):
    """The assistant's message whose calls the next messages answer."""

    seq: int  # its position
    called: frozenset[str]  # the ids of its calls
    pending: Pending  # those that have no result yet


NO_OPEN_CALLS = OpenCalls(-1, frozenset(), frozenset())

_MAX_CALLS = 3  # named in a reason
_MAX_ID = 60  # characters of an id


def _format_reason(what: str, seq: int) -> str:
    return f"{INVALID}: {what} (messages[{seq}])"


def _shorten_id(call_id: str) -> str:
    if not call_id:
        return "without id"

    return call_id if len(call_id) <= _MAX_ID else f"{call_id[: _MAX_ID - 1]}…"


def _no_result_reason(seq: int, ids: Iterable[str]) -> str:
    named = list(map(_shorten_id, ids))
    if len(named) == 1:
        return _format_reason(f"call {named[0]} has no result", seq)

    return _format_reason(f"calls {_list_ids(named)} have no results", seq)


def _list_ids(ids: Iterable[str]) -> str:
    named = sorted(ids)
    more = [f"{len(named) - _MAX_CALLS} more"] * (len(named) > _MAX_CALLS)
    return ", ".join([*named[:_MAX_CALLS], *more])


def check_pairing(
    open_calls: OpenCalls, seq: int, message: Message, rules: Rules = EVERYWHERE
) -> tuple[OpenCalls, tuple[Flaw, ...]]:
    """
    The calls that are open after *message*, and what is wrong with it.

    Results belong directly behind the message that made the calls.

    Source:
        OpenAI and Anthropic refuse anything between the two.
    """
    if isinstance(message, ToolMessage):
        if (
            rules.format
            and message.tool_call_id not in open_calls.called
            and came_as_is(rules, message.metadata, "orphan")
        ):
            return open_calls, ()  # the provider has the call

        return _check_result(open_calls, seq, message.tool_call_id)

    flaws: tuple[Flaw, ...] = ()
    if open_calls.pending:
        ids = _list_ids(map(shorten_repr, open_calls.pending))
        what = (
            f"messages[{open_calls.seq}] calls {ids}, and messages[{seq}] follows "
            "before the result; put the result between them, or drop the call"
        )
        reason = _no_result_reason(open_calls.seq, open_calls.pending)
        flaws = (Flaw(DANGLING, (open_calls.seq, seq), what, reason),)

    called = frozenset([call.id for call in message.tool_calls])
    if len(called) < len(message.tool_calls):
        what = (
            f"messages[{seq}] makes two calls with one id, so their results can't be "
            "distinguished; give every call its own id"
        )
        reason = _format_reason("two calls have one id", seq)
        flaws = (*flaws, Flaw("repeated call id", (seq,), what, reason))

    return OpenCalls(seq, called, called), flaws


def _check_result(
    open_calls: OpenCalls, seq: int, call_id: str
) -> tuple[OpenCalls, tuple[Flaw, ...]]:
    if call_id in open_calls.pending:
        pending = _without_call(open_calls.pending, call_id)
        return open_calls._replace(pending=pending), ()

    if call_id in open_calls.called:
        caller = open_calls.seq
        what = (
            f"messages[{seq}] answers call {shorten_repr(call_id)} of "
            f"messages[{caller}] again; drop one of the results"
        )
        reason = f"call {_shorten_id(call_id)} has another result"
        reason = _format_reason(reason, seq)
        flaw = Flaw("repeated result", (caller, seq), what, reason)
        return open_calls, (flaw,)

    what = (
        f"messages[{seq}] answers call {shorten_repr(call_id)}, which the assistant's "
        "message before it did not make; drop it, or keep the call directly before it"
    )
    reason = _format_reason(f"result has no call {_shorten_id(call_id)} before it", seq)
    return open_calls, (Flaw("orphaned result", (seq,), what, reason),)


class CutPoint(NamedTuple):
    tokens: int  # of all messages before it; the first sort key
    seq: int


def is_task(message: Any) -> bool:
    """
    Whether *message* may stay before a run as its task: a user's, with a content that
    no provider refuses, and not made up.
    """
    if message.__class__ is not UserMessage:
        return False

    content = message.content
    if content.__class__ is str:
        return bool(content) and not content.isspace() and not is_made(message)

    return not (is_empty(message, EVERYWHERE) or is_made(message))


class UserPoint(NamedTuple):
    """Where a user's message stands, which a view may keep as the task."""

    tokens: int  # of all messages before it
    seq: int
    own: int  # its own tokens


_seq = attrgetter("seq")
_NO_CUTS: Log[CutPoint] = Log()
_NO_USERS: Log[UserPoint] = Log()
_NO_IDS: frozenset[str] = frozenset()
_make = tuple.__new__


class Survey(NamedTuple):
    """
    What a run of messages, read from its beginning, allows.

    The run may begin behind the start of a conversation (`survey_end`): then its
    tokens are those from there on, and it has no leading system messages.
    """

    size: int = 0  # the position behind it; how many messages a run from the start has
    tokens: int = 0  # how many tokens they fill
    # The leading system messages: how many, the position behind them, their tokens.
    lead_size: int = 0
    lead: int = 0
    lead_tokens: int = 0
    open_calls: OpenCalls = NO_OPEN_CALLS  # the calls that may still be answered
    # Why a provider would refuse the run, at its last invalid place.
    flaw: Flaw | None = None
    cuts: Log[CutPoint] = _NO_CUTS  # where a valid run to the end may start
    users: Log[UserPoint] = _NO_USERS  # the messages of users
    ids: IdSets = ()  # the ids of its calls
    # The position behind the last message whose id, name or content has to be changed.
    odd_end: int = 0
    is_thinking: bool = False  # whether the last message is thinking alone
    # The kind of the last message that is a turn, and its position.
    speaker: type[Message] | None = None
    spoken: int = -1

    @property
    def starts(self) -> Log[CutPoint]:
        """
        The cuts without those that no turn is behind, only messages of the system and
        of unknown roles: these are no request. All of them if there are no others.
        """
        cuts = self.cuts
        if not cuts or cuts[-1].seq <= self.spoken:
            return cuts

        count = bisect_right(cuts, self.spoken, key=_seq)
        return cuts.take(count) if count else cuts

    @property
    def is_right(self) -> bool:
        """Whether a view of the run needs no repair."""
        return not (self.flaw or self.odd_end or self.is_thinking)

    def with_messages(  # noqa: C901, PLR0912, PLR0915 - each message passes here
        self, pairs: Iterable[tuple[int, Message]], counter: TokenCounter, rules: Rules
    ) -> Survey:
        """The survey of this run and *pairs*, messages behind it with positions."""
        size, tokens, lead_size, lead, lead_tokens, open_calls, flaw, cuts, users = (
            self[:9]
        )
        ids, odd_end, is_thinking, speaker, spoken = self[9:]
        parted = find_parted(rules)
        caller, called, pending = open_calls
        # What the messages add, which goes to the logs and sets in one piece.
        new_cuts: list[CutPoint] = []
        new_users: list[UserPoint] = []
        new_ids: set[str] = set()
        last_seq = -1
        message: Any  # saves a cast for each kind
        flaws: tuple[Flaw, ...]
        for seq, message in pairs:
            own = count(message, counter)
            kind = message.__class__
            calls = message.tool_calls if kind is AssistantMessage else ()
            may_start, is_odd, was_thinking = True, False, is_thinking
            is_thinking, flaws = False, ()
            # Most messages neither call nor answer.
            if kind is ToolMessage:
                may_start = False
                if message.tool_call_id in pending:
                    pending = _without_call(pending, message.tool_call_id)
                else:
                    open_calls = OpenCalls(caller, called, pending)
                    _, flaws = check_pairing(open_calls, seq, message, rules)
                    may_start = not (flaws or pending)
            elif pending or calls:
                made = frozenset([call.id for call in calls])
                if pending or len(made) < len(calls):
                    open_calls = OpenCalls(caller, called, pending)
                    _, flaws = check_pairing(open_calls, seq, message)

                caller, called, pending = seq, made, made
                if calls:
                    is_odd = not (
                        new_ids.isdisjoint(called) and all(map(called.isdisjoint, ids))
                    )
                    new_ids |= called
            else:
                called = _NO_IDS

            if flaws:
                # No run that starts before this message can be valid; one that starts
                # with it can, unless it is itself what is wrong: that is the last of
                # the two flaws that a message can have.
                flaw, cuts, new_cuts = flaws[-1], _NO_CUTS, []
                may_start = may_start and flaw.seqs[0] != seq

            # Most are a text without a name, which is asked for no more than this.
            content: Any = None if kind is UnknownMessage else message.content
            is_text = content.__class__ is str
            is_plain = is_text and not calls and message._common is PLAIN
            if is_plain and kind is not ToolMessage:
                is_plain = bool(content) and not content.isspace()
                is_odd = not is_plain
            elif not is_well_formed(message, rules):
                is_odd = True

            if kind is AssistantMessage and not (is_text or rules.takes_thinking_only):
                is_thinking = is_thinking_only(message)

            if parted and (speaker, kind) in parted:
                is_odd = True

            is_other = kind is SystemMessage or kind is UnknownMessage
            if not (is_other and is_silent(message, rules)):
                speaker, spoken = kind, seq

            if was_thinking:
                # What thinking led to stays with it; where something else follows, the
                # thinking has to go.
                if kind is AssistantMessage:
                    may_start = False
                elif kind is not UnknownMessage:
                    is_odd = True

            # A view can't start in the middle of what one position shows.
            if may_start and last_seq != seq:
                new_cuts.append(_make(CutPoint, (tokens, seq)))
                # Only system messages before all others are the lead; later ones are
                # handled like other messages.
                if lead_size == size and kind is SystemMessage:
                    lead_size, lead, lead_tokens = size + 1, seq + 1, tokens + own

            if kind is UserMessage and (is_plain or is_task(message)):
                new_users.append(_make(UserPoint, (tokens, seq, own)))

            if is_odd:
                odd_end = seq + 1

            last_seq = seq
            size += 1
            tokens += own

        # The entries' log may remember the survey as long as it lives, and a new Log
        # does not keep the versions before it alive.
        cuts, users = Log(cuts.extend(new_cuts)), Log(users.extend(new_users))
        if new_ids:
            ids = _with_ids(ids, frozenset(new_ids))

        # `_replace` and the generated constructor cost three times as much, for each
        # message that is added.
        open_calls = _make(OpenCalls, (caller, called, pending))
        lead_fields = lead_size, lead, lead_tokens
        fields = size, tokens, *lead_fields, open_calls, flaw, cuts, users
        return _make(Survey, (*fields, ids, odd_end, is_thinking, speaker, spoken))


START = Survey()


class SurveyKey(NamedTuple):
    """What a survey of a log is remembered under."""

    counter: TokenCounter
    rules: Rules
    since: int  # the position that it begins at


def survey_log(
    entries: Log[Entry], counter: TokenCounter, rules: Rules, since: int = 0
) -> Survey:
    """
    The survey of the *entries* from position *since* on, a multiple of 32. O(entries
    since the last time).
    """

    def add_entries(survey: Survey, added: Iterable[Entry]) -> Survey:
        pairs = enumerate([entry[1] for entry in added], survey[0])
        return survey.with_messages(pairs, counter, rules)

    # What is open before that is not known: the results of such calls are a flaw, so
    # that no cut is before or among them.
    start = Survey(since) if since else START
    key = SurveyKey(counter, rules, since)
    return entries.fold_runs(add_entries, start, key=key, since=since)


def find_surveyed(
    entries: Log[Entry], counter: TokenCounter, rules: Rules
) -> int | None:
    """Where the longest survey near the end of *entries* begins; None if none is."""
    found = [
        key.since
        for key in entries.fold_keys()
        if key.__class__ is SurveyKey
        and key.rules is rules
        and (key.counter is counter or key.counter == counter)
    ]
    return min(found, default=None)


def find_flaws(pairs: Iterable[tuple[int, Message]], rules: Rules) -> Iterator[Flaw]:
    """Why a provider would refuse the messages *pairs*, each with its position."""
    open_calls = NO_OPEN_CALLS
    callers: dict[str, int] = {}  # which message made the call with an id
    thinking, is_first = -1, rules.starts_with_user
    parted = find_parted(rules)
    last: Any = None  # the kind of the last message that is a turn
    last_seq = -1
    for seq, message in pairs:
        if (last, message.__class__) in parted:
            what = (
                f"messages[{seq}] follows messages[{last_seq}], and something of the "
                "other side must stand between them; put it there, as repair() does"
            )
            yield Flaw("repeated turn", (last_seq, seq), what)

        if not is_silent(message, rules):
            last, last_seq = message.__class__, seq
            if is_first:
                is_first = False
                yield from _find_wrong_start(seq, message)

        open_calls, flaws = check_pairing(open_calls, seq, message, rules)
        yield from flaws
        for call in message.tool_calls:
            caller = callers.setdefault(call.id, seq)
            if caller != seq:
                what = (
                    f"messages[{seq}] makes a call with the id "
                    f"{shorten_repr(call.id)}, which a call of messages[{caller}] has; "
                    "give every call its own id"
                )
                yield Flaw("repeated call id", (caller, seq), what)

        for kind, what in find_form_flaws(message, rules):
            yield Flaw(kind, (seq,), f"messages[{seq}] {what}")

        if thinking >= 0 and not isinstance(
            message, (AssistantMessage, UnknownMessage)
        ):
            yield _make_thinking_flaw(thinking)

        is_thinking = not rules.takes_thinking_only and is_thinking_only(message)
        thinking = seq if is_thinking else -1

    if thinking >= 0:
        yield _make_thinking_flaw(thinking)


def _find_wrong_start(seq: int, message: Message) -> Iterator[Flaw]:
    if isinstance(message, (AssistantMessage, ToolMessage)):
        what = (
            f"messages[{seq}] comes first and has the role {message.role!r}; put a "
            "user's message first, as fit() does"
        )
        yield Flaw("start", (seq,), what)


def _make_thinking_flaw(seq: int) -> Flaw:
    what = f"messages[{seq}] is thinking that nothing follows; drop it"
    return Flaw("thinking alone", (seq,), what)


def group_boundaries(messages: Sequence[Message]) -> Iterator[int]:
    """Where *messages* can be cut without parting a result from its call."""
    unsure: list[int] = []
    open_calls = NO_OPEN_CALLS
    for at, message in enumerate(messages):
        if not isinstance(message, ToolMessage):
            yield from unsure
            yield at
            unsure = []
        elif message.tool_call_id in open_calls.pending:
            unsure = []
        else:
            # Safe unless another result of the same calls comes behind it.
            unsure.append(at)

        open_calls, _ = check_pairing(open_calls, at, message)

    yield from unsure
