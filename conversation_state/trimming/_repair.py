"""
Repairing what crashes and clumsy trimming left: results and calls alone.
"""

from __future__ import annotations

import attrs

from conversation_state.messages import AssistantMessage, Message, ToolMessage
from conversation_state.trimming._flaws import NOBODY, RESULTS_FOLLOW, Group, pair
from conversation_state.trimming._marks import MARK
from conversation_state.trimming._shown import NOT_VALID, Instead
from conversation_state.trimming._view import Step, TrimContext

__all__ = ["repair"]

_NO_RESULT = "There is no result: this call was not answered before the talk went on."


@attrs.frozen
class _Repair:
    at_end: bool

    def __call__(self, context: TrimContext) -> TrimContext:
        group = NOBODY
        # What positions show that change; nothing means that they are dropped.
        changed: dict[int, list[Message]] = {}
        open_calls: list[Group] = []
        for seq in context._seqs():
            shown = context._at(seq)
            kept = []
            for message in shown:
                before = group
                group, flaws = pair(group, seq, message)
                if before.pending and not isinstance(message, ToolMessage):
                    open_calls.append(before)

                if not any(flaw.property == RESULTS_FOLLOW for flaw in flaws):
                    kept.append(message)

            if len(kept) < len(shown):
                changed[seq] = kept

        if self.at_end and group.pending:
            open_calls.append(group)

        for caller in open_calls:
            seq = caller.seq
            known = changed.get(seq, list(context._at(seq)))
            changed[seq] = [
                put for message in known for put in _answered(message, caller)
            ]

        gone = [seq for seq, messages in changed.items() if not messages]
        instead = {
            seq: Instead(tuple(messages))
            for seq, messages in changed.items()
            if messages
        }
        return context._removing(gone, NOT_VALID)._replacing(instead)


def _answered(message: Message, caller: Group) -> list[Message]:
    """
    *message*, and answers to those of its calls that nobody answered.
    """
    if not isinstance(message, AssistantMessage) or not message.tool_calls:
        return [message]

    open_calls = {
        call.id: call for call in message.tool_calls if call.id in caller.pending
    }
    # A result must say which call it answers, and can't to a call without id.
    if open_calls.pop("", None) is not None:
        calls = [call for call in message.tool_calls if call.id]
        if not (calls or message.parts):
            return []

        message = message.replace(tool_calls=calls)

    mark = {MARK: {"synthetic": True}}
    return [
        message,
        *[
            ToolMessage(
                _NO_RESULT,
                tool_call_id=call.id,
                tool_name=call.name,
                is_error=True,
                metadata=mark,
            )
            for call in open_calls.values()
        ],
    ]


def repair(*, at_end: bool = False) -> Step:
    """
    A step that leaves no result without its call, and no call unanswered.

    Results that do not directly follow the message with their call, or answer
    it again, are dropped (``not valid``). Calls that something else than a
    result follows are answered by an error that says so, marked in its
    metadata (``{"conversation_state": {"synthetic": True}}``), directly
    behind the message that makes them and at its position; where a call has
    no id to answer, the view shows the message without it. The state keeps
    all as it was.

    Doing it again changes nothing. Two calls with one id in one message stay
    what they are. O(messages kept).

    Args:
        at_end: Answer calls at the very end, too: nobody is going to run them,
            for the agent was stopped.
    """
    return _Repair(bool(at_end))
