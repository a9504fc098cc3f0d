"""Every public error: its text, its attributes, and its copies."""

import copy
import inspect
import pickle
from types import SimpleNamespace

import pytest

from conversation_state import errors
from conversation_state.errors import Problem

# What is raised, what it is made of, and what a user reads.
ERRORS = [
    (
        errors.BranchError,
        (1, "plan", "returned None; return a state"),
        "step 1 (plan) returned None; return a state",
    ),
    (
        errors.BudgetExceededError,
        (12_500, 8_000),
        (
            "can't fit this conversation: the smallest valid view needs 12,500 tokens "
            "and the budget leaves 8,000. Shorten its longest messages (tool results: "
            "shorten_tool_results) or raise context_window."
        ),
    ),
    (
        errors.CompactionError,
        ("a call would lose its result", (3,)),
        "can't compact messages[3]: a call would lose its result",
    ),
    (
        errors.CompactionError,
        ("a call would lose its result", (3, 4, 6)),
        "can't compact messages[3] to messages[6]: a call would lose its result",
    ),
    (
        errors.ConcatError,
        ("chunk", None, "Hi", 2),
        "chunk 2 is 'Hi'; expected a message",
    ),
    (
        errors.ConcatError,
        (),
        "can't concatenate no chunks at all; a message needs at least one",
    ),
    (
        errors.ConcatError,
        ("name", "a", "b", 3),
        (
            "can't concatenate: name is 'a' so far and 'b' in chunk 3. Are these "
            "chunks of one message?"
        ),
    ),
    (errors.ConversationStateError, ("a text",), "a text"),
    (
        errors.DecodeError,
        ((Problem("$.parts", "expected a list, got an int"),),),
        "can't decode: 1 problem\n  $.parts: expected a list, got an int",
    ),
    (
        errors.DroppedHistoryError,
        (("message 2 is invalid",), (2,), 0),
        "the view shows a message without its invalid part: message 2 is invalid",
    ),
    (
        errors.DroppedHistoryError,
        (("message 2 is invalid", "message 3 is empty"), (2, 3), 4),
        "the view leaves out 4 messages: message 2 is invalid; message 3 is empty",
    ),
    (
        errors.InvalidDocumentError,
        ("must be a str, got an int", "Document", "text"),
        "Document.text must be a str, got an int",
    ),
    (
        errors.InvalidMessageError,
        ("must be a str, got an int", "", "name"),
        "name must be a str, got an int",
    ),
    (
        errors.InvalidPartError,
        ("must be a str, got an int", "TextPart", "text"),
        "TextPart.text must be a str, got an int",
    ),
    (
        errors.InvalidToolError,
        ("must be a str, got an int", "Tool", "name"),
        "Tool.name must be a str, got an int",
    ),
    (
        errors.InvalidTranscriptError,
        (("call a has no result", "call b has no result"),),
        (
            "no view of this conversation that holds its newest message is valid: call "
            "a has no result; call b has no result. Remove or repair the messages "
            "named."
        ),
    ),
    (
        errors.InvalidUsageError,
        ("must be 0 or more, got -1", "Usage", "input_tokens"),
        "Usage.input_tokens must be 0 or more, got -1",
    ),
    (
        errors.MirroredNameError,
        ("chat.db", "chat", "LangGraph", "Use update_state"),
        (
            "chat.db: can't change 'chat': LangGraph saves its conversation there and "
            "does not read it, so the next run would replace the change. Use "
            "update_state; or fork it to a name of your own, and save there"
        ),
    ),
    (
        errors.MissingExtraError,
        ("templates in Jinja2's syntax", "jinja"),
        (
            "templates in Jinja2's syntax needs packages that are not installed; pip "
            'install "conversation-state[jinja]"; in a checkout, pip install ".[jinja]"'
        ),
    ),
    (
        errors.MissingVariableError,
        ("name", "Hello {{ name }}"),
        "can't render 'Hello {{ name }}': there is no variable 'name'",
    ),
    (
        errors.NotSavedError,
        ("chat.db", "name", "x" * 100),
        (
            "chat.db: there is no name "
            "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."
        ),
    ),
    (
        errors.NotSavedError,
        ("chat.db", "name", "chot", ("chat", "shot")),
        "chat.db: there is no name 'chot'; did you mean 'chat' or 'shot'?",
    ),
    (
        errors.NotSavedError,
        ("chat.db", "revision", 3, (), "it may have been collected"),
        "chat.db: there is no revision 3: it may have been collected",
    ),
    (
        errors.ParseError,
        ((Problem("$.a", "missing"), Problem("$.b", "expected a str")),),
        "can't parse this message: 2 problems\n  $.a: missing\n  $.b: expected a str",
    ),
    (
        errors.ProviderStreamError,
        ("overloaded", {"type": "error"}),
        "the provider broke off: overloaded",
    ),
    (
        errors.StaleHeadError,
        ("chat.db", "chat", None, "revision 2"),
        (
            "chat.db: 'chat' is now revision 2, and the state to be saved does not "
            "contain all of it. Nothing was written. Load the head, join your state "
            "into it and save that; or pass the head as expecting= to replace it; to "
            "undo what is saved, call store.rollback()"
        ),
    ),
    (
        errors.StaleHeadError,
        ("chat.db", "chat", "revision 1", None),
        (
            "chat.db: 'chat' is not saved, and revision 1 was expected. Nothing was "
            "written. Load the head, join your state into it and save that; or pass "
            "the head as expecting= to replace it; to undo what is saved, call "
            "store.rollback()"
        ),
    ),
    (
        errors.StaleHeadError,
        ("chat.db", "chat", 10**60, "revision 2", "Look."),
        (
            "chat.db: 'chat' is now revision 2, and an integer of 200 bits was "
            "expected. Nothing was written. Look."
        ),
    ),
    (
        errors.StaleThreadError,
        ("chat.db", "t", "", None, "c2"),
        (
            "chat.db: another run changed thread 't': this run began when it was "
            "empty, and the newest checkpoint is now c2. Nothing was written. Run it "
            "again with a config of the thread alone to go on from there; or name the "
            "checkpoint_id it is to begin from, to leave the other's turn aside"
        ),
    ),
    (
        errors.StaleThreadError,
        ("chat.db", "t", "inner", "c1", "c2"),
        (
            "chat.db: another run changed the namespace 'inner' of thread 't': this "
            "run began from checkpoint c1, and the newest checkpoint is now c2. "
            "Nothing was written. Run it again with a config of the thread alone to go "
            "on from there; or name the checkpoint_id it is to begin from, to leave "
            "the other's turn aside"
        ),
    ),
    (
        errors.StoreError,
        ("chat.db", "can't write: the disk is full"),
        "chat.db: can't write: the disk is full",
    ),
    (errors.StreamClosedError, ("this stream was closed",), "this stream was closed"),
    (
        errors.TemplateError,
        ("it is too long", "{{ a }}"),
        "can't render '{{ a }}': it is too long",
    ),
    (errors.TemplateError, ("it is empty", ""), "can't render: it is empty"),
    (
        errors.UnknownModelError,
        ("gpt-none", "genai-prices", ("gpt-one", "gpt-nine")),
        "genai-prices knows no model 'gpt-none'; did you mean 'gpt-one' or 'gpt-nine'?",
    ),
    (
        errors.UnknownModelError,
        ("gpt-none", "genai-prices"),
        (
            "genai-prices knows no model 'gpt-none', nor any that is written like it; "
            "check the name, or install a newer genai-prices"
        ),
    ),
    (
        errors.UnknownMomentError,
        (9, "is not kept", tuple((at, "") for at in range(7))),
        "moment 9 is not kept; valid moments: 2, 3, 4, 5, 6",
    ),
    (
        errors.UnknownMomentError,
        (9, "is not kept", ((1, "first"), (2, ""))),
        "moment 9 is not kept; valid moments: 1 ('first'), 2",
    ),
    (
        errors.UnknownMomentError,
        ("draft", "is not ahead"),
        "moment 'draft' is not ahead; valid moments: none",
    ),
    (
        errors.UnknownOutcomeError,
        ("postgresql://host/chats", "the server closed it"),
        (
            "postgresql://host/chats: the server closed it. Whether it was kept is "
            "unknown: it is there as a whole or not at all. Load the head and look; to "
            "save the same state once more, without expecting=, does no harm"
        ),
    ),
    (errors.UnpricedError, ("", "unknown"), "can't price this usage: unknown"),
    (
        errors.UnpricedError,
        ("gpt-none", "the model is unknown"),
        "can't price this usage of 'gpt-none': the model is unknown",
    ),
]
IDS = [f"{make.__name__}-{at}" for at, (make, _, _) in enumerate(ERRORS)]


def copy_by_pickle(error):
    return pickle.loads(pickle.dumps(error))


@pytest.mark.parametrize(("make", "arguments", "text"), ERRORS, ids=IDS)
class TestErrors:
    def test_text(self, make, arguments, text):
        """What users read."""
        assert text == str(make(*arguments))

    def test_attributes(self, make, arguments, text):
        """Each argument is an attribute, so that no program has to read the text."""
        error = make(*arguments)
        given = inspect.signature(make.__init__).bind(error, *arguments)
        given.apply_defaults()
        names = {*given.arguments} - {"self", "advice", "args", "kwargs"}

        assert {name: given.arguments[name] for name in names} == {
            name: getattr(error, name) for name in names
        }
        # Where programs that log errors look for them.
        assert names <= vars(error).keys()

    def test_is_shown_as_any_exception(self, make, arguments, text):
        """In a repr an error has its arguments, as the builtin ones."""
        error = make(*arguments)
        shown = ", ".join(map(repr, error.args))

        assert f"{make.__name__}({shown})" == repr(error)

    def test_is_compared_as_any_exception(self, make, arguments, text):
        """Each error is another one; only what a view lists of its own is a value."""
        count = 1 if make is errors.DroppedHistoryError else 2

        assert count == len({make(*arguments), make(*arguments)})

    @pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, copy_by_pickle])
    def test_copies(self, make, arguments, text, make_copy):
        """
        A copy, and what another process gets, is the same error, also of one that was
        made with names.
        """
        _, *names = inspect.signature(make.__init__).parameters
        given = dict(zip(names, arguments, strict=False))
        error = make(*arguments) if "args" in given else make(**given)
        copied = make_copy(error)

        assert (type(error), error.args, vars(error), text) == (
            type(copied),
            copied.args,
            vars(copied),
            str(copied),
        )


def test_problem_alone():
    """An error of a value may have nothing but its problem."""
    error = errors.InvalidMessageError("is late")

    assert ("is late", "", "") == (error.problem, error.owner, error.field)
    assert ("is late", "InvalidMessageError('is late')") == (str(error), repr(error))


@pytest.mark.parametrize(
    ("steps", "other", "text"),
    [
        ([1], [], "step 1 of a fan-out failed"),
        ([0, 2], [], "steps 0 and 2 of a fan-out failed"),
        ([0, 1, 2], [], "steps 0, 1 and 2 of a fan-out failed"),
        ([1], [ValueError()], "step 1 of a fan-out failed, and on_turn raised"),
        ([], [ValueError()], "on_turn of a fan-out raised"),
    ],
)
def test_fan_out(steps, other, text):
    """The error of a fan-out names the steps that failed, and whether on_turn did."""
    failures = [SimpleNamespace(step=step, error=KeyError(step)) for step in steps]
    raised = [*(failure.error for failure in failures), *other]

    error = errors.FanOutError("state", failures, raised)

    assert f"{text}; .state has what all branches added" == error.message
    assert (raised, "state", failures) == (
        [*error.exceptions],
        error.state,
        [*error.failures],
    )


def test_all():
    """No public error is missing here, but for the group that a fan-out raises."""
    tested = {make.__name__ for make, _, _ in ERRORS}

    assert {"FanOutError", "Problem"} == {*errors.__all__} - tested
