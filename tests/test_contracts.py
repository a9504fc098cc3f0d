"""
Contracts: an honest example of each kind keeps its laws, and each fault breaks the law
that forbids it, with an example that can be pasted.
"""

import asyncio
import copyreg
import functools
import gc
import itertools
import pickle
import random
import re
import sys
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import attrs
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from conversation_state import (
    Aggregator,
    AssistantMessage,
    ResponseMeta,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    testing,
)
from conversation_state.adapters import Export, Lost, anthropic, openai_chat
from conversation_state.aggregator import Entry, LedgerEntry
from conversation_state.codec import from_data, to_data
from conversation_state.counting import (
    TokenBudget,
    by_characters,
    by_encoding,
    calibrated,
)
from conversation_state.errors import (
    BudgetExceededError,
    DecodeError,
    MissingExtraError,
    Problem,
)
from conversation_state.parts import ImagePart, TextPart
from conversation_state.testing import (
    BrokenLawsError,
    check_adapter,
    check_counter,
    check_reducer,
    check_summariser,
    check_trimming_step,
)
from conversation_state.testing._code import USUAL_TIME
from conversation_state.testing.contracts import (
    AdapterContract,
    Contract,
    CounterContract,
    ReducerContract,
    SummariserContract,
    TrimmingStepContract,
    format_code,
    format_example,
)
from conversation_state.testing.strategies import (
    aggregators,
    entries,
    heads,
    ledger_entries,
    messages,
    states,
    templates,
)
from conversation_state.trimming import (
    TrimContext,
    clear_tool_results,
    fit,
    keep_last,
    repair,
    shorten_tool_results,
)
from tests.commands import ROOT
from tests.states import rebuild_state

# What is found at once need not be shrunk to be known.
FEW = settings(max_examples=4, database=None, derandomize=True, deadline=None)
UNSHRUNK = settings(FEW, phases=[Phase.generate])


def find_broken(check, subject, laws, **options):
    """
    The laws that *subject* breaks, as *check* reports them; a longer search if *laws*
    are not among them.
    """
    found = set[str]()
    for number in (4, 200):
        try:
            check(subject, settings=settings(UNSHRUNK, max_examples=number), **options)
        except BrokenLawsError as error:
            found = {each.law for each in error.broken}

        if laws <= found:
            break

    return found


def breaks(check, subject, laws, contract, **options):
    """Whether *subject* breaks *laws*, alone of those of *contract*."""
    others = {name for name, law in contract.laws.items() if not law.is_extra} - laws
    return laws == find_broken(check, subject, laws, without=others, **options)


def change_leaves(value, change):
    """
    JSON values as plain ones, each that is not an object or list changed by a function.
    """
    if isinstance(value, Mapping):
        return {key: change_leaves(each, change) for key, each in value.items()}

    if isinstance(value, (list, tuple)):
        return [change_leaves(each, change) for each in value]

    return change(value)


def bools_to_integers(value):
    return int(value) if isinstance(value, bool) else value


# Reducers


def remind(state):
    """An honest reducer: reminds the model of the language, once in a row."""
    if len(state) and state[-1].text == "Answer in English.":
        return state

    return state.add_user_prompt("Answer in English.").add_usage(Usage(1))


def nag(state):
    return state.add_user_prompt("Answer in English.")


def rename_models(state):
    result = Aggregator.new(messages=state)
    for entry in state.ledger:
        result = result.add_usage(entry.usage, key=entry.id, model="?", at=entry.at)

    return result


def without_empty(state):
    return Aggregator.new(messages=[each for each in state if each.text])


def appended_again(state):
    result = Aggregator.new(messages=state)
    for entry in state.ledger:
        result = result.add_usage(
            entry.usage, key=entry.id, model=entry.model, at=entry.at
        )

    return result.join(state.before(state.entries[0].id) if len(state) else state)


def answered(state):
    usage = ResponseMeta("stop", Usage(3, 1))
    return state.add(AssistantMessage("Yes.", response=usage))


_calls = itertools.count()
_known = dict[int, Any]()


def sampled(state):
    return state.add_user_prompt("Really?") if random.random() < 0.1 else state


def remembered(state):
    """Does its work for states that it has not seen, by their address."""
    _known.setdefault(id(state), state)
    return state.add_user_prompt(str(list(_known).index(id(state))))


def with_messages(change):
    """A reducer that changes each message in its place."""

    def replace_messages(state):
        entries = [
            entry._replace(message=change(entry.message)) for entry in state.entries
        ]
        return rebuild_state(state, entries=entries)

    return replace_messages


def times_in_utc(state):
    ledger = [
        entry._replace(at=entry.at.astimezone(UTC))
        if entry.at and 1 < entry.at.year < 9999
        else entry
        for entry in state.ledger
    ]
    return rebuild_state(state, ledger=ledger)


def recorded_again(state):
    """Records the responses it has, as after each resume, under keys of its own."""
    for number, message in enumerate(state):
        response = getattr(message, "response", None)
        if response and response.usage:
            state = state.add_usage(response.usage, key=f"reply {number}")

    return state


class Lengthening:
    """Keeps the largest length that it has seen."""

    def __init__(self):
        self.length = 0

    def __call__(self, state):
        self.length = max(self.length, len(state))
        return state.add_user_prompt(f"Of {self.length}")


REDUCERS = {
    "turns True into 1": (
        with_messages(
            lambda message: message.replace(
                metadata=change_leaves(message.metadata, bools_to_integers)
            )
        ),
        {"keeps messages", "keeps identities"},
    ),
    "puts the ledger in UTC": (times_in_utc, {"keeps the bill"}),
    "records responses again": (recorded_again, {"counts responses once"}),
    "keeps the largest length": (Lengthening(), {"is pure"}),
    "returns nothing": (lambda _state: None, {"takes every state"}),
    "fails for an empty state": (
        lambda state: state.add(state[-1]),
        {"takes every state"},
    ),
    "removes the newest": (
        lambda state: state.rollback(max(len(state) - 1, 0)),
        {"keeps messages"},
    ),
    "makes a new state of messages": (
        without_empty,
        {"keeps messages", "keeps identities", "keeps the bill", "stays related"},
    ),
    "appends messages again": (appended_again, {"keeps identities", "stays related"}),
    "adds a response, not its usage": (answered, {"records new responses"}),
    "knows states by address": (remembered, {"same on copies"}),
    "ends the program": (lambda _state: sys.exit(0), {"takes every state"}),
    "reminds now and then": (sampled, {"is pure"}),
}


def is_failed(message):
    return getattr(message, "is_error", False)


def keep_entries(state, keeps):
    """The same state with those entries whose messages *keeps* keeps."""
    return Aggregator.rebuild(
        id=state.id,
        parent_id=state.parent_id,
        root_id=state.root_id,
        init_len=0,
        init_ledger_len=0,
        entries=[each for each in state.entries if keeps(each.message)],
        ledger=list(state.ledger),
    )


class TestExtra:
    """What is imported when it is first used."""

    @pytest.mark.parametrize("missing", ["hypothesis", "pytest", "hypothesis.extra"])
    def test_missing(self, monkeypatch, missing):
        """Where a package of the extra is missing, the extra is named."""
        error = ModuleNotFoundError(name=missing)
        monkeypatch.setattr(testing, "_get_attribute", raising(error))

        with pytest.raises(MissingExtraError, match=r"conversation-state\[testing\]"):
            testing.__getattr__("SHAPES")

    @pytest.mark.parametrize("missing", ["numpy", "extra.pytest", None])
    def test_another(self, monkeypatch, missing):
        """Another error says what it said."""
        error = ModuleNotFoundError(name=missing)
        monkeypatch.setattr(testing, "_get_attribute", raising(error))

        with pytest.raises(ModuleNotFoundError) as caught:
            testing.__getattr__("SHAPES")

        assert caught.value is error


def raising(error):
    """A function that raises *error*."""

    def fail(*_: object) -> None:
        raise error

    return fail


class TestCheckReducer:
    def test_honest(self):
        """An honest reducer breaks no law, on request also that of idempotence."""
        check_reducer(remind, settings=FEW, also=["is idempotent"])

    def test_records_and_removes(self):
        """A reducer may record the responses it has, and remove their messages."""

        def remove_newest(state):
            state = state.record_responses()
            return state.rollback(max(len(state) - 1, 0))

        check_reducer(remove_newest, settings=FEW, without=["keeps messages"])

    def test_async(self):
        """A reducer may be async; its laws are the same."""

        async def remind_later(state):
            return remind(state)

        async def forget_later(state):
            return state.rollback(0)

        check_reducer(remind_later, settings=FEW)
        assert breaks(check_reducer, forget_later, {"keeps messages"}, ReducerContract)

    def test_removes(self):
        """
        Entries that may be removed may be missing, with their partners; no others may.
        """

        def drop_failed(state):
            failed = {each.tool_call_id for each in state if is_failed(each)}
            for _ in state:  # the other calls of a message, and of their ids
                for each in state:
                    ids = {call.id for call in each.tool_calls}
                    failed |= ids if ids & failed else set()

            return keep_entries(
                state,
                lambda each: (
                    getattr(each, "tool_call_id", None) not in failed
                    and not any(call.id in failed for call in each.tool_calls)
                ),
            )

        def removes(entry):
            return is_failed(entry.message)

        check_reducer(drop_failed, settings=FEW, removes=removes)
        assert breaks(check_reducer, drop_failed, {"keeps messages"}, ReducerContract)

    def test_not_idempotent(self):
        """A further law is checked on request only."""

        def insist(state):
            return state.add_user_prompt("Really.")

        check_reducer(insist, settings=FEW)

        laws = {"is idempotent"}
        assert breaks(check_reducer, insist, laws, ReducerContract, also=[*laws])

    def test_declared(self):
        """A law that is declared not to hold is not checked, and the others are."""
        removes = REDUCERS["removes the newest"][0]
        check_reducer(removes, settings=FEW, without=["keeps messages"])

        laws = {"keeps identities", "keeps the bill", "stays related"}
        laws |= {"keeps pairs", "adds no problems"}
        assert laws == find_broken(
            check_reducer, without_empty, laws, without=["keeps messages"]
        )

    def test_which_of_two(self):
        """A reducer that removes now one and now another of two equal messages."""
        places = itertools.cycle([0, 1])

        def remove_one(state):
            return state.without({state.entries[next(places)].id})

        twice = Aggregator.new(messages=[UserMessage("a")] * 2)
        laws = {"is pure"}
        assert breaks(
            *(check_reducer, remove_one, laws, ReducerContract), states=st.just(twice)
        )

    def test_states(self):
        """A reducer of some states is held against those."""
        fails = REDUCERS["fails for an empty state"][0]

        check_reducer(fails, settings=FEW, states=st.just(remind(Aggregator.new())))

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"without": ["keeps all"]}, ValueError, "unknown law 'keeps all'"),
            ({"also": ["keeps messages"]}, ValueError, "valid ones are 'is idem"),
            ({"without": "keeps messages"}, TypeError, "expected a collection"),
        ],
    )
    def test_unknown_laws(self, options, error, message):
        """Unknown names of laws are refused."""
        with pytest.raises(error, match=message):
            check_reducer(remind, **options)

    def test_smallest_example(self):
        """
        The error has the smallest state of each broken law as code, which breaks it
        when it is run; and the first of them is its cause.
        """
        with pytest.raises(BrokenLawsError) as caught:
            check_reducer(without_empty, settings=FEW)

        error = caught.value
        found = {each.law: each.code for each in error.broken}
        expected = (
            "from conversation_state.aggregator import Aggregator\n"
            "\n"
            "state = Aggregator.new().add_assistant_message('')"
        )

        assert expected == found["keeps messages"]
        assert error.broken[0].error is error.__cause__
        assert "state = Aggregator.new().add_usage(Usage" in found["keeps the bill"]
        for law, code in found.items():
            names = dict[str, Any]()
            exec(code, names)
            contract = ReducerContract()
            contract.reducer = without_empty
            with pytest.raises(AssertionError):
                contract.laws[law].check(contract, state=names["state"])

    @pytest.mark.parametrize(
        ("reducer", "law", "start"),
        [
            (nag, "is idempotent", "once Aggregator.new()"),
            (rename_models, "keeps the bill", "changed in the ledger: LedgerEntry("),
        ],
    )
    def test_what_differs(self, reducer, law, start):
        """What differs in several fields, or is a record, is shown whole."""
        with pytest.raises(BrokenLawsError) as caught:
            check_reducer(reducer, also=["is idempotent"], settings=UNSHRUNK)

        found = {each.law: str(each.error) for each in caught.value.broken}
        assert found[law].startswith(start)

    def test_error(self):
        """
        An error is shown with its notes, and the line of the function that raised it.
        """

        def fails(state):
            error = ValueError("no more")
            error.add_note("than that")
            raise error

        with pytest.raises(BrokenLawsError) as caught:
            check_reducer(fails, settings=FEW)

        message = str(caught.value)

        assert message.startswith("TestCheckReducer.test_error.<locals>.fails br")
        assert "  ValueError: no more\n  than that\n  at test_contr" in message
        assert ", in fails\n  with\n" in message

    def test_interrupt(self):
        """An interrupt, of a function that does not return, has the example."""

        def hangs(state):
            if len(state):
                raise KeyboardInterrupt

            return state

        with pytest.raises(KeyboardInterrupt) as caught:
            check_reducer(hangs, settings=FEW)

        notes = "\n".join(caught.value.__notes__)

        assert notes.startswith("While checking: takes every state\nWith:\n\nfrom conv")
        assert "Aggregator.new()" in notes


def drop_empty(state: Aggregator) -> Aggregator:
    return Aggregator.new(messages=[each for each in state if each.text])


def test_report_in_the_documentation():
    """
    The report that the page on testing begins to show has the laws that are broken, in
    the same words; examples may differ.
    """
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```text\n(drop_empty .*?)```", page, re.DOTALL)
    with pytest.raises(BrokenLawsError) as caught:
        check_reducer(
            drop_empty, settings=FEW, removes=lambda entry: not entry.message.text
        )

    report, page_report = (
        [line for line in text.splitlines() if line and not line.startswith(" ")]
        for text in (str(caught.value), shown.rstrip("…\n"))
    )

    assert report[: len(page_report)] == page_report


class TestRemind(ReducerContract):
    """The same laws as tests of pytest."""

    also = ("is idempotent",)

    def reducer(self, state):
        return remind(state)


QUESTION = UserMessage("Where to?")


class TestContract:
    @pytest.mark.parametrize(
        ("check", "subject", "contract", "options"),
        [
            (
                check_counter,
                by_characters,
                CounterContract,
                {"messages": st.just(QUESTION)},
            ),
            (
                check_trimming_step,
                keep_last(1),
                TrimmingStepContract,
                {"views": st.just(TrimContext.of([QUESTION]))},
            ),
        ],
        ids=["counter", "step"],
    )
    def test_pickled(self, monkeypatch, check, subject, contract, options):
        """Copies that were pickled are compared, too: here, they lose their text."""
        dispatch: Any = copyreg.dispatch_table
        monkeypatch.setitem(dispatch, UserMessage, lambda _: (UserMessage, ("",)))

        assert breaks(check, subject, {"same on copies"}, contract, **options)

    def test_class_finds_faults(self):
        """A class's test fails with the example as code."""

        class Faulty(ReducerContract):
            reducer = staticmethod(without_empty)

        with pytest.raises(AssertionError) as caught:
            vars(Faulty)["test_keeps_messages"](Faulty())

        notes = "".join(caught.value.__notes__)
        assert "state = Aggregator.new()" in notes

    def test_class_traceback(self):
        """Of the code of contracts, pytest shows the law of a class's test alone."""

        class Insisting(ReducerContract):
            also = ("is idempotent",)

            def reducer(self, state):
                return state.add_user_prompt("Really.")

        with pytest.raises(AssertionError) as caught:
            vars(Insisting)["test_is_idempotent"](Insisting())

        shown = [
            line.name
            for line in caught.traceback.filter(caught)
            if "conversation_state" in line.frame.f_globals["__name__"]
        ]

        assert ["test_is_idempotent"] == shown

    def test_class_declares(self):
        """The test of a law that is declared not to hold is skipped."""

        class Declared(ReducerContract):
            without = ("keeps messages",)
            reducer = staticmethod(without_empty)

        with pytest.raises(Exception, match="declared not to hold"):
            vars(Declared)["test_keeps_messages"](Declared())


# Token counters


@attrs.frozen
class Scaled:
    """An honest counter that is an object."""

    factor: int = 2

    def __call__(self, message):
        return self.factor * by_characters(message)


class Unequal(Scaled):
    """Is equal to nothing, so that nothing is counted once."""

    __hash__ = Scaled.__hash__

    def __eq__(self, other) -> bool:
        return False


def first_text(message):
    texts = [part.text for part in message.parts if part.kind == "text"]
    calls = "".join(call.arguments for call in message.tool_calls)
    return len("".join(texts[:1])) + len(calls)


@functools.cache
def number_of(address):
    return next(_calls)


def first_call(message):
    if not message.tool_calls:
        return by_characters(message)

    return by_characters(message.replace(tool_calls=message.tool_calls[:1]))


class Warming(Scaled):
    """Counts one more for each message once it has seen a long one."""

    seen = False

    def __call__(self, message):
        Warming.seen = Warming.seen or len(message.text) > 20
        return super().__call__(message) + self.seen


COUNTERS = {
    "counts the first call": (first_call, {"counts what is sent"}),
    "remembers long messages": (Warming(), {"is deterministic"}),
    "refuses special tokens": (
        lambda message: by_characters(message) + message.text.index("<|end"),
        {"counts every message"},
    ),
    "knows messages by address": (
        lambda message: by_characters(message) + number_of(id(message)),
        {"same on copies"},
    ),
    "counts the first text": (first_text, {"is additive"}),
    "ignores parts": (
        lambda message: (
            len(getattr(message, "content", ""))
            + len("".join(call.arguments for call in message.tool_calls))
        ),
        {"counts what is sent"},
    ),
    "is never equal": (Unequal(), {"is equal to itself"}),
}


class TestCheckCounter:
    @pytest.mark.parametrize(
        "counter",
        [
            by_characters,
            by_encoding(str.split),
            calibrated(by_characters, [([UserMessage("a" * 40)], 13)]),
            Scaled(),
        ],
        ids=["characters", "encoding", "calibrated", "a method"],
    )
    def test_honest(self, counter):
        """Counters of this library, and an honest one, break no law."""
        check_counter(counter, settings=FEW)

    def test_declared(self):
        """A counter of messages is declared not to count what is sent."""
        check_counter(lambda _message: 1, settings=FEW, without=["counts what is sent"])


# Trimming steps


def shown(view):
    return [each.seq for each in view.elements]


def lengthen(view):
    for each in view.elements:
        if isinstance(each.message, UserMessage):
            return view.replace(each.seq, UserMessage("Where to? " * 9))

    return view


def drop_results(view):
    return view.remove([each.seq for each in view.elements[:-1] if each.role == "tool"])


def drop_at_random(view):
    droppable = shown(view)[:-1] if not next(_calls) % 2 else []
    users = [each.seq for each in view.elements if each.role == "user"]
    return view.remove([seq for seq in droppable if seq in users])


def number_seen(view):
    """
    Shows the first user's message as its number among all that it has seen, by their
    address.
    """
    users = [each for each in view.elements if each.role == "user"]
    for each in users[:1]:
        _known.setdefault(id(each.message), each.message)
        number = list(_known).index(id(each.message))
        return view.replace(each.seq, UserMessage(str(number)))

    return view


async def repair_async(view):
    await asyncio.sleep(0)
    return repair()(view)


def without_text(view, elements):
    for each in elements:
        if each.role in {"system", "user", "assistant"}:
            view = view.replace(each.seq, each.message.replace(content=""))

    return view


STEPS = {
    "empties the newest": (
        lambda view: without_text(view, view.elements[-1:]),
        {"keeps the newest"},
    ),
    "fails for an empty view": (
        lambda view: view.remove(view.elements[0].seq) and view,
        {"takes every view"},
    ),
    "views other messages": (
        lambda view: TrimContext.of(list(view.messages), view.budget),
        {"shows the same conversation"},
    ),
    "shows what was dropped": (lambda view: view.original, {"brings nothing back"}),
    "drops results": (drop_results, {"keeps views valid"}),
    "drops system messages": (
        lambda view: view.remove(
            [each.seq for each in view.elements[:-1] if each.role == "system"]
        ),
        {"keeps system messages"},
    ),
    "lengthens": (lengthen, {"does not grow"}),
    "drops each other time": (drop_at_random, {"is pure"}),
    "knows messages by address": (number_seen, {"same on copies"}),
}


class TestCheckTrimmingStep:
    @pytest.mark.parametrize(
        ("step", "options"),
        [
            (fit(), {"also": ["fits the budget", "is idempotent"]}),
            (repair(), {"also": ["is idempotent"]}),
            (repair_async, {"also": ["is idempotent"]}),
            (keep_last(2), {"also": ["is idempotent"]}),
            (shorten_tool_results(20), {}),
            (clear_tool_results(keep=1), {"also": ["is idempotent"]}),
        ],
        ids=["fit", "repair", "async", "keep_last", "shorten", "clear"],
    )
    def test_honest(self, step, options):
        """The steps of this library break no law that is not declared."""
        check_trimming_step(step, settings=FEW, **options)

    def test_repaired(self):
        """A step may add to an invalid view what mends it, and nothing else."""
        messages = [AssistantMessage(tool_calls=[ToolCall("c", "f")]), UserMessage("a")]
        view = TrimContext.of(messages)
        views, laws = st.just(view), {"does not grow"}

        assert view.total_tokens < repair()(view).total_tokens
        check_trimming_step(repair(), settings=FEW, views=views)
        broken = AssistantMessage(tool_calls=[ToolCall("c", "f", "{")])
        result = ToolMessage("b", tool_call_id="c")
        left = TrimContext.of([UserMessage("a"), broken, result]).remove([0])
        assert left.problems()
        assert fit()(left).problems()
        check_trimming_step(fit(), settings=FEW, views=st.just(left))
        assert laws == find_broken(check_trimming_step, lengthen, laws, views=views)

    def test_extra_laws(self):
        """A step that removes one message at a time neither fits nor is idempotent."""

        def remove_one(view):
            return view.remove(
                [each.seq for each in view.elements[:-1] if each.role == "user"][:1]
            )

        check_trimming_step(remove_one, settings=FEW)

        laws = {"fits the budget", "is idempotent"}
        budget = TokenBudget(context_window=1)
        views = st.just(TrimContext.of([UserMessage("Where to?")] * 4, budget))

        assert laws == find_broken(
            check_trimming_step, remove_one, laws, also=[*laws], views=views
        )

    def test_refusals(self):
        """A step may refuse views with the errors of steps, and with no other."""

        def refuse(view):
            raise BudgetExceededError(2, 1)

        check_trimming_step(refuse, settings=FEW)


# Summarisers


def summarise(messages):
    """An honest summariser."""
    roles = [each.role for each in messages]
    return f"{len(messages)} messages, {roles.count('user')} of users"


async def asummarise(messages):
    await asyncio.sleep(0)
    return summarise(messages)


def report(text, id):
    return AssistantMessage(text, response=ResponseMeta("stop", Usage(5, 1), id=id))


class Longest:
    """Summarises by the largest number of messages that it has seen."""

    def __init__(self):
        self.number = 0

    def __call__(self, messages):
        self.number = max(self.number, len(messages))
        return f"Up to {self.number} messages"


SUMMARISERS = {
    "keeps the largest number": (Longest(), {"is deterministic"}),
    "fails for parts": (
        lambda messages: (
            "\n".join(each.content.upper() for each in messages[:1])
            + str([each.response.id for each in messages if each.role == "assistant"])
        ),
        {"takes every conversation"},
    ),
    "may be blank": (
        lambda messages: "".join(each.text for each in messages[-1:]),
        {"stands for messages"},
    ),
    "knows messages by address": (
        lambda messages: f"From {number_of(id(messages[0]))}",
        {"same on copies"},
    ),
    "has a letter for each message": (
        lambda messages: "".join([each.role[0] for each in messages]),
        {"is within its limit"},
    ),
    "has one response id": (
        lambda messages: report(summarise(messages), "response"),
        {"gives responses ids"},
    ),
    "fails for a summary": (
        lambda messages: {"All of it.": None}.get(messages[0].text, "All of it."),
        {"summarises summaries"},
    ),
}


class TestCheckSummariser:
    @pytest.mark.parametrize(
        "subject",
        [
            summarise,
            asummarise,
            lambda messages: report(summarise(messages), str(hash(messages))),
            lambda messages: UserMessage(
                summarise(messages), timestamp=datetime.now(UTC)
            ),
        ],
        ids=["plain", "async", "usage", "time"],
    )
    def test_honest(self, subject):
        """
        An honest summariser breaks no law: one that is async, and one that reports
        its usage, or the time, too.
        """
        check_summariser(subject, max_tokens=30, settings=FEW)

    def test_in_a_loop(self):
        """An async summariser is checked from a running loop, too."""

        async def check():
            check_summariser(asummarise, settings=FEW)
            blank = SUMMARISERS["may be blank"]
            return breaks(check_summariser, *blank, SummariserContract)

        assert asyncio.run(check())


# Adapters


class Exported(NamedTuple):
    payload: Any
    lost: tuple[Lost, ...] = ()


def refused(what):
    return DecodeError((Problem("$", what),))


CLASSES = {"system": SystemMessage, "user": UserMessage}


class Lines:
    """An honest adapter: a list of pairs of role and text. All else is lost."""

    def dump(self, messages):
        rows, lost = [], []
        for number, each in enumerate(messages):
            path = f"messages[{number}]"
            kept = CLASSES.get(each.role)
            if kept is None or type(each) is not kept:
                lost.append(Lost(path, each.role, "only users and systems"))
            else:
                if each.name or any(part.kind != "text" for part in each.parts):
                    lost.append(Lost(path, "content", "only texts"))
                if len(each.parts) > 1:
                    lost.append(Lost(path, "parts", "only one text"))
                rows.append([each.role, each.text])

        return Exported(rows, tuple(lost))

    def load(self, payload) -> Any:
        if not isinstance(payload, list):
            raise refused("expected a list")
        return tuple([self.load_row(row) for row in payload])

    def load_row(self, row):
        match row:
            case [("system" | "user") as role, str(text)]:
                try:
                    return CLASSES[role](text)
                except ValueError as error:
                    raise refused(str(error)) from None
            case _:
                raise refused("expected a role and a text")


def with_export(change):
    """An adapter whose exports are changed by a function."""

    class Changed(Lines):
        def dump(self, messages):
            return change(Lines.dump(self, messages))

    return Changed()


class Reversed(Lines):
    def load(self, payload):
        return super().load(payload)[::-1]


class Consuming(Lines):
    """Takes what it loads from the payload."""

    def load(self, payload):
        loaded = super().load(payload)
        for row in payload:
            row.clear()

        return loaded


class Careless(Lines):
    """Reads a payload without looking."""

    def load(self, payload):
        return tuple([CLASSES[role](text) for role, text in payload])


class Listing(Lines):
    def load(self, payload):
        return list(super().load(payload))


class Data:
    """An honest adapter: the data of the codec, which has a place for everything."""

    def dump(self, messages):
        return Exported({"messages": [*map(self.write, messages)]})

    def load(self, payload) -> Any:
        if not isinstance(payload, dict) or not isinstance(
            payload.get("messages"), list
        ):
            raise refused("expected messages")

        return tuple(map(self.read, payload["messages"]))

    def write(self, message):
        return to_data(message)["message"]

    def read(self, row):
        head = {"format": "conversation_state", "version": 1, "kind": "message"}
        return from_data({**head, "message": row})


def writing(change, *keys):
    """An adapter that changes what is under *keys* in the data of each message."""

    def change_keys(value, key=None):
        if key in keys:
            return change(value)

        if isinstance(value, dict):
            return {key: change_keys(each, key) for key, each in value.items()}

        is_list = isinstance(value, list)
        return [change_keys(each) for each in value] if is_list else value

    class Changed(Data):
        def write(self, message):
            return change_keys(super().write(message))

    return Changed()


class Iterating(Data):
    """Goes through its messages twice."""

    def dump(self, messages):
        rows = [self.write(each) for each in messages]
        return Exported({"messages": rows, "number": len(list(messages))})


class Accumulating(Lines):
    """Keeps what was lost, for all conversations."""

    def __init__(self):
        self.lost = list[Lost]()

    def dump(self, messages):
        export = super().dump(messages)
        self.lost += export.lost
        return Exported(export.payload, tuple(self.lost))


class Emptying(Data):
    """Takes the messages out of the list that it gets."""

    def dump(self, messages):
        export = super().dump(kept := list(messages))
        if kept and isinstance(messages, list):
            messages.clear()

        return export


ADAPTERS = {
    "turns True into 1": (
        writing(lambda parts: change_leaves(parts, bools_to_integers), "parts"),
        {"loses nothing in silence"},
    ),
    "swaps parallel calls": (
        writing(lambda calls: calls[::-1], "tool_calls"),
        {"keeps order"},
    ),
    "finds an iterator empty": (Iterating(), {"is pure"}),
    "accumulates losses": (Accumulating(), {"is pure"}),
    "forgets signatures": (
        writing(lambda _: "", "signature"),
        {"loses nothing in silence"},
    ),
    "composes letters": (
        writing(lambda text: unicodedata.normalize("NFC", text), "content", "text"),
        {"loses nothing in silence"},
    ),
    "empties the list": (Emptying(), {"is pure"}),
    "gives tuples as keys": (
        with_export(lambda export: export._replace(payload={(1,): export.payload})),
        {"dumps every conversation"},
    ),
    "has no paths": (
        with_export(
            lambda export: Exported(
                export.payload, tuple([each._replace(path="") for each in export.lost])
            )
        ),
        {"says where it loses"},
    ),
    "turns them round": (Reversed(), {"dump undoes load"}),
    "empties what it loads": (Consuming(), {"is pure"}),
    "reads without looking": (
        Careless(),
        {"refuses in one way", "refuses other values"},
    ),
    "loads lists": (Listing(), {"loads what it dumps"}),
}


class Marking(Lines):
    """Has an object of its own in each payload, and marks what it loads."""

    def __init__(self):
        self.head = {"version": 1}

    def dump(self, messages):
        return Exported({"head": self.head})

    def load(self, payload):
        if isinstance(payload, dict):
            assert "mark" not in payload, "marked before"
            payload["mark"] = True

        return ()


class TestCheckAdapter:
    @pytest.mark.parametrize(
        "adapter",
        [Lines(), Data(), openai_chat, anthropic],
        ids=["small", "data", "chat", "anthropic"],
    )
    def test_honest(self, adapter):
        """An honest adapter breaks no law."""
        check_adapter(adapter, settings=FEW)

    @pytest.mark.parametrize(
        "message",
        [
            UserMessage([ImagePart(url="data:image/png;base64,AAAA")]),
            SystemMessage([TextPart("", metadata={"a": 1})]),
            AssistantMessage(tool_calls=[ToolCall("", "search")]),
        ],
        ids=["a URL of bytes", "an empty text with metadata", "a call without an id"],
    )
    def test_equivalent(self, message):
        """What a format has one word for is not lost."""
        check_adapter(openai_chat, settings=FEW, conversations=st.just((message,)))

    def test_payload(self):
        """What `load` should have refused is shown."""
        with pytest.raises(BrokenLawsError) as caught:
            check_adapter(Careless(), settings=FEW)

        assert "\n  for the payload " in str(caught.value)

    def test_junk(self):
        """
        What is wrong is put into copies: no constant of an adapter is changed, and what
        it does to a payload is not in the next one.
        """
        adapter, laws = Marking(), {"refuses in one way"}

        assert not breaks(check_adapter, adapter, laws, AdapterContract)
        assert {"version": 1} == adapter.head


# Faults


FAULTS: dict[Any, tuple[type[Contract], dict[str, Any], dict[str, Any]]] = {
    check_adapter: (AdapterContract, ADAPTERS, {}),
    check_counter: (CounterContract, COUNTERS, {}),
    check_reducer: (ReducerContract, REDUCERS, {}),
    check_summariser: (SummariserContract, SUMMARISERS, {"max_tokens": 30}),
    check_trimming_step: (TrimmingStepContract, STEPS, {}),
}


@pytest.mark.parametrize(
    ("check", "what"),
    [
        pytest.param(check, what, id=f"{contract.subject} {what}")
        for check, (contract, faults, _) in FAULTS.items()
        for what in faults
    ],
)
def test_faults(check, what):
    """Each fault breaks the law that forbids it, whatever else it breaks."""
    contract, faults, options = FAULTS[check]
    fault, laws = faults[what]

    assert breaks(check, fault, laws, contract, **options)


class Hiding:
    """Hides the oldest message once it has seen a long view."""

    is_hiding = False

    def __call__(self, view):
        self.is_hiding = self.is_hiding or len(view.elements) > 5
        return view.remove(shown(view)[:-1][:1] if self.is_hiding else [])


LENGTHS = [(QUESTION,) * 3, (QUESTION,) * 9]


def sampled_from(make):
    """What is made of a few messages, and of many."""
    return st.sampled_from([make(each) for each in LENGTHS])


@pytest.mark.parametrize(
    ("check", "subject", "law", "options"),
    [
        (
            check_reducer,
            Lengthening(),
            "is pure",
            {"states": sampled_from(lambda some: Aggregator.new(messages=some))},
        ),
        (
            check_summariser,
            Longest(),
            "is deterministic",
            {"conversations": sampled_from(tuple)},
        ),
        (
            check_trimming_step,
            Hiding(),
            "is pure",
            {"views": sampled_from(TrimContext.of)},
        ),
    ],
    ids=["reducer", "summariser", "step"],
)
def test_remembers(check, subject, law, options):
    """
    What keeps something from one example for all later ones is not pure, also if the
    first law has shown it that example.
    """
    assert law in find_broken(check, subject, {law}, **options)


class Alternating:
    """An adapter that loads now one message and now another."""

    def __init__(self, *messages):
        self.messages = itertools.cycle(messages)

    def dump(self, messages):
        return Export([], ())

    def load(self, payload):
        return [next(self.messages)]


ASKED = UserMessage("a", metadata={"x": 1, "y": 2})
CALL = ToolCall("c", "f", '{"x": 1}')
# Two values, and what is shown of how they differ.
DIFFERENCES = [
    (ASKED, ASKED.replace(name="b"), "[0].name: first '', then 'b'"),
    (
        ASKED,
        ASKED.replace(metadata={"x": True, "y": 2}),
        "[0].metadata: first {'x': 1, 'y': 2}, then {'x': True, 'y': 2}",
    ),
    (
        UserMessage([ImagePart(url="https://a/b")]),
        UserMessage([ImagePart(url="https://a/c")]),
        "[0].content[0].url: first 'https://a/b', then 'https://a/c'",
    ),
    (
        AssistantMessage(tool_calls=[CALL]),
        AssistantMessage(tool_calls=[attrs.evolve(CALL, arguments='{"x":1}')]),
        """[0].tool_calls[0].arguments: first '{"x": 1}', then '{"x":1}'""",
    ),
    # Several differences, another kind and another length are shown whole.
    (
        UserMessage("a"),
        UserMessage("b", name="c"),
        "[0]: first UserMessage('a'), then UserMessage('b', name='c')",
    ),
    (
        UserMessage("a"),
        SystemMessage("a"),
        "[0]: first UserMessage('a'), then SystemMessage('a')",
    ),
    (
        UserMessage([TextPart("a")]),
        UserMessage([TextPart("a")] * 2),
        "[0].content: first (TextPart('a'),), then (TextPart('a'), TextPart('a'))",
    ),
    (
        UserMessage([TextPart("a")] * 2),
        UserMessage([TextPart("a")]),
        "[0].content: first (TextPart('a'), TextPart('a')), then (TextPart('a'),)",
    ),
    (
        AssistantMessage("a", response=ResponseMeta("stop")),
        AssistantMessage("a", response=ResponseMeta("stop", Usage(1))),
        "[0].response: first ResponseMeta('stop'), then ResponseMeta('stop', Usage(1))",
    ),
]


@pytest.mark.parametrize(("first", "second", "shown"), DIFFERENCES)
def test_shows_where_values_differ(first, second, shown):
    """Of two values that differ in one part, that part is shown, and its path."""
    others = {*AdapterContract.laws} - {"is pure"}
    with pytest.raises(BrokenLawsError) as caught:
        check_adapter(
            Alternating(first, second),
            conversations=st.just((first,)),
            normalise=lambda message: message,
            without=others,
            settings=settings(FEW, max_examples=1),
        )

    assert f"\n  {shown}\n" in str(caught.value)


# Two results of one state, and what is shown of how they differ.
RESULTS = [
    (
        lambda state: state.add_user_prompt("b"),
        lambda state: state.add_user_prompt("c"),
        "messages[1].content: first 'b', then 'c'",
    ),
    (
        lambda state: state.add_usage(Usage(1)),
        lambda state: state.add_usage(Usage(2)),
        "ledger[1].usage: first Usage(1), then Usage(2)",
    ),
    (
        lambda state: state.add_usage(Usage(1), model="m"),
        lambda state: state.add_usage(Usage(1), model="n"),
        "ledger[1].model: first 'm', then 'n'",
    ),
    (
        lambda state: state,
        lambda state: rebuild_state(state, ledger=[LedgerEntry("new", Usage(), "")]),
        "ledger[0].id: first 'paid', then None",
    ),
    (
        lambda state: rebuild_state(state, entries=[Entry("new", UserMessage("a"))]),
        lambda state: state,
        "entries[0]: first None, then 'asked'",
    ),
]


@pytest.mark.parametrize(("first", "second", "shown"), RESULTS)
def test_shows_where_results_differ(first, second, shown):
    """Of two results of a reducer that differ in one part, that part is shown."""
    asked = rebuild_state(
        Aggregator.new().add_usage(Usage(), key="paid"),
        entries=[Entry("asked", UserMessage("a"))],
    )
    reducers = itertools.cycle([first, second])

    def alternate(state):
        return next(reducers)(state)

    laws = {law.name for law in ReducerContract.laws.values() if not law.is_extra}
    with pytest.raises(BrokenLawsError) as caught:
        check_reducer(
            alternate,
            states=st.just(asked),
            without=laws - {"is pure"},
            settings=settings(FEW, max_examples=1),
        )

    assert f"\n  {shown}\n" in str(caught.value)


# What can't be checked


CHECKS: dict[str, Any] = {
    "counter": check_counter,
    "reducer": check_reducer,
    "step": check_trimming_step,
    "summarise": check_summariser,
    "adapter": check_adapter,
}


async def answer_later(*_arguments):
    return 1


class TestWrongSubjects:
    @pytest.mark.parametrize("name", CHECKS)
    def test_refused(self, name):
        """
        What can't be called, or is not an adapter, is refused by the argument's name.
        """
        with pytest.raises(TypeError, match=rf"^{name}: expected .*got 'load'"):
            CHECKS[name]("load")

    @pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
    def test_async(self):
        """An async function where none is expected is refused with what it returned."""
        with pytest.raises(BrokenLawsError, match=r"expected a.*, got <coroutine"):
            check_counter(answer_later)  # type: ignore[arg-type]

        gc.collect()


# Examples as code


def run_code(code):
    """What *code*, an example, makes."""
    names = dict[str, Any]()
    exec(code, names)
    return names["value"]


CODES = {
    "tuple": ((1,), "(1,)"),
    "pair": ((1, 1), "(1, 1)"),
    "nested": ((1, [2]), "(1, [2])"),
    "repeated": (((1,),) * 3, "((1,),) * 3"),
    "repeated between others": ([1, 2, 2, 2, 3, 3], "[1, *[2] * 3, 3, 3]"),
    "infinity": ({"a": (float("inf"),)}, "{'a': (float('inf'),)}"),
    "no number": ([float("nan")], "[float('nan')]"),
    "decimal": (Decimal(1), "Decimal('1')"),
    "time": (timedelta(1), "datetime.timedelta(days=1)"),
    "defaults": (ToolCall("1", "clock"), "ToolCall('1', 'clock')"),
    "named tuple": (Entry("a", UserMessage("b")), "Entry('a', UserMessage('b'))"),
    "long text": ("Where to? " * 100, "'Where to? ' * 100"),
    "other text": ("a" * 80, repr("a" * 80)),
    "view": (
        TrimContext.of([UserMessage("a"), UserMessage("b")]).remove(0),
        "TrimContext.of([UserMessage('a'), UserMessage('b')]).remove([0])",
    ),
    "keys": (
        Aggregator.new().add_usage(Usage(1), key="a", at=USUAL_TIME).fork(),
        "Aggregator.new().add_usage(Usage(1), key='a').fork()",
    ),
    "new identities": (
        Aggregator.new().add_usage(Usage(2), at=USUAL_TIME),
        "Aggregator.new().add_usage(Usage(2))",
    ),
    "caveat": (
        Aggregator.new().add_usage(Usage(2), at=USUAL_TIME, caveat="interrupted"),
        "Aggregator.new().add_usage(Usage(2), caveat='interrupted')",
    ),
    "time of usage": (
        Aggregator.new().add_usage(Usage(2), at=datetime(2024, 5, 1, tzinfo=UTC)),
        (
            "(\n    Aggregator.new()\n    .add_usage(Usage(2), "
            "at=datetime.datetime(2024, 5, 1, 0, 0, tzinfo=datetime.timezone.utc))\n)"
        ),
    ),
    "long state": (
        Aggregator.new(messages=[UserMessage("a" * 40)] * 3)
        .fork()
        .add_usage(Usage(2), model="gpt-5", at=USUAL_TIME),
        (
            f"(\n    Aggregator.new()\n    .extend([UserMessage('{'a' * 40}')] * 3)\n"
            "    .fork()\n    .add_usage(Usage(2), model='gpt-5')\n)"
        ),
    ),
}


class TestFormatCode:
    @given(messages())
    @example(AssistantMessage([]))
    @example(AssistantMessage([TextPart("")], tool_calls=[ToolCall("c", "f")]))
    def test_messages(self, message):
        """Of any message comes code that makes an equal one."""
        assert message == run_code(format_example({"value": message}))

    @given(aggregators() | states())
    def test_states(self, state):
        """
        Of any state comes code that makes one with the same messages and usages,
        forked in the same place.
        """
        made = run_code(format_example({"value": state}))

        assert list(state) == list(made)
        assert [(e.usage, e.model, e.caveat) for e in state.ledger] == [
            (e.usage, e.model, e.caveat) for e in made.ledger
        ]
        assert state.init_len == made.init_len
        assert state.init_ledger_len == made.init_ledger_len
        assert state.usage == made.usage

    @given(st.one_of(entries(), ledger_entries(), heads(), templates()))
    def test_records(self, value):
        """Of named tuples and of templates comes code that makes equal ones."""
        assert value == run_code(format_example({"value": value}))

    @pytest.mark.parametrize("values", [[1, True, 1.0], [0.0, -0.0, 0.0]])
    def test_kinds(self, values):
        """
        Values that are equal and of different kinds are not written as one, neither
        in a list nor in messages of a state.
        """
        messages = [UserMessage("a", metadata={"x": each}) for each in values]
        state = Aggregator.new(messages=messages)
        made = run_code(format_example({"value": state}))

        assert repr(values) == format_code(values)
        assert repr(values) == repr([each.metadata["x"] for each in made])

    @pytest.mark.parametrize(
        ("value", "code"), [pytest.param(*row, id=what) for what, row in CODES.items()]
    )
    def test_code(self, value, code):
        """
        Tuples stay tuples, what no literal is for is called, what is repeated is
        written once, given keys are there and new identities are not, and long states
        have a line for each verb.
        """
        assert code == format_code(value)
        run_code(format_example({"value": value}))

    def test_of_a_function(self):
        """A class inside of a function can't be imported, and is shown as its repr."""

        @attrs.frozen
        class Local:
            x: int

        assert repr([Local(1)]) == format_code([Local(1)])

    def test_in_tests(self):
        """A test of a user's own prints the states that were drawn as code."""

        @settings(FEW)
        @given(aggregators() | states(), st.just(0))
        def fails(state, _number):
            assert not len(state)

        with pytest.raises(AssertionError) as caught:
            fails()

        notes = "\n".join(caught.value.__notes__)
        # Which state it is depends on what four examples find.
        assert re.search(r"as code:\n\(?\s*Aggregator\.new\(\)[^#]*\.add", notes)


class TestResults:
    def test_error_pickles(self):
        """The error of broken laws is pickled, as processes of tests do."""
        with pytest.raises(BrokenLawsError) as caught:
            check_reducer(REDUCERS["returns nothing"][0], settings=FEW)

        copy = pickle.loads(pickle.dumps(caught.value))

        assert str(caught.value) == str(copy)


@pytest.mark.parametrize(
    ("check", "kind"),
    [
        (check_adapter, "adapters"),
        (check_counter, "token counters"),
        (check_reducer, "reducers"),
        (check_summariser, "summarisers"),
        (check_trimming_step, "trimming steps"),
        (
            functools.partial(testing.check_stream, events=st.just([{}])),
            "readers of streams",
        ),
    ],
)
def test_says_what_was_checked(check, kind):
    """A report begins with what was checked, and as one of which kind."""

    class Nothing:
        def __call__(self, *_arguments):
            return self

        def __repr__(self):
            return "nothing"

        dump = load = __call__

    with pytest.raises(BrokenLawsError) as caught:
        check(Nothing(), settings=UNSHRUNK)

    first = str(caught.value).partition("\n")[0]
    unchecked = r"(; \d+ not checked until it is mended)?"
    assert re.fullmatch(rf"nothing breaks \d+ of \d+ laws of {kind}{unchecked}", first)
