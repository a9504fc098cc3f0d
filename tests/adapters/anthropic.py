"""
Requests, responses and streams of Anthropic Messages, and short ways to write
some.
"""

import base64
import json
from typing import Any

from hypothesis import strategies as st

from conversation_state.adapters import anthropic
from conversation_state.adapters.anthropic import load_usage
from conversation_state.testing.strategies import json_values, texts
from tests.adapters.helpers import both, exactly, make_readers, some

PNG_BASE64 = "iVBORw0KGgo="


# Requests, as far as the provider takes them

NOTHING = st.sampled_from([None, ""])
TEXTS = texts(min_size=1, max_size=6).filter(str.strip) | st.sampled_from(["a", " b "])
CACHE = some(cache_control=st.just({"type": "ephemeral"}) | st.none())
EXTRAS = CACHE | some(keys=json_values(), index=st.integers(0, 3))
CITATION = exactly(type=st.just("char_location"), cited_text=texts(max_size=3))


BASE64 = st.binary(min_size=1, max_size=8).map(
    lambda data: base64.b64encode(data).decode()
) | st.sampled_from(["", "?", "====", PNG_BASE64, "JVBERi0="])
URLS = st.sampled_from(
    ["https://example.com/a", "gs://b", f"data:image/png;base64,{PNG_BASE64}", ""]
) | texts(max_size=4)
MEDIA_TYPES = st.sampled_from(
    ["image/png", "application/pdf", "text/plain", "text/csv", ""]
)
SOURCES = st.one_of(
    both(exactly(type=st.just("base64"), data=BASE64, media_type=MEDIA_TYPES), EXTRAS),
    both(exactly(type=st.just("url"), url=URLS), EXTRAS),
    exactly(type=st.just("text"), data=texts(), media_type=MEDIA_TYPES),
    exactly(type=st.just("file"), file_id=st.just("file_1")),
    exactly(type=st.just("content"), content=texts(max_size=3)),
    some(type=texts(max_size=3), data=json_values()),
)
IMAGE = both(exactly(type=st.just("image")), some(source=SOURCES), EXTRAS)
DOCUMENT = both(
    exactly(type=st.just("document")),
    some(
        source=SOURCES,
        title=texts(max_size=3) | NOTHING | json_values(),
        context=texts(max_size=3),
        citations=st.just({"enabled": True}),
    ),
    CACHE,
)
TEXT = both(
    exactly(type=st.just("text"), text=TEXTS),
    some(citations=st.none() | st.lists(CITATION, max_size=2)),
    EXTRAS,
)
OWN = st.one_of(
    both(
        exactly(
            type=st.just("server_tool_use"),
            id=st.just("srvtoolu_1"),
            input=json_values(),
        ),
        some(name=texts(max_size=3)),
    ),
    exactly(
        type=st.sampled_from(
            ["web_search_tool_result", "mcp_tool_result", "code_execution_tool_result"]
        ),
        content=json_values(),
    ),
    exactly(type=st.just("compaction"), content=texts() | st.none()),
    both(exactly(type=st.just("search_result")), EXTRAS),
    both(exactly(type=texts(min_size=12, max_size=14)), EXTRAS),
)

IDS = st.sampled_from(["toolu_1", "toolu_2", "a-b", "message_0"])
RESULT = both(
    exactly(type=st.just("tool_result"), tool_use_id=IDS),
    st.one_of(
        both(
            exactly(
                content=texts() | st.lists(TEXT | IMAGE | DOCUMENT | OWN, max_size=2)
            ),
            some(is_error=st.sampled_from([False])),
        ),
        exactly(
            content=TEXTS | st.lists(TEXT, min_size=1), is_error=st.sampled_from([True])
        ),
    ),
    CACHE,
)
INPUTS = st.dictionaries(texts(max_size=3), json_values(), max_size=2) | exactly(
    INVALID_JSON=texts(max_size=3)
    | st.sampled_from(
        ["{}", "", '{"INVALID_JSON": "{"}', '{"INVALID_JSON": "{}"}', "[1]", '{"a']
    )
)
CALL = both(
    exactly(type=st.just("tool_use"), id=IDS, name=texts(max_size=4), input=INPUTS),
    some(caller=st.just({"type": "direct"})),
    CACHE,
)
THINKING = both(
    exactly(type=st.just("thinking"), thinking=texts(), signature=texts(max_size=4)),
    EXTRAS,
)
REDACTED = exactly(type=st.just("redacted_thinking"), data=texts(max_size=4))

AROUND = st.just({}) | some(id=st.just("msg_1"), usage=json_values())
USER_BLOCKS = TEXT | RESULT | IMAGE | DOCUMENT | OWN
ANSWER_BLOCKS = TEXT | CALL | THINKING | REDACTED | OWN | IMAGE | RESULT


def with_results_first(blocks):
    """*blocks* in the order that the provider wants."""
    return sorted(blocks, key=lambda block: block["type"] != "tool_result")


def spoken(role, blocks):
    """A message of *role*: a text, or *blocks*."""
    several = st.lists(blocks, min_size=1, max_size=4).map(with_results_first)
    content = TEXTS | several
    return both(exactly(role=st.just(role), content=content), AROUND)


USER = spoken("user", USER_BLOCKS)
ANSWER = spoken("assistant", ANSWER_BLOCKS)
ADDITION = exactly(
    role=st.just("system"),
    content=st.just(
        [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}}]
    ),
)
LATER_SYSTEM = spoken("system", TEXT) | ADDITION
# A user, or two, a system message or none, an answer, or two.
EXCHANGES = st.tuples(
    st.lists(USER, min_size=1, max_size=2),
    st.lists(LATER_SYSTEM, max_size=2),
    st.lists(ANSWER, min_size=1, max_size=2),
).map(lambda made: [message for part in made for message in part])
CHATS = st.tuples(
    st.lists(ANSWER, max_size=1),
    st.lists(EXCHANGES, max_size=2),
    st.lists(USER, max_size=1),
).map(lambda made: [*made[0], *[m for exchange in made[1] for m in exchange], *made[2]])
SYSTEM = TEXTS | st.lists(TEXT, min_size=1, max_size=2)
REQUESTS = both(exactly(messages=CHATS), some(system=SYSTEM)) | both(
    exactly(messages=CHATS),
    exactly(system=st.just([{"type": "tool_reference", "name": "f"}])),
)

COUNTS = st.integers(0, 9) | st.none()
ITERATION = both(
    exactly(type=st.sampled_from(["message", "advisor_message", "compaction"])),
    some(input_tokens=COUNTS, output_tokens=COUNTS, cache_read_input_tokens=COUNTS),
)
USAGE_BLOCKS = both(
    some(
        input_tokens=COUNTS,
        output_tokens=COUNTS,
        cache_read_input_tokens=COUNTS,
        cache_creation_input_tokens=COUNTS,
        cache_creation=st.none()
        | some(ephemeral_5m_input_tokens=COUNTS, ephemeral_1h_input_tokens=COUNTS),
        output_tokens_details=st.none() | some(thinking_tokens=COUNTS),
        server_tool_use=st.none() | some(web_search_requests=COUNTS),
        iterations=st.lists(ITERATION, max_size=2),
        service_tier=st.just("standard"),
    ),
    EXTRAS,
)
WORDS = st.sampled_from(["end_turn", "tool_use", "pause_turn", "refusal"])
RESPONSES = both(
    exactly(content=st.lists(ANSWER_BLOCKS, max_size=3)),
    some(
        role=st.just("assistant"),
        type=st.just("message"),
        id=st.just("msg_1"),
        model=texts(max_size=3) | st.none(),
        stop_reason=WORDS | st.none(),
        stop_sequence=st.none(),
        usage=USAGE_BLOCKS | st.none(),
        container=json_values(),
    ),
)


# Short ways to write some


def user(*blocks, **fields):
    """A user's message in JSON."""
    return {"role": "user", "content": list(blocks), **fields}


def answer(*blocks, **fields):
    """An assistant's message in JSON."""
    return {"role": "assistant", "content": list(blocks), **fields}


def system(*blocks, **fields):
    """A system message in JSON, in the middle of a conversation."""
    return {"role": "system", "content": list(blocks), **fields}


def text(words, **fields):
    """A text block."""
    return {"type": "text", "text": words, **fields}


def call(call_id="toolu_1", name="f", given=None, **fields):
    """A block that calls a tool."""
    block = {"type": "tool_use", "id": call_id, "name": name, "input": given or {}}
    return {**block, **fields}


def result(call_id="toolu_1", content="ok", **fields):
    """A block with the result of a tool."""
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return {**block, **fields}


one, several, notes = make_readers(anthropic)


def cost(payload):
    """The usage of *payload*, which has one."""
    usage = load_usage(payload)
    assert usage is not None
    return usage


# Streams


def start(**fields):
    """The event that a stream begins with."""
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }
    return {"type": "message_start", "message": {**message, **fields}}


def begin(block, at=0, **fields):
    """The event that a *block* begins with."""
    return {
        "type": "content_block_start",
        "index": at,
        "content_block": block,
        **fields,
    }


def delta(kind, at=0, **fields):
    """An event that brings more of a block."""
    return {
        "type": "content_block_delta",
        "index": at,
        "delta": {"type": f"{kind}_delta", **fields},
    }


def more(piece, at=0):
    """An event that brings more text."""
    return delta("text", at, text=piece)


def given(piece, at=0):
    """An event that brings more of a call's input."""
    return delta("input_json", at, partial_json=piece)


def stop(at=0):
    """The event that a block ends with."""
    return {"type": "content_block_stop", "index": at}


def last(reason="end_turn", usage=None, **fields):
    """The event with the end of a response."""
    end = {"stop_reason": reason, "stop_sequence": None, **fields}
    used = {"output_tokens": 5} if usage is None else usage
    return {"type": "message_delta", "delta": end, "usage": used}


END = {"type": "message_stop"}


def events_of(response, cut=lambda text: [text[:1], text[1:]]):
    """The events that *response* is streamed in, its texts in pieces."""
    events = [
        {
            "type": "message_start",
            "message": {**response, "content": [], "stop_reason": None},
        }
    ]
    for at, whole in enumerate(response["content"]):
        block, pieces = dict(whole), []
        kind = block.get("type")
        if kind == "text":
            pieces = [more(piece, at) for piece in cut(block["text"])]
            block["text"] = ""
            pieces += [
                delta("citations", at, citation=citation)
                for citation in block.get("citations") or ()
            ]
            if block.get("citations"):
                block["citations"] = []
        elif kind == "thinking":
            pieces = [
                delta("thinking", at, thinking=piece)
                for piece in cut(block["thinking"])
            ]
            block["thinking"] = ""
            if block.get("signature"):
                pieces.append(delta("signature", at, signature=block["signature"]))

            block["signature"] = ""
        elif kind in {"tool_use", "server_tool_use"} and block["input"]:
            arguments = json.dumps(block["input"])
            pieces = [given(piece, at) for piece in ["", *cut(arguments)]]
            block["input"] = {}

        events += [begin(block, at), *pieces, stop(at)]

    end_delta = last(response.get("stop_reason"))
    return [*events, {**end_delta, "usage": response.get("usage")}, dict(END)]
