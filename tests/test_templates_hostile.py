"""
Templates and values that mean harm: each ends in a TemplateError, soon.

All of them run in one process with a bound on its memory. The promise is
under a second each; what is tested is that none hangs, fills the memory, or
ends in anything else. ``python -m tests.test_templates_hostile`` prints what
each takes.
"""
# ruff: noqa: E501 - a row of a table is a line

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from conversation_state.errors import TemplateError
from conversation_state.templates import MAX_TEMPLATE_CHARACTERS, render
from tests.counts import COUNTS
from tests.profiles import is_thorough

ROOT = Path(__file__).resolve().parent.parent

WATCHDOG_S = 600
MEMORY_BYTES = 700 * 2**20
# Of an error's message, in characters.
LONGEST = 700

FULL = MAX_TEMPLATE_CHARACTERS


class Broken(Mapping[str, Any]):
    """A mapping that breaks when it is read."""

    def __getitem__(self, key):
        raise RuntimeError(key)

    def __iter__(self):
        return iter(["a"])

    def __len__(self):
        return 1


class Endless(Mapping[str, Any]):
    """A mapping that never ends."""

    def __getitem__(self, key):
        return key

    def __iter__(self) -> Iterator[str]:
        number = 0
        while True:
            yield f"k{number}"
            number += 1

    def __len__(self):
        return 1


class Liar:
    """A truth value by its class, which would be returned as it is."""

    secret = "s3cret"

    @property  # type: ignore[misc]
    def __class__(self):
        return bool

    def __str__(self):
        return self.secret


class Loud:
    """An object with a text, attributes and a method."""

    secret = "s3cret"

    def __str__(self):
        raise RuntimeError(self.secret)

    __repr__ = __str__

    def reveal(self):
        return self.secret


def itself():
    """A list that holds itself."""
    ring: list[Any] = []
    ring.append(ring)
    return ring


def deep(levels):
    """A list in a list in a list."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]

    return value


def doubled(levels):
    """Few objects that are written as very many."""
    value: list[Any] = ["x"]
    for _ in range(levels):
        value = [value, value]

    return value


LONG_KEY = {"m": {"k" * 1_000_000: [0] * 90_000}}
MANY = {"l": [[1] for _ in range(40_000)]}
NUMBERS = {f"v{number}": number for number in range(80_000)}
WORDS = {"t": "a" * 900_000, "u": "é-" * 450_000}

# Values, each met by all three syntaxes.
VALUES = {
    "object": {"x": Loud()},
    "class": {"x": Loud},
    "module": {"x": sys},
    "function": {"x": len},
    "liar": {"x": Liar()},
    "object below": {"x": {"y": [Loud()]}},
    "bytes": {"x": b"abc"},
    "set": {"x": {1, 2}},
    "generator": {"x": (n for n in range(3))},
    "ring": {"x": itself()},
    "deep": {"x": deep(100_000)},
    "doubled": {"x": doubled(60)},
    "broken": {"x": Broken()},
    "endless": {"x": Endless()},
    "huge range": {"x": range(10**15)},
    "huge integer": {"x": 10**100_000},
    "huge text": {"x": "a" * 2_000_000},
    "huge texts": {"x": ["a" * 500_000] * 1_000},
    "surrogate": {"x": "\ud800"},
    "surrogate below": {"x": [{"\udfff": 1}]},
    "key": {"x": {(1, 2): 3}},
}
ASK = {"fstring": "{x}", "jinja2": "{{ x }}", "go": "{{.x}}"}

FSTRING = {
    "attribute": ("{x.__class__}", {"x": 1}),
    "dunder key": ("{x[__class__]}", {"x": 1}),
    "dunder of a list": ("{x[__class__][__mro__]}", {"x": [1]}),
    "globals": ("{x.__init__.__globals__[sys]}", {"x": Loud()}),
    "conversion": ("{x!r}", {"x": Loud()}),
    "width": ("{x:999999999}", {"x": "a"}),
    "width of other digits": ("{x:٩٩٩٩٩٩٩٩٩}", {"x": "a"}),
    "longest width": ("{x:" + "9" * 50_000 + "}", {"x": "a"}),
    "precision": ("{x:.999999999f}", {"x": 1.5}),
    "width in a field": ("{x:{n}}", {"x": 1, "n": 10**9}),
    "decimal": ("{x:f}", {"x": Decimal("1E+999999999")}),
    "decimal in commas": ("{x:,}", {"x": Decimal("1E+999999")}),
    "half a character": ("{x:c}", {"x": 0xD800}),
    "many wide ones": ("{x:9999}" * 10_000, {"x": 1}),
    "many times": ("{x}" * 30_000, {"x": "a" * 10_000}),
    "list many times": ("{x}" * 30_000, {"x": [1] * 90_000}),
    "open": ("{" * (FULL - 1), {}),
    "half open": ("{x" * 40_000, {}),
    "brackets": ("{x" + "[" * 90_000 + "}", {"x": 1}),
    "below and below": ("{x" + "[0]" * 30_000 + "}", {"x": itself()}),
    "position": ("{x[99999999999999999999]}", {"x": [1]}),
    "too long": ("{x}" * FULL, {"x": ""}),
}

JINJA2 = {
    # Ways out of the sandbox, known ones first.
    "format": ("{{ '{0.__class__}'.format(1) }}", {}),
    "format_map": ("{{ '{a.__class__}'.format_map({'a': 1}) }}", {}),
    "format by map": ("{{ ['{0.__class__}']|map('format', 1)|list }}", {}),
    "stored format": ("{% set f = '{0.__class__}'.format %}{{ f(1) }}", {}),
    "format by attr": ("{{ ('{0.__class__}'|attr('format'))(1) }}", {}),
    "attr": ("{{ ''|attr('__class__') }}", {}),
    "attr by map": ("{{ ['']|map('attr', '__class__')|list }}", {}),
    "attribute by map": ("{{ ['']|map(attribute='__class__')|list }}", {}),
    "attribute by sort": ("{{ ['', 'a']|sort(attribute='__class__') }}", {}),
    "attribute by groupby": ("{{ ['']|groupby('__class__') }}", {}),
    "attribute by sum": ("{{ ['']|sum(attribute='__class__') }}", {}),
    "class": ("{{ ''.__class__.__mro__[1].__subclasses__() }}", {}),
    "class by key": ("{{ ''['__class__']['__mro__'] }}", {}),
    "class by parts": ("{{ ''['__cl' ~ 'ass__'] }}", {}),
    "globals of a macro": ("{% macro m() %}{% endmacro %}{{ m.__globals__ }}", {}),
    "globals of a global": ("{{ cycler.__init__.__globals__.os.popen('id') }}", {}),
    "globals of a namespace": ("{{ namespace.__init__.__globals__ }}", {}),
    "inside a namespace": ("{{ namespace()._Namespace__attrs }}", {}),
    "inside a loop": ("{% for x in [1] %}{{ loop._iterable }}{% endfor %}", {}),
    "calling back": ("{% for x in [1] %}{{ loop.__class__ }}{% endfor %}", {}),
    "self": ("{{ self._TemplateReference__context }}", {}),
    "context of caller": (
        "{% macro m() %}{{ caller.__init__ }}{% endmacro %}{% call m() %}{% endcall %}",
        {},
    ),
    "undefined's globals": ("{{ x.__init__.__globals__ }}", {}),
    "frame": ("{{ (x for x in y).gi_frame }}", {}),
    "list is changed": ("{{ x.append(1) }}", {"x": []}),
    "map is changed": ("{{ x.update({'a': 1}) }}", {"x": {}}),
    "item is set": ("{% set x.a = 1 %}", {"x": {}}),
    "file": ("{% include '/etc/passwd' %}", {}),
    "own filter": ("{{ 1|step }}", {}),
    "own filter by map": ("{{ [-999999999]|map('step')|list }}", {}),
    "own filter with a space": ("{{ ['a']|map('write text')|list }}", {}),
    "own filter by block": ("{% filter concatenate %}{% endfilter %}", {}),
    "object printed": ("{{ range }}", {}),
    "test of a filter": ("{{ 'step' is filter }}", {}),
    "test by select": ("{{ [1]|select('callable')|list }}", {}),
    # Work.
    "range": ("{% for i in range(999999999) %}{% endfor %}", {}),
    "huge range": ("{{ range(10**30)|length }}", {}),
    "loops": (
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        {},
    ),
    "loop and if": (
        "{% for i in range(99999) if false %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
        * 9,
        {},
    ),
    "large body": (
        "{% for i in range(99999) %}" + "{% set x = 1 %}" * 6_000 + "{% endfor %}",
        {},
    ),
    "body as large as it may be": (
        "{% for i in range(900) %}" + "{% set x = 1 %}" * 1_600 + "{% endfor %}",
        {},
    ),
    "body called again": (
        "{% for x in [range(900)] recursive %}{% if loop.depth < 2 %}{{ loop(x) }}{% endif %}"
        + "{% set y = 1 %}" * 1_600
        + "{% endfor %}",
        {},
    ),
    "macro as large as it may be": (
        "{% macro m() %}"
        + "{% set x = 1 %}" * 1_600
        + "{% endmacro %}{% for i in range(900) %}{% set y = m() %}{% endfor %}",
        {},
    ),
    "macro": ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", {}),
    "two macros": (
        "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
        {},
    ),
    "exponential macro": (
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
        {},
    ),
    "silent macro": (
        "{% macro m(n) %}{% if n %}{% set a = m(n - 1) %}{% set b = m(n - 1) %}{% endif %}{% endmacro %}{% set c = m(40) %}",
        {},
    ),
    "doubling macros": (
        "".join(
            [
                "{% macro m0() %}{% endmacro %}",
                *[
                    f"{{% macro m{n} () %}}{f'{{{{ m{n - 1}() }}}}' * 9}{{% endmacro %}}"
                    for n in range(1, 30)
                ],
            ]
        )
        + "{{ m29() }}",
        {},
    ),
    "recursive loop": (
        "{% for x in [[[]]] recursive %}{{ loop([[[]]]) }}{% endfor %}",
        {},
    ),
    "recursive ranges": (
        "{% for x in range(900) recursive %}{% if loop.depth < 9 %}{{ loop(range(900)) }}{% endif %}{% endfor %}",
        {},
    ),
    "call block": (
        "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}"
        + "{% call m() %}" * 30
        + "{% endcall %}" * 30,
        {},
    ),
    "times": ("{{ 'a' * 10**9 }}", {}),
    "times, the other way": ("{{ 10**9 * 'a' }}", {}),
    "list times": ("{{ [1] * 10**9 }}", {}),
    "list times quietly": (
        "{% for i in range(9999) %}{% set x = [1] * 1000000 %}{% endfor %}",
        {},
    ),
    "power": ("{{ 10**(10**10) }}", {}),
    "power in an if": ("{% if 7**99999999 %}{% endif %}", {}),
    "products": (
        "{% set n = namespace(x=2) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}",
        {},
    ),
    "complex": ("{{ (-8)**0.5 }}", {}),
    "format width": ("{{ '%0999999999d' % 1 }}", {}),
    "format star": ("{{ '%*d' % (999999999, 1) }}", {}),
    "format precision": ("{{ '%.999999999f' % 1.5 }}", {}),
    "format behind a key": ("{{ '%(a(b)c)999999999d' % {'a(b)c': 1} }}", {}),
    "format many times": ("{{ ('%(a)s' * 10000) % {'a': t} }}", WORDS),
    "format filter": ("{{ '%0999999999d'|format(1) }}", {}),
    "format filter by name": ("{{ '%(a)999999999d'|format(a=1) }}", {}),
    "center": ("{{ 'a'|center(10**9) }}", {}),
    "ljust": ("{{ 'a'.ljust(10**9) }}", {}),
    "zfill": ("{{ 'a'.zfill(10**9) }}", {}),
    "expandtabs": ("{{ '\\t'.expandtabs(10**9) }}", {}),
    "to_bytes": ("{{ (1).to_bytes(10**9) }}", {}),
    "translate": ("{{ t.translate({97: t}) }}", WORDS),
    "indent": ("{{ ('\\n' * 99999)|indent(9999) }}", {}),
    "indent by a text": ("{{ ('\\x0b' * 99999)|indent(t, true) }}", WORDS),
    "batch": ("{{ [1]|batch(10**9, 0)|list }}", {}),
    "slice": ("{{ [1]|slice(10**9, 0)|list }}", {}),
    "round": ("{{ 1|round(10**9, 'ceil') }}", {}),
    "json": ("{{ x|tojson(indent=9999) }}", {"x": deep(90)}),
    "json by a text": ("{{ x|tojson(indent='    ' * 9999) }}", {"x": deep(90)}),
    "join": ("{{ range(99999)|join(t) }}", WORDS),
    "join method": ("{{ t.join(t) }}", WORDS),
    "join of a list": ("{{ t.join(['a'] * 9999) }}", WORDS),
    "replace": ("{{ t|replace('', t) }}", WORDS),
    "replace method": ("{{ t.replace('a', t) }}", WORDS),
    "sum of lists": ("{{ l|sum(start=[]) }}", MANY),
    "sum of lists by attribute": (
        "{{ [{'a': l}]|sum(attribute='a', start=[]) }}",
        MANY,
    ),
    "trim": ("{{ (t ~ 'b')|trim(u ~ 'a') }}", WORDS),
    "strip": ("{{ t.strip(u ~ 'a') }}", WORDS),
    "no dashes": ("{{ ('-' * 99999)|wordwrap(1) }}", {}),
    "no tags": ("{{ ('<!--' * 99999)|striptags }}", {}),
    "no urls": ("{{ ('http://' * 99999)|urlize }}", {}),
    "lipsum": ("{{ lipsum(n=10**6) }}", {}),
    "int of hexadecimals": ("{{ ('f' * 900000)|int(0, 16) }}", {}),
    "doubled text": (
        "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        {},
    ),
    "doubled text, added": (
        "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
        {},
    ),
    "doubled by set": (
        "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set y %}{{ n.x }}{{ n.x }}{% endset %}{% set n.x = y %}{% endfor %}",
        {},
    ),
    "doubled list": (
        "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
        {},
    ),
    "doubled list, compared": (
        "{% set n = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}",
        {},
    ),
    "deep list": (
        "{% set n = namespace(x=[1]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
        {},
    ),
    "deep list, compared": (
        "{% set n = namespace(x=[1], y=[2]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% set n.y = [n.y] %}{% endfor %}{{ n.x == n.y }}",
        {},
    ),
    "namespace in itself": (
        "{% set n = namespace() %}{% set n.x = [n] %}{{ n.x }}",
        {},
    ),
    "buffered text": (
        "{% macro m() %}{% for i in range(99999) %}"
        + "a" * 50_000
        + "{% endfor %}{% endmacro %}{% set x = m() %}",
        {},
    ),
    "set text": (
        "{% set x %}{% for i in range(9999) %}"
        + "a" * 50_000
        + "{% endfor %}{% endset %}",
        {},
    ),
    "set wide text": (
        "{% set x %}{% for i in range(900) %}"
        + "\U0001f600" * 50_000
        + "{% endfor %}{% endset %}",
        {},
    ),
    "filtered text": (
        "{% filter upper %}{% for i in range(9999) %}"
        + "a" * 50_000
        + "{% endfor %}{% endfilter %}",
        {},
    ),
    "output": ("{% for i in range(9999) %}{{ t }}{% endfor %}", WORDS),
    "quiet uppers": (
        "{% for i in range(9999) %}{% set x = u.upper() %}{% endfor %}",
        WORDS,
    ),
    "quiet titles": (
        "{% for i in range(9999) %}{% set x = u|title %}{% endfor %}",
        WORDS,
    ),
    "quiet counts of words": (
        "{% for i in range(9999) %}{% set x = u|wordcount %}{% endfor %}",
        WORDS,
    ),
    "quiet urls": (
        "{% for i in range(9999) %}{% set x = u|urlencode %}{% endfor %}",
        WORDS,
    ),
    "quiet escapes": ("{% for i in range(9999) %}{% set x = u|e %}{% endfor %}", WORDS),
    "quiet JSON": (
        "{% for i in range(9999) %}{% set x = u|tojson %}{% endfor %}",
        WORDS,
    ),
    "quiet JSON of lists": (
        "{% for i in range(9999) %}{% set x = l|tojson %}{% endfor %}",
        MANY,
    ),
    "quiet texts of lists": (
        "{% for i in range(9999) %}{% set x = l|string %}{% endfor %}",
        MANY,
    ),
    "quiet truncations": (
        "{% for i in range(9999) %}{% set x = u|truncate(800000) %}{% endfor %}",
        WORDS,
    ),
    "quiet splits": (
        "{% for i in range(9999) %}{% set x = u.split('-') %}{% endfor %}",
        WORDS,
    ),
    "quiet replacements": (
        "{% for i in range(9999) %}{% set x = u|replace('-', '+') %}{% endfor %}",
        WORDS,
    ),
    "quiet ranges": (
        "{% for i in range(9999) %}{% set x = range(99999)|list %}{% endfor %}",
        {},
    ),
    "quiet batches": (
        "{% for i in range(9999) %}{% set x = l|batch(2, 1) %}{% endfor %}",
        MANY,
    ),
    "quiet groups": (
        "{% for i in range(9999) %}{% set x = l|groupby(0) %}{% endfor %}",
        MANY,
    ),
    "quiet changes": (
        "{% for i in range(9999) %}{% set x = loop.changed(l) %}{% endfor %}",
        MANY,
    ),
    "quiet cyclers": (
        "{% for i in range(9999) %}{% set x = cycler(*range(99999)) %}{% endfor %}",
        {},
    ),
    "long attribute": ("{{ l|map(attribute='0.' * 40000)|list }}", MANY),
    "many attributes": ("{{ l|sort(attribute='0,' * 40000 ~ '0') }}", MANY),
    "quiet slices": ("{% for i in range(9999) %}{% set x = l[:] %}{% endfor %}", MANY),
    "quiet comparisons": (
        "{% for i in range(9999) %}{% set x = l == l[:] %}{% endfor %}",
        MANY,
    ),
    "quiet searches": (
        "{% for i in range(9999) %}{% set x = [2] in l %}{% endfor %}",
        MANY,
    ),
    "quiet counts": (
        "{% for i in range(9999) %}{% set x = l.count([2]) %}{% endfor %}",
        MANY,
    ),
    "quiet sorts": ("{% for i in range(9999) %}{% set x = l|sort %}{% endfor %}", MANY),
    "quiet lists": (
        "{% for i in range(9999) %}{% set x = t|list %}{% endfor %}",
        WORDS,
    ),
    "quiet items": (
        "{% for i in range(9999) %}{% set x = d.items() %}{% endfor %}",
        {"d": {str(n): n for n in range(40_000)}},
    ),
    "quiet joins": ("{% for i in range(9999) %}{% set x = l|join %}{% endfor %}", MANY),
    "sort of one text": ("{{ ([t] * 9999)|sort }}", WORDS),
    "spread": ("{{ dict(*range(99999)) }}" * 99, {}),
    "map of maps": ("{{ l|map('map', 'list')|map('list')|list }}" * 99, MANY),
    # Reading it.
    "variable open": ("{{", {}),
    "statement open": ("{% if", {}),
    "comment open": ("{# a", {}),
    "comment just open": ("{#", {}),
    "raw open": ("{% raw %}", {}),
    "text open": ("{{ 'a", {}),
    "many open": ("{{ " * 30_000, {}),
    "parentheses": ("{{ " + "(" * 10_000 + "1" + ")" * 10_000 + " }}", {}),
    "more parentheses": ("{{ " + "(-" * 150 + "1" + ")" * 150 + " }}", {}),
    "lists": ("{{ " + "[" * 10_000 + "]" * 10_000 + " }}", {}),
    "nots": ("{{ " + "not " * 20_000 + "1 }}", {}),
    "minuses": ("{{ " + "-" * 50_000 + "1 }}", {}),
    "sums": ("{{ 1" + "+1" * 40_000 + " }}", {}),
    "filters": ("{{ 1" + "|abs" * 20_000 + " }}", {}),
    "keys": ("{{ x" + ".a" * 40_000 + " }}", {"x": {}}),
    "calls": ("{{ x" + "()" * 40_000 + " }}", {"x": {}}),
    "ifs": ("{% if 1 %}" * 5_000 + "{% endif %}" * 5_000, {}),
    "fors": ("{% for x in y %}" * 30 + "{% endfor %}" * 30, {"y": []}),
    "elses": ("{{ " + "1 if 0 else " * 8_000 + "1 }}", {}),
    "number": ("{{ " + "9" * 90_000 + " }}", {}),
    "underscores": ("{{ " + "1_" * 45_000 + " }}", {}),
    "spaces": ("{%" + " " * 90_000, {}),
    "raw spaces": ("{% raw %}" + "{% " * 30_000, {}),
    "too long": ("{{ x }}" * FULL, {"x": ""}),
    "surrogate": ("{{ '\\ud800' }}", {}),
}

GO = {
    "method": ("{{.x.upper}}", {"x": "a"}),
    "dunder": ("{{.x.__class__}}", {"x": "a"}),
    "dunder of all": ("{{.__class__}}", {}),
    "map method": ("{{.x.items}}", {"x": {}}),
    "call": ("{{call .x}}", {"x": "a"}),
    "env": ('{{env "HOME"}}', {}),
    "file": ('{{template "/etc/passwd"}}', {}),
    "range": ("{{range 1000000000}}{{end}}", {}),
    "range of a value": ("{{range .x}}{{end}}", {"x": 10**1_000}),
    "ranges": ("{{range 100000}}{{range 100000}}{{end}}{{end}}", {}),
    "large body": ("{{range 100000}}" + "{{if .}}{{end}}" * 6_000 + "{{end}}", {}),
    "all variables": ("{{range 100000}}{{if $}}{{end}}{{end}}", NUMBERS),
    "long keys": ("{{range .m}}{{range .}}{{range 9}}{{end}}{{end}}{{end}}", LONG_KEY),
    "recursion": ('{{define "a"}}{{template "a"}}{{end}}{{template "a"}}', {}),
    "doubled": ('{{$x := "a"}}{{range 99}}{{$x = print $x $x}}{{end}}', {}),
    "output": ("{{range 9999}}{{$.t}}{{end}}", WORDS),
    "quiet prints": ("{{range 9999}}{{$x := print $.u}}{{end}}", WORDS),
    "quiet lengths": ("{{range 9999}}{{$x := len $.u}}{{end}}", WORDS),
    "quiet comparisons": ("{{range 9999}}{{if eq $.t $.t}}{{end}}{{end}}", WORDS),
    "quiet maps": (
        "{{range 9999}}{{range $.d}}{{end}}{{end}}",
        {"d": {str(n): n for n in range(40_000)}},
    ),
    "surrogate": ('{{"\\ud800"}}', {}),
    "open": ("{{", {}),
    "open name": ("{{.x", {}),
    "open text": ('{{"a', {}),
    "open raw": ("{{`a", {}),
    "open if": ("{{if .x}}", {"x": 1}),
    "open comment": ("{{/* ", {}),
    "many open": ("{{" * 50_000, {}),
    "end": ("{{end}}", {}),
    "break outside": ("{{break}}", {}),
    "parentheses": ("{{" + "(" * 10_000 + "1" + ")" * 10_000 + "}}", {}),
    "ifs": ("{{if 1}}" * 6_000 + "{{end}}" * 6_000, {}),
    "else ifs": ("{{if 0}}" + "{{else if 0}}" * 7_000 + "{{end}}", {}),
    "keys": ("{{.x" + ".a" * 40_000 + "}}", {"x": {}}),
    "number": ("{{" + "9" * 90_000 + "}}", {}),
    "too long": ("{{.x}}" * FULL, {"x": ""}),
}


# Left to `make fuzz`: those that take long, and that another one of their kind stands
# for, which is named after each group.
SLOW_AND_ALIKE = frozenset(
    [
        # Long expressions: "jinja2: filters".
        *("jinja2: sums", "jinja2: keys", "jinja2: calls"),
        # Large and repeated bodies: "jinja2: body as large as it may be".
        *("jinja2: large body", "jinja2: body called again"),
        *("jinja2: macro as large as it may be", "jinja2: doubling macros"),
        # Long paths and many arguments of filters: "jinja2: long attribute".
        *("jinja2: many attributes", "jinja2: map of maps"),
        "jinja2: sum of lists by attribute",  # "jinja2: sum of lists"
        "jinja2: deep list, compared",  # "jinja2: deep list"
        # Lists that a filter reads: "jinja2: quiet searches" and "… slices".
        *("jinja2: quiet counts", "jinja2: quiet changes", "jinja2: quiet joins"),
        *("jinja2: quiet batches", "jinja2: quiet groups", "jinja2: quiet comparisons"),
        *("jinja2: quiet sorts", "jinja2: quiet JSON of lists"),
        "jinja2: quiet texts of lists",
        "jinja2: quiet titles",  # "jinja2: quiet uppers"
        # Long templates of what is refused: "go: keys".
        *("go: many open", "go: else ifs"),
        # Ranges in ranges: "go: ranges".
        *("go: large body", "go: long keys", "go: range", "go: range of a value"),
        # One function counts the values for all three syntaxes.
        *("fstring: value: doubled", "jinja2: value: doubled"),
        *("fstring: value: endless", "go: value: endless"),
        *("jinja2: value: huge range", "go: value: huge range"),
        "fstring: list many times",  # "fstring: many times"
    ]
)


def cases():
    """All of them: a name, a syntax, a template and variables."""
    for syntax, table in (("fstring", FSTRING), ("jinja2", JINJA2), ("go", GO)):
        for name, (text, variables) in table.items():
            yield f"{syntax}: {name}", syntax, text, variables
        for name, variables in VALUES.items():
            yield f"{syntax}: value: {name}", syntax, ASK[syntax], variables


def main(left_out):
    """Renders each but those, and prints how that ended and how long it took."""
    import resource  # noqa: PLC0415 - not on every system

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for syntax, text in ASK.items():
        render(text, {"x": 1}, syntax=syntax)  # imports are no part of it

    for name, syntax, text, variables in cases():
        if name in left_out:
            continue

        start = time.perf_counter()
        try:
            end = f"rendered {len(render(text, variables, syntax=syntax))} characters"
        except TemplateError as error:
            end = "TemplateError"
            message = str(error)
        except BaseException as error:  # noqa: BLE001 - reported, and refused by the test
            end = message = f"{type(error).__name__}: {error!s:.200}"
        else:
            message = end

        took = time.perf_counter() - start
        print(json.dumps([name, end, message, round(took, 3)]), flush=True)  # noqa: T201


def test_all_end_in_a_template_error():
    """
    Whatever is hostile ends in a TemplateError of a few words, without the values that
    it found; and before the memory is full.
    """
    left_out = set() if is_thorough() else SLOW_AND_ALIKE
    done = subprocess.run(
        [sys.executable, "-m", "tests.test_templates_hostile", *left_out],
        capture_output=True,
        check=False,
        cwd=ROOT,
        text=True,
        timeout=WATCHDOG_S,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    ends = {name: (end, message) for name, end, message, _ in rows}
    names = {case[0] for case in cases()}
    assert left_out < names
    COUNTS["hostile"] += len(ends)

    # Python itself prints something where a generator is dropped at the very end of
    # the stack.
    words = done.stderr.strip()

    assert 0 == done.returncode
    assert not words or words.startswith("Exception ignored in: <generator")
    assert left_out == names - {*ends}
    assert {} == {
        name: (end, message)
        for name, (end, message) in ends.items()
        if end != "TemplateError"
        or len(message) > LONGEST
        or "s3cret" in message
        or "memory" in message
    }


if __name__ == "__main__":
    main(sys.argv[1:])
