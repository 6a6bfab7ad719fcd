"""Remove everything that looks like a secret from the environment of child processes.

A variable is omitted if its name or its value looks like a secret, or if it contains the value of
an omitted variable. A variable that a plugin sets for its command is passed on, because the user
configured it for that plugin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from hilum_guard.secrets.secret_names import is_secret_name

_VALUE = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|(?:^|\W)(?:sk|pk|rk)[-_][\w-]{16}|(?:^|\W)gh[a-z]_\w{20}|github_pat_|glpat-|xox[a-z]-|(?:^"
    r"|\W)(?:AKIA|ASIA)[A-Z0-9]{12}"
    r"|(?:^|\W)AIza[\w-]{30}|(?:^|\W)hf_\w{20}|(?:^|\W)npm_\w{30}|(?:^|\W)pypi-\w{20}|(?:^"
    r"|\W)eyJ[\w-]{10,}\.[\w-]{10,}\."
    r"|\w://[^/\s:@]*:[^/\s@]+@"
)
_PLAIN = re.compile(r"|[-+.\d]{1,8}|true|false|yes|no|on|off|none|auto|always|never", re.IGNORECASE)
# Variables that give access to programs that act for the user: key agents and the desktop.
_AGENTS = frozenset(
    "SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS DBUS_SYSTEM_BUS_ADDRESS"
    " DOCKER_HOST CONTAINER_HOST WSL_INTEROP VSCODE_IPC_HOOK_CLI VSCODE_GIT_IPC_HANDLE"
    " KUBECONFIG".split()
)
# Variables that make a shell, bubblewrap or the dynamic linker run code. These variables could come
# from the workspace, so no process outside the sandbox receives them. (hilum starts Python with
# -I.)
_LOADED = (
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
"""The caches of tools that are slow or fail without a writable cache.

Maps the variable that sets a cache's location to the name of the cache's folder.
"""
MIN_KNOWN = 8
"""Minimum length of a secret to search for in other variables; shorter values are common words."""


def looks_secret(name: str, value: str) -> bool:
    """Return whether a variable contains a secret or gives access to one."""
    if name in _AGENTS or _VALUE.search(value):
        return True
    return is_secret_name(name) and not _PLAIN.fullmatch(value)


def clean_environment(
    env: Mapping[str, str], inherited: Mapping[str, str], passed: Iterable[str] = ()
) -> dict[str, str]:
    """Return a child process's environment without secrets.

    Args:
        env: The environment that the child process would receive.
        inherited: hilum's own environment. A variable whose value differs from hilum's own was set
            for the command and is kept.
        passed: Names of variables to keep anyway; ``*`` stands for any text.
    """
    kept = _find_kept(env, inherited, tuple(passed))
    secret = {name for name in env.keys() - kept if looks_secret(name, env[name])}
    # A path is not a secret, although a variable with a key file's path looks like one.
    values = [env[name] for name in secret if not env[name].startswith("/")]
    known = [value for value in values if len(value) >= MIN_KNOWN]
    return {
        name: value
        for name, value in env.items()
        if name in kept or not (name in secret or _contains(value, known))
    }


def _find_kept(
    env: Mapping[str, str], inherited: Mapping[str, str], patterns: Iterable[str]
) -> set[str]:
    """Return the variables that were set for the command, and those that the user allows."""
    kept = {name for name, value in env.items() if inherited.get(name) != value}
    for pattern in patterns:
        kept.update(name for name in env if fnmatchcase(name, pattern))
    return kept


def _contains(text: str, parts: Iterable[str]) -> bool:
    return any(part in text for part in parts)


def split_environment(env: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables to set while creating the sandbox, and those to set only inside it."""
    inner = {name: value for name, value in env.items() if name.startswith(_LOADED)}
    outer = {name: value for name, value in env.items() if name not in inner}
    return outer, inner
