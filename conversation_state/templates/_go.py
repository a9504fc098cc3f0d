"""Go's syntax, by gotpl: a missing key of a map is an error, in `index` too."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import gotpl

from conversation_state.templates._values import (
    MAX_CHARACTERS,
    Missing,
    Refused,
    Variables,
    read_below,
)

_POSITION = re.compile(
    r'template(?:: template)?:([0-9]+):[0-9]+: (?:executing "[^"]*": )?(.*)', re.DOTALL
)
_MANY = 1_000_000


def render_template(text: str, variables: Variables) -> str:
    try:
        return _compile_template(text).render(variables)
    except gotpl.TemplateError as error:
        if isinstance(error.__cause__, (Missing, Refused)):
            raise error.__cause__ from None

        raise Refused(_POSITION.sub(r"\2 (line \1)", str(error))) from error


@lru_cache(maxsize=128)
def _compile_template(text: str) -> gotpl.Template:
    """A compiled template."""
    return gotpl.Template(
        text,
        functions={"index": _read_index},
        # Values are plain data; all that is to be reached in them are methods.
        sandbox=gotpl.SandboxPolicy.strict(
            allow_functions=["index"],
            allow_custom_lookup=True,
            max_template_chars=len(text),
        ),
        budget=gotpl.ExecutionBudget(
            max_output_chars=MAX_CHARACTERS,
            max_iterations=_MANY,
            max_template_depth=100,
            max_function_calls=_MANY,
        ),
    )


def _read_index(value: Any, *keys: Any) -> Any:
    # Go's own `index` gives nothing for a missing key.
    for key in keys:
        value = read_below(value, key, "what index gets")

    return value
