"""What is true of every store: its twins for event loops, its errors, its values."""

import inspect
import json
import pickle
import threading
from datetime import timedelta
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import Aggregator, AssistantMessage
from conversation_state.adapters import openai_chat
from conversation_state.codec import encode_message
from conversation_state.errors import (
    NotSavedError,
    StaleHeadError,
    StoreError,
)
from conversation_state.messages import find_erasure, make_tombstone
from conversation_state.store import (
    ERASED,
    Collected,
    Damage,
    StateRef,
    Store,
    _store,
    open_store,
)
from conversation_state.store.backend import ConflictError
from conversation_state.store.backends.memory import MemoryBackend
from conversation_state.testing.laws import equal_values_hash_alike
from conversation_state.testing.strategies import heads, messages, receipts, windows
from conversation_state.tree import MessageTree
from tests.recorded import is_large
from tests.store.promises.case import RecordingBackend

CHAT = Aggregator.new().add_user_prompt("When is the next train?")


@pytest.fixture
def store():
    with open_store("memory:") as store:
        yield store


class TestUpdate:
    @pytest.fixture
    def opened(self, tmp_path):
        """Two stores on one file, each of which remembers the state of "chat"."""
        url = f"sqlite:///{tmp_path / 'chats.db'}"
        with open_store(url) as ours, open_store(url) as theirs:
            ours.save("chat", Aggregator.new().add_user_prompt("a"))
            theirs.load("chat")
            yield ours, theirs

    def test_outdated_memory(self, opened):
        """
        Where another program saved since, the state that is saved continues
        theirs.
        """
        ours, theirs = opened
        theirs.update("chat", lambda state: state.add_assistant_message("b"))

        made = ours.update("chat", lambda state: state.add_user_prompt("c"))

        assert ["a", "b", "c"] == [message.text for message in made]
        assert made == theirs.load("chat")

    def test_outdated_error(self, opened):
        """An error that comes of an outdated state is none of the update."""
        ours, theirs = opened
        theirs.update("chat", lambda state: state.add_assistant_message("b"))

        def answer(state):
            return state.add_user_prompt(f"after {state[1].text}")

        assert "after b" == ours.update("chat", answer)[-1].text

    def test_own_error(self, opened):
        """
        Where nothing was saved meanwhile, a function that fails is not called again:
        what it asks for may have a price.
        """
        ours, theirs = opened
        calls = []

        def fail(state):
            calls.append(state)
            raise TimeoutError("no answer")

        for store in (ours, theirs):
            with pytest.raises(TimeoutError):
                store.update("chat", fail)

        assert 2 == len(calls)
        theirs.delete("chat")
        with pytest.raises(NotSavedError):
            ours.update("chat", fail)
        assert 3 == len(calls)

    def test_not_saved(self, opened, monkeypatch):
        """An update whose save may or may not have happened is not repeated."""
        ours, theirs = opened
        save = ours.save

        def save_and_fail(*args, **kwargs):
            save(*args, **kwargs)
            raise StoreError(ours.url, "the connection was lost")

        monkeypatch.setattr(ours, "save", save_and_fail)
        with pytest.raises(StoreError, match="lost"):
            ours.update("chat", lambda state: state.add_user_prompt("b"))

        assert 2 == len(theirs.load("chat"))


class TestRemembered:
    """A save that builds on the head as this store remembers it."""

    def test_another_branch(self):
        """
        A longer state that differs from the head in its middle does not continue it.
        """
        with open_store("memory:") as store:
            head = store.save("chat", CHAT.add_user_prompt("by bus?"))
            other = CHAT.add_user_prompt("by train?").add_user_prompt("today?")
            with pytest.raises(StaleHeadError):
                store.save("chat", other)

            store.save("chat", other, expecting=head)

            assert other == Store(store._cache.backend).load("chat")
            assert () == store.verify()

    def test_tombstone(self):
        """
        A state with a tombstone has the same digest in another store, where it is
        added to a head, and can be loaded there.
        """
        with open_store("memory:") as store, open_store("memory:") as other:
            secret = CHAT.add_user_prompt("secret")
            digest = store.save("chat", secret).digest
            store.erase(secret.entries[-1].id, reason="asked")
            erased = store.load("chat")
            other.save("chat", CHAT)

            assert digest == other.save("chat", erased).digest
            assert erased == Store(other._cache.backend).load("chat")
            assert () == other.verify()

    @pytest.mark.parametrize("error", [ConflictError("busy"), StoreError("x", "busy")])
    def test_erased_though_not_scrubbed(self, error):
        """
        What stops the backend from scrubbing is not an error of an erasure; it is in
        `Receipt.remains`.
        """

        class Busy(MemoryBackend):
            def scrub(self):
                raise error

        with Store(Busy()) as store:
            store.save("chat", CHAT)
            receipt = store.erase(CHAT.entries[0].id, reason="asked")

            assert "busy" in receipt.remains
            assert "" == store.load("chat")[0].text

    def test_cost_of_a_tree(self, monkeypatch):
        """A tree with many branches costs what its messages do, not their square."""
        encoded = []

        def encode(message):
            encoded.append(message)
            return encode_message(message)

        states = []
        chat = Aggregator.new()
        for at in range(100):
            chat = chat.add_user_prompt(f"q{at}")
            states.append(chat.fork().add_assistant_message("no"))
            chat = chat.add_assistant_message("yes")

        tree = MessageTree.of(*states, chat)
        monkeypatch.setattr("conversation_state.store._log.encode_message", encode)
        store = open_store("memory:")
        store.save_tree("chat", tree)

        assert 5 * len(tree.nodes) > len(encoded)
        assert tree == store.message_tree("chat")
        assert () == store.verify()


class TestTwins:
    """Async twins of methods, which are made from the synchronous ones."""

    @pytest.mark.parametrize(
        "name",
        [
            name
            for name in dir(Store)
            # Those take an async function.
            if hasattr(Store, f"a{name}") and name not in {"update", "step", "step_ref"}
        ],
    )
    def test_described_as_the_method(self, name):
        """
        A twin has the parameters and the description of the method, and its name
        with an *a*.
        """
        method, twin = getattr(Store, name), getattr(Store, f"a{name}")

        of_class = method.__qualname__.removesuffix(name)
        assert (f"a{name}", f"{of_class}a{name}") == (twin.__name__, twin.__qualname__)
        assert inspect.iscoroutinefunction(twin)
        assert inspect.signature(method) == inspect.signature(twin)
        assert (inspect.getdoc(twin) or "").startswith(
            f"The async twin of `{name}`.\n\n"
        )
        assert (inspect.getdoc(twin) or "").endswith(inspect.getdoc(method) or "?")

    def test_every_verb_has_one(self):
        """No public method of a store would keep an event loop waiting."""
        public = [name for name in dir(Store) if name[0] != "_"]
        verbs = {name for name in public if callable(getattr(Store, name, None))}
        twins = {name for name in verbs if name[0] == "a" and name[1:] in verbs}

        assert {f"a{name}" for name in verbs - twins} == twins


class TestAsync:
    pytestmark = pytest.mark.anyio

    async def test_verbs(self, tmp_path):
        """A twin does what its method does; leaving the block closes the store."""
        async with open_store(f"sqlite:///{tmp_path}/chats.db") as store:
            head = await store.asave("chat", CHAT, expecting=0, label="first")

            assert head == await store.alatest("chat") == store.latest("chat")
            assert CHAT == await store.aload("chat", at="first")
            assert CHAT.messages == (await store.aload("chat", last=5)).messages

            async def add_text(state):
                await anyio.lowlevel.checkpoint()
                return state.add_user_prompt("and?")

            updated = await store.aupdate("chat", add_text)
            assert updated == await store.aload("chat")
            assert 1 == (await store.aerase(CHAT.entries[0].id, reason="asked")).rows
            assert () == await store.averify()

        with pytest.raises(StoreError, match="closed"):
            store.latest("chat")

    async def test_never_keeps_the_loop_waiting(self, tmp_path):
        """While a save waits for another writer, the loop goes on."""
        async with open_store(f"sqlite:///{tmp_path}/chats.db") as store:
            held, free = threading.Event(), threading.Event()

            def hold():
                with store._cache.backend.writing():
                    held.set()
                    free.wait(30)

            thread = threading.Thread(target=hold)
            thread.start()
            held.wait(30)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(store.asave, "chat", CHAT)
                for _ in range(10):
                    await anyio.sleep(0.001)

                free.set()

            thread.join()

            assert CHAT == await store.aload("chat")

    async def test_update_races(self, store):
        """Tasks that update one name lose nothing of each other."""
        await store.asave("chat", Aggregator.new())

        async def append_text(who):
            async def add_text(state):
                await anyio.lowlevel.checkpoint()
                return state.add_user_prompt(str(who))

            await store.aupdate("chat", add_text)

        async with anyio.create_task_group() as tasks:
            for who in range(8):
                tasks.start_soon(append_text, who)

        texts = {message.text for message in await store.aload("chat")}
        assert {str(who) for who in range(8)} == texts

    async def test_update_that_never_ends(self, store, monkeypatch):
        """
        A function that saves under the same name itself is reported, and not called for
        ever.
        """
        monkeypatch.setattr(_store, "UPDATE_ATTEMPTS", 5)
        calls = 0

        def add_text(state):
            nonlocal calls
            calls += 1
            store.save("chat", state.add_user_prompt("twice"))
            return state.add_user_prompt("once")

        async def async_add_text(state):
            return add_text(state)

        with pytest.raises(StoreError, match="saves nothing under this name"):
            await store.aupdate("chat", async_add_text, start=CHAT)

        with pytest.raises(StoreError, match="saves nothing under this name"):
            store.update("chat", add_text)

        assert 10 == calls
        assert ["twice"] * 10 == [m.text for m in store.load("chat")[1:]]


class TestErrors:
    def test_errors_have_advice(self, store):
        """A stale head is an error with the present head, and with how to go on."""
        store.save("chat", CHAT.add_user_prompt("theirs"))
        with pytest.raises(StaleHeadError) as caught:
            store.save("chat", CHAT.add_user_prompt("mine"))

        for words in ("revision 1 of 'chat' (2 messages", "join", "expecting="):
            assert words in str(caught.value)

        store.delete("chat")

        with pytest.raises(StaleHeadError, match="not saved, and 3 was expected"):
            store.save("new", CHAT, expecting=3)

    def test_another_conversation(self, store):
        """Where a name must be new or is to be deleted, nothing advises to join."""
        head = store.save("chat", CHAT)
        store.save("chat", CHAT.add_user_prompt("and?"))
        store.save("other", CHAT)
        for call, advice in (
            # Not to delete what is to be forked.
            (partial(store.fork, "chat", "chat"), r"Give the fork another name\Z"),
            (partial(store.fork, "chat", "other"), "or delete that one first"),
            (partial(store.delete, "chat", expecting=head), "to delete it"),
        ):
            with pytest.raises(StaleHeadError, match=advice) as caught:
                call()

            assert "join" not in str(caught.value)

    def test_two_roots(self, store):
        """
        Two programs that both found nothing under a name begin it twice: the error
        offers the join first, and that keeps both; `update` never gets there.
        """
        one, two = (
            store.load("chat", default=Aggregator.new()).add_user_prompt(text)
            for text in "ab"
        )
        store.save("chat", one)
        with pytest.raises(StaleHeadError, match="another root") as caught:
            store.save("chat", two)

        error = str(caught.value)
        assert error.index("saved.join(state)") < error.index("expecting=")
        assert "start=Aggregator.new()" in error
        both = store.update("chat", lambda saved: saved.join(two))
        assert ["a", "b"] == [message.text for message in both]

    def test_update_of_nothing(self, store):
        """An update of a name that is not saved says how to begin it."""
        with pytest.raises(NotSavedError) as caught:
            store.update("chat", lambda state: state)

        assert "start=Aggregator.new()" in "".join(caught.value.__notes__)

    def test_swapped(self, store):
        """A state where the name belongs, and other values than a state."""
        anything: Any = store
        for call, line in (
            (partial(anything.save, CHAT, "chat"), "store.save(name, state)"),
            (partial(anything.save, "chat", [*CHAT]), "Aggregator.new(messages)"),
        ):
            with pytest.raises(TypeError) as caught:
                call()

            assert line in str(caught.value)

    def test_other_kind_of_function(self, store):
        """
        A function that is async where it may not be, or the other way round, or that
        returns no state.
        """

        async def asynchronous(state):
            return state

        anything: Any = store
        with pytest.raises(TypeError, match=r"store.aupdate\(name, function\)"):
            anything.update("chat", asynchronous, start=CHAT)
        with pytest.raises(TypeError, match="let it return the state"):
            anything.update("chat", lambda _: None, start=CHAT)
        with pytest.raises(TypeError, match="async def"):
            anyio.run(lambda: anything.aupdate("chat", lambda state: state, start=CHAT))
        assert "chat" not in store

    def test_arguments(self, store):
        """What can't be meant is refused at once."""
        head = store.save("chat", CHAT)
        for error, call in (
            (TypeError, partial(store.save, "chat", CHAT.messages)),
            (TypeError, partial(store.save, "chat", CHAT, expecting=True)),
            (TypeError, partial(store.save, "chat", CHAT, expecting="1")),
            (ValueError, partial(store.save, "chat", CHAT, expecting=-1)),
            (ValueError, partial(store.save, "other", CHAT, expecting=head)),
            (ValueError, partial(store.save, "chat", CHAT, label="a\0")),
            (ValueError, partial(store.load, "other", at=head)),
            (TypeError, partial(store.load, "chat", at=True)),
            (TypeError, partial(store.load, "chat", at=1.0)),
            (ValueError, partial(store.load, "chat", last=-1)),
            (ValueError, partial(store.load, "new", last=-1, default=None)),
            (ValueError, partial(store.load, "", default=None)),
            (ValueError, partial(store.__contains__, 5)),
            (ValueError, partial(store.__contains__, "")),
            (ValueError, partial(store.erase, CHAT.entries[0].id, reason="")),
        ):
            with pytest.raises(error):
                call()

        assert (head,) == store.history("chat")

    def test_another_head_of_that_number(self, store):
        """A head of a name that was deleted since is not the one of its number."""
        head = store.save("chat", CHAT)
        store.delete("chat")
        store.save("chat", CHAT.add_user_prompt("another"))
        with pytest.raises(NotSavedError):
            store.load("chat", at=head)

        with pytest.raises(StaleHeadError):
            store.save("chat", CHAT, expecting=head)

    def test_a_head_of_another_time(self, store):
        """
        A head of a name that was deleted since is not expected any more, though the
        same state was saved again as the same revision.
        """
        head = store.save("chat", CHAT)
        deleted = head._replace(saved_at=head.saved_at - timedelta(seconds=1))
        with pytest.raises(StaleHeadError):
            store.save("chat", CHAT.add_user_prompt("more"), expecting=deleted)

    def test_a_number_that_no_revision_has(self, store):
        """No number, however large, leads to a revision of another name."""
        store.save("chat", CHAT)
        store.save("another chat", CHAT.add_user_prompt("another"))
        for at in (0, -1, *(1 << bit | 1 for bit in range(1, 70))):
            with pytest.raises(NotSavedError):
                store.load("chat", at=at)


class TestValues:
    @given(
        heads()
        | windows()
        | receipts()
        | st.from_type(Collected)
        | st.from_type(Damage)
    )
    def test_values(self, value):
        """What stores return are values: equal copies hash alike, and they pickle."""
        copy = pickle.loads(pickle.dumps(value))

        assert value == copy
        equal_values_hash_alike(value, copy)

    @given(st.integers(1, 2**31 - 1), st.integers(1, 2**32 - 1), heads())
    def test_references_are_small(self, key, revision, head):
        """A reference is a short text and back; a copy is equal, and so is a pickle."""
        ref = StateRef(key, revision, head.digest)

        assert 80 >= len(str(ref).encode())
        assert ref == StateRef.parse(str(ref)) == pickle.loads(pickle.dumps(ref))
        equal_values_hash_alike(ref, StateRef.parse(str(ref)))

    def test_largest_reference(self):
        """The largest reference, as text and as a pickle, has at most 200 bytes."""
        ref = StateRef(2**31 - 1, 2**32 - 1, "f" * 32)

        assert (60, True) == (len(str(ref)), len(pickle.dumps(ref)) <= 200)

    @pytest.mark.parametrize(
        "text",
        [
            *("", "chat", "state-1-1-", f"state-1-1-{'g' * 32}", f"state-1-{'0' * 32}"),
            *(
                f"state-0-1-{'0' * 32}",
                f"state-01-1-{'0' * 32}",
                f"state-1-0-{'0' * 32}",
            ),
            *(
                f"state-1-1-{'A' * 32}",
                f"state-1-1-{'0' * 33}",
                f"state-1-1-{'0' * 31}",
            ),
            *(f"state-1-1-{'0' * 32}\n", f" state-1-1-{'0' * 32}"),
            *(f"state-\u0661-1-{'0' * 32}", f"state--1-1-{'0' * 32}"),
            *(f"state-{2**31}-1-{'0' * 32}", f"state-1-{2**32}-{'0' * 32}"),
            *(b"state-1-1-00000000000000000000000000000000", None, 1),
        ],
    )
    def test_text_of_no_reference(self, text):
        """A text that no reference has is an error, which says what was expected."""
        with pytest.raises(ValueError, match="expected"):
            StateRef.parse(text)

    @pytest.mark.parametrize(
        "parts",
        [(True, 1, "0" * 32), (1, 1.0, "0" * 32), ("1", 1, "0" * 32), (1, 1, 1)],
    )
    def test_parts_of_no_reference(self, parts):
        """A reference has whole numbers and a digest, and nothing equal to them."""
        with pytest.raises(ValueError, match="expected"):
            StateRef(*parts)

    @given(heads())
    def test_str_of_a_head(self, head):
        """A head says which state it is of which name."""
        assert f"revision {head.revision}" in str(head)
        assert repr(head.name) in str(head)


class TestTombstones:
    @given(messages(), st.binary(min_size=16, max_size=16), st.text("a", max_size=3))
    def test_carries_the_digest(self, message, content, reason):
        """
        A tombstone of any message has its role and no content, and carries the digest;
        so does a tombstone's tombstone.
        """
        stone = make_tombstone(message, content, reason)

        assert (message.role, "") == (stone.role, stone.text)
        assert (content, reason) == find_erasure(stone)
        assert (content, reason) == find_erasure(make_tombstone(stone, content, reason))

    @given(messages())
    def test_other_messages_are_not_tombstones(self, message):
        """No message that has content is taken for a tombstone."""
        assert find_erasure(message) is None
        mark = {ERASED: {"content": "0" * 32, "reason": "x"}}
        loud = AssistantMessage("word", metadata=mark)

        assert find_erasure(loud) is None
        assert find_erasure(loud.replace(content="", metadata={**mark, "a": 1})) is None
        assert (bytes(16), "x") == find_erasure(loud.replace(content=""))


class TestMemory:
    def test_remembers_few(self, store):
        """
        A store keeps the newest states of as many names as its limit, those that were
        used last.
        """
        small = Store(store._cache.backend, remembered=2)
        for name in "abc":
            small.save(name, CHAT)

        small.load("b")
        small.save("d", CHAT)

        kept = small._cache.recall_all(small._cache.changes)

        assert {"b", "d"} == {each.name.name for each in kept}

        none = Store(store._cache.backend, remembered=0)
        none.load("a")
        none.save("a", CHAT.add_user_prompt("and?"))

        assert [] == list(none._cache.recall_all(none._cache.changes))

    def test_what_is_remembered_is_not_read_again(self):
        """
        Of a name whose head is remembered, the newest messages, the head and the state
        at its revision read the head's row, which shows whether it still is the head,
        and no row of a message.
        """
        calls: list[Any] = []
        store = Store(RecordingBackend(MemoryBackend(), calls.append))
        head = store.save("chat", CHAT)

        def tables_read(read):
            del calls[:]
            read()
            return [call.table for call in calls]

        assert ["revisions"] == tables_read(lambda: store.latest("chat"))
        read = tables_read(lambda: store.load("chat", last=1))
        assert ["changes", "revisions"] == read
        read = tables_read(lambda: store.load("chat", at=head.revision))
        assert ["changes", "names", "revisions"] == read

    def test_others_are_read(self, store):
        """
        What is remembered is not returned where others saved, labelled, went back or
        deleted since, in no verb that reads.
        """
        other = Store(store._cache.backend)
        longer = CHAT.add_user_prompt("and?")
        head = store.save("chat", CHAT)
        newest = other.save("chat", longer)

        assert newest == store.latest("chat")
        assert longer.messages[-1:] == store.load("chat", last=1).messages
        assert CHAT == store.load("chat", at=head.revision)

        assert longer == store.load("chat")

        labelled = other.label("chat", "done")

        assert labelled == store.latest("chat")
        assert labelled == store.load("chat", last=1).head

        back = other.rollback("chat", 1)

        assert back == store.latest("chat")
        assert CHAT.messages[-1:] == store.load("chat", last=1).messages

        other.delete("chat")
        with pytest.raises(NotSavedError):
            store.latest("chat")

        with pytest.raises(NotSavedError):
            store.load("chat", last=1)

        again = other.save("chat", longer)

        assert again == store.latest("chat")
        assert longer == store.load("chat", at=1)


class TestRealConversations:
    def test_every_state_of_each(self, recordings, tmp_path):
        """
        A hundred conversations, saved message by message, come back whole in
        every state, and take little more than their JSON.
        """
        path = recordings / "transcripts" / "airline.jsonl"
        chats = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        url = f"sqlite:///{tmp_path}/chats.db"
        saved = {}
        with open_store(url) as store:
            for number, chat in enumerate(chats):
                state, states = Aggregator.new(), []
                for message in openai_chat.load(chat["messages"]):
                    state = state.add(message)
                    states.append(state)
                    store.save(f"chat {number}", state)

                saved[f"chat {number}"] = states

        assert (100 if is_large(recordings) else 4) == len(saved)
        with open_store(url) as store:
            for name, states in saved.items():
                assert states[-1] == store.load(name)
                for revision in range(1, len(states) + 1, 7):
                    assert states[revision - 1] == store.load(name, at=revision)

            assert () == store.verify()


def test_parent_where_two_branches_have_the_same_rows():
    """
    A state grew from the head also where a branch that was collected in between has
    the rows of the head a second time.
    """
    backend = MemoryBackend()
    store = Store(backend)
    store.save("one", CHAT)
    store.fork("one", "two")
    store.fork("one", "three")
    store.load("three")
    store.save("one", CHAT.add_user_prompt("gone"))
    two = store.load("two").add_user_prompt("twice")
    store.save("two", two)
    store.delete("one")
    store.collect_garbage()
    store.save("three", store.load("three").join(two))

    head = Store(backend).save("two", two.add_user_prompt("on"))

    assert 2 == head.parent
    assert () == store.verify()
