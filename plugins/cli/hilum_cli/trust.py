"""``hilum trust``: folders whose own programs hilum may load."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hilum import UsageError
from hilum_commandline import Parser
from hilum_guard import Trust

from hilum_cli import exits
from hilum_cli.options import check_folder, check_text, run_command
from hilum_cli.terminal import Out, neutral

EPILOG = """\
What a project brings along and that widens what can be done there (skills, agents, plugins, servers, hooks, commands; in
.hilum and in the folders of other programs) is loaded only after you have said so. That holds for the folder as it is now:
after a change there you are asked again.

  hilum trust                trust this folder
  hilum trust --list         all trusted folders, and what has changed in them
  hilum trust DIR --remove
"""
STATES = {"trusted": "trusted", "changed": "CHANGED", "unknown": "not trusted"}


def main(argv: list[str]) -> int:
    """Trust a folder, so that what it brings along may execute.

    Returns:
        The exit code (see ``exits``).
    """
    return run_command(lambda: _run(argv))


def _run(argv: Sequence[str]) -> int:
    check_text(argv)
    parser = Parser(
        "hilum trust", "Trust a folder, so that what it brings along may execute.", EPILOG
    )
    parser.add_argument(
        "path", nargs="?", default=".", metavar="DIR", help="the folder (default: the current one)"
    )
    parser.add_argument("--remove", action="store_true", help="trust it no more")
    parser.add_argument("--list", action="store_true", help="list the trusted folders")
    parser.add_argument("--json", action="store_true", help="with --list: one JSON object")
    options = parser.parse_intermixed_args(argv)
    trust = Trust()
    out = Out(1)
    if options.list:
        states = {path: _state(trust, path) for path in trust.folders()}
        if options.json:
            out.say(json.dumps(states, ensure_ascii=False, indent=1))
        else:
            lines = []
            for path, state in states.items():
                changes = trust.changes(path) if state == "changed" else []
                lines += [
                    f"{STATES.get(state, state):11}  {path}",
                    *(f"             {change}" for change in changes),
                ]
            out.say(neutral("\n".join(lines)) if lines else "No folder is trusted.")
        return exits.COMPLETED
    if options.remove:  # a folder that is gone can be forgotten, too
        import os

        path = os.path.realpath(os.path.expanduser(options.path))
        out.say(
            neutral(
                f"{path} is trusted no more." if trust.remove(path) else f"{path} was not trusted."
            )
        )
        return exits.COMPLETED
    path = check_folder(options.path)
    changes = trust.changes(path) if trust.folders() else []
    names = trust.add(path)
    if changes:
        out.say(
            neutral(
                "Changed since you trusted it:" + "".join(f"\n  {change}" for change in changes)
            )
        )
    listed = (
        "".join(f"\n  {name}" for name in names)
        or " nothing yet; it is asked again when something comes."
    )
    out.say(neutral(f"{path} is trusted. What it brings along:{listed}"))
    servers = _servers(path)
    if servers:
        out.say(
            neutral(
                f"It describes MCP servers: {', '.join(servers)}. hilum mcp approve shows each and"
                " asks."
            )
        )
    return exits.COMPLETED


def _servers(path: str) -> list[str]:
    """Return the MCP servers that a project describes and that wait for an approval of their own,
    each with its file.
    """
    from pathlib import Path

    from hilum_mcp.sources import look

    try:
        waiting = [entry for entry in look(Path(path)).entries if entry.state == "unapproved"]
    except UsageError:  # of the file of approvals, which hilum mcp tells
        return []
    return [f"{entry.server.name} ({entry.server.file.relative_to(path)})" for entry in waiting]


def _state(trust: Trust, path: str) -> str:
    try:
        return trust.state(path)
    except UsageError as error:
        return error.message
