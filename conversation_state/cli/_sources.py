"""
The bytes of files as UTF-8 streams: plain, compressed with gzip, or in a zip archive.

Nothing is unpacked to disk, and what expands beyond reason is refused. What no
conversation can be in is refused by name.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO, NamedTuple

STANDARD_INPUT = "-"

# How much more there may be in compressed data than text that repeats itself has.
_MAX_EXPANSION = 200
_FREE_BYTES = 64 << 20

_SNIFFED_BYTES = 4096
_UTF_16_OR_32 = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    # JSON without a mark.
    (b"{\0", "utf-16-le"),
    (b"[\0", "utf-16-le"),
    (b"\0{", "utf-16-be"),
    (b"\0[", "utf-16-be"),
)
# What files begin with that hold no text.
_BINARY: tuple[tuple[bytes, str], ...] = (
    (
        b"SQLite format 3\0",
        (
            "a SQLite database; give --from and what wrote it, `opencode export` its "
            "sessions if it is OpenCode's, or read it with --store"
        ),
    ),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"%PDF", "a PDF document; expected JSON"),
    (b"PAR1", "a Parquet file; expected JSON: convert it with `to_json(lines=True)`"),
    (b"ARROW1", "an Arrow file; expected JSON: convert it with `to_json(lines=True)`"),
    (b"BZh", "compressed with bzip2; decompress it first"),
    (b"\xfd7zXZ\0", "compressed with xz; decompress it first"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd; decompress it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive; expected JSON, gzip or zip"),
    (b"\x89PNG", "an image; expected JSON"),
    (b"\xff\xd8\xff", "an image; expected JSON"),
    (b"\x80\x04", "a pickle, which can run code and is never read; expected JSON"),
    (b"\x80\x05", "a pickle, which can run code and is never read; expected JSON"),
)
# What texts begin with that are no JSON.
_TEXTS: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"<(?:!doctype html|html|head|body|div)", re.IGNORECASE), "HTML"),
    (re.compile(rb"<(?:\?xml|[a-z!])", re.IGNORECASE), "XML"),
    (
        re.compile(rb"(?:data|event|id|retry): ?[\[{\w]"),
        "events of a stream (SSE), of which load_chunks makes chunks",
    ),
    (re.compile(rb"---\r?\n[\w\"']+:"), "YAML"),
    (re.compile(rb"(?:#{1,6} |\*\*|```|> )\S"), "Markdown"),
    (re.compile(rb"[{\[][{\[\s]*'"), "Python's own notation, with single quotes"),
    (re.compile(rb".{257}ustar", re.DOTALL), "a tar archive (unpack it first)"),
    (re.compile(rb"version https://git-lfs"), "a pointer of Git LFS (`git lfs pull`)"),
    (
        re.compile(rb"\"?\w[\w .-]*\"?(?:[,;\t]\"?[\w .-]+\"?)+\r?\n[^\n]*[,;\t]"),
        "a table (CSV): convert it to a JSON object on each line",
    ),
)
_CONVERSATIONS = re.compile(r"conversations(?:[-_]\d+)?\.json", re.IGNORECASE)
_JSON_NAMES = (".json", ".jsonl", ".ndjson")


class InputSource(NamedTuple):
    """A file, or a member of an archive."""

    file: str  # as given on the command line; of a member, with its name
    stem: str  # what conversations without an id are called by
    stream: BinaryIO
    size: int = 0  # in bytes; 0 if it is not known


class NotRead(NamedTuple):
    """What is read of a file, or why nothing is."""

    file: str
    reason: str
    is_error: bool = True


def describe_file_error(file: str, error: OSError) -> str:
    """Why *file* can't be read, with what is near it if there is no such file."""
    folder = Path(file).parent
    if Path(file).is_dir():
        return f"a folder; give its files: it has {_list_names(_list_files(file))}"

    if not isinstance(error, FileNotFoundError):
        return error.strerror or str(error)

    names = _list_files(str(folder))
    if near := find_near(file):
        return f"no such file; did you mean {near!r}?"

    if folder.is_dir():
        return f"no such file; {folder.resolve()} has {_list_names(names)}"

    return f"no such file; there is no folder {str(folder)!r}"


def find_near(file: str) -> str:
    """The path of the file whose name is most like that of *file*, or ""."""
    folder = Path(file).parent
    near = get_close_matches(Path(file).name, _list_files(str(folder)), 1, 0.7)
    return str(folder / near[0]) if near else ""


def _list_files(folder: str) -> list[str]:
    """The names of the files in *folder*, but for hidden ones and those of SQLite."""
    try:
        names = [each.name for each in Path(folder).iterdir() if each.is_file()]
    except OSError:
        return []

    beside = ("-shm", "-wal", "-journal")
    return sorted(n for n in names if not (n.startswith(".") or n.endswith(beside)))


def open_sources(
    file: str, *, advance: Callable[[int], object]
) -> Iterator[InputSource | NotRead]:
    """
    What is to be read of *file*, each open until the next is asked for.

    Args:
        file: A path; ``-`` is standard input.
        advance: Called with the number of bytes of the file whenever some were read.

    Raises:
        OSError: If it can't be read.
    """
    with ExitStack() as stack:
        if file == STANDARD_INPUT:
            raw: BinaryIO = sys.stdin.buffer
            stem = "stdin"
        else:
            raw = stack.enter_context(Path(file).open("rb", buffering=0))
            stem = Path(file).name.removesuffix(".gz")
            stem = Path(stem).stem

        counter = _Counted(raw, advance)
        counted = io.BufferedReader(counter, _SNIFFED_BYTES * 16)
        head = counted.peek(_SNIFFED_BYTES)
        if head.startswith(b"PK\x03\x04"):
            yield from _open_archive(file, counted)
            return

        stream: BinaryIO = counted
        size = 0 if file == STANDARD_INPUT else Path(file).stat().st_size
        if head.startswith(b"\x1f\x8b"):
            expanded = _Expanded(gzip.GzipFile(fileobj=counted), counter)
            stream = io.BufferedReader(expanded, 1 << 16)

        yield _open_text(file, stem, stream, size)


def _open_text(
    file: str, stem: str, stream: BinaryIO, size: int
) -> InputSource | NotRead:
    head = _peek_head(stream)
    for mark, encoding in _UTF_16_OR_32:
        if head.startswith(mark):
            stream = io.BufferedReader(_Transcoded(stream, encoding), 1 << 16)
            head = _peek_head(stream)
            break

    for magic, words in _BINARY:
        if head.startswith(magic):
            return NotRead(file, words)

    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    for pattern, words in _TEXTS:
        if pattern.match(text):
            return NotRead(file, f"{words}; expected JSON, a document or a line each")

    return InputSource(file, stem, stream, size)


def _peek_head(stream: BinaryIO) -> bytes:
    peeked: bytes = stream.peek(_SNIFFED_BYTES)  # type: ignore[attr-defined]  # buffered
    return peeked


def _open_archive(file: str, stream: BinaryIO) -> Iterator[InputSource | NotRead]:
    if not stream.seekable():
        yield NotRead(file, "a zip archive can't be read from a pipe; give its path")
        return

    try:
        archive = zipfile.ZipFile(stream)
    except zipfile.BadZipFile as error:
        # Its list of files stands at the end, and is the first to be cut off.
        yield NotRead(file, f"a damaged zip archive ({error}); get the whole file")
        return

    with archive:
        members = [each for each in archive.infolist() if not each.is_dir()]
        chosen = [m for m in members if _CONVERSATIONS.fullmatch(_name_of(m))]
        chosen = chosen or [
            each for each in members if each.filename.lower().endswith(_JSON_NAMES)
        ]
        left = [_name_of(each) for each in members if each not in chosen]
        if not chosen:
            what = "a zip archive without JSON files"
            yield NotRead(file, f"{what}; it has {_list_names(left)}")
            return

        for member in sorted(chosen, key=lambda each: each.filename):
            name = f"{file}/{member.filename}"
            try:
                with archive.open(member) as opened:
                    expanded = _Expanded(opened, compressed=member.compress_size)
                    buffered = io.BufferedReader(expanded, 1 << 16)
                    stem = Path(member.filename).stem
                    yield _open_text(name, stem, buffered, member.file_size)
            except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
                # The last is what an encrypted member raises.
                yield NotRead(name, f"can't be unpacked; {error}")

        if left:
            yield NotRead(file, f"left out: {_list_names(left)}", is_error=False)


def _name_of(member: zipfile.ZipInfo) -> str:
    return member.filename.rpartition("/")[2]


_MAX_NAMES = 5


def _list_names(names: list[str]) -> str:
    more = len(names) - _MAX_NAMES
    listed = ", ".join(names[:_MAX_NAMES]) or "nothing"
    return f"{listed} and {more:,} more" if more > 0 else listed


class _Counted(io.RawIOBase):
    """A stream that reports how much of it was read."""

    def __init__(self, raw: BinaryIO, advance: Callable[[int], object]) -> None:
        self._raw, self._advance = raw, advance
        # One that is buffered gives what there is, so that a pipe's lines come early.
        self._read = getattr(raw, "read1", raw.read)
        self.total = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._raw.seekable()

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.tell()

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]  # what is passed is one
        data = self._read(len(view))
        view[: len(data)] = data
        self.total += len(data)
        self._advance(len(data))
        return len(data)


class ExpansionError(Exception):
    """Compressed data expands beyond reason."""


class _Expanded(io.RawIOBase):
    """What is compressed, as long as it is not a bomb."""

    def __init__(
        self, opened: object, counter: _Counted | None = None, *, compressed: int = 0
    ) -> None:
        self._opened: BinaryIO = opened  # type: ignore[assignment]  # it has `read`
        self._counter = counter
        self._compressed = compressed
        self._total = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]  # what is passed is one
        try:
            data = self._opened.read(len(view))
        except EOFError:
            raise DamagedArchiveError(
                "the compressed file is cut off; get the whole file"
            ) from None
        except (zipfile.BadZipFile, zlib.error, gzip.BadGzipFile) as error:
            raise DamagedArchiveError(f"a damaged archive: {error}") from None

        view[: len(data)] = data
        self._total += len(data)
        counter = self._counter
        compressed = counter.total if counter else self._compressed
        if self._total > _FREE_BYTES + compressed * _MAX_EXPANSION:
            raise ExpansionError(
                f"expands to more than {_MAX_EXPANSION} times its size; decompress it "
                "first if that is meant"
            )

        return len(data)


class DamagedArchiveError(Exception):
    """Compressed data can't be expanded from here on."""


class _Transcoded(io.RawIOBase):
    """Text in another encoding as UTF-8."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]  # what is passed is one
        while not self._left:
            data = self._stream.read(1 << 16)
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                what = f"damaged text: {error.reason} ({error.encoding})"
                raise DamagedArchiveError(f"{what}; get the whole file") from None

            self._left = text.encode("utf-8", "surrogatepass")
            if not data:
                break

        taken = self._left[: len(view)]
        self._left = self._left[len(taken) :]
        view[: len(taken)] = taken
        return len(taken)
