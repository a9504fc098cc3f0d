"""
Each rule of the strict provider: the smallest request that breaks it, and its nearest
neighbour that is accepted.
"""

import base64
import itertools
import json
import re
from collections import deque
from typing import Any

import pytest
from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import (
    MistralRequestValidatorV13,
    ValidationMode,
)

from conversation_state.testing.provider import RULES, Memory, judge

RULE = {(rule.wire, rule.name): rule for rule in RULES}
ID = "call00001"
PNG = "data:image/png;base64,aGk="


def said(role="user", content="Hi.", **more):
    """A message of Chat Completions, Responses or Anthropic's Messages."""
    return {"role": role, "content": content, **more}


def called(id_=ID, name="look", arguments="{}", **more):
    """An answer of Chat Completions with one call."""
    function = {"name": name, "arguments": arguments}
    call = {"id": id_, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call], **more}


def result(id_=ID, content="There."):
    """A result of Chat Completions."""
    return {"role": "tool", "tool_call_id": id_, "content": content}


def chat(*messages, **more):
    """A request of Chat Completions."""
    return {"messages": list(messages), **more}


def around(call, *results):
    """A whole turn of Chat Completions with a call."""
    return chat(said(), call, *results)


def of(value, key):
    """*value* without *key*."""
    return {name: each for name, each in value.items() if name != key}


def image(url):
    """A user's message of Chat Completions with an image."""
    return said(content=[{"type": "image_url", "image_url": {"url": url}}])


PDF = "data:application/pdf;base64,JVBERg=="


def file(**more):
    """A user's message of Chat Completions with a file."""
    return said(content=[{"type": "file", "file": {"file_data": PDF, **more}}])


def tool(name="look", **parameters):
    """A tool of Chat Completions."""
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def typed(**schema):
    """The parameters of a tool of Chat Completions or Gemini with one property."""
    return {"type": "object", "properties": {"tags": schema}}


def two(first, second):
    """An answer of Chat Completions with two calls of these ids."""
    calls = [called(id_)["tool_calls"][0] for id_ in (first, second)]
    return {**called(), "tool_calls": calls}


MANY = {
    **called(),
    "tool_calls": [called(f"c{at:08d}")["tool_calls"][0] for at in range(129)],
}
FEW = {**MANY, "tool_calls": MANY["tool_calls"][:128]}
THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
DEEPSEEK = {"model": "deepseek-reasoner"}

# Of each rule: a request that breaks it, and one that does not; then its memory.
CHAT = {
    "missing": (chat({"role": "user"}), chat(said())),
    "type": (chat(said(content=1)), chat(said(content="1"))),
    "value": (chat(said("ai")), chat(said("user"))),
    "empty_array": (chat(), chat(said())),
    "calls_empty": (
        chat(said(), said("assistant", tool_calls=[]), said()),
        chat(said(), said("assistant"), said()),
    ),
    "null_content": (chat(said(content=None)), chat(said(content="x"))),
    "foreign_part": (
        chat(said(content=[{"type": "input_text", "text": "x"}])),
        chat(said(content=[{"type": "text", "text": "x"}])),
    ),
    "thinking_part": (
        chat(said(), said("assistant", [THINKING]), said()),
        chat(said(), said("assistant", [{"type": "text", "text": "x"}]), said()),
    ),
    "part_of_other_role": (
        chat(said(), {**image(PNG), "role": "assistant"}, said()),
        chat(said(), said("assistant"), image(PNG)),
    ),
    "part_of_tool": (
        around(called(), result(content=image(PNG)["content"])),
        around(called(), result(content=[{"type": "text", "text": "x"}])),
    ),
    "empty_list": (
        around(called() | {"content": []}, result()),
        around(called(), result()),
    ),
    "list_in_result": (
        around(called(), result(content=[{"type": "text", "text": "x"}])),
        around(called(), result()),
    ),
    "too_many_calls": (
        around(MANY, *[result(call["id"]) for call in MANY["tool_calls"]]),
        around(FEW, *[result(call["id"]) for call in FEW["tool_calls"]]),
    ),
    "too_many_tools": (
        chat(said(), tools=[tool(f"t{at}") for at in range(129)]),
        chat(said(), tools=[tool(f"t{at}") for at in range(128)]),
    ),
    "tools_empty": (chat(said(), tools=[]), chat(said(), tools=[tool()])),
    "choice_without_tools": (
        chat(said(), tool_choice="auto"),
        chat(said(), tool_choice="none"),
    ),
    "schema_type": (
        chat(said(), tools=[tool(properties={})]),
        chat(said(), tools=[tool(type="object", properties={})]),
    ),
    "schema_items": (
        chat(said(), tools=[tool(**typed(type="array"))]),
        chat(said(), tools=[tool(**typed(type="array", items={}))]),
    ),
    "options_without_stream": (
        chat(said(), stream_options={"include_usage": True}),
        chat(said(), stream=True, stream_options={"include_usage": True}),
    ),
    "old_limit": (
        chat(said(), model="gpt-5-mini", max_tokens=9),
        chat(said(), model="gpt-5-mini", max_completion_tokens=9),
    ),
    "json_not_named": (
        chat(said(), response_format={"type": "json_object"}),
        chat(said("system", "In JSON!"), response_format={"type": "json_object"}),
    ),
    "answer_of_nothing": (
        chat(said(), said("assistant", None), said()),
        around(called(), result()),
    ),
    "answer_without_content": (
        chat(said(), said("assistant", ""), said()),
        around(called(content=""), result()),
    ),
    "call_without_result": (
        chat(said(), called(), said()),
        chat(said(), called(), result(), said("assistant"), said()),
    ),
    "result_without_call": (chat(said("assistant"), result()), chat(said())),
    "result_of_unknown_call": (
        around(called(), result(), result("call00002")),
        around(two(ID, "call00002"), result(), result("call00002")),
    ),
    "second_result": (
        around(called(), result(), result()),
        around(two(ID, "call00002"), result(), result("call00002")),
    ),
    "id_twice_in_message": (
        around(two(ID, ID), result()),
        around(two(ID, "call00002"), result("call00002"), result()),
    ),
    "id_twice_in_request": (
        around(called(), result(), called(), result()),
        around(called(), result(), called("call00002"), result("call00002")),
    ),
    "id_empty": (around(called(""), result("")), around(called(), result())),
    "id_too_long": (
        around(called("x" * 41), result("x" * 41)),
        around(called("x" * 40), result("x" * 40)),
    ),
    "id_not_nine": (
        around(called("call_0001"), result("call_0001")),
        around(called(), result()),
    ),
    "name_characters": (
        around(called(name="multi_tool_use.parallel"), result()),
        around(called(name="multi_tool_use-parallel"), result()),
    ),
    "name_too_long": (
        around(called(name="x" * 65), result()),
        around(called(name="x" * 64), result()),
    ),
    "name_empty": (around(called(name=""), result()), around(called(), result())),
    "speaker_characters": (
        chat(said(name="Ann Lee")),
        chat(said(name="Ann_Lee")),
    ),
    "speaker_too_long": (chat(said(name="x" * 65)), chat(said(name="x" * 64))),
    "assistant_last": (
        chat(said(), said("assistant")),
        chat(said(), said("assistant", prefix=True)),
    ),
    "role_order": (
        chat(said(), said("assistant"), said("system"), said()),
        chat(said(), said("system"), said("assistant"), said()),
    ),
    "user_after_tool": (
        around(called(), result(), said()),
        around(called(), result(), said("assistant"), said()),
    ),
    "arguments_broken": (
        around(called(arguments='{"a": "b'), result()),
        around(called(arguments='{"a": "b"}'), result()),
    ),
    "alternation": (
        chat(said(), said()),
        chat(said("system"), said(), said("assistant"), said()),
    ),
    "developer": (
        chat(said("developer"), said()),
        chat(said("system"), said()),
    ),
    "answer_last": (
        chat(said(), said("assistant")),
        chat(said(), said("assistant"), said()),
    ),
    "late_system": (chat(said(), said("system")), chat(said("system"), said())),
    "unsupported_property": (
        chat(said(), said("assistant") | {"reasoning_content": "Hm."}, said()),
        chat(said() | {"name": "ann"}),
    ),
    "extra_forbidden": (chat(said() | {"name": "ann"}), around(called(), result())),
    "image_format": (
        chat(image("data:image/svg+xml;base64,aGk=")),
        chat(image(PNG)),
    ),
    "file_format": (
        chat(file(filename="a", file_data="data:text/plain;base64,aGk=")),
        chat(file(filename="a.pdf")),
    ),
    "file_without_name": (chat(file()), chat(file(filename="a.pdf"))),
    "image_without_type": (chat(image("data:;base64,aGk=")), chat(image(PNG))),
    "image_url": (chat(image("file.png")), chat(image("https://example.com/file.png"))),
    "reasoning_missing": (
        {**around(called(), result()), **DEEPSEEK},
        {**around(called(reasoning_content=""), result()), **DEEPSEEK},
    ),
    "reasoning_empty": (
        {**around(called(reasoning_content=""), result()), "model": "kimi-k2.6"},
        {**around(called(reasoning_content=" "), result()), "model": "kimi-k2.6"},
    ),
    "reasoning_forgotten": (
        around(called(), result()),
        around(called(reasoning_content=""), result()),
    ),
}


def asked(*items, **more):
    """A request of Responses."""
    return {"input": list(items), **more}


def item(kind, **more):
    """An item of Responses."""
    return {"type": kind, **more}


CALL = item("function_call", call_id=ID, name="look", arguments="{}")
OUTPUT = item("function_call_output", call_id=ID, output="There.")
REASONING = item("reasoning", id="rs_1", summary=[])
SAID = said("assistant", "Hm.")
OTHER = {"call_id": "call00002"}


def whole(text="Hm.", **more):
    """An answer of Responses as the API gives it."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return item(
        "message", id="msg_1", role="assistant", status="completed", content=[part]
    ) | dict(more)


def turn(**more):
    """A whole turn of Responses, whose call has other values."""
    id_ = more.get("call_id", ID)
    return asked(said(), CALL | more, OUTPUT | {"call_id": id_})


def shown(url):
    """A request of Responses with an image."""
    return asked(said(content=[{"type": "input_image", "image_url": url}]))


RESPONSES = {
    "missing": (asked(said(), of(CALL, "name"), OUTPUT), turn()),
    "input_missing": ({}, {"input": "Hi."}),
    "type": (turn(arguments={}), turn(arguments="{}")),
    "value": (
        asked(said(), said("assistant", [{"type": "input_text", "text": "x"}])),
        asked(said(), whole()),
    ),
    "unknown_key": (asked(said(tool_calls=[])), asked(said())),
    "foreign_item": (asked(said(), item("tool_use")), asked(said())),
    "moved_parameter": (
        asked(said(), max_tokens=9),
        asked(said(), max_output_tokens=9),
    ),
    "json_not_named": (
        asked(said(), text={"format": {"type": "json_object"}}),
        asked(said(content="As JSON."), text={"format": {"type": "json_object"}}),
    ),
    "call_without_result": (asked(said(), CALL, said()), turn()),
    "approval_missing": (
        asked(said(), item("mcp_approval_request", id="mcpr_1"), said()),
        asked(
            item("mcp_approval_request", id="mcpr_1"),
            item("mcp_approval_response", approval_request_id="mcpr_1", approve=True),
        ),
    ),
    "result_without_call": (asked(said(), OUTPUT), turn()),
    "result_late": (
        asked(said(), CALL, said(), OUTPUT),
        asked(said(), CALL, CALL | OTHER, OUTPUT, OUTPUT | OTHER, said()),
    ),
    "second_result": (
        asked(said(), CALL, OUTPUT, OUTPUT),
        asked(said(), CALL, CALL | OTHER, OUTPUT, OUTPUT | OTHER),
    ),
    "id_twice": (
        asked(said(), CALL, OUTPUT, CALL, OUTPUT),
        asked(said(), CALL, OUTPUT, CALL | OTHER, OUTPUT | OTHER),
    ),
    "item_twice": (
        asked(said(), REASONING, whole(), said(), REASONING, whole(id="msg_2")),
        asked(said(), REASONING, whole(), said(), whole(id="msg_2")),
    ),
    "reasoning_without_item": (
        asked(said(), REASONING, said()),
        asked(said(), REASONING, SAID, said()),
    ),
    "item_without_reasoning": (
        asked(said(), whole(), said()),
        asked(said(), REASONING, whole(), said()),
    ),
    "reasoning_not_stored": (
        asked(said(), REASONING, SAID, store=False),
        asked(said(), REASONING | {"encrypted_content": "gAAA"}, SAID, store=False),
    ),
    "item_not_stored": (
        asked(said(), whole(id="msg_9"), said()),
        asked(said(), whole(), said(), previous_response_id="resp_1"),
    ),
    "previous_not_found": (
        asked(said(), previous_response_id="resp_9"),
        asked(said(), previous_response_id="resp_1"),
    ),
    "encryption": (
        asked(said(), REASONING | {"encrypted_content": "other"}, SAID),
        asked(said(), REASONING | {"encrypted_content": "gAAA"}, SAID),
    ),
    "reasoning_content": (
        asked(said(), REASONING | {"content": [{"type": "reasoning_text"}]}, SAID),
        asked(said(), REASONING | {"content": []}, SAID),
    ),
    "reasoning_for_others": (
        asked(said(), REASONING, SAID, model="gpt-4.1"),
        asked(said(), REASONING, SAID, model="gpt-5.2"),
    ),
    "arguments_broken": (turn(arguments='{"a": "b'), turn(arguments="")),
    "answer_of_no_type": (
        asked(said(), of(whole(), "id"), said()),
        asked(said(), whole(), said()),
    ),
    "item_id_prefix": (turn(id="call_1"), turn(id="fc_1")),
    "item_id_characters": (turn(id="fc_1:2"), turn(id="fc_1-2")),
    "id_too_long": (turn(call_id="x" * 65), turn(call_id="x" * 64)),
    "id_empty": (turn(call_id=""), turn()),
    "name_characters": (turn(name="a b"), turn(name="a_b")),
    "name_too_long": (turn(name="x" * 65), turn(name="x" * 64)),
    "name_empty": (turn(name=""), turn()),
    "image_format": (shown("data:image/svg+xml;base64,aGk="), shown(PNG)),
    "file_without_name": (
        asked(said(content=[{"type": "input_file", "file_data": PDF}])),
        asked(said(content=[{"type": "input_file", "file_url": "https://e.x/a.pdf"}])),
    ),
    "image_url": (shown("file.png"), shown("https://example.com/file.png")),
}


def block(kind, **more):
    """A block of Anthropic's Messages."""
    return {"type": kind, **more}


def text(words="Hi.", **more):
    """A block of text."""
    return block("text", text=words, **more)


def talk(*messages, **more):
    """
    A request of Anthropic's Messages: blocks of a user and of the model, by turns.
    """
    roles = ("user", "assistant")
    return {
        "messages": [
            said(roles[at % 2], list(blocks)) for at, blocks in enumerate(messages)
        ],
        **more,
    }


USE = block("tool_use", id="use_1", name="look", input={})
RESULT = block("tool_result", tool_use_id="use_1", content="There.")
THOUGHT = block("thinking", thinking="Hm.", signature="sig")
SEARCH = block("server_tool_use", id="srvtoolu_1", name="web_search", input={})
FOUND = block("web_search_tool_result", tool_use_id="srvtoolu_1", content=[])
MARKER = {"cache_control": {"type": "ephemeral"}}
SCHEMA = {"type": "object"}
NEW_MODEL = {"model": "claude-opus-4-8"}
ADDED = {"type": "tool_reference", "name": "f"}
ADDING = {"role": "system", "content": [{"type": "tool_addition", "tool": ADDED}]}
INPUT = {"input_schema": SCHEMA}
FORCED = {"tool_choice": {"type": "any"}, "tools": [{"name": "f", **INPUT}]}
EFFORT = {"role": "system", "content": [], "output_config": {"effort": "low"}}


def used(**more):
    """A whole turn of Anthropic's Messages, whose call has other values."""
    id_ = more.get("id", "use_1")
    return talk([text()], [USE | more], [RESULT | {"tool_use_id": id_}])


CITED = block(
    "document",
    source={"type": "text", "media_type": "text/plain", "data": "a"},
    citations={"enabled": True},
)


def media(kind, media_type, data="aGk="):
    """A request of Anthropic's Messages with data."""
    source = {"type": "base64", "media_type": media_type, "data": data}
    return talk([text(), block(kind, source=source)])


def png_of(width):
    """The beginning of a PNG of this width, in base64."""
    begin = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4) + bytes(12)
    return base64.b64encode(begin).decode()


def with_tools(*tools):
    """A request of Anthropic's Messages with tools."""
    return talk([text()], tools=list(tools))


def look(**more):
    """A tool of Anthropic's Messages."""
    return {"name": "look", "input_schema": SCHEMA, **more}


def failed(*blocks):
    """A whole turn of Anthropic's Messages, whose result failed."""
    result = RESULT | {"is_error": True, "content": list(blocks)}
    return talk([text()], [USE], [result])


def thinking(budget=2_000, **more):
    """A request of Anthropic's Messages that asks for thinking."""
    asked_for = {"type": "enabled", "budget_tokens": budget}
    return talk([text()], thinking=asked_for, **more)


PICTURE = block("image", source={"type": "url", "url": "https://example.com/a.png"})
PNG_DATA = "iVBORw0KGgoAAAANSUhEUg=="
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}

ANTHROPIC = {
    "failed_result_with_media": (failed(text(), PICTURE), failed(text())),
    "thinking_temperature": (thinking(temperature=0.5), thinking(temperature=1)),
    "two_samplings": (
        talk([text()], model="claude-sonnet-4-5", temperature=0.5, top_p=0.5),
        talk([text()], model="claude-sonnet-4-20250514", temperature=0.5, top_p=0.5),
    ),
    "thinking_forced_tool": (
        thinking(tool_choice={"type": "any"}),
        thinking(tool_choice={"type": "auto"}),
    ),
    "forced_tool_of_new_model": (
        {**talk([text()]), "model": "claude-opus-5-5", **FORCED},
        {**talk([text()]), "model": "claude-opus-5", **FORCED},
    ),
    "thinking_budget": (thinking(1_023), thinking(1_024)),
    "thinking_over_limit": (
        thinking(2_000, max_tokens=2_000),
        thinking(2_000, max_tokens=2_001),
    ),
    "image_of_other_format": (
        media("image", "image/jpeg", PNG_DATA),
        media("image", "image/png", PNG_DATA),
    ),
    "marker_order": (
        talk([text(**HOUR)], system=[text(**MARKER)]),
        talk([text(**MARKER)], system=[text(**HOUR)]),
    ),
    "missing": (talk([of(text(), "text")]), talk([text()])),
    "type": (used(input="{}"), used(input={})),
    "extra": (talk([text(index=0)]), talk([text(citations=None)])),
    "no_message": ({"messages": []}, talk([text()])),
    "role": (
        {"messages": [said("tool")]},
        {"messages": [said("user")]},
    ),
    "foreign_block": (talk([block("input_text", text="x")]), talk([text("x")])),
    "call_without_result": (talk([text()], [USE], [text()]), used()),
    "result_without_call": (talk([text()], [text()], [RESULT]), used()),
    "second_result": (talk([text()], [USE], [RESULT, RESULT]), used()),
    "result_after_text": (
        talk([text()], [USE], [text(), RESULT]),
        talk([text()], [USE], [RESULT, text()]),
    ),
    "id_twice": (
        talk([text()], [USE], [RESULT], [USE], [RESULT]),
        talk(
            [text()],
            [USE],
            [RESULT],
            [USE | {"id": "use_2"}],
            [RESULT | {"tool_use_id": "use_2"}],
        ),
    ),
    "call_of_user": (
        {"messages": [said(content=[USE]), said(content=[RESULT])]},
        used(),
    ),
    "result_of_assistant": (
        {
            "messages": [
                said(),
                said("assistant", [USE]),
                said("assistant", [RESULT]),
                said(),
            ]
        },
        used(),
    ),
    "server_result_without_call": (
        talk([text()], [FOUND, text()], [text()]),
        talk([text()], [SEARCH, FOUND, text()], [text()]),
    ),
    "server_call_without_result": (
        talk([text()], [SEARCH], [text()]),
        # A paused answer goes on where it is the last.
        talk([text()], [SEARCH, FOUND], [text()], [SEARCH]),
    ),
    "server_call_of_others": (
        talk([text()], [SEARCH | {"id": "call_1"}]),
        talk([text()], [SEARCH]),
    ),
    "container_missing": (
        used(caller={"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}),
        used(caller={"type": "direct"}),
    ),
    "id_characters": (used(id="functions.f:0"), used(id="functions_f-0")),
    "name_characters": (used(name="a.b"), used(name="a_b")),
    "name_too_long": (used(name="x" * 65), used(name="x" * 64)),
    "empty_text": (talk([text(), text("")]), talk([text(), text(" ")])),
    "blank_text": (talk([text(" ")]), talk([text(" "), text()])),
    "empty_message": (talk([text()], [], [text()]), talk([text()], [text()], [text()])),
    "empty_system": (
        talk([text()], system=[text("")]),
        talk([text()], system=[text("x")]),
    ),
    "empty_result_text": (
        talk([text()], [USE], [RESULT | {"content": [text("")]}]),
        talk([text()], [USE], [RESULT | {"content": ""}]),
    ),
    "trailing_space": (talk([text()], [text("Hm. ")]), talk([text()], [text("Hm.")])),
    "prefill": (
        talk([text()], [text()], **NEW_MODEL),
        talk([text()], [text()], model="claude-3-haiku-20240307"),
    ),
    "assistant_last": (talk([text()], [text()]), talk([text()], [text()], [text()])),
    "assistant_first": (
        {"messages": [said("assistant"), said()]},
        {"messages": [said(), said("assistant"), said()]},
    ),
    "alternation": (
        {"messages": [said(), said()]},
        {"messages": [said(), said("assistant"), said()]},
    ),
    "system_message": (
        {"messages": [said(), said("system")]},
        {"messages": [said()], "system": "Hi."},
    ),
    "system_message_of_old_model": (
        {"model": "claude-opus-4-7", "messages": [said(), said("system")]},
        {"model": "claude-opus-4-8", "messages": [said(), said("system")]},
    ),
    "system_first": (
        {"messages": [said("system"), said()]},
        {"messages": [said(), said("system")]},
    ),
    "system_behind": (
        {"messages": [said(), said("assistant"), said("system"), said("assistant")]},
        {"messages": [said(), said("system"), said("system"), said("assistant")]},
    ),
    "system_before": (
        {"messages": [said(), said("system"), said("system"), said()]},
        {"messages": [said(), EFFORT, said()]},
    ),
    "system_tools": (
        {"messages": [said(), ADDING], "tools": [{"name": "g", **INPUT}]},
        {"messages": [said(), ADDING], "tools": [{"name": "f", **INPUT}]},
    ),
    "system_blocks": (
        {"messages": [said(), said("system", [FOUND])]},
        {"messages": [said(), said("system", [text()])]},
    ),
    "thinking_at_end": (
        talk([text()], [THOUGHT], [text()]),
        talk([text()], [THOUGHT, text()], [text()]),
    ),
    "thinking_of_user": (talk([THOUGHT, text()]), talk([text()])),
    "thinking_changed": (
        talk([text()], [THOUGHT | {"thinking": "No."}, text()], [text()]),
        talk([text()], [THOUGHT, text()], [text()]),
    ),
    "thinking_signature": (
        talk([text()], [THOUGHT | {"signature": "other"}, text()], [text()]),
        talk([text()], [THOUGHT, text()], [text()]),
    ),
    "thinking_bound": (
        {
            "model": "claude-opus-5-5",
            **talk([text("No.")], [THOUGHT, text()], [text()]),
        },
        {"model": "claude-opus-5-5", **talk([text()], [THOUGHT, text()], [text()])},
    ),
    "thinking_missing": (
        {**used(), "thinking": {"type": "enabled", "budget_tokens": 1024}},
        {
            **talk([text()], [THOUGHT, USE], [RESULT]),
            "thinking": {"type": "enabled", "budget_tokens": 1024},
        },
    ),
    "media_of_assistant": (
        talk([text()], media("image", "image/png")["messages"][0]["content"], [text()]),
        media("image", "image/png"),
    ),
    "image_format": (media("image", "image/svg+xml"), media("image", "image/png")),
    "document_format": (
        media("document", "text/html"),
        media("document", "application/pdf"),
    ),
    "media_by_url": (
        talk([text(), block("image", source={"type": "url", "url": "https://e.x/a"})]),
        media("image", "image/png"),
    ),
    "citations_mixed": (
        talk([text(), CITED, block("document", source=CITED["source"])]),
        talk([text(), CITED, CITED]),
    ),
    "image_pixels": (
        media("image", "image/png", png_of(8_001)),
        media("image", "image/png", png_of(8_000)),
    ),
    "image_size": (
        media("image", "image/png", "a" * (5 * 1024 * 1024 + 1)),
        media("image", "image/png", "a" * (5 * 1024 * 1024)),
    ),
    "too_many_markers": (
        talk([text(**MARKER)] * 4, system=[text(**MARKER)]),
        talk([text(**MARKER)] * 3, system=[text(**MARKER)]),
    ),
    "marker_on_empty_text": (talk([text(), text("", **MARKER)]), talk([text()])),
    "schema_union": (
        with_tools(look(input_schema=SCHEMA | {"anyOf": []})),
        with_tools(look(input_schema=SCHEMA | {"properties": {"a": {"anyOf": []}}})),
    ),
    "schema_type": (with_tools(look(input_schema={})), with_tools(look())),
    "tool_twice": (
        with_tools(look(), look()),
        with_tools(look(), look(name="see")),
    ),
}


def contents(*turns, **more):
    """A request of Gemini: parts of a user and of the model, by turns."""
    roles = ("user", "model")
    return {
        "contents": [
            {"role": roles[at % 2], "parts": list(parts)}
            for at, parts in enumerate(turns)
        ],
        **more,
    }


WORDS = {"text": "Hi."}


def invoked(name="look", **more):
    """A part of Gemini with a call."""
    return {"functionCall": {"name": name, "args": {}, **more}}


def answered(name="look", **more):
    """A part of Gemini with the response to a call."""
    return {"functionResponse": {"name": name, "response": {}, **more}}


def blob(media_type):
    """A request of Gemini with data."""
    data = {"data": "aGk=", **({"mimeType": media_type} if media_type else {})}
    return contents([WORDS, {"inlineData": data}])


def declared(**function):
    """A request of Gemini with a function."""
    tools = [{"functionDeclarations": [{"name": "look", **function}]}]
    return contents([WORDS], tools=tools)


SIGNED = invoked() | {"thoughtSignature": "signed"}
GEMINI_3 = {"model": "gemini-3-pro-preview"}
IN_JSON = {"generationConfig": {"responseMimeType": "application/json"}}

UNSIGNED = {"thoughtSignature": ""}


GEMINI = {
    "no_contents": ({}, contents([WORDS])),
    "no_parts": (contents([]), contents([WORDS])),
    "no_data": (contents([{"thought": True}]), contents([WORDS])),
    "two_data": (contents([WORDS | invoked()]), contents([WORDS])),
    "role": (
        {"contents": [{"role": "assistant", "parts": [WORDS]}]},
        {"contents": [{"role": "user", "parts": [WORDS]}]},
    ),
    "unknown_key": (contents([WORDS | {"signature": "x"}]), contents([WORDS])),
    "type": (contents([{"text": 1}]), contents([{"text": "1"}])),
    "struct": (
        contents([WORDS], [invoked()], [answered(response="There.")]),
        contents([WORDS], [invoked()], [answered(response={"output": "There."})]),
    ),
    "no_name": (
        contents([WORDS], [invoked(name=None)], [answered()]),
        contents([WORDS], [invoked()], [answered()]),
    ),
    "call_out_of_turn": (
        {
            "contents": [
                {"role": "user", "parts": [WORDS]},
                {"role": "model", "parts": [WORDS]},
                {"role": "model", "parts": [invoked()]},
                {"role": "user", "parts": [answered()]},
            ]
        },
        contents([WORDS], [WORDS, invoked()], [answered()]),
    ),
    "result_without_call": (
        contents([WORDS], [WORDS], [answered()]),
        contents([WORDS], [invoked()], [answered()]),
    ),
    "call_without_result": (
        contents([WORDS], [invoked(), invoked()], [answered()]),
        contents([WORDS], [invoked(), invoked()], [answered(), answered()]),
    ),
    "result_beside_others": (
        contents([WORDS], [invoked()], [answered(), WORDS]),
        contents([WORDS], [WORDS, invoked()], [answered()]),
    ),
    "model_first": (
        {"contents": [{"role": "model", "parts": [WORDS]}, {"parts": [WORDS]}]},
        contents([WORDS], [WORDS], [WORDS]),
    ),
    "model_last": (contents([WORDS], [WORDS]), contents([WORDS], [WORDS], [WORDS])),
    "empty_text": (
        contents([WORDS, {"text": ""}]),
        contents([WORDS, {"text": "", "thoughtSignature": "c2ln"}]),
    ),
    "name_empty": (
        contents([WORDS], [invoked("")], [answered("")]),
        contents([WORDS], [invoked()], [answered()]),
    ),
    "name_characters": (declared(name="1st"), declared(name="_1st.a:b-c")),
    "name_of_call": (
        contents([WORDS], [invoked("a b")], [answered("a b")]),
        contents([WORDS], [invoked("a.b")], [answered("a.b")]),
    ),
    "name_of_other_call": (
        contents([WORDS], [invoked("a")], [answered("b")]),
        contents([WORDS], [invoked("a"), invoked("b")], [answered("b"), answered("a")]),
    ),
    "id_of_other_call": (
        contents([WORDS], [invoked(id="1")], [answered(id="2")]),
        contents([WORDS], [invoked(id="1")], [answered(id="1")]),
    ),
    "id": (
        contents([WORDS], [invoked(id="1")], [answered()]),
        contents([WORDS], [invoked()], [answered()]),
    ),
    "id_twice": (
        contents([WORDS], [invoked(id="1"), invoked(id="1")], [answered()] * 2),
        contents([WORDS], [invoked(id="1"), invoked(id="2")], [answered()] * 2),
    ),
    "signature_missing": (
        contents([WORDS], [invoked()], [answered()], **GEMINI_3),
        contents([WORDS], [SIGNED, invoked()], [answered()] * 2, **GEMINI_3),
    ),
    "signature_foreign": (
        contents([WORDS], [SIGNED | {"thoughtSignature": "x"}], [answered()]),
        contents([WORDS], [SIGNED], [answered()]),
    ),
    "media_without_type": (blob(""), blob("image/png")),
    "media_format": (blob("image/svg+xml"), blob("image/webp")),
    "schema_items": (
        declared(parameters=typed(type="ARRAY")),
        declared(parameters=typed(type="ARRAY", items={"type": "STRING"})),
    ),
    "schema_required": (
        declared(parameters={**typed(), "required": ["tags", "days"]}),
        declared(parameters={**typed(), "required": ["tags"]}),
    ),
    "schema_properties": (
        declared(parameters=typed(type="STRING", properties={"a": {}})),
        declared(parameters=typed(type="OBJECT", properties={"a": {}})),
    ),
    "schema_enum": (
        declared(parameters=typed(enum=["", "a"])),
        declared(parameters=typed(enum=["a"])),
    ),
    "json_beside_functions": (
        declared() | IN_JSON | {"model": "gemini-2.5-flash"},
        declared() | IN_JSON | GEMINI_3,
    ),
    "schema_key": (
        declared(parameters={"properties": {"a": {"$schema": "x"}}}),
        declared(parameters={"properties": {"$schema": {"type": "STRING"}}}),
    ),
}

CASES = {
    (wire, name): pair
    for wire, cases in (
        ("openai_chat", CHAT),
        ("openai_responses", RESPONSES),
        ("anthropic", ANTHROPIC),
        ("gemini", GEMINI),
    )
    for name, pair in cases.items()
}

# Rules that need to know what was answered, with the answer.
_ITEMS = [{**REASONING, "encrypted_content": "gAAA"}, whole()]
REMEMBERED: dict[tuple[str, str], Any] = {
    ("openai_chat", "reasoning_forgotten"): {
        "choices": [{"message": called(reasoning_content="Hm.")}]
    },
    ("openai_responses", "item_without_reasoning"): {"output": _ITEMS},
    ("openai_responses", "item_not_stored"): {"id": "resp_1", "output": []},
    ("openai_responses", "previous_not_found"): {"id": "resp_1", "output": []},
    ("openai_responses", "encryption"): {"output": _ITEMS},
    ("anthropic", "thinking_changed"): {"content": [THOUGHT]},
    ("anthropic", "thinking_bound"): {"content": [THOUGHT]},
    ("anthropic", "thinking_signature"): {"content": [THOUGHT]},
    ("gemini", "signature_foreign"): {"candidates": [{"content": {"parts": [SIGNED]}}]},
}


def memory_of(case):
    """What the provider of *case* remembers."""
    if case not in REMEMBERED:
        return None

    memory = Memory()
    body = talk([text()]) if case[1] == "thinking_bound" else None
    memory.remember(case[0], REMEMBERED[case], body=body)
    if case[1] == "item_not_stored":
        memory.remember(case[0], {"output": [whole(id="msg_9")]}, store=False)

    return memory


def level_of(case):
    """Who refuses what breaks the rule of *case*: the first that the rule names."""
    return RULE[case].by[0]


def names(refusals):
    """The names of the rules of *refusals*."""
    return {refusal.rule.name for refusal in refusals}


class TestRules:
    def test_each_has_a_case(self):
        """No rule is without its smallest request, and no request without a rule."""
        assert CASES.keys() == RULE.keys()

    @pytest.mark.parametrize("case", CASES, ids="-".join)
    def test_broken(self, case):
        """The smallest request that breaks a rule is refused by it, at its level."""
        wire, name = case
        body, _ = CASES[case]

        refusals = judge(wire, body, level=level_of(case), memory=memory_of(case))

        assert name in names(refusals)
        # Google's errors have the names of its protocol.
        keys = {*body} | {re.sub("(?=[A-Z])", "_", key).lower() for key in body}
        for refusal in refusals:
            assert refusal.message
            assert "{" not in (refusal.param or "")
            start = re.split(r"[.\[]", refusal.path)[0]
            assert start in keys or name in {"input_missing", "no_contents"}

    @pytest.mark.parametrize("case", CASES, ids="-".join)
    def test_turned_off(self, case):
        """
        Without the rule the request is not refused by it, nor where it does not hold.
        """
        wire, name = case
        body, _ = CASES[case]
        level, memory = level_of(case), memory_of(case)

        assert name not in names(
            judge(wire, body, level=level, memory=memory, without=[name])
        )
        if "api" not in RULE[case].by:
            assert name not in names(judge(wire, body, level="api", memory=memory))

        for host in RULE[case].taken_by:
            assert name not in names(judge(wire, body, level=host, memory=memory))

    @pytest.mark.parametrize("case", CASES, ids="-".join)
    def test_neighbour(self, case):
        """The nearest request that keeps the rule is accepted by who has it."""
        _, body = CASES[case]

        assert () == judge(case[0], body, level=level_of(case), memory=memory_of(case))

    @pytest.mark.parametrize("case", CASES, ids="-".join)
    def test_strictest(self, case):
        """At the strictest level every rule holds but those of a dialect."""
        body, _ = CASES[case]
        refusals = judge(case[0], body, memory=memory_of(case))

        assert RULE[case].dialect == (case[1] not in names(refusals))


# Further requests that break a rule, at another of its edges.
FURTHER = [
    ("openai_chat", "call_without_result", around(two(ID, "x"), result(), said())),
    ("openai_chat", "call_without_result", chat(said(), called())),
    ("openai_chat", "id_not_nine", around(called("call0001"), result("call0001"))),
    ("openai_chat", "id_not_nine", around(called("call000001"), result("call000001"))),
    ("openai_chat", "alternation", chat(said("assistant"), said())),
    ("openai_chat", "missing", chat(said(), tools=[{"type": "function"}])),
    ("openai_chat", "missing", chat(said(), tools=[of(tool(), "type")])),
    ("openai_chat", "old_limit", chat(said(), model="o3", max_tokens=9)),
    ("openai_chat", "type", chat(said(), said("assistant", tool_calls="look"))),
    ("openai_responses", "missing", asked(said(), tools=[tool()])),
    ("openai_responses", "missing", asked({"role": "user"})),
    ("openai_responses", "missing", asked(item("message", content="Hi."))),
    ("openai_responses", "call_without_result", asked(CALL, CALL | OTHER, OUTPUT)),
    ("openai_responses", "call_without_result", asked(OUTPUT, CALL)),
    ("openai_responses", "result_without_call", asked(OUTPUT, CALL)),
    ("openai_responses", "reasoning_without_item", asked(said(), REASONING)),
    ("openai_responses", "reasoning_without_item", asked(CALL, REASONING, OUTPUT)),
    (
        *("openai_responses", "reasoning_without_item"),
        asked(said(), REASONING, said(), CALL, OUTPUT),
    ),
    ("anthropic", "missing", talk([{"text": "Hi."}])),
    ("anthropic", "call_without_result", talk([text()], [USE])),
    (
        "anthropic",
        "call_without_result",
        talk([text()], [USE, USE | {"id": "b"}], [RESULT]),
    ),
    ("anthropic", "result_without_call", talk([RESULT])),
    ("anthropic", "id_characters", used(id="")),
    ("anthropic", "name_characters", used(name="x" * 129)),
    ("anthropic", "thinking_at_end", talk([text()], [text(), THOUGHT], [text()])),
    (
        "gemini",
        "call_out_of_turn",
        {"contents": [{"role": "model", "parts": [invoked()]}]},
    ),
    ("gemini", "call_out_of_turn", contents([invoked()])),
    ("gemini", "call_without_result", contents([WORDS], [invoked()], [answered()] * 2)),
    ("gemini", "call_without_result", contents([WORDS], [invoked()])),
    ("gemini", "type", contents([WORDS], [invoked(id=7)], [answered()])),
    ("gemini", "name_characters", declared(name="x" * 65)),
    ("gemini", "unknown_key", {"contents": [{"parts": [WORDS], "name": "ann"}]}),
    (
        "gemini",
        "two_data",
        contents([WORDS], systemInstruction={"parts": [WORDS | invoked()]}),
    ),
    ("gemini", "type", contents([{"inlineData": "aGk="}])),
    ("gemini", "media_format", blob("image/jpg")),
    ("gemini", "media_format", blob("application/msword")),
    ("gemini", "signature_foreign", contents([WORDS], [{**WORDS, **UNSIGNED}])),
    ("gemini", "schema_key", declared(parameters=typed(anyOf=[{"const": "a"}]))),
]

# Parts of other wires, which Chat Completions has another form for.
FURTHER += [
    ("openai_chat", "foreign_part", chat({"role": "user", "content": [{"type": kind}]}))
    for kind in ("input_text", "input_image", "tool_result", "image", "document")
]


class TestFurther:
    @pytest.mark.parametrize(("wire", "name", "body"), FURTHER)
    def test_broken(self, wire, name, body):
        """A rule is broken at each of its edges."""
        level = level_of((wire, name))

        assert name in names(judge(wire, body, level=level))

    def test_thoughts_in_a_row(self):
        """One item follows all thoughts before it."""
        thoughts = [REASONING | {"id": each} for each in ("rs_a", "rs_b")]

        assert () == judge("openai_responses", asked(said(), *thoughts, CALL, OUTPUT))


class TestMistral:
    def test_agrees_with_mistral_common(self):
        """
        Whoever speaks in whatever order: Mistral's own validator says the same.

        But for a call or a result that is the first message, which it does not count,
        and for a user's words after a result, which it takes and servers refuse.
        """
        roles = {"s": "system", "u": "user", "a": "assistant"}

        def messages_of(order):
            written = []
            waiting: deque[str] = deque()
            for at, kind in enumerate(order):
                id_ = f"call{at:05d}"
                if kind == "c":
                    waiting.append(id_)
                    written.append(called(id_, content=""))
                elif kind == "t":
                    id_ = waiting.popleft() if waiting else id_
                    written.append(result(id_))
                else:
                    written.append(said(roles[kind]))

            return written

        def takes(messages):
            copies = json.loads(json.dumps(messages))
            request = ChatCompletionRequest.from_openai(messages=copies, model="m")
            validator = MistralRequestValidatorV13(ValidationMode.serving)
            try:
                validator.validate_request(request)
            except MistralCommonException:
                return False

            return True

        for length in (1, 2, 3, 4):
            for order in itertools.product("suact", repeat=length):
                if order[0] in "sua":
                    messages = messages_of(order)
                    refusals = judge(
                        "openai_chat",
                        chat(*messages),
                        level="mistral",
                        without=["user_after_tool"],
                    )

                    assert takes(messages) == (not refusals), order


class TestErrors:
    """The forms of errors: status and JSON."""

    @pytest.mark.parametrize(
        ("rule", "body"),
        [
            ("input_missing", {}),
            ("input_missing", {"input": []}),
            ("type", {"input": 1}),
            *[(n, RESPONSES[n][0]) for n in ("result_late", "result_without_call")],
        ],
    )
    def test_param(self, rule, body):
        """An error says of which field it is, and so does its path."""
        refusals = judge("openai_responses", body, level=["reference", "deepseek"])

        assert {("input", "input")} == {
            (each.body["error"]["param"], each.path.partition("[")[0])
            for each in refusals
            if each.rule.name == rule
        }

    def test_openai(self):
        """OpenAI's have a param and a code."""
        refusal = judge("openai_chat", chat(said("ai")))[0]

        assert 400 == refusal.status
        assert {
            "error": {
                "message": refusal.message,
                "type": "invalid_request_error",
                "param": "messages[0].role",
                "code": "invalid_value",
            }
        } == refusal.body

    def test_mistral(self):
        """Mistral's are flat."""
        body = around(called("call_0001"), result("call_0001"))
        refusal = judge("openai_chat", body, level="mistral")[0]

        assert {
            "object": "error",
            "message": "Tool call id was call_0001 but must be a-z, A-Z, 0-9, with a "
            "length of 9.",
            "type": "invalid_function_call",
            "param": None,
            "code": "3280",
        } == refusal.body

    def test_anthropic(self):
        """Anthropic's are in an object of type error."""
        body = judge("anthropic", talk([text("")]))[0].body

        assert ("error", "invalid_request_error") == (
            body["type"],
            body["error"]["type"],
        )
        assert (
            "messages: text content blocks must be non-empty"
            == (body["error"]["message"])
        )

    def test_gemini(self):
        """Google's have a number and a status."""
        error = judge("gemini", {})[0].body["error"]

        assert (400, "INVALID_ARGUMENT") == (error["code"], error["status"])

    def test_not_found(self):
        """What is not stored is not found."""
        body, _ = RESPONSES["reasoning_not_stored"]

        assert 404 == judge("openai_responses", body)[0].status
