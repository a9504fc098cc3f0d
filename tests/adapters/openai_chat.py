"""
Requests and responses in Chat Completions and its dialects, and short ways to
write some.
"""

import base64

from hypothesis import strategies as st

from conversation_state.adapters import openai_chat
from conversation_state.testing.strategies import json_values, texts
from tests.adapters.helpers import both, exactly, make_readers, some

# Requests, in all dialects at once


NOTHING = st.sampled_from([None, ""])
WORDS = st.sampled_from(["a", "low", "wav", "mp3"]) | texts(max_size=4)
EXTRAS = st.just({}) | some(
    annotations=st.just([]) | json_values(),
    cache_control=st.just({"type": "ephemeral"}),
    prefix=st.booleans(),
    keys=json_values(),
    index=st.integers(0, 3),
)
BYTES = st.binary(min_size=1, max_size=8)


def encode_base64(data):
    return base64.b64encode(data).decode()


BASE64 = BYTES.map(encode_base64) | st.sampled_from(["", "?", "===="])
DATA_URLS = st.builds(
    lambda media_type, text: f"data:{media_type};base64,{text}",
    st.sampled_from(["image/png", "application/pdf", "", "a;charset=b", ";base64"]),
    BASE64,
)
URLS = st.one_of(
    st.sampled_from(["https://example.com/a", "http://b", "data:,x", "gs://c"]),
    DATA_URLS,
    texts(max_size=5),
)
# `dump` writes a file of no type as base64 alone.
FILES = BASE64 | URLS.filter(lambda url: not url.startswith("data:;base64,"))


def medium(kind, slot, content, **words):
    """A block of *kind*, with its content in an object or plainly."""
    inside = both(exactly(**{slot: content}), some(**words), EXTRAS)
    return both(exactly(type=st.just(kind), **{kind: inside | content}), EXTRAS)


TEXT = both(exactly(type=st.just("text"), text=texts()), EXTRAS)
PLAIN_TEXT = exactly(type=st.just("text"), text=texts())
WORD = WORDS | NOTHING
BLOCKS = st.one_of(
    PLAIN_TEXT,
    TEXT,
    both(exactly(type=st.just("refusal"), refusal=texts()), EXTRAS),
    both(
        exactly(
            type=st.just("thinking"), thinking=st.lists(PLAIN_TEXT | TEXT, max_size=3)
        ),
        some(closed=st.booleans(), signature=WORD | json_values()),
    ),
    medium("image_url", "url", URLS, detail=WORD),
    medium("video_url", "url", URLS),
    medium("audio_url", "url", URLS),
    both(medium("document_url", "url", URLS), some(document_name=WORD | json_values())),
    medium("input_audio", "data", BASE64 | URLS, format=WORD),
    medium("file", "file_data", FILES, filename=WORD),
    both(exactly(type=st.just("file"), file=some(file_id=WORD, filename=WORD))),
    both(exactly(type=st.just("file")), some(file_id=WORD)),
    both(exactly(type=texts(min_size=3, max_size=9)), EXTRAS),
)
CONTENTS = some(content=texts() | NOTHING | st.lists(BLOCKS, max_size=3))
NAMES = some(name=texts(max_size=4) | NOTHING)

ARGUMENTS = texts() | NOTHING | st.sampled_from(["{}", '{ "a" : 1 }', '{"a'])
FUNCTIONS = both(exactly(name=texts(max_size=4)), some(arguments=ARGUMENTS), EXTRAS)
IDS = st.sampled_from(["call_1", "call_2", "message_0"]) | NOTHING
CALLS = st.one_of(
    both(exactly(function=FUNCTIONS, type=st.just("function")), some(id=IDS), EXTRAS),
    both(
        exactly(
            type=st.just("custom"),
            custom=both(exactly(name=texts(max_size=4)), some(input=ARGUMENTS), EXTRAS),
        ),
        some(id=IDS, function=json_values()),
        EXTRAS,
    ),
    both(
        exactly(type=st.just("mcp") | texts(max_size=3)),
        some(id=IDS, function=FUNCTIONS | json_values(), server=json_values()),
    ),
)
REASONING = texts(max_size=4) | NOTHING | json_values()
SOUND = some(id=st.just("audio_1"), expires_at=st.just(1), transcript=texts())


def as_usual(message):
    """
    *message* as `dump` writes it: next to something else, a single text in a list is a
    text.
    """
    content = message.get("content")
    is_text = isinstance(content, list) and [*map(set, content)] == [{"type", "text"}]
    beside = ("refusal", "reasoning_content", "reasoning")
    if is_text and any(isinstance(message.get(key), str) for key in beside):
        return {**message, "content": content[0]["text"]}

    return message


ANSWERS = both(
    exactly(role=st.just("assistant")),
    CONTENTS,
    NAMES,
    EXTRAS,
    some(
        tool_calls=st.lists(CALLS, max_size=3) | st.none(),
        function_call=FUNCTIONS | st.none(),
        refusal=texts() | st.none(),
        reasoning_content=REASONING,
        reasoning=REASONING,
        audio=SOUND | st.none(),
    ),
).map(as_usual)
MESSAGES = st.one_of(
    both(exactly(role=st.sampled_from(["system", "developer"])), CONTENTS, NAMES),
    both(exactly(role=st.just("user")), CONTENTS, NAMES, EXTRAS),
    ANSWERS,
    both(
        exactly(role=st.sampled_from(["tool", "function"])),
        CONTENTS,
        NAMES,
        EXTRAS,
        some(tool_call_id=IDS),
    ),
)


def has_content(message):
    """Whether *message* has the content that its role needs."""
    role, is_there = message["role"], "content" in message
    if role == "user":
        return message.get("content") is not None

    return is_there or role not in {"function", "tool"}


MESSAGES = MESSAGES.filter(has_content)
REQUESTS = st.lists(MESSAGES, max_size=4).map(lambda history: {"messages": history})

COUNTS = st.integers(0, 9) | st.none()
USAGE_BLOCKS = both(
    some(
        prompt_tokens=COUNTS,
        completion_tokens=COUNTS,
        total_tokens=COUNTS,
        prompt_cache_hit_tokens=COUNTS,
        prompt_tokens_details=some(cached_tokens=COUNTS, audio_tokens=COUNTS),
        completion_tokens_details=some(reasoning_tokens=COUNTS, text_tokens=COUNTS),
        total_time=st.floats(0, 1),
    ),
    EXTRAS,
)
CHANCES = exactly(
    token=texts(max_size=2),
    logprob=st.floats(-9, 0) | st.integers(-9999, 0),
    bytes=st.lists(st.integers(0, 255), max_size=2) | st.none(),
)
LOGPROBS = some(
    content=st.none()
    | st.lists(
        both(CHANCES, some(top_logprobs=st.lists(both(CHANCES, EXTRAS), max_size=2))),
        max_size=2,
    ),
    refusal=st.none() | json_values(),
)
RESPONSES = both(
    exactly(
        choices=st.lists(
            both(
                exactly(message=ANSWERS),
                some(
                    finish_reason=WORDS | st.none(),
                    logprobs=LOGPROBS | st.none(),
                    index=st.integers(0, 1),
                ),
            ),
            min_size=1,
            max_size=2,
        )
    ),
    some(id=WORDS, model=WORDS | st.none(), usage=USAGE_BLOCKS | st.none()),
    EXTRAS,
)


one, several, notes = make_readers(openai_chat)


def answer(**fields):
    """An assistant's message in JSON."""
    return {"role": "assistant", **fields}


def call(name="f", **fields):
    """A call in JSON."""
    function = {"name": name, "arguments": "{}"}
    return {"id": "c1", "type": "function", "function": function, **fields}
