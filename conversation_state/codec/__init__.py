"""
The codec: every value as bytes of JSON, and back.

Everything that is written passes through here. A document is JSON and data only:
it names no class, and nothing in it is imported or called. It begins with its
format and kind, ``{"format": "conversation_state", "version": 1,
"kind": ...}``; `conversation_state.codec._format` has the whole format.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

import attrs

from conversation_state._canonical import (
    Data,
    JsonPath,
    check_acyclic,
    dump,
    first_oversized,
    load,
)
from conversation_state._collector import collector_paused
from conversation_state._persistent import FrozenMap, check_text
from conversation_state._wording import describe_type, shorten_repr
from conversation_state.codec import _kinds
from conversation_state.codec._format import FORMAT, VERSION
from conversation_state.codec._messages import encode_message
from conversation_state.codec._states import (
    decode_ledger_entries,
    decode_messages,
    encode_ledger_entry,
)
from conversation_state.codec._timelines import write_timeline
from conversation_state.timeline import Timeline

__all__ = [
    "Codec",
    "decode",
    "decode_ledger_entries",
    "decode_messages",
    "encode",
    "encode_ledger_entry",
    "encode_message",
    "from_data",
    "structure",
    "structurer",
    "to_data",
]

T = TypeVar("T")

# The collector is paused for longer documents, of some hundred messages.
_LONG = 50_000
# And for plain values of so many messages; of fewer it takes less than one look at
# all of them behind the pause.
_MANY = 1_000
_NO_KINDS: FrozenMap[type, str] = FrozenMap()


@attrs.frozen
class Codec:
    """
    The types that can be written and read: all values of this library, and
    registered classes.

    Immutable: registering returns another codec. The functions of this module
    are the methods of ``Codec()``.

    Its own kinds, and what they are written from: ``aggregator``, ``turn``,
    ``checkpoint``, ``message``, ``messages`` (a tuple, a list or a state's view
    of messages; read as a tuple), ``part``, ``tool_call``, ``usage``,
    ``tool_info``, ``document``, ``template``, ``timeline`` (of states of any
    kind but itself, of registered classes, and of plain JSON values),
    ``message_tree``.

    >>> @attrs.frozen
    ... class Ticket:
    ...     number: int
    >>> codec = Codec().register(Ticket, "ticket")
    >>> codec.decode(codec.encode(Ticket(7)))
    Ticket(number=7)
    """

    _kinds: FrozenMap[type, str] = _NO_KINDS

    def register(self, cls: type, kind: str) -> Codec:
        """
        A codec that also writes instances of *cls*, as documents of *kind*, and
        reads them.

        *cls* is an attrs class or a dataclass. Its fields may be of any type
        that `structure` reads, and are read as strictly. An instance is read by
        calling the class, so that its own checks run; a field without a default
        must be there, and an unknown field is an error. The class must compare by its
        fields, and hold in each what it is declared as.

        Raises:
            TypeError: If *cls* is something else, or has a field of a type that can't
                be read.
            ValueError: If the class or the kind is registered already, or belongs to
                this library.
        """
        kinds = {*_kinds.READS, *self._kinds.values()}
        if not isinstance(kind, str) or not kind or kind in kinds:
            taken = ", ".join(sorted(kinds))
            raise ValueError(
                f"kind is {shorten_repr(kind)}; expected another name than {taken}"
            )

        # An object without a hash can't be looked up; `check_class` says what is wrong
        # with it.
        if isinstance(cls, type) and (cls in _kinds.WRITES or cls in self._kinds):
            raise ValueError(f"{cls.__name__} is registered already")

        from conversation_state.codec import _classes  # noqa: PLC0415 - 50 ms

        _classes.check_class(cls)
        return Codec(self._kinds | {cls: check_text(kind, "kind")})

    def encode(self, value: object) -> bytes:
        """
        *value* as bytes: JSON, UTF-8, no white space.

        Deterministic: one value gives the same bytes in every process. About a
        microsecond for a message of 400 characters.

        Raises:
            TypeError: If this codec doesn't know the class of *value*.
            ValueError: If an instance of a registered class holds a value that JSON
                can't represent, such as NaN, or would not be decoded as an equal one.
        """
        return dump(self._write_document(value))

    def to_data(self, value: object) -> dict[str, Any]:
        """The same as plain JSON values: dicts, lists, texts, numbers."""
        # The value is encoded to bytes and parsed, because the writers produce UUIDs,
        # times and frozen maps, which orjson converts.
        data: dict[str, Any] = load(self.encode(value))
        return data

    def _write_document(self, value: object) -> dict[str, Any]:
        document = self._write_with_kind(value)
        if document is None:
            known = {each.__name__ for each in (*_kinds.WRITES, *self._kinds)}
            raise TypeError(
                f"can't encode {describe_type(value)}, only "
                f"{', '.join(sorted(known))}; "
                "Codec().register(cls, kind) gives a codec that can"
            )

        return {"format": FORMAT, "version": VERSION, **document}

    def _write_with_kind(self, value: Any) -> dict[str, Any] | None:
        if not self._kinds:
            return _kinds.write_with_kind(value)

        if type(value) is Timeline:  # its states may be of registered classes
            return {"kind": "timeline", **write_timeline(value, self._write_with_kind)}

        if type(value) not in self._kinds:
            return _kinds.write_with_kind(value)

        from conversation_state.codec import _classes  # noqa: PLC0415 - 50 ms

        kind = self._kinds[type(value)]
        return {"kind": kind, "value": _classes.write_instance(value)}

    @overload
    def decode(self, data: Data, *, expect: None = None) -> Any: ...
    @overload
    def decode(self, data: Data, *, expect: type[T]) -> T: ...
    def decode(self, data: Data, *, expect: type[Any] | None = None) -> Any:
        """
        The value that was encoded as *data*; ``decode(encode(x)) == x``.

        Safe with any bytes, in time and memory that grow with their number. Of a
        duplicate key the last value counts. About two
        microseconds for a message of 400 characters.

        Args:
            data: Bytes, or text.
            expect: The class to expect, for example `Message` for any message;
                any other is a problem. None accepts all.

        Raises:
            DecodeError: If *data* is not a document, was written by a newer version, or
                is of an unknown kind; if a value in it is invalid. Lists all such
                problems with their paths.
            TypeError: If *data* is neither bytes nor text, or *expect* is not a class.

        >>> decode('{"format": "conversation_state", "version": 2}')
        Traceback (most recent call last):
        conversation_state.errors.DecodeError: can't decode: 2 problems
          $.version: written by a newer version of conversation_state (format ...
          $.kind: missing
        """
        if not isinstance(data, (bytes, str)) or len(data) < _LONG:
            return self._read_value(load(data), expect, data)

        with collector_paused():
            return self._read_value(load(data), expect, data)

    @overload
    def from_data(self, data: Any, *, expect: None = None) -> Any: ...
    @overload
    def from_data(self, data: Any, *, expect: type[T]) -> T: ...
    def from_data(self, data: Any, *, expect: type[Any] | None = None) -> Any:
        """
        The value that `to_data` turned into *data*: dicts, lists, texts, numbers,
        as `json.loads` returns them.

        Raises:
            DecodeError: As `decode` does, and if an object or array contains itself.
            TypeError: If *expect* is not a class.
        """
        messages: Any = data.get("messages") if data.__class__ is dict else None
        if messages.__class__ is list and len(messages) < _MANY:
            return self._read_value(data, expect, None)

        with collector_paused():
            return self._read_value(data, expect, None)

    def _read_value(self, data: Any, expect: type | None, source: Data | None) -> Any:
        kinds = _kinds.READS
        if self._kinds:
            from conversation_state.codec import _classes  # noqa: PLC0415 - 50 ms

            for cls, kind in self._kinds.items():
                kinds = {**kinds, kind: (cls, _classes.read_class(cls))}

        value, reader = _kinds.read_document(
            data, kinds, expect, is_parsed=source is not None
        )
        if reader.has_foreign_json and source is not None:
            # Outside of foreign JSON such an integer is a problem already: orjson
            # reads it as a float, which no field accepts.
            start = first_oversized(source)
            if start is not None:
                what = f"the integer at byte {start:,} takes more than 64 bits"
                reader.problems.add(None, what)

        if reader.problems.count:
            raise reader.problems.error()

        return value


_DEFAULT = Codec()


# A codec is immutable, so all can share one; its methods are documented at the class.
encode = _DEFAULT.encode
to_data = _DEFAULT.to_data
decode = _DEFAULT.decode
from_data = _DEFAULT.from_data


@overload
def structure(value: Any, type: type[T]) -> T: ...
@overload
def structure(value: Any, type: Any) -> Any: ...
def structure(value: Any, type: Any) -> Any:
    """
    A plain JSON value as a value of *type*: for the JSON of models and of others.

    Strict about types: no text becomes a number, and no number a text. Lenient
    about further keys: those that a class does not have are left out.
    See `conversation_state.parsing.parse` for the types there are.

    Raises:
        DecodeError: With all problems (the first hundred) and their paths.
        TypeError: If *type* can't be read from JSON.

    >>> structure({"1": [2, 3.5]}, dict[int, list[float]])
    {1: [2.0, 3.5]}
    """
    if value.__class__ is dict or value.__class__ is list:
        check_acyclic(value)

    return structurer(type)(value, None)


def structurer(type: Any) -> Callable[[Any, JsonPath], Any]:
    """
    The function behind `structure`: makes a value of *type* of a plain JSON value,
    whose path it needs for errors.

    Raises:
        TypeError: If *type* can't be read from JSON.
    """
    from conversation_state.codec import _classes  # noqa: PLC0415 - 50 ms

    return _classes.structurer(type)
