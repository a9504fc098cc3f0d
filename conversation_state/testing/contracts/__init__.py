"""
Contracts for your own functions and classes, each as one call and as a class.

`check_reducer`, `check_counter`, `check_trimming_step`, `check_summariser`,
`check_adapter`, `check_stream`, `check_chat` and `check_agent` hold what they get to
its laws, in any test function, and raise a `BrokenLawsError` with the smallest example
of each broken one as code. What can't be checked at all is a TypeError, and an
unknown name of a law a ValueError.
The classes have the same laws as tests for pytest: subclass one and give it the
attribute that it is about.

Laws of the values of this library are in `laws`.
"""

from typing import TYPE_CHECKING

from conversation_state._lazy import open_later
from conversation_state.testing._code import format_code, format_example
from conversation_state.testing.contracts._adapters import (
    Adapter,
    AdapterContract,
    check_adapter,
)
from conversation_state.testing.contracts._chats import (
    Chat,
    ChatAct,
    ChatContract,
    check_chat,
)
from conversation_state.testing.contracts._contract import Contract, law, run_laws
from conversation_state.testing.contracts._counters import (
    CounterContract,
    check_counter,
)
from conversation_state.testing.contracts._reducers import (
    ReducerContract,
    check_reducer,
)
from conversation_state.testing.contracts._results import BrokenLawsError, LawResult
from conversation_state.testing.contracts._streams import (
    StreamReader,
    StreamReaderContract,
    check_stream,
)
from conversation_state.testing.contracts._trimming import (
    Summariser,
    SummariserContract,
    TrimmingStepContract,
    check_summariser,
    check_trimming_step,
)

if TYPE_CHECKING:
    from conversation_state.testing.contracts._agent_scripts import AgentTurn, CutStream
    from conversation_state.testing.contracts._agents import (
        AgentReport,
        check_agent,
        replay_agent,
    )

__all__ = [
    "Adapter",
    "AdapterContract",
    "AgentReport",
    "AgentTurn",
    "BrokenLawsError",
    "Chat",
    "ChatAct",
    "ChatContract",
    "Contract",
    "CounterContract",
    "CutStream",
    "LawResult",
    "ReducerContract",
    "StreamReader",
    "StreamReaderContract",
    "Summariser",
    "SummariserContract",
    "TrimmingStepContract",
    "check_adapter",
    "check_agent",
    "check_chat",
    "check_counter",
    "check_reducer",
    "check_stream",
    "check_summariser",
    "check_trimming_step",
    "format_code",
    "format_example",
    "law",
    "replay_agent",
    "run_laws",
]

# Agents need a server of HTTP.
_PACKAGE = "conversation_state.testing.contracts"
__getattr__, __dir__ = open_later(
    __name__,
    {
        **dict.fromkeys(("AgentTurn", "CutStream"), f"{_PACKAGE}._agent_scripts"),
        **dict.fromkeys(
            ("AgentReport", "check_agent", "replay_agent"), f"{_PACKAGE}._agents"
        ),
    },
)
