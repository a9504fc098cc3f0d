"""
A store as Pydantic AI's conversations: what it promises beyond what all hosts
do.
"""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.tools import DeferredToolRequests
from pydantic_ai.usage import RequestUsage, RunUsage

from conversation_state.adapters.pydantic_ai import dump
from conversation_state.aggregator import Aggregator
from conversation_state.counting import cost
from conversation_state.errors import MirroredNameError, StoreError
from conversation_state.hosts.pydantic_ai import StoreBackend
from conversation_state.messages import AssistantMessage, UserMessage
from conversation_state.store import Store, open_store
from conversation_state.store.backends.memory import MemoryBackend
from tests.adapters.pydantic_ai import asks, says
from tests.store.promises.case import RecordingBackend


def turn(number, **fields):
    return [
        asks(f"Question {number}", instructions="Be kind."),
        says(f"Answer {number}", **fields),
    ]


def with_usage(number, **fields):
    usage = RequestUsage(input_tokens=10, output_tokens=number)
    return {"usage": usage, "provider_response_id": f"msg_{number}", **fields}


async def grown(backend, turns, conversation_id="chat"):
    conversation = Conversation(conversation_id=conversation_id)
    for number in range(turns):
        conversation.messages += turn(number, **with_usage(number))
        await backend.save(conversation)

    return conversation


async def same_in_both(use):
    """What *use* gives of Pydantic AI's own store, which is what it gives of ours."""
    expected = await use(InMemoryConversationStore())
    with open_store("memory:") as opened:
        assert expected == await use(StoreBackend(opened))

    return expected


class TestAsTheOwnStore:
    """What Pydantic AI's own store in memory does, ours does."""

    def test_saves_and_loads(self):
        """What was saved is loaded, and the last of it."""

        async def use(backend):
            saved = await grown(backend, 5)
            found = await backend.load("chat")
            last = [await backend.load("chat", limit=limit) for limit in range(12)]
            entries = await backend.load_entries("chat", limit=3)
            parents = [entry.parent_id for entry in entries]
            ids = [entry.id for entry in entries]
            return (
                found == saved,
                [[dump_of(one.messages)] for one in (found, *last)],
                found.new_message_index,
                parents[1:] == ids[:-1],
                parents[0] is not None,
            )

        assert asyncio.run(same_in_both(use))[0]

    def test_branches(self):
        """
        A branch keeps the past, and what it leaves can be gone back to, with
        all it cost.
        """

        async def use(backend):
            saved = await grown(backend, 3)
            branch = await backend.branch(
                "chat", at=3, expected_revision=saved.revision
            )
            branch.messages.append(says("Another answer."))
            await backend.save(branch)
            record = await backend.read_record("chat")
            (tip,) = record.branches
            back = await backend.branch(
                "chat", from_entry=tip, expected_revision=record.revision
            )
            nothing = await backend.branch(
                "chat", at=0, expected_revision=back.revision
            )
            return [dump_of(one.messages) for one in (branch, back, nothing)]

        _, back, nothing = asyncio.run(same_in_both(use))

        assert (6, 0) == (len(back), len(nothing))

    def test_rewrites(self):
        """A history that was rewritten leaves the old one as a branch."""

        async def use(backend):
            saved = await grown(backend, 3)
            saved.new_message_index = None
            saved.messages[2:5] = [asks("Summary")]
            new = await backend.save(saved)
            record = await backend.read_record("chat")
            found = await backend.load("chat")
            return dump_of(found.messages), len(new), len(record.branches)

        assert (2, 1) == asyncio.run(same_in_both(use))[1:]

    def test_forks(self):
        """A fork has the past, or some of it, and a life of its own."""

        async def use(backend):
            await grown(backend, 3)
            whole = await backend.fork("chat", new_conversation_id="whole")
            some = await backend.fork("chat", at=2, new_conversation_id="some")
            some.messages.append(asks("And?"))
            await backend.save(some)
            await backend.delete("chat")
            records = await backend.list_conversations()
            return (
                [dump_of(one.messages) for one in (whole, some)],
                [
                    dump_of((await backend.load(key)).messages)
                    for key in ("whole", "some")
                ],
                [(one.conversation_id, one.forked_from) for one in records],
            )

        assert 2 == len(asyncio.run(same_in_both(use))[2])

    def test_forks_after_a_long_request(self):
        """A request is one message, however many prompts it has."""

        async def use(backend):
            saved = await grown(backend, 1)
            saved.messages += [asks("x"), says("ok"), says("Good.")]
            saved.messages[-3].parts = [UserPromptPart(f"{n}") for n in range(45)]
            await backend.save(saved)
            entries = (await backend.load("chat")).messages
            return [
                dump_of(
                    (
                        await backend.fork(
                            "chat", at=at, new_conversation_id=f"at {at}"
                        )
                    ).messages
                )
                for at in range(1, len(entries))
            ]

        assert 4 == len(asyncio.run(same_in_both(use)))

    def test_refuses(self):
        """Saving on top of what another writer saved is refused, whatever it was."""

        async def use(backend):
            saved = await grown(backend, 1)
            stale = await backend.load("chat")
            saved.usage = RunUsage(requests=7)
            await backend.save(saved)
            calls = []
            for late in (stale, Conversation(conversation_id="chat")):
                late.messages += turn(9)
                try:
                    await backend.save(late)
                except ConversationConflict as conflict:
                    calls.append(conflict.conversation_id)

            for options in ({"at": 7}, {"from_entry": "none"}):
                try:
                    await backend.branch(
                        "chat", expected_revision=saved.revision, **options
                    )
                except UserError as error:
                    calls.append(str(error))

            found = await backend.load("chat")
            return calls, found.usage, dump_of(found.messages)

        result, usage, _ = asyncio.run(same_in_both(use))

        assert ["chat", "chat"] == result[:2]
        assert 7 == usage.requests

    def test_entries(self):
        """
        An entry is found by its id, also by one who never saw it; one that is
        not there is a `LookupError`.
        """

        async def use(backend):
            saved = await grown(backend, 3)
            entries = await backend.load_entries("chat")
            await backend.branch("chat", at=1, expected_revision=saved.revision)
            other = backend
            if isinstance(backend, StoreBackend):
                other = StoreBackend(backend.store)

            found = [await other.read_entry(entry.id) for entry in entries]
            with pytest.raises(LookupError):
                await other.read_entry("none")

            return [found[at] == entry for at, entry in enumerate(entries)]

        assert asyncio.run(same_in_both(use)) == [True] * 6


def dump_of(messages):
    return [[getattr(part, "content", None) for part in one.parts] for one in messages]


class TestStates:
    """What stands in the store is an ordinary state."""

    def test_others_go_on(self, store):
        """
        What another writer added is in the history, and a writer that loaded before
        gets an error.
        """
        backend: Any = StoreBackend(store)
        stale = asyncio.run(grown(backend, 1))
        stale.deferred_tool_requests = DeferredToolRequests()
        asyncio.run(backend.save(stale))
        store.update("chat", lambda state: state.add(UserMessage("From elsewhere")))
        found = asyncio.run(backend.load("chat"))

        assert ["From elsewhere"] == dump_of(found.messages)[-1]
        assert found.deferred_tool_requests is None

        stale.messages += turn(1)
        with pytest.raises(ConversationConflict):
            asyncio.run(backend.save(stale))

        found.messages += turn(2)
        asyncio.run(backend.save(found))

        assert 5 == len(asyncio.run(backend.load("chat")).messages)
        assert [] == asyncio.run(backend.read_record("chat")).branches

    @pytest.mark.parametrize("rest", [[], [AssistantMessage("At noon.")]])
    def test_parts_removed(self, store, rest):
        """
        A conversation goes on, and branches, after another program removed the first
        part of a request.
        """
        backend = StoreBackend(store)

        async def use():
            first = asks("When?", instructions="Be kind.")
            await backend.save(Conversation(messages=[first], conversation_id="chat"))
            store.update(
                "chat",
                lambda state: state.without([state.entries[0].id]).extend(rest),
            )
            record = await backend.read_record("chat")
            revision = record.revision if record else ""
            branch = await backend.branch("chat", at=1, expected_revision=revision)
            branch.messages.append(says("Now."))
            await backend.save(branch)

        asyncio.run(use())

        assert ["When?", "Now."] == [each.text for each in store.load("chat")]

    @pytest.mark.parametrize("erased", [0, 1, 2])
    def test_part_erased(self, store, erased):
        """The other parts of the newest request stay where one of them is erased."""
        backend: Any = StoreBackend(store)
        parts = [UserPromptPart(text) for text in ("a", "b", "c")]

        async def use():
            first = Conversation(messages=[ModelRequest(parts)], conversation_id="chat")
            await backend.save(first)
            store.erase(store.load("chat").entries[erased].id, reason="asked for")
            found = await backend.load("chat")
            found.messages.append(says("Now."))
            await backend.save(found)

        asyncio.run(use())
        expected = ["a", "b", "c", "Now."]
        expected[erased] = ""

        assert expected == [each.text for each in store.load("chat")]

    def test_strangers(self, store):
        """
        A state that Pydantic AI never saw is a conversation, can be forked,
        and gone on with.
        """
        messages = [UserMessage("Hi!"), AssistantMessage("Hello."), UserMessage("And?")]
        store.save("theirs", Aggregator.new(messages=messages))
        backend: Any = StoreBackend(store)
        fork = asyncio.run(backend.fork("theirs", new_conversation_id="ours"))
        found = asyncio.run(backend.load("theirs"))
        found.messages.append(says("Well."))
        asyncio.run(backend.save(found))

        assert dump(messages).payload == fork.messages
        assert [*messages, AssistantMessage("Well.")] == [
            one.replace(timestamp=None, metadata={}) for one in store.load("theirs")
        ][:4] or 4 == len(store.load("theirs"))
        assert store.load("ours").parent_id == store.load("theirs", at=1).id

    def test_bill(self, store):
        """
        What a response cost is in the ledger once, in forks, after branches
        and when a history was rewritten.
        """
        backend: Any = StoreBackend(store)

        async def chat():
            saved = await grown(backend, 3)
            await backend.save(saved)
            await backend.fork("chat", at=2, new_conversation_id="fork")
            saved.new_message_index = None
            saved.messages[0:2] = [asks("Summary")]
            await backend.save(saved)
            await backend.branch("chat", at=1, expected_revision=saved.revision)

        asyncio.run(chat())
        chat_usage = store.load("chat").total_usage
        fork = store.load("fork")

        assert (30, 3) == (chat_usage.prompt_tokens, chat_usage.completion_tokens)
        assert 33 == fork.total_usage.total_tokens
        assert 0 == fork.usage.total_tokens
        assert 33 == fork.join(store.load("chat")).total_usage.total_tokens

    def test_bill_of_rejected_answers(self, store):
        """
        An answer that a fallback model rejected is billed once with the one that it
        took, also after the history was rewritten, and for no later answer.
        """
        backend = StoreBackend(store)

        def answer(text):
            response = says(text, model_name=None, **with_usage(len(text)))
            return FunctionModel(lambda *_: response, model_name=text)

        def is_rejected(response: ModelResponse) -> bool:
            return response.text == "Hm"

        model = FallbackModel(
            *map(answer, ["Hm", "Hm", "At noon."]), fallback_on=[is_rejected]
        )

        async def use():
            start = Conversation(conversation_id="chat")
            result = await Agent(model).run("When?", conversation=start)
            await backend.save(result)
            again = await backend.load("chat") or start
            again.messages[0] = asks("And when?")
            await backend.save(again)
            return result.usage

        usage = asyncio.run(use())
        saved = store.load("chat")
        total = saved.total_usage
        late = saved.add_user_prompt("?").add(AssistantMessage("And at one."))

        assert (30, 12) == (usage.input_tokens, usage.output_tokens)
        assert (30, 12) == (total.prompt_tokens, total.completion_tokens)
        assert ["At noon.", "Hm", "Hm"] == sorted(one.model for one in saved.ledger)
        assert 1 == len(cost(late).unbilled)

    def test_bill_of_what_was_left(self, store):
        """Going back to a branch that was left keeps the usage of both."""
        backend: Any = StoreBackend(store)

        async def chat():
            saved = await grown(backend, 3)
            branch = await backend.branch(
                "chat", at=1, expected_revision=saved.revision
            )
            branch.messages.append(says("Another answer.", **with_usage(9)))
            await backend.save(branch)
            record = await backend.read_record("chat")
            await backend.branch(
                "chat", from_entry=record.branches[0], expected_revision=record.revision
            )

        asyncio.run(chat())

        assert [0, 1, 2, 9] == [
            entry.usage.completion_tokens for entry in store.load("chat").ledger
        ]
        assert 7 == len(store.load("chat"))

    def test_the_last_of_it(self, store):
        """
        The end of a long conversation is what stands there: the same entries,
        with what they follow, and their instructions.
        """
        backend: Any = StoreBackend(store)
        asyncio.run(grown(backend, 40))
        entries = asyncio.run(backend.load_entries("chat"))
        for limit in (0, 1, 2, 3, 6, 10, 17, 79, 80, 81):
            last = asyncio.run(backend.load_entries("chat", limit=limit))

            assert entries[len(entries) - min(limit, 80) :] == last

        assert "Be kind." == entries[-2].message.instructions

    def test_small(self):
        """
        A turn writes what is new, a fork, a branch and a change of usage no
        messages.
        """
        added = []

        def on_call(call):
            if call.verb == "add" and call.table == "entries":
                added.append(call.rows)

        store = Store(RecordingBackend(MemoryBackend(), on_call))
        backend: Any = StoreBackend(store)

        async def chat():
            saved = await grown(backend, 40)
            counts = [sum(added)]
            saved.messages += turn(99)
            await backend.save(saved)
            counts.append(sum(added))
            await backend.fork("chat", at=9, new_conversation_id="fork")
            counts.append(sum(added))
            branch = await backend.branch(
                "chat", at=50, expected_revision=saved.revision
            )
            counts.append(sum(added))
            branch.usage = RunUsage(requests=1)
            await backend.save(branch)
            counts.append(sum(added))
            return counts

        counts = asyncio.run(chat())
        steps = [after - before for before, after in pairwise(counts)]

        assert [2, 0, 0, 0] == steps
        assert () == store.verify()

    def test_few_calls(self):
        """
        A turn reads the head's row of a conversation and of its record, and writes
        both in one transaction, however long the conversation is.
        """
        calls: list[Any] = []
        blocks: list[str] = []

        class Backend(RecordingBackend):
            def reading(self):
                blocks.append("reading")
                return super().reading()

            def writing(self):
                blocks.append("writing")
                return super().writing()

        backend: Any = StoreBackend(Store(Backend(MemoryBackend(), calls.append)))

        async def chat(turns):
            await grown(backend, turns, f"chat {turns}")
            del calls[:], blocks[:]
            conversation = await backend.load(f"chat {turns}")
            loading = len(calls), [*blocks]
            del calls[:], blocks[:]
            conversation.messages += turn(99, **with_usage(99))
            await backend.save(conversation)
            read = [each for each in calls if each.verb in {"get", "scan"}]
            saving = len(read), [*blocks]
            written = [each.table for each in calls if each.verb == "add"]
            return loading, saving, written

        few, many = asyncio.run(chat(3)), asyncio.run(chat(30))
        rows = ["revisions", "entries", "ledger"]

        assert few == many
        assert ((6, ["reading"] * 2), (7, ["reading", "writing"]), rows) == few

    def test_turn_reads_a_message_once(self):
        """A turn in a program that has nothing in memory reads each message once."""
        backend = MemoryBackend()
        asyncio.run(grown(StoreBackend(Store(backend)), 30))
        calls: list[Any] = []
        turns: Any = StoreBackend(Store(RecordingBackend(backend, calls.append)))

        async def take_turn():
            conversation = await turns.load("chat")
            conversation.messages += turn(99)
            await turns.save(conversation)

        asyncio.run(take_turn())
        scans = [
            each for each in calls if (each.verb, each.table) == ("scan", "entries")
        ]

        assert 1 == len(scans)

    def test_name_of_another_host(self, store):
        """A conversation under a name that another host does not read is refused."""
        backend: Any = StoreBackend(store)
        with pytest.raises(MirroredNameError):
            asyncio.run(grown(backend, 1, "langgraph/thread/messages"))

        assert () == store.names()

    def test_is_there_for_others(self, tmp_path):
        """Two programs see each other's saves, branches and forks."""
        url = f"sqlite:///{tmp_path}/chats.db"

        async def chat():
            async with (
                StoreBackend.from_url(url) as one,
                StoreBackend.from_url(url) as two,
            ):
                saved = await grown(one, 3)
                branch = await two.branch(
                    "chat", at=2, expected_revision=saved.revision
                )
                branch.messages += turn(7)
                await two.save(branch)
                record: Any = await one.read_record("chat")
                back = await one.branch(
                    "chat",
                    from_entry=record.branches[0],
                    expected_revision=record.revision,
                )
                with pytest.raises(ConversationConflict):
                    await two.save(branch)

                return saved.messages == back.messages, two.store.verify()

        assert (True, ()) == asyncio.run(chat())


class TestWrite:
    """What is not a conversation is not saved."""

    def test_chain(self, store):
        """Entries that do not follow each other are refused."""
        backend: Any = StoreBackend(store)
        one = ConversationEntry(parent_id=None, message=asks("Hi!"))
        two = ConversationEntry(parent_id="other", message=asks("Hi!"))
        for entries, head in (([one, two], two.id), ([one, one], one.id), ([one], "x")):
            record = ConversationRecord(conversation_id="chat", head_id=head)
            with pytest.raises(ValueError, match="expected a chain"):
                asyncio.run(
                    backend.write_record(
                        record, new_entries=entries, expected_revision=None
                    )
                )

        assert () == store.names()

    def test_entry_of_no_state(self, store):
        """A history that continues an unknown one is a conflict."""
        record = ConversationRecord(conversation_id="chat", head_id="gone")
        with pytest.raises(ConversationConflict):
            asyncio.run(
                StoreBackend(store).write_record(record, expected_revision=None)
            )

        assert () == store.names()

    def test_entry_of_another(self, store):
        """A new conversation may go on behind an entry of another one."""
        backend: Any = StoreBackend(store)
        asyncio.run(grown(backend, 2))
        entry = asyncio.run(backend.load_entries("chat"))[1]
        record = ConversationRecord(conversation_id="other", head_id=entry.id)
        asyncio.run(backend.write_record(record, expected_revision=None))

        messages = asyncio.run(backend.load("other")).messages
        assert dump_of(asyncio.run(backend.load("chat")).messages[:2]) == dump_of(
            messages
        )

    def test_closes_what_it_opened(self):
        """Behind its block a store that it opened is closed."""

        async def use():
            async with StoreBackend.from_url("memory:") as backend:
                await grown(backend, 1)

            return backend

        with pytest.raises(StoreError, match="closed"):
            asyncio.run(use()).store.names()

    def test_all_or_nothing(self, store):
        """A message that can't be kept leaves the conversation as it was."""
        backend: Any = StoreBackend(store)
        saved = asyncio.run(grown(backend, 1))
        saved.messages += [
            asks("fine"),
            ModelRequest(parts=[], metadata={"a": object()}),
        ]
        with pytest.raises(ValueError, match=r"(?i)serializ|object"):
            asyncio.run(backend.save(saved))

        assert 1 == store.latest("chat").revision
        assert 2 == len(asyncio.run(backend.load("chat")).messages)

    def test_begun_anew(self, store):
        """
        An entry of a conversation that was deleted is not found, also if another one
        has its id and revision since.
        """
        backend: Any = StoreBackend(store)
        asyncio.run(grown(backend, 1))
        entry = asyncio.run(backend.load_entries("chat"))[-1]
        asyncio.run(backend.delete("chat"))
        asyncio.run(grown(backend, 1))

        with pytest.raises(LookupError):
            asyncio.run(backend.read_entry(entry.id))

    def test_names(self):
        """Ids that are not names get one, each another."""
        ids = ["", "x" * 999, "a\0", "pydantic_ai:odd:1"]
        names = [StoreBackend.name_of(id) for id in ids]

        assert "chat" == StoreBackend.name_of("chat")
        assert len(ids) == len({*ids, *names} - {*ids})
        assert all(name.startswith("pydantic_ai:odd:") for name in names)
