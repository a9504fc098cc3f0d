"""
Answers: the messages of one response taken together, and the key of their usage.

A ledger has the usage of each response once, whatever is repeated, replayed or
joined. What must be known to change it: ids of responses are not unique everywhere
(Ollama's have three digits, others number them from 1, some give all responses one),
and one response may be several messages. So its key is made of its id and of what it
says, and its messages are taken together before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from conversation_state._persistent import EMPTY_MAP, check_text, final
from conversation_state._wording import describe_value, shorten_repr
from conversation_state.errors import InvalidMessageError
from conversation_state.messages._base import Message
from conversation_state.messages._kinds import (
    AssistantMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.messages._response import ResponseMeta
from conversation_state.messages._tombstones import find_erasure
from conversation_state.usage import Usage

if TYPE_CHECKING:
    from datetime import datetime

    from conversation_state.tools import ToolCall

_NOTHING = Usage()
_SYNTHETIC = "<synthetic>"
_INTERRUPTED = "interrupted"
_DIGEST_BYTES = 8
_KEY = re.compile(rf"#[0-9a-f]{{{_DIGEST_BYTES * 2}}}\Z")
_get_message = attrgetter("message")
# What providers call how a request was served, and the values with the list price.
_TIERS = (
    *("service_tier", "serviceTier", "trafficType", "traffic_type", "speed"),
    "inference_geo",
)
# Where it is in the notes of a format; elsewhere the same names are a program's own.
_TIER_PATHS = (
    ("response",),
    ("response", "usage"),
    ("response", "provider_details"),
    ("response_metadata",),
    ("response_metadata", "usage"),
    ("response_metadata", "usage_metadata"),
)
_STANDARD = frozenset(
    {
        *("", "auto", "default", "global", "not_available", "on_demand", "standard"),
        *("service_tier_unspecified", "traffic_type_unspecified", "unspecified"),
    }
)


class MessageEntry(Protocol):
    """**Protocol:** one entry of a conversation: its identity and its message."""

    @property
    def id(self) -> str: ...
    @property
    def message(self) -> Message: ...


def response_key(*pieces: MessageEntry | Message, id: str = "") -> str | None:
    """
    The ledger identity under which the usage of one response belongs.

    The provider's id of the response, ``#`` and a digest of what the response says:
    its texts and the names and arguments of its calls. Ids of calls, reasoning,
    metadata and all else are not part of it, so a response that came through another
    host, was streamed, or was added on another branch has the same key; two
    responses to which a server gave one id have two. Without the provider's id: the
    identity of the first entry; None if there is none, or no assistant's message.

    `Aggregator.add_response` and `Aggregator.record_responses` record under it, and
    so does every host of this library.

    Args:
        *pieces: All messages of the response, in order, or their entries. A message
            that is there twice counts once.
        id: The provider's id of the response, for messages that do not have it.

    Raises:
        TypeError: If a piece is something else.
        InvalidMessageError: If *id* is not a text.

    >>> from conversation_state.messages import ResponseMeta
    >>> meta = ResponseMeta(id="chatcmpl-1")
    >>> response_key(AssistantMessage("Hi.", response=meta))
    'chatcmpl-1#5230ea63e022c45c'
    """
    messages = []
    for piece in pieces:
        message = piece if isinstance(piece, Message) else _message_of(piece)
        messages.append(message)

    id = check_text(id, "id", InvalidMessageError)
    metas = [read_response(message) for message in messages]
    response_id = id or next((meta.id for meta in metas if meta and meta.id), "")
    if response_id:
        return f"{response_id}#{digest_answer(messages)}"

    for piece in pieces:
        if not isinstance(piece, Message) and piece.message.role == "assistant":
            return piece.id

    return None


def _message_of(piece: MessageEntry) -> Message:
    message = getattr(piece, "message", None)
    if not isinstance(message, Message):
        raise TypeError(
            "response_key takes Messages and entries of a state, got "
            f"{describe_value(piece)}"
        )

    return message


def id_of_key(key: str) -> str:
    """
    The provider's id of the response whose `response_key` is *key*; "" for any other.
    """
    digest = digest_of_key(key)
    return key[: -len(digest) - 1] if digest else ""


def digest_of_key(key: str) -> str:
    """The digest in a *key* that `response_key` made of an id; "" of others."""
    found = _KEY.search(key)
    return "" if found is None else found[0][1:]


def read_response(message: Message) -> ResponseMeta | None:
    return message.response if isinstance(message, AssistantMessage) else None


def read_usage(message: Message) -> Usage | None:
    """The usage that *message* reports; None if it reports no tokens."""
    meta = read_response(message)
    usage = None if meta is None else meta.usage
    # The total first, because comparing all counts is slow.
    if usage is None or (not usage.total_tokens and usage == _NOTHING):
        return None

    return usage


def is_interrupted(message: Message) -> bool:
    """Whether *message* is of a response that was cut off."""
    meta = read_response(message)
    return meta is not None and meta.finish_reason == _INTERRUPTED


def read_tier(message: Message) -> str:
    """
    How the request was served that *message* answers, as the notes of the adapters
    have it, such as ``service_tier 'flex'``; "" if nothing says that it was served
    at another price than the standard one.

    Source:
        OpenAI and Groq report a ``service_tier`` of the response; Anthropic reports
        it with the usage, and ``speed`` and ``inference_geo``; Gemini reports
        ``serviceTier`` or ``trafficType`` with the usage. LangChain keeps them in
        ``response_metadata``, Pydantic AI in ``provider_details``.
    """
    # Most messages have none, and `isinstance` of an abstract class takes long.
    if (metadata := message._common.metadata) is EMPTY_MAP:
        return ""

    notes = metadata.get("conversation_state")
    if not isinstance(notes, Mapping):
        return ""

    found = (_find_tier(each, path) for each in notes.values() for path in _TIER_PATHS)
    return next(filter(None, found), "")


def read_caveat(messages: Iterable[Message]) -> str:
    """
    Why the usage of one answer does not say what it cost: that it was cut off, its
    tier (see `read_tier`), or both; "" if it does.
    """
    tier, is_cut_off = "", False
    for message in messages:
        tier = tier or read_tier(message)
        is_cut_off = is_cut_off or is_interrupted(message)

    if not is_cut_off:
        return tier

    return f"{_INTERRUPTED}, {tier}" if tier else _INTERRUPTED


def split_caveat(caveat: str) -> tuple[bool, str]:
    """Whether an answer was cut off, and its tier, from what `read_caveat` found."""
    first, _, tier = caveat.partition(", ")
    return (True, tier) if first == _INTERRUPTED else (False, caveat)


def _find_tier(notes: Any, path: Iterable[str]) -> str:
    for key in path:
        notes = notes.get(key) if isinstance(notes, Mapping) else None

    if isinstance(notes, Mapping):
        for name in _TIERS:
            value = notes.get(name)
            if isinstance(value, str) and value.lower() not in _STANDARD:
                return f"{name} {shorten_repr(value)}"

    return ""


@final
class Answer(NamedTuple):
    """
    One answer of a model: the entries of the messages of one response.

    Attributes:
        entries: The entries, in order.
        usage: The usage of the response: of several reports the larger counts, as
            in a stream; None if no tokens are reported.
    """

    entries: tuple[MessageEntry, ...]
    usage: Usage | None

    @property
    def response_id(self) -> str:
        """The provider's id of the response; "" if it gave none."""
        meta = read_response(self.entries[0].message)
        return "" if meta is None else meta.id

    @property
    def model(self) -> str:
        """The model that answered; "" if it is unknown."""
        metas = [read_response(entry.message) for entry in self.entries]
        return next((meta.model for meta in metas if meta and meta.model), "")

    @property
    def is_synthetic(self) -> bool:
        """
        Whether the program wrote it itself, as Claude Code does where a request failed
        or was stopped, under ``<synthetic>`` as the model. No tokens were used for it.
        """
        return self.usage is None and self.model == _SYNTHETIC

    @property
    def time(self) -> datetime | None:
        """When it was made: the time of its first message that has one."""
        times = [entry.message.timestamp for entry in self.entries]
        return next(filter(None, times), None)

    @property
    def caveat(self) -> str:
        """Why its usage does not say what it cost: see `read_caveat`."""
        return read_caveat(map(_get_message, self.entries))

    @property
    def key(self) -> str:
        """Its `response_key`."""
        response_id = self.response_id
        if not response_id:
            return self.entries[0].id

        return (
            f"{response_id}#{digest_answer([entry.message for entry in self.entries])}"
        )

    @property
    def second_key(self) -> str:
        """
        The key if another response has `key`, with another usage: two responses of
        one id that say the same. Made of the usage, too.
        """
        if not self.response_id:
            return self.key

        usage = self.usage or _NOTHING
        counts = usage.prompt_tokens, usage.completion_tokens, usage.total_tokens
        messages = [entry.message for entry in self.entries]
        return f"{self.response_id}#{digest_answer(messages, *map(str, counts))}"

    def other_keys(self) -> list[str]:
        """
        The ledger identities but `key` that its usage may have: of one message that
        was added before the others came; its id alone, as programs pass it to
        `add_usage`; the identities of its entries.
        """
        response_id = self.response_id
        if not response_id:  # then it is one message, whose identity is its key
            return []

        own = [entry.id for entry in self.entries]
        if len(own) > 1:
            messages = [entry.message for entry in self.entries]
            own += [f"{response_id}#{digest_answer([each])}" for each in messages]

        own.append(response_id)
        return own

    def is_recorded_by(self, known: Collection[Usage]) -> bool:
        """
        Whether *known*, what a ledger has under its keys, is its usage.

        Several messages may have been recorded one by one, each with what the
        provider had counted until then.
        """
        if self.usage in known:
            return True

        largest = _NOTHING
        for usage in known:
            largest |= usage

        return len(self.entries) > 1 and largest == self.usage


def group_answers(entries: Iterable[MessageEntry]) -> Iterator[Answer]:
    """
    The answers among *entries*, in order. O(n).

    Messages are of one response if they have its id and one after the other reports
    the same number of prompt tokens: the next response of a server that gives all of
    them one id has seen a longer prompt. Only results of tools may be between them.

    Source:
        Claude Code writes each block of a response as a line, with the response's id
        and usage, and results between them; a server counts `prompt_tokens` once for
        all choices.
    """
    pieces: list[MessageEntry] = []
    usage: Usage | None = None
    is_adjacent = False
    for entry in entries:
        message = entry.message
        if not isinstance(message, AssistantMessage):
            is_adjacent = False
            if pieces and not isinstance(message, ToolMessage):
                yield Answer(tuple(pieces), usage)
                pieces = []

            continue

        reported = read_usage(message)
        if pieces and _continues_answer(
            pieces[0].message, usage, message, reported, is_adjacent
        ):
            pieces.append(entry)
            if reported is not None:
                usage = reported if usage is None else usage | reported
        else:
            if pieces:
                yield Answer(tuple(pieces), usage)

            pieces, usage = [entry], reported

        is_adjacent = True

    if pieces:
        yield Answer(tuple(pieces), usage)


def find_pending_calls(newest_first: Iterable[Message]) -> tuple[ToolCall, ...]:
    """
    The calls of the newest answer that have no result, and wait to be run; see
    `Aggregator.pending_calls`.

    Args:
        newest_first: The messages of a conversation from its end. Those before the
            newest answer are not read.
    """
    results: Counter[str] = Counter()  # those behind the message that is looked at
    pending: list[ToolCall] = []
    later: Message | None = None
    usage: Usage | None = None
    is_adjacent = False
    for message in newest_first:
        if isinstance(message, ToolMessage):
            results[message.tool_call_id] += 1
            is_adjacent = False
        elif isinstance(message, AssistantMessage):
            reported = read_usage(message)
            if later is not None and not _continues_answer(
                message, reported, later, usage, is_adjacent
            ):
                break

            if is_interrupted(message):
                return ()

            if find_erasure(message) is None:
                pending[:0] = _take_waiting(message.tool_calls, results)

            later, usage, is_adjacent = message, reported or usage, True
        elif later is not None or isinstance(message, UserMessage):
            break

    return tuple(pending)


def identify_call(call: ToolCall) -> tuple[str, str, str] | None:
    """
    What is the same of one call that is listed twice, as a stream that was replayed or
    a run that was resumed may have it; None if its id is such as providers use again.

    Source:
        https://github.com/HKUDS/nanobot/issues/4442,
        https://github.com/openai/openai-agents-js/issues/701
    """
    runs = _RUNS.findall(call.id)
    is_unique = any(_DIGITS.search(run) and not run.isdigit() for run in runs)
    return (call.id, call.name, call.arguments) if is_unique else None


# Ids such as call_0 and functions.search:0 are used again.
_RUNS = re.compile("[A-Za-z0-9]{12,}")
_DIGITS = re.compile("[0-9].*[0-9]")


def _take_waiting(calls: Iterable[ToolCall], results: Counter[str]) -> list[ToolCall]:
    waiting = []
    seen = set()
    for call in calls:
        identity = identify_call(call)
        if results[call.id]:
            results[call.id] -= 1  # a result is of one call, also where ids repeat
        elif identity is None or identity not in seen:
            waiting.append(call)

        seen.add(identity)

    return waiting


def _continues_answer(
    first: Message,
    usage: Usage | None,
    message: Message,
    reported: Usage | None,
    is_adjacent: bool,  # noqa: FBT001 - used once, above
) -> bool:
    ours, theirs = read_response(first), read_response(message)
    if ours is None or theirs is None or not ours.id or ours.id != theirs.id:
        return False

    if usage is None or reported is None:
        # Behind results it may be the next answer, of which no usage came.
        return is_adjacent

    return usage.prompt_tokens == reported.prompt_tokens


def digest_answer(messages: Sequence[Message], *more: str) -> str:
    """
    The digest of what *messages* say, which stands at the end of a `response_key`.
    """
    # Imported late: they take milliseconds, and not every program records responses.
    from hashlib import blake2b  # noqa: PLC0415

    from conversation_state._canonical import dump  # noqa: PLC0415

    if len(messages) == 1 and not messages[0].tool_calls:
        content = dump([messages[0].text, [], *more])
        return blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()

    said: dict[tuple[str, tuple[tuple[str, str], ...]], None] = {}
    for message in messages:
        calls = [
            (call.name, _normalize_arguments(call.arguments))
            for call in message.tool_calls
        ]
        said[message.text, tuple(calls)] = None

    text = "".join([text for text, _ in said])
    # JSON, because it shows where each text ends.
    content = dump([text, [call for _, calls in said for call in calls], *more])
    return blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def _normalize_arguments(arguments: str) -> str:
    import json  # noqa: PLC0415 - as above

    # Hosts that keep arguments as objects write them with other white space.
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
