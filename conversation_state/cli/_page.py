"""
Commands that draw: the tree of revisions, and a page in a file; and that serve.

What is drawn is decided in `pages`, and what a strict provider refuses in
`testing.provider`; here are the options, and where it goes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

import click

from conversation_state._wording import escape_line, read_title
from conversation_state.cli._exit import (
    RefusedError,
    exit_on_error,
    is_stdout_terminal,
    paint,
    print_document,
    print_error,
    print_line,
    print_text,
)
from conversation_state.cli._inspect import head_data
from conversation_state.cli._options import (
    find_name,
    print_json,
    store_command,
    trim_to,
)
from conversation_state.cli._transfer import replace_file

if TYPE_CHECKING:
    # A command imports this when it runs, so that --help is quick.
    from conversation_state.pages import History
    from conversation_state.store import Store
    from conversation_state.testing.provider import CallTools, StrictProvider
    from conversation_state.tree import MessageTree

_MAX_REVISIONS = 1_000
# How often requests that were refused are looked for.
_POLL_S = 0.2


# What the pieces of a tree look like at a terminal.
_STYLES: Mapping[str, Mapping[str, Any]] = {
    "present": {"fg": "green", "bold": True},
    "label": {"fg": "yellow"},
    "facts": {"dim": True},
    "excerpt": {"dim": True},
}


_as_option = click.option(
    "--as",
    "kind",
    type=click.Choice(("revisions", "messages", "timeline")),
    help="Of what the tree is: the revisions that were saved, the messages with their "
    "alternatives, or the moments of a timeline. Without it the messages of a name "
    "that was imported with branches or saved as a timeline, and the revisions of any "
    "other.",
)


def _read_tree(
    store: Store, name: str, kind: str | None, limit: int
) -> History | MessageTree:
    from conversation_state.pages import History, read_history

    if kind is None:
        kind = "messages" if store._is_message_tree(name) else "revisions"

    if kind == "messages":
        return store.message_tree(name)

    if kind == "timeline":
        return History.of_timeline(store.load_timeline(name))

    return read_history(store, name, limit=limit)


@store_command(has_pages=True)
@click.argument("name")
@_as_option
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=1),
    default=_MAX_REVISIONS,
    show_default=True,
    help="Draw at most this many of the newest revisions.",
)
def tree(
    store: Store, *, name: str, kind: str | None, limit: int, as_json: bool
) -> None:
    """
    Draw NAME as a tree, the newest on top.

    The tree is one of its revisions, or of its messages. Each branch has a lane;
    others end beside the one that the newest revision is on. Long runs without forks
    are folded.
    """
    from conversation_state.pages import draw_outline

    which = find_name(store, name, "tree")
    if as_json:
        for head in store.history(which.name, limit=limit):
            print_json(head_data(head))

        return

    drawn = _read_tree(store, which.name, kind, limit)

    def paint_piece(text: str, kind: str) -> str:
        return paint(escape_line(text), **_STYLES.get(kind, {}))

    print_text(draw_outline(drawn, paint=paint_piece))


@store_command(has_json=False)
@click.argument("name")
@_as_option
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Where to write the page; only its user can read a new file. Standard output "
    "without it, if that is no terminal, or with -.",
)
@click.option(
    "--title", help="The title of the page; without it that of NAME, or NAME."
)
@click.option(
    "--limit",
    metavar="TOKENS",
    type=click.IntRange(min=1),
    help="Show what a model would see of the newest revision in so many tokens.",
)
@click.option("--redact", is_flag=True, help="Leave out all words, and keep the shape.")
def page(
    store: Store,
    *,
    name: str,
    kind: str | None,
    output: Path | None,
    title: str | None,
    limit: int | None,
    redact: bool,
) -> None:
    """
    Write NAME as a page in one file.

    The page has the tree of its revisions or messages, the messages of every branch,
    what the model sees of the newest one with --limit, and the bill. It opens from a
    disk, and asks nothing of any other host: for a pull request, or a report of a
    fault.
    """
    from conversation_state.pages import make_page

    which = find_name(store, name, "page")
    if output is None and is_stdout_terminal():
        raise RefusedError(
            "a page is not for a terminal; give a file with -o FILE, or - to print it"
        )

    view = None
    if limit is not None:
        view = trim_to(limit, store.load(which.name), which.name)

    text = make_page(
        _read_tree(store, which.name, kind, _MAX_REVISIONS),
        title=title or read_title(store.notes(which.name)) or which.name,
        view=view,
        redact=redact,
    )
    if output is None or output == Path("-"):
        print_document(text, has_line_end=True)
        return

    replace_file(output, text)
    print_error(f"Wrote {output}.")


@store_command(has_json=False)
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65_535),
    default=7575,
    show_default=True,
    help="The port on 127.0.0.1; 0 for any that is free.",
)
@click.option(
    "--write", is_flag=True, help="Allow to restore, fork, label and annotate."
)
def serve(store: Store, *, port: int, write: bool) -> None:
    """
    Show the store in a browser on this machine.

    Prints an address with a token, without which nothing is shown; other machines
    can't reach it. The page follows other writers. It is read-only unless --write is
    given. Ctrl-C ends it. Needs the extra "page".
    """
    import socket

    from conversation_state.errors import MissingExtraError

    try:
        from conversation_state.pages.server import run_server
    except ModuleNotFoundError as error:
        if error.name not in {"starlette", "uvicorn"}:
            raise

        raise MissingExtraError("serve", "page") from None

    def print_address(address: str) -> None:
        print_line(f"Serving {store.url} at {address} (Ctrl-C ends it)")

    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise _make_port_error(port, error) from None

    with listener, suppress(KeyboardInterrupt):
        run_server(store, listener, write=write, on_start=print_address)


def _make_port_error(port: int, error: OSError) -> RefusedError:
    why = os.strerror(error.errno) if error.errno else str(error)
    return RefusedError(
        f"can't listen on 127.0.0.1:{port}: {why}; choose another --port, or 0 for "
        "any that is free"
    )


@click.command("strict-provider")
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65_535),
    default=7576,
    show_default=True,
    help="The port on 127.0.0.1; 0 for any that is free.",
)
@click.option(
    "--answer", default="OK.", show_default=True, help="The text that it answers."
)
@click.option(
    "--call",
    "calls",
    metavar="CALL",
    multiple=True,
    help="Call this tool when a user asks, and give the --answer to its result. CALL "
    "is NAME, with arguments made from the tool's JSON Schema, or "
    '\'NAME({"city": "Paris"})\'. Several are parallel calls, in one message.',
)
@click.option(
    "--delay",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Wait so long before each piece of a stream, or before a whole answer.",
)
@click.pass_context
def strict_provider(
    context: click.Context,
    *,
    port: int,
    answer: str,
    calls: tuple[str, ...],
    delay: float,
) -> None:
    """
    Serve a provider that refuses what real ones refuse.

    For any program, in any language: it speaks OpenAI's Chat Completions and
    Responses, Anthropic's Messages and Gemini, streamed and whole, and takes any key
    and model. What a provider would refuse gets that provider's error, and is printed;
    a question gets each --call of a tool that it offers, and the rest the --answer.
    Ctrl-C ends it.
    """
    from conversation_state.testing.provider import CallTools, StrictProvider

    with exit_on_error(context), suppress(KeyboardInterrupt), ExitStack() as stack:
        try:
            default = CallTools(*calls, answer=answer, delay=delay)
        except ValueError as error:
            raise RefusedError(f"{error}") from None

        provider = StrictProvider(default=default, port=port)
        try:
            stack.enter_context(provider)
        except OSError as error:
            raise _make_port_error(port, error) from None

        url = provider.base_url
        print_line(f"Serving a strict provider at {url} (Ctrl-C ends it)")
        print_line(f'In Python: openai.OpenAI(base_url="{url}/v1", api_key="any")')
        print_line(f'           anthropic.Anthropic(base_url="{url}", api_key="any")')
        while True:
            sleep(_POLL_S)
            _print_requests(provider, default)


def _print_requests(provider: StrictProvider, default: CallTools) -> None:
    """Print what was refused, and which calls were not made."""
    while provider.requests:
        request = provider.requests.pop(0)
        for refusal in request.refusals:
            print_line(f"Refused {request.path}: {refusal}")

        if not request.refusals and (missing := default.describe_missing(request)):
            print_line(f"Not called in {request.path}: {missing}")
