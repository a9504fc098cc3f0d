"""
The contract of agents: honest ones pass, and each fault is found by one call and shown
as a script that replays it.
"""

import asyncio
import contextlib
import json
import signal
import sys
import textwrap
import urllib.request
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import Verbosity, settings
from hypothesis.errors import Flaky

from conversation_state.adapters import (
    anthropic,
    gemini,
    openai_chat,
    openai_responses,
)
from conversation_state.chunks import concat
from conversation_state.messages import (
    AssistantMessage,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.testing import BrokenLawsError, check_agent, replay_agent
from conversation_state.testing.contracts import AgentTurn, _agents
from conversation_state.testing.provider import ErrorReply, Reply
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage
from tests.agents import (
    NOT_RUN,
    PROVIDERS,
    TOOLS,
    ListAgent,
    LoopAgent,
    ProviderError,
    StoppableAgent,
    StoppableLoop,
    StreamingAgent,
    post,
    tool_message,
)

FEW = settings(max_examples=8, database=None, derandomize=True, deadline=None)
ROOT = Path(__file__).resolve().parent.parent


class TestHonest:
    @pytest.mark.parametrize("agent", [ListAgent, StreamingAgent, StoppableAgent])
    def test_passes(self, agent):
        """An agent that retries, answers each call and ends breaks no law."""
        report = check_agent(
            agent(), tools=TOOLS, settings=settings(FEW, max_examples=4)
        )

        assert report.scripts > 30

    @pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
    @pytest.mark.parametrize("wire", PROVIDERS)
    def test_passes_on_each_wire(self, wire, is_streamed):
        """
        The loop of the documentation breaks no law on any wire, with tools, streamed
        and whole: each answer is one that the wire can carry.
        """
        agent = LoopAgent(wire, is_streamed=is_streamed)
        check_agent(
            agent, wire=wire, tools=TOOLS, settings=settings(FEW, max_examples=2)
        )

    @pytest.mark.parametrize("at", [2, 9])
    @pytest.mark.parametrize("wire", PROVIDERS)
    def test_stop_is_kept(self, wire, at):
        """What had come of an answer before a stop may be kept, and what it cost."""
        answer = AssistantMessage(
            "A long answer. " * 20, response=ResponseMeta("stop", Usage(104, 12))
        )
        agent = StoppableLoop(wire, is_streamed=True)
        replay_agent(agent, [AgentTurn("Hm?", [answer], act="stop", at=at)], wire=wire)

        (thread,) = agent.threads.values()
        assert "interrupted" == thread[1].response.finish_reason

    def test_answers_that_broke_off_at_once(self):
        """Of two such answers nothing but an empty item may be left, twice."""
        cut = attrs.evolve(CUT, break_after=3)
        empty = AssistantMessage("", response=ResponseMeta("stop", Usage(2, 1)))
        script = [
            AgentTurn(f"{at}", [each]) for at, each in enumerate([empty, cut, cut])
        ]
        agent = LoopAgent("openai_responses", is_streamed=True)
        replay_agent(agent, script, wire="openai_responses")

        (thread,) = agent.threads.values()
        assert ["", "", ""] == [each.text for each in thread[1:6:2]]

    def test_without_tools(self):
        """An agent without tools is put through the rest."""
        check_agent(ListAgent(), settings=FEW)

    def test_shows_progress(self, capsys):
        """With Hypothesis' setting for it, each script is a line on stderr."""
        verbose = settings(FEW, max_examples=2, verbosity=Verbosity.verbose)
        report = check_agent(ListAgent(), settings=verbose)

        lines = capsys.readouterr().err.splitlines()
        assert report.scripts == len(lines)
        assert "check_agent: script 2: 2 turns" == lines[1]

    def test_says_what_was_not_drawn(self):
        """What a form of agent can't be put through is in the result."""
        report = check_agent(ListAgent(), settings=settings(FEW, max_examples=1))

        assert report.not_drawn == ("stop", "crash")
        assert "not drawn, for this form can't: stop, crash" in str(report)

    def test_laws_are_on_the_page(self):
        """The page about tests names each law of agents."""
        page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
        with pytest.raises(BrokenLawsError) as caught:
            check_agent(lambda *_: 1 / 0, settings=FEW)

        assert [] == [each.law for each in caught.value.results if each.law not in page]


# Each fault in an agent that is honest otherwise.


class OrphanAfterRetry(ListAgent):
    """Takes the newest message back before it tries again: the calls of a result."""

    def ask(self, base_url, thread, messages):
        try:
            return self.ask_once(base_url, thread, messages)
        except ProviderError:
            calls = [each for each in messages if each.get("tool_calls")]
            if calls:
                messages.remove(calls[-1])

            return self.ask_once(base_url, thread, messages)


class BillsTwice(ListAgent):
    """Adds the usage of the answer before to the bill when it is told to wait."""

    def __init__(self):
        super().__init__()
        self.last = {}

    def take(self, body, thread):
        self.last[thread] = body
        return super().take(body, thread)

    def ask_once(self, base_url, thread, messages):
        try:
            return super().ask_once(base_url, thread, messages)
        except ProviderError as error:
            if error.status == 429 and thread in self.last:
                self.bill(self.last[thread], thread)

            raise


class StoppedBetweenCalls(StoppableAgent):
    """Keeps each result as it comes, and does not look at what a stop left."""

    def close(self, messages):
        pass

    async def take_round(self, messages, answer):
        messages.append(answer)
        for call in answer.get("tool_calls", ()):
            messages.append(tool_message(call, await self.run_later(call)))

    async def run_later(self, call):
        await asyncio.sleep(0)
        return self.run_tool(call)


class KeepsCutStreams(StreamingAgent):
    """Takes what came of a stream for the answer."""

    def check_end(self, reason):
        pass


class ResetsOnError(ListAgent):
    """Begins a new thread where the provider failed."""

    def ask(self, base_url, thread, messages):
        try:
            return super().ask_once(base_url, thread, messages)
        except ProviderError:
            del messages[:-1]
            return super().ask_once(base_url, thread, messages)


class NeverEnds(ListAgent):
    """Asks until the model does not call any more."""

    def __call__(self, base_url, prompt, thread):
        messages = self.threads.setdefault(thread, [])
        messages.append({"role": "user", "content": prompt})
        while True:
            answer = self.ask(base_url, thread, messages)
            messages.append(answer)
            if not answer.get("tool_calls"):
                return self.reply(answer, thread)

            self.run_tools(messages, answer["tool_calls"])


class ReusesIds(ListAgent):
    """Numbers the calls of each answer from 0."""

    def take(self, body, thread):
        answer = super().take(body, thread)
        for at, call in enumerate(answer.get("tool_calls", ())):
            call["id"] = f"call_{at}"

        return answer


class ForgetsResults(ListAgent):
    """Shortens old results to nothing, and drops what an old turn did."""

    def __call__(self, base_url, prompt, thread):
        messages = self.threads.setdefault(thread, [])
        kept = [
            each
            for each in messages
            if each["role"] != "tool" and not each.get("tool_calls")
        ]
        messages[:] = kept
        return super().__call__(base_url, prompt, thread)


class ChangesItsStart(ListAgent):
    """Tells the model how many messages there are, at the start of all."""

    def ask_once(self, base_url, thread, messages):
        told = {"role": "system", "content": f"{len(messages)} messages."}
        return super().ask_once(base_url, thread, [told, *messages])


class RaisesOnUnknownTools(ListAgent):
    """Fails at a tool that it does not have, and leaves the call open."""

    def close(self, messages):
        pass

    def run_tool(self, call):
        return {"search": "3 trains", "clock": "12:30"}[call["function"]["name"]]


class LeavesTheNewestOut(ListAgent):
    """Answers the turn with what it said the turn before."""

    def reply(self, answer, thread):
        said = [
            each["content"]
            for each in self.threads[thread][:-1]
            if each["role"] == "assistant" and each.get("content")
        ]
        return said[-1] if said else answer.get("content", "")


class IgnoresStops(StoppableAgent):
    """Takes a cancellation for an error of a tool, and goes on."""

    async def take_round(self, messages, answer):
        with contextlib.suppress(asyncio.CancelledError):
            await super().take_round(messages, answer)


class AsksTwice(ListAgent):
    """Appends the prompt again before it tries again."""

    def ask(self, base_url, thread, messages):
        try:
            return self.ask_once(base_url, thread, messages)
        except ProviderError:
            prompts = [each for each in messages if each["role"] == "user"]
            messages.append(prompts[-1])
            return super().ask(base_url, thread, messages)


class DropsTextsBesideCalls(ListAgent):
    """Keeps the calls of an answer, and not its text."""

    def take(self, body, thread):
        answer = super().take(body, thread)
        return {**answer, "content": None} if answer.get("tool_calls") else answer


class ForgetsArguments(ListAgent):
    """Keeps the names of the calls, and not their arguments."""

    def take(self, body, thread):
        answer = super().take(body, thread)
        for call in answer.get("tool_calls", ()):
            call["function"] = {**call["function"], "arguments": "{}"}

        return answer


class DropsACall(ListAgent):
    """Forgets, turn by turn, the last of several calls of an answer; all are alike."""

    def __call__(self, base_url, prompt, thread):
        for message in self.threads.get(thread, ()):
            calls = message.get("tool_calls", ())
            if len({call["function"]["name"] for call in calls}) < len(calls):
                self.drop(thread, calls.pop()["id"])
                break

        return super().__call__(base_url, prompt, thread)

    def drop(self, thread, call_id):
        kept = self.threads[thread]
        kept[:] = [each for each in kept if each.get("tool_call_id") != call_id]

    def run_tool(self, call):
        return "Done."


class TriesForever(ListAgent):
    """Tries again until the provider answers."""

    def ask(self, base_url, thread, messages):
        while True:
            try:
                return self.ask_once(base_url, thread, messages)
            except ProviderError as error:
                if error.status == 400:
                    raise


AGENTS = {
    "orphan after a retry": (OrphanAfterRetry, "requests are accepted"),
    "billed twice after a 429": (BillsTwice, "responses are billed once"),
    "stopped between two calls": (StoppedBetweenCalls, "requests are accepted"),
    "a cut stream kept as whole": (KeepsCutStreams, "cut answers are no answers"),
    "a thread reset on error": (ResetsOnError, "nothing is lost"),
    "an endless loop": (NeverEnds, "rounds end"),
    "an id reused": (ReusesIds, "requests are accepted"),
    "results forgotten": (ForgetsResults, "nothing is lost"),
    "a start that changes": (ChangesItsStart, "the prefix is stable"),
    "an open call after an error": (RaisesOnUnknownTools, "requests are accepted"),
    "a stop ignored": (IgnoresStops, "a stop ends the turn"),
    "a prompt sent twice": (AsksTwice, "nothing is there twice"),
    "a text beside calls dropped": (DropsTextsBesideCalls, "nothing is lost"),
    "arguments forgotten": (ForgetsArguments, "nothing is lost"),
    "one of two calls forgotten": (DropsACall, "nothing is lost"),
    "errors without end": (TriesForever, "rounds end"),
    "an old reply": (LeavesTheNewestOut, "the thread is usable"),
}


class TestFaults:
    @pytest.mark.parametrize("name", AGENTS)
    def test_is_found(self, name):
        """Each fault breaks its law, and its script breaks it again."""
        agent, law = AGENTS[name]
        with pytest.raises(BrokenLawsError) as caught:
            check_agent(agent(), tools=TOOLS, settings=FEW)

        broken = caught.value.broken[0]

        assert law == broken.law
        assert len(str(caught.value).splitlines()) <= 42
        with pytest.raises(AssertionError, match=f"^{law}: "):
            exec(broken.code, {"run": agent()})

    def test_sends_no_request(self):
        """An agent that asks another provider than the given one is not usable."""
        with pytest.raises(AssertionError, match="sends no request to the base URL"):
            replay_agent(lambda *_: "Hello.", [])

    @pytest.mark.parametrize("reply", [None, {"answer": "To Bern."}])
    def test_reply_without_text(self, reply):
        """An answer that the reply does not have was not given to the user."""
        agent = ListAgent()

        def run(*turn):
            agent(*turn)
            return reply

        with pytest.raises(AssertionError, match="expected a text, or what has one"):
            replay_agent(run, [AgentTurn("Where to?", ["To Bern."])])

    def test_is_small(self):
        """The script of a fault has the acts that it needs, and no other."""
        with pytest.raises(BrokenLawsError) as caught:
            check_agent(StoppedBetweenCalls(), tools=TOOLS, settings=FEW)

        code = caught.value.broken[0].code

        assert 1 == code.count("AgentTurn(")
        assert 1 == code.count("AssistantMessage(")

    def test_all_that_a_script_breaks(self):
        """
        A script may break several laws: it is shown once, with each of them, and those
        that it does not break are not said to hold.
        """
        with pytest.raises(BrokenLawsError) as caught:
            check_agent(ResetsOnError(), tools=TOOLS, settings=FEW)

        error, report = caught.value, str(caught.value)

        assert ["nothing is lost", "the prefix is stable"] == [
            each.law for each in error.broken
        ]
        assert 8 == [each.result for each in error.results].count("not run")
        assert "breaks 2 of 10 laws of agents; 8 not checked" in report
        assert 1 == report.count("replay_agent(run")
        assert report.endswith("\n  with the same")

    def test_replays_with_options(self):
        """The line that replays a script has the options that it was found with."""
        with pytest.raises(BrokenLawsError) as caught:
            check_agent(
                ListAgent(),
                budget=5,
                level="api",
                max_rounds=20,
                timeout_s=9.5,
                without=["rounds end"],
                settings=FEW,
            )

        code = caught.value.broken[0].code

        assert code.endswith(
            "(run, script, wire='openai_chat', level='api', budget=5, max_rounds=20, "
            "timeout_s=9.5, without=('rounds end',))"
        )
        with pytest.raises(AssertionError, match=r"^the budget is kept: "):
            exec(code, {"run": ListAgent()})

    def test_drawing_fails(self, monkeypatch):
        """An error of Hypothesis without a broken law is raised, and no report made."""

        def draw(*_, **__):
            raise Flaky("inconsistent generation")

        monkeypatch.setattr(_agents, "given", draw)

        with pytest.raises(Flaky, match="inconsistent"):
            check_agent(ListAgent(), settings=FEW)

    def test_failure_that_follows(self):
        """A turn that fails because a request is refused is not shown twice."""
        with pytest.raises(BrokenLawsError) as caught:
            check_agent(ReusesIds(), tools=TOOLS, settings=FEW)

        assert ["requests are accepted"] == [each.law for each in caught.value.broken]

    def test_same_answers_are_one(self):
        """Sixty answers of one kind are shown as one, with their number."""
        with pytest.raises(BrokenLawsError) as caught:
            check_agent(NeverEnds(), tools=TOOLS, settings=FEW)

        code = caught.value.broken[0].code

        assert 1 == code.count("ToolCall(")
        assert ")] * 60," in code
        assert code.endswith("(run, script, wire='openai_chat')")

    def test_says_how_to_end(self):
        """Of a loop without an end the report says what it needs."""
        with pytest.raises(AssertionError, match="and 50 are allowed; give the loop a"):
            replay_agent(TriesForever(), [AgentTurn("Hm?", [ErrorReply(500)] * 60)])

    def test_of_a_second_prompt(self):
        """What is written while a function runs is judged like the first prompt."""

        class AsksSecondTwice(ListAgent):
            def __call__(self, base_url, prompt, thread):
                if self.threads.get(thread):
                    message = {"role": "user", "content": prompt}
                    self.threads[thread].append(message)

                return super().__call__(base_url, prompt, thread)

        with pytest.raises(AssertionError, match=r"thing more\.' is in .* 2 times"):
            replay_agent(AsksSecondTwice(), [AgentTurn("Hm?", ["So."], act="write")])

    def test_of_an_end_that_is_gone(self):
        """A request that has only the start of the one before is not stable."""

        def run(base_url, prompt, _thread):
            asked = {"role": "user", "content": prompt}
            post(
                base_url, {"model": "m", "messages": [asked, {**asked, "content": "!"}]}
            )
            post(base_url, {"model": "m", "messages": [asked]})
            return "So."

        with pytest.raises(AssertionError, match="had: user: '!' became nothing"):
            replay_agent(run, [AgentTurn("Hm?", ["Yes.", "So."])])

    def test_is_made_smaller_for_a_while(self, monkeypatch):
        """Where running is slow, the smallest script so far is shown, as broken."""
        monkeypatch.setattr(_agents, "_SHRINKING_S", -1.0)
        with pytest.raises(BrokenLawsError) as caught:
            check_agent(ForgetsResults(), tools=TOOLS, settings=FEW)

        broken = caught.value.broken[0]

        assert broken.examples == 3  # named scripts, the second twice
        assert "not each time" not in str(caught.value)

    def test_replays_what_holds(self):
        """A script that breaks no law raises nothing."""
        replay_agent(ListAgent(), [AgentTurn("Where to?", ["To Bern."])])


class BillsCutAnswersTwice(LoopAgent):
    """Adds what it knows of a cut answer to the bill, which has it already."""

    def add_answer(self, pieces, thread):
        super().add_answer(pieces, thread)
        if pieces[-1].response.finish_reason == "interrupted":
            known = self.threads[thread].total_usage
            self.threads[thread] = self.threads[thread].add_usage(known)


class BillsNoWholeAnswers(LoopAgent):
    """Bills no answer that came whole."""

    def add_answer(self, pieces, thread):
        if pieces[-1].response.finish_reason != "interrupted":
            meta = attrs.evolve(concat(pieces).response, usage=None)
            pieces = [concat(pieces).replace(response=meta)]

        super().add_answer(pieces, thread)


def say(text, *usage):
    return AssistantMessage(text, response=ResponseMeta("stop", Usage(*usage)))


CUT = Reply(say("A long answer. " * 20, 104, 12), break_after=4)


class TestBills:
    """What a cut answer cost is not known for sure, and what a whole one did is."""

    @pytest.mark.parametrize(
        ("wire", "tokens"),
        [
            *[("anthropic", each) for each in (0, 104, 105, 116)],
            *[("gemini", each) for each in (0, 104, 116)],
            *[("openai_chat", each) for each in (0, 116)],
            *[("openai_responses", each) for each in (0, 116)],
        ],
    )
    def test_may_be_known(self, wire, tokens):
        """All of it, none of it, and what the wire says before the end are right."""
        self.bill(wire, tokens)

    @pytest.mark.parametrize(
        ("wire", "tokens"),
        [
            *[("anthropic", each) for each in (1, 12, 106, 210, 232)],
            *[("gemini", each) for each in (12, 105, 208, 232)],
            *[("openai_chat", each) for each in (104, 105, 232)],
        ],
    )
    def test_is_wrong(self, wire, tokens):
        """Anything else is not, such as the same twice."""
        with pytest.raises(AssertionError, match=r"^responses are billed once: "):
            self.bill(wire, tokens)

    @staticmethod
    def bill(wire, tokens):
        """Replay an agent that says a cut answer had so many *tokens*."""

        class Agent(LoopAgent):
            def __call__(self, *arguments):
                thread = super().__call__(*arguments)
                whole = sum(each.text.startswith("That is all") for each in thread)
                reply = thread[-1]
                known = {"total_tokens": tokens + 51 * whole}
                reason = reply.response.finish_reason
                return {"text": reply.text, "usage": known, "finish_reason": reason}

        agent = Agent(wire, is_streamed=True)
        replay_agent(agent, [AgentTurn("Hm?", [CUT])], wire=wire)

    @pytest.mark.parametrize("agent", [BillsCutAnswersTwice, BillsNoWholeAnswers])
    @pytest.mark.parametrize("wire", ["anthropic", "gemini"])
    def test_faults(self, agent, wire):
        """An agent that bills such an answer twice, or no whole one, is found."""
        script = [AgentTurn("Hm?", [say("So.", 7, 3)]), AgentTurn("And?", [CUT])]
        with pytest.raises(AssertionError, match=r"^responses are billed once: "):
            replay_agent(agent(wire, is_streamed=True), script, wire=wire)

    def test_many_sums(self):
        """Of many cut answers the report says between which sums the bill may be."""

        class Agent(LoopAgent):
            def __call__(self, *arguments):
                super().__call__(*arguments)
                return {"text": "That is all, 1.", "usage": 3}

        script = [
            AgentTurn(
                f"Question {at}.", [Reply(say("A." * 99, 2**at, 1), break_after=4)]
            )
            for at in range(4)
        ]
        expected = r"states 3 tokens; the responses used from 51 to 70, but not so many"
        with pytest.raises(AssertionError, match=expected):
            replay_agent(Agent("anthropic", is_streamed=True), script, wire="anthropic")


THREAD = [
    SystemMessage("Be brief."),
    UserMessage("Where to?"),
    AssistantMessage("Let me see.", tool_calls=[ToolCall("c1", "search", '{"a": 1}')]),
    ToolMessage("A city.", tool_call_id="c1", name="search"),
    AssistantMessage("To Bern."),
]
SHOWN = """\
  system: 'Be brief.'
  user: 'Where to?'
  assistant: 'Let me see.'
  call c1: 'search' {"a": 1}
  result c1: 'A city.'
  assistant: 'To Bern.'"""
REFUSED_TOOLS = [{"functionDeclarations": [{"name": "?"}]}]
GEMINI_PART = {"functionResponse": {"name": "clock", "response": {"output": "Noon."}}}


WHERE = {
    "anthropic": "messages",
    "gemini": "contents",
    "openai_chat": "messages",
    "openai_responses": "input",
}
TEXTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

GEMINI_PARTS: list[tuple[Any, str]] = [
    (None, ""),
    (["Hi."], ""),
    ([{"text": "Hi."}, {}], "  user: 'Hi.'"),
    ([{"functionCall": {"id": "c"}}], "  call c: '' {}"),
    ([{"functionCall": {"args": {"a": 1}}}], "  call: '' {\"a\": 1}"),
    ([{"functionCall": {"name": "f"}}], "  call f: 'f' {}"),
    ([{"functionResponse": {"id": "c"}}], "  result c: 'None'"),
    ([{"functionResponse": {"response": {}}}], "  result: '{}'"),
]


class TestWires:
    """What a refused request says is shown in the same words for each wire."""

    @staticmethod
    def show(wire, body):
        """What is shown of *body*, which *wire* refuses."""

        def run(base_url, prompt, thread):
            path = {
                "anthropic": "/messages",
                "gemini": "/models/m:generateContent",
                "openai_chat": "/chat/completions",
                "openai_responses": "/responses",
            }[wire]
            data = json.dumps({**body, "tools": REFUSED_TOOLS}).encode()
            urllib.request.urlopen(urllib.request.Request(base_url + path, data))

        with pytest.raises(AssertionError) as caught:
            replay_agent(run, [], wire=wire)

        lines = str(caught.value).splitlines()
        return "\n".join([line for line in lines if line.startswith("  ")])

    @pytest.mark.parametrize("wire", [anthropic, gemini, openai_chat, openai_responses])
    def test_all(self, wire):
        """Instructions, texts, calls with their arguments, and results."""
        payload = wire.dump(THREAD).payload
        body = payload if isinstance(payload, dict) else {"messages": payload}
        shown = self.show(wire.FORMAT.name, body)

        # Gemini takes an object from a tool.
        assert SHOWN == shown.replace("\"{'output': 'A city.'}\"", "'A city.'")

    @pytest.mark.parametrize(
        ("wire", "body", "shown"),
        [
            ("openai_responses", {"input": "Hi."}, "  user: 'Hi.'"),
            (
                "gemini",
                {"system_instruction": {"parts": [{"text": "Be brief."}]}},
                "  system: 'Be brief.'",
            ),
            (
                "gemini",
                {"contents": [{"role": "user", "parts": [GEMINI_PART]}]},
                """  result clock: "{'output': 'Noon.'}\"""",
            ),
        ],
    )
    def test_short_forms(self, wire, body, shown):
        """A text for a list, Python's names, and results without an id."""
        assert shown == self.show(wire, body)

    @pytest.mark.parametrize(
        ("wire", "body", "shown"),
        [
            *[(wire, {}, "") for wire in WHERE],
            *[(wire, {key: None}, "") for wire, key in WHERE.items()],
            *[(wire, {key: ["Hi.", None]}, "") for wire, key in WHERE.items()],
            ("openai_chat", {"messages": [{}]}, ""),
            ("openai_chat", {"messages": [{"role": "tool"}]}, "  result: ''"),
            (
                "openai_chat",
                {"messages": [{"role": "developer", "content": "Be brief."}]},
                "  system: 'Be brief.'",
            ),
            (
                "openai_chat",
                {"messages": [{"role": "user", "content": [3, *TEXTS, {"text": 1}]}]},
                "  user: 'ab'",
            ),
            (
                "openai_chat",
                {"messages": [{"role": "user", "content": TEXTS[0]}]},
                "  user: 'a'",
            ),
            *[
                ("openai_chat", {"messages": [{"tool_calls": calls}]}, shown)
                for calls, shown in [
                    (3, ""),
                    (["f"], ""),
                    ([{}], ""),
                    ([{"function": "f"}], ""),
                    ([{"function": {}}], "  call: ''"),
                    ([{"id": "c", "function": {"arguments": "["}}], "  call c: ''"),
                    ([{"id": "c", "function": {"name": "f"}}], "  call c: 'f'"),
                    (
                        [{"id": "c", "function": {"name": "f", "arguments": ""}}],
                        "  call c: 'f' {}",
                    ),
                    (
                        [{"function": {"arguments": {"b": 1, "a": 2}}}],
                        '  call: \'\' {"a": 2, "b": 1}',
                    ),
                ]
            ],
            *[
                ("openai_responses", {"input": [item]}, shown)
                for item, shown in [
                    ({"role": "user", "content": "Hi."}, "  user: 'Hi.'"),
                    ({"role": "developer", "content": "Hm."}, "  system: 'Hm.'"),
                    ({"type": "function_call"}, "  call: ''"),
                    ({"type": "function_call_output"}, "  result: ''"),
                    ({"type": "reasoning", "content": "Hm."}, ""),
                ]
            ],
            ("anthropic", {"system": TEXTS}, "  system: 'ab'"),
            *[
                (
                    "anthropic",
                    {"messages": [{"role": "user", "content": content}]},
                    shown,
                )
                for content, shown in [
                    ("Hi.", "  user: 'Hi.'"),
                    (["Hi."], ""),
                    ([{"type": "text"}], "  user: ''"),
                    ([{"type": "tool_use"}], "  call: ''"),
                    ([{"type": "tool_result"}], "  result: ''"),
                    ([{"type": "thinking", "text": "Hm."}], ""),
                ]
            ],
            *[
                ("gemini", {"contents": [{"parts": parts}]}, shown)
                for parts, shown in GEMINI_PARTS
            ],
            ("gemini", {"systemInstruction": "Be brief."}, ""),
        ],
    )
    def test_malformed(self, wire, body, shown):
        """Of a request that lacks something, or has another kind, the rest is shown."""
        assert shown == self.show(wire, body)


class TestCommands:
    def test_fails(self):
        """A command that ends with an error fails, with what it wrote about that."""
        command = [sys.executable, "-c", "import sys; sys.exit('No such file.')"]
        with pytest.raises(AssertionError, match="ended with 1: No such file"):
            replay_agent(command, [])

    def test_replies(self):
        """What a command writes is its reply."""
        code = """
        import json, sys, urllib.request

        base_url, prompt, thread = sys.argv[1:]
        messages = [{"role": "user", "content": prompt}]
        body = json.dumps({"model": "m", "messages": messages}).encode()
        urllib.request.urlopen(base_url + "/chat/completions", body)
        print("To Bern.")
        """
        with pytest.raises(AssertionError, match=r"is 'To Bern\.', and the model"):
            replay_agent([sys.executable, "-c", textwrap.dedent(code)], [])

    def test_heeds_interrupts(self):
        """A command is stopped, also where its parent ignores interrupts."""
        code = """
        import sys, time, urllib.request

        body = b'{"model": "m", "messages": [{"role": "user", "content": "Hm?"}]}'
        try:
            for _ in range(3):
                urllib.request.urlopen(sys.argv[1] + "/chat/completions", body)
                time.sleep(0.1)
        except KeyboardInterrupt:
            print("I stopped.")
        """
        command = [sys.executable, "-c", textwrap.dedent(code)]
        script = [AgentTurn("Hm?", [say("Answer 1.", 2, 1)], act="stop", at=1)]
        laws = ["nothing is lost", "the thread is usable"]
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            replay_agent(command, script, without=laws)
        finally:
            signal.signal(signal.SIGINT, before)

    @pytest.mark.slow
    def test_is_stopped_and_killed(self, tmp_path):
        """
        A command is run for each turn, interrupted and killed; a thread it keeps in a
        file goes on.
        """
        path = tmp_path / "agent.py"
        path.write_text(COMMAND.format(root=ROOT, folder=tmp_path, stop=NOT_RUN))
        report = check_agent(
            [sys.executable, str(path)],
            tools=TOOLS,
            settings=settings(FEW, max_examples=2),
        )

        assert report.not_drawn == ()


COMMAND = textwrap.dedent(
    """
    import json, os, sys
    from pathlib import Path

    sys.path.insert(0, "{root}")
    from tests.agents import ListAgent

    class FileAgent(ListAgent):
        def take(self, body, thread):
            return super().take(body, thread)

    base_url, prompt, thread = sys.argv[1:]
    path = Path("{folder}") / thread
    agent = FileAgent()
    if path.exists():
        agent.threads[thread] = json.loads(path.read_text())

    reply = agent(base_url, prompt, thread)
    new = path.with_suffix(".new" + str(os.getpid()))
    new.write_text(json.dumps(agent.threads[thread]))
    os.replace(new, path)
    print(reply["text"])
    """
)
