"""
The codec: values as bytes, and back.

Everything *written* passes through here. A document is JSON and data only: it
names no class, and nothing is imported or called because of what it says. It
begins with what it is, ``{"format": "conversation_state", "version": 1,
"kind": ...}``; `conversation_state.codec._wire` has the whole format.

What lives here: the kinds of document, how each is written and read, and what
is wrong with one that can't be. What does not: bytes of JSON as such
(`_canonical`), where they are kept (`store`), and what providers write
(`adapters`).
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

import attrs

from conversation_state._canonical import Data, dump, first_oversized, load
from conversation_state._persistent import PMap, check_text, pmap
from conversation_state.codec import _in, _out
from conversation_state.codec._bare import (
    bare_ledger_entry,
    bare_message,
    bare_messages,
    bare_payments,
)
from conversation_state.codec._timeline_out import timeline_out
from conversation_state.codec._wire import FORMAT, VERSION
from conversation_state.timeline import Timeline

__all__ = [
    "Codec",
    "bare_ledger_entry",
    "bare_message",
    "bare_messages",
    "bare_payments",
    "decode",
    "encode",
    "from_data",
    "structure",
    "to_data",
]

T = TypeVar("T")

_NOTHING: PMap[type, str] = pmap()


@attrs.frozen
class Codec:
    """
    What can be written and read: all values of this library, and classes that
    were registered.

    A value: registering gives another codec. The functions of this module are
    those of ``Codec()``.

    Kinds of its own, and what they are written from: ``aggregator``, ``turn``,
    ``checkpoint``, ``message``, ``messages`` (a tuple, a list or a state's view
    of messages; read as a tuple), ``part``, ``tool_call``, ``usage``,
    ``tool_info``, ``document``, ``template``, ``timeline`` (of states of any
    kind but itself, of registered classes, and of plain JSON values).

    >>> @attrs.frozen
    ... class Ticket:
    ...     number: int
    >>> codec = Codec().register(Ticket, "ticket")
    >>> codec.decode(codec.encode(Ticket(7)))
    Ticket(number=7)
    """

    _kinds: PMap[type, str] = _NOTHING

    def register(self, cls: type, kind: str) -> Codec:
        """
        This codec, which also writes instances of *cls*, and reads documents
        of *kind* as such.

        *cls* is an attrs class or a dataclass. Its fields may be of its like,
        of JSON's types, bytes, dates, UUIDs and enums, lists and maps of them,
        and of the classes of this library. An instance is read by calling the
        class, so its own checks are asked; no field may be missing that has no
        default, and none be there that it does not have.

        Raises:
            TypeError:
                If *cls* is something else, or has a field that nobody knows
                how to read.

            ValueError:
                If the class or the kind has been registered already, or is one
                of this library's.
        """
        kinds = {*_in.READS, *self._kinds.values()}
        if not isinstance(kind, str) or not kind or kind in kinds:
            msg = f"kind is {kind!r}; expected a name beside {', '.join(sorted(kinds))}"
            raise ValueError(msg)

        if cls in _out.WRITES or cls in self._kinds:
            msg = f"{cls.__name__} is registered already"
            raise ValueError(msg)

        from conversation_state.codec import _registered  # noqa: PLC0415 - 50 ms

        _registered.check(cls)
        return Codec(self._kinds.set(cls, check_text(kind, "kind")))

    def encode(self, value: object) -> bytes:
        """
        *value* as bytes: JSON, UTF-8, no white space.

        Deterministic: one value gives the same bytes in every process. About a
        microsecond for a message of 400 characters.

        Raises:
            TypeError:
                If *value* is of no class this codec knows.

            ValueError:
                If an instance of a registered class holds NaN or an infinity.
        """
        return dump(self._document(value))

    def to_data(self, value: object) -> dict[str, Any]:
        """
        The same as plain JSON values: dicts, lists, texts, numbers.
        """
        data: dict[str, Any] = load(self.encode(value))
        return data

    def _document(self, value: object) -> dict[str, Any]:
        document = self._with_kind(value)
        if document is None:
            known = {each.__name__ for each in (*_out.WRITES, *self._kinds)}
            msg = (
                f"can't encode a {type(value).__name__}, only "
                f"{', '.join(sorted(known))}; "
                "Codec().register(cls, kind) gives a codec that can"
            )
            raise TypeError(msg)

        return {"format": FORMAT, "version": VERSION, **document}

    def _with_kind(self, value: Any) -> dict[str, Any] | None:
        if not self._kinds:
            return _out.with_kind(value)

        if type(value) is Timeline:
            return {"kind": "timeline", **timeline_out(value, self._with_kind)}

        if type(value) not in self._kinds:
            return _out.with_kind(value)

        from conversation_state.codec import _registered  # noqa: PLC0415 - 50 ms

        kind = self._kinds[type(value)]
        return {"kind": kind, "value": _registered.unstructured(value)}

    @overload
    def decode(self, data: Data, *, expect: None = None) -> Any: ...
    @overload
    def decode(self, data: Data, *, expect: type[T]) -> T: ...
    def decode(self, data: Data, *, expect: type[Any] | None = None) -> Any:
        """
        The value that was encoded as *data*; ``decode(encode(x)) == x``.

        Safe with whatever the bytes are, in time and memory that grow with
        their number. Of a key given twice the last value stands. About two
        microseconds for a message of 400 characters.

        Args:
            data: Bytes, or text.

            expect: The class it should be of, `Message` for any message say;
                another is a problem. None takes all.

        Raises:
            DecodeError:
                If *data* is no document, was written by a newer version, or is
                of a kind this codec does not know; if something in it is not
                what it should be; with all such problems and where they are.

            TypeError:
                If *data* is neither bytes nor text.

        >>> decode('{"format": "conversation_state", "version": 2}')
        Traceback (most recent call last):
        conversation_state.errors.DecodeError: can't decode: 2 problems
          $.version: written by a newer version of conversation_state (format ...
          $.kind: missing
        """
        return self._value(load(data), expect, data)

    @overload
    def from_data(self, data: Any, *, expect: None = None) -> Any: ...
    @overload
    def from_data(self, data: Any, *, expect: type[T]) -> T: ...
    def from_data(self, data: Any, *, expect: type[Any] | None = None) -> Any:
        """
        The value that `to_data` gave *data* for, or that *data* was parsed
        from: dicts, lists, texts, numbers, as `json.loads` gives them.

        Raises:
            DecodeError:
                As `decode` does.
        """
        return self._value(data, expect, None)

    def _value(self, data: Any, expect: type | None, source: Data | None) -> Any:
        kinds = _in.READS
        if self._kinds:
            from conversation_state.codec import _registered  # noqa: PLC0415 - 50 ms

            for cls, kind in self._kinds.items():
                kinds = {**kinds, kind: (cls, _registered.reads(cls))}

        value, reader = _in.read_document(data, kinds, expect)
        if reader.has_maps and source is not None:
            # In all other places it would have been found: no float fits.
            start = first_oversized(source)
            if start is not None:
                what = f"the integer at byte {start:,} takes more than 64 bits"
                reader.problems.add(None, what)

        if reader.problems.count:
            raise reader.problems.error()

        return value


_OURS = Codec()


def encode(value: object) -> bytes:
    """
    *value* as bytes: see `Codec.encode`.

    >>> from conversation_state.messages import UserMessage
    >>> print(encode(UserMessage("Hi!")).decode())
    {"format":"conversation_state","version":1,...{"role":"user","content":"Hi!"}}
    """
    return _OURS.encode(value)


def to_data(value: object) -> dict[str, Any]:
    """
    *value* as plain JSON values: see `Codec.to_data`.
    """
    return _OURS.to_data(value)


@overload
def decode(data: Data, *, expect: None = None) -> Any: ...
@overload
def decode(data: Data, *, expect: type[T]) -> T: ...
def decode(data: Data, *, expect: type[Any] | None = None) -> Any:
    """
    The value that was encoded as *data*: see `Codec.decode`.
    """
    return _OURS.decode(data, expect=expect)


@overload
def from_data(data: Any, *, expect: None = None) -> Any: ...
@overload
def from_data(data: Any, *, expect: type[T]) -> T: ...
def from_data(data: Any, *, expect: type[Any] | None = None) -> Any:
    """
    The value that plain JSON values are of: see `Codec.from_data`.
    """
    return _OURS.from_data(data, expect=expect)


@overload
def structure(value: Any, type: type[T]) -> T: ...
@overload
def structure(value: Any, type: Any) -> Any: ...
def structure(value: Any, type: Any) -> Any:
    """
    A plain JSON value as a value of *type*: for what others write, models say.

    Strict in what a value is: no text becomes a number, and no number a text.
    Lenient in what is beside it: keys that a class does not know are left out.
    See `conversation_state.parsing.parse` for the types there are.

    Raises:
        DecodeError:
            With all that is wrong (the first hundred of it), and where.

        TypeError:
            If nobody knows how to read *type*.

    >>> structure({"1": [2, 3.5]}, dict[int, list[float]])
    {1: [2.0, 3.5]}
    """
    from conversation_state.codec import _structured  # noqa: PLC0415 - 50 ms

    return _structured.structurer(type)(value, None)
