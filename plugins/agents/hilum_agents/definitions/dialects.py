"""Detects the dialect of an agent's file: the program for which the file was written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hilum_agents.definitions.definition import Dialect

_FOLDERS: dict[str, Dialect] = {
    ".hilum": "hilum",
    ".claude": "claude",
    ".gemini": "gemini",
    ".opencode": "opencode",
    "opencode": "opencode",
    ".github": "copilot",
    ".copilot": "copilot",
    ".codex": "codex",
    ".cursor": "cursor",
}
# Keys that suggest a particular program; the first match counts.
_LIKELY_KEYS: tuple[tuple[frozenset[str], Dialect], ...] = (
    (frozenset({"permission"}), "opencode"),
    (frozenset({"max_turns", "timeout_mins"}), "gemini"),
    (frozenset({"user-invocable", "handoffs", "target", "mcp-servers"}), "copilot"),
    (frozenset({"tools", "model", "color", "disallowedTools"}), "claude"),
)


def detect_dialect(file: Path, fields: Mapping[str, object]) -> Dialect:
    """Return a file's dialect, based on its unambiguous keys, its folder, and its likely keys."""
    # hilum's own keys are unambiguous, even in other programs' folders.
    if _is_own(fields):
        return "hilum"
    if file.suffix == ".toml":
        return "codex"
    if file.name.endswith((".agent.md", ".chatmode.md")):
        return "copilot"
    # The innermost known folder determines the dialect.
    for folder in reversed(file.absolute().parts[:-1]):
        if folder in _FOLDERS:
            return _FOLDERS[folder]
    return _dialect_of_keys(fields)


def _is_own(fields: Mapping[str, object]) -> bool:
    """Return whether a file contains keys that only hilum's own dialect uses."""
    if fields.get("kind") == "agent" or "limits" in fields:
        return True
    tools = fields.get("tools")
    return isinstance(tools, dict) and bool(tools) and {*tools} <= {"allow", "deny"}


def _dialect_of_keys(fields: Mapping[str, object]) -> Dialect:
    is_mapping = isinstance(fields.get("tools"), dict)
    # Among the other programs, only opencode uses a mapping for tools.
    if is_mapping or fields.get("mode") in ("subagent", "primary", "all"):
        return "opencode"
    if "permission" not in fields and fields.get("kind") in ("local", "remote"):
        return "gemini"
    for keys, dialect in _LIKELY_KEYS:
        if keys & fields.keys():
            return dialect
    return "hilum"
