"""eino's messages: what all adapters promise, and what comes back of what."""

from typing import ClassVar

from conversation_state.adapters import eino
from conversation_state.adapters.eino import load_usage
from conversation_state.usage import Usage
from tests.adapters.contract import FormatContract
from tests.adapters.eino import (
    CONVERSATIONS,
    MESSAGES,
    one,
)
from tests.adapters.kept import normalise


def user(content="hi", **fields):
    """A user's message in JSON."""
    return {"role": "user", "content": content, **fields}


def answer(content="", **fields):
    """An assistant's message in JSON."""
    return {"role": "assistant", "content": content, **fields}


class TestContract(FormatContract):
    """What all adapters promise."""

    adapter: ClassVar = eino
    documents: ClassVar = CONVERSATIONS
    responses: ClassVar = MESSAGES

    def normalise(self, message):
        """More than other providers get: metadata are written here, too."""
        return normalise(message, "eino")


class TestUsage:
    def test_where_it_is(self):
        """A message has its usage, and so do its response and the usage in that."""
        usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
        expected = Usage(3, 1, 4)

        assert expected == load_usage(usage) == load_usage({"usage": usage})
        assert expected == load_usage(answer(response_meta={"usage": usage}))
        assert expected == one(answer(response_meta={"usage": usage})).response.usage
        assert load_usage(user()) is None
        assert load_usage(answer(response_meta={})) is None
        assert load_usage(None) is None
