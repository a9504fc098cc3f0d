"""
What is wrong with a document, and where.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from conversation_state.errors import DecodeError, Problem

__all__ = ["At", "Problems", "rendered", "shown"]

# A place in a document: the place it is in, and its key or position there.
# None is the document. Made for every value, and rendered only for problems.
At: TypeAlias = "tuple[At, str | int] | None"

_MOST_LISTED = 100
_MOST_SHOWN = 60
_MOST_PATH = 500
_MOST_BITS = 128
_NAMES: dict[type, str] = {dict: "an object", list: "an array"}


def shown(value: Any) -> str:
    """
    A JSON value for an error's message: never more than a line of it, and
    never more work than that.
    """
    if value is None or isinstance(value, bool):
        return {None: "null", False: "false", True: "true"}[value]

    if isinstance(value, str):
        cut = value[:_MOST_SHOWN]
        return repr(cut) if cut == value else f"{cut!r} and more"

    if isinstance(value, int):
        # `repr` would take long for a large one, and refuses a larger one.
        bits = value.bit_length()
        return repr(value) if bits <= _MOST_BITS else f"an integer of {bits} bits"

    if isinstance(value, float):
        return repr(value)

    return _NAMES.get(type(value), f"a {type(value).__name__}")


def rendered(at: At) -> str:
    """
    A place as text, as in ``$.messages[3].parts[0].url``.
    """
    steps: list[str] = []
    while at is not None:
        at, step = at
        if isinstance(step, int):
            steps.append(f"[{step}]")
        elif _is_name(step):
            steps.append(f".{step}")
        else:
            steps.append(f"[{shown(step)}]")

    path = "".join(["$", *reversed(steps)])
    if len(path) > _MOST_PATH:
        # Hostile: a hundred levels of long keys, a hundred times.
        path = f"{path[: _MOST_PATH // 2]}[...]{path[-_MOST_PATH // 2 :]}"

    return path


def _is_name(key: Any) -> bool:
    return (
        isinstance(key, str)
        and len(key) <= _MOST_SHOWN
        and key.isascii()
        and key.isidentifier()
    )


class Problems:
    """
    What was found wrong so far: all of it counted, the first hundred listed.
    """

    __slots__ = ("_listed", "count")

    count: int
    _listed: list[Problem]

    def __init__(self) -> None:
        self.count = 0
        self._listed = []

    def add(self, at: At, what: str, *, inside: str = "") -> None:
        """
        One more: at *at*, or at the path *inside* of what is there.
        """
        self.count += 1
        if len(self._listed) < _MOST_LISTED:
            self._listed.append(Problem(f"{rendered(at)}{inside}", what))

    def forget(self, count: int) -> None:
        """
        All but the first *count*: what comes next will find the rest anew.
        """
        self.count = count
        del self._listed[count:]

    def error(self) -> DecodeError:
        """
        All of them, as an error to raise.
        """
        listed = self._listed
        more = self.count - len(listed)
        if more:
            rest = f"and {more:,} more problem{'s'[: more != 1]}"
            listed = [*listed, Problem("$", rest)]

        return DecodeError(tuple(listed))
