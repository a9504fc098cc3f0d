"""
What the streams of every adapter promise, whatever its provider's events are.

A test file of an adapter's streams subclasses `StreamContract`, and says how a
stream of its provider looks: any (`response_streams`), and plain ones (`text_events`,
`call_events`).
"""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, given, is_hypothesis_test, settings
from hypothesis import strategies as st

from conversation_state.adapters.engine.streaming import Repeats
from conversation_state.chunks import Accumulator, concat
from conversation_state.errors import DecodeError, ProviderStreamError
from conversation_state.messages import AssistantMessage
from conversation_state.testing.contracts._adapters import put_junk, swap_texts
from tests.adapters.contract import JUNK, as_json, as_text, without_unique_ids
from tests.adapters.helpers import as_is
from tests.processes import count_calls
from tests.recorded import is_large

RaisedError = TypeVar("RaisedError", bound=Exception)


def events_of(path: Any) -> list[Any]:
    """The events of the stream that was recorded at *path*."""
    lines = path.read_text(encoding="utf-8").splitlines()
    data = [line[6:] for line in lines if line.startswith("data: ")]
    return [one if one == "[DONE]" else json.loads(one) for one in data]


def given_before(
    adapter: Any, events: Iterable[Any], error: type[RaisedError]
) -> tuple[list[Any], RaisedError]:
    """The chunks that *adapter* gives of *events* before an *error*, and that error."""
    given: list[Any] = []
    with pytest.raises(error) as caught:
        given.extend(adapter.load_chunks(events))

    return given, caught.value


def split_text(text: str) -> st.SearchStrategy[list[str]]:
    """Ways to split *text* into pieces."""
    places = st.sets(st.integers(0, len(text)), max_size=4).map(sorted)
    return places.map(
        lambda at: [
            text[start:end]
            for start, end in zip([0, *at], [*at, len(text)], strict=True)
        ]
    )


class StreamContract:
    """
    The promises on streams. What was said before something went wrong is given
    before it is raised, and always makes a message.

    Recorded streams are in ``tests/recordings/streams/NAME/*.sse``, by the name of the
    adapter: at least one, which may be written by hand.

    Attributes:
        response_streams: Whole responses, each with the events that say the same.

        failure_events: Events that say that the provider failed; none if the format
            has no such event.

        streams_arguments: Whether the arguments of calls come in pieces.
    """

    streams_arguments: ClassVar[bool] = True

    adapter: ClassVar[Any]
    response_streams: ClassVar[st.SearchStrategy[tuple[Any, list[Any]]]]
    failure_events: ClassVar[Sequence[Any]] = ()

    def text_events(self, size: int) -> list[Any]:
        """The events of a stream with a text in *size* pieces."""
        # Each format has its own.
        raise NotImplementedError

    def call_events(self, size: int) -> list[Any]:
        """
        The events of a stream that calls a tool, whose arguments come in *size*
        pieces; or of *size* calls, if the format has each in one event.
        """
        # Each format with calls has its own.
        raise NotImplementedError

    def recorded(self, recordings: Path) -> list[Path]:
        """The recorded streams of this format in the folder *recordings*."""
        _, _, name = self.adapter.__name__.rpartition(".")
        folder = recordings / "streams" / name
        if is_large(recordings) and not folder.is_dir():
            pytest.skip(f"the large collection has no streams of {name}")

        paths = sorted(folder.glob("*.sse"))
        assert paths, (
            f"{folder} has no *.sse: record a stream there, or write one by hand, a "
            "line `data: {…}` and an empty line for each event"
        )
        return paths

    def is_end(self, event: Any) -> bool:
        """Whether *event* ends the stream."""
        raise NotImplementedError

    def check(self, whole: Any, message: Any) -> None:
        """Check that the *message* of a stream is that of the *whole* response."""
        assert self.adapter.load(whole) == (message,)

    def read_all(self, events: Iterable[Any]) -> tuple[list[Any], Exception | None]:
        """The chunks of *events*, and what is raised after them."""
        chunks: list[Any] = []
        try:
            chunks.extend(self.adapter.load_chunks(events))
        except (DecodeError, OSError, ProviderStreamError) as error:
            return chunks, error

        return chunks, None

    def given_until(self, events: Sequence[Any], size: int) -> list[Any]:
        """The chunks that are given before event number *size* is asked for."""
        chunks: list[Any] = []
        known = 0

        def source() -> Iterator[Any]:
            nonlocal known
            yield from events[:size]
            known = len(chunks)

        for chunk in self.adapter.load_chunks(source()):
            chunks.append(chunk)  # noqa: PERF402 - `source` looks at it

        return chunks[:known]

    @given(data=st.data())
    def test_a_stream_is_its_response(self, data):
        """
        However it is cut, a stream gives the message of the whole response, in chunks
        that are as the constructor makes them.
        """
        whole, events = data.draw(self.response_streams)
        chunks = [*self.adapter.load_chunks(events)]

        self.check(whole, concat(chunks))
        assert chunks == [each.replace(content=each.content) for each in chunks]

    @given(data=st.data())
    def test_in_any_grouping(self, data):
        """
        It makes no difference which chunks are concatenated first, and every
        moment of a stream is a message.
        """
        _, events = data.draw(self.response_streams)
        chunks = list(self.adapter.load_chunks(events))
        at = data.draw(st.integers(1, len(chunks)))
        accumulated = Accumulator()
        for number, chunk in enumerate(chunks, 1):
            accumulated = accumulated.add(chunk)
            if number == at:
                assert concat(chunks[:at]) == accumulated.message

        parted = [concat(part) for part in (chunks[:at], chunks[at:]) if part]
        assert concat(chunks) == accumulated.message == concat(parted)

    @given(data=st.data())
    def test_cut_anywhere(self, data):
        """
        A response that breaks off, for whatever reason, yields all pieces up to that
        point; unless its end had arrived before, it was interrupted.
        """
        _, events = data.draw(self.response_streams)
        size = data.draw(st.integers(0, len(events)))
        failure = data.draw(st.sampled_from([None, OSError, *self.failure_events]))
        until = self.given_until(events, size)

        def source() -> Iterator[Any]:
            yield from events[:size]
            if isinstance(failure, type):
                raise failure

            if failure is not None:
                yield failure
                raise AssertionError  # nothing is asked for after an error

        chunks, error = self.read_all(source())
        message = concat(chunks)

        read_all = [*events[:size], *([failure] if isinstance(failure, dict) else [])]
        assert until == chunks[: len(until)]
        assert any(map(self.is_end, read_all)) is (
            message.response.finish_reason != "interrupted"
        )
        if failure is None:
            assert error is None
        elif failure is OSError:
            assert isinstance(error, OSError)
        else:
            assert isinstance(error, ProviderStreamError)
            assert failure == error.event

    @given(data=st.data())
    def test_hostile_events(self, data):
        """
        Invalid events give chunks that make a message which can be sent, and a
        `DecodeError` with paths, or the provider's error. What an event repeats changes
        nothing when it is read again, and no event is changed.
        """
        _, events = data.draw(self.response_streams)
        path = data.draw(st.lists(st.integers(0, 9), max_size=8))
        wrong = put_junk(copy.deepcopy(events), path, data.draw(JUNK))
        wrong = wrong if isinstance(wrong, list) else [wrong]
        wrong = [*events, *wrong] if data.draw(st.booleans()) else wrong
        before = repr(wrong)

        chunks, error = self.read_all(wrong)
        message = concat(chunks)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Repeats, "has", lambda *_: False)
            slow, failure = self.read_all(wrong)

        # An id that is made up without the response's is another one each time.
        read = without_unique_ids(repr((message, str(error))))
        assert read == without_unique_ids(repr((concat(slow), str(failure))))
        assert before == repr(wrong)
        assert message.response is not None
        assert as_text(message)
        assert as_text(error)
        assert as_json(as_is(self.adapter).dump([message]).payload).encode()
        assert all(one.path.startswith("$") for one in getattr(error, "problems", ()))

    @given(data=st.data())
    def test_texts_of_other_events(self, data):
        """
        So it is if a text is that of another event, such as the kind of its block.
        """
        _, events = data.draw(self.response_streams)

        for wrong in islice(swap_texts(copy.deepcopy(events)), 20):
            chunks, _ = self.read_all(wrong)
            assert as_json(as_is(self.adapter).dump([concat(chunks)]).payload).encode()

    @given(data=st.data())
    def test_repeated_and_missing_events(self, data):
        """
        Networks and servers repeat events, lose them, and change their order;
        what comes is a message still.
        """
        _, events = data.draw(self.response_streams)
        chosen = data.draw(st.lists(st.sampled_from(events), max_size=2 * len(events)))

        chunks, error = self.read_all(chosen)

        assert isinstance(concat(chunks), AssistantMessage)
        assert error is None or isinstance(error, DecodeError)
        assert as_json(as_is(self.adapter).dump([concat(chunks)]).payload)

    @given(data=st.data())
    def test_waiting(self, data):
        """
        The chunks of events that are waited for are the same, and so is what
        goes wrong; nothing is read after the end.
        """
        _, events = data.draw(self.response_streams)
        failures = [[each] for each in self.failure_events]
        ends = st.sampled_from([[], [None], ["[DONE]", None], *failures])
        events = [*events[: data.draw(st.integers(0, len(events)))], *data.draw(ends)]

        async def source() -> AsyncIterator[Any]:
            for each in events:
                yield each

        async def read() -> tuple[list[Any], Exception | None]:
            chunks: list[Any] = []
            try:
                async for chunk in self.adapter.aload_chunks(source()):
                    chunks.append(chunk)  # noqa: PERF401 - kept when it raises
            except (DecodeError, ProviderStreamError) as error:
                return chunks, error

            return chunks, None

        chunks, error = self.read_all(events)
        awaited, failure = asyncio.run(read())

        assert chunks == awaited
        assert repr(error) == repr(failure)

    def test_one_chunk_a_piece(self):
        """
        Pieces are given as they come: no event is read before its chunk is
        asked for.
        """
        events = self.text_events(9)
        asked = []

        def source() -> Iterator[Any]:
            for each in events:
                asked.append(each)
                yield each

        chunks = self.adapter.load_chunks(source())

        assert 9 == len({len(asked) for chunk in chunks if chunk.text})

    def test_counts_events(self):
        """The number in a path is that of the event, however it was read."""
        events = self.text_events(9)

        _, error = self.read_all([*events, None])

        problems = getattr(error, "problems", ())
        assert [f"$[{len(events)}]"] == [one.path for one in problems]

    def test_refuses_objects(self):
        """Objects of an SDK are invalid JSON; the message has what was given."""
        _, error = self.read_all([object()])

        assert isinstance(error, DecodeError)
        assert "a Python object" in str(error)
        assert "plain JSON" in str(error)

    def test_cost(self):
        """
        A piece of a text, or of arguments, costs the same wherever it stands:
        each third of a stream is as much work.
        """

        def cost(events: list[Any]) -> int:
            return count_calls(lambda: list(self.adapter.load_chunks(events)))

        for events_with in (self.text_events, self.call_events):
            sizes = [100, 200, 300]
            given = [len(self.read_all(events_with(size))[0]) for size in sizes]
            costs = [cost(events_with(size)) for size in sizes]

            assert all(size <= more for size, more in zip(sizes, given, strict=True))
            assert abs(costs[0] - 2 * costs[1] + costs[2]) <= 9

    def test_few_calls(self):
        """An event that brings one more piece takes few calls of functions."""

        def cost(events: list[Any]) -> int:
            return count_calls(lambda: list(self.adapter.load_chunks(events)))

        # A call that comes whole is read as in a response.
        kinds = ((self.text_events, 40), (self.call_events, 70))
        for events_with, most in kinds[: 1 + self.streams_arguments]:
            assert cost(events_with(200)) - cost(events_with(100)) <= 100 * most

    def test_recorded(self, recordings):
        """
        Real streams: every moment of them is a message, usage is reported once,
        what they collect to can be sent again, and nothing of it is lost.
        """
        for path in self.recorded(recordings):
            events = events_of(path)
            before = as_json(events)
            chunks, error = self.read_all(events)
            accumulated = Accumulator()
            for at, chunk in enumerate(chunks, 1):
                accumulated = accumulated.add(chunk)
                if at % 16 == 0:
                    assert concat(chunks[:at]) == accumulated.message

            export = as_is(self.adapter).dump([accumulated.message])
            (back,) = self.adapter.load(export.payload)
            assert error is None or isinstance(error, ProviderStreamError)
            assert concat(chunks) == accumulated.message
            assert before == as_json(events)
            assert () == export.lost
            assert as_json(export.payload) == as_json(
                as_is(self.adapter).dump([back]).payload
            )
            assert [chunks[-1]] == [
                chunk for chunk in chunks if chunk.response and chunk.response.usage
            ] or not chunks[-1].response.usage

    def test_recorded_and_cut(self, recordings):
        """Wherever a real stream breaks off, the message up to then is there."""
        for path in self.recorded(recordings):
            events = events_of(path)
            for size in range(0, len(events), 1 + len(events) // 9):
                until = self.given_until(events, size)
                chunks, _ = self.read_all(events[:size])

                assert until == chunks[: len(until)]
                assert concat(chunks).response.finish_reason
                assert as_json(as_is(self.adapter).dump([concat(chunks)]).payload)


# The same tests run for several adapters in one process, as those of the
# contract do.
for _promise in vars(StreamContract).values():
    if is_hypothesis_test(_promise):
        settings(suppress_health_check=[HealthCheck.differing_executors])(_promise)
