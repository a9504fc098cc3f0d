"""
The command line: windows to the library for people at a terminal.

Needs the extra `cli` (click and rich), which nothing else here imports.
"""
