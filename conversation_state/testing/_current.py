"""Which law is being checked: for what is reported beside its result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# The laws that are being checked.
_names: list[str] = []


@contextmanager
def checking(name: str) -> Iterator[None]:
    """
    While the block runs, the law *name* is checked; "" for nothing worth reporting.
    """
    _names.append(name)
    try:
        yield
    finally:
        _names.pop()


def name_checked() -> str:
    """The name of the law that is being checked; "" if none is."""
    return _names[-1] if _names else ""
