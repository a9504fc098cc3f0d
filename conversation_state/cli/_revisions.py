"""
Commands that label, annotate, fork and roll back. None of them loses a saved revision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from conversation_state._wording import format_count
from conversation_state.cli._exit import RefusedError, print_line
from conversation_state.cli._inspect import head_data
from conversation_state.cli._options import (
    check_label,
    find_state,
    format_notes,
    parse_notes,
    print_json,
    revision_or_label,
    store_command,
)

if TYPE_CHECKING:
    # A command imports this when it runs, so that --help is quick.
    from conversation_state.store import Store

__all__ = ["annotate", "fork", "label", "rollback"]

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

    if as_json:
        moved_from = {} if remove else {"moved_from": before}
        print_json({**head_data(head), **moved_from})
    elif remove:
        print_line(f"Revision {head.revision} of {head.name} is no longer {label!r}.")
    else:
        moved = "" if before in (None, head.revision) else f"; revision {before} was"
        print_line(f"Revision {head.revision} of {head.name} is now {label!r}{moved}.")


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

    if as_json:
        data = {"name": which.name, "revision": which.at, "notes": left}
        print_json(data)
        return

    for key, value in left.items():
        print_line(format_notes({key: value}))


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

    if as_json:
        print_json(head_data(head))
    else:
        print_line(
            f"Forked {which.name} at revision {which.head.revision} as {new} "
            f"({format_count(head.length, 'message')})."
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

    newest = find_state(store, name)
    if newest.at is not None:
        raise RefusedError(
            f"expected a NAME without a revision: rollback {newest.name} {to}"
        )

    before = newest.head
    target = store.latest(before.name, at=revision_or_label(before, to))
    # Refused if another program has saved since: it would go back behind that, too.
    head = store.rollback(before.name, target, expecting=before)
    if as_json:
        data = {**head_data(head), "was": before.revision, "to": target.revision}
        print_json(data)
    elif head.revision == before.revision:
        print_line(
            f"{head.name} has the messages of revision {target.revision}; "
            "nothing to do."
        )
    else:
        print_line(
            f"{head.name} is at revision {head.revision}, which has the messages "
            f"of revision {target.revision} again "
            f"({format_count(head.length, 'message')})."
        )
        back = f"{shlex.quote(head.name)} {before.revision}"
        print_line(f"To go back: conversation-state rollback {back}")
