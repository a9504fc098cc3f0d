"""
Counting with the vocabularies of OpenAI's models, from files that are here.

tiktoken downloads a vocabulary when it is first asked for one. What it knows
of its vocabularies (pattern, special tokens, address, digest) is taken from a
copy of its own definitions, whose loader is replaced by one that only notes
what it was asked for.
"""

from __future__ import annotations

import os
import tempfile
from base64 import b64decode
from binascii import Error as Base64Error
from difflib import get_close_matches
from functools import lru_cache
from hashlib import sha1, sha256
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from conversation_state.counting._weighing import OPENAI_IMAGE, pieces, weigh
from conversation_state.errors import (
    MissingExtraError,
    MissingVocabularyError,
    UnknownModelError,
)
from conversation_state.messages import Message, UnknownMessage

if TYPE_CHECKING:
    from tiktoken import Encoding

__all__ = ["LONGEST", "by_tiktoken"]

# The patterns that split text overflow their stack somewhere behind half a
# million blanks: longer texts are counted in pieces.
LONGEST = 100_000

_A_MESSAGE, _A_NAME = 3, 1


def by_tiktoken(
    model: str | None = None,
    *,
    files: str | os.PathLike[str] | None = None,
    encoding: Encoding | None = None,
) -> _ByTiktoken:
    """
    A counter with the vocabulary of an OpenAI *model*, from a file.

    Nothing is downloaded, ever. The same arguments give the same counter, and
    counters of one vocabulary are equal, so what was counted once stays
    counted. Needs the extra ``tiktoken``.

    A message is its texts, reasoning, refusals, names and arguments of calls
    and what else `by_characters` counts, with its estimates for media; its
    role; its name and a token for that; and 3 tokens around it. What a request
    adds on its own, 3 tokens for the answer to begin with and tool schemas
    (`count_tools`), belongs into the `overhead` of a budget. Special tokens in
    a text are text. A text of more than 100,000 code points is counted in
    pieces of that length, which may add a token for each.

    Args:
        model: A model, ``gpt-4o`` say, or a vocabulary, ``o200k_base`` say.

        files: The vocabulary's file, ``o200k_base.tiktoken`` say, or a folder
            that holds it, under that name or the one of tiktoken's cache. If
            it is None: the folder that ``TIKTOKEN_CACHE_DIR`` names, or where
            tiktoken keeps its files on this machine.

        encoding: Instead of a model: a `tiktoken.Encoding`, for a vocabulary
            of your own.

    Raises:
        UnknownModelError:
            If tiktoken does not know the model; names those written like it.

        MissingVocabularyError:
            If the file is not there; names it, and where it can be had.

        ValueError:
            If the file is not what tiktoken says it should be, or there are
            both or neither of *model* and *encoding*.

        MissingExtraError:
            If the extra is not installed.

    Source:
        3 tokens for a message and 1 for a name are what OpenAI's cookbook
        tells of all chat models since gpt-3.5-turbo-0613. How calls and tools
        are written to the model it does not tell.
    """
    if (model is None) == (encoding is None):
        given = "neither" if model is None else "both"
        msg = f"by_tiktoken takes a model or an encoding, got {given}"
        raise ValueError(msg)

    if encoding is not None:
        if files is not None:
            msg = "by_tiktoken takes no files beside an encoding, which has been read"
            raise ValueError(msg)

        if not callable(getattr(encoding, "encode_ordinary", None)):
            msg = f"encoding is {encoding!r:.80}; expected a tiktoken.Encoding"
            raise TypeError(msg)

        return _ByTiktoken(encoding)

    name = _vocabulary_of(model)
    return _from_file(name, str(_found(name, files)))


@lru_cache(maxsize=32)
def _from_file(name: str, path: str) -> _ByTiktoken:
    return _ByTiktoken(_File(name, path))


class _File(NamedTuple):
    """
    Where an encoding can be read, here or in another process.
    """

    name: str
    path: str


@attrs.frozen(repr=False)
class _ByTiktoken:
    """
    The counter: a value, as small to pickle as the name of a file.
    """

    _of: Any  # a _File, or an Encoding

    def __attrs_post_init__(self) -> None:
        _encoding(self._of)

    def __call__(self, message: Message, /) -> int:
        encode = _encoding(self._of).encode_ordinary
        texts, media = pieces(message)
        if not isinstance(message, UnknownMessage):
            texts.append(message.role)

        tokens = _A_MESSAGE
        if message.name:
            texts.append(message.name)
            tokens += _A_NAME

        for text in texts:
            if len(text) <= LONGEST:
                tokens += len(encode(text))
            else:
                for start in range(0, len(text), LONGEST):
                    tokens += len(encode(text[start : start + LONGEST]))

        return tokens + weigh(media, OPENAI_IMAGE) if media else tokens

    def __repr__(self) -> str:
        of = self._of
        if isinstance(of, _File):
            return f"by_tiktoken({of.name!r}, files={of.path!r})"

        return f"by_tiktoken(encoding={of!r})"


def _encoding(of: Any) -> Encoding:
    return _read(of) if isinstance(of, _File) else of


class _Definition(NamedTuple):
    """
    What tiktoken knows of a vocabulary without having read it.
    """

    url: str
    digest: str
    fields: dict[str, Any]


# As large as a dozen megabytes each.
@lru_cache(maxsize=8)
def _read(file: _File) -> Encoding:
    from tiktoken import Encoding  # noqa: PLC0415 - an extra

    definition = _definition(file.name)
    try:
        data = Path(file.path).read_bytes()
    except FileNotFoundError:
        raise MissingVocabularyError(file.name, definition.url, (file.path,)) from None

    digest = sha256(data).hexdigest()
    if digest != definition.digest:
        msg = (
            f"{file.path} is not the vocabulary {file.name}: its SHA-256 is {digest} "
            f"and should be {definition.digest}. Download {definition.url} again; for "
            "a vocabulary of your own give an encoding"
        )
        raise ValueError(msg)

    ranks = _ranks(data, file.path)
    return Encoding(**{**definition.fields, "mergeable_ranks": ranks})


def _ranks(data: bytes, path: str) -> dict[bytes, int]:
    ranks = {}
    for number, line in enumerate(data.splitlines(), 1):
        if line:
            try:
                token, rank = line.split()
                ranks[b64decode(token)] = int(rank)
            except (ValueError, Base64Error):
                msg = f"{path}, line {number}: {line!r:.60} is no token and its rank"
                raise ValueError(msg) from None

    return ranks


def _definitions() -> ModuleType:
    """
    A copy of tiktoken's own definitions, for nobody else to see.
    """
    try:
        spec = find_spec("tiktoken_ext.openai_public")
        if spec is None or spec.loader is None:
            raise ModuleNotFoundError

        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError:
        raise MissingExtraError("by_tiktoken", "tiktoken") from None

    return module


@lru_cache(maxsize=32)
def _definition(name: str) -> _Definition:
    module = _definitions()
    asked: list[tuple[str, str]] = []

    def load(url: str, expected_hash: str) -> dict[bytes, int]:
        asked.append((url, expected_hash))
        return {}

    # Their loader downloads. One that is not where it always was must not run.
    assert callable(module.load_tiktoken_bpe)  # noqa: S101 - see above
    module.load_tiktoken_bpe = load  # type: ignore[attr-defined]
    fields = module.ENCODING_CONSTRUCTORS[name]()
    ((url, digest),) = asked
    return _Definition(url, digest, fields)


# The same vocabulary, whose own files are of an older kind.
_ALIASES = {"gpt2": "r50k_base"}


def _vocabulary_of(model: Any) -> str:
    """
    The name of the vocabulary that *model* is, or has.
    """
    if not isinstance(model, str):
        msg = f"model is {model!r:.80}; expected the name of a model, a str"
        raise TypeError(msg)

    try:
        from tiktoken.model import (  # noqa: PLC0415 - an extra
            MODEL_TO_ENCODING,
            encoding_name_for_model,
        )
    except ImportError:
        raise MissingExtraError("by_tiktoken", "tiktoken") from None

    names = list(_definitions().ENCODING_CONSTRUCTORS)
    if model in names:
        name = model
    else:
        try:
            name = encoding_name_for_model(model)
        except KeyError:
            near = get_close_matches(model[:100], [*MODEL_TO_ENCODING, *names])
            raise UnknownModelError(model, "tiktoken", tuple(near)) from None

    return _ALIASES.get(name, name)


def _found(name: str, files: str | os.PathLike[str] | None) -> Path:
    """
    The file of the vocabulary *name*.
    """
    url = _definition(name).url
    given = Path(_cache() if files is None else files).absolute()
    places = (given,)
    if files is None or given.is_dir():
        key = sha1(url.encode(), usedforsecurity=False).hexdigest()
        places = (given / url.rpartition("/")[2], given / key)  # type: ignore[assignment]

    for place in places:
        if place.is_file():
            return place

    raise MissingVocabularyError(name, url, tuple(map(str, places)))


def _cache() -> str:
    """
    Where tiktoken keeps what it downloaded.
    """
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        folder = os.environ.get(variable)
        if folder:
            return folder

    return str(Path(tempfile.gettempdir()) / "data-gym-cache")
