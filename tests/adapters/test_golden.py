"""What each format is loaded as, dumped as and loses, pinned case by case."""

import json
from typing import Any

import pytest

from conversation_state.codec import decode, encode
from conversation_state.errors import DecodeError
from tests.adapters.contract import as_json, without_unique_ids
from tests.adapters.golden import FORMATS, PROVIDERS, as_data, cases, elsewhere
from tests.adapters.pieces import as_is
from tests.recorded import LARGE

CASES = [
    pytest.param(name, case, id=f"{name}: {case['name']}")
    for name in FORMATS
    for case in cases(name)
]


@pytest.mark.parametrize(("name", "case"), CASES)
def test_golden(name, case):
    """A payload gives these messages, and messages this dump, with this lost."""
    under = FORMATS[name]()
    loaded = case.get("made")
    if loaded is None:
        loaded = under.adapter.load(under.parse(case["payload"]))

    export = as_is(under.adapter).dump(loaded)
    # By way of the SDK's own objects, which a newer version may write otherwise.
    dump = under.render(under.parse(case["dump"]))

    # A decoded conversation has equal texts, and not the same ones.
    again = as_is(under.adapter).dump(decode(encode(tuple(loaded))))
    assert without_unique_ids(as_json(under.render(again.payload))) == (
        without_unique_ids(as_json(under.render(export.payload)))
    )

    # Ids that are unique in time differ each time.
    written = without_unique_ids(as_json(under.render(export.payload)))
    messages = without_unique_ids(as_json(as_data(loaded)))
    assert "made" in case or as_json(case["messages"]) == messages
    assert as_json(dump) == written
    assert case["lost"] == [list(one) for one in export.lost]
    if "payload" in case and name in PROVIDERS:
        assert case.get("elsewhere", {}) == elsewhere(name, loaded)


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
