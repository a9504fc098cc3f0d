"""
Counting with tiktoken: from files, and never from the network.

The real vocabularies are not here; a tiny one stands for them.
"""

import base64
import hashlib
import socket
import sys
from importlib import import_module

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tiktoken.load import load_tiktoken_bpe

from conversation_state import Aggregator
from conversation_state.counting import (
    TokenBudget,
    _tiktoken,
    by_characters,
    by_encoding,
    by_tiktoken,
)
from conversation_state.errors import (
    MissingExtraError,
    MissingVocabularyError,
    UnknownModelError,
)
from conversation_state.messages import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import ImagePart, ReasoningPart, TextPart
from conversation_state.tools import ToolCall
from conversation_state.trimming import trim
from tests.processes import run_script

O200K = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
WORDS = (b"ab", b"abab", b"user", b"us", b"er")


def ranks(*words):
    """All bytes, and then *words*."""
    tokens = [*(bytes([byte]) for byte in range(256)), *words]
    return {token: rank for rank, token in enumerate(tokens)}


TINY = tiktoken.Encoding(
    "tiny",
    pat_str=r"\w+|\W",
    mergeable_ranks=ranks(*WORDS),
    special_tokens={"<|x|>": 900},
)


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Every socket is an error."""

    def refused(*_given, **_options):
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setattr(socket, "create_connection", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """
    A folder with a vocabulary of ours in place of ``o200k_base``, which has the
    digest it should have; and no cache of tiktoken's.
    """
    lines = [
        b64(token) + f" {rank}\n".encode() for token, rank in ranks(*WORDS).items()
    ]
    data = b"".join(lines)
    (tmp_path / "o200k_base.tiktoken").write_bytes(data)
    _, right, _ = _tiktoken._read_definition("o200k_base")
    real = hashlib.sha256

    class Digest:
        def __init__(self, given):
            self.given = given

        def hexdigest(self):
            return right if self.given == data else real(self.given).hexdigest()

    monkeypatch.setattr(_tiktoken, "sha256", Digest)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "elsewhere"))
    return tmp_path


def b64(token):
    """As the files have it."""
    return base64.b64encode(token)


class TestRules:
    """What a message counts."""

    counter = staticmethod(by_encoding(TINY.encode_ordinary))

    @pytest.mark.parametrize(
        ("tokens", "message"),
        [
            (3 + 1, UserMessage("")),
            (3 + 1 + 1, UserMessage("ab")),
            (3 + 1 + 3, UserMessage("ab ab")),
            (3 + 1 + 1 + 2, UserMessage("ab", name="u")),
            (3 + 6 + 1, SystemMessage("ab")),
            (3 + 4 + 1, ToolMessage("ab", tool_call_id="never counted")),
            (3 + 9 + 2, AssistantMessage([TextPart("ab"), ReasoningPart("abab")])),
            (3 + 9 + 3, AssistantMessage(tool_calls=[ToolCall("id", "ab", "{}")])),
            (3 + 1 + 765 + 1, UserMessage([ImagePart(data=b"x"), TextPart("ab")])),
        ],
    )
    def test_counts_texts_role_name_and_frame(self, tokens, message):
        """
        Texts and calls, the role, a name and one more, and three for each
        message; ids are never counted.
        """
        assert tokens == self.counter(message)

    def test_takes_special_tokens_for_text(self):
        """Messages can't contain a special token: its name is text like any other."""
        plain = len(TINY.encode_ordinary("<|x|>"))

        assert 1 < plain
        assert 3 + 1 + plain == self.counter(UserMessage("<|x|>"))

    @given(st.text(st.characters(codec="utf-8")))
    def test_counts_as_tiktoken_does(self, text):
        """A text has as many tokens as tiktoken makes of it."""
        expected = (
            3 + len(TINY.encode_ordinary("user")) + len(TINY.encode_ordinary(text))
        )
        assert expected == self.counter(UserMessage(text))

    @pytest.mark.parametrize("character", [" ", "a", "\n", "日"])
    def test_counts_very_long_texts(self, character, folder):
        """
        A million characters of one kind, which is more than OpenAI's pattern
        can split in one go, are counted in pieces.
        """
        counter = by_tiktoken("gpt-4o", files=folder)

        tokens = counter(UserMessage(character * 1_000_000))

        piece = counter(UserMessage(character * 100_000)) - 4
        assert 10 * piece + 4 == tokens


class TestFiles:
    """Where a vocabulary is looked for."""

    def test_reads_a_file(self, folder):
        """
        A file by its path, as a text or a path, or by its folder; for a model or by the
        vocabulary's name.
        """
        path = folder / "o200k_base.tiktoken"

        counter = by_tiktoken("gpt-4o", files=path)

        assert 3 + 1 + 1 == counter(UserMessage("abab"))
        assert counter is by_tiktoken("o200k_base", files=str(path))
        assert counter is by_tiktoken("gpt-4o-2024-08-06", files=folder)

    @pytest.mark.parametrize("variable", ["TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"])
    def test_reads_tiktokens_cache(self, folder, variable, monkeypatch):
        """Without files it is tiktoken's cache, where names are digests of urls."""
        cache = folder / "cache"
        cache.mkdir()
        key = hashlib.sha1(O200K.encode()).hexdigest()
        (folder / "o200k_base.tiktoken").rename(cache / key)
        monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
        monkeypatch.setenv(variable, str(cache))

        assert 3 + 1 + 1 == by_tiktoken("gpt-4o")(UserMessage("ab"))

    def test_names_the_missing_file(self, folder, monkeypatch):
        """
        Without the file: its name, its url, where it was looked for and how to
        point at it; and the network was not asked.
        """
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
        monkeypatch.setenv("DATA_GYM_CACHE_DIR", "")
        monkeypatch.setattr("tempfile.tempdir", str(folder / "tmp"))

        with pytest.raises(MissingVocabularyError) as caught:
            by_tiktoken("gpt-4o")

        error = caught.value
        cache = folder / "tmp" / "data-gym-cache"
        assert ("o200k_base", O200K) == (error.vocabulary, error.url)
        assert str(cache / "o200k_base.tiktoken") == error.places[0]
        assert (
            str(cache / "fb374d419588a4632f3f557e76b4b70aebbca790") == error.places[1]
        )
        assert O200K in str(error)
        assert "TIKTOKEN_CACHE_DIR" in str(error)
        assert isinstance(error, FileNotFoundError)

    def test_names_the_missing_given_file(self, folder):
        """A path that is given is the only one that is looked at."""
        with pytest.raises(MissingVocabularyError) as caught:
            by_tiktoken("gpt-4o", files=folder / "nothing.tiktoken")

        assert (str(folder / "nothing.tiktoken"),) == caught.value.places

    def test_refuses_another_file(self, folder):
        """A file with another digest than tiktoken's is refused, and named."""
        other = folder / "other.tiktoken"
        other.write_bytes(b"YQ== 0\n")

        with pytest.raises(ValueError, match=r"other.tiktoken is not .* o200k_base"):
            by_tiktoken("gpt-4o", files=other)

    @pytest.mark.parametrize(
        "name", ["cl100k_base", "o200k_harmony", "gpt2", "p50k_edit"]
    )
    def test_knows_all_vocabularies(self, name, tmp_path):
        """
        Each has a file and a digest, those of tiktoken itself, whose own loader is not
        touched.
        """
        with pytest.raises(MissingVocabularyError) as caught:
            by_tiktoken(name, files=tmp_path)

        assert caught.value.url.startswith("https://openaipublic.blob.core.windows.net")
        assert caught.value.url.endswith(".tiktoken")
        own = import_module("tiktoken_ext.openai_public")
        assert load_tiktoken_bpe is own.load_tiktoken_bpe


class TestModels:
    """Which names are taken."""

    def test_names_near_matches(self):
        """A name with a slip gives the names that are written like it."""
        with pytest.raises(UnknownModelError, match="did you mean 'gpt-4o'") as caught:
            by_tiktoken("gpt4o")

        assert ("gpt4o", "tiktoken") == (caught.value.model, caught.value.registry)

    def test_names_no_other(self):
        """Nothing is near nonsense, however long."""
        with pytest.raises(UnknownModelError, match="check the name"):
            by_tiktoken("#" * 1_000_000)

    def test_refuses_other_types(self):
        """A model is a name, and an encoding a function."""
        with pytest.raises(TypeError, match="expected the name of a model"):
            by_tiktoken(4)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="expected a function from a text"):
            by_encoding("o200k_base")  # type: ignore[arg-type]

    def test_needs_its_extra(self, monkeypatch):
        """Without tiktoken the error names the extra."""
        monkeypatch.setitem(sys.modules, "tiktoken", None)
        monkeypatch.setitem(sys.modules, "tiktoken.model", None)

        with pytest.raises(MissingExtraError, match=r"conversation-state\[tiktoken\]"):
            by_tiktoken("gpt-4o")


class TestOnce:
    """What was counted stays counted."""

    def test_a_new_counter_of_the_same_vocabulary_counts_nothing_again(
        self, folder, monkeypatch
    ):
        """
        A program may make the counter in every turn: each message is encoded
        once in its life, later states, forks and their views included.
        """
        encoded = []
        real = tiktoken.Encoding.encode_ordinary

        def noted(self, text):
            encoded.append(text)
            return real(self, text)

        monkeypatch.setattr(tiktoken.Encoding, "encode_ordinary", noted)
        chat = Aggregator.new()
        budget = TokenBudget(context_window=1_000)
        for n in range(40):
            chat = chat.add(UserMessage(f"turn {n}"))
            for state in (chat, chat.fork()):
                trim(state, budget, counter=by_tiktoken("gpt-4o", files=folder))

        history = [text for text in encoded if text != "user"]
        assert [f"turn {n}" for n in range(40)] == history

    def test_another_vocabulary_is_another_counter(self, folder):
        """Equal counts are for equal vocabularies only."""
        assert by_encoding(TINY.encode_ordinary) == by_encoding(TINY.encode_ordinary)
        assert by_encoding(TINY.encode_ordinary) != by_tiktoken("gpt-4o", files=folder)
        assert by_encoding(TINY.encode_ordinary) != by_characters


def test_importing_the_room_loads_no_extra():
    """Counting by characters needs none of the packages of the extras."""
    script = (
        "import sys, conversation_state.counting; "
        "print({'tiktoken', 'mistral_common', 'genai_prices', 'numpy', 'pydantic'}"
        " & {name.partition('.')[0] for name in sys.modules})"
    )
    loaded = run_script(script)

    assert "set()" == loaded.strip()
