"""
The command: a table of the agents, and how many of their conversations are refused.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from peers.refused._agents import AgentsSDKAgent
from peers.refused._langchain import LangChainAgent
from peers.refused._loop import ReadmeLoop
from peers.refused._pydantic_ai import PydanticAIAgent
from peers.refused.run import Outcome, run_script
from peers.refused.scripts import FIXED, Script, draw_scripts
from peers.refused.server import serve

CHAT, RESPONSES = "openai_chat", "openai_responses"
# The name of an agent, its distribution, its driver, and the wires it is driven on.
AGENTS: dict[str, tuple[str, Any, tuple[str, ...]]] = {
    "LangChain": ("langchain", LangChainAgent, (CHAT, RESPONSES)),
    "Pydantic AI": ("pydantic-ai-slim", PydanticAIAgent, (CHAT, RESPONSES)),
    "Agents SDK": ("openai-agents", AgentsSDKAgent, (CHAT, RESPONSES)),
    "README": ("", ReadmeLoop, (CHAT,)),
}


def main(arguments: Sequence[str]) -> int:
    """Run the scripts that were asked for, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m peers.refused")
    parser.add_argument("names", nargs="*", help=", ".join(AGENTS))
    parser.add_argument("--wire", help="only this wire")
    parser.add_argument(
        "--with", dest="view", action="store_true", help="with view only"
    )
    parser.add_argument("--drawn", type=int, default=1_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--level", default="strictest")
    parser.add_argument("--why", action="store_true", help="show why, for each")
    parser.add_argument("--script", help="only scripts whose name has this, or drawn:N")
    asked = parser.parse_args(arguments)
    fixed: Sequence[Script] = FIXED
    drawn = draw_scripts(asked.seed, asked.drawn)
    if asked.script and asked.script.startswith("drawn:"):
        fixed, drawn = (), drawn[int(asked.script[6:]) :][:1]
    elif asked.script:
        fixed, drawn = [one for one in FIXED if asked.script in one.name], ()

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    print(f"| agent | wire | of {len(fixed)} | of {len(drawn)} drawn |")
    print("|---|---|---:|---:|")
    for name, (distribution, driver, wires) in AGENTS.items():
        if asked.names and name not in asked.names:
            continue

        try:
            shown = f"{name} {version(distribution)}" if distribution else name
        except PackageNotFoundError:
            print(f"{name} is not installed", file=sys.stderr)
            continue

        for wire in wires:
            if asked.wire and wire != asked.wire:
                continue

            for has_view in (False, True):
                if asked.view and not has_view:
                    continue

                fields = {"wire": wire, "has_view": has_view}
                made = type(driver.__name__, (driver,), fields)
                counts = [
                    _count_refused(made, scripts, asked) for scripts in (fixed, drawn)
                ]
                view = ", our view" if has_view else ""
                print(
                    f"| {shown}{view} | {wire} | {counts[0]} | {counts[1]} |",
                    flush=True,
                )

    now = datetime.now(UTC)
    print(f"\n{now:%d %B %Y}: `python -m peers.refused {' '.join(arguments)}`")
    return 0


def _count_refused(made: Any, scripts: Sequence[Script], asked: Any) -> int:
    with serve() as server:

        async def run_all() -> list[Outcome]:
            return [
                await run_script(made, script, server, asked.level)
                for script in scripts
            ]

        outcomes = asyncio.run(run_all())

    if asked.why:
        reasons: Counter[str] = Counter()
        for number, (script, outcome) in enumerate(zip(scripts, outcomes, strict=True)):
            if outcome.is_refused:
                mode = "streamed" if script.streamed else "whole"
                why = ", ".join(outcome.rules) or outcome.why
                reasons[why[:150]] += 1
                print(
                    f"  {number} {script.name} ({mode}): {why[:300]}", file=sys.stderr
                )

        print(reasons.most_common(20), file=sys.stderr)

    return sum(outcome.is_refused for outcome in outcomes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
