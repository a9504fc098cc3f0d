"""A progress bar on stderr, while files are read and written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from time import monotonic

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from conversation_state._wording import escape_line

# The shortest interval between two redraws of the progress bar.
_REDRAW_INTERVAL_S = 0.1


class ProgressBar:
    def __init__(self, bar: Progress, total: int | None) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=total, count=0)
        self._drawn = monotonic()

    def advance(self, size: int) -> None:
        self._bar.advance(self._task, size)

    def count(self, done: int) -> None:
        self._bar.update(self._task, count=done)
        if monotonic() - self._drawn >= _REDRAW_INTERVAL_S:
            self._bar.refresh()
            self._drawn = monotonic()

    def print(self, line: str) -> None:
        self._bar.console.print(escape_line(line), soft_wrap=True)


@contextmanager
def progress(
    total: int | None, *, doing: str, as_json: bool = False
) -> Iterator[ProgressBar]:
    """
    A progress bar on stderr, removed at the end; disabled without a terminal.

    Fills by bytes where a file is read, because their total is known in advance.
    """
    # On one terminal the bar would be drawn between the lines of JSON.
    idle = (as_json and sys.stdout.isatty()) or not sys.stderr.isatty()
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    bar = Progress(
        TextColumn(doing, markup=False),
        BarColumn(),
        TaskProgressColumn(show_speed=False),
        TextColumn("{task.fields[count]:,} conversations", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        # A refresh thread would allocate memory while that of states is measured.
        auto_refresh=False,
        disable=idle,
    )
    # In rich 13 even a disabled bar prints an empty line at its end.
    with nullcontext() if idle else bar:
        yield ProgressBar(bar, total)
