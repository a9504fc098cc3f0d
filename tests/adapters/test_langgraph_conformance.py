"""
LangGraph's own suite for checkpointers, in full.
"""

import asyncio

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES

from conversation_state.adapters.langgraph import ConversationStateSaver
from tests.adapters.langgraph import opened, urls


@pytest.mark.parametrize("kind", urls())
def test_conformance(kind, tmp_path):
    """
    Every capability is there and passes, the optional ones as well; none of
    their tests is left out, and the store is whole after each.
    """
    damages: list[object] = []

    @checkpointer_test(name=f"ours on {kind}")
    async def ours():
        with opened(kind, tmp_path / str(len(damages))) as (store, _):
            yield ConversationStateSaver(store)
            damages.append(store.verify())

    for at in range(len(ALL_CAPABILITIES)):
        (tmp_path / str(at)).mkdir()

    report = asyncio.run(validate(ours))

    assert {each.value for each in ALL_CAPABILITIES} == {*report.results}
    for result in report.results.values():
        assert [] == result.failures
        assert (True, True, 0, 0) == (
            *(result.detected, result.passed),
            *(result.tests_failed, result.tests_skipped),
        )
        assert result.tests_passed

    assert "FULL" == report.conformance_level()
    assert [()] * len(ALL_CAPABILITIES) == damages
