"""
Requests, responses and streams in OpenAI's Responses, and short ways to write
some.
"""

from typing import Any

from hypothesis import strategies as st

from conversation_state.adapters import openai_responses
from conversation_state.adapters.openai_responses import load, load_chunks
from conversation_state.chunks import concat
from conversation_state.testing.strategies import json_values, texts
from tests.adapters.helpers import both, exactly, make_readers, some
from tests.adapters.openai_chat import BASE64, FILES, URLS

NOTHING = st.sampled_from([None, ""])
WORDS = st.sampled_from(["a", "low", "wav", "mp3", "mpeg"]) | texts(max_size=4)
WORD = WORDS | NOTHING
EXTRAS = st.just({}) | some(
    prompt_cache_breakpoint=st.just({"mode": "explicit"}),
    keys=json_values(),
    item=json_values(),
    index=st.integers(0, 3),
)
ABOUT = some(
    id=WORD,
    status=st.sampled_from(["completed", "in_progress", None]),
    caller=json_values(),
)
CITATIONS: st.SearchStrategy[Any] = st.just([]) | st.lists(
    some(type=st.just("url_citation"), url=WORDS, start_index=st.integers(0, 9)),
    max_size=2,
)

# Blocks

CHANCES = exactly(
    token=texts(max_size=2),
    logprob=st.floats(-9, 0) | st.integers(-9999, 0),
    bytes=st.lists(st.integers(0, 255), max_size=2) | st.none(),
)
LOGPROBS = st.none() | st.lists(
    both(CHANCES, some(top_logprobs=st.lists(both(CHANCES, EXTRAS), max_size=2))),
    max_size=2,
)
TEXT = both(exactly(type=st.sampled_from(["input_text", "text"]), text=texts()), EXTRAS)
OUTPUT = both(
    exactly(type=st.just("output_text"), text=texts()),
    some(annotations=CITATIONS, logprobs=LOGPROBS),
    EXTRAS,
)
REFUSAL = both(exactly(type=st.just("refusal"), refusal=texts()), EXTRAS)
MEDIA = st.one_of(
    both(
        exactly(type=st.just("input_image")),
        some(image_url=URLS | NOTHING, file_id=WORD, detail=WORD | json_values()),
        EXTRAS,
    ),
    both(
        exactly(type=st.just("input_file")),
        some(file_data=FILES | NOTHING, filename=WORD, file_id=WORD),
        some(file_url=URLS | NOTHING | json_values()),
        EXTRAS,
    ),
    both(
        exactly(
            type=st.just("input_audio"),
            input_audio=both(some(data=BASE64 | URLS, format=WORD), EXTRAS),
        ),
        EXTRAS,
    ),
)
BLOCKS = st.one_of(
    TEXT, OUTPUT, REFUSAL, MEDIA, both(exactly(type=texts(min_size=3)), EXTRAS)
)
CONTENTS = texts() | st.lists(BLOCKS, max_size=3)

# Items

MESSAGES = both(
    exactly(
        role=st.sampled_from(["user", "system", "developer", "assistant", "critic"]),
        content=CONTENTS,
    ),
    some(
        type=st.just("message"),
        phase=st.sampled_from(["commentary", "final_answer", None]),
    ),
    ABOUT,
)
THOUGHTS = both(
    exactly(type=st.just("reasoning")),
    some(
        summary=st.none()
        | st.lists(
            both(exactly(type=st.just("summary_text"), text=texts(max_size=4)), EXTRAS)
            | both(exactly(type=texts(max_size=4)), EXTRAS),
            max_size=3,
        ),
        content=st.none()
        | st.lists(
            both(exactly(type=st.just("reasoning_text"), text=texts()), EXTRAS),
            max_size=2,
        ),
        encrypted_content=WORD,
    ),
    ABOUT,
)
IDS = st.sampled_from(["call_1", "call_2"])
ARGUMENTS = texts() | st.sampled_from(["{}", '{ "a" : 1 }', '{"a'])
CALLS = st.one_of(
    both(
        exactly(
            type=st.just("function_call"), name=texts(max_size=4), arguments=ARGUMENTS
        ),
        some(call_id=IDS | NOTHING),
        ABOUT,
    ),
    both(
        exactly(
            type=st.just("custom_tool_call"), name=texts(max_size=4), input=ARGUMENTS
        ),
        some(call_id=IDS | NOTHING),
        ABOUT,
    ),
)
RESULTS = both(
    exactly(
        type=st.sampled_from(["function_call_output", "custom_tool_call_output"]),
        output=CONTENTS,
    ),
    some(call_id=IDS | NOTHING, name=WORD | json_values()),
    ABOUT,
)
BUILT_IN = both(
    exactly(
        type=st.sampled_from(
            [
                "web_search_call",
                "mcp_list_tools",
                "image_generation_call",
                "computer_call",
                "compaction",
                "program_output",
                "hologram",
            ]
        )
    ),
    some(action=json_values(), result=WORD, role=st.just("developer")),
    ABOUT,
)
ANSWERED = both(
    exactly(
        type=st.sampled_from(
            [
                "computer_call_output",
                "mcp_approval_response",
                "additional_tools",
                "shell_call_output",
            ]
        )
    ),
    some(call_id=IDS, output=json_values(), role=st.just("developer")),
    ABOUT,
)
REFERENCES = both(exactly(id=WORDS), some(type=st.just("item_reference") | st.none()))
ITEMS = st.one_of(
    MESSAGES.map(lambda one: [one]),
    # The provider refuses a thought that leads to nothing.
    st.tuples(THOUGHTS, CALLS | BUILT_IN).map(list),
    CALLS.map(lambda one: [one]),
    RESULTS.map(lambda one: [one]),
    BUILT_IN.map(lambda one: [one]),
    ANSWERED.map(lambda one: [one]),
    REFERENCES.map(lambda one: [one]),
)
INPUTS = st.lists(ITEMS, max_size=4).map(
    lambda lists: [i for one in lists for i in one]
)


def has_blocks(item):
    """
    Whether *item* has blocks, if it is an answer: `dump` writes an empty one in one
    that has none.
    """
    return item.get("role") != "assistant" or item.get("content") != []


REQUESTS = both(
    exactly(input=INPUTS.filter(lambda items: all(map(has_blocks, items)))),
    some(instructions=texts()),
)

# Responses

COUNTS = st.integers(0, 9) | st.none()
USAGE_BLOCKS = both(
    some(
        input_tokens=COUNTS,
        output_tokens=COUNTS,
        total_tokens=COUNTS,
        input_tokens_details=some(cached_tokens=COUNTS, cache_write_tokens=COUNTS),
        output_tokens_details=some(reasoning_tokens=COUNTS, text_tokens=COUNTS),
    ),
    EXTRAS,
)
RESPONSES = both(
    exactly(output=INPUTS),
    some(
        id=WORDS,
        model=WORDS | st.none(),
        status=st.sampled_from(["completed", "incomplete", "queued", None]),
        incomplete_details=st.just({"reason": "max_output_tokens"}) | json_values(),
        usage=USAGE_BLOCKS | st.none(),
        instructions=json_values(),
        error=json_values(),
    ),
    EXTRAS,
)


def message(*content, **fields):
    """An item of the assistant's with blocks: texts, or what is given."""
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [text(one) if isinstance(one, str) else one for one in content],
        **fields,
    }


def text(words, **fields):
    """A block of text."""
    return {"type": "output_text", "text": words, "annotations": [], **fields}


def thought(*summary, **fields):
    """A thought, with a summary."""
    blocks = [{"type": "summary_text", "text": one} for one in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": blocks, **fields}


def call(name="f", **fields):
    """A call."""
    return {
        "type": "function_call",
        "call_id": "c1",
        "name": name,
        "arguments": "{}",
        **fields,
    }


def result(output="12", **fields):
    """The result of a call."""
    return {"type": "function_call_output", "call_id": "c1", "output": output, **fields}


def response(*output, **fields):
    """A response with *output*."""
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "gpt-5",
        "output": list(output),
        **fields,
    }


one, several, notes = make_readers(openai_responses)


def answer(*output):
    """The message of a response with *output*."""
    (loaded,) = load(response(*output))
    return loaded


# Events


def event(kind, **fields):
    """An event of a *kind*."""
    return {"type": f"response.{kind}", **fields}


def added(item, at=0):
    """The announcement of an item."""
    return event("output_item.added", item=item, output_index=at)


def done(item, at=0):
    """The end of an item."""
    return event("output_item.done", item=item, output_index=at)


def piece(words, kind="output_text", at=0, number=0, **fields):
    """A piece of a text."""
    where = "summary_index" if "summary" in kind else "content_index"
    place = {"output_index": at, where: number}
    return event(f"{kind}.delta", delta=words, **place, **fields)


def asked(arguments, at=0, kind="function_call_arguments"):
    """A piece of what a call is called with."""
    return event(f"{kind}.delta", delta=arguments, output_index=at)


def end(*output, kind="completed", **fields):
    """The end of a stream."""
    whole = response(*output, **{"status": kind, **fields})
    return event(kind, response=whole)


def collected(*events) -> Any:
    """The message that *events* make."""
    return concat(load_chunks(events))
