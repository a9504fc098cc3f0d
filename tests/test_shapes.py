"""
The one example of each shape, which is the same in every run and in every version.

``python -m tests.test_shapes`` writes ``tests/golden/shapes.json`` anew, where a shape
is meant to change: what names it in somebody's report is another conversation then.
"""

import hashlib
import json
from pathlib import Path

from conversation_state import encode
from conversation_state.testing.shapes import (
    ACTS,
    SHAPES,
    TurnWriter,
    grow_state,
    write_shapes,
)

GOLDEN = Path(__file__).parent / "golden" / "shapes.json"


class LastOption(TurnWriter):
    """A writer that takes the last variant of each choice."""

    def pick(self, *options):
        return options[-1]


def digest(messages):
    """A digest of *messages*, as the codec writes them."""
    written = b"\n".join(encode(message) for message in messages)
    return hashlib.sha256(written).hexdigest()[:8]


def digest_shapes():
    """Of each shape the example with the first variants, and with the last ones."""
    return {
        name: f"{digest(shape.write(TurnWriter()))} {digest(shape.write(LastOption()))}"
        for name, shape in SHAPES.items()
    }


def digest_acts():
    """Of each act the messages and the usage of what it makes of one state."""
    trunk = [
        message
        for name in ("question", "call and result", "late result", "response")
        for message in write_shapes()[name]
    ]
    made = {}
    for name, act in ACTS.items():
        state = act(TurnWriter(3), grow_state(trunk))
        made[name] = f"{digest(state.messages)} {state.total_usage.total_tokens}"

    return made


def test_shapes():
    """Each shape is the conversation that it was, in its first and last variants."""
    assert json.loads(GOLDEN.read_text())["shapes"] == digest_shapes()


def test_acts():
    """Each act makes of a state what it made."""
    assert json.loads(GOLDEN.read_text())["acts"] == digest_acts()


if __name__ == "__main__":
    digests = {"shapes": digest_shapes(), "acts": digest_acts()}
    GOLDEN.write_text(f"{json.dumps(digests, indent=1, ensure_ascii=False)}\n")
