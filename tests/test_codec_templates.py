"""
Templates on the wire.
"""

import pytest
from hypothesis import given

from conversation_state.codec import decode, encode, from_data, to_data
from conversation_state.errors import DecodeError
from conversation_state.messages import UserMessage
from conversation_state.templates import Placeholder, Template
from conversation_state.testing.strategies import templates


def document(**fields):
    """
    A template's document with *fields*.
    """
    head = {"format": "conversation_state", "version": 1, "kind": "template"}
    return {**head, "template": fields}


class TestTemplates:
    @given(templates())
    def test_come_back(self, template):
        """
        As they were, whatever their messages contain and in whatever syntax.
        """
        assert template == decode(encode(template))
        assert template == from_data(to_data(template))

    def test_are_written_shortly(self):
        """
        Default values are left out.
        """
        template = Template(UserMessage("{x}"), Placeholder("said"))

        assert (
            document(
                items=[
                    {"message": {"role": "user", "content": "{x}"}},
                    {"placeholder": "said"},
                ]
            )
        ) == to_data(template)

    def test_of_nothing(self):
        """
        No items are not items.
        """
        assert Template() == from_data(document(items=[]))

    @pytest.mark.parametrize(
        ("fields", "path"),
        [
            ({}, "$.template.items"),
            ({"items": {}}, "$.template.items"),
            ({"items": [5]}, "$.template.items[0]"),
            ({"items": [{}]}, "$.template.items[0].message"),
            ({"items": [{"message": {}}]}, "$.template.items[0].message.role"),
            ({"items": [{"placeholder": 5}]}, "$.template.items[0].placeholder"),
            ({"items": [{"placeholder": ""}]}, "$.template.items[0]"),
            (
                {"items": [{"placeholder": "a", "optional": 1}]},
                "$.template.items[0].optional",
            ),
            ({"items": [{"placeholder": "a", "more": 1}]}, "$.template.items[0].more"),
            ({"items": [], "syntax": "perl"}, "$.template"),
            ({"items": [], "syntax": None}, "$.template.syntax"),
            ({"items": [], "more": 1}, "$.template.more"),
        ],
    )
    def test_refused(self, fields, path):
        """
        An invalid template is reported with its path.
        """
        with pytest.raises(DecodeError) as caught:
            from_data(document(**fields))

        assert [path] == [problem.path for problem in caught.value.problems]

    def test_all_at_once(self):
        """
        Every problem of every item.
        """
        with pytest.raises(DecodeError) as caught:
            from_data(document(items=[{"message": 5}, {"placeholder": 5}], syntax=5))

        assert 3 == len(caught.value.problems)
