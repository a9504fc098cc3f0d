"""
Contracts: laws about a user's function or class, and running them.

A contract is a class whose laws are methods. pytest runs them as tests of a subclass;
`run_laws` runs them one after the other, as a call.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import re
from collections.abc import Callable, Collection, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import SimpleNamespace
from typing import Any, ClassVar, TypeVar
from unittest import SkipTest

import attrs
from hypothesis import HealthCheck, Phase, Verbosity, given, target
from hypothesis import settings as Settings  # noqa: N812 - a class
from hypothesis.errors import Flaky, HypothesisException
from hypothesis.strategies import SearchStrategy

from conversation_state._wording import shorten_repr
from conversation_state.testing._code import format_example
from conversation_state.testing._comparison import assert_same
from conversation_state.testing._current import checking
from conversation_state.testing.contracts._coverage import measure, try_shapes
from conversation_state.testing.contracts._results import (
    BROKEN,
    DECLARED,
    HOLDS,
    NOT_RUN,
    LawResult,
    describe_subject,
    find_definition,
    find_line,
    raise_broken,
)

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

# Examples are large, drawing them is slow for a small function, and a user may
# check what a test of their own has drawn.
_HEALTH_CHECKS = (
    HealthCheck.data_too_large,
    HealthCheck.nested_given,
    HealthCheck.too_slow,
)

# How many examples are tried again after all others.
_FIRST_EXAMPLES = 8


@attrs.frozen
class Law:
    """
    One law of a contract: a method that raises if the examples it is given break it.
    """

    name: str
    check: Callable[..., Any]
    # A strategy for each argument, or the name of the contract's attribute that has it.
    examples: dict[str, SearchStrategy[Any] | str]
    is_extra: bool = False
    needs: str = ""  # the attribute of the contract without which there is no such law

    def make_test(self) -> Callable[[Any], None]:
        """The method as a test for pytest."""

        def test(contract: Contract) -> None:
            __tracebackhide__ = True
            if not contract._is_checked(self):
                raise SkipTest(f"{self.name}: {DECLARED}")

            self.run(contract, Settings(), _note_example, count())

        test.__name__ = test.__qualname__ = self.check.__name__
        test.__doc__, test.__module__ = self.check.__doc__, self.check.__module__
        marked: Any = test
        marked.law = self
        if self.examples:
            # For pytest it is what Hypothesis' own tests are: with statistics, the
            # marker, and the options of the command line.
            marked.is_hypothesis_test = True
            marked.hypothesis = SimpleNamespace(inner_test=self.check)

        return test

    def run(
        self,
        contract: Any,
        settings: Settings,
        on_error: Callable[[BaseException, dict[str, Any]], None],
        tried: Iterator[int],
    ) -> None:
        """
        Hold it against the named shapes of its examples, each once, and against as many
        drawn ones as *settings* say, and count them all in *tried*.

        *on_error* is called with every example that breaks it, the smallest one last.
        An interrupt ends the search, with a note of the example that it met: that of a
        function which does not return.
        """
        __tracebackhide__ = True

        def hold(**drawn: Any) -> None:
            __tracebackhide__ = True
            next(tried)
            if drawn:
                # Hypothesis gives all examples the same random numbers: a function
                # that guesses would guess alike for all of them, and pass.
                random.seed(repr(drawn))

            try:
                result = self.check(contract, **drawn)
                if inspect.iscoroutine(result):
                    run_coroutine(result)
            except HypothesisException:
                # assume() and filters raise these to reject an example.
                raise
            except (Exception, SystemExit) as error:
                on_error(error, drawn)
                raise
            except KeyboardInterrupt as error:
                error.add_note(f"While checking: {self.name}")
                _note_example(error, drawn)
                raise

        if not self.examples:
            hold()
            return

        # Given as a name if a subclass may define its own examples.
        examples = {
            name: getattr(contract, found) if isinstance(found, str) else found
            for name, found in self.examples.items()
        }
        try_shapes(examples, hold)
        with checking(self.name):
            self._search_examples(contract, settings, examples, hold)

    def _search_examples(
        self,
        contract: Any,
        settings: Settings,
        examples: dict[str, SearchStrategy[Any]],
        hold: Callable[..., None],
    ) -> None:
        """Hold it against examples that are drawn."""
        __tracebackhide__ = True

        def search(**drawn: Any) -> None:
            __tracebackhide__ = True
            # What random search seldom reaches: long conversations, and views that are
            # far over their budgets.
            for label, size in measure(drawn):
                target(size, label=label)

            hold(**drawn)

        name_test(search, f"{self.check.__name__} of {contract._describe_subject()}")
        adapted = Settings(
            settings,
            deadline=None,  # what is checked may be slow, or slow the first time
            print_blob=False,  # there is no test of the user's to put it on
            report_multiple_bugs=False,
            suppress_health_check={*settings.suppress_health_check, *_HEALTH_CHECKS},
            # Its explanations are about lines of this kit, not of the user's code.
            phases=[each for each in settings.phases if each is not Phase.explain],
        )
        adapted(given(**examples)(search))()


def name_test(test: Any, name: str) -> None:
    """Give what `given` gets a *name*, under which Hypothesis keeps examples."""
    # They are stored under the source and the signature of the function. All laws share
    # one source; what is checked has its own examples, which stay when another function
    # is checked.
    kind = inspect.Parameter.VAR_KEYWORD
    drawn = inspect.Parameter("drawn", kind, annotation=name)
    test.__signature__ = inspect.Signature([drawn])
    # Hypothesis wants an identifier.
    test.__name__ = test.__qualname__ = re.sub(r"\W", "_", name)


def read_promise(test: Callable[..., Any]) -> str:
    """The first paragraph of a docstring, in one line."""
    text = inspect.getdoc(test) or ""
    return " ".join(text.split("\n\n")[0].split())


def _note_example(error: BaseException, drawn: dict[str, Any]) -> None:
    if drawn:
        error.add_note(f"With:\n\n{format_example(drawn)}\n")


def law(
    *, is_extra: bool = False, needs: str = "", **examples: Any
) -> Callable[[F], F]:
    """
    A decorator for the methods of a `Contract` that are laws.

    The method is called with an example of each of *examples*, strategies or names of
    attributes of the contract which are strategies; it may be async.

    Args:
        is_extra: It is only checked if *also* has its name.
        needs: The name of an attribute of the contract: the law is only checked if that
            is not None.
        **examples: What the arguments of the method are drawn from.
    """

    def mark(method: F) -> F:
        name = method.__name__.removeprefix("test_").replace("_", " ")
        marked: Any = method
        marked.law = Law(name, method, examples, is_extra, needs)
        return method

    return mark


class Contract:
    """
    Laws of one kind of thing, to be subclassed for a thing of that kind.

    Attributes:
        without: The names of laws that do not hold and need not.
        also: The names of further laws that hold: those which are not checked
            otherwise.
    """

    without: Collection[str] = ()
    also: Collection[str] = ()
    laws: ClassVar[dict[str, Law]] = {}
    # The kind of thing that the contract is about, in the plural; the attribute that
    # has such a thing, and what that should be.
    kind: ClassVar[str] = ""
    subject: ClassVar[str] = ""
    expected: ClassVar[str] = ""
    # Makes another subject that has seen nothing; None if the subject keeps nothing.
    fresh: Callable[[], Any] | None = None
    # The first examples of all laws, and the results for them.
    _first: tuple[tuple[Any, Any], ...] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.laws = {}
        # Laws of a base class come first, because the laws of a subclass may depend on
        # them. They are read from the class, because a subclass may override a law.
        for base in reversed(cls.__mro__):
            for name in vars(base):
                found = getattr(getattr(cls, name, None), "law", None)
                if isinstance(found, Law):
                    cls.laws[found.name] = found
                    setattr(cls, name, found.make_test())

    def _describe_subject(self) -> str:
        """
        Where what is checked is defined, by names that stay the same in the next run.
        """
        subject = getattr(self, self.subject, None) if self.subject else None
        cls = type(self)
        if cls.__module__.startswith(f"{__package__}."):
            return f"{cls.__name__} {describe_subject(subject)}"

        return f"{cls.__module__}.{cls.__qualname__}"

    def _is_checked(self, wanted: Law) -> bool:
        self._check_names()
        if wanted.needs and getattr(self, wanted.needs) is None:
            return False

        names = self.also if wanted.is_extra else self.without
        return (wanted.name in names) is wanted.is_extra

    def _check_names(self) -> None:
        for option, is_extra in (("without", False), ("also", True)):
            laws = [each for each in self.laws.values() if each.is_extra is is_extra]
            check_names(option, getattr(self, option), [each.name for each in laws])

    def _note_first(self, example: Any, result: Any) -> tuple[tuple[Any, Any], ...]:
        """
        The first examples of all laws with different results; *example* is added if
        there are few.

        A function that keeps something from other calls, in a global variable for
        example, may have other results for them later.
        """
        is_new = all(result != known for _, known in self._first)
        if is_new and len(self._first) < _FIRST_EXAMPLES:
            self._first += ((example, result),)

        return self._first

    def _assert_fresh(self, observe: Callable[[Any, Any], Any], example: Any) -> None:
        """*observe* gives the same for a subject that has seen nothing yet."""
        if self.fresh is not None:
            other = type(self)()
            vars(other).update(vars(self))
            setattr(other, self.subject, self.fresh())
            assert_same(
                observe(other, example), observe(self, example), "fresh {}, now {}"
            )

    def _assert_repeatable(self, observe: Callable[[Any], Any], example: Any) -> None:
        """
        *observe* gives the same for *example* again, and for earlier examples the same
        as then, when it has seen others.
        """
        first = observe(example)
        assert_same(first, observe(example), "first {}, then {}")
        for known, result in self._note_first(example, first):
            later = observe(known)
            assert_same((known, result), (known, later), "first {}, later {}")


def check_names(option: str, names: Collection[str], valid: list[str]) -> None:
    """Raise an error unless *names* are among the *valid* ones."""
    if isinstance(names, str):
        raise TypeError(f"{option}: expected a collection of names, got {names!r}")

    for name in names:
        if name not in valid:
            listed = ", ".join(map(repr, valid)) or "none"
            raise ValueError(f"{option}: unknown law {name!r}; valid ones are {listed}")


# Running them


def run_laws(
    contract: Contract, settings: Settings | None = None
) -> tuple[LawResult, ...]:
    """
    What comes of each law of *contract*, in order. If the first one is broken, the
    others are not run.

    Args:
        contract: The contract, with its subject.
        settings: Hypothesis' settings; by default those of the active profile.

    Raises:
        ValueError: If *without* or *also* of the contract names no law of it.
    """
    contract._check_names()
    results: list[LawResult] = []
    for each in contract.laws.values():
        promise = read_promise(each.check)
        if results and results[0].is_broken:
            results.append(LawResult(each.name, promise, NOT_RUN))
        elif contract._is_checked(each):
            results.append(_run_law(each, contract, settings or Settings()))
        elif not each.is_extra and not each.needs:
            results.append(LawResult(each.name, promise, DECLARED))

    return tuple(results)


def _run_law(each: Law, contract: Contract, settings: Settings) -> LawResult:
    failed: list[tuple[BaseException, dict[str, Any]]] = []
    tried = count()

    def note_error(error: BaseException, drawn: dict[str, Any]) -> None:
        # Only the last one is kept, because drawn states can be large.
        failed[:] = [(error, drawn)]

    result = LawResult(each.name, read_promise(each.check), HOLDS)
    try:
        quiet = Settings(settings, verbosity=Verbosity.quiet)
        each.run(contract, quiet, note_error, tried)
    except (Exception, SystemExit) as error:
        # If no example was tried, a strategy of a user's subclass failed, and no law is
        # broken.
        if not failed:
            raise

        # Hypothesis raises Flaky if an example breaks the law only once.
        [(reason, drawn)] = failed
        if isinstance(error, Flaky):
            reason.add_note("not each time that it is tried")

        line = find_line(reason.__traceback__) or find_definition(
            getattr(contract, contract.subject, None)
        )
        # A script, if the example is a series of calls.
        code = getattr(reason, "script", None) or format_example(drawn)
        result = attrs.evolve(result, result=BROKEN, error=reason, code=code, line=line)

    return attrs.evolve(result, examples=next(tried))


def check_contract(
    contract_class: type[Contract],
    subject: object,
    settings: Settings | None,
    **options: Any,
) -> None:
    """
    Hold *subject* to all laws of a contract, with those *options* that are not None.

    Raises:
        TypeError: If *subject* can't be called.
        BrokenLawsError: If a law is broken; from what the first broken one raised.
    """
    __tracebackhide__ = True
    contract = contract_class()
    if not callable(subject) and contract.expected:
        expected = f"{contract.subject}: expected {contract.expected}"
        raise TypeError(f"{expected}, got {shorten_repr(subject)}")

    for name, value in {contract.subject: subject, **options}.items():
        if value is not None:
            setattr(contract, name, value)

    raise_broken(subject, contract.kind, run_laws(contract, settings))


async def wait_for(result: Any) -> Any:
    """*result*, or what it is awaited for: that of a function which may be async."""
    return await result if inspect.isawaitable(result) else result


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function that may be async."""
    result = function(*arguments)
    # Most are not async, and an event loop for each call would be slow.
    return run_coroutine(wait_for(result)) if inspect.isawaitable(result) else result


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of *coroutine*, run in an event loop of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)

    # asyncio.run() fails in a thread with a running loop: in an async test, or in a
    # notebook.
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, coroutine).result()
