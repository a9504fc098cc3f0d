"""
What plants mutants: which there are, which are taken, and what becomes of them.
"""

import ast
import json
import os

import pytest

from tools.mutant_runs import PACKAGE, Child, Copy, Order
from tools.mutant_targets import (
    MORE_TESTS,
    ROOT,
    TESTS,
    Equivalent,
    find_tests,
    find_unmatched,
    list_modules,
    list_mutants,
    read_equivalents,
    resolve_module,
    take_sample,
)
from tools.mutants import (
    Measure,
    Verdict,
    list_facts,
    read_killed,
    summarise,
    write_results,
)
from tools.mutations import find_mutants

SOURCE = '''
"""
A docstring: no test is meant to hold it.
"""
from typing import TYPE_CHECKING, Literal, cast, overload

if TYPE_CHECKING:
    from somewhere import something

__all__ = ["count"]

Kind = Literal["long", "short"]
LEAST = 3


class Counter:
    limit: int = 10

    def count(self, items, *, start=0):
        """
        How many.
        """
        for item in items[1:]:
            if start < self.limit and not item.hidden:
                start += 1
                self.seen = item
                self.note(item, start, strict=True)
                continue

        try:
            return cast("int", start)
        except (KeyError, ValueError):
            raise LookupError("a text that may change") from None
'''


def changes(source, path="counter.py"):
    """
    The changes of every mutant of a source.
    """
    return {mutant.change for mutant in find_mutants(path, source.encode())}


@pytest.fixture
def project(tmp_path):
    """
    A package with a function and its tests, which hold half of what it does.
    """
    package = tmp_path / "project" / "conversation_state"
    package.mkdir(parents=True)
    tests = tmp_path / "project" / "tests"
    tests.mkdir()
    (package / "__init__.py").write_text("")
    (package / "testing").mkdir()
    (package / "testing" / "__init__.py").write_text("def register():\n    pass\n")
    (package / "testing" / "pytest_plugin.py").write_text("")
    (package / "clamps.py").write_text(
        "def clamp(value):\n    if value < 0:\n        return 0\n    return value\n"
    )
    (tests / "test_clamps.py").write_text(
        "from conversation_state.clamps import clamp\n\n\n"
        "def test_positive():\n    assert clamp(3) == 3\n\n\n"
        "def test_negative():\n    assert clamp(-3) == 0\n"
    )
    (tmp_path / "project" / "pyproject.toml").write_text(
        "[pytest]\naddopts = ['--import-mode=importlib']\npythonpath = ['.']\n"
    )
    return tmp_path / "project"


@pytest.fixture(scope="module")
def mutants():
    """
    The mutants of a module of this library.
    """
    return list_mutants("usage.py")


class TestFindMutants:
    @pytest.mark.parametrize(
        "change",
        [
            "start < self.limit → start <= self.limit",
            "start < self.limit → start >= self.limit",
            "if start < self.limit and (not item.hidden) → if True",
            "start < self.limit and (not item.hidden) → not item.hidden",
            "start < self.limit and (not item.hidden) → start < self.limit",
            "not item.hidden → item.hidden",
            "if start < self.limit and (not item.hidden) → if False",
            "start += 1 removed",
            "self.seen = item removed",
            "self.note(item, start, strict=True) removed",
            "self.note(item, start, strict=True) → self.note(start, item, strict=True)",
            "without strict=True",
            "True → False",
            "continue → break",
            "items[1:] → items[:]",
            "return cast('int', start) → return None",
            "except (KeyError, ValueError) → without KeyError",
            "raise LookupError removed",
            "LookupError → BaseException",
            "0 → 1",
            "10 → 11",
            "3 → 4",
        ],
    )
    def test_planted(self, change):
        """
        Comparisons, boundaries, booleans, constants, defaults, arguments, statements,
        results and exceptions are changed.
        """
        assert change in changes(SOURCE)

    @pytest.mark.parametrize(
        "text",
        [
            "TYPE_CHECK",
            "docstring",
            "How many",
            "count'",
            "long",
            "text that",
            "somewhere",
        ],
    )
    def test_left_alone(self, text):
        """
        Docstrings, the texts of errors, public names and types are not.
        """
        assert not [each for each in changes(SOURCE) if text in each.partition("→")[0]]

    def test_compile(self):
        """
        Every mutant is a program, and another one than the source.
        """
        plain = ast.dump(ast.parse(SOURCE))

        for mutant in find_mutants("counter.py", SOURCE.encode()):
            changed = mutant.apply(SOURCE.encode())
            assert plain != ast.dump(ast.parse(changed)), mutant

    def test_key_while_lines_move(self):
        """
        A mutant keeps its key when lines above it are added, and no two have one key.
        """
        before = [mutant.key for mutant in find_mutants("a.py", SOURCE.encode())]
        moved = SOURCE.replace("LEAST", "import os\n\nLEAST").encode()

        assert before == [mutant.key for mutant in find_mutants("a.py", moved)]
        assert len(before) == len(set(before))

    @pytest.mark.parametrize(
        ("change", "span"), [("1 → 2", (1, 3)), ("2 → 3", (5, 5)), ("3 → 4", (6, 6))]
    )
    def test_span(self, change, span):
        """
        A change belongs to all lines of its statement, but to no line of a body.
        """
        source = b"x = (\n    1\n)\nif (y and\n        2):\n    x = 3\n"
        spans = {m.change: m.span for m in find_mutants("a.py", source)}

        assert span == spans[change]


class TestTakeSample:
    def test_seed(self, mutants):
        """
        One seed takes the same mutants, whatever their order; another one takes others.
        """
        taken = take_sample(mutants, 20, seed=1)

        assert taken == take_sample(mutants[::-1], 20, seed=1)
        assert taken != take_sample(mutants, 20, seed=2)
        assert 20 == len({mutant.key for mutant in taken})

    def test_kinds(self, mutants):
        """
        Each kind of mutant is there before one is there twice.
        """
        kinds = {mutant.kind for mutant in mutants}

        assert kinds == {m.kind for m in take_sample(mutants, len(kinds), seed=0)}


class TestEquivalents:
    def test_checked_in(self):
        """
        Each entry of the list is of a mutant that there is, and has a reason.
        """
        assert [] == find_unmatched(read_equivalents(), ROOT)

    @pytest.mark.parametrize("path", ["conversation_state/usage.py", "no/such.py"])
    def test_unmatched(self, path):
        """
        An entry whose line or file is not there any more is found.
        """
        entry = Equivalent(
            path=path, place="new", line="if a:", change="b", reason="of no use now"
        )

        assert [entry] == find_unmatched([entry], ROOT)


class TestModules:
    def test_layers(self):
        """
        The modules are those of the layers table, the lowest first, and exist.
        """
        modules = list_modules()

        assert ["_drawing.py", "_lazy.py"] == modules[:2]
        assert "cli" == modules[-1]
        assert all((ROOT / PACKAGE / name).exists() for name in modules)

    @pytest.mark.parametrize(
        ("name", "path"),
        [
            ("usage", "usage.py"),
            ("store", "store"),
            ("conversation_state/codec/_fast.py", "codec/_fast.py"),
        ],
    )
    def test_resolve(self, name, path):
        """
        A module is named as in the table, or by its path.
        """
        assert path == resolve_module(name)

    @pytest.mark.parametrize("module", list_modules())
    def test_have_tests(self, module):
        """
        Each module has tests.
        """
        assert find_tests(module, TESTS)

    @pytest.mark.parametrize(
        "pattern",
        sorted({p for t in (TESTS, MORE_TESTS) for ps in t.values() for p in ps}),
    )
    def test_patterns(self, pattern):
        """
        Each pattern of the tables is of tests that there are.
        """
        assert list(ROOT.glob(pattern))


class TestCopy:
    def test_change(self, project, tmp_path):
        """
        A change is in the copy until the block ends, and never in the checkout.
        """
        path = "conversation_state/clamps.py"
        before = (project / path).read_bytes()
        copy = Copy(project, tmp_path / "copy")
        with copy.change(path, b"changed"):
            assert b"changed" == (copy.folder / path).read_bytes()
            assert before == (project / path).read_bytes()

        assert before == (copy.folder / path).read_bytes()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
class TestChild:
    @pytest.mark.parametrize(
        ("change", "status"),
        [
            ("value < 0 → value <= 0", "passed"),
            ("value < 0 → value >= 0", "failed"),
        ],
    )
    def test_verdict(self, project, tmp_path, change, status):
        """
        A mutant that no test notices passes; another one fails, with the test that
        failed.
        """
        path = "conversation_state/clamps.py"
        source = (project / path).read_bytes()
        mutant = next(m for m in find_mutants(path, source) if m.change == change)
        copy = Copy(project, tmp_path / "copy")
        with copy.change(path, mutant.apply(source)):
            outcome = Child(copy, Order(files=["tests/test_clamps.py"])).wait()

        assert status == outcome.status
        assert ("test_clamps" in outcome.by) == (status == "failed")

    def test_no_end(self, project, tmp_path):
        """
        A mutant that does not end is ended.
        """
        copy = Copy(project, tmp_path / "copy")
        with copy.change("conversation_state/clamps.py", b"while True: pass\n"):
            order = Order(files=["tests/test_clamps.py"], seconds=1)
            outcome = Child(copy, order).wait()

        assert "timeout" == outcome.status


class TestMeasure:
    def test_select(self):
        """
        The tests of a line come with their seconds; of what runs at import, the tests
        of its file; of a line that no test is known to run, all of them. What survives
        them meets all of them if it runs at import, and those of its file if its line
        ran while tests were collected.
        """
        facts = {
            "modules": [],
            "failed": [],
            "times": {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0},
            "lines": {
                "counter.py": {"25": ["b"], "26": ["", "c"]},
                "other.py": {"1": ["", "d"]},
            },
            "blind": ["a"],
        }
        found = {m.change: m for m in find_mutants("counter.py", SOURCE.encode())}
        measure = Measure(facts)

        assert (25, 25) == found["start += 1 removed"].span
        assert {"b": 2.0} == measure.select(found["start += 1 removed"])
        assert {"a": 1.0, "b": 2.0} == measure.select(
            found["start += 1 removed"], blind=True
        )
        assert {"b": 2.0, "c": 3.0} == measure.select(found["10 → 11"])
        assert facts["times"] == measure.select(found["10 → 11"], blind=True)
        assert {"c": 3.0} == measure.select(found["self.seen = item removed"])
        assert {"a": 1.0, "b": 2.0, "c": 3.0} == measure.select(
            found["self.seen = item removed"], blind=True
        )
        assert facts["times"] == measure.select(found["continue → break"])


class TestSummarise:
    def test_rate(self, tmp_path):
        """
        Equivalent mutants do not count; a later result replaces an earlier one, and
        lists which were killed.
        """
        mutants = find_mutants("counter.py", SOURCE.encode())
        statuses = ["killed", "killed", "killed", "same", "cost", "survived"]
        verdicts = [
            Verdict(mutant=mutant, status=status, by="")
            for mutant, status in zip(mutants, statuses, strict=False)
        ]
        row = summarise("counter.py", verdicts, len(mutants))
        for seed in (1, 2):
            write_results(tmp_path / "results.json", row, seed)

        assert (0.75, 3, 1, 6) == (
            row["rate"],
            row["killed"],
            row["survived"],
            row["mutants"],
        )
        known = read_killed(tmp_path / "results.json", "counter.py", mutants)

        assert verdicts[:3] == list(known.values())
        assert '"seed": 2' in (tmp_path / "results.json").read_text()
        assert '"seed": 1' not in (tmp_path / "results.json").read_text()

    def test_interrupted(self, tmp_path):
        """
        A run that was interrupted, even within a line, keeps what it had found.
        """
        mutants = find_mutants("counter.py", SOURCE.encode())
        verdicts = [
            Verdict(mutant=mutant, status=status, by="")
            for mutant, status in zip(mutants, ["killed", "survived"], strict=False)
        ]
        lines = [json.dumps(list_facts(each)) + "\n" for each in verdicts]
        (tmp_path / "results.jsonl").write_text("".join(lines) + '{"path": "cou')

        known = read_killed(tmp_path / "results.json", "counter.py", mutants)

        assert verdicts[:1] == list(known.values())
