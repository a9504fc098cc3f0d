"""
Prices: what a usage costs in US dollars.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Context, Decimal, localcontext
from typing import TYPE_CHECKING, Any

from conversation_state.counting._registry import REGISTRY, Found, find
from conversation_state.errors import UnpricedError
from conversation_state.usage import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

__all__ = ["EXACT", "moment", "price", "price_of"]

# More digits than any count times any price has, whatever the program's own
# context says.
EXACT = Context(prec=100)

# What our names for parts of a prompt or a completion are in the registry's.
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
    What *usage* cost on *model*, in US dollars; exact.

    The standard price from `genai-prices` (extra ``prices``), without taxes,
    discounts for batches or surcharges for speed; no network is touched.
    Tokens read from a cache, written to one, heard, spoken or thought have
    their own price where the model has one, and else that of the prompt or
    completion they are a part of.

    Of `Usage.extra`, ``cache_write_tokens`` are a part of the prompt, and so
    is, or should be, every name that ends in ``_tokens`` a part of prompt or
    completion. Other categories, ``web_searches`` say, have the registry's
    names. ``tool_use_prompt_tokens`` are read beside the prompt if the total
    says so.

    Args:
        usage: What was spent, in one request: prices may depend on how long a
            prompt was.

        model: The model's name, a provider before it or not: ``gpt-4o``,
            ``openai:gpt-4o``, ``groq/llama-3.3-70b-versatile``. Without one it
            is the provider genai-prices thinks of first.

        when: An aware `datetime`, for prices change, some by the hour. Now if
            it is None.

    Raises:
        UnknownModelError:
            If the model is not known; names those written like it.

        UnpricedError:
            If something of the usage has no price: unknown is never zero.

        MissingExtraError:
            If the extra is not installed.

        ValueError:
            If *when* has no time zone.
    """
    if not isinstance(usage, Usage):
        msg = f"price takes a Usage, got a {type(usage).__name__}: {usage!r:.80}"
        raise TypeError(msg)

    at = moment(when)
    return price_of(usage, model, find(model, "price"), at)


def moment(when: datetime | None) -> datetime:
    """
    *when*, or now.
    """
    if when is None:
        return datetime.now(UTC)

    if not isinstance(when, datetime):
        msg = f"when is {when!r}; expected an aware datetime or None"
        raise TypeError(msg)

    if when.utcoffset() is None:
        msg = (
            f"when is {when!r}, which has no time zone; datetime.now(timezone.utc) "
            "has one"
        )
        raise ValueError(msg)

    return when


def price_of(usage: Usage, model: str, found: Found, when: datetime) -> Decimal:
    """
    What *usage* cost on the model *found*, which was called *model*.
    """
    from genai_prices.types import Usage as TheirUsage  # noqa: PLC0415 - an extra
    from genai_prices.units import (  # noqa: PLC0415 - an extra
        _get_registry,
    )

    provider, info = found
    units = _get_registry().units
    counts = _counts(usage, units, model)
    _check_priced(counts, info.get_prices(when), units, model)
    try:
        with localcontext(EXACT):
            spent = TheirUsage(**counts)
            return info.calc_price(
                spent, provider, genai_request_timestamp=when
            ).total_price
    except ValueError as error:
        raise UnpricedError(model, str(error)) from None


def _counts(usage: Usage, units: Mapping[str, Any], model: str) -> dict[str, int]:
    """
    *usage* under the registry's names.
    """
    read, written = usage.prompt_tokens_details, usage.completion_tokens_details
    counts = {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "cache_read_tokens": read.cached_tokens,
        "input_audio_tokens": read.audio_tokens,
        "output_audio_tokens": written.audio_tokens,
        "output_reasoning_tokens": written.reasoning_tokens,
    }
    beside = usage.total_tokens - usage.prompt_tokens - usage.completion_tokens
    for name, count in usage.extra.items():
        known = _NAMES.get(name, name)
        if name == _TOOL_USE:
            counts["input_tool_tokens"] = count
            if beside == count:
                counts["input_tokens"] += count
                beside = 0
        elif known in units and known != "requests":
            if counts.get(known, count) not in {0, count}:
                why = f"it says {counts[known]} and {count} for {known}"
                raise UnpricedError(model, why)

            counts[known] = count
        elif not name.endswith("_tokens"):
            why = f"{REGISTRY} has no price for the {count:,} of extra[{name!r}]"
            raise UnpricedError(model, why)

    if beside > 0:
        why = (
            f"{beside:,} tokens of its total are part of neither prompt nor completion"
        )
        raise UnpricedError(model, why)

    return counts


def _check_priced(
    counts: Mapping[str, int], prices: ModelPrice, units: Mapping[str, Any], model: str
) -> None:
    """
    Raise for what is no part of something else, and has no price of its own.
    """
    for name, count in counts.items():
        unit = units[name]
        is_part = unit.dimensions.get("family") == "tokens" and name not in {
            "input_tokens",
            "output_tokens",
        }
        if count and not is_part and getattr(prices, unit.price_key) is None:
            why = f"{REGISTRY} has no price for the {count:,} {name}"
            raise UnpricedError(model, why)
