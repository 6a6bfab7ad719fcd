"""The user's own file of servers, and that of a project: a server into it and out of it, and
nothing else changed.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from hilum import StoreError, UsageError, errors

from hilum_mcp import jsonc
from hilum_mcp.server import Input, Server

TABLE = "mcpServers"
_FOLDER = re.compile(r"\$\{(?:extensionPath|CLAUDE_PLUGIN_ROOT)\}")
_FILE = re.compile(r"\{file:(?![/~])([^{}]+)\}")


def as_written(server: Server) -> dict[str, Any]:
    """Return a server as hilum writes it: what is read from it is the same server, whatever
    client's file it came from.
    """

    def text(value: str) -> str:
        # Relative to the file that it came from.
        folder = str(server.file.parent.absolute())
        return _FILE.sub(
            lambda found: f"{{file:{folder}/{found[1]}}}", _FOLDER.sub(lambda _: folder, value)
        )

    def texts(values: Mapping[str, str]) -> dict[str, str]:
        return {key: text(value) for key, value in values.items()}

    kind = {} if server.bare else {"type": server.kind}
    oauth: Any = (
        False if not server.login else None if server.oauth is None else texts(server.oauth)
    )
    written: dict[str, Any] = {
        **kind,
        "command": text(server.command),
        "args": list(map(text, server.args)),
        "env": texts(server.env),
        "env_vars": list(server.env_names),
        "envFile": text(server.env_file),
        "cwd": text(server.cwd),
        "url": text(server.url),
        "headers": texts(server.headers),
        "env_http_headers": dict(server.header_names),
        "excludeTools": list(server.without),
        "startup_timeout_sec": server.start_seconds,
        "tool_timeout_sec": server.call_seconds,
    }
    written = {key: value for key, value in written.items() if value}
    if oauth is not None:
        written["oauth"] = oauth
    if server.tools is not None:
        written["includeTools"] = list(server.tools)
    if server.enabled:
        return written
    return {**written, "enabled": False}


def add(
    file: Path, servers: Iterable[Server], inputs: Mapping[str, Input], *, replace: bool = False
) -> None:
    """Write servers into a file, with the inputs that they ask for; all else in it stays. Blocks.

    Raises:
        UsageError: One of that name is there, or the file cannot be changed without losing
            something.
        StoreError: It cannot be written.
    """
    snippet = {server.name: as_written(server) for server in servers}
    asked = set(re.findall(r"\$\{input:([^{}]+)\}", json.dumps(snippet)))

    def change(text: str, data: dict[str, Any]) -> str:
        taken = [name for name in snippet if name in data.get(TABLE, {})]
        if taken and not replace:
            hint = "Give --replace, or another name."
            raise UsageError(
                f"{file} has a server {taken[0]!r} already.", code=errors.E_FAILED, hint=hint
            )
        for name, server in snippet.items():
            text = jsonc.put(text, (TABLE, name), server)
            data.setdefault(TABLE, {})[name] = server
        listed = data.setdefault("inputs", [])
        known = {each.get("id") for each in listed if isinstance(each, dict)}
        for each in [_input(inputs[name]) for name in inputs if name in asked - known]:
            if listed:
                text = jsonc.append(text, ("inputs",), each)
            else:
                text = jsonc.put(text, ("inputs",), [each])
            listed.append(each)
        if not listed and '"inputs"' not in text:
            del data["inputs"]
        return text

    _change(file, change)


def remove(file: Path, name: str) -> bool:
    """Take a server out of a file; gives whether it was there. Blocks.

    Raises:
        UsageError: The file cannot be changed without losing something.
        StoreError: It cannot be written.
    """

    def change(text: str, data: dict[str, Any]) -> str:
        there = name in data.get(TABLE, {})
        data.get(TABLE, {}).pop(name, None)
        return jsonc.take(text, (TABLE, name)) if there else text

    return os.path.lexists(file) and _change(file, change)


def _change(file: Path, change: Callable[[str, dict[str, Any]], str]) -> bool:
    """Change a file, alone: another hilum that changes it waits. Gives whether it is another now.

    Args:
        file: The file; of a link, the one that it leads to.
        change: Changes the text and what it says; the two are compared before anything is written.
    """
    from hilum_settings import alone

    from hilum_mcp.parsing import Unreadable, parse

    path = Path(os.path.realpath(file))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with alone(path.parent):
            text, data = _read(file)
            try:
                changed = change(text or "{}\n", data)
                safe = parse(changed) == data
            except (Unreadable, ValueError, TypeError, AttributeError):
                changed = text
                safe = False
            if not safe:
                hint = f"Change {file} by hand."
                raise UsageError(
                    f"{file} is not written as hilum writes it.", code=errors.E_FAILED, hint=hint
                )
            if changed != text:
                write_private(path, changed, keep_mode=True)
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror or error}.") from None
    return changed != text


def _input(given: Input) -> dict[str, Any]:
    kind = "pickString" if given.options else "promptString"
    data = {
        "id": given.id,
        "type": kind,
        "description": given.description,
        "password": given.secret,
        "default": given.default,
        "options": list(given.options),
    }
    return {key: value for key, value in data.items() if value}


def _read(file: Path) -> tuple[str, dict[str, Any]]:
    """Read the text of a file, and what it says: its servers stand where hilum writes them, and no
    key twice.
    """
    from hilum_mcp.parsing import Unreadable, load

    if not os.path.lexists(file):
        return "", {}
    hint = f"Change {file} by hand."
    try:
        loaded = load(file)
        with open(file, encoding="utf-8", newline="") as stream:
            text = stream.read()
    except Unreadable as error:
        raise UsageError(f"{file} cannot be read: {error}", hint=hint) from None
    except ValueError:
        raise UsageError(f"{file} is not text in UTF-8.", code=errors.E_FAILED, hint=hint) from None
    data = loaded.data
    if (
        loaded.odd
        or not isinstance(data.get(TABLE, {}), dict)
        or (data and TABLE not in data and "inputs" not in data)
    ):
        raise UsageError(
            f"{file} is not written as hilum writes it.", code=errors.E_FAILED, hint=hint
        )
    if not isinstance(data.get("inputs", []), list):
        raise UsageError(f"In {file} inputs is no list.", code=errors.E_FAILED, hint=hint)
    return text if text.strip() else "", data


def write_private(file: Path, text: str, *, keep_mode: bool = False) -> None:
    """Put a whole new file in the place of the old one, readable by the user only. Blocks.

    Args:
        file: The file; its folder is made.
        text: What it holds.
        keep_mode: Whether an old file keeps its mode.

    Raises:
        StoreError: It cannot be written; the old one is as it was.
    """
    path = Path(os.path.realpath(file)) if keep_mode else file
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o7777 if keep_mode and path.exists() else 0o600
        if path.exists():
            os.close(
                os.open(path, os.O_RDWR)
            )  # a file that may only be read is not to be replaced, either
        handle, new = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with open(handle, "w", encoding="utf-8", errors="replace", newline="\n") as stream:
                os.fchmod(stream.fileno(), mode)
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(new, path)
        except BaseException:
            os.unlink(new)
            raise
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror or error}.") from None
