"""
The live page of a store in PostgreSQL, while another process writes there.
"""

import re
import socket
import threading
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from urllib.parse import urlencode

import pytest

from conversation_state import Aggregator, Usage
from conversation_state.store import open_store

uvicorn = pytest.importorskip("uvicorn", reason="needs the extra page")
server_module = pytest.importorskip("conversation_state.pages.server")

TOKEN = "a-token-of-the-test"
ASKED = Aggregator.new().add_user_prompt("Where to?").add_usage(Usage(10, 5, 15))
SEA = ASKED.add_assistant_message("To the sea.").add_usage(Usage(20, 5, 25))
HILLS = ASKED.add_assistant_message("Uphill.")


@pytest.fixture
def store(pg_url):
    """
    What the page has open.
    """
    with open_store(pg_url) as opened:
        opened.save("trip", ASKED)
        opened.save("trip", SEA, label="sea")
        opened.rollback("trip", 1)
        yield opened


@pytest.fixture
def writer(store, pg_url):
    """
    Another program.
    """
    with open_store(pg_url) as opened:
        yield opened


@pytest.fixture
def authority(store):
    """
    The host and port of a page that may change the store.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        authority = f"127.0.0.1:{listener.getsockname()[1]}"
        app = server_module.make_app(
            store, token=TOKEN, authority=authority, write=True
        )
        page = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
        thread = threading.Thread(target=page.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield authority
        finally:
            app.state.is_ending = True
            page.should_exit = True
            thread.join()


class Browser:
    """
    What a browser sends that has opened the printed address.
    """

    def __init__(self, authority):
        self._authority = authority
        self._cookie = f"conversation-state-{authority.partition(':')[2]}={TOKEN}"

    @contextmanager
    def send(self, method, path, body=None):
        connection = HTTPConnection(self._authority, timeout=300)
        headers = {"cookie": self._cookie, "origin": f"http://{self._authority}"}
        with closing(connection):
            connection.request(method, path, body, headers)
            with connection.getresponse() as answer:
                yield answer

    def show(self, path="/name/trip", **asked):
        """
        The text of a page.
        """
        with self.send("GET", f"{path}?{urlencode(asked)}") as answer:
            assert 200 == answer.status
            return re.sub("<[^>]*>", "", answer.read().decode())

    def act(self, act, **fields):
        """
        The status of a form that was sent.
        """
        with self.send("GET", "/name/trip") as answer:
            page = answer.read().decode()

        fields["digest"] = re.findall('name="digest" value="([^"]*)"', page)[0]
        with self.send("POST", f"/{act}", urlencode(fields)) as answer:
            return answer.status


@pytest.fixture
def browser(authority):
    return Browser(authority)


class TestPages:
    def test_shows(self, browser):
        """
        Names, revisions, views, differences, searches, requests and bills.
        """
        shown = browser.show()

        assert "trip" in browser.show("/")
        assert "To the sea." in browser.show(at=2)
        assert "The model sees" in browser.show(limit=1_000)
        assert "From revision 2 to revision 3" in browser.show(beside=2)
        assert "Found in 1 message" in browser.show(at=2, search="SEA")
        assert "Nothing is lost." in browser.show(format="openai_chat")
        for words in ("revision 3", "you are here", "Bill by branch", "25"):
            assert words in shown

    def test_acts(self, browser, writer):
        """
        Restore, fork, label and note change what other programs read.
        """
        fields = {"name": "trip", "at": 2}
        statuses = [
            browser.act("label", **fields, seen=3, label="kept"),
            browser.act("note", **fields, seen=3, note="good"),
            browser.act("fork", **fields, seen=3, new="again"),
            browser.act("restore", **fields, seen=3),
        ]

        assert [303] * 4 == statuses
        assert {"kept", "sea"} == {*writer.latest("trip", at=2).labels}
        assert {"note": "good"} == writer.notes("trip", at=2)
        assert "To the sea." == writer.load("again")[-1].text
        assert "To the sea." == writer.load("trip")[-1].text
        assert 40 == writer.load("trip").total_usage.total_tokens

    def test_another_writer(self, browser, writer):
        """
        A page that is open shows each save, and forms drawn before it change nothing.
        """
        with browser.send("GET", "/follow?quoted=trip") as events:
            assert b"data: 3\n" == events.readline()
            assert b"\n" == events.readline()

            writer.save("trip", HILLS.join(writer.load("trip")))

            assert b"data: 4\n" == events.readline()
            assert b"\n" == events.readline()

            fields = {"name": "trip", "at": 1, "seen": 3}
            fields |= {"new": "x", "label": "x", "note": "x"}
            for act in ("restore", "fork", "label", "note"):
                assert 409 == browser.act(act, **fields)

            writer.delete("trip")

            assert b"event: gone\n" == events.readline()

        assert () == writer.names()
