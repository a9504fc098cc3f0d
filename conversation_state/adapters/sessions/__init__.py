"""
Sessions of coding agents, as trees with a bill.

::

    session = read_session("~/.claude/projects/app/5d0b….jsonl")
    store.save_tree(session.name, session.tree)
    session.usage                            # with rewound branches and sub-agents

The live branch is shown; what was rewound is a branch beside it. Each response stands
once, and its usage is in the ledger once, under the provider's id. A compaction takes
nothing away: the path to the head has what was said before it, and `compacted` is what
the model gets instead. What a line has besides its message is a note (see
`conversation_state.adapters.engine.notes`): ``format``, ``lines`` with all their other
keys, ``compaction`` with the summary of what is before it, ``hidden`` where Claude Code
does not show it, and ``unsent`` where no model gets it.

These formats are private to their agents and change without notice; :doc:`sessions`
says what was verified with which version.
"""

from conversation_state.adapters.engine.notes import Format
from conversation_state.adapters.sessions._dump import WRITTEN, dump_session
from conversation_state.adapters.sessions._load import (
    FORMATS,
    load_session,
    load_sessions,
    read_session,
    recognize,
)
from conversation_state.adapters.sessions._session import (
    LoadedSession,
    compacted,
    trim_sent,
    without_unsent,
)

__all__ = [
    "FORMAT",
    "FORMATS",
    "WRITTEN",
    "LoadedSession",
    "compacted",
    "dump_session",
    "load_session",
    "load_sessions",
    "read_session",
    "recognize",
    "trim_sent",
    "without_unsent",
]

FORMAT = Format("sessions", is_both_ways=False)
