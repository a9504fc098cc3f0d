"""
Why a provider would refuse a run of messages.
"""

from __future__ import annotations

from typing import NamedTuple

from conversation_state.messages import AssistantMessage, Message, ToolMessage

__all__ = [
    "CALLS_KEEP",
    "DANGLING",
    "NOBODY",
    "ORPHANED",
    "REPEATED",
    "REPEATED_ID",
    "RESULTS_FOLLOW",
    "Flaw",
    "Group",
    "answers",
    "pair",
]

ORPHANED, REPEATED = "orphaned result", "repeated result"
DANGLING, REPEATED_ID = "dangling call", "repeated call id"
RESULTS_FOLLOW = "results follow their calls"
CALLS_KEEP = "answered calls keep their results"


class Flaw(NamedTuple):
    """
    Why a provider would refuse a view.

    Attributes:
        kind: ``orphaned result``, ``repeated result``, ``dangling call`` or
            ``repeated call id``; or, for properties that only some providers
            want, ``late system message``, ``parted reasoning``, ``start``.

        seqs: The positions of the messages concerned.

        what: What is wrong and what to do.

        property: The name of the `Property` that is missing.
    """

    kind: str
    seqs: tuple[int, ...]
    what: str
    property: str = ""

    def __str__(self) -> str:
        return self.what


class Group(NamedTuple):
    """
    The assistant's message whose calls the next messages answer.
    """

    seq: int
    called: frozenset[str]
    pending: frozenset[str]


NOBODY = Group(-1, frozenset(), frozenset())


def pair(group: Group, seq: int, message: Message) -> tuple[Group, tuple[Flaw, ...]]:
    """
    The group after *message*, and what is wrong with it.

    Results belong directly behind the message that made the calls: OpenAI and
    Anthropic refuse anything between the two.
    """
    if isinstance(message, ToolMessage):
        return _answer(group, seq, message.tool_call_id)

    flaws: tuple[Flaw, ...] = ()
    if group.pending:
        ids = ", ".join(sorted(map(repr, group.pending)))
        what = (
            f"messages[{group.seq}] calls {ids}, and messages[{seq}] follows before "
            "the answer; put the answer between them, or drop the call"
        )
        flaws = (Flaw(DANGLING, (group.seq, seq), what, CALLS_KEEP),)

    if not isinstance(message, AssistantMessage) or not message.tool_calls:
        return NOBODY, flaws

    called = frozenset([call.id for call in message.tool_calls])
    if len(called) < len(message.tool_calls):
        what = (
            f"messages[{seq}] makes two calls with one id, so their answers can't be "
            "told apart; give every call its own"
        )
        flaws = (*flaws, Flaw(REPEATED_ID, (seq,), what, CALLS_KEEP))

    return Group(seq, called, called), flaws


def answers(group: Group, message: Message) -> bool:
    """
    Whether *message* is the result that a call of *group* waits for.
    """
    return isinstance(message, ToolMessage) and message.tool_call_id in group.pending


def _answer(group: Group, seq: int, call_id: str) -> tuple[Group, tuple[Flaw, ...]]:
    if call_id in group.pending:
        return group._replace(pending=group.pending - {call_id}), ()

    if call_id in group.called:
        what = (
            f"messages[{seq}] answers call {call_id!r} of messages[{group.seq}] again; "
            "drop one of the answers"
        )
        return group, (Flaw(REPEATED, (group.seq, seq), what, RESULTS_FOLLOW),)

    what = (
        f"messages[{seq}] answers call {call_id!r}, which the assistant's message "
        "before it did not make; drop it, or keep the call directly before it"
    )
    return group, (Flaw(ORPHANED, (seq,), what, RESULTS_FOLLOW),)
