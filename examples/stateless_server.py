"""
A server that keeps no conversation in memory: a turn is a view and two appends.

    pip install . starlette uvicorn
    python examples/stateless_server.py [STORE]
    curl -d '{"text": "Hi!"}' http://localhost:8000/ann

A turn takes the same time at any length and with any number of conversations;
`make bench ARGS=server` measures it.
"""

import sys
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from conversation_state import TokenBudget, UserMessage, open_store
from conversation_state.errors import NotSavedError, StaleHeadError
from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.usage import Usage

BUDGET = TokenBudget(context_window=8_000, max_output_tokens=1_000)


async def answer(asked: Any) -> AssistantMessage:
    """What a model says; here, what the user said."""
    meta = ResponseMeta("stop", Usage(10 * len(asked), 5))
    return AssistantMessage(f"You said: {asked[-1].text}", response=meta)


def create_app(store: Any, model: Any = answer) -> Starlette:
    """The conversations of *store*, answered by *model*."""

    async def take_turn(request: Request) -> Response:
        name, body = request.path_params["name"], await request.json()
        question = UserMessage(body["text"])
        try:
            await store.aappend(name, question)
        except NotSavedError:
            # Refused if another request began it meanwhile; the client asks again.
            await store.aappend(name, question, expecting=0)

        view = await store.aview(name, BUDGET)
        said = await model(view.messages)
        head = await store.aappend(name, said)
        return JSONResponse({"text": said.text, "revision": head.revision})

    def refuse(_request: Request, error: Exception) -> Response:
        status = 409 if isinstance(error, StaleHeadError) else 400
        return Response(f"{type(error).__name__}: {error}", status)

    kinds = StaleHeadError, LookupError, TypeError, ValueError
    refused: Any = dict.fromkeys(kinds, refuse)
    routes = [Route("/{name:path}", take_turn, methods=["POST"])]
    return Starlette(routes=routes, exception_handlers=refused)


if __name__ == "__main__":
    with open_store(sys.argv[1] if sys.argv[1:] else "chats.db") as opened:
        uvicorn.run(create_app(opened), port=8000)
