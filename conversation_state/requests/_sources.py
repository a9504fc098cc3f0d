"""
Where each rule is from: rows that ``docs/requests.md`` is made of.
"""

from __future__ import annotations

from typing import NamedTuple

from conversation_state._persistent import final


@final
class Rule(NamedTuple):
    """
    One rule of a request.

    Attributes:
        format: The adapter's name; "" if all formats have the rule.

        host: Who refuses what breaks it; "" if all hosts do.

        name: The attribute of `Rules`, or the name of the rule.

        says: What is asked.

        does: What ``dump`` does to what breaks it.

        source: A URL, and the words of the error where they are known.
    """

    format: str
    host: str
    name: str
    says: str
    does: str
    source: str


SOURCES: tuple[Rule, ...] = ()
