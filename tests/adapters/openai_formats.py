"""Chat Completions and Responses, for tests of what they have in common."""

from types import ModuleType
from typing import Any

import attrs

from conversation_state.adapters import openai_chat, openai_responses
from tests.adapters import openai_chat as chat
from tests.adapters import openai_responses as responses


@attrs.frozen
class OpenAIFormat:
    """
    One of the two formats: its *adapter*, the *key* of the messages in a request, that
    of the content in a response, the type of a *block* of a user's text, and the path
    of *logprobs* in a response.
    """

    adapter: ModuleType
    key: str
    output: str
    block: str
    logprobs: str

    @property
    def name(self) -> str:
        return self.adapter.__name__.rpartition(".")[2]

    def respond(self, logprobs: Any) -> Any:
        """A response with a text and its *logprobs*."""
        if self.adapter is openai_responses:
            block = responses.text("a", logprobs=logprobs)
            return responses.response(responses.message(block))

        choice = {"message": chat.answer(content="a")}
        return {"choices": [{**choice, "logprobs": {"content": logprobs}}]}

    def messages_of(self, response: Any) -> Any:
        """What of a *response* can be sent back."""
        output = response[self.output]
        return output if self.output == "output" else [output[0]["message"]]


FORMATS = {
    "chat": OpenAIFormat(
        *(openai_chat, "messages", "choices", "text"), "$.choices[0].logprobs.content"
    ),
    "responses": OpenAIFormat(
        *(openai_responses, "input", "output", "input_text"),
        "$.output[0].content[0].logprobs",
    ),
}
