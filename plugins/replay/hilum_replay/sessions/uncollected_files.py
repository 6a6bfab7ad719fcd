"""Which files pytest must neither import nor collect: those of recorded sessions.

A recording may come from somebody else and contains a whole project: its tests, its ``conftest.py``
and its settings of pytest. hilum runs recorded commands in the sandbox, but pytest would import these
files outside of it.
"""

from __future__ import annotations

import glob
import os
import sys
from importlib.machinery import all_suffixes
from pathlib import Path

import pytest

from hilum_replay.sessions.recording import SESSION_FILE


def is_recording(folder: Path) -> bool:
    """Return whether a folder counts as a recorded session.

    Anything with the name of the log is enough, also a link without a target or a damaged file: a
    recording that hilum refuses to replay is not imported either.
    """
    return os.path.lexists(folder / SESSION_FILE)


def find_recording(path: str | Path) -> Path | None:
    """Return the recording that contains a path or is one, also through links, or None."""
    # pytest normalizes `..` without following links, and Python follows them.
    for name in (os.path.abspath(path), os.path.realpath(path)):
        place = Path(name)
        for folder in (place, *place.parents):
            if is_recording(folder):
                return folder
    return None


def find_module(recording: Path) -> Path | None:
    """Return a Python module at the top of a recording, or None.

    hilum writes none there. pytest imports ``conftest.py`` in folders whose names begin with *test*
    before any plugin can ignore it, and a folder with ``__init__.py`` beside a test file is imported
    in place of an installed package with the same name.

    Raises:
        OSError: The folder cannot be listed. Python may be able to import from it nevertheless.
    """
    suffixes = tuple(all_suffixes())
    names = sorted(os.listdir(recording))
    return next((recording / name for name in names if name.endswith(suffixes)), None)


def check_start(config: pytest.Config) -> None:
    """Check where pytest starts, before it imports the first file.

    Args:
        config: The configuration, with parsed options and before any ``conftest.py`` is loaded.

    Raises:
        pytest.UsageError: The current folder, an argument or the settings file of pytest is in a
            recording, or a recording from which pytest would load ``conftest.py`` contains modules.
    """
    options = config.known_args_namespace
    current = config.invocation_params.dir
    arguments = [str(argument) for argument in options.file_or_dir]
    paths = [path for argument in arguments for path in _argument_paths(argument, current)]
    # pytest searches the folder at the normalized path.
    starts = [path for path in map(os.path.abspath, paths) if os.path.exists(path)]
    if options.pyargs:
        paths += [path for argument in arguments for path in _module_paths(argument)]
    if not starts:
        for pattern in config.getini("testpaths"):
            starts += glob.glob(os.path.join(current, pattern), recursive=True)
        starts.append(str(current))
    if config.inipath is not None:
        paths.append(str(config.inipath))
    for path in (str(current), str(config.rootpath), *paths, *starts):
        recording = find_recording(path)
        if recording is not None:
            raise pytest.UsageError(
                f"{recording} is a recorded session, and pytest neither imports nor collects its"
                f" files. Replay it outside of this folder: pytest --hilum-corpus"
                f" {recording.parent}. If {SESSION_FILE} in it is a file of your own, run pytest"
                f" with `-p no:hilum_corpus`."
            )
    for start in starts:
        _check_folders_with_early_conftest(Path(start))


def describe_module(module: Path) -> str:
    """Return the error for a Python module at the top of a recording."""
    return (
        f"The recorded session {module.parent} contains {module.name}, which hilum did not write and"
        " pytest could import outside of the sandbox. Delete this file if you do not need it, or do"
        " not run this recording."
    )


def _argument_paths(argument: str, current: Path) -> list[str]:
    # pytest cuts off `::name` and, depending on its version, `[parameters]` first.
    names = {argument.partition("::")[0], argument.partition("[")[0].partition("::")[0]}
    return [os.path.join(current, name) for name in sorted(names)]


def _module_paths(argument: str) -> list[str]:
    # To find a module in a package, Python imports the package.
    parts = argument.partition("::")[0].split(".")
    return [os.path.join(folder, *parts) for folder in sys.path]


def _check_folders_with_early_conftest(start: Path) -> None:
    if not os.path.isdir(start):
        return
    for folder in start.glob("test*"):
        if not os.path.isdir(folder) or find_recording(folder) is None:
            continue
        module = find_module(folder)
        if module is not None:
            raise pytest.UsageError(describe_module(module))
