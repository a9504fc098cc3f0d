"""What Anthropic's Messages API, and hosts that speak its wire, ask of a request."""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from conversation_state.testing.provider._memory import bound_of
from conversation_state.testing.provider._reading import (
    NAME,
    Check,
    Faults,
    Finding,
    is_spoken,
    noted,
    objects_of,
    wrong,
    wrong_request,
)
from conversation_state.testing.provider._rules import (
    REFERENCE,
    ProviderRule,
    make_rule,
)

Block = Mapping[str, Any]

# Blocks of other wires. Which blocks the newest model takes is unknown.
_FOREIGN_BLOCKS = frozenset((
    "image_url", "input_text", "output_text", "input_image", "input_file",
    "input_audio", "refusal", "reasoning", "function", "function_call",
    "function_call_output", "tool_call", "file", "audio", "video",
))  # fmt: skip
_CACHE = {"type", "cache_control"}
_KEYS: Mapping[str, frozenset[str]] = {
    "text": frozenset(_CACHE | {"text", "citations"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
    "tool_use": frozenset(_CACHE | {"id", "name", "input", "caller"}),
    "tool_result": frozenset(_CACHE | {"tool_use_id", "content", "is_error", "caller"}),
    "image": frozenset(_CACHE | {"source"}),
    "document": frozenset(_CACHE | {"source", "title", "context", "citations"}),
}
_REQUIRED: Mapping[str, tuple[tuple[str, type, str], ...]] = {
    "text": (("text", str, "a valid string"),),
    "thinking": (
        ("thinking", str, "a valid string"),
        ("signature", str, "a valid string"),
    ),
    "redacted_thinking": (("data", str, "a valid string"),),
    "server_tool_use": (("id", str, "a valid string"),),
    "mcp_tool_use": (("id", str, "a valid string"),),
    "tool_use": (
        ("id", str, "a valid string"),
        ("name", str, "a valid string"),
        ("input", Mapping, "a valid dictionary"),
    ),
    "tool_result": (("tool_use_id", str, "a valid string"),),
    "image": (("source", Mapping, "a valid dictionary"),),
    "document": (("source", Mapping, "a valid dictionary"),),
}
_RESULT_OF = ("tool_use_id", str, "a valid string")
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_MAX_IMAGE = 5 * 1024 * 1024
_MAGIC = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
}

_MESSAGE = ("role", "content")
_CHANGES = ("clear_at", "output_config")  # of system messages among the others
_THINKING = ("thinking", "redacted_thinking")
_PAUSED = ("mcp_tool_use", "server_tool_use")
# The models that take an answer's beginning as the last message.
_OLD_MODEL = re.compile(
    r"claude-(?:[123]|instant|(?:opus|sonnet|haiku)-4-(?:[015]|20)\b|"
    r"(?:opus|sonnet|haiku)-4-20)"
)
# The models whose thinking is bound to what it was made behind.
_BOUND = re.compile(r"claude-[a-z]+-(?:5-[1-9](?!\d)|[6-9])")
# The models that call no tool because they have to.
_UNFORCED = re.compile(
    r"claude-(?:fable|mythos|opus|sonnet)-(?:5-[1-9](?!\d)|[6-9](?!\d))"
)
# The models that take no system message behind others.
_NO_SYSTEM_ROLE = re.compile(
    r"claude-(?:[123]|instant|(?:sonnet|haiku)-4|opus-4(?:-[0-7](?!\d)|-20|$))"
)
# The models that take a temperature or top_p, and not both.
_ONE_SAMPLING = re.compile(
    r"claude-(?:opus-4-[1-9](?!\d)|(?:sonnet|haiku)-4-[5-9](?!\d))"
)


def _required_of(kind: str) -> tuple[tuple[str, type, str], ...]:
    required = _REQUIRED.get(kind)
    if required is not None:
        return required

    # Of the server's tools, of which there are more than are known here.
    return (_RESULT_OF,) if kind.endswith("_tool_result") else ()


class AnthropicRequest:
    """A request of the Messages API, read once for all checks."""

    def __init__(self, body: Mapping[str, Any], memory: Any, *, whole: bool) -> None:
        self.body = body
        self.memory = memory
        thinking = body.get("thinking")
        self.thinking: Mapping[str, Any] = (
            thinking
            if isinstance(thinking, Mapping) and thinking.get("type") == "enabled"
            else {}
        )
        self.faults = Faults()  # what is not of the form
        # Role and blocks of each message. A text is one block.
        self.messages: list[tuple[str, list[Block]]] = []
        # Place of the message and of the block, and the block, of each call.
        self.uses: list[tuple[int, int, Block]] = []
        self.results: list[tuple[int, int, Block]] = []  # the same, of each result
        # Path and time to live of each marker of what to cache.
        self.markers: list[tuple[str, str]] = []
        self.media: list[tuple[str, Block]] = []
        self.directives: set[int] = set()  # which messages change the effort only
        if whole:
            for key in ("model", "max_tokens"):
                if body.get(key) is None:
                    self.faults.note("missing", key)

        # In the order in which the provider caches them.
        for at, tool in objects_of(body.get("tools")):
            self._note_marker(f"tools.{at}", tool)

        self._read_system(body.get("system"))
        messages = body.get("messages")
        if messages is None:
            self.faults.note("missing", "messages")
        elif not isinstance(messages, list | tuple):
            self.faults.note("type", "messages", wanted="a valid list")
        elif not messages:
            self.faults.note("no_message", "messages")
        else:
            for at, message in enumerate(messages):
                self._read_message(at, message)

    def _note_marker(self, path: str, block: Block) -> None:
        marker = block.get("cache_control")
        if marker:
            ttl = marker.get("ttl", "5m") if isinstance(marker, Mapping) else "5m"
            self.markers.append((f"{path}.cache_control.ttl", str(ttl)))

    def _read_system(self, system: Any) -> None:
        if system is None or isinstance(system, str):
            return

        if not isinstance(system, list | tuple):
            self.faults.note("type", "system", wanted="a valid string")
            return

        for at, block in enumerate(system):
            self._read_block(f"system.{at}", block)

    def _read_message(self, at: int, message: Any) -> None:
        path = f"messages.{at}"
        if not isinstance(message, Mapping):
            self.faults.note("type", path, wanted="a valid dictionary")
            return

        role = self._read_role(path, message)
        for key in message:
            if key not in _MESSAGE and not (role == "system" and key in _CHANGES):
                self.faults.note("extra", f"{path}.{key}")

        content = message.get("content")
        if role == "system" and message.get("output_config") and content == []:
            self.directives.add(at)

        if isinstance(content, str):
            self.messages.append((role, [{"type": "text", "text": content}]))
        elif isinstance(content, list | tuple):
            self.messages.append((role, list(content)))
            self._read_blocks(at, content)
        elif "content" in message:
            self.faults.note("type", f"{path}.content", wanted="a valid list")
        else:
            self.faults.note("missing", f"{path}.content")

    def _read_role(self, path: str, message: Mapping[str, Any]) -> str:
        role = message.get("role")
        if role is None:
            self.faults.note("missing", f"{path}.role")
        elif role not in ("user", "assistant", "system"):
            self.faults.note("role", f"{path}.role", role=role)

        return str(role)

    def _read_blocks(self, at: int, blocks: Sequence[Any]) -> None:
        for block_at, block in enumerate(blocks):
            path = f"messages.{at}.content.{block_at}"
            kind = self._read_block(path, block)
            if kind == "tool_use":
                self.uses.append((at, block_at, block))
            elif kind == "tool_result":
                self.results.append((at, block_at, block))
                inner = block.get("content")
                if isinstance(inner, list | tuple):
                    for inner_at, each in enumerate(inner):
                        where = f"{path}.tool_result.content.{inner_at}"
                        self._read_block(where, each)
                elif not isinstance(inner, str | None):
                    where = f"{path}.tool_result.content"
                    self.faults.note("type", where, wanted="a valid string")

                # What is cached up to it has what is inside.
                self._note_marker(path, block)

    def _read_block(self, path: str, block: Any) -> str:
        if not isinstance(block, Mapping):
            self.faults.note("type", path, wanted="a valid dictionary")
            return ""

        kind = block.get("type")
        if not isinstance(kind, str):
            self.faults.note("missing", f"{path}.type")
            return ""

        if kind in _FOREIGN_BLOCKS:
            self.faults.note("foreign_block", path, found=kind)
            return ""

        self._read_keys(path, kind, block)
        source = block.get("source") if kind == "document" else block
        if kind in ("document", "search_result") and isinstance(source, Mapping):
            for at, inner in objects_of(source.get("content")):
                self._note_marker(f"{path}.{kind}.content.{at}", inner)

        if kind != "tool_result":
            self._note_marker(path, block)

        return kind

    def _read_keys(self, path: str, kind: str, block: Block) -> None:
        known = _KEYS.get(kind)
        if known is not None and not known.issuperset(block):
            for key in block:
                if key not in known:
                    self.faults.note("extra", f"{path}.{kind}.{key}")

        for key, wanted, words in _required_of(kind):
            if key not in block:
                self.faults.note("missing", f"{path}.{kind}.{key}")
            elif not isinstance(block[key], wanted):
                self.faults.note("type", f"{path}.{kind}.{key}", wanted=words)

        if kind in ("image", "document"):
            self.media.append((f"{path}.{kind}", block))


def _iterate_blocks(request: AnthropicRequest) -> Iterator[tuple[int, int, str, Block]]:
    for at, (role, blocks) in enumerate(request.messages):
        for block_at, block in enumerate(blocks):
            yield at, block_at, role, block


def misplaced(kinds: Container[object], is_wrong: Callable[[str], bool]) -> Check:
    """A check for blocks of these *kinds* in messages whose role is wrong."""

    def find_misplaced(request: AnthropicRequest) -> Iterator[Finding]:
        for at, block_at, role, block in _iterate_blocks(request):
            if block.get("type") in kinds and is_wrong(role):
                values = {"at": at, "kind": block["type"]}
                yield f"messages.{at}.content.{block_at}", values

    return find_misplaced


def find_unanswered_uses(request: AnthropicRequest) -> Iterator[Finding]:
    """Calls whose results are not in the next message."""
    if not request.uses:
        return

    answers: dict[int, set[str]] = {}
    for at, _, block in request.results:
        answers.setdefault(at, set()).add(block["tool_use_id"])

    waiting: dict[int, list[str]] = {}
    for at, _, block in request.uses:
        if block["id"] not in answers.get(at + 1, ()):
            waiting.setdefault(at, []).append(block["id"])

    for at, ids in waiting.items():
        yield f"messages.{at}", {"at": at, "ids": ", ".join(ids)}


def find_results_without_uses(request: AnthropicRequest) -> Iterator[Finding]:
    """Results whose call is not in the message before."""
    if not request.results:
        return

    called = {(at + 1, block["id"]) for at, _, block in request.uses}
    for at, block_at, block in request.results:
        if (at, block["tool_use_id"]) not in called:
            path = f"messages.{at}.content.{block_at}"
            yield path, {"path": path, "id": block["tool_use_id"]}


def find_second_results(request: AnthropicRequest) -> Iterator[Finding]:
    """Second results of one call."""
    seen: set[tuple[int, str]] = set()
    for at, block_at, block in request.results:
        key = (at, block["tool_use_id"])
        if key in seen:
            path = f"messages.{at}.content.{block_at}"
            yield path, {"path": path, "id": block["tool_use_id"]}

        seen.add(key)


def find_results_after_text(request: AnthropicRequest) -> Iterator[Finding]:
    """Results after another block of their message."""
    for at, block_at, block in request.results:
        if block_at and request.messages[at][1][block_at - 1]["type"] != "tool_result":
            yield (
                f"messages.{at}.content.{block_at}",
                {"at": at - 1, "ids": block["tool_use_id"]},
            )


def find_ids_twice(request: AnthropicRequest) -> Iterator[Finding]:
    """Ids that two calls of the request have."""
    seen: set[str] = set()
    for at, block_at, block in request.uses:
        if block["id"] in seen:
            path = f"messages.{at}.content.{block_at}"
            yield path, {"path": path}

        seen.add(block["id"])


def _iterate_ids(request: AnthropicRequest) -> Iterator[tuple[str, str]]:
    for at, block_at, block in request.uses:
        yield f"messages.{at}.content.{block_at}.tool_use.id", block["id"]

    for at, block_at, block in request.results:
        path = f"messages.{at}.content.{block_at}.tool_result.tool_use_id"
        yield path, block["tool_use_id"]


def _is_custom(tool: Mapping[str, Any]) -> bool:
    return tool.get("type") in (None, "custom")


def _iterate_names(request: AnthropicRequest) -> Iterator[tuple[str, str]]:
    for at, block_at, block in request.uses:
        yield f"messages.{at}.content.{block_at}.tool_use.name", block["name"]

    for at, tool in objects_of(request.body.get("tools")):
        if isinstance(tool.get("name"), str) and _is_custom(tool):
            yield f"tools.{at}.custom.name", tool["name"]


def find_empty_texts(request: AnthropicRequest) -> Iterator[Finding]:
    """Texts without a character, but for the content of a last answer."""
    last = len(request.messages) - 1
    for at, (role, blocks) in enumerate(request.messages):
        for block_at, block in enumerate(blocks):
            if block.get("type") == "text" and not block["text"]:
                if at == last and role == "assistant" and len(blocks) == 1:
                    continue

                yield f"messages.{at}.content.{block_at}", {}


def find_blank_texts(request: AnthropicRequest) -> Iterator[Finding]:
    """Messages whose texts have only white space."""
    for at, (_, blocks) in enumerate(request.messages):
        texts = [block["text"] for block in blocks if block.get("type") == "text"]
        if texts and all(texts) and not any(map(is_spoken, texts)):
            yield f"messages.{at}.content", {}


def find_empty_messages(request: AnthropicRequest) -> Iterator[Finding]:
    """Messages without a block, but for a last answer and a change of effort."""
    last = len(request.messages) - 1
    for at, (role, blocks) in enumerate(request.messages):
        is_taken = at in request.directives or (at == last and role == "assistant")
        if not blocks and not is_taken:
            yield f"messages.{at}", {"at": at}


def find_empty_system(request: AnthropicRequest) -> Iterator[Finding]:
    """Blocks of the system prompt without a character."""
    system = request.body.get("system")
    if isinstance(system, list | tuple):
        for at, block in enumerate(system):
            if not block.get("text"):
                yield f"system.{at}", {}


def find_empty_result_texts(request: AnthropicRequest) -> Iterator[Finding]:
    """Texts without a character in the parts of a result."""
    for at, block_at, block in request.results:
        inner = block.get("content")
        if isinstance(inner, list | tuple):
            for inner_at, each in enumerate(inner):
                if each.get("type") == "text" and not each["text"]:
                    yield f"messages.{at}.content.{block_at}.content.{inner_at}", {}


def find_trailing_space(request: AnthropicRequest) -> Iterator[Finding]:
    """A last answer that ends with white space."""
    role, blocks = request.messages[-1]
    if role == "assistant" and blocks and blocks[-1].get("type") == "text":
        text = blocks[-1]["text"]
        if text and text != text.rstrip():
            yield f"messages.{len(request.messages) - 1}", {}


def _find_prefill(request: AnthropicRequest) -> Iterator[Finding]:
    role, blocks = request.messages[-1]
    # After a pause of the provider's own tools an answer goes on.
    # Source: https://docs.claude.com/en/api/handling-stop-reasons
    is_paused = bool(blocks) and blocks[-1].get("type") in _PAUSED
    if role == "assistant" and not is_paused:
        yield f"messages.{len(request.messages) - 1}", {}


def find_prefill_of_new_model(request: AnthropicRequest) -> Iterator[Finding]:
    """
    An answer at the end, where the request names a model that does not go on with it.
    """
    model = str(request.body.get("model", ""))
    if "claude" in model and not _OLD_MODEL.search(model):
        yield from _find_prefill(request)


def find_roles_in_a_row(request: AnthropicRequest) -> Iterator[Finding]:
    """Two messages of one role next to each other."""
    previous = ""
    for at, (role, _) in enumerate(request.messages):
        if role == previous:
            yield f"messages.{at}", {"role": role}

        previous = role


def find_system_messages_of_host(request: AnthropicRequest) -> Iterator[Finding]:
    """System messages among the others, but for the newest models."""
    if not _BOUND.search(str(request.body.get("model"))):
        yield from find_system_messages(request)


def find_system_messages(request: AnthropicRequest) -> Iterator[Finding]:
    """System messages among the others."""
    for at, (role, _) in enumerate(request.messages):
        if role == "system":
            yield f"messages.{at}.role", {"role": role}


_DIRECTIVE = (
    "; the directive-only form (content: [] with output_config) is accepted at any "
    "position"
)
_OF_PROVIDER = ("_tool_result", "_tool_use")
_IN_SYSTEM = ("text", "tool_addition", "tool_removal")


def _find_late_systems(
    request: AnthropicRequest,
) -> Iterator[tuple[int, Sequence[Block], str, str, Sequence[Block]]]:
    """
    Each system message that says something: its place and blocks, the roles of what
    is before and behind those around it, "" for none, and the blocks before.
    """
    turns = [(role, blocks) for role, blocks in request.messages if role != "system"]
    passed = 0
    for at, (role, blocks) in enumerate(request.messages):
        if role != "system":
            passed += 1
        elif blocks:
            before = turns[passed - 1] if passed else ("", [])
            behind = turns[passed][0] if passed < len(turns) else ""
            yield at, blocks, before[0], behind, before[1]


def find_first_system(request: AnthropicRequest) -> Iterator[Finding]:
    """System messages in front of all others, instead of ``system``."""
    for at, _, before, _, _ in _find_late_systems(request):
        if not before:
            yield f"messages.{at}", {"at": at}
            return


def find_system_behind(request: AnthropicRequest) -> Iterator[Finding]:
    """System messages behind an answer that does not end in a tool of the provider."""
    for at, _, before, _, blocks in _find_late_systems(request):
        kind = str(blocks[-1].get("type")) if blocks else ""
        if before == "assistant" and not kind.endswith(_OF_PROVIDER):
            yield f"messages.{at}", {"at": at}


def find_system_before(request: AnthropicRequest) -> Iterator[Finding]:
    """System messages in front of a user's."""
    for at, _, before, behind, _ in _find_late_systems(request):
        if before and behind == "user":
            yield f"messages.{at}", {"at": at}


def find_system_blocks(request: AnthropicRequest) -> Iterator[Finding]:
    """System messages with blocks of others."""
    for at, blocks, _, _, _ in _find_late_systems(request):
        if any(block.get("type") not in _IN_SYSTEM for block in blocks):
            yield f"messages.{at}", {"at": at}


def find_unknown_tools(request: AnthropicRequest) -> Iterator[Finding]:
    """Changes of tools that the request does not have."""
    if request.body.get("tools") is None:
        return

    known = {str(tool.get("name")) for _, tool in objects_of(request.body["tools"])}
    for at, on, role, block in _iterate_blocks(request):
        tool = block.get("tool") if block.get("type") in _IN_SYSTEM else None
        if role != "system" or not isinstance(tool, Mapping):
            continue

        name = str(tool.get("name"))
        if tool.get("type") == "tool_reference" and name not in known:
            yield f"messages.{at}.content.{on}", {"at": at, "name": name}

        known.add(name)


def find_system_messages_of_old_model(request: AnthropicRequest) -> Iterator[Finding]:
    """System messages among the others, where the model named takes none there."""
    if _NO_SYSTEM_ROLE.search(str(request.body.get("model", ""))):
        yield from find_system_messages(request)


def find_thinking_at_end(request: AnthropicRequest) -> Iterator[Finding]:
    """Answers whose last block is thinking."""
    for at, (role, blocks) in enumerate(request.messages):
        if role == "assistant" and blocks:
            kind = blocks[-1].get("type")
            if kind in _THINKING:
                yield f"messages.{at}", {"at": at, "kind": kind}


def find_changed_thinking(request: AnthropicRequest) -> Iterator[Finding]:
    """
    Thinking with a signature of this provider and another text than it was given with.
    """
    if request.memory is None:
        return

    thoughts = request.memory.thoughts
    for at, block_at, _, block in _iterate_blocks(request):
        if block.get("type") == "thinking":
            given = thoughts.get(block["signature"])
            if given is not None and given != block["thinking"]:
                yield f"messages.{at}.content.{block_at}", {"at": at}


def find_foreign_signatures(request: AnthropicRequest) -> Iterator[Finding]:
    """Thinking with a signature that this provider did not give, or an empty one."""
    thinking = [
        (f"messages.{at}.content.{on}", {"at": at, "on": on}, block["signature"])
        for at, on, _, block in _iterate_blocks(request)
        if block.get("type") == "thinking"
    ]
    if "claude" in str(request.body.get("model", "")):
        for path, values, signature in thinking:
            if not signature:
                yield path, values

    thoughts = request.memory.thoughts if request.memory else {}
    for path, values, signature in thinking if thoughts else ():
        if signature not in thoughts:
            yield path, values


def find_unbound_thinking(request: AnthropicRequest) -> Iterator[Finding]:
    """
    Thinking that is not behind what it was made behind: the prompt, the tools, all
    earlier messages, and the thinking before it if any is.
    """
    known = request.memory.bound if request.memory else {}
    if not known or not _BOUND.search(str(request.body.get("model"))):
        return

    thinking = request.body.get("thinking") or {}
    asked = (thinking.get("block_binding") or {}).get("prefix_mismatch_behavior")
    if asked == "drop_block":
        return

    for path, signature, found in bound_of(request.body):
        previous = {
            each.previous
            for each in known.get(signature, ())
            if each.prefix == found.prefix
        }
        is_kept = bool(previous) and found.previous in {"", *previous}
        if signature in known and not is_kept:
            yield path, {"path": path}


def find_missing_thinking(request: AnthropicRequest) -> Iterator[Finding]:
    """
    Answers with calls, after the newest words of a user, that begin without thinking
    although the request asks for it.
    """
    if not request.thinking:
        return

    for at in range(len(request.messages) - 1, -1, -1):
        role, blocks = request.messages[at]
        if role == "user":
            if any(block.get("type") != "tool_result" for block in blocks):
                return
        elif blocks and any(block.get("type") == "tool_use" for block in blocks):
            kind = blocks[0].get("type")
            if kind not in _THINKING:
                yield f"messages.{at}.content.0.type", {"at": at, "found": kind}


def find_too_many_markers(request: AnthropicRequest) -> Iterator[Finding]:
    """More than four markers of what to cache."""
    if len(request.markers) > 4:  # noqa: PLR2004 - named in the docstring
        yield "messages", {"count": len(request.markers)}


def find_markers_out_of_order(request: AnthropicRequest) -> Iterator[Finding]:
    """Markers of what to cache for an hour behind ones for five minutes."""
    is_short = False
    for path, ttl in request.markers:
        if ttl == "1h" and is_short:
            yield path, {"path": path}

        is_short = is_short or ttl == "5m"


def find_failed_results_with_media(request: AnthropicRequest) -> Iterator[Finding]:
    """Results that failed, with other than texts."""
    for at, block_at, block in request.results:
        inner = block.get("content")
        if (
            block.get("is_error")
            and isinstance(inner, list | tuple)
            and any(each.get("type") != "text" for each in inner)
        ):
            path = f"messages.{at}.content.{block_at}.tool_result"
            yield path, {"path": path}


def find_markers_on_empty_texts(request: AnthropicRequest) -> Iterator[Finding]:
    """Markers of what to cache on texts without a character."""
    for at, block_at, _, block in _iterate_blocks(request):
        is_empty = block.get("type") == "text" and not block["text"]
        if is_empty and block.get("cache_control"):
            path = f"messages.{at}.content.{block_at}.text"
            yield path, {"path": path}


def find_server_results_without_use(request: AnthropicRequest) -> Iterator[Finding]:
    """
    Results of the server's tools whose call is not before them in the message, or in an
    earlier answer that a call of ours interrupted.
    """
    called: set[Any] = set()
    for at, (role, blocks) in enumerate(request.messages):
        if role != "assistant":
            continue

        for block_at, block in enumerate(blocks):
            kind = str(block.get("type"))
            if kind in ("server_tool_use", "mcp_tool_use"):
                called.add(block.get("id"))
            elif kind != "tool_result" and kind.endswith("tool_result"):
                id_ = block.get("tool_use_id")
                if id_ is not None and id_ not in called:
                    path = f"messages.{at}.content.{block_at}"
                    use = "mcp_tool_use" if kind[:3] == "mcp" else "server_tool_use"
                    yield path, {"path": path, "kind": kind, "id": id_, "use": use}

        if not any(block.get("type") == "tool_use" for block in blocks):
            called.clear()


def find_foreign_server_uses(request: AnthropicRequest) -> Iterator[Finding]:
    """Calls of the server's tools that another provider made."""
    for at, (_, blocks) in enumerate(request.messages):
        for block_at, block in enumerate(blocks):
            is_use = block.get("type") == "server_tool_use"
            if is_use and not _SERVER_ID.match(block["id"]):
                path = f"messages.{at}.content.{block_at}.server_tool_use.id"
                yield path, {"path": path, "pattern": "^srvtoolu_[a-zA-Z0-9_]+$"}


_SERVER_ID = re.compile(r"srvtoolu_[a-zA-Z0-9_]+\Z")


def find_mixed_citations(request: AnthropicRequest) -> Iterator[Finding]:
    """Documents that are not cited, beside one that is."""
    documents = [
        (path, isinstance(given, Mapping) and given.get("enabled") is True)
        for path, block in request.media
        if block["type"] == "document"
        for given in [block.get("citations")]
    ]
    if any(is_cited for _, is_cited in documents):
        for path, is_cited in documents:
            if not is_cited:
                yield f"{path}.citations", {"path": path}


def find_wide_images(request: AnthropicRequest) -> Iterator[Finding]:
    """PNGs of too many pixels; among more than twenty images, of fewer."""
    images = [*_iterate_encoded(request, "image")]
    is_many = len(images) > 20  # noqa: PLR2004 - as documented
    limit, words = (2_000, " for many-image requests") if is_many else (8_000, "")
    for path, _, data in images:
        try:
            begin = base64.b64decode(data[:32])
        except binascii.Error:
            continue

        sides = struct.unpack(">2I", begin[16:24].ljust(8, b"\0"))
        if begin[12:16] == b"IHDR" and limit < max(sides):
            yield path, {"path": path, "words": words, "limit": limit}


def find_media_by_url(request: AnthropicRequest) -> Iterator[Finding]:
    """Media that the provider would have to fetch."""
    for path, block in request.media:
        if block["source"].get("type") == "url":
            yield f"{path}.source.base64.data", {"path": path}


def find_missing_container(request: AnthropicRequest) -> Iterator[Finding]:
    """Calls of ours that code waits for, in a request that does not name where."""
    last = len(request.messages) - 1
    for at, block_at, block in request.uses:
        caller = block.get("caller")
        kind = caller.get("type") if isinstance(caller, Mapping) else None
        is_coded = isinstance(kind, str) and kind.startswith("code_execution")
        if is_coded and at == last - 1 and not request.body.get("container"):
            yield f"messages.{at}.content.{block_at}", {}


def find_server_uses_without_result(request: AnthropicRequest) -> Iterator[Finding]:
    """
    Calls of the server's tools without their result, in an answer that is not the last.
    """
    last = len(request.messages) - 1
    for at, (_, blocks) in enumerate(request.messages):
        if at == last:
            continue

        answered = {block.get("tool_use_id") for block in blocks}
        # A call of ours beside it interrupts the server, which goes on afterwards.
        if any(block.get("type") == "tool_use" for block in blocks):
            continue

        for block_at, block in enumerate(blocks):
            if block.get("type") == "server_tool_use" and block["id"] not in answered:
                values = {"at": at, "name": block.get("name"), "id": block["id"]}
                yield f"messages.{at}.content.{block_at}", values


def _iterate_encoded(
    request: AnthropicRequest, kind: str
) -> Iterator[tuple[str, str, str]]:
    """Path, media type and base64 of what is in the request itself."""
    for path, block in request.media:
        source = block["source"]
        if block["type"] == kind and source.get("type") == "base64":
            given = str(source.get("media_type")), str(source.get("data"))
            yield f"{path}.source.base64", *given


def other_than(kind: str, *media_types: str) -> Check:
    """A check for blocks of a *kind* whose media type is not one of these."""

    def find_others(request: AnthropicRequest) -> Iterator[Finding]:
        for path, media_type, _ in _iterate_encoded(request, kind):
            if media_type not in media_types:
                yield f"{path}.media_type", {"path": f"{path}.media_type"}

    return find_others


def find_other_images(request: AnthropicRequest) -> Iterator[Finding]:
    """Images whose first bytes are of another media type than the one they state."""
    for path, media_type, data in _iterate_encoded(request, "image"):
        if media_type in _IMAGES:
            try:
                begin = base64.b64decode(data[:16])
            except binascii.Error:
                continue

            for kind, magic in _MAGIC.items():
                if begin.startswith(magic) and kind != media_type:
                    yield path, {"path": path, "kind": media_type, "found": kind}


def find_large_images(request: AnthropicRequest) -> Iterator[Finding]:
    """Images whose base64 has more than 5 MiB."""
    for path, _, data in _iterate_encoded(request, "image"):
        if len(data) > _MAX_IMAGE:
            yield path, {"path": path, "size": len(data), "limit": _MAX_IMAGE}


def _list_schemas(request: AnthropicRequest) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for at, tool in objects_of(request.body.get("tools")):
        if _is_custom(tool):
            schema = tool.get("input_schema")
            if isinstance(schema, Mapping):
                yield f"tools.{at}.custom.input_schema", schema


def find_schemas_without_type(request: AnthropicRequest) -> Iterator[Finding]:
    """Schemas of tools that are not of an object."""
    for path, schema in _list_schemas(request):
        if schema.get("type") != "object":
            where = f"{path}.type"
            words = "Input should be 'object'" if "type" in schema else "Field required"
            yield where, {"path": where, "words": words}


def find_tools_twice(request: AnthropicRequest) -> Iterator[Finding]:
    """Names that two tools have."""
    seen: set[str] = set()
    for at, tool in objects_of(request.body.get("tools")):
        name = str(tool.get("name", f"{at}"))
        if name in seen:
            yield f"tools.{at}", {}

        seen.add(name)


_ISSUES = "https://github.com/"
_REFERENCE = "https://docs.claude.com/en/api/messages"
_TOOL_USE = (
    "https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use"
)
_THINKING_GUIDE = "https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
_SYSTEM_MESSAGES = (
    "https://platform.claude.com/docs/en/build-with-claude/"
    "mid-conversation-system-messages"
)
_BEDROCK = "https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html"


_rule = partial(make_rule, "anthropic")
_PATTERN = "{path}: String should match pattern '{pattern}'"
_OF_ASSISTANT = "messages.{at}: `{kind}` blocks can only be in `assistant` messages"
_OF_USER = "messages.{at}: `{kind}` blocks can only be in `user` messages"
_UNANSWERED = (
    "messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately "
    "after: {ids}. Each `tool_use` block must have a corresponding `tool_result` block "
    "in the next message."
)
_EMPTY_TEXT = "text content blocks must be non-empty"
_NO_PREFILL = (
    "This model does not support assistant message prefill. The conversation must end "
    "with a user message."
)

ANTHROPIC_RULES: tuple[ProviderRule, ...] = (
    # The form.
    _rule("missing", noted("missing"), "{path}: Field required", _REFERENCE),
    _rule("type", noted("type"), "{path}: Input should be {wanted}", _REFERENCE),
    _rule(
        "extra", noted("extra"), "{path}: Extra inputs are not permitted", _REFERENCE
    ),
    _rule(
        "no_message",
        noted("no_message"),
        "messages: at least one message is required",
        _REFERENCE,
    ),
    _rule(
        "role",
        noted("role"),
        'messages: Unexpected role "{role}". Allowed roles are "user" or "assistant"',
        _REFERENCE,
    ),
    _rule(
        "foreign_block",
        noted("foreign_block"),
        "{path}: Input tag '{found}' found using 'type' does not match any of the "
        "expected tags: 'document', 'image', 'redacted_thinking', 'search_result', "
        "'text', 'thinking', 'tool_result', 'tool_use'",
        _REFERENCE,
    ),
    # Calls and results.
    _rule(
        "call_without_result",
        find_unanswered_uses,
        _UNANSWERED,
        _ISSUES + "anthropics/claude-code/issues/8210",
    ),
    _rule(
        "result_without_call",
        find_results_without_uses,
        "{path}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each "
        "`tool_result` block must have a corresponding `tool_use` block in the "
        "previous message.",
        _ISSUES + "anthropics/claude-code/issues/18947",
    ),
    _rule(
        "second_result",
        find_second_results,
        "{path}: each tool_use must have a single result. Found multiple "
        "`tool_result` blocks with id: {id}",
        _REFERENCE,
    ),
    _rule(
        "result_after_text",
        find_results_after_text,
        _UNANSWERED,
        _TOOL_USE,
        by=(REFERENCE,),
    ),
    _rule(
        "id_twice",
        find_ids_twice,
        "{path}: `tool_use` ids must be unique",
        _ISSUES + "anthropics/claude-code/issues/20901",
    ),
    _rule(
        "call_of_user",
        misplaced(("tool_use",), lambda role: role != "assistant"),
        _OF_ASSISTANT,
        _REFERENCE,
    ),
    _rule(
        "result_of_assistant",
        misplaced(("tool_result",), lambda role: role != "user"),
        _OF_USER,
        _REFERENCE,
    ),
    _rule(
        "server_result_without_call",
        find_server_results_without_use,
        "{path}: unexpected `tool_use_id` found in `{kind}` blocks: {id}. Each "
        "`{kind}` block must have a corresponding `{use}` block before it.",
        _ISSUES + "anthropics/claude-code/issues/64383",
    ),
    _rule(
        "server_call_without_result",
        find_server_uses_without_result,
        "messages.{at}: `{name}` tool use with id `{id}` was found without a "
        "corresponding `{name}_tool_result` block",
        _REFERENCE,
    ),
    _rule(
        "server_call_of_others",
        find_foreign_server_uses,
        _PATTERN,
        _ISSUES + "ding113/claude-code-hub/issues/470",
    ),
    _rule(
        "container_missing",
        find_missing_container,
        "container_id is required when there are pending tool uses generated by code "
        "execution with tools.",
        _ISSUES + "anthropics/anthropic-sdk-python/pull/1150",
    ),
    _rule(
        "failed_result_with_media",
        find_failed_results_with_media,
        '{path}: all content must be type "text" if "is_error" is true',
        _ISSUES + "vellum-ai/vellum-assistant/pull/18387",
    ),
    # Ids and names.
    _rule(
        "id_characters",
        wrong(
            _iterate_ids, lambda id_: not NAME.match(id_), pattern="^[a-zA-Z0-9_-]+$"
        ),
        _PATTERN,
        _ISSUES + "maximhq/bifrost/issues/5097",
    ),
    _rule(
        "name_characters",
        wrong(
            _iterate_names,
            lambda name: not NAME.match(name) or len(name) > 128,  # noqa: PLR2004
            pattern="^[a-zA-Z0-9_-]{1,128}$",
        ),
        _PATTERN,
        _REFERENCE,
    ),
    _rule(
        "name_too_long",
        wrong(
            _iterate_names,
            lambda name: NAME.match(name) and len(name) > 64,  # noqa: PLR2004
            pattern="^[a-zA-Z0-9_-]{1,64}$",
        ),
        _PATTERN,
        _ISSUES + "apify/tester-mcp-client/issues/11",
        by=("bedrock", "vertex", REFERENCE),
    ),
    # Empty content.
    _rule(
        "empty_text",
        find_empty_texts,
        "messages: " + _EMPTY_TEXT,
        _ISSUES + "anthropics/claude-code/issues/59812",
    ),
    _rule(
        "blank_text",
        find_blank_texts,
        "messages: text content blocks must contain non-whitespace text",
        _ISSUES + "LibreChat-AI/agents/pull/124",
    ),
    _rule(
        "empty_message",
        find_empty_messages,
        "messages.{at}: all messages must have non-empty content except for the "
        "optional final assistant message",
        _ISSUES + "anthropics/claude-code/issues/6774",
    ),
    _rule("empty_system", find_empty_system, "system: " + _EMPTY_TEXT, _REFERENCE),
    _rule(
        "empty_result_text",
        find_empty_result_texts,
        "messages: " + _EMPTY_TEXT,
        _REFERENCE,
    ),
    _rule(
        "trailing_space",
        find_trailing_space,
        "messages: final assistant content cannot end with trailing whitespace",
        _ISSUES + "tailcallhq/forgecode/issues/1872",
    ),
    # Who speaks.
    _rule(
        "prefill",
        find_prefill_of_new_model,
        _NO_PREFILL,
        _ISSUES + "smallmain/vscode-unify-chat-provider/issues/249",
    ),
    _rule(
        "assistant_last",
        _find_prefill,
        _NO_PREFILL,
        _ISSUES + "NousResearch/hermes-agent/pull/50055",
        by=("copilot", "bedrock"),
    ),
    _rule(
        "assistant_first",
        wrong_request(
            "messages.0", lambda request: request.messages[0][0] == "assistant"
        ),
        'messages: first message must use the "user" role',
        _ISSUES + "anthropics/anthropic-sdk-typescript/issues/622",
        by=("bedrock",),
    ),
    _rule(
        "alternation",
        find_roles_in_a_row,
        'messages: roles must alternate between "user" and "assistant", but found '
        'multiple "{role}" roles in a row',
        _BEDROCK,
        by=("bedrock",),
    ),
    _rule(
        "system_message",
        find_system_messages_of_host,
        'messages: Unexpected role "{role}". The Messages API accepts a top-level '
        '`system` parameter, not "system" as an input message role.',
        _BEDROCK,
        by=("bedrock", "vertex"),
    ),
    _rule(
        "system_message_of_old_model",
        find_system_messages_of_old_model,
        "role 'system' is not supported on this model",
        _ISSUES + "anthropics/claude-code/issues/61412",
    ),
    _rule(
        "system_first",
        find_first_system,
        "messages.{at}: use the top-level 'system' parameter for the initial system "
        "prompt" + _DIRECTIVE,
        _ISSUES + "LeenHawk/gproxy/issues/209",
    ),
    _rule(
        "system_behind",
        find_system_behind,
        "messages.{at}: role 'system' must follow a 'user' message or an 'assistant' "
        "message ending in a server tool result" + _DIRECTIVE,
        _SYSTEM_MESSAGES,
    ),
    _rule(
        "system_before",
        find_system_before,
        "messages.{at}: role 'system' must precede an 'assistant' message or end the "
        "array" + _DIRECTIVE,
        _SYSTEM_MESSAGES,
    ),
    _rule(
        "system_tools",
        find_unknown_tools,
        "messages.{at}: tool_addition/tool_removal references unknown tool '{name}'",
        _SYSTEM_MESSAGES,
    ),
    _rule(
        "system_blocks",
        find_system_blocks,
        "messages.{at}: role 'system' supports text, tool_addition, and tool_removal "
        "blocks only",
        _SYSTEM_MESSAGES,
    ),
    # Thinking and media.
    _rule(
        "thinking_at_end",
        find_thinking_at_end,
        "messages.{at}: The final block in an assistant message cannot be `{kind}`.",
        _ISSUES + "tailcallhq/forgecode/issues/2107",
    ),
    _rule(
        "thinking_of_user",
        misplaced(_THINKING, lambda role: role != "assistant"),
        _OF_ASSISTANT,
        _REFERENCE,
    ),
    _rule(
        "thinking_changed",
        find_changed_thinking,
        "messages.{at}: `thinking` or `redacted_thinking` blocks in the latest "
        "assistant message cannot be modified. These blocks must remain as they were "
        "in the original response.",
        _ISSUES + "anthropics/claude-code/issues/63295",
    ),
    _rule(
        "thinking_signature",
        find_foreign_signatures,
        "messages.{at}.content.{on}: Invalid `signature` in `thinking` block",
        _REFERENCE,
    ),
    _rule(
        "thinking_bound",
        find_unbound_thinking,
        "{path}: Invalid `signature` in `thinking` block. The block is bound to a "
        "different conversation. Remove the block, or set "
        '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".',
        _ISSUES + "anomalyco/opencode/issues/48637",
    ),
    _rule(
        "thinking_missing",
        find_missing_thinking,
        "messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
        "found `{found}`. When `thinking` is enabled, a final `assistant` message must "
        "start with a thinking block (preceeding the lastmost set of `tool_use` and "
        "`tool_result` blocks).",
        _ISSUES + "n8n-io/n8n/issues/22550",
    ),
    _rule(
        "thinking_temperature",
        wrong_request(
            "temperature",
            lambda request: (
                request.thinking and request.body.get("temperature") not in (None, 1)
            ),
        ),
        "`temperature` may only be set to 1 when thinking is enabled. Please consult "
        "our documentation at https://docs.anthropic.com/en/docs/build-with-claude/"
        "extended-thinking#important-considerations-when-using-extended-thinking",
        _ISSUES + "MartialBE/one-hub/issues/529",
    ),
    _rule(
        "two_samplings",
        wrong_request(
            "top_p",
            lambda request: (
                None not in map(request.body.get, ("temperature", "top_p"))
                and _ONE_SAMPLING.search(str(request.body.get("model")))
            ),
        ),
        "`temperature` and `top_p` cannot both be specified for this model. Please use "
        "only one.",
        _ISSUES + "BerriAI/litellm/issues/15097",
    ),
    _rule(
        "thinking_forced_tool",
        wrong_request(
            "tool_choice",
            lambda request: (
                request.thinking
                and isinstance(choice := request.body.get("tool_choice"), Mapping)
                and choice.get("type") in ("any", "tool")
            ),
        ),
        "Thinking may not be enabled when tool_choice forces tool use.",
        _ISSUES + "mastra-ai/mastra/issues/7507",
    ),
    _rule(
        "forced_tool_of_new_model",
        wrong_request(
            "tool_choice",
            lambda request: (
                isinstance(choice := request.body.get("tool_choice"), Mapping)
                and choice.get("type") in ("any", "tool")
                and _UNFORCED.search(str(request.body.get("model")))
            ),
        ),
        'tool_choice: type "tool" and "any" are not supported for this model.',
        _ISSUES + "can1357/oh-my-pi/issues/12939",
    ),
    _rule(
        "thinking_budget",
        wrong_request(
            "thinking.enabled.budget_tokens",
            lambda request: (
                isinstance(budget := request.thinking.get("budget_tokens"), int)
                and budget < 1_024  # noqa: PLR2004 - as documented
            ),
        ),
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        _THINKING_GUIDE,
    ),
    _rule(
        "thinking_over_limit",
        # With tools a budget may be over several answers.
        wrong_request(
            "max_tokens",
            lambda request: (
                isinstance(budget := request.thinking.get("budget_tokens"), int)
                and isinstance(limit := request.body.get("max_tokens"), int)
                and budget >= limit
                and not request.body.get("tools")
            ),
        ),
        "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult "
        "our documentation at https://docs.claude.com/en/docs/build-with-claude/"
        "extended-thinking#max-tokens-and-context-window-size",
        _THINKING_GUIDE,
    ),
    _rule(
        "media_of_assistant",
        misplaced(("image", "document"), lambda role: role == "assistant"),
        _OF_USER,
        _REFERENCE,
        by=(REFERENCE,),
    ),
    _rule(
        "image_format",
        other_than("image", *_IMAGES),
        "{path}: Input should be 'image/jpeg', 'image/png', 'image/gif' or "
        "'image/webp'",
        _ISSUES + "NousResearch/hermes-agent/issues/55432",
    ),
    _rule(
        "image_of_other_format",
        find_other_images,
        "{path}: The image was specified using the {kind} media type, but the image "
        "appears to be a {found} image",
        _ISSUES + "vybestack/llxprt-code/issues/2130",
    ),
    _rule(
        "document_format",
        other_than("document", "application/pdf"),
        "{path}: Input should be 'application/pdf'",
        _REFERENCE,
    ),
    _rule(
        "media_by_url",
        find_media_by_url,
        "{path}.source.base64.data: URL sources are not supported",
        _ISSUES + "braintrustdata/lingua/pull/160",
        by=("bedrock", "vertex"),
        dialect=True,
    ),
    _rule(
        "citations_mixed",
        find_mixed_citations,
        "{path}.citations: citations must be enabled on all or none of the documents "
        "in a request",
        "https://docs.claude.com/en/docs/build-with-claude/citations",
    ),
    _rule(
        "image_pixels",
        find_wide_images,
        "{path}.data: At least one of the image dimensions exceed max allowed size"
        "{words}: {limit} pixels",
        _ISSUES + "anthropics/claude-code/issues/49537",
    ),
    _rule(
        "image_size",
        find_large_images,
        "{path}: image exceeds 5 MB maximum: {size} bytes > {limit} bytes",
        _ISSUES + "anthropics/claude-code/issues/19631",
    ),
    # Markers.
    _rule(
        "too_many_markers",
        find_too_many_markers,
        "A maximum of 4 blocks with cache_control may be provided. Found {count}.",
        _ISSUES + "tghamm/Anthropic.SDK/issues/50",
    ),
    _rule(
        "marker_order",
        find_markers_out_of_order,
        "{path}: a ttl='1h' cache_control block must not come after a ttl='5m' "
        "cache_control block. Note that blocks are processed in the following order: "
        "`tools`, `system`, `messages`.",
        _ISSUES + "cnighswonger/claude-code-cache-fix/issues/44",
    ),
    _rule(
        "marker_on_empty_text",
        find_markers_on_empty_texts,
        "{path}: cache_control cannot be set for empty text blocks",
        _ISSUES + "anthropics/claude-code/issues/54039",
    ),
    # Tools.
    _rule(
        "schema_union",
        wrong(
            _list_schemas,
            lambda schema: not schema.keys().isdisjoint(("oneOf", "allOf", "anyOf")),
        ),
        "{path}: input_schema does not support oneOf, allOf, or anyOf at the top level",
        _ISSUES + "anthropics/claude-code/issues/5973",
    ),
    _rule("schema_type", find_schemas_without_type, "{path}: {words}", _REFERENCE),
    _rule(
        "tool_twice",
        find_tools_twice,
        "tools: Tool names must be unique.",
        _ISSUES + "tailcallhq/forgecode/issues/892",
    ),
)
