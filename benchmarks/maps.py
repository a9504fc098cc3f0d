"""
Small maps: metadata, unknown fields, schemas, beside pyrsistent's `PMap`.

With three keys a map is made in a tenth of a `PMap`'s time, read in a sixth,
compared in a twentieth, and written in a tenth of the time it takes to make a dict
of a `PMap` and write that. Checked all the way down, it is made in no more than a
`PMap`, which checks nothing; and a message with three keys of metadata is made in
two `PMap`s' time.

Made, of values that are frozen already, is one call of the class, as `decode` and
`freeze_map` make theirs: 1.5 times what `dict` takes, and what any subclass of it
takes that has no Python of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import eq, getitem
from typing import Any

import orjson
from pyrsistent import pmap

from benchmarks.measure import Row, seconds_each
from conversation_state import UserMessage
from conversation_state._persistent import JsonMap, freeze_map

PEER = "pyrsistent's PMap"


def rows() -> Iterator[Row]:
    """Maps of texts, with three and with thirty keys."""
    for n in (3, 30):
        items = {f"key {number:02}": f"value {number}" for number in range(n)}
        backwards = dict(reversed(items.items()))
        ours: Any = freeze_map(items, "it", keep_order=True)
        other: Any = freeze_map(backwards, "it", keep_order=True)
        theirs, theirs_other = pmap(items), pmap(backwards)
        key = f"key {n - 1:02}"
        assert items == ours == other == theirs
        assert [*items] == [*ours] != [*other]
        assert orjson.loads(orjson.dumps(ours)) == items

        make = partial(pmap, items)
        for claim, mine, peer in (
            ("make a map", partial(JsonMap, items), make),
            ("check and freeze a map", partial(freeze_map, items, "it"), make),
            ("read a key", partial(getitem, ours, key), partial(getitem, theirs, key)),
            ("compare", partial(eq, ours, other), partial(eq, theirs, theirs_other)),
            (
                "write",
                partial(orjson.dumps, ours),
                lambda theirs=theirs: orjson.dumps(dict(theirs)),
            ),
            ("make a message of it", partial(UserMessage, "", metadata=items), make),
        ):
            yield Row(
                claim, n, seconds_each(mine) * 1e9, PEER, seconds_each(peer) * 1e9
            )
