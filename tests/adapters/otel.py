"""
What the GenAI semantic conventions say an attribute may be, as JSON Schemas.

Stricter than theirs, which take any object with a type for a part: here a part
of a known type has just what they say of it.
"""

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

TEXT = {"type": "string"}
ANYTHING: dict[str, object] = {}
MODALITY = {"enum": ["image", "video", "audio", "document"]}


def part(kind, required, **optional):
    """A part of a *kind*."""
    properties = {"type": {"const": kind}, **required, **optional}
    return {
        "type": "object",
        "properties": properties,
        "required": ["type", *required],
        "additionalProperties": False,
    }


def medium(kind, where):
    """A part that holds media, or the url in *where*."""
    return part(kind, {"modality": MODALITY, where: TEXT}, mime_type=TEXT)


KNOWN = {
    "text": part("text", {"content": TEXT}),
    "reasoning": part("reasoning", {"content": TEXT}),
    "tool_call": part("tool_call", {"name": TEXT}, id=TEXT, arguments=ANYTHING),
    "tool_call_response": part("tool_call_response", {"response": ANYTHING}, id=TEXT),
    "blob": medium("blob", "content"),
    "uri": medium("uri", "uri"),
    "file": medium("file", "file_id"),
}
GENERIC = {
    "type": "object",
    "properties": {"type": {"type": "string", "not": {"enum": [*KNOWN]}}},
    "required": ["type"],
}
PART = {"oneOf": [*KNOWN.values(), GENERIC]}


def messages(**more):
    """A list of messages, with what *more* they may have."""
    return {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "role": TEXT,
                "parts": {"type": "array", "items": PART},
                "name": TEXT,
                **more,
            },
            "required": ["role", "parts"],
            "additionalProperties": False,
        },
    }


PAYLOAD = Draft202012Validator(
    {
        "type": "object",
        "properties": {
            "gen_ai.system_instructions": {
                "type": "array",
                "items": {"oneOf": [KNOWN["text"], GENERIC]},
            },
            "gen_ai.input.messages": messages(),
            "gen_ai.output.messages": messages(finish_reason=TEXT),
            "gen_ai.response.finish_reasons": {"type": "array", "items": TEXT},
        },
        "additionalProperties": False,
    }
)
