"""What all values of messages, tools, documents, usage and templates have in common."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.counting import TokenBudget, by_characters, calibrated
from conversation_state.messages import Message, UserMessage
from conversation_state.templates import Placeholder, Template
from conversation_state.testing import strategies as our
from conversation_state.testing.laws import copies_are_equal, equal_values_hash_alike

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
