"""
The commands, as click sees them.

What lives here: arguments and options, what goes to stdout and what to stderr,
and with which status a command ends. What does not: what a replay does
(`replay`), where conversations come from (`_reading`) and what they look like
(`_showing`).
"""

from __future__ import annotations

import importlib.metadata
import io
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic

import click

__all__ = ["cli"]

_BROKEN = 1
_FAILED = 2

# 128 and the number of the signal, which most programs die of there.
_BROKEN_PIPE = 141

_MEBIBYTE = 1 << 20

# How often the progress bar is drawn, at most.
_DRAWN_EVERY_S = 0.1


def _show_version(
    context: click.Context, _parameter: click.Parameter, asked: bool
) -> None:
    if not asked or context.resilient_parsing:
        return

    try:
        version = importlib.metadata.version("conversation-state")
    except importlib.metadata.PackageNotFoundError:
        version = "(a checkout that is not installed)"

    click.echo(f"conversation-state {version}")
    context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """
    Conversations with language models, as values.
    """


@cli.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--window",
    metavar="TOKENS",
    type=click.IntRange(min=1),
    default=8_000,
    show_default=True,
    help="The context window to trim for.",
)
@click.option(
    "--max-output",
    metavar="TOKENS",
    type=click.IntRange(min=0),
    default=1_000,
    show_default=True,
    help="What of the window is kept free for the answer.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON object for each conversation."
)
@click.option(
    "--max-line",
    metavar="MIB",
    type=click.IntRange(min=1),
    default=16,
    show_default=True,
    help="Skip lines that are longer, in MiB.",
)
@click.pass_context
def replay(
    context: click.Context,
    files: tuple[str, ...],
    *,
    window: int,
    max_output: int,
    as_json: bool,
    max_line: int,
) -> None:
    """
    Lead conversations through the life of a state, and check it.

    Each line of a FILE holds one conversation in OpenAI's chat format: an
    object with "messages" and maybe an "id", or a list of messages; or in
    ShareGPT's: an object with "conversations". Lines of one message each are
    one conversation, up to a blank line. "-" is standard input.

    A conversation is built message by message, and every state is kept. It is
    rolled back to the last user turn, forked into two branches there, and
    joined again; trimmed to what --max-output leaves of --window, tokens being
    estimated as characters by four; written to bytes and read back. In the end
    every kept state is compared with what it held when it was made.

    Bytes per state is what keeping a state takes in memory beyond its
    messages, counted by tracemalloc in a second, untimed run. Time is that of
    the first run, without reading the file and without the checks. "no view"
    means that nothing valid fits into the budget.

    The status is 0 if all is well, 1 if a check failed, and 2 if something
    could not be read. That is told on stderr, and the rest is replayed.
    """
    if max_output >= window:
        msg = (
            f"--max-output {max_output} leaves nothing of --window {window}; "
            "raise the one or lower the other."
        )
        raise click.UsageError(msg)

    try:
        context.exit(_replayed(files, window, max_output, as_json, max_line))
    except OSError as error:
        # Reading is told file by file, so it is stdout that takes nothing more.
        # What is still buffered for it has to go somewhere when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            context.exit(_BROKEN_PIPE)

        click.echo(f"standard output: {error.strerror}", err=True)
        context.exit(_FAILED)


def _replayed(
    files: tuple[str, ...], window: int, max_output: int, as_json: bool, max_line: int
) -> int:
    from conversation_state.cli import _reading, _showing
    from conversation_state.cli.replay import replay
    from conversation_state.counting import TokenBudget

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A conversation may be called what the terminal has no letters for.
        sys.stdout.reconfigure(errors="backslashreplace")

    budget = TokenBudget(context_window=window, max_output_tokens=max_output)
    rows: list[_showing.Row] = []
    done = broken = unreadable = 0
    drawn = monotonic()
    quiet = as_json and sys.stdout.isatty()
    with _showing.progress(_total_bytes(files), quiet=quiet) as bar:
        (task,) = bar.task_ids
        for item in _reading.read(
            files,
            limit=max_line * _MEBIBYTE,
            advance=lambda size: bar.advance(task, size),
        ):
            if isinstance(item, _reading.Unreadable):
                unreadable += 1
                bar.console.print(_showing.plain(str(item)), soft_wrap=True)
                continue

            outcome = replay(item.messages, budget)
            done += 1
            broken += bool(outcome.broken)
            bar.update(task, count=done)
            if monotonic() - drawn >= _DRAWN_EVERY_S:
                bar.refresh()
                drawn = monotonic()

            if as_json:
                click.echo(_showing.as_json(item, outcome))
            else:
                rows.append(_showing.Row(item.name, outcome))

    if rows:
        click.echo(_showing.report(rows, files=files))

    if broken:
        return _BROKEN

    return _FAILED if unreadable else 0


def _total_bytes(files: tuple[str, ...]) -> int | None:
    """
    How much there is to read; None if not all of it is in plain files.
    """
    total = 0
    for file in files:
        if file == "-":
            return None

        with suppress(OSError):  # told when it is read
            status = Path(file).stat()
            if not stat.S_ISREG(status.st_mode):
                return None

            total += status.st_size

    return total
