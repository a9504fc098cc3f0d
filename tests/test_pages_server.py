"""The live page: what it shows, who may ask, and what it changes."""

import html
import re
from html.parser import HTMLParser
from urllib.parse import quote, unquote, urljoin

import pytest
from starlette.testclient import TestClient

from conversation_state import Aggregator, Usage
from conversation_state.adapters import openai_chat
from conversation_state.pages import _live
from conversation_state.pages.server import make_app
from conversation_state.store import open_store

AUTHORITY = "127.0.0.1:7575"
ORIGIN = f"http://{AUTHORITY}"
TOKEN = "a-token-of-the-test"


@pytest.fixture
def store():
    with open_store("memory:") as opened:
        state = Aggregator.new().add_user_prompt("Where to?")
        opened.save("trip", state)
        for answer in ("To the sea.", "Uphill.", "Home."):
            state = state.add_assistant_message(answer).add_usage(Usage(10, 5, 15))
            opened.save("trip", state)

        opened.save("<b>other</b>", state.fork())
        yield opened


def connect(store, *, write=False, authority=AUTHORITY):
    """A browser that has opened the printed address."""
    app = make_app(store, token=TOKEN, authority=authority, write=write)
    client = TestClient(app, base_url=f"http://{authority}", follow_redirects=False)
    answer = client.get("/", params={"token": TOKEN})

    assert (303, "/") == (answer.status_code, answer.headers["location"])
    return client


def show(client, *, name, page="name", **asked):
    """The answer of the page of a name, which is in its path."""
    quoted = quote(name, safe="").replace(".", "%2E").replace("%", "=")
    return client.get(f"/{page}/{quoted}", params=asked)


def digest_of(client, name):
    """Of the newest revision, as the forms of a page have it; "" without forms."""
    page = show(client, name=unquote(name)).text
    return "".join(re.findall('name="digest" value="([^"]*)"', page)[:1])


def post(client, act, **fields):
    if "digest" not in fields:
        fields["digest"] = digest_of(client, fields["name"])

    return client.post(f"/{act}", data=fields, headers={"origin": ORIGIN})


def links_of(answer, start):
    """The links of a page that begin with *start*."""
    links = re.findall('href="([^"]*)"', answer.text)
    return [each for each in map(html.unescape, links) if each.startswith(start)]


def nav_of(answer):
    """The tree of revisions."""
    return "".join(re.findall("(?s)<nav.*</nav>", answer.text))


class TextReader(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.text = ""
        self.feed(page)

    def handle_data(self, data):
        self.text += data


def text_of(answer):
    assert 200 == answer.status_code
    return TextReader(re.sub("(?s)<(script|style).*?</\\1>", "", answer.text)).text


class TestPages:
    """What is shown."""

    def test_names(self, store):
        """All names, as text, each with a link to its page."""
        client = connect(store)
        answer = client.get("/")

        assert "<b>other</b>" in text_of(answer)
        assert "<b>other" not in answer.text
        assert "/name/trip" in answer.text
        assert "trip" in text_of(client.get("/", params={"prefix": "tr"}))
        assert "other" not in text_of(client.get("/", params={"prefix": "tr"}))

    def test_many_names(self, store):
        """A hundred names are on a page, with a link to the next."""
        for number in range(150):
            store.save(f"many {number:03}", Aggregator.new())

        client = connect(store)
        first = client.get("/", params={"prefix": "many"})
        (link,) = re.findall(r'href="(/\?prefix[^"]*)"', first.text)
        second = text_of(client.get(link.replace("&amp;", "&")))

        assert "More names" in text_of(first)
        assert "many 100" not in text_of(first)
        assert "many 100" in second
        assert "many 149" in second

    @pytest.mark.parametrize(
        ("asked", "shown", "hidden"),
        [
            ({}, ["revision 1", "revision 4", "you are here", "Home.", "Bill"], []),
            ({"at": 2}, ["To the sea."], ["Uphill."]),
            (
                {"at": 3, "beside": 2},
                ["From revision 2 to revision 3", "Uphill."],
                [],
            ),
            ({"search": "THE SEA"}, ["Found in 1 message"], ["Uphill."]),
            ({"limit": 5}, ["The model sees", "over budget"], []),
            ({"limit": 1_000}, ["as in the view before"], []),
            ({"limit": 1}, ["No valid view fits"], []),
        ],
        ids=str,
    )
    def test_a_name(self, store, asked, shown, hidden):
        """
        The tree of revisions beside the newest state, and its bill; an earlier one, two
        beside each other, the messages with a word, or what a model sees.
        """
        text = text_of(show(connect(store), name="trip", **asked))

        assert all(words in text for words in shown)
        assert not any(words in text for words in hidden)

    def test_only_the_newest_messages_are_read(self, store):
        """Of a long conversation the end is loaded, not the whole."""
        state = Aggregator.new()
        for number in range(6_000):
            state = state.add_user_prompt(f"message {number}")

        store.save("long", state)
        load, calls = store.load, []

        def watch(name, **options):
            calls.append(options)
            return load(name, **options)

        store.load = watch
        try:
            shown = text_of(show(connect(store), name="long"))
        finally:
            del store.load

        assert [200] == [options.get("last") for options in calls]
        assert "5,800 messages before these" in shown
        assert "message 5999" in shown

    def test_choosing_what_to_compare(self, store):
        """
        Each row leads to its comparison with the shown revision, and the compared
        one is marked; nothing has styles in attributes.
        """
        client = connect(store)
        page = show(client, name="trip", at=3).text
        links = re.findall('class="cs-compare" href="([^"]*)"', page)
        compared = client.get(f"/name/trip{html.unescape(links[-1])}")

        assert 3 == len(links)
        assert "From revision 1 to revision 3" in text_of(compared)
        assert re.search("revision 1</a>[^@]{0,9}<em>compared", compared.text)
        assert "style=" not in compared.text

    def test_older_revisions(self, store, monkeypatch):
        """
        What is not in the tree is behind a link, and so are the newest ones then;
        the shown revision stays.
        """
        monkeypatch.setattr(_live, "_MAX_REVISIONS", 3)
        client = connect(store)
        newest = show(client, name="trip", at=3)
        (link,) = links_of(newest, "/name/trip?at=3&before=")
        older = client.get(link)
        (back,) = links_of(older, "/name/trip?at=3")

        assert "… and 1 older state" in text_of(newest)
        assert ["1"] == re.findall(">revision ([0-9]+)<", nav_of(older))
        assert "Revision 3" in text_of(older)
        assert ["?at=3&before=2&beside=1"] == links_of(older, "?at=3")
        assert newest.text == client.get(back).text

    def test_as_a_request(self, store):
        """A state in a provider's format, with what is lost, and as a file."""
        client = connect(store)
        asked = {"name": "trip", "at": 2, "format": "openai_chat"}
        shown = text_of(show(client, **asked))
        file = show(client, page="export", **asked)

        assert "Nothing is lost." in shown
        assert "To the sea." in shown
        assert "attachment" in file.headers["content-disposition"]
        assert openai_chat.dump(store.load("trip", at=2)).payload == file.json()
        assert (
            400 == show(client, page="export", **{**asked, "format": "x"}).status_code
        )

    @pytest.mark.parametrize(
        "name",
        [
            *(".", "a/../b", "//", "a\\b", "100%", "=2E", "%2F", "a+b", "a?b#c"),
            *("a&b;c", "a\r\nb\n", " a ", "名\U0001f30a", "e" * 500),
            *('"><i>', "\x1b[0m\u202e", "token", "name?at=1"),
        ],
    )
    def test_odd_names(self, store, name):
        """
        The list of names leads to each of them, and its page to its revisions, its
        comparisons and its own forms, whatever the name is.
        """
        for other in store.names():
            store.delete(other)

        state = Aggregator.new().add_user_prompt("First.")
        store.save(name, state)
        store.save(name, state.add_user_prompt("Second."))
        client = connect(store, write=True)
        (address,) = links_of(client.get("/"), "/name/")
        page = client.get(address)
        earlier = client.get(urljoin(address, links_of(page, "?at=1")[0]))
        beside = client.get(urljoin(address, links_of(page, "?at=2&beside=1")[0]))
        fields = re.findall('type="hidden" name="([^"]*)" value="([^"]*)"', page.text)
        post(client, "label", **dict(fields), label="here")

        assert "First." in text_of(earlier)
        assert "Second." not in text_of(earlier)
        assert "From revision 1 to revision 2" in text_of(beside)
        assert {address} == {*re.findall('action="(/name[^"]*)"', page.text)}
        assert ("here",) == store.latest(name).labels

    @pytest.mark.parametrize("query", [{}, {"search": "<" * 400, "at": 2, "limit": 5}])
    def test_size(self, store, query):
        """
        A page of many revisions is as large whatever the name, the words that are
        searched and the labels are.
        """
        sizes = []
        for name in ("n", "<" * 500, "\U0001f30a" * 500):
            head = store.save(name, Aggregator.new())
            for number in range(100):
                prompt = Aggregator.new().add_user_prompt(f"{number}")
                head = store.save(name, prompt, expecting=head)

            sizes.append(len(nav_of(show(connect(store), name=name, **query))))

        for number in range(200):
            store.label("n", f"{number} {'x' * 400}", at=50)

        nav = nav_of(show(connect(store), name="n"))

        assert 1 == len({*sizes})
        assert 100 * 600 > sizes[0]
        assert "199 xxx" in nav
        assert "and 192 older labels" in nav
        assert sizes[0] + 1_000 > len(nav)

    @pytest.mark.parametrize(
        ("asked", "status"),
        [
            ({"name": "nothing"}, 404),
            ({"name": ""}, 404),
            ({"name": "\0"}, 400),
            ({"name": "trip", "at": 99}, 404),
            ({"name": "trip", "at": "x"}, 400),
            ({"name": "trip", "limit": "-1"}, 400),
            ({"name": "trip", "limit": "9" * 50}, 400),
            ({"name": "trip", "limit": 5, "trimmer": "none"}, 400),
        ],
    )
    def test_what_is_not_there(self, store, asked, status):
        """Unknown names and revisions are reported as missing."""
        assert status == show(connect(store), **asked).status_code


class TestActs:
    """What a page changes."""

    def test_restore(self, store):
        """An earlier state is the newest again, with the whole bill."""
        answer = post(connect(store, write=True), "restore", name="trip", at=2, seen=4)

        assert "/name/trip?at=5" == answer.headers["location"]
        assert "To the sea." == store.load("trip")[-1].text
        assert 45 == store.load("trip").total_usage.total_tokens

    def test_fork_and_label(self, store):
        """A fork has its own name; a label points to its revision."""
        client = connect(store, write=True)
        post(client, "fork", name="trip", at=2, seen=4, new="branch")
        post(client, "label", name="trip", at=3, seen=4, label="hills")

        assert "To the sea." == store.load("branch")[-1].text
        assert "Uphill." == store.load("trip", at="hills")[-1].text

    def test_note(self, store):
        """A note is on its revision, until an empty one removes it."""
        client = connect(store, write=True)
        post(client, "note", name="trip", at=3, seen=4, note="<b>check</b>")
        shown = show(client, name="trip", at=3)

        assert {"note": "<b>check</b>"} == store.notes("trip", at=3)
        assert "note: <b>check</b>" in text_of(shown)

        post(client, "note", name="trip", at=3, seen=4, note="")

        assert {} == store.notes("trip", at=3)

    @pytest.mark.parametrize("act", ["restore", "fork", "label", "note"])
    def test_another_writer_was_first(self, store, act):
        """A form drawn from an older revision changes nothing and shows why."""
        answer = post(
            connect(store, write=True),
            act,
            name="trip",
            at=2,
            seen=3,
            label="x",
            note="x",
            new="x",
        )

        assert 409 == answer.status_code
        assert "Another save came first, so nothing was changed." in answer.text
        assert 4 == store.latest("trip").revision
        assert () == store.latest("trip", at=2).labels
        assert {"trip", "<b>other</b>"} == {*store.names()}

    @pytest.mark.parametrize("act", ["restore", "fork", "label", "note"])
    def test_while_another_saves(self, store, monkeypatch, act):
        """
        The newest revision is checked where the change is written: whatever the
        page read before, a save that comes between is noticed.
        """
        client = connect(store, write=True)
        digest = digest_of(client, "trip")
        latest = store.latest

        def save_after(name, **options):
            head = latest(name, **options)
            store.save(name, store.load(name).add_user_prompt("first"))
            return head

        monkeypatch.setattr(store, "latest", save_after)
        fields = {"label": "x", "note": "x", "new": "x", "digest": digest}
        answer = post(client, act, name="trip", at=2, seen=4, **fields)
        saved = latest("trip").revision

        assert {303: {4, 5} if act == "restore" else {4}, 409: {5}}[
            answer.status_code
        ] >= {saved}

    @pytest.mark.parametrize("act", ["restore", "fork", "label", "note"])
    def test_another_conversation_of_the_name(self, store, act):
        """
        Nor does a form change what was saved after its name was deleted, although
        there are as many revisions.
        """
        client = connect(store, write=True)
        digest = digest_of(client, "trip")
        store.delete("trip")
        state = Aggregator.new()
        for number in range(4):
            state = state.add_user_prompt(f"Something else {number}")
            store.save("trip", state)

        fields = {"label": "x", "note": "x", "new": "x", "digest": digest}
        answer = post(client, act, name="trip", at=2, seen=4, **fields)

        assert 409 == answer.status_code
        assert ((), {}) == (
            store.latest("trip", at=2).labels,
            store.notes("trip", at=2),
        )
        assert 4 == store.latest("trip").revision
        assert "x" not in store.names()

    def test_read_only(self, store):
        """Without being allowed to write, there are no forms, and none is taken."""
        client = connect(store)
        shown = show(client, name="trip", at=2).text

        assert 'method="post"' not in shown
        assert 403 == post(client, "restore", name="trip", at=2, seen=4).status_code
        assert 4 == store.latest("trip").revision

    @pytest.mark.parametrize(
        "fields",
        [
            {"at": "2"},
            {"at": "two", "seen": "4"},
            {"seen": "4"},
            {"at": "2", "seen": "4", "new": ""},
            {"at": "2", "seen": "4", "new": "\0"},
            {"at": "2", "seen": "4", "new": "trip"},
            {"at": "2", "seen": "4", "new": "<b>other</b>"},
            {f"field {number}": "x" for number in range(20)},
        ],
    )
    def test_bad_forms(self, store, fields):
        """A form that is not this page's changes nothing."""
        client = connect(store, write=True)

        assert 400 == post(client, "fork", name="trip", **fields).status_code
        assert {"trip", "<b>other</b>"} == {*store.names()}


class TestSafety:
    """What is refused."""

    def test_without_the_token(self, store):
        """No token, or another one, shows nothing."""
        app = make_app(store, token=TOKEN, authority=AUTHORITY, write=True)
        client = TestClient(app, base_url=ORIGIN, follow_redirects=False)

        assert 403 == client.get("/").status_code
        assert 403 == client.get("/?token=wrong").status_code
        assert 403 == client.get("/?token=\u00e9").status_code
        assert 403 == client.get("/follow?name=trip").status_code
        client.cookies.set("conversation-state-7575", "wrong")
        assert 403 == client.get("/").status_code
        assert 403 == post(client, "restore", name="trip", at=2, seen=4).status_code
        assert 4 == store.latest("trip").revision

    @pytest.mark.parametrize(
        "host", ["evil.example", "127.0.0.1", "127.0.0.1:80", "localhost:7575", ""]
    )
    def test_other_hosts(self, store, host):
        """
        Only the exact address is served: another domain name that points to this
        machine is refused.
        """
        client = connect(store)

        assert 421 == client.get("/", headers={"host": host}).status_code

    @pytest.mark.parametrize(
        "origin", ["http://evil.example", "null", ORIGIN + "/", None]
    )
    def test_other_origins(self, store, origin):
        """Forms of other pages change nothing."""
        client = connect(store, write=True)
        headers = {} if origin is None else {"origin": origin}
        fields = {"name": "trip", "at": 2, "seen": 4}
        answer = client.post("/restore", data=fields, headers=headers)

        assert 403 == answer.status_code
        assert 4 == store.latest("trip").revision

    def test_large_forms(self, store):
        """A body larger than any form is refused before it is read as a whole."""
        client = connect(store, write=True)
        large = post(client, "label", name="trip", at=2, seen=4, label="x" * 100_000)

        assert 413 == large.status_code

    def test_headers(self, store):
        """Every answer forbids what the page does not need, refusals too."""
        client = connect(store)
        for address in ("/", "/name/trip", "/name/nothing", "/nothing"):
            headers = client.get(address).headers

            assert "default-src 'none'" in headers["content-security-policy"]
            assert "unsafe" not in headers["content-security-policy"]
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert "same-origin" == headers["referrer-policy"]
            assert "nosniff" == headers["x-content-type-options"]
            assert "no-store" == headers["cache-control"]

    def test_the_cookie(self, store):
        """The token stays with the browser, and with this address."""
        app = make_app(store, token=TOKEN, authority=AUTHORITY)
        client = TestClient(app, base_url=ORIGIN, follow_redirects=False)
        cookie = client.get("/", params={"token": TOKEN}).headers["set-cookie"]

        assert cookie.startswith(f"conversation-state-7575={TOKEN};")
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
