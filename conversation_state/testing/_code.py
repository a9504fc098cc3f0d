"""
Values as Python code that makes them: examples that can be pasted into a program.

What lives here: `format_code` and `format_example`. What does not: examples
(`strategies`), and what is true of them (`laws`, `contracts`).
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any
from uuid import UUID

import attrs

from conversation_state.aggregator import Aggregator, LedgerEntry
from conversation_state.messages import AssistantMessage, Message, UserMessage
from conversation_state.trimming import TrimContext
from conversation_state.usage import Usage

__all__ = ["USUAL_TIME", "format_code", "format_example"]

_WIDTH = 80
# When most examples were recorded: code leaves it out.
USUAL_TIME = datetime(2025, 6, 1, 12, tzinfo=UTC)

# Identities that were made, not given.
_NEW_ID = re.compile(r"[0-9a-f]{24}-[0-9a-f]+")

_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
_UNNAMED = 2  # arguments that need no name
_COMMON_FIELDS = ("name", "run_id", "turn_id", "timestamp", "metadata", "unknown")


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
    """
    Writes expressions, and notes which classes they name.
    """

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}

    def format_imports(self) -> list[str]:
        return [
            f"from {module} import {', '.join(sorted(names))}"
            for module, names in sorted(self._names.items())
        ]

    def name_class(self, cls: type) -> str:
        """
        The name of *cls*, to be imported from its public module.
        """
        module = cls.__module__.partition("._")[0]
        if module != "builtins":
            self._names.setdefault(module, set()).add(cls.__name__)

        return cls.__name__

    def format(self, value: Any) -> str:  # noqa: PLR0911 - one for each kind of value
        if isinstance(value, Aggregator):
            return self._format_chain(list(self._list_verbs(value)))

        if isinstance(value, TrimContext):
            return self._format_view(value)

        if isinstance(value, Usage):
            self.name_class(Usage)
            return self._format_repr(value)

        if isinstance(value, Mapping):
            pairs = [f"{self.format(k)}: {self.format(v)}" for k, v in value.items()]
            return _join_items("{", pairs, "}")

        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return self._format_list(value, is_tuple=isinstance(value, tuple))

        if isinstance(value, (date, time, timedelta, tzinfo)):
            return self._format_time(value)

        if isinstance(value, UUID):
            self.name_class(UUID)
            return repr(value)

        if attrs.has(type(value)) and "<" not in type(value).__qualname__:
            return self._format_made(value)

        return _format_text(value) if isinstance(value, str) else _format_other(value)

    def _format_repr(self, value: Any) -> str:
        """
        The repr of *value*, whose fields may hold values of other classes.
        """
        text = repr(value)
        for field in attrs.fields(type(value)):
            inner = getattr(value, field.name)
            if attrs.has(type(inner)) and f"{type(inner).__name__}(" in text:
                self.name_class(type(inner))

        return text

    def _format_time(self, value: Any) -> str:
        # Its repr begins with the module's name.
        text = repr(value)
        for name in ("datetime", "timedelta", "timezone", "date", "time"):
            if f"datetime.{name}" in text:
                self._names.setdefault("datetime", set()).add(name)
                text = text.replace(f"datetime.{name}(", f"{name}(")
                text = text.replace(f"datetime.{name}.", f"{name}.")

        return text

    def _format_list(self, values: Sequence[Any], *, is_tuple: bool = False) -> str:
        """
        A list or tuple, in which what stands there several times is written once.
        """
        start, end = "()" if is_tuple else "[]"
        last = "," if is_tuple else ""
        runs = list(_group_equal(values))
        if len(runs) == 1 and runs[0][1] > 2:  # noqa: PLR2004 - more is shorter then
            return f"{start}{self.format(runs[0][0])}{last}{end} * {runs[0][1]}"

        items = [self.format(one) for one in values]
        if len(items) == 1:
            line = f"{start}{items[0]}{last}{end}"
            if len(line) <= _WIDTH and "\n" not in line:
                return line

        return _join_items(start, items, end)

    def _format_made(self, value: Any) -> str:
        """
        The call that makes a value of an attrs class, without defaults.
        """
        arguments: list[str] = []
        is_named = False
        for name, parameter in inspect.signature(type(value)).parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                names = [(each, _find_default(each)) for each in _COMMON_FIELDS]
            else:
                names = [(name, parameter.default)]

            for each, default in names:
                found = getattr(value, each, default)
                # Arguments have names after the second, and where one is left out.
                is_named = is_named or parameter.kind is not _POSITIONAL
                if _is_same(found, default):
                    is_named = True
                    continue

                # Lists are shorter, and become tuples.
                listed = list(found) if type(found) is tuple else found
                text = self.format(listed)
                arguments.append(f"{each}={text}" if is_named else text)
                is_named = is_named or len(arguments) >= _UNNAMED

        return _join_items(f"{self.name_class(type(value))}(", arguments, ")")

    def _list_verbs(self, state: Aggregator) -> Iterator[str]:
        """
        The verbs that make *state*, one after the other.
        """
        yield f"{self.name_class(Aggregator)}.new()"
        entries, ledger = list(state.messages), list(state.ledger)
        at, ledger_at = state.init_len, state.init_ledger_len
        yield from self._list_adding(entries[:at], ledger[:ledger_at])
        if state.parent_id is not None:
            yield ".fork()"

        yield from self._list_adding(entries[at:], ledger[ledger_at:])

    def _list_adding(
        self, messages: list[Message], ledger: list[LedgerEntry]
    ) -> Iterator[str]:
        for message, number in _group_equal(messages):
            if number > 2:  # noqa: PLR2004 - as above
                yield f".extend([{self.format(message)}] * {number})"
            else:
                yield from [self._format_add(message)] * number

        for entry in ledger:
            arguments = [self.format(entry.usage)]
            if not _NEW_ID.fullmatch(entry.id):
                arguments.append(f"key={entry.id!r}")

            if entry.model:
                arguments.append(f"model={entry.model!r}")

            if entry.at is not None and entry.at != USUAL_TIME:
                arguments.append(f"at={self.format(entry.at)}")

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

    def _format_chain(self, verbs: list[str]) -> str:
        line = "".join(verbs)
        if len(line) <= _WIDTH and "\n" not in line:
            return line

        return "\n".join(["(", *_indent_lines(verbs), ")"])

    def _format_view(self, view: TrimContext) -> str:
        """
        A view of messages from which some were removed.
        """
        messages = [each.message for each in view.original.elements]
        arguments = [self.format(messages)]
        if view.budget is not None:
            arguments.append(self.format(view.budget))

        text = _join_items(f"{self.name_class(TrimContext)}.of(", arguments, ")")
        gone = [each.seq for each in view.dropped]
        return f"{text}.remove({gone})" if gone else text


def _format_text(text: str) -> str:
    """
    A text; a long one that repeats a part of itself, as that part and a number.
    """
    if len(text) > _WIDTH:
        part = text[: (text + text).find(text, 1)]
        if len(part) < len(text):
            return f"{part!r} * {len(text) // len(part)}"

    return repr(text)


def _format_other(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"

    return repr(value)


def _find_default(name: str) -> Any:
    return {"name": "", "metadata": {}, "unknown": {}}.get(name)


def _is_same(value: Any, default: Any) -> bool:
    if default is inspect.Parameter.empty:
        return False

    if isinstance(value, Mapping) and isinstance(default, Mapping):
        return not value and not default

    # No parts are not the empty text.
    if isinstance(value, tuple) and isinstance(default, (list, tuple)):
        return value == tuple(default)

    return type(value) is type(default) and bool(value == default)


def _group_equal(values: Iterable[Any]) -> Iterator[tuple[Any, int]]:
    """
    Each value, and how many times it stands there, one after the other.
    """
    runs: list[list[Any]] = []
    for value in values:
        if runs and (runs[-1][0] is value or runs[-1][0] == value):
            runs[-1][1] += 1
        else:
            runs.append([value, 1])

    return ((value, number) for value, number in runs)


def _join_items(start: str, items: list[str], end: str) -> str:
    """
    *items* in one line if they are short enough, else one a line.
    """
    line = f"{start}{', '.join(items)}{end}"
    if len(line) <= _WIDTH and "\n" not in line:
        return line

    return "\n".join([start, *_indent_lines([f"{item}," for item in items]), end])


def _indent_lines(items: Iterable[str]) -> list[str]:
    return [f"    {line}" for item in items for line in item.splitlines()]
