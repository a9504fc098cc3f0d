"""
Calls of functions and what they returned, as parts of a content; and the calls of a
stream, which come whole but for those of Vertex AI whose arguments come in pieces, each
with the path it belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from conversation_state.adapters._export import PayloadWriter, merge_kept_keys
from conversation_state.adapters._notes import list_of, map_of
from conversation_state.adapters._reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
)
from conversation_state.adapters._wire import parse_object, read_object_text
from conversation_state.adapters.gemini._parts import (
    SOURCE,
    CasedObject,
    cased_key,
    kind_of,
    read_part,
    snake_case,
    write_media,
)
from conversation_state.messages import ToolMessage
from conversation_state.parts import MediaPart, Part, TextPart, UnknownPart
from conversation_state.tools import ToolCall

# What Google has for calls that no Gemini made, whose thoughts it would miss.
_SKIP_SIGNATURE = "skip_thought_signature_validator"

# The keys under which SDKs put a result that is not an object: Google's
# own key first, then those of its SDK and of others.
_WRAPPERS = ("output", "result", "return_value", "content")


def read_call(node: CasedObject, made_id: str, *, first: bool) -> ToolCall:
    """
    The call at *node*, with *made_id* unless it has one; *first* says whether
    it is the first one in its content.
    """
    key = node.key("functionCall")
    inside = node.inside(key)
    call_id = inside.optional("id")
    if not call_id:
        call_id = node.notes["made_id"] = made_id

    name = inside.optional("name")
    if "name" not in inside.raw:
        node.notes["without"] = ["name"]

    arguments = ""
    args = inside.raw.get("args")
    if is_map(args):
        arguments = read_object_text(inside, "args")
    elif args is not None:
        inside.wrong("args", "an object or null")
    elif "args" in inside.raw:
        inside.keys["args"] = None

    known = {key}
    # Gemini refuses a first call without a signature, so `write_call` adds the
    # placeholder; a note says that there was none.
    if first:
        signature = node.key("thoughtSignature")
        if node.raw.get(signature) == _SKIP_SIGNATURE:
            known.add(signature)
        elif signature not in node.raw:
            node.notes.setdefault("without", []).append("thoughtSignature")

    node.keep(frozenset(known))
    node.keep_within(key, inside, frozenset({"args", "id", "name"}))
    return ToolCall(call_id, name, arguments, metadata=node.metadata(SOURCE))


def write_call(
    write: PayloadWriter, call: ToolCall, path: str, *, first: bool
) -> dict[str, Any]:
    notes = write.notes(call, path)
    without = list_of(notes, "without")
    body: dict[str, Any] = {}
    if call.id and call.id != notes.get("made_id"):
        body["id"] = call.id

    if call.name or "name" not in without:
        body["name"] = call.name

    if call.type != "function":
        write.lose(path, "type", "all calls are function calls in this format")

    if call.arguments:
        value, why = parse_object(call.arguments)
        if why:
            write.lose(path, "arguments", why)

        if value is not None:
            body["args"] = value

    raw: dict[str, Any] = {cased_key(notes, "functionCall"): body}
    merge_kept_keys(map_of(notes, "keys"), raw)
    key = cased_key(notes, "thoughtSignature")
    if first and key not in raw and "thoughtSignature" not in without:
        raw[key] = _SKIP_SIGNATURE

    return raw


def read_returned(
    inside: CasedObject, notes: dict[str, Any]
) -> tuple[str | list[Part], bool]:
    """
    What a function returned, as the content of a message, and whether it is
    an error. How it was written goes into *notes*.
    """
    response = inside.raw.get("response")
    text: str | None = None
    is_error = False
    if is_map(response):
        key = next(iter(response)) if len(response) == 1 else ""
        if key in ("error", *_WRAPPERS) and isinstance(response[key], str):
            text = inside.reading.text(response, key, f"{inside.path}.response")
            is_error = key == "error"
            if key not in {"error", _WRAPPERS[0]}:
                notes["under"] = key
        elif response:
            text = read_object_text(inside, "response")
            is_error = _has_error(response)
            notes["object"] = True
    elif response is not None:
        inside.wrong("response", "an object")
    elif "response" in inside.raw:
        inside.keys["response"] = None
    else:
        notes["no_response"] = True

    if not inside.raw.get("parts") and "parts" in inside.raw:
        inside.keys["parts"] = inside.raw["parts"]

    listed = inside.optional_objects("parts", "a list or null")
    parts = [_read_media(node) for node in listed]
    if text is None or parts:
        return [*([] if text is None else [TextPart(text)]), *parts], is_error

    return text, is_error


def _read_media(node: CasedObject) -> Part:
    # The text of a result is in its response, not among its parts.
    is_text = kind_of(node.raw) == "text"
    return node.as_unknown(SOURCE) if is_text else read_part(node, "tool")


def _has_error(response: Mapping[str, Any]) -> bool:
    # Some wrappers always have both keys, and null under one of them.
    return response.get("error") is not None and response.get("output") is None


def write_result(
    write: PayloadWriter,
    message: ToolMessage,
    path: str,
    notes: Mapping[str, Any],
    about: Mapping[str, str],
) -> dict[str, Any]:
    """
    The part that *message* is; *about* has the id and the name that are to be
    said in it.
    """
    body: dict[str, Any] = {key: value for key, value in about.items() if value}
    text, parts = _write_content(write, message, path)
    if text is not None or notes.get("no_response") is not True:
        body["response"] = _write_response(text, notes, is_error=message.is_error)

    if text is None and message.is_error:
        write.lose(path, "is_error", "only a result with a text can be an error")

    if parts:
        body["parts"] = parts

    key = cased_key(notes, "functionResponse")
    return merge_kept_keys(map_of(notes, "keys"), {key: body})


def _write_content(
    write: PayloadWriter, message: ToolMessage, path: str
) -> tuple[str | None, list[dict[str, Any]]]:
    """
    The text of *message*, or None, and its media.
    """
    if isinstance(message.content, str):
        return message.content, []

    text: str | None = None
    parts: list[dict[str, Any]] = []
    for at, part in enumerate(message.content):
        here = f"{path}.parts[{at}]"
        notes = write.notes(part, here)
        raw: dict[str, Any] | None = None
        if isinstance(part, TextPart):
            if at:
                why = "all text of a result is joined, before its media"
                write.lose(here, "text", why)

            text = (text or "") + part.text
        elif isinstance(part, MediaPart):
            raw = write_media(write, part, here, notes)
        elif isinstance(part, UnknownPart):
            raw = write.unknown(part.raw, part.source, here, "type")

        if raw is not None:
            parts.append(merge_kept_keys(map_of(notes, "keys"), raw))

    return text, parts


def _write_response(
    text: str | None, notes: Mapping[str, Any], *, is_error: bool
) -> dict[str, Any]:
    if text is None:
        return {}

    if notes.get("object") is True:
        value, why = parse_object(text)
        # The user may have changed the text, or whether the call failed.
        if value and not why and _has_error(value) is is_error:
            return value

    under: Any = notes.get("under")
    if is_error:
        under = "error"
    elif under not in _WRAPPERS:
        under = _WRAPPERS[0]

    return {under: text}


# Fewer than the levels that a value in metadata, or in a request, may have.
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
        # Only the first piece of a call has its name.
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
        call = read_call(node, made_id, first=first)
        return attrs.evolve(call, index=self._take())


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
        # The signature may come with any of the pieces.
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
            # Not filled up to the index, which may be as large as 999,999,999.
            if at >= len(inside):
                at = len(inside)
                inside.append(fresh)
        else:
            at = str(step)
            inside.setdefault(at, fresh)

        if then is None or not isinstance(inside[at], (dict, list)):
            inside[at] = fresh

        inside = inside[at]
