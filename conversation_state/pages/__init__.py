"""
Pages: conversations, trees, views and bills as HTML, for notebooks and as files.

What lives here: the drawing of states as a tree with lanes, transcripts with Markdown
and a card for each call, what the model sees of a conversation, and what it cost.
Pure functions from values to text. What does not: text for terminals (`cli`) and
transcripts without HTML (`rendering`).

Everything that comes from a conversation passes one escaping function
(`pages._markup.Words`), and a page asks nothing of any other host.
"""

from conversation_state.pages._documents import (
    draw_difference,
    draw_fragment,
    draw_outline,
    make_page,
)
from conversation_state.pages._graphs import History, HistoryState, read_history
from conversation_state.pages._transcripts import draw_views

__all__ = [
    "History",
    "HistoryState",
    "draw_difference",
    "draw_fragment",
    "draw_outline",
    "draw_views",
    "make_page",
    "read_history",
]
