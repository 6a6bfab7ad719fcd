"""Reads the configuration files of servers with the kernel's lenient reader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
from hilum import config_files
from hilum.config_files import UnreadableFile, kind_of, replace_surrogates

from hilum_mcp.server_config import ConfigMistake

__all__ = ["LoadedFile", "UnreadableFile", "kind_of", "load_file", "replace_surrogates"]


@attrs.define
class LoadedFile:
    """The content of a configuration file.

    Args:
        data: The mapping in the file.
        mistakes: Mistakes that do not prevent the rest of the file from being read.
        find_line: A function that returns the line number of the key at a path of keys, or of the
            nearest enclosing key; 0 if neither is known.
    """

    data: dict[str, Any]
    mistakes: list[ConfigMistake]
    find_line: Callable[[Sequence[str]], int]


def load_file(path: Path) -> LoadedFile:
    """Read a configuration file; see ``hilum.config_files.load_file``.

    Raises:
        UnreadableFile: The file is missing, too large, malformed, or not a mapping.
    """
    loaded = config_files.load_file(path, "servers")
    mistakes = [ConfigMistake(path, "", each.reason, each.line) for each in loaded.mistakes]
    return LoadedFile(loaded.data, mistakes, loaded.find_line)
