"""
What imported messages are shown with: that their chat hides them, or that no model got
them, and a readable line for what has no part of ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from conversation_state._wording import find_kind
from conversation_state.adapters.engine.notes import map_of, notes_of
from conversation_state.messages import Message

# The formats with notes on what their program shows and sends.
_SOURCES = ("message_trees", "sessions")
# The keys under which an unknown part may have a text, the best one first.
_TEXTS = (
    "text", "content", "output_str", "result", "message", "summary", "title",
    "file_name", "filename", "name",
)  # fmt: skip
_POINTER = re.compile(r"(audio|image|video).*asset_pointer$")
_NOUNS = {"audio": "sound", "image": "picture", "video": "video"}
# ChatGPT's marks of citations and of names: "cite" and the places of its sources, say,
# and single ones around what is cited.
_MARK = re.compile("\ue200([^\ue200\ue201]*)\ue201")
_SIGNS = re.compile("[\ue200-\ue206]")


def describe_origin(message: Message) -> str:
    """What a reader of the program that it is from has to know of it; often ""."""
    if _has_note(message, "unsent"):
        return "not sent to a model"

    if not is_hidden(message):
        return ""

    is_answer = message.role in {"assistant", "tool"}
    return "hidden in the chat" if is_answer else "context, hidden in the chat"


def is_hidden(message: Message) -> bool:
    """Whether the program that it is from does not show it."""
    return _has_note(message, "hidden")


def _has_note(message: Message, note: str) -> bool:
    return any(notes_of(message.metadata, each).get(note) is True for each in _SOURCES)


def describe_unknown(raw: Mapping[str, Any]) -> str:
    """The text that the JSON of an unknown part has, or what it is; else ""."""
    kind = find_kind(raw)
    if found := _POINTER.search(kind):
        sizes = [raw.get(key) for key in ("width", "height")]
        is_sized = all(isinstance(size, int) for size in sizes)
        size = f", {sizes[0]} × {sizes[1]}" if is_sized else ""
        return f"{_NOUNS[found[1]]}{size}, which is not in the file"

    texts = [raw.get(key) for key in _TEXTS]
    return next((each for each in texts if isinstance(each, str) and each.strip()), "")


def replace_marks(text: str, message: Message) -> str:
    """
    *text* with the titles of its sources in place of ChatGPT's marks, which have no
    letters in any font; without those of which nothing is known.
    """
    if not _SIGNS.search(text):
        return text

    keys = map_of(notes_of(message.metadata, "message_trees"), "keys")
    references = map_of(keys, "metadata").get("content_references")
    sources = {
        mark: title
        for each in (references if isinstance(references, Sequence) else ())
        if isinstance(each, Mapping)
        and isinstance(mark := each.get("matched_text"), str)
        and (title := _find_titles(each))
    }

    pieces: list[str] = []
    end = 0
    for found in _MARK.finditer(text):
        before, end = text[end : found.start()], found.end()
        source, name = sources.get(found[0]), _find_name(found[1])
        shown = f" ({source})" if source else name
        # Only a name stands in the sentence; blanks before others are in the way.
        pieces += [before if name and not source else before.rstrip(" \t"), shown]

    return _SIGNS.sub("", "".join([*pieces, text[end:]]))


def _find_titles(reference: Mapping[str, Any]) -> str:
    items = reference.get("items")
    several = items if isinstance(items, Sequence) and items else [reference]
    found = [
        next((t for key in ("title", "url") if isinstance(t := each.get(key), str)), "")
        for each in several
        if isinstance(each, Mapping)
    ]
    return ", ".join(filter(None, found))


def _find_name(mark: str) -> str:
    # Of a mark that is a name or a link itself: what it is called.
    kind, _, rest = mark.partition("\ue202")
    if kind in {"link_title", "url"}:
        return rest.partition("\ue202")[0]

    if kind == "entity":
        try:
            _, name, *_ = json.loads(rest)
        except (ValueError, TypeError, RecursionError):
            return ""

        return name if isinstance(name, str) else ""

    return ""
