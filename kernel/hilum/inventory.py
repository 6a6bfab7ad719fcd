"""``hilum plugins``: lists plugins with their states, and blocks them.

It works even if every plugin is broken.
"""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import trio

from hilum.command import say_json
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

USAGE = """usage: hilum plugins [list | show [NAME …] | block NAME | unblock NAME] [--json] [-C \
DIR] [--plugin FILE …]
list (the default) imports one plugin after another; show also opens a session, to list their \
tools and failures;
block and unblock change the list of plugins that are never loaded, in your settings.toml. \
Plugins of the project in this
folder (.hilum/plugins) are imported only if you trust it; -C DIR selects another folder, \
--plugin FILE adds a file."""


class _Options(NamedTuple):
    """The command line.

    Attributes:
        words: Action and names.
        json: Whether to write JSON.
        workspace: The folder whose project plugins count.
        files: Files given with ``--plugin``.
    """

    words: list[str]
    json: bool
    workspace: Path
    files: list[Path]


def main(argv: list[str]) -> int:
    """List plugins with version, state, hooks and tools; block and unblock them.

    Returns:
        The exit code.
    """
    if {"-h", "--help"} & set(argv):
        print(USAGE)
        return 0
    options = _parse(argv)
    action, *names = options.words or ["list"]
    if action in ("block", "unblock") and len(names) == 1:
        return _block(names[0], action == "block")
    if action != "show" and (action != "list" or names):
        raise _misuse(argv)
    with redirect_stdout(sys.stderr):  # plugins may print when they are imported
        rows = trio.run(_show, names, options) if action == "show" else _list(options)
    if options.json:
        say_json(rows)
    else:
        print("\n".join(map(_text, rows)))
    return 0


def _parse(argv: list[str]) -> _Options:
    """Parse the command line without argparse, so that nothing that a plugin can break is needed.

    Raises:
        UsageError: The command line is invalid.
    """
    words: list[str] = []
    values: dict[str, list[str]] = {"--plugin": [], "--workspace": []}
    as_json = False
    rest = iter(argv)
    for word in rest:
        name, equals, value = word.partition("=")
        name = "--workspace" if name == "-C" else name
        if name in values:
            given = value if equals else next(rest, "")
            if not given:
                raise _misuse(argv)
            values[name].append(given)
        elif word == "--json":
            as_json = True
        elif word.startswith("-"):
            raise _misuse(argv)
        else:
            words.append(word)
    folder = values["--workspace"][-1] if values["--workspace"] else "."
    workspace = Path(folder).expanduser()
    if not workspace.is_dir():
        hint = "Name an existing folder."
        raise UsageError(f"The workspace {workspace} is not a folder.", hint=hint)
    files = [Path(file) for file in values["--plugin"]]
    return _Options(words, as_json, Path(os.path.realpath(workspace)), files)


def _misuse(argv: list[str]) -> UsageError:
    return UsageError(
        f"hilum plugins does not take {' '.join(argv)!r}.", code="E_BAD_ARGS", hint=USAGE
    )


def _list(options: _Options) -> list[dict[str, Any]]:
    """List all plugins; those of an untrusted project are not imported."""
    # Not strict: this command is for finding mistakes, and must work in spite of them.
    loaded = load([KernelSettings], workspace=options.workspace, known=None, strict=False)
    host = Host(lambda fault: None, [])
    usable, left_out = _project_files(options.workspace)
    host.find(None, loaded.get(KernelSettings).plugins, (), options.files, usable)
    host.load(strict=False)
    return [*_rows(host), *left_out]


async def _show(names: list[str], options: _Options) -> list[dict[str, Any]]:
    """Open a kernel and a session in memory, to list tools and failures as well."""
    usable, left_out = await trio.to_thread.run_sync(_project_files, options.workspace)
    # Plugins of the project and of files are not found by their names.
    own = {normal(Path(path).stem) for path in (*usable, *map(str, options.files))}
    own |= {normal(row["name"]) for row in left_out}
    installed = [name for name in names if normal(name) not in own]
    if names:
        wanted = {normal(name) for name in names}
        usable = [path for path in usable if normal(Path(path).stem) in wanted]
        left_out = [row for row in left_out if normal(row["name"]) in wanted]
    async with (
        open_kernel(
            installed if names else None,
            # In memory, so that the command leaves no session behind.
            store=MemoryStore(),
            workspace=options.workspace,
            extra_plugins=options.files,
            project_plugins=usable,
        ) as kernel,
        kernel.open_session(options.workspace) as session,
    ):
        rows = _rows(kernel.host)
        for row in rows:
            name = row["name"]
            tools = [tool for tool in session.tools.values() if tool.plugin == name]
            failures = [failure for failure in kernel.faults if failure.plugin == name]
            row["tools"] = [f"{tool.name} ({tool.risk})" for tool in tools]
            row["faults"] = [f"{failure.hook}: {failure}" for failure in failures]
            row["faults"] += _broken_tools(tools)
            row["faults"] += _closed_gates(name, session)
            if row["faults"] and row["state"] == "ready":
                is_off = any(failure.switched_off for failure in failures)
                row["state"] = "off" if is_off else "faulty"
        return [*rows, *left_out]


def _broken_tools(tools: list[Tool]) -> list[str]:
    """Return a sentence for each tool that no model can be offered."""
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
    """Return a sentence for each gate of a plugin that is closed, so that no call runs."""
    closed = session.hooks.closed.items()
    return [f"the gate {gate} is closed" for gate, plugins in closed if gate and plugin in plugins]


def _project_files(workspace: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the plugin files of a project that may be loaded, and rows for those that may not."""
    usable, refused = project_plugins(workspace)
    installed = {normal(name): name for name in entry_points("hilum")}
    rows = []
    for path in [*usable]:
        # A run refuses to start with such a file; this list shows what is wrong instead.
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
            told = (
                f"not loaded: the folder is not trusted. {why} (hilum trust"
                f" {shlex.quote(str(workspace))})"
            )
            rows.append(_row(name, "untrusted", told, path=path))
        else:
            rows.append(_row(name, "blocked", "by the settings", path=path))
    return usable, rows


def _rows(host: Host) -> list[dict[str, Any]]:
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
    """Return the row of a plugin that is neither installed nor loaded."""
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
    source = _plain(row["distribution"] or row["path"])
    name = _plain(row["name"])
    text = f"{name:15} {row['version']:10} {row['state']:9} {row['milliseconds']:6.1f} ms  {source}"
    for key in ("error", "hooks", "tools", "faults"):
        value = row.get(key)
        if value:
            separator = "; " if key == "faults" else ", "
            listed = value if isinstance(value, str) else separator.join(value)
            # Several mistakes of a plugin are one line each.
            first, *lines = map(_plain, listed.split("\n"))
            text += f"\n    {key}: {first}" + "".join(f"\n    {line}" for line in lines)
    return text


def _plain(text: str) -> str:
    """Return text from elsewhere so that a terminal does not interpret it."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _block(name: str, block: bool) -> int:
    """Change the list of blocked plugins in the user's settings."""
    installed = entry_points("hilum")
    if name not in installed:
        raise unknown_name_error("plugin", name, installed)

    def change_list(old: list[str] | None) -> list[str]:
        # The settings may spell the name in another way.
        others = [known for known in old or [] if normal(known) != normal(name)]
        return [*others, name] if block else others

    try:
        path = change(config_folder() / FILE, "plugins.block", change_list)
    except ChangeError as error:
        action = "add" if block else "remove"
        hint = f'Change it by hand: {action} "{name}" in the list block under [plugins].'
        raise HilumError(str(error), code="E_SETTINGS", hint=hint) from None
    state = "blocked" if block else "not blocked"
    print(f"{name} is {state} in {path}.")
    return 0
