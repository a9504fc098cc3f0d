"""
Chat Completions and its dialects: what all adapters promise, and real traffic.
"""

import base64
from contextlib import suppress
from typing import ClassVar

import attrs

from conversation_state.adapters import openai_chat
from conversation_state.adapters._notes import notes_of
from conversation_state.adapters.openai_chat import dump, load, load_usage
from conversation_state.errors import DecodeError
from conversation_state.messages import AssistantMessage
from conversation_state.parts import AudioPart, ImagePart, MediaPart
from tests.adapters.contract import FormatContract, as_json, bare
from tests.adapters.kept import lines
from tests.adapters.openai_chat import REQUESTS, RESPONSES, several
from tests.recorded import is_large


def as_it_comes_back(part):
    """
    *part* as it comes back: data: urls as bytes, audio of the usual type.
    """
    head, _, body = (part.url or "").partition(";base64,")
    if isinstance(part, ImagePart) and body and head.startswith("data:"):
        with suppress(ValueError):
            data = base64.b64decode(body, validate=True)
            part = ImagePart(data=data, media_type=head[5:], detail=part.detail)

    if isinstance(part, AudioPart):
        usual = {"audio/mp3": "audio/mpeg", "audio/wave": "audio/wav"}
        usual |= dict.fromkeys(("audio/x-wav", "audio/vnd.wave"), "audio/wav")
        part = attrs.evolve(
            part, media_type=usual.get(part.media_type, part.media_type)
        )

    return part


class TestContract(FormatContract):
    """
    What all adapters promise.
    """

    adapter: ClassVar = openai_chat
    documents: ClassVar = REQUESTS
    responses: ClassVar = RESPONSES

    def normalise(self, message):
        """
        An id that was made up is as good as none, and no parts are not text.
        """
        if isinstance(message, AssistantMessage):
            calls = [
                attrs.evolve(call, id="")
                if "made_id" in notes_of(call.metadata, "openai_chat")
                else call
                for call in message.tool_calls
            ]
            message = message.replace(tool_calls=calls)

        if getattr(message, "content", "") == ():
            message = message.replace(content="")

        if not isinstance(getattr(message, "content", ""), str):
            content = [
                as_it_comes_back(part) if isinstance(part, MediaPart) else part
                for part in message.content
            ]
            message = message.replace(content=content)

        return bare(message)


class TestRecorded:
    """
    Real conversations.
    """

    def test_transcripts(self, recordings):
        """
        A hundred conversations of an agent come back as they were.
        """
        chats = lines(recordings / "transcripts" / "airline.jsonl")

        for chat in chats:
            loaded = load(chat)
            export = dump(loaded)
            assert () == export.lost
            assert as_json(chat["messages"]) == as_json(export.payload["messages"])
            assert all(not message.metadata for message in loaded)
            assert [
                call["function"]["arguments"]
                for message in chat["messages"]
                for call in message.get("tool_calls") or []
            ] == [
                call.arguments
                for message in loaded
                for call in getattr(message, "tool_calls", ())
            ]

        assert (100 if is_large(recordings) else 4) == len(chats)

    def test_requests(self, recordings):
        """
        So do the requests of half a dozen providers.
        """
        for exchange in lines(recordings / "requests" / "openai_chat.jsonl"):
            export = dump(load(exchange["request"]))

            assert () == export.lost
            assert as_json(exchange["request"]["messages"]) == as_json(
                export.payload["messages"]
            )

    def test_responses(self, recordings):
        """
        Their responses load with what they cost, and can be sent back.
        """
        refused = []
        for exchange in lines(recordings / "requests" / "openai_chat.jsonl"):
            response = exchange["response"]
            try:
                (message,) = several(response)
            except DecodeError as error:
                refused.append((exchange["name"], [p.path for p in error.problems]))
                continue

            export = dump([message])
            choice = response["choices"][0]
            assert choice["finish_reason"] == message.response.finish_reason
            assert response["model"] == message.response.model
            assert load_usage(response) == message.response.usage
            assert load_usage(response["usage"]) == message.response.usage
            assert () == export.lost
            assert as_json([choice["message"]]) == as_json(export.payload["messages"])

        invalid = [("invalid_response#0", ["$"])]
        assert (invalid if is_large(recordings) else []) == refused
