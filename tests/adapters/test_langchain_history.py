"""What a history in a store has beyond what all hosts promise."""

import asyncio
import warnings
from typing import Any

import pytest
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory

from conversation_state.adapters import langchain, openai_chat
from conversation_state.adapters.langchain import trimmed
from conversation_state.counting import TokenBudget
from conversation_state.errors import (
    BudgetExceededError,
    DecodeError,
    NotSavedError,
    StaleHeadError,
)
from conversation_state.messages import UserMessage
from conversation_state.trimming import (
    Trimmer,
    fit,
    keep_last,
    shorten_tool_results,
)
from conversation_state.usage import Usage

History: Any = langchain.StoreChatMessageHistory
COUNTS: Any = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}


@pytest.fixture
def history(store):
    return History(store, "chat")


def texts(messages):
    return [str(message.text) for message in messages]


def with_usage(id, **more):
    fields = {"model_name": "m"}
    return AIMessage(
        "", id=id, usage_metadata={**COUNTS, **more}, response_metadata=fields
    )


class TestMaking:
    def test_is_one(self, history):
        """It is a history of LangChain's, with a repr."""
        assert isinstance(history, BaseChatMessageHistory)
        assert "<StoreChatMessageHistory 'chat' in memory:>" == repr(history)

    @pytest.mark.parametrize("wrong", ["", "a\0b"])
    def test_names(self, store, wrong):
        """What can't be a name is refused at once."""
        with pytest.raises(ValueError, match=r"\bsession_id\b"):
            History(store, wrong)

    def test_wrong_arguments(self, store):
        """So is what is not a store, and what is not a trimmer."""
        with pytest.raises(TypeError, match="from_url"):
            History("sqlite:///chats.db", "chat")
        with pytest.raises(TypeError, match=r"^view: expected a Trimmer"):
            History(store, "chat", view=fit())
        with pytest.raises(TypeError, match=r"^trimmer: expected a Trimmer"):
            History(store, "chat").trimmed(lambda state: state)
        with pytest.raises(TypeError, match=r"^trimmer: expected a Trimmer"):
            asyncio.run(History(store, "chat").atrimmed(lambda state: state))
        with pytest.raises(TypeError, match=r"^trimmer: expected a Trimmer"):
            trimmed([], lambda state: state)  # type: ignore[arg-type]
        with pytest.raises(AttributeError, match="Nothing"):
            langchain.Nothing  # noqa: B018 - asking is what is tested


class TestAdding:
    def test_every_way(self, history):
        """One at a time, several, and as text alone."""
        history.add_message(SystemMessage("a"))
        history.add_user_message("b")
        history.add_ai_message("c")
        history.add_messages((HumanMessage("d"), AIMessage("e")))

        assert ["a", "b", "c", "d", "e"] == texts(history.messages)

    def test_one_revision(self, store, history):
        """What is added together is one state, which can be gone back to."""
        history.add_messages([HumanMessage("a"), AIMessage("b")])
        history.add_messages([HumanMessage("c")])

        assert [2, 1] == [head.revision for head in store.history("chat")]
        assert ["a", "b"] == [one.text for one in store.load("chat", at=1)]

    def test_all_or_none(self, store, history):
        """
        If one of several can't be kept, none is added, and the error says
        which.
        """
        odd = ToolMessage("", tool_call_id="c", artifact=object())

        with pytest.raises(DecodeError, match=r"\$\[1\]\.artifact"):
            history.add_messages([HumanMessage("a"), odd])
        assert () == store.names()

    def test_content_of_others(self, store, history):
        """
        Messages that another program saves under the name are in LangChain's history,
        too.
        """
        history.add_user_message("a")
        store.update("chat", lambda state: state.add_assistant_message("b"))

        assert [HumanMessage("a"), AIMessage("b")] == history.messages
        assert ["a", "b"] == [
            each["content"]
            for each in openai_chat.dump(history.state.messages).payload["messages"]
        ]


class TestUsage:
    def test_once(self, history):
        """
        The same answer added again costs nothing more; another that has its
        id does.
        """
        history.add_messages([with_usage("a"), with_usage("a")])
        history.add_message(with_usage("a"))
        assert Usage(3, 2, 5) == history.state.usage

        history.add_message(with_usage("a", output_tokens=3, total_tokens=6))
        assert Usage(6, 5, 11) == history.state.usage

    def test_without_id(self, history):
        """Each answer without an id is billed."""
        history.add_messages([with_usage(None), with_usage(None)])

        assert Usage(6, 4, 10) == history.state.usage

    def test_pieces(self, history):
        """
        The pieces of a stream have one id, and are one response: its counts are the
        larger ones.
        """
        counts: list[Any] = [{**COUNTS, "output_tokens": count} for count in (1, 2)]
        pieces = [
            AIMessageChunk(content="", id="a", usage_metadata=one) for one in counts
        ]

        history.add_messages(pieces)
        assert Usage(3, 2) == history.state.usage


class TestFork:
    def test_goes_its_own_way(self, history):
        """A fork has the same past, and neither notices what the other adds."""
        history.add_messages([HumanMessage("a"), AIMessage("b")])

        fork = history.fork("again")
        fork.add_user_message("c")
        history.add_user_message("d")

        assert ["a", "b", "c"] == texts(fork.messages)
        assert ["a", "b", "d"] == texts(history.messages)
        assert history.state.id == fork.state.parent_id

    def test_at(self, history):
        """It may begin with the first few messages."""
        history.add_messages([HumanMessage("a"), AIMessage("b"), HumanMessage("c")])

        assert ["a"] == texts(history.fork("one", at=1).messages)
        assert [] == texts(history.fork("none", at=0).messages)
        with pytest.raises(IndexError):
            history.fork("more", at=4)

    def test_refused(self, history):
        """Nothing can't be forked, and no conversation is overwritten."""
        with pytest.raises(NotSavedError):
            history.fork("again")

        history.add_user_message("a")
        with pytest.raises(StaleHeadError, match="Give the fork another name"):
            history.fork("chat")
        with pytest.raises(ValueError, match=r"\bsession_id\b"):
            history.fork("")
        assert ["chat"] == list(history.store.names())


class TestClear:
    def test_is_gone(self, history):
        """All states the conversation was in are deleted; forks are not."""
        history.add_user_message("a")
        history.fork("again")
        history.clear()

        assert ("again",) == history.store.names()
        with pytest.raises(NotSavedError):
            history.store.load("chat", at=1)


CALL = {"id": "c", "name": "f", "args": {}}
CHAT = [
    SystemMessage("s"),
    HumanMessage("first " * 20),
    AIMessage("", tool_calls=[CALL]),
    ToolMessage("result " * 20, tool_call_id="c"),
    AIMessage("so"),
    HumanMessage("last"),
]


class TestTrimmed:
    def test_never_parts_call_and_result(self):
        """
        At every budget, results have their calls, and what is left as it was
        is the very object.
        """
        for tokens in range(2, 120):
            try:
                shown = trimmed(
                    CHAT, Trimmer(TokenBudget(context_window=tokens), fit())
                )
            except BudgetExceededError:
                continue

            kinds = [type(message).__name__ for message in shown]
            assert ("ToolMessage" in kinds) is (2 <= kinds.count("AIMessage"))
            assert shown[-1] is CHAT[-1]
            assert all(any(one is given for given in CHAT) for one in shown)

    def test_a_stopped_call_hides_nothing(self):
        """
        All messages before a call without a result are shown, as `trim_messages` does;
        and the call has an answer.
        """
        messages: list[Any] = [HumanMessage(f"q{n}") for n in range(40)]
        messages += [AIMessage("", tool_calls=[CALL]), HumanMessage("still there?")]

        shown = trimmed(messages, Trimmer(TokenBudget(context_window=8_000)))

        assert messages == [one for one in shown if not isinstance(one, ToolMessage)]
        assert ("c", "error") == (shown[41].tool_call_id, shown[41].status)  # type: ignore[attr-defined]

    def test_what_a_step_makes(self):
        """What a step puts in place of a message is a message of LangChain's."""
        trimmer = Trimmer(None, shorten_tool_results(5))

        shown: list[Any] = trimmed(CHAT, trimmer)

        assert [type(one) for one in CHAT] == [type(one) for one in shown]
        assert len(str(shown[3].text)) < len(str(CHAT[3].text))
        assert "c" == shown[3].tool_call_id

    def test_what_could_not_be_kept(self):
        """What only passes through may be of any class, with any object beside."""

        class Shout(HumanMessage):
            pass

        asked = AIMessage("", tool_calls=[CALL])
        asked.response_metadata["object"] = object()
        messages = [
            Shout(content="hey!"),
            asked,
            ToolMessage("x", tool_call_id="c", artifact=object()),
        ]

        shown = trimmed(messages, Trimmer(None, fit()))

        assert all(one is given for one, given in zip(shown, messages, strict=True))
        with pytest.raises(DecodeError, match="a message of LangChain's"):
            trimmed(["hi"], Trimmer(None))  # type: ignore[list-item]

    def test_of_a_history(self, store, history):
        """A history shows what is trimmed of it, always or once, and stores all."""
        history.add_messages(CHAT)
        trimmer = Trimmer(None, keep_last(2))
        viewed = History(store, "chat", view=trimmer)

        shown = [*CHAT[:2], *CHAT[-2:]]
        assert shown == history.trimmed(trimmer)
        assert shown == asyncio.run(history.atrimmed(trimmer))
        assert shown == viewed.messages
        assert shown == viewed.fork("again").messages
        assert CHAT == history.messages
        assert 6 == len(viewed.state)

    def test_calls_at_the_end(self, store, history):
        """
        A call that a stopped turn left is answered in the history's view, because a
        new message follows it.
        """
        left = [
            HumanMessage("Book it."),
            AIMessage("", tool_calls=[{"id": "1", "name": "book", "args": {}}]),
        ]
        history.add_messages(left)
        viewed = History(store, "chat", view=Trimmer(None, keep_last(3)))

        *shown, answer = viewed.messages

        assert left == shown == history.messages
        assert isinstance(answer, ToolMessage)
        assert ("1", "error") == (answer.tool_call_id, answer.status)

    def test_steps_that_are_awaited(self, history):
        """The async twin waits for steps that have to be awaited."""

        async def last(view):
            await asyncio.sleep(0)
            return keep_last(1)(view)

        history.add_messages(CHAT)

        assert [CHAT[0], CHAT[-1]] == asyncio.run(history.atrimmed(Trimmer(None, last)))


class TestInLangChain:
    """Where LangChain itself uses a history."""

    def model(self, *answers):
        responses: Any = [AIMessage(text, usage_metadata=COUNTS) for text in answers]
        return FakeMessagesListChatModel(responses=responses)

    def chain(self, model, store, **options):
        with warnings.catch_warnings():
            # LangChain would have everybody use graphs.
            warnings.simplefilter("ignore")
            return RunnableWithMessageHistory(
                model, lambda session_id: History(store, session_id, **options)
            )

    def test_runnable(self, store, history):
        """
        A runnable with a history reads and adds to it, in threads and in a
        loop.
        """
        chain = self.chain(self.model("a", "b", "c"), store)
        config = {"configurable": {"session_id": "chat"}}

        chain.invoke("1", config=config)
        chain.invoke([HumanMessage("2")], config=config)
        asyncio.run(chain.ainvoke("3", config=config))

        assert ["1", "a", "2", "b", "3", "c"] == texts(history.messages)
        assert Usage(9, 6, 15) == history.state.usage

    def test_runnable_with_a_view(self, store, history):
        """Where the history has a view, the model sees that, and all is stored."""
        seen = []

        def answer(messages):
            seen.append(texts(messages))
            return AIMessage("yes")

        view = Trimmer(None, keep_last(1))
        chain = self.chain(RunnableLambda(answer), store, view=view)
        for text in ("1", "2", "3"):
            chain.invoke(text, config={"configurable": {"session_id": "chat"}})

        assert [["1"], ["1", "yes", "2"], ["2", "yes", "3"]] == seen
        assert ["1", "yes", "2", "yes", "3", "yes"] == texts(history.messages)


def test_what_langchain_cannot_represent(store, history):
    """
    Messages of others that LangChain can't represent are left out, and `dump` lists
    them.
    """
    history.add_user_message("a")
    message = UserMessage("b", metadata={"mine": 1})
    store.update("chat", lambda state: state.add(message))

    assert ["a", "b"] == texts(history.messages)
    (lost,) = langchain.dump(history.state.messages).lost
    assert ("messages[1]", "metadata") == (lost.path, lost.what)
