"""The example programs do what is documented."""

import asyncio
import importlib.util
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from textual.widgets import OptionList, Static

from conversation_state import (
    AssistantMessage,
    MessageTree,
    Usage,
    decode,
    open_store,
)
from conversation_state.testing.provider import StrictProvider

ROOT = Path(__file__).resolve().parent.parent


def run(*arguments):
    """What a program prints."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        check=True,
        cwd=ROOT,
        text=True,
    ).stdout


@pytest.fixture
def run_here(monkeypatch, capsys):
    """
    A function for what a program prints, in this process: it has imported already
    what takes a program of a host seconds.
    """

    def run_program(path, *arguments):
        monkeypatch.setattr(sys, "argv", [path, *map(str, arguments)])
        runpy.run_path(str(ROOT / path), run_name="__main__")
        return capsys.readouterr().out

    return run_program


def example(name):
    """An example program as a module."""
    path = ROOT / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.integration
class TestResearchPipeline:
    SCRIPT = "examples/research_pipeline.py"
    # Keeps what was billed, and kills itself around the request that is chosen.
    RUN = """
import importlib.util, os, signal, sys
script, path, billed, kill_at = sys.argv[1:]
spec = importlib.util.spec_from_file_location("pipeline", script)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
requests = 0

def complete(key, body):
    global requests
    requests += 1
    response = module.scripted(key, body)
    with open(billed, "a") as file:
        print(key, sum(response["usage"].values()), file=file)
    if requests == int(kill_at):
        os.kill(os.getpid(), signal.SIGKILL)
    return response

with module.open_store(path) as store:
    module.research(store, "How do we get to Bern?", complete)
"""

    def test_runs_twice(self, tmp_path):
        """A second run prints the same: nothing is asked again."""
        arguments = (self.SCRIPT, tmp_path / "research.db", "How do we get to Bern?")
        printed = run(*arguments)

        assert "billed: 4 responses" in printed
        assert printed == run(*arguments)

    def test_usage(self, monkeypatch):
        """Without what it needs it says how it is run."""
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        command = [sys.executable, self.SCRIPT]
        done = subprocess.run(
            command, cwd=ROOT, check=False, capture_output=True, text=True
        )

        assert 1 == done.returncode
        assert done.stderr.startswith("usage: ")

    def test_provider(self, tmp_path, monkeypatch, capsys):
        """With the address of a server, that is asked."""
        pipeline = example("research_pipeline")
        responses = [
            pipeline.scripted(key, {"messages": [{"content": "One question a line."}]})
            for key in ("plan", "one", "two", "report")
        ]
        with StrictProvider(responses) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.url("openai_chat"))
            pipeline.main(str(tmp_path / "research.db"), "How do we get to Bern?")

        assert ["/v1/chat/completions"] * 4 == [each.path for each in server.requests]
        assert [1, 3, 5, 7] == [len(each.body["messages"]) for each in server.requests]
        assert "billed: 4 responses" in capsys.readouterr().out

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
    def test_killed(self, tmp_path):
        """
        Killed in each request, the pipeline ends with each of them in the ledger once,
        to the token: what the provider billed under different keys.
        """
        path, billed = tmp_path / "research.db", tmp_path / "billed"
        statuses = []
        for kill_at in (1, 1, 2, 2, 1, 0):
            command = [sys.executable, "-c", self.RUN, self.SCRIPT, path, billed]
            done = subprocess.run(
                [*map(str, command), str(kill_at)], cwd=ROOT, check=False
            )
            statuses.append(done.returncode)

        requests = [line.split() for line in billed.read_text().splitlines()]
        with open_store(path) as store:
            research = example("research_pipeline").research
            state = research(store, "How do we get to Bern?", None)

        assert [-9] * 5 + [0] == statuses
        assert 4 == len({key for key, _ in requests}) < len(requests)
        assert 4 == len(state.ledger)
        expected = sum(int(tokens) for tokens in dict(requests).values())
        assert expected == state.total_usage.total_tokens


@pytest.fixture(scope="module")
def team():
    """The team of agents."""
    return example("research_team")


class TestResearchTeam:
    def test_topics_in_order(self, team):
        """Researchers who work at once are joined in the order they were named."""
        texts = [message.text for message in team.run(team.scripted)]
        found = [text for text in texts if text.startswith(("On ", "Nothing on "))]

        assert [
            "On trains: every half hour, 05:04 to Bern first, 23:34 to Bern last.",
            "On rooms: In Bern: Goldener Adler, 180 a night; Kreuz, 145 a night.",
            "Nothing on weather: no forecast for Bern: the service is down.",
        ] == found

    def test_every_call_fits(self, team):
        """
        The model never gets more than it has room for, nor what a provider
        would refuse, although the whole conversation is longer.
        """
        seen = []

        def watched(messages):
            view = team.trim(messages, None, lambda view: view)
            seen.append((view.total_tokens, view.problems()))
            return team.scripted(messages)

        state = team.run(watched)
        limit = team.BUDGET.effective_input_limit
        whole = team.trim(state, None, lambda view: view)

        assert all(tokens <= limit for tokens, _ in seen)
        assert all(problems == () for _, problems in seen)
        assert limit < whole.total_tokens

    def test_rejected_draft_is_gone_and_counted(self, team):
        """
        Only the draft that was good is in the conversation; all ten calls are
        billed, each once.
        """
        bills = []

        def watched(messages):
            answer = team.scripted(messages)
            bills.append(answer.response.usage)
            return answer

        state = team.run(watched)
        drafts = [m.text for m in state if m.text.startswith("Take the train")]

        assert 1 == len(drafts)
        assert "Kreuz, 145 a night" in drafts[0]
        assert "No: the price of the room is missing." not in [m.text for m in state]
        assert 10 == len(state.ledger) == len(bills)
        assert sum(bills, Usage()) == state.total_usage

    def test_never_good_enough(self, team):
        """A critic that never accepts ends in an error that has the last verdict."""

        def grim(messages):
            answer = team.scripted(messages)
            return answer.replace(content="No.") if answer.text == "Good." else answer

        with pytest.raises(RuntimeError, match="last verdict: No"):
            team.run(grim)


@pytest.fixture(scope="module")
def chat():
    """The terminal chat."""
    return example("terminal_chat")


async def at_once(seen):
    """A model that answers at once."""
    yield AssistantMessage(f"{len(seen)} seen.")


def driven(app, scenario):
    """What *scenario* gives, which drives *app* as a user at a terminal does."""

    async def drive():
        async with app.run_test(size=(100, 40)) as pilot:
            return await scenario(app, pilot)

    return asyncio.run(drive())


async def send(app, pilot, text):
    """Type, send, and wait for the answer."""
    await pilot.press(*(letter.replace(" ", "space") for letter in text), "enter")
    await settled(app, pilot)


async def settled(app, pilot):
    """Return once nothing is going on."""
    await pilot.pause()
    await app.workers.wait_for_complete()
    await pilot.pause()


def on_screen(app):
    """The messages that are shown, without the system's."""
    drawn = app.query_one("#messages").query(Static)
    shown = [str(each.render()) for each in drawn][1:]
    return [": ".join(line.strip() for line in each.splitlines()) for each in shown]


class TestTerminalChat:
    def test_branches(self, chat):
        """What was undone stays as a branch that can be gone to."""

        async def scenario(app, pilot):
            await send(app, pilot, "sea")
            await pilot.press("ctrl+z")
            await settled(app, pilot)
            await send(app, pilot, "hills")
            await pilot.press("ctrl+b")
            await pilot.pause()
            listed = app.screen.query_one(OptionList)
            lines = [str(listed.get_option_at_index(at).prompt) for at in range(2)]
            await pilot.press("home", "enter")
            await settled(app, pilot)
            return lines, on_screen(app)

        lines, shown = driven(chat.Chat(answers=at_once), scenario)

        assert [
            "  sea → 2 seen. (3 messages)",
            "* hills → 2 seen. (3 messages)",
        ] == lines
        assert "‹ 1/2 › user: sea" == shown[0]

    def test_siblings_are_compared(self, chat):
        """Two answers to one prompt are two branches, and what differs is shown."""
        answers = iter(["sea", "hills"])

        async def differing(_):
            yield AssistantMessage(next(answers))

        async def scenario(app, pilot):
            await send(app, pilot, "where")
            await pilot.press("ctrl+r")
            await settled(app, pilot)
            usage = str(app.query_one("#usage", Static).render())
            await pilot.press("ctrl+d")
            await pilot.pause()
            await pilot.press("home", "enter")
            await pilot.pause()
            return usage, str(app.screen.query_one("#difference", Static).render())

        usage, difference = driven(chat.Chat(answers=differing), scenario)

        assert usage.startswith("2 branches")
        assert "sea" in difference
        assert "hills" in difference

    def test_regenerate(self, chat):
        """
        Another answer stands beside the first, and both can be shown, which is no step.
        """
        answers = iter(["sea", "hills", "lakes"])

        async def differing(_):
            yield AssistantMessage(next(answers))

        async def scenario(app, pilot):
            shown = []
            await send(app, pilot, "where")
            for keys in (["ctrl+r"], ["ctrl+r"], ["ctrl+left"], ["ctrl+left"] * 2):
                for key in keys:
                    await pilot.press(key)
                    await settled(app, pilot)

                shown.append(on_screen(app))

            await pilot.press("ctrl+z")
            await settled(app, pilot)
            return shown, on_screen(app), len(MessageTree.of(app.timeline).leaves)

        shown, undone, leaves = driven(chat.Chat(answers=differing), scenario)

        assert [
            ["user: where", "‹ 2/2 › assistant: hills"],
            ["user: where", "‹ 3/3 › assistant: lakes"],
            ["user: where", "‹ 2/3 › assistant: hills"],
            ["user: where", "‹ 3/3 › assistant: lakes"],
        ] == shown
        assert shown[2] == undone
        assert 3 == leaves

    def test_edit(self, chat):
        """
        An edited prompt stands beside the first, with an answer of its own; undo
        takes the edit back.
        """

        async def scenario(app, pilot):
            await send(app, pilot, "one")
            await send(app, pilot, "two")
            await pilot.press("ctrl+e")
            offered = app.query_one("#prompt").value
            await pilot.press("backspace", "backspace", "backspace")
            await send(app, pilot, "three")
            edited = on_screen(app)
            await pilot.press("ctrl+left")
            await settled(app, pilot)
            other = on_screen(app)
            await pilot.press("ctrl+right", "ctrl+z")
            await settled(app, pilot)
            return offered, edited, other, on_screen(app)

        offered, edited, other, undone = driven(chat.Chat(answers=at_once), scenario)

        assert "two" == offered
        assert "‹ 2/2 › user: three" == edited[2]
        assert "assistant: 4 seen." == edited[3]
        assert ["‹ 1/2 › user: two", "assistant: 4 seen."] == other[2:]
        assert other == undone

    def test_at_the_start(self, chat):
        """
        At the start there is no prompt, no answer, no sibling, and nothing to undo.
        """

        async def scenario(app, pilot):
            before = app.timeline
            await pilot.press("ctrl+e", "ctrl+r", "ctrl+left", "ctrl+right")
            await pilot.press("ctrl+z", "ctrl+y")
            await settled(app, pilot)
            return before is app.timeline, app.query_one("#prompt").value

        assert (True, "") == driven(chat.Chat(answers=at_once), scenario)

    def test_an_answer_is_stopped(self, chat):
        """
        Undoing while the answer still arrives stops it; redo shows the text that
        had arrived.
        """

        async def endless(_):
            yield AssistantMessage("Well")
            await asyncio.sleep(60)
            yield AssistantMessage(" ...")

        async def scenario(app, pilot):
            await pilot.press("h", "i", "enter")
            while on_screen(app)[-1:] != ["assistant: Well"]:
                await pilot.pause(0.01)
            await pilot.press("ctrl+z")
            await settled(app, pilot)
            undone = on_screen(app)
            await pilot.press("ctrl+y")
            await settled(app, pilot)
            return undone, on_screen(app)

        undone, redone = driven(chat.Chat(answers=endless), scenario)

        assert [] == undone
        assert ["user: hi", "assistant: Well"] == redone

    def test_keeps_the_tree(self, chat, tmp_path):
        """What was undone before the program ended can be redone after."""
        path = tmp_path / "chat.json"

        async def first(app, pilot):
            await send(app, pilot, "hi")
            await pilot.press("ctrl+z")
            await settled(app, pilot)

        async def second(app, pilot):
            before = on_screen(app)
            await pilot.press("ctrl+y")
            await settled(app, pilot)
            return before, on_screen(app)

        driven(chat.Chat(path, answers=at_once), first)
        before, after = driven(chat.Chat(path, answers=at_once), second)

        assert [] == before
        assert ["user: hi", "assistant: 2 seen."] == after
        assert decode(path.read_bytes()).can_undo

    def test_harmless_text(self, chat):
        """A model's answer is text, whatever a terminal would make of it."""

        async def hostile(_):
            yield AssistantMessage("[red]x[/red] [@click=app.quit]q[/] \x1b[2J")

        async def scenario(app, pilot):
            await send(app, pilot, "hi")
            return on_screen(app)[-1]

        shown = driven(chat.Chat(answers=hostile), scenario)

        assert "[red]x[/red] [@click=app.quit]q[/]" in shown
        assert "\x1b" not in shown


@pytest.fixture(scope="module")
def careful():
    """The agent whose tools take the conversation back."""
    return example("careful_agent")


class TestCarefulAgent:
    def test_takes_back(self, careful):
        """
        A failed attempt is gone from the conversation and from the desk, the model gets
        the reason, and its cost stays.
        """
        desk = careful.Desk(limit=200)
        seen = []

        def model(messages):
            seen.append(messages[-1].text)
            return careful.scripted(messages)

        end, [abandoned] = careful.run(model, desk, "A hotel in Bern, please.")

        assert [("a room", 90)] == desk.booked
        assert "the Ritz cost 380, and the limit is 200" in seen[1]
        assert "Ritz for" not in "".join(message.text for message in end)
        assert "Booked the Ritz for 380." == abandoned[-1].text
        assert abandoned[:2] == end[:2]
        assert Usage(300, 30) == end.total_usage

    def test_gives_up(self, careful):
        """An attempt that is never good enough ends, with the last reason."""
        desk = careful.Desk(limit=10)

        with pytest.raises(RuntimeError, match=r"gave up after 3 .* the limit is 10"):
            careful.run(careful.scripted, desk, "A hotel in Bern, please.")

        assert [] == desk.booked

    def test_prints(self):
        """The tree of all attempts, and what they cost; in few lines to copy."""
        printed = run("examples/careful_agent.py").splitlines()
        lines = (ROOT / "examples" / "careful_agent.py").read_text().splitlines()

        assert "1 taken back; 330 tokens in all" == printed[-1]
        assert any("Booked the Ritz" in line for line in printed)
        assert len(lines) < 150


@pytest.mark.integration
class TestDemo:
    def test_prints(self, tmp_path):
        """A list is refused and views are not, the bill stays, and there is a page."""
        printed = run("examples/demo.py", "examples/travel_desk.jsonl", tmp_path)
        undone = "the last turn undone      53 messages   133,183 tokens billed"

        assert "in 59 lengths, it is refused 26 times" in printed
        assert "Sent as 51 views of the same sizes, 0 times" in printed
        assert undone in printed
        assert "<html" in (tmp_path / "travel_desk.html").read_text()

    def test_broken_file(self, tmp_path):
        """A file without a conversation is a problem by line, and exit status 2."""
        broken = tmp_path / "broken.json"
        broken.write_text('{"messages": 3}')
        ended = subprocess.run(
            [sys.executable, "examples/demo.py", broken, tmp_path],
            capture_output=True,
            check=False,
            cwd=ROOT,
            text=True,
        )

        assert 2 == ended.returncode
        assert "broken.json" in ended.stderr
        assert "" == ended.stdout


class TestStatelessServer:
    def test_turns(self):
        """Turns are saved in order and billed, and a wrong request changes nothing."""
        server = example("stateless_server")
        with open_store("memory:", remembered=0) as store:
            client = TestClient(server.create_app(store))
            for text in ("Hi!", "And?"):
                response = client.post("/a/b", json={"text": text})

                assert f"You said: {text}" == response.json()["text"]

            bodies: list[Any] = [{}, {"text": 7}, []]
            refused = [client.post("/a/b", json=body).status_code for body in bodies]
            state = store.load("a/b")

        assert ["Hi!", "You said: Hi!", "And?", "You said: And?"] == [
            message.text for message in state
        ]
        assert 50 == state.usage.total_tokens
        assert [400] * 3 == refused


class TestAgentsSession:
    def test_prints(self, run_here):
        """Three runs, where two branches part, and what is left after going back."""
        printed = run_here("examples/agents_session.py").splitlines()

        assert "alice: When is the next train to Bern?" == printed[0]
        assert (
            "    To Zug at 12:04. Shall I book it? (1240 tokens so far)" == printed[5]
        )
        assert "4 messages in common" in "\n".join(printed)
        assert ["user", "assistant", "user", "assistant"] == [
            line.split()[0] for line in printed[-4:]
        ]
        assert "Basel" not in "\n".join(printed[-4:])


class TestLangGraphAgent:
    def test_reports(self, run_here, tmp_path):
        """
        The thread goes on after it was closed, goes back in time, stays small,
        is whole, and leaves; the file that was named is there to look at.
        """
        path = tmp_path / "threads.db"
        output = run_here("examples/langgraph_agent.py", path).splitlines()
        lines = dict(line.split(":", 1) for line in output)

        assert "The next train goes at 9:02." == lines["opened again"].strip()
        assert lines["back in time"].endswith("/ The next train goes at 9:31.")
        assert "263 checkpoints" in lines["a long conversation"]
        assert '"tool_use_id": "call_Basel"' in lines["for Anthropic"]
        assert "nothing" == lines["damaged"].strip()
        assert path.stat().st_size // 1000 == int(lines["the file"].split()[0]) < 600


class TestPydanticAIAgent:
    def test_conversation(self, run_here, tmp_path):
        """A conversation forks, goes back, is kept whole, and leaves."""
        url = f"sqlite:///{tmp_path}/chats.db"
        output = run_here("examples/pydantic_ai_agent.py", url).splitlines()

        assert "  When is a train to Wien?  There is one to Wien at noon." in output
        assert [
            "desk: 13 messages, 5 saves, 674 tokens",
            "desk, again: 9 messages, 2 saves, 674 tokens",
            "Save 3 is still there: There is one to Bern at noon.",
        ] == output[-4:-1]
        assert output[-1].startswith("For another provider: system, user, assistant")
