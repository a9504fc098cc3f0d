"""
The shapes of conversations: a table of what happens, each under a name.

What lives here: `SHAPES`, from which `strategies.conversations` draws, and which every
check tries once, entry by entry, before it draws at random; and `ConversationShape`, of
which a user's own may be added::

    def ask_for_a_form(turn):
        return [UserMessage("Name?"), turn.say("Ann.")]

    SHAPES["a form"] = ConversationShape(ask_for_a_form)

`ACTS` is the same for states: forks, diamonds, rollbacks, retries. What does not:
drawing (`strategies`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple, TypeVar

import attrs

from conversation_state.aggregator import Aggregator
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.testing._code import USUAL_TIME
from conversation_state.testing._comparison import decoded, unpickled
from conversation_state.tools import ToolCall
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage

__all__ = [
    "ACTS",
    "SHAPES",
    "ConversationShape",
    "Diamond",
    "TurnWriter",
    "add_messages",
    "grow_state",
    "make_diamond",
    "write_shapes",
]

T = TypeVar("T")

_LONG = 5_000  # words of a long text
_PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
_ZONE = timezone(timedelta(hours=2))

# Values that equal others and are not the same JSON.
_ODD_DATA = {
    "count": 1,
    "id": 2**53 + 1,  # no float has this value
    "is_new": True,
    "share": 1.0,
    "unit": None,
}
_ODD_ARGUMENTS = (
    '{"count": 1, "id": 9007199254740993, "is_exact": true, "share": 1.0, "unit": null}'
)


class TurnWriter:
    """
    What a shape writes a turn with: fresh texts and ids, and a choice of variants.

    This one takes the first variant of each choice, so that a shape has one example
    that is the same in every run; strategies draw the others.

    Attributes:
        number: The number of the turn in its conversation, from 0.
    """

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self._calls = 0

    def pick(self, *options: T) -> T:
        """One of *options*, the simplest one first."""
        return options[0]

    def usually(self) -> bool:
        """True, or now and then False."""
        return not self.sometimes()

    def sometimes(self) -> bool:
        """False, or now and then True."""
        return self.pick(*(False, False, True))

    def text(self, plain: str) -> str:
        """*plain*, or now and then a text that few expect."""
        return plain

    def ask(self, plain: str = "") -> UserMessage:
        """A user's message."""
        return UserMessage(self.text(plain or f"Question {self.number}"))

    def say(
        self,
        content: str | Sequence[Part] = "",
        *calls: ToolCall,
        reason: str = "",
        usage: Usage | None = None,
        model: str = "gpt-5",
    ) -> AssistantMessage:
        """A model's message with a response of its own, whose usage is known."""
        self._calls += 1
        number = self.number + 1
        meta = ResponseMeta(
            reason or ("tool_calls" if calls else "stop"),
            usage or Usage(1_000 + 13 * number, 80 + 7 * self._calls),
            model=model,
            id=f"response_{self.number}_{self._calls}",
        )
        return AssistantMessage(content, tool_calls=calls, response=meta)

    def call(
        self, name: str = "clock", arguments: str = "{}", *, id: str = ""
    ) -> ToolCall:
        """A call whose id no other has."""
        self._calls += 1
        return ToolCall(id or f"call_{self.number}_{self._calls}", name, arguments)

    def result(
        self, call: ToolCall, content: str | Sequence[Part] = "12:30", **fields: Any
    ) -> ToolMessage:
        """The result of *call*."""
        return ToolMessage(content, tool_call_id=call.id, tool_name=call.name, **fields)


@attrs.frozen
class ConversationShape:
    """
    What happens in a turn of a conversation.

    Attributes:
        write: Gives the messages of one turn, written with a `TurnWriter`.
        needs: The options of `strategies.conversations` that it needs: ``parallel``,
            ``late``, ``interrupted``, ``media``, ``reasoning``, ``long``.
        share: How often it is drawn, beside others, which have 1.
    """

    write: Callable[[TurnWriter], Iterable[Message]]
    needs: tuple[str, ...] = ()
    share: int = 1


# What can be drawn, by name.
SHAPES: dict[str, ConversationShape] = {}
"""The shapes by name, the simplest ones first; read whenever a value is drawn."""


def _shape(
    name: str, *needs: str, share: int = 1
) -> Callable[[Callable[[TurnWriter], Iterable[Message]]], Any]:
    def add(write: Callable[[TurnWriter], Iterable[Message]]) -> Any:
        SHAPES[name] = ConversationShape(write, needs, share)
        return write

    return add


def write_shapes() -> dict[str, tuple[Message, ...]]:
    """The one example of each shape that is the same in every run."""
    return {name: tuple(shape.write(TurnWriter())) for name, shape in SHAPES.items()}


# Plain turns


@_shape("question")
def _(turn: TurnWriter) -> Iterator[Message]:
    yield turn.ask()


@_shape("answer", share=4)
def _(turn: TurnWriter) -> Iterator[Message]:
    yield turn.ask()
    yield turn.pick(AssistantMessage(f"Answer {turn.number}"), AssistantMessage("Yes."))


@_shape("response", share=4)
def _(turn: TurnWriter) -> Iterator[Message]:
    yield turn.ask()
    yield turn.say(turn.text(f"At noon, on day {turn.number}."))


@_shape("call and result", share=4)
def _(turn: TurnWriter) -> Iterator[Message]:
    call = turn.call("search", turn.pick('{"query": "trains to Bern"}', "{}"))
    yield turn.ask()
    yield turn.say("", call)
    yield turn.result(call, turn.text("12:30, or a little later"))
    if turn.usually():
        yield turn.say("At half past twelve.")


@_shape("rounds of calls")
def _(turn: TurnWriter) -> Iterator[Message]:
    yield turn.ask()
    for city in ("Bern", "Biel", "Basel")[: turn.pick(2, 3)]:
        call = turn.call("search", f'{{"query": "trains to {city}"}}')
        yield turn.say("Let me see.", call)
        yield turn.result(call, f"To {city} at 12:30")

    yield turn.say("Take the first one.")


@_shape("parallel calls", "parallel", share=2)
def _(turn: TurnWriter) -> Iterator[Message]:
    calls = [turn.call("search", '{"query": "trains to Bern"}'), turn.call()]
    yield turn.ask()
    yield turn.say(turn.pick("", "Let me see."), *calls)
    for call in calls:
        yield turn.result(call, f"{call.name}: 12:30")

    yield turn.say("At half past twelve.")


@_shape("three parallel calls, answered in another order", "parallel")
def _(turn: TurnWriter) -> Iterator[Message]:
    calls = [turn.call(arguments=f'{{"zone": {n}}}') for n in (1, 2, 3)]
    yield turn.ask()
    yield turn.say("", *calls)
    for at in turn.pick((2, 0, 1), (1, 2, 0), (2, 1, 0)):
        yield turn.result(calls[at], f"zone {at + 1}", is_error=at == 1)


@_shape("arguments as a model writes them", share=2)
def _(turn: TurnWriter) -> Iterator[Message]:
    # Not as `json.dumps` writes them: neither the order of the keys, nor the spaces,
    # nor the escapes.
    call = turn.call(
        "book",
        turn.pick(
            '{"to":"Bern","from":"Genève"}', '{\n  "train": 7,\n  "seat": null\n}'
        ),
    )
    yield turn.ask()
    yield turn.say("", call)
    yield turn.result(call, turn.pick("Booked.", '{"train":7,"seat":null}'))


@_shape("instructions")
def _(turn: TurnWriter) -> Iterator[Message]:
    yield SystemMessage("Be brief.")
    yield turn.ask()
    yield turn.say("Yes.")


# What comes late, or never


@_shape("late result", "late", share=2)
def _(turn: TurnWriter) -> Iterator[Message]:
    call = turn.call("book", '{"train": 7}')
    yield turn.ask("Book it.")
    yield turn.say("", call)
    yield turn.ask("Are you done?")
    if turn.sometimes():
        yield turn.say("Not yet.")

    yield turn.result(call, "Booked, number 7.")
    if turn.usually():
        yield turn.say("It is booked.")


@_shape("one of two results is late", "late", "parallel")
def _(turn: TurnWriter) -> Iterator[Message]:
    calls = [turn.call(), turn.call("book", '{"train": 7}')]
    yield turn.ask()
    yield turn.say("", *calls)
    yield turn.result(calls[0])
    yield turn.ask("And the train?")
    yield turn.result(calls[1], "Booked, number 7.")


@_shape("call without a result")
def _(turn: TurnWriter) -> Iterator[Message]:
    yield turn.ask()
    yield turn.say(turn.pick("", "Let me see."), turn.call())


@_shape("stopped before the second result", "parallel")
def _(turn: TurnWriter) -> Iterator[Message]:
    calls = [turn.call(), turn.call("book", '{"train": 7}')]
    yield turn.ask()
    yield turn.say("", *calls)
    yield turn.result(calls[0])
    yield turn.ask("Stop, do not book!")


@_shape("result without a call")
def _(turn: TurnWriter) -> Iterator[Message]:
    yield turn.ask()
    yield turn.result(turn.call(), "12:30")
    yield turn.say("At half past twelve.")


@_shape("interrupted answer", "interrupted", share=2)
def _(turn: TurnWriter) -> Iterator[Message]:
    yield turn.ask()
    yield turn.say(turn.pick("The train lea", ""), reason="interrupted")
    if turn.usually():
        yield turn.ask("Go on.")
        yield turn.say("ves at noon.")


@_shape("interrupted call", "interrupted")
def _(turn: TurnWriter) -> Iterator[Message]:
    call = turn.call("search", '{"query": "trains to Be')
    yield turn.ask()
    yield turn.say("Let me see.", call, reason="interrupted")
    if turn.usually():
        yield turn.result(call, "It was stopped.", is_error=True)


@_shape("answer cut by the limit")
def _(turn: TurnWriter) -> Iterator[Message]:
    yield turn.ask()
    yield turn.say("The train leaves at", reason="length")


@_shape("filtered answer", share=2)
def _(turn: TurnWriter) -> Iterator[Message]:
    yield turn.ask()
    yield turn.say(turn.pick("", "The train"), reason="content_filter")
    if turn.usually():
        yield turn.ask("Why not?")


# Several providers


@_shape("answers of two models", share=2)
def _(turn: TurnWriter) -> Iterator[Message]:
    # The start of the prompt is written to the provider's cache, then read from it.
    number = turn.number + 1
    written = Usage(1_400 + number, 60, extra={"cache_write_tokens": 1_300})
    read = PromptTokensDetails(cached_tokens=1_300)
    call = turn.call("search", '{"query": "trains to Bern"}')
    yield turn.ask()
    yield turn.say("", call, usage=written, model="claude-sonnet-4-5")
    yield turn.result(call)
    yield turn.say(
        "At half past twelve.",
        usage=Usage(1_500 + number, 40, prompt_tokens_details=read),
        model=turn.pick("claude-sonnet-4-5", "gemini-3-pro"),
    )
    yield turn.ask("Are you sure?")
    yield turn.say("Yes.")


def _note_keys(source: str, **keys: Any) -> dict[str, Any]:
    """Metadata as an adapter makes it of the keys that only *source* has."""
    return {"conversation_state": {source: {"keys": keys}}}


@_shape("notes of a provider", share=2)
def _(turn: TurnWriter) -> Iterator[Message]:
    marked = _note_keys("anthropic", cache_control={"type": "ephemeral"})
    signed = _note_keys("gemini", thoughtSignature="c2lnbmVk")
    call = attrs.evolve(turn.call(), metadata=signed)
    yield UserMessage([TextPart(turn.text("When?"), metadata=marked)])
    yield turn.say("", call)
    yield turn.result(call)
    yield turn.say([TextPart("At half past twelve.", metadata=signed)])


# Thoughts


def _make_thought(text: str = "Bern is far.") -> ReasoningPart:
    return ReasoningPart(text, signature="c2lnbmVk")


@_shape("thought", "reasoning")
def _(turn: TurnWriter) -> Iterator[Message]:
    used = Usage(
        1_205,
        340,
        prompt_tokens_details=PromptTokensDetails(cached_tokens=1_024),
        completion_tokens_details=CompletionTokensDetails(reasoning_tokens=300),
    )
    yield turn.ask()
    yield turn.say([_make_thought(), TextPart("At noon.")], usage=used)


@_shape("thought with a call", "reasoning", share=2)
def _(turn: TurnWriter) -> Iterator[Message]:
    call = turn.call("search", '{"query": "trains to Bern"}')
    texts = turn.pick([], [TextPart("Let me see.")])
    yield turn.ask()
    yield turn.say([_make_thought(turn.pick("Bern is far.", "")), *texts], call)
    yield turn.result(call)
    if turn.usually():
        yield turn.say([_make_thought("Now I know."), TextPart("At half past twelve.")])


@_shape("thought and nothing else", "reasoning")
def _(turn: TurnWriter) -> Iterator[Message]:
    yield turn.ask()
    yield turn.say([_make_thought()], reason=turn.pick("stop", "length"))


# Media


@_shape("image of a user", "media")
def _(turn: TurnWriter) -> Iterator[Message]:
    image = turn.pick(
        ImagePart(data=_PNG, media_type="image/png", detail="low"),
        ImagePart(url="https://example.com/a.png"),
    )
    yield UserMessage([image, TextPart(turn.text("What is it?"))])
    yield turn.say("A train.")


@_shape("image and nothing else", "media")
def _(_turn: TurnWriter) -> Iterator[Message]:
    yield UserMessage([ImagePart(data=_PNG, media_type="image/png")])


@_shape("file and sound of a user", "media")
def _(turn: TurnWriter) -> Iterator[Message]:
    file = FilePart(data=b"%PDF-1.7", media_type="application/pdf", name="ticket.pdf")
    sound = AudioPart(data=b"RIFF", media_type="audio/wav")
    yield UserMessage([TextPart("Read it."), turn.pick(file, sound)])
    yield turn.say("Platform 7.")


@_shape("image in a result", "media", share=2)
def _(turn: TurnWriter) -> Iterator[Message]:
    call = turn.call("screenshot")
    image = ImagePart(data=_PNG, media_type="image/png")
    yield turn.ask()
    yield turn.say("", call)
    yield turn.result(call, [*turn.pick([TextPart("The board:")], []), image])
    yield turn.say("The train is on platform 7.")


# What models and tools get wrong


@_shape("refusal")
def _(turn: TurnWriter) -> Iterator[Message]:
    yield turn.ask()
    refusal = RefusalPart("I can't help with that.")
    words: list[Part] = turn.pick([TextPart("Well.")], [])
    yield turn.say([*words, refusal])


@_shape("empty answer")
def _(turn: TurnWriter) -> Iterator[Message]:
    yield turn.ask()
    yield turn.pick(AssistantMessage(""), turn.say(""), turn.say(" \n"))


@_shape("failed result")
def _(turn: TurnWriter) -> Iterator[Message]:
    call = turn.call("search", turn.pick("{}", _ODD_ARGUMENTS))
    yield turn.ask()
    yield turn.say("", call)
    yield turn.result(call, "No such city.", is_error=True, metadata={"attempt": 1})
    yield turn.say("Which city?")


@_shape("failed result with an image", "media")
def _(turn: TurnWriter) -> Iterator[Message]:
    call = turn.call("screenshot")
    image = ImagePart(data=_PNG, media_type="image/png")
    yield turn.ask()
    yield turn.say("", call)
    yield turn.result(call, [TextPart("The page is broken:"), image], is_error=True)
    yield turn.say("Try it again.")


@_shape("empty result")
def _(turn: TurnWriter) -> Iterator[Message]:
    call = turn.call("clock", "")
    yield turn.ask()
    yield turn.say("", call)
    yield turn.result(call, "")


@_shape("invalid arguments")
def _(turn: TurnWriter) -> Iterator[Message]:
    call = turn.call("search", turn.pick("trains to Bern", '{"query": "Be'))
    yield turn.ask()
    yield turn.say("", call)
    yield turn.result(call, "The arguments are no JSON.", is_error=True)


@_shape("long ids")
def _(turn: TurnWriter) -> Iterator[Message]:
    call = turn.call(id=f"call_{turn.number}_" + "0" * turn.pick(60, 200))
    yield turn.ask()
    yield turn.say("", call)
    yield turn.result(call)


@_shape("ids of a server")
def _(turn: TurnWriter) -> Iterator[Message]:
    # As long as OpenAI's, which every host takes as they are.
    call = turn.call(id=f"call_{turn.number:024}")
    yield turn.ask()
    yield turn.say("", call)
    yield turn.result(call)


@_shape("missing id")
def _(turn: TurnWriter) -> Iterator[Message]:
    yield turn.ask()
    yield AssistantMessage("Let me see.", tool_calls=[ToolCall("", "clock", "{}")])


@_shape("repeated ids", share=2)
def _(turn: TurnWriter) -> Iterator[Message]:
    # Of two turns, as of servers that count from 0 in each response.
    for text in ("12:30", "12:31"):
        call = turn.call(id="call_0")
        yield turn.ask()
        yield turn.say("", call)
        yield turn.result(call, text)


@_shape("two responses of one id")
def _(turn: TurnWriter) -> Iterator[Message]:
    for tokens in (1_031, 1_057):
        meta = ResponseMeta("stop", Usage(tokens, 91), id="chatcmpl-123")
        yield turn.ask()
        yield AssistantMessage("At noon.", response=meta)


@_shape("the same call again and again")
def _(turn: TurnWriter) -> Iterator[Message]:
    yield turn.ask()
    for _ in range(turn.pick(3, 6)):
        call = turn.call("search", '{"query": "trains to Bern"}')
        yield turn.say("", call)
        yield turn.result(call, "No result, try again.")


# What people do


@_shape("asked again")
def _(turn: TurnWriter) -> Iterator[Message]:
    yield UserMessage("Are you there?")
    yield UserMessage("Are you there?")
    if turn.usually():
        yield AssistantMessage("Yes.")
        yield UserMessage("Are you there?")
        yield AssistantMessage("Yes.")


@_shape("names, times and metadata")
def _(turn: TurnWriter) -> Iterator[Message]:
    at = datetime(2025, 6, 1, 12, tzinfo=UTC).astimezone(_ZONE)
    fields: dict[str, Any] = {"metadata": _ODD_DATA, "timestamp": at}
    yield UserMessage("Where to?", name="Ann", unknown={"since_v2": True}, **fields)
    yield turn.say("To Bern.").replace(name="guide", **fields)


@_shape("several texts")
def _(turn: TurnWriter) -> Iterator[Message]:
    yield UserMessage([TextPart("To Bern. "), TextPart("Which train?")])
    yield turn.say([TextPart("The first"), TextPart(" one.")])


@_shape("odd text")
def _(turn: TurnWriter) -> Iterator[Message]:
    # Changed by strip(), by universal newlines, and by the normal forms of Unicode.
    yield UserMessage("  Cafe\u0301,\r\n \ufb01nal\0")
    yield turn.say("\U0001f682 <|endoftext|> ")


@_shape("empty question")
def _(turn: TurnWriter) -> Iterator[Message]:
    yield UserMessage("")
    yield turn.say("How can I help?")


@_shape("instructions later on")
def _(turn: TurnWriter) -> Iterator[Message]:
    yield turn.ask()
    yield SystemMessage("Answer in English.")
    yield turn.say("At noon.")


@_shape("unknown kinds")
def _(turn: TurnWriter) -> Iterator[Message]:
    yield UserMessage([UnknownPart({"type": "poll", **_ODD_DATA})])
    yield UnknownMessage({"role": "critic", **_ODD_DATA})
    yield turn.say("At noon.")


@_shape("long text", "long")
def _(turn: TurnWriter) -> Iterator[Message]:
    yield UserMessage("where to " * (_LONG // 2))
    yield turn.say("At noon.")


@_shape("long result", "long")
def _(turn: TurnWriter) -> Iterator[Message]:
    call = turn.call("read_page", '{"page": 7}')
    yield turn.ask()
    yield turn.say("", call)
    yield turn.result(call, "A row of the table.\n" * (_LONG // 5))
    yield turn.say("It is in the table.")


# States


def add_messages(state: Aggregator, messages: Iterable[Message]) -> Aggregator:
    """*state* with *messages*, and the usage of each response under its id."""
    for message in messages:
        if isinstance(message, AssistantMessage) and message.response is not None:
            state = state.add_response(_at_usual_time(message))
        else:
            state = state.add(message)

    return state


def _at_usual_time(message: AssistantMessage) -> AssistantMessage:
    # Otherwise the ledger has the time of the run, and examples differ in each.
    return message.replace(timestamp=message.timestamp or USUAL_TIME)


def grow_state(messages: Iterable[Message]) -> Aggregator:
    """A state with *messages*, and the usage of each response under its id."""
    return add_messages(Aggregator.new(), messages)


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


def make_diamond(turn: TurnWriter, trunk: Aggregator) -> Diamond:
    """Two forks of *trunk*, in each of which a tool was called, and their join."""
    left = add_messages(trunk.fork(), _write_research(turn, "trains"))
    right = add_messages(trunk.fork(), _write_research(turn, "hotels"))
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


def _write_research(turn: TurnWriter, subject: str) -> Iterable[Message]:
    call = turn.call("search", f'{{"query": "{subject}"}}')
    if turn.usually():
        yield UserMessage(f"Look for {subject}.")

    yield turn.say("", call)
    yield turn.result(call, f"3 {subject}")
    if turn.sometimes():
        yield turn.say(f"I found {subject}.")


# What happens to a state, each under a name: from the state and a turn to write with.


def _join_both_ways(turn: TurnWriter, state: Aggregator) -> Aggregator:
    diamond = make_diamond(turn, state)
    return diamond.right.join(diamond.left).join(diamond.joined)


def _roll_back(turn: TurnWriter, state: Aggregator) -> Aggregator:
    tried = add_messages(state, [turn.ask("Book it."), turn.say("Booked twice.")])
    return tried.rollback(turn.pick(len(state), max(0, len(state) - 1)))


def _add_again(turn: TurnWriter, state: Aggregator) -> Aggregator:
    # The answer came, the connection broke, and the same response is added again.
    answer = _at_usual_time(turn.say("At noon."))
    asked = state.add(turn.ask())
    return asked.add_response(answer).rollback(asked).add_response(answer)


def _add_usage(turn: TurnWriter, state: Aggregator) -> Aggregator:
    usage = turn.pick(Usage(10, 5), Usage(3), Usage())
    key = f"{turn.pick('request', 'attempt')} {turn.number}"
    if key in {entry.id for entry in state.ledger}:
        return state

    return state.add_usage(usage, key=key, model=turn.pick("", "gpt-5"), at=USUAL_TIME)


ACTS: dict[str, Callable[[TurnWriter, Aggregator], Aggregator]] = {
    "fork": lambda _turn, state: state.fork(),
    "fork at an earlier message": lambda turn, state: state.fork(
        at=max(0, len(state) - turn.pick(1, 2, 5))
    ),
    "diamond": lambda turn, state: make_diamond(turn, state).joined,
    "diamond from both sides": _join_both_ways,
    "rollback": _roll_back,
    "retry": _add_again,
    "usage under a key": _add_usage,
    "usage without a key": lambda turn, state: state.add_usage(
        turn.pick(Usage(10, 5), Usage(3)), at=USUAL_TIME
    ),
    "response that is not recorded": lambda turn, state: state.add(
        turn.say("It was loaded, and its usage is not recorded.")
    ),
    "from another process": lambda _turn, state: unpickled(state),
    "from a store": lambda _turn, state: decoded(state),
}
"""What happens to states: functions from a state, and a turn to write with."""
