"""
From a stream of Chat Completions to chunks.

Besides texts, a stream brings calls, audio and lists of dialects in pieces; which call
a piece is of, a list of rules says (`CONTINUES`, `BEGINS`).
"""

from __future__ import annotations

import json
import re
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, NamedTuple

import attrs

from conversation_state._canonical import is_object, load_exactly
from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters.engine.notes import with_notes, without_empty
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    describe_failure,
    is_list,
    is_map,
    mended,
    take_text,
)
from conversation_state.adapters.engine.streaming import (
    ALONE,
    AnswerChoice,
    Repeats,
    SurrogateBuffer,
    achunks_of,
    add_rest,
    add_to,
    as_index,
    check_event,
    chunks_of,
    make_arguments,
    make_chunk,
)
from conversation_state.adapters.engine.usage import (
    RunningCounts,
    as_kept,
    read_paid_text,
)
from conversation_state.adapters.engine.wire import (
    decode_base64,
    make_call_id,
    make_call_prefix,
    read_object_text,
)
from conversation_state.adapters.openai_chat._blocks import (
    MAX_INDEX,
    REASONING_KEYS,
    SOURCE,
    is_empty_call,
    read_content,
    read_images,
)
from conversation_state.adapters.openai_chat._load import (
    find_usage,
    read_chat_counts,
    read_logprobs,
)
from conversation_state.errors import DecodeError, ProviderStreamError
from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.parts import (
    AudioPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from conversation_state.tools import ToolCall

_AUDIO = frozenset({"data", "transcript"})
_CALL = frozenset({"custom", "function", "id", "index", "type"})
_FUNCTION = frozenset({"arguments", "name"})
_CUSTOM = frozenset({"input", "name"})
_LEGACY = "function_call"
# The keys of a delta that calls are under.
CALL_KEYS = frozenset({_LEGACY, "tool_calls"})


@attrs.define(eq=False)
class _ChatCall:
    index: int
    id: str
    made_id: str  # "" if the provider sent an id with the first piece
    name: str = ""
    is_begun: bool = False
    keys: dict[str, Any] = attrs.field(factory=dict)  # that the provider adds
    cut: SurrogateBuffer = attrs.field(factory=SurrogateBuffer)
    pieces: list[str] = attrs.field(factory=list)  # the arguments so far
    size: int = 0  # of these
    is_cumulative: bool = False  # whether each piece begins with those before it

    def is_repeated(self, arguments: str) -> bool:
        """
        Whether *arguments* are the whole arguments, all of which came before.

        Source:
            https://github.com/anomalyco/opencode/pull/17339,
            https://github.com/BerriAI/litellm/issues/20480: a last piece has all
            arguments again, at LiteLLM as JSON in JSON;
            https://github.com/elizaOS/eliza/pull/16973: with other white space.
        """
        # Pieces shorter than half of all before them are not compared: joining these
        # for each would be quadratic. Half, because white space may be missing.
        if not 0 < self.size <= 2 * len(arguments) or self.pieces[-1][-1] != "}":
            return False

        before = "".join(self.pieces)
        if arguments in (before, json.dumps(before)):
            return is_object(before)

        return arguments[0] == "{" and _are_equal(before, arguments)

    def take_new(self, arguments: str) -> str:
        """
        What is new in *arguments*, which may begin with all that came before.

        Source:
            https://github.com/NousResearch/hermes-agent/issues/35592: DeepSeek at
            Baidu sends all arguments so far with each piece.
        """
        if self.is_repeated(arguments):
            return ""

        is_longer = 0 < self.size < len(arguments) + self.is_cumulative
        if is_longer and arguments[0] == "{" == self.pieces[0][0]:
            before = "".join(self.pieces)
            # Where a value may begin, an object with the same keys may be within it.
            if self.is_cumulative or not before.endswith((":", "[", ",", " ", "\n")):
                self.is_cumulative = arguments.startswith(before)
                arguments = arguments.removeprefix(before)

        return arguments


def _are_equal(text: str, other: str) -> bool:
    """Whether both texts are the same JSON object."""
    try:
        return bool(load_exactly(text) == load_exactly(other))
    except DecodeError:
        return False


class _CallPiece(NamedTuple):
    """What a piece says of the call that it is of."""

    at: int | None  # the provider's index
    id: str
    name: str
    arguments: str = ""


def by_index(calls: CallAssembler, piece: _CallPiece) -> _ChatCall | None:
    """
    A piece with an index is of the call that came with it last.

    Source:
        OpenAI's reference; every piece of its streams has one.
    """
    return None if piece.at is None else calls.known.get(piece.at)


def by_id(calls: CallAssembler, piece: _CallPiece) -> _ChatCall | None:
    """
    A piece without an index is of the call whose id it repeats.

    Source:
        Servers that send an id with every piece, and no index.
    """
    return calls.known.get(piece.id) if piece.at is None else None


def by_order(calls: CallAssembler, piece: _CallPiece) -> _ChatCall | None:
    """
    A piece with neither is of the call before it.

    Source:
        Gemini's compatible API once sent calls without an index.
    """
    return calls.opened[-1] if piece.at is None and calls.opened else None


def by_known_id(calls: CallAssembler, piece: _CallPiece) -> _ChatCall | None:
    """
    A piece with an index of its own is of the call whose id it repeats, if that has no
    arguments yet, or the same.

    Source:
        https://github.com/mudler/LocalAI/issues/9722
    """
    call = calls.known.get(piece.id) if piece.id else None
    if call is None or call.made_id or another_name(call, piece):
        return None

    is_more = call.is_repeated if call.pieces else bool
    return call if is_more(piece.arguments) else None


def another_id(call: _ChatCall, piece: _CallPiece) -> bool:
    """
    A piece with another id begins a call. One that began without may get it later.

    Source:
        Servers that number all calls 0.
    """
    return bool(piece.id) and not call.made_id and piece.id != call.id


def another_name(call: _ChatCall, piece: _CallPiece) -> bool:
    """
    A piece with another name begins a call, even without an id; the same name may be
    repeated with every piece.

    Source:
        Servers that send calls without ids, and those that repeat the name.
    """
    return bool(piece.name and call.name) and piece.name != call.name


def whole_json_ends(call: _ChatCall, piece: _CallPiece) -> bool:
    """
    A piece with a name behind whole arguments begins a call, if calls have no ids.

    Source:
        Servers that send two calls of one tool, whole and without ids.
    """
    # A text that is cut elsewhere is not parsed.
    if not (piece.name and call.made_id and call.pieces):
        return False

    if not call.pieces[-1].endswith(("}", "]")):
        return False

    try:
        load_exactly("".join(call.pieces))
    except DecodeError:
        return False

    return True


# Which call a piece continues: that of the first rule that finds one, unless one of the
# others says that the piece begins a new call.
CONTINUES = (by_index, by_id, by_order, by_known_id)
BEGINS = (another_id, another_name, whole_json_ends)


class CallAssembler:
    """The calls of one stream while it is read, numbered as they are opened."""

    def __init__(self, make_prefix: Callable[[], str]) -> None:
        self._make_prefix = make_prefix  # of ids that are made up
        self.opened: list[_ChatCall] = []
        # By the index or the id that the provider gave; and the one of the format
        # before ``tool_calls``.
        self.known: dict[int | str, _ChatCall] = {}
        self._legacy: _ChatCall | None = None
        # The indexes of calls, and the one behind the last.
        self._taken: set[int] = set()
        self._next = 0

    def read(self, delta: ObjectReader) -> list[ToolCall]:
        """The pieces that *delta* brings."""
        pieces = [
            piece
            for node in delta.optional_objects("tool_calls", "a list or null")
            if (piece := self._read_call_piece(node)) is not None
        ]
        legacy = delta.raw.get(_LEGACY)
        if is_map(legacy):
            # An empty one is no call, and says nothing new of one.
            if not is_empty_call(legacy):
                node = ObjectReader(delta.reading, legacy, f"{delta.path}.{_LEGACY}")
                pieces.append(self._read_legacy(node))
        elif legacy is not None:
            delta.wrong(_LEGACY, "an object or null")

        return pieces

    def rest(self) -> list[ToolCall]:
        """
        The last pieces: what still waits for the second half of a character, and what
        the provider adds to calls.
        """
        pieces: list[ToolCall] = []
        for call in self.opened:
            rest = call.cut.rest()
            if rest or call.keys:
                metadata = with_notes(SOURCE, without_empty({"keys": call.keys}))
                piece = ToolCall("", "", rest, index=call.index, metadata=metadata)
                pieces.append(piece)

        return pieces

    def is_mended(self) -> bool:
        return any(call.cut.is_mended for call in self.opened)

    def _read_call_piece(self, node: ObjectReader) -> ToolCall | None:
        raw = node.raw
        at = as_index(raw.get("index"))
        if at is not None and (at.__class__ is not int or not 0 <= at < MAX_INDEX):
            node.wrong("index", "the index of a call, from 0 to 2**31 - 1, or null")
            at = None

        word, known = (
            ("custom", _CUSTOM) if "custom" in raw else ("function", _FUNCTION)
        )
        body = raw.get(word)
        name = arguments = ""
        inside = None
        if is_map(body):
            inside = ObjectReader(node.reading, body, f"{node.path}.{word}")
            name = _get_text(inside, "name") if "name" in body else ""
            key = "input" if word == "custom" else "arguments"
            # Ollama and others send the whole object that OpenAI has as JSON text.
            is_text = not is_map(body.get(key))
            reader = _get_piece if is_text else read_object_text
            arguments = reader(inside, key)
        elif body is not None:
            node.wrong(word, "an object or null")

        if not (name or arguments) and is_empty_call(raw):
            return None

        call_id = _get_text(node, "id") if "id" in raw else ""
        piece = _CallPiece(at, call_id, name, arguments)
        call = self._find_continued(piece) or self._open_call(at, piece.id)
        if word == "function":
            arguments = call.take_new(arguments)

        if at is not None:
            self.known[at] = call

        if not raw.keys() <= _CALL:
            add_rest(call.keys, node, _CALL)

        if inside is not None and not inside.raw.keys() <= known:
            within: dict[str, Any] = {}
            add_rest(within, inside, known)
            add_to(call.keys, {word: within} if within else {})

        if piece.id and piece.id != call.id:
            call.keys["id"] = piece.id

        kind = _get_text(node, "type") if "type" in raw else ""
        return _make_piece(call, name, arguments, {}, kind=kind)

    def _read_legacy(self, body: ObjectReader) -> ToolCall:
        notes = {}
        call = self._legacy
        given_name = _get_text(body, "name")
        if call is None or another_name(call, _CallPiece(None, "", given_name)):
            call = self._legacy = self._open_call(None, "")
            notes = {"key": {_LEGACY: True}}

        add_rest(call.keys, body, _FUNCTION)
        arguments = _get_piece(body, "arguments")
        return _make_piece(call, given_name, arguments, notes)

    def _find_continued(self, piece: _CallPiece) -> _ChatCall | None:
        """The call that *piece* continues; None if it begins a new one."""
        for find in CONTINUES:
            call = find(self, piece)
            if call is not None:
                # Nearly all pieces are arguments alone, and begin nothing.
                begins = (piece.id or piece.name) and any(
                    begins_call(call, piece) for begins_call in BEGINS
                )
                return None if begins else call

        return None

    def _open_call(self, at: int | None, call_id: str) -> _ChatCall:
        # `concat` joins the chunks of a call by its index, so two calls must not have
        # the same one. Some servers number all calls 0.
        index = self._next if at is None or at in self._taken else at
        self._taken.add(index)
        self._next = max(self._next, index + 1)
        made_id = "" if call_id else make_call_id(self._make_prefix(), len(self.opened))
        call = _ChatCall(index, call_id or made_id, made_id)
        self.opened.append(call)
        self.known.setdefault(call.id, call)
        return call


def _get_text(node: ObjectReader, key: str) -> str:
    return node.text(key) if _get_piece(node, key) else ""


def _get_piece(node: ObjectReader, key: str) -> str:
    value = node.raw.get(key)
    if value is None or isinstance(value, str):
        return value or ""

    node.wrong(key, "a text or null")
    return ""


def _make_piece(
    call: _ChatCall, name: str, arguments: str, notes: dict[str, Any], *, kind: str = ""
) -> ToolCall:
    opens, call.is_begun = not call.is_begun, True
    if arguments:
        call.pieces.append(arguments)
        call.size += len(arguments)

    if call.made_id and opens:
        notes = {"made_id": call.made_id, **notes}

    # Some providers repeat the name with every piece; only the first piece has it here.
    new = name if name != call.name else ""
    call.name = call.name or name
    if not (opens or new):
        return make_arguments(call.index, call.cut.next(arguments))

    metadata = with_notes(SOURCE, notes)
    return ToolCall(
        call.id if opens else "",
        new,
        call.cut.next(arguments),
        index=call.index,
        type=(opens and kind) or "function",
        metadata=metadata,
    )


class AudioAssembler:
    """The audio of one stream, which is a part at the end."""

    def __init__(self) -> None:
        self._keys: dict[str, Any] = {}
        # The pieces of the data, in base64, and of the transcript.
        self._data: list[str] = []
        self._transcript: list[str] = []

    def read(self, delta: ObjectReader) -> None:
        node = delta.inside("audio")
        if node is not None:
            add_rest(self._keys, node, _AUDIO)
            self._data.append(_get_piece(node, "data"))
            self._transcript.append(_get_piece(node, "transcript"))

    def finish(self) -> tuple[AudioPart | None, dict[str, Any]]:
        """The audio, None if it can't be decoded; and what there is instead."""
        transcript, encoded = mended("".join(self._transcript)), "".join(self._data)
        keys = {**self._keys, **without_empty({"transcript": transcript})}
        # Each piece may have been encoded by itself, with padding at its end. A single
        # character that is left of a piece is less than a byte.
        texts = [
            text[:-1] if len(text) % 4 == 1 else text
            for text in re.split("=+", "".join(encoded.split()))
        ]
        decoded = [decode_base64(text) for text in texts if text]
        if not decoded or not all(decoded):
            return None, {**keys, **without_empty({"data": encoded})}

        notes = {"key": {"audio": True}, "keys": keys}
        metadata = with_notes(SOURCE, without_empty(notes))
        return AudioPart(data=b"".join(decoded), metadata=metadata), {}


class _PartialText(list[str]):
    """A text that comes in pieces: appending each to a text would copy the text."""


class IndexedLists:
    """
    Lists whose items come in pieces, most with the index of the item they are of.

    If a key comes twice, its last value stands, unless it is a text that comes in
    pieces. A piece with another type or id belongs to another item, even if the
    index is the same (OpenRouter). Without an index (LiteLLM), a text continues
    until it is signed.
    """

    def __init__(self) -> None:
        self._lists: dict[str, list[Any]] = {}
        # The last item of each list with an index, and without one.
        self._last: dict[tuple[str, object], dict[str, Any]] = {}

    def add(self, key: str, pieces: Sequence[Any], texts: frozenset[str]) -> None:
        """
        Add *pieces* of items of the list under *key*, plain JSON. The values of the
        keys *texts* come in pieces themselves.
        """
        items = self._lists.setdefault(key, [])
        for piece in pieces:
            if not is_map(piece):
                items.append(piece)
                continue

            at: Any = piece.get("index")
            place = (key, at if at.__class__ is int else None)
            item = self._last.get(place)
            if item is None or not _is_more_of(item, piece, texts):
                item = self._last[place] = {}
                items.append(item)

            _add_to_item(item, piece, texts)

    def rest(self) -> dict[str, Any]:
        """The lists, as far as they were received."""
        return {
            key: [_join_texts(item) if is_map(item) else item for item in items]
            for key, items in self._lists.items()
        }


def _is_more_of(
    item: Mapping[str, Any], piece: Mapping[str, Any], texts: frozenset[str]
) -> bool:
    """
    Whether *piece* can belong to *item*: neither their ids nor their types differ. If
    they have no index, the item has one of the keys *texts* and no signature yet.
    """
    if piece.get("index").__class__ is not int and (
        texts.isdisjoint(item) or item.get("signature")
    ):
        return False

    return not any(
        None not in (item.get(key), piece.get(key)) and item[key] != piece[key]
        for key in ("id", "type")
    )


def _add_to_item(
    item: dict[str, Any], piece: Mapping[str, Any], texts: frozenset[str]
) -> None:
    is_end = piece.get("signature") and piece.get("index") is None
    for key, value in piece.items():
        before = item.get(key)
        if key not in texts or not isinstance(value, str):
            if value is not None or key not in item:
                item[key] = value
        elif not isinstance(before, _PartialText):
            item[key] = _PartialText([value])
        # LiteLLM may repeat the whole text in the last piece, with its signature.
        elif not is_end or "".join(before) != value:
            before.append(value)


def _join_texts(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: "".join(value) if isinstance(value, _PartialText) else value
        for key, value in item.items()
    }


# `obfuscation` is padding that hides the length of a piece.
_RESPONSE = frozenset({"choices", "error", "model", "obfuscation", "object", "usage"})
_CHOICE = frozenset(
    {"delta", "error", "finish_reason", "index", "logprobs", "message", "usage"}
)
# Lists whose items come in pieces, and the keys of texts in these that do, too: tools
# that Groq ran, and the reasoning of OpenRouter and of LiteLLM.
_INDEXED = {
    "executed_tools": frozenset[str](),
    "reasoning_details": frozenset({"summary", "text"}),
    "thinking_blocks": frozenset({"thinking"}),
}
# Groq sends the `channel` with every piece, and rejects messages that
# have it.
_DELTA = frozenset({
    "audio", "channel", "content", "function_call", "refusal", "role", "tool_calls",
    *REASONING_KEYS,
})  # fmt: skip
_BARE = frozenset({"channel", "content", "role"})
_CONTENT = _DELTA - CALL_KEYS

# The types of events of OpenAI's SDK (`client.chat.completions.stream`): one wraps a
# chunk and the answer so far, the others are derived from these.
_WRAPPER = "chunk"
_DERIVED = frozenset({
    "content.delta", "content.done", "logprobs.content.delta", "logprobs.content.done",
    "logprobs.refusal.delta", "logprobs.refusal.done", "refusal.delta", "refusal.done",
    "tool_calls.function.arguments.delta", "tool_calls.function.arguments.done",
})  # fmt: skip


def load_chunks(
    events: Iterable[Any], *, choice: int = 0
) -> Iterator[AssistantMessage]:
    """
    The chunks that the *events* of a stream bring, as they come; `concat` them.

    Together they hold what `load` returns for the whole response, except for nulls
    and the padding called ``obfuscation``; audio and images are parts
    at the end.

    A call keeps the provider's index, or gets the next one if that is taken or
    missing. A call without an id gets a made-up one.

    Args:
        events: The data of the server-sent events, as plain JSON values. The
            ``[DONE]`` at the end may be left out. Or the events of the SDK's
            ``client.chat.completions.stream()``, each with
            ``.to_dict(mode="json")``: those that it derives are not read again.
        choice: Which of several answers to read (``n``), from 0 on. Where none has the
            number 0, it is the first one, which comes at the end of the stream.

    Raises:
        ProviderStreamError: If an event reports that the provider failed, after all
            chunks before it.
        DecodeError: If an event is invalid in the format and its dialects, with every
            problem in it, after all chunks that could be read.

    Source:
        OpenAI sends usage in an event of its own, Groq and DeepSeek with the
        last one, Groq twice. Some servers number all calls 0; some send calls
        whole and without ids.

    >>> from conversation_state.chunks import concat
    >>> deltas = [{"content": "Hel"}, {"content": "lo"}]
    >>> concat(load_chunks({"choices": [{"delta": delta}]} for delta in deltas)).text
    'Hello'
    """
    return chunks_of(ChatStream(choice), events, SOURCE, own=SOURCE)


def aload_chunks(
    events: AsyncIterable[Any], *, choice: int = 0
) -> AsyncIterator[AssistantMessage]:
    """The async twin of `load_chunks`, for events that are awaited."""
    return achunks_of(ChatStream(choice), events, SOURCE, own=SOURCE)


class ChatStream:
    def __init__(self, choice: int) -> None:
        self._choice = AnswerChoice(choice)
        self._reader = DocumentReader()
        self._reader.is_answer = True
        self._is_begun = False
        # What the events repeat, beside what is read of each.
        self._event = Repeats("choices", "obfuscation")
        self._answer = Repeats("delta")
        self._finish_reason = ""
        self._model = ""
        self._usage: RunningCounts | None = None
        # The notes: what has no field of ours, of the response, its choice and its
        # message.
        self._of_response: dict[str, Any] = {}
        self._of_choice: dict[str, Any] = {}
        self._keys: dict[str, Any] = {}
        # The texts that came, by key; and whether all pieces of each were empty.
        self._texts: dict[str, SurrogateBuffer] = {}
        self._is_empty: dict[str, bool] = {}
        self._has_text = False
        # The keys of the reasoning that the last chunk ended with, and more may follow.
        self._open_thought: dict[str, bool] = {}
        self._mended: dict[str, bool] = {}
        self._error: Any = None
        # What few streams have.
        self._calls: CallAssembler | None = None
        self._audio: AudioAssembler | None = None
        self._indexed: IndexedLists | None = None
        # Of ids that are made up, if the response has none.
        self._prefix = ""

    def read(self, event: Any, path: str) -> Iterator[AssistantMessage]:
        if not self._event.has(event):
            event, path = self._read_response(event, path)

        choices = event.get("choices")
        if choices.__class__ is not list:
            choices = self._check_choices(choices, path)

        for at, choice in enumerate(choices):
            response = None
            if not self._answer.has(choice):
                is_ours, response = self._read_answer(choice, at, path)
                if not is_ours:
                    self._answer.forget()
                    continue

            chunk = self._read_delta(choice, at, path, response)
            if chunk is not None:
                yield chunk

        # The chunks that could be read come before the error.
        if self._reader.mended:
            self._note_mended()

        if self._reader.problems:
            self._reader.finish()

        if self._error is not None:
            raise ProviderStreamError(describe_failure(self._error), event)

    def _check_choices(self, choices: Any, path: str) -> Sequence[Any]:
        if choices is None or is_list(choices):
            return choices or ()

        self._reader.wrong(f"{path}.choices", choices, "a list of choices")
        return ()

    def _note_mended(self) -> None:
        for where in self._reader.mended:
            _, delta, name = where.partition(".delta.")
            self._mended |= {re.split(r"\W", name)[0]: True} if delta else {}

        self._reader.mended.clear()

    def _read_response(self, event: Any, path: str) -> tuple[Mapping[str, Any], str]:
        """
        Read what *event* has beside its choices. The provider's event in it, if it is
        one of the SDK's, and its path; an empty one if the SDK derived it.
        """
        reader = self._reader
        if event.__class__ is not dict:
            check_event(reader, event, path)

        if "type" in event and "choices" not in event:
            kind = event["type"]
            if isinstance(kind, str) and kind in _DERIVED:
                if not self._is_begun:
                    reader.problem(path, ALONE)

                return {}, path

            if kind == _WRAPPER and is_map(event.get(_WRAPPER)):
                event, path = event[_WRAPPER], f"{path}.{_WRAPPER}"

        self._is_begun = True
        self._add_usage(find_usage(event)[0])
        node = ObjectReader(reader, event, path)
        if event.get("model") is not None:
            model = read_paid_text(node, "model", self._of_response)
            self._model = model or self._model

        add_rest(self._of_response, node, _RESPONSE)
        if event.get("error") or event.get("object") == "error":
            self._error = event.get("error") or event

        return event, path

    def _add_usage(self, block: Any) -> None:
        # The first answer has the usage of all answers, as in a whole response.
        if block is not None and not self._choice.number:
            self._usage = self._usage or RunningCounts(read_chat_counts)
            self._usage.add(block)

    def _read_answer(
        self, raw: Any, at: int, path: str
    ) -> tuple[bool, ResponseMeta | None]:
        """
        Read what the choice *raw*, number *at*, has beside its delta: whether it is the
        one that is read at all, and its log probabilities, if any.
        """
        if not is_map(raw):
            self._reader.wrong(f"{path}.choices[{at}]", raw, "an object")
            return False, None

        if not self._choice.takes(raw, at, path):
            return False, None

        return True, self._read_ours(raw, at, path)

    def _read_ours(
        self, raw: Mapping[str, Any], at: int, path: str, *, is_held: bool = False
    ) -> ResponseMeta | None:
        """As `_read_answer`, of our answer; *is_held* if its number differs."""
        choice = ObjectReader(self._reader, raw, f"{path}.choices[{at}]")
        # Where Moonshot has it, while the rest of the event repeats.
        self._add_usage(raw.get("usage"))
        index = raw.get("index")
        if raw.get("finish_reason") is not None:
            reason = read_paid_text(choice, "finish_reason", self._of_choice)
            self._finish_reason = reason or self._finish_reason

        # OpenRouter reports under this key that the provider behind it failed.
        self._error = self._error or raw.get("error") or None
        logprobs = None
        if raw.get("logprobs") is not None:
            kept: dict[str, Any] = {}
            logprobs = read_logprobs(choice, kept)
            # What is no object is replaced by the next.
            before = self._of_choice.get("logprobs")
            if isinstance(before, dict) and is_map(kept.get("logprobs")):
                kept["logprobs"], left = before, kept["logprobs"]
                add_to(before, left)

            self._of_choice.update(kept)

        add_rest(self._of_choice, choice, _CHOICE)
        if is_held or (index is not None and index.__class__ is not int):
            kept_index = choice.reading.json(as_kept(index), f"{choice.path}.index")
            self._of_choice["index"] = kept_index

        return ResponseMeta(logprobs=logprobs) if logprobs else None

    def _read_delta(
        self,
        choice: Mapping[str, Any],
        at: int,
        path: str,
        response: ResponseMeta | None,
    ) -> AssistantMessage | None:
        delta_of_choice = choice.get("delta")
        raw: Mapping[str, Any] = (
            delta_of_choice
            if type(delta_of_choice) is dict
            else self._check_delta(choice, f"{path}.choices[{at}]")
        )
        content: Any = raw.get("content")
        calls: list[ToolCall] = []
        # Nearly all deltas are a text, perhaps with a role.
        if isinstance(content, str) and raw.keys() <= _BARE:
            content = self._add_piece("content", content)
            if content:
                self._has_text, self._open_thought = True, {}
        else:
            delta = ObjectReader(self._reader, raw, f"{path}.choices[{at}].delta")
            content, calls = self._read_more(delta)

        role = raw.get("role")
        if role and role != "assistant":
            where = f"{path}.choices[{at}].delta.role"
            self._reader.wrong(where, role, "assistant")

        if not (content or calls or response):
            return None

        if response is None and content.__class__ is str:
            return make_chunk(content, tuple(calls))

        return AssistantMessage(content, tool_calls=calls, response=response)

    def _check_delta(self, choice: Mapping[str, Any], path: str) -> Mapping[str, Any]:
        """The delta of *choice*; an empty one if it has none."""
        delta = choice.get("delta")
        if is_map(delta):
            return delta

        if "message" in choice and is_map(choice["message"]) and self._has_pieces():
            # MiniMax ends with the whole response, which has the usage.
            # Source: https://github.com/GCWing/OpenBitFun/pull/792
            return {}

        if "message" in choice:
            what = "is a whole response, not a stream event; use load()"
            self._reader.problem(path, what)
        elif "text" in choice:
            what = "is a legacy completion, which has no messages"
            self._reader.problem(path, what)
        elif delta is not None:
            self._reader.wrong(f"{path}.delta", delta, "an object or null")

        return {}

    def _has_pieces(self) -> bool:
        return bool(self._texts) or bool(self._calls and self._calls.opened)

    def _read_more(self, delta: ObjectReader) -> tuple[Any, list[ToolCall]]:
        """The content and the calls of a *delta* that has more than a text."""
        keys = delta.raw.keys()
        content: Any = ""
        if not keys.isdisjoint(_CONTENT):
            content = self._read_content(delta)

        calls: list[ToolCall] = []
        if not keys.isdisjoint(CALL_KEYS):
            self._calls = self._calls or CallAssembler(self._make_id_prefix)
            calls = self._calls.read(delta)

        if not keys <= _DELTA:
            self._read_indexed(delta)
            add_rest(self._keys, delta, _DELTA.union(_INDEXED))

        return content, calls

    def _read_content(self, delta: ObjectReader) -> Any:
        before = self._read_reasoning(delta)
        content: Any = delta.raw.get("content")
        if content is None or isinstance(content, str):
            content = self._read_text(delta, "content")
        else:
            content = read_content(delta, "assistant")

        # `_read_refusal` notes the key of a refusal behind a text, as `load` does.
        self._has_text = self._has_text or bool(content)
        if delta.raw.get("audio") is not None:
            self._audio = self._audio or AudioAssembler()
            self._audio.read(delta)

        after = self._read_refusal(delta)
        if content or after:
            self._open_thought = {}

        if before or after:
            if isinstance(content, str):
                content = [TextPart(content)] if content else []

            content = [*before, *content, *after]

        return content

    def _read_indexed(self, delta: ObjectReader) -> None:
        self._indexed = self._indexed or IndexedLists()
        for key in _INDEXED.keys() & delta.raw.keys():
            given = delta.raw[key]
            pieces = delta.reading.json(given, f"{delta.path}.{key}")
            if given is not None:
                listed = pieces if is_list(given) else [pieces]
                self._indexed.add(key, listed or (), _INDEXED[key])

    def _make_id_prefix(self) -> str:
        response_id = self._of_response.get("id")
        if isinstance(response_id, str) and response_id:
            return make_call_prefix(response_id, self._choice.number)

        # One stream has one prefix.
        self._prefix = self._prefix or make_call_prefix("", self._choice.number)
        return self._prefix

    def _read_text(self, delta: ObjectReader, key: str) -> str:
        piece = delta.raw.get(key)
        if isinstance(piece, str):
            return self._add_piece(key, piece)

        if piece is not None:
            delta.wrong(key, "a text or null")

        return ""

    def _add_piece(self, key: str, piece: str) -> str:
        """What is new of the text *key*, which goes on with *piece*."""
        # What was empty from the beginning is sent back empty, as DeepSeek wants it.
        if not piece:
            self._is_empty.setdefault(key, True)
            return ""

        cut = self._texts.get(key)
        if cut is None:
            cut = self._texts[key] = SurrogateBuffer()

        self._is_empty[key] = False
        return cut.next(piece)

    def _read_reasoning(self, delta: ObjectReader) -> list[Part]:
        thoughts: dict[str, dict[str, bool]] = {}
        for key in REASONING_KEYS:
            text = self._read_text(delta, key) if key in delta.raw else ""
            if text:
                # Some servers send the same text under both keys.
                thoughts.setdefault(text, {})[key] = True

        parts: list[Part] = []
        for text, keys in thoughts.items():
            # The first piece has a note on the key, so those it is joined with need
            # none.
            note = {} if keys == self._open_thought else keys
            parts.append(ReasoningPart(text, metadata=_note_keys(note)))
            self._open_thought = keys

        return parts

    def _read_refusal(self, delta: ObjectReader) -> list[Part]:
        refusal = self._read_text(delta, "refusal")
        if not refusal:
            return []

        keys = {"refusal": True} if self._has_text else {}
        return [RefusalPart(refusal, metadata=_note_keys(keys))]

    def _take_images(self) -> list[Part]:
        images = read_images(ObjectReader(self._reader, self._keys, "$"))
        if images:
            del self._keys["images"]

        return images

    def end(self, *, broken: bool) -> Iterator[AssistantMessage]:
        """
        The last chunk: metadata, and text that waited for the rest of a character; and
        before it, the answer that has another number, if none has the right one.
        """
        held, error = self._choice.take_held(), self._error
        for raw, at, path in held:
            logprobs = self._read_ours(raw, at, path, is_held=True)
            chunk = self._read_delta(raw, at, path, logprobs)
            if chunk is not None:
                yield chunk

        self._note_mended()
        rest = {key: cut.rest() for key, cut in self._texts.items() if cut.held}
        parts: list[Part] = [
            ReasoningPart(rest[key], metadata=_note_keys({key: True}))
            for key in REASONING_KEYS
            if key in rest
        ]
        if self._audio is not None:
            audio, instead = self._audio.finish()
            parts += [audio] if audio else []
            self._keys |= {"audio": instead} if instead else {}

        parts += self._take_images()
        if "refusal" in rest:
            parts.append(RefusalPart(rest["refusal"]))

        content = rest.get("content", "")
        if parts and content:
            parts.append(TextPart(content))

        response = dict(self._of_response)
        response_id = take_text(response, "id")
        usage = None
        if self._usage is not None:
            usage, left = self._usage.read()
            response |= {"usage": left} if left else {}

        calls: Sequence[ToolCall] = ()
        texts = sorted(self._texts.items())
        self._mended |= {key: True for key, cut in texts if cut.is_mended}
        if self._calls is not None:
            calls = self._calls.rest()
            self._mended |= {"tool_calls": True} if self._calls.is_mended() else {}

        self._keys |= self._indexed.rest() if self._indexed else {}
        # The texts that came, and were empty, where `load` keeps them. An empty content
        # is usual unless something stands next to it.
        empty = [key for key in self._is_empty if self._is_empty[key]]
        has_more = bool(self._calls and self._calls.opened)
        has_more = has_more or len(empty) < len(self._is_empty)
        self._keys |= {key: "" for key in empty if key != "content" or has_more}
        notes: dict[str, Any] = {
            "response": response,
            "choice": self._of_choice,
            "keys": self._keys,
            "mended": list(self._mended),
        }
        metadata = with_notes(SOURCE, without_empty(notes))
        reason = self._finish_reason or ("interrupted" if broken else "")
        yield AssistantMessage(
            parts or content,
            tool_calls=calls,
            response=ResponseMeta(reason, usage, None, self._model, response_id),
            metadata=metadata,
        )
        if held and self._reader.problems:
            self._reader.finish()

        if held and self._error is not error:
            raise ProviderStreamError(describe_failure(self._error), held[-1].raw)


def _note_keys(keys: dict[str, bool]) -> Any:
    return with_notes(SOURCE, {"key": keys}) if keys else EMPTY_MAP
