"""
Exporting: from a store into a file, in some provider's words or in ours.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from conversation_state.cli._ending import RefusedError, told
from conversation_state.cli._storing import as_json as in_json
from conversation_state.cli._storing import asked, is_seen, opened, store_option

if TYPE_CHECKING:
    # What a command imports when it runs, so that the help of all is quick.
    from conversation_state.adapters import Lost
    from conversation_state.aggregator import Aggregator

__all__ = ["export"]

_OURS = "json"
_PROVIDERS = (
    "openai_chat",
    "openai_responses",
    "anthropic",
    "gemini",
    "eino",
    "bubo",
)

# How much of what is lost is told one by one, of each conversation.
_TOLD = 10


def _formats() -> list[str]:
    """
    Ours, and those there is an adapter for; none is imported for that.
    """
    adapters = "conversation_state.adapters"
    there = [
        name for name in _PROVIDERS if importlib.util.find_spec(f"{adapters}.{name}")
    ]
    return [_OURS, *there]


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@store_option
@click.option(
    "--format",
    "form",
    type=click.Choice(_formats()),
    default=_OURS,
    show_default=True,
    help="In whose words.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    default="-",
    help="Write here, and not to stdout.",
)
@click.option("--id", "with_id", is_flag=True, help='Add the name as "id".')
@click.pass_context
def export(
    context: click.Context,
    *,
    names: tuple[str, ...],
    url: str,
    form: str,
    output: str,
    with_id: bool,
) -> None:
    """
    Write conversations in a provider's format, one on each line.

    json is our own: it has all of the state, and `import` takes it back. The
    others are the part of a provider's request that carries the conversation;
    what they can't say is told on stderr. --id adds the name to them, for
    `import`; providers want none.

    Nothing is written if one of them is not there.
    """
    from conversation_state.cli._showing import progress

    if with_id and form == _OURS:
        msg = "--id goes with a provider's format; a state has an id of its own"
        raise click.UsageError(msg)

    with opened(context, url) as store:
        which = [asked(store, name) for name in names]
        written = []
        with progress(len(which), doing="Exporting") as bar:
            (task,) = bar.task_ids
            for done, each in enumerate(which, 1):
                data, lost = _written(each.load(store), form)
                if with_id:
                    data = _with_id(data, each.name)

                written.append(f"{data}\n")
                bar.update(task, completed=done, count=done, refresh=True)
                _tell(each.text, form, lost)

        if output == "-":
            for line in written:
                # UTF-8 wherever it goes, and nothing that a terminal obeys.
                data = in_json(json.loads(line)) + "\n" if is_seen() else line
                click.echo(data.encode(), nl=False)
        else:
            _write(output, "".join(written))


def _written(state: Aggregator, form: str) -> tuple[str, Sequence[Lost]]:
    from conversation_state.codec import encode

    if form == _OURS:
        return encode(state).decode(), ()

    adapter = importlib.import_module(f"conversation_state.adapters.{form}")
    exported = adapter.dump(state)
    return json.dumps(exported.payload, ensure_ascii=False), exported.lost


def _with_id(data: str, name: str) -> str:
    return json.dumps({"id": name, **json.loads(data)}, ensure_ascii=False)


def _tell(text: str, form: str, lost: Sequence[Lost]) -> None:
    for each in lost[:_TOLD]:
        told(f"{text}: lost in {form}: {each}")

    if len(lost) > _TOLD:
        told(f"{text}: lost in {form}: {len(lost) - _TOLD:,} more")


def _write(output: str, text: str) -> None:
    """
    Write a file as a whole, or leave the one that is there as it is.
    """
    path = Path(output)
    partial = path.with_name(f".{path.name}.partial")
    try:
        try:
            partial.write_text(text, encoding="utf-8", newline="\n")
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        msg = f"{output}: {error.strerror}"
        raise RefusedError(msg) from None
