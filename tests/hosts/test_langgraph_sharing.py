"""What is kept of threads: what is new, once; all of it, or none; and as it was."""

from collections import OrderedDict, deque
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Interrupt, Overwrite, Send

from conversation_state import Aggregator, Usage, UserMessage
from conversation_state.adapters import anthropic, openai_chat
from conversation_state.adapters.langchain import load_message
from conversation_state.errors import NotSavedError, StoreError
from conversation_state.hosts.langgraph import _conversations
from conversation_state.store import open_store
from conversation_state.store._store import Store
from conversation_state.store.backends.memory import MemoryBackend
from tests.hosts.langgraph import (
    CONFIG,
    graph_of,
    rows_of,
    run_turn,
    saver_of,
    stored_bytes,
    texts_of,
)
from tests.processes import count_calls
from tests.store.promises.case import InjectedError, failing


def put(saver, values, parent=None, *, thread="1", new=None, metadata=None):
    checkpoint: Any = empty_checkpoint()
    versions = dict.fromkeys(values, 1)
    checkpoint |= {"channel_values": values, "channel_versions": versions}
    config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    new = versions if new is None else new
    return saver.put(parent or config, checkpoint, metadata or {"step": 0}, new)


CONFIG_1: Any = {"thread_id": "1", "checkpoint_ns": ""}


def got(saver, config):
    return saver.get_tuple(config).checkpoint["channel_values"]


class TestDelta:
    def test_a_turn(self, store):
        """A turn writes as many rows and bytes, however long the conversation is."""
        graph = graph_of(saver_of(store), lambda _: {"messages": [AIMessage("y" * 50)]})
        rows, size = [], []
        for _ in range(60):
            run_turn(graph, "x" * 50)
            rows.append(rows_of(store))
            size.append(stored_bytes(store))

        grown = [
            (rows[at] - rows[at - 1], size[at] - size[at - 1]) for at in (20, 40, 59)
        ]

        assert grown[0][0] == grown[1][0] == grown[2][0]
        assert {"entries": 2, "records": 6, "revisions": 2} == grown[0][0]
        assert max(size for _, size in grown) - min(size for _, size in grown) < 100
        assert 1 == rows[-1]["branches"]

    def test_read_again(self, store):
        """A saver remembers the messages of a thread that it has read."""
        graph = graph_of(saver_of(store), lambda _: {"messages": [AIMessage("y")]})
        for _ in range(30):
            run_turn(graph, "x")

        saver = saver_of(store)
        first, again = (count_calls(lambda: saver.get_tuple(CONFIG)) for _ in range(2))

        assert again < 0.95 * first

    def test_forks(self, store):
        """
        A fork of a long thread writes what is new in it; a copy of one writes its
        checkpoints, and no messages.
        """
        saver = saver_of(store)
        graph = graph_of(saver)
        for _ in range(20):
            run_turn(graph, "x")

        early = list(graph.get_state_history(CONFIG))[3].config
        before = rows_of(store)
        run_turn(graph, "fork", early)
        forked = rows_of(store) - before

        assert 2 == forked["entries"]
        assert 1 == forked["branches"]

        before = rows_of(store)
        saver.copy_thread("1", "2")
        copied = rows_of(store) - before

        assert {"names": 1, "revisions": 1, "origins": 1} == {
            name: count for name, count in copied.items() if name != "records"
        }
        assert 63 == len(list(saver.list({"configurable": {"thread_id": "2"}})))

    def test_values_once(self, store):
        """A value is kept once however many checkpoints have it."""
        saver = saver_of(store)
        large = {"plan": "p" * 10_000, "step": 1}
        first = put(saver, large)
        before = stored_bytes(store)
        later = first
        for step in range(5):
            later = put(saver, {**large, "step": step}, later, new={"step": 2})

        assert stored_bytes(store) - before < 5_000
        assert {**large, "step": 4} == got(saver, later)
        assert large == got(saver, first)

    def test_two_channels(self, store):
        """
        Two channels of messages that change at different times are both restored
        from every checkpoint, and from the one that is left after pruning.
        """
        saver = saver_of(store)
        a = [HumanMessage("a1", id="1")]
        b = [AIMessage("b1", id="2")]
        steps: list[Any] = []
        config: Any = None
        given: dict[str, Any] = {}
        for channel, values in (
            ("b", b),
            ("a", a),
            ("a", [*a, AIMessage("a2", id="3")]),
            ("b", [*b, HumanMessage("b2", id="4")]),
            ("plan", "x" * 100),
            ("a", a),
        ):
            given = {**given, channel: values}
            versions = dict.fromkeys(given, 1) | {channel: len(steps) + 2}
            checkpoint = {
                **empty_checkpoint(),
                "channel_values": given,
                "channel_versions": versions,
            }
            named = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
            config = saver.put(config or named, checkpoint, {}, {channel: 1})
            steps.append((config, given))

        for each in (saver, saver_of(store)):
            assert all(values == got(each, config) for config, values in steps)

        saver.prune(["1"])
        store.collect_garbage()

        assert given == got(saver_of(store), config)
        assert ["a1"] == texts_of(store, saver.name("1", "a"))
        assert ["b1", "b2"] == texts_of(store, saver.name("1", "b"))


MESSAGES = [
    SystemMessage("Be brief.", id="s"),
    HumanMessage(
        [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "https://x.org/a.png"}},
        ],
        id="h",
        name="ann",
    ),
    AIMessage(
        "",
        id="a",
        tool_calls=[{"name": "look", "args": {"x": [1, 2.5, None]}, "id": "c1"}],
        usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
        response_metadata={"model_name": "m", "finish_reason": "tool_calls"},
        additional_kwargs={"own": {"deep": [True]}},
    ),
    ToolMessage("a cat", tool_call_id="c1", id="t", status="error"),
    AIMessage("a cat.", id="b"),
]


class TestPut:
    """Checkpoints and writes that are put in an unusual order, or again."""

    def put_as(self, saver, id, value):
        named = {"thread_id": "1", "checkpoint_ns": ""}
        checkpoint = {**empty_checkpoint(), "id": id, "channel_values": {"x": value}}
        return saver.put({"configurable": named}, checkpoint, {}, {"x": 1})

    def test_again(self, store):
        """
        A checkpoint that is put again replaces the one of its id; an older id stays
        behind the newest.
        """
        saver = saver_of(store)
        second = self.put_as(saver, "2", "a" * 100)
        first = self.put_as(saver, "1", "b" * 100)
        self.put_as(saver, "2", "c" * 100)

        assert {"x": "c" * 100} == got(saver, second)
        assert {"x": "b" * 100} == got(saver, first)
        assert ["2", "1"] == [
            each.checkpoint["id"] for each in saver.list({"configurable": CONFIG_1})
        ]
        assert {"x": "c" * 100} == got(saver, {"configurable": CONFIG_1})

    def test_again_below_itself(self, store):
        """
        A checkpoint can't be put again below itself: LangGraph follows parents to the
        first checkpoint, and would not end.
        """
        saver = saver_of(store, allow_siblings=True)
        first = put(saver, {"x": "a"})
        second = put(saver, {"x": "b"}, first)
        checkpoint = saver.get_tuple(first).checkpoint

        for parent in (first, second):
            with pytest.raises(ValueError, match="can't be put again below it"):
                saver.put(parent, checkpoint, {}, {})

        assert saver.get_tuple(first).parent_config is None


class TestMessages:
    def test_fields(self, store):
        """
        Messages come back equal, of their class, field by field, also to those
        who know nothing; and are dumped to other providers.
        """
        saver = saver_of(store)
        config = put(saver, {"messages": MESSAGES})
        fields_set = []
        for each in (saver, saver_of(store)):
            back = got(each, config)["messages"]

            assert MESSAGES == back
            assert [*map(type, MESSAGES)] == [*map(type, back)]
            fields_set.append([message.model_fields_set for message in back])

        assert fields_set[0] == fields_set[1]
        assert all("content" in each for each in fields_set[0])
        chat = store.load(saver.name("1"))
        roles = [m["role"] for m in openai_chat.dump(chat).payload["messages"]]

        assert ["system", "user", "assistant", "tool", "assistant"] == roles
        assert "Be brief." == anthropic.dump(chat).payload["system"]

    @pytest.mark.parametrize(
        "odd",
        [
            HumanMessage(
                "x", additional_kwargs={"when": datetime(2026, 1, 1, tzinfo=UTC)}
            ),
            HumanMessage("x", additional_kwargs={"b": b"\0"}),
            HumanMessage("nul \0, \ufffd, \U0001f600" + "y" * 1_000_000),
            RemoveMessage(id="1"),
            type("Own", (HumanMessage,), {})("own"),
        ],
        ids=["time", "bytes", "large", "remove", "own"],
    )
    def test_odd_ones(self, store, odd):
        """
        A list that can't be converted to our messages is kept as LangGraph would: what
        comes back is what came back from its own checkpointer.
        """
        messages = [HumanMessage("a", id="a"), odd]

        def back(saver):
            return got(saver, put(saver, {"messages": messages}))["messages"]

        try:
            expected = back(InMemorySaver())
        except Exception as error:  # noqa: BLE001 - any of its serde's: expected of ours
            with pytest.raises(type(error)):
                back(saver_of(store))
        else:
            assert expected == back(saver_of(store))

    def test_repeated_call(self, store):
        """
        One message that is in a list more than once is as many entries, each
        with an identity of its own, whatever the list was before.
        """
        saver = saver_of(store)
        a, b = HumanMessage("a", id="a"), AIMessage("b", id="b")
        config = None
        for messages in ([a, b], [b, a, a, b], [a], [a, a], [b, b, a, a, a], [b, a]):
            config = put(saver, {"messages": messages}, config)
            ids = [entry.id for entry in store.load(saver.name("1")).entries]

            assert messages == got(saver_of(store), config)["messages"]
            assert len(messages) == len({*ids})

    def test_wrong_conversion(self, store, monkeypatch):
        """
        Whatever conversion may get wrong, a list that would not come back equal
        is kept as bytes, and comes back equal.
        """

        def forgetful(message):
            return load_message(message.model_copy(update={"name": None}))

        monkeypatch.setattr(_conversations, "load_message", forgetful)
        saver = saver_of(store)
        messages = [HumanMessage("a", id="a", name="ann")]
        config = put(saver, {"messages": messages})

        assert messages == got(saver_of(store), config)["messages"]
        assert ["a"] == texts_of(store, saver.name("1"))

    def test_not_readable(self, store):
        """
        Where a conversation can't be read any more, none is under its name, rather
        than an old one.
        """
        saver = saver_of(store)
        odd = HumanMessage([{"type": "text", "text": "b", "at": datetime.now(UTC)}])
        said_before = [HumanMessage("a", id="a")]
        config = put(saver, {"messages": said_before})
        config = put(saver, {"messages": [*said_before, odd]}, config)

        assert () == store.names()

        put(saver, {"messages": [*said_before, AIMessage("c")]}, config)

        assert ["a", "c"] == texts_of(store, saver.name("1"))

    def test_changed_in_place(self, store):
        """
        A node that changes a message it was given, and not the list, changes
        what is kept from then on.
        """
        saver = saver_of(store)
        messages = [HumanMessage("a", id="1"), AIMessage("b", id="2")]
        first = put(saver, {"messages": messages})
        messages[0].content = "A"
        messages[1].additional_kwargs["k"] = 1
        second = put(saver, {"messages": messages}, first)

        assert messages == got(saver, second)["messages"]
        assert "a" == got(saver, first)["messages"][0].content

    def test_all_changed_without_ids(self, store):
        """
        Where all messages are others and have no ids, each is not compared with all:
        four times the messages cost about four times the calls.
        """
        saver = saver_of(store)

        def count_replacing(many):
            first = put(
                saver, {"messages": [HumanMessage(f"a{n}") for n in range(many)]}
            )
            changed = [HumanMessage(f"b{n}") for n in range(many)]
            return count_calls(lambda: put(saver, {"messages": changed}, first))

        assert count_replacing(400) < 6 * count_replacing(100)

    def test_one_changed(self, store):
        """
        A list in which one message is another, of its class, content or other
        fields, comes back as it is, and so does the one before.
        """
        saver = saver_of(store)
        before = [
            HumanMessage("0", id="0"),
            AIMessage("1", id="1"),
            HumanMessage("2", id="2"),
        ]
        first = put(saver, {"messages": before})
        others = [
            SystemMessage("x", id="1"),
            AIMessage("x", id="1"),
            AIMessage("1", id="1", own="extra"),
            before[1].model_copy(update={"name": "ann"}),
        ]
        for other in others:
            changed = [before[0], other, before[2]]
            config = put(saver, {"messages": changed}, first)
            found = got(saver_of(store), config)["messages"]

            assert changed == found == got(saver, config)["messages"]
            assert list(map(type, changed)) == list(map(type, found))
            assert before == got(saver, first)["messages"]

    def test_returned_changed(self, store):
        """
        Messages that a caller got and changed, inside too, are as they were for the
        next one, and in what a run goes on to put.
        """
        saver = saver_of(store)
        config = put(saver, {"messages": MESSAGES})

        for each in (saver, saver_of(store)):
            for _ in range(3):
                for message in got(each, config)["messages"]:
                    message.additional_kwargs["changed"] = True
                    message.response_metadata["changed"] = True
                    message.name = "changed"
                    message.own = "changed"
                    if isinstance(message.content, list):
                        message.content.append("changed")
                    if isinstance(message, AIMessage):
                        message.tool_calls.append({"changed": True})  # type: ignore[typeddict-item, typeddict-unknown-key]

                assert MESSAGES == got(each, config)["messages"]

            more = [*got(each, config)["messages"], HumanMessage("more", id="m")]
            later = put(each, {"messages": more}, config)

            assert more == got(saver_of(store), later)["messages"]
            assert 1 + len(MESSAGES) == len(store.load(saver.name("1")))

    def test_subclass(self, store):
        """
        A message of a class of the caller's is not taken for one of LangChain's that
        has the same fields.
        """

        class Mine(HumanMessage):
            pass

        saver = saver_of(store)
        config = put(saver, {"messages": [HumanMessage("a", id="1")]})
        message = Mine(content="a", id="1")
        config = put(saver, {"messages": [message]}, config)
        theirs = InMemorySaver()

        expected = got(theirs, put(theirs, {"messages": [message]}))
        assert expected == got(saver, config)
        assert ["a"] == texts_of(store, saver.name("1"))

    def test_odd_keys(self, store):
        """Threads, namespaces and channels keep apart whatever they are called."""
        saver = saver_of(store)
        names = ["", "a", "a/b", "a%2Fb", "../", "\0", "a\0", "é\ud800", "x" * 600]
        names += ["x" * 601, "1", "langgraph/1/"]
        configs = {
            name: put(saver, {"m": [HumanMessage(f"in {at}")]}, thread=name)
            for at, name in enumerate(names)
        }

        for at, (name, config) in enumerate(configs.items()):
            assert f"in {at}" == got(saver, config)["m"][0].content
            assert [f"in {at}"] == texts_of(store, saver.name(name, "m"))

        assert len(names) == len(store.names())
        assert sorted(names) == sorted(
            each.config["configurable"]["thread_id"] for each in saver.list(None)
        )

        saver.delete_thread("a")

        assert len(names) - 1 == len(store.names())

    def test_erased(self, store):
        """What is erased from the store is erased from every checkpoint."""
        saver = saver_of(store)
        config = put(saver, {"messages": [HumanMessage("my name is Ann", id="1")]})
        store.erase(store.load(saver.name("1")).entries[0].id, reason="asked for")

        for each in (saver, saver_of(store)):
            (message,) = got(each, config)["messages"]
            assert "Ann" not in str(message.content)

    def test_encrypted(self, store):
        """With a serde that encrypts, nothing is there in plain text."""

        class Cipher:
            def encrypt(self, plaintext):
                return "rot", bytes(255 - byte for byte in plaintext)

            def decrypt(self, ciphername, ciphertext):
                assert "rot" == ciphername
                return bytes(255 - byte for byte in ciphertext)

        saver = saver_of(store, serde=EncryptedSerializer(Cipher()))
        messages = [HumanMessage("secret", id="1")]
        config = put(saver, {"messages": messages, "chat": Aggregator.new()})

        put(saver, {"messages": [*messages, AIMessage("b")]}, config)
        put(saver, {"messages": messages, "count": 1}, config, new=["count"])

        assert messages == got(saver, config)["messages"]
        assert () == store.names()
        with store._cache.backend.reading() as rows:
            assert b"secret" not in b"".join(
                row[1] for row in rows.scan("records", None, None)
            )


class TestOurs:
    def test_values(self, store):
        """Values of ours come back equal, on their own and inside of others."""
        saver = saver_of(store)
        chat = Aggregator.new().add_user_prompt("a").add_assistant_message("b")
        chat = chat.fork().add_user_prompt("c").add_usage(None)
        values = {
            "chat": chat,
            "inside": {"x": [chat, [UserMessage("d"), 1]], "y": {"plain": 1}},
            "empty": Aggregator.new(),
        }
        config = put(saver, values)

        for each in (saver, saver_of(store)):
            assert values == got(each, config)

        assert chat == store.load(saver.name("1", "chat"))
        saver.put_writes(config, [("chat", chat), ("x", [UserMessage("e")])], "task")

        pending = saver.get_tuple(config).pending_writes

        assert [("task", "chat", chat), ("task", "x", [UserMessage("e")])] == pending

    @pytest.mark.parametrize(
        "wrap",
        [
            lambda value: Send("node", {"chat": value}),
            lambda value: Send("node", value),
            Overwrite,
            lambda value: [Interrupt(value, id="1")],
            lambda value: deque([value]),
            lambda value: OrderedDict(x=value),
            lambda value: [value, [{"x": [value]}]],
            _DeltaSnapshot,
        ],
        ids=[
            *("sent map", "sent", "overwrite", "interrupt", "deque"),
            *("ordered", "nested", "snapshot"),
        ],
    )
    @pytest.mark.parametrize(
        "value",
        [
            Aggregator.new().add_user_prompt("a"),
            UserMessage("a"),
            Usage(1, 2),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_inside(self, store, wrap, value):
        """So they do inside of what LangGraph hands on between steps."""
        saver = saver_of(store)
        config = put(saver, {"x": wrap(value)})
        saver.put_writes(config, [("y", wrap(value))], "task")
        found = saver_of(store).get_tuple(config)

        assert wrap(value) == found.checkpoint["channel_values"]["x"]
        assert type(wrap(value)) in {type(found.pending_writes[0][2]), OrderedDict}
        assert ("task", "y", wrap(value)) == found.pending_writes[0]

    def test_given_unchanged(self, store):
        """What was given is as it was."""
        saver = saver_of(store)
        inner = {"chat": Aggregator.new()}
        sent = Send("node", inner)
        config = put(saver, {"x": sent})
        saver.put_writes(config, [("y", sent)], "task")

        assert inner is sent.arg
        assert [Aggregator] == [type(value) for value in inner.values()]

    @pytest.mark.parametrize(
        "odd",
        [{UserMessage("a")}, {UserMessage("a"): 1}, object()],
        ids=["set", "key", "object"],
    )
    def test_refused(self, store, odd):
        """What can't be written is LangGraph's own error, and nothing was written."""
        saver = saver_of(store)
        with pytest.raises(TypeError, match="serializable"):
            put(saver, {"x": odd})

        assert saver.get_tuple(CONFIG) is None

    def test_shared(self, store):
        """A state that grows is kept as what is new in it."""
        saver = saver_of(store)
        chat = Aggregator.new().extend([UserMessage("x")] * 100)
        config = put(saver, {"chat": chat})
        before = rows_of(store)
        config = put(saver, {"chat": chat.add_user_prompt("y")}, config)

        assert 1 == (rows_of(store) - before)["entries"]
        assert 101 == len(got(saver_of(store), config)["chat"])

        saver.prune(["1"])
        store.collect_garbage()

        assert [config] == [each.config for each in saver_of(store).list(None)]
        assert chat.add_user_prompt("y").messages == (
            got(saver_of(store), config)["chat"].messages
        )


ASKED = [HumanMessage("a", id="a")]
ANSWERED = [
    *ASKED,
    AIMessage(
        "b",
        id="b",
        usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
    ),
]
AT = datetime(2026, 1, 1, tzinfo=UTC)
ODD = HumanMessage([{"type": "text", "text": "c", "at": AT}])


class TestMirror:
    """The conversation under a thread's name is that of its newest checkpoint."""

    @pytest.mark.parametrize(
        ("first", "second", "expected"),
        [
            ({"messages": ASKED}, {"messages": ANSWERED}, ["a"]),
            ({"messages": ASKED}, {"messages": [ODD]}, ["a"]),
            ({"messages": [ODD]}, {"messages": ANSWERED}, None),
            ({"messages": []}, {"messages": ANSWERED}, []),
            ({"plan": "x"}, {"messages": ANSWERED}, []),
            (
                {"messages": Aggregator.new([UserMessage("a")])},
                {"messages": Aggregator.new([UserMessage("b")])},
                ["a"],
            ),
        ],
        ids=["messages", "after-bytes", "bytes", "empty", "none", "state"],
    )
    def test_older_continued(self, store, first, second, expected):
        """
        A checkpoint that continues an older one, and changes another channel, has the
        older one's conversation under its name.
        """
        saver = saver_of(store)
        older = put(saver, first)
        put(saver, {**first, **second}, older, new=list(second))
        newest = put(saver, {**first, "count": 2}, older, new=["count"])
        name = saver.name("1")

        assert {**first, "count": 2} == got(saver, newest)
        assert (None if name not in store else texts_of(store, name)) == expected

        put(saver, {**first, "count": 3}, newest, new=["count"])

        assert (None if name not in store else texts_of(store, name)) == expected

    @pytest.mark.parametrize("first", [{"plan": "x"}, {"messages": []}])
    def test_emptied(self, store, first):
        """
        Where a thread went back before its first message, what it cost stays in the
        ledger, also when the abandoned checkpoints are pruned.
        """
        saver = saver_of(store)
        older = put(saver, first)
        put(saver, {**first, "messages": ANSWERED}, older, new=["messages"])
        put(saver, first, older, new=[])
        before = store.load(saver.name("1"))
        saver.prune(["1"])
        after = store.load(saver.name("1"))

        assert 7 == before.total_usage.total_tokens == after.total_usage.total_tokens
        assert 0 == len(before) == len(after)
        assert 1 == len(store.history(saver.name("1")))

    def test_written_empty(self, store):
        """A channel that is written as an empty list has an empty conversation."""
        saver = saver_of(store)
        older = put(saver, {"plan": "x"})
        put(saver, {"plan": "x", "messages": ANSWERED}, older, new=["messages"])
        put(saver, {"plan": "x", "messages": []}, older, new=["messages"])

        assert [] == texts_of(store, saver.name("1"))

    def test_late(self, store):
        """
        A checkpoint that is put after a newer one, as by two runs at once, is not under
        the name, but what it cost is in the ledger.
        """
        saver = saver_of(store, allow_siblings=True)
        named: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
        for id, messages in (("2", ASKED), ("1", ANSWERED)):
            checkpoint: Any = {**empty_checkpoint(), "id": id}
            checkpoint["channel_values"] = {"messages": messages}
            saver.put(named, checkpoint, {}, {"messages": 1})

        state = store.load(saver.name("1"))

        assert ["a"] == [message.text for message in state]
        assert 7 == state.total_usage.total_tokens

    def test_delta(self, store):
        """
        A delta channel has the last snapshot of the checkpoints before, and no messages
        if there is none.
        """
        saver = saver_of(store)
        counters: Any = {"counters_since_delta_snapshot": {"messages": (1, 1)}}
        first = put(saver, {"count": 0})
        whole = put(saver, {"messages": _DeltaSnapshot(ASKED)}, first)
        older = put(saver, {}, whole, metadata=counters)
        put(saver, {"messages": _DeltaSnapshot(ANSWERED)}, older)
        put(saver, {"count": 1}, older, metadata=counters)

        assert ["a"] == texts_of(store, saver.name("1"))

        saver.copy_thread("1", "2")
        saver.prune(["1"])

        assert ["a"] == texts_of(store, saver.name("1"))

        id = first["configurable"]["checkpoint_id"]
        two: Any = {"thread_id": "2", "checkpoint_ns": "", "checkpoint_id": id}
        put(saver, {"count": 2}, {"configurable": two}, metadata=counters)

        assert [] == texts_of(store, saver.name("2"))


UNRESTORABLE = [
    *(ANSWERED[0], ANSWERED[1]),
    ToolMessage("rows", tool_call_id="c", id="t", artifact=Decimal("1.5")),
    AIMessage(
        "c",
        usage_metadata={"input_tokens": 10, "output_tokens": 0, "total_tokens": 10},
        response_metadata={"id": "resp", "at": AT, "model_name": "m"},
    ),
]


class TestReadable:
    """
    Lists with a message that can't be restored from ours, such as one with an artifact
    of the caller's: bytes in the checkpoint, and a conversation under the name.
    """

    def test_turns(self, store):
        """
        What can be read of each message is there, each answer is billed once, also
        without an id, and messages that stay keep their identities.
        """
        saver, config = saver_of(store), None
        name = saver.name("1")
        state: Any = Aggregator.new()
        ids = set()
        for messages in (
            *[UNRESTORABLE[:count] for count in (1, 2, 3, 4)],
            UNRESTORABLE[1:],
            UNRESTORABLE[:2],
            UNRESTORABLE,
        ):
            config = put(saver, {"messages": messages}, config)
            state = store.load(name)
            texts = [message.text for message in messages]

            assert messages == got(saver_of(store), config)["messages"]
            assert texts == [message.text for message in state]
            ids |= {each.id for each in state.entries if each.message.text == "b"}

        assert 1 == len(ids)
        assert [7, 10] == [entry.usage.total_tokens for entry in state.ledger]
        assert "m" == state[-1].response.model
        assert anthropic.dump(state[:2]).payload["messages"]

    def test_repeated(self, store):
        """One message that is there more than once is as many entries."""
        saver, config = saver_of(store), None
        odd, other = UNRESTORABLE[2], ASKED[0]
        for messages in ([odd, odd], [other, odd, odd, odd], [odd, other, odd]):
            config = put(saver, {"messages": messages}, config)
            entries = store.load(saver.name("1")).entries

            assert len(messages) == len({entry.id for entry in entries})

    def test_branches(self, store):
        """
        A checkpoint that continues one with such a list has its conversation under the
        name, and so has the one that is left after pruning.
        """
        saver = saver_of(store)
        older = put(saver, {"messages": UNRESTORABLE})
        put(saver, {"messages": ANSWERED}, older)
        put(saver, {"messages": UNRESTORABLE, "count": 1}, older, new=["count"])
        texts = [message.text for message in UNRESTORABLE]

        assert texts == texts_of(store, saver.name("1"))

        saver.prune(["1"])

        assert texts == texts_of(store, saver.name("1"))
        assert 17 == store.load(saver.name("1")).total_usage.total_tokens


class TestWrites:
    def test_again(self, store):
        """
        What a task wrote stays when it writes again; its errors, interrupts and
        the answers to them are what they are last. Their order is LangGraph's.
        """
        saver = saver_of(store)
        config = put(saver, {"x": 1})
        for text in ("first", "second"):
            writes = [("a", text), ("__interrupt__", text), ("b", text)]
            saver.put_writes(config, writes, "task", "~1")

        saver.put_writes(config, [("a", "before")], "tasks", "~0")

        assert [
            ("tasks", "a", "before"),
            ("task", "__interrupt__", "second"),
            ("task", "a", "first"),
            ("task", "b", "first"),
        ] == saver.get_tuple(config).pending_writes

    def test_after_copy(self, store):
        """
        What is written after a checkpoint that a thread shares with a copy of
        it is that thread's.
        """
        saver = saver_of(store)
        config = put(saver, {"x": 1})
        saver.put_writes(config, [("__interrupt__", "first")], "task")
        saver.copy_thread("1", "2")
        two: Any = saver.get_tuple({"configurable": {"thread_id": "2"}}).config
        saver.put_writes(two, [("__interrupt__", "second"), ("b", 1)], "task")
        put(saver, {"x": 2}, two)

        def pending(config):
            return [value for *_, value in saver.get_tuple(config).pending_writes]

        assert [["first"], ["second", 1]] == [pending(config), pending(two)]
        assert 1 == len([*saver.list({"configurable": {"thread_id": "1"}})])


class TestAtomic:
    def test_killed_anywhere(self):
        """
        Killed at any call, a store has the checkpoint and its messages, or neither; and
        the next one goes on.
        """
        backend = MemoryBackend()
        first = put(saver_of(Store(backend)), {"messages": MESSAGES[:1], "x": "x" * 99})
        at = 0
        while True:
            saver = saver_of(Store(failing(backend, at)))
            try:
                config = put(saver, {"messages": MESSAGES, "x": "y" * 99}, first)
            except InjectedError:
                at += 1
            else:
                break

            there = Store(backend)
            assert () == there.verify()
            found = [*saver_of(there).list(None)]
            lengths = [
                len(each.checkpoint["channel_values"]["messages"]) for each in found
            ]
            if 1 < len(found):
                # It was done when the answer was lost.
                break

            assert [1] == lengths
            assert ["Be brief."] == texts_of(there, saver.name("1"))

        assert at > 10
        config = put(saver_of(Store(backend)), {"messages": MESSAGES}, first)
        assert MESSAGES == got(saver_of(Store(backend)), config)["messages"]


class TestLettingGo:
    def test_nothing_is_left(self, store):
        """
        Of threads that were deleted nothing is left but that there was garbage: a
        copy keeps what is its own until it is deleted, too.
        """
        saver = saver_of(store)
        graph = graph_of(saver)
        for text in "ab":
            run_turn(graph, text)

        saver.copy_thread("1", "2")
        two: Any = {"configurable": {"thread_id": "2"}}
        before = [*saver.list(two)]
        run_turn(graph, "c")
        saver.delete_thread("1")
        store.collect_garbage()

        assert before == [*saver.list(two)] == [*saver_of(store).list(two)]
        assert ["langgraph/2/messages"] == [*store.names()]
        assert () == store.verify()
        assert ["a", "1: a", "b", "3: b", "d", "5: d"] == run_turn(graph, "d", two)

        saver.delete_thread("2")
        store.collect_garbage()

        assert {"changes"} == {name for name, count in rows_of(store).items() if count}

    def test_lists_one(self, store):
        """
        Of the checkpoint that is asked for, whatever others there are, only itself is
        listed.
        """
        saver = saver_of(store)
        run_turn(graph_of(saver), "a")
        ids = [each.checkpoint["id"] for each in saver.list(CONFIG)]

        assert len(ids) > 1
        for id in ids:
            config = {**CONFIG["configurable"], "checkpoint_id": id}
            found = saver.list({"configurable": config})
            assert [id] == [each.checkpoint["id"] for each in found]

    def test_prune(self, store):
        """
        What was pruned is nowhere, under its name neither; what is left goes
        on; copies are left alone.
        """
        saver = saver_of(store)
        graph = graph_of(saver)
        for text in ("secret", "b"):
            run_turn(graph, text)

        first = graph.get_state(CONFIG).values["messages"]
        saver.copy_thread("1", "2")
        removed = [RemoveMessage(id=first[0].id), RemoveMessage(id=first[1].id)]
        graph.update_state(CONFIG, {"messages": removed})
        saver.prune(["1"])

        assert 1 == len([*graph.get_state_history(CONFIG)])
        assert 1 == len(store.history(saver.name("1")))
        assert ["b", "3: b"] == texts_of(store, saver.name("1"))
        assert ["b", "3: b", "c", "3: c"] == run_turn(graph, "c")
        assert first == got(saver, {"configurable": {"thread_id": "2"}})["messages"]

        saver.delete_thread("2")
        store.collect_garbage()
        with store._cache.backend.reading() as rows:
            left = b"".join([row[2] for row in rows.scan("entries", None, None)])

        assert b"secret" not in left
        with pytest.raises(ValueError, match="keep_latest"):
            saver.prune(["1"], strategy="all")

    def test_labels(self, store):
        """Labels of what is left stay; those of what was pruned are gone."""
        saver = saver_of(store)
        graph = graph_of(saver)
        run_turn(graph, "a")
        store.label(saver.name("1"), "early")
        run_turn(graph, "b")
        for label in ("late", "last"):
            store.label(saver.name("1"), label)

        saver.prune(["1"])

        assert ("late", "last") == store.latest(saver.name("1")).labels
        assert 4 == len(store.load(saver.name("1"), at="late"))
        with pytest.raises(NotSavedError):
            store.load(saver.name("1"), at="early")

    def test_runs_with_ours(self, store):
        """Runs whose metadata hold values of ours are found like others."""
        saver = saver_of(store)
        config = None
        for run in "ab":
            metadata: Any = {"step": 0, "run_id": run, "by": [UserMessage(run)]}
            config = put(saver, {"x": run}, config, metadata=metadata)

        saver.delete_for_runs(["b"])
        (left,) = saver.list(CONFIG)

        assert {"x": "a"} == left.checkpoint["channel_values"]
        assert [UserMessage("a")] == left.metadata["by"]

    def test_copy_refused(self, store):
        """What is not there can't be copied, and what is there is not overwritten."""
        saver = saver_of(store)
        put(saver, {"x": 1})
        put(saver, {"x": 2}, thread="2")

        with pytest.raises(StoreError, match="thread"):
            saver.copy_thread("none", "new")
        with pytest.raises(ValueError, match="'2'"):
            saver.copy_thread("1", "2")

        assert {"x": 2} == got(saver, {"configurable": {"thread_id": "2"}})


class TestUse:
    def test_config(self, store):
        """
        A config without a thread, or writes without a checkpoint, are an error
        that says what to give.
        """
        saver = saver_of(store)
        with pytest.raises(ValueError, match="thread_id"):
            saver.get_tuple({"configurable": {}})
        with pytest.raises(TypeError, match="not msgpack serializable"):
            put(saver, {"x": object()})
        with pytest.raises(ValueError, match="missing checkpoint_id"):
            saver.put_writes(CONFIG, [("x", 1)], "task")

        assert saver.get_tuple(CONFIG) is None

    def test_pages(self, store):
        """
        As many checkpoints are listed as are asked for, however they are read,
        the newest first, over all threads.
        """
        saver = saver_of(store)
        for thread in "12":
            config = None
            for step in range(25):
                config = put(saver, {"x": step}, config, thread=thread)

        def listed(config=None, **options):
            return [each.checkpoint["id"] for each in saver.list(config, **options)]

        everything = listed()

        assert 50 == len({*everything})
        assert sorted(listed(CONFIG), reverse=True) == listed(CONFIG)
        for limit in (0, 1, 20, 21, 30, 49, 60):
            assert everything[:limit] == listed(limit=limit)
            assert everything[:25][:limit] == listed(CONFIG, limit=limit)

    def test_versions(self, store):
        """Versions count on, also those that another checkpointer had begun."""
        saver = saver_of(store)
        others = InMemorySaver()
        theirs = others.get_next_version(None, None)
        ours = saver.get_next_version(theirs)

        assert [1, 2, 2.5] == [saver.get_next_version(v) for v in (None, 1, 1.5)]
        assert theirs < ours < others.get_next_version(ours, None)


class TestMemory:
    """What the checkpointer remembers: the newest, and a limited number of it."""

    def test_limited(self):
        """However many threads there are, what is remembered of them is limited."""
        with open_store("memory:") as store:
            saver = saver_of(store)
            for number in range(100):
                messages = [HumanMessage("hi", id=f"{number}")]
                put(saver, {"messages": messages}, thread=str(number))

            _, known = saver._cache._memory

        assert 64 == len(known)
