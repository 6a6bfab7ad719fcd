"""Imports, ``@docs/style.md``: followed to a depth, ended at cycles, kept inside.

And the same text only once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import attrs
from hilum import Workspace

from hilum_rules.parsing import Draft, imports
from hilum_rules.places import Found, Where
from hilum_rules.rule import Problem

if TYPE_CHECKING:
    from hilum_rules.loading import Parsed

DEEPEST = 5
MOST_IMPORTS = 200
"""Imports of all files together; more are not followed."""
MOST_NAMES = 1_000
"""Names of all files together that are looked at: a file may hold tens of thousands."""
_ENDINGS = (".md", ".mdc", ".markdown", ".txt", ".rst", "")
_IMPORTING = frozenset(
    {
        "agents",
        "claude",
        "claude-rules",
        "gemini",
        "copilot",
        "markdown",
        "cursorrules",
        "instructions",
    }
)

Flat = tuple[Draft, str, tuple[str, ...]]
"""A draft, the file it stands in as it is shown, and the titles of the place that imports it."""


class _Step(NamedTuple):
    """A file on the way from import to import."""

    real: Path
    shown: str
    titles: tuple[str, ...]


class Importing:
    """Follows the imports of a set of files, and knows what was given already.

    Args:
        where: The places of the workspace.
        allowed: Folders outside of the workspace from which files may import.
        parse: Reads a file.
    """

    def __init__(
        self,
        where: Where,
        allowed: list[Path],
        parse: Callable[[Path, str, Workspace], Parsed | str],
    ) -> None:
        self.where = where
        self.allowed = allowed
        self.parse = parse
        self._given: dict[tuple[str, Path | str], list[tuple[PurePosixPath, str]]] = {}
        self._problems: list[Problem] = []
        self._sources: list[tuple[Path, str]] = []
        self._count = 0
        self._names = 0
        self._always = True

    def taken(self) -> tuple[list[Problem], list[tuple[Path, str]]]:
        """Return the problems and the files read since the last time."""
        given = self._problems, self._sources
        self._problems = []
        self._sources = []
        return given

    def twin(self, parsed: Parsed, found: Found, always: bool) -> str:
        """Return the file that has brought this text already, for the same folder or one above.

        Notes it if none has.
        """
        keys: list[tuple[str, Path | str]] = [
            ("file", parsed.source.real),
            ("text", parsed.text_hash),
        ]
        for key in keys:
            for folder, shown in self._given.get(key, ()):
                if found.folder.is_relative_to(folder) and parsed.drafts:
                    return shown
        if always:
            for key in keys:
                self._given.setdefault(key, []).append((found.folder, found.shown))
        return ""

    def flat(self, parsed: Parsed, found: Found, always: bool = True) -> Iterator[Flat]:
        """Yield the drafts of a file, and in their places those of the files that it imports.

        Args:
            parsed: The file.
            found: Where it was found.
            always: Whether its rules are in play at all times: only then is what it imports given
                once and for all.
        """
        self._always = always
        yield from self._flat(parsed, found, [_Step(parsed.source.real, found.shown, ())])

    def _flat(self, parsed: Parsed, found: Found, trail: list[_Step]) -> Iterator[Flat]:
        here = trail[-1]
        for draft in parsed.drafts:
            if found.dialect in _IMPORTING:
                named = list(dict.fromkeys(imports(draft.content)))
            else:
                named = []
            followed = [(name, self._one(name, draft, found, trail)) for name in named]
            inner = [(name, list(flat)) for name, flat in followed if flat is not None]
            names = {f"@{name}" for name, _ in inner}
            lines = [
                line
                for line in draft.content.split("\n")
                if not (names and {*line.split()} <= names)
            ]
            if any(lines):
                kept = attrs.evolve(draft, content="\n".join(lines)) if inner else draft
                yield kept, here.shown, here.titles
            for _, drafts in inner:
                yield from drafts

    def _one(
        self, name: str, draft: Draft, found: Found, trail: list[_Step]
    ) -> Iterator[Flat] | None:
        """Follow an import, ``None`` if it is none or is not followed."""
        here = trail[-1]

        def told(message: str) -> None:
            self._problems.append(Problem(here.shown, draft.line, f"@{name} {message}"))

        self._names += 1
        if self._names > MOST_NAMES:
            if self._names == MOST_NAMES + 1:
                told(
                    f"is not imported, nor is what is named after it: more than {MOST_NAMES:,}"
                    " names are not looked at."
                )
            return None
        path = self._path(name, here.real)
        looks_so = (
            name.startswith(("./", "../", "~/", "/")) or Path(name).suffix.lower() in _ENDINGS[:-1]
        )
        real = Path(os.path.realpath(path))
        fence = self._fence(real, found)
        if fence is None:
            if looks_so:
                told(
                    "is not imported: it is outside of the project. The setting rules.import_from"
                    " may allow its folder."
                )
            return None
        if not os.path.lexists(path) or os.path.isdir(real):
            if looks_so:
                told(
                    "is not imported: there is no such file."
                    if not os.path.isdir(real)
                    else "is not imported: it is a folder."
                )
            return None
        if Path(name).suffix.lower() not in _ENDINGS:
            told("is named and not imported: it is no Markdown and no text.")
            return None
        if real in {step.real for step in trail}:
            told(
                f"is not imported again: {' imports '.join(step.shown for step in trail)}"
                " imports it."
            )
            return None
        if len(trail) > DEEPEST or self._count >= MOST_IMPORTS:
            told(
                f"is not imported: imports go {DEEPEST} deep."
                if len(trail) > DEEPEST
                else "is not imported: too many imports."
            )
            return None
        self._count += 1
        parsed = self.parse(real, "import", fence)
        if isinstance(parsed, str):
            told(f"is not imported. {parsed}")
            return None
        shown = self.where.shown(real)
        inner = found._replace(shown=shown, path=real)
        twin = self.twin(parsed, inner, self._always)
        if twin:
            told(f"is not imported: its text is that of {twin}, which is read already.")
            return iter(())
        self._sources.append((real, parsed.hash))
        self._problems += [Problem(shown, line, message) for line, message in parsed.problems]
        step = _Step(real, shown, (*here.titles, *draft.titles))
        return self._flat(parsed, inner, [*trail, step])

    def _path(self, name: str, importer: Path) -> Path:
        plain = name.replace("\\", "/")
        if plain.startswith("~/"):
            return self.where.home / plain[2:]
        return importer.parent / plain

    def _fence(self, real: Path, found: Found) -> Workspace | None:
        """Return the folder that an imported file may be in, if it is in one."""
        folders = [self.where.top]
        if found.origin == "user":
            # Below the folder of the user's own file: ~/.claude/CLAUDE.md may import from
            # ~/.claude.
            folders += [self.where.config, *self._homes()]
        folders += self.allowed
        for folder in folders:
            resolved = Path(os.path.realpath(folder))
            if real.is_relative_to(resolved):
                return Workspace(resolved)
        return None

    def _homes(self) -> Iterator[Path]:
        for name in (".claude", ".codex", ".gemini", ".cursor", ".config/opencode"):
            yield self.where.home / name
