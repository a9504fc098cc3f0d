"""Pydantic AI: message histories, usage, and conversation stores."""

from peers.laws import Examples, Peer

EXAMPLES = Examples(Peer("Pydantic AI", "pydantic-ai-slim", "agents.md"))


@EXAMPLES.broken("what is kept does not change")
async def histories_share_messages() -> None:
    """
    Results of two runs share their messages: a change to one history is in the other,
    and `all_messages` gives out the result's own list.
    """
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    agent = Agent(TestModel())
    first = await agent.run("When?")
    second = await agent.run("And back?", message_history=first.all_messages())
    second.all_messages()[0].parts[0].content = "Where?"
    assert first.all_messages()[0].parts[0].content == "Where?"
    first.all_messages().clear()
    assert first.all_messages() == []


@EXAMPLES.broken("a fork is billed once")
async def forks_copy_usage() -> None:
    """
    A fork begins with a copy of the usage, so two conversations with one run have
    the usage of two; `RunUsage` has no identity by which to tell.
    """
    from pydantic_ai import Agent
    from pydantic_ai.conversation_store import InMemoryConversationStore
    from pydantic_ai.models.test import TestModel

    store = InMemoryConversationStore()
    result = await Agent(TestModel()).run("When?")
    await store.save(result)
    fork = await store.fork(result.conversation.conversation_id)
    names = [result.conversation.conversation_id, fork.conversation_id]
    usage = [(await store.load(name)).usage for name in names]
    assert usage[0] + usage[1] == result.usage + result.usage


@EXAMPLES.broken("a view does not change the conversation")
async def processors_replace_the_history() -> None:
    """
    A run's history is what its history processor returned: the result of the third
    run no longer has the first two.
    """
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import ProcessHistory
    from pydantic_ai.models.test import TestModel

    newest = ProcessHistory(lambda messages: messages[-1:])
    agent, history = Agent(TestModel(), capabilities=[newest]), []
    for question in ["one", "two", "three"]:
        run = await agent.run(question, message_history=history)
        history = run.all_messages()
    assert len(history) == 2


@EXAMPLES.kept("a view has no call without its result, no result without its call")
async def requests_are_repaired() -> None:
    """
    A history that begins with a result without its call is repaired before the model
    sees it.
    """
    from pydantic_ai import Agent, messages
    from pydantic_ai.models.function import FunctionModel

    orphan = messages.ToolReturnPart("departures", "12:30", tool_call_id="1")
    answer = messages.ModelResponse([messages.TextPart("At 12:30.")])
    history, seen = [messages.ModelRequest([orphan]), answer], []
    model = FunctionModel(lambda request, _: seen.extend(request) or answer)
    await Agent(model).run("And then?", message_history=history)
    assert orphan not in [part for message in seen for part in message.parts]


@EXAMPLES.kept("going back keeps the bill")
async def branches_keep_usage() -> None:
    """A stored conversation that goes back keeps the usage of what it leaves."""
    from pydantic_ai import Agent
    from pydantic_ai.conversation_store import InMemoryConversationStore
    from pydantic_ai.models.test import TestModel

    store = InMemoryConversationStore()
    result = await Agent(TestModel()).run("When?")
    await store.save(result)
    begun = await store.load(name := result.conversation.conversation_id)
    await store.branch(name, at=0, expected_revision=begun.revision)
    left = await store.load(name)
    assert (left.messages, left.usage) == ([], result.usage)


@EXAMPLES.kept("a save of an old state is refused")
async def stale_saves_conflict() -> None:
    """Of two runs of one stored conversation, the second save raises a conflict."""
    import asyncio

    from pydantic_ai import Agent, conversation_store
    from pydantic_ai.models.test import TestModel

    store, agent = conversation_store.InMemoryConversationStore(), Agent(TestModel())
    await store.save(await agent.run("When?", conversation_id="a"))
    begun = [await store.load("a") for _ in range(2)]
    runs = [await agent.run("And?", conversation=each) for each in begun]
    saves = [store.save(run) for run in runs]
    _, refused = await asyncio.gather(*saves, return_exceptions=True)
    assert isinstance(refused, conversation_store.ConversationConflict)


@EXAMPLES.kept("usage recorded twice counts once")
async def second_save_changes_nothing() -> None:
    """A result that is saved twice is stored once, with its usage."""
    from pydantic_ai import Agent
    from pydantic_ai.conversation_store import InMemoryConversationStore
    from pydantic_ai.models.test import TestModel

    store = InMemoryConversationStore()
    result = await Agent(TestModel()).run("When?")
    await store.save(result)
    await store.save(result)
    loaded = await store.load(result.conversation.conversation_id)
    assert (len(loaded.messages), loaded.usage) == (2, result.usage)
