"""Lists the hooks of the settings files, as ``hilum hooks`` and ``/hooks`` show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hilum.command import escape_line
from hilum.settings import load

from hilum_hooks_claude.approvals import JudgedHook, judge_hooks
from hilum_hooks_claude.hook import Mistake
from hilum_hooks_claude.settings import HooksSettings
from hilum_hooks_claude.settings_files import SettingsFile, read_files
from hilum_hooks_claude.unset_variables import explain_unset, find_unset_variables

NOTHING = "No hooks: neither ~/.claude/settings.json nor .claude/settings.json has any."


def read_hooks(root: Path) -> tuple[list[JudgedHook], list[Mistake]]:
    """Return the hooks that apply in a folder, and the mistakes in their files. Blocks.

    Args:
        root: The project.

    Raises:
        UsageError: The user's decisions cannot be read.
    """
    settings = load([HooksSettings], workspace=root, known=None).get(HooksSettings)
    files = read_files(root)
    judged = judge_hooks(root, files, enabled=settings.enabled)
    return judged, _join_mistakes(files)


def _join_mistakes(files: Sequence[SettingsFile]) -> list[Mistake]:
    mistakes: list[Mistake] = []
    for file in files:
        mistakes += file.mistakes
    return mistakes


def list_hooks(root: Path) -> list[str]:
    """Return the list of hooks as lines. Blocks.

    Raises:
        UsageError: The user's decisions cannot be read.
    """
    judged, mistakes = read_hooks(root)
    rows = list(_make_rows(root, judged))
    rows += [f"! {escape_line(str(mistake))}" for mistake in mistakes]
    return rows or [NOTHING]


def _make_rows(root: Path, judged: Sequence[JudgedHook]) -> Iterator[str]:
    file = ""
    for each in judged:
        hook = each.hook
        if hook.file != file:
            file = hook.file
            yield file
        when = f"{hook.event} {hook.matcher}".strip()
        arguments = "".join(f" {word!r}" for word in hook.arguments or ())
        what = escape_line(f"{when}: {hook.command}{arguments}")
        yield f"  {hook.line or '':>4}  {what}"
        state: str = each.state
        if each.state == "changed" and each.refuses:
            state = f"{state}, calls are denied until you decide"
        elif each.refuses:
            state = f"{state}, calls are denied until it can be read"
        yield f"        {state}{f' ({escape_line(each.reason)})' if each.reason else ''}"
        for name in find_unset_variables(root, each):
            yield f"        ! {explain_unset(name)}"


def describe_data(judged: Sequence[JudgedHook], mistakes: Sequence[Mistake]) -> dict[str, Any]:
    """Return the list of hooks as plain data."""
    hooks = []
    for each in judged:
        hook = each.hook
        hooks.append(
            {
                "file": hook.file,
                "line": hook.line,
                "event": hook.event,
                "matcher": hook.matcher,
                "command": hook.command,
                "args": list(hook.arguments) if hook.arguments is not None else None,
                "if": hook.condition,
                "state": each.state,
                "reason": each.reason,
                "executes": list(each.files),
            }
        )
    problems = [{"place": each.place, "problem": each.problem} for each in mistakes]
    return {"hooks": hooks, "mistakes": problems}
