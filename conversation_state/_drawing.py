"""
How values draw themselves in notebooks and terminals.

Drawings are above all values: so the front door, which is above both, says which
module draws (`set_drawer`), and that one is imported when a value is drawn first.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# The module that draws, which the front door names.
_home: str


def set_drawer(module: str) -> None:
    """Let the public functions of *module* draw all values."""
    global _home  # noqa: PLW0603 - said once, when the package is imported
    _home = module


def draw_fragment(value: object) -> str:
    """*value* as HTML for a notebook."""
    return _load_drawer().draw_fragment(value)  # type: ignore[no-any-return]  # of `pages`


def draw_outline(value: object) -> str:
    """The states of *value* as a tree of lines, for a terminal."""
    return _load_drawer().draw_outline(value)  # type: ignore[no-any-return]  # of `pages`


def draw_difference(difference: object, names: tuple[str, str], limit: int) -> str:
    """*difference* as HTML for a notebook."""
    return _load_drawer().draw_difference(  # type: ignore[no-any-return]  # of `pages`
        difference, names=names, limit=limit
    )


def _load_drawer() -> Any:
    return import_module(_home)
