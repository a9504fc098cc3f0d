"""
Which imports between modules are allowed, where import-linter has no rule for it.

Plain functions of dotted names, so that the tests need no import-linter. The
contracts that `make lint` runs are in `tools.import_contracts`.
"""

import sys
from collections.abc import Collection, Mapping


def is_inside(module: str, package: str) -> bool:
    """Whether *module* is *package* or one of its descendants."""
    return f"{module}.".startswith(f"{package}.")


def private_owner(module: str) -> str | None:
    """
    The package that *module* is private to; None for a public module.

    `a.b._c.d` is private to `a.b`: every module below `a.b` may import it.
    A module that is in no package, `_thread` say, is public.
    """
    steps = module.split(".")
    for position, step in enumerate(steps):
        if position and step.startswith("_") and not step.startswith("__"):
            return ".".join(steps[:position])

    return None


def private_error(importer: str, imported: str) -> str:
    """Why *importer* can't import *imported*, if it is private elsewhere; else ""."""
    owner = private_owner(imported)
    if owner is None or is_inside(importer, owner):
        return ""

    return (
        f"{importer} imports {imported}, which is private to {owner}: "
        f"make what it needs public there"
    )


def sibling_error(
    importer: str, imported: str, parent: str, shared: Collection[str] = ()
) -> str:
    """
    Why *importer* can't import *imported*, if that is a public child of *parent*
    that is not *shared* and *importer* is another part of *parent*; else "".
    """
    if not is_inside(imported, parent) or imported == parent:
        return ""

    child = imported.removeprefix(f"{parent}.").partition(".")[0]
    if (
        child.startswith("_")
        or child in shared
        or not is_inside(importer, parent)
        or is_inside(importer, f"{parent}.{child}")
    ):
        return ""

    return (
        f"{importer} imports {imported}: the public modules of {parent} are "
        f"independent; move what both need into a module that they share"
    )


def third_party_error(
    importer: str, imported: str, importers: Mapping[str, Collection[str]], package: str
) -> str:
    """
    Why *importer* can't import the third party *imported*; else "".

    *importers* maps a third party to the modules of *package* that may import
    it, with their descendants; "*" is every module. Unless *importers* has it,
    the standard library may be imported anywhere, and nothing else anywhere.
    """
    party = imported.partition(".")[0]
    allowed = importers.get(party)
    if allowed is None:
        if party in sys.stdlib_module_names:
            return ""
        return f"{importer} imports {party}, which the table of third parties lacks"
    if "*" in allowed:
        return ""
    if any(is_inside(importer, f"{package}.{each}") for each in allowed):
        return ""

    return f"{importer} imports {party}, which only {', '.join(allowed)} may import"
