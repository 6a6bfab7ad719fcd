"""``hilum plugins``: lists plugins with their states, and blocks them.

The command works even if every plugin is broken.
"""

from __future__ import annotations

import os
import shlex
import sys
from argparse import Namespace
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import trio

from hilum.command import Parser, say, say_json
from hilum.discovery import entry_points, normal
from hilum.errors import HilumError, UsageError, unknown_name_error
from hilum.hooks import PluginFailure, split_failure
from hilum.kernel import open_kernel
from hilum.plugins import Host
from hilum.session import Session
from hilum.settings import FILE, ChangeError, KernelSettings, change, config_folder, load
from hilum.standard import project_plugins
from hilum.store import MemoryStore
from hilum.tools import Tool

DESCRIPTION = """\
List plugins with version, state, hooks and tools; block and unblock them.

  list (the default)  import one plugin after another
  show [NAME …]       also open a session, to list tools and failures
  block NAME          never load a plugin: change the list in your settings.toml
  unblock NAME        load it again

Plugins of the project in the folder (.hilum/plugins) are imported only if you trust it."""
ACTIONS = ("list", "show", "block", "unblock")


def main(argv: list[str]) -> int:
    """List plugins with version, state, hooks and tools; block and unblock them.

    Returns:
        The exit code.
    """
    options = _parse(argv)
    if options.action in ("block", "unblock"):
        return _block(options.names[0], options.action == "block")
    with redirect_stdout(sys.stderr):  # plugins may print during their import
        rows = trio.run(_show, options) if options.action == "show" else _list(options)
    if options.json:
        say_json(rows)
    else:
        say("\n".join(map(_text, rows)))
    return 0


def _parse(argv: list[str]) -> Namespace:
    """Parse the command line.

    Returns:
        A namespace with ``action``, ``names``, ``json``, ``files`` (from ``--plugin``) and
        ``workspace``, the folder of the project.

    Raises:
        UsageError: The command line is invalid.
    """
    parser = Parser("hilum plugins", DESCRIPTION)
    parser.add_argument("action", nargs="?", choices=ACTIONS, default="list")
    parser.add_argument("names", metavar="NAME", nargs="*")
    parser.add_argument("--json", action="store_true", help="write JSON")
    parser.add_argument(
        "-C", "--workspace", metavar="DIR", default=".", help="the folder of the project"
    )
    parser.add_argument(
        "--plugin",
        metavar="FILE",
        dest="files",
        type=Path,
        action="append",
        default=[],
        help="add a plugin file",
    )
    options = parser.parse_intermixed_args(argv)
    count = len(options.names)
    if options.action == "list" and count:
        parser.error("`list` takes no names: `show NAME` describes one plugin")
    if options.action in ("block", "unblock") and count != 1:
        parser.error(
            f"`{options.action}` takes the name of one plugin: hilum plugins {options.action} NAME"
        )
    folder = Path(os.path.expanduser(options.workspace))
    if not folder.is_dir():
        hint = "Name an existing folder."
        raise UsageError(f"The workspace {folder} is not a folder.", hint=hint)
    options.workspace = folder.resolve()
    return options


def _list(options: Namespace) -> list[dict[str, Any]]:
    """List all plugins; those of an untrusted project are not imported."""
    # The settings are not read strictly, because this command helps to find mistakes and must work
    # despite them.
    loaded = load([KernelSettings], workspace=options.workspace, known=None, strict=False)
    host = Host(lambda fault: None, [])
    usable, left_out = _project_files(options.workspace)
    host.find(None, loaded.get(KernelSettings).plugins, (), options.files, usable)
    host.load(strict=False)
    return [*_rows(host), *left_out]


async def _show(options: Namespace) -> list[dict[str, Any]]:
    """Open a kernel and an in-memory session, and list plugins with tools and failures."""
    usable, left_out = await trio.to_thread.run_sync(_project_files, options.workspace)
    installed = None
    if options.names:
        wanted = {normal(name) for name in options.names}
        # ``open_kernel`` finds only installed plugins by name, not plugins of the project or in
        # files.
        files = [*map(str, options.files), *usable, *(row["path"] for row in left_out)]
        own = {normal(Path(path).stem) for path in files}
        installed = [name for name in options.names if normal(name) not in own]
        usable = [path for path in usable if normal(Path(path).stem) in wanted]
        left_out = [row for row in left_out if normal(row["name"]) in wanted]
    async with (
        open_kernel(
            installed,
            # The store is in memory, so that the command leaves no session behind.
            store=MemoryStore(),
            workspace=options.workspace,
            extra_plugins=options.files,
            project_plugins=usable,
        ) as kernel,
        kernel.open_session(options.workspace) as session,
    ):
        rows = _rows(kernel.host)
        for row in rows:
            _add_details(row, session)
        return [*rows, *left_out]


def _add_details(row: dict[str, Any], session: Session) -> None:
    """Add the tools and the failures of a plugin to its row."""
    name = row["name"]
    tools = [tool for tool in session.tools.values() if tool.plugin == name]
    failures = [failure for failure in session.kernel.faults if failure.plugin == name]
    row["tools"] = [f"{tool.name} ({tool.risk})" for tool in tools]
    faults = [f"{failure.hook}: {failure}" for failure in failures]
    faults += _broken_tools(tools)
    faults += _closed_gates(name, session)
    row["faults"] = faults
    if faults and row["state"] == "ready":
        is_off = any(failure.switched_off for failure in failures)
        row["state"] = "off" if is_off else "faulty"


def _broken_tools(tools: list[Tool]) -> list[str]:
    """Return a sentence for each tool that cannot be offered to a model."""
    broken = []
    for tool in tools:
        try:
            _ = tool.spec
        except BaseException as error:
            failure, rest = split_failure(error)
            if failure is None or rest is not None:
                raise
            broken.append(str(PluginFailure(tool.plugin, "", failure)))
    return broken


def _closed_gates(plugin: str, session: Session) -> list[str]:
    """Return a sentence for each of a plugin's closed gates, which keep all calls from running."""
    closed = session.hooks.closed.items()
    return [f"the gate {gate} is closed" for gate, plugins in closed if gate and plugin in plugins]


def _project_files(workspace: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the plugin files of a project that may be loaded, and rows for all others."""
    usable, refused = project_plugins(workspace)
    installed = {normal(name): name for name in entry_points("hilum")}
    rows = []
    for path in [*usable]:
        # A run would refuse to start with such a file, but this list only shows what is wrong.
        name = Path(path).stem
        other = installed.get(normal(name))
        if other:
            usable.remove(path)
            reason = f"It has the name of the installed plugin {other!r}: rename the file."
            rows.append(_row(name, "failed", reason, path=path))
    for name, reason in refused.items():
        path = str(workspace / ".hilum" / "plugins" / f"{name}.py")
        why = reason.partition(" is not loaded: ")[2]
        if why:
            command = f"hilum trust {shlex.quote(str(workspace))}"
            error = f"not loaded: the folder is not trusted. {why} ({command})"
            rows.append(_row(name, "untrusted", error, path=path))
        else:
            rows.append(_row(name, "blocked", "by the settings", path=path))
    return usable, rows


def _rows(host: Host) -> list[dict[str, Any]]:
    """Return a row for each plugin of a host."""
    rows = []
    for plugin in host.plugins.values():
        row = _row(plugin.name, plugin.state, plugin.error, path=plugin.path)
        if plugin.point is not None:
            row["version"] = plugin.point.version
            row["distribution"] = plugin.point.distribution
        row["milliseconds"] = round(plugin.seconds * 1000, 1)
        row["hooks"] = host.table.names(plugin.name)
        rows.append(row)
    return rows


def _row(name: str, state: str, error: str, *, path: str = "") -> dict[str, Any]:
    """Return a row with the values of a plugin that is neither installed nor loaded."""
    return {
        "name": name,
        "version": "",
        "distribution": "",
        "path": path,
        "state": state,
        "error": error,
        "milliseconds": 0.0,
        "hooks": [],
    }


def _text(row: dict[str, Any]) -> str:
    """Format a row as lines of text."""
    source = _plain(row["distribution"] or row["path"])
    name = _plain(row["name"])
    text = f"{name:15} {row['version']:10} {row['state']:9} {row['milliseconds']:6.1f} ms  {source}"
    for key in ("error", "hooks", "tools", "faults"):
        value = row.get(key)
        if not value:
            continue
        separator = "; " if key == "faults" else ", "
        listed = value if isinstance(value, str) else separator.join(value)
        # If a plugin has several mistakes, each is on its own line.
        lines = [_plain(line) for line in listed.split("\n")]
        text += f"\n    {key}: " + "\n    ".join(lines)
    return text


def _plain(text: str) -> str:
    """Return text from a plugin, escaped so that a terminal does not interpret it."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _block(name: str, block: bool) -> int:
    """Change the list of blocked plugins in the user's settings."""
    installed = entry_points("hilum")
    if name not in installed:
        raise unknown_name_error("plugin", name, installed)

    def change_list(old: list[str] | None) -> list[str]:
        # The name may be spelled differently in the settings.
        others = [known for known in old or [] if normal(known) != normal(name)]
        return [*others, name] if block else others

    try:
        path = change(config_folder() / FILE, "plugins.block", change_list)
    except ChangeError as error:
        action = "add" if block else "remove"
        hint = f'Change it by hand: {action} "{name}" in the list block under [plugins].'
        raise HilumError(str(error), code="E_SETTINGS", hint=hint) from None
    state = "blocked" if block else "not blocked"
    say(f"{name} is {state} in {path}.")
    return 0
