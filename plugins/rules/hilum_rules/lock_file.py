"""Reads and writes ``rules.lock``: the checks that users have signed, and sentences left as advice.

Each entry is a separate ``[[rule]]`` table.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs
import msgspec
from hilum import StoreError, Workspace
from hilum.errors import HilumError

from hilum_rules.atomic_files import replace_file
from hilum_rules.source import UnreadableError, read_source
from hilum_rules.toml_tables import MAX_CHECKS, Table, split_tables

MAX_BYTES = 2_000_000
_HEAD = """\
# Checks for sentences of rules files, and sentences that stay advice. `hilum rules compile` writes
# this file when somebody signs. hilum reports entries that were changed in any other way.
"""
_TABLE = "[[rule]]"
_CONFLICT = re.compile(r"(?:<{7}|={7}|>{7}|\|{7})(?: .*)?$")
_CLOSED = (
    "Until it can, every change needs approval. Restore the file, for example with Git, or delete it"
    " and sign again with `hilum rules compile`."
)
_DIGITS = 20
"""The number of hexadecimal digits of a hash, which is not secret: it detects changes."""
Mistakes = list[tuple[int, str]]
"""Mistakes, each as a line number and a sentence."""


@attrs.frozen
class Entry:
    """A decision about one sentence.

    Attributes:
        file: The rules file, relative to the folder of the lock; for a user's own rules, as shown.
        section: The headings above the sentence.
        sentence: The sentence, as ``hilum rules`` shows it.
        hash: The hash of the sentence with its section and the code below it.
        enforce: The signed checks, in the notation of ``enforce:`` lines; empty for advice.
        advice: Why the sentence stays advice; empty if it is enforced.
        checksum: The checksum of the fields above.
        line: The line on which the entry begins, from 1; 0 for a new entry.
    """

    file: str
    section: str
    sentence: str
    hash: str
    enforce: tuple[str, ...] = ()
    advice: str = ""
    checksum: str = ""
    line: int = 0

    @property
    def is_signed(self) -> bool:
        """Whether the entry is as ``hilum rules compile`` wrote it."""
        return self.checksum == self._compute_checksum()

    def _compute_checksum(self) -> str:
        fields = [self.file, self.section, self.sentence, self.hash, *self.enforce, self.advice]
        return _digest(fields)

    def sign(self) -> Entry:
        """Return the entry with its checksum."""
        return attrs.evolve(self, checksum=self._compute_checksum())


@attrs.frozen
class LockFile:
    """The contents of a lock.

    Attributes:
        path: The file.
        shown: The readable path.
        entries: The entries that could be read.
        broken: For each entry that could not be read, its line and the checks that it names.
        mistakes: The mistakes in the file.
        is_unreadable: Whether the file contains, or may contain, checks that could not be found.
    """

    path: Path
    shown: str
    entries: tuple[Entry, ...] = ()
    broken: tuple[tuple[int, tuple[str, ...]], ...] = ()
    mistakes: Mistakes = attrs.field(factory=list)
    is_unreadable: bool = False

    def replace(self, new: Iterable[Entry], stale: Iterable[Entry] = ()) -> LockFile:
        """Return the lock with new entries, which replace those for the same sentences.

        Args:
            new: The entries to add.
            stale: Entries to remove.
        """
        signed = {_key(entry): entry.sign() for entry in new}
        gone = set(stale)
        # A merge may leave two entries for one sentence: both are kept, because both restrict.
        kept = [each for each in self.entries if _key(each) not in signed and each not in gone]
        return attrs.evolve(self, entries=(*kept, *signed.values()))


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    """One ``[[rule]]`` table."""

    file: str
    sentence: str
    hash: str
    section: str = ""
    enforce: tuple[str, ...] = ()
    advice: str = ""
    checksum: str = ""


def hash_sentence(section: str, lead: str, content: str) -> str:
    """Return the hash of a sentence, which changes with its text and the headings above it."""
    return _digest([section, lead, " ".join(content.split())])


def _digest(fields: Sequence[str]) -> str:
    text = json.dumps(list(fields))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _key(entry: Entry) -> tuple[str, str]:
    return entry.file, entry.hash


# --- reading --------------------------------------------------------------------------------------


def read_lock(path: Path, shown: str, top: Path) -> LockFile:
    """Read a lock. A file that cannot be read is marked as unreadable. Blocks.

    Args:
        path: The file.
        shown: The readable path.
        top: The folder that the file must not leave through links.
    """
    if not os.path.lexists(path):
        return LockFile(path, shown)
    try:
        source = read_source(path, Workspace(top), MAX_BYTES)
    except UnreadableError as error:
        told = f"The signed checks cannot be read. {error} {_CLOSED}"
        return LockFile(path, shown, mistakes=[(0, told)], is_unreadable=True)
    lock = parse_lock(source.data.decode(errors="replace"), path, shown)
    if source.size > len(source.data):
        told = f"It is too large: what is after {MAX_BYTES:,} bytes cannot be read. {_CLOSED}"
        lock.mistakes.append((0, told))
        return attrs.evolve(lock, is_unreadable=True)
    return lock


def parse_lock(text: str, path: Path, shown: str) -> LockFile:
    """Parse the text of a lock.

    Args:
        text: The text.
        path: The file.
        shown: The readable path.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    mistakes: Mistakes = []
    for index, line in enumerate(lines):
        if _CONFLICT.match(line):
            mistakes.append((index + 1, "A merge conflict: the entries of both sides hold."))
            lines[index] = ""
    entries: list[Entry] = []
    broken: list[tuple[int, tuple[str, ...]]] = []
    is_unreadable = False
    for table in split_tables(lines):
        try:
            entries.append(_parse_entry(table))
        except ValueError as error:
            checks = table.find_checks()
            if checks:
                told = f"An entry cannot be read, and what it names is denied until it is correct: {error}."
                broken.append((table.line, checks))
            elif table.has_key("advice"):
                told = f"An entry cannot be read: {error}."
            else:
                told = f"An entry cannot be read: {error}. {_CLOSED}"
                is_unreadable = True
            mistakes.append((table.line, told))
    return LockFile(path, shown, tuple(entries), tuple(broken), mistakes, is_unreadable)


def _parse_entry(table: Table) -> Entry:
    """Parse one table.

    Raises:
        ValueError: It is malformed.
    """
    if not table.has_header:
        raise ValueError(f"it is not below {_TABLE}")
    try:
        fields = msgspec.convert(table.parse(), _Table)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if bool(fields.enforce) == bool(fields.advice):
        raise ValueError("it needs either enforce or advice")
    if len(fields.enforce) > MAX_CHECKS:
        raise ValueError(f"it has more than {MAX_CHECKS} checks")
    return Entry(**msgspec.structs.asdict(fields), line=table.line)


# --- writing --------------------------------------------------------------------------------------


def format_lock(entries: Iterable[Entry]) -> str:
    """Return the text of a lock, which depends only on the entries and not on their order."""
    parts = [_HEAD]
    for entry in sorted(entries, key=_order):
        lines = ["", _TABLE, f"file = {_quote(entry.file)}"]
        if entry.section:
            lines.append(f"section = {_quote(entry.section)}")
        lines.append(f"sentence = {_quote(entry.sentence)}")
        if entry.enforce:
            lines += ["enforce = [", *(f"  {_quote(line)}," for line in entry.enforce), "]"]
        else:
            lines.append(f"advice = {_quote(entry.advice)}")
        lines += [f"hash = {_quote(entry.hash)}", f"checksum = {_quote(entry.checksum)}", ""]
        parts.append("\n".join(lines))
    return "".join(parts)


def _order(entry: Entry) -> tuple[object, ...]:
    # All fields count, because a merge may leave two entries for one sentence.
    return entry.file, entry.sentence, *attrs.astuple(attrs.evolve(entry, line=0))


def _quote(text: str) -> str:
    # A TOML basic string has the escapes of JSON, but DEL must be escaped as well.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def write_lock(lock: LockFile, top: Path) -> None:
    """Write a lock atomically. Blocks.

    Args:
        lock: The lock.
        top: The folder that the file must not leave through links.

    Raises:
        StoreError: The file cannot be written.
    """
    try:
        lock.path.parent.mkdir(parents=True, exist_ok=True)
        # A link in a cloned project must not make hilum write outside the project.
        if not Workspace(top).resolve(lock.path).is_relative_to(os.path.realpath(top)):
            raise OSError("it is a link that leads out of the folder")
        # A lock is committed like other files of the project.
        replace_file(lock.path, format_lock(lock.entries).encode(), 0o644)
    except (OSError, HilumError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StoreError(
            f"{lock.shown} cannot be written: {reason}.",
            hint="Nothing was signed. Check the permissions of the folder.",
        ) from None
