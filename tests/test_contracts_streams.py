"""
Contracts of adapters and of readers of streams: a listed loss excuses what it names,
and each fault of a reader breaks a law.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from conversation_state.adapters import (
    Export,
    Lost,
    openai_chat,
)
from conversation_state.messages import AssistantMessage, UserMessage
from conversation_state.parts import ImagePart, TextPart
from conversation_state.testing import (
    BrokenLawsError,
    check_adapter,
    check_stream,
    event_streams,
)
from conversation_state.testing.contracts import AdapterContract, StreamReaderContract
from tests.adapters.helpers import PROVIDERS

FEW = settings(max_examples=8, database=None, derandomize=True, deadline=None)


class LosesAll:
    """Lists every message as lost, and drops the arguments of calls."""

    def dump(self, messages):
        messages = list(messages)
        lost = [
            Lost(f"messages[{at}]", "format", "the format is old")
            for at in range(len(messages))
        ]
        bare = [without_arguments(each) for each in messages]
        return Export(openai_chat.dump(bare).payload, tuple(lost))

    def load(self, payload):
        return openai_chat.load(payload)


def without_arguments(message):
    if not isinstance(message, AssistantMessage):
        return message

    calls = [type(call)(call.id, call.name, "{}") for call in message.tool_calls]
    return message.replace(tool_calls=calls)


class ListsNames(LosesAll):
    """Lists that names are lost, and drops images as well."""

    name = "name"

    def dump(self, messages):
        messages = list(messages)
        lost = [
            Lost(f"messages[{at}]", self.name, "the format has no names")
            for at in range(len(messages))
        ]
        kept = [
            each.replace(content=[p for p in each.parts if p.kind != "image"])
            if each.role == "user"
            else each
            for each in messages
        ]
        export = openai_chat.dump(kept)
        return Export(export.payload, (*lost, *export.lost))


class TurnsRound(LosesAll):
    """Lists one loss, and writes results before their calls."""

    def dump(self, messages):
        export = openai_chat.dump(messages)
        export.payload["messages"].reverse()
        return Export(
            export.payload,
            (*export.lost, *[Lost("messages[0]", "name", "no names")] * bool(messages)),
        )


@pytest.mark.parametrize(
    ("adapter", "law"),
    [
        (LosesAll(), "loses nothing in silence"),
        (ListsNames(), "loses nothing in silence"),
        (TurnsRound(), "keeps order"),
    ],
    ids=["lists all", "lists names", "turns round"],
)
def test_a_loss_excuses_what_it_names(adapter, law):
    """What an export does not list is still there, and in its order."""
    with pytest.raises(BrokenLawsError) as caught:
        check_adapter(adapter, settings=FEW, without=others(AdapterContract, law))

    assert law in {each.law for each in caught.value.broken}


def others(contract, law):
    """The laws of *contract* but *law*, and but the first one, which comes first."""
    names = [name for name, each in contract.laws.items() if not each.is_extra]
    return {*names[1:]} - {law}


FIELDS = [
    *("name", "metadata", "unknown", "timestamp", "response"),
    *("id", "tool_call_id", "tool_name", "is_error"),
]


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_is_not_its_message(field):
    """A loss that names a field of a message excuses no content that is missing."""

    class ListsAField(ListsNames):
        name = field

    said = UserMessage([TextPart("What is it?"), ImagePart(url="https://a/b.png")])
    with pytest.raises(BrokenLawsError, match=r"parts\[1\] is missing"):
        check_adapter(
            ListsAField(),
            conversations=st.just((said,)),
            without={*AdapterContract.laws} - {"loses nothing in silence"},
            settings=FEW,
        )


@pytest.mark.parametrize("name", PROVIDERS)
def test_our_readers(name):
    """The readers of this library break no law of streams."""
    check_stream(PROVIDERS[name].load_chunks, events=event_streams(name), settings=FEW)


def whole_at_the_end(events):
    yield from list(openai_chat.load_chunks(list(events)))


def cut_is_whole(events):
    for chunk in openai_chat.load_chunks(events):
        response = chunk.response
        if response and response.finish_reason == "interrupted":
            yield chunk.replace(response=None)
        else:
            yield chunk


def usage_twice(events):
    for chunk in openai_chat.load_chunks(events):
        yield chunk
        if chunk.response and chunk.response.usage:
            yield chunk


def hides_errors(events):
    try:
        yield from openai_chat.load_chunks(events)
    except ConnectionError:
        return


def trusts_its_events(events):
    for event in events:
        for choice in event["choices"]:
            yield AssistantMessage(choice["delta"].get("content") or "")


def takes_events_away(events):
    while events:
        yield from openai_chat.load_chunks([events.pop(0)])


@pytest.mark.parametrize(
    ("reader", "law"),
    [
        (whole_at_the_end, "gives pieces as they come"),
        (cut_is_whole, "cut anywhere"),
        (usage_twice, "counts usage once"),
        (hides_errors, "passes errors on"),
        (trusts_its_events, "reads every stream"),
        (takes_events_away, "is pure"),
    ],
)
def test_faults_of_readers(reader, law):
    """Each fault breaks the law that forbids it, with the defaults."""
    with pytest.raises(BrokenLawsError) as caught:
        check_stream(
            reader,
            settings=settings(database=None, derandomize=True),
            without=others(StreamReaderContract, law),
        )

    broken = {each.law for each in caught.value.broken}
    assert law in broken or broken == {"reads every stream"}
