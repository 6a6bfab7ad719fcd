"""Read the permissions in the settings of Claude Code (``.claude/settings.json``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hilum.config_files import LoadedFile, kind_of

from hilum_guard.foreign.rule_list import (
    MAX_ENTRY,
    WITHOUT_CHANGES,
    Entry,
    Kind,
    RuleList,
)
from hilum_guard.rules.tool_names import EFFECTS, Effect

_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("bash", "powershell"), "shell"),
    **dict.fromkeys(("read", "notebookread", "grep", "search"), "read"),
    **dict.fromkeys(("edit", "multiedit", "notebookedit"), "edit"),
    "write": "write",
    **dict.fromkeys(("glob", "ls"), "list"),
    "webfetch": "fetch",
}
# Tools that hilum has under another name, with the parameter that a rule may name.
_TOOLS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "websearch": (("web_search", "query"),),
    "task": (("task", "agent"), ("handover", "agent")),
    "agent": (("task", "agent"), ("handover", "agent")),
    "skill": (("use_skill", "name"),),
    "todowrite": (("todo_write", ""),),
    "askuserquestion": (("ask_question", ""),),
    "killshell": (("stop_service", ""),),
    "bashoutput": (("read_service", ""),),
}
_RULE = re.compile(r"\s*([A-Za-z0-9_.*-]+)\s*(?:\((.*?)\)?)?\s*", re.DOTALL)
_RESTRICTING = ("deny", "ask")
_LEFT = {
    "defaultMode": "the setting approve is hilum's counterpart",
    "additionalDirectories": "add the folders to the setting extra_roots in your own settings",
    "disableBypassPermissionsMode": "hilum has no mode without deny rules",
}
_SANDBOX: tuple[tuple[str, str, Kind], ...] = (
    ("filesystem", "denyRead", "read"),
    ("filesystem", "denyWrite", "edit"),
    ("network", "deniedDomains", "fetch"),
)


def read(loaded: LoadedFile, rules: RuleList) -> None:
    """Add the rules of a settings file of Claude Code."""
    permissions = loaded.data.get("permissions")
    rules.doubt_misspelt(loaded.data, ("permissions",), "", loaded.find_line)
    if isinstance(permissions, dict):
        rules.doubt_misspelt(permissions, _RESTRICTING, "permissions.", loaded.find_line)
        if permissions.get("defaultMode") == "plan":
            line = loaded.find_line(("permissions", "defaultMode"))
            reason = "Claude Code begins in plan mode (permissions.defaultMode), hilum does not"
            rules.skip_restriction(f"{reason}: {WITHOUT_CHANGES}.", line)
        for effect in reversed(EFFECTS):
            _read_list(permissions.get(effect), effect, loaded, rules)
        for key in permissions.keys() - {*EFFECTS}:
            reason = _LEFT.get(key, "unknown key: not used")
            line = loaded.find_line(("permissions", key))
            rules.left.append(f"permissions.{key} (line {line}): {reason}")
    elif permissions is not None:
        line = loaded.find_line(("permissions",))
        rules.doubt(f"permissions is {kind_of(permissions)}; a mapping is expected.", line)
    _read_sandbox(loaded, rules)


def _read_list(listed: Any, effect: Effect, loaded: LoadedFile, rules: RuleList) -> None:
    if listed is None:
        return
    line = loaded.find_line(("permissions", effect))
    if not isinstance(listed, list):
        # A single rule without the list around it can only mean this rule.
        rules.problem(f"permissions.{effect} is {kind_of(listed)}; a list is expected.", line)
        listed = [listed]
    for item in listed:
        if rules.is_full:
            break
        if not isinstance(item, str):
            found = "an empty value" if item is None else kind_of(item)
            reason = f"permissions.{effect} contains {found}; a rule in quotes is expected."
            _report(effect, reason, line, rules)
            continue
        line = rules.find_line(item, line)
        _read_rule(item, effect, line, rules)


def _report(effect: Effect, reason: str, line: int, rules: RuleList) -> None:
    """Report an entry that cannot be read; only those that may deny something restrict calls."""
    if effect == "allow":
        rules.problem(reason, line)
    else:
        rules.doubt(reason, line)


def _read_rule(text: str, effect: Effect, line: int, rules: RuleList) -> None:
    if len(text) > MAX_ENTRY:
        _report(effect, f"A rule has more than {MAX_ENTRY:,} characters.", line, rules)
        return
    found = _RULE.fullmatch(text)
    if found is None:
        _report(effect, f"{text!r} is not a rule.", line, rules)
        return
    name = found[1]
    pattern = found[2].strip() if found[2] is not None else None
    if "(" in text and not text.rstrip().endswith(")"):
        rules.problem(f"{text!r} has no closing parenthesis.", line)
        if effect == "allow":
            return
    if pattern == "":
        rules.problem(f"{text!r} has an empty pattern, so it is about every call.", line)
        pattern = None
        if effect == "allow":
            return
    _add(name, pattern, text, effect, line, rules)


def _add(
    name: str, pattern: str | None, text: str, effect: Effect, line: int, rules: RuleList
) -> None:
    folded = name.replace("_", "").casefold()
    if folded in _KINDS:
        rules.add(Entry(effect, _KINDS[folded], pattern, text, line))
        return
    if not name.strip("*"):
        rules.add(Entry(effect, "tool", None, text, line, "*"))
        return
    for tool, parameter in _TOOLS.get(folded, ((name, ""),)):
        named = None
        if pattern is not None and pattern not in ("*", "**") and parameter:
            named = f"{parameter}={re.sub(r'(:| )[*]$', '*', pattern)}"
        if pattern is not None and named is None and pattern not in ("*", "**"):
            # hilum cannot compare this pattern. A denial then covers every call of the tool.
            if effect == "allow":
                rules.left.append(f"{text} (line {line}): hilum cannot compare its pattern")
                continue
            rules.problem(f"The pattern in {text!r} is about every call in hilum.", line)
        if folded not in _TOOLS and "__" not in name:
            rules.left.append(f"{text} (line {line}): hilum has no tool like {name}")
            if effect == "allow":
                continue
        rules.add(Entry(effect, "tool", named, text, line, tool))


def _read_sandbox(loaded: LoadedFile, rules: RuleList) -> None:
    """Add what the sandbox of Claude Code denies."""
    sandbox = loaded.data.get("sandbox")
    if not isinstance(sandbox, dict):
        return
    for table, key, kind in _SANDBOX:
        inner = sandbox.get(table)
        listed = inner.get(key) if isinstance(inner, dict) else None
        line = loaded.find_line(("sandbox", table, key))
        if listed is not None and not isinstance(listed, list):
            rules.doubt(f"sandbox.{table}.{key} is {kind_of(listed)}; a list is expected.", line)
            continue
        for item in listed or ():
            if isinstance(item, str) and item.strip():
                written = f"sandbox.{table}.{key}: {item}"
                rules.add(Entry("deny", kind, item, written, rules.find_line(item, line)))
            else:
                rules.doubt(f"sandbox.{table}.{key} contains {kind_of(item)}.", line)
