"""The middleware: a trimmer's view in each request of LangChain's agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import BaseMessage, SystemMessage

from conversation_state.adapters.langchain import load_readable
from conversation_state.hosts._host import (
    RollingTrimmer,
    answer_all_calls,
    check_trimmer,
    run_in_thread,
)
from conversation_state.hosts.langchain import shown_messages
from conversation_state.messages import Message
from conversation_state.trimming import TrimContext, Trimmer


class TrimmingMiddleware(AgentMiddleware[Any, Any, Any]):
    """
    Sends the model a trimmer's view of the messages. `trimming_middleware` makes it.
    """

    def __init__(self, trimmer: Trimmer) -> None:
        super().__init__()
        self._views = RollingTrimmer(answer_all_calls(trimmer))

    @property
    def last_view(self) -> TrimContext | None:
        """
        The last view that was sent, of any thread, with what it `dropped`, the
        `failures` of its steps, and the `summary_responses` that are in no ledger
        yet; None before the first.
        """
        return self._views.last

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> Any:
        """
        Call the model with the messages of the view. The graph's state stays whole.
        """
        messages = _all_messages(request)
        ours = _load_all(messages)
        return handler(_with_view(request, messages, ours, self._views(ours)))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> Any:
        """
        The async twin of `wrap_model_call`, also for trimmers with steps that have to
        be awaited.
        """
        messages = _all_messages(request)
        # Loading messages would block the event loop.
        ours = await run_in_thread(_load_all, messages)
        view = await self._views.acall(ours)
        return await handler(_with_view(request, messages, ours, view))


def trimming_middleware(trimmer: Trimmer) -> TrimmingMiddleware:
    """
    A middleware for LangChain's ``create_agent``: each request has the *trimmer*'s
    view of the messages, and the graph's state keeps all of them.

    Put it behind middleware that changes the messages:
    ``create_agent(model, tools, middleware=[trimming_middleware(trimmer)])``. The
    agent's system prompt is counted and never left out. A view that a provider would
    refuse is repaired, whatever the trimmer's steps: after a crash, or a run that was
    stopped, the thread can go on. Kept messages are the objects of the state.
    O(messages) for each request.

    Raises:
        TypeError: If *trimmer* is not a `Trimmer`.
        MissingExtraError: If LangChain is not installed.
        BudgetExceededError, InvalidTranscriptError: When the model is called, as the
            trimmer's steps raise them.

    Source:
        LangChain's ``wrap_model_call``, which changes one request, where
        ``before_model`` changes the state.
    """
    return TrimmingMiddleware(check_trimmer(trimmer, "trimmer"))


def _all_messages(request: ModelRequest[Any]) -> list[BaseMessage]:
    lead = [] if request.system_message is None else [request.system_message]
    return [*lead, *request.messages]


def _load_all(messages: Sequence[BaseMessage]) -> list[Message]:
    return [load_readable(message) for message in messages]


def _with_view(
    request: ModelRequest[Any],
    messages: Sequence[BaseMessage],
    ours: Sequence[Message],
    view: TrimContext,
) -> ModelRequest[Any]:
    shown: Any = shown_messages(messages, ours, view)
    lead = request.system_message
    if lead is not None and isinstance(next(iter(shown), None), SystemMessage):
        lead, *shown = shown

    return request.override(system_message=lead, messages=shown)
