"""
The requests that the kit writes by hand are what the providers' own packages take:
valid by their parameter types, which know all of their keys, and by the rules of the
strict provider; and they say the conversation.
"""

import json
from collections.abc import Collection, Iterable
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given
from pydantic import ConfigDict, TypeAdapter

from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import (
    ImagePart,
    ReasoningPart,
    TextPart,
    UnknownPart,
)
from conversation_state.testing._wire_answers import Numbers, write_answer
from conversation_state.testing._wire_requests import write_request
from conversation_state.testing.provider import judge
from conversation_state.testing.shapes import write_shapes
from conversation_state.testing.strategies import conversations
from conversation_state.tools import ToolCall
from tests.adapters.helpers import PROVIDERS
from tests.later import Later
from tests.profiles import fewer

openai: Any = Later.or_skip("openai", "OpenAI's package is not installed")
anthropic_sdk: Any = Later.or_skip("anthropic", "Anthropic's package is not installed")
genai: Any = Later.or_skip("google.genai", "Google's package is not installed")

# The type of what a request has under each of its keys, one or a list of it.
TYPES = {
    "openai_chat": lambda: {"messages": openai.types.chat.ChatCompletionMessageParam},
    "openai_responses": lambda: {
        "input": openai.types.responses.ResponseInputItemParam
    },
    "anthropic": lambda: {
        "system": anthropic_sdk.types.TextBlockParam,
        "messages": anthropic_sdk.types.MessageParam,
    },
    "gemini": lambda: {
        "systemInstruction": genai.types.Content,
        "contents": genai.types.Content,
    },
}
# What shapes of conversations break on purpose: who loads a request has to mend it.
ON_PURPOSE = {
    "call_without_result",
    "failed_result_with_media",
    "id_characters",
    "id_empty",
    "id_too_long",
    "id_twice",
    "item_twice",
    "reasoning_without_item",
    "result_without_call",
    "thinking_at_end",
    "trailing_space",
}
# What any text, and any message among those of shapes, may break besides.
OF_ANY_CONTENT = {
    "blank_text",
    "call_out_of_turn",
    "image_format",
    "image_url",
    "image_without_type",
    "item_id_characters",
    "name_characters",
    "name_empty",
    "result_of_unknown_call",
}
# What a request without messages breaks, as that of a conversation of empty texts is.
OF_NOTHING = {"empty_array", "input_missing", "no_contents", "no_message"}
# Have a form of their own for refusals, and arguments as text; the others have blocks.
NATIVE = {"openai_chat", "openai_responses"}


@cache
def readers(wire: str) -> dict[str, "TypeAdapter[Any]"]:
    """What reads a list of what is under each key of a request, and no other key."""
    closed = None if wire == "gemini" else ConfigDict(extra="forbid")
    lists: Any = list
    return {
        key: TypeAdapter(lists[kind], config=closed)
        for key, kind in TYPES[wire]().items()
    }


def read(wire: str, request: dict[str, Any]) -> None:
    """Read *request* as the package's own types."""
    for key, value in request.items():
        if not isinstance(value, str):
            listed = value if isinstance(value, list) else [value]
            read_all(readers(wire)[key].validate_json(json.dumps(listed)), listed)


def read_all(value: Any, source: Any) -> None:
    """Read what is read when it is asked for; texts are taken for lists of texts."""
    if isinstance(value, dict):
        for key, each in value.items():
            read_all(each, source[key])
    elif not isinstance(value, str) and isinstance(source, list):
        for each, origin in zip(value, source, strict=True):
            read_all(each, origin)


def as_object(arguments: str) -> Any:
    """Arguments as an object; what is none is {}, as a block can't say it."""
    try:
        value = json.loads(arguments)
    except ValueError:
        return {}

    return value if isinstance(value, dict) else {}


def said_of_part(wire: str, role: str, part: Any) -> Any:
    """What *wire* can say of *part*; None if nothing."""
    if isinstance(part, ImagePart):
        is_sent = role != "tool" or wire == "anthropic"
        return ("image", part.url or part.data) if is_sent else None

    if isinstance(part, ReasoningPart):
        if wire == "gemini":  # a signature stands elsewhere
            return ("reasoning", part.text) if part.text else None

        is_sent = wire != "openai_chat"
        return ("reasoning", part.text, part.signature) if is_sent else None

    text = getattr(part, "text", "")
    kind = part.kind if wire in NATIVE else "text"
    return (role, kind, text) if text else None


def said(
    wire: str, messages: Iterable[Message], ids: Collection[str]
) -> tuple[str, list[Any]]:
    """
    Instructions, and all else that *wire* can say of *messages*, in order; of calls and
    results those *ids* that were sent. Calls are behind all texts of answers in a row,
    which some wires have as one.
    """
    instructions, found, calls = "", list[Any](), list[Any]()
    for message in messages:
        if message.role == "system" and wire not in NATIVE:
            instructions += "".join(message.text.split())
            continue

        atoms = [said_of_part(wire, message.role, part) for part in message.parts]
        if message.role == "tool" or (message.role != "assistant" and any(atoms)):
            found += calls
            calls.clear()

        if isinstance(message, ToolMessage):
            id_ = message.tool_call_id if message.tool_call_id in ids else ""
            found.append(("result", id_, message.is_error and wire not in NATIVE))

        for atom in filter(None, atoms):
            is_more = found and found[-1][:2] == atom[:2] and len(atom) == 3
            before = found.pop()[2] if is_more else ""
            found.append((*atom[:2], before + atom[2]) if is_more else atom)

        for call in message.tool_calls:
            arguments = call.arguments if wire in NATIVE else as_object(call.arguments)
            id_ = call.id if call.id in ids else ""
            calls.append(("call", id_, call.name, arguments))

    return instructions, found + calls


def check(
    wire: str, messages: Iterable[Message], without: Collection[str] = ()
) -> None:
    """All that is promised of a request, *without* some rules of its provider."""
    request = write_request(wire, messages)
    read(wire, request)

    ids = {call.id for message in messages for call in message.tool_calls}
    ids |= {getattr(message, "tool_call_id", "") for message in messages}
    ids = set[str]() if wire == "gemini" else ids
    expected = said(wire, messages, ids)
    broken = {*ON_PURPOSE, *without} | (set() if expected[1] else OF_NOTHING)
    assert () == judge(wire, request, level="api", without=broken)
    assert expected == said(wire, PROVIDERS[wire].load(request), ids)
    if wire == "gemini":
        signed = [
            message
            for message in messages
            if message.tool_calls
            and any(getattr(part, "signature", "") for part in message.parts)
        ]
        assert len(signed) == json.dumps(request).count("thoughtSignature")


@pytest.mark.parametrize("wire", PROVIDERS)
class TestRequests:
    def test_of_shapes(self, wire):
        """Of each shape of the kit."""
        for messages in write_shapes().values():
            check(wire, messages)

    @fewer()
    @given(messages=conversations(max_turns=4))
    @example(messages=[])
    @example(messages=[UserMessage("")])
    @example(messages=[SystemMessage("Be brief."), UserMessage("")])
    @example(messages=[UserMessage("So?"), AssistantMessage(" \n")])
    @example(messages=[AssistantMessage(tool_calls=[ToolCall("c1", "", "{}")])])
    @example(messages=[AssistantMessage("Hi.", response=ResponseMeta(id="a b"))])
    @example(
        messages=[
            UserMessage("So?"),
            AssistantMessage(tool_calls=[ToolCall("c1", "clock", "{}")]),
            UserMessage(""),
            AssistantMessage("Not yet."),
        ]
    )
    @example(
        messages=[
            UserMessage("So?"),
            AssistantMessage(tool_calls=[ToolCall("c1", "clock", "{}")]),
            ToolMessage("", tool_call_id="another"),
            ToolMessage("12:30", tool_call_id="c1"),
        ]
    )
    def test_of_conversations(self, wire, messages):
        """Of whatever `conversations` draws."""
        check(wire, messages, OF_ANY_CONTENT)

    def test_of_nothing_to_say(self, wire):
        """Empty texts, and parts that are no wire's, leave nothing behind."""
        odd = [TextPart(""), UnknownPart({"type": "sticker"})]
        said = [UserMessage([*odd, TextPart("Hi.")]), AssistantMessage([*odd])]
        said += [UserMessage("So?"), AssistantMessage([*odd, TextPart("Yes.")])]
        check(wire, said)
        loaded = PROVIDERS[wire].load(write_request(wire, said))
        parts = [part for message in loaded for part in message.parts]

        assert ["Hi.", "So?", "Yes."] == [part.text for part in parts if part.text]
        assert {"text"} == {part.kind for part in parts}


@pytest.mark.parametrize("text", ["", "Let me see."])
@pytest.mark.parametrize("calls", [[], [ToolCall("c", "f", '{"x": 1}')]])
def test_an_answer_is_sent_back_as_it_was(text, calls):
    """Chat Completions write null where an answer is calls alone; so does who asks."""
    message = AssistantMessage(text, tool_calls=calls)
    [sent] = write_request("openai_chat", [message])["messages"]
    answer = write_answer("openai_chat", message, {"model": "gpt-5"}, Numbers())
    came = answer["choices"][0]["message"]

    assert sent == {key: came[key] for key in sent}
