"""How strategies are made of others."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K")
Fields: TypeAlias = dict[str, Any]


def once(make: Callable[P, T]) -> Callable[P, T]:
    """*make*, called once for the same arguments: its strategies are large."""
    kept: Any = cache(make)

    @wraps(make)
    def once(*args: P.args, **options: P.kwargs) -> T:
        strategy: T = kept(*args, **options)
        return strategy

    return once


@cache
def sample(options: tuple[Any, ...]) -> SearchStrategy[Any]:
    """One of *options*, by the same strategy for the same ones: to make one is slow."""
    return st.sampled_from(options)


def draw_evenly(*strategies: SearchStrategy[T]) -> SearchStrategy[T]:
    """
    Each of *strategies* as often as it is given, shrinking to the first: one_of() would
    draw two that are the same once.
    """
    return st.sampled_from(strategies).flatmap(lambda chosen: chosen)


def rarely(usual: SearchStrategy[T], rare: SearchStrategy[T]) -> SearchStrategy[T]:
    """*rare* about every fourth time, shrinking to *usual*."""
    return draw_evenly(usual, usual, usual, rare)


def optional(**fields: SearchStrategy[Any]) -> SearchStrategy[Fields]:
    """Arguments by name, any of which may be left out; nothing most of the time."""
    # Otherwise each message would have metadata, and examples be long and slow.
    return rarely(st.just({}), st.fixed_dictionaries({}, optional=fields))


def few(elements: SearchStrategy[T], **options: Any) -> SearchStrategy[list[T]]:
    """Lists of up to three *elements*; *options* are those of ``st.lists``."""
    return st.lists(elements, max_size=3, **options)


def few_fields(
    names: SearchStrategy[K], values: SearchStrategy[T]
) -> SearchStrategy[dict[K, T]]:
    """Up to three *values*, each under one of the *names*."""
    return st.dictionaries(names, values, max_size=3)


def build_class(
    kind: Callable[..., T], *fields: SearchStrategy[Fields], **own: SearchStrategy[Any]
) -> SearchStrategy[T]:
    """What *kind* makes of all *fields* and its *own*."""
    sources = (st.fixed_dictionaries(own), *fields)

    # Not `st.builds`: its repr has those of all sources, which fill pages.
    @st.composite
    def build(draw: DrawFn) -> T:
        drawn = [draw(source) for source in sources]
        return kind(**{name: some[name] for some in drawn for name in some})

    return build()
