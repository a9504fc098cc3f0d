"""
Templates.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from conversation_state.templates import Placeholder, Template
from conversation_state.testing.strategies._messages import messages
from conversation_state.testing.strategies._values import once, texts

__all__ = ["placeholders", "templates"]


@once
def placeholders() -> SearchStrategy[Placeholder]:
    """
    Places for messages.

    Shrink to a required one, of "0".
    """
    return st.builds(Placeholder, texts(min_size=1, max_size=8), st.booleans())


@once
def templates(*, max_size: int = 3) -> SearchStrategy[Template]:
    """
    Templates of up to *max_size* items, in any syntax; what their messages say
    need not be right in it.

    Shrink to nothing, in Python's syntax.
    """
    items = st.lists(messages() | placeholders(), max_size=max_size)
    return st.builds(
        lambda items, syntax: Template(*items, syntax=syntax),
        items,
        st.sampled_from(["fstring", "jinja2", "go"]),
    )
