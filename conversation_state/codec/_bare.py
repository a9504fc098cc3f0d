"""
Bare values: single messages and ledger entries, without a document around them.

For whoever keeps many of them beside each other and says elsewhere what they
are (`store`). What is written is what stands in a document: a message is the
same text wherever it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conversation_state._canonical import dump
from conversation_state.aggregator import LedgerEntry
from conversation_state.codec._messages_in import read_messages, read_usage, strict
from conversation_state.codec._messages_out import message_out, usage_out
from conversation_state.codec._reading import Read, Reader, many, one
from conversation_state.messages import Message
from conversation_state.usage import Usage

__all__ = ["bare_ledger_entry", "bare_message", "bare_messages", "bare_payments"]


def bare_message(message: Message) -> bytes:
    """
    *message* as JSON text. Deterministic; about a microsecond.

    Raises:
        TypeError:
            If it is of no class of this library.
    """
    return dump(message_out(message))


def bare_ledger_entry(entry: LedgerEntry) -> bytes:
    """
    What *entry* says beside its identity, as JSON text. Deterministic.
    """
    data: dict[str, Any] = {"usage": usage_out(entry.usage)}
    if entry.model:
        data["model"] = entry.model

    return dump(data)


def bare_messages(raw: Sequence[Any]) -> list[Message]:
    """
    The messages that plain JSON values are of.

    Raises:
        DecodeError:
            If they are of none; each path starts with the position in *raw*.
    """
    return _read(read_messages, raw)


def bare_payments(raw: Sequence[Any]) -> list[tuple[Usage, str]]:
    """
    Usage and model of the ledger entries that plain JSON values are of.

    Raises:
        DecodeError:
            As `bare_messages` does.
    """
    return _read(_PAYMENTS, raw)


def _read(read: Read, raw: Sequence[Any]) -> list[Any]:
    reader = Reader()
    values: list[Any] | None = read(reader, raw, None)
    if reader.problems.count or values is None:
        raise reader.problems.error()

    return values


def _payment(*, usage: Usage, model: str = "") -> tuple[Usage, str]:
    return usage, model


_PAYMENTS = many(one(strict(_payment, "usage", usage=read_usage, model=Reader.text)))
