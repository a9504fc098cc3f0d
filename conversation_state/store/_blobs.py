"""
Large content, kept once by its digest, apart from the messages that show it.

The body of a message is a JSON object. One whose content is kept elsewhere is
an array: the message with empty *data*, and which part's data is which blob.
No message is an array, so none can be mistaken for a reference.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import attrs

from conversation_state._canonical import dump, load
from conversation_state.codec import encode_message
from conversation_state.messages import Message, UserMessage
from conversation_state.parts import FilePart, MediaPart

__all__ = [
    "LARGE",
    "BlobReader",
    "blob_digest",
    "canonical",
    "extract_blobs",
    "insert_placeholders",
]

# From how many bytes on content is kept apart.
LARGE = 4096


def blob_digest(data: bytes) -> bytes:
    """
    What *data* is kept as.

    Twice as long as other digests: an attacker who sends images may search
    for two with one digest.
    """
    return blake2b(data, digest_size=32).digest()


def extract_blobs(message: Message, body: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """
    The body to keep of *message*, whose canonical one is *body*, and its blobs.
    """
    if len(body) < LARGE:
        return body, {}

    content = getattr(message, "content", "")
    if isinstance(content, str):
        return body, {}

    blobs: dict[bytes, bytes] = {}
    references: list[tuple[int, str]] = []
    for at, part in enumerate(content):
        if isinstance(part, MediaPart) and part.data and len(part.data) >= LARGE:
            digest = blob_digest(part.data)
            blobs[digest] = part.data
            references.append((at, digest.hex()))

    if not references:
        return body, {}

    data = load(body)
    for at, _ in references:
        data["parts"][at]["data"] = ""

    return dump([data, references]), blobs


class BlobReader:
    """
    Large content by its digest, read once for all messages that show it.

    Called with a message that was read with stand-ins, and where what belongs:
    the message as it was.

    Args:
        blob: Gives the content of a digest.
    """

    def __init__(self, blob: Callable[[bytes], bytes]) -> None:
        self._blob = blob
        self._read: dict[str, bytes] = {}
        self._last = "", ""

    def content(self, digest: str) -> bytes:
        """
        The same bytes each time.
        """
        found = self._read.get(digest)
        if found is None:
            found = self._read[digest] = self._blob(bytes.fromhex(digest))

        return found

    def written(self, digest: str) -> str:
        """
        The content as it is in JSON.
        """
        if self._last[0] != digest:
            # The codec decides how bytes are written, so it writes them here, too.
            part = FilePart(data=self.content(digest))
            (written,) = load(encode_message(UserMessage([part])))["parts"]
            self._last = digest, written["data"]

        return self._last[1]

    def __call__(self, message: Message, references: list[tuple[int, str]]) -> Message:
        parts: list[Any] = list(getattr(message, "content", ()))
        for at, digest in references:
            parts[at] = attrs.evolve(parts[at], data=self.content(digest))

        return message.replace(content=parts)


def insert_placeholders(raw: Any) -> Any:
    """
    The plain JSON of a message from that of a body that was kept, with
    stand-ins for large content.
    """
    if raw.__class__ is not list:
        return raw

    # One byte, since a part refuses empty data.
    return _insert_data(raw, lambda _digest: "AA==")


def _insert_data(raw: Any, written: Callable[[str], str]) -> Any:
    try:
        data, references = raw
        for at, digest in references:
            data["parts"][at]["data"] = written(digest)
    except (IndexError, KeyError, TypeError) as error:
        msg = "refers to large content in an invalid form"
        raise ValueError(msg) from error

    return data


def canonical(body: bytes, shown: BlobReader) -> bytes:
    """
    The canonical body from one that was kept.

    Raises:
        ValueError:
            If it is damaged.
    """
    if not body.startswith(b"["):
        return body

    # Objects keep their order, so this is written as it was.
    return dump(_insert_data(load(body), shown.written))
