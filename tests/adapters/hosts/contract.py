"""
What every host promises, whatever its interface looks like.

A host is another library's place for conversations, with a store of ours
behind it. A test file of one writes a `HostCase`, which says how that library
is used, and subclasses `HostContract`, whose tests run on every kind of store.
"""

import asyncio
import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol

import pytest
from hypothesis import HealthCheck, given, is_hypothesis_test, settings
from hypothesis import strategies as st

from conversation_state.adapters import Export, openai_chat
from conversation_state.adapters._reading import mended
from conversation_state.errors import ConversationStateError, NotSavedError
from conversation_state.messages import (
    AssistantMessage,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.store import Store, open_store
from conversation_state.store._memory import MemoryBackend
from conversation_state.testing.stores import Call, Watched
from tests.adapters.kept import lines

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

    Where a host's interface is async only, the plain verbs here run a loop.

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

    def host(self, store: Store, key: str) -> Any:
        """
        The host on an open store. Many of them are for one *key*, and others
        are told it with every call.
        """

    def from_url(self, url: str, key: str) -> AbstractContextManager[Any]:
        """
        The host on a store of its own, which it closes.
        """

    def say(self, host: Any, key: str, messages: list[Any]) -> None:
        """
        Add the host's *messages* to the conversation, as a turn does it.
        """

    async def asay(self, host: Any, key: str, messages: list[Any]) -> None:
        """
        The same from a running loop.
        """

    def heard(self, host: Any, key: str) -> list[Any]:
        """
        All messages of the conversation, the host's; none if there is none.
        """

    async def aheard(self, host: Any, key: str) -> list[Any]:
        """
        The same from a running loop.
        """

    def clear(self, host: Any, key: str) -> None:
        """
        Clear or delete the conversation, as the host calls it.
        """

    async def aclear(self, host: Any, key: str) -> None:
        """
        The same from a running loop.
        """

    def name(self, key: str) -> str:
        """
        What the conversation is called in our store.
        """

    def turn(self, number: int) -> list[Any]:
        """
        The messages of a turn: a question, a call of a tool, its result and
        an answer, with *number* in each text and id.
        """

    def saying(self, text: str) -> Any:
        """
        A message of a user who says *text*.
        """


def plain(message: Any) -> Any:
    """
    What anybody would say that *message*, one of ours, says.
    """
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
    """
    *messages* with the classes they are of, for some are equal to others.
    """
    return [(type(one), one) for one in messages]


class HostContract:
    """
    The promises. What is behind the host is an ordinary store, and each
    conversation an ordinary state in it.
    """

    case: ClassVar[Any]

    def texts(self, host: Any, key: str) -> list[str]:
        """
        What was said in a conversation of the host's, in our words.
        """
        return [one.text for one in self.case.adapter.load(self.case.heard(host, key))]

    def refused(self) -> tuple[type[Exception], ...]:
        """
        What a host may raise that refuses something.
        """
        return (ConversationStateError, *self.case.errors)

    def test_is_there_again(self, place):
        """
        A conversation is there again after the store was closed and opened,
        and goes on.
        """
        case = self.case
        first, second = case.turn(1), case.turn(2)
        case.say(case.host(place.open(), "a"), "a", first)
        place.leave()
        host = case.host(place.open(), "a")

        assert as_one(first) == as_one(case.heard(host, "a"))

        case.say(host, "a", second)
        place.leave()

        again = case.heard(case.host(place.open(), "a"), "a")
        assert as_one([*first, *second]) == as_one(again)

    def test_says_what_our_store_says(self, place):
        """
        The host and our store say the same: roles, texts, calls and what
        answers them, in order; and each is made of the other.
        """
        case, store = self.case, place.open()
        host = case.host(store, "a")
        for number in range(3):
            case.say(host, "a", case.turn(number))

        state, heard = store.load(case.name("a")), case.heard(host, "a")
        roles = ["user", "assistant", "tool", "assistant"]

        assert 3 * roles == [message.role for message in state]
        assert [plain(one) for one in case.adapter.load(heard)] == [
            plain(one) for one in state
        ]
        assert as_one(heard) == as_one(case.adapter.dump(state.messages).payload)
        assert {
            call.id
            for one in state
            if isinstance(one, AssistantMessage)
            for call in one.tool_calls
        } == {one.tool_call_id for one in state if isinstance(one, ToolMessage)}

    def test_nothing_said(self, place):
        """
        Of a key that nobody used there is nothing, and nothing is saved by
        asking, nor by saying nothing.
        """
        case, store = self.case, place.open()
        host = case.host(store, "a")

        assert [] == case.heard(host, "a")

        case.say(host, "a", [])
        assert [] == case.heard(host, "a")
        assert () == store.names()

    def test_is_the_callers_to_change(self, place):
        """
        What is heard is the caller's: changing it changes no conversation.
        """
        case = self.case
        host = case.host(place.open(), "a")
        case.say(host, "a", case.turn(1))
        case.heard(host, "a").clear()

        assert as_one(case.turn(1)) == as_one(case.heard(host, "a"))

    @given(data=st.data())
    def test_any_conversation(self, data):
        """
        Whatever the host's messages are, they are heard as they were said, and
        converted both ways.
        """
        case = self.case
        said = data.draw(case.conversations)
        with open_store("memory:") as store:
            host = case.host(store, "a")
            case.say(host, "a", said)

            assert as_one(said) == as_one(case.heard(host, "a"))

        assert as_one(said) == as_one(
            case.adapter.dump(case.adapter.load(said)).payload
        )

    def test_recorded(self, shared_data):
        """
        Recorded conversations of another provider's are told in the host's
        words, heard as they were told, and lose no text but what is listed.
        """
        case = self.case
        with open_store("memory:") as store:
            found = lines(shared_data / "requests" / "openai_chat.jsonl")
            for number, exchange in enumerate(found[:40]):
                ours = openai_chat.load(exchange["request"])
                export, key = case.adapter.dump(ours), f"talk {number}"
                host = case.host(store, key)
                case.say(host, key, export.payload)

                assert isinstance(export, Export)
                assert as_one(export.payload) == as_one(case.heard(host, key))
                texts = "".join(one.text for one in ours)
                if not export.lost:
                    assert texts == "".join(self.texts(host, key))

    def test_writes_what_is_new(self):
        """
        Each turn writes as many rows as the one before, however long the
        conversation is.
        """
        case, rows = self.case, 0

        def told(call: Call) -> None:
            nonlocal rows
            rows += call.rows if call.verb == "add" else 1

        store = Store(Watched(MemoryBackend(), told))
        host = case.host(store, "a")
        written = []
        for number in range(101):
            before = rows
            case.say(host, "a", case.turn(number))
            written.append(rows - before)

        assert 0 < written[10] < 100
        # Some are added to a row more often than to others; the hundredth
        # turn costs what the tenth does, not ten times as much.
        assert max(written[90:]) <= max(written[5:20])

    def test_two_writers(self, place):
        """
        Of two who write at once, each message is heard once, or its writer
        got an error.
        """
        case, said, failed = self.case, [], []
        start = threading.Barrier(2)
        hosts = [case.host(place.open(), "a") for _ in range(2)]
        case.say(hosts[0], "a", [case.saying("first")])

        def write(who: int) -> None:
            start.wait(30)
            for number in range(8):
                text = f"{who}: {number}"
                try:
                    case.say(hosts[who], "a", [case.saying(text)])
                except self.refused():
                    failed.append(text)
                else:
                    said.append(text)

        threads = [threading.Thread(target=write, args=(who,)) for who in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        texts = self.texts(case.host(place.open(), "a"), "a")
        assert 16 == len(said) + len(failed)
        assert sorted(["first", *said]) == sorted(texts)
        assert "first" == texts[0]
        for who in ("0", "1"):
            mine = [text for text in texts if text.startswith(who)]
            assert sorted(mine) == mine

    def test_keys_keep_apart(self, place):
        """
        Each key has its own conversation, however odd it is, or is refused.
        """
        case, store, taken = self.case, place.open(), []
        for number, key in enumerate(KEYS):
            try:
                case.say(case.host(store, key), key, [case.saying(f"{number}")])
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
        What is cleared is not heard any more, others are, and a new
        conversation may begin there; clearing nothing does nothing.
        """
        case, store = self.case, place.open()
        host, other = case.host(store, "a"), case.host(store, "b")
        case.clear(host, "a")
        case.say(host, "a", case.turn(1))
        case.say(other, "b", case.turn(2))

        case.clear(host, "a")

        assert [] == case.heard(host, "a")
        assert [] == case.heard(case.host(store, "a"), "a")
        assert as_one(case.turn(2)) == as_one(case.heard(other, "b"))

        case.say(host, "a", case.turn(3))
        assert as_one(case.turn(3)) == as_one(case.heard(host, "a"))

    def test_async(self, place):
        """
        The same from a running loop: what is said there is heard there, and
        elsewhere.
        """
        case, store = self.case, place.open()

        async def talk() -> list[Any]:
            host = case.host(store, "a")
            await case.asay(host, "a", case.turn(1))
            first: list[Any] = await case.aheard(host, "a")
            await case.aclear(host, "a")
            assert [] == await case.aheard(host, "a")

            await asyncio.gather(
                *[
                    case.asay(case.host(store, key), key, case.turn(2))
                    for key in ("a", "b", "c")
                ]
            )
            return first

        first = asyncio.run(talk())

        assert as_one(case.turn(1)) == as_one(first)
        for key in ("a", "b", "c"):
            assert as_one(case.turn(2)) == as_one(
                case.heard(case.host(store, key), key)
            )

    def test_never_blocks_the_loop(self):
        """
        Whatever is read or written is so in another thread than the loop's.
        """
        case, threads = self.case, set()

        def told(_call: Call) -> None:
            threads.add(threading.get_ident())

        store = Store(Watched(MemoryBackend(), told))

        async def talk() -> int:
            host = case.host(store, "a")
            threads.clear()
            await case.asay(host, "a", case.turn(1))
            await case.aheard(host, "a")
            await case.aclear(host, "a")
            return threading.get_ident()

        mine = asyncio.run(talk())

        assert threads
        assert mine not in threads

    @pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:9]))
    def test_hostile_text(self, place, text):
        """
        Text that no bytes can hold is refused, and nothing is said, or mended;
        whatever else is odd stays as it is. What was said before is unharmed.
        """
        case = self.case
        host = case.host(place.open(), "a")
        case.say(host, "a", case.turn(1))
        try:
            case.say(host, "a", [case.saying(text)])
        except self.refused():
            assert mended(text) != text
            assert as_one(case.turn(1)) == as_one(case.heard(host, "a"))
        else:
            assert mended(text) == self.texts(host, "a")[-1]

        case.say(host, "a", case.turn(2))
        heard = case.heard(host, "a")
        assert as_one(case.turn(1)) == as_one(heard)[: len(case.turn(1))]
        assert as_one(case.turn(2)) == as_one(heard)[-len(case.turn(2)) :]

    def test_from_url(self, tmp_path):
        """
        A host may open a store itself, which it closes; one that was given a
        store leaves it open.
        """
        case, url = self.case, f"sqlite:///{tmp_path}/talks.db"
        with case.from_url(url, "a") as host:
            case.say(host, "a", case.turn(1))
            assert as_one(case.turn(1)) == as_one(case.heard(host, "a"))

        # Two files stand beside one that somebody has open.
        assert ["talks.db"] == [path.name for path in tmp_path.iterdir()]
        with open_store(url) as store:
            assert case.turn(1) == case.heard(case.host(store, "a"), "a")
            assert 4 == len(store.load(case.name("a")))

    def test_what_was_cleared_is_a_name(self, place):
        """
        What our store has under the name is what the host has.
        """
        case, store = self.case, place.open()
        host = case.host(store, "a")
        case.say(host, "a", case.turn(1))
        case.clear(host, "a")
        try:
            left = len(store.load(case.name("a")))
        except NotSavedError:
            left = 0

        assert 0 == left

    def test_imports_without_its_packages(self):
        """
        The adapter is imported where the host is not installed; what needs it
        says which extra brings it.
        """
        case = self.case
        script = "\n".join(
            [
                "import sys",
                f"for name in {case.packages!r}: sys.modules[name] = None",
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

        found = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, check=True, text=True
        )

        assert case.uses
        assert [case.extra] * len(case.uses) == found.stdout.split()


# The same tests run for several hosts in one process. An example of one that is
# replayed for another is an example like any other.
for _promise in vars(HostContract).values():
    if is_hypothesis_test(_promise):
        unchecked = [HealthCheck.differing_executors, HealthCheck.too_slow]
        settings(suppress_health_check=unchecked)(_promise)
