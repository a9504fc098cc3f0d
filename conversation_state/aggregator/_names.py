"""
Names that lists and other libraries' objects have and a state has not, with what to
write instead.
"""

_ENCODE = "encode(state) makes bytes of it, and openai_chat.dump(state) a request"
_SHORTER = (
    "a state never changes: state.rollback(len(state) - 1) is the state without its "
    "newest message, state.before(entry_id) that before an entry, and "
    "state.without([entry_id]) that without it"
)
_OTHER = (
    "a state never changes: state.replace_message(entry_id, message) is the state with "
    "another message in an entry's place, and state.before(entry_id) that before it"
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
        ("append", "add_message", "push", "append_message"), _NEXT + "add(message)"
    ),
    **dict.fromkeys(("add_messages", "add_all", "update"), _NEXT + "extend(messages)"),
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
    **dict.fromkeys(("insert", "replace", "edit"), _OTHER),
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
# The same for what lists take: ``state += [message]``, ``state[0] = message``.
ITEM_OPERATORS = {"__setitem__": _OTHER, "__delitem__": _SHORTER}
OPERATORS = {
    "__add__": _NEXT + "add(message), extend(messages) or join(other)",
    **ITEM_OPERATORS,
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
