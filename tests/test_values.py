"""What all values of messages, tools, documents, usage and templates have in common."""

from operator import add, or_
from unittest.mock import ANY

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state._persistent import FrozenMap, Log
from conversation_state.aggregator import Aggregator
from conversation_state.counting import TokenBudget, by_characters, calibrated
from conversation_state.documents import Document
from conversation_state.errors import DroppedHistoryError
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
    FilePart,
    ImagePart,
    ReasoningPart,
    TextPart,
    UnknownPart,
)
from conversation_state.templates import Placeholder, Template
from conversation_state.testing import strategies as our
from conversation_state.testing.laws import copies_are_equal, equal_values_hash_alike
from conversation_state.timeline import Timeline
from conversation_state.tools import Parameter, ToolCall, ToolInfo
from conversation_state.tree import MessageTree
from conversation_state.usage import (
    CompletionTokensDetails,
    PromptTokensDetails,
    Usage,
)

TEMPLATES = [
    Template(UserMessage(text), Placeholder("h", optional=optional), syntax=syntax)
    for text in ("a", "b")
    for optional in (True, False)
    for syntax in ("go", "jinja2")
]
VALUES = {
    "budgets": st.builds(TokenBudget, context_window=st.integers(1, 3)),
    "counters": st.sampled_from(
        [calibrated(by_characters, [([UserMessage("Hi")], n)]) for n in (1, 2)]
    ),
    "documents": our.documents(),
    "envelopes": our.envelopes(),
    "log_probs": our.log_probs(),
    "messages": our.messages(),
    "parameters": our.parameters(),
    "parts": our.parts(),
    "placeholders": st.builds(Placeholder, st.sampled_from("ab"), st.booleans()),
    "response_metas": our.response_metas(),
    "templates": st.sampled_from(TEMPLATES),
    "tool_calls": our.tool_calls(),
    "tool_infos": our.tool_infos(),
    "usages": our.usages()
    | our.prompt_tokens_details()
    | our.completion_tokens_details(),
}

# Values made of the least they need, which of their fields are not empty then, and how
# many of them are taken without a name.
LEAST = [
    (UserMessage("a"), {"content"}, 1),
    (AssistantMessage(), set(), 1),
    (ToolMessage("a", tool_call_id="c"), {"content", "tool_call_id"}, 1),
    (UnknownMessage({"a": 1}), {"raw"}, 1),
    (ResponseMeta(), set(), 5),
    (LogProb("a", -0.5), {"token", "logprob"}, 4),
    (TextPart("a"), {"text"}, 1),
    (ReasoningPart(), set(), 2),
    (ImagePart(url="a"), {"url"}, 0),
    (FilePart(url="a"), {"url"}, 0),
    (UnknownPart({"a": 1}), {"raw"}, 1),
    (ToolCall("c", "f"), {"id", "name", "type"}, 3),
    (ToolInfo("f"), {"name"}, 3),
    (Parameter("string"), {"type", "_levels"}, 7),
    (Document("d", "a"), {"id", "content"}, 3),
    (PromptTokensDetails(), set(), 0),
    (CompletionTokensDetails(), set(), 0),
    (Usage(), {"prompt_tokens_details", "completion_tokens_details"}, 6),
]


@pytest.mark.parametrize(
    ("value", "given_fields"),
    [(value, given_fields) for value, given_fields, _ in LEAST],
    ids=lambda each: type(each).__name__,
)
def test_what_is_not_given_is_empty(value, given_fields):
    """A text is "", a number 0 or None, a list (), a map {}, a question False."""
    fields = {field.name for field in attrs.fields(type(value))} - {"_common"}
    if isinstance(value, Message):
        fields |= {"name", "run_id", "turn_id", "timestamp", "metadata", "unknown"}

    assert given_fields == {name for name in fields if getattr(value, name)}


@pytest.mark.parametrize(
    ("value", "count"),
    [(value, count) for value, _, count in LEAST],
    ids=lambda each: type(each).__name__,
)
def test_options_have_names(value, count):
    """Only the fields that come first may be given by their position."""
    with pytest.raises(TypeError, match="positional"):
        type(value)(*[None] * (count + 1))


@pytest.mark.parametrize(
    "value",
    [
        Log([1]),
        FrozenMap({"a": 1}),
        Aggregator.new(),
        Timeline.begin(1),
        MessageTree.of(Aggregator.new()),
        Aggregator.new().messages,
        DroppedHistoryError((), (), 0),
        *[value for value, *_ in LEAST],
    ],
    ids=lambda each: type(each).__name__,
)
def test_others_decide(value):
    """Another class decides whether it is equal to a value, and what both make."""
    assert value == ANY
    assert ANY == value
    assert (value == object()) is False
    assert (value != object()) is True
    for operator in (add, or_):
        with pytest.raises(TypeError):
            operator(value, object())


@pytest.mark.parametrize("name", VALUES)
class TestValues:
    """Equal by content, hashable, copied, and frozen."""

    @given(st.data())
    def test_equal_values_hash_alike(self, name, data):
        """Equal values have equal hashes, and one that is made of the same is equal."""
        a, b = data.draw(VALUES[name]), data.draw(VALUES[name])
        equal_values_hash_alike(a, b)
        if name not in ("budgets", "templates"):  # whose constructors take other things
            same = a.replace() if isinstance(a, Message) else attrs.evolve(a)
            equal_values_hash_alike(a, same)
            assert a == same

    @given(st.data())
    def test_copies(self, name, data):
        """Copied and pickled, it is equal, and shown the same."""
        value = data.draw(VALUES[name])
        copies_are_equal(value)

    @given(st.data())
    def test_frozen(self, name, data):
        """Nothing can be set, deleted or added."""
        value = data.draw(VALUES[name])
        for field in (*[each.name for each in attrs.fields(type(value))], "other"):
            with pytest.raises(AttributeError):
                setattr(value, field, None)
            with pytest.raises(AttributeError):
                delattr(value, field)
