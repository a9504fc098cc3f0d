"""Wording that messages, errors and reprs of all layers share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from decimal import Decimal


# Characters that are invisible or that a terminal interprets: controls, direction
# marks, line separators other than "\n", zero-width characters, tags; and halves of
# surrogate pairs, which can't be encoded. Joiners stay, because scripts and emoji need
# them. A list, because `unicodedata` differs between versions of Python.
INVISIBLE_CHARACTERS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
# Not compiled here: that would take a fiftieth of the package's import. `re` keeps
# them from the first use on.
_INVISIBLE = f"[{INVISIBLE_CHARACTERS}]"
_INVISIBLE_IN_LINE = f"[{INVISIBLE_CHARACTERS}\t\n]"


# Names pronounced with a vowel first: not "Usage", "UserMessage" or "UUID".
_VOWEL_SOUND = r"_*(?:[aeio]|u(?!ni|s|u))"


def with_article(noun: str) -> str:
    """*noun* after its article: ``an int``, ``a str``, ``a Usage``."""
    is_vowel = re.match(_VOWEL_SOUND, noun, re.IGNORECASE)
    return f"an {noun}" if is_vowel else f"a {noun}"


def describe_type(value: object) -> str:
    """The class of *value*, for an error: ``an int``, ``a UserMessage``."""
    return with_article(type(value).__name__)


def describe_value(value: object) -> str:
    """The class of *value* and the start of its repr: ``a str: 'Where to?'``."""
    return f"{describe_type(value)}: {shorten_repr(value)}"


def check_function(name: str, function: object) -> None:
    # Whether *function* is one that returns what is asked for, not a coroutine.
    from inspect import iscoroutinefunction  # noqa: PLC0415 - slow to import

    if not callable(function):
        raise TypeError(f"{name} is {shorten_repr(function)}; expected a function")

    if iscoroutinefunction(function):
        raise TypeError(
            f"{name} is {shorten_repr(function)}, an async function; expected one "
            "that returns the value"
        )


# The method of an SDK's object that makes JSON of it, by the package of its class.
_TO_DICT = "to_dict(mode='json')"
_MODEL_DUMP = "model_dump(mode='json', by_alias=True, exclude_none=True)"
_TO_JSON = {"openai": _TO_DICT, "anthropic": _TO_DICT, "google": _MODEL_DUMP}

# The adapter that reads a JSON object, by a key that no other format has.
_ADAPTERS = {
    "choices": "openai_chat",
    "candidates": "gemini",
    "contents": "gemini",
    "parts": "gemini",
    "output": "openai_responses",
    "input": "openai_responses",
    "stop_reason": "anthropic",
}


def name_to_json(value: object) -> str:
    """The call that makes plain JSON of *value*, an SDK's object; "" for others."""
    package = type(value).__module__.partition(".")[0]
    if package in _TO_JSON:
        return _TO_JSON[package]

    return _MODEL_DUMP if callable(getattr(value, "model_dump", None)) else ""


def name_load(given: object) -> str:
    """
    The call that loads *given*, a JSON object or list of another format's, as in
    ``openai_chat.load(response)``; "" if it is neither.
    """
    if isinstance(given, (list, tuple)):
        first = name_load(given[0]) if given else ""
        return first and f"{first.partition('.')[0]}.load(messages)"

    if not isinstance(given, Mapping):
        return ""

    found = [name for key, name in _ADAPTERS.items() if key in given]
    value = "[message]"
    if "messages" in given or "contents" in given or "input" in given:
        value = "request"
    elif found and "parts" not in given:
        value = "response"
    elif "role" not in given and "type" in given:
        value = "[{'role': 'user', 'content': parts}]"

    return f"{found[0] if found else 'openai_chat'}.load({value})"


def advise_load(given: object) -> str:
    """How to make Messages of *given*, as the end of an error; "" unless it is JSON."""
    loaded = name_load(given)
    return f"; load it first: {loaded}" if loaded else ""


def is_of_other_format(given: Mapping[Any, Any]) -> bool:
    """Whether *given* has a key of a provider's request, response or message."""
    return bool(given.keys() & {*_ADAPTERS, "messages", "role"})


def find_kind(raw: Mapping[str, Any]) -> str:
    """What the JSON of an unknown part says that it is; "" if it says nothing."""
    for key in ("type", "kind", "content_type"):
        kind = raw.get(key)
        if isinstance(kind, str) and kind:
            return kind

    return ""


def format_count(count: int, noun: str, plural: str = "") -> str:
    """
    So many of them: ``1 message``, ``2,000 messages``.

    *plural* is given where it is not the noun and an *s*.
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def number_messages(text: str) -> str:
    """
    *text* with its messages numbered from 1, as people count them: ``messages[3]`` is
    message 4. A path into a message stays as it is.
    """
    return _INDEX.sub(lambda found: f"message {int(found[1]) + 1:,}", text)


_INDEX = re.compile(r"(?<![\w.])messages\[(\d+)\](?!\.\w|\[)")


def format_dollars(amount: Decimal) -> str:
    """
    US dollars: all digits, and two at least behind the point.

    >>> from decimal import Decimal
    >>> format_dollars(Decimal("12.50000")), format_dollars(Decimal("0.0000375"))
    ('$12.50', '$0.0000375')
    """
    whole, _, part = f"{amount:,f}".partition(".")
    return f"${whole}.{part.rstrip('0').ljust(2, '0')}"


_LONGEST_URL = 500
_LONGEST_START = 100


def format_media_size(data: bytes | None, url: str | None) -> str:
    """The size of a file's *data*, or its *url*, without data in it."""
    if url is None:
        return format_count(len(data or b""), "byte")

    start, comma, _ = url[:_LONGEST_START].partition(",")
    is_content = url[:5].lower() == "data:"
    if is_content:
        start += comma
    elif len(url) > _LONGEST_URL:
        start = url[:_LONGEST_URL]
    else:
        return url

    return f"{start} and {format_count(len(url) - len(start), 'character')} more"


def shorten_repr(value: object, limit: int = 60) -> str:
    """
    The repr of *value* for an error's message: at most *limit* characters, and of a
    long text, collection or integer no more work than that. The class, where the
    repr itself raises, so that the message is still about what was wrong.
    """
    try:
        return shorten_text(_repr_start(value, limit), limit)
    except Exception:  # noqa: BLE001 - by any class, and RecursionError
        return f"{describe_type(value)} whose repr raises an error"


def _repr_start(value: object, limit: int) -> str:
    """The repr of *value*, of which what is behind *limit* may be missing."""
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        # Python refuses to write one of more than 4,300 digits.
        return f"an integer of {value.bit_length()} bits"

    # A repr has at least a character for each item, so that the cut can't be seen.
    start: Any = value
    if type(value) in _SEQUENCES:
        start = start[:limit]
    elif isinstance(value, dict) and len(value) > limit:
        start = dict(islice(value.items(), limit))

    return repr(start)


_MAX_BITS = 128
_SEQUENCES = frozenset({bytearray, bytes, list, str, tuple})


def shorten_text(text: str, limit: int) -> str:
    """*text*, or its beginning and three dots: at most *limit* characters."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


_MAX_PATH = 500


def read_title(notes: Mapping[str, Any]) -> str:
    """The title that the *notes* of a name have; "" if they have none."""
    title = notes.get("title")
    return title.strip() if isinstance(title, str) else ""


def shorten_path(path: str) -> str:
    """
    A place in a value for an error's message: without its middle where hostile data
    has a hundred levels of long keys.
    """
    half = _MAX_PATH // 2
    return path if len(path) <= _MAX_PATH else f"{path[:half]}[...]{path[-half:]}"


def _escape_match(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def escape_invisible(text: str) -> str:
    r"""
    *text* with escapes for characters that are invisible or that a terminal
    would interpret, except tabs and line ends; and for halves of surrogate pairs, so
    that it can be encoded.

    >>> print(escape_invisible("\x1b[2Jhi\u202e!"))
    \x1b[2Jhi\u202e!
    """
    return re.sub(_INVISIBLE, _escape_match, text.replace("\r\n", "\n"))


def escape_line(text: str) -> str:
    r"""
    *text* on one line: as `escape_invisible`, with escapes for tabs and line ends.

    >>> print(escape_line("one\ntwo"))
    one\ntwo
    """
    return re.sub(_INVISIBLE_IN_LINE, _escape_match, text)


class MissingName:
    """
    A name that a class does not have: an `AttributeError` that says what to write.

    A descriptor, and no `__getattr__`: with that, Python looks every attribute up the
    slow way, and adding a message took a fifth longer.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        raise AttributeError(self._text)


def add_missing_names(cls: type, what: str, names: Mapping[str, str]) -> None:
    """
    Let each of *names* that *cls*, which is *what*, does not have say what to write;
    `dir` does not list them.
    """
    for name, advice in names.items():
        missing = f"{what} no attribute {name!r}"
        is_name = advice.replace("_", "").isalnum()
        text = f"did you mean {advice!r}?" if is_name else advice
        setattr(cls, name, MissingName(f"{missing}; {text}"))

    cls.__dir__ = _list_names  # type: ignore[assignment]


def refuse_operators(cls: type, operators: Mapping[str, str]) -> None:
    """Let each of *operators* of *cls* be a `TypeError` that says what to write."""

    def make_refusal(text: str) -> Callable[..., NoReturn]:
        def refuse(*_: object) -> NoReturn:
            raise TypeError(text)

        return refuse

    for name, text in operators.items():
        setattr(cls, name, make_refusal(text))


def refuse_assignments(cls: type, text: str) -> None:
    """Let each assignment to a property of *cls* say what to write."""

    def refuse(*_: object) -> NoReturn:
        raise AttributeError(text)

    for name, found in list(vars(cls).items()):
        if isinstance(found, property):
            setattr(cls, name, property(found.fget, refuse, refuse, found.__doc__))


def _list_names(instance: object) -> list[str]:
    return [
        name
        for name in object.__dir__(instance)
        if not isinstance(_find_attribute(type(instance), name), MissingName)
    ]


def _find_attribute(cls: type, name: str) -> object:
    for base in cls.__mro__:
        if name in vars(base):
            return vars(base)[name]

    return None
