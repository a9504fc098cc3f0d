"""
The examples in README and docs, run as tests.

Docstrings are run by pytest itself (`--doctest-modules`).
"""

import doctest

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=doctest.ELLIPSIS),
        SkipParser(),
    ],
    patterns=["*.md"],
).pytest()
