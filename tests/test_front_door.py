"""
What programs do with nothing but `import conversation_state`: an agent's run, as in the
programs that this library grew from, without their mistakes.
"""

import pickle
import tomllib
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

import pytest

import conversation_state
from conversation_state import (
    Aggregator,
    AssistantMessage,
    Envelope,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    join,
)
from tests.processes import ROOT, run_script


class Provider:
    """A provider that gives the answers it was made with, at 10 tokens each."""

    def __init__(self, *answers: AssistantMessage) -> None:
        self.answers = iter(answers)
        self.requests = 0

    def answer(self, thread: Aggregator) -> Aggregator:
        """*thread* with the next answer, and what it cost."""
        self.requests += 1
        return thread.add_assistant_message(next(self.answers)).add_usage(
            Usage(8, 2), key=f"{thread.id} {self.requests}", model="gpt-5"
        )


def run_tool(thread: Aggregator, call: ToolCall) -> Aggregator:
    """A branch of *thread* in which a tool answers *call*."""
    if call.name == "fail":
        return thread.fork().add_tool_response(
            Envelope.new().tool_error(OSError("no network"), tool_call_id=call.id)
        )

    result = ToolMessage(call.arguments[::-1], tool_call_id=call.id)
    return thread.fork().add_tool_response(result).add_usage(Usage(1))


def run(thread: Aggregator, provider: Provider, *, max_turns: int = 5) -> Aggregator:
    """*thread* after an agent's run on a fork of it, joined back if all went well."""
    work = thread.fork()
    while work.turn_len < max_turns:
        work = provider.answer(work)
        message = work[-1]
        calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
        if not calls:
            return thread.join(work)

        with ThreadPoolExecutor(4) as pool:
            branches = pool.map(run_tool, repeat(work), calls)
            work = work.join(*branches)

    raise RuntimeError("max turns exceeded")


@pytest.fixture
def thread():
    """A user asked something."""
    return Aggregator.new(messages=[SystemMessage("Be brief.")]).add_user_prompt("Hi?")


CALLS = AssistantMessage(
    tool_calls=[ToolCall("1", "reverse", "abc"), ToolCall("2", "fail", "")]
)


class TestRun:
    def test_succeeds(self, thread):
        """
        The thread has all messages of the run, tools included, in order and once; and
        all its usage.
        """
        done = run(thread, Provider(CALLS, AssistantMessage("cba.")))

        assert ["Be brief.", "Hi?", "", "cba", "OSError: no network", "cba."] == [
            message.text for message in done
        ]
        assert Usage(17, 4) == done.usage
        assert thread.id == done.id

    def test_fails(self, thread):
        """A run that fails leaves the thread as it was, with nothing to undo."""
        with pytest.raises(RuntimeError, match="max turns exceeded"):
            run(thread, Provider(*[CALLS] * 9))

        assert ["Be brief.", "Hi?"] == [message.text for message in thread]
        assert Usage() == thread.usage

    def test_far_away(self, thread):
        """
        Another process gets the state, sends back a turn, and both have the same; a
        turn that arrives twice changes nothing.
        """
        sent = pickle.dumps(thread.fork())
        there = (
            pickle.loads(sent).add_assistant_message("from afar").add_usage(Usage(5))
        )
        turn = pickle.loads(pickle.dumps(there.turn))
        done = thread.join(turn)

        assert "from afar" == done[-1].text
        assert (3, Usage(5)) == (len(done), done.usage)
        assert done is done.join(turn, turn)
        assert list(there) == list(done)


class TestRollback:
    def test_edit_and_go_on(self, thread):
        """
        A question is edited, on a fork from before it; the answer to the first is still
        there, and still in the ledger.
        """
        first = thread.add_assistant_message("No.").add_usage(Usage(5))
        second = first.fork(at=1).add_user_prompt("Please?")

        assert ["Be brief.", "Please?"] == [message.text for message in second]
        assert (Usage(), Usage(5)) == (second.usage, second.total_usage)
        assert 3 == len(first)


class TestVote:
    def test_best_of_three(self, thread):
        """Three answers are tried; one is kept, the usage of all is counted."""
        tried = [
            thread.fork().add_assistant_message(text).add_usage(Usage(1, 2))
            for text in ("A", "B", "C")
        ]
        paid = join(thread, *[one.fork(at=one.init_len) for one in tried])
        best = paid.join(tried[1])

        assert ["Be brief.", "Hi?", "B"] == [message.text for message in best]
        assert Usage(3, 6) == best.usage


@pytest.fixture(scope="module")
def loaded():
    """The modules that importing the package loads."""
    script = (
        "import sys; before = {*sys.modules}; import conversation_state; "
        "print(*({*sys.modules} - before))"
    )
    return {*run_script(script).split()}


class TestImport:
    def test_light(self, loaded):
        """
        Importing the package loads no third party but attrs, no event loop, and
        nothing of the standard library that attrs does not load: what takes long
        to import is imported where it is needed.
        """
        config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        (third_parties,) = (
            contract["importers"]
            for contract in config["tool"]["importlinter"]["contracts"]
            if contract["type"] == "third_parties"
        )
        packages = {name.partition(".")[0] for name in loaded}

        assert "conversation_state" in packages
        assert {"attr", "attrs"} == {"asyncio", *third_parties} & packages
        assert set() == packages & {
            *("datetime", "decimal", "json", "logging", "math", "sqlite3", "uuid"),
            *("concurrent", "random", "secrets", "ssl", "subprocess", "tempfile"),
        }

    def test_few_modules(self, loaded):
        """Of the package, what makes messages and states, and no more."""
        own = {name for name in loaded if name.startswith("conversation_state.")}
        packages = {name.split(".")[1] for name in own}

        assert {
            *("_drawing", "_identity", "_lazy", "_persistent", "_wording"),
            *(
                "aggregator",
                "errors",
                "messages",
                "parts",
                "pickling",
                "tools",
                "usage",
            ),
        } == packages
        assert 30 >= len(own)

    def test_later(self):
        """What is opened later is what its own module has, and is found once."""
        for package in (
            conversation_state,
            conversation_state.errors,
            conversation_state.messages,
            conversation_state.tools,
        ):
            names = {*package.__all__}

            assert names <= {*dir(package)}
            for name in names:
                assert getattr(package, name) is vars(package)[name]

            with pytest.raises(AttributeError, match=f"^module '{package.__name__}' "):
                _ = package.none_such


class TestNames:
    def test_few(self):
        """At most thirty-six names, and all of them there."""
        names = conversation_state.__all__

        assert 36 >= len(names)
        assert [] == [name for name in names if not hasattr(conversation_state, name)]

    @pytest.mark.parametrize("name", conversation_state.__all__)
    def test_documented(self, name):
        """Every public name has a docstring."""
        assert getattr(conversation_state, name).__doc__.strip()
