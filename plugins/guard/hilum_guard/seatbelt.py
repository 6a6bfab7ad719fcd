"""The sandbox of macOS: a profile for ``sandbox-exec``.

Written from Apple's and others' descriptions; not tried on a Mac yet.

Paths are parameters (``-D``), never part of the profile's text.
"""

from __future__ import annotations

import os
import sys

from hilum import Command

from hilum_guard.policy import Policy

PROGRAM = "/usr/bin/sandbox-exec"
_HEAD = """(version 1)
(allow default)
(deny file-write*)
(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (regex #"^/dev/fd/") (regex #"^/dev/ttys"))
(deny signal)
(allow signal (target same-sandbox))
(deny process-info* (target others))
(deny mach-priv-task-port)
"""
_NETWORK = """(deny network*)
(allow network* (local ip "localhost:*"))
(allow network* (remote ip "localhost:*"))
"""


def trial() -> str:
    """Return why this sandbox cannot be used, empty if it can."""
    if sys.platform != "darwin":
        return "sandbox-exec exists for macOS only"
    if os.access(PROGRAM, os.X_OK):
        return ""
    return f"{PROGRAM} is not there"


def profile(policy: Policy) -> tuple[str, dict[str, str]]:
    """Return the profile and its parameters. Of several rules that fit, the last one counts."""
    parameters: dict[str, str] = {}

    def rule(decision: str, path: str) -> str:
        name = f"P{len(parameters)}"
        parameters[name] = path
        return f'({decision} (subpath (param "{name}")))\n'

    text = _HEAD + ("" if policy.network else _NETWORK)
    text += "".join(rule("allow file-write*", path) for path in (*policy.writable, policy.temp))
    text += "".join(rule("deny file-write*", path) for path in policy.protected)
    text += "".join(rule("deny file-read* file-write*", path) for path in policy.hidden)
    return text, parameters


def wrap(command: Command, policy: Policy) -> Command:
    """Return the command that runs a command in the sandbox."""
    text, parameters = profile(policy)
    defined = [word for name, path in parameters.items() for word in ("-D", f"{name}={path}")]
    argv = (PROGRAM, "-p", text, *defined, *command.argv)
    return Command(argv, command.cwd, command.env | {"TMPDIR": policy.temp})
