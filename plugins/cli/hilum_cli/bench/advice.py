"""What the user can do about the figures of ``hilum bench``."""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from hilum_cli.bench.project_copy import ProjectCopy

SLOW_STATUS = 60.0
"""Milliseconds of ``git status`` from which advice is given."""
SLOW_SANDBOX = 15.0
"""Milliseconds that the sandbox adds to a command from which advice is given."""
SLOW_START = 2.5
"""Ratio of hilum's start to that of the bare loop from which advice is given."""
_WATCHES = Path("/proc/sys/fs/inotify/max_user_watches")
_ENOUGH_WATCHES = 524_288
_RUFF_FILES = ("ruff.toml", ".ruff.toml")
_ENVIRONMENTS = (".venv", "venv")


class Facts(NamedTuple):
    """What the advice depends on.

    Attributes:
        project: The copy of the project.
        source: The user's project.
        times: The milliseconds of hilum by measurement; ``unguarded`` is a command without sandbox.
        bare: The milliseconds of the bare loop.
        status: Milliseconds of ``git status``; 0 without a repository.
        has_untracked_cache: Whether Git caches untracked files in the user's repository.
        load: The load average before the measurement.
    """

    project: ProjectCopy
    source: Path
    times: Mapping[str, float]
    bare: Mapping[str, float]
    status: float
    has_untracked_cache: bool
    load: float


def find_advice(facts: Facts) -> list[str]:
    """Return advice, one text of one or two sentences each; empty if there is none."""
    return [*_about_machine(facts), *_about_sandbox(facts), *_about_project(facts)]


def is_busy(facts: Facts) -> bool:
    """Return whether other programs made the times longer, so that they say little."""
    return facts.load > (os.cpu_count() or 1)


def _about_machine(facts: Facts) -> Iterator[str]:
    if is_busy(facts):
        yield (
            f"The machine is busy (load {facts.load:.1f} on {os.cpu_count()} processors), so all"
            " figures are too high, and other advice may be missing. Run hilum bench again at a"
            " quiet moment."
        )
    elif facts.times["start"] > SLOW_START * facts.bare["start"]:
        yield (
            "hilum takes long to start. `hilum plugins` shows how long each plugin takes to load;"
            " the setting plugins.block leaves out those that you do not use."
        )


def _about_sandbox(facts: Facts) -> Iterator[str]:
    if sys.platform != "linux":
        return
    if not shutil.which("bwrap"):
        yield (
            "bubblewrap (bwrap) is not installed, so commands run in a weaker sandbox or in none."
            " Install it with the system's package manager; `hilum doctor` shows what is enforced."
        )
    elif "unguarded" in facts.times and not is_busy(facts):
        share = facts.times["command"] - facts.times["unguarded"]
        if share > SLOW_SANDBOX:
            yield (
                f"The sandbox takes {share:.0f} ms of each command. Each secret file in the project"
                " is covered separately, so keep such files together in one folder, or outside of"
                " the project. `hilum doctor` shows what the sandbox enforces."
            )
    # hilum leaves half of the watches to other programs.
    needed_watches = 2 * facts.project.folders
    watches = _read_number(_WATCHES)
    if watches is not None and watches < needed_watches:
        yield (
            f"hilum uses at most half of the {watches:,} folders that the system lets you watch, and"
            f" the project has {facts.project.folders:,}, so hilum searches all files after each"
            " command. Raise the limit: sudo sysctl"
            f" fs.inotify.max_user_watches={max(needed_watches, _ENOUGH_WATCHES)}"
        )


def _about_project(facts: Facts) -> Iterator[str]:
    if not facts.project.is_whole:
        yield "Only a part of the project was copied and measured: the rest is large or cannot be read."
    if facts.project.problem:
        yield f"{facts.project.problem}, so its files were measured without Git."
    elif not facts.project.is_repository:
        yield (
            "The project is not in a Git repository, so the model does not learn what has changed."
        )
    elif facts.status > SLOW_STATUS and not (facts.has_untracked_cache or is_busy(facts)):
        yield (
            f"git status takes {facts.status:.0f} ms, which each prompt waits for. Let Git remember"
            " untracked files: git config core.untrackedCache true"
        )
    if _configures_ruff(facts.project.folder) and not shutil.which("ruff"):
        yield _advise_ruff(facts.source)


def _advise_ruff(source: Path) -> str:
    """Return advice for a project that configures Ruff, which is not on the ``PATH``.

    Args:
        source: The user's project.
    """
    if any((source / name / "bin" / "ruff").exists() for name in _ENVIRONMENTS):
        return (
            "Ruff is installed only in the project's environment, which the copy does not have, so"
            " edits were measured with a check of the syntax. In the project itself, hilum uses Ruff"
            " once you trust the folder: hilum trust"
        )
    return (
        "The project configures Ruff, but Ruff is not installed, so edits are checked only for"
        " syntax. Install it in the project's environment: pip install ruff"
    )


def _configures_ruff(project: Path) -> bool:
    if any((project / name).is_file() for name in _RUFF_FILES):
        return True
    try:
        data = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    tools = data.get("tool")
    return isinstance(tools, dict) and "ruff" in tools


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
