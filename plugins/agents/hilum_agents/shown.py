"""Agents for the terminal and as data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import attrs

from hilum_agents.definitions.catalog import Entry
from hilum_agents.definitions.definition import Definition
from hilum_agents.definitions.loading import USED
from hilum_agents.definitions.tools import RISKS

MOST_DESCRIPTION = 150
_STATES = {"on": "", "untrusted": "NOT TRUSTED", "hidden": "hidden", "broken": "BROKEN"}
Tools = Sequence[tuple[str, str]]


@attrs.frozen
class Finding:
    """What checking an agent found: ``✓`` right, ``⚠`` odd, ``✗`` wrong."""

    mark: Literal["✓", "⚠", "✗"]
    message: str
    line: int = 0


def rows(entries: Iterable[Entry], complaints: Iterable[str]) -> Iterator[str]:
    """All agents by source."""
    source = ""
    for entry in entries:
        if entry.source != source:
            source = entry.source
            yield f"{source}:"
        yield row(entry)
    for complaint in complaints:
        yield f"! {complaint}"


def row(entry: Entry) -> str:
    """One agent in two lines."""
    definition = entry.definition
    marks = [_STATES[entry.state]] if entry.state != "on" else []
    marks += [f"in place of that of: {', '.join(entry.hides)}"] if entry.hides else []
    if definition.problems and not definition.error:
        marks.append(
            f"{len(definition.problems)} warning{'s' if len(definition.problems) > 1 else ''}"
        )
    state = f"  [{'; '.join(marks)}]" if marks else ""
    model = definition.model or "session's model"
    why = f"\n      {entry.reason}" if entry.reason else ""
    head = f"  {definition.name}  {definition.title}  ({definition.scope}, {model}){state}"
    return f"{head}\n      {_short(definition.description)}{why}"


def _short(text: str) -> str:
    if len(text) <= MOST_DESCRIPTION:
        return text
    return text[: MOST_DESCRIPTION - 1] + "…"


def row_data(entry: Entry) -> dict[str, Any]:
    """One agent of a list, as data."""
    definition = entry.definition
    return {
        "name": definition.name,
        "title": definition.title,
        "description": definition.description,
        "model": definition.model,
        "scope": definition.scope,
        "source": entry.source,
        "path": str(definition.path),
        "state": entry.state,
        "reason": entry.reason,
        "hides": list(entry.hides),
        "problems": len(definition.problems),
    }


def passing(definition: Definition, tools: Tools) -> list[str]:
    """The tools that pass an agent's filter."""
    return [name for name, risk in tools if definition.tools.admits(name, risk)]


def data(entry: Entry, tools: Tools) -> dict[str, Any]:
    """Everything of an agent, as data."""
    definition = entry.definition
    return row_data(entry) | {
        "kind": definition.kind,
        "version": definition.version,
        "written_model": definition.written_model,
        "allow": None if definition.tools.allow is None else list(definition.tools.allow),
        "deny": list(definition.tools.deny),
        "tools": passing(definition, tools),
        "agents": None if definition.agents is None else list(definition.agents),
        "servers": list(definition.servers),
        "own_servers": definition.own_servers,
        "skills": None if definition.skills is None else list(definition.skills),
        "permissions": [each.text for each in definition.permissions],
        "turns": definition.turns,
        "timeout": definition.timeout,
        "token_limit": definition.token_limit,
        "answer": definition.form or definition.answer,
        "prompt": definition.instructions,
        "unused": unused(definition),
        "dates": dates(definition.path),
        "problems": [each._asdict() for each in definition.problems],
    }


def dates(path: Path) -> dict[str, str]:
    """When a file was changed last, and made where the system knows that."""
    try:
        status = os.stat(path)
    except OSError:
        return {}
    born = getattr(status, "st_birthtime", None)
    found = {"changed": status.st_mtime} | ({"created": born} if born else {})
    return {
        key: datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
        for key, at in found.items()
    }


def page(entry: Entry, tools: Tools, *, prompt: bool = False) -> str:
    """Everything of an agent, for the terminal."""
    definition = entry.definition
    allow = definition.tools.allow
    deny = definition.tools.deny
    found = passing(definition, tools)
    limits = [f"{definition.turns} turns"]
    limits += [f"{definition.timeout:g} s"] if definition.timeout else []
    limits += [f"{definition.token_limit:,} tokens"] if definition.token_limit else []
    if definition.written_model not in ("", definition.model):
        written = f" (written: {definition.written_model})"
    else:
        written = ""
    parts = {
        "title": definition.title,
        "description": definition.description,
        "state": "" if entry.state == "on" else f"{_STATES[entry.state]}: {entry.reason}",
        "takes the place of": ", ".join(entry.hides),
        "model": (definition.model or "the session's") + written,
        "scope": f"{definition.scope}, {entry.source}",
        "version": definition.version,
        "allow": "all" if allow is None else ", ".join(allow) or "none",
        "deny": ", ".join(deny),
        "tools": f"{len(found)}: {', '.join(found)}" if found else "none",
        "agents": "" if definition.agents is None else ", ".join(definition.agents) or "none",
        "servers": ", ".join(definition.servers),
        "skills": "" if definition.skills is None else ", ".join(definition.skills) or "none",
        "permissions": "; ".join(each.text for each in definition.permissions),
        "limits": ", ".join(limits),
        "answer": ", ".join(definition.form) if definition.form else definition.answer,
        "not used": ", ".join(unused(definition)),
        "prompt": f"{len(definition.prompt):,} characters",
        "file": str(definition.path),
        **dates(definition.path),
    }
    lines = [
        definition.name,
        *(f"  {key + ':':20}{value}" for key, value in parts.items() if value),
    ]
    lines += [f"  ⚠ line {each.line}: {each.message}" for each in definition.problems]
    return "\n".join([*lines, "", definition.instructions] if prompt else lines)


def unused(definition: Definition) -> list[str]:
    """The fields of an agent's file that are kept, and mean nothing here."""
    return [
        key for key, value in definition.fields.items() if key not in USED and value is not None
    ]


# --- checking -------------------------------------------------------------------------------------


def findings(entry: Entry, tools: Tools) -> list[Finding]:
    """Check an agent: its file, and what is left of its tools here.

    Args:
        entry: The agent.
        tools: Name and risk of the tools there are.
    """
    definition = entry.definition
    found = [
        Finding("✗" if each.fatal else "⚠", each.message, each.line) for each in definition.problems
    ]
    if definition.error:
        return found
    found.append(Finding("✓", f"format: {definition.kind}, {len(definition.fields)} fields"))
    found.append(Finding("✓", f"prompt: {len(definition.prompt):,} characters"))
    found += _tools(definition, tools)
    for name in definition.servers:
        count = sum(fnmatchcase(tool, f"{name}__*") for tool, _ in tools)
        missing = f"server {name}: no MCP server of that name is set up; its tools are missing."
        found.append(
            Finding("✓", f"server {name}: {count} tools") if count else Finding("⚠", missing)
        )
    if entry.state in ("untrusted", "hidden"):
        found.append(Finding("⚠", f"It cannot be called: {entry.reason}."))
    return found


def _tools(definition: Definition, tools: Tools) -> Iterator[Finding]:
    """What the filter leaves, and which entries of it come to nothing."""
    left = passing(definition, tools)
    allow = definition.tools.allow
    deny = definition.tools.deny
    for entry in allow or ():
        meant = [
            name
            for name, risk in tools
            if (risk == entry if entry in RISKS else fnmatchcase(name, entry))
        ]
        if meant and not set(meant) & set(left):
            yield Finding("⚠", f"tool {entry}: filtered away, for deny takes it out.")
        elif not meant and "__" not in entry:
            yield Finding("⚠", f"tool {entry}: filtered away, for there is no such tool here.")
    if allow == () and not deny:
        yield Finding("✓", "tools: none, as the file says")
    elif not left:
        yield Finding("⚠", "tools: the filter leaves none; the agent will not run like this.")
    else:
        yield Finding("✓", f"tools: {len(left)} of {len(tools)}: {', '.join(left)}")


def finding_rows(entry: Entry, found: Sequence[Finding]) -> Iterator[str]:
    """What was found, for the terminal."""
    worst = next((mark for mark in "✗⚠" if any(each.mark == mark for each in found)), "✓")
    yield f"{worst} {entry.definition.name}  {entry.definition.path}"
    for each in found:
        yield f"    {each.mark} {f'line {each.line}: ' if each.line else ''}{each.message}"
