"""Google's ADK: services of sessions, and going back."""

from peers.laws import Examples, Peer

EXAMPLES = Examples(Peer("ADK", "google-adk", "peers.md"))


@EXAMPLES.broken("what is kept does not change")
async def stored_events_are_the_callers() -> None:
    """A session in memory keeps the caller's own event, and what happens to it."""
    from google.adk.events import Event
    from google.adk.sessions import InMemorySessionService

    service = InMemorySessionService()
    ann = {"app_name": "desk", "user_id": "ann", "session_id": "1"}
    event = Event(author="user", custom_metadata={"to": "Bern"})
    await service.append_event(await service.create_session(**ann), event)
    event.custom_metadata["to"] = "Rome"
    stored = await service.get_session(**ann)
    assert stored.events[0].custom_metadata == {"to": "Rome"}


@EXAMPLES.broken("a save of an old state is refused")
async def stale_sessions_append() -> None:
    """In memory, a session that was read before the last event appends to it."""
    from google.adk.events import Event
    from google.adk.sessions import InMemorySessionService

    service = InMemorySessionService()
    ann = {"app_name": "desk", "user_id": "ann", "session_id": "1"}
    ours = await service.create_session(**ann)
    theirs = await service.get_session(**ann)
    for session in (ours, theirs):
        await service.append_event(session, Event(author="user"))
    assert len((await service.get_session(**ann)).events) == 2


@EXAMPLES.kept("a save of an old state is refused")
async def stale_sessions_are_refused() -> None:
    """In SQLite, it is refused: its time is an earlier one than the file's."""
    from contextlib import suppress

    from google.adk.events import Event
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    service = SqliteSessionService("desk.db")
    ann = {"app_name": "desk", "user_id": "ann", "session_id": "1"}
    ours, theirs = await service.create_session(**ann), await service.get_session(**ann)
    await service.append_event(ours, Event(author="user"))
    with suppress(ValueError):
        await service.append_event(theirs, Event(author="user"))
    assert len((await service.get_session(**ann)).events) == 1


@EXAMPLES.kept("usage recorded twice counts once")
async def events_are_appended_once() -> None:
    """An event that is appended again, as a retry does, is one event."""
    from google.adk.events import Event
    from google.adk.sessions import InMemorySessionService

    service = InMemorySessionService()
    ann = {"app_name": "desk", "user_id": "ann", "session_id": "1"}
    session, event = await service.create_session(**ann), Event(author="model")
    await service.append_event(session, event)
    await service.append_event(session, event.model_copy())
    assert len((await service.get_session(**ann)).events) == 1


@EXAMPLES.kept("going back keeps the bill")
async def rewinding_keeps_events() -> None:
    """A rewind is one more event: those before it stay, with their usage."""
    from google.adk.agents import LlmAgent
    from google.adk.events import Event
    from google.adk.runners import InMemoryRunner

    runner = InMemoryRunner(LlmAgent(name="desk"), app_name="desk")
    ann, service = {"user_id": "ann", "session_id": "1"}, runner.session_service
    session = await service.create_session(app_name="desk", **ann)
    event = Event(author="desk", invocation_id="1", usage_metadata={})
    await service.append_event(session, event)
    await runner.rewind_async(**ann, rewind_before_invocation_id="1")
    assert event in (await service.get_session(app_name="desk", **ann)).events
