"""
Branches of one state that run at the same time and are joined.

`fan_out` forks a state once per step, runs the steps in threads, processes or
on a cluster, and joins what they added, in the order of the steps; `afan_out`
does so with tasks. Joining itself is `aggregator`'s, and the value that a
program's threads share is `cells`'.

How it works: whatever runs a step, here or in another process, knows the fork
it began with (`_branches`), so only what is new comes back, as the result of a
future, with the error if there was one, and is joined in the end. The caller waits
for the branches and settles one after the other (`_fan_out`).
"""

from conversation_state.parallel._branches import collect_progress, save_progress
from conversation_state.parallel._clusters import DaskExecutor, RayExecutor
from conversation_state.parallel._fan_out import Failure, FanOut, afan_out, fan_out

__all__ = [
    "DaskExecutor",
    "Failure",
    "FanOut",
    "RayExecutor",
    "afan_out",
    "collect_progress",
    "fan_out",
    "save_progress",
]
