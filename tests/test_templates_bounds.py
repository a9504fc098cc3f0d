"""
The limits of rendering, each up to its last step.
"""

from typing import Any

import pytest

from conversation_state import UserMessage
from conversation_state.errors import MissingVariableError, TemplateError
from conversation_state.templates import Template
from conversation_state.templates._bounds import (
    MAX_CHARACTERS,
    MAX_LEVELS,
    MAX_STEPS,
    MAX_WIDTH,
    Meter,
    Refused,
    check_width,
)


class TestMeter:
    def test_steps(self):
        """
        As many steps as there may be, and no more.
        """
        meter = Meter()
        meter.step(MAX_STEPS - 1)
        meter.step()

        with pytest.raises(Refused, match="200,000 steps"):
            meter.step()

    def test_characters(self):
        """
        As many written characters as there may be, and no more.
        """
        meter = Meter()
        meter.write(MAX_CHARACTERS)

        with pytest.raises(Refused, match="1,000,000 characters"):
            meter.write(1)

    def test_values(self):
        """
        A value in between may be as long as the result.
        """
        meter = Meter()
        meter.make(MAX_CHARACTERS)

        with pytest.raises(Refused, match="1,000,000 characters or items"):
            meter.make(MAX_CHARACTERS + 1)

    @pytest.mark.parametrize("number", [MAX_WIDTH, -MAX_WIDTH, 0])
    def test_width(self, number):
        """
        As wide as anything may be, and no wider.
        """
        check_width(number, "the width")
        if number:
            with pytest.raises(Refused, match="the width is over 10,000"):
                check_width(number + number // MAX_WIDTH, "the width")

    @pytest.mark.parametrize(
        ("value", "characters"),
        [
            ("", 0),
            ("abc", 3),
            (5, 32),
            (2**64, 4_000),
            (None, 32),
            (0.5, 32),
            ([], 2),
            (["abc"], 2 + 4 + 3),
            (("abc", 5), 2 + 4 + 3 + 32),
            ({"abc": []}, 2 + 4 + 3 + 2),
            ([2**64], 2 + 4_000),
            (range(5), 24 * 5),
        ],
    )
    def test_weight(self, value, characters):
        """
        What a value weighs: at least as much as its text has characters.
        """
        assert characters == Meter().measure(value)
        assert len(str(value)) <= characters + 2 * isinstance(value, range) * 10

    def test_levels(self):
        """
        A value may be as deep as metadata.
        """
        value: Any = 5
        for _ in range(MAX_LEVELS):
            value = [value]

        assert 2 * MAX_LEVELS + 32 == Meter().measure(value)
        with pytest.raises(Refused, match="100 levels deep"):
            Meter().measure([value])


class TestErrors:
    def test_no_path(self):
        """
        A missing item of a value without a name is called by its key alone.
        """
        with pytest.raises(MissingVariableError) as raised:
            Template(UserMessage("{{ {}['a'] }}"), syntax="jinja2").format({})

        assert "a" == raised.value.variable

    def test_only_the_beginning(self):
        """
        An error shows the beginning of a long template, on one line.
        """
        text = f"{' ' * 400}{{{{ a"

        with pytest.raises(TemplateError) as raised:
            Template(UserMessage(text), syntax="jinja2").format({"a": 1})

        assert "..." == raised.value.template
