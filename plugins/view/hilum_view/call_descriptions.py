"""Describes tool calls in plain words, such as ``read src/a.py (lines 1–80)``.

As everywhere in this package, texts of models are not escaped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from hilum_view.entries import StreamedText
from hilum_view.formatting import (
    describe_arguments,
    first_line,
    parse_arguments,
    parse_partial_arguments,
)

MAX_SUBJECT = 2_000
"""Maximum number of characters to keep of a text. A longer one would not fit in any row, and
measuring a megabyte of text for each frame would take too long."""
CALL_TOOL = "call_tool"
MAX_STREAMED = 8_000
"""Maximum number of characters of streaming arguments to read."""


class Action(msgspec.Struct, frozen=True):
    """A description of what a call does, on one line.

    Attributes:
        verb: The action, such as ``read``, or ``$`` for a command; empty if the subject says it.
        subject: What the action applies to; truncated if there is too little room.
        details: Further notable facts; left out if there is too little room.
    """

    verb: str
    subject: str = ""
    details: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.verb, self.subject, self.details)))


Arguments = Mapping[str, Any]


def short_line(text: str) -> str:
    """Return the first nonblank line; only the beginning of a long text is read."""
    # The first characters of a text may all be blank.
    if not text[:MAX_SUBJECT].strip():
        text = text.lstrip()
    start = text[:MAX_SUBJECT]
    line = first_line(start)
    if len(text) > MAX_SUBJECT and "\n" not in start.strip():
        line += "…"
    return line


def unwrap_call(name: str, arguments: str) -> tuple[str, str]:
    """Return the tool and the arguments of a call; for ``call_tool``, those of the inner call.

    The model uses ``call_tool`` for tools that are not in its list.

    Args:
        name: Name of the tool.
        arguments: The arguments as JSON text; they may be invalid.
    """
    outer = parse_arguments(arguments) if name == CALL_TOOL else None
    if outer is None:
        return name, arguments
    inner_name = outer.get("name")
    inner = outer.get("arguments")
    if not isinstance(inner_name, str) or not isinstance(inner, dict):
        return name, arguments
    return inner_name, json.dumps(inner, ensure_ascii=False)


def describe_action(name: str, arguments: str, root: str = "") -> Action:
    """Return what a call does.

    Args:
        name: Name of the tool.
        arguments: The arguments as JSON text; they may be invalid.
        root: A folder; the paths of files in it are shown relative to it.
    """
    name, arguments = unwrap_call(name, arguments)
    parsed = parse_arguments(arguments)
    if parsed is None:
        return Action(short_line(name), short_line(arguments))
    describe = _DESCRIBERS.get(name)
    if describe is None:
        return Action(short_line(name), short_line(describe_arguments(arguments)))
    return describe(_shorten_paths(parsed, root) if root else parsed)


def _shorten_paths(arguments: Arguments, root: str) -> Arguments:
    shortened = dict(arguments)
    for key in ("path", "working_directory"):
        path = arguments.get(key)
        if path == root:
            shortened[key] = "."
        elif isinstance(path, str):
            shortened[key] = path.removeprefix(f"{root}/")
    return shortened


def describe_streaming(arguments: StreamedText, name: str = "") -> Action:
    """Return what a call will do while its arguments are still arriving.

    Args:
        arguments: The beginning of the arguments.
        name: Name of the tool, which is missing from the chunks of a call; if the name is empty,
            the tool is guessed from the names of the arguments.
    """
    parsed = parse_partial_arguments(arguments.head(MAX_STREAMED))
    name = name or _guess_tool(parsed)
    describe = _DESCRIBERS.get(name)
    if describe is not None and parsed:
        action = describe(parsed)
        # Counts of lines or edits would be wrong until all arguments have arrived.
        return Action(action.verb, action.subject)
    return Action(short_line(name) or "a call")


def _guess_tool(arguments: Arguments) -> str:
    """Return the tool to which arguments with these names usually belong."""
    for key, name in _TOOLS_BY_ARGUMENT.items():
        if key in arguments:
            return name
    return ""


# --- arguments ------------------------------------------------------------------------------------


def _text(arguments: Arguments, key: str) -> str:
    """Return an argument as one line of text, whatever its type."""
    value = arguments.get(key)
    if value is None:
        return ""
    if isinstance(value, str):
        return short_line(value)
    return short_line(json.dumps(value, ensure_ascii=False))


def _quoted(arguments: Arguments, key: str) -> str:
    return f'"{_text(arguments, key)}"'


def _number(arguments: Arguments, *keys: str) -> int:
    """Return the first numeric argument among several names; 0 if there is none."""
    for key in keys:
        value = arguments.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return 0


def _count(arguments: Arguments, key: str, noun: str) -> str:
    """Return the number of items in an argument, in parentheses."""
    value = arguments.get(key)
    if not isinstance(value, list):
        return ""
    return f"({format_count(len(value), noun)})"


def format_count(number: int, noun: str) -> str:
    """Return a number with a noun, such as ``3 edits``."""
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def count_lines(text: str) -> int:
    """Return the number of lines in a text."""
    return text.count("\n") + bool(text and not text.endswith("\n"))


# --- tools ----------------------------------------------------------------------------------------


def _command(arguments: Arguments) -> Action:
    details = []
    command = arguments.get("command")
    if isinstance(command, str):
        more = count_lines(command.strip()) - 1
        if more > 0:
            details.append(f"(+{format_count(more, 'line')})")
    folder = _text(arguments, "working_directory")
    if folder not in ("", "."):
        details.append(f"in {folder}")
    if arguments.get("background") is True:
        details.append("in the background")
    return Action("$", _text(arguments, "command"), " ".join(details))


def _read_file(arguments: Arguments) -> Action:
    start = _number(arguments, "start_line", "offset")
    end = _number(arguments, "end_line")
    limit = _number(arguments, "limit")
    if not end and limit:
        end = max(start, 1) + limit - 1
    details = ""
    if end:
        details = f"(lines {max(start, 1)}–{end})"
    elif start > 1:
        details = f"(from line {start})"
    return Action("read", _text(arguments, "path"), details)


def _write_file(arguments: Arguments) -> Action:
    details = ""
    content = arguments.get("content")
    if isinstance(content, str):
        details = f"({format_count(count_lines(content), 'line')})"
    return Action("write", _text(arguments, "path"), details)


def _edit_file(arguments: Arguments) -> Action:
    return Action("edit", _text(arguments, "path"), _count(arguments, "edits", "edit"))


def _list_directory(arguments: Arguments) -> Action:
    return Action("list", _text(arguments, "path") or ".")


def _search(arguments: Arguments) -> Action:
    return _searching("search", arguments)


def _find(arguments: Arguments) -> Action:
    return _searching("find", arguments)


def _searching(verb: str, arguments: Arguments) -> Action:
    places = [_text(arguments, "path") or ".", _text(arguments, "glob")]
    place = ", ".join(each for each in places if each not in ("", "."))
    return Action(verb, _quoted(arguments, "pattern"), f"in {place}" if place else "")


def _semantic_search(arguments: Arguments) -> Action:
    place = _text(arguments, "path") or "."
    return Action("search for", _quoted(arguments, "query"), f"in {place}" if place != "." else "")


def _fetch(arguments: Arguments) -> Action:
    # The scheme `https://` is left out, unlike `http://`, which is worth showing.
    address = _text(arguments, "url").removeprefix("https://")
    start = _number(arguments, "start")
    return Action("fetch", address, f"(from character {start:,})" if start else "")


def _web_search(arguments: Arguments) -> Action:
    return Action("search the web for", _quoted(arguments, "query"))


def _todo(arguments: Arguments) -> Action:
    return Action("update the todo list", "", _count(arguments, "todos", "item"))


def _task(arguments: Arguments) -> Action:
    agent = _text(arguments, "agent")
    background = "in the background" if arguments.get("background") is True else ""
    verb = f"start agent {agent}" if agent else "start an agent"
    description = _text(arguments, "description")
    return Action(f"{verb}:" if description else verb, description, background)


def _browse(arguments: Arguments) -> Action:
    keys = ("action", "url", "selector", "text", "path")
    given = [_text(arguments, key) for key in keys]
    return Action("browser:", " ".join(filter(None, given)))


def _changed_by_program(arguments: Arguments) -> Action:
    return Action("edit", _paths(arguments))


def _read_by_program(arguments: Arguments) -> Action:
    return Action("read", _paths(arguments))


def _paths(arguments: Arguments) -> str:
    paths = arguments.get("paths")
    if not isinstance(paths, list):
        return ""
    return short_line(", ".join(map(str, paths[:100])))


def _lints(arguments: Arguments) -> Action:
    paths = _paths(arguments)
    return Action("run the linters on", paths) if paths else Action("run the linters")


def _write_service(arguments: Arguments) -> Action:
    return Action(f"write to {_text(arguments, 'service')}:", _quoted(arguments, "text"))


def _skill(arguments: Arguments) -> Action:
    resource = _text(arguments, "resource")
    return Action("use skill", _text(arguments, "name"), f"({resource})" if resource else "")


def _symbol(verb: str) -> Callable[[Arguments], Action]:
    """Return a function that describes calls about a name in a file."""

    def describe(arguments: Arguments) -> Action:
        path = _text(arguments, "path")
        return Action(verb, _text(arguments, "name"), f"in {path}" if path else "")

    return describe


def _rename(arguments: Arguments) -> Action:
    return Action("rename", _text(arguments, "name"), f"to {_text(arguments, 'new_name')}")


def _list_symbols(arguments: Arguments) -> Action:
    path = _text(arguments, "path")
    query = _text(arguments, "query")
    if path:
        return Action("list the symbols in", path, f'with "{query}"' if query else "")
    return Action("find the symbol", query)


def _simple(verb: str, key: str = "") -> Callable[[Arguments], Action]:
    """Return a function that describes calls by a verb and at most one argument."""

    def describe(arguments: Arguments) -> Action:
        return Action(verb, _text(arguments, key) if key else "")

    return describe


_DESCRIBERS: dict[str, Callable[[Arguments], Action]] = {
    "ask_question": _simple("ask", "question"),
    "browser_use": _browse,
    "delete_file": _simple("delete", "path"),
    "edit_file": _edit_file,
    "find_definition": _symbol("find the definition of"),
    "find_references": _symbol("find the uses of"),
    "find_tools": _simple("look for tools:", "query"),
    "forget": _simple("forget memory", "number"),
    "generate_image": _simple("make an image:", "description"),
    "get_agent_result": _simple("read the result of agent", "agent_id"),
    "glob_search": _find,
    "handover": _simple("hand over to agent", "agent"),
    # What a program that works as an agent does, with its own words as the title.
    "guest_edit": _changed_by_program,
    "guest_fetch": _fetch,
    "guest_other": _simple("", "title"),
    "guest_read": _read_by_program,
    "guest_report": _simple("", "title"),
    "guest_run": _command,
    "guest_terminal": _command,
    "guest_wait": _simple("wait for the program"),
    "list_directory": _list_directory,
    "list_resources": _simple("list the resources of", "server"),
    "list_services": _simple("list the background commands"),
    "list_symbols": _list_symbols,
    "multi_edit": _edit_file,
    "read_file": _read_file,
    "read_lints": _lints,
    "read_resource": _simple("read", "uri"),
    "read_service": _simple("read the output of", "service"),
    "recall_result": _simple("read an earlier result again:", "id"),
    "remember": _simple("remember", "text"),
    "rename_symbol": _rename,
    "run_terminal_cmd": _command,
    "search_files": _search,
    "semantic_search": _semantic_search,
    "stop_service": _simple("stop", "service"),
    "task": _task,
    "todo_write": _todo,
    "use_skill": _skill,
    "web_fetch": _fetch,
    "web_search": _web_search,
    "write_file": _write_file,
    "write_service": _write_service,
}
# The order matters, because several tools have a path argument.
_TOOLS_BY_ARGUMENT = {
    "command": "run_terminal_cmd",
    "old_string": "edit_file",
    "edits": "multi_edit",
    "content": "write_file",
    "pattern": "search_files",
    "url": "web_fetch",
    "query": "web_search",
    "todos": "todo_write",
    "question": "ask_question",
    "description": "task",
    "service": "read_service",
}
