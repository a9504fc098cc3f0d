"""Checkpoints: a conversation with its id, what it cost, and where it was forked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any
from uuid import UUID

from conversation_state._wording import describe_type, format_count
from conversation_state.adapters.bubo._dump import write_envelopes
from conversation_state.adapters.bubo._load import SOURCE, BuboLoader, uuid_of
from conversation_state.adapters.engine.export import Export, PayloadWriter
from conversation_state.adapters.engine.openai import COMPLETION_DETAILS, PROMPT_DETAILS
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
)
from conversation_state.adapters.engine.usage import (
    Counted,
    find_usage_block,
    read_counts,
    read_usage_block,
    usage_in,
)
from conversation_state.aggregator import Aggregator, Checkpoint, Entry, LedgerEntry
from conversation_state.usage import Usage

# bubo has OpenAI's counts, in an order of its own, in which they are written.
_COUNTS = ("completion_tokens", "prompt_tokens", "total_tokens")
_BREAKDOWNS = {
    "completion_tokens_details": COMPLETION_DETAILS,
    "prompt_tokens_details": PROMPT_DETAILS,
}
_NOTHING = Usage()
_NIL = UUID(int=0)


def load_checkpoint(payload: Any) -> Checkpoint:
    """
    The checkpoint that *payload* is, without a label.

    Its state has the id, the messages and the fork point of bubo's, and one
    ledger entry for what it cost since the fork, if that is anything. Entries
    have identities made of that id, their place and their content: a checkpoint
    that is loaded twice, or an earlier one of the same conversation, brings
    nothing when it is joined but what is new. Usage is another ledger
    entry in each.

    Raises:
        DecodeError: If it is not a checkpoint; also if ``init_len`` is outside of its
            messages, or a count of tokens is negative. With all that is wrong, each
            with its path.
    """
    loader = BuboLoader()
    if not is_map(payload):
        loader.wrong("$", payload, "a checkpoint")
        loader.finish()

    node = ObjectReader(loader, payload, "$")
    number = uuid_of(payload.get("id"))
    if number is None:
        node.wrong("id", "a UUID")
        number = _NIL

    messages = loader.load_listed(payload)
    given = payload.get("messages")
    raws = given if is_list(given) else ()
    init_len = _read_init_len(node, len(raws))
    usage = _read_usage(loader, payload.get("usage"), "$.usage")
    loader.finish()
    entries = [
        Entry(_make_identity(number, at, raw), message)
        for at, (raw, message) in enumerate(zip(raws, messages, strict=True))
    ]
    # One index behind the last message, so that no entry has the same identity.
    key = _make_identity(number, len(entries), payload.get("usage"))
    state = Aggregator.rebuild(
        id=number,
        parent_id=None,
        root_id=None,
        init_len=init_len,
        init_ledger_len=0,
        entries=entries,
        ledger=[] if usage == _NOTHING else [LedgerEntry(key, usage, "")],
    )
    return state.checkpoint()


def load_usage(payload: Any) -> Usage | None:
    """
    What *payload*, a checkpoint or the usage in it, cost; None if it does not
    say.

    Without a total, the total is the sum. Counts of other names are in
    `Usage.extra`.

    Raises:
        DecodeError: If a count is negative, not an integer, or over 2**63 - 1.
    """
    expected = "a checkpoint, or the usage in it"
    return usage_in(payload, _find_usage, _read_counts, expected)


def _find_usage(payload: Mapping[str, Any]) -> tuple[Any, str]:
    return find_usage_block({"$": payload}, _COUNTS)


def _make_identity(number: UUID, at: int, raw: Any) -> str:
    # bubo's messages have no ids. The content is part of ours because two branches of
    # a conversation, saved under one id, may have different messages at one index.
    # It is read once more so that half of a surrogate pair can be encoded.
    text = json.dumps(DocumentReader().json(raw, "$"), sort_keys=True)
    digest = blake2b(text.encode(), digest_size=12).hexdigest()
    return f"bubo-{number.hex}-{at}-{digest}"


def _read_init_len(node: ObjectReader, most: int) -> int:
    given: Any = node.raw.get("init_len")
    if given.__class__ is int and 0 <= given <= most:
        return int(given)

    if given is not None:
        expected = f"how many of {format_count(most, 'message')} were inherited"
        node.wrong("init_len", expected)

    return 0


def _read_usage(reader: DocumentReader, raw: Any, path: str) -> Usage:
    if raw is not None and not is_map(raw):
        reader.wrong(path, raw, "an object or null")
        return _NOTHING

    usage, _ = read_usage_block(reader, raw or {}, path, _read_counts)
    return usage or _NOTHING


def _read_counts(
    reader: DocumentReader, block: Mapping[Any, Any], path: str
) -> Counted:
    counts, details, extra, left = read_counts(
        reader, block, _COUNTS, _BREAKDOWNS, path
    )
    # bubo adds totals on their own, so one that is given need not be the sum.
    total = counts.get("total_tokens")
    totals = counts.get("prompt_tokens", 0), counts.get("completion_tokens", 0), total
    return totals, details[::-1], extra, left


def dump_checkpoint(kept: Checkpoint | Aggregator) -> Export:
    """
    *kept* as a checkpoint of bubo's.

    As in bubo, its usage is that since the fork, and where it was
    forked is a number of messages: counted again where one of ours is two there,
    or none. Lost are the label, the parent's id, models and categories of the
    ledger, and what `dump` lists.

    Raises:
        TypeError: If *kept* is neither a `Checkpoint` nor an `Aggregator`.
    """
    state = kept.state if isinstance(kept, Checkpoint) else kept
    if not isinstance(state, Aggregator):
        raise TypeError(
            f"expected a Checkpoint or an Aggregator, got {describe_type(kept)}"
        )

    writer = PayloadWriter(SOURCE)
    found = write_envelopes(writer, state)
    recorded = state.ledger[state.init_ledger_len :]
    lost = {
        "label": isinstance(kept, Checkpoint) and bool(kept.label),
        "parent_id": state.parent_id is not None,
        "ledger": state.init_ledger_len > 0 or len(recorded) > 1,
        "model": any(entry.model for entry in recorded),
        **dict.fromkeys(sorted(state.usage.extra), True),
    }
    writer.lose_each("state", lost, "bubo checkpoints have no field for it")
    # Restored from it, a state is the same fork only if the messages that it inherited
    # are counted as bubo has them.
    payload = {
        "id": str(state.id),
        "messages": [raw for several in found for raw in several],
        "usage": _written_usage(state.usage),
        "init_len": sum([len(each) for each in found[: state.init_len]]),
    }
    return Export(payload, tuple(writer.lost))


def _written_usage(usage: Usage) -> dict[str, Any]:
    raw: dict[str, Any] = {name: getattr(usage, name) for name in _COUNTS}
    for key, (_, names) in _BREAKDOWNS.items():
        details = getattr(usage, key)
        raw[key] = {name: getattr(details, name) for name in names}

    return raw
