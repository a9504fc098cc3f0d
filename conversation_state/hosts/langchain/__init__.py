"""
LangChain: a model's view of a list of messages, and of an agent's (extra
``langchain``).

::

    model.invoke(trimmed(messages, trimmer))
    create_agent(model, tools, middleware=[trimming_middleware(trimmer)])

`trimmed` does for any list of messages what LangChain's ``trim_messages`` does, with
the steps of `conversation_state.trimming`. `adapters.langchain` documents how `load`
and `dump` convert messages. Graphs keep theirs in a store: see `hosts.langgraph`.

The module can be imported without LangChain; functions that need it raise
`MissingExtraError`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from conversation_state.adapters.langchain import dump, load
from conversation_state.hosts._host import check_trimmer, import_lazily
from conversation_state.hosts.langchain._views import load_for_view, shown_messages
from conversation_state.trimming import Trimmer

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from conversation_state.hosts.langchain._middleware import (
        TrimmingMiddleware,
        trimming_middleware,
    )

__all__ = [
    "TrimmingMiddleware",
    "dump",
    "load",
    "trimmed",
    "trimming_middleware",
]


__getattr__, __dir__ = import_lazily(
    __name__,
    {
        "TrimmingMiddleware": "_middleware",
        "trimming_middleware": "_middleware",
    },
    extra="langchain",
    needs={"langchain", "langchain_core"},
)


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
    ['Bye.']
    """
    original = list(messages)
    ours = [load_for_view(message) for message in original]
    return shown_messages(original, ours, check_trimmer(trimmer, "trimmer")(ours))
