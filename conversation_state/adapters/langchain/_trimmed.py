"""
What a model gets to see of LangChain's messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from conversation_state.adapters._langchain import dump_message, weighed
from conversation_state.trimming import TrimContext, Trimmer

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

__all__ = ["checked_trimmer", "shown", "trimmed"]


def checked_trimmer(trimmer: object) -> Trimmer:
    """
    *trimmer* if it is one.
    """
    if not isinstance(trimmer, Trimmer):
        msg = (
            f"{trimmer!r:.80} is no Trimmer; make one of a budget and steps, as in "
            "Trimmer(TokenBudget(context_window=8_000), fit())"
        )
        raise TypeError(msg)

    return trimmer


def trimmed(messages: Iterable[BaseMessage], trimmer: Trimmer) -> list[BaseMessage]:
    """
    What *trimmer* leaves of LangChain's *messages*.

    Those it leaves as they are, are the very objects given, whatever their
    class is and whatever stands beside what they say. In place of
    LangChain's ``trim_messages``; a step of a chain it becomes by
    ``RunnableLambda(lambda messages: trimmed(messages, trimmer))``.

    Raises:
        DecodeError:
            If one of them is no message of LangChain's.

        BudgetExceededError, InvalidTranscriptError:
            As the trimmer's steps say.

    >>> from conversation_state.counting import TokenBudget
    >>> from langchain_core.messages import AIMessage, HumanMessage
    >>> talk = [HumanMessage("Hello there, my friend!"), AIMessage("Hi.")]
    >>> [m.text for m in trimmed([*talk, HumanMessage("Bye.")], Trimmer(
    ...     TokenBudget(context_window=3)))]
    ['Hi.', 'Bye.']
    """
    given = list(messages)
    ours = [weighed(message) for message in given]
    view = checked_trimmer(trimmer)(ours)
    return [
        given[element.seq]
        if element.message is ours[element.seq]
        else dump_message(element.message)
        for element in view.elements
    ]


def shown(view: TrimContext) -> list[Any]:
    """
    The messages of *view*, as LangChain's.
    """
    found = [dump_message(message) for message in view.messages]
    return [message for message in found if message is not None]
