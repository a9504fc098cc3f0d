"""
Tending: whether all is still there, and what shall not be there any more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs
import click

from conversation_state.cli._ending import BROKEN, RefusedError
from conversation_state.cli._storing import (
    Asked,
    asked,
    confirm,
    json_option,
    opened,
    store_option,
)
from conversation_state.cli._storing import as_json as in_json

if TYPE_CHECKING:
    # What a command imports when it runs, so that the help of all is quick.
    from conversation_state.aggregator import Entry
    from conversation_state.store import Receipt, Store

__all__ = ["delete", "erase", "gc", "verify"]

_QUOTED = 60

_yes_option = click.option("--yes", is_flag=True, help="Don't ask.")


@contextmanager
def _busy(doing: str) -> Iterator[None]:
    """
    Something that moves on stderr while one long call runs, on a terminal.
    """
    if not sys.stderr.isatty():
        yield
        return

    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with console.status(doing):
        yield


@click.command()
@store_option
@json_option
@click.pass_context
def verify(context: click.Context, *, url: str, as_json: bool) -> None:
    """
    Check that everything is what it was when it was saved.

    Computes every digest again. What does not match is named, an entry by its
    identity, and the status is 1.
    """
    from conversation_state.cli._showing import counted, plain

    with opened(context, url) as store:
        with _busy("Verifying"):
            damages = store.verify()

        for damage in damages:
            if as_json:
                click.echo(in_json(attrs.asdict(damage)))
            else:
                click.echo(plain(str(damage)))

        if not as_json and damages:
            click.echo(f"{counted(len(damages), 'damage')} found.")
        elif not as_json:
            names = counted(len(store.names()), "name")
            click.echo(f"Verified: all of {names} is what it was when it was saved.")

    context.exit(BROKEN if damages else 0)


@click.command()
@store_option
@json_option
@click.pass_context
def gc(context: click.Context, *, url: str, as_json: bool) -> None:
    """
    Let go of what no revision of any name needs.
    """
    from conversation_state.cli._showing import counted

    with opened(context, url) as store:
        with _busy("Collecting"):
            gone = store.collect_garbage()

        if as_json:
            click.echo(in_json(attrs.asdict(gone)))
        else:
            click.echo(
                f"Let go of {counted(gone.entries, 'message')}, "
                f"{counted(gone.ledger_entries, 'payment')}, "
                f"{counted(gone.blobs, 'large content')}: "
                f"{counted(gone.size, 'byte')}."
            )


@click.command()
@click.argument("name")
@click.argument("which", metavar="NUMBER|ENTRY_ID")
@store_option
@click.option("--reason", required=True, help="Why; it is kept.")
@_yes_option
@json_option
@click.pass_context
def erase(
    context: click.Context,
    *,
    name: str,
    which: str,
    url: str,
    reason: str,
    yes: bool,
    as_json: bool,
) -> None:
    """
    Replace what a message says, in every state that has it.

    NUMBER is the message's in NAME, from 1, as `show --number` tells; an
    ENTRY_ID is what `show --json` tells. Labels, revisions and forks stay, and
    so does who said it and when. There is no way back; the receipt says what
    was done, and by the digest in it whoever knows what was said can show that
    it was this.
    """
    with opened(context, url) as store:
        state = asked(store, name)
        number, entry = _entry(store, state, which)
        confirm(_question(number, entry, state), yes=yes)
        try:
            receipt = store.erase(entry.id, reason=reason)
        except ValueError as error:
            raise RefusedError(str(error)) from None

        if as_json:
            at = receipt.erased_at.isoformat(timespec="milliseconds")
            click.echo(in_json({**attrs.asdict(receipt), "erased_at": at}))
        else:
            for line in _told_of(receipt):
                click.echo(line)


def _entry(store: Store, state: Asked, which: str) -> tuple[int, Entry]:
    entries = state.load(store).entries
    if which.isascii() and which.isdigit():
        number = int(which[:20])
        if not 0 < number <= len(entries):
            msg = (
                f"{state.text!r} has messages 1 to {len(entries):,}, and no {which:.20}"
            )
            raise RefusedError(msg)

        return number, entries[number - 1]

    for number, entry in enumerate(entries, 1):
        if entry.id == which:
            return number, entry

    msg = f"{state.text!r} has no message {which!r:.80}; `show --json` tells their ids"
    raise RefusedError(msg)


def _question(number: int, entry: Entry, state: Asked) -> str:
    message = entry.message
    said = " ".join(message.text.split())
    said = said if len(said) <= _QUOTED else f"{said[: _QUOTED - 3]}..."
    return (
        f"Erase message {number} of {state.text} ({message.role}: {said}) in every "
        "state that has it? This can't be undone."
    )


def _told_of(receipt: Receipt) -> Iterator[str]:
    from conversation_state.cli._showing import counted, plain

    places = counted(receipt.rows, "place")
    yield f"Erased in {places}." if receipt.rows else "This was erased before."
    yield f"  entry    {plain(receipt.entry_id)}"
    yield f"  reason   {plain(receipt.reason)}"
    yield f"  content  {receipt.content} (digest of what it said)"
    yield f"  erased   {receipt.erased_at:%Y-%m-%d %H:%M:%S} UTC"
    if receipt.blobs:
        yield f"  with it  {counted(receipt.blobs, 'large content')}"


@click.command()
@click.argument("name")
@store_option
@_yes_option
@json_option
@click.pass_context
def delete(
    context: click.Context, *, name: str, url: str, yes: bool, as_json: bool
) -> None:
    """
    Let go of NAME and all its revisions.

    Forks keep what they share with it. The others' rows stay in the store
    until `gc`.
    """
    from conversation_state.cli._showing import counted, plain

    with opened(context, url) as store:
        which = asked(store, name)
        if which.at is not None:
            msg = f"delete takes a NAME, with all its revisions: {which.name}"
            raise RefusedError(msg)

        head = which.head
        revisions = counted(head.revision, "revision")
        confirm(f"Delete {head.name}, with its {revisions}?", yes=yes)
        store.delete(head.name)
        if as_json:
            click.echo(in_json({"name": head.name, "revisions": head.revision}))
        else:
            click.echo(plain(f"Deleted {head.name}, which had {revisions}."))
