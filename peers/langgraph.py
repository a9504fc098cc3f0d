"""LangGraph: its in-memory checkpointer, its reducer of messages, its channels."""

from peers.laws import Examples, Peer

EXAMPLES = Examples(Peer("LangGraph", "langgraph", "langgraph.md"))


@EXAMPLES.broken("a checkpoint costs what is new")
def checkpoints_hold_everything() -> None:
    """
    Each checkpoint holds all messages again: four times the turns are 14 times the
    bytes.
    """
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph

    text, sizes = {"messages": "x" * 1_000}, {}
    builder = StateGraph(MessagesState).add_node("answer", lambda _: text)
    graph = builder.add_edge(START, "answer").compile(saver := InMemorySaver())
    for turn in range(1, 21):
        graph.invoke({}, {"configurable": {"thread_id": "a"}})
        sizes[turn] = sum(len(data) for _, data in saver.blobs.values())
    assert sizes[20] > 12 * sizes[5]


@EXAMPLES.broken("merging is associative")
def merges_depend_on_grouping() -> None:
    """`add_messages` gives another order if the two later updates are merged first."""
    from langchain_core.messages import HumanMessage, RemoveMessage
    from langgraph.graph.message import add_messages

    a, b = HumanMessage("a", id="a"), HumanMessage("b", id="b")
    gone = RemoveMessage("a")
    assert add_messages(add_messages([a, b], [gone]), [a]) == [b, a]
    assert add_messages([a, b], add_messages([gone], [a])) == [a, b]


@EXAMPLES.broken("arguments do not change")
def merging_writes_ids() -> None:
    """`add_messages` writes an id into the caller's own message."""
    from langchain_core.messages import HumanMessage
    from langgraph.graph.message import add_messages

    message = HumanMessage("When is the train?")
    add_messages([], [message])
    assert message.id is not None
    assert message != HumanMessage("When is the train?")


@EXAMPLES.broken("going back keeps the bill")
def going_back_forgets_usage() -> None:
    """
    Usage is in the messages, so an answer that is asked for again takes the first
    one's usage away: 11 tokens, where 22 were paid.
    """
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph

    usage = {"input_tokens": 10, "output_tokens": 1, "total_tokens": 11}
    answer = {"messages": AIMessage("", usage_metadata=usage)}
    builder = StateGraph(MessagesState).add_node("answer", lambda _: answer)
    graph = builder.add_edge(START, "answer").compile(InMemorySaver())
    graph.invoke({}, thread := {"configurable": {"thread_id": "a"}})
    again = graph.invoke(None, list(graph.get_state_history(thread))[1].config)
    assert [each.usage_metadata for each in again["messages"]] == [usage]


@EXAMPLES.broken("a fork is billed once")
def subgraphs_bill_the_past() -> None:
    """
    Two subgraphs return the total that they began with plus 100 each: 3,200 tokens,
    where 1,200 were paid.
    """
    import operator
    from typing import Annotated, TypedDict

    from langgraph.graph import START, StateGraph

    State = TypedDict("State", {"tokens": Annotated[int, operator.add]})
    work = StateGraph(State).add_node("work", lambda _: {"tokens": 100})
    branch = work.add_edge(START, "work").compile()
    both = StateGraph(State).add_node("left", branch).add_node("right", branch)
    graph = both.add_edge(START, "left").add_edge(START, "right").compile()
    assert graph.invoke({"tokens": 1_000}) == {"tokens": 3_200}


@EXAMPLES.broken("a save of an old state is refused")
def late_run_replaces_turn() -> None:
    """
    Two runs begin at one checkpoint: the thread shows the turn of the later one, and
    nothing reports the other one.
    """
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph

    builder = StateGraph(MessagesState).add_node("answer", lambda _: {})
    graph = builder.add_edge(START, "answer").compile(InMemorySaver())
    graph.invoke({"messages": "one"}, thread := {"configurable": {"thread_id": "a"}})
    begun = graph.get_state(thread).config
    graph.invoke({"messages": "two"}, begun)
    late = graph.invoke({"messages": "three"}, begun)
    assert [message.content for message in late["messages"]] == ["one", "three"]


@EXAMPLES.kept("a checkpoint costs what is new")
def delta_channel_writes_what_is_new() -> None:
    """
    With `DeltaChannel`, a beta, a checkpoint holds no messages: they are read back
    from the writes of the tasks.
    """
    from typing import Annotated, TypedDict

    from langgraph.channels import DeltaChannel
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, StateGraph

    log = DeltaChannel(lambda old, writes: [*old, *writes])
    State = TypedDict("State", {"log": Annotated[list, log]})
    builder = StateGraph(State).add_node("say", lambda _: {"log": "x" * 1_000})
    graph = builder.add_edge(START, "say").compile(saver := InMemorySaver())
    graph.invoke({}, {"configurable": {"thread_id": "a"}})
    assert sum(len(data) for _, data in saver.blobs.values()) < 1_000


@EXAMPLES.kept("usage recorded twice counts once")
def merging_again_changes_nothing() -> None:
    """`add_messages` of messages that have ids is idempotent, and so is their usage."""
    from langchain_core.messages import AIMessage
    from langgraph.graph.message import add_messages

    usage = {"input_tokens": 10, "output_tokens": 1, "total_tokens": 11}
    once = add_messages([], [AIMessage("Noon.", id="1", usage_metadata=usage)])
    assert add_messages(once, once) == once


@EXAMPLES.kept("what is kept does not change")
def checkpoints_are_copies() -> None:
    """
    A checkpoint is a copy: neither the message that was given nor one that was read
    changes it.
    """
    from langchain_core.messages import HumanMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph

    builder = StateGraph(MessagesState).add_node("answer", lambda _: {})
    graph = builder.add_edge(START, "answer").compile(InMemorySaver())
    thread, message = {"configurable": {"thread_id": "a"}}, HumanMessage("May")
    graph.invoke({"messages": message}, thread)
    graph.get_state(thread).values["messages"][0].content = message.content = "June"
    assert graph.get_state(thread).values["messages"][0].content == "May"


@EXAMPLES.kept("what was undone can be redone")
def abandoned_checkpoints_stay() -> None:
    """
    After going back, the abandoned checkpoints are in the history, and a run can
    continue from each.
    """
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph

    builder = StateGraph(MessagesState).add_node("answer", lambda _: {})
    graph = builder.add_edge(START, "answer").compile(InMemorySaver())
    graph.invoke({"messages": "one"}, thread := {"configurable": {"thread_id": "a"}})
    undone = graph.get_state(thread)
    begun = list(graph.get_state_history(thread))[-1].config
    graph.invoke({"messages": "two"}, begun)
    assert graph.get_state(undone.config).values == undone.values
