"""
Classes of users' own: cattrs takes them apart and puts them together.

Imported only for those who register a class: cattrs takes 50 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import cache, partial
from math import isfinite
from typing import Any, get_origin
from uuid import UUID

from cattrs import StructureHandlerNotFoundError
from cattrs.preconf.orjson import OrjsonConverter, make_converter

from conversation_state.codec import _in, _out
from conversation_state.codec._problems import At, shown
from conversation_state.codec._reading import Read, Reader
from conversation_state.codec._structured import found, has_fields, of_ours
from conversation_state.codec._wire import base64_of, bytes_of, text_of_time, uuid_of

__all__ = ["check", "reads", "unstructured"]


def check(cls: type) -> None:
    """
    See to it that *cls* can be read.

    Raises:
        TypeError:
            If it is neither an attrs class nor a dataclass, or a field of it
            is of a type that nothing is known about.
    """
    if not isinstance(cls, type) or not has_fields(cls):
        msg = f"{cls!r} is neither an attrs class nor a dataclass"
        raise TypeError(msg)

    try:
        _converter().get_structure_hook(cls)
    except StructureHandlerNotFoundError as error:
        msg = f"can't register {cls.__name__}: {error}"
        raise TypeError(msg) from None


def unstructured(value: Any) -> Any:
    """
    A value of a registered class as what orjson can write.

    Raises:
        ValueError:
            If it holds NaN or an infinity.
    """
    return _converter().unstructure(value)


def reads(cls: type) -> Read:
    """
    How to read values of a registered class.
    """

    def read(reader: Reader, raw: Any, at: At) -> Any:
        reader.has_maps = True
        try:
            return _converter().structure(raw, cls)
        except Exception as error:  # noqa: BLE001 - whatever a user's own checks raise
            for where, what, inside, _ in found(error, at):
                reader.problems.add(where, what, inside=inside)

        return None

    return read


@cache
def _converter() -> OrjsonConverter:
    made = make_converter(forbid_extra_keys=True)
    # cattrs itself would take "5" for 5, and any text at all for true.
    _scalar(made, str, _only("a text", str))
    _scalar(made, int, _only("an integer", int))
    _scalar(made, bool, _only("true or false", bool))
    _scalar(made, float, _only("a number", float, int), _finite)
    _scalar(made, bytes, _from_text("a text that is base64", bytes_of), base64_of)
    _scalar(made, datetime, _from_text("a time", datetime.fromisoformat), text_of_time)
    _scalar(made, UUID, _from_text("a UUID", uuid_of), str)
    made.register_structure_hook_factory(has_fields, partial(_fields, made))
    for kind, (cls, read) in _in.READS.items():
        if kind != "messages":  # which cattrs makes of what a message is
            _ours(made, cls, read)

    return made


def _fields(converter: OrjsonConverter, cls: type) -> Callable[[Any, Any], Any]:
    read: Callable[[Any, Any], Any] = converter.gen_structure_attrs_fromdict(cls)

    def structure(raw: Any, kind: Any) -> Any:
        if type(raw) is dict:
            return read(raw, kind)

        msg = f"expected an object, got {shown(raw)}"
        raise TypeError(msg)

    return structure


def _scalar(
    converter: OrjsonConverter,
    kind: type,
    structure: Callable[[Any, Any], Any],
    unstructure: Callable[[Any], Any] | None = None,
) -> None:
    converter.register_structure_hook(kind, structure)
    if unstructure is not None:
        converter.register_unstructure_hook(kind, unstructure)


def _only(what: str, *kinds: type) -> Callable[[Any, Any], Any]:
    def structure(raw: Any, kind: Any) -> Any:
        if type(raw) in kinds:
            return raw if kind in kinds else kind(raw)  # an enum of texts, say

        msg = f"expected {what}, got {shown(raw)}"
        raise TypeError(msg)

    return structure


def _from_text(what: str, convert: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
    def structure(raw: Any, _: Any) -> Any:
        if type(raw) is str:
            with suppress(ValueError):
                return convert(raw)

        msg = f"expected {what}, got {shown(raw)}"
        raise TypeError(msg)

    return structure


def _finite(value: float) -> float:
    if isfinite(value):
        return value

    # orjson writes null.
    msg = f"JSON has no word for {value!r}"
    raise ValueError(msg)


def _ours(converter: OrjsonConverter, cls: type, read: Read) -> None:
    def bare(kind: Any) -> Any:
        return get_origin(kind) or kind  # a timeline says of what

    def is_it(kind: Any) -> bool:
        return isinstance(bare(kind), type) and issubclass(bare(kind), cls)

    converter.register_structure_hook_func(
        is_it, lambda raw, kind: of_ours(read, raw, bare(kind))
    )
    converter.register_unstructure_hook_func(is_it, _out.bare)
