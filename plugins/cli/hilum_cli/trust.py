"""``hilum trust``: manages the folders whose extensions hilum may load."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from hilum import UsageError
from hilum.command import Parser, check_folder, check_text
from hilum.trust import TrustedFolders

from hilum_cli import exits
from hilum_cli.terminal import Out, escape_terminal

EPILOG = """\
Some project files extend hilum: skills, agents, plugins, servers, hooks and commands, in .hilum and
in the folders of other programs. hilum loads them only after you trust the folder in its current state; after a change,
it asks again.

  hilum trust                trust this folder
  hilum trust --list         all trusted folders, and what has changed in them
  hilum trust DIR --remove
"""
STATES = {"trusted": "trusted", "changed": "CHANGED", "unknown": "not trusted"}


def main(argv: list[str]) -> int:
    """Trust a folder, so that the programs and extensions it contains may run.

    Returns:
        The exit code (see ``exits``).
    """
    check_text(argv)
    parser = Parser(
        "hilum trust",
        "Trust a folder, so that the programs and extensions it contains may run.",
        EPILOG,
    )
    parser.add_argument(
        "path", nargs="?", default=".", metavar="DIR", help="the folder (default: the current one)"
    )
    parser.add_argument("--remove", action="store_true", help="stop trusting the folder")
    parser.add_argument("--list", action="store_true", help="list the trusted folders")
    parser.add_argument("--json", action="store_true", help="with --list: print one JSON object")
    options = parser.parse_intermixed_args(argv)
    trust = TrustedFolders()
    if options.list:
        _list(trust, as_json=options.json)
    elif options.remove:
        _remove(trust, options.path)
    else:
        _add(trust, check_folder(options.path))
    return exits.COMPLETED


def _list(trust: TrustedFolders, *, as_json: bool) -> None:
    states = {path: _state(trust, path) for path in trust.folders()}
    if as_json:
        Out(1).say_json(states)
        return
    lines = []
    for path, state in states.items():
        lines.append(f"{STATES.get(state, state):11}  {path}")
        if state == "changed":
            lines += [f"             {change}" for change in trust.changes(path)]
    Out(1).say(escape_terminal("\n".join(lines)) if lines else "No folder is trusted.")


def _remove(trust: TrustedFolders, folder: str) -> None:
    """Revoke trust in a folder, even if it no longer exists."""
    path = os.path.realpath(os.path.expanduser(folder))
    was_trusted = trust.remove(path)
    text = f"{path} is no longer trusted." if was_trusted else f"{path} was not trusted."
    Out(1).say(escape_terminal(text))


def _add(trust: TrustedFolders, path: str) -> None:
    out = Out(1)
    # The servers are read before the folder is added, because adding the folder makes its current
    # state the trusted state.
    changes = trust.changes(path) if trust.folders() else []
    names = trust.add(path)
    if changes:
        listed = "".join(f"\n  {change}" for change in changes)
        out.say(escape_terminal(f"Changed since you trusted it:{listed}"))
    listed = "".join(f"\n  {name}" for name in names)
    servers = ", ".join(_servers(path))
    hooks = _count_hooks(path)
    if listed or not (servers or hooks):
        listed = listed or " nothing yet; hilum asks again when something is added."
        out.say(escape_terminal(f"{path} is trusted. It provides:{listed}"))
    else:
        out.say(escape_terminal(f"{path} is trusted."))
    if hooks:
        out.say(f"It defines hooks: {hooks}. hilum hooks approve shows them and asks for approval.")
    if servers:
        out.say(
            escape_terminal(
                f"It defines MCP servers: {servers}. hilum mcp approve shows each one and asks"
                " for approval."
            )
        )


def _servers(path: str) -> list[str]:
    """Return a project's MCP servers that are awaiting approval, each with its file."""
    # The plugin is optional; ``find_spec`` does not import it.
    if find_spec("hilum_mcp") is None:
        return []
    from hilum_mcp.catalog import load_catalog

    try:
        waiting = [
            entry for entry in load_catalog(Path(path)).entries if entry.state == "unapproved"
        ]
    except UsageError:  # an error in the approvals file, which `hilum mcp` reports
        return []
    return [f"{entry.server.name} ({entry.server.file.relative_to(path)})" for entry in waiting]


def _count_hooks(path: str) -> int:
    """Return the number of a project's hooks that are awaiting approval."""
    if find_spec("hilum_hooks_claude") is None:
        return 0
    from hilum_hooks_claude.listing import read_hooks

    try:
        judged, _ = read_hooks(Path(path))
    except UsageError:  # an error in the settings or the decisions, which `hilum hooks` reports
        return 0
    return sum(each.state in ("needs approval", "changed") for each in judged)


def _state(trust: TrustedFolders, path: str) -> str:
    try:
        return trust.state(path)
    except UsageError as error:
        return error.message
