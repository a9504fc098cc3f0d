"""
Pages: conversations, trees, views and bills as HTML, for notebooks and as files.

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
