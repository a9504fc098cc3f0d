"""
`import conversation_state`, beside `import pyrsistent, attrs`.

At most 1.33 times what the two dependencies take, in CPU time: most of it is what
attrs itself takes, and its classes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.measure import Row

_TIMED = "import time; s = time.process_time(); {}; print(time.process_time() - s)"


def _import_ms(statement: str) -> float:
    # Everybody's second import reads compiled files; so does this one.
    env = {**os.environ}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", _TIMED.format(statement)]
    run = subprocess.run(command, capture_output=True, check=True, text=True, env=env)
    return float(run.stdout) * 1e3


def rows() -> Iterator[Row]:
    """The shortest of thirty imports, each in a process of its own, in turn."""
    statements = ("import conversation_state", "import pyrsistent, attrs")
    ours, theirs = zip(*[map(_import_ms, statements) for _ in range(30)], strict=True)
    yield Row("import", 1, min(ours), "pyrsistent and attrs", min(theirs), "ms")
