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

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from conversation_state.adapters.langchain import (
    dump,
    dump_message,
    load,
    load_readable,
)
from conversation_state.hosts._host import check_trimmer, import_lazily
from conversation_state.messages import Message
from conversation_state.trimming import TrimContext, Trimmer

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from conversation_state.hosts.langchain._middleware import (
        TrimmingMiddleware,
        trimming_middleware,
    )

__all__ = ["TrimmingMiddleware", "dump", "load", "trimmed", "trimming_middleware"]


__getattr__, __dir__ = import_lazily(
    __name__,
    {"TrimmingMiddleware": "_middleware", "trimming_middleware": "_middleware"},
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
        DecodeError: If one of them is not a message of LangChain's.
        BudgetExceededError, InvalidTranscriptError: As the trimmer's steps raise them.

    >>> from conversation_state.counting import TokenBudget
    >>> from langchain_core.messages import AIMessage, HumanMessage
    >>> chat = [HumanMessage("Hello there, my friend!"), AIMessage("Hi.")]
    >>> [m.text for m in trimmed([*chat, HumanMessage("Bye.")], Trimmer(
    ...     TokenBudget(context_window=3)))]
    ['Bye.']
    """
    original = list(messages)
    ours = [load_readable(message) for message in original]
    return shown_messages(original, ours, check_trimmer(trimmer, "trimmer")(ours))


def shown_messages(
    messages: Sequence[BaseMessage], ours: Sequence[Message], view: TrimContext
) -> list[BaseMessage]:
    """
    LangChain's messages of a *view* of *ours*, which were loaded from *messages*:
    unchanged ones are those objects.
    """
    return [
        messages[element.seq]
        if element.message is ours[element.seq] and not is_only_refusal(element.message)
        else _dump_shown(element.message)
        for element in view.elements
    ]


def _dump_shown(message: Message) -> BaseMessage:
    # LangChain does not send a refusal to Chat Completions, and so an empty message,
    # which is refused.
    if is_only_refusal(message):
        message = message.replace(content=message.refusal)

    dumped: BaseMessage = dump_message(message)
    return dumped


def is_only_refusal(message: Message) -> bool:
    """Whether *message* is a refusal, with no text and no call."""
    is_sent = message.text.strip() or message.tool_calls
    return bool(message.refusal) and not is_sent
