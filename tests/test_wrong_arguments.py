"""
Every public function, class and method is called with arguments that are wrong and
large, or whose repr raises: whatever it raises says so in a few lines.
"""

import importlib
import inspect
from functools import partial

import pytest

from conversation_state import (
    Aggregator,
    AssistantMessage,
    Timeline,
    TokenBudget,
    ToolCall,
    Usage,
    UserMessage,
    open_store,
    trim,
)
from conversation_state.counting import by_characters

MODULES = [
    *("aggregator", "cells", "chunks", "codec", "counting", "diffing", "documents"),
    *("messages", "pages", "parallel", "parsing", "parts", "rendering", "store"),
    *("streams", "templates", "timeline", "tools", "tree", "trimming", "usage"),
    *(f"adapters.{name}" for name in ("anthropic", "gemini", "openai_chat")),
    *(f"adapters.{name}" for name in ("openai_responses", "eino", "bubo")),
]
# They pass on what enums of Python, files of the system and a value's `str` say.
PASSES_ON = {
    ("ToolChoice", "value"),
    ("by_mistral", "file"),
    ("format_markdown_turn", "heading"),
}
MOST_CHARACTERS = 1_500
WORDS = "the repr of this value raises"


class RaisesInRepr:
    """
    A value that can't be shown.
    """

    def __repr__(self):
        raise LookupError(WORDS)


class IsLongInRepr:
    """
    A value that is shown at length.
    """

    def __repr__(self):
        return "x" * 100_000


LONG = "x" * 100_000
WRONG = [
    *(LONG, LONG.encode(), [LONG], (LONG,) * 3, {LONG: object()}, {"key": LONG}),
    *({LONG: {LONG: 0.5j}}, {LONG: 1.5}, 10**5_000, -(10**5_000), float("nan")),
    *(IsLongInRepr(), {"key": IsLongInRepr()}, RaisesInRepr(), [RaisesInRepr()]),
]
STATE = Aggregator.new().add_user_prompt("Hi").add(AssistantMessage("Hello"))
BUDGET = TokenBudget(context_window=800)
RIGHT = {
    "arguments": "{}",
    "budget": BUDGET,
    "content": "Hi",
    "conversation": STATE,
    "counter": by_characters,
    "kind": "sticker",
    "message": UserMessage("Hi"),
    "messages": [UserMessage("Hi")],
    "raw": {"type": "sticker"},
    "state": STATE,
    "usage": Usage(1, 1),
}
VALUES = [
    *(STATE, STATE.checkpoint("one"), Timeline.begin(STATE), trim(STATE, BUDGET)),
    *(BUDGET, Usage(1, 1), UserMessage("Hi"), ToolCall("1", "search", "{}")),
]


def iterate_calls(function):
    """
    Calls of *function* with one wrong argument each, and the name of that.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # written in C
        return

    by_name = [each for each in parameters if each.kind != each.VAR_KEYWORD]
    for wrong in by_name:
        for value in WRONG:
            args, kwargs = [], {}
            for each in by_name:
                if each is not wrong and not is_needed(each):
                    continue

                argument = value if each is wrong else RIGHT.get(each.name, "1")
                # Some that stand before the wrong one may have been left out.
                is_named = each is wrong and each.kind == each.POSITIONAL_OR_KEYWORD
                if is_named or kwargs or each.kind == each.KEYWORD_ONLY:
                    kwargs[each.name] = argument
                else:
                    args.append(argument)

            yield wrong.name, partial(function, *args, **kwargs)


def is_needed(parameter):
    """
    Whether a call without the parameter is an error.
    """
    is_optional = parameter.kind == parameter.VAR_POSITIONAL
    return parameter.default is parameter.empty and not is_optional


def describe_wrong_error(error):
    """
    What is wrong with an error that was raised, or "".
    """
    text = str(error)
    if len(text) > MOST_CHARACTERS:
        return f"{len(text):,} characters: {text[:80]}"

    if WORDS in text:
        return "raised by the repr of the argument"

    return "raised by Python" if "Exceeds the limit" in text else ""


def find_wrong_errors(name, function):
    """
    The calls of *function* whose errors are too long, or about something else.
    """
    wrong = {}
    for parameter, call in iterate_calls(function):
        if (name.rpartition(".")[2], parameter) in PASSES_ON:
            continue

        try:
            made = call()
        except Exception as error:  # noqa: BLE001 - whatever it is, its text is read
            problem = describe_wrong_error(error)
            if problem:
                wrong[f"{name}({parameter}=...)"] = problem
        else:
            if inspect.iscoroutine(made):
                made.close()

    return wrong


def list_functions(value):
    """
    The public methods of a value or class, by name.
    """
    found = {name: getattr(value, name) for name in dir(value) if name[0] != "_"}
    return {name: each for name, each in found.items() if callable(each)}


@pytest.mark.parametrize("module", MODULES)
def test_functions(module):
    """
    Functions and classes of a module, and what makes instances of these.
    """
    module = importlib.import_module(f"conversation_state.{module}")
    wrong = {}
    for name in module.__all__:
        each = getattr(module, name)
        if callable(each) and name != "open_store":
            wrong |= find_wrong_errors(name, each)

        if inspect.isclass(each):
            for made_by, method in vars(each).items():
                if isinstance(method, (classmethod, staticmethod)):
                    wrong |= find_wrong_errors(
                        f"{name}.{made_by}", getattr(each, made_by)
                    )

    assert {} == wrong


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_methods(value):
    """
    Methods of values.
    """
    wrong = {}
    for name, method in list_functions(value).items():
        wrong |= find_wrong_errors(f"{type(value).__name__}.{name}", method)

    assert {} == wrong


def test_methods_of_store():
    """
    Methods of a store, synchronous ones and their async twins.
    """
    wrong = {}
    with open_store("memory:") as store:
        store.save("chat", STATE)
        for name, method in list_functions(store).items():
            if name not in {"close", "aclose"}:
                wrong |= find_wrong_errors(f"Store.{name}", method)

    assert {} == wrong
