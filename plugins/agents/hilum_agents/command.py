"""``hilum agents``: the same actions as ``/agents`` in a session."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hilum_agents.managing import Watch


def main(argv: Sequence[str], *, watch: Watch | None = None, asks: bool = False) -> int:
    """Run ``hilum agents``; gives its exit code: 1 where something is not valid.

    Args:
        argv: Action and arguments.
        watch: Shows agents while they run; nothing does without.
        asks: Whether it can ask the user about their calls.
    """
    gc.set_threshold(
        100_000, 20, 20
    )  # as for `hilum run`: while modules are loaded there is no garbage
    import trio
    from hilum import SettingsError, UsageError
    from hilum_settings import App

    from hilum_agents.managing import Desk, run, take_option
    from hilum_agents.settings import AgentsSettings

    argv, given = take_option(argv, ("--workspace", "-C"))
    folder = Path(os.path.realpath(os.path.expanduser(given or ".")))
    if not folder.is_dir():
        raise UsageError(f"There is no folder {given}.", hint="Name an existing folder.")
    app = App(
        "hilum",
        error=SettingsError,
        hint="hilum config shows all settings and where they come from.",
    )
    settings = app.load([AgentsSettings], workspace=folder, known=None).get(AgentsSettings)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    code = trio.run(
        run,
        list(argv),
        Desk(folder, settings, sys.stdout, _ask if terminal else None, None, watch, asks),
    )
    sys.stdout.flush()
    return code


def _ask(question: str) -> str:
    """Ask at the terminal; an end of input is an empty answer."""
    try:
        return input(f"{question} ").strip()
    except EOFError:
        return ""
