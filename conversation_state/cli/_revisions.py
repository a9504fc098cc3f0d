"""
Commands that label, fork and roll back. None of them loses a saved revision.
"""

from __future__ import annotations

import click

from conversation_state.cli._exit import RefusedError
from conversation_state.cli._options import (
    check_label,
    find_state,
    head_data,
    json_option,
    open_url,
    revision_or_label,
    store_option,
    to_json_line,
)

__all__ = ["fork", "label", "rollback"]

_at_option = click.option(
    "--at", metavar="REVISION|LABEL", help="A revision other than the newest."
)


@click.command()
@click.argument("name")
@click.argument("label")
@store_option
@_at_option
@click.option("--remove", is_flag=True, help="Remove LABEL instead.")
@json_option
@click.pass_context
def label(
    context: click.Context,
    *,
    name: str,
    label: str,
    url: str,
    at: str | None,
    remove: bool,
    as_json: bool,
) -> None:
    """
    Let LABEL point to a revision of NAME.

    A revision can have any number of labels. A label points to one revision; if
    it exists already, it moves.
    """
    from conversation_state.errors import NotSavedError

    with open_url(context, url) as store:
        label = check_label(label)
        which = find_state(store, name, at)
        try:
            head = (
                store.unlabel(which.name, label)
                if remove
                else store.label(which.name, label, at=which.head)
            )
        except NotSavedError:
            msg = f"{which.name} has no label {label!r}; see conversation-state log"
            raise RefusedError(msg) from None

        if as_json:
            click.echo(to_json_line(head_data(head)))
        elif remove:
            _print_line(
                f"Revision {head.revision} of {head.name} is no longer {label!r}."
            )
        else:
            _print_line(f"Revision {head.revision} of {head.name} is now {label!r}.")


@click.command()
@click.argument("name")
@click.argument("new")
@store_option
@_at_option
@json_option
@click.pass_context
def fork(
    context: click.Context,
    *,
    name: str,
    new: str,
    url: str,
    at: str | None,
    as_json: bool,
) -> None:
    """
    Save a fork of NAME as NEW.

    The fork is another conversation with the same history, and takes three rows.
    """
    from conversation_state.errors import StaleHeadError

    with open_url(context, url) as store:
        which = find_state(store, name, at)
        try:
            head = store.fork(which.name, new, at=which.head)
        except StaleHeadError as error:
            msg = f"{new!r} is saved already ({error.actual}); give another name"
            raise RefusedError(msg) from None
        except ValueError as error:
            raise RefusedError(str(error)) from None

        if as_json:
            click.echo(to_json_line(head_data(head)))
        else:
            _print_line(
                f"Forked {which.name} at revision {which.head.revision} as {new} "
                f"({_messages(head.length)})."
            )


@click.command()
@click.argument("name")
@click.argument("to")
@store_option
@json_option
@click.pass_context
def rollback(
    context: click.Context, *, name: str, to: str, url: str, as_json: bool
) -> None:
    """
    Make an earlier state the newest of NAME again.

    TO is a revision, as in 3 or @-1 (the one before the newest), or a label.
    Its messages become a new revision with the whole ledger, so nothing is
    lost; the command to go back is printed.
    """
    with open_url(context, url) as store:
        newest = find_state(store, name)
        if newest.at is not None:
            msg = f"expected a NAME without a revision: rollback {newest.name} {to}"
            raise RefusedError(msg)

        before = newest.head
        target = store.latest(before.name, at=revision_or_label(before, to))
        head = store.rollback(before.name, target, expecting=before)
        if as_json:
            data = {**head_data(head), "was": before.revision, "to": target.revision}
            click.echo(to_json_line(data))
        elif head.revision == before.revision:
            _print_line(
                f"{head.name} has the messages of revision {target.revision}; "
                "nothing to do."
            )
        else:
            _print_line(
                f"{head.name} is at revision {head.revision}, which has the messages "
                f"of revision {target.revision} again ({_messages(head.length)})."
            )
            back = f"{_quoted(head.name)} {before.revision}"
            _print_line(f"To go back: conversation-state rollback {back}")


def _print_line(line: str) -> None:
    from conversation_state.cli._display import escape_controls

    click.echo(escape_controls(line))


def _messages(number: int) -> str:
    from conversation_state.cli._display import counted

    return counted(number, "message")


def _quoted(name: str) -> str:
    """
    *name* as a shell takes it.
    """
    import shlex

    return shlex.quote(name)
