"""Texts, JSON, times, usages: what messages are made of."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from conversation_state.testing._drawing import Fields, few, few_fields, once, rarely
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage

# The sum of a thousand million of them is at most 2**63 - 1.
COUNTS = st.integers(0, 2**32)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
_LEAST, _MOST = -(2**63), 2**64 - 1
INTEGERS = st.one_of(
    st.integers(_LEAST, _MOST),
    # Readers of JSON differ in these, which are rarely drawn otherwise.
    st.sampled_from([2**53 + 1, _LEAST, _MOST]),
)

_QUARTER = timedelta(minutes=15)


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
    return st.uuids(allow_nil=True)


@once
def timestamps() -> SearchStrategy[datetime]:
    """
    Aware datetimes of any year; offsets go down to the microsecond, as Python's do;
    shrink to 2000-01-01 00:00 UTC.
    """
    # Python refuses an offset of a whole day.
    longest = timedelta(days=1) - timedelta.resolution
    odd = st.timedeltas(-longest, longest)
    usual = st.integers(-48, 56).map(lambda quarters: quarters * _QUARTER)
    zones = st.one_of(usual, odd).map(timezone)
    return st.datetimes(timezones=zones)


@once
def json_values(*, max_leaves: int = 6) -> SearchStrategy[Any]:
    """
    Any JSON value, as plain dicts, lists and scalars: integers of 64 bits with sign or
    without, finite floats, nesting; shrinks to scalars, and these to null.
    """
    scalars = st.one_of(st.none(), st.booleans(), INTEGERS, FLOATS, texts())
    return st.recursive(
        scalars,
        lambda inner: st.one_of(few(inner), few_fields(texts(), inner)),
        max_leaves=max_leaves,
    )


@once
def metadata() -> SearchStrategy[Fields]:
    """
    What a caller may give as *metadata*: plain dicts of JSON values; shrinks to {}.
    """
    return few_fields(texts(), json_values())


@once
def unknown_fields() -> SearchStrategy[Fields]:
    """
    Fields that a newer version may write: names that no field of ours has; shrinks to
    {}.
    """
    names = st.sampled_from(["new", "Content"]) | texts().map("x-{}".format)
    return few_fields(names, json_values())


# Usage


@once
def prompt_tokens_details() -> SearchStrategy[PromptTokensDetails]:
    """Breakdowns of a prompt's tokens; shrink to zeros."""
    return st.builds(PromptTokensDetails, audio_tokens=COUNTS, cached_tokens=COUNTS)


@once
def completion_tokens_details() -> SearchStrategy[CompletionTokensDetails]:
    """Breakdowns of a completion's tokens; shrink to zeros."""
    return st.builds(
        CompletionTokensDetails,
        accepted_prediction_tokens=COUNTS,
        audio_tokens=COUNTS,
        reasoning_tokens=COUNTS,
        rejected_prediction_tokens=COUNTS,
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
        COUNTS,
        COUNTS,
        st.none() | COUNTS,
        rarely(st.just(PromptTokensDetails()), prompt_tokens_details()),
        rarely(st.just(CompletionTokensDetails()), completion_tokens_details()),
        rarely(st.just({}), few_fields(names | texts(), COUNTS)),
    )
