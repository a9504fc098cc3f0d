"""
A conversation as user interfaces keep it: messages with alternatives, one of which
is shown.

What lives here: the tree of all messages that some states have, siblings, and the
way to the message that is shown. What does not: a tree of *states* to undo and redo
(`timeline`), and drawings of either.
"""

from conversation_state.tree._tree import MessageTree, Node

__all__ = ["MessageTree", "Node"]
