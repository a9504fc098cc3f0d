"""
Strategies draw what they promise: each feature of a table occurs, and nothing that the
strategy excludes.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import orjson
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from conversation_state import (
    Aggregator,
    AssistantMessage,
    Message,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from conversation_state.chunks import concat
from conversation_state.messages import UnknownMessage
from conversation_state.parts import (
    KINDS,
    AudioPart,
    FilePart,
    ImagePart,
    Part,
    ReasoningPart,
    RefusalPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.templates import Placeholder
from conversation_state.testing import register, strategies
from conversation_state.testing._wire_requests import is_object
from conversation_state.testing.strategies import (
    STRATEGIES,
    aggregators,
    broken_transcripts,
    is_accepted,
    json_values,
    texts,
    timestamps,
    transcripts,
    usages,
)
from conversation_state.timeline import Timeline
from conversation_state.tools import Parameter, ToolInfo
from tests.processes import ROOT, run_script

# Enough for a feature of every hundredth example; so many are drawn only if one is
# missing.
_QUICK = settings(
    max_examples=2_000, database=None, deadline=None, phases=[Phase.generate]
)
_LEAST = 40  # examples that show nothing of what is excluded


def some(strategy: Any, condition: Any = lambda _: True) -> Any:
    """Any example that meets *condition*, as soon as there is one."""
    found = []

    def met(value: Any) -> bool:
        if condition(value):
            found.append(value)

        return bool(found)

    find(strategy.map(met), bool, settings=_QUICK)
    return found[0]


def simplest(strategy: Any) -> Any:
    """What examples shrink to."""
    phases = [Phase.generate, Phase.shrink]
    alone = settings(_QUICK, max_examples=20, phases=phases)
    return find(strategy, lambda _: True, settings=alone)


Conditions = Mapping[Any, Any]


def find_lacking(strategy: Any, features: Conditions, never: Conditions) -> set[Any]:
    """
    The names of the features that no example has, and of what is excluded and occurs.
    """
    lacking = dict(features)
    wrong: set[Any] = set()
    number = 0

    def is_enough(value: Any) -> bool:
        nonlocal number
        number += 1
        for name in [name for name, met in lacking.items() if met(value)]:
            del lacking[name]

        wrong.update(f"not {name}" for name, met in never.items() if met(value))
        return bool(wrong) or (number >= _LEAST and not lacking)

    try:
        # Of bools, since Hypothesis warns of the size of what it finds.
        find(strategy.map(is_enough), bool, settings=_QUICK)
    except NoSuchExample:
        return {*lacking} | wrong

    return wrong


def has(get: Callable[[Any], Any], *words: Any) -> dict[Any, Any]:
    """Conditions by the words: each is what *get* gives of some example."""
    return {word: lambda value, word=word: get(value) == word for word in words}


def with_words(get: Callable[[Any], Iterable[Any]], *words: Any) -> dict[Any, Any]:
    """Conditions by the words: each is among those that *get* gives of an example."""
    return {word: lambda value, word=word: word in get(value) for word in words}


def holds(kind: type[Part]) -> Callable[[Any], Any]:
    return lambda message: any(type(each) is kind for each in message.parts)


def is_of(kind: type[Any]) -> Callable[[Any], Any]:
    return lambda value: type(value) is kind


def list_counts(usage: Usage) -> list[int]:
    """Each count of *usage*."""
    prompt, answer = usage.prompt_tokens_details, usage.completion_tokens_details
    return [
        *(usage.prompt_tokens, usage.completion_tokens, usage.total_tokens),
        *(prompt.audio_tokens, prompt.cached_tokens),
        *(answer.accepted_prediction_tokens, answer.audio_tokens),
        *(answer.reasoning_tokens, answer.rejected_prediction_tokens),
        *usage.extra.values(),
    ]


def is_cut_json(text: str) -> bool:
    """Whether *text* begins as a JSON object, and goes on as none."""
    return text.startswith('{"') and not is_object(text)


def is_json(value: Any) -> bool:
    """Whether strict writers can write *value*."""
    try:
        json.dumps(value, allow_nan=False)
        orjson.dumps(value)
    except (TypeError, ValueError):
        return False

    return True


def depth_of(parameter: Parameter | None) -> int:
    """How many levels of parameters there are."""
    if parameter is None:
        return 0

    inner = [parameter.items, *parameter.properties.values()]
    return 1 + max(map(depth_of, inner))


def list_nested(parameter: Parameter | None) -> list[Parameter]:
    """*parameter*, and those in it."""
    if parameter is None:
        return []

    inner = [parameter.items, *parameter.properties.values()]
    return [parameter, *(each for one in inner for each in list_nested(one))]


def list_faults(chat: Iterable[Message]) -> set[str]:
    """What a provider refuses in *chat*, by what is there."""
    chat = list(chat)
    made = [call.id for message in chat for call in message.tool_calls]
    answered = [m.tool_call_id for m in chat if isinstance(m, ToolMessage)]
    found: set[str] = set()
    started = False
    waiting: set[str] = set()
    for at, message in enumerate(chat):
        ids = [call.id for call in message.tool_calls]
        if isinstance(message, SystemMessage):
            found |= {"late instructions"} if started else set()
        else:
            started = True

        if isinstance(message, ToolMessage):
            waiting.discard(message.tool_call_id)
        elif waiting:
            behind = {m.tool_call_id for m in chat[at:] if isinstance(m, ToolMessage)}
            found |= {"apart"} if waiting & behind else set()
            waiting.clear()

        found |= {"an id twice in a message"} if len({*ids}) < len(ids) else set()
        waiting |= {*ids}

    # The last message may have calls that wait for their results.
    missing = {*made} - {*answered} - {call.id for call in chat[-1].tool_calls}
    again = any(
        {call.id for call in a.tool_calls} & {call.id for call in b.tool_calls}
        for at, a in enumerate(chat)
        for b in chat[:at]
    )
    twice = any(answered.count(each) > made.count(each) > 0 for each in answered)
    found |= {"no result"} if missing else set()
    found |= {"a result of no call"} if {*answered} - {*made} else set()
    found |= {"a result twice"} if twice else set()
    return found | ({"an id in two messages"} if again else set())


_FIELDS: Conditions = {
    "metadata": lambda value: value.metadata,
    "unknown fields": lambda value: value.unknown,
    "neither": lambda value: not value.metadata and not value.unknown,
}
_OF_PARTS: Conditions = {
    **_FIELDS,
    "index": lambda part: part.index is not None,
    "no index": lambda part: part.index is None,
}
_OF_MESSAGES: Conditions = {
    **_FIELDS,
    "name": lambda message: message.name,
    "run": lambda message: message.run_id,
    "turn": lambda message: message.turn_id,
    "time": lambda message: message.timestamp,
    "text": lambda message: isinstance(message.content, str) and message.content,
    "three parts": lambda message: (
        not isinstance(message.content, str) and len(message.content) == 3
    ),
}
_FOUR_PARTS: Conditions = {"four parts": lambda message: len(message.parts) > 3}


def media(kind: type[Any], media_type: str) -> "Row":
    """What is drawn of one kind of media."""
    return Row(
        st.from_type(kind),
        {
            **_OF_PARTS,
            **has(lambda part: part.media_type, "", media_type),
            "other type": lambda part: part.media_type not in {"", media_type},
            "address": lambda part: part.url == "https://example.com/a",
            "data in an address": lambda part: (part.url or "").startswith(
                "data:text/plain;"
            ),
            "any address": lambda part: ":" not in (part.url or ":"),
            "data": lambda part: part.data,
        },
    )


def unknown(strategy: Any, key: str, ours: Iterable[str]) -> "Row":
    """What is drawn of kinds that are unknown; *ours* are those that we know."""
    known = {*ours}
    return Row(
        strategy,
        {
            **_FIELDS,
            **has(lambda value: value.source, "", "openai", "anthropic"),
            **with_words(lambda value: [value.raw.get(key)], "unknown", "Text"),
            "any source": lambda value: value.source not in {"", "openai", "anthropic"},
            "no kind": lambda value: key not in value.raw,
            "an empty kind": lambda value: value.raw.get(key) == "",
            "no text as the kind": lambda value: (
                not isinstance(value.raw.get(key, ""), str)
            ),
            "ours": lambda value: str(value.raw.get(key)) in known,
            "more": lambda value: {*value.raw} - {key},
        },
        {"ours": lambda value: not value.source and str(value.raw.get(key)) in known},
    )


class Row(NamedTuple):
    """
    What one strategy promises.

    Attributes:
        strategy: The strategy.

        features: Conditions that some example meets, by a name.

        never: Conditions that none meets.
    """

    strategy: Any
    features: Conditions
    never: Conditions = MappingProxyType({})


SCHEMAS = [
    {"type": "object"},
    {"type": ("object", "null")},
    {"$ref": "https://example.org/schema"},
    {"anyOf": ({"type": "object"},)},
    {"properties": {"type": "string"}},
]
_SEARCHED = (
    *("score", "sub_indexes", "dense_vector", "sparse_vector", "dsl", "extra_info"),
)

VALUES = {
    "texts": Row(
        texts(),
        {
            "empty": lambda text: not text,
            "NUL": lambda text: "\0" in text,
            "beyond the BMP": lambda text: any(c > "\uffff" for c in text),
        },
        {"surrogates": lambda text: any("\ud800" <= c <= "\udfff" for c in text)},
    ),
    "ids": Row(
        strategies.uuids(),
        {"nil": lambda id_: id_ == UUID(int=0), "large": lambda id_: id_.int >> 127},
    ),
    "timestamps": Row(
        timestamps(),
        {
            "odd": lambda when: when.utcoffset() % timedelta(minutes=1),
            "quarter": lambda when: (
                when.utcoffset() % timedelta(hours=1) == timedelta(minutes=15)
            ),
            "west": lambda when: when.utcoffset() < -timedelta(hours=1),
            "early": lambda when: when.year < 1000,
            "late": lambda when: when.year > 3000,
        },
        {"naive": lambda when: when.tzinfo is None},
    ),
    "JSON": Row(
        json_values(),
        {
            **has(lambda value: value, 2**64 - 1, -(2**63), 2**53 + 1, ""),
            **has(type, float, bool, str, int, type(None)),
            "nested": lambda value: value and type(value) is list,
            "objects": lambda value: type(value) is dict and len(value) == 3,
            "nested twice": lambda value: (
                type(value) is list and any(type(each) is dict for each in value)
            ),
        },
        {
            "JSON": lambda value: not is_json(value),
            "long": lambda value: isinstance(value, (list, dict)) and len(value) > 3,
        },
    ),
    "metadata": Row(
        strategies.metadata(),
        {"empty": lambda value: not value, "three": lambda value: len(value) == 3},
        {"more than three": lambda value: len(value) > 3},
    ),
    "usages": Row(
        usages(),
        {
            "total": lambda usage: (
                usage.total_tokens != usage.prompt_tokens + usage.completion_tokens
            ),
            "sum": lambda usage: (
                usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
            ),
            "audio read": lambda usage: usage.prompt_tokens_details.audio_tokens,
            "cached": lambda usage: usage.prompt_tokens_details.cached_tokens,
            "reasoning": lambda usage: usage.completion_tokens_details.reasoning_tokens,
            "audio": lambda usage: usage.completion_tokens_details.audio_tokens,
            "zero": lambda usage: 0 in list_counts(usage)[:2],
            "many": lambda usage: max(list_counts(usage)) > 2**31,
            "other": lambda usage: (
                {*usage.extra} - {"cache_write_tokens", "tool_use_prompt_tokens"}
            ),
            **with_words(
                lambda usage: usage.extra,
                "cache_write_tokens",
                "tool_use_prompt_tokens",
            ),
        },
        {"large": lambda usage: max(list_counts(usage)) * 10**9 > 2**63 - 1},
    ),
}
ALL_KINDS: set[type[Part]] = {*KINDS.values(), UnknownPart}
OF_ROLES: dict[str, set[type[Part]]] = {
    "assistant": ALL_KINDS,
    "user": ALL_KINDS - {ReasoningPart, RefusalPart},
    "tool": ALL_KINDS - {ReasoningPart, RefusalPart},
    "system": {TextPart},
}
PARTS = {
    "texts": Row(
        strategies.text_parts(),
        {
            **_OF_PARTS,
            "largest index": lambda part: part.index == 2**63 - 1,
            **with_words(lambda part: part.unknown, "new", "Content"),
            "a new field": lambda part: any(
                each.startswith("x-") for each in part.unknown
            ),
        },
        {
            "fields of ours": lambda part: (
                {*part.unknown} & {"text", "kind", "metadata", "index", "unknown"}
            )
        },
    ),
    "images": media(ImagePart, "image/png"),
    "sound": media(AudioPart, "audio/wav"),
    "video": media(VideoPart, "video/mp4"),
    "files": media(FilePart, "application/pdf"),
    "details of images": Row(
        st.from_type(ImagePart),
        {
            **has(lambda part: part.detail, "", "low", "high", "auto"),
            "other": lambda part: part.detail not in {"", "low", "high", "auto"},
        },
    ),
    "names of files": Row(st.from_type(FilePart), {"name": lambda part: part.name}),
    "reasoning": Row(
        strategies.reasoning_parts(),
        {
            **_OF_PARTS,
            "text": lambda part: part.text,
            "signed": lambda part: part.signature,
            "unsigned": lambda part: not part.signature,
        },
    ),
    "refusals": Row(
        strategies.refusal_parts(), {**_OF_PARTS, "text": lambda part: part.text}
    ),
    "unknown": unknown(strategies.unknown_parts(), "type", KINDS),
    **{
        role: Row(
            strategies.parts(role=role),
            {kind: is_of(kind) for kind in kinds},
            {kind: is_of(kind) for kind in ALL_KINDS - kinds},
        )
        for role, kinds in OF_ROLES.items()
    },
    "by default": Row(
        strategies.parts(), {kind: is_of(kind) for kind in KINDS.values()}
    ),
}
MESSAGES = {
    "all": Row(
        strategies.messages(),
        {
            kind: is_of(kind)
            for kind in (
                *(SystemMessage, UserMessage, AssistantMessage, ToolMessage),
                UnknownMessage,
            )
        },
    ),
    "system": Row(strategies.system_messages(), _OF_MESSAGES, _FOUR_PARTS),
    "user": Row(
        strategies.user_messages(),
        {
            **_OF_MESSAGES,
            **{kind: holds(kind) for kind in OF_ROLES["user"]},
        },
        _FOUR_PARTS,
    ),
    "assistant": Row(
        strategies.assistant_messages(),
        {
            **_OF_MESSAGES,
            **{kind: holds(kind) for kind in ALL_KINDS},
            "three calls": lambda message: len(message.tool_calls) == 3,
            "no response": lambda message: message.response is None,
            "response": lambda message: message.response,
        },
        {**_FOUR_PARTS, "four calls": lambda message: len(message.tool_calls) > 3},
    ),
    "tool": Row(
        strategies.tool_messages(),
        {
            **_OF_MESSAGES,
            **has(lambda message: message.is_error, *(True, False)),
            "image": holds(ImagePart),
            "of a tool": lambda message: message.tool_name,
        },
        {**_FOUR_PARTS, "of no call": lambda message: not message.tool_call_id},
    ),
    "tool, of given calls": Row(
        strategies.tool_messages(call_ids=st.just("c")),
        has(lambda message: message.tool_call_id, "c"),
        {"other": lambda message: message.tool_call_id != "c"},
    ),
    "unknown": unknown(
        strategies.unknown_messages(), "role", ["system", "user", "assistant", "tool"]
    ),
    "calls": Row(
        strategies.tool_calls(),
        {
            **_OF_PARTS,
            **has(lambda call: call.arguments, "", "{}"),
            **has(lambda call: call.type, "function", "custom"),
            "object": lambda call: (
                len(call.arguments) > 2 and is_object(call.arguments)
            ),
            "cut": lambda call: is_cut_json(call.arguments),
            "any": lambda call: call.arguments and call.arguments[0] != "{",
            "other type": lambda call: call.type not in {"function", "custom"},
            "id": lambda call: call.id,
            "name": lambda call: call.name,
        },
    ),
    "log-probabilities": Row(
        strategies.log_probs(),
        {
            "token": lambda one: one.token,
            "small": lambda one: one.logprob < -1,
            "bytes": lambda one: one.bytes,
            "no bytes": lambda one: one.bytes is None,
            "three": lambda one: len(one.top) == 3,
        },
        {
            "four": lambda one: len(one.top) > 3,
            "nested": lambda one: any(each.top for each in one.top),
        },
    ),
    "responses": Row(
        strategies.response_metas(),
        {
            **has(
                lambda meta: meta.finish_reason,
                *("", "stop", "tool_calls", "interrupted"),
            ),
            "another reason": lambda meta: (
                meta.finish_reason not in {"", "stop", "tool_calls", "interrupted"}
            ),
            "usage": lambda meta: meta.usage,
            "no usage": lambda meta: meta.usage is None,
            "log-probabilities": lambda meta: meta.logprobs,
            "model": lambda meta: meta.model,
            "id": lambda meta: meta.id,
            "unknown": lambda meta: meta.unknown,
        },
    ),
    "envelopes": Row(
        strategies.envelopes(),
        {
            "name": lambda turn: turn.name,
            "metadata": lambda turn: turn.metadata,
            "another year": lambda turn: turn.timestamp.year < 2020,
            "run": lambda turn: turn.run_id.version != 7,
            "turn": lambda turn: turn.turn_id.version != 7,
        },
    ),
}
TOOLS = {
    "parameters": Row(
        strategies.parameters(),
        {
            **has(
                lambda one: one.type,
                *("string", "integer", "number", "boolean", "null", "array", "object"),
            ),
            **with_words(lambda one: one.properties, "city", "type"),
            **has(lambda one: one.required, *(True, False)),
            "described": lambda one: one.description,
            "choices": lambda one: len(one.enum) == 3,
            "array of anything": lambda one: one.type == "array" and not one.items,
            "array of arrays": lambda one: one.items and one.items.type == "array",
            "three properties": lambda one: len(one.properties) == 3,
            "another name": lambda one: {*one.properties} - {"city", "type"},
            "four levels": lambda one: depth_of(one) == 4,
            "a fraction": lambda one: any(
                type(value) is float for each in list_nested(one) for value in each.enum
            ),
        },
        {
            "five levels": lambda one: depth_of(one) > 4,
            "four properties": lambda one: any(
                len(each.properties) > 3 for each in list_nested(one)
            ),
            "four choices": lambda one: any(
                len(each.enum) > 3 for each in list_nested(one)
            ),
            "required items": lambda one: any(
                each.items and each.items.required for each in list_nested(one)
            ),
            "a property without a name": lambda one: any(
                "" in each.properties for each in list_nested(one)
            ),
        },
    ),
    "tools": Row(
        strategies.tool_infos(),
        {
            **has(lambda tool: tool.name, "city", "type"),
            "another name": lambda tool: tool.name not in {"city", "type"},
            "described": lambda tool: tool.description,
            "nothing": lambda tool: tool.parameters is None and not tool.schema,
            "parameters": lambda tool: tool.parameters and len(tool.parameters) == 3,
            "no parameters": lambda tool: tool.parameters == {},
            "metadata": lambda tool: tool.metadata,
            "unknown fields": lambda tool: tool.unknown,
            **with_words(lambda tool: tool.schema or (), "required", "$defs"),
            "any properties": lambda tool: (
                (tool.schema or {}).get("properties", {"type": "string"})
                != {"type": "string"}
            ),
            **{
                str(schema): lambda tool, schema=schema: all(
                    (tool.schema or {}).get(key) == schema[key] for key in schema
                )
                for schema in SCHEMAS
            },
        },
    ),
    "documents": Row(
        strategies.documents(),
        {
            "id": lambda one: one.id,
            "text": lambda one: one.content,
            "empty": lambda one: not one.content and not one.metadata,
            "unknown fields": lambda one: one.unknown,
            "another key": lambda one: any(key[:1] != "_" for key in one.metadata),
            **{name: lambda one, name=name: getattr(one, name) for name in _SEARCHED},
            **{
                f"something else as {key}": lambda one, key=key: isinstance(
                    one.metadata.get(key, 0), (str, bool, type(None))
                )
                for key in ("_score", "_sub_indexes", "_dense_vector", "_sparse_vector")
            },
        },
    ),
    "placeholders": Row(
        strategies.placeholders(),
        {
            **has(lambda one: one.optional, *(True, False)),
            "long": lambda one: len(one.key) > 1,
        },
        {"no name": lambda one: not one.key},
    ),
    "templates": Row(
        strategies.templates(),
        {
            **has(lambda template: template.syntax, "fstring", "jinja2", "go"),
            "three": lambda template: len(template.items) == 3,
            "message": lambda template: any(
                isinstance(each, Message) for each in template.items
            ),
            "place": lambda template: any(
                isinstance(each, Placeholder) for each in template.items
            ),
        },
        {
            "four": lambda template: len(template.items) > 3,
            "another syntax": lambda template: (
                template.syntax not in {"fstring", "jinja2", "go"}
            ),
        },
    ),
}


def list_verbs(state: Aggregator) -> set[str]:
    """What happened to *state*, as far as it shows."""
    found = {"fork"} if state.parent_id else {"root"}
    found |= {"added"} if len(state) == state.init_len + 1 else set()
    found |= {"from the middle"} if 0 < state.init_len < len(state) else set()
    found |= {"long"} if len(state) - state.init_len > 64 else set()
    for entry in state.ledger:
        found.add(entry.id if entry.id.startswith("request") else "usage")
        found |= {"model"} if entry.model else set()
        found |= {"another time"} if entry.at and entry.at.year != 2025 else set()

    return found


def is_shared(turn: Any) -> bool:
    """Whether the state that *turn* goes on from comes with it."""
    return bool(turn.base_log())


def texts_of(state: Aggregator) -> list[str]:
    return [message.text for message in state]


def ids_of(state: Aggregator) -> list[str]:
    return [entry.id for entry in state.entries]


def bill(state: Aggregator) -> dict[str, Usage]:
    return {entry.id: entry.usage for entry in state.ledger}


def say_equally(pair: tuple[Aggregator, Aggregator]) -> bool:
    """Whether both have equal messages as entries of their own."""
    only = [set(ids_of(a)) - set(ids_of(b)) for a, b in (pair, pair[::-1])]
    said = [
        [e.message for e in state.entries if e.id in ids]
        for state, ids in zip(pair, only, strict=True)
    ]
    return any(message in said[1] for message in said[0])


STATES = {
    "entries": Row(
        strategies.entries(),
        {
            kind: lambda entry, kind=kind: type(entry.message) is kind
            for kind in (UserMessage, ToolMessage)
        },
    ),
    "ledger entries": Row(
        strategies.ledger_entries(),
        {
            "new": lambda entry: len(entry.id) > 24 and entry.id[24] == "-",
            "keyed": lambda entry: len(entry.id) < 9,
            "no time": lambda entry: entry.at is None,
            "time": lambda entry: entry.at,
            "model": lambda entry: entry.model,
            "usage": lambda entry: entry.usage.total_tokens,
        },
        {"no id": lambda entry: not entry.id},
    ),
    "any states": Row(
        aggregators(),
        {
            **with_words(
                list_verbs,
                *("root", "fork", "added", "long", "usage"),
                *("request 1", "request 2", "request 3", "model", "another time"),
            ),
            "empty": lambda state: not len(state) and not state.ledger,
            "fork of a fork": (
                lambda state: state.parent_id not in {None, state.root_id}
            ),
            "given id": lambda state: state.id.version != 7,
            "joined": lambda state: len({*ids_of(state)}) > len({*texts_of(state)}) + 1,
            **with_words(lambda state: bill(state).values(), Usage(1), Usage(2)),
        },
    ),
    "states with a long past": Row(
        aggregators(max_steps=10),
        {
            **with_words(list_verbs, "from the middle"),
            "any message": lambda state: any(
                isinstance(each, UnknownMessage) for each in state
            ),
        },
    ),
    "turns": Row(
        strategies.turns(),
        {
            "shipped": lambda turn: turn.parent_id and not is_shared(turn),
            "shared": is_shared,
            "empty": lambda turn: not turn.entries and not turn.ledger,
            "messages": lambda turn: turn.entries,
            "usage": lambda turn: turn.ledger,
        },
    ),
    "checkpoints": Row(
        strategies.checkpoints(),
        {
            "label": lambda one: one.label,
            "no label": lambda one: not one.label,
            "like life": lambda one: "assistant" in {m.role for m in one.messages},
            "state": lambda one: len(one.state) > 2,
        },
    ),
    "relatives": Row(
        strategies.relatives(),
        {
            "twice one": lambda pair: pair[0] is pair[1],
            "nothing": lambda pair: not len(pair[0]) and not len(pair[1]),
            "apart": lambda pair: (
                {*ids_of(pair[0])} - {*ids_of(pair[1])}
                and {*ids_of(pair[1])} - {*ids_of(pair[0])}
                and {*ids_of(pair[0])} & {*ids_of(pair[1])}
            ),
            "erased": lambda pair: "erased" in texts_of(pair[0]) + texts_of(pair[1]),
            "moved": lambda pair: (
                ids_of(pair[0]) != ids_of(pair[1])
                and sorted(ids_of(pair[0])) == sorted(ids_of(pair[1]))
            ),
            "long past": lambda pair: len({*ids_of(pair[0])} & {*ids_of(pair[1])}) > 44,
            "no past": lambda pair: not {*ids_of(pair[0])} & {*ids_of(pair[1])},
            "say the same": say_equally,
            "usage under one key": lambda pair: any(
                key.startswith("request") for key in {*bill(pair[0])} & {*bill(pair[1])}
            ),
        },
    ),
    "differences": Row(
        strategies.diffs(),
        {
            "none": lambda diff: diff.identical,
            "same content": lambda diff: diff.same,
            "context": lambda diff: diff.context,
            "both": lambda diff: diff.only_a and diff.only_b,
            "related": lambda diff: diff.related,
        },
    ),
    "timelines": Row(
        strategies.timelines(),
        {
            **with_words(
                lambda line: [each.group for each in line.moments],
                *(None, "typing", "東京"),
            ),
            "labels": lambda line: {*(each.label for each in line.moments)} - {""},
            "no label": lambda line: not line.moments[0].label,
            "one moment": lambda line: len(line.moments) == 1,
            "undone": lambda line: line.can_redo,
            "gone back to": lambda line: line.can_redo and line.can_undo,
            "branches": lambda line: len(line.tips) > 1,
            "no limit": lambda line: line.limit is None,
            "forgot": lambda line: line.moments[0].number > 0,
            "noted": lambda line: any(
                each.note == {"cursor": 3} for each in line.moments
            ),
            "not noted": lambda line: any(not each.note for each in line.moments),
            "many": lambda line: len(line.moments) > 4,
            "a state again": lambda line: (
                len({each.state.id for each in line.moments}) < len(line.moments)
            ),
            "grown": lambda line: line.present.parent_id == line.moments[0].state.id,
        },
        {
            "limit": lambda line: line.limit is not None and not 1 <= line.limit <= 5,
            "nothing": lambda line: not line.moments,
        },
    ),
    "timelines of texts": Row(
        strategies.timelines(states=st.sampled_from("ab")),
        has(lambda line: line.present, "a", "b")
        | {"moves": lambda line: line.can_redo},
        {"others": lambda line: line.present not in {"a", "b"}},
    ),
    "moments": Row(
        strategies.moments(),
        {
            "first": lambda moment: moment.parent is None,
            "later": lambda moment: moment.parent is not None,
        },
    ),
    "trees": Row(
        strategies.message_trees(),
        {
            "empty": lambda tree: not len(tree),
            "siblings": lambda tree: any(
                len(tree.siblings(node.id)) > 1 for node in tree.nodes
            ),
            "another is shown": lambda tree: (
                len(tree) and tree.shown != tree.switch(tree.nodes[0].id).shown
            ),
            "joined": lambda tree: tree.joined,
        },
    ),
    "heads": Row(
        strategies.heads(),
        {
            "first": lambda head: head.revision == 1,
            "restored": lambda head: head.parent is not None,
            "not restored": lambda head: head.parent is None,
            "labels": lambda head: len(head.labels) == 3,
            "no labels": lambda head: not head.labels,
            "notes": lambda head: len(head.notes) == 3,
            "messages": lambda head: head.length,
            "usage": lambda head: head.ledger_length,
            "late": lambda head: head.saved_at.year > 2050,
        },
        {
            "revision 0": lambda head: 0 in (head.revision, head.parent),
            "no name": lambda head: not head.name or "" in head.labels,
            "NUL": lambda head: "\0" in head.name,
            "a label twice": lambda head: len({*head.labels}) < len(head.labels),
            "another digest": lambda head: len(head.digest) != 32,
            "parts of a ms": lambda head: head.saved_at.microsecond % 1000,
        },
    ),
    "windows": Row(
        strategies.windows(),
        {
            "all": lambda window: window.start == 0,
            "part": lambda window: window.start > 0,
            "three": lambda window: len(window.entries) == 3,
            "none": lambda window: not len(window.entries),
        },
        {
            "four": lambda window: len(window.entries) > 3,
            "another length": lambda window: (
                window.head.length != window.start + len(window.entries)
            ),
        },
    ),
    "receipts": Row(
        strategies.receipts(),
        {
            "nothing left": lambda receipt: not receipt.rows,
            "rows": lambda receipt: receipt.rows,
            "blobs": lambda receipt: receipt.blobs,
        },
        {
            "no entry": lambda receipt: not receipt.entry_id,
            "no reason": lambda receipt: not receipt.reason,
        },
    ),
}


def pieces(chunks: Iterable[Message]) -> list[ToolCall]:
    return [call for message in chunks for call in message.tool_calls]


def is_piece(sound: Part) -> bool:
    return isinstance(sound, AudioPart) and bool(sound.data) and not sound.url


def is_mixed(chat: Iterable[Message]) -> bool:
    """Whether a result stands before that of an earlier call of the same message."""
    calls = [call.id for message in chat for call in message.tool_calls]
    results = [m.tool_call_id for m in chat if isinstance(m, ToolMessage)]
    return results != [each for each in calls if each in results]


_SOME_CHUNKS: Conditions = {
    "one": lambda chunks: len(chunks) == 1,
    "many": lambda chunks: len(chunks) > 4,
    "text": lambda chunks: any(one.content and one.text for one in chunks),
    "name": lambda chunks: any(one.name == "ann" for one in chunks),
    "time": lambda chunks: any(one.timestamp for one in chunks),
    "metadata": lambda chunks: any(one.metadata for one in chunks),
    "three parts": lambda chunks: any(len(one.parts) == 3 for one in chunks),
}
_NO_CHUNKS: Conditions = {
    "seven": lambda chunks: len(chunks) > 6,
    "none": lambda chunks: not chunks,
    "refused": lambda chunks: not concat(chunks),
    "four parts": lambda chunks: any(len(one.parts) > 3 for one in chunks),
    "two names": lambda chunks: {one.name for one in chunks} - {"", "ann"},
}
_SPLIT: Conditions = {
    **{
        f"a piece at {index}": lambda chunks, index=index: any(
            is_piece(each) and each.index == index
            for one in chunks
            for each in one.parts
        )
        for index in (None, 0, 1)
    },
    **{
        f"a piece of {kind}": lambda chunks, kind=kind: any(
            is_piece(each) and each.media_type == kind
            for one in chunks
            for each in one.parts
        )
        for kind in ("", "audio/wav", "audio/mpeg")
    },
    "other parts": lambda chunks: any(
        isinstance(each, UnknownPart) for one in chunks for each in one.parts
    ),
}
CHATS = {
    "transcripts": Row(
        transcripts(),
        {
            "empty": lambda chat: not chat,
            "eight": lambda chat: len(chat) == 8,
            "system": lambda chat: chat and isinstance(chat[0], SystemMessage),
            "system twice": lambda chat: (
                len([m for m in chat if isinstance(m, SystemMessage)]) == 2
            ),
            "results": lambda chat: any(m.role == "tool" for m in chat[:-1]),
            "parallel": lambda chat: any(len(m.tool_calls) == 3 for m in chat),
            "unanswered": lambda chat: chat and chat[-1].tool_calls,
            "in part": lambda chat: (
                len(chat) > 2
                and chat[-1].role == "tool"
                and len(chat[-2].tool_calls) > 1
            ),
            "three results": lambda chat: any(
                len(m.tool_calls) == 3
                and [n.role for n in chat[at + 1 : at + 4]] == ["tool"] * 3
                for at, m in enumerate(chat)
            ),
            "in another order": is_mixed,
            "named tools": lambda chat: any(getattr(m, "tool_name", "") for m in chat),
            "answer behind results": lambda chat: any(
                a.role == "tool" and b.role == "assistant" and not b.tool_calls
                for a, b in pairwise(chat)
            ),
            "user again": lambda chat: [m.role for m in chat].count("user") > 2,
        },
        {
            "nine": lambda chat: len(chat) > 8,
            "refused": lambda chat: not is_accepted(chat),
            "four calls": lambda chat: any(len(m.tool_calls) > 3 for m in chat),
            "three systems": lambda chat: [m.role for m in chat].count("system") > 2,
            "another tool's result": lambda chat: any(
                isinstance(m, ToolMessage)
                and m.tool_name not in {c.name for n in chat for c in n.tool_calls}
                for m in chat
            ),
        },
    ),
    "no room": Row(
        transcripts(min_size=2, max_size=2),
        {"unanswered": lambda chat: chat[-1].tool_calls},
        {"another size": lambda chat: len(chat) != 2},
    ),
    "broken": Row(
        broken_transcripts(),
        {
            **with_words(
                list_faults,
                *("a result of no call", "no result", "a result twice", "apart"),
                *("an id twice in a message", "an id in two messages"),
                "late instructions",
            ),
            **{
                f"only {fault}": lambda chat, fault=fault: list_faults(chat) == {fault}
                for fault in ("no result", "a result twice", "late instructions")
            },
            "answered at the end": lambda chat: "half past" in chat[-1].text,
            "two harms": lambda chat: len(list_faults(chat)) > 1,
        },
        {"accepted": is_accepted},
    ),
    "chunks": Row(
        strategies.chunks(),
        {**_SOME_CHUNKS, "calls": pieces},
        {
            **_NO_CHUNKS,
            "another role": lambda chunks: {m.role for m in chunks} != {"assistant"},
        },
    ),
    "pieces": Row(
        strategies.chunks(max_size=2),
        {
            **_SPLIT,
            **with_words(lambda chunks: {c.id for c in pieces(chunks)}, "", "a", "b"),
            **with_words(lambda chunks: {c.index for c in pieces(chunks)}, 0, 1, None),
            **with_words(lambda chunks: {c.name for c in pieces(chunks)}, "search"),
            "no tool": lambda chunks: any(not c.name for c in pieces(chunks)),
            **with_words(
                lambda chunks: {c.arguments for c in pieces(chunks)},
                *('{"q', '": 1}'),
            ),
            "no arguments": lambda chunks: any(not c.arguments for c in pieces(chunks)),
            "other arguments": lambda chunks: (
                {c.arguments for c in pieces(chunks)} - {"", '{"q', '": 1}'}
            ),
            "response": lambda chunks: any(one.response for one in chunks),
            "no response": lambda chunks: not any(one.response for one in chunks),
            "three calls": lambda chunks: any(len(m.tool_calls) == 3 for m in chunks),
        },
        {
            "another piece": lambda chunks: any(
                c.id not in {"", "a", "b"}
                or c.name not in {"", "search"}
                or c.index not in {0, 1, None}
                for c in pieces(chunks)
            ),
            "another role": lambda chunks: (
                {one.role for one in chunks} != {"assistant"}
            ),
        },
    ),
    "chunks of users": Row(
        strategies.chunks(role="user"),
        {**_SOME_CHUNKS, "image": lambda chunks: any(map(holds(ImagePart), chunks))},
        _NO_CHUNKS,
    ),
    "chunks of systems": Row(
        strategies.chunks(role="system"),
        {
            **_SOME_CHUNKS,
            "noted": lambda chunks: any(
                "a" in each.metadata for one in chunks for each in one.parts
            ),
            "at 1": lambda chunks: any(p.index == 1 for m in chunks for p in m.parts),
        },
        _NO_CHUNKS,
    ),
    "chunks of tools": Row(
        strategies.chunks(role="tool"),
        {
            **_SOME_CHUNKS,
            **with_words(lambda chunks: {m.tool_name for m in chunks}, "", "search"),
            **with_words(lambda chunks: {m.is_error for m in chunks}, *(True, False)),
        },
        {
            **_NO_CHUNKS,
            "media": lambda chunks: any(
                not isinstance(each, TextPart) for one in chunks for each in one.parts
            ),
            "of several calls": lambda chunks: (
                {m.tool_call_id for m in chunks} != {"call"}
            ),
            "another tool": lambda chunks: (
                {m.tool_name for m in chunks} - {"", "search"}
            ),
        },
    ),
}
BOOK = ToolInfo(
    "book",
    parameters={
        "seat": Parameter("string", enum=("window", "aisle"), required=True),
        "train": Parameter("integer"),
        "price": Parameter("number"),
        "is_return": Parameter("boolean"),
        "nothing": Parameter("null"),
        "stops": Parameter("array", items=Parameter("string")),
        "any": Parameter("array"),
        "who": Parameter(
            "object", properties={"age": Parameter("integer", required=True)}
        ),
    },
)
# What a user may write by hand.
HAND_WRITTEN = ToolInfo(
    "pay",
    parameters={
        "type": ["object", "null"],
        "properties": {
            "to": {},
            "much": True,
            "why": {"type": ["string", "null"]},
            "all": {"type": "array", "items": True},
            "deep": {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
        },
        "required": ["to"],
    },
)
_TEXTS = {"Bern", "trains to Bern", ""}


def call_of(answer: AssistantMessage) -> dict[str, Any]:
    """The arguments of the first call; {} without one."""
    arguments = answer.tool_calls[0].arguments if answer.tool_calls else "{}"
    value: dict[str, Any] = json.loads(arguments)
    return value


def of_types(name: str, *types: type[Any]) -> Conditions:
    """Conditions by what an argument is."""
    return {
        (name, kind): lambda answer, kind=kind: (
            name in call_of(answer) and type(call_of(answer)[name]) is kind
        )
        for kind in types
    }


def other_than(name: str, *types: type[Any]) -> Conditions:
    return {
        f"{name} of another type": lambda answer: (
            name in call_of(answer) and type(call_of(answer)[name]) not in types
        )
    }


def ends_twice(events: list[Any]) -> bool:
    """Whether the last event is there again."""
    return len(events) > 1 and events[-1] == events[-2]


ANSWERS = {
    "arguments": Row(
        strategies.model_answers([BOOK], broken=False),
        {
            **of_types("train", int),
            **of_types("price", int, float),
            **of_types("is_return", bool),
            **of_types("nothing", type(None)),
            **of_types("stops", list),
            **of_types("who", dict),
            **has(lambda answer: call_of(answer).get("seat"), "window", "aisle"),
            "left out": lambda answer: "train" not in call_of(answer),
            "three stops": lambda answer: len(call_of(answer).get("stops", ())) == 3,
            "no stops": lambda answer: call_of(answer).get("stops") == [],
            "an age": lambda answer: call_of(answer).get("who", {}).get("age"),
        },
        {
            **other_than("train", int),
            **other_than("is_return", bool),
            **other_than("nothing", type(None)),
            **other_than("stops", list),
            "four stops": lambda answer: len(call_of(answer).get("stops", ())) > 3,
            "numbers as stops": lambda answer: (
                {*call_of(answer).get("stops", ()), *call_of(answer).get("any", ())}
                - _TEXTS
            ),
            "no age": lambda answer: call_of(answer).get("who") == {},
            "no seat": lambda answer: (
                answer.tool_calls and "seat" not in call_of(answer)
            ),
            "fault": lambda answer: not (answer.text or answer.tool_calls),
        },
    ),
    "arguments of a schema": Row(
        strategies.model_answers([HAND_WRITTEN], broken=()),
        {
            **has(lambda answer: call_of(answer).get("to"), *_TEXTS),
            **of_types("much", str),
            **of_types("why", str),
            **of_types("all", list),
            "deep": lambda answer: (
                type(call_of(answer).get("deep", {}).get("a")) is int
            ),
            "a list": lambda answer: "Bern" in call_of(answer).get("all", ()),
        },
        {"no payee": lambda answer: answer.tool_calls and "to" not in call_of(answer)},
    ),
    "answers without faults": Row(
        strategies.model_answers(broken=False),
        {
            **{f"{n} calls": lambda a, n=n: len(a.tool_calls) == n for n in range(4)},
            **has(lambda answer: answer.text, "At noon.", "I found 3 trains to Bern."),
            "any text": lambda answer: len(answer.text) == 1,
            "calls alone": lambda answer: answer.tool_calls and not answer.parts,
            "calls with a text": lambda answer: answer.tool_calls and answer.text,
            "thinks": lambda answer: any(
                isinstance(p, ReasoningPart) and p.text and p.signature
                for p in answer.parts
            ),
            **with_words(
                lambda answer: [c.name for c in answer.tool_calls], "search", "clock"
            ),
            "query": lambda answer: any(
                "trains" in c.arguments for c in answer.tool_calls if c.name == "search"
            ),
        },
        {
            "four calls": lambda answer: len(answer.tool_calls) > 3,
            "one id": lambda answer: (
                len({c.id for c in answer.tool_calls}) < len(answer.tool_calls)
            ),
            "no usage": lambda answer: not answer.response.usage.prompt_tokens,
            "wrong reason": lambda answer: (
                answer.response.finish_reason
                != ("tool_calls" if answer.tool_calls else "stop")
            ),
            "no id": lambda answer: not answer.response.id.startswith("response_"),
            "nothing": lambda answer: not answer.tool_calls and not answer.text,
            "no query": lambda answer: any(
                c.name == "search" and [*json.loads(c.arguments)] != ["query"]
                for c in answer.tool_calls
            ),
            "thinks more": lambda answer: (
                len([p for p in answer.parts if isinstance(p, ReasoningPart)]) > 1
            ),
        },
    ),
    "no tools": Row(
        strategies.model_answers([]),
        {"refuses": lambda answer: answer.parts and not answer.text},
        {"calls": lambda answer: answer.tool_calls},
    ),
    "unknown tool": Row(
        strategies.model_answers(broken=["unknown tool"]),
        {
            **with_words(
                lambda answer: [c.name for c in answer.tool_calls],
                *("", "fly", "multi_tool_use.parallel"),
            ),
            "the second": lambda answer: (
                len(answer.tool_calls) == 2 and answer.tool_calls[1].name == "fly"
            ),
            "the first": lambda answer: (
                len(answer.tool_calls) == 2 and answer.tool_calls[0].name == "fly"
            ),
        },
    ),
    "invalid JSON": Row(
        strategies.model_answers(broken="invalid JSON"),
        with_words(
            lambda answer: [c.arguments for c in answer.tool_calls],
            *('{"query": "Be', "trains", "[]", "{'a': 1}"),
        ),
    ),
    "ids": Row(
        strategies.model_answers(broken=["repeated id", "missing id", "long id"]),
        {
            "twice": lambda answer: (
                len(answer.tool_calls) == 2
                and answer.tool_calls[0].id == answer.tool_calls[1].id != ""
            ),
            "the same in each": lambda answer: (
                [c.id for c in answer.tool_calls] == ["call_0"]
            ),
            "missing": lambda answer: [c.id for c in answer.tool_calls] == [""],
            "long": lambda answer: any(len(c.id) == 80 for c in answer.tool_calls),
        },
    ),
    "ends": Row(
        strategies.model_answers(broken=["empty", "refused", "truncated"]),
        {
            "empty": lambda answer: (
                not answer.parts
                and not answer.tool_calls
                and answer.response.finish_reason == "stop"
            ),
            **{
                f"refused: {reason}": lambda answer, reason=reason: (
                    answer.parts[:1] == (RefusalPart("I can't help with that."),)
                    and not answer.tool_calls
                    and answer.response.finish_reason == reason
                )
                for reason in ("stop", "content_filter")
            },
            "cut text": lambda answer: (
                answer.response.finish_reason == "length" and not answer.tool_calls
            ),
            "cut call": lambda answer: any(
                is_cut_json(c.arguments) for c in answer.tool_calls[-1:]
            ),
            "a call cut off": lambda answer: any(
                not c.arguments for c in answer.tool_calls[-1:]
            ),
            "a whole one before": lambda answer: (
                len(answer.tool_calls) > 1
                and is_object(answer.tool_calls[0].arguments)
                and not is_object(answer.tool_calls[1].arguments)
            ),
        },
        {
            "several parts of a refusal": lambda answer: (
                any(isinstance(p, RefusalPart) for p in answer.parts)
                and len(answer.parts) > 1
            ),
        },
    ),
}
STREAMS = {
    "chat": Row(
        strategies.event_streams("openai_chat"),
        {
            "the last twice": ends_twice,
            "nothing": lambda events: not events,
            "an error": lambda events: events and "error" in events[-1],
            "one piece": lambda events: "At noon." in json.dumps(events),
            "pieces": lambda events: len(events) > 20,
        },
    ),
    "Anthropic": Row(
        strategies.event_streams("anthropic"),
        {
            "whole": lambda events: events[-1:] == [{"type": "message_stop"}],
            "nothing": lambda events: not events,
            "an error": lambda events: events[-1:] and events[-1]["type"] == "error",
        },
        {"the last twice": ends_twice},
    ),
    "payloads": Row(
        strategies.provider_payloads("openai_chat"),
        {
            "request": lambda payload: payload.get("messages"),
            "response": lambda payload: "choices" in payload,
        },
    ),
}
LIFE = {
    "conversations": Row(
        strategies.conversations(),
        {
            "empty": lambda chat: not chat,
            "system": lambda chat: chat and chat[0] == SystemMessage("Be brief."),
            "no system": lambda chat: chat and chat[0].role == "user",
            "long": lambda chat: len(chat) > 60,
            "any content": lambda chat: any(
                isinstance(m, UnknownMessage) for m in chat
            ),
            "any text": lambda chat: any(
                m.role == "user" and len(m.text) == 1 for m in chat
            ),
        },
        {"too long": lambda chat: len(chat) > 120},
    ),
    "short conversations": Row(
        strategies.conversations(max_turns=1, long=False),
        {"a turn": lambda chat: [m.role for m in chat] == ["user", "assistant"]},
        {"turns": lambda chat: [m.role for m in chat].count("user") > 6},
    ),
    "states": Row(
        strategies.states(conversations=st.just([UserMessage("q"), UserMessage("r")])),
        {
            "nothing more": lambda state: texts_of(state) == ["q", "r"],
            "fork": lambda state: state.parent_id,
            "used": lambda state: state.ledger,
            "more": lambda state: len(state) > 4,
            "in the middle": lambda state: (
                len(state) > 2 and texts_of(state)[-1] == "r" and state[0].text == "q"
            ),
        },
    ),
    "diamonds": Row(
        strategies.diamonds(conversations=st.just([UserMessage("q")])),
        {"both": lambda made: len(made.joined) > len(made.trunk) + 1},
        {"another trunk": lambda made: texts_of(made.trunk)[:1] != ["q"]},
    ),
}
TABLE = {
    f"{name}: {row}": table[row]
    for name, table in {
        "values": VALUES,
        "parts": PARTS,
        "messages": MESSAGES,
        "tools": TOOLS,
        "states": STATES,
        "chats": CHATS,
        "answers": ANSWERS,
        "streams": STREAMS,
        "life": LIFE,
    }.items()
    for row in table
}


class TestFeatures:
    @pytest.mark.parametrize("name", TABLE)
    def test_occur(self, name):
        """Everything that is documented occurs, and nothing that is excluded."""
        row = TABLE[name]

        assert set() == find_lacking(row.strategy, row.features, row.never)


class TestTranscripts:
    @given(transcripts())
    def test_are_accepted(self, transcript):
        """A provider accepts all of them."""
        assert is_accepted(transcript)

    @given(st.integers(0, 6), st.integers(0, 6), st.data())
    def test_size(self, least, more, data):
        """As long as asked for."""
        transcript = data.draw(transcripts(min_size=least, max_size=least + more))

        assert least <= len(transcript) <= least + more

    def test_broken_ones_shrink(self):
        """To one call that fails."""
        assert 4 >= len(simplest(broken_transcripts(max_size=1)))

    @pytest.mark.parametrize(
        ("name", "order", "accepted"),
        [
            ("nothing", "", True),
            ("parallel", "s s u 12 r2 r1 a u", True),
            ("answered in part", "u 12 r2", True),
            ("late system", "u s", False),
            ("dangling in part", "u 12 r1 a", False),
            ("dangling before a call", "u 1 2 r2", False),
            ("orphan", "u r1", False),
            ("another's result", "u 1 r2", False),
            ("twice", "u 1 r1 r1", False),
            ("apart", "u 1 u r1", False),
            ("one id twice", "u 11 r1", False),
            ("one id again", "u 1 r1 1 r1", False),
        ],
    )
    def test_is_accepted(self, name, order, accepted):
        """What a provider makes of the order of messages, example by example."""
        made: list[Message] = []
        for word in order.split():
            if word.isdigit():
                calls = [ToolCall(each, "clock") for each in word]
                made.append(AssistantMessage(tool_calls=calls))
            elif len(word) > 1:
                made.append(ToolMessage("", tool_call_id=word[1:]))
            else:
                kinds = {"s": SystemMessage, "u": UserMessage, "a": AssistantMessage}
                made.append(kinds[word](""))

        assert accepted == is_accepted(made), name


_OF_FORMATS = ("event_streams", "provider_payloads")


class TestStrategies:
    @pytest.mark.parametrize(
        "name",
        sorted(
            set(strategies.__all__)
            - {"BROKEN_ANSWERS", "Diamond", "is_accepted", *_OF_FORMATS}
        ),
    )
    def test_gives_examples(self, name):
        """
        Each (but those of formats) takes no argument,
        documents what it gives and how that shrinks, and has a
        repr of one line.
        """
        make = getattr(strategies, name)

        assert "hrink" in make.__doc__
        assert 5_000 > len(repr(make()))
        some(make())

    @pytest.mark.parametrize(
        ("strategy", "expected"),
        [
            (texts(), ""),
            (texts(min_size=3), "000"),
            (timestamps(), datetime(2000, 1, 1, tzinfo=UTC)),
            (json_values(), None),
            (usages(), Usage()),
            (transcripts(), ()),
            (transcripts(min_size=1), (UserMessage(""),)),
            (aggregators().map(lambda state: (len(state), state.parent_id)), (0, None)),
        ],
    )
    def test_shrinks(self, strategy, expected):
        """What examples shrink to."""
        assert expected == simplest(strategy)


class TestRegister:
    @pytest.mark.parametrize("cls", STRATEGIES, ids=lambda cls: cls.__name__)
    def test_types(self, cls):
        """Hypothesis makes every class of ours from its type alone."""
        register()

        assert isinstance(some(st.from_type(cls)), cls)

    def test_builds(self):
        """Annotations are enough."""
        register()

        def chat(state: Aggregator, part: Part, message: Message) -> int:
            return len(state) + len(part.kind) + len(message.role)

        assert 5 <= some(st.builds(chat))

    @pytest.mark.parametrize(
        "first",
        [
            "hypothesis",
            "conversation_state.testing",
            pytest.param(
                "conversation_state.testing.strategies", marks=pytest.mark.slow
            ),
            pytest.param("conversation_state.testing.machines", marks=pytest.mark.slow),
        ],
    )
    @pytest.mark.integration
    def test_entry_point(self, first, tmp_path):
        """Hypothesis finds it by itself, whichever of the two is imported first."""
        info = tmp_path / "strategies_of_ours-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: strategies-of-ours\n"
        )
        (info / "entry_points.txt").write_text(
            "[hypothesis]\nours = conversation_state.testing:register\n"
        )
        script = (
            f"import {first}\n"
            "from hypothesis import strategies as st\n"
            "from conversation_state import Aggregator\n"
            "print('states' in repr(st.from_type(Aggregator)))"
        )
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", script],
            capture_output=True,
            check=True,
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)]),
            },
            text=True,
        )

        assert "True" == done.stdout.strip()

    def test_is_light(self):
        """The package itself brings no Hypothesis along."""
        script = (
            "import sys, conversation_state.testing; print('hypothesis' in sys.modules)"
        )
        done = run_script(script)

        assert "False" == done.strip()

    def test_knows_every_class(self):
        """Every class that a strategy makes is registered, and nothing else."""
        assert {TextPart, Usage, Aggregator, Timeline} <= set(STRATEGIES)
        assert {str, dict, tuple}.isdisjoint(STRATEGIES)
