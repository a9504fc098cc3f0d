"""Counting with the vocabularies of Mistral's models, which mistral-common carries."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import attrs

from conversation_state._wording import shorten_repr
from conversation_state.counting._estimate import (
    MAX_TEXT,
    ImageTokens,
    count_text,
    estimate_media,
    split_content,
)
from conversation_state.errors import MissingExtraError
from conversation_state.messages import AssistantMessage, Message, ToolMessage

# 1,024 by 1,024 pixels in patches of 16, and a token behind each row of them.
# Mistral has no low detail.
_IMAGE = ImageTokens(64 * 64 + 64, 64 * 64 + 64)

_VERSIONS = ("tekken", "v1", "v2", "v3", "v7")


def by_mistral(
    version: str = "tekken", *, file: str | os.PathLike[str] | None = None
) -> MistralCounter:
    """
    A counter with the vocabulary of a Mistral model, as its tokenizer does it.

    The vocabularies come with mistral-common (extra ``mistral``), and nothing
    is downloaded, ever. The same arguments give the same counter, and equal
    ones are equal in every process, so what was counted once stays counted.

    Counted are the texts of a message and the tokens around them, for its role
    and version: ``[INST]``, ``[/INST]``, the end of an answer, and calls and
    results as JSON with their ids. A request starts with one more token, which
    belongs into the `overhead` of a budget. Images count 4,160 tokens, which
    is what Pixtral takes for 1,024 by 1,024 pixels, other media and what this
    version can't represent as in `by_characters`. Names are not sent. A text
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
            If there is no such version, or the file is not a vocabulary.

        FileNotFoundError:
            If there is no such file.

        MissingExtraError:
            If the extra is not installed.

    Source:
        mistral-common, Mistral's own library, whose messages these are.
    """
    if file is not None:
        if version != _VERSIONS[0]:
            raise ValueError(
                "by_mistral takes a version or a file, got both, "
                f"{shorten_repr(version)} first"
            )

        return _load_counter(str(Path(file).absolute()))

    if version not in _VERSIONS:
        raise ValueError(
            f"version is {shorten_repr(version)}; expected one of "
            f"{', '.join(_VERSIONS)}"
        )

    return _load_counter(version)


@lru_cache(maxsize=32)
def _load_counter(vocabulary: str) -> MistralCounter:
    """One counter for each vocabulary, since counts are remembered per counter."""
    return MistralCounter(vocabulary)


class _Tokenizer(NamedTuple):
    instruct: Any
    user: int
    system: int

    def encode(self, text: str) -> list[int]:
        encode = self.instruct.tokenizer.encode
        return encode(text, bos=False, eos=False)  # type: ignore[no-any-return]  # untyped


@attrs.frozen(repr=False)
class MistralCounter:
    """The counter: a value, as small to pickle as a version or the path of a file."""

    _vocabulary: str

    def __attrs_post_init__(self) -> None:
        # A vocabulary that can't be read is an error here, not at the first message.
        _load_tokenizer(self._vocabulary)

    def __call__(self, message: Message, /) -> int:
        tokenizer = _load_tokenizer(self._vocabulary)
        texts, media = split_content(message)
        tokens = estimate_media(media, _IMAGE) if media else 0
        if isinstance(message, AssistantMessage):
            tokens += 1  # the end of the answer
            if message.tool_calls:
                # `split_content` puts names and arguments of calls last; they are
                # counted in the JSON that Mistral makes of them.
                end = len(texts) - 2 * len(message.tool_calls)
                tokens += _count_framed(tokenizer, message, texts[end:])
                texts = texts[:end]
        elif isinstance(message, ToolMessage):
            return tokens + _count_framed(tokenizer, message, ["".join(texts)])
        else:
            is_system = message.role == "system"
            tokens += tokenizer.system if is_system else tokenizer.user

        return tokens + sum([count_text(tokenizer.encode, text) for text in texts])

    def __repr__(self) -> str:
        name = self._vocabulary
        return f"by_mistral({'' if name in _VERSIONS else 'file='}{name!r})"


def _count_framed(tokenizer: _Tokenizer, message: Any, texts: list[str]) -> int:
    """
    The tokens of an assistant's calls or of a result, as Mistral writes them; those of
    *texts* alone where it can't.
    """
    from mistral_common.exceptions import (  # noqa: PLC0415 - an extra
        TokenizerException,
    )
    from mistral_common.protocol.instruct import (  # noqa: PLC0415 - an extra
        messages,
        tool_calls,
    )

    # Longer texts overflow the stack of the patterns that split them.
    if max(map(len, texts)) <= MAX_TEXT:
        with suppress(TokenizerException):  # the first version knows no tools
            if isinstance(message, ToolMessage):
                call_id, name = message.tool_call_id, message.tool_name
                result = messages.ToolMessage(
                    content=texts[0], tool_call_id=call_id, name=name
                )
                tokens, *_ = tokenizer.instruct.encode_tool_message(
                    result, is_before_last_user_message=False
                )
                return len(tokens)

            calls = [
                tool_calls.ToolCall(
                    id=call.id or "null",  # mistral-common's own default
                    function=tool_calls.FunctionCall(
                        name=call.name, arguments=call.arguments
                    ),
                )
                for call in message.tool_calls
            ]
            tokens = tokenizer.instruct.encode_assistant_message(
                messages.AssistantMessage(content=None, tool_calls=calls),
                is_before_last_user_message=False,
            )
            return len(tokens) - 1  # without the end of the answer

    return sum([count_text(tokenizer.encode, text) for text in texts])


# Tokenizers, as large as a hundred megabytes each.
@lru_cache(maxsize=5)
def _load_tokenizer(vocabulary: str) -> _Tokenizer:
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

        if vocabulary == _VERSIONS[0]:
            loaded = MistralTokenizer.v3(is_tekken=True)
        elif vocabulary in _VERSIONS:
            loaded = getattr(MistralTokenizer, vocabulary)()
        else:
            loaded = _read_file(MistralTokenizer, vocabulary)
    except ImportError:
        raise MissingExtraError("by_mistral", "mistral") from None

    tokenizer = _Tokenizer(loaded.instruct_tokenizer, 0, 0)
    text = "Hi"
    bare = len(tokenizer.encode(text))
    user = tokenizer.instruct.encode_user_message(
        UserMessage(content=text), [], is_last=True, is_first=True
    )
    try:
        system, _ = tokenizer.instruct.encode_system_message(
            SystemMessage(content=text)
        )
    except (NotImplementedError, TokenizerException):
        # Up to the third version, system text is at the start of a user's message,
        # followed by a blank line.
        system = tokenizer.encode(f"{text}\n\n")

    return tokenizer._replace(user=len(user[0]) - bare, system=len(system) - bare)


def _read_file(tokenizer: Any, path: str) -> Any:
    if not Path(path).is_file():
        raise FileNotFoundError(
            f"there is no file {path}; by_mistral reads a vocabulary from there"
        )

    try:
        return tokenizer.from_file(path)
    except ImportError:
        raise
    except Exception as error:
        raise ValueError(
            f"{path} is no vocabulary that mistral-common reads: {error}. Give a "
            "tekken.json or a SentencePiece model"
        ) from error
