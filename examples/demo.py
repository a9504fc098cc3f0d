"""
What a conversation is good for as a value, shown with one of your own in ten seconds:
views that a provider takes, an undo with its bill, and a page.

    python examples/demo.py [FILE [FOLDER]]

FILE is anything that `conversation-state import` reads; its longest conversation is
shown. FOLDER, `build/demo`, gets a store and the page. Nothing is sent anywhere: a
strict provider in this process says what would be refused.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from conversation_state import (
    Aggregator,
    TokenBudget,
    TrimContext,
    Usage,
    open_store,
    trim,
)
from conversation_state.adapters import openai_chat
from conversation_state.errors import BudgetExceededError
from conversation_state.testing.provider import judge


def main(
    file: str = "examples/travel_desk.jsonl", folder: str = "build/demo"
) -> int | None:
    """Print the three parts; the exit status if nothing of FILE can be imported."""
    path = Path(folder) / f"{Path(file).stem}.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    read = _run_command(
        "import", file, "--store", str(path), "--on-conflict", "replace"
    )
    sys.stderr.write(read.stderr)
    with open_store(path) as store:
        chats = {name: store.load(name) for name in store.names()}

    if not chats:
        return read.returncode

    name, chat = max(chats.items(), key=lambda each: len(each[1]))
    page = path.with_suffix(".html")
    page.unlink(missing_ok=True)
    _run_command("page", name, "--store", str(path), "--limit", "4000", "-o", str(page))
    command = Path(sys.executable).with_name("conversation-state")
    lines = [
        f"{name}: {len(chat)} messages",
        *("", *_compare_requests(chat)),
        *("", *_compare_bills(chat)),
        *("", f"A page to look at and to send: {page}"),
        f"All of them, live: {command} serve --store {path}",
        "Next: the chat in README.md, to paste, or a task of docs/index.md",
    ]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return None


def _run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "conversation_state", *arguments]
    return subprocess.run(command, capture_output=True, check=False, text=True)  # noqa: S603


def _compare_requests(chat: Aggregator) -> Iterator[str]:
    messages = openai_chat.dump(chat).payload["messages"]
    # At most a hundred sizes, for conversations of thousands of messages.
    sizes = range(1, len(messages), len(messages) // 100 + 1)
    refusals, views, refused_views = [], 0, 0
    for last in sizes:
        if broken := judge("openai_chat", {"messages": messages[-last:]}, level="api"):
            refusals.append((last, broken[0]))

        size = TrimContext.of(chat.messages[-last:]).total_tokens
        try:
            view = trim(chat, TokenBudget(context_window=size))
        except BudgetExceededError:
            continue  # not even the newest message and its task fit

        views += 1
        request = openai_chat.dump(view.messages).payload
        refused_views += bool(judge("openai_chat", request, level="api"))

    yield (
        f"Sent as the last messages of a list, in {len(sizes)} lengths, it is refused "
        f"{len(refusals)} times"
    )
    for last, refusal in refusals[-1:]:
        yield f"  the last {last}: {refusal.message}"

    yield f"Sent as {views} views of the same sizes, {refused_views} times"


def _compare_bills(chat: Aggregator) -> Iterator[str]:
    # A request bills what was said until then, in tokens as estimated.
    state, sizes = Aggregator.new(), [0]
    for element in TrimContext.of(chat).elements:
        if element.message.role == "assistant":
            state = state.add_usage(Usage(sum(sizes), element.tokens))

        state = state.add(element.message)
        sizes.append(element.tokens)

    turn = max((at for at, each in enumerate(state) if each.role == "user"), default=0)
    asked = state.rollback(turn)
    again = asked.add_user_prompt("And without a plane?").add_usage(Usage(3_000, 40))
    both = asked.join(state, again)
    rows = {
        "all of it": state,
        "the last turn undone": asked,
        "asked something else": again,
        "both, joined": both,
    }
    yield "An undo, and what was paid"
    for what, each in rows.items():
        total = each.total_usage.total_tokens
        yield f"  {what:<22} {len(each):>5} messages {total:>9,} tokens billed"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
