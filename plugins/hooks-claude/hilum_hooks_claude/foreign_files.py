"""Reports the hooks in the settings files of Claude Code, for ``hilum import``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hilum.foreign_files import ForeignFile

from hilum_hooks_claude.approvals import judge_hooks
from hilum_hooks_claude.settings_files import read_files


def find_foreign_files(folder: Path) -> Iterator[ForeignFile]:
    """Yield the settings files with hooks. Blocks.

    Args:
        folder: The workspace.

    Raises:
        UsageError: The user's decisions cannot be read.
    """
    for file in read_files(folder):
        works = []
        left = []
        for each in judge_hooks(folder, [file], enabled=True):
            hook = each.hook
            name = f"{hook.event} {hook.matcher}".strip()
            text = f"{name}: {hook.title} (line {hook.line})"
            if each.state == "runs":
                works.append(text)
            else:
                left.append(f"{text}: {each.state}. {each.reason}")
        problems = tuple(str(mistake) for mistake in file.mistakes)
        if works or left:
            yield ForeignFile(
                file.path,
                "Claude Code",
                "hooks",
                file.source == "user",
                works=tuple(works),
                left=tuple(left),
                problems=problems,
            )
