"""
Maps that grow: pyrsistent's `PMap`, whose versions share what they have in common.

This is the only file that names pyrsistent, and the front door does not need it.
Maps that are made once are `FrozenMap`; sequences are `Log`, see there why they
are not pyrsistent's.
"""

from pyrsistent import PMap, pmap

__all__ = ["PMap", "pmap"]
