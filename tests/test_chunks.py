"""Chunks become one message: nothing is lost, and no grouping matters."""

from datetime import UTC, datetime
from functools import partial, reduce
from typing import Any
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.chunks import Accumulator, _merger, concat, concat_rows
from conversation_state.chunks._merger import ChunkMerger
from conversation_state.errors import ConcatError, InvalidUsageError
from conversation_state.messages import (
    AssistantMessage,
    LogProb,
    Message,
    ResponseMeta,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    AudioPart,
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.testing import laws
from conversation_state.testing.strategies import chunks, messages
from conversation_state.tools import ToolCall
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage
from tests.processes import count_calls

ROLES = ["system", "user", "assistant", "tool"]
# Messages that agree in much, and not in all.
few = st.one_of(
    st.builds(
        UnknownMessage,
        st.just({"role": "oracle"}),
        source=st.sampled_from(["", "a", "b"]),
        name=st.sampled_from(["", "ann"]),
    ),
    st.builds(
        ToolMessage,
        st.sampled_from(["", "a"])
        | st.lists(st.sampled_from([ImagePart(url="u"), TextPart("b")]), max_size=2),
        tool_call_id=st.sampled_from(["c", "c", "d"]),
        tool_name=st.sampled_from(["", "f", "g"]),
    ),
    st.builds(
        AssistantMessage,
        st.sampled_from(["", "a"]),
        tool_calls=st.lists(
            st.builds(
                ToolCall,
                st.sampled_from(["", "a"]),
                st.sampled_from(["", "f", "g"]),
                index=st.sampled_from([0, None]),
                type=st.sampled_from(["function", "custom"]),
            ),
            max_size=2,
        ),
    ),
)
META = ResponseMeta("stop", Usage(3, 4), model="m", id="r")


def piece_of_call(*, name="", response=None, **fields):
    """A chunk with a piece of a call's arguments."""
    content: Any = fields.pop("content", "")
    call = ToolCall(
        fields.pop("id", ""),
        fields.pop("called", ""),
        "x",
        index=fields.pop("index", 0),
        **fields,
    )
    return AssistantMessage(content, tool_calls=[call], name=name, response=response)


def piece_of(*parts, **fields):
    """A chunk with *parts*."""
    return AssistantMessage([*parts], **fields)


# Chunks that come in runs, which are joined many at once.
UNIFORM: list[Any] = [
    AssistantMessage("a"),
    piece_of_call(),
    piece_of_call(index=1),
    piece_of(TextPart("a")),
    piece_of(TextPart("a", index=0)),
    piece_of(ReasoningPart("r")),
    piece_of(RefusalPart("n")),
]
# Chunks like these that must not be, each for one reason.
ODD: list[Any] = [
    AssistantMessage(""),
    AssistantMessage([]),
    AssistantMessage("b", response=META),
    AssistantMessage("b", name="ann"),
    AssistantMessage("b", metadata={"k": "v"}),
    piece_of_call(id="c", called="f"),
    piece_of_call(id="d", called="f"),
    piece_of_call(id="c", called="f", index=None),
    piece_of_call(called="f"),
    piece_of_call(called="g"),
    piece_of_call(content="b"),
    piece_of_call(content=[]),
    piece_of_call(content=[TextPart("b")]),
    piece_of_call(response=META),
    piece_of_call(name="ann"),
    piece_of_call(metadata={"k": "v"}),
    piece_of_call(unknown={"k": "v"}),
    AssistantMessage("", tool_calls=[ToolCall("", "", "x", index=0)] * 2),
    piece_of(TextPart("b", metadata={"k": "v"})),
    piece_of(TextPart("b", unknown={"k": "v"})),
    piece_of(TextPart("b"), TextPart("c")),
    piece_of(TextPart("b"), response=META),
    piece_of(TextPart("b"), name="ann"),
    piece_of(TextPart("b"), tool_calls=[ToolCall("", "", "x", index=0)]),
    piece_of(ReasoningPart("b", "signed")),
    piece_of(ReasoningPart("b", index=0)),
    piece_of(AudioPart(data=b"b", media_type="audio/wav")),
    piece_of(ImagePart(url="u")),
    UserMessage("b"),
]
# How many are read at once, at first and later, and one by one at the end.
SIZES = [(1024, 32, 3), (4, 2, 3), (3, 2, 0)]
# Runs of chunks that are alike, with others among them and at both ends.
runs = st.lists(
    st.tuples(st.sampled_from(UNIFORM), st.integers(1, 9))
    | st.tuples(st.sampled_from(ODD), st.just(1)),
    min_size=1,
    max_size=8,
).map(lambda pairs: [chunk for chunk, count in pairs for _ in range(count)])
any_role = st.sampled_from(ROLES).flatmap(lambda role: chunks(role=role))


def merged_parts(*parts):
    """The concatenation of one chunk for each of *parts*."""
    return concat([AssistantMessage([part]) for part in parts]).content


def called(*calls):
    """The calls after one chunk for each of *calls*."""
    return concat([AssistantMessage(tool_calls=[call]) for call in calls]).tool_calls


def merged_meta(*metas, **options):
    """The response after one chunk for each of *metas*."""
    return concat([AssistantMessage(response=meta) for meta in metas], **options)


def outcome(function, *arguments):
    """What *function* gives, or why it refuses."""
    try:
        return function(*arguments)
    except ConcatError as error:
        return error.args


def concat_one_by_one(pieces):
    """
    Concatenate each chunk with what came before; the first by itself, since calls of
    one index in one chunk are one call.
    """
    return reduce(lambda *pair: concat([*pair]), pieces[1:], concat(pieces[:1]))


def check_against_one_by_one(pieces, sizes):
    """Check `concat`, which reads as many chunks at once as *sizes* has."""
    one_by_one = outcome(concat_one_by_one, pieces)
    accumulator = outcome(reduce, Accumulator.add, pieces, Accumulator())
    expected = getattr(accumulator, "message", accumulator)
    names = ("_BATCH", "_SMALL_BATCH", "_LAST")
    with pytest.MonkeyPatch.context() as patch:
        for name, size in zip(names, sizes, strict=True):
            patch.setattr(_merger, name, size)
        whole = outcome(concat, pieces)

    assert expected == whole
    assert repr(expected) == repr(whole)
    assert (whole == one_by_one) or (
        isinstance(whole, tuple) and isinstance(one_by_one, tuple)
    )


def copied(text):
    """An equal text that is another object."""
    return "".join([text[:1], text[1:]])


def watched(read):
    """The method `ChunkMerger.read`, which lists how many chunks it reads."""
    method = ChunkMerger.read

    def watch(self, chunks):
        read.append(len(chunks))
        return method(self, chunks)

    return watch


class TestLaws:
    @given(messages())
    def test_of_one(self, message):
        """A message that is in no pieces is its own concatenation."""
        laws.concat_of_one_is_itself(message)

    def test_of_one_that_contradicts_itself(self):
        """
        Two pieces of one call that have different names are refused, also in one
        message; two calls are not.
        """
        pieces = [ToolCall("", "f", index=0), ToolCall("", "g", index=0)]
        message = AssistantMessage(tool_calls=pieces)
        laws.concat_of_one_is_itself(message)

        with pytest.raises(ConcatError, match=r"index=0\].name is 'f' so far and 'g'"):
            concat([message])

    @given(any_role, st.data())
    def test_associative(self, pieces, data):
        """Which chunks are joined first does not matter."""
        at = data.draw(st.integers(0, len(pieces)))

        laws.concat_is_associative(pieces, at)

    @given(runs, st.sampled_from(SIZES))
    def test_many_at_once(self, pieces, sizes):
        """
        Chunks that are read many at once are read as one after the other is, and
        the first that does not fit is named, however many are read at once.
        """
        check_against_one_by_one(pieces, sizes)

    @pytest.mark.parametrize("number", range(len(UNIFORM)))
    def test_an_odd_one_among_many(self, number):
        """So is any chunk among others that it could be taken for."""
        many = [UNIFORM[number]] * 9
        for odd in ODD:
            for sizes in SIZES:
                check_against_one_by_one([*many, odd, *many], sizes)
                check_against_one_by_one([odd, *many, odd], sizes)

    @given(any_role)
    def test_accumulator(self, pieces):
        """Every moment of an accumulator is the concatenation until then."""
        laws.accumulators_concat(pieces)

    @given(st.lists(messages() | few, min_size=2, max_size=4), st.data())
    def test_of_strangers(self, strangers, data):
        """
        Whatever does not belong together is refused in every grouping, and by
        accumulators too.
        """
        at = data.draw(st.integers(1, len(strangers) - 1))
        whole = outcome(concat, strangers)

        def grouped():
            return concat([concat(strangers[:at]), concat(strangers[at:])])

        def one_by_one():
            accumulator = Accumulator()
            for stranger in strangers:
                accumulator = accumulator.add(stranger)

            return accumulator.message

        assert whole == outcome(one_by_one)
        assert (whole == outcome(grouped)) or (
            isinstance(whole, tuple) and isinstance(outcome(grouped), tuple)
        )

    @given(any_role, st.sampled_from(["cumulative", "delta"]), st.booleans())
    def test_options(self, pieces, usage, regroup):
        """Options hold for accumulators as for `concat`, and for every grouping."""
        options = {"usage": usage, "regroup_by_index": regroup}
        accumulator = Accumulator(**options)
        for piece in pieces:
            accumulator = accumulator.add(piece)

        half = len(pieces) // 2
        groups = [each for each in (pieces[:half], pieces[half:]) if each]
        grouped = concat([concat(each, **options) for each in groups], **options)

        assert concat(pieces, **options) == accumulator.message
        assert concat(pieces, **options) == grouped

    @given(any_role)
    def test_text(self, pieces):
        """All pieces of text are there."""
        whole = concat(pieces)

        assert "".join([piece.text for piece in pieces]) == whole.text
        assert "".join([piece.reasoning for piece in pieces]) == whole.reasoning
        assert "".join([piece.refusal for piece in pieces]) == whole.refusal


class TestCost:
    """What nearly all chunks are costs nearly nothing."""

    @pytest.mark.parametrize(
        "piece",
        [
            AssistantMessage("a"),
            AssistantMessage([ReasoningPart("a", index=0)]),
            AssistantMessage([RefusalPart("a", index=0)]),
            AssistantMessage(tool_calls=[ToolCall("", "", "1", index=0)]),
        ],
    )
    def test_many(self, piece):
        """More text, or more arguments, without a call for each chunk."""
        first = AssistantMessage(tool_calls=[ToolCall("c1", "f", "", index=0)])
        pieces = [first, *[piece] * 2_000]

        assert count_calls(partial(concat, pieces)) < len(pieces)

    def test_few(self):
        """
        Nor does a text in two pieces cost more than one in three, or one with a
        response at the end half as much as one with parts.
        """
        two, three = [[AssistantMessage("a")] * count for count in (2, 3)]

        end = AssistantMessage(response=ResponseMeta("stop", Usage(1, 2)))
        part = AssistantMessage([TextPart("a")])
        costs = [
            count_calls(partial(concat, pieces))
            for pieces in (two, three, [*three, end], [part, *three[1:], end])
        ]

        assert costs[0] <= costs[1]
        assert 2 * costs[2] < costs[3]


class TestContent:
    def test_many(self):
        """However many there are, and whatever stands among them."""
        texts = [f"{at} " for at in range(3000)]
        pieces = [AssistantMessage(text) for text in texts]
        last = AssistantMessage("end", response=ResponseMeta("stop"))
        thought = AssistantMessage([ReasoningPart("hm")])

        assert "".join(texts) == concat(pieces).content
        assert "".join([*texts, "end"]) == concat([*pieces, last]).content
        assert (
            TextPart("".join(texts)),
            ReasoningPart("hm"),
            TextPart("".join(texts)),
        ) == concat([*pieces, thought, *pieces]).content

    def test_a_stranger_among_many(self):
        """A value of another type is found, and the error has its position."""
        pieces: list[Message] = [AssistantMessage("a")] * 3000
        pieces[2500] = UserMessage("b")

        with pytest.raises(ConcatError) as caught:
            concat(pieces)

        assert 2500 == caught.value.chunk

    def test_text_and_parts(self):
        """Beside parts, a plain text is a part; no text is none."""
        pieces = [AssistantMessage("a"), AssistantMessage([TextPart("b")])]

        assert (TextPart("ab"),) == concat(pieces).content
        assert (TextPart("a"),) == concat([pieces[0], AssistantMessage(())]).content
        assert () == concat([AssistantMessage(""), AssistantMessage(())]).content

    def test_adjacent_only(self):
        """A part between others keeps them apart, and an index does."""
        a, b, image = TextPart("a"), TextPart("b"), ImagePart(url="https://x")

        assert (a, image, b) == merged_parts(a, image, b)
        assert (a, TextPart("b", index=0)) == merged_parts(a, TextPart("b", index=0))
        assert (TextPart("ab", index=1),) == merged_parts(
            TextPart("a", index=1), TextPart("b", index=1)
        )

    def test_kinds_stay_apart(self):
        """Text, reasoning and refusals do not mix."""
        parts = (TextPart("a"), ReasoningPart("b"), RefusalPart("c"))

        assert parts == merged_parts(*parts)
        assert (RefusalPart("no way"),) == merged_parts(
            RefusalPart("no "), RefusalPart("way")
        )

    def test_reasoning(self):
        """Of signatures, the last one stands."""
        pieces = [
            ReasoningPart("a", "one"),
            ReasoningPart("b", "two"),
            ReasoningPart("c"),
        ]

        assert (ReasoningPart("abc", "two"),) == merged_parts(*pieces)

    def test_audio(self):
        """Data is joined while it is of one media type."""
        wav = AudioPart(data=b"RIFF", media_type="audio/wav")
        more = AudioPart(data=b"data")
        mp3 = AudioPart(data=b"ID3", media_type="audio/mpeg")
        both = AudioPart(data=b"RIFFdata", media_type="audio/wav")

        assert (both,) == merged_parts(wav, more)
        assert (both, mp3) == merged_parts(wav, more, mp3)

    def test_urls_stay(self):
        """What has a url is whole, before data and after it."""
        url, data = AudioPart(url="https://x"), AudioPart(data=b"x")

        assert (url, url) == merged_parts(url, url)
        assert (data, url, data) == merged_parts(data, url, data)

    def test_other_parts(self):
        """Other media and unknown parts are whole."""
        for part in (ImagePart(data=b"x"), UnknownPart({"type": "hologram"})):
            assert (part, part) == merged_parts(part, part)

    def test_regroup(self):
        """On demand, what has one index is joined across others."""
        pieces = [
            AssistantMessage([TextPart(text, index=at)])
            for text, at in [("a", 0), ("x", 1), ("b", 0), ("y", 1)]
        ]

        assert 4 == len(concat(pieces).parts)
        assert (TextPart("ab", index=0), TextPart("xy", index=1)) == concat(
            pieces, regroup_by_index=True
        ).content


NOTES: Any = {"metadata": {"a": 1}, "unknown": {"b": 2}}
COMMON: Any = {
    **NOTES,
    "name": "ann",
    "run_id": UUID(int=1),
    "turn_id": UUID(int=2),
    "timestamp": datetime(2026, 5, 1, tzinfo=UTC),
}
META = ResponseMeta(
    "stop",
    Usage(9, 12, extra={"seconds": 4}),
    (LogProb("a", -0.5),),
    "m",
    "r",
    unknown={"b": 2},
)
CALL = ToolCall("1", "f", "{}", index=1, type="custom", **NOTES)
# Values with something in each field, and pieces that add nothing to them.
WHOLE = [
    (CALL, ToolCall("", "", index=1)),
    (TextPart("a", index=1, **NOTES), TextPart("", index=1)),
    (ReasoningPart("a", "b", index=1, **NOTES), ReasoningPart("", index=1)),
    (RefusalPart("a", index=1, **NOTES), RefusalPart("", index=1)),
    (META, ResponseMeta("")),
    (
        AssistantMessage("a", tool_calls=[CALL], response=META, **COMMON),
        AssistantMessage(""),
    ),
    (
        ToolMessage("a", tool_call_id="1", tool_name="f", is_error=True, **COMMON),
        ToolMessage("", tool_call_id="1"),
    ),
    (UserMessage("a", **COMMON), UserMessage("")),
]


class TestEveryField:
    """What a chunk has in any field is in the whole."""

    @pytest.mark.parametrize(("whole", "rest"), WHOLE)
    def test_has_a_value(self, whole, rest):
        """
        The values below have something in each field, one that is added later too.
        """
        names = [field.name for field in attrs.fields(type(whole))]

        assert [] == [name for name in names if not getattr(whole, name)]
        if isinstance(whole, Message):
            assert [] == [name for name in COMMON if not getattr(whole, name)]

    @pytest.mark.parametrize(("whole", "rest"), WHOLE)
    def test_is_kept(self, whole, rest):
        """Whichever piece brings it."""

        def wrap(value):
            if isinstance(value, ToolCall):
                return AssistantMessage("", tool_calls=[value])
            if isinstance(value, ResponseMeta):
                return AssistantMessage("", response=value)

            return value if isinstance(value, Message) else piece_of(value)

        assert wrap(whole) == concat([wrap(whole), wrap(rest)])
        assert wrap(whole) == concat([wrap(rest), wrap(whole)])


class TestToolCalls:
    def test_pieces(self):
        """Pieces with one index are one call, also when they are interleaved."""
        calls = called(
            ToolCall("a", "search", '{"q": ', index=0),
            ToolCall("b", "clock", "", index=1),
            ToolCall("", "", '"trains"', index=0),
            ToolCall("", "", "{}", index=1),
            ToolCall("", "", "}", index=0),
        )

        assert (
            ToolCall("a", "search", '{"q": "trains"}', index=0),
            ToolCall("b", "clock", "{}", index=1),
        ) == calls

    def test_without_index(self):
        """Calls without an index are whole, and come first; others by index."""
        one, two = ToolCall("a", "f"), ToolCall("a", "f")
        last, first = ToolCall("c", "f", index=2), ToolCall("d", "f", index=1)

        assert (one, two, first, last) == called(last, one, first, two)

    def test_another_id(self):
        """
        Starts another call at the same index; pieces without an id go on with
        the call opened last.
        """
        calls = called(
            ToolCall("a", "f", "1", index=0),
            ToolCall("b", "g", "2", index=0),
            ToolCall("", "", "3", index=0),
            ToolCall("b", "g", "4", index=0),
            ToolCall("a", "f", "5", index=0),
        )

        assert [("a", "1"), ("b", "234"), ("a", "5")] == [
            (call.id, call.arguments) for call in calls
        ]

    def test_an_id_that_comes_late(self):
        """
        A piece with content does not wait for an id, and one without content adds
        nothing.
        """
        piece = ToolCall("", "", "1", index=0)
        empty = ToolCall("", "", index=0, type="custom")
        call = ToolCall("a", "f", "2", index=0)

        assert (piece, call) == called(piece, call)
        assert (call,) == called(empty, call)
        assert (call,) == called(call, empty)
        assert ["1", "2"] == [c.arguments for c in called(empty, piece, call)]
        assert (
            "12" == called(empty, ToolCall("a", "f", "1", index=0), call)[0].arguments
        )

    def test_a_type_without_an_id(self):
        """A call that never gets an id is of the type that its first piece says."""
        first = ToolCall("", "f", "1", index=0, type="custom")
        (call,) = called(first, ToolCall("", "", "2", index=0))

        assert ToolCall("", "f", "12", index=0, type="custom") == call

    def test_a_name_that_comes_late(self):
        """Names may come with any piece, and again."""
        pieces = [
            ToolCall("a", "", index=0),
            ToolCall("", "f", index=0),
            ToolCall("", "f", "1", index=0),
        ]

        assert (ToolCall("a", "f", "1", index=0),) == called(*pieces)

    @pytest.mark.parametrize(
        ("piece", "field", "ours", "theirs"),
        [
            (ToolCall("", "g", index=0), "tool_calls[index=0].name", "f", "g"),
            (
                ToolCall("a", "f", index=0, type="custom"),
                "tool_calls[index=0].type",
                "function",
                "custom",
            ),
        ],
    )
    def test_conflicts(self, piece, field, ours, theirs):
        """Names and types of one call don't change."""
        first = AssistantMessage(tool_calls=[ToolCall("a", "f", index=0)])
        second = AssistantMessage(tool_calls=[piece])
        accumulator = Accumulator().add(first)

        with pytest.raises(ConcatError) as caught:
            concat([first, second])
        with pytest.raises(ConcatError) as refused:
            accumulator.add(second)

        assert (field, ours, theirs, 1) == caught.value.args == refused.value.args
        assert first == accumulator.message

    def test_malformed_arguments(self):
        """
        The arguments are not parsed: ten thousand pieces of invalid JSON are joined
        like others.
        """
        texts = ["{", '"', "\\"] * 3000
        calls = called(
            ToolCall("a", "f", index=0),
            *[ToolCall("", "", text, index=0) for text in texts],
        )

        assert ["".join(texts)] == [call.arguments for call in calls]

    def test_equal_ids_names_and_types(self):
        """
        What the pieces of a call repeat is compared by content: equal texts
        that are different objects are not a conflict.
        """
        pieces = [
            AssistantMessage(
                tool_calls=[
                    ToolCall(
                        copied("call_1"),
                        copied("clock"),
                        "1",
                        index=0,
                        type=copied("custom_tool"),
                    )
                ]
            )
            for _ in range(3)
        ]
        (call,) = concat(pieces).tool_calls

        assert pieces[0].tool_calls[0].type is not pieces[1].tool_calls[0].type
        assert ToolCall("call_1", "clock", "111", index=0, type="custom_tool") == call

    def test_equal_facts(self):
        """The same for what messages repeat."""

        def piece(text):
            return ToolMessage(
                text,
                tool_call_id=copied("call_1"),
                tool_name=copied("clock"),
                name=copied("ann"),
                run_id=UUID(int=2**100),
                turn_id=UUID(int=2**101),
            )

        assert "ab" == concat([piece("a"), piece("b")]).text


class TestResponse:
    def test_words(self):
        """The last reason to finish stands, and the last model."""
        metas = ResponseMeta("stop", model="a"), ResponseMeta("length"), ResponseMeta()

        assert ResponseMeta("length", model="a") == merged_meta(*metas).response

    def test_first_id(self):
        """The first id stands, though no chunk before it has one."""
        metas = [ResponseMeta(id=id) for id in ("", "r1", "r2", "")]

        assert "r1" == merged_meta(*metas).response.id

    def test_every_count(self):
        """Breakdowns and further categories, too."""
        details = [CompletionTokensDetails(reasoning_tokens=n) for n in (2, 5)]
        cached = PromptTokensDetails(cached_tokens=3)
        usages = [
            Usage(9, 5, 20, cached, details[0], {"a": 1, "b": 2}),
            Usage(1, 6, 7, completion_tokens_details=details[1], extra={"a": 4}),
            Usage(9, 1, extra={"c": 3}),
        ]
        metas = [ResponseMeta(usage=usage) for usage in usages]
        largest = usages[0] | usages[1] | usages[2]

        assert largest == merged_meta(*metas).response.usage
        assert sum(usages, Usage()) == merged_meta(*metas, usage="delta").response.usage

    def test_too_much(self):
        """Counts that no longer fit are refused, as any such count."""
        meta = ResponseMeta(usage=Usage(2**63 - 1))

        with pytest.raises(InvalidUsageError):
            merged_meta(meta, meta, usage="delta")

    def test_logprobs(self):
        """Are appended; an empty list is not the same as none."""
        a, b = LogProb("a", -1.0), LogProb("b", -2.0)
        metas = [
            ResponseMeta(logprobs=(a,)),
            ResponseMeta(),
            ResponseMeta(logprobs=(b,)),
        ]

        assert (a, b) == merged_meta(*metas).response.logprobs
        assert None is merged_meta(ResponseMeta(), ResponseMeta()).response.logprobs
        assert (
            ()
            == merged_meta(ResponseMeta(), ResponseMeta(logprobs=())).response.logprobs
        )

    def test_mode(self):
        """There are two ways to read usage."""
        with pytest.raises(ValueError, match="'cumulative' or 'delta'"):
            concat([AssistantMessage("")], usage="sum")  # type: ignore[arg-type]

        with pytest.raises(ValueError, match="'cumulative' or 'delta'"):
            Accumulator(usage="sum")  # type: ignore[arg-type]

        with pytest.raises(ValueError, match="'cumulative' or 'delta'"):
            concat_rows([], usage=None)  # type: ignore[arg-type]


class TestMetadata:
    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            (["a", "b"], "ab"),
            ([[1], [2, "a"]], (1, 2, "a")),
            ([2, True], True),
            ([{"x": "a", "y": 1}, {"x": "b"}], {"x": "ab", "y": 1}),
            ([None, "a"], "a"),
            ([None, None], None),
            (["a", 1, "b"], "ab"),
            (["a", [1], "b"], (1,)),
            ([[1], {"x": 1}, [2]], {"x": 1}),
        ],
    )
    def test_values(self, values, expected):
        """
        Texts are joined, lists appended, maps joined key by key; the poorer
        gives way to the richer, and of numbers the last one stands.
        """
        pieces = [AssistantMessage("", metadata={"k": value}) for value in values]

        assert expected == concat(pieces).metadata["k"]

    def test_who_and_when(self):
        """The name, the run and the turn of a message, and its time."""
        run, turn = UUID(int=1), UUID(int=2)
        first, second = (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2))
        pieces = [
            AssistantMessage("a", name="ann"),
            AssistantMessage("b", run_id=run, timestamp=first),
            AssistantMessage("c", turn_id=turn, name="ann", timestamp=second),
        ]

        assert (
            AssistantMessage(
                "abc", name="ann", run_id=run, turn_id=turn, timestamp=first
            )
        ) == concat(pieces)


class TestToolResults:
    def test_media(self):
        """One chunk may bring several images, and others none."""
        image = ImagePart(url="https://x")
        pieces = [
            ToolMessage("a", tool_call_id="c"),
            ToolMessage([image, image], tool_call_id="c"),
            ToolMessage("b", tool_call_id="c"),
        ]

        assert (TextPart("a"), image, image, TextPart("b")) == concat(pieces).content

    def test_media_in_two_chunks(self):
        """Is refused: a second image can't be distinguished from a second version."""
        images = [ImagePart(url=url) for url in ("https://x", "https://y")]
        pieces = [ToolMessage([image], tool_call_id="c") for image in images]

        with pytest.raises(ConcatError) as caught:
            concat(pieces)

        assert ("the image of a tool result", *images, 1) == caught.value.args


class TestConflicts:
    @pytest.mark.parametrize(
        ("ours", "theirs", "field"),
        [
            (AssistantMessage("a"), UserMessage("b"), "role"),
            (AssistantMessage("", name="x"), AssistantMessage("", name="y"), "name"),
            (
                UserMessage("", run_id=UUID(int=1)),
                UserMessage("", run_id=UUID(int=2)),
                "run_id",
            ),
            (
                ToolMessage("", tool_call_id="a"),
                ToolMessage("", tool_call_id="b"),
                "tool_call_id",
            ),
            (
                UnknownMessage({"role": "oracle"}),
                UnknownMessage({"role": "muse"}),
                "raw",
            ),
            (
                UnknownMessage({"role": "oracle"}, source="x"),
                UnknownMessage({"role": "oracle"}, source="y"),
                "source",
            ),
        ],
    )
    def test_fields(self, ours, theirs, field):
        """
        What must not differ: named, with both values and the number of the
        chunk; by accumulators just so, and the accumulator takes others.
        """
        with pytest.raises(ConcatError) as caught:
            concat([ours, ours, theirs])

        accumulator = Accumulator().add(ours).add(ours)
        with pytest.raises(ConcatError) as refused:
            accumulator.add(theirs)

        expected = (field, getattr(ours, field), getattr(theirs, field), 2)

        assert expected == caught.value.args == refused.value.args
        assert field in str(caught.value)
        assert "in chunk 2" in str(caught.value)
        assert accumulator.add(ours).message == concat([ours] * 3)

    def test_nothing(self):
        """No chunks are not a message."""
        with pytest.raises(ConcatError, match="no chunks at all"):
            concat([])

        with pytest.raises(ConcatError, match="no chunks at all"):
            Accumulator().message  # noqa: B018 - asking is the point

    @pytest.mark.parametrize("stranger", [None, "text", {"role": "user"}])
    def test_no_message(self, stranger):
        """The error of a chunk that is not a message has its number."""
        for give in (
            lambda: concat([AssistantMessage("a"), stranger]),
            lambda: Accumulator().add(AssistantMessage("a")).add(stranger),
        ):
            with pytest.raises(ConcatError, match="chunk 1 is") as caught:
                give()

            assert ("chunk", None, stranger, 1) == caught.value.args

    def test_one_message(self):
        """A lone message is not a list of chunks."""
        with pytest.raises(TypeError, match="takes chunks"):
            concat(AssistantMessage("a"))  # type: ignore[arg-type]

    def test_lowest_first(self):
        """Of several conflicts, that of the first chunk is reported."""
        pieces = [UserMessage("", name=name) for name in ("ann", "", "bob", "cy")]

        with pytest.raises(ConcatError) as caught:
            concat(pieces)

        assert ("name", "ann", "bob", 2) == caught.value.args


class TestUnknownMessages:
    def test_source(self):
        """Any of the chunks may have the source."""
        a, b = (UnknownMessage({"role": "oracle"}, source=word) for word in ("", "s"))
        other = UnknownMessage({"role": "oracle"}, source="t")

        assert b == concat([a, b]) == concat([b, a])
        with pytest.raises(ConcatError):
            concat([concat([a, b]), other])


class TestConcatRows:
    def test_columns(self):
        """One message a column; None is not a chunk."""
        rows: Any = [
            [UserMessage("a"), None, None],
            [UserMessage("b"), AssistantMessage("c"), None],
        ]

        assert (UserMessage("ab"), AssistantMessage("c"), None) == concat_rows(rows)

    def test_lengths(self):
        """Rows are equally long."""
        row = [AssistantMessage("a")]

        with pytest.raises(ConcatError, match="length of a row is 1") as caught:
            concat_rows([row, row, row * 3])

        assert ("the length of a row", 1, 3, 2) == caught.value.args

    def test_conflict(self):
        """The error has the column and the row."""
        rows: Any = [
            [None, UserMessage("")],
            [None, None],
            [None, AssistantMessage("")],
        ]

        with pytest.raises(ConcatError) as caught:
            concat_rows(rows)

        assert ("role in column 1", "user", "assistant", 2) == caught.value.args

    def test_usage(self):
        """The mode is for every column."""
        meta = ResponseMeta(usage=Usage(1, 1))
        rows: Any = [[AssistantMessage("", response=meta)]] * 3

        summed = AssistantMessage("", response=ResponseMeta(usage=Usage(3, 3)))

        assert (summed,) == concat_rows(rows, usage="delta")


class TestAccumulator:
    def test_moments_stay(self):
        """
        Adding changes nothing that was there; two futures of one moment do
        not know each other.
        """
        start = Accumulator().add(AssistantMessage("a"))
        one, two = start.add(AssistantMessage("b")), start.add(AssistantMessage("c"))

        assert ["ab", "ac", "a"] == [each.message.text for each in (one, two, start)]
        assert "acd" == two.add(AssistantMessage("d")).message.text

    def test_reads_each_chunk_once(self, monkeypatch):
        """
        A message that is asked for at every moment is made of the one before
        and what was added since.
        """
        read: list[int] = []
        monkeypatch.setattr(ChunkMerger, "read", watched(read))
        accumulator = Accumulator()
        for n in range(50):
            accumulator = accumulator.add(AssistantMessage(f"{n} "))
            assert accumulator.message is accumulator.message
            assert accumulator.message.text.endswith(f"{n} ")

        assert 2 * 50 >= sum(read)

    def test_chunks(self):
        """They can be read."""
        pieces = [AssistantMessage("a"), AssistantMessage("b")]
        accumulator = Accumulator().add(pieces[0]).add(pieces[1])

        assert pieces == list(accumulator.chunks)
        assert 2 == len(accumulator)
        assert Accumulator()  # an empty one is true, too
        assert "<Accumulator: 2 chunks>" == repr(accumulator)

    @given(chunks())
    def test_equality(self, pieces):
        """By chunks and options, also after shipping."""
        one, two = Accumulator(), Accumulator()
        for piece in pieces:
            one, two = one.add(piece), two.add(piece)

        laws.equal_values_hash_alike(one, two)
        laws.copies_are_equal(one)
        assert one != Accumulator()
        assert Accumulator() != Accumulator(usage="delta")
