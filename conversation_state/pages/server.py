"""
The live page of a store, for a browser on this machine.

Safe by what it refuses: other hosts' names, other pages' forms, requests without the
token of the address that was printed, large bodies, and all writing unless it was
allowed. A page runs no script but ours and asks nothing of any other host.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from threading import Thread
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, unquote

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from conversation_state._wording import shorten_repr
from conversation_state.counting import price
from conversation_state.errors import (
    ConversationStateError,
    NotSavedError,
    StaleHeadError,
    StoreError,
)
from conversation_state.pages._documents import make_policy, write_document
from conversation_state.pages._index import draw_names
from conversation_state.pages._live import draw_name, dump_state
from conversation_state.pages._markup import Child, Markup, Words, element
from conversation_state.pages._requests import (
    TRIMMERS,
    PageQuery,
    link_to,
    unquote_name,
)
from conversation_state.pages._search import draw_all_found
from conversation_state.rendering import render_transcript
from conversation_state.store import Head, Store
from conversation_state.usage import Usage

__all__ = ["make_app", "run_server"]

# A form of this page has a name, a label and two numbers.
_MAX_BODY = 16_384
# How long a form may take to arrive, in seconds: less than Ctrl-C waits for answers.
_READ_S = 3.0
# How often a page that follows other writers asks the store, in seconds.
_FOLLOW_S = 1.0
_MAX_DIGITS = 12


def run_server(
    store: Store,
    listener: socket.socket,
    *,
    write: bool,
    on_start: Callable[[str], object],
) -> None:
    """
    Serve the live page of *store* until Ctrl-C.

    Args:
        store: The store.
        listener: A socket that listens on a port of 127.0.0.1.
        write: Whether the store may be changed.
        on_start: Called with the address for a browser, which has the token.
    """
    token = secrets.token_urlsafe(24)
    authority = f"127.0.0.1:{listener.getsockname()[1]}"
    app = make_app(store, token=token, authority=authority, write=write)
    # No log of requests: the first one has the token in its address.
    options = uvicorn.Config(
        app,
        ws="none",
        lifespan="off",  # a second Ctrl-C would print where it was
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=5,
    )
    on_start(f"http://{authority}/?token={token}")
    _PageServer(options, app).run(sockets=[listener])


class _PageServer(uvicorn.Server):
    def __init__(self, options: uvicorn.Config, app: Starlette) -> None:
        super().__init__(options)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn waits for open answers, and one that follows a name has no end.
        self._app.state.is_ending = True
        # Nor does an answer end that no browser reads.
        for connection in self.server_state.connections:
            if connection.transport.get_write_buffer_size():
                connection.transport.abort()

        await super().shutdown(sockets)


def make_app(
    store: Store, *, token: str, authority: str, write: bool = False
) -> Starlette:
    """
    The live page of *store*, as an ASGI application.

    Args:
        store: The store; it stays open.
        token: What the first request must have as ``?token=…``; the browser keeps
            it in a cookie, so that it is in no later address.
        authority: The host and port that browsers must ask for: "127.0.0.1:7575".
        write: Whether restoring, forking, labelling and notes are allowed.
    """
    pages = _Pages(store, may_write=write)
    routes = [
        Route("/", pages.show_names),
        Route("/name/{quoted}", pages.show_name),
        Route("/export/{quoted}", pages.export),
        Route("/message/{quoted}", pages.copy),
        Route("/follow", pages.follow),
        *[
            Route(f"/{act}", pages.act, methods=["POST"], name=act)
            for act in ("restore", "fork", "label", "note")
        ],
    ]
    guard = Middleware(_Guard, token=token, authority=authority)
    explained = (ConversationStateError, LookupError, ValueError, HTTPException)
    handlers: Any = dict.fromkeys((*explained, _BadRequestError), _respond_to_error)
    app = Starlette(routes=routes, middleware=[guard], exception_handlers=handlers)
    app.state.is_ending = False
    return app


class _Guard:
    """Refuses what does not come from this page, and protects what is answered."""

    def __init__(self, app: ASGIApp, *, token: str, authority: str) -> None:
        self._app = app
        self._token = token
        self._authority = authority
        # Cookies of all ports of a host are one.
        self._cookie = f"conversation-state-{authority.rpartition(':')[2]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        request = Request(scope)
        refusal = self._check_request(request)
        if refusal is not None:
            await refusal(scope, receive, _add_headers(send))
            return

        await self._app(scope, receive, _add_headers(send))

    def _check_request(self, request: Request) -> Response | None:
        # Another name may lead here, too: its owner's page would be of the same origin.
        if request.headers.get("host") != self._authority:
            return _make_refusal(421, "This page is for its own address only.")

        given = request.query_params.get("token")
        if given is not None and request.method == "GET":
            if not secrets.compare_digest(given.encode(), self._token.encode()):
                return _make_refusal(403, _UNKNOWN_BROWSER)

            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="lax")
            return answer

        kept = request.cookies.get(self._cookie, "")
        if not secrets.compare_digest(kept.encode(), self._token.encode()):
            return _make_refusal(403, _UNKNOWN_BROWSER)

        # A cookie goes with what other pages of this host ask for, whatever their port.
        if request.method not in {"GET", "HEAD"}:
            origin = request.headers.get("origin")
            if origin != f"http://{self._authority}":
                return _make_refusal(403, "This form is of another page.")

        return None


_UNKNOWN_BROWSER = "Open the address that was printed when the server started."


def _make_refusal(status: int, problem: str) -> Response:
    return HTMLResponse(_write_problem("Refused", problem), status_code=status)


def _write_problem(title: str, problem: str, *more: Child) -> str:
    alert = element("p", {"role": "alert", "class": "cs-problem"}, problem)
    body = element("div", {"id": "content", "class": "cs-index"}, alert, more)
    return write_document(
        Markup(title), "", body, with_tree=False, is_live=True, home="/"
    )


def _add_headers(send: Send) -> Send:

    async def protected(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *_HEADERS]

        await send(message)

    return protected


_HEADERS = [
    (name.encode(), value.encode())
    for name, value in {
        "content-security-policy": make_policy(is_live=True),
        # Without any referrer browsers would not say where a form comes from.
        "referrer-policy": "same-origin",
        "x-content-type-options": "nosniff",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
    }.items()
]


class _BadRequestError(Exception):
    """A request that no form of the page makes."""


class _Pages:
    def __init__(self, store: Store, *, may_write: bool) -> None:
        self._store = store
        self._may_write = may_write
        self._words = Words()
        # Loading them takes seconds, which no page waits for.
        self._has_prices = False
        Thread(target=self._load_prices, daemon=True).start()

    def _load_prices(self) -> None:
        with suppress(ConversationStateError):
            price(Usage(1), "gpt-4o")
            self._has_prices = True

    # Starlette runs these beside the event loop, because they are not async.
    def show_names(self, request: Request) -> Response:
        given = request.query_params
        search = given.get("search", "")[:500]
        if search:
            body = draw_all_found(self._store, self._words, search)
        else:
            prefix, after = given.get("prefix", ""), given.get("after", "")
            body = draw_names(self._store, self._words, prefix=prefix, after=after)

        title, home = Markup("Conversations"), "/" if search else ""
        return HTMLResponse(
            write_document(title, "", body, with_tree=False, is_live=True, home=home)
        )

    def show_name(self, request: Request) -> Response:
        return self._respond_with_name(_read_query(request), 200)

    def _respond_with_name(
        self,
        query: PageQuery,
        status: int,
        problem: Child = None,
        typed: Mapping[str, str] = MappingProxyType({}),
    ) -> Response:
        page = draw_name(
            self._store,
            query,
            self._words,
            may_write=self._may_write,
            has_prices=self._has_prices,
            problem=problem,
            typed=typed,
        )
        text = write_document(
            page.title,
            page.facts,
            *page.content,
            with_tree=True,
            is_live=True,
            home="/",
            tools=page.tools,
        )
        return HTMLResponse(text, status_code=status)

    def export(self, request: Request) -> Response:
        query = _read_query(request)
        state = self._store.load(query.name, at=query.at)
        export = dump_state(state, query.format)
        headers = {"content-disposition": "attachment; filename=request.json"}
        return JSONResponse(export.payload, headers=headers)

    def copy(self, request: Request) -> Response:
        """One message as Markdown."""
        query = _read_query(request)
        if query.node:
            tree = self._store.message_tree(query.name)
            state = tree.switch(query.node).present
        else:
            state = self._store.load(query.name, at=query.at)

        number = query.upto or 0
        if not 0 < number <= len(state):
            raise _BadRequestError(
                f"upto is {number}; expected a message from 1 to {len(state)}"
            )

        text = render_transcript([state[number - 1]], format="markdown")
        return PlainTextResponse(text)

    async def follow(self, request: Request) -> Response:
        """
        The number and digest of the newest revision of a name, whenever they change,
        as server-sent events; ``gone`` when it is deleted.
        """
        name = unquote(request.query_params.get("quoted", ""))
        # The answer to GET does not end while the page is open.
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")

        async def events() -> AsyncIterator[str]:
            # By asking: a store does not say when another process has saved.
            last = ""
            state = request.app.state
            while not (state.is_ending or await request.is_disconnected()):
                try:
                    head = await run_in_threadpool(self._store.latest, name)
                    event = f"data: {head.revision} {head.digest}\n\n"
                except NotSavedError:
                    event = "event: gone\ndata: \n\n"
                except (StoreError, ValueError):
                    # The browser asks again, and its page says that it may be old.
                    return

                if event != last:
                    last = event
                    yield event

                await asyncio.sleep(_FOLLOW_S)

        return StreamingResponse(events(), media_type="text/event-stream")

    async def act(self, request: Request) -> Response:
        if not self._may_write:
            problem = "This page is read-only; start it with --write to change it."
            return _make_refusal(403, problem)

        try:
            async with asyncio.timeout(_READ_S):
                form = await _read_form(request)
        except TimeoutError:
            return _make_refusal(408, "This form did not arrive whole; send it again.")
        except (ValueError, ClientDisconnect):
            return _make_refusal(400, "This form is not one of this page.")

        if form is None:
            return _make_refusal(413, "This form is larger than any of this page.")

        act = request.url.path.strip("/")
        return await run_in_threadpool(self._answer_act, act, form)

    def _answer_act(self, act: str, form: dict[str, str]) -> Response:
        """What *act* led to; where it was refused, the page again with the reason."""
        try:
            return self._perform_act(act, form)
        except StaleHeadError as error:
            link = element(
                "a",
                {"href": link_to(PageQuery(error.name))},
                "Show the newest revision, then try again.",
            )
            problem: Child = ["Another save came first, so nothing was changed. ", link]
            status = 409
        except NotSavedError:
            raise
        except StoreError as error:  # a host would replace it, for example
            problem, status = str(error), 409
        except (_BadRequestError, ValueError) as error:
            problem, status = str(error), 400

        query = PageQuery(unquote(form.get("name", "")))
        with suppress(_BadRequestError):
            query = query._replace(at=_read_number(form.get("at"), "at"))

        typed = {key: form[key] for key in form.keys() & {"new", "label", "note"}}
        return self._respond_with_name(query, status, problem, typed)

    def _perform_act(self, act: str, form: dict[str, str]) -> Response:
        name, at = unquote(form.get("name", "")), _read_number(form.get("at"), "at")
        upto = _read_number(form["upto"], "upto") if "upto" in form else None
        seen = self._find_seen(name, form)
        if act == "restore":
            head = self._restore_head(name, at, upto, seen)
            query = PageQuery(name, head.revision)
        elif act == "fork":
            new = form.get("new", "")
            try:
                head = self._fork_head(name, new, at, upto, seen)
                query = PageQuery(head.name)
            except StaleHeadError as error:
                if error.name != new:
                    raise

                raise _BadRequestError(
                    f"There is a name {shorten_repr(new)} already; choose another."
                ) from None
        elif act == "label":
            text = form.get("label", "")
            self._store.label(name, text, at=at, expecting=seen)
            query = PageQuery(name, at)
        else:
            note = {"note": form.get("note") or None}
            self._store.annotate(name, note, at=at, expecting=seen)
            query = PageQuery(name, at)

        return RedirectResponse(link_to(query), status_code=303)

    def _restore_head(self, name: str, at: int, upto: int | None, seen: Head) -> Head:
        if upto is None:
            return self._store.rollback(name, at, expecting=seen)

        state = self._store.load(name, at=at)
        return self._store.save(name, state.rollback(upto), expecting=seen)

    def _fork_head(
        self, name: str, new: str, at: int, upto: int | None, seen: Head
    ) -> Head:
        if upto is None:
            return self._store.fork(name, new, at=at, expecting=seen)

        state = self._store.load(name, at=at)
        return self._store.save(new, state.fork(at=upto), expecting=0)

    def _find_seen(self, name: str, form: dict[str, str]) -> Head:
        """
        The newest revision, if it is the one that the form was drawn from. A name that
        was deleted and saved again may have another with the same number.
        """
        seen = _read_number(form.get("seen"), "seen")
        newest = self._store.latest(name)
        if (seen, form.get("digest")) != (newest.revision, newest.digest):
            raise StaleHeadError(self._store.url, name, seen, newest)

        return newest


def _respond_to_error(_request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        problem = f"{error.detail}: no page of this address takes such a request."
        return HTMLResponse(_write_problem(error.detail, problem), error.status_code)

    if isinstance(error, (NotSavedError, LookupError)):
        return HTMLResponse(_write_problem("Not saved", str(error)), 404)

    if isinstance(error, StoreError):  # rows are damaged, or the store is busy
        return HTMLResponse(_write_problem("The store failed", str(error)), 500)

    return HTMLResponse(_write_problem("Refused", str(error)), 400)


async def _read_form(request: Request) -> dict[str, str] | None:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MAX_BODY:
            return None

    fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=10)
    return {key: values[-1] for key, values in fields.items()}


def _read_query(request: Request) -> PageQuery:
    given = request.query_params
    trimmer = given.get("trimmer", "fit")
    if trimmer not in TRIMMERS:
        valid = ", ".join(TRIMMERS)
        raise _BadRequestError(
            f"unknown trimmer {shorten_repr(trimmer)}; valid ones are {valid}"
        )

    tree = given.get("tree", "")
    if tree not in {"", "messages", "revisions"}:
        raise _BadRequestError(
            f"unknown tree {shorten_repr(tree)}; valid ones are messages, revisions"
        )

    numbers = {
        field: _read_number(given[field], field)
        for field in ("at", "beside", "limit", "bill", "before", "until", "upto", "raw")
        if field in given
    }
    return PageQuery(
        unquote_name(request.path_params["quoted"]),
        trimmer=trimmer,
        search=given.get("search", "")[:500],
        format=given.get("format", ""),
        tree=tree,
        node=given.get("node", "")[: _MAX_DIGITS * 10],
        **numbers,
    )


def _read_number(text: str | None, field: str) -> int:
    if text is None or not re.fullmatch(rf"[1-9][0-9]{{0,{_MAX_DIGITS}}}", text):
        given = "missing" if text is None else shorten_repr(text)
        raise _BadRequestError(f"{field} is {given}; expected a number from 1 on")

    return int(text)
