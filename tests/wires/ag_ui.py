"""
Makes ``ag_ui.jsonl`` anew: what AG-UI's own client makes of our own streams.

Needs its package in this directory; `make wires` installs it and runs this.
"""

import json

from tests.adapters.test_ag_ui import FIXTURES, recorded_runs, reduce_all


def main() -> None:
    """Write the file."""
    runs = {key: events for key, (events, _) in recorded_runs(own=True).items()}
    made = reduce_all([{"events": events} for events in runs.values()])
    lines = [
        json.dumps({"name": key, "events": events, "messages": one["messages"]})
        for (key, events), one in zip(runs.items(), made, strict=True)
    ]
    FIXTURES.write_text("".join([f"{line}\n" for line in lines]), encoding="utf-8")


if __name__ == "__main__":
    main()
