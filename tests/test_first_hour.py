"""
What a newcomer gets wrong: each error says the line to write.

What a state's own verbs are given is in ``test_aggregator.py``, a store's in
``store/test_store.py``.
"""

import json
import operator
import pickle
import re
from typing import Any

import attrs
import pytest

from conversation_state import (
    Aggregator,
    AssistantMessage,
    Cell,
    MessageTree,
    Timeline,
    TokenBudget,
    ToolCall,
    ToolInfo,
    ToolMessage,
    Trimmer,
    Usage,
    UserMessage,
    concat,
    decode,
    fit,
    open_store,
    repair,
    trim,
)
from conversation_state.adapters import (
    ag_ui,
    ai_sdk,
    anthropic,
    gemini,
    openai_chat,
    openai_responses,
)
from conversation_state.errors import (
    ConversationStateError,
    DecodeError,
    InvalidMessageError,
    MissingExtraError,
    NotSavedError,
)
from conversation_state.parts import ImagePart
from conversation_state.stored_chat import StoredChat
from conversation_state.testing import check_agent
from conversation_state.testing.provider import StrictProvider
from conversation_state.tool_calls import call
from tests.processes import run_script

RUN: Any = {"threadId": "t", "runId": "r"}
RUN |= {"messages": [{"id": "u1", "role": "user", "content": "Hi"}]}
PART: Any = {"type": "text", "text": "Hi"}
PAIRS: Any = [("user", "Hi")]
POSTED: Any = {"id": "c", "messages": [{"id": "u1", "role": "user", "parts": [PART]}]}
SENT = {"role": "user", "content": "Hi"}
SENT_LIST: Any = [SENT]
ASKED: Any = Aggregator.new().add_user_prompt("Hi")
BUDGET = TokenBudget(context_window=100)
# As in a program without types.
STORE: Any = open_store("memory:")
EXPORT: Any = openai_chat.dump(ASKED)
STEPS: Any = (fit, repair)
CHAT: Any = StoredChat(STORE, "a chat")
VIEW: Any = trim(ASKED, BUDGET)
CALL = ToolCall("c", "f")
TOOL: Any = ToolInfo("f")
RUN_CALL: Any = call
USER: Any = UserMessage
TRIM: Any = trim
CONCAT: Any = concat
PROVIDER: Any = StrictProvider
CHECK: Any = check_agent
OPENAI: Any = openai_chat
RESPONSES: Any = openai_responses
UI: Any = ag_ui
RESULT: Any = ToolMessage
IMAGE: Any = ImagePart
CLASSES: Any = (Aggregator, Timeline, MessageTree, StoredChat)


class TestObjectsOfSdks:
    """`load` reads JSON, and an SDK's object has a method that makes it."""

    def test_openai(self):
        """A response, and a message in a list."""
        types = pytest.importorskip("openai.types.chat")
        said = types.ChatCompletionMessage(role="assistant", content="Hi")
        choice = {"index": 0, "finish_reason": "stop", "message": said}
        answer = types.ChatCompletion(
            id="1", object="chat.completion", created=1, model="m", choices=[choice]
        )

        for given in answer, [said]:
            with pytest.raises(DecodeError) as caught:
                openai_chat.load(given)
            assert "with its to_dict(mode='json')" in str(caught.value)
        assert "Hi" == openai_chat.load(answer.to_dict(mode="json"))[0].text

    def test_anthropic(self):
        """A response, and an event of a stream."""
        types = pytest.importorskip("anthropic.types")
        answer = types.Message(
            id="1",
            type="message",
            role="assistant",
            model="m",
            content=[types.TextBlock(type="text", text="Hi")],
            usage=types.Usage(input_tokens=1, output_tokens=1),
        )
        event = types.RawMessageStopEvent(type="message_stop")

        with pytest.raises(DecodeError, match=r"its to_dict\(mode='json'\)"):
            anthropic.load(answer)
        with pytest.raises(DecodeError, match="load_chunks and aload_chunks read"):
            anthropic.load(iter([event]))
        with pytest.raises(DecodeError, match=r"to_dict\(mode='json'\)"):
            list(anthropic.load_chunks([event]))
        assert "Hi" == anthropic.load(answer.to_dict(mode="json"))[0].text

    def test_gemini(self):
        """Google's client writes its own names only if it is asked to."""
        types = pytest.importorskip("google.genai.types")
        content = {"role": "model", "parts": [{"text": "Hi"}]}
        answer = types.GenerateContentResponse(candidates=[{"content": content}])

        with pytest.raises(DecodeError) as caught:
            gemini.load(answer)
        assert "model_dump(mode='json', by_alias=True, exclude_none=True)" in str(
            caught.value
        )
        payload = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert "Hi" == gemini.load(payload)[0].text

    @pytest.mark.parametrize(
        "adapter",
        [openai_chat, openai_responses, anthropic, gemini],
        ids=lambda adapter: adapter.__name__.rpartition(".")[2],
    )
    def test_text(self, adapter):
        """JSON that was not parsed."""
        with pytest.raises(DecodeError, match=r"json\.loads\(text\)"):
            adapter.load(json.dumps([SENT]))


class TestOtherProviders:
    @pytest.mark.parametrize(
        ("adapter", "payload", "line"),
        [
            (anthropic, {"choices": []}, "openai_chat.load(response) reads it"),
            (openai_chat, {"candidates": []}, "gemini.load(response) reads it"),
            (gemini, {"messages": [SENT]}, "openai_chat.load(request) reads it"),
            (openai_responses, {"choices": []}, "openai_chat.load(response) reads it"),
            (gemini, [SENT], "$[0]: has no parts; openai_chat.load(messages) reads"),
            (gemini, [{"role": "user", "content": [PART]}], "$[0]: has no parts"),
            (gemini, [{"type": "function_call", "name": "f"}], "$[0]: has no parts"),
            (gemini, [{"choices": []}], "$[0]: has no parts"),
        ],
        ids=map(str, range(8)),
    )
    def test_load(self, adapter, payload, line):
        """A payload of another provider names the adapter that reads it."""
        with pytest.raises(DecodeError) as caught:
            adapter.load(payload)

        assert line in str(caught.value)

    def test_unlike_any(self):
        """What is like no provider's is given no advice."""
        with pytest.raises(DecodeError) as caught:
            openai_chat.load({"a": 1})

        assert "reads it" not in str(caught.value)

    async def test_events(self):
        """Lines are no events yet, and async code has functions of its own."""
        with pytest.raises(DecodeError, match=r"adapters\.events\(lines\)"):
            list(openai_chat.load_chunks(['data: {"choices": []}']))
        wrong: Any = [{}]
        with pytest.raises(TypeError, match=r"; load_chunks\(events\)"):
            [each async for each in openai_chat.aload_chunks(wrong)]

    pytestmark = pytest.mark.anyio


class TestDecode:
    @pytest.mark.parametrize(
        ("data", "line"),
        [
            ({"messages": [SENT]}, "Aggregator.new(openai_chat.load(request))"),
            ([SENT], "Aggregator.new(openai_chat.load(messages))"),
            (SENT, "Aggregator.new(openai_chat.load([message]))"),
            ({"id": "1", "choices": []}, "Aggregator.new(openai_chat.load(response))"),
            ({"candidates": []}, "Aggregator.new(gemini.load(response))"),
            ({"contents": []}, "Aggregator.new(gemini.load(request))"),
            ({"output": []}, "Aggregator.new(openai_responses.load(response))"),
        ],
        ids=map(str, range(7)),
    )
    def test_json_of_a_provider(self, data, line):
        """A provider's JSON is no document of this library's; an adapter loads it."""
        with pytest.raises(DecodeError) as caught:
            decode(json.dumps(data))

        assert line in str(caught.value)

    @pytest.mark.parametrize("data", ["{}", "[]", "[1]", '{"version": 1}'])
    def test_other_json(self, data):
        """What has no key of a provider's is not taken for one."""
        with pytest.raises(DecodeError) as caught:
            decode(data)

        assert "load(" not in str(caught.value)


class Events:
    """Of a client for async code."""

    async def __aiter__(self) -> Any:
        yield {}


EVENTS: Any = Events()


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: EXPORT["messages"], "export.payload['messages']"),
        (lambda: EXPORT.messages, "create(**export.payload)"),
        (lambda: trim(ASKED, BUDGET, STEPS[0]), "as in fit()"),
        (lambda: Trimmer(BUDGET, STEPS[1]), "as in repair()"),
        (lambda: ASKED.fork(at="u1"), "state.before(entry_id).fork()"),
        (lambda: STORE.save("a", trim(ASKED, BUDGET)), "save the state"),
        (lambda: STORE.load(ASKED), "store.load(name) returns it"),
        (lambda: STORE.update(ASKED, len), "store.save(name, state)"),
        (lambda: STORE.get("a"), "store.load(name, default=None)"),
        (lambda: STORE.list("a"), "store.names()"),
        (lambda: STORE.put("a", ASKED), "'save'"),
        (lambda: CLASSES[0]([ASKED[0]]), "Aggregator.new()"),
        (lambda: CLASSES[1](ASKED), "Timeline.begin(state)"),
        (lambda: CLASSES[2](ASKED), "MessageTree.of(*states)"),
        (lambda: CLASSES[3]("memory:", "a"), "StoredChat(open_store(url), name)"),
        (lambda: list(openai_chat.load_chunks(EVENTS)), "aload_chunks(events)"),
        (lambda: CHAT.ask("Hi"), "'answer'"),
        (lambda: CHAT.messages, "chat.timeline.present"),
        (lambda: VIEW.append(ASKED[0]), "trim(state.add(message), budget)"),
        (lambda: VIEW.tokens, "'total_tokens'"),
        (lambda: CHAT.answer("Hi", lambda _: "Hello."), "let it yield chunks"),
        (lambda: CHAT.answer("Hi", lambda _: ASKED[0]), "yield AssistantMessage(text)"),
    ],
    ids=map(str, range(22)),
)
def test_other_names(call, line):
    """What requests, stores and steps are taken for: the error says what to write."""
    with pytest.raises((TypeError, AttributeError), match=re.escape(line)):
        call()


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: ASKED + ASKED[0], "state = state.add(message), extend(messages)"),
        (lambda: operator.setitem(ASKED, 0, ASKED[0]), "replace_message(entry_id"),
        (lambda: operator.delitem(ASKED, 0), "state.without([entry_id])"),
        (lambda: operator.setitem(ASKED.messages, 0, PART), "replace_message("),
        (lambda: ASKED["x"], "expected an integer or a slice, got a str: 'x'"),
        (lambda: ASKED.before(ASKED.entries[0]), "expected an entry's .id, got an E"),
        (lambda: ASKED.before(0), "expected an entry's .id, got an int: 0; state.ent"),
        (
            lambda: RUN_CALL([print], CALL),
            "a mapping of names to functions, got a list",
        ),
        (
            lambda: RUN_CALL({"f": "f"}, CALL),
            "a mapping of names to functions, got a str",
        ),
        (lambda: RESULT({"a": 1}, tool_call_id="c"), "json.dumps(result)"),
        (lambda: RESULT([1], tool_call_id="c"), "json.dumps(result)"),
        (lambda: RESULT(SENT, tool_call_id="c"), "openai_chat.load([message])"),
        (lambda: RESULT([PART], tool_call_id="c"), "openai_chat.load("),
        (lambda: IMAGE("cat.png"), "ImagePart takes no positional arguments; give url"),
        (
            lambda: OPENAI.dump("Hi"),
            "a list of Messages, got a str: 'Hi'",
        ),
        (
            lambda: RESPONSES.dump(SENT),
            "a list of Messages, got a dict",
        ),
        (lambda: UI.dump("Hi"), "a list of Messages, got a str: 'Hi'"),
        (lambda: USER(["Hi"]), "TextPart(text) makes a part of it"),
        (lambda: USER("Hi", usage=Usage(1)), "ResponseMeta(usage=...)"),
        (lambda: attrs.evolve(ASKED[0], content="a"), "message.replace(content=...)"),
        (lambda: ASKED.add_usage(100), "Usage(prompt_tokens, completion_tokens)"),
        (lambda: TRIM("Hi", BUDGET), "a state or Messages, got a str: 'Hi'"),
        (lambda: CONCAT("Hi"), "a list of Messages, got a str: 'Hi'"),
        (lambda: PROVIDER("Hi"), "a list of answers, got a str: 'Hi'"),
        (lambda: CHECK(print, tools=TOOL), "functions or ToolInfos, got a ToolInfo"),
    ],
    ids=map(str, range(25)),
)
def test_other_values(call, line):
    """What lists, functions and results are taken for: so does its error."""
    with pytest.raises(
        (TypeError, LookupError, ConversationStateError), match=re.escape(line)
    ):
        call()


@pytest.mark.parametrize(
    ("value", "name", "line"),
    [
        (ASKED, "messages", "state = state.add(message), extend(messages)"),
        (ASKED[0], "content", "message.replace(...) is a changed copy"),
        (ASKED[0].parts[0], "text", "attrs.evolve(value, text=...) is a changed copy"),
        (VIEW, "messages", "its methods return the next one"),
        (Timeline.begin(ASKED), "present", "timeline = timeline.commit(state)"),
    ],
    ids=map(str, range(5)),
)
def test_assignments(value, name, line):
    """
    What is assigned to a value, or deleted: its error says what to write, in another
    process, too.
    """
    for change in (lambda: setattr(value, name, ()), lambda: delattr(value, name)):
        with pytest.raises(AttributeError, match=re.escape(line)) as caught:
            change()

        assert "never changes" in str(caught.value)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("value", "name", "line"),
    [
        (Usage(1), "input_tokens", "'prompt_tokens'"),
        (CALL, "args", "'arguments'"),
        (CALL, "function", "call.arguments"),
        (ASKED[0], "id", "state.entries[-1].id"),
        (AssistantMessage("Hi"), "usage", "message.response.usage"),
        (ASKED.entries[0], "text", "entry.message.text"),
        (Timeline.begin(ASKED), "state", "'present'"),
        (MessageTree.of(ASKED), "messages", "'present'"),
        (Cell(ASKED), "set", "'swap'"),
        (STORE, "exists", "name in store"),
    ],
    ids=map(str, range(10)),
)
def test_other_attributes(value, name, line):
    """Names that others have: the error says ours, and `dir` lists none of them."""
    with pytest.raises(AttributeError, match=re.escape(line)):
        getattr(value, name)
    assert name not in dir(value)


def test_missing_revision():
    """A revision or label that there is not: the error says what its name has."""
    STORE.save("a name", ASKED, label="first")

    for at, line in ((7, "is at revision 1"), ("x", "has 'first'")):
        with pytest.raises(NotSavedError, match=f"'a name' {line}$"):
            STORE.load("a name", at=at)


def test_names_that_are_missing():
    """Such a name is no attribute: nothing is listed, and `hasattr` is false."""
    assert not {"get", "keys", "put"} & {*dir(STORE)}
    assert not {"messages", "keys"} & {*dir(EXPORT)}
    assert not hasattr(STORE, "get")
    assert {"save", "load", "rollback", "history"} <= {*dir(STORE)}


def test_arguments_of_a_call():
    """A call has the JSON text that the model wrote, and not its value."""
    arguments: object = {"city": "Bern"}
    with pytest.raises(InvalidMessageError, match=r"json\.dumps\(arguments\)"):
        ToolCall("c1", "departures", arguments)  # type: ignore[arg-type]


def test_errors_are_ours():
    """What is refused with advice is an error of this library's, as before."""
    with pytest.raises(ConversationStateError):
        Aggregator.new([SENT])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "line",
    [
        "from conversation_state.testing import check_reducer",
        "from conversation_state.testing import states",
        "import conversation_state.testing.strategies",
        "import conversation_state.testing.machines",
    ],
)
def test_missing_extra(line):
    """Without Hypothesis the extra is named."""
    script = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "from conversation_state.errors import MissingExtraError\n"
        f"try:\n    {line}\n"
        "except MissingExtraError as error:\n    print(error)"
    )

    assert "conversation-state[testing]" in run_script(script)
    assert issubclass(MissingExtraError, ImportError)


def test_a_number_in_quotes():
    """A revision's number that is a text is no label."""
    STORE.save("a number", ASKED)

    with pytest.raises(NotSavedError, match="a revision's number is an int: 1"):
        STORE.rollback("a number", "1")


class TestRequestsOfPages:
    @pytest.mark.parametrize(
        "asked", [ag_ui.load_input(RUN), ai_sdk.load_request(POSTED)]
    )
    def test_a_state(self, asked):
        """What a page posts is read with a tree, which is made of a state."""
        with pytest.raises(TypeError, match=r"MessageTree\.of\(state\) makes one"):
            asked.resume_from(ASKED)

    def test_start(self):
        """A chat starts with a state, which is made of messages."""
        with pytest.raises(TypeError, match=r"Aggregator\.new\(messages\) makes one"):
            StoredChat(STORE, "a start", start=SENT_LIST)


class TestJsonInOtherPlaces:
    """JSON where Messages are expected: the error names what loads it."""

    @pytest.mark.parametrize(
        ("act", "line"),
        [
            (lambda: UserMessage(PART), "openai_chat.load(["),
            (lambda: UserMessage([PART]), "load([{'role'"),
            (lambda: openai_chat.dump(SENT_LIST), "openai_chat.load([message])"),
            (lambda: Aggregator.new(PAIRS), "UserMessage(text) or"),
            (lambda: [*openai_chat.load_chunks({"choices": []})], "load(response)"),
            (lambda: CHAT.answer({"id": "c", "messages": []}, print), "ai_sdk.load_re"),
            (lambda: CHAT.answer(RUN, print), "ag_ui.load_input(body)"),
        ],
    )
    def test_advice(self, act, line):
        """A part, a message, a pair, a whole response, and requests of interfaces."""
        with pytest.raises(ConversationStateError, match=re.escape(line)):
            act()

    @pytest.mark.parametrize("is_whole", [True, False])
    def test_newest_of_a_run(self, is_whole):
        """A request of AG-UI is asked by its newest message, under its own id."""
        run: Any = ag_ui.load_input(RUN)
        asked: Any = run if is_whole else run.messages[-1]
        chat = StoredChat(open_store("memory:"), "a run")
        answer: Any = chat.answer(asked, lambda _: iter([AssistantMessage("Hello!")]))

        assert ["Hi", "Hello!"] == [each.text for each in answer.result()]
        asked_at = chat.tree.question(chat.tree.find(answer.id))
        assert asked_at == chat.tree.find("u1")
        events = [*ag_ui.dump_chunks(answer, message_id=answer.id)]
        assert {answer.id} == {each["messageId"] for each in events}
