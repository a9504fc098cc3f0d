"""Other processes, and what work costs in this one."""

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "count_calls", "count_lines", "run_script"]

ROOT = Path(__file__).resolve().parent.parent


def run_script(script: str, *args: str, **environment: str) -> str:
    """What a process prints that runs *script*, in *environment* if there is one."""
    return subprocess.run(
        [sys.executable, "-c", script, *args],
        capture_output=True,
        check=True,
        cwd=ROOT,
        env=environment or None,
        text=True,
    ).stdout


def count_calls(run: Callable[[], object]) -> int:
    """
    How many functions are called in a *run*, Python's own included, and without what
    the collector would call: what it costs, but for noise.
    """
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    gc.disable()
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(before)
        gc.enable()

    return calls


def count_lines(run: Callable[[], object]) -> int:
    """
    How many lines of Python a *run* executes, rounds of loops that call nothing
    included.
    """
    lines = 0

    def count(_frame: object, event: str, _arg: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        run()
    finally:
        sys.settrace(before)

    return lines
