"""
The smallest whole adapter, and what the test file of an adapter has at least.
"""

from typing import ClassVar

import attrs
from hypothesis import strategies as st

from conversation_state.adapters import openai_chat
from conversation_state.adapters._notes import notes_of
from conversation_state.messages import AssistantMessage, UserMessage
from conversation_state.parts import TextPart, UnknownPart
from conversation_state.testing import check_adapter
from conversation_state.testing.strategies import json_values, texts
from tests.adapters import example
from tests.adapters.contract import FormatContract
from tests.adapters.helpers import both, exactly, some

TEXT = both(exactly(kind=st.just("text"), text=texts()), some(newer=json_values()))
STICKER = exactly(kind=st.just("sticker"), code=texts())
CONTENT = exactly(content=texts() | st.lists(TEXT | STICKER, max_size=3))
IDS = st.sampled_from(["", "call_1", "call_2"])
CALL = both(exactly(name=texts(), arguments=texts()), some(id=IDS))
MESSAGES = st.one_of(
    both(
        exactly(role=st.sampled_from(["system", "user", "guest"])),
        CONTENT,
        some(name=texts(), newer=json_values()),
    ),
    both(
        exactly(role=st.just("assistant")),
        CONTENT,
        some(tool_calls=st.none() | st.lists(CALL, max_size=2)),
    ),
    both(exactly(role=st.just("tool")), CONTENT, some(tool_call_id=IDS)),
)
CONVERSATIONS = st.lists(MESSAGES, max_size=4).map(
    lambda history: {"messages": history}
)
COUNTS = st.integers(0, 2**63 - 1)
RESPONSES = both(CONVERSATIONS, exactly(usage=some(input=COUNTS, output=COUNTS)))


class TestContract(FormatContract):
    """
    What all adapters promise.
    """

    adapter: ClassVar = example
    documents: ClassVar = CONVERSATIONS
    responses: ClassVar = RESPONSES

    def normalise(self, message):
        """
        A call without an id gets one.
        """
        if not isinstance(message, AssistantMessage):
            return super().normalise(message)

        calls = [
            attrs.evolve(
                call,
                id="" if "made_id" in notes_of(call.metadata, "example") else call.id,
            )
            for call in message.tool_calls
        ]
        return super().normalise(message.replace(tool_calls=calls))


def test_public_contract():
    """
    And the public contract for adapters.
    """
    check_adapter(example)


def test_sticker():
    """
    A block without a part of ours comes back here, and is lost elsewhere.
    """
    raw = {"kind": "sticker", "code": "wave"}
    content = [{"kind": "text", "text": "Hi!"}, raw]
    payload = {"messages": [{"role": "user", "content": content}]}

    messages = example.load(payload)
    (lost,) = openai_chat.dump(messages).lost

    expected = [TextPart("Hi!"), UnknownPart(raw, source="example")]
    assert (UserMessage(expected),) == messages
    assert payload == example.dump(messages).payload
    assert ("messages[0].parts[1]", "unknown") == (lost.path, lost.what)
