"""What a provider remembers of its answers, for rules that ask for them again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Bound(NamedTuple):
    """What a block of thinking is bound to: what it was made behind."""

    prefix: str  # a digest of the prompt, the tools and the messages
    previous: str  # the signature of the thinking before it, "" for none


def bound_of(body: Mapping[str, Any]) -> Iterator[tuple[str, str, Bound]]:
    """
    The path and the signature of each block of thinking in a *body* of Anthropic's, and
    what is in front of it: how it is written, and what to cache, makes no difference.
    """
    system = _blocks_of(body.get("system"))
    digest = hashlib.sha256(_encode_bare([body.get("tools") or [], system]))
    previous = ""
    for at, message in enumerate(body.get("messages") or ()):
        for on, block in enumerate(_blocks_of(message.get("content"))):
            if _is_thinking(block):
                signature = str(block.get("signature") or block.get("data"))
                path = f"messages.{at}.content.{on}"
                yield path, signature, Bound(digest.copy().hexdigest(), previous)
                previous = signature
            elif block.get("type") == "compaction":
                digest, previous = hashlib.sha256(), ""
            else:
                digest.update(_encode_bare([message["role"], block]))


def _is_thinking(block: Mapping[str, Any]) -> bool:
    return block.get("type") in ("thinking", "redacted_thinking")


def _encode_bare(value: Any) -> bytes:
    return json.dumps(_strip_marks(value), sort_keys=True).encode()


def _strip_marks(value: Any) -> Any:
    """*value* without keys that say nothing, and with each text as a block."""
    if isinstance(value, Mapping):
        return {
            key: _strip_marks(_blocks_of(each) if key == "content" else each)
            for key, each in value.items()
            if key not in ("cache_control", "caller") and each not in (None, False)
        }

    return [_strip_marks(each) for each in value] if isinstance(value, list) else value


def _blocks_of(content: Any) -> Any:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []

    return content or []


class Memory:
    """
    What a provider has answered: signatures, reasoning, and items it has stored.

    Made of the answers as they were sent, whole and not streamed: ``remember`` takes
    each. Without a memory, rules that need one accept.

    Attributes:
        thoughts: Anthropic: the text of each signature.
        bound: Anthropic: what each signature was made behind, where it is known.
        encrypted: Responses: the encrypted content of each reasoning.
        stored: Responses: the ids of items that are stored.
        unstored: Responses: the ids of items that are not.
        calls_of: Responses: of each stored response, the ids of its calls.
        reasoning_of: Responses: of each item's id, the id of the reasoning before it.
        reasoned_calls: Chat: the ids of calls that came with ``reasoning_content``.
        signatures: Gemini: the signatures of parts.
    """

    def __init__(self) -> None:
        self.thoughts: dict[str, str] = {}
        self.bound: dict[str, set[Bound]] = {}
        self.encrypted: set[str] = set()
        self.stored: set[str] = set()
        self.unstored: set[str] = set()
        self.calls_of: dict[str, frozenset[str]] = {}
        self.reasoning_of: dict[str, str] = {}
        self.reasoned_calls: set[str] = set()
        self.signatures: set[str] = set()

    def remember(
        self,
        wire: str,
        response: Mapping[str, Any],
        *,
        store: bool = True,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        """
        Keep what a whole *response* of *wire* has.

        Args:
            wire: ``openai_chat``, ``openai_responses``, ``anthropic`` or ``gemini``.
            response: The answer's JSON.
            store: Whether the request asked for its items to be stored.
            body: The request's JSON, to which thinking is bound.
        """
        if wire == "anthropic":
            self._remember_blocks(response, body)
        elif wire == "openai_chat":
            self._remember_choices(response)
        elif wire == "openai_responses":
            self._remember_items(response, store=store)
        else:
            self._remember_candidates(response)

    def _remember_blocks(
        self, response: Mapping[str, Any], body: Mapping[str, Any] | None
    ) -> None:
        content = list(response.get("content") or ())
        for block in content:
            if block.get("type") == "thinking":
                self.thoughts[block.get("signature", "")] = block["thinking"]

        if body is not None and any(map(_is_thinking, content)):
            answer = {"role": "assistant", "content": content}
            messages = [*(body.get("messages") or ()), answer]
            path = f"messages.{len(messages) - 1}."
            for found, signature, bound in bound_of({**body, "messages": messages}):
                if found.startswith(path):
                    self.bound.setdefault(signature, set()).add(bound)

    def _remember_choices(self, response: Mapping[str, Any]) -> None:
        for choice in response.get("choices") or ():
            message = choice.get("message") or {}
            if message.get("reasoning_content") is not None:
                self.reasoned_calls.update(
                    call["id"]
                    for call in message.get("tool_calls") or ()
                    if call.get("id")
                )

    def _remember_candidates(self, response: Mapping[str, Any]) -> None:
        for candidate in response.get("candidates") or ():
            for part in (candidate.get("content") or {}).get("parts") or ():
                if part.get("thoughtSignature"):
                    self.signatures.add(part["thoughtSignature"])

    def _remember_items(self, response: Mapping[str, Any], *, store: bool) -> None:
        if store and isinstance(response.get("id"), str):
            self.calls_of[response["id"]] = frozenset(
                item["call_id"]
                for item in response.get("output") or ()
                if item.get("type") == "function_call"
            )

        reasoning = None
        for item in response.get("output") or ():
            id_ = item.get("id")
            if id_ is not None:
                (self.stored if store else self.unstored).add(id_)
                if item.get("type") == "reasoning":
                    reasoning = id_
                elif reasoning is not None:
                    self.reasoning_of[id_] = reasoning
                    reasoning = None

            if item.get("encrypted_content"):
                self.encrypted.add(item["encrypted_content"])
