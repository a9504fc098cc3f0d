"""
Whole conversations and states that look like life: what the shapes of
`testing.shapes` have, drawn after one another, and a past of forks, joins and retries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from conversation_state.aggregator import Aggregator
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    UserMessage,
)
from conversation_state.testing._code import USUAL_TIME
from conversation_state.testing._comparison import decoded, unpickled
from conversation_state.testing._drawing import once
from conversation_state.testing.shapes import SHAPES, TurnWriter
from conversation_state.testing.strategies._messages import messages as _any_message
from conversation_state.testing.strategies._states import DrawnState
from conversation_state.testing.strategies._values import texts
from conversation_state.usage import Usage

T = TypeVar("T")

_OPTIONS = ("parallel", "late", "interrupted", "media", "reasoning", "long")
_LONG = 61  # messages of a long conversation
# One conversation of so many.
_EMPTY, _LONG_SHARE, _ODD_SHARE = 40, 14, 24


@cache
def _choose(options: tuple[Any, ...]) -> SearchStrategy[Any]:
    return st.sampled_from(options)


@cache
def _one_of(number: int) -> SearchStrategy[bool]:
    """
    True one time of *number*, shrinking to False.
    """
    return st.sampled_from([False] * (number - 1) + [True])


class DrawnTurnWriter(TurnWriter):
    """
    A turn whose variants are drawn.
    """

    def __init__(self, draw: DrawFn, number: int = 0) -> None:
        super().__init__(number)
        self._draw = draw

    def pick(self, *options: T) -> T:
        """
        Any of *options*, shrinking to the first.
        """
        # By their numbers: options may be messages, which are slow to compare.
        at = self._draw(_choose(tuple(range(len(options)))))
        return options[at]

    def text(self, plain: str) -> str:
        """
        *plain*, or any text one time in sixteen.
        """
        if self._draw(_one_of(16)):
            return self._draw(texts(max_size=20))

        return plain


@cache
def _list_names(names: tuple[str, ...], options: frozenset[str]) -> tuple[str, ...]:
    found: list[str] = []
    for name in names:
        shape = SHAPES[name]
        if options.issuperset(shape.needs):
            found += [name] * shape.share

    return tuple(found)


@st.composite
def _draw_conversation(
    draw: DrawFn, max_turns: int, options: frozenset[str]
) -> list[Message]:
    if draw(_choose((*range(_EMPTY),))) == 0:
        return []

    names = _choose(_list_names(tuple(SHAPES), options))
    drawn = draw(st.lists(names, min_size=1, max_size=max_turns))
    conversation: list[Message] = []
    if draw(_choose((False, False, True))):
        conversation.append(SystemMessage("Be brief."))

    for number, name in enumerate(drawn):
        conversation += SHAPES[name].write(DrawnTurnWriter(draw, number))

    if draw(_one_of(_ODD_SHARE)):
        at = draw(st.integers(0, len(conversation)))
        conversation.insert(at, draw(_any_message()))

    if "long" in options and draw(_one_of(_LONG_SHARE)):
        conversation = _lengthen(conversation, drawn)

    return conversation


def _lengthen(conversation: list[Message], names: Sequence[str]) -> list[Message]:
    """
    *conversation*, going on in its shapes until it is long: without further draws,
    which would be slow. Ids are new ones.
    """
    number = len(names)
    while len(conversation) < _LONG:
        name = names[number % len(names)]
        # A long text sixty times would be slow to encode, and shows nothing more.
        plain = "answer" if "long" in SHAPES[name].needs else name
        conversation += SHAPES[plain].write(TurnWriter(number))
        number += 1

    return conversation


@once
def conversations(
    *,
    max_turns: int = 8,
    parallel: bool = True,
    late: bool = True,
    interrupted: bool = True,
    media: bool = True,
    reasoning: bool = True,
    long: bool = True,
) -> SearchStrategy[list[Message]]:
    """
    Conversations of users, models and tools as they happen: lists of messages, written
    by the shapes of `testing.shapes.SHAPES`, one a turn.

    Some are invalid, as they are where a user stops a tool, or writes while it runs;
    `transcripts` gives only what a provider accepts as it stands. Two in a hundred are
    empty, one in twenty-four has a message of any content.

    Args:
        max_turns: The most turns; about two and a half messages each.

        parallel: Whether a message may have several calls.

        late: Whether a result may come after a later message.

        interrupted: Whether answers may be cut off by the user.

        media: Whether there are images, sound and files, in results as well.

        reasoning: Whether there are thoughts, signed, with calls and without.

        long: Whether one in twenty has more than 60 messages, and texts may have 5,000
            words.

    Shrink to fewer turns, to the simpler shapes, and to no messages.
    """
    given = (parallel, late, interrupted, media, reasoning, long)
    options = [name for name, is_on in zip(_OPTIONS, given, strict=True) if is_on]
    return _draw_conversation(max_turns, frozenset(options))


# States


def _grow(state: Aggregator, messages: Iterable[Message]) -> Aggregator:
    """
    *state* with *messages*, and the usage of each response under its id.
    """
    for message in messages:
        if isinstance(message, AssistantMessage) and message.response is not None:
            state = state.add_response(_at_usual_time(message))
        else:
            state = state.add(message)

    return state


def _at_usual_time(message: AssistantMessage) -> AssistantMessage:
    # Otherwise the ledger has the time of the run, and examples differ in each.
    return message.replace(timestamp=message.timestamp or USUAL_TIME)


class Diamond(NamedTuple):
    """
    Two branches of one state, and what they are together.

    Attributes:
        trunk: The state that was forked.

        left: A fork of it, with something added.

        right: Another one.

        joined: Both: ``left.join(right)``.
    """

    trunk: Aggregator
    left: Aggregator
    right: Aggregator
    joined: Aggregator


def _make_diamond(turn: TurnWriter, trunk: Aggregator) -> Diamond:
    left = _grow(trunk.fork(), _research(turn, "trains"))
    right = _grow(trunk.fork(), _research(turn, "hotels"))
    if turn.sometimes():
        # One request that both know of, as after a retry in another process.
        left, right = [
            each.add_usage(Usage(10, 5), key="request 1", at=USUAL_TIME)
            if "request 1" not in {entry.id for entry in each.ledger}
            else each
            for each in (left, right)
        ]

    if turn.sometimes():
        right = unpickled(right)

    return Diamond(trunk, left, right, left.join(right))


def _research(turn: TurnWriter, subject: str) -> Iterable[Message]:
    call = turn.call("search", f'{{"query": "{subject}"}}')
    if turn.usually():
        yield UserMessage(f"Look for {subject}.")

    yield turn.say("", call)
    yield turn.result(call, f"3 {subject}")
    if turn.sometimes():
        yield turn.say(f"I found {subject}.")


# What happens to a state, each under a name: from the state and a turn to write with.


def _fork_earlier(turn: TurnWriter, state: Aggregator) -> Aggregator:
    return state.fork(at=max(0, len(state) - turn.pick(1, 2, 5)))


def _join_both_ways(turn: TurnWriter, state: Aggregator) -> Aggregator:
    diamond = _make_diamond(turn, state)
    return diamond.right.join(diamond.left).join(diamond.joined)


def _roll_back(turn: TurnWriter, state: Aggregator) -> Aggregator:
    tried = _grow(state, [turn.ask("Book it."), turn.say("Booked twice.")])
    return tried.rollback(turn.pick(len(state), max(0, len(state) - 1)))


def _retry(turn: TurnWriter, state: Aggregator) -> Aggregator:
    # The answer came, the connection broke, and the same response is added again.
    answer = _at_usual_time(turn.say("At noon."))
    asked = state.add(turn.ask())
    return asked.add_response(answer).rollback(asked).add_response(answer)


def _pay(turn: TurnWriter, state: Aggregator) -> Aggregator:
    usage = turn.pick(Usage(10, 5), Usage(3), Usage())
    key = f"{turn.pick('request', 'attempt')} {turn.number}"
    if key in {entry.id for entry in state.ledger}:
        return state

    return state.add_usage(usage, key=key, model=turn.pick("", "gpt-5"), at=USUAL_TIME)


def _pay_without_key(turn: TurnWriter, state: Aggregator) -> Aggregator:
    return state.add_usage(turn.pick(Usage(10, 5), Usage(3)), at=USUAL_TIME)


def _leave_unrecorded(turn: TurnWriter, state: Aggregator) -> Aggregator:
    return state.add(turn.say("It was loaded, and its usage is not recorded."))


ACTS: dict[str, Callable[[TurnWriter, Aggregator], Aggregator]] = {
    "fork": lambda _turn, state: state.fork(),
    "fork at an earlier message": _fork_earlier,
    "diamond": lambda turn, state: _make_diamond(turn, state).joined,
    "diamond from both sides": _join_both_ways,
    "rollback": _roll_back,
    "retry": _retry,
    "usage under a key": _pay,
    "usage without a key": _pay_without_key,
    "response that is not recorded": _leave_unrecorded,
    "from another process": lambda _turn, state: unpickled(state),
    "from a store": lambda _turn, state: decoded(state),
}


@st.composite
def _draw_states(
    draw: DrawFn, conversations: SearchStrategy[Iterable[Message]]
) -> Aggregator:
    conversation = list(draw(conversations))
    acts = draw(st.lists(_choose(tuple(ACTS)), max_size=3))
    state = Aggregator.new()
    done = 0
    for number, act in enumerate(acts):
        upto = draw(st.integers(done, len(conversation)))
        state = _grow(state, conversation[done:upto])
        # Numbers that no turn of the conversation has, so that ids differ.
        state = ACTS[act](DrawnTurnWriter(draw, 1_000 + number), state)
        done = upto

    state = _grow(state, conversation[done:])
    note(DrawnState(state))
    return state


@once
def states(
    *, conversations: SearchStrategy[Iterable[Message]] | None = None
) -> SearchStrategy[Aggregator]:
    """
    States that look like life: a conversation of `conversations`, whose responses are
    in the ledger, with forks, diamonds, rollbacks, retries and usage on the way; some
    decoded, some unpickled.

    What `st.from_type(Aggregator)` gives; `aggregators` gives any state that verbs can
    make, mostly of odd content.

    Args:
        conversations: The conversations, as a strategy; `conversations` by default.

    Shrink to fewer acts, and as conversations do. Identities are new ones each time.
    """
    return _draw_states(_default_conversations(conversations))


def _default_conversations(
    given: SearchStrategy[Iterable[Message]] | None,
) -> SearchStrategy[Iterable[Message]]:
    return conversations() if given is None else given


@st.composite
def _draw_diamond(
    draw: DrawFn, conversations: SearchStrategy[Iterable[Message]]
) -> Diamond:
    trunk = _grow(Aggregator.new(), draw(conversations))
    return _make_diamond(DrawnTurnWriter(draw, 1_000), trunk)


@once
def diamonds(
    *, conversations: SearchStrategy[Iterable[Message]] | None = None
) -> SearchStrategy[Diamond]:
    """
    Two forks of one state that each did something, and their join: named tuples
    ``(trunk, left, right, joined)``.

    Args:
        conversations: What the trunk has, as a strategy; `conversations` by default.

    Shrink to a trunk without messages.
    """
    return _draw_diamond(_default_conversations(conversations))


def list_state_shapes() -> dict[str, Aggregator]:
    """
    A state for each shape of a conversation and each act on a state, under its name;
    the same in every run but for identities.
    """
    found = {
        name: _grow(Aggregator.new(), shape.write(TurnWriter()))
        for name, shape in SHAPES.items()
    }
    start = _grow(Aggregator.new(), SHAPES["call and result"].write(TurnWriter()))
    for name, act in ACTS.items():
        found[name] = act(TurnWriter(1_000), start)

    return found
