"""One value of a file is another than it should be: what `import` makes of that."""

import copy
import importlib
import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.adapters import FORMATS
from conversation_state.cli._formats import FORMATS as IMPORTED
from conversation_state.cli._input import InputConversation, read_files
from conversation_state.testing.strategies import json_values
from tests.commands import Commands
from tests.formats.cases import read
from tests.profiles import fewer


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The commands on a store that is not there yet."""
    monkeypatch.delenv("CONVERSATION_STATE_STORE", raising=False)
    return Commands(tmp_path)


def _list_payloads(path: Path) -> list[Any]:
    cases = read(path)
    return [case[key] for case in cases for key in ("payload", "file") if key in case]


PAYLOADS = {
    path.stem: payloads
    for path in sorted(Path(__file__).parent.glob("formats/*.jsonl"))
    if (payloads := _list_payloads(path))
}


# Those that are written from messages, which those of trees and sessions are not.
WRITTEN = [
    adapter
    for name in FORMATS
    if hasattr(
        adapter := importlib.import_module(f"conversation_state.adapters.{name}"),
        "dump",
    )
]


# Those that `import` takes a name of.
READ = [*IMPORTED]


def _find_places(value: Any) -> list[tuple[Any, Any]]:
    """Each list or object in *value* with each index or key of it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, each in inner:
        found.append((value, key))
        if isinstance(each, dict | list):
            found += _find_places(each)

    return found


def read_all(path: Path, name: str = "") -> list[Any]:
    """What is read of a file, in the format *name* if one is given."""
    advance: Any = lambda _: None  # noqa: E731 - no progress is shown
    return [*read_files([str(path)], limit=1 << 20, advance=advance, format=name)]


@pytest.mark.parametrize("name", PAYLOADS)
@fewer()
@given(data=st.data())
def test_another_value(name, data, tmp_path_factory):
    """
    Every file is read or refused with a reason; and what is read can be written in
    every format.
    """
    document = copy.deepcopy(data.draw(st.sampled_from(PAYLOADS[name])))
    places = _find_places([document])
    owner, key = data.draw(st.sampled_from(places))
    old, (other_owner, other_key) = owner[key], data.draw(st.sampled_from(places))
    news = [[old], json.dumps(old), 10**400, copy.deepcopy(other_owner[other_key])]
    owner[key] = data.draw(st.sampled_from(news) | json_values())
    # A list may stand as a document, or on lines.
    is_lines = isinstance(document, list) and data.draw(st.booleans())
    texts = map(json.dumps, document if is_lines else [document])
    path = tmp_path_factory.getbasetemp() / f"{name}.json"
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    given = data.draw(st.sampled_from(["", *READ]))

    found = read_all(path, given)

    assert found or not document
    for each in found:
        if isinstance(each, InputConversation):
            for adapter in WRITTEN:
                adapter.dump(each.messages)
        else:
            assert each.reason


@fewer()
@given(data=st.data())
def test_lines_of_several_formats(data, tmp_path_factory):
    """Items of any formats, one behind the other, are read or refused, too."""
    lists = [each for each in chain(*PAYLOADS.values()) if isinstance(each, list)]
    items = [item for item in chain(*lists) if isinstance(item, dict)]
    lines = data.draw(st.lists(st.sampled_from(items), min_size=2, max_size=4))
    path = tmp_path_factory.getbasetemp() / "several.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in lines), "utf-8")

    assert read_all(path)


NOTHINGS: list[Any] = [None, {}, "x", [None], [[]], [{}]]
ODDITIES: list[Any] = [None, 1, [], ""]
# Values that are no conversation in any format, and nearly one in some.
SMALL: list[Any] = [
    *(None, True, 0, 1.5, "", "text", {}, [None], [1], ["a"], [[]], [[[]]], [[1]]),
    *({"a": 1}, [{}], {"role": "user"}, {"type": 1}, {"message": None}, {"body": {}}),
    *({"messages": value} for value in NOTHINGS),
    *({key: None} for key in ("input", "contents", "chosen", "output", "mapping")),
    *({"chosen": value, "rejected": "x"} for value in ODDITIES),
    *({"output": value, "instruction": []} for value in ODDITIES[:3]),
    {"messages": [{"role": "user", "content": "q"}], "output": 1},
    {"message": {"content": "a"}, "eval_count": [], "prompt_eval_count": 1},
    {"headId": 1, "messages": [1]},
]


@pytest.mark.parametrize("value", SMALL, ids=repr)
def test_small_values(value, run):
    """
    Whatever format is named, a value that holds no conversation is refused with a
    reason, and nearly all are.
    """
    path = run.write(json.dumps(value))
    for name in READ:
        found = read_all(path, name)

        assert found, name
        for each in found:
            assert isinstance(each, InputConversation) or each.reason.strip(), name


@pytest.mark.parametrize("name", READ)
def test_files_of_other_formats(name, tmp_path):
    """A file of any format is read or refused in the format that is named."""
    path = tmp_path / "file.json"
    for payloads in PAYLOADS.values():
        for payload in payloads[:: max(1, len(payloads) // 12)]:
            path.write_text(f"{json.dumps(payload)}\n", encoding="utf-8")

            for each in read_all(path, name):
                assert isinstance(each, InputConversation) or each.reason.strip()


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("openai_chat", None, "null, not a conversation; --format openai_chat reads"),
        ("log", [[1]], "a list of other values than messages; --format log reads"),
        ("preferences", {"a": 1}, "an object with the keys a; --format preferences"),
        ("instructions", {"chosen": 1}, "instructions with outputs, as Alpaca's"),
    ],
)
def test_reason(name, value, reason, run):
    """A refusal says what the value is, what the format is for, and what to do."""
    refused = run("import", run.write(json.dumps(value)), "--format", name, status=2)

    assert reason in refused.stderr
    assert "give another format, or none to have it recognised" in refused.stderr
    assert 1 == refused.stderr.count("\n")
