"""
Recorded conversations, requests and streams: a few of our own in the
repository, and a large collection that is no part of it.

Both have the same layout: ``transcripts/airline.jsonl``,
``requests/PROVIDER.jsonl`` and ``streams/PROVIDER/*.sse``. The large one is
beside the checkout (``../shared/data``), or where `CONVERSATION_STATE_DATA`
says. Tests read both where they can; what is claimed of the large one alone
(how many conversations it has, say) is tested where it is.
"""

import os
from pathlib import Path

__all__ = ["LARGE", "OWN", "is_large", "streams"]

_TESTS = Path(__file__).resolve().parent
_BESIDE = _TESTS.parent.parent / "shared" / "data"

OWN = _TESTS / "recordings"
LARGE = Path(os.environ.get("CONVERSATION_STATE_DATA") or _BESIDE)


def is_large(folder: Path) -> bool:
    """Whether *folder* is the large collection."""
    return folder != OWN


def streams(provider: str) -> list[Path]:
    """The recorded streams of a provider, our own first."""
    return [
        path
        for folder in (OWN, LARGE)
        for path in sorted((folder / "streams" / provider).glob("*.sse"))
    ]
