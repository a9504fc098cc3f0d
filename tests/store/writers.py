"""
What processes of their own do to a store. They import this module alone, which takes
a part of the time that the tests beside it take.
"""

from conversation_state import Aggregator, Usage
from conversation_state.store import open_store

__all__ = ["change_own_names"]

CHAT = Aggregator.new().add_user_prompt("When is the next train?")


def change_own_names(url: str, who: int, turns: int) -> dict[str, list[Aggregator]]:
    """
    The states that were saved under names of this process: they are forked, deleted
    and collected meanwhile.
    """
    kept: dict[str, list[Aggregator]] = {}
    with open_store(url) as store:
        for turn in range(1, turns + 1):
            name = f"{who} {turn % 3}"
            if turn % 7 == 0 and name in kept:
                store.delete(name)
                del kept[name]
                continue

            states = kept.setdefault(name, [])
            if turn % 5 == 0 and states:
                new = f"{name} fork {turn}"
                store.fork(name, new)
                kept[new] = [store.load(new)]
                continue

            # Also what others released a moment ago, which may be garbage.
            state = states[-1] if states else CHAT.add_user_prompt(f"{turn % 4}")
            state = state.add_user_prompt(f"{who} {turn}").add_usage(Usage(1, 1))
            store.save(name, state)
            states.append(state)
            if turn % 11 == 0:
                store.collect_garbage()

    return kept
