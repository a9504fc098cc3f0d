"""Large packages that one file of tests needs, imported when they are used."""

from importlib import import_module
from importlib.util import find_spec

import pytest

__all__ = ["Later"]


class Later:
    """
    A module that is imported when it is first used.

    Each process of the runner imports every file of tests; a client of a provider
    takes longer than all tests of most files.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        # The runner asks whatever a file has for such names, to find its tests.
        if name.startswith(("_", "pytest")):
            raise AttributeError(name)

        return getattr(import_module(self._name), name)

    @classmethod
    def or_skip(cls, name: str, reason: str) -> "Later":
        """The module *name*; where it is not installed, the file is skipped."""
        if find_spec(name) is None:
            pytest.skip(reason, allow_module_level=True)

        return cls(name)
