"""
The examples in README and docs, run as tests.

Docstrings are run by pytest itself (`--doctest-modules`).
"""

import doctest
import sys

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=doctest.ELLIPSIS),
        SkipParser(),
    ],
    patterns=["*.md"],
).pytest()


def pytest_sessionfinish() -> None:
    """
    A server that tests or examples asked for is stopped with them.
    """
    servers = sys.modules.get("tests.store.server")
    if servers is not None:
        servers.stop()
