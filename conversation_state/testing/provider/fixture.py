"""
The pytest fixture of the strict provider.

Imports the provider when a test asks for it, and not before. Where this library's
plugin is not loaded, import it: ``from conversation_state.testing.provider.fixture
import strict_provider``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conversation_state.testing.provider._server import StrictProvider

__all__ = ["strict_provider"]


@pytest.fixture
def strict_provider() -> Iterator[StrictProvider]:
    """
    A running `StrictProvider` without a script; `StrictProvider.add` gives it answers.
    """
    from conversation_state.testing.provider._server import (  # noqa: PLC0415
        StrictProvider,
    )

    with StrictProvider() as provider:
        yield provider
