"""
The command ``python -m conversation_state.testing``: contracts checked from a shell.
"""

from __future__ import annotations

import argparse
import inspect
import io
import pkgutil
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any, get_type_hints

from hypothesis import settings as Settings  # noqa: N812 - a class

from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator
from conversation_state.messages import Message
from conversation_state.store import Store
from conversation_state.testing.contracts import (
    AdapterContract,
    BrokenLawsError,
    Contract,
    CounterContract,
    LawResult,
    ReducerContract,
    SessionContract,
    SummariserContract,
    TrimmingStepContract,
    run_laws,
)
from conversation_state.trimming import TrimContext

# The contract of each kind. Backends have another one, which needs pytest.
_KINDS: dict[str, type[Contract]] = {
    "adapter": AdapterContract,
    "counter": CounterContract,
    "reducer": ReducerContract,
    "session": SessionContract,
    "step": TrimmingStepContract,
    "summariser": SummariserContract,
}
_NAMES = ("backend", *_KINDS)


class UsageError(Exception):
    """The arguments name nothing that can be checked."""


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the command; 0 if all laws hold, 1 if one is broken.

    Exits with 2 if the arguments are wrong: an unknown law, a name that can't be
    imported, or an object of unknown kind. The output is the report; what is printed
    by what is checked goes where errors go.
    """
    parser = _make_parser()
    options = parser.parse_args(arguments)
    try:
        # Around the import as well: a module may print when it is imported.
        with redirect_stdout(sys.stderr):
            subject = _import_subject(options.target)
            kind = options.kind or _guess_kind(subject, options.target)
            results = _run_contract(kind, subject, options)
    except UsageError as error:
        parser.error(str(error))

    if isinstance(sys.stdout, io.TextIOWrapper):
        # Examples have characters of all kinds, which a pipe on Windows may lack.
        sys.stdout.reconfigure(errors="backslashreplace")

    sys.stdout.write(_format_report(options.target, kind, results))
    return int(any(each.is_broken for each in results))


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m conversation_state.testing",
        description="Hold an object to the laws of its kind, and print a table.",
        epilog="Exits with 0 if all laws hold, 1 if one is broken, 2 if it can't be "
        "checked. The same examples are used in every run.",
    )
    add = parser.add_argument
    add("target", metavar="MODULE[:NAME]", help="what to check: my_package:make_store")
    add(
        "--kind",
        choices=_NAMES,
        help="what it is; without this, its type hints and methods decide",
    )
    for option, which in (
        ("--without", "does not hold and need not"),
        ("--also", "is only checked on request"),
    ):
        text = f"a law that {which}; may be repeated"
        add(option, metavar="LAW", action="append", default=[], help=text)

    text = "how many examples to draw for each law, beside the named ones (100)"
    add("--examples", metavar="N", type=_read_number, default=100, help=text)
    return parser


def _read_number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number, 1 or more, got {text!r}")

    return int(text)


def _import_subject(target: str) -> Any:
    # Without a colon, a module that fails to import another one would be looked for as
    # an attribute of its package, and the error would not say what is missing.
    name = target if ":" in target else f"{target}:"
    try:
        return pkgutil.resolve_name(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - reported
        raise UsageError(
            f"can't import {target!r}: {type(error).__name__}: {error}"
        ) from None


def _guess_kind(subject: Any, target: str) -> str:
    """
    The kind of *subject*: by its methods, or the type hints of what it takes and
    returns.
    """
    is_class = inspect.isclass(subject)
    takes, returns = (None, subject) if is_class else _read_hints(subject)

    def is_a(hint: Any, cls: type) -> bool:
        return inspect.isclass(hint) and issubclass(hint, cls)

    # The hints are compared as text: a summary may be a str, a message or an awaitable
    # of either, and these types have no common base class.
    is_summary = "str" in str(returns) or "Message" in str(returns)
    guesses = {
        # A class is a function that makes instances; only the instances can load.
        "adapter": not is_class and _has_methods(subject, "dump", "load"),
        "backend": is_a(returns, Store) or _has_methods(returns, "reading", "writing"),
        "session": _has_methods(returns, "get_items", "add_items", "pop_item"),
        "reducer": is_a(returns, Aggregator),
        "step": is_a(returns, TrimContext),
        "counter": returns is int and is_a(takes, Message),
        "summariser": "Message" in str(takes) and is_summary,
    }
    for kind, is_of_kind in guesses.items():
        if is_of_kind:
            return kind

    raise UsageError(
        f"{target} is of unknown kind: {shorten_repr(subject)}; name it with --kind, "
        f"one of {', '.join(_NAMES)}, or give the function type hints"
    )


def _has_methods(subject: Any, *methods: str) -> bool:
    return all(callable(getattr(subject, each, None)) for each in methods)


def _read_hints(subject: Any) -> tuple[Any, Any]:
    """
    The type hints of the first argument and of the result; None for a missing one.
    """
    function = subject
    if not inspect.isroutine(subject):
        function = getattr(type(subject), "__call__", subject)  # noqa: B004 - its hints

    try:
        hints = get_type_hints(function)
    except Exception:  # noqa: BLE001 - any of an annotation: an unknown kind
        return None, None

    returns = hints.pop("return", None)
    return next(iter(hints.values()), None), returns


def _run_contract(
    kind: str, subject: Any, options: argparse.Namespace
) -> Sequence[LawResult]:
    if kind != "adapter" and not callable(subject):
        raise UsageError(
            f"expected a function for the kind {kind}, got {shorten_repr(subject)}"
        )

    try:
        if kind == "backend":
            return _run_backend(subject, options)

        contract = _KINDS[kind]()
        setattr(contract, contract.subject, subject)
        contract.without, contract.also = options.without, options.also
        # Without a database, and with the same random numbers, two runs print the same
        # table, and nothing is written to the current folder.
        settings = Settings(
            max_examples=options.examples, database=None, derandomize=True
        )
        return run_laws(contract, settings)
    except ValueError as error:
        # An unknown name of a law. Errors that the subject raises are results, and are
        # not raised here.
        raise UsageError(str(error)) from None


def _run_backend(subject: Any, options: argparse.Namespace) -> Sequence[LawResult]:
    try:
        # Its module imports pytest, which the other kinds do without.
        from conversation_state.testing.contracts import run_promises  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the contract of backends needs pytest: {error}; pip install pytest"
        ) from None

    if options.also:
        raise UsageError(
            f"also: unknown law {options.also[0]!r}; backends have none on request"
        )

    return list(run_promises(subject, without=options.without))


def _format_report(target: str, kind: str, results: Sequence[LawResult]) -> str:
    width = max([len("law"), *[len(each.law) for each in results]])
    lines = [f"{kind} {target}", "", f"{'law':{width}}  examples  result"]
    lines += [
        f"{each.law:{width}}  {each.examples or '-':>8}  {each.result}"
        for each in results
    ]
    broken = [each for each in results if each.is_broken]
    if broken:
        lines += ["", str(BrokenLawsError(target, f"{kind}s", tuple(results)))]

    held = sum(not each.is_broken and each.examples > 0 for each in results)
    return "\n".join([*lines, "", f"{held} hold, {len(broken)} broken", ""])
