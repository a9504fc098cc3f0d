"""
Scripts: what a provider answers and what a user does, in one conversation.

A script says nothing of a framework or a wire, so that one and the same drives any
agent: a server answers its replies (`write_answer`, `stream_answer`), and a driver of
the agent types the turns and does the acts. `ENDING` are turns that show whether the
conversation can still go on: it is refused for good if none of them gets an answer.

`FIXED` has each kind once, streamed and not; `draw_scripts` mixes them, the same ones
for a seed. The tool that the model calls is ``book(train)``; a driver lets it fail
where *train* is 0, and lets it wait where the turn's act says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from itertools import product
from random import Random
from typing import Any

import attrs

from conversation_state._wording import format_count

__all__ = [
    "ENDING",
    "FIXED",
    "Act",
    "FaultKind",
    "Script",
    "ScriptedAnswer",
    "ScriptedCall",
    "ScriptedFault",
    "ScriptedTurn",
    "draw_scripts",
]


@attrs.frozen
class ScriptedCall:
    """
    A call of a tool, as a model wrote it: nothing of it need be valid.

    Attributes:
        id: Its id; None where the server sends none.

        name: The tool's name.

        arguments: The text of the arguments.
    """

    id: str | None
    name: str = "book"
    arguments: str = '{"train": 7}'


@attrs.frozen(kw_only=True)
class ScriptedAnswer:
    """
    An answer of the model.

    Attributes:
        text: What it says; None for no text at all, which is not an empty one.

        thinking: What it thinks before.

        refusal: Why it does not answer.

        calls: The tools that it calls.

        finish: Why it stops: ``stop``, ``length`` or ``filter``.

        id: The response's id; None where the server sends none.
    """

    text: str | None = None
    thinking: str = ""
    refusal: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    finish: str = "stop"
    id: str | None = None


class FaultKind(StrEnum):
    """What goes wrong instead of an answer, or in the middle of one."""

    LIMITED = "429 with Retry-After"
    BROKEN = "500"
    TIME_OUT = "time-out"
    CUT = "the body is cut"
    CLOSED = "the connection closes"


@attrs.frozen
class ScriptedFault:
    """A fault in the place of an answer, or in *answer*, after *part* of its bytes."""

    kind: FaultKind
    answer: ScriptedAnswer = ScriptedAnswer(text="This is cut.")
    part: float = 0.5


class Act(StrEnum):
    """What the user, or the machine, does in a turn."""

    WAITS = "waits for the answer"
    STOPS_ANSWER = "stops while the answer arrives"
    STOPS_TOOL = "stops while a tool runs"
    STOPS_LAST_TOOL = "stops while the last of the tools runs"
    STOPS_AFTER_TOOL = "stops while the answer after a tool arrives"
    WRITES = "writes while a tool runs"
    CRASHES = "the program ends while a tool runs, and is started again"
    CRASHES_LATE = "the program ends while the last of the tools runs"
    RESUMES = "the program ends while a tool runs, and resumes the turn"


@attrs.frozen
class ScriptedTurn:
    """
    What the user types, what the provider replies to the requests of this turn, one
    after the other, and the act. Where there are more requests, the reply is a text.
    """

    text: str
    replies: tuple[ScriptedAnswer | ScriptedFault, ...] = ()
    act: Act = Act.WAITS


@attrs.frozen
class Script:
    """
    One conversation.

    Attributes:
        name: What is in it, for people.

        turns: Its turns; `ENDING` follows.

        streamed: Whether answers are streamed.
    """

    name: str
    turns: tuple[ScriptedTurn, ...]
    streamed: bool = False


# Whether a conversation can go on: three more turns, and a text for each.
ENDING = (
    ScriptedTurn("Are you still there?"),
    ScriptedTurn("Hello?"),
    ScriptedTurn("When does the next train leave?"),
)

_DONE = ScriptedAnswer(text="Done.")
_LONG_ID = "call_#_" + "0123456789abcdef" * 6

# Each kind of answer, with the replies of its turn. A "#" becomes a number.
_ANSWERS: dict[str, tuple[ScriptedAnswer, ...]] = {
    "a text": (ScriptedAnswer(text="At noon."),),
    "two calls": (
        ScriptedAnswer(calls=(ScriptedCall("call_a#"), ScriptedCall("call_b#"))),
        _DONE,
    ),
    "a text and a call": (
        ScriptedAnswer(text="I'll book it.", calls=(ScriptedCall("call_a#"),)),
        _DONE,
    ),
    "an unknown tool": (
        ScriptedAnswer(calls=(ScriptedCall("call_a#", "fly", "{}"),)),
        _DONE,
    ),
    "a tool of an invalid name": (
        ScriptedAnswer(calls=(ScriptedCall("call_a#", "multi_tool_use.book", "{}"),)),
        _DONE,
    ),
    "invalid JSON": (
        ScriptedAnswer(calls=(ScriptedCall("call_a#", "book", '{"train": '),)),
        _DONE,
    ),
    "no arguments": (
        ScriptedAnswer(calls=(ScriptedCall("call_a#", "book", ""),)),
        _DONE,
    ),
    "arguments that are a list": (
        ScriptedAnswer(calls=(ScriptedCall("call_a#", "book", "[7]"),)),
        _DONE,
    ),
    "an id twice in an answer": (
        ScriptedAnswer(calls=(ScriptedCall("call_a#"), ScriptedCall("call_a#"))),
        _DONE,
    ),
    "an id twice in a turn": (
        ScriptedAnswer(calls=(ScriptedCall("call_0"),)),
        ScriptedAnswer(calls=(ScriptedCall("call_0"),)),
        _DONE,
    ),
    "no id": (ScriptedAnswer(calls=(ScriptedCall(None),)), _DONE),
    "an empty id": (ScriptedAnswer(calls=(ScriptedCall(""),)), _DONE),
    "a long id": (ScriptedAnswer(calls=(ScriptedCall(_LONG_ID),)), _DONE),
    "an id of odd characters": (
        ScriptedAnswer(calls=(ScriptedCall("functions.book:#"),)),
        _DONE,
    ),
    "an empty text": (ScriptedAnswer(text=""),),
    "nothing": (ScriptedAnswer(),),
    "a refusal": (ScriptedAnswer(refusal="I can't help with that."),),
    "a text that is cut off": (ScriptedAnswer(text="At no", finish="length"),),
    "a call that is cut off": (
        ScriptedAnswer(
            calls=(ScriptedCall("call_a#", "book", '{"tra'),), finish="length"
        ),
    ),
    "thinking alone": (ScriptedAnswer(thinking="A train...", finish="length"),),
    "thinking and a text": (ScriptedAnswer(thinking="A train?", text="At noon."),),
    "thinking and a call": (
        ScriptedAnswer(thinking="A train?", calls=(ScriptedCall("call_a#"),)),
        _DONE,
    ),
    "a filtered answer": (ScriptedAnswer(text="", finish="filter"),),
    "a tool that fails": (
        ScriptedAnswer(calls=(ScriptedCall("call_a#", "book", '{"train": 0}'),)),
        _DONE,
    ),
}
_CALL = ScriptedAnswer(calls=(ScriptedCall("call_a#"),))
_CALLS = ScriptedAnswer(calls=(ScriptedCall("call_a#"), ScriptedCall("call_b#")))
# Each act, with the replies of its turn.
_ACTS: tuple[tuple[Act, ScriptedAnswer], ...] = (
    (Act.STOPS_ANSWER, ScriptedAnswer(text="There are three trains, namely")),
    (Act.STOPS_ANSWER, _CALL),
    (Act.STOPS_TOOL, _CALL),
    (Act.STOPS_LAST_TOOL, _CALLS),
    (Act.STOPS_AFTER_TOOL, _CALL),
    (Act.WRITES, _CALL),
    (Act.WRITES, _CALLS),
    (Act.CRASHES, _CALL),
    (Act.CRASHES_LATE, _CALLS),
    (Act.RESUMES, _CALL),
    (Act.RESUMES, _CALLS),
)


def _fixed_scripts() -> Iterator[Script]:
    both = (False, True)
    for (name, replies), streamed in product(_ANSWERS.items(), both):
        # Twice, because an answer may be refused only if another one is like it.
        turns = _make_turns(replies, replies)
        yield Script(name, turns, streamed)

    for kind, streamed in product(FaultKind, both):
        fault = ScriptedFault(kind)
        yield Script(f"{kind}, at once", _make_turns((fault,)), streamed)
        yield Script(f"{kind}, after a tool", _make_turns((_CALL, fault)), streamed)

    for (act, answer), streamed in product(_ACTS, both):
        name = f"{act}, with {format_count(len(answer.calls), 'call')}"
        yield Script(name, _make_turns((answer, _DONE), act=act), streamed)


def _make_turns(
    *turns: tuple[ScriptedAnswer | ScriptedFault, ...], act: Act = Act.WAITS
) -> tuple[ScriptedTurn, ...]:
    """
    A greeting, and turns with these replies: each answer has an id of its own, and so
    have calls, but where it is the script's point that they have not.
    """
    made = [("Good morning.", _GREETING), *[("Book a seat.", turn) for turn in turns]]
    return tuple(
        ScriptedTurn(
            text,
            tuple(
                _number_ids(each, f"{at}{number}") for number, each in enumerate(turn)
            ),
            act if at else Act.WAITS,
        )
        for at, (text, turn) in enumerate(made)
    )


_GREETING = (ScriptedAnswer(text="Good morning!"),)


def _number_ids(
    reply: ScriptedAnswer | ScriptedFault, number: str
) -> ScriptedAnswer | ScriptedFault:
    if isinstance(reply, ScriptedFault):
        answer: Any = _number_ids(reply.answer, number)
        return attrs.evolve(reply, answer=answer)

    calls = [
        attrs.evolve(call, id=call.id.replace("#", number)) if call.id else call
        for call in reply.calls
    ]
    return attrs.evolve(reply, id=f"resp-{number}", calls=tuple(calls))


FIXED = tuple(_fixed_scripts())


def draw_scripts(seed: int, count: int) -> tuple[Script, ...]:
    """*count* scripts of two to five turns; the same ones for the same *seed*."""
    return tuple(
        _Drawing(Random(f"{seed}/{number}")).script()  # noqa: S311 - no secret
        for number in range(count)
    )


# How a server makes ids, for all answers of a script.
_ID_STYLES = (
    "unique",
    "unique",
    "unique",
    "numbers of an answer",
    "one",
    "none",
    "empty",
    "long",
    "odd",
)
_TEXTS = ("At noon.", "Booked.", "I'll look.", "", " ", "- 12:30\n- 13:00", "½ 🚆")
_NAMES = (
    "book",
    "book",
    "book",
    "book",
    "fly",
    "multi_tool_use.book",
    "Book A Seat",
    "",
)
_ARGUMENTS = (
    *('{"train": 7}', '{"train": 7}', '{"train": 8}', '{"train": 0}'),
    *('{"train": ', "", "[7]", "null", '{"train": "seven"}', '"{\\"train\\": 7}"'),
)
_ASKED = ("Book a seat.", "And back?", "Which platform?", "Stop, not that one!")


class _Drawing:
    """Draws one script."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._ids = random.choice(_ID_STYLES)
        self._responses = random.choice(("unique", "unique", "one", "none"))
        self._count = 0

    def script(self) -> Script:
        random = self._random
        turns = tuple(self._turn() for _ in range(random.randint(2, 5)))
        return Script("drawn", turns, random.random() < 0.5)

    def _turn(self) -> ScriptedTurn:
        random = self._random
        act = Act.WAITS
        replies = self._replies()
        if random.random() < 0.35:
            act = random.choice(tuple(Act))
            needs_tool = act not in {Act.WAITS, Act.STOPS_ANSWER}
            if needs_tool:
                # A call that runs: the act comes while it does.
                calls = self._calls(random.randint(1, 3), valid=True)
                replies = (self._answer(calls=calls), *self._replies())

        return ScriptedTurn(random.choice(_ASKED), replies, act)

    def _replies(self) -> tuple[ScriptedAnswer | ScriptedFault, ...]:
        random = self._random
        replies: list[ScriptedAnswer | ScriptedFault] = []
        for _ in range(random.randint(0, 2)):
            count = random.choice((1, 1, 2, 3))
            replies.append(self._answer(calls=self._calls(count, valid=False)))

        replies.append(self._last())
        return tuple(replies)

    # A reply after which most agents ask the user again.
    def _last(self) -> ScriptedAnswer | ScriptedFault:
        random = self._random
        if random.random() < 0.2:
            kind, part = random.choice(tuple(FaultKind)), random.random()
            calls = self._calls(random.randint(0, 1), valid=False)
            return ScriptedFault(kind, self._answer(calls=calls), part)

        return self._answer(calls=())

    def _answer(self, calls: tuple[ScriptedCall, ...]) -> ScriptedAnswer:
        random = self._random
        self._count += 1
        ids = {
            "unique": f"resp-{self._count}-{random.randrange(10**6)}",
            "one": "resp-1",
        }
        text: str | None = random.choice(_TEXTS)
        if random.random() < (0.7 if calls else 0.1):
            text = None

        is_refused = not calls and random.random() < 0.1
        return ScriptedAnswer(
            text=None if is_refused else text,
            thinking="A train?" if random.random() < 0.25 else "",
            refusal="I can't help with that." if is_refused else "",
            calls=calls,
            finish=random.choice(("stop",) * 6 + ("length", "filter")),
            id=ids.get(self._responses),
        )

    def _calls(self, count: int, *, valid: bool) -> tuple[ScriptedCall, ...]:
        random = self._random
        return tuple(
            ScriptedCall(
                self._call_id(at),
                "book" if valid else random.choice(_NAMES),
                json.dumps({"train": 7 + at}) if valid else random.choice(_ARGUMENTS),
            )
            for at in range(count)
        )

    def _call_id(self, at: int) -> str | None:
        number = f"{self._random.randrange(16**8):08x}"
        ids: dict[str, str | None] = {
            "unique": f"call_{number}",
            "numbers of an answer": f"call_{at}",
            "one": "call_0",
            "none": None,
            "empty": "",
            "long": f"call_{number}" * 8,
            "odd": f"functions.book:{number}|{at}",
        }
        return ids[self._ids]
