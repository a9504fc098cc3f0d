"""
References to states in Temporal: as payloads, and what an activity does with one.

The classes of the SDK are bases here, so this module is imported on first use.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.converter import (
    AdvancedJSONEncoder,
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
    JSONTypeConverter,
)
from temporalio.exceptions import ApplicationError

from conversation_state._wording import with_article
from conversation_state.aggregator import Aggregator, Checkpoint, Turn
from conversation_state.codec import from_data, to_data
from conversation_state.hosts._host import parse_ref, quote_name
from conversation_state.messages import Message
from conversation_state.parts import Part
from conversation_state.store import Head, StateRef, Store
from conversation_state.timeline import Timeline
from conversation_state.tools import ToolCall
from conversation_state.tree import MessageTree
from conversation_state.usage import Usage

_LEASE = timedelta(days=30)
_WRITTEN = (Turn, Message, Part, ToolCall, Usage)
_WHOLE = (Aggregator, Checkpoint, Timeline, MessageTree)


class ConversationPayloadConverter(CompositePayloadConverter):
    """
    Temporal's default payload converter, which also takes references and turns.

    A `StateRef` is its text, at most 80 bytes; a `Turn`, a message, a part, a call of a
    tool and a `Usage` are what `to_data` gives. Values are read by type hints, as
    Temporal reads dataclasses: annotate parameters and results, also as
    ``list[StateRef]`` or ``StateRef | Turn``.

    A whole state is refused, and so is a `Head`, which would come back as a list: as
    the result of an activity by an ``ApplicationError`` that is not retried, since each
    attempt would ask the model again; elsewhere by a ``TypeError``.

    With options: ``DataConverter(payload_converter_class=ConversationPayloadConverter,
    payload_codec=…)``.
    """

    def __init__(self) -> None:
        super().__init__(
            *(
                _JSON if isinstance(each, JSONPlainPayloadConverter) else each
                for each in DefaultPayloadConverter.default_encoding_payload_converters
            )
        )


class _Encoder(AdvancedJSONEncoder):
    def default(self, o: Any) -> Any:
        cls = type(o)
        if _is_named_as(cls, StateRef):
            return str(o)

        if isinstance(o, _WRITTEN):
            return to_data(o)

        if _is_named_as(cls, *_WHOLE):
            raise _make_refusal(
                cls,
                "its history would keep all of it once for each call. Save it and send "
                "store.ref(head), or send the turn of a fork, which is what was added",
            )

        _check_imported_once(cls)
        return super().default(o)


class _JsonConverter(JSONPlainPayloadConverter):
    def to_payload(self, value: Any) -> Any:
        # A named tuple, which JSON would write as a list.
        if _is_named_as(type(value), Head):
            raise _make_refusal(Head, "send store.ref(head)")

        return super().to_payload(value)


class _TypeConverter(JSONTypeConverter):
    def to_typed_value(self, hint: type, value: Any) -> Any:
        if not isinstance(hint, type):
            return self.Unhandled

        if _is_named_as(hint, StateRef):
            # Of that class, which may be the sandbox's own.
            reference: Any = hint
            return reference.parse(value)

        if issubclass(hint, _WRITTEN):
            return from_data(value, expect=hint)

        if _is_named_as(hint, Head, *_WHOLE):
            raise TypeError(
                f"can't receive {with_article(hint.__name__)} from a workflow; "
                "annotate a StateRef, and give it to store.resolve in an activity"
            )

        _check_imported_once(hint)
        return self.Unhandled


def _make_refusal(cls: type, advice: str) -> Exception:
    what = with_article(cls.__name__)
    message = f"can't send {what} through a workflow; {advice}"
    if activity.in_activity():
        # Else it is run again, without an end by default.
        return ApplicationError(message, type="TypeError", non_retryable=True)

    return TypeError(message)


def _check_imported_once(cls: type) -> None:
    if _is_named_as(cls, *_WRITTEN):
        raise TypeError(
            f"{cls.__module__}.{cls.__name__} was imported again by the sandbox of "
            "workflows, so it is another class; import conversation_state in a block "
            "`with workflow.unsafe.imports_passed_through():`"
        )


def _is_named_as(cls: type, *ours: type) -> bool:
    """
    Whether *cls* is one of these classes, or a subclass; or as the sandbox imports it
    again where it is not passed through: another class of the same name.
    """
    names = {(each.__module__, each.__qualname__) for each in ours}
    return any((each.__module__, each.__qualname__) in names for each in cls.__mro__)


_JSON = _JsonConverter(encoder=_Encoder, custom_type_converters=[_TypeConverter()])

data_converter = DataConverter(payload_converter_class=ConversationPayloadConverter)
"""Temporal's data converter with a `ConversationPayloadConverter`, for its clients."""


def run_step(
    store: Store,
    ref: StateRef | str,
    function: Callable[[Aggregator], Aggregator],
    *,
    keep: timedelta = _LEASE,
) -> StateRef:
    """
    A reference to what *function* makes of the state of *ref*, saved once for each
    activity: `Store.step_ref`, called in an activity.

    The label of the step, ``temporal/RUN/ACTIVITY``, is made of the ids of the
    workflow's run and of the activity. So an attempt that follows one that saved
    returns the same reference, and does not call *function*. Two activities of one
    run to which a workflow gives one id are one step.

    Args:
        store: Where the state is, open.
        ref: The state that *function* gets, or the text of that reference. What others
            saved since stays.
        function: From a state to what it has grown into. If it fails, the usage that
            it gave to `conversation_state.save_progress` is saved.
        keep: How long the reference is kept; longer than the workflow lasts. See
            `Store.ref`.

    Raises:
        NotSavedError, InvalidUsageError, StoreError, TypeError: As `Store.step_ref`
            says.
    """
    return store.step_ref(parse_ref(ref), _make_label(), function, keep=keep)


async def arun_step(
    store: Store,
    ref: StateRef | str,
    function: Callable[[Aggregator], Awaitable[Aggregator]],
    *,
    keep: timedelta = _LEASE,
) -> StateRef:
    """The async twin of `run_step`: *function* and the activity are async."""
    return await store.astep_ref(parse_ref(ref), _make_label(), function, keep=keep)


def _make_label() -> str:
    info = activity.info()
    # An activity that no workflow started has a run of its own.
    run_id: Any = info.workflow_run_id or info.activity_run_id
    return f"temporal/{quote_name(run_id)}/{quote_name(info.activity_id)}"
