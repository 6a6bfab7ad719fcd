"""Build the macOS sandbox: a profile for ``sandbox-exec``.

The profile follows published descriptions of the profile language and has not been tested on a Mac.
Paths are parameters (``-D``) and never part of the profile's text, so that no path can change the
profile.
"""

from __future__ import annotations

import os

from hilum import Command

from hilum_guard.sandbox.sandbox_policy import SandboxPolicy

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


def check_seatbelt() -> str:
    """Return why the macOS sandbox cannot be used; empty if it can."""
    if os.access(PROGRAM, os.X_OK):
        return ""
    return f"{PROGRAM} does not exist"


def make_profile(policy: SandboxPolicy) -> tuple[str, dict[str, str]]:
    """Return the profile and its parameters."""
    parameters: dict[str, str] = {}

    # The last rule that matches a path applies, so the stricter rules come last.
    def rule(decision: str, path: str) -> str:
        name = f"P{len(parameters)}"
        parameters[name] = path
        return f'({decision} (subpath (param "{name}")))\n'

    text = _HEAD + ("" if policy.network else _NETWORK)
    text += "".join(rule("allow file-write*", path) for path in (*policy.writable, policy.temp))
    text += "".join(rule("deny file-write*", path) for path in policy.protected)
    text += "".join(rule("deny file-read* file-write*", path) for path in policy.hidden)
    return text, parameters


def wrap(command: Command, policy: SandboxPolicy) -> Command:
    """Return the command line that runs a command in the sandbox."""
    text, parameters = make_profile(policy)
    defined: list[str] = []
    for name, path in parameters.items():
        defined += ["-D", f"{name}={path}"]
    # The profile is passed as an argument, so there is no profile file that could be changed before
    # it is read.
    argv = (PROGRAM, "-p", text, *defined, *command.argv)
    return Command(argv, command.cwd, command.env | {"TMPDIR": policy.temp})
