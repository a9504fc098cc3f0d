"""
The command `convert`: a session of one coding agent as the file of another.

The formats and what gets lost are in `adapters.sessions`; stores are not needed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from conversation_state._wording import format_count
from conversation_state.cli._exit import RefusedError, exit_on_error, print_error
from conversation_state.cli._sources import describe_file_error
from conversation_state.cli._transfer import print_lost, print_payload

if TYPE_CHECKING:
    # A command imports these when it runs, so that --help is quick.
    from conversation_state.adapters import Lost
    from conversation_state.adapters.sessions import LoadedSession


class _NameChoice(click.Choice[str]):
    """Names of formats, which are imported when they are asked for."""

    def __init__(self, *, is_read: bool) -> None:
        self.case_sensitive = True
        self.is_read = is_read

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those that are read; or those that are written, and those of providers."""
        from conversation_state.adapters import PROVIDERS, sessions

        if self.is_read:
            return tuple(sessions.FORMATS)

        return (*sessions.WRITTEN, *PROVIDERS)


@click.command()
@click.argument("session", metavar="SESSION")
@click.option(
    "--to",
    "target",
    metavar="FORMAT",
    type=_NameChoice(is_read=False),
    required=True,
    help="The format to write: claude_code, codex, codex_items, opencode, pi, sts, or "
    "a provider's, such as openai_chat; an unknown one is answered with all.",
)
@click.option(
    "--format",
    "source",
    metavar="FORMAT",
    type=_NameChoice(is_read=True),
    help="The format of SESSION; by default it is recognised.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    default="-",
    help="Write to this file instead of stdout.",
)
@click.option(
    "--cwd",
    metavar="FOLDER",
    default="",
    help="The folder that the agent is to go on in; by default the session's.",
)
@click.option("--title", default="", help="The title; by default the session's.")
@click.pass_context
def convert(
    context: click.Context,
    session: str,
    *,
    target: str,
    source: str | None,
    output: str,
    cwd: str,
    title: str,
) -> None:
    """
    Write a session of a coding agent as the file of another.

    SESSION is a file of Claude Code, Codex, OpenCode (export), Gemini CLI or Pi,
    or in the Session Trace Simple Format; the folder of a session of Claude Code;
    or "-", standard input. Sub-agents in the folder beside a file are found.

    codex is a rollout, codex_items what Codex's thread/inject_items takes,
    opencode the document for opencode import. A provider's format is the live
    branch as its model gets it, without what a compaction replaced.

    What the format can't represent, and what was wrong in SESSION, is reported on
    stderr.
    """
    with exit_on_error(context):
        loaded = _read_session(session, source)
        for problem in loaded.problems:
            print_error(f"{session}: {problem}")

        payload, lost = _write_session(loaded, target, cwd, title)
        print_lost(session, target, lost)
        print_payload(payload, output)


def _read_session(session: str, source: str | None) -> LoadedSession:
    from conversation_state.adapters.sessions import load_session, read_session
    from conversation_state.errors import DecodeError

    try:
        if session == "-":
            return load_session(sys.stdin.buffer.read(), format=source)

        return read_session(session, format=source)
    except DecodeError as error:
        first, *others = error.problems
        more = f" ({format_count(len(others), 'more problem')})" if others else ""
        raise RefusedError(f"{session}: {first.what}{more}") from None
    except OSError as error:
        reason = describe_file_error(session, error)
        raise RefusedError(f"{session}: {reason}") from None


def _write_session(
    loaded: LoadedSession, target: str, cwd: str, title: str
) -> tuple[Any, Sequence[Lost]]:
    from conversation_state.adapters import sessions

    if target in sessions.WRITTEN:
        made = sessions.dump_session(loaded, target, cwd=cwd, title=title)  # type: ignore[arg-type]  # one of these
    else:
        adapter = importlib.import_module(f"conversation_state.adapters.{target}")
        made = adapter.dump(loaded.model_messages)

    return made.payload, made.lost
