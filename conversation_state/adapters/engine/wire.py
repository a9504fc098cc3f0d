"""
What formats share on the wire: base64 and ``data:`` URLs; times; the arguments of
calls; the call that a result answers, if the format may leave out its id; and documents
with one list of messages, each of which is read by itself.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any, NoReturn

from conversation_state._canonical import dump as dump_json
from conversation_state._identity import new_entry_id
from conversation_state._wording import is_of_other_format, name_load
from conversation_state.adapters.engine.forms import note_forms
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    describe_failure,
    is_list,
    is_map,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    MediaPart,
    VideoPart,
)
from conversation_state.tools import ToolCall


def encode_base64(data: bytes) -> str:
    """*data* in base64, of the usual alphabet and with padding."""
    return base64.b64encode(data).decode()


def measure_image(data: bytes) -> int:
    """
    The pixels of the longer side of an image; 0 if *data* does not say.

    >>> measure_image(b"GIF89a" + bytes([16, 0, 32, 0]))
    32
    """
    if data[:6] in (b"GIF87a", b"GIF89a"):
        sides = [data[6:8][::-1], data[8:10][::-1]]
    elif data[12:16] == b"IHDR":
        sides = [data[16:20], data[20:24]]
    elif data[8:16] == b"WEBPVP8X":
        sides = [data[24:27][::-1], data[27:30][::-1]]
    elif data[8:16] == b"WEBPVP8 ":
        sides = [data[26:28][::-1], data[28:30][::-1]]
    else:
        sides = _find_jpeg_sides(data)

    return max(int.from_bytes(side) for side in sides)


def _find_jpeg_sides(data: bytes) -> list[bytes]:
    at = 2 if data[:2] == b"\xff\xd8" else len(data)
    while data[at : at + 1] == b"\xff" and at + 9 <= len(data):
        marker = data[at + 1]
        if marker in _FRAMES:
            return [data[at + 5 : at + 7], data[at + 7 : at + 9]]

        at += 2 + int.from_bytes(data[at + 2 : at + 4])

    return [b""]


# The markers of JPEG that begin a frame.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


_TEXTS = frozenset({"application/json", "application/xml", "application/yaml"})


def read_text_file(data: bytes, media_type: str) -> str | None:
    """
    The text in *data*, a file of *media_type* ("" if unknown); None if it is binary.

    >>> read_text_file(b"a,b", "text/csv"), read_text_file(b"PK", "application/zip")
    ('a,b', None)
    """
    if media_type and not media_type.startswith("text/") and media_type not in _TEXTS:
        return None

    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def decode_base64(text: str, *, padded: bool = False, urlsafe: bool = False) -> bytes:
    """
    The bytes of *text*, which is base64; b"" if it is invalid.

    Strict but for what encoders differ in: white space, and padding unless it must be
    *padded*, as Go's decoder wants it. With *urlsafe* that alphabet is valid, too.

    >>> decode_base64("aGk"), decode_base64("aGk", padded=True), decode_base64("?")
    (b'hi', b'', b'')
    """
    text = "".join(text.split())
    if urlsafe:
        text = text.replace("-", "+").replace("_", "/")

    if not padded:
        text = text.rstrip("=")
        text += "=" * (-len(text) % 4)

    # Without *validate* Python skips characters that are not in the alphabet, so any
    # text would be valid.
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # binascii.Error is a subclass
        return b""


def data_url(data: bytes, media_type: str) -> str:
    """
    *data* as a ``data:`` URL.

    >>> data_url(b"hi", "text/plain")
    'data:text/plain;base64,aGk='
    """
    return f"data:{media_type};base64,{encode_base64(data)}"


def url_of(part: MediaPart) -> str:
    """The URL of *part*, a ``data:`` URL if it has data."""
    return part.url or data_url(part.data or b"", part.media_type)


def split_data_url(url: str, *, urlsafe: bool = False) -> tuple[bytes, str] | None:
    """
    The content and the media type of *url*; None if it is not a ``data:`` URL
    in base64, or an empty one.

    >>> split_data_url("data:text/plain;base64,aGk")
    (b'hi', 'text/plain')
    """
    head, comma, body = url.partition(",")
    if not (comma and head.startswith("data:") and head.endswith(";base64")):
        return None

    data = decode_base64(body, urlsafe=urlsafe)
    return (data, head[5:-7]) if data else None


def parse_data_url(url: str) -> tuple[bytes, str] | None:
    """
    What `split_data_url` returns, if `data_url` makes the same *url* of it;
    else None.

    >>> parse_data_url("data:text/plain;base64,aGk=")
    (b'hi', 'text/plain')
    >>> parse_data_url("data:text/plain;base64,aGk") is None
    True
    """
    found = split_data_url(url)
    return found if found and data_url(*found) == url else None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_SECONDS = 10**11  # a number from here on counts milliseconds, or less


def read_time(value: object) -> datetime | None:
    """
    An aware time of ISO 8601, or of seconds, milliseconds or less since 1970; None if
    it is neither.
    """
    try:
        if isinstance(value, str):
            time = datetime.fromisoformat(value)
            return time if time.tzinfo else time.replace(tzinfo=UTC)

        if isinstance(value, (int, float)) and not isinstance(value, bool):
            while isfinite(value) and abs(value) >= _MAX_SECONDS:
                value /= 1000

            return _EPOCH + timedelta(seconds=value)
    except (ValueError, OverflowError):
        pass

    return None


def write_iso(time: datetime) -> str:
    """*time* as JavaScript writes it, with microseconds where it has them."""
    spec = "microseconds" if time.microsecond % 1000 else "milliseconds"
    try:
        time = time.astimezone(UTC)
    except OverflowError:  # it is in no year of UTC
        return time.isoformat(timespec=spec)

    return time.isoformat(timespec=spec).replace("+00:00", "Z")


class DuplicateKeyError(ValueError):
    """An object has a key twice; Python would keep only the last value."""


def parse_arguments(text: str) -> Any:
    """
    The JSON value of *text*, such as the arguments of a call.

    Raises:
        DuplicateKeyError: If an object has a key twice.
        ValueError: If it is not JSON, is nested too deep, or holds a number that is not
            finite.
    """
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def make_unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """
    A parsed JSON object, for the hook of a decoder; an error if a key is there twice.
    """
    made = dict(pairs)
    if len(made) < len(pairs):
        raise DuplicateKeyError("an object has a key twice")

    return made


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def parse_finite(digits: str) -> float:
    """A parsed number, for the hook of a decoder; an error if it would be infinite."""
    number = float(digits)
    # `json` parses 1e999 as infinity, and would write that as `Infinity`, which is not
    # JSON.
    if not isfinite(number):
        _refuse_constant(digits)

    return number


# `json.loads` with options makes a decoder for each text, which takes as long as
# decoding the arguments of most calls.
_DECODER = json.JSONDecoder(
    object_pairs_hook=make_unique_object,
    parse_constant=_refuse_constant,
    parse_float=parse_finite,
)


def read_object_text(node: ObjectReader, key: str) -> str:
    """
    The text of the object under *key*, for a field of ours that has a text, such as
    `ToolCall.arguments`; "" if there was a problem.
    """
    reading, problems = node.reading, node.reading.count
    value = reading.arguments(node.raw[key], f"{node.path}.{key}")
    if reading.count > problems:
        return ""

    try:
        return dump_json(value).decode()
    except TypeError:  # an integer of more than 64 bits
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parse_object(text: str) -> tuple[dict[str, Any] | None, str]:
    """
    The JSON object that the arguments *text* are, None if they are not one; and why
    they don't arrive as they are, "" if they do. An empty text is no object: whether a
    call without arguments has an empty one, each format says.

    >>> parse_object('{"q": 1}'), parse_object("[1]")
    (({'q': 1}, ''), (None, 'arguments must be a JSON object'))
    """
    try:
        value = parse_arguments(text)
    except DuplicateKeyError:
        return None, "arguments must be a JSON object without duplicate keys"
    except ValueError:
        return None, "arguments must be valid JSON"

    if not isinstance(value, dict):
        return None, "arguments must be a JSON object"

    reader = DocumentReader()
    whole = reader.arguments(value, "$")
    if reader.problems:
        return None, f"arguments can't be represented as JSON: {reader.problems[0]}"

    if reader.mended:
        return whole, "contained an unpaired surrogate; U+FFFD is sent instead"

    return whole, ""


# What all providers take as the id of a call. Source: Anthropic takes these
# characters; OpenAI's API on Azure takes 40 of them at most.
_CALL_ID = re.compile("[A-Za-z0-9_-]{1,40}")


def make_call_prefix(response_id: str, choice: int = 0) -> str:
    """
    What ids begin with that are made up for the calls of a response, of its answer
    number *choice*: the same for the response and its stream if it has an id, and
    unique in time if it has none.
    """
    prefix = response_id or new_entry_id()
    return f"{prefix}_{choice}" if choice else prefix


def make_call_id(prefix: str, number: int) -> str:
    """
    The id for call *number* of what *prefix* names, if it came without one.

    At most 40 letters, digits, ``_`` and ``-``, because all providers take these; a
    digest of the *prefix* if that does not fit.

    >>> make_call_id("resp_1", 0), len(make_call_id("a" * 40, 0))
    ('resp_1_call_0', 37)
    """
    call_id = f"{prefix}_call_{number}"
    if _CALL_ID.fullmatch(call_id):
        return call_id

    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:32]}"


class CallPairing:
    """
    The latest calls that have no result yet. Never leaves the function that
    reads a document. Each operation is O(1) on average.
    """

    def __init__(self) -> None:
        self.has_results = False  # since the latest calls
        # The ids of all groups, because a result may come after the next group.
        self._known: set[str] = set()
        self._open: set[str] = set()
        # Calls that are not queued yet. Most results have an id, so the queues are
        # filled only when one without an id comes.
        self._unqueued: list[tuple[str, str, bool]] = []
        # All calls are under None, those of a tool under (name, False), and those of
        # a tool whose id was made up under (name, True). An id stays queued when its
        # call is closed by id, so `close_next` skips ids that are not in `_open`.
        self._queues: dict[tuple[str, bool] | None, deque[str]] = {}

    def start_group(self) -> None:
        """Forget the calls so far: results answer those that follow."""
        self.has_results = False
        self._open.clear()
        self._unqueued.clear()
        self._queues.clear()

    def open_call(self, call_id: str, name: str, *, is_made_up: bool = False) -> None:
        """Add a call; *is_made_up* says whether its id was made up."""
        self._known.add(call_id)
        self._open.add(call_id)
        self._unqueued.append((call_id, name, is_made_up))

    def open_calls(self, calls: Iterable[ToolCall], *, more: bool = False) -> None:
        """Start a group with *calls*; or add them to it if they are *more* of it."""
        if not more:
            self.start_group()

        for call in calls:
            if call.id:
                self.open_call(call.id, call.name)

    def close_call(self, call_id: str) -> bool:
        """Close the call with this id; True if there ever was one."""
        self.has_results = True
        self._open.discard(call_id)
        return call_id in self._known

    def close_next(self, name: str, *, made_up_only: bool = False) -> str:
        """
        Close the first open call of the tool *name*, or else the first open
        one; its id, "" if no call is open.

        With *made_up_only* only calls of that name whose id was made up count.
        """
        self.has_results = True
        for call_id, tool, is_made_up in self._unqueued:
            for key in (None, (tool, False), (tool, True))[: 3 if is_made_up else 2]:
                self._queues.setdefault(key, deque()).append(call_id)

        self._unqueued.clear()

        for key in ((name, True),) if made_up_only else ((name, False), None):
            queue = self._queues.get(key, ())
            while queue:
                call_id = queue.popleft()
                if call_id in self._open:
                    self._open.discard(call_id)
                    return call_id

        return ""


# The parts that hold each kind of media, and the messages of each role.
MEDIA_CLASSES: Mapping[str, type[MediaPart]] = {
    "audio": AudioPart,
    "file": FilePart,
    "image": ImagePart,
    "video": VideoPart,
}
MESSAGE_CLASSES: Mapping[str, Callable[..., Message]] = {
    "assistant": AssistantMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
    "user": UserMessage,
}


# What the provider has stored, which a request of Responses goes on with.
_BEFORE = ("conversation", "previous_response_id", "prompt")


def _has_response(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and message.response is not None


class MessageLoader(DocumentReader):
    """
    One payload while it is read: a format's loader derives from this and reads
    an object (`document`), which gives messages, and a message (`message`).
    """

    source = ""  # the format, if requests of it have rules

    def __init__(self) -> None:
        super().__init__()
        self.pairing = CallPairing()
        # Whether the provider has stored what comes before.
        self.is_continued = False

    def load(self, payload: Any, expected: str) -> tuple[Message, ...]:
        """
        The messages of *payload*, a list or an object.

        Raises:
            DecodeError: If it is not what was *expected*, or anything in it is wrong.
        """
        messages: list[Message] = []
        self.is_continued = is_map(payload) and any(map(payload.get, _BEFORE))
        if is_list(payload):
            messages = self.history(payload, "$")
        elif is_map(payload):
            messages = self.document(payload)
        else:
            self.wrong("$", payload, expected)

        self.finish()
        is_request = not any(map(_has_response, messages))
        return note_forms(
            messages, self.source, is_request=is_request, is_continued=self.is_continued
        )

    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        """The messages of *payload*, an object."""
        # The loader of each format has its own; that of transcripts needs none.
        raise NotImplementedError

    def refuse_document(
        self, payload: Mapping[str, Any], request: str, response: str, listed: str
    ) -> None:
        """
        Note why *payload* can't be read: as a *request* it would have that key, as a
        *response* the other one.
        """
        if request in payload and response in payload:
            what = f"has both {request} and {response}; expected one of them"
            self.problem("$", what)
        elif payload.get("error") is not None:
            why = describe_failure(payload["error"])
            self.problem("$.error", f"is the provider's error: {why}")
        elif response in payload:
            self.wrong(f"$.{response}", payload[response], "a list")
        else:
            advice = name_load(payload) if is_of_other_format(payload) else ""
            self.problem(
                "$",
                f"has neither {request} nor {response}; expected a request, a list of "
                f"{listed}, or a response" + (advice and f"; {advice} reads it"),
            )

    def message(self, raw: Any, path: str, prefix: str) -> Message | None:
        """One message; None if there was a problem. Made ids begin with *prefix*."""
        # A format in which an item may be several messages has `history` instead.
        raise NotImplementedError

    def history(self, raws: Sequence[Any], path: str) -> list[Message]:
        """The messages of the list *raws* at *path*."""
        found = [
            self.message(raw, f"{path}[{at}]", f"message_{at}")
            for at, raw in enumerate(raws)
        ]
        return [message for message in found if message is not None]

    def read_calls(
        self,
        node: ObjectReader,
        prefix: str,
        read_call: Callable[[ObjectReader, str], ToolCall],
        is_empty: Callable[[Mapping[str, Any]], bool] | None = None,
    ) -> list[ToolCall]:
        """
        The calls under ``tool_calls``, a list or null, of the message at *node*.

        *read_call* reads a call from its object, and from the id that the call gets
        if it has none. Where *is_empty* says so, an item is no call, and
        is noted with its position.
        """
        given = node.raw.get("tool_calls")
        if given is not None and not is_list(given):
            node.wrong("tool_calls", "a list or null")
            return []

        if not given:
            if "tool_calls" in node.raw:
                node.keys["tool_calls"] = given

            return []

        # `objects` skips an item that is not an object, and the numbers in the ids
        # behind it are wrong; but then loading fails as a whole.
        calls: list[ToolCall] = []
        for at, call in enumerate(node.objects("tool_calls")):
            if is_empty is not None and is_empty(call.raw):
                raw = call.reading.json(call.raw, call.path)
                node.notes.setdefault("empty_calls", []).append([at, raw])
                continue

            made = "" if call.raw.get("id") else make_call_id(prefix, len(calls))
            calls.append(read_call(call, made))

        # Without calls no group starts, so that the calls before it stay open.
        if calls:
            self.pairing.open_calls(calls)

        return calls

    def resolve_call(
        self, node: ObjectReader, given: str, name: str, prefix: str
    ) -> str:
        """
        The id of the call that the result at *node* answers: the *given* one.

        If that is missing, it is the first open call of the tool *name*, or else the
        first open one, and a note has the id that was chosen; of a result that is
        ``alone``, without a call, it was made of *prefix*.
        """
        if given:
            self.pairing.close_call(given)
            return given

        call_id = self.pairing.close_next(name)
        if not call_id:
            node.notes["alone"] = True

        call_id = node.notes["made_id"] = call_id or prefix
        return call_id
