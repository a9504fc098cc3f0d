"""
A chat in the terminal with undo, redo, branches and a diff between them.

    pip install "conversation-state[anyio]" textual
    python examples/terminal_chat.py [FILE]

FILE keeps the whole undo tree from one run to the next. The answers come from a
script, so nothing is sent anywhere; give `Chat` another *answers* for a real
model. All there is to undo and redo is a `Timeline` of states: no state is ever
changed, so every branch stays what it was.
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
    ResponseMeta,
    SystemMessage,
    Timeline,
    TokenBudget,
    Usage,
    decode,
    diff,
    encode,
    join,
    trim,
)
from conversation_state.errors import DecodeError
from conversation_state.rendering import render_transcript
from conversation_state.timeline import Moment

Talk: TypeAlias = Timeline[Aggregator]
Answers: TypeAlias = Callable[[Sequence[Message]], AsyncIterator[AssistantMessage]]

BUDGET = TokenBudget(context_window=4_000, max_output_tokens=500)


async def echo(seen: Sequence[Message]) -> AsyncIterator[AssistantMessage]:
    """
    An answer in pieces, as a model streams it; in the end, what it cost.
    """
    words = f"You said {seen[-1].text!r}; I have seen {len(seen)} messages.".split(" ")
    for at, word in enumerate(words):
        await asyncio.sleep(0.02)
        yield AssistantMessage(word if at == 0 else f" {word}")

    spent = Usage(sum(len(message.text) for message in seen) // 4, len(words))
    yield AssistantMessage(response=ResponseMeta("stop", spent, model="echo"))


def first_moment() -> Talk:
    """
    A chat in which nobody has said anything.
    """
    system = SystemMessage("You are talking to somebody at a terminal.")
    return Timeline.begin(Aggregator.new(messages=[system]), "the beginning")


def spent_in_all(talk: Talk) -> Usage:
    """
    What was spent on all branches, each request once: joining pays nothing twice.
    """
    return join(talk.present, *[tip.state for tip in talk.tips]).total_usage


class Branches(ModalScreen[Moment[Aggregator] | None]):
    """
    The ends of all branches, to choose one from.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Close")]

    def __init__(self, talk: Talk) -> None:
        super().__init__()
        self.tips = talk.tips
        self.here = talk.moment

    def compose(self) -> ComposeResult:
        """
        A line for each; the one that is shown is marked.
        """
        lines = []
        for tip in self.tips:
            mark = "*" if tip == self.here else " "
            lines.append(f"{mark} {tip.label} ({len(tip.state)} messages)")

        yield OptionList(*[Option(line) for line in lines], markup=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """
        Whoever opened this gets what was chosen.
        """
        self.dismiss(self.tips[event.option_index])


class Difference(ModalScreen[None]):
    """
    What one branch has and the other lacks.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Close")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        """
        As a terminal shows it.
        """
        with VerticalScroll():
            yield Static(self.text, markup=False, id="difference")


class Chat(App[None]):
    """
    A chat whose whole past can be gone back to.
    """

    CSS = """
    #said { height: 1fr; padding: 0 1; }
    #said Static { margin-bottom: 1; }
    #spent { height: 1; padding: 0 1; color: $text-muted; }
    ModalScreen { align: center middle; }
    ModalScreen > * { width: 80%; height: auto; max-height: 80%; background: $panel; }
    """
    # Before the input line takes them for keys of its own.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+z", "undo", "Undo", priority=True),
        Binding("ctrl+y", "redo", "Redo", priority=True),
        Binding("ctrl+b", "branches", "Branches", priority=True),
        Binding("ctrl+d", "difference", "Diff", priority=True),
        Binding("ctrl+q", "quit", "Quit", priority=True),
    ]

    def __init__(self, path: Path | None = None, *, answers: Answers = echo) -> None:
        super().__init__()
        self.path = path
        self.answers = answers
        self.talk: Talk = first_moment()
        if path is not None and path.exists():
            self.talk = decode(path.read_bytes(), expect=Timeline)

        self.lines: list[Static] = []

    def compose(self) -> ComposeResult:
        """
        What was said, what it cost, and a line to say more.
        """
        yield VerticalScroll(id="said")
        yield Static(id="spent", markup=False)
        yield Input(placeholder="Say something", id="prompt")
        yield Footer()

    def on_mount(self) -> None:
        """
        Show what there is, and wait for words.
        """
        self.query_one("#prompt").focus()
        self.show(self.talk)

    def show(self, talk: Talk) -> None:
        """
        Go on with another timeline. Only what differs is drawn again.
        """
        was, now = self.talk.present.entries, talk.present.entries
        common = was.common_prefix(now) if self.lines else 0
        said = self.query_one("#said", VerticalScroll)
        for line in self.lines[common:]:
            line.remove()

        new = [render_transcript([entry.message]) for entry in now.iterate(common)]
        drawn = [Static(text, markup=False) for text in new]
        said.mount_all(drawn)
        said.scroll_end(animate=False)
        self.talk, self.lines = talk, [*self.lines[:common], *drawn]
        here, everywhere = talk.present.total_usage, spent_in_all(talk)
        self.query_one("#spent", Static).update(
            f"{len(talk.tips)} tips; {here.total_tokens:,} tokens on this one, "
            f"{everywhere.total_tokens:,} in all"
        )

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """
        A prompt: one step, together with the answer to it.
        """
        text = event.value.strip()
        if text:
            event.input.clear()
            self.answer(text)

    @work(exclusive=True)
    async def answer(self, text: str) -> None:
        """
        Ask, and show the answer while it comes.

        All of it is one step of the timeline, for all of it has one group; it
        is stopped by whatever else is done.
        """
        turn = f"turn {len(self.talk.moments)}"
        asked = self.talk.present.add_user_prompt(text)
        self.show(self.talk.commit(asked, text, group=turn))
        said = Accumulator()
        async for chunk in self.answers(trim(asked, BUDGET).messages):
            said = said.add(chunk)
            message = said.message
            answered = asked.add(message)
            if isinstance(message, AssistantMessage) and message.response:
                answered = answered.add_usage(message.response.usage)

            self.show(self.talk.commit(answered, group=turn))

        self.save()

    def go(self, talk: Talk) -> None:
        """
        Go to another moment; an answer that is still coming stops.
        """
        self.workers.cancel_group(self, "default")
        self.show(talk)
        self.save()

    def action_undo(self) -> None:
        """
        The moment before.
        """
        self.go(self.talk.undo())

    def action_redo(self) -> None:
        """
        The moment after, on the branch that was visited last.
        """
        self.go(self.talk.redo())

    def action_branches(self) -> None:
        """
        Go to the end of another branch.
        """

        def chosen(tip: Moment[Aggregator] | None) -> None:
            if tip is not None:
                self.go(self.talk.goto(tip))

        self.push_screen(Branches(self.talk), chosen)

    def action_difference(self) -> None:
        """
        Compare this branch with another.
        """

        def chosen(tip: Moment[Aggregator] | None) -> None:
            if tip is not None:
                difference = diff(self.talk.present, tip.state)
                shown = difference.text(names=("here", tip.label))
                self.push_screen(Difference(shown))

        self.push_screen(Branches(self.talk), chosen)

    def save(self) -> None:
        """
        Write the whole undo tree: every message once, however many states have it.
        """
        if self.path is not None:
            new = self.path.with_suffix(".new")
            new.write_bytes(encode(self.talk))
            new.replace(self.path)


def main(path: str = "") -> None:
    """
    Talk, until the user quits.
    """
    try:
        chat = Chat(Path(path) if path else None)
    except DecodeError as error:
        sys.exit(f"{path} holds no chat: {error}")

    chat.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
