"""
What hosts share: calls in worker threads, which are waited for however the task is
cancelled, and names that are imported when they are first used.
"""

import asyncio
import contextlib
import contextvars
import gc
import importlib
import inspect
import threading
import weakref
from typing import Any

import anyio
import pytest

from conversation_state import (
    Aggregator,
    SystemMessage,
    TokenBudget,
    ToolCall,
    ToolMessage,
    Trimmer,
    Usage,
    _lazy,
)
from conversation_state.errors import MissingExtraError, StoreError
from conversation_state.hosts import _host
from conversation_state.hosts._host import StoreHost, run_in_thread
from conversation_state.store import StateRef, open_store
from conversation_state.trimming import keep_last


class Boom(Exception):  # noqa: N818 - a word to look for
    """An error of a call's own."""


class Held:
    """What an error holds."""


class Host(StoreHost):
    """A host of nothing."""

    def __init__(self, store: Any) -> None:
        self._set_store(store)


def run(coroutine: Any) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, 60))


@pytest.fixture
def controlled(monkeypatch):

    def make() -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        monkeypatch.setattr(loop, "run_in_executor", lambda *_: future)
        return future

    return make


async def start(*arguments):
    task = asyncio.create_task(run_in_thread(*arguments))
    await asyncio.sleep(0)
    return task


class TestCall:
    def test_result(self):
        """What it returns, with the arguments and the context of the task."""
        name = contextvars.ContextVar("name", default="")

        def call(one, *, two):
            return one, two, name.get(), threading.get_ident()

        async def check():
            name.set("ann")
            return await run_in_thread(call, 1, two=2)

        *result, thread = run(check())

        assert [1, 2, "ann"] == result
        assert threading.get_ident() != thread

    @pytest.mark.parametrize("kind", [Boom, asyncio.CancelledError])
    def test_error_is_freed(self, kind):
        """An error goes with the last reference, and what its frames hold with it."""
        freed: list[str] = []

        def fail():
            raise kind(make_held())

        def make_held():
            held = Held()
            weakref.finalize(held, freed.append, "held")
            return held

        async def check():
            with contextlib.suppress(kind):
                await run_in_thread(fail)
            # A worker has its last one until it has the next call.
            await run_in_thread(int)
            return list(freed)

        gc.disable()
        try:
            assert ["held"] == asyncio.run(check())
        finally:
            gc.enable()

    def test_stop_iteration(self):
        """
        The one error that no coroutine can raise is an error, and no endless wait.
        """

        async def check():
            await run_in_thread(next, iter(()))

        def run_and_catch():
            with pytest.raises(RuntimeError, match="StopIteration") as caught:
                run(check())
            causes.append(caught.value.__cause__)

        causes: list[Any] = []
        thread = threading.Thread(target=run_and_catch, daemon=True)
        thread.start()
        thread.join(20)

        assert [StopIteration] == [*map(type, causes)]


class TestCancelled:
    def test_waits(self, controlled):
        """However often it is cancelled, the task ends when the call does."""

        async def check():
            future = controlled()
            task = await start(int)
            for _ in range(3):
                assert task.cancel("why")
                await asyncio.sleep(0)
                assert not task.done()
                assert not future.done()

            future.set_result(7)
            await asyncio.wait([task])
            return task.cancelled(), task.cancelling()

        assert (True, 3) == run(check())

    def test_before_it_waits(self, controlled):
        """A cancellation that a task finds when it begins to wait is not lost."""
        order: list[str] = []

        async def call():
            asyncio.current_task().cancel()  # type: ignore[union-attr]
            try:
                await run_in_thread(int)
            except asyncio.CancelledError:
                order.append("cancelled")
                raise

        async def check():
            future = controlled()
            task = asyncio.create_task(call())
            for _ in range(3):
                await asyncio.sleep(0)

            order.append("ended")
            future.set_result(7)
            await asyncio.wait([task])
            return task.cancelled()

        assert run(check())
        assert ["ended", "cancelled"] == order

    def test_when_the_call_has_just_ended(self, controlled):
        """Nor one that comes after the call ended, and before the task goes on."""

        async def check():
            future = controlled()
            tasks: list[Any] = []
            future.add_done_callback(lambda _: tasks[0].cancel())
            tasks.append(await start(int))
            future.set_result(7)
            await asyncio.wait(tasks)
            return tasks[0].cancelled()

        assert run(check())

    def test_cause(self, controlled):
        """Where the call failed, that is the cause."""
        failure = Boom()

        async def check():
            future = controlled()
            task = await start(int)
            task.cancel()
            future.set_exception(failure)
            await task

        with pytest.raises(asyncio.CancelledError) as caught:
            run(check())

        causes: list[BaseException | None] = [caught.value]
        while causes[-1] is not None:
            causes.append(causes[-1].__cause__ or causes[-1].__context__)
        assert failure in causes

    def test_call_itself(self, controlled):
        """A call that is cancelled itself cancels the task."""

        async def check():
            future = controlled()
            task = await start(int)
            future.cancel()
            await asyncio.wait([task])
            return task.cancelled()

        assert run(check())

    def test_cancelled_by_what_it_calls(self):
        """A cancellation that the call raises is raised as it is."""
        own = asyncio.CancelledError("its own")

        def call():
            raise own

        async def check():
            try:
                await run_in_thread(call)
            except asyncio.CancelledError as error:
                return error

        error = run(check())

        assert error is own
        assert error.__cause__ is None

    def test_once(self):
        """A call that was cancelled is made once, and what it did stays done."""
        begun, go, calls = threading.Event(), threading.Event(), []

        def call():
            begun.set()
            assert go.wait(60)
            calls.append(1)

        async def check():
            task = await start(call)
            await asyncio.to_thread(begun.wait, 60)
            task.cancel()
            await asyncio.sleep(0)
            go.set()
            await asyncio.wait([task])
            return task.cancelled(), list(calls)

        assert (True, [1]) == run(check())


class TestScopes:
    """Cancel scopes of anyio, which cancel again and again."""

    def test_result_stays(self, controlled):
        """The result of the call comes, and the next `await` is cancelled."""
        results: list[Any] = []

        async def check():
            future = controlled()
            with anyio.CancelScope() as scope:
                loop = asyncio.get_running_loop()
                loop.call_soon(scope.cancel)
                loop.call_later(0.02, future.set_result, 7)
                results.append(await run_in_thread(int))
                await anyio.sleep(60)
                results.append("not cancelled")

            return scope.cancelled_caught

        assert run(check())
        assert [7] == results

    def test_rests(self, controlled, monkeypatch):
        """While the call runs, the event loop has nothing to do."""

        async def check():
            future = controlled()
            loop = asyncio.get_running_loop()
            call_soon, calls = loop.call_soon, []

            def count(*arguments, **options):
                calls.append(arguments)
                return call_soon(*arguments, **options)

            async def wait():
                with scope:
                    return await run_in_thread(int)

            scope = anyio.CancelScope()
            task = asyncio.create_task(wait())
            await asyncio.sleep(0)
            scope.cancel()
            monkeypatch.setattr(loop, "call_soon", count)
            for _ in range(100):
                await asyncio.sleep(0)

            future.set_result(7)
            return await task, len(calls)

        result, calls = run(check())

        assert 7 == result
        assert calls < 110  # one in each round is this test's


get, _ = _host.import_lazily(
    __name__, {"Session": "_session"}, extra="agents", needs={"agents", "openai"}
)


def fail_with(error):

    def fail(_):
        raise error

    return fail


class TestImportLazily:
    @pytest.mark.parametrize("missing", ["agents", "openai.types"])
    def test_missing_host(self, monkeypatch, missing):
        """Where the host is not installed, the error says which extra brings it."""
        error = ModuleNotFoundError("missing", name=missing)
        monkeypatch.setattr(_lazy, "import_module", fail_with(error))

        with pytest.raises(MissingExtraError, match=r"conversation-state\[agents\]"):
            get("Session")

    @pytest.mark.parametrize(
        ("host", "name", "missing"),
        [
            ("langchain", "TrimmingMiddleware", "langchain.agents.middleware"),
            ("langchain", "trimming_middleware", "langchain_core.messages"),
            ("langgraph", "ConversationStateSaver", "langgraph.types"),
            ("langgraph", "add_to_state", "langchain_core"),
            ("langgraph", "StateChannel", "langgraph"),
            ("pydantic_ai", "StoreBackend", "pydantic_ai"),
            ("pydantic_ai", "history_processor", "pydantic"),
            ("pydantic_ai", "ahistory_processor", "pydantic_ai"),
            ("pydantic_ai", "TrimmedRequests", "pydantic_ai"),
            ("temporal", "", "temporalio.workflow"),
        ],
    )
    def test_hosts(self, monkeypatch, host, name, missing):
        """So it is with each name of each host."""
        package: Any = importlib.import_module(f"conversation_state.hosts.{host}")
        error = ModuleNotFoundError("missing", name=missing)
        monkeypatch.setattr(_lazy, "import_module", fail_with(error))
        names = [name] if name else package.__all__

        for each in names:
            extra = host.replace("_", "-")
            with pytest.raises(MissingExtraError, match=rf"state\[{extra}\]"):
                package.__getattr__(each)

    @pytest.mark.parametrize("missing", ["httpx", "agentsmith", None])
    def test_another_module(self, monkeypatch, missing):
        """Another module that is missing is no matter of the extra."""
        error = ModuleNotFoundError("missing", name=missing)
        monkeypatch.setattr(_lazy, "import_module", fail_with(error))

        with pytest.raises(ModuleNotFoundError) as raised:
            get("Session")

        assert error is raised.value


class TestStates:
    """What hosts make of a conversation."""

    ASKED = Aggregator.new().add_tool_call(ToolCall("c1", "f", "{}"))

    def test_open_calls(self):
        """A call without a result is answered by an error before the next request."""
        trimmer = Trimmer(TokenBudget(context_window=8_000), keep_last(9))

        answered = _host.answer_all_calls(trimmer)

        result = answered(self.ASKED).messages[-1]
        assert isinstance(result, ToolMessage)
        assert ("c1", True) == (result.tool_call_id, result.is_error)
        assert (trimmer.budget, trimmer.counter) == (answered.budget, answered.counter)
        assert trimmer.steps == answered.steps[1:]

    def test_ledger_stays(self):
        """Going back in a conversation does not undo its cost, nor changes its id."""
        later = self.ASKED.add_usage(Usage(3))

        kept = _host.keep_ledger(self.ASKED, later)

        assert (Usage(3), self.ASKED.id) == (kept.total_usage, kept.id)
        assert _host.keep_ledger(later, self.ASKED) is later
        assert _host.keep_ledger(later, None) is later
        assert _host.replace_entries(later, later.entries) is later

    @pytest.mark.parametrize("kind", ["call", "acall"])
    def test_summaries_are_made_once(self, kind):
        """What a step that failed had summarised is used by the next call."""
        calls: list[Any] = []

        class FailedError(Exception):
            summaries = (SystemMessage("So far."),)

        class Trim:
            def __call__(self, messages: Any, *, previous: Any) -> Any:
                calls.append(previous)
                if len(calls) == 1:
                    raise FailedError

                return messages

            async def acall(self, messages: Any, *, previous: Any) -> Any:
                return self(messages, previous=previous)

        rolling: Any = _host.RollingTrimmer(Trim())  # type: ignore[arg-type]
        view = rolling if kind == "call" else lambda one: run(rolling.acall(one))
        with pytest.raises(FailedError):
            view("a")

        assert [view("b"), view("c"), rolling.last] == ["b", "c", "c"]
        assert calls == [None, FailedError.summaries, "b"]


class TestNames:
    """Names in a store, and references to what is in it."""

    def test_quoted(self):
        """Any text is a part of a name, each another one, and none is long."""
        long = ["a/" * 60, "a/" * 61, "a%2F" * 40]
        texts = ["a", "a/b", "a%2Fb", "a%2fb", "\n", "\ud800", "a" * 120, "a" * 121]

        quoted = [_host.quote_name(each) for each in [*texts, *long]]

        assert quoted[:5] == ["a", "a%2Fb", "a%252Fb", "a%252fb", "%0A"]
        assert quoted[6] == "a" * 120
        assert len({*quoted}) == len(quoted)
        assert {120} == {*map(len, quoted[6:])}
        assert not any("/" in each for each in quoted)

    def test_references(self):
        """A reference is taken as it is, or as its text."""
        ref = StateRef(7, 2, "0f" * 16)

        assert _host.parse_ref(str(ref)) == ref
        assert _host.parse_ref(ref) is ref


class TestStores:
    """The store of a host, and who closes it."""

    def test_own_store(self):
        """A store that the host opened is closed with it, and no other."""
        with Host.from_url("memory:") as host:
            store = host.store
            assert "a" not in store

        with pytest.raises(StoreError, match="closed"):
            store.load("a")

        with open_store("memory:") as other:
            Host(other).close()
            assert "a" not in other

    def test_defaults(self):
        """It remembers as much as a store that is opened without a host."""
        (ours, theirs) = [
            inspect.signature(each).parameters["remembered"].default
            for each in (StoreHost.from_url, open_store)
        ]

        assert ours == theirs

    def test_refused(self):
        """What is no store and no trimmer is refused, with what to do."""
        with pytest.raises(TypeError, match=r"expected an open Store.*from_url"):
            Host("memory:")

        with pytest.raises(TypeError, match="takes 2 positional arguments but 3"):
            Host.from_url("memory:", 1)

        with pytest.raises(TypeError, match=r"steps: expected a Trimmer, got .*make"):
            _host.check_trimmer(keep_last(1), "steps")
