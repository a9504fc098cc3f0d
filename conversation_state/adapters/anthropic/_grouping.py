"""
Turns: messages as the provider wants them, one after the other.

What lives here: which of our messages are one message there, in what order
their blocks stand, and where a system message may stand. What does not: what
the blocks are (`_blocks`), and which messages there are (`_dump`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters._export import PayloadWriter

__all__ = ["MessageBlocks", "MessageGrouping"]

_BEHIND = "only an answer may follow system content; this message was moved"
_ON_TOP = "system content must come first; this message was moved"
_FIRST = "results must follow their calls directly; this message was moved"
_BEFORE_SYSTEM = frozenset({"system", "user"})
_OF_THE_PROVIDER = ("_tool_result", "mcp_tool_use", "server_tool_use")
_MERGED = "this message is merged into the one before, which has another value"
_NO_FIELDS = "system content at the top is no message, and has no further fields"
_BLANK = "the provider rejects text that is only white space"


@attrs.define
class MessageBlocks:
    """
    The blocks of one of our messages.

    Attributes:
        path: Which one it is.

        blocks: Its blocks, each with the path of what it is made of.

        plain: The same if it is nothing but a text; else None.

        around: Its keys other than the role and content.

        apart: Whether it does not go on with a message of the same role.
    """

    path: str
    blocks: list[tuple[str, dict[str, Any]]]
    plain: str | None = None
    around: Mapping[str, Any] = EMPTY_MAP
    apart: bool = False


class _GroupedMessage:
    """
    One message there, while it is written.
    """

    def __init__(self, role: str) -> None:
        self.role = role
        self.pieces: list[MessageBlocks] = []
        self.results: list[tuple[str, dict[str, Any]]] = []
        self.others: list[tuple[str, dict[str, Any]]] = []

    def add(self, piece: MessageBlocks) -> None:
        self.pieces.append(piece)
        self.others += piece.blocks

    def write_content(self) -> str | list[dict[str, Any]]:
        if len(self.pieces) == 1 and self.pieces[0].plain is not None:
            return self.pieces[0].plain

        return [block for _, block in (*self.results, *self.others)]

    def write_message(self, write: PayloadWriter) -> dict[str, Any]:
        raw: dict[str, Any] = {"role": self.role, "content": self.write_content()}
        for piece in self.pieces:
            for key, value in piece.around.items():
                if raw.setdefault(key, value) != value:
                    write.lose(piece.path, key, _MERGED)

        return raw


def _text_of(block: Mapping[str, Any]) -> str | None:
    text = block.get("text") if block.get("type") == "text" else None
    return text if isinstance(text, str) else None


class MessageGrouping:
    """
    All messages there, while they are written.
    """

    def __init__(self, write: PayloadWriter, *, system_on_top: bool) -> None:
        self._write = write
        self._system_on_top = system_on_top
        self._top = _GroupedMessage("system")
        self._turns: list[_GroupedMessage | dict[str, Any]] = []
        self._last: _GroupedMessage | None = None
        # System messages that wait for their place, and how many of them are
        # reported as moved.
        self._held: list[MessageBlocks] = []
        self._reported = 0

    def system(self, piece: MessageBlocks, *, inside: bool) -> None:
        """
        Add a system message: on top if it is in front of all others, unless it
        was not there, *inside*.
        """
        if not self._drop_blank_texts(piece):
            return

        if not (self._turns or self._held or inside):
            self._top.add(piece)
        elif self._system_on_top:
            self._put_on_top(piece)
        elif inside and not self._turns:
            self._continue_message("system", piece)
        else:
            self._held.append(piece)

    def top(self, piece: MessageBlocks) -> None:
        """
        Add what was on top.
        """
        self._top.add(piece)

    def user(self, piece: MessageBlocks) -> None:
        if self._drop_blank_texts(piece):
            self._report_waiting()
            self._continue_message("user", piece)

    def result(self, piece: MessageBlocks, *, late: bool) -> None:
        """
        Add the result of a tool: in front of other blocks, unless
        it came so *late*.
        """
        self._report_waiting()
        blocks, piece.blocks = piece.blocks, []
        turn = self._continue_message("user", piece)
        if late:
            turn.others += blocks
            return

        if turn.others:
            self._write.lose(piece.path, "position", _FIRST)

        turn.results += blocks

    def assistant(self, piece: MessageBlocks) -> None:
        if self._drop_blank_texts(piece):
            self._place_held()
            self._continue_message("assistant", piece)

    def _drop_blank_texts(self, piece: MessageBlocks) -> bool:
        """
        Whether anything is left of *piece*, whose white space is lost where
        it is all the text there is.
        """
        texts = [_text_of(block) for _, block in piece.blocks]
        if any(text and text.strip() for text in texts):
            return True

        blocks, piece.blocks = piece.blocks, []
        for (path, block), text in zip(blocks, texts, strict=True):
            if text is None:
                piece.blocks.append((path, block))
            else:
                self._write.lose(path, "text", _BLANK)

        return bool(piece.blocks)

    def raw(self, message: dict[str, Any]) -> None:
        """
        Add a *message* as it is.
        """
        self._place_held()
        self._turns.append(message)
        self._last = None

    def payload(self) -> dict[str, Any]:
        self._place_held()
        system: dict[str, Any] = {}
        if self._top.pieces:
            system["system"] = self._top.write_content()
            for piece in self._top.pieces:
                fields = dict.fromkeys(piece.around, True)
                self._write.lose_each(piece.path, fields, _NO_FIELDS)

        messages = [
            turn.write_message(self._write)
            if isinstance(turn, _GroupedMessage)
            else turn
            for turn in self._turns
        ]
        return {**system, "messages": messages}

    def _continue_message(self, role: str, piece: MessageBlocks) -> _GroupedMessage:
        """
        The turn that *piece* is part of, with it.
        """
        turn = self._last
        if turn is None or turn.role != role or piece.apart:
            turn = self._last = _GroupedMessage(role)
            self._turns.append(turn)

        turn.add(piece)
        return turn

    def _report_waiting(self) -> None:
        """
        Note that what waits has to wait longer.
        """
        for piece in self._held[self._reported :]:
            self._write.lose(piece.path, "position", _BEHIND)

        self._reported = len(self._held)

    def _place_held(self) -> None:
        """
        Put waiting messages behind the user's, or a result of the provider's tools;
        and on top if another one did.
        """
        held, self._held, self._reported = self._held, [], 0
        for piece in held:
            if self._may_follow():
                self._continue_message("system", piece)
            else:
                self._put_on_top(piece)

    def _may_follow(self) -> bool:
        """
        Whether a system message may follow what there is so far.
        """
        turn = self._turns[-1] if self._turns else {}
        if not isinstance(turn, _GroupedMessage):
            return turn.get("role") in _BEFORE_SYSTEM

        if turn.role in _BEFORE_SYSTEM:
            return True

        kind = turn.others[-1][1].get("type")
        return isinstance(kind, str) and kind.endswith(_OF_THE_PROVIDER)

    def _put_on_top(self, piece: MessageBlocks) -> None:
        self._write.lose(piece.path, "position", _ON_TOP)
        self._top.add(piece)
