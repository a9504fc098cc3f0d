"""
What came of laws: each result, why a law is broken, and the error that lists them.
"""

from __future__ import annotations

import traceback
from functools import partial
from pathlib import Path
from textwrap import indent, wrap
from types import ModuleType, TracebackType
from typing import Any

import attrs

from conversation_state._wording import shorten_repr

HOLDS, BROKEN = "holds", "broken"
DECLARED, NOT_RUN = "declared not to hold", "not run"

_KIT = str(Path(__file__).parent.parent)
_WIDTH = 88


@attrs.frozen
class LawResult:
    """
    What came of one law.

    Attributes:
        law: Its name.
        promise: What it says.
        result: ``holds``, ``broken``, ``declared not to hold``, or ``not run``: the
            last if another law is broken that comes first.
        examples: How many examples it was held against, simpler ones that also break
            it included.
        error: What was raised, if it is broken.
        code: The smallest example that breaks it, as Python code.
        line: Where the user's own code raised the error; where it is defined, if it
            returned something wrong.
    """

    law: str
    promise: str
    result: str
    examples: int = 0
    error: BaseException | None = None
    code: str = ""
    line: str = ""

    @property
    def is_broken(self) -> bool:
        """Whether it is broken."""
        return self.result == BROKEN

    def __str__(self) -> str:
        """Why it is broken, and the example; else its name and result."""
        return self._describe_failure(is_again=False)

    def _describe_failure(self, *, is_again: bool) -> str:
        """The same; in short if its example was shown before."""
        if self.error is None:
            return f"{self.law}: {self.result}"

        what = str(self.error) or "an assertion failed"
        if not isinstance(self.error, AssertionError):
            what = f"{type(self.error).__name__}: {self.error}"

        lines = [what, *getattr(self.error, "__notes__", ())]
        if self.line:
            lines.append(f"at {self.line}")

        if is_again:
            lines = [*what.splitlines()[:1], "with the same"]
        elif self.code:
            lines += ["with", indent(self.code, "  ")]

        promise = wrap(f"{self.law}: {self.promise}", _WIDTH)
        return "\n".join([*promise, indent("\n".join(lines), "  ")])


class BrokenLawsError(AssertionError):
    """
    A user's function or class breaks laws of its contract.

    Attributes:
        subject: What was checked.
        kind: What it was checked as, in the plural: ``reducers``, for example.
        results: What came of each law.
    """

    def __init__(self, subject: str, kind: str, results: tuple[LawResult, ...]) -> None:
        # An exception is unpickled by a call with its `args`, so all facts go there.
        super().__init__(subject, kind, results)
        self.subject, self.kind, self.results = subject, kind, results

    @property
    def broken(self) -> tuple[LawResult, ...]:
        """The laws that are broken."""
        return tuple([each for each in self.results if each.is_broken])

    def __str__(self) -> str:
        number = f"{len(self.broken)} of {len(self.results)}"
        text = f"{self.subject} breaks {number} laws of {self.kind}"
        left = sum(each.result == NOT_RUN for each in self.results)
        if left:
            text += f"; {left} not checked until it is mended"

        shown: set[str] = set()
        for each in self.broken:
            # One example may break several laws.
            described = each._describe_failure(is_again=each.code in shown)
            text += f"\n\n{described}"
            shown |= {each.code} - {""}

        return text


def raise_broken(subject: object, kind: str, results: tuple[LawResult, ...]) -> None:
    """Raise an error if any of *results* is that of a broken law."""
    __tracebackhide__ = True
    for each in results:
        if each.is_broken:
            raise BrokenLawsError(name_subject(subject), kind, results) from each.error


def name_subject(subject: object) -> str:
    """What is checked, as its author calls it."""
    if isinstance(subject, ModuleType):
        return subject.__name__

    name = getattr(subject, "__qualname__", None)
    if name is None and type(subject).__repr__ is object.__repr__:
        # An object with nothing to show but its address.
        name = type(subject).__qualname__

    return str(name or shorten_repr(subject))


def describe_subject(subject: object) -> str:
    """Where *subject* is defined: the same text in each run."""
    function = _find_function(subject)
    if isinstance(function, ModuleType):
        return function.__name__

    named = function if hasattr(function, "__qualname__") else type(function)
    code = getattr(function, "__code__", None)
    # Functions without names of their own, lambdas and inner ones, by their lines.
    line = f":{code.co_firstlineno}" if code and "<" in named.__qualname__ else ""
    return f"{named.__module__}.{named.__qualname__}{line}"


def find_definition(subject: object) -> str:
    """
    Where *subject* is defined: ``agent.py:12, in drop_empty``; "" if it is built in.
    """
    function = _find_function(subject)
    code = getattr(function, "__code__", None)
    if code is None:
        code = getattr(vars(type(function)).get("__call__"), "__code__", None)

    if code is None or code.co_filename.startswith(_KIT):
        return ""

    return f"{Path(code.co_filename).name}:{code.co_firstlineno}, in {code.co_name}"


def _find_function(subject: object) -> Any:
    """The function that a partial, a decorated function or a method calls."""
    while True:
        inner = getattr(subject, "__func__", None) or (
            subject.func if isinstance(subject, partial) else None
        )
        inner = inner or getattr(subject, "__wrapped__", None)
        if inner is None:
            return subject

        subject = inner


def find_line(raised: TracebackType | None) -> str:
    """
    Where the code that was checked raised an error: the innermost line in the file
    that a contract called; "" if the contract itself raised it.
    """
    # The frames after the last one of this kit are the user's, but the innermost ones
    # may belong to a library that the user's code calls.
    frames = traceback.extract_tb(raised)
    while any(each.filename.startswith(_KIT) for each in frames):
        frames.pop(0)

    for each in reversed(frames):
        if each.filename == frames[0].filename:
            return f"{Path(each.filename).name}:{each.lineno}, in {each.name}"

    return ""
