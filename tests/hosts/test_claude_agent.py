"""Sessions of the Claude Agent SDK in a store, held against the SDK's own judges."""

import asyncio
import json
import sys
import threading
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.errors import DecodeError, NotSavedError, StoreError
from conversation_state.hosts.claude_agent import ClaudeSessionStore
from conversation_state.store import Store, open_store
from conversation_state.store.backends.memory import MemoryBackend
from conversation_state.store.records import write
from tests.hosts.contract import KEYS
from tests.later import Later
from tests.store.promises.case import Call, RecordingBackend

sdk: Any = Later("claude_agent_sdk")
sdk_testing: Any = Later("claude_agent_sdk.testing")

KEY: Any = {"project_key": "app", "session_id": "5d0b"}
AGENT: Any = {**KEY, "subpath": "subagents/agent-1"}
# A session id of the SDK's own functions is a UUID.
SESSION = "3f2b8a54-1c7e-4b6e-9c55-0a1d3f6f0b11"
TEXTS = st.text(st.characters(codec=None), max_size=5) | st.just("\ud83d\ude00")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
    ),
    max_leaves=10,
)


def line(uuid: object = None, **fields: Any) -> Any:
    return {"type": "x", **({} if uuid is None else {"uuid": uuid}), **fields}


def clear(store: Store) -> None:
    write(store, lambda rows: rows.remove(b"", None))


def conversation() -> list[Any]:
    """A session in which a question was asked in two ways."""
    rows: list[tuple[str, str | None, str, str]] = [
        ("u1", None, "user", "Fix the parser."),
        ("a1", "u1", "assistant", "Fixed."),
        ("u2", "a1", "user", "Go on."),
        ("a2", "u2", "assistant", "Gone on."),
        ("u3", "a1", "user", "Stop."),
        ("a3", "u3", "assistant", "Stopped."),
    ]
    ids = {
        name: f"00000000-0000-4000-8000-{at:012}" for at, (name, *_) in enumerate(rows)
    }
    return [
        {
            "type": role,
            "uuid": ids[name],
            "parentUuid": parent and ids[parent],
            "sessionId": SESSION,
            "timestamp": f"2026-11-0{at + 1}T00:00:00.000Z",
            "isSidechain": False,
            **({"requestId": f"req_{name}"} if role == "assistant" else {}),
            "cwd": "/app",
            "message": {
                "role": role,
                "content": [{"type": "text", "text": text}],
                **(
                    {
                        "id": f"msg_{name}",
                        "model": "claude-x",
                        "usage": {"input_tokens": 10, "output_tokens": 1},
                    }
                    if role == "assistant"
                    else {}
                ),
            },
        }
        for at, (name, parent, role, text) in enumerate(rows)
    ]


class TestConformance:
    """What the SDK asks of a store of sessions."""

    def test_contracts(self, stores):
        """All fourteen contracts of the SDK hold on every kind of store."""
        store, _ = stores
        made = []

        def make() -> Any:
            clear(store)
            made.append(ClaudeSessionStore(store))
            return made[-1]

        asyncio.run(sdk_testing.run_session_store_conformance(make))

        assert 15 == len(made)  # one to look at, and one for each contract

    def test_trio(self):
        """They hold under trio, too, which the SDK runs on."""
        made: list[Any] = []

        def make() -> Any:
            made.append(ClaudeSessionStore.from_url("memory:"))
            return made[-1]

        anyio.run(sdk_testing.run_session_store_conformance, make, backend="trio")

        assert 15 == len(made)

    def test_functions_of_the_sdk(self, store):
        """
        The SDK's functions on a store say the same as on its own store in memory: which
        branch is live, what a fork has, titles, and what is left of a deleted session.
        """

        async def use(sessions: Any) -> list[Any]:
            key: Any = {
                "project_key": sdk.project_key_for_directory("/app"),
                "session_id": SESSION,
            }
            lines = conversation()
            await sessions.append(key, lines[:3])
            await sessions.append(key, lines[3:])
            await sessions.append({**key, "subpath": "subagents/agent-7"}, lines[:2])
            options: Any = {"directory": "/app"}
            await sdk.rename_session_via_store(sessions, SESSION, "Parser", **options)
            said = await sdk.get_session_messages_from_store(
                sessions, SESSION, **options
            )
            agents = await sdk.list_subagents_from_store(sessions, SESSION, **options)
            fork = await sdk.fork_session_via_store(sessions, SESSION, **options)
            forked = await sdk.get_session_messages_from_store(
                sessions, fork.session_id, **options
            )
            listed = await sdk.list_sessions_from_store(sessions, **options)
            await sdk.delete_session_via_store(sessions, SESSION, **options)
            left = await sessions.list_sessions(key["project_key"])
            return [
                [each.message for each in said],
                agents,
                [each.message for each in forked],
                sorted((each.summary, each.cwd, each.created_at) for each in listed),
                [each["session_id"] == fork.session_id for each in left],
            ]

        expected = asyncio.run(use(sdk.InMemorySessionStore()))
        found = asyncio.run(use(ClaudeSessionStore(store)))

        assert expected == found
        assert "Go on." not in str(found[0])
        assert ["7"] == found[1]


class TestEntries:
    """Lines of a session, which stay as they are."""

    @given(entries=st.lists(st.dictionaries(TEXTS, JSON, max_size=4), max_size=4))
    def test_any_json(self, entries):
        """Any JSON objects come back equal, types and half surrogate pairs included."""
        lines: list[Any] = [{**entry, "uuid": None} for entry in entries]

        async def use() -> Any:
            async with ClaudeSessionStore.from_url("memory:") as sessions:
                await sessions.append(KEY, lines)
                return await sessions.load(KEY)

        found = asyncio.run(use())

        assert repr(lines or None) == repr(found)

    def test_odd_json(self, stores):
        """They do on every kind of store, after it was opened again."""
        odd = line(
            "u",
            text="\ud800 \0 \U0001f600",
            numbers=[2**70, -0.0, 1e-300, True, 1, 1.0, float("nan"), float("inf")],
            empty=[{}, [], "", None],
            deep=json.loads("[" * 100 + "]" * 100),
        )
        store, open_again = stores
        asyncio.run(ClaudeSessionStore(store).append(KEY, [odd, line(), odd]))

        found = asyncio.run(ClaudeSessionStore(open_again()).load(KEY))

        assert repr([odd, line()]) == repr(found)

    @pytest.mark.parametrize(
        "entry",
        [
            "text",
            None,
            {1: "one"},
            {"t": (1, 2)},
            {"b": b"bytes"},
            {"o": {1}},
        ],
        ids=repr,
    )
    def test_not_json(self, store, entry):
        """What JSON can't represent is refused by its place, and nothing is added."""
        sessions = ClaudeSessionStore(store)

        with pytest.raises(DecodeError, match=r"\$\[1\]"):
            asyncio.run(sessions.append(KEY, [line("a"), entry]))

        assert asyncio.run(sessions.load(KEY)) is None

    def test_lost_rows(self, store):
        """A transcript with a row missing is an error, and not a shorter transcript."""
        sessions = ClaudeSessionStore(store)
        asyncio.run(sessions.append(KEY, [line("a"), line("b")]))
        write(store, lambda rows: rows.remove(b"claude.e", _second_entry(rows)))

        with pytest.raises(StoreError, match="has 1 entries; 2 were added"):
            asyncio.run(sessions.load(KEY))

    def test_deleted_without_trace(self, store):
        """Deleting a session leaves no row of it, nor of its sub-agents."""
        sessions = ClaudeSessionStore(store)
        other: Any = {**KEY, "session_id": "5d0b2"}
        more: Any = {**KEY, "subpath": "subagents/agent-2"}

        async def use() -> None:
            await sessions.append(other, [line("a")])
            await sessions.append(KEY, [line("a"), line()])
            await sessions.append(AGENT, [line("a"), line()])
            await sessions.append(more, [line("a"), line()])
            await sessions.delete(more)
            assert 8 == len(write(store, lambda rows: rows.keys(b"", None)))
            await sessions.delete(KEY)

        asyncio.run(use())

        assert 2 == len(write(store, lambda rows: rows.keys(b"", None)))
        assert [line("a")] == asyncio.run(sessions.load(other))


def _second_entry(rows: Any) -> bytes:
    second: bytes = rows.keys(b"claude.e", b"claude.f")[1]
    return second


class TestRepeated:
    """Batches that arrive again, because an answer got lost."""

    def test_repeated_batch(self, stores):
        """A batch that is repeated changes nothing: entries, times nor summary."""
        store, _ = stores
        sessions = ClaudeSessionStore(store)
        first = [line("a", customTitle="first"), line("b")]

        async def use() -> list[Any]:
            seen = []
            for batch in (first, [line("c", customTitle="second")], first, first[:1]):
                await sessions.append(KEY, batch)
                seen.append(
                    [
                        await sessions.load(KEY),
                        await sessions.list_sessions("app"),
                        await sessions.list_session_summaries("app"),
                    ]
                )

            return seen

        _, before, *after = asyncio.run(use())

        assert [before, before] == after
        assert "second" == before[2][0]["data"]["custom_title"]

    def test_partly_repeated(self, store):
        """
        What is new in a repeated batch is added, and entries without an id are added
        each time, wherever they stand.
        """
        sessions = ClaudeSessionStore(store)
        batches = [
            [line("a"), line(n=1), line("a", n=2), line("b")],
            [line("b"), line(n=3), line("a")],
            [line(n=4), line("c"), line("c"), line(n=5)],
            [line("b"), line("b"), line(n=6)],
            [line(n=6)],
        ]

        async def use() -> Any:
            for batch in batches:
                await sessions.append(KEY, batch)

            return await sessions.load(KEY)

        expected = [
            *(line("a"), line(n=1), line("b"), line(n=3), line(n=4)),
            *(line("c"), line(n=5), line(n=6), line(n=6)),
        ]
        assert expected == asyncio.run(use())

    def test_summary_of_repeated(self, store):
        """An entry that was left out does not change the summary."""
        sessions = ClaudeSessionStore(store)
        first = line("a", customTitle="first")

        async def use() -> Any:
            await sessions.append(KEY, [first, line("b", customTitle="second")])
            await sessions.append(KEY, [first, line("c")])
            return await sessions.list_session_summaries("app")

        (found,) = asyncio.run(use())

        assert "second" == found["data"]["custom_title"]

    @pytest.mark.parametrize("uuid", [7, "", ["a"], {"a": 1}, False])
    def test_odd_uuid(self, store, uuid):
        """What is no text identifies nothing: both are kept."""
        sessions = ClaudeSessionStore(store)
        asyncio.run(sessions.append(KEY, [line(uuid), line(uuid)]))

        assert [line(uuid), line(uuid)] == asyncio.run(sessions.load(KEY))

    def test_same_id_elsewhere(self, store):
        """An id counts within one transcript: a fork or a sub-agent may repeat it."""
        sessions = ClaudeSessionStore(store)
        keys: list[Any] = [KEY, AGENT, {**KEY, "session_id": "fork"}]

        async def use() -> list[Any]:
            for at, key in enumerate(keys):
                await sessions.append(key, [line("a", n=at)])

            return [await sessions.load(key) for key in keys]

        assert [[line("a", n=at)] for at in range(3)] == asyncio.run(use())


class TestKeys:
    """Projects, sessions and subpaths: any texts."""

    @pytest.mark.parametrize("part", ["project_key", "session_id", "subpath"])
    def test_any_text(self, stores, part):
        """Different texts are different keys, and are listed as they are."""
        sessions = ClaudeSessionStore(stores[0])
        texts = [text for text in KEYS if text or part != "subpath"]

        def key_of(text: str) -> Any:
            return {**KEY, part: text}

        async def use() -> tuple[list[Any], list[Any]]:
            for text in texts:
                await sessions.append(key_of(text), [line("a", text=text)])

            loaded = [await sessions.load(key_of(text)) for text in texts]
            if part == "subpath":
                return loaded, [*await sessions.list_subkeys(KEY)]

            found = {}
            for text in texts if part == "project_key" else ["app"]:
                listed = await sessions.list_sessions(text)
                found[text] = [each["session_id"] for each in listed]

            return loaded, [*found] if part == "project_key" else found["app"]

        loaded, listed = asyncio.run(use())

        assert [[line("a", text=text)] for text in texts] == loaded
        assert {*texts} == {*listed}
        assert len(texts) == len(listed)

    def test_parts_do_not_run_together(self, store):
        """Texts that are equal when they are joined are different keys."""
        sessions = ClaudeSessionStore(store)
        keys: list[Any] = [
            {"project_key": "a", "session_id": "b/c"},
            {"project_key": "a/b", "session_id": "c"},
            {"project_key": "a", "session_id": "b", "subpath": "c"},
        ]

        async def use() -> list[Any]:
            for at, key in enumerate(keys):
                await sessions.append(key, [line(n=at)])

            await sessions.delete({"project_key": "a", "session_id": "b"})
            return [await sessions.load(key) for key in keys]

        assert [[line(n=0)], [line(n=1)], None] == asyncio.run(use())

    @pytest.mark.parametrize(
        ("key", "error", "words"),
        [
            ("app", TypeError, "expected a SessionKey, got"),
            (
                {"project_key": "a"},
                TypeError,
                "expected text as 'session_id', got a NoneType: None",
            ),
            (
                {**KEY, "subpath": 7},
                TypeError,
                "expected text as 'subpath', got an int: 7",
            ),
            ({**KEY, "subpath": ""}, ValueError, "leave it out for the session"),
        ],
    )
    def test_no_key(self, store, key, error, words):
        """What is no key is refused before anything is read or written."""
        sessions = ClaudeSessionStore(store)

        for use in (sessions.load, sessions.delete, lambda k: sessions.append(k, [])):
            with pytest.raises(error, match=words):
                asyncio.run(use(key))


class TestSummaries:
    """Summaries, which the SDK folds and the store keeps."""

    def test_many_writers(self, stores):
        """
        Programs that append to one session at the same time lose no entry, and the
        summary is that of all entries in the order in which they are.
        """
        store, open_again = stores
        hosts = [ClaudeSessionStore(each) for each in (store, open_again())]

        async def use() -> tuple[Any, Any]:
            async with anyio.create_task_group() as tasks:
                for at in range(16):
                    entries = [
                        line(f"{at}/{n}", customTitle=f"{at}.{n}") for n in (0, 1)
                    ]
                    tasks.start_soon(hosts[at % 2].append, KEY, entries)

            return await hosts[0].load(KEY), await hosts[1].list_session_summaries(
                "app"
            )

        loaded, (summary,) = asyncio.run(use())

        assert {f"{at}/{n}" for at in range(16) for n in (0, 1)} == {
            each["uuid"] for each in loaded
        }
        assert 32 == len(loaded)
        assert sdk.fold_session_summary(None, KEY, loaded)["data"] == summary["data"]

    @pytest.mark.parametrize("missing_at", [0, 1, 2])
    def test_without_the_sdk(self, store, monkeypatch, missing_at):
        """
        Entries are added and loaded where the SDK is not installed; the summary is made
        where it is, and is that of all entries.
        """
        sessions = ClaudeSessionStore(store)
        lines = conversation()
        for at in range(3):
            with monkeypatch.context() as patch:
                if at == missing_at:
                    patch.setitem(sys.modules, "claude_agent_sdk", None)

                asyncio.run(sessions.append(KEY, lines[2 * at : 2 * at + 2]))
                assert lines[: 2 * at + 2] == asyncio.run(sessions.load(KEY))

        (found,) = asyncio.run(sessions.list_session_summaries("app"))
        (listed,) = asyncio.run(sessions.list_sessions("app"))

        assert sdk.fold_session_summary(None, KEY, lines)["data"] == found["data"]
        assert listed["mtime"] == found["mtime"]

    def test_summary_made_before(self, store, monkeypatch):
        """A summary that is there is listed where the SDK is not installed."""
        sessions = ClaudeSessionStore(store)
        asyncio.run(sessions.append(KEY, [line("a", customTitle="first")]))
        monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)

        (found,) = asyncio.run(sessions.list_session_summaries("app"))

        assert "first" == found["data"]["custom_title"]

    def test_summary_of_what_is_deleted_meanwhile(self, store, monkeypatch):
        """A session that another process deletes while they are listed has none."""
        sessions = ClaudeSessionStore(store)
        row = {"session_id": "gone", "mtime": 5, "summary": None}

        async def read_listed(*_):
            return [row]

        monkeypatch.setattr(sessions, "_read_listed", read_listed)
        found = asyncio.run(sessions.list_session_summaries("app"))

        assert found == [{"session_id": "gone", "mtime": 5, "data": {}}]

    def test_summary_needs_the_sdk(self, store, monkeypatch):
        """A summary that can't be made is an error, and no session is left out."""
        sessions = ClaudeSessionStore(store)
        monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)
        asyncio.run(sessions.append(KEY, [line("a")]))

        with pytest.raises(ImportError, match="claude_agent_sdk"):
            asyncio.run(sessions.list_session_summaries("app"))


class TestConversation:
    """A session as a conversation, under a name of the store."""

    def test_tree_and_bill(self, stores):
        """
        The name has the branch that the SDK says is live, what was rewound beside it,
        and each response once in the bill; so has the tree.
        """
        store, open_again = stores
        key: Any = {
            "project_key": sdk.project_key_for_directory("/app"),
            "session_id": SESSION,
        }
        name = ClaudeSessionStore.name_of(key)

        async def use() -> Any:
            sessions = ClaudeSessionStore(store)
            await sessions.append(key, conversation())
            tree = await sessions.message_tree(key)
            live = await sdk.get_session_messages_from_store(
                sessions, SESSION, directory="/app"
            )
            return tree, [each.message["content"][0]["text"] for each in live]

        tree, live = asyncio.run(use())
        saved = open_again().message_tree(name)

        assert live == [message.text for message in tree.present]
        assert live == [message.text for message in open_again().load(name)]
        assert 2 == len(saved.siblings(saved.find(conversation()[4]["uuid"]))[1])
        assert 6 == len(saved)
        assert {"msg_a1": 11, "msg_a2": 11, "msg_a3": 11} == {
            each.id: each.usage.total_tokens for each in saved.present.ledger
        }

    def test_grown(self, store):
        """
        A session that grew goes on under its name, an answer that was still coming is
        replaced by the whole one, and what did not change writes no revision.
        """
        sessions = ClaudeSessionStore(store)
        lines = conversation()
        rest = {**lines[1], "uuid": "rest", "parentUuid": lines[1]["uuid"]}
        rest["message"] = {
            **rest["message"],
            "content": [{"type": "text", "text": "More."}],
        }
        batches = [lines[:2], [], [rest], [{**lines[2], "parentUuid": "rest"}]]

        async def use() -> list[Any]:
            seen = []
            for batch in batches:
                await sessions.append(KEY, batch)
                session = await sessions.session(KEY)
                seen.append((session.tree.present, store.latest(name)))

            return seen

        name = ClaudeSessionStore.name_of(KEY)
        first, again, whole, grown = asyncio.run(use())

        assert first == again
        assert "More." in whole[0][-1].text
        assert grown[0].entries[:2] == whole[0].entries
        assert grown[0] == store.load(name)
        assert first[0].entries == store.load(name, at=first[1].revision).entries
        assert 11 == store.load(name).total_usage.total_tokens

    def test_sub_agents(self, store):
        """
        Sub-agents are states of their own under the session's name, with their own
        bill; deleting a transcript deletes its name.
        """
        sessions = ClaudeSessionStore(store)
        lines = conversation()
        task: Any = {**lines[0], "isSidechain": True, "agentId": "1"}
        told: Any = {**lines[1], "isSidechain": True, "agentId": "1"}
        told["message"] = {**told["message"], "id": "msg_agent"}
        told["requestId"] = "req_agent"
        name = ClaudeSessionStore.name_of(KEY)

        async def use() -> Any:
            await sessions.append(KEY, lines)
            await sessions.append(AGENT, [task, told])
            return await sessions.session(KEY)

        session = asyncio.run(use())

        assert 44 == session.usage.total_tokens
        assert [name, f"{name}/1"] == [*store.names()]
        assert 11 == store.load(f"{name}/1").total_usage.total_tokens
        assert 33 == store.load(name).total_usage.total_tokens

        asyncio.run(sessions.delete(AGENT))
        assert (name,) == store.names()

        asyncio.run(use())
        asyncio.run(sessions.delete(KEY))
        assert () == store.names()

    def test_one_id_under_two_subpaths(self, store):
        """
        Two transcripts of one id are one sub-agent, with the lines and the bill of
        both; what is in both counts once.
        """
        sessions = ClaudeSessionStore(store)
        first, second = conversation()[:2], conversation()[2:4]
        again: Any = {**AGENT, "subpath": "subagents/workflows/run1/agent-1"}
        name = ClaudeSessionStore.name_of(KEY)

        async def use() -> Any:
            await sessions.append(KEY, conversation()[:1])
            await sessions.append(AGENT, first)
            await sessions.append(again, [first[0], *second])
            return await sessions.session(KEY)

        session = asyncio.run(use())

        assert 22 == session.usage.total_tokens
        assert ["1"] == [each.name for each in session.agents]
        assert 4 == len(store.load(f"{name}/1"))

    def test_many_readers(self, stores):
        """
        Programs that read a session while it grows leave its newest lines under the
        name.
        """
        store, open_again = stores
        hosts = [ClaudeSessionStore(each) for each in (store, open_again())]
        lines = conversation()

        async def use() -> None:
            await hosts[0].append(KEY, lines[:1])
            async with anyio.create_task_group() as tasks:
                for each in lines[1:]:
                    await hosts[0].append(KEY, [each])
                    for host in hosts:
                        tasks.start_soon(host.session, KEY)

        asyncio.run(use())
        state = open_again().load(ClaudeSessionStore.name_of(KEY))

        assert "Stopped." == state[-1].text
        assert 33 == state.total_usage.total_tokens

    def test_other_head(self, store):
        """The transcript replaces what others saved there, which stays a revision."""
        sessions = ClaudeSessionStore(store)
        name = ClaudeSessionStore.name_of(KEY)
        asyncio.run(sessions.append(KEY, conversation()))
        state = asyncio.run(sessions.message_tree(KEY)).present
        head = store.save(name, state.add_user_prompt("From elsewhere."))

        asyncio.run(sessions.session(KEY))

        assert state.messages == store.load(name).messages
        assert "From elsewhere." == store.load(name, at=head.revision)[-1].text

    def test_refused(self, store):
        """A session that is not there, or is no conversation, is an error."""
        sessions = ClaudeSessionStore(store)
        with pytest.raises(NotSavedError, match="claude/app/5d0b"):
            asyncio.run(sessions.session(KEY))

        asyncio.run(sessions.append(KEY, [line("a")]))
        with pytest.raises(DecodeError):
            asyncio.run(sessions.session(KEY))

        with pytest.raises(ValueError, match="the subpath of a sub-agent"):
            asyncio.run(sessions.session(AGENT))

        assert () == store.names()


def test_never_blocks_the_loop():
    """All reads and writes are in other threads than the loop's."""
    threads = set()

    def note_thread(_call: Call) -> None:
        threads.add(threading.get_ident())

    sessions = ClaudeSessionStore(Store(RecordingBackend(MemoryBackend(), note_thread)))

    async def use() -> int:
        threads.clear()
        await sessions.append(KEY, [line("a")])
        await sessions.load(KEY)
        await sessions.list_sessions("app")
        await sessions.list_session_summaries("app")
        await sessions.list_subkeys(KEY)
        await sessions.delete(KEY)
        return threading.get_ident()

    mine = asyncio.run(use())

    assert threads
    assert mine not in threads


def test_from_url(tmp_path):
    """A host closes a store that it opened, and leaves one open that it was passed."""
    url = f"sqlite:///{tmp_path}/sessions.db"

    async def use() -> None:
        async with ClaudeSessionStore.from_url(url) as sessions:
            await sessions.append(KEY, [line("a")])

    asyncio.run(use())

    # Two files are beside an open one.
    assert ["sessions.db"] == [path.name for path in tmp_path.iterdir()]
    with open_store(url) as store:
        with ClaudeSessionStore(store) as sessions:
            assert [line("a")] == asyncio.run(sessions.load(KEY))

        assert () == store.names()
