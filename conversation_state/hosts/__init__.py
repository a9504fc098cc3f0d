"""
Frameworks' own interfaces on a store: checkpointers, sessions, backends, middleware.

`adapters` convert plain JSON and move when a provider does; a host implements what
one framework asks for, and moves when that framework does:

====================  ===============================================================
`hosts.langgraph`     ``ConversationStateSaver``, a checkpointer, with ``copy_from``
`hosts.langchain`     ``trimmed`` and ``trimming_middleware``, a model's view
`hosts.pydantic_ai`   ``TrimmedRequests``, a model's view; ``StoreBackend``
`hosts.agents`        ``StoreSession``, a session of the OpenAI Agents SDK
`hosts.claude_agent`  ``ClaudeSessionStore``, for sessions of the Claude Agent SDK
`hosts.dbos`          ``StoreSteps``, steps of DBOS workflows that pass references
`hosts.temporal`      ``data_converter``, for references; ``run_step``, for activities
====================  ===============================================================

Each is made from an open store, or by ``from_url``, and can be imported without its
framework; those that pass messages have `load` and `dump` of them. An answer whose
usage is known is in the ledger once, under the id and the content of the response, in
every host.

What they share is in `_host`; what they keep beside states goes through
`store.records`; what they need of a format is public there.
"""
