"""
Saving several names at once, or none of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from conversation_state.aggregator import Aggregator
from conversation_state.errors import StoreError
from conversation_state.store._core import TRIES, Core, Known, checked_name
from conversation_state.store._saving import (
    Wish,
    check_expecting,
    save_in,
    settle,
)
from conversation_state.store._values import Head
from conversation_state.store.backend import ConflictError

__all__ = ["save_all"]


def save_all(
    core: Core,
    states: Mapping[str, Aggregator],
    expecting: Mapping[str, Head | int],
) -> dict[str, Head]:
    """
    What `Store.save_all` does.
    """
    for name, state in states.items():
        checked_name(name)
        if not isinstance(state, Aggregator):
            msg = f"a store keeps Aggregators, got a {type(state).__name__}"
            raise TypeError(msg)

    for name, head in expecting.items():
        check_expecting(name, head)
        if name not in states:
            msg = f"expecting has {name!r}, of which no state is to be saved"
            raise ValueError(msg)

    for _ in range(TRIES):
        made: list[tuple[str, Head, Known | None]] = []
        try:
            with core.writing() as tx:
                seen = core.catch_up(tx)
                # In one order, so that of two such saves one waits for the other.
                for name in sorted(states):
                    wish = Wish(name, states[name], expecting.get(name))
                    found = save_in(core, tx, seen, wish)
                    made.append((name, *found))
        except ConflictError:
            for name in states:
                core.forget(name)

            continue

        for name, _head, known in made:
            settle(core, seen, name, states[name], known)

        heads = {name: head for name, head, _known in made}
        return {name: heads[name] for name in states}

    what = f"{TRIES} times others saved at the same moment; try again"
    raise StoreError(core.url, what)
