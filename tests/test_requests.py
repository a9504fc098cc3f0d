"""
What providers ask of a request as a whole, and the pass that makes messages right.
"""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import (
    AssistantMessage,
    ResponseMeta,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    requests,
)
from conversation_state.adapters import openai_responses
from conversation_state.aggregator import Aggregator
from conversation_state.messages import UnknownMessage
from conversation_state.parts import ImagePart, ReasoningPart
from conversation_state.requests import (
    EVERYWHERE,
    MADE_ANSWER,
    MADE_PROMPT,
    SOURCES,
    RequestChange,
    Rules,
    TextRule,
    find_form_flaws,
    is_well_formed,
    prepare,
)
from conversation_state.testing.provider import judge
from tools.requests_page import PAGE, write_page

ASK, ANSWER = UserMessage("q"), AssistantMessage("a")
THOUGHT = AssistantMessage([ReasoningPart("hm")])
ALL = (
    requests.ANTHROPIC,
    requests.OPENAI_CHAT,
    requests.OPENAI_RESPONSES,
    requests.GEMINI,
    requests.EVERYWHERE,
)
MISTRAL = requests.rules("openai_chat", host="mistral")
PERPLEXITY = requests.rules("openai_chat", host="perplexity")
every_rules = pytest.mark.parametrize(
    "rules",
    [*ALL, MISTRAL, PERPLEXITY],
    ids=lambda rules: rules.format + rules.host or "all",
)


def calling(*ids, name="f"):
    return AssistantMessage(tool_calls=[ToolCall(each, name, "{}") for each in ids])


def result(text, call_id, **fields):
    return ToolMessage(text, tool_call_id=call_id, **fields)


def summarise(prepared):
    """Each message as its text, or the ids of its calls."""
    return [
        [call.id for call in message.tool_calls] or message.text
        for message in prepared.messages
    ]


def listed(prepared):
    return [(change.path, change.what) for change in prepared.changes]


REAL = "call_AbCdEf0123456789"  # as OpenAI makes ids: no server uses one again

# What some providers refuse, by a name for it.
REFUSED = {
    "answer first": [ANSWER, ASK],
    "late system": [ASK, SystemMessage("s")],
    "system behind answer": [ASK, ANSWER, SystemMessage("s"), ASK],
    "empty": [ASK, AssistantMessage([TextPart("")]), ASK],
    "blank": [ASK, AssistantMessage(" "), ASK],
    "thinking only": [ASK, THOUGHT, ASK],
    "user behind result": [ASK, calling("c12345678"), result("r", "c12345678"), ASK],
    "two users": [ASK, ASK],
    "two answers": [ASK, ANSWER, ANSWER, ASK],
    "answer last": [ASK, ANSWER],
}
_THOUGHT = {"empty", "thinking only"}
_CLAUDE = _THOUGHT | {"blank"}
_TOP = {"answer first", "late system", "system behind answer"}
_TURNS = _TOP | {"user behind result", "two users", "two answers"}
# The format, its host, what of these is refused, and how long ids and names may be.
HOSTS = [
    ("anthropic", "", _CLAUDE | _TOP, 64, 64),
    ("anthropic", "anthropic", _CLAUDE, 128, 128),
    ("anthropic", "bedrock", _CLAUDE | _TOP | {"answer last"}, 64, 64),
    ("anthropic", "vertex", _CLAUDE | _TOP, 64, 64),
    ("gemini", "", {"answer first", "empty"}, 0, 64),
    ("gemini", "gemini", {"answer first"}, 0, 64),
    ("gemini", "vertex", {"answer first", "empty", "answer last"}, 0, 64),
    ("openai_chat", "", _THOUGHT | {"system behind answer"}, 40, 64),
    *[
        ("openai_chat", host, _THOUGHT, 40, 64)
        for host in ("azure", "copilot", "deepseek", "groq", "openrouter")
    ],
    ("openai_chat", "cerebras", _THOUGHT | {"system behind answer"}, 40, 64),
    (
        *("openai_chat", "mistral"),
        _THOUGHT
        | {"answer first", "answer last", "system behind answer", "user behind result"},
        *(9, 64),
    ),
    ("openai_chat", "openai", {"thinking only"}, 0, 64),
    ("openai_chat", "perplexity", _THOUGHT | _TURNS | {"answer last"}, 40, 64),
    ("openai_chat", "vllm", _THOUGHT | _TURNS, 40, 64),
    ("openai_responses", "", _THOUGHT, 64, 64),
    ("openai_responses", "azure", _THOUGHT, 64, 64),
    ("openai_responses", "openai", {"thinking only"}, 64, 64),
    ("", "", _CLAUDE | {"answer first"}, 40, 64),
]


# What is found of one message, by what is changed in it.
FLAWS = {
    "content": "empty message",
    "id": "invalid call id",
    "name": "invalid name",
    "tool_name": "invalid name",
}


class TestTextRule:
    @given(st.text(), st.text(max_size=8))
    def test_fixed_texts_are_valid(self, text, seed):
        """What `fix` returns is valid, and fixing it again changes nothing."""
        for rules in (*ALL, MISTRAL):
            for rule in (rules.call_ids, rules.call_names):
                fixed = rule.fix(text, seed)

                assert rule.is_valid(fixed)
                assert fixed == rule.fix(fixed)

    def test_valid_texts_stay(self):
        """A valid text is what it is fixed to."""
        assert "call_1-a" == EVERYWHERE.call_ids.fix("call_1-a")

    def test_the_length_is_a_limit(self):
        """A text of the greatest length is valid, and one more character is not."""
        rule = TextRule(40, "a-zA-Z0-9_-")

        assert rule.is_valid("a" * 40)
        assert not rule.is_valid("a" * 41)
        assert not rule.is_valid("a\n")
        assert not rule.is_valid("")

    def test_long_texts_stay_apart(self):
        """Two long texts that begin alike get two texts, readable at the start."""
        rule = TextRule(40, "a-zA-Z0-9_-")
        one, other = rule.fix("call_" + "a" * 60), rule.fix("call_" + "a" * 61)

        assert one != other
        assert one.startswith("call_aaa")

    def test_names_stay_readable(self):
        """Characters that are refused are sent as a line."""
        rule = requests.ANTHROPIC.call_names

        assert "multi_tool_use_parallel" == rule.fix("multi_tool_use.parallel")

    def test_a_first_character_can_have_a_rule(self):
        """A name that begins with a refused character gets another beginning."""
        rule = requests.GEMINI.call_names

        assert not rule.is_valid("1st")
        assert rule.fix("1st").endswith("1st")

    def test_an_exact_length_is_kept(self):
        """Mistral's ids have nine letters and digits, and differ for each use."""
        rule = MISTRAL.call_ids
        fixed = {rule.fix("call_1"), rule.fix("call_2"), rule.fix("call_1", "2")}

        assert 3 == len(fixed)
        assert {9} == {len(each) for each in fixed}


class TestRules:
    def test_a_format_has_one_value(self):
        """The rules of a format without a host are one object."""
        assert requests.rules("anthropic") is requests.ANTHROPIC

    def test_a_host_can_have_its_own(self):
        """A host's rules name it, and differ in what the host asks."""
        assert "mistral" == MISTRAL.host
        assert 9 == MISTRAL.call_ids.length

    def test_a_model_can_decide(self):
        """Mistral's models want Mistral's ids, whoever hosts them."""
        models = ("codestral-2508", "devstral-small", "magistral-medium-2509")
        for model in (*models, "mistralai/Mistral-Large-2411", "open/mixtral-8x22b"):
            assert requests.rules("openai_chat", model=model) == MISTRAL, model

        assert requests.OPENAI_CHAT is requests.rules("openai_chat", model="gpt-5")

    @pytest.mark.parametrize(
        ("rules", "kinds"),
        [
            (requests.ANTHROPIC, "gif jpeg png webp"),
            (requests.OPENAI_CHAT, "gif jpeg jpg png webp"),
            (requests.OPENAI_RESPONSES, "gif jpeg jpg png webp"),
            (requests.GEMINI, "heic heif jpeg png webp"),
            (requests.EVERYWHERE, "jpeg png webp"),
        ],
        ids=lambda value: getattr(value, "format", ""),
    )
    def test_images(self, rules, kinds):
        """
        The images that each format takes, and those that all take.

        Source:
            The vision guides of Anthropic, OpenAI and Gemini.
        """
        assert {f"image/{kind}" for kind in kinds.split()} == rules.image_types

    def test_unknown_ones_are_errors(self):
        """An unknown format or host is an error that names those there are."""
        with pytest.raises(LookupError, match="openai_chat"):
            requests.rules("chat")
        with pytest.raises(LookupError, match="bedrock"):
            requests.rules("anthropic", host="azure")

    def test_model_of_mistral(self):
        """Its name tells the host of Chat Completions, and of no other format."""
        model = "mistral-large-latest"

        assert 9 == requests.rules("openai_chat", model=model).call_ids.length
        assert requests.GEMINI == requests.rules("gemini", model=model)

    @pytest.mark.parametrize(("format", "host", "refused", "ids", "names"), HOSTS)
    def test_what_a_host_refuses(self, format, host, refused, ids, names):  # noqa: A002
        """It is changed, and nothing else is: ids and names are as long as allowed."""
        rules = requests.rules(format, host=host) if format else EVERYWHERE
        changed = {name for name, ms in REFUSED.items() if prepare(ms, rules).changes}

        assert refused == changed
        assert rules.call_ids.is_valid("a" * (ids or 500))
        assert not ids or not rules.call_ids.is_valid("a" * (ids + 1))
        assert rules.call_names.is_valid("a" * names)
        assert not rules.call_names.is_valid("a" * (names + 1))
        assert "tool" == rules.call_names.fix("")

    @pytest.mark.parametrize(
        ("message", "flaws"),
        [
            (ASK, []),
            (UserMessage("q", name="ann"), []),
            (UserMessage("q", name="Ann Lee"), ["invalid name"]),
            (UserMessage(" "), ["empty message"]),
            (UserMessage([TextPart(" ")]), ["empty message"]),
            (THOUGHT, []),
            (calling("c1"), []),
            (calling("a b"), ["invalid call id"]),
            (calling("c1", name="1st"), ["invalid name"]),
            (result("", "c1", tool_name="f"), []),
            (result("r", "c1", tool_name="1st"), ["invalid name"]),
            (UnknownMessage({}, source="x", name="Ann Lee"), []),
        ],
    )
    def test_one_message(self, message, flaws):
        """The quick question says of a message what the one with reasons says."""
        assert flaws == [kind for kind, _ in find_form_flaws(message, EVERYWHERE)]
        assert is_well_formed(message, EVERYWHERE) == (not flaws)


class TestPrepare:
    @pytest.mark.parametrize("format", ["openai_chat", "openai_responses"])
    def test_system_asks_by_itself(self, format):  # noqa: A002
        """Where the system's newest message is sent in its place, no prompt is made."""
        messages = [ASK, ANSWER, SystemMessage("s")]
        rules = requests.rules(format, host="openai")

        assert messages == [*prepare(messages, rules).messages]

    @every_rules
    def test_what_is_right_stays(self, rules):
        """Messages with nothing wrong are the same objects, and nothing is listed."""
        messages = [
            SystemMessage("s"),
            ASK,
            calling("call12345", "call12346"),
            result("1", "call12346"),
            result("2", "call12345", tool_name="f"),
            AssistantMessage([ReasoningPart("hm"), TextPart("a")]),
            UserMessage("q", name="ann"),
            UnknownMessage({}, source=rules.format),
            ANSWER,
            ASK,
            calling("call12347"),
        ]
        prepared = prepare(messages, rules)

        # The very list: nothing is taken apart.
        assert prepared.messages is messages
        assert prepared.changes == ()
        assert "messages[7]" == prepared.paths[7]

    def test_turns_alternate(self):
        """Where a host wants it: between users, between answers, and at the end."""
        messages = [ASK, ASK, SystemMessage("late"), AssistantMessage("a")]
        messages += [AssistantMessage([ReasoningPart("hm")]), AssistantMessage("b")]
        prepared = prepare(messages, PERPLEXITY)

        assert summarise(prepared) == [
            *("late", "q", MADE_ANSWER, "q", "a", MADE_PROMPT, "b", MADE_PROMPT)
        ]
        assert listed(prepared) == [
            ("messages[1]", "assistant"),
            ("messages[2]", "position"),
            ("messages[4]", "reasoning"),
            ("messages[5]", "user"),
            ("messages[5]", "user"),
        ]
        assert () == prepare(prepared.messages, PERPLEXITY).changes

    def test_an_answer_comes_last(self):
        """An answer at the end is followed by a made message where a host wants it."""
        messages = [ASK, AssistantMessage("a")]

        assert ["q", "a"] == summarise(prepare(messages, EVERYWHERE))
        assert ["q", "a", MADE_PROMPT] == summarise(prepare(messages, PERPLEXITY))

    @pytest.mark.parametrize(
        ("model", "is_continued"),
        [
            ("claude-opus-4-5-20251101", True),
            ("us.anthropic.claude-sonnet-4-20250514-v1:0", True),
            ("claude-3-5-sonnet-latest", True),
            ("claude-opus-4-6", False),
            ("anthropic/claude-sonnet-5.5", False),
            ("of-a-deployment", True),
        ],
    )
    def test_an_answer_that_a_model_continues_comes_last(self, model, is_continued):
        """Claude before 4.6 goes on with it, as each Claude does after a pause."""
        rules = requests.rules("anthropic", model=model)
        paused = AssistantMessage("a", response=ResponseMeta("pause_turn"))
        sent = summarise(prepare([ASK, AssistantMessage("a")], rules))

        assert ["q", "a"] + [MADE_PROMPT] * (not is_continued) == sent
        assert ["q", "a"] == summarise(prepare([ASK, paused], rules))

    def test_marks_behind_a_name(self):
        """Servers of gpt-oss leave the model's own marks behind a tool's name."""
        named = ToolCall("c1", "search<|channel|>commentary", "{}")
        messages = [ASK, AssistantMessage(tool_calls=[named]), ASK]
        _, answer, made, _ = prepare(messages, EVERYWHERE).messages

        assert ["search"] == [call.name for call in answer.tool_calls]
        assert "search" == made.tool_name  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("more", "sent", "left_out"),
        [
            # A run that was resumed, before and behind the result.
            ([calling(REAL), result("r", REAL)], [[REAL], "r"], ["call"]),
            ([result("r", REAL), calling(REAL), ASK], [[REAL], "r", "q"], ["call"]),
            (
                [result("r", REAL), calling(REAL), result("r", REAL)],
                [[REAL], "r"],
                ["call", "tool"],
            ),
            # Another result, or an id that servers use again, is of another call.
            (
                [result("r", REAL), calling(REAL), result("s", REAL)],
                [[REAL], "r", [f"{REAL}-2"], "s"],
                [],
            ),
        ],
    )
    def test_a_call_that_is_there_twice_goes_once(self, more, sent, left_out):
        """Else the model would read of a second call, without a result."""
        prepared = prepare([ASK, calling(REAL), *more], EVERYWHERE)
        whats = [what for _, what in listed(prepared)]

        assert ["q", *sent] == summarise(prepared)
        assert left_out == [what for what in whats if what in ("call", "tool")]
        assert () == prepare(prepared.messages, EVERYWHERE).changes

    def test_a_call_twice_in_one_answer(self):
        """As a stream that was replayed has it; it is run once, and sent once."""
        messages = [ASK, calling(REAL, REAL), result("r", REAL)]

        assert ["q", [REAL], "r"] == summarise(prepare(messages, EVERYWHERE))
        assert () == Aggregator.new(messages).pending_calls
        [waiting] = Aggregator.new(messages[:2]).pending_calls
        assert REAL == waiting.id

    def test_each_message_has_its_path(self):
        """Long lists, too, with nothing wrong and with something."""
        messages = [ASK] * 3_000
        paths = [f"messages[{at}]" for at in range(3_000)]

        assert paths == prepare(messages, EVERYWHERE).paths
        assert paths == prepare([*messages, UserMessage("")], EVERYWHERE).paths

    @every_rules
    def test_late_results_move_up(self, rules):
        """A result that came late stands behind its call, with what was said after."""
        messages = [ASK, calling("call12345", "call12346"), result("1", "call12345")]
        messages += [UserMessage("and?"), result("2", "call12346")]
        prepared = prepare(messages, rules)

        answer = [MADE_ANSWER] * rules.answers_results
        assert [
            "q",
            ["call12345", "call12346"],
            "1",
            "2",
            *answer,
            "and?",
        ] == summarise(prepared)
        made = [("messages[3]", "assistant")] * rules.answers_results
        assert [*made, ("messages[4]", "position")] == listed(prepared)
        assert "messages[4]" == prepared.paths[3]

    def test_calls_without_a_result_get_an_error(self):
        """Where the conversation went on without a result, an error stands for it."""
        prepared = prepare([ASK, calling("c1", "c2"), ASK], EVERYWHERE)

        assert [True, True] == [message.is_error for message in prepared.messages[2:4]]  # type: ignore[attr-defined]
        assert all(map(requests.is_made, prepared.messages[2:4]))
        assert [
            ("messages[1].tool_calls[0]", "result"),
            ("messages[1].tool_calls[1]", "result"),
        ] == listed(prepared)

    @pytest.mark.parametrize("name", ["f", ""])
    def test_a_made_result_names_its_tool(self, name):
        """A result that is made has the name of the call, and none if it has none."""
        prepared = prepare([ASK, calling("c", name=name), ASK], requests.OPENAI_CHAT)

        assert name == getattr(prepared.messages[2], "tool_name", None)

    def test_calls_at_the_end_wait(self):
        """Calls that only results of others follow wait, and nothing is changed."""
        messages = [ASK, calling("c1", "c2"), result("2", "c2")]

        assert prepare(messages, EVERYWHERE).changes == ()

    def test_calls_of_an_interrupted_answer_are_answered(self):
        """Where an answer was stopped, its calls wait no longer once one has run."""
        call = calling("c1", "c2")
        for reason, made in (("tool_calls", 0), ("interrupted", 1)):
            asked = call.replace(response=ResponseMeta(reason))
            prepared = prepare([ASK, asked, result("1", "c1")], EVERYWHERE)

            assert made == len(prepared.changes)
            assert made == sum(map(requests.is_made, prepared.messages))

    @pytest.mark.parametrize("note", ["id", "name", "sender", "tool_name", "content"])
    def test_what_came_as_it_is_stays(self, note):
        """What a provider sent in a form of its own goes back so to the provider."""
        marked = {"conversation_state": {"openai_chat": {"as_loaded": [note]}}}
        calls = [ToolCall("c 1", "find trains", "{}", metadata=marked)]
        messages = [
            UserMessage("q", name="Ann Lee", metadata=marked),
            AssistantMessage("", metadata=marked),
            AssistantMessage(tool_calls=calls),
            result("r", "c 1", tool_name="find trains", metadata=marked),
        ]
        whole = [
            ("messages[0]", "name"),
            ("messages[1]", "content"),
            ("messages[2].tool_calls[0]", "id"),
            ("messages[2].tool_calls[0]", "name"),
            ("messages[3]", "tool_call_id"),
            ("messages[3]", "tool_name"),
        ]
        kept = {
            "id": {2, 4},
            "name": {3},
            "sender": {0},
            "tool_name": {5},
            "content": {1},
        }[note]
        home = [each for at, each in enumerate(whole) if at not in kept]
        chat = requests.rules("openai_chat")

        assert home == listed(prepare(messages, chat))
        assert home == listed(prepare(messages, EVERYWHERE))
        assert [FLAWS[what] for _, what in home if what in FLAWS] == [
            kind for each in messages for kind, _ in find_form_flaws(each, chat)
        ]
        assert whole == listed(prepare(messages, attrs.evolve(chat, host="azure")))

    @pytest.mark.parametrize("is_lost", [True, False])
    def test_what_a_format_can_not_represent(self, is_lost):
        """A message of which nothing could be sent is left out, with the reasons."""
        picture = UserMessage([ImagePart(url="https://example.com/a.png")])
        messages = [ASK, UnknownMessage({"role": "x"}, source="other"), picture, ASK]

        def find_lost(message, path):
            return [RequestChange(path, "message", "why")] if is_lost else None

        prepared = prepare(messages, requests.OPENAI_CHAT, find_lost=find_lost)

        if is_lost:
            assert [ASK, ASK] == prepared.messages
            assert [("messages[1]", "message"), ("messages[2]", "message")] == listed(
                prepared
            )
        else:
            assert messages == list(prepared.messages)
            assert () == prepared.changes

    def test_only_the_notes_of_one_are_a_made_messages(self):
        """Other notes of this library do not make a message one that was made up."""
        note = {"conversation_state": {"openai_chat": {"as_loaded": ["id"]}}}

        assert requests.is_made(requests.make_prompt())
        assert not requests.is_made(UserMessage("q", metadata=note))
        assert not requests.is_made(UserMessage("q", metadata={"a": 1}))

    @pytest.mark.parametrize(
        ("first", "second", "sent"),
        [
            ({"text": "runs"}, {"text": "done"}, "done"),
            ({"text": "no", "is_error": True}, {"text": "done"}, "done"),
            ({"text": "done"}, {"text": "no", "is_error": True}, "done"),
            ({"text": "no", "is_error": True}, {"text": "n", "is_error": True}, "n"),
        ],
    )
    def test_the_newest_result_stands(self, first, second, sent):
        """It says what became of the call, unless it alone failed."""
        results = [result(call_id="c1", **fields) for fields in (first, second)]
        messages = [ASK, calling("c1"), results[0], ANSWER, ASK, results[1]]
        prepared = prepare(messages, EVERYWHERE)

        assert ["q", ["c1"], sent, "a", "q"] == summarise(prepared)
        assert [what for _, what in listed(prepared)].count("tool") == 1

    def test_of_equal_results_the_first_stands(self):
        """So nothing that was sent before changes."""
        messages = [ASK, calling("c1"), result("1", "c1"), ASK, result("1", "c1")]
        prepared = prepare(messages, EVERYWHERE)

        assert ["q", ["c1"], "1", "q"] == summarise(prepared)
        assert [("messages[4]", "tool")] == listed(prepared)

    def test_a_result_goes_before_a_made_up_one(self):
        """A result that came takes the place of an error that was made up for it."""
        made = requests.make_result(ToolCall("c1", "f", "{}"))
        prepared = prepare(
            [ASK, calling("c1"), made, ASK, result("1", "c1")], EVERYWHERE
        )

        assert ["q", ["c1"], "1", "q"] == summarise(prepared)
        assert [("messages[2]", "tool"), ("messages[4]", "position")] == listed(
            prepared
        )

    def test_results_without_a_call_are_left_out(self):
        """A result whose id no call has is left out and listed."""
        prepared = prepare([ASK, result("1", "c9"), ASK], EVERYWHERE)

        assert ["q", "q"] == summarise(prepared)
        assert [("messages[1]", "tool")] == listed(prepared)

    def test_ids_that_are_used_again_are_changed(self):
        """The second call of one id gets another, and so does its result."""
        turn = [ASK, calling("call_0"), result("r", "call_0"), AssistantMessage("a")]
        prepared = prepare([*turn, *turn], EVERYWHERE)
        ids = [each[0] for each in summarise(prepared) if isinstance(each, list)]

        assert ["call_0", "call_0-2"] == ids
        assert "call_0-2" == prepared.messages[6].tool_call_id  # type: ignore[attr-defined]
        assert [
            ("messages[5].tool_calls[0]", "id"),
            ("messages[6]", "tool_call_id"),
        ] == listed(prepared)

    def test_an_id_is_not_twice_in_one_answer(self):
        """
        Though it was loaded so: each call that nothing answered gets its own error.
        """
        call = {"type": "function_call", "call_id": "c1", "name": "f"}
        call["arguments"] = "{}"
        loaded = openai_responses.load({"input": [call, call]})
        sent = openai_responses.dump([*loaded, UserMessage("b")])
        ids = [item.get("call_id") for item in sent.payload["input"]]

        assert ["c1", "c1-2", "c1", "c1-2", None] == ids
        assert () == judge("openai_responses", sent.payload)

        output = {"type": "function_call_output", "call_id": "c1", "output": "x"}
        loaded = openai_responses.load({"input": [call, call, output]})
        sent = openai_responses.dump([*loaded, UserMessage("b")])

        assert () == judge("openai_responses", sent.payload)

    def test_a_new_id_is_nobody_elses(self):
        """An id that is made is not one that another call has, before or after."""
        turns = [calling("a"), calling("a"), calling("a-2"), ASK]
        ids = [each[0] for each in summarise(prepare([ASK, *turns], EVERYWHERE))[1:6:2]]

        assert 3 == len(set(ids))
        assert ["a", "a-2"] == [ids[0], ids[2]]

    def test_results_go_to_the_newest_call_of_their_id(self):
        """What follows a call is its result, not that of a call stopped before it."""
        turn = [ASK, calling("call_0")]
        prepared = prepare([*turn, *turn, result("2", "call_0"), ASK], EVERYWHERE)
        texts = summarise(prepared)

        assert ["call_0"] == texts[1]
        assert requests.is_made(prepared.messages[2])
        assert "2" == texts[5]

    def test_results_of_one_id_are_in_order(self):
        """As many results as calls of one id are matched in their order."""
        turn = [ASK, calling("call_0")]
        messages = [*turn, *turn, result("1", "call_0"), result("2", "call_0"), ASK]
        texts = summarise(prepare(messages, EVERYWHERE))

        assert ["1", "2"] == [texts[2], texts[5]]

    def test_a_seed_is_what_a_new_id_ends_in(self):
        """A changed id depends on its entry's seed, not on what stands before it."""
        turn = [ASK, calling("call_0"), result("r", "call_0")]
        seeds = ["a", "b", "c", "d", "e", "f"]
        whole = prepare([*turn, *turn], EVERYWHERE, seeds=seeds)

        assert ["call_0-e"] == [call.id for call in whole.messages[4].tool_calls]

    def test_a_call_without_an_id_gets_one(self):
        """The first is *call*; with seeds, each depends on its own seed alone."""
        answered = [ASK, calling("", ""), ASK, calling("")]
        counted = prepare(answered, EVERYWHERE)
        seeded = prepare(answered, EVERYWHERE, seeds=["a", "b", "c", "d"])

        assert ["call", "call-2"] == summarise(counted)[1]
        assert ["call-b", "call-b-2"] == summarise(seeded)[1]
        assert ["call-d"] == summarise(seeded)[-1]

    @every_rules
    def test_names_of_calls_are_valid(self, rules):
        """A name that is refused is sent as one that is not, at call and result."""
        name = "find trains!"
        answer = result("r", "call12345", tool_name=name)
        prepared = prepare([ASK, calling("call12345", name=name), answer], rules)

        assert "find_trains_" == prepared.messages[1].tool_calls[0].name
        assert "find_trains_" == prepared.messages[2].tool_name  # type: ignore[attr-defined]
        assert [
            ("messages[1].tool_calls[0]", "name"),
            ("messages[2]", "tool_name"),
        ] == listed(prepared)

        renamed = prepare([ASK, calling("call12345"), answer], rules)
        assert [("messages[2]", "tool_name")] == listed(renamed)

    @every_rules
    def test_a_call_without_a_name_gets_one(self, rules):
        """A call of a tool without a name is sent as one of *tool*, and listed."""
        prepared = prepare([ASK, calling("call12345", name="")], rules)

        assert "tool" == prepared.messages[1].tool_calls[0].name
        assert [("messages[1].tool_calls[0]", "name")] == listed(prepared)

    def test_names_of_senders_are_valid(self):
        """Where the format has them, names of participants have its form."""
        asked = UserMessage("q", name="Ann Lee")

        assert "Ann_Lee" == prepare([asked], requests.OPENAI_CHAT).messages[0].name
        assert prepare([asked], requests.ANTHROPIC).changes == ()

    @pytest.mark.parametrize("content", ["", (), [TextPart("")]])
    def test_empty_messages_are_left_out(self, content):
        """A message without anything to send is left out and listed."""
        messages = [ASK, AssistantMessage(content), UserMessage(content), ASK]
        prepared = prepare(messages, EVERYWHERE)

        assert ["q", "q"] == summarise(prepared)
        assert [("messages[1]", "content"), ("messages[2]", "content")] == listed(
            prepared
        )

    @every_rules
    def test_thinking_at_the_end(self, rules):
        """Thinking at the end, with no answer, is left out where it has to be."""
        prepared = prepare([ASK, ANSWER, ASK, THOUGHT], rules)
        kept = ["q", "a", "q", *([""] if rules.takes_thinking_only else [])]

        assert kept == summarise(prepared)[:4]

    def test_a_user_speaks_first(self):
        """Before an assistant's greeting goes a made message of a user, listed."""
        messages = [SystemMessage("s"), AssistantMessage("Hello!"), ASK]
        prepared = prepare(messages, requests.GEMINI)

        assert ["s", requests.MADE_PROMPT, "Hello!", "q"] == summarise(prepared)
        assert [("messages[1]", "user")] == listed(prepared)
        assert prepare(messages, requests.OPENAI_CHAT).changes == ()

    def test_for_all_formats_instructions_stay_last(self):
        """For all formats at once, instructions stay behind the answer before them."""
        messages = [ASK, ANSWER, SystemMessage("s")]

        assert messages == list(prepare(messages, EVERYWHERE).messages)

    def test_a_user_speaks(self):
        """If only the system's messages are left, a made message of a user is sent."""
        prepared = prepare([SystemMessage("s"), UserMessage("")], EVERYWHERE)

        assert ["s", MADE_PROMPT] == summarise(prepared)
        assert [("messages[1]", "content"), ("messages[1]", "user")] == listed(prepared)

    @pytest.mark.parametrize("source", ["", "gemini"])
    def test_what_is_not_sent_is_no_turn(self, source):
        """Messages of other formats part no turns, and begin and end no request."""
        other = UnknownMessage({"role": "note"}, source=source)
        of_users = [other, ASK, other, ASK]
        answered = [other, ANSWER, UserMessage(""), other]

        assert [("messages[3]", "assistant")] == listed(prepare(of_users, PERPLEXITY))
        for rules in (EVERYWHERE, requests.ANTHROPIC):
            assert ["user", "assistant", "user"] == [
                message.role
                for message in prepare(answered, rules).messages
                if message.role != "unknown"
            ]

    @every_rules
    def test_a_piece_of_a_conversation_stays_one(self, rules):
        """An answer alone, which is no request, gets no message beside it."""
        assert () == prepare([ANSWER], rules).changes


class TestPage:
    """The tables of rules in docs/providers.md are what the rules are."""

    def test_current(self):
        """``python -m tools.requests_page`` has been run since a rule changed."""
        assert write_page() == PAGE.read_text(encoding="utf-8")

    def test_every_rule_has_a_source(self):
        """Each attribute of `Rules` that asks something is in a row, with a URL."""
        named = {row.name for row in SOURCES}
        # Names of participants have the form of names of tools.
        asks = {field.name for field in Rules.__attrs_attrs__}
        asks -= {"format", "host", "sender_names"}

        assert asks <= named
        assert all("https://" in row.source for row in SOURCES)
        assert EVERYWHERE.sources == SOURCES
