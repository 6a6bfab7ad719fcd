"""The history of sent texts across sessions, kept in a file and browsed with Up and Down.

The file contains one JSON object per line and is shared by all of the user's terminals. Entries are
appended while the file is locked. Occasionally, the file is replaced with one that contains only
the newest entries.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
from hilum import data_folder, make_private_folder
from hilum.settings import lock_folder

MAX_ENTRIES = 2000
# Number of entries by which the file may exceed the limit, so that the file is not rewritten for
# each entry.
_SLACK = 200
# A longer text, which is usually pasted, is kept only for this session.
MAX_STORED_CHARACTERS = 100_000
# Size in bytes above which only the end of the file is read.
_MAX_FILE_SIZE = 32_000_000
# First characters that make a typed text a command, a shell line or a memory.
_MARKS = ("/", "!", "#")
# Number of characters at the beginning of a text that are searched.
_MAX_SEARCHED_CHARACTERS = 10_000


class HistoryEntry(msgspec.Struct, frozen=True):
    """A text that the user sent.

    Attributes:
        text: The text, including pasted text.
        project: Folder of the project.
        time: Unix time at which the text was sent.
    """

    text: str
    project: str = ""
    time: float = 0.0


_DECODER = msgspec.json.Decoder(HistoryEntry)


def history_file() -> Path:
    """Return the path of the history file in the user's data folder."""
    return data_folder() / "history" / "prompts.jsonl"


class History:
    """The history as seen by one terminal.

    Only ``load`` and ``save`` access the disk. Both methods block, and may run in a thread while
    other methods are called. If one of them fails, the session continues, and ``problem`` contains
    the reason.
    """

    def __init__(
        self,
        file: Path,
        project: str,
        *,
        redact: Callable[[str], str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create an empty history.

        Args:
            file: The history file; see ``history_file``.
            project: Folder of the current project, whose entries come first.
            redact: Function that replaces secrets in texts before they are written; called in the
                thread that runs ``save``.
            clock: Returns the current time.
        """
        self.file = file
        self.project = project
        self.problem = ""
        self._redact = redact
        self._clock = clock
        self._stored: list[HistoryEntry] = []
        # This session's entries as they were typed, and the entries that are not written yet.
        self._added: list[HistoryEntry] = []
        self._unwritten: list[HistoryEntry] = []
        self._is_kept: bool | None = True
        self._lines_in_file = 0
        self._lock = threading.Lock()
        self._browser = _Browser()
        self._search_texts: dict[str, str] = {}

    # The entries

    def add(self, text: str, *, is_typed: bool = True) -> None:
        """Add a sent text, which ``save`` will write to the file.

        As in shells, a text that begins with a space is not kept.

        Args:
            text: The text.
            is_typed: Whether the user typed the beginning of the text. A space is inserted before a
                pasted "!" or "/", which was not a command when it was sent and must not become one
                when the entry is sent again.
        """
        self._browser = _Browser()
        if not text.strip() or text.startswith(" "):
            return
        if not is_typed and text.lstrip().startswith(_MARKS):
            text = f" {text}"
        newest = self._added[-1].text if self._added else ""
        if text == newest:
            return
        # The time also identifies the entry, so two entries must not have the same time.
        moment = self._clock()
        if self._added:
            moment = max(moment, self._added[-1].time + 0.001)
        entry = HistoryEntry(text, self.project, moment)
        self._added.append(entry)
        del self._added[:-MAX_ENTRIES]
        with self._lock:
            if self._is_kept is not False and len(text) <= MAX_STORED_CHARACTERS:
                self._unwritten.append(entry)

    def entries(self) -> list[HistoryEntry]:
        """Return all entries without duplicates, newest first."""
        return list(_without_duplicates(self._newest_first()))

    def _newest_first(self) -> Iterator[HistoryEntry]:
        yield from reversed(self._added)
        # The file may contain this session's entries in redacted form.
        own = {(entry.project, entry.time) for entry in self._added}
        for entry in reversed(self._stored):
            if (entry.project, entry.time) not in own:
                yield entry

    # Browsing

    def previous(self, draft: str) -> str | None:
        """Return the next older text that begins with the typed text; ``None`` at the end.

        Texts from the current project come first, then texts from other projects. Case matters only
        if the draft contains uppercase letters.

        Args:
            draft: The editor's current text: the draft, or the text that was returned last,
                possibly edited. A typed draft is kept for ``next``.
        """
        if self._browser.note(draft):
            self._browser.matches = self._find_prefix(draft)
        return self._browser.move(1)

    def next(self, draft: str | None = None) -> str | None:
        """Return the next newer text, and finally the draft; return ``None`` after the draft.

        Args:
            draft: The editor's current text; a text that the user edited is kept as another draft.
        """
        if draft is not None and self._browser.is_active:
            self._browser.note(draft)
        return self._browser.move(-1)

    def _find_prefix(self, prefix: str) -> list[str]:
        entries = list(self._newest_first())
        own = [entry for entry in entries if entry.project == self.project]
        others = [entry for entry in entries if entry.project != self.project]
        fold = _fold_if_lower(prefix)
        wanted = fold(prefix)
        found = []
        for entry in _without_duplicates([*own, *others]):
            # In a large text, only the beginning is compared.
            beginning = entry.text[: len(prefix)]
            if entry.text != prefix and fold(beginning).startswith(wanted):
                found.append(entry.text)
        return found

    # Searching

    def search(self, query: str) -> list[HistoryEntry]:
        """Return the unique entries that contain all words in a query, newest first."""
        fold = _fold_if_lower(query)
        words = [fold(word) for word in query.split()]
        found = []
        for entry in _without_duplicates(self._newest_first()):
            text = entry.text[:_MAX_SEARCHED_CHARACTERS]
            if fold is str.casefold:
                text = self._search_text(text)
            if all(word in text for word in words):
                found.append(entry)
        return found

    def _search_text(self, text: str) -> str:
        folded = self._search_texts.get(text)
        if folded is None:
            folded = text.casefold()
            self._search_texts[text] = folded
        return folded

    # The file

    @property
    def is_kept(self) -> bool | None:
        """Whether entries are written to the file; while ``None``, they are held back."""
        return self._is_kept

    @is_kept.setter
    def is_kept(self, is_kept: bool | None) -> None:
        with self._lock:
            self._is_kept = is_kept
            if is_kept is False:
                self._unwritten = []

    def load(self) -> None:
        """Read the entries from the file, blocking the thread.

        Damaged lines are skipped and removed from the file.
        """
        try:
            lines = _read_lines(self.file)
        except FileNotFoundError:
            lines = []
        except OSError as error:
            self.problem = _explain("read", self.file, error)
            return
        entries, damaged = _decode(lines)
        self._stored = entries[-MAX_ENTRIES:]
        self._lines_in_file = len(lines)
        if damaged or len(lines) > MAX_ENTRIES + _SLACK:
            self._write(rewrite=True)

    def save(self) -> None:
        """Write the entries added since the last call, blocking the thread."""
        if self._unwritten and self._is_kept:
            self._write(rewrite=False)

    def _write(self, *, rewrite: bool) -> None:
        """Append the new entries, or replace the file if it must be shortened or repaired."""
        new: list[HistoryEntry] = []
        with self._lock:
            if self._is_kept:
                new = self._unwritten
                self._unwritten = []
        try:
            lines = self._encode(new)
        except Exception as error:
            # Without redaction, secrets could be written, so these entries are not written at all.
            self.problem = f"The history was not saved: secrets could not be removed ({error})."
            return
        try:
            make_private_folder(self.file.parent)
            # The lock makes sure that the file is not replaced while another process appends to it.
            with lock_folder(self.file.parent):
                if lines:
                    _append(self.file, lines)
                self._lines_in_file += lines.count(b"\n")
                new = []
                if rewrite or self._lines_in_file > MAX_ENTRIES + _SLACK:
                    self._lines_in_file = _shorten(self.file)
        except OSError as error:
            self.problem = _explain("saved", self.file, error)
            with self._lock:
                if self._is_kept is not False:
                    self._unwritten = [*new, *self._unwritten][-MAX_ENTRIES:]
            return
        self.problem = ""

    def _encode(self, entries: Iterable[HistoryEntry]) -> bytes:
        lines = bytearray()
        for entry in entries:
            text = entry.text if self._redact is None else self._redact(entry.text)
            if not text.strip():
                # Without the plugin that finds secrets, there is nothing that may be written.
                continue
            # File names may contain surrogates, which cannot be encoded as UTF-8.
            text = text.encode("utf-8", "replace").decode()
            project = entry.project.encode("utf-8", "replace").decode()
            lines += msgspec.json.encode(HistoryEntry(text, project, entry.time)) + b"\n"
        return bytes(lines)


class _Browser:
    """The current position among the older texts and the drafts.

    Position 0 is the newest match, and higher positions are older matches; -1 is the newest draft.
    """

    def __init__(self) -> None:
        self.matches: list[str] = []
        self.drafts: list[str] = []
        self.position = -1

    @property
    def is_active(self) -> bool:
        return self.drafts != []

    def note(self, text: str) -> bool:
        """Keep the editor's text if it was edited; return whether the text starts a new search."""
        if not self.drafts:
            self.drafts = [text]
            return True
        if self.position >= 0:
            if text == self.matches[self.position]:
                return False
            self.drafts.insert(0, text)
            self.position = -1
            return True
        index = -1 - self.position
        if text == self.drafts[index]:
            return False
        self.drafts[index] = text
        return index == 0

    def move(self, step: int) -> str | None:
        """Return the text at the next position, or ``None`` if there is none."""
        position = self.position + step
        if not -len(self.drafts) <= position < len(self.matches):
            return None
        self.position = position
        return self.matches[position] if position >= 0 else self.drafts[-1 - position]


def _without_duplicates(entries: Iterable[HistoryEntry]) -> Iterator[HistoryEntry]:
    seen: set[str] = set()
    for entry in entries:
        if entry.text not in seen:
            seen.add(entry.text)
            yield entry


def _fold_if_lower(query: str) -> Callable[[str], str]:
    """Return a function that normalizes texts for comparison; a lowercase query ignores case."""
    return str if query != query.lower() else str.casefold


def _explain(action: str, file: Path, error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"The history in {file} cannot be {action}: {reason}. Prompts are kept for this session."


def _read_lines(file: Path) -> list[bytes]:
    """Return the lines of the file, or only the last lines of a large file."""
    # Without O_NONBLOCK, opening a named pipe would block forever.
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    with open(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is not a file")
        skipped = status.st_size > _MAX_FILE_SIZE
        if skipped:
            stream.seek(status.st_size - _MAX_FILE_SIZE)
        lines = stream.read(_MAX_FILE_SIZE).split(b"\n")
    if skipped:
        del lines[0]
    return [line for line in lines if line]


def _decode(lines: Iterable[bytes]) -> tuple[list[HistoryEntry], bool]:
    """Parse lines, and return the entries and whether any line was damaged."""
    entries = []
    damaged = False
    for line in lines:
        try:
            entry = _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            damaged = True
            continue
        # Only an entry with a pasted mark begins with a space; see ``add``.
        has_space = entry.text.startswith(" ") and not entry.text.lstrip().startswith(_MARKS)
        if entry.text.strip() and not has_space:
            entries.append(entry)
        else:
            damaged = True
    return entries, damaged


def _append(file: Path, lines: bytes) -> None:
    """Append complete lines; the caller has locked the folder."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(file, flags, 0o600)
    with open(descriptor, "r+b", buffering=0) as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is not a file")
        if sys.platform != "win32" and stat.S_IMODE(status.st_mode) != 0o600:
            os.fchmod(descriptor, 0o600)
        size = status.st_size
        if size:
            stream.seek(size - 1)
            if stream.read(1) != b"\n":
                # Another process was killed while it was writing a line.
                lines = b"\n" + lines
        try:
            written = stream.write(lines)
            while written < len(lines):
                written += stream.write(lines[written:])
        except OSError:
            # On a full disk, part of the lines would remain in the file and be written again later.
            os.ftruncate(descriptor, size)
            raise


def _shorten(file: Path) -> int:
    """Replace the file with one that contains only the newest entries, and return their number."""
    path = Path(os.path.realpath(file))
    entries, _ = _decode(_read_lines(path))
    kept = entries[-MAX_ENTRIES:]
    content = b"".join(msgspec.json.encode(entry) + b"\n" for entry in kept)
    # `mkstemp` creates the file with mode 0600.
    descriptor, new = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(descriptor)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise
    return len(kept)
