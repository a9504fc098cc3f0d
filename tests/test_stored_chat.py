"""One conversation as a service keeps it."""

import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import threading
import warnings
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import settings

from conversation_state import (
    Aggregator,
    AssistantMessage,
    ImagePart,
    MessageTree,
    ResponseMeta,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    open_store,
)
from conversation_state.adapters import ag_ui, ai_sdk
from conversation_state.errors import (
    InvalidMessageError,
    StaleHeadError,
    StoreError,
)
from conversation_state.stored_chat import StoredChat
from conversation_state.streams import pipe
from conversation_state.testing import check_chat
from conversation_state.tree import name, ui_id_of
from tests.processes import ROOT
from tests.profiles import is_thorough
from tests.threads import until

SESSIONS = int(os.environ.get("CHAT_SESSIONS", "100" if is_thorough() else "50"))
FEW = settings(max_examples=8, database=None, derandomize=True, deadline=None)


def say(*pieces, usage=None, id="r1"):
    """The chunks of a response."""
    meta = ResponseMeta(id=id, model="m")
    yield from [AssistantMessage(piece, response=meta) for piece in pieces]
    end = ResponseMeta("stop", usage or Usage(10, len(pieces)), id=id, model="m")
    yield AssistantMessage(response=end)


def sea(_asked):
    """A model that always says the same, at a price."""
    return say("To the ", "sea.")


def texts(chat):
    """What a chat shows."""
    return [message.text for message in chat.timeline.present]


def finish_reason(state):
    """How the last answer ended."""
    last: Any = state[-1]
    return last.response.finish_reason


def ids(chat):
    """The ids that interfaces know these by."""
    return [ui_id_of(entry) for entry in chat.timeline.present.entries]


@pytest.fixture
def store():
    with open_store("memory:") as opened:
        yield opened


@pytest.fixture
def chat(store):
    """A new chat."""
    return StoredChat(store, "ann")


@pytest.mark.parametrize(
    ("names", "advice"),
    [
        ("add_user_prompt ask send submit", "answer"),
        ("history messages present state", "chat.timeline.present is the state"),
        ("pagers siblings", "chat.tree.pagers() has them"),
        ("abort cancel", "stop"),
        ("save", "a chat saves itself with each act"),
    ],
)
def test_missing_names(chat, names, advice):
    """What a chat lacks by a usual name, the error says where to find."""
    for missing in names.split():
        with pytest.raises(AttributeError, match=re.escape(advice)):
            getattr(chat, missing)


def test_no_store():
    """A path is no store."""
    with pytest.raises(TypeError, match=r"expected a Store, got .*open_store\(url\)"):
        StoredChat("chats.db", "ann")  # type: ignore[arg-type]


class Script:
    """A model whose answers say what the test sends."""

    def __init__(self):
        self.senders = []
        self.asked = []

    def __call__(self, asked):
        sender, stream = pipe(100)
        self.senders.append(sender)
        self.asked.append(asked)
        return stream

    def send(self, *pieces, at=-1, **meta):
        id = f"r{len(self.senders) if at < 0 else at}"
        for piece in pieces:
            response = ResponseMeta(id=id, model="m", **meta)
            self.senders[at].send(AssistantMessage(piece, response=response))

    def end(self, at=-1, tokens=10):
        self.send("", at=at, finish_reason="stop", usage=Usage(tokens))
        self.senders[at].close()


class TestAnswer:
    def test_is_saved_when_asked_and_when_answered(self, store, chat):
        """The question is in the store before the model is asked, its answer then."""
        saved = []

        def model(asked):
            saved.append([each.text for each in store.load("ann")])
            return sea(asked)

        answer = chat.answer("Where to?", model)

        assert ["Where to?", "To the sea."] == [each.text for each in answer.result()]
        assert [["Where to?"]] == saved
        assert chat.timeline == store.load_timeline("ann")
        assert Usage(10, 2) == chat.tree.total_usage

    def test_takes_messages_and_requests(self, chat):
        """A question is a text, a message, or what a client's request makes of it."""

        class Request:
            def resume_from(self, tree):
                return tree.present.add(name(UserMessage("By train?"), "client-7"))

        chat.answer(UserMessage("Where to?", name="ann"), sea).result()
        chat.answer(Request(), sea).result()

        assert "ann" == chat.timeline.present[0].name
        assert "client-7" == ids(chat)[2]
        assert "By train?" == chat.tree.node(chat.tree.find("client-7")).message.text

    def test_runs_no_tools(self, chat):
        """A model runs them, and gives whole results between its responses."""
        call = ToolCall("c1", "trains", "{}")

        def model(asked):
            assert "Where to?" == asked[-1].text
            yield AssistantMessage("Let me see.", response=ResponseMeta(id="r1"))
            usage = ResponseMeta("tool_calls", Usage(5), id="r1")
            yield AssistantMessage(tool_calls=[call], response=usage)
            yield ToolMessage("9:04", tool_call_id="c1")
            yield from say("At ", "9:04.", id="r2")

        state = chat.answer("Where to?", model).result()

        assert ["user", "assistant", "tool", "assistant"] == [e.role for e in state]
        assert (call,) == state[1].tool_calls
        assert "At 9:04." == state[3].text
        assert Usage(15, 2) == state.total_usage
        assert 4 == len(set(ids(chat)))
        assert 2 == len(ai_sdk.dump(state).payload)

    @pytest.mark.parametrize("ids", [("r1", "r2"), ("", "")])
    def test_of_several_responses(self, store, ids):
        """A model that paused goes on in a response of its own, with its own bill."""

        def search(_asked):
            for id, text, reason, usage in zip(
                *(ids, ("Wait…", "Found."), ("pause_turn", "stop")),
                (Usage(10, 2), Usage(15, 3)),
                strict=True,
            ):
                yield AssistantMessage(text)
                yield AssistantMessage(
                    response=ResponseMeta(reason, usage=usage, id=id)
                )

        chat = StoredChat(store, "ann")
        state = chat.answer("Where to?", search).result()

        assert ["Where to?", "Wait…", "Found."] == texts(chat)
        assert Usage(25, 5) == state.total_usage
        assert 1 == len(chat.tree.leaves)

    def test_is_one_response_until_it_ends(self, chat):
        """What comes behind the end without a word, usage say, is of that response."""

        def late(_asked):
            yield AssistantMessage("By train.", response=ResponseMeta("stop", id="r1"))
            yield AssistantMessage(response=ResponseMeta(usage=Usage(10, 2)))

        state = chat.answer("Where to?", late).result()

        assert ["Where to?", "By train."] == texts(chat)
        assert Usage(10, 2) == state.total_usage

    def test_goes_on_without_readers(self, chat):
        """An answer needs nobody who reads it; who comes later gets all its chunks."""
        script = Script()
        answer = chat.answer("Where to?", script)
        reader = iter(answer.chunks)
        script.send("To ")

        assert "To " == next(reader).text

        reader.close()
        del reader
        script.send("the sea.")
        script.end()

        assert "To the sea." == "".join(chunk.text for chunk in answer)
        assert "To the sea." == StoredChat(chat.store, "ann").timeline.present[-1].text
        assert ["To ", "the sea.", ""] == [chunk.text for chunk in answer.chunks]

    def test_keeps_its_id(self, store, chat):
        """The id of an answer is there before its first chunk, and stays."""
        script, seen = Script(), []
        chat.watch(lambda update: seen.append([ui_id_of(e) for e in update.entries]))
        answer = chat.answer("Where to?", script)
        question = ids(chat)[0]
        script.send(*"To the sea.")
        script.end()
        answer.result()

        assert [question, answer.id] == ids(chat)
        assert {(question,), (answer.id,), ()} >= {tuple(each) for each in seen}
        assert [question, answer.id] == ids(StoredChat(store, "ann"))

    def test_results_of_a_clients_tool_continue_it(self, chat):
        """An answer that goes on behind results is the same message for interfaces."""
        call = ToolCall("c1", "place", "{}")
        first = chat.answer(
            "Where am I?", lambda _: [AssistantMessage(tool_calls=[call])]
        )
        first.result()

        class Request:
            def resume_from(self, tree):
                return tree.present.add(ToolMessage("Bern", tool_call_id="c1"))

        second = chat.answer(Request(), sea)
        second.result()

        assert first.id == second.id
        assert 4 == len(set(ids(chat)))
        assert [ids(chat)[0], first.id] == [
            each["id"] for each in ai_sdk.dump(chat.tree).payload
        ]

    def test_fails(self, store, chat):
        """What the model raises ends the answer; what had come stays, and says so."""

        def model(_asked):
            yield AssistantMessage("To ")
            raise OSError("no network \udcff")

        answer = chat.answer("Where to?", model)
        with pytest.raises(OSError, match="no network"):
            answer.result()

        again = StoredChat(store, "ann")

        assert ["Where to?", "To "] == texts(again)
        assert "interrupted" == finish_reason(again.timeline.present)
        assert {"error": "no network ?"} == again.timeline.moment.note
        assert not chat.running

        question = ids(again)[0]
        again.regenerate(question, sea).result()

        assert ["Where to?", "To the sea."] == texts(again)
        assert {} == again.timeline.moment.note

    def test_fails_behind_the_end(self, chat):
        """An answer that has ended is whole, whatever the connection raises then."""

        def model(asked):
            yield from sea(asked)
            raise OSError("closed")

        answer = chat.answer("Where to?", model)
        with pytest.raises(OSError, match="closed"):
            answer.result()

        assert "stop" == finish_reason(chat.timeline.present)

    @pytest.mark.parametrize(
        "chunks",
        [
            [AssistantMessage("To "), UserMessage("me")],
            [AssistantMessage("To "), "the sea"],
        ],
    )
    def test_refuses_what_is_no_chunk(self, chat, chunks):
        """A model that gives something else fails, and what came before it stays."""
        with pytest.raises(
            TypeError, match="a model gives chunks of AssistantMessages"
        ):
            chat.answer("Where to?", lambda _: chunks).result()

        assert ["Where to?", "To "] == texts(chat)

    def test_refuses_wrong_arguments(self, store, chat):
        """Nothing is saved or asked with what is no question or no model."""

        async def model(_asked):
            return []

        wordless = [" \n", "", [], UserMessage(""), UserMessage([TextPart(" ")])]
        parts = [{"type": "text", "text": " "}]
        posted = {"id": "u1", "role": "user", "parts": parts}
        request = ai_sdk.load_request({"id": "ann", "messages": [posted]})
        empty = [(asked, sea) for asked in (*wordless, request)]
        for asked, function in [*empty, ("Hi", None), ("Hi", model)]:
            with pytest.raises((TypeError, ValueError)):
                chat.answer(asked, function)

        with pytest.raises(LookupError):
            chat.edit("none", "Hi", sea)

        with pytest.raises(LookupError):
            chat.regenerate("none", sea)

        with pytest.raises(LookupError):
            chat.switch("none")

        assert "ann" not in store

    @pytest.mark.parametrize(
        ("body", "load"),
        [
            ({"threadId": "ann", "messages": []}, "ag_ui.load_input(body)"),
            ({"id": "ann", "messages": []}, "ai_sdk.load_request(body)"),
        ],
    )
    def test_says_how_a_request_is_loaded(self, chat, body, load):
        """The body of a request is no question; the error names what loads it."""
        with pytest.raises(InvalidMessageError, match=re.escape(load)):
            chat.answer(body, sea)

    def test_asks_with_a_picture_alone(self, chat):
        """A question needs no words if it has something else, and is asked again."""
        picture = UserMessage([ImagePart(url="https://example.com/sea.png")])
        chat.answer(picture, sea).result()
        chat.regenerate(ids(chat)[0], sea).result()

        assert ["user", "assistant"] == [each.role for each in chat.timeline.present]

    def test_asks_an_empty_question_of_old_again(self, store):
        """What the chat began with is asked as it is, without a word, too."""
        start = Aggregator.new().add(name(UserMessage(""), "u1"))
        chat = StoredChat(store, "old", start=start)
        parts = [{"type": "text", "text": ""}]
        posted = {"id": "u1", "role": "user", "parts": parts}
        body = {"id": "old", "messages": [posted], "trigger": "regenerate-message"}
        chat.answer(ai_sdk.load_request(body), sea).result()

        assert ["", "To the sea."] == texts(chat)

    def test_asks_once_for_the_outputs_of_two_tabs(self, store):
        """Another output than a tab's before is refused, and nothing is asked."""
        calls = [ToolCall(each, "pay", "{}") for each in ("c1", "c2")]
        answer = name(AssistantMessage(tool_calls=calls), "a1")
        start = Aggregator.new([name(UserMessage("Pay!"), "u1"), answer])
        chat = StoredChat(store, "two tabs", start=start)
        step, part, other = ai_sdk.dump(start).payload[1]["parts"]
        asked: list[Any] = []

        def model(state):
            asked.append(state)
            return [AssistantMessage("Paid.")] if not state.pending_calls else []

        def post(output):
            done = {**part, "state": "output-available", "output": output}
            posted = {"id": "a1", "role": "assistant", "parts": [step, done, other]}
            body = {"id": "two tabs", "message": posted}
            return chat.answer(ai_sdk.load_request(body), model).result()

        assert "5" == post(5)[-1].text
        with pytest.raises(LookupError, match="another result"):
            post(6)

        assert ("5", 1) == (chat.timeline.present[-1].text, len(asked))
        assert "5" == post(5)[-1].text

    @pytest.mark.parametrize("error", [OSError("no network"), SystemExit(2)])
    def test_says_why_the_model_was_not_reached(self, store, chat, error):
        """What is raised before the first chunk is noted where it was asked."""

        def model(_asked):
            raise error

        with pytest.raises(type(error)):
            chat.answer("Where to?", model)

        again = StoredChat(store, "ann")

        assert ["Where to?"] == texts(again)
        assert {"error": str(error)} == again.timeline.moment.note
        assert not chat.running

    def test_a_tool_that_exits_ends_it(self, store, chat):
        """An exit in a model's tool ends the answer as an error; no reader hangs."""

        def model(_asked):
            yield AssistantMessage("To ")
            raise SystemExit(2)

        answer = chat.answer("Where to?", model)
        with pytest.raises(RuntimeError, match=r"SystemExit\(2\)"):
            answer._result.result(timeout=30)

        again = StoredChat(store, "ann")

        assert ["Where to?", "To "] == texts(again)
        assert "interrupted" == finish_reason(again.timeline.present)
        assert "SystemExit(2)" in again.timeline.moment.note["error"]
        assert not chat.running

    def test_needs_an_event_loop_for_an_async_model(self, chat):
        """Without an event loop the answer fails, with words; the question is kept."""

        async def model(_asked):
            yield AssistantMessage("To the sea.")

        with pytest.raises(RuntimeError, match="no event loop runs here"):
            chat.answer("Where to?", model).result()

        assert ["Where to?"] == texts(chat)
        assert not chat.running

    def test_stops_what_streams_in_where_it_is_asked(self, chat):
        """A question behind half an answer ends that; its bill is counted once."""
        script = Script()
        first = chat.answer("Where to?", script)
        script.send("To ", usage=Usage(10))
        until(lambda: "To " in texts(chat))
        chat.answer("Shorter!", sea).result()

        assert ["Where to?", "To ", "Shorter!", "To the sea."] == texts(chat)
        assert "interrupted" == finish_reason(first.result())
        assert Usage(20, 2) == chat.tree.total_usage
        assert 4 == len(chat.tree)

    def test_stops_what_was_undone_and_is_asked_behind(self, chat):
        """A tab that still shows half an answer may ask behind it."""
        script = Script()
        first = chat.answer("Where to?", script)
        script.send("To ", usage=Usage(10))
        until(lambda: "To " in texts(chat))
        chat.undo()

        class Request:
            def resume_from(self, tree):
                return tree.path(tree.find(first.id)).add_user_prompt("Shorter!")

        chat.answer(Request(), sea).result()

        assert ["Where to?", "To ", "Shorter!", "To the sea."] == texts(chat)
        assert "interrupted" == finish_reason(first.result())
        assert "interrupted" == finish_reason(chat.timeline.present[:2])
        assert Usage(20, 2) == chat.tree.total_usage
        assert not chat.running


class TestStop:
    def test_keeps_what_had_come(self, store, chat):
        """What had come stays, with its bill and a mark, and is saved."""
        script = Script()
        answer = chat.answer("Where to?", script)
        script.send("To ", "the ", usage=Usage(7))
        until(lambda: "To the " in texts(chat))
        chat.stop()

        assert "To the " == texts(StoredChat(store, "ann"))[-1]
        assert Usage(7) == store.load("ann").total_usage
        assert "interrupted" == finish_reason(answer.result())
        assert not script.senders[0].send(AssistantMessage("sea."))
        assert {} == chat.timeline.moment.note

    def test_takes_in_what_nobody_has_read(self, chat):
        """A stop loses no chunk that had come, also where nothing reads just then."""
        script, blocked, go = Script(), threading.Event(), threading.Event()

        def hold(_update):
            if not blocked.is_set() and "To " in texts(chat):
                blocked.set()
                go.wait(60)

        chat.watch(hold)
        answer = chat.answer("Where to?", script)
        script.send("To ")
        blocked.wait(60)
        script.send("the sea.", usage=Usage(9))
        stopped = threading.Thread(target=chat.stop)
        stopped.start()
        until(lambda: not script.senders[0].send(AssistantMessage("never")))
        go.set()
        stopped.join(60)

        assert answer.result()[-1].text.startswith("To the sea.")
        assert Usage(9) == chat.tree.total_usage

    def test_ends_a_wait_for_the_network(self, chat):
        """A model that waits for its provider is not waited for."""
        waits, closed = threading.Event(), threading.Event()

        def model(_asked):
            try:
                yield AssistantMessage("To ")
                waits.wait(60)
                yield AssistantMessage("never")
            finally:
                closed.set()

        answer = chat.answer("Where to?", model)
        until(lambda: "To " in texts(chat))
        chat.stop()

        assert "To " == answer.result()[-1].text

        waits.set()
        closed.wait(60)

        assert ["Where to?", "To "] == texts(chat)

    def test_from_a_watch(self, chat):
        """A program may stop an answer when it sees a piece of it."""
        chat.watch(lambda _: "To the " in texts(chat) and chat.stop())
        answer = chat.answer("Where to?", sea)

        assert "To the " == answer.result()[-1].text

    def test_before_anything_came(self, chat):
        """The question alone stays."""
        answer = chat.answer("Where to?", Script())
        chat.stop()

        assert ["Where to?"] == [each.text for each in answer.result()]
        assert not chat.running


class TestMoves:
    def test_undo_while_it_streams(self, store, chat):
        """What was undone goes on unseen, and is whole when it is redone."""
        script = Script()
        answer = chat.answer("Where to?", script)
        script.send("To ")
        until(lambda: "To " in texts(chat))
        chat.undo()
        script.send("the sea.")
        script.end()
        answer.result()

        assert [] == texts(chat) == texts(StoredChat(store, "ann"))

        chat.redo()

        assert ["Where to?", "To the sea."] == texts(StoredChat(store, "ann"))

    def test_message_that_is_known(self, chat):
        """A client's message is asked again by its id, and edited with other words."""
        asked = name(UserMessage("In May?"), "u1")
        for message in (asked, asked, asked.replace(content="In June?")):
            chat.answer(message, sea).result()

        edited, *_ = ids(chat)
        assert ["In June?", "To the sea."] == texts(chat)
        assert (1, ("u1", edited)) == chat.tree.pagers()[edited]

        chat.switch("u1")
        assert ["In May?", "To the sea."] == texts(chat)
        assert len(chat.tree.pagers()) == 2  # the prompt's, and the answer's

        chat.edit("u1", asked.replace(content="In July?"), sea).result()
        assert len(chat.tree.pagers()[ids(chat)[0]][1]) == 3

    def test_turn_with_tools_in_ag_ui(self, chat):
        """AG-UI's events of a turn with results have the ids of its snapshot."""
        call = ToolCall("c1", "tide", "{}")
        result = ToolMessage("6:40", tool_call_id="c1", tool_name="tide")
        turn = [
            AssistantMessage("Hm.", tool_calls=[call]),
            result,
            *say("At ", "6:40."),
        ]

        answer = chat.answer("When is low tide?", lambda _: turn)
        events = [*ag_ui.dump_chunks(answer, message_id=answer.id)]

        told: dict[str, str] = {}
        for event in events:
            text = event.get("delta") or event.get("content") or ""
            if event["type"] in ("TEXT_MESSAGE_CONTENT", "TOOL_CALL_RESULT"):
                told[event["messageId"]] = told.get(event["messageId"], "") + text

        shown = ag_ui.snapshot(chat.timeline.present)["messages"][1:]
        assert {each["id"]: each["content"] for each in shown} == told
        assert ["assistant", "tool", "assistant"] == [each["role"] for each in shown]

    def test_edit_and_regenerate(self, store, chat):
        """Another prompt and another answer are siblings, and the bill is of all."""
        chat.answer("In May?", sea).result()
        prompt, first = ids(chat)
        chat.regenerate(first, lambda _: say("Hills.", id="r2")).result()
        chat.regenerate(prompt, lambda _: say("Lakes.", id="r3")).result()
        chat.edit(prompt, "In June?", lambda _: say("Sun.", id="r4")).result()

        assert ["In June?", "Sun."] == texts(chat)
        assert Usage(40, 5) == chat.tree.total_usage

        chat.switch(prompt)

        assert ["In May?", "Lakes."] == texts(chat)

        chat.switch(first)

        assert ["In May?", "To the sea."] == texts(StoredChat(store, "ann"))
        assert 3 == len(chat.tree.siblings(chat.tree.find(first))[1])
        with pytest.raises(ValueError, match="no message of a user's"):
            chat.edit(first, "Hi", sea)

    def test_flips_are_no_steps(self, chat):
        """However often one flips, undo takes back what is shown, at once."""
        chat.answer("In May?", sea).result()
        _, first = ids(chat)
        second = chat.regenerate(first, lambda _: say("Hills.", id="r2"))
        second.result()
        steps = len(chat.timeline.moments)
        for id in (first, second.id, first):
            chat.switch(id)

        assert steps == len(chat.timeline.moments)

        chat.undo()

        assert [] == texts(chat)

    def test_regenerates_the_whole_answer(self, chat):
        """An answer of several responses is answered anew from its question on."""

        def model(_asked):
            call = ToolCall("c1", "trains", "{}")
            yield AssistantMessage(tool_calls=[call])
            yield ToolMessage("9:04", tool_call_id="c1")
            yield from say("At 9:04.")

        chat.answer("When?", model).result()
        chat.regenerate(ids(chat)[-1], sea).result()

        assert ["When?", "To the sea."] == texts(chat)

    def test_nothing_to_undo_saves_nothing(self, store, chat):
        """At the first moment undo, redo and stop change nothing."""
        chat.undo()
        chat.redo()
        chat.stop()

        assert "ann" not in store

    def test_is_a_plain_tree(self, store):
        """In one tab and in two, each with a chat of its own, it is a plain tree."""
        numbers = iter(range(10**9))

        class Chat:
            def __init__(self, id):
                self.chat = StoredChat(store, id)

            @property
            def state(self):
                self.chat.refresh()
                return self.chat.tree.present

            def ask(self, text):
                self.chat.answer(text, self._model).result()

            def undo(self):
                self.chat.undo()

            def redo(self):
                self.chat.redo()

            def edit(self, entry_id, text):
                self.chat.edit(entry_id, text, self._model).result()

            def regenerate(self, entry_id):
                self.chat.regenerate(entry_id, self._model).result()

            def switch(self, entry_id):
                self.chat.switch(entry_id)

            @staticmethod
            def _model(_asked):
                number = next(numbers)
                return say(f"Answer {number}", id=f"r{number}")

        check_chat(Chat, settings=FEW, also=["keeps the bill"])  # type: ignore[arg-type]


class TestStoredChat:
    def test_goes_on_where_it_was(self, store):
        """Opened again it shows what it showed, with what can be redone."""
        start = Aggregator.new([SystemMessage("Be brief.")])
        chat = StoredChat(store, "ann", start=start)
        chat.answer("Where to?", sea).result()
        chat.undo()
        again = StoredChat(store, "ann", start=Aggregator.new())

        assert ["Be brief."] == texts(again)

        again.redo()

        assert ["Be brief.", "Where to?", "To the sea."] == texts(again)
        assert chat.refresh() == again.timeline

    def test_other_processes(self, store):
        """Acts of several processes are all kept, while an answer streams, too."""
        ours, theirs = StoredChat(store, "ann"), StoredChat(store, "ann")
        script = Script()
        answer = ours.answer("Where to?", script)
        script.send("To ")
        until(lambda: "To " in texts(ours))
        theirs.answer("And then?", lambda _: say("Home.", id="r2")).result()
        ours.undo()
        script.send("the sea.")
        script.end()
        answer.result()
        theirs.refresh()

        assert ours.timeline == theirs.timeline == store.load_timeline("ann")
        assert ["Where to?"] == texts(ours)[:1]
        assert Usage(20, 1) == ours.tree.total_usage
        assert {"Where to?", "And then?", "Home."} <= {
            node.message.text for node in ours.tree
        }

    def test_regenerated_by_two_processes(self, store):
        """Two answers that are asked for at once are both kept, and paid once."""
        StoredChat(store, "ann").answer("Where to?", lambda _: []).result()
        chats = [StoredChat(store, "ann"), StoredChat(store, "ann")]
        scripts = [Script(), Script()]
        answers = [
            chat.regenerate(ids(chat)[0], script)
            for chat, script in zip(chats, scripts, strict=True)
        ]
        for number, script in enumerate(scripts):
            for chunk in say(f"Answer {number}", id=f"r{number}"):
                script.senders[0].send(chunk)

            script.senders[0].close()

        for answer in answers:
            answer.result()

        tree = StoredChat(store, "ann").tree

        assert ["Answer 0", "Answer 1"] == [
            tree.node(e).message.text for e in tree.leaves
        ]
        assert Usage(20, 2) == tree.total_usage

    def test_deleted_by_another_process(self, store):
        """A chat that was deleted begins anew; an answer that came then is refused."""
        chat, script = StoredChat(store, "ann"), Script()
        answer = chat.answer("Where to?", script)
        script.send("To ")
        until(lambda: "To " in texts(chat))
        store.delete("ann")
        chat.answer("Hello?", sea).result()
        script.end()
        with pytest.raises(LookupError, match="replaced"):
            answer.result()

        assert (
            ["Hello?", "To the sea."] == texts(chat) == texts(StoredChat(store, "ann"))
        )

    def test_replaced_by_another_process(self, store):
        """An answer goes into the chat that it was asked in, and into no other."""
        ours, script = StoredChat(store, "ann"), Script()
        answer = ours.answer("Where to?", script)
        store.delete("ann")
        StoredChat(store, "ann").answer("Hello?", sea).result()
        script.send("To the hills.")
        script.end()
        with pytest.raises(LookupError, match="replaced"):
            answer.result()

        assert (
            ["Hello?", "To the sea."] == texts(ours) == texts(StoredChat(store, "ann"))
        )

    def test_a_history_is_refused(self, store):
        """A name that other verbs write is not written as a chat."""
        store.save("ann", Aggregator.new().add_user_prompt("Hi"))
        chat = StoredChat(store, "ann")
        with pytest.raises(StoreError, match="history"):
            chat.answer("Where to?", sea)

        assert ["Hi"] == texts(chat)

    def test_a_store_that_fails(self, store, chat, monkeypatch):
        """
        An act that can't be saved changes nothing; an answer stays in memory, and the
        next save has it, also if another process saves before.
        """
        script = Script()
        answer = chat.answer("Where to?", script)
        with monkeypatch.context() as patch:
            patch.setattr(type(store), "save_timeline", fail)
            with pytest.raises(StoreError, match="disk"):
                chat.undo()

            assert ["Where to?"] == texts(chat)

            script.send("To the sea.")
            script.end()
            with pytest.raises(StoreError, match="disk"):
                answer.result()

        assert "disk" in chat.timeline.moment.note["error"]

        StoredChat(store, "ann").answer("When?", lambda _: []).result()
        chat.refresh()
        chat.answer("And then?", sea).result()
        saved = StoredChat(store, "ann").tree

        assert "To the sea." in [node.message.text for node in saved]
        assert Usage(20, 2) == saved.total_usage

    def test_gives_up(self, store, chat, monkeypatch):
        """A save that always comes second ends with an error."""

        def save(*_arguments, **_options):
            raise StaleHeadError("memory:", "ann", None, None)

        monkeypatch.setattr(type(store), "save_timeline", save)
        with pytest.raises(StaleHeadError):
            chat.answer("Where to?", sea)

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
    def test_killed(self, tmp_path):
        """A process that is killed while it answers loses no question."""
        script = """
import os, signal, sys
from conversation_state import AssistantMessage, open_store
from conversation_state.stored_chat import StoredChat

def model(asked):
    yield AssistantMessage("To ")
    os.kill(os.getpid(), signal.SIGKILL)

StoredChat(open_store(sys.argv[1]), "ann").answer("Where to?", model).result()
"""
        path = tmp_path / "chats.db"
        done = subprocess.run(
            [sys.executable, "-c", script, path], cwd=ROOT, check=False
        )
        with open_store(path) as store:
            chat = StoredChat(store, "ann")

            assert -signal.SIGKILL == done.returncode
            assert ["Where to?"] == texts(chat)

            chat.regenerate(ids(chat)[0], sea).result()

            assert ["Where to?", "To the sea."] == texts(StoredChat(store, "ann"))
            assert 2 == len(store.message_tree("ann"))


def fail(*_arguments, **_options):
    raise StoreError("memory:", "disk full")


@pytest.fixture(params=["asyncio", "trio"])
def run(request):
    """A function that runs an async one."""

    def run_here(function, *arguments):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return anyio.run(function, *arguments, backend=request.param)

    return run_here


class TestTasks:
    def test_all_acts(self, run, store):
        """Each act has a twin for tasks, and an async model runs as a task."""

        async def model(asked):
            for chunk in sea(asked):
                await anyio.lowlevel.checkpoint()
                yield chunk

        async def scenario():
            chat = StoredChat(store, "ann")
            answer = await chat.aanswer("In May?", model)
            read = [chunk.text async for chunk in answer]
            assert chat.timeline == store.load_timeline("ann")
            first = ids(chat)[0]
            await (await chat.aregenerate(answer.id, sea)).aresult()
            await (await chat.aedit(first, "In June?", model)).aresult()
            await chat.aundo()
            await chat.aredo()
            await chat.aswitch(answer.id)
            await chat.astop()
            await chat.arefresh()
            return chat, read

        chat, read = run(scenario)

        assert ["To the ", "sea.", ""] == read
        assert ["In May?", "To the sea."] == texts(chat)
        assert ["In June?", "In May?"] == sorted(
            {n.message.text for n in chat.tree if n.message.role == "user"}
        )
        assert chat.timeline == store.load_timeline("ann")

    def test_who_asked_goes_away(self, run, store):
        """A request that is cancelled while it asks ends nothing."""

        async def scenario():
            chat, script = StoredChat(store, "ann"), Script()
            with anyio.CancelScope() as scope:
                scope.cancel()
                await chat.aanswer("Never asked", script)

            async with anyio.create_task_group() as group:

                async def ask():
                    answer = await chat.aanswer("Where to?", script)
                    async for _ in answer.chunks:
                        group.cancel_scope.cancel()

                group.start_soon(ask)
                while not script.senders:
                    await anyio.lowlevel.checkpoint()

                script.send("To ")

            script.send("the sea.")
            script.end()
            for answer in chat.running.values():
                await answer.aresult()

            while chat.running:
                await anyio.lowlevel.checkpoint()

            return chat

        assert ["Where to?", "To the sea."] == texts(run(scenario))

    def test_stop_ends_the_request(self, run, store):
        """The async generator of a model is closed where it waits."""
        closed = []

        async def model(_asked):
            try:
                yield AssistantMessage("To ")
                await anyio.sleep(60)
            finally:
                closed.append(True)

        async def scenario():
            chat = StoredChat(store, "ann")
            answer = await chat.aanswer("Where to?", model)
            async for _ in answer.chunks:
                break

            await chat.astop()
            state = await answer.aresult()
            while not closed:
                await anyio.lowlevel.checkpoint()

            return state

        assert "interrupted" == finish_reason(run(scenario))

    def test_the_event_loop_ends(self, store):
        """A server that ends while an answer comes keeps what had come."""

        async def model(_asked):
            yield AssistantMessage("To ")
            await asyncio.sleep(60)

        async def scenario():
            chat = StoredChat(store, "ann")
            answer = await chat.aanswer("Where to?", model)
            async for _ in answer.chunks:
                break

        asyncio.run(scenario())
        chat = StoredChat(store, "ann")

        assert ["Where to?", "To "] == texts(chat)
        assert "interrupted" == finish_reason(chat.timeline.present)

    def test_tabs(self, run, store):
        """Each tab gets what is shown, and then what is new in it."""

        async def scenario():
            chat, script = StoredChat(store, "ann"), Script()
            await (await chat.aanswer("In May?", sea)).aresult()
            first = ids(chat)
            updates: Any = chat.awatch()
            seen = [await anext(updates)]
            answer = await chat.aanswer("And then?", script)
            for piece in ("Hi", "lls."):
                script.send(piece)
                async for update in updates:
                    seen.append(update)
                    if update.entries and update.entries[-1].message.text[-3:] in piece:
                        break

            running = [each.running for each in seen]
            script.end()
            await answer.aresult()
            await updates.aclose()
            return first, answer, seen, running

        first, answer, seen, running = run(scenario)

        assert None is seen[0].after
        assert first == [ui_id_of(entry) for entry in seen[0].entries]
        assert all(each.after in {first[-1], *ids_of(each)} for each in seen[1:])
        assert [answer.id] == [ui_id_of(entry) for entry in seen[-1].entries][-1:]
        assert [answer] == list(running[-1].values())


def ids_of(update):
    return [ui_id_of(entry) for entry in update.timeline.present.entries]


class Tab:
    """What an interface keeps of a chat, made of updates alone."""

    def __init__(self, chat):
        self.lines = []
        self.updates = 0
        self.take(chat.timeline.present.entries, None)
        chat.watch(lambda update: self.take(update.entries, update.after))

    def take(self, entries, after):
        self.updates += 1
        at = [id for id, _ in self.lines].index(after) + 1 if after else 0
        new = [(ui_id_of(entry), entry.message.text) for entry in entries]
        self.lines[at:] = new


class PlainChat:
    """
    The same in plain lists: messages with parents; moments, each with its parent and
    the message it ends with; where redo goes.
    """

    def __init__(self):
        self.messages = {}  # id: [parent, text]
        self.moments: list[Any] = [(None, None)]
        self.present = 0
        self.redo = {}

    def path(self, id):
        found = []
        while id is not None:
            found.append((id, self.messages[id][1]))
            id = self.messages[id][0]

        return found[::-1]

    def shown(self):
        return self.path(self.moments[self.present][1])

    def commit(self, end):
        self.moments.append((self.present, end))
        self.redo[self.present] = self.present = len(self.moments) - 1

    def end_of(self, id):
        """
        The newest moment that ends behind *id*; where it was shown last is known
        to the chat only, so any will do.
        """
        return [
            at
            for at, (_, end) in enumerate(self.moments)
            if id in [each for each, _ in self.path(end)]
        ]

    def goto(self, moment):
        self.present, at = moment, moment
        while (parent := self.moments[at][0]) is not None:
            self.redo[parent] = at
            at = parent


# As often as they are drawn.
VERBS = (
    *("ask", "ask", "edit", "regenerate", "undo", "redo", "switch", "switch"),
    *("chunk", "chunk", "chunk", "chunk", "end", "stop", "reload"),
)


class Session:
    """A random session of two tabs, beside a plain chat."""

    def __init__(self, store, name, seed):
        self.store, self.name = store, name
        self.random = random.Random(seed)
        self.script, self.plain = Script(), PlainChat()
        self.running = {}  # answer: its number, its moment, the text so far
        self.open()

    def open(self):
        self.chat = StoredChat(self.store, self.name)
        self.tabs = [Tab(self.chat), Tab(self.chat)]

    def ask(self, answer, end):
        plain = self.plain
        for other, [_, moment] in list(self.running.items()):
            if moment == plain.present:
                del self.running[other]

        plain.commit(end)
        number = len(self.script.senders) - 1
        self.running[answer] = [number, len(plain.moments) - 1]

    def act(self):
        chat, plain, pick = self.chat, self.plain, self.random.choice
        shown = plain.shown()
        verb = pick(VERBS)
        if verb == "ask":
            text = f"Q{len(plain.messages)}"
            answer = chat.answer(text, self.script)
            question = ids(chat)[-1]
            plain.messages[question] = [shown[-1][0] if shown else None, text]
            self.ask(answer, question)
        elif verb == "undo":
            chat.undo()
            parent = plain.moments[plain.present][0]
            plain.present = plain.present if parent is None else parent
        elif verb == "redo":
            chat.redo()
            plain.present = plain.redo.get(plain.present, plain.present)
        elif verb in {"chunk", "end"} and self.running:
            self.stream(pick(list(self.running)), is_end=verb == "end")
        elif verb == "stop":
            chat.stop()
            self.running.clear()
        elif verb in {"edit", "regenerate"} and shown:
            id = pick([id for id, text in shown if text[:1] == "Q" or verb != "edit"])
            parent, text = plain.messages[id]
            if verb == "edit":
                text = f"Q{len(plain.messages)}"
                answer = chat.edit(id, text, self.script)
                question = ids(chat)[-1]
                plain.messages[question] = [parent, text]
            else:
                answer = chat.regenerate(id, self.script)
                question = id if text[:1] == "Q" else parent

            self.ask(answer, question)
        elif verb == "switch" and plain.messages:
            id = pick(list(plain.messages))
            chat.switch(id)
            moment = chat.timeline.moment.number

            assert moment in plain.end_of(id)

            plain.goto(moment)
        elif verb == "reload" and not self.running:
            self.open()

        self.check()

    def stream(self, answer, *, is_end):
        number, moment = self.running[answer]
        if is_end:
            del self.running[answer]
            self.receive(answer, moment, "")
            self.script.end(at=number)
            answer.result()
            return

        before = [tab.updates for tab in self.tabs]
        shown = [[id for id, _ in tab.lines] for tab in self.tabs]
        self.script.send("A", at=number)
        self.receive(answer, moment, "A")
        until(
            lambda: all(t.updates > b for t, b in zip(self.tabs, before, strict=True))
        )
        # Nothing is mounted anew.
        assert all(
            [id for id, _ in tab.lines][: len(was)] == was
            for tab, was in zip(self.tabs, shown, strict=True)
        )

    def receive(self, answer, moment, piece):
        plain = self.plain
        if answer.id in plain.messages:
            plain.messages[answer.id][1] += piece
            return

        parent, question = plain.moments[moment]
        plain.messages[answer.id] = [question, piece]
        plain.moments[moment] = (parent, answer.id)

    def check(self):
        """Both tabs and the tree show what the plain chat has, and nothing else."""
        plain, tree = self.plain, self.chat.tree
        parents = {
            ui_id_of(n.entry): [
                n.parent and ui_id_of(tree.node(n.parent).entry),
                n.message.text,
            ]
            for n in tree
        }

        assert plain.messages == parents
        assert [plain.shown()] * 2 == [tab.lines for tab in self.tabs]
        assert set(self.chat.running.values()) == set(self.running)

    def finish(self):
        """All the same in the store, and in a tree of all that it has."""
        for answer in list(self.running):
            self.stream(answer, is_end=True)

        self.open()
        self.check()
        saved = self.store.message_tree(self.name) if self.plain.messages else []

        assert len(saved) == len(self.plain.messages)
        assert len(MessageTree.of(self.chat.timeline)) == len(self.plain.messages)


class TestSessions:
    def test_no_phantom_siblings(self, store):
        """Whatever two tabs do in whatever order, there are the messages that came."""
        for seed in range(SESSIONS):
            session = Session(store, f"chat {seed}", seed)
            for _ in range(session.random.randint(1, 40)):
                session.act()

            session.finish()
