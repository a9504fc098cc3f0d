"""
Calls in a stream: they come whole, but for those of Vertex AI whose arguments
come in pieces, each with the path it belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from conversation_state.adapters._reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
)
from conversation_state.adapters.gemini._calls import read_call
from conversation_state.adapters.gemini._parts import CasedObject, snake_case
from conversation_state.tools import ToolCall

__all__ = ["StreamedCalls"]

_MAX_STEPS = 80

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\['([^']*)'\]|\["([^"]*)"\]""")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


def _get_in_either_case(raw: Any, name: str) -> tuple[str, Any]:
    key = name if name in raw else snake_case(name)
    return key, raw.get(key)


class StreamedCalls:
    """
    The calls of one stream while it is read. *take* gives the next place.
    """

    def __init__(self, take: Callable[[], int]) -> None:
        self._take = take
        self._count = 0
        self._open: _PartialCall | None = None

    def read(self, node: CasedObject, prefix: str) -> list[ToolCall]:
        """
        The calls that are whole with the part at *node*. Ids that are made up
        begin with *prefix*.
        """
        key = node.key("functionCall")
        if not is_map(node.raw[key]):
            return [self._read_whole_call(node, prefix)]

        body = node.inside(key)
        calls: list[ToolCall] = []
        if self._open is not None and body.raw.get("name"):
            calls = self.end(prefix, node.reading, node.path)

        if self._open is None and any(
            _get_in_either_case(body.raw, name)[1]
            for name in ("partialArgs", "willContinue")
        ):
            self._open = _PartialCall()

        if self._open is None:
            calls.append(self._read_whole_call(node, prefix))
        elif self._open.add(node, body):
            calls += self.end(prefix, node.reading, node.path)

        return calls

    def end(self, prefix: str, reading: DocumentReader, path: str) -> list[ToolCall]:
        partial, self._open = self._open, None
        if partial is None:
            return []

        node = CasedObject(reading, partial.whole(), path)
        return [self._read_whole_call(node, prefix)]

    def _read_whole_call(self, node: CasedObject, prefix: str) -> ToolCall:
        first, made_id = not self._count, f"{prefix}_call_{self._count}"
        self._count += 1
        return read_call(node, made_id, self._take(), first=first)


class _PartialCall:
    """
    A call while it comes in pieces.

    Source:
        Vertex AI's ``streamFunctionCallArguments``: the name comes first, then
        arguments by their JSON paths, long texts in pieces, and at last a
        piece that does not say ``willContinue``.
    """

    def __init__(self) -> None:
        self._part: dict[str, Any] = {}
        self._body: dict[str, Any] = {}
        # By path: the pieces of a text, or another value.
        self._args: dict[tuple[str | int, ...], Any] = {}

    def add(self, part: ObjectReader, body: ObjectReader) -> bool:
        """
        Add a piece, *body* in *part*; whether it is the last one.
        """
        known = frozenset({"functionCall", "function_call"})
        self._part.update(part.reading.rest(part.raw, known, part.path))
        args, _ = _get_in_either_case(body.raw, "partialArgs")
        more, continues = _get_in_either_case(body.raw, "willContinue")
        self._body |= body.reading.rest(body.raw, frozenset({args, more}), body.path)
        for piece in body.optional_objects(args, "a list or null"):
            self._add_argument(piece)

        return not continues

    def _add_argument(self, piece: ObjectReader) -> None:
        key, path = _get_in_either_case(piece.raw, "jsonPath")
        steps = _parse_path(path) if isinstance(path, str) else ()
        if not steps:
            piece.wrong(key, "a path of names and numbers, as $.a[0].b")
            return

        for name in _VALUES:
            key, value = _get_in_either_case(piece.raw, name)
            if value is None:
                continue

            if is_map(value) or is_list(value):
                piece.wrong(key, "a text, a number, true or false")
            elif name != "stringValue":
                value = piece.reading.json(value, f"{piece.path}.{key}")
                self._args[steps] = None if name == "nullValue" else value
            else:
                before = self._args.get(steps)
                if not isinstance(before, list):
                    before = self._args[steps] = []

                before.append(piece.text(key))

    def whole(self) -> dict[str, Any]:
        args = self._body.get("args")
        root: dict[str, Any] = dict(args) if is_map(args) else {}
        for steps, value in self._args.items():
            whole = "".join(value) if isinstance(value, list) else value
            _set_at_path(root, steps, whole)

        return {**self._part, "functionCall": {**self._body, "args": root}}


def _parse_path(path: str) -> tuple[str | int, ...]:
    """
    What *path*, of RFC 9535's simplest kind, leads through; () if it is invalid.
    """
    steps: list[str | int] = []
    at = 1
    while path.startswith("$") and at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return ()

        name = next(group for group in found.groups() if group is not None)
        steps.append(int(name) if found[2] else name)
        at = found.end()

    named = steps and isinstance(steps[0], str)
    return tuple(steps) if named and len(steps) <= _MAX_STEPS else ()


def _set_at_path(inside: Any, steps: tuple[str | int, ...], value: Any) -> None:
    """
    Put *value* to where *steps* lead from *inside*, a map. What has no place
    there, for example a tenth item of a list of two, is put at its end.
    """
    for step, then in zip(steps, (*steps[1:], None), strict=True):
        fresh: Any = value if then is None else [] if isinstance(then, int) else {}
        at: Any
        if isinstance(inside, list):
            at = step if isinstance(step, int) else len(inside)
            if at >= len(inside):
                at = len(inside)
                inside.append(fresh)
        else:
            at = str(step)
            inside.setdefault(at, fresh)

        if then is None or not isinstance(inside[at], (dict, list)):
            inside[at] = fresh

        inside = inside[at]
