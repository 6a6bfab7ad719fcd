"""Reports the hooks in the settings files of Claude Code, for ``hilum import``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from hilum import home_folder
from hilum.foreign_files import ForeignFile

from hilum_hooks_claude.approvals import judge_hooks
from hilum_hooks_claude.settings_files import SettingsFile, read_files
from hilum_hooks_claude.unset_variables import explain_unset, find_unset_variables

_SCRIPTS = ".claude/hooks"
_MAX_SCRIPTS = 200


def find_foreign_files(folder: Path) -> Iterator[ForeignFile]:
    """Yield the settings files with hooks, and the folders of scripts for them. Blocks.

    Args:
        folder: The workspace.

    Raises:
        UsageError: The user's decisions cannot be read.
    """
    files = read_files(folder)
    for file in files:
        yield from _describe_file(folder, file)
    bases = {os.path.realpath(home_folder()): True, os.path.realpath(folder): False}
    for base, is_user in bases.items():
        yield from _describe_scripts(Path(base) / _SCRIPTS, files, is_user=is_user)


def _describe_file(folder: Path, file: SettingsFile) -> Iterator[ForeignFile]:
    """Yield a settings file if it has anything to do with hooks."""
    works = []
    left = []
    problems = [str(mistake) for mistake in file.mistakes]
    for each in judge_hooks(folder, [file], enabled=True):
        hook = each.hook
        name = f"{hook.event} {hook.matcher}".strip()
        text = f"{name}: {hook.title} (line {hook.line})"
        for variable in find_unset_variables(folder, each):
            problems.append(f"{hook.place}: {explain_unset(variable)}.")
        if each.state == "runs":
            works.append(text)
        else:
            left.append(f"{text}: {each.state}. {each.reason}")
    if file.disables_hooks:
        works.append("disableAllHooks switches hooks off")
    if file.has_table and not (file.hooks or file.mistakes):
        left.append("hooks: it contains no hook")
    if works or left or file.mistakes:
        yield ForeignFile(
            file.path,
            "Claude Code",
            "hooks",
            file.source == "user",
            works=tuple(works),
            left=tuple(left),
            problems=tuple(problems),
        )


def _describe_scripts(
    path: Path, files: Sequence[SettingsFile], *, is_user: bool
) -> Iterator[ForeignFile]:
    """Yield a folder of scripts, with those that no hook names."""
    try:
        scripts = sorted(entry.name for entry in os.scandir(path) if entry.is_file())
    except OSError:
        return
    if not scripts:
        return
    commands = []
    for file in files:
        for hook in file.hooks:
            commands.append(" ".join((hook.command, *(hook.arguments or ()))))
    unnamed = []
    for name in scripts[:_MAX_SCRIPTS]:
        if not any(f"hooks/{name}" in command for command in commands):
            unnamed.append(name)
    left = [f"no hook in a settings file names it: {name}" for name in unnamed]
    works = []
    if len(unnamed) < len(scripts):
        works.append("hooks in the settings files name the scripts; see there whether they run")
    yield ForeignFile(path, "Claude Code", "hooks", is_user, works=tuple(works), left=tuple(left))
