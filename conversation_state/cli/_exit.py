"""
What a command prints and how it exits: lines, tables, colours, the pager, exit
statuses, and errors as one line on stderr.
"""

from __future__ import annotations

import io
import os
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import click

from conversation_state._wording import escape_invisible, escape_line
from conversation_state.errors import (
    ConversationStateError,
    InvalidTranscriptError,
    StaleHeadError,
)

# A check failed, or a question was answered with no.
BROKEN = 1

# Something could not be read, written, found or parsed.
FAILED = 2

# 128 plus the number of SIGPIPE, which ends most programs there.
BROKEN_PIPE = 141


class RefusedError(click.ClickException):
    """A command can't do what was asked; the message is one line."""

    exit_code = FAILED

    def show(self, file: object = None) -> None:  # noqa: ARG002 - click's
        print_error(f"Error: {self.message}")


class DeclinedError(RefusedError):
    """Nothing failed, but a question was answered with no, or nothing fits."""

    exit_code = BROKEN


# Stands for the escape character of a style of ours: nothing that a conversation brings
# holds it, since it is made when the program starts.
_STYLE = f"\0{secrets.token_hex(8)}\0"


def print_text(text: str, *, err: bool = False) -> None:
    """
    Print lines. All that a command prints goes through here, except documents in a
    file or a pipe: what a terminal would interpret is escaped, from any source.
    """
    # A style is whole, so its parts have no line ends of their own.
    parts = [escape_invisible(part) for part in text.split(_STYLE)]
    click.echo("\x1b".join(parts), err=err)


def print_line(line: str) -> None:
    print_text(_escape_parts(line))


def print_error(line: str) -> None:
    print_text(_escape_parts(line), err=True)


def print_document(text: str, *, has_line_end: bool = False) -> None:
    """Write a document, such as HTML: as it is into a file or a pipe."""
    if is_stdout_terminal():
        print_text(text)
    else:
        click.echo(text.encode(), nl=not has_line_end)


def _escape_parts(line: str) -> str:
    return _STYLE.join([escape_line(part) for part in line.split(_STYLE)])


def is_stdout_terminal() -> bool:
    return sys.stdout.isatty()


def paint(line: str, **style: Any) -> str:
    """
    *line* in the *style*, as `click.style` takes it, where stdout is a terminal
    with colours and the user has not set NO_COLOR; for `print_text` and its like.
    """
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if not line or not style or plain or not is_stdout_terminal():
        return line

    before, _, after = click.style("|", **style).partition("|")
    return "".join(
        [before.replace("\x1b", _STYLE), line, after.replace("\x1b", _STYLE)]
    )


def print_table(
    heading: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    texts: int = 1,
    **style: Any,
) -> None:
    """
    Print aligned columns: figures to the right, the last ones, *texts* of them, to the
    left, and the very last in the *style*.
    """
    widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
    for number, (*cells, last) in enumerate((heading, *rows)):
        figures = "  ".join(
            cell.rjust(width) if at <= len(cells) - texts else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(cells, widths, strict=False))
        )
        if number:
            print_line(f"{figures}  {paint(last, **style)}".rstrip())
        else:
            print_line(paint(f"{figures}  {last}", bold=True))


class _PagerInput(io.TextIOWrapper):
    """What a pager reads: shown on a terminal, so with colours."""

    def isatty(self) -> bool:
        return True


@contextmanager
def page_output(*, disabled: bool) -> Iterator[None]:
    """
    What the block prints goes through a pager, if stdout is a terminal.

    The pager is that of the environment's PAGER, or else ``less``, which shows
    what fits on one screen without paging. There is no pager if it is
    *disabled*, or by NO_PAGER, an empty PAGER or a terminal that is "dumb".
    The user may leave it before all is printed.
    """
    pager = None if disabled or not is_stdout_terminal() else _start_pager()
    if pager is None or pager.stdin is None:
        yield
        return

    terminal = sys.stdout
    pages = _PagerInput(
        pager.stdin, encoding=terminal.encoding, errors="backslashreplace"
    )
    sys.stdout = pages
    try:
        with suppress(BrokenPipeError):
            yield
    finally:
        # Closed before it is waited for: a pager goes on until its input ends.
        sys.stdout = terminal
        with suppress(BrokenPipeError):
            pages.close()

        _wait_for_pager(pager)


def _start_pager() -> subprocess.Popen[bytes] | None:
    environment = os.environ
    if environment.get("NO_PAGER") or environment.get("TERM") == "dumb":
        return None

    try:
        command = shlex.split(environment.get("PAGER", "less"))
        path = shutil.which(command[0]) if command else None
        if path is None:
            return None

        return subprocess.Popen(  # noqa: S603 - the user's own command
            [path, *command[1:]],
            stdin=subprocess.PIPE,
            # Colours, and no pager for one screen; unless the user wants others.
            env={"LESS": "FRX", **environment},
        )
    except (OSError, ValueError):  # of quotes without an end
        return None


def _wait_for_pager(pager: subprocess.Popen[bytes]) -> None:
    while True:
        try:
            pager.wait()
        except KeyboardInterrupt:
            continue

        return


@contextmanager
def exit_on_error(context: click.Context) -> Iterator[None]:
    """Turn errors of the block into the exit statuses that `main` lists."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The name of a conversation may have characters that the terminal's
        # encoding lacks.
        sys.stdout.reconfigure(errors="backslashreplace")

    try:
        yield
    except StaleHeadError as error:
        raise RefusedError(
            f"{error.name!r} is now {error.actual or 'not saved'}: another program "
            "saved it first, and nothing was written. Check it and retry"
        ) from None
    except InvalidTranscriptError as error:
        raise DeclinedError(str(error)) from None
    except ConversationStateError as error:
        raise RefusedError(str(error)) from None
    except OSError as error:
        # Errors of other files are caught where they are opened, so this is
        # stdout.
        context.exit(exit_on_output_error(error))


def exit_on_output_error(error: OSError) -> int:
    """
    The exit status of a program that can't write to stdout; says why on stderr,
    unless the reader of stdout has gone.
    """
    # Python flushes its buffer at exit, and would fail again unless the descriptor
    # points elsewhere.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE

    print_error(f"standard output: {error.strerror}")
    return FAILED


def open_closed_streams() -> None:
    """
    Open those of stdin, stdout and stderr that the program was started without
    (``>&-``), so that no file gets their descriptors.

    Stdin is empty, and what is written to stderr is dropped. On stdout every write
    fails: what a command prints must not be lost in silence.
    """
    for wanted, name, mode, flags in (
        (0, "stdin", "r", os.O_RDONLY),
        (1, "stdout", "w", os.O_RDONLY),
        (2, "stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is not None:
            continue

        descriptor = os.open(os.devnull, flags)
        if descriptor != wanted:
            os.dup2(descriptor, wanted)
            os.close(descriptor)

        stream = open(wanted, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
