"""
Makes ``message_trees.json`` anew: what assistant-ui's repository makes of drawn trees.

Needs its package in this directory; `make wires` installs it and runs this.
"""

import json

from tests.adapters.test_message_trees_oracle import FIXTURE, ask, draw_file


def main() -> None:
    """Write the file."""
    drawn = [draw_file(seed) for seed in range(12)]
    made = ask(drawn)
    assert made is not None, "needs Node, and @assistant-ui/core: run make wires"
    files, answers = [
        ",\n".join(map(json.dumps, rows)) for rows in (drawn, made["answers"])
    ]
    FIXTURE.write_text(
        f'{{"package": "@assistant-ui/core {made["version"]}",\n'
        f'"files": [\n{files}\n],\n"answers": [\n{answers}\n]}}\n',
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
