"""Formats agents as text for the terminal and as data for programs."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import attrs
from hilum.command import escape_line
from hilum.errors import similar_names

from hilum_agents.definitions.catalog import CatalogEntry
from hilum_agents.definitions.definition import Definition
from hilum_agents.definitions.loading import USED
from hilum_agents.definitions.tools import KNOWN, RISKS

MAX_DESCRIPTION = 150
_STATES = {"on": "", "untrusted": "NOT TRUSTED", "hidden": "hidden", "broken": "BROKEN"}
# The tools with which an agent can read a file before it changes the file.
_READING_TOOLS = frozenset({"read_file", "run_terminal_cmd"})
# The marks of findings, worst first.
_MARKS = "✗⚠✓"
# Pairs of a tool's name and its permission category.
Tools = Sequence[tuple[str, str]]


@attrs.frozen
class Finding:
    """One result of checking an agent.

    Attributes:
        mark: ``✓`` for correct, ``⚠`` for a warning, ``✗`` for an error.
        message: The finding, as a sentence.
        line: Line number in the file; 0 for none.
    """

    mark: Literal["✓", "⚠", "✗"]
    message: str
    line: int = 0


# --- lists ----------------------------------------------------------------------------------------


def list_rows(entries: Iterable[CatalogEntry], complaints: Iterable[str]) -> Iterator[str]:
    """Yield the lines of an agent list, grouped by source."""
    source = ""
    for entry in entries:
        if entry.source != source:
            source = entry.source
            yield f"{source}:"
        yield _row(entry)
    for complaint in complaints:
        yield f"! {complaint}"


def _row(entry: CatalogEntry) -> str:
    definition = entry.definition
    model = definition.model or "session's model"
    title = escape_line(definition.title)
    head = f"  {definition.name}  {title}  ({definition.scope}, {escape_line(model)})"
    marks = _row_marks(entry)
    if marks:
        head += f"  [{'; '.join(marks)}]"
    lines = [head, f"      {_shorten(definition.description)}"]
    if entry.reason:
        lines.append(f"      {escape_line(entry.reason)}")
    return "\n".join(lines)


def _row_marks(entry: CatalogEntry) -> list[str]:
    marks = []
    if entry.state != "on":
        marks.append(_STATES[entry.state])
    if entry.hides:
        marks.append(f"replaces the agent of: {', '.join(entry.hides)}")
    count = len(entry.definition.problems)
    if count and not entry.definition.error:
        marks.append("1 warning" if count == 1 else f"{count} warnings")
    return marks


def _shorten(text: str) -> str:
    if len(text) <= MAX_DESCRIPTION:
        return text
    return text[: MAX_DESCRIPTION - 1] + "…"


def entry_summary(entry: CatalogEntry) -> dict[str, Any]:
    """Return one entry of an agent list as data."""
    definition = entry.definition
    return _pick(definition, ("name", "title", "description", "model", "scope")) | {
        "source": entry.source,
        "path": str(definition.path),
        **_pick(entry, ("state", "reason", "hides")),
        "problems": len(definition.problems),
    }


def _pick(source: object, names: Iterable[str]) -> dict[str, Any]:
    """Return the given attributes of an object, by name."""
    return {name: getattr(source, name) for name in names}


# --- one agent ------------------------------------------------------------------------------------


def available_tools(definition: Definition, tools: Tools) -> list[str]:
    """Return the names of the tools that pass an agent's filter; a program uses its own tools."""
    if definition.runner is not None:
        return []
    return [name for name, risk in tools if definition.tools.admits(name, risk)]


def entry_data(entry: CatalogEntry, tools: Tools) -> dict[str, Any]:
    """Return all details of an agent as data."""
    definition = entry.definition
    return {
        **entry_summary(entry),
        **_pick(definition, ("kind", "version", "written_model")),
        **_pick(definition.tools, ("allow", "deny")),
        "tools": available_tools(definition, tools),
        **_program_data(definition),
        **_pick(definition, ("agents", "servers", "own_servers", "skills")),
        "permissions": _permission_texts(definition),
        **_pick(definition, ("turns", "timeout", "token_limit")),
        "answer": definition.form or definition.answer,
        "prompt": definition.instructions,
        "unused": unused_fields(definition),
        "dates": _dates(definition.path),
        "problems": [problem._asdict() for problem in definition.problems],
    }


def _program_data(definition: Definition) -> dict[str, Any]:
    """Return the program that does an agent's work; empty if hilum does it."""
    if definition.runner is None:
        return {}
    return {"program": list(definition.runner.command), "writes": _may_write(definition)}


def _may_write(definition: Definition) -> bool:
    """Return whether the filter lets an agent's program write to the workspace."""
    return definition.tools.admits("write_file", "write")


def _permission_texts(definition: Definition) -> list[str]:
    return [permission.text for permission in definition.permissions]


def _dates(path: Path) -> dict[str, str]:
    """Return a file's modification time and, if the system records it, its creation time."""
    try:
        status = os.stat(path)
    except OSError:
        return {}
    times = {"changed": status.st_mtime, "created": getattr(status, "st_birthtime", None)}
    found = {}
    for key, seconds in times.items():
        if seconds:
            found[key] = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return found


def entry_page(entry: CatalogEntry, tools: Tools, *, prompt: bool = False) -> str:
    """Return all details of an agent as text.

    Args:
        entry: The agent.
        tools: The available tools.
        prompt: Whether to include the agent's prompt.
    """
    definition = entry.definition
    found = available_tools(definition, tools)
    listed = f"{len(found)}: {', '.join(found)}" if found else "none"
    if definition.runner is not None:
        listed = f"the program's own; {_describe_writing(definition)}"
    parts = {
        "title": definition.title,
        "description": definition.description,
        "state": _state(entry),
        "replaces": ", ".join(entry.hides),
        "program": shlex.join(definition.runner.command) if definition.runner else "",
        "model": _model(definition),
        "scope": f"{definition.scope}, {entry.source}",
        "version": definition.version,
        "allow": _names(definition.tools.allow, everything="all"),
        "deny": ", ".join(definition.tools.deny),
        "tools": listed,
        "agents": _names(definition.agents),
        "servers": ", ".join(definition.servers),
        "skills": _names(definition.skills),
        "permissions": "; ".join(_permission_texts(definition)),
        "limits": _limits(definition),
        "answer": ", ".join(definition.form or ()) or definition.answer,
        "not used": ", ".join(unused_fields(definition)),
        "prompt": f"{len(definition.prompt):,} characters",
        "file": str(definition.path),
        **_dates(definition.path),
    }
    lines = [definition.name]
    lines += [f"  {key + ':':20}{value}" for key, value in parts.items() if value]
    lines += [f"  ⚠ line {problem.line}: {problem.message}" for problem in definition.problems]
    if prompt:
        lines += ["", definition.instructions]
    return "\n".join(lines)


def _state(entry: CatalogEntry) -> str:
    if entry.state == "on":
        return ""
    return f"{_STATES[entry.state]}: {entry.reason}"


def _model(definition: Definition) -> str:
    model = definition.model or "the session's"
    if definition.written_model in ("", definition.model):
        return model
    return f"{model} (written: {definition.written_model})"


def _names(names: Sequence[str] | None, everything: str = "") -> str:
    """Return a list of names as text; ``None`` means all."""
    if names is None:
        return everything
    return ", ".join(names) or "none"


def _limits(definition: Definition) -> str:
    limits = [f"{definition.turns} turns"]
    if definition.timeout:
        limits.append(f"{definition.timeout:g} s")
    if definition.token_limit:
        limits.append(f"{definition.token_limit:,} tokens")
    return ", ".join(limits)


def unused_fields(definition: Definition) -> list[str]:
    """Return the fields in an agent's file that have no effect."""
    fields = definition.fields.items()
    return [key for key, value in fields if key not in USED and value is not None]


# --- checking -------------------------------------------------------------------------------------


def check_entry(entry: CatalogEntry, tools: Tools) -> list[Finding]:
    """Check an agent's file, its servers, and the tools that pass its filter.

    Args:
        entry: The agent.
        tools: The available tools.
    """
    definition = entry.definition
    found = []
    for problem in definition.problems:
        mark: Literal["✗", "⚠"] = "✗" if problem.fatal else "⚠"
        found.append(Finding(mark, problem.message, problem.line))
    if definition.error:
        return found
    found.append(Finding("✓", f"format: {definition.kind}, {len(definition.fields)} fields"))
    if definition.prompt or definition.runner is None:
        found.append(Finding("✓", f"prompt: {len(definition.prompt):,} characters"))
    if definition.runner is not None:
        found += _check_program(definition, definition.runner.command[0])
    else:
        found += _check_tools(definition, tools)
    found += [_check_server(name, tools) for name in definition.servers]
    if entry.state in ("untrusted", "hidden"):
        found.append(Finding("⚠", f"The agent cannot be called: {entry.reason.rstrip('.')}."))
    return found


def _check_server(name: str, tools: Tools) -> Finding:
    count = sum(fnmatchcase(tool, f"{name}__*") for tool, _ in tools)
    if count:
        return Finding("✓", f"server {name}: {count} tools")
    return Finding(
        "⚠", f"server {name}: there is no MCP server with this name, so its tools are missing."
    )


def _check_program(definition: Definition, program: str) -> Iterator[Finding]:
    # A variable in the command is known only when the program starts.
    if "$" not in program and shutil.which(program) is None:
        yield Finding(
            "⚠", f"program: there is no program {program!r}. Install it, or correct runner.command."
        )
    else:
        yield Finding("✓", f"program: {program}; {_describe_writing(definition)}")


def _describe_writing(definition: Definition) -> str:
    if _may_write(definition):
        return "it may write to the workspace"
    return "it can only read the workspace"


def _check_tools(definition: Definition, tools: Tools) -> Iterator[Finding]:
    left = available_tools(definition, tools)
    allow = definition.tools.allow
    for entry in allow or ():
        meant = _meant_tools(entry, tools)
        if meant and not set(meant) & set(left):
            yield Finding("⚠", f"tool {entry}: excluded by deny.")
        elif not meant and "__" not in entry:  # MCP tools are unknown without a session
            similar = similar_names(entry, [name for name, _ in tools], 1)
            hint = f" Did you mean {similar[0]}?" if similar else ""
            yield Finding("⚠", f"tool {entry}: there is no such tool here.{hint}")
    if allow == () and not definition.tools.deny:
        yield Finding("✓", "tools: none, as specified in the file")
    elif not left:
        yield Finding("⚠", "tools: the filter excludes all of them, so the agent cannot run.")
    else:
        yield Finding("✓", f"tools: {_list_tools(left, [name for name, _ in tools])}")
        yield from _check_reading(left)


def _list_tools(left: Collection[str], known: Collection[str]) -> str:
    """Return which tools an agent has: their names, or if these are fewer, those that it lacks."""
    missing = [name for name in known if name not in left]
    if not missing:
        return f"all {len(known)}"
    counts = f"{len(left)} of {len(known)}"
    if len(missing) < len(left):
        return f"{counts}, all except {', '.join(missing)}"
    return f"{counts}: {', '.join(left)}"


def _check_reading(left: Collection[str]) -> Iterator[Finding]:
    """Yield a warning if an agent has tools that change files, but none that reads them."""
    writing = [name for name in left if KNOWN.get(name) == "write"]
    # A shell can read files, too.
    if writing and not _READING_TOOLS & set(left):
        yield Finding(
            "⚠",
            f"tools: the agent can change files ({', '.join(writing)}) but not read them. Add"
            " read_file.",
        )


def _meant_tools(entry: str, tools: Tools) -> list[str]:
    """Return the tools that match a filter entry, which is a category or a pattern."""
    if entry in RISKS:
        return [name for name, risk in tools if risk == entry]
    return [name for name, _ in tools if fnmatchcase(name, entry)]


def finding_rows(entry: CatalogEntry, found: Sequence[Finding]) -> Iterator[str]:
    """Yield the findings about an agent as lines for the terminal."""
    marks = [finding.mark for finding in found]
    worst = min(marks, key=_MARKS.index, default="✓")
    yield f"{worst} {entry.definition.name}  {escape_line(str(entry.definition.path))}"
    for finding in found:
        line = f"line {finding.line}: " if finding.line else ""
        yield f"    {finding.mark} {line}{escape_line(finding.message)}"
