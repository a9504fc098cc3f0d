"""
Everything this library raises on purpose, as one tree.

    ConversationStateError
    ├── InvalidUsageError (ValueError)         a count no provider can mean
    ├── InvalidPartError (ValueError)          a part that can't be what it says
    ├── InvalidMessageError (ValueError)       a message, a tool call or metadata
    ├── InvalidToolError (ValueError)          a tool no model could be told of
    ├── InvalidDocumentError (ValueError)      a document that can't be what it says
    ├── InvalidTranscriptError (ValueError)    no valid view with the newest message
    ├── BudgetExceededError (ValueError)       no valid view is small enough
    ├── CompactionError (ValueError)           messages no summary can stand for
    ├── ConcatError (ValueError)               pieces of different messages
    ├── TemplateError (ValueError)             a template that can't be rendered
    │   └── MissingVariableError (LookupError) ... because it needs one more value
    ├── StreamClosedError (RuntimeError)       sent or read after the end
    ├── BranchError (RuntimeError)             a step that gave no state of its branch
    ├── FanOutError (ExceptionGroup)           steps that failed, and what the rest did
    ├── ProviderStreamError (RuntimeError)     the provider broke off, and said why
    ├── ParseError (ValueError)                a message that doesn't say what it should
    ├── UnknownModelError (LookupError)        a model no registry knows
    ├── UnknownMomentError (LookupError)       a moment a timeline has not, or not ahead
    ├── UnpricedError (ValueError)             spending whose price nobody knows
    ├── MissingVocabularyError (FileNotFoundError)  a tokenizer's file that is not here
    ├── StoreError (RuntimeError)              a store that can't do what was asked
    │   ├── NotSavedError (LookupError)        ... because nothing is saved as that
    │   ├── StaleHeadError                     ... because somebody else saved first
    │   │   └── StaleThreadError               ... in the thread that a graph ran in
    │   └── UnknownOutcomeError                ... or did it; its answer was lost
    ├── MissingExtraError (ImportError)        install conversation-state[...]
    └── DecodeError (ValueError)               bytes that are no value of ours

Each leaf is also the builtin one would guess. Facts are attributes, and all of
them are arguments of the exception, so errors survive pickling.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Self

__all__ = [
    "BranchError",
    "BudgetExceededError",
    "CompactionError",
    "ConcatError",
    "ConversationStateError",
    "DecodeError",
    "FanOutError",
    "InvalidDocumentError",
    "InvalidMessageError",
    "InvalidPartError",
    "InvalidToolError",
    "InvalidTranscriptError",
    "InvalidUsageError",
    "MissingExtraError",
    "MissingVariableError",
    "MissingVocabularyError",
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


_SHOWN = 60
_LISTED = 5


def _short(name: str) -> str:
    shown = repr(name)
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."


class ConversationStateError(Exception):
    """
    The root: catches whatever this library raises on purpose.
    """


class InvalidUsageError(ConversationStateError, ValueError):
    """
    A count of tokens that no provider can mean, or a key paid twice.
    """


class InvalidPartError(ConversationStateError, ValueError):
    """
    A part of a message that can't be what it says it is.
    """


class InvalidMessageError(ConversationStateError, ValueError):
    """
    A message, tool call or piece of metadata that can't be what it says it is.
    """


class InvalidToolError(ConversationStateError, ValueError):
    """
    A tool, or a parameter of one, that no model could be told of.
    """


class InvalidDocumentError(ConversationStateError, ValueError):
    """
    A document that can't be what it says it is.
    """


class InvalidTranscriptError(ConversationStateError, ValueError):
    """
    No valid view of a conversation holds its newest message.

    Attributes:
        problems: What a provider would refuse, a sentence each.
    """

    problems: tuple[str, ...]

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return (
            "no view of this conversation that holds its newest message is valid: "
            f"{'; '.join(self.problems)}. Remove or repair the messages named."
        )


class BudgetExceededError(ConversationStateError, ValueError):
    """
    Even the smallest valid view of a conversation is over the budget.

    Attributes:
        needed_tokens: What the smallest valid view takes.

        limit_tokens: What the budget leaves for it.
    """

    needed_tokens: int
    limit_tokens: int

    def __init__(self, needed_tokens: int, limit_tokens: int) -> None:
        super().__init__(needed_tokens, limit_tokens)
        self.needed_tokens = needed_tokens
        self.limit_tokens = limit_tokens

    def __str__(self) -> str:
        return (
            "can't fit this conversation: the smallest valid view needs "
            f"{self.needed_tokens:,} tokens and the budget leaves "
            f"{self.limit_tokens:,}. Shorten its longest messages (tool results: "
            "shorten_tool_results) or raise context_window."
        )


class CompactionError(ConversationStateError, ValueError):
    """
    Messages that one message can't stand for, or a summary that is none.

    Attributes:
        problem: What is wrong.

        seqs: The positions of the messages.
    """

    problem: str
    seqs: tuple[int, ...]

    def __init__(self, problem: str, seqs: tuple[int, ...]) -> None:
        super().__init__(problem, seqs)
        self.problem = problem
        self.seqs = seqs

    def __str__(self) -> str:
        few = [f"messages[{seq}]" for seq in self.seqs[:1] + self.seqs[1:][-1:]]
        return f"can't compact {' to '.join(few)}: {self.problem}"


class ConcatError(ConversationStateError, ValueError):
    """
    Pieces that can't be of one message.

    Attributes:
        field: What they disagree about: ``name``, ``the image of a tool
            result``, ``tool_calls[index=0].name``, ``name in column 1`` (of
            rows); ``chunk`` if one is no message; "" if there are none.

        ours: What the pieces before say.

        theirs: What this piece says.

        chunk: The number of this piece, from 0 on; None if there is none.
    """

    field: str
    ours: object
    theirs: object
    chunk: int | None

    def __init__(
        self,
        field: str = "",
        ours: object = None,
        theirs: object = None,
        chunk: int | None = None,
    ) -> None:
        super().__init__(field, ours, theirs, chunk)
        self.field = field
        self.ours = ours
        self.theirs = theirs
        self.chunk = chunk

    def __str__(self) -> str:
        if not self.field:
            return "can't concatenate no chunks at all; a message needs at least one"

        if self.field == "chunk":
            return f"chunk {self.chunk} is {self.theirs!r}; expected a message"

        return (
            f"can't concatenate: {self.field} is {self.ours!r} so far and "
            f"{self.theirs!r} in chunk {self.chunk}. Are these chunks of one message?"
        )


class TemplateError(ConversationStateError, ValueError):
    """
    A template that can't be rendered.

    Attributes:
        problem: What is wrong.

        template: The template's text, shortened; "" if it is not about one.
    """

    problem: str
    template: str

    def __init__(self, problem: str, template: str) -> None:
        super().__init__(problem, template)
        self.problem = problem
        self.template = template

    def __str__(self) -> str:
        what = f" {self.template!r}" if self.template else ""
        return f"can't render{what}: {self.problem}"


class MissingVariableError(TemplateError, LookupError):
    """
    A template that needs a variable nobody gave.

    Attributes:
        variable: The variable's name.

        template: The template's text, shortened.
    """

    variable: str

    def __init__(self, variable: str, template: str) -> None:
        super().__init__(f"there is no variable {variable!r}", template)
        self.args = (variable, template)
        self.variable = variable


class StreamClosedError(ConversationStateError, RuntimeError):
    """
    Something was sent into a stream, or read from one, that is closed.
    """


class ProviderStreamError(ConversationStateError, RuntimeError):
    """
    A provider broke off in the middle of a response, and said why.

    Attributes:
        said: The provider's words.

        event: The event that said so, as plain JSON.
    """

    said: str
    event: object

    def __init__(self, said: str, event: object = None) -> None:
        super().__init__(said, event)
        self.said = said
        self.event = event

    def __str__(self) -> str:
        return f"the provider broke off: {self.said}"


class BranchError(ConversationStateError, RuntimeError):
    """
    A step of a fan-out that did not come back with a state of its branch.

    Attributes:
        step: The step's number, from 0 on.

        name: What the step is called.

        problem: What came instead, and what to do.
    """

    step: int
    name: str
    problem: str

    def __init__(self, step: int, name: str, problem: str) -> None:
        super().__init__(step, name, problem)
        self.step = step
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"step {self.step} ({self.name}) {self.problem}"


class FanOutError(ConversationStateError, ExceptionGroup[Exception]):
    """
    Steps of a fan-out that failed; nothing of the others is lost.

    A group of what the steps raised, so ``except*`` takes those it knows and
    leaves the rest.

    Attributes:
        state: The state with what all branches added, as far as they got.

        failures: What failed, each with its step, its error and its turn.
    """

    state: Any
    failures: tuple[Any, ...]

    def __new__(
        cls,
        state: Any,
        failures: Sequence[Any],
        errors: Sequence[Exception] | None = None,
    ) -> Self:
        """
        A group of what *failures* hold, or of *errors*, which are part of that.
        """
        steps = [str(failure.step) for failure in failures]
        some = f"steps {', '.join(steps[:-1])} and {steps[-1]}"
        which = some if len(steps) > 1 else f"step {steps[0]}"
        error = super().__new__(
            cls,
            f"{which} of a fan-out failed; .state has what all branches added",
            [failure.error for failure in failures] if errors is None else errors,
        )
        error.state = state
        error.failures = tuple(failures)
        return error

    def __init__(
        self,
        state: Any,
        failures: Sequence[Any],
        errors: Sequence[Exception] | None = None,
    ) -> None:
        super().__init__(state, failures, errors)  # type: ignore[call-arg]  # keeps what pickling asks for

    def __reduce__(self) -> tuple[Any, ...]:
        # Dask has all groups pickled as if made of a text and errors, unless
        # they say themselves what they are made of.
        return type(self), self.args, self.__dict__

    def derive(self, excs: Sequence[Any], /) -> FanOutError:  # type: ignore[override]  # the same for errors of any kind
        """
        The same for some of the errors, which `split` and ``except*`` ask for.
        """
        some = set(_leaves(excs))
        failures = [
            failure
            for failure in self.failures
            if not some.isdisjoint(_leaves([failure.error]))
        ]
        return FanOutError(self.state, failures, excs)


def _leaves(errors: Iterable[BaseException]) -> Iterator[int]:
    # A group that was split is another group of the same errors.
    for error in errors:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error.exceptions)
        else:
            yield id(error)


class UnknownModelError(ConversationStateError, LookupError):
    """
    A model was named that a registry does not know.

    Attributes:
        model: The name that was asked for.

        registry: Who does not know it.

        near: Names it does know that are written much like it, nearest first.
    """

    model: str
    registry: str
    near: tuple[str, ...]

    def __init__(self, model: str, registry: str, near: tuple[str, ...] = ()) -> None:
        super().__init__(model, registry, near)
        self.model = model
        self.registry = registry
        self.near = near

    def __str__(self) -> str:
        shown = f"{self.registry} knows no model {_short(self.model)}"
        if not self.near:
            return (
                f"{shown}, nor any that is written like it; check the name, or "
                f"install a newer {self.registry}"
            )

        return f"{shown}; did you mean {' or '.join(map(repr, self.near))}?"


class UnknownMomentError(ConversationStateError, LookupError):
    """
    A moment that a timeline does not keep, or that is not ahead of its present.

    Attributes:
        asked: The number or the label of the moment.

        problem: What is true of it.

        there: Number and label of moments one might have asked for: those
            right ahead, or the newest that are kept.
    """

    asked: int | str
    problem: str
    there: tuple[tuple[int, str], ...]

    def __init__(
        self, asked: int | str, problem: str, there: tuple[tuple[int, str], ...] = ()
    ) -> None:
        super().__init__(asked, problem, there)
        self.asked = asked
        self.problem = problem
        self.there = there

    def __str__(self) -> str:
        asked = _short(self.asked) if isinstance(self.asked, str) else self.asked
        few = [
            f"{number} ({_short(label)})" if label else str(number)
            for number, label in self.there[-_LISTED:]
        ]
        there = f"there are {', '.join(few)}" if few else "there are none"
        return f"moment {asked} {self.problem}; {there}"


class UnpricedError(ConversationStateError, ValueError):
    """
    Something was spent whose price nobody knows.

    Attributes:
        model: The model it was spent on.

        why: What has no price.
    """

    model: str
    why: str

    def __init__(self, model: str, why: str) -> None:
        super().__init__(model, why)
        self.model = model
        self.why = why

    def __str__(self) -> str:
        of = f" of {self.model!r}" if self.model else ""
        return f"can't price this usage{of}: {self.why}"


class MissingVocabularyError(ConversationStateError, FileNotFoundError):
    """
    A tokenizer needs a file that is not here, and nothing is downloaded.

    Attributes:
        vocabulary: What the file holds.

        url: Where it can be downloaded.

        places: The paths that were looked at.
    """

    vocabulary: str
    url: str
    places: tuple[str, ...]

    def __init__(self, vocabulary: str, url: str, places: tuple[str, ...]) -> None:
        # An OSError reads its arguments as a number, a text and a file.
        super().__init__()
        self.args = (vocabulary, url, places)
        self.vocabulary = vocabulary
        self.url = url
        self.places = places

    def __str__(self) -> str:
        return (
            f"the vocabulary {self.vocabulary} is not here, and is never downloaded "
            f"by itself. Download {self.url} and give its path, or the folder it is "
            f"in, as files, or name the folder in TIKTOKEN_CACHE_DIR. Looked for "
            f"{', '.join(self.places)}"
        )


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

    def __init__(self, store: str, name: str, expected: object, actual: object) -> None:
        if expected is None:
            wrong = "which the state to be saved does not hold all of"
        else:
            wrong = f"and {expected} was expected"

        problem = (
            f"{name!r} is now {actual or 'not saved'}, {wrong}. Nothing was written. "
            "Load the head, join your state into it and save that; or pass the head "
            "as expecting= to replace it"
        )
        super().__init__(store, problem)
        self.args = (store, name, expected, actual)
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


class MissingExtraError(ConversationStateError, ImportError):
    """
    Something was asked for that needs packages which are not installed.

    Attributes:
        wanted: What was asked for.

        extra: The extra that brings the packages.
    """

    wanted: str
    extra: str

    def __init__(self, wanted: str, extra: str) -> None:
        super().__init__(wanted, extra)
        self.wanted = wanted
        self.extra = extra

    def __str__(self) -> str:
        return (
            f"{self.wanted} needs packages that are not installed; "
            f'pip install "conversation-state[{self.extra}]"'
        )


class Problem(NamedTuple):
    """
    One thing wrong with a document: where, and what.

    Attributes:
        path: Where it is, as in ``$.messages[3].parts[0].url``.

        what: What is there and what should be.
    """

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


class _ProblemsError(ConversationStateError, ValueError):
    """
    What is wrong in many places at once.
    """

    _cannot: ClassVar[str]

    problems: tuple[Problem, ...]

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        count = len(self.problems)
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        return f"can't {self._cannot}: {count} problem{'s'[: count != 1]}\n{lines}"


class DecodeError(_ProblemsError):
    """
    Bytes or JSON values that are no value of this library.

    Attributes:
        problems: All that is wrong, each with its path; never empty.
    """

    _cannot = "decode"


class ParseError(_ProblemsError):
    """
    A message that does not say what it should.

    Attributes:
        problems: All that is wrong, each with its path; never empty.
    """

    _cannot = "parse this message"
