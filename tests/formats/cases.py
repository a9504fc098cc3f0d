"""
Cases of formats as data: what a payload is loaded as, what messages are dumped as,
what of it is lost, and what is wrong with a payload that is refused.

A line of ``tests/formats/NAME.jsonl`` is a case of the format NAME, and its *name* is
the promise. A case is given one of these:

- *payload*: what is loaded. Then it has the *messages*, what `dump` makes of them,
  and what is *lost*; or the *problems* of a payload that is refused, paths and words.
- *usage_of*: a payload of which only the *usage* is read.
- *messages*, without a payload: what is dumped.
- *file* (in ``message_trees.jsonl``): conversations with their alternatives. Then it
  has their *trees*, what each format is *written* as, and what is *lost*; for
  *messages* without a file, one behind the other, the last two.
- *events* (in ``NAME.streams.jsonl``): a stream, of the answer *choice* if there is
  one. Then it has the *message* that its chunks make, the *dump* of that, what is
  *lost*, and the *error* that came after the chunks, if one did.

Notes in metadata are left out: how an adapter keeps what our model has no field for
is its own affair, and what comes of it is in the dump. A case that is *noted* has
them, because it is about them. What would be lost in other formats is in cases that
have it, as *elsewhere*.

A case changes only with the behaviour that it shows. To add one, write its name and
what it is given on a line; this writes the rest, of all cases of the format:

    python -m tests.formats NAME …
"""

import importlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import attrs

from conversation_state import Aggregator, adapters
from conversation_state.adapters import message_trees
from conversation_state.adapters.engine.notes import own_of
from conversation_state.chunks import concat
from conversation_state.codec import from_data, to_data
from conversation_state.errors import DecodeError, ProviderStreamError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    UnknownMessage,
)
from conversation_state.tree import MessageTree
from conversation_state.tree import name as name_message
from tests.adapters import helpers
from tests.adapters.contract import without_unique_ids
from tests.adapters.helpers import as_is

__all__ = [
    "FORMATS",
    "PROVIDERS",
    "Format",
    "as_data",
    "fill",
    "read",
    "without_notes",
    "write",
]

# Formats with recordings of their own.
PROVIDERS = ("anthropic", "gemini", "openai_chat", "openai_responses")
# The formats that the cases of those list losses in. A format that is added later is
# not one of them: it would change every case.
_ELSEWHERE = ("openai_chat", "openai_responses", "anthropic", "gemini", "eino", "bubo")
_HEAD = {"format": "conversation_state", "version": 1, "kind": "messages"}


def _return_same(value: Any) -> Any:
    return value


class Format(NamedTuple):
    """
    A format under test.

    Attributes:
        adapter: What loads and dumps it.

        parse: A payload in JSON as the adapter takes it.

        render: What the adapter gives, in JSON.
    """

    adapter: Any
    parse: Callable[[Any], Any] = _return_same
    render: Callable[[Any], Any] = _return_same


def _import_langchain() -> Format:
    core = importlib.import_module("langchain_core.messages")
    langchain = importlib.import_module("conversation_state.adapters.langchain")
    return Format(langchain, core.messages_from_dict, core.messages_to_dict)


def _pydantic_ai() -> Format:
    adapter = importlib.import_module("pydantic_ai.messages").ModelMessagesTypeAdapter
    ours = importlib.import_module("conversation_state.adapters.pydantic_ai")
    return Format(
        ours,
        adapter.validate_python,
        lambda given: adapter.dump_python(given, mode="json"),
    )


def _import_adapter(name: str) -> Callable[[], Format]:
    return lambda: Format(importlib.import_module(f"conversation_state.{name}"))


FORMATS: dict[str, Callable[[], Format]] = {
    **{name: _import_adapter(f"adapters.{name}") for name in adapters.PROVIDERS},
    "agents": _import_adapter("hosts.agents"),
    "ag_ui": _import_adapter("adapters.ag_ui"),
    "ai_sdk": _import_adapter("adapters.ai_sdk"),
    "langchain": _import_langchain,
    "pydantic_ai": _pydantic_ai,
    "transcripts": _import_adapter("adapters.transcripts"),
}


def without_notes(message: Message) -> Message:
    """*message* without what adapters noted about it, and about its parts and calls."""
    changes: dict[str, Any] = {"metadata": own_of(message.metadata)}
    if not isinstance(message, UnknownMessage):
        content: Any = message.content  # type: ignore[attr-defined]
        if not isinstance(content, str):
            changes["content"] = [helpers.without_notes(part) for part in content]

    if isinstance(message, AssistantMessage):
        changes["tool_calls"] = [
            helpers.without_notes(each) for each in message.tool_calls
        ]

    return message.replace(**changes)


def as_data(messages: Iterable[Message], *, noted: bool = False) -> Any:
    """*messages* in JSON, without notes unless they are *noted*."""
    shown = messages if noted else map(without_notes, messages)
    return to_data(tuple(shown))["messages"]


def _list_problems(error: DecodeError) -> list[list[str]]:
    return [[problem.path, problem.what] for problem in error.problems]


def _list_elsewhere(name: str, loaded: Sequence[Message]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for other in _ELSEWHERE:
        if other != name:
            lost = as_is(FORMATS[other]().adapter).dump(loaded).lost
            found[other] = [f"{one.path}: {one.what}" for one in lost]

    return {other: lost for other, lost in found.items() if lost}


def _dump(under: Format, messages: Sequence[Message]) -> dict[str, Any]:
    if not hasattr(under.adapter, "dump"):
        return {}

    export = as_is(under.adapter).dump(messages)
    return {"dump": under.render(export.payload), "lost": list(map(list, export.lost))}


def _load(name: str, under: Format, case: dict[str, Any]) -> dict[str, Any]:
    try:
        loaded = under.adapter.load(under.parse(case["payload"]))
    except DecodeError as error:
        return {"problems": _list_problems(error)}

    found = {
        "messages": as_data(loaded, noted="noted" in case),
        **_dump(under, loaded),
    }
    if "elsewhere" in case:
        found["elsewhere"] = _list_elsewhere(name, loaded)

    return found


def _load_usage(under: Format, payload: Any) -> dict[str, Any]:
    try:
        usage = under.adapter.load_usage(payload)
    except DecodeError as error:
        return {"problems": _list_problems(error)}

    if usage is None:
        return {"usage": None}

    answer = AssistantMessage("", response=ResponseMeta(usage=usage))
    return {"usage": as_data([answer])[0]["response"]["usage"]}


def _load_stream(under: Format, case: dict[str, Any]) -> dict[str, Any]:
    chunks: list[Any] = []
    error: dict[str, Any] = {}
    choice = {"choice": case["choice"]} if "choice" in case else {}
    try:
        chunks.extend(under.adapter.load_chunks(case["events"], **choice))
    except DecodeError as caught:
        error = {"error": {"problems": _list_problems(caught)}}
    except ProviderStreamError as caught:
        error = {"error": {"reason": caught.reason, "event": caught.event}}

    if not chunks:
        return {"message": None, **error}

    message = concat(chunks)
    (shown,) = as_data([message], noted="noted" in case)
    return {"message": shown, **_dump(under, [message]), **error}


def _load_file(case: dict[str, Any]) -> dict[str, Any]:
    trees = []
    for loaded in message_trees.load_trees(case["file"]):
        if isinstance(loaded, DecodeError):
            trees.append({"problems": _list_problems(loaded)})
            continue

        nodes = loaded.tree.nodes
        numbers = {node.id: at for at, node in enumerate(nodes)}
        messages = as_data([node.message for node in nodes], noted="noted" in case)
        found = {
            "name": loaded.name,
            "title": loaded.title,
            "times": [str(loaded.created_at), str(loaded.updated_at)],
            "problems": [*loaded.problems],
            "shown": numbers[loaded.tree.head or ""],
            "parents": [numbers.get(node.parent or "") for node in nodes],
            "messages": messages,
        }
        # Without a name it is that of its state, which is unique.
        named = attrs.evolve(loaded, name=loaded.name or "c1")
        trees.append({**found, **_dump_tree(named)})

    return {"trees": trees}


def _dump_tree(tree: Any) -> dict[str, Any]:
    written, lost = {}, {}
    for kind in ("assistant_ui", "assistant_ui_rows", "librechat", "open_webui"):
        export = message_trees.dump_tree(tree, format=kind)
        written[kind] = export.payload
        lost[kind] = [*map(list, export.lost)]

    return {"written": written, "lost": lost}


def _dump_chain(messages: Any) -> dict[str, Any]:
    named = [name_message(each, f"m{at}") for at, each in enumerate(messages)]
    state = Aggregator.new(named)
    chain = message_trees.LoadedTree("c1", "Sums", MessageTree.of(state))
    return _dump_tree(chain)


def fill(name: str, case: dict[str, Any]) -> dict[str, Any]:
    """*case* of the format *name*, with what comes of what it is given."""
    given = ["name", "noted", "choice", "events", "usage_of", "payload", "file"]
    if "file" in case:
        found = _load_file(case)
    elif "events" in case:
        found = _load_stream(FORMATS[name](), case)
    elif "usage_of" in case:
        found = _load_usage(FORMATS[name](), case["usage_of"])
    elif "payload" in case:
        found = _load(name, FORMATS[name](), case)
    else:
        given.append("messages")
        messages = from_data({**_HEAD, "messages": case["messages"]})
        is_chain = name == "message_trees"
        found = _dump_chain(messages) if is_chain else _dump(FORMATS[name](), messages)

    whole = {**{key: case[key] for key in given if key in case}, **found}
    filled: dict[str, Any] = json.loads(without_unique_ids(json.dumps(whole)))
    return filled


def read(path: Path) -> list[dict[str, Any]]:
    """The cases in the file *path*."""
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def write(path: Path) -> None:
    """Write all cases in the file *path* anew."""
    name, _, _ = path.name.partition(".")
    lines = [json.dumps(fill(name, case)) for case in read(path)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
