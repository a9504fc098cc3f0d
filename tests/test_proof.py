"""The page about what was run: what is counted, and how it is shown."""

import json

import pytest

from tools.mutant_targets import ROOT
from tools.proof import FACTS, PAGE, PARTS, QUICK, read_mutants, read_table
from tools.proof_counts import count_calls, count_examples, laws
from tools.proof_page import describe_mutants, render_page

RUN = {
    "date": "2026-01-02",
    "commit": "abc1234",
    "size": "quick",
    "seed": 7,
    "python": "3.11.9",
    "system": "Linux",
    "versions": {"pytest": "9.0.0"},
}
TESTS = {
    **RUN,
    "tests": {"passed": 1_234, "skipped": 5, "file tests/test_laws.py": 17},
    "examples": {"tests/test_laws.py": 400, "tests/test_log.py": 56},
    "laws": {"join_is_associative": 321, "encoding_is_undone": 45},
    "done": {"interrupts": 987, "hostile": 65},
}
ROW = {
    "module": "timeline",
    "possible": 779,
    "mutants": 40,
    "killed": 38,
    "same": 1,
    "cost": 0,
    "survived": 1,
    "rate": 0.9744,
    "seed": 3,
    "date": "2026-01-03",
    "python": "3.11.9",
    "verdicts": [
        {
            "path": "conversation_state/timeline/_steps.py",
            "place": "check",
            "line": "if a | b:",
            "change": "a | b → a & b",
            "status": status,
            "by": "",
        }
        for status in ("killed", "survived")
    ],
}


@pytest.fixture
def mutants(tmp_path):
    """What is kept of a file of results."""
    (tmp_path / "results.json").write_text(json.dumps({"timeline": ROW}))
    return {**RUN, **read_mutants(tmp_path / "results.json")}


def render(**facts):
    """The page of these facts."""
    return render_page(PAGE.read_text(encoding="utf-8"), facts)


class TestPage:
    def test_checked_in(self):
        """The page is rendered from its facts; no number is written into it by hand."""
        facts = json.loads(FACTS.read_text(encoding="utf-8"))

        assert PAGE.read_text(encoding="utf-8") == render(**facts)

    def test_nothing_was_run(self):
        """A part that was not run is marked as such, and has no numbers."""
        page = render()
        parts = {name: page.partition(f"<!-- {name} -->\n\n")[2] for name in PARTS}

        assert {"This part has not been run."} == {
            text.partition("\n")[0] for text in parts.values()
        }

    @pytest.mark.parametrize(
        "text",
        [
            "2026-01-02, commit `abc1234`, size *quick*, seed 7; Python 3.11.9",
            "pytest 9.0.0",
            "quick run: 1 test file",
            "| tests that passed | 1,234 |",
            "| tests that failed | 0 |",
            "| examples that Hypothesis made | 456 |",
            "2 laws held 366 times",
            "| `join_is_associative` | 321 |",
            "| interrupts before an instruction | 987 |",
            "| hostile templates | 65 |",
        ],
    )
    def test_tests(self, text):
        """
        Tests, examples, laws, interrupts and faults are shown with the run they are of.
        """
        assert text in render(tests=TESTS)

    def test_fuzz(self):
        """New examples are shown with the files that made them."""
        text = "In `tests/test_laws.py`: 1,234 tests with 456 new examples passed"

        assert text in render(fuzz=TESTS)

    @pytest.mark.parametrize(
        ("changed", "kept", "result"),
        [("", True, "kept"), ("", False, "broken"), ("why", True, "changed")],
    )
    def test_peers(self, changed, kept, result):
        """
        A law is kept or broken by a library of one version, or shows something else.
        """
        row = {"peer": "X", "version": "1", "law": "a", "kept": kept, "sentence": "b"}
        rows = [{**row, "changed": changed}]
        page = render(peers={**RUN, "rows": rows, "left_out": ["y (not installed)"]})

        assert f"| X 1 | a | {result} | b |" in page
        assert "left out: y (not installed)." in page

    def test_mutants(self, mutants):
        """
        Mutants are counted by module; those that survived are named, the others not.
        """
        page = "\n".join(describe_mutants(mutants))

        assert "| `timeline` | 779 | 40 | 38 | 1 | 0 | 1 | 97.4% | 3 |" in page
        assert "No mutants were planted in `_drawing`, `_lazy`, " in page
        assert "collected" not in page
        assert 1 == page.count("`if a | b:`; `a | b → a & b`")

    def test_known_rows(self, mutants, tmp_path):
        """Results of one module replace its row, and those of others stay."""
        path = tmp_path / "results.json"
        path.write_text(json.dumps({"usage": {**ROW, "module": "usage"}}))

        both = read_mutants(path, mutants["rows"])
        again = read_mutants(path, [{**both["rows"][0], "killed": 0}])

        assert ["usage", "timeline"] == [row["module"] for row in both["rows"]]
        assert not {"usage", "timeline"} & {*both["not_run"]}
        assert ROW["killed"] == again["rows"][0]["killed"]

    def test_stress(self):
        """The table of the stress program has its columns, whatever they are."""
        rows = [{"store": "sqlite", "what": "killed", "saves": 4_321, "lost": 0}]
        page = render(stress={**RUN, "rows": rows})

        assert "| store | what | saves | lost |\n| --- | --- | --: | --: |" in page
        assert "| sqlite | killed | 4,321 | 0 |" in page


class TestReadTable:
    def test_rows(self):
        """
        Titles of several words, numbers with separators, and notes are distinguished.
        """
        text = (
            "what                   processes      saves   lost\n"
            "sqlite: one name              16     12,345      0  3 saves a second\n"
            "postgresql: races for a head   2          7      1  \n"
            "1 things went wrong.\n"
        )

        assert [
            {
                "store": "sqlite",
                "what": "one name",
                "processes": 16,
                "saves": 12_345,
                "lost": 0,
            },
            {
                "store": "postgresql",
                "what": "races for a head",
                "processes": 2,
                "saves": 7,
                "lost": 1,
            },
        ] == read_table(text)


class TestCounts:
    def test_examples(self):
        """The examples of all phases of a test are added; those that failed are not."""
        text = (
            "  - during reuse phase (0.00 seconds):\n    - 3 passing, 0 failing\n"
            "  - during generate phase (0.02 seconds):\n    - 50 passing, 2 failing\n"
        )

        assert 53 == count_examples(text)

    def test_laws(self):
        """A law counts when it held."""

        def law(value):
            assert value

        counted = count_calls("law of a test", law)
        before = laws["law of a test"]
        counted(1)
        with pytest.raises(AssertionError):
            counted(0)

        assert before + 1 == laws.pop("law of a test")


class TestSizes:
    @pytest.mark.parametrize("path", QUICK.tests)
    def test_quick(self, path):
        """What a quick run runs is there."""
        assert (ROOT / path).exists()
