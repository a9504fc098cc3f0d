"""
The command line: inspect a store; import, export and replay conversations.

Needs the extra `cli` (click and rich), which nothing else here imports.
"""
