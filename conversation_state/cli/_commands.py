"""
The commands, as click sees them.

The group, the order of its help, and the command `replay` are here. Not here: the
commands on a store (`_transfer`, `_inspect`, `_page`, `_cost`, `_maintenance`), what a
replay does (`replay`), reading conversations from files
(`_input`), and errors and exit statuses (`_exit`).
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import click

from conversation_state.cli._convert import convert
from conversation_state.cli._cost import cost
from conversation_state.cli._exit import (
    BROKEN,
    FAILED,
    exit_on_error,
    print_line,
    print_text,
)
from conversation_state.cli._inspect import diff, log, names, show, trim
from conversation_state.cli._maintenance import (
    annotate,
    backup,
    delete,
    erase,
    fork,
    gc,
    label,
    restore,
    rollback,
    verify,
)
from conversation_state.cli._options import max_line_option
from conversation_state.cli._page import page, serve, strict_provider, tree
from conversation_state.cli._transfer import export, import_
from conversation_state.cli._usage import advise_on_mistakes, describe_command


class _SectionedGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return [str(each.name) for each in _list_commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        # What a shell calls listing.
        return super().get_command(ctx, "names" if cmd_name == "ls" else cmd_name)

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        words = [*args]
        with advise_on_mistakes(self, words):
            context = super().make_context(info_name, args, parent, **extra)

        context.obj = words
        return context

    def invoke(self, ctx: click.Context) -> Any:
        with advise_on_mistakes(self, ctx.obj):
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            near = get_close_matches(name, [*self.list_commands(ctx), "ls"], 1)
            ctx.fail(describe_command(name, near))

        return super().resolve_command(ctx, args)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        widest = max(map(len, self.list_commands(ctx)))
        # Less the indentation and the gap between the columns, so that click shortens a
        # help text itself and does not wrap it.
        room = formatter.width - widest - 6
        for title, section in _SECTIONS.items():
            rows = [
                (f"{each.name:{widest}}", each.get_short_help_str(room))
                for each in section
            ]
            with formatter.section(title):
                formatter.write_dl(rows)


@click.group(
    cls=_SectionedGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Example:
  conversation-state import examples/travel_desk.jsonl --store chats.db
  conversation-state ls --store chats.db""",
)
@click.version_option(
    package_name="conversation-state", message="conversation-state %(version)s"
)
@click.option(
    "--store",
    "url",
    metavar="PATH_OR_URL",
    help="The store: chats.db, or the URL of one; also after the command.",
)
def cli(url: str | None) -> None:
    """
    Conversations with language models, as values.

    A store is a file of conversations, each saved under a name; every saved
    state can be restored. Give it as --store, before or after the command, or as
    CONVERSATION_STATE_STORE: a path, as in chats.db, or a URL. NAME@3 is
    revision 3 of NAME, NAME@-1 the one before the newest, NAME@LABEL the one with
    that label, NAME the newest.

    Exit status: 0 on success; 1 if a check failed or a question was answered
    with no; 2 if something could not be read, written, found or parsed; 130 if
    interrupted; 141 if the pipe that reads the output was closed.
    """


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--window",
    metavar="TOKENS",
    type=click.IntRange(min=1),
    default=8_000,
    show_default=True,
    help="The context window to trim for.",
)
@click.option(
    "--max-output",
    metavar="TOKENS",
    type=click.IntRange(min=0),
    default=1_000,
    show_default=True,
    help="Tokens of the window to reserve for the answer.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON object for each conversation."
)
@max_line_option
@click.pass_context
def replay(
    context: click.Context,
    files: tuple[str, ...],
    *,
    window: int,
    max_output: int,
    as_json: bool,
    max_line: int,
) -> None:
    """
    Run conversations through all operations, and check them.

    Each line of a FILE holds one conversation in OpenAI's chat format: an
    object with "messages" and optionally an "id", or a list of messages; or in
    ShareGPT's: an object with "conversations"; or a state that `export` wrote.
    Lines of one message each are one conversation, up to a blank line. "-" is
    standard input.

    A conversation is built message by message, and every state is kept. It is
    rolled back to the last user turn, forked into two branches there, and
    joined again; trimmed to --window minus --max-output, with tokens estimated
    as a quarter of the characters; encoded to bytes and decoded. Finally every
    kept state is compared with what it contained when it was made.

    Bytes per state is the memory that keeping a state takes beyond its
    messages, measured by tracemalloc in a second, untimed run. Time is that of
    the first run, without reading the file and without the checks. "no view"
    means that no valid view fits into the budget.

    Exit status: 0 on success, 1 if a check failed, and 2 if something could not
    be read, which is reported on stderr while the rest is replayed.
    """
    if max_output >= window:
        raise click.UsageError(
            f"--max-output {max_output} must be less than --window {window}; "
            "raise --window or lower --max-output."
        )

    with exit_on_error(context):
        context.exit(_replay_files(files, window, max_output, as_json, max_line))


def _replay_files(
    files: tuple[str, ...], window: int, max_output: int, as_json: bool, max_line: int
) -> int:
    from conversation_state.cli import _input
    from conversation_state.cli._progress import progress
    from conversation_state.cli.replay import Replay, format_json, format_report, replay
    from conversation_state.counting import TokenBudget

    budget = TokenBudget(context_window=window, max_output_tokens=max_output)
    rows: list[tuple[str, Replay]] = []
    done = broken = unreadable = 0
    total = _input.total_bytes(files)
    with progress(total, doing="Replaying", as_json=as_json) as bar:
        for item in _input.read_files(files, limit=max_line, advance=bar.advance):
            if isinstance(item, _input.UnreadableInput):
                unreadable += item.is_error
                bar.print(str(item))
                continue

            outcome = replay(item.messages, budget)
            done += 1
            broken += bool(outcome.broken)
            bar.count(done)
            if as_json:
                print_line(format_json(item, outcome))
            else:
                rows.append((item.name, outcome))

    if rows:
        print_text("\n".join(format_report(rows, files)))

    if broken:
        return BROKEN

    return FAILED if unreadable else 0


# In the order of use.
_SECTIONS: Mapping[str, tuple[click.Command, ...]] = {
    "Files": (replay, import_, export, convert),
    "Inspect": (names, log, tree, show, diff, trim, cost),
    "Pages": (page, serve),
    "Revisions": (label, annotate, fork, rollback),
    "Maintenance": (verify, backup, restore, gc, erase, delete),
    "Tests": (strict_provider,),
}


# What the help of each command ends with. They run in this order, with a session of
# a coding agent in the file.
EXAMPLES = {
    "replay": "examples/travel_desk.jsonl",
    "import": "examples/travel_desk.jsonl --store chats.db",
    "convert": "session.jsonl --to codex",
    "names": "--store chats.db",
    "log": "oslo-cancelled --store chats.db",
    "tree": "oslo-cancelled --store chats.db",
    "show": "oslo-cancelled@1 --store chats.db",
    "diff": "oslo-cancelled kyoto-question --store chats.db",
    "trim": "oslo-cancelled --limit 8000 --store chats.db",
    "cost": "oslo-cancelled --store chats.db",
    "export": "oslo-cancelled --format anthropic --store chats.db",
    "page": "oslo-cancelled -o oslo.html --store chats.db",
    "serve": "--store chats.db",
    "strict-provider": "--call weather --answer 'It rains.'",
    "label": "oslo-cancelled booked --store chats.db",
    "annotate": "oslo-cancelled title=Norway --store chats.db",
    "fork": "oslo-cancelled@booked oslo-again --store chats.db",
    "rollback": "oslo-cancelled booked --store chats.db",
    "verify": "--store chats.db",
    "backup": "copy.db --store chats.db",
    "restore": "copy.db --store restored.db",
    "erase": "oslo-again 1 --reason asked --yes --store chats.db",
    "delete": "oslo-cancelled --yes --store chats.db",
    "gc": "--store chats.db",
}


_HEAD = (
    "name, revision, parent, labels, notes, saved_at, messages, ledger_entries, "
    "state_id, digest"
)

# The keys of each object that `--json` prints, for the help of that option. Programs
# read them: keys are only ever added.
_KEYS = {
    "names": f"{_HEAD}, name_notes",
    "log": f"{_HEAD}, tokens, spent_tokens; a move has name, label, before, after, "
    "moved_at",
    "tree": _HEAD,
    "show": "number, entry_id, message",
    "diff": "a, b, common, only_a, only_b (each of entry_id, message), changed, "
    "reordered, spent_tokens_a, spent_tokens_b, identical",
    "trim": f"{_HEAD}, tokens, limit_tokens, kept_tokens, kept (numbers), dropped "
    "(each of number, reason)",
    "cost": f"{_HEAD}, branches, amount_usd (a text, or null), complete, models (each "
    "of model, entries, tokens, amount_usd, complete), lines (each of ledger_id, at, "
    "model, tokens, amount_usd, why it has no price, partial: an interrupted answer "
    "cost at least that), unbilled (answers that are not in the ledger: number, null "
    "in another branch, entry_id, model, tokens), unrecorded_answers",
    "import": "file, line, name, outcome (imported, extended, replaced, unchanged or "
    "skipped), revision, messages, added",
    "label": f"{_HEAD}, moved_from",
    "annotate": "name, revision, notes",
    "fork": _HEAD,
    "rollback": f"{_HEAD}, was, to",
    "verify": "where, id, what",
    "backup": "backup",
    "restore": "restored, kept",
    "gc": "entries, ledger_entries, branches, origins, blobs, size, remains",
    "erase": "entry_id, reason, content, erased_at, rows, blobs, remains",
    "delete": "name, revisions",
}


def _list_commands() -> list[click.Command]:
    return [command for section in _SECTIONS.values() for command in section]


for _command in _list_commands():
    _name = str(_command.name)
    _example = f"{_name} {EXAMPLES[_name]}"
    _command.epilog = f"\b\nExample:\n  conversation-state {_example}"
    for _option in _command.params:
        if isinstance(_option, click.Option) and _option.name == "as_json":
            _keys = _KEYS.get(_name)
            _help = (_option.help or "").removesuffix(".")
            _option.help = f"{_help}: {_keys}." if _keys else _option.help

    cli.add_command(_command)
