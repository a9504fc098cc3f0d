"""
Message trees as assistant-ui's own repository reads them.

What it made of the files in tests/wires/message_trees.json is there, too; where the
package is installed (tests/wires/node_modules), it is asked again, about drawn trees.
"""

import json
import random
import subprocess
from pathlib import Path
from shutil import which

import pytest

from conversation_state import Aggregator, AssistantMessage, UserMessage
from conversation_state.adapters.message_trees import LoadedTree, dump_tree, load_trees
from conversation_state.tree import MessageTree, name, ui_id_of
from tests.profiles import is_thorough

WIRES = Path(__file__).parents[1] / "wires"
FIXTURE = WIRES / "message_trees.json"


def draw_file(seed):
    """What is written of a drawn tree; of every third, the rows out of order."""
    draw = random.Random(seed)
    states = [Aggregator.new()]
    for at in range(draw.randint(1, 12)):
        kind = draw.choice([UserMessage, AssistantMessage])
        state = draw.choice(states).add(name(kind(f"text {at}"), f"m{at}"))
        states.append(state)

    tree = MessageTree.of(*states[1:], draw.choice(states[1:]))
    file = dump_tree(tree, format="assistant_ui").payload
    for each in file["messages"]:
        message = each["message"]
        each["message"] = {key: message[key] for key in ("id", "role", "content")}

    if seed % 3 == 2:
        draw.shuffle(file["messages"])

    if seed % 4 == 3:
        file["headId"] = None

    return file


def ask(files):
    """What the package makes of *files*; None where it is not installed."""
    if which("node") is None or not (WIRES / "node_modules/@assistant-ui").exists():
        return None

    script = ["node", str(WIRES / "message_trees.mjs")]
    asked = json.dumps(files)
    done = subprocess.run(
        script, input=asked, capture_output=True, check=True, text=True
    )
    return json.loads(done.stdout)


def read(file):
    """What we make of a file, as the package answers."""
    [loaded] = load_trees(file)
    assert isinstance(loaded, LoadedTree), loaded
    tree = loaded.tree
    ids: dict[str | None, str] = {node.id: ui_id_of(node.entry) for node in tree.nodes}
    return {
        "head": ids.get(tree.head),
        "path": [ui_id_of(entry) for entry in tree.path(tree.head).entries],
        "siblings": {
            id: [ids[each] for each in tree.siblings(key)[1]]
            for key, id in ids.items()
            if key
        },
        "export": [[ids[n.id], ids.get(n.parent)] for n in tree.nodes],
    }


def test_recorded():
    """The same heads, ways and siblings, in the same order, as were recorded."""
    recorded = json.loads(FIXTURE.read_text())

    assert len(recorded["files"]) == len(recorded["answers"]) > 8
    for file, answer in zip(recorded["files"], recorded["answers"], strict=True):
        assert answer == read(file)


@pytest.mark.integration
def test_installed():
    """
    The package that is installed says the same of 300 drawn trees; in `make fuzz` of
    2,000.
    """
    files = [draw_file(seed) for seed in range(2_000 if is_thorough() else 300)]
    found = ask(files)
    if found is None:
        pytest.skip("needs node, and @assistant-ui/core: run make wires")

    assert found["answers"] == [read(file) for file in files]
