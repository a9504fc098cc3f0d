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
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import click

from conversation_state._wording import format_count, read_title, shorten_repr
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
    from conversation_state.cli._options import SavedState
    from conversation_state.cli._progress import ProgressBar
    from conversation_state.messages import Message
    from conversation_state.store import Head, Store
    from conversation_state.tree import MessageTree, Node

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


class _InputFormat(click.ParamType[str]):
    """The formats that are read, which are imported when one is asked for."""

    name = "NAME"

    def convert(
        self,
        value: str,
        param: click.Parameter | None,  # noqa: ARG002 - click's
        ctx: click.Context | None,  # noqa: ARG002 - the same
    ) -> str:
        from difflib import get_close_matches

        from conversation_state.cli._formats import FORMATS

        if value in FORMATS:
            return value

        near = get_close_matches(value, FORMATS, 1)
        valid = f"did you mean {near[0]!r}? Valid" if near else "valid"
        raise RefusedError(
            f"unknown format {shorten_repr(value)}; {valid} formats are "
            f"{', '.join(FORMATS)}"
        )


class _HelpWithFormats(click.Command):
    """The command, whose help lists the formats."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from conversation_state.cli._formats import FORMATS

        with formatter.section("Formats"):
            formatter.write_dl([*FORMATS.items()])

        super().format_epilog(ctx, formatter)


@store_command("import", creates=True, kind=_HelpWithFormats)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--format",
    "format_name",
    type=_InputFormat(),
    help="The format; it is recognised if this is not given.",
)
@click.option(
    "--from",
    "source",
    type=click.Choice(["langchain", "langgraph", "openai-agents"]),
    help="The framework that wrote FILE, a SQLite file; see below.",
)
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
    format_name: str | None,
    source: str | None,
    prefix: str,
    on_conflict: str,
    strict: bool,
    max_line: int,
    as_json: bool,
) -> int:
    """
    Save conversations of files in a store.

    The store is created if it does not exist. A FILE is a JSON document, or has a
    conversation, or a message of one, on each line, in one of the formats below;
    also compressed with gzip, or several in a zip archive. "-" is standard input.
    The name of a conversation is its id, or else the name of its file and the
    number of its line, or its position in a list. What stands beside its messages
    becomes notes of the name.

    With --from, a FILE is the SQLite file in which a framework keeps conversations:
    langgraph's SqliteSaver, the threads with their branches; openai-agents'
    SQLiteSession; langchain's SQLChatMessageHistory. It is opened read-only and read
    as data; nothing in it is run.

    Prints the names, of many the first ten. Each conversation is saved atomically,
    as one revision, or one for each branch. Importing
    is idempotent, so an interrupted import can be run again: if the name has the
    same conversation or a longer one that starts with it, nothing is saved; if it
    has a shorter one, the new messages are appended, and new branches beside
    those there are; its notes stay, and new ones are added.

    If the name has a different conversation, --on-conflict decides: skip this
    one (exit status 1); replace the saved one, which stays a revision; rename
    this one to NAME-2, NAME-3 and so on; or stop.

    Messages that were erased in the store stay erased.

    Exit status: 0 if all is saved, 1 if something was skipped because of its
    name, and 2 if something could not be read, which is reported with its line.
    """
    from conversation_state.cli import _input
    from conversation_state.cli._progress import progress

    if source and format_name:
        raise click.UsageError("--from and --format: expected one of them, got both")

    tally: Counter[str] = Counter()
    names: Counter[str] = Counter()
    total = _input.total_bytes(files)
    try:
        with progress(total, doing="Importing", as_json=as_json) as bar:
            # What comes through a pipe may wait for what becomes of it.
            results = _import_each(
                store,
                _read_source(source, files, bar)
                if source
                else _input.read_files(
                    files, limit=max_line, advance=bar.advance, format=format_name or ""
                ),
                prefix,
                on_conflict,
                batched=total is not None,
            )
            ends = {SKIPPED} if on_conflict == "stop" else set()
            unreadable = _report_each(
                bar, results, tally, names, ends, strict=strict, as_json=as_json
            )
            if not as_json:
                _print_saved(store, tally, names, unreadable)
    except KeyboardInterrupt:
        print_error(
            f"Interrupted. {_format_summary(tally)} What was saved stays; "
            "run the command again."
        )
        raise

    return FAILED if unreadable else BROKEN if tally[SKIPPED] else 0


# Not within `with`, where an interrupt of a loop may be missed: see
# tests/test_interrupted_loops.py.
def _report_each(
    bar: ProgressBar,
    results: Iterable[_Outcome],
    tally: Counter[str],
    names: Counter[str],
    ends: Container[str],
    *,
    strict: bool,
    as_json: bool,
) -> int:
    """Report each outcome, up to one of *ends*; how many could not be read."""
    unreadable = 0
    for found, result, remarks in results:
        if isinstance(result, _CannotImportError):
            bar.print(str(result))
            unreadable += result.is_failure
            if strict and result.is_failure:
                break

            continue

        _report_remarks(bar, result, remarks)
        tally[result.outcome] += 1
        bar.count(tally.total())
        if as_json:
            print_json(_result_data(found, result))
        else:
            _report_result(bar, result, names)

        if result.outcome in ends:
            break

    return unreadable


def _read_source(
    source: str, files: Sequence[str], bar: ProgressBar
) -> Iterator[object]:
    from conversation_state.cli import _frameworks

    return _frameworks.read_files(source, files, advance=bar.advance)


class _CannotImportError(Exception):
    is_failure = True  # not so of what is left out on purpose


# A conversation, or None; what came of it, or why nothing did; and remarks on it.
_Outcome: TypeAlias = "tuple[Any, ImportResult | _CannotImportError, list[str]]"
# So much is saved in one transaction.
_MAX_BATCH, _MAX_BATCH_BYTES = 64, 4 << 20


def _import_each(
    store: Store,
    items: Iterable[object],
    prefix: str,
    on_conflict: str,
    *,
    batched: bool,
) -> Iterator[_Outcome]:
    """What comes of each of *items*, in order; some are saved at once if *batched*."""
    starts: dict[str, _Start] = {}
    batch: dict[str, InputConversation] = {}
    size = 0
    for item in items:
        found = _name_conversation(store, item, prefix)
        if isinstance(found, _CannotImportError):
            yield from _import_batch(store, batch, on_conflict, starts)
            batch, size = {}, 0
            yield None, found, []
            continue

        if found.name in batch:
            yield from _import_batch(store, batch, on_conflict, starts)
            batch, size = {}, 0

        batch[found.name] = found
        size += found.size
        if not batched or len(batch) == _MAX_BATCH or size > _MAX_BATCH_BYTES:
            yield from _import_batch(store, batch, on_conflict, starts)
            batch, size = {}, 0

    yield from _import_batch(store, batch, on_conflict, starts)


def _import_batch(
    store: Store,
    batch: dict[str, InputConversation],
    on_conflict: str,
    starts: dict[str, _Start],
) -> Iterator[_Outcome]:
    from conversation_state.errors import StaleHeadError

    # One transaction for many new names takes a fraction of the time of one for each.
    if len(batch) > 1:
        fitted = {name: _fit_notes(found.notes, {}) for name, found in batch.items()}
        try:
            heads = store.save_all(
                {name: _make_state(found) for name, found in batch.items()},
                expecting=dict.fromkeys(batch, 0),
                notes={name: kept for name, (kept, _) in fitted.items() if kept},
            )
        except (StaleHeadError, ValueError):
            pass  # one after another, then
        else:
            for name, found in batch.items():
                result = ImportResult(IMPORTED, name, heads[name], heads[name].length)
                yield found, result, _list_remarks(found, fitted[name][1])

            return

    for found in batch.values():
        try:
            result = _import_conversation(store, found, on_conflict, starts)
            yield found, result, _keep_notes(store, found, result)
        except _CannotImportError as error:
            yield None, error, []


def _make_state(found: InputConversation) -> Aggregator | MessageTree:
    from conversation_state.aggregator import Aggregator

    if found.state is not None:
        return found.state

    if found.tree is not None:
        return found.tree

    return Aggregator.new(found.messages).record_responses()


def _name_conversation(
    store: Store, item: object, prefix: str
) -> InputConversation | _CannotImportError:
    from conversation_state.cli._input import STANDARD_INPUT, UnreadableInput

    if isinstance(item, UnreadableInput):
        reason = str(item)
        if item.file and item.file in store and not Path(item.file).exists():
            reason += "; it is a name in the store, as `conversation-state show` takes"

        error = _CannotImportError(reason)
        error.is_failure = item.is_error
        return error

    found: InputConversation = item  # type: ignore[assignment]  # the only other type
    name = found.file.removesuffix(".gz")
    stem = "stdin" if found.file == STANDARD_INPUT else Path(name).stem
    number = found.name.rpartition(":")[2].removeprefix("line ")
    return found._replace(name=f"{prefix}{found.id or f'{stem}-{number}'}")


def _keep_notes(
    store: Store, found: InputConversation, result: ImportResult
) -> list[str]:
    """
    Note what the file has besides messages; the remarks on *found*. Where the name had
    the conversation already, a note that is there stays: it may be its user's.
    """
    if result.outcome in {SKIPPED, UNCHANGED} or not found.notes:
        return _list_remarks(found)

    saved, notes = store.notes(result.name), found.notes
    if result.outcome == EXTENDED:
        notes = {key: notes[key] for key in notes if key not in saved}

    kept, left_out = _fit_notes(notes, saved)
    try:
        store.annotate(result.name, kept)
    except ValueError as error:
        left_out.append(f"{', '.join(sorted(kept))}: {error}")

    return _list_remarks(found, left_out)


def _list_remarks(found: InputConversation, left_out: Iterable[str] = ()) -> list[str]:
    """What is not kept as it was, with *left_out*; and what is odd, but kept."""
    changed = [f"not kept as it was: {each}" for each in (*found.mended, *left_out)]
    return changed + [f"note: {each}" for each in found.noticed]


def _fit_notes(
    notes: Mapping[str, Any], saved: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The new *notes* for which there is room beside *saved*; what is left out."""
    new = {
        key: value
        for key, value in notes.items()
        if value not in (None, "", [], {}, ()) and saved.get(key) != value
    }
    # The smallest first, so that as many as possible are kept.
    sizes = {key: len(json.dumps(value, default=dict)) for key, value in new.items()}
    room = _MAX_NOTES - (len(json.dumps(dict(saved), default=dict)) if saved else 0)
    kept: dict[str, Any] = {}
    left_out = []
    for key in sorted(new, key=sizes.__getitem__):
        room -= sizes[key] + len(key) + 8
        if room < 0:
            left_out.append(
                f"{key}: {sizes[key]:,} bytes are more than the notes of a name hold"
            )
        else:
            kept[key] = new[key]

    return kept, left_out


# What `Store.annotate` takes for a name, in bytes.
_MAX_NOTES = 16_000


def _report_result(bar: ProgressBar, result: ImportResult, names: Counter[str]) -> None:
    """Print why a conversation is not saved, or count the name that it is under."""
    if result.outcome == SKIPPED:
        bar.print(_describe_conflict(result))
    elif result.name in names or len(names) < _MAX_REPORTED:
        names[result.name] += 1


def _print_saved(
    store: Store, tally: Counter[str], names: Counter[str], unreadable: int
) -> None:
    """Print how many conversations there were, and the counted names."""
    summary = _format_summary(tally)
    if unreadable and not tally:
        summary = "Nothing was saved."
    elif unreadable:
        summary = f"{summary} What could not be read is not saved."

    print_line(summary)
    width = max(map(len, names), default=0)
    for name in names:
        title = read_title(store.notes(name))
        print_line(f"  {name.ljust(width)}  {title}".rstrip())

    more = tally.total() - tally[SKIPPED] - names.total()
    if more:
        print_line(f"  and {more:,} more: conversation-state ls")


def _report_remarks(
    bar: ProgressBar, result: ImportResult, remarks: Sequence[str]
) -> None:
    for remark in remarks[:_MAX_REPORTED]:
        bar.print(f"{result.name}: {remark}")

    more = len(remarks) - _MAX_REPORTED
    if more > 0:
        bar.print(f"{result.name}: {more:,} more such remarks")


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
    from conversation_state.tree import MessageTree

    try:
        # Save first and look afterwards: asking for a name that is not saved
        # makes the store search all names for near matches.
        head = _save_new(store, found, name)
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

    if found.tree is not None or found.is_tree:
        tree = found.tree or MessageTree.of(Aggregator.new(found.messages))
        return _save_grown_tree(store, tree, name, head, on_conflict)

    return _save_grown(store, found, name, head, on_conflict, starts)


def _save_new(store: Store, found: InputConversation, name: str) -> Head:
    from conversation_state.tree import MessageTree

    state = _make_state(found)
    kept, _ = _fit_notes(found.notes, {})
    if kept:
        # At once: if it is imported again, its notes are not looked at. Of those that a
        # name can't have `_keep_notes` reports.
        with suppress(ValueError):
            heads = store.save_all(
                {name: state}, expecting={name: 0}, notes={name: kept}
            )
            return heads[name]

    if isinstance(state, MessageTree):
        return store.save_tree(name, state, expecting=0)

    return store.save(name, state, expecting=0)


def _save_grown(  # noqa: PLR0917 - as `_save_as`
    store: Store,
    found: InputConversation,
    name: str,
    head: Head,
    on_conflict: str,
    starts: dict[str, _Start],
) -> ImportResult | None:
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


def _save_grown_tree(
    store: Store, tree: MessageTree, name: str, head: Head, on_conflict: str
) -> ImportResult | None:
    """
    The result of saving what *tree* has and the history of *name* has not, as branches
    of that; they have another conversation if not even a first message is the same.
    """
    saved = store.message_tree(name)
    grown = _graft_tree(saved, tree)
    if grown is None:
        if on_conflict == "rename":
            return None

        if on_conflict != "replace":
            return ImportResult(SKIPPED, name, head, 0)

        new = store.save_tree(name, tree, expecting=head)
        return ImportResult(REPLACED, name, new, len(tree))

    # An answer that was continued is new, and makes the tree no longer. Which branch is
    # shown is nothing new: the copy may be the older one.
    known = {node.entry.id for node in saved.nodes}
    if known.issuperset(node.entry.id for node in grown.nodes):
        return ImportResult(UNCHANGED, name, head, 0)

    new = store.save_tree(name, grown, expecting=head)
    return ImportResult(EXTENDED, name, new, len(grown) - len(saved))


def _graft_tree(saved: MessageTree, tree: MessageTree) -> MessageTree | None:
    """
    *saved* with the messages of *tree* that it lacks, and the same one shown; None if
    it has none of them.
    """
    if any(node.id in saved for node in tree.nodes[:1]):
        # The format has identities of its own.
        return _show_same(saved.add(*tree.states, tree.shown), saved, tree.head)

    children: dict[str | None, list[Node]] = {}
    for node in saved.nodes:
        children.setdefault(node.parent, []).append(node)

    places: dict[str | None, str | None] = {None: None}
    states: list[Aggregator] = []
    grown = saved
    for node in tree.nodes:
        parent = places[node.parent]
        for other in children.get(parent, ()):
            if _is_same(other, node):
                places[node.id] = other.id
                break
        else:
            if node.parent is None and saved.nodes and not any(places.values()):
                return None

            state = grown.path(parent).add(node.message).record_responses()
            grown = grown.add(state)
            places[node.id] = grown.head
            states.append(state)

    return _show_same(grown, saved, places.get(tree.head))


def _show_same(
    grown: MessageTree, saved: MessageTree, shown: str | None
) -> MessageTree:
    """
    *grown* with the message *shown* at its end, or what *saved* shows if that only goes
    on from there.
    """
    # An answer that was saved half is not there any more.
    if shown is not None and shown in saved and saved.head in grown:
        way = saved.path(shown).entries
        shown = saved.head if saved.present.entries.take(len(way)) == way else shown

    return grown.switch(shown) if shown is not None and shown != grown.head else grown


def _is_same(old: Node, new: Node) -> bool:
    """
    Whether *new* is what was saved as *old*; what its format notes of it, such as its
    position, may have changed.
    """
    from conversation_state.messages import find_erasure
    from conversation_state.tree import ui_id_of

    one, other = old.message, new.message
    if one == other or (find_erasure(one) is not None and one.role == other.role):
        return True

    ids = [
        ui_id_of(node.entry)
        for node in (old, new)
        if node.entry.id != ui_id_of(node.entry)
    ]
    fields = ("role", "parts", "tool_calls", "tool_call_id")
    return len({*ids}) < 2 and all(  # noqa: PLR2004 - two ids are two messages
        getattr(one, field, None) == getattr(other, field, None) for field in fields
    )


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
        """Ours, those of providers, and those of coding agents."""
        from conversation_state.adapters import PROVIDERS, sessions

        return (_OWN_FORMAT, *PROVIDERS, *sessions.WRITTEN)


# So many names, and lost details of each conversation, are listed; the rest is counted.
_MAX_REPORTED = 10


@store_command(has_json=False)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--format",
    "format_name",
    metavar="FORMAT",
    type=_FormatChoice(),
    default=_OWN_FORMAT,
    show_default=True,
    help="The format to write: json, which has the whole state, a provider's, such as "
    "openai_chat, or a coding agent's, such as codex; an unknown one is answered with "
    "all.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    default="-",
    help="Write to this file instead of stdout; only its user can read a new one.",
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
    Write conversations in a provider's format.

    Each is on a line of its own. json is this library's own format, which `import`
    reads: it has the whole state, without its name, notes and other branches. Those of
    providers are the part of a request that carries the conversation, without errors
    that a coding agent only showed; what they can't represent is reported on stderr.
    --id adds the name for `import`, which reads openai_chat; providers don't accept
    it.

    claude_code, codex, codex_items, opencode, pi and sts are sessions of coding
    agents, as `convert` writes them: of one NAME, with its branches.

    Nothing is written if one of the names is not saved.
    """
    from conversation_state.cli._progress import progress

    if with_id and format_name == _OWN_FORMAT:
        raise click.UsageError(
            "--id needs a provider's --format; json already has the id of the state"
        )

    # All of them first: nothing is written if one is not there.
    states = [find_state(store, name) for name in names]
    if is_session(format_name):
        if len(states) > 1 or with_id:
            raise click.UsageError(
                f"{format_name} is the file of one NAME, without --id"
            )

        payload, lost = _dump_saved(store, states[0], format_name)
        print_lost(states[0].text, format_name, lost)
        print_payload(payload, output)
        return

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
            print_lost(each.text, format_name, lost)

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
    from conversation_state.adapters.sessions import without_unsent
    from conversation_state.codec import encode

    if format_name == _OWN_FORMAT:
        return encode(state).decode(), ()

    adapter = importlib.import_module(f"conversation_state.adapters.{format_name}")
    exported = adapter.dump(without_unsent(state))
    return json.dumps(exported.payload, ensure_ascii=False), exported.lost


def is_session(format_name: str) -> bool:
    """Whether this is the format of a coding agent."""
    from conversation_state.adapters import sessions

    return format_name in sessions.WRITTEN


def _dump_saved(
    store: Store, saved: SavedState, format_name: str
) -> tuple[Any, Sequence[Lost]]:
    from conversation_state.adapters import Lost
    from conversation_state.adapters.sessions import dump_session
    from conversation_state.cli._formats import LEFT_OUT

    # A revision is one branch; the name has all of them.
    is_newest = saved.at is None
    session = store.message_tree(saved.name) if is_newest else saved.load(store)
    notes = store.notes(saved.name)
    title = read_title(notes)
    made = dump_session(session, format_name, title=title)  # type: ignore[arg-type]  # one of these
    counts = notes.get(LEFT_OUT)
    left_out = [
        Lost(f"notes.{LEFT_OUT}", kind, f"{format_count(count, 'line')} not imported")
        for kind, count in (counts.items() if isinstance(counts, Mapping) else ())
        if isinstance(count, int)
    ]
    return made.payload, (*left_out, *made.lost)


def print_lost(text: str, format_name: str, lost: Sequence[Lost]) -> None:
    """Report what is lost of *text* in a format."""
    for detail in lost[:_MAX_REPORTED]:
        print_error(f"{text}: lost in {format_name}: {detail}")

    if more := len(lost[_MAX_REPORTED:]):
        print_error(f"{text}: lost in {format_name}: {more:,} more")


def print_payload(payload: Any, output: str) -> None:
    """Write the lines of a session, or a document, to stdout or to a file."""
    lines = payload if isinstance(payload, list) else [payload]
    if output == "-" and is_stdout_terminal():
        for line in lines:
            print_json(line)

        return

    text = "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in lines)
    if output == "-":
        print_document(text, has_line_end=True)
    else:
        replace_file(Path(output), text)


def replace_file(output: Path, text: str) -> None:
    """
    Write the file *output* atomically: on errors an existing one is unchanged. Only its
    user can read a new one, as a new store.
    """
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
            # Before the content.
            partial.touch(mode=0o600)
            if not is_new:
                shutil.copymode(path, partial)

            partial.write_text(text, encoding="utf-8", newline="\n")
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        reason = error.strerror
        if not output.parent.is_dir():
            reason = f"there is no folder {str(output.parent)!r}"

        raise RefusedError(f"{output}: {reason}") from None
