"""Sessions of coding agents: their trees, their bills, and what becomes of damage."""

import json
import random
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conversation_state import Aggregator, AssistantMessage, ToolMessage, UserMessage
from conversation_state.adapters import anthropic, openai_responses, sessions
from conversation_state.adapters.engine.notes import notes_of
from conversation_state.adapters.sessions import FORMATS, WRITTEN, compacted, recognize
from conversation_state.codec import decode, encode
from conversation_state.counting import cost
from conversation_state.errors import DecodeError
from conversation_state.store import open_store

# Called with what their types refuse, too.
dump_session: Any = sessions.dump_session
load_session: Any = sessions.load_session
load_sessions: Any = sessions.load_sessions
read_session: Any = sessions.read_session

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "sessions"
CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"
CLAUDE = next((GOLDEN / "claude_code-2.1.332").glob("*.jsonl"))
CODEX = next((GOLDEN / "codex-0.171.0").glob("*"))
KEPT = {"21_", "45_", "46_", "47_"}
FILES = [path for path in sorted(GOLDEN.glob("*/*")) if path.is_file()]
SAMPLES = [
    *FILES,
    *[path for path in sorted(CASES.glob("*")) if path.name[:3] in KEPT],
]


def parse(path):
    """The lines of a file, as JSON."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def plain(value):
    """A frozen value of JSON, with lists and dicts."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}

    return [plain(each) for each in value] if isinstance(value, tuple) else value


def count(usage):
    """The tokens of the prompt and of the answer."""
    return usage.prompt_tokens, usage.completion_tokens


def outline(state):
    """The roles and texts of a state, calls by their names."""
    return [
        (each.role, each.text or "+".join(call.name for call in each.tool_calls))
        for each in state
    ]


def uuids(messages):
    """The ids of Claude Code's lines that *messages* are of, but hidden ones."""
    return [
        line["keys"]["uuid"]
        for message in messages
        for line in notes_of(message.metadata, "sessions").get("lines", ())
        if not line["keys"].get("isMeta")
    ]


class TestClaudeCode:
    """Lines of Claude Code."""

    def test_live_branch(self):
        """The head is what was said last; what was rewound is a branch beside it."""
        tree = read_session(CLAUDE).tree

        assert outline(tree.present) == [
            ("user", "<local-command-caveat>Ran /init</local-command-caveat>"),
            ("user", "Why is the cart total wrong?"),
            ("assistant", "I look at it."),
            ("tool", "1 failed"),
            ("tool", "total = 0"),
            ("assistant", "Rewrite the cart."),
            ("user", "No: the smallest fix."),
            ("assistant", "API Error: 529 overloaded"),
            ("user", "Again, please."),
            ("assistant", "Task"),
            ("tool", "In add()."),
            ("assistant", "It is add()."),
            ("user", "Fix add()."),
            ("assistant", "Fixed."),
        ]
        _, siblings = tree.siblings(tree.find("7c1e0000-0000-4000-8000-000000000014"))
        assert ["Do that.", "No: the smallest fix."] == [
            tree.node(each).message.text for each in siblings
        ]
        assert outline(tree.path(tree.leaves[0]))[-1] == ("assistant", "Rewriting.")

    def test_bill(self):
        """Each response is billed once, a rewound one too; an error line is not."""
        session = read_session(CLAUDE)

        assert [
            (
                each.id,
                each.model,
                each.usage.prompt_tokens,
                each.usage.completion_tokens,
            )
            for each in session.tree.present.ledger
        ] == [
            ("msg_A1", "claude-opus-4-7", 4312, 80),
            ("msg_A2", "claude-opus-4-7", 4309, 20),
            ("msg_A3", "claude-opus-4-7", 4409, 5),
            ("msg_A4", "claude-sonnet-5", 4507, 30),
            ("msg_A5", "claude-sonnet-5", 4608, 6),
            ("msg_A6", "claude-opus-4-7", 920, 9),
        ]
        usage = session.tree.total_usage
        assert usage.prompt_tokens_details.cached_tokens == 21800
        assert usage.extra["cache_write_tokens"] == 1200
        assert session.usage.total_tokens == usage.total_tokens + 7 + 8
        state = session.tree.present
        assert state.record_responses() is state

    def test_one_response(self):
        """The lines of a response are one message, with its thoughts and calls."""
        answer = read_session(CLAUDE).tree.present[2]

        assert isinstance(answer, AssistantMessage)
        assert [part.kind for part in answer.parts] == ["reasoning", "text"]
        assert [call.id for call in answer.tool_calls] == ["toolu_A1", "toolu_A2"]
        assert answer.response is not None
        assert (answer.response.id, answer.response.model) == (
            "msg_A1",
            "claude-opus-4-7",
        )
        assert answer.response.finish_reason == "tool_use"

    def test_results(self):
        """Results keep their call, the name of the tool, the error and the media."""
        failed, shown = read_session(CLAUDE).tree.present[3:5]

        assert isinstance(failed, ToolMessage)
        assert (failed.tool_call_id, failed.tool_name, failed.is_error) == (
            "toolu_A2",
            "Bash",
            True,
        )
        assert isinstance(shown, ToolMessage)
        assert [part.kind for part in shown.parts] == ["text", "image"]
        assert not shown.is_error

    def test_compaction(self):
        """What the model gets begins with the summary; the history keeps the rest."""
        state = read_session(CLAUDE).tree.present
        expected = [
            ("user", "This session continues. Summary: add() is wrong."),
            ("user", "Fix add()."),
            ("assistant", "Fixed."),
        ]

        assert outline(compacted(state)) == expected
        assert outline(compacted(decode(encode(state)))) == expected
        assert compacted(state[:5]) == tuple(state[:5])

    def test_compaction_at_the_end(self):
        """A compaction behind which nothing was said yet is a note of the session."""
        session = load_session(parse(CLAUDE)[:26])

        assert outline(session.tree.present)[-1] == ("assistant", "It is add().")
        assert outline(session.model_messages) == [
            ("user", "This session continues. Summary: add() is wrong.")
        ]

    def test_agents(self):
        """Sub-agents are sessions of their own, with the call that started them."""
        session = read_session(CLAUDE)

        assert [
            (each.name, each.called_by, outline(each.tree.present)[-1][1])
            for each in session.agents
        ] == [("a11", "toolu_A3", "In add()."), ("b22", "toolu_A9", "Docs are fine.")]
        assert read_session(CLAUDE.with_suffix("")) == session

    def test_agent_in_two_folders(self, tmp_path):
        """An agent's id in the folders of two runs is one agent, with both bills."""
        text = next((CLAUDE.with_suffix("") / "subagents").glob("*.jsonl")).read_text()
        shutil.copy(CLAUDE, tmp_path)
        for run in ("run1", "run2"):
            folder = tmp_path / CLAUDE.stem / "subagents" / run
            folder.mkdir(parents=True)
            # Ids of their own, as another run has them.
            other = re.sub(
                r'("(?:uuid|parentUuid|id|requestId)":\s*")', rf"\1{run}-", text
            )
            (folder / "agent-b22.jsonl").write_text(other)

        session = read_session(tmp_path / CLAUDE.name)

        assert [
            (each.name, len(each.tree), each.tree.total_usage.total_tokens)
            for each in session.agents
            if each.name == "b22"
        ] == [("b22", 4, 16)]

    def test_agent_alone(self):
        """The file of a sub-agent is a session by itself, too."""
        path = next((CLAUDE.with_suffix("") / "subagents").glob("*.jsonl"))
        session = read_session(path)

        assert session.name == "b22"
        assert outline(session.tree.present) == [
            ("user", "Check the docs."),
            ("assistant", "Docs are fine."),
        ]
        assert session.tree.total_usage.total_tokens == 8

    def test_agents_without_ids(self):
        """Side chains of old lines are agents by where they begin."""
        raws = parse(CLAUDE)
        for raw in raws:
            raw.pop("agentId", None)
            if isinstance(raw.get("toolUseResult"), dict):
                raw["toolUseResult"].pop("agentId", None)

        [agent] = load_session(raws).agents
        assert agent.called_by == "toolu_A3"
        assert [text for _, text in outline(agent.tree.present)] == [
            "Find where totals are added.",
            "In add().",
        ]

    def test_about(self):
        """Title, version and times are read; other lines are kept as they are."""
        session = read_session(CLAUDE)
        raws = parse(CLAUDE)

        assert (session.title, session.version) == ("Wrong cart total", "2.1.332")
        assert session.created_at is not None
        assert session.created_at.isoformat() == "2026-11-21T09:00:01+00:00"
        assert session.problems == ()
        kept = {each["at"]: each["line"] for each in session.notes["lines"]}
        assert kept.keys() == {1, 4, 9, 23, 24, 25, 26, 30, 31}
        assert {at: raws[at - 1] for at in kept} == plain(kept)

    def test_no_parents(self):
        """Lines of which none has a parent stand behind one another, which is said."""
        raws = [{**each, "parentUuid": None} for each in parse(CLAUDE)[1:3]]
        session = load_session(raws)

        assert len(session.tree.present) == 2
        assert session.problems == ("line 1: no line has a parent; taken one by one",)

    def test_unfinished(self):
        """A response that is still being written is billed when it is there."""
        raws = parse(CLAUDE)
        begun, later = load_session(raws[:5]), load_session(raws)

        assert begun.tree.total_usage.total_tokens == 0
        with open_store("memory:") as store:
            store.save_tree("s", begun.tree)
            store.save_tree("s", later.tree)

            assert store.load("s") == later.tree.present

    def test_error_lines(self):
        """A line of the model <synthetic> is no answer, whatever it counts."""
        raws = parse(CLAUDE)
        for raw in raws:
            if raw.pop("isApiErrorMessage", False):
                raw["message"]["usage"]["output_tokens"] = 7

        tree = load_session(raws).tree
        assert tree.total_usage == read_session(CLAUDE).tree.total_usage
        assert tree.present.record_responses() is tree.present

    def test_error_lines_are_no_answers_of_unknown_usage(self):
        """Of what Claude Code wrote itself, a bill does not say that it may lack it."""
        for_error = [raw for raw in parse(CLAUDE) if raw.get("isApiErrorMessage")]
        state = load_session(for_error).tree.present

        assert "<synthetic>" == state[-1].response.model
        assert () == cost(state).unbilled

    def test_what_is_sent(self):
        """
        Errors that Claude Code shows are marked, and left out of what the model gets;
        what it hides is marked, too, and sent.
        """
        session = read_session(CLAUDE)
        notes = [notes_of(each.metadata, "sessions") for each in session.tree.present]
        marks = [("hidden" in each, "unsent" in each) for each in notes]

        assert [(True, False), *[(False, False)] * 6, (False, True)] == marks[:8]
        assert not any(map(any, marks[8:]))
        shown = session.tree.present[:9]
        assert (*shown[:7], shown[8]) == compacted(shown)

    def test_answer_that_cannot_be_read(self):
        """All lines of such an answer are kept, and it is billed."""
        raws = parse(CLAUDE)
        raws[5]["message"]["content"] = [{"type": "text", "text": 5}]
        session = load_session(raws)
        kept = [message.role for message in session.tree.present]

        assert kept.count("unknown") == 4
        assert "I look at it." not in str(session.tree.present)
        first = next(m for m in session.tree.present if m.role == "unknown")
        assert "Read the code" in json.dumps(plain(first.raw))
        assert "line 5: can't be read: $.content[1].text" in session.problems[0]
        assert session.tree.total_usage == read_session(CLAUDE).tree.total_usage
        again = load_session(plain(dump_session(session, "claude_code").payload))
        assert again.tree == session.tree

    def test_hidden_branch_at_the_end(self):
        """What the interface hides is no head, though it was written last."""
        raws = parse(CLAUDE)
        hidden = {**raws[26], "uuid": "h", "parentUuid": raws[16]["uuid"]}
        session = load_session([*raws, {**hidden, "isMeta": True}])

        assert outline(session.tree.present)[-1] == ("assistant", "Fixed.")
        assert len(session.tree.leaves) == len(read_session(CLAUDE).tree.leaves) + 1

    def test_line_without_its_parent(self):
        """A line of a response belongs to it, though its parent is missing."""
        raws = parse(CLAUDE)
        raws[5]["parentUuid"] = "gone"
        session = load_session(raws)
        answer = session.tree.present[2]

        assert ("I look at it.", 2) == (answer.text, len(answer.tool_calls))
        assert answer.reasoning == "Read the code, run the tests."
        assert session.problems == ("line 6: its parent 'gone' is missing",)

    def test_a_turn_without_its_parent(self):
        """It stands behind the line before it, so nothing in front of it is hidden."""
        first = parse(CLAUDE)[1]
        said = {"message": {"role": "user", "content": "And now?"}}
        session = load_session(
            [first, {**first, **said, "uuid": "u", "parentUuid": "v"}]
        )

        assert 2 == len(session.tree.present)
        assert session.problems == ("line 2: its parent 'v' is missing",)

    def test_lines_of_forks(self):
        """
        Lines that a fork has twice are there once, behind those they stand behind, and
        are reported together.

        Source:
            https://github.com/anthropics/claude-code/issues/48936 and 40363.
        """
        raws = [raw for raw in parse(CLAUDE) if not raw.get("isSidechain")]
        said = [raw for raw in raws if "message" in raw]
        expected = outline(load_session(raws).tree.present)
        copies = [{**raw, "forkedFrom": {"sessionId": "s"}} for raw in raws]
        cut = [{**raw, "parentUuid": None} for raw in said[1:4]]
        for more in (said[-3:], cut):
            session = load_session([*copies, *more])
            kept = session.notes["lines"]
            unread = [each["line"] for each in kept if not each.get("is_read")]

            assert expected == outline(session.tree.present)
            assert session.problems[-1].endswith("(and 2 more like it)")
            assert not any("message" in raw for raw in unread)

    @pytest.mark.parametrize("logical", [["x"], {}, 5])
    def test_logical_parent_of_another_type(self, logical):
        """A compaction that names no line stands behind the one before it."""
        raws = parse(CLAUDE)
        for raw in raws:
            if raw.get("logicalParentUuid"):
                raw["logicalParentUuid"] = logical

        expected = outline(read_session(CLAUDE).tree.present)
        assert expected[:3] == outline(load_session(raws).tree.present)[:3]

    def test_line_that_stands_twice(self):
        """Of two lines with one id the later one stands, and the other is kept."""
        raws = parse(CLAUDE)
        said = {"role": "user", "content": "Fix it all."}
        session = load_session([*raws[:27], {**raws[26], "message": said}, *raws[27:]])

        assert outline(session.tree.present)[-2:] == [
            ("user", "Fix it all."),
            ("assistant", "Fixed."),
        ]
        what = "line 28: has other content under the id of line 27; this one stands"
        assert session.problems == (what,)
        assert "Fix add()." in str(session.notes["lines"])

    def test_prompts_of_the_queue(self):
        """A prompt that is in the queue only, as before 2.1.97, is reported."""
        raws = parse(CLAUDE)
        said = next(raw for raw in raws if "message" in raw)["message"]["content"]
        line = {"type": "queue-operation", "operation": "enqueue", "sessionId": "s"}
        raws += [{**line, "content": text} for text in (said, "Lint, too.", "Go on.")]

        what = "has a prompt that no message has; it is left out: 'Lint, too.'"
        expected = (f"line {len(raws) - 1}: {what} (and 1 more like it)",)
        assert expected == load_session(raws).problems

    @pytest.mark.parametrize(
        "prompt", ["Lint, too.", [{"type": "text", "text": "Lint, too."}]]
    )
    def test_prompt_while_the_model_answers(self, prompt):
        """
        What a user writes while a tool runs is a message where the model gets it, and
        is written as it was.

        Source:
            https://github.com/kenn-io/agentsview/issues/401
        """
        raws = parse(CLAUDE)
        attached = {"type": "queued_command", "prompt": prompt, "commandMode": "prompt"}
        last = [raw for raw in raws if "message" in raw][-1]
        line = {key: last[key] for key in last if key != "message"}
        more = {"type": "attachment", "uuid": "q", "attachment": attached}
        raws.append({**line, "parentUuid": last["uuid"], **more})
        session = load_session(raws)

        assert ("user", "Lint, too.") == outline(session.tree.present)[-1]
        assert raws == [*map(plain, dump_session(session, "claude_code").payload)]

    @pytest.mark.parametrize("seed", range(60))
    def test_oracle_of_drawn_sessions(self, seed):
        """Of any session Anthropic's reader has the same lines live, billed once."""
        sessions = pytest.importorskip("claude_agent_sdk._internal.sessions")
        raws = draw_session(random.Random(seed))
        entries = sessions._parse_transcript_entries("\n".join(map(json.dumps, raws)))
        theirs = sessions._entries_to_session_messages(entries, None, 0)

        tree = load_session(raws).tree
        assert sorted(uuids(tree.present)) == sorted(each.uuid for each in theirs)
        answers = {raw["message"]["id"] for raw in raws if raw["type"] == "assistant"}
        assert {each.id for each in tree.present.ledger} == answers

    def test_ids_that_repeat(self):
        """Two responses with one id are two, with two bills."""
        raws = parse(CLAUDE)
        for raw in raws:
            if raw.get("requestId") == "req_A2":
                raw["message"]["id"] = "msg_A1"

        tree = load_session(raws).tree
        assert [each.id for each in tree.present.ledger][:2] == [
            "msg_A1",
            "msg_A1:req_A2",
        ]
        assert len(tree.present) == 14

    @pytest.mark.parametrize("path", [CLAUDE, *sorted(CASES.glob("*claude_code*"))])
    def test_oracle(self, path):
        """Anthropic's own reader has the same live branch, behind a compaction."""
        sessions = pytest.importorskip("claude_agent_sdk._internal.sessions")
        entries = sessions._parse_transcript_entries(path.read_text())
        theirs = sessions._entries_to_session_messages(entries, None, 0)
        expected = [
            each.uuid
            for each in theirs
            if "Summary" not in str(each.message["content"])
        ]

        ours = compacted(read_session(path).tree.present)
        assert uuids(ours) == expected

    @pytest.mark.parametrize(
        ("kept", "expected"),
        [
            (("c", "d"), ["s", "c", "d", "e"]),
            (("a", "b"), ["a", "b", "s", "e"]),
            ((), ["s", "e"]),
        ],
    )
    def test_what_a_compaction_keeps(self, kept, expected):
        """
        What a compaction keeps stands behind the summary, or before it.

        Source:
            ``preservedSegment`` of the boundaries of Claude Code 2.1.
        """

        def speak(id, parent, **keys):
            message = {"role": "user", "content": id}
            line = {"type": "user", "uuid": id, "parentUuid": parent}
            return {**line, "message": message, **keys}

        lines = [speak("a", None), *map(speak, "bcd", "abc")]
        about = dict(zip(("headUuid", "tailUuid"), kept, strict=False))
        keys: dict[str, Any] = {"type": "system", "logicalParentUuid": "d"}
        keys["compactMetadata"] = {"preservedSegment": about}
        lines += [speak("x", None, **keys), speak("s", "x", isCompactSummary=True)]
        loaded = load_session([*lines, speak("e", "s")])

        assert expected == [each.text for each in loaded.model_messages]

    def test_logical_parents(self):
        """A line that only says behind which one it stands was read, and is kept."""
        said = {"type": "user", "message": {"role": "user", "content": "Go."}}
        begun = {**said, "uuid": "a", "parentUuid": None}
        behind = {"type": "system", "uuid": "x", "logicalParentUuid": "a"}
        goes_on = {**said, "uuid": "b", "parentUuid": "x"}
        loaded = load_session([begun, behind, goes_on])

        assert ["Go.", "Go."] == [each.text for each in loaded.tree.present]
        assert [{"at": 2, "is_read": True, "line": behind}] == [*loaded.notes["lines"]]


def number_of(text):
    """The number of the first line of the rollout that has a text."""
    lines = CODEX.read_text().splitlines()
    return next(at for at, line in enumerate(lines, 1) if text in line)


def say(letters):
    """
    Lines of Codex: prompts in lower case, answers in upper case, "<" for a context, and
    "-" where a turn was rolled back.
    """
    back = {"type": "thread_rolled_back", "num_turns": 1}
    return [
        {"type": "event_msg", "payload": back}
        if letter == "-"
        else {
            "type": "response_item",
            "payload": {
                "type": "message",
                "role": "assistant" if letter.isupper() else "user",
                "content": letter.replace("<", "<environment_context>"),
            },
        }
        for letter in letters
    ]


class TestCodex:
    """Rollouts of Codex."""

    def test_snapshots(self):
        """What Codex kept to undo a turn is no part of what was said."""
        lines = say("aBc")
        item = {"type": "ghost_snapshot", "ghost_commit": {"id": "x"}}
        lines.insert(1, {"type": "response_item", "payload": item})
        session = load_session(lines)

        assert ["a", "B", "c"] == [each.text for each in session.tree.present]
        assert lines[1] == dump_session(session, "codex").payload[1]

    @pytest.mark.parametrize(("code", "failed"), [(1, True), (0, False), ([0], True)])
    def test_exit_codes(self, code, failed):
        """A result's own JSON says whether its call failed, whatever it has there."""
        text = json.dumps({"output": "x", "metadata": {"exit_code": code}})
        lines = parse(golden("codex"))
        for line in lines:
            if line["payload"].get("type") == "function_call_output":
                line["payload"]["output"] = text

        results = [
            message
            for node in load_session(lines).tree.nodes
            if isinstance(message := node.message, ToolMessage) and message.text == text
        ]

        assert results
        assert {failed} == {result.is_error for result in results}

    def test_messages_of_events(self):
        """A message that only an event has is left out, and named."""
        lines = say("aB")
        for kind, text in (("user", "a"), ("agent", "B"), ("user", "c")):
            event = {"type": f"{kind}_message", "message": text}
            lines.append({"type": "event_msg", "payload": event})

        problems = load_session(lines, format="codex").problems

        assert ("line 5: a message that no item has; it is left out",) == problems

    def test_live_branch(self):
        """Turns that were rolled back are a branch, with the context they came with."""
        tree = read_session(CODEX).tree

        assert [text for _, text in outline(tree.present)[2:]] == [
            "Why is the cart total wrong?",
            "I look at it.",
            '{"output":"1 failed","metadata":{"exit_code":1,"duration_seconds":0.4}}',
            "the cart",
            "apply_patch",
            "Success.",
            "Rewrite the cart.",
            "No: the smallest fix.",
            "It is add().",
            "Fix add().",
            "Fixed.",
        ]
        _, siblings = tree.siblings(tree.find(f"line-{number_of('smallest fix')}"))
        first, second = [tree.node(each).message.text for each in siblings]
        assert first.startswith("<environment_context>")
        assert second == "No: the smallest fix."
        assert outline(tree.path(tree.leaves[0]))[-1] == ("assistant", "Rewriting.")

    def test_bill(self):
        """Each total is billed once, at the model that answered."""
        session = read_session(CODEX)
        ledger = session.tree.present.ledger

        assert [(each.model, *count(each.usage)) for each in ledger] == [
            ("gpt-5.2-codex", 1000, 60),
            ("gpt-5.2-codex", 1100, 10),
            ("gpt-5.2-codex", 1200, 7),
            ("gpt-5.2-codex", 1300, 5),
            ("gpt-5.2-mini", 1400, 6),
            ("gpt-5.2-mini", 300, 4),
        ]
        assert session.usage.prompt_tokens_details.cached_tokens == 5500
        assert session.usage.completion_tokens_details.reasoning_tokens == 20
        state = session.tree.present
        assert state.record_responses() is state

    def test_items(self):
        """Encrypted reasoning, calls, media and failures are kept."""
        answer, failed, shown = read_session(CODEX).tree.present[3:6]
        items = [
            raw["payload"] for raw in parse(CODEX)[6:11] if raw["type"] != "event_msg"
        ]

        assert [call.id for call in answer.tool_calls] == ["call_1", "call_2"]
        assert openai_responses.dump([answer]).payload["input"][:4] == items
        assert isinstance(failed, ToolMessage)
        assert (failed.tool_name, failed.is_error) == ("exec_command", True)
        assert [part.kind for part in shown.parts] == ["text", "image"]

    def test_compaction(self):
        """The model gets what replaced the history; the path has all of it."""
        session = read_session(CODEX)

        assert outline(session.model_messages) == [
            ("user", "No: the smallest fix."),
            ("user", "Summary: add() is wrong."),
            ("user", "Fix add()."),
            ("assistant", "Fixed."),
        ]
        assert (session.title, session.version) == ("Wrong cart total", "0.171.0")

    @pytest.mark.parametrize("end", ["", "b"])
    def test_compaction_after_an_answer(self, end):
        """The answer before a compaction is part of what it replaced."""
        summary = {"type": "compacted", "payload": {"message": "Summary."}}
        session = load_session([*say("aA"), summary, *say(end)])

        assert [text for _, text in outline(session.tree.present)] == ["a", "A", *end]
        assert [text for _, text in outline(session.model_messages)] == [
            "Summary.",
            *end,
        ]

    def test_bill_of_a_compaction(self):
        """What a compaction used is billed, although no answer is there for it."""
        counts = {"input_tokens": 900, "output_tokens": 40}
        info = {"total_token_usage": counts, "last_token_usage": counts}
        used = {"type": "token_count", "info": info}
        summary = {"type": "compacted", "payload": {"message": "Summary."}}
        lines = [*say("a"), summary, {"type": "event_msg", "payload": used}]

        assert (900, 40) == count(load_session(lines).usage)

    def test_bill_of_records(self):
        """
        Of usage that stands by response, too, that of compactions is billed besides
        what events have, and all of it where no event has any.

        Source:
            https://github.com/openai/codex/issues/47003
        """
        counts = {"input_tokens": 9, "output_tokens": 4}
        info = {"total_token_usage": counts, "last_token_usage": counts}
        event = {"type": "token_count", "info": info}
        lines = [*say("aA")]
        for id in ("r1", "c1"):
            record = {"response_id": id, "usage": counts}
            lines.append({"type": "token_usage_record", "payload": record})

        lines.append({"type": "compacted", "payload": {"compaction_response_id": "c1"}})
        lines.insert(3, {"type": "event_msg", "payload": event})
        both = load_session(lines)
        alone = load_session([*lines[:3], *lines[4:]])

        assert (18, 8) == count(both.usage) == count(alone.usage)
        assert ["r1", "c1"] == [each.id for each in alone.tree.present.ledger]

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("aA<<b-c", "aAc"),
            ("aA<b-<c-d", "aAd"),
            ("a<Ab-c", "a<Ac"),
            ("aAbB<-c-d", "aAd"),
            ("aA-b", "b"),
            ("<aAbB--c", "<c"),
        ],
    )
    def test_context_of_turns(self, before, after):
        """A turn goes with the context that came right before it, and with no more."""
        session = load_session(say(before))

        said = "".join(text[0] for _, text in outline(session.tree.present))
        assert said == after

    def test_missing_names(self):
        """What a later line leaves out, and what a fork began with, changes nothing."""
        events = [
            {"type": "session_meta", "payload": {"id": "fork", "cli_version": "2"}},
            {"type": "session_meta", "payload": {"id": "origin", "cli_version": "1"}},
            {"type": "turn_context", "payload": {"model": "gpt-5.2"}},
            {"type": "turn_context", "payload": {}},
            *(
                {"type": "event_msg", "payload": {"type": "thread_name_updated", **new}}
                for new in ({"thread_name": "Sums"}, {})
            ),
        ]
        session = load_session([*events, *say("aA")])

        assert (session.name, session.version, session.title) == ("fork", "2", "Sums")
        assert session.tree.present[-1].response.model == "gpt-5.2"

    def test_rollbacks(self):
        """A second rollback counts the turns that are left."""
        item, event = '{"type": "response_item", "payload": ', '{"type": "event_msg", '
        texts = [
            f'{item}{{"type": "message", "role": "user", "content": "{text}"}}}}'
            for text in "abcd"
        ]
        back = f'{event}"payload": {{"type": "thread_rolled_back", "num_turns": 2}}}}'
        session = load_session([*texts[:3], back, texts[3], back, texts[1]])

        assert [text for _, text in outline(session.tree.present)] == ["b"]
        ends = [session.tree.path(leaf) for leaf in session.tree.leaves]
        said = ["".join(text for _, text in outline(each)) for each in ends]
        assert sorted(said) == ["abc", "ad", "b"]

    def test_old_rollout(self):
        """Items without a payload around them, as old rollouts have them, are read."""
        text = [{"type": "input_text", "text": "Hi!"}]
        call = {"type": "function_call", "name": "sh", "arguments": "{}"}
        output = {"content": "no such file", "success": False}
        session = load_session(
            [
                {"id": "s1", "timestamp": "2025-05-01T10:00:00Z", "instructions": None},
                {"type": "message", "role": "user", "content": text},
                {"record_type": "state"},
                {**call, "call_id": "c1"},
                {"type": "function_call_output", "call_id": "c1", "output": output},
            ]
        )

        assert (session.name, session.problems) == ("s1", ())
        assert outline(session.tree.present) == [
            ("user", "Hi!"),
            ("assistant", "sh"),
            ("tool", "no such file"),
        ]
        assert session.tree.present[-1].is_error

    def test_items_that_cannot_be_read(self):
        """Items that can't be read are kept, and written again as they were."""
        raws = parse(CODEX)
        raws[7]["payload"]["content"] = 5
        session = load_session(raws)

        assert "line 7: can't be read" in session.problems[0]
        assert plain(dump_session(session, "codex").payload) == raws
        assert len(session.tree) > len(read_session(CODEX).tree)

    def test_running(self):
        """A response that is still being written is there, without its bill."""
        raws = parse(CODEX)
        begun = load_session(raws[:41]).tree

        assert outline(begun.present)[-1] == ("assistant", "Fixed.")
        whole = load_session(raws).tree.present.ledger
        assert len(begun.present.ledger) == len(whole) - 1

    def test_rollback_of_everything(self):
        """More turns than there are take all prompts away, and a wrong count none."""
        lines = CODEX.read_text().splitlines()
        rolled = [line.replace('"num_turns": 1', '"num_turns": 9') for line in lines]
        wrong = [line.replace('"num_turns": 1', '"num_turns": -1') for line in lines]
        tree = load_session(rolled).tree

        assert [text for _, text in outline(tree.present)[2:4]] == [
            "No: the smallest fix.",
            "It is add().",
        ]
        session = load_session(wrong)
        assert len(session.tree.leaves) == 1
        at = number_of("thread_rolled_back")
        assert session.problems == (f"line {at}: rolls back -1 turns; ignored",)


# Of the other formats: the live branch, what was rewound from which message on, and the
# bill.
LIVE = {
    "opencode": (
        (
            "Why is the cart total wrong? | I look at it. | total = 0 | 1 failed | "
            "Rewrite the cart. | The smallest fix. | edit | Go on. | Fixed."
        ),
        "No docs.",
        [(4312, 80), (4309, 20), (400, 8), (30, 4), (31, 3)],
    ),
    "gemini_cli": (
        (
            "Why is the cart total wrong? | I look at it. | total = 0 | 1 failed | "
            "Rewrite the cart. | No: the smallest fix. | Fixed."
        ),
        "Rewriting.",
        [(1000, 50), (1100, 7), (1200, 5), (1210, 4)],
    ),
    "pi": (
        (
            "Why is the cart total wrong? | I look at it. | total = 0 | 1 failed | "
            "Rewrite the cart. | The rewrite was begun. | No: the smallest fix. | "
            "It is add(). | Todo: fix add(). | Ran `git status`\n```\nclean\n``` | "
            "Fix add(). | Fixed."
        ),
        "Rewriting.",
        [(4312, 80), (4309, 20), (4409, 5), (50, 6), (4507, 6), (60, 7), (920, 9)],
    ),
    "sts": (
        ("Be brief. | Why is the cart total wrong? | read | total = 0 | Fix add()."),
        "",
        [],
    ),
}


def golden(name):
    """The newest golden file of a format."""
    return max(GOLDEN.glob(f"{name}-*/*"))


def pi(*messages):
    """Lines of Pi with these messages, one after another."""
    head = {"type": "session", "id": "1", "cwd": "/"}
    return [head, *({"type": "message", "message": each} for each in messages)]


class TestOthers:
    """OpenCode, Gemini CLI, Pi and the Simple Format."""

    @pytest.mark.parametrize("name", LIVE)
    def test_session(self, name):
        """The live branch, the other one and the bill are what the file says."""
        session = read_session(golden(name))
        tree = session.tree
        live, other, bill = LIVE[name]

        assert session.format == name
        assert session.title == "Wrong cart total"
        assert " | ".join(text for _, text in outline(tree.present)) == live
        assert [count(each.usage) for each in tree.present.ledger] == bill
        ends = [tree.node(each).message.text for each in tree.leaves]
        assert other in ends or not other
        state = tree.present
        assert state.record_responses() is state

    def test_compaction_with_words(self):
        """A prompt that also asks OpenCode for a compaction is a message."""
        payload = json.loads(golden("opencode").read_text())
        payload["messages"][2]["parts"].append({"type": "text", "text": "Shorter!"})

        said = [each.text for each in load_session(payload).tree.present]

        assert said[5:7] == ["Shorter!", "The smallest fix."]

    def test_entries_of_pi(self):
        """Roles of extensions are read; an id that stands twice is another entry."""
        head, first, asked, *_ = parse(golden("pi"))
        said = {"role": "system", "content": "Be brief."}
        system = {**asked, "id": "s", "message": said}
        asked = {**asked, "parentId": "s"}
        again = {**asked, "message": {**asked["message"], "content": "Why, then?"}}
        session = load_session([head, first, system, asked, asked, again])

        assert outline(session.tree.present) == [
            ("system", "Be brief."),
            ("user", "Why, then?"),
        ]
        assert len(session.tree) == 3
        assert session.problems == (
            "line 5: repeats line 4",
            "line 6: has the id of line 4; taken as another",
        )

    def test_aborted_in_pi(self):
        """An answer that was aborted is interrupted, and cost at least its usage."""
        raws = [dict(raw) for raw in parse(golden("pi"))]
        for raw in raws:
            message = raw.get("message", {})
            if message.get("role") == "assistant":
                raw["message"] = {**message, "stopReason": "aborted"}

        tree = load_session(raws).tree

        answers = [
            message.response.finish_reason
            for message in tree.present
            if message.role == "assistant"
        ]
        assert {"interrupted"} == {*answers}
        assert cost(tree.present).partial
        assert cost(tree.present).lines == cost(tree.present.rollback(0)).lines

    def test_tier_in_claude_code(self):
        """A tier without a price stays in the bill of an answer that was undone."""
        raws = [dict(raw) for raw in parse(golden("claude_code"))]
        for raw in raws:
            message = raw.get("message", {})
            if raw.get("type") == "assistant":
                usage = {**message["usage"], "service_tier": "batch"}
                raw["message"] = {**message, "usage": usage}

        state = load_session(raws).tree.present

        assert "may not apply (service_tier 'batch')" in cost(state).lines[0].why
        assert cost(state).lines == cost(state.rollback(0)).lines

    @pytest.mark.parametrize("name", ["opencode", "gemini_cli", "pi"])
    def test_results(self, name):
        """Results have their calls, the tool, the error and the media."""
        asked, answer, shown, failed = read_session(golden(name)).tree.present[:4]

        assert [part.kind for part in asked.parts] == ["text", "image"]
        assert [part.kind for part in answer.parts] == ["reasoning", "text"]
        assert [part.kind for part in shown.parts] == ["text", "image"]
        assert [call.id for call in answer.tool_calls] == [
            shown.tool_call_id,
            failed.tool_call_id,
        ]
        assert [shown.is_error, failed.is_error] == [False, True]
        assert [shown.tool_name, failed.tool_name] == [
            call.name for call in answer.tool_calls
        ]

    def test_details(self):
        """Signatures, cache writes, steps and labels are kept."""
        code, pi = read_session(golden("opencode")), read_session(golden("pi"))

        for session in (code, pi):
            thought = session.tree.present[1].parts[0]
            assert thought.signature == "RXhhbXBsZQ=="
            written = session.tree.present.ledger[0].usage.extra["cache_write_tokens"]
            assert written == 300

        # OpenCode's file is one document, so its problems name no line.
        assert code.problems == ("message 6: its call toolu_A3 has no result",)
        assert pi.labels == {pi.tree.find("00000005"): "before the fix"}
        assert [each.model for each in code.tree.present.ledger][-2:] == [
            "claude-sonnet-5",
            "claude-sonnet-5",
        ]

    def test_compaction(self):
        """What a compaction leaves: the summary, what was kept, what came since."""
        code, pi = read_session(golden("opencode")), read_session(golden("pi"))

        assert [text for _, text in outline(code.model_messages)] == [
            "Summary: add() is wrong.",
            "The smallest fix.",
            "edit",
            "Go on.",
            "Fixed.",
        ]
        expected = [
            "add() is wrong.",
            "No: the smallest fix.",
            "It is add().",
            "Todo: fix add().",
        ]
        assert [text for _, text in outline(pi.model_messages)][:4] == expected
        raws = parse(golden("pi"))
        tail = [raws[at]["message"] for at in (10, 12)]
        raws[13] = {**raws[13], "retainedTail": tail}
        del raws[13]["firstKeptEntryId"]
        again = load_session(raws)
        assert [text for _, text in outline(again.model_messages)][:4] == expected

    def test_what_is_kept_in_pi(self):
        """
        A compaction keeps from an entry on that may be no message; version 1 counts.

        Source:
            ``migrateV1ToV2`` and ``buildSessionContext`` of ``session-manager.ts``, and
            a session of November 2025 among Pi's fixtures.
        """
        said = [{"role": "user", "content": letter} for letter in "abc"]
        head, first, *rest = pi(*said)
        change: dict[str, Any] = {"type": "model_change", "modelId": "m"}
        compaction = {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 2}
        lines = [head, first, change, rest[0], compaction, rest[1]]
        older = load_session(lines)
        linked = [
            {**line, "id": f"{at}", "parentId": f"{at - 1}" if at > 1 else None}
            for at, line in enumerate(lines)
        ]
        linked[4] = {**linked[4], "firstKeptEntryId": "2"}
        del linked[4]["firstKeptEntryIndex"]
        newer = load_session(linked)

        assert ["s", "b", "c"] == [each.text for each in older.model_messages]
        assert ["s", "b", "c"] == [each.text for each in newer.model_messages]

    def test_commands_and_hooks_in_pi(self):
        """What Pi says of a command to the model is said; of others it is not."""
        command: Any = {"role": "bashExecution", "command": "ls"}
        said = [
            {**command, "output": "a", "exitCode": 0},
            {**command, "output": "", "exitCode": 2},
            {**command, "output": "", "cancelled": True},
            {**command, "output": "b", "excludeFromContext": True},
            {"role": "hookMessage", "content": "c"},
        ]
        loaded = load_session(pi(*said))

        expected = [
            "Ran `ls`\n```\na\n```",
            "Ran `ls`\n(no output)\n\nCommand exited with code 2",
            "Ran `ls`\n(no output)\n\n(command cancelled)",
            "Ran `ls`\n```\nb\n```",
            "c",
        ]
        assert expected == [each.text for each in loaded.tree.present]
        del expected[3]
        assert expected == [each.text for each in loaded.model_messages]

    @pytest.mark.parametrize("kind", ["opencode", "pi"])
    def test_errors_that_are_shown(self, kind):
        """An answer that failed shows its error, which no model gets."""
        asked = {"role": "user", "content": "a"}
        if kind == "pi":
            failed = {"role": "assistant", "content": [], "stopReason": "error"}
            lines: Any = pi(asked, {**failed, "errorMessage": "529"})
        else:
            error = {"name": "APIError", "data": {"message": "529"}}
            part = {"type": "text", "text": "a"}
            messages = [
                {"info": {"role": "user", "id": "1"}, "parts": [part]},
                {"info": {"role": "assistant", "id": "2", "error": error}, "parts": []},
            ]
            lines = {"info": {"id": "s"}, "messages": messages}

        loaded = load_session(lines)

        assert ["a", "529"] == [each.text for each in loaded.tree.present]
        assert ["a"] == [each.text for each in loaded.model_messages]

    def test_compactions_of_opencode(self):
        """A compaction keeps its tail, and one that failed leaves all as it was."""

        def load(**about):
            def say(id, role, *parts, **info):
                return {"info": {"id": id, "role": role, **info}, "parts": [*parts]}

            texts = [{"type": "text", "text": letter} for letter in "abcs"]
            ask = {"type": "compaction", "tail_start_id": "2"}
            said = [say(f"{at}", "user", text) for at, text in enumerate(texts[:3], 1)]
            summary = say("5", "assistant", texts[3], summary=True, **about)
            messages = [*said[:2], say("4", "user", ask), summary, said[2]]
            return load_session({"info": {"id": "s"}, "messages": messages})

        failed = load(error={"name": "ContextOverflowError", "data": {}})

        assert ["s", "b", "c"] == [each.text for each in load().model_messages]
        assert ["a", "b", "c"] == [each.text for each in failed.model_messages]

    def test_signatures(self):
        """A signature goes to no provider but its own, and there as it came."""
        item: Any = {"type": "reasoning", "id": "rs_1", "encrypted_content": "e"}
        thoughts: Any = [
            ("openai-responses", {"thinkingSignature": json.dumps(item)}),
            ("anthropic-messages", {"thinkingSignature": "s", "redacted": True}),
            ("openai-completions", {"thinkingSignature": "reasoning_content"}),
        ]
        said = [
            {
                "role": "assistant",
                "api": api,
                "content": [
                    {"type": "thinking", "thinking": "", **thought},
                    {"type": "text", "text": "a"},
                ],
            }
            for api, thought in thoughts
        ]
        state = load_session(pi(*said)).tree.present

        text = {"type": "text", "text": "a"}
        redacted = {"type": "redacted_thinking", "data": "s"}

        (made,) = anthropic.dump(state).payload["messages"]
        assert [text, redacted, text, text] == made["content"]
        items = openai_responses.dump(state).payload["input"]
        assert [{**item, "summary": []}] == [
            each for each in items if each.get("type") == "reasoning"
        ]
        about = {"itemId": "rs_1", "reasoningEncryptedContent": "e"}
        parts = [{"type": "reasoning", "text": "", "metadata": {"openai": about}}, text]
        told = {"info": {"role": "assistant", "id": "1"}, "parts": parts}
        other = load_session({"info": {"id": "s"}, "messages": [told]}).tree.present
        first, _ = openai_responses.dump(other).payload["input"]
        assert {**item, "summary": []} == first

    def test_checkpoint_without_its_messages(self):
        """Of messages that only a compaction of Pi keeps it is said that they are."""
        tail = [{"role": "user", "content": "Go."}] * 2
        compaction = {"type": "compaction", "id": "a", "parentId": None}
        said = {"type": "message", "id": "b", "parentId": "a", "message": tail[0]}
        loaded = load_session([{**compaction, "retainedTail": tail}, said])

        what = "line 1: it keeps 2 messages that no entry has; left out"
        assert (what,) == loaded.problems

    def test_checkpoint(self):
        """
        A checkpoint of the Gemini CLI goes on from what it repeats; what it has in
        other words is a branch, and its results stand with their calls.

        Source:
            ``updateMessagesFromHistory`` of ``chatRecordingService.ts``.
        """

        def answer(output):
            call = {"functionResponse": {"id": "c", "response": {"output": output}}}
            asked = {"functionCall": {"id": "c", "name": "f", "args": {}}}
            tool = {"id": "c", "name": "f", "args": {}, "result": [call]}
            content = [{"text": "On it."}, asked]
            said = {"id": "2", "type": "gemini", "content": content}
            result = {"id": "3", "type": "user", "content": [call]}
            return [{**said, "toolCalls": [tool]}, result]

        first = {"id": "1", "type": "user", "content": "Go."}
        end = {"id": "4", "type": "user", "content": "Go on."}
        lines = [
            first,
            *answer("long"),
            {"$set": {"messages": [first, *answer("long")]}},
        ]
        same = load_session([*lines, end])
        lines.append({"$set": {"messages": [first, *answer("short")]}})
        masked = load_session([*lines, end])

        expected = [("user", "Go."), ("assistant", "On it."), ("tool", "long")]
        assert [*expected, ("user", "Go on.")] == outline(same.tree.present)
        assert (1, 2) == (len(same.tree.leaves), len(masked.tree.leaves))
        assert ("tool", "short") == outline(masked.tree.present)[2]

    def test_text_that_grows(self):
        """A text of the Gemini CLI that grows is no longer said as it was before."""
        answer = {"id": "2", "type": "gemini", "content": "On", "timestamp": ""}
        loaded = load_session([answer, {**answer, "content": "One."}])

        assert () == loaded.problems
        assert [("assistant", "One.")] == outline(loaded.tree.present)

    def test_reasoning_in_the_output(self):
        """The total says whether OpenCode counts reasoning as output."""
        text = golden("opencode").read_text()
        whole = text.replace('"output": 70,', '"output": 80,')

        assert read_session(golden("opencode")).usage == load_session(whole).usage

    def test_label_that_was_removed(self):
        """A label without a text takes the label away."""
        raws = parse(golden("pi"))
        [label] = [raw for raw in raws if raw["type"] == "label"]
        gone = {key: label[key] for key in label if key != "label"}
        head = raws[-1]["id"]

        session = load_session([*raws, {**gone, "id": "x", "parentId": head}])
        assert session.labels == {}

    @pytest.mark.parametrize(
        "lines",
        [
            [
                {"sessionId": "s", "projectHash": "h"},
                {
                    "id": "a",
                    "type": "gemini",
                    "content": "Hi",
                    "tokens": {"input": "?"},
                },
            ],
            [
                {"type": "session", "version": 3, "id": "s", "cwd": "/"},
                {
                    "type": "message",
                    "id": "a",
                    "parentId": None,
                    "message": {
                        "role": "assistant",
                        "content": "Hi",
                        "usage": {"input": "?"},
                    },
                },
            ],
            [
                {
                    "info": {"id": "s"},
                    "messages": [
                        {
                            "info": {"id": "a", "role": "assistant", "tokens": 3},
                            "parts": [{"type": "text", "text": "Hi"}],
                        }
                    ],
                }
            ],
        ],
        ids=["gemini_cli", "pi", "opencode"],
    )
    def test_counts_that_cannot_be_read(self, lines):
        """They are in no bill, which is a problem of that line."""
        session = load_session(lines)

        assert [("assistant", "Hi")] == outline(session.tree.present)
        assert () == tuple(session.tree.present.ledger)
        assert any("counts can't be read" in each for each in session.problems)

    def test_gemini_files(self):
        """A file of Google's is a medium of its URL; what is none stays as it is."""
        content = [
            {"fileData": {"mimeType": "image/png", "fileUri": "https://a/b.png"}},
            {"fileData": {"mimeType": "image/png"}},
        ]
        lines = [
            {"sessionId": "s", "projectHash": "h"},
            {"id": "a", "type": "user", "content": content},
        ]
        (asked,) = load_session(lines).tree.present

        assert "https://a/b.png" == asked.parts[0].url
        assert ["image", "unknown"] == [part.kind for part in asked.parts]

    def test_gemini_document(self):
        """The document that Gemini CLI wrote before 2026 is the same conversation."""
        session = read_session(min(GOLDEN.glob("gemini_cli-*/*")))

        assert [text for _, text in outline(session.tree.present)] == [
            "Why is the cart total wrong?",
            "I look at it.",
            "total = 0",
            "1 failed",
            "Rewrite the cart.",
        ]
        assert session.notes["lines"][0]["line"]["content"] == "Quota exceeded"
        rewound = load_session([*parse(golden("gemini_cli"))[:7], {"$rewindTo": "x"}])
        assert outline(rewound.tree.path(rewound.tree.leaves[0]))[0][0] == "user"
        assert rewound.problems == ("line 8: rewinds to 'x', which is missing",)


def write_two(kind, end):
    """Two sessions of a format, as one file would have them behind one another."""
    texts = []
    for word in ("one", "two"):
        state = Aggregator.new([UserMessage(word), AssistantMessage(f"{word}!")])
        payload = dump_session(state, kind).payload
        records = payload if isinstance(payload, list) else [payload]
        texts.append("".join(f"{json.dumps(each)}\n" for each in records))

    return end.join(["".join(texts[:1]), "".join(texts[1:])])


class TestSeveral:
    """Sessions that stand behind one another."""

    @pytest.mark.parametrize("kind", [each for each in WRITTEN if each in FORMATS])
    def test_two(self, kind):
        """Each is loaded alone, with its own problems; load_session says so."""
        text = write_two(kind, end="{\n") + "{\n"
        first, second = load_sessions(text)

        assert outline(first.tree.present) == [("user", "one"), ("assistant", "one!")]
        assert outline(second.tree.present) == [("user", "two"), ("assistant", "two!")]
        assert first.name != second.name
        for each in (first, second):
            assert 1 == sum("is no JSON object" in line for line in each.problems)

        with pytest.raises(DecodeError, match="2 sessions; load_sessions"):
            load_session(text)

    @pytest.mark.parametrize("path", SAMPLES)
    def test_one(self, path):
        """A session alone is one, also if its lines stand in the file twice."""
        [found] = load_sessions(path.read_text())

        assert plain(found.notes) == plain(load_session(path.read_text()).notes)
        if path.suffix == ".jsonl":
            assert 1 == len([*load_sessions(path.read_text() * 2)])

    def test_shared_history(self):
        """A fork of Claude Code with lines of its source is one session with it."""
        raws = parse(CLAUDE)
        at = max(at for at, raw in enumerate(raws) if raw.get("parentUuid"))
        raws[at] = {**raws[at], "sessionId": "fork"}

        [found] = load_sessions(raws)

        assert len(found.tree) == len(load_session(CLAUDE.read_text()).tree)

    def test_lines_of_no_session(self):
        """Lines of Claude Code without a session's id stay with what they name."""
        first, second = [
            {
                "type": "user",
                "uuid": f"u{at}",
                "parentUuid": None,
                "sessionId": f"s{at}",
            }
            | {"message": {"role": "user", "content": f"q{at}"}}
            for at in (1, 2)
        ]
        title = {"type": "summary", "summary": "T", "leafUuid": "u2"}

        one, two = load_sessions([first, title, second])

        assert ("", "s1") == (one.title, one.name)
        assert ("T", "s2") == (two.title, two.name)

    @pytest.mark.parametrize("kind", ["claude_code", "codex", "pi", "sts"])
    def test_goes_on(self, kind):
        """Lines of a session that stand behind another one's are of the first."""
        first, _, second = write_two(kind, end="|").partition("|")
        found = [*load_sessions(f"{first}{second}{first}")]

        assert 2 == len(found)

    def test_two_heads(self):
        """A rollout of Codex that was resumed may have the old head behind its own."""
        raws = parse(CODEX)
        head = {**raws[0], "payload": {**raws[0]["payload"], "id": "resumed"}}

        [found] = load_sessions([head, *raws])

        assert "resumed" == found.name

    def test_heads_of_a_fork(self):
        """A rollout of Codex that names its source has the head and the items of it."""
        raws = parse(CODEX)
        own = {"id": "fork", "forked_from_id": raws[0]["payload"]["id"]}
        head = {**raws[0], "payload": {**raws[0]["payload"], **own}}
        said = {"type": "message", "role": "user", "content": "new"}
        item = {"type": "response_item", "payload": said}

        [fork] = load_sessions([head, item, *raws])
        source, other = load_sessions([*raws, head, item])

        assert "fork" == fork.name == other.name
        assert source.name == raws[0]["payload"]["id"]
        assert [("user", "new")] == outline(other.tree.present)

    def test_one_without_messages(self):
        """A session in which nothing was said is an error, and hides no other."""
        heads = [{"type": "session", "harness": "h", "id": id} for id in ("a", "b")]
        said = {"type": "message", "message": {"role": "user", "content": "hi"}}

        empty, found = load_sessions([heads[0], heads[1], said])

        assert isinstance(empty, DecodeError)
        assert ("b", [("user", "hi")]) == (found.name, outline(found.tree.present))


class TestEvery:
    """What holds for all formats."""

    @pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
    def test_values(self, path):
        """Equal bytes give equal values, which a store and the codec give back."""
        session = read_session(path)

        assert all("has no result" in each for each in session.problems)
        assert read_session(path) == session
        assert decode(encode(session.tree)) == session.tree
        assert (
            load_session(path.read_text(), format=session.format).tree == session.tree
        )
        with open_store("memory:") as store:
            store.save_tree("s", session.tree)
            head = store.save_tree("s", session.tree)

            assert store.message_tree("s").present == session.tree.present
            is_inner = session.tree.head not in session.tree.leaves
            assert head.revision == len(session.tree.leaves) + is_inner

    @pytest.mark.parametrize("name", [each for each in FORMATS if each != "opencode"])
    @pytest.mark.parametrize("kind", [None, "of the future", ["user"]])
    def test_type_that_is_not_known(self, name, kind):
        """What was said on a line of another type is kept, which is reported."""
        lines = parse(next(GOLDEN.glob(f"{name}-*/*.jsonl")))
        at = [
            number
            for number, line in enumerate(lines)
            if any(
                isinstance(each, dict) and each.get("content")
                for each in (line, line.get("message"), line.get("payload"))
            )
        ][-1]
        said = lines[at]["type"]
        lines[at]["type"] = kind

        session = load_session(lines, format=name)

        assert f"line {at + 1}: has content and is of type {kind!r}; kept as it is" in (
            session.problems
        )
        assert lines[at] in [plain(each.get("line")) for each in session.notes["lines"]]
        lines[at]["type"] = said
        assert not [
            each
            for each in load_session(lines, format=name).problems
            if "kept as it is" in each
        ]

    @pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
    def test_growth(self, path):
        """A session that has grown continues its name, whenever it was read."""
        pieces, join = split(path)
        last = read_session(path).tree
        with open_store("memory:") as store:
            for end in range(1, len(pieces) + 1):
                try:
                    tree = load_session(join(pieces[:end])).tree
                except DecodeError:
                    continue

                store.save_tree("s", tree)

            saved = store.message_tree("s")
            assert outline(saved.present) == outline(last.present)
            assert saved.total_usage == last.total_usage
            assert {node.message for node in last} <= {each.message for each in saved}

    @pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
    def test_mutations(self, path):
        """Damage is one clear error, or a tree and what was mended or is missing."""
        pieces, join = split(path)
        # But what is made of several keys.
        said = {node.message.text for node in read_session(path).tree}
        texts = {text for text in said if not text.startswith("Ran ")}
        for seed in range(60):
            chance = random.Random(f"{path.name}-{seed}")
            mutated, gone = mutate(chance, pieces)
            try:
                session = load_session(join(mutated))
            except DecodeError:
                continue

            found = json.dumps(
                [node.message.text for node in session.tree], ensure_ascii=False
            )
            kept = str(session.notes)
            for text in texts:
                quoted = json.dumps(text, ensure_ascii=False)[1:-1]
                assert (
                    quoted in found
                    or text in kept
                    or quoted in gone
                    or text in str(session.agents)
                ), (seed, text, session.problems)

    @pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
    def test_wrong_values(self, path):
        """A value of another type is an error or a session, which can be written."""
        text = path.read_text()
        raws = json.loads(text) if path.suffix == ".json" else parse(path)
        places = list(list_places(raws))
        for seed in range(25):
            chance = random.Random(f"{path.name}-{seed}")
            place = chance.choice(places)
            wrong = chance.choice([None, 5, "", [], {"a": 1}, [None], 10**30])
            try:
                session = load_session(put(raws, place, wrong))
            except DecodeError:
                continue

            kind = chance.choice(WRITTEN)
            assert json.dumps(dump_session(session, kind).payload)

    def test_refused(self):
        """What is no session is refused in one sentence, and an unknown format too."""
        assert recognize([{"role": "user", "content": "Hi!"}]) == ""
        payload: Any
        for payload in ("", "{}", "[1, 2]", {"messages": []}, ["{"], b"\xff"):
            with pytest.raises(DecodeError, match="no session; expected"):
                load_session(payload)

        with pytest.raises(DecodeError, match="read_session reads a file"):
            load_session("~/.claude/projects/app/5d0b.jsonl")

        with pytest.raises(DecodeError, match="expected the lines of a session"):
            load_session(CLAUDE)

        with pytest.raises(DecodeError, match="has no messages"):
            load_session(parse(CLAUDE)[:1], format="claude_code")

        unread: Any = {"type": "user", "uuid": "1", "message": {}}
        with pytest.raises(DecodeError, match="that can be read"):
            load_session([{**unread, "parentUuid": None}])

        with pytest.raises(ValueError, match=f"expected {', '.join(FORMATS)}"):
            load_session([], format="cursor")

        with pytest.raises(DecodeError, match="sessions"):
            read_session(GOLDEN)

        with pytest.raises(TypeError, match="path of a file"):
            read_session(5)

    @pytest.mark.parametrize("name", FORMATS)
    def test_without_head(self, name):
        """A session whose first line is missing is recognised by the others."""
        path = golden(name)
        if path.suffix == ".json":
            document = json.loads(path.read_text())
            session = load_session({**document, "info": {}})
        else:
            session = load_session(path.read_text().splitlines()[1:])

        assert session.format == name
        assert len(session.tree) >= len(read_session(path).tree) - 1

    def test_damaged_text(self):
        """A line that is no JSON, or not UTF-8, is kept and named."""
        text = CLAUDE.read_bytes().replace(b"queue-operation", b"\xff\xfe", 1)
        session = load_session(text + b'{"type": "user", "mess')

        assert len(session.tree.present) == 14
        assert "UTF-8" in session.problems[0]
        assert "line 32: is no JSON object; kept as it is" in session.problems
        assert session.notes["lines"][-1]["text"] == '{"type": "user", "mess'


def split(path):
    """The lines of a file, or the messages of a document, and what joins them."""
    text = path.read_text()
    if path.suffix != ".json":
        return text.splitlines(), lambda pieces: pieces

    document = json.loads(text)

    def join(pieces):
        messages = [read_piece(piece) for piece in pieces]
        return {**document, "messages": messages}

    return [json.dumps(each) for each in document["messages"]], join


def read_piece(piece):
    """A message of a document, or the rest of one that was cut."""
    try:
        return json.loads(piece)
    except ValueError:
        return piece


def list_places(value, place=()):
    """The ways to all values in a value of JSON."""
    inside: Any = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value) if isinstance(value, list) else inside
    for key, each in inside:
        yield (*place, key)
        yield from list_places(each, (*place, key))


def put(value, place, other):
    """*value* with an *other* value at one place."""
    if not place:
        return other

    copied = value.copy()
    copied[place[0]] = put(value[place[0]], place[1:], other)
    return copied


def draw_session(chance):
    """A session of Claude Code with rewinds, parallel calls and hidden lines."""
    raws: list[Any] = []

    def add(kind, parent, content, **keys):
        at = len(raws)
        raw = {"type": kind, "uuid": f"u{at}", "parentUuid": parent, "sessionId": "s"}
        raw |= {"timestamp": f"2026-01-01T00:{at // 60:02d}:{at % 60:02d}Z"}
        message = {"role": kind, "content": content, **keys.pop("about", {})}
        raws.append({**raw, "message": message, **keys})
        return raw["uuid"]

    tip, ends = None, [None]
    for turn in range(chance.randint(1, 6)):
        tip = chance.choice([tip, tip, tip, chance.choice(ends)])
        if chance.random() < 0.2:
            tip = add("user", tip, "Caveat.", isMeta=True)

        tip = add("user", tip, f"prompt {turn}")
        calls = [f"c{turn}-{number}" for number in range(chance.randint(0, 3))]
        blocks: list[Any] = [{"type": "text", "text": f"answer {turn}"}]
        blocks += [
            {"type": "tool_use", "id": call, "name": "run", "input": {}}
            for call in calls
        ]
        usage = {"input_tokens": 1, "output_tokens": 2}
        about = {"id": f"m{turn}", "stop_reason": "end_turn", "usage": usage}
        makers = {}
        for block in blocks:
            tip = add("assistant", tip, [block], about=about, requestId=f"r{turn}")
            makers[block.get("id")] = tip

        chance.shuffle(calls)
        is_chained = chance.random() < 0.5
        last = None
        for call in calls:
            parent = (last if is_chained else None) or makers[call]
            result = {"type": "tool_result", "tool_use_id": call, "content": call}
            last = add("user", parent, [result])

        tip = last or tip
        ends.append(tip)

    return raws


def mutate(chance, lines):
    """*lines* with one or two faults, and the text of what is missing."""
    lines = list(lines)
    gone = ""
    for _ in range(chance.choice((1, 1, 2))):
        at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        kind = chance.choice(("miss", "double", "swap", "cut", "id", "ring"))
        if kind == "miss":
            gone += lines.pop(at)
        elif kind == "double":
            lines.insert(other, lines[at])
        elif kind == "swap":
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == "cut":
            gone += lines[at]
            lines[at] = lines[at][: chance.randrange(len(lines[at]))]
        else:
            lines[at] = repoint(kind, lines[at], lines[other])

        if not lines:
            break

    return lines, gone


def repoint(kind, line, other):
    """*line* with the id of *other*, or with *other* or itself as its parent."""
    try:
        one, two = json.loads(line), json.loads(other)
    except ValueError:
        return line

    if not isinstance(one, dict) or not isinstance(two, dict):
        return line

    about, other_one = one.get("info"), two.get("info")
    if isinstance(about, dict) and isinstance(other_one, dict):
        return json.dumps({**one, "info": {**about, "id": other_one["id"]}})

    inner, outer = one.get("payload"), two.get("payload")
    if kind == "id" and isinstance(inner, dict) and isinstance(outer, dict):
        call = outer.get("call_id", "call_1")
        return json.dumps({**one, "payload": {**inner, "call_id": call}})

    for own, parent in (("uuid", "parentUuid"), ("id", "parentId")):
        if isinstance(one.get(own), str) and isinstance(two.get(own), str):
            key, value = (own, two[own]) if kind == "id" else (parent, two[own])
            return json.dumps({**one, key: value}, ensure_ascii=False)

    return line


def test_text_is_a_user_message():
    """A compaction's summary is a user's message, as the agent sends it."""
    assert isinstance(compacted(read_session(CLAUDE).tree.present)[0], UserMessage)
