"""
A model with prepared answers, for runs without any network, and short ways to write
them.
"""

import json

from agents import ModelResponse, Usage
from agents.models.interface import Model
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseUsage,
)
from openai.types.responses.response_usage import (
    InputTokensDetails,
    OutputTokensDetails,
)


def says(text, number=1):
    block = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id=f"msg_{number}",
        type="message",
        role="assistant",
        status="completed",
        content=[block],
    )


def calls(name, call_id="c1", **arguments):
    return ResponseFunctionToolCall(
        id=f"fc_{call_id}",
        call_id=call_id,
        name=name,
        arguments=json.dumps(arguments),
        type="function_call",
        status="completed",
    )


def thinks(number=1):
    return ResponseReasoningItem(
        id=f"rs_{number}",
        type="reasoning",
        summary=[],
        encrypted_content=f"AAAA{number}",
    )


class Scripted(Model):
    """Gives each of *answers* once, and keeps the requests."""

    def __init__(self, *answers, named=True):
        self._answers = list(answers)
        self._named = named
        self.asked = []

    def _take_answer(self, asked):
        self.asked.append(asked)
        number = len(self.asked)
        return self._answers.pop(0), f"resp_{id(self)}_{number}"

    async def get_response(self, system_instructions, input, *args, **kwargs):  # noqa: A002 - the SDK's word
        output, name = self._take_answer(input)
        usage = Usage(requests=1, input_tokens=100, output_tokens=10, total_tokens=110)
        return ModelResponse(
            output=output, usage=usage, response_id=name if self._named else None
        )

    async def stream_response(self, system_instructions, input, *args, **kwargs):  # noqa: A002 - the SDK's word
        output, name = self._take_answer(input)
        usage = ResponseUsage(
            input_tokens=100,
            output_tokens=10,
            total_tokens=110,
            input_tokens_details=InputTokensDetails.model_validate(
                {"cached_tokens": 64, "cache_write_tokens": 8}
            ),
            output_tokens_details=OutputTokensDetails(reasoning_tokens=5),
        )
        response = Response(
            id=name if self._named else "__fake_id__",
            created_at=0,
            model="scripted",
            object="response",
            output=output,
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
            usage=usage,
        )
        yield ResponseCompletedEvent(
            type="response.completed", sequence_number=0, response=response
        )
