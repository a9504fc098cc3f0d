"""Templates: messages from variables, in three syntaxes, strict in all of them."""
# ruff: noqa: E501 - a row of a table is a line

import copy
import pickle
import sys
from collections import UserDict
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any, ClassVar
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import Aggregator
from conversation_state.documents import Document
from conversation_state.errors import (
    InvalidMessageError,
    InvalidPartError,
    MissingExtraError,
    MissingVariableError,
    TemplateError,
)
from conversation_state.messages import (
    AssistantMessage,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.templates import (
    MAX_CHARACTERS,
    MAX_VALUES,
    Placeholder,
    Template,
    render,
)
from conversation_state.testing import strategies as our
from conversation_state.tools import ToolCall
from tests.processes import run_script

SYNTAXES = ("fstring", "jinja2", "go")

# A variable, in each syntax.
GAP = {"fstring": "{%s}", "jinja2": "{{ %s }}", "go": "{{.%s}}"}

every_syntax = pytest.mark.parametrize("syntax", SYNTAXES)


def gap(syntax, name="x"):
    """The gap for variable *name*."""
    return GAP[syntax] % name


def escaped(text, syntax):
    """A template that becomes *text*."""
    if syntax == "fstring":
        return text.replace("{", "{{").replace("}", "}}")

    return text.replace("{", '{{"{"}}')


class Colour(StrEnum):
    RED = "red"


class Number(IntEnum):
    TWO = 2


def nested(levels):
    """A list in a list in a list, without a call for each."""
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


class Endless(UserDict[str, int]):
    """A mapping that never ends."""

    def items(self):
        number = 0
        while True:
            yield f"k{number}", number
            number += 1


class TestFString:
    """Python's format syntax, but for what reaches into objects."""

    VARIABLES: ClassVar[dict[str, Any]] = {
        "name": "eino",
        "n": 7,
        "f": 1.5,
        "m": {"k": "v", "1": "one", 2: "two", "a.b": "dots", "é": "accent"},
        "l": [1, 2, {"x": ["deep"]}],
        "none": None,
        "yes": True,
        "when": datetime(2026, 3, 5, 12, tzinfo=UTC),
        "price": Decimal("1234.50"),
    }

    @pytest.mark.parametrize(
        ("made", "text"),
        [
            ("eino", "{name}"),
            ("v", "{m[k]}"),
            ("one two", "{m[1]} {m[2]}"),
            ("dots accent", "{m[a.b]} {m[é]}"),
            ("deep", "{l[2][x][0]}"),
            ("{x}", "{{x}}"),
            ('{"a": 7}', '{{"a": {n}}}'),
            ("007 1.50 7 2e+00", "{n:03d} {f:.2f} {n:x} {f:.0e}"),
            ("eino      |      eino", "{name:10}|{name:>10}"),
            ("[1, 2, {'x': ['deep']}]", "{l}"),
            ("2026-03-05 1,234.50", "{when:%Y-%m-%d} {price:,}"),
            ("2026-03-05 12:00:00+00:00", "{when}"),
        ],
    )
    def test_fills_names_keys_and_positions(self, made, text):
        """Fields name variables, keys and positions, and formats hold."""
        assert made == render(text, self.VARIABLES, syntax="fstring")

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("{", "write {{ and }}"),
            ("{name", "write {{ and }}"),
            ("{}", "no name of a variable"),
            ("{0}", "no name of a variable"),
            ("{ name }", "no name of a variable"),
            ('{"a": 1}', "write {{ and }}"),
            ("{name.upper}", "attributes are not read"),
            ("{m[k].x}", "no name of a variable"),
            ("{name!r}", "has a conversion"),
            ("{name:{n}}", "a field inside its format"),
            ("{name:d}", r"\{name\} can't be written as d"),
            ("{none:5}", r"\{none\} can't be written as 5"),
            ("{n:1000001}", "wider than a text may be"),
            ("{n:٩٩٩٩٩٩٩٩٩}", "wider than a text may be"),
            ("{f:.999999999f}", "wider than a text may be"),
            ("{n:600000}{n:600000}", "more than 1,000,000 characters"),
            ("{n:" + "9" * 50_000 + "}", "wider than a text may be"),
            ("{name[0]}", "name is a str and has no '0' below it"),
            ("{l[x]}", "l is an Items and has no 'x' below it"),
            ("{l[-1]}", "has no '-1' below it"),
        ],
    )
    def test_refuses_what_is_no_name_key_or_position(self, text, why):
        """The error has the reason, and what to write instead."""
        with pytest.raises(TemplateError, match=why):
            render(text, self.VARIABLES, syntax="fstring")


class TestJinja2:
    """Jinja2, in its sandbox and with no loader."""

    VARIABLES: ClassVar[dict[str, Any]] = {
        "name": "Ann",
        "n": 7,
        "user": {"name": "Bob", "items": [3, 1, 2], "tags": {"a": 1}},
        "rows": [{"k": "x", "v": 1}, {"k": "y", "v": 2}, {"k": "x", "v": 3}],
        "none": None,
        "yes": True,
        "tree": [{"n": 1, "c": [{"n": 2, "c": []}]}],
        "html": "<b>",
    }

    @pytest.mark.parametrize(
        ("made", "text"),
        [
            ("Hi Ann!", "Hi {{ name }}!"),
            ("Bob Bob 3", "{{ user.name }} {{ user['name'] }} {{ user['items'][0] }}"),
            ("None True [3, 1, 2]", "{{ none }} {{ yes }} {{ user['items'] }}"),
            ("{'a': 1}", "{{ user.tags }}"),
            ("&lt;b&gt;<b>", "{{ html|e }}{{ html }}"),
            ("yes", "{% if yes and n > 3 %}yes{% elif no %}{% else %}no{% endif %}"),
            ("1:3,2:1,3:2", "{% for i in user['items'] %}{{ loop.index }}:{{ i }}{{ ',' if not loop.last }}{% endfor %}"),
            ("<1<2>>", "{% for x in tree recursive %}<{{ x.n }}{{ loop(x.c) }}>{% endfor %}"),
            ("<b>x</b>", "{% macro b() %}<b>{{ caller() }}</b>{% endmacro %}{% call b() %}x{% endcall %}"),
            ("6", "{% set ns = namespace(t=0) %}{% for i in user['items'] %}{% set ns.t = ns.t + i %}{% endfor %}{{ ns.t }}"),
            ("a7", "{% set z %}a{{ n }}{% endset %}{{ z }}"),
            ("{{ x }}", "{% raw %}{{ x }}{% endraw %}{# a comment #}"),
            ("a\nb", "a\n{%- if yes %}\nb{% endif %}"),
            ("a\n", "a{# #}\n"),
            ("a\r\nb\r\n7", "a\r\nb\r\n{{ n\r\n}}"),
            ("d d 7", "{{ x|default('d') }} {{ user.x|d('d') }} {{ n|default('d') }}"),
            ("d", "{{ ''|default('d', true) }}"),
            ("False True True", "{{ x is defined }} {{ user.x is undefined }} {{ n is defined }}"),
            ("1, 2, 3", "{{ user['items']|sort|join(', ') }}"),
            ("x:[1, 3];y:[2];", "{% for g in rows|groupby('k') %}{{ g.grouper }}:{{ g.list|map(attribute='v')|list }};{% endfor %}"),
            ('{"a": 1}', "{{ user.tags|tojson }}"),
            ("ANN ann An Ann", "{{ name.upper() }} {{ name|lower }} {{ name[:2] }} {{ 'ann'|title }}"),
            ("3 -7 1024 3.5 1 14", "{{ n // 2 }} {{ -n }} {{ 2**10 }} {{ n / 2 }} {{ n % 2 }} {{ n * 2 }}"),
            ("||", "|{{ 'x' if false }}|"),
        ],
    )  # fmt: skip
    def test_renders_as_jinja2_does(self, made, text):
        """Statements, filters and tests do what they do in Jinja2; newlines stay."""
        assert made == render(text, self.VARIABLES, syntax="jinja2")

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("{% include 'x' %}", "there is no include here"),
            ("{% if yes %}{% extends 'x' %}{% endif %}", "there is no extends here"),
            ("{% import 'x' as x %}", "there is no import here"),
            ("{% from 'x' import y %}", "there is no fromimport here"),
            ("{% nothing %}", "unknown tag 'nothing'"),
            ("{{ name|nothing }}", "No filter named 'nothing'"),
            ("{{ name is nothing }}", "No test named 'nothing'"),
            ("{{ name.__class__ }}", "access to attribute '__class__' .* is unsafe"),
            ("{{ name|attr('__class__') }}", "unsafe"),
            ("{{ '{0.__class__}'.format(n) }}", "unsafe"),
            ("{{ user.update({'a': 1}) }}", "unsafe"),
            ("{{ user['items'].append(1) }}", "unsafe"),
            ("{{ cycler.__init__.__globals__.os }}", "unsafe"),
            ("{{ name.x }}", "has no attribute 'x'"),
            ("{{ n() }}", "not callable"),
            ("{{ n + 'a' }}", "can only concatenate|unsupported operand"),
            ("{{ []|first }}", "No first item"),
            ("{{ 1 / 0 }}", "ZeroDivisionError"),
            ("{{ range(10**9) }}", "Range too big"),
            ("{% for i in range(9999) %}{{ name * 99 }}{% endfor %}", "1,000,000 char"),
            ("{{ name * 400000 }}", "1,000,000 char"),
            ("a\n{{ 1 }", "line 2"),
            ("{{ n|int(", "unexpected 'end of template'"),
            (
                "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
                "it is nested too deeply",
            ),
            ("{# a", "Missing end of comment"),
        ],
    )
    def test_refuses_the_rest(self, text, why):
        """No loader, no attributes, no objects: each error names what is missing."""
        with pytest.raises(TemplateError, match=why):
            render(text, self.VARIABLES, syntax="jinja2")


class TestGo:
    """Go's text/template with its standard functions."""

    VARIABLES: ClassVar[dict[str, Any]] = {
        "name": "Ann",
        "n": 7,
        "f": 1.5,
        "user": {"name": "Bob", "tags": {"b": 2, "a": 1}},
        "items": [3, 1, 2],
        "none": None,
        "yes": True,
        "no": False,
        "empty": "",
        "é": "é",
        "m": {"a": "v"},
    }

    @pytest.mark.parametrize(
        ("made", "text"),
        [
            ("Hi Ann!", "Hi {{.name}}!"),
            ("Bob 1 Bob é", "{{.user.name}} {{.user.tags.a}} {{$.user.name}} {{.é}}"),
            ("{name} {x}", "{name} {{`{x}`}}"),
            ("<no value> true [3 1 2] 1.5", "{{.none}} {{.yes}} {{.items}} {{.f}}"),
            ("map[name:Bob tags:map[a:1 b:2]]", "{{.user}}"),
            ("<3><1><2>", "{{range .items}}<{{.}}>{{end}}"),
            ("0=3;1=1;2=2;", "{{range $i, $x := .items}}{{$i}}={{$x}};{{end}}"),
            ("a=1;b=2;", "{{range $k, $v := .user.tags}}{{$k}}={{$v}};{{end}}"),
            ("none", "{{range .none}}a{{else}}none{{end}}"),
            ("Bob Ann", "{{with .user}}{{.name}} {{$.name}}{{end}}"),
            ("ad", "a {{- /* c */ -}}  d"),
            ("a\r\nb", "a\r\n{{if .yes}}b{{end}}"),
            ("3 2 2 3", "{{len .name}} {{len .é}} {{len .user}} {{len .items}}"),
            ("true true true false", '{{eq .n 7}} {{ne .name "x"}} {{lt 1 2}} {{ge 1 2}}'),
            ("Ann d false true", '{{and .yes .name}} {{or .empty "d"}} {{not .yes}} {{not .empty}}'),
            ("1 1 2", '{{index .items 1}} {{index .user "tags" "a"}} {{(index .user "tags").b}}'),
            ("raw311000-510.5+", '{{`raw`}}{{0x1F}}{{1e3}}{{-5}}{{1_0.5}}{{"\\x2b"}}'),
            ("1 013 v Ab", '{{$x := 1}}{{$x}} {{range 4}}{{if eq . 2}}{{continue}}{{end}}{{.}}{{end}} {{define "t"}}{{.a}}{{end}}{{template "t" .m}} {{slice "xAby" 1 3}}'),
            ("7-07", '{{printf "%d-%02d" .n .n}}'),
            ("1e+06 1e-05 -0.5 NaN", "{{1000000.0}} {{0.00001}} {{-0.5}} {{.nan}}"),
        ],
    )  # fmt: skip
    def test_renders_as_go_does(self, made, text):
        """Actions and functions do what they do in Go."""
        variables = {**self.VARIABLES, "nan": float("nan")}

        assert made == render(text, variables, syntax="go")

    def test_a_single_dot_is_all_variables(self):
        """The topmost dot is a map of everything."""
        variables = {"b": 2, "a": [1]}

        assert "map[a:[1] b:2]" == render("{{.}}", variables, syntax="go")
        assert "a b " == render(
            "{{range $k, $v := .}}{{$k}} {{end}}", variables, syntax="go"
        )
        assert "2 2" == render('{{len .}} {{index . "b"}}', variables, syntax="go")

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("{{", "unclosed action"),
            ("a\n{{end}}", "line 2"),
            ("{{nothing}}", "function 'nothing' not defined"),
            ('{{env "HOME"}}', "function 'env' not defined"),
            ('{{template "a"}}', "line 1"),
            ("{{.name.x}}", "attribute 'x' is not allowed"),
            ("{{.name.upper}}", "method 'upper' is not allowed"),
            ("{{.name.__class__}}", "'__class__' is not allowed"),
            ("{{.user.items}}", "there is no variable 'user.items'"),
            ("{{range .items}}{{.x}}{{end}}", "attribute 'x' is not allowed"),
            ("{{call .name}}", "function 'call' is not defined"),
            ("{{eq 1}}", "eq"),
            ("{{len 1}}", "len"),
            ("{{index .items .name}}", "a list and a position"),
            ("{{index .name 1}}", "a list and a position"),
            ("{{nil}}", "nil is not a command"),
            ("{{$x}}", "undefined variable"),
            ("{{range 1000000000}}{{end}}", "iteration budget"),
            ("{{range 9999}}{{printf `%9999d` .}}{{end}}", "output character budget"),
            ('{{define "a"}}{{template "a"}}{{end}}{{template "a"}}', "depth budget"),
            ("{{" + "(" * 10_000 + "1" + ")" * 10_000 + "}}", "nesting limit"),
        ],
    )
    def test_refuses_the_rest(self, text, why):
        """What Go refuses, what reaches out of the variables, and what never ends."""
        with pytest.raises(TemplateError, match=why):
            render(text, self.VARIABLES, syntax="go")


class TestMissing:
    """What is missing is an error in every syntax, with its dotted name."""

    @pytest.mark.parametrize(
        ("syntax", "text", "name"),
        [
            ("fstring", "{x}", "x"),
            ("fstring", "{m[k]}", "m.k"),
            ("fstring", "{m[a.b]}", "m.a.b"),
            ("fstring", "{l[2]}", "l.2"),
            ("jinja2", "{{ x }}", "x"),
            ("jinja2", "{{ x.y }}", "x"),
            ("jinja2", "{{ m.k }}", "m.k"),
            ("jinja2", "{{ m['in'].k }}", "m.in.k"),
            ("jinja2", "{{ l[2] }}", "l.2"),
            ("jinja2", "{% set k = 'q' %}{{ m[k] }}", "m.q"),
            ("jinja2", "{% for a in x %}{% endfor %}", "x"),
            ("jinja2", "{{ x|upper }}", "x"),
            ("jinja2", "{{ 'a' ~ x }}", "x"),
            ("jinja2", "{{ 1 + x }}", "x"),
            ("jinja2", "{{ 1 in x }}", "x"),
            ("jinja2", "{{ x() }}", "x"),
            ("jinja2", "{{ m[x] }}", "x"),
            ("jinja2", "{{ '%s'|format(x) }}", "x"),
            ("jinja2", "{{ x|default(y) }}", "y"),
            ("jinja2", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f() }}", "a"),
            ("jinja2", "{% for a in r %}{{ a.k }}{% endfor %}", "r.0.k"),
            ("go", "{{.x}}", "x"),
            ("go", "{{.x.y}}", "x"),
            ("go", "{{.m.k}}", "m.k"),
            ("go", "{{index .l 2}}", "l.2"),
            ("go", "{{index .l -1}}", "l.-1"),
            ("go", '{{index . "x"}}', "x"),
            ("go", "{{range .x}}{{end}}", "x"),
            ("go", "{{range .r}}{{.k}}{{end}}", "r.0.k"),
            ("go", "{{range $a := .r}}{{$a.k}}{{end}}", "r.0.k"),
            ("go", "{{len .x}}", "x"),
        ],
    )
    def test_names_what_is_missing(self, syntax, text, name):
        """The variable, and the keys below it that lead to what is missing."""
        variables = {"m": {"in": {}}, "l": [1, 2], "r": [{}]}

        with pytest.raises(MissingVariableError) as caught:
            render(text, variables, syntax=syntax)

        assert (name, text) == (caught.value.variable, caught.value.template)
        assert f"there is no variable '{name}'" in str(caught.value)

    @every_syntax
    def test_is_also_the_builtin_one_would_guess(self, syntax):
        """A LookupError, a TemplateError, and it survives pickling."""
        with pytest.raises(LookupError) as caught:
            Template(UserMessage(gap(syntax)), syntax=syntax).format({})

        assert isinstance(caught.value, TemplateError)
        assert str(caught.value) == str(pickle.loads(pickle.dumps(caught.value)))

    @every_syntax
    def test_shows_a_line_of_the_template(self, syntax):
        """Of a long template the error shows the beginning, on one line."""
        text = f"a\n\nlong   {'text ' * 100}{gap(syntax)}"

        with pytest.raises(MissingVariableError) as caught:
            render(text, {}, syntax=syntax)

        assert caught.value.template.startswith("a long text text")
        assert 80 == len(caught.value.template)


class TestValues:
    """What values are written as; what is not a plain data is refused."""

    @pytest.mark.parametrize(
        ("value", "fstring", "jinja2", "go"),
        [
            ("text", "text", "text", "text"),
            (7, "7", "7", "7"),
            (1e21, "1e+21", "1e+21", "1e+21"),
            (True, "True", "True", "true"),
            (None, "None", "None", "<no value>"),
            ([1, "a", None], "[1, 'a', None]", "[1, 'a', None]", "[1 a <nil>]"),
            ((1, 2), "[1, 2]", "[1, 2]", "[1 2]"),
            (range(3), "[0, 1, 2]", "[0, 1, 2]", "[0 1 2]"),
            ({"a": True}, "{'a': True}", "{'a': True}", "map[a:true]"),
            ({2: 1, "a": 1}, "{2: 1, 'a': 1}", "{2: 1, 'a': 1}", "map[2:1 a:1]"),
            (UserDict(a=1), "{'a': 1}", "{'a': 1}", "map[a:1]"),
            (Colour.RED, "red", "red", "red"),
            ([Number.TWO], "[2]", "[2]", "[2]"),
            (Decimal("1.50"), "1.50", "1.50", "1.50"),
            (date(2026, 3, 5), "2026-03-05", "2026-03-05", "2026-03-05"),
            (UUID(int=1), *[str(UUID(int=1))] * 3),
            (UserMessage("hi"), "user: hi", "user: hi", "user: hi"),
            (Document("7", "found", {"a": 1}), "found", "found", "found"),
            ([Document("7", "found")], "['found']", "['found']", "[found]"),
            (
                Aggregator.new(messages=[UserMessage("hi")]).messages,
                "['user: hi']",
                "['user: hi']",
                "[user: hi]",
            ),
        ],
    )
    def test_are_written_in_each_syntax(self, value, fstring, jinja2, go):
        """As Python writes builtins, and as Go does; messages by their text."""
        expected = {"fstring": fstring, "jinja2": jinja2, "go": go}

        made = {
            syntax: render(gap(syntax), {"x": value}, syntax=syntax)
            for syntax in SYNTAXES
        }

        assert expected == made

    @pytest.mark.parametrize(
        ("syntax", "text"),
        [
            (
                "fstring",
                "{x[0][id]} {x[0][content]} {x[0][metadata][from][0]} {x[0]:>3}",
            ),
            (
                "jinja2",
                (
                    "{% for d in x %}{{ d.id }} {{ d.content }} "
                    "{{ d.metadata.from[0] }} {{ '%3s' % d }}{% endfor %}"
                ),
            ),
            (
                "go",
                (
                    "{{range .x}}{{.id}} {{.content}} {{index .metadata.from 0}}  "
                    "{{.}}{{end}}"
                ),
            ),
        ],
    )
    def test_documents_have_fields(self, syntax, text):
        """
        A document is a map of its id, content and metadata, and its text where
        it is written; without its vectors, which no prompt can use.
        """
        document = Document("7", "it", {"from": ["a table"]}).with_score(0.5)
        document = document.with_dense_vector([0.5] * (MAX_VALUES + 1))

        made = render(text, {"x": [document]}, syntax=syntax)

        assert "7 it a table  it" == made

    @every_syntax
    @pytest.mark.parametrize(
        ("value", "what"),
        [
            (object(), "x is an object"),
            (b"bytes", "x is a bytes"),
            ({1}, "x is a set"),
            (sys, "x is a module"),
            (len, "x is a builtin_function_or_method"),
            ((n for n in range(3)), "x is a generator"),
            ([{"a": object()}], "x.0.a is an object"),
            ({"a": {(1,): 1}}, "x.a has a key that is a tuple"),
            ("\ud800", "holds '\\\\ud800'"),
            (10**100_000, "4300|integer"),
            (Decimal("1E+999999999"), "x is a decimal number too large"),
            ("a" * 2_000_000, "1,000,000 char|output character budget"),
            (["a" * 500_000] * 1_000, "more than 100,000 values"),
            ({str(n): ["a" * 100] * 10 for n in range(9_000)}, "100,000 values"),
            ([0] * MAX_VALUES, "more than 100,000 values"),
            (range(10**15), "more than 100,000 values"),
            (doubled(60), "more than 100,000 values|levels deep"),
            (Endless(), "more than 100,000 values"),
            (nested(100_000), "more than 100 levels deep"),
        ],
        ids=map(str, range(19)),  # not their texts, which may be long
    )
    def test_refuses_hostile_values(self, syntax, value, what):
        """
        What is no plain data, or too much of it, is refused before it is written; of
        few words, and nothing of the value is among them.
        """
        with pytest.raises(TemplateError, match=what) as caught:
            render(gap(syntax), {"x": value}, syntax=syntax)

        assert len(str(caught.value)) < 500

    @every_syntax
    def test_bounds_levels(self, syntax):
        """A hundred levels can be written; more, and rings, are refused by place."""
        ring: list[Any] = []
        ring.append(ring)
        value: Any = 1
        for _ in range(100):
            value = [value]

        assert "[" * 100 + "1" + "]" * 100 == render(
            gap(syntax), {"x": value}, syntax=syntax
        )
        for wrong in ([value], {"a": value}, ring):
            with pytest.raises(TemplateError, match=r"more than 100 levels deep"):
                render(gap(syntax), {"x": wrong}, syntax=syntax)

    @every_syntax
    def test_looks_at_no_other_variable(self, syntax):
        """What a template does not name may be anything."""
        variables = {"x": 1, "y": object(), "z": range(10**9)}

        assert "1" == render(gap(syntax), variables, syntax=syntax)

    @every_syntax
    def test_bounds(self, syntax):
        """The largest there may be is still rendered, and one more is not."""
        text, mark = gap(syntax), "!"
        most = {"x": "a" * (MAX_CHARACTERS - 1)}
        long_texts = {"x": ["a" * 400_000] * 2}

        assert MAX_CHARACTERS == len(render(text + mark, most, syntax=syntax))
        assert 800_000 < len(render(text, long_texts, syntax=syntax))
        with pytest.raises(TemplateError, match=r"1,?000,?000"):
            render(text + mark * 2, most, syntax=syntax)
        with pytest.raises(TemplateError, match=r"1,?000,?000"):
            render(text * 200, {"x": [1] * (MAX_VALUES - 1)}, syntax=syntax)

    @every_syntax
    def test_text_without_syntax_may_be_of_any_length(self, syntax):
        """What has no gaps is given back, however long."""
        text = "a" * (MAX_CHARACTERS + 1)

        assert text is render(text, {}, syntax=syntax)


class TestRender:
    """One text."""

    @pytest.mark.parametrize("wrong", ["f", "", None, "FSTRING", ["go"], "jinja"])
    def test_names_the_syntaxes(self, wrong):
        """There are three, and the error lists them."""
        with pytest.raises(TemplateError, match="one of fstring, jinja2, go"):
            render("a", {}, syntax=wrong)
        with pytest.raises(TemplateError, match="one of fstring, jinja2, go"):
            Template(syntax=wrong)

    @pytest.mark.parametrize(
        ("text", "variables", "why"),
        [
            ("a", [("x", 1)], r"variables is a list; expected a mapping"),
            (b"a", {}, "the template is a bytes"),
            ("\ud800", {}, "surrogate"),
        ],
    )
    def test_takes_a_text_and_a_mapping(self, text, variables, why):
        """Anything else is refused, gaps or none."""
        for syntax in SYNTAXES:
            with pytest.raises(TemplateError, match=why):
                render(text, variables, syntax=syntax)

    @pytest.mark.parametrize(
        ("syntax", "package", "extra"),
        [("jinja2", "jinja2", "jinja"), ("go", "gotpl", "go-templates")],
    )
    def test_names_the_extra(self, syntax, package, extra, monkeypatch):
        """A syntax without its package is an error that names the extra."""
        for name in list(sys.modules):
            ours = ("conversation_state.templates._jinja", f"{package}.")
            if name.startswith((*ours, "conversation_state.templates._go")):
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, package, None)

        with pytest.raises(MissingExtraError, match=f"\\[{extra}\\]") as caught:
            Template(UserMessage("a"), syntax=syntax).format({})

        assert extra == caught.value.extra

    def test_loads_an_engine_when_it_is_needed(self):
        """Importing templates loads no engine, and each loads its own only."""
        script = (
            "import sys; from conversation_state.templates import render\n"
            "for syntax in ('fstring', 'jinja2'):\n"
            "    print(*{'jinja2', 'gotpl'} & {*sys.modules})\n"
            "    render('{x}', {'x': 1}, syntax=syntax)\n"
            "print(*{'jinja2', 'gotpl'} & {*sys.modules})"
        )
        done = run_script(script)

        assert ["", "", "jinja2"] == done.splitlines()


class TestFormat:
    """Messages from messages."""

    @every_syntax
    def test_renders_texts_urls_and_names(self, syntax):
        """Every text, url and name is rendered; all else stays byte for byte."""
        g = gap(syntax)
        kept: Any = {"metadata": {"m": g}, "index": 1}
        raw = {"type": "future", "text": g}
        call = ToolCall(g, f"n{g}", f'{{"q": "{g}"}}', index=2, metadata={"m": g})
        meta = ResponseMeta(g, model=g)
        template = Template(
            SystemMessage(f"s{g}", name=f"n{g}", metadata={"m": g}),
            UserMessage(
                [
                    TextPart(f"t{g}", **kept),
                    ImagePart(url=f"u{g}", media_type=g, detail=g, **kept),
                    ImagePart(data=g.encode(), media_type=g),
                    AudioPart(url=f"u{g}"),
                    VideoPart(url=f"u{g}"),
                    FilePart(url=f"u{g}", name=f"n{g}"),
                    FilePart(data=g.encode(), name=f"n{g}"),
                    UnknownPart(raw, source="future"),
                ]
            ),
            AssistantMessage(
                [ReasoningPart(f"r{g}"), ReasoningPart(g, g), RefusalPart(f"f{g}")],
                tool_calls=[call],
                response=meta,
            ),
            ToolMessage(f"c{g}", tool_call_id=g, tool_name=f"n{g}", is_error=True),
            UnknownMessage({"role": g}, source=g, name=f"n{g}"),
            syntax=syntax,
        )

        assert (
            SystemMessage("s1", name="n1", metadata={"m": g}),
            UserMessage(
                [
                    TextPart("t1", **kept),
                    ImagePart(url="u1", media_type=g, detail=g, **kept),
                    ImagePart(data=g.encode(), media_type=g),
                    AudioPart(url="u1"),
                    VideoPart(url="u1"),
                    FilePart(url="u1", name="n1"),
                    FilePart(data=g.encode(), name="n1"),
                    UnknownPart(raw, source="future"),
                ]
            ),
            AssistantMessage(
                [ReasoningPart("r1"), ReasoningPart(g, g), RefusalPart("f1")],
                tool_calls=[attrs.evolve(call, name="n1")],
                response=meta,
            ),
            ToolMessage("c1", tool_call_id=g, tool_name="n1", is_error=True),
            UnknownMessage({"role": g}, source=g, name="n1"),
        ) == template.format({"x": 1})

    @every_syntax
    @given(messages=st.lists(our.messages(), max_size=3), x=our.texts())
    def test_never_changes_the_template(self, syntax, messages, x):
        """Whatever comes of it, a template is what it was; so are the messages."""
        template = Template(*messages, Placeholder("h", optional=True), syntax=syntax)
        before = pickle.dumps(template)
        first = copy.deepcopy(template)

        for variables in ({"x": x}, {}, {"h": messages}, {"h": 1}):
            try:
                made = template.format(variables)
            except (TemplateError, InvalidMessageError, InvalidPartError):
                continue
            for old, new in zip(messages, made, strict=False):
                assert type(old) is type(new)
                assert old is not new

        assert first == template
        assert hash(first) == hash(template)
        assert pickle.loads(before) == template

    @every_syntax
    def test_what_a_message_can_not_be(self, syntax):
        """
        A message that becomes invalid is its own error, with a note that names the
        template.
        """
        template = Template(UserMessage([ImagePart(url=gap(syntax))]), syntax=syntax)

        with pytest.raises(InvalidPartError, match="url is empty") as caught:
            template.format({"x": ""})

        (note,) = caught.value.__notes__
        assert note.startswith(
            "made of the template UserMessage(content=(ImagePart(url="
        )


class TestPlaceholder:
    """Messages from elsewhere."""

    HISTORY = (UserMessage("{x} {{ x }} {{.x}}"), AssistantMessage("}"))

    @every_syntax
    @pytest.mark.parametrize(
        "given_as",
        [
            list,
            tuple,
            lambda messages: Aggregator.new(messages=messages),
            lambda messages: Aggregator.new(messages=messages).messages,
            lambda messages: Aggregator.new(messages=messages).messages[:],
        ],
        ids=["list", "tuple", "aggregator", "view", "part of a view"],
    )
    def test_gives_the_messages_as_they_are(self, syntax, given_as):
        """The very messages, braces and all, from any sequence of them."""
        template = Template(SystemMessage(gap(syntax)), Placeholder("h"), syntax=syntax)

        system, *history = template.format({"x": 1, "h": given_as(self.HISTORY)})

        assert SystemMessage("1") == system
        assert [id(message) for message in self.HISTORY] == [*map(id, history)]

    @pytest.mark.parametrize("variables", [{}, {"h": None}, {"h": []}, {"h": ()}])
    def test_optional_may_be_nothing(self, variables):
        """Missing, None and empty all give nothing."""
        assert () == Template(Placeholder("h", optional=True)).format(variables)

    @every_syntax
    def test_missing(self, syntax):
        """One that is needed and missing is named, in every syntax."""
        with pytest.raises(MissingVariableError) as caught:
            Template(Placeholder("h"), syntax=syntax).format({"x": 1})

        assert "h" == caught.value.variable
        assert "Placeholder" in caught.value.template

    @pytest.mark.parametrize("optional", [False, True])
    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            (UserMessage("a"), "is a UserMessage; expected a sequence"),
            ("text", "is a str; expected a sequence of messages"),
            ({UserMessage("a")}, "is a set"),
            (iter([UserMessage("a")]), "is a list_iterator"),
            ([UserMessage("a"), "b"], r"h\[1\] is a str; expected a message"),
        ],
    )
    def test_takes_messages_only(self, optional, wrong, why):
        """Anything else is refused, optional or not."""
        with pytest.raises(TemplateError, match=why):
            Template(Placeholder("h", optional)).format({"h": wrong})

    @pytest.mark.parametrize("key", ["", None, 1, "\ud800"])
    def test_takes_a_name_and_a_flag(self, key):
        """A key is a text and not empty; optional is neither a number nor a text."""
        with pytest.raises(InvalidMessageError, match=r"Placeholder\.key"):
            Placeholder(key)
        with pytest.raises(InvalidMessageError, match=r"Placeholder\.optional"):
            Placeholder("h", optional="yes")  # type: ignore[arg-type]


class TestTemplate:
    """A template is a value."""

    def test_repr(self):
        """The repr is the call that makes it."""
        template = Template(UserMessage("a"), Placeholder("h"), syntax="go")

        expected = (
            "Template(UserMessage(content='a'), "
            "Placeholder(key='h', optional=False), syntax='go')"
        )
        assert expected == repr(template)
        assert template == eval(repr(template))

    @pytest.mark.parametrize("wrong", ["hi", None, [UserMessage("a")], TextPart("a")])
    def test_holds_messages_and_placeholders(self, wrong):
        """Anything else is refused by its position."""
        with pytest.raises(InvalidMessageError, match="item 1 of the template is"):
            Template(UserMessage("a"), wrong)


class TestLaws:
    """What is true of all texts and values."""

    @every_syntax
    @given(text=our.texts(), value=our.texts())
    def test_text_and_value_stay_apart(self, syntax, text, value):
        """What is escaped comes out as it was, and the value behind it."""
        if syntax == "jinja2":  # which makes all ends of lines alike
            text = text.replace("\r", "")

        template = escaped(text, syntax) + gap(syntax)

        assert text + value == render(template, {"x": value}, syntax=syntax)

    @every_syntax
    @given(
        value=st.lists(
            st.sampled_from(
                ["{", "}", "{{", "}}", "{%", "%}", "{#", "#}", "x", ".x", "%s", "\r\n"]
            )
        ).map("".join)
    )
    def test_values_are_never_templates(self, syntax, value):
        """Syntax in a value comes out as it is."""
        text = f"[{gap(syntax)}|{gap(syntax, 'y')}]"

        made = render(text, {"x": value, "y": value}, syntax=syntax)

        assert f"[{value}|{value}]" == made

    @every_syntax
    @given(value=our.json_values())
    def test_json_values_can_be_written(self, syntax, value):
        """Whatever JSON can hold is written, twice the same."""
        once = render(gap(syntax), {"x": value}, syntax=syntax)

        assert once + once == render(gap(syntax) * 2, {"x": value}, syntax=syntax)

    PIECES: ClassVar[dict[str, str]] = {
        "fstring": ("{ } [ ] {{ }} x m a 0 ! : . r > 9 99999 , _ %"),
        "jinja2": (
            "{{ }} {% %} {# #} - + * ** % / ~ | ( ) [ ] { } . , : = == ' \" x m l a "
            "1 99 if else elif endif for in endfor recursive loop set endset macro "
            "endmacro call endcall caller filter endfilter with endwith raw endraw "
            "not and is defined upper default map join length range namespace "
            "include self __class__ items get format attr true none"
        ),
        "go": (
            "{{ }} {{- -}} /* */ . $ := = | ( ) , \" ` ' x m l .x .m .l .a $x 1 99 "
            "1.5 nil true if else end range with define template block break "
            "continue and or not len index slice print printf html js eq lt call "
            '"a" "%d" "%999d"'
        ),
    }

    @every_syntax
    @given(data=st.data())
    def test_any_text_renders_or_is_refused(self, syntax, data):
        """
        Any combination of a syntax's own tokens ends, in text or TemplateError; in an
        expression, too.
        """
        tokens = self.PIECES[syntax].split()
        if data.draw(st.booleans()):
            pieces = st.sampled_from([*tokens, " ", "\n"])
            text = "".join(data.draw(st.lists(pieces, max_size=25)))
        else:
            pieces = st.sampled_from([*tokens[4:], " ", " "])
            inner = "".join(data.draw(st.lists(pieces, max_size=8)))
            text = GAP[syntax].replace(".", "") % inner

        variables = {"x": "v", "m": {"a": [1]}, "l": [1, "a"], "a": None}
        try:
            made = render(text, variables, syntax=syntax)
        except TemplateError as error:
            made = str(error)

        assert isinstance(made, str)
