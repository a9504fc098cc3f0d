"""Failed operations of stores."""

from __future__ import annotations

import attrs

from conversation_state._wording import shorten_repr
from conversation_state.errors._values import ConversationStateError


@attrs.define(slots=False, repr=False, eq=False)
class StoreError(ConversationStateError, RuntimeError):
    """
    An operation of a store failed. Nothing was changed, except perhaps after an
    `UnknownOutcomeError`.

    Attributes:
        store: The URL of the store, without any password.

        problem: What is wrong, and what to do.
    """

    store: str
    problem: str

    def __str__(self) -> str:
        # The URL memory: has a colon already.
        return f"{self.store.removesuffix(':')}: {self.problem}"


@attrs.define(slots=False, repr=False, eq=False)
class NotSavedError(StoreError, LookupError):
    """
    A name, revision, label or entry that a store does not have.

    Attributes:
        what: ``name``, ``revision``, ``label`` or ``entry``.

        asked: The one that was asked for.

        near: Similar ones that it has, the most similar first.
    """

    problem: str = attrs.field(init=False)
    what: str
    asked: object
    near: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        self.problem = f"there is no {self.what} {shorten_repr(self.asked)}"
        if self.near:
            self.problem += f"; did you mean {' or '.join(map(repr, self.near))}?"


@attrs.define(slots=False, repr=False, eq=False)
class MirroredNameError(StoreError):
    """
    A save under a name that a host writes but does not read: its next run would
    replace the change. Nothing was written.

    Attributes:
        name: The name.

        host: The host that writes it.

        remedy: How to change what the host reads.
    """

    problem: str = attrs.field(init=False)
    name: str
    host: str
    remedy: str

    def __attrs_post_init__(self) -> None:
        self.problem = (
            f"can't change {shorten_repr(self.name)}: {self.host} saves its "
            "conversation there and does not read it, so the next run would replace "
            f"the change. {self.remedy}; or fork it to a name of your own, and save "
            "there"
        )


class StaleHeadError(StoreError):
    """
    A save that would have discarded another writer's save. Nothing was written.

    Attributes:
        name: The name.

        expected: The expected head, or the number of its revision; None if none was
            given.

        actual: The current head, or None.
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
            wrong = "and the state to be saved does not contain all of it"
        else:
            # A caller's number may have any length; a head's text is short.
            shown = shorten_repr(expected) if isinstance(expected, int) else expected
            wrong = f"and {shown} was expected"

        now = f"is now {actual}" if actual else "is not saved"
        problem = f"{shorten_repr(name)} {now}, {wrong}. Nothing was written. {advice}"
        super().__init__(store, problem)
        # Pickles call the class with `args`, so they are its own and not its parent's.
        self.args = (store, name, expected, actual, advice)
        self.name = name
        self.expected = expected
        self.actual = actual


class StaleThreadError(StaleHeadError):
    """
    A checkpoint that would have hidden another run's checkpoint in its thread.
    Nothing was written.

    Attributes:
        thread: The thread.

        namespace: The namespace of the graph in it; "" for the outermost.

        expected: The id of the checkpoint that the graph ran from; None if there
            was none.

        actual: The id of the newest checkpoint.
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
        # The advice for saves does not fit: a graph runs again, and joins no state.
        at = f"the namespace {shorten_repr(namespace)} of " if namespace else ""
        came = f"from checkpoint {expected}" if expected else "when it was empty"
        self.problem = (
            f"another run changed {at}thread {shorten_repr(thread)}: this run began "
            f"{came}, and the newest checkpoint is now {actual}. Nothing was written. "
            "Run it again with a config of the thread alone to go on from there; or "
            "name the checkpoint_id it is to begin from, to leave the other's turn "
            "aside"
        )
        self.args = (store, thread, namespace, expected, actual)
        self.thread = thread
        self.namespace = namespace


@attrs.define(slots=False, repr=False, eq=False)
class UnknownOutcomeError(StoreError):
    """
    The connection to a store's server was lost during a commit. The change was
    written as a whole or not at all; which of the two is unknown.

    Attributes:
        reason: The cause.
    """

    problem: str = attrs.field(init=False)
    reason: str

    def __attrs_post_init__(self) -> None:
        self.problem = (
            f"{self.reason}. Whether it was kept is unknown: it is there as a whole or "
            "not at all. Load the head and look; to save the same state once more, "
            "without expecting=, does no harm"
        )
