"""
What every check tries, whatever it draws: the named shapes of its examples, each once;
and what it drives its examples to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import attrs
from hypothesis import HealthCheck, Phase, find, given
from hypothesis import settings as Settings  # noqa: N812 - a class
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.strategies import SearchStrategy

from conversation_state.aggregator import Aggregator
from conversation_state.messages import Message
from conversation_state.trimming import TrimContext

T = TypeVar("T")

# Messages, or the acts of a script.
Items: TypeAlias = tuple[Any, ...]


@attrs.frozen
class NamedExample(Generic[T]):
    """An example that is made of a named shape: what it is made of, and how."""

    items: Items
    build: Callable[[Items], T]

    @classmethod
    def of(cls, value: T) -> NamedExample[T]:
        """One that is as it is, and gets no smaller."""
        return cls((), lambda _items: value)


_Lister: TypeAlias = Callable[[], Iterable[NamedExample[Any]]]
# Named examples of strategies.
_COVERED: WeakKeyDictionary[SearchStrategy[Any], _Lister] = WeakKeyDictionary()
# More messages show nothing that these do not.
_LONG = 100
_MAX_TRIES = 300  # smaller examples
_ONCE = Settings(
    max_examples=1,
    database=None,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType]
)
# Without the phase that explains which parts of an example matter: nobody reads it.
_SMALLEST = Settings(_ONCE, max_examples=50, phases=[Phase.generate, Phase.shrink])


def cover(
    strategy: SearchStrategy[T], list_shapes: Callable[[], Iterable[NamedExample[T]]]
) -> SearchStrategy[T]:
    """*strategy*, after each of *list_shapes*, in that order, was tried."""
    _COVERED[strategy] = list_shapes
    return strategy


def cover_values(
    values: Sequence[T], others: SearchStrategy[T] | None = None
) -> SearchStrategy[T]:
    """Any of *values*, each of which every check tries, or of *others*."""
    drawn = st.sampled_from(values)
    shapes = partial(map, NamedExample.of, values)
    return cover(drawn if others is None else drawn | others, shapes)


def try_shapes(
    examples: Mapping[str, SearchStrategy[Any]], hold: Callable[..., None]
) -> None:
    """
    Call *hold* with each of the named shapes of *examples*, and raise what it raises
    for the first that breaks the law, made as small as it gets.
    """
    __tracebackhide__ = True
    covered = {
        name: list(_COVERED[each]()) if each in _COVERED else []
        for name, each in examples.items()
    }
    size = max(len(each) for each in covered.values())
    if not size:
        return

    for name, strategy in examples.items():
        if not covered[name]:
            # The smallest example of what has no shapes.
            smallest = find(strategy, lambda _: True, settings=_SMALLEST)
            covered[name] = [NamedExample.of(smallest)]

    errors: list[BaseException] = []

    # Inside of a test, where laws of users may call assume() and note(). Hypothesis
    # reads the source of each test, so it is short.
    @_ONCE
    @given(st.none())
    def try_all(_nothing: None) -> None:
        errors.extend(_find_smallest(covered, size, hold))

    try_all()
    for error in errors:
        raise error


def _find_smallest(
    covered: Mapping[str, list[NamedExample[Any]]], size: int, hold: Callable[..., None]
) -> Iterator[BaseException]:
    """What the first shape raises that breaks the law, of the smallest example."""
    for at in range(size):
        # Two arguments of one kind get two shapes.
        chosen = {
            name: each[(at + number) % len(each)]
            for number, (name, each) in enumerate(covered.items())
        }
        error = _find_error(chosen, hold)
        if error is not None:
            chosen, error = _shrink_example(chosen, error, hold)
            if _find_error(chosen, hold) is None:
                error.add_note("not each time that it is tried")

            yield error
            return


def _find_error(
    chosen: Mapping[str, NamedExample[Any]], hold: Callable[..., None]
) -> BaseException | None:
    __tracebackhide__ = True
    try:
        drawn = {name: each.build(each.items) for name, each in chosen.items()}
        hold(**drawn)
    except UnsatisfiedAssumption:
        return None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - raised by the caller
        return error

    return None


def _shrink_example(
    chosen: dict[str, NamedExample[Any]],
    error: BaseException,
    hold: Callable[..., None],
) -> tuple[dict[str, NamedExample[Any]], BaseException]:
    """The smallest example found that raises what *chosen* raises, and its error."""
    tries = iter(range(_MAX_TRIES))
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for name, example in chosen.items():
            for smaller in _list_smaller(example.items):
                if next(tries, None) is None:
                    return chosen, error

                candidate = {**chosen, name: attrs.evolve(example, items=smaller)}
                found = _find_error(candidate, hold)
                if type(found) is type(error):
                    chosen, error, is_smaller = candidate, found, True  # pyright: ignore[reportAssignmentType]
                    break

            if is_smaller:
                break

    return chosen, error


def _list_smaller(items: Items) -> Iterator[Items]:
    for at in range(len(items)):
        yield items[:at] + items[at + 1 :]

    for at, item in enumerate(items):
        if isinstance(item, Message):
            for simpler in _list_simpler(item):
                yield (*items[:at], simpler, *items[at + 1 :])


def _list_simpler(message: Message) -> Iterator[Message]:
    """*message* with less in it, each time one thing less."""
    calls = message.tool_calls
    changes: list[dict[str, Any]] = [
        {"tool_calls": calls[:at] + calls[at + 1 :]} for at in range(len(calls))
    ]
    parts = getattr(message, "parts", ())
    if not isinstance(getattr(message, "content", ""), str):
        changes += [
            {"content": parts[:at] + parts[at + 1 :]} for at in range(len(parts))
        ]
    elif getattr(message, "content", ""):
        text: Any = message
        changes += [{"content": ""}, {"content": text.content[:1]}]

    for name, empty in _EMPTY.items():
        if getattr(message, name, empty) != empty:
            changes.append({name: empty})

    for change in islice(changes, 20):
        try:
            yield message.replace(**change)
        except (TypeError, ValueError):
            # A field that this kind of message does not have.
            continue


_EMPTY: dict[str, Any] = {
    "response": None,
    "metadata": {},
    "unknown": {},
    "name": "",
    "timestamp": None,
    "tool_name": "",
    "is_error": False,
}


def measure(drawn: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """What search should make larger in *drawn*, each under a label."""
    for name, value in drawn.items():
        if isinstance(value, (Aggregator, list, tuple)):
            yield f"messages of {name}", float(min(len(value), _LONG))
        elif isinstance(value, TrimContext):
            yield f"messages of {name}", float(min(len(value), _LONG))
            if value.budget is not None:
                over = value.total_tokens - value.budget.effective_input_limit
                yield f"tokens of {name} over the budget", float(over)
