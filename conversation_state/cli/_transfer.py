"""
The commands `import` and `export`: between files and a store.

The names that conversations get, conflicts of names, and the formats that are written
are here; reading files is in `_input`.
"""

from __future__ import annotations

import importlib
import json
import shutil
from collections import Counter
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import click

from conversation_state._wording import format_count
from conversation_state.cli._exit import (
    BROKEN,
    FAILED,
    RefusedError,
    is_stdout_terminal,
    print_document,
    print_error,
    print_line,
)
from conversation_state.cli._options import (
    find_state,
    max_line_option,
    print_json,
    store_command,
)

if TYPE_CHECKING:
    # A command imports these when it runs, so that --help is quick.
    from conversation_state.adapters import Lost
    from conversation_state.aggregator import Aggregator
    from conversation_state.cli._input import InputConversation
    from conversation_state.messages import Message
    from conversation_state.store import Head, Store

IMPORTED = "imported"
EXTENDED = "extended"
REPLACED = "replaced"
UNCHANGED = "unchanged"
SKIPPED = "skipped"


class ImportResult(NamedTuple):
    outcome: str  # one of the five words above
    name: str  # its name in the store
    head: Head  # the newest revision of that name now
    added: int  # the number of messages written


@store_command("import", creates=True)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--prefix", default="", help="Put this before every name.")
@click.option(
    "--on-conflict",
    type=click.Choice(["skip", "replace", "rename", "stop"]),
    default="skip",
    show_default=True,
    help="What to do if the name has another conversation.",
)
@click.option(
    "--strict", is_flag=True, help="Stop at the first line that can't be read."
)
@max_line_option
def import_(
    store: Store,
    *,
    files: tuple[str, ...],
    prefix: str,
    on_conflict: str,
    strict: bool,
    max_line: int,
    as_json: bool,
) -> int:
    """
    Save conversations of files in a store.

    The store is created if it does not exist. A FILE holds what `replay` reads:
    a conversation on each line, for example in OpenAI's chat format, or a state
    that `export` wrote. "-" is standard input. The name of a conversation is
    its "id", or else the name of its file and the number of its line.

    Each is saved atomically, as one revision. Importing is idempotent, so an
    interrupted import can be run again: if the name has the same conversation
    or a longer one that starts with it, nothing is saved; if it has a shorter
    one, the new messages are appended.

    If the name has a different conversation, --on-conflict decides: skip this
    one (exit status 1); replace the saved one, which stays a revision; rename
    this one to NAME-2, NAME-3 and so on; or stop.

    Messages that were erased in the store stay erased.

    Exit status: 0 if all is saved, 1 if something was skipped because of its
    name, and 2 if something could not be read, which is reported with its line.
    """
    from conversation_state.cli import _input
    from conversation_state.cli._progress import progress

    tally: Counter[str] = Counter()
    starts: dict[str, _Start] = {}
    unreadable = 0
    total = _input.total_bytes(files)
    try:
        with progress(total, doing="Importing", as_json=as_json) as bar:
            for item in _input.read_files(files, limit=max_line, advance=bar.advance):
                try:
                    found = _name_conversation(item, prefix)
                    result = _import_conversation(store, found, on_conflict, starts)
                except _CannotImportError as error:
                    unreadable += 1
                    bar.print(str(error))
                    if strict:
                        break

                    continue

                tally[result.outcome] += 1
                bar.count(tally.total())
                if as_json:
                    print_json(_result_data(found, result))
                elif result.outcome == SKIPPED:
                    bar.print(_describe_conflict(result))

                if result.outcome == SKIPPED and on_conflict == "stop":
                    break

            if not as_json:
                print_line(_format_summary(tally))
    except KeyboardInterrupt:
        print_error(
            f"Interrupted. {_format_summary(tally)} What was saved stays; "
            "run the command again."
        )
        raise

    return FAILED if unreadable else BROKEN if tally[SKIPPED] else 0


class _CannotImportError(Exception): ...


def _name_conversation(item: object, prefix: str) -> InputConversation:
    from conversation_state.cli._input import STANDARD_INPUT, UnreadableInput

    if isinstance(item, UnreadableInput):
        raise _CannotImportError(str(item))

    found: InputConversation = item  # type: ignore[assignment]  # the only other type
    stem = "stdin" if found.file == STANDARD_INPUT else Path(found.file).stem
    return found._replace(name=f"{prefix}{found.id or f'{stem}-{found.line}'}")


# The hashes of the first messages of a conversation; None for an erased one.
_Start: TypeAlias = "tuple[int | None, ...]"
_MAX_START = 8


def _import_conversation(
    store: Store, found: InputConversation, on_conflict: str, starts: dict[str, _Start]
) -> ImportResult:
    """
    The result of saving under the first name that can have the conversation; *starts*
    has the beginnings of the conversations of the names that could not have others.
    """
    # Of thousands of conversations with one id each is compared with each other: in
    # memory, as long as they begin differently.
    names = chain([found.name], (f"{found.name}-{number}" for number in count(2)))
    # A state is compared by the identities of its entries.
    own = () if found.state is not None else _hash_start(found.messages)
    for name in names:
        known = zip(starts.get(name, ()), own, strict=False)
        if any(None not in pair and pair[0] != pair[1] for pair in known):
            continue

        result = _save_as(store, found, name, on_conflict, starts)
        if result is not None:
            return result

    raise AssertionError("names never end")


def _hash_start(messages: Sequence[Message]) -> _Start:
    from conversation_state.messages import find_erasure

    return tuple(
        [
            None if find_erasure(message) else hash(message)
            for message in messages[:_MAX_START]
        ]
    )


def _save_as(
    store: Store,
    found: InputConversation,
    name: str,
    on_conflict: str,
    starts: dict[str, _Start],
) -> ImportResult | None:
    """
    The result of saving as *name*; None if it has another conversation and the
    next name is to be tried.
    """
    from conversation_state.aggregator import Aggregator
    from conversation_state.errors import StaleHeadError
    from conversation_state.store import Head

    state = found.state
    if state is None:
        state = Aggregator.new(found.messages).record_responses()

    try:
        # Save first and look afterwards: asking for a name that is not saved
        # makes the store search all names for near matches.
        head = store.save(name, state, expecting=0)
    except StaleHeadError as error:
        if not isinstance(error.actual, Head):
            raise

        head = error.actual
    except ValueError as error:
        raise _CannotImportError(
            f"{found.file}:{found.line}: invalid name; {error}"
        ) from None
    else:
        return ImportResult(IMPORTED, name, head, head.length)

    # At the head that the error had, not the newest: that one is compared below.
    saved = store.load(name, at=head)
    extended = _extend_saved(saved, found)
    if extended is saved:
        return ImportResult(UNCHANGED, name, head, 0)

    # Under the revision that was compared: another import may be running.
    if extended is not None:
        head = store.save(name, extended, expecting=head)
        return ImportResult(EXTENDED, name, head, len(extended) - len(saved))

    if on_conflict == "rename":
        starts[name] = _hash_start(saved.messages)
        return None

    if on_conflict != "replace":
        return ImportResult(SKIPPED, name, head, 0)

    # Common messages keep their entries, so that only the rest is written.
    common = _count_common(saved, found.messages)
    state = found.state or saved.fork(at=common).extend(found.messages[common:])
    head = store.save(name, state, expecting=head)
    return ImportResult(REPLACED, name, head, len(state) - common)


def _extend_saved(saved: Aggregator, found: InputConversation) -> Aggregator | None:
    """
    *saved* with the messages that only *found* has appended; *saved* itself if
    it appended nothing, and None if neither of the two starts with the other.
    """
    if found.state is not None:
        if saved.join(found.state) is saved:
            return saved

        return found.state if _is_extension(found.state, saved) else None

    messages = found.messages
    common = _count_common(saved, messages)
    if common < min(len(saved), len(messages)):
        return None

    return saved.extend(messages[common:]) if common < len(messages) else saved


def _count_common(saved: Aggregator, messages: tuple[Message, ...]) -> int:
    """
    How many messages at the start are equal; an erased message counts as equal
    to any message of its role.
    """
    from conversation_state.messages import find_erasure

    for at, (old, new) in enumerate(zip(saved, messages, strict=False)):
        is_erased = find_erasure(old) is not None and old.role == new.role
        if old != new and not is_erased:
            return at

    return min(len(saved), len(messages))


def _is_extension(state: Aggregator, saved: Aggregator) -> bool:
    # A join changes nothing, too, where the order of what both have differs.
    entries = state.entries
    return state.join(saved) is state and all(
        old.id == new.id for old, new in zip(saved.entries, entries, strict=False)
    )


def _result_data(found: InputConversation, result: ImportResult) -> dict[str, object]:
    return {
        "file": found.file,
        "line": found.line,
        "name": result.name,
        "outcome": result.outcome,
        "revision": result.head.revision,
        "messages": result.head.length,
        "added": result.added,
    }


def _describe_conflict(result: ImportResult) -> str:
    return (
        f"{result.name}: skipped; the name has another conversation (revision "
        f"{result.head.revision}, {format_count(result.head.length, 'message')}); "
        "to save it, give --on-conflict replace or rename"
    )


def _format_summary(tally: Counter[str]) -> str:
    words = [
        f"{tally[outcome]:,} {outcome}"
        for outcome in (IMPORTED, EXTENDED, REPLACED, UNCHANGED, SKIPPED)
        if tally[outcome]
    ]
    which = f": {', '.join(words)}" if words else ""
    return f"{format_count(tally.total(), 'conversation')}{which}."


# Export


_OWN_FORMAT = "json"


class _FormatChoice(click.Choice[str]):
    """The formats to write, which are imported when they are asked for."""

    def __init__(self) -> None:
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """Ours, and those of providers."""
        from conversation_state.adapters import PROVIDERS

        return (_OWN_FORMAT, *PROVIDERS)


# So many lost details of each conversation are listed; the rest is counted.
_MAX_REPORTED = 10


@store_command(has_json=False)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--format",
    "format_name",
    type=_FormatChoice(),
    default=_OWN_FORMAT,
    show_default=True,
    help="The format to write.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    default="-",
    help="Write to this file instead of stdout.",
)
@click.option("--id", "with_id", is_flag=True, help='Add the name as "id".')
def export(
    store: Store,
    *,
    names: tuple[str, ...],
    format_name: str,
    output: str,
    with_id: bool,
) -> None:
    """
    Write conversations in a provider's format, one on each line.

    json is this library's own format: it has the whole state, and `import`
    reads it. The others are the part of a provider's request that carries the
    conversation; what they can't represent is reported on stderr. --id adds the
    name for `import`, which reads openai_chat; providers don't accept it.

    Nothing is written if one of the names is not saved.
    """
    from conversation_state.cli._progress import progress

    if with_id and format_name == _OWN_FORMAT:
        raise click.UsageError(
            "--id needs a provider's --format; json already has the id of the state"
        )

    # All of them first: nothing is written if one is not there.
    states = [find_state(store, name) for name in names]
    written = []
    with progress(len(states), doing="Exporting") as bar:
        for done, each in enumerate(states, 1):
            data, lost = _dump_state(each.load(store), format_name)
            if with_id:
                data = json.dumps(
                    {"id": each.name, **json.loads(data)}, ensure_ascii=False
                )

            written.append(f"{data}\n")
            bar.advance(1)
            bar.count(done)
            for detail in lost[:_MAX_REPORTED]:
                print_error(f"{each.text}: lost in {format_name}: {detail}")

            more = len(lost) - _MAX_REPORTED
            if more > 0:
                print_error(f"{each.text}: lost in {format_name}: {more:,} more")

    if output == "-":
        for line in written:
            # UTF-8 in files and pipes; ASCII on a terminal, so that no
            # control character reaches it.
            if is_stdout_terminal():
                print_json(json.loads(line))
            else:
                print_document(line, has_line_end=True)
    else:
        replace_file(Path(output), "".join(written))


def _dump_state(state: Aggregator, format_name: str) -> tuple[str, Sequence[Lost]]:
    from conversation_state.codec import encode

    if format_name == _OWN_FORMAT:
        return encode(state).decode(), ()

    adapter = importlib.import_module(f"conversation_state.adapters.{format_name}")
    exported = adapter.dump(state)
    return json.dumps(exported.payload, ensure_ascii=False), exported.lost


def replace_file(output: Path, text: str) -> None:
    """Write the file *output* atomically: on errors an existing one is unchanged."""
    path = output
    try:
        is_new = not path.exists()
        if not is_new and not path.is_file():
            # A pipe or a device is written to: renaming would put a file in its place.
            path.write_text(text, encoding="utf-8", newline="\n")
            return

        # What is behind a link is replaced, and not the link.
        path = path.resolve()
        partial = path.with_name(f".{path.name}.partial")
        try:
            partial.touch()
            if not is_new:
                # Before the content: the file may be for the eyes of its owner.
                shutil.copymode(path, partial)

            partial.write_text(text, encoding="utf-8", newline="\n")
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise RefusedError(f"{output}: {error.strerror}") from None
