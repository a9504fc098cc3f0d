"""
What every host promises, whatever its interface looks like.

A host is another library's place for conversations, with a store of ours
behind it. A test file of one writes a `HostCase`, which says how that library
is used, and subclasses `HostContract`, whose tests run on every kind of store.
"""

import asyncio
import threading
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol

import pytest
from hypothesis import HealthCheck, given, is_hypothesis_test, settings
from hypothesis import strategies as st

from conversation_state.adapters import Export, openai_chat
from conversation_state.adapters.engine.reading import mended
from conversation_state.errors import ConversationStateError
from conversation_state.messages import AssistantMessage, ToolMessage, UnknownMessage
from conversation_state.store import Store, open_store
from conversation_state.store.backends.memory import MemoryBackend
from tests.adapters.helpers import lines
from tests.processes import run_script
from tests.store.promises.case import Call, RecordingBackend

KEYS = (
    "plain",
    "Plain",
    " plain ",
    "",
    "a/b",
    "../up",
    "a\0b",
    "a",
    "%2e%2e",
    "ключ 🔑",
    "0",
    "long" * 500,
    "long" * 500 + "er",
    "\ud800",
)
HOSTILE = ("\ud800", "a\udfffb", "\ud83d\ude00", "\0", "\ufffd", "x" * 1_000_000)


class HostCase(Protocol):
    """
    **Protocol:** how one host is used.

    Where a host's interface is async only, the plain verbs here run a loop; those with
    an *a* are used from a running one.

    Attributes:
        adapter: The adapter's module, which has `dump` and `load`.

        extra: The extra that brings the host.

        packages: The packages of the host, which may not be there.

        uses: Expressions that need them, with *adapter* and *UserMessage*.

        errors: What the host raises beside errors of ours.

        conversations: Lists of the host's messages, as a strategy.
    """

    adapter: Any
    extra: str
    packages: tuple[str, ...]
    uses: tuple[str, ...]
    errors: tuple[type[Exception], ...]
    conversations: st.SearchStrategy[list[Any]]

    # Some hosts are for one *key*, others take it with every call.
    def host(self, store: Store, key: str) -> Any: ...

    # On a store of its own, which it closes.
    def from_url(self, url: str, key: str) -> AbstractContextManager[Any]: ...

    # Add the host's *messages* to the conversation, as a turn does.
    def add(self, host: Any, key: str, messages: list[Any]) -> None: ...

    async def aadd(self, host: Any, key: str, messages: list[Any]) -> None: ...

    # All messages of the conversation in the host's form; empty if it is missing.
    def read(self, host: Any, key: str) -> list[Any]: ...

    async def aread(self, host: Any, key: str) -> list[Any]: ...

    # Clear or delete the conversation, as the host calls it.
    def clear(self, host: Any, key: str) -> None: ...

    async def aclear(self, host: Any, key: str) -> None: ...

    # The name of the conversation in our store.
    def name(self, key: str) -> str: ...

    # A question, a call of a tool, its result and an answer, with *number* in each text
    # and id.
    def turn(self, number: int) -> list[Any]: ...

    def user_message(self, text: str) -> Any: ...


def plain(message: Any) -> Any:
    """The role, text and calls of *message*, one of ours, to compare."""
    if isinstance(message, UnknownMessage):
        return (message.role, message.raw)

    calls = getattr(message, "tool_calls", ())
    return (
        message.role,
        message.text,
        [(call.id, call.name, call.arguments) for call in calls],
        getattr(message, "tool_call_id", ""),
    )


def as_one(messages: list[Any]) -> list[Any]:
    """*messages* with the classes they are of, for some are equal to others."""
    return [(type(one), one) for one in messages]


class HostContract:
    """
    The promises. The host uses an ordinary store, in which each conversation is
    an ordinary state.
    """

    case: ClassVar[Any]

    def texts(self, host: Any, key: str) -> list[str]:
        """The texts of a conversation of the host, loaded as ours."""
        return [one.text for one in self.case.adapter.load(self.case.read(host, key))]

    def refused(self) -> tuple[type[Exception], ...]:
        """The errors with which a host may refuse something."""
        return (ConversationStateError, *self.case.errors)

    def test_reopened(self, place):
        """
        A conversation is loaded after its store was closed and opened, and goes
        on.
        """
        case = self.case
        first, second = case.turn(1), case.turn(2)
        case.add(case.host(place.open(), "a"), "a", first)
        place.leave()
        host = case.host(place.open(), "a")

        assert as_one(first) == as_one(case.read(host, "a"))

        case.add(host, "a", second)
        place.leave()

        again = case.read(case.host(place.open(), "a"), "a")
        assert as_one([*first, *second]) == as_one(again)

    def test_equals_the_store(self, place):
        """
        The host and our store have the same roles, texts, calls and results, in
        order; and each is converted to the other.
        """
        case, store = self.case, place.open()
        host = case.host(store, "a")
        for number in range(3):
            case.add(host, "a", case.turn(number))

        state, messages = store.load(case.name("a")), case.read(host, "a")
        roles = ["user", "assistant", "tool", "assistant"]

        assert 3 * roles == [message.role for message in state]
        assert [plain(one) for one in case.adapter.load(messages)] == [
            plain(one) for one in state
        ]
        assert as_one(messages) == as_one(case.adapter.dump(state.messages).payload)
        assert {
            call.id
            for one in state
            if isinstance(one, AssistantMessage)
            for call in one.tool_calls
        } == {one.tool_call_id for one in state if isinstance(one, ToolMessage)}

    def test_empty(self, place):
        """An unused key has no messages; reading it, or adding none, saves nothing."""
        case, store = self.case, place.open()
        host = case.host(store, "a")

        assert [] == case.read(host, "a")

        case.add(host, "a", [])
        assert [] == case.read(host, "a")
        assert () == store.names()

    def test_result_is_a_copy(self, place):
        """Changing a list that was read changes no conversation."""
        case = self.case
        host = case.host(place.open(), "a")
        case.add(host, "a", case.turn(1))
        case.read(host, "a").clear()

        assert as_one(case.turn(1)) == as_one(case.read(host, "a"))

    @given(data=st.data())
    def test_any_conversation(self, data):
        """
        Any messages of the host are read as they were added, and converted both
        ways.
        """
        case = self.case
        added = data.draw(case.conversations)
        with open_store("memory:") as store:
            host = case.host(store, "a")
            case.add(host, "a", added)

            assert as_one(added) == as_one(case.read(host, "a"))

        assert as_one(added) == as_one(
            case.adapter.dump(case.adapter.load(added)).payload
        )

    def test_recorded(self, recordings):
        """
        Recorded conversations of another provider are dumped for the host, read
        as they were added, and lose only texts that are listed.
        """
        case = self.case
        with open_store("memory:") as store:
            found = lines(recordings / "requests" / "openai_chat.jsonl")
            for number, exchange in enumerate(found[:40]):
                ours = openai_chat.load(exchange["request"])
                export, key = case.adapter.dump(ours), f"chat {number}"
                host = case.host(store, key)
                case.add(host, key, export.payload)

                assert isinstance(export, Export)
                assert as_one(export.payload) == as_one(case.read(host, key))
                texts = "".join(one.text for one in ours)
                if not export.lost:
                    assert texts == "".join(self.texts(host, key))

    def test_writes_what_is_new(self):
        """
        Each turn writes as many rows as the one before, however long the
        conversation is.
        """
        case, rows = self.case, 0

        def count_rows(call: Call) -> None:
            nonlocal rows
            rows += call.rows if call.verb == "add" else 1

        store = Store(RecordingBackend(MemoryBackend(), count_rows))
        host = case.host(store, "a")
        written = []
        for number in range(101):
            before = rows
            case.add(host, "a", case.turn(number))
            written.append(rows - before)

        assert 0 < written[10] < 100
        # Some are added to a row more often than to others; the hundredth
        # turn costs what the tenth does, not ten times as much.
        assert max(written[90:]) <= max(written[5:20])

    def test_two_writers(self, place):
        """
        With two concurrent writers, each message is read once, or its writer
        got an error.
        """
        case, added, failed = self.case, [], []
        start = threading.Barrier(2)
        hosts = [case.host(place.open(), "a") for _ in range(2)]
        case.add(hosts[0], "a", [case.user_message("first")])

        def write(who: int) -> None:
            start.wait(30)
            for number in range(8):
                text = f"{who}: {number}"
                try:
                    case.add(hosts[who], "a", [case.user_message(text)])
                except self.refused():
                    failed.append(text)
                else:
                    added.append(text)

        threads = [threading.Thread(target=write, args=(who,)) for who in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        texts = self.texts(case.host(place.open(), "a"), "a")
        assert 16 == len(added) + len(failed)
        assert sorted(["first", *added]) == sorted(texts)
        assert "first" == texts[0]
        for who in ("0", "1"):
            mine = [text for text in texts if text.startswith(who)]
            assert sorted(mine) == mine

    def test_keys_keep_apart(self, place):
        """Each key has its own conversation, however odd it is, or is refused."""
        case, store, taken = self.case, place.open(), []
        for number, key in enumerate(KEYS):
            try:
                case.add(case.host(store, key), key, [case.user_message(f"{number}")])
            except self.refused():
                continue

            taken.append((number, key))

        assert {"plain", "Plain", "a/b", "a"} <= {key for _, key in taken}
        for number, key in taken:
            assert [f"{number}"] == self.texts(case.host(store, key), key)

        assert len(taken) == len({case.name(key) for _, key in taken})
        assert {*store.names()} >= {case.name(key) for _, key in taken}

    def test_clear(self, place):
        """
        A cleared conversation is empty, others are unchanged, and a new one may
        begin under its key; clearing an unused key does nothing.
        """
        case, store = self.case, place.open()
        host, other = case.host(store, "a"), case.host(store, "b")
        case.clear(host, "a")
        case.add(host, "a", case.turn(1))
        case.add(other, "b", case.turn(2))

        case.clear(host, "a")

        assert [] == case.read(host, "a")
        assert [] == case.read(case.host(store, "a"), "a")
        assert as_one(case.turn(2)) == as_one(case.read(other, "b"))

        case.add(host, "a", case.turn(3))
        assert as_one(case.turn(3)) == as_one(case.read(host, "a"))

    def test_async(self, place):
        """
        The same from a running loop: messages added there are read there, and
        elsewhere.
        """
        case, store = self.case, place.open()

        async def use_host() -> list[Any]:
            host = case.host(store, "a")
            await case.aadd(host, "a", case.turn(1))
            first: list[Any] = await case.aread(host, "a")
            await case.aclear(host, "a")
            assert [] == await case.aread(host, "a")

            await asyncio.gather(
                *[
                    case.aadd(case.host(store, key), key, case.turn(2))
                    for key in ("a", "b", "c")
                ]
            )
            return first

        first = asyncio.run(use_host())

        assert as_one(case.turn(1)) == as_one(first)
        for key in ("a", "b", "c"):
            assert as_one(case.turn(2)) == as_one(case.read(case.host(store, key), key))

    def test_never_blocks_the_loop(self):
        """All reads and writes are in other threads than the loop's."""
        case, threads = self.case, set()

        def note_thread(_call: Call) -> None:
            threads.add(threading.get_ident())

        store = Store(RecordingBackend(MemoryBackend(), note_thread))

        async def use_host() -> int:
            host = case.host(store, "a")
            threads.clear()
            await case.aadd(host, "a", case.turn(1))
            await case.aread(host, "a")
            await case.aclear(host, "a")
            return threading.get_ident()

        mine = asyncio.run(use_host())

        assert threads
        assert mine not in threads

    @pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
    def test_hostile_text(self, place, text):
        """
        Text that is not valid Unicode is refused, and nothing is added, or it is
        mended; other odd text stays as it is. Earlier messages are unharmed.
        """
        case = self.case
        host = case.host(place.open(), "a")
        case.add(host, "a", case.turn(1))
        try:
            case.add(host, "a", [case.user_message(text)])
        except self.refused():
            assert mended(text) != text
            assert as_one(case.turn(1)) == as_one(case.read(host, "a"))
        else:
            assert mended(text) == self.texts(host, "a")[-1]

        case.add(host, "a", case.turn(2))
        messages = case.read(host, "a")
        assert as_one(case.turn(1)) == as_one(messages)[: len(case.turn(1))]
        assert as_one(case.turn(2)) == as_one(messages)[-len(case.turn(2)) :]

    def test_from_url(self, tmp_path):
        """
        A host closes a store that it opened, and leaves one open that it was
        passed.
        """
        case, url = self.case, f"sqlite:///{tmp_path}/conversations.db"
        with case.from_url(url, "a") as host:
            case.add(host, "a", case.turn(1))
            assert as_one(case.turn(1)) == as_one(case.read(host, "a"))

        # Two files are beside an open one.
        assert ["conversations.db"] == [path.name for path in tmp_path.iterdir()]
        with open_store(url) as store:
            assert case.turn(1) == case.read(case.host(store, "a"), "a")
            assert 4 == len(store.load(case.name("a")))

    @pytest.mark.parametrize("missing", ["package", "module"])
    def test_imports_without_its_packages(self, missing):
        """
        The adapter is imported where the host is not installed, or a release of it
        without the modules that it needs; what needs them says which extra brings
        them.
        """
        case = self.case
        least = {"package": 0, "module": 1}[missing]
        script = "\n".join(
            [
                "import sys",
                "class Finder:",
                "    def find_spec(self, name, path=None, target=None):",
                "        package, *rest = name.split('.')",
                f"        if package in {case.packages!r} and len(rest) >= {least}:",
                "            raise ModuleNotFoundError(name, name=name)",
                "sys.meta_path.insert(0, Finder())",
                f"import {case.adapter.__name__} as adapter",
                "from conversation_state.errors import MissingExtraError",
                "from conversation_state.messages import UserMessage",
                f"for use in {case.uses!r}:",
                "    try:",
                "        eval(use)",
                "    except MissingExtraError as error:",
                "        print(error.extra)",
            ]
        )

        found = run_script(script)

        assert case.uses
        assert [case.extra] * len(case.uses) == found.split()


# The same tests run for several hosts in one process. An example of one that is
# replayed for another is an example like any other.
for _promise in vars(HostContract).values():
    if is_hypothesis_test(_promise):
        unchecked = [HealthCheck.differing_executors, HealthCheck.too_slow]
        settings(suppress_health_check=unchecked)(_promise)
