"""Messages and checkpoints as bubo writes them."""

import base64
from datetime import datetime, timedelta, timezone

from hypothesis import strategies as st

from conversation_state.adapters import bubo
from conversation_state.testing.strategies import json_values, metadata, texts
from tests.adapters.helpers import both, exactly, make_readers, some

RUN = "01890a5d-ac96-774b-bcce-b302099a8057"

# Texts that bubo takes for some: all others are null there.
TEXTS = texts().filter(lambda text: bool(text.strip()))
UUIDS = st.uuids(version=4).map(str) | st.just(RUN)
ZONES = st.integers(-12 * 60, 14 * 60).map(
    lambda minutes: timezone(timedelta(minutes=minutes))
)
# In Go, the first moment of the year 1 is not a time.
TIMES = st.datetimes(datetime(1, 1, 3), timezones=ZONES).map(  # noqa: DTZ001
    lambda time: time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
)
METAS = (
    metadata().filter(bool)
    | json_values().filter(lambda value: value is not None and value != {})
    | st.sampled_from(
        [
            {"conversation_state": {"bubo": {"keys": {"a": 1}}, "mark": 1}},
            {"conversation_state": 1, "b": 2},
        ]
    )
)
ENVELOPES = some(
    run_id=UUIDS,
    turn_id=UUIDS,
    sender=texts(min_size=1, max_size=4),
    timestamp=TIMES,
    meta=METAS,
)


def typed(kind, *fields):
    """An object of a *kind*, with its *fields*."""
    return both(exactly(type=st.just(kind)), *fields)


BASE64 = st.binary(max_size=8).map(lambda data: base64.b64encode(data).decode())
URLS = st.one_of(
    st.sampled_from(["https://example.com/a", "", "data:image/png;base64,iVBORw=="]),
    st.sampled_from(["data:;base64,aGk=", "data:image/png;base64,a", "data:a,b"]),
    texts(max_size=4),
)
FORMATS = st.sampled_from(["wav", "mp3", "", "/"]) | texts(max_size=3)
TEXT = typed("text", exactly(text=texts()))
USER_PARTS = st.one_of(
    TEXT,
    typed("image", exactly(image_url=URLS)),
    typed("audio", exactly(input_audio=exactly(data=BASE64, format=FORMATS))),
)
ASSISTANT_PARTS = TEXT | typed("refusal", exactly(refusal=texts()))
CALLS = exactly(
    id=st.sampled_from(["", "call_1", "call_2", "message_0_call_0"]),
    name=texts(max_size=4),
    arguments=st.just("{}") | texts(),
)
IDS = st.sampled_from(["", "call_1", "call_2", "message_1"])
PAYLOADS = st.one_of(
    typed("instructions", exactly(content=texts())),
    typed(
        "user", exactly(content=TEXTS | st.none() | st.lists(USER_PARTS, max_size=3))
    ),
    typed(
        "assistant",
        some(content=TEXTS)
        | exactly(content=st.lists(ASSISTANT_PARTS, min_size=2, max_size=3))
        | exactly(refusal=texts(min_size=1)),
    ),
    typed("tool_call", exactly(tool_calls=st.lists(CALLS, min_size=1, max_size=3))),
    typed(
        "tool_response",
        exactly(tool_name=texts(max_size=3), tool_call_id=IDS, content=texts()),
    ),
    typed(
        "retry",
        exactly(error=texts()),
        some(tool_name=texts(min_size=1, max_size=3), tool_call_id=IDS.filter(bool)),
    ),
)


MESSAGES = both(PAYLOADS, ENVELOPES)
CONVERSATIONS = st.lists(MESSAGES, max_size=4).map(
    lambda history: {"messages": history}
)

# What bubo writes, and can't read.
UNREADABLE = st.one_of(
    both(typed("tool_call", exactly(tool_calls=st.none())), ENVELOPES),
    both(typed("retry", some(tool_name=st.just("f"))), ENVELOPES),
    st.none(),
    ENVELOPES.filter(bool),
)

COUNTS = st.integers(0, 9) | st.just(2**63 - 1)
USAGES = exactly(
    completion_tokens=COUNTS,
    prompt_tokens=COUNTS,
    total_tokens=COUNTS,
    completion_tokens_details=exactly(
        accepted_prediction_tokens=COUNTS,
        audio_tokens=COUNTS,
        reasoning_tokens=COUNTS,
        rejected_prediction_tokens=COUNTS,
    ),
    prompt_tokens_details=exactly(audio_tokens=COUNTS, cached_tokens=COUNTS),
)


@st.composite
def checkpoints(draw, messages=MESSAGES):
    """Checkpoints, of roots and of forks."""
    history = draw(st.lists(messages, max_size=4))
    return {
        "id": draw(UUIDS),
        "messages": history,
        "usage": draw(USAGES),
        "init_len": draw(st.integers(0, len(history))),
    }


one, several, notes = make_readers(bubo)


def user(content="hi", **fields):
    """A user's message in JSON."""
    return {"type": "user", "content": content, **fields}
