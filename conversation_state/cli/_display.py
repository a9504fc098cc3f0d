"""
Formats the results of a replay: the table and its summary, JSON, progress bar.

Writing the text is in `_commands`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from time import monotonic
from typing import NamedTuple

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from conversation_state._wording import escape_line, format_count, shorten_text
from conversation_state.cli._input import InputConversation
from conversation_state.cli.replay import Drop, Replay

# Below the table: the drops of each conversation, if there are no more than this,
# and at most so many problems of all of them.
_MAX_TRIMS_SHOWN = 5
_MAX_PROBLEMS_SHOWN = 5

# The longest name that is printed, in characters.
_MAX_NAME_LENGTH = 40

_NO_VALUE = "-"

# The shortest interval between two redraws of the progress bar.
_REDRAW_INTERVAL_S = 0.1

# On narrower terminals, in columns, the table omits columns: rich would wrap the
# figures.
_WIDE_COLUMNS = 76
_NARROW_HEADINGS = ("\nMessages", "Kept\nby trim", "Dropped\nby trim")


class ReplayRow(NamedTuple):
    name: str  # the conversation's name
    outcome: Replay  # the result of its replay


def replay_json(found: InputConversation, outcome: Replay) -> str:
    return json.dumps(
        {
            "conversation": found.name,
            "file": found.file,
            "line": found.line,
            "ok": not outcome.broken,
            "broken": outcome.broken,
            "messages": outcome.messages,
            "states": outcome.states,
            "states_read": outcome.states_read,
            "bytes_per_state": outcome.bytes_per_state,
            "tokens": outcome.tokens,
            "limit_tokens": outcome.limit_tokens,
            "kept": outcome.kept,
            "dropped": outcome.dropped,
            "drops": [drop._asdict() for drop in outcome.drops],
            "no_view": outcome.no_view or None,
            "encoded_bytes": outcome.encoded_bytes,
            "seconds": round(outcome.seconds, 6),
        }
    )


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


def render_report(rows: Sequence[ReplayRow], *, files: Sequence[str]) -> str:
    """
    The report of a replay as text: what was done, the table, the results.

    As wide as stdout, and in colour if that is a terminal with colours.
    """
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(_describe_run(rows, files))
        console.print()
        console.print(_build_table(rows, is_narrow=console.width < _WIDE_COLUMNS))
        for text in _describe_results(rows):
            console.print(text)

    # rich pads cells with spaces; in a file they would be trailing ones.
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _describe_run(rows: Sequence[ReplayRow], files: Sequence[str]) -> Text:
    origin = f"{len(files)} files"
    if len(files) == 1:
        origin = "standard input" if files[0] == "-" else escape_line(files[0])

    return Text(
        f"Replayed {format_count(len(rows), 'conversation')} from {origin}: built "
        "message by message with every state kept, rolled back to the last user turn, "
        "forked into two branches and joined again, trimmed to "
        f"{rows[0].outcome.limit_tokens:,} tokens, written to bytes and read back."
    )


def _build_table(rows: Sequence[ReplayRow], *, is_narrow: bool) -> Table:
    whole = _format_cells(_sum_replays([row.outcome for row in rows]))
    shown = _NARROW_HEADINGS if is_narrow else tuple(whole)
    table = Table(
        box=SIMPLE,
        footer_style="bold",
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_edge=False,
        show_footer=len(rows) > 1,
    )
    table.add_column("\nConversation", "Total", overflow="fold")
    for heading in shown:
        table.add_column(heading, whole[heading], justify="right", no_wrap=True)

    for name, outcome in rows:
        cells = _format_cells(outcome)
        broken = " (BROKEN)" if outcome.broken else ""
        table.add_row(
            Text(f"{_shorten_name(name)}{broken}"),
            *[cells[heading] for heading in shown],
            style="bold red" if broken else "",
        )

    return table


def _format_cells(outcome: Replay) -> dict[str, str]:
    size, kept, dropped = outcome.bytes_per_state, outcome.kept, outcome.dropped
    return {
        "\nMessages": f"{outcome.messages:,}",
        "States\nkept": f"{outcome.states:,}",
        "Bytes per\nstate": _NO_VALUE if size is None else f"{size:,.0f}",
        "\nTokens": f"{outcome.tokens:,}",
        "Kept\nby trim": "no view" if kept is None else f"{kept:,}",
        "Dropped\nby trim": _NO_VALUE if dropped is None else f"{dropped:,}",
        "Time\nin ms": f"{outcome.seconds * 1_000:,.1f}",
    }


def _sum_replays(outcomes: Sequence[Replay]) -> Replay:
    # Where no view fits, nothing was kept or dropped, which is not 0.
    shown = [each for each in outcomes if each.kept is not None]
    messages = sum(each.messages for each in outcomes)
    weight = sum((each.bytes_per_state or 0) * each.messages for each in outcomes)
    return Replay(
        messages=messages,
        states=sum(each.states for each in outcomes),
        states_read=sum(each.states_read for each in outcomes),
        bytes_per_state=weight / messages if messages else None,
        tokens=sum(each.tokens for each in outcomes),
        limit_tokens=outcomes[0].limit_tokens,
        kept=sum(each.kept or 0 for each in shown) if shown else None,
        dropped=sum(each.dropped or 0 for each in shown) if shown else None,
        drops=(),
        no_view="",
        encoded_bytes=sum(each.encoded_bytes for each in outcomes),
        seconds=sum(each.seconds for each in outcomes),
        broken=(),
    )


def _describe_results(rows: Sequence[ReplayRow]) -> Iterator[Text]:
    yield Text()
    trimmed = [row for row in rows if row.outcome.drops]
    for name, outcome in trimmed if len(rows) <= _MAX_TRIMS_SHOWN else ():
        words = ", ".join(map(describe_drop, outcome.drops))
        yield Text(
            f"Trimmed {_shorten_name(name)}: dropped messages {words}, kept the other "
            f"{outcome.kept:,}."
        )

    problems = [
        Text(f"{_shorten_name(name)}: {escape_line(what)}", style)
        for name, outcome in rows
        for what, style in (
            *((promise, "bold red") for promise in outcome.broken),
            (outcome.no_view, "yellow"),
        )
        if what
    ]
    yield from problems[:_MAX_PROBLEMS_SHOWN]
    if len(problems) > _MAX_PROBLEMS_SHOWN:
        yield Text(
            f"... and {len(problems) - _MAX_PROBLEMS_SHOWN:,} more; --json prints all"
        )

    if problems or (trimmed and len(rows) <= _MAX_TRIMS_SHOWN):
        yield Text()

    yield Text(_summarise_results([row.outcome for row in rows]))


def describe_drop(drop: Drop) -> str:
    # From 1, like `show --number`; the JSON of a replay counts from 0.
    numbers = f"{drop.first + 1:,}"
    if drop.last > drop.first:
        numbers += f" to {drop.last + 1:,}"

    return f"{numbers} ({drop.reason})"


def _summarise_results(outcomes: Sequence[Replay]) -> str:
    broken = sum(bool(each.broken) for each in outcomes)
    if broken:
        return (
            f"{broken:,} of {format_count(len(outcomes), 'conversation')} failed a "
            "check. This is a bug of conversation-state; please report it."
        )

    states = sum(each.states for each in outcomes)
    read = sum(each.states_read for each in outcomes)
    sampled = "" if read == states else f" ({read:,} of them read in full)"
    views = sum(each.kept is not None for each in outcomes)
    trimmed = "every trimmed view fits and is valid, " if views else ""
    return (
        f"Verified: all {states:,} kept states{sampled} are unchanged, "
        "every join has the entries of both branches once, joining again returns the "
        f"same object, {trimmed}and the decoded state equals the encoded one."
    )


def _shorten_name(name: str) -> str:
    return shorten_text(escape_line(name), _MAX_NAME_LENGTH)
