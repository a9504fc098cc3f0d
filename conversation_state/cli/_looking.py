"""
Looking: what is saved in a store, without changing any of it.

What lives here: names, revisions, transcripts, differences and views. What
does not: taking it out in some format (`_export`), and whether all of it is
still what it was (`_tending`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from conversation_state.cli._ending import BROKEN, DeclinedError, told
from conversation_state.cli._storing import as_json as in_json
from conversation_state.cli._storing import (
    asked,
    head_data,
    json_option,
    message_data,
    opened,
    store_option,
)

if TYPE_CHECKING:
    # What a command imports when it runs, so that the help of all is quick.
    from conversation_state.diffing import Diff
    from conversation_state.store import Head
    from conversation_state.trimming import TrimContext

__all__ = ["diff", "log", "names", "show", "trim"]


@click.command()
@store_option
@click.option("--prefix", default="", help="Only those that begin so.")
@json_option
@click.pass_context
def names(context: click.Context, *, url: str, prefix: str, as_json: bool) -> None:
    """
    List what is saved, and where each name stands.
    """
    with opened(context, url) as store:
        found = [store.head(name) for name in store.names(prefix=prefix)]
        if as_json:
            for head in found:
                click.echo(in_json(head_data(head)))
        elif found:
            rows = [
                (f"{head.revision}", _when(head), f"{head.length:,}", head.name)
                for head in found
            ]
            _table(("REVISIONS", "SAVED (UTC)", "MESSAGES", "NAME"), rows)


@click.command()
@click.argument("name")
@store_option
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), help="Only so many revisions."
)
@json_option
@click.pass_context
def log(
    context: click.Context, *, name: str, url: str, limit: int | None, as_json: bool
) -> None:
    """
    List the revisions of NAME, the newest first.

    With NAME@3, those from revision 3 back. Tokens are what the messages fill,
    estimated as characters by four.
    """
    from conversation_state.trimming import TrimContext

    with opened(context, url) as store:
        newest = asked(store, name)
        # What others share with the newest state is not read again.
        store.load(newest.name)
        rows: list[tuple[str, ...]] = []
        before = newest.head.revision + 1
        for head in store.history(newest.name, before=before, limit=limit):
            state = store.load(head.name, at=head)
            tokens = TrimContext.of(state).total_tokens
            if as_json:
                spent = state.total_usage.total_tokens
                data = {**head_data(head), "tokens": tokens, "spent_tokens": spent}
                click.echo(in_json(data))
            else:
                size, filled = f"{head.length:,}", f"{tokens:,}"
                rows.append((f"{head.revision}", _when(head), size, filled, head.label))

        if rows:
            _table(("REVISION", "SAVED (UTC)", "MESSAGES", "TOKENS", "LABEL"), rows)


def _when(head: Head) -> str:
    return f"{head.saved_at:%Y-%m-%d %H:%M:%S}"


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """
    Figures to the right, and the last column, which is text, to the left.
    """
    from conversation_state.cli._showing import plain

    widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
    for *cells, last in (heading, *rows):
        first = "  ".join(
            cell.rjust(width) for cell, width in zip(cells, widths, strict=False)
        )
        click.echo(f"{first}  {plain(last)}".rstrip())


@click.command()
@click.argument("name")
@store_option
@click.option(
    "--last", type=click.IntRange(min=0), help="Only so many messages from the end."
)
@click.option("--number", is_flag=True, help="Number the messages, from 1.")
@click.option("--markdown", is_flag=True, help="Write Markdown.")
@json_option
@click.pass_context
def show(
    context: click.Context,
    *,
    name: str,
    url: str,
    last: int | None,
    number: bool,
    markdown: bool,
    as_json: bool,
) -> None:
    """
    Print a conversation as a transcript.

    --last reads no more than it prints, however long the conversation is.
    --number tells the numbers that `erase` takes.
    """
    _one_of(as_json=as_json, markdown=markdown)
    _one_of(as_json=as_json, number=number)
    _one_of(markdown=markdown, number=number)
    with opened(context, url) as store:
        which = asked(store, name)
        start = 0
        if last is None:
            entries = which.load(store).entries
        else:
            window = store.load(which.name, at=which.head, last=last)
            start, entries = window.start, window.entries

        if as_json:
            for data in message_data(entries, start):
                click.echo(in_json(data))

            return

        if start:
            told(f"({start:,} earlier messages are not shown)")

        _transcript(
            [entry.message for entry in entries],
            start if number else None,
            markdown=markdown,
        )


def _transcript(
    messages: Sequence[Any], start: int | None, *, markdown: bool = False
) -> None:
    """
    *messages* for people; numbered, if *start* says how many came before.
    """
    from conversation_state.rendering import render_transcript

    text = render_transcript(messages, format="markdown" if markdown else "text")
    if not text:
        return

    if start is not None:
        # Only heads start a line in a transcript.
        number, lines = start, []
        for line in text.split("\n"):
            is_head = bool(line) and not line.startswith(" ")
            number += is_head
            lines.append(f"[{number}] {line}" if is_head else line)

        text = "\n".join(lines)

    click.echo(text)


def _one_of(**flags: bool) -> None:
    if sum(flags.values()) > 1:
        one, other = (
            f"--{name.removeprefix('as_').replace('_', '-')}" for name in flags
        )
        msg = f"{one} and {other} don't go together; give one of them"
        raise click.UsageError(msg)


@click.command()
@click.argument("a")
@click.argument("b")
@store_option
@click.option("--html", is_flag=True, help="Write HTML.")
@click.option("--markdown", is_flag=True, help="Write Markdown.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=40,
    show_default=True,
    help="Show so many messages of each side, at most.",
)
@click.option("--exit-code", is_flag=True, help="End with status 1 if they differ.")
@json_option
@click.pass_context
def diff(
    context: click.Context,
    *,
    a: str,
    b: str,
    url: str,
    html: bool,
    markdown: bool,
    limit: int,
    exit_code: bool,
    as_json: bool,
) -> None:
    """
    Compare two saved states.

    Tells what both have, and what each has alone. A and B are names, or
    NAME@REVISION, or NAME@LABEL.
    """
    from conversation_state.diffing import diff as compare

    _one_of(html=html, markdown=markdown)
    _one_of(as_json=as_json, html=html)
    _one_of(as_json=as_json, markdown=markdown)
    with opened(context, url) as store:
        one, other = asked(store, a), asked(store, b)
        found = compare(one.load(store), other.load(store))
        titles = one.text, other.text
        if as_json:
            click.echo(in_json(_diff_data(found, one.head, other.head)))
        elif html:
            click.echo(found.html(names=titles, limit=limit))
        elif markdown:
            click.echo(found.markdown(names=titles, limit=limit))
        else:
            click.echo(found.text(names=titles, limit=limit))

    context.exit(BROKEN if exit_code and found else 0)


def _diff_data(found: Diff, one: Head, other: Head) -> dict[str, Any]:
    # All their numbers would need where each entry is; its identity tells more.
    only_a, only_b = (
        [
            {"entry_id": each["entry_id"], "message": each["message"]}
            for each in message_data(entries)
        ]
        for entries in (found.only_a, found.only_b)
    )
    return {
        "a": head_data(one),
        "b": head_data(other),
        "common": found.common,
        "only_a": only_a,
        "only_b": only_b,
        "changed": len(found.changed),
        "reordered": found.reordered,
        "spent_tokens_a": found.usage_a.total_tokens,
        "spent_tokens_b": found.usage_b.total_tokens,
        "identical": not found,
    }


@click.command()
@click.argument("name")
@store_option
@click.option(
    "--limit",
    metavar="TOKENS",
    type=click.IntRange(min=1),
    required=True,
    help="How many tokens the view may fill.",
)
@json_option
@click.pass_context
def trim(
    context: click.Context, *, name: str, url: str, limit: int, as_json: bool
) -> None:
    """
    Print what a model would see, and what was dropped.

    Changes nothing: a view is chosen, and what was said stays. It keeps the
    system messages in front and the longest valid run to the end that fits
    into --limit, tokens being estimated as characters by four. The status is 1
    if nothing valid fits.
    """
    from conversation_state.counting import TokenBudget
    from conversation_state.errors import BudgetExceededError
    from conversation_state.trimming import TrimContext, fit
    from conversation_state.trimming import trim as trimmed

    with opened(context, url) as store:
        which = asked(store, name)
        state = which.load(store)
        whole = TrimContext.of(state).total_tokens
        try:
            view = trimmed(state, TokenBudget(context_window=limit), fit())
        except BudgetExceededError as error:
            msg = (
                f"no valid view of {which.text!r} fits: the smallest needs "
                f"{error.needed_tokens:,} tokens, and --limit is {limit:,}"
            )
            raise DeclinedError(msg) from None

        if as_json:
            click.echo(in_json(_view_data(which.head, view, whole, limit)))
            return

        for line in _told_of(view, whole, limit):
            click.echo(line)

        click.echo()
        _transcript(view.messages, None)


def _view_data(head: Head, view: TrimContext, whole: int, limit: int) -> dict[str, Any]:
    return {
        **head_data(head),
        "tokens": whole,
        "limit_tokens": limit,
        "kept_tokens": view.total_tokens,
        "kept": [element.seq + 1 for element in view.elements],
        "dropped": [
            {"number": drop.seq + 1, "reason": drop.reason} for drop in view.dropped
        ],
    }


def _told_of(view: TrimContext, whole: int, limit: int) -> Iterator[str]:
    from conversation_state.cli._showing import counted, in_words
    from conversation_state.cli.replay import drops_of

    kept, dropped = len(view.messages), len(view.dropped)
    yield f"{counted(kept + dropped, 'message')}, {whole:,} tokens; limit {limit:,}"
    yield f"kept {kept:,}, {view.total_tokens:,} tokens"
    words = ", ".join(map(in_words, drops_of(view.dropped)))
    yield f"dropped {dropped:,}{f': {words}' if words else ''}"
