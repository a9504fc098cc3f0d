"""
What the model gets to see: a trimmer, at the place where Pydantic AI asks.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from conversation_state.adapters._export import notes_of
from conversation_state.adapters.pydantic_ai._dump import as_objects, dump_data
from conversation_state.adapters.pydantic_ai._load import as_data, load_after
from conversation_state.adapters.pydantic_ai._words import SOURCE
from conversation_state.errors import InvalidTranscriptError
from conversation_state.messages import Message, SystemMessage
from conversation_state.trimming import TrimContext, Trimmer, repair

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

__all__ = ["Trims", "ahistory_processor", "history_processor"]


class Trims(Protocol):
    """
    **Protocol:** anything that makes a view of messages: a `Trimmer`, or a
    function, ``partial(trim, budget=...)`` say.
    """

    def __call__(self, said: Sequence[Message], /) -> TrimContext: ...


History: TypeAlias = "list[ModelMessage]"


def history_processor(trimmer: Trims) -> Callable[[History], History]:
    """
    A history processor that shows the model what *trimmer* keeps.

    Give it to an agent as ``capabilities=[ProcessHistory(processor)]``. Pydantic
    AI then *replaces* the run's history by what a processor gives, so that
    ``all_messages()`` has no more than that; `trimmed_requests` trims what is
    sent and nothing else.

    Instructions are counted, as one system message in front, though Pydantic
    AI keeps them in the requests. What is kept is the very object that was
    given; of a request that is kept in part, one with its other parts left
    out, the same one each time. A view that a provider would refuse is
    repaired (`repair`). Each message is turned into ours, and counted, once as
    long as it is in memory; a call costs O(messages) references besides. Safe
    in threads, in which Pydantic AI calls it.

    Raises:
        TypeError:
            If *trimmer* is no function; when called, if it gives no view.

        InvalidTranscriptError, BudgetExceededError:
            When called, as *trimmer* says; or if it leaves out the newest
            request, which Pydantic AI has to send.

    Source:
        Pydantic AI refuses a history that is empty or does not end with a
        request, and providers one that orphans a tool's result.
    """
    trims = _checked(trimmer)
    known = _Known()

    def process(messages: list[Any]) -> list[Any]:
        shown = _Shown(known, messages)
        return shown.kept_by(trims(shown.said))

    return process


def ahistory_processor(
    trimmer: Trimmer,
) -> Callable[[History], Coroutine[Any, Any, History]]:
    """
    The same for a `Trimmer` with steps that have to be awaited.
    """
    _checked(trimmer)
    if not isinstance(trimmer, Trimmer):
        msg = f"ahistory_processor takes a Trimmer, got a {type(trimmer).__name__}"
        raise TypeError(msg)

    known = _Known()

    async def process(messages: list[Any]) -> list[Any]:
        shown = _Shown(known, messages)
        return shown.kept_by(await trimmer.acall(shown.said))

    return process


def _checked(trimmer: Any) -> Trims:
    if not callable(trimmer):
        msg = (
            f"history_processor takes a Trimmer, got a {type(trimmer).__name__}; "
            "Trimmer(TokenBudget(context_window=8_000)) is one"
        )
        raise TypeError(msg)

    return cast(Trims, trimmer)


class _Loaded:
    """
    What one `ModelMessage` is in our words, while it is what it was.

    Attributes:
        messages: The messages.

        at: Which part of the request each of them is; -1 is none.

        in_part: Messages made of some of the parts, by which.
    """

    __slots__ = ("at", "in_part", "messages", "parts")

    def __init__(
        self, messages: list[Message], at: list[int], parts: Sequence[Any]
    ) -> None:
        self.messages = messages
        self.at = at
        self.parts = tuple(parts)
        self.in_part: dict[tuple[int, ...], Any] = {}

    def is_of(self, message: Any) -> bool:
        """
        Whether *message* still has the same parts.
        """
        parts = message.parts
        return len(parts) == len(self.parts) and all(
            one is other for one, other in zip(parts, self.parts, strict=True)
        )


class _Known:
    """
    What was loaded, for as long as the messages themselves are in memory.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[weakref.ref[Any], _Loaded]] = {}
        self._lead = SystemMessage("")

    def loaded(self, messages: Sequence[Any]) -> list[_Loaded]:
        """
        Each of *messages* in our words.
        """
        found = [self._remembered(message) for message in messages]
        new = [at for at, one in enumerate(found) if one is None]
        data = as_data([messages[at] for at in new]) if new else ()
        for at, raw in zip(new, data, strict=True):
            # As if the one before had the same: instructions are counted once.
            (group,) = load_after([raw], raw.get("instructions"))
            found[at] = self._remember(messages[at], group)

        return [one for one in found if one is not None]

    def lead(self, text: str) -> SystemMessage:
        """
        The system message that says *text*; the same one as before, if it is
        the same text, so that it is counted once.
        """
        lead = self._lead
        if lead.text != text:
            self._lead = lead = SystemMessage(text)

        return lead

    def _remembered(self, message: Any) -> _Loaded | None:
        ref, loaded = self._found.get(id(message), (None, None))
        if ref is None or loaded is None or ref() is not message:
            return None

        return loaded if loaded.is_of(message) else None

    def _remember(self, message: Any, group: list[Message]) -> _Loaded:
        at = []
        for place, one in enumerate(group):
            notes = notes_of(one.metadata, SOURCE)
            said = notes.get("at", place)
            at.append(-1 if "empty" in notes else said)

        loaded = _Loaded(group, at, message.parts)
        key, found = id(message), self._found

        def forget(ref: weakref.ref[Any]) -> None:
            # Unless another one has its place by now.
            if found.get(key, (None,))[0] is ref:
                found.pop(key, None)

        found[key] = (weakref.ref(message, forget), loaded)
        return loaded


class _Shown:
    """
    One history, on its way to a model and back.
    """

    def __init__(self, known: _Known, messages: Sequence[Any]) -> None:
        self._given = messages
        self._loaded = known.loaded(messages)
        self._leads = 0
        self.said: list[Message] = []
        # Whose message each of `said` is, and which of its messages.
        self._owners: list[tuple[int, int]] = []
        for message in reversed(messages):
            told = getattr(message, "instructions", None)
            if told:
                self.said.append(known.lead(told))
                self._leads = 1
                break

        for owner, loaded in enumerate(self._loaded):
            self.said += loaded.messages
            self._owners += [(owner, at) for at in range(len(loaded.messages))]

    def kept_by(self, view: Any) -> list[Any]:
        """
        The history that *view* shows.
        """
        if not isinstance(view, TrimContext):
            msg = (
                f"the trimmer gave a {type(view).__name__}; a trimmer takes messages "
                "and gives a TrimContext"
            )
            raise TypeError(msg)

        if view.problems():
            view = repair()(view)
            problems = view.problems()
            if problems:
                raise InvalidTranscriptError(tuple(map(str, problems)))

        kept: list[Any] = []
        run: list[tuple[int, Message]] = []
        last = -1
        for element in view.elements:
            seq = element.seq - self._leads
            if seq < 0:
                continue

            owner, at = self._owners[seq]
            if owner != last or not self._belongs(owner, element.message):
                kept += self._closed(last, run)
                run = []

            last = owner
            if self._belongs(owner, element.message):
                run.append((at, element.message))
            else:
                kept += as_objects(dump_data([element.message])[0])

        kept += self._closed(last, run)
        if not self._given:
            return kept

        if last != len(self._given) - 1 or not run:
            what = (
                f"the view leaves out messages[{len(self._given) - 1}], the newest "
                "request, which has to be sent"
            )
            raise InvalidTranscriptError((what,))

        return kept

    def _belongs(self, owner: int, message: Message) -> bool:
        """
        Whether *message* is one of its owner's, perhaps in other words.
        """
        for own in self._loaded[owner].messages:
            if own is message:
                return True

        notes = notes_of(message.metadata, SOURCE)
        return "request" in notes or "more" in notes or "response" in notes

    def _closed(self, owner: int, run: Iterable[tuple[int, Message]]) -> list[Any]:
        """
        The message that is left of the *owner*'s.
        """
        run = list(run)
        if not run:
            return []

        original, loaded = self._given[owner], self._loaded[owner]
        is_same = all(loaded.messages[at] is message for at, message in run)
        if is_same and len(run) == len(loaded.messages):
            return [original]

        if original.kind == "response":
            (made,) = as_objects(dump_data([message for _, message in run])[0])
            return [made]

        key = tuple([at for at, _ in run])
        if is_same and key in loaded.in_part:
            return [loaded.in_part[key]]

        parts = []
        for at, message in run:
            if loaded.messages[at] is message:
                place = loaded.at[at]
                parts.append((place, original.parts[place]))
            else:
                (made,) = as_objects(dump_data([message])[0])
                parts.append((loaded.at[at], made.parts[0]))

        parts.sort(key=lambda placed: placed[0])
        made = dataclasses.replace(original, parts=[part for _, part in parts])
        if is_same:
            loaded.in_part[key] = made

        return [made]
