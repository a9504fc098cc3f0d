"""
What to write after a mistake on the command line, which click does not say.

Mistakes in what a command was given are found by click, and described here; those in
what it reads are errors of the command itself.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from conversation_state._wording import escape_line, shorten_repr

# What an argument too many was meant as, by command.
_MEANT = {
    "convert": "the format is an option: --to {word}",
    "cost": "models are those of the ledger",
    "diff": "it compares two states",
    "gc": "it is about the whole store",
    "label": "put a label with spaces in quotes",
    "ls": "`conversation-state log {word}` lists the revisions of a name",
    "names": "`conversation-state log {word}` lists the revisions of a name",
    "page": "the file to write is an option: -o {word}",
    "serve": "it is about the whole store",
    "strict-provider": "an answer is an option: --answer {word}",
    "trim": "the limit is an option: --limit {word}",
    "verify": "it is about the whole store",
}

# What other programs call a command of ours.
_COMMANDS = {
    "cat": "show",
    "compare": "diff",
    "help": "--help",
    "history": "log",
    "html": "page",
    "load": "import",
    "price": "cost",
    "remove": "delete",
    "rm": "delete",
    "undo": "rollback",
    "version": "--version",
    "web": "serve",
}

_EXTRA = re.compile(r"Got unexpected extra arguments? \((.*)\)", re.DOTALL)


@contextmanager
def advise_on_mistakes(group: click.Group, words: Sequence[str]) -> Iterator[None]:
    """
    Add to click's errors in the block what to write; *words* were given to *group*.
    """
    try:
        yield
    except click.UsageError as error:
        # Of an option without its value click does not know the command.
        named = [group.commands[word] for word in words if word in group.commands]
        command = error.ctx.command if error.ctx else [*named, group][0]
        text = _describe_mistake(error, command, words)
        if text is None:
            raise

        epilog = (command.epilog or "").strip().splitlines()
        text = f"{text}\nExample: {epilog[-1].strip()}" if epilog else text
        raise click.UsageError(text, error.ctx) from None


def _describe_mistake(  # noqa: PLR0911 - one for each kind of mistake
    error: click.UsageError, command: click.Command, words: Sequence[str]
) -> str | None:
    """The error as one sentence, with what to do; None if it says that itself."""
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return _describe_missing(error.param, words)

    if isinstance(error, click.NoSuchOption):
        return _describe_option(error, command, words)

    extra = _EXTRA.match(error.message)
    if extra is not None and error.ctx is not None:
        return _describe_extra(extra[1], error.ctx, words)

    if isinstance(error, (click.BadParameter, click.BadOptionUsage)):
        return re.sub(
            "a valid (integer|float) range", "a number", error.format_message()
        )

    if isinstance(command, click.Group) and error.message == "Missing command.":
        last = words[-1] if words else ""
        if last in {*command.commands, "ls"}:
            return f"expected a store after --store, got the command {last!r}"

        return "expected a command, got none; --help lists them"

    return None


def _describe_missing(param: click.Parameter, words: Sequence[str]) -> str:
    if param.name == "url":
        stores = [_quote_word(word) for word in words if is_sqlite(word)]
        hint = f"if it is {stores[0]}, give" if stores else "give"
        store = stores[0] if stores else "FILE, or set CONVERSATION_STATE_STORE"
        return f"expected a store, got none; {hint} --store {store}"

    if isinstance(param, click.Option):
        choices = getattr(param.type, "choices", ())
        listed = f", one of {', '.join(choices)}" if choices else ""
        return f"expected {param.opts[0]}{listed}"

    name = param.human_readable_name
    is_saved = name in {"NAME", "NAME...", "A"}
    hint = "; `conversation-state ls` lists the names" if is_saved else ""
    return f"expected {name}, got none{hint}"


def _describe_option(
    error: click.NoSuchOption, command: click.Command, words: Sequence[str]
) -> str:
    option = error.option_name
    if option == "--store":
        hint = "leave --store out"
        if command.name == "convert":
            hint = "`conversation-state export` writes what a store has"

        return f"{command.name} reads files and opens no store; {hint}"

    if isinstance(command, click.Group):
        for word in words:
            known = command.commands.get("names" if word == "ls" else word)
            if known and any(option in param.opts for param in known.params):
                return f"{option} is an option of {word}, and stands after that word"

    return error.format_message()


def _describe_extra(extra: str, context: click.Context, words: Sequence[str]) -> str:
    command = context.command
    takes = [
        param.human_readable_name
        for param in command.params
        if isinstance(param, click.Argument)
    ]
    stores = [word for word in words if is_sqlite(word)]
    if stores and stores[0] in extra.split():
        store = _quote_word(stores[0])
        meant = f"if {store} is the store, give --store {store}"
    elif takes == ["NAME"] and extra.isdigit() and command.name != "trim":
        meant = f"revision {extra} of a name is NAME@{extra}"
    else:
        meant = _MEANT.get(context.info_name or "", "").format(word=_quote_word(extra))

    got = f"got {shorten_repr(extra)}"
    what = (
        f"{context.info_name} takes {' '.join(takes)}, and {got} as well"
        if takes
        else f"{context.info_name} takes no argument, {got}"
    )
    return f"{what}; {meant}" if meant else what


def describe_command(word: str, near: Sequence[str]) -> str:
    """That there is no command *word*; *near* are those with nearly that name."""
    what, file = f"no such command {shorten_repr(word)}", _quote_word(word)
    if is_sqlite(word):
        return f"{what}; for a store: conversation-state ls --store {file}"

    if Path(word).is_file():
        return f"{what}; for a file: conversation-state import {file} --store FILE"

    likely = _COMMANDS.get(word, near[0] if near else "")
    hint = f"did you mean {likely!r}?" if likely else "--help lists the commands"
    return f"{what}; {hint}"


def _quote_word(word: str) -> str:
    return escape_line(shlex.quote(word))


def is_sqlite(path: str) -> bool:
    """Whether there is such a file, and it begins as SQLite's do."""
    try:
        with Path(path).open("rb") as file:
            return file.read(15) == b"SQLite format 3"
    except (OSError, ValueError):
        return False
