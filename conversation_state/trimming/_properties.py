"""
Properties: what providers want of the order of messages, each by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    UserMessage,
)
from conversation_state.parts import ReasoningPart
from conversation_state.trimming._flaws import (
    CALLS_KEEP,
    NOBODY,
    RESULTS_FOLLOW,
    Flaw,
    answers,
    pair,
)

__all__ = [
    "CALLS_KEEP_RESULTS",
    "PROPERTIES",
    "Property",
    "REASONING_STAYS",
    "RESULTS_FOLLOW_CALLS",
    "STARTS_ON_USER",
    "SYSTEM_IN_FRONT",
    "between_groups",
]

Pairs = Iterable[tuple[int, Message]]


@attrs.frozen(repr=False)
class Property:
    """
    Something a provider wants of the order of messages.

    Attributes:
        name: What it is called.

        everywhere: Whether every provider wants it. Those that all want make a
            view valid (`TrimContext.problems`); the others are asked for.
    """

    name: str
    everywhere: bool = attrs.field(kw_only=True)
    _find: Callable[[Pairs], Iterator[Flaw]]
    _cuts: Callable[[Sequence[Message]], Iterator[int]]

    def holds(self, messages: Iterable[Message]) -> bool:
        """
        Whether *messages* have this property.
        """
        return not any(True for _ in self._find(enumerate(messages)))

    def flaws(self, messages: Iterable[Message]) -> tuple[Flaw, ...]:
        """
        Where *messages* lack it, and what to do; ``()`` if they have it.
        """
        return tuple(self._find(enumerate(messages)))

    def safe_cuts(self, messages: Iterable[Message]) -> frozenset[int]:
        """
        Where *messages* can be cut in two without harm to this property.

        A cut at *i* is before ``messages[i]``: 0 and ``len(messages)`` cut
        nothing, and are in. What is wrong with the messages anyway makes no
        cut unsafe.
        """
        said = tuple(messages)
        return frozenset({0, len(said), *self._cuts(said)})

    def __repr__(self) -> str:
        return f"<Property: {self.name}>"


def _paired(name: str) -> Callable[[Pairs], Iterator[Flaw]]:
    def find(pairs: Pairs) -> Iterator[Flaw]:
        group = NOBODY
        for seq, message in pairs:
            group, flaws = pair(group, seq, message)
            yield from [flaw for flaw in flaws if flaw.property == name]

    return find


def between_groups(said: Sequence[Message]) -> Iterator[int]:
    """
    Where *said* can be cut without parting a result from its call.
    """
    unsure: list[int] = []
    group = NOBODY
    for at, message in enumerate(said):
        if answers(group, message):
            unsure = []
        elif message.role == "tool":
            # Safe unless another result of the group comes behind it.
            unsure.append(at)
        else:
            yield from unsure
            yield at
            unsure = []

        group, _ = pair(group, at, message)

    yield from unsure


def _late_systems(pairs: Pairs) -> Iterator[Flaw]:
    first = -1
    for seq, message in pairs:
        if not isinstance(message, SystemMessage):
            first = seq if first < 0 else first
        elif first >= 0:
            what = (
                f"messages[{seq}] is a system message, and messages[{first}] was said "
                "before it; put it in front, or let a user say it"
            )
            yield Flaw("late system message", (first, seq), what, SYSTEM_IN_FRONT.name)


def _behind_systems(said: Sequence[Message]) -> Iterator[int]:
    lead = 0
    while lead < len(said) and isinstance(said[lead], SystemMessage):
        lead += 1

    return iter(range(lead, len(said)))


def _only_thinks(message: Message) -> bool:
    return (
        isinstance(message, AssistantMessage)
        and not message.tool_calls
        and bool(message.parts)
        and all(isinstance(part, ReasoningPart) for part in message.parts)
    )


def _parted(pairs: Pairs) -> Iterator[Flaw]:
    thought = -1
    for seq, message in pairs:
        if thought >= 0 and not isinstance(message, AssistantMessage):
            what = (
                f"messages[{thought}] is reasoning alone, and messages[{seq}] follows "
                "it, which is not what came of it; keep it with the assistant's "
                "message it led to, or drop it"
            )
            yield Flaw("parted reasoning", (thought, seq), what, REASONING_STAYS.name)

        thought = seq if _only_thinks(message) else -1


def _not_behind_thoughts(said: Sequence[Message]) -> Iterator[int]:
    for at, message in enumerate(said):
        led = (
            at and _only_thinks(said[at - 1]) and isinstance(message, AssistantMessage)
        )
        if not led:
            yield at


def _starts(pairs: Pairs) -> Iterator[Flaw]:
    for seq, message in pairs:
        if not isinstance(message, SystemMessage):
            if not isinstance(message, UserMessage):
                what = (
                    f"messages[{seq}] comes first and is of the role "
                    f"{message.role or 'unknown'!r}; start on a user's message "
                    "(start_on_user=True)"
                )
                yield Flaw("start", (seq,), what, STARTS_ON_USER.name)

            return


def _at_users(said: Sequence[Message]) -> Iterator[int]:
    good = True
    for at in range(len(said) - 1, -1, -1):
        if not isinstance(said[at], SystemMessage):
            good = isinstance(said[at], UserMessage)

        if good:
            yield at


RESULTS_FOLLOW_CALLS = Property(
    RESULTS_FOLLOW, _paired(RESULTS_FOLLOW), between_groups, everywhere=True
)
CALLS_KEEP_RESULTS = Property(
    CALLS_KEEP, _paired(CALLS_KEEP), between_groups, everywhere=True
)
SYSTEM_IN_FRONT = Property(
    "system messages stand in front", _late_systems, _behind_systems, everywhere=False
)
REASONING_STAYS = Property(
    "reasoning stays with what it led to",
    _parted,
    _not_behind_thoughts,
    everywhere=False,
)
STARTS_ON_USER = Property(
    "the first to speak is a user", _starts, _at_users, everywhere=False
)

PROPERTIES = (
    RESULTS_FOLLOW_CALLS,
    CALLS_KEEP_RESULTS,
    SYSTEM_IN_FRONT,
    REASONING_STAYS,
    STARTS_ON_USER,
)
