"""Translates the tools, permissions and model in an agent's file from the dialect of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import attrs
from hilum import ToolFilter
from hilum.frontmatter import Document, flag, names, split_tools, text

from hilum_agents.definitions.definition import Dialect, Permission
from hilum_agents.definitions.models import ModelChoice, read_model
from hilum_agents.definitions.permissions import (
    convert_pattern,
    read_opencode,
    read_rules,
    split_entry,
)
from hilum_agents.definitions.schema import PermissionRules
from hilum_agents.definitions.tools import KNOWN, RISKS, Doubt, describe_doubts, translate_tool

# A function that reports a problem; its arguments are the key and a message.
Report = Callable[[str, str], None]
TOOL_KEYS = ("tools", "allowed-tools", "allowedTools", "allowed_tools")
DENY_KEYS = ("disallowedTools", "disallowed-tools", "disallowed_tools", "excludeTools")
READ_ONLY_KEYS = ("readonly", "readOnly", "read_only", "read-only")
# Patterns that match every call of a tool.
_EVERYTHING = (None, "", "*", ":*")


@attrs.frozen
class Fitted:
    """The fields that differ most between programs, translated into hilum's terms."""

    tools: ToolFilter
    agents: tuple[str, ...] | None
    permissions: tuple[Permission, ...]
    skills: tuple[str, ...] | None
    model: ModelChoice


class _ToolList:
    """A tool list with entries such as ``Read``, ``Bash(git:*)``, ``Agent(x)``, ``mcp__server``.

    Args:
        dialect: The dialect of the file.
        deny: Whether the listed tools are denied instead of allowed.

    Attributes:
        names: Names and patterns of the tools.
        agents: The agents that may be started; ``None`` for all.
        permissions: Permissions created from entries with patterns.
        messages: Messages to the user about the entries.
    """

    def __init__(self, dialect: Dialect, *, deny: bool = False) -> None:
        self._dialect = dialect
        self._deny = deny
        self._whole: set[str] = set()
        self._partial: dict[str, list[Permission]] = {}
        self._doubts: list[tuple[Doubt, str]] = []
        self.names: list[str] = []
        self.agents: list[str] | None = None
        self.permissions: list[Permission] = []
        self.messages: list[str] = []

    def read(self, entries: Iterable[str]) -> _ToolList:
        """Parse all entries."""
        for entry in entries:
            self._add(entry)
        self.messages += describe_doubts(self._doubts)
        # The last matching rule applies: each call is denied unless it matches one of the patterns.
        for tool, permissions in self._partial.items():
            if tool not in self._whole:
                self.permissions += [Permission("deny", tool), *permissions]
        return self

    def _add(self, entry: str) -> None:
        name, pattern = split_entry(entry)
        if not name:
            return
        if not name.strip(".…"):
            self._doubts.append(("no name", entry))
            return
        if name.startswith("!"):
            self.messages.append(f"{entry!r} is ignored: disallowedTools excludes tools.")
            return
        tools, doubt = translate_tool(name, self._dialect, deny=self._deny)
        self._doubts.append((doubt, name))
        if pattern is None or pattern in _EVERYTHING:
            self._add_whole(tools)
        elif _starts_agents(tools):
            self._add_agents(tools, pattern)
        elif self._deny:
            words = convert_pattern(pattern)
            self.permissions += [Permission("deny", tool, words) for tool in tools]
        else:
            self._add_names(tools)
            # `Bash` stands for the shell and the tools for background services, but its patterns
            # match only commands.
            for tool in tools[:1]:
                permission = Permission("allow", tool, convert_pattern(pattern))
                self._partial.setdefault(tool, []).append(permission)

    def _add_names(self, tools: Iterable[str]) -> None:
        self.names += [tool for tool in tools if tool not in self.names]

    def _add_whole(self, tools: Sequence[str]) -> None:
        if _starts_agents(tools) and not self._deny:
            self.agents = None  # allowing all agents includes agents that are listed elsewhere
        self._add_names(tools)
        self._whole.update(tools)

    def _add_agents(self, tools: Sequence[str], pattern: str) -> None:
        """Add an entry such as ``Task(explore, review)``."""
        agents = [part.strip() for part in pattern.split(",") if part.strip()]
        if self._deny:
            for agent in agents:
                self.permissions += [Permission("deny", tool, agent) for tool in tools]
            return
        if "task" not in self._whole:
            self.agents = [*(self.agents or ()), *agents]
        self._add_names(tools)


def _starts_agents(tools: Sequence[str]) -> bool:
    return "task" in tools or "handover" in tools


class _Fitter:
    """Translates the fields of one file.

    Args:
        document: The file.
        dialect: Its dialect.
        report: A function to call with each problem.
    """

    def __init__(self, document: Document, dialect: Dialect, report: Report) -> None:
        self._document = document
        self._dialect = dialect
        self._report = report
        self._allow: list[str] | None = None
        self._deny: list[str] = []
        self._agents: list[str] | None = None
        self._permissions: list[Permission] = []

    def fit(self, rules: PermissionRules) -> Fitted:
        """Return the translated fields.

        Args:
            rules: The table ``permissions``.
        """
        self._read_tools()
        # This field is called excludeTools in Gemini CLI and disallowedTools in Claude Code; a file
        # may contain both.
        for key in DENY_KEYS:
            entries = _list_entries(self._document, key, self._report)
            if entries is not None:
                self._read_denied(key, entries, self._dialect)
        self._read_permissions(rules)
        self._read_sandbox_mode()
        # Tools that are always denied need not be shown to the model.
        always_denied = _always_denied(self._permissions)
        self._read_modes()
        model = read_model(self._document.fields.get("model"))
        if model.warning:
            self._report("model", model.warning)
        skills = self._read_skills()
        deny = dict.fromkeys([*self._deny, *always_denied])
        tools = ToolFilter(_without_duplicates(self._allow), tuple(deny))
        agents = _without_duplicates(self._agents)
        return Fitted(tools, agents, tuple(self._permissions), skills, model)

    # --- lists of tools ---------------------------------------------------------------------------

    def _read_tools(self) -> None:
        fields = self._document.fields
        key = next((key for key in TOOL_KEYS if key in fields), "tools")
        if key != "tools":
            self._report(key, f"hilum's name for {key} is tools; it is read as tools.")
        value = fields.get(key)
        if isinstance(value, dict):
            self._read_mapping(value)
        else:
            entries = _list_entries(self._document, key, self._report)
            if entries is not None:
                self._read_allowed(key, entries, self._dialect)

    def _read_allowed(self, key: str, entries: Sequence[str], dialect: Dialect) -> None:
        found = self._read_list(_ToolList(dialect), key, entries)
        self._agents = found.agents
        self._allow = None if "*" in found.names else found.names
        if entries and not found.names:
            self._report(key, "None of the listed tools is available: the agent has no tools.")

    def _read_denied(self, key: str, entries: Sequence[str], dialect: Dialect) -> None:
        found = self._read_list(_ToolList(dialect, deny=True), key, entries)
        self._deny += found.names

    def _read_list(self, into: _ToolList, key: str, entries: Sequence[str]) -> _ToolList:
        found = into.read(entries)
        for message in found.messages:
            self._report(key, message)
        self._permissions += found.permissions
        return found

    def _read_mapping(self, value: dict[str, object]) -> None:
        """Parse ``tools`` as a mapping with ``allow`` and ``deny``, or with booleans."""
        if not value:
            self._report("tools", "tools is an empty mapping; the agent has all tools.")
            return
        has_switches = any(_as_switch(each) is not None for each in value.values())
        if {*value} <= {"allow", "deny"} and not has_switches:
            self._read_allow_and_deny(value)
        else:
            self._read_switches(value)

    def _read_allow_and_deny(self, value: dict[str, object]) -> None:
        table = Document(value, "", 1)

        def report(_: str, message: str) -> None:
            self._report("tools", f"tools.{message}")

        allowed = _list_entries(table, "allow", report)
        if allowed is not None:
            self._read_allowed("tools", allowed, self._dialect)
        denied = _list_entries(table, "deny", report)
        if denied is not None:
            self._read_denied("tools", denied, self._dialect)

    def _read_switches(self, value: dict[str, object]) -> None:
        """Parse an opencode mapping of tool names to true or false."""
        switches = {str(name): _as_switch(switch) for name, switch in value.items()}
        odd = [name for name, switch in switches.items() if switch is None]
        if odd:
            self._report(
                "tools", f"tools: {', '.join(odd)} must be true or false; they are read as false."
            )
        on = [name for name, switch in switches.items() if switch]
        off = [name for name, switch in switches.items() if not switch]
        # In opencode, `"*": false` makes all other entries a list of allowed tools.
        if "*" in off:
            off.remove("*")
            self._read_allowed("tools", on, "opencode")
        self._read_denied("tools", off, "opencode")

    # --- permissions ------------------------------------------------------------------------------

    def _read_permissions(self, rules: PermissionRules) -> None:
        fields = self._document.fields
        if "permission" in fields:
            report = partial(self._report, "permission")
            self._permissions += read_opencode(fields["permission"], report)
        report = partial(self._report, "permissions")
        # The last permission that matches a call applies, so denials come last.
        self._permissions += read_rules(rules.ask, "ask", report)
        self._permissions += read_rules(rules.deny, "deny", report)

    def _read_sandbox_mode(self) -> None:
        """Translate Codex's ``sandbox_mode``."""
        if self._dialect != "codex":
            return
        mode = text(self._document, "sandbox_mode").casefold()
        # In Codex's read-only sandbox, commands run but cannot write. hilum asks the user before it
        # runs each command.
        if mode == "read-only":
            self._deny.append("write")
            self._permissions.append(Permission("ask", "run_terminal_cmd"))
        elif mode == "danger-full-access":
            self._report(
                "sandbox_mode",
                "A file cannot extend an agent's permissions; sandbox_mode 'danger-full-access' is"
                " ignored.",
            )

    def _read_modes(self) -> None:
        """Translate fields that make an agent read-only."""
        is_plan = text(self._document, "permissionMode") == "plan"
        if is_plan or any(flag(self._document, key, False) for key in READ_ONLY_KEYS):
            self._deny += ["write", "execute"]

    def _read_skills(self) -> tuple[str, ...] | None:
        value = self._document.fields.get("skills")
        if value is None or value == "":
            return None
        if isinstance(value, dict):  # Codex's skill settings
            self._report("skills", "skills must be a list of names; it is ignored.")
            return None
        skills = names(self._document, "skills")
        if skills and self._allow is not None and "use_skill" not in self._allow:
            self._allow.append("use_skill")  # the model needs this tool to read skills
        return skills


def fit_tools(
    document: Document,
    dialect: Dialect,
    rules: PermissionRules,
    report: Report,
) -> Fitted:
    """Return the tools, permissions, skills and model in a file, translated into hilum's terms.

    Args:
        document: The file.
        dialect: Its dialect.
        rules: The table ``permissions``.
        report: A function to call with each problem.
    """
    return _Fitter(document, dialect, report).fit(rules)


def _list_entries(document: Document, key: str, report: Report) -> Sequence[str] | None:
    """Return the entries of a tool list, or ``None`` for all tools if there is no list."""
    if key not in document.fields:
        return None
    value = document.fields[key]
    if value is None or (isinstance(value, str) and not value.strip()):
        report(
            key,
            f"{key} is empty, which is neither all tools nor none; it is ignored. Write [] for"
            " none.",
        )
        return None
    if isinstance(value, list) and not all(map(_is_name, value)):
        report(key, f"{key} must be a list of names; other entries are ignored.")
        return [str(each).strip() for each in filter(_is_name, value)]
    # One list entry may contain several names: `- Read, Grep`.
    found: list[str] = []
    for entry in names(document, key) or ():
        found += split_tools(entry) if "," in entry else [entry]
    return found


def _without_duplicates(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(dict.fromkeys(names))


def _is_name(value: object) -> bool:
    return value is not None and not isinstance(value, dict | list)


def _as_switch(value: object) -> bool | None:
    """Return a value as a boolean, or ``None`` if it is not a boolean."""
    return flag(Document({"value": value}, "", 1), "value")


def _always_denied(permissions: Sequence[Permission]) -> list[str]:
    """Return the tools that are denied entirely.

    An entirely denied tool has a denial without a pattern, and no later permission except denials.
    """
    denied: dict[str, bool] = {}
    for each in permissions:
        if each.pattern is None:
            denied[each.tool] = each.effect == "deny"
        elif each.effect != "deny":
            denied[each.tool] = False
    # A filter cannot except a tool from its category, so such permissions judge each call.
    for category in RISKS & denied.keys():
        others = [tool for tool, is_denied in denied.items() if not is_denied]
        if any(KNOWN.get(tool, category) == category for tool in others):
            denied[category] = False
    # `*` denies every tool that has no permission of its own, which a filter cannot express.
    if denied.get("*") and len(denied) > 1:
        del denied["*"]
    return [tool for tool, is_denied in denied.items() if is_denied]
