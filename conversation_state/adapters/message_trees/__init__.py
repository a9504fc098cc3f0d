"""
Conversations as chat interfaces keep them, with all their branches: assistant-ui,
LibreChat and Open WebUI are read and written, archives of ChatGPT and Claude.ai are
read.

::

    for result in load_trees(json.load(file)):
        if isinstance(result, DecodeError):
            print(result)                     # that one conversation
        else:
            store.save_tree(result.name, result.tree)

    payload = dump_tree(tree, format="assistant_ui").payload

A record of a file is one message, or a run of an assistant's messages and results of
its tools. The id it has in the file is that of its first message (see
`conversation_state.tree.name`), and `MessageTree.find` finds it. What else the file
has of it is a note (see `conversation_state.adapters.engine.notes`): ``format``;
``at``, its position in the file; ``keys``, with which it is written again as it was;
``hidden`` where ChatGPT does not show it.

Source:
    ``ExportedMessageRepository`` and ``MessageStorageEntry`` of @assistant-ui/core
    0.3.35; the importers of danny-avila/LibreChat and their samples; Open WebUI's
    ``chats.py``.
"""

from conversation_state.adapters.engine.notes import Format
from conversation_state.adapters.message_trees._dump import dump_tree
from conversation_state.adapters.message_trees._load import LoadedTree, load_trees

__all__ = ["FORMAT", "LoadedTree", "dump_tree", "load_trees"]

FORMAT = Format("message_trees", is_both_ways=False)
