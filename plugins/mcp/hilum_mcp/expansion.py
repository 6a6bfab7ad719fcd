"""Expands the variables in a server's configuration once, immediately before the server starts.

Expanded values are not searched for further variables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import attrs
from hilum import UsageError
from hilum.config_files import read_regular_file

from hilum_mcp.server_config import ServerConfig

# VS Code and Cursor have `${env:X}`, opencode has `{env:X}` and `{file:X}`, Claude Code has
# `${X:-default}`, and Gemini has `$X`.
_VARIABLE = re.compile(
    r"\$\{(?P<kind>env|input|file):(?P<of>[^{}]+)\}"
    r"|\{(?P<kind2>env|file):(?P<of2>[^{}]+)\}"
    r"|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^{}]*))?\}"
    r"|\$\{(?P<unknown>[A-Za-z_]+:[^-{}][^{}]*)\}"
    r"|\$(?P<bare>[A-Za-z_][A-Za-z0-9_]*)"
)
# The pattern for commands and arguments, in which `$X` may be intended for a shell.
_VARIABLE_IN_BRACES = re.compile(_VARIABLE.pattern.rpartition("|")[0])
MAX_FILE = 65_536


@attrs.define
class Values:
    """The sources from which variables get their values.

    Args:
        environment: Environment variables.
        workspace: The folder for ``${workspaceFolder}``.
        home: The user's home folder, for ``${userHome}``.
        inputs: The user's answers for ``${input:ID}``.
    """

    environment: Mapping[str, str]
    workspace: Path
    home: Path
    inputs: Mapping[str, str] = attrs.field(factory=dict)


def expand(server: ServerConfig, values: Values) -> ServerConfig:
    """Expand the variables in a server's configuration.

    These forms are supported: ``${X}``, ``${X:-default}``, ``${env:X}``, ``{env:X}``, ``$X`` (in
    ``env`` and ``headers``, where other clients expand it), ``${workspaceFolder}``,
    ``${userHome}``, ``${input:ID}``, ``{file:PATH}``. ``${kind:…}`` with an unknown kind is a
    mistake. Other text is left unchanged.

    Raises:
        UsageError: Some variables have no value. The message lists all such variables.
    """
    expander = _Expander(server, values)
    oauth = None
    if server.oauth is not None:
        oauth = {key: expander.expand(text) for key, text in server.oauth.items()}
    expanded = attrs.evolve(
        server,
        command=expander.expand(server.command),
        args=tuple(map(expander.expand, server.args)),
        env={**expander.inherit(server.inherited_env), **expander.expand_values(server.env)},
        cwd=expander.expand(server.cwd),
        env_file=expander.expand(server.env_file),
        url=expander.expand(server.url),
        headers={
            **expander.expand_values(server.headers),
            **expander.look_up(server.headers_from_env),
        },
        oauth=oauth,
    )
    if expander.missing:
        names = ", ".join(dict.fromkeys(expander.missing))
        raise UsageError(
            f"The MCP server {server.name!r} in {server.file} needs values that are missing: "
            f"{names}.",
            hint=_hint(server, expander.missing),
        )
    return expanded


def _hint(server: ServerConfig, missing: list[str]) -> str:
    if all(name.startswith("input ") for name in missing):
        return f"Run hilum mcp test {server.name} at a terminal to enter them."
    return (
        "Set them in the environment in which you start hilum, or add a default value: "
        "${NAME:-value}."
    )


class _Expander:
    """An expander of the variables in one server's configuration.

    Attributes:
        missing: The variables without a value.
    """

    def __init__(self, server: ServerConfig, values: Values) -> None:
        self.missing: list[str] = []
        self._folder = server.file.parent
        self._values = values
        root = str(values.workspace)
        folder = str(self._folder)
        self._own = {
            "workspaceFolder": root,
            "workspaceRoot": root,
            "CLAUDE_PROJECT_DIR": root,
            "extensionPath": folder,
            "CLAUDE_PLUGIN_ROOT": folder,
            "workspaceFolderBasename": values.workspace.name,
            "userHome": str(values.home),
            "pathSeparator": os.sep,
        }

    def expand(self, text: str) -> str:
        """Expand the variables in braces."""
        return _VARIABLE_IN_BRACES.sub(self._value_of, text)

    def expand_values(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Expand the variables in a mapping's values, including ``$X`` without braces."""
        return {key: _VARIABLE.sub(self._value_of, text) for key, text in texts.items()}

    def inherit(self, names: tuple[str, ...]) -> dict[str, str]:
        """Return the environment variables with the given names that are set."""
        environment = self._values.environment
        return {name: environment[name] for name in names if name in environment}

    def look_up(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return a mapping in which each variable's name is replaced by the variable's value."""
        found = {}
        for key, name in variables.items():
            value = self._values.environment.get(name)
            if value is None:
                self.missing.append(name)
            else:
                found[key] = value
        return found

    def _value_of(self, match: re.Match[str]) -> str:
        found = match.groupdict()
        if found["unknown"]:
            return self._require(None, f"${{{found['unknown']}}} (of an unknown kind)")
        kind = found["kind"] or found["kind2"]
        argument = found["of"] or found["of2"]
        if kind == "input":
            return self._require(self._values.inputs.get(argument), f"input {argument}")
        if kind == "file":
            return self._read(argument)
        if kind == "env":
            return self._require(self._values.environment.get(argument), argument)
        name = str(found["name"] or found.get("bare"))
        return self._named(name, found["default"])

    def _named(self, name: str, default: str | None) -> str:
        if name in self._own:
            return self._own[name]
        value = self._values.environment.get(name)
        # As in a shell, `:-` also applies if the value is empty.
        if default is not None and not value:
            return default
        return self._require(value, name)

    def _require(self, value: str | None, name: str) -> str:
        if value is None:
            self.missing.append(name)
        return value or ""

    def _read(self, name: str) -> str:
        try:
            path = Path(self._folder, os.path.expanduser(name))
            return read_small_file(path).strip()
        # `expanduser` raises `RuntimeError` if there is no such user.
        except (OSError, ValueError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or error
            self.missing.append(f"file {name} ({reason})")
            return ""


def read_small_file(path: Path) -> str:
    """Read a small text file. Blocks, but never waits for a pipe or a device.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not a regular file, is too large, or is not UTF-8 text.
    """
    data = read_regular_file(path, MAX_FILE)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
