"""Jinja2's syntax, in its immutable sandbox and without other templates."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, Template, nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError, UndefinedError
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from conversation_state.templates._values import (
    DocumentText,
    Fields,
    Items,
    Missing,
    Refused,
    Variables,
    join_bounded,
)


class MissingValue(StrictUndefined):
    """The value of a missing variable or key; an error as soon as it is used."""

    __slots__ = ()

    def __init__(
        self,
        hint: str | None = None,
        obj: Any = missing,
        name: Any = None,
        exc: type[Exception] = UndefinedError,
    ) -> None:
        obj = obj._fields if isinstance(obj, DocumentText) else obj
        make_error: Any = Refused  # Jinja2 calls it with its message
        is_ours = obj is missing or isinstance(obj, (Fields, Items))
        if is_ours and exc is not SecurityError and name is not None:
            path = () if obj is missing else obj._path
            make_error = lambda _message: Missing(*path, name)  # noqa: E731

        super().__init__(hint, obj, name, make_error)


_SANDBOX = ImmutableSandboxedEnvironment(
    undefined=MissingValue,
    keep_trailing_newline=True,  # a prompt ends as it was written
    cache_size=0,  # for templates of a loader
)
# Jinja2 makes all ends of lines alike.
_SANDBOX_CRLF = _SANDBOX.overlay(newline_sequence="\r\n")

_LOADING = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


def render_template(text: str, variables: Variables) -> str:
    template, names = _compile_template(text)
    values = {name: variables[name] for name in names if name in variables}
    return join_bounded(template.generate(values))


@lru_cache(maxsize=128)
def _compile_template(text: str) -> tuple[Template, frozenset[str]]:
    """A compiled template, and the variables it may use."""
    sandbox = _SANDBOX_CRLF if "\r\n" in text else _SANDBOX
    try:
        tree = sandbox.parse(text)
        for node in tree.find_all(_LOADING):
            kind = type(node).__name__.lower()
            raise Refused(f"there is no {kind} here (line {node.lineno})")

        return sandbox.from_string(text), frozenset(find_undeclared_variables(tree))
    except TemplateSyntaxError as error:
        raise Refused(f"{error.message} (line {error.lineno})") from error
