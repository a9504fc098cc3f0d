"""Identities are unique: across threads, processes, and `os.fork`."""

import itertools
import multiprocessing
import os
import re
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from uuid import RFC_4122, UUID

import pytest

from conversation_state import Aggregator, Envelope, _identity
from conversation_state._identity import (
    _CountPerThread,
    _renew_prefix,
    new_entry_id,
    new_uuid_number,
)
from tests.processes import run_script

# Forks while it has threads would be warned of in this process, which pytest
# makes an error; so does a process of its own.
FORKS = """
import os
from conversation_state import Aggregator
from conversation_state._identity import new_entry_id, new_uuid_number

def made():
    state = Aggregator.new().add_user_prompt("hi")
    return [
        state.entries[0].id, str(state.id), str(state.fork().id),
        *[new_entry_id() for _ in range(50)],
        *[str(new_uuid_number()) for _ in range(50)],
    ]

before = made()
readers = []
for _ in range(3):
    reader, writer = os.pipe()
    if not os.fork():
        # A child of a child, too.
        grandchild = os.fork()
        os.write(writer, " ".join(made() + [""]).encode())
        if grandchild:
            os.waitpid(grandchild, 0)
        os._exit(0)
    os.close(writer)
    readers.append(reader)

ids = before + made()
for reader in readers:
    with open(reader, "rb") as lines:
        ids += lines.read().decode().split()
print(len(ids), len(set(ids)))
"""


class TestEntryId:
    def test_is_a_text(self):
        """Opaque ASCII of about thirty characters, which any JSON can hold."""
        assert re.fullmatch(r"[0-9a-f]{24}-[0-9a-f]+", new_entry_id())
        assert 40 > len(new_entry_id())

    def test_across_threads(self):
        """No two threads ever get the same."""
        with ThreadPoolExecutor(8) as pool:
            runs = pool.map(lambda _: [new_entry_id() for _ in range(2_000)], range(8))
            ids = [*itertools.chain(*runs)]

        assert 16_000 == len(ids) == len(set(ids))

    def test_across_processes(self):
        """No two processes ever get the same."""
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            entries = [pool.submit(new_entry_id) for _ in range(20)]
            states = [pool.submit(new_uuid_number) for _ in range(20)]
            ids = [run.result() for run in entries]
            ids += [str(run.result()) for run in states]

        ids += [new_entry_id(), str(new_uuid_number())]

        assert 42 == len(set(ids))

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no os.fork on this system")
    def test_across_forks(self):
        """
        A process and what was forked from it, over generations, count on from
        different places.
        """
        done = run_script(FORKS)

        # Before and after in the parent, three children, three grandchildren.
        assert f"{8 * 103} {8 * 103}" == done.strip()


class TestUuidNumber:
    def test_in_order(self):
        """Sorted in the order they were made, also within one millisecond."""
        made = [new_uuid_number() for _ in range(5_000)]

        assert sorted(set(made)) == made
        assert 5_000 > len({number >> 80 for number in made})

    @pytest.mark.parametrize("chance", [b"\x00", b"\xff", b"\x5a"])
    def test_in_order_from_anywhere(self, chance, monkeypatch):
        """Wherever counting starts, order, version and variant stay."""
        with monkeypatch.context() as patched:
            patched.setattr(os, "urandom", lambda count: chance * count)
            patched.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
            _renew_prefix()
            made = [UUID(int=new_uuid_number()) for _ in range(5_000)]

        _renew_prefix()

        assert sorted(set(made)) == made
        assert {(7, RFC_4122)} == {(one.version, one.variant) for one in made}
        assert {1_700_000_000_000} == {one.int >> 80 for one in made}

    @pytest.mark.parametrize(("has_gil", "entry_bits"), [(True, 0), (False, 63)])
    def test_starts_anywhere(self, has_gil, entry_bits, monkeypatch):
        """
        All bits beside the time, the version, the variant and the highest of the count
        are random when counting starts; of entries they are those before the count, and
        63 bits where each thread counts for itself.
        """
        starts, entries = [], []
        with monkeypatch.context() as patched:
            patched.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
            patched.setattr(sys, "_is_gil_enabled", lambda: has_gil, raising=False)
            for chance in (b"\x00", b"\xff"):
                patched.setattr(os, "urandom", lambda count, byte=chance: byte * count)
                _renew_prefix()
                starts.append(new_uuid_number())
                entries.append(new_entry_id())

        _renew_prefix()

        assert 0xFFF << 64 | (1 << 61) - 1 == starts[0] ^ starts[1]
        assert [f"{'0' * 24}-1", f"{'f' * 24}-{1 << entry_bits:x}"] == entries

    def test_who_has_them(self):
        """States, forks, runs and turns do."""
        state = Aggregator.new()
        turn = Envelope.new()
        made = [state.id, state.fork().id, turn.run_id, turn.turn_id]

        assert {7} == {one.version for one in made}
        assert 4 == len(set(made))
        assert state.id < state.fork().id


class TestCountPerThread:
    """What free-threaded builds count with."""

    def test_counts(self):
        """
        Every thread counts up, from a place of its own; no number comes twice,
        and none leaves the bits there are.
        """
        following = _CountPerThread(1 << 70, 61).__next__
        barrier = threading.Barrier(8, timeout=60)

        def run(_):
            barrier.wait()
            return [following() for _ in range(1_000)]

        with ThreadPoolExecutor(8) as pool:
            runs = list(pool.map(run, range(8)))

        assert all([*range(run[0], run[0] + 1_000)] == run for run in runs)
        assert 8_000 == len(set(itertools.chain(*runs)))
        assert {1 << 9} == {number >> 61 for run in runs for number in run}

    def test_is_what_identities_are_made_with(self, monkeypatch):
        """Without a global lock identities are as unique, in their form too."""
        monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
        _renew_prefix()
        try:
            with ThreadPoolExecutor(4) as pool:
                ids = list(pool.map(lambda _: _identity.new_entry_id(), range(4_000)))
                numbers = list(pool.map(lambda _: new_uuid_number(), range(4_000)))
        finally:
            monkeypatch.undo()
            _renew_prefix()

        assert 4_000 == len(set(ids)) == len(set(numbers))
        assert {7} == {UUID(int=number).version for number in numbers}
        assert {RFC_4122} == {UUID(int=number).variant for number in numbers}
