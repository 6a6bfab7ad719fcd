"""The tools, permissions and model of an agent's file, fitted to what there is here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
from hilum import ToolFilter
from hilum_frontmatter import Document, flag, names, split_tools, text

from hilum_agents.definitions.definition import Dialect, Permission
from hilum_agents.definitions.models import read_model
from hilum_agents.definitions.permissions import narrowed, read_opencode, read_own, split_entry
from hilum_agents.definitions.tools import Doubt, ours, tell_doubts

Tell = Callable[[str, str], None]
TOOL_KEYS = ("tools", "allowed-tools", "allowedTools", "allowed_tools")


@attrs.frozen
class Fitted:
    """What is left of the fields that differ most between programs."""

    tools: ToolFilter
    agents: tuple[str, ...] | None
    permissions: tuple[Permission, ...]
    skills: tuple[str, ...] | None
    model: str
    written_model: str


@attrs.define
class _Entries:
    """A list of tools on its way."""

    names: list[str] = attrs.field(factory=list)
    agents: list[str] | None = None
    permissions: list[Permission] = attrs.field(factory=list)


def fit_tools(document: Document, dialect: Dialect, tell: Tell) -> Fitted:
    """Fit what a file says of tools, permissions and its model.

    Args:
        document: The file.
        dialect: Whose format it has.
        tell: Takes a key and what is wrong with its value.
    """
    fields = document.fields
    allowed = _Entries()
    denied = _Entries()
    allow: list[str] | None = None
    key = next((key for key in TOOL_KEYS if key in fields), "tools")
    if key != "tools":
        tell(key, f"What an agent may use stands in tools; {key} is taken for it.")
    value = fields.get(key)
    if isinstance(value, dict):
        allow = _mapping(value, dialect, allowed, denied, tell)
    elif (entries := _listed(document, key, tell)) is not None:
        _take(entries, dialect, allowed, lambda message: tell(key, message))
        allow = None if "*" in allowed.names else allowed.names
    for key in ("disallowedTools", "disallowed-tools", "disallowed_tools", "excludeTools"):
        entries = _listed(document, key, tell)
        if entries is not None:
            _take(entries, dialect, denied, lambda message, key=key: tell(key, message), deny=True)  # type: ignore[misc]
    permissions = [*allowed.permissions, *denied.permissions]
    if "permission" in fields:
        permissions += read_opencode(
            fields["permission"], lambda message: tell("permission", message)
        )
    if "permissions" in fields:
        permissions += read_own(fields["permissions"], lambda message: tell("permissions", message))
    mode = text(document, "sandbox_mode").casefold() if dialect == "codex" else ""
    if mode == "read-only":
        denied.names.append("write")
        permissions.append(Permission("ask", "run_terminal_cmd"))
    elif mode == "danger-full-access":
        tell(
            "sandbox_mode",
            "An agent cannot widen its rights; sandbox_mode 'danger-full-access' is ignored.",
        )
    # What is refused in every case need not be shown to the model at all.
    whole = _refused(permissions)
    if text(document, "permissionMode") == "plan":
        denied.names += ["write", "execute"]
    if any(
        flag(document, key, False) for key in ("readonly", "readOnly", "read_only", "read-only")
    ):
        denied.names += ["write", "execute"]
    model, written, warning = read_model(fields.get("model"))
    if warning:
        tell("model", warning)
    skills = None if fields.get("skills") in (None, "") else names(document, "skills")
    if isinstance(fields.get("skills"), dict):  # settings of skills in Codex
        skills = None
        tell("skills", "skills must be a list of names; it is ignored.")
    if skills and allow is not None and "use_skill" not in allow:
        allow.append("use_skill")  # a skill that cannot be read helps nobody
    if allow == [] and value not in ([], {}):
        tell("tools", "Of the tools that are named none is left: the agent has no tools.")
    return Fitted(
        ToolFilter(
            None if allow is None else tuple(dict.fromkeys(allow)),
            tuple(dict.fromkeys([*denied.names, *whole])),
        ),
        None if allowed.agents is None else tuple(dict.fromkeys(allowed.agents)),
        tuple(permissions),
        skills,
        model,
        written,
    )


def _listed(document: Document, key: str, tell: Tell) -> Sequence[str] | None:
    """A list of tools: ``None`` for all, nothing in it for none."""
    if key not in document.fields:
        return None
    value = document.fields[key]
    if value is None or (isinstance(value, str) and not value.strip()):
        tell(
            key,
            f"{key} is empty: neither all tools nor none. It is taken as not written; [] means"
            " none.",
        )
        return None
    if isinstance(value, list) and any(
        isinstance(each, dict | list) or each is None for each in value
    ):
        tell(key, f"{key} must be a list of names; entries that are none are left out.")
        value = [each for each in value if not isinstance(each, dict | list) and each is not None]
        return tuple(str(each).strip() for each in value)
    found = names(document, key) or ()
    # One entry of a list that holds several: `- Read, Grep`.
    return tuple(part for each in found for part in (split_tools(each) if "," in each else (each,)))


def _take(
    entries: Sequence[str],
    dialect: Dialect,
    into: _Entries,
    tell: Callable[[str], None],
    *,
    deny: bool = False,
) -> None:
    """Read entries such as ``Read``, ``Bash(git:*)``, ``Agent(x)``, ``mcp__server``.

    Adds what they stand for.
    """
    whole: set[str] = set()
    partly: dict[str, list[Permission]] = {}
    doubts: list[tuple[Doubt, str]] = []
    for entry in entries:
        name, pattern = split_entry(entry)
        if not name or name.strip(".…") == "":
            if name:
                doubts.append(("no name", entry))
            continue
        if name.startswith("!"):
            tell(f"{entry!r}: a tool is taken out with disallowedTools; the entry is left out.")
            continue
        tools, doubt = ours(name, dialect, deny=deny)
        doubts.append((doubt, name))
        starts = "task" in tools or "handover" in tools
        if starts and pattern not in (None, "*", ""):
            parts = [part.strip() for part in str(pattern).split(",") if part.strip()]
            if deny:
                into.permissions += [
                    Permission("deny", tool, part) for part in parts for tool in tools
                ]
                continue
            if "task" not in whole:
                into.agents = [*(into.agents or ()), *parts]
            into.names += [tool for tool in tools if tool not in into.names]
            continue
        if starts and not deny:
            into.agents = None  # who may start any agent may start those that are named, too
        if pattern in (None, "", "*", ":*"):
            into.names += [tool for tool in tools if tool not in into.names]
            whole.update(tools)
        elif deny:
            into.permissions += [
                Permission("deny", each.tool, each.pattern)
                for each in narrowed(tools, str(pattern))
            ]
        else:
            into.names += [tool for tool in tools if tool not in into.names]
            for each in narrowed(tools[:1], str(pattern)):
                partly.setdefault(each.tool, []).append(each)
    for message in tell_doubts(doubts):
        tell(message)
    for tool, permissions in partly.items():
        if tool not in whole:
            into.permissions += [Permission("deny", tool), *permissions]


def _mapping(
    value: dict[str, object], dialect: Dialect, allowed: _Entries, denied: _Entries, tell: Tell
) -> list[str] | None:
    """Read ``tools`` as a mapping: ``allow`` and ``deny``, or opencode's names with true and
    false.
    """

    def say(message: str) -> None:
        tell("tools", message)

    if (
        value
        and {*value} <= {"allow", "deny"}
        and not any(_truth(each) is not None for each in value.values())
    ):
        for key, into in (("allow", allowed), ("deny", denied)):
            inner = Document({key: value.get(key)} if key in value else {}, "", 1)
            entries = _listed(inner, key, lambda _, message: say(f"tools.{message}"))
            if entries is not None:
                _take(entries, dialect, into, say, deny=key == "deny")
        given = value.get("allow")
        unsaid = given is None or given == "" or "*" in allowed.names
        return None if unsaid else allowed.names
    on = [str(name) for name, switch in value.items() if _truth(switch) is True]
    off = [str(name) for name, switch in value.items() if _truth(switch) is False]
    odd = [str(name) for name, switch in value.items() if _truth(switch) is None]
    if odd:
        say(f"tools: {', '.join(odd)} must be true or false; what is neither is taken as false.")
        off += odd
    if "*" in off:  # all off but those that are on
        _take(on, "opencode", allowed, say)
        off.remove("*")
        _take(off, "opencode", denied, say, deny=True)
        return allowed.names
    _take(off, "opencode", denied, say, deny=True)
    if not value:
        say("tools is an empty mapping: all tools.")
    return None


def _truth(value: object) -> bool | None:
    return flag(Document({"value": value}, "", 1), "value")


def _refused(permissions: Sequence[Permission]) -> list[str]:
    """The tools of which nothing is left: the last permission without a pattern denies, and none
    that allows follows.
    """
    last: dict[str, bool] = {}
    for each in permissions:
        if each.pattern is None:
            last[each.tool] = each.effect == "deny"
        elif each.effect != "deny":
            last[each.tool] = False
    # `*` refuses what is not named itself, so it can only be judged call by call when something is.
    if last.get("*") and len(last) > 1:
        del last["*"]
    return [tool for tool, refused in last.items() if refused]
