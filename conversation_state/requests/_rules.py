"""
The rules of each format as values, and what differs for a host.

To add a host, add its line to `_HOSTS` and a row with the source to `_sources`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from conversation_state._persistent import EMPTY_MAP, check_text, final
from conversation_state._wording import shorten_repr
from conversation_state.requests._sources import SOURCES, Rule
from conversation_state.requests._text import TextRule

_WORD = "a-zA-Z0-9_-"
_LETTER = "a-zA-Z_"
# No limit is known.
_ANY = TextRule(100_000, r"\s\S")


@final
@attrs.frozen(kw_only=True)
class Rules:
    """
    What one format, or one host of it, asks of a request.

    Each attribute is a rule with a source: `sources` lists them.

    Attributes:
        format: The adapter's name; "" for rules that are right for all formats.
        host: The host that was named; "" for all that are known. What was loaded
            from *format* keeps its form unless a host is named; but for an image of a
            type that none of them takes.
        model: The model that is asked, where what it takes of thinking, or of
            signatures, is not what others do; "" for any.
        call_ids: The form of the ids of calls. They are unique in a request, too.
        call_names: The form of the names of tools in calls.
        sender_names: The form of the names of participants; None where messages
            have none, or any.
        starts_with_user: Whether a user has to speak first, behind the system
            messages.
        late_system: Where a system message may stand that is not in front of all
            others: ``anywhere``; ``after_user``, directly behind a user's message; or
            ``top``, in front only.
        takes_empty: Whether a message may be empty.
        takes_blank: Whether a text of white space only is a text.
        takes_thinking_only: Whether an answer may be thinking that nothing follows.
        takes_any_arguments: Whether the arguments of a call may be any text, also one
            that a model or a stop left broken; else they are a JSON object.
        max_markers: How many cache markers the messages may have; None if a request
            has none, or any number. Four stand in a request, with those of its tools:
            ``attrs.evolve(anthropic.RULES, max_markers=3)`` leaves one to them.
        message_keys: The keys that a message may have, beside those of a result;
            None where others are ignored. Calls then have no keys of a dialect either,
            and content no parts of one.
        image_types: The media types of images that are sent by value; None for any.
        text_roles: The roles whose messages have a text as content, and no list of
            texts.
        answers_results: Whether an answer has to stand between results and what a user
            says next.
        alternates: Whether an answer has to stand between two messages of users, too,
            and a user's message between two answers.
        ends_with_user: Whether a user's message or a result has to come last, unless
            the answer in front asks to be continued.
        takes_urls: Whether media may be referred to by URL.
        takes_call_ids: Whether calls and results have ids; else they are paired by name
            and order.
        takes_developer: Whether there is a role ``developer`` for system messages.
        takes_foreign_items: Whether items of other servers are taken: their ids,
            reasoning that is not encrypted, and parts of a user's in an answer.
        empty_reasoning: The reasoning of an answer that has none, where each has some;
            None if it needs none.
        is_request: Whether the messages are a request; if not, none is changed.
    """

    format: str = ""
    host: str = ""
    model: str = ""
    call_ids: TextRule
    call_names: TextRule
    sender_names: TextRule | None = None
    starts_with_user: bool
    late_system: str = "anywhere"
    takes_empty: bool = False
    takes_blank: bool = True
    takes_thinking_only: bool = False
    takes_any_arguments: bool = False
    max_markers: int | None = None
    message_keys: frozenset[str] | None = None
    image_types: frozenset[str] | None = None
    text_roles: frozenset[str] = frozenset()
    answers_results: bool = False
    alternates: bool = False
    ends_with_user: bool = False
    takes_call_ids: bool = True
    takes_urls: bool = True
    takes_developer: bool = True
    takes_foreign_items: bool = True
    empty_reasoning: str | None = None
    is_request: bool = True

    @property
    def sources(self) -> tuple[Rule, ...]:
        """Where each rule is from, and which host refuses what breaks it."""
        return tuple(
            row
            for row in SOURCES
            if row.format in ("", self.format) or not self.format
            if not self.host or self.host in row.host.split(", ") or not row.host
        )


_IMAGES = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
_IMAGES_OF_GEMINI = frozenset(
    {"image/heic", "image/heif", "image/jpeg", "image/png", "image/webp"}
)

ANTHROPIC = Rules(
    format="anthropic",
    call_ids=TextRule(64, _WORD),
    call_names=TextRule(64, _WORD, default="tool"),
    starts_with_user=True,
    late_system="top",
    takes_blank=False,
    max_markers=4,
    image_types=_IMAGES,
    takes_any_arguments=True,  # its adapter makes an object of them
)

OPENAI_CHAT = Rules(
    format="openai_chat",
    call_ids=TextRule(40, _WORD),
    call_names=TextRule(64, _WORD, default="tool"),
    sender_names=TextRule(64, _WORD, default="user"),
    starts_with_user=False,
    late_system="after_user",
    max_markers=4,
    image_types=_IMAGES | {"image/jpg"},
    text_roles=frozenset({"tool"}),
)

OPENAI_RESPONSES = Rules(
    format="openai_responses",
    call_ids=TextRule(64, _WORD),
    call_names=TextRule(64, _WORD, default="tool"),
    starts_with_user=False,
    image_types=OPENAI_CHAT.image_types,
)

GEMINI = Rules(
    format="gemini",
    call_ids=_ANY,
    call_names=TextRule(64, "a-zA-Z0-9_.:-", _LETTER, default="tool"),
    starts_with_user=True,
    takes_thinking_only=True,
    image_types=_IMAGES_OF_GEMINI,
)

EVERYWHERE = Rules(
    call_ids=OPENAI_CHAT.call_ids,
    call_names=TextRule(64, _WORD, _LETTER, default="tool"),
    sender_names=OPENAI_CHAT.sender_names,
    starts_with_user=True,
    takes_blank=False,
    max_markers=4,
    image_types=_IMAGES & _IMAGES_OF_GEMINI,
)

# No rules: for what is no request, such as a file of messages, or a piece of a
# conversation.
AS_IS = Rules(
    call_ids=_ANY,
    call_names=_ANY,
    starts_with_user=False,
    takes_empty=True,
    takes_thinking_only=True,
    takes_any_arguments=True,
    is_request=False,
)

_FORMATS = {
    each.format: each for each in (ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES)
}

# What differs from the default, which is right for all hosts that are not here.
_ANYWHERE = {"late_system": "anywhere"}
_OF_OPENAI = {
    "takes_any_arguments": True,
    "takes_foreign_items": False,
    "text_roles": frozenset[str](),
}
_TEXTS = {"text_roles": frozenset({"assistant", "system", "tool", "user"})}
_OF_DEEPSEEK = {**_TEXTS, "empty_reasoning": "", "takes_developer": False}
_ALTERNATING = {
    "alternates": True,
    "answers_results": True,
    "late_system": "top",
    "starts_with_user": True,
    "takes_developer": False,
}
_KEYS = frozenset({"content", "role", "tool_calls"})
_HOSTS: dict[str, dict[str, dict[str, Any]]] = {
    "anthropic": {
        "anthropic": {
            "call_ids": TextRule(128, _WORD),
            "call_names": TextRule(128, _WORD, default="tool"),
            "late_system": "anywhere",
            "starts_with_user": False,
        },
        "bedrock": {"ends_with_user": True, "takes_urls": False},
        "vertex": {"takes_urls": False},
    },
    "gemini": {
        "gemini": {"takes_empty": True},
        "vertex": {"ends_with_user": True, "takes_call_ids": False},
    },
    "openai_chat": {
        "azure": {**_ANYWHERE, **_OF_OPENAI, "max_markers": 0},
        "cerebras": {
            **_TEXTS,
            "message_keys": _KEYS | {"name", "reasoning"},
            "takes_developer": False,
        },
        "copilot": _ANYWHERE,
        "deepseek": {**_ANYWHERE, **_OF_DEEPSEEK},
        "groq": {
            **_ANYWHERE,
            **_TEXTS,
            "message_keys": _KEYS | {"name"},
            "takes_developer": False,
        },
        "mistral": {
            "answers_results": True,
            "call_ids": TextRule(9, "a-zA-Z0-9", length=9),
            "ends_with_user": True,
            "message_keys": _KEYS | {"prefix"},
            "starts_with_user": True,
            "takes_developer": False,
        },
        "openai": {
            **_ANYWHERE,
            **_OF_OPENAI,
            "call_ids": _ANY,
            "max_markers": 0,
            "takes_empty": True,
        },
        "openrouter": _ANYWHERE,
        "perplexity": {**_ALTERNATING, "ends_with_user": True},
        "vllm": {**_ALTERNATING, "image_types": None},
    },
    "openai_responses": {
        "azure": _OF_OPENAI,
        "openai": {**_OF_OPENAI, "takes_empty": True},
    },
}


def rules(format: str, *, host: str = "", model: str = "") -> Rules:  # noqa: A002
    """
    The rules of *format*, for all known hosts of it or for one.

    Args:
        format: The adapter's name: ``anthropic``, ``gemini``, ``openai_chat`` or
            ``openai_responses``.
        host: Who answers: ``bedrock``, ``azure``, ``mistral``, ... "" for all that
            are known. With a host its rules hold for what was loaded, too.
        model: The model's name; one of Mistral's, on any host, wants Mistral's ids
            and takes no other keys; DeepSeek's, Kimi and MiMo want reasoning; OpenAI's
            before o1 and GPT-5 take none as items; Gemini's from 3 on want calls that
            are signed, on any host; Anthropic's take no thinking of another model,
            from 4.6 on continue no answer, and before Opus 4.8 have system messages
            in front only.

    Raises:
        LookupError: If there is no such format, or no such host of it.

    >>> rules("openai_chat", host="mistral").call_ids.length
    9
    """
    for value, name in ((format, "format"), (host, "host"), (model, "model")):
        check_text(value, name)

    found = _FORMATS.get(format)
    if found is None:
        known = ", ".join(sorted(_FORMATS))
        raise LookupError(
            f"unknown format {shorten_repr(format)}; there are rules for {known}"
        )

    if not host and _is_of_mistral(model):
        host = "mistral" if format == "openai_chat" else ""

    hosts = _HOSTS[format]
    if host and host not in hosts:
        raise LookupError(
            f"unknown host {shorten_repr(host)} of {format}; there are rules for "
            f"{', '.join(sorted(hosts))}; without a host they are right for all of them"
        )

    changes = {**hosts[host], "host": host} if host else {}
    if format == "openai_chat" and host != "groq":
        reasoned = _REASONED.search(model.lower())
        changes |= _OF_REASONED[reasoned[0]] if reasoned is not None else {}

    is_named = wants_signatures(model) and (format == "gemini" or not host)
    if is_named and format in ("gemini", "openai_chat"):
        changes["model"] = model

    if format == "openai_responses" and _takes_no_reasoning(model):
        changes["model"] = model

    if model and format == "anthropic":
        changes["model"] = model
        changes |= _rules_of_claude(model)

    return attrs.evolve(found, **changes) if changes else found


def _rules_of_claude(model: str) -> dict[str, Any]:
    """The rules of Anthropic's *model*, on any host, that others do not have."""
    if "claude" not in model.lower():
        return {}

    name = _name_model(model)
    changes: dict[str, Any] = {"ends_with_user": _CONTINUING.match(name) is None}
    if _WITHOUT_LATE_SYSTEM.match(name):
        changes["late_system"] = "top"
    elif _BINDING.match(name):
        # On top it would change what the thinking so far is bound to.
        changes["late_system"] = "anywhere"

    return changes


def takes_thinking(rules: Rules, model: str) -> bool:
    """
    Whether thinking that *model* signed, "" if that is unknown, is taken back by what
    *rules* name: OpenAI's own models encrypt for each other, and Anthropic's hosts have
    Claude, each of whose models signs for itself. A model has other names on other
    hosts, with prefixes, dates and versions.
    """
    if rules.format == "openai_responses" and _takes_no_reasoning(rules.model):
        return False

    if not model or not (rules.host or rules.model):
        return True

    if rules.format == "openai_responses":
        name = model.lower().rpartition("/")[2]
        return rules.host != "openai" or _OPENAI.match(name) is not None

    is_claude = _CLAUDE.search(model.lower()) is not None
    if not rules.model:
        return is_claude

    signer, asked = _name_model(model), _name_model(rules.model)
    # Behind the id of a deployment there may be any model.
    return signer == asked or (is_claude and "claude" not in asked)


_OPENAI = re.compile(r"(ft:)?(chatgpt|codex|computer-use|gpt(?!-oss)|o\d)")
# Models that want reasoning back; Kimi takes an empty one for none.
_OF_REASONED: Mapping[str, Mapping[str, Any]] = {
    "deepseek": _OF_DEEPSEEK,
    "kimi": {"empty_reasoning": " "},
    "mimo-": {"empty_reasoning": ""},
}
_REASONED = re.compile("|".join(_OF_REASONED))
# OpenAI's models that do not reason, which refuse items of reasoning.
_UNREASONING = re.compile(r"(ft:)?(chatgpt-4|gpt-[34])")
_CLAUDE = re.compile(r"claude[a-z0-9.-]*")
# The models that continue an answer at the end of a request: those before 4.6.
_CONTINUING = re.compile(r"claude-(instant|[123]\b|[a-z]+-4(-[0-5])?$)")
# The models that refuse a system message behind others, or do not follow it.
_WITHOUT_LATE_SYSTEM = re.compile(
    r"claude-(instant|[123]\b|opus-4(-[0-7])?$|(haiku|sonnet)-4|sonnet-5$|mythos-p)"
)
# The models whose thinking is bound to all that is in front of it.
_BINDING = re.compile(r"claude-[a-z]+-(5-[1-9]|[6-9])")
_DATED = re.compile(r"(-\d{8}|-latest|-v\d+|-0)+$")


def _name_model(name: str) -> str:
    """
    The model of a name without what hosts add to it.

    >>> _name_model("us.anthropic.claude-opus-4-5-20251101-v1:0")
    'claude-opus-4-5'
    """
    name = name.lower()
    found = _CLAUDE.search(name)
    return _DATED.sub("", found[0].replace(".", "-")) if found else name


def refuses_late_system(rules: Rules) -> bool:
    """Whether the host or the model of *rules* has system messages in front only."""
    if rules.format != "anthropic" or rules.late_system != "top":
        return False

    name = _name_model(rules.model)
    return bool(rules.host) or _WITHOUT_LATE_SYSTEM.match(name) is not None


def home_rules(format: str) -> Rules:  # noqa: A002
    """The rules of the provider whose format it is, without those of other hosts."""
    return rules(format, host=_HOMES[format])


_HOMES = {
    "anthropic": "anthropic",
    "gemini": "gemini",
    "openai_chat": "openai",
    "openai_responses": "openai",
}


def wants_signatures(model: str) -> bool:
    """
    Whether *model* refuses the first call of a step without a signature.

    >>> wants_signatures("google/gemini-3-pro-preview"), wants_signatures("gemini-2.5")
    (True, False)
    """
    return _SIGNING.search(model.lower()) is not None


_SIGNING = re.compile(r"gemini-(\d\d|[3-9])")


def _takes_no_reasoning(model: str) -> bool:
    return _UNREASONING.match(model.lower().rpartition("/")[2]) is not None


def _is_of_mistral(model: str) -> bool:
    name = model.lower().rpartition("/")[2]
    return name.startswith(("codestral", "devstral", "magistral", "mistral", "mixtral"))


# Where adapters keep their notes in metadata, and views their marks.
MARK = "conversation_state"
AS_LOADED = "as_loaded"


def came_as_is(rules: Rules, metadata: Mapping[str, Any], field: str) -> bool:
    """
    Whether the *field* of what has this *metadata* was loaded from the format of
    *rules* as it is, so that a rule of form does not change it.

    ``load`` notes that on values that a rule of form would change.
    """
    if not rules.is_request:
        return True

    # A call that the provider stores is no matter of form.
    if (rules.host and field != "orphan") or metadata is EMPTY_MAP:
        return False

    if field == "position" and refuses_late_system(rules):
        return False

    kept = metadata.get(MARK)
    if not isinstance(kept, Mapping):
        return False

    formats = [rules.format] if rules.format else list(kept)
    for name in formats:
        notes = kept.get(name)
        listed = notes.get(AS_LOADED) if isinstance(notes, Mapping) else None
        if isinstance(listed, tuple) and field in listed:
            return True

    return False
