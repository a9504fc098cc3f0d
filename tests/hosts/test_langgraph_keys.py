"""
Keys, records and names as they are stored: written once, they have to be found
by every later version.
"""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.hosts.langgraph import _threads as keys
from conversation_state.hosts.langgraph._checkpoints import (
    StoredCheckpoint,
    StoredWrite,
)
from conversation_state.hosts.langgraph._values import TypedBytes
from conversation_state.store.records import Record

GOLDEN = Path(__file__).parents[1] / "golden" / "langgraph" / "v1.json"

ID = "1ef4f797-8335-6428-8001-8a1503f9b875"
TEXTS = {
    "empty": "",
    "plain": "ann",
    "odd": "a/b\0%é\ud800",
    "long": "x" * 600,
    "long, too": "x" * 599 + "y",
}
STORED = StoredCheckpoint(
    "outer|inner:1",
    ID,
    "",
    TypedBytes("msgpack", b"\x80"),
    TypedBytes("json", b"{}"),
    {"messages": b"@" + ID.encode(), "count": b"=\1", "é": b"@"},
)
WRITE = StoredWrite("~__pregel_pull, a", ID, -3, "messages", TypedBytes("null", b""))


def made():
    found = {
        "contents of a thread": keys.contents_of(7),
        "all checkpoints": keys.checkpoints_of(None),
        "checkpoint, any id": keys.checkpoint_key("", "not a UUID"),
        "value": keys.value_key("inner", "messages", ID),
        "value, any id": keys.value_key("", "messages", ID.upper()),
        "writes of a task": keys.task_key("", ID, ID),
        "writes of a task, any id": keys.task_key("", ID, "any"),
        "record of a checkpoint": STORED.packed(),
        "record of a write": WRITE.packed(),
        "packed": keys.pack(b"", b"a", b"b" * 127, b"c" * 128, b"d" * 20_000)[:400],
    }
    for what, text in TEXTS.items():
        found[f"thread, {what}"] = keys.thread_key(text)
        found[f"checkpoint, {what}"] = keys.checkpoint_key(text, ID)

    names = {
        f"name, {what}": keys.name_of(text, "messages", text[:50])
        for what, text in TEXTS.items()
    }
    return {what: key.hex() for what, key in found.items()} | names


class TestGolden:
    def test_format(self):
        """
        What was written by the first version is written today. This file is
        never changed: a new format gets a new one, and both are read.
        """
        golden = json.loads(GOLDEN.read_text(encoding="utf-8"))

        assert golden == made()

    def test_records(self):
        """Records of the first version are read."""
        golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
        checkpoint = bytes.fromhex(golden["record of a checkpoint"])
        write = bytes.fromhex(golden["record of a write"])

        assert STORED == StoredCheckpoint.of(Record(b"", checkpoint, None))
        assert [WRITE] == StoredWrite.unpack_all(keys.pack(write))


class TestLength:
    @pytest.mark.parametrize("length", [0, 1, 199, 200, 201, 216, 217, 600, 100_000])
    @pytest.mark.parametrize("letter", ["x", "é", "\0"])
    def test_bounded(self, length, letter):
        """However long its parts are, a key fits into any server's index."""
        text = letter * length
        whole = [
            keys.thread_key(text),
            keys.checkpoint_key(text, text),
            keys.value_key(text, text, text),
            keys.task_key(text, text, text),
        ]
        part = len(keys.thread_key(text)) - len(keys.THREADS)

        # 200 bytes and what marks a shortened one; each zero takes two, which
        # the 16 bytes of a digest may be, too; and two end a part.
        longest = 2 * 201 if letter == "\0" else 201 + 16

        assert part <= longest + 2
        assert all(len(key) <= 3 * (longest + 2) + 20 for key in whole)
        assert len(keys.name_of(text, text, text)) <= 500

    @given(st.text(max_size=300), st.text(max_size=300))
    def test_apart(self, one, two):
        """
        Different texts have different keys, in their order, and none begins
        another.
        """
        first, second = (keys.checkpoints_of(text) for text in (one, two))
        data = [text.encode("utf-8", "surrogatepass") for text in (one, two)]

        assert (one == two) == (first == second)
        assert one == two or not first.startswith(second)
        if all(len(each) <= 200 for each in data):
            assert (data[0] < data[1]) == (first < second)

    @given(st.lists(st.binary(max_size=300)))
    def test_packed(self, parts):
        """What was packed is unpacked."""
        assert parts == [*keys.unpack(keys.pack(*parts))]
