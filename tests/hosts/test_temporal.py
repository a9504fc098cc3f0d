"""
Temporal: payloads, activities, and workflows in its sandbox, replayed by its own
core from histories as a server would write them. No server runs: `temporal_kills` has
one.
"""

import asyncio
import dataclasses
import importlib
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conversation_state import Aggregator, AssistantMessage, Message, Usage
from conversation_state.aggregator import Turn
from conversation_state.errors import DecodeError, MissingExtraError, NotSavedError
from conversation_state.messages import ResponseMeta, UserMessage
from conversation_state.parts import Part, TextPart
from conversation_state.store import Head, StateRef, open_store
from conversation_state.timeline import Timeline
from conversation_state.tools import ToolCall
from conversation_state.tree import MessageTree

pytest.importorskip("temporalio", reason="needs Temporal (extra temporal)")

from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Replayer

from conversation_state.hosts.temporal import arun_step, data_converter, run_step
from tests.hosts import temporal
from tests.hosts.temporal import Pipeline, RecordedHistory, Relay

REF = StateRef(7, 2, "0f" * 16)
CHAT = Aggregator.new().add_user_prompt("When is the next train?")
FORK = CHAT.fork().add_assistant_message("At 9:04.").add_usage(Usage(14, 4))
HEAD = open_store("memory:").save("chat", CHAT)


@dataclasses.dataclass
class Request:
    """What an activity may take, with references inside."""

    refs: list[StateRef]
    named: dict[str, StateRef]
    turn: Turn | StateRef | None
    messages: tuple[Message, ...] = ()


def convert(value: Any, hint: Any) -> tuple[Any, bytes]:
    """What comes out where *value* was sent, and the bytes between."""
    converter = data_converter.payload_converter
    (payload,) = converter.to_payloads([value])
    (received,) = converter.from_payloads([payload], [hint])
    return received, payload.data


def in_activity(number: int, function: Any, *args: Any, **kwargs: Any) -> Any:
    """What *function* returns as the activity of this number."""
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(
        environment.info, activity_id=str(number), workflow_run_id="run"
    )
    return environment.run(function, *args, **kwargs)


def replay(history: WorkflowHistory, *workflows: type) -> None:
    """Run a workflow in Temporal's sandbox against what its history says."""
    replayer = Replayer(workflows=workflows, data_converter=data_converter)
    asyncio.run(replayer.replay_workflow(history))


class Model:
    """Answers with a response of its own each time, as a provider does."""

    def __init__(self) -> None:
        self.calls = 0

    def answer(self, state: Aggregator) -> Aggregator:
        self.calls += 1
        meta = ResponseMeta(id=f"resp_{self.calls}", usage=Usage(100, 20))
        return state.add_response(AssistantMessage(f"{self.calls}", response=meta))

    async def aanswer(self, state: Aggregator) -> Aggregator:
        await asyncio.sleep(0)
        return self.answer(state)


@pytest.fixture
def model():
    return Model()


class TestPayloads:
    @pytest.mark.parametrize(
        ("value", "hint"),
        [
            (REF, StateRef),
            (REF, StateRef | None),
            (None, StateRef | None),
            ([REF, REF], list[StateRef]),
            (FORK.turn, Turn),
            (FORK.turn, StateRef | Turn),
            (REF, StateRef | Turn),
            (UserMessage("Hi!"), Message),
            (UserMessage("Hi!"), UserMessage),
            ((Usage(1, 2), ToolCall("1", "book", "{}")), tuple[Usage, ToolCall]),
            ([TextPart("Hi!")], list[Part]),
            (Request([REF], {"a": REF}, FORK.turn, (UserMessage("Hi!"),)), Request),
            (Request([], {}, REF), Request),
            ({"text": [1, 2.5]}, dict[str, list[float]]),
            (b"bytes", bytes),
        ],
    )
    def test_comes_back_equal(self, value, hint):
        """References, turns and messages, also inside of others, and all the rest."""
        assert value == convert(value, hint)[0]

    def test_a_reference_is_its_text(self):
        """Other clients and people see a reference as text, which they can send."""
        received, data = convert(REF, StateRef)

        assert f'"{REF}"'.encode() == data
        assert type(received) is StateRef
        assert str(REF) == convert(REF, None)[0]
        assert len(data) <= 82

    @pytest.mark.parametrize(
        ("value", "encoding"),
        [(None, b"binary/null"), (b"x", b"binary/plain"), ({"a": 1}, b"json/plain")],
    )
    def test_other_values(self, value, encoding):
        """What is not ours is written as Temporal's own converter writes it."""
        converter = data_converter.payload_converter

        assert converter.to_payload(value).metadata["encoding"] == encoding
        assert converter.to_payload(value) == (
            DataConverter.default.payload_converter.to_payload(value)
        )

    def test_a_turn_has_no_past(self):
        """A turn is as long as what was added."""
        longer = Aggregator.new(messages=[UserMessage("x" * 500)] * 1_000).fork()
        turn = longer.add_assistant_message("At 9:04.").turn

        assert len(convert(turn, Turn)[1]) < 400

    @pytest.mark.parametrize(
        "whole",
        [
            CHAT,
            CHAT.checkpoint("asked"),
            Timeline.begin(CHAT),
            MessageTree.of(CHAT),
            [CHAT],
            {"state": CHAT},
            HEAD,
        ],
    )
    def test_whole_states_are_refused(self, whole):
        """The error says what to send; from an activity it is not retried."""
        with pytest.raises(TypeError, match=r"send store\.ref\(head\)"):
            convert(whole, None)

        with pytest.raises(ApplicationError, match="through a workflow") as caught:
            in_activity(1, convert, whole, None)

        assert caught.value.non_retryable

    @pytest.mark.parametrize("hint", [Aggregator, list[Aggregator], Timeline, Head])
    def test_a_state_is_not_received(self, hint):
        """An activity that wants a state is told what to take, and where to give it."""
        with pytest.raises(TypeError) as caught:
            convert([str(REF)] if hint == list[Aggregator] else REF, hint)

        cause = caught.value.__cause__ or caught.value
        assert "annotate a StateRef, and give it to store.resolve" in str(cause)

    @pytest.mark.parametrize(
        ("sent", "hint", "error"),
        [
            ("state-1-2", StateRef, ValueError),
            (7, StateRef, ValueError),
            ({"kind": "turn"}, Turn, DecodeError),
            (UserMessage("Hi!"), Turn, DecodeError),
            (UserMessage("Hi!"), AssistantMessage, DecodeError),
        ],
    )
    def test_what_is_neither(self, sent, hint, error):
        """Other values than the annotation says are errors, and no other values."""
        with pytest.raises(error):
            convert(sent, hint)

    def test_sent_of_another_import(self):
        """The error about a class that was imported again says what to do."""
        names = {"__module__": Usage.__module__, "__qualname__": "Usage"}
        again = type("Usage", (), names)

        with pytest.raises(TypeError, match="imports_passed_through"):
            data_converter.payload_converter.to_payload(again())

    def test_without_the_framework(self, monkeypatch):
        """Without Temporal the error names the extra."""
        package = "conversation_state.hosts.temporal"
        for name in [name for name in sys.modules if name.startswith(package)]:
            monkeypatch.delitem(sys.modules, name)

        for name in [n for n in sys.modules if n.partition(".")[0] == "temporalio"]:
            monkeypatch.setitem(sys.modules, name, None)

        host = importlib.import_module(package)
        for name in host.__all__:
            with pytest.raises(
                MissingExtraError, match=r"conversation-state\[temporal"
            ):
                getattr(host, name)


class TestSteps:
    def test_saves_what_was_added(self, store, model):
        """Each step takes a reference and returns the next; the bill is exact."""
        ref = store.ref(store.save("chat", CHAT))
        for number in range(3):
            # As text where the parameter has no annotation.
            ref = in_activity(number, run_step, store, str(ref), model.answer)

        state = store.resolve(ref)
        assert state == store.load("chat")
        assert ["1", "2", "3"] == [message.text for message in state][1:]
        assert Usage(300, 60) == state.total_usage

    @pytest.mark.parametrize("killed", range(3))
    @pytest.mark.parametrize("when", ["asked", "saved"])
    def test_killed(self, store, model, killed, when):
        """
        Killed at any step: no turn is lost, saved or billed twice, and only an answer
        that was not saved is asked for again.
        """

        def killed_later(state):
            model.answer(state)
            raise SystemExit

        ref = first = store.ref(store.save("chat", CHAT))
        for number in range(3):
            step = partial(in_activity, number, run_step, store, ref)
            if number == killed and when == "asked":
                with pytest.raises(SystemExit):
                    step(killed_later)

            ref = step(model.answer)
            if number == killed and when == "saved":
                assert ref == step(model.answer)

        state = store.resolve(ref)
        assert 4 == len(state) == len({entry.id for entry in state.entries})
        assert 3 + (when == "asked") == model.calls
        assert Usage(300, 60) == state.total_usage
        assert CHAT == store.resolve(first)

    def test_at_the_same_time(self, store, model):
        """Steps that begin at one reference lose nothing of each other."""

        async def run() -> list[StateRef]:
            ref = await store.aref(await store.asave("chat", CHAT))
            steps = [
                in_activity(number, arun_step, store, ref, model.aanswer)
                for number in range(4)
            ]
            refs = await asyncio.gather(*steps)
            assert refs[2] == await in_activity(2, arun_step, store, ref, model.aanswer)
            return refs

        refs = asyncio.run(run())
        state = store.load("chat")

        assert 4 == model.calls
        assert {"1", "2", "3", "4"} == {message.text for message in state[1:]}
        assert Usage(400, 80) == state.total_usage
        assert state in [store.resolve(ref) for ref in refs]

    def test_runs_do_not_share_steps(self, store, model):
        """
        An activity of the same id in another run is another step, also where no
        workflow started it, and whatever the ids are.
        """
        ref = store.ref(store.save("chat", CHAT))
        refs = set()
        runs = [
            ("1", None),
            ("2", None),
            (None, "3"),
            (None, "4"),
            ("long" * 300, None),
        ]
        for workflow_run, own_run in runs:
            for activity_id in ("1", "a/b", "long" * 300):
                environment = ActivityEnvironment()
                environment.info = dataclasses.replace(
                    environment.info,
                    activity_id=activity_id,
                    workflow_run_id=workflow_run,
                    activity_run_id=own_run,
                )
                refs.add(environment.run(run_step, store, ref, model.answer))

        assert 15 == len(refs) == model.calls

    def test_kept(self, store, model):
        """A reference is kept for as long as was asked for, or else 30 days."""
        ref = store.ref(store.save("chat", CHAT))
        for at, days, options in (
            (1, 400, {"keep": timedelta(days=400)}),
            (2, 30, {}),
        ):
            made = in_activity(at, run_step, store, ref, model.answer, **options)

            left = made.until - datetime.now(UTC)
            assert timedelta(days - 0.5) < left < timedelta(days + 0.5)

    def test_deleted(self, store, model):
        """A reference into a deleted name is an error before the model is asked."""
        ref = store.ref(store.save("chat", CHAT))
        store.delete("chat")
        with pytest.raises(NotSavedError, match="name was deleted"):
            in_activity(1, run_step, store, ref, model.answer)

        with pytest.raises(ValueError, match=r"expected str\(\) of a StateRef"):
            in_activity(1, run_step, store, "chat", model.answer)

        assert 0 == model.calls

    def test_without_a_shared_store(self, store, model):
        """A turn of an activity without the store is joined once, however often."""
        ref = store.ref(store.save("chat", CHAT))
        turn, _ = convert(model.answer(CHAT.fork()).turn, Turn)
        for number in range(3):
            ref = in_activity(number, run_step, store, ref, lambda s: s.join(turn))

        assert 2 == len(store.resolve(ref))
        assert Usage(100, 20) == store.load("chat").total_usage


class TestWorkflows:
    def test_a_hundred_calls(self, tmp_path, model):
        """
        A workflow of 100 calls on a conversation of 105,000 tokens replays in the
        sandbox. Its payloads are at most 20 kB, and each step adds at most 1 kB to the
        file, with every state restorable.
        """
        chat = Aggregator.new(messages=[UserMessage("four " * 150)] * 700)
        path = tmp_path / "chats.db"
        with open_store(f"sqlite:///{path}") as store:
            ref = first = store.ref(store.save("chat", chat))

        size = path.stat().st_size
        with open_store(f"sqlite:///{path}") as store:
            history = RecordedHistory(data_converter, "pipeline", ref, 100)
            for number in range(100):
                argument = ref
                ref = in_activity(number, run_step, store, ref, model.answer)
                history.add_call("ask", (argument, number), ref)

            recorded = history.finish(ref)
            assert 800 == len(store.resolve(ref))
            assert chat == store.resolve(first)

        assert history.payload_bytes <= 20_000
        assert path.stat().st_size - size <= 100 * 1_000
        replay(recorded, Pipeline)

    def test_a_turn_between_activities(self):
        """A turn goes through a workflow as a value."""
        history = RecordedHistory(data_converter, "relay", REF)
        history.add_call("ask", (REF,), FORK.turn)
        history.add_call("save", (FORK.turn,), REF)
        replay(history.finish(REF), Relay)

    def test_replay_notices(self):
        """The replay is none of ours: another activity than was called is an error."""
        history = RecordedHistory(data_converter, "pipeline", REF, 1)
        history.add_call("another", (REF, 0), REF)
        with pytest.raises(Exception, match="does not match activity type"):
            replay(history.finish(REF), Pipeline)

    def test_a_state_as_a_result(self):
        """A payload that is no reference fails the workflow's task, and is not lost."""
        history = RecordedHistory(DataConverter.default, "pipeline", str(REF), 1)
        history.add_call("ask", (str(REF), 0), "a whole state")
        with pytest.raises(Exception, match=r"expected str\(\) of a StateRef"):
            replay(history.finish(str(REF)), Pipeline)

    def test_imported_again(self, tmp_path, monkeypatch):
        """
        Where imports are not passed through, references are received and sent, and
        the error about a turn says what to do.
        """
        source = Path(temporal.__file__).read_text(encoding="utf-8")
        block = "with workflow.unsafe.imports_passed_through():"
        (tmp_path / "not_passed_through.py").write_text(source.replace(block, "if 1:"))
        monkeypatch.syspath_prepend(tmp_path)
        workflows = importlib.import_module("not_passed_through")
        monkeypatch.setitem(sys.modules, "not_passed_through", workflows)

        history = RecordedHistory(data_converter, "relay", REF)
        history.add_call("ask", (REF,), FORK.turn)
        with pytest.raises(Exception, match="imports_passed_through"):
            replay(history.finish(REF), workflows.Relay)
