"""
A chat in the browser: streaming, stop, undo, redo, edit, regenerate, and siblings.

    pip install . httpx starlette uvicorn
    OPENAI_API_KEY=... python examples/web_chat.py [STORE]

Without a key it repeats the question. Its requests are in docs/chat.md; the pages of
``examples/react`` make them, too, and are at ``/react/`` where they were built.
"""

import asyncio
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from conversation_state import TokenBudget, open_store, trim
from conversation_state.adapters import aevents, ai_sdk, openai_chat
from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.stored_chat import ChatAnswer, ChatUpdate, StoredChat
from conversation_state.usage import Usage

HERE = Path(__file__).parent
URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
BODY = {"model": "gpt-5-mini", "stream": True}
BODY |= {"stream_options": {"include_usage": True}}
BUDGET = TokenBudget(context_window=100_000, max_output_tokens=8_000)


async def answer(asked: Any) -> Any:
    """What a model says; without a key, what the user said."""
    if not (key := os.environ.get("OPENAI_API_KEY")):
        for word in f"You said: {asked[-1].text}".split(" "):
            await asyncio.sleep(0.1)
            yield AssistantMessage(f"{word} ")
        yield AssistantMessage(response=ResponseMeta("stop", Usage(10 * len(asked), 5)))
        return
    body = openai_chat.dump(trim(asked, BUDGET).messages).payload | BODY
    headers = {"Authorization": f"Bearer {key}"}
    client = httpx.AsyncClient(base_url=URL, headers=headers, timeout=60)
    async with client, client.stream("POST", "chat/completions", json=body) as response:
        response.raise_for_status()
        async for chunk in openai_chat.aload_chunks(aevents(response.aiter_lines())):
            yield chunk


def create_app(store: Any, model: Any = answer) -> TrustedHostMiddleware:
    """The chats of *store*, answered by *model*."""
    chats: dict[str, StoredChat] = {}

    def find(id: str) -> StoredChat:
        return chats.get(id) or chats.setdefault(id, StoredChat(store, id))

    async def ask(request: Request) -> Response:
        asked = ai_sdk.load_request(await read(request))
        return stream(await find(asked.chat).aanswer(asked, model))

    async def resume(request: Request) -> Response:
        chat = find(request.path_params["id"])
        running = chat.running.get(chat.timeline.moment.number)
        return stream(running) if running else Response(status_code=204)

    async def show(request: Request) -> Response:
        updates = find(request.path_params["id"]).awatch()
        if request.url.path.endswith("events"):
            events = (ai_sdk.write_event(describe(each)) async for each in updates)
            return StreamingResponse(events, media_type="text/event-stream")
        return JSONResponse(describe(await anext(updates)))

    async def act(verb: str, request: Request) -> Response:
        body, chat = await read(request), find(request.path_params["id"])
        await getattr(chat, f"a{verb}")(*body.values())
        return Response(status_code=204)

    path = "/api/chat/{id}"
    routes: list[Any] = [
        Route("/", lambda _: FileResponse(HERE / "web_chat.html")),
        Route("/api/chat", ask, methods=["POST"]),
        *[Route(each, show) for each in (path, f"{path}/events")],
        Route(f"{path}/stream", resume),
    ]
    for verb in ("undo", "redo", "stop", "switch"):
        routes += [Route(f"{path}/{verb}", partial(act, verb), methods=["POST"])]
    if (HERE / "react/dist").exists():
        files = StaticFiles(directory=HERE / "react/dist", html=True)
        routes += [Mount("/react", files)]
    refused = dict.fromkeys((LookupError, TypeError, ValueError), refuse)
    app = Starlette(routes=routes, exception_handlers=refused)
    return TrustedHostMiddleware(app, allowed_hosts=["127.0.0.1", "localhost"])


async def read(request: Request) -> dict[str, Any]:
    """What was posted, but by a form of another site."""
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise ValueError("expected application/json")
    return dict(await request.json())


def refuse(_request: Request, error: Exception) -> Response:
    """The answer to a request that is wrong, or about what is not there any more."""
    return Response(str(error), 409 if isinstance(error, LookupError) else 400)


def stream(running: ChatAnswer) -> Response:
    """An answer from its start, for any number of readers."""
    events = ai_sdk.adump_chunks(running, message_id=running.id)
    lines = (ai_sdk.write_event(each) async for each in events)
    return StreamingResponse(lines, headers=ai_sdk.HEADERS)


def describe(update: ChatUpdate) -> dict[str, Any]:
    """What a tab draws."""
    timeline, pagers = update.timeline, update.tree.pagers()
    return {
        "after": update.after,
        "messages": ai_sdk.dump(update.entries).payload,
        "siblings": {id: {"at": at, "ids": [*ids]} for id, (at, ids) in pagers.items()},
        "canUndo": timeline.can_undo,
        "canRedo": timeline.can_redo,
        "isRunning": timeline.moment.number in update.running,
        "tokens": update.tree.total_usage.total_tokens,
        "error": timeline.moment.note.get("error", "") and "The answer failed.",
    }


if __name__ == "__main__":
    with open_store(sys.argv[1] if sys.argv[1:] else "chats.db") as store:
        uvicorn.run(create_app(store), timeout_graceful_shutdown=1)
