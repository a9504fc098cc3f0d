"""
Turns: messages as the provider wants them, one after the other.

What lives here: which of our messages are one message there, in what order
their blocks stand, and where a system message may stand. What does not: what
the blocks are (`_blocks`), and which messages there are (`_dump`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import attrs

from conversation_state._persistent import EMPTY_MAP, thaw
from conversation_state.adapters.engine.export import PayloadWriter
from conversation_state.adapters.engine.notes import map_of

# A block, and the path of what it is made of.
Block: TypeAlias = tuple[str, dict[str, Any]]
_BEHIND = "only an answer may follow system content; this message was moved"
_ON_TOP = "system content must come first; this message was moved"
_MARKER = "cache_control"
_TOO_MANY = "a request may have four cache markers; the newest are sent"
_FIRST = "results must follow their calls directly; this message was moved"
_LAST = "thinking may not end an answer; it must be followed by what it led to"
_THINKING = frozenset({"redacted_thinking", "thinking"})
_BEFORE_SYSTEM = frozenset({"system", "user"})
_OF_THE_PROVIDER = ("_tool_result", "mcp_tool_use", "server_tool_use")
_MERGED = "this message is merged into the one before, which has another value"
_NO_FIELDS = "system content at the top is no message, and has no further fields"
_BLANK = "the provider rejects text that is only white space"


@attrs.define
class Piece:
    """
    One of our messages, which is a message there or a piece of one.

    Attributes:
        path: Which one it is.

        blocks: Its blocks.

        plain: The same if it is nothing but a text; else None.

        around: Its keys other than the role and content.

        apart: Whether it does not go on with a message of the same role.
    """

    path: str
    blocks: list[Block]
    plain: str | None = None
    around: Mapping[str, Any] = EMPTY_MAP
    apart: bool = False


def make_piece(path: str, blocks: list[Block], notes: Mapping[str, Any]) -> Piece:
    if notes is EMPTY_MAP:
        return Piece(path, blocks)

    around: Any = thaw(map_of(notes, "around"))
    return Piece(path, blocks, None, around, notes.get("apart") is True)


@attrs.define
class _Turn:
    role: str
    pieces: list[Piece] = attrs.Factory(list)
    results: list[Block] = attrs.Factory(list)
    others: list[Block] = attrs.Factory(list)

    def add(self, piece: Piece) -> None:
        self.pieces.append(piece)
        self.others += piece.blocks

    def content(self) -> str | list[dict[str, Any]]:
        if len(self.pieces) == 1 and self.pieces[0].plain is not None:
            return self.pieces[0].plain

        return [block for _, block in (*self.results, *self.others)]


def _find_marked(turns: Iterable[_Turn | dict[str, Any]]) -> list[Block]:
    """The blocks of *turns* that have a cache marker, each with its path."""
    marked: list[Block] = []
    for turn in turns:
        if not isinstance(turn, _Turn):
            continue

        for path, block in (*turn.results, *turn.others):
            inside = block.get("content")
            if block.get("type") == "tool_result" and isinstance(inside, list):
                marked += [(path, each) for each in inside if each.get(_MARKER)]

            if block.get(_MARKER):
                marked.append((path, block))

    return marked


class Turns:
    """
    All messages there, while they are written.

    Attributes:
        top: What is ``system`` itself.
    """

    def __init__(self, writer: PayloadWriter, *, system_on_top: bool) -> None:
        self.top = _Turn("system")
        self._writer = writer
        self._system_on_top = system_on_top
        self._turns: list[_Turn | dict[str, Any]] = []
        self._last: _Turn | None = None
        # System messages that wait for their place, and how many of them are
        # reported as moved.
        self._held: list[Piece] = []
        self._reported = 0

    def system(self, piece: Piece) -> None:
        """Add a system message: on top if it is in front of all others."""
        if not self._drop_blank_texts(piece):
            return

        if not (self._turns or self._held):
            self.top.add(piece)
        elif self._system_on_top:
            self._put_on_top(piece)
        else:
            self._held.append(piece)

    def user(self, piece: Piece) -> None:
        if self._drop_blank_texts(piece):
            self._report_waiting()
            self._end_answer()
            self._continue_turn("user", piece)

    def result(self, piece: Piece) -> None:
        """Add the result of a tool, in front of the turn's blocks of other messages."""
        self._report_waiting()
        self._end_answer()
        blocks, piece.blocks = piece.blocks, []
        turn = self._continue_turn("user", piece)
        if turn.others:
            self._writer.lose(piece.path, "position", _FIRST)

        turn.results += blocks

    def assistant(self, piece: Piece) -> None:
        if self._drop_blank_texts(piece):
            self._place_held()
            self._continue_turn("assistant", piece)

    def _drop_blank_texts(self, piece: Piece) -> bool:
        """
        Whether anything is left of *piece*, whose white space is lost where
        it is all the text there is.
        """
        texts: list[Any] = [
            block.get("text") if block.get("type") == "text" else None
            for _, block in piece.blocks
        ]
        if any(isinstance(text, str) and text.strip() for text in texts):
            return True

        blocks, piece.blocks = piece.blocks, []
        for (path, block), text in zip(blocks, texts, strict=True):
            if isinstance(text, str):
                self._writer.lose(path, "text", _BLANK)
            else:
                piece.blocks.append((path, block))

        return bool(piece.blocks)

    def _end_answer(self) -> None:
        """
        Leave out the thinking at the end of an answer, and the answer if it is nothing
        else.

        Source:
            ``The final block in an assistant message cannot be `thinking` ``.
        """
        turn, rules = self._last, self._writer.rules
        is_kept = rules is not None and rules.takes_thinking_only
        if is_kept or turn is None or turn.role != "assistant":
            return

        blocks = turn.others
        while blocks and blocks[-1][1].get("type") in _THINKING:
            path, _ = blocks.pop()
            self._writer.lose(path, "reasoning", _LAST)

        if not blocks:
            self._turns.pop()
            before = self._turns[-1] if self._turns else None
            self._last = before if isinstance(before, _Turn) else None

    def raw(self, message: dict[str, Any]) -> None:
        self._place_held()
        self._end_answer()
        self._turns.append(message)
        self._last = None

    def payload(self) -> dict[str, Any]:
        self._place_held()
        self._end_answer()
        self._limit_markers()
        system: dict[str, Any] = {}
        if self.top.pieces:
            system["system"] = self.top.content()
            for piece in self.top.pieces:
                fields = dict.fromkeys(piece.around, True)
                self._writer.lose_each(piece.path, fields, _NO_FIELDS)

        return {**system, "messages": [self._write_turn(turn) for turn in self._turns]}

    def _limit_markers(self) -> None:
        """
        Leave out the oldest cache markers of messages, of which there may be so many
        with those of the system.

        Source:
            ``A maximum of 4 blocks with cache_control may be provided. Found 5.``
        """
        rules = self._writer.rules
        if rules is None or rules.max_markers is None:
            return

        top = _find_marked([self.top])
        marked = _find_marked(self._turns)
        # Those of the system are the longest in the cache; one is left to the newest
        # message.
        most = rules.max_markers - min(len(top), rules.max_markers - bool(marked))
        keep = rules.max_markers - min(len(marked), most)
        for path, block in [*top[:-keep], *marked[: len(marked) - most]]:
            self._writer.lose(path, _MARKER, _TOO_MANY)
            del block[_MARKER]

    def _write_turn(self, turn: _Turn | dict[str, Any]) -> dict[str, Any]:
        if not isinstance(turn, _Turn):
            return turn

        raw: dict[str, Any] = {"role": turn.role, "content": turn.content()}
        for piece in turn.pieces:
            for key, value in piece.around.items():
                if raw.setdefault(key, value) != value:
                    self._writer.lose(piece.path, key, _MERGED)

        return raw

    def _continue_turn(self, role: str, piece: Piece) -> _Turn:
        turn = self._last
        if turn is None or turn.role != role or piece.apart:
            turn = self._last = _Turn(role)
            self._turns.append(turn)

        turn.add(piece)
        return turn

    def _report_waiting(self) -> None:
        for piece in self._held[self._reported :]:
            self._writer.lose(piece.path, "position", _BEHIND)

        self._reported = len(self._held)

    def _place_held(self) -> None:
        """
        Put waiting messages behind the user's, or a result of the provider's tools;
        and on top if another one did.
        """
        held, self._held, self._reported = self._held, [], 0
        for piece in held:
            if self._may_system_follow():
                self._continue_turn("system", piece)
            else:
                self._put_on_top(piece)

    def _may_system_follow(self) -> bool:
        turn = self._turns[-1] if self._turns else {}
        if not isinstance(turn, _Turn):
            return turn.get("role") in _BEFORE_SYSTEM

        if turn.role in _BEFORE_SYSTEM:
            return True

        kind = turn.others[-1][1].get("type")
        return isinstance(kind, str) and kind.endswith(_OF_THE_PROVIDER)

    def _put_on_top(self, piece: Piece) -> None:
        self._writer.lose(piece.path, "position", _ON_TOP)
        self.top.add(piece)
