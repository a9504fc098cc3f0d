"""
The web chat in `examples`, driven as browsers would: two tabs and a model that answers
as a test prescribes.
"""

import asyncio
import json
import re
from contextlib import asynccontextmanager
from html import unescape
from typing import Any

import httpx
import pytest

from conversation_state.testing.provider import StrictProvider
from tests.test_examples import example

# Far longer than anything here takes: a page that never comes is a failure.
PATIENCE_S = 120


@pytest.fixture(scope="module")
def web():
    """The example as a module."""
    return example("web_chat")


def event(text="", **more):
    """An event of Chat Completions with a piece of text."""
    choices = [{"index": 0, "delta": {"content": text}}] if text else []
    return {"id": "c1", "model": "m", "choices": choices, **more}


class Answer(httpx.AsyncByteStream):
    """A response whose text is sent piece by piece, when the test wants it."""

    def __init__(self, number):
        self.id = f"chatcmpl-{number}"
        self.pieces: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.closed = asyncio.Event()

    def send(self, *texts):
        for text in texts:
            self.pieces.put_nowait(event(text, id=self.id))

    def end(self, tokens=7):
        usage = {"prompt_tokens": tokens, "completion_tokens": 0}
        stop = [{"index": 0, "delta": {}, "finish_reason": "stop"}]
        self.pieces.put_nowait(event(id=self.id, choices=stop))
        self.pieces.put_nowait(event(id=self.id, usage=usage))
        self.pieces.put_nowait(None)

    async def __aiter__(self):
        while (piece := await self.pieces.get()) is not None:
            yield f"data: {json.dumps(piece)}\n\n".encode()

    async def aclose(self):
        self.closed.set()


class Model(httpx.AsyncBaseTransport):
    """A provider: each request gets an `Answer`."""

    def __init__(self):
        self.requests = []
        self.answers: asyncio.Queue[Answer] = asyncio.Queue()

    async def handle_async_request(self, request):
        self.requests.append(json.loads(request.content))
        answer = Answer(len(self.requests))
        self.answers.put_nowait(answer)
        return httpx.Response(200, stream=answer)


class Tab:
    """What one tab of a browser is sent."""

    def __init__(self, app):
        self.pages: asyncio.Queue[str] = asyncio.Queue()
        self.page = ""
        self.closed = asyncio.Event()
        scope = {"type": "http", "method": "GET", "path": "/shown", "headers": []}
        self.task = asyncio.create_task(
            app(scope, self._receive_request, self._send_page)
        )

    async def _receive_request(self):
        await self.closed.wait()
        return {"type": "http.disconnect"}

    async def _send_page(self, message):
        body = message.get("body", b"").decode()
        for line in filter(None, body.splitlines()):
            self.pages.put_nowait(json.loads(line.removeprefix("data: ")))

    async def close(self):
        """Leave the page."""
        self.closed.set()
        await self.task

    async def until(self, *words, without=()):
        """The page, once it shows all *words*, in order, and none *without*."""
        pattern = ".*".join(map(re.escape, words))

        def is_shown(page):
            text = unescape(re.sub("<[^>]*>", "", page))
            return re.search(pattern, text) and not any(w in text for w in without)

        return await self._find_page(is_shown)

    async def until_page(self, page):
        """Return once it shows that very page."""
        await self._find_page(lambda shown: shown == page)

    async def _find_page(self, is_found):
        async with asyncio.timeout(PATIENCE_S):
            while not is_found(self.page):
                self.page = await self.pages.get()

        return self.page


def find_buttons(page, act):
    """The identities that the buttons of a page for *act* have."""
    return [
        unescape(id) for id in re.findall(f'data-act="{act}" data-id="(.*?)"', page)
    ]


class Browser:
    """Two tabs of one chat."""

    def __init__(self, app):
        self.app = app
        self.left, self.right = Tab(app), Tab(app)
        transport = httpx.ASGITransport(app)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://chat")
        self.requests = set()

    async def act(self, act, id="", text=""):
        """Press a button. An answer streams in afterwards, so this does not wait."""
        body = {"act": act, "id": id, "text": text}
        request = asyncio.create_task(self.client.post("/act", json=body))
        self.requests.add(request)

    async def shows(self, *words, without=()):
        """Return once both tabs show all *words*, in order, and none *without*."""
        for tab in (self.left, self.right):
            await tab.until(*words, without=without)

    async def settled(self, *words):
        """What both tabs show in the end: what a tab shows that is opened now."""
        await asyncio.gather(*self.requests)
        fresh = Tab(self.app)
        page = await fresh.until(*words)
        await fresh.close()
        for tab in (self.left, self.right):
            await tab.until_page(page)

        return page


@asynccontextmanager
async def opened(web, client):
    """A browser, closed at the end of the block."""
    async with client:
        browser = Browser(web.create_app(client))
        try:
            yield browser
        finally:
            await browser.left.close()
            await browser.right.close()
            for answer in await asyncio.gather(*browser.requests):
                assert 200 == answer.status_code

            await browser.client.aclose()


def drive(web, scenario):
    """Run *scenario* with a model and a browser."""

    async def run():
        model = Model()
        client = httpx.AsyncClient(transport=model, base_url="http://model")
        async with opened(web, client) as browser:
            return await scenario(model, browser)

    return asyncio.run(run())


async def ask(model, browser, text, answer):
    """A prompt and its whole answer."""
    await browser.act("send", text=text)
    pages = await model.answers.get()
    pages.send(answer)
    pages.end()
    return await browser.settled(text, answer)


class TestWebChat:
    def test_streams_to_both_tabs(self, web):
        """Both tabs show what has come, piece by piece, and what it cost."""

        async def scenario(model, browser):
            await browser.act("send", text="Where to?")
            answer = await model.answers.get()
            await browser.shows("Where to?")
            answer.send("To the ")
            await browser.shows("Where to?", "To the", " 0 tokens")
            answer.send("sea.")
            answer.end(tokens=7)
            await browser.settled("Where to?", "To the sea.", " 7 tokens")
            return model.requests

        [request] = drive(web, scenario)

        assert request["stream"] is True
        assert ["system", "user"] == [each["role"] for each in request["messages"]]

    def test_stop(self, web):
        """Stop ends the request; what had come stays, and the chat goes on from it."""

        async def scenario(model, browser):
            await browser.act("send", text="Where to?")
            answer = await model.answers.get()
            answer.send("To the ")
            await browser.shows("To the")
            await browser.act("stop")
            await answer.closed.wait()
            await browser.settled("To the", "stopped")
            await ask(model, browser, "Go on.", "sea.")
            return model.requests[-1]["messages"]

        sent = drive(web, scenario)

        assert ["Where to?", "To the ", "Go on."] == [
            each["content"] for each in sent[1:]
        ]

    def test_undo_while_it_streams(self, web):
        """What was undone does not come back by itself, and is whole when redone."""

        async def scenario(model, browser):
            await browser.act("send", text="Where to?")
            answer = await model.answers.get()
            answer.send("To the ")
            await browser.shows("To the")
            await browser.act("undo")
            await browser.shows("tokens", without=["Where to?"])
            answer.send("sea.")
            answer.end()
            await browser.shows(" 7 tokens", without=["Where to?"])
            await browser.act("redo")
            return await browser.settled("Where to?", "To the sea.")

        assert drive(web, scenario)

    def test_regenerate_edit_and_switch(self, web):
        """
        Another answer and another prompt stand beside the old ones, and the bill is
        that of all.
        """

        async def scenario(model, browser):
            page = await ask(model, browser, "In May?", "Sea.")
            [first] = find_buttons(page, "regenerate")
            assert [] == find_buttons(page, "switch")
            await browser.act("regenerate", first)
            answer = await model.answers.get()
            answer.send("Hills.")
            answer.end()
            page = await browser.settled("In May?", "Hills.", "2/2", " 14 tokens")
            assert [first] == find_buttons(page, "switch")
            await browser.act("switch", first)
            page = await browser.settled("In May?", "Sea.", "1/2")
            [prompt] = find_buttons(page, "edit")
            await browser.act("edit", prompt, "In June?")
            answer = await model.answers.get()
            answer.send("Lakes.")
            answer.end()
            page = await browser.settled("In June?", "2/2", "Lakes.", " 21 tokens")
            await browser.act("switch", prompt)
            await browser.settled("In May?", "1/2", "Hills.", "2/2", " 21 tokens")
            await browser.act("undo")
            await browser.settled("In June?", "Lakes.")
            return [request["messages"][1:] for request in model.requests]

        requests = drive(web, scenario)

        assert [["In May?"], ["In May?"], ["In June?"]] == [
            [each["content"] for each in messages] for messages in requests
        ]

    def test_hostile_text(self, web):
        """All content is shown as text."""

        async def scenario(model, browser):
            return await ask(model, browser, "<script>1</script>", '"><img onerror=x>')

        page = drive(web, scenario)

        assert "&lt;script&gt;1&lt;/script&gt;" in page
        assert "<img" not in page
        assert "<script" not in page

    def test_refuses(self, web):
        """
        Forms of other sites, messages that are not there, and what is not a message.
        """

        async def scenario(_model, browser):
            client = browser.client
            form = await client.post("/act", data={"act": "undo"})
            wrong = [
                await client.post("/act", json=body)
                for body in (
                    {"act": "switch", "id": "none"},
                    {"act": "switch", "id": [1]},
                    {"act": "send", "id": "", "text": 5},
                    {"act": "edit", "id": "none", "text": "Hi"},
                )
            ]
            page = await client.get("/")
            await browser.settled(" 0 tokens")
            return form, wrong, page

        form, wrong, page = drive(web, scenario)

        assert 415 == form.status_code
        assert [400] * 4 == [each.status_code for each in wrong]
        assert 200 == page.status_code
        assert "<main></main>" in page.text

    def test_a_provider_over_http(self, web):
        """The same with a server: its answer, and then its failure, which is shown."""
        usage = {"prompt_tokens": 9, "completion_tokens": 1}

        async def scenario(server):
            client = httpx.AsyncClient(base_url=server.base_url, timeout=PATIENCE_S)
            async with opened(web, client) as browser:
                await browser.act("send", text="Where to?")
                await browser.settled("Where to?", "To the sea.", " 10 tokens")
                await browser.act("send", text="And then?")
                await browser.settled("And then?", "overloaded", " 10 tokens")

        failed = {"error": {"message": "overloaded"}}
        answer = [event("To the "), event("sea."), event(usage=usage)]
        with StrictProvider([answer, [failed]]) as server:
            asyncio.run(scenario(server))

        assert ["/chat/completions"] * 2 == [each.path for each in server.requests]
