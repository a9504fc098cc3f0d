"""
Identities are short in the tables, and what they were when they are read.
"""

from hypothesis import example, given
from hypothesis import strategies as st

from conversation_state import Aggregator
from conversation_state.store import _log
from conversation_state.store._log import pack_id, unpack_id, unpack_ids

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


class TestPacked:
    @given(st.lists(ours | theirs))
    @example([b"0" * 24 + b"-"])
    @example([b"0" * 24, b"-", b""])
    @example([b"a", b"a" * 20])
    def test_there_and_back(self, ids):
        """
        Every identity comes back, one by one or all at once, and no two are
        one.
        """
        short = [pack_id(id) for id in ids]

        assert ids == [unpack_id(id) for id in short]
        assert ids == unpack_ids(short)
        assert len(set(ids)) == len(set(short))

    @given(ours)
    def test_ours_are_short(self, id):
        """
        Of those that are made here, 25 characters take 13 bytes.
        """
        assert len(id) - 12 == len(pack_id(id))

    def test_made_here(self):
        """
        The identities of this very process are such.
        """
        id = Aggregator.new().add_user_prompt("Hi!").entries[0].id.encode()

        assert b"\xff" + bytes.fromhex(id[:24].decode()) + id[25:] == pack_id(id)

    @given(theirs)
    def test_others_stay(self, id):
        """
        Any other form, such as capitals, is kept as it is.
        """
        start = id[:24]
        if len(id) < 25 or start.strip(DIGITS.encode()) or id[24:25] != b"-":
            assert id == pack_id(id)

    def test_few_are_remembered(self):
        """
        However many beginnings there are, few of them are kept in memory.
        """
        for i in range(1000):
            assert b"%d" % i == unpack_id(pack_id(b"%d" % i))

        for remembered in (_log._shorten_start, _log._restore_start):
            assert remembered.cache_info().currsize < 100
