"""
A chat in the browser: streaming, stop, undo, redo, edit, regenerate, and siblings.

    pip install . httpx starlette uvicorn
    OPENAI_API_KEY=... python examples/web_chat.py

Requests and answers, in JSON; a UIMessage is the AI SDK's:

GET /                        the page; ``/?chat=ID`` for another chat than ``demo``
GET /react/                  ``examples/react/dist``, where it was built: ``index.html``
                             with ``useChat``, ``assistant.html`` with assistant-ui
POST /api/chat               {id, messages, trigger, messageId}: the answer, as a UI
                             message stream; of ``messages`` only what is new is read.
                             ``submit-message`` with the ``messageId`` of a prompt puts
                             another beside it; ``regenerate-message`` with that of an
                             answer, or of a prompt, asks again
GET /api/chat/ID/stream      the answer that streams, from its start; 204 if none does
GET /api/chat/ID             {messages: [UIMessage], siblings: {messageId: {at, ids}},
                             canUndo, canRedo, isRunning, tokens, error}: what is shown;
                             ``siblings`` only of messages that have some, ``at`` from 0
GET /api/chat/ID/events      the same as server-sent events, at once and after each
                             change, with ``after``, the id of the last message that is
                             as it was (null: none), and ``messages`` from there on
POST /api/chat/ID/undo       also ``redo`` and ``stop``: {}
POST /api/chat/ID/switch     {messageId}: show that sibling

Answers to wrong requests: 409 if a message is not there (any more), 400 for what is not
a request, 415 for what is not JSON, 403 for another host's name.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from html import escape
from operator import methodcaller
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from conversation_state import (
    Accumulator,
    Aggregator,
    Cell,
    ConversationStateError,
    MessageTree,
    SystemMessage,
    Timeline,
    TokenBudget,
    trim,
)
from conversation_state.adapters import aevents, openai_chat
from conversation_state.errors import StreamClosedError
from conversation_state.streams import Stream

OPTIONS = {"model": "gpt-5-mini", "stream": True}
OPTIONS |= {"stream_options": {"include_usage": True}}
BUDGET = TokenBudget(context_window=100_000, max_output_tokens=8_000)
PAGE = """<!doctype html><meta charset="utf-8"><title>Chat</title>
<style>body { max-width: 45em; margin: auto } p { white-space: pre-wrap }</style>
<main></main><form><input name="text" autofocus size="60"></form>
<button data-act="stop">stop</button> <button data-act="undo">undo</button>
<button data-act="redo">redo</button><script>
const [main, form] = document.querySelectorAll("main, form")
const send = body => fetch("act", {method: "POST", body: JSON.stringify(body),
    headers: {"Content-Type": "application/json"}})
new EventSource("shown").onmessage = event => main.innerHTML = JSON.parse(event.data)
form.onsubmit = event => { event.preventDefault()
    send({act: "send", id: "", text: form.text.value}); form.reset() }
document.onclick = event => { const {act, id} = event.target.dataset
    const text = act == "edit" ? prompt("Say instead") : ""
    if (act && text != null) send({act, id, text}) }</script>"""


def create_app(client: httpx.AsyncClient) -> Starlette:  # noqa: C901 - its routes
    """The chat, for a *client* of a provider that speaks OpenAI's Chat Completions."""
    start = Aggregator.new([SystemMessage("You are a helpful assistant.")])
    cell = Cell(Timeline.begin(start))
    answers: set[Stream[Any]] = set()  # those that are streaming in

    async def ask(asked: Aggregator) -> AsyncIterator[dict[str, Any]]:
        body = OPTIONS | openai_chat.dump(trim(asked, BUDGET).messages).payload
        async with client.stream("POST", "chat/completions", json=body) as response:
            response.raise_for_status()
            async for event in aevents(response.aiter_lines()):
                yield event

    async def answer(step: int, asked: Aggregator) -> None:
        received, state = Accumulator(), asked
        answers.add(events := Stream.of(ask(asked)))
        try:
            async for chunk in openai_chat.aload_chunks(events):
                received = received.add(chunk)
                state = asked.add_response(received.message)
                cell.swap(methodcaller("amend", step, state))
        except StreamClosedError:  # the stop button
            cell.swap(methodcaller("amend", step, state, "stopped"))
        except (httpx.HTTPError, ConversationStateError) as error:
            cell.swap(methodcaller("amend", step, state, str(error)))
        finally:
            answers.discard(events)

    async def act(request: Request) -> Response:
        if request.headers.get("content-type") != "application/json":
            return Response(status_code=415)  # a form on another site
        tree = MessageTree.of(cell.value)
        match await request.json():
            case {"act": "undo" | "redo" as act}:
                cell.swap(methodcaller(act))
            case {"act": "stop"}:
                for events in [*answers]:
                    events.abort()
            case {"act": "switch", "id": id}:
                cell.swap(methodcaller("commit", tree.switch(id).present))
            case {"act": "send" | "edit" | "regenerate" as act, "id": id, "text": text}:
                asked = tree.path(id).before(id) if id else tree.present
                asked = asked if act == "regenerate" else asked.add_user_prompt(text)
                step = cell.swap(methodcaller("commit", asked)).moment.number
                return Response(background=BackgroundTask(answer, step, asked))
        return Response()

    async def watch(_request: Request) -> Response:
        pages = (_render_page(timeline) async for timeline in cell.awatch())
        return StreamingResponse(pages, media_type="text/event-stream")

    return Starlette(
        routes=[
            Route("/", lambda _request: HTMLResponse(PAGE)),
            Route("/shown", watch),
            Route("/act", act, methods=["POST"]),
        ],
        exception_handlers=dict.fromkeys(
            (LookupError, TypeError, ValueError), lambda *_: Response(status_code=400)
        ),
    )


def _render_page(chat: Timeline[Aggregator]) -> str:
    tree, html = MessageTree.of(chat), []
    for id, message in chat.present.entries.iterate(1):  # after the system message
        at, ids = tree.siblings(id)
        act = "edit" if message.role == "user" else "regenerate"
        html += [f"<p>{message.role}: {escape(message.text)} ", _draw_act(act, id, act)]
        html += [_draw_act("switch", each, "‹") for each in ids[:at][-1:]]
        html += [f" {at + 1}/{len(ids)} " if len(ids) > 1 else ""]
        html += [_draw_act("switch", each, "›") for each in ids[at + 1 :][:1]]
    html += [f"<p>{escape(chat.moment.label)} {tree.total_usage.total_tokens:,} tokens"]
    return f"data: {json.dumps(''.join(html))}\n\n"


def _draw_act(act: str, id: str, words: str) -> str:
    return f'<button data-act="{act}" data-id="{escape(id)}">{words}</button>'


if __name__ == "__main__":
    if "OPENAI_API_KEY" not in os.environ:
        sys.exit("usage: OPENAI_API_KEY=... python examples/web_chat.py")
    url = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    key = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    app = create_app(httpx.AsyncClient(base_url=url, headers=key, timeout=60))
    uvicorn.run(app, host="127.0.0.1")
