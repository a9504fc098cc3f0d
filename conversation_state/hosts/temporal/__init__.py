"""
Temporal: references to states in workflows, states in activities (extra ``temporal``).

::

    client = await Client.connect("localhost:7233", data_converter=data_converter)

    @activity.defn
    def ask(ref: StateRef) -> StateRef:
        return run_step(store, ref, ask_model)

A workflow's history holds what goes into each activity and what comes out. With whole
states that is the conversation twice for each call of a model; with references it is
160 bytes. The converter writes a `StateRef` as its text, and a `Turn` or a message as
the codec does, also inside of lists, dicts and dataclasses. It refuses whole states.

`run_step` is an activity's work: it saves what a function makes of a state, and returns
the next reference. Where an activity can't reach the store it returns a `Turn`, which
another activity joins.

In a workflow's file, import this library ``with workflow.unsafe.imports_passed_through
():``. Make states, messages and turns in activities: their identities are random, so
those that workflow code makes are others in each replay.

Not done here: a workflow engine, or a server; Temporal is both.

Source:
    temporalio 1.35: its payload converters, which convert by type hints, and its
    worker, which runs an activity again whose result it did not get.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conversation_state.hosts._host import import_lazily

if TYPE_CHECKING:
    from conversation_state.hosts.temporal._references import (
        ConversationPayloadConverter,
        arun_step,
        data_converter,
        run_step,
    )

__all__ = ["ConversationPayloadConverter", "arun_step", "data_converter", "run_step"]

__getattr__, __dir__ = import_lazily(
    __name__,
    dict.fromkeys(__all__, "_references"),
    extra="temporal",
    needs={"temporalio"},
)
