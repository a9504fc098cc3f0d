"""The tools that plant mutants and write the page about what was run."""

import ast
from typing import Any

import pytest

from tools.mutants import (
    ROOT,
    Measured,
    choose_tests,
    find_mutants,
    find_tests,
    list_modules,
    put_in_order,
    read_durations,
    take_sample,
)
from tools.proof import PAGE, PARTS, count_tests, read_facts, render_page

SOURCE = '''"""A docstring: no test is meant to hold it."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from a import b

__all__ = ["f"]


@decorated("x", slots=True)
def f(a: int = 1, *, b: "str" = "") -> bool:
    """Another one."""
    if a < 2 and not b:
        a += 1
        raise ValueError(f"a is {a}")
    elif a > lose("not a word of it"):
        return False

    assert b, "word"
    return a is None
'''


class TestMutants:
    def test_found(self):
        """Conditions, operators, constants, statements and results are changed."""
        changes = {mutant.change for mutant in find_mutants("a.py", SOURCE)}

        assert {
            "1 → 2",
            "'' → 'X'",
            "a < 2 and not b → True",
            "a < 2 and not b → False",
            "a < 2 → True",
            "not b → True",
            "< → <=",
            "2 → 3",
            "not b → (b)",
            "a += 1 → pass",
            'raise ValueError(f"a is {a}") → pass',
            "return a is None → return None",
            "is → is not",
            "> → >=",
            'a > lose("not a word of it") → True',
            'a > lose("not a word of it") → False',
            "False → True",
        } == {change.replace('"" →', "'' →") for change in changes}

    def test_planted(self):
        """Each mutant is another program that can be compiled."""
        for path in ("usage.py", "timeline.py", "trimming/_view.py"):
            source = (ROOT / "conversation_state" / path).read_text("utf-8")
            program = ast.dump(ast.parse(source))
            for each in take_sample(find_mutants(path, source), 20, seed=0):
                changed = f"{source[: each.start]}{each.text}{source[each.end :]}"

                assert ast.dump(ast.parse(changed)) != program

    def test_sample(self):
        """A seed takes the same sample whatever else the file has."""
        mutants = find_mutants("a.py", SOURCE)
        sample = take_sample(mutants, 3, seed=7)

        assert 3 == len(sample)
        assert sample == take_sample(mutants[::-1], 3, seed=7)
        assert sample != take_sample(mutants, 3, seed=8)

    @pytest.mark.parametrize("module", list_modules())
    def test_have_tests(self, module):
        """Each module has tests."""
        assert find_tests(module)

    def test_order(self):
        """A file of the package is imported by a test before pytest imports it."""
        *tests, own = find_tests("pages")

        assert own == "conversation_state/pages/_markup.py"
        assert "tests/test_pages.py" in tests


class TestPage:
    def test_written(self):
        """The page is made of what the runs found."""
        page = PAGE.read_text("utf-8")

        assert page == render_page(page, read_facts())

    def test_parts(self):
        """Each part is a paragraph on what it ran on, and a table, a list or counts."""
        ran: dict[str, Any] = {"date": "2026-01-02", "commit": "abc1234", "exit": 0}
        ran |= {"python": "3.11.9", "system": "Linux", "versions": {"attrs": "1.0"}}
        row = {"module": "usage", "planted": 3, "killed": 2, "survivors": ["x"]}
        said = {"judge": "Suite 3", "judged": "us", "counts": {"passed": 5}}
        page = "".join(f"<!-- {name} --><!-- /{name} -->" for name in PARTS)
        text = render_page(
            page,
            {
                "tests": {**ran, "counts": {"passed": 1234}},
                "stress": {**ran, "lines": ["a 1"]},
                "judges": {**ran, "judges": [said]},
                "peers": {**ran, "kept": {"Peer 1": [2, 3]}},
                "mutants": {**ran, "rows": [row]},
            },
        )

        assert "commit `abc1234`, Python 3.11.9 on Linux, attrs 1.0." in text
        assert "1,234 passed." in text
        assert "```text\na 1\n```" in text
        assert "| Suite 3 | us | 5 |" in text
        assert "None failed or skipped." in text
        assert "Laws they keep: Peer 1 2 of 3." in text
        assert "- 2 of 3: `usage`" in text
        assert "<!-- fuzz -->\n\nThis part has not been run." in text

    def test_marks(self):
        """A page without a mark is an error that names it."""
        with pytest.raises(ValueError, match="no part between <!-- tests -->"):
            render_page("", {})

    def test_counts(self):
        """What pytest counts in its closing line."""
        from tools.proof import Done  # noqa: PLC0415 - beside its only use

        line = "=== 2 failed, 30 passed, 4 skipped in 5.00s ==="

        assert {
            "counts": {"failed": 2, "passed": 30, "skipped": 4},
            "exit": 1,
        } == count_tests(Done([line], 1))


SECONDS = {"t.py::A::b[c|d]": 3.5, "t.py::e": 0.02, "u.py::f": 0.4, "u.py::g": 0.0}


class TestChosenTests:
    """The tests that meet a mutant."""

    def test_of_a_line(self):
        """
        Of a line in a fixture all tests of its file meet the mutant; all there are of a
        line that runs at import, which may be while one of them runs.
        """
        source = "def f():\n    a = 1\n    b = 2\n    c = 3\n    d = 4\n\n\ne = 5\n"
        run = ["t.py::A::b[c|d]|run"]
        lines = {"a.py": {2: run, 3: ["t.py::A::b[c|d]|setup"], 4: [""], 8: run}}
        measured = Measured(lines, SECONDS)

        chosen = [choose_tests(each, measured) for each in find_mutants("a.py", source)]

        everything = ["t.py::e", "u.py::g", "u.py::f", "t.py::A::b[c|d]"]
        assert ["t.py::A::b[c|d]"] == chosen[0]
        assert ["t.py::e", "t.py::A::b[c|d]"] == chosen[1]
        assert [everything] * 3 == chosen[2:]

    def test_order(self):
        """Quick tests run before slow ones, and all of them before docstrings."""
        seconds = {**SECONDS, "conversation_state/a.py::conversation_state.a": 0.0}

        *tests, last = put_in_order(seconds, seconds)

        assert ["t.py::e", "u.py::g", "u.py::f", "t.py::A::b[c|d]"] == tests
        assert "conversation_state/a.py::conversation_state.a" == last


def test_durations():
    """A test takes as long as its call and its fixtures together."""
    lines = "0.25s setup    a.py::b[c d]\n1.50s call     a.py::b[c d]\n\n(2 hidden.)"

    assert {"a.py::b[c d]": 1.75} == read_durations(lines)
