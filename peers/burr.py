"""Burr: its immutable `State`, and persisters."""

from peers.laws import Examples, Peer

EXAMPLES = Examples(Peer("Burr", "burr", "peers.md"))


@EXAMPLES.kept("arguments do not change")
def appending_makes_another_state() -> None:
    """`State.append` gives the next state, and leaves this one as it is."""
    from burr.core import State

    state = State({"chat": []})
    assert state.append(chat="Hello.")["chat"] == ["Hello."]
    assert state["chat"] == []


@EXAMPLES.broken("what is kept does not change")
def states_share_lists() -> None:
    """A state hands out its list, which states before it have, too."""
    from burr.core import State

    kept = State({"chat": ["Hello."]})
    kept.update(step=1)["chat"].append("When is the train?")
    assert kept["chat"] == ["Hello.", "When is the train?"]


@EXAMPLES.broken("a checkpoint costs what is new")
def every_checkpoint_holds_all() -> None:
    """
    Each row of `SQLitePersister` holds the whole state: four times the turns are
    fourteen times the bytes.
    """
    from pathlib import Path

    from burr.core import State
    from burr.core.persistence import SQLitePersister

    for turns in (100, 400):
        (store := SQLitePersister(f"{turns}.db")).initialize()
        for n in range(turns):
            state = State({"chat": ["When is the train to Bern?"] * n})
            store.save("ann", "chat", n, "ask", state, "completed")
    small, large = (Path(f"{turns}.db").stat().st_size for turns in (100, 400))
    assert large > 10 * small


@EXAMPLES.kept("a save of an old state is refused")
def second_writers_are_refused() -> None:
    """A sequence number is written once: the second of two writers gets an error."""
    from contextlib import suppress
    from sqlite3 import IntegrityError

    from burr.core import State
    from burr.core.persistence import SQLitePersister

    (store := SQLitePersister("chat.db")).initialize()
    for text in ("one", "two"):
        with suppress(IntegrityError):
            store.save("ann", "chat", 0, "ask", State({"chat": text}), "completed")
    assert store.load("ann", "chat")["state"]["chat"] == "one"
