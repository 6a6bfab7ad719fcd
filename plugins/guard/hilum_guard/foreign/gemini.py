"""Read the permissions of Gemini CLI (``.gemini/settings.json`` and ``.gemini/policies``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hilum.config_files import LoadedFile, kind_of

from hilum_guard.foreign.expressions import expand_beginnings
from hilum_guard.foreign.rule_list import (
    MAX_ENTRY,
    WITHOUT_CHANGES,
    Entry,
    Kind,
    RuleList,
    apply_in_order,
)
from hilum_guard.rules.expressions import Expression
from hilum_guard.rules.tool_names import Effect

# The names of tools, of their classes, and those that Gemini CLI displays.
_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("run_shell_command", "ShellTool", "Shell"), "shell"),
    **dict.fromkeys(("read_file", "ReadFileTool", "ReadFile"), "read"),
    **dict.fromkeys(("read_many_files", "ReadManyFilesTool", "ReadManyFiles"), "read"),
    **dict.fromkeys(("grep_search", "search_file_content", "GrepTool", "RipGrepTool"), "read"),
    **dict.fromkeys(("SearchText", "Grep"), "read"),
    **dict.fromkeys(("replace", "EditTool", "edit", "Edit"), "edit"),
    **dict.fromkeys(("write_file", "WriteFileTool", "WriteFile"), "write"),
    **dict.fromkeys(("list_directory", "LSTool", "ReadFolder", "glob", "GlobTool"), "list"),
    **dict.fromkeys(("FindFiles", "findFiles", "Glob"), "list"),
    **dict.fromkeys(("web_fetch", "WebFetchTool", "WebFetch"), "fetch"),
}
_TOOLS = {
    "google_web_search": "web_search",
    "WebSearchTool": "web_search",
    "save_memory": "remember",
    "MemoryTool": "remember",
    "write_todos": "todo_write",
    "activate_skill": "use_skill",
    "ask_user": "ask_question",
}
_DECISIONS: Mapping[str, Effect] = {"allow": "allow", "deny": "deny", "ask_user": "ask"}
_EXCLUDED = (("excludeTools",), ("tools", "exclude"))
_ALLOWED = (("allowedTools",), ("tools", "allowed"))
_CORE = (("coreTools",), ("tools", "core"))
# The kinds of tools of which one is enough, and what is denied without any of them: hilum's rules
# about reading also concern searches, and those about writing also edits.
_CORE_KINDS: tuple[tuple[frozenset[Kind], tuple[Kind, ...]], ...] = (
    (frozenset({"shell"}), ("shell",)),
    (frozenset({"read", "list"}), ("read", "list")),
    (frozenset({"edit", "write"}), ("edit",)),
    (frozenset({"fetch"}), ("fetch",)),
)
# The keys of a rule in a policy file. All except the first row only describe the rule, or say when it
# applies, so a rule that denies may apply more often than in Gemini CLI.
_POLICY_KEYS = frozenset(
    """toolName mcpName commandPrefix commandRegex argsPattern decision priority
    name description denyMessage deny_message modes interactive subagent toolAnnotations
    allowRedirection allow_redirection""".split()
)
_ALL_TOOLS = ("*", ".*", "^.*$")
# The mode in which Gemini CLI begins, and the one without changes, which hilum does not have.
_DEFAULT_MODE = "default"
_PLAN_MODE = "plan"
_TOOL = re.compile(r"\s*([\w.*-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)


def read(loaded: LoadedFile, rules: RuleList) -> None:
    """Add the rules of a settings file of Gemini CLI."""
    for keys in _EXCLUDED:
        for text, line in _list_texts(loaded, keys, rules, is_denial=True):
            _read_tool(text, "deny", line, rules)
    servers = loaded.data.get("mcpServers")
    for server in servers if isinstance(servers, dict) else ():
        path = ("mcpServers", str(server), "excludeTools")
        for name, line in _list_texts(loaded, path, rules, is_denial=True):
            tool = f"{server}__{name.partition('(')[0].strip()}"
            written = f"{'.'.join(path)}: {name}"
            rules.add(Entry("deny", "tool", None, written, line, tool))
    for keys in _ALLOWED:
        for text, line in _list_texts(loaded, keys, rules, is_denial=False):
            _read_tool(text, "allow", line, rules)
    for keys in _CORE:
        _read_core(loaded, keys, rules)
    for server, given in servers.items() if isinstance(servers, dict) else ():
        if isinstance(given, dict) and given.get("includeTools"):
            line = loaded.find_line(("mcpServers", str(server), "includeTools"))
            reason = f"hilum does not limit the tools of the server {server} to includeTools"
            hint = f"deny the others: hilum permissions deny {server}__NAME"
            rules.skip_restriction(f"{reason}; {hint}.", line)
    general = loaded.data.get("general")
    if isinstance(general, dict) and general.get("defaultApprovalMode") == "plan":
        line = loaded.find_line(("general", "defaultApprovalMode"))
        reason = "Gemini CLI begins in plan mode (general.defaultApprovalMode), hilum does not"
        rules.skip_restriction(f"{reason}: {WITHOUT_CHANGES}.", line)
    _doubt_misspelt(loaded, rules)


def _doubt_misspelt(loaded: LoadedFile, rules: RuleList) -> None:
    rules.doubt_misspelt(loaded.data, ("excludeTools",), "", loaded.find_line)
    tools = loaded.data.get("tools")
    if isinstance(tools, dict):
        rules.doubt_misspelt(tools, ("exclude",), "tools.", loaded.find_line)


def _read_core(loaded: LoadedFile, keys: tuple[str, ...], rules: RuleList) -> None:
    """Deny the tools that are missing in a list of the only tools that are available."""
    if _value(loaded.data, keys) is None:
        return
    listed = [text for text, _ in _list_texts(loaded, keys, rules, is_denial=True)]
    name = ".".join(keys)
    line = loaded.find_line(keys)
    if not listed:
        rules.doubt(f"{name} names no tool, so it may deny every tool.", line)
        return
    found = [match for match in map(_TOOL.fullmatch, listed) if match is not None]
    kinds = {_KINDS[match[1]] for match in found if match[1] in _KINDS}
    tools = {_TOOLS[match[1]] for match in found if match[1] in _TOOLS}
    written = f"{name}: {', '.join(listed)}"
    for enough, denied in _CORE_KINDS:
        if kinds.isdisjoint(enough):
            for kind in denied:
                rules.add(Entry("deny", kind, None, written, line))
    for tool in dict.fromkeys(_TOOLS.values()):
        if tool not in tools:
            rules.add(Entry("deny", "tool", None, written, line, tool))
    commands = [match[2] for match in found if _KINDS.get(match[1]) == "shell"]
    if commands and all(commands):
        rules.add(Entry("deny", "shell", None, written, line), [f"{each} *" for each in commands])


def _value(data: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    value: Any = data
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _list_texts(
    loaded: LoadedFile, keys: tuple[str, ...], rules: RuleList, *, is_denial: bool
) -> Iterator[tuple[str, int]]:
    listed = _value(loaded.data, keys)
    if listed is None:
        return
    name = ".".join(keys)
    line = loaded.find_line(keys)
    if isinstance(listed, str):
        rules.problem(f"{name} is a text; a list is expected.", line)
        listed = [listed]
    elif not isinstance(listed, list):
        _report(f"{name} is {kind_of(listed)}; a list is expected.", line, rules, is_denial)
        return
    for item in listed:
        if isinstance(item, str):
            line = rules.find_line(item, line)
            yield item, line
        else:
            reason = f"{name} contains {kind_of(item)}; the name of a tool is expected."
            _report(reason, line, rules, is_denial)


def _report(reason: str, line: int, rules: RuleList, is_denial: bool) -> None:
    if is_denial:
        rules.doubt(reason, line)
    else:
        rules.problem(reason, line)


def _read_tool(text: str, effect: Effect, line: int, rules: RuleList) -> None:
    found = _TOOL.fullmatch(text) if len(text) <= MAX_ENTRY else None
    if found is None:
        _report(f"{text[:80]!r} is not the name of a tool.", line, rules, effect != "allow")
        return
    for entry in _make_entries(found[1], found[2], effect, text, line):
        _add(entry, rules)


def _add(entry: Entry, rules: RuleList) -> None:
    """Add an entry, unless it allows a tool that hilum does not have."""
    is_known = entry.kind != "tool" or entry.tool in _TOOLS.values() or "__" in entry.tool
    if is_known or entry.effect != "allow" or entry.tool == "*":
        rules.add(entry)
    else:
        rules.left.append(f"{entry.written} (line {entry.line}): hilum has no such tool")


def _make_entries(
    name: str, pattern: str | None, effect: Effect, written: str, line: int
) -> list[Entry]:
    if name in _KINDS:
        kind = _KINDS[name]
        # A command in parentheses is a prefix.
        if kind == "shell" and pattern and not pattern.endswith("*"):
            pattern = f"{pattern} *"
        return [Entry(effect, kind, pattern, written, line)]
    if name in _TOOLS:
        return [Entry(effect, "tool", None, written, line, _TOOLS[name])]
    if name.startswith("mcp_") and "__" not in name:
        parts = name.removeprefix("mcp_").split("_")
        splits = ["_".join(parts[:at]) + "__" + "_".join(parts[at:]) for at in range(1, len(parts))]
        return [Entry(effect, "tool", None, written, line, each) for each in splits]
    return [Entry(effect, "tool", None, written, line, name)]


# --- policies -------------------------------------------------------------------------------------


def read_policies(loaded: LoadedFile, rules: RuleList) -> None:
    """Add the rules of a policy file of Gemini CLI."""
    rules.doubt_misspelt(loaded.data, ("rule",), "", loaded.find_line)
    listed = loaded.data.get("rule", [])
    if not isinstance(listed, list):
        rules.doubt(f"rule is {kind_of(listed)}; a list of tables is expected.")
        return
    entries: list[tuple[float, Entry]] = []
    line = 0
    for rule in listed:
        line = rules.find_line("[[rule]]", line + 1)
        if not isinstance(rule, dict):
            rules.doubt("A rule is not a table.", line)
            continue
        for entry in _read_policy(rule, line, rules):
            priority = rule.get("priority", 0)
            entries.append((priority if isinstance(priority, int | float) else 0, entry))
    # The rule with the highest priority decides.
    entries.sort(key=lambda each: each[0])
    apply_in_order([entry for _, entry in entries], rules, add=_add)


def _read_policy(rule: Mapping[str, Any], line: int, rules: RuleList) -> Iterator[Entry]:
    decision = str(rule.get("decision", "")).strip().casefold()
    effect = _DECISIONS.get(decision)
    if not decision:
        # Gemini CLI does not use such a rule. It may have been meant to deny.
        rules.problem("A rule has no decision, so such calls need approval.", line)
        effect = "ask"
    elif effect is None:
        rules.problem(f"decision {decision!r} is unknown; the rule denies.", line)
        effect = "deny"
    unknown = ", ".join(sorted(rule.keys() - _POLICY_KEYS))
    if unknown and effect == "allow":
        rules.left.append(f"rule (line {line}): it has unknown keys: {unknown}")
        return
    if unknown:
        reason = f"A rule has unknown keys, which may limit it: {unknown}."
        rules.doubt(reason, line, f"{effect} {rule.get('toolName', '*')}")
        return
    modes = _texts(rule.get("modes"))
    if modes and effect == "allow" and _DEFAULT_MODE not in modes:
        reason = f"it allows only in other modes of Gemini CLI ({', '.join(modes)})"
        rules.left.append(f"{_describe(rule)} (line {line}): {reason}")
        return
    if modes == [_PLAN_MODE] and effect != "allow":
        reason = f"{_describe(rule)}: this rule of Gemini CLI is for its plan mode only"
        rules.skip_restriction(f"{reason}; {WITHOUT_CHANGES}.", line)
        return
    names = ["*" if each in _ALL_TOOLS else each for each in _texts(rule.get("toolName"))] or ["*"]
    prefixes = _texts(rule.get("commandPrefix"))
    expression = rule.get("commandRegex") or rule.get("argsPattern")
    is_json = not rule.get("commandRegex")
    server = rule.get("mcpName")
    for name in names:
        written = f"{effect} {name}"
        if server:
            pattern = f"{server}__{name}" if name != "*" else f"{server}__*"
            yield Entry(effect, "tool", None, f"{effect} {server} {name}", line, pattern)
        elif expression:
            yield from _read_expression(name, str(expression), is_json, effect, line, rules)
        elif prefixes:
            for prefix in prefixes:
                yield Entry(effect, "shell", f"{prefix} *", f"{written}: {prefix}", line)
        elif name == "*":
            yield Entry(effect, "tool", None, written, line, "*")
        else:
            yield from _make_entries(name, None, effect, written, line)


def _describe(rule: Mapping[str, Any]) -> str:
    """Return what a rule of a policy file does and what it is about, for the user."""
    names = ", ".join(_texts(rule.get("toolName"))) or "*"
    about = [*_texts(rule.get("commandPrefix")), *_texts(rule.get("commandRegex"))]
    return f"{rule.get('decision', 'rule')} {names}{': ' if about else ''}{', '.join(about)}"


def _read_expression(
    name: str, text: str, is_json: bool, effect: Effect, line: int, rules: RuleList
) -> Iterator[Entry]:
    """Yield the entries for a regular expression.

    Args:
        name: The tool; ``*`` for all.
        text: The expression.
        is_json: Whether it is about all arguments, and not just about the beginning of a command.
        effect: The effect of the rule.
        line: Its line.
        rules: The list to which problems are added.
    """
    written = f"{effect} {name}: /{text}/"
    if effect == "allow":
        # The end of an expression may exclude arguments, so an allow rule would be wider.
        rules.left.append(f"{written} (line {line}): hilum does not compare regular expressions")
        return
    if name == "*" or _KINDS.get(name) == "shell":
        beginnings = [] if is_json else expand_beginnings(text)
        for each in beginnings:
            yield Entry(effect, "shell", f"{each} *", written, line)
        if not beginnings:
            whole = text if is_json else f'"command":"(?:{text})'
            entry = Entry(effect, "shell", None, written, line)
            yield rules.check_expression(entry, Expression(whole, is_json=True))
    if not is_json or _KINDS.get(name) == "shell":
        return
    rules.left.append(
        f"{written} (line {line}): hilum compares expressions only with commands, so every call of"
        " these tools needs approval; name the paths instead: hilum permissions deny"
        ' "write_file(PATH)"'
    )
    if name != "*":
        yield from _make_entries(name, None, "ask", written, line)
        return
    for kind in dict.fromkeys(_KINDS.values()):
        if kind != "shell":
            yield Entry("ask", kind, None, written, line)


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str) and each.strip()]
