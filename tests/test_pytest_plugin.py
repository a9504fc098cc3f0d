"""
The plugin for pytest: its fixtures, and what a session with it imports and prints.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.database import InMemoryExampleDatabase

from conversation_state import Aggregator, AssistantMessage, UserMessage
from conversation_state.testing import BrokenLawsError, check_reducer, states
from conversation_state.testing.contracts import ReducerContract
from conversation_state.testing.pytest_plugin import ScriptedModel

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def run(tmp_path):
    """Runs a file of tests with the plugin; its output."""

    def run(source, *options):
        path = tmp_path / "test_it.py"
        path.write_text(source)
        # What Hypothesis finds out once: the constants of each module, and characters.
        kept = tmp_path / ".hypothesis"
        kept.mkdir(exist_ok=True)
        for name in ("constants", "unicode_data"):
            if (ROOT / kept.name / name).is_dir():
                (kept / name).symlink_to(ROOT / kept.name / name)

        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider"),
                # They take a second to import.
                *("-p", "no:langsmith_plugin", "-p", "no:anyio"),
                *(str(path), "--rootdir", str(tmp_path), "-q", *options),
            ],
            capture_output=True,
            check=False,
            cwd=tmp_path,
            # Hypothesis keeps no examples where a CI server runs it.
            env={
                **{name: value for name, value in os.environ.items() if name != "CI"},
                "PYTHONPATH": str(ROOT),
            },
            text=True,
        )
        return done.stdout + done.stderr

    return run


FIXTURES = """
from conversation_state import Aggregator, UserMessage


def test_store(conversation_store):
    conversation_store.save("talk", Aggregator.new().add_user_prompt("Hi!"))
    assert len(conversation_store.load("talk")) == 1


def test_store_is_new(conversation_store):
    assert "talk" not in conversation_store


def test_model(scripted_model):
    scripted_model.add("To Bern.")
    assert scripted_model([UserMessage("Where to?")]).text == "To Bern."
    assert len(scripted_model.requests) == 1


def test_provider(strict_provider):
    assert strict_provider.url("openai_chat").startswith("http://127.0.0.1:")
    assert strict_provider.refusals == ()
"""

IMPORTS = """
import sys


def test_is_light():
    heavy = {"hypothesis", "sqlite3", "cattrs", "http.server"} & {*sys.modules}
    assert not {*heavy} - {"hypothesis"}
    assert "conversation_state.store" not in sys.modules
    assert "conversation_state.testing.contracts" not in sys.modules
"""

CHECKS = '''
from hypothesis import given, settings
from hypothesis.strategies import integers

settings.register_profile("few", max_examples=12)
settings.load_profile("few")

from conversation_state.testing import check_reducer
from conversation_state.testing.contracts import ReducerContract

LAWS = [law.name for law in ReducerContract.laws.values() if not law.is_extra]


def remind(state):
    return state.add_user_prompt("Please be brief.")


def test_remind():
    check_reducer(remind, without=LAWS[2:])


@given(integers())
def test_own(number):
    pass


def test_calls_another():
    given(integers())(lambda number: None)()


class TestRemind(ReducerContract):
    def reducer(self, state):
        return remind(state)


def test_marker(request):
    """Laws of a class have Hypothesis' marker."""
    items = request.session.items
    marked = [item.name for item in items if item.get_closest_marker("hypothesis")]
    assert marked == ["test_own", "test_keeps_the_bill"]
'''

LAWS = [law.name for law in ReducerContract.laws.values() if not law.is_extra]

BROKEN = f"""
LAWS = {[name for name in LAWS if name != "keeps messages"]}

from hypothesis import settings

settings.register_profile("few", max_examples=12)
settings.load_profile("few")

from conversation_state.testing import check_reducer


def forget(state):
    return state.rollback(0)


def test_forget():
    check_reducer(forget, without=LAWS)
"""


@pytest.mark.integration
class TestFixtures:
    def test_give_what_they_say(self, run):
        """A store, a provider and a model for each test, without a line of setup."""
        assert "4 passed" in run(FIXTURES)

    def test_import_nothing(self, run):
        """
        A session that uses none of them imports neither the store nor the contracts.
        """
        assert "1 passed" in run(IMPORTS, "-p", "no:hypothesispytest")


@pytest.mark.integration
class TestChecks:
    @pytest.mark.parametrize("first", ["hypothesispytest", "conversation_state"])
    def test_statistics(self, run, first):
        """
        Laws are in Hypothesis' statistics, those of a call and those of a class, which
        have its marker, too; the tests that are there without us are, as before,
        whichever of the two plugins is loaded *first*.
        """
        output = run(
            *(CHECKS, "--hypothesis-show-statistics", "-p", first),
            *("-k", "test_remind or the_bill or test_marker or own or another"),
        )

        assert "5 passed" in output
        assert [
            "test_remind: takes every state:",
            "test_remind: keeps messages:",
            "test_own:",
            "TestRemind::test_keeps_the_bill:",
        ] == re.findall("^test_it.py::(.*)", output, re.MULTILINE)
        assert "Stopped because settings.max_examples=12" in output

    def test_shows_no_lines_of_the_kit(self, run):
        """What is shown of a broken law is the user's line and the report."""
        output = run(BROKEN, "--tb=short")

        assert "check_reducer(forget, without=LAWS)" in output
        assert "forget breaks" in output
        assert "at test_it.py:12, in forget" in output
        assert "_contract.py" not in output.partition("BrokenLawsError")[2]

    def test_keeps_failing_examples_apart(self):
        """The failing examples of two functions are under two keys."""
        kept = InMemoryExampleDatabase()
        only = [name for name in LAWS if name != "keeps messages"]
        few = settings(max_examples=12, database=kept, phases=[Phase.generate])
        counts = []

        def forget(state):
            return state.rollback(0)

        def drop(state):
            return state.rollback(0)

        for fault in (forget, drop):
            # Of states that are drawn: what named shapes show is not searched for.
            with pytest.raises(BrokenLawsError):
                check_reducer(fault, states=states(), without=only, settings=few)

            counts.append(len(kept.data))

        assert 0 < counts[0] < counts[1]


class TestScriptedModel:
    def test_says_that_it_has_no_more(self):
        """Without an answer left it is an error that says what to do."""
        model = ScriptedModel("To Bern.", AssistantMessage("By train."))
        state = Aggregator.new().add_user_prompt("Where to?")

        assert [model(state).text, model(state).text] == ["To Bern.", "By train."]
        with pytest.raises(LookupError, match=r"no answer to request 3; add"):
            model([UserMessage("And back?")])
