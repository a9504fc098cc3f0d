"""Strands Agents: managers of a conversation, and sessions in files."""

from peers.laws import Examples, Peer

EXAMPLES = Examples(Peer("Strands", "strands-agents", "peers.md"))


@EXAMPLES.broken("a view does not change the conversation")
def windows_delete_messages() -> None:
    """`SlidingWindowConversationManager` deletes from the agent's own messages."""
    from types import SimpleNamespace

    from strands.agent import SlidingWindowConversationManager

    question = {"role": "user", "content": [{"text": "When is the train?"}]}
    answer = {"role": "assistant", "content": [{"text": "At 12:30."}]}
    agent = SimpleNamespace(messages=[question, answer] * 5)
    SlidingWindowConversationManager(window_size=4).apply_management(agent)
    assert agent.messages == [question, answer] * 2


@EXAMPLES.broken("a view is found where one fits")
def short_windows_show_all() -> None:
    """
    A question and its answer are a view of two messages; with a call between them, all
    four stay, and a warning is logged.
    """
    from types import SimpleNamespace

    from strands.agent import SlidingWindowConversationManager

    call = {"toolUse": {"toolUseId": "1", "name": "departures", "input": {}}}
    result = {"toolResult": {"toolUseId": "1", "content": [{"text": "12:30"}]}}
    blocks = [{"text": "When?"}, call, result, {"text": "At 12:30."}]
    said = zip(["user", "assistant"] * 2, blocks, strict=True)
    chat = [{"role": role, "content": [block]} for role, block in said]
    agent = SimpleNamespace(messages=chat)
    SlidingWindowConversationManager(window_size=2).apply_management(agent)
    assert [*blocks] == [each["content"][0] for each in agent.messages]


@EXAMPLES.broken("a save of an old state is refused")
def second_writers_win() -> None:
    """Two agents with one session each write its first message; the last one wins."""
    from strands import Agent
    from strands.session import FileSessionManager

    sessions = [FileSessionManager("1", storage_dir=".") for _ in range(2)]
    agents = [Agent(session_manager=each, agent_id="desk") for each in sessions]
    for session, agent, text in zip(sessions, agents, ("one", "two"), strict=True):
        session.append_message({"role": "user", "content": [{"text": text}]}, agent)
    session = FileSessionManager("1", storage_dir=".")
    restored = Agent(session_manager=session, agent_id="desk").messages
    assert [each["content"] for each in restored] == [[{"text": "two"}]]


@EXAMPLES.kept("a checkpoint costs what is new")
def messages_are_files() -> None:
    """`FileSessionManager` writes a file for each new message."""
    from pathlib import Path

    from strands import Agent
    from strands.session import FileSessionManager

    session = FileSessionManager("1", storage_dir=".")
    agent = Agent(session_manager=session, agent_id="desk")
    for n in range(1, 9):
        session.append_message({"role": "user", "content": [{"text": "Hi."}]}, agent)
        assert len([*Path().rglob("message_*.json")]) == n
