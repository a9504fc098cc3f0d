"""
Prices: of models by name, of usage to the last digit, of a ledger entry by
entry; from data that are here, never from the network.
"""

import pickle
import socket
import sys
import threading
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Context, Decimal, localcontext
from typing import Any

import pytest
from genai_prices import types as theirs
from genai_prices.data_snapshot import DataSnapshot, get_snapshot, set_custom_snapshot
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import Aggregator
from conversation_state._wording import format_dollars
from conversation_state.adapters import (
    anthropic,
    gemini,
    openai_chat,
    openai_responses,
)
from conversation_state.aggregator import Entry, LedgerEntry, response_key
from conversation_state.chunks import concat
from conversation_state.counting import (
    Cost,
    CostLine,
    TokenBudget,
    _prices,
    cost,
    price,
)
from conversation_state.errors import (
    MissingExtraError,
    UnknownModelError,
    UnpricedError,
)
from conversation_state.messages import (
    AssistantMessage,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UserMessage,
    make_tombstone,
    read_usage,
)
from conversation_state.testing import strategies as our
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage
from tests.states import rebuild_state


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Every socket and every thread is an error."""

    def refused(*_given, **_options):
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    monkeypatch.setattr(threading.Thread, "start", refused)


def model(name, window=None, **prices):
    """A model of the registry's; prices in dollars for a million tokens."""
    return theirs.ModelInfo(
        id=name,
        match=theirs.ClauseEquals(name),
        context_window=window,
        prices=theirs.ModelPrice(**{key: Decimal(at) for key, at in prices.items()}),
    )


TIERED = theirs.ModelInfo(
    id="long",
    match=theirs.ClauseEquals("long"),
    prices=theirs.ModelPrice(
        input_mtok=theirs.TieredPrices(
            base=Decimal(1), tiers=[theirs.Tier(start=1_000, price=Decimal(2))]
        ),
        output_mtok=Decimal(0),
    ),
)
SINCE_2025 = theirs.StartDateConstraint(date(2025, 1, 1))
SINCE_2026 = theirs.StartDateConstraint(date(2026, 1, 1))


def scheduled(name, *prices):
    """
    A model with several prices of the registry's, in dollars for a million tokens of
    input: pairs of when one holds, None for always, and of the price, if it has one.
    """
    return theirs.ModelInfo(
        id=name,
        match=theirs.ClauseEquals(name),
        prices=[
            theirs.ConditionalPrice(
                when, prices=theirs.ModelPrice(input_mtok=dollars and Decimal(dollars))
            )
            for when, dollars in prices
        ],
    )


MODELS = [
    scheduled("started", (SINCE_2025, 3), (SINCE_2026, 2)),
    model("dated-2024-08-06", input_mtok="1"),
    model("dated-20240806", input_mtok="1"),
    model("dated-20249999", input_mtok="1"),
    model("draws", input_mtok="1", output_mtok="2", output_image_mtok="30"),
    model("looks", input_mtok="1", input_image_mtok="4", input_text_mtok="3"),
    model("plain", 8_000, input_mtok="3", output_mtok="15"),
    model(
        "rich",
        input_mtok="1",
        output_mtok="10",
        cache_read_mtok="0.1",
        cache_write_mtok="1.25",
        cache_write_1h_mtok="2",
        output_reasoning_mtok="20",
        web_searches_kcount="10",
    ),
    model(
        "heard",
        input_mtok="1",
        output_mtok="2",
        input_audio_mtok="100",
        output_audio_mtok="200",
        cache_read_mtok="0.5",
        cache_audio_read_mtok="50",
    ),
    model("embedding", input_mtok="0.02"),
    model("searches", input_mtok="1", input_tool_mtok="5"),
    model("gift"),
    model("by-call", requests_kcount="5", input_mtok="1", output_mtok="1"),
    TIERED,
    scheduled("cheaper", (None, 9), (SINCE_2025, 3)),
    scheduled("newer", (None, None), (SINCE_2025, 3)),
]


@pytest.fixture
def registry():
    """A registry of our own, whose prices are known."""
    ours = theirs.Provider(
        id="ours",
        name="Ours",
        api_pattern="https://ours",
        models=MODELS,
        model_match=theirs.ClauseRegex("^(?!hidden)"),
    )
    hidden = theirs.Provider(
        id="hidden",
        name="Hidden",
        api_pattern="https://hidden",
        models=[model("hidden-7b", 4_000, input_mtok="7", output_mtok="7")],
    )
    set_custom_snapshot(DataSnapshot(providers=[ours, hidden], from_auto_update=False))
    yield
    set_custom_snapshot(None)


def million(read=0, written=0, *, extra=(), total=None, **details):
    """A usage in millions of tokens."""
    counts = {name: round(count * 10**6) for name, count in details.items()}
    prompt = {
        name: counts.pop(name)
        for name in ("cached_tokens", "audio_tokens")
        if name in counts
    }
    spoken = counts.pop("spoken_tokens", 0)
    return Usage(
        round(read * 10**6),
        round(written * 10**6),
        None if total is None else round(total * 10**6),
        PromptTokensDetails(**prompt),
        CompletionTokensDetails(audio_tokens=spoken, **counts),
        extra={name: round(count * 10**6) for name, count in dict(extra).items()},
    )


class TestPrice:
    """`price` of a usage."""

    @pytest.mark.parametrize(
        ("dollars", "name", "usage"),
        [
            ("0.000003", "plain", Usage(1)),
            # What has no price of its own is a part of what has.
            ("3", "plain", million(1, cached_tokens=0.5, audio_tokens=0.5)),
            ("15", "plain", million(0, 1, reasoning_tokens=0.5, spoken_tokens=0.1)),
            ("3", "plain", million(1, extra={"cache_write_tokens": 0.5})),
            # What has one is taken out of it.
            ("0.55", "rich", million(1, cached_tokens=0.5)),
            ("1.125", "rich", million(1, extra={"cache_write_tokens": 0.5})),
            ("15", "rich", million(0, 1, reasoning_tokens=0.5)),
            (
                "1.5",
                "rich",
                million(
                    1, extra={"cache_write_tokens": 0.8, "cache_write_1h_tokens": 0.4}
                ),
            ),
            ("50.5", "heard", million(1, audio_tokens=0.5)),
            ("101", "heard", million(0, 1, spoken_tokens=0.5)),
            (
                "75.75",
                "heard",
                million(
                    2,
                    audio_tokens=1,
                    cached_tokens=1,
                    extra={"cache_audio_read_tokens": 0.5},
                ),
            ),
            # Beside tokens.
            ("10000", "rich", million(extra={"web_searches": 1})),
            ("0.005", "by-call", million()),
            # By another name, or by none: a part of the prompt or completion.
            ("3", "plain", million(1, extra={"prompt_cache_miss_tokens": 0.5})),
            ("16", "draws", million(0, 1, extra={"completion_image_tokens": 0.5})),
            ("2.5", "looks", million(1, extra={"prompt_image_tokens": 0.5})),
            ("2", "looks", million(1, extra={"prompt_text_tokens": 0.5})),
            # Beside the prompt only if the total says so.
            ("3", "plain", million(1, extra={"tool_use_prompt_tokens": 0.5})),
            (
                "4.5",
                "plain",
                million(1, total=1.5, extra={"tool_use_prompt_tokens": 0.5}),
            ),
            ("3", "searches", million(1, extra={"tool_use_prompt_tokens": 0.5})),
            # A total that is too small takes nothing away.
            ("18", "plain", million(1, 1, total=1)),
        ],
    )
    def test_charges_each_category(self, dollars, name, usage, registry):
        """
        Tokens at their own price where there is one, and else at that of what
        they are a part of.
        """
        assert Decimal(dollars) == price(usage, name)

    def test_charges_long_prompts_as_in_the_registry(self, registry):
        """Tiers go by the prompt of one request."""
        assert Decimal("0.001") == price(Usage(1_000), "long")
        assert Decimal("0.002002") == price(Usage(1_001), "long")

    @pytest.mark.parametrize(
        ("dollars", "when"),
        [
            ("9", datetime(2024, 12, 31, 23, 59, tzinfo=UTC)),
            ("3", datetime(2025, 1, 1, tzinfo=UTC)),
            ("9", datetime(2025, 1, 1, tzinfo=timezone(timedelta(hours=2)))),
            ("3", None),
        ],
    )
    def test_charges_what_it_cost_then(self, dollars, when, registry):
        """Prices change; *when* is a moment, wherever one was."""
        assert Decimal(dollars) == price(million(1), "cheaper", when=when)

    @pytest.mark.parametrize(
        ("name", "when", "why"),
        [
            ("started", "2024-12-31", "its first price is of 2025-01-01, and when is"),
            ("dated-2024-08-06", "2024-08-04", "the model is of 2024-08-06"),
            ("ours:dated-2024-08-06", "2024-01-01", "the model is of 2024-08-06"),
        ],
    )
    def test_has_no_price_before_the_model(self, name, when, why, registry):
        """
        A time before the model existed has no price, as far as its name or its
        first price has a date; a day on, somewhere on Earth, it has.
        """
        then = datetime.fromisoformat(f"{when}T12:00+00:00")
        with pytest.raises(UnpricedError, match=why):
            price(million(1), name, when=then)

        (unpriced,) = cost(
            Aggregator.new().add_usage(million(1), model=name), when=then
        ).unpriced
        assert why in unpriced.why

    @pytest.mark.parametrize(
        ("name", "when"),
        [
            ("started", "2025-01-01"),
            ("dated-2024-08-06", "2024-08-05"),
            ("dated-20240806", "2026-01-01"),
            ("dated-20249999", "2020-01-01"),
            ("cheaper", "2001-01-01"),
        ],
    )
    def test_has_a_price_from_then_on(self, name, when, registry):
        """
        What is not a date is none; and a price without a start is that of all
        earlier times, as in the registry.
        """
        then = datetime.fromisoformat(f"{when}T12:00+00:00")

        assert Decimal(0) < price(million(1), name, when=then)

    @pytest.mark.parametrize(
        "when", ["0001-01-01T00:00+08:00", "9999-12-31T23:59-01:00"]
    )
    def test_times_in_no_year(self, when, registry):
        """A time that UTC has no year for is before or after all models."""
        then = datetime.fromisoformat(when)
        state = Aggregator.new().add_usage(million(1), model="dated-2024-08-06")
        is_priced = not cost(state, when=then).unpriced

        assert when.startswith("9") == is_priced

    @given(our.usages())
    def test_is_exact_whatever_the_context(self, usage):
        """A program that rounds decimals to three digits has the same prices."""
        usage = Usage(usage.prompt_tokens, usage.completion_tokens)
        expected = (
            Decimal("2.5") * usage.prompt_tokens + 10 * usage.completion_tokens
        ).scaleb(-6)
        then = datetime(2025, 6, 1, tzinfo=UTC)

        with localcontext(Context(prec=3)):
            assert expected == price(usage, "gpt-4o", when=then)

    @pytest.mark.parametrize(
        ("name", "usage", "why"),
        [
            ("gift", Usage(1), "no price for the 1 input_tokens"),
            ("embedding", Usage(1, 2), "no price for the 2 output_tokens"),
            ("plain", million(extra={"web_searches": 1}), "1,000,000 web_searches"),
            ("plain", Usage(extra={"num_sources": 4}), r"4 of extra\['num_sources'\]"),
            ("plain", Usage(extra={"requests": 4}), r"4 of extra\['requests'\]"),
            ("plain", Usage(1, 1, 9), "7 tokens of its total are part of neither"),
            ("rich", million(1, cached_tokens=2), "cache_read_tokens .* cannot exceed"),
            (
                "heard",
                million(1, cached_tokens=0.1, audio_tokens=0.1),
                "cache_audio_read_tokens",
            ),
            (
                "rich",
                million(1, cached_tokens=0.1, extra={"cache_read_tokens": 0.2}),
                "it has both 100000 and 200000 for cache_read_tokens",
            ),
        ],
    )
    def test_never_takes_unknown_for_nothing(self, name, usage, why, registry):
        """What has no price, or can't be true, is an error that names it."""
        with pytest.raises(UnpricedError, match=why) as caught:
            price(usage, name)

        assert name == caught.value.model
        assert isinstance(caught.value, ValueError)
        assert str(caught.value) == str(pickle.loads(pickle.dumps(caught.value)))

    def test_never_takes_what_had_no_price_for_nothing(self, registry):
        """Today's price is not used for a day on which no price was known."""
        assert Decimal(3) == price(million(1), "newer", when=datetime.now(UTC))
        with pytest.raises(UnpricedError, match="no price"):
            price(million(1), "newer", when=datetime(2024, 1, 1, tzinfo=UTC))

    def test_refuses_a_naive_time(self):
        """A time without a zone is refused."""
        with pytest.raises(ValueError, match="no time zone"):
            price(Usage(), "gpt-4o", when=datetime(2025, 1, 1))  # noqa: DTZ001 - meant

    @pytest.mark.parametrize("given", [((10, "gpt-4o"), {}), ((Usage(), 4), {})])
    def test_refuses_other_types(self, given):
        """A usage is ours and a model is a name."""
        arguments, options = given
        with pytest.raises(TypeError, match=r"takes a Usage|expected the name"):
            price(*arguments, **options)

    def test_needs_its_extra(self, monkeypatch):
        """Without genai-prices the error names the extra."""
        monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)

        with pytest.raises(
            MissingExtraError, match=r"conversation-state\[prices\]"
        ) as error:
            price(Usage(), "gpt-4o")

        assert str(error.value).startswith("price needs ")


class TestModels:
    """Which names are known, and the error for others."""

    @pytest.mark.parametrize(
        "name", ["hidden:hidden-7b", "hidden/hidden-7b", "HIDDEN/Hidden-7B"]
    )
    def test_takes_a_provider_before_the_name(self, name, registry):
        """With a colon or a slash, as programs write it."""
        assert Decimal(7) == price(million(1), name)

    @pytest.mark.parametrize(
        ("asked", "near"),
        [
            ("planin", ("plain",)),
            ("hiden-7b", ("hidden:hidden-7b",)),
            ("hidden:hidden7b", ("hidden:hidden-7b",)),
            ("", ()),
            ("?" * 100_000, ()),
            ("/plain/", ("plain",)),
        ],
    )
    def test_names_near_matches(self, asked, near, registry):
        """What is written like it, by a name that would be taken."""
        with pytest.raises(UnknownModelError) as caught:
            price(Usage(), asked)

        error = caught.value
        assert (asked, "genai-prices", near) == (
            error.model,
            error.registry,
            error.near,
        )
        assert isinstance(error, LookupError)
        assert 200 > len(str(error))
        assert str(error) == str(pickle.loads(pickle.dumps(error)))

    @given(
        st.sampled_from([m.id for p in get_snapshot().providers for m in p.models]),
        st.integers(0, 10),
    )
    def test_what_it_names_is_known(self, name, at):
        """Every name it suggests is one it takes."""
        slip = name[:at] + "~" + name[at + 1 :]
        try:
            price(Usage(), slip)
        except UnpricedError:
            return
        except UnknownModelError as error:
            for each in error.near:
                TestModels.is_known(each)

    @staticmethod
    def is_known(name):
        """Whether it has a price or not."""
        try:
            return price(Usage(), name) >= 0
        except UnpricedError:
            return True


class TestBudget:
    """`TokenBudget` by a model's name."""

    def test_looks_the_window_up(self, registry):
        """The window is the registry's, and nothing is kept free unless asked."""
        budget = TokenBudget(model="plain", overhead=100)

        assert TokenBudget(context_window=8_000, overhead=100) == budget
        assert 7_900 == budget.effective_input_limit
        assert (
            7_000
            == TokenBudget(
                model="ours:plain", max_output_tokens=1_000
            ).effective_input_limit
        )
        assert 8_000 == TokenBudget(model="plain", max_output_tokens=0).available()

    def test_knows_models_of_today(self):
        """The registry's own data are with the package."""
        assert 128_000 == TokenBudget(model="openai:gpt-4o").context_window

    def test_a_given_window_wins(self, monkeypatch):
        """Nothing is looked up then, and no extra is needed: 0 counts as given."""
        monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)

        assert 5 == TokenBudget(context_window=5, model="no such").context_window
        assert 0 == TokenBudget(context_window=0, model="no such").context_window

    def test_never_takes_an_unknown_window_for_nothing(self, registry):
        """A model whose window is not known is not a budget of 0."""
        with pytest.raises(ValueError, match=r"knows 'rich' .* give context_window"):
            TokenBudget(model="rich")


THEN = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = st.sampled_from(["gpt-4o", "anthropic/claude-sonnet-4-5", "", "gpt4o"])
USAGES = our.usages() | st.builds(Usage, st.integers(0, 10**15), st.integers(0, 10**15))


@st.composite
def branches(draw):
    """
    A state and two that were forked from it or grew on, each with spending of
    its own, some under common keys.
    """
    trunk = draw(our.aggregators() | our.states())
    sides = []
    for state in (trunk, trunk.fork(), trunk):
        side = state
        for name in draw(st.lists(NAMES, max_size=4)):
            side = side.add_usage(draw(USAGES), model=name)

        if draw(st.booleans()):
            key = draw(st.sampled_from(["a", "b"]))
            if key not in [entry.id for entry in side.ledger]:
                side = side.add_usage(Usage(10, 5), key=key, model="gpt-4o")

        sides.append(side)

    return sides


ENTRY = LedgerEntry("id", Usage(5), "")


def priced(amount):
    """A line with a price."""
    return CostLine(ENTRY, Decimal(amount))


def unpriced(why):
    """A line without one."""
    return CostLine(ENTRY, None, why)


def answer(usage, response_id="", text="Hi."):
    """A response that reports a usage."""
    meta = ResponseMeta(usage=usage, model="plain", id=response_id)
    return AssistantMessage(text, response=meta)


ANSWERED = Entry("entry", answer(Usage(1_000, 5)))


class TestUnbilled:
    """`cost` lists responses whose usage is in no ledger entry."""

    def test_lists_what_no_ledger_entry_has(self, registry):
        """In order; a conversation that cost something never costs $0.00."""
        chat = Aggregator.new().add_user_prompt("Hi?")
        chat = chat.add(answer(Usage(9, 1), "r1")).add(answer(Usage(8, 1)))

        found = cost(chat)

        assert tuple(chat.entries)[1:] == found.unbilled
        assert "unknown: 2 responses (19 tokens) not in the ledger" == str(found)
        assert found == pickle.loads(pickle.dumps(found))
        recorded = chat.record_responses()
        assert () == cost(recorded).unbilled
        assert recorded.ledger[-1].id == chat.entries[-1].id

    @pytest.mark.parametrize("response_id", ["", "r1"])
    def test_knows_what_was_recorded(self, response_id):
        """
        Under the response's id, that of its entry, a key of the caller's or
        none: once each.
        """
        answered = Aggregator.new().add(answer(Usage(9, 1), response_id))
        usage = Usage(4 + 5, 1)

        for chat in (
            answered.record_responses(),
            answered.add_usage(usage),
            answered.add_usage(usage, key="request 7"),
            answered.add_usage(usage, key=answered.entries[0].id),
            Aggregator.new().add_response(answer(usage, response_id), key="mine"),
        ):
            assert () == cost(chat).unbilled
            twice = chat.add(answer(usage, response_id and "other"))
            assert (twice.entries[-1],) == cost(twice).unbilled

        other = answered.add_usage(Usage(9, 2))
        assert tuple(answered.entries) == cost(other).unbilled

    def test_synthetic(self):
        """
        What a program wrote itself, and says so, is no answer of unknown usage, and
        claims no entry of another answer; if it reports tokens, it is one.
        """
        meta = ResponseMeta(model="<synthetic>", id="m1")
        error = AssistantMessage("API Error: 529", response=meta)
        state = Aggregator.new().add(error).add_usage(Usage(8, 1))
        state = state.add_assistant_message("Hello.")
        counted = ResponseMeta(model="<synthetic>", id="m1", usage=Usage(5))
        reported = Aggregator.new().add(AssistantMessage("Hi.", response=counted))

        assert () == cost(state).unbilled
        assert tuple(reported.entries) == cost(reported).unbilled

    def test_one_response_in_several_messages(self):
        """Counts once: the first of them is listed."""
        chat = Aggregator.new(
            messages=[answer(Usage(9, 1), "r1", "a"), answer(Usage(9, 1), "r1", "b")]
        )

        assert (chat.entries[0],) == cost(chat).unbilled
        assert () == cost(chat.add_usage(Usage(9, 1))).unbilled
        assert () == cost(chat.add_usage(Usage(7, 7), key="r1")).unbilled

    def test_one_id_for_several_responses(self):
        """Some servers give every response one id: each different usage counts."""
        chat = Aggregator.new(
            messages=[answer(Usage(9, 1), "id"), answer(Usage(8, 1), "id")]
        )

        assert tuple(chat.entries) == cost(chat).unbilled
        first = chat.add_usage(Usage(9, 1), key="id", model="plain")
        assert (chat.entries[1],) == cost(first).unbilled
        assert () == cost(chat.record_responses()).unbilled

    def test_of_which_no_usage_came(self, registry):
        """
        An answer without a usage cost something all the same: one that was stopped,
        made by hand, imported, or of a server that reports nothing or zeros. The
        bill is not complete, and never $0.00.
        """
        paid = (
            Aggregator.new()
            .add_user_prompt("?")
            .add_response(answer(Usage(9, 1), "r1"))
        )
        stopped = AssistantMessage(
            "A very", response=ResponseMeta("interrupted", model="plain", id="r2")
        )
        for message in (
            *(stopped, stopped.replace(response=ResponseMeta("interrupted"))),
            *(answer(None), answer(Usage(), "r3"), AssistantMessage("by hand")),
        ):
            for before in (paid, Aggregator.new()):
                chat = before.add_user_prompt("And?").add_response(message)

                found = cost(chat.record_responses())

                assert (chat.entries[-1],) == found.unbilled
                assert not found.complete
                assert "1 answer of unknown usage" in str(found)
                assert str(found).startswith("$0.0" if before is paid else "unknown: ")
        assert cost(paid).complete

    def test_same_id_stopped(self, registry):
        """
        A stopped answer is not paid by another one whose id its server used again.
        """
        paid = answer(Usage(9, 1), "0", "first")
        stopped = AssistantMessage("sec", response=ResponseMeta("interrupted", id="0"))
        for between in UserMessage("?"), ToolMessage("done", tool_call_id="c1"):
            chat = Aggregator.new().add_response(paid).add(between).add(stopped)

            assert (chat.entries[-1],) == cost(chat).unbilled
        by_id = Aggregator.new([paid, UserMessage("?"), stopped])
        by_id = by_id.add_usage(Usage(9, 1), key="0")
        assert (by_id.entries[-1],) == cost(by_id).unbilled
        recorded_by_hand = chat.add_usage(Usage(1), key=response_key(stopped))
        assert () == cost(recorded_by_hand).unbilled

    def test_rolled_back(self, registry):
        """What an attempt cost that was taken back pays for no other answer."""
        start = Aggregator.new().add_user_prompt("?")
        tried = start.add_response(answer(Usage(9, 1), "r1"))
        for message in AssistantMessage("other"), answer(Usage(9, 1), "r2"):
            again = tried.rollback(start).add(message)

            assert (again.entries[-1],) == cost(again).unbilled

    def test_recorded_by_hand(self, registry):
        """
        Usage under a key of the program's own accounts for one answer without a
        usage, except one that was stopped.
        """
        by_hand = Aggregator.new().add_assistant_message("a")
        stopped = Aggregator.new().add(
            AssistantMessage("a", response=ResponseMeta("interrupted"))
        )

        assert () == cost(by_hand.add_usage(Usage(9, 1))).unbilled
        assert () == cost(by_hand.add_usage(Usage(9, 1), key="request 7")).unbilled
        assert 1 == len(cost(by_hand.add_usage(Usage())).unbilled)
        two = by_hand.add_user_prompt("?").add_assistant_message("b")
        assert (two.entries[2],) == cost(two.add_usage(Usage(9, 1))).unbilled
        assert () == cost(two.add_usage(Usage(1)).add_usage(Usage(2))).unbilled
        assert 1 == len(cost(stopped.add_usage(Usage(9, 1))).unbilled)
        key = stopped.entries[0].id
        assert () == cost(stopped.add_usage(Usage(9, 1), key=key)).unbilled

    def test_without_the_facts_of_its_response(self, registry):
        """
        A host that keeps messages apart from the facts about their responses records
        under the response's id and what it says.
        """
        key = response_key(AssistantMessage("a"), id="r1")
        chat = Aggregator.new().add_assistant_message("a").add_usage(Usage(1), key=key)

        assert () == cost(chat).unbilled
        other = Aggregator.new().add_assistant_message("b").add_usage(Usage(1), key=key)
        assert 1 == len(cost(other).unbilled)

    def test_edited_and_erased(self, registry):
        """An answer that was billed stays so when its text is edited or erased."""
        paid = answer(Usage(9, 1), "r1")
        chat = Aggregator.new().add_response(paid)
        edited = chat.before(chat.entries[0].id).add(paid.replace(content="Edited."))
        erased = chat.before(chat.entries[0].id).add(
            make_tombstone(paid, bytes(16), "asked to")
        )

        for changed in edited, erased:
            assert () == cost(changed).unbilled
            assert changed is changed.record_responses()
        assert 1 == len(cost(erased.add_assistant_message("b")).unbilled)

    def test_no_answers(self, registry):
        """
        A conversation without an answer costs nothing, and so does a ledger alone
        that is empty.
        """
        chat = Aggregator.new([SystemMessage("Be brief."), UserMessage("Hi?")])

        assert () == cost(chat).unbilled
        assert "$0.00" == str(cost(chat))

        class Bill:
            ledger = ()

        assert Cost() == cost(Bill())

    def test_of_a_turn(self):
        """What came since the fork, and was not recorded since."""
        chat = Aggregator.new().add(answer(Usage(9, 1), "r1")).fork()
        chat = chat.add(answer(Usage(8, 1), "r2"))

        assert (chat.entries[-1],) == cost(chat.turn).unbilled
        assert () == cost(chat.record_responses(since=1).turn).unbilled

    @given(our.aggregators() | our.states())
    def test_is_what_recording_adds(self, chat):
        """
        After `record_responses` nothing is left of what reports a usage, in any
        state.
        """
        left = cost(chat.record_responses(), when=THEN).unbilled

        assert [] == [entry for entry in left if read_usage(entry.message) is not None]


def stopped_streams():
    """The events of a stream of each provider that was stopped after usage came."""
    claude: dict[str, Any] = {"id": "m", "type": "message", "content": []}
    claude["role"] = "assistant"
    claude |= {"model": "plain", "usage": {"input_tokens": 1_000, "output_tokens": 1}}
    block = {"type": "content_block_start", "index": 0}
    words = {"type": "content_block_delta", "index": 0}
    chunk = {"id": "c", "object": "chat.completion.chunk", "model": "plain"}
    choice = {"index": 0, "finish_reason": None, "delta": {"content": "word"}}
    counted = {"prompt_tokens": 1_000, "completion_tokens": 1, "total_tokens": 1_001}
    content = {"role": "model", "parts": [{"text": "word"}]}
    candidate = {"modelVersion": "plain", "candidates": [{"content": content}]}
    return {
        anthropic: [
            {"type": "message_start", "message": claude},
            {**block, "content_block": {"type": "text", "text": ""}},
            {**words, "delta": {"type": "text_delta", "text": "word"}},
        ],
        openai_chat: [{**chunk, "choices": [choice], "usage": counted}],
        gemini: [
            {**candidate, "responseId": "g", "usageMetadata": {"promptTokenCount": 9}}
        ],
    }


class TestPartial:
    """What an answer reports that was interrupted is a lower bound."""

    STOPPED = AssistantMessage(
        "A very", response=ResponseMeta("interrupted", Usage(1_000, 1), None, "plain")
    )

    @pytest.mark.parametrize("wire", stopped_streams())
    def test_streams(self, registry, wire):
        """The usage of a stream that was stopped is billed, and not all of it."""
        answered = concat(wire.load_chunks(stopped_streams()[wire]))
        chat = Aggregator.new().add_user_prompt("?").add_response(answered)

        found = cost(chat)

        (line,) = found.lines
        assert line.is_partial
        assert line.amount is not None
        assert found.lines == found.partial == found.by_model["plain"].partial
        assert not found.complete
        assert not found.by_model["plain"].complete
        assert str(found) == (
            f"{format_dollars(line.amount)} and the unknown rest of 1 interrupted "
            "answer"
        )

    def test_final_usage(self, registry):
        """A stream that is cut off behind its final usage is billed in full."""
        ended = {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}
        events = [*stopped_streams()[anthropic], {"type": "message_delta", **ended}]
        chat = Aggregator.new().add_response(concat(anthropic.load_chunks(events)))

        assert cost(chat).complete

    @pytest.mark.parametrize("response_id", ["", "r1"])
    def test_recorded_elsewhere(self, registry, response_id):
        """Also of an answer that was recorded under a key of the program's own."""
        meta = ResponseMeta("interrupted", Usage(9, 1), None, "plain", response_id)
        stopped = AssistantMessage("A very", response=meta)
        added = Aggregator.new().add(stopped)
        for chat in (
            Aggregator.new().add_response(stopped, key="mine"),
            added.record_responses(),
            added.record_responses().fork(),
            added.record_responses().join(added),
            added.add_usage(Usage(9, 1), model="plain"),
            added.add_usage(Usage(9, 1), key=response_id or "mine", model="plain"),
        ):
            assert chat.ledger[0].id == cost(chat).partial[0].entry.id
            assert not cost(chat).complete

    def test_in_several_messages(self, registry):
        """Of messages that were recorded one by one the largest count is partial."""
        first = ResponseMeta("", Usage(9, 1), None, "plain", "r1")
        last = ResponseMeta("interrupted", Usage(9, 5), None, "plain", "r1")
        chat = Aggregator.new().add_response(AssistantMessage("a", response=first))
        chat = chat.add_response(AssistantMessage("b", response=last))

        assert [Usage(9, 5)] == [line.usage for line in cost(chat).partial]

    @pytest.mark.parametrize("rest", [Usage(), Usage(0, 1), Usage(0, 5_000)])
    @pytest.mark.parametrize("usage", [None, Usage(1_000, 1)])
    @pytest.mark.parametrize("response_id", ["", "r1"])
    def test_rest(self, registry, response_id, usage, rest):
        """
        The bill is complete when the rest is recorded, whatever it is: under the
        identity of the answer's entry, or of its ledger entry; on a branch, on two,
        and after a join. It is recorded once, and is the rest of no other answer.
        """
        meta = ResponseMeta("interrupted", usage, None, "plain", response_id)
        stopped = AssistantMessage("A very", response=meta)
        chat = Aggregator.new().add_response(stopped)
        open_bill = cost(chat)
        lines = [each.entry.id for each in open_bill.partial]
        assert not open_bill.complete
        for id in {*lines, chat.entries[0].id}:
            paid = chat.fork().add_usage(rest, key=f"{id}#rest", model="plain")
            again = chat.fork().add_usage(rest, key=f"{id}#rest", model="plain")

            for whole in (
                paid,
                paid.record_responses(),
                chat.join(paid),
                chat.join(paid, again),
                chat.join(paid, again).record_responses(),
            ):
                assert cost(whole).complete
                assert (usage or Usage()) + rest == whole.total_usage

            other = AssistantMessage("B", response=ResponseMeta(model="plain"))
            assert [other] == [each.message for each in cost(paid.add(other)).unbilled]

    def test_rest_of_unrecorded(self, registry):
        """A rest is not what an answer reported itself."""
        added = Aggregator.new().add(self.STOPPED)
        key = f"{added.entries[0].id}#rest"
        paid = added.add_usage(Usage(1_000, 1), key=key, model="plain")

        assert 1 == len(cost(paid).unbilled)
        assert cost(paid.record_responses()).complete
        assert Usage(2_000, 2) == paid.record_responses().total_usage

    def test_rest_of_another_tier(self, registry):
        """The rest was served as the answer was."""
        notes = {"conversation_state": {"any": {"response": {"service_tier": "flex"}}}}
        chat = Aggregator.new().add_response(self.STOPPED.replace(metadata=notes))
        key = f"{chat.entries[0].id}#rest"

        assert 2 == len(
            cost(chat.add_usage(Usage(0, 9), key=key, model="plain")).unpriced
        )

    def test_more_than_reported(self, registry):
        """
        The bill is also complete when more than what was reported is recorded under
        the entry's identity, or all of it under the answer's key.
        """
        meta = ResponseMeta("interrupted", Usage(1_000, 1), None, "plain", "r1")
        stopped = AssistantMessage("A very", response=meta)
        chat = Aggregator.new().add_response(stopped)
        rest = Usage(2_000, 2_001).minus(Usage(2_000, 1))
        key = chat.entries[0].id

        paid = chat.add_usage(rest, key=key, model="plain")

        for whole in paid, chat.join(paid), paid.join(chat), paid.record_responses():
            assert cost(whole).complete
            assert Usage(1_000, 2_001) == whole.total_usage
        own_key = response_key(stopped)
        unrecorded = Aggregator.new().add(stopped)
        whole = unrecorded.add_usage(Usage(1_000, 2_001), key=own_key, model="plain")
        assert cost(whole).complete
        same = Usage(1_000, 1, extra={"prompt_text_tokens": 1_000})
        assert cost(unrecorded.add_usage(same, key=own_key)).partial

    def test_of_another_answer(self, registry):
        """What an answer of the same id cost is not the rest of this one."""
        first = ResponseMeta("interrupted", Usage(200, 1), None, "plain", "0")
        second = ResponseMeta("interrupted", Usage(10, 1), None, "plain", "0")
        done = ResponseMeta("stop", Usage(500, 9), None, "plain", "0")
        chat = Aggregator.new().add_response(AssistantMessage(response=first))
        chat = chat.add_user_prompt("Go on.")
        both = chat.add_response(AssistantMessage(response=second))
        mixed = chat.add_response(AssistantMessage("Yes.", response=done))
        by_id = chat.add(AssistantMessage("Yes.", response=done))
        by_id = by_id.add_usage(Usage(500, 9), key="0", model="plain")

        assert [200, 10] == [each.usage.prompt_tokens for each in cost(both).partial]
        assert [200] == [each.usage.prompt_tokens for each in cost(mixed).partial]
        assert [200] == [each.usage.prompt_tokens for each in cost(by_id).partial]

    def test_without_a_price(self, registry):
        """It is said, too, of usage that can't be priced."""
        meta = ResponseMeta("interrupted", Usage(9, 1), None, "")
        chat = Aggregator.new().add_response(AssistantMessage("A", response=meta))

        assert str(cost(chat)) == (
            "unknown: 1 entry without a price: can't price this usage: its model is "
            "unknown and the unknown rest of 1 interrupted answer"
        )


def note(wire, notes):
    """An answer with *notes* of an adapter."""
    metadata = {"conversation_state": {wire: notes}}
    return answer(Usage(9, 1), "r1").replace(metadata=metadata)


class TestTiers:
    """An answer that was served at another price than the standard one."""

    @pytest.mark.parametrize(
        ("message", "tier"),
        [
            (
                openai_chat.load(
                    {
                        "id": "c",
                        "model": "plain",
                        "service_tier": "flex",
                        "choices": [{"message": {"role": "assistant", "content": ""}}],
                        "usage": {"prompt_tokens": 9, "completion_tokens": 1},
                    }
                )[0],
                "service_tier 'flex'",
            ),
            (
                concat(
                    openai_responses.load_chunks(
                        [
                            {
                                "type": "response.completed",
                                "response": {
                                    "id": "r",
                                    "model": "plain",
                                    "status": "completed",
                                    "service_tier": "priority",
                                    "output": [],
                                    "usage": {"input_tokens": 9, "output_tokens": 1},
                                },
                            }
                        ]
                    )
                ),
                "service_tier 'priority'",
            ),
            (
                anthropic.load(
                    {
                        "id": "m",
                        "type": "message",
                        "role": "assistant",
                        "model": "plain",
                        "content": [{"type": "text", "text": "Hi."}],
                        "usage": {
                            "input_tokens": 9,
                            "output_tokens": 1,
                            "service_tier": "batch",
                        },
                    }
                )[0],
                "service_tier 'batch'",
            ),
            (
                gemini.load(
                    {
                        "modelVersion": "plain",
                        "candidates": [{"content": {"parts": [{"text": "Hi."}]}}],
                        "usageMetadata": {
                            "promptTokenCount": 9,
                            "trafficType": "ON_DEMAND_FLEX",
                        },
                    }
                )[0],
                "trafficType 'ON_DEMAND_FLEX'",
            ),
            (
                note("anthropic", {"response": {"usage": {"speed": "fast"}}}),
                "speed 'fast'",
            ),
            (
                note("langchain", {"response_metadata": {"service_tier": "flex"}}),
                "service_tier 'flex'",
            ),
            (
                note(
                    "pydantic_ai",
                    {"response": {"provider_details": {"service_tier": "flex"}}},
                ),
                "service_tier 'flex'",
            ),
            (
                note(
                    "pydantic_ai",
                    {"response": {"provider_details": {"traffic_type": "FLEX"}}},
                ),
                "traffic_type 'FLEX'",
            ),
            (
                note("langchain", {"response_metadata": {"usage": {"speed": "fast"}}}),
                "speed 'fast'",
            ),
        ],
    )
    def test_another(self, registry, message, tier):
        """It has no price, wherever its tier came, and whatever key it is under."""
        for chat in (
            Aggregator.new().add_response(message),
            Aggregator.new().add_response(message, key="mine"),
            Aggregator.new()
            .add_user_prompt("?")
            .fork()
            .add(message)
            .record_responses(),
        ):
            found = cost(chat)

            (line,) = found.unpriced
            assert not found.complete
            assert str(found) == (
                "unknown: 1 entry without a price: can't price this usage of 'plain': "
                f"the standard price may not apply ({tier})"
            )
            assert line == cost(chat.turn).lines[0]

    @pytest.mark.parametrize(
        "notes",
        [
            {"response": {"service_tier": "default"}},
            {"response": {"service_tier": "auto"}},
            {"response": {"service_tier": "on_demand"}},
            {"response": {"service_tier": None, "speed": 1.5}},
            {"response": {"usage": {"service_tier": "standard", "speed": "standard"}}},
            {"response": {"usage": {"inference_geo": "not_available"}}},
            {"response": {"usage": {"trafficType": "ON_DEMAND", "serviceTier": ""}}},
            {"response": [{"service_tier": "flex"}]},
        ],
    )
    def test_standard(self, registry, notes):
        """What is served at the standard price, or says nothing, has that price."""
        assert cost(Aggregator.new().add_response(note("any", notes))).complete

    def test_of_the_program(self, registry):
        """Metadata of the program's own is not read, also where notes keep it."""
        for metadata in (
            {"service_tier": "gold"},
            {"conversation_state": {"ui": {"speed": "fast"}}},
            {"conversation_state": {"ai_sdk": {"keys": {"metadata": {"speed": "x"}}}}},
            {
                "conversation_state": {
                    "langchain": {"additional_kwargs": {"speed": "x"}}
                }
            },
            {"conversation_state": "flex"},
        ):
            message = answer(Usage(9, 1)).replace(metadata=metadata)

            assert cost(Aggregator.new().add_response(message)).complete


class TestCost:
    """`cost` of a ledger."""

    def test_prices_entry_by_entry(self, registry):
        """
        What is known is added, what is not is listed, in order, with the
        reason.
        """
        chat = (
            Aggregator.new()
            .add_usage(million(1), model="plain")
            .add_usage(Usage(7))
            .add_usage(million(0, 1), model="plain")
            .add_usage(Usage(8), model="planin")
            .add_usage(Usage(9), model="gift")
        )

        found = cost(chat)

        assert Decimal(18) == found.total
        assert [chat.ledger[at] for at in (1, 3, 4)] == [
            line.entry for line in found.unpriced
        ]
        assert [
            "can't price this usage: its model is unknown",
            "genai-prices knows no model 'planin'; did you mean 'plain'?",
            (
                "can't price this usage of 'gift': genai-prices has no price for the 9 "
                "input_tokens"
            ),
        ] == [line.why for line in found.unpriced]
        assert ["", ""] == [found.lines[at].why for at in (0, 2)]

    def test_suggests_names_for_a_few_models(self, registry, monkeypatch):
        """A ledger of many unknown models costs no search for each of them."""
        searches: list[str] = []

        def search(name, _):
            searches.append(name)
            return ["plain"]

        monkeypatch.setattr(_prices, "get_close_matches", search)
        chat = Aggregator.new()
        for number in range(50):
            chat = chat.add_usage(Usage(1), model=f"unknown {number}")

        lines = cost(chat).lines

        assert 40 == len(searches)
        assert "genai-prices knows no model 'unknown 49'" == lines[-1].why
        assert "genai-prices knows no model 'unknown 0'; did you mean 'plain'?" == (
            lines[0].why
        )

    def test_an_empty_ledger_costs_nothing(self, monkeypatch):
        """
        Without usage the cost is zero, known without any extra; so is usage that has no
        price.
        """
        monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
        chat = Aggregator.new()

        assert Cost() == cost(chat)
        assert Decimal(0) == cost(chat).total
        assert 1 == len(cost(chat.add_usage(Usage(5))).unpriced)
        with pytest.raises(MissingExtraError, match=r"^cost needs .*state\[prices\]"):
            cost(chat.add_usage(Usage(5), model="plain"))

    def test_prices_of_the_time(self, registry):
        """
        Each entry has the price of its time, one of an unknown time that of now;
        *when* is one time for all.
        """
        early = datetime(2024, 1, 1, tzinfo=UTC)
        chat = (
            Aggregator.new()
            .add_usage(million(1), model="cheaper", at=early)
            .add_usage(million(1), model="cheaper", at=THEN)
        )
        unknown = rebuild_state(
            chat, entries=(), ledger=[LedgerEntry("1", million(1), "cheaper")]
        )

        found = cost(chat)

        assert [Decimal(9), Decimal(3)] == [line.amount for line in found.lines]
        assert [early, THEN] == [line.at for line in found.lines]
        assert Decimal(18) == cost(chat, when=early).total
        assert Decimal(3) == cost(unknown).total
        assert Decimal(9) == cost(unknown, when=early).total

    def test_by_model(self, registry):
        """
        The lines of each model, in order, with their own sums; together all of them.
        """
        chat = (
            Aggregator.new()
            .add_usage(million(1), model="plain")
            .add_usage(Usage(7))
            .add_usage(million(2), model="plain")
            .add_usage(million(1), model="cheaper", at=THEN)
        )

        found = cost(chat)
        plain, unknown, cheaper = found.by_model.values()

        assert ["plain", "", "cheaper"] == [*found.by_model]
        assert [chat.ledger[0], chat.ledger[2]] == [line.entry for line in plain.lines]
        assert Decimal(9) == plain.total
        assert million(3) == plain.usage
        assert (Decimal(0), 1) == (unknown.total, len(unknown.unpriced))
        assert found.total == plain.total + cheaper.total
        assert chat.total_usage == found.usage

    @given(branches())
    def test_of_a_join_is_that_of_its_distinct_entries(self, sides):
        """
        However often branches are joined, each entry is priced once, to the last digit,
        in any arithmetic context; and none is forgotten.
        """
        trunk, fork, other = sides
        joined = trunk.join(fork, other).join(fork)

        with localcontext(Context(prec=2)):
            found = cost(joined, when=THEN)

        distinct: dict[str, LedgerEntry] = {}
        for side in sides:
            for entry in side.ledger:
                distinct.setdefault(entry.id, entry)

        known = Decimal(0)
        unknown = set()
        for entry in distinct.values():
            try:
                with localcontext(Context(prec=60)):
                    known += price(entry.usage, entry.model, when=THEN)
            except (UnknownModelError, UnpricedError):
                unknown.add(entry.id)

        assert known == found.total
        assert unknown == {each.entry.id for each in found.unpriced}

    @given(branches())
    def test_of_a_fork_is_what_it_inherited_and_added(self, sides):
        """Past and turn together are the whole."""
        _, fork, _ = sides
        before = rebuild_state(
            fork,
            parent_id=None,
            root_id=None,
            init_len=0,
            init_ledger_len=0,
            entries=(),
            ledger=fork.ledger[: fork.init_ledger_len],
        )

        with localcontext(Context(prec=60)):
            parts = cost(before, when=THEN).total + cost(fork.turn, when=THEN).total

        assert parts == cost(fork, when=THEN).total

    @pytest.mark.parametrize(
        ("shown", "found"),
        [
            ("$0.00", Cost()),
            ("$12.50", Cost((priced("12.5000"),))),
            ("$1,234.00", Cost((priced(1234),))),
            ("$0.0000375", Cost((priced("3.75E-5"),))),
            (
                "$1.00 and 1 entry without a price: who knows",
                Cost((priced(1), unpriced("who knows"))),
            ),
            (
                "unknown: 1 entry without a price: who knows",
                Cost((unpriced("who knows"),)),
            ),
            (
                "$1.00 and 1 response (1,005 tokens) not in the ledger",
                Cost((priced(1),), (ANSWERED,)),
            ),
            (
                (
                    "unknown: 1 entry without a price: a and 1 response (1,005 "
                    "tokens) not in the ledger"
                ),
                Cost((unpriced("a"),), (ANSWERED,)),
            ),
            (
                "$1.00 and 5 entries without a price: a; b; c; 2 more reasons",
                Cost((priced(1), *map(unpriced, "abcde"))),
            ),
        ],
    )
    def test_is_readable(self, shown, found):
        """Dollars to the last digit, and what is missing."""
        assert shown == str(found)

    @pytest.mark.parametrize("wrong", [None, [], Usage()])
    def test_refuses_what_has_no_ledger(self, wrong):
        """A usage alone has no model: price takes both."""
        with pytest.raises(TypeError, match="state: expected an object with a ledger"):
            cost(wrong)
