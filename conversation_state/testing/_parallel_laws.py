"""
Laws of cells and of branches that run at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["histories_are_linear"]


def histories_are_linear(
    first: object, changes: Iterable[tuple[Any, Any]], last: object
) -> None:
    """
    What a watcher of a cell was told leads from the *first* value to the
    *last*, each change beginning with the very value the one before ended with.
    """
    now = first
    for number, (old, new) in enumerate(changes):
        assert old is now, f"change {number} began with {old!r}, not with {now!r}"
        assert new is not old, f"change {number} changed nothing: {new!r}"
        now = new

    assert now is last, f"the changes led to {now!r}, not to {last!r}"
