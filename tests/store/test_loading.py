"""What is read in pages is what was saved, whichever page it is on."""

import pytest

from conversation_state import Aggregator, AssistantMessage, ImagePart, UserMessage
from conversation_state.errors import StoreError
from conversation_state.store import Store
from conversation_state.store._log import ENTRIES, checksum_of
from conversation_state.store.backends.memory import MemoryBackend

LARGE = ImagePart(data=bytes(range(256)) * 40)
PAGES = [0, 999, 1000, 2499]


def kept(*, shown=(), erased=()):
    """
    A backend with a conversation of three pages, the state, and places by
    position.
    """
    messages = [
        AssistantMessage(f"{i}") if i % 2 else UserMessage(f"{i}") for i in range(2500)
    ]
    for at in shown:
        messages[at] = UserMessage([LARGE])

    state = Aggregator.new(messages=messages)
    backend = MemoryBackend()
    store = Store(backend)
    store.save("chat", state)
    for at in erased:
        store.erase(state.entries[at].id, reason="asked for")

    with backend.reading() as rows:
        places = [
            place for (place,) in rows.scan("entries", None, None, columns=("place",))
        ]

    return backend, state, places


@pytest.fixture(scope="module")
def plain():
    """What is only read, or put back, is made once."""
    return kept()


class TestLoad:
    @pytest.mark.parametrize("at", PAGES)
    def test_special_rows(self, at):
        """Pictures and tombstones are read beside whatever is on their page."""
        other = (at + 1) % 2500
        backend, state, _ = kept(shown=[at], erased=[other])

        loaded = Store(backend).load("chat")

        assert state.entries[at] == loaded.entries[at]
        assert "" == loaded[other].text
        assert [i for i in range(2500) if i != other] == [
            i for i in range(2500) if loaded.entries[i] == state.entries[i]
        ]
        assert () == Store(backend).verify()

    def test_digests_are_remembered(self, plain):
        """What was read need not be computed again, and is what would have been."""
        backend, state, _ = plain

        loaded = Store(backend).load("chat")

        for length in (1, 31, 32, 1000, 1001, 2500):
            assert ENTRIES.digest(state.entries.take(length)) == ENTRIES.digest(
                loaded.entries.take(length)
            )

    @pytest.mark.parametrize("at", [0, 998, 999, 1000, 2499])
    @pytest.mark.parametrize(
        ("column", "change"),
        [
            ("body", lambda body: body[:-2] + b'9"}'),
            ("id", lambda id: id + b"0"),
            ("digest", lambda digest: digest[::-1]),
            ("content", lambda _: b""),
            ("content", lambda _: b"x" * 32),
            ("checksum", lambda checksum: checksum ^ 1),
        ],
        ids=["body", "id", "digest", "empty content", "content", "checksum"],
    )
    def test_damage(self, plain, at, column, change):
        """A row that is not what it was is named, whichever page it is on."""
        backend, state, places = plain
        with backend.writing() as rows:
            (value,) = rows.get("entries", places[at], (column,))
            rows.set("entries", places[at], **{column: change(value)})

        with pytest.raises(StoreError, match="verify") as caught:
            Store(backend).load("chat")

        with backend.writing() as rows:
            rows.set("entries", places[at], **{column: value})

        assert state.entries[at].id in str(caught.value)
        assert state == Store(backend).load("chat")

    @pytest.mark.parametrize("at", [0, 1500])
    def test_unmarked_tombstone(self, at):
        """A tombstone that is no longer marked as one is found."""
        backend, state, places = kept(erased=[at])
        with backend.writing() as rows:
            rows.set("entries", places[at], content=None)

        with pytest.raises(StoreError, match=state.entries[at].id):
            Store(backend).load("chat")

    @pytest.mark.parametrize("at", [1, 999, 1000, 2499])
    def test_another_past(self, plain, at):
        """A row that is whole and of a log with another past is no row of this one."""
        backend, _, places = plain
        with backend.writing() as rows:
            columns = "id", "body", "checksum"
            id, body, there = rows.get("entries", places[at], columns)
            another = checksum_of(b"x" * 16, id, body, None)
            rows.set("entries", places[at], checksum=another)

        with pytest.raises(StoreError, match="is not what was saved"):
            Store(backend).load("chat")

        with backend.writing() as rows:
            rows.set("entries", places[at], checksum=there)

    @pytest.mark.parametrize("at", PAGES[1:-1])
    def test_missing(self, at):
        """Where rows are missing, the error names the first of them."""
        backend, _, places = kept()
        with backend.writing() as rows:
            rows.remove("entries", places[at], places[at] + 7)

        with pytest.raises(StoreError, match=f"the entries from {at} on are missing"):
            Store(backend).load("chat")
