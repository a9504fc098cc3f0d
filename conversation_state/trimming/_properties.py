"""
Properties: what providers require of the order of messages, each with a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from conversation_state._persistent import check_iterable
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    UserMessage,
)
from conversation_state.parts import ReasoningPart
from conversation_state.trimming._elements import check_message
from conversation_state.trimming._validity import (
    CALLS_KEEP,
    NO_OPEN_CALLS,
    RESULTS_FOLLOW,
    Flaw,
    check_pairing,
    is_awaited_result,
)

__all__ = [
    "CALLS_KEEP_RESULTS",
    "PROPERTIES",
    "REASONING_STAYS",
    "RESULTS_FOLLOW_CALLS",
    "STARTS_ON_USER",
    "SYSTEM_IN_FRONT",
    "Property",
    "group_boundaries",
]

Pairs = Iterable[tuple[int, Message]]


@attrs.frozen(repr=False)
class Property:
    """
    Something a provider requires of the order of messages.

    Attributes:
        name: Its name.

        everywhere: Whether every provider requires it. A view is valid if it
            has these (`TrimContext.problems`); others are checked on request.
    """

    name: str
    everywhere: bool = attrs.field(kw_only=True)
    _find: Callable[[Pairs], Iterator[Flaw]]
    _cuts: Callable[[Sequence[Message]], Iterator[int]]

    def holds(self, messages: Iterable[Message]) -> bool:
        """
        Whether *messages* have this property.

        Raises:
            TypeError:
                If *messages* holds something else, as for `flaws` and `safe_cuts`.
        """
        return not self.flaws(messages)

    def flaws(self, messages: Iterable[Message]) -> tuple[Flaw, ...]:
        """
        Where *messages* lack it, and what to do; ``()`` if they have it.
        """
        return tuple(self._find(enumerate(_check_messages(messages))))

    def safe_cuts(self, messages: Iterable[Message]) -> frozenset[int]:
        """
        Where *messages* can be cut in two without violating this property.

        A cut at *i* is before ``messages[i]``: 0 and ``len(messages)`` cut
        nothing, and are in. What is wrong with the messages anyway makes no
        cut unsafe.
        """
        every = _check_messages(messages)
        return frozenset({0, len(every), *self._cuts(every)})

    def __repr__(self) -> str:
        return f"<Property: {self.name}>"


def _check_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    check_iterable(messages, "messages", "Messages or a list")
    return tuple([check_message(message) for message in messages])


def _find_unpaired(name: str) -> Callable[[Pairs], Iterator[Flaw]]:
    def find(pairs: Pairs) -> Iterator[Flaw]:
        open_calls = NO_OPEN_CALLS
        for seq, message in pairs:
            open_calls, flaws = check_pairing(open_calls, seq, message)
            yield from [flaw for flaw in flaws if flaw.property == name]

    return find


def group_boundaries(messages: Sequence[Message]) -> Iterator[int]:
    """
    Where *messages* can be cut without parting a result from its call.
    """
    unsure: list[int] = []
    open_calls = NO_OPEN_CALLS
    for at, message in enumerate(messages):
        if is_awaited_result(open_calls, message):
            unsure = []
        elif message.role == "tool":
            # Safe unless another result of the same calls comes behind it.
            unsure.append(at)
        else:
            yield from unsure
            yield at
            unsure = []

        open_calls, _ = check_pairing(open_calls, at, message)

    yield from unsure


def _find_late_systems(pairs: Pairs) -> Iterator[Flaw]:
    first = -1
    for seq, message in pairs:
        if not isinstance(message, SystemMessage):
            first = seq if first < 0 else first
        elif first >= 0:
            what = (
                f"messages[{seq}] is a system message behind messages[{first}]; "
                "put it in front of all others, or make it a user's message"
            )
            yield Flaw("late system message", (first, seq), what, SYSTEM_IN_FRONT.name)


def _cuts_after_systems(messages: Sequence[Message]) -> Iterator[int]:
    lead = 0
    while lead < len(messages) and isinstance(messages[lead], SystemMessage):
        lead += 1

    return iter(range(lead, len(messages)))


def _is_only_reasoning(message: Message) -> bool:
    return (
        isinstance(message, AssistantMessage)
        and not message.tool_calls
        and bool(message.parts)
        and all(isinstance(part, ReasoningPart) for part in message.parts)
    )


def _find_parted_reasoning(pairs: Pairs) -> Iterator[Flaw]:
    reasoning = -1
    for seq, message in pairs:
        if reasoning >= 0 and not isinstance(message, AssistantMessage):
            what = (
                f"messages[{reasoning}] is reasoning alone, and messages[{seq}], "
                "which follows it, isn't the assistant's; keep the reasoning with the "
                "assistant's message it led to, or drop it"
            )
            yield Flaw("parted reasoning", (reasoning, seq), what, REASONING_STAYS.name)

        reasoning = seq if _is_only_reasoning(message) else -1


def _cuts_outside_reasoning(messages: Sequence[Message]) -> Iterator[int]:
    for at, message in enumerate(messages):
        follows_reasoning = at and _is_only_reasoning(messages[at - 1])
        if not (follows_reasoning and isinstance(message, AssistantMessage)):
            yield at


def _find_wrong_start(pairs: Pairs) -> Iterator[Flaw]:
    for seq, message in pairs:
        if not isinstance(message, SystemMessage):
            if not isinstance(message, UserMessage):
                what = (
                    f"messages[{seq}] comes first and has the role "
                    f"{message.role or 'unknown'!r}; start on a user's message "
                    "(start_on_user=True)"
                )
                yield Flaw("start", (seq,), what, STARTS_ON_USER.name)

            return


def _cuts_before_users(messages: Sequence[Message]) -> Iterator[int]:
    # The loop goes backwards because a cut before system messages is as good as one
    # before the message that follows them.
    good = True
    for at in range(len(messages) - 1, -1, -1):
        if not isinstance(messages[at], SystemMessage):
            good = isinstance(messages[at], UserMessage)

        if good:
            yield at


RESULTS_FOLLOW_CALLS = Property(
    RESULTS_FOLLOW, _find_unpaired(RESULTS_FOLLOW), group_boundaries, everywhere=True
)
CALLS_KEEP_RESULTS = Property(
    CALLS_KEEP, _find_unpaired(CALLS_KEEP), group_boundaries, everywhere=True
)
SYSTEM_IN_FRONT = Property(
    "system messages stand in front",
    _find_late_systems,
    _cuts_after_systems,
    everywhere=False,
)
REASONING_STAYS = Property(
    "reasoning stays with what it led to",
    _find_parted_reasoning,
    _cuts_outside_reasoning,
    everywhere=False,
)
STARTS_ON_USER = Property(
    "the first to speak is a user",
    _find_wrong_start,
    _cuts_before_users,
    everywhere=False,
)

PROPERTIES = (
    RESULTS_FOLLOW_CALLS,
    CALLS_KEEP_RESULTS,
    SYSTEM_IN_FRONT,
    REASONING_STAYS,
    STARTS_ON_USER,
)
