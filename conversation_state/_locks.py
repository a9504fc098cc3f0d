"""
The lock that `with` takes and gives back, whatever interrupts it.

On Python 3.14, and on no other, a signal may come after `with` has called
``lock.__enter__`` and before its block has begun: the lock stays held, of three in five
loops that Ctrl-C ends within a lock. 3.15 looks for signals elsewhere again.

Source: python/cpython#148874.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

__all__ = ["RLock"]

if TYPE_CHECKING or sys.version_info[:2] != (3, 14):
    from threading import RLock

else:
    import _thread

    class RLock(_thread.RLock):
        """`threading.RLock`, given back when an interrupt comes as it is taken."""

        __slots__ = ()

        def __enter__(self) -> bool:
            # From the return of a Python function to the block no signal is looked for.
            try:
                return self.acquire()
            except BaseException:
                if self._is_owned():
                    self.release()

                raise
