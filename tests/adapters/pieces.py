"""
How a format writes messages that are no request: one result, an answer alone.

What a request needs as a whole is tested in ``tests/test_requests.py`` and
``test_request_rules.py``.
"""

import inspect
from functools import partial
from types import SimpleNamespace

from conversation_state.requests import AS_IS

__all__ = ["as_is"]


def as_is(adapter):
    """
    *adapter*, whose `dump` writes messages as they are; itself if it has no rules.
    """
    if "rules" not in inspect.signature(adapter.dump).parameters:
        return adapter

    names = {name: getattr(adapter, name) for name in dir(adapter) if name[0] != "_"}
    return SimpleNamespace(
        **{
            **names,
            "dump": partial(adapter.dump, rules=AS_IS),
            "__name__": adapter.__name__,
        }
    )
