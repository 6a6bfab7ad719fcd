"""Read the permissions in the configuration of opencode (``opencode.json``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hilum.config_files import LoadedFile, kind_of

from hilum_guard.foreign.rule_list import Entry, Kind, RuleList, apply_in_order
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
    entries: list[Entry] = []
    _read_tools(loaded, rules, entries)
    permission = loaded.data.get("permission")
    if permission is None:
        apply_in_order(entries, rules)
        return
    if isinstance(permission, str):
        permission = {"*": permission}
    if not isinstance(permission, dict):
        line = loaded.find_line(("permission",))
        rules.doubt(f"permission is {kind_of(permission)}; a mapping is expected.", line)
        permission = {}
    for key, given in permission.items():
        _read_permission(str(key), given, loaded, rules, entries)
    apply_in_order(entries, rules)


def _read_tools(loaded: LoadedFile, rules: RuleList, entries: list[Entry]) -> None:
    """Add the tools that are switched off by the older key ``tools``."""
    tools = loaded.data.get("tools")
    if not isinstance(tools, dict):
        return
    for name, is_on in tools.items():
        if is_on is False:
            line = loaded.find_line(("tools", name))
            entries += _make_entries(str(name), None, "deny", f"tools.{name}: false", line)


def _read_permission(
    name: str, given: Any, loaded: LoadedFile, rules: RuleList, entries: list[Entry]
) -> None:
    keys = ("permission", name)
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
        entries += _make_entries(name, wanted, effect, f"permission.{written}", line)


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
