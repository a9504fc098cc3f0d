"""
Short ways to draw JSON objects.
"""

from hypothesis import strategies as st

__all__ = ["both", "exactly", "some"]


def some(**keys):
    """
    An object that has each of *keys*, or has it not.
    """
    return st.fixed_dictionaries({}, optional=keys)


def exactly(**keys):
    """
    An object that has all of *keys*.
    """
    return st.fixed_dictionaries(keys)


def both(*objects):
    """
    One object of several.
    """
    return st.tuples(*objects).map(
        lambda made: {key: each for one in made for key, each in one.items()}
    )
