"""Files as people have them: what `import` makes of each, and what it refuses."""

import copy
import gzip
import io
import json
import os
import random
import re
import signal
import sys
import zipfile
from typing import Any

import pytest

from conversation_state.cli import _formats, _sources, _workers
from conversation_state.cli._blocks import upgrade_ui_messages
from conversation_state.cli._input import InputConversation, read_files
from conversation_state.errors import DecodeError, Problem
from conversation_state.parts import ReasoningPart
from conversation_state.store import open_store
from tests.commands import ROOT, Commands


@pytest.fixture(autouse=True)
def _no_store_by_default(monkeypatch):
    """The developer's own shell settings don't reach the tests."""
    monkeypatch.delenv("CONVERSATION_STATE_STORE", raising=False)


@pytest.fixture
def run(tmp_path):
    """The commands on a store that is not there yet."""
    return Commands(tmp_path)


def describe(message):
    """A message in one line: its role, thoughts, text, and calls."""
    words = [message.role[0]]
    words += [f"({p.text})" for p in message.parts if isinstance(p, ReasoningPart)]
    words += [message.text] if message.text else []
    words += [f"{call.name}{call.arguments}" for call in message.tool_calls]
    if message.role == "tool":
        words[0] = f"t[{message.tool_call_id}]"

    return " ".join(words)


def chats(run):
    """What is in the store: by name, the shown messages and the number of leaves."""
    with open_store(run.url) as store:
        trees = {name: store.message_tree(name) for name in store.names()}

    return {
        name: ([describe(each) for each in tree.present], len(tree.leaves))
        for name, tree in trees.items()
    }


def notes(run, name):
    """The notes of a name."""
    with open_store(run.url) as store:
        return {**store.notes(name)}


def user(text, **more):
    return {"role": "user", "content": text, **more}


def model(text, **more):
    return {"role": "assistant", "content": text, **more}


HI = [user("hi"), model("yo")]
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLS = [
    user("q"),
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "r"},
    model("done"),
]
CALLED = ["u q", "a f{}", "t[c1] r", "a done"]

ANTHROPIC = [
    user("q"),
    model(
        [
            {"type": "thinking", "thinking": "hm", "signature": "S"},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
        ]
    ),
    user([{"type": "tool_result", "tool_use_id": "c1", "content": "r"}]),
    model([{"type": "text", "text": "done"}]),
]
GEMINI = [
    {"role": "user", "parts": [{"text": "q"}]},
    {
        "role": "model",
        "parts": [{"functionCall": {"id": "c1", "name": "f", "args": {}}}],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": "c1", "name": "f", "response": {"output": "r"}}}
        ],
    },
    {"role": "model", "parts": [{"text": "done"}]},
]
ITEMS: list[Any] = [
    {"role": "user", "content": [{"type": "input_text", "text": "q"}]},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "r"},
    {"role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
]
COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-4o",
    "choices": [{"index": 0, "message": model("yo"), "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}
TWO = {
    **COMPLETION,
    "choices": [
        {"index": at, "message": model(text), "finish_reason": "stop"}
        for at, text in enumerate(("one", "two"))
    ],
}
TAGGED = [
    {"from": "human", "value": "q"},
    {
        "from": "gpt",
        "value": '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>',
    },
    {"from": "tool", "value": "<tool_response>\nr\n</tool_response>"},
    {"from": "gpt", "value": "done"},
]
TAG_CALLED = ["u q", "a f{}", "t[message_1_call_0] r", "a done"]

CHATGPT: Any = {
    "title": "T",
    "conversation_id": "g1",
    "current_node": "a2",
    "mapping": {
        "root": {"id": "root", "message": None, "parent": None, "children": ["u"]},
        **{
            id: {
                "id": id,
                "parent": parent,
                "children": children,
                "message": {
                    "id": id,
                    "author": {"role": role},
                    "content": {"content_type": "text", "parts": [text]},
                },
            }
            for id, parent, children, role, text in (
                ("u", "root", ["a1", "a2"], "user", "hi"),
                ("a1", "u", [], "assistant", "old"),
                ("a2", "u", [], "assistant", "new"),
            )
        },
    },
}
OPEN_WEBUI: Any = {
    "id": "w1",
    "title": "T",
    "chat": {
        "history": {
            "currentId": "a",
            "messages": {
                "u": {"id": "u", "parentId": None, "childrenIds": ["a"], **user("hi")},
                "a": {
                    "id": "a",
                    "parentId": "u",
                    "childrenIds": [],
                    **model(
                        '<details type="reasoning" done="true">\n<summary>Thought'
                        "</summary>\n&gt; hm\n</details>\nyo"
                    ),
                },
            },
        }
    },
}

CLAUDE_AI: Any = {
    "uuid": "c1",
    "name": "T",
    "chat_messages": [
        {
            "uuid": "u",
            "sender": "human",
            "text": "",
            "content": [{"type": "text", "text": ""}],
            "attachments": [{"file_name": "a.txt", "extracted_content": "pasted"}],
            "parent_message_uuid": "00000000-0000-4000-8000-000000000000",
        },
        *[
            {
                "uuid": id,
                "sender": "assistant",
                "text": id,
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "tool_use", "id": None, "name": "f", "input": {}},
                    {"type": "tool_result", "name": "f", "content": [{"text": "r"}]},
                    {"type": "text", "text": id},
                ],
                "parent_message_uuid": "u",
                "created_at": f"2026-05-0{at}T10:00:00Z",
            }
            for at, id in enumerate(("old", "new"), 1)
        ],
    ],
}
CLAUDE_AI_FLAT: Any = {
    "uuid": "c1",
    "name": "",
    "chat_messages": [
        {"uuid": str(at), "sender": sender, "text": text}
        for at, (sender, text) in enumerate((("human", "hi"), ("assistant", "yo")))
    ],
}
LIBRECHAT: Any = {
    "conversationId": "l1",
    "messages": [
        {
            "messageId": id,
            "parentMessageId": parent,
            "isCreatedByUser": id == "u",
            "text": text,
            "createdAt": f"2026-05-01T10:0{at}:00Z",
        }
        for at, (id, parent, text) in enumerate(
            (
                ("u", "00000000-0000-0000-0000-000000000000", "hi"),
                ("a1", "u", "old"),
                ("a2", "u", "new"),
            )
        )
    ],
}
ASSISTANT_UI: Any = {
    "headId": "a2",
    "messages": [
        {
            "parentId": parent,
            "message": {
                "id": id,
                "role": role,
                "content": [{"type": "text", "text": t}],
            },
        }
        for id, parent, role, t in (
            ("u", None, "user", "hi"),
            ("a1", "u", "assistant", "old"),
            ("a2", "u", "assistant", "new"),
        )
    ],
}
AI_SDK: list[Any] = [
    {"id": "1", "role": "user", "parts": [{"type": "text", "text": "q"}]},
    {
        "id": "2",
        "role": "assistant",
        "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "text": "hm", "state": "done"},
            {
                "type": "tool-f",
                "toolCallId": "c1",
                "state": "output-available",
                "input": {},
                "output": "r",
            },
            {"type": "step-start"},
            {"type": "text", "text": "done", "state": "done"},
        ],
    },
]
LANGCHAIN = [
    {"type": "human", "data": {"content": "q"}},
    {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "AIMessage"],
        "kwargs": {
            "content": "",
            "tool_calls": [{"name": "f", "args": {}, "id": "c1"}],
        },
    },
    {"type": "tool", "data": {"content": "r", "tool_call_id": "c1"}},
    {"type": "ai", "content": "done", "additional_kwargs": {}, "response_metadata": {}},
]

# As LangChain had the calls of OpenAI's until 2023.
FUNCTIONS = [
    LANGCHAIN[0],
    {
        "type": "ai",
        "data": {
            "content": "",
            "additional_kwargs": {"function_call": {"name": "f", "arguments": "{}"}},
        },
    },
    {"type": "function", "data": {"name": "f", "content": "r"}},
    LANGCHAIN[3],
]

# Both forms that version 4 had.
INVOKED = {
    "state": "result",
    "step": 0,
    "toolCallId": "c1",
    "toolName": "f",
    "args": {},
    "result": "r",
}
AI_SDK_4 = [
    {
        "id": "1",
        **user("q"),
        "createdAt": "2025-01-01T00:00:00Z",
        "experimental_attachments": [
            {"name": "a", "contentType": "image/png", "url": "https://example.com/a"}
        ],
    },
    {"id": "2", **model("done"), "reasoning": "hm", "toolInvocations": [INVOKED]},
]
AI_SDK_4_PARTS = [
    {"id": "1", **user("q"), "parts": [{"type": "text", "text": "q"}]},
    {
        "id": "2",
        **model("done"),
        "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "reasoning": "hm", "details": []},
            {"type": "tool-invocation", "toolInvocation": INVOKED},
            {"type": "step-start"},
            {"type": "source", "source": {"id": "s", "url": "https://example.com"}},
            {"type": "file", "mimeType": "image/png", "data": "aGk="},
            {"type": "text", "text": "done"},
        ],
    },
]
# Messages of version 4 without their ids and roles, and what version 5 has for them.
TEXT = {"type": "text", "text": "q"}
UPGRADED: list[tuple[Any, Any]] = [
    ({"content": ""}, {"parts": [{"type": "text", "text": ""}]}),
    ({"content": None}, {"content": None}),
    ({"content": "q", "parts": [TEXT]}, {"parts": [TEXT]}),
    ({"content": "", "parts": [TEXT]}, {"parts": [TEXT]}),
    ({"content": "r", "parts": [TEXT]}, {"content": "r", "parts": [TEXT]}),
    (
        {"content": "", "reasoning": "hm", "toolInvocations": {"0": "odd"}},
        {"parts": [{"type": "reasoning", "text": "hm"}]},
    ),
    (
        {"content": "", "toolInvocations": [INVOKED]},
        {
            "parts": [
                {
                    "type": "tool-f",
                    "toolCallId": "c1",
                    "state": "output-available",
                    "input": {},
                    "output": "r",
                }
            ]
        },
    ),
    (
        {"content": "q", "toolInvocations": [{**INVOKED, "state": "partial-call"}]},
        {
            "parts": [
                {
                    "type": "tool-f",
                    "toolCallId": "c1",
                    "state": "input-streaming",
                    "input": {},
                    "output": "r",
                },
                {"type": "step-start"},
                TEXT,
            ]
        },
    ),
    (
        {"content": "q", "attachments": [{"url": "https://example.com"}, None]},
        {
            "parts": [
                TEXT,
                {
                    "type": "file",
                    "url": "https://example.com",
                    "mediaType": "application/octet-stream",
                },
            ]
        },
    ),
]
UPGRADED_PARTS: list[tuple[Any, Any]] = [
    (TEXT, TEXT),
    (3, 3),
    (
        {
            "type": "tool-invocation",
            "toolInvocation": {
                "state": "call",
                "toolCallId": "c1",
                "toolName": "f",
                "args": {"n": 1},
            },
        },
        {
            "type": "tool-f",
            "toolCallId": "c1",
            "state": "input-available",
            "input": {"n": 1},
        },
    ),
    ({"type": "tool-invocation"}, {"type": "tool-invocation"}),
    (
        {"type": "reasoning", "text": "hm", "reasoning": "no"},
        {"type": "reasoning", "text": "hm", "reasoning": "no"},
    ),
    (
        {"type": "reasoning", "reasoning": "hm", "details": []},
        {"type": "reasoning", "text": "hm", "details": []},
    ),
    (
        {"type": "source", "source": {"id": "s", "url": "u", "title": "t"}},
        {"type": "source-url", "id": "s", "sourceId": "s", "url": "u", "title": "t"},
    ),
    ({"type": "source", "source": "s"}, {"type": "source", "source": "s"}),
    (
        {"type": "file", "mimeType": "image/png", "data": "aGk=", "filename": "a"},
        {
            "type": "file",
            "mediaType": "image/png",
            "url": "data:image/png;base64,aGk=",
            "filename": "a",
        },
    ),
    (
        {"type": "file", "mimeType": "image/png", "data": "https://example.com"},
        {"type": "file", "mediaType": "image/png", "url": "https://example.com"},
    ),
    *(
        (other, other)
        for other in (
            {"type": "data-scan", "mimeType": "image/png", "data": "aGk="},
            {"type": "file", "mediaType": "image/png", "data": "aGk="},
            {"type": "file", "mimeType": "image/png", "data": [1]},
            {"type": "data-scan", "source": {"id": "s"}},
        )
    ),
]
# `modelMessageSchema` of npm's ai 6 takes each.
MODEL_MESSAGES: list[Any] = [
    {"role": "system", "content": "s"},
    user(
        [
            {"type": "text", "text": "q", "providerOptions": {"x": {"y": 1}}},
            {"type": "image", "image": "aGk=", "mediaType": "image/png"},
            {
                "type": "file",
                "data": "https://example.com/a.pdf",
                "mediaType": "application/pdf",
                "filename": "a.pdf",
            },
        ]
    ),
    model(
        [
            {
                "type": "reasoning",
                "text": "hm",
                "providerOptions": {"anthropic": {"signature": "S"}},
            },
            {"type": "tool-call", "toolCallId": "c1", "toolName": "f", "input": {}},
            {"type": "tool-call", "toolCallId": "c2", "toolName": "g", "input": {}},
            {
                "type": "tool-result",
                "toolCallId": "c2",
                "toolName": "g",
                "output": {"type": "json", "value": {"b": 2}},
            },
            {"type": "text", "text": "wait"},
        ]
    ),
    {
        "role": "tool",
        "content": [
            {
                "type": "tool-result",
                "toolCallId": "c1",
                "toolName": "f",
                "output": {"type": "error-text", "value": "r"},
            },
            {"type": "tool-approval-response", "approvalId": "a", "approved": True},
        ],
    },
    model("done"),
]
MODEL_SAID = [
    *("s s", "u q", "a (hm) wait f{} g{}", 't[c2] {"b":2}', "t[c1] r", "u", "a done")
]
# Botocore's validator takes them, with bytes for base64.
CONVERSE: Any = {
    "modelId": "m",
    "system": [{"text": "s"}],
    "messages": [
        user(
            [
                {"text": "q"},
                {"image": {"format": "png", "source": {"bytes": "aGk="}}},
                {
                    "document": {
                        "format": "txt",
                        "name": "n",
                        "source": {"text": "words"},
                    }
                },
                {"cachePoint": {"type": "default"}},
            ]
        ),
        model(
            [
                {
                    "reasoningContent": {
                        "reasoningText": {"text": "hm", "signature": "S"}
                    }
                },
                {"toolUse": {"toolUseId": "c1", "name": "f", "input": {}}},
            ]
        ),
        user(
            [
                {
                    "toolResult": {
                        "toolUseId": "c1",
                        "content": [{"json": {"r": 1}}],
                        "status": "error",
                    }
                },
                {"text": "and?"},
            ]
        ),
        model([{"text": "done"}]),
    ],
}
CONVERSED = ["s s", "u q", "a (hm) f{}", 't[c1] {"r":1}', "u and?", "a done"]
ANSWERED = {
    "output": {"message": model([{"text": "yo"}])},
    "stopReason": "end_turn",
    "usage": {
        "inputTokens": 3,
        "outputTokens": 2,
        "totalTokens": 10,
        "cacheReadInputTokens": 5,
    },
    "metrics": {"latencyMs": 1},
}
THREAD = {
    "object": "list",
    "data": [
        {
            "id": f"msg_{at}",
            "object": "thread.message",
            "created_at": at,
            "thread_id": "t",
            "role": role,
            "content": [{"type": "text", "text": {"value": text, "annotations": []}}],
        }
        for at, role, text in (
            (2, "assistant", "yo"),
            (2, "user", "again"),
            (1, "user", "hi"),
        )
    ],
}

STREAM = [
    {"responseId": "r", "candidates": [{"content": {"parts": [{"text": "Hel"}]}}]},
    {
        "responseId": "r",
        "candidates": [
            {"content": {"parts": [{"text": "lo"}]}, "finishReason": "STOP"}
        ],
    },
]

# What a value is, and the conversations by name: their messages, and their leaves.
VALUES = {
    "request": ({"id": "x", "messages": HI}, {"x": (["u hi", "a yo"], 1)}),
    "list": (HI, {"line 1": (["u hi", "a yo"], 1)}),
    "calls": ({"id": "x", "messages": CALLS}, {"x": (CALLED, 1)}),
    "completion": (COMPLETION, {"chatcmpl-1": (["a yo"], 1)}),
    "choices": (TWO, {"chatcmpl-1": (["a one"], 2)}),
    "anthropic": (
        {"id": "x", "system": "s", "max_tokens": 9, "messages": ANTHROPIC},
        {"x": (["s s", "u q", "a (hm) f{}", "t[c1] r", "a done"], 1)},
    ),
    "anthropic texts": (
        {"id": "x", "system": [{"type": "text", "text": "s"}], "messages": HI},
        {"x": (["s s", "u hi", "a yo"], 1)},
    ),
    "anthropic response": (
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [{"type": "text", "text": "yo"}],
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
        {"msg_1": (["a yo"], 1)},
    ),
    "gemini": ({"id": "x", "contents": GEMINI}, {"x": (CALLED, 1)}),
    "gemini list": (GEMINI, {"line 1": (CALLED, 1)}),
    "gemini response": (
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "yo"}]}}]},
        {"line 1": (["a yo"], 1)},
    ),
    "responses": ({"id": "x", "input": ITEMS}, {"x": (CALLED, 1)}),
    "responses items": (ITEMS, {"line 1": (CALLED, 1)}),
    "compacted items": (
        [ITEMS[0], {"type": "compaction", "encrypted_content": "e"}, ITEMS[3]],
        {"line 1": (["u q", "a done"], 1)},
    ),
    "responses of embed": (
        {"id": "x", "model": "my-embed-chat", "input": "hi", "instructions": "Yes."},
        {"x": (["s Yes.", "u hi"], 1)},
    ),
    "responses text": (
        {"id": "x", "model": "gpt-5", "input": "hi"},
        {"x": (["u hi"], 1)},
    ),
    "sharegpt": ({"id": "x", "conversations": TAGGED}, {"x": (TAG_CALLED, 1)}),
    "sharegpt list": (TAGGED, {"line 1": (TAG_CALLED, 1)}),
    "roles": (
        {
            "id": "x",
            "messages": [
                {"role": "human", "content": "q"},
                {"role": "ai", "content": "a"},
            ],
        },
        {"x": (["u q", "a a"], 1)},
    ),
    "other key": (
        {"id": "x", "conversations": ANTHROPIC},
        {"x": (["u q", "a (hm) f{}", "t[c1] r", "a done"], 1)},
    ),
    "prompt": (
        {"id": "x", "prompt": "hi", "completion": "yo"},
        {"x": (["u hi", "a yo"], 1)},
    ),
    "alpaca": (
        {"id": "x", "instruction": "Add.", "input": "1, 1", "output": "2"},
        {"x": (["u Add.\n1, 1", "a 2"], 1)},
    ),
    "alpaca history": (
        {"id": "x", "history": [["q", "r"]], "instruction": "Add.", "output": "2"},
        {"x": (["u q", "a r", "u Add.", "a 2"], 1)},
    ),
    "xlam": (
        {
            "id": 7,
            "query": "q",
            "answers": '[{"name":"f","arguments":{}}]',
            "tools": "[]",
        },
        {"7": (["u q", "a f{}"], 1)},
    ),
    "preference": (
        {"id": "x", "prompt": "hi", "chosen": "good", "rejected": "bad"},
        {"x": (["u hi", "a good"], 2)},
    ),
    "preference lists": (
        {
            "id": "x",
            "prompt": "hi",
            "chosen": [user("hi"), model("good")],
            "rejected": [user("hi"), model("bad")],
        },
        {"x": (["u hi", "a good"], 2)},
    ),
    "preference texts": (
        {
            "id": "x",
            "chosen": "\n\nHuman: hi\n\nAssistant: good",
            "rejected": "\n\nHuman: hi\n\nAssistant: bad",
        },
        {"x": (["u hi", "a good"], 2)},
    ),
    "preference of openai": (
        {
            "id": "x",
            "input": {"messages": [user("hi")]},
            "preferred_output": [model("good")],
            "non_preferred_output": [model("bad")],
        },
        {"x": (["u hi", "a good"], 2)},
    ),
    "batch": (
        {
            "id": "b",
            "custom_id": "r1",
            "response": {"status_code": 200, "body": COMPLETION},
            "error": None,
        },
        {"b": (["a yo"], 1)},
    ),
    "batch of bedrock": (
        {
            "recordId": "r1",
            "modelInput": {"max_tokens": 9, "messages": [user("hi")]},
            "modelOutput": {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "text", "text": "yo"}],
                "stop_reason": "end_turn",
            },
        },
        {"r1": (["u hi", "a yo"], 1)},
    ),
    "batch input": (
        {
            "custom_id": "r1",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "m", "messages": HI},
        },
        {"r1": (["u hi", "a yo"], 1)},
    ),
    "log": (
        {"id": "x", "request": {"messages": [user("hi")]}, "response": COMPLETION},
        {"x": (["u hi", "a yo"], 1)},
    ),
    "log in texts": (
        {
            "id": "x",
            "request": json.dumps({"contents": GEMINI[:1]}),
            "response": json.dumps({"candidates": [{"content": GEMINI[3]}]}),
        },
        {"x": (["u q", "a done"], 1)},
    ),
    "gateway": (
        {"id": "x", "messages": [user("hi")], "response": COMPLETION},
        {"x": (["u hi", "a yo"], 1)},
    ),
    "ollama": (
        {
            "model": "llama3",
            "message": model("yo"),
            "done": True,
            "prompt_eval_count": 2,
            "eval_count": 1,
        },
        {"line 1": (["a yo"], 1)},
    ),
    "chatgpt": (CHATGPT, {"g1": (["u hi", "a new"], 2)}),
    "claude.ai": (
        CLAUDE_AI,
        {"c1": (["u pasted", "a (hm) f{}", "t[new_1_call_0] r", "a new"], 2)},
    ),
    "claude.ai, flat": (CLAUDE_AI_FLAT, {"c1": (["u hi", "a yo"], 1)}),
    "librechat": (LIBRECHAT, {"l1": (["u hi", "a new"], 2)}),
    "assistant-ui": (ASSISTANT_UI, {"line 1": (["u hi", "a new"], 2)}),
    "ai sdk": (AI_SDK, {"line 1": (["u q", "a (hm) f{}", "t[c1] r", "a done"], 1)}),
    "ai sdk 4": (AI_SDK_4, {"line 1": (["u q", "a (hm) f{}", "t[c1] r", "a done"], 1)}),
    "ai sdk 4 parts": (
        AI_SDK_4_PARTS,
        {"line 1": (["u q", "a (hm) f{}", "t[c1] r", "a done"], 1)},
    ),
    "ai sdk without ids": (
        [{key: each[key] for key in ("role", "parts")} for each in AI_SDK],
        {"line 1": (["u q", "a (hm) f{}", "t[c1] r", "a done"], 1)},
    ),
    "langchain": (LANGCHAIN, {"line 1": (CALLED, 1)}),
    "model messages": (MODEL_MESSAGES, {"line 1": (MODEL_SAID, 1)}),
    "converse": (CONVERSE, {"line 1": (CONVERSED, 1)}),
    "converse nulls": (
        [user([{"text": "hi", "image": None}]), model([{"image": None, "text": "yo"}])],
        {"line 1": (["u hi", "a yo"], 1)},
    ),
    "converse response": (ANSWERED, {"line 1": (["a yo"], 1)}),
    "converse log": (
        {"id": "x", "request": CONVERSE, "response": ANSWERED},
        {"x": ([*CONVERSED, "a yo"], 1)},
    ),
    "result of objects": (
        [*CALLS[:2], {**CALLS[2], "content": [{"r": 1}]}, CALLS[3]],
        {"line 1": ([*CALLED[:2], 't[c1] [{"r": 1}]', "a done"], 1)},
    ),
    "thread": (THREAD["data"], {"t": (["u hi", "u again", "a yo"], 1)}),
    "gemini elsewhere": ({"id": "x", "messages": GEMINI}, {"x": (CALLED, 1)}),
    "items elsewhere": ({"id": "x", "messages": ITEMS}, {"x": (CALLED, 1)}),
    "chat elsewhere": ({"id": "x", "chat": CALLS}, {"x": (CALLED, 1)}),
    "open webui without a tree": (
        {"id": "x", "chat": {"history": {"messages": {}}, "messages": HI}},
        {"x": (["u hi", "a yo"], 1)},
    ),
    "open webui": (OPEN_WEBUI, {"w1": (["u hi", "a (hm) yo"], 1)}),
    "ag-ui": (
        {
            "threadId": "x",
            "runId": "r",
            "messages": [{"id": "1", **user("hi")}, {"id": "2", **model("yo")}],
        },
        {"x": (["u hi", "a yo"], 1)},
    ),
    "pydantic ai": (
        [
            {
                "kind": "request",
                "parts": [{"part_kind": "user-prompt", "content": "hi"}],
            },
            {"kind": "response", "parts": [{"part_kind": "text", "content": "yo"}]},
        ],
        {"line 1": (["u hi", "a yo"], 1)},
    ),
}


# Messages as LangGraph's server writes them.
LANGGRAPH = [
    {"type": "human", "content": "hi", "id": "1", "additional_kwargs": {}},
    {"type": "ai", "content": "yo", "id": "2", "tool_calls": []},
]

# An answer beside the messages, and what is said then.
ASKED = [user("q")]
BESIDE: dict[str, Any] = {
    "text": ({"messages": ASKED, "response": "yo"}, ["u q", "a yo"]),
    "message": ({"input": ASKED, "output": model("yo")}, ["u q", "a yo"]),
    "messages": ({"messages": ASKED, "completion": CALLS[1:]}, CALLED),
    "choices": ({"messages": ASKED, "choices": TWO["choices"]}, ["u q", "a one"]),
    "listed choices": ({"input": ASKED, "output": TWO["choices"]}, ["u q", "a one"]),
    "response": ({"input": ASKED, "output": COMPLETION}, ["u q", "a yo"]),
    "items": ({"input": ITEMS[:1], "output": ITEMS[3:]}, ["u q", "a done"]),
    "candidates": (
        {"contents": GEMINI[:1], "candidates": [{"content": GEMINI[3]}]},
        ["u q", "a done"],
    ),
    "request": (
        {"input": {"model": "m", "messages": ASKED}, "output": model("yo")},
        ["u q", "a yo"],
    ),
    "request and text": (
        {"request": {"model": "m", "messages": ASKED}, "response": "yo"},
        ["u q", "a yo"],
    ),
    "another": ({"messages": HI, "response": "ho"}, ["u hi", "a yo"]),
    "no answer": ({"messages": ASKED, "output": {"score": 1}}, ["u q"]),
}


def rename(expected, name="chats-1"):
    """What is *expected*, with the name that a value without an id gets."""
    return {name if key == "line 1" else key: value for key, value in expected.items()}


class TestFormats:
    @pytest.mark.parametrize("form", ["line", "pretty", "list"])
    @pytest.mark.parametrize("kind", VALUES)
    def test_value(self, run, kind, form):
        """
        A value is read as what it is: on a line, as a document, and in a list of such.
        """
        value, expected = VALUES[kind]
        if form == "list":
            text = json.dumps([value], indent=1)
        else:
            text = json.dumps(value, indent=2 if form == "pretty" else None)

        result = run("import", run.write(text), status=0)

        assert "" == result.stderr
        assert rename(expected) == chats(run)

    def test_named(self, run):
        """An object of conversations has their names."""
        named = {"a": {"messages": HI}, "b": {"messages": HI[:1]}}
        run("import", run.write(json.dumps(named)), status=0)

        assert {"a": (["u hi", "a yo"], 1), "b": (["u hi"], 1)} == chats(run)

    @pytest.mark.parametrize("kind", BESIDE)
    def test_answer_beside(self, run, kind):
        """
        An answer beside the messages of a log or data set is the next message, unless
        these are answered; what else stands there is a note.
        """
        value, expected = BESIDE[kind]
        run("import", run.write(json.dumps({"id": "x", **value})))

        shown, _ = chats(run)["x"]
        left = notes(run, "x").keys() & value.keys()
        assert expected == shown
        assert left == {*[*value][1:]} if kind in {"another", "no answer"} else not left

    def test_wrong_answer(self, run):
        """What is wrong in an answer has the path that it has in the file."""
        choice = {"message": {"role": "assistant", "content": 5}}
        for answer, path in (([choice], "output[0].message"), (model(5), "output")):
            value = {"messages": ASKED, "output": answer}
            result = run("import", run.write(json.dumps(value)), status=2)

            assert f"$.{path}.content: is 5" in result.stderr

    def test_named_lists(self, run):
        """So has an object of lists of messages."""
        run("import", run.write(json.dumps({"a": HI, "b": HI[:1]})))

        assert {"a": (["u hi", "a yo"], 1), "b": (["u hi"], 1)} == chats(run)

    @pytest.mark.parametrize(
        ("value", "left_out"),
        [
            ({"id": "x", "thread": {"messages": HI}}, ""),
            ({"export": {"conversations": [{"id": "x", "messages": HI}]}}, ""),
            ({"n": 1, "run": {"v": 2, "log": {"id": "x", "messages": HI}}}, "n, v"),
            (
                {"thread_id": "x", "metadata": {}, "values": {"messages": LANGGRAPH}},
                "metadata",
            ),
            (
                {"id": "x", "values": {"messages": LANGGRAPH}, "next": [], "tasks": []},
                "next, tasks",
            ),
        ],
    )
    def test_wrapped(self, run, value, left_out):
        """
        What an object has under its only key that is no plain value is read as if it
        stood alone; plain values beside it are listed as left out.
        """
        result = run("import", run.write(json.dumps(value)))

        assert {"x": (["u hi", "a yo"], 1)} == chats(run)
        assert bool(left_out) == result.stderr.endswith(f": {left_out}\n")

    def test_model_messages(self, run):
        """Media, thoughts with whose they are, errors and options are kept."""
        run("import", run.write(json.dumps(MODEL_MESSAGES)))

        with open_store(run.url) as store:
            loaded: list[Any] = [*store.load("chats-1")]

        _, asked, answer, given, failed, approval, _ = loaded
        text, image, file = asked.parts
        (thought, _) = answer.parts
        assert {"providerOptions": {"x": {"y": 1}}} == text.metadata
        assert (b"hi", "image/png", "a.pdf") == (
            image.data,
            image.media_type,
            file.name,
        )
        assert ("S", True) == (
            thought.signature,
            thought.metadata["conversation_state"]["anthropic"]["signed"],
        )
        assert (False, True, "g") == (given.is_error, failed.is_error, given.tool_name)
        assert "tool-approval-response" == approval.raw["type"]

    def test_options_of_results(self, run):
        """Each result keeps its options; the first one has its message's, too."""
        results: list[Any] = [
            {
                "type": "tool-result",
                "toolCallId": call_id,
                "toolName": "f",
                "output": {"type": "text", "value": "1"},
                "providerOptions": {"x": {"of": call_id}},
            }
            for call_id in ("c1", "c2")
        ]
        calls: list[Any] = [
            {"type": "tool-call", "toolCallId": call_id, "toolName": "f", "input": {}}
            for call_id in ("c1", "c2")
        ]
        answered: dict[str, Any] = {"role": "tool", "content": results, "id": "m"}
        answered["providerOptions"] = {"x": {"of": "m"}, "y": {"a": 1}}
        chat = [user("q"), model(calls), answered, model("a")]
        run("import", run.write(json.dumps(chat)))

        with open_store(run.url) as store:
            _, _, first, second, _ = store.load("chats-1")

        options = {"x": {"of": "c1"}, "y": {"a": 1}}
        assert {"id": "m", "providerOptions": options} == first.metadata
        assert {"providerOptions": {"x": {"of": "c2"}}} == second.metadata

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            *UPGRADED,
            *(({"parts": [old]}, {"parts": [new]}) for old, new in UPGRADED_PARTS),
        ],
    )
    def test_upgraded(self, old, new):
        """What version 5 has otherwise is as it has it, and the rest is as it was."""
        ids = {"id": "m1", "role": "user"}

        assert [{**ids, **new}, None] == upgrade_ui_messages([{**ids, **old}, None])
        nameless = {"id": "", **new} if "parts" in new else new
        assert {"messages": [nameless]} == upgrade_ui_messages({"messages": [old]})

    def test_files_of_version_4(self, run):
        """Attachments and files are media, and sources are kept."""
        for at, value in enumerate((AI_SDK_4, AI_SDK_4_PARTS)):
            run("import", run.write(json.dumps(value), name=f"{at}.json"))

        with open_store(run.url) as store:
            asked: Any = store.load("0-1")[0]
            answer: Any = store.load("1-1")[3]

        source, image, _ = answer.parts
        assert "https://example.com/a" == asked.parts[1].url
        assert (b"hi", "image/png") == (image.data, image.media_type)
        assert "https://example.com" == source.raw["url"]

    @pytest.mark.parametrize(
        ("kind", "form", "media_type"),
        [
            ("video", "three_gp", "video/3gpp"),
            ("video", "webm", "video/webm"),
            ("audio", "mp3", "audio/mpeg"),
            ("document", "md", "text/markdown"),
            ("document", "pdf", "application/pdf"),
        ],
    )
    def test_media_of_converse(self, run, kind, form, media_type):
        """Converse's words for formats are read as types of media."""
        block = {kind: {"format": form, "name": "n", "source": {"bytes": "aGk="}}}
        chat = {"modelId": "m", "messages": [user([block])]}
        run("import", run.write(json.dumps(chat)))

        with open_store(run.url) as store:
            (message,) = store.load("chats-1")

        part: Any = message.parts[0]
        assert (media_type, b"hi") == (part.media_type, part.data)

    def test_converse(self, run):
        """
        A document of text is a file, what the model has no part for is kept, and a
        response has its usage, in which the provider does not count its cache.
        """
        value = {"id": "x", "request": CONVERSE, "response": ANSWERED}
        run("import", run.write(json.dumps(value)))

        with open_store(run.url) as store:
            loaded: list[Any] = [*store.load("x")]

        _, asked, _, result, _, _, answer = loaded
        _, image, document, point = asked.parts
        assert (b"hi", b"words", "n") == (image.data, document.data, document.name)
        assert {"cachePoint": {"type": "default"}} == point.raw
        assert result.is_error
        assert ("end_turn", 8, 5, 2) == (
            answer.response.finish_reason,
            answer.response.usage.prompt_tokens,
            answer.response.usage.prompt_tokens_details.cached_tokens,
            answer.response.usage.completion_tokens,
        )

    def test_thread(self, run):
        """The list of a thread is read from its end, where the oldest is."""
        result = run("import", run.write(json.dumps(THREAD)))

        assert "left out what is beside $.data: object\n" in result.stderr
        assert {"t": (["u hi", "u again", "a yo"], 1)} == chats(run)


def zipped(**members):
    """A zip archive of texts by name; ``__`` is a dot."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "."), text)

    return data.getvalue()


# A line each, and the messages that they are together.
LINES = {
    "chat": (CALLS, CALLED),
    "anthropic": (ANTHROPIC, ["u q", "a (hm) f{}", "t[c1] r", "a done"]),
    "gemini": (GEMINI, CALLED),
    "responses": (ITEMS, CALLED),
    "sharegpt": (TAGGED, TAG_CALLED),
    "gemini stream": (STREAM, ["a Hello"]),
    "ai sdk": (AI_SDK, ["u q", "a (hm) f{}", "t[c1] r", "a done"]),
    "langchain": (LANGCHAIN, CALLED),
    "functions": (FUNCTIONS, [c.replace("c1", "message_1_call_0") for c in CALLED]),
    "model messages": (MODEL_MESSAGES, MODEL_SAID),
    "converse": (CONVERSE["messages"], CONVERSED[1:]),
}


class TestLines:
    @pytest.mark.parametrize("kind", LINES)
    def test_messages(self, run, kind):
        """Messages on lines of their own are a conversation, up to a blank line."""
        items, expected = LINES[kind]
        text = "".join(f"{json.dumps(each)}\n" for each in items)

        run("import", run.write(f"{text}\n{text}"))

        names = ["chats-1", f"chats-{len(items) + 2}"]
        assert dict.fromkeys(names, (expected, 1)) == chats(run)

    def test_broken_message(self, run):
        """A message that can't be read is reported, and the rest goes on without it."""
        lines = [user("hi"), {"role": "user", "content": 5}, model("yo")]
        path = run.write("".join(f"{json.dumps(each)}\n" for each in lines))

        result = run("import", path, status=2)

        assert f"{path}:2: no conversation; $.content: is 5; expected" in result.stderr
        assert {"chats-1": (["u hi", "a yo"], 1)} == chats(run)


def chunk(text, *, done=False, **more):
    """One line of a stream of Ollama's."""
    message = {"role": "assistant", "content": text, **more}
    counts = {"prompt_eval_count": 3, "eval_count": 2} if done else {}
    return {"model": "m", "message": message, "done": done, **counts}


def values_in(form, values):
    """*values* on lines, as a list, or as one in a list."""
    if form == "lines":
        return "".join(f"{json.dumps(each)}\n" for each in values)

    return json.dumps(values if form == "list" else [values], indent=1)


OLLAMA_CALL = {"function": {"name": "f", "arguments": {"a": 1}}}
OLLAMA_SAID = [
    user("q"),
    model("", tool_calls=[OLLAMA_CALL, {"function": {"name": "g", "arguments": {}}}]),
    {"role": "tool", "tool_name": "g", "content": "of g"},
    {"role": "tool", "tool_name": "f", "content": "of f"},
    model("done"),
]


class TestOllama:
    """What Ollama's `/api/chat` takes and gives."""

    @pytest.mark.parametrize("form", ["lines", "list", "in a list"])
    def test_stream(self, run, form):
        """The lines of a stream are one answer, with its thoughts, calls and usage."""
        calls = chunk("", tool_calls=[OLLAMA_CALL])
        pieces = [chunk("", thinking="h"), chunk("", thinking="m"), chunk("Hel")]
        pieces += [chunk("lo"), calls, chunk("", done=True)]

        run("import", run.write(values_in(form, pieces)))

        assert [(['a (hm) Hello f{"a":1}'], 1)] == [*chats(run).values()]
        with open_store(run.url) as store:
            [name] = store.names()
            assert 5 == store.load(name).total_usage.total_tokens

    @pytest.mark.parametrize("form", ["lines", "list"])
    def test_two_streams(self, run, form):
        """Streams behind one another are as many answers."""
        pieces = [chunk("a"), chunk("b"), chunk("", done=True)]

        run("import", run.write(values_in(form, pieces * 2)))

        assert [(["a ab"], 1)] * 2 == [*chats(run).values()]

    @pytest.mark.parametrize("form", ["lines", "list"])
    def test_two_streams_of_gemini(self, run, form):
        """So are those of Gemini."""
        other = json.loads(json.dumps(STREAM).replace('"r"', '"r2"'))

        run("import", run.write(values_in(form, [*STREAM, *other])))

        assert [(["a Hello"], 1)] * 2 == [*chats(run).values()]

    @pytest.mark.parametrize(
        "wrap", [list, lambda rows: {"model": "m", "messages": rows}]
    )
    @pytest.mark.parametrize("forced", [(), ("--format", "ollama")])
    def test_request(self, run, wrap, forced):
        """Arguments are objects, and results belong to the call of their name."""
        run("import", run.write(json.dumps(wrap(OLLAMA_SAID))), *forced)

        [(said, _)] = chats(run).values()
        with open_store(run.url) as store:
            state = store.load(next(iter(store.names())))

        assert ["u q", 'a f{"a":1} g{}'] == said[:2]
        calls = {call.id: call.name for call in state[1].tool_calls}
        results: Any = state[2:4]
        assert ["g", "f"] == [calls[each.tool_call_id] for each in results]

    def test_rows(self, run):
        """So are they in rows, of which none is left out."""
        run("import", run.write(values_in("lines", OLLAMA_SAID)))

        assert [5] == [len(said) for said, _ in chats(run).values()]

    @pytest.mark.parametrize(
        ("counts", "total"),
        [((None, 3), 0), ((3, "2"), 0), ((3, [2]), 0), ((3, 2), 5), ((3.0, 2), 5)],
    )
    def test_counts(self, run, counts, total):
        """An answer without both counts is imported, without usage."""
        names = "prompt_eval_count", "eval_count"
        piece = {**chunk("yo", done=True), **dict(zip(names, counts, strict=True))}

        run("import", run.write(json.dumps(piece)))

        with open_store(run.url) as store:
            [name] = store.names()
            assert total == store.load(name).total_usage.total_tokens

    @pytest.mark.parametrize("value", [{"a": 1}, [{"done": True, "message": 5}], [[1]]])
    def test_no_response(self, run, value):
        """What is no response is refused where the format is forced."""
        path = run.write(json.dumps(value))
        refused = run("import", path, "--format", "ollama", status=2)

        assert "expected a response of Ollama, with a message" in refused.stderr


class TestItemLists:
    """The items of a conversation, as OpenAI's API lists them."""

    def listed(self, run, items, **more):
        """What was saved of such a list, and what was reported."""
        value = {"object": "list", "data": items, "first_id": "x", "has_more": False}
        result = run("import", run.write(json.dumps({**value, **more})))
        [(said, _)] = chats(run).values()
        return said, result.stderr

    @pytest.mark.parametrize(
        ("items", "texts"),
        [
            (ITEMS, CALLED),
            ([ITEMS[0], ITEMS[-1]], ["u q", "a done"]),
            (
                [{**ITEMS[-1], "created_at": 1}, {**ITEMS[0], "created_at": 2}],
                ["a done", "u q"],
            ),
        ],
    )
    def test_newest_first(self, run, items, texts):
        """
        Calls, times or roles that show the newest first reverse it, which is reported.
        """
        said, reported = self.listed(run, items[::-1])

        assert texts == said
        assert "its items are listed with the newest first" in reported

    def test_oldest_first(self, run):
        """One in order stays so."""
        said, reported = self.listed(run, ITEMS)

        assert (CALLED, "") == (said, reported)

    def test_unknown_order(self, run):
        """Where nothing says the order, or there are more pages, that is said."""
        items = [ITEMS[0], ITEMS[-1], ITEMS[0]]
        said, reported = self.listed(run, items, has_more=True)

        assert ["u q", "a done", "u q"] == said
        assert "nothing says whether its items are listed with the newest" in reported
        assert "it is a page of a list that has more" in reported

    def test_wrong_item(self, run):
        """What is wrong has its path in the list."""
        value = {"object": "list", "data": [{"role": "user", "content": 5}, ITEMS[0]]}
        result = run("import", run.write(json.dumps(value)), status=2)

        assert "$.data[0].content: is 5" in result.stderr


ROW_KEYS = ["conversation_id", "conversationId", "chat_id", "chatId", "thread_id"]
ROW_KEYS += ["threadId", "session_id", "sessionId", "message_tree_id"]


class TestRows:
    """Rows of messages that name their conversations, or the message they answer."""

    @pytest.mark.parametrize("form", ["lines", "list", "in lists", "data", "messages"])
    @pytest.mark.parametrize("key", ROW_KEYS)
    def test_conversations(self, run, key, form):
        """Rows of several conversations are as many, under the names they give."""
        rows = [user("A", **{key: "a"}), user("B", **{key: 7})]
        rows += [model("to a", **{key: "a"}), model("to b", **{key: 7})]
        values = {
            "lines": rows,
            "list": [rows],
            "in lists": [[rows]],
            "data": [{"data": rows}],
            "messages": [{"messages": rows, "total": 4}],
        }

        run("import", run.write(*(f"{json.dumps(each)}\n" for each in values[form])))

        assert {"a": (["u A", "a to a"], 1), "7": (["u B", "a to b"], 1)} == chats(run)

    def test_one(self, run):
        """Rows of one conversation have its name, also those that don't name it."""
        rows = [user("A", session_id=None), model("B", session_id="s")]
        run("import", run.write(json.dumps(rows)))

        assert {"s": (["u A", "a B"], 1)} == chats(run)

    def test_unnamed(self, run):
        """Rows that name no conversation are none of those that others name."""
        rows = [user("A", session_id="a"), user("B", session_id="b"), user("C")]
        run("import", run.write(json.dumps(rows)))

        assert {"a", "b", "chats-1"} == {*chats(run)}

    def test_broken(self, run):
        """What is wrong in a conversation of a list is not wrong in the others."""
        rows = [user("A", chatId="a"), user(5, chatId="b"), model("B", chatId="a")]
        result = run("import", run.write(json.dumps(rows)), status=2)

        assert "$[1].content: is 5" in result.stderr
        assert {"a": (["u A", "a B"], 1)} == chats(run)

    def test_libre_chat(self, run):
        """So are the messages of LibreChat, which have branches."""
        mixed = [
            {**message, "conversationId": name, "messageId": f"{name}{at}"}
            for name in ("l1", "l2")
            for at, message in enumerate(LIBRECHAT["messages"])
        ]
        run("import", run.write(json.dumps(mixed)))

        assert {"l1", "l2"} == {*chats(run)}

    @pytest.mark.parametrize("is_list", [True, False])
    def test_without_conversation(self, run, is_list):
        """Rows that name none of several conversations are one, and that is said."""
        rows = [{"role": "system", "content": "be"}]
        rows += [user("A", chat_id="a"), user("B", chat_id="b")]
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        path = run.write(json.dumps(rows) if is_list else text)
        result = run("import", path)

        assert 3 == len(chats(run))
        assert (
            f"{path}:1: 1 of 3 messages without the id of a conversation; taken as one"
        ) in result.stderr

    def test_trees(self, run):
        """OASST's rows are a tree each, with the answers as branches."""
        links = [("1", None, "t"), ("2", "1", "t"), ("3", "1", "t"), ("9", None, "o")]
        roles = ["prompter", "assistant", "assistant", "prompter"]
        rows = [
            {
                "message_id": id,
                "parent_id": parent,
                "message_tree_id": tree,
                "role": role,
                "text": f"m{id}",
            }
            for (id, parent, tree), role in zip(links, roles, strict=True)
        ]
        path = run.write(*(f"{json.dumps(row)}\n" for row in rows))
        run("import", path)
        again = run.json("import", path)

        assert {"t": (["u m1", "a m3"], 2), "o": (["u m9"], 1)} == chats(run)
        assert ["unchanged"] * 2 == [each["outcome"] for each in again]

    @pytest.mark.parametrize("wrap", [list, lambda rows: {"id": "x", "messages": rows}])
    def test_branches(self, run, wrap):
        """
        Messages that name the one they answer are in that order, and siblings are
        branches; of several first ones each whose parent is missing is reported.
        """
        links: list[tuple[int, int | None, Any]] = [(4, 2, user("then"))]
        links += [(3, 1, model("two")), (2, 1, model("one"))]
        links += [(1, None, user("q")), (5, 9, user("lost"))]
        rows = [{"id": id, "parent_id": up, **row} for id, up, row in links]
        result = run("import", run.write(json.dumps(wrap(rows[:4]))))
        [shown] = chats(run).values()
        found = run("import", run.write(json.dumps(wrap(rows)), name="other.json"))

        assert not result.stderr
        assert (["u q", "a two"], 2) == shown
        assert ": message 5: the message that it answers is missing" in found.stderr

    def test_ancestors(self, run):
        """
        Of all messages above one the last is the one that it answers.

        Source:
            Messages of Hugging Face's chat-ui.
        """
        rows: list[Any] = [{"from": "system", "content": "Be brief.", "id": "1"}]
        for role, text, id, above in (
            ("user", "q", "2", ["1"]),
            ("assistant", "a", "3", ["1", "2"]),
            ("assistant", "b", "4", ["1", "2"]),
        ):
            rows.append({"from": role, "content": text, "id": id, "ancestors": above})

        run("import", run.write(json.dumps({"id": "x", "messages": rows})))

        assert {"x": (["s Be brief.", "u q", "a b"], 2)} == chats(run)

    @pytest.mark.parametrize("more", [{}, {"system": "Be brief."}])
    def test_first_messages(self, run, more):
        """Two first messages are alternatives of one conversation."""
        links = [("a", None), ("b", "missing"), ("c", "b"), ("d", "b")]
        rows = [user(id, id=id, parent_id=up) for id, up in links]
        run("import", run.write(json.dumps({"id": "x", "messages": rows, **more})))

        assert "user: b  (2/2)" in run("tree", "x").stdout

    def test_calls_of_branches(self, run):
        """Each branch has its own call with its result."""
        call = {"function": {"name": "f", "arguments": "{}"}}
        rows = [user("q", id=1, parent_id=None)]
        rows += [
            model(None, id=at, parent_id=1, tool_calls=[{**call, "id": f"c{at}"}])
            for at in (2, 3)
        ]
        rows += [
            {"role": "tool", "tool_call_id": f"c{at}", "content": f"{at}", **links}
            for at, links in (
                (2, {"id": 4, "parent_id": 2}),
                (3, {"id": 5, "parent_id": 3}),
            )
        ]
        run("import", run.write(json.dumps(rows)))

        assert {"chats-1": (["u q", "a f{}", "t[c3] 3"], 2)} == chats(run)

    def test_ring(self, run):
        """Messages that are their own ancestors are refused."""
        rows = [user("a", id=1, parent_id=2), user("b", id=2, parent_id=1)]
        result = run("import", run.write(json.dumps(rows)), status=2)

        assert "each of some messages is an ancestor of itself" in result.stderr

    @pytest.mark.parametrize(
        ("parents", "said"),
        [
            ([None, None, 2, None], "message 2 (and 1 more)"),
            ([None, 1, None, 3], "message 3"),
            ([None, None, 1, 1], "message 2"),
            ([None, 1, 9, 3], "message 3"),
        ],
    )
    def test_few_links(self, run, parents, said):
        """
        Where only some messages name the one that they answer, or one of a line is
        missing, all are shown in the order of the file, and that is said.
        """
        rows = [
            {"id": at, "parent_id": parent, **user(str(at))}
            for at, parent in enumerate(parents, 1)
        ]
        result = run("import", run.write(json.dumps(rows)))

        assert {"chats-1": (["u 1", "u 2", "u 3", "u 4"], 1)} == chats(run)
        assert f"{said}: it names none of the others" in result.stderr
        assert "all are kept in the order of the file" in result.stderr

    @pytest.mark.parametrize("beside", [None, {}, {"system": "be"}])
    def test_cost_of_branches(self, monkeypatch, beside):
        """The rows of many branches are decoded a few times each, as in their paths."""
        rows = [{"id": 0, "parent_id": None, **user("0")}]
        for at in range(1, 200, 2):
            up = max(at - 2, 0)
            rows += [{"id": at, "parent_id": up, **model(f"{at}")}]
            rows += [{"id": at + 1, "parent_id": up, **model(f"{at + 1}")}]

        value = rows if beside is None else {**beside, "messages": rows}
        decoded = []
        load = _formats._LOADERS["openai_chat"]

        def count(value):
            decoded.append(len(value if isinstance(value, list) else value["messages"]))
            return load(value)

        monkeypatch.setitem(_formats._LOADERS, "openai_chat", count)
        tree: Any = _formats.load(value).tree

        assert 3 * len(rows) >= sum(decoded)
        assert 101 == len(tree.states)
        first = ["be"] if beside else []
        for state in tree.states:
            *path, last = [m.text for m in state][len(first) :]
            here, expected = int(last), list[str]()
            while here is not None:
                expected.insert(0, str(here))
                here = rows[here]["parent_id"]

            assert [*path, last] == expected
            assert first == [m.text for m in state][: len(first)]

    def test_calls_without_ids(self, run):
        """A result that stands first in a branch is the one of the call above it."""
        call = {"name": "f", "arguments": "{}"}
        rows = [user("q", id=1, parent_id=None)]
        rows += [model(None, id=2, parent_id=1, function_call=call)]
        rows += [
            {"role": "function", "name": "f", "content": text, "id": id, "parent_id": 2}
            for id, text in ((3, "a"), (4, "b"))
        ]
        run("import", run.write(json.dumps(rows)))
        [(shown, count)] = chats(run).values()

        assert 2 == count
        assert re.search(r"^t\[(.+)\] b$", shown[-1])
        tree: Any = _formats.load(rows).tree
        state = tree.present
        assert state[1].tool_calls[0].id == state[2].tool_call_id

    def test_wrong_row_of_branch(self, monkeypatch):
        """What is wrong in a branch has its place among all rows."""
        links = [(1, None), (2, 1), (3, 1), (4, 2)]
        rows = [{"id": at, "parent_id": up, **user("")} for at, up in links]
        load = _formats._LOADERS["openai_chat"]

        def refuse(value):
            if len(value) == len(rows):
                return load(value)

            at = len(value) - 1
            raise DecodeError((Problem(f"$[{at}].content", "no text"),))

        monkeypatch.setitem(_formats._LOADERS, "openai_chat", refuse)
        with pytest.raises(DecodeError, match=r"\$\[2\]\.content: no text"):
            _formats.load(rows)


ENTRY = {"isSidechain": False, "sessionId": "s1", "version": "2.1", "cwd": "/x"}
CLAUDE_CODE = [
    {"type": "ai-title", "aiTitle": "T", "sessionId": "s1"},
    {**ENTRY, "type": "user", "uuid": "1", "parentUuid": None, "message": user("hi")},
    *[
        {
            **ENTRY,
            "type": "assistant",
            "uuid": uuid,
            "parentUuid": "1",
            "requestId": f"req_{uuid}",
            "message": {
                "id": f"msg_{uuid}",
                "type": "message",
                "role": "assistant",
                "model": "claude-x",
                "content": [{"type": "text", "text": text}],
                "usage": {"input_tokens": 5, "output_tokens": 1},
            },
        }
        for uuid, text in (("2", "old"), ("3", "new"))
    ],
]
CODEX = [
    {"type": "session_meta", "payload": {"id": "s1", "cli_version": "0.171.0"}},
    *[
        {
            "type": "response_item",
            "payload": {
                "type": "message",
                "role": role,
                "content": [{"type": f"{kind}_text", "text": text}],
            },
        }
        for role, kind, text in (("user", "input", "hi"), ("assistant", "output", "yo"))
    ],
]


class TestSessions:
    @pytest.mark.parametrize(
        ("lines", "expected"),
        [(CLAUDE_CODE, (["u hi", "a new"], 2)), (CODEX, (["u hi", "a yo"], 1))],
    )
    def test_session(self, run, lines, expected):
        """The lines of a session are one conversation with its branches."""
        path = run.write("".join(f"{json.dumps(each)}\n" for each in lines))

        run("import", path)
        again = run.json("import", path)

        assert {"s1": expected} == chats(run)
        assert "unchanged" == again[0]["outcome"]

    @pytest.mark.parametrize("others", [0, 1])
    def test_of_two_formats(self, run, others):
        """Sessions of two formats in one file are two, and what else there is, too."""
        codex = json.loads(json.dumps(CODEX).replace('"s1"', '"s2"'))
        sessions = [codex, CLAUDE_CODE] if others else [CLAUDE_CODE, codex]
        lines = [*sessions[0], *sessions[1], {"id": "x", "messages": HI}, *HI]
        run("import", run.write("".join(f"{json.dumps(each)}\n" for each in lines)))

        found = chats(run)
        assert 4 == len(found)
        assert (["u hi", "a yo"], 1) == found["x"]

    @pytest.mark.parametrize("lines", [CLAUDE_CODE, CODEX], ids=["claude", "codex"])
    def test_two_of_a_format(self, run, lines):
        """Two sessions of one format in one file are two conversations."""
        text = "".join(f"{json.dumps(each)}\n" for each in lines)
        other = re.sub(r'("(?:uuid|parentUuid|leafUuid)": "\w+)"', r'\1b"', text)
        run(
            "import", run.write(text, other.replace('"s1"', '"s2"').replace("hi", "ho"))
        )

        found = chats(run)
        assert {"s1", "s2"} == found.keys()
        assert "u hi" == found["s1"][0][0]
        assert "u ho" == found["s2"][0][0]

    def test_bill(self, run):
        """Each response is in the ledger once, those of other branches too."""
        path = run.write("".join(f"{json.dumps(each)}\n" for each in CLAUDE_CODE))
        run("import", path)

        with open_store(run.url) as store:
            ledger = store.load("s1").ledger

        assert [(5, 1)] * 2 == [
            (each.usage.prompt_tokens, each.usage.completion_tokens) for each in ledger
        ]
        assert "T" == notes(run, "s1")["title"]

    def test_grown(self, run):
        """A session that has grown goes on under its name."""
        text = "".join(f"{json.dumps(each)}\n" for each in CLAUDE_CODE)
        more = {**CLAUDE_CODE[1], "uuid": "4", "parentUuid": "3", "message": user("q")}
        run("import", run.write(text))

        (grown,) = run.json("import", run.write(text, json.dumps(more)))

        assert ("extended", 1) == (grown["outcome"], grown["added"])
        assert {"s1": (["u hi", "a new", "u q"], 2)} == chats(run)

    def test_agents(self, run):
        """Sub-agents in the folder beside a session are names of their own."""
        lines = [json.dumps(each) for each in CLAUDE_CODE]
        path = run.write("\n".join(lines), name="s1.jsonl")
        agent = {**CLAUDE_CODE[1], "isSidechain": True, "agentId": "a1"}
        folder = run.folder / "s1" / "subagents"
        folder.mkdir(parents=True)
        (folder / "agent-a1.jsonl").write_text(json.dumps(agent))

        run("import", path)

        assert {"s1", "s1/a1"} == {*chats(run)}
        assert "s1" == notes(run, "s1/a1")["part_of"]

    @pytest.mark.parametrize(
        "line",
        [
            {"type": "permission-mode", "permissionMode": "plan", "sessionId": "s1"},
            {"type": "file-history-snapshot", "snapshot": {}},
            {"type": "of-next-year"},
        ],
    )
    def test_unknown_first_lines(self, run, line):
        """Lines of other types before the first message are lines of the session."""
        lines = [json.dumps(each) + "\n" for each in (line, line, *CLAUDE_CODE)]

        run("import", run.write(*lines))

        assert {"s1": (["u hi", "a new"], 2)} == chats(run)
        assert 2 == notes(run, "s1")["left_out"][line["type"]]

    @pytest.mark.parametrize("after", [[], HI, [{"id": "x", "messages": HI}]])
    def test_unknown_lines(self, run, after):
        """Without a session behind them, each of them is reported."""
        lines = [{"type": "x", "at": at} for at in range(205)]
        path = run.write(*(f"{json.dumps(each)}\n" for each in (*lines, *after)))

        result = run("import", path, status=2)

        assert f"{path}:1: no conversation; an object with the keys at" in result.stderr
        assert "195 more lines are invalid as well" in result.stderr
        assert [(["u hi", "a yo"], 1)] * bool(after) == [*chats(run).values()]

    def test_left_out(self, run):
        """
        The lines of which nothing is imported are listed then, and when the session is
        exported.
        """
        extra = {**ENTRY, "type": "attachment", "uuid": "9", "parentUuid": "1"}
        lines = [*CLAUDE_CODE, extra, {**extra, "uuid": "10"}]
        path = run.write(*(f"{json.dumps(each)}\n" for each in lines))

        imported = run("import", path)
        exported = run("export", "s1", "--format", "claude_code")

        assert (
            "s1: not kept as it was: lines of which nothing is used are left out: "
            "2 attachment\n"
        ) == imported.stderr
        assert (
            "s1: lost in claude_code: notes.left_out: attachment: 2 lines not imported"
        ) in exported.stderr
        assert "/x" == notes(run, "s1")["cwd"]
        assert "T" == json.loads(exported.stdout.splitlines()[0])["aiTitle"]

    def test_nothing_left_out(self, run):
        """
        Of what is in the bill, in the tree or in the notes nothing is reported: heads,
        titles, usage, models, and what repeats a message.
        """
        counts = {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6}
        info = {"total_token_usage": counts, "last_token_usage": counts}
        events = [
            {"type": "task_started"},
            {"type": "agent_message", "message": "yo"},
            {"type": "token_count", "info": info},
            {"type": "token_count", "info": None},
            {"type": "thread_name_updated", "thread_name": "T"},
        ]
        lines: list[Any] = [
            *CODEX,
            {"type": "turn_context", "payload": {"model": "gpt-x"}},
        ]
        lines += [{"type": "event_msg", "payload": each} for each in events]
        path = run.write(*(f"{json.dumps(each)}\n" for each in lines))
        summary = {"type": "summary", "summary": "T", "leafUuid": "1"}
        other = run.write(
            *(f"{json.dumps(each)}\n" for each in (summary, *CLAUDE_CODE[1:])),
            name="claude.jsonl",
        )
        for file in (path, other):
            result = run("import", file, "--on-conflict", "replace")

            assert not result.stderr
            assert "left_out" not in notes(run, "s1")
            assert "T" == notes(run, "s1")["title"]

    def test_request_of_a_compaction(self, run):
        """What asks for a compaction in OpenCode is not listed as left out."""
        [path] = (ROOT / "tests/golden/sessions").glob("opencode-*/*.json")
        result = run("import", path)

        assert "message 6: its call toolu_A3 has no result" in result.stderr
        assert "left out" not in result.stderr

    def test_grok(self, run):
        """A history of Grok Build is refused, and no part of it is saved."""
        lines = [
            {"type": "user", "content": [{"type": "text", "text": "hi"}]},
            {"type": "reasoning", "id": "r", "summary": []},
            {"type": "assistant", "content": "yo"},
        ]
        path = run.write(*(f"{json.dumps(each)}\n" for each in lines))

        result = run("import", path, status=2)

        assert "Grok Build, which isn't read" in result.stderr
        assert "Nothing was saved." in result.stdout

    def test_blocks_of_other_agents(self, run):
        """Calls that another agent writes in the shape of Pi's are noted."""
        call = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
        message = {"role": "assistant", "content": [call]}
        lines = [
            {"type": "message", "id": id, "parentId": None, "message": each}
            for id, each in (("1", {"role": "user", "content": "hi"}), ("2", message))
        ]
        path = run.write(*(f"{json.dumps(each)}\n" for each in lines))

        result = run("import", path)

        words = "note: 1 block of types that are not known, kept as they are; the first"
        assert f"{words}, of tool_use, is in message " in result.stderr

    @pytest.mark.parametrize("kind", ["codex", "claude_code", "gemini_cli", "pi"])
    def test_growing_sessions(self, run, kind):
        """A session that is imported while it grows shows in the end what it shows."""
        [path] = (ROOT / "tests/golden/sessions").glob(f"{kind}-*/*.jsonl")
        lines = path.read_text().splitlines(keepends=True)
        for end in range(6, len(lines), 4):
            run("import", run.write(*lines[:end], name=path.name))

        run("import", path)
        run("import", path, "--prefix", "once-")

        names = [each["name"] for each in run.json("names")]
        for name in [each for each in names if not each.startswith("once-")]:
            assert run("show", f"once-{name}").stdout == run("show", name).stdout

    @pytest.mark.parametrize("key", ["instructions", "git"])
    def test_old_codex(self, run, key):
        """A rollout of 2025, which has no payloads, is one session."""
        header = {"id": "s1", "timestamp": "2025-07-01T00:00:00Z", key: None}
        items = [each["payload"] for each in CODEX[1:]]
        lines = [header, {"record_type": "state"}, items[0], {"record_type": "state"}]
        path = run.write(*(f"{json.dumps(each)}\n" for each in (*lines, items[1])))

        run("import", path)

        assert {"s1": (["u hi", "a yo"], 1)} == chats(run)

    @pytest.mark.parametrize(
        "more", [{"completion": "yo"}, {"chosen": "yo", "rejected": "no"}]
    )
    def test_prompts_of_turns(self, run, more):
        """A prompt in one text, as Claude's until 2023, is the turns that it has."""
        prompt = "\n\nHuman: a\n\nAssistant: b\n\nHuman: c\n\nAssistant:"
        run("import", run.write(json.dumps({"prompt": prompt, **more}), name="p.json"))

        [(said, _)] = chats(run).values()
        assert ["u a", "a b", "u c", "a yo"] == said

    @pytest.mark.parametrize("operation", ["Converse", "InvokeModel"])
    def test_invocation_logs(self, run, operation):
        """Bedrock's log of an invocation has a request and a response."""
        usage = {"input_tokens": 8, "output_tokens": 3}
        text: dict[str, Any] = {"text": "yo"}
        asked: dict[str, Any] = {"messages": [user([{"text": "hi"}])]}
        answer: dict[str, Any] = {"role": "assistant", "content": [text]}
        answer = {"output": {"message": answer}, "stopReason": "end_turn"}
        if operation == "InvokeModel":
            asked = {"messages": [user("hi")], "max_tokens": 9}
            answer = {"type": "message", "role": "assistant", "usage": usage}
            answer["content"] = [{"type": "text", **text}]

        log: dict[str, Any] = {"schemaType": "ModelInvocationLog"}
        log |= {
            "operation": operation,
            "input": {"inputBodyJson": asked},
            "output": {"outputBodyJson": answer},
        }
        run("import", run.write(json.dumps(log), name="p.json"))

        [(said, _)] = chats(run).values()
        assert ["u hi", "a yo"] == said

    @pytest.mark.parametrize("more", [{"model": "m"}, {"input": "hi"}])
    def test_logged_instructions(self, run, more):
        """A log of responses with their instructions and times is no rollout."""
        answer = {
            "type": "message",
            "role": "assistant",
            "content": ITEMS[3]["content"],
        }
        log = {"timestamp": "2025-07-01T00:00:00Z", "instructions": "Be brief."}
        lines = [{"id": id, **log, **more, "output": [answer]} for id in ("r1", "r2")]
        path = run.write(*(f"{json.dumps(each)}\n" for each in lines))

        run("import", path)

        assert [["a done"]] * 2 == [said for said, _ in chats(run).values()]

    def test_dated_prompt(self, run):
        """Nor is another program's prompt, with its instructions and time."""
        log = {"timestamp": "2025-07-01T00:00:00Z", "instructions": "Be brief."}
        row = {"id": "r1", **log, "prompt": "hi", "generation": "yo"}

        result = run("import", run.write(json.dumps(row)), status=2)

        assert "no conversation; an object with the keys" in result.stderr

    def test_number_behind_a_damaged_line(self, run):
        """What is wrong has the number of its line, behind one that is no JSON too."""
        lines = [json.dumps(each) for each in CODEX]
        event = {"type": "user_message", "message": "never sent"}
        lines += ["{", json.dumps({"type": "event_msg", "payload": event})]

        result = run("import", run.write("\n".join(lines)), status=2)

        assert "s1: not kept as it was: line 5: a message that no item" in result.stderr

    def test_two_on_a_line(self, run):
        """Two objects on one line, of programs that append at once, are both read."""
        first, *others = [json.dumps(each) for each in CODEX]
        run("import", run.write(f"{first}\n{''.join(others)}\n"))

        assert {"s1": (["u hi", "a yo"], 1)} == chats(run)

    def test_damaged_line(self, run):
        """A line that is no JSON is reported, and the others are loaded."""
        lines = [json.dumps(each) for each in CLAUDE_CODE]
        lines[2] = lines[2][:50]

        result = run("import", run.write("\n".join(lines)), status=2)

        assert ":3: incomplete JSON" in result.stderr
        assert {"s1": (["u hi", "a new"], 1)} == chats(run)


class TestNotes:
    def test_beside_messages(self, run):
        """What stands beside the messages becomes notes of the name, without nulls."""
        tools = [{"type": "function", "function": {"name": "f"}}]
        record = {"id": "x", "messages": HI, "tools": tools, "n": 1, "user": None}

        run("import", run.write(json.dumps(record)))

        kept = notes(run, "x")
        assert {"tools", "n"} == {*kept}
        assert "f" == kept["tools"][0]["function"]["name"]

    def test_chat_of_open_webui(self, run):
        """So does what its chat has, a system prompt for example."""
        chat = {**OPEN_WEBUI["chat"], "system": "Be brief.", "models": ["m"]}

        run("import", run.write(json.dumps({**OPEN_WEBUI, "chat": chat})))

        kept = notes(run, "w1")
        assert {"system": "Be brief.", "models": ("m",)} == {**kept["chat"]}

    @pytest.mark.parametrize(
        ("value", "key"),
        [
            (CHATGPT, "title"),
            (CLAUDE_AI, "name"),
            (OPEN_WEBUI, "title"),
            (LIBRECHAT, "title"),
        ],
    )
    def test_title(self, run, value, key):
        """
        The title of an export stands beside its name, and above its log and its page;
        a page without words does not have it.
        """
        saved = run("import", run.write(json.dumps({**value, key: "To Bern <&\x1b"})))
        name, title = saved.stdout.splitlines()[1].split(maxsplit=1)
        heading, row = run("names").stdout.splitlines()

        assert "To Bern <&\\x1b" == title
        assert heading.endswith("MESSAGES  NAME  TITLE")
        assert row.endswith(f"  {name}    {title}")
        assert f"Title: {title}" == run("log", name).stdout.splitlines()[0]
        assert "<h1>To Bern &lt;&amp;" in run("page", name).stdout
        assert "<h1>Mine</h1>" in run("page", name, "--title", "Mine").stdout
        assert "Bern" not in run("page", name, "--redact").stdout
        asked = run("show", "TO Bern <&\x1b", status=2)
        assert f"it is the title of {name!r}\n" in asked.stderr

    @pytest.mark.parametrize("value", [CHATGPT, {"id": "g1", "messages": HI}])
    def test_again(self, run, value):
        """
        Importing a conversation again changes no note of it; new messages may add
        notes.
        """
        grown = (
            conversations(1, 1)
            if value is CHATGPT
            else {**value, "messages": [*HI, user("more")]}
        )
        for given in ({"title": "T", "x": 1}, {"title": "older", "y": 1}):
            run("import", run.write(json.dumps({**value, **given})))

        assert {"title": "T", "x": 1}.items() <= notes(run, "g1").items()
        assert "y" not in notes(run, "g1")

        run("annotate", "g1", "title=Mine")
        given = {"title": "newer", "z": 1}
        run("import", run.write(json.dumps({**grown, **given})))

        kept = notes(run, "g1")
        assert ("Mine", 1, 1) == (kept["title"], kept["x"], kept["z"])

        other = {**value, "title": "other", "messages": [user("bye")]}
        if value is CHATGPT:
            other = json.loads(json.dumps(CHATGPT).replace('"hi"', '"bye"'))
            other["title"] = "other"

        run("import", run.write(json.dumps(other)), "--on-conflict", "replace")

        assert "other" == notes(run, "g1")["title"]

    def test_too_much(self, run):
        """What the notes of a name can't hold is listed, and the rest is kept."""
        record = {"id": "x", "messages": HI, "tools": ["t" * 20_000], "model": "m"}

        result = run("import", run.write(json.dumps(record)))

        assert (
            "x: not kept as it was: tools: 20,004 bytes are more than" in result.stderr
        )
        assert {"model": "m"} == notes(run, "x")

    def test_mended(self, run):
        """What was wrong and could be read is listed."""
        half = {"id": "x", "messages": [user("a\ud800")]}
        orphan = copy.deepcopy(CHATGPT)
        orphan["mapping"]["a1"]["parent"] = "gone"

        result = run(
            "import", run.write(json.dumps(half) + "\n" + json.dumps(orphan) + "\n")
        )

        half_tree = copy.deepcopy(CLAUDE_AI_FLAT)
        half_tree["chat_messages"][0]["text"] = "a\ud800"
        of_tree = run("import", run.write(json.dumps(half_tree)))

        assert (
            "chat_messages[0].text: half of a surrogate pair became" in of_tree.stderr
        )
        assert "u a\ufffd" == chats(run)["c1"][0][0]
        assert "x: not kept as it was: message 1: half of a surrogate" in result.stderr
        assert (
            "g1: not kept as it was: $.mapping.a1: its parent 'gone'" in result.stderr
        )

    @pytest.mark.parametrize(
        ("turn", "what"),
        [
            ({"from": "gpt", "value": '<tool_call>{"name": "f'}, "its <tool_call>"),
            ({"from": "gpt", "value": "<tool_call>f</tool_call>"}, "its <tool_call>"),
            ({"from": "gpt", "value": "<functioncall> {}"}, "its <functioncall>"),
            ({"from": "function_call", "value": "{f"}, "it can't be read"),
        ],
        ids=str,
    )
    def test_no_call(self, run, turn, what):
        """A call that can't be read is reported where its result follows."""
        asked, end = {"from": "human", "value": "q"}, {"from": "gpt", "value": "done"}
        result = {"from": "tool", "value": "r"}
        for turns in ([asked, turn, result, end], [asked, turn, asked, end]):
            line = json.dumps({"id": f"x{len(chats(run))}", "conversations": turns})
            said = run("import", run.write(line)).stderr

            if result in turns:
                assert "x0: note: message 2: " in said
                assert what in said
                assert "the result behind it has no call" in said
            else:
                assert "message 2" not in said

    @pytest.mark.parametrize(
        "block",
        [{"type": "toolRequest", "id": "c"}, {"type": "reasoning", "text": "hm"}],
    )
    def test_unknown_block(self, run, block):
        """
        A block that the format does not have is kept and noted, beside a call too.

        Source:
            Messages of Goose; ``api_conversation_history.json`` of Roo Code.
        """
        call = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
        is_goose = block["type"] == "toolRequest"
        content = [block] if is_goose else [block, call]
        said = run("import", run.write(json.dumps([user("q"), model(content)]))).stderr

        count = "chats-1: note: 1 block of types that are not known, kept as they are"
        assert f"{count}; the first, of {block['type']}, is in message 2\n" == said
        assert (["u q", "a" if is_goose else "a f{}"], 1) == chats(run)["chats-1"]

    @pytest.mark.parametrize(
        ("key", "what"),
        [
            ("tool_calls", "without a call"),
            ("id", "without a call"),
            ("tool_call_id", "without an id, taken as those of the calls"),
        ],
    )
    def test_no_pair(self, run, key, what):
        """Results that name no call are kept, and noted with the first of them."""
        call = {"id": "c", "type": "function", "function": {"name": "f"}}
        asked = {"role": "user", "content": "q"}
        called = {"role": "assistant", "content": None, "tool_calls": [call]}
        result = {"role": "tool", "tool_call_id": "c", "content": "r"}
        whole = {"id": "x", "messages": [asked, called, result, called, result]}
        broken: Any = copy.deepcopy({**whole, "id": "y"})
        for each in broken["messages"][1:]:
            each.pop(key, None)
            each.get("tool_calls", [{}])[0].pop(key, None)

        said = run("import", run.write(json.dumps(whole), "\n", json.dumps(broken)))

        (line,) = said.stderr.splitlines()
        assert f"y: note: 2 tool results {what}" in line
        assert line.endswith("; the first is message 3")

    def test_paired_by_order(self, run):
        """Where no call has an id, results are paired by their order, silently."""
        call = {"function": {"name": "f", "arguments": {}}}
        asked = {"role": "user", "content": "q"}
        called = {"role": "assistant", "content": "", "tool_calls": [call]}
        result = {"role": "tool", "content": "r"}

        said = run("import", run.write(json.dumps([asked, called, result])))

        assert "" == said.stderr

    def test_other_branches(self, run):
        """What is wrong on a branch that is not shown is listed, or refused, too."""
        half, foreign = copy.deepcopy(CHATGPT), copy.deepcopy(LIBRECHAT)
        half["mapping"]["a1"]["message"]["content"]["parts"] = ["o\ud800"]
        block = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
        foreign["messages"][1]["content"] = [block]
        listed = run("import", run.write(json.dumps(half)))
        refused = run("import", run.write(json.dumps(foreign)), status=2)

        assert "a1.content.parts[0]: half of a surrogate" in listed.stderr
        assert "another branch, part 1: has a block of the type tool_use of" in (
            refused.stderr
        )


def conversations(start, count):
    """Of ChatGPT's, with the answers from *start* on."""
    value = copy.deepcopy(CHATGPT)
    mapping = value["mapping"]
    for at in range(start, start + count):
        id = f"b{at}"
        mapping[id] = {
            **copy.deepcopy(mapping["a1"]),
            "id": id,
            "message": {**mapping["a1"]["message"], "id": id},
        }
        mapping[id]["message"]["content"] = {"content_type": "text", "parts": [id]}
        mapping["u"]["children"].append(id)
        value["current_node"] = id

    return value


class TestGrownTrees:
    def test_grown(self, run):
        """
        An export that has grown adds its branches to those there are, and shows what
        it shows; again, nothing changes.
        """
        more = conversations(1, 2)
        more["mapping"]["a2"]["children"] = ["q"]
        more["mapping"]["q"] = {
            "id": "q",
            "parent": "a2",
            "children": [],
            "message": {
                "id": "q",
                "author": {"role": "user"},
                "content": {"content_type": "text", "parts": ["more"]},
            },
        }
        old, new = (
            run.write(json.dumps([value]), name=f"{at}.json")
            for at, value in enumerate((CHATGPT, more))
        )

        records = [run.json("import", each)[0] for each in (old, new, new, old)]

        assert ["imported", "extended", "unchanged"] == [
            each["outcome"] for each in records[:3]
        ]
        assert 3 == records[1]["added"]
        assert 4 == chats(run)["g1"][1]
        assert {"u hi", "a old", "a new", "a b1", "a b2", "u more"} == everything(
            run, "g1"
        )

    def test_ends_earlier(self, run):
        """A copy of a file that ends earlier changes nothing, and hides nothing."""
        more = copy.deepcopy(CHATGPT)
        more["mapping"]["a2"]["children"] = ["q"]
        question = copy.deepcopy(more["mapping"]["u"])
        question |= {"id": "q", "parent": "a2", "children": []}
        question["message"]["id"] = "q"
        more["mapping"]["q"], more["current_node"] = question, "q"
        new, old = (
            run.write(json.dumps([value]), name=f"{at}.json")
            for at, value in enumerate((more, CHATGPT))
        )

        records = [run.json("import", each)[0] for each in (new, old)]

        assert ["imported", "unchanged"] == [each["outcome"] for each in records]
        assert ["u hi", "a new", "u hi"] == chats(run)["g1"][0]

    def test_other_branch_shown(self, run):
        """
        Nor does one that shows another branch, or a branch that comes with it where
        the conversation goes on: what is shown stays.
        """
        older, branch = copy.deepcopy(CHATGPT), conversations(1, 1)
        older["current_node"], branch["current_node"] = "a1", "u"

        records = [
            run.json("import", run.write(json.dumps([value])))[0]
            for value in (CHATGPT, older, branch)
        ]

        assert [("imported", 2), ("unchanged", 0), ("extended", 1)] == [
            (each["outcome"], each["added"]) for each in records
        ]
        assert (["u hi", "a new"], 3) == chats(run)["g1"]

    def test_continued_answer(self, run):
        """An answer that has become longer takes the place of its beginning."""
        longer = copy.deepcopy(CHATGPT)
        longer["mapping"]["a2"]["message"]["content"]["parts"] = ["newer"]
        for value in (CHATGPT, longer):
            run("import", run.write(json.dumps([value])))

        assert (["u hi", "a newer"], 2) == chats(run)["g1"]

    def test_another(self, run):
        """A tree with none of the messages is another conversation."""
        other = copy.deepcopy(CHATGPT)
        other["mapping"]["u"]["message"]["content"]["parts"] = ["bye"]
        old, new = (
            run.write(json.dumps([value]), name=f"{at}.json")
            for at, value in enumerate((CHATGPT, other))
        )
        run("import", old)

        skipped = run.json("import", new, status=1)
        renamed = [
            run.json("import", new, "--on-conflict", "rename")[0] for _ in range(2)
        ]
        replaced = run.json("import", new, "--on-conflict", "replace")

        assert "skipped" == skipped[0]["outcome"]
        assert [("g1-2", "imported"), ("g1-2", "unchanged")] == [
            (each["name"], each["outcome"]) for each in renamed
        ]
        assert "replaced" == replaced[0]["outcome"]
        assert ["u bye", "a new"] == chats(run)["g1"][0]

    def test_linear_then_tree(self, run):
        """A name that was saved as a list takes the branches of a tree."""
        record = {"id": "g1", "messages": [user("hi"), model("new")]}
        run("import", run.write(json.dumps(record)))

        (extended,) = run.json("import", run.write(json.dumps(CHATGPT)))

        assert ("extended", 1) == (extended["outcome"], extended["added"])
        assert {"g1": (["u hi", "a new"], 2)} == chats(run)


def everything(run, name):
    """All messages of a name's history."""
    with open_store(run.url) as store:
        return {describe(node.message) for node in store.message_tree(name).nodes}


ONE = json.dumps({"id": "x", "messages": HI})
FILES = {
    "gzip": gzip.compress(ONE.encode(), mtime=0),
    "utf-8 mark": b"\xef\xbb\xbf" + ONE.encode(),
    "utf-16": ONE.encode("utf-16"),
    "utf-16 without a mark": ONE.encode("utf-16-le"),
    "utf-16 without a mark, big": ONE.encode("utf-16-be"),
    "utf-16 lines": f"{ONE}\r\n".encode("utf-16"),
    "utf-32": json.dumps(json.loads(ONE), indent=1).encode("utf-32"),
    "crlf": json.dumps(json.loads(ONE), indent=1).replace("\n", "\r\n").encode(),
    "zip": zipped(chat__jsonl=ONE),
    "zip in capitals": zipped(CHAT__JSON=ONE),
    "documents": (json.dumps(json.loads(ONE), indent=1) * 2).encode(),
    "blank lines": f"\n\n{ONE}\n\n".encode(),
    "no line end": ONE.encode(),
}
FILES |= {
    f"under {key}": json.dumps({key: [json.loads(ONE)]}, indent=indent).encode()
    for key, indent in (("data", None), ("conversations", 1), ("chats", 2))
}


class TestFiles:
    @pytest.mark.parametrize("kind", FILES)
    def test_file(self, run, kind):
        """Encodings, archives and documents of several are read as the same."""
        path = run.folder / "chats.json"
        path.write_bytes(FILES[kind])

        run("import", path)

        assert {"x": (["u hi", "a yo"], 1)} == chats(run)

    @pytest.mark.parametrize("indent", [None, 1])
    @pytest.mark.parametrize(
        ("listed", "count"),
        [
            (lambda at: [user(f"{at}"), model("yo")], 1),
            (lambda at: {"messages": [user(f"{at}"), model("yo")]}, 1),
            (lambda at: [{"messages": [user(f"{at}{n}")]} for n in "ab"], 2),
            (lambda at: {"data": [{"messages": [user(f"{at}{n}")]} for n in "ab"]}, 2),
        ],
        ids=["messages", "object", "list", "wrapped"],
    )
    @pytest.mark.parametrize("between", ["", "\n"])
    def test_several(self, run, listed, count, indent, between):
        """Of several documents, or lists of some, none has the name of another."""
        texts = [json.dumps(listed(at), indent=indent) for at in range(3)]

        result = run("import", run.write(between.join(texts)))

        assert "" == result.stderr
        assert 3 * count == len(chats(run))

    @pytest.mark.parametrize("kind", ["blank lines", "under conversations", "gzip"])
    def test_standard_input(self, run, kind):
        """Standard input is a document or lines alike."""
        run("import", "-", data=FILES[kind])

        assert {"x": (["u hi", "a yo"], 1)} == chats(run)

    def test_archive(self, run):
        """
        Of an export the parts with conversations are read, by member; what is left out
        is listed, and is no failure.
        """
        path = run.folder / "export.zip"
        shards = {
            f"conversations-00{at}__json": json.dumps(
                [{**CHATGPT, "conversation_id": f"g{at}"}]
            )
            for at in range(2)
        }
        path.write_bytes(zipped(**shards, user__json="{}", chat__html="<html>"))

        result = run("import", path)

        assert f"{path}: left out: user.json, chat.html\n" == result.stderr
        assert ["g0", "g1"] == [*chats(run)]

    @pytest.mark.parametrize(
        ("data", "why"),
        [
            (b"id,role,content\n1,user,hi\n", "a table (CSV)"),
            (b"<!DOCTYPE html><html>", "HTML"),
            (b"<?xml version='1.0'?><a/>", "XML"),
            (b"# Chat\n\n**User**: hi\n", "Markdown"),
            (b"version https://git-lfs.github.com/spec/v1\noid x\n", "Git LFS"),
            (b"---\ntitle: x\n", "YAML"),
            (b'data: {"choices": []}\n\ndata: [DONE]\n', "events of a stream (SSE)"),
            (b"[{'role': 'user', 'content': 'hi'}]", "Python's own notation"),
            (
                b"SQLite format 3\0" + bytes(84),
                "database; give --from and what wrote it",
            ),
            (b"PAR1" + bytes(9), "a Parquet file"),
            (b"a.json".ljust(257, b"\0") + b"ustar", "a tar archive"),
            (b"%PDF-1.7\n", "a PDF document"),
            (b"\x80\x04\x95", "a pickle, which can run code and is never read"),
            (b"\x28\xb5\x2f\xfd\x24", "compressed with zstd; decompress it first"),
            (
                gzip.compress(ONE.encode(), mtime=0)[:20],
                "the compressed file is cut off",
            ),
            (zipped(chat__html="<html>"), "a zip archive without JSON files"),
            (b"PK\x03\x04" + bytes(9), "a damaged zip archive"),
            (zipped(), "an empty zip archive"),
            (gzip.compress(bytes(20), mtime=0), "binary data"),
            (ONE.encode("utf-16")[:-1], "damaged text: truncated data (utf-16-le)"),
            ('["\ud800"]'.encode("utf-16", "surrogatepass"), "no UTF-8 text"),
        ],
    )
    def test_refused(self, run, data, why):
        """What is no JSON is refused by name, in one line."""
        path = run.folder / "chats.json"
        path.write_bytes(data)

        result = run("import", path, status=2)

        assert why in result.stderr
        assert 1 == result.stderr.count("\n")

    @pytest.mark.skipif(sys.platform == "win32", reason="needs pipes by name")
    def test_piped_archive(self, run):
        """A zip archive is read from its end, which a pipe has only once."""
        there, here = os.pipe()
        os.write(here, FILES["zip"])
        os.close(here)
        result = run("import", f"/dev/fd/{there}", status=2)
        os.close(there)

        assert "can't be read from a pipe; give its path" in result.stderr

    def test_bomb(self, run, monkeypatch):
        """What expands beyond reason is refused before it is read to its end."""
        monkeypatch.setattr(_sources, "_FREE_BYTES", 1 << 20)
        data = b'{"id": "' + b"x" * (16 << 20)
        path = run.folder / "chats.json.gz"
        path.write_bytes(gzip.compress(data, 9))

        result = run("import", path, status=2)

        assert "expands to more than 200 times its size" in result.stderr


EMBEDDING = {"model": "text-embedding-3-small", "input": "q"}
EMBEDDED = {"object": "list", "data": [{"object": "embedding", "embedding": [0.5]}]}
REFUSED = {
    "batch of embeddings": (
        {
            "custom_id": "r",
            "url": "/v1/embeddings",
            "body": {"model": "m", "input": "q"},
        },
        "a request to /v1/embeddings, which gives no answer",
    ),
    "request of an embedding": (EMBEDDING, "a request for something else than an"),
    "logged embedding": (
        {"request": EMBEDDING, "response": EMBEDDED},
        "an object with the keys request, response",
    ),
    "embeddings in a batch": (
        {"custom_id": "r", "response": {"status_code": 200, "body": EMBEDDED}},
        "$.response.body: an object with data, first of all an object with the keys em",
    ),
    "speech": ({"model": "m", "input": "q", "voice": "a"}, "a request for something"),
    "batch error": (
        {"custom_id": "r", "response": None, "error": {"code": "x", "message": "no"}},
        "an error of the provider instead of an answer: x: no",
    ),
    "batch error of Bedrock": (
        {"recordId": "r", "error": {"errorCode": 400, "errorMessage": "no"}},
        "an error of the provider instead of an answer: 400: no",
    ),
    "batch status": (
        {
            "custom_id": "r",
            "response": {"status_code": 400, "body": {"error": {"message": "no"}}},
        },
        "an error of the provider instead of an answer: no",
    ),
    "batch body": (
        {
            "custom_id": "r",
            "response": {
                "status_code": 200,
                "body": {"choices": [{"message": {"role": "assistant", "content": 5}}]},
            },
        },
        "$.response.body.choices[0].message.content",
    ),
    "anthropic batch error": (
        {
            "custom_id": "r",
            "result": {"type": "errored", "error": {"type": "x", "message": "no"}},
        },
        "an error of the provider instead of an answer: x: no",
    ),
    "anthropic batch expired": (
        {"custom_id": "r", "result": {"type": "expired"}},
        "an error of the provider instead of an answer: expired",
    ),
    "silly": ({"name": "A", "is_user": True, "mes": "hi"}, "a message of SillyTavern"),
    "silly, with notes": (
        {"name": "A", "is_user": True, "mes": "hi", "extra": {"api": "openai"}},
        "a message of SillyTavern",
    ),
    "output of Claude Code": (
        {"type": "assistant", "message": model("yo"), "session_id": "s", "uuid": "u"}
        | {"parent_tool_use_id": None},
        "output of `claude -p`; import its session, of ~/.claude/projects",
    ),
    "result of Claude Code": (
        {"type": "result", "subtype": "success", "result": "yo", "session_id": "s"},
        "output of `claude -p`",
    ),
    "output of Codex": (
        {"type": "item.completed", "item": {"type": "agent_message", "text": "yo"}},
        "output of `codex exec`; import its session, of $CODEX_HOME/sessions",
    ),
    "view of Cline": (
        [{"ts": 1, "type": "say", "say": "text", "text": "hi"}],
        "what Cline shows; import the api_conversation_history.json beside it",
    ),
    "DeepSeek": (
        {"id": "d", "inserted_at": "2026-01-01", "mapping": {"root": {}}},
        "DeepSeek's export, which is not read",
    ),
    "OpenCode 2": (
        {
            "info": {"id": "s", "location": {}},
            "messages": [{"id": "m", "type": "user", "text": "hi", "time": {}}],
        },
        "message 1: has no info, as a message of OpenCode 1",
    ),
    "session of another agent": (
        {"uuid": "1", "parentUuid": None, "sessionId": "s", "type": "user"}
        | {"message": GEMINI[0]},
        "session has no messages that can be read (1 line); line 1: can't be read",
    ),
    "gemini texts": (
        {"contents": [{"role": "model", "parts": ["yo"]}]},
        "$.contents[0].parts[0]: is 'yo'; expected an object",
    ),
    "model message": (
        [model([{"type": "tool-call", "toolCallId": "c"}])],
        "$[0].content[0].toolName: is missing",
    ),
    "converse result": (
        [user([{"toolResult": {"content": [{"text": "r"}]}}])],
        "$[0].content[0].toolResult.toolUseId: is missing",
    ),
    "in a list": ([*HI, user(5)], "$[2].content: is 5"),
    "a message without a role": ([*HI, {"content": "x"}, *HI], "$[2].role: is missing"),
    "no message between": ([*HI, "x", *HI], "$[2]: is 'x'; expected an object"),
    "in lists": ([[*HI, user(5)]], "$[0][2].content: is 5"),
    "in an object": (
        {"run": {"messages": [user(5)]}},
        "$.run.messages[0].content: is 5",
    ),
    "two keys": (
        {"run": {"inputs": HI, "outputs": HI}},
        "an object with the keys run",
    ),
    "nested": (
        {"data": {"data": {"data": {"data": {}}}}},
        "an object with the keys data",
    ),
    "chunk": ({"choices": [{"delta": {"content": "x"}}]}, "a streamed response"),
    "event": ({"type": "message_start", "message": {}}, "a streamed response"),
    "mixed": (
        {
            "messages": [
                user([{"type": "image_url", "image_url": {"url": "http://e/x"}}]),
                model([{"type": "tool_use", "id": "c", "name": "f", "input": {}}]),
            ]
        },
        "a block of the type image_url of OpenAI's chat",
    ),
    "no content": ({"messages": [{"role": "user"}]}, "$.messages[0].content"),
    "null content": ({"messages": [user(None)]}, "$.messages[0].content"),
    "null value": (
        {"conversations": [{"from": "human", "value": None}]},
        "$.conversations[0]",
    ),
    "nothing to read": ({"messages": [model("")]}, "nothing in it can be read"),
    "empty": ({"conversations": []}, "a conversation without messages"),
    "speakers": (
        {"dialog": [{"speaker": "A", "text": "q"}]},
        "a dialogue of speakers, of whom none is known",
    ),
    "one text": ({"chat": "USER: hi ASSISTANT: yo"}, "a conversation in one text"),
    "account": ({"uuid": "u", "email_address": "e"}, "data of an account"),
    "unknown": ({"a": 1, "b": 2}, "an object with the keys a, b"),
    "unknown messages": (
        {"title": "T", "messages": [{"author": "user", "said": "hi"}]},
        "an object with messages, first of all an object with the keys author, said",
    ),
    "list": ([1, 2, 3], "$[0]: a number, not a conversation"),
    "records": ([{"a": 1}] * 9, "(and 8 more like it)"),
}


class TestRefused:
    @pytest.mark.parametrize("kind", REFUSED)
    def test_value(self, run, kind):
        """
        What is no conversation, or one of which something would be lost, is refused in
        one sentence; nothing is imported.
        """
        value, why = REFUSED[kind]

        result = run("import", run.write(json.dumps(value)), status=2)

        assert why in result.stderr
        assert 1 == result.stderr.count("\n")
        assert {} == chats(run)

    @pytest.mark.parametrize(
        "empty",
        [
            {"title": "Bread", "mapping": {}, "current_node": None},
            {"title": "Bread", "mapping": {"r": {"id": "r", "message": None}}},
            {"uuid": "u", "name": "Bread", "chat_messages": []},
        ],
    )
    def test_title(self, run, empty):
        """One of several without messages has its title; the others are imported."""
        value = [{"id": "x", "messages": HI}, empty, {"id": "y", "messages": HI}]
        result = run("import", run.write(json.dumps(value)), status=2)

        assert "'Bread': no conversation; $[1]: has no messages" in result.stderr
        assert {"x", "y"} == {*chats(run)}

    def test_empty_among_names(self, run):
        """One without messages does not hide the others of an object of some."""
        value = {"x": {"messages": HI}, "y": {"title": "Bread", "messages": []}}
        result = run("import", run.write(json.dumps(value)), status=2)

        assert "'Bread': no conversation; $[1]: a conversation without" in result.stderr
        assert {"x"} == {*chats(run)}

    def test_behind_a_conversation(self, run):
        """What is wrong in a message has its path in the list, whatever is before."""
        value = [{"id": "x", "messages": HI}, *HI, user(5)]
        result = run("import", run.write(json.dumps(value)), status=2)

        assert "$[3].content: is 5" in result.stderr
        assert {"x"} == {*chats(run)}

    def test_unknown_format(self, run):
        """An unknown format is refused in one line, with those there are."""
        path = run.write(ONE)

        result = run("import", path, "--format", "chatpgt", status=2)

        assert (
            "Error: unknown format 'chatpgt'; did you mean 'chatgpt'?" in result.stderr
        )
        assert "open_webui" in result.stderr
        assert 1 == result.stderr.count("\n")
        assert not run.path.exists()

    def test_forced(self, run):
        """A format that is given is the only one that is tried."""
        path = run.write(ONE)

        run("import", path, "--format", "sharegpt")
        refused = run("import", path, "--format", "chatgpt", status=2)

        assert "mapping is missing" in refused.stderr
        assert {"x"} == {*chats(run)}

    def test_extra(self, run):
        """A key that is an object in eino's messages, and a text here, is no matter."""
        run("import", run.write(json.dumps([user("hi", extra="x"), model("yo")])))

        assert {"chats-1": (["u hi", "a yo"], 1)} == chats(run)

    def test_help(self, run):
        """The help lists the formats."""
        shown = run("import", "--help").stdout

        assert "claude_code" in shown
        assert "ShareGPT and its kin" in shown


def number(value, at):
    """*value* as one of several: with an id of its own."""
    value = copy.deepcopy(value)
    for key in ("conversation_id", "conversationId", "custom_id", "threadId", "uuid"):
        if key in value:
            value[key] = f"n{at}"

    return {**value, "id": f"n{at}"}


def read(path):
    """The conversations of a file by name, and what was reported."""
    found: dict[str, Any] = {}
    reports: list[Any] = []
    for each in read_files([str(path)], limit=1 << 24, advance=len_of_nothing):
        if isinstance(each, InputConversation):
            found[each.name] = [describe(message) for message in each.messages]
            reports += each.mended
        else:
            reports.append(str(each))

    return found, reports


def len_of_nothing(_size):
    """Progress that nobody looks at."""


def damage(drawn, block):
    """*block*, damaged in one of the ways in which files are."""
    lines = block.split(b"\n")
    at, row = drawn.randrange(len(block)), drawn.randrange(len(lines))
    other = drawn.randrange(len(lines))
    piece = drawn.choice([b'"', b"{", b"}", b"[", b"]", b",", b"\\", b"\0", b"\xff"])
    swapped = lines.copy()
    swapped[row], swapped[other] = lines[other], lines[row]
    return drawn.choice(
        [
            block[:at],
            block[at + 1 :] if at else block[1:],
            block[:at] + bytes([drawn.randrange(256)]) + block[at + 1 :],
            block[:at] + block[at + drawn.randrange(1, 9) :],
            block[:at] + piece + block[at:],
            block + block,
            b"\n".join(lines[:row] + lines[row + 1 :]),
            b"\n".join(lines[: row + 1] + lines[row:]),
            b"\n".join(swapped),
        ]
    )


DAMAGED = [
    *("request", "choices", "anthropic", "gemini", "sharegpt", "preference of openai"),
    *("log", "chatgpt", "claude.ai", "open webui", "librechat"),
]


@pytest.mark.integration
class TestLarge:
    @pytest.fixture
    def path(self, run, monkeypatch):
        """A file that counts as large, with a conversation that can't be read."""
        monkeypatch.setattr(_workers, "LARGE_BYTES", 1)
        monkeypatch.setattr(_workers, "_BATCH_BYTES", 2_000)
        values = [
            number(VALUES[kind][0], at) for at, kind in enumerate(["chatgpt"] * 20)
        ]
        linear = [number(VALUES["request"][0], at) for at in range(20, 40)]
        return run.write(json.dumps([*values, {"a": 1}, *linear]))

    def check(self, run, path):
        """All are there, in order, and the one is reported."""
        shown = run("import", path, "--json", status=2)
        records = [json.loads(each) for each in shown.stdout.splitlines()]

        assert [f"n{at}" for at in range(40)] == [each["name"] for each in records]
        assert "$[20]: an object with the keys a" in shown.stderr
        assert (["u hi", "a new"], 2) == chats(run)["n3"]
        assert (["u hi", "a yo"], 1) == chats(run)["n33"]

    def test_processes(self, run, path):
        """What other processes load comes as it would from this one."""
        self.check(run, path)

    def test_no_processes(self, run, path, monkeypatch):
        """Where no process can be started, or one ends, this one loads."""

        def refuse(*_args):
            raise OSError("no semaphores")

        monkeypatch.setattr(_workers, "ProcessPoolExecutor", refuse)
        self.check(run, path)

    def test_interrupted(self, run, path, monkeypatch):
        """A Ctrl-C reaches no process that starts; it waits until one has."""
        masks = []

        class Pool:
            def __init__(self, *_args):
                pass

            def submit(self, *_args):
                masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
                raise OSError

            def shutdown(self, **_keys):
                pass

        monkeypatch.setattr(_workers, "ProcessPoolExecutor", Pool)
        self.check(run, path)

        assert masks
        assert all(signal.SIGINT in mask for mask in masks)
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def test_killed(self, run, path, monkeypatch):
        """Where one ends, the others go on, and this one loads what it had."""
        monkeypatch.setattr(_workers, "_prepare_worker", os.abort)
        self.check(run, path)


class TestBatches:
    def test_conflict(self, run):
        """Where one of many names is taken, the others are saved as ever."""
        records = [{"id": f"n{at}", "messages": HI, "n": at} for at in range(5)]
        path = run.write("".join(f"{json.dumps(each)}\n" for each in records))
        other = {"id": "n2", "messages": [user("other")]}
        run("import", run.write(json.dumps(other), name="other.json"))

        outcomes = [each["outcome"] for each in run.json("import", path, status=1)]

        assert ["imported"] * 2 + ["skipped"] + ["imported"] * 2 == outcomes
        assert {"n": 4} == notes(run, "n4")
        assert {} == notes(run, "n2")

    def test_same_name(self, run):
        """Of several with one name in a file the later ones are compared with it."""
        records = [{"id": "x", "messages": HI[:1]}, {"id": "x", "messages": HI}]
        path = run.write("".join(f"{json.dumps(each)}\n" for each in records))

        outcomes = [each["outcome"] for each in run.json("import", path)]

        assert ["imported", "extended"] == outcomes


class TestDamage:
    @pytest.mark.parametrize("form", ["lines", "pretty", "compact"])
    @pytest.mark.parametrize("kind", DAMAGED)
    def test_one_of_four(self, run, kind, form):
        """
        Whatever is done to one of four conversations, the others are there as they
        were, before it and behind it; and it is as it was, or something is reported.
        """
        values = [number(VALUES[kind][0], at) for at in range(4)]
        indent = 1 if form == "pretty" else None
        blocks = [json.dumps(each, indent=indent).encode() for each in values]
        begin, between, end = {
            "lines": (b"", b"\n", b"\n"),
            "pretty": (b"[\n", b",\n", b"\n]\n"),
            "compact": (b"[", b", ", b"]"),
        }[form]
        path = run.folder / "chats.json"
        path.write_bytes(begin + between.join(blocks) + end)
        whole, reports = read(path)
        names = [*whole]
        assert (4, []) == (len(whole), reports)

        for seed in range(20):
            drawn = random.Random(f"{kind} {form} {seed}")
            at = drawn.randrange(4)
            bad = damage(drawn, blocks[at])
            path.write_bytes(
                begin + between.join([*blocks[:at], bad, *blocks[at + 1 :]]) + end
            )

            found, reports = read(path)

            others = [name for name in names if name != names[at]]
            assert {name: whole[name] for name in others} == {
                name: found.get(name) for name in others
            }, (seed, reports)
            is_same = found.get(names[at]) == whole[names[at]]
            assert is_same or reports or is_valid(bad) or not bad.strip(), seed

    @pytest.mark.parametrize("lines", [CLAUDE_CODE, CODEX, CALLS, ITEMS])
    def test_lines_of_one(self, run, lines):
        """
        Whatever is done to the lines of one conversation, something is loaded or
        reported.
        """
        text = "".join(f"{json.dumps(each)}\n" for each in lines).encode()
        path = run.folder / "chats.jsonl"
        for seed in range(60):
            path.write_bytes(damage(random.Random(f"{seed}"), text))

            found, reports = read(path)

            assert found or reports, seed

    def test_ring(self, run):
        """Parents in a ring, and ids that stand twice, are errors of that one."""
        ring = copy.deepcopy(CHATGPT)
        ring["mapping"]["u"]["parent"] = "a1"
        twice = copy.deepcopy(LIBRECHAT)
        twice["messages"].append(twice["messages"][0])
        path = run.write(json.dumps([ring, CLAUDE_AI, twice]))

        result = run("import", path, status=2)

        assert "$[0].mapping.u: is its own ancestor" in result.stderr
        assert "$[2].messages[0]: has the id 'u', as another message" in result.stderr
        assert {"c1"} == {*chats(run)}

    def test_cut_off(self, run):
        """Of a file that ends too early all whole conversations are there."""
        values = [number(CHATGPT, at) for at in range(3)]
        text = json.dumps(values, indent=1)
        path = run.write(text[:-400])

        result = run("import", path, status=2)

        assert "the file is cut off: it ends within $[2]" in result.stderr
        assert {"n0", "n1"} == {*chats(run)}

    def test_parts_of_the_damaged(self, run):
        """What a damaged conversation has in it is not taken for another one."""
        first, bad, last = [number(CHATGPT, at) for at in range(3)]
        bad["runs"] = [{"id": "inner", "messages": HI}]
        text = json.dumps(bad).replace('"title"', '"title', 1)
        path = run.write(f"[{json.dumps(first)}, {text}, {json.dumps(last)}]")

        result = run("import", path, status=2)

        assert "$[1] is damaged" in result.stderr
        assert {"n0", "n2"} == {*chats(run)}

    def test_long_object(self, run):
        """A document over --max-line without a list of conversations is skipped."""
        path = run.write(json.dumps({"a": "x" * 1_500_000, "b": 1}, indent=1), ONE)

        result = run("import", path, "--max-line", 1, status=2)

        assert ":1: an object with the keys a, b was skipped; --max-" in result.stderr
        assert {"x"} == {*chats(run)}

    def test_long_element(self, run):
        """An element over --max-line is skipped, and reported with its size."""
        long = {"id": "long", "messages": [user("x" * 1_500_000 + '\\" } ]')]}
        values = [
            number(VALUES["request"][0], 0),
            long,
            number(VALUES["request"][0], 1),
        ]
        path = run.write(json.dumps({"data": values}, indent=1))

        result = run("import", path, "--max-line", 1, status=2)

        assert "$.data[1] of 1.4 MiB was skipped; --max-line is 1 MiB" in result.stderr
        assert {"n0", "n1"} == {*chats(run)}

    def test_deep(self, run):
        """What is nested too deep is skipped, and what is behind it is read."""
        deep = "[" * 100_000 + "]" * 100_000
        path = run.write(f'[{{"id": "deep", "messages": {deep}}},\n{ONE}]')

        result = run("import", path, status=2)

        alone = run("import", run.write('{"messages": ' + deep + "}"), status=2)

        assert "chats.jsonl:1: $[0] was skipped; it is nested too" in result.stderr
        assert "the keys messages was skipped; it is nested too deep" in alone.stderr
        assert {"x"} == {*chats(run)}


def is_valid(text):
    """Whether *text* is JSON, or lines of it."""
    try:
        for each in text.split(b"\n"):
            json.loads(each)
    except ValueError:
        try:
            json.loads(text)
        except ValueError:
            return False

    return True
