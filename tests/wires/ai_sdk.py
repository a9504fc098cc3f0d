"""
Makes ``ai_sdk.jsonl`` anew: what the AI SDK makes of our own streams
and of those of another server.

Needs versions 6 and 7 of it in this directory; `make wires` installs them and runs
this.
"""

import json

from tests.adapters.test_ai_sdk import FIXTURES, answers, ask_sdk, folds, foreign_folds


def main() -> None:
    """Write the file."""
    asked = [*folds(answers(own=True)), *foreign_folds()]
    made = zip(asked, ask_sdk(asked), strict=True)
    lines = [json.dumps({**line, "message": one["message"]}) for line, one in made]
    FIXTURES.write_text("".join([f"{line}\n" for line in lines]), encoding="utf-8")


if __name__ == "__main__":
    main()
