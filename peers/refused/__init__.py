"""
Refused for good: how many conversations of agents a strict provider refuses for ever.

``python -m peers.refused`` drives agents of other libraries, and the README's loop,
through the same scripts (`peers.refused.scripts`), over HTTP; each
as it is, and with a view of ours in its own hook.
"""
