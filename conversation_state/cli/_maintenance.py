"""
Commands that change a store, and the one that verifies it. Labelling, annotating,
forking and rolling back lose no saved revision; erasing and deleting ask first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs
import click

from conversation_state._wording import format_count, shorten_repr, shorten_text
from conversation_state.cli._exit import BROKEN, RefusedError, exit_on_error, print_line
from conversation_state.cli._inspect import head_data
from conversation_state.cli._options import (
    SavedState,
    check_label,
    confirm,
    find_name,
    find_revision,
    find_state,
    format_notes,
    parse_notes,
    print_json,
    print_result,
    store_command,
    store_option,
)

if TYPE_CHECKING:
    # A command imports these when it runs, so that --help is quick.
    from conversation_state.aggregator import Entry
    from conversation_state.store import Receipt, Store

_at_option = click.option(
    "--at", metavar="REVISION|LABEL", help="A revision other than the newest."
)


@store_command()
@click.argument("name")
@click.argument("label")
@_at_option
@click.option("--remove", is_flag=True, help="Remove LABEL instead.")
def label(
    store: Store, *, name: str, label: str, at: str | None, remove: bool, as_json: bool
) -> None:
    """
    Let LABEL point to a revision of NAME.

    A revision can have any number of labels. A label points to one revision; if
    it exists already, it moves, and the revision that had it is printed.
    """
    from conversation_state.errors import NotSavedError

    label = check_label(label)
    which = find_state(store, name, at)
    # Only to print it: a store does not record where a label was.
    try:
        before = store.latest(which.name, at=label).revision
    except NotSavedError:
        before = None

    try:
        head = (
            store.unlabel(which.name, label)
            if remove
            else store.label(which.name, label, at=which.head)
        )
    except NotSavedError:
        raise RefusedError(
            f"{which.name} has no label {label!r}; see conversation-state log"
        ) from None

    moved_from = {} if remove else {"moved_from": before}
    is_moved = not remove and before not in (None, head.revision)
    moved = f"; revision {before} was" if is_moved else ""
    print_result(
        {**head_data(head), **moved_from},
        f"Revision {head.revision} of {head.name} is "
        f"{'no longer' if remove else 'now'} {label!r}{moved}.",
        as_json=as_json,
    )


@store_command()
@click.argument("name")
@click.argument("notes", nargs=-1, metavar="[KEY=TEXT]...")
@_at_option
def annotate(
    store: Store, *, name: str, notes: tuple[str, ...], at: str | None, as_json: bool
) -> None:
    """
    Note something on NAME, or on one of its revisions.

    Each KEY=TEXT sets one note, KEY:=JSON one that is not a text, as in
    stars:=5, and KEY:=null removes it. Others stay. Without any, prints the notes.
    """
    which = find_state(store, name, at)
    # A name has notes of its own, besides those of its revisions.
    revision = None if which.at is None else which.head
    try:
        left = (
            store.annotate(which.name, parse_notes(notes), at=revision)
            if notes
            else store.notes(which.name, at=revision)
        )
    except ValueError as error:
        raise RefusedError(str(error)) from None

    print_result(
        {"name": which.name, "revision": which.at, "notes": left},
        *[format_notes({key: value}) for key, value in left.items()],
        as_json=as_json,
    )


@store_command()
@click.argument("name")
@click.argument("new")
@_at_option
def fork(store: Store, *, name: str, new: str, at: str | None, as_json: bool) -> None:
    """
    Save a fork of NAME as NEW.

    The fork is another conversation with the same history, and takes three rows.
    """
    from conversation_state.errors import StaleHeadError

    which = find_state(store, name, at)
    try:
        head = store.fork(which.name, new, at=which.head)
    except StaleHeadError as error:
        raise RefusedError(
            f"{new!r} is saved already ({error.actual}); give another name"
        ) from None
    except ValueError as error:
        raise RefusedError(str(error)) from None

    print_result(
        head_data(head),
        f"Forked {which.name} at revision {which.head.revision} as {new} "
        f"({format_count(head.length, 'message')}).",
        as_json=as_json,
    )


@store_command()
@click.argument("name")
@click.argument("to")
def rollback(store: Store, *, name: str, to: str, as_json: bool) -> None:
    """
    Make an earlier state the newest of NAME again.

    TO is a revision, as in 3 or @-1 (the one before the newest), or a label.
    Its messages become a new revision with the whole ledger, so nothing is
    lost; the command to go back is printed.
    """
    import shlex

    before = find_name(store, name, "rollback", to).head
    target = find_revision(store, before, to)
    # Refused if another program has saved since: it would go back behind that, too.
    head = store.rollback(before.name, target, expecting=before)
    messages = format_count(head.length, "message")
    again = f"which has the messages of revision {target.revision} again ({messages})"
    back = f"{shlex.quote(head.name)} {before.revision}"
    lines = [
        f"{head.name} is at revision {head.revision}, {again}.",
        f"To go back: conversation-state rollback {back}",
    ]
    if head.revision == before.revision:
        done = f"{head.name} has the messages of revision {target.revision}"
        lines = [f"{done}; nothing to do."]

    data = {**head_data(head), "was": before.revision, "to": target.revision}
    print_result(data, *lines, as_json=as_json)


# Maintenance


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
        print_line(f"{format_count(len(damages), 'damage')} found.")
    elif not as_json:
        names = format_count(len(store.names()), "name")
        print_line(f"Verified: everything under {names} is as it was saved.")

    return BROKEN if damages else 0


@store_command()
@click.argument("file", type=click.Path())
def backup(store: Store, *, file: str, as_json: bool) -> None:
    """
    Copy the store to FILE, while other programs write.

    FILE must not be there yet. It is a store like any other; `restore` puts it
    back. A server has tools of its own: pg_dump.
    """
    with _show_status("Copying"):
        store.backup(file)

    print_result({"backup": file}, f"Copied to {file}.", as_json=as_json)


@click.command()
@click.argument("file", type=click.Path())
@store_option
@click.option(
    "--replace", is_flag=True, help="Keep the file that is there under another name."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def restore(
    context: click.Context, file: str, *, url: str, replace: bool, as_json: bool
) -> None:
    """
    Put a copy of the backup FILE where the store was.

    A file that is there is an error, and so is one that a program has open. With
    --replace it is kept, with its log, under another name, which is printed.
    """
    from conversation_state.store import restore as restore_file
    from conversation_state.store.backends import find_path

    with exit_on_error(context):
        path = find_path(url)
        if not path:
            raise RefusedError("only a file is restored; a server has pg_restore")

        kept = restore_file(file, path, replace=replace)
        where = f" What was there is now {kept}." if kept else ""
        data = {"restored": path, "kept": None if kept is None else str(kept)}
        print_result(data, f"Restored {path} from {file}.{where}", as_json=as_json)


@store_command()
def gc(store: Store, *, as_json: bool) -> None:
    """Collect garbage: delete what no revision of any name needs."""
    with _show_status("Collecting"):
        garbage = store.collect_garbage()

    if as_json:
        print_json(attrs.asdict(garbage))
    else:
        ledger = format_count(garbage.ledger_entries, "ledger entry", "ledger entries")
        print_line(
            f"Collected {format_count(garbage.entries, 'message')}, {ledger}, "
            f"{format_count(garbage.blobs, 'blob')}: "
            f"{format_count(garbage.size, 'byte')}."
        )
        if garbage.remains:
            print_line(f"{garbage.remains[0].upper()}{garbage.remains[1:]}")


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
    confirm(_format_question(number, entry, state), "erased", yes=yes)
    try:
        receipt = store.erase(entry.id, reason=reason)
    except ValueError as error:
        raise RefusedError(str(error)) from None

    at = receipt.erased_at.isoformat(timespec="milliseconds")
    data = {**attrs.asdict(receipt), "erased_at": at}
    print_result(data, *_describe_receipt(receipt), as_json=as_json)


def _find_entry(store: Store, state: SavedState, which: str) -> tuple[int, Entry]:
    entries = state.load(store).entries
    if which.isascii() and which.isdigit():
        # Cut, because int() refuses thousands of digits with an error of its own.
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
    yield f"  entry    {receipt.entry_id}"
    yield f"  reason   {receipt.reason}"
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
    head = find_name(store, name, "delete").head
    revisions = format_count(head.revision, "revision")
    confirm(f"Delete {head.name}, with its {revisions}?", "deleted", yes=yes)
    store.delete(head.name)
    print_result(
        {"name": head.name, "revisions": head.revision},
        f"Deleted {head.name}, which had {revisions}.",
        as_json=as_json,
    )
