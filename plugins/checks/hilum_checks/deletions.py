"""Find what a call deletes without naming it to `rm`: by code, by `git clean`, by moving it away.

A rule about all files cannot be compared with the words in code, as one about a path is, because
every word would fit it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hilum_guard import UNKNOWN, FileAccess

from hilum_checks.call_facts import CallFacts
from hilum_checks.code_texts import join_literals
from hilum_checks.command_facts import CommandFacts
from hilum_checks.model import EVERYTHING, Paths
from hilum_checks.path_matcher import Fit
from hilum_checks.renamed_imports import spell_imports

if TYPE_CHECKING:
    from hilum_guard import Findings

# Functions of Python, JavaScript, Perl, Ruby and PHP, up to their arguments.
_DELETING = re.compile(
    r"""(?:\bos\.(?:remove|unlink|rmdir|removedirs)|\b(?:shutil\.)?rmtree|\bremove_tree|\brimraf(?:\.sync)?
    |\bFile\.(?:delete|unlink)|\bDir\.(?:delete|unlink|rmdir)|\bFileUtils\.(?:rm|remove)\w*
    |\b(?:fs(?:\.promises)?|fsp|Deno)\.remove(?:Sync)?|\b(?:unlink|rmdir)(?:Sync)?|\brm(?:Sync)?(?=\())
    (?:\s*\(\s*|\s+(?=["'$@<]|glob\b))""",
    re.VERBOSE,
)
_LITERALS = re.compile(
    r"""\s*+\[?\s*+((['"])[^'"\\\n$#{]+\2(?:\s*,\s*(['"])[^'"\\\n$#{]+\3)*)\s*+\]?\s*+(?:[,;)}]|$)"""
)
_LITERAL = re.compile(r"""['"]([^'"]+)['"]""")
_PATH_METHOD = re.compile(
    r"""(?:\b(?:Path|Pathname\.new)\(\s*(?P<q>['"])(?P<path>[^'"\\\n]+)(?P=q)\s*\))?\.(?:unlink|rmdir|rmtree)\("""
)
# What code puts into a temporary folder, it may delete.
_TEMPORARY = re.compile(
    r"tempfile|mkd?s?temp|tmpdir|TMPDIR|Tempfile|tmp_path|/tmp\b", re.IGNORECASE
)
_COMMENT = re.compile(r"^\s*(?:#|//).*$", re.MULTILINE)
# Caches that programs create again when they need them. `node_modules` and `.venv` are not among them,
# because they can only be installed again from the network, nor is `dist`, which may contain a release.
_CACHES = frozenset(
    "__pycache__ .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov .eslintcache"
    " .parcel-cache .turbo .pytype .ipynb_checkpoints".split()
)


def deletes_caches(access: FileAccess, facts: CallFacts, findings: Findings | None = None) -> bool:
    """Return whether an access deletes only caches of programs, which Git does not track. Blocks.

    Args:
        access: The access.
        facts: The call.
        findings: The files that a search finds, if the path contains `{}` in their place.
    """
    if access.kind != "delete" or UNKNOWN in access.path:
        return False
    if findings is not None:
        found = [each.printed for each, _ in findings.entries]
        names = [access.path.replace("{}", each) for each in found]
        paths = [os.path.join(findings.cwd, name) for name in names]
    elif None in access.cwds and not access.path.startswith("/"):
        return False
    else:
        paths = [path for cwd in access.cwds for path in facts.matcher.expand(access.path, cwd)]
    return bool(paths) and all(_is_cache(path, facts) for path in paths)


def _is_cache(path: str, facts: CallFacts) -> bool:
    """Return whether a path is a cache or inside one, also with links followed."""
    root = facts.matcher.real_root
    for each in (os.path.normpath(path), os.path.realpath(path)):
        inner = each.removeprefix(f"{root}/")
        if inner == each or _CACHES.isdisjoint(inner.split("/")):
            return False
    return not facts.matcher.may_track_below(os.path.realpath(path))


def find_deletion(constraint: Paths, facts: CallFacts) -> tuple[Fit, str]:
    """Return whether a call deletes a file in a way that its words do not show, and how. Blocks.

    Args:
        constraint: A constraint that forbids deleting any file of the project.
        facts: The call.
    """
    doubt = ""
    for command in facts.commands:
        for text in _list_new_code(facts, command):
            for path in _find_deleted(text):
                if path and _is_file(constraint, facts, command, path):
                    return "yes", f"the code that it runs deletes {path[:200]}"
                if not path and not _TEMPORARY.search(text):
                    doubt = doubt or f"the code that `{command.source[:80]}` runs deletes files"
    if _may_empty_folder(facts):
        doubt = doubt or "it may delete any file of the project"
    for path in _find_moved_away(facts):
        doubt = doubt or f"it moves {path[:200]} out of the project"
    return ("maybe", doubt) if doubt else ("", "")


def forbids_deleting(constraint: Paths) -> bool:
    """Return whether a constraint forbids deleting any file of the project."""
    is_about_all = constraint.patterns == EVERYTHING and not constraint.outside
    return is_about_all and "delete" in constraint.actions


def _list_new_code(facts: CallFacts, command: CommandFacts) -> list[str]:
    """Return the code that a command runs, except the project's own scripts."""
    texts = facts.texts_of(command)
    is_new = command.effects.script is None or texts != command.texts
    if is_new or facts.runs_new_script(command):
        return texts
    return list(command.effects.code)


def _find_deleted(text: str) -> Iterator[str]:
    """Yield the paths that code deletes; an empty one is known only at run time."""
    text = spell_imports(_COMMENT.sub("", join_literals(text) if "+" in text else text))
    for match in _DELETING.finditer(text):
        literals = _LITERALS.match(text, match.end())
        if literals is None:
            yield ""
        else:
            yield from _LITERAL.findall(literals[1])
    for match in _PATH_METHOD.finditer(text):
        # `os.unlink` and the like were found above.
        if match["path"] or not re.search(
            r"\b(?:os|fs|fsp|File|Dir|shutil|promises)$", text[: match.start()]
        ):
            yield match["path"] or ""


def _is_file(constraint: Paths, facts: CallFacts, command: CommandFacts, path: str) -> bool:
    """Return whether a path is that of an existing file or folder that a constraint covers."""
    root = str(facts.matcher.root)
    for folder in (*command.cwds, root):
        full = os.path.join(folder or root, path)
        access = FileAccess("delete", full, cwds=(root,))
        if os.path.lexists(full) and facts.matcher.match(constraint, access) == "yes":
            return True
    return False


def _may_empty_folder(facts: CallFacts) -> bool:
    """Return whether a command may delete files of the workspace that it does not name."""
    root = facts.matcher.real_root
    return any(
        access.kind == "delete" and access.path in (".", "./") and root in access.cwds
        for access in facts.accesses
    )


def _find_moved_away(facts: CallFacts) -> Iterator[str]:
    """Yield the files of the project that `mv` certainly moves out of the project."""
    root = facts.matcher.real_root
    for command in facts.commands:
        if command.effects.program not in ("mv", "gmv") or command.cwd is None:
            continue
        accesses = [each for each in command.effects.files if each.certain]
        targets = [_locate(command.cwd, each.path) for each in accesses if each.kind == "write"]
        if not targets or any(_is_in(path, root) for path in targets):
            continue
        for access in accesses:
            path = _locate(command.cwd, access.path)
            if access.kind == "delete" and _is_in(path, root) and path != root:
                yield access.path


def _locate(cwd: str, path: str) -> str:
    return os.path.realpath(os.path.join(cwd, os.path.expanduser(path)))


def _is_in(path: str, root: str) -> bool:
    """Return whether a path may be in a folder."""
    return UNKNOWN in path or path == root or path.startswith(f"{root}/")
