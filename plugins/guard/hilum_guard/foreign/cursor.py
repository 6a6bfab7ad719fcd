"""Read the permissions of Cursor (``.cursor/cli.json``)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hilum.config_files import LoadedFile, kind_of

from hilum_guard.foreign.rule_list import MAX_ENTRY, Entry, Kind, RuleList
from hilum_guard.rules.tool_names import Effect

_KINDS: Mapping[str, Kind] = {
    "shell": "shell",
    "read": "read",
    "write": "edit",
    "edit": "edit",
    "delete": "delete",
    "webfetch": "fetch",
}
_NO_RULE = "is not a rule of Cursor, which begins with Shell, Read, Write, WebFetch or Mcp."
_RULE = re.compile(r"\s*(\w+)\s*(?:\((.*?)\)?)?\s*", re.DOTALL)


def read(loaded: LoadedFile, rules: RuleList) -> None:
    """Add the rules of a configuration file of the command line of Cursor."""
    permissions = loaded.data.get("permissions")
    rules.doubt_misspelt(loaded.data, ("permissions",), "", loaded.find_line)
    if permissions is None:
        return
    if not isinstance(permissions, dict):
        line = loaded.find_line(("permissions",))
        rules.doubt(f"permissions is {kind_of(permissions)}; a mapping is expected.", line)
        return
    rules.doubt_misspelt(permissions, ("deny",), "permissions.", loaded.find_line)
    effects: tuple[Effect, ...] = ("deny", "allow")
    for effect in effects:
        _read_list(permissions.get(effect), effect, loaded, rules)


def _read_list(listed: object, effect: Effect, loaded: LoadedFile, rules: RuleList) -> None:
    if listed is None:
        return
    line = loaded.find_line(("permissions", effect))
    for item in listed if isinstance(listed, list) else [listed]:
        if isinstance(item, str):
            line = rules.find_line(item, line)
            _read_rule(item, effect, line, rules)
        elif effect == "deny":
            reason = f"permissions.deny contains {kind_of(item)}; a rule in quotes is expected."
            rules.doubt(reason, line)


def _read_rule(text: str, effect: Effect, line: int, rules: RuleList) -> None:
    found = _RULE.fullmatch(text) if len(text) <= MAX_ENTRY else None
    name = found[1].casefold() if found else ""
    pattern = found[2] if found else None
    if name == "mcp":
        server, _, tool = (pattern or "*").replace(",", ":").partition(":")
        pattern = f"{server.strip() or '*'}__{tool.strip() or '*'}"
        rules.add(Entry(effect, "tool", None, text, line, pattern))
    elif name in _KINDS:
        kind = _KINDS[name]
        # A program without arguments means all its commands; a colon precedes the arguments.
        if kind == "shell" and pattern:
            program, colon, arguments = pattern.partition(":")
            pattern = f"{program} {arguments}" if colon else pattern
            pattern = pattern if pattern.endswith("*") else f"{pattern} *"
        rules.add(Entry(effect, kind, pattern, text, line))
    elif effect == "deny":
        rules.doubt(f"{text[:80]!r} {_NO_RULE}", line)
    else:
        rules.problem(f"{text[:80]!r} {_NO_RULE}", line)
