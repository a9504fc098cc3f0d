"""
Tables of small facts: one test function, and one row for each fact.

The key of a row is the sentence that it holds, and the id of its test, so that a
failure names the promise that is broken.
"""

from collections.abc import Mapping
from typing import Any

import pytest

__all__ = ["table"]


def table(names: str, rows: Mapping[str, Any]) -> pytest.MarkDecorator:
    """
    Run a test once for each of *rows*, whose values are the arguments *names*.
    """
    count = len(names.split(","))
    values = {sentence: row if count > 1 else (row,) for sentence, row in rows.items()}
    return pytest.mark.parametrize(
        names, [pytest.param(*row, id=sentence) for sentence, row in values.items()]
    )
