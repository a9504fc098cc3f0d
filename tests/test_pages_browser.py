"""
Pages in a real browser: keys, forms, requests to other hosts, accessibility.

Where no Chromium is (``CHROMIUM=`` names one), these tests are skipped; what can be
tested without one is in `test_pages` and `test_pages_server`.
"""

import os
import shutil
import socket
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn

from conversation_state import (
    Aggregator,
    AssistantMessage,
    TokenBudget,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    trim,
)
from conversation_state.messages import make_tombstone
from conversation_state.pages import make_page
from conversation_state.pages.server import make_app
from conversation_state.store import open_store
from conversation_state.timeline import Timeline

playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe")

pytestmark = pytest.mark.integration

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
TOKEN = "a-token-of-the-test"
ASKED = Aggregator.new().add_user_prompt("Where to?").add_usage(Usage(10), model="m")
SEA = ASKED.add_assistant_message("To the sea.")
HILLS = ASKED.add_assistant_message("Uphill.")
HOSTILE = "</style><img src=https://example.org/x onerror=alert(1)>\u202e<script>"


@pytest.fixture(scope="module")
def chromium():
    """A browser."""
    with playwright.sync_playwright() as driver:
        path = CHROMIUM or driver.chromium.executable_path
        if not Path(path).exists():
            pytest.skip("no Chromium; install one, or name it in CHROMIUM")

        # Without its sandbox, which refuses to run as root in a container; no page
        # is opened that is not from here.
        try:
            browser = driver.chromium.launch(
                executable_path=path, args=["--no-sandbox"]
            )
        except playwright.Error as error:
            pytest.skip(f"{path} does not start here: {error}")

        yield browser
        browser.close()


class WatchedPage:
    """A tab, what it asked for, and what it complained about."""

    def __init__(self, tab):
        self.tab = tab
        self.complaints: list[str] = []
        self.asked: list[str] = []
        tab.on("console", lambda message: self.complaints.append(message.text))
        tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        tab.on("request", lambda request: self.asked.append(request.url))

    def check(self, origin):
        """
        Nothing was asked of another host, nothing went wrong, and the page can be
        used with a screen reader, also what is folded.
        """
        self.tab.locator("details").evaluate_all("all => all.map(o => o.open = true)")
        found = axe.Axe().run(self.tab)

        assert [] == self.complaints
        assert [] == [each for each in self.asked if not each.startswith(origin)]
        assert 0 == found.violations_count, found.generate_report()


@pytest.fixture
def tab(chromium):
    """A tab of its own."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(240_000)  # against a hang, also on a busy machine
    context.set_default_navigation_timeout(240_000)  # `wait_for_url` knows no other
    yield WatchedPage(context.new_page())
    context.close()


@contextmanager
def serving(store):
    """The address of a live page, and its origin."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        authority = f"127.0.0.1:{listener.getsockname()[1]}"
        app = make_app(store, token=TOKEN, authority=authority, write=True)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://{authority}/?token={TOKEN}"
        finally:
            # A forced exit waits for those who follow, from Python 3.12 on.
            app.state.is_ending = server.should_exit = True
            thread.join()


@pytest.fixture
def store():
    with open_store("memory:") as opened:
        opened.save("trip", ASKED)
        opened.save("trip", SEA)
        opened.rollback("trip", 1)
        opened.save("trip", HILLS)
        yield opened


class TestFiles:
    """A page in a file."""

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_opens(self, tab, tmp_path, scheme):
        """The page opens from a disk, on light and on dark, and asks for nothing."""
        timeline = Timeline.begin(ASKED, HOSTILE).commit(SEA).commit(HILLS, on=0)
        erased = make_tombstone(UserMessage("No!"), bytes(16), "a wish")
        state = timeline.present.add(erased).add_user_prompt(HOSTILE)
        view = trim(state, TokenBudget(context_window=20))
        path = tmp_path / "trip.html"
        page = make_page(timeline.commit(state), title=HOSTILE, view=view)
        path.write_text(page, encoding="utf-8")
        tab.tab.emulate_media(color_scheme=scheme)
        tab.tab.goto(path.as_uri())

        assert HOSTILE.split("\u202e", maxsplit=1)[0] in tab.tab.inner_text("h1")
        tab.check("file:")

    def test_keys(self, tab, tmp_path):
        """Arrows walk the states, and each step shows its messages."""
        timeline = Timeline.begin(ASKED).commit(SEA).commit(HILLS, on=0)
        path = tmp_path / "trip.html"
        path.write_text(make_page(timeline), encoding="utf-8")
        tab.tab.goto(path.as_uri())
        visited = []
        for _ in range(3):
            tab.tab.keyboard.press("ArrowDown")
            # The page's own word: `url` is what the driver has heard of it.
            visited.append(tab.tab.evaluate("location.hash"))

        assert ["#moment-1", "#moment-0", "#moment-0"] == visited

        tab.tab.keyboard.press("ArrowUp")
        assert "#moment-1" == tab.tab.evaluate("location.hash")
        tab.check("file:")

    def test_nobody_paints_over_anybody(self, tab, tmp_path):
        """
        Whatever characters a message has, the other messages look as they do beside a
        harmless one of the same size.
        """
        odd = "W" * 300 + "\u0300" * 500 + "\ufdfd" * 20 + "\U0001f468\u200d" * 40
        seen = []
        for text in (odd, "W" * 300):
            state = ASKED.add_assistant_message(text).add_user_prompt("After it.")
            path = tmp_path / "odd.html"
            path.write_text(make_page(state), encoding="utf-8")
            tab.tab.goto(path.as_uri())
            places = [
                *tab.tab.query_selector_all("article"),
                tab.tab.query_selector("header"),
            ]
            seen.append([places[at].screenshot() for at in (0, 2, 3)])

        assert seen[0] == seen[1]


class TestLive:
    """The live page."""

    def test_walk_restore_fork_and_label(self, tab, store):
        """
        From the list of names to a revision, which is labelled, forked and restored.
        """
        with serving(store) as address:
            page = tab.tab
            page.goto(address)
            assert "token" not in page.url
            page.click("text=trip")
            page.click("nav >> text=revision 2")
            assert "To the sea." in page.inner_text("#content")
            page.click("text=Label…")
            page.fill("input[name=label]", "sea")
            page.click("text=Label it")
            page.click("text=Fork…")
            page.fill("input[name=new]", "branch")
            page.click("text=Fork from here")
            assert "branch" == page.inner_text("h1")
            page.goto(address.partition("?")[0] + "name/trip?at=sea")
            page.goto(address.partition("?")[0] + "name/trip?at=2")
            page.click("text=Restore this revision")
            assert "To the sea." in page.inner_text("#content")
            tab.complaints = [each for each in tab.complaints if "400" not in each]
            tab.check(address.partition("?")[0])

        assert "To the sea." == store.load("trip")[-1].text
        assert "To the sea." == store.load("branch")[-1].text
        assert ("sea",) == store.latest("trip", at=2).labels

    def test_tabs_and_search(self, tab, store):
        """Tabs show what the model sees and a difference; words are found."""
        with serving(store) as address:
            page = tab.tab
            page.goto(address)
            page.click("text=trip")
            page.click("text=Model sees")
            page.fill("input[name=limit]", "1000")
            page.click("button:has-text('Show')")
            assert "The model sees 2 of 2 messages" in page.inner_text("#content")
            page.click(".cs-tabs >> text=Compare")
            page.fill("input[name=beside]", "2")
            page.click("button:has-text('Compare')")
            page.wait_for_selector("text=From revision 2 to revision 4")
            page.click("text=Bill")
            page.wait_for_selector("text=Bill by branch")
            page.keyboard.press("/")
            page.keyboard.type("uphill")
            page.keyboard.press("Enter")
            page.wait_for_selector("text=Found in 1 message")
            page.click("#content li a")
            page.wait_for_selector("article:target >> text=Uphill.")
            tab.check(address.partition("?")[0])

    def test_keys(self, tab, store):
        """Arrows walk the revisions, each step from the one that is shown."""
        with serving(store) as address:
            page = tab.tab
            page.goto(address)
            page.click("text=trip")
            # A key that is pressed while the page loads is lost.
            page.wait_for_url("**/name/trip")
            for number in (3, 2, 1):
                page.keyboard.press("ArrowDown")
                page.wait_for_url(f"**at={number}")

            # One step back leads out of the name.
            page.go_back()
            page.wait_for_selector("text=trip")
            assert "/name/" not in page.url
            tab.check(address.partition("?")[0])

    def test_one_stop_for_the_tab_key(self, tab, store):
        """The Tab key stops once in the tree, however many rows it has."""
        with serving(store) as address:
            page = tab.tab
            page.goto(address)
            page.click("text=trip")
            page.wait_for_selector(".cs-row")

            assert 1 == page.locator("main > nav .cs-row a[tabindex='0']").count()
            assert 4 == page.locator("main > nav a.cs-state").count()

    def test_the_budget(self, tab, store):
        """A slider moves the budget, and a bar leads to its message."""
        with serving(store) as address:
            page = tab.tab
            page.goto(address)
            page.goto(address.partition("?")[0] + "name/trip?limit=8000")
            page.focus(".cs-slider")
            page.keyboard.press("Home")
            page.wait_for_url("**limit=1&**")
            page.wait_for_selector("text=No valid view fits")
            page.goto(address.partition("?")[0] + "name/trip?limit=8000")
            page.click(".cs-bars a >> nth=1")
            page.wait_for_selector("article:target >> text=Uphill.")
            tab.check(address.partition("?")[0])

    def test_filter(self, tab, store):
        """The first page is filtered while one types, by names and by words."""
        store.save("other", Aggregator.new().add_user_prompt("Quite something else."))
        with serving(store) as address:
            page = tab.tab
            page.goto(address)
            rows = page.locator(".cs-names > li:visible")
            page.keyboard.press("/")
            page.keyboard.type("SOMETHING")

            assert ["other"] == [each.split()[0] for each in rows.all_inner_texts()]
            tab.check(address.partition("?")[0])

    def test_copy(self, tab, store):
        """A message is copied as Markdown."""
        with serving(store) as address:
            page = tab.tab
            page.context.grant_permissions(["clipboard-read", "clipboard-write"])
            page.goto(address)
            page.click("text=trip")
            page.hover("article >> nth=1")
            page.click("article >> nth=1 >> .cs-copy")
            page.wait_for_selector("text=copied")
            copied = page.evaluate("navigator.clipboard.readText()")

        assert "### assistant\n\n> Uphill." == copied

    def test_alternatives(self, tab, store):
        """A chat is its messages, and a click shows an alternative."""
        timeline = Timeline.begin(ASKED).commit(SEA).undo().commit(HILLS)
        store.save_timeline("chat", timeline)
        with serving(store) as address:
            page = tab.tab
            page.goto(address)
            page.click("text=chat")
            page.click("[aria-label='Previous alternative']")
            page.wait_for_selector("#content >> text=To the sea.")
            page.click("[aria-label='Next alternative']")
            page.wait_for_selector("#content >> text=Uphill.")
            tab.check(address.partition("?")[0])

    def test_another_writer(self, tab, store):
        """
        A page follows other writers; a form that was drawn before they saved changes
        nothing, and shows why.
        """
        with serving(store) as address:
            page = tab.tab
            page.goto(address)
            page.goto(address.partition("?")[0] + "name/trip?at=2")
            store.save("trip", HILLS.add_user_prompt("Why?"))
            page.wait_for_selector("text=Revision 5 was saved.")
            page.click("text=Restore this revision")
            page.wait_for_selector("text=Another save came first")
            page.click("text=Show the newest revision, then try again.")
            page.wait_for_selector("#content >> text=Why?")

        assert 5 == store.latest("trip").revision

    def test_another_conversation_of_the_name(self, tab, store):
        """
        A page says that its name was deleted and saved again, though the number is
        smaller; what is gone is not copied.
        """
        with serving(store) as address:
            page = tab.tab
            page.context.grant_permissions(["clipboard-read", "clipboard-write"])
            page.goto(address)
            # An invalid escape in an address stops no script.
            page.goto(address.partition("?")[0] + "name/trip#%")
            page.evaluate("navigator.clipboard.writeText('before')")
            store.delete("trip")
            store.save("trip", ASKED)
            page.wait_for_selector("text=Revision 1 was saved.")
            page.hover("article >> nth=1")
            page.click("article >> nth=1 >> .cs-copy")
            page.wait_for_selector("[role=alert]")
            copied = page.evaluate("navigator.clipboard.readText()")

        assert "before" == copied

    def test_the_server_is_gone(self, tab, store):
        """A page whose server ended says that it may be old."""
        with serving(store) as address:
            page = tab.tab
            page.goto(address)
            page.click("text=trip")
            page.wait_for_selector(".cs-row")

        page.wait_for_selector("text=The connection was lost: this page may be old.")

    @pytest.mark.parametrize("width", [320, 400])
    def test_narrow(self, tab, store, width):
        """On a telephone nothing is wider than the screen."""
        call = ToolCall("1", "x" * 80, f'{{"a": "{"b" * 200}"}}')
        state = HILLS.add(AssistantMessage("|a|b|\n|-|-|\n|1|2|", tool_calls=[call]))
        store.save("wide", state.add(ToolMessage("c" * 500, tool_call_id="1")))
        with serving(store) as address:
            page = tab.tab
            page.set_viewport_size({"width": width, "height": 800})
            page.goto(address)
            for asked in ("", "?limit=2000", "?bill=1", "?format=openai_chat"):
                page.goto(f"{address.partition('?')[0]}name/wide{asked}")

                assert width >= page.evaluate("document.documentElement.scrollWidth")

            tab.check(address.partition("?")[0])
