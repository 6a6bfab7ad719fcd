"""One skill: a folder with a ``SKILL.md``, read leniently, with everything that is odd in it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
from hilum_frontmatter import Document, Problem, flag, names, read, text

FILE = "SKILL.md"
MOST_BYTES = 1_000_000
MOST_RESOURCES = 2_000
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
LONGEST_COMPATIBILITY = 500
_SKIPPED = {".git", "node_modules", "__pycache__"}


class Skill(msgspec.Struct, frozen=True):
    """A skill as it was read.

    Attributes:
        name: What it is called.
        description: What it does and when to use it.
        file: The file it was read from.
        body: Its instructions.
        fields: Everything that stands in its front matter.
        problems: What is not as it should be, with lines.
        error: Why it does not load; empty if it does.
        allowed_tools: Tools that it names as its own; shown to the user, and no approval of
            anything.
        by_model: Whether the model may come to it by itself (``disable-model-invocation`` is not
            set).
    """

    name: str
    description: str
    file: Path
    body: str = ""
    fields: dict[str, object] = msgspec.field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    error: str = ""
    allowed_tools: tuple[str, ...] = ()
    by_model: bool = True

    @property
    def folder(self) -> Path:
        """The folder that its resources are in."""
        return self.file.parent

    @property
    def version(self) -> str:
        """A short digest of the instructions."""
        return hashlib.sha256(self.body.encode(errors="replace")).hexdigest()[:8]

    def resources(self) -> list[str]:
        """List the other files of the skill, by path relative to its folder.

        Hidden ones and links are left out. Blocks.
        """
        return sorted(_files(self.folder, self.file))


def load_skill(path: str | os.PathLike[str], *, described: bool = True) -> Skill:
    """Read a skill. Blocks.

    Args:
        path: Its folder, or its file.
        described: Whether it must say what it does. A file that was not written as a skill
            (``README.md``) is described by its first words.

    Returns:
        The skill. What is wrong with it stands in ``problems``; where ``error`` is not empty, it
        does not load.
    """
    given = Path(path)
    file = find_file(given) if given.is_dir() else given
    if file is None:
        return Skill(given.name, "", given / FILE, error=f"There is no {FILE} in {given}.")
    if file.name.casefold() == FILE.casefold():
        named = file.parent
    else:
        named = file.with_suffix("")
    # In one line, and writable: a folder may be called anything.
    fallback = " ".join(
        os.fsencode(os.path.basename(os.path.realpath(named))).decode(errors="replace").split()
    )
    try:
        data = _read(file)
    except OSError as error:
        return Skill(fallback, "", file, error=f"{file} cannot be read: {error.strerror or error}.")
    return _of(file, fallback, read(data), described)


def find_file(folder: Path) -> Path | None:
    """Return the file of a skill in a folder: ``SKILL.md``, or the same name in other letters."""
    try:
        names = {
            entry.name for entry in os.scandir(folder) if entry.name.casefold() == FILE.casefold()
        }
    except OSError:
        return None
    if names:
        return folder / (FILE if FILE in names else min(names))
    return None


def _read(file: Path) -> bytes:
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(file, flags)
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no plain file")
        if status.st_size > MOST_BYTES:
            raise OSError(0, f"it has {status.st_size:,} bytes, more than {MOST_BYTES:,}")
        data = stream.read(MOST_BYTES + 1)
        if data.startswith(b"version https://git-lfs.github.com/spec/"):
            raise OSError(0, "Git LFS keeps its text elsewhere, and hilum does not fetch that")
        if b"\0" in data:
            raise OSError(0, "it is no UTF-8 text")
        return data


def _of(file: Path, fallback: str, document: Document, described: bool) -> Skill:
    problems = list(document.problems)
    error = ""
    name = _line(text(document, "name"))
    description = _line(text(document, "description"))
    if file.name != FILE and file.name.casefold() == FILE.casefold():
        problems.append(Problem(1, f"The file should be called {FILE}."))
    if not name:
        if described and document.present:
            problems.append(Problem(1, f"The name is missing; {fallback!r} is taken."))
        name = fallback
    elif described and name != fallback:
        problems.append(
            document.problem("name", f"The name {name!r} differs from the folder's, {fallback!r}.")
        )
    if len(name) > LONGEST_NAME:
        problems.append(
            document.problem("name", f"The name has more than {LONGEST_NAME} characters.")
        )
    if not description and described:
        error = "It has no description" + ("." if document.present else ": it has no front matter.")
    elif not description and not document.body.strip():
        error = "It is empty."
    elif not description:
        description = _first_words(document.body) or name
    if len(description) > LONGEST_DESCRIPTION:
        where = document.problem(
            "description", f"The description has more than {LONGEST_DESCRIPTION} characters."
        )
        problems.append(where)
    if "hooks" in document.fields:
        problems.append(document.problem("hooks", "Hooks of a skill are not run."))
    if not document.body.strip() and not error:
        problems.append(Problem(document.line, "It has no instructions below its front matter."))
    if error:
        problems.append(Problem(1, error, fatal=True))
    return Skill(
        name,
        description,
        file,
        document.body.strip("\n"),
        document.fields,
        tuple(sorted(problems, key=lambda problem: problem.line)),
        error,
        names(document, "allowed-tools") or (),
        not flag(document, "disable-model-invocation", False),
    )


def _line(text: str) -> str:
    """A text on one line, without characters that do something instead of being shown."""
    return "".join(
        letter if letter.isprintable() else "\ufffd" for letter in " ".join(text.split())
    )


def _first_words(body: str) -> str:
    for block in body.split("\n\n"):
        words = " ".join(
            line
            for line in block.split("\n")
            if not line.lstrip().startswith(("#", "[!", "![", "<", "```"))
        )
        if words.strip():
            return _line(words)[:300]
    return ""


def _files(folder: Path, but: Path) -> Iterator[str]:
    found = 0
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if name not in _SKIPPED and not name.startswith(".")
        )
        for name in files:
            path = Path(here, name)
            if name.startswith(".") or path == but or not path.is_file() or path.is_symlink():
                continue
            yield path.relative_to(folder).as_posix()
            found += 1
            if found == MOST_RESOURCES:
                return
