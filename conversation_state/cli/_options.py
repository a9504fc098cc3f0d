"""
What the commands on a store share: options, names of states, JSON, questions.

`store_command`, which opens the store of a command, resolving ``NAME@REVISION``
and its like, and the JSON of messages are here; the commands and how
they exit (`_exit`) are not.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from conversation_state._wording import escape_line, read_title, shorten_repr
from conversation_state.cli._exit import (
    BROKEN,
    DeclinedError,
    RefusedError,
    exit_on_error,
    page_output,
    print_error,
    print_line,
)
from conversation_state.cli._usage import is_sqlite

if TYPE_CHECKING:
    # A command imports these when it runs, so that --help is quick.
    from conversation_state.aggregator import Aggregator, Entry
    from conversation_state.errors import NotSavedError
    from conversation_state.store import Head, NamedHead, Store
    from conversation_state.trimming import TrimContext

ENVIRONMENT = "CONVERSATION_STATE_STORE"

# Its value is in bytes.
max_line_option = click.option(
    "--max-line",
    metavar="MIB",
    type=click.IntRange(min=1),
    default=16,
    show_default=True,
    callback=lambda _context, _option, mebibytes: mebibytes << 20,
    help="Skip lines that are longer, in MiB.",
)


class _StoreOption(click.Option):
    """An option of a command that defaults to the option of the group."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        # click asks for this only where the command itself has no --store, so that the
        # group's option stands between that and the environment.
        return ctx.find_root().params.get("url") or super().resolve_envvar_value(ctx)


_STORE: dict[str, Any] = {
    "metavar": "PATH_OR_URL",
    "envvar": ENVIRONMENT,
    "required": True,
    "show_envvar": True,
    "help": "The store: a file, as in chats.db, or the URL of one.",
}

# For a command that opens no store.
store_option = click.option("--store", "url", cls=_StoreOption, **_STORE)


def store_command(
    name: str = "",
    *,
    has_json: bool = True,
    creates: bool = False,
    has_pages: bool = False,
    kind: type[click.Command] = click.Command,
) -> Callable[[Callable[..., int | None]], click.Command]:
    """
    Make a command of a function that takes the open store and its own options.

    Adds ``--store``, which wins over that of the group, and that over the
    environment; and ``--json`` if it *has_json*, as the argument *as_json*. A
    missing file is an error, unless the command *creates* it, as it first uses it.
    If it *has_pages*, its output goes through a pager at a terminal, and there is
    ``--no-pager``. *kind* is its class.
    What the function returns is the exit status; None is 0.
    """

    def decorate(function: Callable[..., int | None]) -> click.Command:
        @click.pass_context
        def run(
            context: click.Context,
            /,
            *,
            url: str,
            no_pager: bool = not has_pages,
            **values: Any,
        ) -> None:
            status = None
            is_plain = no_pager or values.get("as_json", False)
            with (
                _open_url(context, url, new=creates) as store,
                page_output(disabled=is_plain),
            ):
                status = function(store, **values)

            context.exit(status or 0)

        # Decorators run from the last to the first, and the help lists them as written.
        own: list[click.Parameter] = getattr(function, "__click_params__", [])[::-1]
        json_option = click.Option(
            ["--json", "as_json"], is_flag=True, help="Print one JSON object per line."
        )
        pager_option = click.Option(
            ["--no-pager"], is_flag=True, help="Print without a pager."
        )
        return kind(
            name or function.__name__,
            callback=run,
            help=cleandoc(function.__doc__ or ""),
            params=[
                *[each for each in own if isinstance(each, click.Argument)],
                _StoreOption(["--store", "url"], **_STORE),
                *[each for each in own if isinstance(each, click.Option)],
                *([json_option] if has_json else []),
                *([pager_option] if has_pages else []),
            ],
        )

    return decorate


@contextmanager
def _open_url(context: click.Context, url: str, *, new: bool) -> Iterator[Store]:
    """
    The store at *url*, closed at the end of the block; errors end the command.

    A missing file is created only if *new* is true, and when the store is first used,
    so that neither a mistyped path nor a command that fails leaves an empty store
    behind.
    """
    from conversation_state.store import open_store
    from conversation_state.store.backends import find_path

    with exit_on_error(context):
        path = find_path(url)
        if path and not new and not _may_exist(path):
            from conversation_state.cli._sources import find_near

            near = find_near(str(path))
            advice = f"did you mean {near!r}?" if near else "`import` creates one"
            raise RefusedError(f"{url}: no such file; {advice}")

        if path and _is_text(path):
            raise RefusedError(
                f"{url}: this is no store; `conversation-state import {url} --store "
                "FILE` saves its conversations in one"
            )

        def open_it() -> Store:
            try:
                return open_store(url)
            except OSError as error:
                # URLs of servers may contain a password.
                where = (
                    f"{url:.200}" if path else f"the {url.partition(':')[0]:.40} store"
                )
                raise RefusedError(f"{where}: {error.strerror or error}") from None

        if path and not _may_exist(path):
            missing = _MissingStore(open_it)
            try:
                yield cast("Store", missing)
            finally:
                missing.close()

            return

        with open_it() as store:
            yield store


class _MissingStore:
    """A store whose file is created when it is first used."""

    def __init__(self, open_it: Callable[[], Store]) -> None:
        self._open_it = open_it
        self._store: Store | None = None

    def __getattr__(self, name: str) -> Any:
        if self._store is None:
            self._store = self._open_it()

        return getattr(self._store, name)

    def __contains__(self, name: str) -> bool:
        return self._store is not None and name in self._store

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


def _may_exist(path: str) -> bool:
    try:
        Path(path).stat()  # from Python 3.14 on exists() is false for any error
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True  # opening the store reports what is wrong with it

    return True


def _is_text(path: str) -> bool:
    """Whether a file begins as JSON does, or with gzip's bytes or an archive's."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(64).lstrip()
    except (OSError, ValueError):
        return False

    return start.startswith((b"[", b"{", b"\x1f\x8b", b"PK\3\4"))


class SavedState(NamedTuple):
    head: Head  # its revision
    # The argument *at* for `Store.load`; None if it is the newest.
    at: int | None
    text: str  # the argument as it was given

    @property
    def name(self) -> str:
        return self.head.name

    def load(self, store: Store) -> Aggregator:
        return store.load(self.name, at=self.at)


def find_state(store: Store, text: str, at: str | None = None) -> SavedState:
    """
    The saved state for ``NAME``, ``NAME@REVISION`` or ``NAME@LABEL``.

    Names and labels may contain an ``@``: the longest saved name that *text*
    starts with is used.
    """
    from conversation_state.errors import NotSavedError

    if not text:
        raise RefusedError("invalid name '': expected 1 to 500 characters")

    # From the longest on, because a name may itself have an @.
    cut = len(text)
    unknown: list[NotSavedError] = []
    while cut > 0:
        name = text[:cut]
        try:
            newest = store.latest(name)
        except NotSavedError as error:
            unknown.append(error)
        except ValueError as error:
            # Too long for a name, which may be what comes after the @.
            if "@" not in name:
                raise RefusedError(str(error)) from None
        else:
            break

        cut = text.rfind("@", 0, cut)
    else:
        raise _make_missing_error(store, text, unknown)

    rest = text[cut + 1 :] if cut < len(text) else None
    if rest is not None and at is not None:
        raise RefusedError(
            f"{shorten_repr(text)} and --at {shorten_repr(at)} both give a revision; "
            "give one"
        )

    which = at if rest is None else rest
    if which is None:
        return SavedState(newest, None, text)

    head = find_revision(store, newest, which)
    return SavedState(head, head.revision, text)


def find_name(store: Store, text: str, command: str, *more: str) -> SavedState:
    """The newest state of the name *text*, for a *command* that takes no revision."""
    which = find_state(store, text)
    if which.at is not None:
        asked = " ".join([command, which.name, *more])
        raise RefusedError(f"expected a NAME without a revision: {asked}")

    return which


def find_revision(store: Store, newest: Head, which: str) -> Head:
    """The revision or label *which* of the name whose *newest* revision is given."""
    from conversation_state.errors import NotSavedError

    try:
        return store.latest(newest.name, at=_read_revision(newest, which))
    except NotSavedError as error:
        if error.near:
            raise

        hint = f"`conversation-state log {shlex.quote(newest.name)}` lists what it has"
        raise RefusedError(f"{error}; {hint}") from None


def iterate_names(store: Store, prefix: str = "") -> Iterator[NamedHead]:
    """All names that start with *prefix*, read page by page."""
    after = ""
    while page := store.heads(prefix=prefix, after=after):
        yield from page
        after = page[-1].name


def _make_missing_error(
    store: Store, text: str, unknown: Sequence[NotSavedError]
) -> Exception:
    """That none of the names that *text* may begin with is saved."""
    if not unknown:
        return RefusedError(
            f"{shorten_repr(text)} has no name before the @; expected NAME@REVISION"
        )

    # The longest name is what was meant, unless another one is nearly there.
    likely = min(unknown, key=lambda each: not each.near)
    titled = [
        repr(each.name)
        for each in iterate_names(store)
        if read_title(each.notes).casefold() == text.casefold()
    ]
    if titled:
        return RefusedError(f"{likely}; it is the title of {', '.join(titled[:5])}")

    if likely.near:
        return likely

    longer = [repr(each.name) for each in store.heads(prefix=text, limit=3)]
    if longer:
        return RefusedError(f"{likely}; did you mean {' or '.join(longer)}?")

    hint = "`conversation-state ls` lists the names"
    if is_sqlite(text):
        hint = f"a store is given as --store {text}"
    elif Path(text).is_file():
        hint = f"`conversation-state import {text}` saves a file"
    elif Path(text).suffix in {".json", ".jsonl", ".html"}:
        hint = f"to write a file, give -o {text}"

    return RefusedError(f"{likely}; {hint}")


def _read_revision(newest: Head, which: str) -> int | str:
    """
    *which* revision, for `Store.load`: ``3``, ``-1`` (the one before the
    *newest*), or a label. An ``@`` may stand in front.
    """
    which = which.removeprefix("@")
    if not which:
        raise RefusedError(
            "nothing after the @; expected the number of a revision or a label"
        )

    number = _parse_revision(which)
    if number is None:
        return _check_label_text(which)

    if number >= 0 and not which.startswith("-"):
        if number > newest.revision:
            raise RefusedError(
                f"no revision {number:,}: {newest.name!r} is at revision "
                f"{newest.revision}"
            )

        return number

    if newest.revision + number < 1:
        raise RefusedError(
            f"no revision {-number:,} before the newest: {newest.name!r} is at "
            f"revision {newest.revision}"
        )

    return newest.revision + number


_MAX_LABEL_LENGTH = 500

# More digits than any revision has, and fewer than int() refuses to parse.
_MAX_DIGITS = 18


def _parse_revision(text: str) -> int | None:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS):
        return None

    return int(text)


def format_notes(notes: Mapping[str, Any]) -> str:
    return ", ".join(
        [
            f"{key}={value}"
            if isinstance(value, str)
            else f"{key}:={json.dumps(value, ensure_ascii=False)}"
            for key, value in notes.items()
        ]
    )


def parse_notes(given: Iterable[str]) -> dict[str, Any]:
    """The notes that arguments give, each as ``KEY=TEXT`` or ``KEY:=JSON``."""
    notes: dict[str, Any] = {}
    for each in given:
        key, sign, text = each.partition("=")
        is_json = key.endswith(":")
        key = key.removesuffix(":") if is_json else key
        if not sign or not key:
            raise RefusedError(f"{shorten_repr(each)}: expected KEY=TEXT or KEY:=JSON")

        try:
            notes[key] = json.loads(text) if is_json else text
        except (ValueError, RecursionError) as error:
            raise RefusedError(
                f"{shorten_repr(each)} has no JSON after := ({error})"
            ) from None

    return notes


def check_label(label: str) -> str:
    """*label* if it is valid and can't be mistaken for a revision."""
    if _parse_revision(label) is not None or label.startswith("@"):
        raise RefusedError(
            f"invalid label {shorten_repr(label)}: after an @ it would be read as a "
            "revision"
        )

    return _check_label_text(label)


def _check_label_text(label: str) -> str:
    # Bytes of a command line that are no UTF-8 arrive as halves of surrogate pairs.
    is_text = not any("\ud800" <= each <= "\udfff" for each in label)
    if not 0 < len(label) <= _MAX_LABEL_LENGTH or "\0" in label or not is_text:
        raise RefusedError(
            f"invalid label {shorten_repr(label)}: expected 1 to {_MAX_LABEL_LENGTH} "
            "characters of UTF-8, none of them NUL"
        )

    return label


def trim_to(limit: int, state: Aggregator, name: str) -> TrimContext:
    """The view of *state*, saved as *name*, that fits into *limit* tokens."""
    from conversation_state.adapters.sessions import trim_sent
    from conversation_state.counting import TokenBudget
    from conversation_state.errors import BudgetExceededError

    try:
        return trim_sent(state, TokenBudget(context_window=limit))
    except BudgetExceededError as error:
        raise DeclinedError(
            f"no valid view of {name!r} fits: the smallest needs "
            f"{error.needed_tokens:,} tokens, and --limit is {limit:,}"
        ) from None


def is_stdin_terminal() -> bool:
    return sys.stdin.isatty()


def confirm(question: str, done: str, *, yes: bool) -> None:
    """Ask *question*; *yes* answers it. A no ends the command: nothing was *done*."""
    if yes:
        return

    if not is_stdin_terminal():
        raise RefusedError(
            "this can't be undone, and stdin is no terminal to confirm it; give --yes"
        )

    # On stderr: stdout may be read by another program.
    if not click.confirm(escape_line(question), err=True):
        print_error(f"Nothing was {done}.")
        raise click.exceptions.Exit(BROKEN)


# JSON output


def print_result(data: object, *lines: str, as_json: bool) -> None:
    """Print *data* for a program, or *lines* for people."""
    if as_json:
        print_json(data)
        return

    for line in lines:
        print_line(line)


def print_json(data: object) -> None:
    print_line(json.dumps(data))


def message_data(entries: Iterable[Entry], start: int = 0) -> Iterator[dict[str, Any]]:
    from conversation_state.codec import encode_message

    for number, entry in enumerate(entries, start + 1):
        message = json.loads(encode_message(entry.message))
        yield {"number": number, "entry_id": entry.id, "message": message}
