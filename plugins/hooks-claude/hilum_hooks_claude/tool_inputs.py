"""Describes hilum's tool calls in the names and inputs of Claude Code's tools, and back.

One call may have several views: hooks are written for the tools that Claude Code has, and a hook
about edits must not overlook a tool that changes files under another name.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

Values = Mapping[str, Any]
Restore = Callable[[Values], dict[str, Any]]


@attrs.frozen
class View:
    """A call as a call of one of Claude Code's tools.

    Attributes:
        name: The name of Claude Code's tool.
        values: Its input.
        restore: A function that returns the arguments of hilum's tool for a changed input; ``None``
            if the input cannot be changed.
    """

    name: str
    values: dict[str, Any]
    restore: Restore | None = None


# What a call is, once or several times: of each part, a hook sees the first choice that it matches.
Choice = Sequence[View]
Part = Sequence[Choice]


def describe_call(tool: str, arguments: Values, root: Path, *, plugin: str = "") -> list[Part]:
    """Return what a call is in the terms of Claude Code.

    Args:
        tool: The name of hilum's tool.
        arguments: Its checked arguments.
        root: The workspace, to which relative paths belong.
        plugin: The plugin that the tool belongs to.
    """
    describe = _DESCRIBERS.get(tool)
    if describe is not None:
        return describe(arguments, root)
    name = f"mcp__{tool}" if plugin == "mcp" else tool
    return [[[View(name, dict(arguments), lambda changed: dict(changed))]]]


def _absolute(path: object, root: Path) -> str:
    return os.path.normpath(os.path.join(root, os.path.expanduser(str(path))))


def _relative(path: object, root: Path) -> str:
    """Return a path as the agent writes it: relative to the workspace, if it is inside."""
    text = str(path)
    inside = os.path.relpath(text, root) if os.path.isabs(text) else text
    return text if inside.startswith("..") else inside


def _rename(
    arguments: Values, names: Mapping[str, str], root: Path, paths: Sequence[str] = ()
) -> tuple[dict[str, Any], Restore]:
    """Return arguments under other names, and a function that converts changed ones back.

    Args:
        arguments: The arguments of hilum's tool.
        names: The names in Claude Code, by hilum's names.
        root: The workspace.
        paths: Claude Code's names of arguments that are paths.
    """
    values: dict[str, Any] = {}
    for own, other in names.items():
        if arguments.get(own) is not None:
            value = arguments[own]
            values[other] = _absolute(value, root) if other in paths else value

    def restore(changed: Values) -> dict[str, Any]:
        restored = dict(arguments)
        for own, other in names.items():
            if other in changed and changed[other] != values.get(other):
                value = changed[other]
                restored[own] = _relative(value, root) if other in paths else value
        return restored

    return values, restore


def _single(name: str, values: dict[str, Any], restore: Restore | None = None) -> list[Part]:
    return [[[View(name, values, restore)]]]


def _describe_command(arguments: Values, root: Path) -> list[Part]:
    values: dict[str, Any] = {"command": str(arguments.get("command", "")), "description": ""}
    if arguments.get("timeout"):
        values["timeout"] = int(float(arguments["timeout"]) * 1000)
    values["run_in_background"] = bool(arguments.get("background"))

    def restore(changed: Values) -> dict[str, Any]:
        restored = dict(arguments)
        restored["command"] = changed.get("command", "")
        if changed.get("run_in_background") != values["run_in_background"]:
            restored["background"] = bool(changed.get("run_in_background"))
        if changed.get("timeout") != values.get("timeout"):
            restored["timeout"] = float(changed["timeout"]) / 1000
        return restored

    return _single("Bash", values, restore)


def _describe_other_command(arguments: Values, root: Path) -> list[Part]:
    return _single("Bash", {"command": str(arguments.get("command", ""))})


def _describe_typed_text(arguments: Values, root: Path) -> list[Part]:
    # What is typed into a shell that runs in the background is a command, too.
    return _single("Bash", {"command": str(arguments.get("text", ""))})


def _describe_read(arguments: Values, root: Path) -> list[Part]:
    names = {"path": "file_path", "offset": "offset", "limit": "limit"}
    return _single("Read", *_rename(arguments, names, root, ["file_path"]))


def _describe_write(arguments: Values, root: Path) -> list[Part]:
    names = {"path": "file_path", "content": "content"}
    return _single("Write", *_rename(arguments, names, root, ["file_path"]))


def _describe_edit(arguments: Values, root: Path) -> list[Part]:
    names = {"path": "file_path", "old_string": "old_string", "new_string": "new_string"}
    return _single("Edit", *_rename(arguments, names, root, ["file_path"]))


def _describe_edits(arguments: Values, root: Path) -> list[Part]:
    names = {"path": "file_path", "edits": "edits"}
    values, restore = _rename(arguments, names, root, ["file_path"])
    edits = arguments.get("edits")
    single = []
    for edit in edits if isinstance(edits, list) else []:
        if isinstance(edit, Mapping):
            single.append(View("Edit", {**edit, "file_path": values.get("file_path", "")}))
    return [[[View("MultiEdit", values, restore)], single]]


def _describe_deletion(arguments: Values, root: Path) -> list[Part]:
    path = str(arguments.get("path", ""))
    write = {"file_path": _absolute(path, root), "content": ""}
    command = f"rm -r -- {shlex.quote(path)}"
    return [[[View("Write", write)], [View("Edit", write)]], [[View("Bash", {"command": command})]]]


def _describe_search(arguments: Values, root: Path) -> list[Part]:
    names = {"pattern": "pattern", "path": "path", "glob": "glob", "ignore_case": "-i"}
    return _single("Grep", *_rename(arguments, names, root, ["path"]))


def _describe_glob(arguments: Values, root: Path) -> list[Part]:
    names = {"pattern": "pattern", "path": "path"}
    return _single("Glob", *_rename(arguments, names, root, ["path"]))


def _describe_listing(arguments: Values, root: Path) -> list[Part]:
    values, restore = _rename(arguments, {"path": "path"}, root, ["path"])
    return [[[View("LS", values, restore)], [View("Glob", {"pattern": "*", **values})]]]


def _describe_fetch(arguments: Values, root: Path) -> list[Part]:
    values, restore = _rename(arguments, {"url": "url"}, root)
    return _single("WebFetch", {**values, "prompt": ""}, restore)


def _describe_web_search(arguments: Values, root: Path) -> list[Part]:
    return _single("WebSearch", *_rename(arguments, {"query": "query"}, root))


def _describe_task(arguments: Values, root: Path) -> list[Part]:
    names = {"description": "description", "prompt": "prompt", "brief": "prompt"}
    own = {name: other for name, other in names.items() if name in arguments}
    values, restore = _rename(arguments, {**own, "agent": "subagent_type"}, root)
    values.setdefault("subagent_type", "general-purpose")
    return [[[View("Task", values, restore)], [View("Agent", values, restore)]]]


def _describe_todos(arguments: Values, root: Path) -> list[Part]:
    return _single("TodoWrite", *_rename(arguments, {"todos": "todos"}, root))


def _describe_question(arguments: Values, root: Path) -> list[Part]:
    question = {
        "question": arguments.get("question", ""),
        "options": arguments.get("options") or [],
        "multiSelect": bool(arguments.get("multiple")),
    }
    return _single("AskUserQuestion", {"questions": [question]})


def _describe_skill(arguments: Values, root: Path) -> list[Part]:
    return _single("Skill", *_rename(arguments, {"name": "skill"}, root))


def _describe_browsing(arguments: Values, root: Path) -> list[Part]:
    parts = _single("browser_use", dict(arguments), lambda changed: dict(changed))
    if arguments.get("url"):
        parts.append([[View("WebFetch", {"url": arguments["url"], "prompt": ""})]])
    return parts


def _describe_guest_files(name: str) -> Callable[[Values, Path], list[Part]]:
    def describe(arguments: Values, root: Path) -> list[Part]:
        paths = arguments.get("paths")
        change = str(arguments.get("change", ""))
        parts: list[Part] = []
        for path in paths if isinstance(paths, list) else []:
            place = _absolute(path, root)
            if name == "Read":
                parts.append([[View("Read", {"file_path": place})]])
                continue
            edit = {"file_path": place, "old_string": "", "new_string": change}
            write = {"file_path": place, "content": change}
            parts.append([[View("Edit", edit)], [View("Write", write)]])
        return parts or _single(name, {})

    return describe


_DESCRIBERS: dict[str, Callable[[Values, Path], list[Part]]] = {
    "run_terminal_cmd": _describe_command,
    "write_service": _describe_typed_text,
    "read_file": _describe_read,
    "write_file": _describe_write,
    "edit_file": _describe_edit,
    "multi_edit": _describe_edits,
    "delete_file": _describe_deletion,
    "search_files": _describe_search,
    "glob_search": _describe_glob,
    "list_directory": _describe_listing,
    "web_fetch": _describe_fetch,
    "web_search": _describe_web_search,
    "task": _describe_task,
    "handover": _describe_task,
    "todo_write": _describe_todos,
    "ask_question": _describe_question,
    "use_skill": _describe_skill,
    "browser_use": _describe_browsing,
    "guest_run": _describe_other_command,
    "guest_terminal": _describe_other_command,
    "guest_fetch": _describe_fetch,
    "guest_read": _describe_guest_files("Read"),
    "guest_edit": _describe_guest_files("Edit"),
}
