"""
Arguments of a store's verbs: checked before anything is read or written.
"""

from __future__ import annotations

from conversation_state._persistent import check_text
from conversation_state.aggregator import Aggregator
from conversation_state.errors import MirroredNameError
from conversation_state.store._values import Head

__all__ = [
    "At",
    "check_at",
    "check_count",
    "check_expecting",
    "check_name",
    "check_not_mirrored",
    "check_state",
    "is_expected",
]

At = int | str | Head | None


def check_name(name: object, what: str = "name") -> str:
    """
    *name* if a store takes it as a name, a label or a reason: 1 to 500 characters.

    Args:
        name: The text.

        what: What the error calls it.

    Raises:
        ValueError:
            If it is empty, longer than 500 characters, or holds U+0000 or half
            of a surrogate pair.
    """
    text = check_text(name, what)
    if not 0 < len(text) <= _LONGEST or "\0" in text:
        msg = (
            f"{what} is {text!r:.80}; expected 1 to {_LONGEST} characters and no U+0000"
        )
        raise ValueError(msg)

    return text


_LONGEST = 500


# Prefixes of names under which a host saves copies of its own records, and how a
# user changes what the host reads.
_MIRRORS = {
    "langgraph/": (
        "LangGraph",
        "Use graph.update_state(), or run the graph from an earlier checkpoint_id",
    ),
}
_PREFIXES = tuple(_MIRRORS)


def check_not_mirrored(store: str, name: object) -> None:
    """
    Check that no host ignores what is saved under *name*.

    Raises:
        MirroredNameError:
            If it is not.
    """
    if isinstance(name, str) and name.startswith(_PREFIXES):
        for prefix, (host, remedy) in _MIRRORS.items():
            if name.startswith(prefix):
                raise MirroredNameError(store, name, host, remedy)


def check_at(name: str, at: At) -> At:
    """
    *at* if it can name a revision of *name*.

    Raises:
        TypeError:
            If it is of another type.

        ValueError:
            If it is a head of another name, or no text.
    """
    if isinstance(at, Head) and at.name != name:
        msg = f"at is a head of {at.name!r}; expected one of {name!r}"
        raise ValueError(msg)

    if at is not None and (
        isinstance(at, bool) or not isinstance(at, int | str | Head)
    ):
        msg = f"at is {at!r}; expected a revision's number, a label, a Head or None"
        raise TypeError(msg)

    return check_text(at, "at") if isinstance(at, str) else at


def check_state(name: str, state: object, expecting: object) -> None:
    """
    Check the arguments of a save.
    """
    check_name(name)
    if not isinstance(state, Aggregator):
        msg = f"state: expected an Aggregator, got a {type(state).__name__}"
        raise TypeError(msg)

    if expecting is not None:
        check_expecting(name, expecting)


def check_expecting(name: str, expecting: object) -> None:
    """
    Check that *expecting* can be the head of *name*, the number of its revision, or 0.
    """
    if isinstance(expecting, Head):
        if expecting.name != name:
            msg = f"expecting is a head of {expecting.name!r}; expected one of {name!r}"
            raise ValueError(msg)
    elif isinstance(expecting, bool) or not isinstance(expecting, int):
        msg = f"expecting is {expecting!r}; expected a Head, a revision or None"
        raise TypeError(msg)
    elif expecting < 0:
        msg = f"expecting is {expecting}; expected a revision, or 0 for a new name"
        raise ValueError(msg)


def is_expected(head: Head | None, expecting: Head | int | None) -> bool:
    """
    Whether a head is the expected one, whatever its labels.
    """
    if expecting is None:
        return True

    if isinstance(expecting, int):
        return expecting == (head.revision if head else 0)

    return (
        head is not None
        and head.revision == expecting.revision
        and head.digest == expecting.digest
        and head.saved_at == expecting.saved_at
    )


def check_count(count: object, what: str, meaning: str) -> None:
    """
    Check a number that is at least 0; *what* and *meaning* name it in the error.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        msg = f"{what} is {count!r:.80}; expected {meaning}, from 0 on"
        raise ValueError(msg)
