"""The blocks of a content, and the parts they are; and constants of the format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conversation_state._persistent import thaw
from conversation_state.adapters.engine.export import (
    PayloadWriter,
    cannot_contain,
    merge_kept_keys,
    note_medium,
)
from conversation_state.adapters.engine.notes import map_of, notes_of
from conversation_state.adapters.engine.openai import (
    Content,
    content_of,
    is_odd,
    name_file,
    read_logprob_list,
    write_content,
)
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_list,
)
from conversation_state.adapters.engine.usage import read_paid_text
from conversation_state.messages import LogProb
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    RefusalPart,
    TextPart,
    UnknownPart,
)

# The name of the format: of its notes, and the source of its unknown parts.
SOURCE = "openai_responses"

# The blocks that are nothing but text.
TEXTS = frozenset({"input_text", "output_text", "text"})

# The roles whose messages may hold media.
_WITH_MEDIA = frozenset({"tool", "user"})

# The blocks that hold media: the keys of their content, and of a further field. There
# is a block of audio, too, which the provider refuses.
_MEDIA: dict[str, tuple[tuple[str, ...], str, str]] = {
    "input_file": (("file_data", "file_url"), "filename", "name"),
    "input_image": (("image_url",), "detail", "detail"),
}

# The types of items that are calls of the caller's own tools, with the key of the
# arguments; and the types of their results, by the type of the call.
CALLS = {"custom_tool_call": "input", "function_call": "arguments"}
RESULTS = {"custom": "custom_tool_call_output", "function": "function_call_output"}

# The types of items in a history that the caller makes and not the model: they separate
# one response from the next. In a response all items are the provider's.
CALLERS = frozenset(
    {
        "additional_tools",
        "apply_patch_call_output",
        "compaction_trigger",
        "computer_call_output",
        "configuration_update",
        "local_shell_call_output",
        "mcp_approval_response",
        "shell_call_output",
        "tool_search_output",
        *RESULTS.values(),
    }
)

# Calls of the provider's own tools that the caller runs, with the results that each has
# to have in a request. Both are kept as they are.
OWN_RESULTS = {
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "mcp_approval_request": "mcp_approval_response",
    "shell_call": "shell_call_output",
    "tool_search_call": "tool_search_output",
}
# The keys that have the id by which a call and its result are matched, where that is
# not ``call_id``. Source: the types of OpenAI's SDK, where ``local_shell_call_output``
# has the id of its call as ``id``; its guide has ``call_id`` there.
_ID_KEYS = {
    "local_shell_call": ("call_id", "id"),
    "local_shell_call_output": ("call_id", "id"),
    "mcp_approval_request": ("id",),
    "mcp_approval_response": ("approval_request_id",),
}


def pair_keys(raw: Mapping[str, Any]) -> list[tuple[str, str]]:
    """
    What the item *raw*, a call that the caller runs or a result of one, is matched with
    its other half by: the type of the result and an id. [] for another item.
    """
    kind: Any = raw.get("type")
    if not isinstance(kind, str):
        return []

    keys = _ID_KEYS.get(kind, ("call_id",))
    names = [name for key in keys if isinstance(name := raw.get(key), str)]
    if kind in OWN_RESULTS:
        return [(OWN_RESULTS[kind], name) for name in names]

    return [(kind, name) for name in names[:1] if kind in _OWN_OUTPUTS]


def find_unpaired(items: Iterable[tuple[Any, Any]]) -> set[Any]:
    """
    Where those of *items*, each with where it is, are that are calls of `OWN_RESULTS`
    without a result behind them, or results without a call before them.
    """
    # The calls that wait for a result, under each of their keys.
    waiting: dict[tuple[str, str], tuple[Any, list[tuple[str, str]]]] = {}
    unpaired: set[Any] = set()
    for where, raw in items:
        keys = pair_keys(raw)
        if not keys:
            continue

        is_call, is_found = raw["type"] in OWN_RESULTS, False
        for key in keys:
            if key in waiting:
                is_found = True
                at, names = waiting[key]
                unpaired |= {at} if is_call else set()
                for name in names:
                    waiting.pop(name, None)

        if is_call:
            waiting.update(dict.fromkeys(keys, (where, keys)))
        elif not is_found:
            unpaired.add(where)

    return unpaired | {at for at, _ in waiting.values()}


_OWN_OUTPUTS = frozenset(OWN_RESULTS.values())


def is_unfinished(raw: Mapping[str, Any]) -> bool:
    """
    Whether the item *raw*, a call that the provider runs, is as a stream that broke off
    left it: without what the provider requires of it.

    Source:
        ``Missing required parameter: 'input[1].action'``. A picture that is there may
        still be ``generating``.
    """
    is_callers = str(raw.get("type")) in CALLERS.union(OWN_RESULTS)
    return not (is_callers or raw.get("result")) and raw.get("status") in _UNFINISHED


_UNFINISHED = ("calling", "generating", "in_progress", "interpreting", "searching")


def text_block(role: str) -> str:
    return "output_text" if role == "assistant" else "input_text"


_PLAIN = frozenset({"text", "type"})
_TEXT = _PLAIN | {"logprobs"}
_REFUSAL = frozenset({"refusal", "type"})


def read_content(node: ObjectReader, key: str, role: str) -> str | list[Part]:
    """The content under *key* in a message of *role*: a text, or parts."""
    content = node.raw.get(key)
    if isinstance(content, str):
        return node.text(key)

    if not is_list(content):
        node.wrong(key, "a text or a list of parts")
        return ""

    if not content:
        node.keys[key] = []
        return ""

    return [read_block(block, role) for block in node.objects(key)]


def read_block(
    block: ObjectReader,
    role: str,
    index: int | None = None,
    logprobs: list[LogProb] | None = None,
) -> Part:
    """
    The part that *block* is in a message of *role*. In a response, its log
    probabilities are added to *logprobs*.
    """
    kind = block.raw.get("type")
    part: Part | None = None
    if not isinstance(kind, str):
        block.wrong("type", "a text")
        return TextPart("", index=index)

    if kind in TEXTS:
        if kind != text_block(role):
            block.notes["block"] = kind

        text = block.text("text")
        if block.raw.keys() != _PLAIN:
            _keep_logprobs(block, logprobs)

        return TextPart(text, index=index, metadata=block.metadata(SOURCE))

    if kind == "refusal" and role == "assistant":
        text = block.text("refusal")
        block.keep(_REFUSAL)
        return RefusalPart(text, index=index, metadata=block.metadata(SOURCE))

    if kind in _MEDIA and role in _WITH_MEDIA:
        part = _read_medium(block, kind, index)

    return part or block.as_unknown(SOURCE, index)


def _keep_logprobs(block: ObjectReader, logprobs: list[LogProb] | None) -> None:
    """
    Keep the other keys of a text's *block*.

    The log probabilities of a response are in its `ResponseMeta`, and are not sent
    back.
    """
    given = block.raw.get("logprobs")
    if logprobs is None or not given:
        block.keep(_PLAIN)
        return

    # What can't be read does not hide an answer that was paid for.
    trial = DocumentReader()
    found = read_logprob_list(trial, given if is_list(given) else [given], "$")
    if trial.count:
        block.keep(_TEXT)
        read_paid_text(block, "logprobs", block.keys)
        return

    logprobs += found
    block.reading.mended += trial.mended
    if any(map(is_odd, given)):
        block.keep(_PLAIN)
    else:
        block.keep(_TEXT)
        block.keys["logprobs"] = []


def _read_medium(block: ObjectReader, kind: str, index: int | None) -> Part | None:
    """
    The part for a block that holds media; None for one that the provider stores, and
    for content that can't be read.
    """
    keys, word, field = _MEDIA[kind]
    given = [key for key in keys if block.raw.get(key) is not None]
    # A `FilePart` holds a URL or data. A block with both is kept as an unknown part,
    # because they may be different files.
    if len(given) != 1 or not isinstance(block.raw[given[0]], str):
        return None

    (key,) = given
    text = block.text(key)
    content = content_of(text, "file" if key == "file_data" else key)
    if key == "file_url" and content is not None:
        content = Content(text, None, "")

    if content is None or (key == "file_data" and content.data is None):
        return None

    made: Any = FilePart if kind == "input_file" else ImagePart
    note_medium(block.notes, made, content.data, content.media_type, content.url)
    block.keep(frozenset({"type", word, key}))
    fields = {**content._asdict(), field: block.if_text(word)}
    return made(**fields, index=index, metadata=block.metadata(SOURCE))  # type: ignore[no-any-return]


def write_block(
    writer: PayloadWriter, part: Part, path: str, role: str
) -> dict[str, Any] | None:
    """The block that *part* is in a message of *role*; None if it is lost."""
    notes = writer.notes(part, path)
    block: dict[str, Any] | None = None
    done = map_of(notes, "done")
    if done and notes.get("given") == getattr(part, "text", None):
        # The end of a stream is right, where it differs from the pieces given.
        return thaw(done)  # type: ignore[no-any-return]

    # OpenAI refuses an answer's blocks of the type that a user's have.
    is_picky = writer.rules is not None and not writer.rules.takes_foreign_items
    if isinstance(part, TextPart):
        noted: Any = None if is_picky else notes.get("block")
        kind = noted if isinstance(noted, str) and noted in TEXTS else text_block(role)
        block = {"type": kind, "text": part.text}
    elif isinstance(part, RefusalPart):
        block = {"type": "refusal", "refusal": part.text}
    elif isinstance(part, UnknownPart):
        if is_picky and role == "assistant" and part.raw.get("type") in _MEDIA:
            writer.lose(path, str(part.raw["type"]), cannot_contain(role, "media"))
            return None

        return writer.unknown(part.raw, part.source, path)  # type: ignore[no-any-return]
    elif isinstance(part, MediaPart):
        block = _write_medium(writer, part, path, role)

    return block and merge_kept_keys(map_of(notes, "keys"), block)


def _write_medium(
    writer: PayloadWriter, part: MediaPart, path: str, role: str
) -> dict[str, Any] | None:
    if isinstance(part, AudioPart):
        writer.lose(path, part.kind, "the provider rejects audio input")
        return None

    if role not in _WITH_MEDIA or not isinstance(part, (FilePart, ImagePart)):
        writer.lose(path, part.kind, cannot_contain(role, part.kind))
        return None

    notes = notes_of(part.metadata, SOURCE)
    if not writer.is_fetched(part, path, notes, is_of_web=True):
        return None

    typed: Any = writer.with_type(part, path, notes)
    typed = None if typed is None else writer.fit_image(typed, path)
    if typed is None:
        return None

    part = typed
    text, media_type = write_content(part, part.kind)
    if isinstance(part, ImagePart):
        block: dict[str, Any] = {"type": "input_image", "image_url": text}
        block |= {"detail": part.detail} if part.detail else {}
    else:
        key = "file_url" if part.data is None else "file_data"
        block = {"type": "input_file", key: text}
        name = typed.name
        if not name and key == "file_data" and writer.is_request:
            name = name_file(part.media_type)

        block |= {"filename": name} if name else {}

    if media_type != part.media_type:
        writer.lose(path, "media_type", f"{block['type']} has no field for it")

    return block
