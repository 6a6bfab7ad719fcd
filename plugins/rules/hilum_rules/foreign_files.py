"""Reports the rules files of other agents, for ``hilum import``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hilum import config_folder
from hilum.foreign_files import ForeignFile
from hilum.settings import load

from hilum_rules.counting import count, is_or_are
from hilum_rules.rule import Mode, RulesFile
from hilum_rules.rule_store import open_store
from hilum_rules.settings import RulesSettings

_AGENTS = {
    "agents": "several agents",
    "claude": "Claude Code",
    "claude-rules": "Claude Code",
    "copilot": "Copilot",
    "cursorrules": "Cursor",
    "gemini": "Gemini CLI",
    "instructions": "Copilot",
    "kiro": "Kiro",
    "mdc": "Cursor",
    "windsurf": "Windsurf",
}
_FOLDERS = {".clinerules": "Cline", ".junie": "Junie", ".roo": "Roo Code", ".windsurf": "Windsurf"}
_WHEN = {
    Mode.ALWAYS: "always",
    Mode.AUTO: "for matching files",
    Mode.AGENT: "on the model's request",
    Mode.MANUAL: "when you name the file (@name)",
}
# The file that aider reads only because its configuration names it.
_NAMED_ONLY = "CONVENTIONS.md"


def find_foreign_files(folder: Path) -> Iterator[ForeignFile]:
    """Yield the rules files of other agents that hilum reads or passes over. Blocks.

    Args:
        folder: The workspace.
    """
    settings = load([RulesSettings], workspace=folder, strict=False).get(RulesSettings)
    snapshot = open_store(folder, settings, "main").snapshot
    for file in snapshot.files:
        if file.real is not None and not _is_own(file.real):
            yield _describe(file)
    for problem in snapshot.problems:
        if problem.fatal and problem.path not in {file.path for file in snapshot.files}:
            path = folder / os.path.expanduser(problem.path)
            is_user = problem.path.startswith("~")
            problems = (str(problem),)
            yield ForeignFile(path, _find_agent(path, ""), "rules", is_user, problems=problems)
    path = folder / _NAMED_ONLY
    if os.path.lexists(path) and _NAMED_ONLY not in settings.files:
        reason = f'it is not read; to read it, set rules.files = ["{_NAMED_ONLY}"]'
        yield ForeignFile(path, "aider", "rules", left=(reason,))


def _is_own(path: Path) -> bool:
    """Return whether a file was written for hilum and not for another agent."""
    return ".hilum" in path.parts or path.is_relative_to(config_folder())


def _describe(file: RulesFile) -> ForeignFile:
    assert file.real is not None
    works = []
    if file.rules:
        enforced = sum(rule.is_enforced for rule in file.rules)
        number = len(file.rules)
        works.append(
            f"{count(number, 'rule')} {is_or_are(number)} read {_WHEN[file.mode]},"
            f" {enforced} enforced"
        )
    return ForeignFile(
        file.real,
        _find_agent(file.real, file.dialect),
        "rules",
        user=file.origin == "user",
        works=tuple(works),
        left=() if file.rules else ("it contains no rules",),
        problems=tuple(map(str, file.problems)),
    )


def _find_agent(path: Path, dialect: str) -> str:
    for name, agent in _FOLDERS.items():
        if any(part.startswith(name) for part in path.parts):
            return agent
    return _AGENTS.get(dialect, "other agents")
