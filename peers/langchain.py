"""LangChain: message histories, `trim_messages`, and merging of chunks."""

from peers.laws import Examples, Peer

EXAMPLES = Examples(Peer("LangChain", "langchain-core", "langgraph.md"))


@EXAMPLES.broken("a view has no call without its result, no result without its call")
def trimming_orphans_results() -> None:
    """
    By default `trim_messages` shows a result whose call it removed, which providers
    refuse.
    """
    from langchain_core.messages import AIMessage, ToolMessage, trim_messages

    asked = AIMessage("", tool_calls=[{"id": "1", "name": "departures", "args": {}}])
    result, answer = ToolMessage("12:30", tool_call_id="1"), AIMessage("At 12:30.")
    view = trim_messages([asked, result, answer], max_tokens=2, token_counter=len)
    assert view == [result, answer]


@EXAMPLES.broken("a view is found where one fits")
def trimming_shows_nothing() -> None:
    """
    `start_on="human"` is LangChain's advice against orphaned results. In a turn that
    is longer than the budget, the model is shown nothing.
    """
    from langchain_core.messages import (
        AIMessage,
        HumanMessage,
        ToolMessage,
        trim_messages,
    )

    asked = AIMessage("", tool_calls=[{"id": "1", "name": "departures", "args": {}}])
    turn = [HumanMessage("When?"), asked, ToolMessage("12:30", tool_call_id="1")]
    view = trim_messages(turn, max_tokens=2, token_counter=len, start_on="human")
    assert view == []


@EXAMPLES.broken("merging is associative")
def chunks_depend_on_grouping() -> None:
    """
    Two chunks of text and one of blocks: the content depends on which are added first.
    """
    from langchain_core.messages import AIMessageChunk

    block = {"type": "text", "text": "c"}
    a, b, c = AIMessageChunk("a"), AIMessageChunk("b"), AIMessageChunk([block])
    assert ((a + b) + c).content == ["ab", block]
    assert (a + (b + c)).content == ["a", "b", block]


@EXAMPLES.broken("a fact that a stream repeats is one fact")
def repeated_facts_are_joined() -> None:
    """A model's name that two chunks repeat is written twice into one text."""
    from langchain_core.messages import AIMessageChunk

    chunk = AIMessageChunk("…", response_metadata={"model_name": "gpt-5"})
    assert (chunk + chunk).response_metadata == {"model_name": "gpt-5gpt-5"}


@EXAMPLES.broken("running totals are not added")
def running_totals_are_added() -> None:
    """
    The usage of chunks is added, so an integration must compute differences first
    where a provider sends totals: here 2,041 tokens for 1,040.
    """
    from langchain_core.messages import AIMessageChunk

    first = {"input_tokens": 1_000, "output_tokens": 1, "total_tokens": 1_001}
    last = {"input_tokens": 1_000, "output_tokens": 40, "total_tokens": 1_040}
    a = AIMessageChunk("", usage_metadata=first)
    b = AIMessageChunk("", usage_metadata=last)
    assert (a + b).usage_metadata["total_tokens"] == 2_041


@EXAMPLES.broken("usage recorded twice counts once")
def responses_are_billed_again() -> None:
    """
    `UsageMetadataCallbackHandler` adds one response, with one id, as often as it is
    reported.
    """
    from langchain_core.callbacks import UsageMetadataCallbackHandler
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, LLMResult

    usage = {"input_tokens": 10, "output_tokens": 1, "total_tokens": 11}
    model, bill = {"model_name": "gpt-5"}, UsageMetadataCallbackHandler()
    answer = AIMessage("", id="1", usage_metadata=usage, response_metadata=model)
    result = LLMResult(generations=[[ChatGeneration(message=answer)]])
    bill.on_llm_end(result)
    bill.on_llm_end(result)
    assert bill.usage_metadata["gpt-5"]["total_tokens"] == 22


@EXAMPLES.broken("what is kept does not change")
def histories_share_messages() -> None:
    """A history holds the caller's own message, and gives out its own list."""
    from langchain_core.chat_history import InMemoryChatMessageHistory
    from langchain_core.messages import HumanMessage

    history, message = InMemoryChatMessageHistory(), HumanMessage("May")
    history.add_message(message)
    message.content = "June"
    assert history.messages[0].content == "June"
    history.messages.clear()
    assert history.messages == []


@EXAMPLES.kept("a view does not change the conversation")
def trimming_changes_no_message() -> None:
    """`trim_messages` cuts copies of messages, and not the caller's own."""
    from langchain_core.messages import HumanMessage, trim_messages

    message, options = HumanMessage(["When?", "Soon?"]), {"allow_partial": True}
    options["token_counter"] = lambda view: sum(len(each.content) for each in view)
    view = trim_messages([message], max_tokens=1, **options)
    assert (view[0].content, message.content) == (["Soon?"], ["When?", "Soon?"])


@EXAMPLES.kept("a view stays within the budget")
def trimming_stays_within() -> None:
    """
    Whatever the budget, the view's tokens are not more, by the counter that was given.
    """
    from langchain_core.messages import HumanMessage, trim_messages

    sizes = {"a": 5, "b": 1, "c": 7, "d": 3}
    count = {"token_counter": lambda view: sum(sizes[each.content] for each in view)}
    for budget in range(20):
        view = trim_messages(map(HumanMessage, sizes), max_tokens=budget, **count)
        assert sum(sizes[each.content] for each in view) <= budget
