"""What a provider remembers of its answers, for rules that ask for them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Memory:
    """
    What a provider has answered: signatures, reasoning, and items it has stored.

    Made of the answers as they were sent, whole and not streamed: ``remember`` takes
    each. Without a memory, rules that need one accept.

    Attributes:
        thoughts: Anthropic: the text of each signature.
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
        self.encrypted: set[str] = set()
        self.stored: set[str] = set()
        self.unstored: set[str] = set()
        self.calls_of: dict[str, frozenset[str]] = {}
        self.reasoning_of: dict[str, str] = {}
        self.reasoned_calls: set[str] = set()
        self.signatures: set[str] = set()

    def remember(
        self, wire: str, response: Mapping[str, Any], *, store: bool = True
    ) -> None:
        """
        Keep what a whole *response* of *wire* has.

        Args:
            wire: ``openai_chat``, ``openai_responses``, ``anthropic`` or ``gemini``.
            response: The answer's JSON.
            store: Whether the request asked for its items to be stored.
        """
        if wire == "anthropic":
            self._remember_blocks(response)
        elif wire == "openai_chat":
            self._remember_choices(response)
        elif wire == "openai_responses":
            self._remember_items(response, store=store)
        else:
            self._remember_candidates(response)

    def _remember_blocks(self, response: Mapping[str, Any]) -> None:
        for block in response.get("content") or ():
            if block.get("type") == "thinking":
                self.thoughts[block.get("signature", "")] = block["thinking"]

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
