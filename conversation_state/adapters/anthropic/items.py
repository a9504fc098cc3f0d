"""
Messages one by one: what `adapters.sessions` needs of this format, whose files are
lines and no requests.
"""

from conversation_state.adapters.anthropic._blocks import SOURCE, arguments_of, input_of
from conversation_state.adapters.anthropic._dump import write_message

__all__ = ["SOURCE", "arguments_of", "input_of", "write_message"]
