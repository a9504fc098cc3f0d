"""
The limits of rendering, each up to its last step.
"""

from typing import Any

import pytest

from conversation_state.templates._values import (
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
