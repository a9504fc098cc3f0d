"""Laws, peers, and the examples that show whether a peer keeps a law."""

from __future__ import annotations

import asyncio
import gc
import importlib
import inspect
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

# What is promised here, and the page of the documentation that shows it.
LAWS = {
    "arguments do not change": "design.md",
    "what is kept does not change": "design.md",
    "a view does not change the conversation": "trimming.md",
    "a view has no call without its result, no result without its call": "trimming.md",
    "a view is found where one fits": "trimming.md",
    "a view stays within the budget": "trimming.md",
    "merging is associative": "streams.md",
    "a fact that a stream repeats is one fact": "streams.md",
    "running totals are not added": "trimming.md",
    "usage recorded twice counts once": "trimming.md",
    "recorded usage is not lost": "trimming.md",
    "a fork is billed once": "trimming.md",
    "going back keeps the bill": "trimming.md",
    "what was undone can be redone": "timeline.md",
    "a checkpoint costs what is new": "store.md",
    "a save of an old state is refused": "store.md",
    "what a format can't represent is listed": "providers.md",
}

# One module of this package for each.
PEERS = (
    "langgraph",
    "langchain",
    "agents",
    "pydantic_ai",
    "litellm",
    "burr",
    "adk",
    "strands",
)

MAX_LINES = 10

# The lines of an example: a function, or a coroutine function.
Function: TypeAlias = Callable[[], Any]


@dataclass(frozen=True)
class Peer:
    """
    Another library: its name, its distribution, and its page in the documentation.
    """

    name: str
    distribution: str
    page: str

    @property
    def version(self) -> str | None:
        """The installed version, or None."""
        try:
            return version(self.distribution)
        except PackageNotFoundError:
            return None


class ChangedPeerError(AssertionError):
    """A peer no longer does what an example of it shows."""


@dataclass(frozen=True)
class Example:
    """A few lines that show that a peer breaks a law, or keeps it."""

    peer: Peer
    law: str
    kept: bool
    function: Function

    @property
    def sentence(self) -> str:
        """What happens, for a reader."""
        return " ".join((self.function.__doc__ or "").split())

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines to run, without the decorator and the docstring."""
        source = textwrap.dedent(inspect.getsource(self.function))
        body = source.split('"""', 2)[2].strip("\n")
        return tuple(textwrap.dedent(body).splitlines())

    def run(self) -> None:
        """
        Run the lines, in a folder of their own.

        Raises:
            ChangedPeerError: The result is another one than they show, or they no
                longer run.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with TemporaryDirectory() as folder, chdir(folder):
                    result = self.function()
                    if inspect.iscoroutine(result):
                        asyncio.run(result)

                # Files that a peer left open are a warning when they are collected.
                gc.collect(1)
            except Exception as error:
                raise ChangedPeerError(self._explain_change(error)) from error

    def _explain_change(self, error: Exception) -> str:
        name = f"{self.peer.name} {self.peer.version}"
        if not isinstance(error, AssertionError):
            what = f"the example of {self.law!r} does not run with {name}: {error!r}"
        elif self.kept:
            what = f"{name} no longer keeps the law {self.law!r}"
        else:
            what = f"{name} no longer breaks the law {self.law!r} as it did"

        function = self.function
        return (
            f"{what} ({function.__module__}.{function.__name__}). Assert there what "
            f"is true now, under `kept` or `broken`, run `make peers`, which writes "
            f"docs/peers.md, and correct docs/{self.peer.page} where it says otherwise."
        )

    def row(self) -> dict[str, Any]:
        """The example as plain JSON."""
        return {
            "peer": self.peer.name,
            "version": self.peer.version,
            "law": self.law,
            "kept": self.kept,
            "sentence": self.sentence,
            "module": self.function.__module__,
            "page": self.peer.page,
        }


class Examples:
    """The examples of one peer, in the order in which they are written."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.all: list[Example] = []

    def broken(self, law: str) -> Callable[[Function], Function]:
        """A decorator of the lines that show that the peer breaks *law*."""
        return self._make_decorator(law, kept=False)

    def kept(self, law: str) -> Callable[[Function], Function]:
        """A decorator of the lines that show that the peer keeps *law*."""
        return self._make_decorator(law, kept=True)

    def _make_decorator(
        self, law: str, *, kept: bool
    ) -> Callable[[Function], Function]:
        def add(function: Function) -> Function:
            self.all.append(Example(self.peer, law, kept, function))
            return function

        return add


def examples_of(name: str) -> Examples:
    """The examples of a peer, which need not be installed."""
    examples: Examples = importlib.import_module(f"peers.{name}").EXAMPLES
    return examples


def all_examples() -> Iterator[Example]:
    """The examples of all peers."""
    for name in PEERS:
        yield from examples_of(name).all
