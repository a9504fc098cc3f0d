"""What Google's Gemini API, and Vertex AI on its wire, ask of a request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from conversation_state.testing.provider._reading import (
    Check,
    Faults,
    Finding,
    empty,
    find_inner_schemas,
    noted,
    objects_of,
    wrong,
    wrong_request,
)
from conversation_state.testing.provider._rules import (
    REFERENCE,
    ProviderRule,
    make_rule,
)

Part = Mapping[str, Any]

# What a part holds one of; keys in camel case, as the server writes them.
_DATA = frozenset((
    "text", "inlineData", "fileData", "functionCall", "functionResponse",
    "executableCode", "codeExecutionResult", "toolCall", "toolResponse",
))  # fmt: skip
_ABOUT = frozenset(
    ["thought", "thoughtSignature", "videoMetadata", "partMetadata", "mediaResolution"]
)
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}\Z")
_SCHEMA_KEYS_REFUSED = frozenset((
    "$schema", "$id", "$comment", "patternProperties", "unevaluatedProperties",
    "dependentRequired", "dependentSchemas", "contains", "if", "then", "else",
    "not", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems",
    "allOf", "oneOf", "const",
))  # fmt: skip
_IMAGES = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")


def camel(key: str) -> str:
    """*key* as the server writes it; both spellings are taken."""
    if "_" not in key:
        return key

    head, *rest = key.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _by_camel(value: Mapping[str, Any]) -> Mapping[str, Any]:
    if any("_" in key for key in value):
        return {camel(str(key)): each for key, each in value.items()}

    return value


class GeminiRequest:
    """A request of ``generateContent``, read once for all checks."""

    def __init__(self, body: Mapping[str, Any], memory: Any, *, whole: bool) -> None:
        self.body = body
        self.memory = memory
        self.faults = Faults()  # what is not of the form
        # Role and parts of each content; a content without a role is a user's.
        self.turns: list[tuple[str, list[Part]]] = []
        self.calls: list[int] = []  # the number of calls in each turn
        self.responses: list[int] = []  # the number of responses in each turn
        self.whole = whole
        contents = body.get("contents")
        if isinstance(contents, Mapping):
            contents = [contents]

        if not isinstance(contents, list | tuple) or not contents:
            self.faults.note("no_contents", "contents")
        else:
            for at, content in enumerate(contents):
                self._read_content(f"contents[{at}]", content)

        self.system: list[Part] = []
        system = body.get("systemInstruction", body.get("system_instruction"))
        if isinstance(system, Mapping):
            self.system = self._read_parts(
                "system_instruction", system.get("parts") or ()
            )

    def _read_content(self, path: str, content: Any) -> None:
        if not isinstance(content, Mapping):
            self.faults.note("value", path, found=content)
            return

        for key in content:
            if key not in ("role", "parts"):
                self.faults.note("unknown", path, key=key)

        role = content.get("role") or "user"
        if role not in ("user", "model", "function"):
            self.faults.note("role", f"{path}.role")

        parts = content.get("parts")
        if isinstance(parts, Mapping):
            parts = [parts]

        if not isinstance(parts, list | tuple) or not parts:
            self.faults.note("no_parts", f"{path}.parts")
            return

        read = self._read_parts(path, parts)
        self.turns.append(("model" if role == "model" else "user", read))
        self.calls.append(sum("functionCall" in part for part in read))
        self.responses.append(sum("functionResponse" in part for part in read))

    def _read_parts(self, path: str, parts: Any) -> list[Part]:
        read: list[Part] = []
        for at, part in enumerate(parts):
            where = f"{path}.parts[{at}]"
            if not isinstance(part, Mapping):
                self.faults.note("value", where, found=part)
                continue

            # A null is no value (https://protobuf.dev/programming-guides/json/).
            given = {key: each for key, each in part.items() if each is not None}
            known = _by_camel(given)
            held = _DATA.intersection(known)
            if not held:
                self.faults.note("no_data", where)
            elif len(held) > 1:
                first, second = sorted(held)[:2]
                self.faults.note("two_data", where, first=first, second=second)

            if len(known) > len(held):
                for key in known:
                    if key not in _DATA and key not in _ABOUT:
                        self.faults.note("unknown", where, key=key)

            self._read_data(where, known)
            read.append(known)

        return read

    def _read_data(self, path: str, part: Part) -> None:
        if "text" in part and not isinstance(part["text"], str):
            self.faults.note("value", f"{path}.text", found=part["text"])

        for key, inner in (("functionCall", "args"), ("functionResponse", "response")):
            if key not in part:
                continue

            data = part[key]
            if not isinstance(data, Mapping):
                self.faults.note("value", f"{path}.{key}", found=data)
                continue

            if not isinstance(data.get("name"), str):
                self.faults.note("no_name", f"{path}.{key}.name")

            if not isinstance(data.get("id"), str | None):
                self.faults.note("value", f"{path}.{key}.id", found=data["id"])

            value = data.get(inner)
            if value is not None and not isinstance(value, Mapping):
                self.faults.note("struct", f"{path}.{key}.{inner}", found=value)

        blob = part.get("inlineData")
        if blob is not None and not isinstance(blob, Mapping):
            self.faults.note("value", f"{path}.inline_data", found=blob)


def _iterate_parts(request: GeminiRequest) -> Iterator[tuple[str, Part]]:
    for at, (_, parts) in enumerate(request.turns):
        for part_at, part in enumerate(parts):
            yield f"contents[{at}].parts[{part_at}]", part


def find_calls_out_of_turn(request: GeminiRequest) -> Iterator[Finding]:
    """Calls that do not come directly after a user's turn or after responses."""
    for at, (role, _) in enumerate(request.turns):
        if request.calls[at] and (
            role != "model" or not at or request.turns[at - 1][0] != "user"
        ):
            yield f"contents[{at}]", {}


def find_responses_out_of_turn(request: GeminiRequest) -> Iterator[Finding]:
    """Responses that do not come directly after calls."""
    for at, (role, _) in enumerate(request.turns):
        if request.responses[at] and (
            role != "user" or not at or not request.calls[at - 1]
        ):
            yield f"contents[{at}]", {}


def find_unequal_numbers(request: GeminiRequest) -> Iterator[Finding]:
    """Calls whose next turn has another number of responses."""
    for at in range(len(request.turns)):
        if request.calls[at]:
            following = at + 1
            count = (
                request.responses[following] if following < len(request.turns) else 0
            )
            if count != request.calls[at]:
                yield f"contents[{at}]", {}


def find_responses_beside_others(request: GeminiRequest) -> Iterator[Finding]:
    """Responses in a turn with other parts: texts, or media."""
    for at, (_, parts) in enumerate(request.turns):
        if 0 < request.responses[at] < len(parts):
            yield f"contents[{at}]", {}


def find_model_last(request: GeminiRequest) -> Iterator[Finding]:
    """A model's turn at the end."""
    if request.turns[-1][0] == "model":
        yield f"contents[{len(request.turns) - 1}]", {}


def find_empty_texts(request: GeminiRequest) -> Iterator[Finding]:
    """Texts without a character, and without a signature, which a stream ends in."""
    for path, part in _iterate_parts(request):
        if part.get("text") == "" and not part.get("thoughtSignature"):
            yield f"{path}.text", {}

    for at, part in enumerate(request.system):
        if part.get("text") == "":
            yield f"system_instruction.parts[{at}].text", {}


_WORDS = {"functionCall": "function_call", "functionResponse": "function_response"}


def _iterate_functions(request: GeminiRequest) -> Iterator[tuple[str, str]]:
    for path, part in _iterate_parts(request):
        for key, words in _WORDS.items():
            if key in part:
                yield f"{path}.{words}.name", part[key]["name"]


def _iterate_declarations(
    request: GeminiRequest,
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    tools = request.body.get("tools")
    if isinstance(tools, Mapping):
        tools = [tools]

    for at, tool in objects_of(tools):
        for on, function in objects_of(_by_camel(tool).get("functionDeclarations")):
            path = f"tools[{at}].function_declarations[{on}]"
            yield path, _by_camel(function)


def _declared_names(request: GeminiRequest) -> Iterator[tuple[str, str]]:
    for path, function in _iterate_declarations(request):
        yield f"{path}.name", str(function.get("name"))


def other_than_called(key: str) -> Check:
    """A check for responses whose *key* is that of none of the calls."""

    def find_others(request: GeminiRequest) -> Iterator[Finding]:
        for at in range(1, len(request.turns)):
            if request.responses[at] and request.calls[at - 1]:
                before = request.turns[at - 1][1]
                called = {part.get("functionCall", {}).get(key) for part in before}
                for part_at, part in enumerate(request.turns[at][1]):
                    found = part.get("functionResponse", {}).get(key)
                    if found is not None and found not in called:
                        yield f"contents[{at}].parts[{part_at}]", {key: found}

    return find_others


def find_ids(request: GeminiRequest) -> Iterator[Finding]:
    """Ids of calls and results."""
    for path, part in _iterate_parts(request):
        for key, words in _WORDS.items():
            if part.get(key, {}).get("id") is not None:
                yield f"{path}.{words}", {"path": f"{path}.{words}"}


def find_ids_twice(request: GeminiRequest) -> Iterator[Finding]:
    """Ids that two calls of the request have."""
    seen: set[str] = set()
    for path, part in _iterate_parts(request):
        id_ = part["functionCall"].get("id") if "functionCall" in part else None
        if id_:
            if id_ in seen:
                yield path, {"id": id_}

            seen.add(id_)


def find_missing_signatures(request: GeminiRequest) -> Iterator[Finding]:
    """
    The first call of each step since the user's newest words, without its signature,
    where the model is a Gemini 3.
    """
    if "gemini-3" not in str(request.body.get("model", "")):
        return

    begin = 0
    for at, (role, parts) in enumerate(request.turns):
        if role == "user" and any("text" in part for part in parts):
            begin = at

    for at in range(begin, len(request.turns)):
        if request.calls[at]:
            part_at, part = next(
                (part_at, part)
                for part_at, part in enumerate(request.turns[at][1])
                if "functionCall" in part
            )
            if not part.get("thoughtSignature"):
                values = {"name": part["functionCall"]["name"], "at": at + 1}
                yield f"contents[{at}].parts[{part_at}]", values


def find_foreign_signatures(request: GeminiRequest) -> Iterator[Finding]:
    """Signatures that are empty, or not of this provider once it gave some."""
    for path, part in _iterate_parts(request):
        if part.get("thoughtSignature") == "":
            yield path, {}

    if request.memory is None or not request.memory.signatures:
        return

    known = request.memory.signatures.union(_SKIPPED)
    for path, part in _iterate_parts(request):
        signature = part.get("thoughtSignature")
        if signature and signature not in known:
            yield path, {}


# What Google's guide says to send for calls that it did not sign.
_SKIPPED = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")


def _media_types(request: GeminiRequest) -> Iterator[tuple[str, Any]]:
    for path, part in _iterate_parts(request):
        if "inlineData" in part:
            media_type = _by_camel(part["inlineData"]).get("mimeType")
            yield f"{path}.inline_data.mime_type", media_type


_ODD_FILES = ("application/msword", "application/octet-stream", "application/vnd.")


def _is_odd_format(media_type: Any) -> bool:
    kind = str(media_type)
    is_odd = kind[:6] == "image/" and kind not in _IMAGES
    return is_odd or kind.startswith(_ODD_FILES)


def _list_schemas(request: GeminiRequest) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path, function in _iterate_declarations(request):
        for keys, schema in find_inner_schemas(function.get("parameters")):
            # A name is in brackets: parameters.properties[tags].items
            inner, is_name = "", False
            for key in keys:
                inner += f"[{key}]" if is_name else f".{key}"
                is_name = key == "properties" and not is_name

            yield f"{path}.parameters{inner}", schema


def find_odd_schema_keys(request: GeminiRequest) -> Iterator[Finding]:
    """
    Keys of JSON Schema, in the parameters of a function, that Gemini's subset lacks.
    """
    for path, schema in _list_schemas(request):
        for key in schema:
            if key in _SCHEMA_KEYS_REFUSED:
                yield path, {"path": path, "key": key}


def _type_of(schema: Mapping[str, Any]) -> str:
    return str(schema.get("type", "")).upper()


def wrong_schema(key: str, is_wrong: Callable[[Any], object]) -> Check:
    """A check for schemas whose *key* is wrong."""

    def find_schemas(request: GeminiRequest) -> Iterator[tuple[str, Any]]:
        for path, schema in _list_schemas(request):
            yield f"{path}.{key}", schema

    return wrong(find_schemas, is_wrong)


def wrong_listed(key: str, is_wrong: Callable[[Any], object]) -> Check:
    """A check for what a schema lists under *key*, each with its schema."""

    def find_listed(request: GeminiRequest) -> Iterator[tuple[str, Any]]:
        for path, schema in _list_schemas(request):
            listed = schema.get(key)
            for at, each in enumerate(listed if isinstance(listed, list) else ()):
                yield f"{path}.{key}[{at}]", (each, schema)

    return wrong(find_listed, is_wrong)


def find_json_beside_functions(request: GeminiRequest) -> Iterator[Finding]:
    """An answer in JSON beside functions, of a model before Gemini 3."""
    body = _by_camel(request.body)
    config = body.get("generationConfig")
    if (
        re.search(r"gemini-[12]\b", str(body.get("model")))
        and isinstance(config, Mapping)
        and _by_camel(config).get("responseMimeType") == "application/json"
        and any(_iterate_declarations(request))
    ):
        yield "generation_config.response_mime_type", {}


_ISSUES = "https://github.com/"
_REFERENCE = "https://ai.google.dev/api/generate-content"
_SIGNATURES = "https://ai.google.dev/gemini-api/docs/thought-signatures"


_rule = partial(make_rule, "gemini")
_UNKNOWN_NAME = (
    "Invalid JSON payload received. Unknown name \"{key}\" at '{path}': Cannot find "
    "field."
)
_EMPTY_NAME = "* GenerateContentRequest.{path}: Name cannot be empty.\n"
_ODD_NAME = (
    "* GenerateContentRequest.{path}: Invalid function name. Must start with a letter "
    "or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), "
    "colons (:), or dashes (-), with a maximum length of 64.\n"
)

GEMINI_RULES: tuple[ProviderRule, ...] = (
    # The form.
    _rule(
        "no_contents",
        noted("no_contents"),
        "* GenerateContentRequest.contents: contents is not specified\n",
        _REFERENCE,
    ),
    _rule(
        "no_parts",
        noted("no_parts"),
        "* GenerateContentRequest.{path}: contents.parts must not be empty.\n",
        _REFERENCE,
    ),
    _rule(
        "no_data",
        noted("no_data"),
        "* GenerateContentRequest.{path}.data: required oneof field 'data' must have "
        "one initialized field\n",
        _ISSUES + "genkit-ai/genkit/issues/3816",
    ),
    _rule(
        "two_data",
        noted("two_data"),
        "Invalid value at '{path}' (oneof), oneof field 'data' is already set. Cannot "
        "set '{second}'",
        _REFERENCE,
    ),
    _rule("role", noted("role"), "Please use a valid role: user, model.", _REFERENCE),
    _rule("unknown_key", noted("unknown"), _UNKNOWN_NAME, _REFERENCE),
    _rule("type", noted("value"), "Invalid value at '{path}', {found!r}", _REFERENCE),
    _rule(
        "struct",
        noted("struct"),
        "Invalid value at '{path}' (type.googleapis.com/google.protobuf.Struct), "
        "{found!r}",
        _REFERENCE,
    ),
    _rule("no_name", noted("no_name"), _EMPTY_NAME, _REFERENCE),
    # Turns.
    _rule(
        "call_out_of_turn",
        find_calls_out_of_turn,
        "Please ensure that function call turn comes immediately after a user turn or "
        "after a function response turn.",
        _ISSUES + "google-gemini/gemini-cli/issues/26486",
    ),
    _rule(
        "result_without_call",
        find_responses_out_of_turn,
        "Please ensure that function response turn comes immediately after a function "
        "call turn.",
        _ISSUES + "langchain-ai/langchain/issues/27799",
    ),
    _rule(
        "call_without_result",
        find_unequal_numbers,
        "Please ensure that the number of function response parts is equal to the "
        "number of function call parts of the function call turn.",
        _ISSUES + "google-gemini/gemini-cli/issues/16984",
    ),
    _rule(
        "result_beside_others",
        find_responses_beside_others,
        "Requests ending with a model turn are not supported.",
        _ISSUES + "Prism-Shadow/agenthub/pull/189",
        by=("vertex",),
    ),
    _rule(
        "model_first",
        wrong_request("contents[0]", lambda request: request.turns[0][0] == "model"),
        "Please ensure that multiturn requests start with a user turn.",
        _REFERENCE,
        by=("vertex", REFERENCE),
    ),
    _rule(
        "model_last",
        find_model_last,
        "Please ensure that multiturn requests ends with a user role or a function "
        "response.",
        _ISSUES + "crewAIInc/crewAI/pull/6973",
        by=("vertex",),
    ),
    # Empty content.
    _rule(
        "empty_text",
        find_empty_texts,
        "Unable to submit request because it has an empty text parameter. Add a value "
        "to the parameter and try again. Learn more: https://cloud.google.com/"
        "vertex-ai/generative-ai/docs/model-reference/gemini",
        _ISSUES + "FoundationAgents/OpenManus/pull/876",
        by=("vertex",),
    ),
    # Names and ids.
    _rule("name_empty", empty(_iterate_functions), _EMPTY_NAME, _REFERENCE),
    _rule(
        "name_characters",
        wrong(_declared_names, lambda name: not _NAME.match(name)),
        _ODD_NAME,
        _ISSUES + "google-gemini/gemini-cli/issues/9535",
    ),
    _rule(
        "name_of_call",
        wrong(_iterate_functions, lambda name: name and not _NAME.match(name)),
        _ODD_NAME,
        _REFERENCE,
        by=(REFERENCE,),
    ),
    _rule(
        "name_of_other_call",
        other_than_called("name"),
        "Please ensure that function response parts have the names of their function "
        "calls.",
        _REFERENCE,
        by=(REFERENCE,),
    ),
    _rule(
        "id_of_other_call",
        other_than_called("id"),
        "No function call has the id {id} of this function response.",
        _REFERENCE,
        by=(REFERENCE,),
    ),
    _rule(
        "id",
        find_ids,
        "Invalid JSON payload received. Unknown name \"id\" at '{path}': Cannot find "
        "field.",
        _ISSUES + "vercel/ai/issues/15664",
        by=("vertex",),
        dialect=True,
    ),
    _rule(
        "id_twice",
        find_ids_twice,
        "Two function calls have the id {id}.",
        _REFERENCE,
        by=(REFERENCE,),
    ),
    # Signatures.
    _rule(
        "signature_missing",
        find_missing_signatures,
        "Function call is missing a thought_signature in functionCall parts. This is "
        "required for tools to work correctly, and missing thought_signature may lead "
        "to degraded model performance. Additional data, function call "
        "`default_api:{name}` , position {at}. Please refer to "
        "https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
        _ISSUES + "lbjlaq/Antigravity-Manager/issues/733",
    ),
    _rule(
        "signature_foreign",
        find_foreign_signatures,
        "Corrupted thought signature.",
        _SIGNATURES,
    ),
    # Media and tools.
    _rule(
        "media_without_type",
        empty(_media_types),
        "* GenerateContentRequest.{path}: must not be empty.\n",
        _REFERENCE,
    ),
    _rule(
        "media_format",
        wrong(_media_types, _is_odd_format),
        "Unsupported MIME type: {found}",
        _ISSUES + "google/adk-python/issues/5693",
    ),
    _rule("schema_key", find_odd_schema_keys, _UNKNOWN_NAME, _REFERENCE),
    _rule(
        "schema_items",
        wrong_schema(
            "items",
            lambda schema: _type_of(schema) == "ARRAY" and "items" not in schema,
        ),
        "* GenerateContentRequest.{path}: missing field.\n",
        _ISSUES + "cline/cline/issues/7339",
    ),
    _rule(
        "schema_required",
        wrong_listed(
            "required", lambda found: found[0] not in (found[1].get("properties") or {})
        ),
        "* GenerateContentRequest.{path}: property is not defined\n",
        _ISSUES + "probelabs/probe/issues/569",
    ),
    _rule(
        "schema_properties",
        wrong_schema(
            "properties",
            lambda schema: (
                _type_of(schema) not in ("OBJECT", "") and schema.get("properties")
            ),
        ),
        "* GenerateContentRequest.{path}: only allowed for OBJECT type\n",
        _ISSUES + "anomalyco/opencode/pull/11888",
    ),
    _rule(
        "schema_enum",
        wrong_listed("enum", lambda found: found[0] == ""),
        "* GenerateContentRequest.{path}: cannot be empty\n",
        _ISSUES + "Bobsilvio/ha-claude/pull/32",
    ),
    _rule(
        "json_beside_functions",
        find_json_beside_functions,
        "Function calling with a response mime type: 'application/json' is unsupported",
        _ISSUES + "symfony/ai/issues/803",
    ),
)
