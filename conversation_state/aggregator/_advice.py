"""
What to write instead: for arguments of other libraries, and for names that lists and
other libraries' objects have.

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
    """
    What takes *given*, a text or a value of this library's; "" if it is neither.
    """
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

    if isinstance(given, (list, tuple)) and verb.startswith("add"):
        return "state.extend(messages) adds several"

    if verb in {"add_user_prompt", "add_assistant_message"}:
        return f"it takes parts, too: state.{verb}([text, part])"

    return ""


def _name_load_of_object(given: object) -> str:
    """
    The call that loads *given*, an object of an SDK; "" for any other.
    """
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
        "tool_call_id=call.id)); tools.call(function, call) makes such a message"
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
_ENCODE = "encode(state) makes bytes of it, and openai_chat.dump(state) a request"
_SHORTER = (
    "a state never changes: state.rollback(len(state) - 1) is the state without its "
    "newest message, and state.before(entry_id) that before an entry"
)
_SYSTEM = (
    "Aggregator.new([SystemMessage(text)]) begins with a system message, and "
    "state.add(SystemMessage(text)) adds one"
)
_TIMELINE = "Timeline.begin(state) has undo and redo"
_NEXT = "every verb returns the next state: state = state."

# What to use instead of a name that a state does not have.
NAMES = {
    **dict.fromkeys(
        ("append", "add_message", "push", "append_message"),
        _NEXT + "add(message)",
    ),
    **dict.fromkeys(
        ("add_messages", "add_all", "update"),
        _NEXT + "extend(messages)",
    ),
    **dict.fromkeys(
        ("add_user_message", "add_user", "add_prompt", "add_human_message", "ask"),
        _NEXT + "add_user_prompt(text)",
    ),
    **dict.fromkeys(
        ("add_assistant", "add_ai_message", "add_assistant_text", "add_model_message"),
        _NEXT + "add_assistant_message(text)",
    ),
    **dict.fromkeys(
        (
            "add_assistant_response",
            "add_answer",
            "add_completion",
            "add_model_response",
        ),
        _NEXT + "add_response(openai_chat.load(response))",
    ),
    **dict.fromkeys(
        ("add_tool_result", "add_tool_message", "add_tool_output", "add_tool_results"),
        _NEXT + "add_tool_response(call(function, each))",
    ),
    "add_tool_calls": _NEXT + "add_tool_call(*calls)",
    **dict.fromkeys(
        ("add_system_message", "add_system_prompt", "add_system", "system_prompt"),
        _SYSTEM,
    ),
    **dict.fromkeys(("history", "conversation", "transcript"), "messages"),
    **dict.fromkeys(
        (
            "to_dict",
            "to_json",
            "json",
            "dict",
            "model_dump",
            "dump",
            "dumps",
            "to_list",
        ),
        _ENCODE,
    ),
    **dict.fromkeys(
        ("from_dict", "from_json", "load", "loads", "model_validate"),
        "decode(data) reads what encode wrote; Aggregator.new(openai_chat.load(data)) "
        "reads a request of OpenAI's",
    ),
    **dict.fromkeys(
        ("copy", "deepcopy", "clone"),
        "a state never changes, so it needs no copy; state.fork() is a branch of it",
    ),
    **dict.fromkeys(("pop", "remove", "delete", "remove_last", "truncate"), _SHORTER),
    **dict.fromkeys(("clear", "reset"), "Aggregator.new() is an empty state"),
    **dict.fromkeys(("insert", "replace", "edit"), _SHORTER),
    **dict.fromkeys(("undo", "redo", "commit"), _TIMELINE),
    **dict.fromkeys(("merge", "union"), "join"),
    **dict.fromkeys(("branch", "branches"), "fork"),
    **dict.fromkeys(("restore", "revert", "goto"), "rollback"),
    **dict.fromkeys(("save", "store", "persist"), "store.save(name, state) saves it"),
    "trim": "trim(state, budget) is the part that fits into a budget",
    **dict.fromkeys(("cost", "price"), "cost(state) is what it cost"),
    **dict.fromkeys(
        ("total_tokens", "tokens", "token_count"),
        "state.total_usage.total_tokens is the sum of all that was recorded",
    ),
    **dict.fromkeys(
        ("last", "last_message", "newest"), "state[-1] is the newest message"
    ),
    **dict.fromkeys(
        ("tool_calls", "open_calls", "pending_tool_calls"), "pending_calls"
    ),
}
# The same for the view `state.messages`, by the names that a list has.
LIST_NAMES = {
    "append": "state = state.add(message)",
    "extend": "state = state.extend(messages)",
    "insert": "state.before(entry_id) is the state before a message, to which you add",
    **dict.fromkeys(("pop", "remove"), "state = state.rollback(len(state) - 1)"),
    "clear": "state = Aggregator.new()",
    "copy": "it never changes, so it needs no copy",
    **dict.fromkeys(("sort", "reverse"), "sorted and reversed make lists of it"),
}


def explain_attribute(name: str) -> str:
    """
    That a state has no *name*, and what to use.
    """
    missing = f"an Aggregator has no attribute {name!r}"
    advice = NAMES.get(name)
    if advice is None:
        return missing

    is_name = advice.replace("_", "").isalnum()
    return f"{missing}; did you mean {advice!r}?" if is_name else f"{missing}; {advice}"


def explain_list_attribute(name: str) -> str:
    """
    That the messages of a state have no *name*, and what to use.
    """
    missing = f"the messages of a state have no attribute {name!r}"
    advice = LIST_NAMES.get(name)
    return missing if advice is None else f"{missing}; they are a view: {advice}"
