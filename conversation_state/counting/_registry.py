"""
Models: finding one by its name in the data of genai-prices.

The only module that imports it. Its data come with the package; it downloads newer
ones only in programs that start its `UpdatePrices`, and these are then used here,
too.
"""

from __future__ import annotations

import re
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeAlias

from conversation_state._wording import shorten_repr
from conversation_state.errors import MissingExtraError, UnknownModelError

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, Provider


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
        UnknownModelError:
            If the registry has no model of that name; lists similar names if asked
            to *suggest* some, which takes up to 40 ms.

        MissingExtraError:
            If the extra is not installed; *wanted* is what needs it.

        TypeError:
            If *model* is not text.
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
        ValueError:
            If the registry has the model without its window.
    """
    provider, info = find_model(model, "TokenBudget(model=...)")
    window = info.context_window
    if not window:
        raise ValueError(
            f"{REGISTRY} knows {shorten_repr(model)} as {info.id} of {provider.name}, "
            "but not how large its window is; give context_window instead"
        )

    return window
