"""
For the tests of whoever uses this library: strategies and laws.
"""

from __future__ import annotations

__all__ = ["register"]


def register() -> None:
    """
    Tell Hypothesis how to make values of this library.

    Called by Hypothesis itself, through its entry point.
    """
