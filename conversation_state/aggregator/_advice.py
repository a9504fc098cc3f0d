"""
What to write instead of an argument that another library would take.

Imported when an error is raised, and then only.
"""

from __future__ import annotations

from conversation_state._wording import describe_value, name_load, name_to_json
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import Part
from conversation_state.tools import ToolCall

# The adapter that reads an SDK's object, by the package that its class is in.
_PACKAGES = {
    "openai": "openai_chat",
    "anthropic": "anthropic",
    "google": "gemini",
    "langchain_core": "langchain",
    "pydantic_ai": "pydantic_ai",
    "agents": "agents",
}
_OF_PROVIDERS = {"openai_chat", "openai_responses", "anthropic", "gemini"}
# What whole responses have, and the messages in them do not.
_OF_RESPONSES = ("choices", "candidates", "output", "stop_reason")


def describe_wrong(verb: str, expected: str, given: object, line: str) -> str:
    """
    That *verb* takes what is *expected*, and what to write for *given*. *line* is the
    call to write with messages, which are ``{}`` in it.
    """
    wrong = f"{verb} takes {expected}, got {describe_value(given)}"
    advice = _advise_own(verb, given) or _advise_foreign(verb, given, line)
    return f"{wrong}; {advice}" if advice else wrong


def _advise_own(verb: str, given: object) -> str:
    """What takes *given*, a text or a value of this library's; "" if it is neither."""
    if isinstance(given, str):
        return _TEXTS.get(verb, "make a message of it: UserMessage(text)")

    for kind, advice in _OWN:
        if isinstance(given, kind):
            return advice

    # An `Accumulator`, whose module is beside this one.
    if type(given).__name__ == "Accumulator":
        return "add what it received: state.add_response(received.message)"

    return ""


def _advise_foreign(verb: str, given: object, line: str) -> str:
    """
    How to load *given*, which is JSON or an object of an SDK; "" if it is neither.
    """
    loaded = name_load(given) or _name_load_of_object(given)
    if loaded:
        adapter = loaded.removeprefix("concat(").partition(".")[0]
        return (
            f"load it first: {line.format(loaded)}, with {adapter} from "
            "conversation_state.adapters"
        )

    if isinstance(given, tuple) and [type(each) for each in given] == [str, str]:
        # As LangChain takes messages.
        return "make a message of it: UserMessage(text) or AssistantMessage(text)"

    if isinstance(given, (list, tuple)) and verb.startswith("add"):
        return "state.extend(messages) adds several"

    if verb in {"add_user_prompt", "add_assistant_message"}:
        return f"it takes parts, too: state.{verb}([text, part])"

    return ""


def _name_load_of_object(given: object) -> str:
    """The call that loads *given*, an object of an SDK; "" for any other."""
    if isinstance(given, (list, tuple)):
        return _name_load_of_object(given[0]) if given else ""

    kind = type(given)
    adapter = _PACKAGES.get(kind.__module__.partition(".")[0], "")
    if not adapter:
        return ""

    if kind.__module__.startswith("openai.types.responses"):
        adapter = "openai_responses"

    to_json = name_to_json(given)
    call = f".{to_json}" if to_json and adapter in _OF_PROVIDERS else ""
    if "Stream" in kind.__name__ or "Chunk" in kind.__name__:
        return f"concat({adapter}.load_chunks(each{call} for each in stream))"

    if any(hasattr(given, key) for key in _OF_RESPONSES):
        return f"{adapter}.load(answer{call})"

    return f"{adapter}.load([message{call}])"


# What to do with a text, by the verb that it was given to.
_TEXTS = {
    "add": "add_user_prompt(text) adds a user's text",
    "add_response": "add_assistant_message(text) adds a text without a usage",
    "add_tool_response": (
        "name the call it answers: state.add_tool_response(ToolMessage(text, "
        "tool_call_id=call.id)); tool_calls.call(function, call) makes such a message"
    ),
    "add_tool_call": "make a call of it: ToolCall(id, name, arguments)",
}
# What takes a value of this library's.
_OWN: tuple[tuple[type, str], ...] = (
    (UserMessage, "in a list, or state.add_user_prompt(message)"),
    (AssistantMessage, "in a list, or state.add_assistant_message(message)"),
    (ToolMessage, "in a list, or state.add_tool_response(message)"),
    (Message, "in a list, or state.add(message)"),
    (ToolCall, "state.add_tool_call(call) takes calls"),
    (Part, "state.add_user_prompt(part) takes parts"),
)
