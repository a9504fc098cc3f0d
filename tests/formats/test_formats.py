"""What each format is loaded as, dumped as and loses, pinned case by case."""

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from conversation_state.codec import decode, encode
from conversation_state.errors import DecodeError
from tests.adapters.contract import as_json, without_unique_ids
from tests.adapters.helpers import as_is
from tests.formats.cases import FORMATS, PROVIDERS, fill, read
from tests.recorded import LARGE

FOLDER = Path(__file__).parent
CASES = [
    (path.stem, case) for path in sorted(FOLDER.glob("*.jsonl")) for case in read(path)
]


def named(*keys):
    """A test for each case with one of *keys*, by its format and its promise."""
    return pytest.mark.parametrize(
        ("name", "case"),
        [
            pytest.param(file.split(".")[0], case, id=f"{file}: {case['name']}")
            for file, case in CASES
            if any(key in case for key in keys)
        ],
    )


@named("messages", "usage", "trees")
def test_format(name, case):
    """A payload gives these messages, and messages this dump, with this lost."""
    if "dump" in case:
        under = FORMATS[name]()
        # By way of the SDK's own objects, which a newer version may write otherwise.
        case = {**case, "dump": under.render(under.parse(case["dump"]))}

    assert as_json(case) == as_json(fill(name, case))


@named("problems")
def test_problems(name, case):
    """A payload that is refused has these problems, each with its path."""
    assert as_json(case) == as_json(fill(name, case))


@named("events")
def test_stream(name, case):
    """Events make this message, and an error comes after what was said before it."""
    assert as_json(case) == as_json(fill(name, case))


@pytest.mark.parametrize("name", FORMATS)
def test_decoded(name):
    """What was loaded, encoded and decoded is dumped as it was before."""
    under = FORMATS[name]()
    for case in read(FOLDER / f"{name}.jsonl"):
        if "payload" in case and "dump" in case:
            loaded = under.adapter.load(under.parse(case["payload"]))
            again = as_is(under.adapter).dump(decode(encode(tuple(loaded))))

            written = without_unique_ids(as_json(under.render(again.payload)))
            assert as_json(under.render(under.parse(case["dump"]))) == written


def make_read_only(value):
    """*value*, JSON, of mappings and tuples that can't be changed."""
    if isinstance(value, dict):
        return MappingProxyType({key: make_read_only(value[key]) for key in value})

    return tuple(map(make_read_only, value)) if isinstance(value, list) else value


@pytest.mark.parametrize("name", PROVIDERS)
def test_read_only(name):
    """A payload of other mappings and of tuples is loaded as one of dicts and lists."""
    load = FORMATS[name]().adapter.load
    for case in read(FOLDER / f"{name}.jsonl"):
        if "payload" in case and "messages" in case:
            loaded = load(case["payload"]), load(make_read_only(case["payload"]))
            first, second = (without_unique_ids(str(each)) for each in loaded)

            assert first == second


@pytest.mark.parametrize("name", PROVIDERS)
def test_loaded_again(name):
    """
    Of every recorded request and response: what is dumped, loaded and dumped
    again is the same, messages and payload.
    """
    if not LARGE.is_dir():
        pytest.skip(f"no large collection of recordings at {LARGE}")

    adapter: Any = FORMATS[name]().adapter
    path = LARGE / "requests" / f"{name}.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines():
        exchange = json.loads(line)
        for payload in (exchange["request"], exchange["response"]):
            try:
                loaded = adapter.load(payload)
            except DecodeError:
                # Some responses are errors.
                assert payload is exchange["response"]
                continue

            export = as_is(adapter).dump(loaded)
            # A request may go on with what the provider has stored.
            is_request = payload is exchange["request"]
            again = adapter.load({**(payload if is_request else {}), **export.payload})

            assert () == export.lost
            assert as_json(export.payload) == as_json(
                as_is(adapter).dump(again).payload
            )
            if is_request:
                assert loaded == again
