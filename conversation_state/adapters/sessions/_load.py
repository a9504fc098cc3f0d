"""From the lines of a session to its tree: which format they are in, and files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from conversation_state._persistent import EMPTY_MAP
from conversation_state._wording import describe_type, shorten_repr
from conversation_state.adapters.engine.reading import is_map
from conversation_state.adapters.sessions import (
    _claude_code,
    _codex,
    _gemini_cli,
    _opencode,
    _pi,
    _sts,
)
from conversation_state.adapters.sessions._session import (
    Line,
    LoadedSession,
    SessionInput,
    SessionLines,
    read_lines,
)
from conversation_state.errors import DecodeError, Problem

# In the order in which they are tried.
_LOADERS: Mapping[str, Any] = {
    _claude_code.FORMAT: _claude_code,
    _codex.FORMAT: _codex,
    _opencode.FORMAT: _opencode,
    _gemini_cli.FORMAT: _gemini_cli,
    _pi.FORMAT: _pi,
    _sts.FORMAT: _sts,
}
FORMATS = tuple(_LOADERS)


def load_session(
    lines: SessionInput,
    *,
    format: str | None = None,  # noqa: A002 - what there is in a file is its format
    agents: Mapping[str, SessionInput] = EMPTY_MAP,
) -> LoadedSession:
    """
    The session that *lines* are, as a tree with a bill.

    Equal lines give equal trees: identities follow from the ids of lines and what they
    say, so a session that has grown goes on with the entries it had. A line that can't
    be read is kept, and is a problem; so is each thing that was mended.

    O(lines), however deep the tree is.

    Args:
        lines: The text of a file, its lines, or what `json.loads` made of these.
        format: One of `FORMATS`; by default it is recognised.
        agents: The lines of sub-agents that are in files of their own, by their ids.

    Raises:
        DecodeError: If *lines* are no session, one in which nothing was said, or
            several (`load_sessions` loads each).
        ValueError: If there is no such format.

    >>> line = {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": "s1"}
    >>> line["message"] = {"role": "user", "content": "Fix the tests."}
    >>> session = load_session([line])
    >>> session.format, session.name, session.tree.present[0].text
    ('claude_code', 's1', 'Fix the tests.')
    """
    loader, [read, *more] = _split_sessions(lines, format)
    if more:
        what = f"the lines of {len(more) + 1} sessions; load_sessions loads each"
        raise DecodeError((Problem("$", what),))

    others = {id: read_lines(each) for id, each in agents.items()}
    loaded: LoadedSession = loader.load(read, others)
    return loaded


def load_sessions(
    lines: SessionInput,
    *,
    format: str | None = None,  # noqa: A002 - as `load_session`
) -> Iterator[LoadedSession | DecodeError]:
    """
    The sessions that *lines* are, which may stand behind one another: each as
    `load_session` gives it, or as the `DecodeError` that says why it can't be one.

    Sessions of Claude Code that share a history, as a fork and its source do, are one.
    Raises what `load_session` does.
    """
    loader, several = _split_sessions(lines, format)
    for each in several:
        try:
            yield loader.load(each, {})
        except DecodeError as error:
            yield error


def _split_sessions(
    lines: SessionInput, kind: str | None
) -> tuple[Any, list[SessionLines]]:
    # What loads them, and the lines of each; one at least.
    if kind is not None and kind not in _LOADERS:
        expected = ", ".join(FORMATS)
        raise ValueError(f"format is {shorten_repr(kind)}; expected {expected}")

    read = read_lines(lines)
    raws = [raw for _, raw in read.objects]
    kind = kind or recognize(raws)
    if not kind:
        # A path is a text, too.
        is_path = isinstance(lines, str) and lines.endswith((".json", ".jsonl"))
        advice = "`conversation-state import` reads files of other formats"
        if is_path:
            advice = "read_session reads a file"

        what = f"no session; expected {', '.join(FORMATS)}; {advice}"
        raise DecodeError((Problem("$", what),))

    loader = _LOADERS[kind]
    numbers = loader.number_sessions(raws)
    if len(set(numbers)) <= 1:
        return loader, [read]

    # What is no object stands behind a line of its session.
    several: dict[int, list[Line]] = {}
    upcoming, number = iter(numbers), numbers[0]
    for line in read.lines:
        number = number if line.raw is None else next(upcoming)
        several.setdefault(number, []).append(line)

    first, *_ = several
    places = {f"line {line.at}": key for key in several for line in several[key]}
    problems: dict[int, list[str]] = {key: [] for key in several}
    for each in read.problems:
        problems[places.get(each.partition(":")[0], first)].append(each)

    return loader, [
        SessionLines(tuple(several[key]), tuple(problems[key])) for key in several
    ]


def recognize(lines: Iterable[Any]) -> str:
    """The format of *lines* (JSON objects), of `FORMATS`; "" if unknown."""
    raws = [each for each in lines if is_map(each)]
    return next((kind for kind, each in _LOADERS.items() if each.recognize(raws)), "")


def read_session(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 - as `load_session`
) -> LoadedSession:
    """
    The session in a file, with the sub-agents in the folder beside it.

    Args:
        path: A file. Claude Code keeps sub-agents of ``ID.jsonl`` in
            ``ID/subagents/``; the folder ``ID`` means the same session.
        format: As in `load_session`.

    Raises:
        OSError: If the file can't be read.
        DecodeError: As in `load_session`.
    """
    if not isinstance(path, (str, Path)):
        raise TypeError(f"path is {describe_type(path)}; expected the path of a file")

    file = Path(path).expanduser()
    if file.is_dir():
        # "." and ".." have no name, and the root never has one.
        folder = file if file.name not in {"", ".."} else file.resolve()
        beside = folder.parent / f"{folder.name}.jsonl"
        file = beside if folder.name and beside.exists() else _find_only(folder)

    agents: dict[str, bytes] = {}
    for each in sorted(file.with_suffix("").glob("subagents/**/agent-*.jsonl")):
        id = each.stem.removeprefix("agent-")
        text = each.read_bytes()
        meta = each.with_name(f"{each.stem}.meta.json")
        text = _with_metadata(text, meta) if meta.exists() else text
        # An id in two folders, as of two runs of a workflow, is one agent with both.
        agents[id] = b"\n".join([agents[id], text]) if id in agents else text

    return load_session(file.read_bytes(), format=format, agents=agents)


def _find_only(folder: Path) -> Path:
    files = sorted(folder.glob("*.jsonl"))
    if len(files) == 1:
        return files[0]

    what = f"{folder} has {len(files)} sessions (*.jsonl); name one of them"
    raise DecodeError((Problem("$", what),))


def _with_metadata(text: bytes, meta: Path) -> bytes:
    # What stands beside an agent's lines, as the store of the SDK has it: a last line.
    objects = read_lines(meta.read_bytes()).objects
    if not objects:
        return text

    line = json.dumps({**objects[0][1], "type": "agent_metadata"})
    return text.rstrip(b"\n") + b"\n" + line.encode() + b"\n"
