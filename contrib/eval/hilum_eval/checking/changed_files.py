"""Compares the workspace with the files of the case."""

from __future__ import annotations

import fnmatch
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

RULES_VARIABLE = "HILUM_EVAL_RULES"
"""Environment variable of a verifier with the path of the rules file that the attempt began with.

The rules of a case and the instructions of an arm are added to the files of the case. There is no such
file if the attempt began without rules.
"""
# Folders that programs fill and that no task is about.
_IGNORED = frozenset(
    {
        ".git", ".hilum", ".cursor", ".vscode", ".venv", "__pycache__", ".pytest_cache",
        ".ruff_cache", ".mypy_cache", "node_modules",
    }
)  # fmt: skip


def compare_with_fixture(
    fixture: Path, workspace: Path = Path(), *, ignore: Sequence[str] = ()
) -> dict[str, str]:
    """Return the files of the workspace that differ from those of the case.

    Args:
        fixture: The folder ``files`` of the case.
        workspace: The workspace.
        ignore: Patterns of relative paths that are left out.

    Returns:
        ``added``, ``changed`` or ``removed`` by relative path. A link is compared by its target. A
        rules file with which the attempt began is no change.
    """
    before = set(_files(fixture))
    after = set(_files(workspace))
    changes = dict.fromkeys(before - after, "removed")
    changes.update(dict.fromkeys(after - before, "added"))
    for path in before & after:
        if _content(workspace / path) != _content(fixture / path):
            changes[path] = "changed"
    rules = Path(os.environ.get(RULES_VARIABLE, ""))
    if rules.name in changes and _is_equal_file(workspace / rules.name, rules):
        del changes[rules.name]
    return {
        path: changes[path]
        for path in sorted(changes)
        if not any(fnmatch.fnmatch(path, pattern) for pattern in ignore)
    }


def copy_with_originals(fixture: Path, originals: Iterable[str], workspace: Path = Path()) -> Path:
    """Copy the workspace, with some files as the case has them, such as the tests.

    Args:
        fixture: The folder ``files`` of the case.
        originals: Relative paths of files and folders that are restored.
        workspace: The workspace.

    Returns:
        The copy, in a temporary folder.
    """
    copy = Path(tempfile.mkdtemp(prefix="verify-")) / "workspace"
    shutil.copytree(workspace, copy, symlinks=True, ignore=shutil.ignore_patterns(*_IGNORED))
    for path in originals:
        target = copy / path
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        source = fixture / path
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
    return copy


def _is_equal_file(path: Path, other: Path) -> bool:
    return path.is_file() and other.is_file() and path.read_bytes() == other.read_bytes()


def _content(path: Path) -> bytes | str:
    return os.readlink(path) if path.is_symlink() else path.read_bytes()


def _files(root: Path) -> Iterable[str]:
    for path in root.rglob("*"):
        relative = path.relative_to(root)
        if _IGNORED.isdisjoint(relative.parts) and (path.is_symlink() or path.is_file()):
            yield relative.as_posix()
