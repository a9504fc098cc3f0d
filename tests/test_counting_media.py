"""Media inside of what is kept verbatim count as media."""

import base64
from typing import Any

import pytest

from conversation_state.adapters import anthropic, gemini, openai_chat, openai_responses
from conversation_state.chunks import concat
from conversation_state.counting import by_characters, by_encoding, count
from conversation_state.messages import AssistantMessage, UnknownMessage, UserMessage
from conversation_state.parts import AudioPart, FilePart, ImagePart, UnknownPart
from conversation_state.testing.provider import judge

PNG = b"\x89PNG\r\n\x1a\n" + bytes(60_000)
PDF = b"%PDF-1.7" + bytes(60_000)
WAV = b"RIFF\0\0\0\0WAVE" + bytes(60_000)
ENVELOPE = 60  # tokens of the JSON around media


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def unknown(raw: dict[str, Any]) -> UserMessage:
    return UserMessage([UnknownPart(raw, source="openai_responses")])


RAWS: dict[str, tuple[Any, Any]] = {
    "an image that a tool made": (
        {"type": "image_generation_call", "id": "i", "result": encoded(PNG)},
        ImagePart(data=PNG),
    ),
    "a screenshot": (
        {
            "type": "computer_call_output",
            "output": {
                "type": "computer_screenshot",
                "image_url": f"data:image/png;base64,{encoded(PNG)}",
            },
        },
        ImagePart(data=PNG),
    ),
    "an image in low detail": (
        {
            "type": "new",
            "image_url": f"data:image/png;base64,{encoded(PNG)}",
            "detail": "low",
        },
        ImagePart(data=PNG, detail="low"),
    ),
    "a fetched document": (
        {
            "type": "web_fetch_tool_result",
            "content": {
                "content": {
                    "source": {
                        "type": "base64",
                        "media_type": "application/pdf",
                        "data": encoded(PDF),
                    }
                }
            },
        },
        FilePart(data=PDF, media_type="application/pdf"),
    ),
    "a document of no stated type": (
        {"type": "new", "blob": encoded(PDF)},
        FilePart(data=PDF),
    ),
    "a text file": (
        {"source": {"media_type": "text/plain", "data": encoded(b"a" * 4_000)}},
        FilePart(data=b"a" * 4_000, media_type="text/plain"),
    ),
    "Gemini's inline data": (
        {"new": {"inlineData": {"mimeType": "image/png", "data": encoded(PNG)}}},
        ImagePart(data=PNG),
    ),
    "audio": (
        {"type": "input_audio", "input_audio": {"data": encoded(WAV), "format": "wav"}},
        AudioPart(data=WAV, media_type="audio/wav"),
    ),
    "audio without a signature": (
        {"type": "x", "audio": {"data": encoded(bytes(60_000)), "format": "pcm16"}},
        AudioPart(data=bytes(60_000), media_type="audio/pcm"),
    ),
    "a result of MCP, deep in a list": (
        {"a": [{"b": [[{"type": "image", "data": encoded(PNG), "mimeType": "x/y"}]]}]},
        FilePart(data=PNG),
    ),
    "an image of no known format": (
        {"type": "image_generation_call", "result": "A" * 80_000},
        ImagePart(data=b"x"),
    ),
    "a small image": (
        {"image": {"mimeType": "image/png", "data": encoded(PNG[:60])}},
        ImagePart(data=PNG[:60]),
    ),
    "base64 in lines": (
        {"type": "new", "image": base64.encodebytes(PNG).decode()},
        ImagePart(data=PNG),
    ),
}


@pytest.mark.parametrize(("raw", "part"), RAWS.values(), ids=RAWS)
@pytest.mark.parametrize("counter", [by_characters, by_encoding(list)])
def test_counts_as_a_part(counter, raw, part):
    """As the same media count as a part, but for the JSON around them."""
    expected = counter(UserMessage([part]))
    around = 6 * ENVELOPE if counter is not by_characters else ENVELOPE

    assert expected <= counter(unknown(raw)) <= expected + around
    message = UnknownMessage(raw, source="x")
    assert expected - 8 <= counter(message) <= expected + around


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "new", "text": "a" * 9_000},
        {"type": "new", "output": "a word " * 2_000},
        {"type": "redacted_thinking", "data": "A" * 9_000},
        {"type": "new", "encrypted_content": "A" * 9_000},
        {"type": "new", "url": "data:text/plain,hello"},
        *[
            {"type": "new", key: "A" * 9_000}
            for key in (
                "arguments",
                "code",
                "partial_json",
                "query",
                "refusal",
                "thinking",
            )
        ],
    ],
    ids=" ".join,
)
def test_texts(raw):
    """Texts, and what is encrypted, count as the JSON text they are."""
    tokens = by_characters(unknown(raw))

    assert tokens >= sum(map(len, raw.values())) // 4


@pytest.mark.parametrize("key", ["thoughtSignature", "thought_signature"])
@pytest.mark.parametrize(
    "part",
    [
        {"text": "hi"},
        {"functionCall": {"name": "f", "args": {}}},
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"toolResponse": {"id": "a", "response": {}}},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
    ],
    ids=lambda part: next(iter(part)),
)
def test_signatures(part, key):
    """Gemini's signature of a part counts nowhere, whatever it signs."""

    def count(part):
        contents = [{"role": "model", "parts": [part]}]
        (message,) = gemini.load(contents)
        whole = UnknownMessage(contents[0], source="x")
        return by_characters(message), by_characters(whole)

    assert count(part) == count({**part, key: "c2ln" * 9_000})


def test_loaded():
    """A history with such items is as small as the provider counts it."""
    image = {"type": "image_generation_call", "id": "ig", "result": encoded(PNG)}
    (answer,) = openai_responses.load([image])
    code = {"type": "code_execution_tool_result", "file": encoded(PNG)}
    (claude,) = anthropic.load([{"role": "assistant", "content": [code]}])
    tool = {
        "toolResponse": {"inlineData": {"mimeType": "image/png", "data": "A" * 9000}}
    }
    (google,) = gemini.load([{"role": "model", "parts": [tool]}])
    chat = {"type": "new", "image": encoded(PNG)}
    (other,) = openai_chat.load([{"role": "assistant", "content": [chat]}])

    for message in (answer, claude, google, other):
        assert isinstance(message, AssistantMessage)
        assert 765 <= by_characters(message) <= 900


DRAWN = {
    "type": "image_url",
    "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="},
}


class TestImagesOfAnAnswer:
    """What a model drew stands next to the content of its answer."""

    @pytest.mark.parametrize("content", ["Here.", "", None])
    @pytest.mark.parametrize("is_stream", [False, True])
    def test_counts(self, content, is_stream):
        """It is content, counts as an image, and goes back where it came from."""
        said = {"role": "assistant", "content": content}
        [answer] = openai_chat.load(
            {"choices": [{"message": {**said, "images": [DRAWN, DRAWN]}}]}
        )
        if is_stream:
            deltas = [said, {"images": [DRAWN]}, {"images": [DRAWN]}]
            answer = concat(
                [
                    *openai_chat.load_chunks(
                        {"choices": [{"delta": delta}]} for delta in deltas
                    )
                ]
            )

        text = AssistantMessage(content or "")
        drawn = count(answer, by_characters) - count(text, by_characters)
        messages = [UserMessage("Draw!"), answer, UserMessage("Bluer!")]
        export = openai_chat.dump(messages)

        assert 2 * 765 <= drawn <= 2 * 765 + ENVELOPE
        assert [ImagePart, ImagePart] == [type(one) for one in answer.parts[-2:]]
        assert [DRAWN, DRAWN] == export.payload["messages"][1]["images"]
        assert (content or "") == export.payload["messages"][1]["content"]
        assert () == export.lost
        assert () == judge("openai_chat", export.payload, level="openrouter")
        parts = gemini.dump(messages).payload["contents"][1]["parts"]
        assert ["inlineData"] * 2 == [key for part in parts[-2:] for key in part]

    @pytest.mark.parametrize("images", [None, [], "x", [{"type": "x"}], [DRAWN, {}]])
    def test_of_another_form(self, images):
        """What can't be read is kept."""
        said = {"role": "assistant", "content": "Here.", "images": images}
        loaded = openai_chat.load([said])

        assert [said] == openai_chat.dump(loaded).payload["messages"]
