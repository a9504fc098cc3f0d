"""The fields that all messages have: checked here, and kept in one object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from conversation_state._persistent import (
    EMPTY_MAP,
    check_text,
    check_time,
    final,
    freeze_map,
)
from conversation_state._wording import shorten_repr
from conversation_state.errors import InvalidMessageError

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID


class CommonFields(TypedDict, total=False):
    name: str
    run_id: UUID | None
    turn_id: UUID | None
    timestamp: datetime | None
    metadata: Mapping[str, Any]
    unknown: Mapping[str, Any]


@final
class Common(NamedTuple):
    """
    The fields that all messages may have, in one object.

    Most messages have none of them and share `PLAIN`, and those of one
    envelope share theirs: a message is then two references instead of seven,
    and made in half the time.
    """

    name: str = ""
    run_id: UUID | None = None
    turn_id: UUID | None = None
    timestamp: datetime | None = None
    metadata: Mapping[str, Any] = EMPTY_MAP
    unknown: Mapping[str, Any] = EMPTY_MAP


PLAIN = Common()
COMMON = Common._fields
_new_tuple: Any = tuple.__new__


def common_of(owner: str, given: CommonFields) -> Common:
    # Only the given ones: most messages that have any of them have one or two.
    values: list[Any] = [*PLAIN]
    for name, value in given.items():
        known = _CHECKS.get(name)
        if known is None:
            raise TypeError(
                f"{owner} takes no {name!r}; besides its own fields it takes "
                f"{', '.join(COMMON)}"
            )

        at, check = known
        values[at] = check(owner, value)

    common: Common = _new_tuple(Common, values)
    return PLAIN if common == PLAIN else common


def _check_name(owner: str, value: object) -> str:
    return check_text(value, f"{owner}.name", InvalidMessageError)


def _freeze_metadata(owner: str, value: object) -> Mapping[str, Any]:
    return freeze_map(value, f"{owner}.metadata", InvalidMessageError)


def freeze_unknown(owner: str, value: object) -> Mapping[str, Any]:
    what = f"{owner}.unknown"
    return freeze_map(value, what, InvalidMessageError, keep_order=True)


def _check_uuid(name: str, owner: str, value: object) -> UUID | None:
    if value is None:
        return None

    import uuid  # noqa: PLC0415 - imported already where there is one

    if not isinstance(value, uuid.UUID):
        problem = f"is {shorten_repr(value)}; expected a uuid.UUID or None"
        raise InvalidMessageError(problem, owner, name)

    # A plain one: a subclass of a caller's could not be written, nor compare alike.
    return value if value.__class__ is uuid.UUID else uuid.UUID(int=value.int)


def _check_timestamp(owner: str, value: object) -> datetime | None:
    return check_time(
        value, lambda problem: InvalidMessageError(problem, owner, "timestamp")
    )


# What checks each field, and its place.
_CHECKS: dict[str, tuple[int, Callable[[str, Any], Any]]] = {
    "name": (0, _check_name),
    "run_id": (1, partial(_check_uuid, "run_id")),
    "turn_id": (2, partial(_check_uuid, "turn_id")),
    "timestamp": (3, _check_timestamp),
    "metadata": (4, _freeze_metadata),
    "unknown": (5, freeze_unknown),
}
