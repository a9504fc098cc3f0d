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
from conversation_state.cli._input import InputConversation, read_files
from conversation_state.testing.strategies import json_values
from tests.formats.cases import read
from tests.profiles import fewer


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


def _find_places(value: Any) -> list[tuple[Any, Any]]:
    """Each list or object in *value* with each index or key of it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, each in inner:
        found.append((value, key))
        if isinstance(each, dict | list):
            found += _find_places(each)

    return found


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

    found = [*read_files([str(path)], limit=1 << 20, advance=lambda _: None)]

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

    assert [*read_files([str(path)], limit=1 << 20, advance=lambda _: None)]
