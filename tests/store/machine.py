"""
A machine that saves, labels, annotates, forks, steps, goes back, rolls back, joins,
deletes, collects and erases, compared with a model.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule

from conversation_state.aggregator import Aggregator
from conversation_state.errors import NotSavedError, StaleHeadError
from conversation_state.messages import Message
from conversation_state.store import ERASED, Store
from conversation_state.store.backends.memory import MemoryBackend
from conversation_state.testing.strategies import messages, usages
from conversation_state.timeline import Timeline
from conversation_state.tree import MessageTree
from conversation_state.usage import Usage

_NAMES = st.sampled_from(["a", "b", "c"])
_WHO = st.integers(0, 2)
_LABELS = st.sampled_from(["first", "second"])
_NOTES = st.dictionaries(st.sampled_from("ab"), st.none() | st.integers(0, 9))


class StoreMachine(RuleBasedStateMachine):
    """
    All verbs of a store in any order, each compared with a model: a dict of all states
    that were ever saved under each name, and the labels and notes beside it.

    Three stores are over the same rows, as three processes have them; one of them
    remembers nothing. The test of a backend overrides `opened`.
    """

    states = Bundle[Aggregator]("states")

    def __init__(self) -> None:
        super().__init__()
        self._saved: dict[str, list[Aggregator]] = {}
        # The revision that each of them grew from. Computed from the states again: what
        # the store says would always agree with itself.
        self._parents: dict[str, list[int | None]] = {}
        # Notes by name, and by name and revision.
        self._notes: dict[tuple[str, int | None], dict[str, Any]] = {}
        # The revisions that labels point to, by name and label, in the order in
        # which they were given.
        self._labels: dict[tuple[str, str], int] = {}
        self._erased: set[str] = set()
        # What was saved last under the name "tree".
        self._timeline: Timeline[Aggregator] | None = None
        self._stores = self.opened()

    def opened(self) -> list[Store]:
        """Three stores over the same rows. To be overridden."""
        backend = MemoryBackend()
        return [Store(backend), Store(backend), Store(backend, remembered=0)]

    def _is_same_state(self, state: Aggregator, loaded: Aggregator) -> bool:
        """
        Whether what was loaded is what was saved, with tombstones where
        something was erased.
        """
        erased = [each for each in loaded.entries if each.id in self._erased]
        is_same = self._make_comparable(state) == self._make_comparable(loaded)
        return is_same and all(ERASED in each.message.metadata for each in erased)

    def _make_comparable(self, state: Aggregator) -> tuple[Any, ...]:
        """All properties of a state; of erased entries only the id."""
        erased = self._erased
        entries = [entry.id if entry.id in erased else entry for entry in state.entries]
        return entries, list(state.ledger), state._origin

    def _check_name(self, who: int, name: str) -> None:
        store, saved = self._stores[who], self._saved.get(name)
        loaded = store.load(name, default=None)
        if saved is None or loaded is None:
            assert (saved, loaded) == (None, None), f"{name} is lost, or was not saved"
            return

        assert self._is_same_state(saved[-1], loaded), "another head was loaded"
        assert store.latest(name).revision == len(saved), "another number"

    def _remember_saved(
        self, name: str, state: Aggregator, parent: int | None = None
    ) -> None:
        saved = self._saved.setdefault(name, [])
        # The same state once more is not a new revision.
        new = self._make_comparable(state)
        if not saved or self._make_comparable(saved[-1]) != new:
            parents = self._parents.setdefault(name, [])
            parents.append(parent or self._find_parent(saved, state))
            saved.append(state)

    def _find_parent(self, saved: list[Aggregator], state: Aggregator) -> int | None:
        entries, _, origin = self._make_comparable(state)
        best, most = 0, -1
        for number in range(len(saved), 0, -1):
            there, _, its_origin = self._make_comparable(saved[number - 1])
            if there != entries[: len(there)]:
                continue

            if number == len(saved):
                return number

            if len(there) > most and (there or origin == its_origin):
                best, most = number, len(there)

        return best or None

    def _set_label(self, name: str, label: str, number: int) -> None:
        # A label that points there already keeps its position.
        if self._labels.get((name, label)) != number:
            self._labels.pop((name, label), None)
            self._labels[name, label] = number

    def _list_labels(self, name: str, number: int) -> tuple[str, ...]:
        return tuple(
            label
            for (its_name, label), its_number in self._labels.items()
            if (its_name, its_number) == (name, number)
        )

    def _set_notes(
        self, name: str, at: int | None, notes: dict[str, Any]
    ) -> dict[str, Any]:
        """The notes that there should be when *notes* are set."""
        there = self._notes.setdefault((name, at), {})
        there |= notes
        for key in [key for key, value in there.items() if value is None]:
            del there[key]

        return there

    @initialize(target=states)
    def begin(self) -> Aggregator:
        return Aggregator.new()

    @rule(target=states, state=states, message=messages(), times=st.integers(1, 40))
    def extend(self, state: Aggregator, message: Message, times: int) -> Aggregator:
        return state.extend([message] * times)

    @rule(target=states, state=states, usage=usages())
    def add_usage(self, state: Aggregator, usage: Usage) -> Aggregator:
        return state.add_usage(usage)

    @rule(target=states, state=states, data=st.data())
    def fork(self, state: Aggregator, data: st.DataObject) -> Aggregator:
        return state.fork(at=data.draw(st.integers(0, len(state))))

    @rule(target=states, one=states, two=states)
    def join(self, one: Aggregator, two: Aggregator) -> Aggregator:
        return one.join(two)

    @rule(who=_WHO, name=_NAMES, state=states)
    def save(self, who: int, name: str, state: Aggregator) -> None:
        """A save that takes any head of which the state holds everything."""
        saved = self._saved.get(name)
        fits = saved is None
        if saved is not None:
            (entries, usages, _), (new_entries, new_usages, _) = map(
                self._make_comparable, (saved[-1], state)
            )
            fits = (
                entries == new_entries[: len(entries)]
                and usages == new_usages[: len(usages)]
            )

        try:
            head = self._stores[who].save(name, state)
        except StaleHeadError:
            assert not fits, "refused, though nothing would have been lost"
            return

        assert fits, "something was lost"
        self._remember_saved(name, state)
        assert head == self._stores[who].latest(name), "another head"

    @rule(target=states, who=_WHO, name=_NAMES, message=messages())
    def save_next(self, who: int, name: str, message: Message) -> Aggregator:
        """A save of what was loaded and one message more, which always fits."""
        store = self._stores[who]
        saved = self._saved.get(name)
        state = (Aggregator.new() if saved is None else store.load(name)).add(message)
        store.save(name, state)
        # States that are loaded after an erasure have tombstones, and so does this one.
        self._remember_saved(name, state)
        return state

    @rule(
        who=_WHO,
        names=st.sets(_NAMES, min_size=1),
        message=messages(),
        conflicting=st.none() | _NAMES,
    )
    def save_all(
        self, who: int, names: set[str], message: Message, conflicting: str | None
    ) -> None:
        """
        The next states of several names: all of them, or none if one head is another.
        """
        store = self._stores[who]
        states = {
            name: (store.load(name) if name in self._saved else Aggregator.new()).add(
                message
            )
            for name in sorted(names)
        }
        expecting = {
            name: len(self._saved.get(name, ())) + 1
            for name in names
            if name == conflicting
        }
        try:
            heads = store.save_all(states, expecting=expecting)
        except StaleHeadError:
            assert expecting, "refused, though nothing else was expected"
            return

        assert not expecting, "a head was replaced that was not expected"
        for name, state in states.items():
            self._remember_saved(name, state)
            assert heads[name].revision == len(self._saved[name]), "another number"

    @rule(
        who=_WHO, name=_NAMES, label=_LABELS, notes=_NOTES, more=st.none() | messages()
    )
    def save_with_label(
        self,
        who: int,
        name: str,
        label: str,
        notes: dict[str, Any],
        more: Message | None,
    ) -> None:
        store = self._stores[who]
        state = store.load(name) if name in self._saved else Aggregator.new()
        if more is not None:
            state = state.add(more)

        head = store.save(name, state, label=label, notes=notes)
        self._remember_saved(name, state)
        number = len(self._saved[name])
        self._set_label(name, label, number)
        assert head.revision == number, "another number"
        assert head.labels == self._list_labels(name, number), "other labels"
        assert head.notes == self._set_notes(name, number, notes), "other notes"

    @rule(who=_WHO, name=_NAMES, label=_LABELS, data=st.data())
    def label(self, who: int, name: str, label: str, data: st.DataObject) -> None:
        saved = self._saved.get(name)
        if saved is None:
            return

        at = data.draw(st.none() | st.integers(1, len(saved)))
        head = self._stores[who].label(name, label, at=at)
        self._set_label(name, label, at or len(saved))
        assert head.revision == (at or len(saved)), "another revision"
        assert head.labels == self._list_labels(name, head.revision), "other labels"

    @rule(who=_WHO, name=_NAMES, label=_LABELS)
    def unlabel(self, who: int, name: str, label: str) -> None:
        expected = self._labels.pop((name, label), None)
        try:
            head = self._stores[who].unlabel(name, label)
        except NotSavedError:
            assert expected is None, "it was there"
            return

        assert head.revision == expected, "another revision"
        assert head.labels == self._list_labels(name, head.revision), "other labels"

    @rule(who=_WHO, name=_NAMES, label=_LABELS)
    def load_label(self, who: int, name: str, label: str) -> None:
        number = self._labels.get((name, label))
        try:
            loaded = self._stores[who].load(name, at=label)
        except NotSavedError:
            assert number is None, "it is there"
            return

        assert number is not None, "it is not there"
        saved = self._saved[name][number - 1]
        assert self._is_same_state(saved, loaded), "another state"

    @rule(target=states, who=_WHO, name=_NAMES, label=_LABELS, message=messages())
    def step(self, who: int, name: str, label: str, message: Message) -> Aggregator:
        """A step of a pipeline, which is done once, however often it is requested."""
        given: list[Aggregator] = []

        def add_message(state: Aggregator) -> Aggregator:
            given.append(state)
            return state.add(message)

        state = self._stores[who].step(name, label, add_message)
        number = self._labels.get((name, label))
        assert len(given) == (number is None), "done another number of times"
        if number is None:
            self._remember_saved(name, state)
            self._set_label(name, label, len(self._saved[name]))
        else:
            saved = self._saved[name][number - 1]
            assert self._is_same_state(saved, state), "another step"

        return state

    @rule(who=_WHO, state=states, message=messages(), back=st.integers(0, 3))
    def go_on_in_timeline(
        self, who: int, state: Aggregator, message: Message, back: int
    ) -> None:
        """Undo some moments of a timeline, and commit another."""
        store = self._stores[who]
        if self._timeline is None:
            timeline = Timeline.begin(state)
        else:
            timeline = store.load_timeline("tree")
            for there, moment in zip(
                self._timeline.moments, timeline.moments, strict=True
            ):
                assert self._is_same_state(there.state, moment.state), "another moment"
                places = [(m.label, m.group, m.parent) for m in (there, moment)]
                assert places[0] == places[1], "another place in the tree"

            timeline = timeline.undo(min(back, len(timeline.path) - 1))
            timeline = timeline.commit(timeline.present.add(message))

        store.save_timeline("tree", timeline)
        self._timeline = timeline

    @rule(who=_WHO, name=_NAMES)
    def load_history_as_timeline(self, who: int, name: str) -> None:
        """The history of a name, as a timeline."""
        if name not in self._saved:
            return

        loaded = self._stores[who].load_timeline(name)
        for state, moment in zip(self._saved[name], loaded.moments, strict=True):
            assert self._is_same_state(state, moment.state), "another moment"

    @rule(who=_WHO, name=_NAMES, state=states, data=st.data())
    def replace(
        self, who: int, name: str, state: Aggregator, data: st.DataObject
    ) -> None:
        """A save that knows which head it replaces, or expects another one."""
        number = len(self._saved.get(name, []))
        expecting = data.draw(st.just(number) | st.integers(0, 9))
        try:
            self._stores[who].save(name, state, expecting=expecting)
        except StaleHeadError:
            assert expecting != number, "refused, though it is the head"
            return

        assert expecting == number, "a head was replaced that was not expected"
        self._remember_saved(name, state)

    @rule(who=_WHO, name=_NAMES, data=st.data())
    def roll_back(self, who: int, name: str, data: st.DataObject) -> None:
        """Any revision is the head again, with the ledger of both."""
        saved = self._saved.get(name)
        if saved is None:
            return

        to = data.draw(st.integers(1, len(saved)))
        self._stores[who].rollback(name, to)
        # Without its messages, the head brings its ledger alone.
        self._remember_saved(name, saved[to - 1].join(saved[-1].rollback(0)), to)

    @rule(who=_WHO, name=_NAMES)
    def load(self, who: int, name: str) -> None:
        self._check_name(who, name)

    @rule(target=states, who=_WHO, name=_NAMES, last=st.integers(0, 3), data=st.data())
    def go_back(
        self, who: int, name: str, last: int, data: st.DataObject
    ) -> Aggregator:
        """Any revision, and the newest of its messages."""
        saved = self._saved.get(name)
        if saved is None:
            return Aggregator.new()

        store, number = self._stores[who], data.draw(st.integers(1, len(saved)))
        state = store.load(name, at=number)
        window = store.load(name, at=number, last=last)
        assert self._is_same_state(saved[number - 1], state), "another state"
        assert (window.start, window.length) == (max(len(state) - last, 0), len(state))
        assert window.entries == state.entries[window.start :], "another window"
        return state

    @rule(who=_WHO, name=_NAMES, new=_NAMES)
    def fork_name(self, who: int, name: str, new: str) -> None:
        store = self._stores[who]
        try:
            store.fork(name, new)
        except NotSavedError:
            assert name not in self._saved, "it is there"
        except StaleHeadError:
            assert new in self._saved, "it is new"
        else:
            fork, state = store.load(new), store.load(name)
            assert fork.parent_id == state.id, "a fork of another state"
            assert fork.messages == state.messages, "another past"
            assert fork.init_len == len(state), "forked elsewhere"
            assert new not in self._saved, "it was there"
            # The loaded state, because the store makes a new identity for it.
            self._saved[new], self._parents[new] = [fork], [None]

    @rule(who=_WHO, name=_NAMES, notes=_NOTES, data=st.data())
    def annotate(
        self, who: int, name: str, notes: dict[str, Any], data: st.DataObject
    ) -> None:
        saved = self._saved.get(name)
        if saved is None:
            return

        at = data.draw(st.none() | st.integers(1, len(saved)))
        expecting = data.draw(st.none() | st.integers(0, len(saved) + 1))
        store = self._stores[who]
        try:
            found = store.annotate(name, notes, at=at, expecting=expecting)
        except StaleHeadError:
            assert expecting not in {None, len(saved)}, "it is the head"
            return

        assert expecting in {None, len(saved)}, "it is not the head"
        assert self._set_notes(name, at, notes) == found, "other notes"

    @rule(who=_WHO, name=_NAMES)
    def delete(self, who: int, name: str) -> None:
        if self._saved.pop(name, None) is not None:
            self._parents.pop(name)
            self._notes = {k: v for k, v in self._notes.items() if k[0] != name}
            self._labels = {k: v for k, v in self._labels.items() if k[0] != name}
            self._stores[who].delete(name)

    @rule(who=_WHO)
    def collect(self, who: int) -> None:
        """What no name needs; a second time nothing is left to collect."""
        store = self._stores[who]
        store.collect_garbage()
        again = store.collect_garbage()
        left = again.entries + again.ledger_entries + again.branches + again.blobs
        assert left == 0, "something was left"

    @rule(who=_WHO, name=_NAMES, data=st.data())
    def erase(self, who: int, name: str, data: st.DataObject) -> None:
        saved = self._saved.get(name)
        if saved and len(saved[-1]):
            at = data.draw(st.integers(0, len(saved[-1]) - 1))
            id = saved[-1].entries[at].id
            receipt = self._stores[who].erase(id, reason="asked for")
            assert bool(receipt.rows) == (id not in self._erased), "erased before"
            self._erased.add(id)

    def teardown(self) -> None:
        """Every state that was ever saved is there, and nothing is damaged."""
        store = self._stores[0]
        names = [*self._saved, *(["tree"] if self._timeline is not None else [])]
        assert store.names() == tuple(sorted(names)), "other names"
        for name, saved in self._saved.items():
            history = reversed(store.history(name))
            notes = self._notes.get((name, None), {})
            assert notes == store.notes(name), "other notes"
            for head in store.history(name):
                labels = self._list_labels(name, head.revision)
                assert head.labels == labels, "other labels"

            assert self._parents[name] == [head.parent for head in history], "parents"
            loaded = [store.load(name, at=i) for i in range(1, len(saved) + 1)]
            assert MessageTree.of(*loaded) == store.message_tree(name), "another tree"
            # Each store is checked: two of them remember rows that they wrote or read.
            for who, each in enumerate(self._stores):
                for i, state in enumerate(saved, 1):
                    loaded_here = each.load(name, at=i)
                    assert self._is_same_state(state, loaded_here), (who, name, i)
                    notes = self._notes.get((name, i), {})
                    assert notes == each.latest(name, at=i).notes, "other notes"

                self._check_name(who, name)

        for (name, label), number in self._labels.items():
            for each in self._stores:
                assert each.latest(name, at=label).revision == number, "another label"

        assert store.verify() == (), "damaged"
        for each in self._stores:
            each.close()
