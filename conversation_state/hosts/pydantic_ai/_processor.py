"""
A trimmer's view of Pydantic AI's messages: history processors, and a capability that
trims requests alone.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import UserPromptPart

from conversation_state._waiting import run_in_anyio_thread
from conversation_state._wording import describe_type
from conversation_state.adapters.engine.notes import notes_of
from conversation_state.adapters.pydantic_ai import dump
from conversation_state.adapters.pydantic_ai.groups import SOURCE, as_data, load_after
from conversation_state.errors import InvalidTranscriptError
from conversation_state.hosts._host import RollingTrimmer, check_trimmer
from conversation_state.messages import Message, SystemMessage
from conversation_state.trimming import TrimContext, Trimmer, repair

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.tools import RunContext


# A `Trimmer`, or a function such as ``partial(trim, budget=...)``.
_Trims: TypeAlias = Callable[[Sequence[Message]], TrimContext]
History: TypeAlias = "list[ModelMessage]"


def history_processor(trimmer: _Trims) -> Callable[[History], History]:
    """
    A history processor that shows the model the view of *trimmer*.

    Pass it to an agent as ``capabilities=[ProcessHistory(processor)]``. Pydantic
    AI then *replaces* the run's history by what the processor returns, also in
    ``all_messages()``; `TrimmedRequests` trims the request alone. A trimmer
    without steps repairs and fits.

    Instructions are counted, as one system message in front, though Pydantic
    AI keeps them in the requests. Kept messages are the objects that were
    passed; a request that is kept in part is a copy without the other parts.
    A view that a provider would refuse is repaired (`repair`). Each message is
    loaded and counted once, as long as it is in memory; a call costs
    O(messages) references besides. Thread-safe: Pydantic AI calls it in threads.

    Raises:
        TypeError: If *trimmer* is not callable; when called, if it returns no view.
        InvalidTranscriptError, BudgetExceededError: When called, as *trimmer* raises
            them; or if the view leaves out the newest request, which Pydantic AI has to
            send.

    Source:
        Pydantic AI refuses a history that is empty or does not end with a
        request, and providers one that orphans a tool's result.
    """
    trims = _make_rolling(trimmer)
    known = _LoadCache()

    def process(messages: list[Any]) -> list[Any]:
        shown = _HistoryView(known, messages)
        return shown.select(trims(shown.messages))

    return process


def ahistory_processor(
    trimmer: Trimmer,
) -> Callable[[History], Coroutine[Any, Any, History]]:
    """
    The async twin of `history_processor`, for a `Trimmer` with steps that have
    to be awaited.
    """
    known = _LoadCache()
    views = RollingTrimmer(_repair_first(check_trimmer(trimmer, "trimmer")))

    async def process(messages: list[Any]) -> list[Any]:
        shown = _HistoryView(known, messages)
        return shown.select(await views.acall(shown.messages))

    return process


def _make_rolling(trimmer: _Trims) -> _Trims:
    if isinstance(trimmer, Trimmer) or not callable(trimmer):
        return RollingTrimmer(_repair_first(check_trimmer(trimmer, "trimmer")))

    return trimmer


def _repair_first(trimmer: Trimmer) -> Trimmer:
    """
    *trimmer*, which repairs a history before its other steps.

    Source:
        The result of a tool call that was approved or deferred is in a request of its
        own, after what other tools of the same response told the user.
    """
    if repair() in trimmer.steps[:1]:
        return trimmer

    return Trimmer(trimmer.budget, repair(), *trimmer.steps, counter=trimmer.counter)


@dataclasses.dataclass
class TrimmedRequests(AbstractCapability[Any]):
    """
    A capability that sends the model a trimmer's view of the history.

    Give it to an agent as ``capabilities=[TrimmedRequests(trimmer)]``. Unlike
    with a history processor, the run's own history stays whole:
    ``all_messages()`` has everything, and the next request is trimmed from all
    of it. Otherwise it works as `history_processor` does.

    Attributes:
        trimmer: A `Trimmer`, or any function from messages to a view.

    Source:
        Pydantic AI calls ``prepare_model_request`` where requests are fitted
        into a model's window, and does not persist its changes.
    """

    trimmer: _Trims

    def __post_init__(self) -> None:
        self._trims = _make_rolling(self.trimmer)
        self._process = history_processor(self._trims)

    @property
    def last_view(self) -> TrimContext | None:
        """
        The last view that was sent, of any run, with what it `dropped`, the
        `failures` of its steps, and the `summary_responses` that are in no
        ledger yet; None before the first, or for a function.
        """
        return self._trims.last if isinstance(self._trims, RollingTrimmer) else None

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """The request with the messages of the view."""
        del ctx
        messages = list(request_context.messages)
        # Counting tokens would block the event loop.
        kept = await run_in_anyio_thread(partial(self._process, messages))
        request_context.messages = kept
        return request_context

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """None: a specification file can't contain a trimmer."""
        return None


@attrs.define(eq=False)
class _LoadedMessage:
    """Our messages for one `ModelMessage`, valid while its parts are the same."""

    messages: list[Message]
    # The part of the request for each of them; -1 for none.
    at: list[int]
    parts: tuple[Any, ...]

    def is_of(self, message: Any) -> bool:
        parts = message.parts
        return len(parts) == len(self.parts) and all(
            one is other for one, other in zip(parts, self.parts, strict=True)
        )


class _LoadCache:
    def __init__(self) -> None:
        # The keys are `id()`s, because messages of Pydantic AI are not hashable.
        self._found: dict[int, tuple[weakref.ref[Any], _LoadedMessage]] = {}
        self._lead = SystemMessage("")

    def loaded(self, messages: Sequence[Any]) -> list[_LoadedMessage]:
        found = [self._recall_message(message) for message in messages]
        new = [at for at, one in enumerate(found) if one is None]
        data = as_data([messages[at] for at in new]) if new else ()
        for at, raw in zip(new, data, strict=True):
            # Loaded as if the previous request had the same instructions, so that they
            # are not a message of this request: `lead` makes one for the whole history.
            (group,) = load_after([raw], raw.get("instructions"))
            found[at] = self._remember_message(messages[at], group)

        return [one for one in found if one is not None]

    def lead(self, text: str) -> SystemMessage:
        """
        The system message of *text*; the same object as before if the text is
        the same, so that it is counted once.
        """
        lead = self._lead
        if lead.text != text:
            self._lead = lead = SystemMessage(text)

        return lead

    def _recall_message(self, message: Any) -> _LoadedMessage | None:
        ref, loaded = self._found.get(id(message), (None, None))
        if ref is None or loaded is None or ref() is not message:
            return None

        return loaded if loaded.is_of(message) else None

    def _remember_message(self, message: Any, group: list[Message]) -> _LoadedMessage:
        at = []
        for place, one in enumerate(group):
            notes = notes_of(one.metadata, SOURCE)
            at.append(-1 if "empty" in notes else notes.get("at", place))

        loaded = _LoadedMessage(group, at, tuple(message.parts))
        key, found = id(message), self._found

        def forget(ref: weakref.ref[Any]) -> None:
            # Another message may have the same `id()` by now; its entry stays.
            if found.get(key, (None,))[0] is ref:
                found.pop(key, None)

        found[key] = (weakref.ref(message, forget), loaded)
        return loaded


class _HistoryView:
    def __init__(self, known: _LoadCache, messages: Sequence[Any]) -> None:
        self._given = messages
        self._loaded = known.loaded(messages)
        self._leads = 0
        self.messages: list[Message] = []
        # For each of `messages`: the position of its original in the history, and its
        # own position among our messages for that original.
        self._owners: list[tuple[int, int]] = []
        for message in reversed(messages):
            instructions = getattr(message, "instructions", None)
            if instructions:
                self.messages.append(known.lead(instructions))
                self._leads = 1
                break

        for owner, loaded in enumerate(self._loaded):
            self.messages += loaded.messages
            self._owners += [(owner, at) for at in range(len(loaded.messages))]

    def select(self, view: Any) -> list[Any]:
        if not isinstance(view, TrimContext):
            raise TypeError(
                "trimmer: expected a function that returns a TrimContext, got "
                f"{describe_type(view)} from it"
            )

        if view.problems():
            view = repair()(view)
            problems = view.problems()
            if problems:
                raise InvalidTranscriptError(tuple(map(str, problems)))

        kept: list[Any] = []
        run: list[tuple[int, Message]] = []
        last = -1
        owners = set()
        for element in view.elements:
            seq = element.seq - self._leads
            if seq < 0:
                continue

            owner, at = self._owners[seq]
            if owner != last or not _is_loaded(element.message):
                kept += self._rebuild_message(last, run)
                run = []

            last = owner
            if _is_loaded(element.message):
                owners.add(owner)
                run.append((at, element.message))
            else:
                kept += dump([element.message]).payload

        kept += self._rebuild_message(last, run)
        kept = [_speak_as_user(message) for message in kept]
        if not self._given:
            return kept

        # The newest request need not be the last one: its results are moved to their
        # calls, before what the user was told since.
        newest = len(self._given) - 1
        if newest not in owners or kept[-1].kind != "request":
            reasons = [
                dropped.reason
                for dropped in view.dropped
                if dropped.seq >= self._leads
                and self._owners[dropped.seq - self._leads][0] == newest
            ]
            what = (
                f"the view leaves out messages[{newest}], the newest request, which "
                f"has to be sent ({'; '.join(reasons) or 'a step moved or removed it'})"
            )
            raise InvalidTranscriptError((what,))

        return kept

    def _rebuild_message(
        self, owner: int, run: Iterable[tuple[int, Message]]
    ) -> list[Any]:
        run = list(run)
        if not run:
            return []

        original, loaded = self._given[owner], self._loaded[owner]
        if len(run) == len(loaded.messages) and all(
            loaded.messages[at] is message for at, message in run
        ):
            return [original]

        if original.kind == "response":
            whole: list[Any] = dump([message for _, message in run]).payload
            return whole

        parts = []
        for at, message in run:
            if loaded.messages[at] is message:
                place = loaded.at[at]
                parts.append((place, original.parts[place]))
            else:
                (made,) = dump([message]).payload
                parts.append((loaded.at[at], made.parts[0]))

        parts.sort(key=lambda placed: placed[0])
        kept = [part for _, part in parts]
        return [dataclasses.replace(original, parts=kept)]


def _speak_as_user(message: Any) -> Any:
    """
    *message* with the user's voice for what the framework says of an empty response:
    that response is in no view, so its system message would follow a tool's result.

    Source:
        Pydantic AI sends a `RetryFeedbackPart` whose cause is ``no_output`` as a system
        message; Mistral refuses "role 'system' after role 'tool'".
    """
    if message.kind != "request" or not any(map(_is_about_no_output, message.parts)):
        return message

    parts = [
        UserPromptPart(part.content, timestamp=part.timestamp)
        if _is_about_no_output(part)
        else part
        for part in message.parts
    ]
    return dataclasses.replace(message, parts=parts)


def _is_about_no_output(part: Any) -> bool:
    kind: str = part.part_kind
    return kind == "retry-feedback" and bool(part.retry.cause == "no_output")


def _is_loaded(message: Message) -> bool:
    # A message that a step changed still has its notes; one that a step made has none.
    notes = notes_of(message.metadata, SOURCE)
    return "request" in notes or "more" in notes or "response" in notes
