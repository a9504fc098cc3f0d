"""
Moving: where names stand. Nothing that was saved is lost by any of it.
"""

from __future__ import annotations

import click

from conversation_state.cli._ending import RefusedError
from conversation_state.cli._storing import as_json as in_json
from conversation_state.cli._storing import (
    asked,
    checked_label,
    head_data,
    json_option,
    opened,
    revision_or_label,
    store_option,
)

__all__ = ["checkpoint", "fork", "rollback"]

_at_option = click.option(
    "--at", metavar="REVISION|LABEL", help="Another state than the newest."
)


@click.command()
@click.argument("name")
@click.argument("label")
@store_option
@_at_option
@json_option
@click.pass_context
def checkpoint(
    context: click.Context,
    *,
    name: str,
    label: str,
    url: str,
    at: str | None,
    as_json: bool,
) -> None:
    """
    Give a revision of NAME a LABEL, in place of the one it had.

    A label that was given before is found where it was given last. An empty
    one takes the label away.
    """
    with opened(context, url) as store:
        label = checked_label(label)
        which = asked(store, name, at)
        head = store.checkpoint(which.name, label, at=which.head)
        if as_json:
            click.echo(in_json(head_data(head)))
        elif label:
            _say(f"Revision {head.revision} of {head.name} is now {label!r}.")
        else:
            _say(f"Revision {head.revision} of {head.name} has no label now.")


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

    That is another conversation with the same past, and costs three rows.
    """
    from conversation_state.errors import StaleHeadError

    with opened(context, url) as store:
        which = asked(store, name, at)
        try:
            head = store.fork(which.name, new, at=which.head)
        except StaleHeadError as error:
            msg = f"{new!r} is there already ({error.actual}); give another name"
            raise RefusedError(msg) from None
        except ValueError as error:
            raise RefusedError(str(error)) from None

        if as_json:
            click.echo(in_json(head_data(head)))
        else:
            _say(
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
    It becomes a new revision, so nothing is lost, and how to go back is said.
    """
    with opened(context, url) as store:
        newest = asked(store, name)
        if newest.at is not None:
            msg = f"rollback takes a NAME and a revision: {newest.name} {to}"
            raise RefusedError(msg)

        before = newest.head
        target = store.head(before.name, at=revision_or_label(before, to))
        if target.digest == before.digest:
            head = before
        else:
            state = store.load(before.name, at=target)
            head = store.save(before.name, state, expecting=before)

        if as_json:
            data = {**head_data(head), "was": before.revision, "to": target.revision}
            click.echo(in_json(data))
        elif head is before:
            _say(
                f"{head.name} says what it said at revision {target.revision}; "
                "nothing to do."
            )
        else:
            _say(
                f"{head.name} is at revision {head.revision}, which is revision "
                f"{target.revision} again ({_messages(head.length)})."
            )
            back = f"{_quoted(head.name)} {before.revision}"
            _say(f"To go back: conversation-state rollback {back}")


def _say(line: str) -> None:
    from conversation_state.cli._showing import plain

    click.echo(plain(line))


def _messages(number: int) -> str:
    from conversation_state.cli._showing import counted

    return counted(number, "message")


def _quoted(name: str) -> str:
    """
    *name* as a shell takes it.
    """
    import shlex

    return shlex.quote(name)
