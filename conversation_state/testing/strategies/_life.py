"""
Whole conversations and states that look like life: what the shapes of
`testing.shapes` have, drawn after one another, and a past of forks, joins and retries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TypeVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from conversation_state.aggregator import Aggregator
from conversation_state.messages import Message, SystemMessage
from conversation_state.testing._drawing import few, once, sample
from conversation_state.testing.shapes import (
    ACTS,
    SHAPES,
    Diamond,
    TurnWriter,
    add_messages,
    grow_state,
    make_diamond,
)
from conversation_state.testing.strategies._messages import messages as _any_message
from conversation_state.testing.strategies._states import DrawnState
from conversation_state.testing.strategies._values import texts

T = TypeVar("T")

_OPTIONS = ("parallel", "late", "interrupted", "media", "reasoning", "long")
_LONG = 61  # messages of a long conversation
_SELDOM = st.sampled_from([False] * 9 + [True])


class DrawnTurnWriter(TurnWriter):
    """A turn whose variants are drawn."""

    def __init__(self, draw: DrawFn, number: int = 0) -> None:
        super().__init__(number)
        self._draw = draw

    def pick(self, *options: T) -> T:
        """Any of *options*, shrinking to the first."""
        # By their numbers: options may be messages, which are slow to compare.
        at: int = self._draw(sample(tuple(range(len(options)))))
        return options[at]

    def text(self, plain: str) -> str:
        """*plain*, or any text one time in ten."""
        return self._draw(texts()) if self._draw(_SELDOM) else plain


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
    if not draw(sample((*range(20),))):
        return []

    names = sample(_list_names(tuple(SHAPES), options))
    drawn = draw(st.lists(names, min_size=1, max_size=max_turns))
    conversation: list[Message] = []
    if draw(sample((False, False, True))):
        conversation.append(SystemMessage("Be brief."))

    for number, name in enumerate(drawn):
        conversation += SHAPES[name].write(DrawnTurnWriter(draw, number))

    if draw(_SELDOM):
        at = draw(st.integers(0, len(conversation)))
        conversation.insert(at, draw(_any_message()))

    if "long" in options and draw(_SELDOM):
        conversation = _lengthen_conversation(conversation, drawn)

    return conversation


def _lengthen_conversation(
    conversation: list[Message], names: Sequence[str]
) -> list[Message]:
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
    `transcripts` gives only what a provider accepts as it stands. One in
    twenty is empty, and one in ten has a message of any content.

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


@st.composite
def _draw_states(
    draw: DrawFn, conversations: SearchStrategy[Iterable[Message]]
) -> Aggregator:
    conversation = list(draw(conversations))
    acts = draw(few(sample(tuple(ACTS))))
    state = Aggregator.new()
    done = 0
    for number, act in enumerate(acts):
        upto = draw(st.integers(done, len(conversation)))
        state = add_messages(state, conversation[done:upto])
        # Numbers that no turn of the conversation has, so that ids differ.
        state = ACTS[act](DrawnTurnWriter(draw, 1_000 + number), state)
        done = upto

    state = add_messages(state, conversation[done:])
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
    trunk = grow_state(draw(conversations))
    return make_diamond(DrawnTurnWriter(draw, 1_000), trunk)


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
