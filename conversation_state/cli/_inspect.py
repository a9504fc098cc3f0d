"""
Commands that read a store: names, revisions, transcripts, differences, views.

The JSON of a saved state, which other commands print too, is here. Not here: writing
conversations to files (`_transfer`) and verifying that a store is undamaged
(`_maintenance`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from conversation_state._wording import (
    format_count,
    number_messages,
    read_title,
    shorten_text,
)
from conversation_state.cli._exit import (
    BROKEN,
    paint,
    print_document,
    print_error,
    print_line,
    print_table,
    print_text,
)
from conversation_state.cli._options import (
    find_state,
    format_notes,
    iterate_names,
    message_data,
    print_json,
    store_command,
    trim_to,
)

if TYPE_CHECKING:
    # A command imports these when it runs, so that --help is quick.
    from conversation_state.diffing import Diff
    from conversation_state.messages import Message
    from conversation_state.store import Head, LabelMove, Store


_MAX_TITLE = 60


@store_command(has_pages=True)
@click.option("--prefix", default="", help="Only names that start with this.")
def names(store: Store, *, prefix: str, as_json: bool) -> None:
    """List the saved names, with their titles (also: ls)."""
    # Printed at the end: the width of a column is that of all.
    found = list(iterate_names(store, prefix))
    if as_json:
        for each in found:
            print_json({**head_data(each.head), "name_notes": each.notes})
    elif found:
        rows: list[tuple[str, ...]] = [
            (f"{head.revision}", _format_time(head), f"{head.length:,}", head.name)
            for head, _ in found
        ]
        heading: tuple[str, ...] = ("REVISIONS", "SAVED (UTC)", "MESSAGES", "NAME")
        titles = [shorten_text(read_title(notes), _MAX_TITLE) for _, notes in found]
        if any(titles):
            heading = (*heading, "TITLE")
            rows = [(*row, title) for row, title in zip(rows, titles, strict=True)]

        print_table(heading, rows, texts=len(heading) - 3)


@store_command(has_pages=True)
@click.argument("name")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=1),
    help="List at most this many revisions.",
)
@click.option("--moves", is_flag=True, help="List the moves of its labels instead.")
def log(
    store: Store, *, name: str, limit: int | None, moves: bool, as_json: bool
) -> None:
    """
    List the revisions of NAME, the newest first.

    With NAME@3, those from revision 3 back. FROM is the revision that each one grew
    from; what the first one listed did not grow from is on another branch, which
    `rollback` restores. TOKENS is the estimated size of the messages, a quarter of
    their characters. With --moves, each move of a label, the newest first: from which
    revision to which, and when.
    """
    from conversation_state.trimming import TrimContext

    newest = find_state(store, name)
    if moves:
        _print_moves(store.label_moves(newest.name)[:limit], as_json=as_json)
        return

    # Loading the newest first caches what the older revisions share with it.
    store.load(newest.name)
    rows: list[tuple[str, ...]] = []
    before = newest.head.revision + 1
    # The number of the next revision that the first one grew from.
    branch: int | None = newest.head.revision
    for head in store.history(newest.name, before=before, limit=limit):
        state = store.load(head.name, at=head)
        tokens = TrimContext.of(state).total_tokens
        if as_json:
            used = state.total_usage.total_tokens
            data = {**head_data(head), "tokens": tokens, "spent_tokens": used}
            print_json(data)
        else:
            size, filled = f"{head.length:,}", f"{tokens:,}"
            number, parent = f"{head.revision}", f"{head.parent or ''}"
            where = "" if head.revision == branch else "other"
            labels = "; ".join(
                filter(None, [", ".join(head.labels), format_notes(head.notes)])
            )
            time = _format_time(head)
            rows.append((number, parent, time, size, filled, where, labels))

        if head.revision == branch:
            branch = head.parent

    if title := not as_json and read_title(store.notes(newest.name)):
        print_line(paint(f"Title: {title}", bold=True))

    if rows:
        heading = ("REVISION", "FROM", "SAVED (UTC)", "MESSAGES", "TOKENS", "BRANCH")
        print_table((*heading, "LABELS, NOTES"), rows, fg="cyan")


def _print_moves(moves: Sequence[LabelMove], *, as_json: bool) -> None:
    if as_json:
        for move in moves:
            moved_at = move.moved_at.isoformat(timespec="milliseconds")
            print_json({**move._asdict(), "moved_at": moved_at})
    elif moves:
        rows = [
            (
                f"{move.moved_at:%Y-%m-%d %H:%M:%S}",
                f"{move.before or ''}",
                f"{move.after or ''}",
                move.label,
            )
            for move in moves
        ]
        print_table(("MOVED (UTC)", "FROM", "TO", "LABEL"), rows, fg="cyan")


def head_data(head: Head) -> dict[str, Any]:
    return {
        "name": head.name,
        "revision": head.revision,
        "parent": head.parent,
        "labels": list(head.labels),
        "notes": head.notes,
        "saved_at": head.saved_at.isoformat(timespec="milliseconds"),
        "messages": head.length,
        "ledger_entries": head.ledger_length,
        "state_id": str(head.state_id),
        "digest": head.digest,
    }


def _format_time(head: Head) -> str:
    return f"{head.saved_at:%Y-%m-%d %H:%M:%S}"


@store_command(has_pages=True)
@click.argument("name")
@click.option(
    "--last",
    type=click.IntRange(min=0),
    help="Print at most this many of the newest messages.",
)
@click.option("--number", is_flag=True, help="Number the messages, from 1.")
@click.option("--markdown", is_flag=True, help="Write Markdown.")
def show(
    store: Store,
    *,
    name: str,
    last: int | None,
    number: bool,
    markdown: bool,
    as_json: bool,
) -> None:
    """
    Print a conversation as a transcript.

    --last reads no more than it prints, however long the conversation is.
    --number prints the numbers that `erase` takes. System messages without content,
    as exports of ChatGPT have, are left out of the transcript.
    """
    _check_exclusive(json=as_json, markdown=markdown, number=number)
    which = find_state(store, name)
    start = 0
    if last is None:
        entries = which.load(store).entries
    else:
        window = store.load(which.name, at=which.head, last=last)
        start, entries = window.start, window.entries

    if as_json:
        for data in message_data(entries, start):
            print_json(data)

        return

    if start:
        earlier = format_count(start, "earlier message")
        print_error(f"({earlier} {'is' if start == 1 else 'are'} not shown)")

    numbered = [
        (at, entry.message)
        for at, entry in enumerate(entries, start + 1)
        if not _is_empty(entry.message)
    ]
    _print_transcript(
        [message for _, message in numbered],
        [at for at, _ in numbered] if number else None,
        markdown=markdown,
    )


def _is_empty(message: Message) -> bool:
    """Whether a message is a system message without content."""
    from conversation_state.messages import SystemMessage, find_erasure

    return (
        isinstance(message, SystemMessage)
        and not message.text
        and find_erasure(message) is None
    )


def _print_transcript(
    messages: Sequence[Message],
    numbers: Sequence[int] | None,
    *,
    markdown: bool = False,
) -> None:
    from conversation_state.rendering import render_transcript

    text = render_transcript(messages, format="markdown" if markdown else "text")
    if not text:
        return

    if markdown:
        print_text(text)
        return

    remaining = iter(numbers or ())
    for line in text.split("\n"):
        # In a transcript only the line that names the role is not indented.
        if not line or line.startswith(" "):
            print_line(line)
            continue

        role = line.partition(" ")[0]
        prefix = "" if numbers is None else paint(f"[{next(remaining)}] ", dim=True)
        print_line(prefix + paint(line, bold=True, fg=_ROLE_COLOURS.get(role)))


_ROLE_COLOURS = {
    "system": "magenta",
    "developer": "magenta",
    "user": "green",
    "assistant": "cyan",
    "tool": "yellow",
}


def _check_exclusive(**flags: bool) -> None:
    given = [f"--{name}" for name, is_given in flags.items() if is_given]
    if len(given) > 1:
        raise click.UsageError(
            f"{given[0]} and {given[1]} exclude each other; give one of them"
        )


@store_command(has_pages=True)
@click.argument("a")
@click.argument("b")
@click.option("--html", is_flag=True, help="Write HTML.")
@click.option("--markdown", is_flag=True, help="Write Markdown.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=40,
    show_default=True,
    help="Show at most this many messages of each side.",
)
@click.option("--exit-code", is_flag=True, help="Exit with status 1 if they differ.")
def diff(
    store: Store,
    *,
    a: str,
    b: str,
    html: bool,
    markdown: bool,
    limit: int,
    exit_code: bool,
    as_json: bool,
) -> int:
    """
    Compare two saved states.

    Prints what both have, and what only one has, with - or +; with = what says the
    same in both and was added to each, with ! what was replaced. A and B are NAME,
    NAME@REVISION or NAME@LABEL.
    """
    from conversation_state.diffing import diff as compare

    _check_exclusive(json=as_json, html=html, markdown=markdown)
    one, other = find_state(store, a), find_state(store, b)
    found = compare(one.load(store), other.load(store))
    titles = one.text, other.text
    if as_json:
        print_json(_diff_data(found, one.head, other.head))
    elif html:
        print_document(found.html(names=titles, limit=limit))
    elif markdown:
        print_document(found.markdown(names=titles, limit=limit))
    else:
        for line in found.text(names=titles, limit=limit).split("\n"):
            print_line(paint(line, **_SIGN_STYLES.get(line[:1], {})))

    return BROKEN if exit_code and found else 0


# By what a line of a difference begins with.
_SIGN_STYLES: dict[str, dict[str, Any]] = {
    "-": {"fg": "red"},
    "+": {"fg": "green"},
    "!": {"fg": "yellow"},
    "=": {"dim": True},
}


def _diff_data(found: Diff, one: Head, other: Head) -> dict[str, Any]:
    # No numbers: they would need the position of each entry in its state.
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
        "changed": len(found.entries.changed),
        "reordered": found.entries.reordered,
        "spent_tokens_a": found.usage_a.total_tokens,
        "spent_tokens_b": found.usage_b.total_tokens,
        "identical": not found,
    }


@store_command(has_pages=True)
@click.argument("name")
@click.option(
    "--limit",
    metavar="TOKENS",
    type=click.IntRange(min=1),
    required=True,
    help="The most tokens the view may have.",
)
def trim(store: Store, *, name: str, limit: int, as_json: bool) -> None:
    """
    Print the view a model would get, and what was dropped.

    Nothing saved changes. Calls without a result get an error as their result,
    results without a call are dropped, and errors that a coding agent only showed
    are removed. The view keeps the system messages at
    the start and the longest valid run of newest messages that fits into
    --limit, with tokens estimated as a quarter of the characters. The exit
    status is 1 if no valid view fits.
    """
    from conversation_state.cli.replay import describe_drops, drop_data
    from conversation_state.trimming import TrimContext

    which = find_state(store, name)
    state = which.load(store)
    whole = TrimContext.of(state).total_tokens
    view = trim_to(limit, state, which.text)
    if as_json:
        data = {
            **head_data(which.head),
            "tokens": whole,
            "limit_tokens": limit,
            "kept_tokens": view.total_tokens,
            "kept": sorted({element.seq + 1 for element in view.elements}),
            "dropped": list(map(drop_data, view.dropped)),
        }
        print_json(data)
        return

    messages = format_count(len(view.original), "message")
    print_line(f"{messages}, {format_count(whole, 'token')}; limit {limit:,}")
    print_line(f"kept {len(view):,}, {format_count(view.total_tokens, 'token')}")
    words = describe_drops(view.dropped)
    print_line(f"dropped {len(view.dropped):,}{f': {words}' if words else ''}")
    for failure in view.failures:
        # What was left out because of it has the same words above.
        if not getattr(failure.error, "dropped", 0):
            print_line(number_messages(f"{failure.error}"))

    print_line("")
    _print_transcript(view.messages, None)
