"""
Makes the reference of the documentation's site: a page for every public module and
class, in reStructuredText, which Sphinx fills with the docstrings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from inspect import getdoc, isroutine

from conversation_state.adapters import PROVIDERS
from tools.public_names import (
    PACKAGE,
    PublicName,
    list_public_modules,
    list_public_names,
)

__all__ = ["GROUPS", "make_reference", "summarize"]

# The modules of the reference, in the order of its table of contents.
GROUPS: Mapping[str, Sequence[str]] = {
    "Conversations": [
        "",
        "aggregator",
        "messages",
        "parts",
        "documents",
        "tools",
        "usage",
        "errors",
    ],
    "Models": [
        "adapters",
        *(f"adapters.{name}" for name in PROVIDERS),
        "adapters.otel",
        "adapters.transcripts",
        "chunks",
        "streams",
        "counting",
        "requests",
        "trimming",
        "templates",
        "parsing",
    ],
    "Frameworks": [
        *(f"hosts.{name}" for name in ("langchain", "langgraph", "pydantic_ai")),
        "hosts.agents",
        "adapters.langchain",
        "adapters.openai_responses.items",
        "adapters.pydantic_ai",
        "adapters.pydantic_ai.groups",
    ],
    "Branches and history": [
        "parallel",
        "cells",
        "timeline",
        "tree",
        "diffing",
        "diffing.drawing",
        "rendering",
        "pages",
        "pages.server",
    ],
    "Bytes and stores": [
        "codec",
        "pickling",
        "store",
        "store.backend",
        "store.backends",
        "store.backends.memory",
        "store.records",
        "store.schema",
    ],
    "Tests": [
        "testing",
        "testing.strategies",
        "testing.shapes",
        "testing.laws",
        "testing.machines",
        "testing.stores",
        "testing.contracts",
        "testing.provider",
        "testing.pytest_plugin",
    ],
    "The command line": ["cli.main", "cli.replay"],
}

ATTRIBUTE = re.compile(r"^    (\w+): ", re.MULTILINE)


def summarize(doc: str) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(doc.partition("\n\n")[0].split())


def format_heading(text: str, underline: str) -> list[str]:
    """A heading of reStructuredText."""
    return [text, underline * len(text), ""]


def list_members(cls: type) -> list[str]:
    """
    The methods and properties of a class that this package documents: its own and
    those it inherits, without what another package or Python brings, the attributes
    that the docstring of the class describes, and tests, which only pytest calls.
    """
    _, _, attributes = (getdoc(cls) or "").partition("Attributes:\n")
    described = set(ATTRIBUTE.findall(attributes))
    found: dict[str, None] = {}
    for each in reversed(cls.__mro__):
        if not each.__module__.startswith(PACKAGE):
            continue

        for name, value in vars(each).items():
            special = name.startswith("__") and name.endswith("__")
            if name.startswith(("_", "test_")) and not special:
                continue
            inner = getattr(value, "__func__", value)
            if special and not (isroutine(inner) and inner.__doc__):
                continue
            if getdoc(inner) and (isroutine(inner) or isinstance(inner, property)):
                found[name] = None

    return [name for name in found if name not in described | {"__init__"}]


def describe_class(public: PublicName) -> list[str]:
    """The directives that describe a class and its members."""
    members = list_members(public.value)
    plain = [name for name in members if not name.startswith("__")]
    special = [name for name in members if name.startswith("__")]
    lines = [f".. autoclass:: {public.name}"]
    if public.kind == "exception":
        lines.append("   :show-inheritance:")
    if plain:
        lines.append(f"   :members: {', '.join(plain)}")
    if special:
        lines.append(f"   :special-members: {', '.join(special)}")

    return [*lines, ""]


def describe_data(public: PublicName) -> list[str]:
    """The directives that describe a constant or an alias."""
    lines = [f".. py:data:: {public.name}"]
    if isinstance(public.value, str | int):
        lines.append(f"   :value: {public.value!r}")

    return [*lines, "", *(f"   {line}" for line in public.comment.splitlines()), ""]


def make_class_page(public: PublicName) -> str:
    """The page of one class."""
    lines = [
        *format_heading(public.name, "="),
        f".. py:currentmodule:: {public.owner}",
        "",
        *describe_class(public),
    ]
    return "\n".join(lines)


def make_module_page(module: str, names: Sequence[PublicName]) -> str:
    """
    The page of one module: its functions, constants and errors, with links to the
    pages of its classes and to what it exports from elsewhere.
    """
    own = [public for public in names if public.owner == module]
    elsewhere = [public for public in names if public.owner != module]
    lines = [
        *format_heading(module, "="),
        f".. automodule:: {module}",
        "   :no-members:",
        "",
    ]
    if classes := [public for public in own if public.kind == "class"]:
        lines += [*format_heading("Classes", "-"), ".. autosummary::", ""]
        lines += [f"   {public.name}" for public in classes]
        lines += ["", ".. toctree::", "   :hidden:", ""]
        lines += [f"   {public.path}" for public in classes]
        lines.append("")
    if functions := [public for public in own if public.kind == "function"]:
        lines += format_heading("Functions", "-")
        for public in functions:
            lines += [f".. autofunction:: {public.name}", ""]
    if errors := [public for public in own if public.kind == "exception"]:
        lines += format_heading("Errors", "-")
        for public in errors:
            lines += describe_class(public)
    if data := [public for public in own if public.kind == "data"]:
        lines += format_heading("Constants and types", "-")
        for public in data:
            lines += describe_data(public)
    if elsewhere:
        lines += [*format_heading("Also here", "-")]
        lines += [f"- :py:obj:`{public.path}`" for public in elsewhere]
        lines.append("")

    return "\n".join(lines)


def qualify_module(name: str) -> str:
    """The whole name of a module of `GROUPS`."""
    return f"{PACKAGE}.{name}" if name else PACKAGE


def check_groups() -> None:
    """Stop unless every public module is in one group of the reference."""
    grouped = [qualify_module(name) for names in GROUPS.values() for name in names]
    public = list_public_modules()
    if sorted(grouped) != sorted(public):
        differing = sorted(set(grouped) ^ set(public))
        raise SystemExit(
            f"GROUPS in tools/site_reference.py and the public modules: {differing}"
        )


def make_reference_index() -> str:
    """The first page of the reference: every module, and what it is for."""
    lines = format_heading("Reference", "=")
    for title, names in GROUPS.items():
        lines += format_heading(title, "-")
        for name in names:
            module = qualify_module(name)
            purpose = summarize(getdoc(import_module(module)) or "")
            lines.append(f"- :py:mod:`{module}`: {purpose}")
        lines += ["", ".. toctree::", "   :hidden:", ""]
        lines += [f"   {qualify_module(name)}" for name in names]
        lines.append("")

    return "\n".join(lines)


def make_reference() -> Iterator[tuple[str, str]]:
    """The name and the text of every page of the reference."""
    check_groups()
    public = list_public_names()
    yield "index.rst", make_reference_index()
    for module in list_public_modules():
        names = [each for each in public if each.module == module]
        yield f"{module}.rst", make_module_page(module, names)

    for each in public:
        if each.kind == "class" and each.owner == each.module:
            yield f"{each.path}.rst", make_class_page(each)
