"""Counting with Mistral's vocabularies, compared with Mistral's own tokenizer."""

import functools
import pickle
import re
import socket
import sys
from pathlib import Path
from typing import Any

import mistral_common
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mistral_common.protocol.instruct import messages as theirs
from mistral_common.protocol.instruct import tool_calls as their_calls
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

from conversation_state.counting import by_mistral, count
from conversation_state.errors import MissingExtraError
from conversation_state.messages import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import ImagePart, TextPart
from conversation_state.testing import strategies as our
from conversation_state.tools import ToolCall

DATA = Path(mistral_common.__file__).parent / "data"


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Every socket is an error."""

    def refused(*_given, **_options):
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)


def their_tokens(tokenizer, chat):
    """How many tokens Mistral's own tokenizer makes of a whole conversation."""
    made: list[Any] = []
    for message in chat:
        if isinstance(message, UserMessage):
            made.append(theirs.UserMessage(content=message.text))
        elif isinstance(message, SystemMessage):
            made.append(theirs.SystemMessage(content=message.text))
        elif isinstance(message, ToolMessage):
            made.append(
                theirs.ToolMessage(
                    content=message.text,
                    tool_call_id=message.tool_call_id,
                    name=message.tool_name,
                )
            )
        else:
            calls = [
                their_calls.ToolCall(
                    id=call.id,
                    function=their_calls.FunctionCall(
                        name=call.name, arguments=call.arguments
                    ),
                )
                for call in message.tool_calls
            ]
            made.append(
                theirs.AssistantMessage(
                    content=message.text or None, tool_calls=calls or None
                )
            )

    request = ChatCompletionRequest(messages=made)
    return len(tokenizer.encode_chat_completion(request).tokens)


CALL = ToolCall("abcdefghi", "trains", '{"to": "Bern", "via": ["Thun", "Spiez"]}')
RESULT = ToolMessage(
    '{"departs": "12:30"}', tool_call_id="abcdefghi", tool_name="trains"
)
CHAT = [
    UserMessage("When does the next train to Bern leave?"),
    AssistantMessage(tool_calls=[CALL]),
    RESULT,
    AssistantMessage("Um halb eins. 🚂"),
    UserMessage("ありがとう"),
]
VERSIONS = ("tekken", "v3", "v7")


@functools.cache
def tokenizer_of(version):
    """Mistral's own tokenizer, which takes a second to load."""
    if version == "tekken":
        return MistralTokenizer.v3(is_tekken=True)

    return MistralTokenizer.v3() if version == "v3" else MistralTokenizer.v7()


class TestAgainstMistral:
    """Counts are those of Mistral's own tokenizer."""

    @pytest.mark.parametrize("version", VERSIONS)
    def test_counts_a_conversation_with_calls(self, version):
        """
        Messages together count what the whole request counts, but for its
        first token.
        """
        counter = by_mistral(version)

        expected = their_tokens(tokenizer_of(version), CHAT)
        assert expected == 1 + sum(map(counter, CHAT))

    @pytest.mark.parametrize("text", ["Be brief.", "You are kind", "x"])
    @pytest.mark.parametrize("version", VERSIONS)
    def test_counts_system_messages(self, version, text):
        """
        A system message, wherever the version puts it, and what parts it from
        the next one: never too few; where it is written before a user's
        message, one token may merge.
        """
        chat = [SystemMessage(text), *CHAT]
        counter = by_mistral(version)

        expected = their_tokens(tokenizer_of(version), chat)
        merged = 1 + sum(map(counter, chat)) - expected
        assert merged in ({0} if version == "v7" else {0, 1})

    def test_counts_calls_without_ids(self):
        """As Mistral writes them, under its id for a missing id."""
        call = ToolCall("", CALL.name, CALL.arguments)
        made = their_calls.ToolCall(
            function=their_calls.FunctionCall(name=CALL.name, arguments=CALL.arguments)
        )
        tokenizer: Any = tokenizer_of("tekken").instruct_tokenizer
        tokens = tokenizer.encode_assistant_message(
            theirs.AssistantMessage(content=None, tool_calls=[made]),
            is_before_last_user_message=False,
        )

        assert len(tokens) == by_mistral()(AssistantMessage(tool_calls=[call]))

    @settings(max_examples=40)
    @given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1))
    def test_counts_any_text(self, texts):
        """Whatever is written, the sum over messages is what the request counts."""
        chat = []
        for text in texts:
            chat += [UserMessage(text), AssistantMessage("Yes.")]
        chat.append(UserMessage("So?"))

        expected = their_tokens(tokenizer_of("tekken"), chat)
        assert expected == 1 + sum(map(by_mistral(), chat))

    @pytest.mark.parametrize("version", ["v1", "v2"])
    def test_counts_text_of_the_first_versions(self, version):
        """The oldest vocabularies count texts as their tokenizer does."""
        chat = [CHAT[0], CHAT[3], CHAT[4]]
        tokenizer = getattr(MistralTokenizer, version)()

        expected = their_tokens(tokenizer, chat)
        assert expected == 1 + sum(map(by_mistral(version), chat))

    def test_counts_calls_beside_text(self):
        """
        A text and calls in one message, which old versions never send, count
        as both do on their own, with one end.
        """
        counter = by_mistral()
        both = AssistantMessage("Let me see.", tool_calls=[CALL])

        apart = counter(AssistantMessage("Let me see.")) + counter(CHAT[1])
        assert apart - 1 == counter(both)


class TestRules:
    """Rules that are not in Mistral's tokenizer."""

    def test_counts_images_by_estimate(self):
        """An image is 64 rows of 64 patches and what ends each row, in any detail."""
        counter = by_mistral()
        text = counter(UserMessage("Hi"))

        for detail in ("", "low"):
            image = ImagePart(data=b"x", detail=detail)
            assert text + 4_160 == counter(UserMessage([TextPart("Hi"), image]))

    @settings(max_examples=50)
    @given(our.messages())
    def test_has_a_count_for_every_message(self, message):
        """Whatever a message holds can be counted, in every version."""
        for version in ("tekken", "v1", "v2", "v3", "v7"):
            assert by_mistral(version)(message) >= 0

    @pytest.mark.parametrize(
        "make",
        [
            UserMessage,
            lambda text: ToolMessage(text, tool_call_id="c"),
            lambda text: AssistantMessage(tool_calls=[ToolCall("c", "f", text)]),
        ],
        ids=["text", "result", "call"],
    )
    def test_counts_very_long_texts(self, make):
        """A million blanks, which is more than the pattern can split in one go."""
        assert 10_000 < by_mistral()(make(" " * 1_000_000)) < 20_000


class TestVersions:
    """Which vocabularies there are."""

    def test_reads_a_file(self):
        """A file by its path, as a text or a path."""
        path = DATA / "tekken_240718.json"
        counter = by_mistral(file=path)

        assert counter is by_mistral(file=str(path))
        assert by_mistral()(CHAT[0]) == counter(CHAT[0])
        assert f"by_mistral(file={str(path)!r})" == repr(counter)

    def test_names_the_versions_there_are(self):
        """Another version is refused, with those there are."""
        with pytest.raises(ValueError, match="expected one of tekken, v1, v2, v3, v7"):
            by_mistral("v4")

    def test_takes_a_version_or_a_file(self):
        """A file contains its version."""
        with pytest.raises(ValueError, match="got both"):
            by_mistral("v3", file="tekken.json")

    def test_reports_a_missing_file(self, tmp_path):
        """A file that is not there is named."""
        path = tmp_path / "tekken.json"
        with pytest.raises(FileNotFoundError, match=re.escape(str(path))):
            by_mistral(file=path)

    @pytest.mark.parametrize("name", ["tekken.json", "notes.txt"])
    def test_refuses_other_files(self, name, tmp_path):
        """A file that is not a vocabulary is named, and what would be one."""
        path = tmp_path / name
        path.write_text("{}")

        with pytest.raises(ValueError, match=r"is no vocabulary .* Give a tekken.json"):
            by_mistral(file=path)

    def test_needs_its_extra(self, monkeypatch):
        """Without mistral-common the error names the extra."""
        monkeypatch.setitem(sys.modules, "mistral_common.exceptions", None)
        by_mistral.__globals__["_load_tokenizer"].cache_clear()
        by_mistral.__globals__["_load_counter"].cache_clear()

        with pytest.raises(MissingExtraError, match=r"conversation-state\[mistral\]"):
            by_mistral()


class TestOnce:
    """What was counted stays counted."""

    def test_the_same_arguments_give_the_same_counter(self):
        """The same one here, and an equal one from another process."""
        counter = by_mistral("v7")
        back = pickle.loads(pickle.dumps(counter))
        message = UserMessage("Hi")
        count(message, counter)
        count(message, back)

        assert counter is by_mistral("v7")
        assert counter == back
        assert 1 == len(message._weights) // 2
        assert counter != by_mistral("v3")
        assert "by_mistral('v7')" == repr(counter)
