"""
Counting with the vocabularies of OpenAI's models, from files that are here.

tiktoken downloads a vocabulary when it is first asked for one. Its definitions of
vocabularies (pattern, special tokens, address, digest) are read from a copy of its
own module, whose loader is replaced by one that only records its arguments.
"""

from __future__ import annotations

import os
import tempfile
from base64 import b64decode
from difflib import get_close_matches
from functools import lru_cache
from hashlib import sha1, sha256
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from conversation_state.counting._estimate import EncodingCounter
from conversation_state.counting._prices import check_model_name
from conversation_state.errors import (
    MissingExtraError,
    MissingVocabularyError,
    UnknownModelError,
)

if TYPE_CHECKING:
    from tiktoken import Encoding


def by_tiktoken(
    model: str, *, files: str | os.PathLike[str] | None = None
) -> EncodingCounter:
    """
    A counter with the vocabulary of an OpenAI *model*, from a file.

    Nothing is downloaded, ever. The same arguments give the same counter, and
    counters of one vocabulary are equal, so what was counted once stays
    counted. Needs the extra ``tiktoken``.

    Counts as `by_encoding`; special tokens in a text are text.

    Args:
        model: A model, ``gpt-4o`` for example, or a vocabulary,
            ``o200k_base``.

        files: The vocabulary's file, ``o200k_base.tiktoken`` for example, or a
            folder that holds it, under that name or the one of tiktoken's
            cache. If it is None: the folder that ``TIKTOKEN_CACHE_DIR`` names,
            or where tiktoken keeps its files on this machine.

    Raises:
        UnknownModelError:
            If tiktoken does not know the model; names those written like it.

        MissingVocabularyError:
            If the file is not there; names it, and where to download it.

        ValueError:
            If the file is not what tiktoken expects.

        MissingExtraError:
            If the extra is not installed.
    """
    name = _find_vocabulary(model)
    return _load_counter(VocabularyFile(name, str(_find_file(name, files))))


class VocabularyFile(NamedTuple):
    """An encoding by the file it is read from, here or in another process."""

    name: str
    path: str

    def __call__(self, text: str) -> list[int]:
        return _read_vocabulary(self).encode_ordinary(text)


@lru_cache(maxsize=32)
def _load_counter(file: VocabularyFile) -> EncodingCounter:
    """One counter for each vocabulary, since counts are remembered per counter."""
    _read_vocabulary(file)  # raises for a file that is not one
    return EncodingCounter(file)  # type: ignore[arg-type]  # taken for a tuple only


# Vocabularies, as large as a dozen megabytes each.
@lru_cache(maxsize=8)
def _read_vocabulary(file: VocabularyFile) -> Encoding:
    from tiktoken import Encoding  # noqa: PLC0415 - an extra

    url, expected, fields = _read_definition(file.name)
    try:
        data = Path(file.path).read_bytes()
    except FileNotFoundError:
        raise MissingVocabularyError(file.name, url, (file.path,)) from None

    digest = sha256(data).hexdigest()
    if digest != expected:
        raise ValueError(
            f"{file.path} is not the vocabulary {file.name}: its SHA-256 is {digest} "
            f"and should be {expected}. Download {url} again; for a vocabulary of your "
            "own use by_encoding"
        )

    # The digest shows that each line is a token and its rank.
    lines = map(bytes.split, filter(None, data.splitlines()))
    ranks = {b64decode(token): int(rank) for token, rank in lines}
    return Encoding(**{**fields, "mergeable_ranks": ranks})


def _load_definitions() -> ModuleType:
    spec: Any = find_spec("tiktoken_ext.openai_public")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@lru_cache(maxsize=32)
def _read_definition(name: str) -> tuple[str, str, dict[str, Any]]:
    """
    What tiktoken defines for an encoding: the URL and the digest of its file, and its
    fields without what is in the file.
    """
    module = _load_definitions()
    asked: list[tuple[str, str]] = []

    def load(url: str, expected_hash: str) -> dict[bytes, int]:
        asked.append((url, expected_hash))
        return {}

    # tiktoken's loader downloads. In a version that keeps it under another name, it
    # would not be replaced, and must not run.
    assert callable(module.load_tiktoken_bpe)  # noqa: S101 - see above
    module.load_tiktoken_bpe = load  # type: ignore[attr-defined]
    fields = module.ENCODING_CONSTRUCTORS[name]()
    ((url, digest),) = asked
    return url, digest, fields


# The same vocabulary. tiktoken's definition of gpt2 reads two files of an older kind,
# through another loader.
_ALIASES = {"gpt2": "r50k_base"}


def _find_vocabulary(model: str) -> str:
    check_model_name(model)
    try:
        from tiktoken.model import (  # noqa: PLC0415 - an extra
            MODEL_TO_ENCODING,
            encoding_name_for_model,
        )
    except ImportError:
        raise MissingExtraError("by_tiktoken", "tiktoken") from None

    names = list(_load_definitions().ENCODING_CONSTRUCTORS)
    if model in names:
        name = model
    else:
        try:
            name = encoding_name_for_model(model)
        except KeyError:
            # Much longer names take long to compare, and are not a model's.
            near = get_close_matches(model[:100], [*MODEL_TO_ENCODING, *names])
            raise UnknownModelError(model, "tiktoken", tuple(near)) from None

    return _ALIASES.get(name, name)


def _find_file(name: str, files: str | os.PathLike[str] | None) -> Path:
    url, *_ = _read_definition(name)
    # The variables and the folder are those of `tiktoken.load.read_file_cached`, in its
    # order.
    cache = (
        os.environ.get("TIKTOKEN_CACHE_DIR")
        or os.environ.get("DATA_GYM_CACHE_DIR")
        or Path(tempfile.gettempdir()) / "data-gym-cache"
    )
    given = Path(cache if files is None else files).absolute()
    places = (given,)
    if files is None or given.is_dir():
        # Its cache names files by the digest of their URL.
        key = sha1(url.encode(), usedforsecurity=False).hexdigest()
        places = (given / url.rpartition("/")[2], given / key)  # type: ignore[assignment]

    for place in places:
        if place.is_file():
            return place

    raise MissingVocabularyError(name, url, tuple(map(str, places)))
