"""The command that checks laws: its table, its status, and what it refuses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conversation_state import Aggregator, Message
from conversation_state.store import Store
from conversation_state.store.backends.memory import MemoryBackend
from conversation_state.testing import SHAPES
from conversation_state.testing._command import main
from conversation_state.trimming import TrimContext

HERE = __name__
ROOT = Path(__file__).resolve().parent.parent


def remind(state: Aggregator) -> Aggregator:
    return state.add_user_prompt("Answer in English.")


def without_empty(state: Aggregator) -> Aggregator:
    return Aggregator.new(messages=[each for each in state if each.text])


def shout(state: Aggregator) -> Aggregator:
    raise ValueError("¡No!")


def count_words(message: Message) -> int:
    return len(str(message).split())


def keep_all(view: TrimContext) -> TrimContext:
    return view


def summarise(messages: tuple[Message, ...]) -> str:
    return f"{len(messages)} messages"


class Session:
    def __init__(self, name: str) -> None:
        self.items: list[object] = []

    def get_items(self, limit=None):
        return list(self.items) if limit is None else self.items[-limit:]

    def add_items(self, items):
        self.items.extend(items)

    def pop_item(self):
        return self.items.pop() if self.items else None

    def clear_session(self):
        self.items.clear()


def print_state(state: Aggregator) -> Aggregator:
    """Prints what it gets."""
    print("a state of", len(state))  # noqa: T201
    return state


def hinted(_state: "Elsewhere") -> None:  # type: ignore[name-defined]  # noqa: F821
    return None


def make_store() -> Store:
    return Store(MemoryBackend())


def make_nothing():
    return None


def unknown(value):
    return value


@pytest.fixture
def run(capsys):
    """A function that runs the command and gives its status, output and errors."""

    def run(*arguments):
        try:
            status = main(arguments)
        except SystemExit as error:
            return (error.code, *capsys.readouterr())

        return (status, *capsys.readouterr())

    return run


class TestTable:
    def test_holds(self, run):
        """
        A line for each law, with the number of examples, named and drawn; status 0.
        """
        status, out, err = run(f"{HERE}:remind", "--examples", "5")
        lines = out.splitlines()

        assert (0, "") == (status, err)
        assert f"reducer {HERE}:remind" == lines[0]
        assert ["law", "examples", "result"] == lines[2].split()
        *law, number, result = lines[9].split()
        assert ["keeps", "the", "bill", "holds"] == [*law, result]
        assert 5 + len(SHAPES) < int(number)
        assert "12 hold, 0 broken" == lines[-1]

    def test_broken(self, run):
        """A broken law comes with its smallest example; status 1."""
        status, out, _ = run(
            f"{HERE}:without_empty",
            *("--examples", "10", "--without", "keeps messages"),
            *("--without", "keeps identities", "--without", "stays related"),
            *("--without", "keeps pairs", "--without", "adds no problems"),
        )

        assert 1 == status
        assert "keeps messages                -  declared not to hold" in out
        assert f"\n{HERE}:without_empty breaks 1 of 12 laws of reducers\n" in out
        assert "\nkeeps the bill: Every ledger entry" in out
        assert "    state = Aggregator.new().add_usage(" in out
        assert out.endswith("6 hold, 1 broken\n")

    @pytest.mark.parametrize(
        ("target", "kind"),
        [
            (f"{HERE}:count_words", "counter"),
            (f"{HERE}:keep_all", "step"),
            (f"{HERE}:summarise", "summariser"),
            ("conversation_state.adapters.openai_chat", "adapter"),
            ("conversation_state.counting:by_characters", "counter"),
        ],
    )
    def test_kinds(self, run, target, kind):
        """What it is follows from its type hints or methods."""
        status, out, _ = run(target, "--examples", "2")

        assert (0, f"{kind} {target}") == (status, out.splitlines()[0])

    def test_sessions(self, run):
        """A class with the methods of a session is one."""
        status, out, _ = run(
            f"{HERE}:Session", "--examples", "2", "--without", "is opened again"
        )

        assert 1 == status
        assert f"session {HERE}:Session" == out.splitlines()[0]
        assert "keeps items" in out

    def test_prints(self, run):
        """What is printed by what is checked is not in the report."""
        status, out, err = run(f"{HERE}:print_state", "--examples", "2")

        assert 0 == status
        assert out.startswith(f"reducer {HERE}:print_state\n\nlaw ")
        assert err.startswith("a state of ")


class TestBackends:
    def test_broken(self, run):
        """Where no backend is made, no promise is tried."""
        status, out, _ = run(f"{HERE}:make_nothing", "--kind", "backend")

        assert 1 == status
        assert "rows are kept" in out
        assert (
            "is made: A backend, or a store over one, is made.\n  expected a b" in out
        )
        assert out.endswith("\n0 hold, 1 broken\n")


class TestRefused:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["no_such_module:name"], "can't import 'no_such_module:name': Module"),
            ([f"{HERE}:nothing"], f"'{HERE}' has no attribute 'nothing'"),
            ([f"{HERE}:unknown"], "is of unknown kind"),
            ([f"{HERE}:HERE"], "name it with --kind, one of backend, adapter"),
            ([f"{HERE}:HERE", "--kind", "counter"], "expected a function"),
            ([f"{HERE}:remind", "--kind", "other"], "invalid choice: 'other'"),
            ([f"{HERE}:remind", "--without", "x"], "unknown law 'x'; valid ones"),
            ([f"{HERE}:remind", "--examples", "0"], "a number, 1 or more, got '0'"),
            ([f"{HERE}:remind", "--examples", "few"], "1 or more, got 'few'"),
            ([f"{HERE}:make_store", "--without", "x"], "'rows are kept'"),
            ([f"{HERE}:hinted"], "hinted is of unknown kind"),
            ([], "required: MODULE[:NAME]"),
        ],
    )
    def test_refused(self, run, arguments, message):
        """What can't be checked is an error that says why; status 2."""
        status, out, err = run(*arguments)

        assert (2, "") == (status, out)
        assert message in err

    def test_lazy(self, run, tmp_path, monkeypatch):
        """
        An attribute that a module imports when it is first asked for, and can't, is
        such an error, too; so is a module whose own imports fail, by its name alone.
        """
        (tmp_path / "lazy_module.py").write_text(
            "def __getattr__(name):\n    raise ImportError(f'install {name}')\n"
        )
        (tmp_path / "lazy_package").mkdir()
        (tmp_path / "lazy_package" / "__init__.py").touch()
        (tmp_path / "lazy_package" / "adapter.py").write_text("import no_such_module")
        monkeypatch.syspath_prepend(tmp_path)
        first = run("lazy_module:make")
        second = run("lazy_package.adapter")

        assert (2, "") == first[:2] == second[:2]
        assert "can't import 'lazy_module:make': ImportError: install make" in first[2]
        assert "No module named 'no_such_module'" in second[2]

    def test_from_a_shell(self):
        """
        The module runs as a program, and finds modules of the current folder; what
        stdout can't encode is escaped in the report.
        """
        command = [sys.executable, "-m", "conversation_state.testing"]
        done = subprocess.run(
            [*command, "tests.test_contracts_command:shout", "--examples", "2"],
            cwd=ROOT,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            capture_output=True,
            text=True,
            check=False,
        )

        assert (1, "") == (done.returncode, done.stderr)
        assert "  ValueError: \\xa1No!\n" in done.stdout
