"""Paths of one machine in a cassette of all: the workspace becomes ``{workspace}``, the home folder
``{home}``.

A text that holds the placeholder itself keeps it as ``{literal:workspace}``, so that every text
comes back as it was.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

_WORD = re.compile(r"\{((?:literal:)*)(workspace|home)\}")


class Places:
    """Puts placeholders for paths, and paths for placeholders.

    Args:
        workspace: The workspace folder; empty for none.
        home: The user's home folder; empty for none.
    """

    def __init__(
        self, workspace: str | os.PathLike[str] = "", home: str | os.PathLike[str] = ""
    ) -> None:
        self.workspace = os.fspath(workspace).rstrip("/\\")
        self.home = os.fspath(home).rstrip("/\\")
        named = dict.fromkeys(_spellings(self.workspace), "workspace")
        named |= {path: "home" for path in _spellings(self.home) if path not in named}
        self._abstract = _replacer(named)
        self._abstract_json = _replacer({_inside_json(path): name for path, name in named.items()})

    @classmethod
    def here(cls, workspace: str | os.PathLike[str] = "") -> Places:
        """Places of this machine and user; the workspace defaults to the current folder."""
        return cls(workspace or Path.cwd(), Path.home())

    def abstract(self, text: str) -> str:
        """Replace paths by placeholders."""
        return self._abstract(text)

    def abstract_json(self, text: str) -> str:
        """Replace paths inside JSON text by placeholders."""
        return self._abstract_json(text)

    def concrete(self, text: str) -> str:
        """Replace placeholders by paths; the reverse of ``abstract``.

        A place that is not known stays a placeholder.
        """
        if "{" in text:
            return self._fill(text, self.workspace, self.home)
        return text

    def concrete_json(self, text: str) -> str:
        """Replace placeholders inside JSON text by paths."""
        if "{" in text:
            return self._fill(text, _inside_json(self.workspace), _inside_json(self.home))
        return text

    def _fill(self, text: str, workspace: str, home: str) -> str:
        known = {"workspace": workspace, "home": home}

        def fill(match: re.Match[str]) -> str:
            literal, name = match.groups()
            if literal:
                return "{" + literal[len("literal:") :] + name + "}"
            return known[name] or match.group()

        return _WORD.sub(fill, text)


def _spellings(path: str) -> list[str]:
    """The path and where its links lead; nothing for a path too short to mean one place."""
    if len(Path(path).parts) < 2:
        return []
    real = os.path.realpath(path)
    if real == path or len(Path(real).parts) < 2:
        return [path]
    return [path, real]


def _inside_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _replacer(named: dict[str, str]) -> Callable[[str], str]:
    paths: Iterable[str] = sorted(named, key=len, reverse=True)
    # A path ends where no further letter of a name follows: /a/ws is not the beginning of /a/ws-2
    # or /a/ws.old.
    if named:
        pattern = re.compile("(" + "|".join(map(re.escape, paths)) + r")(?![\w-]|\.\w)")
    else:
        pattern = None

    def replace(text: str) -> str:
        if "{" in text:
            text = _WORD.sub(lambda match: "{literal:" + match.group()[1:], text)
        if pattern:
            return pattern.sub(lambda match: "{" + named[match.group()] + "}", text)
        return text

    return replace
