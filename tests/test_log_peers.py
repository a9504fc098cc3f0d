"""
Why the log is ours, shown on the vector it isn't.

pyrsistent's C `PVector`, which is what 3.11 and 3.12 get, reports every element to the
collector once for each version, so shared leaves twice for one reference. The collector
counts: an element of two versions, with one reference from the leaf they share and one
from a running function, has as many visits as references, so it looks unreachable, and
is cleared.
"""

from importlib.util import find_spec

import pytest

from tests.processes import run_script

SCRIPT = """
import gc
import sys
from functools import reduce

{imports}

class Item:
    def __init__(self, name):
        self.name = name

def held_after_a_crash():
    # Two versions that share a full leaf of 32 die in one cycle, as a traceback
    # makes one; this function still holds one of their elements.
    one = {make}([Item(n) for n in range(33)])
    two = one.append(Item(33))
    cycle = [one, two]
    cycle.append(cycle)
    held = one[0]
    del one, two, cycle
    gc.collect()
    return vars(held)

print(held_after_a_crash())
"""

PVECTOR = SCRIPT.format(imports="from pyrsistent import pvector", make="pvector")
LOG = SCRIPT.format(
    imports="from conversation_state._persistent import Log", make="Log"
)
APPENDED = SCRIPT.format(
    imports="from conversation_state._persistent import Log",
    make="(lambda items: reduce(Log.append, items, Log()))",
)


def run(script: str) -> str:
    """What *script* prints; a process of its own, for what it does is harmful."""
    return run_script(script).strip()


def has_c_vector() -> bool:
    """Whether pyrsistent's C extension is here."""
    return find_spec("pvectorc") is not None


@pytest.mark.skipif(
    not has_c_vector(),
    reason="pyrsistent has no C extension here: none is on the index for 3.13",
)
def test_pvector_clears_what_is_alive():
    """
    The C vector loses the attributes of an object that is in use; if this ever
    fails, pyrsistent is mended, and a reason to have a log of our own is gone.
    """
    assert "{}" == run(PVECTOR)


@pytest.mark.parametrize("script", [LOG, APPENDED], ids=["at once", "one by one"])
def test_log_does_not(script):
    """The log leaves alone what is still referred to."""
    assert "{'name': 0}" == run(script)
