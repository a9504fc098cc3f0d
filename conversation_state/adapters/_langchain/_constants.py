"""
LangChain's constants, and its classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from conversation_state.errors import MissingExtraError

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
    "class_names",
    "document_class",
    "message_classes",
    "text_or_empty",
]

# The name of the notes of this format, and the source of unknown parts.
SOURCE = "langchain"

# All classes of messages, and our role for each; "" if the role is a field of the
# message, or if our model has no such role.
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

# Our roles for those of a `ChatMessage`.
ROLES: Mapping[str, str] = {
    "ai": "assistant",
    "assistant": "assistant",
    "developer": "system",
    "human": "user",
    "model": "assistant",
    "system": "system",
    "user": "user",
}

# The keys under which providers' packages have the finish reason and the model. `dump`
# writes the first one, unless a note names another.
REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason")
MODELS = ("model_name", "model")

# The keys in the ``additional_kwargs`` whose texts become parts, and their kinds.
# Reasoning stands before the content, a refusal after it.
ASIDES: Mapping[str, str] = {"reasoning_content": "reasoning", "refusal": "refusal"}

# The adapter of the provider that signs reasoning, by the `model_provider` in a
# response.
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
    A kind of block in the content that repeats one of the message's calls.

    Attributes:
        type: The type of the block.

        id: The key of the call's id.

        arguments: The key of its arguments.

        is_text: Whether the arguments are a text, as the model wrote it.

        is_begun: Whether the block was joined from the pieces of a stream, so that it
            also has an empty ``input``.
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


def text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


@cache
def message_classes() -> Mapping[str, type[Any]]:
    """
    The classes of messages, by name.

    Raises:
        MissingExtraError:
            If LangChain is not installed.
    """
    try:
        from langchain_core import messages  # noqa: PLC0415 - an extra
    except ImportError as error:
        msg = "messages of LangChain"
        raise MissingExtraError(msg, "langchain") from error

    return {name: getattr(messages, name) for name in CLASSES}


@cache
def class_names() -> Mapping[type[Any], str]:
    return {kind: name for name, kind in message_classes().items()}


@cache
def document_class() -> type[Any]:
    from langchain_core.documents import Document  # noqa: PLC0415 - an extra

    return Document
