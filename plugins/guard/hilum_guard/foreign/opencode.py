"""Read the permissions in the configuration of opencode (``opencode.json``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hilum.config_files import LoadedFile, kind_of

from hilum_guard.foreign.rule_list import (
    WITHOUT_CHANGES,
    Entry,
    Kind,
    RuleList,
    apply_in_order,
)
from hilum_guard.rules.tool_names import EFFECTS, Effect

_KINDS: Mapping[str, Kind] = {
    "bash": "shell",
    "edit": "edit",
    "write": "edit",
    "patch": "edit",
    "multiedit": "edit",
    "read": "read",
    "grep": "read",
    "glob": "list",
    "list": "list",
    "webfetch": "fetch",
}
_TOOLS: Mapping[str, tuple[str, str]] = {
    "websearch": ("web_search", "query"),
    "codesearch": ("web_search", "query"),
    "task": ("task", "agent"),
    "skill": ("use_skill", "name"),
    "todowrite": ("todo_write", ""),
    "question": ("ask_question", ""),
    "lsp": ("read_lints", ""),
}
_OTHERS = {
    "external_directory": "the guard asks about paths outside the workspace",
    "doom_loop": "hilum refuses repeated failing calls by itself",
}


def read(loaded: LoadedFile, rules: RuleList) -> None:
    """Add the rules of a configuration file of opencode."""
    rules.doubt_misspelt(loaded.data, ("permission",), "", loaded.find_line)
    apply_in_order(_read_table(loaded.data, (), loaded, rules), rules)
    main = loaded.data.get("default_agent") or "build"
    if main == "plan":
        reason = "opencode begins with the agent `plan` (default_agent), hilum does not"
        line = loaded.find_line(("default_agent",))
        rules.skip_restriction(f"{reason}: {WITHOUT_CHANGES}.", line)
    # What restricts the main agent of opencode restricts the agents of hilum. What it allows to that
    # agent alone is no permission for the others.
    for table in ("agent", "mode"):
        agents = loaded.data.get(table)
        agent = agents.get(main) if isinstance(agents, dict) else None
        if isinstance(agent, dict):
            entries = _read_table(agent, (table, str(main)), loaded, rules)
            apply_in_order(entries, rules, offers=False)


def _read_table(
    table: Mapping[str, Any], keys: tuple[str, ...], loaded: LoadedFile, rules: RuleList
) -> list[Entry]:
    """Return the entries in a table with permissions.

    Args:
        table: The table.
        keys: The keys that lead to it.
        loaded: The file.
        rules: The list to which mistakes are added.
    """
    entries: list[Entry] = []
    _read_tools(table, keys, loaded, entries)
    permission = table.get("permission")
    if isinstance(permission, str):
        permission = {"*": permission}
    if permission is not None and not isinstance(permission, dict):
        line = loaded.find_line((*keys, "permission"))
        rules.doubt(f"permission is {kind_of(permission)}; a mapping is expected.", line)
        permission = {}
    for key, given in (permission or {}).items():
        _read_permission(str(key), given, (*keys, "permission"), loaded, rules, entries)
    return entries


def _read_tools(
    table: Mapping[str, Any], keys: tuple[str, ...], loaded: LoadedFile, entries: list[Entry]
) -> None:
    """Add the tools that the older key ``tools`` switches off, or on again after a wildcard."""
    tools = table.get("tools")
    if not isinstance(tools, dict):
        return
    for name, is_on in tools.items():
        if not isinstance(is_on, bool):
            continue
        effect: Effect = "allow" if is_on else "deny"
        line = loaded.find_line((*keys, "tools", name))
        written = f"{'.'.join((*keys, 'tools', str(name)))}: {str(is_on).lower()}"
        for entry in _make_entries(str(name), None, effect, written, line):
            # A tool that is on may still need approval.
            entries.append(entry._replace(is_permission=False))


def _read_permission(
    name: str,
    given: Any,
    above: tuple[str, ...],
    loaded: LoadedFile,
    rules: RuleList,
    entries: list[Entry],
) -> None:
    keys = (*above, name)
    if name in _OTHERS:
        rules.left.append(f"permission.{name}: {_OTHERS[name]}")
        return
    by_pattern = given if isinstance(given, dict) else {"*": given}
    for pattern, word in by_pattern.items():
        is_nested = isinstance(given, dict)
        line = loaded.find_line((*keys, str(pattern)) if is_nested else keys)
        effect = _read_effect(name, word, line, rules)
        written = f"{name}: {pattern}: {word}" if is_nested else f"{name}: {word}"
        wanted = None if str(pattern).strip() in ("*", "**", "") else str(pattern)
        shown = f"{'.'.join(above)}.{written}"
        entries += _make_entries(name, wanted, effect, shown, line)


def _read_effect(name: str, word: Any, line: int, rules: RuleList) -> Effect:
    text = str(word).strip().casefold()
    effect = next((effect for effect in EFFECTS if effect == text), None)
    if effect is None:
        rules.problem(f"{name} must be allow, ask or deny, not {word!r}; it is denied.", line)
        return "deny"
    return effect


def _make_entries(
    name: str, pattern: str | None, effect: Effect, written: str, line: int
) -> list[Entry]:
    folded = name.replace("_", "").casefold()
    if name == "*":
        kinds: list[Kind] = ["shell", "edit", "fetch"]
        # Without reading, an agent cannot work; only a denial of everything can mean that.
        if effect == "deny":
            kinds += ["read", "list"]
        return [Entry(effect, kind, None, written, line) for kind in kinds]
    if folded in _KINDS:
        return [Entry(effect, _KINDS[folded], pattern, written, line)]
    tool, parameter = _TOOLS.get(folded, ("", ""))
    if not tool:
        # opencode names the tools of servers `server_tool`; both names may contain underscores.
        parts = name.split("_")
        names = [
            "_".join(parts[:size]) + "__" + "_".join(parts[size:]) for size in range(1, len(parts))
        ]
        return [Entry(effect, "tool", None, written, line, each) for each in names or [name]]
    named = f"{parameter}={pattern}" if pattern and parameter else None
    return [Entry(effect, "tool", named, written, line, tool)]
