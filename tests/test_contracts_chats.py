"""The contract of chats: honest back ends pass, each fault is found by one call."""

import asyncio
import copy
import itertools
from types import SimpleNamespace
from typing import ClassVar

import pytest
from hypothesis import settings

from conversation_state import Aggregator, MessageTree, Timeline, Usage
from conversation_state.testing import BrokenLawsError, check_chat

FEW = settings(max_examples=8, database=None, derandomize=True, deadline=None)
ONE = settings(FEW, max_examples=1)  # beside those that all runs try


class PlainChat:
    """A chat on lists: nodes with parents, and a history of what was shown."""

    def __init__(self):
        self.nodes = []  # (parent, role, text)
        self.shown = None
        self.past, self.future = [], []
        self.numbers = itertools.count(1)

    @property
    def state(self):
        return [{"role": role, "content": text} for _, role, text in self.path()]

    def path(self):
        found, at = [], self.shown
        while at is not None:
            found.append(self.nodes[at])
            at = self.nodes[at][0]

        return found[::-1]

    def ids(self):
        found, at = [], self.shown
        while at is not None:
            found.append(at)
            at = self.nodes[at][0]

        return found[::-1]

    def show(self, at):
        self.past.append(self.shown)
        self.future.clear()
        self.shown = at

    def add(self, parent, role, text):
        self.nodes.append((parent, role, text))
        return len(self.nodes) - 1

    def answer(self, parent):
        return self.add(parent, "assistant", f"Answer {next(self.numbers)}")

    def ask(self, text):
        self.show(self.answer(self.add(self.shown, "user", text)))

    def parent(self, at):
        return self.nodes[self.ids()[at]][0]

    def edit(self, at, text):
        self.show(self.answer(self.add(self.parent(at), "user", text)))

    def regenerate(self, at):
        self.show(self.answer(self.parent(at)))

    def undo(self):
        if self.past:
            self.future.append(self.shown)
            self.shown = self.past.pop()

    def redo(self):
        if self.future:
            self.past.append(self.shown)
            self.shown = self.future.pop()

    def switch(self, at, number):
        parent = self.parent(at)
        siblings = [n for n, node in enumerate(self.nodes) if node[0] == parent]
        self.show(self.newest_below(siblings[number]))

    def newest_below(self, at):
        below = [n for n, node in enumerate(self.nodes) if node[0] == at]
        return self.newest_below(below[-1]) if below else at


class StateChat:
    """A chat on a timeline of states and their tree, whose methods are async."""

    def __init__(self):
        self.timeline = Timeline.begin(Aggregator.new())
        self.tree = MessageTree.of(self.timeline)
        self.numbers = itertools.count(1)

    def state(self):
        return self.timeline.present

    async def commit(self, asked):
        await asyncio.sleep(0)
        answered = asked.add_assistant_message(f"Answer {next(self.numbers)}")
        self.timeline = self.timeline.commit(answered.add_usage(Usage(10, 5)))
        self.tree = self.tree.add(self.timeline.present)

    async def ask(self, text):
        await self.commit(self.timeline.present.add_user_prompt(text))

    async def edit(self, at, text):
        state = self.timeline.present
        before = state.before(state.entries[at].id)
        await self.commit(before.add_user_prompt(text))

    async def regenerate(self):
        state = self.timeline.present
        await self.commit(state.before(state.entries[-1].id))

    async def undo(self):
        self.timeline = self.timeline.undo()

    async def redo(self):
        self.timeline = self.timeline.redo()

    async def switch(self, at, number):
        state = self.timeline.present
        _, ids = self.tree.switch(state.entries[-1].id).siblings(state.entries[at].id)
        shown = self.tree.switch(ids[number]).present
        self.timeline = self.timeline.commit(shown)


class IdChat(StateChat):
    """The same, with messages by the ids of their entries."""

    async def edit(self, entry_id, text):
        before = self.timeline.present.before(entry_id)
        await self.commit(before.add_user_prompt(text))

    async def regenerate(self, entry_id):  # type: ignore[override]
        await self.commit(self.timeline.present.before(entry_id))

    async def switch(self, entry_id):  # type: ignore[override]
        shown = self.tree.switch(entry_id).present
        self.timeline = self.timeline.commit(shown)


class PaidChat(StateChat):
    """What was undone is paid for."""

    def state(self):
        state = self.timeline.present
        for moment in self.timeline.moments:
            state = moment.state.rollback(state)

        return state


class RowChat(PlainChat):
    """What it shows are pairs."""

    @property
    def state(self):
        return [row[1:] for row in self.path()]


class TextChat(PlainChat):
    """What it shows are objects as of a web page, with ids and other parts."""

    @property
    def state(self):
        return [
            {"id": at, "role": role, "text": text, "parts": []}
            for at, (_, role, text) in zip(self.ids(), self.path(), strict=True)
        ]


class ObjectChat(PlainChat):
    """What it shows are messages of an SDK, which have a content; instructions, too."""

    @property
    def state(self):
        rows = [(None, "system", "Be brief."), *self.path()]
        return [SimpleNamespace(role=role, content=text) for _, role, text in rows]


def keep_by_id(cls):
    """A function from an id to a chat: the same for the same id, as of a server."""
    chats = {}  # type: ignore[var-annotated]
    return lambda name: chats.setdefault(name, cls())


class TestHonest:
    @pytest.mark.parametrize(
        "make",
        [
            *(PlainChat, keep_by_id(PlainChat), RowChat, TextChat, ObjectChat),
            *(StateChat, keep_by_id(StateChat), IdChat),
        ],
        ids=[
            *("lists", "lists by id", "pairs", "texts", "objects"),
            *("states", "states by id", "ids of messages"),
        ],
    )
    def test_passes(self, make):
        """A chat that is a tree breaks no law, whatever it is made of."""
        check_chat(make, settings=FEW)


class LosesAlternatives(PlainChat):
    def regenerate(self, at):
        self.nodes[self.ids()[at]] = (
            self.parent(at),
            "assistant",
            f"Answer {next(self.numbers)}",
        )


class EditsInPlace(PlainChat):
    def edit(self, at, text):
        node = self.ids()[at]
        self.nodes[node] = (self.parent(at), "user", text)
        self.show(self.answer(node))


class UndoesAMessage(PlainChat):
    def undo(self):
        if self.shown is not None:
            self.future.append(self.shown)
            self.shown = self.nodes[self.shown][0]


class RedoesAfterAnAsk(PlainChat):
    def show(self, at):
        self.past.append(self.shown)
        self.shown = at


class EditsTheNewest(PlainChat):
    def edit(self, at, text):
        users = [n for n, node in enumerate(self.path()) if node[1] == "user"]
        super().edit(users[-1], text)


class RegeneratesTwice(PlainChat):
    def regenerate(self, at):
        self.show(self.answer(self.ids()[at]))


class ShowsTheFirst(PlainChat):
    def switch(self, at, number):
        super().switch(at, 0)


class StopsAtTheAlternative(PlainChat):
    def newest_below(self, at):
        return at


class RedoesNothing(PlainChat):
    """Redo without anything undone shows the start."""

    def redo(self):
        self.past.append(self.shown)
        self.shown = self.future.pop() if self.future else None


class GivesItsList(PlainChat):
    def __init__(self):
        super().__init__()
        self.messages = []

    @property
    def state(self):
        self.messages[:] = super().state
        return self.messages


class KeepsByTab(PlainChat):
    """Each tab has a copy, and the last one that acts wins."""

    saved: ClassVar = {}  # type: ignore[var-annotated]

    @classmethod
    def make(cls, name):
        chat = cls()
        chat.name = name  # type: ignore[attr-defined]
        chat.__dict__.update(copy.deepcopy(cls.saved.get(name, {})))
        return chat

    def show(self, at):
        super().show(at)
        self.saved[self.name] = copy.deepcopy(vars(self))  # type: ignore[attr-defined]


class Forgets(PlainChat):
    """Alternatives are lost when it is opened again, for only what is shown is kept."""

    saved: ClassVar = {}  # type: ignore[var-annotated]

    def __init__(self, name):
        super().__init__()
        self.name = name

    def undo(self):
        super().undo()

    @property
    def state(self):
        return super().state if self.name in self.saved else []

    def show(self, at):
        super().show(at)
        if len(self.nodes) > 2:
            self.saved[self.name] = True


class UndoLosesAlternatives(PlainChat):
    """Of what is shown after an undo, there are no alternatives."""

    def undo(self):
        super().undo()
        shown = self.ids()
        parents = [self.nodes[at][0] for at in shown]
        for at, (parent, *line) in enumerate(self.nodes):
            if parent in parents and at not in shown:
                self.nodes[at] = ("gone", *line)


CHATS = {
    "loses alternatives": LosesAlternatives,
    "edits in place": EditsInPlace,
    "undoes a message": UndoesAMessage,
    "redoes after an ask": RedoesAfterAnAsk,
    "edits the newest": EditsTheNewest,
    "answers the answer": RegeneratesTwice,
    "shows the first": ShowsTheFirst,
    "stops at the alternative": StopsAtTheAlternative,
    "undo loses alternatives": UndoLosesAlternatives,
    "redoes nothing": RedoesNothing,
    "gives its list": GivesItsList,
    "a copy for each tab": KeepsByTab.make,
    "forgets short chats": Forgets,
}


class TestFaults:
    @pytest.mark.parametrize("name", CHATS)
    def test_is_found(self, name):
        """Each fault is found by one call, and shown as calls."""
        with pytest.raises(BrokenLawsError) as caught:
            check_chat(CHATS[name], settings=ONE)  # type: ignore[arg-type]

        assert all("make(" in each.code for each in caught.value.broken)

    def test_texts_alone(self):
        """A state of texts, of which none says who wrote it, is named."""

        class Texts(PlainChat):
            @property
            def state(self):
                return [text for _, _, text in self.path()]

        with pytest.raises(BrokenLawsError, match=r"chat\.state has 'Question 1'"):
            check_chat(Texts)  # type: ignore[arg-type]

    def test_asks_otherwise(self):
        """A chat without `ask`, which nothing could be said of, does not pass."""
        with pytest.raises(BrokenLawsError, match="no attribute 'ask'"):
            check_chat(lambda: SimpleNamespace(state=[]), settings=ONE)

    def test_the_bill(self):
        """
        Undo that brings the money back is found on request; one that keeps it passes.
        """
        with pytest.raises(BrokenLawsError, match="15 tokens in the ledger, then 0"):
            check_chat(StateChat, settings=FEW, also=["keeps the bill"])  # type: ignore[arg-type]

        check_chat(PaidChat, settings=FEW, also=["keeps the bill"])  # type: ignore[arg-type]

    def test_is_shown_as_calls(self):
        """The shortest series of calls is shown, one a line."""
        with pytest.raises(BrokenLawsError) as caught:
            check_chat(RedoesAfterAnAsk, settings=FEW)  # type: ignore[arg-type]

        assert caught.value.broken[0].code.splitlines() == [
            "chat = make()",
            "chat.ask('Question 1')",
            "chat.undo()",
            "chat.ask('Question 2')",
            "chat.redo()",
        ]
