"""
Checks of what states are made of, and how their errors describe it.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, SupportsIndex

from conversation_state._persistent import check_text, check_time
from conversation_state._wording import describe_value, shorten_repr
from conversation_state.aggregator._entries import Entry, LedgerEntry, id_of, message_of
from conversation_state.errors import InvalidMessageError, InvalidUsageError
from conversation_state.messages import Message
from conversation_state.usage import Usage

if TYPE_CHECKING:
    from datetime import datetime

__all__ = [
    "check_entries",
    "check_fork_point",
    "check_identities",
    "check_ledger",
    "check_length",
    "describe_mismatch",
]


def check_entries(entries: Sequence[Entry]) -> None:
    """
    That *entries* hold messages with an identity each; at C speed if they do.
    """
    if {*map(type, entries)} <= {Entry}:
        kinds = {*map(type, map(message_of, entries))}
        if all(issubclass(kind, Message) for kind in kinds):
            return

    for at, entry in enumerate(entries):
        if not isinstance(entry, Entry):
            msg = f"entries[{at}]: expected an Entry, got {describe_value(entry)}"
            raise TypeError(msg)

        message: object = entry.message
        if not isinstance(message, Message):
            msg = f"entries[{at}]: expected a Message, got {describe_value(message)}"
            raise InvalidMessageError(msg)


def check_ledger(ledger: Sequence[LedgerEntry]) -> None:
    """
    That *ledger* holds usages with an identity, a model and a time each.
    """
    for at, entry in enumerate(ledger):
        if not isinstance(entry, LedgerEntry):
            msg = f"ledger[{at}]: expected a LedgerEntry, got {describe_value(entry)}"
            raise TypeError(msg)

        if not isinstance(entry.usage, Usage):
            msg = f"ledger[{at}]: expected a Usage, got {describe_value(entry.usage)}"
            raise InvalidUsageError(msg)

        check_text(entry.model, f"ledger[{at}].model", InvalidUsageError)
        if entry.at is not None:
            _check_recorded_time(entry.at, f"ledger[{at}].at")


def _check_recorded_time(time: datetime, what: str) -> None:
    fixed = check_time(time, lambda problem: InvalidUsageError(f"{what} {problem}"))
    if fixed is not time:
        # Refused, not converted as in `add_usage`: entries are taken as they are, and
        # the codec writes an offset, so this one would not equal its own copy.
        msg = (
            f"{what} is {shorten_repr(time)}, in a zone without a fixed offset; "
            "time.astimezone(timezone.utc) has one"
        )
        raise InvalidUsageError(msg)


def check_identities(name: str, items: Sequence[Entry] | Sequence[LedgerEntry]) -> None:
    """
    That the identities of *items*, which are called *name*, are texts, each once.
    """
    ids = set(map(id_of, items))
    if len(ids) != len(items):
        msg = f"{name} holds an identity more than once"
        raise ValueError(msg)

    # Subclasses of str are refused, because decoding would return plain texts.
    if not {*map(type, ids)} <= {str}:
        msg = f"{name} holds an identity that is not text"
        raise ValueError(msg)


def check_length(to: object) -> int:
    """
    *to* as a number of messages.
    """
    # True would be a rollback to the first message.
    if isinstance(to, SupportsIndex) and not isinstance(to, bool):
        return index(to)

    msg = (
        "rollback takes an Aggregator, a Checkpoint, the id of an entry or a number "
        f"of messages, got {describe_value(to)}"
    )
    raise TypeError(msg)


def check_fork_point(
    init_len: int, messages: int, init_ledger_len: int, ledger_entries: int
) -> None:
    """
    That a fork point lies inside of what there is.
    """
    for name, at, most in (
        ("init_len", init_len, messages),
        ("init_ledger_len", init_ledger_len, ledger_entries),
    ):
        if not 0 <= at <= most:
            shown = shorten_repr(at)
            msg = f"{name} is {shown}; expected 0 to {most}, the entries there are"
            raise ValueError(msg)


def describe_mismatch(verb: str, expected: str, given: object) -> str:
    """
    What a verb takes, and what it got instead.
    """
    return f"{verb} takes {expected}, got {describe_value(given)}"
