"""
The pure log finds what is new, and where it belongs, without a disk.
"""

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from conversation_state import Aggregator, UserMessage
from conversation_state._persistent import Log
from conversation_state.aggregator import Entry
from conversation_state.store.log import (
    ENTRIES,
    LEDGER,
    LogDigests,
    MissingRows,
    Segment,
    chain_digest,
    content_digest,
    count_shared,
    cut_segments,
    extend_segments,
    take_newest,
)
from conversation_state.testing.strategies import aggregators, entries

# Each of these examples is many logs, or many entries.
FEWER = settings(max_examples=settings().max_examples // 2)

GOLDEN = "ce123dad5fb7cbafa6a9e999ad02b1c1"


class DictShelf:
    """
    Rows in dicts, and how many digests were asked for.
    """

    def __init__(self):
        self.rows = {}
        self.starts = {}
        self.branches = {}
        self.asked = 0

    def find_branch(self, digest):
        return self.starts.get(digest)

    def find_end(self, branch):
        return max([p for b, p in self.rows if b == branch], default=-1) + 1

    def digest(self, branch, position):
        self.asked += 1
        row = self.rows.get((branch, position))
        return None if row is None else row.digest

    def save(self, log, kind=ENTRIES, known=None, segments=()):
        """
        Keep a log: where it stands, and how many rows it took.
        """
        growth = MissingRows.of(LogDigests(kind, log, known), self, segments)
        found, rows, goes_on = growth
        if not rows:
            return found, 0

        start = found[-1].stop if found else 0
        branch = found[-1].branch if found else 0
        if not goes_on:
            self.branches[len(self.branches) + 1] = branch, start
            branch = len(self.branches)
            assert rows[0].digest not in self.starts
            self.starts[rows[0].digest] = branch

        for i, row in enumerate(rows):
            assert (branch, start + i) not in self.rows
            self.rows[branch, start + i] = row

        return extend_segments(found, branch, len(log)), len(rows)

    def load(self, segments, kind=ENTRIES):
        """
        The ids of the log that stands there.
        """
        assert [s.start for s in segments[1:]] == [s.stop for s in segments[:-1]]
        return [
            self.rows[branch, position].id.decode()
            for branch, start, stop in segments
            for position in range(start, stop)
        ]


def ids(log):
    return [entry.id for entry in log]


class TestGrowth:
    @FEWER
    @given(st.lists(aggregators(max_steps=4), max_size=4), st.data())
    def test_every_log_comes_back(self, states, data):
        """
        Logs of states that grew, parted and joined in any way come back, and
        no entry with one past is kept twice.
        """
        shelf, kept = DictShelf(), []
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

        digests = [row.digest for row in shelf.rows.values()]
        assert len(digests) == len({*digests})

    @given(aggregators(max_steps=4), aggregators(max_steps=4), st.data())
    def test_known_beginning(self, state, other, data):
        """
        What is known of a beginning leads to the same as finding it out.
        """
        shelf = DictShelf()
        at = data.draw(st.integers(0, len(state)))
        segments, _ = shelf.save(state.entries)
        start = cut_segments(segments, at)
        log = state.entries.take(at).extend(other.entries)
        found = MissingRows.of(LogDigests(ENTRIES, log), shelf)
        known = (at, ENTRIES.digest(log.take(at)))

        assert found == MissingRows.of(LogDigests(ENTRIES, log, known), shelf, start)

    def test_few_digests_are_asked_for(self):
        """
        Where two logs part is found by bisection, and a log that goes on from
        the find_end by one comparison.
        """
        shelf = DictShelf()
        state = Aggregator.new().add_user_prompt("x")
        log = state.extend([state[0]] * 2_000).entries
        shelf.save(log)
        shelf.asked = 0
        _, written = shelf.save(log.append(log[0]._replace(id="new")))

        assert (1, 1) == (written, shelf.asked)

        shelf.asked = 0
        _, written = shelf.save(log.take(1_234).append(log[0]._replace(id="newer")))

        assert 1 == written
        assert 30 > shelf.asked


class TestDigests:
    @given(aggregators(), aggregators())
    def test_equal_pasts(self, one, two):
        """
        Equal digests mean equal pasts, and no others.
        """
        for kind, a, b in (
            (ENTRIES, one.entries, two.entries),
            (LEDGER, one.ledger, two.ledger),
        ):
            for left, right in ((a, b), (a, Log(list(a))), (a, a.take(len(a) - 1))):
                equal = kind.digest(left) == kind.digest(right)

                assert equal == (left == right)

    @given(aggregators(), st.data())
    def test_any_length(self, state, data):
        """
        A past has the digest of a beginning at that beginning's length,
        wherever it starts to compute.
        """
        log = state.entries
        known = data.draw(st.integers(0, len(log)))
        past = LogDigests(
            ENTRIES, log, (known, ENTRIES.digest(Log(list(log.take(known)))))
        )
        lengths = data.draw(st.lists(st.integers(0, len(log)), max_size=4))
        for length in lengths:
            assert ENTRIES.digest(Log(list(log.take(length)))) == past.at(length)

        start = data.draw(st.integers(0, len(log)))
        rows = past.rows(start)
        assert ids(log)[start:] == [row.id.decode() for row in rows]
        assert [past.at(i) for i in range(start + 1, len(log) + 1)] == [
            row.digest for row in rows
        ]

    def test_golden(self):
        """
        Digests are the same forever: they are in files.
        """
        content = content_digest(b"a-1", b'{"role":"user","content":"Hi!"}')

        digest = chain_digest(ENTRIES.start, content)

        assert "7fb1af6005b746e670aa187be34fffa1" == content.hex()
        assert digest == ENTRIES.digest(Log([Entry("a-1", UserMessage("Hi!"))]))
        assert GOLDEN == digest.hex()

    def test_identity_and_content_are_apart(self):
        """
        No byte can move from an identity to the content.
        """
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
        rows = ENTRIES.rows(ENTRIES.start, items)
        ENTRIES.seed_digests(log, [row.digest for row in rows])
        at = data.draw(st.integers(0, len(log)))

        assert ENTRIES.digest(Log(items[:at])) == ENTRIES.digest(log.take(at))


branches = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5)), max_size=5)


def segments_of(steps):
    made: list[Segment] = []
    for branch, length in steps:
        start = made[-1].stop if made else 0
        if made and made[-1].branch == branch:
            made[-1] = made[-1]._replace(stop=start + length)
        else:
            made.append(Segment(branch, start, start + length))

    return tuple(made)


def places(segments):
    return [(b, p) for b, start, stop in segments for p in range(start, stop)]


class TestSegments:
    @given(branches, st.integers(0, 30))
    def test_cut(self, steps, length):
        """
        A beginning stands where the whole does.
        """
        segments = segments_of(steps)

        assert places(segments)[:length] == places(cut_segments(segments, length))

    @given(branches, branches, st.data())
    def test_shared(self, ours, theirs, data):
        """
        What two have in common are the places that are the same, up to the
        first that is not.
        """
        theirs = ours[: data.draw(st.integers(0, len(ours)))] + theirs
        one, two = segments_of(ours), segments_of(theirs)
        common = 0
        for a, b in zip(places(one), places(two), strict=False):
            if a != b:
                break

            common += 1

        assert common == count_shared(one, two) == count_shared(two, one)

    @given(st.lists(st.integers()), st.data())
    def test_newest(self, items, data):
        """
        The last few are the last few.
        """
        count = data.draw(st.integers(0, len(items)))

        assert items[len(items) - count :] == take_newest(Log(items), count)
