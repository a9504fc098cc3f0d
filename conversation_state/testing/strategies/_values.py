"""Texts, JSON, times, usages: what messages are made of."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from conversation_state.testing._drawing import Fields, once, rarely
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage

# The sum of a thousand million of them is at most 2**63 - 1.
_COUNTS = st.integers(0, 2**32)

ROLES = ("system", "user", "assistant", "tool")


# Plain values


@once
def texts(*, min_size: int = 0, max_size: int | None = None) -> SearchStrategy[str]:
    """
    Any text that UTF-8 can carry: empty, NUL, beyond the BMP; no surrogates; shrinks to
    shorter texts, and to zeros: "", "0", "00".
    """
    return st.text(st.characters(codec="utf-8"), min_size=min_size, max_size=max_size)


@once
def uuids() -> SearchStrategy[UUID]:
    """UUIDs of any version, the nil one included; shrink to those with more zeros."""
    return st.integers(0, 2**128 - 1).map(lambda number: UUID(int=number))


@once
def timestamps() -> SearchStrategy[datetime]:
    """
    Aware datetimes of any year; offsets go down to the microsecond, as Python's do;
    shrink to 2000-01-01 00:00 UTC.
    """
    day = timedelta(days=1) - timedelta(microseconds=1)
    # Python refuses an offset of a whole day.
    odd = st.timedeltas(-day, day)
    hours = st.integers(-12, 14).map(lambda n: timedelta(hours=n))
    minutes = st.integers(-56, 56).map(lambda n: timedelta(minutes=15 * n))
    zones = st.one_of(hours, minutes, odd).map(timezone)
    return st.datetimes(timezones=zones)


@once
def json_values(*, max_leaves: int = 6) -> SearchStrategy[Any]:
    """
    Any JSON value, as plain dicts, lists and scalars: integers of 64 bits with sign or
    without, finite floats, nesting; shrinks to scalars, and these to null.
    """
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        # Readers of JSON differ in these integers, which are rarely drawn otherwise.
        st.sampled_from([2**53 + 1, -(2**63), 2**64 - 1]),
        st.floats(allow_nan=False, allow_infinity=False),
        texts(max_size=8),
    )
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(texts(max_size=6), inner, max_size=3),
        ),
        max_leaves=max_leaves,
    )


@once
def metadata() -> SearchStrategy[Fields]:
    """
    What a caller may give as *metadata*: plain dicts of JSON values; shrinks to {}.
    """
    return st.dictionaries(texts(max_size=6), json_values(), max_size=3)


@once
def unknown_fields() -> SearchStrategy[Fields]:
    """
    Fields that a newer version may write: names that no field of ours has; shrinks to
    {}.
    """
    names = st.sampled_from(["since_v2", "new", "Content"]) | texts(max_size=6).map(
        "x-{}".format
    )
    return st.dictionaries(names, json_values(max_leaves=3), max_size=2)


# Usage


@once
def prompt_tokens_details() -> SearchStrategy[PromptTokensDetails]:
    """Breakdowns of a prompt's tokens; shrink to zeros."""
    return st.builds(PromptTokensDetails, audio_tokens=_COUNTS, cached_tokens=_COUNTS)


@once
def completion_tokens_details() -> SearchStrategy[CompletionTokensDetails]:
    """Breakdowns of a completion's tokens; shrink to zeros."""
    return st.builds(
        CompletionTokensDetails,
        accepted_prediction_tokens=_COUNTS,
        audio_tokens=_COUNTS,
        reasoning_tokens=_COUNTS,
        rejected_prediction_tokens=_COUNTS,
    )


@once
def usages() -> SearchStrategy[Usage]:
    """
    Usages, with totals that are not sums and categories of a provider's own; so small
    that a thousand million of them can be added.

    Shrink to zeros, totals to the sum, and no categories.
    """
    names = st.sampled_from(["cache_write_tokens", "tool_use_prompt_tokens"])
    return st.builds(
        Usage,
        # Half each, because a total that is not drawn is their sum.
        st.integers(0, 2**31),
        st.integers(0, 2**31),
        st.none() | _COUNTS,
        rarely(st.just(PromptTokensDetails()), prompt_tokens_details()),
        rarely(
            st.just(CompletionTokensDetails()),
            completion_tokens_details(),
        ),
        rarely(
            st.just({}), st.dictionaries(names | texts(max_size=6), _COUNTS, max_size=3)
        ),
    )
