"""
The commands, as click sees them.

What lives here: the group and the order its help has, and the command that
replays. What does not: the commands on a store (`_import`, `_looking`,
`_moving`, `_export`, `_tending`), what a replay does (`replay`), where
conversations come from (`_reading`), what they look like (`_showing`) and how
a command ends (`_ending`).
"""

from __future__ import annotations

import importlib.metadata
import sys
from time import monotonic

import click

from conversation_state.cli._ending import BROKEN, FAILED, ending
from conversation_state.cli._export import export
from conversation_state.cli._import import import_
from conversation_state.cli._looking import diff, log, names, show, trim
from conversation_state.cli._moving import checkpoint, fork, rollback
from conversation_state.cli._tending import delete, erase, gc, verify

__all__ = ["cli"]

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


# In the order of use.
_SECTIONS = {
    "Files": ("replay", "import", "export"),
    "Look": ("names", "log", "show", "diff", "trim"),
    "Move": ("checkpoint", "fork", "rollback"),
    "Tend": ("verify", "gc", "erase", "delete"),
}


class _InSections(click.Group):
    """
    A group whose help has its commands in sections.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return [name for section in _SECTIONS.values() for name in section]

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        widest = max(map(len, self.list_commands(ctx)))
        room = formatter.width - widest - 6
        for title, section in _SECTIONS.items():
            rows = [
                (f"{name:{widest}}", self.commands[name].get_short_help_str(room))
                for name in section
            ]
            with formatter.section(title):
                formatter.write_dl(rows)


@click.group(cls=_InSections, context_settings={"help_option_names": ["-h", "--help"]})
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

    A store is a file of conversations, each under a name, every state they
    were ever in restorable. --store or CONVERSATION_STATE_STORE says where it
    is: sqlite:///talks.db. NAME@3 is revision 3 of NAME, NAME@-1 the one before
    the newest, NAME@LABEL the one with that label, NAME the newest.

    The status is 0 if all is well; 1 if a check failed or the answer is no; 2
    if something could not be read, written, found or understood; 130 if it was
    interrupted; 141 if nobody reads what is printed.
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
    ShareGPT's: an object with "conversations"; or a state that `export` wrote.
    Lines of one message each are one conversation, up to a blank line. "-" is
    standard input.

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

    with ending(context):
        context.exit(_replayed(files, window, max_output, as_json, max_line))


def _replayed(
    files: tuple[str, ...], window: int, max_output: int, as_json: bool, max_line: int
) -> int:
    from conversation_state.cli import _reading, _showing
    from conversation_state.cli.replay import replay
    from conversation_state.counting import TokenBudget

    budget = TokenBudget(context_window=window, max_output_tokens=max_output)
    rows: list[_showing.Row] = []
    done = broken = unreadable = 0
    drawn = monotonic()
    quiet = as_json and sys.stdout.isatty()
    with _showing.progress(_reading.total_bytes(files), quiet=quiet) as bar:
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
        return BROKEN

    return FAILED if unreadable else 0


for _command in (
    *(import_, export),
    *(names, log, show, diff, trim),
    *(checkpoint, fork, rollback),
    *(verify, gc, erase, delete),
):
    cli.add_command(_command)
