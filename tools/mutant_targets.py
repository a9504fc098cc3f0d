"""
What mutants are planted in, and which tests should notice them.

The modules of the layers table, the tests of each, the sample that a seed takes, and
the checked-in list of mutants that no test can kill.
"""

import hashlib
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from conversation_state.adapters import PROVIDERS
from tools.mutant_runs import PACKAGE
from tools.mutations import Mutant, find_mutants

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENTS = ROOT / "tools" / "equivalent_mutants.toml"

# What these hold does not import each other, and has tests of its own.
DIVIDED = frozenset({"adapters", "hosts"})

# The tests of a module, the longest path that it begins with counts; if its name is
# not enough: `tests/test_NAME*.py` and `tests/NAME/`.
TESTS: dict[str, tuple[str, ...]] = {
    "_drawing.py": ("tests/test_pages.py", "tests/test_diffing_shown.py"),
    "_lazy.py": ("tests/test_front_door.py", "tests/test_pages.py"),
    "_canonical.py": ("tests/test_codec.py", "tests/test_documents.py"),
    "_persistent": ("tests/test_log*.py", "tests/test_frozen.py"),
    "_waiting.py": (
        "tests/test_waiting.py",
        *("tests/test_streams.py", "tests/test_streams_async.py"),
        *("tests/test_cells.py", "tests/test_cells_async.py"),
    ),
    # Interrupting each instruction takes minutes; it is not for every mutant.
    "cells": ("tests/test_cells.py", "tests/test_cells_async.py"),
    "streams": ("tests/test_streams.py", "tests/test_streams_async.py"),
    "parallel": ("tests/test_parallel.py", "tests/test_parallel_async.py"),
    "counting": ("tests/test_counting*.py", "tests/test_prices.py"),
    "errors": ("tests/test_errors.py", "tests/test_parallel.py"),
    "testing": (
        *("tests/test_laws.py", "tests/test_*_machine.py", "tests/test_contracts*.py"),
        *("tests/store/test_contract.py", "tests/store/test_memory.py"),
    ),
    # Nor are interrupts and processes that are killed.
    "store": (
        *("tests/store/test_[!is]*.py", "tests/store/test_s[!t]*.py"),
        "tests/store/test_st[eo]*.py",
    ),
    "codec/_structured": ("tests/test_codec.py", "tests/test_parsing.py"),
    # All formats have the same contracts, and the lines of one show which tests it has.
    "adapters": (
        *(f"tests/adapters/test_{name}*.py" for name in (*PROVIDERS, "openai", "otel")),
        *("tests/adapters/test_notes.py", "tests/adapters/test_pairing.py"),
        *("tests/adapters/test_crossing.py", "tests/adapters/test_golden.py"),
        *("tests/adapters/test_stream_pieces.py", "tests/adapters/test_sdk_*.py"),
        *("tests/adapters/test_tools.py", "tests/adapters/test_events.py"),
    ),
    "hosts/_host.py": ("tests/hosts/test_*.py",),
    "hosts/langchain": ("tests/hosts/test_langchain*.py",),
    "hosts/langgraph": (
        *("tests/hosts/test_langgraph*.py", "tests/hosts/test_host_bills.py"),
    ),
    "hosts/agents": (
        *("tests/hosts/test_agents*.py", "tests/hosts/test_host_bills.py"),
    ),
    "hosts/pydantic_ai": ("tests/hosts/test_pydantic_ai*.py",),
    "adapters/langchain": (
        *("tests/adapters/test_langchain*.py", "tests/hosts/test_lang*.py"),
        "tests/adapters/test_golden.py",
    ),
    "adapters/pydantic_ai": (
        *("tests/adapters/test_pydantic_ai*.py", "tests/hosts/test_pydantic_ai*.py"),
        "tests/hosts/test_host_bills.py",
    ),
    "adapters/transcripts": ("tests/adapters/test_transcripts.py",),
}

# The tests beside these, for what survived: of the modules that use this one.
MORE_TESTS: dict[str, tuple[str, ...]] = {
    "_identity.py": ("tests/test_aggregator.py", "tests/test_codec.py"),
    "_canonical.py": ("tests/test_parsing.py", "tests/test_codec_*.py"),
    "_lazy.py": ("tests/test_diffing_shown.py", "tests/test_tree.py"),
    "_persistent": ("tests/test_documents.py", "tests/test_aggregator.py"),
    "_waiting.py": ("tests/test_parallel*.py", "tests/store/test_store.py"),
    "_wording.py": ("tests/test_usage.py", "tests/test_messages.py"),
    "aggregator": ("tests/test_bills.py", "tests/test_codec.py"),
    "chunks": ("tests/adapters/test_openai_chat_chunks.py", "tests/test_streams.py"),
    "codec": ("tests/store/test_store.py", "tests/test_timeline.py"),
    "counting": (
        *("tests/test_bills.py", "tests/test_trimming.py", "tests/test_values.py"),
    ),
    "documents.py": ("tests/test_values.py",),
    "messages": (
        "tests/test_values.py",
        *("tests/test_aggregator.py", "tests/test_chunks.py", "tests/test_codec.py"),
        *("tests/test_rendering.py",),
    ),
    "parallel": (
        *("tests/test_parallel_processes.py", "tests/test_parallel_interrupts.py"),
    ),
    "parts.py": (
        "tests/test_values.py",
        "tests/test_messages.py",
        "tests/test_chunks.py",
        "tests/test_codec.py",
    ),
    "tools": (
        *("tests/test_codec_tools.py", "tests/test_tool_calls.py"),
        *("tests/test_chunks.py", "tests/test_messages.py", "tests/test_values.py"),
    ),
    "templates": ("tests/test_values.py",),
    "streams": ("tests/test_streams_interrupts.py",),
    "usage.py": (
        *("tests/test_aggregator.py", "tests/test_bills.py", "tests/test_values.py"),
    ),
    "tree": ("tests/test_codec_timeline.py",),
    "timeline": ("tests/test_codec_timeline.py",),
    "trimming": ("tests/test_counting.py",),
}


@attrs.frozen(kw_only=True)
class Equivalent:
    """
    Mutants that no test can kill, and why.

    *kind* is "same" if nothing that can be observed changes, and "cost" if only the
    time or the memory does.
    """

    path: str
    place: str
    line: str
    change: str
    reason: str = attrs.field(validator=attrs.validators.min_len(10))
    kind: str = attrs.field(
        default="same", validator=attrs.validators.in_({"same", "cost"})
    )

    @property
    def key(self) -> tuple[str, str, str, str]:
        """As `Mutant.key`."""
        return self.path, self.place, self.line, self.change


def read_equivalents(path: Path = EQUIVALENTS) -> tuple[Equivalent, ...]:
    """
    The checked-in list.

    Raises:
        ValueError: An entry has no reason, or is there twice.
    """
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    found = tuple(Equivalent(**entry) for entry in tables.get("equivalent", ()))
    if len({each.key for each in found}) < len(found):
        raise ValueError(f"{path.name}: an entry is there twice")

    return found


def find_unmatched(equivalents: Iterable[Equivalent], root: Path) -> list[Equivalent]:
    """
    The entries that are of no mutant, because the line or the change is another now.
    """
    entries = defaultdict(list)
    for each in equivalents:
        entries[each.path].append(each)

    unmatched = []
    for path, group in entries.items():
        file = root / path
        keys = set()
        if file.exists():
            keys = {mutant.key for mutant in find_mutants(path, file.read_bytes())}

        unmatched += [each for each in group if each.key not in keys]

    return unmatched


def list_modules(root: Path = ROOT) -> list[str]:
    """
    The modules of the layers table, the lowest first, as paths below the package; of
    the adapters, each is a module.
    """
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = (
        contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    names = [name.strip() for line in reversed(layers) for name in line.split("|")]
    return [path for name in names for path in list_parts(name, root / PACKAGE)]


def list_parts(name: str, package: Path) -> list[str]:
    """The paths below *package* that are sampled each for itself, of one module."""
    folder = package / name
    if not folder.is_dir():
        return [f"{name}.py"]

    if name not in DIVIDED:
        return [name]

    return sorted(
        path.relative_to(package).as_posix()
        for path in folder.iterdir()
        if path.is_dir() or path.suffix == ".py"
        if path.name[:2] != "__"
    )


def resolve_module(name: str, root: Path = ROOT) -> str:
    """
    The path below the package of a module or a file, however it was named.

    Raises:
        ValueError: The package has no such file or folder.
    """
    plain = name.removeprefix(f"{PACKAGE}/").rstrip("/")
    for each in (plain, f"{plain}.py"):
        if (root / PACKAGE / each).exists():
            return each

    raise ValueError(f"unknown module or file {name}; {PACKAGE}/ has no such path")


def list_mutants(module: str, root: Path = ROOT) -> list[Mutant]:
    """Every mutant of a module or a file."""
    path = root / PACKAGE / module
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return [
        mutant
        for file in files
        for mutant in find_mutants(file.relative_to(root).as_posix(), file.read_bytes())
    ]


def take_sample(mutants: Sequence[Mutant], size: int, seed: int) -> list[Mutant]:
    """
    *size* of the mutants, as many of each kind as there are, the same for one seed.

    Which are taken depends on their keys, so a change elsewhere changes few of them.
    """
    ranked = defaultdict(list)
    for mutant in sorted(mutants, key=lambda mutant: compute_rank(mutant, seed)):
        ranked[mutant.kind].append(mutant)

    rounds = [
        (position, compute_rank(mutant, seed), mutant)
        for group in ranked.values()
        for position, mutant in enumerate(group)
    ]
    rounds.sort(key=lambda each: each[:2])
    return [mutant for _, _, mutant in rounds[:size]]


def compute_rank(mutant: Mutant, seed: int) -> bytes:
    """Where a mutant stands in the order of a seed."""
    return hashlib.sha256(repr((seed, mutant.key)).encode()).digest()


def find_tests(
    module: str, table: Mapping[str, tuple[str, ...]], root: Path = ROOT
) -> list[str]:
    """The test files of a module or a file, from *table* or by its name."""
    steps = module.split("/")
    for length in range(len(steps), 0, -1):
        patterns = table.get("/".join(steps[:length]), ())
        if patterns:
            break
    else:
        name = steps[0].removeprefix("_").removesuffix(".py")
        patterns = (f"tests/test_{name}*.py", f"tests/{name}/test_*.py")
        patterns = () if table is MORE_TESTS else patterns

    return sorted(
        {
            path.relative_to(root).as_posix()
            for pattern in patterns
            for path in root.glob(pattern)
        }
    )


def find_group(path: str) -> str:
    """The longest beginning of *path*, below the package, that has tests of its own."""
    steps = path.removeprefix(f"{PACKAGE}/").split("/")
    names = ["/".join(steps[:length]) for length in range(len(steps), 0, -1)]
    return next((name for name in names if name in TESTS), names[-1])
