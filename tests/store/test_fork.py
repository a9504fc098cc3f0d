"""
A fork never loses an acknowledged save: the child works, or it gets an error
that says what to do before it has acknowledged anything.

Each test runs a process of its own, which forks and prints what came of it.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from conversation_state.store import open_store

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="this system has no fork"
)

# A process that hangs is killed; nothing here takes a second.
PRELUDE = """
    import ctypes, multiprocessing, os, signal, sys, threading, warnings

    from conversation_state import Aggregator
    from conversation_state.errors import StoreError
    from conversation_state.store import open_store

    warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
    signal.alarm(100)
    url = sys.argv[1]
    start = Aggregator.new().add_user_prompt("start")

    def append(store, name, text):
        store.update(name, lambda it: it.add_user_prompt(text), start=start)

    def hold(store):
        opened, over = threading.Event(), threading.Event()

        def read():
            with store._cache.backend.reading():
                opened.set()
                over.wait(60)

        holder = threading.Thread(target=read)
        holder.start()
        opened.wait(60)
        return holder, over

    def texts(store, name):
        return [message.text for message in store.load(name)][1:]

    def in_child(work, *, fork=os.fork, prints=True):
        # The child's exit code: 0 if `work` returned.
        sys.stdout.flush()
        pid = fork()
        if not pid:
            signal.alarm(60)
            code = 1
            try:
                work()
                code = 0
            except StoreError as error:
                if prints:
                    print(error.problem)

                code = 3
            finally:
                sys.stdout.flush()
                os._exit(code)

        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def run(script, url):
    """The lines that a process prints that runs *script*."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PRELUDE) + textwrap.dedent(script), url],
        capture_output=True,
        check=False,
        cwd=ROOT,
        text=True,
    )
    assert not done.returncode, done.stderr + done.stdout
    assert "" == done.stderr
    return done.stdout.splitlines()


def saved(url, name="chat"):
    """What is there when all processes are gone."""
    with open_store(url) as store:
        assert () == store.verify()
        return [message.text for message in store.load(name)][1:]


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)]
)
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/chats.db"

    return request.getfixturevalue("pg_url")


@pytest.fixture
def file_url(tmp_path):
    return f"sqlite:///{tmp_path}/chats.db"


class TestWorks:
    @pytest.mark.parametrize("own", [False, True], ids=["inherited", "own"])
    def test_process(self, url, own):
        """
        A process that is started with a store inside of its block saves through
        it, or through one that it opens itself, and loses nothing; also when the
        parent closes its own meanwhile.
        """
        script = f"""
            def work(store, closed):
                if {own}:
                    store = open_store(url)

                for i in range(20):
                    append(store, "chat", f"child {{i}}")

                closed.wait(60)
                for i in range(20, 40):
                    append(store, "chat", f"child {{i}}")

                if {own}:
                    store.close()

            fork = multiprocessing.get_context("fork")
            closed = fork.Event()
            with open_store(url) as store:
                append(store, "chat", "before")
                process = fork.Process(target=work, args=(store, closed))
                process.start()
                for i in range(20):
                    append(store, "chat", f"parent {{i}}")

            closed.set()
            process.join()
            print(process.exitcode)
        """

        output = run(script, url)

        assert ["0"] == output
        texts = saved(url)
        assert "before" == texts[0]
        assert [f"child {i}" for i in range(40)] == [t for t in texts if "child" in t]
        assert [f"parent {i}" for i in range(20)] == [t for t in texts if "parent" in t]

    def test_while_a_thread_saves(self, url):
        """
        A child that is forked while other threads of the parent save works or is
        refused; neither it nor those threads hang or lose anything.
        """
        script = """
            store, other = open_store(url), open_store(url)
            append(store, "chat", "before")
            stop = threading.Event()

            counts = {"one": 0, "two": 0}

            def append_texts(store, name):
                while not stop.is_set():
                    append(store, name, f"{counts[name]}")
                    counts[name] += 1

            threads = [
                threading.Thread(target=append_texts, args=(store, "one")),
                threading.Thread(target=append_texts, args=(other, "two")),
            ]
            for thread in threads:
                thread.start()

            codes = [
                in_child(lambda: append(store, "chat", f"child {n}"), prints=False)
                for n in range(8)
            ]
            stop.set()
            for thread in threads:
                thread.join()

            for name in counts:
                print(name, counts[name])

            print(*codes)
        """

        *counts, codes = run(script, url)

        works = [n for n, code in enumerate(codes.split()) if code == "0"]
        assert {"0", "3"} >= {*codes.split()}
        assert url.startswith("sqlite") or works == [*range(8)]
        assert ["before", *[f"child {n}" for n in works]] == saved(url)
        for count in counts:
            name, number = count.split()
            assert [f"{i}" for i in range(int(number))] == saved(url, name)

    def test_memory(self):
        """
        A store in memory is each process's own from then on, whatever another
        thread was doing.
        """
        script = """
            store = open_store(url)
            append(store, "chat", "parent")
            opened, over = threading.Event(), threading.Event()

            def hold():
                with store._cache.backend.writing() as block:
                    block.add("branches", [(99, 0, 0)])
                    opened.set()
                    over.wait(60)

            holder = threading.Thread(target=hold)
            holder.start()
            opened.wait(60)

            def child():
                append(store, "chat", "child")
                assert () == store.verify()
                print(texts(store, "chat"))

            print(in_child(child))
            over.set()
            holder.join()
        """

        assert ["['parent', 'child']", "0"] == run(script, "memory:")


class TestRefused:
    """Where a file was in use at the fork, the child uses none."""

    IN_USE = "forked while a store was in use"

    def test_thread_in_a_block(self, file_url):
        """
        Where another thread is in a block, every verb of the child is an error, also
        of another store and another file; the parent goes on.
        """
        script = """
            store = open_store(url)
            append(store, "chat", "before")
            holder, over = hold(store)
            for work in (
                lambda: append(store, "chat", "child"),
                lambda: store.load("chat"),
                lambda: store.save("new", start),
                lambda: store.verify(),
                lambda: store.collect_garbage(vacuum=True),
                lambda: open_store(url),
                lambda: open_store(f"{url}.other"),
            ):
                print(in_child(work))

            append(store, "chat", "after")
            over.set()
            holder.join()
            print(in_child(lambda: append(store, "chat", "child")))
        """

        *problems, last = run(script, file_url)

        assert "0" == last
        assert 14 == len(problems)
        assert ["3"] * 7 == problems[1::2]
        assert all(self.IN_USE in problem for problem in problems[::2])
        assert all("spawn" in problem for problem in problems[::2])
        assert ["before", "after", "child"] == saved(file_url)

    def test_in_a_block_of_its_own(self, file_url):
        """
        A thread that forks in the middle of a block ends it in the parent only;
        in the child neither that block nor another one does anything.
        """
        script = """
            store = open_store(url)
            append(store, "chat", "before")
            pid = None
            try:
                with store._cache.backend.writing() as block:
                    block.add("branches", [(99, 0, 0)])
                    pid = os.fork()
            except StoreError as error:
                print("child", error.problem)

            if not pid:
                signal.alarm(60)
                for work in (
                    lambda: append(store, "chat", "child"),
                    lambda: open_store(url),
                ):
                    try:
                        work()
                    except StoreError as error:
                        print("child", error.problem)

                sys.exit()

            os.waitpid(pid, 0)
            with store._cache.backend.reading() as block:
                print(block.get("branches", 99))

            append(store, "chat", "after")
        """

        *problems, row = run(script, file_url)

        assert "(99, 0, 0)" == row
        assert 3 == len(problems)
        assert all(self.IN_USE in problem for problem in problems)
        with open_store(file_url) as store:
            texts = [message.text for message in store.load("chat")][1:]

        assert ["before", "after"] == texts

    def test_past_python(self, file_url):
        """So is a child that was forked without Python's knowing."""
        script = """
            store = open_store(url)
            append(store, "chat", "before")
            fork = ctypes.PyDLL(None).fork
            print(in_child(lambda: append(store, "chat", "child"), fork=fork))
            append(store, "chat", "after")
        """

        problem, code = run(script, file_url)

        assert "3" == code
        assert self.IN_USE in problem
        assert ["before", "after"] == saved(file_url)

    def test_not_the_parent(self, file_url):
        """
        A child that was refused and ends as programs do takes nothing from its
        parent, or from whom else saves.
        """
        script = """
            store = open_store(url)
            append(store, "chat", "before")
            holder, over = hold(store)
            reader, writer = os.pipe()
            pid = os.fork()
            if not pid:
                os.close(writer)
                os.read(reader, 1)
                try:
                    store.load("chat")
                except StoreError:
                    store.close()

                sys.exit()

            over.set()
            holder.join()
            append(store, "chat", "after")
            store.close()
            other = open_store(url)
            append(other, "chat", "more")
            os.close(writer)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            append(other, "chat", "last")
        """

        assert ["0"] == run(script, file_url)
        assert ["before", "after", "more", "last"] == saved(file_url)


def test_pool_is_closed(file_url):
    """
    Before a fork the file is closed, so that the child inherits nothing of
    SQLite's; and the parent opens it again when it needs it.
    """
    script = """
        path = url.removeprefix("sqlite:///")
        store = open_store(url)
        append(store, "chat", "before")
        print(os.path.exists(f"{path}-wal"))
        print(in_child(lambda: print(os.path.exists(f"{path}-wal"))))
        append(store, "chat", "after")
        print(os.path.exists(f"{path}-wal"))
    """

    assert ["True", "False", "0", "True"] == run(script, file_url)
