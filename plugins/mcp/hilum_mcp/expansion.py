"""Variables in a server's description are filled in once, right before it is started: values are
never read again for more.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec
from hilum import UsageError

from hilum_mcp.server import Server

_VARIABLE = re.compile(
    r"\$\{(?P<kind>env|input|file):(?P<of>[^{}]+)\}"
    r"|\{(?P<kind2>env|file):(?P<of2>[^{}]+)\}"
    r"|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^{}]*))?\}"
    r"|\$\{(?P<odd>[A-Za-z_]+:[^-{}][^{}]*)\}"
    r"|\$(?P<bare>[A-Za-z_][A-Za-z0-9_]*)"
)
MOST_FILE = 65_536


class Values(msgspec.Struct):
    """Where the values of variables come from.

    Args:
        environment: Variables by name.
        workspace: The folder that ``${workspaceFolder}`` stands for.
        home: The user's folder, ``${userHome}``.
        inputs: What the user has answered for ``${input:ID}``.
    """

    environment: Mapping[str, str]
    workspace: Path
    home: Path
    inputs: Mapping[str, str] = {}


def expand(server: Server, values: Values) -> Server:
    """Fill in the variables of a server's texts.

    ``${X}``, ``${X:-default}``, ``${env:X}``, ``{env:X}``, ``$X`` (in ``env`` and ``headers``,
    where clients fill it in), ``${workspaceFolder}``, ``${userHome}``, ``${input:ID}``,
    ``{file:PATH}``. Other texts in ``${}`` stay as they are, but for ``${kind:…}`` of a kind that
    is not known, which is a mistake.

    Raises:
        UsageError: A variable has no value; names all of them.
    """
    filler = _Filler(server, values)
    filled = msgspec.structs.replace(
        server,
        command=filler.fill(server.command),
        args=tuple(map(filler.fill, server.args)),
        env=filler.named(server)
        | {key: filler.fill(text, bare=True) for key, text in server.env.items()},
        cwd=filler.fill(server.cwd),
        env_file=filler.fill(server.env_file),
        url=filler.fill(server.url),
        headers={key: filler.fill(text, bare=True) for key, text in server.headers.items()}
        | filler.header_values(server),
        oauth=(
            None
            if server.oauth is None
            else {key: filler.fill(text) for key, text in server.oauth.items()}
        ),
    )
    if filler.missing:
        names = ", ".join(dict.fromkeys(filler.missing))
        raise UsageError(
            f"The MCP server {server.name!r} in {server.file} needs values that are not there:"
            f" {names}.",
            hint=_hint(server, filler.missing),
        )
    return filled


def _hint(server: Server, missing: list[str]) -> str:
    if all(name.startswith("input ") for name in missing):
        return f"hilum mcp test {server.name} asks for them, at a terminal."
    return (
        "Set them in the environment that hilum is started from, or write a default:"
        " ${NAME:-value}."
    )


class _Filler:
    def __init__(self, server: Server, values: Values) -> None:
        self.folder = server.file.parent
        self.values = values
        self.missing = list[str]()
        root = str(values.workspace)
        home = str(values.home)
        self.own = dict.fromkeys(("workspaceFolder", "workspaceRoot", "CLAUDE_PROJECT_DIR"), root)
        self.own |= dict.fromkeys(("extensionPath", "CLAUDE_PLUGIN_ROOT"), str(self.folder))
        self.own |= {
            "workspaceFolderBasename": values.workspace.name,
            "userHome": home,
            "pathSeparator": os.sep,
        }

    def fill(self, text: str, *, bare: bool = False) -> str:
        """Fill in one text. ``bare``: also ``$X`` without braces."""
        if text:
            return _VARIABLE.sub(
                lambda found: found[0] if found["bare"] and not bare else self._value(found), text
            )
        return text

    def named(self, server: Server) -> dict[str, str]:
        """Return the variables that a server takes over by name."""
        return {
            name: self.values.environment[name]
            for name in server.env_names
            if name in self.values.environment
        }

    def header_values(self, server: Server) -> dict[str, str]:
        """Return the headers whose values are variables."""
        found = {}
        for header, name in server.header_names.items():
            if name in self.values.environment:
                found[header] = self.values.environment[name]
            else:
                self.missing.append(name)
        return found

    def _value(self, found: re.Match[str]) -> str:
        if found["odd"]:
            return self._known(None, f"${{{found['odd']}}} (of no known kind)")
        kind = found["kind"] or found["kind2"]
        of = found["of"] or found["of2"]
        if kind == "input":
            return self._known(self.values.inputs.get(of), f"input {of}")
        if kind == "file":
            return self._file(of)
        name = of or found["name"] or found["bare"]
        default = found["default"]
        if not kind and name in self.own:
            return self.own[name]
        value = self.values.environment.get(name)
        if default is not None and not value:
            return default
        return self._known(value, name)

    def _known(self, value: str | None, name: str) -> str:
        if value is None:
            self.missing.append(name)
        return value or ""

    def _file(self, name: str) -> str:
        try:
            return read_small(Path(self.folder, Path(name).expanduser())).strip()
        except (OSError, ValueError, RuntimeError) as error:
            self.missing.append(f"file {name} ({getattr(error, 'strerror', None) or error})")
            return ""


def read_small(path: Path) -> str:
    """Read a small text file; what is no plain file is not waited for. Blocks.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no plain file, too large, or no text.
    """
    descriptor = os.open(
        path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    )
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("no plain file")
        data = file.read(MOST_FILE + 1)
    if len(data) > MOST_FILE:
        raise ValueError(f"larger than {MOST_FILE >> 10} KB")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError("no text in UTF-8") from None
