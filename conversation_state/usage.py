"""Usage: tokens, as the provider counted them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import attrs

from conversation_state._persistent import (
    EMPTY_MAP,
    ByContent,
    SortedJsonMap,
    check_text,
    final,
    make_map,
)
from conversation_state._wording import add_missing_names, describe_value, shorten_repr
from conversation_state.errors import InvalidUsageError

__all__ = ["CompletionTokensDetails", "PromptTokensDetails", "Usage", "union_total"]

_MAX_COUNT = 2**63 - 1


def _check_count(name: str, count: Any) -> None:
    # The class is compared, because a bool is an int but not a count.
    if count.__class__ is not int or not 0 <= count <= _MAX_COUNT:
        raise InvalidUsageError(
            f"{name} is {shorten_repr(count)}; a count of tokens is an integer from 0 "
            "to 2**63 - 1. Leave it out if the provider did not say."
        )


def _combine_values(ours: Any, theirs: Any, combine: Callable[[int, int], int]) -> Any:
    if isinstance(ours, int):
        return combine(ours, theirs)

    if isinstance(ours, _Counts):
        return ours._combine_with(theirs, combine)

    if not theirs:
        return ours

    names = {*ours, *theirs}
    return {name: combine(ours.get(name, 0), theirs.get(name, 0)) for name in names}


class _Counts(ByContent):
    """Counts by name, which combine name by name."""

    __slots__ = ()

    _names: ClassVar[tuple[str, ...]]
    _nothing: ClassVar[Any]

    def _combine_with(self, other: Any, combine: Callable[[int, int], int]) -> Self:
        # Most breakdowns are empty, and all empty ones are one object.
        kind = type(self)
        if other is kind._nothing:
            return self

        return kind(
            **{
                name: _combine_values(
                    getattr(self, name), getattr(other, name), combine
                )
                for name in kind._names
            }
        )

    def _comparison_key(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self._names])

    def __repr__(self) -> str:
        shown = [
            f"{name}={value!r}"
            for name in self._names
            if (value := getattr(self, name))
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __add__(self, other: Self | None) -> Self:
        if other is None:
            return self

        if type(other) is not type(self):
            return NotImplemented

        return self._combine_with(other, operator.add)

    # For ``None + usage``, where a response without a usage comes first, and for `sum`,
    # which begins with 0.
    def __radd__(self, other: Self | Literal[0] | None) -> Self:
        return self if other == 0 else self.__add__(other)

    def __or__(self, other: Self) -> Self:
        if type(other) is not type(self):
            return NotImplemented

        return self._combine_with(other, max)


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptTokensDetails(_Counts):
    """
    What the tokens of a prompt were.

    Counts are tokens as the *provider* reported them, never our estimate.
    Both are parts of `Usage.prompt_tokens` and may overlap.

    Attributes:
        audio_tokens: Tokens of audio in the prompt.
        cached_tokens: Tokens the provider served from its cache.

    Raises:
        InvalidUsageError: If a count is negative, not an integer, or over 2**63 - 1.

    Source:
        OpenAI reports both. Anthropic reports cache reads *in addition to* its input
        count; adapters add them in so that they are a part here too.

    >>> PromptTokensDetails(cached_tokens=64) + PromptTokensDetails(audio_tokens=5)
    PromptTokensDetails(audio_tokens=5, cached_tokens=64)
    """

    audio_tokens: int = 0
    cached_tokens: int = 0

    def __attrs_post_init__(self) -> None:
        _check_count("audio_tokens", self.audio_tokens)
        _check_count("cached_tokens", self.cached_tokens)


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class CompletionTokensDetails(_Counts):
    """
    What the tokens of a completion were.

    Counts are tokens as the *provider* reported them; each is a part of
    `Usage.completion_tokens`.

    Attributes:
        accepted_prediction_tokens: Predicted tokens that were used.
        audio_tokens: Tokens of audio in the completion.
        reasoning_tokens: Tokens the model reasoned with.
        rejected_prediction_tokens: Predicted tokens that were not used; paid
            for all the same.

    Raises:
        InvalidUsageError: If a count is negative, not an integer, or over 2**63 - 1.

    Source:
        The names are OpenAI's.
    """

    accepted_prediction_tokens: int = 0
    audio_tokens: int = 0
    reasoning_tokens: int = 0
    rejected_prediction_tokens: int = 0

    def __attrs_post_init__(self) -> None:
        _check_count("accepted_prediction_tokens", self.accepted_prediction_tokens)
        _check_count("audio_tokens", self.audio_tokens)
        _check_count("reasoning_tokens", self.reasoning_tokens)
        _check_count("rejected_prediction_tokens", self.rejected_prediction_tokens)


def _set_names(kind: type[_Counts]) -> None:
    kind._names = tuple(field.name for field in attrs.fields(kind))  # type: ignore[arg-type]
    kind._nothing = kind()


_set_names(PromptTokensDetails)
_set_names(CompletionTokensDetails)
_NO_PROMPT: PromptTokensDetails = PromptTokensDetails._nothing
_NO_COMPLETION: CompletionTokensDetails = CompletionTokensDetails._nothing


def _as_given(given: int | None) -> int:
    # Type checkers derive the accepted types from this signature, and the type of the
    # field from the return type.
    return given  # type: ignore[return-value]  # None until the sum replaces it


def _check_extra(counts: Mapping[str, int]) -> Mapping[str, int]:
    if not counts:
        return EMPTY_MAP

    if not isinstance(counts, Mapping):
        raise InvalidUsageError(
            f"extra is {shorten_repr(counts)}; it maps names of token categories to "
            "counts"
        )

    kept: dict[str, int] = {}
    for given, count in counts.items():
        name = check_text(given, "a category of extra", InvalidUsageError)
        _check_count(f"extra[{shorten_repr(name)}]", count)
        # Usages are equal whether a provider reports a zero or leaves it out.
        if count:
            kept[name] = count

    return (
        counts
        if counts.__class__ is SortedJsonMap and counts == kept
        else make_map(kept)
    )


@final
@attrs.frozen(eq=False, repr=False)
class Usage(_Counts):
    """
    Tokens as the provider reported them.

    Usages add field by field and form a commutative monoid: `sum(many,
    Usage())` is their total. `a | b` takes the larger of each count, which is
    how streams that report running totals combine.

    Attributes:
        prompt_tokens: Tokens the model read, cached ones included.
        completion_tokens: Tokens the model wrote, reasoning included.
        total_tokens: What the provider calls the total. None means prompt and
            completion together, and is replaced by their sum. In ``a | b``
            it is the larger one, and no less than that sum unless both are.
        prompt_tokens_details: What the prompt's tokens were.
        completion_tokens_details: What the completion's tokens were.
        extra: Counts that have no field here, by category; none that are 0.

    Raises:
        InvalidUsageError: If a count is negative, not an integer, or over 2**63 - 1,
            here or in a sum.

    Source:
        The names are OpenAI's. Its total is not always prompt plus completion,
        so totals are added on their own and never recomputed.

    ``repr`` and ``str`` leave out what is zero, and a total that is the sum.

    >>> both = Usage(10, 5) + Usage(1, extra={"cache_write_tokens": 7})
    >>> both
    Usage(11, 5, extra={'cache_write_tokens': 7})
    >>> both.total_tokens
    16
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = attrs.field(default=None, converter=_as_given)
    prompt_tokens_details: PromptTokensDetails = _NO_PROMPT
    completion_tokens_details: CompletionTokensDetails = _NO_COMPLETION
    extra: Mapping[str, int] = attrs.field(default=EMPTY_MAP, converter=_check_extra)

    def __attrs_post_init__(self) -> None:
        _check_count("prompt_tokens", self.prompt_tokens)
        _check_count("completion_tokens", self.completion_tokens)
        if self.total_tokens is None:
            both = self.prompt_tokens + self.completion_tokens
            object.__setattr__(self, "total_tokens", both)

        _check_count("total_tokens", self.total_tokens)
        for name, kind in (
            ("prompt_tokens_details", PromptTokensDetails),
            ("completion_tokens_details", CompletionTokensDetails),
        ):
            given = getattr(self, name)
            if not isinstance(given, kind):
                raise InvalidUsageError(
                    f"{name} is {shorten_repr(given)}; expected a {kind.__name__}"
                )

    def __repr__(self) -> str:
        # The repr is the code that makes the value, without zeros and without a total
        # that is the sum.
        prompt, completion = self.prompt_tokens, self.completion_tokens
        shown = [str(prompt)] if prompt else []
        if completion:
            shown.append(f"{'' if prompt else 'completion_tokens='}{completion}")

        if self.total_tokens != prompt + completion:
            shown.append(f"total_tokens={self.total_tokens}")

        if self.prompt_tokens_details != _NO_PROMPT:
            shown.append(f"prompt_tokens_details={self.prompt_tokens_details!r}")

        if self.completion_tokens_details != _NO_COMPLETION:
            shown.append(
                f"completion_tokens_details={self.completion_tokens_details!r}"
            )

        if self.extra:
            shown.append(f"extra={dict(self.extra)!r}")

        return f"Usage({', '.join(shown)})"

    def __or__(self, other: Self) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride] - final
        if type(other) is not type(self):
            return NotImplemented

        # The larger total alone is too small where one has the prompt and the other the
        # completion, as events of a stream have them.
        joined = super().__or__(other)
        total = union_total((self, other))
        if total == joined.total_tokens:
            return joined

        return attrs.evolve(joined, total_tokens=total)

    def minus(self, other: Self) -> Self:
        """
        What is left of this usage without *other*, which must be a part of it.

        Raises:
            InvalidUsageError: If *other* is larger in any count.
        """
        if not isinstance(other, Usage):
            raise TypeError(f"minus takes a Usage, got {describe_value(other)}")

        return self._combine_with(other, operator.sub)


_set_names(Usage)
add_missing_names(
    Usage,
    "a Usage has",
    {
        **dict.fromkeys(("input_tokens", "input", "prompt"), "prompt_tokens"),
        **dict.fromkeys(("output_tokens", "output", "completion"), "completion_tokens"),
        "total": "total_tokens",
    },
)


def union_total(usages: Sequence[Usage]) -> int:
    """
    The total of ``a | b | …``: what `Usage.total_tokens` says of a union.

    The larger total, and no less than the larger prompt and completion
    together, unless each side's own total is less than that. So a union is
    associative and idempotent, and a total that no provider reported stays
    the sum of prompt and completion.
    """
    total = max([usage.total_tokens for usage in usages])
    prompt = max([usage.prompt_tokens for usage in usages])
    completion = max([usage.completion_tokens for usage in usages])
    if total >= prompt + completion or all(map(_total_is_short_or_missing, usages)):
        return total

    return prompt + completion


def _total_is_short_or_missing(usage: Usage) -> bool:
    total = usage.total_tokens
    return not total or total < usage.prompt_tokens + usage.completion_tokens
