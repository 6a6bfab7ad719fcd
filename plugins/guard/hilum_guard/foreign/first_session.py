"""Tell the user once, in the first session in a project, which rules of other agents apply."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hilum import data_folder, make_private_folder

from hilum_guard.foreign.files import AGENTS

if TYPE_CHECKING:  # a session without rules does not load these modules
    from hilum_guard.rules.matching import Rule
    from hilum_guard.rules.rule_files import Rules

# What other agents have in a project that `hilum import` says something about. Plain rules files
# are not listed: hilum reads them, so there is nothing to say.
_TRACES = {
    "Claude Code": (".claude",),
    "Codex": (".codex",),
    "Gemini CLI": (".gemini", ".geminiignore"),
    "opencode": (".opencode", "opencode.json", "opencode.jsonc"),
    "Cursor": (".cursor", ".cursorignore"),
    "Windsurf": (".windsurf", ".codeiumignore"),
    "aider": (".aider.conf.yml", ".aiderignore"),
    "Roo Code": (".roo",),
    "Kiro": (".kiro",),
}
# Hooks of other agents that hilum does not run, although some of them guard calls.
_HOOKS = (
    ".cursor/hooks.json",
    ".codex/hooks.json",
    ".github/hooks",
    ".clinerules/hooks",
    ".kiro/hooks",
)


def describe_first(workspace: Path, rules: Rules, agents: Sequence[str]) -> str:
    """Return the line for the first session in a project; empty later. Blocks.

    Args:
        workspace: Root of the workspace.
        rules: The rules that apply.
        agents: The keys of the agents whose rules apply.
    """
    counts = Counter[tuple[str, str]]((rule.agent, rule.effect) for rule in _unique(rules))
    traces = [name for name, paths in _TRACES.items() if _has_any(workspace, paths)]
    found = list(dict.fromkeys([*(agent for agent, _ in counts), *traces]))
    if not found or not _is_first(workspace):
        return ""
    applied = []
    for agent in (AGENTS[key] for key in agents if key in AGENTS):
        parts = [_count(counts[agent, effect], effect) for effect in ("deny", "ask")]
        listed = " and ".join(part for part in parts if part)
        if listed:
            applied.append(f"{listed} of {agent}")
    settings = f"Settings of {', '.join(found)} found"
    hooks = [path for path in _HOOKS if _has_content(workspace / path)]
    more = f" hilum does not run the hooks in {', '.join(hooks)}." if hooks else ""
    if not applied:
        return f"{settings}: `hilum import` shows what works and what can be taken over.{more}"
    is_one = sum(counts.values()) == 1
    verb = "applies" if is_one else "apply"
    return f"{settings}: {', '.join(applied)} {verb}; `hilum import` shows the rest.{more}"


def _unique(rules: Rules) -> list[Rule]:
    """Return the entries of other agents; one entry may have become several rules."""
    entries = {(rule.source, rule.written, rule.effect): rule for rule in rules.rules if rule.agent}
    return list(entries.values())


def _count(number: int, effect: str) -> str:
    if not number:
        return ""
    return f"1 {effect} rule" if number == 1 else f"{number} {effect} rules"


def _has_any(workspace: Path, paths: Sequence[str]) -> bool:
    return any(_has_content(workspace / path) for path in paths)


def _has_content(path: Path) -> bool:
    """Return whether something is at a path that is not empty, as the masks of a sandbox are."""
    try:
        if not path.is_dir():
            return os.lstat(path).st_size > 0
        with os.scandir(path) as entries:
            return any(entries)
    except OSError:
        # What cannot be read is there all the same.
        return os.path.lexists(path)


def _is_first(workspace: Path) -> bool:
    """Return whether no session has told the user about a project yet, and remember that one has."""
    digest = hashlib.sha256(os.fsencode(os.path.realpath(workspace))).hexdigest()[:32]
    marker = data_folder() / "import" / digest
    try:
        make_private_folder(marker.parent)
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        # If nothing can be stored, the line would be repeated in every session.
        return False
    return True
