"""
Planted faults: what careless code does, one of a kind each; every one breaks the law
that is named beside it, whatever the seed, and what is honest passes.
"""

import copy
import itertools
import json
from typing import Any

import attrs
import pytest
from hypothesis import settings

from conversation_state import (
    Aggregator,
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from conversation_state.adapters import Export, Lost, openai_chat
from conversation_state.errors import DecodeError
from conversation_state.parts import ImagePart, ReasoningPart, RefusalPart, TextPart
from conversation_state.testing import (
    BrokenLawsError,
    check_adapter,
    check_counter,
    check_reducer,
    check_summariser,
    check_trimming_step,
)
from conversation_state.testing.contracts import (
    AdapterContract,
    CounterContract,
    ReducerContract,
    SummariserContract,
    TrimmingStepContract,
)
from conversation_state.trimming import TrimContext

FEW = settings(
    settings.get_profile("default"), max_examples=4, database=None, deadline=None
)
SEEDED = settings(FEW, max_examples=100, derandomize=False)


def find_broken(kind, name, chosen):
    """
    The laws that a planted fault breaks, of the one that is named beside it: all laws
    for all faults take a minute.
    """
    check, contract, faults = KINDS[kind]
    subject, law, *options = faults[name]
    without = [
        each.name
        for each in contract.laws.values()
        if each.name != law and not each.is_extra
    ]
    what = rf" laws of ([a-z]+ )?{kind}s\b"
    with pytest.raises(BrokenLawsError, match=what) as caught:
        check(subject, settings=chosen, without=without, **dict(*options))

    return [each.law for each in caught.value.broken]


# Reducers


def rebuilt(state, entries):
    """*state* with other entries."""
    return Aggregator.rebuild(
        id=state.id,
        parent_id=state.parent_id,
        root_id=state.root_id,
        init_len=0,
        init_ledger_len=0,
        entries=entries,
        ledger=list(state.ledger),
    )


def replacing(change):
    """A reducer that puts what *change* makes of the messages in their place."""

    def reducer(state):
        kept = [change(each) for each in state]
        start = next((at for at, each in enumerate(state) if kept[at] != each), None)
        if start is None:
            return state

        return state.rollback(start).extend(kept[start:])

    return reducer


def without_roles(*roles):
    def reducer(state):
        return rebuilt(state, [e for e in state.entries if e.message.role not in roles])

    return reducer


def drop_thoughts(message):
    if any(isinstance(part, ReasoningPart) for part in getattr(message, "parts", ())):
        parts = [p for p in message.parts if not isinstance(p, ReasoningPart)]
        return message.replace(content=parts)

    return message


def clear_flags(message):
    if isinstance(message, ToolMessage) and message.is_error:
        return message.replace(is_error=False, content="(failed)")

    return message


def keep_first_call(message):
    if len(message.tool_calls) > 1:
        return message.replace(tool_calls=message.tool_calls[:1])

    return message


def last_of_each_id(state):
    seen = {}
    for entry in state.entries:
        if isinstance(entry.message, ToolMessage):
            seen[entry.message.tool_call_id] = entry.id

    return rebuilt(
        state,
        [
            e
            for e in state.entries
            if not isinstance(e.message, ToolMessage)
            or seen[e.message.tool_call_id] == e.id
        ],
    )


def results_in_front(state):
    entries = list(state.entries)
    for at in range(1, len(entries)):
        if isinstance(entries[at].message, ToolMessage):
            entries[at - 1], entries[at] = entries[at], entries[at - 1]

    return rebuilt(state, entries)


def deduplicated(state):
    seen, kept = set(), []
    for entry in state.entries:
        name = (entry.message.role, getattr(entry.message, "text", ""))
        if name not in seen:
            kept.append(entry)

        seen.add(name)

    return rebuilt(state, kept)


def cached_by_length():
    known = {}  # type: ignore[var-annotated]

    def reducer(state):
        return known.setdefault(len(state), state.add_user_prompt("Be brief."))

    return reducer


def newest_sixty(state):
    return rebuilt(state, list(state.entries)[-60:])


def drops_late_results(state):
    kept, between = [], False
    for entry in state.entries:
        message = entry.message
        between = (between and not message.tool_calls) or message.role == "user"
        if not (isinstance(message, ToolMessage) and between):
            kept.append(entry)

    return rebuilt(state, kept)


def drops_interrupted(state):
    return rebuilt(
        state,
        [
            e
            for e in state.entries
            if not (
                isinstance(e.message, AssistantMessage)
                and e.message.response is not None
                and e.message.response.finish_reason == "interrupted"
            )
        ],
    )


def bills_all_again(state):
    for number, entry in enumerate(list(state.ledger)):
        state = state.add_usage(entry.usage, key=f"again {number} of {len(state)}")

    return state


def bills_without_key(state):
    last = state[-1] if len(state) else None
    response = getattr(last, "response", None)
    return state.add_usage(response.usage) if response else state


def forgets_old_usage(state):
    return Aggregator.rebuild(
        id=state.id,
        parent_id=state.parent_id,
        root_id=state.root_id,
        init_len=0,
        init_ledger_len=0,
        entries=list(state.entries),
        ledger=list(state.ledger)[-1:],
    )


def asks_after_an_open_call(state):
    calls = [each for each in state if each.tool_calls]
    return state.add(calls[-1]) if calls else state


def answers_unknown_calls(state):
    if len(state) and isinstance(state[-1], UserMessage):
        return state.add(ToolMessage("12:30", tool_call_id="clock"))

    return state


def canonical_arguments(message):
    """Writes the arguments of calls as `json.dumps` does, with sorted keys."""
    calls = []
    for call in message.tool_calls:
        try:
            arguments = json.dumps(json.loads(call.arguments), sort_keys=True)
        except ValueError:
            arguments = call.arguments

        calls.append(attrs.evolve(call, arguments=arguments))

    return message.replace(tool_calls=calls) if calls else message


def drop_notes_of_calls(message):
    calls = [attrs.evolve(call, metadata={}) for call in message.tool_calls]
    return message.replace(tool_calls=calls) if calls else message


def drop_notes_of_parts(message):
    parts = getattr(message, "parts", ())
    if any(part.metadata for part in parts):
        parts = [attrs.evolve(part, metadata={}) for part in parts]
        return message.replace(content=parts)

    return message


def bills_one_model(state):
    models = {entry.model for entry in state.ledger if entry.model}
    if len(models) < 2:
        return state

    again = Aggregator.new(messages=list(state))
    for entry in state.ledger:
        again = again.add_usage(entry.usage, key=entry.id, model=min(models))

    return again


def drops_filtered(state):
    return rebuilt(
        state,
        [
            e
            for e in state.entries
            if getattr(getattr(e.message, "response", None), "finish_reason", "")
            != "content_filter"
        ],
    )


def answers_again(state):
    last = state[-1] if len(state) else None
    is_text = isinstance(last, AssistantMessage) and not last.tool_calls
    return state.add(last) if is_text else state


REDUCERS = {
    "removes tool results": (without_roles("tool"), "keeps messages"),
    "removes answers": (without_roles("assistant"), "keeps pairs"),
    "drops thoughts": (replacing(drop_thoughts), "keeps identities"),
    "clears marks of failure": (
        replacing(clear_flags),
        "keeps fields",
    ),
    "keeps one of parallel calls": (
        replacing(keep_first_call),
        "keeps pairs",
    ),
    "keeps one result of an id": (last_of_each_id, "keeps messages"),
    "puts results in front": (results_in_front, "keeps messages"),
    "removes what was said before": (deduplicated, "keeps messages"),
    "caches by length": (cached_by_length(), "keeps the bill"),
    "keeps the newest sixty": (newest_sixty, "keeps messages"),
    "drops late results": (drops_late_results, "keeps pairs"),
    "drops interrupted answers": (drops_interrupted, "keeps messages"),
    "bills all again": (bills_all_again, "counts responses once"),
    "bills without a key": (bills_without_key, "counts responses once"),
    "forgets old usage": (forgets_old_usage, "keeps the bill"),
    "calls again": (asks_after_an_open_call, "keeps pairs"),
    "answers a call that is none": (answers_unknown_calls, "adds no problems"),
    "sorts the keys of arguments": (replacing(canonical_arguments), "keeps messages"),
    "drops a provider's notes of calls": (
        replacing(drop_notes_of_calls),
        "keeps messages",
    ),
    "drops a provider's notes of parts": (
        replacing(drop_notes_of_parts),
        "keeps messages",
    ),
    "bills two models as one": (bills_one_model, "keeps the bill"),
    "drops filtered answers": (drops_filtered, "keeps messages"),
    "appends the last answer again": (answers_again, "keeps identities"),
    "makes a new root": (lambda s: Aggregator.new(messages=list(s)), "keeps the bill"),
    "strips texts": (
        replacing(
            lambda m: (
                m.replace(content=m.text.strip())
                if isinstance(m, UserMessage) and m.text != m.text.strip()
                else m
            )
        ),
        "keeps identities",
    ),
    "fails for images": (
        lambda s: [m.content.strip() for m in s if m.role == "user"] and s,
        "takes every state",
    ),
}


# Counters


def text_of(message):
    return getattr(message, "text", "") or ""


def words(message):
    """An honest count of all that is sent, by words."""
    count = 3
    for part in getattr(message, "parts", ()):
        count += len(getattr(part, "text", "").split())
        count += 700 if part.kind in {"image", "audio", "file", "video"} else 0
        count += 20 if part.kind == "unknown" else 0

    for call in message.tool_calls:
        count += len(call.name.split()) + len(call.arguments.split())

    return count


def less(*kinds):
    """The same without parts of some kinds."""

    def counter(message):
        content = getattr(message, "content", "")
        if isinstance(content, str):
            return words(message)

        return words(
            message.replace(content=[p for p in message.parts if p.kind not in kinds])
        )

    return counter


def cached(key):
    known = {}  # type: ignore[var-annotated]

    def counter(message):
        return known.setdefault(key(message), words(message))

    return counter


def by_address():
    known = {}  # type: ignore[var-annotated]

    def counter(message):
        return known.setdefault(id(message), words(message) + len(known) % 2)

    return counter


def growing():
    numbers = itertools.count()
    return lambda message: words(message) + next(numbers) // 50


COUNTERS = {
    "texts only": (lambda m: len(text_of(m).split()), "counts what is sent"),
    "no thoughts": (less("reasoning"), "counts what is sent"),
    "no refusals": (less("refusal"), "counts what is sent"),
    "no images": (less("image"), "counts what is sent"),
    "no files": (less("file"), "counts what is sent"),
    "no calls": (
        lambda m: words(m.replace(tool_calls=[])) if m.tool_calls else words(m),
        "counts what is sent",
    ),
    "first call": (
        lambda m: (
            words(m.replace(tool_calls=m.tool_calls[:1])) if m.tool_calls else words(m)
        ),
        "counts what is sent",
    ),
    "no names of functions": (
        lambda m: words(m) - sum(len(c.name.split()) for c in m.tool_calls),
        "counts what is sent",
    ),
    "no arguments": (
        lambda m: words(m) - sum(len(c.arguments.split()) for c in m.tool_calls),
        "counts what is sent",
    ),
    "first part": (
        lambda m: (
            words(m.replace(content=m.parts[:1]))
            if len(getattr(m, "parts", ())) > 1
            else words(m)
        ),
        "is additive",
    ),
    "at most a thousand": (lambda m: min(words(m), 1_000), "counts what is sent"),
    "first four thousand characters": (
        lambda m: len(text_of(m)[:4_000]) + words(m) % 1,
        "counts what is sent",
    ),
    "a fraction": (lambda m: words(m) / 4, "counts every message"),
    "less than nothing": (lambda m: words(m) - 4, "counts every message"),
    "nothing for results": (
        lambda m: 0 if m.role == "tool" else words(m),
        "counts what is sent",
    ),
    "fails for parts": (lambda m: len(m.content.split()), "counts every message"),
    "fails for unknown messages": (
        lambda m: words(m) + 0 * len(m.content),
        "counts every message",
    ),
    "cached by text": (cached(text_of), "counts what is sent"),
    "cached by the beginning": (
        cached(lambda m: (m.role, text_of(m)[:40])),
        "counts what is sent",
    ),
    "cached by length": (
        cached(lambda m: (m.role, len(repr(m)))),
        "same as a fresh one",
        {"fresh": lambda: words},
    ),
    "cached by address": (by_address(), "same on copies"),
    "grows": (growing(), "is deterministic"),
}


# Steps


def step_removing(which):
    def step(view):
        gone = [e.seq for at, e in enumerate(view.elements) if which(at, e, view)]
        return view.remove(gone)

    return step


def step_replacing(change):
    def step(view):
        for element in view.elements:
            new = change(element.message)
            if new is not element.message:
                view = view.replace(element.seq, new)

        return view

    return step


def shorten_results(message, **fields):
    if isinstance(message, ToolMessage) and len(message.text) > 3:
        return ToolMessage(
            message.text[:3], **{"tool_call_id": message.tool_call_id, **fields}
        )

    return message


def unflag(message):
    if isinstance(message, ToolMessage) and message.is_error:
        return message.replace(is_error=False)

    return message


def unmark(message):
    if message.metadata and isinstance(message, UserMessage):
        return message.replace(metadata={})

    return message


def half(view):
    gone = [each.seq for each in view.elements][: len(view) // 2]
    return view.remove(gone)


STEPS = {
    "removes results": (
        step_removing(lambda _a, e, _v: e.role == "tool"),
        "keeps pairs",
    ),
    "removes calls": (
        step_removing(lambda _a, e, v: bool(e.message.tool_calls) and len(v) > 1),
        "keeps pairs",
    ),
    "removes all but the first call": (
        step_removing(lambda a, e, _v: a > 1 and bool(e.message.tool_calls)),
        "keeps pairs",
    ),
    "removes the older half": (half, "keeps pairs"),
    "removes the newest": (
        step_removing(lambda a, _e, v: a == len(v) - 1),
        "keeps the newest",
    ),
    "removes system messages": (
        step_removing(lambda _a, e, v: e.role == "system" and len(v) > 1),
        "keeps system messages",
    ),
    "removes late results": (
        step_removing(
            lambda a, e, v: e.role == "tool" and v.elements[a - 1].role == "user"
        ),
        "keeps pairs",
    ),
    "shortens without the mark of failure": (
        step_replacing(shorten_results),
        "keeps fields",
    ),
    "clears the mark of failure": (step_replacing(unflag), "keeps fields"),
    "drops metadata": (step_replacing(unmark), "keeps fields"),
    "shortens under another id": (
        step_replacing(
            lambda m: (
                shorten_results(m, tool_call_id="other", is_error=m.is_error)
                if isinstance(m, ToolMessage)
                else m
            )
        ),
        "keeps pairs",
    ),
    "empties the newest": (
        lambda v: (
            v.replace(v.elements[-1].seq, v.elements[-1].message.replace(content=""))
            if len(v) and hasattr(v.elements[-1].message, "content")
            else v
        ),
        "keeps the newest",
    ),
    "makes a new view": (
        lambda v: TrimContext.of(list(v), v.budget),
        "shows the same conversation",
    ),
    "forgets the budget": (
        lambda v: TrimContext.of(list(v.original.messages)),
        "shows the same conversation",
    ),
    "returns messages": (list, "takes every view"),
    "adds a note": (
        step_replacing(
            lambda m: (
                m.replace(content=f"{m.text} (shortened)")
                if isinstance(m, UserMessage)
                else m
            )
        ),
        "does not grow",
    ),
    "fails for an empty view": (lambda v: v.elements[0] and v, "takes every view"),
    "brings back what was dropped": (
        lambda v: TrimContext.of(list(v.original.messages), v.budget),
        "brings nothing back",
    ),
}


# Summarisers


def listing(messages):
    return f"{len(messages)} messages"


def remembering():
    known = {}  # type: ignore[var-annotated]
    return lambda messages: known.setdefault(len(messages), messages[0].text + "...")


def counting():
    numbers = itertools.count()
    return lambda _messages: f"Summary {next(numbers)}"


def by_identity():
    known = {}  # type: ignore[var-annotated]
    return lambda messages: known.setdefault(id(messages[0]), f"Summary {len(known)}")


def one_response(messages):
    meta = attrs.evolve(
        AssistantMessage("", response=None).response
        or __import__("conversation_state").ResponseMeta(),
        usage=Usage(len(messages), 1),
        id="summary",
    )
    return AssistantMessage("They talked.", response=meta)


SUMMARISERS = {
    "returns nothing": (lambda _m: None, "takes every conversation"),
    "returns a list": (lambda m: [m[0].text], "takes every conversation"),
    "is blank for no text": (
        lambda m: "".join(text_of(each) for each in m),
        "stands for messages",
    ),
    "keeps the last message": (lambda m: m[-1], "stands for messages"),
    "keeps the first with a call": (
        lambda m: next((each for each in m if each.tool_calls), listing(m)),
        "stands for messages",
    ),
    "fails for images": (
        lambda m: ". ".join(each.content for each in m) + "!",
        "takes every conversation",
    ),
    "fails for one message": (
        lambda m: f"{m[1].role} and {len(m)}",
        "takes every conversation",
    ),
    "fails for unknown messages": (
        lambda m: f"{len(m)} {[e.content for e in m]}"[:20],
        "takes every conversation",
    ),
    "remembers by length": (
        remembering(),
        "same as a fresh one",
        {"fresh": remembering},
    ),
    "counts its calls": (counting(), "is deterministic"),
    "knows messages by address": (by_identity(), "same on copies"),
    "one response for all": (one_response, "gives responses ids"),
    "grows with the messages": (
        lambda m: "a word " * len(m),
        "is within its limit",
        {"max_tokens": 50},
    ),
    "is a result": (
        lambda _m: ToolMessage("They talked.", tool_call_id="call"),
        "stands for messages",
    ),
    "raises for long ones": (
        lambda m: listing(m) if len(m) <= 60 else json.loads("too long"),
        "takes every conversation",
    ),
    "fails for refusals": (
        lambda m: (
            listing(m)
            if not any(
                isinstance(p, RefusalPart) for e in m for p in getattr(e, "parts", ())
            )
            else None
        ),
        "takes every conversation",
    ),
}


# Adapters


class Adapter:
    """The adapter of Chat Completions with a fault in what it writes or reads."""

    def __init__(self, write=None, read=None, load=None, lost=None):
        self.write, self.read, self.other, self.lost = write, read, load, lost

    def dump(self, messages):
        messages = list(messages)
        export = openai_chat.dump([m for m in map(self.change, messages) if m])
        lost = (*export.lost, *(self.lost(messages) if self.lost else ()))
        return Export(export.payload, lost)

    def change(self, message):
        return self.write(message) if self.write else message

    def load(self, payload):
        if self.other:
            return self.other(payload)

        loaded = openai_chat.load(payload)
        return tuple(map(self.read, loaded)) if self.read else loaded


def drop_kind(kind):
    def change(message):
        if isinstance(getattr(message, "content", ""), str):
            return message

        return message.replace(content=[p for p in message.parts if p.kind != kind])

    return change


def on(cls, **changes):
    def change(message):
        if not isinstance(message, cls):
            return message

        return message.replace(
            **{name: function(message) for name, function in changes.items()}
        )

    return change


def list_all(messages):
    return [Lost(f"messages[{at}]", "all", "old format") for at in range(len(messages))]


def no_arguments(message):
    return [ToolCall(c.id, c.name, "{}") for c in message.tool_calls]


class Mutates(Adapter):
    def load(self, payload):
        loaded = openai_chat.load(copy.deepcopy(payload))
        if isinstance(payload, dict):
            payload.pop("messages", None)

        return loaded


class ReversesResults(Adapter):
    def dump(self, messages):
        export = openai_chat.dump(messages)
        found = export.payload["messages"]
        for at in range(1, len(found)):
            if found[at]["role"] == found[at - 1]["role"] == "tool":
                found[at - 1], found[at] = found[at], found[at - 1]

        return export


class Remembers(Adapter):
    def __init__(self):
        super().__init__()
        self.known = {}

    def dump(self, messages):
        messages = list(messages)
        return self.known.setdefault(len(messages), openai_chat.dump(messages))


def load_trusting(payload):
    found = payload["messages"] if isinstance(payload, dict) else payload
    openai_chat.load(payload)
    return tuple(openai_chat.load([each])[0] for each in found if each["role"])


def load_anything(payload):
    try:
        return openai_chat.load(payload)
    except DecodeError:
        return ()


ADAPTERS = {
    "drops images": Adapter(drop_kind("image")),
    "drops refusals": Adapter(drop_kind("refusal")),
    "drops names": Adapter(on(UserMessage, name=lambda m: "")),
    "drops arguments": Adapter(on(AssistantMessage, tool_calls=no_arguments)),
    "drops the second call": Adapter(
        on(AssistantMessage, tool_calls=lambda m: m.tool_calls[:1])
    ),
    "drops system messages": Adapter(
        lambda m: None if isinstance(m, SystemMessage) else m
    ),
    "drops empty messages": Adapter(
        lambda m: (
            m if text_of(m) or m.tool_calls or not isinstance(m, UserMessage) else None
        )
    ),
    "strips texts": Adapter(on(UserMessage, content=lambda m: m.text.strip())),
    "joins texts with a space": Adapter(
        on(
            UserMessage,
            content=lambda m: (
                [TextPart(" ".join(p.text for p in m.parts))]
                if len(m.parts) > 1 and all(isinstance(p, TextPart) for p in m.parts)
                else m.content
            ),
        )
    ),
    "cuts ids": (
        Adapter(
            read=on(ToolMessage, tool_call_id=lambda m: m.tool_call_id[:20] or "x")
        ),
        "keeps order",
    ),
    "cuts long texts": Adapter(on(UserMessage, content=lambda m: m.text[:4_000])),
    "lists all, keeps half": Adapter(
        on(AssistantMessage, tool_calls=no_arguments), lost=list_all
    ),
    "changes its payload": (Mutates(), "is pure"),
    "turns results round": (ReversesResults(), "keeps order"),
    "remembers by length": Remembers(),
    "trusts its payload": (Adapter(load=load_trusting), "refuses in one way"),
    "takes anything": (Adapter(load=load_anything), "refuses other values"),
    "losses without a place": (
        Adapter(lost=lambda m: [Lost("", "all", "why not")] * bool(m)),
        "says where it loses",
    ),
    "losses of no message": (
        Adapter(lost=lambda m: [Lost(f"messages[{len(m)}]", "name", "why not")]),
        "says where it loses",
    ),
    "losses without a reason": (
        Adapter(lost=lambda m: [Lost("messages[0]", "name", "")] * bool(m)),
        "says where it loses",
    ),
    "raises KeyError": (
        Adapter(load=lambda p: openai_chat.load({**p}["messages"])),
        "refuses other values",
    ),
    "images lose their detail": Adapter(
        lambda m: (
            m.replace(
                content=[
                    attrs.evolve(p, detail="") if isinstance(p, ImagePart) else p
                    for p in m.parts
                ]
            )
            if isinstance(m, UserMessage) and not isinstance(m.content, str)
            else m
        )
    ),
}


KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "reducer": (check_reducer, ReducerContract, REDUCERS),
    "counter": (check_counter, CounterContract, COUNTERS),
    "step": (check_trimming_step, TrimmingStepContract, STEPS),
    "summariser": (check_summariser, SummariserContract, SUMMARISERS),
    "adapter": (
        check_adapter,
        AdapterContract,
        {
            name: found
            if isinstance(found, tuple)
            else (found, "loses nothing in silence")
            for name, found in ADAPTERS.items()
        },
    ),
}
PLANTED = [(kind, name) for kind, (*_, faults) in KINDS.items() for name in faults]


@pytest.mark.parametrize(("kind", "name"), PLANTED, ids=[": ".join(p) for p in PLANTED])
def test_is_found(kind, name):
    """Its law finds the fault, also with fewer examples than the default."""
    assert [KINDS[kind][2][name][1]] == find_broken(kind, name, FEW)


# Beside those of `test_contracts`.
HONEST = [
    (check_reducer, lambda s: s.record_responses(), {}),
    (check_reducer, lambda s: s.fork(), {}),
    (check_counter, words, {}),
    (check_counter, cached(lambda m: m), {"fresh": lambda: words}),
    (check_summariser, listing, {"max_tokens": 10, "fresh": lambda: listing}),
]


@pytest.mark.parametrize(("check", "subject", "options"), HONEST)
def test_is_honest(check, subject, options):
    """What is honest passes."""
    check(subject, settings=FEW, **options)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), PLANTED, ids=[": ".join(p) for p in PLANTED])
def test_whatever_the_seed(kind, name):
    """It is found with any seed."""
    for _ in range(3):
        find_broken(kind, name, SEEDED)
