"""
Equality of values down to their encoded bytes, so that True is not 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from conversation_state.aggregator import Aggregator, Checkpoint, LedgerEntry, Turn
from conversation_state.codec import encode, encode_ledger_entry, encode_message
from conversation_state.messages import Message

__all__ = ["is_same"]


def is_same(a: object, b: object) -> bool:
    """
    Whether two values are equal and are encoded as the same bytes.

    Equality is not enough: True, 1 and 1.0 are equal, and so are 0.0 and -0.0, and one
    time with two offsets; each of them is other JSON.
    """
    return a is b or (bool(a == b) and _encode_types(a) == _encode_types(b))


def _encode_types(value: object) -> Any:
    """
    What has to be the same beside the value: messages, states and the like as bytes,
    numbers with their types.
    """
    if isinstance(value, Message):
        return encode_message(value)

    if isinstance(value, LedgerEntry):
        return encode_ledger_entry(value)

    if isinstance(value, (Aggregator, Checkpoint, Turn)):
        return encode(value)

    if isinstance(value, Mapping):
        return {key: _encode_types(each) for key, each in value.items()}

    if isinstance(value, (list, tuple)):
        return [_encode_types(each) for each in value]

    # Of other values equality is enough: a subclass of str is the same text in JSON.
    return json.dumps(value) if isinstance(value, (int, float)) else None
