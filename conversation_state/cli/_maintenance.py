"""
Commands that verify a store, collect garbage, erase and delete.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs
import click

from conversation_state._wording import format_count, shorten_repr, shorten_text
from conversation_state.cli._exit import (
    BROKEN,
    RefusedError,
    escape_controls,
    print_line,
)
from conversation_state.cli._options import (
    SavedState,
    confirm,
    find_state,
    print_json,
    store_command,
)

if TYPE_CHECKING:
    # A command imports these when it runs, so that --help is quick.
    from conversation_state.aggregator import Entry
    from conversation_state.store import Receipt, Store

__all__ = ["delete", "erase", "gc", "verify"]

_MAX_QUOTED = 60

_yes_option = click.option("--yes", is_flag=True, help="Don't ask for confirmation.")


@contextmanager
def _show_status(doing: str) -> Iterator[None]:
    if not sys.stderr.isatty():
        yield
        return

    from rich.console import Console

    # On stderr: stdout may be a file of JSON.
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with console.status(doing):
        yield


@store_command()
def verify(store: Store, *, as_json: bool) -> int:
    """
    Check that everything is as it was saved.

    Computes every digest again. Each mismatch is reported, with the identity of
    the entry, and the exit status is 1.
    """
    with _show_status("Verifying"):
        damages = store.verify()

    for damage in damages:
        if as_json:
            print_json(attrs.asdict(damage))
        else:
            print_line(str(damage))

    if not as_json and damages:
        click.echo(f"{format_count(len(damages), 'damage')} found.")
    elif not as_json:
        names = format_count(len(store.names()), "name")
        click.echo(f"Verified: everything under {names} is as it was saved.")

    return BROKEN if damages else 0


@store_command()
def gc(store: Store, *, as_json: bool) -> None:
    """
    Collect garbage: delete what no revision of any name needs.
    """
    with _show_status("Collecting"):
        garbage = store.collect_garbage()

    if as_json:
        print_json(attrs.asdict(garbage))
    else:
        ledger = format_count(garbage.ledger_entries, "ledger entry", "ledger entries")
        click.echo(
            f"Collected {format_count(garbage.entries, 'message')}, {ledger}, "
            f"{format_count(garbage.blobs, 'blob')}: "
            f"{format_count(garbage.size, 'byte')}."
        )
        if garbage.remains:
            click.echo(f"{garbage.remains[0].upper()}{garbage.remains[1:]}")


@store_command()
@click.argument("name")
@click.argument("which", metavar="NUMBER|ENTRY_ID")
@click.option("--reason", required=True, help="The reason, which is stored.")
@_yes_option
def erase(
    store: Store, *, name: str, which: str, reason: str, yes: bool, as_json: bool
) -> None:
    """
    Erase the content of a message, in every state that has it.

    NUMBER is the number of the message in NAME, from 1, as `show --number`
    prints it; ENTRY_ID is the entry_id that `show --json` prints. Labels,
    revisions and forks stay, and so do the role and the time of the message.
    This can't be undone. The receipt has a digest of the content, which proves
    to those who know the content that it was this message.
    """
    state = find_state(store, name)
    number, entry = _find_entry(store, state, which)
    confirm(_format_question(number, entry, state), yes=yes)
    try:
        receipt = store.erase(entry.id, reason=reason)
    except ValueError as error:
        raise RefusedError(str(error)) from None

    if as_json:
        at = receipt.erased_at.isoformat(timespec="milliseconds")
        print_json({**attrs.asdict(receipt), "erased_at": at})
    else:
        for line in _describe_receipt(receipt):
            click.echo(line)


def _find_entry(store: Store, state: SavedState, which: str) -> tuple[int, Entry]:
    entries = state.load(store).entries
    if which.isascii() and which.isdigit():
        number = int(which[:20])
        if not 0 < number <= len(entries):
            raise RefusedError(
                f"no message {which:.20}: {state.text!r} has messages 1 to "
                f"{len(entries):,}"
            )

        return number, entries[number - 1]

    for number, entry in enumerate(entries, 1):
        if entry.id == which:
            return number, entry

    raise RefusedError(
        f"{state.text!r} has no entry {shorten_repr(which)}; `show --json` prints "
        "their ids"
    )


def _format_question(number: int, entry: Entry, state: SavedState) -> str:
    message = entry.message
    text = shorten_text(" ".join(message.text.split()), _MAX_QUOTED)
    return (
        f"Erase message {number} of {state.text} ({message.role}: {text}) in every "
        "state that has it? This can't be undone."
    )


def _describe_receipt(receipt: Receipt) -> Iterator[str]:
    places = format_count(receipt.rows, "place")
    yield f"Erased in {places}." if receipt.rows else "This was erased before."
    yield f"  entry    {escape_controls(receipt.entry_id)}"
    yield f"  reason   {escape_controls(receipt.reason)}"
    yield f"  content  {receipt.content} (digest of the content)"
    yield f"  erased   {receipt.erased_at:%Y-%m-%d %H:%M:%S} UTC"
    if receipt.blobs:
        yield f"  with it  {format_count(receipt.blobs, 'blob')}"

    if receipt.remains:
        yield f"  remains  {receipt.remains}"


@store_command()
@click.argument("name")
@_yes_option
def delete(store: Store, *, name: str, yes: bool, as_json: bool) -> None:
    """
    Delete NAME and all its revisions.

    Forks keep what they share with it. Rows that nothing needs stay in the
    store until `gc`.
    """
    which = find_state(store, name)
    if which.at is not None:
        raise RefusedError(f"expected a NAME without a revision: delete {which.name}")

    head = which.head
    revisions = format_count(head.revision, "revision")
    confirm(f"Delete {head.name}, with its {revisions}?", yes=yes)
    store.delete(head.name)
    if as_json:
        print_json({"name": head.name, "revisions": head.revision})
    else:
        print_line(f"Deleted {head.name}, which had {revisions}.")
