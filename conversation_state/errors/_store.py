"""
Stores that can't do what was asked.
"""

from __future__ import annotations

from conversation_state.errors._values import ConversationStateError

__all__ = [
    "MirroredNameError",
    "NotSavedError",
    "StaleHeadError",
    "StaleThreadError",
    "StoreError",
    "UnknownOutcomeError",
]


class StoreError(ConversationStateError, RuntimeError):
    """
    A store can't do what was asked of it. Nothing was changed; only an
    `UnknownOutcomeError` leaves that open.

    Attributes:
        store: Which store, without any password.

        problem: What is wrong, and what to do.
    """

    store: str
    problem: str

    def __init__(self, store: str, problem: str) -> None:
        super().__init__(store, problem)
        self.store = store
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.store}: {self.problem}"


class NotSavedError(StoreError, LookupError):
    """
    Something was asked for that a store does not have.

    Attributes:
        what: ``name``, ``revision``, ``label`` or ``entry``.

        asked: The one that was asked for.

        near: Those it has that are written much like it, nearest first.
    """

    what: str
    asked: object
    near: tuple[str, ...]

    def __init__(
        self, store: str, what: str, asked: object, near: tuple[str, ...] = ()
    ) -> None:
        problem = f"there is no {what} {asked!r:.80}"
        if near:
            problem += f"; did you mean {' or '.join(map(repr, near))}?"

        super().__init__(store, problem)
        self.args = (store, what, asked, near)
        self.what = what
        self.asked = asked
        self.near = near


class MirroredNameError(StoreError):
    """
    A save under a name that a host writes and does not read: the next run would
    replace it. Nothing was written.

    Attributes:
        name: The name.

        host: Who writes it.

        remedy: How to change what the host reads.
    """

    name: str
    host: str
    remedy: str

    def __init__(self, store: str, name: str, host: str, remedy: str) -> None:
        super().__init__(
            store,
            f"can't change {name!r:.80}: {host} saves its conversation there and does "
            f"not read it, so the next run would replace the change. {remedy}; or "
            "fork it to a name of your own, and save there",
        )
        self.args = (store, name, host, remedy)
        self.name = name
        self.host = host
        self.remedy = remedy


class StaleHeadError(StoreError):
    """
    A save that would have lost what somebody else saved. Nothing was written.

    Attributes:
        name: What was to be saved under.

        expected: The head, or the number of its revision, that was expected;
            None if none was named.

        actual: The head there is; None if there is none.
    """

    name: str
    expected: object
    actual: object

    def __init__(
        self,
        store: str,
        name: str,
        expected: object,
        actual: object,
        advice: str = (
            "Load the head, join your state into it and save that; or pass the head "
            "as expecting= to replace it"
        ),
    ) -> None:
        if expected is None:
            wrong = "which the state to be saved does not hold all of"
        else:
            wrong = f"and {expected} was expected"

        problem = (
            f"{name!r} is now {actual or 'not saved'}, {wrong}. Nothing was written. "
            f"{advice}"
        )
        super().__init__(store, problem)
        self.args = (store, name, expected, actual, advice)
        self.name = name
        self.expected = expected
        self.actual = actual


class StaleThreadError(StaleHeadError):
    """
    A checkpoint that would have hidden what somebody else did in its thread.
    Nothing was written.

    Attributes:
        thread: The thread.

        namespace: Of which graph in it; "" for the outermost.

        expected: The id of the checkpoint the graph ran from; None if there
            was none.

        actual: The id of the newest checkpoint there is.
    """

    thread: str
    namespace: str

    def __init__(
        self,
        store: str,
        thread: str,
        namespace: str,
        expected: str | None,
        actual: str | None,
    ) -> None:
        super().__init__(store, thread, expected, actual)
        at = f"the namespace {namespace!r} of " if namespace else ""
        came = f"from checkpoint {expected}" if expected else "when it was empty"
        self.problem = (
            f"somebody else went on in {at}thread {thread!r}: this run began {came}, "
            f"and the newest checkpoint is now {actual}. Nothing was written. Run it "
            "again with a config of the thread alone to go on from there; or name the "
            "checkpoint_id it is to begin from, to leave the other's turn aside"
        )
        self.args = (store, thread, namespace, expected, actual)
        self.thread = thread
        self.namespace = namespace


class UnknownOutcomeError(StoreError):
    """
    A store's server went away while it was told to keep a change. The change
    is there as a whole or not at all; the answer which of the two was lost.

    Attributes:
        reason: What happened.
    """

    reason: str

    def __init__(self, store: str, reason: str) -> None:
        problem = (
            f"{reason}. Whether it was kept is unknown: it is there as a whole or not "
            "at all. Load the head and look; to save the same state once more, "
            "without expecting=, does no harm"
        )
        super().__init__(store, problem)
        self.args = (store, reason)
        self.reason = reason
