"""Finds out from their schemas what an agent's tools are for, and writes calls of them.

Agents name their tools differently, and some have only a shell. The tools are recognized by the
names of their parameters; what no tool does becomes a command.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import attrs
from hilum.messages import ToolSpec

from hilum_eval.simulation import shell_commands

Role = Literal["read", "edit", "write", "search", "find", "run", "finish"]

# The names under which parameters are known. The first match in a schema is used.
_PARAMETERS: Mapping[str, str] = {
    "path": r"(absolute_?|target_?|relative_?)?(file_?)?(path|name)|file|target_file|uri",
    "old": r"(old|original|search|find|before|target)(_?(str|string|text|code|content|block))?",
    "new": r"(new|replace|replacement|updated|after)(_?(str|string|text|code|content|block))?",
    "content": r"(file_?)?(content|contents|text)|body",
    "pattern": r"pattern|query|regexp?|search(_?(term|pattern|text))?",
    "command": r"command|cmd|command_?line|script|bash",
    "first": r"start(_?line)?|first(_?line)?|from(_?line)?|offset",
    "last": r"end(_?line)?|last(_?line)?|to(_?line)?",
    "count": r"limit|lines|num_?lines|count",
    "folder": r"path|folder|dir(ectory)?|include_?path|root",
    "answer": r"answer|result|summary|message|text|output|submission",
}
_NAMES: Mapping[Role, str] = {
    "read": r"read|view|cat\b|open|show|get_file",
    "edit": r"edit|replace|patch|change|modify|update",
    "write": r"write|create|save|new_file",
    "search": r"search|grep|ripgrep|find_in|content",
    "find": r"glob|find_file|list_files|file_search|find_by_name",
    "run": r"bash|shell|terminal|exec|command|run|cmd",
    "finish": r"^(finish|submit|done|complete|attempt_completion|final_answer|task_complete)",
}
# Tools that match by their parameters, but do something else.
_OTHER = re.compile(r"web|browser|url|internet|semantic|memory|todo|question|image|tools?$", re.I)
# The commands of a tool that does several things, such as one called `str_replace_editor`.
_COMMANDS: Mapping[Role, str] = {
    "read": r"view|read|cat|open",
    "edit": r"str_replace|replace|edit",
    "write": r"create|write",
}
_NEEDED: Mapping[Role, tuple[str, ...]] = {
    "read": ("path",),
    "edit": ("path", "old", "new"),
    "write": ("path", "content"),
    "search": ("pattern",),
    "find": ("pattern",),
    "run": ("command",),
    "finish": (),
}


class PlannedCall(NamedTuple):
    """A call to make: the name of the tool and its arguments."""

    tool: str
    arguments: dict[str, Any]


@attrs.frozen
class _Binding:
    """A tool that fills a role, with its own names of the parameters."""

    spec: ToolSpec
    names: Mapping[str, str]
    command: str = ""


class Toolbox:
    """The tools that a request offers, by what they are for.

    Args:
        specs: The tools.
    """

    def __init__(self, specs: Sequence[ToolSpec]) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._bound: dict[Role, _Binding] = {}
        for role in _NEEDED:
            found = sorted(_find_candidates(role, specs), key=lambda pair: -pair[0])
            if found:
                self._bound[role] = found[0][1]

    @property
    def works(self) -> bool:
        """Whether the tools can read and change files at all."""
        return self.has("run") or (self.has("read") and (self.has("edit") or self.has("write")))

    def has(self, role: Role) -> bool:
        """Return whether a tool fills a role by itself, without a command."""
        return role in self._bound

    def tool_of(self, role: Role) -> str:
        """Return the name of the tool that fills a role, if need be with a command."""
        bound = self._bound.get(role) or self._bound.get("run")
        return bound.spec.name if bound else ""

    def read(self, path: str, first: int = 0, last: int = 0) -> PlannedCall | None:
        """Return the call that reads a file, or lines of it."""
        bound = self._bound.get("read")
        if bound is None:
            return self._run(shell_commands.read(path, first, last))
        values: dict[str, Any] = {"path": path}
        if first and "first" in bound.names:
            values["first"] = first
        if last and "last" in bound.names:
            values["last"] = last
        elif last and "count" in bound.names:
            values["count"] = last - max(first, 1) + 1
        call = self._fill(bound, values)
        # Some tools take both ends as one list.
        ranges = bound.spec.parameters.get("properties", {}).get("view_range")
        if ranges and (first or last):
            call.arguments["view_range"] = [max(first, 1), last or -1]
        return call

    def edit(self, path: str, old: str, new: str) -> PlannedCall | None:
        """Return the call that replaces a text in a file."""
        bound = self._bound.get("edit")
        if bound is None:
            return self._run(shell_commands.edit(path, old, new))
        return self._fill(bound, {"path": path, "old": old, "new": new})

    def write(self, path: str, content: str) -> PlannedCall | None:
        """Return the call that writes a whole file."""
        bound = self._bound.get("write")
        if bound is None:
            return self._run(shell_commands.write(path, content))
        return self._fill(bound, {"path": path, "content": content})

    def search(self, pattern: str, folder: str = ".") -> PlannedCall | None:
        """Return the call that searches the contents of files."""
        bound = self._bound.get("search")
        if bound is None:
            return self._run(shell_commands.search(pattern, folder))
        values = {"pattern": pattern}
        if folder not in ("", "."):
            values["folder"] = folder
        return self._fill(bound, values)

    def find(self, name: str) -> PlannedCall | None:
        """Return the call that finds files by name."""
        bound = self._bound.get("find")
        if bound is None:
            return self._run(shell_commands.find(name)) or self.search(re.escape(name))
        return self._fill(bound, {"pattern": f"**/{name}"})

    def run(self, command: str) -> PlannedCall | None:
        """Return the call that runs a command; ``None`` if no tool runs commands."""
        return self._run(command)

    def finish(self, answer: str) -> PlannedCall | None:
        """Return the call that ends the work; ``None`` if a plain answer ends it."""
        bound = self._bound.get("finish")
        if bound is None:
            return None
        return self._fill(bound, {"answer": answer} if "answer" in bound.names else {})

    def required(self, tool: str) -> list[str]:
        """Return the names of the parameters that a tool needs."""
        spec = self._specs.get(tool)
        return list(spec.parameters.get("required") or ()) if spec else []

    def _run(self, command: str) -> PlannedCall | None:
        bound = self._bound.get("run")
        return None if bound is None else self._fill(bound, {"command": command})

    def _fill(self, bound: _Binding, values: Mapping[str, Any]) -> PlannedCall:
        arguments: dict[str, Any] = {}
        if bound.command:
            arguments["command"] = bound.command
        for meaning, value in values.items():
            arguments[bound.names[meaning]] = value
        if "edits" in bound.names:
            # A tool that takes several edits gets a list of one.
            pair = {bound.names[key]: arguments.pop(bound.names[key]) for key in ("old", "new")}
            arguments[bound.names["edits"]] = [pair]
        properties = bound.spec.parameters.get("properties", {})
        for name in bound.spec.parameters.get("required") or ():
            if name not in arguments:
                arguments[name] = _make_default(properties.get(name, {}))
        return PlannedCall(bound.spec.name, arguments)


def _make_default(schema: Mapping[str, Any]) -> Any:
    """Return a value for a parameter that has nothing to do with the step."""
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    defaults: dict[str, Any] = {
        "boolean": False,
        "integer": 1,
        "number": 1,
        "array": [],
        "object": {},
    }
    return defaults.get(str(schema.get("type")), "Next step")


def _find_candidates(role: Role, specs: Sequence[ToolSpec]) -> Iterator[tuple[int, _Binding]]:
    """Yield the tools that can fill a role, each with how well it fits."""
    for spec in specs:
        if _OTHER.search(spec.name):
            continue
        bound = _bind(role, spec)
        if bound is None:
            continue
        fits = 2 if re.search(_NAMES[role], spec.name, re.I) else 0
        if role in ("search", "find"):
            other: Role = "find" if role == "search" else "search"
            # Both take a pattern, so that only the name distinguishes them.
            fits -= 3 if re.search(_NAMES[other], spec.name, re.I) and fits == 0 else 0
        needs_name = role in ("read", "search", "find", "finish", "run") and not bound.command
        if needs_name and fits <= 0:
            continue
        # Tools with fewer other requirements are preferred.
        extra = len(spec.parameters.get("required") or ()) - len(_NEEDED[role])
        yield 10 * fits - max(extra, 0), bound


def _bind(role: Role, spec: ToolSpec) -> _Binding | None:
    properties: dict[str, Any] = dict(spec.parameters.get("properties") or {})
    names: dict[str, str] = {}
    if role == "edit" and "path" in {_meaning_of(name) for name in properties}:
        nested = _find_edit_list(properties)
        if nested is not None:
            list_name, inner = nested
            names["edits"] = list_name
            properties.update(inner)
    command = ""
    options = properties.get("command", {}).get("enum")
    if options:
        pattern = _COMMANDS.get(role)
        found = [each for each in options if pattern and re.fullmatch(pattern, each)]
        if not found:
            return None
        command = found[0]
        properties.pop("command")
    for meaning, pattern in _PARAMETERS.items():
        for name in properties:
            if re.fullmatch(pattern, name, re.I):
                names.setdefault(meaning, name)
    if any(each not in names for each in _NEEDED[role]):
        return None
    if not command and role in ("read", "write", "find") and {"old", "new"} <= set(names):
        return None
    if role == "read" and not command and "content" in names:
        return None
    return _Binding(spec, names, command)


def _meaning_of(name: str) -> str:
    return "path" if re.fullmatch(_PARAMETERS["path"], name, re.I) else ""


def _find_edit_list(properties: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return the parameter that is a list of edits, with the parameters of one edit."""
    for name, schema in properties.items():
        items = schema.get("items") if isinstance(schema, dict) else None
        inner = items.get("properties") if isinstance(items, dict) else None
        if inner and any(re.fullmatch(_PARAMETERS["old"], each, re.I) for each in inner):
            return name, dict(inner)
    return None


def encode_arguments(arguments: Mapping[str, Any]) -> str:
    """Return arguments as JSON, as a model writes them."""
    return json.dumps(arguments, ensure_ascii=False)
