"""
Copying threads from another checkpointer, through the methods that all of them have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    PendingWrite,
)

from conversation_state.hosts.langgraph._checkpoints import config_of
from conversation_state.hosts.langgraph._whole_threads import parse_config

# The namespace and the id of a checkpoint.
Place: TypeAlias = tuple[str, str]
# A task, its path, and what it wrote.
TaskWrites: TypeAlias = tuple[str, str, list[tuple[str, Any]]]


def list_checkpoints(
    old: BaseCheckpointSaver[Any], config: RunnableConfig | None
) -> dict[str, dict[Place, RunnableConfig]]:
    """
    The checkpoints of a thread of *old*, or of all, by thread, and the config of each.
    Parents come before their children, since ids grow with time.
    """
    found: dict[str, dict[Place, RunnableConfig]] = {}
    for each in old.list(config):
        thread, namespace, id = parse_config(each.config)
        found.setdefault(thread, {})[namespace, id or ""] = each.config

    return {
        thread: dict(sorted(places.items(), key=lambda place: place[0][::-1]))
        for thread, places in found.items()
    }


def read_checkpoints(
    old: BaseCheckpointSaver[Any], thread: str, places: Mapping[Place, RunnableConfig]
) -> Iterator[tuple[CheckpointTuple, RunnableConfig]]:
    """Each checkpoint, and the config that names its parent. Holds one at a time."""
    for (namespace, _), config in places.items():
        found = old.get_tuple(config)
        if found is None:
            continue  # deleted meanwhile

        parent = None
        if found.parent_config is not None:
            parent = parse_config(found.parent_config)[2]

        yield found, config_of(thread, namespace, parent or "")


def group_writes(writes: list[PendingWrite] | None) -> list[TaskWrites]:
    """
    The *writes* after a checkpoint, by task.

    A checkpointer numbers the writes of one call of ``put_writes``, and keeps the
    first of each number: so all of a task's are put at once. Errors, interrupts
    and resume values have numbers of their own and come last, so that they move no
    other write.

    The path of a task, by which writes are sorted, is in no checkpoint that is
    read. Numbers in its place keep the order of the tasks as they were listed;
    they sort before all paths of LangGraph, which begin with "~".
    """
    tasks: dict[str, list[tuple[str, Any]]] = {}
    for task, channel, value in writes or ():
        tasks.setdefault(task, []).append((channel, value))

    return [
        (task, f"{number:08}", sorted(own, key=lambda one: one[0] in WRITES_IDX_MAP))
        for number, (task, own) in enumerate(tasks.items())
    ]
