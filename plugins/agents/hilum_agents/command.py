"""``hilum agents``: the same actions as ``/agents`` in a session."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str]) -> int:
    """Run ``hilum agents``; gives its exit code: 1 where something is not valid."""
    gc.set_threshold(100_000, 20, 20)  # as for `hilum run`: while modules are loaded there is no garbage
    import trio
    from hilum import SettingsError, UsageError
    from hilum_settings import App

    from hilum_agents.managing import Desk, run, take_option
    from hilum_agents.settings import AgentsSettings

    argv, given = take_option(argv, ("--workspace", "-C"))
    folder = Path(os.path.realpath(os.path.expanduser(given or ".")))
    if not folder.is_dir():
        raise UsageError(f"There is no folder {given}.", hint="Name an existing folder.")
    app = App("hilum", error=SettingsError, hint="hilum config shows all settings and where they come from.")
    settings = app.load([AgentsSettings], workspace=folder, known=None).get(AgentsSettings)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    code = trio.run(run, list(argv), Desk(folder, settings, sys.stdout, ask=_ask if terminal else None))
    sys.stdout.flush()
    return code


def _ask(question: str) -> str:
    """Ask at the terminal; an end of input is an empty answer."""
    try:
        return input(f"{question} ").strip()
    except EOFError:
        return ""
