"""
The store a command works on: where it is, and what of it is meant.

What lives here: the option `--store`, `NAME@REVISION` and its like, and what
programs are told of heads and messages. What does not: the commands, and how
they end (`_ending`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote

import click

from conversation_state.cli._ending import DeclinedError, RefusedError, ending

if TYPE_CHECKING:
    # What a command imports when it runs, so that the help of all is quick.
    from conversation_state.aggregator import Aggregator, Entry
    from conversation_state.store import Head, Store

__all__ = [
    "ENVIRONMENT",
    "Asked",
    "as_json",
    "asked",
    "checked_label",
    "can_answer",
    "confirm",
    "head_data",
    "is_seen",
    "json_option",
    "message_data",
    "opened",
    "revision_or_label",
    "store_option",
]

F = TypeVar("F", bound=Callable[..., Any])

ENVIRONMENT = "CONVERSATION_STATE_STORE"


def store_option(command: F) -> F:
    """
    Give a *command* the option that says where the store is.
    """
    return click.option(
        "--store",
        "url",
        metavar="URL",
        envvar=ENVIRONMENT,
        required=True,
        show_envvar=True,
        help="Where the store is, as in sqlite:///talks.db.",
    )(command)


def json_option(command: F) -> F:
    """
    Give a *command* the option to tell programs what it tells people.
    """
    return click.option(
        "--json", "as_json", is_flag=True, help="Print JSON, an object a line."
    )(command)


@contextmanager
def opened(context: click.Context, url: str, *, new: bool = False) -> Iterator[Store]:
    """
    The store at *url*, until the end of the block; its errors end the command.

    One that is not there is made only if it may be *new*: whoever mistypes a
    path is not left with an empty file.
    """
    from conversation_state.store import open_store

    with ending(context):
        if ":" not in url:
            msg = (
                f"--store takes a URL, as in sqlite:///talks.db, and got {url!r:.80}; "
                f"did you mean sqlite:///{url:.80}?"
            )
            raise RefusedError(msg)

        scheme, _, rest = url.partition(":")
        path = unquote(rest.partition("?")[0].removeprefix("///"))
        if scheme == "sqlite" and path and not new and not _is_there(path):
            msg = f"{url}: there is no such file; `import` makes one"
            raise RefusedError(msg)

        try:
            store = open_store(url)
        except OSError as error:
            # Others than files may have a password in their URL.
            where = f"{url:.200}" if scheme == "sqlite" else f"the {scheme:.40} store"
            msg = f"{where}: {error.strerror or error}"
            raise RefusedError(msg) from None

        with store:
            yield store


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return True  # the store says what is wrong with it


class Asked(NamedTuple):
    """
    Which saved state is meant.

    Attributes:
        head: That state.

        at: How `Store.load` is told of it; None if it is the newest.

        text: How it was asked for.
    """

    head: Head
    at: int | None
    text: str

    @property
    def name(self) -> str:
        """
        What it is saved under.
        """
        return self.head.name

    def load(self, store: Store) -> Aggregator:
        """
        The state itself.
        """
        return store.load(self.name, at=self.at)


def asked(store: Store, text: str, at: str | None = None) -> Asked:
    """
    The saved state that ``NAME``, ``NAME@REVISION`` or ``NAME@LABEL`` means.

    Of several ways to read it, the one with the longest name there is: a name
    may hold an ``@``, and so may a label.

    Raises:
        RefusedError:
            If it can't be a name, or is given twice.

        NotSavedError:
            If there is none like that.
    """
    from conversation_state.errors import NotSavedError

    if not text:
        msg = "a name has 1 to 500 characters, and this one has none"
        raise RefusedError(msg)

    cut = len(text)
    unknown: NotSavedError | None = None
    while cut > 0:
        name = text[:cut]
        try:
            newest = store.head(name)
        except NotSavedError as error:
            unknown = _clearer(unknown, error)
        except ValueError as error:
            raise RefusedError(str(error)) from None
        else:
            break

        cut = text.rfind("@", 0, cut)
    else:
        if unknown is not None:
            raise unknown

        msg = f"{text!r:.80} names nothing; a name comes before the @"
        raise RefusedError(msg)

    rest = text[cut + 1 :] if cut < len(text) else None
    if rest is not None and at is not None:
        msg = f"{text!r:.80} and --at {at!r:.80} both say which revision; give one"
        raise RefusedError(msg)

    which = at if rest is None else rest
    if which is None:
        return Asked(newest, None, text)

    head = store.head(name, at=revision_or_label(newest, which))
    return Asked(head, head.revision, text)


def _clearer(first: Any, second: Any) -> Any:
    """
    Of two names that are not there, the one to be told: with near matches.
    """
    return second if first is None or (second.near and not first.near) else first


def revision_or_label(newest: Head, which: str) -> int | str:
    """
    *which* revision, for `Store.load`: ``3``, ``-1`` (the one before the
    *newest*), or a label. An ``@`` may stand in front.

    Raises:
        RefusedError:
            If it is empty, or goes back further than there is.
    """
    which = which.removeprefix("@")
    if not which:
        msg = "nothing comes after the @; expected a revision's number or a label"
        raise RefusedError(msg)

    number = _number(which)
    if number is None:
        if len(which) > _LONGEST or "\0" in which:
            msg = f"{which!r:.80} is no label: these have 1 to {_LONGEST} characters"
            raise RefusedError(msg)

        return which

    if number >= 0 and not which.startswith("-"):
        return number

    if newest.revision + number < 1:
        msg = (
            f"{newest.name!r} is at revision {newest.revision}, so there is none "
            f"{-number:,} before it"
        )
        raise RefusedError(msg)

    return newest.revision + number


_LONGEST = 500

# More digits than any revision has, and fewer than Python refuses to read.
_DIGITS = 18


def _number(text: str) -> int | None:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS):
        return None

    return int(text)


def checked_label(label: str) -> str:
    """
    *label* if a revision can be called so and found again.

    Raises:
        RefusedError:
            If it would be read as a revision's number, or is no label.
    """
    if _number(label) is not None or label.startswith("@"):
        msg = f"{label!r:.80} can't be a label: after an @ it would mean a revision"
        raise RefusedError(msg)

    if len(label) > _LONGEST or "\0" in label:
        msg = f"{label!r:.80} is no label: these have 1 to {_LONGEST} characters"
        raise RefusedError(msg)

    return label


def is_seen() -> bool:
    """
    Whether what is printed goes to a terminal.
    """
    return sys.stdout.isatty()


def can_answer() -> bool:
    """
    Whether there is somebody at a terminal to be asked.
    """
    return sys.stdin.isatty()


def confirm(question: str, *, yes: bool) -> None:
    """
    Go on only if the person at the terminal wants to, or has said so before.

    Raises:
        RefusedError:
            If there is nobody to ask.
    """
    if yes:
        return

    if not can_answer():
        msg = "this can't be undone, and there is no terminal to ask at; give --yes"
        raise RefusedError(msg)

    from conversation_state.cli._showing import plain

    if not click.confirm(plain(question), err=True):
        msg = "nothing was done"
        raise DeclinedError(msg)


# What programs are told


def as_json(data: object) -> str:
    """
    *data* on one line, in letters that every terminal has.
    """
    return json.dumps(data)


def head_data(head: Head) -> dict[str, Any]:
    """
    What programs are told of a saved state.
    """
    return {
        "name": head.name,
        "revision": head.revision,
        "label": head.label or None,
        "saved_at": head.saved_at.isoformat(timespec="milliseconds"),
        "messages": head.length,
        "ledger_entries": head.ledger_length,
        "state_id": str(head.state_id),
        "digest": head.digest,
    }


def message_data(entries: Iterable[Entry], start: int = 0) -> Iterator[dict[str, Any]]:
    """
    What programs are told of messages, which are counted from 1.
    """
    from conversation_state.codec import bare_message

    for number, entry in enumerate(entries, start + 1):
        said = json.loads(bare_message(entry.message))
        yield {"number": number, "entry_id": entry.id, "message": said}
