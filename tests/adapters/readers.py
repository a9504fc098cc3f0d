"""
Short ways to read what a format has.
"""

from typing import Any

from conversation_state.adapters._notes import notes_of

__all__ = ["make_readers"]


def make_readers(adapter: Any) -> tuple[Any, Any, Any]:
    """
    Three functions for the format of *adapter*: the one message that a raw one is;
    the messages of a payload, of whatever class; the notes about a value.
    """
    _, _, name = adapter.__name__.rpartition(".")

    def read_one(raw: Any) -> Any:
        (message,) = adapter.load([raw])
        return message

    def read_notes(value: Any) -> Any:
        return notes_of(value.metadata, name)

    return read_one, adapter.load, read_notes
