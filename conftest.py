"""
The examples in README and docs, run as tests.

Docstrings are run by pytest itself (`--doctest-modules`).
"""

import doctest
import gc
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


# What is imported for the tests is not garbage. Looking for some meanwhile takes a
# third of the time, and afterwards most of each collection that a test asks for.
gc.disable()


def pytest_collection_finish() -> None:
    """
    The garbage collector begins, and leaves alone what is there already.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """
    A server that tests or examples asked for is stopped with them.
    """
    servers = sys.modules.get("tests.store.server")
    if servers is not None:
        servers.stop()
