"""
Ending: with which status a command ends, and what is told before.

What lives here: the statuses, and errors of the library as one line on
stderr. What does not: what Python and click themselves raise where the
program begins (`main`).
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from conversation_state.errors import (
    ConversationStateError,
    InvalidTranscriptError,
    StaleHeadError,
)

__all__ = ["BROKEN", "FAILED", "DeclinedError", "RefusedError", "ending", "told"]

# A check failed, or the answer is no.
BROKEN = 1

# Something could not be read, written, found or understood.
FAILED = 2

# 128 and the number of the signal, which most programs die of there.
_BROKEN_PIPE = 141


class RefusedError(click.ClickException):
    """
    Why a command ends without having done what was asked, in one line.
    """

    exit_code = FAILED

    def show(self, file: object = None) -> None:  # noqa: ARG002 - click's
        """
        Tell it on stderr.
        """
        told(f"Error: {self.message}")


class DeclinedError(RefusedError):
    """
    The same where nothing failed, but the answer is no.
    """

    exit_code = BROKEN


def told(line: str) -> None:
    """
    Tell a *line* on stderr, without anything a terminal could obey.
    """
    from conversation_state.cli._showing import plain

    click.echo(plain(line), err=True)


@contextmanager
def ending(context: click.Context) -> Iterator[None]:
    """
    What is done in here ends the command as `main` says, if it fails.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A conversation may be called what the terminal has no letters for.
        sys.stdout.reconfigure(errors="backslashreplace")

    try:
        yield
    except StaleHeadError as error:
        msg = (
            f"{error.name!r} is now {error.actual or 'not saved'}: somebody else was "
            "first, and nothing was written. Look at it and try again"
        )
        raise RefusedError(msg) from None
    except InvalidTranscriptError as error:
        raise DeclinedError(str(error)) from None
    except ConversationStateError as error:
        raise RefusedError(str(error)) from None
    except OSError as error:
        # What is read and written otherwise is told where it is, so it is
        # stdout that takes nothing more. What is still buffered for it has to
        # go somewhere when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            context.exit(_BROKEN_PIPE)

        click.echo(f"standard output: {error.strerror}", err=True)
        context.exit(FAILED)
