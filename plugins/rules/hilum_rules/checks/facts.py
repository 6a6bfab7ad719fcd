"""What a call does, as far as its arguments tell: the paths it touches, the commands it runs, the
hosts it contacts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import attrs
import msgspec

from hilum_rules.checks import code, effects, finds, network
from hilum_rules.checks.touches import Ground, Touch

if TYPE_CHECKING:
    from hilum import Tool
    from hilum_guard import CommandVerdict, SimpleCommand

_COMMANDS = frozenset("command cmd commands script shell_command command_line bash shell".split())
_INPUTS = frozenset(("text", "input"))  # of own tools: what is typed into a service
_PATHS = re.compile(
    r"(?:^|_)(?:paths?|files?|file_?names?|dir|dirs|director(?:y|ies)|folders?|src|dst|dest|sources?|destinations?|targets?|uris?"
    r"|output|out|outfile|infile|root|cwd|glob|patterns?|location)(?:$|_)"
)
_HOSTS = re.compile(
    r"(?:^|_)(?:urls?|uris?|hosts?|hostnames?|domains?|endpoints?|servers?|sites?|address|link|origin|website)(?:$|_)"
)
_TEXTS = frozenset(
    "content old_string new_string edits text message body query prompt description pattern".split()
)
_READERS = re.compile(
    r"^(?:.*__)?(?:read|get|list|search|find|view|show|stat|describe|fetch|cat|open|grep|glob|look|inspect|query)(?:_|$|[A-Z])"
)
_DELETERS = re.compile(r"delete|remove|unlink|trash|erase", re.IGNORECASE)
_MOVERS = re.compile(r"move|rename", re.IGNORECASE)
MAX_NESTED_SCRIPTS = 4
# Programs that bring no new file with a name of its own.
_SETTLED = frozenset(
    """cd pwd echo printf true false test [ ls cat head tail wc sort uniq grep egrep fgrep rg find gfind xargs rm rmdir set
    export sleep date which""".split()
)


@attrs.define(slots=False)
class Facts:
    """A call that is judged.

    Attributes:
        tool: What is called.
        arguments: Its arguments, as plain data.
        ground: The workspace.
        unreadable: The arguments are no JSON object.
    """

    tool: Tool
    arguments: dict[str, Any]
    ground: Ground
    unreadable: bool = False

    @classmethod
    def read(cls, tool: Tool, text: str, root: Path) -> Facts:
        """Read a call's arguments; the call itself refuses what does not fit."""
        try:
            arguments = msgspec.json.decode(text or "{}")
        except msgspec.DecodeError:
            arguments = None
        good = isinstance(arguments, dict)
        return cls(tool, arguments if good else {}, Ground(root), not good)

    # --- commands ---------------------------------------------------------------------------------

    @cached_property
    def read_commands(self) -> list[CommandVerdict]:
        """The command lines of the call, read; and those of the shell scripts that they run."""
        if self.tool.risk != "execute":
            return []
        from hilum_guard import judge_command

        folder = self._folder()
        found = [
            judge_command(text, workspace=self.ground.root, folder=folder)
            for key, text in _strings(self.arguments)
            if key.rpartition(".")[2].lower()
            in (_COMMANDS | _INPUTS if self.tool.schema is None else _COMMANDS)
        ]
        seen: set[str] = set()
        waiting = list(found)
        while waiting and len(seen) < MAX_NESTED_SCRIPTS:
            for command in waiting.pop().commands:
                path = code.script(command)
                if path and path not in seen and code.is_shell(path, command):
                    seen.add(path)
                    text = effects.text_of(path, code.MAX_SCRIPT)
                    inner = judge_command(
                        text,
                        workspace=self.ground.root,
                        folder=Path(command.cwd or self.ground.root),
                    )
                    # A long script that is only partly read is not more doubtful than a program.
                    found.append(attrs.evolve(inner, complete=True))
                    waiting.append(inner)
        return found

    @cached_property
    def commands(self) -> list[SimpleCommand]:
        """All simple commands that were found."""
        return [command for read in self.read_commands for command in read.commands]

    @cached_property
    def unread(self) -> str:
        """Why not all that runs is known; empty if it is."""
        for read in self.read_commands:
            if not read.complete:
                return "the command cannot be read whole"
        for command in self.commands:
            if code.unread_shell(command):
                return f"what `{command.source[:80]}` runs is not known before it runs"
        return ""

    def _folder(self) -> Path:
        for key in ("working_directory", "cwd", "workdir", "directory"):
            if isinstance(given := self.arguments.get(key), str) and given:
                return self.ground.root / given
        return self.ground.root

    # --- paths ------------------------------------------------------------------------------------

    @cached_property
    def touches(self) -> list[Touch]:
        """The paths that the call touches."""
        found: list[Touch] = []
        reaches: finds.Reaches | None = finds.Reaches()
        for command in self.commands:
            # What an earlier command brings, a later `find` may find.
            if effects.name_of(command) in _SETTLED or command.found:
                reaches = reaches
            else:
                reaches = None
            found += effects.touches(command, reaches)
        for read in self.read_commands:
            for command in read.commands:
                for source in re.findall(r"<\s*([^\s;|&()<>]+)", command.source):
                    found.append(Touch(source, "read", command.cwd))
        if self.read_commands and self.tool.schema is None:
            return found
        return found + list(self._named_paths())

    def _named_paths(self) -> Iterator[Touch]:
        name = self.tool.name
        risk = self.tool.risk
        own = (
            self.tool.schema is None
        )  # else its arguments are described by somebody else: an MCP server
        root = str(self.ground.root)
        for key, text in _strings(self.arguments):
            last = key.rpartition(".")[2]
            if (
                not (last in self.tool.writes or _PATHS.search(_snake(last)))
                or last in _TEXTS
                or not text
                or len(text) > 4096
            ):
                continue
            path = _local(text)
            if not path:
                continue
            if risk == "read" or (not own and _READERS.match(name)):
                if name in ("list_directory", "glob_search"):
                    continue  # names, and nothing of what is in them
                yield Touch(path, "read", root)
                continue
            if _DELETERS.search(name):
                yield Touch(path, "delete", root, whole=True)
            elif _MOVERS.search(name):
                yield Touch(path, "delete", root, whole=True, moved=True)
                yield Touch(path, "write", root)
            else:
                yield Touch(path, "write", root)
                if not own:
                    yield Touch(path, "read", root)

    # --- hosts ------------------------------------------------------------------------------------

    @cached_property
    def hosts(self) -> set[str]:
        """The hosts in the arguments of a tool that uses the network."""
        if self.tool.risk == "read" and self.tool.schema is None:
            return set()
        found: set[str] = set()
        for key, text in _strings(self.arguments):
            last = _snake(key.rpartition(".")[2])
            if self.tool.risk == "network" or _HOSTS.search(last):
                if last not in _TEXTS:
                    found |= network.named(text)
                if _HOSTS.search(last) and (
                    bare := network.host_of("//" + text if "://" not in text else text)
                ):
                    found.add(bare)
        return found


def _local(text: str) -> str:
    """Return the path in an argument; empty if it is an address elsewhere."""
    if text.startswith("file:"):
        return unquote(urlsplit(text).path)
    return "" if re.match(r"[a-z][a-z0-9+.-]+://", text) else text


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_")


def _strings(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield all texts in plain data, each with the names that lead to it."""
    if isinstance(value, str):
        yield key, value
    elif depth > 8:
        return
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _strings(inner, f"{key}.{name}" if key else str(name), depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner, key, depth + 1)
