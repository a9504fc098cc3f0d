"""
Views of LangChain's messages for a model.

Apart from `_history`, whose base class needs LangChain when it is imported.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from conversation_state.adapters._host import check_trimmer
from conversation_state.adapters._langchain import dump_message, load_for_view
from conversation_state.trimming import TrimContext, Trimmer

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

__all__ = ["dump_view", "trimmed"]


def trimmed(messages: Iterable[BaseMessage], trimmer: Trimmer) -> list[BaseMessage]:
    """
    The *trimmer*'s view of LangChain's *messages*.

    Unchanged messages are the objects that were passed, of any class. A trimmer
    without steps repairs, too: a call without a result is answered by an error,
    and hides no messages before it. Replaces LangChain's ``trim_messages``; in a
    chain, use ``RunnableLambda(lambda messages: trimmed(messages, trimmer))``.

    Raises:
        DecodeError:
            If one of them is not a message of LangChain's.

        BudgetExceededError, InvalidTranscriptError:
            As the trimmer's steps raise them.

    >>> from conversation_state.counting import TokenBudget
    >>> from langchain_core.messages import AIMessage, HumanMessage
    >>> chat = [HumanMessage("Hello there, my friend!"), AIMessage("Hi.")]
    >>> [m.text for m in trimmed([*chat, HumanMessage("Bye.")], Trimmer(
    ...     TokenBudget(context_window=3)))]
    ['Hi.', 'Bye.']
    """
    original = list(messages)
    ours = [load_for_view(message) for message in original]
    view = check_trimmer(trimmer, "trimmer")(ours)
    return [
        original[element.seq]
        if element.message is ours[element.seq]
        else dump_message(element.message)
        for element in view.elements
    ]


def dump_view(view: TrimContext) -> list[Any]:
    """
    The messages of *view*, as LangChain's.
    """
    found = [dump_message(message) for message in view.messages]
    return [message for message in found if message is not None]
