"""
The Claude Agent SDK: the transcripts of its sessions in a store.

::

    options = ClaudeAgentOptions(session_store=ClaudeSessionStore(store))

The SDK hands over each line that Claude Code writes of a session and of its
sub-agents, and gets them back to resume the session on another machine. Lines are kept
as they are, whatever is in them; `ClaudeSessionStore.session` reads them as a
conversation, by `adapters.sessions`.

The SDK is in no extra, because its package brings Claude Code itself. Nothing is
imported from it but ``fold_session_summary``, when lines are added to a session.

Source:
    ``SessionStore`` in ``types.py`` of claude-agent-sdk 0.2.189, and its
    ``testing.run_session_store_conformance``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from time import time_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from conversation_state._waiting import run_in_anyio_thread
from conversation_state._wording import describe_type, describe_value
from conversation_state.adapters.sessions import LoadedSession, load_session
from conversation_state.errors import (
    DecodeError,
    NotSavedError,
    Problem,
    StaleHeadError,
    StoreError,
)
from conversation_state.hosts._host import (
    StoreHost,
    decode_text,
    encode_text,
    quote_name,
)
from conversation_state.store import Head, Store
from conversation_state.store.records import Reader, Writer, after, reading, write
from conversation_state.tree import MessageTree

if TYPE_CHECKING:
    from claude_agent_sdk.types import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )

__all__ = ["ClaudeSessionStore"]

# The beginning of the keys of records, by what they are: a session, the transcript of
# one of its sub-agents, or one entry of either.
_SESSION = b"claude.s"
_AGENT = b"claude.a"
_ENTRY = b"claude.e"
_NUMBER_SIZE = 8
_ATTEMPTS = 100


class ClaudeSessionStore(StoreHost):
    """
    A ``SessionStore`` of the Claude Agent SDK, on a store of ours.

    Entries that come back are equal to those that were appended, in the same order,
    each ``uuid`` once. Any text is a project key, a session id or a subpath. All that
    `append` does happens in one transaction, the session's summary included, so
    programs that append to one session at the same time lose nothing.

    Its methods run in worker threads, under asyncio and trio. A call that is cancelled
    while it writes ends when that is complete.

    An `append` writes one row for each entry, however long the session is; `load`
    reads those of one transcript.

    Args:
        store: The store; stays open when this is closed.

    >>> import asyncio
    >>> key = {"project_key": "app", "session_id": "5d0b"}
    >>> line = {"type": "user", "uuid": "u1", "message": {"content": "Hi!"}}
    >>> async def use(sessions):
    ...     await sessions.append(key, [line])
    ...     await sessions.append(key, [line])
    ...     return await sessions.load(key)
    >>> with ClaudeSessionStore.from_url("memory:") as sessions:
    ...     asyncio.run(use(sessions)) == [line]
    True
    """

    def __init__(self, store: Store) -> None:
        self._set_store(store)

    async def aclose(self) -> None:
        """The async twin of `close`."""
        await run_in_anyio_thread(self.close)

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self.store.url}>"

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """
        Add *entries* to a transcript: all of them or, if there is an error, none.

        An entry whose ``uuid`` is there already is left out; one without a ``uuid`` is
        added each time, as the SDK asks for.

        Raises:
            DecodeError: If one of them is not plain JSON, which would come back as
                something else; with the path of each.
            ValueError: If the subpath is empty.
        """
        transcript = _Transcript.of(key)
        await run_in_anyio_thread(partial(self._append_entries, transcript, entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """
        All entries of a transcript, in the order in which they were added; None if
        there are none.

        Raises:
            StoreError: If they are not what was added.
        """
        return await run_in_anyio_thread(partial(self._load, _Transcript.of(key)))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """
        The sessions of a project, each with the time of its last entry, in
        milliseconds since 1970. O(sessions of the project).
        """
        return [
            {"session_id": each["session_id"], "mtime": each["mtime"]}
            for each in await self._read_listed(_SESSION, project_key)
        ]

    async def list_session_summaries(
        self, project_key: str
    ) -> list[SessionSummaryEntry]:
        """
        The summaries of the sessions of a project, as ``fold_session_summary`` made
        them from each `append`. O(sessions of the project).

        One that was added where the SDK is not installed is made here from its entries.

        Raises:
            ImportError: If that has to be done, and the SDK is not installed.
        """
        sessions = await self._read_listed(_SESSION, project_key)
        for each in sessions:
            if each["summary"] is None:
                transcript = _Transcript(project_key, each["session_id"])
                fold = partial(write, self.store, transcript.fold_all)
                each.update(await run_in_anyio_thread(fold))

        return [
            {
                "session_id": each["session_id"],
                "mtime": each["mtime"],
                "data": each["summary"],
            }
            for each in sessions
        ]

    async def delete(self, key: SessionKey) -> None:
        """
        Delete a transcript, if it is there, and its name in the store; without a
        subpath the session, with the transcripts of all its sub-agents.
        """
        transcript = _Transcript.of(key)
        await run_in_anyio_thread(partial(write, self.store, transcript.delete))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths under a session: the transcripts of its sub-agents."""
        main = _Transcript.of({**key})
        listed = await self._read_listed(_AGENT, main.project_key, main.session_id)
        return [each["subpath"] for each in listed]

    # As a conversation

    @staticmethod
    def name_of(key: SessionKey) -> str:
        """The name in the store that `session` saves a session under."""
        return _Transcript.of_session(key).name

    async def session(self, key: SessionKey) -> LoadedSession:
        """
        A session as `adapters.sessions` reads it, with its bill and its sub-agents,
        saved under `name_of` the key: `Store.load` has the live branch,
        `Store.message_tree` those that were rewound, too. Sub-agents are saved under
        that name, a slash and their ids.

        A session that has grown goes on under its name. The transcript decides: if
        another program saved something else there, or an answer was still coming, the
        head is replaced, and what was there stays in the history. O(session).

        Raises:
            NotSavedError: If there is no such session.
            DecodeError: If `load_session` can't read it.
        """
        transcript = _Transcript.of_session(key)
        return await run_in_anyio_thread(partial(self._save_session, transcript))

    async def message_tree(self, key: SessionKey) -> MessageTree:
        """
        The messages of a session with what was rewound, and its ledger: the tree of
        `session`, which is saved the same way.

        Raises:
            NotSavedError, DecodeError: As `session` does.
        """
        return (await self.session(key)).tree

    def _save_session(self, transcript: _Transcript) -> LoadedSession:
        for _ in range(_ATTEMPTS):
            with reading(self.store) as rows:
                # Read at one moment, so that a tree which another program makes of
                # newer lines is not replaced.
                names = [transcript.name, *rows.names(f"{transcript.name}/")]
                heads = {name: rows.latest(name) for name in names}
                header = transcript.read_header(rows)
                if header is None:
                    raise NotSavedError(self.store.url, "name", transcript.name)

                lines = transcript.read(rows, header)
                agents = transcript.read_agents(rows)

            session = load_session(lines, format="claude_code", agents=agents)
            trees = {transcript.agent_name(each.name): each for each in session.agents}
            try:
                for name, each in {**trees, transcript.name: session}.items():
                    head = heads.get(name)
                    expecting: Head | int = 0 if head is None else head
                    self.store.save_tree(name, each.tree, expecting=expecting)
            except StaleHeadError:
                continue

            return session

        what = f"gave up after {_ATTEMPTS} conflicting saves of {transcript.name!r}"
        raise StoreError(self.store.url, f"{what}; retry later")

    async def _read_listed(self, kind: bytes, *texts: str) -> list[dict[str, Any]]:
        low = kind + _digest(*texts)

        def read() -> list[dict[str, Any]]:
            with reading(self.store) as rows:
                return [json.loads(each.value) for each in rows.scan(low, after(low))]

        return await run_in_anyio_thread(read)

    def _append_entries(self, transcript: _Transcript, entries: Sequence[Any]) -> None:
        texts = _write_entries(entries)
        if texts:
            add = partial(transcript.append, entries=entries, texts=texts)
            write(self.store, add)

    def _load(self, transcript: _Transcript) -> list[Any] | None:
        with reading(self.store) as rows:
            header = transcript.read_header(rows)
            return None if header is None else transcript.read(rows, header)


class _Transcript(NamedTuple):
    """
    The records of one transcript: a header, and one record for each entry, whose key
    has the digest of its ``uuid``, and whose value has its position.
    """

    project_key: str
    session_id: str
    subpath: str | None = None

    @classmethod
    def of(cls, key: Mapping[str, Any]) -> _Transcript:
        if not isinstance(key, Mapping):
            raise TypeError(f"key: expected a SessionKey, got {describe_type(key)}")

        names = ("project_key", "session_id", "subpath")
        values = [key.get(name) for name in names]
        for name, value in zip(names, values, strict=True):
            if not isinstance(value, str) and (name != "subpath" or value is not None):
                raise TypeError(
                    f"key: expected text as {name!r}, got {describe_value(value)}"
                )

        if values[-1] == "":
            raise ValueError("key: 'subpath' is empty; leave it out for the session")

        return cls(*values)  # type: ignore[arg-type]  # checked above

    @classmethod
    def of_session(cls, key: Mapping[str, Any]) -> _Transcript:
        transcript = cls.of(key)
        if transcript.subpath is not None:
            raise ValueError(
                "key: expected a session, got the subpath of a sub-agent; leave it "
                "out, and look for the sub-agent in its agents"
            )

        return transcript

    # The names in the store of the session, and of a sub-agent.
    @property
    def name(self) -> str:
        project, session = quote_name(self.project_key), quote_name(self.session_id)
        return f"claude/{project}/{session}"

    def agent_name(self, id: str) -> str:
        return f"{self.name}/{quote_name(id)}"

    @property
    def _header_key(self) -> bytes:
        kind = _SESSION if self.subpath is None else _AGENT
        return kind + _digest(*[each for each in self if each is not None])

    @property
    def _prefix(self) -> bytes:
        # No subpath is empty, so none has the digest of the session's own entries.
        return _ENTRY + _digest(self.project_key, self.session_id, self.subpath or "")

    def read_header(self, rows: Reader) -> dict[str, Any] | None:
        record = rows.get(self._header_key)
        return None if record is None else json.loads(record.value)

    def read(self, rows: Reader, header: Mapping[str, Any]) -> list[Any]:
        records = rows.scan(self._prefix, after(self._prefix))
        values = sorted([record.value for record in records])
        if len(values) != header["count"]:
            what = (
                f"session {self.session_id!r} has {len(values)} entries; "
                f"{header['count']} were added"
            )
            raise StoreError(rows.url, what)

        return [json.loads(decode_text(value[_NUMBER_SIZE:])) for value in values]

    def read_agents(self, rows: Reader) -> dict[str, list[Any]]:
        """
        The entries of the sub-agents of a session, by their ids. An id that is under
        two subpaths, as of two runs of a workflow, is one sub-agent with both.
        """
        low = _AGENT + _digest(self.project_key, self.session_id)
        headers = [json.loads(record.value) for record in rows.scan(low, after(low))]
        found: dict[str, list[Any]] = {}
        for header in sorted(headers, key=lambda header: header["subpath"]):
            agent = self._replace(subpath=header["subpath"])
            entries = found.setdefault(_read_agent_id(header["subpath"]), [])
            entries += agent.read(rows, header)

        return found

    def append(
        self, rows: Writer, *, entries: Sequence[Any], texts: Sequence[bytes]
    ) -> None:
        header = self.read_header(rows) or {
            "session_id": self.session_id,
            "subpath": self.subpath,
            "mtime": 0,
            "count": 0,
            # None while some entry is in no summary.
            "summary": None,
        }
        first = header["count"]
        uuids = [_read_uuid(entry) for entry in entries]
        keys = [self._prefix + b"u" + _digest(uuid) for uuid in uuids if uuid]
        known = rows.existing(keys) if first else set()
        added: list[Any] = []
        for entry, uuid, text in zip(entries, uuids, texts, strict=True):
            number = (first + len(added)).to_bytes(_NUMBER_SIZE)
            if uuid:
                key = self._prefix + b"u" + _digest(uuid)
                if key in known:
                    continue

                known.add(key)
            else:
                key = self._prefix + b"n" + number

            rows.add(key, number + text)
            added.append(entry)

        if added:
            header["count"] += len(added)
            # Two appends have two times, also within one millisecond.
            header["mtime"] = max(time_ns() // 1_000_000, header["mtime"] + 1)
            if self.subpath is None and (not first or header["summary"] is not None):
                with suppress(ImportError):
                    header["summary"] = self._fold(header["summary"], added)

            self._write_header(rows, header)

    def _fold(self, data: dict[str, Any] | None, entries: list[Any]) -> dict[str, Any]:
        from claude_agent_sdk import fold_session_summary  # noqa: PLC0415 - see above

        # Of a key and of the last summary, the SDK keeps the session's id.
        known: dict[str, Any] = {"session_id": self.session_id, "mtime": 0}
        old: Any = None if data is None else {**known, "data": data}
        key: Any = {"project_key": self.project_key, **known}
        return fold_session_summary(old, key, entries)["data"]

    def fold_all(self, rows: Writer) -> dict[str, Any]:
        """Make the summary of a session that has none, and return its header."""
        header = self.read_header(rows)
        if header is None:
            return {"summary": {}}  # deleted meanwhile

        if header["summary"] is None:
            header["summary"] = self._fold(None, self.read(rows, header))
            self._write_header(rows, header)

        return header

    def _write_header(self, rows: Writer, header: Mapping[str, Any]) -> None:
        rows.put(self._header_key, json.dumps(header).encode())

    def delete(self, rows: Writer) -> None:
        rows.remove(self._header_key, self._header_key + b"\0")
        if self.subpath is not None:
            rows.remove(self._prefix, after(self._prefix))
            names = [self.agent_name(_read_agent_id(self.subpath))]
        else:
            for kind in (_AGENT, _ENTRY):
                low = kind + _digest(self.project_key, self.session_id)
                rows.remove(low, after(low))

            names = [self.name, *rows.names(f"{self.name}/")]

        for name in names:
            if rows.latest(name) is not None:
                rows.delete(name)


# ``subagents/agent-ID``, as Claude Code names the files of sub-agents.
def _read_agent_id(subpath: str) -> str:
    return subpath.rpartition("/")[2].removeprefix("agent-")


# The ``uuid`` of an entry, which is opaque otherwise; "" if it has none.
def _read_uuid(entry: Mapping[str, Any]) -> str:
    uuid = entry.get("uuid")
    return uuid if isinstance(uuid, str) else ""


def _digest(*texts: str) -> bytes:
    # One digest for each text, so that keys begin with those of the first ones.
    return b"".join(
        [blake2b(encode_text(text), digest_size=16).digest() for text in texts]
    )


def _write_entries(entries: Sequence[Any]) -> list[bytes]:
    texts, problems = [], []
    for at, entry in enumerate(entries):
        try:
            texts.append(_write_entry(entry))
        except (TypeError, ValueError, RecursionError) as error:
            problems.append(Problem(f"$[{at}]", f"is not plain JSON: {error}"))

    if problems:
        raise DecodeError(tuple(problems))

    return texts


def _write_entry(entry: Any) -> bytes:
    if not isinstance(entry, dict):
        raise TypeError(f"expected an object, got {describe_type(entry)}")

    text = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
    restored = json.loads(text)
    # NaN, which Python's JSON has, is not equal to itself.
    if restored != entry and repr(restored) != repr(entry):
        raise ValueError("it has values that JSON turns into others")

    return encode_text(text)
