"""A data class for a program with its arguments, and for the effects found in them so far."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import attrs

from hilum_guard.effects import program_files
from hilum_guard.effects.file_access import UNKNOWN, AccessKind, FileAccess, FoundFiles, Unknown
from hilum_guard.effects.network_use import REMOTE
from hilum_guard.programs import options
from hilum_guard.small_files import read_small_file

MAX_PATCH = 1_000_000
# Streams, and devices without contents, which never count as files.
_STREAM = re.compile(r"/dev/(null|zero|full|random|urandom|stdin|stdout|stderr|tty|ptmx|fd/\d+)")
_PATCH_VALUED = frozenset(
    "-p -F -V -B -Y -z -g -d -D -i -o -r"
    " --strip --input --output --directory --reject-file --fuzz".split()
)
MAX_MENTION = 1000
"""Maximum number of characters in a word that may be a path."""


@attrs.define
class Invocation:
    """A program whose arguments are being read.

    Attributes:
        name: The program's name in lower case.
        words: The words after the program.
        cwds: The folders that the program may run in.
        stdin: The text that is piped into the program, if known.
        fed: The files from which the program's standard input is redirected.
        files: What the program does to files, as far as its words have been read.
        found: What the program does to files that a search finds.
        unknown: What else the program may do.
    """

    name: str
    words: tuple[str, ...]
    cwds: tuple[str | None, ...]
    stdin: str | None = None
    fed: tuple[str, ...] = ()
    files: list[FileAccess] = attrs.field(factory=list)
    found: list[FoundFiles] = attrs.field(factory=list)
    unknown: Unknown = ""

    def access(self, kind: AccessKind, path: str, **details: Any) -> None:
        """Record that the program accesses a path."""
        self.add(FileAccess(kind, path, **details))

    def add(self, access: FileAccess) -> None:
        """Add an access with the program's working folders; accesses to streams are ignored."""
        if access.path in ("", "-") or _STREAM.fullmatch(access.path):
            return
        self.files.append(attrs.evolve(access, cwds=self.cwds))

    def mention(self, words: Sequence[str]) -> None:
        """Record that the program may do anything with the files that the given words name."""
        self.unknown = "all"
        for word in words:
            for text in _find_mentioned(word):
                if not text.isdigit() or self.exists(text):
                    self.access("any", text, certain=False)

    # --- the disk ---------------------------------------------------------------------------------

    def _absolute(self, path: str) -> list[str]:
        """Return the known absolute paths that a path may refer to."""
        path = os.path.expanduser(path)
        if UNKNOWN in path:
            return []
        if path.startswith("/"):
            return [path]
        return [os.path.join(cwd, path) for cwd in self.cwds if cwd is not None]

    def exists(self, path: str) -> bool:
        """Return whether a path exists on the disk."""
        return any(os.path.lexists(each) for each in self._absolute(path))

    def is_folder(self, path: str) -> bool:
        """Return whether a path is a folder on the disk."""
        return any(os.path.isdir(each) for each in self._absolute(path))

    # --- effects of several programs --------------------------------------------------------------

    def copy(self, sources: Sequence[str], target: str, *, moves: bool = False) -> None:
        """Add the effects of copying or moving files to a target."""
        for source in sources:
            if moves:
                self.access("delete", source, deep="all", moved=True)
                self.access("read", source, deep="some")
            elif not REMOTE.fullmatch(source):
                self.access("read", source, deep="some")
        self.place(sources, target)

    def place(self, sources: Sequence[str], target: str) -> None:
        """Add the writes that result from placing files at a target."""
        if not target or REMOTE.fullmatch(target):
            return
        is_folder = self.is_folder(target)
        self.access("write", target, deep="" if is_folder else "some")
        inside = is_folder or target.endswith("/") or len(sources) > 1
        for source in sources:
            name = os.path.basename(source.rstrip("/"))
            # With a slash at the end, rsync copies the folder's contents, not the folder itself.
            contents = source.endswith("/") and self.name == "rsync"
            placed = target
            if inside and not contents and name not in ("", "."):
                placed = os.path.join(target, name)
            self.access("write", placed, deep="some", source=source)
            if not inside:
                self.access("write", os.path.join(target, name), if_folder=True)

    def patch(self, words: Sequence[str], named: Sequence[str], folder: str = "") -> bool:
        """Add the changes that a patch makes; return whether one could be read.

        The patch is in the named files or in standard input.
        """
        parsed = options.parse(words, options.valued_only(_PATCH_VALUED))
        strip_text = "".join(parsed.values("-p", "--strip")[:1])
        strip = int(strip_text) if strip_text.isdecimal() else None
        texts = [self.stdin]
        for path in (*named, *self.fed):
            texts += [_read_patch(absolute) for absolute in self._absolute(path)]
        for text in filter(None, texts):
            for path in program_files.find_patched_paths(text, strip):
                self.access("write", os.path.join(folder, path))
        return any(texts)


def _find_mentioned(word: str) -> set[str]:
    """Return the parts of a word that may be paths: all of it, its values, `PATH` in `-xPATH`."""
    if "://" in word or "\n" in word or len(word) >= MAX_MENTION:
        return set()
    parts = {word, *re.split(r"[=@:,]", word), re.sub(r"^-\w", "", word)}
    return {part for part in parts if part and not part.startswith("-")}


def _read_patch(path: str) -> str | None:
    """Return the text of a patch, or None if it cannot be read."""
    data = read_small_file(path, MAX_PATCH)
    return None if data is None else data.decode(errors="replace")
