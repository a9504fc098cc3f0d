"""
Every public function, class and method is called with wrong arguments: large ones,
some whose repr raises, and values of another type. Whatever it raises says what was
expected, in a few lines.
"""

import importlib
import inspect
import re
from functools import partial
from typing import Any

import pytest

from conversation_state import (
    Aggregator,
    AssistantMessage,
    Timeline,
    TokenBudget,
    ToolCall,
    Usage,
    UserMessage,
    join,
    open_store,
    trim,
)
from conversation_state.adapters import PROVIDERS
from conversation_state.counting import by_characters
from conversation_state.store import Store

MODULES = [
    *("aggregator", "cells", "chunks", "codec", "counting", "diffing", "documents"),
    *("messages", "pages", "parallel", "parsing", "parts", "rendering", "store"),
    *(
        "streams",
        "templates",
        "timeline",
        "tool_calls",
        "tools",
        "tree",
        "trimming",
        "usage",
    ),
    *(f"adapters.{name}" for name in PROVIDERS),
]
# They pass on what enums of Python, files of the system and a value's `str` say.
PASSES_ON = {
    ("ToolChoice", "value"),
    ("ToolChoice", "values"),  # as Python 3.13.0 names it
    ("format_markdown_turn", "heading"),
}
MAX_CHARACTERS = 1_500
WORDS = "the repr of this value raises"


class RaisesInRepr:
    """A value that can't be shown."""

    def __repr__(self):
        raise LookupError(WORDS)


class IsLongInRepr:
    """A value that is shown at length."""

    def __repr__(self):
        return "x" * 100_000


LONG = "x" * 100_000
WRONG = [
    *(LONG, LONG.encode(), [LONG], (LONG,) * 3, {LONG: object()}, {"key": LONG}),
    *({LONG: {LONG: 0.5j}}, {LONG: 1.5}, 10**5_000, -(10**5_000), float("nan")),
    *(IsLongInRepr(), {"key": IsLongInRepr()}, RaisesInRepr(), [RaisesInRepr()]),
    *(None, 5, "a text", [], [5], {}, {"key": 1}, object(), b"bytes", True, 1.5, -1),
    *(Ellipsis, lambda: None, UserMessage("Hi"), Aggregator.new()),
]
# By `rebuild` and the like, adapters and backends make values of checked data.
UNCHECKED = re.compile(
    r"(Aggregator|Timeline|Turn)\.rebuild|Aggregator\.equals|"
    r"(Cost|Diff|Divergence(\.of)?|LogProb|.*_tombstone|"
    r"find_erasure|encode_ledger_entry|identify_call|union_total|digest_answer|find_pending_calls|group_answers|is_interrupted|(read|split)_caveat|read_(response|tier|usage)|"
    r"(id|digest)_of_key|is_schema|"
    r"structurer?|parse|escape_invisible|format_.*|quote_word|"
    r"read_history|History.of_timeline)\("
)
# How Python itself says that a value is of another type.
PYTHONS_WORDS = re.compile(
    "has no attribute|object is not|not supported between|unhashable|unsupported"
)
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


def iterate_calls(function, values):
    """Calls of *function* with one of *values* for each parameter, and its name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # written in C
        return

    by_name = [each for each in parameters if each.kind != each.VAR_KEYWORD]
    for wrong in by_name:
        for value in values:
            args: list[Any] = []
            kwargs: dict[str, Any] = {}
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
    """Whether a call without the parameter is an error."""
    is_optional = parameter.kind == parameter.VAR_POSITIONAL
    return parameter.default is parameter.empty and not is_optional


def describe_problem(call, error):
    """What is wrong with the error of a call, or ""."""
    text = str(error)
    if len(text) > MAX_CHARACTERS:
        return f"{len(text):,} characters: {text[:80]}"

    if WORDS in text:
        return "raised by the repr of the argument"

    is_vague = PYTHONS_WORDS.search(text) and not UNCHECKED.match(call)
    return text if is_vague or "Exceeds the limit" in text else ""


def find_wrong_errors(functions):
    """The calls of *functions* with wrong arguments whose errors are wrong."""
    wrong = {}
    for name, function in functions.items():
        for parameter, call in iterate_calls(function, WRONG):
            if (name.rpartition(".")[2], parameter) in PASSES_ON:
                continue

            shown = f"{name}({parameter}=...)"
            try:
                made = call()
            except Exception as error:  # noqa: BLE001 - whatever it is, its text is read
                problem = describe_problem(shown, error)
                if problem:
                    wrong[shown] = problem
            else:
                if inspect.iscoroutine(made):
                    made.close()

    return wrong


def list_public(module):
    """The functions and classes of a module, and what makes instances of these."""
    module = importlib.import_module(f"conversation_state.{module}")
    names = [name for name in module.__all__ if name != "open_store"]
    found = {name: getattr(module, name) for name in names}
    for name, each in {**found}.items():
        if inspect.isclass(each):
            for made_by, method in vars(each).items():
                is_maker = isinstance(method, (classmethod, staticmethod))
                if is_maker and not made_by.startswith("_"):
                    found[f"{name}.{made_by}"] = getattr(each, made_by)

    return {name: each for name, each in found.items() if callable(each)}


def list_methods(value):
    """The public methods of a value, by class and name."""
    found = {
        f"{type(value).__name__}.{name}": getattr(value, name)
        for name in dir(value)
        if not name.startswith("_")
    }
    return {name: each for name, each in found.items() if callable(each)}


@pytest.fixture
def store():
    """An open store with a state."""
    with open_store("memory:") as store:
        store.save("chat", STATE)
        yield store


def list_verbs(store):
    """The methods of a store but those that close it."""
    methods = list_methods(store)
    return {name: methods[name] for name in methods if not name.endswith("close")}


class TestErrors:
    """
    An error has at most a line of what is wrong, is not replaced by another one, and
    names what was expected.
    """

    @pytest.mark.parametrize("module", MODULES)
    def test_functions(self, module):
        """Of functions and classes."""
        assert {} == find_wrong_errors(list_public(module))

    @pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
    def test_methods(self, value):
        """Of methods."""
        assert {} == find_wrong_errors(list_methods(value))

    def test_store(self, store):
        """Of a store."""
        assert {} == find_wrong_errors(list_verbs(store))


LIST: Any = [STATE, STATE.fork()]
MESSAGE: Any = UserMessage("Hi")
TEXT: Any = "sqlite:///chats.db"
NUMBER: Any = 4


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: join(LIST), "join takes Aggregators, got a list: [<Aggregator"),
        (
            lambda: by_characters(TEXT),
            "message: expected a Message, got a str: 'sqlite:///chats.db'",
        ),
        (
            lambda: trim(STATE, BUDGET, counter=NUMBER),
            "counter: expected a function, got an int: 4",
        ),
        (
            lambda: Store(TEXT),
            "Store takes a backend, got a str: 'sqlite:///chats.db'; open_store takes",
        ),
    ],
)
def test_text(call, text):
    """
    What happens most: a list in place of its items, or the other way round, and a URL.
    """
    with pytest.raises(TypeError, match=re.escape(text)):
        call()
