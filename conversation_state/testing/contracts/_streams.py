"""What a reader of streamed responses promises, whatever its provider's events are."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

from hypothesis import settings as Settings  # noqa: N812 - a class
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from conversation_state._wording import shorten_repr
from conversation_state.chunks import concat
from conversation_state.errors import DecodeError, ProviderStreamError
from conversation_state.messages import AssistantMessage, Message
from conversation_state.testing._code import format_code
from conversation_state.testing._comparison import assert_same
from conversation_state.testing.contracts._adapters import PATHS, put_junk, swap_texts
from conversation_state.testing.contracts._contract import Contract, check_contract, law
from conversation_state.testing.strategies import event_streams, json_values

StreamReader: TypeAlias = Callable[[Iterable[Any]], Iterable[Message]]

_REFUSALS = (DecodeError, ProviderStreamError)
_INTERRUPTED = "interrupted"
_MAX_SWAPS = 20


class StreamReaderContract(Contract):
    """
    The laws of ``load_chunks``: a function from the events of a stream to the chunks of
    one message.

    Attributes:
        load_chunks: The function, as a static method or a method.
        events: Lists of the events of one stream, as a strategy; some may be broken
            off.
    """

    kind, subject = "readers of streams", "load_chunks"
    expected = "a function from events to chunks"
    load_chunks: StreamReader
    events: SearchStrategy[Sequence[Any]] = event_streams("openai_chat")

    def _read_all(
        self, events: Iterable[Any]
    ) -> tuple[list[Message], Exception | None]:
        """The chunks of *events*, and the error with which the stream is refused."""
        chunks: list[Message] = []
        try:
            for chunk in self.load_chunks(events):
                chunks.append(chunk)  # noqa: PERF402 - kept if it raises
        except _REFUSALS as error:
            return chunks, error

        return chunks, None

    @law(events="events")
    def test_reads_every_stream(self, events: Sequence[Any]) -> None:
        """
        Of every stream come chunks that `concat` makes a message of, and after them, if
        something is wrong, a `DecodeError` or a `ProviderStreamError`.
        """
        chunks, _ = self._read_all(list(events))
        for chunk in chunks:
            assert isinstance(chunk, AssistantMessage), (
                f"expected assistant messages, got {shorten_repr(chunk)}"
            )

        if chunks:
            concat(chunks)

    @law(events="events", at=st.integers(0, 30))
    def test_in_any_grouping(self, events: Sequence[Any], at: int) -> None:
        """It makes no difference which chunks are concatenated first."""
        chunks, _ = self._read_all(list(events))
        if len(chunks) > 1:
            at = 1 + at % (len(chunks) - 1)
            parted = concat([concat(chunks[:at]), concat(chunks[at:])])
            assert_same(concat(chunks), parted, "{}, and in two groups {}")

    @law(events="events", size=st.integers(0, 30))
    def test_cut_anywhere(self, events: Sequence[Any], size: int) -> None:
        """
        A stream that breaks off gives all that came before; and if that is not all, the
        answer is marked as interrupted.
        """
        whole, error = self._read_all(list(events))
        if error is not None or not whole:
            return

        size %= len(events) + 1
        cut, _ = self._read_all(list(events[:size]))
        if not cut:
            assert not concat(whole).text or not size, "nothing came of a cut stream"
            return

        message, full = concat(cut), concat(whole)
        assert full.text.startswith(message.text), (
            f"{message.text!r} is not how {full.text!r} begins"
        )
        calls = [(call.name, call.arguments) for call in message.tool_calls]
        all_calls = [(call.name, call.arguments) for call in full.tool_calls]
        if message.text != full.text or calls != all_calls:
            response = getattr(message, "response", None)
            reason = response.finish_reason if response else ""
            assert reason == _INTERRUPTED, (
                f"cut after {size} of {len(events)} events, and finish_reason is "
                f"{reason!r}, not {_INTERRUPTED!r}"
            )

    @law(events="events", size=st.integers(0, 30))
    def test_passes_errors_on(self, events: Sequence[Any], size: int) -> None:
        """
        What came before a connection broke is given before its error is raised; the
        error is not hidden.
        """
        size %= len(events) + 1
        before, error = self._read_all(list(events[:size]))
        if error is not None:
            return

        def break_off() -> Iterator[Any]:
            yield from events[:size]
            raise ConnectionResetError("the connection broke")

        chunks: list[Message] = []
        try:
            for chunk in self.load_chunks(break_off()):
                chunks.append(chunk)  # noqa: PERF402 - kept if it raises
        except ConnectionResetError:
            given = concat(chunks).text if chunks else ""
            expected = concat(before).text if before else ""
            assert given == expected, (
                f"{given!r} came before the error, of {expected!r}"
            )
            return

        # An end of the stream may have come before.
        reason = chunks and chunks[-1].response  # type: ignore[attr-defined]
        assert size == len(events) or not _is_open(before), (
            f"the error of the connection is lost: {shorten_repr(reason)}"
        )

    @law(events="events")
    def test_gives_pieces_as_they_come(self, events: Sequence[Any]) -> None:
        """
        Each piece is given before the next event is asked for: text is shown while it
        is written.
        """
        chunks, error = self._read_all(list(events))
        if error is not None:
            return

        shown: list[Message] = []
        known = 0

        def source() -> Iterator[Any]:
            nonlocal known
            yield from events
            known = len(shown)

        for chunk in self.load_chunks(source()):
            shown.append(chunk)  # noqa: PERF402 - `source` looks at it

        text = "".join([each.text for each in chunks])
        given = "".join([each.text for each in shown[:known]])
        if len(shown) > known:  # else it was read to its end, and no further
            assert given == text, f"{given!r} was given before the end, of {text!r}"

    @law(events="events")
    def test_counts_usage_once(self, events: Sequence[Any]) -> None:
        """The usage is in one chunk: in several it is added up."""
        chunks, _ = self._read_all(list(events))
        metas = [getattr(chunk, "response", None) for chunk in chunks]
        usages = [meta.usage for meta in metas if meta is not None and meta.usage]
        assert len(usages) <= 1, f"the usage is in {len(usages)} chunks: {usages}"

    @law(events="events")
    def test_is_pure(self, events: Sequence[Any]) -> None:
        """The same events give the same message again, and stay as they are."""
        given = copy.deepcopy(list(events))
        first, error = self._read_all(given)
        assert given == list(events), "load_chunks changed its events"
        second, again = self._read_all(given)

        assert_same(first, second, "first {}, then {}")
        assert str(error) == str(again), f"first {error}, then {again}"

    @law(events="events", path=PATHS, junk=json_values())
    def test_refuses_in_one_way(
        self, events: Sequence[Any], path: list[int], junk: Any
    ) -> None:
        """
        Of events with something wrong in them come chunks, and a `DecodeError` or a
        `ProviderStreamError`, and no other error.
        """
        for wrong in islice(swap_texts(copy.deepcopy(list(events))), _MAX_SWAPS):
            self._check_read(wrong)

        wrong = put_junk(copy.deepcopy(list(events)), path, junk)
        self._check_read(wrong if isinstance(wrong, list) else [wrong])

    def _check_read(self, events: list[Any]) -> None:
        try:
            # A copy, since a reader may remove its events.
            self._read_all(list(events))
        except Exception as error:
            error.add_note(f"for the events {format_code(events):.1000}")
            raise


def _is_open(chunks: Sequence[Message]) -> bool:
    """Whether *chunks* are of a stream whose end did not come."""
    if not chunks:
        return True

    response = concat(chunks).response  # type: ignore[attr-defined]
    return response is None or response.finish_reason in {"", _INTERRUPTED}


def check_stream(
    load_chunks: StreamReader,
    *,
    events: SearchStrategy[Sequence[Any]] | None = None,
    without: Collection[str] = (),
    settings: Settings | None = None,
) -> None:
    """
    Hold a function from the events of a stream to chunks to the laws of
    `StreamReaderContract`: it gives pieces as they come, marks what broke off, counts
    usage once, and refuses what it can't read with a `DecodeError`.

    Calls *load_chunks* about five thousand times.

    Args:
        load_chunks: The function.
        events: Lists of the events of one stream, as a strategy: `event_streams` of a
            format, or a user's own; those of ``openai_chat`` by default.
        without: The names of laws that do not hold and need not.
        settings: Hypothesis' settings.

    Raises:
        BrokenLawsError: If it breaks a law, with the smallest list of events that shows
            it.
    """
    __tracebackhide__ = True
    check_contract(
        StreamReaderContract, load_chunks, settings, without=without, events=events
    )
