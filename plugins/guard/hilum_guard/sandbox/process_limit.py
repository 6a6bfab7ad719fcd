"""Explain failures of commands that reached the limit on processes."""

from __future__ import annotations

import os
import re

from hilum import BackgroundCommands, Session

from hilum_guard.sandbox import control_groups

MAX_SERVICES = 5
"""Maximum number of services named in a message."""
# What shells, Python, bubblewrap, Git, Node.js, Go and Java print if the system refuses a process or
# a thread.
_REFUSED = re.compile(
    r"resource temporarily unavailable|cannot fork|EAGAIN|can't start new thread"
    r"|unable to create (native )?thread|failed to create new OS thread",
    re.IGNORECASE,
)


def explain_limit(session: Session, limit: int, output: str, *, for_user: bool = False) -> str:
    """Return how a failed command reached the limit on processes; empty if it did not.

    Args:
        session: The session.
        limit: The setting ``guard.processes``.
        output: The output of the command.
        for_user: Whether the user ran the command, and not the model.
    """
    if not _REFUSED.search(output):
        return ""
    raise_it = "raise the setting" if for_user else "ask the user to raise the setting"
    group = control_groups.create_group(limit)
    if not group:
        # For root, nothing limits the processes then. The processes of other users are limited for
        # each sandbox, and the system does not say whether the limit was reached.
        if _is_root():
            return ""
        return (
            f"Probably, the command reached the limit of {limit} processes and threads"
            f" (guard.processes). Let it do less at once, or {raise_it}."
        )
    if not control_groups.count_refusals(group):
        return ""
    reached = (
        f"The limit of {limit} processes and threads for all commands together (guard.processes) was"
        " reached, so that the command did not run as it should."
    )
    services = _list_services(session)
    if not services:
        return f"{reached} Do less at once, or {raise_it}."
    stop = "/stop" if for_user else "stop_service"
    return (
        f"{reached} Running services hold processes: {services}. End what is not needed ({stop}), or"
        f" {raise_it}."
    )


def _is_root() -> bool:
    return hasattr(os, "getuid") and os.getuid() == 0


def _list_services(session: Session) -> str:
    """Return the running services in words."""
    commands = session.plugin(BackgroundCommands)
    running = [] if commands is None else list(commands.running())
    named = [service.title for service in running[:MAX_SERVICES]]
    if len(running) > MAX_SERVICES:
        named.append(f"and {len(running) - MAX_SERVICES} more")
    return ", ".join(named)
