"""``hilum plugins``: what is installed and how it is doing, and blocking a plugin. Works with every plugin broken."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from typing import Any

import trio
from hilum_settings import ChangeError, change

from hilum.discovery import entry_points, normal
from hilum.errors import HilumError, UsageError, unknown
from hilum.kernel import open_kernel
from hilum.plugins import Host
from hilum.settings import FILE, KernelSettings, config_folder, load
from hilum.store import MemoryStore

USAGE = """usage: hilum plugins [list | show [NAME …] | block NAME | unblock NAME] [--json]
list (the default) imports one plugin after another; show opens a session of its own, to see their tools and faults, too;
block and unblock change the list of plugins that are never loaded, in your settings.toml."""


def main(argv: list[str]) -> int:
    """List plugins with version, state, hooks and tools; block and unblock them.

    Returns:
        The exit code.
    """
    action, *names = [word for word in argv if not word.startswith("-")] or ["list"]
    flags = {word for word in argv if word.startswith("-")}
    if flags & {"-h", "--help"}:
        print(USAGE)
        return 0
    right = {"list": not names, "show": True, "block": len(names) == 1, "unblock": len(names) == 1}.get(action)
    if not right or flags - {"--json"}:
        raise UsageError(f"hilum plugins does not take {' '.join(argv)!r}.", code="E_BAD_ARGS", hint=USAGE)
    if action in ("block", "unblock"):
        return _block(names[0], action == "block")
    with redirect_stdout(sys.stderr):  # plugins may print what they like
        rows = trio.run(_show, names) if action == "show" else _list()
    print(json.dumps(rows, indent=1) if "--json" in argv else "\n".join(map(_text, rows)))
    return 0


def _list() -> list[dict[str, Any]]:
    """Import all plugins, and describe them."""
    host = Host(lambda fault: None, [])
    host.find(None, load([KernelSettings], known=None, strict=False).get(KernelSettings).plugins)
    host.load()
    return _rows(host)


async def _show(names: list[str]) -> list[dict[str, Any]]:
    """Open a kernel and a session in memory, to see tools and faults as well."""
    async with open_kernel(names or None, store=MemoryStore()) as kernel, kernel.open_session() as session:
        rows = _rows(kernel.host)
        for row in rows:
            row["tools"] = [f"{t.name} ({t.risk})" for t in session.tools.values() if t.plugin == row["name"]]
            row["faults"] = [f"{f.hook}: {f}" for f in kernel.faults if f.plugin == row["name"]]
        return rows


def _rows(host: Host) -> list[dict[str, Any]]:
    return [
        {"name": point.name, "version": point.version, "distribution": point.distribution, "state": plugin.state,
         "error": plugin.error, "milliseconds": round(plugin.seconds * 1000, 1), "hooks": host.table.names(point.name)}
        for plugin in host.plugins.values() if (point := plugin.point)
    ]  # fmt: skip


def _text(row: dict[str, Any]) -> str:
    text = f"{row['name']:15} {row['version']:10} {row['state']:8} {row['milliseconds']:6.1f} ms  {row['distribution']}"
    for key in ("error", "hooks", "tools", "faults"):
        if value := row.get(key):
            text += f"\n    {key}: {_plain(value if isinstance(value, str) else ', '.join(value))}"
    return text


def _plain(text: str) -> str:
    """Write foreign text so that a terminal obeys nothing in it."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _block(name: str, block: bool) -> int:
    """Change the list of blocked plugins in the user's settings."""
    if name not in (installed := entry_points("hilum")):
        raise unknown("plugin", name, installed)

    def wanted(old: list[str] | None) -> list[str]:
        return [known for known in old or [] if normal(known) != normal(name)] + [name] * block

    try:
        path = change(config_folder() / FILE, "plugins.block", wanted)
    except ChangeError as error:
        hint = f'Change it by hand: "{name}" {"joins" if block else "leaves"} the list block under [plugins].'
        raise HilumError(str(error), code="E_SETTINGS", hint=hint) from None
    print(f"{name} is {'blocked' if block else 'not blocked'} in {path}.")
    return 0
