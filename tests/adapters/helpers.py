"""
What the tests of formats write, draw and read with: tables of small facts, JSON
objects, what an adapter makes of a payload, messages that are no request, and what
libraries that keep whole messages could know of one.
"""

import inspect
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from hypothesis import strategies as st

from conversation_state.adapters import (
    anthropic,
    gemini,
    openai_chat,
    openai_responses,
)
from conversation_state.adapters.engine.notes import notes_of, own_of
from conversation_state.messages import AssistantMessage, Message, UnknownMessage
from conversation_state.parts import TextPart
from conversation_state.requests import AS_IS

__all__ = [
    "PROVIDERS",
    "WIRES",
    "as_is",
    "ask_node",
    "both",
    "exactly",
    "find_node",
    "lines",
    "make_readers",
    "normalise",
    "some",
    "table",
    "without_notes",
]

WIRES = Path(__file__).resolve().parent.parent / "wires"

# The adapters of providers, by the names of their formats.
PROVIDERS: dict[str, Any] = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
}


def find_node(package: str) -> tuple[str, Path]:
    """
    Node, and the folder that has *package*: ``tests/wires``, or the one that
    `CONVERSATION_STATE_WIRES` names. Skips without one of them.
    """
    where = Path(os.environ.get("CONVERSATION_STATE_WIRES", WIRES))
    node = shutil.which("node")
    if node is None or not (where / "node_modules" / package).is_dir():
        pytest.skip(f"needs Node, and {package} in {where}: run make wires")

    return node, where


def ask_node(script: str, package: str, lines: Iterable[Any]) -> list[Any]:
    """
    What *script* of ``tests/wires`` answers to each of *lines*; skips as `find_node`.
    """
    node, where = find_node(package)
    done = subprocess.run(
        [node, str(WIRES / script)],
        cwd=where,
        input="\n".join(map(json.dumps, lines)),
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def table(names: str, rows: Mapping[str, Any]) -> pytest.MarkDecorator:
    """
    Run a test once for each of *rows*, whose values are the arguments *names*.

    The key of a row is the sentence that it holds, and the id of its test, so that a
    failure names the promise that is broken.
    """
    count = len(names.split(","))
    values = {sentence: row if count > 1 else (row,) for sentence, row in rows.items()}
    return pytest.mark.parametrize(
        names, [pytest.param(*row, id=sentence) for sentence, row in values.items()]
    )


def some(**keys):
    """An object that has each of *keys*, or has it not."""
    return st.fixed_dictionaries({}, optional=keys)


def exactly(**keys):
    """An object that has all of *keys*."""
    return st.fixed_dictionaries(keys)


def both(*objects):
    """One object of several."""
    return st.tuples(*objects).map(
        lambda made: {key: each for one in made for key, each in one.items()}
    )


def make_readers(adapter: Any) -> tuple[Any, Any, Any]:
    """
    Three functions for the format of *adapter*: the one message that a raw one is;
    the messages of a payload, of whatever class; the notes about a value.
    """
    _, _, name = adapter.__name__.rpartition(".")

    def read_one(raw: Any) -> Any:
        (message,) = adapter.load([raw])
        return message

    def read_notes(value: Any) -> Any:
        return notes_of(value.metadata, name)

    return read_one, adapter.load, read_notes


def as_is(adapter):
    """
    *adapter*, whose `dump` writes messages as they are: one result, an answer alone;
    itself if it has no rules.
    """
    if "rules" not in inspect.signature(adapter.dump).parameters:
        return adapter

    names = {name: getattr(adapter, name) for name in dir(adapter) if name[0] != "_"}
    return SimpleNamespace(
        **{
            **names,
            "dump": partial(adapter.dump, rules=AS_IS),
            "__name__": adapter.__name__,
        }
    )


def lines(path):
    """The JSON values of a file, one a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def without_notes(value):
    """*value* without what adapters noted about it."""
    own = own_of(value.metadata)
    if isinstance(value, Message):
        return value.replace(metadata=own)

    return attrs.evolve(value, metadata=own)


def normalise(message, source):
    """
    *message* with all that a library which keeps whole messages could know of
    it: one plain text is not a list, and a made-up id is empty.
    """
    bare = without_notes(message)
    if isinstance(bare, UnknownMessage):
        return bare

    content = bare.content
    if not isinstance(content, str):
        content = [without_notes(part) for part in content]
        if not content or (len(content) == 1 and content[0] == TextPart(bare.text)):
            content = bare.text

    bare = bare.replace(content=content)
    if isinstance(bare, AssistantMessage):
        calls = [
            attrs.evolve(
                without_notes(call),
                id="" if "made_id" in notes_of(call.metadata, source) else call.id,
            )
            for call in message.tool_calls
        ]
        bare = bare.replace(tool_calls=calls)

    return bare
