"""
A state of ours as a key of a graph's state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.channels import BinaryOperatorAggregate
from langgraph.errors import EmptyChannelError

from conversation_state._wording import describe_value
from conversation_state.adapters._langchain import load_message
from conversation_state.aggregator import Aggregator, Turn
from conversation_state.messages import Message
from conversation_state.usage import Usage

__all__ = ["StateChannel", "add_to_state"]


def add_to_state(state: Aggregator, update: Any) -> Aggregator:
    """
    *state* with the *update* that a node returned: the reducer of `StateChannel`.

    Args:
        state: The state so far.

        update: A state that continues it, which is joined; a `Turn`; a message
            of ours or of LangChain's; a `Usage`; None; or a list of these, in
            order.

    Raises:
        TypeError:
            If *update* is anything else.
    """
    match update:
        case None:
            return state
        case Aggregator() | Turn():
            return state.join(update)
        case Message():
            return state.add_response(update)
        case Usage():
            return state.add_usage(update)
        case RemoveMessage():
            msg = (
                "update: messages can't be removed from a state; return a fork of "
                "an earlier state with Overwrite, or trim the model's view"
            )
            raise TypeError(msg)
        case BaseMessage():
            return state.add_response(load_message(update))
        case str() | bytes() | dict():
            pass
        case Iterable():
            for each in update:
                state = add_to_state(state, each)

            return state

    msg = (
        "update: expected messages of ours or of LangChain's, a Usage, an Aggregator "
        f"that continues the state, or a list of these; got {describe_value(update)}"
    )
    raise TypeError(msg)


class StateChannel(BinaryOperatorAggregate[Aggregator]):
    """
    Holds an `Aggregator`, to which nodes add: ``conversation:
    Annotated[Aggregator, StateChannel]``.

    Updates of parallel nodes are joined in LangGraph's order, each entry once.
    Empty until the first update; `Overwrite` replaces the state.
    """

    __slots__ = ()

    def __init__(self, typ: Any = Aggregator, operator: Any = add_to_state) -> None:
        super().__init__(typ, operator)

    def update(self, values: Sequence[Any]) -> bool:
        """
        Add *values*; True if there were any.
        """
        try:
            self.get()
        except EmptyChannelError:
            if not values:
                return False

            # A state that comes first is the value itself, so that it keeps its id.
            first = values[0]
            is_state = isinstance(first, Aggregator)
            self.value = first if is_state else Aggregator.new()

        return super().update(values)
