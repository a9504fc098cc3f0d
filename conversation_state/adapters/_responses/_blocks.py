"""
The blocks of a content, and the parts they are; and constants of the format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversation_state.adapters._export import (
    PayloadWriter,
    cannot_contain,
    merge_kept_keys,
)
from conversation_state.adapters._notes import map_of, notes_of
from conversation_state.adapters._openai import (
    Content,
    content_of,
    is_odd,
    media_fields,
    read_logprob_list,
    write_audio,
    written_text,
)
from conversation_state.adapters._reading import ObjectReader, is_list, is_map
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

# The blocks that hold media, by the kind of part.
MEDIA = {"audio": "input_audio", "file": "input_file", "image": "input_image"}

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


def text_block(role: str) -> str:
    return "output_text" if role == "assistant" else "input_text"


_PLAIN = frozenset({"text", "type"})
_TEXT = _PLAIN | {"logprobs"}
_REFUSAL = frozenset({"refusal", "type"})


def read_content(node: ObjectReader, key: str, role: str) -> str | list[Part]:
    """
    The content under *key* in a message of *role*: a text, or parts.
    """
    content = node.raw.get(key)
    if isinstance(content, str):
        return node.text(key)

    if not is_list(content):
        node.wrong(key, "a text or a list of parts")
        return ""

    if not content:
        node.notes["bare"] = True

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

    if kind in _MEDIA_READERS:
        part = _MEDIA_READERS[kind](block, role, index)

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

    if not is_list(given):
        block.wrong("logprobs", "a list or null")
        return

    logprobs += read_logprob_list(block.reading, given, f"{block.path}.logprobs")
    if any(map(is_odd, given)):
        block.keep(_PLAIN)
    else:
        block.keep(_TEXT)
        block.keys["logprobs"] = []


def _note_medium(block: ObjectReader, kind: str, role: str, *known: str) -> None:
    block.keep(frozenset({"type", *known}))
    if not _is_natural(kind, role):
        block.notes["block"] = kind


def _is_natural(kind: str, role: str) -> bool:
    # The reference has blocks of audio, but the provider refuses them.
    return kind not in {"", "input_audio"} and role in {"user", "tool"}


def _read_image(block: ObjectReader, role: str, index: int | None) -> Part | None:
    given = block.raw.get("image_url")
    if not isinstance(given, str) or not given:
        return None

    text = block.text("image_url")
    content = content_of(text, "image_url")
    if content is None:
        return None

    fields = media_fields(block, content, "image_url", text)
    _note_medium(block, "input_image", role, "detail", "image_url")
    fields["detail"] = block.if_text("detail")
    return ImagePart(**fields, index=index, metadata=block.metadata(SOURCE))


def _read_file(block: ObjectReader, role: str, index: int | None) -> Part | None:
    given = [key for key in ("file_data", "file_url") if block.raw.get(key) is not None]
    # A `FilePart` holds a URL or data. A block with both is kept as an unknown part,
    # because they may be different files.
    if len(given) != 1 or not isinstance(block.raw[given[0]], str):
        return None

    key = given[0]
    text = block.text(key)
    content = content_of(text, "file") if key == "file_data" else None
    if key == "file_url" and text:
        content = Content(text, None, "")

    if content is None or (key == "file_data" and content.data is None):
        return None

    fields = media_fields(block, content, "file", text)
    _note_medium(block, "input_file", role, "filename", key)
    fields["name"] = block.if_text("filename")
    return FilePart(**fields, index=index, metadata=block.metadata(SOURCE))


def _read_audio(block: ObjectReader, role: str, index: int | None) -> Part | None:
    given = block.raw.get("input_audio")
    if not is_map(given) or not isinstance(given.get("data"), str):
        return None

    inside = block.child("input_audio")
    text = inside.text("data")
    content = content_of(text, "input_audio")
    if content is None or content.data is None:
        return None

    word = inside.if_text("format")
    fields = media_fields(block, content, "input_audio", text, word)
    _note_medium(block, "input_audio", role, "input_audio")
    block.keep_within("input_audio", inside, frozenset({"data", "format"}))
    return AudioPart(**fields, index=index, metadata=block.metadata(SOURCE))


_MEDIA_READERS = {
    "input_audio": _read_audio,
    "input_file": _read_file,
    "input_image": _read_image,
}


def write_block(
    write: PayloadWriter, part: Part, path: str, role: str
) -> dict[str, Any] | None:
    """
    The block that *part* is in a message of *role*; None if the format has
    none, and the part is lost.
    """
    notes = write.notes(part, path)
    block: dict[str, Any] | None = None
    if isinstance(part, TextPart):
        noted: Any = notes.get("block")
        kind = noted if isinstance(noted, str) and noted in TEXTS else text_block(role)
        block = {"type": kind, "text": part.text}
    elif isinstance(part, RefusalPart):
        block = {"type": "refusal", "refusal": part.text}
    elif isinstance(part, UnknownPart):
        return write.unknown(part.raw, part.source, path, "type")  # type: ignore[no-any-return]
    elif isinstance(part, MediaPart):
        block = _write_medium(write, part, path, role)

    return block and merge_kept_keys(map_of(notes, "keys"), block)


def _write_medium(
    write: PayloadWriter, part: MediaPart, path: str, role: str
) -> dict[str, Any] | None:
    notes = notes_of(part.metadata, SOURCE)
    kind = MEDIA.get(part.kind, "")
    noted = kind and notes.get("block") == kind
    if kind == "input_audio" and (part.data is None or not noted):
        write.lose(path, part.kind, "the provider rejects audio input")
        return None

    if not (noted or _is_natural(kind, role)):
        write.lose(path, part.kind, cannot_contain(role, part.kind))
        return None

    if isinstance(part, ImagePart):
        text, media_type = written_text(part, "image_url", notes)
        block: dict[str, Any] = {"type": kind, "image_url": text}
        if part.detail:
            block["detail"] = part.detail
    elif isinstance(part, FilePart):
        block, media_type = _write_file(part, notes)
    else:
        body, is_stated = write_audio(part, notes)
        media_type = part.media_type if is_stated else ""
        block = {"type": kind, "input_audio": body}

    if media_type != part.media_type:
        write.lose(path, "media_type", f"{kind} has no field for it")

    return block


def _write_file(part: FilePart, notes: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    block: dict[str, Any] = {"type": "input_file"}
    media_type = ""
    if part.data is None:
        block["file_url"] = part.url
    else:
        block["file_data"], media_type = written_text(part, "file", notes)

    if part.name:
        block["filename"] = part.name

    return block, media_type
