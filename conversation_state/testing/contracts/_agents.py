"""
What an agent promises over a whole conversation, whatever its framework and language.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

import attrs
from hypothesis import HealthCheck, Phase, Verbosity, given
from hypothesis import settings as Settings  # noqa: N812 - a class
from hypothesis.errors import Flaky

from conversation_state._persistent import check_list
from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator
from conversation_state.messages import AssistantMessage
from conversation_state.testing._code import format_example
from conversation_state.testing._wire_answers import list_early_tokens
from conversation_state.testing.contracts._agent_reading import (
    RequestLine,
    read_arguments,
    read_request,
)
from conversation_state.testing.contracts._agent_runs import (
    LAST_PROMPT,
    Agent,
    AgentForm,
    Answered,
    ScriptOutcome,
    is_settled,
    make_form,
    play,
)
from conversation_state.testing.contracts._agent_scripts import (
    ACTS_OF_USERS,
    AgentTurn,
    CutStream,
    Script,
    draw_scripts,
    is_good,
    list_named,
    list_smaller,
)
from conversation_state.testing.contracts._contract import check_names, name_test
from conversation_state.testing.contracts._results import (
    BROKEN,
    DECLARED,
    HOLDS,
    NOT_RUN,
    BrokenLawsError,
    LawResult,
    describe_subject,
    find_definition,
    name_subject,
)
from conversation_state.testing.provider import Reply
from conversation_state.tools import ToolInfo
from conversation_state.usage import Usage

# The laws, in the order in which they are judged: an earlier one explains more.
LAWS = {
    "requests are accepted": "Each request is one that the provider accepts.",
    "rounds end": "A turn ends within the most requests that are allowed.",
    "a stop ends the turn": "An agent that is stopped sends no more requests.",
    "cut answers are no answers": "Of a stream that broke off comes an error, a retry, "
    "or a reply that says so; not its beginning as if it were all.",
    "the thread is usable": "Whatever happened before, an answer that comes without "
    "fault is given to the user; also after errors, a stop or a crash.",
    "nothing is lost": "What a request had and was answered, each later one of the "
    "thread has: what users wrote, answers, calls with their arguments, and results.",
    "nothing is there twice": "A request has what a user wrote, and what the model "
    "answered, as often as they did, also after a retry.",
    "responses are billed once": "The usage that the agent states is that of the "
    "responses it got, each once, also after a retry; of one that was cut off all of "
    "it, nothing, or what the events before the cut reported.",
    "the prefix is stable": "Each request begins with what the one before had, so that "
    "a provider's cache is used.",
    "the budget is kept": "No request is larger than the budget.",
}
# Laws whose breach lets the turn fail.
_FAILING = {"requests are accepted", "rounds end"}
_UNSETTLED = {"stop", "write", "crash"}
_CHARACTERS = 4  # of a token, about
_MOST_SUMS = 10_000  # of what an agent may be billed
_SHOWN_SUMS = 8
_SHOWN_LINES = 6
_EXAMPLES_OF_COMMAND = 0.2  # of those of a function, because each turn is a start
_SHRINKING_S = 30.0
# What is found is made smaller here, act by act: each run takes its time.
_OWN_PHASES = {Phase.shrink, Phase.explain}


@attrs.frozen
class AgentReport:
    """
    What came of `check_agent`.

    Attributes:
        scripts: How many scripts were run.
        acts: What the user did in them.
        not_drawn: What this form of agent can't do, and was not drawn.
        results: What came of each law.
    """

    scripts: int
    acts: tuple[str, ...]
    not_drawn: tuple[str, ...]
    results: tuple[LawResult, ...]

    def __str__(self) -> str:
        """What was tried, and what was not."""
        text = f"{self.scripts} scripts; the user may {', '.join(self.acts)}"
        if not self.not_drawn:
            return text

        return f"{text}; not drawn, for this form can't: {', '.join(self.not_drawn)}"


class _AgentError(AssertionError):
    """An agent breaks a law."""

    def __init__(self, law: str, what: str) -> None:
        super().__init__(law, what)
        self.law, self.what = law, what

    def __str__(self) -> str:
        return self.what


@attrs.define
class _Judge:
    """Looks for laws that an outcome breaks."""

    wire: str
    max_rounds: int
    budget: int | None
    compacts: bool
    without: frozenset[str]

    def find_broken(self, outcome: ScriptOutcome) -> list[_AgentError]:
        """An error for each law that is broken, with what is found first."""
        checks: dict[str, Callable[[ScriptOutcome], Iterator[str]]] = {
            "requests are accepted": self._find_refused,
            "rounds end": self._find_endless,
            "a stop ends the turn": self._find_unstopped,
            "cut answers are no answers": self._find_cut,
            "the thread is usable": self._find_unusable,
            "nothing is lost": self._find_lost,
            "nothing is there twice": self._find_doubled,
            "responses are billed once": self._find_unbilled,
            "the prefix is stable": self._find_unstable,
            "the budget is kept": self._find_large,
        }
        broken: dict[str, _AgentError] = {}
        for law, find in checks.items():
            # A request that is refused fails, too.
            is_told = law == "the thread is usable" and not _FAILING.isdisjoint(broken)
            if law not in self.without and not is_told:
                for what in islice(find(outcome), 1):
                    broken[law] = _AgentError(law, what)

        return list(broken.values())

    def _find_refused(self, outcome: ScriptOutcome) -> Iterator[str]:
        for number, request in enumerate(outcome.requests):
            for refusal in request.refusals:
                lines = read_request(self.wire, request.body)
                yield (
                    f"request {number} is refused: {refusal.rule.name} at "
                    f"{refusal.path}: {refusal.message}\n{_show_lines(lines)}"
                )

    def _find_endless(self, outcome: ScriptOutcome) -> Iterator[str]:
        for each in outcome.outcomes:
            if each.is_endless:
                yield (
                    f"the turn {each.prompt!r} did not end in time; give its requests "
                    "a timeout and its loop a limit, or raise timeout_s"
                )

        for number, count in enumerate(outcome.counts, 1):
            if count > self.max_rounds:
                yield (
                    f"turn {number} has {count} requests, and {self.max_rounds} are "
                    "allowed; give the loop a limit of rounds and retries, after which "
                    "it replies or fails, or raise max_rounds"
                )

    def _find_unstopped(self, outcome: ScriptOutcome) -> Iterator[str]:
        for each in outcome.outcomes:
            # The first may have been on its way when the stop came.
            if each.requests_after_stop > 1:
                yield (
                    f"the turn {each.prompt!r} was stopped, and sent "
                    f"{each.requests_after_stop} requests after that; let "
                    "CancelledError, or KeyboardInterrupt, pass"
                )

    def _find_cut(self, outcome: ScriptOutcome) -> Iterator[str]:
        for number, turn in enumerate(outcome.script):
            own = [each for each in outcome.answered if each.turn == number]
            last = own[-1].answer if own else None
            if turn.act != "ask" or not isinstance(last, (Reply, CutStream)):
                continue

            found = [each for each in outcome.outcomes if each.prompt == turn.prompt]
            answer: Any = last.answer
            is_stream = own[-1].request.is_stream
            # A body may be cut behind its last byte of text.
            if found and found[0].error is None and is_stream:
                text = _read_reply(found[0].reply)
                if text is not None and text and text in answer.text:
                    yield (
                        f"the stream broke off, and {shorten_repr(text)} is the reply "
                        f"to {turn.prompt!r}"
                    )

    def _find_unusable(self, outcome: ScriptOutcome) -> Iterator[str]:
        for number, turn in enumerate((*outcome.script, AgentTurn(LAST_PROMPT))):
            # Faults and mistakes of the model may be errors; what comes later may not.
            if turn.act != "ask" or not all(map(is_good, turn.answers)):
                continue

            own = [each for each in outcome.answered if each.turn == number]
            for each in outcome.outcomes:
                if each.prompt == turn.prompt and each.error is not None:
                    kind = type(each.error).__name__
                    yield f"{turn.prompt!r} fails with {kind}: {each.error}"
                elif each.prompt == turn.prompt and not each.is_endless:
                    if own:
                        yield from self._check_reply(turn.prompt, each.reply, own[-1])
                    elif not outcome.requests:
                        yield f"{turn.prompt!r} sends no request to the base URL"

    def _check_reply(self, prompt: str, reply: Any, last: Answered) -> Iterator[str]:
        text, expected = _read_reply(reply, is_cut=True), last.answer
        if not isinstance(expected, AssistantMessage) or expected.tool_calls:
            return

        if text is None and expected.text:
            yield (
                f"the reply to {prompt!r} is {shorten_repr(reply)}; expected a text, "
                "or what has one: {'text': …}, or a state"
            )
        elif text is not None and expected.text not in text:
            yield (
                f"the reply to {prompt!r} is {shorten_repr(text)}, and the model "
                f"answered {expected.text!r}"
            )

    def _list_settled(self, outcome: ScriptOutcome) -> list[Answered]:
        script = [*outcome.script, AgentTurn(LAST_PROMPT)]
        return [
            each
            for each in outcome.answered
            if is_settled(each)
            and script[each.turn].act not in _UNSETTLED
            and not each.request.refusals
        ]

    def _find_lost(self, outcome: ScriptOutcome) -> Iterator[str]:
        settled = self._list_settled(outcome)
        if self.compacts or not settled:
            return

        known: dict[tuple[str, str], int] = {}
        called: dict[str, str] = {}
        for number, each in enumerate(settled):
            lines = read_request(self.wire, each.request.body)
            here = {_name_line(line) for line in lines}
            for line in lines:
                # Calls may be sent back under other ids: made ones, or such as a
                # provider takes.
                has_id = line.kind == "call" and line.id
                made = called.get(line.id, "") if has_id else ""
                if made and line.arguments != made:
                    yield (
                        f"the call {line.id} of {line.text} has the arguments {made}, "
                        f"and {line.arguments or 'others'} in request {number}"
                    )

            for name, when in known.items():
                if name not in here:
                    yield (
                        f"{name[0]} {shorten_repr(name[1])} was in request {when}, and "
                        f"is missing in request {number}\n{_show_lines(lines)}"
                    )

            if isinstance(each.answer, AssistantMessage):
                for call in each.answer.tool_calls:
                    called[call.id] = read_arguments(call.arguments)

            known |= {name: number for name in here if name[0] != "system"}
            if is_good(each.answer) and self._was_given(outcome, each):
                # Its calls are looked at by their ids.
                known |= {
                    ("assistant", text): number for text in (each.answer.text,) if text
                }

    def _find_doubled(self, outcome: ScriptOutcome) -> Iterator[str]:
        most = Counter([("user", each.prompt) for each in outcome.outcomes])
        for each in outcome.answered:
            answer: Any = each.answer
            message = getattr(answer, "answer", answer)
            if isinstance(message, AssistantMessage):
                most["assistant", message.text] += 1

        for number, request in enumerate(outcome.requests):
            lines = read_request(self.wire, request.body)
            counts = Counter([(line.kind, line.text) for line in lines])
            for name, count in counts.items():
                # Of an answer that broke off at once nothing may be left.
                if name[1] and name in most and count > most[name]:
                    yield (
                        f"{name[0]} {shorten_repr(name[1])} is in request {number} "
                        f"{count} times; expected {most[name]}\n"
                        f"{_show_lines(lines)}"
                    )

    def _was_given(self, outcome: ScriptOutcome, answered: Answered) -> bool:
        """Whether the turn of an answer ended as it should."""
        script = [*outcome.script, AgentTurn(LAST_PROMPT)]
        prompt = script[answered.turn].prompt
        found = [each for each in outcome.outcomes if each.prompt == prompt]
        return bool(found) and all(each.error is None for each in found)

    def _find_unstable(self, outcome: ScriptOutcome) -> Iterator[str]:
        # What comes late is moved to its place.
        if self.compacts or any(turn.act in _UNSETTLED for turn in outcome.script):
            return

        before: list[RequestLine] = []
        for number, each in enumerate(self._list_settled(outcome)):
            lines = read_request(self.wire, each.request.body)
            if self._was_given(outcome, each):
                for at, line in enumerate(before):
                    if at >= len(lines) or lines[at] != line:
                        now = _show_lines(lines[at : at + 1]).strip()
                        yield (
                            f"request {number} does not begin with what the one before "
                            f"had: {_show_lines([line]).strip()} became {now}"
                        )

                before = lines

    def _find_unbilled(self, outcome: ScriptOutcome) -> Iterator[str]:
        stated = [_read_usage(each.reply) for each in outcome.outcomes]
        if not stated or stated[-1] is None or outcome.outcomes[-1].is_endless:
            return

        allowed = {0}
        script = [*outcome.script, AgentTurn(LAST_PROMPT)]
        for each in outcome.answered:
            usage = _usage_of(each.answer)
            if usage is None:
                # Of a text the provider makes the usage up.
                if isinstance(each.answer, (str, AssistantMessage)):
                    return

                continue

            tokens = {usage.total_tokens}
            if not is_settled(each) or script[each.turn].act in _UNSETTLED:
                tokens |= {0, *list_early_tokens(self.wire, usage)}

            allowed = {sum(pair) for pair in product(allowed, tokens)}
            if len(allowed) > _MOST_SUMS:
                return

        if stated[-1] not in allowed:
            likely = ", ".join(map(str, sorted(allowed)))
            if len(allowed) > 1:
                likely = f"one of {likely}"

            if len(allowed) > _SHOWN_SUMS:
                likely = f"from {min(allowed)} to {max(allowed)}, but not so many"

            yield f"the agent states {stated[-1]} tokens; the responses used {likely}"

    def _find_large(self, outcome: ScriptOutcome) -> Iterator[str]:
        if self.budget is None:
            return

        for number, request in enumerate(outcome.requests):
            lines = read_request(self.wire, request.body)
            tokens = sum(len(line.text) for line in lines) // _CHARACTERS
            if tokens > self.budget:
                yield (
                    f"request {number} has about {tokens} tokens, and the budget is "
                    f"{self.budget}"
                )


def _name_line(line: RequestLine) -> tuple[str, str]:
    return line.kind, line.id if line.kind in {"call", "result"} else line.text


def _show_lines(lines: Sequence[RequestLine]) -> str:
    """The newest of *lines*."""
    shown = [
        f"  {line.kind}{f' {line.id}' * bool(line.id)}: {shorten_repr(line.text)}"
        f"{f' {line.arguments}' * bool(line.arguments)}"
        for line in lines[-_SHOWN_LINES:]
    ]
    return "\n".join(shown) or "nothing"


def _usage_of(answer: Any) -> Usage | None:
    is_cut = isinstance(answer, (Reply, CutStream))
    message = answer.answer if is_cut else answer
    response = getattr(message, "response", None)
    return response.usage if response is not None else None


def _read_reply(reply: Any, *, is_cut: bool = False) -> str | None:
    """The text of a reply; None without one, or if it is cut and not *is_cut*."""
    if isinstance(reply, str):
        return reply

    if isinstance(reply, Aggregator):
        reply = reply[-1] if len(reply) else None

    response = getattr(reply, "response", None)
    if not is_cut and response is not None and response.finish_reason != "stop":
        return None

    if isinstance(reply, Mapping):
        is_whole = is_cut or reply.get("finish_reason", "stop") == "stop"
        reply = reply.get("text", reply.get("content")) if is_whole else None

    text = getattr(reply, "text", reply)
    return text if isinstance(text, str) else None


def _read_usage(reply: Any) -> int | None:
    """The tokens that a reply says its thread used so far; None if it says nothing."""
    if isinstance(reply, Mapping):
        usage = reply.get("usage")
    else:
        usage = getattr(reply, "total_usage", getattr(reply, "usage", None))

    if isinstance(usage, Usage):
        return usage.total_tokens

    if isinstance(usage, Mapping):
        usage = usage.get("total_tokens")

    return usage if isinstance(usage, int) else None


def _read_tools(tools: Iterable[ToolInfo | Callable[..., Any]]) -> list[ToolInfo]:
    check_list(tools, "tools", "a list of functions or ToolInfos")
    return [
        each if isinstance(each, ToolInfo) else ToolInfo.from_function(each)
        for each in tools
    ]


def format_script(
    script: Sequence[AgentTurn], wire: str, options: Mapping[str, Any]
) -> str:
    """A *script* as code that runs it again, with *options* that are not the usual."""
    example = format_example({"script": list(script)})
    usual = inspect.signature(replay_agent).parameters
    given = "".join(
        f", {name}={value!r}"
        for name, value in options.items()
        if value != usual[name].default
    )
    return (
        "from conversation_state.testing import replay_agent\n"
        f"{example}\nreplay_agent(run, script, wire={wire!r}{given})"
    )


def replay_agent(
    run: Agent,
    script: Iterable[AgentTurn],
    *,
    wire: str = "openai_chat",
    level: Any = "reference",
    budget: int | None = None,
    compacts: bool = False,
    max_rounds: int = 50,
    timeout_s: float = 20.0,
    without: Collection[str] = (),
) -> None:
    """
    Run one *script*, as `check_agent` printed it; the options are those of
    `check_agent`.

    Raises:
        AssertionError: If the agent breaks laws.
    """
    __tracebackhide__ = True
    turns = tuple(script)
    judge = _Judge(wire, max_rounds, budget, compacts, frozenset(without))
    form = make_form(run, timeout_s)
    outcome = play(form, turns, wire=wire, level=level, max_rounds=max_rounds)
    broken = judge.find_broken(outcome)
    if broken:
        raise AssertionError("\n\n".join(f"{each.law}: {each}" for each in broken))


def check_agent(
    run: Agent,
    *,
    wire: str = "openai_chat",
    tools: Iterable[ToolInfo | Callable[..., Any]] = (),
    level: Any = "reference",
    budget: int | None = None,
    compacts: bool = False,
    max_rounds: int = 50,
    timeout_s: float = 20.0,
    without: Collection[str] = (),
    settings: Settings | None = None,
) -> AgentReport:
    """
    Hold a whole agent, of any framework and language, to the laws of `LAWS`: it talks
    to a provider that refuses what the provider refuses, which answers with texts,
    calls and mistakes of models, with errors 429 and 500, with silence and with streams
    that break off; and to a user who stops it, writes while it works, and comes back
    after a crash. Up to five turns on one thread, and one more at the end.

    Args:
        run: ``run(base_url, prompt, thread) -> reply``: one turn of the conversation
            *thread*, which the agent keeps. A function, an async one (a stop cancels
            it), or a command (a stop is SIGINT, a crash SIGKILL; its last arguments are
            the base URL, the prompt and the thread, or are named ``{base_url}``,
            ``{prompt}`` and ``{thread}``), which prints the reply. The reply is a text,
            or something with a *text*, and with the *usage* of the thread so far: a
            mapping, an object, or a state. An agent may raise errors where the provider
            fails.
        wire: ``openai_chat``, ``openai_responses``, ``anthropic`` or ``gemini``.
        tools: The tools of the agent that the model calls, as functions or `ToolInfo`.
        level: What the provider refuses: see `provider.judge`.
        budget: The most tokens of a request, at four characters a token; None for any.
        compacts: Whether it shortens long conversations. Then earlier messages may be
            missing.
        max_rounds: The most requests of a turn.
        timeout_s: The seconds after which a turn counts as endless.
        without: The names of laws that do not hold and need not.
        settings: Hypothesis' settings; by default those of the active profile, with a
            fifth of its examples for a command, each turn of which starts a program.
            ``settings(verbosity=Verbosity.verbose)`` writes a line for each script to
            stderr.

    That is 5 to 20 seconds for a function that answers at once, and 200 starts of a
    command. A script that breaks a law is made smaller for half a minute at most.

    Returns:
        What was run, and which acts of users this form of agent can't be put through.

    Raises:
        BrokenLawsError: If it breaks a law, with the smallest script as code that
            replays it.
        ValueError: If *without* names no law.
    """
    __tracebackhide__ = True
    check_names("without", without, list(LAWS))
    form = make_form(run, timeout_s)
    judge = _Judge(wire, max_rounds, budget, compacts, frozenset(without))
    if settings is None:
        settings = Settings()
        if "crash" in form.acts:
            most = max(1, round(settings.max_examples * _EXAMPLES_OF_COMMAND))
            settings = Settings(settings, max_examples=most)

    is_verbose = settings.verbosity >= Verbosity.verbose
    search = _Search(form, judge, level, timeout_s, is_verbose)
    infos = _read_tools(tools)
    search.run(
        describe_subject(run),
        list_named(infos, form.acts, wire=wire, moments=form.moments),
        draw_scripts(infos, form.acts, wire=wire),
        settings,
    )
    report = AgentReport(
        search.count,
        form.acts,
        tuple(each for each in ACTS_OF_USERS if each not in form.acts),
        tuple(search.list_results(run, without)),
    )
    if search.broken:
        raise BrokenLawsError(
            name_subject(run), "agents", report.results
        ) from search.broken[0]

    return report


@attrs.define
class _Search:
    """Runs scripts until one breaks laws, and makes it small for the first of them."""

    form: AgentForm
    judge: _Judge
    level: Any
    timeout_s: float
    is_verbose: bool = False
    count: int = 0
    broken: list[_AgentError] = attrs.field(factory=list)
    script: Script = ()

    def hold(self, script: Script) -> None:
        """Run *script*, and raise an error if the agent breaks a law."""
        __tracebackhide__ = True
        if self._breaks_law(script):
            raise self.broken[0]

    def _breaks_law(self, script: Script) -> bool:
        """
        Whether *script* breaks a law, that of earlier scripts if there are any: one law
        is made small.
        """
        self.count += 1
        self._print_line(f"script {self.count}: {len(script) + 1} turns")
        outcome = play(
            self.form,
            script,
            wire=self.judge.wire,
            level=self.level,
            max_rounds=self.judge.max_rounds,
        )
        broken = self.judge.find_broken(outcome)
        law = (self.broken or broken)[0].law if broken else ""
        if all(each.law != law for each in broken):
            return False

        self.broken = sorted(broken, key=lambda each: each.law != law)
        self.script = script
        self._print_line(f"breaks {law!r}; looking for a smaller script")
        return True

    def _print_line(self, line: str) -> None:
        if self.is_verbose:
            sys.stderr.write(f"check_agent: {line}\n")

    def run(
        self, name: str, named: Iterable[Script], scripts: Any, settings: Settings
    ) -> None:
        """Hold the *named* scripts, and drawn ones; make small what breaks a law."""
        try:
            for script in named:
                self.hold(script)

            self._draw_scripts(name, scripts, settings)
        except (_AgentError, Flaky):
            # Flaky without a broken law is about how scripts are drawn.
            if not self.broken:
                raise

            self._make_smaller()

    def _make_smaller(self) -> None:
        """Leave out of the script what it breaks its law without."""
        end = time.monotonic() + _SHRINKING_S
        is_smaller = True
        while is_smaller:
            is_smaller = False
            for script in list_smaller(self.script):
                if time.monotonic() > end:
                    break

                if self._breaks_law(script):
                    is_smaller = True
                    break

        found = self.broken
        if not self._breaks_law(self.script):
            for each in found:
                each.add_note("not each time that it is tried")

    def _draw_scripts(self, name: str, scripts: Any, settings: Settings) -> None:
        def agent(**drawn: Script) -> None:
            self.hold(**drawn)

        name_test(agent, f"check_agent of {name}")
        adapted = Settings(
            settings,
            deadline=None,
            print_blob=False,
            report_multiple_bugs=False,
            verbosity=Verbosity.quiet,
            suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType]
            phases=[each for each in settings.phases if each not in _OWN_PHASES],
        )
        adapted(given(script=scripts)(agent))()

    def _list_options(self) -> dict[str, Any]:
        judge = self.judge
        return {
            "level": self.level,
            "budget": judge.budget,
            "compacts": judge.compacts,
            "max_rounds": judge.max_rounds,
            "timeout_s": self.timeout_s,
            "without": tuple(sorted(judge.without)),
        }

    def list_results(self, run: Agent, without: Collection[str]) -> Iterator[LawResult]:
        """What came of each law."""
        errors = {each.law: each for each in self.broken}
        for law, promise in LAWS.items():
            if law in without:
                yield LawResult(law, promise, DECLARED)
            elif not errors:
                yield LawResult(law, promise, HOLDS, self.count)
            elif law in errors:
                yield LawResult(
                    law,
                    promise,
                    BROKEN,
                    self.count,
                    errors[law],
                    format_script(self.script, self.judge.wire, self._list_options()),
                    find_definition(run),
                )
            else:
                yield LawResult(law, promise, NOT_RUN)
