"""Promises about appends: what a save of the whole state would write, without it."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import Aggregator, ImagePart
from conversation_state.errors import (
    InvalidMessageError,
    InvalidUsageError,
    NotSavedError,
    StaleHeadError,
    StoreError,
)
from conversation_state.messages import (
    AssistantMessage,
    ResponseMeta,
    ToolMessage,
    UserMessage,
)
from conversation_state.store import Store
from conversation_state.store.backends.memory import MemoryBackend
from conversation_state.store.schema import Revision
from conversation_state.timeline import Timeline
from conversation_state.usage import CompletionTokensDetails, Usage
from tests.store.promises.case import (
    CONVERSATION,
    FOR_EXAMPLES,
    LARGE,
    InjectedError,
    RecordingBackend,
    StoreCase,
    failing,
    read_rows,
)

TIME = datetime(2026, 1, 2, tzinfo=UTC)


def answer(id: str, tokens: int, text: str = "At 9.") -> AssistantMessage:
    meta = ResponseMeta(id=id, usage=Usage(tokens, 2), model="m")
    return AssistantMessage(text, response=meta, timestamp=TIME)


# What is appended: the messages, and the options.
APPENDS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((UserMessage("and?"),), {}),
    ((), {}),
    ((answer("r-1", 5),), {}),
    # One id and one text, for other tokens: a second entry.
    ((answer("r-1", 6),), {}),
    ((answer("r-2", 5), UserMessage("and?"), answer("", 7)), {}),
    (([answer("r-3", 5)],), {"key": "mine"}),
    ((UserMessage("no usage"),), {"key": "nothing"}),
    ((AssistantMessage("Hi."),), {"usage": Usage(3), "key": "k" * 5000, "model": "m"}),
    ((AssistantMessage("Hi."),), {"usage": Usage(3), "key": "\0é", "caveat": "late"}),
    ((), {"usage": Usage(4)}),
    ((answer("r-4", 1), ToolMessage("7", tool_call_id="c"), answer("r-4", 1)), {}),
    ((UserMessage([ImagePart(data=LARGE, media_type="image/png")]),), {}),
    ((AssistantMessage("much"),), {"usage": Usage(1 << 40), "key": "large"}),
]


def grow(state: Aggregator, messages: Any, options: dict[str, Any]) -> Aggregator:
    """What an append means, with the state in memory."""
    key, usage = options.get("key"), options.get("usage")
    if key is not None and key in [entry.id for entry in state.ledger]:
        return state

    if usage is None:
        return state.add_response(*messages, key=key)

    about = {name: options.get(name, "") for name in ("model", "caveat")}
    return state.extend(messages).add_usage(usage, key=key, **about)


def show(state: Aggregator) -> Any:
    """A state without what is made anew: identities of entries, and times of usages."""
    made = {entry.id for entry in state.entries}
    ledger = [
        (each.id if ":" in each.id or "#" in each.id else each.id in made, each.usage)
        for each in state.ledger
    ]
    return list(state), ledger, [(e.usage, e.model, e.caveat) for e in state.ledger]


class AppendPromises(StoreCase):
    """An append is a save without the state."""

    @FOR_EXAMPLES
    @given(
        steps=st.lists(st.sampled_from(APPENDS), min_size=1, max_size=5),
        begins=st.sampled_from([0, 1, 3]),
        remembered=st.sampled_from([0, 100]),
    )
    def test_is_a_save(self, store, steps, begins, remembered):
        """Loading, adding and saving gives the same states, digests, heads and rows."""
        appending = self.other(store, remembered=remembered)
        if "chat" in store:
            store.delete("chat")
            store.collect_garbage()

        state = Aggregator.new().extend([UserMessage("Hi")] * begins)
        appending.save("chat", state)
        for messages, options in steps:
            head = appending.append("chat", *messages, **options)
            state = grow(state, messages, options)

            saved = self.other(store).load("chat")
            assert show(state) == show(saved)
            assert saved.id == state.id
            assert head == self.other(store).latest("chat")

        # The same states, saved whole.
        whole = Store(MemoryBackend(), remembered=0)
        history = store.history("chat")[::-1]
        heads = [whole.save("chat", store.load("chat", at=h.revision)) for h in history]
        appended, expected = (read_rows(each._cache.backend) for each in (store, whole))

        assert [h.digest for h in history] == [h.digest for h in heads]
        assert [h[:5] + h[8:] for h in history] == [h[:5] + h[8:] for h in heads]
        for table in ("entries", "ledger", "uses"):
            rows = [[row[1:] for row in rows[table]] for rows in (appended, expected)]
            assert rows[0] == rows[1], table

        assert appended["blobs"] == expected["blobs"]
        assert () == store.verify()

    @pytest.mark.parametrize("remembered", [0, 100])
    def test_a_key_is_appended_once(self, store, remembered):
        """
        A retry with the same key gives the head as it is, whatever it expects; the key
        with another usage is refused.
        """
        appending = self.other(store, remembered=remembered)
        first = appending.save("chat", CONVERSATION.add_usage(Usage(1), key="older"))
        append = partial(appending.append, "chat", answer("r-1", 5), key="req-1")
        head = append(expecting=first)

        assert head == append(expecting=first) == append() == append(expecting=head)
        assert head == appending.append("chat", UserMessage("again"), key="older")
        with pytest.raises(InvalidUsageError, match="conflicting usage"):
            appending.append("chat", answer("r-2", 6), key="req-1")

        assert head == store.latest("chat")

    def test_a_key_of_another_conversation(self, store):
        """A key is known in the ledger of a conversation and its past, nowhere else."""
        appending = self.other(store, remembered=0)
        for name in ("one", "two"):
            appending.append(name, UserMessage("Hi"), expecting=0)
            head = appending.append(name, answer("r-1", 5), key="k")
            assert 2 == head.length

        appending.fork("one", "fork")
        appending.append("fork", answer("r-2", 5), key="later")

        assert 3 == appending.append("fork", answer("r-1", 5), key="k").length
        assert 3 == appending.append("one", answer("r-2", 5), key="later").length
        assert () == store.verify()

    def test_a_key_of_what_was_deleted(self, store):
        """A name that another store begins again has none of the keys it had."""
        store.append("chat", answer("r-1", 5), key="k", expecting=0)
        other = self.other(store)
        other.delete("chat")
        other.append("chat", UserMessage("again"), expecting=0)

        assert 2 == store.append("chat", answer("r-1", 6), key="k").length
        assert store.load("chat") == other.load("chat")

    @pytest.mark.parametrize("remembered", [0, 100])
    def test_stale(self, store, remembered):
        """A head that is not expected is an error with both; nothing is added."""
        appending = self.other(store, remembered=remembered)
        old = appending.save("chat", CONVERSATION)
        head = appending.append("chat", UserMessage("a"), expecting=old)
        for expecting in (old, 1, 0):
            with pytest.raises(StaleHeadError) as caught:
                appending.append("chat", UserMessage("b"), expecting=expecting)

            assert (expecting, head) == (caught.value.expected, caught.value.actual)

        with pytest.raises(StaleHeadError):
            appending.append("new", UserMessage("b"), expecting=3)

        assert ("chat",) == store.names()
        assert 2 == len(store.load("chat"))

    def test_a_new_name(self, store):
        """A name is begun with expecting=0, and the error for a missing one says so."""
        with pytest.raises(NotSavedError) as caught:
            store.append("chat", UserMessage("Hi"))

        assert "expecting=0" in "".join(caught.value.__notes__)
        head = store.append("chat", UserMessage("Hi"), expecting=0)
        assert (1, None) == (head.revision, head.parent)

    @pytest.mark.parametrize(
        ("arguments", "options", "error"),
        [
            (({"role": "user"},), {}, InvalidMessageError),
            (("text",), {}, InvalidMessageError),
            ((), {"usage": 5}, InvalidUsageError),
            ((), {"usage": Usage(1), "key": ""}, InvalidUsageError),
            ((), {"model": "m"}, InvalidUsageError),
            ((), {"caveat": "late"}, InvalidUsageError),
            ((answer("a", 1), answer("b", 2)), {"key": "k"}, InvalidUsageError),
            ((), {"expecting": -1}, ValueError),
        ],
    )
    def test_misuse(self, store, arguments, options, error):
        """What can't be appended is refused, and nothing is written."""
        head = store.save("chat", CONVERSATION)
        with pytest.raises(error):
            store.append("chat", *arguments, **options)

        assert head == store.latest("chat")

    @pytest.mark.parametrize("remembered", [0, 100])
    def test_timelines(self, store, remembered):
        """A timeline is refused, as by `save`."""
        appending = self.other(store, remembered=remembered)
        appending.save_timeline("draft", Timeline.begin(CONVERSATION))
        with pytest.raises(StoreError, match="save_timeline"):
            appending.append("draft", UserMessage("Hi"))

    def test_too_many_tokens(self, store):
        """A total that no ledger can have is refused, and the name stays loadable."""
        appending = self.other(store, remembered=0)
        appending.save("chat", CONVERSATION.add_usage(Usage(1)))
        head = appending.append("chat", usage=Usage(2**63 - 5))
        with pytest.raises(InvalidUsageError):
            appending.append("chat", usage=Usage(2**62))

        assert head == store.latest("chat")
        assert 2 == len(store.load("chat").ledger)

    @pytest.mark.parametrize(
        "near",
        [
            Usage(2**63 - 5),
            Usage(completion_tokens=2**63 - 5),
            Usage(extra={"cache_write_tokens": 2**63 - 5}),
        ],
        ids=["prompt", "completion", "extra"],
    )
    def test_small_usage_near_the_limit(self, store, near):
        """However little is appended, no total gets over the limit."""
        appending = self.other(store, remembered=0)
        appending.save("chat", CONVERSATION.add_usage(near))
        appending.fork("chat", "fork")
        small = Usage(1, 1, extra={"cache_write_tokens": 2})
        for name in ("chat", "fork"):
            appending.append(name, usage=small)
            head = appending.append(name, usage=small)
            with pytest.raises(InvalidUsageError):
                appending.append(name, usage=small)

            assert head == store.latest(name)
            assert 3 == len(store.load(name).ledger)

    def test_counts_add_up(self, store):
        """What a revision says of its ledger is the same, appended or saved."""
        appending = self.other(store, remembered=0)
        appending.save("chat", CONVERSATION.add_usage(Usage(1, 2)))
        details = CompletionTokensDetails(reasoning_tokens=2)
        for _ in range(2):
            usage = Usage(5, 3, completion_tokens_details=details, extra={"a": 1})
            appending.append("chat", usage=usage)

        state = store.load("chat")
        store.save("whole", state)
        store.save("whole", state.add_usage(Usage(1, 1)).add_user_prompt("More?"))
        with store._cache.backend.reading() as rows:
            *_, appended, whole, grown = rows.scan("revisions", None, None)

        # 1 + 2 + 3, and twice 5 + 3 + 8 + 2 + 1.
        assert 44 == Revision._make(appended).tokens == Revision._make(whole).tokens
        assert 48 == Revision._make(grown).tokens

    @pytest.mark.parametrize("begins", [1, 0])
    def test_two_go_on_from_one_past(self, store, begins):
        """Appends to a fork and to what it was forked from don't disturb each other."""
        appending = self.other(store, remembered=0)
        appending.save("chat", Aggregator.new().extend([UserMessage("Hi")] * begins))
        appending.append("chat", usage=Usage(1))
        appending.fork("chat", "fork")
        for name in ("chat", "fork", "chat", "fork"):
            appending.append(name, answer(name, 5, text=name))

        for name in ("chat", "fork"):
            state = self.other(store).load(name)
            assert [name, name] == [message.text for message in state[begins:]]
            assert 2 == len(state.ledger)

        assert () == store.verify()

    @pytest.mark.parametrize("length", [10, 300])
    def test_cost(self, store, calls, length):
        """The calls and rows of an append are as many for any length."""
        state = CONVERSATION.extend([UserMessage("again")] * length)
        for i in range(length):
            state = state.add_usage(Usage(1), key=f"{i}")

        store.save("chat", state)
        watched = Store(
            RecordingBackend(self.other(store)._cache.backend, calls.append),
            remembered=0,
        )
        watched.append("chat", answer("r-1", 5))

        written = [call for call in calls if call.verb == "add"]
        assert ["entries", "ledger", "revisions"] == sorted(c.table for c in written)
        assert {1} == {call.rows for call in written}
        assert 7 == len(calls)

    def test_remembered(self, store, calls):
        """To a state in memory nothing is read, unless another is newer."""
        watched = Store(RecordingBackend(store._cache.backend, calls.append))
        head = watched.save("chat", CONVERSATION.add_usage(Usage(3)))
        calls.clear()
        head = watched.append("chat", answer("r-1", 5), expecting=head)

        assert {"add", "commit", "committed"} == {call.verb for call in calls}
        other = self.other(store)
        newer = other.append("chat", UserMessage("from elsewhere"))
        with pytest.raises(StaleHeadError):
            watched.append("chat", UserMessage("mine"), expecting=head)

        last = watched.append("chat", UserMessage("mine"))

        assert newer.revision + 1 == last.revision
        assert ["from elsewhere", "mine"] == [
            message.text for message in self.other(store).load("chat")[-2:]
        ]
        assert () == store.verify()

    def test_failures(self, store):
        """A failure at any call leaves the head before it or the whole append."""
        appending = self.other(store, remembered=0)
        appending.save("chat", CONVERSATION)
        failures = 0
        for at in range(60):
            before = store.latest("chat")
            backend = failing(self.other(store)._cache.backend, at)
            try:
                Store(backend, remembered=0).append("chat", answer(f"r-{at}", 5))
            except InjectedError:
                failures += 1
                assert store.latest("chat").length - before.length in {0, 1}
            else:
                break

        assert failures >= 10
        assert () == store.verify()
        state = self.other(store).load("chat")
        assert len(state) - 1 == len(state.ledger)

    def test_erased_and_collected(self, store):
        """Erasure, rollback and garbage collection reach what was appended."""
        appending = self.other(store, remembered=0)
        appending.save("chat", CONVERSATION)
        appending.append("chat", UserMessage("secret"), answer("r-1", 5))
        entry = self.other(store).load("chat").entries[1]
        assert 1 == self.other(store).erase(entry.id, reason="asked").rows

        appending.append("chat", UserMessage("more"))
        state = self.other(store).load("chat")
        assert 4 == len(state)
        assert "secret" not in state[1].text

        # A state that has the content still brings it back nowhere.
        appending.append("chat", answer("r-1", 5))
        assert 1 == len(self.other(store).load("chat").ledger)
        appending.delete("chat")
        assert 5 == appending.collect_garbage().entries
        assert not any(
            rows
            for table, rows in read_rows(store._cache.backend).items()
            if table in {"entries", "ledger", "revisions", "branches", "starts"}
        )

    def test_a_remembered_state_goes_on(self, store):
        """A store that had the state has the state that was appended to, too."""
        store.save("chat", CONVERSATION)
        store.append("chat", UserMessage("here"))
        self.other(store, remembered=0).append("chat", UserMessage("there"))
        head = store.append("chat", UserMessage("here again"))

        assert ["here", "there", "here again"] == [
            m.text for m in store.load("chat")[1:]
        ]
        assert head == store.latest("chat")
        assert () == store.verify()
