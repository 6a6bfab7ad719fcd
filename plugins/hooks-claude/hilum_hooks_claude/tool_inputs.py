"""Describes hilum's tool calls in the names and inputs of Claude Code's tools, and back.

One call may have several views: hooks are written for the tools that Claude Code has, and a hook
about edits must not overlook a tool that changes files under another name. Tools that Claude Code does
not have are therefore also described by what they do: a tool that writes files as ``Edit`` or ``Write``,
one that shows their text as ``Read``.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import msgspec
from hilum import ToolError

if TYPE_CHECKING:
    from hilum import Tool

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


def describe_call(
    name: str, arguments: Values, root: Path, *, tool: Tool | None = None
) -> list[Part]:
    """Return what a call is in the terms of Claude Code.

    Args:
        name: The name of hilum's tool.
        arguments: Its checked arguments.
        root: The workspace, to which relative paths belong.
        tool: The tool, if it is known.
    """
    describe = _DESCRIBERS.get(name)
    if describe is not None:
        parts = describe(arguments, root)
    elif tool is not None and tool.plugin == "mcp":
        # What the tool of a server does is known only to the server.
        return _own(f"mcp__{name}", arguments)
    else:
        parts = _own(name, arguments)
        if tool is not None:
            parts += _describe_kind(tool, arguments, root)
    return [_add_notebook(part) for part in parts]


def _own(name: str, arguments: Values) -> list[Part]:
    """Return a call under its own name, with its own input."""
    return _single(name, dict(arguments), lambda changed: dict(changed))


def _describe_kind(tool: Tool, arguments: Values, root: Path) -> list[Part]:
    """Return a call of a tool that Claude Code does not have as what it does to files."""
    try:
        complete = tool.check(msgspec.json.encode(arguments).decode())
    except ToolError:
        return []  # the call does not run
    written = tool.paths_written(complete)
    is_writing = tool.risk == "write" or bool(tool.writes)
    if is_writing and not written:
        written = [str(root)]
    parts = [_edit(path, root) for path in written]
    if tool.risk != "execute":
        parts += [_read(path, root) for path in tool.paths_read(complete)]
    return parts


def _edit(path: object, root: Path, old: str = "", new: str = "") -> Part:
    """Return the change of a file, as the first of the tools for it that a hook matches."""
    place = _absolute(path, root)
    edit = {"file_path": place, "old_string": old, "new_string": new}
    edits = [{"old_string": old, "new_string": new}]
    several = {"file_path": place, "edits": edits}
    write = {"file_path": place, "content": new}
    return [[View("Edit", edit)], [View("Write", write)], [View("MultiEdit", several)]]


def _read(path: object, root: Path) -> Part:
    return [[View("Read", {"file_path": _absolute(path, root)})]]


def _add_notebook(part: Part) -> Part:
    """Return a part with the tools that Claude Code has for notebooks, if it is about one."""
    if not part or not part[0]:
        return part
    view = part[0][0]
    path = str(view.values.get("file_path", ""))
    name = _NOTEBOOK_TOOLS.get(view.name)
    if name is None or not path.endswith(".ipynb"):
        return part
    return [*part, [View(name, {"notebook_path": path, "new_source": ""})]]


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


def _describe_rename(arguments: Values, root: Path) -> list[Part]:
    parts = _own("rename_symbol", arguments)
    # The gate of the language servers adds the files, and then the hooks judge the call again.
    files = arguments.get("files")
    old = str(arguments.get("name", ""))
    new = str(arguments.get("new_name", ""))
    for path in files if isinstance(files, list) else []:
        parts.append(_edit(path, root, old, new))
    return parts


def _describe_lookup(name: str) -> Callable[[Values, Path], list[Part]]:
    """Return the describer of a tool that finds places in the project and shows their lines."""

    def describe(arguments: Values, root: Path) -> list[Part]:
        parts = _own(name, arguments)
        path = arguments.get("path")
        if path:
            parts.append(_read(path, root))
        wanted = arguments.get("name") or arguments.get("query") or ""
        parts += _single("Grep", {"pattern": wanted, "path": _absolute(path or ".", root)})
        return parts

    return describe


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


# Hooks that guard only the tools for notebooks also judge changes of notebooks by other tools.
_NOTEBOOK_TOOLS = {
    "Edit": "NotebookEdit",
    "MultiEdit": "NotebookEdit",
    "Write": "NotebookEdit",
    "Read": "NotebookRead",
}
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
    "semantic_search": _describe_lookup("semantic_search"),
    "find_definition": _describe_lookup("find_definition"),
    "find_references": _describe_lookup("find_references"),
    "list_symbols": _describe_lookup("list_symbols"),
    "rename_symbol": _describe_rename,
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
