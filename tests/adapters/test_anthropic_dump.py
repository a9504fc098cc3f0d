"""From messages to Anthropic Messages."""

import pytest

from conversation_state.adapters import anthropic
from conversation_state.adapters.anthropic import load
from conversation_state.messages import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.tools import ToolCall
from tests.adapters.anthropic import (
    PNG,
    PNG_BASE64,
    answer,
    call,
    result,
    several,
    system,
    text,
    user,
)
from tests.adapters.contract import as_json
from tests.adapters.helpers import table
from tests.adapters.pieces import as_is

dump = as_is(anthropic).dump


def dumped(*given, **options):
    """What *given* are in the format, and what is lost of them."""
    export = dump(given, **options)
    return export.payload, [(lost.path, lost.what) for lost in export.lost]


def sent(*given):
    """The messages that *given* are, of which nothing is lost."""
    payload, lost = dumped(*given)

    assert [] == lost
    return payload["messages"]


def block(part, role="user"):
    """The block that *part* is, and what is lost of it."""
    kinds = {"assistant": AssistantMessage, "user": UserMessage}
    payload, lost = dumped(kinds[role]([part]))
    found = [block for message in payload["messages"] for block in message["content"]]
    return (found or [None])[0], [what for _, what in lost]


def spoken(role, words):
    """A message in JSON whose content is a text."""
    return {"role": role, "content": words}


def asks(call_id="toolu_1", **fields):
    """An assistant's message that calls a tool."""
    return AssistantMessage(tool_calls=[ToolCall(call_id, "f", "{}", **fields)])


def answers(call_id="toolu_1", content="ok", **fields):
    """The result of a tool."""
    return ToolMessage(content, tool_call_id=call_id, **fields)


POSITION = "position"
LINK = {"type": "image", "source": {"type": "url", "url": "https://x"}}


class TestTurns:
    @table(
        "given, payload, lost",
        {
            "between a user and an answer, and at the end, it stays where it is": (
                [
                    *(UserMessage("a"), SystemMessage("b"), AssistantMessage("c")),
                    *(answers(), SystemMessage("d"), SystemMessage("e")),
                ],
                {
                    "messages": [
                        spoken("user", "a"),
                        spoken("system", "b"),
                        spoken("assistant", "c"),
                        user(result()),
                        system(text("d"), text("e")),
                    ]
                },
                [],
            ),
            "between a user's messages, or a call and its result, it has to wait": (
                [
                    *(asks(), SystemMessage("a"), answers(), SystemMessage("b")),
                    *(UserMessage("c"), AssistantMessage("d")),
                ],
                {
                    "messages": [
                        answer(call()),
                        user(result(), text("c")),
                        system(text("a"), text("b")),
                        spoken("assistant", "d"),
                    ]
                },
                [("messages[1]", POSITION), ("messages[3]", POSITION)],
            ),
            "after an answer it has no place but on top": (
                [
                    *(SystemMessage("a"), UserMessage("b")),
                    *(AssistantMessage("c"), SystemMessage("d")),
                ],
                {
                    "system": [text("a"), text("d")],
                    "messages": [spoken("user", "b"), spoken("assistant", "c")],
                },
                [("messages[3]", POSITION)],
            ),
            "a message of which nothing is left is no place to stand behind": (
                [
                    UserMessage([AudioPart(data=b"x")]),
                    *(SystemMessage("a"), AssistantMessage("b")),
                ],
                {"system": "a", "messages": [spoken("assistant", "b")]},
                [("messages[0].parts[0]", "audio")],
            ),
            "a user's message before the results stands behind them": (
                [asks(), UserMessage("a"), answers()],
                {"messages": [answer(call()), user(result(), text("a"))]},
                [("messages[2]", POSITION)],
            ),
            "neighbours of one role are one message, as the provider makes them": (
                [
                    *(UserMessage("a"), UserMessage([TextPart("b")])),
                    AssistantMessage("c"),
                    AssistantMessage("d", tool_calls=[ToolCall("toolu_1", "f")]),
                ],
                {
                    "messages": [
                        user(text("a"), text("b")),
                        answer(text("c"), text("d"), call()),
                    ]
                },
                [],
            ),
            "nothing that is empty is sent": (
                [
                    *(UserMessage(""), UserMessage([]), AssistantMessage("")),
                    *(SystemMessage(""), UserMessage([TextPart("")])),
                    AssistantMessage(
                        [TextPart("", index=0)], tool_calls=[ToolCall("c", "f")]
                    ),
                    answers("c", [TextPart("")]),
                ],
                {"messages": [answer(call("c")), user(result("c", []))]},
                [
                    *[(f"messages[{at}]", "content") for at in range(4)],
                    *[(f"messages[{at}].parts[0]", "text") for at in (4, 5, 6)],
                ],
            ),
            "white space is sent beside other text, and refused without": (
                [
                    UserMessage(" \n"),
                    AssistantMessage([TextPart("\n"), TextPart("a")]),
                    UserMessage([TextPart("\t"), ImagePart(url="https://x")]),
                    *(SystemMessage("\n"), AssistantMessage(" ")),
                ],
                {"messages": [answer(text("\n"), text("a")), user(LINK)]},
                [
                    ("messages[0].content", "text"),
                    ("messages[2].parts[0]", "text"),
                    ("messages[3].content", "text"),
                    ("messages[4].content", "text"),
                ],
            ),
            "what is not sent separates nothing": (
                [
                    *(UserMessage("a"), AssistantMessage(" ")),
                    *(SystemMessage("s"), UserMessage("b")),
                ],
                {
                    "messages": [
                        user(text("a"), text("b")),
                        spoken("system", "s"),
                    ]
                },
                [("messages[1].content", "text"), ("messages[2]", POSITION)],
            ),
            "what is lost is listed in the order of the messages": (
                [
                    *(asks(), SystemMessage("s")),
                    *(UserMessage("a", name="ann"), AssistantMessage("b")),
                ],
                {
                    "messages": [
                        *(answer(call()), spoken("user", "a")),
                        *(spoken("system", "s"), spoken("assistant", "b")),
                    ]
                },
                [("messages[1]", POSITION), ("messages[2]", "name")],
            ),
            "system content on top is no message: its fields are lost": (
                load(
                    [user(text("a")), system(text("b")) | {"x": 1}, answer(text("c"))]
                )[1:],
                {"system": [text("b")], "messages": [answer(text("c"))]},
                [("messages[0]", "x")],
            ),
            "of different values of a field in neighbours the first one stands": (
                [
                    message
                    for fields in ({"x": 1}, {"x": 1, "y": 2}, {"x": 3})
                    for message in load([user(text("a")) | fields])
                ],
                {"messages": [user(*[text("a")] * 3) | {"x": 1, "y": 2}]},
                [("messages[2]", "x")],
            ),
        },
    )
    def test_turns(self, given, payload, lost):
        """Messages are these turns, and this is lost of them."""
        assert (payload, lost) == dumped(*given)
        assert payload["messages"] == sent(*load(payload["messages"]))

    def test_all_on_top(self):
        """For models that take no system message in the middle."""
        given = [
            *(UserMessage("a"), SystemMessage("b"), AssistantMessage("c")),
            *(UserMessage("d"), SystemMessage("e")),
        ]
        payload, lost = dumped(*given, system_on_top=True)

        assert [text("b"), text("e")] == payload["system"]
        assert ["user", "assistant", "user"] == [
            message["role"] for message in payload["messages"]
        ]
        assert [("messages[1]", POSITION), ("messages[4]", POSITION)] == lost

    @pytest.mark.parametrize(
        "kind", ["server_tool_use", "mcp_tool_use", "web_search_tool_result"]
    )
    def test_after_a_tool_of_the_provider(self, kind):
        """
        An assistant that pauses for one of the provider's tools may be followed by a
        system message.
        """
        history = [user(text("a")), answer({"type": kind}), system(text("b"))]

        assert history == sent(*load(history))

    @pytest.mark.parametrize(
        ("parts", "calls", "expected"),
        [
            ([1], [0], "c0 p0"),
            ([2, 0], [1], "c0 p0 p1"),
            ([0, 3], [2, 1], "p0 c0 c1 p1"),
            ([0, None, 4], [1, None], "p0 p1 c0 p2 c1"),
        ],
    )
    def test_order_of_others(self, parts, calls, expected):
        """
        Parts keep their order among themselves, and so do calls; what has no
        place in the response stands where the message has it.
        """
        message = AssistantMessage(
            [TextPart(f"p{at}", index=index) for at, index in enumerate(parts)],
            tool_calls=[
                ToolCall(f"c{at}", "f", index=index) for at, index in enumerate(calls)
            ],
        )
        (raw,) = sent(message)

        assert expected.split() == [
            one.get("text", one.get("id")) for one in raw["content"]
        ]


class TestCalls:
    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ('{"q": 1}', {"q": 1}),
            ('{"q', {"INVALID_JSON": '{"q'}),
            ("[1]", {"INVALID_JSON": "[1]"}),
            ('{"a": NaN}', {"INVALID_JSON": '{"a": NaN}'}),
            ('{"a": 1, "a": 2}', {"INVALID_JSON": '{"a": 1, "a": 2}'}),
            ('{"a": "\\ud800"}', {"INVALID_JSON": '{"a": "\\ud800"}'}),
            ('{"a": "\\u00e9"}', {"a": "\u00e9"}),
            ('{"INVALID_JSON": "{"}', {"INVALID_JSON": '{"INVALID_JSON": "{"}'}),
            ('{"INVALID_JSON": "{}"}', {"INVALID_JSON": "{}"}),
        ],
    )
    def test_arguments(self, arguments, expected):
        """
        The text of an object is the object; all else is wrapped, and comes
        out of its wrapper as it was.
        """
        history = sent(AssistantMessage(tool_calls=[ToolCall("c", "f", arguments)]))
        (again,) = several(history)

        assert as_json([answer({**call("c"), "input": expected})]) == as_json(history)
        if "INVALID_JSON" in expected and expected["INVALID_JSON"] == arguments:
            assert arguments == again.tool_calls[0].arguments

    @pytest.mark.parametrize("depth", [100_000])
    def test_deep_arguments(self, depth):
        """However deep, nothing crashes."""
        arguments = '{"a":' * depth + "1" + "}" * depth
        (message,) = sent(AssistantMessage(tool_calls=[ToolCall("c", "f", arguments)]))
        given = message["content"][0]["input"]

        assert {"a"} == {*given} or {"INVALID_JSON": arguments} == given

    def test_ids(self):
        """
        Ids are as the provider takes them, the same for call and result, and
        no two become one.
        """
        export = anthropic.dump(
            [
                UserMessage("a"),
                AssistantMessage(
                    tool_calls=[
                        ToolCall("f.g:0", "f"),
                        ToolCall("f_g_0", "f"),
                        ToolCall("", "f"),
                    ]
                ),
                answers("f_g_0"),
                answers("f.g:0"),
            ]
        )
        _, calls, results = [each["content"] for each in export.payload["messages"]]

        assert ["f_g_0-2", "f_g_0", "call"] == [each["id"] for each in calls]
        assert ["f_g_0", "f_g_0-2"] == [each["tool_use_id"] for each in results]
        assert {"id", "tool_call_id"} == {lost.what for lost in export.lost}

    def test_many_ids_alike(self):
        """However many ids are one when they are mended, they stay short."""
        calls = [ToolCall(chr(0x4E00 + at), "f") for at in range(500)]
        payload = anthropic.dump([AssistantMessage(tool_calls=calls)]).payload
        ids = [block["id"] for block in payload["messages"][0]["content"]]

        assert ["_", "_-2", "_-3", "_-500"] == [*ids[:3], ids[-1]]
        assert 500 == len(set(ids))

    def test_names(self):
        """A result has the name of its call, and no other."""
        named = answers(tool_name="f")

        assert [answer(call()), user(result())] == sent(asks(), named)
        assert [("messages[0]", "tool_name")] == dumped(named)[1]
        assert [("messages[1]", "tool_name")] == (
            dumped(asks(), answers(tool_name="g"))[1]
        )

    def test_errors(self):
        """A failure without content can't be sent, and is listed."""
        payload, lost = dumped(
            answers(content="no", is_error=True),
            answers(content="", is_error=True),
            answers(content=[], is_error=True),
        )

        assert [
            result(content="no", is_error=True),
            result(content=""),
            result(content=[]),
        ] == payload["messages"][0]["content"]
        assert [("messages[1]", "is_error"), ("messages[2]", "is_error")] == lost


class TestReasoning:
    def test_made_by_hand(self):
        """A signature added by hand is trusted; unsigned reasoning is lost."""
        assert ({"type": "thinking", "thinking": "a", "signature": "x"}, []) == block(
            ReasoningPart("a", "x"), "assistant"
        )
        assert (None, ["reasoning"]) == block(ReasoningPart("a"), "assistant")

    @pytest.mark.parametrize("name", ["gemini"])
    def test_of_others(self, name):
        """Another provider's signature is not sent."""
        noted = {"conversation_state": {name: {"signed": True}}}
        part = ReasoningPart("a", "x", metadata=noted)

        assert (None, ["reasoning"]) == block(part, "assistant")
        assert all(name in lost.why for lost in dump([AssistantMessage([part])]).lost)

    def test_own(self):
        """Its own is dumped, whatever other notes there are."""
        noted = {
            "conversation_state": {
                "anthropic": {"signed": True},
                "gemini": {"signed": True},
            }
        }
        part = ReasoningPart("a", "x", metadata=noted)

        assert "x" == block(part, "assistant")[0]["signature"]


class TestMedia:
    def test_images(self):
        """By content, by url, and by what looks like one."""
        source = {"type": "base64", "media_type": "image/png", "data": PNG_BASE64}
        linked = {"type": "url", "url": "https://x"}
        shown = {"type": "image", "source": source}

        assert (shown, []) == block(ImagePart(data=PNG, media_type="image/png"))
        assert (shown, []) == block(ImagePart(data=PNG))
        assert (shown, []) == block(
            ImagePart(url=f"data:image/png;base64,{PNG_BASE64}")
        )
        assert ({"type": "image", "source": linked}, []) == block(
            ImagePart(url="https://x")
        )

    @pytest.mark.parametrize(
        ("data", "media_type"),
        [
            (b"GIF89a", "image/gif"),
            (b"RIFF\0\0\0\0WEBPVP8", "image/webp"),
        ],
    )
    def test_unnamed(self, data, media_type):
        """Images without a media type are known by their first bytes."""
        shown, lost = block(ImagePart(data=data))

        assert (media_type, []) == (shown["source"]["media_type"], lost)

    def test_documents(self):
        """PDF by content, all text as plain text, with its name."""
        pdf, _ = block(FilePart(data=b"%PDF-1.7", name="a.pdf"))
        note, _ = block(FilePart(data="gr\u00fcn".encode(), media_type="text/plain"))
        table, lost = block(FilePart(data=b"a,b", media_type="text/csv"))
        plain = {"type": "text", "media_type": "text/plain"}

        assert "a.pdf" == pdf["title"]
        assert ("base64", "application/pdf") == (
            pdf["source"]["type"],
            pdf["source"]["media_type"],
        )
        assert {**plain, "data": "gr\u00fcn"} == note["source"]
        assert {**plain, "data": "a,b"} == table["source"]
        assert ["media_type"] == lost

    @pytest.mark.parametrize(
        "part",
        [
            AudioPart(data=b"x"),
            FilePart(data=b"\xff\xfe"),
            FilePart(data=b"PK", media_type="application/zip"),
        ],
    )
    def test_refused(self, part):
        """What the provider takes nowhere is lost."""
        assert (None, [part.kind]) == block(part)

    def test_words(self):
        """How closely to look, and of what type a url is, has no place."""
        part = ImagePart(url="https://x", detail="high", media_type="image/png")

        assert ["media_type", "detail"] == block(part)[1]


class TestOthers:
    def test_refusals(self):
        """A refusal is sent as a text, and listed as lost."""
        assert (text("no"), ["refusal"]) == block(RefusalPart("no"), "assistant")
        assert (None, ["refusal"]) == block(RefusalPart(""), "assistant")

    def test_unknown_parts(self):
        """
        Blocks of its own go back; those of others, and what is not a block, are
        lost.
        """
        own = {"type": "server_tool_use", "id": "a", "input": {}}
        for raw, source, lost in (
            (own, "anthropic", []),
            (own, "gemini", ["server_tool_use"]),
            (own, "", ["server_tool_use"]),
            ({"id": 1}, "anthropic", ["unknown"]),
            ({"type": "text"}, "anthropic", ["text"]),
            (call(), "anthropic", ["tool_use"]),
        ):
            expected = None if lost else raw

            assert (expected, lost) == block(
                UnknownPart(raw, source=source), "assistant"
            )

    def test_unknown_messages(self):
        """Likewise with messages."""
        addition = system({"type": "tool_addition"})
        wrong = {"role": "robot", "content": "a"}

        assert [{"role": "user", "content": "a"}, addition] == sent(
            UserMessage("a"), UnknownMessage(addition, source="anthropic")
        )
        assert [("messages[0]", "robot")] == dumped(
            UnknownMessage(wrong, source="gemini")
        )[1]
        assert [("messages[0]", "unknown")] == dumped(
            UnknownMessage(wrong, source="anthropic")
        )[1]

    def test_after_an_unknown_message(self):
        """A system message may follow one, and the user's next message is separate."""
        addition = system({"type": "tool_addition"})
        history = [user(text("a")), addition, system(text("b")), answer(text("c"))]
        loaded = load(history)

        assert history == sent(*loaded)
        assert [*history[:2], user(text("d"))] == sent(
            *loaded[:2], UserMessage([TextPart("d")])
        )
