"""
The parts of a content, and the parts and calls they are here, also of a stream; and
what both directions need: keys in two cases, and base64.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters.engine.export import (
    PayloadWriter,
    is_local,
    merge_kept_keys,
)
from conversation_state.adapters.engine.notes import list_of, map_of, signer_of
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
)
from conversation_state.adapters.engine.wire import (
    MEDIA_CLASSES,
    decode_base64,
    encode_base64,
    make_call_id,
    parse_object,
    read_object_text,
    split_data_url,
)
from conversation_state.messages import ToolMessage
from conversation_state.parts import (
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.requests import INVALID_JSON
from conversation_state.tools import ToolCall

# The name of the format: of its notes, and the source of its unknown parts.
SOURCE = "gemini"

_SNAKE = re.compile("_([a-z])")


def in_camel_case(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """
    *raw* with its keys in camel case, in which all are written again. Google's SDKs
    for Python have snake case; the API takes both.

    >>> in_camel_case({"file_uri": "gs://a", "mimeType": "image/png"})
    {'fileUri': 'gs://a', 'mimeType': 'image/png'}
    """
    # Nearly all objects are in camel case, and this runs for each of them. One search
    # takes half the time of one for each key.
    try:
        if "_" not in "".join(raw):
            return raw
    except TypeError:
        pass  # a key that is not text, which the reader refuses

    found: dict[str, Any] = {}
    for key, value in raw.items():
        name = key
        if isinstance(key, str):
            name = _SNAKE.sub(lambda found: found[1].upper(), key)

        found[key if name in raw else name] = value

    return found


@attrs.define(eq=False)
class GeminiObject(ObjectReader):
    """One JSON object while it is read, with its keys in camel case."""

    def __attrs_post_init__(self) -> None:
        self.raw = in_camel_case(self.raw)

    def body(self, key: str) -> GeminiObject:
        """The object under *key*; an empty one if it is missing or null, or wrong."""
        return self.inside(key) or GeminiObject(self.reading, {}, f"{self.path}.{key}")


# What a part may be, of which it is one.
_DATA = (
    "functionCall", "functionResponse", "inlineData", "fileData", "executableCode",
    "codeExecutionResult", "toolCall", "toolResponse", "text",
)  # fmt: skip
_SIGNATURE = "thoughtSignature"
_THOUGHT = frozenset({"text", "thought", _SIGNATURE})
_SLOTS = {"fileData": "fileUri", "inlineData": "data"}


def kind_of(raw: Mapping[str, Any]) -> str:
    """The kind of a part: its data key; "" for no key or several."""
    found = [key for key in _DATA if raw.get(key) is not None]
    # Some servers put an empty text beside other data.
    if len(found) == 2 and raw.get("text") == "":  # noqa: PLR2004 - it and another
        found.remove("text")

    return found[0] if len(found) == 1 else ""


def simplify_content(parts: list[Part]) -> str | list[Part]:
    """*parts* as the content of a message: one plain text is not a list."""
    part = parts[0] if len(parts) == 1 else None
    if isinstance(part, TextPart) and not part.metadata and part.index is None:
        return part.text

    return parts or ""


def read_part(node: GeminiObject, role: str) -> Part:
    """The part at *node*, in a message of *role*; not a call, nor its result."""
    kind = kind_of(node.raw)
    is_thought = role == "assistant" and node.raw.get("thought") is True
    part: Part | None = None
    # A thought may be nothing but its signature.
    if is_thought and (kind == "text" or (not kind and node.raw.get("text") is None)):
        part = _read_thought(node)
    elif kind == "text":
        text = node.text("text")
        node.keep(frozenset({"text"}))
        part = TextPart(text, metadata=node.metadata(SOURCE))
    elif kind in _SLOTS:
        part = _read_medium(node, kind)

    return part or node.as_unknown(SOURCE)


def _read_thought(node: GeminiObject) -> Part:
    text, signature = node.nullable("text"), node.if_text("thoughtSignature")
    if signature:
        node.notes["signed"] = True

    node.keep(_THOUGHT)
    return ReasoningPart(text, signature, metadata=node.metadata(SOURCE))


def _media_class(media_type: str) -> type[MediaPart]:
    return MEDIA_CLASSES.get(media_type.partition("/")[0].lower(), FilePart)


def _read_medium(node: GeminiObject, kind: str) -> Part | None:
    """Content by value or by its address; None if that can't be read."""
    inside, slot = node.body(kind), _SLOTS[kind]
    text = inside.nullable(slot)
    fields: dict[str, Any] = {"url": text}
    if kind == "inlineData":
        fields = {"data": decode_base64(text, urlsafe=True)}
        if "-" in text or "_" in text:
            node.notes["base64"] = "urlsafe"

    if not any(fields.values()):
        node.notes.clear()
        return None

    media_type = inside.nullable("mimeType")
    made = _media_class(media_type)
    # What `write_media` writes without a media type.
    is_made_up = made is not FilePart and media_type == f"{made.kind}/*"
    fields["media_type"] = "" if is_made_up else media_type
    if fields.get("data") is not None and not fields["media_type"]:
        node.notes["untyped"] = True

    if is_local(fields.get("url")):
        node.notes["local"] = True

    known = {slot, "mimeType"}
    if made is FilePart:
        fields["name"] = inside.if_text("displayName")
        known.add("displayName")
        if fields["name"]:
            node.notes["named"] = True

    node.keep(frozenset({kind}))
    node.keep_within(kind, inside, frozenset(known))
    return made(**fields, metadata=node.metadata(SOURCE))


def write_part(writer: PayloadWriter, part: Part, path: str) -> dict[str, Any] | None:
    """What *part* is in a content; None if it has no place there, and is lost."""
    notes = writer.notes(part, path)
    raw: dict[str, Any] | None
    if isinstance(part, (RefusalPart, TextPart)):
        raw = {"text": part.text}
        if isinstance(part, RefusalPart):
            why = "the format has no refusals; it is sent as text"
            writer.lose(path, "refusal", why)
    elif isinstance(part, MediaPart):
        raw = write_media(writer, part, path, notes)
    elif isinstance(part, ReasoningPart):
        if signer_of(part.metadata, SOURCE):
            why = "reasoning is sent only to the provider that created it"
            writer.lose(path, "reasoning", why)
            return None

        raw = {"text": part.text, "thought": True}
        if part.signature:
            raw["thoughtSignature"] = part.signature
    elif isinstance(part, UnknownPart):
        return _write_unknown(writer, part, path)
    else:
        writer.lose(path, part.kind, "contents can't contain this kind of part")
        return None

    if raw is None:
        return None

    raw = merge_kept_keys(map_of(notes, "keys"), raw)
    _drop_empty_signature(writer, raw)
    # Google's own models give empty texts with a signature, and want them back.
    is_own = "thoughtSignature" in raw and notes is not EMPTY_MAP
    is_kept = is_own or writer.is_as_loaded(part.metadata, "text")
    if raw.get("text") == "" and not is_kept:
        writer.lose(path, part.kind, "an empty text is refused where Vertex AI hosts")
        return None

    return raw


def _drop_empty_signature(writer: PayloadWriter, raw: dict[str, Any]) -> None:
    """
    Remove a signature that is empty or null.

    Source:
        ``Corrupted thought signature``,
        https://github.com/NousResearch/hermes-agent/pull/111559
    """
    if writer.is_request and not raw.get(_SIGNATURE, True):
        del raw[_SIGNATURE]


def _write_unknown(
    writer: PayloadWriter, part: UnknownPart, path: str
) -> dict[str, Any] | None:
    raw: dict[str, Any] | None = writer.unknown(part.raw, part.source, path)
    has_data = raw is None or any(raw[key] for key in raw.keys() - _THOUGHT)
    if has_data or not writer.is_request:
        return raw

    writer.lose(path, "part", "a part without data is refused")
    return None


def _is_refused(
    writer: PayloadWriter, part: MediaPart, path: str, notes: Mapping[str, Any]
) -> bool:
    """
    Whether the provider refuses *part*: bytes of a format that it can't read or of no
    known media type, or an address that it can't fetch.
    """
    if not writer.is_fetched(part, path, notes):
        return True

    data, media_type = _read_content(part)
    if data is not None and writer.is_request and _REFUSED.match(media_type):
        writer.lose(path, part.kind, f"the provider reads no {media_type}")
        return True

    if part.data is None or part.media_type or notes.get("untyped") is True:
        return False

    writer.lose(path, part.kind, "data without a media type is refused")
    return True


# Source: https://github.com/googleapis/python-genai/issues/829.
_REFUSED = re.compile(r"application/(msword|octet-stream|vnd\.|zip)", re.IGNORECASE)


def _read_content(part: MediaPart) -> tuple[bytes | None, str]:
    # The bytes of *part*, if it has some, and its media type.
    media_type = part.media_type
    # By URL, without a media type, it is its kind with any subtype.
    if not (media_type or isinstance(part, FilePart)):
        media_type = f"{part.kind}/*"

    held = split_data_url(part.url or "", urlsafe=True)
    if held:
        return held[0], part.media_type or held[1] or media_type

    return part.data, media_type


def write_media(
    writer: PayloadWriter, part: MediaPart, path: str, notes: Mapping[str, Any]
) -> dict[str, Any] | None:
    """
    What *part* is in a content, or in what a function returned; None if it is lost.
    """
    typed = writer.with_type(part, path, notes)
    if typed is None or _is_refused(writer, typed, path, notes):
        return None

    part = typed
    data, stated = _read_content(part)
    media_type: str | None = stated
    if data is not None and stated.lower().startswith("image/"):
        media_type = writer.fit_type(stated, data, path)

    if media_type is None:
        return None

    if _media_class(media_type) is not type(part):
        why = f"its media type makes it another kind of media: {media_type or 'none'}"
        writer.lose(path, part.kind, why)

    inside: dict[str, Any] = {"mimeType": media_type} if media_type else {}
    if data is None:
        key, inside["fileUri"] = "fileData", part.url
    else:
        key, inside["data"] = "inlineData", encode_base64(data)
        if notes.get("base64") == "urlsafe":
            inside["data"] = base64.urlsafe_b64encode(data).decode()

    if isinstance(part, ImagePart) and part.detail:
        writer.lose(path, "detail", "images have no detail setting in this format")
    elif isinstance(part, FilePart) and part.name:
        if notes.get("named") is True:
            inside["displayName"] = part.name
        else:
            writer.lose(path, "name", "only some Google services accept file names")

    return {key: inside}


# What Google has for calls that no Gemini made, whose thoughts it would miss.
SKIP_SIGNATURE = "skip_thought_signature_validator"

# The keys under which SDKs put a result that is not an object: Google's
# own key first, then those of its SDK and of others.
_WRAPPERS = ("output", "result", "return_value", "content")


def read_call(node: GeminiObject, made_id: str, *, first: bool) -> ToolCall:
    """
    The call at *node*, with *made_id* unless it has one; *first* says whether
    it is the first one in its content.
    """
    inside = node.body("functionCall")
    call_id, name = inside.nullable("id"), inside.nullable("name")
    if not call_id:
        call_id = node.notes["made_id"] = made_id

    args, arguments = inside.raw.get("args"), ""
    if is_map(args):
        arguments = read_object_text(inside, "args")
    elif args is not None:
        inside.wrong("args", "an object or null")

    known = {"functionCall"}
    # Gemini refuses a first call without a signature, so `write_call` adds the
    # placeholder; a note says that there was none.
    if first and node.raw.get("thoughtSignature") == SKIP_SIGNATURE:
        known.add("thoughtSignature")
    elif first and "thoughtSignature" not in node.raw:
        node.notes["without"] = ["thoughtSignature"]

    node.keep(frozenset(known))
    node.keep_within("functionCall", inside, frozenset({"args", "id", "name"}))
    return ToolCall(call_id, name, arguments, metadata=node.metadata(SOURCE))


def write_call(
    writer: PayloadWriter, call: ToolCall, path: str, *, first: bool, signed: bool
) -> dict[str, Any]:
    """
    The part that *call* is. The *first* one of an answer gets a placeholder in place of
    a signature that it lacks, unless it was loaded without; *signed* says whether it
    needs one then, too.
    """
    notes = writer.notes(call, path)
    body: dict[str, Any] = {}
    if call.id and call.id != notes.get("made_id"):
        body["id"] = call.id

    body["name"] = call.name
    if call.type != "function":
        writer.lose(path, "type", "all calls are function calls in this format")

    if call.arguments:
        value, why = parse_object(call.arguments)
        if why:
            writer.lose(path, "arguments", why)

        if value is None and writer.is_request:
            value = {INVALID_JSON: call.arguments}

        if value is not None:
            body["args"] = value

    raw: dict[str, Any] = {"functionCall": body}
    merge_kept_keys(map_of(notes, "keys"), raw)
    _drop_empty_signature(writer, raw)
    is_without = _SIGNATURE in list_of(notes, "without") and not signed
    if first and _SIGNATURE not in raw and not is_without:
        raw[_SIGNATURE] = SKIP_SIGNATURE

    return raw


def read_returned(
    inside: GeminiObject, notes: dict[str, Any]
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
            text = ObjectReader(
                inside.reading, response, f"{inside.path}.response"
            ).text(key)
            is_error = key == "error"
            if key not in {"error", _WRAPPERS[0]}:
                notes["key"] = key
        elif response:
            text = read_object_text(inside, "response")
            is_error = _has_error(response)
            notes["object"] = True
    elif response is not None:
        inside.wrong("response", "an object")

    listed = inside.optional_objects("parts", "a list or null")
    parts = [_read_media(node) for node in listed]
    if text is None or parts:
        return [*([] if text is None else [TextPart(text)]), *parts], is_error

    return text, is_error


def _read_media(node: GeminiObject) -> Part:
    # The text of a result is in its response, not among its parts.
    is_text = kind_of(node.raw) == "text"
    return node.as_unknown(SOURCE) if is_text else read_part(node, "tool")


def _has_error(response: Mapping[str, Any]) -> bool:
    # Some wrappers always have both keys, and null under one of them.
    return response.get("error") is not None and response.get("output") is None


def write_result(
    writer: PayloadWriter,
    message: ToolMessage,
    path: str,
    notes: Mapping[str, Any],
    about: Mapping[str, str],
) -> dict[str, Any]:
    """The part that *message* is; *about* has the id and name to say in it."""
    body: dict[str, Any] = {key: value for key, value in about.items() if value}
    text, parts = _write_content(writer, message, path)
    body["response"] = _write_response(text, notes, is_error=message.is_error)
    if text is None and message.is_error:
        writer.lose(path, "is_error", "only a result with a text can be an error")

    if parts:
        body["parts"] = parts

    return merge_kept_keys(map_of(notes, "keys"), {"functionResponse": body})


def _write_content(
    writer: PayloadWriter, message: ToolMessage, path: str
) -> tuple[str | None, list[dict[str, Any]]]:
    """The text of *message*, or None, and its media."""
    if isinstance(message.content, str):
        return message.content, []

    text: str | None = None
    parts: list[dict[str, Any]] = []
    for at, part in enumerate(message.content):
        here = f"{path}.parts[{at}]"
        notes = writer.notes(part, here)
        raw: dict[str, Any] | None = None
        if isinstance(part, TextPart):
            if at:
                why = "all text of a result is joined, before its media"
                writer.lose(here, "text", why)

            text = (text or "") + part.text
        elif isinstance(part, MediaPart):
            raw = write_media(writer, part, here, notes)
        elif isinstance(part, UnknownPart):
            raw = writer.unknown(part.raw, part.source, here)

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

    under: Any = notes.get("key")
    if is_error:
        under = "error"
    elif under not in _WRAPPERS:
        under = _WRAPPERS[0]

    return {under: text}


# Fewer than the levels that a value in metadata, or in a request, may have.
_MAX_STEPS = 80
_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\['([^']*)'\]|\["([^"]*)"\]""")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


class StreamedCalls:
    """
    The calls of one stream while it is read. *take_index* gives the next place.

    Source:
        Vertex AI's ``streamFunctionCallArguments``: the name comes first, then
        arguments by their JSON paths, long texts in pieces, and at last a
        piece that does not say ``willContinue``.
    """

    def __init__(self, take_index: Callable[[], int]) -> None:
        self._take_index = take_index
        self._count = 0
        # The part whose call comes in pieces, and its arguments so far: maps by names
        # and indices, in which a list has the pieces of a text.
        self._part: dict[str, Any] | None = None
        self._args: dict[str | int, Any] = {}

    def read(self, node: GeminiObject, prefix: str) -> list[ToolCall]:
        """The calls whole with the part at *node*. Made ids begin with *prefix*."""
        if not is_map(node.raw["functionCall"]):
            return [self._read_whole_call(node, prefix)]

        body = node.body("functionCall")
        # Only the first piece of a call has its name.
        is_next = self._part is not None and body.raw.get("name")
        calls = self.end(prefix, node.reading, node.path) if is_next else []
        continues = body.raw.get("willContinue")
        if self._part is None:
            if not (continues or body.raw.get("partialArgs")):
                return [*calls, self._read_whole_call(node, prefix)]

            self._part = {"functionCall": {}}

        self._add_piece(self._part, node, body)
        return calls if continues else calls + self.end(prefix, node.reading, node.path)

    def end(self, prefix: str, reading: DocumentReader, path: str) -> list[ToolCall]:
        """The call whose pieces came, if there is one."""
        part, args, self._part, self._args = self._part, self._args, None, {}
        if part is None:
            return []

        part["functionCall"]["args"] = _join_pieces(args)
        return [self._read_whole_call(GeminiObject(reading, part, path), prefix)]

    def _read_whole_call(self, node: GeminiObject, prefix: str) -> ToolCall:
        first, made_id = not self._count, make_call_id(prefix, self._count)
        self._count += 1
        call = read_call(node, made_id, first=first)
        return attrs.evolve(call, index=self._take_index())

    def _add_piece(
        self, whole: dict[str, Any], part: GeminiObject, body: GeminiObject
    ) -> None:
        # The signature may come with any of the pieces.
        part.keep(frozenset({"functionCall"}))
        body.keep(frozenset({"partialArgs", "willContinue"}))
        whole |= part.keys
        whole["functionCall"] |= body.keys
        for piece in body.optional_objects("partialArgs", "a list or null"):
            path = piece.raw.get("jsonPath")
            steps = _parse_path(path) if isinstance(path, str) else ()
            if steps:
                self._set_argument(piece, steps)
            else:
                piece.wrong("jsonPath", "a path of names and numbers, as $.a[0].b")

    def _set_argument(self, piece: GeminiObject, steps: tuple[str | int, ...]) -> None:
        name = next((key for key in _VALUES if piece.raw.get(key) is not None), "")
        if not name:
            return

        inside = self._args
        *above, last = steps
        for step in above:
            before = inside.get(step)
            if not isinstance(before, dict):
                before = inside[step] = {}

            inside = before

        value = piece.raw[name]
        if is_map(value) or is_list(value):
            piece.wrong(name, "a text, a number, true or false")
        elif name != "stringValue":
            value = piece.reading.arguments(value, f"{piece.path}.{name}")
            inside[last] = None if name == "nullValue" else value
        else:
            if not isinstance(inside.get(last), list):
                inside[last] = []

            inside[last].append(piece.text(name))


def _parse_path(path: str) -> tuple[str | int, ...]:
    """What *path*, of RFC 9535's simplest kind, leads through; () if it is invalid."""
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


def _join_pieces(args: Any) -> Any:
    """
    *args* as plain JSON. The items of a list stand in the order of their indices,
    which may be large: it is not filled up to them.
    """
    if isinstance(args, list):
        return "".join(args)

    if not isinstance(args, dict):
        return args

    whole = {step: _join_pieces(value) for step, value in args.items()}
    if whole and all(isinstance(step, int) for step in whole):
        return [whole[step] for step in sorted(whole)]

    return {str(step): value for step, value in whole.items()}
