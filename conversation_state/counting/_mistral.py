"""
Counting with the vocabularies of Mistral's models, which mistral-common carries.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import attrs

from conversation_state.counting._weighing import Image, pieces, weigh
from conversation_state.errors import MissingExtraError
from conversation_state.messages import AssistantMessage, Message, ToolMessage

__all__ = ["by_mistral"]

# The patterns that split text overflow their stack somewhere behind half a
# million blanks: longer texts are counted in pieces.
_LONGEST = 100_000

# 1,024 by 1,024 pixels in patches of 16, and a token behind each row of them;
# Mistral knows no low detail.
_IMAGE = Image(64 * 64 + 64, 64 * 64 + 64)

_VERSIONS = ("tekken", "v1", "v2", "v3", "v7")


def by_mistral(
    version: str = "tekken", *, file: str | os.PathLike[str] | None = None
) -> _ByMistral:
    """
    A counter with the vocabulary of a Mistral model, as its tokenizer does it.

    The vocabularies come with mistral-common (extra ``mistral``), and nothing
    is downloaded, ever. The same arguments give the same counter, and equal
    ones are equal in every process, so what was counted once stays counted.

    A message is its texts with the tokens that stand around them, for its role
    and version: ``[INST]``, ``[/INST]``, the end of an answer, and calls and
    results as JSON with their ids. A request starts with one more token, which
    belongs into the `overhead` of a budget. Images count 4,160 tokens, which
    is what Pixtral takes for 1,024 by 1,024 pixels, other media and what this
    version has no word for as in `by_characters`. Names are not sent. A text
    of more than 100,000 code points is counted in pieces of that length, which
    may add a token for each.

    Args:
        version: ``tekken``, the vocabulary of Nemo, Pixtral, Ministral and
            Small from 2024-09 on; or of the older SentencePiece ones ``v1``
            (Mistral 7B 0.1, Mixtral 8x7B), ``v2`` (Small and Large of
            2024-02), ``v3`` (Large of 2024-07, Codestral 2024-05) or ``v7``
            (Large of 2024-11).

        file: Instead of a version: a ``tekken.json`` or a SentencePiece model,
            from the files of a newer model.

    Raises:
        ValueError:
            If there is no such version, or the file is no vocabulary.

        FileNotFoundError:
            If there is no such file.

        MissingExtraError:
            If the extra is not installed.

    Source:
        mistral-common, Mistral's own library, whose messages these are.
    """
    if file is not None:
        if version != _VERSIONS[0]:
            msg = f"by_mistral takes a version or a file, got both, {version!r} first"
            raise ValueError(msg)

        return _kept(str(Path(file).absolute()), is_file=True)

    if version not in _VERSIONS:
        msg = f"version is {version!r}; there are {', '.join(_VERSIONS)}"
        raise ValueError(msg)

    return _kept(version, is_file=False)


@lru_cache(maxsize=32)
def _kept(name: str, *, is_file: bool) -> _ByMistral:
    return _ByMistral(name, is_file)


class _Frames(NamedTuple):
    """
    A tokenizer, and how many tokens it puts around a text of each role.
    """

    tokenizer: Any
    user: int
    system: int


@attrs.frozen(repr=False)
class _ByMistral:
    """
    The counter: a value, as small to pickle as the name of a version.
    """

    _name: str
    _is_file: bool

    def __attrs_post_init__(self) -> None:
        _frames(self._name, is_file=self._is_file)

    def __call__(self, message: Message, /) -> int:
        tokenizer, user, system = _frames(self._name, is_file=self._is_file)
        texts, media = pieces(message)
        tokens = weigh(media, _IMAGE) if media else 0
        if isinstance(message, AssistantMessage):
            calls = message.tool_calls
            texts = texts[: len(texts) - 2 * len(calls)]
            tokens += 1  # the end of the answer
            if calls:
                tokens += _calls(tokenizer, message)
        elif isinstance(message, ToolMessage):
            return tokens + _result(tokenizer, "".join(texts), message)
        else:
            tokens += system if message.role == "system" else user

        return tokens + sum([_length(tokenizer, text) for text in texts])

    def __repr__(self) -> str:
        given = f"file={self._name!r}" if self._is_file else repr(self._name)
        return f"by_mistral({given})"


def _length(tokenizer: Any, text: str) -> int:
    encode = tokenizer.tokenizer.encode
    return sum(
        [
            len(encode(text[start : start + _LONGEST], bos=False, eos=False))
            for start in range(0, len(text), _LONGEST)
        ]
    )


def _calls(tokenizer: Any, message: AssistantMessage) -> int:
    from mistral_common.exceptions import (  # noqa: PLC0415 - an extra
        TokenizerException,
    )
    from mistral_common.protocol.instruct import (  # noqa: PLC0415 - an extra
        messages as theirs,
    )
    from mistral_common.protocol.instruct import (  # noqa: PLC0415 - an extra
        tool_calls as calls,
    )

    texts = [
        text for call in message.tool_calls for text in (call.name, call.arguments)
    ]
    plain = sum([_length(tokenizer, text) for text in texts])
    if max(map(len, texts)) > _LONGEST:
        return plain

    made = [
        calls.ToolCall(
            id=call.id or "null",
            function=calls.FunctionCall(name=call.name, arguments=call.arguments),
        )
        for call in message.tool_calls
    ]
    try:
        tokens = tokenizer.encode_assistant_message(
            theirs.AssistantMessage(content=None, tool_calls=made),
            is_before_last_user_message=False,
        )
    except TokenizerException:  # the first version knows no tools
        return plain

    return len(tokens) - 1


def _result(tokenizer: Any, text: str, message: ToolMessage) -> int:
    from mistral_common.exceptions import (  # noqa: PLC0415 - an extra
        TokenizerException,
    )
    from mistral_common.protocol.instruct import (  # noqa: PLC0415 - an extra
        messages as theirs,
    )

    if len(text) > _LONGEST:
        return _length(tokenizer, text)

    result = theirs.ToolMessage(
        content=text, tool_call_id=message.tool_call_id, name=message.tool_name
    )
    try:
        return len(
            tokenizer.encode_tool_message(result, is_before_last_user_message=False)[0]
        )
    except TokenizerException:  # the first version knows no tools
        return _length(tokenizer, text)


# As large as a hundred megabytes each.
@lru_cache(maxsize=5)
def _frames(name: str, *, is_file: bool) -> _Frames:
    try:
        from mistral_common.exceptions import (  # noqa: PLC0415 - an extra
            TokenizerException,
        )
        from mistral_common.protocol.instruct.messages import (  # noqa: PLC0415 - an extra
            SystemMessage,
            UserMessage,
        )
        from mistral_common.tokens.tokenizers.mistral import (  # noqa: PLC0415 - an extra
            MistralTokenizer,
        )

        if not is_file:
            made = (
                MistralTokenizer.v3(is_tekken=True)
                if name == _VERSIONS[0]
                else getattr(MistralTokenizer, name)()
            )
        elif not Path(name).is_file():
            msg = f"there is no file {name}; by_mistral reads a vocabulary from there"
            raise FileNotFoundError(msg)
        else:
            made = _read(MistralTokenizer, name)
    except ImportError:
        raise MissingExtraError("by_mistral", "mistral") from None

    tokenizer = made.instruct_tokenizer
    text = "Hi"
    bare = _length(tokenizer, text)
    user = tokenizer.encode_user_message(
        UserMessage(content=text), [], is_last=True, is_first=True
    )
    try:
        told, _ = tokenizer.encode_system_message(SystemMessage(content=text))
    except (NotImplementedError, TokenizerException):
        # Up to the third version it stands in a user's message, and apart.
        told = [0] * _length(tokenizer, f"{text}\n\n")

    return _Frames(tokenizer, len(user[0]) - bare, len(told) - bare)


def _read(tokenizer: Any, path: str) -> Any:
    try:
        return tokenizer.from_file(path)
    except ImportError:
        raise
    except Exception as error:
        msg = (
            f"{path} is no vocabulary that mistral-common reads: {error}. Give a "
            "tekken.json or a SentencePiece model"
        )
        raise ValueError(msg) from error
