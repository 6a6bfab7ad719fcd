"""The environment of child processes: what hilum got, without anything that looks like a secret.

A variable is left out when its name speaks of a secret, when its value looks like one, or when it
holds the value of one that is left out. What a plugin sets for its command itself is passed: the
user configured it there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from hilum_guard.secret_names import is_secret_name

_VALUE = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|(?:^|\W)(?:sk|pk|rk)[-_][\w-]{16}|(?:^|\W)gh[a-z]_\w{20}|github_pat_|glpat-|xox[a-z]-|(?:^|\W)(?:AKIA|ASIA)[A-Z0-9]{12}"
    r"|(?:^|\W)AIza[\w-]{30}|(?:^|\W)hf_\w{20}|(?:^|\W)npm_\w{30}|(?:^|\W)pypi-\w{20}|(?:^|\W)eyJ[\w-]{10,}\.[\w-]{10,}\."
    r"|\w://[^/\s:@]*:[^/\s@]+@"
)
_PLAIN = re.compile(r"|[-+.\d]{1,8}|true|false|yes|no|on|off|none|auto|always|never", re.IGNORECASE)
# Ways to what acts for the user: agents that hold keys, and the desktop.
_AGENTS = frozenset(
    "SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS DBUS_SYSTEM_BUS_ADDRESS"
    " DOCKER_HOST CONTAINER_HOST WSL_INTEROP VSCODE_IPC_HOOK_CLI VSCODE_GIT_IPC_HANDLE KUBECONFIG".split()
)
# What could make programs of the system run code from the workspace; shell, bubblewrap, Perl and
# Python outside a sandbox.
_LOADED = (
    "PERL",
    "LD_",
    "DYLD_",
    "GCONV_",
    "GLIBC_",
    "MALLOC_",
    "BASH_",
    "ENV",
    "SHELLOPTS",
    "IFS",
    "PS4",
)
CACHES = {
    "UV_CACHE_DIR": "uv",
    "PIP_CACHE_DIR": "pip",
    "npm_config_cache": "npm",
    "YARN_CACHE_FOLDER": "yarn",
    "GOCACHE": "go-build",
    "CCACHE_DIR": "ccache",
}
"""Tools that do not work, or slowly, where they cannot write their cache: the variable that moves
it, and a folder's name.
"""


def looks_secret(name: str, value: str) -> bool:
    """Return whether a variable holds a secret, or leads to what holds one, by its name or its
    value.
    """
    if name in _AGENTS or _VALUE.search(value):
        return True
    return is_secret_name(name) and not _PLAIN.fullmatch(value)


def clean(
    env: Mapping[str, str], inherited: Mapping[str, str], passed: Iterable[str] = ()
) -> dict[str, str]:
    """Return a child's environment.

    Args:
        env: What it would get.
        inherited: hilum's own environment. What differs from it was set for the command, and stays.
        passed: Names to keep all the same; ``*`` stands for any text.
    """
    kept = tuple(passed)
    left_out = {
        name
        for name, value in env.items()
        if inherited.get(name) == value
        and looks_secret(name, value)
        and not any(fnmatchcase(name, p) for p in kept)
    }
    known = [env[name] for name in left_out if len(env[name]) >= 8 and env[name][0] != "/"]
    return {
        name: value
        for name, value in env.items()
        if name not in left_out
        and (
            inherited.get(name) != value
            or any(fnmatchcase(name, p) for p in kept)
            or not any(k in value for k in known)
        )
    }


def split(env: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Part an environment: what may be set while the sandbox is being built, and what only in
    it.
    """
    inner = {name: value for name, value in env.items() if name.startswith(_LOADED)}
    return {name: value for name, value in env.items() if name not in inner}, inner
