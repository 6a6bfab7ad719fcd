"""Exports agents: Markdown for Claude Code, TOML for Codex."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from hilum_agents import Definition, Permission, find_agents
from hilum_agents.definitions.loading import TURN_KEYS

from hilum_export.exported_file import ExportedFile, NotExported, Target, show_path

_FOLDERS: dict[Target, str] = {"claude": ".claude/agents", "codex": ".codex/agents"}
# hilum's tools in Claude Code. Tools that are missing here have no counterpart.
_CLAUDE_TOOLS = {
    "read_file": ("Read",),
    "search_files": ("Grep",),
    "glob_search": ("Glob",),
    "list_directory": ("LS",),
    "write_file": ("Write",),
    "edit_file": ("Edit",),
    "multi_edit": ("MultiEdit",),
    "run_terminal_cmd": ("Bash",),
    "list_services": ("BashOutput",),
    "read_service": ("BashOutput",),
    "stop_service": ("KillShell",),
    "web_fetch": ("WebFetch",),
    "web_search": ("WebSearch",),
    "todo_write": ("TodoWrite",),
    "task": ("Task",),
    "handover": ("Task",),
    "get_agent_result": ("Task",),
    "ask_question": ("AskUserQuestion",),
    "use_skill": ("Skill",),
    "read": ("Read", "Grep", "Glob", "LS", "TodoWrite"),
    "write": ("Write", "Edit", "MultiEdit"),
    "execute": ("Bash", "Task"),
    "network": ("WebFetch", "WebSearch"),
}
# The tools that Codex's read-only sandbox takes away, with their permission categories.
_CHANGING = {
    "write_file": "write",
    "edit_file": "write",
    "multi_edit": "write",
    "delete_file": "write",
    "run_terminal_cmd": "execute",
}


def export_agents(root: Path, target: Target) -> Iterator[ExportedFile | NotExported]:
    """Yield the project's agents in the format of another program. Blocks.

    Agents that the other program reads already are left out.

    Args:
        root: The project.
        target: The program.
    """
    definitions = [entry.definition for entry in find_agents(root).entries]
    taken: set[str] = set()
    for definition in definitions:
        # The first definition of a name takes precedence; the target's own file comes before ours.
        if definition.scope != "project" or definition.name in taken:
            continue
        source = show_path(root, definition.path)
        if definition.error:
            yield NotExported(source, f"The agent cannot be loaded: {definition.error}")
            continue
        taken.add(definition.name)
        if definition.kind == target and source.startswith(_FOLDERS.get(target, " ")):
            continue
        if target == "agents-md":
            yield NotExported(source, "AGENTS.md has no agents.")
        elif definition.runner is not None:
            reason = "Another program does the agent's work, which no other format can express."
            yield NotExported(source, reason)
        elif target == "claude":
            yield _make_claude_agent(definition, source)
        else:
            yield _make_codex_agent(definition, source)


def _find_lost(definition: Definition) -> list[str]:
    """Return what neither format can express."""
    lost = []
    if definition.answer or definition.form:
        lost.append("The answer form is not checked.")
    if definition.timeout is not None:
        lost.append(f"The time limit of {definition.timeout:g} seconds has no counterpart.")
    if definition.token_limit is not None:
        lost.append(f"The limit of {definition.token_limit:,} tokens has no counterpart.")
    asked = [
        each.text.removeprefix("ask ") for each in definition.permissions if each.effect == "ask"
    ]
    if asked:
        lost.append(
            f"hilum asks you before each call of {', '.join(asked)}; the exported agent may make these"
            " calls as its program's own permissions allow."
        )
    if definition.title and definition.title != definition.name:
        lost.append(f"The title {definition.title!r} has no counterpart.")
    return lost


# --- Claude Code ----------------------------------------------------------------------------------


def _make_claude_agent(definition: Definition, source: str) -> ExportedFile:
    lost = _find_lost(definition)
    rows = [f"name: {definition.name}", f"description: {_quote(definition.description)}"]
    tools = _list_allowed(definition, lost)
    if tools is not None:
        rows.append(f"tools: {', '.join(tools) if tools else '[]'}")
    denied = _list_denied(definition, lost)
    if denied:
        rows.append(f"disallowedTools: {', '.join(denied)}")
    model = _name_claude_model(definition, lost)
    if model:
        rows.append(f"model: {model}")
    # hilum's own default is no limit that somebody has chosen for this agent.
    if definition.turns and _has_turn_limit(definition):
        rows.append(f"maxTurns: {definition.turns}")
    if definition.skills is not None:
        rows.append(f"skills: [{', '.join(map(_quote, definition.skills))}]")
    if definition.servers:
        rows.append(f"mcpServers: [{', '.join(map(_quote, definition.servers))}]")
    text = "\n".join(["---", *rows, "---", "", definition.prompt.rstrip(), ""])
    path = f"{_FOLDERS['claude']}/{definition.name}.md"
    return ExportedFile(path, text.encode(), source, tuple(lost))


def _has_turn_limit(definition: Definition) -> bool:
    """Return whether the agent's file limits the number of turns."""
    limits = definition.fields.get("limits")
    tables = [definition.fields, limits if isinstance(limits, dict) else {}]
    return any(key in table for table in tables for key in TURN_KEYS)


def _quote(text: str) -> str:
    """Return a text as a YAML scalar in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def _list_allowed(definition: Definition, lost: list[str]) -> list[str] | None:
    """Return the tools that Claude Code may use; ``None`` for all."""
    if definition.tools.allow is None:
        return None
    patterns = _find_patterns(definition.permissions)
    found: dict[str, None] = {}
    missing = []
    for entry in definition.tools.allow:
        names = _translate(entry)
        if not names:
            missing.append(entry)
        for name in names:
            for written in _add_patterns(name, entry, patterns, definition.agents):
                found.setdefault(written)
    if missing:
        lost.append(f"Claude Code has no tools like {', '.join(missing)}.")
    if patterns:
        lost.append(
            "Claude Code may allow the whole tool where a pattern restricts it: check"
            f" {', '.join(patterns)}."
        )
    if not found and definition.tools.allow:
        lost.append("None of the tools has a counterpart, so the agent has no tools.")
    return list(found)


def _find_patterns(permissions: Sequence[Permission]) -> dict[str, list[str]]:
    """Return, by tool, the patterns outside of which every call is denied."""
    found: dict[str, list[str]] = {}
    for each in permissions:
        if each.effect == "deny" and each.pattern is None:
            found[each.tool] = []
        elif each.effect == "allow" and each.pattern is not None and each.tool in found:
            found[each.tool].append(each.pattern)
    return {tool: patterns for tool, patterns in found.items() if patterns}


def _add_patterns(
    name: str, entry: str, patterns: dict[str, list[str]], agents: tuple[str, ...] | None
) -> list[str]:
    if name == "Task" and agents is not None:
        return [f"Task({', '.join(agents)})"]
    if entry in patterns:
        return [f"{name}({pattern})" for pattern in patterns[entry]]
    return [name]


def _list_denied(definition: Definition, lost: list[str]) -> list[str]:
    found: dict[str, None] = {}
    missing = []
    for entry in definition.tools.deny:
        names = _translate(entry)
        if not names:
            missing.append(entry)
        found.update(dict.fromkeys(names))
    # Claude Code has one more tool that writes, for which hilum has no counterpart.
    if {"Write", "Edit"} <= set(found):
        found["NotebookEdit"] = None
    whole = _find_patterns(definition.permissions)
    for each in definition.permissions:
        if each.effect == "deny" and each.pattern is not None and each.tool not in whole:
            found.update(dict.fromkeys(f"{name}({each.pattern})" for name in _translate(each.tool)))
    # Tools that Claude Code does not have need not be denied, except those of servers.
    if any("*" in entry for entry in missing):
        lost.append(f"Denials without a counterpart: {', '.join(missing)}.")
    return list(found)


def _translate(entry: str) -> tuple[str, ...]:
    """Return Claude Code's names for a tool, a category, or the tools of a server."""
    if "__" in entry:
        return (f"mcp__{entry}",)
    return _CLAUDE_TOOLS.get(entry, ())


def _name_claude_model(definition: Definition, lost: list[str]) -> str:
    provider, _, name = definition.model.partition("/")
    if not definition.model:
        return "inherit"
    if definition.model == "fast":
        return "haiku"
    if provider == "anthropic":
        return name
    lost.append(f"Claude Code does not have the model {definition.model}; the session's is used.")
    return "inherit"


# --- Codex ----------------------------------------------------------------------------------------


def _make_codex_agent(definition: Definition, source: str) -> ExportedFile:
    lost = _find_lost(definition)
    rows = [f"name = {_quote_toml(definition.name)}"]
    rows.append(f"description = {_quote_toml(definition.description)}")
    provider, _, name = definition.model.partition("/")
    if provider == "openai":
        rows.append(f"model = {_quote_toml(name)}")
    elif definition.model:
        lost.append(f"Codex does not have the model {definition.model}; the session's is used.")
    tools = definition.tools
    can_change = any(tools.admits(name, risk) for name, risk in _CHANGING.items())
    if not can_change:
        rows.append('sandbox_mode = "read-only"')
    if tools.allow is not None or (tools.deny and can_change):
        lost.append("Codex has no lists of tools for an agent.")
    if any(each.pattern is not None for each in definition.permissions):
        lost.append("Codex has no patterns of calls for an agent.")
    if definition.servers:
        lost.append(f"The MCP servers are not named: {', '.join(definition.servers)}.")
    if definition.skills is not None:
        lost.append("Codex offers all skills to every agent.")
    rows.append(f"developer_instructions = {_quote_toml_text(definition.prompt)}")
    path = f"{_FOLDERS['codex']}/{definition.name}.toml"
    return ExportedFile(path, ("\n".join(rows) + "\n").encode(), source, tuple(lost))


def _quote_toml(text: str) -> str:
    # JSON's escapes are TOML's, except that TOML also forbids DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _quote_toml_text(text: str) -> str:
    """Return a text of several lines in TOML."""
    plain = all(character.isprintable() or character in "\n\t" for character in text)
    if plain and "'''" not in text and not text.endswith("'"):
        return f"'''\n{text.rstrip()}\n'''"
    return _quote_toml(text)
