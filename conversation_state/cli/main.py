"""
The entry point of the command `conversation-state`.

What lives here: finding out whether the command line can run at all, and what
a shell is told when it ends. What does not: the commands (`_commands`).
"""

from __future__ import annotations

import importlib.util
import sys

from conversation_state.errors import MissingExtraError

__all__ = ["main"]

# 128 and the number of the signal, as shells have it.
_INTERRUPTED = 130

_FAILED = 2


def main() -> None:
    """
    Run the command line, and leave the process with its status.

    0 if all is well, 1 if a check failed or the answer is no, 2 if something
    could not be read, written, found or understood, 130 if it was interrupted,
    141 if nobody reads what it prints.
    """
    try:
        status = _run()
    except KeyboardInterrupt:
        status = _INTERRUPTED

    sys.exit(status)


def _run() -> int:
    for name in ("click", "rich"):
        if importlib.util.find_spec(name) is None:
            sys.stderr.write(f"{MissingExtraError('the command line', 'cli')}\n")
            return _FAILED

    import click

    from conversation_state.cli._commands import cli

    try:
        # Standalone, click would turn an interruption into status 1.
        status = cli.main(prog_name="conversation-state", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return _INTERRUPTED

    return status or 0
