"""
Bytes in JSON: base64 and ``data:`` URLs.
"""

from __future__ import annotations

import base64

__all__ = [
    "data_url",
    "decode_base64",
    "encode_base64",
    "parse_data_url",
    "split_data_url",
]


def encode_base64(data: bytes) -> str:
    """
    *data* in base64, of the usual alphabet and with padding.
    """
    return base64.b64encode(data).decode()


def decode_base64(text: str, *, padded: bool = False, urlsafe: bool = False) -> bytes:
    """
    The bytes of *text*, which is base64; b"" if it is invalid.

    Strict but for what encoders differ in: white space, and padding.

    Args:
        text: The text.

        padded: Whether the padding must be there, as Go's decoder wants it.

        urlsafe: Whether the url-safe alphabet is valid, too.

    >>> decode_base64("aGk"), decode_base64("aGk", padded=True), decode_base64("?")
    (b'hi', b'', b'')
    """
    text = "".join(text.split())
    if urlsafe:
        text = text.replace("-", "+").replace("_", "/")

    if not padded:
        text = text.rstrip("=")
        text += "=" * (-len(text) % 4)

    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # of which binascii.Error is one
        return b""


def data_url(data: bytes, media_type: str) -> str:
    """
    *data* as a ``data:`` URL.

    >>> data_url(b"hi", "text/plain")
    'data:text/plain;base64,aGk='
    """
    return f"data:{media_type};base64,{encode_base64(data)}"


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
