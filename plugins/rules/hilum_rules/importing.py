"""Resolves imports such as ``@docs/style.md``, with limited depth and only from allowed folders.

Cycles are detected, and the same text is read only once.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import attrs
from hilum import Workspace

from hilum_rules.discovery import FoundFile, WorkspacePaths
from hilum_rules.parsed_file import ParsedFile
from hilum_rules.parsing import Draft, find_imports
from hilum_rules.rule import Mode, Problem, problems_in
from hilum_rules.source import Source, follow_links

MAX_DEPTH = 5
MAX_IMPORTS = 200
"""Maximum total number of imports in all files."""
MAX_NAMES = 1_000
"""Maximum number of names to examine in all files; one file may contain tens of thousands."""
_SUFFIXES = (".md", ".mdc", ".markdown", ".txt", ".rst")
_IMPORTING = frozenset(
    "agents claude claude-rules gemini copilot markdown cursorrules instructions".split()
)
# The home folders of other agents, from which a user's file may import.
_HOMES = (".claude", ".codex", ".gemini", ".cursor", ".config/opencode")


class _Step(NamedTuple):
    """A file in a chain of imports."""

    real: Path
    shown: str
    titles: tuple[str, ...]


class _NotImportedError(Exception):
    """Raised if a name is not imported; the message is empty if the name may not be a path."""


class ImportResolver:
    """Resolves the imports of several files, and remembers which texts were read.

    Attributes:
        problems: The current file's imports that failed.
        sources: The files imported by the current file.
        skips_twins: Whether the current file imports texts that were read before.

    Args:
        paths: The paths of the workspace.
        allowed: Folders outside the workspace from which files may import.
        parse: A function that parses a file, or returns why the file cannot be read.
    """

    def __init__(
        self,
        paths: WorkspacePaths,
        allowed: list[Path],
        parse: Callable[[Path, str, Workspace], ParsedFile | str],
    ) -> None:
        self.problems: list[Problem] = []
        self.sources: list[Source] = []
        self.skips_twins = False
        self._paths = paths
        self._allowed = allowed
        self._parse = parse
        self._read = defaultdict[Path | str, list[FoundFile]](list)
        self._imports = 0
        self._names = 0
        self._is_always = True

    def begin(self, parsed: ParsedFile, found: FoundFile) -> str:
        """Begin with another file; return the file whose rules already include its text, if any.

        Args:
            parsed: The file.
            found: The location of the file.
        """
        self.problems = []
        self.sources = []
        self.skips_twins = False
        self._is_always = parsed.front_matter.mode is Mode.ALWAYS
        return self._find_twin(parsed, found)

    def _find_twin(self, parsed: ParsedFile, found: FoundFile) -> str:
        """Return the file whose rules already include a text, or remember the text.

        The returned file governs the same folder or a parent folder.
        """
        keys = (parsed.source.real, parsed.text_hash)
        for key in keys:
            for earlier in self._read[key]:
                if parsed.drafts and found.folder.is_relative_to(earlier.folder):
                    return earlier.shown
        # A later file with the same text is skipped only if these rules are always active.
        if self._is_always:
            for key in keys:
                self._read[key].append(found)
        return ""

    def resolve(self, parsed: ParsedFile, found: FoundFile) -> list[Draft]:
        """Return the drafts of a file, with the drafts of imported files inserted at their imports.

        Args:
            parsed: The file.
            found: The location of the file.
        """
        return list(self._drafts(parsed, found, [_Step(parsed.source.real, found.shown, ())]))

    def _drafts(self, parsed: ParsedFile, found: FoundFile, chain: list[_Step]) -> Iterator[Draft]:
        here = chain[-1]
        can_import = found.dialect in _IMPORTING
        for draft in parsed.drafts:
            imported: dict[str, list[Draft]] = {}
            for name in dict.fromkeys(find_imports(draft.content)) if can_import else ():
                try:
                    imported[f"@{name}"] = self._import(name, draft, found, chain)
                except _NotImportedError as error:
                    self._report(here, draft, name, str(error))
            content = _remove_imports(draft.content, imported) if imported else draft.content
            if content.strip("\n"):
                titles = (*here.titles, *draft.titles)
                yield attrs.evolve(draft, content=content, titles=titles, path=here.shown)
            for drafts in imported.values():
                yield from drafts

    def _import(self, name: str, draft: Draft, found: FoundFile, chain: list[_Step]) -> list[Draft]:
        """Return the drafts of the file that a name imports."""
        real, fence = self._find_file(name, found, chain)
        self._imports += 1
        parsed = self._parse(real, "import", fence)
        if isinstance(parsed, str):
            raise _NotImportedError(f"is not imported. {parsed}")
        here = chain[-1]
        shown = self._paths.display(real)
        inner = found._replace(shown=shown, path=real)
        twin = self._find_twin(parsed, inner)
        if twin:
            self.skips_twins = True
            reason = f"is not imported: it has the same text as {twin}, which was read before."
            # The usual `CLAUDE.md` contains only `@AGENTS.md`, which was read in its own right.
            self._report(here, draft, name, reason if twin != shown else "")
            return []
        self.sources.append(parsed.source)
        self.problems += problems_in(shown, parsed.problems)
        step = _Step(real, shown, (*here.titles, *draft.titles))
        return list(self._drafts(parsed, inner, [*chain, step]))

    def _report(self, here: _Step, draft: Draft, name: str, reason: str) -> None:
        """Add a problem about a name, if there is a reason."""
        if reason:
            self.problems.append(Problem(here.shown, draft.line, f"@{name} {reason}"))

    def _find_file(self, name: str, found: FoundFile, chain: list[_Step]) -> tuple[Path, Workspace]:
        """Return the file that a name imports, and the folder that must contain it."""
        self._count_name()
        path = self._join(name, chain[-1].real)
        real = follow_links(path)
        suffix = Path(name).suffix.lower()
        # The resolved path is checked, because a link could lead out of the project.
        fence = self._find_fence(real, found)
        problem = _explain_missing(path, real, fence)
        if fence is None or problem:
            # A word after `@` may also be the name of a user or a decorator.
            is_path = suffix in _SUFFIXES or name.startswith(("./", "../", "~/", "/"))
            raise _NotImportedError(problem if is_path else "")
        if suffix and suffix not in _SUFFIXES:
            raise _NotImportedError("is named but not imported: it is not a Markdown or text file.")
        self._check_chain(real, chain)
        return real, fence

    def _check_chain(self, real: Path, chain: list[_Step]) -> None:
        # Links are followed, because two names for one file could form an endless chain.
        if real in [step.real for step in chain]:
            cycle = " imports ".join(step.shown for step in chain)
            raise _NotImportedError(f"is not imported again: {cycle} imports it.")
        # The depth that Claude Code documents for its imports.
        if len(chain) > MAX_DEPTH:
            raise _NotImportedError(f"is not imported: the maximum import depth is {MAX_DEPTH}.")
        if self._imports >= MAX_IMPORTS:
            raise _NotImportedError("is not imported: too many imports.")

    def _count_name(self) -> None:
        self._names += 1
        if self._names == MAX_NAMES + 1:
            raise _NotImportedError(
                f"is not imported, nor are the names after it: no more than {MAX_NAMES:,} names"
                " are examined."
            )
        if self._names > MAX_NAMES:
            raise _NotImportedError

    def _join(self, name: str, importer: Path) -> Path:
        name = name.replace("\\", "/")
        if name.startswith("~/"):
            return self._paths.home / name[2:]
        return importer.parent / name

    def _find_fence(self, real: Path, found: FoundFile) -> Workspace | None:
        """Return the folder from which a file may be imported; ``None`` if there is none."""
        folders = [self._paths.top, *self._allowed]
        if found.origin == "user":
            # `~/.claude/CLAUDE.md` may import from `~/.claude`.
            folders += [self._paths.config, *(self._paths.home / name for name in _HOMES)]
        for folder in folders:
            resolved = follow_links(folder)
            if real.is_relative_to(resolved):
                return Workspace(resolved)
        return None


def _explain_missing(path: Path, real: Path, fence: Workspace | None) -> str:
    """Return why there is no file to import; empty if there is one."""
    if fence is None:
        return (
            "is not imported: it is outside the project. The setting rules.import_from"
            " can allow its folder."
        )
    if os.path.isdir(real):
        return "is not imported: it is a folder."
    return "" if os.path.lexists(path) else "is not imported: there is no such file."


def _remove_imports(content: str, imported: Collection[str]) -> str:
    """Return a text without the lines that contain only imports."""
    return "\n".join(
        line for line in content.split("\n") if not set(line.split()).issubset(imported)
    )
