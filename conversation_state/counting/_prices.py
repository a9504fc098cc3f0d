"""
Models by their names, and prices: what a usage costs in US dollars.

The only module that imports genai-prices. Its data come with the package; it downloads
newer ones only in programs that start its `UpdatePrices`, and these are then used here,
too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, localcontext
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from conversation_state._wording import describe_value, format_count, shorten_repr
from conversation_state.errors import (
    MissingExtraError,
    UnknownModelError,
    UnpricedError,
)
from conversation_state.usage import Usage

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, ModelPrice, Provider


FoundModel: TypeAlias = "tuple[Provider, ModelInfo]"

REGISTRY = "genai-prices"

# No model has a longer name, and comparing much longer ones takes long.
_MAX_NAME = 200


def _load_snapshot(wanted: str) -> DataSnapshot:
    try:
        from genai_prices.data_snapshot import (  # noqa: PLC0415 - an extra
            get_snapshot,
        )
    except ImportError:
        raise MissingExtraError(wanted, "prices") from None

    return get_snapshot()


def check_model_name(model: object) -> None:
    if not isinstance(model, str):
        raise TypeError(
            f"model is {shorten_repr(model)}; expected the name of a model, a str"
        )


def find_model(model: str, wanted: str, *, suggest: bool = True) -> FoundModel:
    """
    The model with the name *model*, and its provider.

    A name may begin with a provider, separated by a colon or a slash.

    Raises:
        UnknownModelError: If the registry has no model of that name; lists similar
            names if asked to *suggest* some, which takes up to 40 ms.
        MissingExtraError: If the extra is not installed; *wanted* is what needs it.
        TypeError: If *model* is not text.
    """
    check_model_name(model)
    snapshot = _load_snapshot(wanted)
    found = _find_model(snapshot, model)
    if found is None:
        near = _find_similar(snapshot, model) if suggest else ()
        raise UnknownModelError(model, REGISTRY, near)

    return found


def _find_model(snapshot: DataSnapshot, model: str) -> FoundModel | None:
    if len(model) > _MAX_NAME:
        return None

    # The name is tried unchanged first, because it may contain a slash or a colon
    # itself.
    asked: list[tuple[str, str | None]] = [(model, None)]
    provider, name = _split_provider(model)
    if provider:
        asked.append((name, provider))

    for ref, provider_id in asked:
        with suppress(LookupError):
            return snapshot.find_provider_model(ref, None, provider_id, None)

    return None


def _split_provider(model: str) -> tuple[str, str]:
    # The first of the two signs: "groq:openai/gpt-oss-20b" is of groq.
    provider, *rest = re.split("[:/]", model, maxsplit=1)
    return (provider, rest[0]) if provider and rest else ("", model)


def _find_similar(snapshot: DataSnapshot, model: str) -> tuple[str, ...]:
    provider_id, name = _split_provider(model[:_MAX_NAME].lower())
    providers = [each for each in snapshot.providers if each.id == provider_id]
    homes: dict[str, str] = {}
    for provider in providers or snapshot.providers:
        for info in provider.models:
            homes.setdefault(info.id, provider.id)

    names = [name] if providers else [model[:_MAX_NAME].lower(), name]
    close = [each for one in names for each in get_close_matches(one, homes)]
    known = []
    for each in dict.fromkeys(close):
        # Some names are found only together with their provider's.
        full = f"{homes[each]}:{each}"
        bare = not providers and _find_model(snapshot, each) is not None
        if bare or _find_model(snapshot, full) is not None:
            known.append(each if bare else full)

    return tuple(known[:3])


def window_of(model: str) -> int:
    """
    The window of *model*, in tokens.

    Raises:
        ValueError: If the registry has the model without its window.
    """
    provider, info = find_model(model, "TokenBudget(model=...)")
    window = info.context_window
    if not window:
        raise ValueError(
            f"{REGISTRY} knows {shorten_repr(model)} as {info.id} of {provider.name}, "
            "but not how large its window is; give context_window instead"
        )

    return window


# More digits than any count times any price has; the program's own decimal context
# may have fewer.
EXACT = Context(prec=100)

# The date of a model, as in gpt-4o-2024-08-06 and claude-3-5-sonnet-20241022.
_DATE = re.compile(r"(?<!\d)(20\d\d)(?:-(?=\d\d-))?(\d\d)-?(\d\d)(?!\d)", re.ASCII)

# Our names of parts of a prompt or a completion, and the registry's.
_NAMES = {
    "cache_write_tokens": "cache_write_tokens",
    "completion_citation_tokens": "output_citation_tokens",
    "completion_image_tokens": "output_image_tokens",
    "completion_text_tokens": "output_text_tokens",
    "completion_video_tokens": "output_video_tokens",
    "prompt_image_tokens": "input_image_tokens",
    "prompt_text_tokens": "input_text_tokens",
    "prompt_video_tokens": "input_video_tokens",
}
_TOOL_USE = "tool_use_prompt_tokens"


def price(usage: Usage, model: str, *, when: datetime | None = None) -> Decimal:
    """
    The cost of *usage* on *model*, in US dollars; exact.

    The standard price from `genai-prices` (extra ``prices``), without taxes,
    discounts for batches or surcharges for speed; no network is touched.
    Tokens read from a cache or written to one, and tokens of audio or reasoning, have
    their own price where the model has one, and else that of the prompt or
    completion they are a part of.

    Of `Usage.extra`, ``cache_write_tokens`` are a part of the prompt, and so
    is, or should be, every name that ends in ``_tokens`` a part of prompt or
    completion. Other categories, such as ``web_searches``, have the registry's
    names. ``tool_use_prompt_tokens`` are added to the prompt if the total includes
    them.

    Args:
        usage: The usage of one request: prices may depend on how long a
            prompt was.
        model: The model's name, with or without a provider: ``gpt-4o``,
            ``openai:gpt-4o``, ``groq/llama-3.3-70b-versatile``. Without one,
            genai-prices selects the provider.
        when: An aware `datetime`; None is now. Prices change, some by the hour. A
            time before the model existed has no price if its name or its first
            price has a date. Other models, such as ``gpt-4o``, have their first
            price at every earlier time: the registry doesn't have their date.

    Raises:
        UnknownModelError: If the model is unknown; has similar names.
        UnpricedError: If a part of the usage has no known price; it is never taken as
            zero.
        MissingExtraError: If the extra is not installed.
        ValueError: If *when* has no time zone.
    """
    if not isinstance(usage, Usage):
        raise TypeError(f"price takes a Usage, got {describe_value(usage)}")

    at = check_moment(when)
    return price_of(usage, model, find_model(model, "price"), at)


def check_moment(when: datetime | None) -> datetime:
    """*when*, or now."""
    if when is None:
        return datetime.now(UTC)

    if not isinstance(when, datetime):
        raise TypeError(
            f"when is {shorten_repr(when)}; expected an aware datetime or None"
        )

    if when.utcoffset() is None:
        raise ValueError(
            f"when is {shorten_repr(when)}, which has no time zone; "
            "datetime.now(timezone.utc) has one"
        )

    return when


def price_of(usage: Usage, model: str, found: FoundModel, when: datetime) -> Decimal:
    """The cost of *usage* on the model *found*, whose given name is *model*."""
    from genai_prices.types import Usage as TheirUsage  # noqa: PLC0415 - an extra

    provider, info = found
    _check_existed(model, info, when)
    units = _load_units()
    counts = _map_counts(usage, units, model)
    _check_priced(counts, info.get_prices(when), units, model)
    try:
        with localcontext(EXACT):
            billed = TheirUsage(**counts)
            return info.calc_price(
                billed, provider, genai_request_timestamp=when
            ).total_price
    except ValueError as error:
        raise UnpricedError(model, str(error)) from None


@cache
def _load_units() -> Mapping[str, Any]:
    """The units that the registry has prices for, by name."""
    from genai_prices.data_units import unit_data  # noqa: PLC0415 - an extra
    from genai_prices.units import UnitRegistry  # noqa: PLC0415 - an extra

    return UnitRegistry(unit_data).units


def _check_existed(model: str, info: ModelInfo, when: datetime) -> None:
    """Raise for a time before the model existed: the registry has a price for it."""
    prices = info.prices if isinstance(info.prices, list) else []
    constraints = [each.constraint for each in prices]
    if constraints and not any(
        each is None or each.active(when) for each in constraints
    ):
        starts = [getattr(each, "start_date", None) for each in constraints]
        dates = sorted(start for start in starts if start is not None)
        if dates:
            why = f"its first price is of {dates[0]}, and when is {when:%Y-%m-%d}"
            raise UnpricedError(model, why)

    # One day of tolerance for time zones.
    try:
        day = when.astimezone(UTC).date()
    except OverflowError:  # it is in no year of UTC
        day = when.date()

    for name in (model, info.id):
        dated = _DATE.search(name)
        if dated and (made := _date_of(dated)) and day < made - timedelta(days=1):
            why = f"the model is of {made}, and when is {when:%Y-%m-%d}"
            raise UnpricedError(model, why)


def _date_of(dated: re.Match[str]) -> date | None:
    try:
        return date(*map(int, dated.groups()))
    except ValueError:
        return None


def _map_counts(usage: Usage, units: Mapping[str, Any], model: str) -> dict[str, int]:
    read, written = usage.prompt_tokens_details, usage.completion_tokens_details
    counts = {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "cache_read_tokens": read.cached_tokens,
        "input_audio_tokens": read.audio_tokens,
        "output_audio_tokens": written.audio_tokens,
        "output_reasoning_tokens": written.reasoning_tokens,
    }
    rest = usage.total_tokens - usage.prompt_tokens - usage.completion_tokens
    for name, count in usage.extra.items():
        known = _NAMES.get(name, name)
        if name == _TOOL_USE:
            # What Google's own tools returned may be in the total without being in
            # the prompt.
            counts["input_tool_tokens"] = count
            if rest == count:
                counts["input_tokens"] += count
                rest = 0
        # The registry adds the price of one request by itself.
        elif known in units and known != "requests":
            # One count has two names with different values; charging either one might
            # be wrong.
            if counts.get(known, count) not in {0, count}:
                why = f"it has both {counts[known]} and {count} for {known}"
                raise UnpricedError(model, why)

            counts[known] = count
        elif not name.endswith("_tokens"):
            why = (
                f"{REGISTRY} has no price for the {count:,} of "
                f"extra[{shorten_repr(name)}]"
            )
            raise UnpricedError(model, why)

    if rest > 0:
        why = (
            f"{format_count(rest, 'token')} of its total "
            f"{'is' if rest == 1 else 'are'} part of neither prompt nor completion"
        )
        raise UnpricedError(model, why)

    return counts


def _check_priced(
    counts: Mapping[str, int], prices: ModelPrice, units: Mapping[str, Any], model: str
) -> None:
    """Raise for counts that are no part of another one and have no price."""
    for name, count in counts.items():
        unit = units[name]
        is_part = unit.dimensions.get("family") == "tokens" and name not in {
            "input_tokens",
            "output_tokens",
        }
        if count and not is_part and getattr(prices, unit.price_key) is None:
            why = f"{REGISTRY} has no price for the {count:,} {name}"
            raise UnpricedError(model, why)
