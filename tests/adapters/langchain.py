"""LangChain's messages, as strategies."""

from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from conversation_state.testing.strategies import json_values

# Valid Unicode: what is not is mended, and has tests of its own.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.text("abc", min_size=1, max_size=3)
# A dict equals another with true for 1, and so tests would tell less.
VALUES = json_values()
MAPS = st.dictionaries(NAMES, VALUES, max_size=3)
# What JSON can't represent, and LangChain keeps all the same.
ODD = st.sampled_from(
    [
        float("inf"),
        2**70 + 1,
        b"\x00bytes",
        {1: "one", None: "none"},
        "\ud800",
        {"$langchain": "float", "value": "nan"},
        [Document("found", id="d", metadata={"score": float("-inf")})],
        HumanMessage([{"type": "text", "text": "within", "id": 3}], id="h"),
    ]
)
ARTIFACTS = st.none() | VALUES | ODD | st.dictionaries(NAMES, ODD, max_size=2)
DATA = st.sampled_from(["aGk=", "aG\nk=", "aGk", "!", ""])
MEDIA_TYPES = st.sampled_from(["image/png", "audio/wav", ""])


def some(**fields):
    return st.fixed_dictionaries({}, optional=fields)


def block(kind, **fields):
    more = {"index": st.integers(0, 3), "cache_control": MAPS, "extras": MAPS}
    return st.fixed_dictionaries(
        {"type": st.just(kind), **fields},
        optional={key: value for key, value in more.items() if key not in fields},
    )


SOURCES = some(
    type=st.sampled_from(["base64", "url", "file"]),
    data=DATA,
    url=TEXTS,
    media_type=MEDIA_TYPES,
)
MEDIA = st.one_of(
    *[
        block(kind, base64=DATA, mime_type=MEDIA_TYPES)
        | block(kind, url=TEXTS)
        | block(kind, extras=some(filename=TEXTS, detail=TEXTS), url=TEXTS)
        | block(kind, source_type=st.just("base64"), data=DATA)
        | block(kind, source_type=st.just("url"), url=TEXTS, mime_type=MEDIA_TYPES)
        | block(kind, file_id=TEXTS)
        for kind in ("audio", "file", "image", "video")
    ],
    block("image", source=SOURCES),
    block("document", source=SOURCES, title=TEXTS),
    block("image_url", image_url=TEXTS | some(url=TEXTS, detail=TEXTS)),
    block("image_url", image_url=some(url=st.just("data:image/png;base64,aGk="))),
    block("input_audio", input_audio=some(data=DATA, format=st.just("wav"))),
    block("file", file=some(file_id=TEXTS, filename=TEXTS, file_data=TEXTS)),
    block("file", file=some(file_data=st.just("data:a/b;base64,aGk="), filename=TEXTS)),
)
THOUGHTS = st.one_of(
    block("reasoning", reasoning=TEXTS),
    block("reasoning", reasoning=TEXTS, extras=some(signature=TEXTS, other=VALUES)),
    block("reasoning", id=NAMES, summary=st.lists(some(text=TEXTS), max_size=2)),
    block("thinking", thinking=TEXTS),
    block("thinking", thinking=TEXTS, signature=TEXTS | st.none()),
    block("redacted_thinking", data=TEXTS),
    block("reasoning_content", reasoning_content=some(text=TEXTS, signature=TEXTS)),
    block("refusal", refusal=TEXTS),
)
BLOCKS = st.one_of(
    TEXTS,
    block("text", text=TEXTS),
    block("text", text=TEXTS, annotations=st.lists(MAPS, max_size=2)),
    block("text", text=st.none() | st.integers()),
    MEDIA,
    THOUGHTS,
    block("non_standard", value=MAPS),
    block("text-plain", text=TEXTS),
    block("server_tool_call", id=NAMES, name=NAMES, args=MAPS),
    block("tool_use", id=NAMES, name=NAMES, input=MAPS),
    st.dictionaries(NAMES | st.just("type"), VALUES | ODD, max_size=3),
)
CONTENTS = TEXTS | st.lists(BLOCKS, max_size=4)
COMMON = {
    "id": st.none() | TEXTS,
    "name": st.none() | TEXTS,
    "additional_kwargs": st.just({}) | MAPS | st.dictionaries(NAMES, ODD, max_size=2),
    "response_metadata": st.just({}) | MAPS,
}
COUNTS = st.integers(0, 9)
USAGES = st.none() | st.fixed_dictionaries(
    {
        "input_tokens": COUNTS,
        "output_tokens": COUNTS,
        "total_tokens": COUNTS | st.just(-1),
    },
    optional={
        "input_token_details": some(
            audio=COUNTS,
            cache_read=COUNTS,
            cache_creation=COUNTS,
            ephemeral_5m_input_tokens=COUNTS | st.none(),
            flex=COUNTS,
            flex_cache_read=COUNTS,
        ),
        "output_token_details": some(
            audio=COUNTS, reasoning=COUNTS, rejected_prediction=COUNTS
        ),
    },
)
CALLS = st.fixed_dictionaries(
    {"id": st.none() | NAMES, "name": TEXTS, "args": st.dictionaries(TEXTS, VALUES)}
)
INVALID = st.fixed_dictionaries(
    {
        "id": st.none() | TEXTS,
        "name": st.none() | TEXTS,
        "args": st.none() | TEXTS | st.just("{}"),
        "error": st.none() | TEXTS,
    }
)
RESPONSES = some(
    finish_reason=TEXTS | st.none(),
    stop_reason=TEXTS,
    model_name=TEXTS,
    model=TEXTS,
    model_provider=st.sampled_from(["openai", "anthropic", "google_genai"]),
    logprobs=st.none() | MAPS,
)
ASIDE = some(reasoning_content=TEXTS | st.none(), refusal=TEXTS | st.none(), other=MAPS)


@st.composite
def answers(draw, kind=AIMessage):
    """
    A model's answer: calls, repeated among the content or not, and the metadata of the
    response.
    """
    calls = draw(st.lists(CALLS, max_size=3))
    content = draw(CONTENTS)
    if isinstance(content, list):
        for call in calls:
            again = draw(
                st.sampled_from(["", "tool_use", "tool_call", "function_call"])
            )
            where = draw(st.integers(0, len(content)))
            if again:
                content.insert(where, _draw_repeated_call(draw, again, call))

    return kind(
        content=content,
        tool_calls=calls,
        invalid_tool_calls=draw(st.lists(INVALID, max_size=2)),
        usage_metadata=draw(USAGES),
        **{
            **{name: draw(COMMON[name]) for name in ("id", "name")},
            "additional_kwargs": draw(COMMON["additional_kwargs"] | ASIDE),
            "response_metadata": draw(COMMON["response_metadata"] | RESPONSES),
        },
    )


def _draw_repeated_call(draw, kind, call):
    if kind == "tool_call":
        return {"type": kind, **call, **draw(some(extras=MAPS, index=COUNTS))}

    if kind == "function_call":
        text = draw(st.sampled_from(["{}", '{"a":  1}', "", "{"]))
        inner = {"call_id": call["id"], "name": call["name"], "arguments": text}
        return {"type": kind, "id": "fc", **inner, **draw(some(status=TEXTS))}

    same = draw(st.booleans())
    inner = {
        "id": call["id"],
        "name": call["name"],
        "input": call["args"] if same else {},
    }
    return {"type": kind, **inner, **draw(some(index=COUNTS, caller=MAPS))}


def made(kind, **fields):
    return st.fixed_dictionaries(fields).map(lambda given: kind(**given))


LANGCHAIN_MESSAGES = st.one_of(
    made(HumanMessage, content=CONTENTS, **COMMON),
    made(HumanMessage, content=CONTENTS, mood=VALUES | ODD),
    made(HumanMessageChunk, content=CONTENTS, **COMMON),
    made(SystemMessage, content=CONTENTS, **COMMON),
    answers(),
    answers(kind=AIMessageChunk),
    made(
        ToolMessage,
        content=CONTENTS,
        tool_call_id=TEXTS,
        status=st.sampled_from(["success", "error"]),
        artifact=ARTIFACTS,
        **COMMON,
    ),
    made(FunctionMessage, content=CONTENTS, name=TEXTS, id=COMMON["id"]),
    made(
        ChatMessage,
        content=CONTENTS,
        role=st.sampled_from(["user", "assistant", "system", "critic"]),
        **COMMON,
    ),
    made(RemoveMessage, id=TEXTS),
)
