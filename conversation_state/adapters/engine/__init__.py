"""
The engine of formats: reading with problems by path, notes, media, arguments, usage,
streams, and writing with what is lost.

For those who write a format, or a host that needs one: these names are what nearly all
use. The example of `docs/new-adapter.md` calls most of them, and that page has a table
of the others. What is written once, whatever the format, is here; what one provider
does is in the module of its format.
"""

from conversation_state.adapters.engine.export import (
    Export,
    Lost,
    PayloadWriter,
    in_order,
    merge_kept_keys,
    write_tools,
)
from conversation_state.adapters.engine.notes import (
    Format,
    map_of,
    notes_of,
    with_notes,
)
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
    mended,
)
from conversation_state.adapters.engine.streaming import (
    Repeats,
    SurrogateBuffer,
    achunks_of,
    chunks_of,
)
from conversation_state.adapters.engine.usage import read_billed, usage_in
from conversation_state.adapters.engine.wire import MessageLoader

__all__ = [
    "DocumentReader",
    "Export",
    "Format",
    "Lost",
    "MessageLoader",
    "ObjectReader",
    "PayloadWriter",
    "Repeats",
    "SurrogateBuffer",
    "achunks_of",
    "chunks_of",
    "in_order",
    "is_list",
    "is_map",
    "map_of",
    "mended",
    "merge_kept_keys",
    "notes_of",
    "read_billed",
    "usage_in",
    "with_notes",
    "write_tools",
]
