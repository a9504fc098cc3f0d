"""
What all formats need on the wire, each once: base64 and ``data:`` URLs
(`media`), arguments of calls and which call a result answers (`calls`), documents
that are lists of messages (`loading`).

What does not live here: what a provider means by a block or a key.
"""
