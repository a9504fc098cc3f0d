"""
Waiting for a thread, and for it to end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

__all__ = ["in_thread"]

T = TypeVar("T")


async def in_thread(function: Callable[[], T]) -> T:
    """
    What *function* gives in a worker thread. Once begun it is waited for, also
    where the run that waits for it is cancelled: what it writes is there then.
    """
    given = asyncio.get_running_loop().run_in_executor(None, function)
    cancelled: asyncio.CancelledError | None = None
    while not given.done():
        try:
            await asyncio.wait([given])
        except asyncio.CancelledError as error:
            cancelled = error

    if cancelled is not None:
        raise cancelled from given.exception()

    return given.result()
