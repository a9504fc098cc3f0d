"""
A state of ours as a key of a graph's state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.channels import BinaryOperatorAggregate
from langgraph.errors import EmptyChannelError

from conversation_state.adapters._langchain import load_message
from conversation_state.aggregator import Aggregator, Turn
from conversation_state.messages import Message
from conversation_state.usage import Usage

__all__ = ["StateChannel", "add_to_state"]


def add_to_state(state: Aggregator, update: Any) -> Aggregator:
    """
    *state* with what a node gave: the reducer of `StateChannel`.

    Args:
        state: What was said so far.

        update: A state that grew from it, of which what is new is joined; a
            `Turn`; a message of ours or of LangChain's; a `Usage`; None; or a
            list of these, in order.

    Raises:
        TypeError:
            If it is something else.
    """
    match update:
        case None:
            return state
        case Aggregator() | Turn():
            return state.join(update)
        case Message():
            return state.add(update)
        case Usage():
            return state.add_usage(update)
        case RemoveMessage():
            msg = (
                "nothing is removed from a state; return a fork of an earlier one "
                "with Overwrite, or trim what the model gets to see"
            )
            raise TypeError(msg)
        case BaseMessage():
            return state.add(load_message(update))
        case str() | bytes() | dict():
            pass
        case Iterable():
            for each in update:
                state = add_to_state(state, each)

            return state

    msg = (
        "a node gives a state messages of ours or of LangChain's, a Usage, an "
        f"Aggregator that grew from it, or a list of these; got a "
        f"{type(update).__name__}: {update!r:.80}"
    )
    raise TypeError(msg)


class StateChannel(BinaryOperatorAggregate[Aggregator]):
    """
    Holds an `Aggregator`, to which nodes add: ``talk: Annotated[Aggregator,
    StateChannel]``.

    Nodes that ran side by side are joined in LangGraph's order of them, each
    entry once. Empty until somebody adds; `Overwrite` replaces it.
    """

    __slots__ = ()

    def __init__(self, typ: Any = Aggregator, operator: Any = add_to_state) -> None:
        super().__init__(typ, operator)

    def update(self, values: Sequence[Any]) -> bool:
        """
        Add *values*; whether there were any.
        """
        try:
            self.get()
        except EmptyChannelError:
            if not values:
                return False

            # A state that is given to nothing stays the one it is.
            first = values[0]
            is_state = isinstance(first, Aggregator)
            self.value = first if is_state else Aggregator.new()

        return super().update(values)
