"""Reads ``rules.lock``: the checks that users have signed, and sentences left as advice.

Each entry is a separate ``[[rule]]`` table, which `hilum rules compile` writes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import attrs
import msgspec
from hilum import Workspace
from msgspec.structs import asdict, replace

from hilum_rules.field_mistakes import describe_mistake
from hilum_rules.rule import Problems
from hilum_rules.source import UnreadableError, digest_text, read_source
from hilum_rules.toml_tables import MAX_CHECKS, Table, split_tables

MAX_BYTES = 2_000_000
TABLE = "[[rule]]"
"""The header of each entry."""
_CONFLICT = re.compile(r"(?:<{7}|={7}|>{7}|\|{7})(?: .*)?$")
_CLOSED = (
    "Until it can, every change needs approval. Restore the file, for example with Git, or delete it"
    " and sign again with `hilum rules compile`."
)
_DIGITS = 20
"""The number of hexadecimal digits of a hash, which is not secret: it detects changes."""


class _Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a ``[[rule]]`` table."""

    file: str
    section: str
    sentence: str
    hash: str
    enforce: tuple[str, ...] = ()
    advice: str = ""
    checksum: str = ""


class Entry(_Fields, frozen=True):
    """A decision about one sentence.

    Attributes:
        file: The rules file, relative to the folder of the lock; for a user's own rules, as shown.
        section: The headings above the sentence; may be missing in the file.
        sentence: The sentence, as ``hilum rules`` shows it.
        hash: The hash of the sentence with its section and the code below it.
        enforce: The signed checks, in the notation of ``enforce:`` lines; empty for advice.
        advice: Why the sentence stays advice; empty if it is enforced.
        checksum: The checksum of the fields above.
        line: The line on which the entry begins, from 1; 0 for a new entry.
    """

    line: int = 0

    @property
    def is_signed(self) -> bool:
        """Whether the entry is as ``hilum rules compile`` wrote it."""
        return self.checksum == self._compute_checksum()

    def _compute_checksum(self) -> str:
        fields = [self.file, self.section, self.sentence, self.hash, *self.enforce, self.advice]
        return digest_fields(fields)

    def sign(self) -> Entry:
        """Return the entry with its checksum."""
        return replace(self, checksum=self._compute_checksum())


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
    mistakes: Problems = attrs.field(factory=list)
    is_unreadable: bool = False


def digest_fields(fields: Sequence[str]) -> str:
    """Return the hash of some texts."""
    return digest_text(json.dumps(list(fields)))[:_DIGITS]


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
        message = f"The signed checks cannot be read. {error} {_CLOSED}"
        return LockFile(path, shown, mistakes=[(0, message)], is_unreadable=True)
    lock = parse_lock(source.data.decode(errors="replace"), path, shown)
    if source.size > len(source.data):
        message = f"It is too large: what is after {MAX_BYTES:,} bytes cannot be read. {_CLOSED}"
        lock.mistakes.append((0, message))
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
    mistakes: Problems = []
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
            message = f"An entry cannot be read: {error}."
            checks = table.find_checks()
            if checks:
                message = (
                    "An entry cannot be read, and what it names is denied until it is correct:"
                    f" {error}."
                )
                broken.append((table.line, checks))
            elif not table.has_key("advice"):
                message += f" {_CLOSED}"
                is_unreadable = True
            mistakes.append((table.line, message))
    return LockFile(path, shown, tuple(entries), tuple(broken), mistakes, is_unreadable)


def _parse_entry(table: Table) -> Entry:
    """Parse one table.

    Raises:
        ValueError: It is malformed.
    """
    if not table.has_header:
        raise ValueError(f"it is not below {TABLE}")
    try:
        fields = msgspec.convert({"section": "", **table.parse()}, _Fields)
    except msgspec.ValidationError as error:
        raise ValueError(describe_mistake(error)) from None
    if bool(fields.enforce) == bool(fields.advice):
        raise ValueError("it needs either enforce or advice")
    if len(fields.enforce) > MAX_CHECKS:
        raise ValueError(f"it has more than {MAX_CHECKS} checks")
    return Entry(**asdict(fields), line=table.line)
