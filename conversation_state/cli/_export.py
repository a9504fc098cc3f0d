"""
The command `export`: from a store to a file, in a provider's format or ours.
"""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from conversation_state.adapters import PROVIDERS
from conversation_state.cli._exit import RefusedError, is_stdout_terminal, print_error
from conversation_state.cli._options import find_state, print_json, store_command

if TYPE_CHECKING:
    # A command imports these when it runs, so that --help is quick.
    from conversation_state.adapters import Lost
    from conversation_state.aggregator import Aggregator
    from conversation_state.store import Store

__all__ = ["export"]

_OWN_FORMAT = "json"

# So many lost details of each conversation are listed; the rest is counted.
_MAX_REPORTED = 10


@store_command(has_json=False)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--format",
    "format_name",
    type=click.Choice([_OWN_FORMAT, *PROVIDERS]),
    default=_OWN_FORMAT,
    show_default=True,
    help="The format to write.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    default="-",
    help="Write to this file instead of stdout.",
)
@click.option("--id", "with_id", is_flag=True, help='Add the name as "id".')
def export(
    store: Store,
    *,
    names: tuple[str, ...],
    format_name: str,
    output: str,
    with_id: bool,
) -> None:
    """
    Write conversations in a provider's format, one on each line.

    json is this library's own format: it has the whole state, and `import`
    reads it. The others are the part of a provider's request that carries the
    conversation; what they can't represent is reported on stderr. --id adds the
    name for `import`, which reads openai_chat; providers don't accept it.

    Nothing is written if one of the names is not saved.
    """
    from conversation_state.cli._display import progress

    if with_id and format_name == _OWN_FORMAT:
        raise click.UsageError(
            "--id needs a provider's --format; json already has the id of the state"
        )

    states = [find_state(store, name) for name in names]
    written = []
    with progress(len(states), doing="Exporting") as bar:
        for done, each in enumerate(states, 1):
            data, lost = _dump_state(each.load(store), format_name)
            if with_id:
                data = json.dumps(
                    {"id": each.name, **json.loads(data)}, ensure_ascii=False
                )

            written.append(f"{data}\n")
            bar.advance(1)
            bar.count(done)
            _report_lost(each.text, format_name, lost)

    if output == "-":
        for line in written:
            # UTF-8 in files and pipes; ASCII on a terminal, so that no
            # control character reaches it.
            if is_stdout_terminal():
                print_json(json.loads(line))
            else:
                click.echo(line.encode(), nl=False)
    else:
        _replace_file(output, "".join(written))


def _dump_state(state: Aggregator, format_name: str) -> tuple[str, Sequence[Lost]]:
    from conversation_state.codec import encode

    if format_name == _OWN_FORMAT:
        return encode(state).decode(), ()

    adapter = importlib.import_module(f"conversation_state.adapters.{format_name}")
    exported = adapter.dump(state)
    return json.dumps(exported.payload, ensure_ascii=False), exported.lost


def _report_lost(text: str, format_name: str, lost: Sequence[Lost]) -> None:
    for each in lost[:_MAX_REPORTED]:
        print_error(f"{text}: lost in {format_name}: {each}")

    if len(lost) > _MAX_REPORTED:
        print_error(
            f"{text}: lost in {format_name}: {len(lost) - _MAX_REPORTED:,} more"
        )


def _replace_file(output: str, text: str) -> None:
    """
    Write the file *output* atomically: on errors an existing one is unchanged.
    """
    path = Path(output)
    try:
        is_new = not path.exists()
        if not is_new and not path.is_file():
            # A pipe or a device is written to: renaming would put a file in its place.
            path.write_text(text, encoding="utf-8", newline="\n")
            return

        # What is behind a link is replaced, and not the link.
        path = path.resolve()
        partial = path.with_name(f".{path.name}.partial")
        try:
            partial.touch()
            if not is_new:
                # Before the content: the file may be for the eyes of its owner.
                shutil.copymode(path, partial)

            partial.write_text(text, encoding="utf-8", newline="\n")
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise RefusedError(f"{output}: {error.strerror}") from None
