"""The command `cost`: the bill of a saved state."""

import re
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from conversation_state.aggregator import Aggregator, LedgerEntry
from conversation_state.counting import cost
from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.pages import read_history
from conversation_state.pages._bills import compute_bills
from conversation_state.store import open_store
from conversation_state.usage import Usage
from tests.commands import HOSTILE, Commands
from tests.states import rebuild_state
from tests.test_pages_bills import billed_timelines

ASKED = Aggregator.new().add_user_prompt("When is the next train?")
USED = Usage(1_000, 100)
ANSWER = AssistantMessage(
    "At noon.", response=ResponseMeta(usage=USED, model="gpt-4o", id="r1")
)
BILLED = ASKED.add_response(ANSWER)
STOPPED = AssistantMessage("At", response=ResponseMeta("interrupted"))
PRICED = BILLED.add_usage(Usage(7, 3), model="gpt-4o-mini")


@pytest.fixture
def run(tmp_path):
    """The commands on a store in a folder."""
    return Commands(tmp_path)


def save(run, state):
    """Save *state* as "trip"."""
    with open_store(run.path) as store:
        store.save("trip", state)


class TestCost:
    def test_by_model(self, run):
        """
        A line for each model with its entries, tokens and cost, and the total
        that `counting.cost` returns.
        """
        save(run, PRICED)

        head, *models, total = run("cost", "trip").stdout.splitlines()

        assert ["ENTRIES", "TOKENS", "COST", "MODEL"] == head.split()
        assert [
            ["1", "1,100", str(cost(BILLED)), "gpt-4o"],
            ["1", "10", str(_cost_of(Usage(7, 3), "gpt-4o-mini")), "gpt-4o-mini"],
        ] == [each.split() for each in models]
        assert f"Total: {cost(PRICED)}" == total

    def test_lines(self, run):
        """With --lines there is one for each ledger entry, with its time, in order."""
        noon = datetime(2026, 6, 1, 12, tzinfo=UTC)
        state = (
            ASKED.add_usage(USED, model="gpt-4o", at=noon)
            .add_usage(Usage(7, 3), at=noon + timedelta(minutes=1))
            .add_usage(USED, model=HOSTILE, at=noon)
        )
        save(run, state)

        head, *lines = run("cost", "trip", "--lines").stdout.splitlines()
        (record,) = run.json("cost", "trip")

        assert ["TIME", "TOKENS", "COST", "MODEL"] == head.split()
        price = str(_cost_of(USED, "gpt-4o"))
        assert ["2026-06-01", "12:00", "1,100", price, "gpt-4o"] == lines[0].split()
        assert lines[1].startswith("2026-06-01 12:01")
        assert lines[1].endswith("10  unknown  (no model recorded)")
        assert "owned" in lines[2]
        assert noon.isoformat() == record["lines"][0]["at"]

    def test_of_an_unknown_time(self, run):
        """An entry of an unknown time is marked, and has the price of now."""
        state = rebuild_state(ASKED, ledger=[LedgerEntry("1", USED, "gpt-4o")])
        save(run, state)

        line = run("cost", "trip", "--lines").stdout.splitlines()[1]
        (record,) = run.json("cost", "trip")

        price = str(_cost_of(USED, "gpt-4o"))
        assert ["(unknown)", "1,100", price, "gpt-4o"] == line.split()
        assert record["lines"][0]["at"] is None

    def test_of_a_revision(self, run):
        """An earlier revision costs what had been recorded then."""
        with open_store(run.path) as store:
            store.save("trip", BILLED)
            store.save("trip", PRICED)

        assert "gpt-4o-mini" not in run("cost", "trip@1").stdout

    def test_of_branches(self, run):
        """
        A name costs what all its branches cost together, as on its page, and a
        revision what it costs alone.
        """
        with open_store(run.path) as store:
            store.save("trip", ASKED)
            store.save("trip", ASKED.add_response(STOPPED))
            store.rollback("trip", 1)
            store.save("trip", store.load("trip").add_response(ANSWER))

        known = str(cost(BILLED))
        shown = run("cost", "trip").stdout
        (record,) = run.json("cost", "trip")

        assert f"Total of 2 branches: at least {known}\n" in shown
        assert "Not recorded: the usage of 1 answer of a model\n" in shown
        assert f"Cost: {known} and 1 answer of unknown usage." in (
            run("page", "trip").stdout
        )
        assert f"Total: {known}\n" in run("cost", "trip@4").stdout
        assert run("cost", "trip@2").stdout.startswith("Total: unknown\n")
        assert (2, 1, False) == (
            record["branches"],
            record["unrecorded_answers"],
            record["complete"],
        )

    @given(billed_timelines())
    @settings(max_examples=20)
    def test_of_timelines(self, timeline):
        """So does a timeline, whose moments may lack messages of those before them."""
        with TemporaryDirectory() as folder:
            run = Commands(Path(folder))
            with open_store(run.path) as store:
                store.save_timeline("trip", timeline)
                total = compute_bills(read_history(store, "trip")).total

            (record,) = run.json("cost", "trip")

        assert total.complete == record["complete"]
        assert [each.entry.id for each in total.lines] == [
            each["ledger_id"] for each in record["lines"]
        ]
        assert {each.id for each in total.unbilled} == {
            each["entry_id"] for each in record["unbilled"]
        }

    def test_in_another_branch(self, run):
        """An answer of another branch has no number in the newest revision."""
        unbilled = ASKED.add(ANSWER)
        with open_store(run.path) as store:
            store.save("trip", ASKED)
            store.save("trip", unbilled)
            store.rollback("trip", 1)

        (record,) = run.json("cost", "trip")

        assert "Not in the ledger: a message of another branch, 1,100 tokens" in (
            run("cost", "trip").stdout
        )
        assert [None] == [each["number"] for each in record["unbilled"]]
        assert [] == run.json("cost", "trip@3")[0]["unbilled"]

    def test_json(self, run):
        """Programs get exact amounts as text, and the head."""
        save(run, PRICED)

        (record,) = run.json("cost", "trip")

        assert ("trip", 1, 2) == (
            record["name"],
            record["revision"],
            len(record["models"]),
        )
        assert cost(PRICED).total == Decimal(record["amount_usd"])
        assert cost(PRICED).total == sum(
            Decimal(each["amount_usd"]) for each in record["models"]
        )
        assert ["gpt-4o", "gpt-4o-mini"] == [each["model"] for each in record["lines"]]
        assert (True, [], 0) == (
            record["complete"],
            record["unbilled"],
            record["unrecorded_answers"],
        )

    def test_part_unpriced(self, run):
        """
        Where a part can't be priced the total is a lower bound, and the part is
        listed with the reason.
        """
        state = PRICED.add_usage(Usage(5), key="k").add_usage(
            Usage(2), model="no-such-model"
        )
        save(run, state)

        printed = run("cost", "trip").stdout
        (record,) = run.json("cost", "trip")

        assert f"Total: at least {cost(PRICED)}\n" in printed
        assert re.search(r"1 +5 +unknown  \(no model recorded\)", printed)
        assert re.search(r"1 +2 +unknown  no-such-model", printed)
        assert "Not priced: 1 ledger entry (5 tokens): " in printed
        assert cost(PRICED).total == Decimal(record["amount_usd"])
        assert record["complete"] is False
        assert [None, None] == [each["amount_usd"] for each in record["models"][2:]]
        line = record["lines"][2]
        assert ("k", 5, None) == (line["ledger_id"], line["tokens"], line["amount_usd"])
        assert "its model is unknown" in line["why"]

    @pytest.mark.parametrize(
        ("state", "reason"),
        [
            (ASKED.add_usage(Usage(5)), "Not priced: 1 ledger entry (5 tokens): "),
            (
                ASKED.add_usage(Usage(5), model="no-such-model"),
                "Not priced: 1 ledger entry (5 tokens): ",
            ),
            (
                ASKED.add(ANSWER),
                "Not in the ledger: message 2, 1,100 tokens of gpt-4o\n",
            ),
            (
                ASKED.add_assistant_message("At noon."),
                "Not recorded: the usage of 1 answer of a model\n",
            ),
            (
                ASKED.add_assistant_message("At noon.").add_usage(
                    Usage(), model="gpt-4o"
                ),
                "Not recorded: the usage of 1 answer of a model\n",
            ),
        ],
    )
    def test_never_nothing(self, run, state, reason):
        """A conversation whose cost is unknown is never printed as free."""
        save(run, state)

        printed = run("cost", "trip").stdout
        (record,) = run.json("cost", "trip")

        assert "Total: unknown\n" in printed
        assert reason in printed
        assert (None, False) == (record["amount_usd"], record["complete"])

    def test_unbilled(self, run):
        """
        Responses that are not in the ledger are listed by the numbers of their
        messages, and the total does not contain them.
        """
        late = AssistantMessage(
            "At ten.", response=ResponseMeta(usage=Usage(9), model=HOSTILE, id="r2")
        )
        save(run, PRICED.add(late))

        printed = run("cost", "trip").stdout
        (record,) = run.json("cost", "trip")

        assert f"Total: at least {cost(PRICED)}\n" in printed
        assert "Not in the ledger: message 3, 9 tokens of " in printed
        (unbilled,) = record["unbilled"]
        assert (3, HOSTILE, 9) == (
            unbilled["number"],
            unbilled["model"],
            unbilled["tokens"],
        )

    @pytest.mark.parametrize("before", [Aggregator.new(), PRICED])
    def test_stopped(self, run, before):
        """
        An answer that was stopped has cost something: the total is not complete, here
        and in `counting.cost` alike.
        """
        stopped = ResponseMeta("interrupted", model="gpt-4o", id="r9")
        state = before.add_user_prompt("A story!").add_response(
            AssistantMessage("A very long", response=stopped)
        )
        save(run, state)

        printed = run("cost", "trip").stdout
        (record,) = run.json("cost", "trip")

        total = f"at least {cost(PRICED)}" if before is PRICED else "unknown"
        assert f"Total: {total}\n" in printed
        assert "Not recorded: the usage of 1 answer of a model\n" in printed
        assert cost(state).complete is record["complete"] is False
        (unbilled,) = record["unbilled"]
        assert (len(state), "gpt-4o", None) == (
            unbilled["number"],
            unbilled["model"],
            unbilled["tokens"],
        )
        assert 1 == record["unrecorded_answers"]

    def test_stopped_after_a_part(self, run):
        """What an answer reports that was stopped is a lower bound, on each line."""
        stopped = ResponseMeta("interrupted", USED, model="gpt-4o", id="r9")
        state = ASKED.add_response(AssistantMessage("A very", response=stopped))
        save(run, state)

        for options in [], ["--lines"]:
            printed = run("cost", "trip", *options).stdout
            assert 2 == printed.count(f"at least {_cost_of(USED, 'gpt-4o')}")
            assert (
                "Not recorded: the rest of the usage of 1 interrupted answer\n"
                in printed
            )

        (record,) = run.json("cost", "trip")
        assert [False, False, True] == [
            record["complete"],
            record["models"][0]["complete"],
            record["lines"][0]["partial"],
        ]
        assert record["amount_usd"] == record["models"][0]["amount_usd"] is not None

    def test_undone(self, run):
        """The bill of a revision that is without the answer says the same."""
        stopped = ResponseMeta("interrupted", USED, model="gpt-4o", id="r9")
        state = ASKED.add_response(AssistantMessage("A very", response=stopped))
        save(run, ASKED)
        save(run, state)
        run("rollback", "trip", "1")

        (before,) = run.json("cost", "trip@2")
        (record,) = run.json("cost", "trip@3")
        assert before["lines"] == record["lines"]
        assert before["amount_usd"] == record["amount_usd"]
        assert record["complete"] is before["complete"] is False

    @pytest.mark.parametrize("state", [Aggregator.new(), ASKED])
    def test_nothing(self, run, state):
        """What no model has answered costs nothing."""
        save(run, state)

        assert "Total: $0.00\n" == run("cost", "trip").stdout
        assert "0" == run.json("cost", "trip")[0]["amount_usd"]

    def test_without_prices(self, run, monkeypatch):
        """Without the extra it says what to install."""
        monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
        save(run, PRICED)

        result = run("cost", "trip", status=2)

        assert "conversation-state[prices]" in result.stderr
        assert "" == result.stdout


def _cost_of(usage, model):
    return cost(Aggregator.new().add_usage(usage, model=model))
