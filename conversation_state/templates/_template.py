"""Templates, placeholders, and the fields of messages that are rendered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from collections.abc import Set as AbstractSet
from importlib import import_module
from typing import Any

import attrs

from conversation_state._persistent import check_text, final
from conversation_state._wording import describe_type, shorten_repr, shorten_text
from conversation_state.errors import (
    InvalidMessageError,
    InvalidPartError,
    MissingExtraError,
    MissingVariableError,
    TemplateError,
)
from conversation_state.messages import AssistantMessage, Message, ToolMessage
from conversation_state.parts import (
    FilePart,
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from conversation_state.templates._values import Missing, Refused, Variables

# For each syntax: what every text that uses it has one of, its module, the package it
# needs, and the extra.
_SYNTAXES = {
    "fstring": (("{", "}"), "_fstring", "", ""),
    "jinja2": (("{{", "{%", "{#"), "_jinja", "jinja2", "jinja"),
    "go": (("{{",), "_go", "gotpl", "go-templates"),
}


@final
@attrs.frozen
class Placeholder:
    """
    A placeholder for other messages in a template.

    These messages are not rendered: a history may contain braces.

    Attributes:
        key: The variable that holds the messages: any sequence of them.
        optional: Whether the variable may be missing or None; it then stands for
            no messages.

    Raises:
        InvalidMessageError: If *key* is empty or not text, or *optional* is neither
            True nor False.
    """

    key: str
    optional: bool = False

    def __attrs_post_init__(self) -> None:
        key = check_text(self.key, "Placeholder.key", InvalidMessageError)
        if not key:
            raise InvalidMessageError(
                "Placeholder.key is empty; it names the variable that holds the "
                "messages"
            )

        if not isinstance(self.optional, bool):
            raise InvalidMessageError(
                f"Placeholder.optional is {shorten_repr(self.optional)}; expected "
                "True or False"
            )

        object.__setattr__(self, "key", key)

    def _find_messages(self, variables: Mapping[str, Any]) -> tuple[Message, ...]:
        given: Any = variables.get(self.key)
        if given is None and self.optional:
            return ()

        if self.key not in variables:
            raise MissingVariableError(self.key, repr(self))

        # An iterator is empty when the same variables are used again, and a set has
        # no order. States and views are sized, and no `Sequence`.
        is_sized = isinstance(given, Iterable) and isinstance(given, Sized)
        if not is_sized or isinstance(given, (str, Mapping, AbstractSet)):
            raise TemplateError(
                f"{self.key} is {describe_type(given)}; expected a sequence of "
                "messages",
                repr(self),
            )

        messages: tuple[Any, ...] = tuple(given)  # pyright: ignore[reportArgumentType]  # sized
        for at, message in enumerate(messages):
            if not isinstance(message, Message):
                raise TemplateError(
                    f"{self.key}[{at}] is {describe_type(message)}; expected a message",
                    repr(self),
                )

        return messages


@final
@attrs.frozen(init=False, repr=False)
class Template:
    """
    Messages with variables in their texts, and placeholders for other messages.

    A value: frozen, hashable, picklable, equal by content.

    Args:
        *items: Messages, and each `Placeholder`, in order.
        syntax: The syntax of variables in all of them: ``fstring``, ``jinja2``
            (extra ``jinja``) or ``go`` (extra ``go-templates``).

    Raises:
        InvalidMessageError: If an item is neither a message nor a placeholder.
        TemplateError: If the syntax is unknown.

    >>> from conversation_state.messages import UserMessage
    >>> greeting = Template(UserMessage("I am {name}."), Placeholder("history"))
    >>> for message in greeting.format({"name": "Ann", "history": []}):
    ...     print(message)
    user: I am Ann.
    """

    items: tuple[Message | Placeholder, ...]
    syntax: str

    def __init__(self, *items: Message | Placeholder, syntax: str = "fstring") -> None:
        for at, item in enumerate(items):
            if not isinstance(item, (Message, Placeholder)):
                raise InvalidMessageError(
                    f"item {at} of the template is {shorten_repr(item)}; expected a "
                    "message or a Placeholder"
                )

        _check_syntax(syntax)
        object.__setattr__(self, "items", items)
        object.__setattr__(self, "syntax", str.__str__(syntax))

    def __repr__(self) -> str:
        shown = [repr(item) for item in self.items]
        return f"Template({', '.join([*shown, f'syntax={self.syntax!r}'])})"

    def format(self, variables: Mapping[str, object]) -> tuple[Message, ...]:
        """
        The messages, rendered with *variables*.

        Messages of the template are new; those of a placeholder are the given
        objects. Rendered are

        - texts: a message's content, `TextPart`, `RefusalPart`, and
          `ReasoningPart` unless it is signed (a signature is of its text);
        - urls of media;
        - names: of messages, of files, of tools in calls and results.

        Everything else is unchanged: data, ids, the arguments of tool calls (JSON has
        braces), media types, metadata, and unknown fields.

        Raises:
            MissingVariableError: If a variable, or a key below one, is missing.
            TemplateError: If a text is not a valid template, or exceeds a limit; if a
                variable is not plain data, or a placeholder's is not a sequence of
                messages.
            InvalidMessageError, InvalidPartError: If the rendered message is invalid:
                an empty url, for example. A note names the template.
            MissingExtraError: If the syntax needs a package that is not installed.
        """
        renderer = _Renderer(self.syntax, variables)
        messages: list[Message] = []
        for item in self.items:
            if isinstance(item, Placeholder):
                messages.extend(item._find_messages(variables))
                continue

            try:
                messages.append(_fill_message(item, renderer.render))
            except (InvalidMessageError, InvalidPartError) as error:
                error.add_note(f"made of the template {_shorten_line(repr(item))}")
                raise

        return tuple(messages)


def render(text: str, variables: Mapping[str, object], *, syntax: str) -> str:
    """
    *text*, rendered with *variables*.

    Values are inserted as they are; they are not rendered. What is no text is written
    as `str` writes it; in ``go`` None is ``<no value>``, and lists and mappings are as
    Go writes them: ``[1 a]``, ``map[a:1]``.

    Raises:
        TemplateError, MissingVariableError, MissingExtraError: As by `Template` and
            `Template.format`.

    >>> render("{n:03d} {who[name]}", {"n": 7, "who": {"name": "A"}}, syntax="fstring")
    '007 A'
    """
    _check_syntax(syntax)
    if not isinstance(text, str):
        raise TemplateError(
            f"the template is {describe_type(text)}; expected a str", ""
        )

    return _Renderer(syntax, variables).render(text)


def _check_syntax(syntax: object) -> None:
    if not isinstance(syntax, str) or syntax not in _SYNTAXES:
        raise TemplateError(
            f"syntax is {shorten_repr(syntax)}; expected one of {', '.join(_SYNTAXES)}",
            "",
        )


class _Renderer:
    def __init__(self, syntax: str, variables: object) -> None:
        self._marks, module, package, extra = _SYNTAXES[syntax]
        try:
            self._engine = import_module(f"conversation_state.templates.{module}")
        except ImportError as error:
            # Another module that can't be imported is not a missing extra.
            if (error.name or "").partition(".")[0] != package:
                raise

            raise MissingExtraError(f"the syntax {syntax}", extra) from error

        if not isinstance(variables, Mapping):
            raise TemplateError(
                f"variables is {describe_type(variables)}; expected a mapping of names "
                "to values",
                "",
            )

        self._variables = Variables(variables)

    def render(self, text: str) -> str:
        shown = _shorten_line(text)
        try:
            check_text(text, "the template", Refused)
            if not any(mark in text for mark in self._marks):
                return text

            rendered = self._engine.render_template(text, self._variables)
            return check_text(rendered, "what it becomes", Refused)
        except Missing as missing:
            raise MissingVariableError(str(missing), shown) from None
        except Refused as refused:
            raise TemplateError(str(refused), shown) from refused.__cause__
        except RecursionError:
            # Without its cause: a traceback of a thousand frames.
            raise TemplateError("it is nested too deeply", shown) from None
        except Exception as error:
            # Filters, methods and format specs raise errors of many classes.
            problem = f"{type(error).__name__}: {error!s:.200}"
            raise TemplateError(problem, shown) from error


_LINE = 80


def _shorten_line(text: str) -> str:
    line = " ".join(text[: 4 * _LINE].split())
    return shorten_text(f"{line}..." if len(text) > 4 * _LINE else line, _LINE)


def _fill_message(message: Message, fill: Callable[[str], str]) -> Message:
    changes: dict[str, Any] = {}
    if message.name:
        changes["name"] = fill(message.name)

    content = getattr(message, "content", None)
    if isinstance(content, str):
        changes["content"] = fill(content)
    elif content is not None:
        changes["content"] = tuple(_fill_parts(content, fill))

    if isinstance(message, ToolMessage):
        changes["tool_name"] = fill(message.tool_name)
    elif isinstance(message, AssistantMessage):
        changes["tool_calls"] = tuple(
            [attrs.evolve(call, name=fill(call.name)) for call in message.tool_calls]
        )

    return message.replace(**changes)


def _fill_parts(parts: Iterable[Part], fill: Callable[[str], str]) -> Iterator[Part]:
    for part in parts:
        changes = {}
        if isinstance(part, (TextPart, RefusalPart)) or (
            isinstance(part, ReasoningPart) and not part.signature
        ):
            changes["text"] = fill(part.text)
        elif isinstance(part, MediaPart):
            if part.url is not None:
                changes["url"] = fill(part.url)
            if isinstance(part, FilePart):
                changes["name"] = fill(part.name)

        yield attrs.evolve(part, **changes)
