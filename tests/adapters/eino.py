"""Messages as eino writes them: what is empty is left out, where Go does so."""

import base64

from hypothesis import strategies as st

from conversation_state.testing.strategies import json_values, metadata, texts
from tests.adapters.helpers import both, exactly, some

# What Go leaves out where it is empty is never "".
WORDS = texts(min_size=1, max_size=4)
TEXTS = texts(min_size=1)
EXTRAS = metadata().filter(bool) | st.sampled_from(
    [
        {"conversation_state": {"eino": {"keys": {"a": 1}}, "mark": 1}},
        {"conversation_state": 1, "b": 2},
    ]
)
EXTRA = some(extra=EXTRAS)

BASE64 = st.binary(min_size=1, max_size=8).map(lambda b: base64.b64encode(b).decode())
# Pointers, and so there or not, whatever they point to.
COMMON = some(
    url=WORDS | st.just("https://example.com/a"),
    base64data=BASE64 | st.sampled_from(["?", "===="]),
    mime_type=WORDS,
)
INPUT_MEDIA = {
    "audio_url": exactly(audio=COMMON),
    "file_url": exactly(file=both(COMMON, some(name=WORDS))),
    "image_url": exactly(
        image=both(COMMON, some(detail=st.sampled_from(["high", "low", "auto"])))
    ),
    "video_url": exactly(video=COMMON),
}
OUTPUT_MEDIA = {
    "audio_url": exactly(audio=COMMON),
    "image_url": exactly(image=COMMON),
    "video_url": exactly(video=COMMON),
}


def typed(kind, *fields):
    """A part of a *kind*, with its *fields*."""
    return both(exactly(type=st.just(kind)), *fields)


TEXT = typed("text", some(text=TEXTS), EXTRA)
THOUGHT = both(exactly(signature=WORDS), some(text=TEXTS))
REASONING = typed("reasoning", exactly(reasoning=THOUGHT), EXTRA)
ODD = typed("tool_search_result", some(tool_search_result=json_values()), EXTRA)


def parts(media):
    """Parts of the newer lists."""
    found = [typed(kind, body, EXTRA) for kind, body in media.items()]
    hollow = [typed(kind, EXTRA) for kind in media]
    return [TEXT, ODD, *found, *hollow]


INPUT = st.one_of(parts(INPUT_MEDIA))
OUTPUT = st.one_of([*parts(OUTPUT_MEDIA), REASONING, REASONING])


def listed(some_parts):
    """A list of parts, which is left out where it is empty, or a text would do."""
    lists = st.lists(some_parts, min_size=1, max_size=3)
    return lists.filter(lambda found: len(found) > 1 or found[0]["type"] != "text")


CALLS = both(
    exactly(
        id=st.sampled_from(["", "call_1", "call_2", "message_0_call_0"]),
        type=st.sampled_from(["function", "custom"]),
        function=some(name=WORDS, arguments=st.just("{}") | TEXTS),
    ),
    some(index=st.integers(0, 2) | st.just(2**63 - 1)),
    EXTRA,
)
COUNTS = st.integers(0, 9) | st.just(2**63 - 1)
USAGES = exactly(
    prompt_tokens=COUNTS,
    prompt_token_details=exactly(cached_tokens=COUNTS),
    completion_tokens=COUNTS,
    total_tokens=COUNTS,
    completion_token_details=some(reasoning_tokens=st.integers(1, 9)),
)
# Go writes no ".0".
CHANCES = st.floats(-9, -1e-9).map(lambda x: int(x) if x.is_integer() else x) | (
    st.sampled_from([-9999, -0.0, 0, 5e-324, -1e300])
)
BYTES = some(bytes=st.lists(st.integers(0, 255), min_size=1, max_size=2))
TOPS = both(exactly(token=texts(max_size=2), logprob=CHANCES), BYTES)
CHOSEN = both(
    TOPS,
    exactly(top_logprobs=st.none() | st.lists(TOPS, min_size=1, max_size=2)),
)
LOGPROBS = exactly(content=st.none() | st.lists(CHOSEN, min_size=1, max_size=2))
RESPONSES = some(
    finish_reason=st.sampled_from(["stop", "tool_calls"]) | WORDS,
    usage=USAGES,
    logprobs=LOGPROBS,
)
SPOKEN = both(exactly(content=texts()), some(name=WORDS), EXTRA)
MESSAGES = st.one_of(
    both(
        exactly(role=st.just("user")),
        SPOKEN,
        some(user_input_multi_content=listed(INPUT)),
    ),
    both(exactly(role=st.just("system")), SPOKEN),
    both(
        exactly(role=st.just("assistant")),
        SPOKEN,
        some(
            assistant_output_multi_content=listed(OUTPUT),
            reasoning_content=st.just("Hm."),
            tool_calls=st.lists(CALLS, min_size=1, max_size=3),
            response_meta=RESPONSES,
        ),
    ),
    both(
        exactly(role=st.just("tool")),
        SPOKEN,
        some(
            user_input_multi_content=listed(INPUT),
            tool_call_id=st.sampled_from(["call_1", "call_2", "message_1"]),
            tool_name=WORDS,
        ),
    ),
    # Roles are not checked, and fields of another role are not an error.
    both(
        exactly(role=st.sampled_from(["", "banana", "user", "assistant", "tool"])),
        SPOKEN,
        some(
            assistant_output_multi_content=listed(OUTPUT),
            tool_call_id=WORDS,
            response_meta=RESPONSES,
            newer=json_values(),
        ),
    ),
)
CONVERSATIONS = st.lists(MESSAGES, max_size=4).map(
    lambda history: {"messages": history}
)
