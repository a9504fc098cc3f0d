"""
The table of conversations that a strict provider refuses for good: its scripts, its
server, and what its rows show.
"""

import asyncio
from collections import Counter
from typing import Any

import pytest

from conversation_state.testing.provider import judge
from peers.refused._agents import AgentsSDKAgent
from peers.refused._loop import ReadmeLoop
from peers.refused._pydantic_ai import PydanticAIAgent
from peers.refused.drivers import MODEL, openai_client
from peers.refused.run import run_script
from peers.refused.scripts import FIXED, Act, FaultKind, ScriptedFault, draw_scripts
from peers.refused.server import serve

# The SDKs leave streams open whose task was cancelled.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


class BareList:
    """An agent as it is written first: a list to which everything is appended."""

    wire = "openai_chat"

    def __init__(self, server, tool):
        self._server, self._tool = server, tool
        self._messages: list[Any] = []
        self.restart()

    def restart(self):
        self._client = openai_client(self._server)

    async def say(self, text, *, streamed):
        del streamed
        self._messages.append({"role": "user", "content": text})
        await self.resume(streamed=False)

    async def resume(self, *, streamed):
        del streamed
        answer = await self._client.chat.completions.create(
            model=MODEL, messages=self._messages
        )
        message = answer.choices[0].message.to_dict(mode="json")
        self._messages.append(message)
        for call in message.get("tool_calls") or ():
            result = await self._tool.book(7)
            self._messages.append(
                {"role": "tool", "tool_call_id": call["id"], "content": result}
            )

    def close(self):
        pass


def with_view(driver, wire):
    return type(driver.__name__, (driver,), {"wire": wire, "has_view": True})


def run_all(driver, scripts):
    """What became of the conversations, by the names of their scripts."""
    with serve() as server:

        async def run():
            return [
                (script, await run_script(driver, script, server, "strictest"))
                for script in scripts
            ]

        return asyncio.run(run())


def refused(driver, scripts):
    return [
        f"{script.name}: {outcome.rules or outcome.why}"
        for script, outcome in run_all(driver, scripts)
        if outcome.is_refused
    ]


class TestScripts:
    def test_each_kind_is_there_once_streamed_and_once_not(self):
        """There are ninety, and each act and each fault is in one of them."""
        assert len(FIXED) == 90
        assert set(Counter(script.name for script in FIXED).values()) == {2}
        assert sum(script.streamed for script in FIXED) == 45
        turns = [turn for script in FIXED for turn in script.turns]
        assert {turn.act for turn in turns} == set(Act)
        replies = [reply for turn in turns for reply in turn.replies]
        faults = [reply for reply in replies if isinstance(reply, ScriptedFault)]
        assert {fault.kind for fault in faults} == set(FaultKind)

    def test_a_seed_draws_the_same(self):
        """More scripts of a seed begin with the fewer; another seed has others."""
        scripts = draw_scripts(1, 30)
        assert draw_scripts(1, 30) == scripts
        assert draw_scripts(1, 40)[:30] == scripts
        assert draw_scripts(2, 30) != scripts


class TestOutcomes:
    def test_a_bare_list_is_refused(self):
        """
        A stop while a tool runs, and an empty answer, end a list for good; a text and a
        fault of the provider don't.
        """
        names = {
            "a text": False,
            "an empty text": True,
            "500, at once": False,
            "time-out, at once": False,
            "the body is cut, at once": False,
            "stops while a tool runs, with 1 call": True,
            "the program ends while the last of the tools runs, with 2 calls": True,
        }
        scripts = [one for one in FIXED if one.name in names and not one.streamed]
        outcomes = run_all(BareList, scripts)

        assert {
            script.name: outcome.is_refused for script, outcome in outcomes
        } == names
        (stopped,) = [
            outcome for script, outcome in outcomes if script.name.startswith("stops")
        ]
        assert stopped.rules == ("call_without_result",)

    def test_what_is_refused_is_a_judgement_of_the_provider(self):
        """The last request of a refused conversation is one that the judge refuses."""
        (script,) = [
            one for one in FIXED if one.name == "an empty text" and not one.streamed
        ]
        with serve() as server:
            asyncio.run(run_script(BareList, script, server, "strictest"))
            request = server.requests[-1]

        assert "answer_without_content" in {
            refusal.rule.name for refusal in judge("openai_chat", request)
        }


@pytest.mark.parametrize(
    ("driver", "wire"),
    [
        (ReadmeLoop, "openai_chat"),
        (AgentsSDKAgent, "openai_chat"),
        (AgentsSDKAgent, "openai_responses"),
        (PydanticAIAgent, "openai_chat"),
        (PydanticAIAgent, "openai_responses"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
class TestOurs:
    def test_no_fixed_script_is_refused_for_good(self, driver, wire):
        """With our view in its own hook, every kind of conversation goes on."""
        scripts = FIXED[::2] if driver is ReadmeLoop else FIXED[1::6]

        assert refused(with_view(driver, wire), scripts) == []

    def test_no_drawn_script_is_refused_for_good(self, driver, wire):
        """Neither does a mixture of kinds end one."""
        assert refused(with_view(driver, wire), draw_scripts(7, 5)) == []
