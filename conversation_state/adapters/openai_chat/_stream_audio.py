"""
Audio that arrives in pieces.
"""

from __future__ import annotations

import re
from typing import Any

from conversation_state.adapters._notes import with_notes
from conversation_state.adapters._reading import ObjectReader, is_map
from conversation_state.adapters._stream_pieces import SurrogateBuffer
from conversation_state.adapters._streaming import ChangeFilter
from conversation_state.adapters._wire import decode_base64
from conversation_state.adapters.openai_chat._blocks import SOURCE
from conversation_state.parts import AudioPart, Part

__all__ = ["AudioAssembler"]

_AUDIO = frozenset({"data", "transcript"})


class AudioAssembler:
    def __init__(self, news: ChangeFilter) -> None:
        self._news = news
        self._repair = SurrogateBuffer()
        self._encoded = ""
        self._keys: dict[str, Any] = {}
        self._transcript: list[str] = []
        # The note that takes what `rest` returns: "keys" as long as no data came, then
        # "audio".
        self.place = "keys"

    def read(self, delta: ObjectReader) -> list[Part]:
        """
        The audio that *delta* brings, with its metadata.
        """
        raw = delta.raw.get("audio")
        if raw is None:
            return []

        if not is_map(raw):
            delta.wrong("audio", "an object or null")
            return []

        node = ObjectReader(delta.reading, raw, f"{delta.path}.audio")
        self._news.add(self._keys, node, _AUDIO, "audio")
        if raw.get("transcript") is not None:
            piece = raw["transcript"]
            if isinstance(piece, str):
                self._transcript.append(self._repair.next(piece))
            else:
                node.wrong("transcript", "a text or null")

        octets = self._decode_data(node) if raw.get("data") is not None else b""
        return [self._make_part(octets)] if octets else []

    def _make_part(self, octets: bytes) -> AudioPart:
        notes: dict[str, Any] = {"under": {"audio": True}}
        keys = self._take_keys()
        if keys:
            notes["keys"] = keys

        self.place = "audio"
        metadata = with_notes(SOURCE, notes)
        return AudioPart(data=octets, metadata=metadata)

    def _take_keys(self) -> dict[str, Any]:
        keys, transcript = self._keys, "".join(self._transcript)
        self._keys, self._transcript = {}, []
        return {**keys, "transcript": transcript} if transcript else keys

    def _decode_data(self, node: ObjectReader) -> bytes:
        # A piece may be cut anywhere. Groups of four characters are whole bytes, and so
        # is a text up to its padding; other characters wait for the next piece.
        given = node.raw["data"]
        if not isinstance(given, str):
            node.wrong("data", "a text in base64")
            return b""

        text = self._encoded + "".join(given.split())
        *ended, last = re.split("=+", text)
        whole = len(last) // 4 * 4
        self._encoded = last[whole:]
        pieces = [piece for piece in (*ended, last[:whole]) if piece]
        decoded = [decode_base64(piece) for piece in pieces]
        if not all(decoded):
            node.wrong("data", "a text in base64")
            return b""

        return b"".join(decoded)

    def last(self) -> list[Part]:
        """
        The audio at the end, whose padding is missing.
        """
        encoded, self._encoded = self._encoded, ""
        self._transcript.append(self._repair.rest())
        octets = decode_base64(encoded)
        # A single character is less than a byte, so it is kept as text.
        if encoded and not octets:
            self._keys["data"] = encoded

        return [self._make_part(octets)] if octets else []

    def rest(self) -> dict[str, Any]:
        """
        Metadata after the last piece of audio, or without any.
        """
        keys = self._take_keys()
        return {"audio": keys} if keys else {}
