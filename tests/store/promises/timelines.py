"""Promises about timelines: saved moment by moment, and loaded as they were."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings

from conversation_state.errors import NotSavedError, StaleHeadError, StoreError
from conversation_state.store import ERASED
from conversation_state.testing.strategies import timelines
from conversation_state.timeline import Timeline
from conversation_state.tree import MessageTree
from conversation_state.usage import Usage
from tests.store.promises.case import CONVERSATION, FOR_EXAMPLES, StoreCase


def grow_timeline(steps):
    """A timeline with a branch at every fifth moment, labels, groups and usages."""
    timeline = Timeline.begin(CONVERSATION, "start")
    for step in range(steps):
        state = timeline.present.add_user_prompt(f"step {step}")
        if step % 3 == 0:
            state = state.add_usage(Usage(step + 1))

        group = f"typing {step}" if step % 4 == 0 else None
        timeline = timeline.commit(state, f"label {step % 7}", group=group)
        if step % 5 == 4:
            timeline = timeline.undo(2)

    return timeline


class TimelinePromises(StoreCase):
    """A timeline stays the same when anything else is saved."""

    @settings(FOR_EXAMPLES, max_examples=max(settings().max_examples // 10, 5))
    @given(timelines(), timelines())
    def test_any_timeline_comes_back(self, store, first, second):
        """
        Any timeline that is saved is loaded as an equal one, in this store and in
        others, and still after another took its place; the present state is the head.
        """
        far = self.other(store, remembered=0)
        head = store.save_timeline("chat", first, expecting=0)
        for saving, timeline in ((store, first), (far, second), (store, first)):
            head = saving.save_timeline("chat", timeline, expecting=head)

            assert timeline == store.load_timeline("chat")
            assert timeline == far.load_timeline("chat")
            assert timeline.present == store.load("chat") == far.load("chat")
            assert head == store.latest("chat")

        assert () == store.verify()
        store.delete("chat")

    def test_loaded_states_share_their_past(self, store):
        """A state shares what a branch of it begins with, whatever came between."""
        timeline = Timeline.begin(CONVERSATION)
        long = CONVERSATION
        for turn in range(70):
            long = long.add_user_prompt(f"turn {turn}")

        timeline = (
            timeline.commit(long).undo().commit(CONVERSATION.add_user_prompt("b"))
        )
        timeline = timeline.goto(1).commit(long.add_user_prompt("more"))
        store.save_timeline("chat", timeline)
        loaded = self.other(store, remembered=0).load_timeline("chat")
        _, one, _, other = [moment.state.entries for moment in loaded.moments]

        assert timeline == loaded
        assert 64 == one.shared_prefix(other)

    def test_every_step_is_kept(self, reopen):
        """
        Saved after every step, by two stores in turn: what is undone, redone and gone
        back to as well.
        """
        store = reopen(None)
        timeline = Timeline.begin(CONVERSATION, limit=12)
        head = store.save_timeline("chat", timeline)
        for step in range(24):
            state = timeline.present.add_user_prompt(f"step {step}")
            timeline = timeline.commit(state, group="typing" if step % 3 else None)
            if step % 4 == 3:
                timeline = timeline.undo(3).redo()

            if step % 9 == 8:
                timeline = timeline.goto(timeline.moments[-1]).amend(
                    timeline.moment, state.add_user_prompt("amended"), "label"
                )

            saving = store if step % 2 else self.other(store)
            head = saving.save_timeline("chat", timeline, expecting=head)
            assert timeline == saving.load_timeline("chat")
            assert timeline == self.other(store, remembered=0).load_timeline("chat")

        store = reopen(store)

        assert timeline == store.load_timeline("chat")
        assert timeline.present == store.load("chat")
        assert () == store.verify()

    @pytest.mark.parametrize("steps", [10, 100])
    def test_writes_the_new_moments(self, watched, calls, steps):
        """One more moment is four rows in as many calls, for any number of moments."""
        timeline = grow_timeline(steps)
        timeline = timeline.goto(timeline.moments[-1])
        watched.save_timeline("chat", timeline)
        timeline = timeline.commit(timeline.present.add_user_prompt("and?"))
        calls.clear()
        watched.save_timeline("chat", timeline)
        written = Counter([c.table for c in calls if c.verb in {"add", "set"}])

        assert {"entries", "revisions", "moments", "timelines"} == {*written}
        assert 6 >= sum(written.values())
        assert 20 >= len(calls)

        calls.clear()
        watched.save_timeline("chat", timeline)

        assert [] == [call for call in calls if call.verb in {"add", "set"}]

    def test_revisions_are_the_tree(self, store):
        """
        Each moment is a revision that grew from that of its parent: so the history of
        the name has the branches of the timeline.
        """
        apart = CONVERSATION.add_user_prompt("apart")
        timeline = grow_timeline(6).commit(apart).goto(2)
        head = store.save_timeline("chat", timeline)
        parents = [each.parent for each in timeline.moments]
        heads = store.history("chat")[::-1]

        assert [None if at is None else at + 1 for at in parents] == [
            each.parent for each in heads[:-1]
        ]
        assert (9, 3) == (head.revision, head.parent)
        assert [each.state for each in timeline.moments] == [
            store.load("chat", at=at) for at in range(1, 9)
        ]
        tree = store.message_tree("chat")
        assert MessageTree.of(timeline).leaves == tree.leaves

    def test_amended_leaves_no_sibling(self, store):
        """
        An answer that was saved while it arrived, and when it was complete, is one
        message of the tree; its revisions stay.
        """
        timeline = grow_timeline(1)
        asked = timeline.present.add_user_prompt("And?")
        timeline = timeline.commit(asked.add_assistant_message("Per"))
        head = store.save_timeline("chat", timeline)
        number = timeline.moment.number
        timeline = timeline.amend(number, asked.add_assistant_message("Perhaps."))
        store.save_timeline("chat", timeline, expecting=head)
        tree = store.message_tree("chat")

        assert MessageTree.of(timeline) == tree
        assert (0, (tree.head,)) == tree.siblings(tree.head)
        assert 1 == len(tree.leaves)

    def test_stale_timeline(self, store):
        """
        A timeline that lacks or replaces a moment which is saved is refused, and
        nothing is written; with the head it is saved.
        """
        base = grow_timeline(3)
        first = store.save_timeline("chat", base)
        ours, theirs = (
            base.commit(base.present.add_user_prompt(text)) for text in ("ours", "it")
        )
        head = self.other(store).save_timeline("chat", theirs)
        amended = theirs.amend(2, base.present.add_user_prompt("amended"))
        for timeline, expecting in (
            *((ours, None), (base, None), (amended, None), (amended, first)),
            *((theirs, 0), (ours, first.revision)),
        ):
            for saving in (store, self.other(store, remembered=0)):
                with pytest.raises(StaleHeadError) as caught:
                    saving.save_timeline("chat", timeline, expecting=expecting)

                assert head == caught.value.actual

        assert theirs == store.load_timeline("chat")

        head = store.save_timeline("chat", amended, expecting=head)

        assert amended == self.other(store).load_timeline("chat")

        store.save_timeline("chat", ours, expecting=head)

        assert ours == self.other(store).load_timeline("chat")
        assert () == store.verify()

    @pytest.mark.parametrize(
        "change",
        [
            lambda base: base.undo(),
            lambda base: base.commit(CONVERSATION, note={}),
            lambda base: base.amend(1, CONVERSATION, "b"),
        ],
        ids=["move", "step", "label"],
    )
    def test_stale_where_states_are_equal(self, store, change):
        """So is one that lacks what no state shows; the same one again is no change."""
        base = Timeline.begin(CONVERSATION).commit(CONVERSATION, "a")
        head = store.save_timeline("chat", base)
        newer = change(base)
        there = self.other(store).save_timeline("chat", newer, expecting=head)
        with pytest.raises(StaleHeadError):
            store.save_timeline("chat", base.commit(CONVERSATION, "c"), expecting=head)

        assert newer == store.load_timeline("chat")
        assert there == store.save_timeline("chat", newer, expecting=there)
        assert () == store.verify()

    def test_a_history_or_a_timeline(self, store):
        """
        A name is written as what its first save made of it: the other's verbs are
        refused with an error that says which it is, and nothing is written.
        """
        timeline = grow_timeline(3)
        store.save_timeline("tree", timeline)
        store.save("chat", CONVERSATION)
        more = store.load("tree").add_user_prompt("more")
        tree = store.latest("tree")
        called = []

        def work(state):
            called.append(state)
            return more

        for each in (store, self.other(store)):
            acts = [
                lambda each=each: each.save("tree", more),
                lambda each=each: each.save("tree", more, expecting=tree),
                lambda each=each: each.save_all({"new": more, "tree": more}),
                lambda each=each: each.update("tree", lambda state: more),
                lambda each=each: each.rollback("tree", 1),
                lambda each=each: each.step("tree", "step", work),
            ]
            for act in acts:
                with pytest.raises(StoreError, match="'tree' is a timeline") as caught:
                    act()

                assert not isinstance(caught.value, StaleHeadError)

            with pytest.raises(StoreError, match="'chat' is a history"):
                each.save_timeline("chat", timeline)

        assert [] == called
        assert ("chat", "tree") == store.names()
        assert timeline == self.other(store).load_timeline("tree")
        assert 1 == store.latest("chat").revision

        store.delete("chat")
        store.save_timeline("chat", timeline)

        assert timeline == self.other(store).load_timeline("chat")

    def test_all_else_works_on_both(self, store):
        """A timeline is labelled, annotated, forked and verified as a history is."""
        timeline = grow_timeline(3)
        head = store.save_timeline("tree", timeline)
        store.label("tree", "here")
        store.annotate("tree", {"title": "a tree"}, at=head)
        store.fork("tree", "fork", at="here")
        store.save("fork", store.load("fork").add_user_prompt("on"))
        more = timeline.commit(timeline.present.add_user_prompt("more"))
        store.save_timeline("tree", more)

        assert more == self.other(store).load_timeline("tree")
        assert timeline.present == store.load("tree", at="here")
        assert {"title": "a tree"} == store.latest("tree", at="here").notes
        assert "on" == store.load("fork")[-1].text
        assert () == store.verify()

    def test_a_history_is_loaded_as_one(self, store):
        """Each revision of a history is a moment, on that of the one it grew from."""
        for text in ("one", "two"):
            store.update(
                "chat",
                lambda state, text=text: state.add_user_prompt(text),
                start=CONVERSATION,
            )

        store.rollback("chat", 1)
        store.update("chat", lambda state: state.add_user_prompt("instead"))
        for each in (store, self.other(store, remembered=0)):
            loaded = each.load_timeline("chat")

            assert [None, 0, 0, 2] == [moment.parent for moment in loaded.moments]
            assert [store.load("chat", at=at) for at in range(1, 5)] == [
                moment.state for moment in loaded.moments
            ]
            assert store.load("chat") == loaded.present

    def test_erased_and_deleted(self, store):
        """
        What is erased is a tombstone in every moment; of a name that is deleted and
        collected nothing is left.
        """
        timeline = grow_timeline(6)
        store.save_timeline("chat", timeline)
        entry = timeline.moments[1].state.entries[1].id
        other = self.other(store)
        other.load_timeline("chat")
        store.erase(entry, reason="asked for")
        for each in (store, other):
            loaded = each.load_timeline("chat")
            found = [
                ERASED in message.metadata
                for moment in loaded.moments
                for id, message in moment.state.entries
                if id == entry
            ]

            assert found
            assert all(found)

        more = timeline.commit(timeline.present.add_user_prompt("more"))
        other.save_timeline("chat", more)

        assert "" == store.load_timeline("chat").moments[1].state[1].text
        assert () == store.verify()

        store.delete("chat")
        store.collect_garbage()
        with store._cache.backend.reading() as rows:
            for table in ("timelines", "moments", "revisions", "entries"):
                assert [] == rows.scan(table, None, None)

        with pytest.raises(NotSavedError):
            store.load_timeline("chat")

    def test_shorter_than_its_parent(self, store):
        """
        A moment that does not begin with all messages of the one that it was committed
        on leaves those in the tree of messages.
        """
        one = CONVERSATION.add_user_prompt("one")
        two = one.add_user_prompt("two")
        other = one.add_user_prompt("other")
        for at, timeline in enumerate(
            [
                Timeline.begin(two).commit(one),
                Timeline.begin(one).commit(two).commit(other),
                Timeline.begin(two).commit(other.add_user_prompt("more")),
            ]
        ):
            store.save_timeline(f"chat {at}", timeline)
            for each in (store, self.other(store, remembered=0)):
                tree = each.message_tree(f"chat {at}")

                assert MessageTree.of(timeline).leaves == tree.leaves

    def test_stale_label(self, store):
        """
        A timeline with another label than a moment has that is saved is refused, and
        so is one with another group; with the head it is saved.
        """
        more = CONVERSATION.add_user_prompt("more")
        base = Timeline.begin(CONVERSATION).commit(more, "old")
        head = store.save_timeline("chat", base)
        amended = base.amend(1, more, "new")
        self.other(store).save_timeline("chat", amended, expecting=head)

        assert amended == store.load_timeline("chat")

        grouped = Timeline.begin(CONVERSATION).commit(more, "new", group="typing")
        for timeline in (base, grouped):
            stale = timeline.commit(more.add_user_prompt("on"))
            for each in (store, self.other(store, remembered=0)):
                with pytest.raises(StaleHeadError):
                    each.save_timeline("chat", stale)

        assert amended == store.load_timeline("chat")

        store.save_timeline("chat", amended.commit(more.add_user_prompt("on")))

    def test_loaded_alike_everywhere(self, store):
        """
        The store that saved a timeline loads it as any other one does: without a
        filter, and with no group open.
        """
        timeline = Timeline.begin(CONVERSATION, filter=lambda *_: False)
        one, two = (CONVERSATION.add_user_prompt(text) for text in ("one", "two"))
        store.save_timeline("filtered", timeline)
        store.save_timeline(
            "typed", Timeline.begin(CONVERSATION).commit(one, group="g")
        )
        for each in (store, self.other(store)):
            filtered = each.load_timeline("filtered").commit(one)
            typed = each.load_timeline("typed").commit(two, group="g")

            assert (2, 3) == (len(filtered.moments), len(typed.moments))

    def test_bad_timelines(self, store):
        """
        Values that are not timelines of states are refused, and nothing is written.
        """
        bad: Any
        for bad in (CONVERSATION, None, Timeline.begin("Dear"), "chat"):
            with pytest.raises(TypeError, match="timeline"):
                store.save_timeline("chat", bad)

        mixed: Any = Timeline.begin(CONVERSATION)
        with pytest.raises(TypeError, match="str"):
            store.save_timeline("chat", mixed.commit("Dear"))

        with pytest.raises(ValueError, match="limit is 9,223,372,036,854,775,808"):
            store.save_timeline("chat", Timeline.begin(CONVERSATION, limit=1 << 63))

        assert () == store.names()
        with pytest.raises(ValueError):
            store.load_timeline("")

        most = Timeline.begin(CONVERSATION, limit=(1 << 63) - 1)
        store.save_timeline("chat", most)

        assert most == self.other(store).load_timeline("chat")

    def test_erased_stays_erased(self, store):
        """
        A timeline that still has what was erased, and is saved once more, does not
        bring it back, here or elsewhere.
        """
        secret = CONVERSATION.add_user_prompt("secret")
        timeline = Timeline.begin(CONVERSATION).commit(secret)
        store.save_timeline("chat", timeline)
        store.erase(secret.entries[-1].id, reason="asked for")
        for text in ("one", "two"):
            timeline = timeline.commit(secret.add_user_prompt(text))
            store.save_timeline("chat", timeline)
            for each in (store, self.other(store, remembered=0)):
                texts = {
                    message.text
                    for moment in each.load_timeline("chat").moments
                    for message in moment.state
                }

                assert "secret" not in texts
                assert {"", "one"} <= texts

        assert () == store.verify()
