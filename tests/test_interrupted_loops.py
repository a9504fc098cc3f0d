"""
A Ctrl-C in a loop ends the block around it.

CPython 3.13 and 3.14 look for signals where a loop jumps back, and leave some of these
jumps out of the `try` or `with` around the loop: after an `if` that ends its body, and
where a condition of `while` is tested again. An interrupt there skips the `finally`,
and a lock stays held for good.

Source: python/cpython#130279.
"""

import dis
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import conversation_state

PACKAGE = Path(conversation_state.__file__).parent

pytestmark = pytest.mark.skipif(
    sys.version_info[:2] not in {(3, 13), (3, 14)},
    reason="only CPython 3.13 and 3.14 leave jumps out of the block around them",
)


def find_codes(code: CodeType) -> Iterator[CodeType]:
    """*code*, and that of the functions and classes in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from find_codes(constant)


def sees_interrupts(handler: list[Any]) -> bool:
    """Whether what begins with *handler* is for a KeyboardInterrupt, too."""
    if handler[0].opname != "PUSH_EXC_INFO":
        return False  # of a generator, or of a comprehension

    names = []
    for each in handler[1:]:
        if each.opname == "LOAD_GLOBAL":
            names.append(each.argval)
        elif each.opname == "CHECK_EXC_MATCH":
            return not {"BaseException", "KeyboardInterrupt"}.isdisjoint(names)
        elif each.opname not in {"LOAD_ATTR", "BUILD_TUPLE"}:
            break

    return True  # `finally` or `with`


def find_open_jumps(code: CodeType) -> Iterator[int]:
    """The lines of *code* from which a loop jumps back outside of its block."""
    bytecode: Any = dis.Bytecode(code)
    instructions: list[Any] = list(bytecode)
    places = {each.offset: number for number, each in enumerate(instructions)}

    def handlers(offset: int) -> set[int]:
        return {
            entry.target
            for entry in bytecode.exception_entries
            if entry.start <= offset < entry.end
        }

    for each in instructions:
        if each.opname == "JUMP_BACKWARD":
            left_out = handlers(each.argval) - handlers(each.offset)
            if any(sees_interrupts(instructions[places[at] :]) for at in left_out):
                yield each.positions.lineno or code.co_firstlineno


def find_in_source(source: str, path: str = "<source>") -> list[str]:
    return [
        f"{path}:{line} {code.co_qualname}"
        for code in find_codes(compile(source, path, "exec"))
        for line in find_open_jumps(code)
    ]


def test_open_jump_found():
    """The jump after an `if` that ends a loop within `with` is found."""
    source = (
        "def find(lock, each):\n"
        "    with lock:\n"
        "        for item in each:\n"
        "            if item:\n"
        "                print(item)\n"
    )

    assert ["<source>:4 find"] == find_in_source(source)


def test_no_open_jumps():
    """No loop of the package jumps back outside of a block that sees interrupts."""
    found = [
        place
        for path in sorted(PACKAGE.rglob("*.py"))
        for place in find_in_source(
            path.read_text("utf-8"), path.relative_to(PACKAGE).as_posix()
        )
    ]

    assert [] == found
