"""Ignore files, read as ripgrep reads them: ``.gitignore``, ``.ignore``, ``.rgignore``,
``.git/info/exclude``.
"""

from __future__ import annotations

import os
import re

from .globs import to_regex

VCS = frozenset((".git", ".hg", ".svn", ".jj", ".bzr", ".sl"))
"""Folders of version control, never looked into."""
_REPOSITORY = (".git", ".jj")


class Rules:
    """The rules of one ignore file. The last that matches a path decides.

    Args:
        text: What the file holds.
        cut: How many characters of a path lead to the folder the rules are for.
        extra: What to put before a path instead, when that folder is above the one searched.
    """

    def __init__(self, text: str, cut: int = 0, extra: str = "") -> None:
        self._cut = cut
        self._extra = extra
        rules = [rule for line in text.removeprefix("\ufeff").split("\n") if (rule := _parse(line))]
        # By whether it is about a folder: rules for names, whose answers are kept, and rules for
        # paths.
        self._sides = [
            [
                _Side(
                    [
                        (at, r)
                        for at, r in enumerate(rules)
                        if r[0] is by_name and (folder or not r[2])
                    ]
                )
                for by_name in (True, False)
            ]
            for folder in (False, True)
        ]
        self._known: list[dict[str, tuple[int, bool]]] = [{}, {}]

    def ignore(self, path: str, name: str, folder: bool) -> bool | None:
        """Return whether a path is ignored, or whitelisted, or neither."""
        names, paths = self._sides[folder]
        known = self._known[folder]
        by_name = known.get(name)
        if by_name is None:
            by_name = known[name] = names.last(name)
        at, ignored = by_name
        if paths.match:
            at, ignored = max(by_name, paths.last(self._extra + path[self._cut :]))
        return ignored if at >= 0 else None


_Rule = tuple[bool, str, bool, bool]  # for names alone, regular expression, folders only, ignores


class _Side:
    def __init__(self, rules: list[tuple[int, _Rule]]) -> None:
        self._rules = [(at, rule[3]) for at, rule in reversed(rules)]
        text = "|".join(f"({rule[1]})\\Z" for _, rule in reversed(rules))
        self.match = re.compile(os.fsencode(text), re.DOTALL).match if rules else None

    def last(self, text: str) -> tuple[int, bool]:
        """Return the number of the last rule that matches, and whether it ignores."""
        if self.match:
            found = self.match(os.fsencode(text))
        else:
            found = None  # as in ripgrep, ? is a byte
        if found and found.lastindex:
            return self._rules[found.lastindex - 1]
        return (-1, False)


def _parse(line: str) -> _Rule | None:
    if line.startswith("#"):
        return None
    if not line.endswith("\\ "):
        line = line.rstrip()
    ignores = True
    anchored = False
    if line.startswith(("\\!", "\\#")):
        line = line[1:]
    else:
        if line.startswith("!"):
            ignores = False
            line = line[1:]
        if line.startswith("/"):
            anchored = True
            line = line[1:]
    folders_only = line.endswith("/")
    line = line.removesuffix("/")
    if folders_only:
        line = line.removesuffix("\\")
    if not line:
        return None
    by_name = not anchored and "/" not in line
    if line.startswith("**/") and "/" not in line[3:] and not anchored:
        by_name = True
        line = line[3:]
    if line.endswith("/**"):
        line += "/*"
    try:
        return by_name, to_regex(line), folders_only, ignores
    except ValueError:  # not a glob: no rule, as in ripgrep
        return None


Chains = tuple[tuple[Rules, ...], ...]
NOTHING: Chains = ((), (), (), ())


def is_ignored(chains: Chains, path: str, name: str, folder: bool) -> bool:
    """Return whether a path is ignored: the first kind of file that decides does, in it the nearest
    folder.
    """
    for chain in chains:
        for rules in chain:
            decided = rules.ignore(path, name, folder)
            if decided is not None:
                return decided
    return False


def enter(
    chains: Chains, folder: str, names: set[str], *, bounds: bool, cut: int, extra: str = ""
) -> Chains:
    """Return the rules that hold in a folder: those from above, and its own.

    Args:
        chains: The rules from above, nearest folder first.
        folder: The folder, to read its ignore files.
        names: What is in it.
        bounds: Whether Git's rules of the folders above end where a repository begins.
        cut: As for ``Rules``.
        extra: As for ``Rules``.
    """
    repository = next((name for name in _REPOSITORY if name in names), "")
    if not repository and not names & {".rgignore", ".ignore", ".gitignore"}:
        return chains
    rg, plain, git, exclude = chains
    if repository and bounds:
        git = exclude = ()
    if repository and (text := _exclude(os.path.join(folder, ".git"))):
        exclude = (Rules(text, cut, extra), *exclude)
    new = [
        (Rules(_read(os.path.join(folder, name)), cut, extra), *chain) if name in names else chain
        for name, chain in ((".rgignore", rg), (".ignore", plain), (".gitignore", git))
    ]
    return (*new, exclude)


def above(base: str) -> Chains:
    """Return the rules of all folders above one, from the top of the file system down.

    Args:
        base: The folder that is searched, relative to the current one.
    """
    chains = NOTHING
    folder = os.path.realpath(base)
    parents: list[str] = []
    while (parent := os.path.dirname(folder)) != folder:
        parents.append(parent)
        folder = parent
    here = os.getcwd()
    for parent in reversed(parents):
        inside = parent == here or parent.startswith(here.rstrip("/") + "/")
        cut = len(os.path.relpath(parent, here)) + 1 if inside and parent != here else 0
        extra = "" if inside else os.path.relpath(here, parent) + "/"
        present = {
            n
            for n in (*_REPOSITORY, ".rgignore", ".ignore", ".gitignore")
            if os.path.exists(f"{parent}/{n}")
        }
        chains = enter(chains, parent, present, bounds=True, cut=cut, extra=extra)
    return chains


def in_repository(folder: str) -> bool:
    """Return whether a folder or one above it is that of a repository."""
    while True:
        if any(os.path.exists(os.path.join(folder, name)) for name in _REPOSITORY):
            return True
        below = folder
        folder = os.path.dirname(folder)
        if folder == below:
            return False


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _exclude(git: str) -> str:
    """Read the repository's own exclude file.

    In a worktree ``.git`` is a file that says where the repository is.
    """
    if os.path.isfile(git):
        folder = os.path.join(os.path.dirname(git), _read(git).partition("gitdir:")[2].strip())
        git = os.path.join(folder, _read(os.path.join(folder, "commondir")).strip())
    return _read(os.path.join(git, "info", "exclude"))
