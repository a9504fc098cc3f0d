"""
The entry point of the command `conversation-state`.

Checking that the extra is installed and exiting with a status are here; the
commands are in `_commands`.
"""

from __future__ import annotations

import importlib.util
import io
import sys

from conversation_state.errors import MissingExtraError

__all__ = ["main"]

# 128 plus the number of SIGINT, the convention of shells.
_INTERRUPTED = 130

_FAILED = 2


def main() -> None:
    """
    Run the command line, and exit with its status.

    0 on success, 1 if a check failed or a question was answered with no, 2 if
    something could not be read, written, found or parsed, 130 if interrupted,
    141 if the pipe that reads the output was closed.
    """
    try:
        status = _run_command()
    except KeyboardInterrupt:
        status = _INTERRUPTED

    sys.exit(status)


def _run_command() -> int:
    for name in ("click", "rich"):
        if importlib.util.find_spec(name) is None:
            sys.stderr.write(f"{MissingExtraError('the command line', 'cli')}\n")
            return _FAILED

    # Here, since it may be missing, and errors of click are known by its classes.
    import click

    from conversation_state.cli._commands import cli
    from conversation_state.cli._exit import (
        BROKEN_PIPE,
        RefusedError,
        exit_on_output_error,
        open_closed_streams,
        print_text,
    )

    open_closed_streams()
    try:
        # Standalone, click would turn an interruption into status 1.
        status = cli.main(prog_name="conversation-state", standalone_mode=False)
    except click.ClickException as error:
        if isinstance(error, RefusedError):
            error.show()
        else:
            # click prints options and arguments as they were given.
            shown = io.StringIO()
            error.show(shown)
            print_text(shown.getvalue().rstrip("\n"), err=True)

        return error.exit_code
    except click.Abort:
        return _INTERRUPTED
    except SystemExit:
        # Of click, where the pipe that would read the help was closed.
        return BROKEN_PIPE
    except OSError as error:
        # Of click, which prints the help outside of all commands.
        return exit_on_output_error(error)

    return status or 0
