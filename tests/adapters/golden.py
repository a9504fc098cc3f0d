"""
What each format is loaded as and dumped as: one golden file per format, in
``tests/golden/adapters``.

A line is a case: the *payload* that is loaded (none for messages that were made),
the *messages*, what `dump` makes of them, what is *lost*, and what would be lost
*elsewhere*, in the other formats. Notes in metadata are left out: how an adapter
keeps what our model has no field for is its own affair, and what comes of it is
in the dump.

The files hold our own recordings and values drawn with a fixed seed. They are
written once; a case changes only with the behaviour that it shows:

    python -m tests.adapters.golden FORMAT …
"""

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from conversation_state import adapters
from conversation_state.adapters.engine.notes import own_of
from conversation_state.codec import from_data, to_data
from conversation_state.errors import ConversationStateError
from conversation_state.messages import AssistantMessage, Message, UnknownMessage
from conversation_state.testing.strategies import messages
from tests.adapters import kept
from tests.adapters.contract import without_unique_ids
from tests.adapters.pieces import as_is
from tests.recorded import OWN

__all__ = ["FOLDER", "FORMATS", "PROVIDERS", "Format", "as_data", "cases", "elsewhere"]

FOLDER = Path(__file__).parent.parent / "golden" / "adapters"

# Formats with recordings of their own.
PROVIDERS = ("anthropic", "gemini", "openai_chat", "openai_responses")
# The formats that the cases of those list losses in. A format that is added later is
# not one of them: it would change every case.
_ELSEWHERE = ("openai_chat", "openai_responses", "anthropic", "gemini", "eino", "bubo")
_MAX_SIZE = 2_500  # characters of a case that was drawn
_DRAWN = 30
_MADE = 20


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
    "langchain": _import_langchain,
    "pydantic_ai": _pydantic_ai,
}


def without_notes(message: Message) -> Message:
    """*message* without what adapters noted about it, and about its parts and calls."""
    changes: dict[str, Any] = {"metadata": own_of(message.metadata)}
    if not isinstance(message, UnknownMessage):
        content: Any = message.content  # type: ignore[attr-defined]
        if not isinstance(content, str):
            changes["content"] = [kept.without_notes(part) for part in content]

    if isinstance(message, AssistantMessage):
        changes["tool_calls"] = [
            kept.without_notes(each) for each in message.tool_calls
        ]

    return message.replace(**changes)


def as_data(loaded: Sequence[Message]) -> Any:
    """*loaded* in JSON, without notes."""
    return to_data(tuple(map(without_notes, loaded)))["messages"]


def elsewhere(name: str, loaded: Sequence[Message]) -> dict[str, list[str]]:
    """What is lost of *loaded*, messages in the format *name*, in other formats."""
    found: dict[str, list[str]] = {}
    for other in _ELSEWHERE:
        if other != name:
            lost = as_is(FORMATS[other]().adapter).dump(loaded).lost
            found[other] = [f"{one.path}: {one.what}" for one in lost]

    return {other: lost for other, lost in found.items() if lost}


def cases(name: str) -> list[dict[str, Any]]:
    """The golden cases of the format *name*; of made messages as they were made."""
    path = FOLDER / f"{name}.jsonl"
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing; write it: python -m tests.adapters.golden {name}"
        )

    text = path.read_text(encoding="utf-8")
    found = [json.loads(line) for line in text.splitlines()]
    for case in found:
        if "payload" not in case:
            head = {"format": "conversation_state", "version": 1, "kind": "messages"}
            case["made"] = from_data({**head, "messages": case["messages"]})

    return found


# Writing the files


def _make_load_case(
    name: str, under: Format, title: str, payload: Any
) -> dict[str, Any]:
    loaded = under.adapter.load(under.parse(payload))
    export = as_is(under.adapter).dump(loaded)
    case = {
        "name": title,
        "payload": payload,
        "messages": as_data(loaded),
        "dump": under.render(export.payload),
        "lost": list(map(list, export.lost)),
    }
    others = elsewhere(name, loaded) if name in PROVIDERS else {}
    return {**case, "elsewhere": others} if others else case


def _make_dump_case(
    under: Format, title: str, made: Sequence[Message]
) -> dict[str, Any]:
    export = as_is(under.adapter).dump(made)
    return {
        "name": title,
        "messages": to_data(tuple(made))["messages"],
        "dump": under.render(export.payload),
        "lost": list(map(list, export.lost)),
    }


def _read_recordings(name: str) -> Iterator[tuple[str, Any]]:
    source = "openai_responses" if name == "agents" else name
    path = OWN / "requests" / f"{source}.jsonl"
    if not path.exists():
        return

    keys = ("system", "systemInstruction", "instructions", "contents", "input")
    for line in path.read_text(encoding="utf-8").splitlines():
        exchange = json.loads(line)
        request = exchange["request"]
        taken = {key: request[key] for key in (*keys, "messages") if key in request}
        if name != "agents":
            yield exchange["name"], taken
            yield f"{exchange['name']} response", exchange["response"]
        elif isinstance(taken["input"], list):
            yield exchange["name"], taken["input"]


def _list_strategies(name: str, under: Format) -> list[st.SearchStrategy[Any]]:
    module = importlib.import_module(
        f"tests.adapters.{'openai_responses' if name == 'agents' else name}"
    )
    if name == "langchain":
        lists = st.lists(module.LANGCHAIN_MESSAGES, max_size=2)
        return [lists.map(under.render)]

    if name == "pydantic_ai":
        return [
            st.just(module.plain(module.EVERYTHING)),
            module.histories.map(module.plain),
        ]

    if name == "agents":
        return [module.INPUTS.filter(lambda given: isinstance(given, list))]

    if name in PROVIDERS:
        return [module.REQUESTS, module.RESPONSES]

    return [module.CONVERSATIONS]


def _draw_values(values: st.SearchStrategy[Any], count: int) -> list[Any]:
    found: list[Any] = []

    @seed(2026)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(values)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found


def _write_corpus(name: str) -> None:
    under = FORMATS[name]()
    lines: dict[str, None] = {}

    def add(case: dict[str, Any], most: int = 10**6) -> bool:
        line = without_unique_ids(json.dumps(case, allow_nan=False))
        case = json.loads(line)
        if json.loads(line) != case or len(line) > most:
            return False

        lines[line] = None
        return True

    def add_loaded(title: str, payload: Any, most: int = 10**6) -> bool:
        # Not all that an adapter takes is JSON, and not all that is drawn is taken.
        try:
            json.dumps(payload, allow_nan=False)
            case = _make_load_case(name, under, title, payload)
            return bool(case["messages"]) and add(case, most)
        except (ConversationStateError, TypeError, ValueError):
            return False

    for title, payload in _read_recordings(name):
        add_loaded(title, payload)

    for number, values in enumerate(_list_strategies(name, under)):
        count = 0
        for payload in _draw_values(values, 3 * _DRAWN):
            most = 10**6 if name == "pydantic_ai" and not number else _MAX_SIZE
            count += add_loaded(f"drawn {number}.{count}", payload, most)
            if count == _DRAWN:
                break

    for number, made in enumerate(
        _draw_values(st.lists(messages(), max_size=3), _MADE)
    ):
        add(_make_dump_case(under, f"made {number}", made), _MAX_SIZE)

    text = "".join(f"{line}\n" for line in lines)
    (FOLDER / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in sys.argv[1:] or FORMATS:
        _write_corpus(each)
