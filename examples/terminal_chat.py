"""
A chat in the terminal with undo, redo, siblings, and a diff between any two of them.

    pip install . textual
    python examples/terminal_chat.py [FILE]

FILE keeps the whole undo tree from one run to the next. The answers come from a
script, so nothing is sent anywhere; give `Chat` another *answers* for a real
model. All there is to undo and redo is a `Timeline` of states: no state is ever
changed, so every branch stays what it was. The `MessageTree` that follows it has what
stands beside a message, an edited prompt or another answer, and where each branch ends.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import ClassVar, TypeAlias

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

from conversation_state import (
    Accumulator,
    Aggregator,
    AssistantMessage,
    Message,
    MessageTree,
    ResponseMeta,
    SystemMessage,
    Timeline,
    TokenBudget,
    Usage,
    decode,
    diff,
    encode,
    trim,
)
from conversation_state.errors import DecodeError
from conversation_state.rendering import render_transcript

ChatTimeline: TypeAlias = Timeline[Aggregator]
Answers: TypeAlias = Callable[[Sequence[Message]], AsyncIterator[AssistantMessage]]

BUDGET = TokenBudget(context_window=4_000, max_output_tokens=500)


async def echo(seen: Sequence[Message]) -> AsyncIterator[AssistantMessage]:
    """An answer in pieces, as a model streams it; in the end, what it cost."""
    words = f"You said {seen[-1].text!r}; I have seen {len(seen)} messages.".split(" ")
    for at, word in enumerate(words):
        await asyncio.sleep(0.02)
        yield AssistantMessage(word if at == 0 else f" {word}")

    usage = Usage(sum(len(message.text) for message in seen) // 4, len(words))
    yield AssistantMessage(response=ResponseMeta("stop", usage, model="echo"))


def first_moment() -> ChatTimeline:
    """A chat without a message of the user's."""
    system = SystemMessage("You are talking to a user at a terminal.")
    return Timeline.begin(Aggregator.new(messages=[system]), "the beginning")


def draw(tree: MessageTree, entry_id: str) -> str:
    """A message, and where it stands among its siblings if it has some."""
    text = render_transcript([tree.node(entry_id).message])
    position, ids = tree.siblings(entry_id)
    return f"‹ {position + 1}/{len(ids)} › {text}" if len(ids) > 1 else text


def describe(tree: MessageTree, leaf: str) -> str:
    """The end of a branch in a line."""
    state = tree.path(leaf)
    words = [" ".join(message.text.split()) for message in state.messages[-2:]]
    return f"{' → '.join(words)} ({len(state)} messages)"


class Branches(ModalScreen[str | None]):
    """The ends of all branches, to choose one from."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Close")]

    def __init__(self, tree: MessageTree) -> None:
        super().__init__()
        self.messages = tree

    def compose(self) -> ComposeResult:
        """A line for each; the one that is shown is marked."""
        lines = []
        for leaf in self.messages.leaves:
            mark = "*" if leaf == self.messages.head else " "
            lines.append(f"{mark} {describe(self.messages, leaf)}")

        yield OptionList(*[Option(line) for line in lines], markup=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Return what was chosen to the caller."""
        self.dismiss(self.messages.leaves[event.option_index])


class Difference(ModalScreen[None]):
    """What one branch has and the other lacks."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Close")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        """As a terminal shows it."""
        with VerticalScroll():
            yield Static(self.text, markup=False, id="difference")


class Chat(App[None]):
    """A chat whose whole past can be gone back to."""

    CSS = """
    #messages { height: 1fr; padding: 0 1; }
    #messages Static { margin-bottom: 1; }
    .user { color: $accent; }
    .system { color: $text-muted; }
    #usage { height: 1; padding: 0 1; color: $text-muted; }
    ModalScreen { align: center middle; }
    ModalScreen > * { width: 80%; height: auto; max-height: 80%; background: $panel; }
    """
    # Before the input line takes them for keys of its own.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+z", "undo", "Undo", priority=True),
        Binding("ctrl+y", "redo", "Redo", priority=True),
        Binding("ctrl+b", "branches", "Branches", priority=True),
        Binding("ctrl+d", "difference", "Diff", priority=True),
        Binding("ctrl+e", "edit", "Edit", priority=True),
        Binding("ctrl+r", "regenerate", "Again", priority=True),
        Binding("ctrl+left", "sibling(-1)", "‹", priority=True),
        Binding("ctrl+right", "sibling(1)", "›", priority=True),
        Binding("ctrl+q", "quit", "Quit", priority=True),
    ]

    def __init__(self, path: Path | None = None, *, answers: Answers = echo) -> None:
        super().__init__()
        self.path = path
        self.answers = answers
        self.timeline: ChatTimeline = first_moment()
        if path is not None and path.exists():
            self.timeline = decode(path.read_bytes(), expect=Timeline)

        self.messages = MessageTree.of(self.timeline)
        self.lines: list[Static] = []
        self.texts: list[str] = []
        # The prompt that is edited in the input line.
        self.editing = ""

    def compose(self) -> ComposeResult:
        """The messages, their usage, and a line for the next prompt."""
        yield VerticalScroll(id="messages")
        yield Static(id="usage", markup=False)
        yield Input(placeholder="Say something", id="prompt")
        yield Footer()

    def on_mount(self) -> None:
        """Show the messages, and wait for a prompt."""
        self.query_one("#prompt").focus()
        self.show(self.timeline)

    def show(self, timeline: ChatTimeline) -> None:
        """Go on with another timeline. Only what differs is drawn again."""
        tree = self.messages.follow(timeline)
        entries = timeline.present.entries
        texts = [draw(tree, entry.id) for entry in entries]
        for line, was, text in zip(self.lines, self.texts, texts, strict=False):
            if was != text:
                line.update(text)

        for line in self.lines[len(texts) :]:
            line.remove()

        drawn = [Static(text, markup=False) for text in texts[len(self.lines) :]]
        scroll = self.query_one("#messages", VerticalScroll)
        scroll.mount_all(drawn)
        scroll.scroll_end(animate=False)
        self.lines = [*self.lines[: len(texts)], *drawn]
        for line, entry in zip(self.lines, entries, strict=True):
            line.set_classes(entry.message.role)

        self.timeline, self.messages, self.texts = timeline, tree, texts
        self.editing = ""
        here, everywhere = timeline.present.total_usage, tree.total_usage
        count = len(tree.leaves)
        branches = "1 branch" if count == 1 else f"{count} branches"
        self.query_one("#usage", Static).update(
            f"{branches}; {here.total_tokens:,} tokens on this one, "
            f"{everywhere.total_tokens:,} in all"
        )

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """A prompt, or another in the place of the one that is edited."""
        text = event.value.strip()
        if text:
            event.input.clear()
            state = self.timeline.present
            before = state.before(self.editing) if self.editing else state
            self.answer(before.add_user_prompt(text), text)

    @work(exclusive=True)
    async def answer(self, asked: Aggregator, label: str) -> None:
        """
        Ask, and show the answer while it comes.

        All of it is one step of the timeline, for all of it has one group; it
        is stopped by whatever else is done.
        """
        turn = f"turn {len(self.timeline.moments)}"
        self.show(self.timeline.commit(asked, label, group=turn))
        answer = Accumulator()
        async for chunk in self.answers(trim(asked, BUDGET).messages):
            answer = answer.add(chunk)
            answered = asked.add_response(answer.message)
            self.show(self.timeline.commit(answered, group=turn))

        self.save()

    def go(self, timeline: ChatTimeline) -> None:
        """Go to another moment; an answer that is still coming stops."""
        self.workers.cancel_group(self, "default")
        self.show(timeline)
        self.save()

    def action_undo(self) -> None:
        """The moment before."""
        self.go(self.timeline.undo())

    def action_redo(self) -> None:
        """The moment after, on the branch that was visited last."""
        self.go(self.timeline.redo())

    def action_edit(self) -> None:
        """Put the last prompt into the input line, to send another in its place."""
        prompts = [e for e in self.timeline.present.entries if e.message.role == "user"]
        if prompts:
            self.editing = prompts[-1].id
            line = self.query_one("#prompt", Input)
            line.value = prompts[-1].message.text
            line.action_end()

    def action_regenerate(self) -> None:
        """
        Ask for another answer to the last prompt; the one there is stays beside it.
        """
        state = self.timeline.present
        last = state.entries[-1]
        if last.message.role == "assistant":
            self.answer(
                state.before(last.id), f"another answer: {self.timeline.moment.label}"
            )

    def action_sibling(self, step: int) -> None:
        """Show the sibling before or after the newest message that has siblings."""
        for entry in reversed(self.timeline.present.entries):
            position, ids = self.messages.siblings(entry.id)
            if len(ids) > 1:
                self.show_branch(ids[(position + step) % len(ids)])
                return

    def show_branch(self, entry_id: str | None) -> None:
        """Show the way through a message. That is no step, and undo skips it."""
        if entry_id is not None:
            self.go(self.timeline.goto(self.messages.switch(entry_id).moment))

    def action_branches(self) -> None:
        """Go to the end of another branch."""
        self.push_screen(Branches(self.messages), self.show_branch)

    def action_difference(self) -> None:
        """Compare this branch with another: two answers, or two prompts."""

        def chosen(leaf: str | None) -> None:
            if leaf is not None:
                difference = diff(self.timeline.present, self.messages.path(leaf))
                shown = difference.text(names=("here", describe(self.messages, leaf)))
                self.push_screen(Difference(shown))

        self.push_screen(Branches(self.messages), chosen)

    def save(self) -> None:
        """
        Write the whole undo tree: every message once, however many states have it.
        """
        if self.path is not None:
            new = self.path.with_suffix(".new")
            new.write_bytes(encode(self.timeline))
            new.replace(self.path)


def main(path: str = "") -> None:
    """Run the chat until the user quits."""
    try:
        chat = Chat(Path(path) if path else None)
    except DecodeError as error:
        sys.exit(f"{path} holds no chat: {error}")

    chat.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
