"""
Makes the files in this directory anew: what the packages of interfaces make of our own
streams and trees, and the AI SDK of those of another server.

Needs these packages in this directory; `make wires` installs them and runs this.
"""

import json

from tests.adapters import test_ag_ui, test_ai_sdk, test_message_trees_oracle


def write_ai_sdk() -> None:
    """What versions 6 and 7 of the AI SDK make of streams."""
    folds = test_ai_sdk.folds(test_ai_sdk.answers(own=True))
    asked = [*folds, *test_ai_sdk.foreign_folds()]
    made = zip(asked, test_ai_sdk.ask_sdk(asked), strict=True)
    lines = [json.dumps({**line, "message": one["message"]}) for line, one in made]
    test_ai_sdk.FIXTURES.write_text("".join([f"{line}\n" for line in lines]), "utf-8")


def write_ag_ui() -> None:
    """What AG-UI's own client makes of streams."""
    recorded = test_ag_ui.recorded_runs(own=True)
    runs = {key: events for key, (events, _) in recorded.items()}
    made = test_ag_ui.reduce_all([{"events": events} for events in runs.values()])
    lines = [
        json.dumps({"name": key, "events": events, "messages": one["messages"]})
        for (key, events), one in zip(runs.items(), made, strict=True)
    ]
    test_ag_ui.FIXTURES.write_text("".join([f"{line}\n" for line in lines]), "utf-8")


def write_message_trees() -> None:
    """What assistant-ui's repository makes of drawn trees."""
    drawn = [test_message_trees_oracle.draw_file(seed) for seed in range(12)]
    made = test_message_trees_oracle.ask(drawn)
    assert made is not None, "needs Node, and @assistant-ui/core: run make wires"
    files, answers = [
        ",\n".join(map(json.dumps, rows)) for rows in (drawn, made["answers"])
    ]
    test_message_trees_oracle.FIXTURE.write_text(
        f'{{"package": "@assistant-ui/core {made["version"]}",\n'
        f'"files": [\n{files}\n],\n"answers": [\n{answers}\n]}}\n',
        encoding="utf-8",
    )


if __name__ == "__main__":
    write_ai_sdk()
    write_ag_ui()
    write_message_trees()
