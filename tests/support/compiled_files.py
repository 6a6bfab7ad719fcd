"""Compiles the files of this repository once for all workers of a test run.

After a checkout nothing is compiled. All workers import the same files in the same order, so that
each of them would compile almost every file: four times half a minute of processor time. Instead,
each worker compiles its share of the files before it imports any.
"""

import compileall
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

# Folders of the packages. Programs that tests start import most of their modules, too.
_SOURCES = ("kernel", "plugins", "contrib", "tests/support")
_TESTS = ("tests", "contrib")
# The cases of hilum-eval are data: a compiled file would be a change in their projects.
_NOT_IMPORTED = {"suite"}


def compile_share(config: pytest.Config, number: int, workers: int) -> None:
    """Compile a worker's share of the files that are not compiled yet.

    Errors in a file are left to whoever imports it.

    Args:
        config: The configuration of the worker.
        number: Number of the worker, from 0.
        workers: How many workers there are.
    """
    if sys.dont_write_bytecode:
        return
    for path in _list_files(config.rootpath, _TESTS, "test_*.py")[number::workers]:
        _compile_test(config, path)
    for path in _list_files(config.rootpath, _SOURCES, "*.py")[number::workers]:
        compileall.compile_file(path, quiet=2)


def _list_files(root: Path, folders: Iterable[str], pattern: str) -> list[Path]:
    """Return the files of a pattern in an order that is the same in each worker."""
    found = [path for folder in folders for path in (root / folder).rglob(pattern)]
    return sorted(path for path in found if _NOT_IMPORTED.isdisjoint(path.parts))


def _compile_test(config: pytest.Config, path: Path) -> None:
    """Compile a test file as pytest does, with assertions that show their values.

    Only whether a compiled file exists is checked here. pytest itself checks whether it is current.
    """
    folder = rewrite.get_cache_dir(path)
    compiled = folder / f"{path.stem}{rewrite.PYC_TAIL}"
    if compiled.exists() or not rewrite.try_makedirs(folder):
        return
    try:
        source_hash, code = rewrite._rewrite_test(path, config)
    except (OSError, SyntaxError, ValueError):
        return
    rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, compiled)
