"""
What a chat with undo and alternatives promises: that it is a plain tree of messages.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias
from uuid import uuid4

import attrs
from hypothesis import settings as Settings  # noqa: N812 - a class
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from conversation_state._wording import shorten_repr
from conversation_state.testing._code import show_value
from conversation_state.testing.contracts._contract import (
    Contract,
    call,
    check_contract,
    law,
)
from conversation_state.testing.contracts._coverage import NamedExample, cover


class Chat(Protocol):
    """
    **Protocol:** the back end of a chat. Each method may be async, and may return
    anything; but for `ask`, those that it lacks are not called.

    What is shown is *state*, an attribute or a method: a state, or a list of messages
    (objects or dicts with a role and a text, or pairs of both). Messages are named by
    their positions; or, where the argument is called otherwise, *entry_id* say, by
    their ids: those of the entries of a state, or the ``id`` of each message. `switch`
    may take the id of the alternative, and nothing else.
    """

    state: Any

    def ask(self, text: str) -> Any:
        """Add the user's message, and the answer to it."""
        ...

    def undo(self) -> Any:
        """Take the newest act back."""
        ...

    def redo(self) -> Any:
        """Do again what was taken back."""
        ...

    def edit(self, at: int, text: str) -> Any:
        """
        Ask *text* in the place of the user's message at position *at*, and answer it:
        an alternative to that message. Without *at* in the signature, of the newest.
        """
        ...

    def regenerate(self, at: int) -> Any:
        """
        Answer once more: an alternative to the answer at position *at*. Without *at*
        in the signature, to the newest.
        """
        ...

    def switch(self, at: int, number: int) -> Any:
        """
        Show alternative *number*, from 0 in the order they were made, of the message
        at position *at*, and what came after it.
        """
        ...


class ChatAct(NamedTuple):
    """
    One act of a user in a chat.

    Attributes:
        verb: The method.
        place: Which of the messages that it may be about, counted from the end.
        number: Which alternative.
        tab: The tab that it is done in.
    """

    verb: str
    place: int = 0
    number: int = 0
    tab: int = 0


# A message: its role, and its text. A conversation: those that are shown.
_Line: TypeAlias = tuple[str, str]
_Lines: TypeAlias = tuple[_Line, ...]

# Arguments that take a position; others take an id, if messages have one.
_POSITIONS = {"at", "position", "index", "place", "number", "n", "i"}
_VERBS = ("ask", "undo", "redo", "edit", "regenerate", "switch")
# What may be raised where there is nothing to undo; nothing is changed then.
_NOTHING_TO_DO = (LookupError, ValueError)

_SCRIPTS = (
    "ask", "ask ask", "undo", "redo", "ask undo", "ask undo undo", "ask undo redo",
    "ask ask undo undo redo redo", "ask undo ask redo", "ask ask undo ask undo redo",
    "ask regenerate", "ask regenerate undo", "ask regenerate undo redo",
    "ask regenerate switch", "ask regenerate regenerate switch",
    "ask regenerate switch ask switch", "ask edit", "ask edit undo", "ask edit switch",
    "ask ask edit switch", "ask ask edit.1 switch", "ask ask regenerate.1 switch",
    "ask edit ask switch switch", "ask ask edit.1 ask edit switch.2 switch",
    "ask regenerate ask regenerate switch switch.1 undo", "ask undo regenerate",
    "ask edit undo ask redo switch",
)  # fmt: skip


def _read_script(script: str) -> tuple[ChatAct, ...]:
    acts = [each.partition(".") for each in script.split()]
    return tuple([ChatAct(verb, int(place or 0)) for verb, _, place in acts])


@st.composite
def _draw_acts(draw: DrawFn, tabs: int) -> tuple[ChatAct, ...]:
    verbs = st.sampled_from(("ask", "ask", *_VERBS))
    small = st.integers(0, 2)
    act = st.builds(ChatAct, verbs, small, small, st.integers(0, tabs - 1))
    return tuple(draw(st.lists(act, max_size=10)))


ACTS_OF_ONE = cover(
    _draw_acts(1),
    lambda: [NamedExample(_read_script(each), tuple) for each in _SCRIPTS],
)
ACTS_OF_TABS = cover(
    _draw_acts(2),
    lambda: [
        NamedExample(
            tuple([act._replace(tab=at % 2) for at, act in enumerate(acts)]), tuple
        )
        for acts in map(_read_script, _SCRIPTS)
    ],
)


@attrs.define
class ModelChat:
    """A plain tree of messages, beside which a chat is held."""

    shown: _Lines = ()  # what is shown
    paths: list[_Lines] = attrs.field(factory=lambda: [()])  # all that was ever shown
    # After each conversation, what came next, in the order it was made.
    alternatives: dict[_Lines, list[_Line]] = attrs.field(factory=dict)
    undone: list[_Lines] = attrs.field(factory=list)
    done: list[_Lines] = attrs.field(factory=list)
    # Whether `switch` was used: some chats undo that, and some do not.
    is_vague: bool = False

    def add(self, start: _Lines, new: _Lines) -> None:
        """*new* came after *start*, and is shown."""
        path = start
        for number, line in enumerate(new):
            known = self.alternatives.setdefault(path, [])
            # What was made now is an alternative, also if it says the same; what
            # follows it is not, unless it is the first.
            if number == 0 or line not in known:
                known.append(line)

            path = (*path, line)

        self.done.append(self.shown)
        self.undone.clear()
        self._show(path)

    def _show(self, path: _Lines) -> None:
        self.shown = path
        self.paths.append(path)

    def list_undone(self) -> list[_Lines]:
        """What may be shown after `undo`."""
        if self.is_vague:
            return self.paths

        return [self.done[-1] if self.done else self.shown]

    def list_redone(self) -> list[_Lines]:
        """What may be shown after `redo`."""
        if self.is_vague:
            return self.paths

        return [self.undone[-1] if self.undone else self.shown]

    def undo(self, shown: _Lines) -> None:
        """*shown* is what `undo` showed."""
        if self.done and not self.is_vague:
            self.done.pop()
            self.undone.append(self.shown)

        self._show(shown)

    def redo(self, shown: _Lines) -> None:
        """*shown* is what `redo` showed."""
        if self.undone and not self.is_vague:
            self.undone.pop()
            self.done.append(self.shown)

        self._show(shown)

    def switch(self, shown: _Lines) -> None:
        """*shown* is what `switch` showed."""
        self.is_vague = True
        self._show(shown)


def _read_lines(state: Any) -> _Lines:
    """The roles and texts of what a chat shows."""
    lines: list[_Line] = []
    for message in state:
        if isinstance(message, Mapping):
            role = message.get("role")
            text = message.get("content", message.get("text"))
        elif isinstance(message, (tuple, list)):
            role, text = message
        else:
            role = getattr(message, "role", None)
            text = getattr(message, "text", None)
            text = getattr(message, "content", None) if text is None else text

        if role is None:
            expected = "a Message, a dict with role and content, or (role, text)"
            raise TypeError(
                f"chat.state has {shorten_repr(message)}; expected {expected}"
            )

        if role != "system":
            lines.append((str(role), str(text)))

    return tuple(lines)


def _read_state(chat: Any) -> Any:
    state = chat.state
    return call(state) if callable(state) else state


class _Run:
    """A chat and its model, act by act."""

    def __init__(self, make: Callable[..., Any], tabs: int) -> None:
        takes_id = bool(_list_arguments(make))
        name = f"chat-{uuid4().hex}"
        self._open = (lambda: call(make, name)) if takes_id else None
        first = call(make, name) if takes_id else call(make)
        others = [self._open() if self._open else first for _ in range(tabs - 1)]
        self.tabs = [first, *others]
        self.model = ModelChat()
        self.asked = 0
        # The ids of messages, each under what was shown up to it.
        self.ids: dict[_Lines, Any] = {}
        self.lines = ["chat = make('chat')" if takes_id else "chat = make()"]
        if tabs > 1 and takes_id:
            self.lines = ["tabs = [make('chat'), make('chat')]"]

        self._is_many = tabs > 1 and takes_id
        self.model.shown = self.read(0)
        self.model.paths = [self.model.shown]

    def state(self, tab: int) -> Any:
        return _read_state(self.tabs[tab])

    def read(self, tab: int) -> _Lines:
        """What the *tab* shows."""
        state = self.state(tab)
        lines = _read_lines(state)
        ids = _read_ids(state)
        if len(ids) == len(lines):
            for at, each in enumerate(ids, 1):
                self.ids[lines[:at]] = each

        return lines

    def check_opened_again(self) -> None:
        """Raise an AssertionError if a tab that is opened now shows something else."""
        if self._open is not None:
            shown, again = self.read(0), _read_lines(_read_state(self._open()))
            assert again == shown, f"showed {_show(shown)}, opened again {_show(again)}"

    def finish(self) -> None:
        """Show each alternative of what is shown, the last one first."""
        for at in reversed(range(len(self.model.shown))):
            number = 0
            while number < len(self.model.alternatives.get(self.model.shown[:at], ())):
                places = self._list_branches()
                if at in places:
                    place = len(places) - 1 - places.index(at)
                    self.act(ChatAct("switch", place, number))

                number += 1

    def _list_branches(self) -> list[int]:
        """The positions of messages that have alternatives."""
        shown, known = self.model.shown, self.model.alternatives
        return [at for at in range(len(shown)) if len(known.get(shown[:at], ())) > 1]

    def act(self, act: ChatAct) -> None:
        """Do *act* in the chat and in the model, and compare them."""
        model, before = self.model, self.model.shown
        if act.verb != "ask" and not hasattr(self.tabs[act.tab], act.verb):
            return  # a chat without alternatives, say

        if act.verb == "ask":
            text = self._next_text()
            after = self._call_verb(act, "ask", text)
            self._check_answer(before, (("user", text),), after)
        elif act.verb == "undo":
            allowed = model.list_undone()
            model.undo(self._check_shown(allowed, self._call_verb(act, "undo")))
        elif act.verb == "redo":
            allowed = model.list_redone()
            model.redo(self._check_shown(allowed, self._call_verb(act, "redo")))
        elif act.verb == "switch":
            self._switch_branch(act)
        else:
            self._make_alternative(act)

    def _make_alternative(self, act: ChatAct) -> None:
        role = "user" if act.verb == "edit" else "assistant"
        before = self.model.shown
        places = [at for at, line in enumerate(before) if line[0] == role]
        # Of messages in one turn, results between calls among them, the last answer.
        places = [at for at in places if role == "user" or _is_answer(before, at)]
        if not places:
            return

        names = _list_arguments(getattr(self.tabs[act.tab], act.verb))
        takes_place = len(names) > (role == "user")
        at = places[-1 - act.place % len(places)] if takes_place else places[-1]
        arguments: list[Any] = []
        if takes_place:
            arguments.append(self._name_message(names[0], before[: at + 1], at))

        if role == "user":
            text = self._next_text()
            after = self._call_verb(act, "edit", *arguments, text)
            self._check_answer(before[:at], (("user", text),), after)
        else:
            after = self._call_verb(act, "regenerate", *arguments)
            self._check_answer(before[:at], (), after)

    def _switch_branch(self, act: ChatAct) -> None:
        before, model = self.model.shown, self.model
        places = self._list_branches()
        if not places:
            return

        at = places[-1 - act.place % len(places)]
        known = model.alternatives[before[:at]]
        number = act.number % len(known)
        # By number: the one that is not shown, first.
        is_shown = before[at] == known[number]
        number = (number + 1) % len(known) if is_shown else number
        start = (*before[:at], known[number])
        names = _list_arguments(self.tabs[act.tab].switch)
        if len(names) > 1:
            name = self._name_message(names[0], before[: at + 1], at)
            after = self._call_verb(act, "switch", name, number)
        else:
            after = self._call_verb(
                act, "switch", self._name_message(names[0], start, at)
            )

        allowed = [path for path in model.paths if path[: len(start)] == start]
        model.switch(self._check_shown(allowed, after))

    def _name_message(self, argument: str, path: _Lines, at: int) -> Any:
        """The last message of *path*, as *argument* names it: by position or id."""
        if argument in _POSITIONS:
            return at

        return self.ids.get(path, at)

    def _next_text(self) -> str:
        self.asked += 1
        return f"Question {self.asked}"

    def _call_verb(self, act: ChatAct, verb: str, *arguments: Any) -> _Lines:
        given = ", ".join(map(repr, arguments))
        name = f"tabs[{act.tab}]" if self._is_many else "chat"
        self.lines.append(f"{name}.{verb}({given})")
        method = getattr(self.tabs[act.tab], verb)
        try:
            call(method, *arguments)
        except _NOTHING_TO_DO:
            # Only where there is nothing to undo or redo.
            before = self.model.shown
            allowed = {"undo": self.model.list_undone, "redo": self.model.list_redone}
            if verb not in allowed or before not in allowed[verb]():
                raise

        shown = self.read(act.tab)
        for tab in range(len(self.tabs)):
            other = self.read(tab)
            assert other == shown, (
                f"tab {act.tab} shows {_show(shown)}, and tab {tab} {_show(other)}"
            )

        return shown

    def _check_answer(self, start: _Lines, asked: _Lines, after: _Lines) -> None:
        expected = (*start, *asked)
        assert after[: len(expected)] == expected, (
            f"expected {_show(expected)} and an answer, got {_show(after)}"
        )
        answer = after[len(expected) :]
        roles = {role for role, _ in answer}
        assert answer and answer[-1][0] == "assistant" and "user" not in roles, (  # noqa: PT018
            f"expected one answer after {_show(expected)}, got {_show(answer)}"
        )
        self.model.add(start, (*asked, *answer))

    def _check_shown(self, allowed: Sequence[_Lines], after: _Lines) -> _Lines:
        expected = " or ".join(dict.fromkeys(map(_show, allowed[-3:])))
        assert after in allowed, f"expected {expected}, got {_show(after)}"
        return after


def _is_answer(lines: _Lines, at: int) -> bool:
    return at > 0 and lines[at - 1][0] == "user"


def _show(lines: _Lines) -> str:
    return show_value([text for _, text in lines])


def _read_ids(state: Any) -> list[Any]:
    """The ids of the messages that a chat shows; none if it has none."""
    entries = getattr(state, "entries", state)
    found = [
        each.get("id") if isinstance(each, Mapping) else getattr(each, "id", None)
        for each in entries
    ]
    return [each for each in found if each is not None]


def _list_arguments(function: Callable[..., Any]) -> list[str]:
    """The arguments without defaults that a function takes."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ["at"]

    positional = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    return [
        each.name
        for each in parameters
        if each.kind in positional and each.default is each.empty
    ]


class ChatContract(Contract):
    """
    The laws of the back end of a chat.

    Attributes:
        make: Takes an id and returns the chat of that id, as a static method or a
            method: two calls with one id open two tabs. One that takes nothing makes a
            new chat, which has one tab.
    """

    kind, subject = "chats", "make"
    expected = "a function that makes a chat"
    make: Callable[..., Chat]

    def _run_acts(
        self,
        acts: Sequence[ChatAct],
        look: Callable[[_Run], None] = lambda _run_acts: None,
        tabs: int = 1,
    ) -> None:
        """Do *acts*, and *look* after each; an error has the calls as a script."""
        run = _Run(self.make, tabs)
        try:
            look(run)
            for act in acts:
                run.act(act)
                look(run)

            run.finish()
        except Exception as error:
            error.script = "\n".join(run.lines)  # type: ignore[attr-defined]
            raise

    @law(acts=ACTS_OF_ONE)
    def test_is_like_a_tree(self, acts: Sequence[ChatAct]) -> None:
        """
        After each act it shows what a plain tree of messages shows: `ask` adds to what
        is shown, `edit` and `regenerate` make alternatives, `undo` and `redo` move by
        one act, `switch` shows another alternative; nothing that was shown is lost.
        """
        self._run_acts(acts)

    @law(acts=ACTS_OF_TABS)
    def test_from_two_tabs(self, acts: Sequence[ChatAct]) -> None:
        """
        So it is if two tabs act in turn: both show the same, and neither loses what
        the other one did.
        """
        self._run_acts(acts, tabs=2)

    @law(acts=ACTS_OF_ONE)
    def test_is_there_again(self, acts: Sequence[ChatAct]) -> None:
        """
        Opened again under its id, a chat shows the same, and its alternatives are
        there.
        """
        self._run_acts(acts, _Run.check_opened_again)

    @law(is_extra=True, acts=ACTS_OF_ONE)
    def test_keeps_the_bill(self, acts: Sequence[ChatAct]) -> None:
        """
        What answers cost stays in the ledger of the state, also when they are undone.
        """
        counts = [0]

        def look(run: _Run) -> None:
            tokens = _count_tokens(run.state(0))
            assert tokens >= counts[-1], (
                f"{counts[-1]} tokens in the ledger, then {tokens}"
            )
            counts.append(tokens)

        self._run_acts(acts, look)

    @law(acts=ACTS_OF_ONE)
    def test_keeps_what_it_gave(self, acts: Sequence[ChatAct]) -> None:
        """A state that was read stays as it was when the chat goes on."""
        known: list[tuple[Any, _Lines]] = []

        def look(run: _Run) -> None:
            for state, lines in known:
                now = _read_lines(state)
                assert now == lines, f"{_show(lines)} became {_show(now)}"

            state = run.state(0)
            known.append((state, _read_lines(state)))

        self._run_acts(acts, look)


def _count_tokens(state: Any) -> int:
    usage = getattr(state, "total_usage", None)
    return int(usage.total_tokens) if usage is not None else 0


def check_chat(
    make: Callable[..., Chat],
    *,
    without: Collection[str] = (),
    also: Collection[str] = (),
    settings: Settings | None = None,
) -> None:
    """
    Hold the back end of a chat to the laws of `ChatContract`: whatever is asked,
    undone, edited, regenerated and switched, from one tab or from two, it shows what a
    plain tree of messages shows.

    Calls *make* about seven hundred times, so replace its model by a function.

    Args:
        make: Takes an id and returns the chat of that id: two calls with one id are two
            tabs. One that takes nothing makes a new chat. See `Chat` for the methods.
        without: The names of laws that do not hold and need not.
        also: The names of further laws: *keeps the bill*, of a chat whose state has a
            ledger.
        settings: Hypothesis' settings.

    Raises:
        BrokenLawsError: If it breaks a law, with the shortest series of acts that shows
            it as code.
    """
    __tracebackhide__ = True
    check_contract(ChatContract, make, settings, without=without, also=also)
