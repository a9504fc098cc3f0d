"""Streams of OpenAI's Responses: chunks that concatenate to the message."""

from functools import partial
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state._persistent import thaw
from conversation_state.adapters import openai_responses
from conversation_state.adapters.openai_responses import load_chunks
from conversation_state.chunks import concat
from conversation_state.errors import DecodeError, ProviderStreamError
from conversation_state.messages import AssistantMessage, LogProb
from conversation_state.parts import ReasoningPart, TextPart, UnknownPart
from conversation_state.testing.strategies import texts
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage
from tests import recorded
from tests.adapters import stream_contract
from tests.adapters.contract import bare
from tests.adapters.helpers import table
from tests.adapters.openai_responses import (
    added,
    answer,
    asked,
    call,
    collected,
    done,
    end,
    event,
    message,
    notes,
    piece,
    response,
    several,
    text,
    thought,
)
from tests.adapters.pieces import as_is
from tests.adapters.stream_contract import StreamContract, events_of, split_text
from tests.formats.cases import without_notes

dump = as_is(openai_responses).dump

RECORDED = recorded.streams("openai_responses")
given_before = partial(stream_contract.given_before, openai_responses)

BEGUN = message()
PLACELESS = {"type": "response.output_text.delta", "content_index": 0}


REFUSED = {"type": "refusal", "refusal": "no"}
CITED = {"type": "url_citation", "url": "https://a.b"}
HIDDEN = {"type": "hidden", "x": 1}
SEARCH = {"type": "web_search_call", "id": "ws_1"}
OTHER = thought(id="rs_2")
SUMMARY = {"type": "summary_text", "text": "Hm."}
CONTENT = {"type": "reasoning_text", "text": "Hm."}


def thinking_piece(words, at=0, number=0, **fields):
    """A piece of a thought's summary."""
    return piece(words, "reasoning_summary_text", at, number, **fields)


def shown(merged):
    """The parts of *merged* without notes, and its calls."""
    bare_message = without_notes(merged)
    return [*bare_message.parts, *bare_message.tool_calls]


def list_texts(*events):
    """The texts of the chunks of *events*, without the last one."""
    return [chunk.text for chunk in list(load_chunks(events))[:-1]]


class TestWhole:
    """A stream is its response, and is sent back as one."""

    def test_a_thought_in_which_not_all_is_text(self):
        """The signature is with the text; what is not text stays in its place."""
        whole = thought(summary=[SUMMARY, HIDDEN], encrypted_content="s")
        events = [added(thought()), thinking_piece("Hm."), done(whole), done(call(), 1)]

        assert shown(answer(whole, call())) == shown(collected(*events))
        assert [whole, call()] == dump([collected(*events)]).payload["input"]

    @pytest.mark.parametrize(
        "events",
        [
            [event("output_text.done", text="Hello", output_index=0)],
            [event("content_part.done", part=text("Hello"), output_index=0)],
            [event("content_part.added", part=text("Hello"), output_index=0)],
            [
                event("content_part.added", part=text("Hel"), output_index=0),
                piece("lo"),
            ],
            [added(message("Hello"))],
            [end(message("Hello"))],
            [added(BEGUN), piece("Hell"), end(message("Hello"))],
            [piece("Hel"), done(message(content="Hello"))],
        ],
    )
    def test_what_only_the_end_has(self, events):
        """Where no pieces came, or not all, the end's text counts."""
        assert "Hello" == collected(*events).text

    def test_ids_alone(self):
        """Where pieces have no place, their id says of which item they are."""
        pieces = [
            {**PLACELESS, "delta": word, "item_id": name}
            for word, name in (("a", "x"), ("b", "y"), ("c", "y"), ("d", "x"))
        ]
        begun = [added(message(id="x")), added(message(id="y"), 1)]
        chunks = list(load_chunks([*begun, *pieces]))[:4]

        assert [("a", 0), ("b", 1), ("c", 1), ("d", 0)] == [
            (chunk.text, chunk.content[0].index) for chunk in chunks
        ]

    def test_as_it_comes(self):
        """
        Pieces are given at once, and what is called before what it is called with.
        """
        spoken_events = [
            added(BEGUN),
            piece("Hel"),
            piece("lo"),
            done(message("Hello")),
        ]
        called = [added(call("f", arguments="")), asked("{"), asked("}")]

        assert ["Hel", "lo", ""] == list_texts(*spoken_events)
        assert [("c1", "f", ""), ("", "", "{"), ("", "", "}")] == [
            (each.id, each.name, each.arguments)
            for chunk in load_chunks(called)
            for each in chunk.tool_calls
        ]


class TestContent:
    """Pieces of an item are one part, or one call, in the places of the response."""

    @table(
        "events, expected",
        {
            "pieces without a place are of what came last": (
                [{"type": "response.output_text.delta", "delta": one} for one in "ab"],
                [TextPart("ab", index=0)],
            ),
            "a character may be cut in two": (
                [piece("a\ud83d"), piece("\ude00b"), piece("")],
                [TextPart("a\U0001f600b", index=0)],
            ),
            "a thought that breaks off is signed as it began": (
                [added(thought(encrypted_content="begin")), thinking_piece("Hm")],
                [ReasoningPart("Hm", "begin", index=0)],
            ),
            "two calls at once": (
                [
                    added(call("f", arguments="")),
                    added(call("g", call_id="c2", arguments=""), 1),
                    asked("1", 0),
                    asked("2", 1),
                    asked("3", 0),
                    asked("4", 1),
                    done(call("g", call_id="c2", arguments="24"), 1),
                    done(call("f", arguments="13")),
                ],
                [
                    ToolCall("c1", "f", "13", index=0),
                    ToolCall("c2", "g", "24", index=1),
                ],
            ),
            "pieces of a call wait until its end has its id": (
                [asked("{"), asked("}"), done(call(id="fc_1"))],
                [ToolCall("c1", "f", "{}", index=0)],
            ),
            "or until the end of the response": (
                [asked("{}"), end(call(id="fc_1"))],
                [ToolCall("c1", "f", "{}", index=0)],
            ),
            "a call that never gets an id is numbered": (
                [event("in_progress", response=response()), asked("{}")],
                [ToolCall("resp_1_call_0", "", "{}", index=0)],
            ),
            "where ids differ from event to event, places decide": (
                [
                    added(message(id="x")),
                    {**piece("a"), "item_id": "y"},
                    {**piece("b"), "item_id": "z"},
                    done(message("ab", id="w")),
                    end(message("ab", id="v")),
                ],
                [TextPart("ab", index=0)],
            ),
            "where places are the same, ids decide": (
                [
                    added(thought()),
                    thinking_piece("a", item_id="rs_1"),
                    done(thought("a")),
                    added(BEGUN),
                    piece("b", item_id="msg_1"),
                    done(message("b")),
                    end(thought("a"), message("b")),
                ],
                [ReasoningPart("a", index=0), TextPart("b", index=1)],
            ),
            "an item that is announced twice is given once": (
                [
                    *(added(BEGUN), piece("a")),
                    *(added(BEGUN), piece("a"), done(message("a"))),
                    *(done(message("a")), end(message("a"))),
                ],
                [TextPart("aa", index=0)],
            ),
            "after an item that is done, another one may have its place": (
                [done(call()), done(call("g", call_id="c2"))],
                [
                    ToolCall("c1", "f", "{}", index=0),
                    ToolCall("c2", "g", "{}", index=1),
                ],
            ),
            "pieces with the id of an item that is done are of another one": (
                [
                    *(added(BEGUN), piece("a"), done(message("a"))),
                    *[piece(one, item_id="msg_1", new=one) for one in "bcd"],
                ],
                [TextPart("a", index=0), TextPart("bcd", index=1)],
            ),
            "the response may have an item more than came": (
                [
                    done(message("x", id="b"), 1),
                    end(
                        message("x", id="b"),
                        {
                            "type": "message",
                            "role": "assistant",
                            "content": [text("y")],
                        },
                    ),
                ],
                [TextPart("x", index=0), TextPart("y", index=1)],
            ),
            "an item without an end does not divide a text": (
                [added(SEARCH), added(BEGUN, 1), piece("a", at=1)],
                [
                    TextPart("a", index=1),
                    UnknownPart(SEARCH, source="openai_responses", index=0),
                ],
            ),
            "a part behind other items is one with the part before it": (
                [
                    *(added(BEGUN), piece("a"), added(call(), 1), piece("b", number=1)),
                    *(done(call(), 1), done(message("a", "b"))),
                ],
                [
                    TextPart("ab", index=0),
                    ToolCall("c1", "f", "{}", index=1),
                ],
            ),
        },
    )
    def test_events(self, events, expected):
        """The parts of the message, and its calls."""
        assert expected == shown(collected(*events))

    @table(
        "events, items",
        {
            "an item that is done late stands where it stood": (
                [
                    added({"type": "mcp_list_tools", "id": "mcpl_0"}, 0),
                    added({"type": "mcp_list_tools", "id": "mcpl_1"}, 1),
                    done({"type": "mcp_list_tools", "id": "mcpl_1", "tools": []}, 1),
                    *(added(BEGUN, 2), piece("a", at=2), done(message("a"), 2)),
                    end(
                        {"type": "mcp_list_tools", "id": "mcpl_0", "tools": [{}]},
                        {"type": "mcp_list_tools", "id": "mcpl_1", "tools": []},
                        message("a"),
                    ),
                ],
                [
                    {"type": "mcp_list_tools", "id": "mcpl_0", "tools": [{}]},
                    {"type": "mcp_list_tools", "id": "mcpl_1", "tools": []},
                    message("a"),
                ],
            ),
            "an item that is done while a message is open does not divide it": (
                [
                    *(added(SEARCH, 0), added(BEGUN, 1), piece("a", at=1)),
                    *(done(SEARCH, 0), piece("b", at=1), done(message("ab"), 1)),
                ],
                [SEARCH, message("ab")],
            ),
            "messages whose pieces come in turn": (
                [
                    *(added(message(id="msg_1"), 0), added(message(id="msg_2"), 1)),
                    *(piece("a", at=0), piece("c", at=1), piece("b", at=0)),
                    *(piece("d", at=1), done(message("ab", id="msg_1"), 0)),
                    done(message("cd", id="msg_2"), 1),
                ],
                [message("ab", id="msg_1"), message("cd", id="msg_2")],
            ),
            "a text that a thought gets late is one with the text before it": (
                [
                    *(added(thought()), thinking_piece("Hm."), added(OTHER, 1)),
                    *(thinking_piece("Ah!", 1), done(thought("Hm.", "So?"), 0)),
                    *(done(thought("Ah!", id="rs_2"), 1), done(call(), 2)),
                ],
                [thought("Hm.So?"), thought("Ah!", id="rs_2"), call()],
            ),
            "a stream that goes on after a pause has no beginning": (
                [
                    thinking_piece("a", 3, item_id="rs_1"),
                    piece("b", at=4, item_id="msg_1"),
                    piece("c", at=4, item_id="msg_1"),
                ],
                [
                    thought("a"),
                    {
                        "type": "message",
                        "id": "msg_1",
                        "role": "assistant",
                        "content": [{"type": "output_text", "text": "bc"}],
                    },
                ],
            ),
        },
    )
    def test_goes_back(self, events, items):
        """The items that are sent back."""
        assert items == dump([collected(*events)]).payload["input"]

    @table(
        "events, part, noted",
        {
            "a text": (
                [added(BEGUN), piece("Hello"), done(message("Bye"))],
                TextPart("Hello", index=0),
                text("Bye"),
            ),
            "a thought, which keeps its signature": (
                [
                    *(added(thought()), thinking_piece("Hm")),
                    done(thought("Aha!", encrypted_content="s")),
                ],
                ReasoningPart("Hm", "s", index=0),
                {"type": "summary_text", "text": "Aha!"},
            ),
            "arguments": (
                [added(call()), asked("{}"), done(call(arguments="[]"))],
                ToolCall("c1", "f", "{}", index=0),
                "[]",
            ),
        },
    )
    def test_another_end(self, events, part, noted):
        """What was given can't be taken back; what the end has instead is noted."""
        merged = collected(*events)
        found = [*merged.parts, *merged.tool_calls]

        assert [part] == shown(merged)
        assert noted == thaw(notes(found[0])["done"])

    @table(
        "events, paths",
        {
            "in a text": (
                [piece("a\ud83d"), piece("b"), piece("\ud83d")],
                ["output[0]"],
            ),
            "in a text that its end repeats": (
                [
                    *(piece("a\ud83d"), piece("b"), piece("\ud83d")),
                    done(message("a\ud83db\ud83d")),
                ],
                ["output[0]"],
            ),
            "in arguments": (
                [added(call(arguments="")), asked('"\ud83d'), asked('"')],
                ["output[0]"],
            ),
            "in an item without an end": (
                [added({"type": "program", "code": "\ud800"})],
                ["output[0]"],
            ),
            "in other keys of ends": (
                [
                    *(done(message("a"), 0), done(thought("\ud800"), 1)),
                    done(call(name="\ud800"), 2),
                    done({"type": "program", "code": "\ud800"}, 3),
                ],
                ["output[1]", "output[2]", "output[3]"],
            ),
        },
    )
    def test_mended(self, events, paths):
        """Half of a surrogate pair is mended, and its item is noted once."""
        merged = collected(*events)

        assert paths == sorted(notes(merged)["mended"])
        assert "\ufffd" in repr(merged)

    def test_annotations(self):
        """Come with the end; of what has none, as they came."""
        pieces = [
            added(BEGUN),
            piece("a"),
            event(
                "output_text.annotation.added",
                annotation=CITED,
                annotation_index=0,
                output_index=0,
                content_index=0,
            ),
        ]
        whole = message(text("a", annotations=[CITED]))

        for events in ([*pieces, done(whole)], pieces):
            (part,) = collected(*events).parts
            assert (CITED,) == notes(part)["keys"]["annotations"]

    def test_announced_without_content(self):
        """A message may be announced without content, and then the stream ends."""
        empty = {"type": "message", "role": "assistant", "id": "msg_1"}
        merged = collected(added(empty))
        chunks, error = given_before([added(empty), done(empty)], DecodeError)

        assert () == merged.parts
        assert "interrupted" == merged.response.finish_reason
        assert ["$[1].item.content"] == [each.path for each in error.problems]
        assert "interrupted" == concat(chunks).response.finish_reason


class TestLateThoughts:
    """A thought may end, or even go on, after pieces of the output that it led to."""

    @pytest.mark.parametrize("pieces", [["H", "m."], []])
    def test_ends_late(self, pieces):
        """What a thought led to is given at once; both are in their places."""
        summary = ["".join(pieces)] if pieces else []
        asked_for = call("f", id="fc_1", arguments="{}")
        whole = [
            thought(*summary, encrypted_content="c2ln"),
            message("Yes."),
            asked_for,
        ]
        events = [
            added(thought()),
            *map(thinking_piece, pieces),
            *(added(BEGUN, 1), piece("Ye", at=1), piece("s.", at=1), done(whole[1], 1)),
            added({**asked_for, "arguments": ""}, 2),
            *(asked("{}", 2), done(asked_for, 2), done(whole[0], 0)),
        ]
        before_the_end = list(load_chunks(events[:-1]))[:-1]
        chunks = list(load_chunks([*events, end(*whole)]))
        merged = concat(chunks, regroup_by_index=True)

        assert ["Ye", "s."] == [each.text for each in before_the_end if each.text]
        assert ["{}"] == [
            each.arguments
            for chunk in before_the_end
            for each in chunk.tool_calls
            if each.arguments
        ]
        assert whole == dump([concat(chunks)]).payload["input"]
        assert whole == dump([merged]).payload["input"]
        assert bare(answer(*whole)) == bare(merged.replace(content=in_places(merged)))

    @pytest.mark.parametrize("regrouped", [False, True])
    @table(
        "first, late, whole",
        {
            "the rest of a second text comes with the end": (
                [thinking_piece("Hm."), thinking_piece("Ah", number=1)],
                [],
                thought("Hm.", "Aha!", encrypted_content="c2ln"),
            ),
            "a further text comes with the end": (
                [thinking_piece("Hm.")],
                [],
                thought("Hm.", "Aha!", encrypted_content="c2ln"),
            ),
            "a summary goes on": (
                [thinking_piece("H")],
                [thinking_piece("m")],
                thought("Hm.", encrypted_content="c2ln"),
            ),
            "a content goes on, and is content": (
                [piece("H", "reasoning_text")],
                [piece(each, "reasoning_text") for each in ("m", ".")],
                thought(content=[CONTENT]),
            ),
        },
    )
    def test_goes_on_late(self, first, late, whole, regrouped):
        """Nothing is lost of the thought, nor of what stands behind it."""
        events = [
            *(added(thought()), *first, added(BEGUN, 1), piece("Ye", at=1), *late),
            *(piece("s.", at=1), done(message("Yes."), 1), done(whole)),
        ]
        merged: Any = concat(load_chunks(events), regroup_by_index=regrouped)
        (hm, yes) = dump([merged]).payload["input"]

        for where in ("summary", "content"):
            assert "".join(each["text"] for each in whole.get(where, ())) == "".join(
                each["text"] for each in hm.get(where, ())
            )
        assert {each["type"] for each in hm.get("content", ())} <= {"reasoning_text"}
        assert whole.get("encrypted_content") == hm.get("encrypted_content")
        assert message("Yes.") == yes
        assert "Yes." == merged.text


class TestBrokenOff:
    def test_own_tools(self):
        """
        An item of a provider's own tool without an end has what the events about it
        had as a note: pieces of texts one by one, of other values the last one.
        """
        kind = "response.code_interpreter_call_code"
        at = {"output_index": 0}
        announced = {"type": "code_interpreter_call", "id": "ci_1"}
        events = [
            added(announced),
            *[{"type": f"{kind}.delta", "delta": one, **at} for one in "1+"],
            *[
                {"type": f"{kind}.log\ud800", "x": [one], "y": one, **at}
                for one in "ab"
            ],
        ]
        (part,) = collected(*events).parts

        assert announced == part.raw
        assert {
            f"{kind}.delta": {"delta": ["1", "+"]},
            f"{kind}.log\ufffd": {"x": ["a", "b"], "y": "b"},
        } == thaw(notes(part)["events"])


class TestResponse:
    def test_usage_once(self):
        """With the provider's last numbers, also smaller ones."""
        used = {"input_tokens": 9, "output_tokens": 2}
        chunks = list(
            load_chunks(
                [
                    event("in_progress", response=response(usage={"input_tokens": 20})),
                    piece("a"),
                    end(message("a"), usage=used),
                ]
            )
        )

        assert [Usage(9, 2)] == [
            chunk.response.usage
            for chunk in chunks
            if chunk.response and chunk.response.usage
        ]

    def test_logprobs(self):
        """Come with the pieces, and are rounded in the end; or with the end alone."""
        pieces = [piece(x, logprobs=[{"token": x, "logprob": -0.1}]) for x in "ab"]
        rounded = [{"token": x, "logprob": 0.0} for x in "ab"]
        end = done(message(text("ab", logprobs=rounded)))
        blocks = [text("a", logprobs=rounded[:1]), text("b", logprobs=rounded[1:])]

        for events, chance in (
            ([*pieces, end], -0.1),
            (pieces, -0.1),
            ([piece("a"), piece("b"), end], 0.0),
            ([end], 0.0),
            ([done(message(*blocks))], 0.0),
        ):
            likely = (LogProb("a", chance), LogProb("b", chance))
            assert likely == collected(*events).response.logprobs

    def test_notes(self):
        """The response's fields are noted, as they are at the end."""
        merged = collected(
            event("created", response=response(status="in_progress", created_at=1)),
            end(created_at=1, service_tier="default", tools=[{"type": "x"}]),
        )

        assert "resp_1" == merged.response.id
        assert {"created_at": 1, "service_tier": "default"} == dict(
            notes(merged)["response"]
        )

    def test_unknown_events(self):
        """
        What our model can't represent is kept by the type of the event, but for
        numbers, padding, and events without content.
        """
        merged = collected(
            {"type": "keepalive", "sequence_number": 1},
            event("hologram", of={"you": 1}, obfuscation="xx"),
            event("hologram", by="me"),
            event("audio.delta", delta="iVBO"),
            event("audio.delta", delta="Rw0K"),
            event("compaction.compacting", item_id="cmp_1", output_index=0),
            piece("a", mood="good"),
        )

        assert {
            "response.hologram": {"of": {"you": 1}, "by": "me"},
            "response.audio.delta": {"delta": ("iVBO", "Rw0K")},
            "response.output_text.delta": {"mood": "good"},
        } == notes(merged)["events"]
        assert "a" == merged.text

    def test_unknown_blocks(self):
        """A block of an unknown type is kept in its place."""
        odd = {"type": "output_audio", "data": "iVBO"}
        whole = message("a", odd, "b")
        events = [
            added(BEGUN),
            piece("a"),
            event("content_part.done", part=text("a"), output_index=0),
            event("content_part.added", part=odd, content_index=1, output_index=0),
            piece("b", number=2),
        ]

        assert answer(whole).parts == collected(*events, done(whole)).parts
        assert ["text", "unknown", "text"] == [
            part.kind for part in collected(*events).parts
        ]


class TestEnds:
    @pytest.mark.parametrize(
        ("events", "reason"),
        [
            ([], "interrupted"),
            ([piece("a")], "interrupted"),
            ([event("created", response=response(status="queued"))], "interrupted"),
            ([piece("a"), end()], "completed"),
            ([piece("a"), end(), "[DONE]"], "completed"),
            ([piece("a"), "[DONE]"], ""),
            ([event("completed", response={"output": []})], "completed"),
            ([event("done", response=response())], "completed"),
            ([end(kind="cancelled")], "cancelled"),
            (
                [
                    end(
                        kind="incomplete",
                        incomplete_details={"reason": "max_output_tokens"},
                    )
                ],
                "max_output_tokens",
            ),
        ],
    )
    def test_reason(self, events, reason):
        """A stream without its end was interrupted."""
        assert reason == collected(*events).response.finish_reason

    def test_announced_arguments(self):
        """Arguments that came with the call are kept if the stream breaks off."""
        (found,) = collected(added(call(arguments='{"a":1}'))).tool_calls

        assert '{"a":1}' == found.arguments

    def test_empty_response(self):
        """An empty response is not sent back."""
        assert [] == dump([collected()]).payload["input"]
        assert answer() == collected(end())

    @pytest.mark.parametrize(
        ("failure", "reason"),
        [
            ({"type": "error", "message": "overloaded", "code": None}, "overloaded"),
            ({"type": "error", "error": {"message": "overloaded"}}, "overloaded"),
            ({"error": {"message": "overloaded"}}, "overloaded"),
            ({"error": "overloaded"}, "overloaded"),
            ({"type": "error", "code": 5}, "no reason given"),
            ({"type": "error", "error": {"message": "\ud800"}}, "\ufffd"),
            (end(kind="failed", error={"message": "overloaded"}), "overloaded"),
            (end(kind="failed"), "no reason given"),
            ({"type": "response.failed"}, "no reason given"),
        ],
    )
    def test_provider_fails(self, failure, reason):
        """With the provider's message, after everything before it."""
        chunks, error = given_before(
            [piece("a"), piece("b"), failure], ProviderStreamError
        )

        failed = failure.get("type") == "response.failed" and "response" in failure
        assert reason in str(error)
        assert failure == error.event
        assert "ab" == concat(chunks).text
        assert ("failed" if failed else "interrupted") == (
            concat(chunks).response.finish_reason
        )


class TestRefuses:
    @pytest.mark.parametrize(
        ("wrong", "path"),
        [
            (None, "$[1]"),
            (b"data: {}", "$[1]"),
            ({}, "$[1].type"),
            ({"type": 3}, "$[1].type"),
            ({"delta": "a"}, "$[1].type"),
            (piece(5), "$[1].delta"),
            (piece("a", number=-1), "$[1].content_index"),
            (piece("a", number="0"), "$[1].content_index"),
            (piece("a", "reasoning_summary_text", 7, -1), "$[1].summary_index"),
            (piece("a", logprobs=5), "$[1].logprobs"),
            (piece("a", logprobs=[{}]), "$[1].logprobs[0].token"),
            (event("output_text.done", text=5, output_index=0), "$[1].text"),
            (asked(None, 7), "$[1].delta"),
            (added(5), "$[1].item"),
            (added({}), "$[1].item.type"),
            (done(call(name=5), 7), "$[1].item.name"),
            (done(message("a", 5)), "$[1].item.content[1]"),
            (done({"type": "program", "x": 2**70}, 7), "$[1].item.x"),
            (event("content_part.added", part=5), "$[1].part"),
            (event("content_part.done", part={}), "$[1].part.type"),
            (end(5), "$[1].response.output[0]"),
            (end({}), "$[1].response.output[0].type"),
            (event("hologram", of=float("nan")), "$[1].of"),
        ],
    )
    def test_what_is_no_event(self, wrong, path):
        """
        With the number of the event and the path in it, after what came
        before.
        """
        chunks, error = given_before([piece("a"), wrong], DecodeError)

        assert path == error.problems[0].path
        assert "a" == concat(chunks).text[:1]

    def test_all_of_an_event(self):
        """All problems with an event are reported at once."""
        wrong = call(name=5, arguments=None)
        _, error = given_before([done(wrong)], DecodeError)

        assert 2 == len(error.problems)

    def test_what_was_valid_before(self):
        """Invalid probabilities are left out."""
        unlikely, _ = given_before([piece("a", logprobs=[{}])], DecodeError)

        assert None is concat(unlikely).response.logprobs

    def test_all_of_the_output(self):
        """And all that is wrong with the output of the end."""
        _, error = given_before([end(5, {"type": 5}, call(name=5))], DecodeError)

        assert [
            "$[0].response.output[0]",
            "$[0].response.output[1].type",
            "$[0].response.output[2].name",
        ] == [problem.path for problem in error.problems]


# A response, whole and cut into events


@st.composite
def spoken(draw, at):
    """A message, and the events it may come in at the place *at*."""
    blocks = []
    events = []
    for number in range(draw(st.integers(0, 2))):
        words = draw(texts())
        place = {"output_index": at, "content_index": number}
        kind, key = draw(st.sampled_from([("output_text", "text"), ("refusal",) * 2]))
        block = {"type": kind, key: words}
        announced = {**block, key: ""}
        events += [
            event("content_part.added", part=announced, **place),
            *[piece(p, kind, at, number) for p in draw(split_text(words))],
            event(f"{kind}.done", **{key: words}, **place),
            event("content_part.done", part=block, **place),
        ]
        blocks.append(block)

    whole = message(*blocks, id=f"msg_{at}")
    return whole, [added(message(id=f"msg_{at}"), at), *events, done(whole, at)]


@st.composite
def thinking(draw, at):
    """
    A thought, and its events: texts of its summary and of its content, some of them
    announced.
    """
    sizes = st.integers(0, 2)
    blocks = {
        "summary": [("summary_text", draw(texts())) for _ in range(draw(sizes))],
        "content": [("reasoning_text", draw(texts())) for _ in range(draw(sizes))],
    }
    signed = draw(st.just({}) | texts().map(lambda words: {"encrypted_content": words}))
    raws = {
        where: [{"type": kind, "text": words} for kind, words in listed]
        for where, listed in blocks.items()
        if listed or where == "summary"
    }
    events = []
    for where, listed in raws.items():
        stem = "reasoning_summary_part" if where == "summary" else "content_part"
        for number, raw in enumerate(listed):
            place = {"output_index": at, f"{where}_index": number}
            kind = raw["type"].replace("summary_text", "reasoning_summary_text")
            parts = [
                event(f"{stem}.added", part={**raw, "text": ""}, **place),
                event(f"{stem}.done", part=raw, **place),
            ]
            pieces = [piece(p, kind, at, number) for p in draw(split_text(raw["text"]))]
            begun, over = parts if draw(st.booleans()) else ({}, {})
            events += [each for each in (begun, *pieces, over) if each]

    whole = thought(**raws, **signed, id=f"rs_{at}")
    begun = thought(id=f"rs_{at}", encrypted_content="at its beginning")
    return whole, [added(begun, at), *events, done(whole, at)]


@st.composite
def calling(draw, at):
    """A call, and its events."""
    kind, key = draw(st.sampled_from([("function_call", "arguments"), CUSTOM]))
    event_kind = "custom_tool_call_input" if key == "input" else f"{kind}_{key}"
    words = draw(texts())
    whole = {
        "type": kind,
        "call_id": f"c{at}",
        "name": "f",
        key: words,
        "id": f"fc_{at}",
    }
    pieces = [asked(p, at, event_kind) for p in draw(split_text(words))]
    over = event(f"{event_kind}.done", **{key: words}, output_index=at)
    return whole, [added({**whole, key: ""}, at), *pieces, over, done(whole, at)]


CUSTOM = ("custom_tool_call", "input")


@st.composite
def searching(draw, at):
    """A call of a tool of the provider's, and its events."""
    whole = {"type": "code_interpreter_call", "id": f"ci_{at}", "code": draw(texts())}
    begun = {"type": "code_interpreter_call", "id": f"ci_{at}"}
    place = {"output_index": at}
    pieces = [
        event("code_interpreter_call_code.delta", delta=p, **place)
        for p in draw(split_text(whole["code"]))
    ]
    over = event("code_interpreter_call.completed", **place, item_id=f"ci_{at}")
    return whole, [added(begun, at), *pieces, over, done(whole, at)]


@st.composite
def responses_and_events(draw):
    """A response, and the events it may have come in."""
    output, events = [], []
    for at in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from([spoken, thinking, calling, searching]))
        item, texts = draw(kind(at))
        output.append(item)
        events += texts

    used = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    whole = response(*output, usage=used)
    begun = {**whole, "output": [], "usage": None, "status": "in_progress"}
    last = event("completed", response=whole)
    return whole, [event("created", response=begun), *events, last]


class TestStreams(StreamContract):
    """What the streams of all adapters promise."""

    adapter: ClassVar = openai_responses
    response_streams: ClassVar = responses_and_events()
    failure_events: ClassVar = [
        {"type": "error", "message": "no"},
        {"type": "response.failed", "response": {"error": {"message": "no"}}},
    ]

    def text_events(self, size):
        """A text in pieces."""
        return [added(BEGUN), *[piece("a")] * size]

    def call_events(self, size):
        """A call, and its arguments in pieces."""
        return [added(call(arguments="")), *[asked("1")] * size]

    def is_end(self, event):
        """The event has the whole response."""
        return event["type"] in {"response.completed", "response.failed"}

    def check(self, whole, message):
        """See that the items are sent back, too; a message without blocks gets one."""
        super().check(whole, message)

        block = {"type": "output_text", "text": ""}
        expected = [
            {**item, "content": [block]} if item.get("content") == [] else item
            for item in whole["output"]
        ]
        followed = dump([message, AssistantMessage("a")])
        assert expected == followed.payload["input"][:-1]


class TestLaws:
    @given(responses_and_events(), st.data())
    def test_whatever_is_left_out(self, made, data):
        """
        Pieces, announcements and ends may be missing: as long as the whole
        response comes, nothing is.
        """
        whole, events = made
        left = [
            each
            for each in events[:-1]
            if each["type"].endswith((".delta", ".added")) or data.draw(st.booleans())
        ]
        whole_message = several(whole)[0]
        # A thought without its end is overtaken by what stands behind it.
        merged = concat(load_chunks([*left, events[-1]]), regroup_by_index=True)

        assert bare(whole_message) == bare(
            merged.replace(content=in_places(merged) or "")
        )
        assert whole_message.response == merged.response


def in_places(one):
    """The parts of *one* in the order of their indexes."""
    return sorted(one.parts, key=lambda part: part.index)


# Real traffic


@pytest.mark.parametrize("path", RECORDED, ids=[path.stem for path in RECORDED])
class TestRecorded:
    def test_collects(self, path):
        """Recorded streams collect to the content of their pieces."""
        texts: dict[str, str] = {}
        done_items: dict[int, Any] = {}
        for each in events_of(path):
            if each["type"].endswith(".delta"):
                texts[each["type"]] = texts.get(each["type"], "") + each["delta"]
            elif each["type"] == "response.output_item.done":
                done_items[each["output_index"]] = each["item"]

        merged = collected(*events_of(path))

        assert texts.get("response.output_text.delta", "") == merged.text
        assert (
            texts.get("response.reasoning_summary_text.delta", "") == merged.reasoning
        )
        assert texts.get("response.function_call_arguments.delta", "") == "".join(
            each.arguments for each in merged.tool_calls
        )
        assert [
            item["encrypted_content"]
            for item in done_items.values()
            if item["type"] == "reasoning"
        ] == [p.signature for p in merged.parts if isinstance(p, ReasoningPart)]

    def test_is_its_response(self, path):
        """
        And to the whole response at their end, but for what the provider sends in
        another form there: the signatures of thoughts, and the probabilities of tokens,
        which are rounded.
        """
        *_, last = events_of(path)

        whole, merged = several(last["response"])[0], collected(*events_of(path))

        assert unsigned(whole) == unsigned(merged)
        assert whole.metadata == merged.metadata
        assert whole.response.usage == merged.response.usage
        assert whole.response.finish_reason == merged.response.finish_reason
        assert [round(each.logprob, 5) for each in whole.response.logprobs or ()] == [
            round(each.logprob, 5) for each in merged.response.logprobs or ()
        ]


def unsigned(one):
    """The parts of *one* in their places, without signatures, and the calls."""
    parts = [
        ReasoningPart(part.text, index=part.index, metadata=part.metadata)
        if isinstance(part, ReasoningPart)
        else part
        for part in one.parts
    ]
    return sorted(parts, key=lambda part: part.index or 0), one.tool_calls
