"""
Streams of OpenAI's Responses: chunks that concatenate to the message.
"""

from functools import partial
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.adapters import openai_responses
from conversation_state.adapters.openai_responses import dump, load, load_chunks
from conversation_state.chunks import concat
from conversation_state.errors import DecodeError, ProviderStreamError
from conversation_state.messages import AssistantMessage, LogProb
from conversation_state.parts import ReasoningPart, RefusalPart, TextPart, UnknownPart
from conversation_state.testing.strategies import texts
from conversation_state.usage import Usage
from tests import recorded
from tests.adapters import stream_contract
from tests.adapters.contract import bare
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
from tests.adapters.stream_contract import StreamContract, cuts, events_of

RECORDED = recorded.streams("openai_responses")
given_before = partial(stream_contract.given_before, openai_responses)

BEGUN = message()


def list_texts(*events):
    """
    The texts of the chunks of *events*, without the last one.
    """
    return [chunk.text for chunk in list(load_chunks(events))[:-1]]


class TestText:
    def test_pieces(self):
        """
        The text of all pieces once, as they come; then the item's other keys at its
        end, and the response's.
        """
        events = [
            added(BEGUN),
            piece("Hel"),
            piece("lo"),
            event("output_text.done", text="Hello", output_index=0, content_index=0),
            event("content_part.done", part=text("Hello"), output_index=0),
            done(message("Hello")),
            end(message("Hello")),
        ]

        assert ["Hel", "lo", ""] == list_texts(*events)
        assert answer(message("Hello")) == collected(*events)

    @pytest.mark.parametrize(
        "fields",
        [
            [event("output_text.done", text="Hello", output_index=0)],
            [event("content_part.done", part=text("Hello"), output_index=0)],
            [event("content_part.added", part=text("Hello"), output_index=0)],
            [piece("He"), event("output_text.done", text="Hello", output_index=0)],
            [done(message("Hello"))],
            [added(BEGUN), piece("H"), done(message("Hello"))],
            [added(message("Hello"))],
            [end(message("Hello"))],
            [added(BEGUN), piece("Hell"), end(message("Hello"))],
        ],
    )
    def test_what_only_the_end_has(self, fields):
        """
        Where no pieces came, or not all, the end's text counts.
        """
        assert "Hello" == collected(*fields).text

    def test_another_end(self):
        """
        What was given can't be taken back; the text at the end is noted.
        """
        merged = collected(added(BEGUN), piece("Hello"), done(message("Bye")))

        assert "Hello" == merged.text
        assert text("Bye") == {**notes(merged.parts[0])["done"], "annotations": []}
        assert "Hello" == dump([merged]).payload["input"][0]["content"][0]["text"]

    def test_blocks(self):
        """
        Each block is a part, whether it is announced or not.
        """
        refused = {"type": "refusal", "refusal": "no"}
        events = [
            added(BEGUN),
            piece("a"),
            event("content_part.done", part=text("a"), output_index=0),
            piece("b", number=1),
            event("content_part.done", part=text("b"), output_index=0, content_index=1),
            piece("n", "refusal", number=2),
            piece("o", "refusal", number=2),
            event("refusal.done", refusal="no", output_index=0, content_index=2),
            done(message("a", "b", refused)),
            end(message("a", "b", refused)),
        ]

        merged = collected(*events)

        assert [TextPart, TextPart, RefusalPart] == list(map(type, merged.parts))
        assert ["a", "b", "no"] == [part.text for part in merged.parts]
        assert answer(message("a", "b", refused)) == merged

    def test_annotations(self):
        """
        Come with the end; of what has none, as they came.
        """
        cited = {"type": "url_citation", "url": "https://a.b"}
        pieces = [
            added(BEGUN),
            piece("a"),
            event(
                "output_text.annotation.added",
                annotation=cited,
                annotation_index=0,
                output_index=0,
                content_index=0,
            ),
        ]
        whole = message(text("a", annotations=[cited]))

        for events in ([*pieces, done(whole)], pieces):
            (part,) = collected(*events).parts
            assert (cited,) == notes(part)["keys"]["annotations"]

    def test_surrogates(self):
        """
        A character cut in two is put together again; half of one that is left
        is mended, and noted once.
        """
        whole = [piece("a\ud83d"), piece("\ude00b"), piece("")]
        broken = [piece("a\ud83d"), piece("b"), piece("\ud83d")]

        for last in ([], [done(message("a\ud83db\ud83d"))]):
            mended = collected(*broken, *last)
            assert "a\ufffdb\ufffd" == mended.text
            assert ("output[0].content[0].text",) == notes(mended)["mended"]

        assert "a😀b" == collected(*whole).text
        assert "mended" not in notes(collected(*whole))

    def test_surrogates_at_the_end(self):
        """
        Also where only the end of a text has it.
        """
        merged = collected(event("refusal.done", refusal="a\ud800", output_index=0))

        assert "a\ufffd" == merged.refusal
        assert ("output[0].content[0].refusal",) == notes(merged)["mended"]

    def test_mended_elsewhere(self):
        """
        So are the other keys of the end.
        """
        merged = collected(
            done(message("a"), 0),
            done(thought("\ud800"), 1),
            done(call(name="\ud800"), 2),
            done({"type": "program", "code": "\ud800"}, 3),
        )

        assert {"output[1].summary[0].text", "output[2].name", "output[3].code"} == {
            *notes(merged)["mended"]
        }

    def test_without_places(self):
        """
        Pieces without a place are of what came last.
        """
        kind = "response.output_text.delta"

        assert "ab" == collected(*[{"type": kind, "delta": one} for one in "ab"]).text


class TestThoughts:
    def test_pieces(self):
        """
        Each text is a part; signed, once, with the keys of the end.
        """
        whole = thought(
            "Hm.",
            "Aha!",
            content=[{"type": "reasoning_text", "text": "x"}],
            encrypted_content="end",
        )
        part = {"type": "summary_text", "text": "Hm."}
        events = [
            added(thought(encrypted_content="begin")),
            event("reasoning_summary_part.added", part={**part, "text": ""}),
            piece("H", "reasoning_summary_text"),
            piece("m.", "reasoning_summary_text"),
            event("reasoning_summary_text.done", text="Hm.", summary_index=0),
            event("reasoning_summary_part.done", part=part, summary_index=0),
            piece("Aha!", "reasoning_summary_text", number=1),
            piece("x", "reasoning_text"),
            done(whole),
            done(call(), 1),
        ]

        merged = collected(*events, end(whole, call()))

        assert ["Hm.", "Aha!", "x"] == [part.text for part in merged.parts]
        assert ["", "", "end"] == [part.signature for part in merged.parts]
        assert answer(whole, call()) == merged

    def test_announced_texts(self):
        """
        Texts of thoughts are announced like those of messages.
        """
        part = {"type": "reasoning_text", "text": "Hm."}
        whole = thought(content=[part])
        events = [
            added(thought()),
            event("content_part.added", part={**part, "text": ""}, output_index=0),
            piece("Hm.", "reasoning_text"),
            event("content_part.done", part=part, output_index=0),
            done(whole),
        ]

        assert answer(whole).parts == collected(*events).parts

    def test_nothing_in_pieces(self):
        """
        What follows a thought of several texts stands behind all of them.
        """
        items = [thought("a", "b"), call()]
        merged = collected(*[done(item, at) for at, item in enumerate(items)])

        assert [0, 1, 2] == [each.index for each in (*merged.parts, *merged.tool_calls)]

    def test_nothing_but_a_signature(self):
        """
        A thought that is not shown is one part.
        """
        whole = thought(encrypted_content="s")

        (part,) = collected(added(thought()), done(whole)).parts

        assert ("", "s") == (part.text, part.signature)

    def test_broken_off(self):
        """
        Without an end, with the keys of the beginning.
        """
        merged = collected(
            added(thought(encrypted_content="begin")),
            piece("Hm", "reasoning_summary_text"),
        )

        assert ("Hm", "begin") == (merged.reasoning, merged.parts[0].signature)
        assert (
            thought("Hm", encrypted_content="begin")
            == dump([merged, AssistantMessage("a")]).payload["input"][0]
        )

    def test_another_end(self):
        """
        What is signed is signed, whatever was given of it.
        """
        merged = collected(
            added(thought()),
            piece("Hm", "reasoning_summary_text"),
            done(thought("Aha!", encrypted_content="s")),
        )

        assert ("Hm", "s") == (merged.reasoning, merged.parts[0].signature)
        assert "Aha!" == notes(merged.parts[0])["done"]["text"]

    def test_another_end_without_text(self):
        """
        Also if what the end has in its place is not text.
        """
        merged = collected(
            added(thought()),
            piece("Hm", "reasoning_summary_text"),
            done(thought(summary=[{"type": "hidden"}], encrypted_content="s")),
        )

        assert ("Hm", "s") == (merged.reasoning, merged.parts[0].signature)
        assert {"type": "hidden"} == dict(notes(merged.parts[0])["done"])

    @pytest.mark.parametrize("pieces", [["H", "m."], []])
    def test_ends_late(self, pieces):
        """
        What a thought led to is given at once, though the thought's end comes
        last; both are in their places.
        """
        summary = ["".join(pieces)] if pieces else []
        asked_for = call("f", id="fc_1", arguments="{}")
        whole = [
            thought(*summary, encrypted_content="c2ln"),
            message("Yes."),
            asked_for,
        ]
        events = [
            added(thought()),
            *(piece(each, "reasoning_summary_text") for each in pieces),
            added(BEGUN, 1),
            piece("Ye", at=1),
            piece("s.", at=1),
            done(whole[1], 1),
            added({**asked_for, "arguments": ""}, 2),
            asked("{}", 2),
            done(asked_for, 2),
            done(whole[0], 0),
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

    def test_ends_late_in_a_second_text(self):
        """
        What the end then has more is of the last text.
        """
        whole = [thought("Hm.", "Aha!", encrypted_content="c2ln"), message("Yes.")]
        events = [
            added(thought()),
            piece("Hm.", "reasoning_summary_text"),
            piece("Ah", "reasoning_summary_text", number=1),
            added(BEGUN, 1),
            piece("Yes.", at=1),
            done(whole[1], 1),
            done(whole[0], 0),
        ]

        merged = collected(*events, end(*whole))
        (hm, yes) = dump([merged]).payload["input"]

        assert "Hm.Aha!" == "".join(each["text"] for each in hm["summary"])
        assert "c2ln" == hm["encrypted_content"]
        assert message("Yes.") == yes

    def test_goes_on_late(self):
        """
        Nothing is lost of a thought that goes on between the pieces of what is
        behind it, nor is that torn.
        """
        events = [
            added(thought()),
            piece("H", "reasoning_summary_text"),
            added(BEGUN, 1),
            piece("Ye", at=1),
            piece("m", "reasoning_summary_text"),
            piece("s.", at=1),
            done(message("Yes."), 1),
            done(thought("Hm.", encrypted_content="c2ln")),
        ]
        merged = collected(*events)
        (hm, yes) = dump([merged]).payload["input"]

        assert ["Yes."] == [part.text for part in merged.parts if part.kind == "text"]
        assert "Hm." == "".join(each["text"] for each in hm["summary"])
        assert message("Yes.") == yes

    @pytest.mark.parametrize("regrouped", [False, True])
    def test_content_goes_on_late(self, regrouped):
        """
        Each piece of a thought's content that comes late is content, too.
        """
        texts = [{"type": "reasoning_text", "text": "Hm..."}]
        whole = [thought(content=texts), message("Yes.")]
        events = [
            added(thought()),
            piece("H", "reasoning_text"),
            added(BEGUN, 1),
            piece("Yes.", at=1),
            piece("m.", "reasoning_text"),
            piece(".", "reasoning_text"),
            piece(".", "reasoning_text"),
            done(whole[1], 1),
            done(whole[0]),
        ]
        merged = concat(load_chunks(events), regroup_by_index=regrouped)
        (hm, yes) = dump([merged]).payload["input"]

        assert {"reasoning_text"} == {each["type"] for each in hm["content"]}
        assert "Hm..." == "".join(each["text"] for each in hm["content"])
        assert [] == hm["summary"]
        assert message("Yes.") == yes

    def test_what_is_no_text(self):
        """
        Is kept in its place, and the last text is signed.
        """
        odd = {"type": "hidden", "x": 1}
        whole = thought(
            summary=[{"type": "summary_text", "text": "Hm."}, odd],
            encrypted_content="s",
        )

        merged = collected(
            added(thought()),
            piece("Hm.", "reasoning_summary_text"),
            done(whole),
            done(call(), 1),
        )

        assert [whole, call()] == dump([merged]).payload["input"]
        assert ("Hm.", "s") == (merged.reasoning, merged.parts[0].signature)


class TestCalls:
    def test_pieces(self):
        """
        Arguments byte for byte, in the places of the response.
        """
        events = [
            added(call("f", id="fc_1", arguments="")),
            asked('{"q":'),
            asked(' "\\u00e9"}'),
            event(
                "function_call_arguments.done",
                arguments='{"q": "\\u00e9"}',
                name="f",
                output_index=0,
            ),
            done(call("f", id="fc_1", arguments='{"q": "\\u00e9"}')),
            end(call("f", id="fc_1", arguments='{"q": "\\u00e9"}')),
        ]

        assert answer(call("f", id="fc_1", arguments='{"q": "\\u00e9"}')) == (
            collected(*events)
        )

    def test_in_turn(self):
        """
        Two calls at once, each its own.
        """
        merged = collected(
            added(call("f", arguments="")),
            added(call("g", call_id="c2", arguments=""), 1),
            asked("1", 0),
            asked("2", 1),
            asked("3", 0),
            asked("4", 1),
            done(call("g", call_id="c2", arguments="24"), 1),
            done(call("f", arguments="13")),
        )

        assert [("c1", "f", "13", 0), ("c2", "g", "24", 1)] == [
            (each.id, each.name, each.arguments, each.index)
            for each in merged.tool_calls
        ]

    def test_as_they_come(self):
        """
        What is called is known before what it is called with.
        """
        events = [added(call("f", arguments="")), asked("{"), asked("}")]

        assert [("c1", "f", ""), ("", "", "{"), ("", "", "}")] == [
            (each.id, each.name, each.arguments)
            for chunk in load_chunks(events)
            for each in chunk.tool_calls
        ]

    def test_custom(self):
        """
        Custom tools have an input that is not JSON.
        """
        whole = {**call("run", type="custom_tool_call", id="ctc_1"), "input": "ls -l"}
        del whole["arguments"]
        events = [
            added({**whole, "input": ""}),
            asked("ls", kind="custom_tool_call_input"),
            asked(" -l", kind="custom_tool_call_input"),
            event("custom_tool_call_input.done", input="ls -l", output_index=0),
            done(whole),
            end(whole),
        ]

        merged = collected(*events)

        assert "custom" == merged.tool_calls[0].type
        assert answer(whole) == merged

    @pytest.mark.parametrize(
        "events",
        [
            [asked("{"), asked("}"), done(call(id="fc_1"))],
            [added(call(call_id=None)), asked("{}"), done(call(id="fc_1"))],
            [asked("{}"), end(call(id="fc_1"))],
            [
                event("function_call_arguments.done", arguments="{}"),
                end(call(id="fc_1")),
            ],
        ],
    )
    def test_not_announced(self, events):
        """
        Pieces of a call wait until its id is known.
        """
        (merged,) = collected(*events).tool_calls

        assert ("c1", "f", "{}") == (merged.id, merged.name, merged.arguments)

    def test_never_announced(self):
        """
        An id is made up for a call that never gets one, and not sent back.
        """
        merged = collected(event("in_progress", response=response()), asked("{}"))

        assert ["resp_1_call_0"] == [each.id for each in merged.tool_calls]
        assert [{"type": "function_call", "name": "", "arguments": "{}"}] == dump(
            [merged]
        ).payload["input"]

    def test_another_end(self):
        """
        What was given can't be taken back; the arguments at the end are noted.
        """
        (merged,) = collected(
            added(call()), asked("{}"), done(call(arguments="[]"))
        ).tool_calls

        assert "{}" == merged.arguments
        assert "[]" == notes(merged)["done"]

    def test_surrogates(self):
        """
        Arguments are mended like texts.
        """
        merged = collected(added(call(arguments="")), asked('"\ud83d'), asked('"'))

        assert '"\ufffd"' == merged.tool_calls[0].arguments
        assert ("output[0].arguments",) == notes(merged)["mended"]


class TestBuiltIn:
    @pytest.mark.parametrize(
        "pieces",
        [
            [event("web_search_call.searching", output_index=0)],
            [event("code_interpreter_call_code.delta", delta="1+", output_index=0)],
            [
                event(
                    "image_generation_call.partial_image",
                    partial_image_b64="iVBO",
                    partial_image_index=0,
                    output_index=0,
                )
            ],
        ],
    )
    def test_pieces(self, pieces):
        """
        What a provider's own tool did is given as it is in the end, once.
        """
        kind = pieces[0]["type"].split(".")[1].removesuffix("_code")
        whole = {"type": kind, "id": "x_1", "result": "iVBORw0KGgo="}
        events = [
            added({"type": kind, "id": "x_1", "status": "in_progress"}),
            *pieces,
            event(f"{kind}.completed", output_index=0, item_id="x_1"),
            done(whole),
        ]

        merged = collected(*events, end(whole))

        assert (UnknownPart(whole, source="openai_responses", index=0),) == merged.parts
        assert answer(whole) == merged

    def test_broken_off(self):
        """
        Without an end, the pieces are noted.
        """
        begun = {"type": "code_interpreter_call", "id": "ci_1"}
        image = {"type": "image_generation_call", "id": "ig_1"}
        (code, drawn) = collected(
            added(begun),
            event("code_interpreter_call_code.delta", delta="1", output_index=0),
            event("code_interpreter_call_code.delta", delta="+", output_index=0),
            added(image, 1),
            *[
                event(
                    "image_generation_call.partial_image",
                    partial_image_b64=each,
                    output_index=1,
                )
                for each in ("iVBO", "iVBORw0K")
            ],
        ).parts

        assert begun == code.raw
        assert {"response.code_interpreter_call_code.delta": "1+"} == notes(code)[
            "pieces"
        ]
        assert {"partial_image_b64": "iVBORw0K"} == notes(drawn)["pieces"][
            "response.image_generation_call.partial_image"
        ]

    def test_broken_off_oddly(self):
        """
        Whatever the pieces are.
        """
        kind = "program.code"
        (part,) = collected(
            added({"type": "program"}),
            event(kind, delta={"a": 1}, output_index=0),
            event(kind, delta="1", output_index=0),
            event("program.out\ud800", x=[1], output_index=0),
        ).parts

        assert {
            "response.program.code": "1",
            "response.program.out\ufffd": {"x": (1,)},
        } == {**notes(part)["pieces"]}

    def test_done_late(self):
        """
        An item that is done late is given late, and stands where it stood.
        """
        lists = [{"type": "mcp_list_tools", "id": f"mcpl_{at}"} for at in (0, 1)]
        ended = [{**each, "tools": [{"name": "t"}]} for each in lists]
        events = [
            added(lists[0], 0),
            added(lists[1], 1),
            done(ended[1], 1),
            added(BEGUN, 2),
            piece("a", at=2),
            done(message("a"), 2),
        ]

        merged = collected(*events, end(*ended, message("a")))

        assert "a" in list_texts(*events)
        assert [1, 2, 0] == [part.index for part in merged.parts]
        assert [*ended, message("a")] == dump([merged]).payload["input"]

    def test_done_between_pieces(self):
        """
        An item that is done while a message is open waits for it, and does not divide
        it.
        """
        search = {"type": "web_search_call", "id": "ws_1"}
        merged = collected(
            added(search, 0),
            added(BEGUN, 1),
            piece("a", at=1),
            done(search, 0),
            piece("b", at=1),
            done(message("ab"), 1),
        )

        assert ["text", "unknown"] == [part.kind for part in merged.parts]
        assert [search, message("ab")] == dump([merged]).payload["input"]

    def test_nothing_before_its_time(self):
        """
        What comes while a message is open waits for it, whatever it is.
        """
        events = [
            added(message(id="msg_1"), 0),
            added(call(), 1),
            asked("x", 1),
            added(message(id="msg_2"), 2),
            piece("c", at=2),
            piece("a", at=0),
            done(message("c", id="msg_2"), 2),
            piece("b", at=0, number=1),
            done(message("a", "b", id="msg_1"), 0),
        ]

        merged = collected(*events)

        assert "abc" == merged.text
        assert [0, 1, 3] == [part.index for part in merged.parts]
        assert [2] == [each.index for each in merged.tool_calls]
        assert ["a", "b"] == [each for each in list_texts(*events[:8]) if each][:2]


class TestItems:
    def test_other_ids(self):
        """
        Where ids differ from event to event, places decide.
        """
        merged = collected(
            added(message(id="x")),
            {**piece("a"), "item_id": "y"},
            {**piece("b"), "item_id": "z"},
            done(message("ab", id="w")),
            end(message("ab", id="v")),
        )

        assert (TextPart("ab", index=0),) == bare_parts(merged)

    def test_one_place_for_all(self):
        """
        Where places are the same, ids decide.
        """
        merged = collected(
            added(thought()),
            {**piece("a", "reasoning_summary_text"), "item_id": "rs_1"},
            done(thought("a")),
            added(BEGUN),
            {**piece("b"), "item_id": "msg_1"},
            done(message("b")),
            end(thought("a"), message("b")),
        )

        assert (ReasoningPart("a", index=0), TextPart("b", index=1)) == bare_parts(
            merged
        )

    def test_again(self):
        """
        An item that is announced twice is given once.
        """
        events = [added(BEGUN), piece("a"), done(message("a"))]
        merged = collected(*events[:2], *events, *events[2:], end(message("a")))

        assert "aa" == merged.text
        assert 1 == len(merged.parts)

    def test_another_in_its_place(self):
        """
        After one that is done, another one may have its place.
        """
        merged = collected(done(call()), done(call("g", call_id="c2")))

        assert ["f", "g"] == [each.name for each in merged.tool_calls]

    def test_goes_on_after_its_end(self):
        """
        Pieces with the id of an item that is done are of another one, which is one
        however many there are.
        """
        named = {"item_id": "msg_1"}
        pieces = [piece(each, **named, new=each) for each in "bcd"]
        merged = collected(added(BEGUN), piece("a"), done(message("a")), *pieces)

        assert ("a", "bcd") == tuple(part.text for part in merged.parts)

    def test_waits_and_is_done_before_its_turn(self):
        """
        After a call that waited, and is done, a piece is of another call.
        """
        late = [added(call(), 1), asked("{", 1), done(call(arguments="{"), 1)]
        whole = [added(BEGUN), *late, done(message("a"))]
        merged = collected(*whole, asked("}", 1))

        assert ["{", "}"] == [each.arguments for each in merged.tool_calls]

    def test_only_in_the_whole_response(self):
        """
        An item that came in pieces is one of those in the whole response, and
        the others are new.
        """
        other = message("y")
        del other["id"]
        merged = collected(
            done(message("x", id="b"), 1), end(message("x", id="b"), other)
        )

        assert ["x", "y"] == [part.text for part in merged.parts]

    def test_nothing_announced(self):
        """
        A stream that goes on after a pause has no beginning.
        """
        events = [
            {**piece("a", "reasoning_summary_text", 3), "item_id": "rs_1"},
            {**piece("b", at=4), "item_id": "msg_1"},
            {**piece("c", at=4), "item_id": "msg_1"},
        ]

        merged = collected(*events)

        assert ("a", "bc") == (merged.reasoning, merged.text)
        assert ["rs_1", "msg_1"] == [
            each["id"] for each in dump([merged]).payload["input"]
        ]

    def test_a_text_and_no_list(self):
        """
        The end's content may be a text.
        """
        whole = message(content="Hello")
        for events in ([piece("Hel"), done(whole)], [done(whole)]):
            assert "Hello" == collected(*events).text

    def test_nothing_announced_and_no_end(self):
        """
        A message may be announced without content, and then the stream ends.
        """
        kinds = ("output_item.added", "output_item.done")
        empty = {"type": "message", "role": "assistant", "id": "msg_1"}
        first, last = [event(kind, item=empty, output_index=0) for kind in kinds]
        merged = collected(first)
        chunks, error = given_before([first, last], DecodeError)

        assert () == merged.parts
        assert "interrupted" == merged.response.finish_reason
        assert ["$[1].item.content"] == [each.path for each in error.problems]
        assert "interrupted" == concat(chunks).response.finish_reason


def bare_parts(one):
    """
    The parts of *one* without notes.
    """
    return tuple(type(part)(part.text, index=part.index) for part in one.parts)


class TestResponse:
    def test_usage_once(self):
        """
        With the provider's last numbers, also smaller ones.
        """
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
        """
        Come with the pieces; where they don't, with the end.
        """
        tokens = [{"token": each, "logprob": -1.0} for each in "ab"]
        pieces = [piece(each["token"], logprobs=[each]) for each in tokens]
        whole = message(text("ab", logprobs=tokens))
        likely = (LogProb("a", -1.0), LogProb("b", -1.0))

        for events in (
            [*pieces, done(whole)],
            [piece("a"), piece("b"), done(whole)],
            [done(whole)],
            pieces,
        ):
            assert likely == collected(*events).response.logprobs

    def test_notes(self):
        """
        The response's fields are noted, as they are at the end.
        """
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
            "response.audio.delta": {"delta": "iVBORw0K"},
            "response.output_text.delta": {"mood": "good"},
        } == notes(merged)["events"]
        assert "a" == merged.text

    def test_unknown_events_of_items(self):
        """
        Also those about an item of ours.
        """
        merged = collected(
            added(BEGUN), event("message.mood", mood="good", output_index=0)
        )

        assert {"mood": "good", "output_index": 0} == notes(merged)["events"][
            "response.message.mood"
        ]

    def test_unknown_blocks(self):
        """
        A block of an unknown type is kept in its place.
        """
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
        """
        A stream without its end was interrupted.
        """
        assert reason == collected(*events).response.finish_reason

    def test_empty_response(self):
        """
        An empty response is not sent back.
        """
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
        """
        With the provider's message, after everything before it.
        """
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
            (end(usage={"input_tokens": -1}), "$[1].response.usage.input_tokens"),
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
        """
        All problems with an event are reported at once.
        """
        wrong = call(name=5, arguments=None)
        _, error = given_before([done(wrong)], DecodeError)

        assert 2 == len(error.problems)

    def test_all_of_the_output(self):
        """
        And all that is wrong with the output of the end.
        """
        _, error = given_before([end(5, {"type": 5}, call(name=5))], DecodeError)

        assert [
            "$[0].response.output[0]",
            "$[0].response.output[1].type",
            "$[0].response.output[2].name",
        ] == [problem.path for problem in error.problems]


# A response, whole and cut into events


@st.composite
def spoken(draw, at):
    """
    A message, and the events it may come in at the place *at*.
    """
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
            *[piece(p, kind, at, number) for p in draw(cuts(words))],
            event(f"{kind}.done", **{key: words}, **place),
            event("content_part.done", part=block, **place),
        ]
        blocks.append(block)

    whole = message(*blocks, id=f"msg_{at}")
    return whole, [added(message(id=f"msg_{at}"), at), *events, done(whole, at)]


@st.composite
def thinking(draw, at):
    """
    A thought, and its events.
    """
    summary = draw(st.lists(texts(), max_size=2))
    signed = draw(st.just({}) | texts().map(lambda words: {"encrypted_content": words}))
    whole = thought(*summary, id=f"rs_{at}", **signed)
    events = [
        piece(p, "reasoning_summary_text", at, number)
        for number, words in enumerate(summary)
        for p in draw(cuts(words))
    ]
    return whole, [added(thought(id=f"rs_{at}"), at), *events, done(whole, at)]


@st.composite
def calling(draw, at):
    """
    A call, and its events.
    """
    whole = call(call_id=f"c{at}", arguments=draw(texts()), id=f"fc_{at}")
    pieces = [asked(p, at) for p in draw(cuts(whole["arguments"]))]
    return whole, [added({**whole, "arguments": ""}, at), *pieces, done(whole, at)]


@st.composite
def searching(draw, at):
    """
    A search, and its events.
    """
    whole = {"type": "web_search_call", "id": f"ws_{at}", "action": draw(texts())}
    begun = {"type": "web_search_call", "id": f"ws_{at}"}
    searched = event("web_search_call.searching", output_index=at)
    return whole, [added(begun, at), searched, done(whole, at)]


@st.composite
def responses_and_events(draw):
    """
    A response, and the events it may have come in.
    """
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
    """
    What the streams of all adapters promise.
    """

    adapter: ClassVar = openai_responses
    provider: ClassVar = "openai_responses"
    made: ClassVar = responses_and_events()
    failures: ClassVar = [
        {"type": "error", "message": "no"},
        {"type": "response.failed", "response": {"error": {"message": "no"}}},
    ]

    def pieces(self, size):
        """
        A text in pieces.
        """
        return [added(BEGUN), *[piece("a")] * size]

    def asked(self, size):
        """
        A call, and its arguments in pieces.
        """
        return [added(call(arguments="")), *[asked("1")] * size]

    def is_end(self, event):
        """
        The event has the whole response.
        """
        return event["type"] in {"response.completed", "response.failed"}


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
    """
    The parts of *one* in the order of their indexes.
    """
    return sorted(one.parts, key=lambda part: part.index)


# Real traffic


@pytest.mark.parametrize("path", RECORDED, ids=[path.stem for path in RECORDED])
class TestRecorded:
    def test_collects(self, path):
        """
        Recorded streams collect to the content of their pieces.
        """
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

    def test_goes_back(self, path):
        """
        What was collected can be sent again, and nothing is lost.
        """
        merged = collected(*events_of(path))
        export = dump([merged])

        *_, last = events_of(path)
        assert () == export.lost
        assert [each["type"] for each in last["response"]["output"]] == [
            each["type"] for each in export.payload["input"]
        ]
        assert bare(merged).text == bare(load(export.payload)[0]).text


def unsigned(one):
    """
    The parts of *one* in their places, without signatures, and the calls.
    """
    parts = [
        ReasoningPart(part.text, index=part.index, metadata=part.metadata)
        if isinstance(part, ReasoningPart)
        else part
        for part in one.parts
    ]
    return sorted(parts, key=lambda part: part.index or 0), one.tool_calls
