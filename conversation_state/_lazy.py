"""
Packages that import a module when a name in it is first used.

Not every program needs every name, and importing what it does not need takes as
long as everything else. Type checkers read the imports under `TYPE_CHECKING`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def open_later(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """
    ``__getattr__`` and ``__dir__`` for *package*, whose names in *homes* are in the
    modules named there.
    """
    names = vars(sys.modules[package])

    def get_attribute(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")

        names[name] = value = getattr(import_module(homes[name]), name)
        return value

    def list_names() -> list[str]:
        return sorted({*names, *homes})

    return get_attribute, list_names
