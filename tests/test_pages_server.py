"""The live page: what it shows, who may ask, and what it changes."""

import asyncio
import html
import re
import sqlite3
import sys
from contextlib import closing
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, unquote, urljoin

import pytest
from starlette.testclient import TestClient

from conversation_state import (
    Aggregator,
    AssistantMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from conversation_state.adapters import Export, openai_chat
from conversation_state.errors import NotSavedError, StoreError
from conversation_state.pages import _live, server
from conversation_state.pages._live import NamePage
from conversation_state.pages._markup import Markup
from conversation_state.pages.server import make_app
from conversation_state.parts import ReasoningPart, TextPart
from conversation_state.store import open_store
from conversation_state.timeline import Timeline
from conversation_state.tree import MessageTree

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
    return "".join(re.findall('(?s)<nav aria-label="[RM].*?</nav>', answer.text))


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


def content_of(answer):
    """The text beside the tree of revisions."""
    assert 200 == answer.status_code
    (content,) = re.findall('(?s)<div id="content".*</main>', answer.text)
    return TextReader(content).text


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

    def test_one_revision(self, store):
        """Where there is no other revision, none can be compared."""
        client = connect(store)

        assert ">Compare</a>" in show(client, name="trip").text
        assert ">Compare</a>" not in show(client, name="<b>other</b>").text

    def test_address_of_a_changed_message(self, store):
        """A message that the model gets in other words has one address with them."""
        state = Aggregator.new().add_tool_call(ToolCall("1", "find", "{}"))
        store.save("call", state.add_user_prompt("And?"))
        page = show(connect(store), name="call", limit=500).text
        ids = re.findall(' id="([^"]*)"', page)

        assert "in other words" in page
        assert len({*ids}) == len(ids)

    def test_title(self, store):
        """The title of a conversation is the heading of its page, above its name."""
        client = connect(store)
        assert "<h1>trip</h1><p>4 messages</p>" in client.get("/name/trip").text

        store.annotate("trip", {"title": "To <Bern>"})
        page = client.get("/name/trip").text

        assert "<h1>To &lt;Bern&gt;</h1><p>trip · 4 messages</p>" in page
        assert "<title>To &lt;Bern&gt;</title>" in page

    def test_many_names(self, store):
        """A hundred names are on a page, with a link to the next."""
        for number in range(150):
            store.save(f"many {number:03}", Aggregator.new())

        client = connect(store)
        first = client.get("/", params={"prefix": "many"})
        (link,) = re.findall(r'href="(/\?prefix[^"]*)"', first.text)
        second = text_of(client.get(link.replace("&amp;", "&")))
        shown = [
            re.findall("many ([0-9]{3})", each) for each in (text_of(first), second)
        ]

        assert "More names" in text_of(first)
        assert "More names" not in second
        assert [100, 50] == [*map(len, shown)]
        assert {f"{number:03}" for number in range(150)} == {*shown[0], *shown[1]}

    def test_names_by_time(self, store, monkeypatch):
        """The name that was saved last is the first, with its title and last words."""
        store.save("zoo", Aggregator.new().add_user_prompt("A **late** question"))
        store.annotate("zoo", {"title": "The title"})
        found = store.heads(limit=10)
        later = found[-1].head.saved_at + timedelta(hours=1)
        last = found[-1]._replace(head=found[-1].head._replace(saved_at=later))
        monkeypatch.setattr(store, "heads", lambda **_: (*found[:-1], last))
        shown = text_of(connect(store).get("/"))

        assert shown.index("The title") < shown.index("trip")
        assert "user: A late question" in shown
        assert "assistant: Home." in shown

    def test_all_names_are_searched(self, store):
        """
        Words are found in all names, each hit with a link to its place; the form above
        searches on.
        """
        answer = connect(store).get("/", params={"search": "UPHILL"})
        (field,) = re.findall('<input [^>]*value="UPHILL"[^>]*>', answer.text)

        assert 'name="search"' in field
        assert "Found in 2 messages" in text_of(answer)
        assert ["/name/trip?until=3#m-3"] == links_of(answer, "/name/trip?until")
        assert 2 == answer.text.count("<mark>Uphill</mark>")

    @pytest.mark.parametrize(
        ("asked", "shown", "hidden"),
        [
            ({}, ["To the sea.", "Home."], ["Input"]),
            ({"at": 2}, ["To the sea."], ["Uphill."]),
            ({"bill": 1}, ["Bill", "Input", "no model recorded"], ["Home."]),
            (
                {"at": 3, "beside": 2},
                ["From revision 2 to revision 3", "Uphill."],
                [],
            ),
            ({"search": "THE SEA"}, ["Found in 1 message", "the sea"], ["Uphill."]),
            ({"limit": 5}, ["The model sees", "over budget"], []),
            ({"limit": 1_000}, ["up to here as in the view before"], []),
            ({"limit": 1}, ["No valid view fits"], []),
        ],
        ids=str,
    )
    def test_a_name(self, store, asked, shown, hidden):
        """
        The tree of revisions beside the newest state, and its bill; an earlier one, two
        beside each other, the messages with a word, or what a model sees.
        """
        answer = show(connect(store), name="trip", **asked)
        text = content_of(answer)

        assert [] == [words for words in shown if words not in text]
        assert [] == [words for words in hidden if words in text]
        for words in ("revision 1", "revision 4", "newest", "To the sea.", "Home."):
            assert words in TextReader(nav_of(answer)).text

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

        assert [1, 200] == [options.get("last") for options in calls]
        assert "5,800 messages before these" in shown
        assert "message 5999" in shown

    def test_older_messages(self, store):
        """Every message of a long conversation is behind the links to older ones."""
        state = Aggregator.new()
        for number in range(450):
            state = state.add_user_prompt(f"[{number}]")

        store.save("long", state)
        client = connect(store)
        answer = show(client, name="long")
        shown: list[str] = []
        while True:
            found = re.findall(r"\[([0-9]+)\]", content_of(answer))
            shown = [*found, *shown]
            older = [each for each in links_of(answer, "/name/long?until") if found]
            if "before these" not in content_of(answer):
                break

            answer = client.get(older[0])

        assert [str(number) for number in range(450)] == shown
        assert "Show the 200 messages after these" in content_of(answer)

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
        assert re.search("<em>compared</em>revision 1 ", compared.text)
        assert "style=" not in compared.text

    def test_older_revisions(self, store, monkeypatch):
        """
        What is not in the tree is behind a link, and so are the newest ones then;
        the shown revision stays.
        """
        monkeypatch.setattr(_live, "_MAX_REVISIONS", 3)
        client = connect(store)
        newest = show(client, name="trip", at=3)
        (link,) = [
            each for each in links_of(newest, "?at=3&before=") if "beside" not in each
        ]
        older = client.get(urljoin("/name/trip", link))

        assert "… and 1 older state" in text_of(newest)
        assert ["1"] == re.findall("revision ([0-9]+)", TextReader(nav_of(older)).text)
        assert "Revision 3" in text_of(older)
        assert "?at=3&before=2&beside=1" in links_of(older, "?at=3")
        assert "?at=3" in links_of(older, "?at=3")

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
        ("shown", "arguments"),
        [
            (r"to=\ud83d", r'{"to": "\ud83d"}'),
            (r"\udcab=1", r'{"\udcab": 1}'),
            ('a={"b": "\\udfff"}', r'{"a": {"b": "\udfff"}}'),
        ],
        ids=ascii,
    )
    def test_halves_of_surrogate_pairs(self, store, shown, arguments):
        """JSON can escape half a character, which no page can be encoded with."""
        call = ToolCall("call-1", "look", arguments)
        store.save("half", Aggregator.new([AssistantMessage("", tool_calls=[call])]))

        assert shown in text_of(show(connect(store), name="half"))

    def test_deep_requests(self, store, monkeypatch):
        """A request that is too deep to be laid out says so, and can be downloaded."""
        payload: list[Any] = []
        for _ in range(sys.getrecursionlimit()):
            payload = [payload]

        monkeypatch.setattr(_live, "dump_state", lambda *_: Export(payload))
        shown = text_of(show(connect(store), name="trip", format="anthropic"))

        assert "nested too deeply to be shown here. Download it." in shown

    @pytest.mark.parametrize("is_imported", [False, True])
    def test_damage(self, tmp_path, is_imported):
        """
        What is damaged hides neither other conversations nor other revisions, and is
        reported where it is; also where branches grew from no revision.
        """
        path = tmp_path / "chats.db"
        with open_store(path) as store:
            for name in ("good", "bad"):
                empty = Aggregator.new()
                state = empty.add_user_prompt("Where to?")
                head = store.save(name, state)
                if is_imported:
                    state = empty.add_user_prompt("Where else?")

                state = state.add_assistant_message("To the sea.")
                store.save(name, state, expecting=head)

        with closing(sqlite3.connect(path)) as connection, connection:
            newest = "(select max(place) from entries)"
            connection.execute(
                f"update entries set body = x'ff' where place = {newest}"
            )

        with open_store(path) as store:
            client = connect(store)
            newest, first = show(client, name="bad"), show(client, name="bad", at=1)
            found = text_of(client.get("/", params={"search": "the sea"}))

            assert "verify() lists what is damaged" in content_of(newest)
            assert "at=1" in nav_of(newest)
            assert "Where to?" in content_of(first)
            assert "Found in 1 message" in found
            assert "1 name not searched:bad: " in found
            assert 500 == show(client, name="bad", tree="messages").status_code

    def test_deleted_while_it_is_searched(self, store, monkeypatch):
        """A name that is deleted after it was listed is not found, and no fault."""
        store.save("newest", Aggregator.new())
        client, listed = connect(store), store.heads(limit=10)
        store.delete("newest")
        monkeypatch.setattr(store, "heads", lambda **_: listed)
        found = text_of(client.get("/", params={"search": "the sea"}))

        assert "Found in 2 messages" in found
        assert "not searched" not in found

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

        assert "First." in content_of(earlier)
        assert "Second." not in content_of(earlier)
        assert "From revision 1 to revision 2" in text_of(beside)
        assert {address} == {*re.findall('action="(/name[^"]*)"', page.text)}
        assert ("here",) == store.latest(name).labels

    @pytest.mark.parametrize(
        "query",
        [
            {"tree": "revisions"},
            {"tree": "messages"},
            {"search": "<" * 400, "at": 2, "limit": 5},
        ],
    )
    def test_size(self, store, query):
        """
        A page of many revisions or messages is as large whatever the name, the words
        that are searched and the labels are.
        """
        sizes = []
        for name in ("n", "<" * 500, "\U0001f30a" * 500):
            head = store.save(name, Aggregator.new())
            for number in range(100):
                prompt = Aggregator.new().add_user_prompt(f"{number}")
                head = store.save(name, prompt, expecting=head)

            nav = nav_of(show(connect(store), name=name, **query))
            # The identities of messages are counted, and so get longer.
            sizes.append(len(re.sub("[0-9a-f]{24}-[0-9a-f]+", "", nav)))

        plain = nav_of(show(connect(store), name="n", tree="revisions"))
        for number in range(200):
            store.label("n", f"{number} {'x' * 400}", at=50)

        nav = nav_of(show(connect(store), name="n", tree="revisions"))

        assert 1 == len({*sizes})
        assert 100 * 900 > sizes[0]
        assert "199 xxx" in nav
        assert "and 192 older labels" in nav
        assert len(plain) + 1_000 > len(nav)

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

    @pytest.mark.parametrize(
        ("asked", "problem"),
        [
            ({"at": "two"}, "at is 'two'; expected a number from 1 on"),
            ({"trimmer": "cut"}, "unknown trimmer 'cut'; valid ones are fit, "),
            ({"tree": "all"}, "unknown tree 'all'; valid ones are messages, revisions"),
            ({"format": "xml"}, "unknown format 'xml'; valid ones are "),
            (
                {"page": "message", "upto": "5"},
                "upto is 5; expected a message from 1 to 4",
            ),
        ],
    )
    def test_what_was_asked(self, store, asked, problem):
        """A page that is asked for something invalid says what, and what is valid."""
        answer = show(connect(store), **{"name": "trip", **asked})

        assert 400 == answer.status_code
        assert problem in html.unescape(answer.text)


class TestMessages:
    """A name as the tree of its messages."""

    @pytest.fixture
    def chat(self, store):
        asked = Timeline.begin(Aggregator.new().add_user_prompt("Where to?"))
        sea = asked.commit(asked.present.add_assistant_message("To the sea."))
        hills = sea.undo().commit(asked.present.add_assistant_message("Uphill."))
        store.save_timeline("chat", hills)
        return connect(store)

    def test_timelines(self, chat):
        """A name with a timeline is its messages, with the alternatives of each."""
        answer = show(chat, name="chat")

        assert "message 3 · assistant · 2/2" in TextReader(nav_of(answer)).text
        assert "2/2" in content_of(answer)
        assert "Uphill." in content_of(answer)
        assert "To the sea." not in content_of(answer)

    def test_imported_branches(self, store):
        """
        A name whose revisions did not grow from each other is its messages, too, but
        where its revisions are asked for.
        """
        asked = Aggregator.new().add_user_prompt("Where to?")
        texts = ("To the sea.", "Uphill.")
        states = [asked.fork().add_assistant_message(text) for text in texts]
        store.save_tree("imported", MessageTree.of(*states))
        client = connect(store)

        assert "message 3 · assistant · 2/2" in nav_of(show(client, name="imported"))
        for query in ({"at": 1}, {"before": 2}, {"tree": "revisions"}):
            shown = nav_of(show(client, name="imported", **query))
            assert "revision 1" in shown
            assert "message 3" not in shown

    @pytest.mark.parametrize("is_new", [False, True])
    def test_first_messages(self, store, is_new):
        """
        A name with two first messages is its messages if both are of one conversation,
        and its revisions if one conversation replaced another.
        """
        one = Aggregator.new()
        other = Aggregator.new() if is_new else one
        head = store.save("one", one.add_user_prompt("To the sea?"))
        store.save("one", other.add_user_prompt("Uphill?"), expecting=head)
        shown = nav_of(show(connect(store), name="one"))

        assert is_new == ("revision 1" in shown)
        assert is_new != ("message 2" in shown)

    def test_alternatives(self, chat):
        """The links at a message lead to its alternatives, and back."""
        answer = show(chat, name="chat")
        (link,) = re.findall('href="([^"]*)" aria-label="Previous', answer.text)
        other = chat.get(html.unescape(link))
        (back,) = re.findall('href="([^"]*)" aria-label="Next', other.text)

        assert "1/2" in content_of(other)
        assert "To the sea." in content_of(other)
        assert "Uphill." in content_of(chat.get(html.unescape(back)))

    def test_revisions(self, chat):
        """Its revisions are a link away, and the messages of other names, too."""
        revisions = show(chat, name="chat", tree="revisions")
        messages = show(chat, name="trip", tree="messages")

        assert "revision 1" in nav_of(revisions)
        assert "message 4 · assistant" in TextReader(nav_of(messages)).text

    def test_unknown_message(self, chat):
        """A message that is not there is reported as missing."""
        assert 404 == show(chat, name="chat", node="nothing").status_code


class TestSearch:
    """What is found."""

    def test_marks(self, store):
        """What is found is shown without ChatGPT's marks, which have no letters."""
        text = "Rye \ue200cite\ue202turn0search1\ue201, says the baker."
        store.save("it", Aggregator.new().add_assistant_message(text))
        client = connect(store)

        for answer in (
            show(client, name="it", search="baker"),
            show(client, name="it"),
        ):
            assert "Rye, says the" in TextReader(answer.text).text
            assert not re.search("[\ue200-\ue206]", answer.text)

        assert text in TextReader(show(client, name="it", raw=1).text).text

    @pytest.mark.parametrize("wanted", ["passengers", "THE PLAN", "platform 9"])
    def test_in_all_that_is_said(self, store, wanted):
        """Arguments, names of calls, results and reasoning are searched."""
        call = ToolCall("1", "find", '{"passengers": 2}')
        parts = [ReasoningPart("So the plan is this."), TextPart("Let me look.")]
        state = Aggregator.new([AssistantMessage(parts, tool_calls=[call])])
        store.save("it", state.add(ToolMessage("From platform 9.", tool_call_id="1")))
        answer = show(connect(store), name="it", search=wanted)

        assert "Found in 1 message" in content_of(answer)
        assert [wanted.casefold()] == [
            each.casefold() for each in re.findall("<mark>(.*?)</mark>", answer.text)
        ]

    def test_folded_letters(self, store):
        """
        A word that is found only with its letters folded is shown with the text around.
        """
        store.save("it", Aggregator.new().add_user_prompt("Die Straße bergauf."))
        answer = show(connect(store), name="it", search="STRASSE")
        (found,) = re.findall('(?s)<ul class="cs-found">.*?</ul>', answer.text)

        assert "user #1 Die Straße bergauf. " == TextReader(found).text

    def test_in_other_revisions(self, store):
        """The links to other revisions search there, too, unless the words are long."""
        client = connect(store)
        short, long = [
            links_of(show(client, name="trip", search=words), "?")
            for words in ("uphill", "uphill " * 10)
        ]

        assert "?search=uphill&at=2" in short
        assert "?at=2" in long

    def test_many_are_found(self, store):
        """The newest are shown, and how many others were not looked at."""
        question = UserMessage("How far is it uphill?")
        store.save("far", Aggregator.new([question] * 60))
        client = connect(store)
        newest = content_of(show(client, name="far", search="uphill"))

        assert "Found in 50 messages" in newest
        assert "10 older messages not searched" in newest
        everywhere = text_of(client.get("/", params={"search": "uphill"}))
        assert "Found in 50 messages" in everywhere
        assert re.search("[12] older names? not searched", everywhere)

    def test_other_branches(self, store):
        """A message that was left is found, and its link shows it."""
        store.rollback("trip", 1)
        client = connect(store)
        answer = show(client, name="trip", search="uphill")
        (link,) = links_of(answer, "/name/trip?until")

        assert "Uphill." in content_of(client.get(link))
        assert 'id="m-3"' in client.get(link).text


class TestFollow:
    """What a page is told of other writers."""

    def test_to_the_end(self, store, monkeypatch):
        """
        Each newest revision once, another one under a number that was used before
        too; a name that is gone, and is there again; until the store can't be read.
        """
        first = store.latest("trip", at=1)
        store.save("other", Aggregator.new().add_user_prompt("Something else."))
        other = store.latest("other")
        gone = NotSavedError(store.url, "name", "trip")
        broken = StoreError(store.url, "disk I/O error")
        answers = [first, first, other, gone, gone, other, broken]

        def latest(name):
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer

            return answer

        client = connect(store)
        monkeypatch.setattr(server, "_FOLLOW_S", 0)
        monkeypatch.setattr(store, "latest", latest)
        events = client.get("/follow", params={"quoted": "trip"}).text

        one, two = [f"data: 1 {head.digest}\n\n" for head in (first, other)]
        assert first.digest != other.digest
        assert f"{one}{two}event: gone\ndata: \n\n{two}" == events

    def test_a_page_knows_its_newest(self, store):
        """It has what it is compared with, whichever revision it shows."""
        newest = store.latest("trip")
        page = show(connect(store), name="trip", at=1).text

        assert f'data-newest="{newest.revision} {newest.digest}"' in page


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

    def test_at_a_message(self, store):
        """What came behind a message is left, with its bill, in the name or a fork."""
        client = connect(store, write=True)
        (link,) = [
            each
            for each in links_of(show(client, name="trip"), "?at=4")
            if "upto=2" in each
        ]
        page = client.get(urljoin("/name/trip", link)).text
        post(client, "fork", name="trip", at=4, seen=4, upto=2, new="branch")
        post(client, "restore", name="trip", at=4, seen=4, upto=2)

        assert "Restore to message 2" in page
        assert 'name="upto" value="2"' in page
        assert ["Where to?", "To the sea."] == [m.text for m in store.load("trip")]
        assert 45 == store.load("trip").total_usage.total_tokens
        assert store.load("trip").messages == store.load("branch").messages
        assert 5 == store.latest("trip").revision

    def test_copies(self, store):
        """A message is a link away as Markdown, in each revision and branch."""
        client = connect(store)
        (link,) = links_of(show(client, name="trip", at=2), "/message/trip?at=2&upto=2")
        answer = client.get(link)

        assert "### assistant\n\n> To the sea." == answer.text
        assert answer.headers["content-type"].startswith("text/plain")
        assert 400 == client.get(link.replace("upto=2", "upto=9")).status_code

    @pytest.mark.parametrize("act", ["restore", "fork"])
    @pytest.mark.parametrize("upto", ["0", "9", "x"])
    def test_at_no_message(self, store, act, upto):
        """A message that is not there is refused."""
        client = connect(store, write=True)
        answer = post(client, act, name="trip", at=4, seen=4, upto=upto, new="branch")

        assert 400 <= answer.status_code < 410
        assert {"trip", "<b>other</b>"} == {*store.names()}
        assert 4 == store.latest("trip").revision

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
        assert "To the sea." in answer.text
        assert act == "restore" or 'value="x"' in answer.text
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
        with monkeypatch.context() as patch:
            # The page that says what was refused reads the newest revision, too.
            patch.setattr(
                server,
                "draw_name",
                lambda *_, **__: NamePage(Markup(""), "", Markup(""), []),
            )
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

    @pytest.mark.parametrize(
        ("act", "fields", "status", "why"),
        [
            ("fork", {"new": "langgraph/mine"}, 409, "LangGraph saves its"),
            ("fork", {"new": "x" * 501}, 400, "expected 1 to 500 characters"),
            ("label", {"label": "y" * 501}, 400, "expected 1 to 500 characters"),
        ],
    )
    def test_refused_by_the_store(self, store, act, fields, status, why):
        """The page is shown again, with the reason and what was typed."""
        client = connect(store, write=True)
        answer = post(client, act, name="trip", at=2, seen=4, **fields)
        (typed,) = fields.values()

        assert status == answer.status_code
        assert why in re.findall('(?s)role="alert".*?</p>', answer.text)[0]
        assert f'value="{typed[:500]}"' in answer.text
        assert "cs-transcript" in answer.text

    def test_timelines_are_not_restored(self, store):
        """Its program writes a timeline: a form that only fails is not drawn."""
        timeline = Timeline.begin(store.load("trip", at=1))
        store.save_timeline("chat", timeline.commit(store.load("trip", at=2)))
        client = connect(store, write=True)
        head = store.latest("chat")
        cases: list[dict[str, Any]] = [{"at": 1}, {"at": 1, "upto": 1}]
        for asked in cases:
            page = show(client, name="chat", **asked).text
            answer = post(client, "restore", name="chat", seen=head.revision, **asked)

            assert 'action="/fork"' in page
            assert 'action="/restore"' not in page
            assert 409 == answer.status_code
            assert "is a timeline, which save_timeline() writes" in answer.text

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

    def test_slow_forms(self, store, monkeypatch):
        """A body that does not arrive is not waited for: it would hold up Ctrl-C."""
        monkeypatch.setattr(server, "_READ_S", 0)
        app = make_app(store, token=TOKEN, authority=AUTHORITY, write=True)
        headers = {
            "host": AUTHORITY,
            "origin": ORIGIN,
            "cookie": f"conversation-state-7575={TOKEN}",
            "content-length": "10",
        }
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/label",
            "query_string": b"",
            "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
        }
        sent: list[Any] = []

        async def receive() -> Any:
            await asyncio.Event().wait()

        async def send(message):
            sent.append(message)

        asyncio.run(app(scope, receive, send))

        assert 408 == sent[0]["status"]

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
