"""
Importing: from files into a store.

What lives here: the command, what conversations are called there, and what is
done where the name is taken. What does not: how files are read (`_reading`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

import click

from conversation_state.cli._ending import BROKEN, FAILED, told
from conversation_state.cli._storing import as_json as in_json
from conversation_state.cli._storing import json_option, opened, store_option

if TYPE_CHECKING:
    # What a command imports when it runs, so that the help of all is quick.
    from conversation_state.aggregator import Aggregator
    from conversation_state.cli._reading import Found
    from conversation_state.messages import Message
    from conversation_state.store import Head, Store

__all__ = ["import_"]

_MEBIBYTE = 1 << 20
_DRAWN_EVERY_S = 0.1

IMPORTED = "imported"
EXTENDED = "extended"
REPLACED = "replaced"
UNCHANGED = "unchanged"
SKIPPED = "skipped"


class Outcome(NamedTuple):
    """
    What came of one conversation.

    Attributes:
        outcome: One of the five words above.

        name: What it is called in the store.

        head: Where that name stands now.

        added: How many messages were written.
    """

    outcome: str
    name: str
    head: Head
    added: int


@click.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@store_option
@click.option("--prefix", default="", help="Put this before every name.")
@click.option(
    "--on-conflict",
    type=click.Choice(["skip", "replace", "rename", "stop"]),
    default="skip",
    show_default=True,
    help="What to do where something else is saved under the name.",
)
@click.option("--strict", is_flag=True, help="Stop at what can't be read.")
@click.option(
    "--max-line",
    metavar="MIB",
    type=click.IntRange(min=1),
    default=16,
    show_default=True,
    help="Skip lines that are longer, in MiB.",
)
@json_option
@click.pass_context
def import_(
    context: click.Context,
    files: tuple[str, ...],
    *,
    url: str,
    prefix: str,
    on_conflict: str,
    strict: bool,
    max_line: int,
    as_json: bool,
) -> None:
    """
    Save conversations of files in a store.

    The store is made if it is not there. A FILE holds what `replay` reads: a
    conversation on each line, in OpenAI's chat format say, or a state that
    `export` wrote. "-" is standard input. A conversation is called as its "id"
    says, or else as its file, with the number of its line.

    Each is saved as a whole or not at all, as one revision. Importing again
    changes nothing, so what was interrupted can be run again: where a name is
    taken by the same, or by what goes on from it, nothing is done, and where
    it is taken by its beginning, what is new is added.

    Where it is taken by something else, --on-conflict decides: to skip this
    one, which ends with status 1; to replace what is there, which stays a
    revision; to rename this one, to NAME-2, NAME-3 and so on; or to stop.

    Messages that were erased there stay erased.

    The status is 0 if all is saved, 1 if something was skipped for its name,
    and 2 if something could not be read, which is told with its line.
    """
    import sys

    from conversation_state.cli import _reading, _showing

    tally: Counter[str] = Counter()
    unreadable = 0
    drawn = monotonic()
    quiet = as_json and sys.stdout.isatty()
    total = _reading.total_bytes(files)
    try:
        with (
            opened(context, url, new=True) as store,
            _showing.progress(total, quiet=quiet, doing="Importing") as bar,
        ):
            (task,) = bar.task_ids
            for item in _reading.read(
                files,
                limit=max_line * _MEBIBYTE,
                advance=lambda size: bar.advance(task, size),
            ):
                try:
                    found = _named(item, prefix)
                    done = _imported(store, found, on_conflict)
                except _UnreadableError as error:
                    unreadable += 1
                    bar.console.print(_showing.plain(str(error)), soft_wrap=True)
                    if strict:
                        break

                    continue

                tally[done.outcome] += 1
                bar.update(task, count=tally.total())
                if monotonic() - drawn >= _DRAWN_EVERY_S:
                    bar.refresh()
                    drawn = monotonic()

                if as_json:
                    click.echo(in_json(_data(found, done)))
                elif done.outcome == SKIPPED:
                    bar.console.print(_showing.plain(_conflict(done)), soft_wrap=True)

                if done.outcome == SKIPPED and on_conflict == "stop":
                    break

            if not as_json:
                click.echo(_summary(tally))
    except KeyboardInterrupt:
        told(f"Interrupted. {_summary(tally)} What was saved stays; run it again.")
        raise

    context.exit(FAILED if unreadable else BROKEN if tally[SKIPPED] else 0)


class _UnreadableError(Exception):
    """
    What can't be imported, and where it is.
    """


def _named(item: object, prefix: str) -> Found:
    """
    A conversation under the name it gets in the store.
    """
    from conversation_state.cli._reading import STANDARD_INPUT, Unreadable

    if isinstance(item, Unreadable):
        raise _UnreadableError(str(item))

    found: Found = item  # type: ignore[assignment]  # there is nothing else
    stem = "stdin" if found.file == STANDARD_INPUT else Path(found.file).stem
    return found._replace(name=f"{prefix}{found.id or f'{stem}-{found.line}'}")


def _imported(store: Store, found: Found, on_conflict: str) -> Outcome:
    for name in _names(found.name, on_conflict):
        done = _saved(store, found, name, on_conflict)
        if done is not None:
            return done

    msg = "names never end"
    raise AssertionError(msg)


def _names(name: str, on_conflict: str) -> Iterator[str]:
    yield name
    if on_conflict == "rename":
        yield from (f"{name}-{number}" for number in count(2))


def _saved(store: Store, found: Found, name: str, on_conflict: str) -> Outcome | None:
    """
    What came of it under this *name*; None if another is to be tried.
    """
    from conversation_state.aggregator import Aggregator
    from conversation_state.errors import StaleHeadError
    from conversation_state.store import Head

    state = found.state or Aggregator.new(messages=found.messages)
    try:
        # Not asked before: where nothing is saved, a store looks for names
        # that are written much like it.
        head = store.save(name, state, expecting=0)
    except StaleHeadError as error:
        if not isinstance(error.actual, Head):
            raise

        head = error.actual
    except ValueError as error:
        msg = f"{found.file}:{found.line}: can't be called so; {error}"
        raise _UnreadableError(msg) from None
    else:
        return Outcome(IMPORTED, name, head, head.length)

    there = store.load(name, at=head)
    grown = _grown(there, found)
    if grown is there:
        return Outcome(UNCHANGED, name, head, 0)

    if grown is not None:
        head = store.save(name, grown, expecting=head)
        return Outcome(EXTENDED, name, head, len(grown) - len(there))

    if on_conflict == "replace":
        # What is the same stays the same entries, so only the rest is written.
        common = _common(there, found.messages)
        if found.state is None:
            state = there.fork(at=common).extend(found.messages[common:])

        head = store.save(name, state, expecting=head)
        return Outcome(REPLACED, name, head, len(state) - common)

    return None if on_conflict == "rename" else Outcome(SKIPPED, name, head, 0)


def _grown(there: Aggregator, found: Found) -> Aggregator | None:
    """
    What is *there* with what was *found* to come after; itself if nothing
    does, and None if the two are no beginning of each other.
    """
    if found.state is not None:
        if there.join(found.state) is there:
            return there

        return found.state if _grew_from(found.state, there) else None

    given = found.messages
    common = _common(there, given)
    if common < min(len(there), len(given)):
        return None

    return there.extend(given[common:]) if common < len(given) else there


def _common(there: Aggregator, given: tuple[Message, ...]) -> int:
    """
    How many messages at the start are the same; what was erased is like what
    it was, as far as anybody can tell.
    """
    for at, (old, new) in enumerate(zip(there, given, strict=False)):
        if old != new and not (_is_erased(old) and old.role == new.role):
            return at

    return min(len(there), len(given))


def _is_erased(message: Message) -> bool:
    from conversation_state.store import ERASED

    return ERASED in message.metadata


def _grew_from(state: Aggregator, there: Aggregator) -> bool:
    """
    Whether *state* has all of *there*, in its order, and more.
    """
    entries = state.entries
    return state.join(there) is state and all(
        old.id == new.id for old, new in zip(there.entries, entries, strict=False)
    )


def _data(found: Found, done: Outcome) -> dict[str, object]:
    return {
        "file": found.file,
        "line": found.line,
        "name": done.name,
        "outcome": done.outcome,
        "revision": done.head.revision,
        "messages": done.head.length,
        "added": done.added,
    }


def _conflict(done: Outcome) -> str:
    return (
        f"{done.name}: skipped, for something else is saved there (revision "
        f"{done.head.revision}, {done.head.length:,} messages); --on-conflict replace "
        "or rename saves it all the same"
    )


def _summary(tally: Counter[str]) -> str:
    from conversation_state.cli._showing import counted

    words = [
        f"{tally[outcome]:,} {outcome}"
        for outcome in (IMPORTED, EXTENDED, REPLACED, UNCHANGED, SKIPPED)
        if tally[outcome]
    ]
    which = f": {', '.join(words)}" if words else ""
    return f"{counted(tally.total(), 'conversation')}{which}."
