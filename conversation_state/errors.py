"""
The errors that this library raises on purpose, as one tree.

::

    ConversationStateError
    ├── InvalidUsageError (ValueError)         an invalid count of tokens
    ├── InvalidPartError (ValueError)          an invalid part of a message
    ├── InvalidMessageError (ValueError)       an invalid message, call or metadata
    ├── InvalidToolError (ValueError)          an invalid tool or parameter
    ├── InvalidDocumentError (ValueError)      an invalid document
    ├── InvalidTranscriptError (ValueError)    no valid view with the newest message
    │   └── DroppedHistoryError                ... with the messages before a position
    ├── BudgetExceededError (ValueError)       no valid view is small enough
    ├── CompactionError (ValueError)           messages no summary can replace
    ├── ConcatError (ValueError)               chunks of different messages
    ├── TemplateError (ValueError)             a template that can't be rendered
    │   └── MissingVariableError (LookupError) ... because a variable is missing
    ├── StreamClosedError (RuntimeError)       a send or read after the end
    ├── BranchError (RuntimeError)             a step without a state of its branch
    ├── FanOutError (ExceptionGroup)           failed steps, and the others' results
    ├── ProviderStreamError (RuntimeError)     a failure that the provider reported
    ├── ParseError (ValueError)                a message without the expected JSON
    ├── UnknownModelError (LookupError)        a model that a registry doesn't have
    ├── UnknownMomentError (LookupError)       an unknown moment, or one not ahead
    ├── UnpricedError (ValueError)             usage without a known price
    ├── StoreError (RuntimeError)              a failed operation of a store
    │   ├── NotSavedError (LookupError)        ... because a name or revision is missing
    │   ├── MirroredNameError                  ... because a host would replace it
    │   ├── StaleHeadError                     ... because another writer saved first
    │   │   └── StaleThreadError               ... in the thread that a graph ran in
    │   └── UnknownOutcomeError                ... or it succeeded; the answer was lost
    ├── MissingExtraError (ImportError)        install conversation-state[...]
    └── DecodeError (ValueError)               bytes or JSON that can't be decoded

Each leaf is also the builtin one would guess. Facts are attributes, and all of
them are arguments of the exception, so errors survive pickling.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, dataclass_transform

import attrs

from conversation_state._wording import format_count, shorten_repr

__all__ = [
    "BranchError",
    "BudgetExceededError",
    "CompactionError",
    "ConcatError",
    "ConversationStateError",
    "DecodeError",
    "DroppedHistoryError",
    "FanOutError",
    "InvalidDocumentError",
    "InvalidMessageError",
    "InvalidPartError",
    "InvalidToolError",
    "InvalidTranscriptError",
    "InvalidUsageError",
    "MirroredNameError",
    "MissingExtraError",
    "MissingVariableError",
    "NotSavedError",
    "ParseError",
    "Problem",
    "ProviderStreamError",
    "StaleHeadError",
    "StaleThreadError",
    "StoreError",
    "StreamClosedError",
    "TemplateError",
    "UnknownModelError",
    "UnknownMomentError",
    "UnknownOutcomeError",
    "UnpricedError",
]

E = TypeVar("E", bound="ConversationStateError")


class ConversationStateError(Exception):
    """The root of all errors that this library raises on purpose."""


class _InvalidValueError(ConversationStateError, ValueError):
    """A value that its class refuses."""

    problem: str  # what is wrong, and what to do
    owner: str  # the class that refuses it; "" if no single field is invalid
    field: str  # the field of that class that is invalid, or ""

    def __init__(self, problem: str, owner: str = "", field: str = "") -> None:
        # The arguments are what a pickle calls the class with. Without a field the
        # problem is all of them, as it is of the builtin errors.
        super().__init__(*((problem, owner, field) if field else (problem,)))
        self.problem = problem
        self.owner = owner
        self.field = field

    def __str__(self) -> str:
        owner = f"{self.owner}." if self.owner else ""
        return f"{owner}{self.field} {self.problem}" if self.field else self.problem


class InvalidUsageError(_InvalidValueError):
    """An invalid count of tokens, or a conflicting ledger entry."""


class InvalidPartError(_InvalidValueError):
    """An invalid part of a message."""


class InvalidMessageError(_InvalidValueError):
    """An invalid message, tool call or piece of metadata."""


class InvalidToolError(_InvalidValueError):
    """An invalid tool, or an invalid parameter of one."""


class InvalidDocumentError(_InvalidValueError):
    """An invalid document."""


class StreamClosedError(ConversationStateError, RuntimeError):
    """An element was sent to a closed stream, or read from one."""


# attrs leaves an exception equal only to itself, as all are, which type checkers have
# to be told.
@dataclass_transform(eq_default=False, field_specifiers=(attrs.field,))
def _define(cls: type[E]) -> type[E]:
    """
    A class whose facts are attributes and arguments: attrs gives all of them to
    `BaseException.__init__`, and a pickle calls the class with these. Not frozen: a
    frozen exception can't be unpickled, nor get a traceback.
    """
    return attrs.define(slots=False, repr=False)(cls)


@_define
class MissingExtraError(ConversationStateError, ImportError):
    """
    A feature needs packages that are not installed.

    Attributes:
        wanted: The feature.
        extra: The extra that installs the packages.
    """

    wanted: str
    extra: str

    def __str__(self) -> str:
        return (
            f"{self.wanted} needs packages that are not installed; "
            f'pip install "conversation-state[{self.extra}]"; '
            f'in a checkout, pip install ".[{self.extra}]"'
        )


# Content that can't be decoded, joined or rendered


class Problem(NamedTuple):
    """
    One problem of a document, with its path.

    Attributes:
        path: Its path, as in ``$.messages[3].parts[0].url``.
        what: What was expected, and what is there.
    """

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


@_define
class _ProblemsError(ConversationStateError, ValueError):
    """Problems with their paths."""

    _cannot: ClassVar[str]

    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        problems = format_count(len(self.problems), "problem")
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        return f"can't {self._cannot}: {problems}\n{lines}"


class DecodeError(_ProblemsError):
    """
    Bytes or JSON values that can't be decoded.

    Attributes:
        problems: All problems, each with its path; never empty.
    """

    _cannot = "decode"


class ParseError(_ProblemsError):
    """
    A message without the expected JSON.

    Attributes:
        problems: All problems, each with its path; never empty.
    """

    _cannot = "parse this message"


@_define
class ConcatError(ConversationStateError, ValueError):
    """
    Chunks that can't be of one message.

    Attributes:
        field: Where they conflict: ``name``, ``the image of a tool
            result``, ``tool_calls[index=0].name``, ``name in column 1`` (of
            rows); ``chunk`` if one is not a message; "" without chunks.
        ours: The value of the chunks before.
        theirs: The value of this chunk.
        chunk: The number of this chunk, from 0 on, or None.
    """

    field: str = ""
    ours: object = None
    theirs: object = None
    chunk: int | None = None

    def __str__(self) -> str:
        if not self.field:
            return "can't concatenate no chunks at all; a message needs at least one"

        if self.field == "chunk":
            return (
                f"chunk {self.chunk} is {shorten_repr(self.theirs)}; expected a message"
            )

        return (
            f"can't concatenate: {self.field} is {shorten_repr(self.ours)} so far and "
            f"{shorten_repr(self.theirs)} in chunk {self.chunk}. Are these chunks of "
            "one message?"
        )


@_define
class ProviderStreamError(ConversationStateError, RuntimeError):
    """
    A provider reported a failure in the middle of a response.

    Attributes:
        reason: The provider's own message.
        event: The event that reported it, as plain JSON.
    """

    reason: str
    event: object = None

    def __str__(self) -> str:
        return f"the provider broke off: {self.reason}"


@_define
class TemplateError(ConversationStateError, ValueError):
    """
    A template that can't be rendered.

    Attributes:
        problem: The problem.
        template: The template's text, shortened; "" if no template is at fault.
    """

    problem: str
    template: str

    def __str__(self) -> str:
        what = f" {self.template!r}" if self.template else ""
        return f"can't render{what}: {self.problem}"


class MissingVariableError(TemplateError, LookupError):
    """
    A template needs a variable that was not given.

    Attributes:
        variable: The variable's name.
        template: The template's text, shortened.
    """

    variable: str

    def __init__(self, variable: str, template: str) -> None:
        super().__init__(f"there is no variable {shorten_repr(variable)}", template)
        # Pickles call the class with `args`, so they are its own and not its parent's.
        self.args = (variable, template)
        self.variable = variable


# Branches

_LISTED = 5


@_define
class BranchError(ConversationStateError, RuntimeError):
    """
    A step of a fan-out that did not return a state of its branch.

    Attributes:
        step: The step's number, from 0 on.
        name: The step's name.
        problem: What it returned, and what to do.
    """

    step: int
    name: str
    problem: str

    def __str__(self) -> str:
        return f"step {self.step} ({self.name}) {self.problem}"


class FanOutError(ConversationStateError, ExceptionGroup[Exception]):
    """
    Steps of a fan-out that failed; the results of the others are kept.

    A group of the errors that steps and *on_turn* raised, so that ``except*`` can
    handle some and leave the rest.

    Attributes:
        state: The state with the additions of all branches, also of failed ones.
        failures: The failures, each with its step, its error and its turn.
    """

    state: Any
    failures: tuple[Any, ...]

    def __new__(
        cls, state: Any, failures: Sequence[Any], errors: Sequence[Exception]
    ) -> Self:
        """A group of *errors*: those of *failures*, and what *on_turn* raised."""
        of_steps = [failure.error for failure in failures]
        steps = [str(failure.step) for failure in failures]
        problem = "on_turn of a fan-out raised"
        if steps:
            some = f"steps {', '.join(steps[:-1])} and {steps[-1]}"
            which = some if len(steps) > 1 else f"step {steps[0]}"
            problem = f"{which} of a fan-out failed"
            if not set(_leaf_errors(errors)) <= set(_leaf_errors(of_steps)):
                problem += ", and on_turn raised"

        # A group is made in `__new__`: the text and the errors can't be set later.
        text = f"{problem}; .state has what all branches added"
        error = super().__new__(cls, text, errors)
        error.state = state
        error.failures = tuple(failures)
        return error

    def __init__(
        self, state: Any, failures: Sequence[Any], errors: Sequence[Exception]
    ) -> None:
        super().__init__(state, failures, errors)  # type: ignore[call-arg]  # sets args, for pickling

    def __reduce__(self) -> tuple[Any, ...]:
        # Without it, Dask pickles every group as made of a text and errors.
        return type(self), self.args, self.__dict__

    def derive(self, excs: Sequence[Any], /) -> FanOutError:  # type: ignore[override]  # the same for errors of any kind
        """The same for some of the errors; `split` and ``except*`` call it."""
        # Without it, a part of the group would be a plain ExceptionGroup, without the
        # state that the other branches made.
        some = set(_leaf_errors(excs))
        failures = [
            failure
            for failure in self.failures
            if not some.isdisjoint(_leaf_errors([failure.error]))
        ]
        return FanOutError(self.state, failures, excs)


def _leaf_errors(errors: Iterable[BaseException]) -> Iterator[int]:
    # By identity of the leaves: `split` makes new groups of the same errors.
    for error in errors:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaf_errors(error.exceptions)
        else:
            yield id(error)


@_define
class UnknownMomentError(ConversationStateError, LookupError):
    """
    A moment that a timeline does not keep, or that is not ahead of its present.

    Attributes:
        asked: The number or the label of the moment.
        problem: The problem with it.
        there: Number and label of valid moments: those right ahead, or the newest
            that are kept.
    """

    asked: int | str
    problem: str
    there: tuple[tuple[int, str], ...] = ()

    def __str__(self) -> str:
        # The last ones are the newest, and the likeliest to be meant.
        few = [
            f"{number} ({shorten_repr(label)})" if label else str(number)
            for number, label in self.there[-_LISTED:]
        ]
        valid = ", ".join(few) or "none"
        return (
            f"moment {shorten_repr(self.asked)} {self.problem}; valid moments: {valid}"
        )


# Views, budgets, models and prices


class _ViewError(ConversationStateError, ValueError):
    """A view that can't be made."""

    # Set by `trim` if summaries were made before the error: they cost tokens, and would
    # be lost with the view.
    summaries: tuple[Any, ...] = ()
    summary_responses: tuple[Any, ...] = ()


@_define
class InvalidTranscriptError(_ViewError):
    """
    No valid view of a conversation contains its newest message.

    Attributes:
        problems: What a provider would refuse, a sentence each.
        summaries: The summaries made so far, for the next view's *previous*.
        summary_responses: The responses of those made in this view.
    """

    problems: tuple[str, ...]

    def __str__(self) -> str:
        return (
            "no view of this conversation that holds its newest message is valid: "
            f"{'; '.join(self.problems)}. Remove or repair the messages named."
        )


@_define
class DroppedHistoryError(InvalidTranscriptError):
    """
    A view leaves messages out because a place in the conversation is invalid.

    Not raised: it is the error of a `TrimContext.failures` entry.

    Attributes:
        problems: What is invalid, one sentence.
        seqs: The positions of the messages concerned.
        dropped: How many messages the view leaves out because of it.
    """

    seqs: tuple[int, ...]
    dropped: int

    def __str__(self) -> str:
        why = "; ".join(self.problems)
        if not self.dropped:
            return f"the view shows a message without its invalid part: {why}"

        messages = format_count(self.dropped, "message")
        return f"the view leaves out {messages}: {why}"

    def __eq__(self, other: object) -> bool:
        # Views contain these errors, and are compared by content.
        if not isinstance(other, DroppedHistoryError):
            return NotImplemented

        return self.args == other.args

    def __hash__(self) -> int:
        return hash(self.args)


@_define
class BudgetExceededError(_ViewError):
    """
    Even the smallest valid view of a conversation is over the budget.

    Attributes:
        needed_tokens: The tokens of the smallest valid view.
        limit_tokens: The tokens that the budget leaves for it.
        summaries: The summaries made so far, for the next view's *previous*.
        summary_responses: The responses of those made in this view.
    """

    needed_tokens: int
    limit_tokens: int

    def __str__(self) -> str:
        return (
            "can't fit this conversation: the smallest valid view needs "
            f"{self.needed_tokens:,} tokens and the budget leaves "
            f"{self.limit_tokens:,}. Shorten its longest messages (tool results: "
            "shorten_tool_results) or raise context_window."
        )


@_define
class CompactionError(_ViewError):
    """
    Messages that one message can't replace, or an invalid summary.

    Attributes:
        problem: The problem.
        seqs: The positions of the messages.
        summaries: The summaries made so far, for the next view's *previous*.
        summary_responses: The responses of those made in this view.
    """

    problem: str
    seqs: tuple[int, ...]

    def __str__(self) -> str:
        few = [f"messages[{seq}]" for seq in self.seqs[:1] + self.seqs[1:][-1:]]
        return f"can't compact {' to '.join(few)}: {self.problem}"


@_define
class UnknownModelError(ConversationStateError, LookupError):
    """
    A model that a registry does not have.

    Attributes:
        model: The name of the model.
        registry: The registry.
        near: Similar names that it has, the most similar first.
    """

    model: str
    registry: str
    near: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = f"{self.registry} knows no model {shorten_repr(self.model)}"
        if not self.near:
            return (
                f"{shown}, nor any that is written like it; check the name, or "
                f"install a newer {self.registry}"
            )

        return f"{shown}; did you mean {' or '.join(map(repr, self.near))}?"


@_define
class UnpricedError(ConversationStateError, ValueError):
    """
    Usage without a known price.

    Attributes:
        model: The model.
        why: What has no price.
    """

    model: str
    why: str

    def __str__(self) -> str:
        of = f" of {self.model!r}" if self.model else ""
        return f"can't price this usage{of}: {self.why}"


# Stores


@_define
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


@_define
class NotSavedError(StoreError, LookupError):
    """
    A name, revision, label or entry that a store does not have.

    Attributes:
        what: ``name``, ``revision``, ``label`` or ``entry``; ``state`` for that of a
            `StateRef`.
        asked: The one that was asked for.
        near: Similar ones that it has, the most similar first.
        why: What may have become of it, or "".
    """

    problem: str = attrs.field(init=False)
    what: str
    asked: object
    near: tuple[str, ...] = ()
    why: str = ""

    def __attrs_post_init__(self) -> None:
        self.problem = f"there is no {self.what} {shorten_repr(self.asked)}"
        if self.near:
            self.problem += f"; did you mean {' or '.join(map(repr, self.near))}?"

        if self.why:
            self.problem += f": {self.why}"


@_define
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
            "as expecting= to replace it; to undo what is saved, call store.rollback()"
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


@_define
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
