"""
Of a log what is new is written, and where it belongs; and identities are short in the
tables.
"""

import copy
from itertools import accumulate
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from conversation_state import Aggregator, UserMessage
from conversation_state._persistent import Log
from conversation_state.aggregator import Entry
from conversation_state.store._log import (
    ENTRIES,
    LEDGER,
    content_digest,
    cut_segments,
    digest_of,
    pack_id,
    read_ids,
    unpack_id,
)
from conversation_state.store._save import LogToWrite, write_log
from conversation_state.store._transaction import CachedBackend, Transaction
from conversation_state.store.backends.memory import MemoryBackend
from conversation_state.store.schema import SHIFT
from conversation_state.testing.strategies import aggregators, entries, states
from tests.store.promises.case import RecordingBackend

# Each of these examples is many logs, or many entries.
FEWER = settings(max_examples=settings().max_examples // 2)

GOLDEN = "ce123dad5fb7cbafa6a9e999ad02b1c1"


class Shelf:
    """Tables in memory, what is written to them, and how many digests were read."""

    def __init__(self):
        self.backend = MemoryBackend()
        self.calls: list[Any] = []

    def save(self, log, known=None, segments=()):
        """Write a log: where it stands, and how many rows it took."""
        self.calls.clear()
        backend = RecordingBackend(self.backend, self.calls.append)
        with Transaction(CachedBackend(backend, 0), backend.writing()) as transaction:
            before = len(self.digests())
            new = LogToWrite(ENTRIES, log)
            if segments:
                new.begin_at(segments, known)

            end = write_log(transaction, new)
            assert (len(log), ENTRIES.digest(log)) == end[1:]
            return new.segments, len(self.digests()) - before

    def digests(self):
        """The digests of all rows."""
        return [row[-1] for row in self.backend.tables["entries"].rows.values()]

    def count_reads(self):
        """How many digests of entries were read in the last save."""
        return sum(call[:2] == ("get", "entries") for call in self.calls)

    def load(self, segments):
        """The ids of the log that stands there."""
        assert [s.start for s in segments[1:]] == [s.stop for s in segments[:-1]]
        rows = self.backend.tables["entries"].rows
        return [
            unpack_id(rows[branch << SHIFT | position][1]).decode()
            for branch, start, stop in segments
            for position in range(start, stop)
        ]


def ids(log):
    return [entry.id for entry in log]


class TestGrowth:
    @FEWER
    @given(st.lists(aggregators(max_steps=4) | states(), max_size=4), st.data())
    def test_every_log_comes_back(self, states, data):
        """
        Logs of states that grew, parted and joined in any way come back, and
        no entry with one past is kept twice.
        """
        shelf, kept = Shelf(), []
        for _ in range(data.draw(st.integers(1, 8))):
            states.append(Aggregator.new())
            one = data.draw(st.sampled_from(states))
            two = data.draw(st.sampled_from(states))
            state = one.fork(at=data.draw(st.integers(0, len(one)))).join(two)
            state = state.extend(data.draw(st.sampled_from(states)).messages)
            states.append(state)
            log = state.entries
            # As another process has it, sharing nothing with ours.
            given_log = copy.copy(log) if data.draw(st.booleans()) else Log(list(log))
            segments, _ = shelf.save(given_log)
            kept.append((ids(log), segments))
            again, written = shelf.save(log)

            assert (ids(log), 0) == (shelf.load(again), written)

        for expected, segments in kept:
            assert expected == shelf.load(segments)

        digests = shelf.digests()
        assert len(digests) == len({*digests})

    @given(
        aggregators(max_steps=4) | states(),
        aggregators(max_steps=4) | states(),
        st.data(),
    )
    def test_known_beginning(self, state, other, data):
        """What is known of a beginning leads to the same as finding it out."""
        at = data.draw(st.integers(0, len(state)))
        log = state.entries.take(at).extend(other.entries)
        known = ENTRIES.digest(log.take(at))
        shelf, alike = Shelf(), Shelf()
        segments, _ = shelf.save(state.entries)
        alike.save(state.entries)

        assert shelf.save(log) == alike.save(log, known, cut_segments(segments, at))

    def test_few_digests_are_asked_for(self):
        """
        Where two logs part is found by bisection, and a log that goes on from
        the end of a branch by one comparison.
        """
        shelf = Shelf()
        state = Aggregator.new().add_user_prompt("x")
        log = state.extend([state[0]] * 2_000).entries
        shelf.save(log)
        _, written = shelf.save(log.append(log[0]._replace(id="new")))

        assert (1, 2) == (written, shelf.count_reads())  # one is that of its beginning

        _, written = shelf.save(log.take(1_234).append(log[0]._replace(id="newer")))

        assert 1 == written
        assert 30 > shelf.count_reads()


class TestDigests:
    @given(aggregators() | states(), aggregators() | states())
    def test_equal_pasts(self, one, two):
        """Equal digests mean equal pasts, and no others."""
        for kind, a, b in (
            (ENTRIES, one.entries, two.entries),
            (LEDGER, one.ledger, two.ledger),
        ):
            for left, right in ((a, b), (a, Log(list(a))), (a, a.take(len(a) - 1))):
                equal = kind.digest(left) == kind.digest(right)

                assert equal == (left == right)

    def test_golden(self):
        """Digests are the same forever: they are in files."""
        content = content_digest(b"a-1", b'{"role":"user","content":"Hi!"}')

        digest = digest_of(ENTRIES.start + content)

        assert "7fb1af6005b746e670aa187be34fffa1" == content.hex()
        assert digest == ENTRIES.digest(Log([Entry("a-1", UserMessage("Hi!"))]))
        assert GOLDEN == digest.hex()

    def test_identity_and_content_are_apart(self):
        """No byte can move from an identity to the content."""
        assert content_digest(b"a", b"{}") != content_digest(b"a\0", b"{}")
        assert content_digest(b'a\0{"b":1', b"}") != content_digest(b"a", b'{"b":1}')

    @FEWER
    @given(
        st.lists(entries(), max_size=40, unique_by=lambda entry: entry.id), st.data()
    )
    def test_taught(self, items, data):
        """
        Digests that were taught are those that would have been computed, and
        are not computed again.
        """
        log = Log(items)
        chain = accumulate(items, ENTRIES.chain_entry, initial=ENTRIES.start)
        log.remember_fold(list(chain)[1:], key="entries")
        at = data.draw(st.integers(0, len(log)))

        assert ENTRIES.digest(Log(items[:at])) == ENTRIES.digest(log.take(at))


DIGITS = "0123456789abcdef"
ours = st.builds(
    lambda digits, count: f"{digits}-{count:x}".encode(),
    st.text(DIGITS, min_size=24, max_size=24),
    st.integers(0, 2**40),
)
theirs = st.one_of(
    st.text(max_size=30).map(str.encode),
    st.text(f"{DIGITS}ABC- ", min_size=20, max_size=30).map(str.encode),
)


# Two processes' identities, and one that has what another begins with in it.
STARTS = b"ff" * 6 + b"00" * 6, b"0123456789ab" * 2, b"00ff" + b"ff" * 5 + b"00" * 5


class TestPacked:
    @given(st.lists(ours | theirs))
    @example([b"0" * 24 + b"-"])
    @example([b"0" * 24, b"-", b""])
    @example([b"a", b"a" * 20])
    def test_there_and_back(self, ids):
        """
        Every identity comes back, and no two are one.
        """
        short = [pack_id(id) for id in ids]

        assert ids == [unpack_id(id) for id in short]
        assert len(set(ids)) == len(set(short))

    @given(ours)
    def test_ours_are_short(self, id):
        """Of those that are made here, 25 characters take 13 bytes."""
        assert len(id) - 12 == len(pack_id(id))

    @given(theirs)
    def test_others_stay(self, id):
        """Any other form, such as capitals, is kept as it is."""
        start = id[:24]
        if len(id) < 25 or start.strip(DIGITS.encode()) or id[24:25] != b"-":
            assert id == pack_id(id)

    @given(
        st.lists(
            st.builds(
                lambda start, end: start + b"-" + end.encode(),
                st.sampled_from(STARTS),
                st.text("0123456789abcdef\0é-"),
            )
            | theirs
        )
    )
    @example([STARTS[0] + b"-1", b"a\0b", STARTS[0] + b"-2"])
    @example([STARTS[0] + b"-1", STARTS[1] + b"-2", STARTS[0] + b"-3"])
    @example([STARTS[2] + b"-1", STARTS[0] + b"-" * 13, STARTS[2] + b"-3"])
    @settings(max_examples=40)
    def test_read_together(self, ids):
        """Identities are read as they were, of one process, of several or of none."""
        assert [id.decode() for id in ids] == read_ids([pack_id(id) for id in ids])
