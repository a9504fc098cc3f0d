"""What pickles of values name, and what does not change for it."""

import inspect
import pickle
import pickletools
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import (
    Aggregator,
    Envelope,
    MessageTree,
    Timeline,
    TokenBudget,
    Usage,
    cost,
    pickling,
    trim,
)
from conversation_state.adapters.transcripts import load_lines
from conversation_state.pages import read_history
from conversation_state.parallel import fan_out
from conversation_state.pickling import find_maker
from conversation_state.store import open_store
from conversation_state.testing import register
from conversation_state.testing.strategies import STRATEGIES
from conversation_state.tools import ToolChoice
from tests.profiles import fewer

register()

ROOT = Path(__file__).parents[1]
STATE = Aggregator.new().add_user_prompt("Where to?").add_assistant_message("Uphill.")
STORE = open_store("memory:")
STORE.save("walk", STATE)
OTHERS = {
    "budget": TokenBudget(context_window=8_000),
    "choice": ToolChoice.FORCED,
    "cost": cost(STATE.add_usage(Usage(20, 5), model="m")),
    "entries": STATE.entries,
    "envelope": Envelope.new(),
    "fan-out": fan_out(STATE, [lambda state: state.add_user_prompt("On.")]),
    "heads": STORE.heads(),
    "history": read_history(STORE, "walk"),
    "messages": STATE.messages,
    "moments": Timeline.begin(STATE).commit(STATE.fork()).moments,
    "nothing": Aggregator.new(),
    "transcript": [*load_lines('[{"role": "user", "content": "Hi!"}]')],
    "tree": MessageTree.of(STATE),
    "view": trim(STATE, TokenBudget(context_window=8_000)),
}

values = pytest.mark.parametrize("cls", STRATEGIES, ids=lambda cls: cls.__name__)


def check_names(value, protocol):
    """That a pickle of *value* names nothing of ours that is private."""
    data = pickle.dumps(value, protocol)
    texts = [arg for _, arg, _ in pickletools.genops(data) if isinstance(arg, str)]
    names = [text for text in texts if text.startswith("conversation_state")]
    names += [text for text in texts if text in pickling._makers]

    assert names
    assert [] == [name for name in names if "._" in name or " _" in name]
    return data


class TestNames:
    @values
    @fewer()
    @given(data=st.data())
    def test_every_value(self, cls, data):
        """The pickle of a value names public modules only, and gives the value back."""
        value = data.draw(st.from_type(cls))

        assert value == pickle.loads(check_names(value, pickle.HIGHEST_PROTOCOL))

    @pytest.mark.parametrize("value", OTHERS.values(), ids=OTHERS)
    def test_others(self, value):
        """
        So do those of values that Hypothesis does not make by itself, in any protocol.
        """
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert value == pickle.loads(check_names(value, protocol))

    @pytest.mark.parametrize("name", ["choice", "envelope", "moments", "tree", "view"])
    def test_another_process(self, name):
        """A process that has imported nothing unpickles a value of any module."""
        script = (
            "import pickle, sys; value = pickle.load(sys.stdin.buffer);"
            "sys.stdout.buffer.write(pickle.dumps(value))"
        )
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            check=True,
            cwd=ROOT,
            input=pickle.dumps(OTHERS[name]),
        )

        assert OTHERS[name] == pickle.loads(done.stdout)

    def test_unknown(self):
        """
        A name that this version does not have is an error, and so is another module's.
        """
        for name in ("aggregator.Nothing", "Nothing", "os.system", ""):
            with pytest.raises((KeyError, ImportError)):
                find_maker(name)

    @pytest.mark.parametrize("count", [0, 1, 9])
    def test_other_fields(self, count):
        """Values of more or fewer fields than this version has are an error."""
        with pytest.raises(ValueError, match="zip"):
            find_maker("usage.Usage")(*range(count))


class TestClasses:
    @values
    def test_are_where_they_are_defined(self, cls):
        """
        A class says the module it is defined in, where its annotations are resolved,
        and so its source is found.
        """
        assert cls is vars(sys.modules[cls.__module__])[cls.__name__]
        assert f"class {cls.__name__}" in inspect.getsource(cls)


class TestSharing:
    def test_one_log(self):
        """
        What two states share is in their pickle once, and shared by what comes out.
        """
        long = STATE.extend(list(STATE) * 50)
        both = pickle.dumps((long, long.add_user_prompt("And now?")))
        first, second = pickle.loads(both)

        assert len(both) < len(pickle.dumps(long)) + 500
        assert first.entries.is_shared_start_of(second.entries)
        assert len(first) == first.entries.common_prefix(second.entries)
