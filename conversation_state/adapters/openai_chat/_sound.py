"""
Audio that is made while it is sent.
"""

from __future__ import annotations

import base64
import re
from typing import Any

from conversation_state.adapters._reading import Place, is_map
from conversation_state.adapters._streaming import Cut, News
from conversation_state.adapters.openai_chat._words import SOURCE
from conversation_state.parts import AudioPart, Part

__all__ = ["Sound"]

_AUDIO = frozenset({"data", "transcript"})


class Sound:
    """
    Audio that is made while it is sent.
    """

    def __init__(self, news: News) -> None:
        self._news = news
        self._said = Cut()
        self._encoded = ""
        self._keys: dict[str, Any] = {}
        self._transcript: list[str] = []
        # Where to note what is told of audio that is no part.
        self.place = "keys"

    def read(self, delta: Place) -> list[Part]:
        """
        The audio that *delta* brings, with what else was told of it.
        """
        raw = delta.raw.get("audio")
        if raw is None:
            return []

        if not is_map(raw):
            delta.wrong("audio", "an object or null")
            return []

        place = Place(delta.reading, raw, f"{delta.path}.audio")
        self._news.add(self._keys, place, _AUDIO, "audio")
        if raw.get("transcript") is not None:
            piece = raw["transcript"]
            if isinstance(piece, str):
                self._transcript.append(self._said.next(piece))
            else:
                place.wrong("transcript", "a text or null")

        octets = self._decoded(place) if raw.get("data") is not None else b""
        return [self._part(octets)] if octets else []

    def _part(self, octets: bytes) -> AudioPart:
        notes: dict[str, Any] = {"under": {"audio": True}}
        keys = self._told()
        if keys:
            notes["keys"] = keys

        self.place = "audio"
        metadata: Any = {SOURCE: notes}
        return AudioPart(data=octets, metadata=metadata)

    def _told(self) -> dict[str, Any]:
        keys, transcript = self._keys, "".join(self._transcript)
        self._keys, self._transcript = {}, []
        return {**keys, "transcript": transcript} if transcript else keys

    def _decoded(self, place: Place) -> bytes:
        # Four characters are whole bytes, and so is what ends in padding;
        # pieces may be cut anywhere.
        given = place.raw["data"]
        if not isinstance(given, str):
            place.wrong("data", "a text in base64")
            return b""

        text = self._encoded + "".join(given.split())
        *ended, last = re.split("=+", text)
        whole = len(last) // 4 * 4
        self._encoded = last[whole:]
        try:
            return b"".join(map(_octets, [*ended, last[:whole]]))
        except ValueError:
            place.wrong("data", "a text in base64")
            return b""

    def last(self) -> list[Part]:
        """
        What came without its padding.
        """
        encoded, self._encoded = self._encoded, ""
        self._transcript.append(self._said.rest())
        try:
            octets = _octets(encoded)
        except ValueError:
            self._keys["data"] = encoded
            octets = b""

        return [self._part(octets)] if octets else []

    def rest(self) -> dict[str, Any]:
        """
        What was told after the last piece of audio, or without any.
        """
        keys = self._told()
        return {"audio": keys} if keys else {}


def _octets(encoded: str) -> bytes:
    """
    What *encoded*, in base64 without padding, is.
    """
    padding = "=" * (-len(encoded) % 4)
    return base64.b64decode(encoded + padding, validate=True)
