"""
Words of LangChain's that both directions need.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = [
    "ASIDES",
    "CALL_BLOCKS",
    "CLASSES",
    "DEFAULTS",
    "MODELS",
    "REASONS",
    "ROLES",
    "SIGNERS",
    "SOURCE",
    "CallBlock",
]

# The name under which notes are kept, and whose word an unknown part is.
SOURCE = "langchain"

# Every class of message there is, and the role it has with us; "" where that
# is a matter of its own `role`, or where we have no word for it.
CLASSES: Mapping[str, str] = {
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "ChatMessage": "",
    "ChatMessageChunk": "",
    "FunctionMessage": "",
    "FunctionMessageChunk": "",
    "HumanMessage": "user",
    "HumanMessageChunk": "user",
    "RemoveMessage": "",
    "SystemMessage": "system",
    "SystemMessageChunk": "system",
    "ToolMessage": "tool",
    "ToolMessageChunk": "tool",
}

# The class a message of ours becomes, if no note names another.
DEFAULTS: Mapping[str, str] = {
    "assistant": "AIMessage",
    "system": "SystemMessage",
    "tool": "ToolMessage",
    "user": "HumanMessage",
}

# Roles of a `ChatMessage` that we have a word for.
ROLES: Mapping[str, str] = {
    "ai": "assistant",
    "assistant": "assistant",
    "developer": "system",
    "human": "user",
    "model": "assistant",
    "system": "system",
    "user": "user",
}

# Where providers' packages put why a response ended and which model answered;
# what has no note stands under the first of them.
REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason")
MODELS = ("model_name", "model")

# What models say beside the content: before it, or after.
ASIDES: Mapping[str, str] = {"reasoning_content": "reasoning", "refusal": "refusal"}

# Who signs, by the `model_provider` in a response: the adapter it has here.
SIGNERS: Mapping[str, str] = {
    "anthropic": "anthropic",
    "bedrock": "anthropic",
    "bedrock_converse": "anthropic",
    "google_anthropic_vertex": "anthropic",
    "google_genai": "gemini",
    "google_vertexai": "gemini",
}


class CallBlock(NamedTuple):
    """
    A block among the content that is one of the message's calls, once more.

    Attributes:
        type: The type of the block.

        id: The key of the call's id.

        arguments: The key of its arguments.

        is_text: Whether those are text, as the model wrote it.

        is_begun: Whether it was put together of pieces, and has an ``input``
            that is empty.
    """

    type: str
    id: str
    arguments: str
    is_text: bool = False
    is_begun: bool = False


CALL_BLOCKS: Mapping[str, CallBlock] = {
    "function_call": CallBlock("function_call", "call_id", "arguments", is_text=True),
    "tool_call": CallBlock("tool_call", "id", "args"),
    "tool_call_chunk": CallBlock("tool_call_chunk", "id", "args", is_text=True),
    "tool_use": CallBlock("tool_use", "id", "input"),
    "tool_use_pieces": CallBlock(
        "tool_use", "id", "partial_json", is_text=True, is_begun=True
    ),
}
