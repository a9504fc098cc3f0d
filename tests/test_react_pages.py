"""
The pages of `examples/web_chat.py` and `examples/react`, and that of ``docs/chat.md``,
in a real browser: two tabs of each, against the real server and a model that answers as
a test prescribes.

`make wires` builds those in React, with npm, and tries all; other runs try the page
that needs no build. Without Chromium these tests are skipped.
"""

import os
import queue
import re
import socket
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from conversation_state import AssistantMessage, open_store
from tests.test_examples import example
from tests.test_pages_browser import axe, chromium, playwright

__all__ = ["chromium"]  # a fixture

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parent.parent
REACT = ROOT / "examples" / "react"
BUILT = ["react/index.html", "react/assistant.html", "docs/"]
PATIENCE_MS = 60_000
# Counts what is mounted, and what of it are messages.
WATCH = """() => {
    window.mounted = []
    const note = (node) => node.matches?.("[data-id]") && mounted.push(node.dataset.id)
    new MutationObserver((records) => records.forEach(({ addedNodes }) =>
        addedNodes.forEach((node) => [node, ...node.querySelectorAll?.("*") ?? []]
            .forEach(note)))).observe(document.body, { childList: true, subtree: true })
}"""

is_built = pytest.mark.skipif(
    "CONVERSATION_STATE_REACT" not in os.environ,
    reason="takes a minute and needs npm: make wires builds the page and runs this",
)


class Model:
    """A model whose answers a test puts together; what it was asked."""

    def __init__(self):
        self.asked: list[list[str]] = []
        self.answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.begun: list[queue.SimpleQueue[Any]] = []

    def __call__(self, state):
        self.asked.append([each.text for each in state if each.role == "user"])
        pieces: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.begun.append(pieces)
        self.answers.put(pieces)
        return map(AssistantMessage, iter(pieces.get, None))

    def next_answer(self):
        """The queue of the pieces of the next answer, which None ends."""
        return self.answers.get(timeout=PATIENCE_MS / 1000)


@contextmanager
def serving(app):
    """The origin that *app* is served at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            app, log_level="error", ws="none", timeout_graceful_shutdown=0
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


class Tab:
    """One tab, as somebody uses it."""

    def __init__(self, page):
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def button(self, name):
        """The last button of that name."""
        return self.page.get_by_role("button", name=name, exact=True).last

    def press(self, name):
        """Press it."""
        self.page.bring_to_front()  # a click in another tab takes seconds
        self.button(name).click()

    def ask(self, text):
        self.page.get_by_role("textbox").fill(text)
        self.press("Send")

    def shows(self, *texts):
        """Return once there are as many messages, each with its text."""
        messages = self.page.locator("[data-id]")
        playwright.expect(messages).to_have_count(len(texts))
        if texts:
            playwright.expect(messages).to_contain_text(list(texts))

    def ids(self):
        """The id and the role of each message."""
        return self.page.locator("[data-id]").evaluate_all(
            "(all) => all.map(({ dataset }) => [dataset.id, dataset.role])"
        )


class Chat:
    """Two tabs of one chat, and its model."""

    def __init__(self, model, left, right, make_app, *, reads):
        self.model, self.left, self.right = model, left, right
        self.make_app = make_app
        # Whether a page reads its answer itself, beside the events that all have.
        self.reads = reads

    def answer(self, text):
        """The whole answer to what was asked."""
        pieces = self.model.next_answer()
        pieces.put(text)
        pieces.put(None)

    def show(self, *texts):
        """Return once both tabs show these messages."""
        self.left.shows(*texts)
        self.right.shows(*texts)

    def settle(self, *texts):
        """Return once nothing streams, and both show these messages with these ids."""
        for tab in (self.left, self.right):
            playwright.expect(tab.button("Stop")).to_be_disabled()
            tab.shows(*texts)
            playwright.expect(tab.page.get_by_role("alert")).to_have_text("")

        ids = self.right.ids()
        self.left.page.wait_for_function(
            """(ids) => ids === [...document.querySelectorAll("[data-id]")].map(
                ({ dataset }) => dataset.id).join()""",
            arg=",".join(id for id, _ in ids),
        )
        assert [] == self.left.errors + self.right.errors
        return ids


@pytest.fixture(scope="module")
def documented(tmp_path_factory):
    """The component of the page on chats, built."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "node_modules").symlink_to(REACT / "node_modules")
    [code] = re.findall(
        "```jsx\n(.*?)```", (ROOT / "docs/chat.md").read_text(), re.DOTALL
    )
    (folder / "main.jsx").write_text(
        f"""import {{ createRoot }} from "react-dom/client"
{code}
createRoot(document.getElementById("root")).render(<Chat id="demo" />)"""
    )
    (folder / "index.html").write_text(
        """<!doctype html><html lang="en"><title>Chat</title>
<main><h1>Chat</h1><div id="root"></div></main>
<script type="module" src="/main.jsx"></script></html>"""
    )
    build = ["npx", "vite", "build", "--base", "/docs/", "--logLevel", "error"]
    subprocess.run(build, cwd=folder, check=True)
    return folder / "dist"


@pytest.fixture(params=["", *[pytest.param(page, marks=is_built) for page in BUILT]])
def chat(request, chromium):
    """Two tabs of one page."""
    model, docs = Model(), []
    if request.param == "docs/":
        built = request.getfixturevalue("documented")
        docs.append(Mount("/docs", StaticFiles(directory=built, html=True)))

    context = chromium.new_context()
    context.set_default_timeout(PATIENCE_MS)
    playwright.expect.set_options(timeout=PATIENCE_MS)
    with open_store("memory:") as store:

        def make_app():
            app = example("web_chat").create_app(store, model)
            return Starlette(routes=[*docs, Mount("/", app)])

        with serving(make_app()) as origin:
            left, right = (Tab(context.new_page()) for _ in range(2))
            for tab in (left, right):
                tab.page.goto(f"{origin}/{request.param}")

            yield Chat(model, left, right, make_app, reads=bool(request.param))
            context.close()
            for pieces in model.begun:
                pieces.put(None)


def test_streams(chat):
    """
    Both tabs show an answer while it comes; the second one mounts nothing anew; ids are
    the same in both, after a reload, and of a server that was started anew.
    """
    with chat.left.page.expect_response("**/api/chat") as posted:
        chat.left.ask("Where to?")
        answer = chat.model.next_answer()
        answer.put("To ")

    chat.show("Where to?", "To")
    chat.right.page.evaluate(WATCH)
    for word in ("the ", "sea, ", "or ", "uphill."):
        answer.put(word)

    chat.show("Where to?", "To the sea, or uphill.")
    answer.put(None)
    ids = chat.settle("Where to?", "To the sea, or uphill.")

    assert [] == chat.right.page.evaluate("mounted")
    assert ["user", "assistant"] == [role for _, role in ids]
    if chat.reads:
        assert f'"messageId":"{ids[1][0]}"' in posted.value.text()

    found = axe.Axe().run(chat.left.page)
    assert 0 == found.violations_count, found.generate_report()

    chat.left.page.reload()
    assert ids == chat.settle("Where to?", "To the sea, or uphill.")

    with serving(chat.make_app()) as origin:
        chat.right.page.goto(origin + chat.right.page.evaluate("location.pathname"))
        assert ids == chat.settle("Where to?", "To the sea, or uphill.")
        chat.right.page.goto("about:blank")


def test_reload_while_it_streams(chat):
    """A reloaded tab reads the answer from its start, and goes on with it."""
    chat.left.ask("Where to?")
    answer = chat.model.next_answer()
    answer.put("To the ")
    chat.show("Where to?", "To the")
    ids = chat.right.ids()
    read = "**/stream" if chat.reads else "**/events"
    with chat.left.page.expect_response(read) as resumed:
        chat.left.page.reload()

    assert 200 == resumed.value.status
    chat.show("Where to?", "To the")
    answer.put("sea.")
    chat.show("Where to?", "To the sea.")
    answer.put(None)

    assert ids == chat.settle("Where to?", "To the sea.")


def test_stop_undo_redo(chat):
    """
    What came before a stop stays; an undo while it streams, in the other tab, takes the
    answer away in both, and a redo brings it whole.
    """
    chat.left.ask("Where to?")
    answer = chat.model.next_answer()
    answer.put("To the ")
    chat.show("Where to?", "To the")
    chat.right.press("Stop")
    stopped = chat.settle("Where to?", "To the")

    chat.left.ask("And then?")
    answer = chat.model.next_answer()
    answer.put("Up ")
    chat.show("Where to?", "To the", "And then?", "Up")
    chat.right.press("Undo")
    assert stopped == chat.settle("Where to?", "To the")

    answer.put("again.")
    answer.put(None)
    chat.left.press("Redo")
    chat.settle("Where to?", "To the", "And then?", "Up again.")
    for _ in range(2):
        chat.left.press("Undo")

    assert [] == chat.settle()
    playwright.expect(chat.right.button("Undo")).to_be_disabled()
    playwright.expect(chat.right.button("Redo")).to_be_enabled()


def test_edit_regenerate_switch(chat):
    """Other prompts and answers stand beside the old ones, with their old ids."""
    chat.left.ask("In May?")
    chat.answer("Sea.")
    first = chat.settle("In May?", "Sea.")
    chat.right.press("Regenerate")
    chat.answer("Hills.")
    second = chat.settle("In May?", "Hills.")
    chat.show("In May?", "2/2")
    assert first[0] == second[0]
    assert first[1] != second[1]

    chat.left.press("Edit")
    box = chat.left.page.get_by_role("textbox")
    playwright.expect(box).to_have_value("In May?")
    chat.left.ask("In June?")
    chat.answer("Lakes.")
    edited = chat.settle("In June?", "Lakes.")
    chat.show("2/2", "Lakes.")
    assert edited[0] != first[0]

    chat.left.press("Previous")
    assert second == chat.settle("In May?", "Hills.")
    chat.right.press("Previous")
    assert first == chat.settle("In May?", "Sea.")
    chat.left.press("Next")
    assert second == chat.settle("In May?", "Hills.")
    chat.left.ask("And then?")
    chat.answer("Home.")
    chat.settle("In May?", "Hills.", "And then?", "Home.")
    chat.left.page.get_by_role("button", name="Regenerate").first.click()
    chat.answer("Rivers.")  # to the question itself
    assert first[0] == chat.settle("In May?", "Rivers.")[0]
    chat.show("In May?", "3/3")

    asked = ["In May?", "In May?", "In June?", "In May? And then?", "In May?"]
    assert asked == [" ".join(each) for each in chat.model.asked]
