"""What a session of an agent framework promises: items in order, under an id."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from typing import Any, Protocol
from uuid import uuid4

from hypothesis import settings as Settings  # noqa: N812 - a class
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from conversation_state._wording import shorten_repr
from conversation_state.testing._comparison import assert_same
from conversation_state.testing._drawing import draw_evenly
from conversation_state.testing.contracts._contract import (
    Contract,
    check_contract,
    law,
    wait_for,
)
from conversation_state.testing.strategies import texts


class Session(Protocol):
    """
    **Protocol:** the messages of one conversation, as a framework keeps them; the
    OpenAI Agents SDK's, for example. Each method may be async.
    """

    def get_items(self, limit: int | None = None) -> Any:
        """All items, or the newest *limit*, in the order in which they were added."""
        ...

    def add_items(self, items: list[Any]) -> Any:
        """Add *items* at the end."""
        ...

    def pop_item(self) -> Any:
        """Remove the newest item and return it; None if the session is empty."""
        ...

    def clear_session(self) -> Any:
        """Remove all items."""
        ...


_MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system"]),
        "content": st.sampled_from(["Where to?", "To Bern."]) | texts(max_size=6),
    }
)
# Items of other kinds, and content that careless sessions lose or change.
_UNUSUAL: SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        # Changed by strip(), by universal newlines, and by the normal forms of Unicode.
        {"role": "user", "content": "  Cafe\u0301,\r\n \ufb01nal"},
        {"role": "user", "content": "Where to? " * 500},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is it?"},
                {"type": "input_image", "image_url": "https://example.com/a.png"},
            ],
        },
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "clock",
            "arguments": "{}",
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "12:30"},
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Bern.", "annotations": []}],
        },
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gA=="},
        {"type": "poll", "is_open": True, "count": 1, "share": 1.0, "unit": None},
        {"type": "vote", "id": 2**53 + 1},  # no float has this value
    ]
)
_ITEMS: SearchStrategy[list[Any]] = st.lists(
    draw_evenly(_MESSAGES, _UNUSUAL), max_size=3
)
_QUESTION = {"role": "user", "content": "Where to?"}
_ANSWER = {"role": "assistant", "content": "To Bern."}
_EXPECTED = "expected {}, got {}"
_METHODS = ("add_items", "get_items", "pop_item", "clear_session")


class SessionContract(Contract):
    """
    The laws of a session.

    Attributes:
        make: Takes an id and returns its session, as a static method or a method.
            Sessions of one id have the same items.

        items: Lists of items to add, as a strategy; by default of messages with a
            role and a text, as plain dicts.
    """

    kind, subject = "sessions", "make"
    expected = "a function from an id to a session"
    make: Callable[[str], Session]
    items: SearchStrategy[list[Any]] = _ITEMS

    @property
    def many(self) -> SearchStrategy[list[Any]]:
        """More items than a page of most services has."""
        if self.items is _ITEMS:
            return st.just([{**_QUESTION, "content": f"{n}"} for n in range(1_100)])

        # Drawn for each example, in a session that may be slow.
        return self.items.filter(bool).map(lambda each: (each * 300)[:300])

    @property
    def steps(self) -> SearchStrategy[list[Any]]:
        """Items to add, and the names of other steps."""
        added = self.items
        if added is _ITEMS:
            added = st.sampled_from([[_QUESTION], [_ANSWER], [_QUESTION, _ANSWER]])

        others = st.sampled_from(["pop", "open again", "clear"])
        return st.lists(draw_evenly(added, others), max_size=8)

    def _new_id(self) -> str:
        """
        An id that no other example has, also of earlier runs: sessions may be kept.
        """
        return f"session-{uuid4()}"

    @law()
    async def test_begins_empty(self) -> None:
        """A new session has no items, none to remove, and can be cleared."""
        session: Any = self.make(self._new_id())
        missing = [
            each for each in _METHODS if not callable(getattr(session, each, None))
        ]
        assert not missing, (
            f"expected a session, got {shorten_repr(session)}, without "
            f"{', '.join(missing)}"
        )
        assert await _get_items(session) == [], "it has items"
        popped = await wait_for(session.pop_item())
        assert popped is None, f"pop_item returned {shorten_repr(popped)}, not None"
        await wait_for(session.clear_session())
        assert await _get_items(session) == [], "it has items after clear_session"

    @law(first="items", second="items")
    async def test_keeps_items(self, first: list[Any], second: list[Any]) -> None:
        """What was added is returned as it was, in order."""
        session = self.make(self._new_id())
        await _add_items(session, first)
        await _add_items(session, second)
        found = await _get_items(session)

        assert_same([*first, *second], found, _EXPECTED)

    @law(items="many")
    async def test_keeps_many_items(self, items: list[Any]) -> None:
        """
        Hundreds of items are returned in order, also the newest of them only, and
        after some were removed.
        """
        session = self.make(self._new_id())
        most = len(items) - 20
        await _add_items(session, items[:most])
        for number in range(most, most + 10):
            await _add_items(session, items[number : number + 1])

        await _add_items(session, items[most + 10 :])
        _check_many(items, await _get_items(session))
        for limit in (1, 10, 100, 101, len(items) - 1, len(items), len(items) + 1):
            found = await _get_items(session, limit=limit)
            _check_many(items[-limit:], found)

        for number in range(1, 4):
            popped = await wait_for(session.pop_item())
            assert_same(items[-number], popped, _EXPECTED)

        _check_many(items[:-3], await _get_items(session))

    @law(items="items", limit=st.integers(0, 4))
    async def test_limits_to_the_newest(self, items: list[Any], limit: int) -> None:
        """
        With a limit, the newest items are returned, the oldest of them first; with
        the limit 0, none.
        """
        session = self.make(self._new_id())
        await _add_items(session, items)
        found = await _get_items(session, limit=limit)

        assert_same(items[-limit:] if limit else [], found, _EXPECTED)

    @law(
        first="items",
        second="items",
        other_id=st.sampled_from(["another", "a longer one", "in capitals"]),
    )
    async def test_keeps_sessions_apart(
        self, first: list[Any], second: list[Any], other_id: str
    ) -> None:
        """
        Sessions of two ids have nothing in common, also if one id begins with the
        other, or differs only in capitals.
        """
        name = self._new_id()
        other_names = {
            "another": self._new_id(),
            "a longer one": f"{name}0",
            "in capitals": name.upper(),
        }
        one, other = self.make(name), self.make(other_names[other_id])
        await _add_items(one, first)
        await _add_items(other, second)
        found = [await _get_items(one), await _get_items(other)]
        assert_same([first, second], found, _EXPECTED)

        await wait_for(one.clear_session())
        found = await _get_items(other)
        assert_same(second, found, _EXPECTED)

    @law(items="items")
    async def test_is_opened_again(self, items: list[Any]) -> None:
        """
        Another session of the same id has the same items, also if they are added or
        removed while both are open.
        """
        name = self._new_id()
        first = self.make(name)
        await _add_items(first, items)
        second = self.make(name)
        found = await _get_items(second)
        assert_same(items, found, _EXPECTED)

        await _add_items(first, items)
        found = await _get_items(second)
        assert_same([*items, *items], found, _EXPECTED)

        await wait_for(first.clear_session())
        assert_same([], await _get_items(second), _EXPECTED)

    @law(items="items")
    async def test_returns_copies(self, items: list[Any]) -> None:
        """Changing what was added or returned changes no session."""
        session = self.make(self._new_id())
        added = copy.deepcopy(items)
        await wait_for(session.add_items(added))
        for changed in (added, await _get_items(session)):
            _change_items(changed)
            found = await _get_items(session)
            assert_same(items, found, _EXPECTED)

    @law(steps="steps")
    async def test_is_like_a_list(self, steps: list[Any]) -> None:
        """
        After items were added and removed, and the session was cleared and opened
        again, in any order, the items are those of a list.
        """
        name, expected = self._new_id(), list[Any]()
        session = self.make(name)
        for step in steps:
            if step == "pop":
                last = expected.pop() if expected else None
                found = await wait_for(session.pop_item())
                assert_same(last, found, _EXPECTED)
            elif step == "clear":
                expected.clear()
                await wait_for(session.clear_session())
            elif step == "open again":
                if "is opened again" not in self.without:
                    session = self.make(name)
            else:
                expected += step
                await _add_items(session, step)

            items = await _get_items(session)
            assert_same(expected, items, _EXPECTED)


async def _add_items(session: Session, items: list[Any]) -> None:
    # A copy, so that a session that keeps this list breaks only the law about copies.
    await wait_for(session.add_items(copy.deepcopy(items)))


async def _get_items(session: Session, *, limit: int | None = None) -> list[Any]:
    result = session.get_items() if limit is None else session.get_items(limit=limit)
    return list(await wait_for(result))


def _check_many(expected: list[Any], found: list[Any]) -> None:
    assert len(found) == len(expected), (
        f"expected {len(expected)} items, got {len(found)}"
    )
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        assert_same(one, other, f"expected {{}} at {number} of {len(found)}, got {{}}")


def _change_items(items: list[Any]) -> None:
    for each in items:
        if isinstance(each, dict):
            each["content"] = "changed"

    items.append({"role": "user", "content": "added"})


def check_session(
    make: Callable[[str], Session],
    *,
    without: Collection[str] = (),
    items: SearchStrategy[list[Any]] | None = None,
    settings: Settings | None = None,
) -> None:
    """
    Hold sessions to the laws of `SessionContract`: they are lists, one for each id,
    also when they are opened again.

    Makes about a thousand sessions, each example's in an event loop of its own.

    A session that is only in memory is checked ``without=["is opened again"]``. The
    options are the attributes of the class, and Hypothesis' settings.

    Raises:
        BrokenLawsError:
            If they break a law, with the smallest items that show it as code.
    """
    check_contract(SessionContract, make, settings, without=without, items=items)
