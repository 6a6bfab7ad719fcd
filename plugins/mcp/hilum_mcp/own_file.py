"""Writes hilum's own server files: the user's ``mcp.json`` and a project's ``.hilum/mcp.json``.

Each file is plain JSON that hilum rewrites as a whole. A file with comments can be read, but is not
rewritten, because its comments would be lost. Files of other programs are never written.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from hilum import StoreError, UsageError, errors, make_private_folder
from hilum.settings import lock_folder

from hilum_mcp.private_files import write_private
from hilum_mcp.server_config import ConfigInput, ServerConfig

TABLE = "mcpServers"
_FOLDER = re.compile(r"\$\{(?:extensionPath|CLAUDE_PLUGIN_ROOT)\}")
_RELATIVE_FILE = re.compile(r"\{file:(?![/~])([^{}]+)\}")
INPUT = re.compile(r"\$\{input:([^{}]+)\}")


def add_servers(
    file: Path,
    servers: Iterable[ServerConfig],
    inputs: Mapping[str, ConfigInput],
    *,
    replace: bool = False,
) -> None:
    """Add servers to a file, with the inputs that they use. Blocks.

    Raises:
        UsageError: The file already contains a server with one of these names, or is not plain
            JSON.
        StoreError: The file cannot be written.
    """
    added = {server.name: encode_server(server) for server in servers}
    used = set(INPUT.findall(json.dumps(added)))

    def change(data: dict[str, Any]) -> None:
        table = data.setdefault(TABLE, {})
        taken = [name for name in added if name in table]
        if taken and not replace:
            raise UsageError(
                f"{file} already has a server {taken[0]!r}.",
                code=errors.E_FAILED,
                hint="Pass --replace, or choose another name.",
            )
        table.update(added)
        listed = data.get("inputs", [])
        known = {entry.get("id") for entry in listed if isinstance(entry, dict)}
        new = [_encode_input(inputs[name]) for name in inputs if name in used - known]
        if new:
            data["inputs"] = [*listed, *new]

    _update(file, change)


def remove_server(file: Path, name: str) -> None:
    """Remove a server from a file. Blocks.

    Raises:
        UsageError: The file is not plain JSON.
        StoreError: The file cannot be written.
    """
    _update(file, lambda data: data.get(TABLE, {}).pop(name, None))


def encode_server(server: ServerConfig) -> dict[str, Any]:
    """Return a server in hilum's own file format.

    Reading the result yields the same server, regardless of the client whose file it came from.
    """
    folder = str(server.file.parent.absolute())

    def text(value: str) -> str:
        # Relative paths are resolved, because they would refer to something else in another file.
        value = _FOLDER.sub(lambda _: folder, value)
        return _RELATIVE_FILE.sub(lambda found: f"{{file:{folder}/{found[1]}}}", value)

    def texts(values: Mapping[str, str]) -> dict[str, str]:
        return {key: text(value) for key, value in values.items()}

    entry: dict[str, Any] = {
        "type": "" if server.kind_guessed else server.kind,
        "command": text(server.command),
        "args": [text(word) for word in server.args],
        "env": texts(server.env),
        "env_vars": list(server.inherited_env),
        "envFile": text(server.env_file),
        "cwd": text(server.cwd),
        "url": text(server.url),
        "headers": texts(server.headers),
        "env_http_headers": dict(server.headers_from_env),
        "excludeTools": list(server.excluded_tools),
        "startup_timeout_sec": server.start_seconds,
        "tool_timeout_sec": server.call_seconds,
    }
    entry = {key: value for key, value in entry.items() if value}
    # For these keys, an empty value has a different meaning from a missing one.
    if not server.login_allowed:
        entry["oauth"] = False
    elif server.oauth is not None:
        entry["oauth"] = texts(server.oauth)
    if server.allowed_tools is not None:
        entry["includeTools"] = list(server.allowed_tools)
    if not server.enabled:
        entry["enabled"] = False
    return entry


def _encode_input(given: ConfigInput) -> dict[str, Any]:
    entry = {
        "id": given.id,
        "type": "pickString" if given.options else "promptString",
        "description": given.description,
        "password": given.secret,
        "default": given.default,
        "options": list(given.options),
    }
    return {key: value for key, value in entry.items() if value}


def _update(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the content of a file. Only one hilum process at a time can change it."""
    # If the file is a link, for example into a repository of settings, the link is kept.
    path = Path(os.path.realpath(file))
    try:
        make_private_folder(path.parent)
        # The file is read and written under one lock, so that no change by another process is lost.
        with lock_folder(path.parent):
            data = _read(file)
            change(data)
            text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
            write_private(path, text, keep_mode=True)
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror or error}.") from None


def _parse(file: Path) -> Any:
    try:
        text = file.read_text(encoding="utf-8-sig")
        # Python's parser keeps only the last of several equal keys, so rewriting would remove the
        # others.
        return json.loads(text or "{}", object_pairs_hook=_mapping_without_duplicates)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:
        raise _refusal(file, f"is not plain JSON ({error})") from None


def _read(file: Path) -> dict[str, Any]:
    """Read a file, unless rewriting it would lose a part of its content.

    Raises:
        UsageError: The file contains comments or duplicate keys, or has an unexpected structure.
    """
    data = _parse(file) if os.path.lexists(file) else {}
    if not isinstance(data, dict) or (data and TABLE not in data and "inputs" not in data):
        raise _refusal(file, f"has no table {TABLE}")
    table = data.get(TABLE, {})
    servers = table.values() if isinstance(table, dict) else [None]
    if not all(isinstance(server, dict) for server in servers):
        raise _refusal(file, f"has a {TABLE} that is not a mapping of servers")
    if not isinstance(data.get("inputs", []), list):
        raise _refusal(file, "has inputs that are not a list")
    return data


def _refusal(file: Path, reason: str) -> UsageError:
    message = f"hilum does not change {file}: it {reason}, so rewriting it could lose data."
    return UsageError(message, code=errors.E_FAILED, hint=f"Edit {file} yourself.")


def _mapping_without_duplicates(items: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(items)
    if len(mapping) < len(items):
        raise ValueError("a key occurs twice")
    return mapping
