"""Requests and responses of Gemini's, and short ways to write some."""

import base64

from hypothesis import strategies as st

from conversation_state.adapters import gemini
from conversation_state.adapters.gemini import load_usage
from conversation_state.testing.strategies import json_values, texts
from tests.adapters.helpers import both, exactly, make_readers, some

PNG_TEXT = "iVBORw0KGgr//g=="
SKIP = "skip_thought_signature_validator"


# Requests


NOTHING = st.sampled_from([None, ""])
WORDS = st.sampled_from(["a", "f", "g"]) | texts(max_size=4)
NAMES = st.sampled_from(["f", "g"]) | texts(min_size=1, max_size=4)
EXTRAS = st.just({}) | some(
    thoughtSignature=st.sampled_from(["c2ln", SKIP, ""]) | st.none(),
    partMetadata=json_values(),
    thought=st.booleans() | st.none(),
    videoMetadata=st.just({"startOffset": "1s"}),
    keys=json_values(),
    index=st.integers(0, 3),
)


BYTES = st.binary(min_size=1, max_size=8)
BASE64 = BYTES.flatmap(
    lambda data: st.sampled_from(
        [base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()]
    )
)
TYPES = st.sampled_from(
    ["image/png", "IMAGE/x", "audio/L16", "video/*", "image/*", "file/*"]
) | texts(min_size=1, max_size=4)
NAMED = some(displayName=WORDS | NOTHING | json_values(), mimeType=TYPES, extra=WORDS)
BLOBS = both(exactly(data=BASE64), NAMED) | both(
    some(data=st.sampled_from(["", "?", "===="]) | st.none()), NAMED
)
FILES = both(exactly(fileUri=WORDS) | some(fileUri=NOTHING), NAMED)
TEXT = exactly(text=texts())
THOUGHTS = both(
    exactly(text=texts(), thought=st.sampled_from([True])),
    some(thoughtSignature=WORDS | NOTHING | json_values(), keys=json_values()),
)
MEDIA = exactly(inlineData=BLOBS) | exactly(fileData=FILES)
OPAQUE = st.one_of(
    exactly(executableCode=some(code=texts(), language=st.just("PYTHON"))),
    exactly(codeExecutionResult=some(output=texts(), outcome=st.just("OUTCOME_OK"))),
    exactly(toolCall=some(id=WORDS, toolType=st.just("FILE_SEARCH"))),
    exactly(toolResponse=some(id=WORDS, tool_type=st.just("FILE_SEARCH"))),
    exactly(hologram=json_values()),
    st.just({}),
    exactly(text=texts(min_size=1), inlineData=BLOBS),
)
IDS = st.sampled_from(["call_1", "call_2", "content_0"])
OBJECTS = st.dictionaries(texts(max_size=3), json_values(max_leaves=3), max_size=2)
CALLS = exactly(
    functionCall=both(
        exactly(name=WORDS), some(id=IDS, args=OBJECTS, willContinue=st.booleans())
    )
)
RESPONSE_TEXTS = st.one_of(
    exactly(output=texts()),
    exactly(error=texts()),
    exactly(result=texts()),
    exactly(return_value=texts()),
    exactly(content=texts()),
    exactly(error=json_values()),
    exactly(output=json_values(), error=json_values()),
    OBJECTS,
)
RESULTS = exactly(
    functionResponse=both(
        exactly(name=NAMES, response=RESPONSE_TEXTS),
        some(
            id=IDS,
            parts=st.lists(MEDIA | OPAQUE | TEXT, min_size=1, max_size=2),
            scheduling=st.just("SILENT"),
        ),
    )
)


def extended(parts):
    """*parts* with something beside them; what has nothing else is no thought."""

    def extend(made):
        part, extras = made
        bare = {**extras, "thought": False} if part.keys() <= {"hologram"} else extras
        return {**bare, **part}

    return st.tuples(parts, EXTRAS).map(extend)


SPOKEN = st.one_of(TEXT, TEXT, extended(TEXT), extended(MEDIA), extended(OPAQUE))
CALLED = extended(CALLS)
ANSWERED = extended(RESULTS)
PARTS = st.one_of(SPOKEN, THOUGHTS, CALLED, CALLED, extended(MEDIA), ANSWERED)
ASKED = st.one_of(SPOKEN, ANSWERED, ANSWERED, ANSWERED, extended(MEDIA), CALLED)


def contents(roles, parts):
    """Contents of *parts*."""
    several = exactly(parts=st.lists(parts, min_size=1, max_size=4))
    return both(several, roles, st.just({}) | some(keys=json_values(), cached=WORDS))


CONTENTS = st.one_of(
    contents(exactly(role=st.just("model")), PARTS),
    contents(exactly(role=st.just("model")), PARTS),
    contents(exactly(role=st.just("user")), ASKED),
    contents(exactly(role=st.just("user")), ASKED),
    contents(exactly(role=st.just("system")), SPOKEN),
)
INSTRUCTIONS = st.one_of(
    contents(some(role=st.just("user")), TEXT | extended(TEXT)),
    contents(some(role=st.just("user")), SPOKEN),
)
REQUESTS = both(
    some(systemInstruction=INSTRUCTIONS),
    exactly(contents=st.lists(CONTENTS, max_size=4)),
)

# Responses

COUNTS = st.integers(0, 9) | st.none()
MODALITIES = st.lists(
    some(modality=st.sampled_from(["TEXT", "AUDIO", "IMAGE"]), tokenCount=COUNTS),
    max_size=2,
)
USAGE_BLOCKS = some(
    promptTokenCount=COUNTS,
    candidatesTokenCount=COUNTS,
    thoughtsTokenCount=COUNTS,
    toolUsePromptTokenCount=COUNTS,
    cachedContentTokenCount=COUNTS,
    totalTokenCount=COUNTS,
    promptTokensDetails=MODALITIES | st.none(),
    candidatesTokensDetails=MODALITIES,
    serviceTier=WORDS,
    future_count=COUNTS,
)
TOKENS = some(
    token=texts(max_size=2) | st.none(),
    tokenId=st.integers(0, 9),
    logProbability=st.floats(-9, 0) | st.integers(-9999, 0) | st.none(),
)
LOGPROBS = some(
    chosenCandidates=st.lists(TOKENS, max_size=2) | st.none(),
    topCandidates=st.lists(some(candidates=st.lists(TOKENS, max_size=2)), max_size=2),
    logProbabilitySum=st.floats(-9, 0),
)
ANSWERS = contents(some(role=st.just("model") | NOTHING), PARTS) | st.none()
CANDIDATES = some(
    content=ANSWERS,
    finishReason=st.sampled_from(["STOP", "MAX_TOKENS"]) | st.none(),
    finishMessage=WORDS,
    index=st.integers(0, 1),
    avgLogprobs=st.floats(-9, 0),
    logprobsResult=LOGPROBS | st.none(),
    groundingMetadata=json_values(),
)
RESPONSES = both(
    exactly(candidates=st.lists(CANDIDATES, max_size=2)),
    some(
        promptFeedback=some(blockReason=st.just("SAFETY")) | st.none(),
        usageMetadata=USAGE_BLOCKS | st.none(),
        modelVersion=WORDS | st.none(),
        responseId=WORDS,
    ),
)


# Short ways to write some


def user(*parts, **keys):
    """A content by the user."""
    return {"role": "user", "parts": list(parts), **keys}


def model(*parts, **keys):
    """A content by the model."""
    return {"role": "model", "parts": list(parts), **keys}


def call(name="f", *, signature="c2ln", **fields):
    """A part that calls *name*, signed unless *signature* is ""."""
    signed = {"thoughtSignature": signature} if signature else {}
    return {"functionCall": {"name": name, "args": {}, **fields}, **signed}


def result(name="f", output="ok", **fields):
    """A part with what *name* returned."""
    body = {"name": name, "response": {"output": output}, **fields}
    return {"functionResponse": body}


def response(*parts, **fields):
    """A response of *parts*."""
    candidate = {"content": model(*parts), "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "responseId": "r1", **fields}


one, several, notes = make_readers(gemini)


def usage_of(payload):
    """The usage that *payload* reports, or None."""
    return load_usage(payload)
