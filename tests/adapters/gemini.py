"""
Requests and responses of Gemini's, and short ways to write some.
"""

import base64

from hypothesis import strategies as st

from conversation_state.adapters import gemini
from conversation_state.adapters.gemini import load_usage
from conversation_state.testing.strategies import json_values, texts
from tests.adapters.helpers import both, exactly, make_readers, some

PNG = b"\x89PNG\r\n\x1a\n\xff\xfe"
PNG_TEXT = "iVBORw0KGgr//g=="
SKIP = "skip_thought_signature_validator"


# Requests


OTHER = {
    "displayName": "display_name",
    "fileData": "file_data",
    "fileUri": "file_uri",
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "inlineData": "inline_data",
    "mimeType": "mime_type",
    "systemInstruction": "system_instruction",
    "thoughtSignature": "thought_signature",
}


def in_either_spelling(raw):
    """
    *raw*, with some of its keys in snake case.
    """
    known = sorted(raw.keys() & OTHER.keys())
    return (
        st.sets(st.sampled_from(known)).map(
            lambda chosen: {OTHER[k] if k in chosen else k: v for k, v in raw.items()}
        )
        if known
        else st.just(raw)
    )


def spelt(objects):
    """
    *objects* in either spelling.
    """
    return objects.flatmap(in_either_spelling)


NOTHING = st.sampled_from([None, ""])
WORDS = st.sampled_from(["a", "f", "g"]) | texts(max_size=4)
EXTRAS = st.just({}) | some(
    thoughtSignature=st.sampled_from(["c2ln", SKIP, ""]) | st.none(),
    partMetadata=json_values(),
    thought=st.booleans() | st.none(),
    videoMetadata=st.just({"startOffset": "1s"}),
    keys=json_values(),
    index=st.integers(0, 3),
)


def unusual_base64(data):
    """
    *data* as some encoders have it: url-safe, in lines, or without padding.
    """
    text = base64.b64encode(data).decode()
    safe = base64.urlsafe_b64encode(data).decode()
    return st.sampled_from([text, safe, text.rstrip("="), f"{text[:3]}\n{text[3:]}"])


BYTES = st.binary(min_size=1, max_size=8)
BASE64 = BYTES.flatmap(unusual_base64) | st.sampled_from(["", "?", "QUJ=", "===="])
TYPES = (
    st.sampled_from(
        ["image/png", "IMAGE/x", "audio/L16", "video/*", "image/*", "file/*"]
    )
    | texts(max_size=4)
    | NOTHING
)
NAMED = some(displayName=WORDS | NOTHING | json_values(), mimeType=TYPES, extra=WORDS)
CODED = BYTES.flatmap(unusual_base64)
BLOBS = st.one_of(
    spelt(both(exactly(data=CODED), NAMED)),
    spelt(both(exactly(data=CODED, mimeType=TYPES))),
    spelt(both(some(data=BASE64 | st.none()), NAMED)),
)
FILES = spelt(both(exactly(fileUri=WORDS) | some(fileUri=NOTHING), NAMED))
TEXT = exactly(text=texts())
THOUGHTS = both(
    some(text=texts() | NOTHING),
    exactly(thought=st.sampled_from([True])),
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
IDS = st.sampled_from(["call_1", "call_2", "content_0"]) | NOTHING
OBJECTS = st.dictionaries(texts(max_size=3), json_values(max_leaves=3), max_size=2)
CALLS = exactly(
    functionCall=both(
        some(
            name=WORDS | NOTHING,
            id=IDS,
            args=OBJECTS | st.none(),
            willContinue=st.booleans(),
        )
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
    functionResponse=some(
        name=WORDS | NOTHING,
        id=IDS,
        response=RESPONSE_TEXTS | st.none(),
        parts=st.lists(MEDIA | OPAQUE | TEXT, max_size=2) | st.none(),
        scheduling=st.just("SILENT"),
    )
)


def extended(parts):
    """
    *parts* with something beside them.
    """
    return spelt(st.tuples(parts, EXTRAS).map(lambda made: {**made[1], **made[0]}))


SPOKEN = st.one_of(TEXT, TEXT, extended(TEXT), extended(MEDIA), extended(OPAQUE))
CALLED = extended(CALLS)
ANSWERED = extended(RESULTS)
PARTS = st.one_of(SPOKEN, spelt(THOUGHTS), CALLED, CALLED, extended(MEDIA), ANSWERED)
ASKED = st.one_of(SPOKEN, ANSWERED, ANSWERED, ANSWERED, extended(MEDIA), CALLED)


def contents(roles, parts):
    """
    Contents of *parts*.
    """
    lists = st.lists(parts, min_size=1, max_size=4)
    few = st.one_of(lists, lists, lists, st.lists(parts, max_size=1), st.none())
    spoken = st.one_of(exactly(parts=few), exactly(parts=few), some(parts=few))
    return both(spoken, roles, st.just({}) | some(keys=json_values(), cached=WORDS))


CONTENTS = st.one_of(
    contents(exactly(role=st.just("model")), PARTS),
    contents(exactly(role=st.just("model")), PARTS),
    contents(exactly(role=st.just("user")), ASKED),
    contents(exactly(role=st.sampled_from(["user", "function"])), ASKED),
    contents(some(role=NOTHING), ASKED),
    contents(exactly(role=st.just("system")), SPOKEN),
)
INSTRUCTIONS = st.one_of(
    texts(),
    contents(some(role=st.just("user")), TEXT | extended(TEXT)),
    contents(some(role=st.just("user")), SPOKEN),
)
REQUESTS = both(
    some(systemInstruction=INSTRUCTIONS).flatmap(in_either_spelling),
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
    """
    A content by the user.
    """
    return {"role": "user", "parts": list(parts), **keys}


def model(*parts, **keys):
    """
    A content by the model.
    """
    return {"role": "model", "parts": list(parts), **keys}


def call(name="f", *, signature="c2ln", **fields):
    """
    A part that calls *name*, signed unless *signature* is "".
    """
    signed = {"thoughtSignature": signature} if signature else {}
    return {"functionCall": {"name": name, "args": {}, **fields}, **signed}


def result(name="f", output="ok", **fields):
    """
    A part with what *name* returned.
    """
    body = {"name": name, "response": {"output": output}, **fields}
    return {"functionResponse": body}


def response(*parts, **fields):
    """
    A response of *parts*.
    """
    candidate = {"content": model(*parts), "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "responseId": "r1", **fields}


one, several, notes = make_readers(gemini)


def usage_of(payload):
    """
    The usage that *payload* reports, or None.
    """
    return load_usage(payload)
