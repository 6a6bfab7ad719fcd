"""Reads a skill, a folder with a ``SKILL.md``, leniently.

Skills are read whenever a session starts, so this module does not import cattrs (40 ms);
``validate`` checks strictly.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec
from hilum import walk_folders
from hilum.frontmatter import Document, Problem, flag, names, read, text

SKILL_FILE = "SKILL.md"
# Maximum size of a file, in bytes; larger than any model's context window.
MAX_BYTES = 1_000_000
MAX_RESOURCES = 2_000
# Limits of the Agent Skills specification.
MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500
_SKIPPED = {".git", "node_modules", "__pycache__"}


class Skill(msgspec.Struct, frozen=True):
    """A skill, as read from its file.

    Attributes:
        name: Its name.
        description: Its purpose and when to use it.
        file: The file from which it was read.
        body: Its instructions.
        fields: All fields of its front matter.
        problems: Mistakes in the file, with line numbers.
        error: Why the skill cannot be used; empty if it can.
        allowed_tools: Tools that the skill lists. hilum shows the list to the user, but does not
            approve calls of these tools.
        by_model: Whether the model may choose the skill (``disable-model-invocation`` is not set).
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
        """The folder that contains the skill's other files."""
        return self.file.parent

    @property
    def version(self) -> str:
        """A short digest of the skill's instructions."""
        # The digest shows the model whether the instructions have changed since it read them.
        return hashlib.sha256(self.body.encode(errors="replace")).hexdigest()[:8]

    def resources(self) -> list[str]:
        """Return the other files of the skill, relative to its folder. Blocks.

        Hidden files and links are omitted.
        """
        files = _walk_files(self.folder, self.file)
        return sorted(islice(files, MAX_RESOURCES))


def load_skill(path: str | os.PathLike[str], *, described: bool = True) -> Skill:
    """Read a skill. Blocks.

    Args:
        path: The skill's folder or file.
        described: Whether a description is required. Otherwise, as for a ``README.md``, the first
            words of the text replace a missing description.

    Returns:
        The skill, with all mistakes in ``problems``. A skill with an ``error`` cannot be used.
    """
    given = Path(path)
    file = find_skill_file(given) if given.is_dir() else given
    if file is None:
        return Skill(
            given.name,
            "",
            given / SKILL_FILE,
            error=f"There is no {SKILL_FILE} in {given}.",
        )
    if file.name.casefold() == SKILL_FILE.casefold():
        named = file.parent
    else:
        named = file.with_suffix("")
    # A folder's name may contain newlines and bytes that are not UTF-8.
    folder_name = os.fsencode(os.path.basename(os.path.realpath(named)))
    fallback = " ".join(folder_name.decode(errors="replace").split())
    try:
        data = _read(file)
    except OSError as error:
        reason = error.strerror or error
        return Skill(fallback, "", file, error=f"{file} cannot be read: {reason}.")
    return _make_skill(file, fallback, read(data), described)


def find_skill_file(folder: Path) -> Path | None:
    """Return the skill file in a folder, which is ``SKILL.md`` in any letter case."""
    try:
        names = [name for name in os.listdir(folder) if name.casefold() == "skill.md"]
    except OSError:
        return None
    if not names:
        return None
    # On most file systems, the folder may contain several names that differ only in case.
    return folder / (SKILL_FILE if SKILL_FILE in names else min(names))


def _read(file: Path) -> bytes:
    # Opening a pipe would block until a process writes to it.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(file, flags)
    with os.fdopen(descriptor, "rb") as stream:
        # Check the descriptor, not the path, whose file could be replaced between check and read.
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is not a regular file")
        if status.st_size > MAX_BYTES:
            raise OSError(0, f"it has {status.st_size:,} bytes, more than {MAX_BYTES:,}")
        # The file may have grown since its size was checked.
        data = stream.read(MAX_BYTES + 1)
        # The text of an LFS pointer would be mistaken for instructions.
        if data.startswith(b"version https://git-lfs.github.com/spec/"):
            raise OSError(0, "it is a Git LFS pointer, and hilum does not fetch the file behind it")
        if b"\0" in data:
            raise OSError(0, "it is not UTF-8 text")
        return data


def _make_skill(file: Path, fallback: str, document: Document, described: bool) -> Skill:
    """Create a skill from its front matter and body.

    Args:
        file: The file.
        fallback: The name of a skill whose front matter has none.
        document: The parsed file.
        described: See ``load_skill``.
    """
    problems = list(document.problems)
    if file.name != SKILL_FILE and file.name.casefold() == SKILL_FILE.casefold():
        problems.append(Problem(1, f"The file should be called {SKILL_FILE}."))
    name = _line(text(document, "name"))
    problems += _check_name(document, name, fallback, described)
    name = name or fallback
    description, error = _describe(document, name, described)
    problems += _check_content(document, description, error)
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


def _check_name(document: Document, name: str, fallback: str, described: bool) -> Iterator[Problem]:
    """Yield the problems with a name, which is empty if the front matter has none."""
    if not name and described and document.present:
        yield Problem(1, f"The name is missing; {fallback!r} is used.")
    if name and described and name != fallback:
        yield document.problem(
            "name", f"The name {name!r} differs from the folder's, {fallback!r}."
        )
    if len(name or fallback) > MAX_NAME:
        yield document.problem("name", f"The name has more than {MAX_NAME} characters.")


def _describe(document: Document, name: str, described: bool) -> tuple[str, str]:
    """Return a skill's description, and the reason why the skill cannot be used."""
    description = _line(text(document, "description"))
    if description:
        return description, ""
    if described:
        reason = "." if document.present else ": it has no front matter."
        return "", f"It has no description{reason}"
    if not document.body.strip():
        return "", "It is empty."
    return _first_words(document.body) or name, ""


def _check_content(document: Document, description: str, error: str) -> Iterator[Problem]:
    """Yield the problems with a skill's description, hooks and body."""
    if len(description) > MAX_DESCRIPTION:
        yield document.problem(
            "description", f"The description has more than {MAX_DESCRIPTION} characters."
        )
    if "hooks" in document.fields:
        yield document.problem("hooks", "hilum does not run a skill's hooks.")
    if not document.body.strip() and not error:
        yield Problem(document.line, "It has no instructions below its front matter.")
    if error:
        yield Problem(1, error, fatal=True)


def _line(text: str) -> str:
    """Return a string on one line, with control characters replaced."""
    line = " ".join(text.split())
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in line)


def _first_words(body: str) -> str:
    # Headings, badges, images, HTML and code do not describe the skill.
    markup = ("#", "[!", "![", "<", "```")
    for block in body.split("\n\n"):
        lines = block.split("\n")
        plain = [line for line in lines if not line.lstrip().startswith(markup)]
        words = _line(" ".join(plain))
        if words:
            return words[:300]
    return ""


def _walk_files(folder: Path, skill_file: Path) -> Iterator[str]:
    for here, folders, files in walk_folders(folder):
        folders[:] = sorted(name for name in folders if _is_visible(name))
        for name in filter(_is_visible, files):
            path = Path(here, name)
            # A link could lead out of the skill's folder.
            if path.is_file() and not path.is_symlink() and path != skill_file:
                yield path.relative_to(folder).as_posix()


def _is_visible(name: str) -> bool:
    return not name.startswith(".") and name not in _SKIPPED
