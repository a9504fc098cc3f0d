"""
Counts of tokens that are no counts, and other odd values beside an answer: it was paid
for all the same.
"""

from collections.abc import Callable
from typing import Any

import pytest

from conversation_state import Usage, concat
from conversation_state.adapters import (
    anthropic,
    eino,
    gemini,
    openai_chat,
    openai_responses,
)
from conversation_state.adapters.engine.notes import notes_of
from conversation_state.codec import decode, encode

ODD: list[Any] = [
    12.5,
    "12",
    "many",
    -1,
    -1.0,
    float("nan"),
    float("inf"),
    2**63,
    1e300,
    10**400,
    True,
    [],
    [3],
    {"tokens": 3},
]
# What a server may send instead of the whole block.
NO_BLOCKS: list[Any] = [3, "12", 1.5, [], [{}], True, float("nan"), "\ud83d"]
NO_BLOCKS += [["\udcab"], [{"\udcab": "\ud83d"}]]


def chat(usage: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "paid"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "r", "choices": [choice], "usage": usage}


def chat_events(usage: Any) -> list[dict[str, Any]]:
    delta = {"role": "assistant", "content": "paid"}
    return [
        {"id": "r", "choices": [{"index": 0, "delta": delta}]},
        {
            "id": "r",
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
            "usage": usage,
        },
    ]


def responses(usage: Any) -> dict[str, Any]:
    block = {"type": "output_text", "text": "paid", "annotations": []}
    item = {"type": "message", "id": "m", "role": "assistant", "content": [block]}
    return {"id": "r", "status": "completed", "output": [item], "usage": usage}


def responses_events(usage: Any) -> list[dict[str, Any]]:
    whole = responses(usage)
    item = {**whole["output"][0], "content": []}
    about = {"output_index": 0, "content_index": 0, "item_id": "m"}
    created = {**whole, "output": [], "usage": None, "status": "in_progress"}
    return [
        {"type": "response.created", "response": created},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_text.delta", **about, "delta": "paid"},
        {"type": "response.completed", "response": whole},
    ]


def claude(usage: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": "paid"}]
    about = {"id": "r", "role": "assistant", "stop_reason": "end_turn"}
    return {**about, "content": content, "usage": usage}


def claude_events(usage: Any) -> list[dict[str, Any]]:
    text = {"type": "text", "text": "paid"}
    return [
        {"type": "message_start", "message": {"id": "r", "role": "assistant"}},
        {"type": "content_block_start", "index": 0, "content_block": text},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": usage,
        },
        {"type": "message_stop"},
    ]


def google(usage: Any) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": "paid"}]}
    candidate = {"content": content, "finishReason": "STOP"}
    return {"responseId": "r", "candidates": [candidate], "usageMetadata": usage}


def google_events(usage: Any) -> list[dict[str, Any]]:
    return [google(usage)]


# The adapter, a response and its events, and the counts of prompt, completion, total.
Form = tuple[Any, Callable[[Any], Any], Callable[[Any], Any], tuple[str, str, str]]
FORMATS: dict[str, Form] = {
    "anthropic": (
        anthropic,
        claude,
        claude_events,
        ("input_tokens", "output_tokens", ""),
    ),
    "chat": (
        openai_chat,
        chat,
        chat_events,
        ("prompt_tokens", "completion_tokens", "total_tokens"),
    ),
    "gemini": (
        gemini,
        google,
        google_events,
        ("promptTokenCount", "candidatesTokenCount", "totalTokenCount"),
    ),
    "responses": (
        openai_responses,
        responses,
        responses_events,
        ("input_tokens", "output_tokens", "total_tokens"),
    ),
}
# A count that is a part of others.
DETAILS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "anthropic": lambda odd: {"output_tokens_details": {"thinking_tokens": odd}},
    "chat": lambda odd: {"prompt_tokens_details": {"cached_tokens": odd}},
    "gemini": lambda odd: {"cachedContentTokenCount": odd},
    "responses": lambda odd: {"output_tokens_details": {"reasoning_tokens": odd}},
}

formats = pytest.mark.parametrize("name", FORMATS)
odd_counts = pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:12])


def both(name: str, usage: Any) -> list[Any]:
    """The answer with *usage*: as the response has it, and its stream."""
    adapter, make, stream, _ = FORMATS[name]
    found = [*adapter.load(make(usage)), concat(adapter.load_chunks(stream(usage)))]

    assert ["paid", "paid"] == [message.text for message in found]
    for message in found:
        assert message == decode(encode(message))

    return found


def noted(name: str, message: Any) -> Any:
    source = FORMATS[name][0].__name__.rpartition(".")[2]
    return notes_of(message.metadata, source)["response"]["usage"]


@formats
class TestCounts:
    """Nothing in a usage block hides the answer, whole or streamed."""

    def test_floats(self, name):
        """12.0 is 12."""
        prompt, completion, total = FORMATS[name][3]
        usage = {prompt: 12.0, completion: 3.0, **({total: 15.0} if total else {})}

        for message in both(name, usage):
            counted = message.response.usage
            assert (12, 3, 15) == (
                counted.prompt_tokens,
                counted.completion_tokens,
                counted.total_tokens,
            )

    @odd_counts
    @pytest.mark.parametrize("which", [0, 1])
    def test_prompt_and_completion(self, name, which, odd):
        """Without one of them the usage is unknown; all counts are noted."""
        names = FORMATS[name][3]
        usage = {names[0]: 12, names[1]: 3, names[which]: odd}

        for message in both(name, usage):
            kept = noted(name, message)
            assert message.response.usage is None
            assert {names[0], names[1]} <= kept.keys()
            assert (12, 3)[not which] == kept[names[not which]]

    @odd_counts
    def test_total(self, name, odd):
        """Without a total the usage is the sum; what the total was is noted."""
        prompt, completion, total = FORMATS[name][3]
        if not total:
            pytest.skip("this format has no total")

        for message in both(name, {prompt: 12, completion: 3, total: odd}):
            assert 15 == message.response.usage.total_tokens
            assert total in noted(name, message)

    @odd_counts
    def test_details(self, name, odd):
        """A part of a count that can't be read is left out, and noted."""
        prompt, completion, _ = FORMATS[name][3]
        detail = DETAILS[name](odd)

        for message in both(name, {prompt: 12, completion: 3, **detail}):
            assert 15 == message.response.usage.total_tokens
            assert detail.keys() <= noted(name, message).keys()

    @pytest.mark.parametrize("block", NO_BLOCKS, ids=ascii)
    def test_blocks(self, name, block):
        """A usage that is no object is noted."""
        for message in both(name, block):
            assert message.response.usage is None

    @pytest.mark.parametrize("key", ["queue_time", "cost", "x"])
    def test_other_values(self, name, key):
        """A value that JSON can't represent is noted as a text."""
        prompt, completion, _ = FORMATS[name][3]
        usage = {prompt: 12, completion: 3, key: {"deep": [float("nan"), 2**70]}}

        for message in both(name, usage):
            assert 15 == message.response.usage.total_tokens
            assert ("nan", hex(2**70)) == tuple(noted(name, message)[key]["deep"])

    def test_deep(self, name):
        """Nor does a block that is nested a thousand times."""
        deep: Any = 0
        for _ in range(1000):
            deep = {"x": [deep]}

        for message in both(name, {FORMATS[name][3][0]: 12, "x": deep}):
            assert 12 == message.response.usage.prompt_tokens

    @pytest.mark.parametrize("later", [0, 0.0, None, 1, "less"])
    def test_running_counts(self, name, later):
        """An event with less, 0 or null does not set a count back."""
        adapter, _, stream, (prompt, completion, _) = FORMATS[name]
        key = "usageMetadata" if name == "gemini" else "usage"
        first, *rest = stream({prompt: 12, completion: 9})
        events = [first, *rest]
        at = next(at for at, one in enumerate(events) if holder(one, key) is not None)
        given = {} if later == "less" else {completion: later}
        again = with_usage(events[at], key, {prompt: 12, **given})

        message: Any = concat(
            adapter.load_chunks([*events[: at + 1], again, *events[at + 1 :]])
        )

        assert (12, 9) == (
            message.response.usage.prompt_tokens,
            message.response.usage.completion_tokens,
        )


def holder(event: Any, key: str) -> Any:
    """The part of *event* that has the usage; None if none has."""
    inside = event.get("response", event)
    return inside if inside.get(key) else None


def with_usage(event: Any, key: str, usage: Any) -> Any:
    if "response" in event:
        return {**event, "response": {**event["response"], key: usage}}

    return {**event, key: usage}


# Of each format: what names the model, and why the answer ended.
WORDS = {
    "anthropic": ("model", "stop_reason"),
    "chat": ("model", "finish_reason"),
    "gemini": ("modelVersion", "finishReason"),
    "responses": ("model", "status"),
}


def change(value: Any, changes: Any) -> Any:
    """*value* with what *changes* makes of each object in it, the inner ones first."""
    if isinstance(value, list):
        return [change(each, changes) for each in value]

    if not isinstance(value, dict):
        return value

    return changes({key: change(each, changes) for key, each in value.items()})


def both_changed(name: str, changes: Any) -> list[Any]:
    """As `both`, of what *changes* makes of each object in the answer."""
    adapter, make, stream, names = FORMATS[name]
    usage = dict.fromkeys(names[:2], 3)
    pieces = adapter.load_chunks(change(stream(usage), changes))
    found = [*adapter.load(change(make(usage), changes)), concat(pieces)]

    assert ["paid", "paid"] == [message.text for message in found]
    assert [6, 6] == [message.response.usage.total_tokens for message in found]
    assert found == [decode(encode(message)) for message in found]
    return found


@formats
class TestBeside:
    """Nor does anything else beside the content hide it."""

    @pytest.mark.parametrize("odd", [7, 1.5, True, {"a": ["b"]}], ids=repr)
    def test_words(self, name, odd):
        """A model or a reason that is no text is noted as it is; a number is known."""

        def changes(raw: Any) -> Any:
            if "r" in (raw.get("id"), raw.get("responseId")):
                raw = {**raw, WORDS[name][0]: odd}

            key = WORDS[name][1]
            return {**raw, key: odd} if raw.get(key) else raw

        for message in both_changed(name, changes):
            word = str(odd) if isinstance(odd, (int, float)) else ""
            unknown = {"", "completed", "interrupted"}
            assert word == message.response.model
            assert message.response.finish_reason in ({word} if word else unknown)
            shown = "{'a': ('b',)}" if odd.__class__ is dict else repr(odd)
            assert str(message.metadata).count(shown) == 2

    def test_numbers(self, name):
        """A number that JSON can't represent is noted as a text."""

        def changes(raw: Any) -> Any:
            if "r" in (raw.get("id"), raw.get("responseId")):
                raw = {**raw, "x": [float("nan"), float("-inf")], "y": 2**70}

            return raw

        for message in both_changed(name, changes):
            kept = str(message.metadata)
            assert all(each in kept for each in ("'nan'", "'-inf'", hex(2**70)))

    def test_role(self, name):
        """A role of null is the assistant's."""

        def changes(raw: Any) -> Any:
            return {**raw, "role": None} if "role" in raw else raw

        if name == "responses":
            pytest.skip("items of this format have a role")

        for message in both_changed(name, changes):
            assert "assistant" == message.role


@pytest.mark.parametrize(
    "odd",
    [
        "",
        7,
        [None],
        {"content": 5, "chosenCandidates": 5},
        [{"token": "paid", "logprob": None}],
        [{"token": "paid", "logprob": float("nan")}],
        [{"token": 5, "logprob": -1.0}],
    ],
    ids=ascii,
)
@pytest.mark.parametrize("name", ["chat", "gemini", "responses"])
def test_log_probabilities(name, odd):
    """Log probabilities that can't be read are none, and don't hide the answer."""

    def changes(raw: Any) -> Any:
        if name == "chat" and raw.get("finish_reason"):
            listed = {"content": odd} if isinstance(odd, list) else odd
            return {**raw, "logprobs": listed}

        if name == "gemini" and "finishReason" in raw:
            tokens = odd
            if isinstance(odd, list):
                renamed = [
                    {**each, "logProbability": each["logprob"]} if each else each
                    for each in odd
                ]
                tokens = {"chosenCandidates": renamed}

            return {**raw, "logprobsResult": tokens}

        is_text = raw.get("type") in {"output_text", "response.output_text.delta"}
        return {**raw, "logprobs": odd} if is_text else raw

    for message in both_changed(name, changes):
        assert not any(each.logprob for each in message.response.logprobs or ())


@pytest.mark.parametrize("count", [12.5, float("nan"), -1, True, "12"], ids=repr)
def test_eino(count):
    """What eino was told is kept, too."""
    usage = {"prompt_tokens": count, "completion_tokens": 3, "total_tokens": 15}
    raw = {"role": "assistant", "content": "paid", "response_meta": {"usage": usage}}

    (message,) = eino.load([raw])

    assert "paid" == message.text
    assert message.response.usage is None  # type: ignore[attr-defined]


def test_eino_floats():
    """And 12.0 is 12 there."""
    usage = {"prompt_tokens": 12.0, "completion_tokens": 3.0, "total_tokens": 15.0}
    raw = {"role": "assistant", "content": "paid", "response_meta": {"usage": usage}}

    (message,) = eino.load([raw])

    assert Usage(12, 3) == message.response.usage  # type: ignore[attr-defined]


@formats
def test_load_usage(name):
    """Read alone, usage of floats is read as well."""
    adapter, _, _, (prompt, completion, _) = FORMATS[name]

    assert Usage(12, 3) == adapter.load_usage({prompt: 12.0, completion: 3.0})
