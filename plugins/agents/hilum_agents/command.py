"""The command ``hilum agents``; ``/agents`` in a session has the same actions."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hilum_agents.command_context import Watch


def main(argv: Sequence[str], *, watch: Watch | None = None, asks: bool = False) -> int:
    """Run ``hilum agents`` and return its exit code.

    Args:
        argv: Action and arguments.
        watch: A function that displays agents while they run; by default, nothing is displayed.
        asks: Whether ``watch`` asks the user to approve calls.
    """
    # Importing modules creates no garbage, so garbage collection would only cost time, as in `hilum
    # run`. The imports are inside the function, so that they run after the threshold for garbage
    # collection is raised.
    gc.set_threshold(100_000, 20, 20)
    import trio
    from hilum import UsageError
    from hilum.settings import load

    from hilum_agents.command_context import CommandContext, take_option
    from hilum_agents.dispatch import run
    from hilum_agents.settings import AgentsSettings

    arguments, given = take_option(argv, ("--workspace", "-C"))
    folder = Path(os.path.realpath(os.path.expanduser(given or ".")))
    if not folder.is_dir():
        raise UsageError(f"There is no folder {given}.", hint="Pass an existing folder.")
    settings = load([AgentsSettings], workspace=folder, known=None).get(AgentsSettings)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    context = CommandContext(
        folder,
        settings,
        sys.stdout,
        ask=_ask if is_terminal else None,
        watch=watch,
        asks=asks,
    )
    code = trio.run(run, arguments, context)
    sys.stdout.flush()
    return code


def _ask(question: str) -> str:
    """Ask a question on the terminal and return the answer; at end-of-file, an empty string."""
    from hilum.command import ask_line  # late, as in ``main``

    return ask_line(f"{question} ")
