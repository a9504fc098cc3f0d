"""
Workflows, and histories of them as a server would write them.

The sandbox of workflows imports this module again for each run.
"""

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import History, HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter

with workflow.unsafe.imports_passed_through():
    from conversation_state.aggregator import Turn
    from conversation_state.store import StateRef

SOON = timedelta(seconds=10)


@workflow.defn(name="pipeline")
class Pipeline:
    """So many calls of a model, each with the reference that the one before gave."""

    @workflow.run
    async def run(self, ref: StateRef, calls: int, timeout_s: float = 10) -> StateRef:
        for number in range(calls):
            ref = await workflow.execute_activity(
                "ask",
                args=[ref, number],
                result_type=StateRef,
                start_to_close_timeout=timedelta(seconds=timeout_s),
            )
            if type(ref) is not StateRef:
                raise TypeError(f"a reference came as {type(ref)}")

        return ref


@workflow.defn(name="relay")
class Relay:
    """A turn that one activity made, saved by another."""

    @workflow.run
    async def run(self, ref: StateRef) -> StateRef:
        turn = await workflow.execute_activity(
            "ask", ref, result_type=Turn, start_to_close_timeout=SOON
        )
        if type(turn) is not Turn or not len(turn):
            raise TypeError(f"a turn came as {type(turn)}")

        saved: StateRef = await workflow.execute_activity(
            "save", turn, result_type=StateRef, start_to_close_timeout=SOON
        )
        return saved


class RecordedHistory:
    """
    What a server keeps of a workflow that calls activities one after the other.

    Attributes:
        payload_bytes: The bytes of all payloads.
    """

    # The checks of ids and types that servers switch on for new workflows.
    _FLAGS = (1, 2, 3)

    def __init__(self, converter: DataConverter, name: str, *arguments: Any) -> None:
        self._converter = converter.payload_converter
        self._history = History()
        self.payload_bytes = 0
        started = self._add_event("WORKFLOW_EXECUTION_STARTED")
        started.workflow_type.name = name
        started.task_queue.name = "queue"
        started.original_execution_run_id = "run"
        started.workflow_task_timeout.FromTimedelta(SOON)
        started.input.payloads.extend(self._convert(arguments))
        self._decided = self._add_task()

    def add_call(self, activity: str, arguments: tuple[Any, ...], result: Any) -> None:
        """An activity that the workflow scheduled, and its result."""
        scheduled = self._add_event("ACTIVITY_TASK_SCHEDULED")
        number = len(self._history.events)
        scheduled.activity_id = str(sum(map(_is_scheduled, self._history.events)))
        scheduled.activity_type.name = activity
        scheduled.task_queue.name = "queue"
        scheduled.workflow_task_completed_event_id = self._decided
        scheduled.input.payloads.extend(self._convert(arguments))
        self._add_event("ACTIVITY_TASK_STARTED").scheduled_event_id = number
        completed = self._add_event("ACTIVITY_TASK_COMPLETED")
        completed.scheduled_event_id = number
        completed.started_event_id = number + 1
        completed.result.payloads.extend(self._convert([result]))
        self._decided = self._add_task()

    def finish(self, result: Any) -> WorkflowHistory:
        """The whole history, with the result of the workflow."""
        completed = self._add_event("WORKFLOW_EXECUTION_COMPLETED")
        completed.workflow_task_completed_event_id = self._decided
        completed.result.payloads.extend(self._convert([result]))
        return WorkflowHistory("workflow", list(self._history.events))

    def _convert(self, values: Any) -> list[Any]:
        payloads = self._converter.to_payloads(list(values))
        self.payload_bytes += sum([payload.ByteSize() for payload in payloads])
        return payloads

    def _add_task(self) -> int:
        self._add_event("WORKFLOW_TASK_SCHEDULED").task_queue.name = "queue"
        number = len(self._history.events)
        self._add_event("WORKFLOW_TASK_STARTED").scheduled_event_id = number
        completed = self._add_event("WORKFLOW_TASK_COMPLETED")
        completed.scheduled_event_id = number
        completed.started_event_id = number + 1
        completed.sdk_metadata.core_used_flags.extend(self._FLAGS)
        return len(self._history.events)

    def _add_event(self, kind: str) -> Any:
        event: HistoryEvent = self._history.events.add(
            event_id=len(self._history.events) + 1,
            event_type=EventType.Value(f"EVENT_TYPE_{kind}"),
        )
        event.event_time.GetCurrentTime()
        return getattr(event, f"{kind.lower()}_event_attributes")


def _is_scheduled(event: HistoryEvent) -> bool:
    return event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
