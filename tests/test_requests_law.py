"""
Requests are right as a whole: a judge that shares no code with the library accepts what
a dump writes of any state and of any view.

The states are those of the kit, and what an ordinary day makes of a conversation: two
tabs, a user who stops, results that come late, ids that a server uses again, joins.
"""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mistral_common.protocol.instruct.request import ChatCompletionRequest

from conversation_state import Aggregator, ToolCall, trim
from conversation_state.adapters import openai_chat
from conversation_state.counting import TokenBudget
from conversation_state.errors import BudgetExceededError
from conversation_state.messages import (
    AssistantMessage,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import ImagePart, ReasoningPart, RefusalPart, TextPart
from conversation_state.requests import AS_IS
from conversation_state.testing import laws
from conversation_state.testing.provider import judge
from conversation_state.testing.strategies import states
from tests.adapters.helpers import PROVIDERS, lines

# What images of the usual types begin with.
BEGINS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x04\x00\x00\x00WEBP",
}
ODD_TYPES = ("image/tiff", "image/bmp", "IMAGE/X", "text/plain", "image/svg+xml")
texts = st.sampled_from(["hello", "", "  ", "\n", "many words " * 20])
ids = st.sampled_from(
    ["call_0", "call_1", "functions.f:0", "x" * 70, "a b", "é", "call_2", "call_3"]
)
calls = st.builds(
    ToolCall,
    ids,
    st.sampled_from(["f", "f", "f", "multi_tool_use.parallel", "1st", "n" * 80]),
    st.sampled_from(["{}", '{"a": 1}', "not json", ""]),
)
parts = st.sampled_from(
    [TextPart("t"), TextPart(""), ReasoningPart("hm"), RefusalPart("no")]
)
answers = st.builds(
    AssistantMessage,
    texts | st.lists(parts, min_size=1, max_size=3),
    tool_calls=st.lists(calls, max_size=3),
    response=st.sampled_from([None, ResponseMeta("stop"), ResponseMeta("interrupted")]),
)
results = st.builds(ToolMessage, texts, tool_call_id=ids, is_error=st.booleans())
acts = st.one_of(
    texts.map(UserMessage),
    answers,
    answers,
    results,
    results,
    st.just(SystemMessage("By the way.")),
    st.just(UnknownMessage({"role": "note"})),
    # A text behind a call, as user interfaces show it.
    st.just(
        AssistantMessage(
            [TextPart("So.", index=1)], tool_calls=[ToolCall("c", "f", "{}", index=0)]
        )
    ),
    st.sampled_from(["another tab", "join"]),
)


@st.composite
def days(draw):
    """
    What two or three tabs make of one conversation, as a request: a user's message or a
    result is the newest, but for one of the system, and no call waits.
    """
    tabs = [Aggregator.new([SystemMessage("Be brief.")] * draw(st.integers(0, 1)))]
    for act in draw(st.lists(acts, max_size=14)):
        at = draw(st.integers(0, len(tabs) - 1))
        if act == "another tab":
            tabs = [*tabs[:2], tabs[at].fork()]
        elif act == "join":
            tabs[0] = tabs[0].join(*tabs[1:])
        else:
            tabs[at] = tabs[at].add(act)

    state = tabs[0].join(*tabs[1:])
    for call in state.pending_calls:
        state = state.add_tool_response(ToolMessage("done", tool_call_id=call.id))

    state = as_request(state)
    return state.add(SystemMessage("Be brief.")) if draw(st.booleans()) else state


def as_request(state):
    """*state* with a user's message behind it, unless it is a request already."""
    if state.pending_calls or not len(state) or state[-1].role not in ("user", "tool"):
        return state.add_user_prompt("And now?")

    return state


@pytest.mark.parametrize("name", PROVIDERS)
class TestJudge:
    """
    At its strictest, for all hosts that are known but Mistral's, which has to be named.
    """

    @given(state=states().map(as_request) | days(), limit=st.integers(20, 3_000))
    def test_accepts_what_is_dumped(self, name, state, limit):
        """Of any state that is a request, and of its view in any budget."""
        adapter = PROVIDERS[name]
        budget = TokenBudget(context_window=limit)
        laws.requests_are_accepted(adapter, name, state)
        try:
            view = trim(state, budget)
        except BudgetExceededError:
            return

        assert () == view.problems()
        laws.views_add_up(view)
        laws.requests_are_accepted(adapter, name, view.messages)

    @given(state=days(), limit=st.integers(20, 3_000))
    def test_accepts_what_is_dumped_for_a_host(self, name, state, limit):
        """
        Mistral's ids have nine characters, Perplexity's turns alternate, Bedrock has
        rules of its own: of a state, and of a view by the host's rules.
        """
        budget = TokenBudget(context_window=limit)
        for host in HOSTS.get(name, ()):
            adapter, rules = PROVIDERS[name], PROVIDERS[name].rules(host=host)
            laws.requests_are_accepted(adapter, name, state, rules=rules, level=host)
            try:
                view = trim(state, budget, rules=rules)
            except BudgetExceededError:
                continue

            assert () == view.problems()
            laws.views_add_up(view)
            laws.requests_are_accepted(
                adapter, name, view.messages, rules=rules, level=host
            )

    @given(
        begin=st.sampled_from([*BEGINS.values(), b"BM", b"%PDF-", b"hi"]),
        given=st.sampled_from([*BEGINS, *ODD_TYPES]),
        is_url=st.booleans(),
    )
    def test_accepts_images(self, name, begin, given, is_url):
        """
        Of any type, as the user's or in a result: what is refused is left out, which is
        listed, and so is a type that was mended; what all take is sent as it is.
        """
        image = ImagePart(data=begin + b"...", media_type=given)
        if is_url:
            encoded = base64.b64encode(begin + b"...").decode()
            image = ImagePart(url=f"data:{given};base64,{encoded}")

        call = ToolCall("call_1", "look", "{}")
        messages = [
            UserMessage([TextPart("Look!"), image]),
            AssistantMessage(tool_calls=[call]),
            ToolMessage([TextPart("There."), image], tool_call_id="call_1"),
        ]
        laws.requests_are_accepted(PROVIDERS[name], name, messages)

        lost = [each.what for each in PROVIDERS[name].dump(messages[:1]).lost]
        if BEGINS.get(given) == begin and given != "image/gif":
            assert not lost
        elif begin == b"BM" and given not in BEGINS:
            assert ["image"] == lost

    def test_accepts_a_system_message_behind_an_answer(self, name):
        """It asks for another answer; for most, it is behind a made-up message."""
        state = Aggregator.new([UserMessage("a"), AssistantMessage("b")])
        state = state.add(SystemMessage("Be brief."))
        for host in ("", *HOSTS.get(name, ())):
            adapter, level = PROVIDERS[name], host or "strictest"
            rules = adapter.rules(host=host)
            for messages in (state, trim(state, None, rules=rules).messages):
                laws.requests_are_accepted(
                    adapter, name, messages, rules=rules, level=level
                )
                payload = adapter.dump(messages, rules=rules).payload

                assert "Be brief." in json.dumps(payload)
                assert [*payload.values()][-1][-1]["role"] in ("system", "user")

    def test_an_empty_system_message_asks_nothing(self, name):
        """It is not sent, so that nothing is made up behind the answer before it."""
        messages = [UserMessage("a"), AssistantMessage("b"), SystemMessage("")]

        payload = PROVIDERS[name].dump(messages).payload

        assert [*payload.values()][-1][-1]["role"] in ("assistant", "model")

    def test_finds_a_request_that_is_refused(self, name):
        """A call that nothing answers, sent as it is."""
        call = ToolCall("call_1", "f", "{}")
        messages = [
            UserMessage("a"),
            AssistantMessage(tool_calls=[call]),
            UserMessage("b"),
        ]
        with pytest.raises(AssertionError, match="call_without_result"):
            laws.requests_are_accepted(PROVIDERS[name], name, messages, rules=AS_IS)


HOSTS = {
    "anthropic": ("bedrock", "vertex"),
    "gemini": ("vertex",),
    "openai_chat": (
        *("azure", "cerebras", "copilot", "groq", "mistral", "perplexity", "vllm"),
    ),
}
# What OpenAI, DeepSeek, OpenRouter and Google say beside an answer's text.
ANSWERS = [
    {"content": "Yes.", "refusal": None, "annotations": [], "audio": None},
    {"content": None, "refusal": "No.", "annotations": []},
    {"content": "Yes.", "reasoning_content": "Hm."},
    {"content": "Yes.", "reasoning": "Hm.", "reasoning_details": [{"type": "x"}]},
    {"content": "Yes.", "annotations": [{"type": "url_citation"}], "name": "bot"},
    {"content": [{"type": "refusal", "refusal": "No.", "x": 1}]},
    {"content": [{"type": "text", "text": "Yes.", "annotations": [{"x": 1}]}]},
    {
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "mcp", "mcp": {"name": "f", "x": 1}}],
    },
    {"content": None, "function_call": {"name": "f", "arguments": "{}"}},
    {
        "content": "",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "f", "arguments": "{}", "strict": True},
                "extra_content": {"google": {"thought_signature": "c2ln"}},
            }
        ],
    },
    {
        "content": "",
        "tool_calls": [
            {"id": "c", "type": "custom", "custom": {"name": "f", "input": "x"}}
        ],
    },
]


class TestAnotherHost:
    """A conversation goes on with a host that checks the keys of messages."""

    @pytest.mark.parametrize("host", ["cerebras", "groq", "mistral"])
    @pytest.mark.parametrize("answer", ANSWERS, ids=json.dumps)
    def test_is_accepted(self, answer, host):
        """
        An answer of another host is accepted with any additional keys: its content is
        sent, and what is left out is listed. Mistral's own types say the same.
        """
        [answered] = openai_chat.load([{"role": "assistant", **answer}])
        chat = Aggregator.new().add(UserMessage("Well?", name="ann")).add(answered)
        for call in chat.pending_calls:
            chat = chat.add(ToolMessage("4", tool_call_id=call.id, tool_name=call.name))
        chat = chat.add(SystemMessage("Be brief.")).add_user_prompt("And now?")
        rules = openai_chat.rules(host=host)

        laws.requests_are_accepted(
            openai_chat, "openai_chat", chat, rules=rules, level=host
        )

        export = openai_chat.dump(chat, rules=rules)
        sent = json.dumps(export.payload)
        said = json.dumps(answer["content"] or answer.get("refusal") or "")
        assert next((each for each in ("Yes.", "No.") if each in said), "f") in sent
        if "Hm." in str(answer):
            is_lost = any(each.what == "reasoning" for each in export.lost)
            assert ("Hm." in sent) != is_lost
        if host == "mistral":
            ChatCompletionRequest(model="m", messages=export.payload["messages"])


@pytest.mark.parametrize("name", PROVIDERS)
def test_goes_home_as_it_came(name, recordings):
    """
    A request that a provider accepted, loaded and dumped again, is key for key what it
    was, and the judge still accepts it. An empty list of calls, which some servers take
    and OpenAI refuses, is left out.
    """
    adapter = PROVIDERS[name]
    for exchange in lines(recordings / "requests" / f"{name}.jsonl"):
        loaded = adapter.load(exchange["request"])
        again = adapter.dump(loaded)

        for message in exchange["request"].get("messages", ()):
            if not message.get("tool_calls", True):
                del message["tool_calls"]

        assert again.payload.items() <= exchange["request"].items()
        assert () == again.lost
        # Some were sent to hosts that take more, or go on with what is stored there.
        if not judge(name, exchange["request"], level="api"):
            sent = {**exchange["request"], **again.payload}
            assert () == judge(name, sent, level="api")
