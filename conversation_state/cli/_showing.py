"""
Showing: what a replay found, for people and for programs.

What lives here: the table and the words around it, the JSON, and the progress
bar. What does not: where the text goes (`_commands`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
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

from conversation_state.cli._reading import Found
from conversation_state.cli.replay import Drop, Replay

__all__ = ["Row", "as_json", "counted", "in_words", "plain", "progress", "report"]

# So many conversations have their trims told in words, so many problems of
# all of them are told below the table.
_TRIMS_TOLD = 5
_PROBLEMS_TOLD = 5

# The longest name shown, in characters.
_NAME = 40

_NOTHING = "-"

# Narrower than this, in columns, the table shows less rather than fold figures.
_WIDE = 76
_IF_NARROW = ("\nMessages", "Kept\nby trim", "Dropped\nby trim")


class Row(NamedTuple):
    """
    A conversation and what came of its replay.

    Attributes:
        name: The conversation's name.

        outcome: What came of it.
    """

    name: str
    outcome: Replay


def plain(text: str) -> str:
    """
    *text* without anything a terminal could obey; such characters are escaped.
    """
    if text.isprintable():
        return text

    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


def as_json(found: Found, outcome: Replay) -> str:
    """
    One conversation on one line of JSON.
    """
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


@contextmanager
def progress(
    total: int | None, *, quiet: bool = False, doing: str = "Replaying"
) -> Iterator[Progress]:
    """
    A bar on stderr that goes away when it is done; nothing off a terminal.

    Its one task counts bytes where a file is read, for they are known before
    conversations are; how many of those there were is its field *count*. It is
    drawn when asked to be (`Progress.refresh`): a thread that draws would
    allocate memory while that of states is measured.
    """
    idle = quiet or not sys.stderr.isatty()
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
        auto_refresh=False,
        disable=idle,
    )
    bar.add_task("", total=total, count=0)
    # Even one that is disabled ends with an empty line in rich 13.
    with nullcontext() if idle else bar:
        yield bar


def report(rows: Sequence[Row], *, files: Sequence[str]) -> str:
    """
    What was done, the table, and what was found, as text for stdout.

    As wide as that, and in colour if it is a terminal that has some.
    """
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(_opening(rows, files))
        console.print()
        console.print(_table(rows, is_narrow=console.width < _WIDE))
        for text in _closing(rows):
            console.print(text)

    # Cells are filled up with spaces, which nobody needs in a file.
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _opening(rows: Sequence[Row], files: Sequence[str]) -> Text:
    origin = f"{len(files)} files"
    if len(files) == 1:
        origin = "standard input" if files[0] == "-" else plain(files[0])

    return Text(
        f"Replayed {counted(len(rows), 'conversation')} from {origin}: built message "
        "by message with every state kept, rolled back to the last user turn, "
        "forked into two branches and joined again, trimmed to "
        f"{rows[0].outcome.limit_tokens:,} tokens, written to bytes and read back."
    )


def _table(rows: Sequence[Row], *, is_narrow: bool) -> Table:
    whole = _cells(_total([row.outcome for row in rows]))
    shown = _IF_NARROW if is_narrow else tuple(whole)
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
        cells = _cells(outcome)
        broken = " (BROKEN)" if outcome.broken else ""
        table.add_row(
            Text(f"{_name(name)}{broken}"),
            *[cells[heading] for heading in shown],
            style="bold red" if broken else "",
        )

    return table


def _cells(outcome: Replay) -> dict[str, str]:
    """
    What the table says of *outcome*, by heading.
    """
    size, kept, dropped = outcome.bytes_per_state, outcome.kept, outcome.dropped
    return {
        "\nMessages": f"{outcome.messages:,}",
        "States\nkept": f"{outcome.states:,}",
        "Bytes per\nstate": _NOTHING if size is None else f"{size:,.0f}",
        "\nTokens": f"{outcome.tokens:,}",
        "Kept\nby trim": "no view" if kept is None else f"{kept:,}",
        "Dropped\nby trim": _NOTHING if dropped is None else f"{dropped:,}",
        "Time\nin ms": f"{outcome.seconds * 1_000:,.1f}",
    }


def _total(outcomes: Sequence[Replay]) -> Replay:
    """
    All outcomes as one; bytes per state are averaged over all states.
    """
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


def _closing(rows: Sequence[Row]) -> Iterator[Text]:
    yield Text()
    trimmed = [row for row in rows if row.outcome.drops]
    for name, outcome in trimmed if len(rows) <= _TRIMS_TOLD else ():
        words = ", ".join(map(in_words, outcome.drops))
        yield Text(
            f"Trimmed {_name(name)}: dropped messages {words}, kept the other "
            f"{outcome.kept:,}."
        )

    problems = [
        Text(f"{_name(name)}: {plain(what)}", style)
        for name, outcome in rows
        for what, style in (
            *((promise, "bold red") for promise in outcome.broken),
            (outcome.no_view, "yellow"),
        )
        if what
    ]
    yield from problems[:_PROBLEMS_TOLD]
    if len(problems) > _PROBLEMS_TOLD:
        yield Text(f"... and {len(problems) - _PROBLEMS_TOLD:,} more; --json tells all")

    if problems or (trimmed and len(rows) <= _TRIMS_TOLD):
        yield Text()

    yield Text(_verdict([row.outcome for row in rows]))


def in_words(drop: Drop) -> str:
    """
    Which messages were dropped, and why.
    """
    # Counted from 1, as people count; the JSON counts from 0.
    numbers = f"{drop.first + 1:,}"
    if drop.last > drop.first:
        numbers += f" to {drop.last + 1:,}"

    return f"{numbers} ({drop.reason})"


def _verdict(outcomes: Sequence[Replay]) -> str:
    """
    What holds of all conversations, in words.
    """
    broken = sum(bool(each.broken) for each in outcomes)
    if broken:
        return (
            f"{broken:,} of {counted(len(outcomes), 'conversation')} did not come "
            "through. That is a bug of conversation-state; please report it."
        )

    states = sum(each.states for each in outcomes)
    read = sum(each.states_read for each in outcomes)
    sampled = "" if read == states else f" ({read:,} of them read in full)"
    views = sum(each.kept is not None for each in outcomes)
    trimmed = "every trimmed view fits and is valid, " if views else ""
    return (
        f"Verified: all {states:,} states kept on the way{sampled} still hold what "
        "they held when they were made, every join has both branches once, joining "
        f"again gives the same object, {trimmed}and what was read back equals what "
        "was written."
    )


def _name(name: str) -> str:
    name = plain(name)
    return name if len(name) <= _NAME else f"{name[: _NAME - 3]}..."


def counted(number: int, noun: str) -> str:
    """
    So many of them, in words.
    """
    return f"{number:,} {noun}{'s'[: number != 1]}"
