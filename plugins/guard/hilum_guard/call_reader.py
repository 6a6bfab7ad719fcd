"""Prepare tool calls for the gate: check arguments, resolve paths and parse commands."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import msgspec
from hilum import ToolError

from hilum_guard.commands import judge_command
from hilum_guard.effects.resolved_effects import (
    Effect,
    Kind,
    ResolvedEffects,
    resolve_effects,
    shown_path,
)
from hilum_guard.file_names import resolve_links
from hilum_guard.hosts.addresses import host_of
from hilum_guard.rules.matching import CallFacts

if TYPE_CHECKING:
    from hilum import Tool, Workspace

PATH_PARAMETERS = frozenset(
    "path paths file files file_path folder directory source destination target".split()
)
"""Names of the parameters that contain paths, in tools that read or write files."""


def parse_arguments(text: str) -> dict[str, Any]:
    """Return a call's arguments by name, even if they are not a JSON object."""
    try:
        data = json.loads(text or "{}")
        json.dumps(data)  # deeply nested data can be parsed but not serialised
    except (ValueError, RecursionError):
        data = text
    return data if isinstance(data, dict) else {"arguments": data}


@attrs.frozen
class CheckedCall:
    """A call that is ready to be judged.

    Attributes:
        facts: The call as rules see it.
        risk: The permission category of the tool.
        root: Root of the workspace.
        paths: For a tool with paths, the resolved paths, each with its display text.
        differing: The paths that resolve to a different path, each with its target, as text.
        folder: For a command, its initial working folder.
        extra_roots: Further folders of the workspace.
    """

    facts: CallFacts
    risk: str
    root: Path
    paths: tuple[tuple[Path, str], ...] = ()
    differing: str = ""
    folder: Path | None = None
    extra_roots: tuple[Path, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether the call may do anything other than read."""
        return self.risk != "read"


def read_call(tool: Tool, text: str, workspace: Workspace) -> CheckedCall:
    """Return a call with its arguments checked, its paths resolved and its command parsed.

    Args:
        tool: The tool.
        text: The arguments, as JSON.
        workspace: The workspace, which resolves paths.

    Raises:
        ToolError: The arguments are invalid, or a path to write is outside the workspace.
    """
    # The same check runs again before the call, so the gate judges exactly the arguments that the
    # tool receives.
    checked = tool.check(text)
    arguments: dict[str, Any] = msgspec.to_builtins(checked)
    if tool.risk == "execute" and isinstance(arguments.get("command"), str):
        return _read_command_call(tool, arguments, workspace)
    host = host_of(arguments.get("url")) if tool.risk == "network" else ""
    if tool.schema is not None:  # a tool of an MCP server
        mentioned = tuple(_find_mentioned(workspace, arguments))
        facts = CallFacts(
            tool.name, arguments, host=host, category=tool.risk, resolved=ResolvedEffects(mentioned)
        )
        return CheckedCall(facts, tool.risk, workspace.root)
    if tool.risk in ("read", "write"):
        parameters = tuple(dict.fromkeys((*tool.writes, *(PATH_PARAMETERS & arguments.keys()))))
    else:
        parameters = tuple(tool.writes)
    return _read_path_call(tool, arguments, workspace, host, parameters)


def _read_command_call(tool: Tool, arguments: dict[str, Any], workspace: Workspace) -> CheckedCall:
    folder = workspace.resolve(str(arguments.get("working_directory") or "."))
    extra_roots = workspace.roots[1:]
    command_verdict = judge_command(
        arguments["command"], workspace=workspace.root, folder=folder, extra_roots=extra_roots
    )
    # Implied commands count too, because the name of a Git alias does not show which files it
    # writes.
    resolved = resolve_effects(
        command_verdict.all_commands, str(workspace.root), complete=command_verdict.complete
    )
    facts = CallFacts(
        tool.name, arguments, command=command_verdict, category=tool.risk, resolved=resolved
    )
    return CheckedCall(facts, tool.risk, workspace.root, folder=folder, extra_roots=extra_roots)


def _read_path_call(
    tool: Tool,
    arguments: dict[str, Any],
    workspace: Workspace,
    host: str,
    parameters: tuple[str, ...],
) -> CheckedCall:
    reached: dict[Path, str] = {}
    effects: list[Effect] = []
    differing: list[str] = []
    for name in parameters:
        kind = _effect_kind(tool, name)
        for given in _list_texts(arguments.get(name)):
            found = _resolve(workspace, given, must=name in tool.writes)
            for path in found:
                shown = workspace.relative(path)
                reached[path] = shown
                if kind is not None:
                    is_deep = kind == "delete" and os.path.isdir(path)
                    effects.append(Effect(kind, shown, deep=is_deep))
            if found and _differs(workspace, given, found[0]):
                differing.append(f"{given} is {workspace.relative(found[0])}")
    facts = CallFacts(
        tool.name,
        arguments,
        tuple(dict.fromkeys(reached.values())),
        host=host,
        category=tool.risk,
        resolved=ResolvedEffects(tuple(effects)),
    )
    shown_paths = tuple(reached.items())
    return CheckedCall(facts, tool.risk, workspace.root, shown_paths, "; ".join(differing))


def _effect_kind(tool: Tool, parameter: str) -> Kind | None:
    """Return how a tool uses the path in a parameter, so that rules about other tools can match.

    The result is None if only rules about the tool itself apply.
    """
    if tool.name == "delete_file":
        return "delete"
    if parameter in tool.writes or tool.risk == "write":
        return "write"
    if tool.name in ("read_file", "search_files", "semantic_search"):
        return "read"
    return None


def _find_mentioned(workspace: Workspace, arguments: Mapping[str, Any]) -> Iterator[Effect]:
    """Yield the paths in a call to an MCP server's tool, which may do anything with them."""
    for name in PATH_PARAMETERS & arguments.keys():
        for given in _list_texts(arguments[name]):
            # The MCP server resolves the path itself, perhaps relative to another folder, so the
            # effect is uncertain.
            path = resolve_links(os.path.join(workspace.root, os.path.expanduser(given)))
            yield Effect("any", shown_path(path, str(workspace.root)), certain=False)


def _list_texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [each for each in value if isinstance(each, str)]
    return []


def _resolve(workspace: Workspace, given: str, must: bool) -> list[Path]:
    """Return a path's target and the path itself.

    A tool may write through a link, or delete the link.

    Raises:
        ToolError: The path must be in the workspace, but neither the path nor its target is.
    """
    # Each judgement resolves paths, and few of them are links.
    with suppress(ToolError):
        real = workspace.resolve_without_link(given)
        if real is not None:
            return [real]
    found: dict[Path, None] = {}
    failure: ToolError | None = None
    for follow in (True, False):
        try:
            # The link and its target may have different protection, so both are judged.
            found[workspace.resolve(given, follow=follow)] = None
        except ToolError as error:
            failure = error
    if must and not found and failure is not None:
        raise failure
    return list(found)


def _differs(workspace: Workspace, given: str, path: Path) -> bool:
    joined = os.path.join(workspace.root, os.path.expanduser(given))
    return os.path.normpath(joined) != str(path)
