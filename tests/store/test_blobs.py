"""Large content is kept once, beside the messages that show it."""

from itertools import count
from typing import Any

import pytest

from conversation_state import (
    Aggregator,
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import AudioPart, FilePart, ImagePart, TextPart, VideoPart
from conversation_state.store import Store
from conversation_state.store._log import LARGE
from conversation_state.store.backends.memory import MemoryBackend
from tests.store.promises.case import RecordingBackend


@pytest.fixture
def backend():
    return MemoryBackend()


def blobs(backend):
    with backend.reading() as rows:
        return rows.scan("blobs", None, None)


class TestKeeping:
    @pytest.mark.parametrize("part", [ImagePart, AudioPart, VideoPart, FilePart])
    def test_every_kind(self, backend, part):
        """
        Content of any kind, in messages of any role, several in each, comes back in its
        place, and is stored once.
        """
        one, two = bytes(range(256)) * 16, b"\0" * 5_000
        parts = [
            part(data=one, media_type="a/b"),
            TextPart("look"),
            part(data=two),
            part(data=one),
            part(url="https://a/b"),
        ]
        state = Aggregator.new(
            messages=[
                SystemMessage("look"),
                UserMessage(parts),
                AssistantMessage(parts),
                ToolMessage(parts, tool_call_id="c1"),
                UserMessage(parts[::-1]),
            ]
        )
        store = Store(backend)
        store.save("chat", state)

        assert state == Store(backend).load("chat")
        assert state[2:] == list(Store(backend).load("chat", last=3).messages)
        assert {one, two} == {data for _, _, data in blobs(backend)}
        assert () == store.verify()

        store.save("chat", state.add_user_prompt("and?"))
        for entry in state.entries:
            assert 0 == len(store.verify())
            store.erase(entry.id, reason="asked for")

        assert [] == blobs(backend)

    def test_threshold(self, backend):
        """One byte less than large is kept in the message."""
        for size, there in ((LARGE - 1, 0), (LARGE, 1), (LARGE + 1, 2)):
            state = Aggregator.new(
                messages=[UserMessage([ImagePart(data=b"x" * size)])]
            )
            Store(backend).save(f"{size}", state)

            assert there == len(blobs(backend))
            assert state == Store(backend).load(f"{size}")

    def test_read_once(self, backend):
        """Content that many messages show is read once, and is one object."""
        data = bytes(100_000)
        shown = UserMessage([ImagePart(data=data), ImagePart(data=b"x" * 5_000)])
        Store(backend).save("chat", Aggregator.new(messages=[shown] * 100))
        read = count()

        def on_call(call):
            if call[:2] == ("get", "blobs"):
                next(read)

        loaded = Store(RecordingBackend(backend, on_call)).load("chat")

        assert 2 == next(read)
        assert [shown] * 100 == list(loaded)
        first: Any = loaded[0]
        last: Any = loaded[99]
        parts: list[Any] = [*first.content, *last.content]
        assert parts[0].data is parts[2].data
