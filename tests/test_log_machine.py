"""`Log` beside a list and beside pyrsistent's vector, through long histories."""

import pickle
from functools import reduce
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    multiple,
    rule,
)
from pyrsistent import pvector

from conversation_state._persistent import Log

# Few different items, so that branches get equal ones by chance.
ITEMS = st.sampled_from("ab")

# How many at once: mostly a few, sometimes over the borders of blocks, of
# nodes of blocks, and of nodes of those.
COUNTS = st.one_of(
    st.integers(0, 5),
    st.sampled_from([31, 32, 33, 63, 64, 65]),
    st.sampled_from([992, 1023, 1024, 1025, 1056]),
)


class Version(NamedTuple):
    """A log, and the same items elsewhere."""

    log: Log[str]
    items: list[str]
    vector: Any


def common(a: list[str], b: list[str]) -> int:
    """The length of the common prefix, found the slow way."""
    pairs = zip(a, b, strict=False)
    return next((at for at, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


def step(key: int, state: int, item: str) -> int:
    """A fold whose result depends on the order, and on *key*."""
    return (31 * state + ord(item) + key) % 1_000_003


class LogMachine(RuleBasedStateMachine):
    """Every version is grown, cut and compared, and at the end is what it was."""

    versions = Bundle[Version]("versions")

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Version] = []

    def keep(self, log: Log[str], items: list[str], vector: Any) -> Version:
        assert items == list(log)
        assert len(items) == len(log)
        assert list(vector) == list(log)

        version = Version(log, items, vector)
        self.kept.append(version)
        return version

    @initialize(target=versions)
    def begin(self) -> Version:
        return self.keep(Log(), [], pvector())

    @rule(target=versions, item=ITEMS, count=COUNTS)
    def begin_anew(self, item: str, count: int) -> Version:
        return self.keep(Log(item * count), [item] * count, pvector(item * count))

    @rule(target=versions, version=versions, item=ITEMS)
    def append(self, version: Version, item: str) -> Version:
        log, items, vector = version
        return self.keep(log.append(item), [*items, item], vector.append(item))

    @rule(target=versions, version=versions, item=ITEMS, count=st.integers(1, 70))
    def append_often(self, version: Version, item: str, count: int) -> Version:
        log, items, vector = version
        for _ in range(count):
            log, vector = log.append(item), vector.append(item)

        return self.keep(log, [*items, *(item * count)], vector)

    @rule(
        target=versions,
        version=versions,
        item=ITEMS,
        count=COUNTS,
        kind=st.sampled_from([list, tuple, iter, Log]),
    )
    def extend(self, version: Version, item: str, count: int, kind: Any) -> Version:
        log, items, vector = version
        more = [item] * count
        longer = log.extend(kind(more))

        assert more or longer is log
        return self.keep(longer, items + more, vector.extend(more))

    @rule(target=versions, version=versions, other=versions)
    def extend_by(self, version: Version, other: Version) -> Version:
        if len(version.items) + len(other.items) > 5_000:
            return version

        return self.keep(
            version.log.extend(other.log),
            version.items + other.items,
            version.vector.extend(other.vector),
        )

    @rule(target=versions, version=versions, data=st.data())
    def take(self, version: Version, data: st.DataObject) -> Version:
        log, items, vector = version
        borders = st.integers(0, len(items) // 32).map(lambda n: 32 * n)
        count = data.draw(st.integers(0, len(items)) | borders, "count")
        return self.keep(log.take(count), items[:count], vector[:count])

    @rule(target=versions, version=versions, data=st.data())
    def cut_off(self, version: Version, data: st.DataObject) -> Version:
        # Near the end, where cells are.
        log, items, vector = version
        count = max(0, len(items) - data.draw(st.integers(0, 40), "cut off"))
        return self.keep(log.take(count), items[:count], vector[:count])

    @rule(target=versions, version=versions, data=st.data())
    def slice(self, version: Version, data: st.DataObject) -> Version:
        log, items, vector = version
        at = data.draw(st.slices(len(items)), "slice")
        return self.keep(log[at], items[at], vector[at])

    @rule(version=versions, data=st.data())
    def index(self, version: Version, data: st.DataObject) -> None:
        log, items, vector = version
        if items:
            at = data.draw(st.integers(-len(items), len(items) - 1), "at")

            assert items[at] == log[at] == vector[at]

    @rule(version=versions, data=st.data())
    def iterate(self, version: Version, data: st.DataObject) -> None:
        log, items, _ = version
        start = data.draw(st.integers(0, len(items) + 1), "start")

        assert items[start:] == list(log.iterate(start))
        assert items[::-1] == list(reversed(log))

    @rule(one=versions, two=versions)
    def compare(self, one: Version, two: Version) -> None:
        expected = common(one.items, two.items)

        assert expected == one.log.common_prefix(two.log)
        assert expected == two.log.common_prefix(one.log)
        assert (one.items == two.items) == (one.log == two.log)
        assert (one.items != two.items) == (one.log != two.log)
        assert one.items != two.items or hash(one.log) == hash(two.log)

    # More keys than are remembered.
    @rule(version=versions, key=st.integers(0, 5))
    def fold(self, version: Version, key: int) -> None:
        def this_step(state: int, item: str) -> int:
            return step(key, state, item)

        expected = reduce(this_step, version.items, key)

        assert expected == version.log.fold(this_step, key, key=("key", key))

    @rule(targets=(versions,), one=versions, two=versions)
    def pickle(self, one: Version, two: Version) -> Any:
        # Together, so that they go on to share what they share.
        logs = pickle.loads(pickle.dumps([one.log, two.log]))
        return multiple(
            *[
                self.keep(log, version.items, version.vector)
                for log, version in zip(logs, (one, two), strict=True)
            ]
        )

    def teardown(self) -> None:
        for log, items, _ in self.kept:
            assert items == list(log)
            assert not items or items[-1] == log[-1]


TestLog = LogMachine.TestCase
TestLog.settings = settings(stateful_step_count=40)
