"""The tables of rules are what the rules are."""

from conversation_state.requests import EVERYWHERE, SOURCES, Rules
from tools.requests_page import PAGE, write_page


def test_current():
    """``python -m tools.requests_page`` has been run since a rule changed."""
    assert write_page() == PAGE.read_text(encoding="utf-8")


def test_every_rule_has_a_source():
    """Each attribute of `Rules` that asks something is in a row, with a URL."""
    named = {row.name for row in SOURCES}
    # Names of participants have the form of names of tools.
    asks = {field.name for field in Rules.__attrs_attrs__}
    asks -= {"format", "host", "sender_names"}

    assert asks <= named
    assert all("https://" in row.source for row in SOURCES)
    assert EVERYWHERE.sources == SOURCES
