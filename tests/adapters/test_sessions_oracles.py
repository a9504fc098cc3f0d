"""What the vendors' own programs said of the files that are written for them."""

import json

import pytest

from conversation_state.adapters.sessions import (
    dump_session,
    load_session,
    read_session,
)
from tests.adapters.session_oracles import ANSWERS, FILES, digest, expect


@pytest.mark.parametrize("kind", ["codex", "opencode"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_recorded(path, kind):
    """
    Codex 0.171.0 and OpenCode 1.18.33 had the live branch of what is written; the
    recording is of just these files, or else is to be made again.
    """
    answer = json.loads(ANSWERS.read_text())[kind][f"{path.parent.name}/{path.name}"]
    payload = dump_session(read_session(path), kind, cwd="/home/lea/shop").payload

    assert answer["asked"] == digest(payload), "run tests.adapters.session_oracles"
    assert answer["said"] == expect(load_session(json.loads(json.dumps(payload))))
    assert answer.get("is_resumed", True)
