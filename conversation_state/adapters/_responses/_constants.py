"""
Constants of the format.
"""

from __future__ import annotations

__all__ = [
    "ADDRESS",
    "CALLERS",
    "CALLS",
    "MEDIA",
    "NOISE",
    "RESULTS",
    "SOURCE",
    "TEXTS",
    "text_block",
]

# The name of the format: of its notes, and the source of its unknown parts.
SOURCE = "openai_responses"

# The blocks that are nothing but text.
TEXTS = frozenset({"input_text", "output_text", "text"})

# The blocks that hold media, by the kind of part.
MEDIA = {"audio": "input_audio", "file": "input_file", "image": "input_image"}

# The items that are calls of the caller's own tools, and the key of what they
# are called with; and those that are their results, by the type of the call.
CALLS = {"custom_tool_call": "input", "function_call": "arguments"}
RESULTS = {"custom": "custom_tool_call_output", "function": "function_call_output"}

# The items of a history that the caller made, not the model: they part one
# response from the next. Those of a response are all the provider's.
CALLERS = frozenset(
    {
        "additional_tools",
        "apply_patch_call_output",
        "compaction_trigger",
        "computer_call_output",
        "configuration_update",
        "local_shell_call_output",
        "mcp_approval_response",
        "shell_call_output",
        "tool_search_output",
        *RESULTS.values(),
    }
)

# Keys of events without information: `obfuscation` is padding against those who
# measure the length of messages. And which item it is about.
NOISE = frozenset({"obfuscation", "sequence_number", "type"})
ADDRESS = NOISE | {"item_id", "output_index"}


def text_block(role: str) -> str:
    """
    The block that has the text of *role*.
    """
    return "output_text" if role == "assistant" else "input_text"
