"""Values as Python code that makes them: examples that can be pasted into a program."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from itertools import groupby
from typing import Any
from uuid import UUID

import attrs

from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator, LedgerEntry
from conversation_state.messages import AssistantMessage, Message, UserMessage
from conversation_state.trimming import TrimContext
from conversation_state.usage import Usage

_WIDTH = 80
_SHOWN = 200  # characters of a value in a message
# When most examples were recorded: code leaves it out.
USUAL_TIME = datetime(2025, 6, 1, 12, tzinfo=UTC)

# Generated identities. The code leaves them out: as an argument they would be the keys
# of requests.
_NEW_ID = re.compile(r"[0-9a-f]{24}-[0-9a-f]+")

_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
_MISSING = inspect.Parameter.empty
_UNNAMED = 2  # arguments that need no name
_REPEATED = 3  # items of a list that are shown as one
# The keywords of every message, which the signature of its class does not list.
COMMON_FIELDS: dict[str, Any] = {
    "name": "",
    "run_id": None,
    "turn_id": None,
    "timestamp": None,
    "metadata": {},
    "unknown": {},
}


def show_value(value: object) -> str:
    """The repr of a *value* that breaks a law, for the message that says so."""
    return shorten_repr(value, _SHOWN)


def format_code(value: object) -> str:
    """
    A Python expression for *value*: what it is made with, without defaults.

    Values of this library are equal to what the expression makes. A state gets new
    identities and times, and the fork it is, if it is one, is the only one: messages,
    usages and their keys are the same, in the same order. Anything else is its repr.

    >>> from conversation_state.messages import UserMessage
    >>> format_code(Aggregator.new().add_user_prompt("Hi!").fork())
    "Aggregator.new().add_user_prompt('Hi!').fork()"
    >>> format_code(UserMessage("Hi!", name="Ann"))
    "UserMessage('Hi!', name='Ann')"
    """
    return _Writer().format(value)


def format_example(values: Mapping[str, object]) -> str:
    """
    Python statements that import what they need and make each of *values* under its
    name: as `format_code` says.

    >>> print(format_example({"state": Aggregator.new().add_user_prompt("Hi!")}))
    from conversation_state.aggregator import Aggregator
    <BLANKLINE>
    state = Aggregator.new().add_user_prompt('Hi!')
    """
    writer = _Writer()
    statements = [f"{name} = {writer.format(one)}" for name, one in values.items()]
    imports = writer.format_imports()
    return "\n".join([*imports, *[""] * bool(imports), *statements])


class _Writer:
    """Writes expressions, and notes which classes they name."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}

    def format_imports(self) -> list[str]:
        return [
            f"from {module} import {', '.join(sorted(names))}"
            if names
            else f"import {module}"
            for module, names in sorted(self._names.items())
        ]

    def name_class(self, cls: type) -> str:
        """The name of *cls*, to be imported from its public module."""
        module = cls.__module__.partition("._")[0]
        if module != "builtins":
            self._names.setdefault(module, set()).add(cls.__name__)

        return cls.__name__

    def format(self, value: Any) -> str:  # noqa: PLR0911 - one for each kind of value
        if isinstance(value, Aggregator):
            return self._format_state(value)

        if isinstance(value, TrimContext):
            return self._format_view(value)

        if isinstance(value, Usage):
            return self._format_usage(value)

        if isinstance(value, Mapping):
            pairs = [f"{self.format(k)}: {self.format(v)}" for k, v in value.items()]
            return _join_items("{", pairs, "}")

        is_record = attrs.has(type(value)) or hasattr(value, "_fields")
        # The class of a function's own can't be imported.
        if is_record and "<" not in type(value).__qualname__:
            return self._format_made(value)

        if isinstance(value, (list, tuple)):
            return self._format_list(value)

        if isinstance(value, (date, time, timedelta, tzinfo)):
            # Their reprs name the module, and the class not always: timezone.utc.
            self._names["datetime"] = set()
        elif isinstance(value, (UUID, Decimal)):
            self.name_class(type(value))
        elif isinstance(value, float) and not math.isfinite(value):
            return f"float('{value}')"

        return _format_text(value) if isinstance(value, str) else repr(value)

    def _format_usage(self, usage: Usage) -> str:
        # The repr leaves out a total that is the sum; comparing fields with
        # their defaults would not.
        text = repr(usage)
        self.name_class(Usage)
        for details in (usage.prompt_tokens_details, usage.completion_tokens_details):
            if f"{type(details).__name__}(" in text:
                self.name_class(type(details))

        return text

    def _format_list(self, values: list[Any] | tuple[Any, ...]) -> str:
        start, end = ("(", ")") if isinstance(values, tuple) else ("[", "]")
        items = [self.format(one) for one in values]
        comma = "," if isinstance(values, tuple) else ""
        # By their code, not by equality: True and 1 are equal.
        if len(items) >= _REPEATED and len({*items}) == 1:
            return f"{start}{items[0]}{comma}{end} * {len(items)}"

        shown = [
            text
            for item, same in groupby(items)
            for text in _shorten_repeated(item, same)
        ]
        return _join_items(start, shown, end, comma if len(items) == 1 else "")

    def _format_made(self, value: Any) -> str:
        """
        The call that makes a value of an attrs class or named tuple, without defaults;
        the repr if the arguments of the call are not attributes of the value.
        """
        arguments: list[str] = []
        is_named = False
        for name, parameter in inspect.signature(type(value)).parameters.items():
            defaults = {name: parameter.default}
            if parameter.kind is parameter.VAR_KEYWORD:
                defaults = COMMON_FIELDS

            for each, default in defaults.items():
                found = getattr(value, each, default)
                if found is _MISSING:
                    return repr(value)

                if parameter.kind is parameter.VAR_POSITIONAL:
                    arguments += [self.format(one) for one in found]
                    continue

                # Arguments are positional only while no argument before them is left
                # out, and only the first ones, which need no name.
                is_named = is_named or parameter.kind is not _POSITIONAL
                if _is_same(found, default):
                    is_named = True
                    continue

                # Lists are shorter, and attrs classes convert them to tuples.
                is_listed = type(found) is tuple and attrs.has(type(value))
                text = self.format(list(found) if is_listed else found)
                arguments.append(f"{each}={text}" if is_named else text)
                is_named = is_named or len(arguments) >= _UNNAMED

        return _join_items(f"{self.name_class(type(value))}(", arguments, ")")

    def _format_state(self, state: Aggregator) -> str:
        entries, ledger = list(state.messages), list(state.ledger)
        at, ledger_at = state.init_len, state.init_ledger_len
        verbs = [f"{self.name_class(Aggregator)}.new()"]
        verbs += self._list_adding(entries[:at], ledger[:ledger_at])
        if state.parent_id is not None:
            verbs.append(".fork()")

        verbs += self._list_adding(entries[at:], ledger[ledger_at:])
        line = "".join(verbs)
        if len(line) <= _WIDTH and "\n" not in line:
            return line

        return "\n".join(["(", *_indent_lines(verbs), ")"])

    def _list_adding(
        self, messages: list[Message], ledger: list[LedgerEntry]
    ) -> Iterator[str]:
        # By their code, too: metadata may have True in one message and 1 in the next.
        for text, same in groupby(messages, self._format_add):
            first, *others = same
            if len(others) > 1:
                yield f".extend([{self.format(first)}] * {len(others) + 1})"
            else:
                yield from [text] * (len(others) + 1)

        for entry in ledger:
            arguments = [self.format(entry.usage)]
            if not _NEW_ID.fullmatch(entry.id):
                arguments.append(f"key={entry.id!r}")

            if entry.model:
                arguments.append(f"model={entry.model!r}")

            if entry.at not in {None, USUAL_TIME}:
                arguments.append(f"at={self.format(entry.at)}")

            if entry.caveat:
                arguments.append(f"caveat={entry.caveat!r}")

            yield f".add_usage({', '.join(arguments)})"

    def _format_add(self, message: Message) -> str:
        short: dict[type, str] = {
            UserMessage: "add_user_prompt",
            AssistantMessage: "add_assistant_message",
        }
        cls = type(message)
        content = getattr(message, "content", None)
        if cls in short and isinstance(content, str) and message == cls(content):
            return f".{short[cls]}({_format_text(content)})"

        return f".add({self.format(message)})"

    def _format_view(self, view: TrimContext) -> str:
        messages = [each.message for each in view.original.elements]
        arguments = [self.format(messages)]
        if view.budget is not None:
            arguments.append(self.format(view.budget))

        text = _join_items(f"{self.name_class(TrimContext)}.of(", arguments, ")")
        gone = [each.seq for each in view.dropped]
        return f"{text}.remove({gone})" if gone else text


def _format_text(text: str) -> str:
    """A text; a long one that repeats a part of itself, as that part and a number."""
    if len(text) > _WIDTH:
        part = text[: (text + text).find(text, 1)]
        if len(part) < len(text):
            return f"{part!r} * {len(text) // len(part)}"

    return repr(text)


def _shorten_repeated(item: str, same: Iterable[str]) -> list[str]:
    """The *same* items in a list, or one and their number if that is shorter."""
    items = list(same)
    return items if len(items) < _REPEATED else [f"*[{item}] * {len(items)}"]


def _is_same(value: Any, default: Any) -> bool:
    # A map is of a class of ours, and its default a dict.
    if isinstance(default, Mapping):
        return not default and bool(value == default)

    return type(value) is type(default) and bool(value == default)


def _join_items(start: str, items: list[str], end: str, last: str = "") -> str:
    """
    *items* in one line, *last* behind them, if they are short enough, else one a line.
    """
    line = f"{start}{', '.join(items)}{last}{end}"
    if len(line) <= _WIDTH and "\n" not in line:
        return line

    return "\n".join([start, *_indent_lines([f"{item}," for item in items]), end])


def _indent_lines(items: Iterable[str]) -> list[str]:
    return [f"    {line}" for item in items for line in item.splitlines()]
