"""
`import conversation_state`, beside `import pyrsistent, attrs`.

At most 60 ms where the two dependencies take 45: a third on top.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.measure import Row

_TIMED = "import time; s = time.perf_counter(); {}; print(time.perf_counter() - s)"


def _import_ms(statement: str) -> float:
    # Everybody's second import reads compiled files; so does this one.
    env = {**os.environ}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", _TIMED.format(statement)]
    times = [
        float(
            subprocess.run(
                command, capture_output=True, check=True, text=True, env=env
            ).stdout
        )
        for _ in range(15)
    ]
    return min(times) * 1e3


def rows() -> Iterator[Row]:
    """
    The shortest of fifteen imports, each in a process of its own.
    """
    ours = _import_ms("import conversation_state")
    theirs = _import_ms("import pyrsistent, attrs")
    yield Row("import", 1, ours, "pyrsistent and attrs", theirs, "ms")
