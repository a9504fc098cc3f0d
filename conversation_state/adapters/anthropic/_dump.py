"""
From messages to Anthropic Messages, and tools as its requests have them.

A message becomes a piece, and pieces become turns: neighbours of one role are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from conversation_state._persistent import EMPTY_MAP, thaw
from conversation_state.adapters.anthropic._blocks import (
    EMPTY,
    SOURCE,
    input_of,
    write_part,
)
from conversation_state.adapters.anthropic._load import load
from conversation_state.adapters.engine.export import (
    MARKER,
    THINKING,
    Export,
    Lost,
    PayloadWriter,
    ToolRules,
    in_order,
    merge_kept_keys,
    write_tools,
)
from conversation_state.adapters.engine.notes import map_of
from conversation_state.adapters.engine.wire import decode_base64, measure_image
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import Part
from conversation_state.requests import (
    ANTHROPIC,
    Rules,
    refuses_late_system,
    takes_thinking,
)
from conversation_state.requests import rules as rules_of
from conversation_state.tools import ToolCall, ToolChoice, ToolInfo

# A block, and the path of what it is made of.
Block: TypeAlias = tuple[str, dict[str, Any]]
_BEHIND = "only an answer may follow system content; this message was moved"
_ON_TOP = "system content must come first; this message was moved"
_NOT_ON_TOP = "only a user's message may be before a change of the tools"
_ON_TOP_ONLY = (
    "the host or model takes system content at the top only, and this has more "
    "than text"
)
_FIRST = "results must follow their calls directly; this message was moved"
_LAST = "thinking may not end an answer; it must be followed by what it led to"
_BEFORE_SYSTEM = frozenset({"system", "user"})
_OF_THE_PROVIDER = ("_tool_result", "mcp_tool_use", "server_tool_use")
_MERGED = "this message is merged into the one before, which has another value"
_NO_FIELDS = "system content at the top is no message, and has no further fields"
_BLANK = "the provider rejects text that is only white space"
_BLANK_END = "the provider rejects white space at the end of the request"


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

        raw: The message itself, of what changes tools in the middle.
    """

    path: str
    blocks: list[Block]
    plain: str | None = None
    around: Mapping[str, Any] = EMPTY_MAP
    apart: bool = False
    raw: dict[str, Any] | None = None


def make_piece(path: str, blocks: list[Block], notes: Mapping[str, Any]) -> Piece:
    if notes is EMPTY_MAP:
        return Piece(path, blocks)

    around: Any = thaw(map_of(notes, "message"))
    return Piece(path, blocks, None, around, notes.get("new_message") is True)


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


def _strip_text(block: dict[str, Any]) -> str | None:
    """The text of *block* without white space at its end; None if it is no text."""
    text = block.get("text") if block.get("type") == "text" else None
    return text.rstrip() if isinstance(text, str) else None


def _find_limited(turns: Iterable[_Turn | dict[str, Any]]) -> list[Block]:
    """The blocks of *turns* that are media or marked, each with its path."""
    return [
        (path, each)
        for turn in turns
        if isinstance(turn, _Turn)
        for path, block in (*turn.results, *turn.others)
        for each in _list_blocks(block)
        if each.get(MARKER) or each.get("type") in _LIMITED
    ]


_LIMITED = ("document", "image", "search_result")


def _find_marked(blocks: Iterable[Block]) -> list[Block]:
    return [(path, block) for path, block in blocks if block.get(MARKER)]


def _measure_block(block: dict[str, Any]) -> int:
    """The pixels of the longer side of the image that *block* is; 0 if unknown."""
    source = block.get("source")
    data = source.get("data") if isinstance(source, dict) else None
    if not isinstance(data, str):
        return 0

    # The size stands in the beginning, behind a preview at most.
    heads = (measure_image(decode_base64(data[:length])) for length in _HEADS)
    return next(filter(None, heads), 0)


_HEADS = (1_024, 98_304)
_MANY = 20
_MAX_SIDE, _MAX_SIDE_OF_MANY = 8_000, 2_000
_LEFT_OUT = "(an image is left out)"


def _list_blocks(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The blocks inside of *block* that may have a marker, and itself."""
    kind = block.get("type")
    holder = block.get("source") if kind == "document" else block
    inside = holder.get("content") if isinstance(holder, dict) else None
    if isinstance(kind, str) and kind in _HOLDERS and isinstance(inside, list):
        for each in inside:
            # Results may have documents, and all of these texts.
            if isinstance(each, dict):
                is_result = kind == "tool_result" != each.get("type")
                yield from _list_blocks(each) if is_result else [each]

    yield block


_HOLDERS = frozenset({"document", "search_result", "tool_result"})


def _is_of_provider(block: Mapping[str, Any]) -> bool:
    """Whether *block* is a call of a tool that the provider runs, or its result."""
    kind = block.get("type")
    return (
        isinstance(kind, str)
        and kind != "tool_result"
        and kind.endswith(_OF_THE_PROVIDER)
    )


def _goes_on(turn: _Turn, piece: Piece) -> bool:
    """Whether *piece* begins with the result of a call of *turn*, which was paused."""
    first = piece.blocks[0][1] if piece.blocks else {}
    return (
        "tool_use_id" in first
        and _is_of_provider(first)
        and any(block.get("id") == first["tool_use_id"] for _, block in turn.others)
    )


def _describe_size(size: int) -> str:
    if size > _MAX_SIDE:
        return f"the provider takes no image of more than {_MAX_SIDE} pixels"

    return (
        f"the provider takes no image of more than {_MAX_SIDE_OF_MANY} pixels among "
        f"more than {_MANY}"
    )


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
        # The calls of the provider's tools that wait for their results, by their ids,
        # each among the blocks of its answer; the calls of the caller's tools that
        # those made; and the newest container, in which they wait.
        self._waiting: dict[str, tuple[list[Block], Block]] = {}
        self._called_by: dict[str, list[dict[str, Any]]] = {}
        self.container = ""

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
            # Code takes nothing beside the results that it waits for.
            self._drop_waiting([*self._called_by])
            self._continue_turn("user", piece)

    def result(self, piece: Piece) -> None:
        """Add the result of a tool, in front of the turn's blocks of other messages."""
        self._report_waiting()
        self._end_answer()
        blocks, piece.blocks = piece.blocks, []
        # All results of an answer are in one message, even if several were loaded.
        follows = self._last is not None and bool(self._last.results)
        piece.apart = piece.apart and not (follows and self._writer.is_request)
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
        it is all the text there is. A file keeps it: a line is a block.
        """
        if self._writer.rules is _AS_KEPT:
            return bool(piece.blocks)

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

    def _end_answer(self, *, is_last: bool = False) -> None:
        """
        Leave out halves of calls that the provider runs, then the thinking at the end
        of an answer, and the answer if it is nothing else.

        Source:
            ``The final block in an assistant message cannot be `thinking` ``.
        """
        turn, rules = self._last, self._writer.rules
        is_kept = rules is not None and rules.takes_thinking_only
        if is_kept or turn is None or turn.role != "assistant":
            return

        blocks = turn.others
        self._drop_unpaired(blocks, is_last=is_last)
        is_end = is_last and self._writer.is_request
        while blocks:
            path, block = blocks[-1]
            if block.get("type") in THINKING:
                self._writer.lose(path, "reasoning", _LAST)
            elif is_end and _strip_text(block) == "":
                self._writer.lose(path, "text", _BLANK)
            else:
                break

            blocks.pop()

        if not blocks:
            self._turns.pop()
            before = self._turns[-1] if self._turns else None
            self._last = before if isinstance(before, _Turn) else None
        elif is_end:
            self._strip_end(turn)

    def _strip_end(self, turn: _Turn) -> None:
        """
        Remove the white space at the end of *turn*, the last of the request.

        Source:
            ``final assistant content cannot end with trailing whitespace``,
            https://github.com/tailcallhq/forgecode/issues/1872.
        """
        path, block = turn.others[-1]
        text, piece = _strip_text(block), turn.pieces[-1]
        if text and text != block["text"]:
            self._writer.lose(path, "text", _BLANK_END)
            block["text"] = text
            piece.plain = piece.plain and text

    def _drop_unpaired(self, blocks: list[Block], *, is_last: bool) -> None:
        """
        Leave out of an answer's *blocks* the calls of the provider's tools that have no
        result, unless the provider goes on there, and results without a call.

        Source:
            ```web_search` tool use with id `srvtoolu_1` was found without a
            corresponding `web_search_tool_result` block``; ``unexpected `tool_use_id`
            found in `web_search_tool_result` blocks``. It goes on after the results of
            the caller's tools, where the result is in a later answer, as the guide to
            programmatic tool calling has it; and where an answer is the last message.
        """
        goes_on = is_last or any(block.get("type") == "tool_use" for _, block in blocks)
        for one in [*blocks]:
            path, block = one
            name = block.get("tool_use_id")
            if block.get("type") == "tool_use":
                caller = str(map_of(block, "caller").get("tool_id"))
                if caller in self._waiting:
                    self._called_by.setdefault(caller, []).append(block)
            elif not _is_of_provider(block):
                continue
            elif str(block["type"]).endswith("_use"):
                self._waiting[str(block.get("id"))] = (blocks, one)
            elif name is not None and self._waiting.pop(str(name), None) is None:
                why = "is refused without the call it is of"
                self._writer.lose(path, str(block["type"]), why)
                blocks.remove(one)
            else:
                self._called_by.pop(str(name), None)

        if not goes_on:
            self._drop_waiting([*self._waiting])

    def _drop_waiting(self, names: Iterable[str]) -> None:
        """Leave out the calls of these *names*, which have no results."""
        for name in names:
            blocks, one = self._waiting.pop(name)
            path, block = one
            if block["type"] == "server_tool_use":
                self._writer.lose(
                    path, "server_tool_use", "is refused without its result"
                )
                blocks.remove(one)

            for use in self._called_by.pop(name, ()):
                use.pop("caller")

    def raw(self, message: dict[str, Any]) -> None:
        self._place_held()
        self._end_answer()
        self._turns.append(message)
        self._last = None

    def change(self, message: dict[str, Any], path: str) -> None:
        """Add a system message that changes tools, which keeps its place."""
        self._held.append(Piece(path, [], raw=message))

    def is_waiting(self) -> bool:
        """Whether a system message has not found its place yet."""
        return bool(self._held)

    def payload(self) -> dict[str, Any]:
        self._place_held()
        self._end_answer(is_last=True)
        top, blocks = _find_limited([self.top]), _find_limited(self._turns)
        self._writer.fit_markers(_find_marked(top), _find_marked(blocks))
        if self._writer.is_request:
            several: dict[Any, list[Block]] = {kind: [] for kind in _LIMITED}
            for each in blocks:
                several.get(each[1].get("type"), []).append(each)

            self._fit_images(several["image"])
            self._fit_citations(several["document"])
            self._fit_citations(several["search_result"])

        system: dict[str, Any] = {}
        if self.top.pieces:
            system["system"] = self.top.content()
            for piece in self.top.pieces:
                fields = dict.fromkeys(piece.around, True)
                self._writer.lose_each(piece.path, fields, _NO_FIELDS)

        messages = [self._write_turn(turn) for turn in self._turns]
        # "container_id is required when there are pending tool uses generated by code
        # execution with tools." Source:
        # https://github.com/anthropics/anthropic-sdk-python/pull/1150.
        is_pending = bool(self._waiting and self.container)
        container = {"container": self.container} if is_pending else {}
        return {**system, "messages": messages, **container}

    def _fit_images(self, images: list[Block]) -> None:
        """
        Put a text in place of those *images* that the provider refuses for their size:
        where there are many and one is large, of the large ones, or of the oldest if
        these are fewer or the newest image is large.

        Source:
            ``At least one of the image dimensions exceed max allowed size for
            many-image requests: 2000 pixels``,
            https://github.com/anthropics/claude-code/issues/49537.
        """
        sizes = [(_measure_block(block), path, block) for path, block in images]
        refused = [each for each in sizes if each[0] > _MAX_SIDE]
        taken = [each for each in sizes if each[0] <= _MAX_SIDE]
        large = [each for each in taken if each[0] > _MAX_SIDE_OF_MANY]
        oldest = taken[:-_MANY]
        if oldest and large:
            is_few = len(large) < len(oldest) and large[-1] is not taken[-1]
            refused += large if is_few else oldest

        for size, path, block in refused:
            self._writer.lose(path, "image", _describe_size(size))
            marker = {MARKER: block[MARKER]} if MARKER in block else {}
            block.clear()
            block.update({"type": "text", "text": _LEFT_OUT, **marker})

    def _fit_citations(self, sources: list[Block]) -> None:
        """
        Let all *sources*, of one kind, be cited if one is; others are refused then.

        Source:
            https://docs.claude.com/en/docs/build-with-claude/citations.
        """
        silent = [
            (path, block)
            for path, block in sources
            if map_of(block, "citations").get("enabled") is not True
        ]
        for path, block in silent if len(silent) < len(sources) else ():
            why = "all documents of a request are cited, or none"
            self._writer.lose(path, "citations", why)
            block["citations"] = {"enabled": True}

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
        is_apart = piece.apart and not self._writer.is_for_host
        if is_apart and turn is not None and self._writer.is_request:
            is_apart = not _goes_on(turn, piece)

        if turn is None or turn.role != role or is_apart:
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
            if self._may_system_follow() and piece.raw is not None:
                self._turns.append(piece.raw)
                self._last = None
            elif self._may_system_follow():
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
        if piece.raw is not None:
            self._writer.lose(piece.path, "system", _NOT_ON_TOP)
            return

        self._writer.lose(piece.path, "position", _ON_TOP)
        self.top.add(piece)


def dump(
    messages: Iterable[Message],
    rules: Rules | None = None,
    *,
    system_on_top: bool = False,
) -> Export:
    """
    *messages* as a request has them: ``{"system": ..., "messages": [...]}``.

    What was loaded from this format is written as it was, as far as the
    provider takes it. Its rules hold for all else:

    - System messages in front of all others are ``system``. One in the middle
      stays there, behind a user message and before an answer, which is
      the only place for it.
    - Messages of users and tools until the assistant answers are one message, the
      results of tools first; so are assistant messages without a user in
      between.
    - Blocks of the assistant stand in the order of their *index*.
    - No text is empty, and no answer is thinking only.

    Reasoning that the provider did not sign is lost. What else a request needs as a
    whole, results behind their calls for one, is in
    `conversation_state.requests.prepare`; what is changed for that is in
    `Export.lost`, too.

    Args:
        messages: The messages, from the beginning.

        rules: Those of one host, as `rules` makes them; None: they are right for all
            hosts that are known.

        system_on_top: Whether to put all system messages on top, for models
            that take none in the middle; what is moved so is in `Export.lost`.

    Raises:
        InvalidMessageError:
            If one of them is not a message.

    Source:
        Anthropic combines neighbours of one role itself, which Bedrock refuses.
    """
    writer = AnthropicWriter(system_on_top=system_on_top)
    ready = writer.prepare(messages, rules, ANTHROPIC, _find_lost)
    for message, path in ready.pairs():
        writer.add(message, path)

    return writer.export(writer.turns.payload())


def _find_lost(rules: Rules, message: Message, path: str) -> Sequence[Lost] | None:
    """All that is lost of *message* if nothing is left to send."""
    writer = AnthropicWriter(rules, system_on_top=True)
    writer.add(message, path)
    if writer.turns.is_waiting():
        return None

    payload = writer.turns.payload()
    return None if payload["messages"] or "system" in payload else writer.lost


class AnthropicWriter(PayloadWriter):
    def __init__(self, rules: Rules | None = None, *, system_on_top: bool) -> None:
        super().__init__(SOURCE, rules)
        self.turns = Turns(self, system_on_top=system_on_top)
        self._tools: dict[str, str] = {}

    def add(self, message: Message, path: str) -> None:
        match message:
            case AssistantMessage():
                self.assistant(message, path)
            case ToolMessage():
                self.tool(message, path)
            case SystemMessage() | UserMessage():
                self.text_message(message, path)
            case UnknownMessage():
                self.other(message, path)

    def text_message(self, message: SystemMessage | UserMessage, path: str) -> None:
        notes = self.notes_without_name(message, path)
        piece = self._write_piece(message, path, notes)
        if message.role == "user":
            self.turns.user(piece)
        else:
            self.turns.system(piece)

    def tool(self, message: ToolMessage, path: str) -> None:
        notes = self.notes_without_name(message, path)
        call_id, content = message.tool_call_id, message.content
        raw: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
        raw["content"] = content
        if not isinstance(content, str):
            blocks = self._write_blocks(content, path, "tool")
            raw["content"] = [block for _, block in blocks]

        if message.is_error:
            self._mark_failed(raw, path)
        elif notes.get("is_error") is False:
            raw["is_error"] = False

        self.lose_tool_name(message, path, self._tools.get(call_id, ""))
        merge_kept_keys(map_of(notes, "keys"), raw)
        self.turns.result(make_piece(path, [(path, raw)], notes))

    def _mark_failed(self, raw: dict[str, Any], path: str) -> None:
        content = raw["content"]
        blocks = [] if isinstance(content, str) else content
        if not content:
            why = "the provider rejects an error without content"
            self.lose(path, "is_error", why)
        elif any(block.get("type") != "text" for block in blocks):
            # The picture of what went wrong is worth more than the mark. Source:
            # https://github.com/vellum-ai/vellum-assistant/pull/18387
            why = "the provider rejects an error with other than texts"
            self.lose(path, "is_error", why)
        else:
            raw["is_error"] = True

    def assistant(self, message: AssistantMessage, path: str) -> None:
        notes = self.notes_without_name(message, path)
        model = message.response.model if message.response else ""
        is_foreign = self.rules is not None and not takes_thinking(self.rules, model)
        self.foreign_signer = model if is_foreign else ""
        self.wants_signatures = self.is_request and self._is_for_claude(model)
        container: Any = map_of(map_of(notes, "response"), "container").get("id")
        if isinstance(container, str):
            self.turns.container = container

        if not message.tool_calls:
            self.turns.assistant(self._write_piece(message, path, notes))
            return

        blocks: list[Block] = []
        for here, one in in_order(message.parts, message.tool_calls, path):
            if isinstance(one, ToolCall):
                blocks.append((here, self._write_call(one, here)))
            else:
                block = write_part(self, one, here, "assistant")
                blocks += [] if block is None else [(here, block)]

        self.turns.assistant(make_piece(path, blocks, notes))

    def _is_for_claude(self, signer: str) -> bool:
        """Whether a Claude is asked: where none is named, the one that answered."""
        asked, host = (self.rules.model, self.rules.host) if self.rules else ("", "")
        return bool(host) or "claude" in (asked or signer).lower()

    def other(self, message: UnknownMessage, path: str) -> None:
        notes = self.notes_without_name(message, path)
        raw = self.unknown(message.raw, message.source, path)
        if raw is None:
            return

        is_late = raw.get("role") == "system" and notes.get("system") is not True
        if is_late and self.rules and refuses_late_system(self.rules):
            self.lose(path, "system", _ON_TOP_ONLY)
            return

        # The user may have made it.
        try:
            load([raw])
        except DecodeError as error:
            why = f"invalid message: {error.problems[0]}"
            self.lose(path, "unknown", why)
            return

        content = raw.get("content")
        if notes.get("system") is True and isinstance(content, list):
            self.turns.top.add(Piece(path, [(path, block) for block in content]))
        elif is_late and content and self.is_request:
            self.turns.change(raw, path)
        else:
            self.turns.raw(raw)

    def _write_piece(
        self,
        message: SystemMessage | UserMessage | AssistantMessage,
        path: str,
        notes: Mapping[str, Any],
    ) -> Piece:
        content = message.content
        if not content:
            self.lose(path, "content", EMPTY)

        if not isinstance(content, str):
            return make_piece(
                path, self._write_blocks(content, path, message.role), notes
            )

        block = {"type": "text", "text": content}
        piece = make_piece(path, [(f"{path}.content", block)] * bool(content), notes)
        piece.plain = content
        return piece

    def _write_blocks(self, parts: Iterable[Part], path: str, role: str) -> list[Block]:
        places = [(f"{path}.parts[{at}]", part) for at, part in enumerate(parts)]
        return [
            (here, block)
            for here, part in places
            if (block := write_part(self, part, here, role)) is not None
        ]

    def _write_call(self, call: ToolCall, path: str) -> dict[str, Any]:
        notes = self.notes(call, path)
        if call.type != "function":
            self.lose(path, "type", "all calls are function calls in this format")

        if call.id:
            self._tools[call.id] = call.name

        block = {
            "type": "tool_use",
            "id": call.id,
            "name": call.name,
            "input": input_of(call.arguments),
        }
        return merge_kept_keys(map_of(notes, "keys"), block)


_RULES = ToolRules(
    "Anthropic",
    rules_of("anthropic", host="anthropic").call_names,
    ("allOf", "anyOf", "oneOf"),
)
_CHOICES = {
    ToolChoice.FORBIDDEN: "none",
    ToolChoice.ALLOWED: "auto",
    ToolChoice.FORCED: "any",
}


def dump_tools(
    tools: Iterable[ToolInfo], *, choice: ToolChoice | None = None
) -> Export:
    """
    *tools* and *choice* as the keys ``tools`` and ``tool_choice`` of a request.

    Raises:
        InvalidToolError:
            If *tools* or *choice* are something else.

    Source:
        Anthropic's reference; ``any`` is its word for a choice that is forced. It
        refuses ``anyOf``, ``oneOf`` and ``allOf`` at the top of a schema.

    >>> tool = ToolInfo("clock", "Tells the time.")
    >>> dump_tools([tool], choice=ToolChoice.FORCED).payload["tool_choice"]
    {'type': 'any'}
    """
    return write_tools(tools, choice, _RULES, _write_tool, _write_request)


def _write_tool(tool: ToolInfo, schema: dict[str, Any] | None) -> dict[str, Any]:
    written: dict[str, Any] = {"name": tool.name}
    if tool.description:
        written["description"] = tool.description

    written["input_schema"] = tool.json_schema() if schema is None else schema
    return written


def _write_request(
    tools: list[dict[str, Any]], choice: ToolChoice | None
) -> dict[str, Any]:
    request: dict[str, Any] = {"tools": tools}
    if choice is not None:
        request["tool_choice"] = {"type": _CHOICES[choice]}

    return request


# A message of a file, which no request is made of.
_AS_KEPT = attrs.evolve(
    ANTHROPIC, is_request=False, takes_thinking_only=True, max_markers=None
)


def write_message(message: Message, path: str) -> tuple[list[Any], list[Lost]]:
    """
    The messages of the format that one *message* is, each with role and content, none
    if all of it is lost; and what is lost.
    """
    writer = AnthropicWriter(_AS_KEPT, system_on_top=False)
    writer.add(message, path)
    return writer.turns.payload()["messages"], writer.lost
