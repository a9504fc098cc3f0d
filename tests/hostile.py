"""
Messages whose texts try to pass for something else.
"""

from typing import Any

from hypothesis import strategies as st

from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    FilePart,
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.tools import ToolCall

__all__ = ["messages_from"]


def messages_from(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Message]:
    """
    Messages of every role, all of whose texts are *texts*.
    """
    some: Any = texts.filter(bool)
    raw: Any = st.builds(dict, x=texts)
    parts = st.one_of(
        *(st.builds(kind, texts) for kind in (TextPart, ReasoningPart, RefusalPart)),
        st.builds(ImagePart, url=some),
        st.builds(FilePart, url=some, name=texts),
        st.builds(UnknownPart, raw, source=texts),
    )
    return st.one_of(
        st.builds(UserMessage, texts, name=texts),
        st.builds(SystemMessage, texts),
        st.builds(ToolMessage, texts, tool_call_id=some, tool_name=texts),
        st.builds(
            AssistantMessage,
            st.lists(parts, max_size=3),
            tool_calls=st.lists(st.builds(ToolCall, texts, texts, texts), max_size=2),
            response=st.builds(ResponseMeta, texts),
        ),
        st.builds(UnknownMessage, st.builds(dict, role=texts), source=some),
    )
