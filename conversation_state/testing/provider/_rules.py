"""What a rule of a provider is, and which rules a level has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import attrs

API = "api"
REFERENCE = "reference"
STRICTEST = "strictest"

# What a check finds: the path in the request, and the values that the rule's text
# names. A check gets the request as its wire's reader left it.
Check = Callable[[Any], Iterable[tuple[str, Mapping[str, Any]]]]
Level = str | Iterable[str]


@attrs.frozen(kw_only=True)
class ProviderRule:
    """
    One thing that a provider asks of a request: a row of `RULES`.

    Attributes:
        name: Its name, unique in its wire; `judge(…, without=[name])` turns it off.
        wire: ``openai_chat``, ``openai_responses``, ``anthropic`` or ``gemini``.
        by: Who refuses a request that breaks it: ``api`` is the provider's own, every
            other name a host that speaks its wire; ``reference`` if only the
            reference asks for it.
        taken_by: Hosts of the wire that take what the provider's own API refuses.
        dialect: Whether it is asked for only where one of *by* is named, and not at
            level ``strictest``: what follows it is worse for all others.
        text: The provider's words, with the names of values in braces.
        param: What the provider's error calls the place; None where it says none.
        source: Where the words, or the rule, are to be found.
        status: The status of the answer.
        type: The error's type in the answer.
        code: The error's code in the answer.
    """

    name: str
    wire: str
    check: Check = attrs.field(repr=False)
    text: str
    source: str
    by: tuple[str, ...] = (API,)
    taken_by: tuple[str, ...] = ()
    dialect: bool = False
    param: str | None = None
    status: int = 400
    type: str = "invalid_request_error"
    code: str | None = None

    def find(self, request: Any) -> Iterator[Refusal]:
        """A refusal for each place of *request* that breaks the rule."""
        for path, values in self.check(request):
            yield Refusal(
                rule=self,
                path=path,
                message=self.text.format_map(values),
                param=None if self.param is None else self.param.format_map(values),
            )

    def holds_at(self, level: str) -> bool:
        """Whether the rule is one of *level*: a single name."""
        if level == STRICTEST:
            return not self.dialect

        if level in self.by:
            return True

        return level != API and API in self.by and level not in self.taken_by


@attrs.frozen(kw_only=True)
class Refusal:
    """
    Why a provider refuses a request.

    Attributes:
        rule: The rule that the request breaks.
        path: Where, as in ``messages[3].tool_calls[0].id``.
        message: The provider's words.
        param: The place, as the provider's error says it.
    """

    rule: ProviderRule
    path: str
    message: str
    param: str | None = None

    @property
    def status(self) -> int:
        """The status of the answer."""
        return self.rule.status

    @property
    def body(self) -> dict[str, Any]:
        """The answer's JSON, in the form of the provider that refuses."""
        error: dict[str, Any]
        if self.rule.wire == "anthropic":
            error = {"type": self.rule.type, "message": self.message}
            return {"type": "error", "error": error, "request_id": "req_strict"}

        if self.rule.wire == "gemini":
            status = "NOT_FOUND" if self.status == 404 else "INVALID_ARGUMENT"  # noqa: PLR2004 - HTTP's own
            error = {"code": self.status, "message": self.message, "status": status}
            return {"error": error}

        error = {
            "message": self.message,
            "type": self.rule.type,
            "param": self.param,
            "code": self.rule.code,
        }
        if self.rule.by == ("mistral",):
            return {"object": "error", **error}

        return {"error": error}

    def __str__(self) -> str:
        return f"{self.rule.name} @ {self.path}: {self.message}"


class ErrorWords(NamedTuple):
    """What a provider says of every value with one fault, and the code of that."""

    text: str
    code: str


def make_rule(
    wire: str, name: str, check: Check, said: str | ErrorWords, source: str, **more: Any
) -> ProviderRule:
    """A row of the table of *wire*; *said* are the provider's words."""
    if isinstance(said, ErrorWords):
        more = {"param": "{path}", "code": said.code, **more}
        said = said.text

    return ProviderRule(
        name=name, wire=wire, check=check, text=said, source=source, **more
    )


# OpenAI's own words, which both of its wires have.
MISSING = ErrorWords(
    "Missing required parameter: '{path}'.", "missing_required_parameter"
)
WRONG_TYPE = ErrorWords(
    "Invalid type for '{path}': expected {wanted}, but got {found} instead.",
    "invalid_type",
)
WRONG_VALUE = ErrorWords(
    "Invalid value: '{found}'. Supported values are: {wanted}.", "invalid_value"
)
EMPTY_ARRAY = ErrorWords(
    "Invalid '{path}': empty array. Expected an array with minimum length 1, but got "
    "an empty array instead.",
    "empty_array",
)
LONG_ARRAY = ErrorWords(
    "Invalid '{path}': array too long. Expected an array with maximum length {limit}, "
    "but got an array with length {length} instead.",
    "array_above_max_length",
)
EMPTY_STRING = ErrorWords(
    "Invalid '{path}': empty string. Expected a string with minimum length 1, but got "
    "an empty string instead.",
    "empty_string",
)
LONG_STRING = ErrorWords(
    "Invalid '{path}': string too long. Expected a string with maximum length {limit}, "
    "but got a string with length {length} instead.",
    "string_above_max_length",
)
ODD_STRING = ErrorWords(
    "Invalid '{path}': string does not match pattern. Expected a string that matches "
    "the pattern '{pattern}'.",
    "invalid_value",
)
ODD_URL = ErrorWords(
    "Invalid '{path}'. Expected a base64-encoded data URL with an image MIME type "
    "(e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), or a valid URL.",
    "invalid_value",
)
