"""The OpenAI Agents SDK: its sessions in SQLite, without and with branches."""

from peers.laws import Examples, Peer

EXAMPLES = Examples(Peer("OpenAI Agents SDK", "openai-agents", "agents.md"))


@EXAMPLES.broken("a view has no call without its result, no result without its call")
async def limits_orphan_results() -> None:
    """
    A session's limit counts items: the newest one is a result without its call, which
    OpenAI refuses.
    """
    from agents import SQLiteSession

    called = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "1", "output": "12:30"}
    session = SQLiteSession("ann")
    await session.add_items([called, result])
    assert await session.get_items(limit=1) == [result]


@EXAMPLES.broken("a save of an old state is refused")
async def runs_are_interleaved() -> None:
    """
    Two runs read the same history, and both write their turn: neither is refused, and
    each answer stands below a question that its model never saw.
    """
    from agents import SQLiteSession

    runs = SQLiteSession("ann", "ann.db"), SQLiteSession("ann", "ann.db")
    assert [await run.get_items() for run in runs] == [[], []]
    for role in "user", "assistant":
        for run in runs:
            await run.add_items([{"role": role, "content": "…"}])
    roles = [item["role"] for item in await runs[0].get_items()]
    assert roles == ["user", "user", "assistant", "assistant"]


@EXAMPLES.broken("going back keeps the bill")
async def popping_takes_usage() -> None:
    """Taking back a turn also deletes the usage that was recorded for it."""
    from types import SimpleNamespace as Result

    from agents import Usage
    from agents.extensions.memory import AdvancedSQLiteSession

    session = AdvancedSQLiteSession(session_id="ann", create_tables=True)
    run = Result(context_wrapper=Result(usage=Usage(total_tokens=100)))
    await session.add_items([{"role": "user", "content": "When?"}])
    await session.store_run_usage(run)
    await session.pop_item()
    assert await session.get_session_usage() is None


@EXAMPLES.broken("recorded usage is not lost")
async def second_run_replaces_usage() -> None:
    """
    A turn has one usage: a second run for it, after an approval say, replaces the
    first one's 100 tokens.
    """
    from types import SimpleNamespace as Result

    from agents import Usage
    from agents.extensions.memory import AdvancedSQLiteSession

    session = AdvancedSQLiteSession(session_id="ann", create_tables=True)
    await session.add_items([{"role": "user", "content": "When?"}])
    for usage in (Usage(total_tokens=100), Usage(total_tokens=50)):
        run = Result(context_wrapper=Result(usage=usage))
        await session.store_run_usage(run)
    assert (await session.get_session_usage())["total_tokens"] == 50


@EXAMPLES.kept("usage recorded twice counts once")
async def usage_of_a_run_is_stored_once() -> None:
    """`store_run_usage` of the same run is stored once."""
    from types import SimpleNamespace as Result

    from agents import Usage
    from agents.extensions.memory import AdvancedSQLiteSession

    session = AdvancedSQLiteSession(session_id="ann", create_tables=True)
    await session.add_items([{"role": "user", "content": "When?"}])
    run = Result(context_wrapper=Result(usage=Usage(total_tokens=100)))
    await session.store_run_usage(run)
    await session.store_run_usage(run)
    assert (await session.get_session_usage())["total_tokens"] == 100


@EXAMPLES.kept("a fork is billed once")
async def branches_share_usage() -> None:
    """
    A branch has none of the usage before it, so that the session's sum has it once.
    """
    from types import SimpleNamespace as Result

    from agents import Usage
    from agents.extensions.memory import AdvancedSQLiteSession

    session = AdvancedSQLiteSession(session_id="ann", create_tables=True)
    run = Result(context_wrapper=Result(usage=Usage(total_tokens=100)))
    for text in ["one", "two"]:
        await session.add_items([{"role": "user", "content": text}])
        await session.store_run_usage(run)
    await session.create_branch_from_turn(2, "other")
    assert (await session.get_session_usage())["total_tokens"] == 200


@EXAMPLES.kept("what is kept does not change")
async def sessions_hold_copies() -> None:
    """A session holds the JSON of an item, so a caller's later change is not in it."""
    from agents import SQLiteSession

    session, item = SQLiteSession("ann"), {"role": "user", "content": "May"}
    await session.add_items([item])
    item["content"] = "June"
    assert await session.get_items() == [{"role": "user", "content": "May"}]


@EXAMPLES.kept("what was undone can be redone")
async def branches_can_be_left_and_entered() -> None:
    """`AdvancedSQLiteSession` goes back by a branch, and returns to the one it left."""
    from agents.extensions.memory import AdvancedSQLiteSession

    session = AdvancedSQLiteSession(session_id="ann", create_tables=True)
    items = [{"role": "user", "content": text} for text in ["one", "two"]]
    await session.add_items(items)
    await session.create_branch_from_turn(2, "other")
    assert await session.get_items() == items[:1]
    await session.switch_to_branch("main")
    assert await session.get_items() == items
