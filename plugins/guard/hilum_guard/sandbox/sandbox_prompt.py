"""Describe the sandbox to the model in the system prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hilum_guard.sandbox.enforcement import Enforcement
    from hilum_guard.settings import GuardSettings

_SHARED = (
    "The only network is a loopback that all your commands share: a server in the background can be"
    " reached by later commands at 127.0.0.1, but not from outside the sandbox. The user cannot open"
    ' it in a browser unless guard.network = "full".'
)
_PROTECTED = (
    "Files that Git, editors, shells and agents execute (.git/config and hooks, .vscode, .envrc,"
    " .hilum …) are read-only, or a command's changes to them are undone. "
)
_OWN = (
    "The only network is a loopback, and each command has a separate one: a server and its clients"
    " must be started by one command."
)


def describe_sandbox(enforced: Enforcement, settings: GuardSettings) -> str:
    """Return a description, for the model, of what commands may do."""
    if not enforced.by:
        return "Commands run without a sandbox and can change everything that the user can. Be careful."
    extra = "".join(f", {path}" for path in settings.writable)
    protected = _PROTECTED if enforced.protected else ""
    return (
        f"Commands run in a sandbox. They can write to the workspace{extra} and to the temporary"
        f" folder ($TMPDIR), and read most of the rest. {protected}Credentials are hidden, and"
        f" so are files that rules deny (Git shows them as unchanged);"
        f" variables that look like secrets are not set. {_describe_network(enforced, settings)}"
        " If a command fails because of the sandbox, do not try to bypass it: tell the user what"
        ' the command needs. The user can allow it with the settings guard.network = "full",'
        " guard.writable, guard.readable and guard.pass_environment."
    )


def _describe_network(enforced: Enforcement, settings: GuardSettings) -> str:
    """Return a description of the network that commands can reach."""
    if settings.network == "full":
        return "Commands have network access."
    if enforced.network != "namespace":
        return "Commands cannot open sockets, not even on the loopback."
    if enforced.by == "sandbox-exec":
        return "The only network is this machine's loopback."
    return _SHARED if enforced.shared else _OWN
